/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cards.c - how mapped PEs of a set tell each other what they call, and pass short data.
 *
 * Every collective of such a set begins here.  Each PE writes a card into the memory of the others:
 * number and terms of its call, and a few bytes of data.  So one step tells that a PE has come,
 * whether all make the same call, and what they give.  More data lies in an area of its PE, where
 * the others read it.  Rounds of Oriel need three steps: a signal, the terms, the data.
 *
 * The root of a broadcast writes one card, into its own memory: the others look there.
 *
 * Calls use slots of the set's window in turn.  Two slots serve exchanges: each has, on each PE, a
 * card of every PE and an area.  RING slots serve broadcasts: each has a card and an area of the PE
 * itself.  A window begins as zeros, and the first call has number 1.
 *
 * When may a PE use a slot again?  When all others have left the call that used it, and a PE that
 * sends a card has left all earlier calls.  An exchange waits for the cards of all.  So two slots
 * are enough for exchanges: there is one exchange between.  Broadcasts wait for nobody.  After RING
 * of them without an exchange the PEs meet at a barrier.  `met` is the number of the last call that
 * began so.  It is the same on all PEs, because all make the same calls.
 *
 * Waits are Oriel's, on the world's comm: they sleep, see failures and the deadline, and report
 * which PE is late.
 */
#include <stdlib.h>

#include "cards.h"

#define EXCHANGES 2u /* slots */
#define RING 32u     /* slots; a meeting of 8 PEs on two cores takes as long as four broadcasts */

static uint64_t area_off(int n, uint64_t slot)
{
	uint64_t cards = ((uint64_t)n * EXCHANGES + RING) * sizeof(struct osh_card);

	/* an exchange may have a block for each PE */
	if (slot <= EXCHANGES)
		return cards + slot * (uint64_t)n * OSH_SHORT_BYTES;
	return area_off(n, EXCHANGES) + (slot - EXCHANGES) * OSH_SHORT_BYTES;
}

uint64_t osh_cards_bytes(int n)
{
	return area_off(n, EXCHANGES + RING);
}

void osh_cards_open(const char *call, struct osh_set *s)
{
	s->desks = osh_set_scratch(call, (uint64_t)s->n * sizeof(*s->desks));
	s->blocks = osh_set_scratch(call, (uint64_t)s->n * sizeof(*s->blocks));
	for (int i = 0; i < s->n; i++)
		s->desks[i] = oriel_window_mapped(s->meeting, i);
}

