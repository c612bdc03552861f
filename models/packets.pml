/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * models/packets.pml - packets in marked cells (include/oriel/device/packet_cells.h).
 *
 * A ring of CELLS cells, packets of two cells.  Two threads of the receiver take one cell each,
 * meet, and the leader gives the credit.  Both words of a cell have a mark with the lap; the sender
 * stores them in any order, and the cells in any order.  The lap has one bit here (7 in the code):
 * a cell that is waited for holds nothing or the mark of the lap before.
 *
 * Safety: a thread that finds its mark has the data of this packet, both halves.
 * Progress: all packets arrive.
 *
 * mutants: 1 2 3
 *   1  the leader gives the credit before the threads have met
 *   2  the receiver looks at the mark of one word only
 *   3  the sender does not wait for the credit
 */
#define CELLS 4
#define PACKETS 6
#define TAKERS 2
#define MARK(count) (2 + ((count) / CELLS) % 2) /* never 0: memory starts with zeros */

byte low_mark[CELLS], high_mark[CELLS], low[CELLS], high[CELLS];
byte credit;          /* cells that the receiver has taken, as the sender knows it */
byte met, generation; /* the meeting of the takers */

/* ori_cell_store(): two words, each with data and mark, in any order. */
inline store_low(count)
{
	d_step {
		low[(count) % CELLS] = count;
		low_mark[(count) % CELLS] = MARK(count)
	}
}

inline store_high(count)
{
	d_step {
		high[(count) % CELLS] = count;
		high_mark[(count) % CELLS] = MARK(count)
	}
}

inline ori_cell_store(count)
{
	if
	:: store_low(count); store_high(count)
	:: store_high(count); store_low(count)
	fi
}

/* ori_cells_send() */
active proctype sender()
{
	byte count;

	do
	:: count < PACKETS * TAKERS ->
#if MUTANT != 3
		credit + CELLS >= count + TAKERS; /* ori_cells_wait_room() */
#endif
		if
		:: ori_cell_store(count); ori_cell_store(count + 1)
		:: ori_cell_store(count + 1); ori_cell_store(count)
		fi;
		count = count + TAKERS
	:: else -> break
	od
}

inline give_credit()
{
	if
	:: me == 0 -> credit = count + TAKERS
	:: else
	fi
}

/* ori_group_agree_any(): the last to come lets all go on. */
inline meet()
{
	atomic {
		round = generation;
		met++;
		if
		:: met == TAKERS -> met = 0; generation++
		:: else
		fi
	}
	generation != round
}

/* ori_cells_recv(), one thread of the group. */
proctype taker(byte me)
{
	byte count, round, at;

	do
	:: count < PACKETS * TAKERS ->
		at = count + me;
		/*
		 * ori_cell_wait().  The code loads marks and data at once.  Here the data is read
		 * after the marks, so the model allows more than the code does.
		 */
#if MUTANT == 2
		low_mark[at % CELLS] == MARK(at);
#else
		low_mark[at % CELLS] == MARK(at) && high_mark[at % CELLS] == MARK(at);
#endif
		d_step {
			assert(low[at % CELLS] == at);
			assert(high[at % CELLS] == at)
		}
#if MUTANT == 1
		give_credit();
#endif
		meet();
#if MUTANT != 1
		give_credit();
#endif
		count = count + TAKERS
	:: else -> break
	od
}

init
{
	atomic {
		run taker(0);
		run taker(1)
	}
}
