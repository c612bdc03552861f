/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/litmus.cu - tests the memory order that the primitives of device/port.h promise on a
 * GPU, each pair of a release and an acquire by itself: between two blocks of a kernel, and between
 * two ranks.
 *
 * Message passing: a writer stores data on several lines, then a word.  A reader that sees the word
 * must see the data.  Store buffering: two writers store, fence, and read each other's word; at
 * least one must see the other's store.
 * Each test runs many rounds with random delays and counts forbidden outcomes; there must be none.
 * Weakened variants show that the test would find a mistake.  If a GPU never shows a weak outcome,
 * the test says so.  Chains over three ranks are in litmus_chain.cu.
 */
#include "gpu.h"

#define LINES 8     /* of data, far enough apart for different slices of the cache */
#define STRIDE 1032 /* words from one to the next */
#define FLAG (LINES * STRIDE)
#define WORDS (FLAG + 64)
#define ROUNDS 20000

/* How the word is written, and how it is read. */
enum way {
	STORE_LOAD,
	ADD_LOAD,
	FETCH_ADD_LOAD,
	SWAP_LOAD,
	COMPARE_SWAP_LOAD,
	STORE_FETCH_ADD,
	STORE32_LOAD32,
	FENCE_STORE_LOAD,
	FETCH_ADD32, /* within one device only */
	WEAK,        /* relaxed on both sides: forbidden outcomes are allowed here */
	WAYS
};

static const char *const way_names[WAYS] = {
	"store_release, load_acquire",        "add_release, load_acquire",
	"fetch_add_acq_rel, load_acquire",    "swap_acq_rel, load_acquire",
	"compare_swap_acq_rel, load_acquire", "store_release, fetch_add_acq_rel",
	"store_release32, load_acquire32",    "fence_sys and store_relaxed, load_acquire",
	"fetch_add32_acq_rel on both sides",  "store_relaxed, load_relaxed (weakened)",
};

struct litmus_args {
	uint64_t *memory; /* WORDS: data, then the word */
	uint64_t *result; /* [0] forbidden outcomes, [1] looks, [2] gave up */
	int32_t way;
	int32_t rounds;
	int32_t role; /* 0: block 0 writes and block 1 reads; 1: this rank writes; 2: reads */
	uint32_t seed;
};

ORIEL_DEV void publish(uint64_t *word, int way, uint64_t value)
{
	switch (way) {
	case ADD_LOAD:
		ori_add_release_sys(word, 1);
		break;
	case FETCH_ADD_LOAD:
		(void)ori_fetch_add_acq_rel_sys(word, 1);
		break;
	case SWAP_LOAD:
		(void)ori_swap_acq_rel_sys(word, value);
		break;
	case COMPARE_SWAP_LOAD:
		(void)ori_compare_swap_acq_rel_sys(word, value - 1, value);
		break;
	case STORE32_LOAD32:
		ori_store_release32_sys((uint32_t *)(void *)word, (uint32_t)value);
		break;
	case FETCH_ADD32:
		(void)ori_fetch_add32_acq_rel((uint32_t *)(void *)word, 1);
		break;
	case FENCE_STORE_LOAD:
		ori_fence_sys();
		ori_store_relaxed_sys(word, value);
		break;
	case WEAK:
		ori_store_relaxed_sys(word, value);
		break;
	default:
		ori_store_release_sys(word, value);
	}
}

ORIEL_DEV uint64_t look(uint64_t *word, int way)
{
	switch (way) {
	case STORE_FETCH_ADD:
		return ori_fetch_add_acq_rel_sys(word, 0);
	case STORE32_LOAD32:
		return ori_load_acquire32_sys((const uint32_t *)(const void *)word);
	case FETCH_ADD32:
		return ori_fetch_add32_acq_rel((uint32_t *)(void *)word, 0);
	case WEAK:
		return ori_load_relaxed_sys(word);
	default:
		return ori_load_acquire_sys(word);
	}
}

/*
 * Data of round i are i, by plain stores, as a put's are.  With STORE_FETCH_ADD the reader adds 0
 * to the word the writer stores to: atomic, so no store falls into it.
 */
ORIEL_DEV void write_rounds(const struct litmus_args *a)
{
	uint32_t seed = a->seed * 2 + 1;
	uint64_t i;
	int k;

	for (i = 1; i <= (uint64_t)a->rounds; i++) {
		for (k = 0; k < LINES; k++)
			a->memory[(k + (int)(i & 7)) % LINES * STRIDE] = i;
		publish(a->memory + FLAG, a->way, i);
		gpu_random_delay(&seed);
	}
}

