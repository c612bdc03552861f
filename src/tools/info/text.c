/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/text.c - the report for people: short sections, aligned, at most INFO_COLUMNS columns,
 * readable with 64 ranks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/oriel.h>

#include "../../device/device.h"
#include "../../engine/engine.h"
#include "../../kernels/image.h"
#include "info.h"

#define MATRIX_RANKS_MAX 16
#define CLASSES_MAX 12

/* Pairs of the same kind, for the same reason. */
struct pair_class {
	struct ori_pair pair;
	long count;
	int a, b; /* the first of them */
};

struct pair_classes {
	struct pair_class one[CLASSES_MAX];
	int count;
	long mapped, queued;
	long others; /* pairs with further reasons, which are not kept */
};

static void print_field(const char *name, const char *value)
{
	printf("  %-13s ", name);
	info_wrap(value, 16, 16);
}

static void print_build(const struct info_build *b)
{
	char cuda[INFO_TEXT_MAX];

	snprintf(cuda, sizeof(cuda), "%s; library kernels: %s", b->cuda ? "yes" : "no",
		 ori_kernels_text());
	printf("oriel %s\n\nbuild\n", oriel_version());
	print_field("compiler", b->compiler);
	print_field("architecture", b->arch);
	print_field("sanitizer", b->sanitizer);
	print_field("cuda", cuda);
}

static void print_machine(const struct info_machine *m)
{
	printf("\nmachine\n");
	print_field("host", m->host);
	print_field("cpu", m->cpu);
	printf("  %-13s %d, of which this process may use %d\n", "cores", m->cores,
	       m->cores_usable);
	printf("  %-13s %.1f GiB\n", "memory", (double)m->memory_bytes / (double)(1ull << 30));
	print_field("kernel", m->kernel);
}

static void print_parts(void)
{
	struct ori_device_row device;
	struct ori_engine_row engine;
	int n;

	printf("\ndevices\n");
	for (n = 0; ori_device_row(n, &device); n++)
		print_field(device.name, device.text);
	printf("\nengines\n");
	for (n = 0; ori_engine_row(n, &engine); n++)
		print_field(engine.name, engine.text);
	if (!n)
		print_field("none", "only mapped peers can be reached (ranks of one node)");
}

static void print_problems(const struct info *info)
{
	int kept = info->problems < INFO_PROBLEMS_MAX ? info->problems : INFO_PROBLEMS_MAX;

	if (!info->problems)
		return;
	printf("\nproblems\n");
	for (int i = 0; i < kept; i++) {
		printf("  ");
		info_wrap(info->problem[i], 2, 4);
	}
	if (info->problems > kept)
		printf("  and %d more\n", info->problems - kept);
}

/* ---- topology -------------------------------------------------------------------------------- */

static void print_matrix(const struct ori_topology *t)
{
	printf("\n       ");
	for (int b = 0; b < t->nranks; b++)
		printf(" %2d", b);
	printf("\n");
	for (int a = 0; a < t->nranks; a++) {
		printf("  %4d ", a);
		for (int b = 0; b < t->nranks; b++)
			printf("  %c", a == b ? '.' : t->node[a] == t->node[b] ? 'M' : 'Q');
		printf("\n");
	}
	printf("\n  . self   M mapped: load and store   Q queued: needs an engine\n");
}

/* "0-3, 8": the ranks of a node. */
static void put_members(FILE *to, const struct ori_topology *t, int node)
{
	const char *comma = "";

	for (int r = 0; r < t->nranks; r++) {
		int last = r;

		if (t->node[r] != node)
			continue;
		while (last + 1 < t->nranks && t->node[last + 1] == node)
			last++;
		fprintf(to, last > r ? "%s%d-%d" : "%s%d", comma, r, last);
		comma = ", ";
		r = last;
	}
}

/* A node may span hosts on a fabric: prints the first host and how many ranks are on others. */
static void print_node(const struct info_job *job, int node)
{
	const struct ori_topology *t = &job->topology;
	int first = 0, elsewhere = 0;
	char *line = NULL;
	size_t bytes;
	FILE *to = open_memstream(&line, &bytes);

	while (t->node[first] != node)
		first++;
	for (int r = first; r < t->nranks; r++)
		elsewhere += t->node[r] == node &&
			     job->facts[r].host_id != job->facts[first].host_id;
	printf("  node %-3d %s ", node, t->node_size[first] > 1 ? "ranks" : "rank ");
	if (to) {
		put_members(to, t, node);
		fprintf(to, " on %s", job->facts[first].host);
		if (elsewhere)
			fprintf(to, " and %d on other hosts", elsewhere);
	}
	if (to && !fclose(to))
		info_wrap(line, 17, 17);
	else
		printf("(out of memory)\n");
	free(line);
}

static void count_pair(struct pair_classes *classes, const struct ori_pair *p, int a, int b)
{
	struct pair_class *c;

	*(p->kind == ORIEL_PEER_MAPPED ? &classes->mapped : &classes->queued) += 1;
	for (int i = 0; i < classes->count; i++) {
		c = &classes->one[i];
		if (c->pair.kind == p->kind && !strcmp(c->pair.reason, p->reason)) {
			c->count++;
			return;
		}
	}
	if (classes->count == CLASSES_MAX) {
		classes->others++;
		return;
	}
	c = &classes->one[classes->count++];
	*c = (struct pair_class){ .pair = *p, .count = 1, .a = a, .b = b };
}

static void print_classes(const struct info_job *job)
{
	struct pair_classes classes = { .count = 0 };
	struct ori_pair p;

	for (int a = 0; a < job->nranks; a++)
		for (int b = a + 1; b < job->nranks; b++)
			if (!ori_classify_pair(job->facts, &job->topology, a, b, &p))
				count_pair(&classes, &p, a, b);
	printf("\n  %ld pairs mapped, %ld queued\n", classes.mapped, classes.queued);
	for (int i = 0; i < classes.count; i++) {
		struct pair_class *c = &classes.one[i];
		char text[sizeof(c->pair.reason) + 48];

		printf("  %7ld %s  ", c->count,
		       c->pair.kind == ORIEL_PEER_MAPPED ? "mapped" : "queued");
		snprintf(text, sizeof(text),
			 c->count > 1 ? "%s (%d and %d, ...)" : "%s (%d and %d)", c->pair.reason,
			 c->a, c->b);
		info_wrap(text, 18, 18);
	}
	if (classes.others)
		printf("  %7ld with other reasons; --json shows every pair\n", classes.others);
}

static void print_topology(const struct info_job *job)
{
	if (!job->present) {
		printf("\ntopology\n  run under a launcher to see it: oriel-run -n 4 oriel-info\n");
		return;
	}
	if (!job->facts) {
		printf("\ntopology\n  not known: ");
		info_wrap(job->error, 13, 13);
		return;
	}
	printf("\ntopology (%d %s, %d %s)\n", job->nranks, job->nranks == 1 ? "rank" : "ranks",
	       job->topology.nnodes, job->topology.nnodes == 1 ? "node" : "nodes");
	if (job->nranks <= MATRIX_RANKS_MAX)
		print_matrix(&job->topology);
	printf("\n");
	for (int n = 0; n < job->topology.nnodes; n++)
		print_node(job, n);
	if (job->nranks > 1)
		print_classes(job);
}

void info_print_text(const struct info *info, int all)
{
	print_build(&info->build);
	print_machine(&info->machine);
	print_parts();
	info_print_variables(all);
	print_problems(info);
	print_topology(&info->job);
}
