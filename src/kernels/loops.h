/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/loops.h - the loops of all reductions on CPUs, compiled once for the whole library.
 */
#ifndef ORI_KERNELS_LOOPS_H
#define ORI_KERNELS_LOOPS_H

#include <oriel/device/reduce.h>

/* As ori_reducer_of(), for types and operators that are not known when the caller is compiled. */
struct ori_reducer ori_any_reducer(int type, int op);

#endif
