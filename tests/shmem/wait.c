/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - waits and tests: every type, all comparisons, arrays with states and with a value each.
 */
#include "pe.h"

#define PES_MAX 64

static int me, npes;

/* The word goes round the ring: each PE waits for the one before it. */
#define RING(NAME, TYPE, OP)                                                                       \
	static void ring_##NAME(void)                                                              \
	{                                                                                          \
		static TYPE word;                                                                  \
		int next = (me + 1) % npes;                                                        \
                                                                                                   \
		if (me == 0)                                                                       \
			shmem_##NAME##_p(&word, (TYPE)-5, next);                                   \
		shmem_##NAME##_wait_until(&word, SHMEM_CMP_NE, (TYPE)0);                           \
		CHECK(word == (TYPE)-5);                                                           \
		if (me != 0)                                                                       \
			shmem_##NAME##_p(&word, (TYPE)-5, next);                                   \
		shmem_##NAME##_wait_until(&word, SHMEM_CMP_EQ, (TYPE)-5);                          \
		shmem_##NAME##_wait_until(&word, SHMEM_CMP_LE, (TYPE)-5);                          \
		shmem_##NAME##_wait_until(&word, SHMEM_CMP_GE, (TYPE)-5);                          \
		shmem_##NAME##_wait_until(&word, SHMEM_CMP_GT, (TYPE)-6);                          \
		shmem_##NAME##_wait_until(&word, SHMEM_CMP_LT, (TYPE)-4);                          \
		/* signed or not? */                                                               \
		CHECK_EQ(shmem_##NAME##_test(&word, SHMEM_CMP_LT, (TYPE)1),                        \
			 !((TYPE)-1 > (TYPE)0));                                                   \
		CHECK_EQ(shmem_##NAME##_test(&word, SHMEM_CMP_GT, (TYPE)1), (TYPE)-1 > (TYPE)0);   \
		shmem_barrier_all();                                                               \
	}

OSH_WAIT_TYPES(RING, )

/* ---- arrays ---------------------------------------------------------------------------------- */

static long flags[PES_MAX];
static int status[PES_MAX];

static void reset(void)
{
	memset(flags, 0, sizeof(flags));
	memset(status, 0, sizeof(status));
	shmem_barrier_all();
}

static void tell_all(long value)
{
	int k;

	for (k = 0; k < npes; k++)
		shmem_long_p(&flags[me], value, (me + k) % npes);
}

static void wait_all(void)
{
	long values[PES_MAX];
	int k;

	reset();
	for (k = 0; k < npes; k++)
		values[k] = 10 + k;
	tell_all(10 + me);
	shmem_long_wait_until_all(flags, (size_t)npes, NULL, SHMEM_CMP_GE, 10);
	shmem_long_wait_until_all_vector(flags, (size_t)npes, NULL, SHMEM_CMP_EQ, values);
	CHECK(shmem_long_test_all(flags, (size_t)npes, NULL, SHMEM_CMP_GE, 10));
	CHECK(shmem_long_test_all_vector(flags, (size_t)npes, NULL, SHMEM_CMP_EQ, values));
	CHECK(!shmem_long_test_all(flags, (size_t)npes, NULL, SHMEM_CMP_GT, 10));
	status[0] = 1;
	CHECK(shmem_long_test_all(flags, (size_t)npes, status, SHMEM_CMP_GT, 10));
	flags[0] = -1;
	shmem_long_wait_until_all(flags, (size_t)npes, status, SHMEM_CMP_GT, 10);
	shmem_long_wait_until_all_vector(flags, (size_t)npes, status, SHMEM_CMP_EQ, values);
}

/* Takes the PEs one by one, each once. */
static void wait_any(int vector, int test)
{
	long values[PES_MAX];
	size_t at;
	int left;

	reset();
	for (left = 0; left < npes; left++)
		values[left] = 7;
	tell_all(7);
	for (left = npes; left > 0; left--) {
		do {
			if (test && vector)
				at = shmem_long_test_any_vector(flags, (size_t)npes, status,
								SHMEM_CMP_EQ, values);
			else if (test)
				at = shmem_long_test_any(flags, (size_t)npes, status, SHMEM_CMP_EQ,
							 7);
			else if (vector)
				at = shmem_long_wait_until_any_vector(flags, (size_t)npes, status,
								      SHMEM_CMP_EQ, values);
			else
				at = shmem_long_wait_until_any(flags, (size_t)npes, status,
							       SHMEM_CMP_EQ, 7);
		} while (test && at == SIZE_MAX);
		CHECK(at < (size_t)npes);
		CHECK_EQ(status[at], 0);
		CHECK_EQ(flags[at], 7);
		status[at] = 1;
	}
	CHECK(shmem_long_wait_until_any(flags, (size_t)npes, status, SHMEM_CMP_EQ, 7) == SIZE_MAX);
	CHECK(shmem_long_test_any(flags, (size_t)npes, status, SHMEM_CMP_EQ, 7) == SIZE_MAX);
	CHECK(shmem_long_wait_until_any(flags, 0, NULL, SHMEM_CMP_EQ, 7) == SIZE_MAX);
}

static void wait_some(int vector, int test)
{
	size_t indices[PES_MAX], n, i;
	long values[PES_MAX];
	int left;

	reset();
	for (left = 0; left < npes; left++)
		values[left] = 7;
	tell_all(7);
	for (left = npes; left > 0; left -= (int)n) {
		do {
			if (test && vector)
				n = shmem_long_test_some_vector(flags, (size_t)npes, indices,
								status, SHMEM_CMP_EQ, values);
			else if (test)
				n = shmem_long_test_some(flags, (size_t)npes, indices, status,
							 SHMEM_CMP_EQ, 7);
			else if (vector)
				n = shmem_long_wait_until_some_vector(flags, (size_t)npes, indices,
								      status, SHMEM_CMP_EQ, values);
			else
				n = shmem_long_wait_until_some(flags, (size_t)npes, indices, status,
							       SHMEM_CMP_EQ, 7);
		} while (test && !n);
		CHECK(n > 0 && n <= (size_t)left);
		for (i = 0; i < n; i++) {
			CHECK(indices[i] < (size_t)npes);
			CHECK_EQ(status[indices[i]], 0);
			status[indices[i]] = 1;
		}
	}
	CHECK_EQ(shmem_long_wait_until_some(flags, (size_t)npes, indices, status, SHMEM_CMP_EQ, 7),
		 0);
	CHECK_EQ(shmem_long_test_some(flags, (size_t)npes, indices, status, SHMEM_CMP_EQ, 7), 0);
}

/* Words that all compare are found in turn: none stays behind the others for ever. */
static void any_is_fair(int test)
{
	static long words[PES_MAX];
	int found[PES_MAX] = { 0 };
	size_t at;
	int i;

	for (i = 0; i < PES_MAX; i++)
		words[i] = 7;
	for (i = 0; i < PES_MAX; i++) {
		if (test)
			at = shmem_long_test_any(words, PES_MAX, NULL, SHMEM_CMP_EQ, 7);
		else
			at = shmem_long_wait_until_any(words, PES_MAX, NULL, SHMEM_CMP_EQ, 7);
		CHECK(at < PES_MAX && !found[at]);
		found[at] = 1;
	}
}

/* Names before 1.4, and a wait that ends by an atomic of another PE. */
static void other_names(void)
{
	static long word, count;
	int k;

	shmem_barrier_all();
	shmem_long_p(&word, 4, (me + 1) % npes);
	shmem_wait(&word, 0);
	shmem_wait_until(&word, SHMEM_CMP_EQ, 4);
	shmem_long_wait(&word, 5);
	for (k = 0; k < npes; k++)
		shmem_long_atomic_inc(&count, k);
	shmem_long_wait_until(&count, SHMEM_CMP_EQ, npes);
	shmem_wait_until(&count, SHMEM_CMP_GE, (long)npes);
	shmem_barrier_all();
}

int main(void)
{
	int i;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	CHECK(npes <= PES_MAX);
#define RUN(NAME, TYPE, OP) ring_##NAME();
	OSH_WAIT_TYPES(RUN, )
	wait_all();
	for (i = 0; i < 4; i++) {
		wait_any(i & 1, i >> 1);
		wait_some(i & 1, i >> 1);
	}
	any_is_fair(0);
	any_is_fair(1);
	other_names();
	shmem_finalize();
	return 0;
}
