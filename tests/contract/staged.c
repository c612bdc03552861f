/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/staged.c - contract of staged send and receive: any size through slots that wrap,
 * several channels at once, both directions, self, and sizes that do not match.
 */
#include "contract.h"

#define SLOT 256 /* bytes of a staging slot in all windows here */
#define MAX_MESSAGE 2048

/* Sizes round the slot, round the depth, and none at all. */
ORIEL_DEV uint64_t message_bytes(int i)
{
	const uint64_t sizes[12] = { 0,    1,        15,       16,  17,   SLOT - 1,
				     SLOT, SLOT + 1, 2 * SLOT, 769, 1500, 8 };

	return sizes[i % 12];
}

/*
 * Blocks in pairs: the even one sends on channel block / 2 to a neighbour, the odd one receives on
 * it.  Both live at once, so a message may be longer than all slots together.
 */
CONTRACT_KERNEL(stream_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int channel = (int)g.block / 2, sends = g.block % 2 == 0, me = oriel_rank(w), err = 0, i;
	int right = contract_right(w, 1 + channel), left = contract_left(w, 1 + channel);
	uint8_t *mine = a->local + (uint64_t)g.block * (MAX_MESSAGE + 64);
	uint64_t wrong = 0, bytes, round;

	for (i = 0; i < a->rounds && !err; i++) {
		bytes = message_bytes(i * (int)a->value);
		round = (uint64_t)(channel * 1000 + i);
		if (sends) {
			contract_fill(g, mine + i % 3, bytes, round, me, right);
			err = oriel_group_sync(g);
			if (!err)
				err = oriel_send(w, g, right, channel, mine + i % 3, bytes);
		} else {
			contract_set(g, mine, MAX_MESSAGE + 64, CONTRACT_GUARD);
			err = oriel_group_sync(g);
			if (!err)
				err = oriel_recv(w, g, left, channel, mine + 16 + i % 5, bytes);
			if (!err) {
				wrong += contract_not(g, mine, (uint64_t)(16 + i % 5),
						      CONTRACT_GUARD);
				wrong += contract_wrong(g, mine + 16 + i % 5, bytes, round, left,
							me);
				wrong += contract_not(g, mine + 16 + i % 5 + bytes,
						      MAX_MESSAGE - bytes, CONTRACT_GUARD);
				err = oriel_group_sync(g);
			}
		}
	}
	contract_report(a, g, err, wrong);
}

static void stream(struct contract_env *e, int channels, int rounds)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, rounds);
	a.value = a.rounds < 24 ? 5 : 1;
	contract_launch(e, &stream_kernel, 2 * channels, &a);
	contract_launch(e, &stream_kernel, 2 * channels, &a); /* cursors outlive a launch */
}

CASE(staged_depth_1, c.blocks = 2, c.window.staging_slot_bytes = SLOT, c.window.staging_depth = 1)
{
	stream(e, 1, 36);
}

CASE(staged_depth_2, c.blocks = 2, c.window.staging_slot_bytes = SLOT, c.window.staging_depth = 2)
{
	stream(e, 1, 36);
}

CASE(staged_depth_4, c.blocks = 2, c.shape = CONTRACT_FULL, c.window.staging_slot_bytes = SLOT,
     c.window.staging_depth = 4)
{
	stream(e, 1, 48);
}

CASE(staged_odd_slots, c.blocks = 2, c.window.staging_slot_bytes = 112, c.window.staging_depth = 8)
{
	stream(e, 1, 36);
}

CASE(staged_channels, c.blocks = 8, c.window.staging_slot_bytes = SLOT, c.window.staging_depth = 2,
     c.window.staging_channels = 4)
{
	stream(e, 4, 24);
}

CASE(staged_over_64_bits, c.blocks = 2, c.window.staging_slot_bytes = SLOT,
     c.window.staging_depth = 4, c.window.first_count = UINT64_MAX - 20)
{
	stream(e, 1, 48);
}

CASE(staged_over_32_bits, c.blocks = 2, c.window.staging_slot_bytes = SLOT,
     c.window.staging_depth = 4, c.window.first_count = UINT32_MAX - 20)
{
	stream(e, 1, 48);
}

/* ---- one block, both directions ------------------------------------------------------------ */

