/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/boot_threads.c - the boot whose ranks are threads of one process. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../src/boot/boot.h"
#include "../../src/boot/round.h"
#include "../../src/util/util.h"
#include "../check.h"

#define RANKS_MAX 16
#define TIMEOUT_NS                                                                                 \
	(60 * ORI_NS_PER_S) /* of what should work: any thread may stand still for seconds */

struct thread_rank {
	pthread_t thread;
	struct oriel_boot *boot;
	void (*fn)(struct oriel_boot *);
};

static void *rank_main(void *arg)
{
	struct thread_rank *me = arg;

	ori_log_rank_set(me->boot->rank);
	me->fn(me->boot);
	CHECK_EQ(oriel_boot_destroy(me->boot), 0);
	return NULL;
}

static void run_ranks(int n, void (*fn)(struct oriel_boot *))
{
	static struct thread_rank ranks[RANKS_MAX];
	struct oriel_boot *boots[RANKS_MAX];

	REQUIRE_OK(oriel_boot_threads(n, boots));
	for (int r = 0; r < n; r++) {
		ranks[r].boot = boots[r];
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

static void many_gathers(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX];

	CHECK_EQ(oriel_boot_rank(boot), boot->rank);
	for (int i = 0; i < 500; i++) {
		CHECK_EQ(gather_u64(boot, (uint64_t)(i * 100 + boot->rank), all), 0);
		for (int r = 0; r < boot->nranks; r++)
			CHECK_EQ(all[r], i * 100 + r);
		if (i % 7 == 0)
			CHECK_EQ(boot->ops->allgather(boot, NULL, NULL, 0, TIMEOUT_NS), 0);
	}
}

TEST(allgather)
{
	run_ranks(1, many_gathers);
	run_ranks(2, many_gathers);
	run_ranks(8, many_gathers);
}

static void rows_and_columns(struct oriel_boot *boot)
{
	int row[3], column[2], me = boot->rank;
	struct oriel_boot *rows, *columns, *pair;
	int both[2] = { 1, 0 };
	uint64_t all[RANKS_MAX];

	for (int i = 0; i < 3; i++)
		row[i] = me / 3 * 3 + i;
	for (int i = 0; i < 2; i++)
		column[i] = i * 3 + me % 3;
	REQUIRE_OK(boot->ops->subgroup(boot, row, 3, (uint32_t)me / 3, TIMEOUT_NS, &rows));
	REQUIRE_OK(boot->ops->subgroup(boot, column, 2, (uint32_t)me % 3, TIMEOUT_NS, &columns));
	CHECK_EQ(rows->rank, me % 3);
	CHECK_EQ(columns->rank, me / 3);
	CHECK_EQ(gather_u64(rows, (uint64_t)me, all), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(all[i], row[i]);
	/* a group of a group, turned round */
	REQUIRE_OK(columns->ops->subgroup(columns, both, 2, 0, TIMEOUT_NS, &pair));
	CHECK_EQ(pair->rank, 1 - columns->rank);
	CHECK_EQ(gather_u64(pair, (uint64_t)me, all), 0);
	CHECK_EQ(all[0], 3 + me % 3);
	CHECK_EQ(all[1], me % 3);
	ori_boot_drop(pair);
	ori_boot_drop(columns);
	ori_boot_drop(rows);
}

TEST(subgroups)
{
	run_ranks(6, rows_and_columns);
}

static void bad_subgroups(struct oriel_boot *boot)
{
	int twice[] = { 0, 1, 1 }, out[] = { 0, 1, 3 }, without_me[] = { 0, 1 };
	struct oriel_boot *sub = NULL;

	CHECK_EQ(boot->ops->subgroup(boot, twice, 3, 0, TIMEOUT_NS, &sub), ORIEL_EINVAL);
	CHECK_EQ(boot->ops->subgroup(boot, out, 3, 0, TIMEOUT_NS, &sub), ORIEL_EINVAL);
	CHECK_EQ(boot->ops->subgroup(boot, out, 0, 0, TIMEOUT_NS, &sub), ORIEL_EINVAL);
	CHECK_EQ(boot->ops->subgroup(boot, NULL, 1, 0, TIMEOUT_NS, &sub), ORIEL_EINVAL);
	if (boot->rank == 2)
		CHECK_EQ(boot->ops->subgroup(boot, without_me, 2, 0, TIMEOUT_NS, &sub),
			 ORIEL_EINVAL);
	CHECK(!sub);
}

TEST(subgroups_of_wrong_lists)
{
	run_ranks(3, bad_subgroups);
}

static void different_lists(struct oriel_boot *boot)
{
	int up[] = { 0, 1 }, down[] = { 1, 0 };
	struct oriel_boot *sub = NULL;
	uint64_t all[2];
	int err;

	if (boot->rank == 1)
		CHECK_EQ(gather_u64(boot, 0, all), 0);
	err = boot->ops->subgroup(boot, boot->rank ? down : up, 2, 0, TIMEOUT_NS, &sub);
	CHECK_EQ(err, boot->rank ? ORIEL_EMISMATCH : 0);
	if (boot->rank == 0)
		CHECK_EQ(gather_u64(boot, 0, all), 0);
	ori_boot_drop(sub);
}

TEST(subgroups_of_different_lists)
{
	run_ranks(2, different_lists);
}

static int waiter, back; /* atomic: the thread that gathers first; how many are back */

/* S: it sleeps, and that can only be in the gather. */
static char state_of(int thread)
{
	char path[64], text[256] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	f = fopen(path, "r");
	if (!f)
		return '?';
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	end = strrchr(text, ')');
	return end ? end[2] : '?';
}

static void until_rank_1_waits(void)
{
	uint64_t deadline = ori_now_ns() + TIMEOUT_NS;
	int thread = 0;

	while (ori_now_ns() < deadline) {
		thread = __atomic_load_n(&waiter, __ATOMIC_ACQUIRE);
		if (thread && state_of(thread) == 'S')
			return;
		usleep(1000);
	}
	check_fail(__FILE__, __LINE__, "rank 1 does not wait");
}

/* The shortest timeout counts for all, and rank 0 comes when rank 1 is there. */
static void gather_in_vain(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX], mine = 0;

	if (boot->rank == 1)
		__atomic_store_n(&waiter, gettid(), __ATOMIC_RELEASE);
	else
		until_rank_1_waits();
	CHECK_EQ(ori_boot_round(boot, "oriel_comm_barrier", &mine, all, 8,
				boot->rank ? 2 * TIMEOUT_NS : ORI_NS_PER_S / 20),
		 ORIEL_ETIMEDOUT);
	CHECK(!boot->serves);
	CHECK_HAS(oriel_last_error(), "oriel_comm_barrier: rank 2 did not come within");
	CHECK(!strstr(oriel_last_error(), "rank 1"));
	__atomic_fetch_add(&back, 1, __ATOMIC_RELEASE);
}

static void rank_2_never_comes(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX], start = ori_now_ns();

	if (boot->rank != 2) {
		gather_in_vain(boot);
		return;
	}
	while (__atomic_load_n(&back, __ATOMIC_ACQUIRE) < 2 && ori_now_ns() - start < TIMEOUT_NS)
		usleep(1000);
	/* the latecomer hears the same at once */
	start = ori_now_ns();
	CHECK_EQ(gather_u64(boot, 0, all), ORIEL_ETIMEDOUT);
	CHECK(ori_now_ns() - start < TIMEOUT_NS / 2);
}

