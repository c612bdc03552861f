/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/nodes_host.c - the host's long broadcasts and all-reduces of several nodes: every byte
 * against the model, the number of rounds, and calls that differ.
 */
#include <oriel/device/coll.h>

#include "coll/team/team.h"
#include "comm/comm.h"
#include "reduce_bed.h"

/* The rounds so far of a block of the host's calls. */
static uint64_t host_rounds(struct oriel_comm *c, uint64_t block)
{
	const struct oriel_team_dev *t = &ori_team_of_calls(c)->dev;
	struct ori_channel state;

	CHECK_EQ(oriel_copy(c, &state, t->win.buffer + block * t->channel_bytes, sizeof(state)), 0);
	return state.rounds;
}

/*
 * Each block gets 1 MiB.  With 2x2 ranks these are 2 chunks of the root and a round more, where a
 * flat broadcast has 4 chunks.  Several blocks also compare the calls in a round.
 */
static void host_rank(struct rank_env *env)
{
	const struct oriel_team *team;
	uint64_t most, before, blocks;
	struct bed b;

	bed_open(&b, env, 100);
	bed_broadcast(&b, 10, 0, 0); /* makes the team */
	bed_close(&b);
	team = ori_team_of_calls(env->comm);
	blocks = env->comm->device->separate ? (uint64_t)team->blocks : 1;
	blocks = blocks < team->dev.channels ? blocks : team->dev.channels;
	most = blocks << 20;
	bed_open(&b, env, 2 * most + 64);
	before = host_rounds(env->comm, 0);
	bed_broadcast(&b, most, 0, 1);
	if (env->nranks == 4)
		CHECK_EQ(host_rounds(env->comm, 0) - before, blocks > 1 ? 4 : 3);
	/* 256 KiB for each possible block: half of them get 512 KiB, a chunk of the root */
	before = host_rounds(env->comm, 0);
	if (blocks >= 4)
		bed_broadcast(&b, blocks / 2 * (512u << 10), 0, 1);
	if (blocks >= 4 && env->nranks == 4)
		CHECK_EQ(host_rounds(env->comm, 0) - before, 3);
	/* 512 KiB for each and 2 bytes in all: shares are rounded up, so one block stays out */
	before = host_rounds(env->comm, blocks - 1);
	bed_broadcast(&b, most / 2 + 2, 0, 1);
	if (blocks > 1)
		CHECK_EQ(host_rounds(env->comm, blocks - 1), before);
	for (int i = 0; i < 3 && !check_failures; i++) {
		bed_broadcast(&b, most - 5 * (uint64_t)i, (uint64_t)i, env->nranks - 1 - i);
		bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, most / 4 - 3, 4, i & 1);
		bed_reducescatter(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, most / 8 / 8, 0, i);
		bed_broadcast(&b, 100, 0, 0);
	}
	bed_close(&b);
}

TEST(calls_of_the_host)
{
	const struct bed_row few[] = { { "two by two", 4, 1, "2x2" },
				       { "three sizes", 6, 0, "0,1,1,2,2,2" } };

	bed_rows(few, ORI_COUNT(few), host_rank, NULL);
}

/* A rank that broadcasts another number of bytes: all learn it, and the next call is right. */
static void differ_rank(struct rank_env *env)
{
	struct bed b;
	int err;

	bed_open(&b, env, 2 * ORI_NODES_BYTES);
	for (int i = 0; i < 2; i++) {
		err = oriel_broadcast(env->comm, b.memory,
				      env->rank == 1 ?
					      i ? ORI_NODES_BYTES / 2 : ORI_NODES_BYTES + 4 :
					      ORI_NODES_BYTES,
				      1, 2, NULL);
		if (!err)
			err = oriel_comm_sync(env->comm, NULL);
		CHECK_EQ(err, ORIEL_EMISMATCH);
		bed_broadcast(&b, ORI_NODES_BYTES, 0, 2);
		bed_allreduce(&b, ORIEL_TYPE_INT64, ORIEL_REDUCE_SUM, ORI_NODES_BYTES / 8, 0, 1);
	}
	bed_close(&b);
}

TEST(calls_that_differ)
{
	const struct bed_row few[] = { { "two by two", 4, 1, "2x2" } };

	bed_rows(few, ORI_COUNT(few), differ_rank, NULL);
}
