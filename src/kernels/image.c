/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/image.c - holds the fatbin that nvcc made of this folder, as bytes of the library.
 *
 * kernels.cmake defines ORIEL_KERNELS_FATBIN as its path.  It is not defined without nvcc.
 */
#include "image.h"

#ifdef ORIEL_KERNELS_FATBIN

__asm__(".pushsection .rodata\n"
	".balign 64\n"
	".global ori_kernels_begin\n"
	".hidden ori_kernels_begin\n"
	"ori_kernels_begin:\n"
	".incbin \"" ORIEL_KERNELS_FATBIN "\"\n"
	".global ori_kernels_end\n"
	".hidden ori_kernels_end\n"
	"ori_kernels_end:\n"
	".byte 0\n"
	".popsection\n");

extern const char ori_kernels_begin[] __attribute__((visibility("hidden")));
extern const char ori_kernels_end[] __attribute__((visibility("hidden")));

const void *ori_kernels_image(size_t *bytes)
{
	*bytes = (size_t)(ori_kernels_end - ori_kernels_begin);
	return ori_kernels_begin;
}

const char *ori_kernels_text(void)
{
	return ORIEL_KERNELS_TARGETS;
}

#else

const void *ori_kernels_image(size_t *bytes)
{
	*bytes = 0;
	return NULL;
}

const char *ori_kernels_text(void)
{
	return "none: built without nvcc";
}

#endif
