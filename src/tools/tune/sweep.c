/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/sweep.c - searches the best blocks, warps and chunk for one kind of peer and size.
 *
 * With --quick it starts at the first guess and changes one value after the other: chunk, blocks,
 * warps.  Otherwise it measures all combinations.  A setting replaces the current one only if it is
 * clearly faster, so that noise changes nothing.
 */
#include <string.h>

#include "small.h"
#include "tool.h"

#define INBOX_BYTES 8192u /* longest message that can have its own mark */

static const uint32_t gpu_blocks[] = { 1, 2, 4, 8, 16, 32 }, gpu_warps[] = { 4, 8, 16 };
static const uint32_t cpu_blocks[] = { 1, 2, 4 }, cpu_warps[] = { 1, 2 };
static const uint64_t chunks[] = { 16u << 10,  64u << 10,  128u << 10,
				   256u << 10, 512u << 10, 1u << 20 };

enum axis { CHUNK, BLOCKS, WARPS, AXES };

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Sets the n-th value of an axis in *s.  Returns 0 if there are fewer values. */
static int set_axis(const struct tool_job *job, enum axis axis, int n, struct ori_a2a_setting *s)
{
	int cpu = job->cores > 0;

	switch (axis) {
	case CHUNK:
		if (n >= COUNT(chunks))
			return 0;
		s->chunk = chunks[n];
		return 1;
	case BLOCKS:
		if (n >= (cpu ? COUNT(cpu_blocks) : COUNT(gpu_blocks)))
			return 0;
		s->blocks = cpu ? cpu_blocks[n] : gpu_blocks[n];
		return 1;
	default:
		if (n >= (cpu ? COUNT(cpu_warps) : COUNT(gpu_warps)))
			return 0;
		s->warps = cpu ? cpu_warps[n] : gpu_warps[n];
		return 1;
	}
}

int tool_alike(const struct ori_a2a_setting *a, const struct ori_a2a_setting *b, uint64_t bytes)
{
	uint64_t ca = a->chunk < bytes ? a->chunk : bytes, cb = b->chunk < bytes ? b->chunk : bytes;

	return a->blocks == b->blocks && a->warps == b->warps && ca == cb;
}

/*
 * Changes the setting to what the device really uses: a GPU uses fewer warps, larger chunks or
 * fewer blocks than some settings say.  So settings that have the same effect are measured once.
 */
static void make_used(struct tool_job *job, uint64_t bytes, int kind, struct ori_a2a_setting *s)
{
	struct ori_a2a_plan plan;

	if (ori_tune_plan(job->comm, bytes, &plan))
		return; /* contest() gets the same error and returns it */
	plan.kind[kind] = *s;
	if (!ori_tune_resident(job->comm, &plan))
		*s = plan.kind[kind];
}

static int add(struct tool_job *job, int kind, struct ori_a2a_setting *list, int n,
	       const struct ori_a2a_setting *s, uint64_t bytes)
{
	struct ori_a2a_setting used = *s;

	make_used(job, bytes, kind, &used);
	for (int i = 0; i < n; i++)
		if (tool_alike(&list[i], &used, bytes))
			return n;
	if (n < TOOL_CANDIDATES)
		list[n++] = used;
	return n;
}

static void note_points(struct tool_job *job, int kind, uint64_t bytes,
			const struct ori_a2a_setting *list, const struct tool_time *times, int n)
{
	for (int i = 0; i < n && job->npoints[kind] < TOOL_POINTS; i++)
		job->points[kind][job->npoints[kind]++] = (struct ori_tune_point){
			(double)bytes * job->peers[kind], list[i].blocks, times[i].us
		};
}

/*
 * Measures the settings of the list; list[0] is the current one.  *best: the fastest, if it is
 * clearly faster than list[0]; otherwise list[0].  *gain: time of list[0] / time of *best.
 */
static int contest(struct tool_job *job, struct tool_size *s, int kind,
		   const struct ori_a2a_setting *list, int n, struct ori_a2a_setting *best,
		   double *gain)
{
	struct ori_a2a_plan plans[TOOL_CANDIDATES];
	struct tool_time times[TOOL_CANDIDATES];
	int first = 0, err = 0;

	memset(plans, 0, sizeof(plans));
	for (int i = 0; !err && i < n; i++) {
		err = ori_tune_plan(job->comm, s->bytes, &plans[i]);
		plans[i].small = s->first_small;
		plans[i].kind[kind] = list[i];
		if (!err)
			err = ori_tune_resident(job->comm, &plans[i]);
	}
	if (!err)
		err = tool_measure(job, kind, plans, n, times);
	if (err)
		return err;
	for (int i = 1; i < n; i++)
		if (times[i].us < times[first].us)
			first = i;
	if (first && times[first].us > TOOL_FASTER * times[0].us)
		first = 0;
	note_points(job, kind, s->bytes, list, times, n);
	*best = list[first];
	*gain = times[first].us > 0 ? times[0].us / times[first].us : 1;
	s->kind[kind] = times[first];
	return 0;
}

