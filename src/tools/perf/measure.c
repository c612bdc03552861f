/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/measure.c - one operation's memory, and one row: verification passes, timing,
 * percentiles over the samples of all ranks.
 *
 * A rank whose kernel fails aborts the comm, so that the others do not wait for it.  Before a
 * kernel runs, all ranks agree on the status of what came before.
 * Called by: main.c, on the rank's host thread.
 */
#include "kernel.h"
#include "perf.h"

#include <stdlib.h>

#define STAGING_DEPTH 4u
#define CHECK_BATCH 16u /* operations of a verification pass that moves no data */

/* What each rank contributes to a row. */
struct share {
	uint64_t wrong;
	uint32_t samples;
	uint32_t reserved;
	double mean_us;
	float us[PERF_SAMPLES_MAX];
};

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t area_bytes(const struct perf_job *job, const struct perf_op *op)
{
	uint64_t words = (uint64_t)(job->opt->blocks + 2) * PERF_WORD_STRIDE;
	uint64_t fan = (uint64_t)(job->nranks - 1) * PERF_FAN_BYTES;
	uint64_t data = op->fan ? fan : op->sized ? job->opt->end : 0;

	return data > words ? data : words;
}

/* The shortest ring distance at which most ranks have a queued peer. */
static int far_shift(const struct perf_job *job)
{
	int n = job->nranks, best = 1, most = 0;

	for (int shift = 1; shift < n; shift++) {
		int queued = 0;

		for (int r = 0; r < n; r++)
			queued += job->facts.kinds[(size_t)r * (size_t)n +
						   (size_t)((r + shift) % n)] == ORIEL_PEER_QUEUED;
		if (queued > most) {
			most = queued;
			best = shift;
		}
	}
	return best;
}

/* Slots are smaller if many ranks and blocks have slots. */
static uint64_t slot_bytes(const struct perf_job *job)
{
	uint64_t slot = 65536, slots = (uint64_t)job->nranks * (uint64_t)job->opt->blocks;

	while (slot > 4096 && slot * STAGING_DEPTH * slots > (32u << 20))
		slot /= 2;
	return slot;
}

static uint64_t rank_bytes(const struct perf_job *job, const struct perf_op *op)
{
	uint64_t bytes = (job->opt->cuda ? 1 : 2) * (area_bytes(job, op) + 2ull * PERF_DATA_OFF);

	if (op->staged && !job->opt->cuda)
		bytes += slot_bytes(job) * STAGING_DEPTH * (uint64_t)job->nranks *
			 (uint64_t)job->opt->blocks;
	return bytes;
}

/*
 * Fails early if the host has too little memory; a GPU reports this itself.  All ranks have the
 * same facts, so they get the same result.
 */
int perf_memory_check(struct perf_job *job, const struct perf_op *op)
{
	uint64_t each = rank_bytes(job, op);

	for (int r = 0; r < job->nranks; r++) {
		const struct perf_rank *who = &job->facts.ranks[r];
		uint64_t all = each * (uint64_t)perf_local_ranks(job, r);

		if (all <= who->available_bytes)
			continue;
		if (job->rank == 0)
			fprintf(stderr,
				"oriel-perf: %s up to %llu bytes needs %.2f GiB per rank and "
				"%.2f GiB on host %s, which has %.2f GiB available\n",
				op->name, (unsigned long long)job->opt->end,
				(double)each / (1 << 30), (double)all / (1 << 30), who->host,
				(double)who->available_bytes / (1 << 30));
		return ORIEL_ENOMEM;
	}
	return 0;
}

static int bed_window(struct perf_bed *bed)
{
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	const struct perf_options *opt = bed->job->opt;

	w.signals = w.barriers = w.counters = (uint32_t)opt->blocks;
	w.bytes = bed->area_bytes + 2ull * PERF_DATA_OFF;
	if (bed->op->staged) {
		w.staging_slot_bytes = slot_bytes(bed->job);
		w.staging_depth = STAGING_DEPTH;
		w.staging_channels = (uint32_t)opt->blocks;
		bed->chunk = w.staging_slot_bytes * STAGING_DEPTH / 2;
	}
	if (bed->op->boxed) {
		w.boxes = (uint32_t)opt->blocks;
		w.box_bytes = (uint32_t)bed->op->most_bytes;
	}
	return oriel_window_create(bed->job->comm, &w, &bed->window);
}