ORIEL_DEV void read_rounds(const struct litmus_args *a)
{
	uint64_t seen = 0, wrong = 0, looks = 0, idle = 0;
	uint32_t seed = a->seed * 2 + 7;
	int k;

	while (seen < (uint64_t)a->rounds && idle < 400000000ull) {
		uint64_t now = look(a->memory + FLAG, a->way);

		idle = now == seen ? idle + 1 : 0;
		if (now == seen)
			continue;
		seen = now;
		looks++;
		for (k = LINES - 1; k >= 0; k--)
			wrong += a->memory[k * STRIDE] < now;
		gpu_random_delay(&seed);
	}
	a->result[0] = wrong;
	a->result[1] = looks;
	a->result[2] = seen < (uint64_t)a->rounds;
}

ORIEL_KERNEL(passing_kernel, struct litmus_args)
{
	struct oriel_group g = oriel_group_thread();

	if (a->role == 1 || (a->role == 0 && g.block == 0))
		write_rounds(a);
	else
		read_rounds(a);
	return 0;
}

/* ---- store buffering ------------------------------------------------------------------------- */

struct buffering_args {
	uint64_t *both; /* [side][round]: stored by that side */
	uint64_t *meet; /* both sides add to it */
	uint64_t *seen; /* [side][round]: 1 + what it saw of the other */
	int32_t rounds, fenced;
};

/* One side: stores 1, fences, looks at the other's.  Both start a round together. */
ORIEL_KERNEL(buffering_kernel, struct buffering_args)
{
	uint32_t side = oriel_group_thread().block, seed = side * 77 + 5;
	uint64_t *mine = a->both + side * (uint32_t)a->rounds;
	uint64_t *theirs = a->both + (1 - side) * (uint32_t)a->rounds;
	uint64_t tries;
	int i;

	for (i = 0; i < a->rounds; i++) {
		ori_add_release_sys(a->meet, 1);
		for (tries = 0; tries < 100000000ull; tries++)
			if (ori_load_acquire_sys(a->meet) >= 2 * ((uint64_t)i + 1))
				break;
		if (i % 2)
			gpu_random_delay(&seed);
		ori_store_relaxed_sys(mine + i, 1);
		if (a->fenced)
			ori_fence_sys();
		a->seen[(uint32_t)(a->rounds) * side + (uint32_t)i] =
			1 + ori_load_relaxed_sys(theirs + i);
	}
	return 0;
}

/* ---- one rank, two blocks -------------------------------------------------------------------- */

static void judge(const char *where, int way, const uint64_t *result)
{
	printf("  %-13s %-44s %llu forbidden of %llu looks\n", where, way_names[way],
	       (unsigned long long)result[0], (unsigned long long)result[1]);
	CHECK_EQ(result[2], 0); /* the reader saw the last round */
	CHECK(result[1] > 0);
	if (way != WEAK)
		CHECK_EQ(result[0], 0);
	else if (!result[0])
		printf("  this GPU did not show the weakened variant here\n");
}

