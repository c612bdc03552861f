/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/alltoallv.c - oriel-perf alltoallv: a request for each size, its calls checked and timed.
 *
 * A row of `bytes` sends each rank that much on average; --split says how they are shared out.  Random splits are
 * SPLITS different ones that calls take in turn, so no two calls that follow each other are alike.  In a
 * verification pass every byte is a hash of (pass, from, to, offset), and what lies behind it in its slot must stay.
 * Called by: main.c, on the rank's host thread.
 */
#include "perf.h"

#include <oriel/coll.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPLITS 8
#define POISON 0xa5

struct bed {
	struct perf_job *job;
	const struct perf_op *op;
	struct perf_rows *rows;
	struct oriel_alltoallv *request;
	uint64_t bytes;      /* of the average peer */
	uint64_t most;       /* of any */
	uint64_t *sizes;     /* device memory: SPLITS x nranks, then what came */
	uint8_t *host;       /* send or receive buffer, as large as the larger */
	uint64_t host_bytes; /* of it */
};

/* splitmix64's finaliser: every bit of x reaches every bit of the result. */
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

/* ---- splits ---------------------------------------------------------------------------------------- */

/* What `from` sends `to` in a call by this split; every rank can tell. */
static uint64_t size_of(const struct bed *b, int split, int from, int to)
{
	const struct perf_options *o = b->job->opt;
	uint64_t n = (uint64_t)b->job->nranks, half = b->bytes * n / 2;

	if (o->split == PERF_UNIFORM || n == 1)
		return b->bytes;
	if (o->split == PERF_SKEW)
		return to == (from + 1) % (int)n ? half : half / (n - 1);
	return mix(mix(o->seed * 1000003u + (uint64_t)split) ^
		   mix(b->bytes + ((uint64_t)from << 50) + ((uint64_t)to << 40))) %
	       (2 * b->bytes + 1);
}

static uint64_t most_of(const struct bed *b)
{
	uint64_t most = 0;

	for (int s = 0; s < SPLITS; s++)
		for (int from = 0; from < b->job->nranks; from++)
			for (int to = 0; to < b->job->nranks; to++) {
				uint64_t bytes = size_of(b, s, from, to);

				most = bytes > most ? bytes : most;
			}
	return most;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

/* Says no before the machine runs out; the same answer on all ranks. */
static int check_memory(const struct bed *b)
{
	uint64_t n = (uint64_t)b->job->nranks, each = (b->job->opt->cuda ? 1 : 3) * n * b->most;

	for (int r = 0; r < b->job->nranks; r++) {
		const struct perf_rank *who = &b->job->facts.ranks[r];
		uint64_t all = each * (uint64_t)perf_local_ranks(b->job, r);

		if (all <= who->available_bytes)
			continue;
		if (b->job->rank == 0)
			fprintf(stderr,
				"oriel-perf: alltoallv of %llu bytes to each of %d ranks needs %.2f GiB on "
				"host %s, which has %.2f GiB available\n",
				(unsigned long long)b->bytes, b->job->nranks,
				(double)all / (1 << 30), who->host,
				(double)who->available_bytes / (1 << 30));
		return ORIEL_ENOMEM;
	}
	return 0;
}

static int open_local(struct bed *b)
{
	uint64_t n = (uint64_t)b->job->nranks, words = (SPLITS + 1) * n, *sizes;
	void *device = NULL;
	int err = oriel_alloc(b->job->comm, words * 8, &device);

	b->sizes = device;
	b->host_bytes = n * ((b->most + 15) & ~(uint64_t)15);
	b->host = malloc(b->host_bytes);
	sizes = calloc(words, 8);
	if (!err && (!b->host || !sizes))
		err = ORIEL_ENOMEM;
	for (uint64_t i = 0; !err && i < SPLITS * n; i++)
		sizes[i] = size_of(b, (int)(i / n), b->job->rank, (int)(i % n));
	if (!err)
		err = oriel_copy(b->job->comm, b->sizes, sizes, words * 8);
	free(sizes);
	return err;
}

static int open_bed(struct bed *b)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	int err;

	b->most = most_of(b);
	err = check_memory(b);
	if (err)
		return err;
	o.slot_bytes = b->most;
	o.expect_bytes = b->most;
	err = oriel_alltoallv_create(b->job->comm, &o, &b->request);
	if (err) {
		if (b->job->rank == 0)
			fprintf(stderr, "oriel-perf: no request for alltoallv: %s\n",
				oriel_last_error());
		return err;
	}
	err = open_local(b);
	return perf_agree(b->job, err, "allocating memory");
}

