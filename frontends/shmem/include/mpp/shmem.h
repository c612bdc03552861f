/* SPDX-License-Identifier: BSD-3-Clause */
/* mpp/shmem.h - the name of shmem.h that programs for older machines include. */
#include "../shmem.h"
