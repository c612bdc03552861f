/* SPDX-License-Identifier: BSD-3-Clause */
/* library.h - variables of a shared library that a program of OpenSHMEM is linked with. */
#ifndef TESTS_SHMEM_LIBRARY_H
#define TESTS_SHMEM_LIBRARY_H

extern long library_value;      /* starts as 77 */
extern long library_zeros[100]; /* starts as zeros */
long *library_own(void);        /* a static variable that starts as 88 */

#endif
