/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/boot_tcp.c - the TCP boot when all goes well, and its bad arguments.
 *
 * Ranks are threads that join by one id: each has a connection of its own, so nothing is shared but
 * the hub.  Deaths, stops and garbage are tests/fault/boot_faults.c.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/boot/boot.h"
#include "../../src/util/util.h"
#include "../check.h"

#define RANKS_MAX 16
#define TIMEOUT_NS                                                                                 \
	(60 * ORI_NS_PER_S) /* of what should work: any rank may stand still for seconds */

struct tcp_rank {
	pthread_t thread;
	struct oriel_boot_id id;
	int rank, nranks, status;
	char error[256];
	void (*fn)(struct oriel_boot *);
};

static void *rank_main(void *arg)
{
	struct tcp_rank *me = arg;
	struct oriel_boot *boot = NULL;

	me->status = oriel_boot_join(&me->id, me->rank, me->nranks, &boot);
	snprintf(me->error, sizeof(me->error), "%s", oriel_last_error());
	if (me->status)
		return NULL;
	if (me->fn)
		me->fn(boot);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
	return NULL;
}

static void run_ranks(int n, void (*fn)(struct oriel_boot *))
{
	static struct tcp_rank ranks[RANKS_MAX];
	struct oriel_boot_id id;

	REQUIRE_OK(oriel_boot_make_id(&id));
	for (int r = 0; r < n; r++) {
		ranks[r] = (struct tcp_rank){ .id = id, .rank = r, .nranks = n, .fn = fn };
		pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
	}
	for (int r = 0; r < n; r++) {
		pthread_join(ranks[r].thread, NULL);
		if (ranks[r].status)
			check_fail(__FILE__, __LINE__, "rank %d: %s", r, ranks[r].error);
	}
}

static int gather_u64(struct oriel_boot *boot, uint64_t mine, uint64_t *all)
{
	return boot->ops->allgather(boot, &mine, all, sizeof(mine), TIMEOUT_NS);
}

static void many_gathers(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX];

	CHECK_EQ(oriel_boot_rank(boot), boot->rank);
	CHECK_EQ(oriel_boot_nranks(boot), boot->nranks);
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(gather_u64(boot, (uint64_t)(i * 100 + boot->rank), all), 0);
		for (int r = 0; r < boot->nranks; r++)
			CHECK_EQ(all[r], i * 100 + r);
		CHECK_EQ(boot->ops->allgather(boot, NULL, NULL, 0, TIMEOUT_NS), 0);
	}
}

TEST(allgather_of_1_rank)
{
	run_ranks(1, many_gathers);
}

TEST(allgather_of_2_ranks)
{
	run_ranks(2, many_gathers);
}

TEST(allgather_of_8_ranks)
{
	run_ranks(8, many_gathers);
}

static void large_gather(struct oriel_boot *boot)
{
	size_t bytes = 5 * 1000 * 1000 + 3;
	unsigned char *mine = malloc(bytes), *all = malloc(bytes * (size_t)boot->nranks);

	memset(mine, 'a' + boot->rank, bytes);
	CHECK_EQ(boot->ops->allgather(boot, mine, all, bytes, TIMEOUT_NS), 0);
	for (int r = 0; r < boot->nranks; r++) {
		CHECK_EQ(all[(size_t)r * bytes], 'a' + r);
		CHECK_EQ(all[(size_t)(r + 1) * bytes - 1], 'a' + r);
	}
	CHECK_EQ(boot->ops->allgather(boot, mine, all, (16u << 20) + 1, TIMEOUT_NS), ORIEL_ERANGE);
	free(mine);
	free(all);
}

TEST(allgather_of_megabytes)
{
	run_ranks(3, large_gather);
}

