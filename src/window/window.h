/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/window.h - the window and what its files share.
 *
 * layout.c says where each array lies in a window's control memory, window.c makes and ends
 * windows, handle.c builds the device handle, ops.c issues operations from the host.
 */
#ifndef ORI_WINDOW_H
#define ORI_WINDOW_H

#include <stdint.h>

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
	uint64_t signal_turns; /* this rank's own, if has_turns */
	uint64_t bytes;
	uint32_t signal_stride, counter_stride, barrier_stride; /* words per row */
	uint32_t counter_lanes;
	uint32_t word_nics; /* signal and arrival words of a queued source, one per NIC */
	uint32_t has_turns;
};

/* generation: by this rank's host code; 0 once destroyed.  failure: set once, by this rank. */
struct ori_window_header {
	uint64_t generation;
	uint64_t failure;
};

struct oriel_window {
	struct ori_child child; /* first: the comm destroys through it */
	struct oriel_comm *comm;
	struct oriel_window_options options;
	struct ori_window_layout layout;
	int number;
	void *buffer;
	struct ori_memory *memory; /* NULL: not from oriel_alloc */
	uint64_t control_offset;   /* in the slab */
	int has_control;
	struct oriel_window_peer *peers;     /* [nranks] */
	struct oriel_window_link *links;     /* [nranks], those of queued peers used */
	const void *near_peers, *near_links; /* the same where kernels read them */
	uint32_t control_key[ORIEL_NICS_MAX], buffer_key[ORIEL_NICS_MAX];
	int registered;                   /* the keys are the engine's to take back */
	struct ori_import **imports;      /* [nranks] of peers' buffers */
	uint64_t *queued_ids;             /* [nranks] queued peers' buffers, as engines name them */
	struct ori_registration *sources; /* taken by its user and not given back */
	struct oriel_window_dev dev;      /* what the user gets */
	struct oriel_window_dev host_dev; /* the same, always checked: for host-issued calls */
	int users; /* atomic: requests and captured graphs that stand on it */
};

/* layout.c.  ORIEL_EINVAL or ORIEL_ERANGE, with a line, for options that cannot be. */
int ori_window_options_take(const struct oriel_window_options *given,
			    struct oriel_window_options *);
/* lanes: 0 without queued peers, else the lanes to each; nics: that they are spread over. */
void ori_window_layout(const struct oriel_window_options *, int nranks, uint32_t lanes,
		       uint32_t nics, struct ori_window_layout *);
/* The same with turns at the end: where some GPU of the comm has no atomics on another's memory. */
void ori_window_layout_turns(int nranks, struct ori_window_layout *);
/* Name of the first option that differs, NULL if windows can meet. */
const char *ori_window_options_differ(const struct oriel_window_options *,
				      const struct oriel_window_options *);

/* handle.c */
int ori_window_control_init(struct oriel_window *, uint64_t generation);
void ori_window_peer_fill(struct oriel_window *, int rank, uint64_t control_offset, void *buffer);
void ori_window_link_fill(struct oriel_window *, int rank, const uint32_t *control_key,
			  const uint32_t *buffer_key, uint64_t buffer_address);
int ori_window_handle_build(struct oriel_window *);
/* Reports name the collective (ORI_USE_*) from now on.  Before the handle is handed out. */
void ori_window_use_set(struct oriel_window *, int use);

/* A user's window of the comm whose buffer has [ptr, ptr + bytes), or NULL; the one made last. */
struct oriel_window *ori_window_covering(struct oriel_comm *, const void *ptr, uint64_t bytes);

/*
 * The user's newest window of the comm, or NULL.  *others: how many things of the user's keep it or
 * the comm from going: buffers, requests, captured graphs.
 */
struct oriel_window *ori_window_left(struct oriel_comm *, int *others);

/* A public entry's first line. */
int ori_window_check(struct oriel_window *, const char *call);

#endif