static int bed_local(struct perf_bed *bed)
{
	struct oriel_comm *comm = bed->job->comm;
	uint64_t bytes = bed->area_bytes + 2ull * PERF_DATA_OFF;
	void *local = NULL;
	int err = oriel_alloc(comm, bytes, &local);

	bed->local = local;
	if (!err)
		err = perf_results_open(bed->job, &bed->results);
	if (bed->job->opt->cuda)
		bed->stage = malloc(bytes);
	if (!err && bed->job->opt->cuda && !bed->stage)
		err = ORIEL_ENOMEM;
	if (!err)
		err = oriel_window_source(bed->window, local, bytes, &bed->source);
	if (!err)
		err = perf_memory_zero(bed, bed->local, bytes);
	if (!err)
		err = perf_memory_zero(bed, oriel_window_buffer(bed->window), bytes);
	return err;
}

int perf_bed_open(struct perf_job *job, const struct perf_op *op, struct perf_bed *bed)
{
	int err;

	memset(bed, 0, sizeof(*bed));
	bed->job = job;
	bed->op = op;
	bed->area_bytes = area_bytes(job, op);
	bed->shift = op->far ? far_shift(job) : 1;
	err = bed_window(bed);
	if (err) {
		if (job->rank == 0)
			fprintf(stderr, "oriel-perf: cannot create the window for %s: %s\n",
				op->name, oriel_last_error());
		return err;
	}
	err = bed_local(bed);
	err = perf_agree(job, err, "allocating memory");
	if (err)
		perf_bed_close(bed);
	return err;
}

/* On a failed comm the collective destroy is left out: the window ends with the comm. */
int perf_bed_close(struct perf_bed *bed)
{
	struct oriel_comm *comm = bed->job->comm;
	int err = 0;

	free(bed->stage);
	bed->stage = NULL;
	perf_results_close(bed->job, &bed->results);
	if (oriel_comm_status(comm))
		return 0;
	err = oriel_window_destroy(bed->window);
	if (bed->local)
		oriel_free(comm, bed->local);
	return err;
}

/* ---- running --------------------------------------------------------------------------------- */

static void set_peers(const struct perf_bed *bed, struct perf_args *a)
{
	int rank = bed->job->rank, n = bed->job->nranks;

	if (!bed->op->pairs) {
		a->to = (rank + bed->shift) % n;
		a->from = (rank + n - bed->shift) % n;
		return;
	}
	a->to = a->from = (rank ^ 1) < n ? rank ^ 1 : rank;
	a->turn = a->to == rank ? PERF_ALONE : rank & 1 ? PERF_ANSWERS : PERF_STARTS;
}

static int set_args(struct perf_bed *bed, const struct perf_row *row, const struct perf_plan *p,
		    int check, struct perf_args *a)
{
	memset(a, 0, sizeof(*a));
	a->local = bed->source;
	a->bytes = row->bytes;
	a->variant = (uint32_t)row->variant;
	a->fan = (uint32_t)row->fan;
	a->shift = (uint32_t)bed->shift;
	a->seen = bed->seen;
	a->chunk = bed->chunk;
	a->warm = p->warm;
	a->samples = p->samples;
	a->batch = p->batch;
	a->check = (uint32_t)check;
	perf_results_set(bed->job, &bed->results, a);
	set_peers(bed, a);
	return oriel_window_device(bed->window, &a->win);
}

/* Reads a failure word in host or device memory; 0 if it cannot be read any more. */
static uint64_t failure_word(const struct perf_bed *bed, const uint64_t *at)
{
	uint64_t word = 0;

	if (at && !bed->job->opt->cuda)
		return ori_load_relaxed_sys(at);
	return at && !oriel_copy(bed->job->comm, &word, at, sizeof(word)) ? word : 0;
}

