/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait_typed.c - shmem_long_wait_until() and its relatives, for every type; the names before
 * version 1.4.
 */
#include "wait.h"

#define CALL(F) "shmem_" #F
#define WORDS(F, TYPE, n, value, values)                                                           \
	struct oriel_words words;                                                                  \
                                                                                                   \
	osh_words(CALL(F), &words, ivars, n, status, OSH_TYPE_OF(TYPE), cmp, (uint64_t)(value),    \
		  values)

/* Several words with one value, or with one value each. */
#define DEFINE_SEVERAL(F, TYPE, RETURN, DO)                                                        \
	RETURN shmem_##F(volatile TYPE *ivars, size_t nelems, const int *status, int cmp,          \
			 TYPE cmp_value)                                                           \
	{                                                                                          \
		WORDS(F, TYPE, nelems, cmp_value, NULL);                                           \
		DO(CALL(F), &words);                                                               \
	}                                                                                          \
	RETURN shmem_##F##_vector(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, \
				  const TYPE *cmp_values)                                          \
	{                                                                                          \
		WORDS(F##_vector, TYPE, nelems, 0, cmp_values);                                    \
		DO(CALL(F##_vector), &words);                                                      \
	}
#define DEFINE_SOME(F, TYPE, DO)                                                                   \
	size_t shmem_##F(volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status,  \
			 int cmp, TYPE cmp_value)                                                  \
	{                                                                                          \
		WORDS(F, TYPE, nelems, cmp_value, NULL);                                           \
		return DO(CALL(F), &words, indices);                                               \
	}                                                                                          \
	size_t shmem_##F##_vector(volatile TYPE *ivars, size_t nelems, size_t *indices,            \
				  const int *status, int cmp, const TYPE *cmp_values)              \
	{                                                                                          \
		WORDS(F##_vector, TYPE, nelems, 0, cmp_values);                                    \
		return DO(CALL(F##_vector), &words, indices);                                      \
	}

#define RETURN_ANY(call, words) return osh_wait_any(call, words)
#define RETURN_TEST_ANY(call, words) return osh_test_any(call, words)
#define RETURN_TEST_ALL(call, words) return osh_test_all(call, words)

#define DEFINE_TYPE(NAME, TYPE, OP)                                                                \
	void shmem_##NAME##_wait_until(volatile TYPE *ivar, int cmp, TYPE cmp_value)               \
	{                                                                                          \
		osh_wait_for(CALL(NAME##_wait_until), ivar, OSH_TYPE_OF(TYPE), cmp,                \
			     (uint64_t)cmp_value);                                                 \
	}                                                                                          \
	int shmem_##NAME##_test(volatile TYPE *ivars, int cmp, TYPE cmp_value)                     \
	{                                                                                          \
		const int *status = NULL;                                                          \
		WORDS(NAME##_test, TYPE, 1, cmp_value, NULL);                                      \
		return osh_test_all(CALL(NAME##_test), &words);                                    \
	}                                                                                          \
	DEFINE_SEVERAL(NAME##_wait_until_all, TYPE, void, osh_wait_all)                            \
	DEFINE_SEVERAL(NAME##_wait_until_any, TYPE, size_t, RETURN_ANY)                            \
	DEFINE_SEVERAL(NAME##_test_all, TYPE, int, RETURN_TEST_ALL)                                \
	DEFINE_SEVERAL(NAME##_test_any, TYPE, size_t, RETURN_TEST_ANY)                             \
	DEFINE_SOME(NAME##_wait_until_some, TYPE, osh_wait_some)                                   \
	DEFINE_SOME(NAME##_test_some, TYPE, osh_test_some)

OSH_WAIT_TYPES(DEFINE_TYPE, )

/* ---- names before 1.4 ------------------------------------------------------------------------ */

#define DEFINE_OLD(NAME, TYPE, OP)                                                                 \
	void shmem_##NAME##_wait(volatile TYPE *ivar, TYPE cmp_value)                              \
	{                                                                                          \
		osh_wait_for(CALL(NAME##_wait), ivar, OSH_TYPE_OF(TYPE), SHMEM_CMP_NE,             \
			     (uint64_t)cmp_value);                                                 \
	}

OSH_OLD_WAIT_TYPES(DEFINE_OLD, )

void shmem_wait(volatile long *ivar, long cmp_value)
{
	shmem_long_wait(ivar, cmp_value);
}

void shmem_wait_until(volatile long *ivar, int cmp, long cmp_value)
{
	shmem_long_wait_until(ivar, cmp, cmp_value);
}
