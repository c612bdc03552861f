/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.c - collectives among mapped PEs.
 *
 * The rounds of Oriel copy data twice, through memory of their own, because any memory must do.
 * Here short data comes with the cards of the call (cards.c): one step.  Longer data of OpenSHMEM
 * is symmetric, and mapped PEs reach it where it is.  The cards tell where that is, and that a PE
 * has come: then its dest may be written.  The PEs meet again after the copies: then sources may be
 * written and results read.
 *
 * Data that must be moved once per PE is written to the others, from a source that stays in the
 * cache of its PE.  A broadcast is read: all PEs copy at the same time.
 *
 * All functions return 0, on all PEs alike, if the data must take the other way.
 */
#include "cards.h"

static struct osh_card terms_of(enum osh_kind kind, uint64_t bytes)
{
	struct osh_card terms = { .bytes = bytes, .kind = (uint8_t)kind, .root = -1 };

	return terms;
}

/*
 * Does a block of these bytes come with the cards?  Otherwise it goes straight to its place, which
 * needs a second meeting.  Two PEs that have a core each meet in less time than it takes to copy
 * 1 KiB twice.  A broadcast has no second copy at the root.
 */
#define PAIR_BYTES 512u

static int is_short(const struct osh_set *s, uint64_t bytes)
{
	return bytes <= (s->n > 2 ? OSH_SHORT_BYTES : PAIR_BYTES);
}

/* Can the sources and the dests of all PEs be reached? */
static int are_reached(const struct osh_set *s)
{
	for (int i = 0; i < s->n; i++) {
		const struct osh_card *c = osh_card_of(s, i);

		if (c->source == OSH_NOWHERE || c->dest == OSH_NOWHERE)
			return 0;
	}
	return 1;
}

static uint8_t *source_at(const struct osh_set *s, int i)
{
	return osh.peers[s->world[i]] + osh_card_of(s, i)->source;
}

static uint8_t *dest_at(const struct osh_set *s, int i)
{
	return osh.peers[s->world[i]] + osh_card_of(s, i)->dest;
}

/* ---- broadcast ------------------------------------------------------------------------------- */

int osh_direct_broadcast(const char *call, struct osh_set *s, void *dest, const void *source,
			 uint64_t bytes, int root)
{
	struct osh_card terms = terms_of(OSH_BROADCAST, bytes);
	int own = s->rank == root, with_card = bytes <= OSH_SHORT_BYTES;

	if (!s->mapped)
		return 0;
	osh_set_ready(call, s);
	terms.root = root;
	if (with_card && !osh.dev.checked) {
		osh_cards_broadcast(call, s, &terms, source, dest);
		return 1;
	}
	if (own && !with_card)
		terms.source = osh_offset(source, bytes);
	osh_cards_exchange(call, s, &terms, own && with_card ? source : NULL, 0);
	if (!with_card && !are_reached(s))
		return 0;
	if (!own)
		memcpy(dest, with_card ? osh_card_data(s, root) : source_at(s, root), bytes);
	if (!with_card)
		osh_set_meet(call, s);
	return 1;
}

/* ---- blocks of all PEs ----------------------------------------------------------------------- */

/* A program may give its block at its place in dest. */
static void copy_own(uint8_t *to, const void *source, uint64_t bytes)
{
	if (bytes && to != source)
		memmove(to, source, bytes);
}

int osh_direct_fcollect(const char *call, struct osh_set *s, void *dest, const void *source,
			uint64_t bytes)
{
	struct osh_card terms = terms_of(OSH_FCOLLECT, bytes);
	uint64_t own = (uint64_t)s->rank * bytes;

	if (!s->mapped)
		return 0;
	osh_set_ready(call, s);
	if (!is_short(s, bytes))
		terms.dest = osh_offset(dest, osh_set_bytes(call, bytes, (size_t)s->n));
	osh_cards_exchange(call, s, &terms, is_short(s, bytes) ? source : NULL, 0);
	if (!is_short(s, bytes) && !are_reached(s))
		return 0;
	copy_own((uint8_t *)dest + own, source, bytes);
	for (int k = 1; k < s->n; k++) {
		int i = (s->rank + k) % s->n;

		if (is_short(s, bytes))
			memcpy((uint8_t *)dest + (uint64_t)i * bytes, osh_card_data(s, i), bytes);
		else
			memcpy(dest_at(s, i) + own, source, bytes);
	}
	if (!is_short(s, bytes))
		osh_set_meet(call, s);
	return 1;
}

/* Where the block of PE i is in dest.  `i` may be their number: then it is the length of all. */
static uint64_t block_off(const struct osh_set *s, int i)
{
	uint64_t off = 0;

	while (i-- > 0)
		off += osh_card_of(s, i)->bytes;
	return off;
}