/* The rank that made the window or the comm fail; -1: none. */
static int culprit(const struct perf_bed *bed, const struct perf_args *a)
{
	uint64_t word = failure_word(bed, a->win.failure);

	if (!word)
		word = failure_word(bed, a->win.comm.failure);
	return word ? ORIEL_FAILURE_RANK(word) : -1;
}

/* The other ranks wait for this one in their kernels: abort, so that they end. */
static int fail_run(struct perf_bed *bed, const struct perf_args *a, int err)
{
	int rank = bed->job->rank, who = culprit(bed, a),
	    failed = oriel_comm_status(bed->job->comm);
	char by[32] = "";

	if (who >= 0 && who != rank)
		snprintf(by, sizeof(by), " (rank %d)", who);
	fprintf(stderr, "oriel-perf: rank %d: %s of %llu bytes: %s%s%s%s\n", rank, bed->op->name,
		(unsigned long long)a->bytes, oriel_status_text(err), by, failed ? ": " : "",
		failed ? oriel_last_error() : "");
	if (!failed)
		oriel_comm_abort(bed->job->comm, err);
	return err;
}

static int run_kernel(struct perf_bed *bed, const struct perf_row *row, const struct perf_plan *p,
		      int check, struct perf_args *a)
{
	const struct perf_options *opt = bed->job->opt;
	int err = set_args(bed, row, p, check, a);

	if (!err)
		err = oriel_comm_barrier(bed->job->comm, ORIEL_WORLD);
	if (!err)
		err = oriel_launch(bed->job->comm,
				   opt->on_line ? bed->op->on_line : bed->op->kernel, opt->blocks,
				   opt->threads, a, sizeof(*a), NULL);
	if (!err)
		err = oriel_comm_sync(bed->job->comm, NULL);
	if (!err)
		err = perf_results_fetch(bed->job, &bed->results, a);
	if (err)
		return fail_run(bed, a, err);
	bed->seen = *a->seen_out;
	return 0;
}

static int run_checks(struct perf_bed *bed, const struct perf_row *row, uint64_t *wrong)
{
	int data = bed->op->sized || bed->op->fan;
	struct perf_plan p = { 0, 0, 1, data ? 1 : CHECK_BATCH };
	struct perf_args a;
	int err = 0;

	for (int pass = 0; !err && pass < PERF_PASSES; pass++) {
		/* A neighbour may still read the data of the last pass. */
		err = oriel_comm_barrier(bed->job->comm, ORIEL_WORLD);
		if (err)
			return err;
		err = perf_agree(bed->job, perf_check_fill(bed, pass, row->bytes),
				 "filling memory");
		if (!err)
			err = run_kernel(bed, row, &p, 1, &a);
		if (!err)
			err = perf_agree(bed->job, perf_check_count(bed, pass, row->bytes, wrong),
					 "checking memory");
		if (err)
			return err;
		for (int b = 0; b < bed->job->opt->blocks; b++)
			*wrong += a.wrong[b];
		if (bed->op->verify)
			err = bed->op->verify(bed, pass, p.batch, wrong);
	}
	return err;
}

/* ---- timing ---------------------------------------------------------------------------------- */

struct perf_plan perf_plan_make(const struct perf_options *opt, uint64_t bytes)
{
	uint64_t budget = opt->quick ? 64u << 20 : 512u << 20;
	uint64_t most = opt->quick ? 1000 : 4000, least = 20;
	uint64_t n = bytes ? budget / bytes : most, per_batch = bytes < (1u << 20) ? 10 : 4;
	struct perf_plan p;

