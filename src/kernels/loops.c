/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/loops.c - see loops.h.
 */
#include "loops.h"

struct ori_reducer ori_any_reducer(int type, int op)
{
	return ori_reducer_of(type, op);
}
