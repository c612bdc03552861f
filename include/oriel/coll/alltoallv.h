/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/coll/alltoallv.h - all-to-all-v: every rank sends elements to every rank.  The number of
 * elements may differ for each pair of ranks.
 *
 * A request owns a send buffer in device memory, and a receive buffer if the caller gives none.  It
 * can be executed any number of times.  Sizes lie in device memory and may differ for every peer
 * and every call; 0 is allowed.  The host does not read them, so a call can be captured into a CUDA
 * graph.  The request must then outlive the graph.  Statuses and [C] are those of oriel/oriel.h.
 */
#ifndef ORIEL_COLL_ALLTOALLV_H
#define ORIEL_COLL_ALLTOALLV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_comm;
struct oriel_alltoallv_request;

/* How work is divided among the threads of the device, for peers of one kind. */
struct oriel_alltoallv_setting {
	uint32_t blocks;      /* for each peer of this kind, 1 to 64 */
	uint32_t warps;       /* of a block, 1 to 32; CPU: threads of a block */
	uint64_t chunk_bytes; /* of one copy or put: a multiple of 16, up to 1 GiB */
};

/*
 * The same on all ranks, except send_bytes, expect_bytes, the settings, and place and size of
 * recv_memory.  Set exactly one of slot_bytes and recv_bytes; the other is 0.
 */
struct oriel_alltoallv_options {
	size_t size;
	/*
	 * Fixed slots: the maximum that one rank sends to another in a call.  Each source has its
	 * own slot, which begins at a multiple of 16 bytes and of an element.
	 */
	uint64_t slot_bytes;
	/*
	 * Packed: the maximum that a rank receives in a call from all sources together.  The data
	 * of the sources lies in rank order, without gaps.
	 */
	uint64_t recv_bytes;
	/*
	 * The maximum that a rank sends in a call, and the limit of its offsets.  0: the size of
	 * the receive buffer.
	 */
	uint64_t send_bytes;
	/* Bytes of an element.  All sizes and offsets of calls count elements. */
	uint64_t elem_bytes;
	/*
	 * 1: data arrives only after the receiver has made its own call.  Until then it may read
	 * the data of the previous call.  0: no handshake, which is faster.  Data may arrive as
	 * soon as its sender makes the call.  The program must make sure that no rank makes a call
	 * before all ranks have read the previous data, for example by another exchange in
	 * between.  Fixed slots only; a packed request always has the handshake.
	 */
	int32_t synchronised;
	int32_t reserved; /* 0 */
	/* A hint for speed: the bytes that a call sends to the peer that gets most.  0: unknown. */
	uint64_t expect_bytes;
	uint64_t first_count; /* where internal counts start: for tests of wrap-around */
	/*
	 * The plan of all calls, for each kind of peer: it comes before ORIEL_A2A_PLAN and the
	 * tuner.  All 0: the tuner decides.  On a GPU blocks and warps are reduced to what fits,
	 * and chunks of mapped peers are at least 1 MiB.  A plan only affects speed.
	 */
	struct oriel_alltoallv_setting mapped; /* for mapped peers and this rank itself */
	struct oriel_alltoallv_setting queued;
	/*
	 * Memory of the caller where data arrives, on all ranks or on none; NULL: the request
	 * allocates it.  Its address is a multiple of 16.  Peers in other processes must be able to
	 * map it, as with `buffer` of a window.  It must exist until the request is destroyed, and
	 * what a call sends must lie elsewhere.
	 */
	void *recv_memory;
	/*
	 * Bytes of it.  Packed: at least recv_bytes.  Fixed slots: a slot for each rank, which is
	 * slot_bytes rounded up to a multiple of 16 and of elem_bytes.
	 */
	uint64_t recv_memory_bytes;
};
#define ORIEL_ALLTOALLV_OPTIONS_INIT                                                               \
	{                                                                                          \
		sizeof(struct oriel_alltoallv_options), 0, 0, 0, 1, 1, 0, 0, 0, { 0, 0, 0 },       \
			{ 0, 0, 0 }, NULL, 0                                                       \
	}

/*
 * The arguments of one call.  Each array has one entry per rank and lies in device memory.  The
 * call reads and writes the arrays while it runs.
 */
