/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/windows_bed.h - what the tests of long calls of CUDA ranks share: two windows, memory
 * beside them, and by which way a call went.
 */
#ifndef ORI_TEST_WINDOWS_BED_H
#define ORI_TEST_WINDOWS_BED_H

#include "coll/team/team.h"
#include "kernels/coll.h"
#include "reduce_bed.h"

#define WINDOWS_COUNT 49152u /* floats: several blocks, and a multiple of 16 bytes per rank */
#define WINDOWS_ROOM (2 * 8 * WINDOWS_COUNT + 65536u)

#define STRAIGHT ORI_NODE_DIRECT
#define STAGED ORI_NODE_STAGED

struct windows {
	struct bed b;
	struct oriel_window *first, *second;
	uint8_t *plain;
};

static inline void create_window(struct rank_env *env, struct oriel_window **w)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = WINDOWS_ROOM;
	REQUIRE_OK(oriel_window_create(env->comm, &o, w));
}

static inline void open_windows(struct windows *w, struct rank_env *env)
{
	memset(w, 0, sizeof(*w));
	w->b.env = env;
	w->b.bytes = WINDOWS_ROOM;
	w->b.seed = 5;
	w->b.cuda = 1;
	w->b.host = (uint8_t *)malloc(WINDOWS_ROOM);
	create_window(env, &w->first);
	create_window(env, &w->second);
	REQUIRE_OK(oriel_alloc(env->comm, WINDOWS_ROOM, (void **)&w->plain));
}

static inline void close_windows(struct windows *w)
{
	struct oriel_comm *c = w->b.env->comm;

	CHECK_EQ(oriel_free(c, w->plain), 0);
	CHECK_EQ(oriel_window_destroy(w->second), 0);
	CHECK_EQ(oriel_window_destroy(w->first), 0);
	free(w->b.host);
}

/* After a call was checked; `way`: how it must have gone. */
static inline void end_call(struct windows *w, int way)
{
	struct oriel_comm *c = w->b.env->comm;

	CHECK_EQ(ori_team_last_way(c), way);
	w->b.seed = model_mix(w->b.seed);
	/* no rank fills its buffers for the next call while another one still checks these */
	CHECK_EQ(oriel_comm_barrier(c, ORIEL_WORLD), 0);
}

/* A rank does not make the last call; `dies`: it ends instead. */
struct scene {
	int dies;
	int call;      /* which one the others make */
	uint32_t over; /* ranks whose call has failed */
};

#endif
