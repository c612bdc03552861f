/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/campaign.h - random programs on the whole library: the declarations that the files
 * share.
 *
 *   config.c       seed -> ranks, device, topology, NIC, faults, and what --set changes
 *   plan.c         seed -> the steps of a program
 *   emit.c         steps -> actions and operations of every rank, and the model that predicts them
 *   steps_*.c      one function per kind of step
 *   kernel.c       the kernel that does the operations (ops.h)
 *   rank.c         a rank: does its actions, checks, reports
 *   objects.c      the objects of the library that a rank creates and destroys
 *   gpu.c          streams, graphs and memory of a CUDA device
 *   run.c          runs one seed in its own process
 *   shrink.c       the smallest part of a failing program that still fails
 *   main.c         the command
 *
 * A step has a kind and its own seed.  Everything else about it follows from these two, from the
 * configuration and from the steps kept before it.  So any selection of steps is a program without
 * races.
 */
#ifndef ORI_CAMPAIGN_H
#define ORI_CAMPAIGN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ops.h"

#define CAMP_RANKS 8
#define CAMP_STEPS 64
#define CAMP_COMMS 3
#define CAMP_WINDOWS 12 /* in the life of a program; few of them live together */
#define CAMP_LIVE 3
#define CAMP_STREAMS 3
#define CAMP_BLOCKS 4
#define CAMP_PLACES 512
#define CAMP_MEMORIES 64
#define CAMP_REQUESTS 48
#define CAMP_IDS 48          /* signals and counters of a window */
#define CAMP_SET_IDS 8       /* the first of them take ORIEL_SET only */
#define CAMP_POOL (1u << 20) /* bytes of a rank's sources and landing places */
#define CAMP_TEXT 8192

/* ---- numbers by chance ----------------------------------------------------------------------- */

struct camp_random {
	uint64_t state;
};

