/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/ranks_hosts.h - two emulated hosts for ranks of one machine: one network namespace each.
 * Part of ranks.c.
 *
 * The first rank of each host creates its namespace, the others join it.  The boot's connections
 * exist before that and stay in the old namespace.
 */
#ifndef ORI_TEST_RANKS_HOSTS_H
#define ORI_TEST_RANKS_HOSTS_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

#define HOSTS 2

/* Shared by the ranks; all atomic. */
struct hosts_place {
	int first[HOSTS]; /* process of each host's first rank, once it has its namespace */
	int inside;       /* ranks that are on their hosts */
};

static void hosts_nap(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	nanosleep(&nap, NULL);
}

static int hosts_await(int *word, int at_least, double seconds)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	now = begin;
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < at_least) {
		if ((double)(now.tv_sec - begin.tv_sec) > seconds)
			return -1;
		hosts_nap();
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
	return 0;
}

static int hosts_join(struct hosts_place *place, int host, double seconds)
{
	char path[64];
	int fd, err;

	if (hosts_await(&place->first[host], 1, seconds))
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", place->first[host]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	err = setns(fd, CLONE_NEWNET);
	close(fd);
	return err;
}

/* Called by every rank, after its boot and before its comm. */
static void hosts_enter(const struct rank_env *env, double seconds, struct hosts_place *place)
{
	int host = env->rank * HOSTS / env->nranks, err = 0;

	if (env->rank != (host * env->nranks + HOSTS - 1) / HOSTS)
		err = hosts_join(place, host, seconds);
	else if (unshare(CLONE_NEWNET))
		err = -1;
	else
		__atomic_store_n(&place->first[host], getpid(), __ATOMIC_RELEASE);
	__atomic_fetch_add(&place->inside, 1, __ATOMIC_ACQ_REL);
	if (err || hosts_await(&place->inside, env->nranks, seconds))
		check_fail(__FILE__, __LINE__, "rank %d of %d: no host: %s", env->rank, env->nranks,
			   strerror(errno));
}

/* In a separate process: the test program stays in its own namespace. */
static int hosts_can_be_made(void)
{
	int status = 1;
	pid_t pid = fork();

	if (!pid)
		_exit(unshare(CLONE_NEWNET) ? 1 : 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

#endif
