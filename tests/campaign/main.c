/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/main.c - the command: runs seeds in parallel, counts failures, and starts the
 * shrinking of failed seeds.
 *
 * Exit status: 0 no seed failed; 1 a seed failed; 2 the command line is wrong.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "campaign.h"

#define JOBS_MAX 16
#define NAMES_MAX 64
#define TIMEOUT_S 20.0
#define GPU_TIMEOUT_S 60.0 /* processes take turns on it */

struct campaign {
	struct camp_options o;
	uint64_t from, seeds;
	double seconds;  /* no new seeds after; 0: no limit */
	double shrink_s; /* for one failing seed; 0: not at all */
	int jobs, repeat, print, stop_after;
	/* what came of it */
	uint64_t ran, nops, found;
	double *times, slowest_s;
	uint64_t slowest;
	struct {
		char name[48];
		uint64_t programs, found;
	} names[NAMES_MAX];
	int nnames;
};

static const char help[] =
	"Usage: campaign [--seeds N] [--from N] [--seconds S] [--jobs N] [--gpu] [--print]\n"
	"                [--without A,B] [--keep 3,7] [--set ranks=2,device=cpu,...] [--repeat N]\n"
	"                [--shrink S] [--found N] [--timeout S]\n"
	"Runs random programs from seeds; a model predicts every byte and word.\n"
	"  --seeds N     number of seeds (default 100)\n"
	"  --from N      first seed (default 1)\n"
	"  --seconds S   start no further seed after S seconds\n"
	"  --jobs N      seeds that run at the same time (default 2; with --gpu 1)\n"
	"  --gpu         run on a CUDA GPU, in the program that nvcc has built\n"
	"  --print       print the programs, run nothing\n"
	"  --without L   leave out kinds of steps: exchange meet fetch chain pingpong atomics\n"
	"                staged storm gather gather_many request alltoallv reuse again graph\n"
	"                settle; or features: uncovered (all-gather into memory of no window),\n"
	"                gather_streams (several streams for it), early_destroy (destroy a\n"
	"                request while a stream has work of it)\n"
	"  --keep L      run only these steps\n"
	"  --set L       set ranks device topology nic faults lanes nics depth wrap a2a threads\n"
	"                streams processes fake; in values + is a comma, none is an empty value\n"
	"  --repeat N    run each seed up to N times, until it fails\n"
	"  --shrink S    seconds to reduce a failing seed (default 60; 0: do not reduce)\n"
	"  --found N     stop when N seeds have failed (default 3)\n"
	"  --timeout S   deadline of the library (default 20; with --gpu 60)\n";

static void usage(FILE *out)
{
	fputs(help, out);
}

/* ---- options --------------------------------------------------------------------------------- */

static int parse_keep(struct camp_options *o, const char *text)
{
	o->keeps = 1;
	while (*text) {
		char *end;
		long n = strtol(text, &end, 10);

		if (end == text || n < 0 || n >= CAMP_STEPS || (*end && *end != ','))
			return -1;
		o->keep[n / 64] |= 1ull << (n % 64);
		text = end + (*end == ',');
	}
	return 0;
}

enum {
	OPT_SEEDS = 256,
	OPT_FROM,
	OPT_SECONDS,
	OPT_JOBS,
	OPT_GPU,
	OPT_PRINT,
	OPT_WITHOUT,
	OPT_KEEP,
	OPT_SET,
	OPT_REPEAT,
	OPT_SHRINK,
	OPT_FOUND,
	OPT_SABOTAGE,
	OPT_TIMEOUT,
	OPT_HELP
};

static const struct option long_options[] = {
	{ "seeds", 1, NULL, OPT_SEEDS },       { "from", 1, NULL, OPT_FROM },
	{ "seconds", 1, NULL, OPT_SECONDS },   { "jobs", 1, NULL, OPT_JOBS },
	{ "gpu", 0, NULL, OPT_GPU },           { "print", 0, NULL, OPT_PRINT },
	{ "without", 1, NULL, OPT_WITHOUT },   { "keep", 1, NULL, OPT_KEEP },
	{ "set", 1, NULL, OPT_SET },           { "repeat", 1, NULL, OPT_REPEAT },
	{ "shrink", 1, NULL, OPT_SHRINK },     { "found", 1, NULL, OPT_FOUND },
	{ "sabotage", 1, NULL, OPT_SABOTAGE }, { "timeout", 1, NULL, OPT_TIMEOUT },
	{ "help", 0, NULL, OPT_HELP },         { NULL, 0, NULL, 0 },
};

static int take_option(struct campaign *c, int option)
{
	switch (option) {
	case OPT_SEEDS:
		c->seeds = strtoull(optarg, NULL, 0);
		return 0;
	case OPT_FROM:
		c->from = strtoull(optarg, NULL, 0);
		return 0;
	case OPT_SECONDS:
		c->seconds = atof(optarg);
		return 0;
	case OPT_JOBS:
		c->jobs = atoi(optarg);
		return c->jobs < 1 || c->jobs > JOBS_MAX;
	case OPT_GPU:
		c->o.gpu = 1;
		return 0;
	case OPT_PRINT:
		c->print = 1;
		return 0;
	case OPT_WITHOUT:
		snprintf(c->o.without, sizeof(c->o.without), "%s", optarg);
		return 0;
	case OPT_KEEP:
		return parse_keep(&c->o, optarg);
	case OPT_SET:
		snprintf(c->o.set, sizeof(c->o.set), "%s", optarg);
		return 0;
	case OPT_REPEAT:
		c->repeat = atoi(optarg);
		return c->repeat < 1;
	case OPT_SHRINK:
		c->shrink_s = atof(optarg);
		return 0;
	case OPT_FOUND:
		c->stop_after = atoi(optarg);
		return 0;
	case OPT_SABOTAGE: /* 1: a byte is missing, 2: a signal is; for the campaign's own test */
		c->o.sabotage = atoi(optarg);
		return 0;
	case OPT_TIMEOUT:
		c->o.timeout_s = atof(optarg);
		return c->o.timeout_s <= 0;
	case OPT_HELP:
		usage(stdout);
		exit(0);
	default:
		return -1;
	}
}