static void blocks_pass(struct rank_env *env)
{
	struct litmus_args a = { NULL, NULL, 0, ROUNDS, 0, 1 };
	uint64_t result[3], *zeros = (uint64_t *)calloc(WORDS, 8);
	void *memory, *out;

	REQUIRE(zeros);
	REQUIRE_OK(oriel_alloc(env->comm, WORDS * 8, &memory));
	REQUIRE_OK(oriel_alloc(env->comm, sizeof(result), &out));
	a.memory = (uint64_t *)memory;
	a.result = (uint64_t *)out;
	for (a.way = 0; a.way < WAYS; a.way++, a.seed++) {
		REQUIRE_OK(oriel_copy(env->comm, memory, zeros, WORDS * 8));
		REQUIRE_OK(oriel_launch(env->comm, &passing_kernel, 2, 1, &a, sizeof(a), NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		REQUIRE_OK(oriel_copy(env->comm, result, out, sizeof(result)));
		judge("two blocks:", a.way, result);
	}
	free(zeros);
	REQUIRE_OK(oriel_free(env->comm, memory));
	REQUIRE_OK(oriel_free(env->comm, out));
}

/* ---- two ranks ------------------------------------------------------------------------------- */

/* Rank 0 writes into rank 1's memory; rank 1 reads its own. */
static void ranks_pass_way(struct rank_env *env, struct oriel_buffer *buffer, struct litmus_args *a,
			   const uint64_t *zeros, void *out)
{
	uint64_t result[3];

	if (env->rank == 1)
		REQUIRE_OK(oriel_copy(env->comm, oriel_buffer_mapped(buffer, 1), zeros, WORDS * 8));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_launch(env->comm, &passing_kernel, 1, 1, a, sizeof(*a), NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	if (env->rank == 1) {
		REQUIRE_OK(oriel_copy(env->comm, result, out, sizeof(result)));
		judge(env->processes ? "2 processes:" : "2 threads:", a->way, result);
	}
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
}

static void ranks_pass(struct rank_env *env)
{
	struct litmus_args a = { NULL, NULL, 0, ROUNDS, 0, 3 };
	uint64_t *zeros = (uint64_t *)calloc(WORDS, 8);
	struct oriel_buffer *buffer;
	void *memory, *out;

	REQUIRE(zeros);
	REQUIRE_OK(oriel_alloc(env->comm, WORDS * 8, &memory));
	REQUIRE_OK(oriel_alloc(env->comm, 3 * 8, &out));
	REQUIRE_OK(oriel_buffer_register(env->comm, memory, WORDS * 8, &buffer));
	REQUIRE_OK(oriel_buffer_exchange(env->comm, buffer));
	a.memory = (uint64_t *)oriel_buffer_mapped(buffer, 1);
	a.result = (uint64_t *)out;
	a.role = env->rank + 1;
	REQUIRE(a.memory);
	for (a.way = 0; a.way < WAYS; a.way++, a.seed++)
		if (a.way != FETCH_ADD32)
			ranks_pass_way(env, buffer, &a, zeros, out);
	free(zeros);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_buffer_release(buffer));
	REQUIRE_OK(oriel_free(env->comm, memory));
	REQUIRE_OK(oriel_free(env->comm, out));
}

/* ---- store buffering, from the host ---------------------------------------------------------- */

#define SB_ROUNDS 20000

static uint64_t count_both_missed(const uint64_t *seen)
{
	uint64_t missed = 0;

	for (int i = 0; i < SB_ROUNDS; i++) {
		CHECK(seen[i] && seen[SB_ROUNDS + i]);
		missed += seen[i] == 1 && seen[SB_ROUNDS + i] == 1;
	}
	return missed;
}

static void buffering(struct rank_env *env)
{
	const size_t bytes = (4 * SB_ROUNDS + 64) * sizeof(uint64_t);
	struct buffering_args a = { NULL, NULL, NULL, SB_ROUNDS, 0 };
	uint64_t *host = (uint64_t *)calloc(1, bytes), missed;
	void *memory;

	REQUIRE(host);
	REQUIRE_OK(oriel_alloc(env->comm, bytes, &memory));
	a.both = (uint64_t *)memory;
	a.seen = a.both + 2 * SB_ROUNDS;
	a.meet = a.both + 4 * SB_ROUNDS;
	for (a.fenced = 1; a.fenced >= 0; a.fenced--) {
		memset(host, 0, bytes);
		REQUIRE_OK(oriel_copy(env->comm, memory, host, bytes));
		REQUIRE_OK(oriel_launch(env->comm, &buffering_kernel, 2, 1, &a, sizeof(a), NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		REQUIRE_OK(oriel_copy(env->comm, host, memory, bytes));
		missed = count_both_missed(host + 2 * SB_ROUNDS);
		printf("  store buffering %s: %llu forbidden of %d rounds\n",
		       a.fenced ? "with fence_sys" : "without (weakened)",
		       (unsigned long long)missed, SB_ROUNDS);
		if (a.fenced)
			CHECK_EQ(missed, 0);
		else if (!missed)
			printf("  this GPU did not show the weakened variant here\n");
	}
	free(host);
	REQUIRE_OK(oriel_free(env->comm, memory));
}

TEST(message_passing_between_processes)
{
	gpu_run(2, 1, NULL, ranks_pass, NULL);
}

TEST(message_passing_between_thread_ranks)
{
	gpu_run(2, 0, NULL, ranks_pass, NULL);
}

TEST(message_passing_between_blocks)
{
	gpu_run(1, 0, NULL, blocks_pass, NULL);
}

TEST(store_buffering_between_blocks)
{
	gpu_run(1, 0, NULL, buffering, NULL);
}
