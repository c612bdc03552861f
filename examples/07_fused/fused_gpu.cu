/* SPDX-License-Identifier: BSD-3-Clause */
/* The same program for a GPU: what nvcc -x cu makes of fused.c. */
#include "fused.c"