	n = n < least ? least : n > most ? most : n;
	if (opt->iterations)
		n = opt->iterations;
	/* A GPU's clock ticks every 32 ns, on some every microsecond. */
	if (opt->cuda && bytes < (1u << 16))
		per_batch = 40;
	/* A batch is so long that the time to read the clock does not matter. */
	p.samples = (uint32_t)(n / per_batch);
	p.samples = p.samples < 1 ? 1 : p.samples > PERF_SAMPLES_MAX ? PERF_SAMPLES_MAX : p.samples;
	p.batch = (uint32_t)((n + p.samples - 1) / p.samples);
	p.iterations = p.samples * p.batch;
	p.warm = opt->warm >= 0        ? (uint32_t)opt->warm :
		 p.iterations / 10 < 2 ? 2 :
					 p.iterations / 10;
	return p;
}

static void take_samples(const struct perf_bed *bed, const struct perf_args *a, float *us)
{
	/* A round of a pair is two one-way trips; for a rank alone it is one. */
	int trips = bed->op->pairs && a->turn != PERF_ALONE ? 2 : 1;

	perf_results_samples(bed->job, a, 1.0 / trips, us);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Nearest-rank method: the smallest value that `percent` of the samples do not exceed. */
static double percentile(const float *sorted, size_t n, size_t percent)
{
	size_t at = (n * percent + 99) / 100;

	return sorted[at ? at - 1 : 0];
}

/* `us` has room for the samples of all ranks. */
static void join_shares(const struct share *all, int nranks, float *us, struct perf_row *row,
			double *time_us)
{
	size_t n = 0;

	*time_us = 0;
	for (int r = 0; r < nranks; r++) {
		memcpy(us + n, all[r].us, all[r].samples * sizeof(*us));
		n += all[r].samples;
		row->wrong += all[r].wrong;
		*time_us = all[r].mean_us > *time_us ? all[r].mean_us : *time_us;
	}
	qsort(us, n, sizeof(*us), by_value);
	row->p50_us = percentile(us, n, 50);
	row->p99_us = percentile(us, n, 99);
}

int perf_samples_join(struct perf_job *job, const float *samples, uint32_t nsamples, uint64_t wrong,
		      struct perf_row *row, double *time_us)
{
	size_t n = (size_t)job->nranks;
	struct share *all = calloc(n + 1, sizeof(*all)), *mine = all ? all + n : NULL;
	float *us = calloc(n, sizeof(all->us));
	double sum = 0;
	int err = perf_agree(job, all && us ? 0 : ORIEL_ENOMEM, "allocating memory");

	if (!err) {
		mine->wrong = wrong;
		mine->samples = nsamples;
		memcpy(mine->us, samples, nsamples * sizeof(*samples));
		for (uint32_t i = 0; i < nsamples; i++)
			sum += (double)samples[i];
		mine->mean_us = sum / nsamples;
		err = oriel_comm_allgather(job->comm, ORIEL_WORLD, mine, all, sizeof(*mine));
	}
	if (!err)
		join_shares(all, (int)n, us, row, time_us);
	free(us);
	free(all);
	return err;
}

static int run_timed(struct perf_bed *bed, const struct perf_plan *p, uint64_t wrong,
		     struct perf_row *row, double *time_us)
{
	float us[PERF_SAMPLES_MAX];
	struct perf_args a;
	int err = run_kernel(bed, row, p, 0, &a);

	if (err)
		return err;
	take_samples(bed, &a, us);
	return perf_samples_join(bed->job, us, a.samples, wrong, row, time_us);
}

int perf_row_measure(struct perf_bed *bed, struct perf_row *row)
{
	const struct perf_options *opt = bed->job->opt;
	struct perf_plan p = perf_plan_make(opt, row->bytes);
	uint64_t wrong = 0;
	int err = 0;

	row->checked = opt->check;
	row->iterations = p.iterations;
	row->batch = p.batch;
	if (opt->check)
		err = run_checks(bed, row, &wrong);
	if (!err)
		err = run_timed(bed, &p, wrong, row, &row->time_us);
	if (!err)
		perf_rates_set(row, bed->job->nranks);
	if (!err && opt->plot)
		err = perf_limit_measure(bed->job, row);
	return err;
}
