/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/alltoallv/alltoallv.h - the request, and declarations shared by the files of this folder.
 *
 * create.c creates and destroys requests, options.c checks their options, exec.c makes their calls,
 * plan.c tells users the plan.
 * The kernel is kernels/alltoallv.c; its plan comes from the options or from coll/tune.
 */
#ifndef ORI_COLL_ALLTOALLV_H
#define ORI_COLL_ALLTOALLV_H

#include <oriel/coll/alltoallv.h>
#include <oriel/oriel.h>

#include "../../comm/object.h"
#include "../../kernels/alltoallv.h"
#include "../tune/plan.h"

/* Longest message that goes to an inbox; a request has two inboxes per peer. */
#define ORI_A2A_INBOX_BYTES 8192u

struct oriel_alltoallv_request {
	struct ori_child child; /* must be first: the comm destroys through it */
	struct oriel_comm *comm;
	struct oriel_alltoallv_options options;
	struct oriel_window *window;
	struct oriel_window *recv_window; /* receive memory of the caller; NULL: window has it */
	void *memory;                     /* rows, state, receive buffer: the window's */
	void *send;                       /* send buffer */
	uint64_t send_bytes;              /* of it */
	struct oriel_window_dev handle;   /* the window's */
	struct ori_a2a_args args;         /* of the next call; pointers and plan change */
	struct ori_a2a_plan plan;         /* the plan of args */
	/* settings of the options; 0 blocks: none */
	struct ori_a2a_setting given[ORI_PLAN_KINDS];
	uint64_t plan_bytes; /* bytes per peer that it was made for */
	int plan_known;
	int plan_forced; /* by ori_alltoallv_plan_set() */
	const struct oriel_kernel *kernel;
	int grid, threads;
};

/* Offsets in a request's window. */
struct ori_a2a_layout {
	uint64_t inbox_bytes, row_stride, slot_stride;
	uint64_t slot_elems; /* slot_stride in elements; 0: packed, or a slot is less than one */
	uint64_t state, arrived, handle;
	uint64_t recv_handle; /* of the window of the receive memory */
	uint64_t recv;        /* 0: the caller gave receive memory */
	uint64_t recv_bytes;  /* of the receive buffer */
	uint64_t bytes;
};

/*
 * options.c.  Takes and checks what the caller gave: options, settings of plans and the layout that
 * follows from them.
 */
int ori_alltoallv_options_take(const struct oriel_alltoallv_options *given, int nranks,
			       struct oriel_alltoallv_options *,
			       struct ori_a2a_setting settings[ORI_PLAN_KINDS],
			       struct ori_a2a_layout *);
/* The name of an option in which two ranks must not differ but do, or NULL. */
const char *ori_alltoallv_options_differ(const struct oriel_alltoallv_options *,
					 const struct oriel_alltoallv_options *);
/* Pure. */
void ori_alltoallv_layout(const struct oriel_alltoallv_options *, int nranks,
			  struct ori_a2a_layout *);
/* create.c */
int ori_alltoallv_check(struct oriel_alltoallv_request *, const char *call);

/*
 * exec.c.  Calls of this rank use this plan from now on; NULL: the tuner's plan.  For tests and
 * oriel-tune.
 */
int ori_alltoallv_plan_set(struct oriel_alltoallv_request *, const struct ori_a2a_plan *);

#endif
