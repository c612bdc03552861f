/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/small.h - decides from times which messages carry their own mark.
 *
 * Included by: sweep.c, whole.c.
 */
#ifndef ORI_TUNE_SMALL_H
#define ORI_TUNE_SMALL_H

#include "tool.h"

/* Fills s->small. */
static inline void tool_small_choose(struct tool_size *s, double signal_us, double mark_us)
{
	s->small = tool_prefers(s->first_small != 0, mark_us, signal_us) ? (uint32_t)s->bytes : 0;
}

/*
 * The largest size such that messages of it, and of all smaller sizes, carry their own mark.  If no
 * measured size differs from the first guess, that is `guess`, which may be another size.
 */
static inline uint32_t tool_small_limit(const struct tool_size *size, int n, uint32_t guess)
{
	uint32_t small = 0;
	int changed = 0;

	for (int i = 0; i < n; i++)
		changed |= size[i].small != size[i].first_small;
	if (!changed)
		return guess;
	for (int i = 0; i < n && size[i].small; i++)
		small = size[i].small;
	return small;
}

#endif
