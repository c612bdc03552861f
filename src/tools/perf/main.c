/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/main.c - oriel-perf: order of the steps, exit status.
 *
 * Uses oriel_boot_env(): run it under oriel-run, or alone as one rank.  Exit status, the same on
 * every rank: 0; 1 if something failed or data was wrong; 2 for a bad command line; 3 if --compare
 * found a slower row.  Only rank 0 prints; a rank that fails prints its own error.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

const struct perf_op *const perf_ops[PERF_OPS] = {
	&perf_op_put,        &perf_op_get,       &perf_op_put_signal, &perf_op_signal,
	&perf_op_packet,     &perf_op_barrier,   &perf_op_sendrecv,   &perf_op_atomics,
	&perf_op_completion, &perf_op_fanout,    &perf_op_alltoall,   &perf_op_alltoallv,
	&perf_op_allgather,  &perf_op_broadcast, &perf_op_allreduce,  &perf_op_reducescatter,
};

const uint64_t perf_quick_sizes[PERF_QUICK_SIZES] = { 8, 4096, 65536, 1u << 20 };

/* ---- the run --------------------------------------------------------------------------------- */

/* If there is no memory, the caller agrees on the error with the other ranks. */
static int keep_row(struct perf_rows *rows, const struct perf_row *row)
{
	if (rows->n == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 64;
		struct perf_row *more = realloc(rows->row, room * sizeof(*more));

		if (!more)
			return ORIEL_ENOMEM;
		rows->row = more;
		rows->room = room;
	}
	rows->row[rows->n++] = *row;
	return 0;
}

int perf_row_end(struct perf_job *job, struct perf_row *row, struct perf_rows *rows)
{
	int err;

	if (job->past)
		row->past_us = perf_past_find(job->past, row);
	err = perf_agree(job, keep_row(rows, row), "keeping a row");
	perf_progress_clear(job);
	if (!err && job->rank == 0)
		perf_report_row(job, row);
	return err;
}

static int run_row(struct perf_bed *bed, struct perf_row *row, struct perf_rows *rows)
{
	int err;

	perf_progress_row(bed->job, row->op, row->bytes);
	err = row->unsupported ? 0 : perf_row_measure(bed, row);
	return err ? err : perf_row_end(bed->job, row, rows);
}

/* Measures one row, or one per variant; `fan`: number of peers of a fan-out. */
static int run_size(struct perf_bed *bed, uint64_t bytes, int fan, struct perf_rows *rows)
{
	const struct perf_op *op = bed->op;
	int err = 0;

	for (int v = 0; !err && v < (op->variants[0] ? 2 : 1); v++) {
		struct perf_row row = { .op = op,
					.type = op->variants[v] ? op->variants[v] : op->type,
					.variant = v,
					.fan = fan,
					.bytes = bytes,
					.count = op->elem_bytes ? bytes / op->elem_bytes : 0 };

		row.unsupported = op->atomics && bed->job->facts.no_atomics;
		err = run_row(bed, &row, rows);
	}
	return err;
}

/* Rows for 1 to 8 peers, then twice as many each time, and for all peers. */
static int run_fan(struct perf_bed *bed, struct perf_rows *rows)
{
	int most = bed->job->nranks - 1, next, err = 0;

	for (int fan = 1; !err && fan <= most; fan = next) {
		err = run_size(bed, (uint64_t)fan * PERF_FAN_BYTES, fan, rows);
		next = fan < 8 ? fan + 1 : fan < most && 2 * fan > most ? most : 2 * fan;
	}
	return err;
}

int perf_sizes_each(const struct perf_options *o, int (*fn)(void *ctx, uint64_t bytes), void *ctx)
{
	int err = 0;

	if (o->quick) {
		for (int i = 0; !err && i < PERF_QUICK_SIZES; i++)
			err = fn(ctx, perf_quick_sizes[i]);
		return err;
	}
	for (uint64_t bytes = o->begin; !err && bytes <= o->end; bytes *= o->factor)
		err = fn(ctx, bytes);
	return err;
}

struct sized {
	struct perf_bed *bed;
	struct perf_rows *rows;
};

static int run_sized(void *ctx, uint64_t bytes)
{
	struct sized *s = ctx;

	if (s->bed->op->most_bytes && bytes > s->bed->op->most_bytes)
		return 0;
	return run_size(s->bed, bytes, 0, s->rows);
}

static int run_sizes(struct perf_bed *bed, struct perf_rows *rows)
{
	struct sized s = { bed, rows };

	if (bed->op->fan)
		return run_fan(bed, rows);
	if (!bed->op->sized)
		return run_size(bed, bed->op->fixed_bytes, 0, rows);
	return perf_sizes_each(bed->job->opt, run_sized, &s);
}

