/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amo.c - every atomic of every type, with and without a context, blocking and not: each PE makes a
 * sequence of them on a word of its own at every PE, and knows each previous value.
 */
#include "pe.h"

#define PES_MAX 64

static shmem_ctx_t ctx;

/* Quiet between a call that returns nothing and the next fetch: other contexts have other lanes. */
#define STANDARD(NAME, TYPE, OP)                                                                   \
	static void standard_##NAME(int me, int pe)                                                \
	{                                                                                          \
		static TYPE words[PES_MAX];                                                        \
		TYPE *w = &words[me], got = 77;                                                    \
                                                                                                   \
		shmem_##NAME##_atomic_set(w, (TYPE)5, pe);                                         \
		shmem_##NAME##_atomic_inc(w, pe);                                                  \
		shmem_##NAME##_atomic_add(w, (TYPE)-9, pe);                                        \
		CHECK(shmem_##NAME##_atomic_fetch(w, pe) == (TYPE)-3);                             \
		CHECK(shmem_##NAME##_atomic_fetch_inc(w, pe) == (TYPE)-3);                         \
		CHECK(shmem_##NAME##_atomic_fetch_add(w, (TYPE)4, pe) == (TYPE)-2);                \
		CHECK(shmem_##NAME##_atomic_compare_swap(w, (TYPE)1, (TYPE)9, pe) == (TYPE)2);     \
		CHECK(shmem_##NAME##_atomic_compare_swap(w, (TYPE)2, (TYPE)9, pe) == (TYPE)2);     \
		CHECK(shmem_##NAME##_atomic_swap(w, (TYPE)-1, pe) == (TYPE)9);                     \
		shmem_##NAME##_atomic_compare_swap_nbi(&got, w, (TYPE)-1, (TYPE)3, pe);            \
		shmem_quiet();                                                                     \
		CHECK(got == (TYPE)-1);                                                            \
		shmem_##NAME##_atomic_fetch_inc_nbi(&got, w, pe);                                  \
		shmem_quiet();                                                                     \
		CHECK(got == (TYPE)3);                                                             \
		shmem_##NAME##_atomic_fetch_add_nbi(&got, w, (TYPE)6, pe);                         \
		shmem_quiet();                                                                     \
		CHECK(got == (TYPE)4);                                                             \
		shmem_##NAME##_atomic_swap_nbi(&got, w, (TYPE)8, pe);                              \
		shmem_quiet();                                                                     \
		CHECK(got == (TYPE)10);                                                            \
		shmem_##NAME##_atomic_fetch_nbi(&got, w, pe);                                      \
		shmem_quiet();                                                                     \
		CHECK(got == (TYPE)8);                                                             \
		shmem_ctx_##NAME##_atomic_add(ctx, w, (TYPE)1, pe);                                \
		shmem_ctx_##NAME##_atomic_inc(ctx, w, pe);                                         \
		shmem_ctx_quiet(ctx);                                                              \
		CHECK(shmem_ctx_##NAME##_atomic_fetch_add(ctx, w, (TYPE)2, pe) == (TYPE)10);       \
		CHECK(shmem_ctx_##NAME##_atomic_compare_swap(ctx, w, (TYPE)12, (TYPE)0, pe) ==     \
		      (TYPE)12);                                                                   \
		CHECK(shmem_##NAME##_g(w, pe) == (TYPE)0);                                         \
	}

#define FLOATING(NAME, TYPE)                                                                       \
	static void floating_##NAME(int me, int pe)                                                \
	{                                                                                          \
		static TYPE words[PES_MAX];                                                        \
		TYPE *w = &words[me], got = 0;                                                     \
                                                                                                   \
		shmem_##NAME##_atomic_set(w, (TYPE)1.5, pe);                                       \
		CHECK(shmem_##NAME##_atomic_swap(w, (TYPE)-2.25, pe) == (TYPE)1.5);                \
		CHECK(shmem_##NAME##_atomic_fetch(w, pe) == (TYPE)-2.25);                          \
		shmem_ctx_##NAME##_atomic_swap_nbi(ctx, &got, w, (TYPE)7, pe);                     \
		shmem_ctx_quiet(ctx);                                                              \
		CHECK(got == (TYPE)-2.25);                                                         \
		CHECK(shmem_##NAME##_swap(w, (TYPE)0, pe) == (TYPE)7);                             \
	}

#define BITWISE(NAME, TYPE, OP)                                                                    \
	static void bitwise_##NAME(int me, int pe)                                                 \
	{                                                                                          \
		static TYPE words[PES_MAX];                                                        \
		TYPE *w = &words[me], got = 0;                                                     \
                                                                                                   \
		shmem_##NAME##_atomic_or(w, (TYPE)0xf0, pe);                                       \
		shmem_##NAME##_atomic_and(w, (TYPE)0x3c, pe);                                      \
		shmem_##NAME##_atomic_xor(w, (TYPE)-1, pe);                                        \
		CHECK(shmem_##NAME##_atomic_fetch_and(w, (TYPE)0xff, pe) == (TYPE)~0x30);          \
		CHECK(shmem_##NAME##_atomic_fetch_or(w, (TYPE)0x10, pe) == (TYPE)0xcf);            \
		CHECK(shmem_##NAME##_atomic_fetch_xor(w, (TYPE)0x0f, pe) == (TYPE)0xdf);           \
		shmem_##NAME##_atomic_fetch_xor_nbi(&got, w, (TYPE)0xd0, pe);                      \
		shmem_quiet();                                                                     \
		CHECK(got == (TYPE)0xd0);                                                          \
		shmem_ctx_##NAME##_atomic_or(ctx, w, (TYPE)6, pe);                                 \
		shmem_ctx_quiet(ctx);                                                              \
		shmem_##NAME##_atomic_fetch_or_nbi(&got, w, (TYPE)1, pe);                          \
		shmem_quiet();                                                                     \
		CHECK(got == (TYPE)6);                                                             \
		shmem_ctx_##NAME##_atomic_fetch_and_nbi(ctx, &got, w, (TYPE)0, pe);                \
		shmem_ctx_quiet(ctx);                                                              \
		CHECK(got == (TYPE)7);                                                             \
	}

OSH_AMO_TYPES(STANDARD, )
FLOATING(float, float)
FLOATING(double, double)
OSH_AMO_BITWISE_TYPES(BITWISE, )

/* Names before 1.4, and the generic forms of C11. */
static void other_names(int me, int pe)
{
	static long words[PES_MAX];
	static int narrow[PES_MAX];
	static double floating[PES_MAX];
	long *w = &words[me];

	shmem_long_set(w, 3, pe);
	shmem_long_add(w, 4, pe);
	shmem_long_inc(w, pe);
	CHECK_EQ(shmem_long_fetch(w, pe), 8);
	CHECK_EQ(shmem_long_fadd(w, 2, pe), 8);
	CHECK_EQ(shmem_long_finc(w, pe), 10);
	CHECK_EQ(shmem_long_cswap(w, 11, 20, pe), 11);
	CHECK_EQ(shmem_long_swap(w, 21, pe), 20);
	CHECK_EQ(shmem_swap(w, 22, pe), 21);
	shmem_atomic_add(w, 1, pe);
	CHECK_EQ(shmem_atomic_fetch_add(w, 2, pe), 23);
	shmem_atomic_inc(ctx, w, pe);
	shmem_ctx_quiet(ctx);
	CHECK_EQ(shmem_atomic_fetch(ctx, w, pe), 26);
	CHECK_EQ(shmem_atomic_compare_swap(w, 26, 0, pe), 26);
	shmem_atomic_set(&narrow[me], 6, pe);
	CHECK_EQ(shmem_atomic_fetch_xor((unsigned int *)&narrow[me], 3u, pe), 6);
	CHECK_EQ(shmem_atomic_swap(&narrow[me], 0, pe), 5);
	shmem_atomic_set(&floating[me], 0.5, pe);
	CHECK(shmem_atomic_fetch(&floating[me], pe) == 0.5);
}

int main(void)
{
	int me, npes, k;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	CHECK(npes <= PES_MAX);
	CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
	for (k = 0; k < npes; k++) {
		int pe = (me + k) % npes;

#define RUN_STANDARD(NAME, TYPE, OP) standard_##NAME(me, pe);
#define RUN_BITWISE(NAME, TYPE, OP) bitwise_##NAME(me, pe);
		OSH_AMO_TYPES(RUN_STANDARD, )
		floating_float(me, pe);
		floating_double(me, pe);
		OSH_AMO_BITWISE_TYPES(RUN_BITWISE, )
		other_names(me, pe);
	}
	shmem_ctx_destroy(ctx);
	shmem_finalize();
	return 0;
}
