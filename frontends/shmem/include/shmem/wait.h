/* SPDX-License-Identifier: BSD-3-Clause */
/* shmem/wait.h - waits and tests on words of symmetric memory, for OSH_WAIT_TYPES. */
#ifndef SHMEM_WAIT_H
#define SHMEM_WAIT_H

#include "def.h"
#include "tables.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OSH_DECLARE_WAIT(NAME, TYPE, OP)                                                           \
	void shmem_##NAME##_wait_until(volatile TYPE *ivar, int cmp, TYPE cmp_value);              \
	void shmem_##NAME##_wait_until_all(volatile TYPE *ivars, size_t nelems, const int *status, \
					   int cmp, TYPE cmp_value);                               \
	size_t shmem_##NAME##_wait_until_any(volatile TYPE *ivars, size_t nelems,                  \
					     const int *status, int cmp, TYPE cmp_value);          \
	size_t shmem_##NAME##_wait_until_some(volatile TYPE *ivars, size_t nelems,                 \
					      size_t *indices, const int *status, int cmp,         \
					      TYPE cmp_value);                                     \
	void shmem_##NAME##_wait_until_all_vector(volatile TYPE *ivars, size_t nelems,             \
						  const int *status, int cmp,                      \
						  const TYPE *cmp_values);                         \
	size_t shmem_##NAME##_wait_until_any_vector(volatile TYPE *ivars, size_t nelems,           \
						    const int *status, int cmp,                    \
						    const TYPE *cmp_values);                       \
	size_t shmem_##NAME##_wait_until_some_vector(volatile TYPE *ivars, size_t nelems,          \
						     size_t *indices, const int *status, int cmp,  \
						     const TYPE *cmp_values);
#define OSH_DECLARE_TEST(NAME, TYPE, OP)                                                           \
	int shmem_##NAME##_test(volatile TYPE *ivar, int cmp, TYPE cmp_value);                     \
	int shmem_##NAME##_test_all(volatile TYPE *ivars, size_t nelems, const int *status,        \
				    int cmp, TYPE cmp_value);                                      \
	size_t shmem_##NAME##_test_any(volatile TYPE *ivars, size_t nelems, const int *status,     \
				       int cmp, TYPE cmp_value);                                   \
	size_t shmem_##NAME##_test_some(volatile TYPE *ivars, size_t nelems, size_t *indices,      \
					const int *status, int cmp, TYPE cmp_value);               \
	int shmem_##NAME##_test_all_vector(volatile TYPE *ivars, size_t nelems, const int *status, \
					   int cmp, const TYPE *cmp_values);                       \
	size_t shmem_##NAME##_test_any_vector(volatile TYPE *ivars, size_t nelems,                 \
					      const int *status, int cmp, const TYPE *cmp_values); \
	size_t shmem_##NAME##_test_some_vector(volatile TYPE *ivars, size_t nelems,                \
					       size_t *indices, const int *status, int cmp,        \
					       const TYPE *cmp_values);

OSH_WAIT_TYPES(OSH_DECLARE_WAIT, )
OSH_WAIT_TYPES(OSH_DECLARE_TEST, )

#ifdef __cplusplus
}
#endif

#endif
