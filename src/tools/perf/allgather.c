/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/allgather.c - oriel-perf allgather: one window and one request, its execs checked and
 * timed by size.
 *
 * In a row of `bytes` every rank sends that many bytes to every rank.  In a verification pass every
 * byte is a hash of (pass, rank, offset).  One pass is out of place, one in place (coll.c).  Bytes
 * behind the data must not change.
 * Called by: main.c, on the rank's host thread.
 */
#include "coll.h"

#include <oriel/coll.h>

#include <stdlib.h>
#include <string.h>

#define POISON 0xa5
#define GUARD 64u

struct bed {
	struct perf_coll coll;
	struct perf_job *job;
	struct oriel_window *window;
	struct oriel_allgather_request *request;
	struct perf_graph *graph; /* --graph: of the row */
	uint8_t *recv, *send;     /* device memory */
	uint8_t *host;            /* as large as recv */
};

static const char *const names[] = { "auto", "direct", "ring", "doubling" };

int perf_gather_algorithm(const char *name)
{
	for (int i = 0; i < 4; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

int perf_gather_policy(const char *name)
{
	static const char *const policies[] = { "default", "by_size", "fastest", "no_sms" };

	for (int i = 0; i < 4; i++)
		if (!strcmp(policies[i], name))
			return i;
	return -1;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t recv_bytes(const struct perf_job *job, uint64_t bytes)
{
	return bytes * (uint64_t)job->nranks + GUARD;
}

static int check_memory(const struct perf_job *job)
{
	uint64_t all = recv_bytes(job, job->opt->end);

	return perf_coll_fits(job, "allgather", job->opt->end,
			      (job->opt->cuda ? 1 : 2) * all + job->opt->end);
}

static int open_local(struct bed *b)
{
	void *send = NULL;
	int err = oriel_alloc(b->job->comm, b->job->opt->end, &send);

	b->send = send;
	b->recv = oriel_window_buffer(b->window);
	b->host = malloc(recv_bytes(b->job, b->job->opt->end));
	return err ? err : b->host ? 0 : ORIEL_ENOMEM;
}

static int open_bed(struct bed *b)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	int err = check_memory(b->job);

	if (err)
		return err;
	w.bytes = recv_bytes(b->job, b->job->opt->end);
	o.algorithm = b->job->opt->algorithm;
	o.policy = b->job->opt->policy;
	err = oriel_window_create(b->job->comm, &w, &b->window);
	if (!err)
		err = oriel_allgather_create(b->job->comm, b->window, &o, &b->request);
	if (err) {
		if (b->job->rank == 0)
			fprintf(stderr, "oriel-perf: cannot create the request for allgather: %s\n",
				oriel_last_error());
		return err;
	}
	err = open_local(b);
	return perf_agree(b->job, err, "allocating memory");
}

/* On a failed comm the collective destroy is left out: the window ends with the comm. */
static int close_bed(struct bed *b)
{
	int err;

	free(b->host);
	err = oriel_allgather_destroy(b->request);
	if (oriel_comm_status(b->job->comm))
		return err;
	if (!err)
		err = oriel_window_destroy(b->window);
	if (b->send)
		(void)oriel_free(b->job->comm, b->send);
	return err;
}

/* ---- execs ----------------------------------------------------------------------------------- */

static int exec_on(void *ctx, void *stream)
{
	struct bed *b = ctx;

	return oriel_allgather_exec(b->request, b->coll.in_place ? NULL : b->send, b->coll.bytes, 1,
				    stream);
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
	int err = b->graph ? perf_graph_sync(b->graph) : oriel_comm_sync(b->job->comm, NULL);

	return err ? err : oriel_allgather_status(b->request);
}

/* ---- verification ---------------------------------------------------------------------------- */

static uint64_t stamp(const struct bed *b, int pass, int rank)
{
	return (uint64_t)(pass + 1) << 56 ^ (uint64_t)(rank + 1) << 40 ^
	       perf_coll_mix(b->coll.bytes);
}

static int write_pass(void *bed, int pass)
{
	struct bed *b = bed;
	struct oriel_comm *c = b->job->comm;
	uint64_t bytes = b->coll.bytes, all = recv_bytes(b->job, bytes);
	uint8_t *own = b->recv + (uint64_t)b->job->rank * bytes;
	int err;

	memset(b->host, POISON, all);
	err = oriel_copy(c, b->recv, b->host, all);
	perf_coll_fill(b->host, bytes, stamp(b, pass, b->job->rank));
	return err ? err : oriel_copy(c, b->coll.in_place ? own : b->send, b->host, bytes);
}

static int read_pass(void *bed, int pass, uint64_t *wrong)
{
	struct bed *b = bed;
	uint64_t bytes = b->coll.bytes, all = recv_bytes(b->job, bytes);
	int err = oriel_copy(b->job->comm, b->host, b->recv, all);

	for (int r = 0; !err && r < b->job->nranks; r++)
		*wrong += perf_coll_wrong(b->host + (uint64_t)r * bytes, bytes, stamp(b, pass, r));
	for (uint64_t i = all - GUARD; !err && i < all; i++)
		*wrong += b->host[i] != POISON;
	return err;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The text of the plan begins with the name of the algorithm. */
static const char *chosen(struct bed *b, char *text, size_t bytes)
{
	if (oriel_allgather_explain(b->request, b->coll.bytes, 1, text, bytes))
		return "?";
	for (int i = 1; i < 4; i++)
		if (!strncmp(text, names[i], strlen(names[i])))
			return names[i];
	return "?";
}

static int run_size(void *ctx, uint64_t bytes)
{
	struct bed *b = ctx;
	const struct perf_options *o = b->job->opt;
	struct perf_plan p = perf_plan_make(o, bytes * (uint64_t)b->job->nranks);
	char text[512] = "";
	struct perf_row row;
	int err = 0;

	b->coll.bytes = bytes;
	row = perf_coll_row(&b->coll, &p, chosen(b, text, sizeof(text)));
	if (o->graph)
		err = perf_agree(b->job, perf_graph_capture(exec_on, b, &b->graph),
				 "capturing a graph");
	if (!err)
		err = perf_coll_measure(&b->coll, &p, &row);
	perf_graph_free(b->graph);
	b->graph = NULL;
	if (!err)
		err = perf_row_end(b->job, &row, b->coll.rows);
	if (!err && o->explain && b->job->rank == 0)
		printf("#   %s; measured %.0f us\n", text, row.time_us);
	return err;
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
	int err, closed;

	b.coll.bed = &b;
	err = open_bed(&b);
	if (!err && job->rank == 0)
		perf_report_op(job, op);
	if (!err)
		err = perf_sizes_each(job->opt, run_size, &b);
	closed = close_bed(&b);
	return err ? err : closed;
}

const struct perf_op perf_op_allgather = {
	.name = "allgather",
	.legend =
		"persistent: every rank gets a block of `size` bytes from every rank; time of one "
		"exec, rates of all bytes a rank gets; type is the algorithm between nodes",
	.type = "auto",
	.element = "uint8",
	.typed = 1,
	.elem_bytes = 1,
	.traffic = PERF_TRAFFIC_BLOCKS,
	.place = PERF_EITHER_PLACE,
	.sized = 1,
	.inside = &perf_inside_allgather,
	.run = run,
};
