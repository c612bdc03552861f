/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ends/words.c - one mistake with atomics, waits, signals or locks, named by the argument.
 * words.sh looks at the line and the status that follow.
 */
#include <signal.h>
#include <unistd.h>

#include "../pe.h"

static long word, lock;
static char bytes[64];
static uint64_t signal_word;

static void mistake(const char *name, int me)
{
	long local = 0;

	if (!strcmp(name, "pe"))
		shmem_long_atomic_add(&word, 1, 9);
	else if (!strcmp(name, "stack"))
		shmem_long_atomic_inc(&local, 0);
	else if (!strcmp(name, "unaligned"))
		shmem_int_atomic_inc((int *)(void *)(bytes + 2 + ((uintptr_t)bytes & 1)), 0);
	else if (!strcmp(name, "context"))
		shmem_ctx_long_atomic_inc(SHMEM_CTX_INVALID, &word, 0);
	else if (!strcmp(name, "cmp"))
		shmem_long_wait_until(&word, 9, 1);
	else if (!strcmp(name, "ivars"))
		shmem_long_wait_until_all(&local, 1, NULL, SHMEM_CMP_EQ, 0);
	else if (!strcmp(name, "clear"))
		shmem_clear_lock(&lock);
	else if (!strcmp(name, "sig_op"))
		shmem_long_put_signal(&word, &local, 1, &signal_word, 1, 7, 0);
	else if (!strcmp(name, "late_word"))
		shmem_long_wait_until(&word, SHMEM_CMP_GE, 5);
	else if (!strcmp(name, "late_lock") && me == 1)
		shmem_set_lock(&lock);
	else if (!strcmp(name, "dead") && me == 1)
		kill(getpid(), SIGKILL);
	else if (!strcmp(name, "dead"))
		for (;;)
			shmem_long_atomic_fetch_inc(&word, 1);
	else if (strcmp(name, "late_lock"))
		return;
	sleep(20); /* PE 0 has the lock, and the job must end without it */
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (!strcmp(name, "early"))
		shmem_long_atomic_inc(&word, 0);
	shmem_init();
	if (!strcmp(name, "late_lock") && shmem_my_pe() == 0)
		shmem_set_lock(&lock);
	shmem_barrier_all();
	mistake(name, shmem_my_pe());
	shmem_finalize();
	return 0;
}
