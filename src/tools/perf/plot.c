/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/plot.c - --plot: time and bandwidth over the size, drawn by gnuplot.
 *
 * This file writes the script: the medians of each operation, then two graphs side by side.
 * child.c runs gnuplot, which reads the script from a pipe and writes the SVG to its standard
 * output.  So no file name and no text of the user is part of a command line.
 * Called by: main.c on rank 0, before the measurements (probe) and after them.
 */
#include "child.h"
#include "perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLOT_SECONDS 60
#define SERIES_MAX 32
#define LIMITS 2 /* copies by all ranks, by half of them */

/* Rows of one operation and type, as one line of the graphs. */
struct series {
	const struct perf_op *op;
	const char *type;
};

struct plot {
	const struct perf_job *job;
	const struct perf_rows *rows;
	struct series series[SERIES_MAX];
	int n;
	int has_limit[LIMITS];
	FILE *to;
};

/* Colours that people with a colour vision deficiency can tell apart (Okabe and Ito). */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
				       "#e69f00", "#56b4e9", "#000000", "#8c6d31" };
#define COLOURS (sizeof(colours) / sizeof(colours[0]))

/* Without the user's own settings, which could change the output. */
static char *const gnuplot[] = { (char *)(uintptr_t) "gnuplot",
				 (char *)(uintptr_t) "--default-settings", NULL };
static char *const gnuplot_version[] = { (char *)(uintptr_t) "gnuplot",
					 (char *)(uintptr_t) "--version", NULL };

/* ---- series ---------------------------------------------------------------------------------- */

/* A logarithmic axis has no place for rows without bytes. */
static int is_drawn(const struct perf_row *row)
{
	return row->bytes && !row->unsupported && row->p50_us > 0;
}

static int belongs(const struct perf_row *row, const struct series *s)
{
	return row->op == s->op && !strcmp(row->type, s->type);
}

static void find_series(struct plot *p)
{
	for (size_t i = 0; i < p->rows->n; i++) {
		const struct perf_row *row = &p->rows->row[i];
		int s = 0;

		if (!is_drawn(row))
			continue;
		if (row->limit > 0)
			p->has_limit[row->op->pairs] = 1;
		while (s < p->n && !belongs(row, &p->series[s]))
			s++;
		if (s == p->n && p->n < SERIES_MAX)
			p->series[p->n++] = (struct series){ row->op, row->type };
	}
}

static void put_series(struct plot *p, int s)
{
	fprintf(p->to, "$series%d << END\n", s);
	for (size_t i = 0; i < p->rows->n; i++) {
		const struct perf_row *row = &p->rows->row[i];

		if (is_drawn(row) && belongs(row, &p->series[s]))
			fprintf(p->to, "%llu %.9g %.9g\n", (unsigned long long)row->bytes,
				row->p50_us, perf_algbw(row, p->job->nranks, row->p50_us));
	}
	fprintf(p->to, "END\n");
}

/* The limit of the first operation that has one of this kind; others measured the same. */
static void put_limit(struct plot *p, int pairs)
{
	const struct perf_op *op = NULL;

	fprintf(p->to, "$limit%d << END\n", pairs);
	for (size_t i = 0; i < p->rows->n; i++) {
		const struct perf_row *row = &p->rows->row[i];

		if (row->limit <= 0 || row->op->pairs != pairs || (op && op != row->op))
			continue;
		op = row->op;
		fprintf(p->to, "%llu %.9g %.9g\n", (unsigned long long)row->bytes,
			(double)row->bytes / row->limit * 1e-3, row->limit);
	}
	fprintf(p->to, "END\n");
}

/* ---- the script ------------------------------------------------------------------------------ */

/* In gnuplot's single quotes only the quote itself is special. */
static void put_quoted(FILE *to, const char *text)
{
	fputc('\'', to);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', to);
		fputc((unsigned char)*text < 0x20 ? '?' : *text, to);
	}
	fputc('\'', to);
}

static void put_head(struct plot *p)
{
	const struct perf_facts *f = &p->job->facts;
	char title[512];

	snprintf(title, sizeof(title), "oriel-perf %s: %d %s on %d %s, device %s; %s, %.10s",
		 oriel_version(), f->nranks, f->nranks == 1 ? "rank" : "ranks", f->nodes,
		 f->nodes == 1 ? "node" : "nodes", f->ranks[0].device, f->cpu, f->date);
	fprintf(p->to, "set terminal svg size 1280,520 background 'white' font 'sans-serif,13'\n"
		       "set multiplot title ");
	put_quoted(p->to, title);
	fprintf(p->to, " noenhanced font ',15'\n"
		       "set logscale x 2\nset logscale y 10\nset format y '%%g'\n"
		       "set xlabel 'size (bytes)'\nset grid back lc rgb '#dddddd'\n"
		       "set border lc rgb '#444444'\nset tmargin at screen 0.88\n"
		       "set bmargin at screen 0.14\n");
}

