/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/coll.c - one row of a collective: verification passes, then timed runs of its calls.
 *
 * It does not depend on the collective: struct perf_coll (coll.h) has functions for the calls and
 * the data.
 * Called by: allgather.c, alltoallv.c, reduce.c and inside.c, on the rank's host thread.
 */
#include "coll.h"

#include <oriel/oriel.h>

#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

uint64_t perf_coll_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

void perf_coll_fill(uint8_t *data, uint64_t bytes, uint64_t seed)
{
	for (uint64_t off = 0; off < bytes; off += 8) {
		uint64_t word = perf_coll_mix(seed + off);

		memcpy(data + off, &word, bytes - off < 8 ? bytes - off : 8);
	}
}

uint64_t perf_coll_wrong(const uint8_t *data, uint64_t bytes, uint64_t seed)
{
	uint64_t wrong = 0;

	for (uint64_t off = 0; off < bytes; off += 8) {
		uint64_t word = perf_coll_mix(seed + off), n = bytes - off < 8 ? bytes - off : 8;

		for (uint64_t i = 0; memcmp(data + off, &word, n) && i < n; i++)
			wrong += data[off + i] != ((const uint8_t *)&word)[i];
	}
	return wrong;
}

int perf_coll_fits(const struct perf_job *job, const char *name, uint64_t bytes, uint64_t each)
{
	for (int r = 0; r < job->nranks; r++) {
		const struct perf_rank *who = &job->facts.ranks[r];
		uint64_t all = each * (uint64_t)perf_local_ranks(job, r);

		if (all <= who->available_bytes)
			continue;
		if (job->rank == 0)
			fprintf(stderr,
				"oriel-perf: %s of %llu bytes on %d ranks needs %.2f GiB on "
				"host %s, which has %.2f GiB available\n",
				name, (unsigned long long)bytes, job->nranks,
				(double)all / (1 << 30), who->host,
				(double)who->available_bytes / (1 << 30));
		return ORIEL_ENOMEM;
	}
	return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The other ranks wait for this one in their call: abort, so that they end with the reason. */
static int fail_call(struct perf_coll *c, int err)
{
	fprintf(stderr, "oriel-perf: rank %d: %s of %llu bytes: %s: %s\n", c->job->rank,
		c->op->name, (unsigned long long)c->bytes, oriel_status_text(err),
		oriel_last_error());
	if (!oriel_comm_status(c->job->comm))
		oriel_comm_abort(c->job->comm, err);
	return err;
}

/* A graph always replays the call that was captured, which is out of place. */
static int has_both(const struct perf_coll *c)
{
	return c->op->place == PERF_EITHER_PLACE && !c->job->opt->graph;
}

/* Passes are out of place and in place in turn, if the operation can do both. */
static int run_checks(struct perf_coll *c, uint64_t wrong[2])
{
	int err = 0;

	for (int pass = 0; !err && pass < PERF_PASSES; pass++) {
		c->in_place = has_both(c) ? pass % 2 : c->op->place == PERF_IN_PLACE;
		err = perf_agree(c->job, c->write_pass(c->bed, pass), "filling memory");
		if (err)
			return err;
		err = c->call(c->bed, (uint32_t)pass);
		if (!err)
			err = c->settle(c->bed);
		if (err)
			return fail_call(c, err);
		err = perf_agree(c->job, c->read_pass(c->bed, pass, &wrong[c->in_place]),
				 "checking memory");
	}
	return err;
}

static int run_calls(struct perf_coll *c, uint32_t n, uint64_t *ns)
{
	uint64_t start = now_ns();
	int err = 0;

	for (uint32_t i = 0; !err && i < n; i++)
		err = c->call(c->bed, i);
	if (!err)
		err = c->settle(c->bed);
	*ns = now_ns() - start;
	return err;
}

/* The samples, from calls of the host. */
static int time_calls(struct perf_coll *c, const struct perf_plan *p, float *us)
{
	uint64_t ns;
	int err = run_calls(c, p->warm, &ns);

	for (uint32_t i = 0; !err && i < p->samples; i++) {
		err = run_calls(c, p->batch, &ns);
		us[i] = (float)((double)ns * 1e-3 / p->batch);
	}
	return err;
}

static int run_timed(struct perf_coll *c, const struct perf_plan *p, uint64_t wrong,
		     struct perf_row *row, double *time_us)
{
	float us[PERF_SAMPLES_MAX];
	int err = oriel_comm_barrier(c->job->comm, ORIEL_WORLD);

	if (!err)
		err = c->timed ? c->timed(c->bed, p, us) : time_calls(c, p, us);
	if (err)
		return fail_call(c, err);
	return perf_samples_join(c->job, us, p->samples, wrong, row, time_us);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct perf_row perf_coll_row(const struct perf_coll *c, const struct perf_plan *p,
			      const char *type)
{
	struct perf_row row = { .op = c->op,
				.type = type,
				.bytes = c->bytes,
				.count = c->bytes,
				.checked = c->job->opt->check,
				.iterations = p->iterations,
				.batch = p->batch };

	perf_progress_row(c->job, c->op, c->bytes);
	return row;
}

/* nccl-tests has a group of columns for runs in place.  Percentiles are those of the last run. */
static int run_in_place(struct perf_coll *c, const struct perf_plan *p, uint64_t wrong,
			struct perf_row *row)
{
	int err;

	c->in_place = 1;
	err = run_timed(c, p, wrong, row, &row->in_place_us);
	row->in_place_wrong = row->wrong;
	return err;
}

int perf_coll_measure(struct perf_coll *c, const struct perf_plan *p, struct perf_row *row)
{
	uint64_t wrong[2] = { 0, 0 }; /* of passes out of place, in place */
	int err = c->job->opt->check ? run_checks(c, wrong) : 0;

	if (!err && c->job->opt->format == PERF_FORMAT_NCCL && has_both(c)) {
		err = run_in_place(c, p, wrong[1], row);
		wrong[1] = 0;
	}
	c->in_place = c->op->place == PERF_IN_PLACE;
	if (!err)
		err = run_timed(c, p, wrong[0] + wrong[1], row, &row->time_us);
	if (!err)
		perf_rates_set(row, c->job->nranks);
	return err;
}
