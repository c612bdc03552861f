/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/allgather.c - oriel-perf allgather: one window and one request, its execs checked and timed by size.
 *
 * A row of `bytes` is that much from every rank to every rank.  In a verification pass every byte is a hash of
 * (pass, rank, offset), once out of place and once in place; what lies behind must stay.
 * Called by: main.c, on the rank's host thread.
 */
#include "perf.h"

#include <oriel/coll.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POISON 0xa5
#define GUARD 64u

struct bed {
	struct perf_job *job;
	const struct perf_op *op;
	struct perf_rows *rows;
	struct oriel_window *window;
	struct oriel_allgather *request;
	struct perf_graph *graph; /* --graph: of the row */
	uint8_t *recv, *send;     /* device memory */
	uint8_t *host;            /* as large as recv */
	uint64_t bytes;           /* of the row: one rank's block */
};

static const char *const names[] = { "auto", "direct", "ring", "doubling" };

int perf_gather_algorithm(const char *name)
{
	for (int i = 0; i < 4; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

static uint64_t recv_bytes(const struct perf_job *job, uint64_t bytes)
{
	return bytes * (uint64_t)job->nranks + GUARD;
}

/* Says no before the machine runs out; the same answer on all ranks. */
static int check_memory(const struct perf_job *job)
{
	uint64_t all = recv_bytes(job, job->opt->end);
	uint64_t each = (job->opt->cuda ? 1 : 2) * all + job->opt->end;

	for (int r = 0; r < job->nranks; r++) {
		const struct perf_rank *who = &job->facts.ranks[r];
		uint64_t sum = each * (uint64_t)perf_local_ranks(job, r);

		if (sum <= who->available_bytes)
			continue;
		if (job->rank == 0)
			fprintf(stderr,
				"oriel-perf: allgather of up to %llu bytes a rank needs %.2f GiB on host "
				"%s, which has %.2f GiB available\n",
				(unsigned long long)job->opt->end, (double)sum / (1 << 30),
				who->host, (double)who->available_bytes / (1 << 30));
		return ORIEL_ENOMEM;
	}
	return 0;
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
	err = oriel_window_create(b->job->comm, &w, &b->window);
	if (!err)
		err = oriel_allgather_init(b->job->comm, b->window, &o, &b->request);
	if (err) {
		if (b->job->rank == 0)
			fprintf(stderr, "oriel-perf: no request for allgather: %s\n",
				oriel_last_error());
		return err;
	}
	err = open_local(b);
	return perf_agree(b->job, err, "allocating memory");
}

/* On a failed comm the window cannot be taken down together; it goes with the comm. */
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

/* ---- execs ----------------------------------------------------------------------------------------- */

/* The others wait for this rank: end that, and say why. */
static int fail_exec(struct bed *b, int err)
{
	fprintf(stderr, "oriel-perf: rank %d: allgather of %llu bytes: %s: %s\n", b->job->rank,
		(unsigned long long)b->bytes, oriel_status_text(err), oriel_last_error());
	if (!oriel_comm_status(b->job->comm))
		oriel_comm_abort(b->job->comm, err);
	return err;
}

static int exec_on(void *ctx, void *stream)
{
	struct bed *b = ctx;

	return oriel_allgather_exec(b->request, b->send, b->bytes, 1, stream);
}

static int exec(struct bed *b)
{
	return b->graph ? perf_graph_replay(b->graph) : exec_on(b, NULL);
}

static int settle(struct bed *b)
{
	int err = b->graph ? perf_graph_sync(b->graph) : oriel_comm_sync(b->job->comm, NULL);

	return err ? err : oriel_allgather_status(b->request);
}

/* ---- verification ---------------------------------------------------------------------------------- */

static uint64_t word_of(const struct bed *b, int pass, int rank, uint64_t off)
{
	return mix(((uint64_t)(pass + 1) << 56 ^ (uint64_t)(rank + 1) << 40 ^ mix(b->bytes)) + off);
}

static uint64_t count_wrong(const struct bed *b, int pass, int rank)
{
	const uint8_t *data = b->host + (uint64_t)rank * b->bytes;
	uint64_t wrong = 0;

	for (uint64_t off = 0; off < b->bytes; off += 8) {
		uint64_t word = word_of(b, pass, rank, off);
		uint64_t n = b->bytes - off < 8 ? b->bytes - off : 8;

		for (uint64_t i = 0; memcmp(data + off, &word, n) && i < n; i++)
			wrong += data[off + i] != ((const uint8_t *)&word)[i];
	}
	return wrong;
}

static int write_pass(struct bed *b, int pass, int in_place)
{
	struct oriel_comm *c = b->job->comm;
	uint64_t all = recv_bytes(b->job, b->bytes), own = (uint64_t)b->job->rank * b->bytes;
	int err;

	memset(b->host, POISON, all);
	err = oriel_copy(c, b->recv, b->host, all);
	for (uint64_t off = 0; off < b->bytes; off += 8) {
		uint64_t word = word_of(b, pass, b->job->rank, off);

		memcpy(b->host + off, &word, b->bytes - off < 8 ? b->bytes - off : 8);
	}
	return err ? err : oriel_copy(c, in_place ? b->recv + own : b->send, b->host, b->bytes);
}

static int read_pass(struct bed *b, int pass, uint64_t *wrong)
{
	uint64_t all = recv_bytes(b->job, b->bytes);
	int err = oriel_copy(b->job->comm, b->host, b->recv, all);

	for (int r = 0; !err && r < b->job->nranks; r++)
		*wrong += count_wrong(b, pass, r);
	for (uint64_t i = all - GUARD; !err && i < all; i++)
		*wrong += b->host[i] != POISON;
	return err;
}

static int run_checks(struct bed *b, uint64_t *wrong)
{
	int err = 0;

	for (int pass = 0; !err && pass < PERF_PASSES; pass++) {
		/* a graph replays what was captured, which is out of place */
		int in_place = pass % 2 && !b->graph;

		err = perf_agree(b->job, write_pass(b, pass, in_place), "filling memory");
		if (err)
			return err;
		err = in_place ? oriel_allgather_exec(b->request, NULL, b->bytes, 1, NULL) :
				 exec(b);
		if (!err)
			err = settle(b);
		if (err)
			return fail_exec(b, err);
		err = perf_agree(b->job, read_pass(b, pass, wrong), "checking memory");
	}
	return err;
}

/* ---- timing ---------------------------------------------------------------------------------------- */

static int run_execs(struct bed *b, uint32_t n, uint64_t *ns)
{
	uint64_t start = now_ns();
	int err = 0;

	for (uint32_t i = 0; !err && i < n; i++)
		err = exec(b);
	if (!err)
		err = settle(b);
	*ns = now_ns() - start;
	return err;
}

static int run_timed(struct bed *b, const struct perf_plan *p, uint64_t wrong, struct perf_row *row,
		     double *time_us)
{
	float us[PERF_SAMPLES_MAX];
	uint64_t ns;
	int err = oriel_comm_barrier(b->job->comm, ORIEL_WORLD);

	if (!err)
		err = run_execs(b, p->warm, &ns);
	for (uint32_t i = 0; !err && i < p->samples; i++) {
		err = run_execs(b, p->batch, &ns);
		us[i] = (float)((double)ns * 1e-3 / p->batch);
	}
	if (err)
		return fail_exec(b, err);
	return perf_samples_join(b->job, us, p->samples, wrong, row, time_us);
}

/* The algorithm's name begins the line. */
static const char *chosen(struct bed *b, char *text, size_t bytes)
{
	if (oriel_allgather_explain(b->request, b->bytes, 1, text, bytes))
		return "?";
	for (int i = 1; i < 4; i++)
		if (!strncmp(text, names[i], strlen(names[i])))
			return names[i];
	return "?";
}

/* algbw: what a rank ends up with, over the time; busbw: of that what came from others. */
static void set_rates(const struct bed *b, struct perf_row *row)
{
	double n = b->job->nranks;

	if (row->time_us > 0)
		row->algbw = (double)row->bytes * n / row->time_us * 1e-3;
	row->busbw = row->algbw * (n - 1) / n;
}

static int measure(struct bed *b, const struct perf_plan *p, struct perf_row *row)
{
	const struct perf_options *o = b->job->opt;
	uint64_t wrong = 0;
	int err = o->check ? run_checks(b, &wrong) : 0;

	/* The second run fills the other half of nccl's columns; percentiles are of the last. */
	if (!err && o->nccl)
		err = run_timed(b, p, 0, row, &row->again_us);
	return err ? err : run_timed(b, p, wrong, row, &row->time_us);
}

static int run_size(void *ctx, uint64_t bytes)
{
	struct bed *b = ctx;
	const struct perf_options *o = b->job->opt;
	struct perf_plan p = perf_plan_make(o, bytes * (uint64_t)b->job->nranks);
	char text[256] = "";
	struct perf_row row = { .op = b->op,
				.bytes = bytes,
				.count = bytes,
				.checked = o->check,
				.iterations = p.iterations,
				.batch = p.batch };
	int err = 0;

	b->bytes = bytes;
	row.type = chosen(b, text, sizeof(text));
	if (o->graph)
		err = perf_agree(b->job, perf_graph_capture(exec_on, b, &b->graph),
				 "capturing a graph");
	if (!err)
		err = measure(b, &p, &row);
	perf_graph_free(b->graph);
	b->graph = NULL;
	if (err)
		return err;
	set_rates(b, &row);
	err = perf_row_end(b->job, &row, b->rows);
	if (!err && o->explain && b->job->rank == 0)
		printf("#   %s; measured %.0f us\n", text, row.time_us);
	return err;
}

static int run(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows)
{
	struct bed b = { .job = job, .op = op, .rows = rows };
	int err = open_bed(&b), closed;

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
		"every rank's block of `size` bytes to every rank, persistent; time of one exec, rates "
		"of all a rank gets; type is the algorithm between nodes",
	.type = "auto",
	.elem_bytes = 1,
	.sized = 1,
	.run = run,
};
