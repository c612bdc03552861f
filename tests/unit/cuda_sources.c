/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_sources.c - sources in the user's device memory, on the fake CUDA driver.  Memory
 * that was freed and allocated again at the same address is different memory, for this rank and for
 * its peers.
 */
#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"
#include "comm/comm.h"
#include "comm/spans.h"
#include "device/cuda/cuda_device.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"

#define BYTES (256u << 10)
#define ROUNDS 6

static int make_comm(struct rank_env *env, struct oriel_comm **comm)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;

	o.device = "cuda";
	o.topology = "2x1";
	o.timeout = 60;
	return oriel_comm_create(env->boot, &o, comm);
}

struct bed {
	struct oriel_comm *comm;
	struct oriel_window *window;
	unsigned char host[BYTES];
	uint64_t signals;
	int rank;
};

static void open_bed(struct rank_env *env, struct bed *b)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	memset(b, 0, sizeof(*b));
	b->rank = env->rank;
	o.bytes = BYTES;
	REQUIRE_OK(make_comm(env, &b->comm));
	REQUIRE_OK(oriel_window_create(b->comm, &o, &b->window));
}

static void close_bed(struct bed *b)
{
	REQUIRE_OK(oriel_window_destroy(b->window));
	REQUIRE_OK(oriel_comm_destroy(b->comm));
}

static void meet(struct bed *b)
{
	REQUIRE_OK(oriel_window_barrier(b->window, 0, NULL));
	REQUIRE_OK(oriel_comm_sync(b->comm, NULL));
}

/* Rank 0 sends `memory`, which holds the value everywhere; rank 1 looks at every byte. */
static void send(struct bed *b, void *memory, int value, struct oriel_source *s)
{
	int wrong = 0;

	b->signals++;
	if (b->rank == 0) {
		memset(b->host, value, BYTES);
		fake_cuda_write(memory, b->host, BYTES);
		REQUIRE_OK(oriel_window_source(b->window, memory, BYTES, s));
		REQUIRE_OK(oriel_window_put_signal(b->window, 1, 0, s, 0, BYTES, 0, ORIEL_ADD, 1,
						   NULL));
		REQUIRE_OK(oriel_comm_sync(b->comm, NULL));
	} else {
		REQUIRE_OK(oriel_window_wait_signal(b->window, 0, 0, ORIEL_GE, b->signals, NULL));
		REQUIRE_OK(oriel_comm_sync(b->comm, NULL));
		REQUIRE_OK(oriel_copy(b->comm, b->host, oriel_window_buffer(b->window), BYTES));
		for (unsigned int i = 0; i < BYTES; i++)
			wrong += b->host[i] != value;
		CHECK_EQ(wrong, 0);
	}
	meet(b);
}

static int registered(struct oriel_comm *c)
{
	struct ori_span *at = NULL;
	int n = 0;

	while ((at = ori_span_overlapping(c->sources, 0, UINTPTR_MAX, at)))
		n++;
	return n;
}

/*
 * Memory is freed and allocated again, but the source is not released: the driver returns the same
 * address.
 */
static void send_from(struct rank_env *env, enum fake_cuda_memory kind)
{
	static void *before; /* rank 0's alone */
	int again = 0;
	struct bed *b = calloc(1, sizeof(*b));

	REQUIRE(b);
	open_bed(env, b);
	for (int round = 0; round < ROUNDS; round++) {
		void *memory = b->rank ? NULL : fake_cuda_malloc(0, kind, BYTES);
		struct oriel_source s;

		if (!b->rank) {
			again += memory == before;
			before = memory;
		}
		send(b, memory, 17 * round + 1, &s);
		if (!b->rank)
			fake_cuda_free(memory);
	}
	if (!b->rank)
		CHECK(again > 0); /* else this has tested nothing */
	/* Of memory that the driver numbers the stale ones have gone by themselves. */
	if (!b->rank && kind == FAKE_CUDA_MALLOC)
		CHECK_EQ(registered(b->comm), 1);
	close_bed(b);
	free(b);
}

static void send_malloc(struct rank_env *env)
{
	send_from(env, FAKE_CUDA_MALLOC);
}

static void send_pool(struct rank_env *env)
{
	send_from(env, FAKE_CUDA_POOL);
}

static void run_threads(void *fn)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };

	ranks_run(&o, *(rank_fn **)fn, NULL);
}

static void run_both(rank_fn *fn)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1, .processes = 1 };
	struct apart a;

	ranks_run(&o, fn, NULL);
	apart_run(&a, run_threads, &fn);
}

TEST(freed_memory_is_not_sent)
{
	run_both(send_malloc);
}

TEST(memory_of_pools_is_not_mistaken)
{
	run_both(send_pool);
}