static void halves(struct oriel_boot *boot)
{
	int members[RANKS_MAX], n = 0, odd = boot->rank % 2;
	struct oriel_boot *sub, *again;
	uint64_t all[RANKS_MAX];

	/* in falling order: new ranks differ from old ones */
	for (int r = boot->nranks - 1; r >= 0; r--) {
		if (r % 2 == odd)
			members[n++] = r;
	}
	REQUIRE_OK(boot->ops->subgroup(boot, members, n, (uint32_t)odd, TIMEOUT_NS, &sub));
	REQUIRE_OK(boot->ops->subgroup(boot, members, n, (uint32_t)odd, TIMEOUT_NS, &again));
	CHECK_EQ(members[sub->rank], boot->rank);
	CHECK_EQ(gather_u64(sub, (uint64_t)boot->rank, all), 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(all[i], members[i]);
	CHECK_EQ(gather_u64(again, (uint64_t)boot->rank * 2, all), 0);
	CHECK_EQ(all[0], members[0] * 2);
	CHECK_EQ(gather_u64(boot, 7, all), 0);
	ori_boot_drop(again);
	/* the subgroup outlives the user's handle of the whole: run_ranks destroys that one */
	ori_boot_hold(boot);
	CHECK_EQ(gather_u64(sub, 1, all), 0);
	ori_boot_drop(sub);
	ori_boot_drop(boot);
}

TEST(subgroups)
{
	run_ranks(7, halves);
}

static int told_status, told_rank, told_times; /* atomic */

static void watcher(void *ctx, int status, int rank, const char *why)
{
	(void)ctx;
	CHECK_HAS(why, "rank 1 aborted: the disk is full");
	__atomic_store_n(&told_status, status, __ATOMIC_RELAXED);
	__atomic_store_n(&told_rank, rank, __ATOMIC_RELAXED);
	__atomic_fetch_add(&told_times, 1, __ATOMIC_RELEASE);
}

static void abort_by_1(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX], start = ori_now_ns();

	boot->ops->watch(boot, watcher, NULL);
	CHECK_EQ(gather_u64(boot, 1, all), 0);
	if (boot->rank == 1)
		boot->ops->abort(boot, ORIEL_EREMOTE, "the disk is full");
	CHECK_EQ(gather_u64(boot, 1, all), ORIEL_EREMOTE);
	CHECK_HAS(oriel_last_error(), "the disk is full");
	CHECK_EQ(gather_u64(boot, 1, all), ORIEL_EREMOTE);
	CHECK(ori_now_ns() - start < TIMEOUT_NS / 2);
	boot->ops->watch(boot, NULL, NULL);
}

TEST(abort_reaches_all)
{
	told_times = 0;
	run_ranks(3, abort_by_1);
	CHECK_EQ(told_times, 2);
	CHECK_EQ(told_status, ORIEL_EREMOTE);
	CHECK_EQ(told_rank, 1);
}

static void early_abort(struct oriel_boot *boot)
{
	int members[2] = { 0, 1 };
	struct oriel_boot *sub;
	uint64_t all[2];

	if (boot->rank == 1) {
		REQUIRE_OK(boot->ops->subgroup(boot, members, 2, 0, TIMEOUT_NS, &sub));
		sub->ops->abort(sub, ORIEL_EABORTED, "too soon");
		CHECK_EQ(gather_u64(boot, 1, all), 0);
	} else {
		CHECK_EQ(gather_u64(boot, 1, all), 0);
		REQUIRE_OK(boot->ops->subgroup(boot, members, 2, 0, TIMEOUT_NS, &sub));
		CHECK_EQ(gather_u64(sub, 1, all), ORIEL_EABORTED);
		CHECK_HAS(oriel_last_error(), "rank 1 aborted: too soon");
	}
	CHECK_EQ(gather_u64(boot, 1, all), 0);
	ori_boot_drop(sub);
}

TEST(abort_before_the_group_is_made)
{
	run_ranks(2, early_abort);
}

static void one_leaves(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX], start = ori_now_ns();

	if (boot->rank == 2)
		return;
	CHECK_EQ(gather_u64(boot, 1, all), ORIEL_EPEER);
	CHECK_HAS(oriel_last_error(), "rank 2 left");
	CHECK(ori_now_ns() - start < TIMEOUT_NS / 2);
}

TEST(a_rank_that_left_is_named)
{
	run_ranks(3, one_leaves);
}

static int back; /* atomic: ranks that have the answer */

static void comes_late(struct oriel_boot *boot)
{
	uint64_t all[RANKS_MAX], mine = 0, start = ori_now_ns();

	while (boot->rank == 1 && __atomic_load_n(&back, __ATOMIC_ACQUIRE) < 2 &&
	       ori_now_ns() - start < TIMEOUT_NS)
		usleep(1000);
	CHECK_EQ(boot->ops->allgather(boot, &mine, all, 8, ORI_NS_PER_S / 20), ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), "rank 1");
	__atomic_fetch_add(&back, 1, __ATOMIC_RELEASE);
	/* the same for all, so the next one is in step again */
	CHECK_EQ(gather_u64(boot, 1, all), 0);
}

TEST(a_latecomer_gets_the_same_answer)
{
	back = 0;
	run_ranks(3, comes_late);
}

