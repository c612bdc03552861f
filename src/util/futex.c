/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/futex.c - sleeping on a 32-bit word, and waking its sleepers.
 *
 * Neither call orders memory.  Callers load the word again, with the order they need.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

void ori_futex_wait(uint32_t *word, uint32_t expected, uint64_t ns)
{
	struct timespec t = { (time_t)(ns / ORI_NS_PER_S), (long)(ns % ORI_NS_PER_S) };

	/* The caller looks again in every case: woken, word changed, timeout, or a signal. */
	(void)syscall(SYS_futex, word, FUTEX_WAIT, expected, &t, NULL, 0);
}

void ori_futex_wake_all(uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