struct oriel_alltoallv_args {
	size_t size;
	/*
	 * The data to send.  NULL: the start of oriel_alltoallv_send_buffer().  Data in that buffer
	 * is sent without a copy.  Other memory is sent to mapped peers directly; data for queued
	 * peers is first copied into the send buffer.
	 */
	const void *send;
	/* Number of elements for each rank. */
	const uint64_t *send_sizes;
	/* Offset of each rank's data from `send`, in elements; NULL: contiguous in rank order. */
	const uint64_t *send_offsets;
	/* Output: number of elements from each rank; NULL: not wanted. */
	uint64_t *recv_sizes;
	/*
	 * Output: offset of each rank's data in the receive buffer, in elements; NULL: not wanted.
	 */
	uint64_t *recv_offsets;
	/* As in the options; 0: the value of the request. */
	uint64_t expect_bytes;
};
#define ORIEL_ALLTOALLV_ARGS_INIT                                                                  \
	{                                                                                          \
		sizeof(struct oriel_alltoallv_args), NULL, NULL, NULL, NULL, NULL, 0               \
	}

/*
 * Creates an all-to-all-v request.  It creates missing queues to peers (a comm made with
 * ORIEL_CONNECT_NONE has none). [C]
 */
int oriel_alltoallv_create(struct oriel_comm *comm, const struct oriel_alltoallv_options *options,
			   struct oriel_alltoallv_request **request);
/* The request's own memory to send from without a copy. */
void *oriel_alltoallv_send_buffer(struct oriel_alltoallv_request *request);
/* The memory where data arrives: the caller's recv_memory, or the request's own. */
void *oriel_alltoallv_recv_buffer(struct oriel_alltoallv_request *request);
/* Where the data of `rank` arrives, with fixed slots; NULL for a packed request. */
void *oriel_alltoallv_slot(struct oriel_alltoallv_request *request, int rank);
/*
 * Executes an all-to-all-v request.  All ranks make the same calls, one at a time per request
 * (CUDA: in the order of one stream).  A call is complete on return (CUDA: in the order of the
 * stream).  Then all data for this rank has arrived, and the send memory may be written again.
 *
 * A size or offset beyond the capacity makes the call fail with ORIEL_ERANGE on all ranks.  No data
 * goes from or to the rank with the bad size, and the request stays usable.  On CUDA
 * oriel_alltoallv_status() returns that error.
 */
int oriel_alltoallv_exec(struct oriel_alltoallv_request *request,
			 const struct oriel_alltoallv_args *args, void *stream);
/*
 * The first failure of the request.  Without one: the error of the first call refused since the
 * last oriel_alltoallv_status(), or 0.
 */
int oriel_alltoallv_status(struct oriel_alltoallv_request *request);
/*
 * Describes the plan of a call, in one line.  It is that of a call that sends bytes_per_peer to the
 * peer that gets most: the plan, why it was chosen, its expected time if measured, and what this
 * rank then runs, which may be fewer blocks.  On CUDA calls are planned for `expect_bytes`.  A line
 * that does not fit is cut.
 */
int oriel_alltoallv_explain(struct oriel_alltoallv_request *request, uint64_t bytes_per_peer,
			    char *text, size_t bytes);
/* Destroys the request and frees its memory. [C] */
int oriel_alltoallv_destroy(struct oriel_alltoallv_request *request);

/* ---- plans, for kernels of a program that move data between ranks themselves ----------------- */

struct oriel_alltoallv_plan_info {
	size_t size;
	struct oriel_alltoallv_setting mapped; /* for mapped peers and this rank itself */
	struct oriel_alltoallv_setting queued;
	uint32_t agreed;   /* 1: all ranks have the same table, so they get the same plan */
	uint32_t reserved; /* 0 */
};
#define ORIEL_ALLTOALLV_PLAN_INIT                                                                  \
	{                                                                                          \
		sizeof(struct oriel_alltoallv_plan_info), { 0, 0, 0 }, { 0, 0, 0 }, 0, 0           \
	}

/*
 * Gives the plan of an exchange, for kernels that move data themselves.  The exchange sends
 * bytes_per_peer to the peer that gets most.  Local.  It is the plan that a request of this comm
 * would use, and it only affects speed.
 *
 * The plan comes from the table that the ranks agreed on: measured by oriel-tune, else the first
 * guess, with the settings of ORIEL_A2A_PLAN.  Before the ranks agreed (`agreed` is 0) it is the
 * first guess for the device, without tuning file and ORIEL_A2A_PLAN.
 */
int oriel_alltoallv_plan(struct oriel_comm *comm, uint64_t bytes_per_peer,
			 struct oriel_alltoallv_plan_info *plan);
/*
 * Lets the ranks agree on a table of plans.  oriel_alltoallv_create does the same, so this call is
 * for programs without a request.  Only the first call on a comm communicates.  No other thread may
 * ask for a plan of this comm at the same time. [C]
 */
int oriel_alltoallv_plan_agree(struct oriel_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
