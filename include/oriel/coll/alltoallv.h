/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/coll/alltoallv.h - all-to-all-v: every rank sends every rank its own number of bytes.
 *
 * A request owns a receive buffer and a send buffer in device memory and is executed any number of
 * times.  Sizes lie in device memory and may differ for every peer and every call, zero included;
 * nothing comes back to the host in between, so a call can be captured into a CUDA graph, which the
 * request must then outlive.  Statuses and [C] as in oriel/oriel.h.
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

/* Alike on all ranks.  One of slot_bytes and recv_bytes is 0. */
struct oriel_alltoallv_options {
	size_t size;
	/*
	 * Fixed slots: the most one rank sends another in a call.  Each source has a slot of its
	 * own, which begins on 16 bytes and on a whole element.
	 */
	uint64_t slot_bytes;
	/*
	 * Packed: the most a rank receives in a call, all sources together; data lies in rank order
	 * without gaps.
	 */
	uint64_t recv_bytes;
	/*
	 * The most a rank sends in a call, and how far its offsets reach; 0: as much as the receive
	 * buffer holds.
	 */
	uint64_t send_bytes;
	/* Bytes of an element.  All sizes and offsets of calls count elements. */
	uint64_t elem_bytes;
	/*
	 * 1: data comes only once the receiver has made its own call, so what the last call brought
	 * may be read until then.  0, for fixed slots: the data of a call may come as soon as its
	 * sender makes that call.  The ranks see to it themselves, by another exchange in between,
	 * say, that nobody calls before all have read; that saves the handshake.
	 */
	int32_t synchronised;
	int32_t reserved; /* 0 */
	/*
	 * What a call sends to the peer that gets most, as far as is known; 0: not known.  For
	 * speed alone.
	 */
	uint64_t expect_bytes;
	uint64_t first_count; /* where counts start; for tests of wrap-around */
};
#define ORIEL_ALLTOALLV_OPTIONS_INIT                                                               \
	{                                                                                          \
		sizeof(struct oriel_alltoallv_options), 0, 0, 0, 1, 1, 0, 0, 0                     \
	}

/*
 * One call.  Arrays have an entry for each rank, in device memory; they are read and written while
 * it runs.
 */
struct oriel_alltoallv_args {
	size_t size;
	/*
	 * NULL, or within oriel_alltoallv_send_buffer(): from there, without a copy.  Else memory
	 * of the caller's: mapped peers are sent from it, what goes to queued peers is copied into
	 * the send buffer first.
	 */
	const void *send;
	/* Elements for each rank. */
	const uint64_t *send_sizes;
	/* Elements from `send` on; NULL: one after the other in rank order. */
	const uint64_t *send_offsets;
	/* Elements that came from each rank; NULL: not wanted. */
	uint64_t *recv_sizes;
	/* Elements from the start of the receive buffer to where they lie; NULL: not wanted. */
	uint64_t *recv_offsets;
	/* As in the options; 0: those of the request. */
	uint64_t expect_bytes;
};
#define ORIEL_ALLTOALLV_ARGS_INIT                                                                  \
	{                                                                                          \
		sizeof(struct oriel_alltoallv_args), NULL, NULL, NULL, NULL, NULL, 0               \
	}

/* Makes the queues that are missing, where the comm was made without (ORIEL_CONNECT_NONE). [C] */
int oriel_alltoallv_create(struct oriel_comm *comm, const struct oriel_alltoallv_options *options,
			   struct oriel_alltoallv_request **request);
void *oriel_alltoallv_send_buffer(struct oriel_alltoallv_request *request);
void *oriel_alltoallv_recv_buffer(struct oriel_alltoallv_request *request);
/* Fixed slots: where the data of `rank` lands; NULL for a packed request. */
void *oriel_alltoallv_slot(struct oriel_alltoallv_request *request, int rank);
/*
 * All ranks make the same calls, one at a time on a request (CUDA: in the order of one stream).
 * When it is over, on return or on the stream, all that was sent to this rank is here and the send
 * memory may be written again.  A size or offset beyond the capacity makes the call fail with
 * ORIEL_ERANGE on all ranks, brings nothing from or to that rank, and leaves the request as good as
 * before; on CUDA oriel_alltoallv_status() tells.
 */
int oriel_alltoallv_exec(struct oriel_alltoallv_request *request,
			 const struct oriel_alltoallv_args *args, void *stream);
/* First failure of the request; else the first refused call since this was last asked; else 0. */
int oriel_alltoallv_status(struct oriel_alltoallv_request *request);
/*
 * One line for people: how calls of bytes_per_peer to the peer that gets most are cut here, why so,
 * and how long that should take where it was measured.  A line that does not fit is cut.
 */
int oriel_alltoallv_explain(struct oriel_alltoallv_request *request, uint64_t bytes_per_peer,
			    char *text, size_t bytes);
int oriel_alltoallv_destroy(struct oriel_alltoallv_request *request); /* [C] */

#ifdef __cplusplus
}
#endif

#endif
