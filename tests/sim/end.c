/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/end.c - the conditions that must hold at the end of a run.
 *
 * After a good run everything is complete and every sum is exact.  After a run that a fault ended,
 * a sum lies between the operations seen complete and the operations begun.  Every byte has its old
 * or its new value, and every WQE whose doorbell was rung has its CQE.
 */
#include <string.h>

#include "sim.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Bytes of a zone: those of puts are stamped (or untouched, if `partly`), all others untouched. */
static void check_zone(struct sim_world *w, int rank, int source, int thread, int partly)
{
	const struct sim_thread *t = &w->plan->thread[source][thread];
	uint64_t start = sim_zone(w->plan, source, thread), at = start;
	const uint8_t *window = w->rank[rank].region[SIM_WINDOW].base;

	for (int i = 0; i <= t->ops; i++) {
		const struct sim_op *op = i < t->ops ? &t->op[i] : NULL;
		uint64_t next = start + SIM_ZONE;

		if (op && (!op->bytes || op->kind == SIM_READ || op->peer != rank))
			continue;
		for (next = op ? op->at : next; at < next; at++)
			if (window[at] != SIM_FILL)
				sim_violate(w,
					    "rank %d: byte %llu of the window, in no put, was written",
					    rank, (unsigned long long)at);
		for (uint32_t b = 0; op && b < op->bytes; b++, at++)
			if (window[at] != sim_stamp(op->id, b) &&
			    !(partly && window[at] == SIM_FILL))
				sim_violate(w, "rank %d: byte %u of #%u is 0x%02x at the end", rank,
					    b, op->id, window[at]);
	}
}

static void check_library(struct sim_world *w, int rank)
{
	const struct sim_region *r = &w->rank[rank].region[SIM_LIBRARY];

	for (uint64_t i = 0; i < r->bytes; i++)
		if (r->base[i] != sim_library_byte(rank, i)) {
			sim_violate(w, "rank %d: byte %llu of read-only memory was written", rank,
				    (unsigned long long)i);
			return;
		}
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* What operations say of a word: it holds at least `least`, at most `most` more than at first. */
struct bounds {
	uint64_t least, most;
};

static void add_op(struct bounds *b, const struct sim_op *op, uint64_t value)
{
	b->most += op->progress >= SIM_BEGUN ? value : 0;
	b->least += op->progress == SIM_COMPLETE ? value : 0;
}

static void check_bounds(struct sim_world *w, int rank, uint32_t word, uint64_t first,
			 const struct bounds *b)
{
	uint64_t have = *sim_word_at(w, rank, word) - first;

	if (have < b->least || have > b->most)
		sim_violate(w, "rank %d: word %u is %lld at the end, not %lld to %lld", rank, word,
			    (long long)have, (long long)b->least, (long long)b->most);
}

static void check_atomics(struct sim_world *w, int rank)
{
	struct bounds add = { 0, 0 }, swap = { 0, 0 };
	uint64_t olds[SIM_RANKS * SIM_THREADS * SIM_OPS];
	int n = 0;

	for (int at = 0; at < w->plan->ranks * w->plan->threads; at++) {
		struct sim_thread *t =
			&w->plan->thread[at / w->plan->threads][at % w->plan->threads];

		for (int i = 0; i < t->ops; i++) {
			struct sim_op *op = &t->op[i];

			if (op->peer != rank)
				continue;
			if (op->kind == SIM_FETCH_ADD)
				add_op(&add, op, op->value);
			if (op->kind == SIM_FETCH_ADD && op->progress >= SIM_RETURNED)
				olds[n++] = op->result;
			if (op->kind == SIM_COMPARE_SWAP)
				add_op(&swap, op,
				       op->progress < SIM_RETURNED || op->result == op->value);
		}
	}
	check_bounds(w, rank, SIM_WORD_FETCH_ADD, 0, &add);
	check_bounds(w, rank, SIM_WORD_COMPARE_SWAP, 0, &swap);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++)
			if (olds[i] == olds[k])
				sim_violate(w, "rank %d: two fetch_adds of 1 or more both saw %lld",
					    rank, (long long)olds[i]);
}

