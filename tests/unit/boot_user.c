/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/boot_user.c - the boot over a user's callbacks.  A thread boot plays the user's
 * runtime; its ranks are the threads of the test.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../../src/boot/boot.h"
#include "../../src/util/util.h"
#include "../check.h"

#define RANKS_MAX 8
#define TIMEOUT_NS (60 * ORI_NS_PER_S)

/* One rank's end of the played runtime. */
struct runtime {
	struct oriel_boot *boot;
	int fail_with, destroyed, aborted;
	size_t least_bytes;
};

static int play_allgather(void *ctx, const void *mine, void *all, size_t bytes)
{
	struct runtime *rt = ctx;

	if (rt->fail_with)
		return rt->fail_with;
	if (bytes < rt->least_bytes)
		rt->least_bytes = bytes;
	return rt->boot->ops->allgather(rt->boot, mine, all, bytes, TIMEOUT_NS);
}

static void play_abort(void *ctx, int why)
{
	((struct runtime *)ctx)->aborted = why;
}

static void play_destroy(void *ctx)
{
	((struct runtime *)ctx)->destroyed++;
}

static const struct oriel_boot_ops play_ops = { sizeof(struct oriel_boot_ops), play_allgather,
						play_abort, play_destroy };

struct user_rank {
	pthread_t thread;
	struct runtime rt;
	void (*fn)(struct oriel_boot *, struct runtime *);
};

static void *rank_main(void *arg)
{
	struct user_rank *me = arg;
	struct oriel_boot *under = me->rt.boot, *boot;
	int err;

	me->rt.least_bytes = SIZE_MAX;
	err = oriel_boot_user(&play_ops, &me->rt, under->rank, under->nranks, &boot);
	CHECK_EQ(err, 0);
	if (!err) {
		me->fn(boot, &me->rt);
		CHECK_EQ(me->rt.destroyed, 0);
		CHECK_EQ(oriel_boot_destroy(boot), 0);
		CHECK_EQ(me->rt.destroyed, 1);
	}
	oriel_boot_destroy(under);
	return NULL;
}

static void run_ranks(int n, void (*fn)(struct oriel_boot *, struct runtime *))
{
	static struct user_rank ranks[RANKS_MAX];
	struct oriel_boot *boots[RANKS_MAX];

	REQUIRE_OK(oriel_boot_threads(n, boots));
	memset(ranks, 0, sizeof(ranks));
	for (int r = 0; r < n; r++) {
		ranks[r].rt.boot = boots[r];
		ranks[r].fn = fn;
		pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
	}
	for (int r = 0; r < n; r++)
		pthread_join(ranks[r].thread, NULL);
}

static int gather_u64(struct oriel_boot *boot, uint64_t mine, uint64_t *all)
{
	return boot->ops->allgather(boot, &mine, all, sizeof(mine), TIMEOUT_NS);
}

static void gathers(struct oriel_boot *boot, struct runtime *rt)
{
	uint64_t all[RANKS_MAX];

	CHECK_EQ(oriel_boot_rank(boot), boot->rank);
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(gather_u64(boot, (uint64_t)(i + boot->rank), all), 0);
		for (int r = 0; r < boot->nranks; r++)
			CHECK_EQ(all[r], i + r);
	}
	CHECK_EQ(boot->ops->allgather(boot, NULL, NULL, 0, TIMEOUT_NS), 0);
	CHECK_EQ(rt->least_bytes, 1); /* never zero: not every runtime can */
	boot->ops->abort(boot, ORIEL_EPEER, "enough");
	CHECK_EQ(rt->aborted, ORIEL_EPEER);
}

TEST(callbacks_are_used)
{
	run_ranks(1, gathers);
	run_ranks(4, gathers);
}

