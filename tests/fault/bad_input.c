/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/bad_input.c - host calls with bad arguments.
 *
 * A local call refuses them.  In a collective call only the last rank has a bad argument.  Every
 * rank returns the same status, the other ranks learn which rank it was, and the comm stays usable.
 */
#include <limits.h>

#include <oriel/coll.h>
#include <oriel/device.h>

#include "../ranks.h"

#define RANKS 3
#define LAST (RANKS - 1)
#define BYTES 4096

static const char *const layouts[] = { NULL, "3x1", "0,0,1" };

/* On threads and processes, over mapped and queued peers. */
static void run_everywhere(rank_fn *fn)
{
	for (int i = 0; i < 6; i++) {
		struct ranks_options o = { .nranks = RANKS,
					   .processes = i / 3,
					   .topology = layouts[i % 3] };

		ranks_run(&o, fn, NULL);
	}
}

static struct oriel_window *make_window(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;

	o.bytes = BYTES;
	if (oriel_window_create(env->comm, &o, &w))
		check_fail(__FILE__, __LINE__, "window: %s", oriel_last_error());
	return w;
}

/* ---- collective calls: the last rank is wrong ------------------------------------------------ */

/* What the calls below are made with. */
struct things {
	struct rank_env *env;
	struct oriel_window *window;
	struct oriel_buffer *buffer;
	int wrong; /* this rank is the one */
};

static int split(struct things *t)
{
	struct oriel_comm *sub;

	return oriel_comm_split(t->env->comm, 0, 0, t->wrong ? NULL : &sub);
}

static int gather_null(struct things *t)
{
	uint64_t mine = 0, all[RANKS];

	return oriel_comm_allgather(t->env->comm, ORIEL_WORLD, t->wrong ? NULL : &mine, all, 8);
}

static int connect_negative(struct things *t)
{
	return oriel_comm_connect(t->env->comm, NULL, t->wrong ? -1 : 0);
}

static int connect_no_rank(struct things *t)
{
	int rank = t->wrong ? INT_MIN : 0;

	return oriel_comm_connect(t->env->comm, &rank, 1);
}

static int exchange_null(struct things *t)
{
	return oriel_buffer_exchange(t->env->comm, t->wrong ? NULL : t->buffer);
}

static int create_window(struct things *t, struct oriel_window_options *bad)
{
	struct oriel_window_options good = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;

	good.bytes = BYTES;
	return oriel_window_create(t->env->comm, t->wrong ? bad : &good, &w);
}

static int window_no_options(struct things *t)
{
	return create_window(t, NULL);
}

static int window_wrong_size(struct things *t)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.size = 8;
	return create_window(t, &o);
}

static int window_too_large(struct things *t)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = UINT64_MAX;
	return create_window(t, &o);
}

static int window_many_ids(struct things *t)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.signals = UINT32_MAX;
	return create_window(t, &o);
}

/* Each number is possible, their product is 2^50 bytes for each peer. */
static int window_much_staging(struct things *t)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = BYTES;
	o.staging_slot_bytes = 1ull << 30;
	o.staging_depth = 1024;
	o.staging_channels = 1024;
	return create_window(t, &o);
}

static int window_no_place(struct things *t)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;

	o.bytes = BYTES;
	return oriel_window_create(t->env->comm, &o, t->wrong ? NULL : &w);
}

static int init_no_window(struct things *t)
{
	struct oriel_allgather_request *r;

	return oriel_allgather_create(t->env->comm, t->wrong ? NULL : t->window, NULL, &r);
}

static int init_no_algorithm(struct things *t)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *r;

	o.algorithm = t->wrong ? -1 : 0;
	return oriel_allgather_create(t->env->comm, t->window, &o, &r);
}

static int init_far_offset(struct things *t)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *r;

	o.offset = t->wrong ? UINT64_MAX : 0;
	o.bytes = RANKS * 8;
	return oriel_allgather_create(t->env->comm, t->window, &o, &r);
}

static int init_many_elements(struct things *t)
{
	struct oriel_allgather_request *r;

	return oriel_allgather_create_buffer(t->env->comm, t->buffer, t->wrong ? UINT64_MAX / 8 : 1,
					     16, NULL, &r);
}

static int init_no_elements(struct things *t)
{
	struct oriel_allgather_request *r;

	return oriel_allgather_create_buffer(t->env->comm, t->buffer, t->wrong ? 0 : 1, 8, NULL,
					     &r);
}

