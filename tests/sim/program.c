/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/program.c - one fiber: runs the operations of a thread through the device headers.
 *
 * The headers are used unchanged; nothing here knows how a queue works.  A program ends with the
 * first error, or when everything that it posted is complete.
 */
#include <string.h>

#include "sim.h"

struct env {
	struct sim_world *w;
	struct sim_rank *r;
	struct sim_thread *t;
	struct ori_op_context scope;
	int rank, thread;
	uint32_t lane;
};

static struct sim_region *region_of(struct env *e, int rank, enum sim_region_name name)
{
	return &e->w->rank[rank].region[name];
}

/* ---- one operation --------------------------------------------------------------------------- */

static int run_post(struct env *e, struct sim_op *op)
{
	uint32_t count = sim_word_counter(op->peer, e->thread);
	uint8_t value[ORI_WQE_INLINE_BYTES];
	struct ori_post post;
	int err;

	ori_post_init(&post);
	post.remote = op->at;
	post.rkey = region_of(e, op->peer, SIM_WINDOW)->key;
	post.local = op->local;
	post.lkey = region_of(e, e->rank, SIM_SOURCE)->key;
	post.bytes = op->bytes;
	if (op->kind == SIM_PUT_INLINE) {
		memcpy(value, region_of(e, e->rank, SIM_SOURCE)->base + op->local, op->bytes);
		post.value = value;
	}
	if (op->signal) {
		uint32_t word = sim_word(e->rank, e->thread, op->word);

		post.signal = op->signal;
		post.signal_flags = op->flags;
		post.signal_value = op->value;
		post.one_nic = op->word == SIM_WORD_SHARED; /* by threads of every lane */
		post.word = 8ull * word;
		post.word_key = region_of(e, op->peer, SIM_CONTROL)->key;
		post.total = &e->r->totals[op->peer][word];
	}
	if (op->counter) {
		post.count = sim_word_at(e->w, e->rank, count);
		post.count_address = 8ull * count;
		post.count_key = region_of(e, e->rank, SIM_CONTROL)->key;
	}
	err = ori_queue_post(&e->scope, &e->r->link[op->peer], e->lane, &post);
	memset(value, 0, sizeof(value)); /* the caller's bytes may go once the call returns */
	return err;
}

static int run_read(struct env *e, const struct sim_op *op)
{
	enum sim_region_name from = op->read_of >= 0 ? SIM_WINDOW : SIM_LIBRARY;
	struct ori_post read;

	ori_post_init(&read);
	read.remote = op->at;
	read.rkey = region_of(e, op->peer, from)->key;
	read.local = op->local;
	read.lkey = region_of(e, e->rank, SIM_LANDING)->key;
	read.bytes = op->bytes;
	return ori_queue_read(&e->scope, &e->r->link[op->peer], e->lane, &read);
}

static int run_atomic(struct env *e, struct sim_op *op)
{
	int compare = op->kind == SIM_COMPARE_SWAP;
	uint32_t word = compare ? SIM_WORD_COMPARE_SWAP : SIM_WORD_FETCH_ADD;
	uint64_t *seen = &e->t->cas_seen[op->peer], expected = *seen;
	struct ori_fetch fetch = { .link = &e->r->link[op->peer],
				   .lane = e->lane,
				   .block = (uint32_t)e->thread,
				   .remote = 8ull * word,
				   .rkey = region_of(e, op->peer, SIM_CONTROL)->key };
	int err = ori_fetch_atomic(&e->scope, &fetch, compare, expected,
				   compare ? expected + 1 : op->value, &op->result);

	if (compare)
		op->value = expected;
	if (compare && !err)
		*seen = op->result == expected ? expected + 1 : op->result;
	return err;
}

/* The words that operations up to this one have signalled are there. */
static void check_words(struct env *e, int peer, int last)
{
	for (int i = 0; i <= last; i++) {
		const struct sim_op *op = &e->t->op[i];
		uint64_t *at = sim_word_at(e->w, peer, sim_word(e->rank, e->thread, op->word));

		if (op->peer == peer && op->signal && op->word != SIM_WORD_SHARED &&
		    !ori_reached(*at, op->after))
			sim_violate(e->w, "rank %d thread %d: flushed, but signal #%u is not at %d",
				    e->rank, e->thread, op->id, peer);
	}
}

/*
 * After a flush all earlier operations are at the peer, reads have landed, and the program owns the
 * sources again.  They are overwritten, so that code that still reads them is found.
 */
static int run_flush(struct env *e, int peer, int last)
{
	int err = ori_lane_flush(&e->scope, &e->r->link[peer], e->lane);

	if (err)
		return err;
	sim_check_delivered(e->w, e->rank, e->thread, peer, last);
	sim_check_landed(e->w, e->rank, e->thread, peer, last);
	check_words(e, peer, last);
	for (int i = 0; i <= last; i++) {
		struct sim_op *op = &e->t->op[i];

		if (op->peer != peer || op->progress == SIM_COMPLETE)
			continue;
		if (op->bytes && op->kind != SIM_READ)
			memset(region_of(e, e->rank, SIM_SOURCE)->base + op->local, 0xee,
			       op->bytes);
		op->progress = SIM_COMPLETE;
	}
	return 0;
}

static int run_op(struct env *e, struct sim_op *op)
{
	switch (op->kind) {
	case SIM_READ:
		return run_read(e, op);
	case SIM_FETCH_ADD:
	case SIM_COMPARE_SWAP:
		return run_atomic(e, op);
	case SIM_FENCE:
		return ori_lane_fence(&e->scope, &e->r->link[op->peer], e->lane);
	case SIM_FLUSH:
		return run_flush(e, op->peer, e->t->now);
	default:
		return run_post(e, op);
	}
}

/* Everything is complete, companions too, as a comm does it before its memory is freed. */
static int finish(struct env *e)
{
	int err = 0;

	for (int peer = 0; peer < e->w->plan->ranks && !err; peer++) {
		struct oriel_queue *q = e->r->lane[peer][e->lane].companion;

		if (peer == e->rank)
			continue;
		err = run_flush(e, peer, e->t->ops - 1);
		if (!err)
			err = ori_queue_wait(&e->scope, q, ori_load_acquire_sys(&q->produced));
	}
	return err;
}

void sim_program_run(void *arg)
{
	struct sim_fiber_arg *a = arg;
	struct env e = { .w = a->world, .rank = a->rank, .thread = a->thread };
	int err = 0;

	e.r = &e.w->rank[e.rank];
	e.t = &e.w->plan->thread[e.rank][e.thread];
	e.scope = ori_comm_context(&e.r->comm);
	e.lane = (uint32_t)e.thread % e.w->plan->lanes;
	for (e.t->now = 0; e.t->now < e.t->ops && !err; e.t->now++) {
		struct sim_op *op = &e.t->op[e.t->now];

		op->progress = SIM_BEGUN;
		err = run_op(&e, op);
		if (!err && op->progress == SIM_BEGUN)
			op->progress = SIM_RETURNED;
	}
	e.t->status = err ? err : finish(&e);
}
