/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reductions.c - all reductions of all types, over teams and active sets, against a model.
 *
 * The model combines the elements of all PEs in the order of the set, as the library does, so also
 * floating-point results must be equal.
 */
#include <complex.h>

#include "pe.h"

#define MOST 2500 /* elements; of 16 bytes they need two pieces with 8 PEs */

static int me, npes, round_number;
static char source[MOST * 32], dest[MOST * 32];
static char work[MOST * 32];
static long psync[SHMEM_REDUCE_SYNC_SIZE];

/* Small numbers: products of 8 PEs fit into 16 bits, and wrap in 8. */
static int number(int pe, int i)
{
	return (pe * 5 + i * 3 + round_number) % 5 + 1;
}

#define MODEL_and(a, b) ((a) & (b))
#define MODEL_or(a, b) ((a) | (b))
#define MODEL_xor(a, b) ((a) ^ (b))
#define MODEL_min(a, b) ((b) < (a) ? (b) : (a))
#define MODEL_max(a, b) ((b) > (a) ? (b) : (a))
#define MODEL_sum(a, b) ((a) + (b))
#define MODEL_prod(a, b) ((a) * (b))

/* FIRST, STEP, N: the PEs of the set; MAKE: from a number to an element. */
#define CHECK_RESULT(TYPE, OP, FIRST, STEP, N, COUNT, TO)                                          \
	for (int i_ = 0; i_ < (COUNT); i_++) {                                                     \
		TYPE want_ = (TYPE)number(FIRST, i_);                                              \
                                                                                                   \
		for (int pe_ = 1; pe_ < (N); pe_++)                                                \
			want_ = (TYPE)MODEL_##OP(want_, (TYPE)number((FIRST) + pe_ * (STEP), i_)); \
		if ((TO)[i_] != want_) {                                                           \
			fprintf(stderr, "%s %s, element %d of %d\n", #TYPE, #OP, i_, COUNT);       \
			CHECK((TO)[i_] == want_);                                                  \
		}                                                                                  \
	}

#define FILL(TYPE, COUNT)                                                                          \
	TYPE *from_ = (TYPE *)(void *)source, *to_ = (TYPE *)(void *)dest;                         \
                                                                                                   \
	round_number++;                                                                            \
	for (int i_ = 0; i_ < (COUNT); i_++)                                                       \
		from_[i_] = (TYPE)number(me, i_);                                                  \
	for (int i_ = 0; i_ <= (COUNT); i_++)                                                      \
		to_[i_] = (TYPE)77;

static const int counts[] = { 0, 1, 3, 100, MOST };

/* The world, into other memory and in place; then the odd or even PEs. */
#define CHECK_TEAM(NAME, TYPE, OP)                                                                 \
	static void team_##NAME##_##OP(shmem_team_t half)                                          \
	{                                                                                          \
		for (int k = 0; k < 5; k++) {                                                      \
			int n = counts[k];                                                         \
			FILL(TYPE, n)                                                              \
                                                                                                   \
			CHECK_EQ(shmem_##NAME##_##OP##_reduce(SHMEM_TEAM_WORLD, to_, from_,        \
							      (size_t)n),                          \
				 0);                                                               \
			CHECK_RESULT(TYPE, OP, 0, 1, npes, n, to_)                                 \
			CHECK(to_[n] == (TYPE)77);                                                 \
			CHECK_EQ(shmem_##NAME##_##OP##_reduce(half, to_, from_, (size_t)n), 0);    \
			CHECK_RESULT(TYPE, OP, me % 2, 2, shmem_team_n_pes(half), n, to_)          \
			CHECK_EQ(shmem_##NAME##_##OP##_reduce(SHMEM_TEAM_WORLD, from_, from_,      \
							      (size_t)n),                          \
				 0);                                                               \
			CHECK_RESULT(TYPE, OP, 0, 1, npes, n, from_)                               \
		}                                                                                  \
		CHECK(shmem_##NAME##_##OP##_reduce(SHMEM_TEAM_INVALID, (TYPE *)(void *)dest,       \
						   (TYPE *)(void *)source, 1) != 0);               \
	}

