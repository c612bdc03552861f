/* SPDX-License-Identifier: BSD-3-Clause */
/* globals.h - the writable segments of the program, and their move into the window. */
#ifndef OSH_GLOBALS_H
#define OSH_GLOBALS_H

#include <stdint.h>

#define OSH_SEGMENTS_MAX 60

struct osh_segment {
	uintptr_t start; /* whole pages */
	uint64_t bytes;
	uintptr_t zeros;  /* from here on the file has nothing: pages start as zeros */
	const char *name; /* of the library, or "the program" */
};

struct osh_globals {
	struct osh_segment segment[OSH_SEGMENTS_MAX];
	int n;
	uint64_t bytes; /* of all */
};

void osh_globals_find(struct osh_globals *g);
/* Moves all segments to `memory`, one after the other.  Ends the job if one cannot be moved. */
void osh_globals_move(const struct osh_globals *g, uint8_t *memory);

#endif
