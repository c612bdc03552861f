/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/bitcode/coll.h - externs of the collectives inside a kernel: oriel/device/coll.h.
 *
 * A team is the address of a struct oriel_team_dev in device memory, which the host wrote before
 * the kernel started.  Every call begins and ends with a meeting of the block.  So a Triton program
 * may store the source before it and load the result after it, with all its threads.
 *
 * All externs are inlined, so that constant types and operators choose their loops at compile time.
 * With values of the run the kernel contains all loops, and takes a minute to compile.
 */
#ifndef ORIEL_BITCODE_COLL_H
#define ORIEL_BITCODE_COLL_H

#include <oriel/device/coll.h>

#include "caller.h"

ORIEL_DEV const struct oriel_team_dev *caller_team(int64_t handle)
{
	return (const struct oriel_team_dev *)(const ORI_GLOBAL struct oriel_team_dev *)handle;
}

ORIEL_EXTERN_FAST int oriel_triton_coll_broadcast(int64_t team, int channel, int64_t data,
						  int64_t bytes, int root, int timeout_ms)
{
	return oriel_coll_broadcast(caller_team(team), caller_block(timeout_ms), channel,
				    (void *)data, (uint64_t)bytes, root);
}

ORIEL_EXTERN_FAST int oriel_triton_coll_allgather(int64_t team, int channel, int64_t send,
						  int64_t recv, int64_t bytes, int timeout_ms)
{
	return oriel_coll_allgather(caller_team(team), caller_block(timeout_ms), channel,
				    (const void *)send, (void *)recv, (uint64_t)bytes);
}

ORIEL_EXTERN_FAST int oriel_triton_coll_alltoall(int64_t team, int channel, int64_t send,
						 int64_t recv, int64_t bytes, int timeout_ms)
{
	return oriel_coll_alltoall(caller_team(team), caller_block(timeout_ms), channel,
				   (const void *)send, (void *)recv, (uint64_t)bytes);
}

ORIEL_EXTERN_FAST int oriel_triton_coll_allreduce(int64_t team, int channel, int64_t send,
						  int64_t recv, int64_t count, int type, int op,
						  int timeout_ms)
{
	return oriel_coll_allreduce(caller_team(team), caller_block(timeout_ms), channel,
				    (const void *)send, (void *)recv, (uint64_t)count, type, op);
}

ORIEL_EXTERN_FAST int oriel_triton_coll_reducescatter(int64_t team, int channel, int64_t send,
						      int64_t recv, int64_t count, int type, int op,
						      int timeout_ms)
{
	return oriel_coll_reducescatter(caller_team(team), caller_block(timeout_ms), channel,
					(const void *)send, (void *)recv, (uint64_t)count, type,
					op);
}

/* The number of this rank in the team, and how many there are. */
ORIEL_EXTERN_FAST int oriel_triton_team_rank(int64_t team)
{
	return caller_team(team)->win.comm.rank;
}

ORIEL_EXTERN_FAST int oriel_triton_team_nranks(int64_t team)
{
	return caller_team(team)->win.comm.nranks;
}

#endif
