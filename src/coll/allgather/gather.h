/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/gather.h - the request of an all-gather, and the functions of its files, from top
 * to bottom:
 *
 *	plain.c    the call without a request
 *	create.c   how a request is made
 *	request.c  exec, and the other calls on a request
 *	stream.c   one exec as copies and kernels on a stream
 *	state.c    what is kept on a comm, and how requests end
 *	near.c     a plan as tables that kernels read
 *	show.c     one exec on the CPU: small blocks inside one node
 *	run.c      one exec on the CPU, on the caller's thread: everything else
 *	move.c     how data moves to self and to mapped peers
 *	measure.c  how fast puts between nodes are
 *	view.c     the one view of receive memory, filled from a window or from a buffer
 *	plan.h     plan.c, choose.c: which way each block goes
 *
 * A file calls only files below it.  One exec at a time runs on a request, on whatever thread.
 */
#ifndef ORI_GATHER_H
#define ORI_GATHER_H

#include <oriel/coll/allgather.h>
#include <oriel/device.h>

#include "../../kernels/gather.h"
#include "../../window/window.h"
#include "plan.h"

/* ---- measure.c ------------------------------------------------------------------------------ */

/* Puts and copies of its own between neighbours; all ranks get the same answer. [C] */
int ori_gather_measure(struct oriel_comm *, const struct ori_gather_map *,
		       struct ori_gather_speed *);

/* ---- state.c, create.c, request.c ----------------------------------------------------------- */

/* A request's signals: a window whose buffer is show.c's; one request at a time has it. */
struct ori_gather_words {
	struct oriel_window *window;
	uint64_t number; /* the same on all ranks */
	uint64_t staged; /* show.c: execs so far, the same on all ranks */
	int taken;
	struct ori_gather_words *next;
};

/* What a captured graph holds: outlives the request if need be. */
struct ori_gather_token {
	int refs;   /* atomic: the request's, and one a graph */
	int graphs; /* atomic: graphs that hold the request */
};

struct ori_gather_state;

/*
 * plain.c: a window of the library's, and a request on it, for receive memory that no window
 * covers.
 */
struct ori_gather_area {
	struct oriel_window *window;
	struct oriel_allgather_request *request;
	uint64_t number; /* the same on all ranks */
	uint64_t bytes;  /* of a rank's block */
	struct ori_gather_area *next;
};

struct oriel_allgather_request {
	struct ori_gather_state *state; /* NULL: window or comm is gone, and all below with it */
	struct oriel_comm *comm;
	struct oriel_window *window; /* one of the two is whose memory it is on */
	struct oriel_buffer *buffer;
	/* the window's memory, where the window has not all peers' keys */
	struct oriel_buffer *own;
	struct oriel_allgather_options options;
	struct oriel_gather_view view;      /* tables the host reads */
	struct oriel_gather_view near_view; /* tables kernels read */
	struct ori_gather_words *words;
	struct ori_gather_plan *plans[4]; /* by algorithm, made when first needed */
	struct ori_gather_near *near[4];  /* the same for kernels */
	uint32_t lanes;
	uint64_t kernel_bytes; /* stream.c: blocks up to here are copied by a kernel */
	uint32_t busy;         /* atomic: an exec is running */
	void *scratch;         /* run.c, show.c: of the exec that runs */
	size_t scratch_bytes;
	int holds;          /* counted among the users of window or buffer */
	int cached;         /* plain.c's: no user has a handle */
	int staging;        /* on an area of plain.c's */
	int retired;        /* nobody's any more, kept for a graph or for work that is pending */
	uint64_t last_used; /* plain.c */
	/*
	 * Behind the last exec that no graph has.  The thread that runs an exec sets it, under the
	 * state's lock; others look at it under that lock.
	 */
	struct ori_mark *mark;
	struct ori_gather_token *token;
	struct oriel_allgather_request *next; /* of the state's list */
};

#define ORI_GATHER_PENDING_MAX 1024u

/* All that requests of a comm share; hangs on it. */
struct ori_gather_state {
	struct ori_attachment attachment; /* first */
	struct oriel_comm *comm;
	struct ori_gather_map map;
	struct ori_gather_speed speed;
	int has_speed;
	int direct;           /* all queued peers have queues, on all ranks */
	pthread_mutex_t lock; /* of the lists, and of requests' marks, holds, cached and retired */
	struct ori_gather_words *words;
	struct oriel_allgather_request *requests; /* all there are */
	uint64_t next_number;
	uint64_t clock;                /* plain.c: counts its calls */
	struct ori_gather_area *areas; /* all that plain.c has made */
	/* the one of calls that no graph has; the largest so far */
	struct ori_gather_area *staging;
	uint64_t next_area;
	int told;                 /* that they are used */
	unsigned int pending_max; /* plain.c: requests that have given way and are still needed */
};

int ori_gather_state_get(struct oriel_comm *, struct ori_gather_state **);
/*
 * The body of all inits.  One of window and buffer is not NULL, or status says why.  cached: a
 * request that no user has a handle to. [C]
 */
int ori_gather_init(struct oriel_comm *, const char *call, int status, struct oriel_window *,
		    struct oriel_buffer *, const struct oriel_allgather_options *, int cached,
		    struct oriel_allgather_request **);
