/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/inside.c - oriel-perf OP --in-kernel: collectives that a running kernel calls, with
 * the same size for all ranks.  inside_v.c has the all-to-all-v.
 *
 * All timed calls of a row are made by one kernel, and so are its calls for warming up.  A
 * verification pass is a kernel that makes one call.  An operation has one or more blocks of data
 * per rank, as input and as result.  Blocks of a kernel share each of them (ops_coll.c).
 *
 * Data is a hash of (pass, rank, block, place): bytes, or small whole numbers as floats, so that
 * sums are exact.  Bytes behind the result must not change.
 * Called by: main.c, on the rank's host thread.
 */
#include "team.h"

#include <stdlib.h>
#include <string.h>

#define POISON 0xa5
#define GUARD 64u

struct bed {
	struct perf_coll coll;
	struct perf_job *job;
	struct perf_team team;
	uint8_t *send, *recv; /* device memory */
	uint8_t *host;        /* room for the larger of the two */
	uint64_t send_bytes, recv_bytes;
};

static int is(const struct bed *b, const struct perf_op *op)
{
	return b->coll.op == op;
}

/* Blocks of data of one rank: its input. */
static uint64_t inputs(const struct bed *b)
{
	int many = is(b, &perf_inside_alltoall) || is(b, &perf_inside_reducescatter);

	return many ? (uint64_t)b->job->nranks : 1;
}