TEST(bad_arguments)
{
	struct oriel_boot *boot = (struct oriel_boot *)&boot;
	struct oriel_boot_id id, bad;

	REQUIRE_OK(oriel_boot_make_id(&id));
	CHECK_EQ(oriel_boot_make_id(NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_boot_join(NULL, 0, 1, &boot), ORIEL_EINVAL);
	CHECK_EQ(oriel_boot_join(&id, 0, 1, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_boot_join(&id, -1, 1, &boot), ORIEL_ERANGE);
	CHECK_EQ(oriel_boot_join(&id, 1, 1, &boot), ORIEL_ERANGE);
	CHECK_EQ(oriel_boot_join(&id, 0, 0, &boot), ORIEL_ERANGE);
	CHECK_EQ(oriel_boot_join(&id, 0, 1 << 20, &boot), ORIEL_ERANGE);
	for (size_t i = 0; i < sizeof(id.bytes); i += 9) {
		bad = id;
		bad.bytes[i] ^= 0x10;
		CHECK_EQ(oriel_boot_join(&bad, 0, 1, &boot), ORIEL_EINVAL);
	}
	memset(&bad, 0, sizeof(bad));
	CHECK_EQ(oriel_boot_join(&bad, 0, 1, &boot), ORIEL_EINVAL);
	REQUIRE_OK(oriel_boot_join(&id, 0, 1, &boot));
	CHECK_EQ(oriel_boot_destroy(boot), 0);
	CHECK_EQ(oriel_boot_destroy(boot), ORIEL_ESTALE);
	CHECK_EQ(oriel_boot_destroy(NULL), 0);
}

/* The environment's boot in a child, so that variables and hub are its own. */
static int env_child(int rank, const char *size, const char *addr, const char *port)
{
	pid_t pid = fork();
	struct oriel_boot *boot;
	uint64_t all[RANKS_MAX];
	char text[16];
	int err;

	if (pid)
		return (int)pid;
	snprintf(text, sizeof(text), "%d", rank);
	setenv("RANK", text, 1);
	if (size)
		setenv("WORLD_SIZE", size, 1);
	if (addr)
		setenv("MASTER_ADDR", addr, 1);
	if (port)
		setenv("MASTER_PORT", port, 1);
	for (int round = 0; round < 2; round++) {
		err = oriel_boot_env(&boot);
		if (err)
			_exit(-err);
		err = gather_u64(boot, (uint64_t)rank, all);
		if (oriel_boot_destroy(boot) || err)
			_exit(100);
	}
	_exit(0);
}

static int reap(int pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A port below the ephemeral range that is free now; 0: none. */
static int free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int taken = 1, port = 0;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 1000 && taken; i++) {
		int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		port = 20000 + (getpid() * 7 + i) % 12000;
		address.sin_port = htons((uint16_t)port);
		taken = s < 0 || bind(s, (struct sockaddr *)&address, sizeof(address));
		close(s);
	}
	return taken ? 0 : port;
}

static void env_job(void)
{
	int pids[3], free = free_port();
	char port[16];

	REQUIRE(free);
	snprintf(port, sizeof(port), "%d", free);
	/* rank 0, who listens, comes last; in time or not, the others wait for it */
	for (int r = 2; r >= 0; r--) {
		pids[r] = env_child(r, "3", "127.0.0.1", port);
		usleep(20000);
	}
	for (int r = 0; r < 3; r++)
		CHECK_EQ(reap(pids[r]), 0);
}

TEST(environment_two_boots_in_turn)
{
	env_job();
}

TEST(environment_with_a_secret)
{
	setenv("ORIEL_SECRET", "only we know", 1);
	env_job();
	unsetenv("ORIEL_SECRET");
}

/* Another program has the socket.  It answers, but does not speak the protocol. */
static void be_stranger(int s)
{
	char bytes[256];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int fd = accept(s, NULL, NULL);

		/* takes the hello, or closing would discard the answer */
		(void)!recv(fd, bytes, sizeof(bytes), 0);
		memset(bytes, 'x', sizeof(bytes));
		(void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
		while (recv(fd, bytes, sizeof(bytes), 0) > 0)
			;
		close(fd);
	}
}

/* Under torchrun the hub takes the first free port, and ranks look for it there. */
TEST(environment_of_torchrun_with_a_taken_port)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int pids[2], stranger, s, first;
	char port[16];

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	first = free_port(); /* of the ports after torchrun's own */
	at.sin_port = htons((uint16_t)first);
	REQUIRE(first && !bind(s, (struct sockaddr *)&at, sizeof(at)) && !listen(s, 16));
	stranger = fork();
	if (!stranger)
		be_stranger(s);
	close(s);
	setenv("TORCHELASTIC_RUN_ID", "a job", 1);
	snprintf(port, sizeof(port), "%d", first - 1);
	for (int r = 0; r < 2; r++)
		pids[r] = env_child(r, "2", "127.0.0.1", port);
	for (int r = 0; r < 2; r++)
		CHECK_EQ(reap(pids[r]), 0);
	unsetenv("TORCHELASTIC_RUN_ID");
	kill(stranger, SIGKILL);
	CHECK_EQ(reap(stranger), 128 + SIGKILL);
}

