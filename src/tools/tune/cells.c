/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/cells.c - up to which size collectives of a team move their data in marked cells.
 *
 * Two teams make the same all-gathers in turn: one has cells, the other none.  A call is a launch
 * of the library's kernel, as a host call is.  Only ranks that all map each other have the choice.
 */
#include <stdlib.h>
#include <string.h>

#include <oriel/coll/team.h>

#include "kernels/coll.h"
#include "tool.h"
#include "util/util.h"

#define MARGIN 0.97 /* as in sweep.c: a change must be faster by this */
#define SIGNALS 0   /* ways to move data: slot and signal */
#define CELLS 1

struct bed {
	struct tool_job *job;
	struct oriel_team *team[2];
	uint8_t *send, *recv; /* device memory */
};

static int open_bed(struct bed *b)
{
	uint64_t most = ORI_TUNE_CELLS_MAX, n = (uint64_t)b->job->nranks;
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	void *at = NULL;
	int err = oriel_alloc(b->job->comm, (n + 1) * most, &at);

	if (err) {
		oriel_comm_abort(b->job->comm, err); /* the others would wait in create */
		return err;
	}
	b->send = at;
	b->recv = b->send + most;
	for (int way = SIGNALS; !err && way <= CELLS; way++) {
		o.cells = way == CELLS ? ORIEL_CELLS_IF_POSSIBLE : ORIEL_CELLS_NEVER;
		err = oriel_team_create(b->job->comm, &o, &b->team[way]);
	}
	return err;
}

static int close_bed(struct bed *b)
{
	int err = 0;

	if (oriel_comm_status(b->job->comm))
		return 0; /* everything ends with the comm */
	for (int way = SIGNALS; !err && way <= CELLS; way++)
		err = oriel_team_destroy(b->team[way]);
	if (b->send)
		(void)oriel_free(b->job->comm, b->send);
	return err;
}

/* One sample: `calls` all-gathers of `bytes`; the time of the slowest rank. */
static int take_sample(struct bed *b, int way, uint64_t bytes, int calls, double *us)
{
	struct tool_job *job = b->job;
	int threads = job->cores ? 1 : ORI_COLL_THREADS, err;
	struct ori_coll_args args;
	uint64_t start;

	memset(&args, 0, sizeof(args));
	args.call.kind = ORI_COLL_ALLGATHER;
	args.call.size = bytes;
	args.call.root = -1;
	args.send = b->send;
	args.recv = b->recv;
	err = oriel_team_device(b->team[way], &args.team);
	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	start = ori_now_ns();
	for (int i = 0; !err && i < calls; i++)
		err = oriel_launch(job->comm, ori_coll_kernel(), 1, threads, &args, sizeof(args),
				   NULL);
	if (!err)
		err = oriel_comm_sync(job->comm, NULL);
	if (err) {
		oriel_comm_abort(job->comm, err);
		return err;
	}
	return tool_gather(job, (double)(ori_now_ns() - start) / 1e3 / calls, us);
}

static int measure_size(struct bed *b, struct tool_cells *s)
{
	double us[2][TOOL_REPS_MAX], first;
	int calls, err = take_sample(b, SIGNALS, s->bytes, 4, &first);

	if (err)
		return err;
	calls = tool_calls(b->job, first);
	for (int rep = 0; !err && rep < b->job->reps; rep++)
		for (int way = SIGNALS; !err && way <= CELLS; way++)
			err = take_sample(b, way, s->bytes, calls, &us[way][rep]);
	if (err)
		return err;
	s->signals = tool_time_of(us[SIGNALS], b->job->reps);
	s->cells = tool_time_of(us[CELLS], b->job->reps);
	return 0;
}

/* The first guess stays unless the other way is clearly faster. */
static int prefers_cells(const struct tool_cells *s, uint32_t guess)
{
	if (s->bytes <= guess)
		return s->signals.us >= MARGIN * s->cells.us;
	return s->cells.us < MARGIN * s->signals.us;
}

int tool_cells_sweep(struct tool_job *job)
{
	struct bed b = { .job = job };
	uint32_t guess = ori_tune_cells(job->comm), limit = 0;
	int err, end, stopped = 0;

	job->cells = guess;
	if (job->peers[ORI_PLAN_QUEUED] || job->nranks == 1)
		return 0;
	err = open_bed(&b);
	for (uint32_t bytes = 64; !err && bytes <= ORI_TUNE_CELLS_MAX; bytes *= 4) {
		struct tool_cells *s = &job->short_calls[job->nshort++];

		s->bytes = bytes;
		err = measure_size(&b, s);
		/* cells up to a size, so a larger one cannot have them if a smaller one has not */
		stopped |= !err && !prefers_cells(s, guess);
		limit = stopped ? limit : bytes;
	}
	end = close_bed(&b);
	job->cells = limit;
	return err ? err : end;
}
