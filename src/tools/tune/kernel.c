/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/kernel.c - ways of collectives inside a kernel: up to which size blocks go in marked
 * cells, and up to which size an all-reduce is one round.
 *
 * A call is a launch of the library's kernel with one block.  Only ranks that all map each other
 * have the choice of cells: two teams make the same all-gathers in turn, and only one has cells.
 */
#include <string.h>

#include <oriel/coll/reduce.h>
#include <oriel/coll/team.h>

#include "comm/comm.h"
#include "kernels/coll.h"
#include "tool.h"
#include "util/util.h"

#define CELLS 0
#define SIGNALS 1
#define ONCE_FIRST 2048u
#define ONCE_LAST (128u << 10)

struct bed {
	struct tool_job *job;
	struct oriel_team *team[2]; /* CELLS only if there is a choice */
	uint8_t *send, *recv;       /* device memory */
};

static int open_bed(struct bed *b, int cells)
{
	uint64_t gathered = (uint64_t)b->job->nranks * ORI_TUNE_CELLS_MAX;
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	void *at = NULL;
	int err = oriel_alloc(b->job->comm,
			      ONCE_LAST + (gathered > ONCE_LAST ? gathered : ONCE_LAST), &at);

	if (err) {
		oriel_comm_abort(b->job->comm, err); /* the others would wait in create */
		return err;
	}
	b->send = at;
	b->recv = b->send + ONCE_LAST;
	o.cells = ORIEL_CELLS_NEVER;
	err = oriel_team_create(b->job->comm, &o, &b->team[SIGNALS]);
	o.cells = ORIEL_CELLS_IF_POSSIBLE;
	if (!err && cells)
		err = oriel_team_create(b->job->comm, &o, &b->team[CELLS]);
	return err;
}

static int close_bed(struct bed *b)
{
	int err = 0;

	if (oriel_comm_status(b->job->comm))
		return 0; /* everything ends with the comm */
	for (int way = CELLS; !err && way <= SIGNALS; way++)
		err = oriel_team_destroy(b->team[way]);
	if (b->send)
		(void)oriel_free(b->job->comm, b->send);
	return err;
}

/* One sample: so many launches; the time of the slowest rank. */
static int launch(struct bed *b, const struct ori_coll_args *args, int calls, double *us)
{
	struct tool_job *job = b->job;
	int threads = job->cores ? 1 : ORI_COLL_THREADS;
	int err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	uint64_t start = ori_now_ns();

	for (int i = 0; !err && i < calls; i++)
		err = oriel_launch(job->comm, ori_coll_kernel(), 1, threads, args, sizeof(*args),
				   NULL);
	if (!err)
		err = oriel_comm_sync(job->comm, NULL);
	if (err) {
		oriel_comm_abort(job->comm, err);
		return err;
	}
	return tool_gather(job, (double)(ori_now_ns() - start) / 1e3 / calls, us);
}

static void fill(const struct bed *b, struct ori_coll_args *args, int kind, uint64_t size)
{
	memset(args, 0, sizeof(*args));
	args->call.kind = (uint8_t)kind;
	args->call.size = size;
	args->call.root = -1;
	args->send = b->send;
	args->recv = b->recv;
}

static int gather(void *bed, int way, uint64_t bytes, int calls, double *us)
{
	struct bed *b = bed;
	struct ori_coll_args args;
	int err;

	fill(b, &args, ORI_COLL_ALLGATHER, bytes);
	err = oriel_team_device(b->team[way], &args.team);
	return err ? err : launch(b, &args, calls, us);
}

/* The limit is a number in the handle, so one team goes both ways. */
static int reduce(void *bed, int way, uint64_t bytes, int calls, double *us)
{
	struct bed *b = bed;
	struct ori_coll_args args;
	int err;

	fill(b, &args, ORI_COLL_ALLREDUCE, bytes / sizeof(float));
	args.call.type = ORIEL_TYPE_FLOAT;
	args.call.op = ORIEL_REDUCE_SUM;
	err = oriel_team_device(b->team[SIGNALS], &args.team);
	args.team.once_bytes = way ? 0 : ORI_TUNE_ONCE_MAX;
	return err ? err : launch(b, &args, calls, us);
}

/* What the limits are before anything is measured, and why nothing may be. */
static void begin(struct tool_job *job)
{
	struct tool_limit *cells = &job->limit[TOOL_CELLS], *once = &job->limit[TOOL_ONCE];
	struct ori_tune_ways ways;

	ori_tune_ways(job->comm, &ways);
	*cells = (struct tool_limit){ .call = "all-gather",
				      .place = "in a kernel",
				      .below = "in cells",
				      .above = "with signals",
				      .guess = ways.cells,
				      .bytes = ways.cells };
	*once = (struct tool_limit){ .call = "all-reduce",
				     .place = "in a kernel",
				     .below = "in one round",
				     .above = "in pieces",
				     .guess = ways.once,
				     .bytes = ways.once,
				     .least = ONCE_FIRST / 2 };
	if (job->peers[ORI_PLAN_QUEUED])
		cells->none = "cells need ranks that all map each other";
	else if (ori_facts_lack_atomics(job->comm->facts, job->nranks))
		cells->none = "cells need atomics between the GPUs";
	if (job->nranks <= 2)
		once->none = "with two ranks pieces move as much, and need a round more";
	if (job->nranks == 1)
		cells->none = once->none = "there is one rank";
}

int tool_kernel_sweep(struct tool_job *job)
{
	struct tool_limit *cells = &job->limit[TOOL_CELLS], *once = &job->limit[TOOL_ONCE];
	struct bed b = { .job = job };
	int err, end;

	begin(job);
	if (cells->none && once->none)
		return 0;
	err = open_bed(&b, !cells->none);
	if (err && !oriel_comm_status(job->comm)) {
		/* No team, on all ranks.  What was measured before is kept. */
		cells->none = once->none = "the team could not be created";
		err = 0;
	}
	if (!err && !cells->none)
		err = tool_limit_sweep(job, cells, 64, ORI_TUNE_CELLS_MAX, 4, gather, &b);
	if (!err && !once->none)
		err = tool_limit_sweep(job, once, ONCE_FIRST, ONCE_LAST, 2, reduce, &b);
	end = close_bed(&b);
	return err ? err : end;
}