static int walk(struct tool_job *job, struct tool_size *s, int kind)
{
	struct ori_a2a_setting list[TOOL_CANDIDATES], at = s->first[kind], next;
	double gain;
	int err = 0;

	for (int axis = CHUNK; !err && axis < AXES; axis++) {
		int n = 0;

		n = add(job, kind, list, n, &at, s->bytes);
		next = at;
		for (int i = 0; set_axis(job, (enum axis)axis, i, &next); i++)
			n = add(job, kind, list, n, &next, s->bytes);
		/* the first axis is always measured: it gives the times of this size */
		if (axis == CHUNK || (n > 1 && job->elapsed_s < job->limit_s))
			err = contest(job, s, kind, list, n, &at, &gain);
	}
	s->best[kind] = at;
	return err;
}

/* Measures all settings, in several contests.  The winner of one takes part in the next. */
static int search_grid(struct tool_job *job, struct tool_size *s, int kind)
{
	struct ori_a2a_setting list[TOOL_CANDIDATES], at = s->first[kind], x = at;
	double gain;
	int n = add(job, kind, list, 0, &at, s->bytes), err = 0;

	for (int b = 0; set_axis(job, BLOCKS, b, &x); b++)
		for (int w = 0; set_axis(job, WARPS, w, &x); w++)
			for (int c = 0; !err && set_axis(job, CHUNK, c, &x); c++) {
				n = add(job, kind, list, n, &x, s->bytes);
				if (n < TOOL_CANDIDATES)
					continue;
				err = contest(job, s, kind, list, n, &at, &gain);
				n = add(job, kind, list, 0, &at, s->bytes);
			}
	if (!err)
		err = contest(job, s, kind, list, n, &at, &gain);
	s->best[kind] = at;
	return err;
}

/* Measures the best setting and the first guess again, in case the best one won by chance. */
static int confirm(struct tool_job *job, struct tool_size *s, int kind)
{
	struct ori_a2a_setting list[2] = { s->first[kind], s->best[kind] };

	if (tool_alike(&list[0], &list[1], s->bytes))
		return 0;
	return contest(job, s, kind, list, 2, &s->best[kind], &s->gain[kind]);
}

/* Compares messages that contain their mark with messages whose mark follows separately. */
static int try_small(struct tool_job *job, struct tool_size *s)
{
	struct ori_a2a_plan plans[2];
	struct tool_time times[2];
	int err;

	s->small = s->first_small;
	if (s->bytes > INBOX_BYTES)
		return 0;
	for (int i = 0; i < 2; i++) {
		err = ori_tune_plan(job->comm, s->bytes, &plans[i]);
		if (err)
			return err;
		for (int k = 0; k < ORI_PLAN_KINDS; k++)
			plans[i].kind[k] = s->best[k];
		plans[i].small = i ? (uint32_t)s->bytes : 0;
	}
	err = tool_measure(job, TOOL_ALL, plans, 2, times);
	if (!err)
		tool_small_choose(s, times[0].us, times[1].us);
	return err;
}

int tool_sweep(struct tool_job *job, struct tool_size *s)
{
	struct ori_a2a_plan plan;
	double marked = 0;
	int err = ori_tune_plan(job->comm, s->bytes, &plan);

	/*
	 * The first guess depends on the cores of a rank.  If one rank guesses marks, all do:
	 * otherwise they would not measure the same plans.
	 */
	if (!err)
		err = tool_gather(job, plan.small >= s->bytes, &marked);
	s->first_small = !err && marked > 0 ? (uint32_t)s->bytes : 0;
	for (int k = 0; !err && k < ORI_PLAN_KINDS; k++) {
		s->first[k] = plan.kind[k];
		s->best[k] = plan.kind[k];
		s->gain[k] = 1;
		/* if this rank is its only peer, there is nothing to search */
		if (!job->peers[k] || job->nranks == 1)
			continue;
		err = job->opt->quick ? walk(job, s, k) : search_grid(job, s, k);
		if (!err)
			err = confirm(job, s, k);
	}
	return err ? err : try_small(job, s);
}
