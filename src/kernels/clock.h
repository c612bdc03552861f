/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/clock.h - a kernel that stores the clock of its device, for traces (comm/trace_clock.c).
 */
#ifndef ORI_KERNELS_CLOCK_H
#define ORI_KERNELS_CLOCK_H

#include <oriel/device/types.h>

/* Its argument is a uint64_t *: where the clock is stored. */
const struct oriel_kernel *ori_clock_kernel(void);

#endif
