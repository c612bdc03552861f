/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/cards.h - how the host's collectives meet on the CPU, if all ranks map each other.
 *
 * cards.c: who has come, and do all make the same call.  moves.c, reductions.c and direct.c: how
 * the data moves.
 * Other comms use the rounds of a team (include/oriel/device/exchange.h).
 */
#ifndef ORI_COLL_CARDS_H
#define ORI_COLL_CARDS_H

#include <oriel/device/coll.h>

struct oriel_comm;

#define ORI_CARDS_RING 32u               /* calls that have their own card and area */
#define ORI_CARD_INLINE 32u              /* bytes of data in a card */
#define ORI_CARD_AREA_BYTES 4096u        /* of short data beside a card */
#define ORI_CARD_BELT_BYTES (256u << 10) /* of long data that is under way */
#define ORI_CARDS_RANKS 256              /* at most: the pieces of a belt stay useful */

/* How a long reduction goes. */
#define ORI_CARDS_ONCE 1   /* every rank combines all */
#define ORI_CARDS_PIECES 2 /* each one combines a piece: over the belts */
#define ORI_CARDS_ROUNDS 3 /* the same in rounds of the team */
#define ORI_CARDS_DIRECT 4 /* straight between windows */

/* A call of a rank.  One cache line: the number and short data come together. */
struct ori_card {
	uint64_t number; /* of the call, from 1 on; stored last */
	struct ori_terms call;
	uint32_t history; /* of the calls since the ranks met last: see cards.c */
	uint8_t meets;    /* this rank waits for the cards of all */
	uint8_t late;     /* 0, or minus a status of such a call that others may not know */
	uint8_t pad[2];
	uint8_t data[ORI_CARD_INLINE];
};
static_assert(sizeof(struct ori_card) == 64, "a card is one cache line");

/* The memory of a rank.  Only its owner writes it; all ranks read it. */
struct ori_desk {
	uint64_t step; /* of a long call: its number in the upper half, steps in the lower */
	uint8_t pad[ORIEL_LINE_BYTES - 8];
	struct ori_card card[ORI_CARDS_RING];
	uint8_t area[ORI_CARDS_RING][ORI_CARD_AREA_BYTES];
	uint8_t belt[2][ORI_CARD_BELT_BYTES];
};

/* What a rank keeps for the comm's team. */
struct ori_cards {
	struct oriel_comm *comm;
	const struct oriel_team_dev *team; /* NULL: this comm has no desks */
	uint64_t desk_off;                 /* of the desk in every rank's window */
	uint32_t once;                     /* host_once of the tuner */
	int strict;                        /* every call is a meeting; the same on all ranks */
	uint64_t calls;                    /* number of the present call */
	uint64_t met;                      /* number of the last meeting */
	uint64_t meetings;
	uint32_t history;
	uint8_t late;
	/* the present call */
	const char *name;
	struct ori_exchange x;
	int told;      /* its error has a text already */
	int in_rounds; /* it went on in rounds of the team */
	int way;       /* ORI_CARDS_* of the last long reduction, for tests */
};

static inline int ori_cards_rank(const struct ori_cards *c)
{
	return c->team->win.comm.rank;
}

static inline int ori_cards_nranks(const struct ori_cards *c)
{
	return c->team->win.comm.nranks;
}

/* What `rank` has at an offset of its window. */
static inline uint8_t *ori_cards_at(const struct ori_cards *c, int rank, uint64_t off)
{
	return ori_peer_entry(&c->team->win, rank)->buffer + off;
}

/* The rank that comes k places after this one.  So ranks do not all begin with the same one. */
static inline int ori_cards_next(const struct ori_cards *c, int k)
{
	int r = ori_cards_rank(c) + k;

	return r < ori_cards_nranks(c) ? r : r - ori_cards_nranks(c);
}

/* ---- cards.c --------------------------------------------------------------------------------- */

/* Begins a call: 0, or the failure of the team or comm. */
int ori_cards_begin(struct ori_cards *, const char *name, const struct ori_terms *call);
/* Must the present call be a meeting, whatever it does?  The same on all ranks. */
int ori_cards_must_meet(const struct ori_cards *);
/* Fills the place for short data of this rank, before its card is written. */
void ori_cards_show(const struct ori_cards *, const uint8_t *data, uint64_t bytes);
/* Offset of that place in every rank's window. */
uint64_t ori_cards_shown_off(const struct ori_cards *, uint64_t bytes);
/* Writes this rank's card.  meets: ori_cards_meet() follows. */
void ori_cards_write(struct ori_cards *, int meets);
/*
 * Waits for the cards of all ranks.  Returns 0 if all make the same call.  Otherwise the reason is
 * in channel 0 of the team, or the error has been told.
 */
int ori_cards_meet(struct ori_cards *);
/*
 * Instead of a meeting: waits for the card of rank `root`, which may be this one.  If its call is
 * another one, waits for all cards, and returns as ori_cards_meet() does.
 */
int ori_cards_follow(struct ori_cards *, int root);
/* Instead of a meeting, by a rank that refuses the call: notes its status. */
void ori_cards_leave(struct ori_cards *, int status);

/* Long calls.  Their steps begin before the card is written. */
void ori_cards_begin_steps(struct ori_cards *);
/* Tells all ranks that this rank has made so many steps. */
void ori_cards_step(struct ori_cards *, uint32_t steps);
/* Waits until a rank, or every rank, has made so many steps. */
int ori_cards_await_step(struct ori_cards *, int rank, uint32_t steps);
int ori_cards_await_steps(struct ori_cards *, uint32_t steps);
/*
 * Offset in every rank's window of the memory for long data of the present call.  It may be filled
 * before the card is written.  The call must be a meeting.
 */
uint64_t ori_cards_belt_off(const struct ori_cards *);
/* After a meeting: the present call goes on in rounds of the team. */
int ori_cards_rounds(struct ori_cards *, const uint8_t *send, uint8_t *recv);

/* ---- reductions.c: after ori_cards_begin() --------------------------------------------------- */

int ori_cards_allreduce(struct ori_cards *, const uint8_t *send, uint8_t *recv, uint64_t bytes);
/* bytes: of a block. */
int ori_cards_reducescatter(struct ori_cards *, const uint8_t *send, uint8_t *recv, uint64_t bytes);

/* ---- moves.c --------------------------------------------------------------------------------- */

/* One call.  Buffers as in ori_coll_run(). */
int ori_cards_run(struct ori_cards *, const char *name, const struct ori_terms *call,
		  const uint8_t *send, uint8_t *recv);

#endif
