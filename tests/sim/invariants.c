/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/invariants.c - what must hold after every step, seen from outside.
 *
 *   - a signal word holds a value that was sent, never goes back, and when it holds it, the data of
 *     all operations of that thread before it is there; reads before a fence have landed
 *   - a counter counts operations whose data, or else word, is at the peer; never more
 *   - CQEs come one a WQE, in order, with the owner bit of their lap; after an error only errors
 *   - the device believes complete only what has a CQE; its counts never go back
 *   - bytes around regions, and of regions that nobody may write, stay as they were
 *
 * The end is in end.c.
 */
#include <string.h>

#include "sim.h"

/* ---- data ------------------------------------------------------------------------------------ */

static int is_put(const struct sim_op *op)
{
	return op->bytes && op->kind != SIM_READ;
}

int sim_check_delivered(struct sim_world *w, int source, int thread, int peer, int last)
{
	const struct sim_thread *t = &w->plan->thread[source][thread];
	const uint8_t *window = w->rank[peer].region[SIM_WINDOW].base;

	for (int i = 0; i <= last; i++) {
		const struct sim_op *op = &t->op[i];

		for (uint32_t b = 0; b < op->bytes && op->peer == peer && is_put(op); b++)
			if (window[op->at + b] != sim_stamp(op->id, b))
				return sim_violate(w,
						   "rank %d: byte %u of #%u (rank %d thread %d) is not "
						   "there, though operation #%u says so",
						   peer, b, op->id, source, thread, t->op[last].id);
	}
	return 1;
}

int sim_check_landed(struct sim_world *w, int source, int thread, int peer, int last)
{
	const struct sim_thread *t = &w->plan->thread[source][thread];
	const uint8_t *landing = w->rank[source].region[SIM_LANDING].base;

	for (int i = 0; i <= last; i++) {
		const struct sim_op *op = &t->op[i];

		if (op->kind != SIM_READ || op->peer != peer)
			continue;
		for (uint32_t b = 0; b < op->bytes; b++) {
			uint8_t want = op->read_of >= 0 ? sim_stamp(t->op[op->read_of].id, b) :
							  sim_library_byte(peer, op->at + b);

			if (landing[op->local + b] != want)
				return sim_violate(w,
						   "rank %d thread %d: byte %u of read #%u is wrong",
						   source, thread, b, op->id);
		}
	}
	return 1;
}

/* ---- words ----------------------------------------------------------------------------------- */

static int last_fence(const struct sim_thread *t, int peer, int op)
{
	if (t->op[op].flags)
		return op;
	while (op >= 0 && !(t->op[op].kind == SIM_FENCE && t->op[op].peer == peer))
		op--;
	return op;
}

/* The word of (source, thread) at `rank` has become `value`. */
static void check_signal(struct sim_world *w, int rank, int source, int thread, enum sim_word word,
			 uint64_t value)
{
	const struct sim_thread *t = &w->plan->thread[source][thread];

	for (int i = 0; i < t->ops; i++) {
		const struct sim_op *op = &t->op[i];

		if (op->peer != rank || !op->signal || op->word != word || op->after != value)
			continue;
		if (op->progress == SIM_PLANNED) {
			sim_violate(w, "rank %d: signal #%u arrived before it was sent", rank,
				    op->id);
			return;
		}
		sim_check_delivered(w, source, thread, rank, i);
		sim_check_landed(w, source, thread, rank, last_fence(t, rank, i));
		return;
	}
	sim_violate(w, "rank %d: word %d of rank %d thread %d is %lld, which nobody sent", rank,
		    (int)word, source, thread, (long long)value);
}

