/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c - see library.h. */
#include "library.h"

long library_value = 77;
long library_zeros[100];
static long own = 88;

long *library_own(void)
{
	return &own;
}