static void whole_groups(struct oriel_boot *boot, struct runtime *rt)
{
	int same[] = { 0, 1, 2, 3 }, turned[] = { 3, 1, 0, 2 };
	struct oriel_boot *a, *b, *c;
	uint64_t all[4];

	REQUIRE_OK(boot->ops->subgroup(boot, same, 4, 0, TIMEOUT_NS, &a));
	REQUIRE_OK(a->ops->subgroup(a, turned, 4, 0, TIMEOUT_NS, &b));
	REQUIRE_OK(b->ops->subgroup(b, turned, 4, 0, TIMEOUT_NS, &c));
	CHECK_EQ(turned[b->rank], boot->rank);
	CHECK_EQ(turned[turned[c->rank]], boot->rank);
	CHECK_EQ(gather_u64(b, (uint64_t)boot->rank, all), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(all[i], turned[i]);
	CHECK_EQ(gather_u64(c, (uint64_t)boot->rank, all), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(all[i], turned[turned[i]]);
	ori_boot_drop(b);
	ori_boot_drop(a);
	ori_boot_drop(c);
	CHECK_EQ(rt->destroyed, 0);
}

TEST(whole_subgroups_go_on_with_the_callbacks)
{
	run_ranks(4, whole_groups);
}

/* Two of two, one alone: all three groups are made by one call of the whole parent. */
static void small_groups(struct oriel_boot *boot, struct runtime *rt)
{
	int members[3][2] = { { 3, 0 }, { 1, 2 }, { 4, 4 } };
	int group = boot->rank == 4 ? 2 : boot->rank == 1 || boot->rank == 2,
	    n = group == 2 ? 1 : 2;
	struct oriel_boot *sub;
	uint64_t all[2];

	(void)rt;
	REQUIRE_OK(boot->ops->subgroup(boot, members[group], n, (uint32_t)group, TIMEOUT_NS, &sub));
	CHECK_EQ(members[group][sub->rank], boot->rank);
	CHECK_EQ(gather_u64(sub, (uint64_t)boot->rank, all), 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(all[i], members[group][i]);
	CHECK_HAS(sub->ops->name, n == 1 ? "single" : "tcp");
	ori_boot_drop(sub);
}

TEST(small_subgroups_meet_by_tcp)
{
	run_ranks(5, small_groups);
}

static void failing(struct oriel_boot *boot, struct runtime *rt)
{
	uint64_t all[RANKS_MAX];

	rt->fail_with = 17;
	CHECK_EQ(gather_u64(boot, 0, all), ORIEL_EBOOT);
	CHECK_HAS(oriel_last_error(), "callback returned 17");
	CHECK_EQ(boot->ops->allgather(boot, NULL, NULL, 0, TIMEOUT_NS), ORIEL_EBOOT);
}

TEST(a_failing_callback_is_named)
{
	run_ranks(2, failing);
}

TEST(bad_arguments)
{
	struct oriel_boot_ops ops = play_ops;
	struct oriel_boot *boot = NULL;

	CHECK_EQ(oriel_boot_user(NULL, NULL, 0, 1, &boot), ORIEL_EINVAL);
	CHECK_EQ(oriel_boot_user(&ops, NULL, 0, 1, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_boot_user(&ops, NULL, 1, 1, &boot), ORIEL_ERANGE);
	ops.allgather = NULL;
	CHECK_EQ(oriel_boot_user(&ops, NULL, 0, 1, &boot), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "allgather is NULL");
	ops = play_ops;
	ops.size--;
	CHECK_EQ(oriel_boot_user(&ops, NULL, 0, 1, &boot), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "size");
	ops = play_ops;
	ops.abort = NULL;
	ops.destroy = NULL;
	REQUIRE_OK(oriel_boot_user(&ops, NULL, 0, 1, &boot));
	boot->ops->abort(boot, ORIEL_EPEER, "nobody hears");
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

/* Some ranks cannot meet without the others: they are told so, and nothing waits. */
static void subsets(struct oriel_boot *boot, struct runtime *rt)
{
	int pair[2] = { 0, 1 }, all[3] = { 2, 1, 0 };
	struct oriel_boot *sub = NULL;
	uint64_t got[RANKS_MAX];

	(void)rt;
	if (boot->rank < 2) {
		CHECK_EQ(boot->ops->subset(boot, pair, 2, 0, "the_call", TIMEOUT_NS, &sub),
			 ORIEL_EUNSUPPORTED);
		CHECK_HAS(oriel_last_error(), "the_call");
		CHECK_HAS(oriel_last_error(), "oriel_comm_split");
	}
	REQUIRE_OK(boot->ops->subset(boot, &boot->rank, 1, 0, "the_call", TIMEOUT_NS, &sub));
	CHECK_EQ(sub->nranks, 1);
	ori_boot_drop(sub);
	REQUIRE_OK(boot->ops->subset(boot, all, 3, 0, "the_call", TIMEOUT_NS, &sub));
	CHECK_EQ(gather_u64(sub, (uint64_t)boot->rank, got), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(got[i], 2 - i);
	ori_boot_drop(sub);
}

TEST(subsets_of_one_and_of_all)
{
	run_ranks(3, subsets);
}

static int log_fd; /* what the library logs goes there */

static int has_logged(void)
{
	char text[4000];
	ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	return strstr(text, "signal 3 of window 0 from rank 1: have 0, want 1; "
			    "rank 1 waits for nothing in this comm") != NULL;
}

/* Such a boot asks no rank, so the report has what the peer's memory says. */
static void signal_late(struct oriel_boot *boot, struct runtime *rt)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	uint64_t deadline = ori_deadline_ns(TIMEOUT_NS / 2);
	struct oriel_window *w = NULL;
	struct oriel_comm *comm = NULL;

	(void)rt;
	o.bytes = 64;
	REQUIRE_OK(oriel_comm_create(boot, NULL, &comm));
	REQUIRE_OK(oriel_window_create(comm, &o, &w));
	if (boot->rank == 0) {
		CHECK_EQ(oriel_window_wait_signal(w, 1, 3, ORIEL_GE, 1, NULL), 0);
	} else {
		while (!has_logged() && ori_now_ns() < deadline)
			usleep(1000);
		CHECK_EQ(oriel_window_signal(w, 0, 3, ORIEL_ADD, 1, NULL), 0);
	}
	CHECK_EQ(oriel_window_destroy(w), 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
}

TEST(a_late_wait_names_a_rank_that_cannot_be_asked)
{
	int standard_error = dup(STDERR_FILENO);

	log_fd = memfd_create("log", MFD_CLOEXEC);
	REQUIRE(log_fd >= 0 && standard_error >= 0);
	dup2(log_fd, STDERR_FILENO);
	setenv("ORIEL_LATE", "0.1", 1);
	run_ranks(2, signal_late);
	unsetenv("ORIEL_LATE");
	dup2(standard_error, STDERR_FILENO);
	close(standard_error);
	CHECK(has_logged());
	close(log_fd);
}