static int alltoallv_no_options(struct things *t)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_request *r;

	o.slot_bytes = 64;
	return oriel_alltoallv_create(t->env->comm, t->wrong ? NULL : &o, &r);
}

static int alltoallv_too_large(struct things *t)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_request *r;

	o.slot_bytes = t->wrong ? UINT64_MAX : 64;
	return oriel_alltoallv_create(t->env->comm, &o, &r);
}

static const struct {
	const char *name;
	int (*call)(struct things *);
	int status;
} collectives[] = {
	{ "comm_split without a place", split, ORIEL_EINVAL },
	{ "comm_allgather of NULL", gather_null, ORIEL_EINVAL },
	{ "comm_connect to -1 ranks", connect_negative, ORIEL_EINVAL },
	{ "comm_connect to no rank", connect_no_rank, ORIEL_ERANGE },
	{ "buffer_exchange of NULL", exchange_null, ORIEL_EINVAL },
	{ "window_create without options", window_no_options, ORIEL_EINVAL },
	{ "window_create, size", window_wrong_size, ORIEL_EINVAL },
	{ "window_create of UINT64_MAX bytes", window_too_large, ORIEL_ERANGE },
	{ "window_create, UINT32_MAX signals", window_many_ids, ORIEL_ERANGE },
	{ "window_create, much staging", window_much_staging, ORIEL_ERANGE },
	{ "window_create without a place", window_no_place, ORIEL_EINVAL },
	{ "allgather_init without a window", init_no_window, ORIEL_EINVAL },
	{ "allgather_init, algorithm", init_no_algorithm, ORIEL_EINVAL },
	{ "allgather_init, offset", init_far_offset, ORIEL_ERANGE },
	{ "allgather_init_buffer, overflow", init_many_elements, ORIEL_ERANGE },
	{ "allgather_init_buffer of 0", init_no_elements, ORIEL_EINVAL },
	{ "alltoallv_create without options", alltoallv_no_options, ORIEL_EINVAL },
	{ "alltoallv_create, slot_bytes", alltoallv_too_large, ORIEL_ERANGE },
};

/* The comm, and windows made now, still work: numbers that ranks count are alike, too. */
static void works(struct rank_env *env)
{
	struct oriel_window *w = make_window(env);
	struct oriel_allgather_request *r = NULL;
	uint64_t mine = 5 + (uint64_t)env->rank, *words;

	REQUIRE(w);
	REQUIRE_OK(oriel_allgather_create(env->comm, w, NULL, &r));
	REQUIRE_OK(oriel_allgather_exec(r, &mine, 1, 8, NULL));
	words = oriel_window_buffer(w);
	for (int i = 0; i < RANKS; i++)
		CHECK_EQ(words[i], 5 + i);
	CHECK_EQ(oriel_allgather_destroy(r), 0);
	CHECK_EQ(oriel_window_destroy(w), 0);
	CHECK_EQ(oriel_comm_status(env->comm), 0);
}

static void last_rank_is_wrong(struct rank_env *env)
{
	struct things t = { .env = env, .wrong = env->rank == LAST };
	void *memory;

	t.window = make_window(env);
	REQUIRE_OK(oriel_alloc(env->comm, BYTES, &memory));
	REQUIRE_OK(oriel_buffer_register(env->comm, memory, BYTES, &t.buffer));
	for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
		int err = collectives[i].call(&t);

		if (err != collectives[i].status ||
		    (!t.wrong && !strstr(oriel_last_error(), "rank 2")))
			check_fail(__FILE__, __LINE__, "%s: rank %d got %d: %s",
				   collectives[i].name, env->rank, err, oriel_last_error());
		works(env);
	}
	CHECK_EQ(oriel_buffer_release(t.buffer), 0);
	CHECK_EQ(oriel_free(env->comm, memory), 0);
	CHECK_EQ(oriel_window_destroy(t.window), 0);
}

TEST(a_wrong_rank_is_told_to_all)
{
	run_everywhere(last_rank_is_wrong);
}

/* ---- ranks that mean different things -------------------------------------------------------- */

static void destroys_another(struct rank_env *env)
{
	struct oriel_window *a = make_window(env), *b = make_window(env);

	REQUIRE(a && b);
	CHECK_EQ(oriel_window_destroy(env->rank == LAST ? b : a), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "rank 2");
	/* neither is gone */
	CHECK_EQ(oriel_window_barrier(a, 0, NULL), 0);
	CHECK_EQ(oriel_window_barrier(b, 0, NULL), 0);
	CHECK_EQ(oriel_comm_status(env->comm), 0);
	CHECK_EQ(oriel_window_destroy(a), 0);
	CHECK_EQ(oriel_window_destroy(b), 0);
	works(env);
}

