/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/compile/every_call_cuda.cu - every_call.h as CUDA: the CPU body and the __global__
 * function; compiled only.
 */
#include "every_call.h"
