/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/kernels.cu - all kernels of oriel-perf in one translation unit, for nvcc --fatbin.
 *
 * ORIEL_KERNEL_IMAGE leaves out the host part of each file.  image.c embeds the result in the
 * program.
 */
#ifndef ORIEL_KERNEL_IMAGE
#define ORIEL_KERNEL_IMAGE
#endif
/* The names of kernels for the host are unused here: no warning. */
#pragma nv_diag_suppress 177
#include "ops_coll.c"
#include "ops_completion.c"
#include "ops_data.c"
#include "ops_latency.c"
#include "ops_packet.c"
#include "ops_sync.c"
