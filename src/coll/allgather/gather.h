/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/gather.h - the request of an all-gather, and the functions of its files, from top
 * to bottom:
 *
 *	plain.c    the call without a request
 *	create.c   creates a request
 *	request.c  exec, and the other calls on a request
 *	stream.c   one exec as copies and kernels on a stream
 *	state.c    data kept per comm, and the end of requests
 *	near.c     a plan as tables that kernels read
 *	show.c     one exec on the CPU: small blocks inside one node
 *	run.c      one exec on the CPU, on the caller's thread: everything else
 *	move.c     moves data to self and to mapped peers
 *	measure.c  measures the speed of puts between nodes
 *	view.c     the one view of receive memory, filled from a window or from a buffer
 *	plan.h     plan.c, choose.c: the route of each block
 *
 * A file calls only files below it.  One exec at a time runs on a request, on any thread.
 */
#ifndef ORI_GATHER_H
#define ORI_GATHER_H

#include <oriel/coll/allgather.h>
#include <oriel/device.h>

#include "../../kernels/gather.h"
#include "../../window/window.h"
#include "plan.h"

/* ---- measure.c ------------------------------------------------------------------------------- */

/* Measures with its own puts and copies between neighbours.  All ranks get the same answer. [C] */
int ori_gather_measure(struct oriel_comm *, const struct ori_gather_map *,
		       struct ori_gather_speed *);

/* ---- state.c, create.c, request.c ------------------------------------------------------------ */

/* A request's signals: a window whose buffer belongs to show.c.  One request at a time uses it. */
struct ori_gather_words {
	struct oriel_window *window;
	uint64_t number; /* the same on all ranks */
	uint64_t staged; /* show.c: execs so far, the same on all ranks */
	int taken;
	struct ori_gather_words *next;
};

/* What a captured graph holds.  It may outlive the request. */
struct ori_gather_token {
	int refs;   /* atomic: one of the request, and one per graph */
	int graphs; /* atomic: graphs that hold the request */
};

struct ori_gather_state;

/*
 * plain.c: a window of the library, and a request on it, for receive memory that no window covers.
 */
struct ori_gather_area {
	struct oriel_window *window;
	struct oriel_allgather_request *request;
	uint64_t number; /* the same on all ranks */
	uint64_t bytes;  /* of a rank's block */
	struct ori_gather_area *next;
};

struct oriel_allgather_request {
	struct ori_gather_state *state; /* NULL: window or comm is destroyed, and all below */
	struct oriel_comm *comm;
	struct oriel_window *window; /* the request is on one of these two */
	struct oriel_buffer *buffer;
	/* the window's memory as a buffer, if the window lacks keys of peers */
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
	void *scratch;         /* run.c, show.c: for the running exec */
	size_t scratch_bytes;
	int holds;          /* counted among the users of window or buffer */
	int cached;         /* of plain.c: no user has a handle */
	int staging;        /* on an area of plain.c */
	int retired;        /* no longer owned; kept for a graph or for pending work */
	uint64_t last_used; /* plain.c */
	/*
	 * A mark after the last exec that is not in a graph.  The thread that runs an exec sets it
	 * under the state's lock.  Other threads read it under that lock.
	 */
	struct ori_mark *mark;
	struct ori_gather_token *token;
	struct oriel_allgather_request *next; /* of the state's list */
};

#define ORI_GATHER_PENDING_MAX 1024u

/* Everything that requests of a comm share.  It is attached to the comm. */
struct ori_gather_state {
	struct ori_attachment attachment; /* first */
	struct oriel_comm *comm;
	struct ori_gather_map map;
	struct ori_gather_speed speed;
	int has_speed;
	int direct;           /* all queued peers have queues, on all ranks */
	pthread_mutex_t lock; /* of the lists, and of requests' marks, holds, cached and retired */
	struct ori_gather_words *words;
	struct oriel_allgather_request *requests; /* all requests of the comm */
	uint64_t next_number;
	uint64_t clock;                /* plain.c: counts its calls */
	struct ori_gather_area *areas; /* all areas of plain.c */
	/* the area of calls that are not in a graph; the largest so far */
	struct ori_gather_area *staging;
	uint64_t next_area;
	int told;                 /* a warning about areas was logged */
	unsigned int pending_max; /* plain.c: limit of replaced requests that are still needed */
};

int ori_gather_state_get(struct oriel_comm *, struct ori_gather_state **);
/*
 * The body of all create calls.  Either window or buffer is not NULL, or status is an error.
 * cached: a request without a user's handle. [C]
 */
int ori_gather_init(struct oriel_comm *, const char *call, int status, struct oriel_window *,
		    struct oriel_buffer *, const struct oriel_allgather_options *, int cached,
		    struct oriel_allgather_request **);
