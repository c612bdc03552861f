/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/limit.h - decides from times where one way of a collective ends and another begins.
 *
 * Included by: limit.c, tests.
 */
#ifndef ORI_TUNE_LIMIT_H
#define ORI_TUNE_LIMIT_H

#include "tool.h"

/* Does this size alone go as the first guess says? */
static inline int tool_step_is_guessed(const struct tool_limit *l, const struct tool_step *s)
{
	int guessed = s->bytes <= l->guess;

	return tool_prefers(guessed, s->below.us, s->above.us) == guessed;
}

/*
 * With `below` sizes below the limit instead of `guessed`: the product of the times that become
 * others, before / after.  *least: what it must be to be clearly faster, on average.
 */
static inline double tool_limit_gain(const struct tool_limit *l, int below, int guessed,
				     double *least)
{
	double gain = 1;

	*least = 1;
	for (int i = 0; i < l->n; i++) {
		const struct tool_step *s = &l->step[i];

		if ((i < below) == (i < guessed))
			continue;
		gain *= i < below ? s->above.us / s->below.us : s->below.us / s->above.us;
		*least /= TOOL_FASTER;
	}
	return gain;
}

/*
 * The limit that gains most.  The guess, which may lie between sizes, stays unless the sizes that
 * change their way are clearly faster together: one size that is slow by chance moves nothing.
 */
static inline uint64_t tool_limit_choose(const struct tool_limit *l)
{
	int guessed = 0, best;
	double gain, most = 1, least;

	while (guessed < l->n && l->step[guessed].bytes <= l->guess)
		guessed++;
	best = guessed;
	for (int below = 0; below <= l->n; below++) {
		gain = tool_limit_gain(l, below, guessed, &least);
		if (gain > most && gain >= least) {
			most = gain;
			best = below;
		}
	}
	if (best == guessed)
		return l->guess;
	return best ? l->step[best - 1].bytes : l->least;
}

#endif