/* Sums over the operations that may have touched a shared word of `rank`. */
static void check_shared(struct sim_world *w, int rank, int source, uint64_t value)
{
	uint64_t most = 0;

	for (int t = 0; t < w->plan->threads; t++)
		for (int i = 0; i < w->plan->thread[source][t].ops; i++) {
			const struct sim_op *op = &w->plan->thread[source][t].op[i];

			if (op->peer == rank && op->kind == SIM_SIGNAL_SHARED &&
			    op->progress != SIM_PLANNED)
				most += op->value;
		}
	if (!ori_reached(w->plan->first_word + most, value))
		sim_violate(w, "rank %d: shared word of rank %d is %lld, %lld was sent", rank,
			    source, (long long)(value - w->plan->first_word), (long long)most);
}

static int main_failed(const struct sim_world *w, int rank, int peer, int thread)
{
	uint32_t lane = (uint32_t)thread % w->plan->lanes;

	return w->rank[rank].lane_memory[peer][lane].watch[0].errors != 0 ||
	       w->rank[rank].lane_memory[peer][0].watch[0].errors != 0;
}

/* The counter of (peer, thread) at `rank` has become first_word + count. */
static void check_counter(struct sim_world *w, int rank, int peer, int thread, uint64_t count)
{
	const struct sim_thread *t = &w->plan->thread[rank][thread];
	uint64_t left = count;

	for (int i = 0; i < t->ops && left; i++) {
		const struct sim_op *op = &t->op[i];
		uint64_t *at = sim_word_at(w, peer, sim_word(rank, thread, op->word));

		if (!op->counter || op->peer != peer)
			continue;
		left--;
		if (op->progress == SIM_PLANNED)
			sim_violate(w, "rank %d thread %d: counter %llu, but #%u was not begun",
				    rank, thread, (unsigned long long)count, op->id);
		if (main_failed(w, rank, peer, thread))
			/* an error CQE releases the WAIT too: the comm has failed by then */
			continue;
		if (op->bytes)
			sim_check_delivered(w, rank, thread, peer, i);
		else if (op->signal && !ori_reached(*at, op->after))
			sim_violate(w,
				    "rank %d thread %d: #%u is counted, its word has not arrived",
				    rank, thread, op->id);
	}
	if (left)
		sim_violate(w, "rank %d thread %d: counter for %d is %llu, more than there are",
			    rank, thread, peer, (unsigned long long)count);
}