/* ---- counting -------------------------------------------------------------------------------- */

static void count(struct campaign *c, const struct camp_child *child)
{
	struct camp_program p;
	char name[48];
	int i = 0;

	camp_plan(child->seed, &c->o, &p);
	camp_config_name(&p.config, name, sizeof(name));
	while (i < c->nnames && strcmp(c->names[i].name, name))
		i++;
	if (i == NAMES_MAX)
		i--;
	else if (i == c->nnames)
		snprintf(c->names[c->nnames++].name, sizeof(name), "%s", name);
	c->names[i].programs++;
	c->names[i].found += child->result->failed != 0;
	c->found += child->result->failed != 0;
	c->nops += child->result->nops;
	c->times = realloc(c->times, (c->ran + 1) * sizeof(*c->times));
	if (!c->times)
		abort();
	c->times[c->ran++] = child->result->seconds;
	if (child->result->seconds > c->slowest_s) {
		c->slowest_s = child->result->seconds;
		c->slowest = child->seed;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void summary(struct campaign *c, double seconds)
{
	qsort(c->names, (size_t)c->nnames, sizeof(c->names[0]), by_name);
	for (int i = 0; i < c->nnames; i++)
		printf("  %-30s %6llu programs, %llu failed\n", c->names[i].name,
		       (unsigned long long)c->names[i].programs,
		       (unsigned long long)c->names[i].found);
	if (c->ran)
		qsort(c->times, c->ran, sizeof(*c->times), by_value);
	printf("campaign: seeds %llu to %llu, %llu operations checked, %llu seeds failed; "
	       "%.0f s, median %.3f s, p99 %.3f s a seed, seed %llu %.3f s\n",
	       (unsigned long long)c->from, (unsigned long long)(c->from + c->ran - (c->ran > 0)),
	       (unsigned long long)c->nops, (unsigned long long)c->found, seconds,
	       c->ran ? c->times[c->ran / 2] : 0, c->ran ? c->times[c->ran * 99 / 100] : 0,
	       (unsigned long long)c->slowest, c->slowest_s);
}

/* ---- running --------------------------------------------------------------------------------- */

static void tell_failure(struct campaign *c, const struct camp_child *child)
{
	printf("seed %llu failed: %s\n  %s\n", (unsigned long long)child->seed, child->result->text,
	       child->result->config);
	if (c->shrink_s > 0)
		camp_shrink(child->seed, &c->o, child->result, c->shrink_s, stdout);
	fflush(stdout);
}

struct turn {
	struct camp_child child;
	int busy, runs;
};

/* 1: its place is free again. */
static int collect(struct campaign *c, struct turn *t)
{
	struct camp_result *r = t->child.result;

	if (!camp_child_poll(&t->child))
		return 0;
	if (!r->failed && ++t->runs < c->repeat) {
		munmap(r, sizeof(*r));
		(void)camp_child_begin(&t->child, t->child.seed, &c->o);
		return 0;
	}
	count(c, &t->child);
	if (r->failed)
		tell_failure(c, &t->child);
	munmap(r, sizeof(*r));
	t->busy = 0;
	return 1;
}

static void run(struct campaign *c)
{
	struct turn turns[JOBS_MAX];
	uint64_t next = c->from, end = c->from + c->seeds;
	double began = camp_now();
	int busy = 0;

	memset(turns, 0, sizeof(turns));
	for (;;) {
		int more = next < end && (c->seconds <= 0 || camp_now() - began < c->seconds) &&
			   c->found < (uint64_t)c->stop_after;

		if (!more && !busy)
			break;
		for (int i = 0; i < c->jobs; i++) {
			struct turn *t = &turns[i];

			if (t->busy)
				busy -= collect(c, t);
			else if (more && next < end && !camp_child_begin(&t->child, next, &c->o)) {
				t->busy = 1;
				t->runs = 0;
				next++;
				busy++;
			}
		}
		camp_nap();
	}
	summary(c, camp_now() - began);
}

static void print(const struct campaign *c)
{
	for (uint64_t s = c->from; s < c->from + c->seeds; s++) {
		struct camp_program p;
		struct camp_emit *e;
		char text[512];

		camp_plan(s, &c->o, &p);
		camp_config_text(&p.config, text, sizeof(text));
		printf("seed %llu: %s\n", (unsigned long long)s, text);
		if (!camp_emit_program(&p, stdout, &e))
			camp_emit_free(e);
	}
}

int main(int argc, char **argv)
{
	struct campaign c;
	int option;

	memset(&c, 0, sizeof(c));
	c.from = 1;
	c.seeds = 100;
	c.shrink_s = 60;
	c.repeat = 1;
	c.stop_after = 3;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		if (take_option(&c, option)) {
			usage(stderr);
			return 2;
		}
	if (optind < argc) {
		usage(stderr);
		return 2;
	}
	if (c.o.timeout_s <= 0)
		c.o.timeout_s = c.o.gpu ? GPU_TIMEOUT_S : TIMEOUT_S;
	if (!c.jobs)
		c.jobs = c.o.gpu ? 1 : 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (c.print)
		print(&c);
	else
		run(&c);
	free(c.times);
	return c.found ? 1 : 0;
}