void osh_cards_close(struct osh_set *s)
{
	free(s->desks);
	free(s->blocks);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The card of PE `from` for PE `to`: an exchange has it at PE `to`, a broadcast at PE `from`. */
static struct osh_card *card(const struct osh_set *s, uint64_t slot, int to, int from)
{
	uint64_t n = (uint64_t)s->n;

	if (slot < EXCHANGES)
		return (struct osh_card *)(void *)s->desks[to] + slot * n + (uint64_t)from;
	return (struct osh_card *)(void *)s->desks[from] + EXCHANGES * n + (slot - EXCHANGES);
}

static uint8_t *area(const struct osh_set *s, int at)
{
	return s->desks[at] + area_off(s->n, s->slot);
}

const struct osh_card *osh_card_of(const struct osh_set *s, int i)
{
	return card(s, s->slot, s->rank, i);
}

const uint8_t *osh_card_data(const struct osh_set *s, int i)
{
	const struct osh_card *c = osh_card_of(s, i);

	if (c->bytes <= OSH_CARD_INLINE)
		return c->data;
	return area(s, i) + (c->kind == OSH_ALLTOALL ? (uint64_t)s->rank * c->bytes : 0);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Fills the area of this PE, before its cards tell of it. */
static void show(const struct osh_set *s, const struct osh_card *terms, const void *data,
		 uint64_t blocks)
{
	if (data && terms->bytes > OSH_CARD_INLINE)
		memcpy(area(s, s->rank), data, blocks * terms->bytes);
}

/* `data` may be NULL. */
static void write_card(struct osh_set *s, int to, const struct osh_card *terms, const void *data)
{
	struct osh_card *c = card(s, s->slot, to, s->rank);

	c->bytes = terms->bytes;
	c->source = terms->source;
	c->dest = terms->dest;
	c->kind = terms->kind;
	c->type = terms->type;
	c->op = terms->op;
	c->root = terms->root;
	if (data && terms->bytes <= OSH_CARD_INLINE)
		memcpy(c->data, data, terms->bytes);
	/*
	 * [SHMEM4] release, system scope; partner [SHMEM5] in number_in().  Publishes the card, the
	 * area, and that this PE has left all earlier calls.  Without it a PE could take data of an
	 * earlier call, or write a card that this PE still reads.
	 */
	__atomic_store_n(&c->number, s->calls, __ATOMIC_RELEASE);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void compare(const char *call, const struct osh_set *s, int i, const struct osh_card *mine)
{
	const struct osh_card *c = osh_card_of(s, i);

	if (OSH_UNLIKELY(c->kind != mine->kind || c->type != mine->type || c->op != mine->op))
		osh_fail(call, "PE %d makes another call", s->world[i]);
	if (OSH_UNLIKELY(c->root != mine->root))
		osh_fail(call, "PE %d names PE %d as the root, this PE names PE %d", s->world[i],
			 c->root, mine->root);
	if (OSH_UNLIKELY(c->bytes != mine->bytes && c->kind != OSH_COLLECT))
		osh_fail(call, "PE %d gives %llu bytes, this PE %llu", s->world[i],
			 (unsigned long long)c->bytes, (unsigned long long)mine->bytes);
}

/* The number of the last card of PE i for this PE, in a slot. */
static uint64_t number_in(const struct osh_set *s, uint64_t slot, int i)
{
	/* [SHMEM5] acquire, system scope; partner [SHMEM4] in write_card(). */
	return __atomic_load_n(&card(s, slot, s->rank, i)->number, __ATOMIC_ACQUIRE);
}

/* Has PE i written the card of this call, or one that tells that it makes another call? */
static int has_come(const struct osh_set *s, int i)
{
	uint64_t ring = EXCHANGES + s->calls % RING;

	return number_in(s, 0, i) >= s->calls || number_in(s, 1, i) >= s->calls ||
	       number_in(s, ring, i) >= s->calls;
}

/* A broadcast: is there a card of another PE than the root?  Returns that PE, or -1. */
static int other_root(const struct osh_set *s, int root)
{
	for (int i = 0; i < s->n && s->slot >= EXCHANGES; i++)
		if (i != root && number_in(s, s->slot, i) == s->calls)
			return i;
	return -1;
}

/*
 * Waits for the card of PE i, and compares it with the terms of this PE.  A report of a late card
 * names PE i, as if the card were a signal.
 */
static void take(const char *call, struct osh_set *s, int i, const struct osh_card *mine)
{
	struct ori_spin spin;
	int err = 0, other = -1;

	if (number_in(s, s->slot, i) != s->calls) {
		ori_spin_begin(&spin, &osh.dev.comm, osh.dev.failure, ORIEL_OP_SIGNAL, s->world[i],
			       0, osh.dev.number, s->calls);
		while (!has_come(s, i) && other < 0 && !err) {
			err = ori_spin(&spin, number_in(s, s->slot, i));
			other = other_root(s, i);
		}
		ori_spin_end(&spin);
		osh_check(call, err);
	}
	if (other >= 0)
		compare(call, s, other, mine);
	if (OSH_UNLIKELY(number_in(s, s->slot, i) != s->calls))
		osh_fail(call, "PE %d makes another call", s->world[i]);
	compare(call, s, i, mine);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The PE after this one comes first, so that PEs do not all write to the same one. */
static int other(const struct osh_set *s, int k)
{
	int i = s->rank + k;

	return i < s->n ? i : i - s->n;
}

void osh_cards_exchange(const char *call, struct osh_set *s, const struct osh_card *terms,
			const void *data, uint64_t stride)
{
	const uint8_t *blocks = data;

	s->calls++;
	s->slot = ++s->exchanges % EXCHANGES;
	show(s, terms, data, stride ? (uint64_t)s->n : 1);
	for (int k = 1; k <= s->n; k++) {
		int i = other(s, k);

		write_card(s, i, terms, blocks ? blocks + (uint64_t)i * stride : NULL);
		oriel_wake(&osh.dev, s->world[i]);
	}
	for (int k = 1; k < s->n; k++)
		take(call, s, other(s, k), terms);
	s->met = s->calls;
}

void osh_cards_broadcast(const char *call, struct osh_set *s, const struct osh_card *terms,
			 const void *source, void *dest)
{
	s->calls++;
	s->slot = EXCHANGES + s->calls % RING;
	if (OSH_UNLIKELY(s->calls - s->met >= RING)) {
		osh_set_meet(call, s);
		s->met = s->calls;
	}
	if (s->rank != terms->root) {
		take(call, s, terms->root, terms);
		memcpy(dest, osh_card_data(s, terms->root), terms->bytes);
		return;
	}
	show(s, terms, source, 1);
	write_card(s, s->rank, terms, source);
	for (int k = 1; k < s->n; k++)
		oriel_wake(&osh.dev, s->world[other(s, k)]);
}