static inline uint64_t camp_next(struct camp_random *r)
{
	uint64_t x = r->state += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* 0 to n-1. */
static inline int camp_below(struct camp_random *r, int n)
{
	return n > 1 ? (int)((camp_next(r) >> 16) % (uint64_t)n) : 0;
}

static inline int camp_chance(struct camp_random *r, int percent)
{
	return camp_below(r, 100) < percent;
}

/* ---- configuration --------------------------------------------------------------------------- */

enum camp_device { CAMP_CPU, CAMP_FAKE, CAMP_GPU };

struct camp_config {
	int ranks, processes;
	int device;
	int mlx5; /* queues are executed by the mlx5 engine over tests/mlx5_stub */
	int lanes, nics, depth;
	int wrap;       /* queues begin near the end of their indices */
	int unordered;  /* writes may overtake each other: puts over the same bytes need a fence */
	int no_atomics; /* the NIC has none */
	int threads;    /* of a block, at most */
	int streams;
	char topology[32];
	char nic[24], faults[160], fake[120], a2a[80];
};

/* What the user gave to change it; empty: nothing.  "ranks=2,faults=none,..." */
struct camp_options {
	int gpu;
	char set[512];
	char without[512];                  /* names of kinds and features, separated by commas */
	uint64_t keep[CAMP_STEPS / 64 + 1]; /* bit n: step n stays */
	int keeps;                          /* 1: `keep` counts */
	int sabotage;                       /* a fault made on purpose: the campaign's own test */
	double timeout_s;                   /* of the library's waits */
};

void camp_configure(uint64_t seed, const struct camp_options *, struct camp_config *);
/* 0, or -1 with a line: `set` has an unknown key or value. */
int camp_config_set(struct camp_config *, const char *set);
/* NAME=value pairs with spaces between. */
void camp_config_text(const struct camp_config *, char *out, size_t bytes);
/* A word for the summary: "cpu queued soft". */
void camp_config_name(const struct camp_config *, char *out, size_t bytes);
void camp_config_apply(const struct camp_config *, double timeout_s);
/* node of every rank, by the topology */
void camp_config_nodes(const struct camp_config *, int *node);

/* ---- program --------------------------------------------------------------------------------- */

/* X(name, text, weight) */
#define CAMP_KIND_LIST(X)                                                                          \
	X(EXCHANGE, "exchange", 20)                                                                \
	X(MEET, "meet", 14)                                                                        \
	X(FETCH, "fetch", 12)                                                                      \
	X(CHAIN, "chain", 6)                                                                       \
	X(PINGPONG, "pingpong", 6)                                                                 \
	X(ATOMICS, "atomics", 12)                                                                  \
	X(STAGED, "staged", 8)                                                                     \
	X(PACKETS, "packets", 8)                                                                   \
	X(STORM, "storm", 10)                                                                      \
	X(GATHER, "gather", 10)                                                                    \
	X(GATHER_MANY, "gather_many", 3)                                                           \
	X(REQUEST, "request", 8)                                                                   \
	X(ALLTOALLV, "alltoallv", 8)                                                               \
	X(REDUCE, "reduce", 8)                                                                     \
	X(REUSE, "reuse", 8)                                                                       \
	X(AGAIN, "again", 4)                                                                       \
	X(GRAPH, "graph", 8)                                                                       \
	X(SETTLE, "settle", 3)

enum camp_kind {
#define CAMP_KIND(name, text, weight) CAMP_STEP_##name,
	CAMP_KIND_LIST(CAMP_KIND)
#undef CAMP_KIND
		CAMP_KINDS
};

struct camp_step {
	int kind;
	int kept;
	uint64_t seed;
};

struct camp_program {
	uint64_t seed;
	const struct camp_options *options;
	struct camp_config config;
	int nsteps;
	struct camp_step steps[CAMP_STEPS];
};

/*
 * Ranks are threads of one process on a GPU: one's call of the driver waits for kernels of the
 * others.
 */
static inline int camp_driver_waits(const struct camp_config *c)
{
	return c->device == CAMP_GPU && !c->processes;
}

void camp_plan(uint64_t seed, const struct camp_options *, struct camp_program *);
const char *camp_kind_name(int kind);
/* Is the kind or feature of that name left out by --without? */
int camp_is_without(const struct camp_options *, const char *name);

/* ---- what a rank does ------------------------------------------------------------------------ */

enum camp_act_kind {
	CAMP_ACT_SPLIT, /* comm `comm`: colour `id` of the world */
	CAMP_ACT_MEMORY,
	CAMP_ACT_FREE,
	CAMP_ACT_FILL_HOST, /* a memory from the host, by its tag */
	CAMP_ACT_WINDOW,    /* over memory `memory`, or -1: the library's */
	CAMP_ACT_WINDOW_DESTROY,
	CAMP_ACT_SOURCE, /* place: memory as a source of the window */
	CAMP_ACT_LAUNCH,
	CAMP_ACT_PUT,
	CAMP_ACT_GET,
	CAMP_ACT_PUT_SIGNAL,
	CAMP_ACT_SIGNAL,
	CAMP_ACT_WAIT,
	CAMP_ACT_BARRIER,
	CAMP_ACT_COMM_BARRIER,
	CAMP_ACT_STREAM_SYNC,
	CAMP_ACT_CHECK_WINDOW, /* all of its bytes */
	CAMP_ACT_CHECK_MEMORY,
	CAMP_ACT_CHECK_SUM, /* cells of all ranks and a word of this rank's window: swap */
	CAMP_ACT_BUFFER,    /* registers and exchanges memory */
	CAMP_ACT_BUFFER_RELEASE,
	CAMP_ACT_GATHER,
	CAMP_ACT_GATHER_INIT,
	CAMP_ACT_GATHER_EXEC,
	CAMP_ACT_GATHER_DESTROY,
	CAMP_ACT_A2A_CREATE,
	CAMP_ACT_A2A_EXEC,
	CAMP_ACT_A2A_DESTROY,
	CAMP_ACT_BROADCAST,
	CAMP_ACT_ALLREDUCE,
	CAMP_ACT_REDUCESCATTER,
	CAMP_ACT_CAPTURE,
	CAMP_ACT_CAPTURED,
	CAMP_ACT_GRAPH_LAUNCH,
	CAMP_ACT_GRAPH_DESTROY,
};

enum camp_memory_kind {
	CAMP_MEMORY_ALLOC, /* oriel_alloc */
	CAMP_MEMORY_USER,  /* the program's own: malloc, or cuMemAlloc */
	CAMP_MEMORY_AT,    /* CPU: mapped at the address of the last one */
};

/* Members that an action does not need are 0. */
struct camp_act {
	int kind, step;
	int comm, window, memory, place, request;
	int peer, id, how, stream;
	uint64_t off, src_off, bytes, value, tag;
	int64_t recv_off;
	uint64_t first, count; /* operations of a launch */
	int nblocks, nthreads;
	uint8_t *image;                      /* what a window must hold */
	struct oriel_window_options options; /* of a window */
	uint64_t sizes[CAMP_RANKS], offsets[CAMP_RANKS], came[CAMP_RANKS];
};

struct camp_rank {
	struct camp_act *acts;
	struct camp_op *ops;
	size_t nacts, nops, acts_room, ops_room;
	/* a launch that is being put together */
	int open, nblocks, nthreads, stream;
	size_t first;
};

/* ---- the model, and turning steps into actions ----------------------------------------------- */

struct camp_comm {
	int n;
	int world[CAMP_RANKS]; /* rank of the comm -> rank of the world */
	int of[CAMP_RANKS];    /* and back; -1: not in it */
};

struct camp_window {
	int alive, comm;
	struct oriel_window_options options;
	int memory; /* the program's own; -1 */
	uint64_t bytes;
	int pool_place, buffer_place;
	uint64_t cursor[CAMP_RANKS]; /* of the bytes taken since all ranks last met */
	int next_id, next_set_id, next_counter;
	uint64_t set_value; /* the last one that ORIEL_SET has set; only grows */
	uint8_t *image[CAMP_RANKS];
	uint64_t signals[CAMP_RANKS][CAMP_RANKS][CAMP_IDS];  /* [at][from][id] */
	uint64_t counters[CAMP_RANKS][CAMP_RANKS][CAMP_IDS]; /* [at][peer][id] */
};

struct camp_emit {
	const struct camp_program *program;
	const struct camp_config *config;
	int node[CAMP_RANKS];
	struct camp_rank ranks[CAMP_RANKS];
	struct camp_comm comms[CAMP_COMMS];
	int ncomms;
	struct camp_window windows[CAMP_WINDOWS];
	int nwindows;
	int nplaces, nmemories, nrequests, ncells;
	uint64_t pool_cursor[CAMP_RANKS];
	uint64_t next_tag;
	unsigned int streams_used; /* since all ranks last met */
	int sabotage;              /* still to be done */
	int capturing;
	uint64_t nops; /* operations of all ranks */
	/* the step */
	int step;
	struct camp_random random;
	int stream, nblocks, nthreads;
	FILE *text; /* NULL, or where the program is told */
};

int camp_emit_program(const struct camp_program *, FILE *text, struct camp_emit **);
void camp_emit_free(struct camp_emit *);

/* To the open launch of a rank. */
struct camp_op *camp_op(struct camp_emit *, int rank, int block, int code, int window);
/* Ends the open launch first. */
struct camp_act *camp_act(struct camp_emit *, int rank, int kind);
void camp_end_launches(struct camp_emit *);
void camp_tell(struct camp_emit *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Shape of the step's launches: blocks up to `blocks`. */
void camp_shape(struct camp_emit *, int blocks);
/* All ranks meet: ids and ranges are free again; `look`: and every byte and word is checked. */
void camp_settle(struct camp_emit *, int look);
int camp_any_window(struct camp_emit *);
/*
 * Bytes of a window that nobody uses until all ranks meet, with a gap before them that nobody
 * writes.
 */
uint64_t camp_take(struct camp_emit *, int window, int rank, uint64_t bytes, uint64_t align);
/* The same range on all ranks of the window. */
uint64_t camp_take_alike(struct camp_emit *, int window, uint64_t bytes, uint64_t align);
/* The same of the world rank's own memory. */
uint64_t camp_take_pool(struct camp_emit *, int rank, uint64_t bytes);
/* At most a share of what a window has for one step; mostly small. */
uint64_t camp_some_bytes(struct camp_emit *, int window, int shares);
int camp_take_id(struct camp_emit *, int window);
int camp_take_counter(struct camp_emit *, int window);
uint64_t camp_tag(struct camp_emit *);
int camp_barrier_id(const struct camp_emit *, int block);
/* The model: bytes of a tag come to lie in a window. */
void camp_model_bytes(struct camp_emit *, int window, int rank, uint64_t off, uint64_t tag,
		      uint64_t tag_off, uint64_t bytes);
void camp_model_word(struct camp_emit *, int window, int rank, uint64_t off, uint64_t value);
/* Are two ranks of the comm reached by queues? */
int camp_is_queued(const struct camp_emit *, int comm, int a, int b);
/* Operations that several kinds of step need; ranks are the comm's. */
void camp_op_fill(struct camp_emit *, int window, int rank, int block, uint64_t off, uint64_t bytes,
		  uint64_t tag);
void camp_op_check(struct camp_emit *, int window, int rank, int block, uint64_t off,
		   uint64_t bytes, uint64_t tag);
void camp_op_check_pool(struct camp_emit *, int window, int rank, int block, uint64_t off,
			uint64_t bytes, uint64_t tag);
void camp_op_meet(struct camp_emit *, int window, int rank, int block, int code);
int camp_window_make(struct camp_emit *, int comm, struct camp_random *);
void camp_window_end(struct camp_emit *, int window);
int camp_memory_make(struct camp_emit *, int rank, int comm, int memory, int kind, uint64_t bytes);

typedef void camp_step_fn(struct camp_emit *);
camp_step_fn camp_step_exchange, camp_step_meet, camp_step_fetch, camp_step_chain,
	camp_step_pingpong, camp_step_atomics, camp_step_staged, camp_step_packets, camp_step_storm,
	camp_step_gather, camp_step_gather_many, camp_step_request, camp_step_alltoallv,
	camp_step_reduce, camp_step_reuse, camp_step_again, camp_step_graph;

/* ---- running --------------------------------------------------------------------------------- */

/* What ranks tell the process that started the seed; it survives a crash. */
struct camp_told {
	int level; /* 0: nothing; the lowest number is nearest to the cause */
	int step;
	uint64_t nops;
	char text[CAMP_TEXT / 4];
};

struct camp_result {
	int failed;    /* 0: all as predicted; 1: not; 2: it ended by a signal, or not in time */
	uint64_t nops; /* operations done, host's and kernels' */
	double seconds;
	char text[CAMP_TEXT]; /* the first difference */
	struct camp_told told[CAMP_RANKS];
	char config[512];
};

/* One seed in a child of this process; begins it, and collects it. */
struct camp_child {
	int pid;
	int errors; /* descriptor of what it prints */
	double began, deadline_s;
	struct camp_result *result; /* shared with it */
	uint64_t seed;
};
int camp_child_begin(struct camp_child *, uint64_t seed, const struct camp_options *);
/* 1: it has ended, and `result` is filled in. */
int camp_child_poll(struct camp_child *);
double camp_now(void);
void camp_nap(void);

/* Prints what was found, shrunk, and the command that replays it. */
void camp_shrink(uint64_t seed, const struct camp_options *, const struct camp_result *,
		 double budget_s, FILE *out);

/* rank.c */
struct rank_env;
struct camp_shared; /* run.c: what ranks tell the child's main thread */
void camp_rank_main(struct rank_env *);

#endif
