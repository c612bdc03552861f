/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll.h - collectives inside a running kernel.
 *
 * One group of every rank makes the call, with the same arguments except the addresses.  `channel`
 * is one of the team's channels (oriel/coll/team.h).  One group per rank uses a channel at a time,
 * and all ranks make the same calls on it in the same order.  Several blocks share a collective by
 * a channel for each block and a part of the data for each channel.
 *
 * Buffers are any memory of the device that this rank can load and store, with any alignment;
 * multiples of 16 bytes are fastest.  Peers never touch it: data goes through the team's memory.
 * A call begins and ends with a meeting of the group.  So any thread of the group may have written
 * the source before, and all may read the result and write the buffers afterwards.
 *
 * All threads of all ranks get the same status if arguments are bad: the status of the rank whose
 * arguments are bad, or ORIEL_EMISMATCH if ranks make different calls.  Then no buffer is written,
 * and the team stays usable.  A passed deadline fails the team on all ranks.
 */
#ifndef ORIEL_DEVICE_COLL_H
#define ORIEL_DEVICE_COLL_H

#include "coll_long.h"

/*
 * Broadcasts data of one rank to all ranks.  `bytes` of `data` on rank `root` replace those on all
 * other ranks.
 */
ORIEL_DEV int oriel_coll_broadcast(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, void *data, uint64_t bytes, int root);
/*
 * Gathers the data of all ranks on all ranks.  Every rank's block of `bytes` goes to every rank.
 * recv holds the blocks in rank order.  send may be the place of the own block in recv.
 */
ORIEL_DEV int oriel_coll_allgather(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, void *recv, uint64_t bytes);
/*
 * Sends a block to each rank and receives a block from each.  Block r of `bytes` of send goes to
 * rank r.  recv holds the blocks of all ranks in rank order.  The two must not overlap.
 */
ORIEL_DEV int oriel_coll_alltoall(const struct oriel_team_dev *team, struct oriel_group g,
				  int channel, const void *send, void *recv, uint64_t bytes);
/*
 * Sends to each rank and receives from each, with sizes that may differ.  Rank r gets send_bytes[r]
 * bytes, which begin at r * slot_bytes of send.  The data of rank r arrives at r * slot_bytes of
 * recv, and recv_bytes[r] becomes its size.  Other bytes of recv do not change.  Both arrays have
 * an entry per rank.  send and recv must not overlap, nor the two arrays.
 *
 * slot_bytes is the same on all ranks.  A rank with a larger size refuses the call: ORIEL_ERANGE on
 * all ranks.
 */
ORIEL_DEV int oriel_coll_alltoallv(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, const uint64_t *send_bytes,
				   void *recv, uint64_t *recv_bytes, uint64_t slot_bytes);
/*
 * Combines the data of all ranks, on all ranks: a sum, for example.  `type` is one of ORIEL_TYPE_*,
 * `op` one of ORIEL_REDUCE_*.  recv[i] becomes send[i] of all ranks, combined in rank order
 * (reduce.h).  send may be recv.  The result has the same bits on all ranks.
 */
ORIEL_DEV int oriel_coll_allreduce(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, void *recv, uint64_t count,
				   int type, int op);
/*
 * Combines the data of all ranks; each rank gets its block of the result.  `type` is one of
 * ORIEL_TYPE_*, `op` one of ORIEL_REDUCE_*.  send has nranks blocks of `count` elements.  recv
 * becomes block `rank` of all ranks, combined in rank order.  recv may be the start of send, or the
 * own block in it.
 */
ORIEL_DEV int oriel_coll_reducescatter(const struct oriel_team_dev *team, struct oriel_group g,
				       int channel, const void *send, void *recv, uint64_t count,
				       int type, int op);

/* ---- bodies ---------------------------------------------------------------------------------- */

ORIEL_DEV int oriel_coll_broadcast(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, void *data, uint64_t bytes, int root)
{
	struct ori_terms call = ori_terms_broadcast(team->win.comm.nranks, bytes, root);

	return ori_coll_run(team, g, channel, &call, ori_reducer_of(0, 0), data, data, 0);
}

ORIEL_DEV int oriel_coll_allgather(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, void *recv, uint64_t bytes)
{
	struct ori_terms call = ori_terms_of(ORI_COLL_ALLGATHER, bytes);

	return ori_coll_run(team, g, channel, &call, ori_reducer_of(0, 0), send, recv, bytes);
}

ORIEL_DEV int oriel_coll_alltoall(const struct oriel_team_dev *team, struct oriel_group g,
				  int channel, const void *send, void *recv, uint64_t bytes)
{
	struct ori_terms call = ori_terms_of(ORI_COLL_ALLTOALL, bytes);

	return ori_coll_run(team, g, channel, &call, ori_reducer_of(0, 0), send, recv, bytes);
}

ORIEL_DEV int oriel_coll_allreduce(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, void *recv, uint64_t count,
				   int type, int op)
{
	struct ori_terms call = ori_terms_reduce(ORI_COLL_ALLREDUCE, count, type, op);

	return ori_coll_run(team, g, channel, &call, ori_reducer_of(type, op), send, recv, 0);
}

ORIEL_DEV int oriel_coll_reducescatter(const struct oriel_team_dev *team, struct oriel_group g,
				       int channel, const void *send, void *recv, uint64_t count,
				       int type, int op)
{
	struct ori_terms call = ori_terms_reduce(ORI_COLL_REDUCESCATTER, count, type, op);

	return ori_coll_run(team, g, channel, &call, ori_reducer_of(type, op), send, recv,
			    count * oriel_type_bytes(type));
}

#include "coll_line.h"
#include "coll_v.h"

#endif