/* Blocks that are read after a call.  Reduce-scatter in place: the others must be as before. */
static uint64_t results(const struct bed *b)
{
	int many = is(b, &perf_inside_allgather) || is(b, &perf_inside_alltoall) ||
		   (is(b, &perf_inside_reducescatter) && b->coll.in_place);

	return many ? (uint64_t)b->job->nranks : 1;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Blocks that divide the data.  On a line they may divide the peers instead. */
static int shares(const struct bed *b)
{
	return b->job->opt->on_line && b->coll.op->parted ? 1 : b->job->opt->blocks;
}

static struct perf_piece share_of(const struct bed *b, int block)
{
	struct oriel_group g = oriel_group_thread();

	g.block = (uint32_t)block;
	g.nblocks = (uint32_t)shares(b);
	return perf_piece(b->coll.bytes, g);
}

/* Where share p of this rank's input block `q` begins. */
static uint8_t *input_at(const struct bed *b, struct perf_piece p, uint64_t q)
{
	uint64_t n = (uint64_t)b->job->nranks;

	if (is(b, &perf_inside_allgather) && b->coll.in_place)
		return b->recv + n * p.begin + (uint64_t)b->job->rank * p.bytes;
	if (b->coll.in_place && !is(b, &perf_inside_reducescatter))
		return b->recv + p.begin;
	return b->send + inputs(b) * p.begin + q * p.bytes;
}

static uint8_t *result_at(const struct bed *b, struct perf_piece p, uint64_t q)
{
	if (is(b, &perf_inside_reducescatter) && b->coll.in_place)
		return input_at(b, p, q);
	return b->recv + results(b) * p.begin + q * p.bytes;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int open_local(struct bed *b)
{
	uint64_t most = b->send_bytes > b->recv_bytes ? b->send_bytes : b->recv_bytes;
	void *send = NULL, *recv = NULL;
	int err = oriel_alloc(b->job->comm, b->send_bytes, &send);

	if (!err)
		err = oriel_alloc(b->job->comm, b->recv_bytes, &recv);
	b->send = send;
	b->recv = recv;
	b->host = malloc(most);
	if (!err && !b->host)
		err = ORIEL_ENOMEM;
	return err;
}

static int open_bed(struct bed *b)
{
	uint64_t end = b->job->opt->end;
	int err;

	b->send_bytes = inputs(b) * end;
	b->recv_bytes = results(b) * end + GUARD;
	err = perf_coll_fits(b->job, b->coll.op->name, end,
			     (b->job->opt->cuda ? 1 : 2) * (b->send_bytes + b->recv_bytes));
	if (!err)
		err = perf_team_open(&b->team, b->job, b->coll.op);
	if (err)
		return err;
	err = open_local(b);
	return perf_agree(b->job, err, "allocating memory");
}

static int close_bed(struct bed *b)
{
	int err;

	free(b->host);
	err = perf_team_close(&b->team);
	if (oriel_comm_status(b->job->comm))
		return err;
	if (b->send)
		(void)oriel_free(b->job->comm, b->send);
	if (b->recv)
		(void)oriel_free(b->job->comm, b->recv);
	return err;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static int run_kernel(struct bed *b, const struct perf_plan *p, struct perf_coll_args *a)
{
	memset(a, 0, sizeof(*a));
	a->run.bytes = b->coll.bytes;
	a->send = b->send;
	a->recv = b->recv;
	a->in_place = (uint32_t)b->coll.in_place;
	return perf_team_run(&b->team, p, a);
}

static int call(void *bed, uint32_t i)
{
	struct perf_plan one = { .samples = 1, .batch = 1 };
	struct perf_coll_args a;

	(void)i;
	return run_kernel(bed, &one, &a);
}

static int settle(void *bed)
{
	struct bed *b = bed;

	return oriel_team_status(b->team.team);
}

static int timed(void *bed, const struct perf_plan *p, float *us)
{
	struct bed *b = bed;
	struct perf_coll_args a;
	int err = run_kernel(b, p, &a);

	if (!err)
		perf_results_samples(b->job, &a.run, 1, us);
	return err;
}

/* ---- verification ---------------------------------------------------------------------------- */

static uint64_t stamp(const struct bed *b, int pass, int rank, uint64_t q)
{
	return perf_coll_mix((uint64_t)(pass + 1) << 48 ^ (uint64_t)(rank + 1) << 20 ^ (q + 1) ^
			     perf_coll_mix(b->coll.bytes));
}

/* Element i of input block q, which is one of floats. */
static float element(const struct bed *b, int pass, int rank, uint64_t q, uint64_t i)
{
	return (float)(perf_coll_mix(stamp(b, pass, rank, q) + i) % 64);
}

/* The input of this rank.  A share begins at a multiple of 64 bytes. */
static void fill(const struct bed *b, int pass, struct perf_piece p, uint64_t q, uint8_t *to)
{
	int rank = b->job->rank;

	if (b->coll.op->elem_bytes == 1) {
		perf_coll_fill(to, p.bytes, stamp(b, pass, rank, q) + p.begin);
		return;
	}
	for (uint64_t i = 0; i < p.bytes / sizeof(float); i++) {
		float value = element(b, pass, rank, q, p.begin / sizeof(float) + i);

		memcpy(to + i * sizeof(value), &value, sizeof(value));
	}
}

static int write_pass(void *bed, int pass)
{
	struct bed *b = bed;
	int err;

	memset(b->host, POISON, b->recv_bytes);
	err = oriel_copy(b->job->comm, b->recv, b->host, b->recv_bytes);
	for (int block = 0; block < shares(b); block++) {
		struct perf_piece p = share_of(b, block);

		for (uint64_t q = 0; !err && p.bytes && q < inputs(b); q++) {
			fill(b, pass, p, q, b->host);
			err = oriel_copy(b->job->comm, input_at(b, p, q), b->host, p.bytes);
		}
	}
	return err;
}

/* Element i of result block q. */
static float expected(const struct bed *b, int pass, uint64_t q, uint64_t i)
{
	int rank = b->job->rank;
	uint64_t from = is(b, &perf_inside_reducescatter) ? (uint64_t)rank : 0;
	float sum = 0;

	if (is(b, &perf_inside_broadcast))
		return element(b, pass, 0, 0, i);
	if (is(b, &perf_inside_reducescatter) && b->coll.in_place && q != from)
		return element(b, pass, rank, q, i);
	for (int r = 0; r < b->job->nranks; r++)
		sum += element(b, pass, r, from, i);
	return sum;
}

static uint64_t count_wrong(const struct bed *b, int pass, struct perf_piece p, uint64_t q,
			    const uint8_t *at)
{
	uint64_t from = is(b, &perf_inside_alltoall) ? (uint64_t)b->job->rank : 0, wrong = 0;

	if (b->coll.op->elem_bytes == 1)
		return perf_coll_wrong(at, p.bytes, stamp(b, pass, (int)q, from) + p.begin);
	for (uint64_t i = 0; i < p.bytes / sizeof(float); i++) {
		float want = expected(b, pass, q, p.begin / sizeof(float) + i), have;

		memcpy(&have, at + i * sizeof(have), sizeof(have));
		wrong += have == want ? 0 : sizeof(have);
	}
	return wrong;
}

static int read_pass(void *bed, int pass, uint64_t *wrong)
{
	struct bed *b = bed;
	struct oriel_comm *c = b->job->comm;
	/* in place, a reduce-scatter leaves all of recv alone */
	int in_send = is(b, &perf_inside_reducescatter) && b->coll.in_place, err = 0;
	uint64_t end = in_send ? 0 : results(b) * b->coll.bytes;

	for (int block = 0; block < shares(b); block++) {
		struct perf_piece p = share_of(b, block);

		for (uint64_t q = 0; !err && p.bytes && q < results(b); q++) {
			err = oriel_copy(c, b->host, result_at(b, p, q), p.bytes);
			*wrong += err ? 0 : count_wrong(b, pass, p, q, b->host);
		}
	}
	if (!err)
		err = oriel_copy(c, b->host, b->recv + end, GUARD);
	for (uint64_t i = 0; !err && i < GUARD; i++)
		*wrong += b->host[i] != POISON;
	return err;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int run_size(void *ctx, uint64_t bytes)
{
	struct bed *b = ctx;
	struct perf_plan p = perf_plan_make(b->job->opt, bytes * (uint64_t)b->job->nranks);
	uint64_t elem = b->coll.op->elem_bytes;
	struct perf_row row;
	int err;

	b->coll.bytes = bytes / elem * elem;
	row = perf_coll_row(&b->coll, &p, b->coll.op->type);
	row.count = bytes / elem;
	err = perf_coll_measure(&b->coll, &p, &row);
	return err ? err : perf_row_end(b->job, &row, b->coll.rows);
}

int perf_inside_run(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows)
{
	struct bed b = { .job = job,
			 .coll = { .job = job,
				   .op = op,
				   .rows = rows,
				   .call = call,
				   .settle = settle,
				   .timed = timed,
				   .write_pass = write_pass,
				   .read_pass = read_pass } };
	int err, closed;

	b.coll.bed = &b;
	if (job->opt->on_line && op->parted && job->opt->blocks > job->nranks) {
		if (job->rank == 0)
			fprintf(stderr,
				"oriel-perf: with --line the blocks of %s divide the ranks: "
				"--blocks can be at most %d\n",
				op->name, job->nranks);
		return ORIEL_EINVAL;
	}
	err = open_bed(&b);
	if (!err && job->rank == 0)
		perf_report_op(job, op);
	if (!err)
		err = perf_sizes_each(job->opt, run_size, &b);
	closed = close_bed(&b);
	return err ? err : closed;
}
