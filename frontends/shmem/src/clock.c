/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c - shmemx_wtime(), the clock that many programs measure with. */
#include <time.h>

#include "shmemx.h"

double shmemx_wtime(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