void ori_gather_free(struct oriel_allgather_request *);
void ori_gather_hold(struct oriel_allgather_request *);
/* Called with the token when a graph that held the request is destroyed. */
void ori_gather_graph_gone(void *token);
/* Words: the numbers of free sets here, one of them, and a new set [C]. */
int ori_gather_words_offer(struct ori_gather_state *, uint64_t *numbers, int room);
struct ori_gather_words *ori_gather_words_take(struct ori_gather_state *, uint64_t number);
int ori_gather_words_make(struct ori_gather_state *, struct ori_gather_words **);
/* Does a graph, or pending work of a stream, still use it? */
int ori_gather_is_needed(const struct oriel_allgather_request *);
/* Takes over the mark after an exec.  NULL (a captured exec has none) changes nothing. */
void ori_gather_set_mark(struct oriel_allgather_request *, struct ori_mark *);
/* No handle exists any more.  Frees the request at once, or when it is no longer needed. */
void ori_gather_retire(struct oriel_allgather_request *);
int ori_gather_plan(struct oriel_allgather_request *, int algorithm, struct ori_gather_plan **);
/* The device handle of the words. */
static inline const struct oriel_window_dev *ori_gather_dev(const struct oriel_allgather_request *r)
{
	return &r->words->window->dev;
}

/* An exec on a valid request.  Tests the other arguments. */
int ori_gather_exec(struct oriel_allgather_request *, const char *call, const void *sendbuf,
		    uint64_t count, uint64_t elem_bytes, void *stream);
/* *bytes = count * elem_bytes.  Logs and returns ORIEL_ERANGE if the sum over ranks overflows. */
int ori_gather_bytes(const char *call, int nranks, uint64_t count, uint64_t elem_bytes,
		     uint64_t *bytes);

/* ---- view.c ---------------------------------------------------------------------------------- */

/* offsets: where each rank's receive memory begins in its window or buffer. */
int ori_gather_view_make(struct oriel_allgather_request *, const uint64_t *offsets, uint64_t bytes);
void ori_gather_view_free(struct oriel_allgather_request *);

/* ---- move.c ---------------------------------------------------------------------------------- */

/* A part of a block: `bytes` of it at `at`, for its place in receive memory. */
struct ori_gather_piece {
	const uint8_t *from; /* the block's first byte, here */
	uint64_t block_off;  /* of the block in every rank's receive memory */
	uint64_t at, bytes;
};

void ori_gather_to_self(const struct oriel_gather_view *, const struct ori_gather_piece *);
void ori_gather_to_mapped(const struct oriel_gather_view *, int rank,
			  const struct ori_gather_piece *);

/*
 * Up to this size a kernel is faster than the copy engine.  Measured on an H200 with 8 ranks: 8
 * copies of the copy engine and two kernels took 85 us from 1 KiB to 64 KiB and 120 us at 1 MiB.
 * Kernels that copy took 46 us at 1 MiB.
 */
#define ORI_GATHER_KERNEL_BYTES (1u << 20)
#define ORI_GATHER_FASTEST_BYTES (1ull << 31) /* kernels/gather_node.c divides 32 bits */
#define ORI_GATHER_COPY_THREADS 512           /* of a block of that kernel, at most */

/* ---- show.c ---------------------------------------------------------------------------------- */

/*
 * Blocks up to this size are shown, not stored.  That costs one more copy beside one per rank, and
 * saves a meeting.  With 8 ranks on 2 cores it saved about 13 us; at 64 KiB both took the same
 * time.
 */
#define ORI_GATHER_SHOWN_BYTES (32u << 10)
#define ORI_GATHER_SHOWN_RANKS 4 /* with fewer ranks the extra copy weighs more, so ... */
#define ORI_GATHER_SHOWN_FEW_BYTES (4u << 10)

/* Bytes that it needs in the words' window; the same on all ranks. */
uint64_t ori_gather_shown_room(const struct oriel_comm *, const struct ori_gather_map *);
/* Does an exec with blocks of this size use show.c?  The same on all ranks. */
int ori_gather_is_shown(const struct oriel_allgather_request *, uint64_t bytes);
int ori_gather_run_shown(struct oriel_allgather_request *, const void *sendbuf, uint64_t bytes);

/* ---- run.c, stream.c ------------------------------------------------------------------------- */

/* Makes req->scratch at least this large.  Its contents are undefined. */
int ori_gather_scratch(struct oriel_allgather_request *req, size_t bytes);
/* sendbuf: the own block, anywhere in memory. */
int ori_gather_run(struct oriel_allgather_request *, const void *sendbuf,
		   const struct ori_gather_choice *, const struct ori_gather_plan *,
		   uint64_t bytes);
int ori_gather_enqueue(struct oriel_allgather_request *, const void *sendbuf,
		       const struct ori_gather_choice *, const struct ori_gather_plan *,
		       uint64_t bytes, void *stream);
/*
 * Sets the request's mark after all work of the stream.  Called by the thread that runs its execs.
 */
int ori_gather_mark(struct oriel_allgather_request *, void *stream);

/* ---- near.c ---------------------------------------------------------------------------------- */

/* A plan as tables that kernels read. */
struct ori_gather_near {
	struct ori_gather_table table;
	int32_t *host; /* the published tables, and their size */
	const void *near;
	uint64_t bytes;
	const void *done; /* the word that counts blocks of a grid */
	uint64_t zero;    /* its initial value */
};

int ori_gather_near_make(struct oriel_allgather_request *, const struct ori_gather_plan *,
			 struct ori_gather_near **);
/* Frees the tables of all plans of the request. */
void ori_gather_near_free(struct oriel_allgather_request *);

#endif
