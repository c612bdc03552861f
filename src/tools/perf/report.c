/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/report.c - tables on stdout, in Oriel's own format or with the columns of nccl-tests.
 *
 * Every line that is not a row begins with #, so that a parser can skip it.
 * Called by: main.c on rank 0.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

#define MAP_RANKS 16 /* the largest map drawn pair by pair */
#define RANK_LINES 8
#define REASONS 8 /* different reasons printed */

/* ---- environment and topology ---------------------------------------------------------------- */

const char *perf_kind_name(int kind)
{
	switch (kind) {
	case ORIEL_PEER_SELF:
		return "self";
	case ORIEL_PEER_MAPPED:
		return "mapped";
	case ORIEL_PEER_QUEUED:
		return "queued";
	default:
		return "none";
	}
}

static char kind_letter(int kind)
{
	return kind == ORIEL_PEER_SELF   ? 's' :
	       kind == ORIEL_PEER_MAPPED ? 'M' :
	       kind == ORIEL_PEER_QUEUED ? 'Q' :
					   '.';
}

void perf_reasons_each(const struct perf_facts *f,
		       void (*fn)(void *ctx, int kind, const char *reason, long pairs), void *ctx)
{
	long n = f->has_all ? (long)f->nranks * f->nranks : f->nranks;

	for (long i = 0; i < n; i++) {
		long pairs = 0, first = -1;

		for (long j = 0; j < n; j++) {
			if (f->kinds[j] != f->kinds[i] || strcmp(f->reasons[j], f->reasons[i]))
				continue;
			first = first < 0 ? j : first;
			pairs++;
		}
		if (first == i)
			fn(ctx, f->kinds[i], f->reasons[i], pairs);
	}
}

static void print_reason(void *ctx, int kind, const char *reason, long pairs)
{
	int *printed = ctx;

	if (kind == ORIEL_PEER_SELF || ++*printed > REASONS)
		return;
	printf("#   %s, %ld %s: %s\n", perf_kind_name(kind), pairs, pairs == 1 ? "pair" : "pairs",
	       reason);
}

static void print_nodes(const struct perf_facts *f)
{
	for (int node = 0; node < f->nodes; node++) {
		int printed = 0;

		printf("#   node %d: rank%s", node, f->nranks > 1 ? "s" : "");
		for (int r = 0; r < f->nranks; r++) {
			if (f->ranks[r].node != node)
				continue;
			if (printed < 32)
				printf(" %d", r);
			printed++;
		}
		printf(printed > 32 ? " ... (%d ranks)\n" : "\n", printed);
	}
}

static void print_map(const struct perf_facts *f)
{
	printf("#   from \\ to");
	for (int r = 0; r < f->nranks; r++)
		printf(" %2d", r);
	printf("    (M mapped: loads and stores, Q queued, s self)\n");
	for (int r = 0; r < f->nranks; r++) {
		printf("#   %9d", r);
		for (int peer = 0; peer < f->nranks; peer++)
			printf("  %c",
			       kind_letter(f->kinds[(size_t)r * (size_t)f->nranks + (size_t)peer]));
		printf("\n");
	}
}

static void print_topology(const struct perf_job *job)
{
	const struct perf_facts *f = &job->facts;
	int printed = 0;

	printf("# topology: %d %s on %d %s\n", f->nranks, f->nranks == 1 ? "rank" : "ranks",
	       f->nodes, f->nodes == 1 ? "node" : "nodes");
	print_nodes(f);
	if (f->nranks > 1 && f->nranks <= MAP_RANKS)
		print_map(f);
	perf_reasons_each(f, print_reason, &printed);
	if (printed > REASONS)
		printf("#   and %d more reasons\n", printed - REASONS);
	if (!f->has_all)
		printf("#   (reasons as rank 0 sees them)\n");
}

static void print_environment(const struct perf_job *job)
{
	const struct perf_facts *f = &job->facts;

	printf("# oriel-perf %s: one-sided windows, %d %s, %d %s, device %s\n", oriel_version(),
	       f->nranks, f->nranks == 1 ? "rank" : "ranks", f->nodes,
	       f->nodes == 1 ? "node" : "nodes", f->ranks[0].device);
	printf("# date %s\n", f->date);
	printf("# host %s, kernel %s\n", f->ranks[0].host, f->kernel);
	printf("# cpu %s, %ld cores\n", f->cpu, f->cores);
	if (f->share[0])
		printf("# gpu: %s; %d threads per block\n", f->share, job->opt->threads);
	printf("# flags: %s\n", job->opt->line);
	for (int r = 0; r < f->nranks && r < RANK_LINES; r++)
		printf("# rank %d: pid %d on %s, device %s, node %d (%d of %d)\n", r,
		       (int)f->ranks[r].pid, f->ranks[r].host, f->ranks[r].device, f->ranks[r].node,
		       f->ranks[r].node_rank, f->ranks[r].node_size);
	if (f->nranks > RANK_LINES)
		printf("# and %d more ranks\n", f->nranks - RANK_LINES);
}

