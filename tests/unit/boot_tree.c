/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/boot_tree.c - large results of the TCP boot come down a tree: they are right, ranks
 * may leave at once, and all ranks name a rank that dies in the middle of the tree.
 *
 * On one machine the boot does not choose the tree, so the test sets ORIEL_BOOT_TREE=on.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "../../src/boot/boot.h"
#include "../../src/boot/tcp_client.h"
#include "../../src/util/util.h"
#include "../check.h"
#include "../ranks.h"

#define RANKS 90 /* a leader, its eight, theirs: three levels */
#define BYTES 2048
#define TIMEOUT_NS (60 * ORI_NS_PER_S)

struct tree_rank {
	pthread_t thread;
	struct oriel_boot_id id;
	int rank, nranks;
	void (*fn)(struct oriel_boot *);
};

static void *rank_main(void *arg)
{
	struct tree_rank *me = arg;
	struct oriel_boot *boot = NULL;
	int err = oriel_boot_join(&me->id, me->rank, me->nranks, &boot);

	CHECK_EQ(err, 0);
	if (err)
		return NULL;
	me->fn(boot);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
	return NULL;
}

static void run_threads(int n, void (*fn)(struct oriel_boot *))
{
	static struct tree_rank ranks[RANKS];
	struct oriel_boot_id id;

	REQUIRE_OK(oriel_boot_make_id(&id));
	for (int r = 0; r < n; r++) {
		ranks[r] = (struct tree_rank){ .id = id, .rank = r, .nranks = n, .fn = fn };
		pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
	}
	for (int r = 0; r < n; r++)
		pthread_join(ranks[r].thread, NULL);
}

/* One gather of BYTES a rank; the bytes tell rank and round. */
static int gather(struct oriel_boot *boot, int round)
{
	unsigned char mine[BYTES], *all = malloc((size_t)boot->nranks * BYTES);
	int err, wrong = 0;

	memset(mine, boot->rank * 3 + round, sizeof(mine));
	err = boot->ops->allgather(boot, mine, all, BYTES, TIMEOUT_NS);
	for (int r = 0; r < boot->nranks && !err; r++)
		wrong += all[r * BYTES] != (unsigned char)(r * 3 + round) ||
			 all[r * BYTES + BYTES - 1] != (unsigned char)(r * 3 + round);
	CHECK_EQ(wrong, 0);
	free(all);
	return err;
}

/* Links are built while the first rounds use the hub.  No result may be lost or wrong. */
static void many_rounds(struct oriel_boot *boot)
{
	for (int i = 0; i < 30; i++)
		CHECK_EQ(gather(boot, i), 0);
}

/* Until it has been passed on at least once more, on some rank. */
static void until_tree(struct oriel_boot *boot)
{
	uint64_t before = __atomic_load_n(&ori_tcp_relay_count, __ATOMIC_RELAXED), all[RANKS], mine;
	uint64_t start = ori_now_ns();
	int err = 0;

	/* 1: it has; 2: too late.  Rank 0's word counts. */
	for (int i = 0; !err; i++) {
		err = gather(boot, i);
		mine = __atomic_load_n(&ori_tcp_relay_count, __ATOMIC_RELAXED) > before + RANKS;
		if (!mine && ori_now_ns() - start > TIMEOUT_NS)
			mine = 2;
		if (!err)
			err = boot->ops->allgather(boot, &mine, all, sizeof(mine), TIMEOUT_NS);
		if (err || all[0])
			break;
		ori_sleep_ns(ORI_NS_PER_S / 200);
	}
	CHECK_EQ(err, 0);
	CHECK(err || all[0] == 1);
}

TEST(results_are_right_and_come_down_the_tree)
{
	setenv("ORIEL_BOOT_TREE", "on", 1);
	run_threads(RANKS, many_rounds);
	run_threads(RANKS, until_tree);
	unsetenv("ORIEL_BOOT_TREE");
}

/*
 * All leave right after a result that is still on its way to some: none takes that for a failure.
 */
static void leave_at_once(struct oriel_boot *boot)
{
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gather(boot, i), 0);
}

TEST(ranks_may_leave_while_results_are_under_way)
{
	setenv("ORIEL_BOOT_TREE", "on", 1);
	for (int i = 0; i < 10; i++)
		run_threads(48, leave_at_once);
	unsetenv("ORIEL_BOOT_TREE");
}

static void reversed(struct oriel_boot *boot)
{
	int members[RANKS], half[RANKS], n = boot->nranks;
	struct oriel_boot *sub;

	for (int i = 0; i < n; i++) {
		members[i] = n - 1 - i;
		half[i] = i * 2 + boot->rank % 2;
	}
	/* all in another order: by the tree; half of them: by the hub */
	REQUIRE_OK(boot->ops->subgroup(boot, members, n, 7, TIMEOUT_NS, &sub));
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gather(sub, i), 0);
	ori_boot_drop(sub);
	REQUIRE_OK(boot->ops->subgroup(boot, half, n / 2, (uint32_t)(boot->rank % 2), TIMEOUT_NS,
				       &sub));
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gather(sub, i), 0);
	ori_boot_drop(sub);
}

TEST(groups_of_all_and_of_some)
{
	setenv("ORIEL_BOOT_TREE", "on", 1);
	run_threads(64, reversed);
	unsetenv("ORIEL_BOOT_TREE");
}

#define VICTIM 3 /* passes on to ranks 25 to 32 */

static void until_failure(struct rank_env *env)
{
	int err = 0;

	for (int i = 0; i < 2000 && !err; i++) {
		if (env->rank == VICTIM && i == 40)
			raise(SIGKILL);
		err = gather(env->boot, i);
	}
	CHECK_EQ(err, ORIEL_EPEER);
	CHECK_HAS(oriel_last_error(), "rank 3 died");
}

TEST(a_dead_rank_of_the_tree_is_named_by_all)
{
	struct ranks_options options = {
		.nranks = 40, .processes = 1, .no_comm = 1, .timeout_s = 60
	};

	setenv("ORIEL_BOOT_TREE", "on", 1);
	options.expect_killed = 1ull << VICTIM;
	ranks_run(&options, until_failure, NULL);
	unsetenv("ORIEL_BOOT_TREE");
}
