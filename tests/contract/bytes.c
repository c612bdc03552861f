/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/bytes.c - contract of transfers of any memory: the stack, constants, arrays that
 * no NIC knows; in one piece and with strides; from several threads and blocks at once.
 */
#include <pthread.h>

#include "contract.h"

static const uint64_t sizes[] = { 0, 1, 3, 8, 28, 29, 4096, 65535, 65536, 65537, 300001 };
#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))
#define LARGEST 300001
#define WINDOW_BYTES (2u * LARGEST)

static struct oriel_group block_group(uint32_t block)
{
	struct oriel_group g = oriel_group_thread();

	g.block = block;
	return g;
}

static void deliver(struct contract_env *e, uint32_t block)
{
	struct oriel_window_dev win;

	REQUIRE_OK(oriel_window_device(e->window, &win));
	REQUIRE_OK(oriel_flush_all(&win, block_group(block)));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

/* On another device the calls are refused, and nothing else is tested. */
static int is_refused(struct contract_env *e)
{
	char byte = 0;

	if (!contract_on_cuda())
		return 0;
	CHECK_EQ(oriel_window_put_bytes(e->window, 0, 0, &byte, 1, 0), ORIEL_EUNSUPPORTED);
	CHECK_EQ(oriel_window_get_bytes(e->window, 0, 0, &byte, 1, 0), ORIEL_EUNSUPPORTED);
	return 1;
}

static void fill(uint8_t *p, uint64_t bytes, uint64_t round, int source, int target)
{
	for (uint64_t i = 0; i < bytes; i++)
		p[i] = contract_byte(round, source, target, i);
}

static uint64_t wrong(const uint8_t *p, uint64_t bytes, uint64_t round, int source, int target)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < bytes; i++)
		n += p[i] != contract_byte(round, source, target, i);
	return n;
}

/* The source is overwritten as soon as the put returns. */
CASE(bytes_put_and_get, c.shape = CONTRACT_HOST, c.window.bytes = WINDOW_BYTES)
{
	int right = (e->rank + 1) % e->nranks, left = (e->rank + e->nranks - 1) % e->nranks;
	uint8_t *local;

	if (is_refused(e))
		return;
	local = (uint8_t *)malloc(LARGEST);
	REQUIRE(local);
	for (int i = 0; i < SIZES; i++) {
		uint64_t bytes = sizes[i], off = 7;

		memset(e->buffer, CONTRACT_GUARD, bytes + 64);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		fill(local, bytes, (uint64_t)i, e->rank, right);
		REQUIRE_OK(oriel_window_put_bytes(e->window, right, off, local, bytes, 1));
		memset(local, 0, bytes);
		deliver(e, 1);
		CHECK_EQ(wrong(e->buffer + off, bytes, (uint64_t)i, left, e->rank), 0);
		CHECK_EQ(contract_bytes_not(e, e->buffer, CONTRACT_GUARD, off), 0);
		CHECK_EQ(contract_bytes_not(e, e->buffer + off + bytes, CONTRACT_GUARD, 16), 0);
		/* back again */
		REQUIRE_OK(oriel_window_get_bytes(e->window, right, off, local, bytes, 3));
		CHECK_EQ(wrong(local, bytes, (uint64_t)i, e->rank, right), 0);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	}
	free(local);
}

