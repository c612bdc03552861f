/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/whole.c - exchanges with all peers: compares the table with the first guess; fits the
 * model.
 *
 * sweep.c has found settings for each kind of peer alone.  Here they run together, in comparison
 * with the first guess and with one setting for all peers.  If the table is slower for a size, that
 * size gets the first guess back.
 */
#include <stdlib.h>
#include <string.h>

#include "small.h"
#include "tool.h"
#include "util/util.h"

#define WORSE 1.02 /* the table is slower: more than this times the first guess */

static int make_plan(struct tool_job *job, const struct tool_size *s,
		     const struct ori_a2a_setting *m, const struct ori_a2a_setting *q,
		     uint32_t small, struct ori_a2a_plan *plan)
{
	int err = ori_tune_plan(job->comm, s->bytes, plan);

	plan->kind[ORI_PLAN_MAPPED] = *m;
	plan->kind[ORI_PLAN_QUEUED] = *q;
	plan->small = small;
	return err ? err : ori_tune_resident(job->comm, plan);
}

/* Are calls of that size the same with both plans? */
static int plans_alike(const struct tool_job *job, const struct ori_a2a_plan *a,
		       const struct ori_a2a_plan *b, uint64_t bytes)
{
	for (int k = 0; k < ORI_PLAN_KINDS; k++)
		if (job->peers[k] && !tool_alike(&a->kind[k], &b->kind[k], bytes))
			return 0;
	return (a->small >= bytes) == (b->small >= bytes);
}

/* Measures equal plans once: two measurements of one plan would differ by noise. */
static int measure_different(struct tool_job *job, const struct tool_size *s,
			     const struct ori_a2a_plan *plans, int n, struct tool_time *times)
{
	struct ori_a2a_plan different[TOOL_CANDIDATES];
	struct tool_time took[TOOL_CANDIDATES];
	int of[TOOL_CANDIDATES], m = 0, err;

	for (int i = 0; i < n; i++) {
		for (of[i] = 0; of[i] < m; of[i]++)
			if (plans_alike(job, &plans[i], &different[of[i]], s->bytes))
				break;
		if (of[i] == m)
			different[m++] = plans[i];
	}
	err = tool_measure(job, TOOL_ALL, different, m, took);
	for (int i = 0; !err && i < n; i++)
		times[i] = took[of[i]];
	return err;
}

static void judge(struct tool_size *s, const struct tool_time *t)
{
	s->before = t[0];
	s->after = t[1];
	s->one = t[2].us <= t[3].us ? t[2] : t[3];
	s->one_setting = s->best[t[2].us <= t[3].us ? ORI_PLAN_MAPPED : ORI_PLAN_QUEUED];
	s->reverted = t[1].us > WORSE * t[0].us;
	if (!s->reverted)
		return;
	memcpy(s->best, s->first, sizeof(s->best));
	s->small = s->first_small;
	s->after = s->before;
}

int tool_compare(struct tool_job *job, struct tool_size *s)
{
	const struct ori_a2a_setting *m = &s->best[ORI_PLAN_MAPPED], *q = &s->best[ORI_PLAN_QUEUED];
	struct ori_a2a_plan plans[4];
	struct tool_time times[4];
	int err;

	err = make_plan(job, s, &s->first[0], &s->first[1], s->first_small, &plans[0]);
	if (!err)
		err = make_plan(job, s, m, q, s->small, &plans[1]);
	if (!err)
		err = make_plan(job, s, m, m, s->small, &plans[2]);
	if (!err)
		err = make_plan(job, s, q, q, s->small, &plans[3]);
	if (!err)
		err = measure_different(job, s, plans, 4, times);
	if (!err)
		judge(s, times);
	return err;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The part of the shorter time that overlaps with the longer one: the median of all sizes. */
static double median_overlap(const struct tool_job *job)
{
	double v[TOOL_SIZES];
	int n = 0;

	for (int i = 0; i < job->nsizes; i++) {
		const struct tool_size *s = &job->size[i];

		if (s->kind[0].us > 0 && s->kind[1].us > 0)
			v[n++] = ori_tune_overlap(s->kind[0].us, s->kind[1].us, s->after.us);
	}
	if (!n)
		return 0;
	qsort(v, (size_t)n, sizeof(v[0]), by_value);
	return v[n / 2];
}

static void set_rows(struct tool_job *job, int kind)
{
	struct ori_tune_table *t = &job->table;

	for (int i = 0; i < job->nsizes; i++) {
		const struct tool_size *s = &job->size[i];

		t->row[kind][t->rows[kind]++] = (struct ori_tune_row){
			s->bytes,
			(uint32_t)s->best[kind].chunk,
			(uint16_t)s->best[kind].blocks,
			(uint16_t)s->best[kind].warps,
			(float)s->kind[kind].us,
			0,
		};
	}
}

int tool_fit(struct tool_job *job)
{
	struct ori_tune_table *t = &job->table;
	struct ori_a2a_plan guess;
	double small = 0; /* as in tool_sweep(): the largest guess of all ranks */
	int err = ori_tune_plan(job->comm, 1, &guess);

	_Static_assert(TOOL_SIZES <= ORI_TUNE_ROWS, "a row for each size");
	memset(t, 0, sizeof(*t));
	if (!err)
		err = tool_gather(job, guess.small, &small);
	for (int k = 0; !err && k < ORI_PLAN_KINDS; k++) {
		if (!job->npoints[k])
			continue;
		set_rows(job, k);
		err = ori_tune_fit(job->points[k], job->npoints[k], &t->model[k]);
	}
	if (err)
		return err;
	t->overlap = median_overlap(job);
	t->small = tool_small_limit(job->size, job->nsizes, (uint32_t)small);
	t->ways = (struct ori_tune_ways){
		.cells = (uint32_t)job->limit[TOOL_CELLS].bytes,
		.once = (uint32_t)job->limit[TOOL_ONCE].bytes,
		.host_once = (uint32_t)job->limit[TOOL_HOST_ONCE].bytes,
		.long_from = (uint32_t)job->limit[TOOL_LONG].bytes,
	};
	if (ori_tune_table_check(t))
		return ori_fail(ORIEL_EPROTO, "the table that was measured makes no sense");
	return ori_tune_use(job->comm, t);
}