TEST(deadline_names_the_missing)
{
	waiter = back = 0;
	run_ranks(3, rank_2_never_comes);
}

/* A short time is not rounded to none. */
TEST(text_of_a_short_wait)
{
	struct ori_round_report r = { .kind = ORI_GATHER_MISSING, .total = 1, .count = 1 };
	char text[512];

	r.ranks[0] = 2;
	r.ns = ORI_NS_PER_S / 1000 * 12;
	ori_round_text(&r, NULL, text, sizeof(text));
	CHECK(!strcmp(text, "rank 2 did not come within 0.012 s"));
	r.ns = ORI_NS_PER_S * 3 / 2;
	ori_round_text(&r, NULL, text, sizeof(text));
	CHECK(!strcmp(text, "rank 2 did not come within 1.5 s"));
	r.ns = 2000;
	ori_round_text(&r, NULL, text, sizeof(text));
	CHECK(!strcmp(text, "rank 2 did not come in time"));
}

static void sizes_differ(struct oriel_boot *boot)
{
	unsigned char mine[16] = { 0 }, all[48];
	size_t bytes = boot->rank == 1 ? 16 : 8;

	CHECK_EQ(boot->ops->allgather(boot, mine, all, bytes, TIMEOUT_NS), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "rank 1 gives 16"); /* before or after the other one */
	CHECK_HAS(oriel_last_error(), "gives 8");
	CHECK_EQ(boot->ops->allgather(boot, mine, all, 4, TIMEOUT_NS), 0);
}