/* The same allocation is registered once, and may be given back. */
static void count(struct rank_env *env)
{
	struct oriel_source s, part, again;
	struct bed *b = calloc(1, sizeof(*b));
	void *memory;

	REQUIRE(b);
	open_bed(env, b);
	memory = fake_cuda_malloc(0, FAKE_CUDA_MALLOC, BYTES);
	REQUIRE_OK(oriel_window_source(b->window, memory, BYTES, &s));
	REQUIRE_OK(oriel_window_source(b->window, (char *)memory + 64, 64, &part));
	REQUIRE_OK(oriel_window_source(b->window, memory, BYTES, &again));
	CHECK_EQ(s.key[0], again.key[0]);
	CHECK(s.key[0] != part.key[0]);
	CHECK_EQ(registered(b->comm), 2);
	CHECK_EQ(oriel_window_source_release(b->window, &again), 0);
	CHECK_EQ(oriel_window_source_release(b->window, &part), 0);
	CHECK_EQ(registered(b->comm), 1);
	CHECK_EQ(oriel_window_source_release(b->window, &s), 0);
	CHECK_EQ(registered(b->comm), 0);
	fake_cuda_free(memory);
	close_bed(b);
	free(b);
}

TEST(one_allocation_is_registered_once)
{
	run_both(count);
}

/*
 * A window stands on part of an allocation: sources in the rest of it take nothing from the
 * window's.
 */
static void share(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_source own, other;
	struct oriel_window *w;
	struct bed *b = calloc(1, sizeof(*b));
	char *memory;

	REQUIRE(b);
	open_bed(env, b);
	memory = fake_cuda_malloc(0, FAKE_CUDA_MALLOC, BYTES);
	o.buffer = memory;
	o.bytes = BYTES / 2;
	REQUIRE_OK(oriel_window_create(b->comm, &o, &w));
	REQUIRE_OK(oriel_window_source(w, memory, BYTES / 2, &own));
	REQUIRE_OK(oriel_window_source(w, memory + BYTES / 2, BYTES / 2, &other));
	CHECK_EQ(registered(b->comm), 2);
	REQUIRE_OK(oriel_window_put(w, !env->rank, 0, &own, 0, 64, NULL));
	REQUIRE_OK(oriel_window_put(w, !env->rank, 64, &other, 0, 64, NULL));
	REQUIRE_OK(oriel_comm_sync(b->comm, NULL));
	CHECK_EQ(oriel_window_source_release(w, &own), 0);
	CHECK_EQ(oriel_window_source_release(w, &other), 0);
	REQUIRE_OK(oriel_window_destroy(w));
	close_bed(b);
	fake_cuda_free(memory);
	free(b);
}

TEST(a_window_in_the_same_allocation_keeps_its_source)
{
	run_both(share);
}

/* A late kernel may still use the key of a released source.  The key goes when nothing uses it. */
static void release_under_a_late_kernel(struct bed *b, void *memory)
{
	struct ori_cuda_device *device = (struct ori_cuda_device *)b->comm->device;
	uint64_t timeout_ns = device->timeout_ns;
	struct oriel_source s, other;

	REQUIRE_OK(oriel_window_source(b->window, memory, BYTES, &s));
	device->timeout_ns = 200000000; /* of the stream alone */
	fake_cuda_hold("cuLaunchKernel", 1);
	REQUIRE_OK(oriel_window_put(b->window, 1, 0, &s, 0, BYTES, NULL));
	CHECK_EQ(oriel_window_source_release(b->window, &s), ORIEL_ETIMEDOUT);
	CHECK_EQ(oriel_comm_status(b->comm), 0);
	CHECK_EQ(registered(b->comm), 0);
	CHECK(b->comm->retired);
	device->timeout_ns = timeout_ns;
	fake_cuda_hold("cuLaunchKernel", 0);
	/* without its key the put would fail the comm */
	REQUIRE_OK(oriel_comm_sync(b->comm, NULL));
	CHECK_EQ(oriel_window_source_release(b->window, &s), ORIEL_EINVAL); /* only once */
	REQUIRE_OK(oriel_window_source(b->window, memory, 64, &other));
	CHECK_EQ(oriel_window_source_release(b->window, &other), 0); /* waits for the put */
	REQUIRE_OK(oriel_window_source(b->window, memory, 64, &other));
	CHECK(!b->comm->retired);
	CHECK_EQ(oriel_window_source_release(b->window, &other), 0);
}

static void release_late(struct rank_env *env)
{
	struct bed *b = calloc(1, sizeof(*b));
	unsigned char last = 0;
	void *memory;

	REQUIRE(b);
	open_bed(env, b);
	memory = fake_cuda_malloc(0, FAKE_CUDA_MALLOC, BYTES);
	memset(b->host, 77, BYTES);
	fake_cuda_write(memory, b->host, BYTES);
	meet(b);
	if (!b->rank)
		release_under_a_late_kernel(b, memory);
	/* no kernel of rank 1 is held back: it waits for rank 0 without one */
	REQUIRE_OK(oriel_comm_barrier(b->comm, ORIEL_WORLD));
	if (b->rank) {
		REQUIRE_OK(oriel_copy(b->comm, &last,
				      (char *)oriel_window_buffer(b->window) + BYTES - 1, 1));
		CHECK_EQ(last, 77);
	}
	close_bed(b);
	fake_cuda_free(memory);
	free(b);
}

TEST(a_source_released_under_a_late_kernel_keeps_its_key)
{
	rank_fn *fn = release_late;
	struct apart a;

	apart_run(&a, run_threads, &fn);
}
