/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/head.c - what is printed before the first table.
 *
 * Without -v: one line about the job, and one per way in which ranks reach each other.  With -v
 * also the machine, every rank, and the map of pairs.  Every line begins with #, so that a parser
 * can skip it; CSV has no head.
 * Called by: main.c on rank 0.
 */
#include "perf.h"

#include <string.h>

#define MAP_RANKS 16 /* the largest map drawn pair by pair */
#define RANK_LINES 8
#define REASONS 8 /* different reasons printed */

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

static void print_reasons(const struct perf_facts *f)
{
	int printed = 0;

	perf_reasons_each(f, print_reason, &printed);
	if (printed > REASONS)
		printf("#   and %d more reasons\n", printed - REASONS);
	if (!f->has_all)
		printf("#   (reasons as rank 0 sees them)\n");
}

/* Where the buffers lie, of operations that can have them in windows. */
static const char *memory_text(const struct perf_options *o)
{
	if (!o->op || !o->op->windowed || o->in_kernel)
		return "";
	return o->in_windows ? ", buffers in windows" : ", buffers outside windows";
}

static void print_job(const struct perf_job *job)
{
	const struct perf_facts *f = &job->facts;
	int blocks = job->opt->blocks, threads = job->opt->threads;

	printf("# oriel-perf %s: %d %s on %d %s, device %s", oriel_version(), f->nranks,
	       f->nranks == 1 ? "rank" : "ranks", f->nodes, f->nodes == 1 ? "node" : "nodes",
	       f->ranks[0].device);
	if (blocks > 1 || threads > 1)
		printf(", %d %s of %d %s", blocks, blocks == 1 ? "block" : "blocks", threads,
		       threads == 1 ? "thread" : "threads");
	printf("%s%s%s\n", job->opt->in_kernel ? ", inside a kernel" : "",
	       job->opt->on_line ? ", on a line" : "", memory_text(job->opt));
}

/* With more threads than cores, turns of milliseconds are part of every mean. */
static void print_crowd(const struct perf_job *job)
{
	const struct perf_facts *f = &job->facts;
	int ranks = perf_local_ranks(job, 0);

	if (!strcmp(f->ranks[0].device, "cpu") &&
	    (long)ranks * job->opt->blocks * job->opt->threads > f->cores)
		printf("#   %d %s on %ld %s: threads take turns, so compare p50; a mean contains "
		       "the turns\n",
		       ranks, ranks == 1 ? "rank" : "ranks", f->cores,
		       f->cores == 1 ? "core" : "cores");
}

static void print_environment(const struct perf_job *job)
{
	const struct perf_facts *f = &job->facts;

	printf("# date %s\n", f->date);
	printf("# host %s, kernel %s\n", f->ranks[0].host, f->kernel);
	printf("# cpu %s, %ld cores\n", f->cpu, f->cores);
	if (f->share[0])
		printf("# gpu: %s\n", f->share);
	printf("# flags: %s\n", job->opt->line);
	for (int r = 0; r < f->nranks && r < RANK_LINES; r++)
		printf("# rank %d: pid %d on %s, device %s, node %d (%d of %d)\n", r,
		       (int)f->ranks[r].pid, f->ranks[r].host, f->ranks[r].device, f->ranks[r].node,
		       f->ranks[r].node_rank, f->ranks[r].node_size);
	if (f->nranks > RANK_LINES)
		printf("# and %d more ranks\n", f->nranks - RANK_LINES);
}

/* What a user of -v gets beyond the short head. */
static void print_more(const struct perf_job *job)
{
	print_environment(job);
	print_nodes(&job->facts);
	if (job->facts.nranks > 1 && job->facts.nranks <= MAP_RANKS)
		print_map(&job->facts);
	printf("# time is the largest mean of any rank; p50 and p99 are over the samples of all "
	       "ranks; 1 GB is 1e9 bytes\n");
}

static void print_nccl_preamble(const struct perf_job *job)
{
	const struct perf_options *o = job->opt;
	const struct perf_facts *f = &job->facts;

	printf("# nThread %d nGpus 1 minBytes %llu maxBytes %llu step: %llu(factor) warmup "
	       "iters: %d iters: %u agg iters: 1 validation: %d graph: %d\n",
	       o->threads, (unsigned long long)o->begin, (unsigned long long)o->end,
	       (unsigned long long)o->factor, o->warm, o->iterations, o->check, o->graph);
	printf("#\n# Using devices\n");
	for (int r = 0; r < f->nranks; r++)
		printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [0000:00:00] %s\n", r, 0,
		       (int)f->ranks[r].pid, f->ranks[r].host, f->ranks[r].node_rank,
		       f->ranks[r].device);
	printf("#\n");
}

void perf_report_head(const struct perf_job *job)
{
	if (job->opt->format == PERF_FORMAT_CSV)
		return;
	print_job(job);
	print_reasons(&job->facts);
	print_crowd(job);
	if (job->opt->verbose)
		print_more(job);
	if (job->opt->format == PERF_FORMAT_NCCL)
		print_nccl_preamble(job);
	fflush(stdout);
}
