/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/coll/reduce.h - broadcast, all-reduce and reduce-scatter, called by the host.
 *
 * Buffers are any local memory, with any alignment: host memory on the CPU, device memory on CUDA.
 * Data goes through memory of the library, which the first of these calls on a comm creates.  On
 * the CPU, long data in windows of the comm goes straight from buffer to buffer (in a broadcast,
 * more than 64 KiB); the receive buffer of a reduce-scatter may then lie anywhere.  The same is
 * true on CUDA if each rank gives at least 128 KiB, or as much as a table of oriel-tune says, among
 * at most 8 ranks that map each other with atomics, if on all ranks
 *
 *	the send buffers (in a broadcast: the buffers) lie in one window,
 *	the receive buffers of an all-reduce lie in one window, the same or another one,
 *	addresses and bytes are multiples of 16,
 *	a reduce-scatter does not receive at the start of its send buffer, except on rank 0.
 *
 * An all-reduce is 2 to 4 times faster then.
 *
 * All ranks of the comm make the same calls in the same order, with the same arguments except
 * buffers and streams. [C]  Ranks compare their calls.  If a rank has bad arguments, all ranks
 * return its status.  If ranks make different calls, all return ORIEL_EMISMATCH.  Then no buffer is
 * written, and the next call works.
 *
 * CPU ranks that all map each other: the root of a broadcast of at most 4 KiB does not wait for the
 * others, so a rank may have left the call before another one refuses it, makes a different call,
 * or is late.  Such a rank gets the error in a later one of these calls, at most 30 calls later.
 * That call is not made: all ranks return the error, and no buffer is written.  ORIEL_CHECKED=1
 * makes the ranks meet in every call.
 *
 * CPU: complete on return.  CUDA: one kernel, complete in stream order; the stream may be in
 * capture, on all ranks or on none.  Calls on several streams run in the order in which they are
 * made.  Graphs are not part of that order: while one runs, no other of these calls may run on the
 * comm.  The comm must outlive the graph.  A call that is refused later, on the stream, is returned
 * by oriel_comm_sync().
 *
 * If a rank does not come within the deadline, dies or aborts, all ranks return an error, and so do
 * later calls on the comm.
 */
#ifndef ORIEL_COLL_REDUCE_H
#define ORIEL_COLL_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* ORIEL_TYPE_*, ORIEL_REDUCE_*, and the order of summing */
#include "../device/reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_comm;

/*
 * Broadcasts data of one rank to all ranks.  `count` elements of `elem_bytes` in `buffer` of rank
 * `root` replace those of all other ranks.
 */
int oriel_broadcast(struct oriel_comm *comm, void *buffer, uint64_t count, uint64_t elem_bytes,
		    int root, void *stream);
/*
 * Combines the data of all ranks, on all ranks: a sum, for example.  `type` is one of ORIEL_TYPE_*,
 * `op` one of ORIEL_REDUCE_*.  recvbuf[i] becomes sendbuf[i] of all ranks, combined in rank order:
 * the bits are the same on all ranks and in every run.  sendbuf may be recvbuf; NULL means the
 * same.
 */
int oriel_allreduce(struct oriel_comm *comm, const void *sendbuf, void *recvbuf, uint64_t count,
		    int type, int op, void *stream);
/*
 * Combines the data of all ranks; each rank gets its block of the result.  `type` is one of
 * ORIEL_TYPE_*, `op` one of ORIEL_REDUCE_*.  sendbuf has one block of `count` elements per rank.
 * recvbuf becomes this rank's block of all ranks, combined in rank order.  recvbuf may be the start
 * of sendbuf, or the own block in it.  On the CPU the own block is the better place: at the start
 * lies a block that rank 0 reads, and long calls between windows wait for that.
 */
int oriel_reducescatter(struct oriel_comm *comm, const void *sendbuf, void *recvbuf, uint64_t count,
			int type, int op, void *stream);

#ifdef __cplusplus
}
#endif

#endif
