/* SPDX-License-Identifier: BSD-3-Clause */
/* shmemx.h - what programs expect beside the standard. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include "shmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds since any fixed time, from a clock that never goes back. */
double shmemx_wtime(void);

#ifdef __cplusplus
}
#endif

#endif