/* Shared words of `source` at the peer, counters for the peer at the source. */
static void check_sums(struct sim_world *w, int source, int peer)
{
	uint64_t first = w->plan->first_word;
	struct bounds shared = { 0, 0 };

	for (int thread = 0; thread < w->plan->threads; thread++) {
		struct sim_thread *t = &w->plan->thread[source][thread];
		struct bounds count = { 0, 0 };

		for (int i = 0; i < t->ops; i++) {
			if (t->op[i].peer != peer)
				continue;
			if (t->op[i].kind == SIM_SIGNAL_SHARED)
				add_op(&shared, &t->op[i], t->op[i].value);
			if (t->op[i].counter)
				add_op(&count, &t->op[i], 1);
		}
		if (sim_struck(w))
			count.least = 0; /* complete, but the companion may not have counted it */
		check_bounds(w, source, sim_word_counter(peer, thread), first, &count);
	}
	check_bounds(w, peer, sim_word(source, 0, SIM_WORD_SHARED), first, &shared);
}

/* ---- completions ----------------------------------------------------------------------------- */

int sim_check_settled(struct sim_world *w)
{
	for (int rank = 0; rank < w->plan->ranks; rank++)
		for (int peer = 0; peer < w->plan->ranks; peer++)
			for (uint32_t n = 0; n < w->plan->lanes && peer != rank; n++) {
				const struct sim_lane_memory *m =
					&w->rank[rank].lane_memory[peer][n];

				if (sim_nic_stalled(w, rank, (int)(n % (uint32_t)w->plan->nics)))
					continue;
				if (m->watch[0].seen != m->main.produced ||
				    m->watch[1].seen != m->companion.produced)
					return 0;
			}
	return 1;
}

/* As many CQEs as the NIC says it wrote, and no more WQEs taken than rung. */
static void check_counts(struct sim_world *w, int rank, int nic)
{
	uint64_t seen = 0, rung = 0;
	struct soft_stats s;

	soft_nic_stats(w->rank[rank].nic[nic], &s);
	for (int peer = 0; peer < w->plan->ranks; peer++)
		for (uint32_t n = (uint32_t)nic; n < w->plan->lanes && peer != rank;
		     n += (uint32_t)w->plan->nics) {
			const struct sim_lane_memory *m = &w->rank[rank].lane_memory[peer][n];

			seen += m->watch[0].seen + m->watch[1].seen - 2 * w->plan->first;
			rung += m->main.produced + m->companion.produced - 2 * w->plan->first;
		}
	if (s.cqes != seen || s.wqes > rung)
		sim_violate(w,
			    "rank %d NIC %d: %llu WQEs rung, %llu taken, %llu CQEs written, %llu seen",
			    rank, nic, (unsigned long long)rung, (unsigned long long)s.wqes,
			    (unsigned long long)s.cqes, (unsigned long long)seen);
}

static void check_status(struct sim_world *w, int rank, int thread)
{
	int status = w->plan->thread[rank][thread].status;
	int stall = w->plan->fatal == SIM_FATAL_STALL;

	if (!status || (sim_struck(w) && status == ORIEL_EREMOTE) ||
	    (stall && status == ORIEL_ETIMEDOUT))
		return;
	sim_violate(w, "rank %d thread %d ended with %d", rank, thread, status);
}

void sim_check_end(struct sim_world *w)
{
	struct sim_plan *p = w->plan;
	int struck = sim_struck(w);

	if (struck && p->fatal == SIM_FATAL_NONE)
		sim_violate(w, "%d queues failed in a run without a fatal fault", w->told);
	for (int rank = 0; rank < p->ranks; rank++) {
		check_library(w, rank);
		check_atomics(w, rank);
		for (int thread = 0; thread < p->threads; thread++)
			check_status(w, rank, thread);
		for (int nic = 0; nic < p->nics; nic++)
			check_counts(w, rank, nic);
		for (int peer = 0; peer < p->ranks; peer++) {
			if (peer != rank)
				check_sums(w, rank, peer);
			for (int thread = 0; thread < p->threads; thread++)
				check_zone(w, peer, rank, thread, struck);
		}
	}
}