/* A mark for every eighth power of two: 8, 64, 512, 4K, ... */
static void put_marks(struct plot *p)
{
	static const char *const units[] = { "", "K", "M", "G", "T" };

	fprintf(p->to, "set xtics (");
	for (unsigned shift = 0; shift < 48; shift += 3)
		fprintf(p->to, "%s'%u%s' %llu", shift ? ", " : "", 1u << shift % 10,
			units[shift / 10], 1ull << shift);
	fprintf(p->to, ")\n");
}

/* column 2: time, 3: bandwidth */
static void put_limit_lines(struct plot *p, int column)
{
	static const char *const names[LIMITS] = { "limit: memcpy, all ranks",
						   "limit: memcpy, every other rank" };

	if (p->job->opt->limit > 0) {
		fprintf(p->to, column == 3 ? ", %g" : ", x / %g * 1e-3", p->job->opt->limit);
		fprintf(p->to, " with lines dt 2 lw 1.5 lc rgb '#777777' title 'limit: %g GB/s'",
			p->job->opt->limit);
		return;
	}
	for (int i = 0; i < LIMITS; i++)
		if (p->has_limit[i])
			fprintf(p->to,
				", $limit%d using 1:%d with lines dt %d lw 1.5 lc rgb '#777777' "
				"title '%s'",
				i, column, i + 2, names[i]);
}

static void put_graph(struct plot *p, int column)
{
	fprintf(p->to, "plot ");
	for (int s = 0; s < p->n; s++) {
		const struct series *one = &p->series[s];

		fprintf(p->to,
			"%s$series%d using 1:%d with linespoints lw 2 pt %d ps 0.6 lc rgb "
			"'%s' noenhanced title '%s%s%s'",
			s ? ", " : "", s, column, s % 2 ? 5 : 7, colours[(size_t)s % COLOURS],
			one->op->name, one->op->typed ? " " : "", one->op->typed ? one->type : "");
	}
	put_limit_lines(p, column);
	fprintf(p->to, "\n");
}

static void put_script(struct plot *p)
{
	put_head(p);
	put_marks(p);
	for (int s = 0; s < p->n; s++)
		put_series(p, s);
	for (int i = 0; i < LIMITS; i++)
		if (p->has_limit[i])
			put_limit(p, i);
	fprintf(p->to, "set lmargin at screen 0.08\nset rmargin at screen 0.39\nunset key\n"
		       "set ylabel 'time (us, median)'\n");
	put_graph(p, 2);
	fprintf(p->to, "set lmargin at screen 0.47\nset rmargin at screen 0.78\n"
		       "set key at screen 0.795,0.88 left top reverse Left samplen 2 noenhanced\n"
		       "set ylabel 'bandwidth (GB/s, of the median)'\n");
	put_graph(p, 3);
	fprintf(p->to, "unset multiplot\n");
}

/* ---- gnuplot --------------------------------------------------------------------------------- */

static int complain(int status)
{
	if (status == -ENOENT)
		fprintf(stderr, "oriel-perf: --plot needs gnuplot, which is not on the PATH: "
				"install the package gnuplot-nox\n");
	else if (status == -ETIMEDOUT)
		fprintf(stderr, "oriel-perf: gnuplot did not end within %d s\n", PLOT_SECONDS);
	else if (status < 0)
		fprintf(stderr, "oriel-perf: cannot run gnuplot: %s\n", strerror(-status));
	else
		fprintf(stderr, "oriel-perf: gnuplot failed with exit status %d\n", status);
	return ORIEL_ESYSTEM;
}

int perf_plot_probe(const struct perf_options *o)
{
	int status, err = perf_file_probe(o->plot);
	FILE *null;

	if (err)
		return err;
	null = fopen("/dev/null", "we");
	if (!null)
		return complain(-errno);
	status = perf_child_run(gnuplot_version, "", 0, fileno(null), PLOT_SECONDS);
	fclose(null);
	return status ? complain(status) : 0;
}

static int draw(const char *path, const char *script, size_t bytes)
{
	struct perf_file file;
	int status, err = perf_file_open(&file, path);

	if (err)
		return err;
	status = perf_child_run(gnuplot, script, bytes, fileno(file.stream), PLOT_SECONDS);
	if (status)
		err = complain(status);
	return perf_file_close(&file, err);
}

int perf_plot_write(const struct perf_job *job, const struct perf_rows *rows)
{
	struct plot p = { .job = job, .rows = rows };
	char *script = NULL;
	size_t bytes = 0;
	int err;

	find_series(&p);
	if (!p.n) {
		fprintf(stderr, "oriel-perf: there is nothing to plot: no row has a size\n");
		return ORIEL_EINVAL;
	}
	p.to = open_memstream(&script, &bytes);
	if (p.to)
		put_script(&p);
	err = !p.to || fclose(p.to) ? ORIEL_ENOMEM : draw(job->opt->plot, script, bytes);
	free(script);
	return err;
}
