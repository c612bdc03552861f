/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/limit.c - measures two ways of a collective at growing sizes, in turn.
 *
 * A size that would leave the first guess is measured again, in case the other way won by chance.
 */
#include "limit.h"

struct sweep {
	struct tool_job *job;
	tool_sample_fn *sample;
	void *bed;
};

static int measure(const struct sweep *w, struct tool_step *s)
{
	double us[2][TOOL_REPS_MAX], first = 0;
	int calls, reps = w->job->reps, err = w->sample(w->bed, 1, s->bytes, 2, &first);

	if (!err)
		err = w->sample(w->bed, 0, s->bytes, 4, &first);
	calls = tool_calls(w->job, first);
	for (int rep = 0; !err && rep < reps; rep++)
		for (int way = 0; !err && way < 2; way++)
			err = w->sample(w->bed, way, s->bytes, calls, &us[way][rep]);
	if (err)
		return err;
	s->below = tool_time_of(us[0], reps);
	s->above = tool_time_of(us[1], reps);
	return 0;
}

int tool_limit_sweep(struct tool_job *job, struct tool_limit *l, uint64_t first, uint64_t last,
		     uint64_t times, tool_sample_fn *sample, void *bed)
{
	const struct sweep w = { job, sample, bed };
	int err = 0;

	for (uint64_t bytes = first; !err && bytes <= last && l->n < TOOL_STEPS; bytes *= times) {
		struct tool_step *s = &l->step[l->n];

		if (job->elapsed_s > job->ways_s) { /* rank 0's clock: the same on all ranks */
			l->late = 1;
			break;
		}
		s->bytes = bytes;
		err = measure(&w, s);
		if (!err && !tool_step_is_guessed(l, s))
			err = measure(&w, s);
		l->n += !err;
	}
	l->bytes = tool_limit_choose(l);
	return err;
}