int osh_direct_collect(const char *call, struct osh_set *s, void *dest, const void *source,
		       uint64_t bytes)
{
	struct osh_card terms = terms_of(OSH_COLLECT, bytes);
	uint64_t off = 0, own;
	int all_short = 1;

	if (!s->mapped)
		return 0;
	osh_set_ready(call, s);
	terms.dest = osh_offset(dest, 1);
	osh_cards_exchange(call, s, &terms, is_short(s, bytes) ? source : NULL, 0);
	for (int i = 0; i < s->n; i++)
		all_short &= is_short(s, osh_card_of(s, i)->bytes);
	if (!all_short && !are_reached(s))
		return 0;
	/* dest of the others is as long as this one: nothing is written behind it */
	if (!all_short)
		(void)osh_offset_of(call, "dest", dest, block_off(s, s->n));
	own = block_off(s, s->rank);
	copy_own((uint8_t *)dest + own, source, bytes);
	for (int i = 0; i < s->n; off += osh_card_of(s, i++)->bytes) {
		uint64_t theirs = osh_card_of(s, i)->bytes;

		if (i == s->rank)
			continue;
		if (is_short(s, theirs))
			memcpy((uint8_t *)dest + off, osh_card_data(s, i), theirs);
		if (!is_short(s, bytes))
			memcpy(dest_at(s, i) + own, source, bytes);
	}
	if (!all_short)
		osh_set_meet(call, s);
	return 1;
}

int osh_direct_alltoall(const char *call, struct osh_set *s, void *dest, const void *source,
			uint64_t bytes)
{
	struct osh_card terms = terms_of(OSH_ALLTOALL, bytes);
	uint64_t all = osh_set_bytes(call, bytes, (size_t)s->n), own = (uint64_t)s->rank * bytes;

	if (!s->mapped)
		return 0;
	osh_set_ready(call, s);
	if (!is_short(s, bytes))
		terms.dest = osh_offset(dest, all);
	osh_cards_exchange(call, s, &terms, is_short(s, bytes) ? source : NULL, bytes);
	if (!is_short(s, bytes) && !are_reached(s))
		return 0;
	copy_own((uint8_t *)dest + own, (const uint8_t *)source + own, bytes);
	for (int k = 1; k < s->n; k++) {
		int i = (s->rank + k) % s->n;
		uint64_t block = (uint64_t)i * bytes;

		if (is_short(s, bytes))
			memcpy((uint8_t *)dest + block, osh_card_data(s, i), bytes);
		else
			memcpy(dest_at(s, i) + own, (const uint8_t *)source + block, bytes);
	}
	if (!is_short(s, bytes))
		osh_set_meet(call, s);
	return 1;
}

int osh_direct_alltoalls(const char *call, struct osh_set *s, void *dest, const void *source,
			 uint64_t dst, uint64_t sst, size_t nelems, size_t size)
{
	uint64_t bytes = osh_set_bytes(call, nelems, size);
	uint64_t all = osh_set_bytes(call, osh_set_bytes(call, nelems, (size_t)s->n), sst);
	struct osh_card terms = terms_of(OSH_ALLTOALL, bytes);
	uint8_t *to = dest;

	/* short blocks are packed and come with the cards */
	if (!s->mapped || is_short(s, bytes))
		return 0;
	osh_set_ready(call, s);
	terms.source = osh_offset(source, all - sst + size);
	osh_cards_exchange(call, s, &terms, NULL, 0);
	if (!are_reached(s))
		return 0;
	for (int i = 0; i < s->n; i++) {
		const uint8_t *from = source_at(s, i) + (uint64_t)s->rank * nelems * sst;

		for (size_t k = 0; k < nelems; k++, to += dst, from += sst)
			memcpy(to, from, size);
	}
	osh_set_meet(call, s);
	return 1;
}

/* ---- reductions ------------------------------------------------------------------------------ */

#define CHUNK_BYTES 4096u /* stays in the first cache until all PEs have it */

/*
 * Each PE combines a piece of the elements, and writes it to dest of all.  dest may be source: no
 * other PE reads this piece.
 */
static void reduce_piece(struct osh_set *s, const struct osh_reduction *r, uint8_t *dest)
{
	uint64_t unit = CHUNK_BYTES / r->size,
		 share = (r->count + (uint64_t)s->n - 1) / (uint64_t)s->n;
	uint64_t at, end, n;

	share = (share + 63) / 64 * 64; /* PEs do not write to the same cache line */
	at = share * (uint64_t)s->rank;
	end = at + share < r->count ? at + share : r->count;
	for (; at < end; at += n) {
		uint64_t off = at * r->size;

		n = end - at < unit ? end - at : unit;
		for (int i = 0; i < s->n; i++)
			s->blocks[i] = source_at(s, i) + off;
		osh_set_combine(s, r, dest + off, n);
		for (int k = 1; k < s->n; k++) {
			int i = (s->rank + k) % s->n;

			memcpy(dest_at(s, i) + off, dest + off, n * r->size);
		}
	}
}

int osh_direct_reduce(const char *call, struct osh_set *s, void *dest, const void *source,
		      const struct osh_reduction *r)
{
	uint64_t bytes = osh_set_bytes(call, r->count, r->size);
	struct osh_card terms = terms_of(OSH_REDUCE, bytes);

	if (!s->mapped)
		return 0;
	osh_set_ready(call, s);
	terms.type = (uint8_t)r->type;
	terms.op = (uint8_t)r->op;
	if (!is_short(s, bytes)) {
		terms.source = osh_offset(source, bytes);
		terms.dest = osh_offset(dest, bytes);
	}
	osh_cards_exchange(call, s, &terms, is_short(s, bytes) ? source : NULL, 0);
	if (is_short(s, bytes)) {
		for (int i = 0; i < s->n; i++)
			s->blocks[i] = osh_card_data(s, i);
		osh_set_combine(s, r, dest, r->count);
		return 1;
	}
	if (!are_reached(s))
		return 0;
	reduce_piece(s, r, dest);
	osh_set_meet(call, s);
	return 1;
}
