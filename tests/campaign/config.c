/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/config.c - the configuration in which the program of a seed runs.
 *
 * Draws ranks, device, topology, NIC and faults from the seed, applies --set, and writes the result
 * into the environment of the process that runs the seed.  Personalities of the software NIC come
 * from the library's own table of variables.  So a new one is drawn as soon as its help names it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "campaign.h"
#include "engine/soft/nic.h"
#include "fake_cuda/fake_cuda.h"
#include "util/config.h"
#include "util/util.h"

#pragma weak fake_cuda_knobs

#define NICS_MAX 16
#define PROCESSES_EVERY 20

/* ---- personalities --------------------------------------------------------------------------- */

struct personalities {
	int n;
	char name[NICS_MAX][24];
};

/* Reads the names behind the colon: "NIC that ... imitates: soft, cx7, efa, thor2". */
static void find_personalities(struct personalities *p)
{
	struct ori_config_row row;
	const char *at = NULL;

	p->n = 0;
	for (int i = 0; ori_config_row(i, &row); i++)
		if (!strcmp(row.name, "ORIEL_SOFT_NIC"))
			at = strchr(row.help, ':');
	while (at && *at && p->n < NICS_MAX) {
		size_t n;

		at += strspn(at, ": ,");
		n = strcspn(at, " ,;");
		if (n && n < sizeof(p->name[0])) {
			memcpy(p->name[p->n], at, n);
			p->name[p->n++][n] = 0;
		}
		at += n;
	}
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_topology(struct camp_config *c, struct camp_random *r)
{
	int n = c->ranks, how = camp_below(r, 8);

	c->topology[0] = 0;
	if (how <= 1)
		return;
	if (how <= 4)
		snprintf(c->topology, sizeof(c->topology), "%dx1", n);
	else if (how == 5 && n % 2 == 0)
		snprintf(c->topology, sizeof(c->topology), "%dx2", n / 2);
	else if (n % 2 == 0)
		snprintf(c->topology, sizeof(c->topology), "2x%d", n / 2);
	else
		for (int i = 0; i < n; i++)
			snprintf(c->topology + 2 * i, sizeof(c->topology) - 2 * (size_t)i, "%d%s",
				 i % 3 == 2, i + 1 < n ? "," : "");
}

static void add_fault(struct camp_config *c, const char *key, const char *value)
{
	size_t used = strlen(c->faults);

	snprintf(c->faults + used, sizeof(c->faults) - used, ",%s=%s", key, value);
}

/* Faults that a program does not see: all of them are repaired by the NIC's protocol. */
static void draw_faults(struct camp_config *c, struct camp_random *r)
{
	static const char *const chances[] = { "drop",  "dup",      "reorder",
					       "delay", "dbr_late", "torn_cqe" };
	static const char *const values[] = { "0.005", "0.02", "0.1" };
	/* the first two are for the CPU: a packet of device memory is a copy by the driver */
	static const char *const mtus[] = { "64", "256", "1024", "4096" };
	static const char *const records[] = { "doorbell", "record", "random" };
	char seed[24];

	c->faults[0] = 0;
	if (!camp_chance(r, 50))
		return;
	snprintf(c->faults, sizeof(c->faults), "seed=%d", 1 + camp_below(r, 1000000));
	for (int i = 0; i < (int)ORI_COUNT(chances); i++)
		if (camp_chance(r, 30))
			add_fault(c, chances[i], values[camp_below(r, i ? 3 : 2)]);
	if (camp_chance(r, 40))
		add_fault(c, "mtu",
			  mtus[c->device == CAMP_CPU ? camp_below(r, 4) : 2 + camp_below(r, 2)]);
	if (camp_chance(r, 25))
		add_fault(c, "dbr", records[camp_below(r, 3)]);
	if (camp_chance(r, 25))
		add_fault(c, "max_reads", camp_chance(r, 50) ? "1" : "4");
	snprintf(seed, sizeof(seed), "%d", 0xfffff0 + camp_below(r, 15));
	if (camp_chance(r, 25))
		add_fault(c, "first_psn", seed);
}

static void add_knob(struct camp_config *c, const char *knob, int value)
{
	size_t used = strlen(c->fake);

	snprintf(c->fake + used, sizeof(c->fake) - used, ",%s%d", knob, value);
}

static void draw_device(struct camp_config *c, struct camp_random *r, int gpu)
{
	int how = camp_below(r, 100), slow = 100 << camp_below(r, 5);

	c->device = gpu ? CAMP_GPU : how < 50 || (how >= 82 && how < 92) ? CAMP_CPU : CAMP_FAKE;
	c->mlx5 = !gpu && how >= 82;
	c->streams = c->device == CAMP_CPU ? 1 : 1 + camp_below(r, CAMP_STREAMS);
	c->threads = 1 + camp_chance(r, 30) * (1 + camp_below(r, 3));
	if (gpu)
		c->threads = 1 << camp_below(r, 8);
	if (c->device != CAMP_FAKE)
		return;
	snprintf(c->fake, sizeof(c->fake), "threads=2,sms=16%s", c->mlx5 ? ",guard=0" : "");
	if (camp_chance(r, 50))
		add_knob(c, "slow=cuLaunchKernel:", slow);
	if (camp_chance(r, 15))
		add_knob(c, "slow=cuMemcpyAsync:", 20 + slow / 16);
	if (camp_chance(r, 20))
		add_knob(c, "gpus=", 2);
	if (camp_chance(r, 10))
		add_knob(c, "mps=", 0);
}

static void draw_nic(struct camp_config *c, struct camp_random *r)
{
	static const int depths[] = { 128, 128, 64, 16, 8, 4 };
	struct personalities p;

	find_personalities(&p);
	snprintf(c->nic, sizeof(c->nic), "%s",
		 p.n && camp_chance(r, 50) ? p.name[camp_below(r, p.n)] : "soft");
	draw_faults(c, r);
	c->lanes = camp_chance(r, 50) ? 1 : 1 + camp_below(r, 4);
	c->nics = 1 + camp_chance(r, 40);
	if (c->nics > 1 && camp_chance(r, 80))
		c->lanes = 2 + camp_below(r, 3); /* lanes take the NICs in turn */
	c->depth = depths[camp_below(r, (int)ORI_COUNT(depths))];
	c->wrap = camp_chance(r, 20) && !c->mlx5; /* queues of a NIC begin at 0 */
	if (camp_chance(r, 50))
		snprintf(c->a2a, sizeof(c->a2a), "mapped=%d/1/%d,queued=%d/1/%d,small=%d",
			 1 + camp_below(r, 3), 64 << camp_below(r, 6), 1 + camp_below(r, 3),
			 64 << camp_below(r, 6), camp_chance(r, 50) * 256);
}

/* What the NIC cannot do, as the library will find it. */
static void learn_limits(struct camp_config *c)
{
	struct soft_config soft;

	/*
	 * an mlx5 NIC may sit on a fabric that routes adaptively: the engine never promises order
	 */
	c->unordered = c->mlx5;
	c->no_atomics = 0;
	if (soft_config_personality(&soft, c->nic) || soft_config_faults(&soft, c->faults))
		return;
	/* an mlx5 NIC is neither; the stub's wires carry packets of the size that its NICs have */
	if (c->mlx5 && (soft.ooo || soft.no_atomics || soft.mtu > 4096)) {
		snprintf(c->nic, sizeof(c->nic), "cx7");
		return;
	}
	c->unordered |= soft.ooo || soft.overtake;
	c->no_atomics = soft.no_atomics;
}

/*
 * A GPU feeds 32 streams of a process at once, and those beyond wait behind others: thread ranks
 * have one of their own each beside those of the program, and the library some for copies.
 */
static void fit_streams(struct camp_config *c)
{
	int most = 24 / c->ranks - 1;

	if (c->device == CAMP_GPU && c->streams > most)
		c->streams = most;
}

void camp_configure(uint64_t seed, const struct camp_options *o, struct camp_config *c)
{
	static const int ranks[] = { 2, 2, 2, 3, 3, 4, 4, 5, 6, 8 };
	struct camp_random r = { seed * 0x2545f4914f6cdd1dull + 17 };

	memset(c, 0, sizeof(*c));
	c->ranks = ranks[camp_below(&r, (int)ORI_COUNT(ranks))];
	c->processes = seed % PROCESSES_EVERY == PROCESSES_EVERY - 1;
	draw_device(c, &r, o->gpu);
	draw_topology(c, &r);
	draw_nic(c, &r);
	if (camp_config_set(c, o->set))
		exit(2);
	fit_streams(c);
#ifndef CAMP_MLX5_STUB
	c->mlx5 = 0;
#endif
	learn_limits(c);
}

/* ---- what the user changes ------------------------------------------------------------------- */

static int set_number(const char *value, int min, int max, int *out)
{
	char *end;
	long n = strtol(value, &end, 10);

	if (*end || end == value || n < min || n > max)
		return -1;
	*out = (int)n;
	return 0;
}

/* In a text, + stands for the comma that separates pairs; "none" is the empty text. */
static int set_text(const char *value, char *out, size_t bytes)
{
	if (strlen(value) >= bytes)
		return -1;
	snprintf(out, bytes, "%s", strcmp(value, "none") ? value : "");
	for (char *at = out; *at; at++)
		if (*at == '+')
			*at = ',';
	return 0;
}

static int set_device(const char *value, struct camp_config *c)
{
	c->mlx5 = strstr(value, "mlx5") != NULL;
	if (!strncmp(value, "cpu", 3))
		c->device = CAMP_CPU;
	else if (!strncmp(value, "fake", 4))
		c->device = CAMP_FAKE;
	else if (!strcmp(value, "gpu"))
		c->device = CAMP_GPU;
	else
		return -1;
	if (c->device == CAMP_CPU)
		c->streams = 1;
	if (c->device == CAMP_FAKE && !c->fake[0])
		snprintf(c->fake, sizeof(c->fake), "threads=2,sms=16%s", c->mlx5 ? ",guard=0" : "");
	return 0;
}

static int set_one(struct camp_config *c, const char *key, const char *value)
{
	if (!strcmp(key, "ranks")) {
		if (strcmp(value, "2") && c->topology[0] && !strstr(c->topology, "x1"))
			c->topology[0] = 0;
		return set_number(value, 2, CAMP_RANKS, &c->ranks);
	}
	if (!strcmp(key, "processes"))
		return set_number(value, 0, 1, &c->processes);
	if (!strcmp(key, "lanes"))
		return set_number(value, 1, 16, &c->lanes);
	if (!strcmp(key, "nics"))
		return set_number(value, 1, 2, &c->nics);
	if (!strcmp(key, "depth"))
		return set_number(value, 2, 32768, &c->depth);
	if (!strcmp(key, "threads"))
		return set_number(value, 1, 512, &c->threads);
	if (!strcmp(key, "streams"))
		return set_number(value, 1, CAMP_STREAMS, &c->streams);
	if (!strcmp(key, "wrap"))
		return set_number(value, 0, 1, &c->wrap);
	if (!strcmp(key, "a2a"))
		return set_text(value, c->a2a, sizeof(c->a2a));
	if (!strcmp(key, "device"))
		return set_device(value, c);
	if (!strcmp(key, "topology"))
		return set_text(value, c->topology, sizeof(c->topology));
	if (!strcmp(key, "nic"))
		return set_text(value, c->nic, sizeof(c->nic));
	if (!strcmp(key, "faults"))
		return set_text(value, c->faults, sizeof(c->faults));
	if (!strcmp(key, "fake"))
		return set_text(value, c->fake, sizeof(c->fake));
	return -1;
}

/* A topology that was drawn for another number of ranks becomes one that fits. */
static void fit_topology(struct camp_config *c)
{
	int a, b, commas = 0;

	if (!c->topology[0])
		return;
	for (const char *at = c->topology; *at; at++)
		commas += *at == ',';
	if (sscanf(c->topology, "%dx%d", &a, &b) == 2 ? a * b == c->ranks : commas + 1 == c->ranks)
		return;
	snprintf(c->topology, sizeof(c->topology), "%dx1", c->ranks);
}

int camp_config_set(struct camp_config *c, const char *set)
{
	char copy[512], *rest = copy, *pair;

	snprintf(copy, sizeof(copy), "%s", set);
	while ((pair = strsep(&rest, ","))) {
		char *value = strchr(pair, '=');

		if (!*pair)
			continue;
		if (value)
			*value++ = 0;
		if (!value || set_one(c, pair, value)) {
			fprintf(stderr, "campaign: --set %s: no such key, or not its value\n",
				pair);
			return -1;
		}
	}
	fit_topology(c);
	return 0;
}

/* ---- the environment ------------------------------------------------------------------------- */

typedef void variable_fn(void *ctx, const char *name, const char *value);

static void each_variable(const struct camp_config *c, variable_fn *fn, void *ctx)
{
	char text[32];

	fn(ctx, "ORIEL_DEVICE", c->device == CAMP_CPU ? "cpu" : "cuda");
	if (c->topology[0])
		fn(ctx, "ORIEL_TOPOLOGY", c->topology);
	snprintf(text, sizeof(text), "%d", c->lanes);
	fn(ctx, "ORIEL_LANES", text);
	snprintf(text, sizeof(text), "%d", c->nics);
	fn(ctx, "ORIEL_NICS", text);
	snprintf(text, sizeof(text), "%d", c->depth);
	fn(ctx, "ORIEL_QUEUE_DEPTH", text);
	if (c->wrap) /* indices of 16 bits go round soon */
		fn(ctx, "ORIEL_QUEUE_START", "65520");
	if (c->a2a[0])
		fn(ctx, "ORIEL_A2A_PLAN", c->a2a);
	if (c->device == CAMP_FAKE)
		fn(ctx, "ORIEL_FAKE_CUDA", c->fake);
#ifdef CAMP_MLX5_STUB
	if (c->mlx5) {
		snprintf(text, sizeof(text), "/dev/shm/oriel-camp-%d", (int)getpid());
		fn(ctx, "ORIEL_ENGINE", "mlx5");
		fn(ctx, "ORIEL_IB_LIBRARY", CAMP_MLX5_STUB);
		fn(ctx, "ORIEL_MLX5_LIBRARY", CAMP_MLX5_STUB);
		fn(ctx, "MLX5_STUB_WIRE", text);
	}
#endif
	if (!c->mlx5)
		fn(ctx, "ORIEL_ENGINE", "soft");
	fn(ctx, "ORIEL_SOFT_NIC", c->nic);
	if (c->faults[0])
		fn(ctx, "ORIEL_SOFT_FAULTS", c->faults);
}

/* The fake driver reads its variable when a program begins, and takes it away from the library. */
static void set_variable(void *ctx, const char *name, const char *value)
{
	(void)ctx;
	if (strcmp(name, "ORIEL_FAKE_CUDA"))
		setenv(name, value, 1);
	else if (fake_cuda_knobs)
		fake_cuda_knobs(value);
}

void camp_config_apply(const struct camp_config *c, double timeout_s)
{
	static const char *const ours[] = { "ORIEL_TOPOLOGY", "ORIEL_SOFT_FAULTS", "ORIEL_A2A_PLAN",
					    "ORIEL_QUEUE_START" };
	char text[32];

	for (size_t i = 0; i < ORI_COUNT(ours); i++)
		unsetenv(ours[i]);
	snprintf(text, sizeof(text), "%g", timeout_s);
	setenv("ORIEL_TIMEOUT", text, 1);
	setenv("ORIEL_LATE", text, 1);
	setenv("ORIEL_TUNE_FILE", "none", 1);
	each_variable(c, set_variable, NULL);
}

struct text {
	char *at;
	size_t left;
};

static void add_variable(void *ctx, const char *name, const char *value)
{
	struct text *t = ctx;
	int n = snprintf(t->at, t->left, " %s=%s", name, value);

	if (n > 0 && (size_t)n < t->left) {
		t->at += n;
		t->left -= (size_t)n;
	}
}

void camp_config_text(const struct camp_config *c, char *out, size_t bytes)
{
	int n = snprintf(out, bytes,
			 "%d ranks as %s, blocks of up to %d threads, %d streams:", c->ranks,
			 c->processes ? "processes" : "threads", c->threads, c->streams);
	struct text t = { out + n, bytes - (size_t)n };

	each_variable(c, add_variable, &t);
}

void camp_config_nodes(const struct camp_config *c, int *node)
{
	int a, b, i = 0;

	memset(node, 0, CAMP_RANKS * sizeof(*node));
	if (!c->topology[0])
		return;
	if (sscanf(c->topology, "%dx%d", &a, &b) == 2) {
		for (i = 0; i < c->ranks; i++)
			node[i] = i / b;
		return;
	}
	for (const char *at = c->topology; *at && i < c->ranks;
	     at += strcspn(at, ","), at += *at == ',')
		node[i++] = atoi(at);
}

void camp_config_name(const struct camp_config *c, char *out, size_t bytes)
{
	int node[CAMP_RANKS], pairs = 0, queued = 0;

	camp_config_nodes(c, node);
	for (int i = 0; i < c->ranks; i++)
		for (int k = 0; k < i; k++) {
			pairs++;
			queued += node[i] != node[k];
		}
	snprintf(out, bytes, "%s%s %s%s",
		 c->device == CAMP_CPU  ? "cpu" :
		 c->device == CAMP_FAKE ? "fake cuda" :
					  "gpu",
		 c->mlx5 ? " mlx5" : "",
		 !queued         ? "mapped" :
		 queued == pairs ? "queued" :
				   "mixed",
		 c->processes ? ", processes" : "");
}
