/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/alltoallv.c - oriel-perf alltoallv and alltoall: a request for each size, its calls
 * checked and timed.
 *
 * In a row of `bytes` each rank gets that many bytes on average from each peer; --split says how
 * they are distributed (split.c).  With random splits, calls use PERF_SPLITS different splits in
 * turn, so that consecutive calls differ.  An all-to-all has uniform splits.  In a verification
 * pass every byte is a hash of (pass, from, to, offset), and bytes behind the data of a slot must
 * not change.
 * Called by: main.c, on the rank's host thread.
 */
#include "coll.h"

#include <oriel/coll.h>

#include <stdlib.h>
#include <string.h>

#define POISON 0xa5

struct bed {
	struct perf_coll coll; /* its bytes are the average per peer */
	struct perf_job *job;
	struct oriel_alltoallv_request *request;
	uint64_t most;       /* of any */
	uint64_t *sizes;     /* device memory: PERF_SPLITS x nranks, then the received sizes */
	uint8_t *host;       /* copy of the send or receive buffer; size of the larger one */
	uint64_t host_bytes; /* its size */
};

/* ---- memory ---------------------------------------------------------------------------------- */

static int check_memory(const struct bed *b)
{
	return perf_coll_fits(b->job, b->coll.op->name, b->coll.bytes,
			      (b->job->opt->cuda ? 1 : 3) * (uint64_t)b->job->nranks * b->most);
}

static int open_local(struct bed *b)
{
	uint64_t n = (uint64_t)b->job->nranks, words = (PERF_SPLITS + 1) * n, *sizes;
	void *device = NULL;
	int err = oriel_alloc(b->job->comm, words * 8, &device);

	b->sizes = device;
	b->host_bytes = n * ((b->most + 15) & ~(uint64_t)15);
	b->host = malloc(b->host_bytes);
	sizes = calloc(words, 8);
	if (!err && (!b->host || !sizes))
		err = ORIEL_ENOMEM;
	for (uint64_t i = 0; !err && i < PERF_SPLITS * n; i++)
		sizes[i] = perf_split_bytes(&b->coll, (int)(i / n), b->job->rank, (int)(i % n));
	if (!err)
		err = oriel_copy(b->job->comm, b->sizes, sizes, words * 8);
	free(sizes);
	return err;
}

static int open_bed(struct bed *b)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	int err;

	b->most = perf_split_most(&b->coll);
	err = check_memory(b);
	if (err)
		return err;
	o.slot_bytes = b->most;
	o.expect_bytes = b->most;
	err = oriel_alltoallv_create(b->job->comm, &o, &b->request);
	if (err) {
		if (b->job->rank == 0)
			fprintf(stderr, "oriel-perf: cannot create the request for %s: %s\n",
				b->coll.op->name, oriel_last_error());
		return err;
	}
	err = open_local(b);
	return perf_agree(b->job, err, "allocating memory");
}