static void print_nccl_preamble(const struct perf_job *job)
{
	const struct perf_options *o = job->opt;
	const struct perf_facts *f = &job->facts;

	printf("# nThread %d nGpus 1 minBytes %llu maxBytes %llu step: %llu(factor) warmup "
	       "iters: %d iters: %u agg iters: 1 validation: %d graph: 0\n",
	       o->threads, (unsigned long long)o->begin, (unsigned long long)o->end,
	       (unsigned long long)o->factor, o->warm, o->iterations, o->check);
	printf("#\n# Using devices\n");
	for (int r = 0; r < f->nranks; r++)
		printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [0000:00:00] %s\n", r, 0,
		       (int)f->ranks[r].pid, f->ranks[r].host, f->ranks[r].node_rank,
		       f->ranks[r].device);
	printf("#\n");
}

void perf_report_head(const struct perf_job *job)
{
	print_environment(job);
	printf("#\n");
	print_topology(job);
	printf("#\n");
	if (job->opt->nccl)
		print_nccl_preamble(job);
	else
		printf("# time is the largest mean of any rank; p50 and p99 are over the samples "
		       "of all ranks; 1 GB is 1e9 bytes\n");
	fflush(stdout);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void print_nccl_columns(const struct perf_op *op)
{
	printf("# %s: %s; both halves are runs of the same operation, none is in place\n", op->name,
	       op->legend);
	printf("#\n"
	       "#                                                              out-of-place        "
	       "               in-place          \n"
	       "#       size         count      type   redop    root     time   algbw   busbw "
	       "#wrong     time   algbw   busbw #wrong\n"
	       "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)      "
	       "      (us)  (GB/s)  (GB/s)       \n");
}

void perf_report_op(const struct perf_job *job, const struct perf_op *op)
{
	if (job->opt->nccl) {
		print_nccl_columns(op);
		return;
	}
	printf("#\n# %s: %s\n", op->name, op->legend);
	printf("# %10s %11s %7s %10s %8s %8s %7s %10s %10s\n", "size", "count", "type", "time(us)",
	       "algbw", "busbw", "#wrong", "p50", "p99");
	printf("# %10s %11s %7s %10s %8s %8s %7s %10s %10s\n", "(B)", "(elements)", "", "",
	       "(GB/s)", "(GB/s)", "", "(us)", "(us)");
	fflush(stdout);
}

static void print_nccl_half(double us, const struct perf_row *row)
{
	double bw = us > 0 ? (double)row->bytes / us * 1e-3 : 0;

	/* The column has seven places: large times get fewer digits behind the point. */
	printf("  %7.*f  %6.2f  %6.2f", us >= 10000 ? 0 : us >= 100 ? 1 : 2, us, bw, bw);
	if (row->checked)
		printf("  %5g", (double)row->wrong);
	else
		printf("  %5s", "N/A");
}

static void print_nccl_row(const struct perf_row *row)
{
	printf("%12llu  %12llu  %8s  %6s  %6d", (unsigned long long)row->bytes,
	       (unsigned long long)row->count, row->type, "none", -1);
	print_nccl_half(row->time_us, row);
	print_nccl_half(row->again_us, row);
	printf("\n");
}

void perf_report_row(const struct perf_job *job, const struct perf_row *row)
{
	char algbw[16] = "-", busbw[16] = "-", wrong[24] = "N/A";

	if (row->unsupported) {
		printf("# %10llu %11llu %7s not supported by this NIC or GPU\n",
		       (unsigned long long)row->bytes, (unsigned long long)row->count, row->type);
		fflush(stdout);
		return;
	}
	if (job->opt->nccl) {
		print_nccl_row(row);
		fflush(stdout);
		return;
	}
	if (row->bytes) {
		snprintf(algbw, sizeof(algbw), "%.3f", row->algbw);
		snprintf(busbw, sizeof(busbw), "%.3f", row->busbw);
	}
	if (row->checked)
		snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)row->wrong);
	printf("%12llu %11llu %7s %10.3f %8s %8s %7s %10.3f %10.3f\n",
	       (unsigned long long)row->bytes, (unsigned long long)row->count, row->type,
	       row->time_us, algbw, busbw, wrong, row->p50_us, row->p99_us);
	fflush(stdout);
}

/* Prints the counts of the engine, for example of packets and of retransmissions. */
static void print_engine(const struct perf_engine *e)
{
	if (!e->n)
		return;
	printf("#\n# engine %s:", e->name);
	for (int i = 0; i < e->n; i++)
		printf("%s %s %llu", i ? "," : "", e->counts[i].key,
		       (unsigned long long)e->counts[i].count);
	printf(" (all ranks)\n");
}

void perf_report_tail(const struct perf_job *job, const struct perf_rows *rows)
{
	uint64_t wrong = 0;
	double busbw = 0;

	for (size_t i = 0; i < rows->n; i++) {
		wrong += rows->row[i].wrong;
		busbw += rows->row[i].busbw;
	}
	print_engine(&job->engine);
	if (job->opt->nccl)
		printf("# Out of bounds values : %llu %s\n# Avg bus bandwidth    : %g \n#\n",
		       (unsigned long long)wrong, wrong ? "FAILED" : "OK",
		       rows->n ? busbw / (double)rows->n : 0);
	else if (!job->opt->check)
		printf("#\n# nothing was checked (-c 0)\n");
	else
		printf("#\n# total wrong %llu: %s\n", (unsigned long long)wrong,
		       wrong ? "FAILED" : "OK");
	fflush(stdout);
}
