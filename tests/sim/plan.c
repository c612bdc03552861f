/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/plan.c - makes a plan from a seed: layout, faults, programs; and prints the plan as
 * text.
 *
 * Everything that the run needs is decided here, also payload addresses and signal values.  So the
 * invariants can look up all of it at any time.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "util/util.h"

#define PICK(random, array) ((array)[sim_below((random), ORI_COUNT(array))])

uint64_t sim_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t sim_below(uint64_t *state, uint64_t n)
{
	return n ? sim_random(state) % n : 0;
}

static int one_in(uint64_t *state, uint64_t n)
{
	return sim_below(state, n) == 0;
}

/* ---- the NICs -------------------------------------------------------------------------------- */

static void plan_faults(uint64_t *r, struct soft_config *c)
{
	static const double chances[] = { 0.01, 0.05, 0.2 };
	static const uint32_t mtus[] = { 64, 64, 256, 1024, 4096, 8192, 65536 };
	double *faults[] = {
		&c->drop, &c->dup, &c->reorder, &c->delay, &c->dbr_late, &c->torn_cqe,
	};

	c->mtu = PICK(r, mtus);
	c->retry_count = 30;
	c->retry_timeout_ns = 20000;
	c->max_reads = 1u << sim_below(r, 5);
	c->first_psn = one_in(r, 2) ? 0xffffffu - (uint32_t)sim_below(r, 40) :
				      (uint32_t)sim_below(r, 1u << 24);
	c->dbr_mode = (enum soft_dbr_mode)sim_below(r, 3);
	if (one_in(r, 8))
		c->rate = 1000000000ull >> sim_below(r, 4);
	if (one_in(r, 8))
		c->ooo = 1;
	if (one_in(r, 8))
		c->overtake = 1;
	if (one_in(r, 8))
		c->no_atomics = 1;
	if (one_in(r, 4))
		c->hca_atomics = 1;
	if (one_in(r, 6))
		return; /* nothing goes wrong */
	for (size_t i = 0; i < ORI_COUNT(faults); i++)
		if (one_in(r, 3))
			*faults[i] = PICK(r, chances);
}

/* One NIC gets the fault that ends the run. */
static void plan_fatal(uint64_t *r, struct sim_plan *p)
{
	struct soft_config *c;
	uint64_t at = 1 + sim_below(r, 40);

	p->fatal_rank = (int)sim_below(r, (uint64_t)p->ranks);
	p->fatal_nic = (int)sim_below(r, (uint64_t)p->nics);
	c = &p->config[p->fatal_rank][p->fatal_nic];
	if (!one_in(r, 5))
		return;
	p->fatal = (enum sim_fatal)(1 + sim_below(r, 4));
	if (p->fatal == SIM_FATAL_ATOMIC && !c->no_atomics)
		p->fatal = SIM_FATAL_STALL;
	if (p->fatal == SIM_FATAL_QP)
		c->qp_error_at = at;
	if (p->fatal == SIM_FATAL_REVOKE)
		c->revoke_at = at;
	if (p->fatal != SIM_FATAL_STALL)
		return;
	c->stall_at = at;
	/* who gives up first: the device by its deadline, or a peer's NIC by its retries */
	p->timeout_ns = one_in(r, 2) ? 20000000 : ORI_NS_PER_S;
}

static void plan_nics(uint64_t *r, struct sim_plan *p)
{
	static const char *const names[] = { "soft", "soft", "cx7", "efa", "thor2" };
	struct soft_config c;

	p->personality = PICK(r, names);
	(void)soft_config_personality(&c, p->personality);
	plan_faults(r, &c);
	for (int rank = 0; rank < p->ranks; rank++)
		for (int nic = 0; nic < p->nics; nic++) {
			p->config[rank][nic] = c;
			p->config[rank][nic].seed = p->seed * 64 +
						    (uint64_t)(rank * SIM_NICS + nic);
		}
	p->flags = (c.ooo ? 0 : ORIEL_LINK_ORDERED) | (c.no_atomics ? 0 : ORIEL_LINK_ATOMICS) |
		   (c.ooo || c.overtake ? 0 : ORIEL_LINK_WRITES_ORDERED);
	plan_fatal(r, p);
}

/* ---- the programs ---------------------------------------------------------------------------- */

/* What a thread has used up so far. */
struct use {
	uint64_t zone[SIM_RANKS], landing;
	uint64_t word[SIM_RANKS][2];
	int last_fence[SIM_RANKS];
};

static uint32_t put_bytes(uint64_t *r, const struct sim_plan *p, enum sim_kind kind)
{
	static const uint32_t small[] = { 1, 8, 15, 16, 17, 63, 64, 65, 200, 1000 };

	switch (kind) {
	case SIM_PUT_INLINE:
		return 1 + (uint32_t)sim_below(r, ORI_WQE_INLINE_BYTES);
	case SIM_PUT_LARGE:
		return 4097 + (uint32_t)sim_below(r, 5000);
	case SIM_PUT_CHUNKS:
		return (uint32_t)(p->message_bytes * (1 + sim_below(r, 4)) + sim_below(r, 40));
	default:
		return PICK(r, small);
	}
}

