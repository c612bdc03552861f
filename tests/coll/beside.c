/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/beside.c - collectives of two comms at the same time, on two threads of every rank.
 *
 * The threads of a rank take turns in no agreed way: on one rank the first comm is ahead, on
 * another the second.  Data lies on the stacks of the threads, which no peer can map.
 */
#include <pthread.h>

#include "reduce_bed.h"

#define ROUNDS 150
#define ELEMENTS 700

struct side {
	pthread_t thread;
	struct oriel_comm *comm;
	uint64_t first; /* of this side's numbers */
};

static void sum_once(const struct side *s, int rank, int n, int round)
{
	uint64_t mine[ELEMENTS], all[ELEMENTS];

	for (uint64_t i = 0; i < ELEMENTS; i++)
		mine[i] = s->first + (uint64_t)(rank + round) + i;
	memset(all, BED_POISON, sizeof(all));
	REQUIRE_OK(oriel_allreduce(s->comm, mine, all, ELEMENTS, ORIEL_TYPE_UINT64,
				   ORIEL_REDUCE_SUM, NULL));
	for (uint64_t i = 0; i < ELEMENTS; i++) {
		uint64_t sum = (uint64_t)n * (s->first + (uint64_t)round + i);

		REQUIRE(all[i] == sum + (uint64_t)(n * (n - 1) / 2));
	}
}

static void gather_once(const struct side *s, int rank, int n, int round)
{
	uint64_t mine = s->first + (uint64_t)(rank * ROUNDS + round), all[8] = { 0 };

	REQUIRE_OK(oriel_allgather(s->comm, &mine, all, 1, sizeof(mine), NULL));
	for (int r = 0; r < n; r++)
		CHECK_EQ(all[r], s->first + (uint64_t)(r * ROUNDS + round));
}

static void broadcast_once(const struct side *s, int rank, int n, int round)
{
	char text[64];

	snprintf(text, sizeof(text), "%d of %" PRIu64, rank == round % n ? round : -1, s->first);
	REQUIRE_OK(oriel_broadcast(s->comm, text, sizeof(text), 1, round % n, NULL));
	CHECK_EQ(atoi(text), round);
	CHECK_EQ(atoll(strstr(text, "of ") + 3), s->first);
}

static void *side_main(void *arg)
{
	const struct side *s = arg;
	int rank = oriel_comm_rank(s->comm), n = oriel_comm_size(s->comm);

	for (int i = 0; i < ROUNDS && !check_failures; i++) {
		sum_once(s, rank, n, i);
		gather_once(s, rank, n, i);
		broadcast_once(s, rank, n, i);
	}
	return NULL;
}

static void beside_rank(struct rank_env *env)
{
	struct side sides[2];
	int back[8];

	for (int r = 0; r < env->nranks; r++)
		back[r] = env->nranks - 1 - r;
	sides[0].comm = env->comm;
	sides[0].first = 1000;
	sides[1].first = 900000;
	REQUIRE_OK(oriel_comm_subset(env->comm, back, env->nranks, 0, &sides[1].comm));
	for (int i = 0; i < 2; i++)
		REQUIRE(!pthread_create(&sides[i].thread, NULL, side_main, &sides[i]));
	for (int i = 0; i < 2; i++)
		pthread_join(sides[i].thread, NULL);
	CHECK_EQ(oriel_comm_destroy(sides[1].comm), 0);
}

TEST(two_comms_at_once)
{
	const struct bed_row rows[] = { { "threads", 3, 0, NULL },
					{ "queued threads", 2, 0, "2x1" },
					{ "processes", 4, 1, NULL },
					{ "queued processes", 3, 1, "3x1" },
					{ "mixed processes", 4, 1, "2x2" } };

	if (bed_on_cuda())
		check_skip("the data lies on stacks of host threads");
	else
		bed_rows(rows, ORI_COUNT(rows), beside_rank, NULL);
}
