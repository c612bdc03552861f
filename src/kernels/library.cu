/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/library.cu - all kernels of the library in one translation unit, for nvcc --fatbin.
 *
 * ORIEL_KERNEL_IMAGE leaves out the host's half of each file.  image.c puts the result into the
 * library.
 */
#ifndef ORIEL_KERNEL_IMAGE
#define ORIEL_KERNEL_IMAGE
#endif
#include "window_ops.c"
#include "gather.c"
#include "gather_node.c"
#include "alltoallv.c"
#include "coll.c"
#include "reduce_node.c"
#include "scatter_node.c"
#include "clock.c"
