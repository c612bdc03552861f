/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/inside_v.c - oriel-perf alltoallv --in-kernel.
 *
 * As alltoallv.c: the size of a row is the average per peer, --split distributes it, and calls use
 * PERF_SPLITS different splits in turn.  The sizes lie in device memory, where the kernel reads
 * them.  Blocks of the kernel share each message.  Every byte is a hash of (pass, from, to, place);
 * bytes behind a message must not change.
 * Called by: main.c, on the rank's host thread.
 */
#include "team.h"

#include <stdlib.h>
#include <string.h>

#define POISON 0xa5

struct bed {
	struct perf_coll coll;
	struct perf_job *job;
	struct perf_team team;
	uint64_t cut;         /* room for a block's share of a message */
	uint64_t area;        /* bytes of send, and of recv: [block][rank][cut] */
	uint64_t *sizes;      /* device: [split][block][rank], then what came: [block][rank] */
	uint8_t *send, *recv; /* device */
	uint8_t *host;        /* as large as recv */
	uint64_t *host_sizes;
};

static uint64_t ranks(const struct bed *b)
{
	return (uint64_t)b->job->nranks;
}

static uint64_t blocks(const struct bed *b)
{
	return (uint64_t)b->job->opt->blocks;
}

/* The part of that message which the block sends. */
static struct perf_piece share_of(const struct bed *b, int split, uint64_t block, int from, int to)
{
	struct oriel_group g = oriel_group_thread();

