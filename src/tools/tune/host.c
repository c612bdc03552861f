/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/host.c - ways of collectives of the host between ranks that all map each other: up to
 * which size an all-reduce of CPU ranks is one step, and from which size on calls of GPU ranks have
 * the kernels for long calls.
 *
 * Buffers are not in windows: what is in windows goes a way of its own on the CPU, and is faster by
 * the long kernels than other memory.  Other comms make the calls as kernels do (kernel.c).
 */
#include <string.h>

#include <oriel/coll/reduce.h>

#include "coll/team/cards.h"
#include "coll/team/team.h"
#include "kernels/coll.h"
#include "tool.h"
#include "util/util.h"

#define ONCE_FIRST (2 * ORI_CARD_AREA_BYTES)
#define ONCE_LAST (128u << 10)
#define LONG_FIRST ORI_TUNE_LONG_MIN
#define LONG_LAST (1u << 20)

struct bed {
	struct tool_job *job;
	uint8_t *send, *recv; /* device memory */
	int limit;            /* the one that is measured */
};

static int call(struct bed *b, uint64_t bytes)
{
	return oriel_allreduce(b->job->comm, b->send, b->recv, bytes / sizeof(float),
			       ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL);
}

/* The first call makes the team whose limits are moved. */
static int open_bed(struct bed *b)
{
	void *at = NULL;
	int err = oriel_alloc(b->job->comm, 2 * LONG_LAST, &at);

	b->send = at;
	if (err) {
		oriel_comm_abort(b->job->comm, err); /* the others would wait in the call */
		return err;
	}
	b->recv = b->send + LONG_LAST;
	err = call(b, sizeof(float));
	if (err && ori_team_of_calls(b->job->comm))
		oriel_comm_abort(b->job->comm, err); /* likewise */
	return err;
}

static int set_way(struct bed *b, int way)
{
	struct ori_tune_ways ways;

	ori_tune_ways(b->job->comm, &ways);
	if (b->limit == TOOL_HOST_ONCE)
		ways.host_once = way ? 0 : ORI_TUNE_ONCE_MAX;
	else
		ways.long_from = way ? ORI_TUNE_LONG_MIN : ORI_TUNE_LONG_MAX;
	return ori_team_ways_set(b->job->comm, &ways);
}

static int sample(void *bed, int way, uint64_t bytes, int calls, double *us)
{
	struct bed *b = bed;
	struct oriel_comm *c = b->job->comm;
	int err = set_way(b, way);
	uint64_t start;

	if (!err)
		err = oriel_comm_barrier(c, ORIEL_WORLD);
	start = ori_now_ns();
	for (int i = 0; !err && i < calls; i++)
		err = call(b, bytes);
	if (!err)
		err = oriel_comm_sync(c, NULL);
	if (err) {
		oriel_comm_abort(c, err);
		return err;
	}
	return tool_gather(b->job, (double)(ori_now_ns() - start) / 1e3 / calls, us);
}

static void begin(struct tool_job *job)
{
	struct tool_limit *once = &job->limit[TOOL_HOST_ONCE], *from = &job->limit[TOOL_LONG];
	struct ori_tune_ways ways;

	ori_tune_ways(job->comm, &ways);
	*once = (struct tool_limit){ .call = "all-reduce",
				     .place = "of the host",
				     .below = "in one step",
				     .above = "in pieces",
				     .guess = ways.host_once,
				     .bytes = ways.host_once,
				     .least = ONCE_FIRST / 2 };
	*from = (struct tool_limit){ .call = "all-reduce",
				     .place = "of the host",
				     .below = "in rounds",
				     .above = "by its own kernel",
				     .guess = ways.long_from - 1,
				     .bytes = ways.long_from - 1,
				     .least = LONG_FIRST / 2 };
	if (!job->cores)
		once->none = "ranks have GPUs";
	else
		from->none = "ranks have no GPUs";
	if (job->nranks > (job->cores ? ORI_CARDS_RANKS : ORI_COLL_STAGE_RANKS))
		once->none = from->none = "there are too many ranks: as in a kernel";
	if (ori_facts_lack_atomics(job->comm->facts, job->nranks) && !job->cores)
		once->none = from->none = "its kernels need atomics between the GPUs";
	if (job->peers[ORI_PLAN_QUEUED])
		once->none = from->none = "some peers are queued: as in a kernel";
	if (job->nranks == 1)
		once->none = from->none = "there is one rank";
}

int tool_host_sweep(struct tool_job *job)
{
	struct tool_limit *once = &job->limit[TOOL_HOST_ONCE], *from = &job->limit[TOOL_LONG];
	struct bed b = { .job = job };
	int err = 0;

	begin(job);
	if (!once->none || !from->none)
		err = open_bed(&b);
	if (err && !oriel_comm_status(job->comm) && !ori_team_of_calls(job->comm)) {
		/* No team, on all ranks.  What was measured before is kept. */
		once->none = from->none = "the team could not be created";
		err = 0;
	}
	b.limit = TOOL_HOST_ONCE;
	if (!err && !once->none)
		err = tool_limit_sweep(job, once, ONCE_FIRST, ONCE_LAST, 2, sample, &b);
	b.limit = TOOL_LONG;
	if (!err && !from->none)
		err = tool_limit_sweep(job, from, LONG_FIRST, LONG_LAST, 2, sample, &b);
	/* calls of the next size go the other way; the guess is the last byte before it */
	from->bytes = from->bytes == from->guess ? from->guess + 1 : 2 * from->bytes;
	if (b.send && !oriel_comm_status(job->comm))
		(void)oriel_free(job->comm, b.send);
	return err;
}