static int run_op(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows)
{
	struct perf_bed bed;
	int err, closed;

	if (job->opt->in_kernel && op->inside)
		op = op->inside;
	if (op->run)
		return op->run(job, op, rows);
	err = perf_memory_check(job, op);
	if (!err)
		err = perf_bed_open(job, op, &bed);
	if (err)
		return err;
	if (job->rank == 0)
		perf_report_op(job, op);
	err = run_sizes(&bed, rows);
	closed = perf_bed_close(&bed);
	return err ? err : closed;
}

static int is_wanted(const struct perf_job *job, const struct perf_op *op)
{
	const struct perf_op *asked = job->opt->op;

	if (op->fan && job->nranks == 1)
		return 0;
	if (op->run)
		return op == asked;
	return asked ? op == asked || op->with == asked : !op->far || job->facts.queued;
}

/* Before the measurements: finds out now what would fail after them. */
static int prepare_files(struct perf_job *job)
{
	const struct perf_options *o = job->opt;
	int err = 0;

	if (o->json)
		err = perf_agree(job, job->rank ? 0 : perf_file_probe(o->json), "writing JSON");
	if (!err && o->plot)
		err = perf_agree(job, job->rank ? 0 : perf_plot_probe(o), "the plot");
	if (!err && o->compare)
		err = perf_agree(job, job->rank ? 0 : perf_past_read(o->compare, &job->past),
				 "reading the run before");
	return err;
}

static int write_files(struct perf_job *job, const struct perf_rows *rows)
{
	const struct perf_options *o = job->opt;
	int err = 0;

	if (o->json)
		err = perf_agree(job, job->rank ? 0 : perf_json_write(job, rows), "writing JSON");
	if (!err && o->plot)
		err = perf_agree(job, job->rank ? 0 : perf_plot_write(job, rows), "the plot");
	return err;
}

static int run_all(struct perf_job *job, struct perf_rows *rows)
{
	int err = perf_facts_gather(job);

	if (!err)
		err = prepare_files(job);
	if (err)
		return err;
	if (job->rank == 0) {
		perf_report_head(job);
		perf_report_names(job);
	}
	for (int i = 0; !err && i < PERF_OPS; i++)
		if (is_wanted(job, perf_ops[i]))
			err = run_op(job, perf_ops[i], rows);
	if (!err)
		err = perf_engine_gather(job);
	if (!err && job->rank == 0)
		perf_report_tail(job, rows);
	return err ? err : write_files(job, rows);
}

/* Rank 0 compares; all ranks get its verdict as their exit status. */
static int judge(struct perf_job *job, const struct perf_rows *rows)
{
	int32_t verdict = job->past ? perf_past_judge(job, rows) : 0;
	int32_t *all = calloc((size_t)job->nranks, sizeof(*all));
	int err = perf_agree(job, all ? 0 : ORIEL_ENOMEM, "allocating memory");

	if (!err)
		err = oriel_comm_allgather(job->comm, ORIEL_WORLD, &verdict, all, sizeof(verdict));
	verdict = err ? 1 : all[0];
	free(all);
	return verdict;
}

static int count_wrong(const struct perf_job *job, const struct perf_rows *rows)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < rows->n; i++)
		wrong += rows->row[i].wrong;
	if (wrong && job->rank == 0)
		fprintf(stderr, "oriel-perf: %llu wrong: see the rows where #wrong is not 0\n",
			(unsigned long long)wrong);
	return wrong != 0;
}

static int join(const struct perf_options *o, struct perf_job *job)
{
	struct oriel_comm_options c = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_boot *boot = NULL;
	int err = oriel_boot_env(&boot);

	c.device = o->device;
	if (!err)
		err = oriel_comm_create(boot, &c, &job->comm);
	oriel_boot_destroy(boot);
	if (err)
		return err;
	job->opt = o;
	job->rank = oriel_comm_rank(job->comm);
	job->nranks = oriel_comm_size(job->comm);
	return 0;
}

/* The exit status. */
static int run_job(struct perf_job *job)
{
	struct perf_rows rows = { NULL, 0, 0 };
	int err = run_all(job, &rows), bad, verdict = 0;

	perf_progress_clear(job);
	bad = count_wrong(job, &rows);
	if (!err && !bad && job->opt->compare)
		verdict = judge(job, &rows);
	perf_past_free(job->past);
	perf_facts_free(&job->facts);
	free(rows.row);
	return oriel_comm_destroy(job->comm) || err || bad ? 1 : verdict;
}

int main(int argc, char **argv)
{
	struct perf_options o = { .begin = 8,
				  .end = 8u << 20,
				  .factor = 4,
				  .warm = -1,
				  .check = 1,
				  .blocks = 1,
				  .tolerance = 10,
				  .seed = 1 };
	struct perf_job job;
	int err = perf_options_parse(argc, argv, &o);

	if (err)
		return err < 0 ? 0 : err;
	memset(&job, 0, sizeof(job));
	if (o.cuda && perf_image_add(perf_is_first()))
		return 1;
	err = join(&o, &job); /* the library logs errors itself */
	return err ? 1 : run_job(&job);
}
