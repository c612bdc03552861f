/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/reductions.c - all-reduce and reduce-scatter of the host among ranks of one node, after
 * their cards (cards.c).
 *
 * Results do not depend on the way of the data: elements are combined in the order of the ranks.
 *
 * Called by moves.c on the thread of the call.
 */
#include "../../kernels/loops.h"
#include "../tune/plan.h"
#include "direct.h"

/*
 * Up to here the elements of two ranks come with their cards, and both combine all.  Two ranks that
 * have a core each meet in less time than it takes to copy more.
 */
#define PAIR_BYTES 512u
/*
 * Up to here the data of a reduce-scatter comes over the belt, also that in windows: the copy takes
 * less time than the second meeting.
 */
#define BELT_BYTES (64u << 10)
#define BELT_PAIR_BYTES (16u << 10)
/* Elements that a rank combines for all are copied to its belt while the first cache has them. */
#define TILE_BYTES 4096u

static uint64_t nranks_of(const struct ori_cards *c)
{
	return (uint32_t)ori_cards_nranks(c);
}

/* Bytes may be 0, and then pointers may be NULL. */
static void copy(void *to, const void *from, uint64_t bytes)
{
	if (bytes)
		memcpy(to, from, bytes);
}

/* ---- in one step ----------------------------------------------------------------------------- */

/* The data of every rank: `mine`, and what the others have at an offset of their window. */
static struct ori_sources sources(const struct ori_cards *c, uint64_t off, const uint8_t *mine)
{
	struct ori_sources s = { .win = &c->team->win,
				 .mine = mine,
				 .mapped_off = off,
				 .own = ori_cards_rank(c),
				 .n = ori_cards_nranks(c) };

	return s;
}

static void combine(const struct ori_cards *c, uint8_t *to, const struct ori_sources *from,
		    uint64_t bytes)
{
	struct ori_reducer how = ori_any_reducer(c->x.call.type, c->x.call.op);

	ori_reducer_run(how, c->x.g, to, from, ori_coll_elements(how, bytes));
}

/* Where a rank shows up to ORI_CARD_BELT_BYTES to all: an offset in every rank's window. */
static uint64_t shown_off(const struct ori_cards *c, uint64_t bytes)
{
	return bytes <= ORI_CARD_AREA_BYTES ? ori_cards_shown_off(c, bytes) : ori_cards_belt_off(c);
}

/*
 * Every rank shows all that it gives, `shown` bytes, and combines its own part of `bytes`, which
 * begins at `part`.
 */
static int reduce_once(struct ori_cards *c, const uint8_t *send, uint8_t *recv, uint64_t shown,
		       uint64_t part, uint64_t bytes)
{
	uint64_t off = shown_off(c, shown);
	struct ori_sources from = sources(c, off + part, send + part);
	int err;

	copy(c->team->win.buffer + off, send, shown);
	ori_cards_write(c, 1);
	err = ori_cards_meet(c);
	if (!err && bytes)
		combine(c, recv, &from, bytes);
	return err;
}

/* ---- in pieces ------------------------------------------------------------------------------- */

/* An all-reduce through the belts: each rank combines a piece, and its result goes to all. */
struct pieces {
	const uint8_t *send;
	uint8_t *recv;
	uint64_t bytes; /* of all elements */
	uint64_t piece; /* at most: the last ones may be shorter */
	uint64_t belt;  /* pieces by rank, then the result of this rank's piece */
};

static uint64_t piece_off(const struct pieces *p, int rank)
{
	return (uint32_t)rank * p->piece;
}

static uint64_t piece_bytes(const struct pieces *p, int rank)
{
	return ori_coll_share(p->bytes, p->piece, rank);
}

static void put_pieces(const struct ori_cards *c, const struct pieces *p)
{
	for (int i = 1; i < ori_cards_nranks(c); i++) {
		int r = ori_cards_next(c, i);

		copy(c->team->win.buffer + p->belt + piece_off(p, r), p->send + piece_off(p, r),
		     piece_bytes(p, r));
	}
}

/* Combines this rank's piece, and shows the result. */
static void combine_piece(const struct ori_cards *c, const struct pieces *p)
{
	uint64_t at = piece_off(p, ori_cards_rank(c)), n;
	uint64_t end = at + piece_bytes(p, ori_cards_rank(c));
	uint8_t *shown = c->team->win.buffer + p->belt + nranks_of(c) * p->piece;

	for (; at < end; at += n, shown += n) {
		struct ori_sources from = sources(c, p->belt + at, p->send + at);

		n = ori_coll_least(end - at, TILE_BYTES);
		combine(c, p->recv + at, &from, n);
		memcpy(shown, p->recv + at, n);
	}
}

static void take_results(const struct ori_cards *c, const struct pieces *p)
{
	for (int i = 1; i < ori_cards_nranks(c); i++) {
		int r = ori_cards_next(c, i);

		copy(p->recv + piece_off(p, r),
		     ori_cards_at(c, r, p->belt + nranks_of(c) * p->piece), piece_bytes(p, r));
	}
}

/* All ranks have put their pieces.  `step` is the next one. */
static int reduce_pieces(struct ori_cards *c, const struct pieces *p, uint32_t step)
{
	int err;

	combine_piece(c, p);
	ori_cards_step(c, step);
	err = ori_cards_await_steps(c, step);
	if (!err)
		take_results(c, p);
	return err;
}

/* ---- long calls ------------------------------------------------------------------------------ */