	g.block = (uint32_t)block;
	g.nblocks = (uint32_t)blocks(b);
	return perf_piece(perf_split_bytes(&b->coll, split, from, to), g);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int fill_sizes(struct bed *b)
{
	uint64_t *at = b->host_sizes;

	for (int split = 0; split < PERF_SPLITS; split++)
		for (uint64_t block = 0; block < blocks(b); block++)
			for (int to = 0; to < b->job->nranks; to++)
				*at++ = share_of(b, split, block, b->job->rank, to).bytes;
	return oriel_copy(b->job->comm, b->sizes, b->host_sizes,
			  PERF_SPLITS * blocks(b) * ranks(b) * sizeof(*at));
}

static int open_local(struct bed *b)
{
	uint64_t words = (PERF_SPLITS + 1) * blocks(b) * ranks(b);
	void *sizes = NULL, *send = NULL, *recv = NULL;
	int err = oriel_alloc(b->job->comm, words * sizeof(uint64_t), &sizes);

	if (!err)
		err = oriel_alloc(b->job->comm, b->area, &send);
	if (!err)
		err = oriel_alloc(b->job->comm, b->area, &recv);
	b->sizes = sizes;
	b->send = send;
	b->recv = recv;
	b->host = malloc(b->area);
	b->host_sizes = calloc(words, sizeof(uint64_t));
	if (!err && (!b->host || !b->host_sizes))
		err = ORIEL_ENOMEM;
	return err ? err : fill_sizes(b);
}

static int open_bed(struct bed *b)
{
	struct oriel_group first = oriel_group_thread();
	int err;

	first.nblocks = (uint32_t)blocks(b);
	b->cut = (perf_piece(perf_split_most(&b->coll), first).bytes + 63) & ~(uint64_t)63;
	b->area = blocks(b) * ranks(b) * b->cut;
	err = perf_coll_fits(b->job, b->coll.op->name, b->coll.bytes,
			     (b->job->opt->cuda ? 1 : 3) * b->area);
	if (!err)
		err = perf_team_open(&b->team, b->job, b->coll.op);
	if (err)
		return err;
	err = open_local(b);
	return perf_agree(b->job, err, "allocating memory");
}

static int close_bed(struct bed *b)
{
	void *device[] = { b->sizes, b->send, b->recv };
	int err;

	free(b->host);
	free(b->host_sizes);
	err = perf_team_close(&b->team);
	for (int i = 0; i < 3 && !oriel_comm_status(b->job->comm); i++)
		if (device[i])
			(void)oriel_free(b->job->comm, device[i]);
	return err;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void set_args(const struct bed *b, uint32_t first, struct perf_coll_args *a)
{
	memset(a, 0, sizeof(*a));
	a->run.bytes = b->coll.bytes;
	a->send = b->send;
	a->recv = b->recv;
	a->sizes = b->sizes;
	a->came = b->sizes + PERF_SPLITS * blocks(b) * ranks(b);
	a->cut = b->cut;
	a->first_split = first;
}

static int call(void *bed, uint32_t i)
{
	struct perf_plan one = { .samples = 1, .batch = 1 };
	struct bed *b = bed;
	struct perf_coll_args a;

	set_args(b, i % PERF_SPLITS, &a);
	return perf_team_run(&b->team, &one, &a);
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
	int err;

	set_args(b, 0, &a);
	err = perf_team_run(&b->team, p, &a);
	if (!err)
		perf_results_samples(b->job, &a.run, 1, us);
	return err;
}

/* ---- verification ---------------------------------------------------------------------------- */

static uint64_t stamp(const struct bed *b, int pass, int from, int to)
{
	return perf_coll_mix((uint64_t)(pass + 1) << 48 ^ (uint64_t)(from + 1) << 20 ^
			     (uint64_t)(to + 1) ^ perf_coll_mix(b->coll.bytes));
}

static uint64_t place(const struct bed *b, uint64_t block, int rank)
{
	return (block * ranks(b) + (uint64_t)rank) * b->cut;
}

static int write_pass(void *bed, int pass)
{
	struct bed *b = bed;
	int rank = b->job->rank, err;

	for (uint64_t block = 0; block < blocks(b); block++)
		for (int to = 0; to < b->job->nranks; to++) {
			struct perf_piece p = share_of(b, pass % PERF_SPLITS, block, rank, to);

			perf_coll_fill(b->host + place(b, block, to), p.bytes,
				       stamp(b, pass, rank, to) + p.begin);
		}
	err = oriel_copy(b->job->comm, b->send, b->host, b->area);
	memset(b->host, POISON, b->area);
	return err ? err : oriel_copy(b->job->comm, b->recv, b->host, b->area);
}

static uint64_t count_wrong(const struct bed *b, int pass, uint64_t block, int from)
{
	int rank = b->job->rank;
	struct perf_piece p = share_of(b, pass % PERF_SPLITS, block, from, rank);
	const uint8_t *at = b->host + place(b, block, from);
	uint64_t wrong = perf_coll_wrong(at, p.bytes, stamp(b, pass, from, rank) + p.begin);

	wrong += b->host_sizes[block * ranks(b) + (uint64_t)from] == p.bytes ? 0 : 8;
	for (uint64_t i = p.bytes; i < b->cut; i++)
		wrong += at[i] != POISON;
	return wrong;
}

static int read_pass(void *bed, int pass, uint64_t *wrong)
{
	struct bed *b = bed;
	const uint64_t *came = b->sizes + PERF_SPLITS * blocks(b) * ranks(b);
	int err = oriel_copy(b->job->comm, b->host, b->recv, b->area);

	if (!err)
		err = oriel_copy(b->job->comm, b->host_sizes, came, blocks(b) * ranks(b) * 8);
	for (uint64_t block = 0; !err && block < blocks(b); block++)
		for (int from = 0; from < b->job->nranks; from++)
			*wrong += count_wrong(b, pass, block, from);
	return err;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int run_row(struct bed *b)
{
	struct perf_plan p = perf_plan_make(b->job->opt, b->coll.bytes * ranks(b));
	struct perf_row row = perf_coll_row(&b->coll, &p, perf_split_name(&b->coll));
	int err = perf_coll_measure(&b->coll, &p, &row);

	return err ? err : perf_row_end(b->job, &row, b->coll.rows);
}

static int run_size(void *ctx, uint64_t bytes)
{
	const struct perf_coll *like = ctx;
	struct bed b = { .job = like->job, .coll = *like };
	int err, closed;

	b.coll.bed = &b;
	b.coll.bytes = bytes;
	err = open_bed(&b);
	if (!err)
		err = run_row(&b);
	closed = close_bed(&b);
	return err ? err : closed;
}

int perf_inside_v_run(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows)
{
	struct perf_coll like = { .job = job,
				  .op = op,
				  .rows = rows,
				  .call = call,
				  .settle = settle,
				  .timed = timed,
				  .write_pass = write_pass,
				  .read_pass = read_pass };

	if (job->rank == 0)
		perf_report_op(job, op);
	return perf_sizes_each(job->opt, run_size, &like);
}
