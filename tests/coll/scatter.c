/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/scatter.c - long reduce-scatters of the host among CPU ranks that map each other: send
 * buffers in windows, which all ranks read where they are (src/coll/team/direct.c).
 *
 * reduce.c tests the call on every transport, from memory that no peer can map.
 */
#include <unistd.h>

#include "coll/team/cards.h"
#include "coll/team/team.h"
#include "scatter_bed.h"

static const struct bed_row rows[] = {
	{ "alone", 1, 0, NULL },           { "two threads", 2, 0, NULL },
	{ "three threads", 3, 0, NULL },   { "eight threads", 8, 0, NULL },
	{ "two processes", 2, 1, NULL },   { "three processes", 3, 1, NULL },
	{ "eight processes", 8, 1, NULL },
};

/* How a call went.  Short ones have only one way. */
static void check_way(const struct memory *m, const struct kind *k, enum where where)
{
	uint64_t n = (uint64_t)m->env->nranks, all = n * block_of(k);
	int found = where == IN_FIRST || where == IN_EITHER;

	if (n < 2 || all <= (n > 2 ? 64u << 10 : 16u << 10))
		return;
	CHECK_EQ(ori_team_last_way(m->env->comm), found                      ? ORI_CARDS_DIRECT :
						  all <= ORI_CARD_BELT_BYTES ? ORI_CARDS_ONCE :
									       ORI_CARDS_ROUNDS);
}

/* ---- sizes and places ------------------------------------------------------------------------ */

/* Bytes of all blocks, about where the way of the data changes. */
static const uint64_t sizes[] = { 0, 16u << 10, 64u << 10, 256u << 10, 500000 };

static void sizes_rank(struct rank_env *env)
{
	struct kind k = { ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 0 };
	struct memory m;

	open_memory(&m, env);
	for (size_t i = 0; i < ORI_COUNT(sizes) && !check_failures; i++)
		for (uint64_t more = 0; more < 2; more++)
			for (int where = 0; where < WHERES; where++) {
				k.count = sizes[i] / 4 / (uint64_t)env->nranks + more;
				/* ranks may have their results in different places */
				scatter(&m, &k, sender(&m, (enum where)where),
					(enum place)((i + more + (unsigned)env->rank) % PLACES));
				check_way(&m, &k, (enum where)where);
			}
	close_memory(&m);
}

TEST(sizes_around_every_change_of_the_way)
{
	bed_rows(rows, ORI_COUNT(rows), sizes_rank, NULL);
}

static void places_rank(struct rank_env *env)
{
	struct kind k = { ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, 0 };
	struct memory m;

	open_memory(&m, env);
	k.count = 300000 / 8 / (uint64_t)env->nranks;
	for (int where = 0; where < WHERES && !check_failures; where++)
		for (int place = 0; place < PLACES; place++)
			for (uint64_t skew = 0; skew < 8; skew += 5) {
				scatter(&m, &k,
					sender(&m, (enum where)where) +
						(skew ? skew + (uint64_t)env->rank : 0),
					(enum place)place);
				check_way(&m, &k, (enum where)where);
			}
	close_memory(&m);
}

TEST(results_in_every_place_with_and_without_alignment)
{
	bed_rows(rows, ORI_COUNT(rows), places_rank, NULL);
}

static void types_rank(struct rank_env *env)
{
	struct memory m;
	struct kind k;

	open_memory(&m, env);
	for (k.type = 1; k.type <= MODEL_TYPES && !check_failures; k.type++)
		for (k.op = 1; k.op <= MODEL_OPS && !check_failures; k.op++) {
			if (!model_is_valid(k.type, k.op))
				continue;
			k.count = 80000 / model_bytes(k.type) / (uint64_t)env->nranks;
			scatter(&m, &k, sender(&m, IN_EITHER),
				(enum place)(k.op % 2 ? ON_START : ELSEWHERE));
		}
	close_memory(&m);
}

TEST(every_type_and_operator)
{
	bed_rows(few, 1, types_rank, NULL);
}

/* ---- who may write when ---------------------------------------------------------------------- */

/*
 * A buffer belongs to its rank as soon as the call returns: it is changed at once.  A result on
 * block 0 replaces what rank 0 reads.  Ranks take turns at being slow.
 */
static void reuse_rank(struct rank_env *env)
{
	enum { COUNT = 30000 };
	int n = env->nranks, rank = env->rank;
	uint64_t *send, *result = malloc(COUNT * sizeof(*result));
	struct memory m;

	open_memory(&m, env);
	send = (uint64_t *)(void *)sender(&m, IN_FIRST);
	for (uint64_t round = 1; round <= 60 && !check_failures; round++) {
		uint64_t wrong = 0, *recv = round % 3 == 0 ? result :
					    round % 3 == 1 ? send :
							     send + (uint64_t)rank * COUNT;

		for (int i = 0; i < n * COUNT; i++)
			send[i] = round + (uint64_t)(i / COUNT);
		if ((int)(round / 3 % (unsigned)n) == rank)
			usleep(200);
		CHECK_EQ(oriel_reducescatter(env->comm, send, recv, COUNT, ORIEL_TYPE_UINT64,
					     ORIEL_REDUCE_SUM, NULL),
			 0);
		for (int i = 0; i < COUNT; i++)
			wrong += recv[i] != (uint64_t)n * (round + (unsigned)rank);
		memset(send, 0xff, (size_t)n * COUNT * sizeof(*send));
		CHECK_EQ(wrong, 0);
	}
	free(result);
	close_memory(&m);
}

TEST(a_buffer_may_change_when_the_call_returns)
{
	bed_rows(rows, ORI_COUNT(rows), reuse_rank, NULL);
}

/* Long calls of all kinds in turn, in windows and out of them. */
static void mixed_rank(struct rank_env *env)
{
	struct kind k = { ORIEL_TYPE_INT32, ORIEL_REDUCE_MAX, 0 };
	uint64_t value;
	struct memory m;

	open_memory(&m, env);
	for (int i = 0; i < 36 && !check_failures; i++) {
		k.count = (uint64_t)(i * 7919 % 30000 + 1);
		scatter(&m, &k, sender(&m, (enum where)(i % WHERES)), (enum place)(i / 4 % PLACES));
		value = 1;
		CHECK_EQ(oriel_allreduce(env->comm, NULL, &value, 1, ORIEL_TYPE_UINT64,
					 ORIEL_REDUCE_SUM, NULL),
			 0);
		CHECK_EQ(value, env->nranks);
		CHECK_EQ(oriel_broadcast(env->comm, sender(&m, (enum where)(i % WHERES)), 9000, 1,
					 i % env->nranks, NULL),
			 0);
	}
	close_memory(&m);
}

TEST(many_calls_of_all_kinds)
{
	bed_rows(few, ORI_COUNT(few), mixed_rank, NULL);
}