/* How data moves that is not in windows. */
struct staged {
	int way; /* ORI_CARDS_* */
	/* ORI_CARDS_ONCE: what a rank gives is shown at `off`; this one combines from `part` on */
	uint64_t off, shown, part, bytes;
	struct pieces p;
};

static void put_staged(const struct ori_cards *c, const struct staged *t)
{
	if (t->way == ORI_CARDS_ONCE)
		memcpy(c->team->win.buffer + t->off, t->p.send, t->shown);
	else if (t->way == ORI_CARDS_PIECES)
		put_pieces(c, &t->p);
}

static int reduce_staged(struct ori_cards *c, const struct staged *t, uint32_t step)
{
	struct ori_sources from = sources(c, t->off + t->part, t->p.send + t->part);

	if (t->way == ORI_CARDS_ROUNDS)
		return ori_cards_rounds(c, t->p.send, t->p.recv);
	if (t->way == ORI_CARDS_PIECES)
		return reduce_pieces(c, &t->p, step);
	combine(c, t->p.recv, &from, t->bytes);
	return 0;
}

/*
 * Writes the card and meets.  A rank that finds its buffers puts nothing on its desk, unless
 * another one does not find its.  *step becomes the next step of a staged call, or 0: all ranks
 * have found their buffers.
 */
static int meet_long(struct ori_cards *c, const struct staged *t, int found, uint32_t *step)
{
	int all = 0, n = ori_cards_nranks(c), err;

	if (!found)
		put_staged(c, t);
	ori_cards_write(c, 1);
	err = ori_cards_meet(c);
	if (err)
		return err;
	for (int r = 0; r < n; r++)
		all += ori_direct_is_found(c, r);
	*step = all < n;
	c->way = all < n ? t->way : ORI_CARDS_DIRECT;
	if (!all || all == n || t->way == ORI_CARDS_ROUNDS)
		return 0;
	if (found)
		put_staged(c, t);
	ori_cards_step(c, 1);
	*step = 2;
	return ori_cards_await_steps(c, 1);
}

/* ---- long all-reduce ------------------------------------------------------------------------- */

static_assert(ORI_TUNE_ONCE_MAX <= ORI_CARD_BELT_BYTES, "all elements fit on the belt");

/*
 * Up to c->once every rank shows all its elements and combines those of all: one meeting instead of
 * three.
 */
static struct staged staged_of(const struct ori_cards *c, const uint8_t *send, uint8_t *recv,
			       uint64_t bytes)
{
	uint64_t n = nranks_of(c);
	uint64_t piece = ((bytes + n - 1) / n + 63) & ~(uint64_t)63;
	struct staged t = { .way = ORI_CARDS_ROUNDS,
			    .shown = bytes,
			    .bytes = bytes,
			    .p = { send, recv, bytes, piece, ori_cards_belt_off(c) } };

	if (bytes <= ORI_CARD_AREA_BYTES || bytes <= c->once) {
		t.way = ORI_CARDS_ONCE;
		t.off = shown_off(c, bytes);
	} else if ((n + 1) * piece <= ORI_CARD_BELT_BYTES) {
		t.way = ORI_CARDS_PIECES;
	}
	return t;
}

static int allreduce_long(struct ori_cards *c, const uint8_t *send, uint8_t *recv, uint64_t bytes)
{
	struct staged t = staged_of(c, send, recv, bytes);
	uint32_t step = 0;
	int err;

	ori_cards_begin_steps(c);
	err = meet_long(c, &t, ori_direct_find(c, send, recv, bytes), &step);
	if (err)
		return err;
	return step ? reduce_staged(c, &t, step) : ori_direct_allreduce(c, bytes);
}

/* ---- long reduce-scatter --------------------------------------------------------------------- */

/* The receive buffer is of no interest to other ranks, so it may lie anywhere. */
static int reducescatter_long(struct ori_cards *c, const uint8_t *send, uint8_t *recv,
			      uint64_t bytes)
{
	uint64_t all = bytes * nranks_of(c);
	struct staged t = { .way = all <= ORI_CARD_BELT_BYTES ? ORI_CARDS_ONCE : ORI_CARDS_ROUNDS,
			    .off = ori_cards_belt_off(c),
			    .shown = all,
			    .part = bytes * (uint32_t)ori_cards_rank(c),
			    .bytes = bytes,
			    .p = { .send = send, .recv = recv } };
	uint32_t step = 0;
	int err;

	ori_cards_begin_steps(c);
	err = meet_long(c, &t, ori_direct_find(c, send, NULL, all), &step);
	if (err)
		return err;
	return step ? reduce_staged(c, &t, step) : ori_direct_reducescatter(c, send, recv, bytes);
}

/* ---- calls ----------------------------------------------------------------------------------- */

int ori_cards_reducescatter(struct ori_cards *c, const uint8_t *send, uint8_t *recv, uint64_t bytes)
{
	uint64_t n = nranks_of(c), all = bytes * n;

	if (all > (n > 2 ? BELT_BYTES : BELT_PAIR_BYTES))
		return reducescatter_long(c, send, recv, bytes);
	return reduce_once(c, send, recv, all, bytes * (uint32_t)ori_cards_rank(c), bytes);
}

int ori_cards_allreduce(struct ori_cards *c, const uint8_t *send, uint8_t *recv, uint64_t bytes)
{
	if (bytes <= (nranks_of(c) > 2 ? ORI_CARD_AREA_BYTES : PAIR_BYTES))
		return reduce_once(c, send, recv, bytes, 0, bytes);
	return allreduce_long(c, send, recv, bytes);
}