#define CHECK_ACTIVE(NAME, TYPE, OP)                                                               \
	static void active_##NAME##_##OP(void)                                                     \
	{                                                                                          \
		for (int k = 0; k < 5; k++) {                                                      \
			int n = counts[k], half = (npes + 1 - me % 2) / 2;                         \
			FILL(TYPE, n)                                                              \
                                                                                                   \
			shmem_##NAME##_##OP##_to_all(to_, from_, n, 0, 0, npes,                    \
						     (TYPE *)(void *)work, psync);                 \
			CHECK_RESULT(TYPE, OP, 0, 1, npes, n, to_)                                 \
			CHECK(to_[n] == (TYPE)77);                                                 \
			shmem_##NAME##_##OP##_to_all(from_, from_, n, me % 2, 1, half,             \
						     (TYPE *)(void *)work, psync);                 \
			CHECK_RESULT(TYPE, OP, me % 2, 2, half, n, from_)                          \
		}                                                                                  \
	}

#define RUN_TEAM(NAME, TYPE, OP) team_##NAME##_##OP(half);
#define RUN_ACTIVE(NAME, TYPE, OP) active_##NAME##_##OP();

#define TEAM_TABLES(X)                                                                             \
	OSH_REDUCE_BITWISE_TYPES(X, and)                                                           \
	OSH_REDUCE_BITWISE_TYPES(X, or)                                                            \
	OSH_REDUCE_BITWISE_TYPES(X, xor)                                                           \
	OSH_REDUCE_ORDER_TYPES(X, max)                                                             \
	OSH_REDUCE_ORDER_TYPES(X, min)                                                             \
	OSH_REDUCE_ARITHMETIC_TYPES(X, sum)                                                        \
	OSH_REDUCE_ARITHMETIC_TYPES(X, prod)
#define ACTIVE_TABLES(X)                                                                           \
	OSH_OLD_REDUCE_BITWISE_TYPES(X, and)                                                       \
	OSH_OLD_REDUCE_BITWISE_TYPES(X, or)                                                        \
	OSH_OLD_REDUCE_BITWISE_TYPES(X, xor)                                                       \
	OSH_OLD_REDUCE_ORDER_TYPES(X, max)                                                         \
	OSH_OLD_REDUCE_ORDER_TYPES(X, min)                                                         \
	OSH_OLD_REDUCE_ARITHMETIC_TYPES(X, sum)                                                    \
	OSH_OLD_REDUCE_ARITHMETIC_TYPES(X, prod)

TEAM_TABLES(CHECK_TEAM)
ACTIVE_TABLES(CHECK_ACTIVE)

/* Values that small numbers do not have: signs, and both parts of a complex number. */
static void check_signs(void)
{
	static long double wide, wide_sum;
	static float _Complex two, two_sum;
	static double _Complex four, four_product;
	static signed char low, lowest;
	static unsigned char high, highest;
	double _Complex want = 1;
	int pe;

	wide = -1.0L - 1e-18L * (me + 1); /* a double would lose the second term */
	shmem_longdouble_min_reduce(SHMEM_TEAM_WORLD, &wide_sum, &wide, 1);
	CHECK(wide_sum == -1.0L - 1e-18L * npes);
	two = (float)me - (float)(2 * me) * I;
	shmem_complexf_sum_reduce(SHMEM_TEAM_WORLD, &two_sum, &two, 1);
	CHECK(two_sum == (float)(npes * (npes - 1) / 2) - (float)(npes * (npes - 1)) * I);
	four = (double)(me % 2) - I;
	shmem_complexd_prod_reduce(SHMEM_TEAM_WORLD, &four_product, &four, 1);
	for (pe = 0; pe < npes; pe++)
		want = pe ? want * ((double)(pe % 2) - I) : (double)(pe % 2) - I;
	CHECK(four_product == want);
	low = (signed char)(me - 3);
	shmem_schar_min_reduce(SHMEM_TEAM_WORLD, &lowest, &low, 1);
	CHECK_EQ(lowest, -3);
	high = (unsigned char)(200 + me);
	shmem_uchar_max_reduce(SHMEM_TEAM_WORLD, &highest, &high, 1);
	CHECK_EQ(highest, 200 + npes - 1);
}

int main(void)
{
	shmem_team_t half, other;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (npes + 1) / 2, NULL, 0, &half),
		 0);
	if (npes > 1)
		CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, NULL, 0,
						  &other),
			 0);
	if (me % 2)
		half = other;
	TEAM_TABLES(RUN_TEAM)
	ACTIVE_TABLES(RUN_ACTIVE)
	check_signs();
	shmem_finalize();
	return 0;
}