static int has_data(enum sim_kind kind)
{
	return kind <= SIM_PUT_ADD_COUNTER;
}

static void plan_data(uint64_t *r, struct sim_plan *p, struct use *use, struct sim_op *op, int rank,
		      int thread)
{
	uint64_t gap = sim_below(r, 24), *used = &use->zone[op->peer];
	uint64_t from = ((uint64_t)thread * (uint64_t)p->ranks + (uint64_t)op->peer) * SIM_ZONE;

	op->bytes = put_bytes(r, p, op->kind);
	if (*used + gap + op->bytes > SIM_ZONE)
		op->bytes = 8;
	if (*used + gap + op->bytes > SIM_ZONE)
		gap = 0;
	op->at = sim_zone(p, rank, thread) + *used + gap;
	op->local = from + *used + gap;
	*used += gap + op->bytes;
}

static void plan_signal(uint64_t *r, struct sim_plan *p, struct use *use, struct sim_op *op)
{
	static const uint32_t flags[] = { 0, 0, ORI_WQE_FENCE, ORI_WQE_STRONG };
	int set = op->kind == SIM_PUT_SET || op->kind == SIM_SIGNAL_SET;
	uint64_t *word;

	op->signal = set ? ORIEL_SET : ORIEL_ADD;
	op->flags = PICK(r, flags);
	op->word = op->kind == SIM_SIGNAL_SHARED ? SIM_WORD_SHARED :
		   set                           ? SIM_WORD_SET :
						   SIM_WORD_ADD;
	op->value = 1 + sim_below(r, 5);
	if (op->word == SIM_WORD_SHARED)
		return;
	word = &use->word[op->peer][op->word];
	*word += op->value;
	op->after = p->first_word + *word;
	if (set)
		op->value = op->after;
}

/* Reads back what an earlier put of the thread wrote, if it is sure to be there; or the library. */
static void plan_read(uint64_t *r, const struct sim_plan *p, const struct sim_thread *t,
		      struct use *use, struct sim_op *op, int thread)
{
	int end = p->flags & ORIEL_LINK_ORDERED ? t->ops : use->last_fence[op->peer];

	op->read_of = -1;
	for (int i = 0; i < end; i++)
		if (t->op[i].peer == op->peer && has_data(t->op[i].kind) && one_in(r, 2))
			op->read_of = i;
	op->bytes = 1 + (uint32_t)sim_below(r, one_in(r, 4) ? 3000 : 100);
	if (op->read_of >= 0) {
		op->bytes = t->op[op->read_of].bytes;
		op->at = t->op[op->read_of].at;
	} else {
		op->at = sim_below(r, SIM_LIBRARY_BYTES - op->bytes);
	}
	if (use->landing + op->bytes > SIM_ZONE) {
		op->kind = SIM_FENCE;
		op->bytes = 0;
		return;
	}
	op->local = (uint64_t)thread * SIM_ZONE + use->landing;
	use->landing += op->bytes;
}

static enum sim_kind plan_kind(uint64_t *r, const struct sim_plan *p)
{
	enum sim_kind kind = (enum sim_kind)sim_below(r, SIM_KINDS);
	int atomic = kind == SIM_FETCH_ADD || kind == SIM_COMPARE_SWAP;

	if (atomic && !(p->flags & ORIEL_LINK_ATOMICS) && p->fatal != SIM_FATAL_ATOMIC)
		kind = SIM_READ;
	if (kind == SIM_PUT_CHUNKS && p->message_bytes > 4096)
		kind = SIM_PUT_LARGE;
	if (kind == SIM_PUT_LARGE && p->message_bytes < 1000)
		kind = SIM_PUT_CHUNKS;
	return kind;
}

static void plan_op(uint64_t *r, struct sim_plan *p, struct use *use, int rank, int thread)
{
	struct sim_thread *t = &p->thread[rank][thread];
	struct sim_op *op = &t->op[t->ops];

	int crowd = p->crowded && one_in(r, 2);

	op->kind = crowd ? SIM_SIGNAL_SHARED : plan_kind(r, p);
	op->id = (uint32_t)((rank * SIM_THREADS + thread) * SIM_OPS + t->ops + 1);
	op->peer = (rank + 1 + (crowd ? 0 : (int)sim_below(r, (uint64_t)p->ranks - 1))) % p->ranks;
	op->counter = op->kind == SIM_PUT_COUNTER || op->kind == SIM_PUT_ADD_COUNTER ||
		      op->kind == SIM_SIGNAL_COUNTER || op->kind == SIM_NOTHING_COUNTER;
	op->value = 1 + sim_below(r, 100);
	if (has_data(op->kind))
		plan_data(r, p, use, op, rank, thread);
	if (op->kind >= SIM_PUT_ADD && op->kind <= SIM_SIGNAL_COUNTER)
		plan_signal(r, p, use, op);
	if (op->kind == SIM_READ)
		plan_read(r, p, t, use, op, thread);
	if (op->kind == SIM_FENCE || op->kind == SIM_FLUSH)
		use->last_fence[op->peer] = t->ops;
	t->ops++;
}

