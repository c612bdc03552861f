/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/reduce.c - oriel-perf broadcast, allreduce and reducescatter: host calls, checked and
 * timed by size.
 *
 * Elements are floats.  They are small whole numbers, so their sums are exact, and a hash of (pass,
 * rank, place).  Passes of all-reduce and reduce-scatter are out of place and in
 * place in turn (coll.c).
 * Called by: main.c, on the rank's host thread.
 */
#include "coll.h"

#include <oriel/coll.h>

#include <stdlib.h>
#include <string.h>

#define POISON 0xa5
#define GUARD 64u

struct bed {
	struct perf_coll coll; /* its bytes are of the broadcast, the vector, or a block */
	struct perf_job *job;
	struct perf_graph *graph;                       /* --graph: of the row */
	uint8_t *send, *recv;                           /* device memory */
	struct oriel_window *send_window, *recv_window; /* --windows: they have that memory */
	float *host;
	uint64_t send_bytes, recv_bytes; /* of the largest row */
};

static int is(const struct bed *b, const struct perf_op *op)
{
	return b->coll.op == op;
}

/* Elements of the row, and of this rank's input. */
static uint64_t count_of(const struct bed *b)
{
	return b->coll.bytes / sizeof(float);
}

static uint64_t input_of(const struct bed *b)
{
	return count_of(b) * (is(b, &perf_op_reducescatter) ? (uint64_t)b->job->nranks : 1);
}

/* Reduce-scatter: this rank's block of its own input, which gets the result in place. */
static uint8_t *own_block(const struct bed *b)
{
	return b->send + (uint64_t)b->job->rank * count_of(b) * sizeof(float);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int take(const struct bed *b, uint64_t bytes, uint8_t **out)
{
	void *memory = NULL;
	int err = oriel_alloc(b->job->comm, bytes, &memory);

	*out = memory;
	return err;
}

static int take_window(const struct bed *b, uint64_t bytes, struct oriel_window **w, uint8_t **out)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	o.bytes = bytes;
	err = oriel_window_create(b->job->comm, &o, w);
	if (!err)
		*out = oriel_window_buffer(*w);
	return err;
}

/* A window fails on all ranks or on none, so all of them make the same calls. */
static int take_both(struct bed *b)
{
	int err;

	if (b->job->opt->in_windows) {
		err = take_window(b, b->send_bytes, &b->send_window, &b->send);
		return err ? err : take_window(b, b->recv_bytes, &b->recv_window, &b->recv);
	}
	err = take(b, b->send_bytes, &b->send);
	return err ? err : take(b, b->recv_bytes, &b->recv);
}

static int open_bed(struct bed *b)
{
	uint64_t end = b->job->opt->end, n = (uint64_t)b->job->nranks;
	int err;

	b->send_bytes = end * (is(b, &perf_op_reducescatter) ? n : 1);
	b->recv_bytes = end + GUARD;
	err = perf_coll_fits(b->job, b->coll.op->name, end,
			     (b->job->opt->cuda ? 1 : 2) * b->send_bytes + b->recv_bytes);
	if (err)
		return err;
	err = take_both(b);
	b->host = malloc(b->send_bytes + b->recv_bytes);
	if (!err && !b->host)
		err = ORIEL_ENOMEM;
	return perf_agree(b->job, err, "allocating memory");
}

