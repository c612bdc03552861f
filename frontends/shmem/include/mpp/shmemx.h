/* SPDX-License-Identifier: BSD-3-Clause */
/* mpp/shmemx.h - the name of shmemx.h that programs for older machines include. */
#include "../shmemx.h"
