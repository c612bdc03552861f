/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/json.c - the run as one JSON object: schema, environment, topology, engine, rows.
 *
 * docs/perf.md describes every key.  New keys may be added; if a key changes its meaning or goes,
 * PERF_SCHEMA_VERSION grows.
 * Called by: main.c on rank 0.
 */
#include "perf.h"

static void put_text(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20)
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

static void put_pair(FILE *f, const char *key, const char *text)
{
	fprintf(f, "\"%s\": ", key);
	put_text(f, text);
}

static void put_environment(FILE *f, const struct perf_job *job)
{
	const struct perf_facts *x = &job->facts;
	const struct perf_options *o = job->opt;

	fprintf(f, "  \"environment\": {\n    ");
	put_pair(f, "version", oriel_version());
	fprintf(f, ",\n    ");
	put_pair(f, "date", x->date);
	fprintf(f, ",\n    ");
	put_pair(f, "host", x->ranks[0].host);
	fprintf(f, ",\n    ");
	put_pair(f, "cpu", x->cpu);
	fprintf(f, ",\n    \"cores\": %ld,\n    ", x->cores);
	put_pair(f, "kernel", x->kernel);
	fprintf(f, ",\n    \"ranks\": %d,\n    \"nodes\": %d,\n    ", x->nranks, x->nodes);
	put_pair(f, "device", x->ranks[0].device);
	fprintf(f, ",\n    \"blocks\": %d,\n    \"threads\": %d,\n    ", o->blocks, o->threads);
	fprintf(f, "\"in_kernel\": %d,\n    \"on_line\": %d,\n    ", o->in_kernel, o->on_line);
	fprintf(f, "\"in_windows\": %d,\n    ", o->in_windows);
	put_pair(f, "flags", o->line);
	fprintf(f, "\n  },\n");
}

struct reasons {
	FILE *f;
	int n;
};

static void put_reason(void *ctx, int kind, const char *reason, long pairs)
{
	struct reasons *r = ctx;

	fprintf(r->f, "%s\n      { ", r->n++ ? "," : "");
	put_pair(r->f, "kind", perf_kind_name(kind));
	fprintf(r->f, ", \"pairs\": %ld, ", pairs);
	put_pair(r->f, "reason", reason);
	fprintf(r->f, " }");
}

static void put_kinds(FILE *f, const struct perf_facts *x, int rank)
{
	const uint8_t *row = x->kinds + (size_t)rank * (size_t)x->nranks;

	for (int peer = 0; peer < x->nranks; peer++)
		fprintf(f, "%s\"%s\"", peer ? ", " : "", perf_kind_name(row[peer]));
}

static void put_topology(FILE *f, const struct perf_job *job)
{
	const struct perf_facts *x = &job->facts;
	struct reasons r = { f, 0 };

	fprintf(f, "  \"topology\": {\n    \"nodes\": %d,\n    \"ranks\": [", x->nodes);
	for (int i = 0; i < x->nranks; i++) {
		fprintf(f, "%s\n      { \"rank\": %d, \"node\": %d, \"pid\": %d, ", i ? "," : "", i,
			x->ranks[i].node, (int)x->ranks[i].pid);
		put_pair(f, "host", x->ranks[i].host);
		fprintf(f, ", ");
		put_pair(f, "device", x->ranks[i].device);
		fprintf(f, ", \"peers\": [");
		put_kinds(f, x, i);
		fprintf(f, "] }");
	}
	fprintf(f, "\n    ],\n    \"reasons\": [");
	perf_reasons_each(x, put_reason, &r);
	fprintf(f, "\n    ]\n  },\n");
}

/* Without queued peers there is a name and no counts. */
static void put_engine(FILE *f, const struct perf_engine *e)
{
	fprintf(f, "  \"engine\": { ");
	put_pair(f, "name", e->name);
	for (int i = 0; i < e->n; i++) {
		fprintf(f, ", \"");
		for (const char *c = e->counts[i].key; *c; c++)
			fputc(*c == ' ' ? '_' : *c, f);
		fprintf(f, "\": %llu", (unsigned long long)e->counts[i].count);
	}
	fprintf(f, " },\n");
}

static void put_row(FILE *f, const struct perf_row *row)
{
	fprintf(f, "    { \"op\": \"%s\", \"size\": %llu, \"count\": %llu, \"type\": \"%s\", ",
		row->op->name, (unsigned long long)row->bytes, (unsigned long long)row->count,
		row->type);
	if (row->fan)
		fprintf(f, "\"peers\": %d, ", row->fan);
	if (row->unsupported) {
		fprintf(f, "\"unsupported\": \"not supported by this NIC or GPU\" }");
		return;
	}
	fprintf(f, "\"iterations\": %u, \"batch\": %u, \"time_us\": %.6g, ", row->iterations,
		row->batch, row->time_us);
	if (row->bytes)
		fprintf(f, "\"algbw_GBps\": %.6g, \"busbw_GBps\": %.6g, ", row->algbw, row->busbw);
	else
		fprintf(f, "\"algbw_GBps\": null, \"busbw_GBps\": null, ");
	fprintf(f, "\"p50_us\": %.6g, \"p99_us\": %.6g, ", row->p50_us, row->p99_us);
	if (row->in_place_us > 0)
		fprintf(f, "\"in_place_us\": %.6g, ", row->in_place_us);
	if (row->limit > 0)
		fprintf(f, "\"limit_GBps\": %.6g, ", row->limit);
	if (row->checked)
		fprintf(f, "\"wrong\": %llu }", (unsigned long long)row->wrong);
	else
		fprintf(f, "\"wrong\": null }");
}

int perf_json_write(const struct perf_job *job, const struct perf_rows *rows)
{
	struct perf_file file;
	int err = perf_file_open(&file, job->opt->json);
	FILE *f = file.stream;

	if (err)
		return err;
	fprintf(f, "{\n  \"schema\": \"%s\",\n  \"schema_version\": %d,\n", PERF_SCHEMA,
		PERF_SCHEMA_VERSION);
	put_environment(f, job);
	put_topology(f, job);
	put_engine(f, &job->engine);
	fprintf(f, "  \"rows\": [");
	for (size_t i = 0; i < rows->n; i++) {
		fprintf(f, "%s\n", i ? "," : "");
		put_row(f, &rows->row[i]);
	}
	fprintf(f, "\n  ]\n}\n");
	return perf_file_close(&file, 0);
}
