/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/rank.h - a rank while it runs: its objects, and what it tells of a failure.
 */
#ifndef ORI_CAMPAIGN_RANK_H
#define ORI_CAMPAIGN_RANK_H

#include <oriel/coll.h>

#include "../ranks.h"
#include "campaign.h"

struct camp_memory {
	void *ptr, *last; /* last: where it was before it was freed */
	int kind, comm;
	uint64_t bytes;
	struct oriel_buffer *buffer;
	int sourced, window, place; /* the last source that was made of it */
};

struct camp_request {
	struct oriel_allgather_request *gather;
	struct oriel_alltoallv_request *a2a;
	void *graph, *exec;
	int place;
};

struct camp_shared {
	struct camp_emit *emit;
	struct camp_told *told; /* of all ranks, in shared memory */
};

struct camp_state {
	struct rank_env *env;
	struct camp_emit *emit;
	const struct camp_config *config;
	struct camp_told *told;
	int rank, cuda, failed;
	void *streams[CAMP_STREAMS];
	struct oriel_comm *comms[CAMP_COMMS];
	struct oriel_window *windows[CAMP_WINDOWS];
	struct camp_memory memories[CAMP_MEMORIES];
	struct camp_request requests[CAMP_REQUESTS];
	struct camp_place places[CAMP_PLACES]; /* copy of what lies in device memory */
	/* in device memory */
	struct camp_place *dev_places;
	struct oriel_window_dev *dev_windows;
	struct camp_op *dev_ops;
	struct camp_report *dev_report;
	uint64_t *dev_cells;
};

enum { CAMP_LEVEL_WRONG = 1, CAMP_LEVEL_CALL, CAMP_LEVEL_TIMEOUT, CAMP_LEVEL_ABORTED };

/* Records the first failure of the rank and ends the waits of all ranks; always returns -1. */
int camp_fail(struct camp_state *, int level, int step, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* 0, or camp_fail() with the library's status and text. */
int camp_call(struct camp_state *, const struct camp_act *, int status, const char *call);

/* objects.c: 0, or -1 after camp_fail(). */
int camp_do_split(struct camp_state *, const struct camp_act *);
int camp_do_memory(struct camp_state *, const struct camp_act *);
int camp_do_free(struct camp_state *, const struct camp_act *);
int camp_do_window(struct camp_state *, const struct camp_act *);
int camp_do_window_destroy(struct camp_state *, const struct camp_act *);
int camp_do_source(struct camp_state *, const struct camp_act *);
int camp_do_buffer(struct camp_state *, const struct camp_act *);
int camp_do_gather(struct camp_state *, const struct camp_act *);
int camp_do_a2a(struct camp_state *, const struct camp_act *);
int camp_do_reduce(struct camp_state *, const struct camp_act *);
int camp_do_graph(struct camp_state *, const struct camp_act *);
/* Destroys what is left of a program that was cut short. */
void camp_drop_objects(struct camp_state *);

#endif
