/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/compare.c - --compare: the rows of this run beside those of a run before.
 *
 * The run before is a file that --json has written.  Rows belong together if operation, size, type
 * and number of peers are the same.  Their medians are compared: on a busy machine the mean of one
 * run can be several times that of the next, the median is not.
 * Called by: main.c on rank 0; the other ranks only learn the verdict.
 */
#include "json_read.h"
#include "perf.h"

#include <stdlib.h>
#include <string.h>

#define SLOWER_SHOWN 20

struct perf_past {
	struct perf_json_file *file;
	const struct perf_json *environment, *rows;
};

static int refuse(const char *path, const char *why)
{
	fprintf(stderr, "oriel-perf: cannot compare with %s: %s\n", path, why);
	return ORIEL_EINVAL;
}

static int check_schema(const char *path, const struct perf_json *root)
{
	double version = perf_json_number(root, "schema_version", 0);
	char why[96];

	if (strcmp(perf_json_text(root, "schema", ""), PERF_SCHEMA) != 0)
		return refuse(path, "it is not a file of oriel-perf --json, or of an older one "
				    "that wrote no schema: measure again");
	if (version == (double)PERF_SCHEMA_VERSION)
		return 0;
	snprintf(why, sizeof(why), "its schema version is %g, and this program reads version %d",
		 version, PERF_SCHEMA_VERSION);
	return refuse(path, why);
}

int perf_past_read(const char *path, struct perf_past **past)
{
	struct perf_past *p = calloc(1, sizeof(*p));
	const struct perf_json *root;
	char why[160];
	int err;

	if (!p)
		return ORIEL_ENOMEM;
	p->file = perf_json_read(path, why, sizeof(why));
	if (!p->file) {
		perf_past_free(p);
		return refuse(path, why);
	}
	root = perf_json_root(p->file);
	err = check_schema(path, root);
	p->environment = perf_json_find(root, "environment");
	p->rows = perf_json_find(root, "rows");
	if (!err && (!p->rows || !p->rows->children))
		err = refuse(path, "it has no rows");
	if (err) {
		perf_past_free(p);
		return err;
	}
	*past = p;
	return 0;
}

void perf_past_free(struct perf_past *p)
{
	if (!p)
		return;
	perf_json_free(p->file);
	free(p);
}

static int is_same(const struct perf_json *old, const struct perf_row *row)
{
	return !strcmp(perf_json_text(old, "op", ""), row->op->name) &&
	       !strcmp(perf_json_text(old, "type", ""), row->type) &&
	       perf_json_number(old, "size", -1) == (double)row->bytes &&
	       perf_json_number(old, "peers", 0) == (double)row->fan;
}

double perf_past_find(const struct perf_past *p, const struct perf_row *row)
{
	const struct perf_json *old = p->rows->children;

	while (old && !is_same(old, row))
		old = old->next;
	return old ? perf_json_number(old, "p50_us", 0) : 0;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* Where the verdict goes.  CSV has rows only, so there it is standard error. */
struct out {
	FILE *to;
	const char *before; /* of each line */
};

/* Says which settings differ, so that nobody blames the code for them. */
static void note_difference(struct out out, const struct perf_job *job, const struct perf_past *p)
{
	const struct perf_facts *f = &job->facts;
	const struct {
		const char *key;
		int now;
	} numbers[] = { { "ranks", f->nranks },
			{ "nodes", f->nodes },
			{ "blocks", job->opt->blocks },
			{ "threads", job->opt->threads },
			{ "in_kernel", job->opt->in_kernel },
			{ "on_line", job->opt->on_line },
			{ "in_windows", job->opt->in_windows } };
	const struct {
		const char *key, *now;
	} texts[] = { { "device", f->ranks[0].device },
		      { "host", f->ranks[0].host },
		      { "cpu", f->cpu } };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		double old = perf_json_number(p->environment, numbers[i].key, 0);

		if (old != (double)numbers[i].now)
			fprintf(out.to, "%snote: %s: %g before, %d now\n", out.before,
				numbers[i].key, old, numbers[i].now);
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *old = perf_json_text(p->environment, texts[i].key, "");

		if (strcmp(old, texts[i].now) != 0)
			fprintf(out.to, "%snote: %s: %s before, %s now\n", out.before, texts[i].key,
				old, texts[i].now);
	}
}

static int is_slower(const struct perf_job *job, const struct perf_row *row)
{
	return row->past_us > 0 && row->p50_us > row->past_us * (1 + job->opt->tolerance / 100);
}

static void print_slower(struct out out, const struct perf_row *row)
{
	fprintf(out.to, "%s  %s of %llu bytes", out.before, row->op->name,
		(unsigned long long)row->bytes);
	if (row->op->typed)
		fprintf(out.to, " (%s)", row->type);
	fprintf(out.to, ": %.3f us before, %.3f us now, ratio %.2f\n", row->past_us, row->p50_us,
		row->p50_us / row->past_us);
}

int perf_past_judge(const struct perf_job *job, const struct perf_rows *rows)
{
	int csv = job->opt->format == PERF_FORMAT_CSV;
	struct out out = { csv ? stderr : stdout, csv ? "oriel-perf: " : "# " };
	const struct perf_past *p = job->past;
	size_t compared = 0, slower = 0, shown = 0;

	for (size_t i = 0; i < rows->n; i++) {
		compared += rows->row[i].past_us > 0;
		slower += (size_t)is_slower(job, &rows->row[i]);
	}
	if (!compared) {
		fprintf(stderr, "oriel-perf: no row of this run is in %s\n", job->opt->compare);
		return 1;
	}
	note_difference(out, job, p);
	fprintf(out.to,
		"%scompared with %s of %s: %zu of %zu rows, %zu slower by more than %g %%\n",
		out.before, job->opt->compare, perf_json_text(p->environment, "date", "?"),
		compared, rows->n, slower, job->opt->tolerance);
	for (size_t i = 0; i < rows->n; i++)
		if (is_slower(job, &rows->row[i]) && shown++ < SLOWER_SHOWN)
			print_slower(out, &rows->row[i]);
	if (shown > SLOWER_SHOWN)
		fprintf(out.to, "%s  and %zu more\n", out.before, shown - SLOWER_SHOWN);
	fflush(out.to);
	return slower ? 3 : 0;
}