TEST(different_byte_counts)
{
	run_ranks(3, sizes_differ);
}

static int told[RANKS_MAX], told_status[RANKS_MAX]; /* told: atomic */

static void watcher(void *ctx, int status, int rank, const char *why)
{
	int me = *(int *)ctx;

	CHECK_EQ(rank, 1);
	CHECK_HAS(why, "rank 1 aborted: out of paper");
	told_status[me] = status;
	__atomic_fetch_add(&told[me], 1, __ATOMIC_RELEASE);
}

static void abort_by_1(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX];
	int me = boot->rank;

	boot->ops->watch(boot, watcher, &me);
	CHECK_EQ(gather_u64(boot, 0, all), 0);
	if (me == 1) {
		usleep(5000); /* most often the others wait by then; they need not */
		boot->ops->abort(boot, ORIEL_ENOMEM, "out of paper");
		boot->ops->abort(boot, ORIEL_EINVAL, "a second time");
	}
	CHECK_EQ(gather_u64(boot, 0, all), ORIEL_ENOMEM);
	CHECK_HAS(oriel_last_error(), "rank 1 aborted: out of paper");
	boot->ops->watch(boot, NULL, NULL); /* `me` goes */
}

TEST(abort_reaches_all)
{
	memset(told, 0, sizeof(told));
	run_ranks(4, abort_by_1);
	for (int r = 0; r < 4; r++)
		CHECK(told[r] <= (r != 1));
}

static void watch_after_abort(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX];
	int me = boot->rank;

	if (me == 1)
		boot->ops->abort(boot, ORIEL_EPEER, "out of paper");
	CHECK_EQ(gather_u64(boot, 0, all), ORIEL_EPEER);
	boot->ops->watch(boot, watcher, &me);
	CHECK_EQ(told[me], me != 1);
	boot->ops->watch(boot, NULL, NULL);
	CHECK_EQ(told[me], me != 1);
}

TEST(a_late_watcher_is_told)
{
	memset(told, 0, sizeof(told));
	run_ranks(3, watch_after_abort);
	CHECK_EQ(told_status[0], ORIEL_EPEER);
}

static void one_leaves(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX], start = ori_now_ns();

	if (boot->rank == 0)
		return;
	CHECK_EQ(gather_u64(boot, 0, all), ORIEL_EPEER);
	CHECK_HAS(oriel_last_error(), "rank 0 left");
	CHECK(ori_now_ns() - start < TIMEOUT_NS / 2);
}

TEST(a_rank_that_left_is_named)
{
	run_ranks(3, one_leaves);
}