/* On a failed comm the request cannot be taken down together; it goes with the comm. */
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

/* ---- calls ----------------------------------------------------------------------------------------- */

/* The others wait for this rank in their call: end that, and say why. */
static int fail_call(struct bed *b, int err)
{
	fprintf(stderr, "oriel-perf: rank %d: alltoallv of %llu bytes: %s: %s\n", b->job->rank,
		(unsigned long long)b->bytes, oriel_status_text(err), oriel_last_error());
	if (!oriel_comm_status(b->job->comm))
		oriel_comm_abort(b->job->comm, err);
	return err;
}

static int call(struct bed *b, uint32_t i)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t n = (uint64_t)b->job->nranks;

	args.send_sizes = b->sizes + (i % SPLITS) * n;
	args.recv_sizes = b->sizes + SPLITS * n;
	return oriel_alltoallv_exec(b->request, &args, NULL);
}

static int settle(struct bed *b)
{
	int err = oriel_comm_sync(b->job->comm, NULL);

	return err ? err : oriel_alltoallv_status(b->request);
}

/* ---- verification ---------------------------------------------------------------------------------- */

static uint64_t stamp(const struct bed *b, int pass, int from, int to)
{
	return mix((uint64_t)(pass + 1) << 48 ^ (uint64_t)(from + 1) << 20 ^ (uint64_t)(to + 1) ^
		   mix(b->bytes));
}

static void fill(uint8_t *data, uint64_t bytes, uint64_t seed)
{
	for (uint64_t off = 0; off < bytes; off += 8) {
		uint64_t word = mix(seed + off);

		memcpy(data + off, &word, bytes - off < 8 ? bytes - off : 8);
	}
}

static uint64_t count_wrong(const uint8_t *data, uint64_t bytes, uint64_t seed)
{
	uint64_t wrong = 0;

	for (uint64_t off = 0; off < bytes; off += 8) {
		uint64_t word = mix(seed + off), n = bytes - off < 8 ? bytes - off : 8;

		for (uint64_t i = 0; memcmp(data + off, &word, n) && i < n; i++)
			wrong += data[off + i] != ((const uint8_t *)&word)[i];
	}
	return wrong;
}

static int write_pass(struct bed *b, int pass)
{
	struct oriel_comm *c = b->job->comm;
	uint64_t at = 0;
	int err;

	for (int to = 0; to < b->job->nranks; to++) {
		uint64_t bytes = size_of(b, pass % SPLITS, b->job->rank, to);

		fill(b->host + at, bytes, stamp(b, pass, b->job->rank, to));
		at += bytes;
	}
	err = oriel_copy(c, oriel_alltoallv_send_buffer(b->request), b->host, at);
	if (err)
		return err;
	memset(b->host, POISON, b->host_bytes);
	return oriel_copy(c, oriel_alltoallv_recv_buffer(b->request), b->host, b->host_bytes);
}

static int read_pass(struct bed *b, int pass, uint64_t *wrong)
{
	uint64_t n = (uint64_t)b->job->nranks, stride = b->host_bytes / n, *came = calloc(n, 8);
	int err = came ? oriel_copy(b->job->comm, came, b->sizes + SPLITS * n, n * 8) :
			 ORIEL_ENOMEM;

	if (!err)
		err = oriel_copy(b->job->comm, b->host, oriel_alltoallv_recv_buffer(b->request),
				 b->host_bytes);
	for (int from = 0; !err && from < b->job->nranks; from++) {
		uint64_t bytes = size_of(b, pass % SPLITS, from, b->job->rank);
		const uint8_t *slot = b->host + (uint64_t)from * stride;

		*wrong += came[from] == bytes ? 0 : 8;
		*wrong += count_wrong(slot, bytes, stamp(b, pass, from, b->job->rank));
		for (uint64_t i = bytes; i < stride; i++)
			*wrong += slot[i] != POISON;
	}
	free(came);
	return err;
}

