/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/plan.c - chooses the steps of a seed's program.
 *
 * The seed of a step depends only on its number, so a step stays the same if other steps are left
 * out.
 */
#include <string.h>

#include "campaign.h"

static const struct {
	const char *name;
	int weight;
} kinds[CAMP_KINDS] = {
#define CAMP_KIND(name, text, weight) { text, weight },
	CAMP_KIND_LIST(CAMP_KIND)
#undef CAMP_KIND
};

const char *camp_kind_name(int kind)
{
	return kinds[kind].name;
}

int camp_is_without(const struct camp_options *o, const char *name)
{
	const char *at = o->without;
	size_t n = strlen(name);

	while (*at) {
		size_t chars = strcspn(at, ",");

		if (chars == n && !memcmp(at, name, n))
			return 1;
		at += chars + (at[chars] == ',');
	}
	return 0;
}

static int draw_kind(struct camp_random *r)
{
	int all = 0, at;

	for (int k = 0; k < CAMP_KINDS; k++)
		all += kinds[k].weight;
	at = camp_below(r, all);
	for (int k = 0; k < CAMP_KINDS; k++) {
		at -= kinds[k].weight;
		if (at < 0)
			return k;
	}
	return 0;
}

/*
 * Graphs are a CUDA device's.  Thread ranks of a GPU leave out what calls the driver beside Oriel:
 * a call that frees memory or makes a graph waits for kernels of all ranks, which may wait for this
 * one (README).
 */
static int fits(const struct camp_config *c, int kind)
{
	if (camp_driver_waits(c) && kind == CAMP_STEP_REUSE)
		return 0;
	return kind != CAMP_STEP_GRAPH || (c->device != CAMP_CPU && !camp_driver_waits(c));
}

void camp_plan(uint64_t seed, const struct camp_options *o, struct camp_program *p)
{
	struct camp_random r = { seed * 0xd1342543de82ef95ull + 5 };
	int many = camp_chance(&r, 15);

	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->options = o;
	camp_configure(seed, o, &p->config);
	p->nsteps = many ? 12 + camp_below(&r, 20) : 3 + camp_below(&r, 9);
	for (int i = 0; i < p->nsteps; i++) {
		struct camp_step *s = &p->steps[i];

		s->kind = draw_kind(&r);
		s->seed = camp_next(&r);
		/* memory of a rank that another process has mapped: threads see it anyway */
		if (i == 0 && p->config.processes && p->config.device != CAMP_CPU)
			s->kind = CAMP_STEP_REUSE;
		s->kept = fits(&p->config, s->kind) && !camp_is_without(o, kinds[s->kind].name) &&
			  (!o->keeps || (o->keep[i / 64] >> (i % 64) & 1));
	}
}
