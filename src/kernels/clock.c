/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/clock.c - stores the clock of the device, so that the host can compare it with its own.
 *
 * Device code, for CPU and GPU.  Launched by: comm/trace_clock.c.
 */
#include <oriel/device/trace.h>

#include "clock.h"

typedef uint64_t *clock_place;

ORIEL_KERNEL(ori_clock, clock_place)
{
	ori_store_relaxed_sys(*a, ori_trace_now());
	return 0;
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_clock_kernel(void)
{
	return &ori_clock;
}
#endif