/* Every rank sends to all and receives from all; messages fit into the slots, self's too. */
CONTRACT_KERNEL(exchange_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), err = 0, i, k;
	uint64_t wrong = 0, bytes;

	for (i = 0; i < a->rounds && !err; i++) {
		bytes = message_bytes(i) % (4 * SLOT + 1);
		for (k = 0; k < n && !err; k++) {
			contract_fill(g, a->local, bytes, (uint64_t)i, me, contract_right(w, k));
			err = oriel_group_sync(g);
			if (!err) /* sent means the source may be written again */
				err = oriel_send(w, g, contract_right(w, k), 0, a->local, bytes);
			if (!err)
				err = oriel_group_sync(g);
		}
		for (k = 0; k < n && !err; k++) {
			err = oriel_recv(w, g, contract_left(w, k), 0, a->local + 8192, bytes);
			if (!err)
				wrong += contract_wrong(g, a->local + 8192, bytes, (uint64_t)i,
							contract_left(w, k), me);
			if (!err)
				err = oriel_group_sync(g);
		}
	}
	contract_report(a, g, err, wrong);
}

CASE(staged_exchange, c.window.staging_slot_bytes = SLOT, c.window.staging_depth = 4)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 36);
	contract_launch(e, &exchange_kernel, 1, &a);
}

/* ---- what must fail ------------------------------------------------------------------------ */

CONTRACT_KERNEL(send_kernel)
{
	contract_report(a, g, oriel_send(&a->win, g, a->peer, a->id, a->local, a->bytes), 0);
}

CONTRACT_KERNEL(recv_kernel)
{
	contract_report(a, g, oriel_recv(&a->win, g, a->peer, a->id, a->local + 4096, a->bytes), 0);
}

/* To self, so that one rank sees both ends.  The window is unusable on the receiver afterwards. */
static void mismatch(struct contract_env *e, uint64_t sent, uint64_t asked)
{
	struct contract_args a = contract_args(e);

	a.peer = e->rank;
	a.bytes = 100;
	contract_launch(e, &send_kernel, 1, &a);
	contract_launch(e, &recv_kernel, 1, &a);
	CHECK_EQ(oriel_window_status(e->window), 0);
	a.bytes = sent;
	contract_launch(e, &send_kernel, 1, &a);
	a.bytes = asked;
	contract_launch_expect(e, &recv_kernel, 1, &a, ORIEL_EMISMATCH);
	CHECK_EQ(oriel_window_status(e->window), ORIEL_EMISMATCH);
	contract_launch_expect(e, &recv_kernel, 1, &a, ORIEL_EMISMATCH);
	contract_launch_expect(e, &send_kernel, 1, &a, ORIEL_EMISMATCH);
	CHECK_EQ(contract_issued(e, e->comm, e->window,
				 oriel_window_put(e->window, e->rank, 0, &e->src, 0, 8, NULL)),
		 ORIEL_EMISMATCH);
	CHECK_EQ(oriel_comm_status(e->comm), 0); /* only the window is lost */
}

CASE(staged_too_short, c.window.staging_slot_bytes = SLOT, c.window.staging_depth = 4)
{
	mismatch(e, 50, 49);
}

CASE(staged_too_long, c.window.staging_slot_bytes = SLOT, c.window.staging_depth = 4)
{
	mismatch(e, SLOT - 1, SLOT + 1);
}

/* The first slot is as long as the receiver thinks; the message is not. */
CASE(staged_too_long_for_a_slot, c.window.staging_slot_bytes = SLOT, c.window.staging_depth = 4)
{
	mismatch(e, SLOT, SLOT + 1);
}

/* Between two ranks, the receiver asks for less than came. */
CASE(staged_mismatch_of_peers, c.min_ranks = 2, c.window.staging_slot_bytes = SLOT,
     c.window.staging_depth = 4)
{
	struct contract_args a = contract_args(e);

	a.bytes = 64;
	if (e->rank == 0) {
		a.peer = 1;
		contract_launch(e, &send_kernel, 1, &a);
	} else if (e->rank == 1) {
		a.bytes = 63;
		contract_launch_expect(e, &recv_kernel, 1, &a, ORIEL_EMISMATCH);
		CHECK_EQ(oriel_window_status(e->window), ORIEL_EMISMATCH);
	}
}

CASE(staged_not_asked_for, 0)
{
	struct contract_args a = contract_args(e);

	a.peer = e->rank;
	a.bytes = 8;
	contract_launch_expect(e, &send_kernel, 1, &a, ORIEL_EUNSUPPORTED);
	contract_launch_expect(e, &recv_kernel, 1, &a, ORIEL_EUNSUPPORTED);
	CHECK_EQ(oriel_window_status(e->window), 0);
}
