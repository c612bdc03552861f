/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/coll/allgather.h - the persistent all-gather.
 *
 * A request is created once, on a window or on a registered buffer, and executed many times.  An
 * exec stores every rank's block of count * elem_bytes bytes, in rank order, in every rank's
 * receive memory.  Creation exchanges all information that the ranks need about each other.  An
 * exec exchanges only data and signals.
 *
 * [C] marks a collective call, as in oriel/oriel.h.  An exec is collective too: all ranks pass the
 * same count and elem_bytes.  A rank does not learn of bad arguments of another rank.
 */
#ifndef ORIEL_COLL_ALLGATHER_H
#define ORIEL_COLL_ALLGATHER_H

#include <stddef.h>
#include <stdint.h>

#include "../oriel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_allgather_request; /* a request */

/* How blocks move between nodes.  Inside a node every rank always broadcasts its blocks to all. */
enum oriel_gather_algorithm {
	ORIEL_GATHER_AUTO = 0,
	ORIEL_GATHER_DIRECT = 1,   /* every rank puts its block to every rank of other nodes */
	ORIEL_GATHER_RING = 2,     /* from node to node round a ring, broadcast where it lands */
	ORIEL_GATHER_DOUBLING = 3, /* along a binomial tree of nodes: log2(nodes) hops */
};

/*
 * What moves data between the GPUs of a node.  On the CPU there is one way, and the policy changes
 * nothing.
 */
enum oriel_gather_policy {
	ORIEL_GATHER_POLICY_DEFAULT = 0, /* ORIEL_GATHER_POLICY; without it BY_SIZE */
	ORIEL_GATHER_BY_SIZE = 1,        /* blocks up to 1 MiB as FASTEST, larger ones as NO_SMS */
	ORIEL_GATHER_FASTEST = 2, /* kernels up to 2 GiB per block; several nodes: as BY_SIZE */
	ORIEL_GATHER_NO_SMS = 3,  /* copy engines; SMs only run kernels of one warp, which signal */
};

/*
 * Leaves out the handshake that protects receive memory while its owner still reads it.  The caller
 * must make sure that all ranks have read the last result before any rank makes the next call.
 */
#define ORIEL_GATHER_UNGUARDED 1u

struct oriel_allgather_options {
	size_t size;
	int32_t algorithm; /* enum oriel_gather_algorithm; AUTO: by size, nodes and link speed */
	uint32_t flags;    /* ORIEL_GATHER_* */
	uint64_t offset;   /* of the receive memory in the window or buffer; may differ by rank */
	uint64_t bytes;    /* of it, for all ranks' blocks; 0: to the end; alike on all ranks */
	uint64_t chunk_bytes; /* forwarded in such pieces; 0: chosen */
	int32_t policy;       /* enum oriel_gather_policy; the same on all ranks */
	int32_t reserved;     /* 0 */
};
#define ORIEL_ALLGATHER_OPTIONS_INIT                                                               \
	{                                                                                          \
		sizeof(struct oriel_allgather_options), ORIEL_GATHER_AUTO, 0, 0, 0, 0, 0, 0        \
	}

/*
 * Tells if the all-gather works on a comm.  Returns 1 if every rank can be reached and this rank's
 * GPU, if any, has the library's kernels and room for them.  Returns 0 otherwise;
 * oriel_last_error() says why.  Negative: a status.  Local.
 */
int oriel_allgather_supported(struct oriel_comm *comm);

/*
 * Creates an all-gather request on a window of the comm.  options may be NULL.  The window cannot
 * be destroyed before the request. [C]
 */
int oriel_allgather_create(struct oriel_comm *comm, struct oriel_window *window,
			   const struct oriel_allgather_options *options,
			   struct oriel_allgather_request **request);
/*
 * Creates an all-gather request on a registered buffer.  The buffer has room for max_count elements
 * per rank.  If the buffer is not exchanged yet, this call exchanges it.  The request keeps a
 * reference to the buffer. [C]
 */
int oriel_allgather_create_buffer(struct oriel_comm *comm, struct oriel_buffer *buffer,
				  uint64_t max_count, uint64_t elem_bytes,
				  const struct oriel_allgather_options *options,
				  struct oriel_allgather_request **request);
/*
 * Executes an all-gather request.  count is limited by the receive memory.  count and elem_bytes
 * may differ from call to call.  sendbuf is any local memory outside the receive memory, or the
 * place of the own block in it (in place).  NULL means in place.
 *
 * CPU: complete on return.  CUDA: complete in stream order; the stream may be in capture.  An error
 * after the return is the status of later calls.
 */
int oriel_allgather_exec(struct oriel_allgather_request *request, const void *sendbuf,
			 uint64_t count, uint64_t elem_bytes, void *stream);
/* The first failure of the request, or 0. */
int oriel_allgather_status(struct oriel_allgather_request *request);
/*
 * Destroys an all-gather request.  Local.  Ranks may call it at any time between execs, in any
 * order, also after oriel_comm_destroy.  Pending execs on a stream and captured graphs keep what
 * they need.  The window cannot be destroyed before they end.
 */
int oriel_allgather_destroy(struct oriel_allgather_request *request);

/*
 * Says which algorithm an exec of that size uses, and why.  The text is one line; on a GPU it also
 * names what moves the data.  The line is cut to fit.
 */
int oriel_allgather_explain(struct oriel_allgather_request *request, uint64_t count,
			    uint64_t elem_bytes, char *text, size_t bytes);

/*
 * Gathers the data of all ranks on all ranks.  The caller creates no request for it.
 *
 * If a window or an exchanged buffer of the comm covers recvbuf, the first call makes a request and
 * keeps it by offset and length.  Later calls execute it.  All ranks must then use recvbufs in the
 * same way; streams may differ.  If nothing covers recvbuf, the data goes through a window of the
 * library, and a warning says so once.  On CUDA such calls run in the order they are made, even on
 * different streams.
 *
 * A call is captured into a graph on all ranks or on none.  Otherwise ranks get ORIEL_EMISMATCH or
 * pass their deadline.  ORIEL_EBUSY on all ranks: too many calls are pending (docs/allgather.md).
 * [C]
 */
int oriel_allgather(struct oriel_comm *comm, const void *sendbuf, void *recvbuf, uint64_t count,
		    uint64_t elem_bytes, void *stream);

#ifdef __cplusplus
}
#endif

#endif
