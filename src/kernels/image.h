/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels/image.h - the library's own kernels, compiled for GPUs. */
#ifndef ORI_KERNELS_IMAGE_H
#define ORI_KERNELS_IMAGE_H

#include <stddef.h>

/* A fatbin for the driver, or NULL if this build had no nvcc. */
const void *ori_kernels_image(size_t *bytes);
/* The GPUs it is for, or why there is none; for listings. */
const char *ori_kernels_text(void);

#endif
