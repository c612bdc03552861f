/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/team_mix.c - the kernel of team_mix.h: several blocks, up to 64 ranks, two launches of
 * a rank at once.
 */
#include <pthread.h>

#include "team_mix.h"

static void mix_rank(struct rank_env *env)
{
	int few = env->nranks > 8, real = bed_on_cuda() && !fake_cuda_kernel;
	struct job j;

	open_job(&j, env, 10, few ? 300 : 5000);
	for (int i = 0; i < 3 && !check_failures; i++) {
		CHECK_EQ(launch(&j, i % 2, few ? 2 : CHANNELS - i % 2, real ? 64 << i : 1 + i,
				NULL),
			 0);
		CHECK_EQ(oriel_comm_sync(env->comm, NULL), 0);
	}
	close_job(&j);
}

TEST(different_calls_at_once)
{
	const struct bed_row rows[] = {
		{ "three threads", 3, 0, NULL },     { "eight processes", 8, 1, NULL },
		{ "mixed threads", 4, 0, "2x2" },    { "mixed processes", 4, 1, "2x2" },
		{ "queued processes", 3, 1, "3x1" },
	};

	bed_both_ways(rows, ORI_COUNT(rows), mix_rank);
}

/* tools/test-gpu.sh leaves this out: MPS may have too few channels for so many processes. */
TEST(many_ranks)
{
	const struct bed_row rows[] = { { "17 processes", 17, 1, NULL },
					{ "64 threads", 64, 0, NULL },
					{ "mixed threads", 16, 0, "4x4" } };

	bed_both_ways(rows, ORI_COUNT(rows), mix_rank);
}

/* ---- two launches of a rank at once ---------------------------------------------------------- */

struct launcher {
	struct job *job;
	int channel, err;
};

static void *launch_some(void *arg)
{
	struct launcher *l = (struct launcher *)arg;

	for (int i = 0; i < 4 && !l->err; i++)
		l->err = launch(l->job, l->channel, 2, 1 + i % 2, NULL);
	return NULL;
}

/* Two threads of a rank launch kernels, each with its own channels. */
static void two_launches_rank(struct rank_env *env)
{
	struct launcher other = { NULL, 2, 0 }, mine = { NULL, 0, 0 };
	pthread_t thread;
	struct job j;

	open_job(&j, env, 10, 2000);
	mine.job = other.job = &j;
	REQUIRE(!pthread_create(&thread, NULL, launch_some, &other));
	launch_some(&mine);
	pthread_join(thread, NULL);
	CHECK_EQ(mine.err, 0);
	CHECK_EQ(other.err, 0);
	close_job(&j);
}

TEST(two_kernels_at_once)
{
	const struct bed_row rows[] = { { "two processes", 2, 1, NULL },
					{ "three threads", 3, 0, NULL },
					{ "mixed processes", 4, 1, "2x2" } };

	if (bed_on_cuda()) { /* a rank's kernels come one after the other in its stream */
		check_skip("for CPU ranks");
		return;
	}
	bed_both_ways(rows, ORI_COUNT(rows), two_launches_rank);
}
