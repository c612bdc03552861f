/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pe.h - for the programs of tests/shmem.  Each file here is one program that every PE runs;
 * run.sh starts it on the rows (numbers of PEs and topologies) and looks at the exit status.
 *
 * A failed CHECK prints the place and ends the job with status 1.
 */
#ifndef TESTS_SHMEM_PE_H
#define TESTS_SHMEM_PE_H

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			pe_failed(__FILE__, __LINE__, #condition, 0, 0);                           \
	} while (0)
/* Both as long long, printed if they differ. */
#define CHECK_EQ(have, want)                                                                       \
	do {                                                                                       \
		long long have_ = (long long)(have), want_ = (long long)(want);                    \
		if (have_ != want_)                                                                \
			pe_failed(__FILE__, __LINE__, #have " == " #want, have_, want_);           \
	} while (0)

static inline void pe_failed(const char *file, int line, const char *what, long long have,
			     long long want)
{
	fprintf(stderr, "%s:%d: PE %d: %s is not true (%lld, %lld)\n", file, line, shmem_my_pe(),
		what, have, want);
	shmem_global_exit(1);
}

#endif