TEST(ranks_destroy_different_windows)
{
	run_everywhere(destroys_another);
}

static void destroys_another_request(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t sizes[RANKS] = { 1, 1, 1 };
	struct oriel_alltoallv_request *a, *b;

	o.slot_bytes = 64;
	args.send_sizes = sizes;
	REQUIRE_OK(oriel_alltoallv_create(env->comm, &o, &a));
	REQUIRE_OK(oriel_alltoallv_create(env->comm, &o, &b));
	CHECK_EQ(oriel_alltoallv_destroy(env->rank == LAST ? b : a), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_alltoallv_exec(a, &args, NULL), 0);
	CHECK_EQ(oriel_alltoallv_exec(b, &args, NULL), 0);
	CHECK_EQ(oriel_alltoallv_destroy(a), 0);
	CHECK_EQ(oriel_alltoallv_destroy(b), 0);
	works(env);
}

TEST(ranks_destroy_different_requests)
{
	run_everywhere(destroys_another_request);
}

/* ---- local calls ----------------------------------------------------------------------------- */

static void local_calls(struct rank_env *env)
{
	static const struct oriel_kernel empty = { "empty", NULL, 0, NULL, NULL };
	static const struct oriel_kernel nameless = { NULL, NULL, 8, NULL, NULL };
	char from[8] = { 1 }, to[8] = { 2 };
	void *memory = NULL;

	CHECK_EQ(oriel_copy(env->comm, to, from, SIZE_MAX), ORIEL_ERANGE);
	CHECK_EQ(oriel_copy(env->comm, to, from, SIZE_MAX - (uintptr_t)to + 2), ORIEL_ERANGE);
	CHECK_EQ(to[0], 2);
	CHECK_EQ(oriel_copy(env->comm, NULL, from, 1), ORIEL_EINVAL);
	CHECK_EQ(oriel_alloc(env->comm, SIZE_MAX, &memory), ORIEL_EINVAL);
	CHECK(oriel_alloc(env->comm, SIZE_MAX / 2 - 4096, &memory) < 0);
	CHECK_EQ(oriel_free(env->comm, to), ORIEL_EINVAL);
	CHECK_EQ(oriel_launch(env->comm, &empty, 1, 1, NULL, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_launch(env->comm, &nameless, 1, 1, NULL, 0, NULL), ORIEL_EINVAL);
	CHECK(oriel_launch(env->comm, &empty, INT_MAX, INT_MAX, NULL, 0, NULL) < 0);
	CHECK(oriel_kernels_add(NULL, SIZE_MAX) < 0);
	CHECK_EQ(oriel_comm_engine(env->comm, to, 0), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_abort(env->comm, INT_MAX), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_node(env->comm, INT_MIN), ORIEL_ERANGE);
	CHECK(!oriel_comm_peer_reason(env->comm, INT_MAX));
	works(env);
}

TEST(local_calls_refuse)
{
	run_everywhere(local_calls);
}

/* A chunk that is no chunk of anything, and the smallest. */
static void odd_chunks(struct rank_env *env)
{
	static const uint64_t chunks[] = { UINT64_MAX, UINT64_MAX / 2, 1 };
	struct oriel_window *w = make_window(env);
	uint64_t mine[128], *words;

	REQUIRE(w);
	words = oriel_window_buffer(w);
	for (int i = 0; i < 9; i++) {
		struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
		struct oriel_allgather_request *r;

		o.algorithm = ORIEL_GATHER_DIRECT + i / 3;
		o.chunk_bytes = chunks[i % 3];
		for (int k = 0; k < 128; k++)
			mine[k] = 1000u * (uint64_t)i + (uint64_t)env->rank;
		REQUIRE_OK(oriel_allgather_create(env->comm, w, &o, &r));
		REQUIRE_OK(oriel_allgather_exec(r, mine, 128, 8, NULL));
		for (int k = 0; k < 128 * RANKS; k++)
			CHECK_EQ(words[k], 1000 * i + k / 128);
		CHECK_EQ(oriel_allgather_destroy(r), 0);
	}
	CHECK_EQ(oriel_window_destroy(w), 0);
}

TEST(odd_chunks_of_an_allgather)
{
	run_everywhere(odd_chunks);
}