static void check_words(struct sim_world *w, int rank)
{
	struct sim_plan *p = w->plan;

	for (uint32_t i = 0; i < SIM_WORDS; i++) {
		uint64_t now = *sim_word_at(w, rank, i), *seen = &w->rank[rank].word_seen[i];
		int at = (int)i;

		if (now == *seen)
			continue;
		if (!ori_reached(now, *seen))
			sim_violate(w, "rank %d: word %u went back from %lld to %lld", rank, i,
				    (long long)*seen, (long long)now);
		*seen = now;
		if (at < 24)
			check_signal(w, rank, at / 2 / SIM_THREADS, at / 2 % SIM_THREADS,
				     (enum sim_word)(at % 2), now);
		else if (at < 24 + SIM_RANKS)
			check_shared(w, rank, at - 24, now);
		else if (at >= 32 && at < 32 + SIM_RANKS * SIM_THREADS)
			check_counter(w, rank, (at - 32) / SIM_THREADS, (at - 32) % SIM_THREADS,
				      now - p->first_word);
		else if (i != SIM_WORD_FETCH_ADD && i != SIM_WORD_COMPARE_SWAP)
			sim_violate(w, "rank %d: word %u, which nobody uses, was written", rank, i);
	}
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* Is CQE number n in the ring? */
static const struct ori_cqe *cqe_at(const struct oriel_queue *q, uint64_t n)
{
	const struct ori_cqe *cqe =
		(const struct ori_cqe *)(const void *)(q->cq + (n & (q->depth - 1)) * 64);

	if (cqe->op_own >> 4 == ORI_CQE_INVALID || (cqe->op_own & 1u) != (n >> q->log_depth & 1u))
		return NULL;
	return cqe;
}

static void check_cqe(struct sim_world *w, int rank, const struct oriel_queue *q,
		      struct sim_watch *watch, const struct ori_cqe *cqe)
{
	unsigned int opcode = cqe->op_own >> 4;

	if (ori_be16(cqe->wqe_counter) != (uint16_t)watch->seen)
		sim_violate(w, "rank %d queue 0x%x: CQE %llu is for WQE 0x%x", rank, q->qpn,
			    (unsigned long long)watch->seen, ori_be16(cqe->wqe_counter));
	if ((ori_be32(cqe->opcode_qpn) & 0xffffff) != q->qpn)
		sim_violate(w, "rank %d queue 0x%x: CQE of queue 0x%x", rank, q->qpn,
			    ori_be32(cqe->opcode_qpn) & 0xffffff);
	if (opcode == ORI_CQE_REQ_ERR ? !cqe->syndrome : opcode != ORI_CQE_REQ || watch->errors)
		sim_violate(w,
			    "rank %d queue 0x%x: CQE %llu with opcode %u, syndrome 0x%x, after %llu "
			    "errors",
			    rank, q->qpn, (unsigned long long)watch->seen, opcode, cqe->syndrome,
			    (unsigned long long)watch->errors);
	watch->errors += opcode == ORI_CQE_REQ_ERR;
}

static void check_queue(struct sim_world *w, int rank, const struct oriel_queue *q,
			struct sim_watch *watch)
{
	const struct ori_cqe *cqe;

	while (watch->seen != q->produced && (cqe = cqe_at(q, watch->seen))) {
		check_cqe(w, rank, q, watch, cqe);
		watch->seen++;
	}
	for (uint64_t n = watch->seen; n < watch->seen + q->depth; n++)
		if (cqe_at(q, n))
			sim_violate(w, "rank %d queue 0x%x: a CQE at %llu, after %llu of %llu",
				    rank, q->qpn, (unsigned long long)n,
				    (unsigned long long)watch->seen,
				    (unsigned long long)q->produced);
	if (q->reserved < watch->reserved || q->produced < watch->produced ||
	    q->completed < watch->completed)
		sim_violate(w, "rank %d queue 0x%x: a count of the device went back", rank, q->qpn);
	if (q->completed > watch->seen || q->produced > q->reserved ||
	    q->produced - q->completed > q->depth)
		sim_violate(w,
			    "rank %d queue 0x%x: reserved %llu, produced %llu, completed %llu, CQEs "
			    "%llu",
			    rank, q->qpn, (unsigned long long)q->reserved,
			    (unsigned long long)q->produced, (unsigned long long)q->completed,
			    (unsigned long long)watch->seen);
	watch->reserved = q->reserved;
	watch->produced = q->produced;
	watch->completed = q->completed;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void check_guards(struct sim_world *w, int rank, const struct sim_region *r)
{
	static uint8_t guard[SIM_GUARD];

	if (!guard[0])
		memset(guard, SIM_GUARD_FILL, sizeof(guard));
	if (memcmp(r->base - SIM_GUARD, guard, SIM_GUARD) ||
	    memcmp(r->base + r->bytes, guard, SIM_GUARD))
		sim_violate(w, "rank %d: bytes beside a region of %llu were written", rank,
			    (unsigned long long)r->bytes);
}

void sim_check_rank(struct sim_world *w, int rank)
{
	struct sim_rank *r = &w->rank[rank];

	check_words(w, rank);
	for (int i = 0; i < SIM_REGIONS; i++)
		check_guards(w, rank, &r->region[i]);
	for (int peer = 0; peer < w->plan->ranks; peer++)
		for (uint32_t n = 0; n < w->plan->lanes && peer != rank; n++) {
			struct sim_lane_memory *m = &r->lane_memory[peer][n];

			check_guards(w, rank, &m->sink);
			check_queue(w, rank, &m->main, &m->watch[0]);
			check_queue(w, rank, &m->companion, &m->watch[1]);
		}
}