void sim_plan_make(struct sim_plan *p, uint64_t seed)
{
	static const uint64_t firsts[] = { 0, 0xfff0, 0x7ff0, (1 << 24) - 8, (1ull << 32) - 8 };
	static const uint64_t messages[] = {
		64, 100, 512, 4096, ORI_WQE_MESSAGE_BYTES, ORI_WQE_MESSAGE_BYTES
	};
	static const uint32_t budgets[] = { 1, 4, 64 };
	static const uint32_t percents[] = { 5, 20, 40, 70 };
	uint64_t random = seed * 0x2545f4914f6cdd1dull + 1, *r = &random;

	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->ranks = 2 + (int)sim_below(r, SIM_RANKS - 1);
	p->nics = 1 + (int)sim_below(r, SIM_NICS);
	p->threads = 1 + (int)sim_below(r, SIM_THREADS);
	p->lanes = 1 + (uint32_t)sim_below(r, SIM_LANES);
	p->depth = 2u << sim_below(r, 4);
	p->first = PICK(r, firsts);
	p->first_word = one_in(r, 3) ? 0 - sim_below(r, 20) : 0;
	p->message_bytes = PICK(r, messages);
	p->timeout_ns = 100 * ORI_NS_PER_S;
	p->cpu_percent = PICK(r, percents);
	p->budget = PICK(r, budgets);
	p->step_ns = 1u << (7 + sim_below(r, 6));
	p->lazy_rank = one_in(r, 3) ? (int)sim_below(r, (uint64_t)p->ranks) : -1;
	p->crowded = one_in(r, 6);
	if (p->crowded) {
		p->threads = SIM_THREADS;
		p->depth = 2;
		p->cpu_percent = 70;
	}
	plan_nics(r, p);
	if ((uint32_t)p->nics > p->lanes)
		p->lanes = (uint32_t)p->nics;
	for (int rank = 0; rank < p->ranks; rank++)
		for (int t = 0; t < p->threads; t++) {
			struct use use = { 0 };
			uint64_t ops = 3 + sim_below(r, SIM_OPS - 2);

			while (ops--)
				plan_op(r, p, &use, rank, t);
		}
}

/* ---- text ------------------------------------------------------------------------------------ */

const char *sim_kind_text(enum sim_kind kind)
{
#define SIM_KIND_TEXT(name, text) text,
	static const char *const texts[] = { SIM_KIND_LIST(SIM_KIND_TEXT) };
#undef SIM_KIND_TEXT

	return texts[kind];
}

static void print_op(const struct sim_op *op)
{
	static const char *const progress[] = { "", " <- begun", " <- returned", "" };

	printf("    #%u %s to %d", op->id, sim_kind_text(op->kind), op->peer);
	if (op->bytes)
		printf(", %u bytes at %llu", op->bytes, (unsigned long long)op->at);
	if (op->kind == SIM_READ && op->read_of >= 0)
		printf(" (of operation %d)", op->read_of);
	if (op->signal)
		printf(", word %d %s %lld flags 0x%x", (int)op->word,
		       op->signal == ORIEL_SET ? "=" : "+=", (long long)op->value, op->flags);
	printf("%s\n", progress[op->progress]);
}

void sim_plan_print(const struct sim_plan *p)
{
	char text[400];

	printf("seed %llu: replay with ORIEL_SIM_SEED=%llu\n", (unsigned long long)p->seed,
	       (unsigned long long)p->seed);
	printf("  %d ranks, %d NICs (%s), %d threads, %u lanes, depth %u, first index 0x%llx, "
	       "words from %lld, messages of %llu, fault %d of rank %d NIC %d\n",
	       p->ranks, p->nics, p->personality, p->threads, p->lanes, p->depth,
	       (unsigned long long)p->first, (long long)p->first_word,
	       (unsigned long long)p->message_bytes, (int)p->fatal, p->fatal_rank, p->fatal_nic);
	for (int rank = 0; rank < p->ranks; rank++) {
		for (int nic = 0; nic < p->nics; nic++) {
			soft_config_text(&p->config[rank][nic], text, sizeof(text));
			printf("  rank %d NIC %d: %s\n", rank, nic, text);
		}
		for (int t = 0; t < p->threads; t++) {
			printf("  rank %d thread %d: ended with %d\n", rank, t,
			       p->thread[rank][t].status);
			for (int i = 0; i < p->thread[rank][t].ops; i++)
				print_op(&p->thread[rank][t].op[i]);
		}
	}
}