/* Constants of the program, and a variable of the stack. */
CASE(bytes_of_the_stack, c.shape = CONTRACT_HOST)
{
	static const char constant[64] = "a constant that no NIC has registered";
	char there[64];

	if (is_refused(e))
		return;
	for (int k = 0; k < e->nranks; k++)
		REQUIRE_OK(oriel_window_put_bytes(e->window, k, 64 * (uint64_t)e->rank, constant,
						  sizeof(constant), 0));
	deliver(e, 0);
	for (int k = 0; k < e->nranks; k++) {
		CHECK_EQ(memcmp(e->buffer + 64 * k, constant, sizeof(constant)), 0);
		REQUIRE_OK(oriel_window_get_bytes(e->window, k, 64 * (uint64_t)e->rank, there,
						  sizeof(there), 0));
		CHECK_EQ(memcmp(there, constant, sizeof(constant)), 0);
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

/* Many more puts than there are slots, without a flush in between. */
CASE(bytes_many_in_flight, c.shape = CONTRACT_HOST, c.window.bytes = 1 << 20)
{
	int right = (e->rank + 1) % e->nranks, left = (e->rank + e->nranks - 1) % e->nranks;
	uint8_t local[4096];

	if (is_refused(e))
		return;
	for (int i = 0; i < 200; i++) {
		fill(local, sizeof(local), (uint64_t)i, e->rank, right);
		REQUIRE_OK(oriel_window_put_bytes(e->window, right, (uint64_t)i * 4096, local,
						  sizeof(local), (uint32_t)i % 3));
	}
	for (uint32_t block = 0; block < 3; block++)
		deliver(e, block);
	for (int i = 0; i < 200; i++)
		CHECK_EQ(wrong(e->buffer + (size_t)i * 4096, 4096, (uint64_t)i, left, e->rank), 0);
}

/* ---- strides ------------------------------------------------------------------------------- */

#define COUNT 1000

struct stride_case {
	uint64_t bytes, count;
	int64_t window, local; /* strides in elements */
};

static const struct stride_case stride_cases[] = {
	{ 1, 5, 1, 3 },     { 4, COUNT, 2, 1 }, { 8, COUNT, 1, 4 }, { 16, COUNT, 3, 2 },
	{ 40, 100, 2, -1 }, { 4, 7, -3, 2 },    { 8, 20, 0, 1 },    { 2, 1, 5, 5 },
	{ 70000, 3, 2, 1 }, { 8, 0, 1, 1 },
};

/* Element k of the local array has number k in every byte; the others are guards. */
static int64_t first_of(int64_t stride, uint64_t count)
{
	return stride < 0 && count ? -stride * (int64_t)(count - 1) : 0;
}

static void stride_round(struct contract_env *e, const struct stride_case *t, uint8_t *local,
			 int round)
{
	int right = (e->rank + 1) % e->nranks;
	int64_t at = first_of(t->window, t->count), from = first_of(t->local, t->count);
	uint64_t extent = WINDOW_BYTES;
	int64_t size = (int64_t)t->bytes;

	memset(e->buffer, CONTRACT_GUARD, extent);
	memset(local, CONTRACT_GUARD, extent);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	for (int64_t k = 0; k < (int64_t)t->count; k++)
		memset(local + (from + k * t->local) * size, (int)(k % 200) + round, t->bytes);
	REQUIRE_OK(oriel_window_put_strided(e->window, right, (uint64_t)(at * size),
					    t->window * size, local + from * size, t->local * size,
					    t->bytes, t->count, 2));
	memset(local, 0, extent);
	deliver(e, 2);
	for (int64_t k = 0; k < (int64_t)t->count; k++) {
		/* stride 0: the last one stays */
		int64_t last = t->window ? k : (int64_t)t->count - 1;

		CHECK_EQ(contract_bytes_not(e, e->buffer + (at + k * t->window) * size,
					    (int)(last % 200) + round, t->bytes),
			 0);
		if (t->window > 1 && k + 1 < (int64_t)t->count)
			CHECK_EQ(contract_bytes_not(e, e->buffer + (at + k * t->window + 1) * size,
						    CONTRACT_GUARD, t->bytes),
				 0);
	}
	REQUIRE_OK(oriel_window_get_strided(e->window, right, (uint64_t)(at * size),
					    t->window * size, local + from * size, t->local * size,
					    t->bytes, t->count, 0));
	for (int64_t k = 0; k < (int64_t)t->count; k++) {
		int64_t last = t->window ? k : (int64_t)t->count - 1;

		CHECK_EQ(contract_bytes_not(e, local + (from + k * t->local) * size,
					    (int)(last % 200) + round, t->bytes),
			 0);
		if (t->local > 1 && k + 1 < (int64_t)t->count)
			CHECK_EQ(contract_bytes_not(e, local + (from + k * t->local + 1) * size, 0,
						    t->bytes),
				 0);
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

CASE(bytes_strided, c.shape = CONTRACT_HOST, c.window.bytes = WINDOW_BYTES)
{
	uint8_t *local;

	if (is_refused(e))
		return;
	local = (uint8_t *)malloc(WINDOW_BYTES);
	REQUIRE(local);
	for (size_t i = 0; i < sizeof(stride_cases) / sizeof(stride_cases[0]); i++)
		stride_round(e, &stride_cases[i], local, (int)i + 1);
	free(local);
}

/* ---- threads ------------------------------------------------------------------------------- */

#define THREADS 3
#define PIECE 20000

struct worker {
	struct contract_env *e;
	pthread_t thread;
	int number;
	uint64_t wrong;
	int err;
};

/* Each thread has its own block, its own part of every window, and its own memory. */
static void *work(void *arg)
{
	struct worker *w = (struct worker *)arg;
	struct contract_env *e = w->e;
	int right = (e->rank + 1) % e->nranks;
	uint64_t at = PIECE * (uint64_t)w->number;
	struct oriel_window_dev win;
	uint8_t *local = (uint8_t *)malloc(PIECE);

	w->err = local ? oriel_window_device(e->window, &win) : ORIEL_ENOMEM;
	for (int i = 0; i < 20 && !w->err; i++) {
		fill(local, PIECE, (uint64_t)i, e->rank, w->number);
		w->err = oriel_window_put_bytes(e->window, right, at, local, PIECE,
						(uint32_t)w->number);
		memset(local, 0, PIECE);
		if (!w->err)
			w->err = oriel_flush(&win, block_group((uint32_t)w->number), right);
		if (!w->err)
			w->err = oriel_window_get_bytes(e->window, right, at, local, PIECE,
							(uint32_t)w->number);
		if (!w->err)
			w->wrong += wrong(local, PIECE, (uint64_t)i, e->rank, w->number);
	}
	free(local);
	return NULL;
}

CASE(bytes_from_threads, c.shape = CONTRACT_HOST, c.window.bytes = WINDOW_BYTES)
{
	struct worker workers[THREADS];

	if (is_refused(e))
		return;
	for (int t = 0; t < THREADS; t++) {
		workers[t].e = e;
		workers[t].number = t;
		workers[t].wrong = 0;
		REQUIRE(!pthread_create(&workers[t].thread, NULL, work, &workers[t]));
	}
	for (int t = 0; t < THREADS; t++) {
		pthread_join(workers[t].thread, NULL);
		CHECK_EQ(workers[t].err, 0);
		CHECK_EQ(workers[t].wrong, 0);
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

/* ---- refused ------------------------------------------------------------------------------- */

CASE(bytes_refused, c.shape = CONTRACT_HOST)
{
	struct oriel_window *w = e->window;
	uint8_t local[64] = { 0 };
	int n = e->nranks;

	if (is_refused(e))
		return;
	memset(local, 9, sizeof(local));
	CHECK_EQ(oriel_window_put_bytes(NULL, 0, 0, local, 1, 0), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_put_bytes(w, n, 0, local, 1, 0), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "ranks are 0 to");
	CHECK_EQ(oriel_window_put_bytes(w, n - 1, e->bytes - 3, local, 4, 0), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "4 bytes at 65533 pass the end of the window");
	CHECK_EQ(oriel_window_put_bytes(w, 0, UINT64_MAX, local, 4, 0), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_bytes(w, 0, 0, NULL, 4, 0), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_get_bytes(w, -1, 0, local, 4, 0), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_get_bytes(w, 0, e->bytes, local, 1, 0), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_strided(w, 0, 0, -8, local, 8, 8, 2, 0), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "pass an end of the window");
	CHECK_EQ(oriel_window_put_strided(w, 0, 0, INT64_MAX, local, 8, 8, UINT64_MAX, 0),
		 ORIEL_ERANGE);
	CHECK_EQ(oriel_window_get_strided(w, 0, 0, 8, local, 8, 8, e->bytes, 0), ORIEL_ERANGE);
	/* nothing to move: no pointer is needed */
	CHECK_EQ(oriel_window_put_bytes(w, n - 1, 0, NULL, 0, 0), 0);
	CHECK_EQ(oriel_window_get_strided(w, n - 1, 0, 1, NULL, 1, 8, 0, 0), 0);
	CHECK_EQ(oriel_window_status(w), 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	CHECK_EQ(contract_bytes_not(e, e->buffer, 0, e->bytes), 0);
}
