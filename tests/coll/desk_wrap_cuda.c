/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/desk_wrap_cuda.c - long collectives of the host whose counts are about to wrap: the
 * calls and meetings of kernels/coll.h, on CUDA ranks of the fake driver.
 */
#include <stddef.h>

#include "coll/team/team.h"
#include "kernels/coll.h"
#include "reduce_bed.h"

/* Long enough for the kernels of the stage (coll/team/node.c). */
#define COUNT 40000u
#define BYTES 200000u

static int put_word(struct oriel_comm *c, void *to, uint64_t value)
{
	return oriel_copy(c, to, &value, sizeof(value));
}

/* The counts of this rank, and the words in which its peers have counted theirs. */
static void set_counts(struct rank_env *env, uint64_t count)
{
	const struct oriel_team_dev *t = &ori_team_of_calls(env->comm)->dev;
	uint8_t *desk = t->win.buffer + ori_team_of_calls(env->comm)->stage_off;
	struct oriel_comm *c = env->comm;

	REQUIRE_OK(oriel_comm_barrier(c, ORIEL_WORLD));
	REQUIRE_OK(put_word(c, desk + offsetof(struct ori_coll_desk, calls), count));
	REQUIRE_OK(put_word(c, desk + offsetof(struct ori_coll_desk, met), count));
	for (int r = 0; r < env->nranks; r++) {
		uint64_t *words = t->win.signal_words + (uint32_t)r * t->win.signal_stride;

		REQUIRE_OK(put_word(c, words + ORI_COLL_READY(t->channels), count));
		REQUIRE_OK(put_word(c, words + ORI_COLL_MET(t->channels), count));
	}
	REQUIRE_OK(oriel_comm_barrier(c, ORIEL_WORLD));
}

static uint64_t calls_of(struct rank_env *env)
{
	const struct oriel_team *t = ori_team_of_calls(env->comm);
	struct ori_coll_desk desk;

	CHECK_EQ(oriel_copy(env->comm, &desk, t->dev.win.buffer + t->stage_off, sizeof(desk)), 0);
	return desk.calls;
}

static void wrap_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { (1ull << 31) - 3, (1ull << 32) - 4, UINT64_MAX - 4 };
	struct bed b;

	bed_open(&b, env, 2 * 4 * COUNT + 64);
	bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 0, 0);
	REQUIRE(ori_team_of_calls(env->comm)->stage_off);
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
		set_counts(env, counts[i]);
		for (int k = 0; k < 3 && !check_failures; k++) {
			bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 0, k % 2);
			bed_broadcast(&b, BYTES, 0, k % env->nranks);
			bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_MAX, 10, 0, 0);
			bed_reducescatter(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM,
					  COUNT / (unsigned)env->nranks, 0, 0);
			CHECK_EQ(ori_team_last_way(env->comm), ORI_NODE_STAGED);
		}
		CHECK_EQ(calls_of(env), counts[i] + 12); /* it has wrapped */
	}
	bed_close(&b);
}

TEST(counts_of_a_desk_wrap)
{
	const struct bed_row rows[] = { { "two", 2, 1, NULL }, { "three", 3, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), wrap_rank, NULL);
}
