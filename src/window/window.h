/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/window.h - the window, and declarations shared by the files of this folder.
 *
 * layout.c places each array in a window's control memory.  window.c creates and destroys windows.
 * handle.c builds the device handle; access.c gives it to the user.  ops.c, words.c and typed.c
 * issue operations from the host through issue.c.  reads.c reads words at once.  bytes.c moves data
 * of any memory, through bounce.c where a NIC is involved.
 */
#ifndef ORI_WINDOW_H
#define ORI_WINDOW_H

#include <stdint.h>

#include <oriel/device/box.h>
#include <oriel/oriel.h>

#include "../comm/comm.h"
#include "../diag/diag.h"
#include "../comm/object.h"

/* Offsets in a window's control memory, alike on every rank. */
struct ori_window_layout {
	uint64_t header; /* struct ori_window_header */
	uint64_t signal_words, signal_base, signal_sum_base;
	uint64_t counter_words, counter_base;
	uint64_t arrival_words, arrival_sent, barrier_users;
	uint64_t grids, signal_ops; /* this rank's own */
	uint64_t staging_words, staging_free, staging_cursors, staging;
	/* this rank's own, only with queued peers */
	uint64_t signal_totals, staging_posted, staging_out;
	uint64_t boxes; /* [peer][box]; devices and engines write both halves */
	struct ori_box_shape box;
	uint64_t signal_turns; /* this rank's own, if has_turns */
	uint64_t bytes;
	uint32_t signal_stride, counter_stride, barrier_stride; /* words per row */
	uint32_t counter_lanes;
	uint32_t word_nics; /* signal and arrival words of a queued source, one per NIC */
	uint32_t has_turns;
};

/*
 * generation: written by this rank's host code; 0 once destroyed.  failure: set once, by this rank
 * or a peer.
 */
struct ori_window_header {
	uint64_t generation;
	uint64_t failure;
};

struct ori_bounce;

struct oriel_window {
	struct ori_child child; /* must be first: the comm destroys through it */
	struct oriel_comm *comm;
	struct oriel_window_options options;
	struct ori_window_layout layout;
	int number;
	void *buffer;
	struct ori_memory *memory; /* NULL: not from oriel_alloc */
	uint64_t control_offset;   /* in the slab */
	int has_control;
	struct oriel_window_peer *peers;     /* [nranks] */
	struct oriel_window_link *links;     /* [nranks], used for queued peers only */
	const void *near_peers, *near_links; /* copies that kernels read */
	uint32_t control_key[ORIEL_NICS_MAX], buffer_key[ORIEL_NICS_MAX];
	int registered;                   /* the engine must release the keys */
	struct ori_import **imports;      /* [nranks] of peers' buffers */
	uint64_t *queued_ids;             /* [nranks] queued peers' buffers: ids of the engine */
	struct ori_registration *sources; /* sources that the user has not released */
	struct oriel_window_dev dev;      /* what the user gets */
	struct oriel_window_dev host_dev; /* the same, always checked: for host-issued calls */
	const void *near_handle;          /* `dev` where kernels read it; NULL: not wanted yet */
	struct ori_bounce *bounce;        /* NULL until it is needed; guarded by bounce_lock */
	pthread_mutex_t bounce_lock;
	int users;  /* atomic: requests and captured graphs that use it */
	int hidden; /* of a request, over memory of the user's, who may have a window of it too */
};

/*
 * In place of oriel_window_create(), on a rank that has failed with `status` just before.  The
 * others learn it, and the call fails on all ranks.  Returns the status. [C]
 */
int ori_window_cannot_create(struct oriel_comm *, int status);

/* layout.c.  Logs and returns ORIEL_EINVAL or ORIEL_ERANGE for invalid options. */
int ori_window_options_take(const struct oriel_window_options *given,
			    struct oriel_window_options *);
/* lanes: per queued peer, 0 without queued peers; nics: number of NICs that the lanes use. */
void ori_window_layout(const struct oriel_window_options *, int nranks, uint32_t lanes,
		       uint32_t nics, struct ori_window_layout *);
/* Adds turns at the end, for a comm where a GPU has no atomics on another GPU's memory. */
void ori_window_layout_turns(int nranks, struct ori_window_layout *);
/* Name of the first option that differs; NULL if the options are compatible. */
const char *ori_window_options_differ(const struct oriel_window_options *,
				      const struct oriel_window_options *);

/* handle.c */
int ori_window_control_init(struct oriel_window *, uint64_t generation);
void ori_window_peer_fill(struct oriel_window *, int rank, uint64_t control_offset, void *buffer);
void ori_window_link_fill(struct oriel_window *, int rank, const uint32_t *control_key,
			  const uint32_t *buffer_key, uint64_t buffer_address);
int ori_window_handle_build(struct oriel_window *);
/* The handle in memory that kernels can read; it stays there until the window ends. */
int ori_window_handle_publish(struct oriel_window *, const struct oriel_window_dev **near);
void ori_window_handle_unpublish(struct oriel_window *);
/* From now on reports name the collective (ORI_USE_*).  Call it before the handle is given out. */
void ori_window_use_set(struct oriel_window *, int use);

/* The newest user window of the comm whose buffer contains [ptr, ptr + bytes), or NULL. */
struct oriel_window *ori_window_covering(struct oriel_comm *, const void *ptr, uint64_t bytes);
/* The window of the comm with that number, or NULL. */
struct oriel_window *ori_window_numbered(struct oriel_comm *, int number);

/*
 * The user's newest window of the comm, or NULL.  *others counts the user's objects that block its
 * destruction or that of the comm: buffers, requests, captured graphs.
 */
struct oriel_window *ori_window_left(struct oriel_comm *, int *others);

/* The first line of every public call. */
int ori_window_check(struct oriel_window *, const char *call);

#endif