TEST(bad_arguments)
{
	struct oriel_boot *boots[2];

	CHECK_EQ(oriel_boot_threads(0, boots), ORIEL_ERANGE);
	CHECK_EQ(oriel_boot_threads(-1, boots), ORIEL_ERANGE);
	CHECK_EQ(oriel_boot_threads(1 << 20, boots), ORIEL_ERANGE);
	CHECK_EQ(oriel_boot_threads(2, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_boot_rank(NULL), ORIEL_EINVAL);
	REQUIRE_OK(oriel_boot_threads(2, boots));
	CHECK_EQ(oriel_boot_nranks(boots[1]), 2);
	/* a comm may hold what its user has destroyed */
	ori_boot_hold(boots[0]);
	CHECK_EQ(oriel_boot_destroy(boots[0]), 0);
	CHECK_EQ(oriel_boot_destroy(boots[0]), ORIEL_ESTALE);
	CHECK_EQ(oriel_boot_rank(boots[0]), ORIEL_ESTALE);
	CHECK_EQ(boots[0]->nranks, 2);
	ori_boot_drop(boots[0]);
	CHECK_EQ(oriel_boot_destroy(boots[1]), 0);
}

/*
 * The last rank leaves while the others wait for it, or before they come.  They learn it, and meet
 * without it: a meeting that it left behind excludes no other one.
 */
static void meet_without_the_last(struct oriel_boot *boot)
{
	int members[RANKS_MAX], n = boot->nranks;
	struct oriel_boot *sub = NULL;
	uint64_t all[RANKS_MAX];

	for (int r = 0; r < n; r++)
		members[r] = r;
	if (boot->rank == n - 1)
		return;
	CHECK_EQ(boot->ops->subset(boot, members, n, 5, "the_call", TIMEOUT_NS, &sub), ORIEL_EPEER);
	CHECK_HAS(oriel_last_error(), "left the group");
	REQUIRE_OK(boot->ops->subset(boot, members, n - 1, 5, "the_call", TIMEOUT_NS, &sub));
	CHECK_EQ(gather_u64(sub, (uint64_t)boot->rank, all), 0);
	for (int r = 0; r < n - 1; r++)
		CHECK_EQ(all[r], r);
	ori_boot_drop(sub);
}

TEST(subset_whose_member_left)
{
	for (int i = 0; i < 30; i++)
		run_ranks(4, meet_without_the_last);
}

/* ---- lateness -------------------------------------------------------------------------------- */

static int log_fd; /* what the library logs goes there */

static int log_has(const char *word)
{
	char text[4000];
	ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	return strstr(text, word) != NULL;
}

static void await_log(const char *word)
{
	uint64_t deadline = ori_deadline_ns(TIMEOUT_NS / 2);

	while (!log_has(word) && ori_now_ns() < deadline)
		usleep(1000);
}

/* Rank 1 is late twice, each time until rank 0 has said so.  Then all goes well. */
static void late_then_fine(struct oriel_boot *boot)
{
	const int members[] = { 1, 0 };
	struct oriel_boot *sub = NULL;
	uint64_t all[2];

	if (boot->rank == 1)
		await_log("boot exchange is late: rank 1 did not come within");
	CHECK_EQ(gather_u64(boot, (uint64_t)boot->rank, all), 0);
	CHECK(all[0] == 0 && all[1] == 1);
	if (boot->rank == 1)
		await_log("the_call is late: rank 0 (world rank 1) did not come within");
	REQUIRE_OK(boot->ops->subset(boot, members, 2, 5, "the_call", TIMEOUT_NS, &sub));
	CHECK_EQ(gather_u64(sub, (uint64_t)boot->rank, all), 0);
	CHECK(all[0] == 1 && all[1] == 0);
	ori_boot_drop(sub);
}

TEST(late_ranks_are_named)
{
	int standard_error = dup(STDERR_FILENO);

	log_fd = memfd_create("log", MFD_CLOEXEC);
	REQUIRE(log_fd >= 0 && standard_error >= 0);
	dup2(log_fd, STDERR_FILENO);
	setenv("ORIEL_LATE", "0.1", 1);
	run_ranks(2, late_then_fine);
	unsetenv("ORIEL_LATE");
	dup2(standard_error, STDERR_FILENO);
	close(standard_error);
	CHECK(log_has("rank 0: warning: boot exchange is late: rank 1 did not come within"));
	CHECK(log_has("rank 0: warning: the_call is late: rank 0 (world rank 1) did not come"));
	close(log_fd);
}
