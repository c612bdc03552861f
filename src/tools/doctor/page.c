/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor/page.c - contains page.html as bytes of the program; DOCTOR_PAGE is its path. */
#include "doctor.h"

#ifndef DOCTOR_PAGE /* a check that only parses this file */
#define DOCTOR_PAGE "page.html"
#endif

__asm__(".pushsection .rodata\n"
	".global doctor_page_begin\n"
	".hidden doctor_page_begin\n"
	"doctor_page_begin:\n"
	".incbin \"" DOCTOR_PAGE "\"\n"
	".global doctor_page_end\n"
	".hidden doctor_page_end\n"
	"doctor_page_end:\n"
	".byte 0\n"
	".popsection\n");

extern const char doctor_page_begin[] __attribute__((visibility("hidden")));
extern const char doctor_page_end[] __attribute__((visibility("hidden")));

const char *doctor_page(size_t *bytes)
{
	*bytes = (size_t)((uintptr_t)doctor_page_end - (uintptr_t)doctor_page_begin);
	return doctor_page_begin;
}