static int run_checks(struct bed *b, uint64_t *wrong)
{
	int err = 0;

	for (int pass = 0; !err && pass < PERF_PASSES; pass++) {
		err = perf_agree(b->job, write_pass(b, pass), "filling memory");
		if (err)
			return err;
		err = call(b, (uint32_t)pass);
		if (!err)
			err = settle(b);
		if (err)
			return fail_call(b, err);
		err = perf_agree(b->job, read_pass(b, pass, wrong), "checking memory");
	}
	return err;
}

/* ---- timing ---------------------------------------------------------------------------------------- */

static int run_calls(struct bed *b, uint32_t n, uint64_t *ns)
{
	uint64_t start = now_ns();
	int err = 0;

	for (uint32_t i = 0; !err && i < n; i++)
		err = call(b, i);
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
		err = run_calls(b, p->warm, &ns);
	for (uint32_t i = 0; !err && i < p->samples; i++) {
		err = run_calls(b, p->batch, &ns);
		us[i] = (float)((double)ns * 1e-3 / p->batch);
	}
	if (err)
		return fail_call(b, err);
	return perf_samples_join(b->job, us, p->samples, wrong, row, time_us);
}

static void explain(const struct bed *b, const struct perf_row *row)
{
	char text[256];

	if (!b->job->opt->explain || b->job->rank)
		return;
	if (!oriel_alltoallv_explain(b->request, b->most, text, sizeof(text)))
		printf("#   %s; measured %.3g us\n", text, row->time_us);
	fflush(stdout);
}

/* algbw: what a rank sends in all, over the time; busbw: of that what leaves it. */
static void set_rates(const struct bed *b, struct perf_row *row)
{
	double n = b->job->nranks;

	if (row->time_us > 0)
		row->algbw = (double)row->bytes * n / row->time_us * 1e-3;
	row->busbw = row->algbw * (n - 1) / n;
}

static int run_row(struct bed *b)
{
	static const char *const names[] = { "uniform", "random", "skew" };
	const struct perf_options *o = b->job->opt;
	struct perf_plan p = perf_plan_make(o, b->bytes * (uint64_t)b->job->nranks);
	struct perf_row row = { .op = b->op,
				.type = names[o->split],
				.bytes = b->bytes,
				.count = b->bytes,
				.checked = o->check,
				.iterations = p.iterations,
				.batch = p.batch };
	uint64_t wrong = 0;
	int err = o->check ? run_checks(b, &wrong) : 0;

	/* The second run fills the other half of nccl's columns; percentiles are of the last. */
	if (!err && o->nccl)
		err = run_timed(b, &p, 0, &row, &row.again_us);
	if (!err)
		err = run_timed(b, &p, wrong, &row, &row.time_us);
	if (err)
		return err;
	set_rates(b, &row);
	err = perf_row_end(b->job, &row, b->rows);
	if (!err)
		explain(b, &row);
	return err;
}

static int run_size(void *ctx, uint64_t bytes)
{
	const struct bed *like = ctx;
	struct bed b = { .job = like->job, .op = like->op, .rows = like->rows, .bytes = bytes };
	int err = open_bed(&b), closed;

	if (!err)
		err = run_row(&b);
	closed = close_bed(&b);
	return err ? err : closed;
}

static int run(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows)
{
	struct bed like = { .job = job, .op = op, .rows = rows };

	if (job->rank == 0)
		perf_report_op(job, op);
	return perf_sizes_each(job->opt, run_size, &like);
}

const struct perf_op perf_op_alltoallv = {
	.name = "alltoallv",
	.legend =
		"every rank sends every rank `size` bytes on average (--split); time of one call, "
		"rates of all a rank sends",
	.type = "uniform",
	.elem_bytes = 1,
	.sized = 1,
	.run = run,
};
