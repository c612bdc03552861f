/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/measure.c - times of all-to-all-v calls under given plans, and what all times share.
 *
 * A sample is a number of calls that takes about sample_us.  It begins after a barrier and ends
 * with the last call; the time of the slowest rank counts.  Plans are measured in turn, so that a
 * phase in which the machine is slow affects all plans.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/alltoallv/alltoallv.h"
#include "tool.h"
#include "tools/common/progress.h"
#include "util/util.h"

#define CALLS_MAX 2000

/* What ranks exchange after each sample. */
struct sample {
	double us;
	double elapsed_s;
};

/* ---- requests -------------------------------------------------------------------------------- */

/* Makes one array of sizes per kind of peer, and one for all.  An element is one byte. */
int tool_sizes_open(struct tool_job *job)
{
	size_t bytes = (size_t)job->nranks * sizeof(uint64_t);
	int err = 0;

	for (int w = 0; !err && w <= TOOL_ALL; w++) {
		void *at = NULL;

		err = oriel_alloc(job->comm, bytes, &at);
		job->sizes[w] = at;
	}
	return err;
}

void tool_sizes_close(struct tool_job *job)
{
	for (int w = 0; w <= TOOL_ALL; w++)
		(void)oriel_free(job->comm, job->sizes[w]);
}

static int fill_sizes(struct tool_job *job, uint64_t bytes)
{
	uint64_t *host = calloc((size_t)job->nranks, sizeof(*host));
	int err = host ? 0 : ORIEL_ENOMEM;

	for (int w = 0; !err && w <= TOOL_ALL; w++) {
		for (int r = 0; r < job->nranks; r++) {
			int queued = oriel_comm_peer_kind(job->comm, r) == ORIEL_PEER_QUEUED;

			host[r] = w == TOOL_ALL || queued == (w == ORI_PLAN_QUEUED) ? bytes : 0;
		}
		err = oriel_copy(job->comm, job->sizes[w], host,
				 (size_t)job->nranks * sizeof(*host));
	}
	free(host);
	return err;
}

int tool_request_open(struct tool_job *job, uint64_t bytes)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	int err = fill_sizes(job, bytes);

	if (err) {
		oriel_comm_abort(job->comm, err); /* the others would wait in create */
		return err;
	}
	o.slot_bytes = bytes;
	o.expect_bytes = bytes;
	return oriel_alltoallv_create(job->comm, &o, &job->request);
}

int tool_request_close(struct tool_job *job)
{
	int err = oriel_alltoallv_destroy(job->request);

	job->request = NULL;
	return err;
}

/* ---- samples --------------------------------------------------------------------------------- */

int tool_gather(struct tool_job *job, double us, double *slowest)
{
	struct sample mine = { us, (double)(ori_now_ns() - job->start_ns) / 1e9 };
	struct sample *all = calloc((size_t)job->nranks, sizeof(*all));
	int err;

	if (!all) {
		oriel_comm_abort(job->comm, ORIEL_ENOMEM);
		return ORIEL_ENOMEM;
	}
	err = oriel_comm_allgather(job->comm, ORIEL_WORLD, &mine, all, sizeof(mine));
	*slowest = 0;
	for (int r = 0; !err && r < job->nranks; r++)
		*slowest = all[r].us > *slowest ? all[r].us : *slowest;
	if (!err)
		job->elapsed_s = all[0].elapsed_s;
	free(all);
	return err;
}

static int take_sample(struct tool_job *job, int which, const struct ori_a2a_plan *plan, int calls,
		       double *us)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t start;
	int err = ori_alltoallv_plan_set(job->request, plan);

	args.send_sizes = job->sizes[which];
	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	start = ori_now_ns();
	for (int i = 0; !err && i < calls; i++)
		err = oriel_alltoallv_exec(job->request, &args, NULL);
	if (!err)
		err = oriel_comm_sync(job->comm, NULL);
	if (!err)
		err = oriel_alltoallv_status(job->request);
	if (err) {
		oriel_comm_abort(job->comm, err);
		return err;
	}
	return tool_gather(job, (double)(ori_now_ns() - start) / 1e3 / calls, us);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int tool_calls(const struct tool_job *job, double us)
{
	double calls = job->sample_us / (us > 0.01 ? us : 0.01);

	return calls < 2 ? 2 : calls > CALLS_MAX ? CALLS_MAX : (int)calls;
}

struct tool_time tool_time_of(double *us, int n)
{
	qsort(us, (size_t)n, sizeof(*us), by_value);
	return (struct tool_time){ .least = us[0], .us = us[n / 2], .most = us[n - 1] };
}

/* How many calls make a sample.  Measured in the second run; the first touches all pages. */
static int count_calls(struct tool_job *job, int which, const struct ori_a2a_plan *plan, int *calls)
{
	double us;
	int err = take_sample(job, which, plan, 2, &us);

	if (!err)
		err = take_sample(job, which, plan, 4, &us);
	if (err)
		return err;
	*calls = tool_calls(job, us);
	return 0;
}

static void show_progress(const struct tool_job *job, int settings)
{
	char text[128];

	snprintf(text, sizeof(text), "exchanges of %llu bytes (size %d of %d): %d settings",
		 (unsigned long long)job->size[job->current].bytes, job->current + 1, job->nsizes,
		 settings);
	tool_progress_show(text);
}

int tool_measure(struct tool_job *job, int which, const struct ori_a2a_plan *plans, int n,
		 struct tool_time *times)
{
	double us[TOOL_CANDIDATES][TOOL_REPS_MAX];
	int calls, err = count_calls(job, which, &plans[0], &calls);

	if (n > TOOL_CANDIDATES)
		return ORIEL_EINVAL;
	if (job->rank == 0)
		show_progress(job, n);
	for (int rep = 0; !err && rep < job->reps; rep++)
		for (int i = 0; !err && i < n; i++)
			err = take_sample(job, which, &plans[i], calls, &us[i][rep]);
	for (int i = 0; !err && i < n; i++)
		times[i] = tool_time_of(us[i], job->reps);
	return err;
}
