/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/direct.c - long data of the host's collectives that all ranks reach where it is.
 *
 * Windows have the same number on all ranks of a comm, and ranks of one node map them.  So a card
 * that has number and offset tells every rank where the data is, and nothing is copied twice.  The
 * copy over a belt costs more than its own time: each line of the belt must come back from the
 * caches of its readers before it is written again.
 *
 * A buffer belongs to its rank again when the call returns.  So the ranks meet after the copies.
 *
 * Called by moves.c and reductions.c on the thread of the call.
 */
#include "../../kernels/loops.h"
#include "../../window/window.h"
#include "direct.h"

/* Elements are combined and go to all ranks while the first cache has them. */
#define TILE_BYTES 4096u
#define NOWHERE (-1)

struct place {
	uint64_t off;
	int32_t window; /* its number, or NOWHERE */
	int32_t pad;
};

/* The data of a card of a long call. */
struct places {
	struct place send, recv;
};
static_assert(sizeof(struct places) <= ORI_CARD_INLINE, "places lie in the card");

static const struct places *places_of(const struct ori_cards *c, int rank)
{
	uint64_t off = ori_cards_shown_off(c, sizeof(struct places));

	return (const struct places *)(const void *)ori_cards_at(c, rank, off);
}

/* ---- before the meeting ---------------------------------------------------------------------- */

static int find(struct ori_cards *c, const uint8_t *data, uint64_t bytes, struct place *p)
{
	struct oriel_window *w = ori_window_covering(c->comm, data, bytes);

	p->window = w ? w->number : NOWHERE;
	p->off = w ? (uint64_t)(data - (const uint8_t *)w->buffer) : 0;
	return w != NULL;
}

int ori_direct_find(struct ori_cards *c, const uint8_t *send, const uint8_t *recv, uint64_t bytes)
{
	struct places p = { { 0, NOWHERE, 0 }, { 0, NOWHERE, 0 } };
	int found = (!send || find(c, send, bytes, &p.send)) &&
		    (!recv || find(c, recv, bytes, &p.recv));

	if (!found)
		p.send.window = NOWHERE;
	ori_cards_show(c, (const uint8_t *)&p, sizeof(p));
	return found;
}

int ori_direct_is_found(const struct ori_cards *c, int rank)
{
	return places_of(c, rank)->send.window != NOWHERE;
}

/* ---- after it -------------------------------------------------------------------------------- */

/*
 * Where `rank` has it, here.  *last is the window that was found last, or NULL: most buffers lie in
 * one.  Returns NULL if this rank has no such window, although the other one has.  Only a program
 * that destroys windows while it uses them gets there.  No rank may wait then.
 */
static uint8_t *reach(struct ori_cards *c, struct oriel_window **last, int rank,
		      const struct place *p)
{
	if (!*last || (*last)->number != p->window)
		*last = ori_window_numbered(c->comm, p->window);
	if (*last)
		return ori_peer_entry(&(*last)->dev, rank)->buffer + p->off;
	for (int r = 0; r < c->comm->nranks; r++)
		(void)ori_fail_window(&c->team->win, ORIEL_EMISMATCH, r);
	return NULL;
}

int ori_direct_broadcast(struct ori_cards *c, uint8_t *data, uint64_t bytes)
{
	struct oriel_window *last = NULL;
	int root = c->x.call.root;
	const uint8_t *from;

	if (root == c->comm->rank)
		return ori_cards_await_steps(c, 1);
	from = reach(c, &last, root, &places_of(c, root)->send);
	if (!from)
		return ORIEL_EMISMATCH;
	memcpy(data, from, bytes);
	ori_cards_step(c, 1);
	return 0;
}

/*
 * Each rank combines a piece, and writes it to all.  A buffer may be both source and result: no
 * other rank reads this piece.
 */
static void combine_piece(const struct ori_cards *c, int n, uint8_t *const *send,
			  uint8_t *const *recv, uint64_t bytes)
{
	uint64_t ranks = (uint32_t)n, piece = ((bytes + ranks - 1) / ranks + 63) & ~(uint64_t)63;
	int own = c->comm->rank;
	uint64_t at = (uint32_t)own * piece, length, end = at + ori_coll_share(bytes, piece, own);
	const uint8_t *table[ORI_CARDS_RANKS];
	struct ori_reducer how = ori_any_reducer(c->x.call.type, c->x.call.op);
	struct ori_sources from = { .table = table, .own = own, .n = n };

	for (; at < end; at += length) {
		length = ori_coll_least(end - at, TILE_BYTES);
		for (int r = 0; r < n; r++)
			table[r] = send[r] + at;
		ori_reducer_run(how, c->x.g, recv[own] + at, &from, ori_coll_elements(how, length));
		for (int i = 1; i < n; i++)
			memcpy(recv[ori_cards_next(c, i)] + at, recv[own] + at, length);
	}
}

int ori_direct_allreduce(struct ori_cards *c, uint64_t bytes)
{
	uint8_t *send[ORI_CARDS_RANKS], *recv[ORI_CARDS_RANKS];
	struct oriel_window *sends = NULL, *recvs = NULL;
	int n = c->comm->nranks;

	for (int r = 0; r < n; r++) {
		const struct places *p = places_of(c, r);

		send[r] = reach(c, &sends, r, &p->send);
		recv[r] = send[r] ? reach(c, &recvs, r, &p->recv) : NULL;
		if (!recv[r])
			return ORIEL_EMISMATCH;
	}
	combine_piece(c, n, send, recv, bytes);
	ori_cards_step(c, 1);
	return ori_cards_await_steps(c, 1);
}

/*
 * Each rank combines its block of the send buffers of all ranks.  A result over the own block of
 * the input harms nobody: no other rank reads that block.  A result over the start of the input
 * does: rank 0 reads block 0 of all ranks.  So such a rank waits until rank 0 has read it.  Rank 0
 * itself never waits here.
 */
int ori_direct_reducescatter(struct ori_cards *c, const uint8_t *send, uint8_t *recv,
			     uint64_t bytes)
{
	struct ori_reducer how = ori_any_reducer(c->x.call.type, c->x.call.op);
	int own = c->comm->rank, n = c->comm->nranks, err = 0;
	uint64_t at = (uint32_t)own * bytes;
	struct oriel_window *last = NULL;
	const uint8_t *table[ORI_CARDS_RANKS];
	struct ori_sources from = { .table = table, .own = own, .n = n };

	for (int r = 0; r < n; r++) {
		const uint8_t *theirs = reach(c, &last, r, &places_of(c, r)->send);

		if (!theirs)
			return ORIEL_EMISMATCH;
		table[r] = theirs + at;
	}
	if (own && recv == send)
		err = ori_cards_await_step(c, 0, 1);
	if (err)
		return err;
	ori_reducer_run(how, c->x.g, recv, &from, ori_coll_elements(how, bytes));
	ori_cards_step(c, 1);
	return ori_cards_await_steps(c, 1);
}
