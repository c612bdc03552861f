/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/image.c - contains the GPU kernels of oriel-perf, as bytes of the program.
 *
 * nvcc compiles kernels.cu; PERF_FATBIN is the path of its output (src/tools/CMakeLists.txt).
 * Without nvcc it is not defined.  Called by main.c, before it creates the comm.
 */
#include "perf.h"

#ifdef PERF_FATBIN

__asm__(".pushsection .rodata\n"
	".balign 64\n"
	".global perf_image_begin\n"
	".hidden perf_image_begin\n"
	"perf_image_begin:\n"
	".incbin \"" PERF_FATBIN "\"\n"
	".global perf_image_end\n"
	".hidden perf_image_end\n"
	"perf_image_end:\n"
	".byte 0\n"
	".popsection\n");

extern const char perf_image_begin[] __attribute__((visibility("hidden")));
extern const char perf_image_end[] __attribute__((visibility("hidden")));

int perf_image_add(int say)
{
	(void)say; /* the library logs errors itself */
	return oriel_kernels_add(perf_image_begin, (size_t)(perf_image_end - perf_image_begin));
}

#else

int perf_image_add(int say)
{
	if (say)
		fprintf(stderr,
			"oriel-perf: this program has no GPU kernels, because nvcc was not found "
			"when it was built\n");
	return ORIEL_EUNSUPPORTED;
}

#endif
