/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/text.c - plans and sizes as text: ORIEL_A2A_PLAN, and the output of --explain.
 *
 * Pure functions, any thread.  Called by: agree.c, oriel-tune, tests.
 */
#include <stdio.h>
#include <string.h>

#include "../../util/util.h"
#include "tune.h"

/*
 * Reads digits and at most one of K, M, G.  Returns 0 and advances *at if the number is at most
 * `most`.
 */
static int take(const char **at, uint64_t most, uint64_t *out)
{
	static const char units[] = "KMG";
	const char *start = *at, *unit;
	uint64_t value = 0;

	for (; **at >= '0' && **at <= '9'; (*at)++) {
		value = value * 10 + (uint64_t)(**at - '0');
		if (value > most)
			return -1;
	}
	if (*at == start)
		return -1;
	unit = **at ? strchr(units, **at) : NULL;
	for (const char *u = units; unit && u <= unit; u++)
		value *= 1024; /* most is far below 2^64 / 2^30 */
	*at += unit != NULL;
	*out = value;
	return value <= most ? 0 : -1;
}

int ori_tune_setting_fits(const struct ori_a2a_setting *s)
{
	return s->blocks >= 1 && s->blocks <= ORI_TUNE_BLOCKS_MAX && s->warps >= 1 &&
	       s->warps <= ORI_TUNE_WARPS_MAX && s->chunk >= 16 && s->chunk % 16 == 0 &&
	       s->chunk <= ORI_TUNE_CHUNK_MAX;
}

static int take_setting(const char **at, struct ori_a2a_setting *s)
{
	uint64_t blocks, warps, chunk;

	if (take(at, ORI_TUNE_BLOCKS_MAX, &blocks) || *(*at)++ != '/' ||
	    take(at, ORI_TUNE_WARPS_MAX, &warps) || *(*at)++ != '/' ||
	    take(at, ORI_TUNE_CHUNK_MAX, &chunk))
		return -1;
	*s = (struct ori_a2a_setting){ (uint32_t)blocks, (uint32_t)warps, chunk };
	return ori_tune_setting_fits(s) ? 0 : -1;
}

static int starts(const char **at, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*at, word, n) != 0)
		return 0;
	*at += n;
	return 1;
}

static int take_part(const char **at, struct ori_a2a_plan *plan, uint32_t *named)
{
	uint64_t bytes;

	if (starts(at, "mapped=")) {
		*named |= 1u << ORI_PLAN_MAPPED;
		return take_setting(at, &plan->kind[ORI_PLAN_MAPPED]);
	}
	if (starts(at, "queued=")) {
		*named |= 1u << ORI_PLAN_QUEUED;
		return take_setting(at, &plan->kind[ORI_PLAN_QUEUED]);
	}
	if (starts(at, "spread=")) {
		*named |= ORI_PLAN_HAS_SPREAD;
		if (take(at, 1u << 30, &bytes))
			return -1;
		plan->spread = (uint32_t)bytes;
		return 0;
	}
	if (!starts(at, "small=") || take(at, 1u << 20, &bytes))
		return -1;
	*named |= ORI_PLAN_HAS_SMALL;
	plan->small = (uint32_t)bytes;
	return 0;
}

int ori_plan_parse(const char *text, struct ori_a2a_plan *plan, uint32_t *named)
{
	struct ori_a2a_plan p = *plan;
	const char *at = text;
	uint32_t has = 0;
	int bad = take_part(&at, &p, &has);

	while (!bad && *at == ',') {
		at++;
		bad = take_part(&at, &p, &has);
	}
	if (bad || *at)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_A2A_PLAN=%.100s: must be tables, proposal, or parts such as "
				"mapped=8/16/64K,queued=1/4/256K,small=1K,spread=256K (blocks 1 to %d, warps 1 "
				"to %d, a chunk that is a multiple of 16)",
				text, ORI_TUNE_BLOCKS_MAX, ORI_TUNE_WARPS_MAX);
	*plan = p;
	*named = has;
	return 0;
}

void ori_bytes_text(uint64_t bytes, char *text, size_t room)
{
	static const char *const units[] = { "", "K", "M", "G" };
	size_t u = 0;

	while (bytes && bytes % 1024 == 0 && u + 1 < ORI_COUNT(units)) {
		bytes /= 1024;
		u++;
	}
	snprintf(text, room, "%llu%s", (unsigned long long)bytes, units[u]);
}

void ori_plan_text(const struct ori_a2a_plan *plan, char *text, size_t bytes)
{
	char chunk[ORI_PLAN_KINDS][24], small[24], spread[24];
	const struct ori_a2a_setting *m = &plan->kind[ORI_PLAN_MAPPED];
	const struct ori_a2a_setting *q = &plan->kind[ORI_PLAN_QUEUED];

	ori_bytes_text(m->chunk, chunk[0], sizeof(chunk[0]));
	ori_bytes_text(q->chunk, chunk[1], sizeof(chunk[1]));
	ori_bytes_text(plan->small, small, sizeof(small));
	ori_bytes_text(plan->spread, spread, sizeof(spread));
	if (plan->uniform)
		snprintf(text, bytes, "mapped=%u/%u/%s,small=%s%s%s", m->blocks, m->warps, chunk[0],
			 small, plan->spread ? ",spread=" : "", plan->spread ? spread : "");
	else
		snprintf(text, bytes, "mapped=%u/%u/%s,queued=%u/%u/%s,small=%s", m->blocks,
			 m->warps, chunk[0], q->blocks, q->warps, chunk[1], small);
}
