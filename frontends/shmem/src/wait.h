/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - waits for words of this PE's symmetric memory, and tests of them (wait.c).
 *
 * Types are ORIEL_TYPE_*, comparisons SHMEM_CMP_*, which are Oriel's ORIEL_EQ and so on.
 */
#ifndef OSH_WAIT_H
#define OSH_WAIT_H

#include "osh.h"

/* The integer type of Oriel with the size and the sign of a C type. */
#define OSH_TYPE_OF(TYPE)                                                                          \
	((sizeof(TYPE) == 8 ? ORIEL_TYPE_INT64 :                                                   \
	  sizeof(TYPE) == 4 ? ORIEL_TYPE_INT32 :                                                   \
			      ORIEL_TYPE_INT16) +                                                  \
	 ((TYPE)-1 > (TYPE)0))

/* Waits until the word at `ivar`, or at `offset` of this PE's window, compares. */
void osh_wait_for(const char *call, const volatile void *ivar, int type, int cmp, uint64_t value);
void osh_wait(const char *call, uint64_t offset, int type, int cmp, uint64_t value);
/*
 * Fills *words for `n` words at `ivars`.  `values` is NULL, or one value per word.  Refuses bad
 * arguments.
 */
void osh_words(const char *call, struct oriel_words *words, const volatile void *ivars, size_t n,
	       const int *status, int type, int cmp, uint64_t value, const void *values);

void osh_wait_all(const char *call, const struct oriel_words *words);
/* The index of a word that compares; SIZE_MAX if there is no word to wait for. */
size_t osh_wait_any(const char *call, const struct oriel_words *words);
/* The number of words that compare, with their indices; 0 if there is no word to wait for. */
size_t osh_wait_some(const char *call, const struct oriel_words *words, size_t *indices);
/* The same without waiting.  osh_test_all() is true if there is no word to test. */
int osh_test_all(const char *call, const struct oriel_words *words);
size_t osh_test_any(const char *call, const struct oriel_words *words);
size_t osh_test_some(const char *call, const struct oriel_words *words, size_t *indices);

#endif