/* On a failed comm the collective destroy is left out: the request ends with the comm. */
static int close_bed(struct bed *b)
{
	int err = 0;

	free(b->host);
	b->host = NULL;
	if (oriel_comm_status(b->job->comm))
		return 0;
	if (b->request)
		err = oriel_alltoallv_destroy(b->request);
	if (b->sizes)
		(void)oriel_free(b->job->comm, b->sizes);
	return err;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int call(void *bed, uint32_t i)
{
	struct bed *b = bed;
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t n = (uint64_t)b->job->nranks;

	args.send_sizes = b->sizes + (i % PERF_SPLITS) * n;
	args.recv_sizes = b->sizes + PERF_SPLITS * n;
	return oriel_alltoallv_exec(b->request, &args, NULL);
}

static int settle(void *bed)
{
	struct bed *b = bed;
	int err = oriel_comm_sync(b->job->comm, NULL);

	return err ? err : oriel_alltoallv_status(b->request);
}

/* ---- verification ---------------------------------------------------------------------------- */

static uint64_t stamp(const struct bed *b, int pass, int from, int to)
{
	return perf_coll_mix((uint64_t)(pass + 1) << 48 ^ (uint64_t)(from + 1) << 20 ^
			     (uint64_t)(to + 1) ^ perf_coll_mix(b->coll.bytes));
}

static int write_pass(void *bed, int pass)
{
	struct bed *b = bed;
	struct oriel_comm *c = b->job->comm;
	uint64_t at = 0;
	int err;

	for (int to = 0; to < b->job->nranks; to++) {
		uint64_t bytes = perf_split_bytes(&b->coll, pass % PERF_SPLITS, b->job->rank, to);

		perf_coll_fill(b->host + at, bytes, stamp(b, pass, b->job->rank, to));
		at += bytes;
	}
	err = oriel_copy(c, oriel_alltoallv_send_buffer(b->request), b->host, at);
	if (err)
		return err;
	memset(b->host, POISON, b->host_bytes);
	return oriel_copy(c, oriel_alltoallv_recv_buffer(b->request), b->host, b->host_bytes);
}

static int read_pass(void *bed, int pass, uint64_t *wrong)
{
	struct bed *b = bed;
	uint64_t n = (uint64_t)b->job->nranks, stride = b->host_bytes / n, *came = calloc(n, 8);
	int err = came ? oriel_copy(b->job->comm, came, b->sizes + PERF_SPLITS * n, n * 8) :
			 ORIEL_ENOMEM;

	if (!err)
		err = oriel_copy(b->job->comm, b->host, oriel_alltoallv_recv_buffer(b->request),
				 b->host_bytes);
	for (int from = 0; !err && from < b->job->nranks; from++) {
		uint64_t bytes = perf_split_bytes(&b->coll, pass % PERF_SPLITS, from, b->job->rank);
		const uint8_t *slot = b->host + (uint64_t)from * stride;

		*wrong += came[from] == bytes ? 0 : 8;
		*wrong += perf_coll_wrong(slot, bytes, stamp(b, pass, from, b->job->rank));
		for (uint64_t i = bytes; i < stride; i++)
			*wrong += slot[i] != POISON;
	}
	free(came);
	return err;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void explain(const struct bed *b, const struct perf_row *row)
{
	char text[384];

	if (!b->job->opt->explain || b->job->rank)
		return;
	if (!oriel_alltoallv_explain(b->request, b->most, text, sizeof(text)))
		printf("#   %s; measured %.3g us\n", text, row->time_us);
	fflush(stdout);
}

static int run_row(struct bed *b)
{
	struct perf_plan p = perf_plan_make(b->job->opt, b->coll.bytes * (uint64_t)b->job->nranks);
	const char *type = b->coll.op->typed ? perf_split_name(&b->coll) : b->coll.op->type;
	struct perf_row row = perf_coll_row(&b->coll, &p, type);
	int err = perf_coll_measure(&b->coll, &p, &row);

	if (!err)
		err = perf_row_end(b->job, &row, b->coll.rows);
	if (!err)
		explain(b, &row);
	return err;
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

static int run(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows)
{
	struct perf_coll like = { .job = job,
				  .op = op,
				  .rows = rows,
				  .call = call,
				  .settle = settle,
				  .write_pass = write_pass,
				  .read_pass = read_pass };

	if (job->rank == 0)
		perf_report_op(job, op);
	return perf_sizes_each(job->opt, run_size, &like);
}

const struct perf_op perf_op_alltoall = {
	.name = "alltoall",
	.legend = "every rank sends every rank `size` bytes, as an all-to-all-v of equal sizes; "
		  "time of one call, rates of all bytes a rank sends",
	.type = "uint8",
	.elem_bytes = 1,
	.traffic = PERF_TRAFFIC_BLOCKS,
	.sized = 1,
	.inside = &perf_inside_alltoall,
	.run = run,
};

const struct perf_op perf_op_alltoallv = {
	.name = "alltoallv",
	.legend =
		"every rank sends every rank `size` bytes on average (--split); time of one call, "
		"rates of all bytes a rank sends",
	.type = "uniform",
	.element = "uint8",
	.typed = 1,
	.elem_bytes = 1,
	.traffic = PERF_TRAFFIC_BLOCKS,
	.sized = 1,
	.inside = &perf_inside_alltoallv,
	.run = run,
};