void ori_gather_free(struct oriel_allgather_request *);
void ori_gather_hold(struct oriel_allgather_request *);
/* A graph that held the request is gone: called with the token. */
void ori_gather_graph_gone(void *token);
/* Words: numbers of those that are free here, one of them, a new set [C]. */
int ori_gather_words_offer(struct ori_gather_state *, uint64_t *numbers, int room);
struct ori_gather_words *ori_gather_words_take(struct ori_gather_state *, uint64_t number);
int ori_gather_words_make(struct ori_gather_state *, struct ori_gather_words **);
/* Does a graph, or work that is pending on a stream, still use it? */
int ori_gather_is_needed(const struct oriel_allgather_request *);
/* Takes the place behind an exec over; NULL (a captured one has none): nothing changes. */
void ori_gather_set_mark(struct oriel_allgather_request *, struct ori_mark *);
/* Nobody has a handle any more.  Goes at once, or when it is needed no more. */
void ori_gather_retire(struct oriel_allgather_request *);
int ori_gather_plan(struct oriel_allgather_request *, int algorithm, struct ori_gather_plan **);
/* The words as the library uses them. */
static inline const struct oriel_window_dev *ori_gather_dev(const struct oriel_allgather_request *r)
{
	return &r->words->window->dev;
}

/* An exec whose request is alive; tests the other arguments. */
int ori_gather_exec(struct oriel_allgather_request *, const char *call, const void *sendbuf,
		    uint64_t count, uint64_t elem_bytes, void *stream);
/* count * elem_bytes, and the sum over ranks fits; ORIEL_ERANGE with a line. */
int ori_gather_bytes(const char *call, int nranks, uint64_t count, uint64_t elem_bytes,
		     uint64_t *bytes);

/* ---- view.c --------------------------------------------------------------------------------- */

/* offsets: where each rank's receive memory begins in its window or buffer. */
int ori_gather_view_make(struct oriel_allgather_request *, const uint64_t *offsets, uint64_t bytes);
void ori_gather_view_free(struct oriel_allgather_request *);

/* ---- move.c --------------------------------------------------------------------------------- */

/* A part of a block: `bytes` of it at `at`, to its place in receive memory. */
struct ori_gather_piece {
	const uint8_t *from; /* the block's first byte, here */
	uint64_t block_off;  /* of the block in every rank's receive memory */
	uint64_t at, bytes;
};

void ori_gather_to_self(const struct oriel_gather_view *, const struct ori_gather_piece *);
void ori_gather_to_mapped(const struct oriel_gather_view *, int rank,
			  const struct ori_gather_piece *);

/*
 * Up to here a kernel is faster than the copy engine: on an H200 with 8 ranks the copy engine's 8
 * copies and two kernels took 85 us from 1 KiB to 64 KiB and 120 us at 1 MiB, kernels that copy 46
 * us at 1 MiB.
 */
#define ORI_GATHER_KERNEL_BYTES (1u << 20)
#define ORI_GATHER_COPY_THREADS 512 /* of a block of that kernel, at most */

/* ---- show.c --------------------------------------------------------------------------------- */

/*
 * Blocks up to here are shown, not stored.  That costs one copy beside one for each rank, and saves
 * a meeting: with 8 ranks on 2 cores some 13 us; at 64 KiB the two were level.
 */
#define ORI_GATHER_SHOWN_BYTES (32u << 10)
#define ORI_GATHER_SHOWN_RANKS 4 /* with fewer the copy is much beside the others, so ... */
#define ORI_GATHER_SHOWN_FEW_BYTES (4u << 10)

/* Bytes of the words' window that it needs, the same on all ranks. */
uint64_t ori_gather_shown_room(const struct oriel_comm *, const struct ori_gather_map *);
/* Does an exec of such blocks go that way?  The same on all ranks. */
int ori_gather_is_shown(const struct oriel_allgather_request *, uint64_t bytes);
int ori_gather_run_shown(struct oriel_allgather_request *, const void *sendbuf, uint64_t bytes);

/* ---- run.c, stream.c ------------------------------------------------------------------------ */

/* Makes req->scratch at least so large; its contents are undefined. */
int ori_gather_scratch(struct oriel_allgather_request *req, size_t bytes);
/* sendbuf: the own block, wherever it lies. */
int ori_gather_run(struct oriel_allgather_request *, const void *sendbuf,
		   const struct ori_gather_choice *, const struct ori_gather_plan *,
		   uint64_t bytes);
int ori_gather_enqueue(struct oriel_allgather_request *, const void *sendbuf,
		       const struct ori_gather_choice *, const struct ori_gather_plan *,
		       uint64_t bytes, void *stream);
/* Its place is behind all that the stream has, by the thread that runs its execs. */
int ori_gather_mark(struct oriel_allgather_request *, void *stream);

/* ---- near.c --------------------------------------------------------------------------------- */

/* A plan as tables that kernels read. */
struct ori_gather_near {
	struct ori_gather_table table;
	int32_t *host; /* what was published, and how much */
	const void *near;
	uint64_t bytes;
	const void *done; /* the word that counts blocks of a grid */
	uint64_t zero;    /* what it starts with */
};

int ori_gather_near_make(struct oriel_allgather_request *, const struct ori_gather_plan *,
			 struct ori_gather_near **);
/* Those of all plans of the request. */
void ori_gather_near_free(struct oriel_allgather_request *);

#endif