/* The usual way of a test launcher: the parent runs the hub and is not a rank itself. */
TEST(children_forked_after_the_id)
{
	struct oriel_boot_id id;
	int pids[4];

#ifdef __SANITIZE_THREAD__
	check_skip("ThreadSanitizer does not follow threads of a child of a process with threads");
	return;
#endif
	REQUIRE_OK(oriel_boot_make_id(&id));
	for (int r = 0; r < 4; r++) {
		pids[r] = fork();
		if (!pids[r]) {
			struct oriel_boot *boot;
			int err = oriel_boot_join(&id, r, 4, &boot);

			if (err)
				_exit(-err);
			check_failures = 0;
			many_gathers(boot);
			_exit(oriel_boot_destroy(boot) || check_failures ? 100 : 0);
		}
	}
	for (int r = 0; r < 4; r++)
		CHECK_EQ(reap(pids[r]), 0);
}

TEST(environment_bad_values)
{
	CHECK_EQ(reap(env_child(0, NULL, NULL, NULL)), -ORIEL_ECONFIG);
	CHECK_EQ(reap(env_child(0, "2", "127.0.0.1", NULL)), -ORIEL_ECONFIG);
	CHECK_EQ(reap(env_child(0, "2", NULL, "5000")), -ORIEL_ECONFIG);
	CHECK_EQ(reap(env_child(0, "2x", "127.0.0.1", "5000")), -ORIEL_ECONFIG);
	CHECK_EQ(reap(env_child(2, "2", "127.0.0.1", "5000")), -ORIEL_ECONFIG);
	CHECK_EQ(reap(env_child(0, "0", "127.0.0.1", "5000")), -ORIEL_ECONFIG);
	CHECK_EQ(reap(env_child(0, "2", "127.0.0.1", "65536")), -ORIEL_ECONFIG);
	CHECK_EQ(reap(env_child(0, "2", "127.0.0.1", "0")), -ORIEL_ECONFIG);
	/* beyond loopback only with a secret */
	CHECK_EQ(reap(env_child(0, "2", "192.0.2.1", "5000")), -ORIEL_EAUTH);
	CHECK_EQ(reap(env_child(0, "1", "192.0.2.1", "5000")), 0);
}

TEST(environment_of_one_rank)
{
	struct oriel_boot *boot;

	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	unsetenv("MASTER_ADDR");
	unsetenv("MASTER_PORT");
	REQUIRE_OK(oriel_boot_env(&boot));
	CHECK_EQ(oriel_boot_rank(boot), 0);
	CHECK_EQ(oriel_boot_nranks(boot), 1);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
	CHECK_EQ(oriel_boot_env(NULL), ORIEL_EINVAL);
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

/*
 * Ranks 0 and 1 would wait for each other with different lists.  Both learn it at once, and meet
 * with the same list.
 */
static void lists_differ(struct oriel_boot *boot)
{
	const int members[] = { 0, 1, 2 };
	struct oriel_boot *sub = NULL;
	uint64_t all[2], start = ori_now_ns();

	if (boot->rank < 2) {
		CHECK_EQ(boot->ops->subset(boot, members, boot->rank ? 2 : 3, 5, "the_call",
					   TIMEOUT_NS, &sub),
			 ORIEL_EMISMATCH);
		CHECK_HAS(oriel_last_error(), "the_call: the ranks have different lists");
		CHECK(ori_now_ns() - start < TIMEOUT_NS / 2);
		REQUIRE_OK(boot->ops->subset(boot, members, 2, 5, "the_call", TIMEOUT_NS, &sub));
		CHECK_EQ(gather_u64(sub, (uint64_t)boot->rank, all), 0);
		CHECK(all[0] == 0 && all[1] == 1);
		ori_boot_drop(sub);
	}
	/* nobody leaves before */
	CHECK_EQ(boot->ops->allgather(boot, NULL, NULL, 0, TIMEOUT_NS), 0);
}

TEST(subsets_of_different_lists)
{
	run_ranks(3, lists_differ);
}
