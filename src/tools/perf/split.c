/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/split.c - how an all-to-all-v distributes its bytes among peers (--split).
 *
 * Pure functions of the row and the flags: every rank can compute the sizes of all pairs.
 * Called by: alltoallv.c and inside_v.c.
 */
#include "coll.h"

enum perf_split perf_split_of(const struct perf_coll *c)
{
	return c->op == &perf_op_alltoall ? PERF_UNIFORM : c->job->opt->split;
}

const char *perf_split_name(const struct perf_coll *c)
{
	static const char *const names[] = { "uniform", "random", "skew" };

	return names[perf_split_of(c)];
}

uint64_t perf_split_bytes(const struct perf_coll *c, int split, int from, int to)
{
	uint64_t n = (uint64_t)c->job->nranks, half = c->bytes * n / 2;

	if (perf_split_of(c) == PERF_UNIFORM || n == 1)
		return c->bytes;
	if (perf_split_of(c) == PERF_SKEW)
		return to == (from + 1) % (int)n ? half : half / (n - 1);
	return perf_coll_mix(
		       perf_coll_mix(c->job->opt->seed * 1000003u + (uint64_t)split) ^
		       perf_coll_mix(c->bytes + ((uint64_t)from << 50) + ((uint64_t)to << 40))) %
	       (2 * c->bytes + 1);
}

uint64_t perf_split_most(const struct perf_coll *c)
{
	uint64_t most = 0;

	for (int s = 0; s < PERF_SPLITS; s++)
		for (int from = 0; from < c->job->nranks; from++)
			for (int to = 0; to < c->job->nranks; to++) {
				uint64_t bytes = perf_split_bytes(c, s, from, to);

				most = bytes > most ? bytes : most;
			}
	return most;
}