static void close_bed(struct bed *b)
{
	free(b->host);
	if (oriel_comm_status(b->job->comm))
		return;
	if (b->recv_window)
		(void)oriel_window_destroy(b->recv_window);
	else if (b->recv)
		(void)oriel_free(b->job->comm, b->recv);
	if (b->send_window)
		(void)oriel_window_destroy(b->send_window);
	else if (b->send)
		(void)oriel_free(b->job->comm, b->send);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int exec_on(void *ctx, void *stream)
{
	struct bed *b = ctx;
	struct oriel_comm *c = b->job->comm;

	if (is(b, &perf_op_broadcast))
		return oriel_broadcast(c, b->recv, count_of(b), sizeof(float), 0, stream);
	if (is(b, &perf_op_allreduce))
		return oriel_allreduce(c, b->coll.in_place ? NULL : b->send, b->recv, count_of(b),
				       ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, stream);
	return oriel_reducescatter(c, b->send, b->coll.in_place ? own_block(b) : b->recv,
				   count_of(b), ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, stream);
}

static int exec(void *bed, uint32_t i)
{
	struct bed *b = bed;

	(void)i;
	return b->graph ? perf_graph_replay(b->graph) : exec_on(b, NULL);
}

static int settle(void *bed)
{
	struct bed *b = bed;

	return b->graph ? perf_graph_sync(b->graph) : oriel_comm_sync(b->job->comm, NULL);
}

/* ---- verification ---------------------------------------------------------------------------- */

static float element(const struct bed *b, int pass, int rank, uint64_t i)
{
	uint64_t seed = (uint64_t)(pass + 1) << 56 ^ (uint64_t)(rank + 1) << 40;

	return (float)(perf_coll_mix(seed + b->coll.bytes + i) % 64);
}

static int write_pass(void *bed, int pass)
{
	struct bed *b = bed;
	struct oriel_comm *c = b->job->comm;
	int in_recv = b->coll.in_place && !is(b, &perf_op_reducescatter), err;

	memset(b->host, POISON, b->recv_bytes);
	err = oriel_copy(c, b->recv, b->host, b->recv_bytes);
	for (uint64_t i = 0; i < input_of(b); i++)
		b->host[i] = element(b, pass, b->job->rank, i);
	return err ? err :
		     oriel_copy(c, in_recv ? b->recv : b->send, b->host,
				input_of(b) * sizeof(float));
}

static float expected(const struct bed *b, int pass, uint64_t i)
{
	uint64_t first = is(b, &perf_op_reducescatter) ? (uint64_t)b->job->rank * count_of(b) : 0;
	float sum = 0;

	if (is(b, &perf_op_broadcast))
		return element(b, pass, 0, i);
	for (int r = 0; r < b->job->nranks; r++)
		sum += element(b, pass, r, first + i);
	return sum;
}

/* Reduce-scatter in place: the own block is the result, and the others must not change. */
static int read_blocks(struct bed *b, int pass, uint64_t *wrong)
{
	uint64_t first = (uint64_t)b->job->rank * count_of(b), end = first + count_of(b);
	int err = oriel_copy(b->job->comm, b->host, b->send, input_of(b) * sizeof(float));

	for (uint64_t i = 0; !err && i < input_of(b); i++) {
		float want = i >= first && i < end ? expected(b, pass, i - first) :
						     element(b, pass, b->job->rank, i);

		*wrong += b->host[i] == want ? 0 : sizeof(float);
	}
	return err;
}

static int read_result(struct bed *b, int pass, uint64_t *wrong)
{
	const uint8_t *bytes = (const uint8_t *)b->host;
	uint64_t end = count_of(b) * sizeof(float);
	int err = oriel_copy(b->job->comm, b->host, b->recv, end + GUARD);

	for (uint64_t i = 0; !err && i < count_of(b); i++)
		*wrong += b->host[i] == expected(b, pass, i) ? 0 : sizeof(float);
	for (uint64_t i = end; !err && i < end + GUARD; i++)
		*wrong += bytes[i] != POISON;
	return err;
}

static int read_pass(void *bed, int pass, uint64_t *wrong)
{
	struct bed *b = bed;

	return b->coll.in_place && is(b, &perf_op_reducescatter) ? read_blocks(b, pass, wrong) :
								   read_result(b, pass, wrong);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int run_size(void *ctx, uint64_t bytes)
{
	struct bed *b = ctx;
	const struct perf_options *o = b->job->opt;
	struct perf_plan p = perf_plan_make(o, bytes * (uint64_t)b->job->nranks);
	struct perf_row row;
	int err = 0;

	b->coll.bytes = bytes / sizeof(float) * sizeof(float);
	row = perf_coll_row(&b->coll, &p, b->coll.op->type);
	row.count = count_of(b);
	if (o->graph)
		err = perf_agree(b->job, perf_graph_capture(exec_on, b, &b->graph),
				 "capturing a graph");
	if (!err)
		err = perf_coll_measure(&b->coll, &p, &row);
	perf_graph_free(b->graph);
	b->graph = NULL;
	return err ? err : perf_row_end(b->job, &row, b->coll.rows);
}

static int run(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows)
{
	struct bed b = { .job = job,
			 .coll = { .job = job,
				   .op = op,
				   .rows = rows,
				   .call = exec,
				   .settle = settle,
				   .write_pass = write_pass,
				   .read_pass = read_pass } };
	int err;

	b.coll.bed = &b;
	err = open_bed(&b);
	if (!err && job->rank == 0)
		perf_report_op(job, op);
	/* the first call of a comm creates the library's memory */
	b.coll.bytes = 0;
	if (!err)
		err = exec_on(&b, NULL);
	if (!err)
		err = perf_sizes_each(job->opt, run_size, &b);
	close_bed(&b);
	return err;
}

const struct perf_op perf_op_broadcast = {
	.name = "broadcast",
	.legend = "rank 0 sends `size` bytes to every rank; time of one call",
	.type = "float",
	.elem_bytes = 4,
	.traffic = PERF_TRAFFIC_ONCE,
	.place = PERF_IN_PLACE,
	.sized = 1,
	.windowed = 1,
	.inside = &perf_inside_broadcast,
	.run = run,
};

const struct perf_op perf_op_allreduce = {
	.name = "allreduce",
	.legend = "every rank gets the sum of all ranks' `size` bytes of floats; time of one call; "
		  "busbw counts 2 (n - 1) / n of them",
	.type = "float",
	.elem_bytes = 4,
	.traffic = PERF_TRAFFIC_TWICE,
	.place = PERF_EITHER_PLACE,
	.sums = 1,
	.sized = 1,
	.windowed = 1,
	.inside = &perf_inside_allreduce,
	.run = run,
};

const struct perf_op perf_op_reducescatter = {
	.name = "reducescatter",
	.legend = "every rank gets its block of `size` bytes of the sum of all ranks' floats; time "
		  "of one call, rates of all bytes a rank gives",
	.type = "float",
	.elem_bytes = 4,
	.traffic = PERF_TRAFFIC_BLOCKS,
	.place = PERF_EITHER_PLACE,
	.sums = 1,
	.sized = 1,
	.windowed = 1,
	.inside = &perf_inside_reducescatter,
	.run = run,
};
