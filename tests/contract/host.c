/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/host.c - contract of the host's side of a window: host-issued operations, their
 * arguments, creating and destroying, options that ranks disagree on.  Comms are comms.c, memory is
 * memory.c.
 */
#include <pthread.h>

#include "contract.h"

#define MESSAGE 251

static void fill(struct contract_env *e, uint8_t *p, int round, int from, int to)
{
	uint8_t mine[MESSAGE];

	for (int i = 0; i < MESSAGE; i++)
		mine[i] = contract_byte((uint64_t)round, from, to, (uint64_t)i);
	contract_write(e, p, mine, MESSAGE);
}

/* The message, between `edge` bytes of 0 before and after it. */
static int wrong_bytes(struct contract_env *e, const uint8_t *p, int edge, int round, int from,
		       int to)
{
	uint8_t got[MESSAGE + 2];
	int wrong = 0;

	contract_read(e, got, p - edge, MESSAGE + 2 * (size_t)edge);
	for (int i = 0; i < MESSAGE; i++)
		wrong += got[edge + i] != contract_byte((uint64_t)round, from, to, (uint64_t)i);
	return wrong + (edge && (got[0] || got[MESSAGE + 1]));
}

/* ---- host-issued operations ---------------------------------------------------------------- */

static void exchange(struct contract_env *e, struct oriel_window *w, int round, int id)
{
	const struct oriel_source *src = &e->src;
	const uint8_t *in = (const uint8_t *)oriel_window_buffer(w);

	for (int k = 0; k < e->nranks; k++) {
		fill(e, e->local + k * 256, round, e->rank, k);
		REQUIRE_OK(oriel_window_put_signal(w, k, (uint64_t)e->rank * 256 + 1, src,
						   (uint64_t)k * 256, MESSAGE, id, ORIEL_ADD, 2,
						   NULL));
	}
	for (int k = 0; k < e->nranks; k++) {
		REQUIRE_OK(oriel_window_wait_signal(w, k, id, ORIEL_GE, 2 * (uint64_t)round, NULL));
		CHECK_EQ(wrong_bytes(e, in + k * 256 + 1, 1, round, k, e->rank), 0);
	}
	REQUIRE_OK(oriel_window_wait_signal(w, -1, id, ORIEL_GE,
					    2 * (uint64_t)round * (uint64_t)e->nranks, NULL));
	for (int k = 0; k < e->nranks; k++) {
		REQUIRE_OK(oriel_window_get(w, k, (uint64_t)e->rank * 256 + 1, src, 32768, MESSAGE,
					    NULL));
		CHECK_EQ(wrong_bytes(e, e->local + 32768, 0, round, e->rank, k), 0);
	}
	REQUIRE_OK(oriel_window_barrier(w, id, NULL));
}

CASE(host_operations, c.shape = CONTRACT_HOST)
{
	for (int round = 1; round <= 10; round++)
		exchange(e, e->window, round, 3);
	REQUIRE_OK(oriel_window_put(e->window, (e->rank + 1) % e->nranks, 60000, &e->src, 0, 16,
				    NULL));
	REQUIRE_OK(
		oriel_window_signal(e->window, (e->rank + 1) % e->nranks, 0, ORIEL_SET, 9, NULL));
	REQUIRE_OK(oriel_window_wait_signal(e->window, (e->rank + e->nranks - 1) % e->nranks, 0,
					    ORIEL_EQ, 9, NULL));
	CHECK(contract_bytes_not(e, e->buffer + 60000, 0, 2) != 0);
	REQUIRE_OK(oriel_window_put(e->window, e->rank, e->bytes, &e->src, e->bytes, 0, NULL));
	REQUIRE_OK(oriel_window_get(e->window, e->rank, e->bytes, &e->src, e->bytes, 0, NULL));
	REQUIRE_OK(oriel_window_barrier(e->window, 0, NULL));
}

CASE(host_reset_signals, c.shape = CONTRACT_HOST)
{
	for (int round = 0; round < 5; round++) {
		for (int k = 0; k < e->nranks; k++)
			for (int id = 0; id < 16; id += 5)
				REQUIRE_OK(
					oriel_window_signal(e->window, k, id, ORIEL_ADD, 1, NULL));
		for (int id = 0; id < 16; id += 5)
			REQUIRE_OK(oriel_window_wait_signal(e->window, -1, id, ORIEL_GE,
							    (uint64_t)e->nranks, NULL));
		REQUIRE_OK(oriel_window_barrier(e->window, 0, NULL));
		for (int id = 0; id < 16; id++)
			CHECK_EQ(contract_signal(e, &e->win, id), id % 5 ? 0 : e->nranks);
		REQUIRE_OK(oriel_window_reset_signals(e->window, NULL));
		for (int id = 0; id < 16; id++)
			CHECK_EQ(contract_signal(e, &e->win, id), 0);
		REQUIRE_OK(oriel_window_barrier(e->window, 0, NULL));
	}
}

static int is_refused(int status)
{
	return status == ORIEL_ERANGE || status == ORIEL_EINVAL;
}

/* Host arguments are tested in every window. */
CASE(host_operations_refused, c.shape = CONTRACT_HOST)
{
	struct oriel_window *w = e->window;
	struct oriel_source *s = &e->src;
	uint64_t end = e->bytes, far = UINT64_MAX - 3;
	int n = e->nranks;

	CHECK_EQ(oriel_window_put(w, -1, 0, s, 0, 8, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put(w, n, 0, s, 0, 8, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put(w, 0, end - 7, s, 0, 8, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put(w, 0, far, s, 0, 8, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put(w, 0, 0, s, end - 7, 8, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put(w, 0, 0, s, far, 8, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put(w, 0, 0, NULL, 0, 8, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_get(w, n, 0, s, 0, 8, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_get(w, 0, end, s, 0, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_get(w, 0, 0, s, end, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_get(w, 0, 0, NULL, 0, 1, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_put_signal(w, n, 0, s, 0, 8, 0, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_signal(w, 0, 0, s, 0, 8, 16, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_signal(w, 0, 0, s, 0, 8, 0, 7, 1, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_put_signal(w, 0, far, s, 0, 8, 0, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_signal(w, n, 0, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_signal(w, 0, -1, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_signal(w, 0, 0, 0, 1, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_signal(w, n, 0, ORIEL_GE, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_signal(w, 0, 16, ORIEL_GE, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_signal(w, 0, 0, 0, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_signal(w, -1, 0, ORIEL_EQ, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_barrier(w, 16, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_barrier(w, -1, NULL), ORIEL_ERANGE);
	CHECK(is_refused(oriel_window_device(w, NULL)));
	CHECK(is_refused(oriel_window_source(w, NULL, 8, s)));
	CHECK(is_refused(oriel_window_source(w, e->local, 8, NULL)));
	CHECK_EQ(oriel_window_status(w), 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	CHECK_EQ(contract_bytes_not(e, e->buffer, 0, end), 0);
	CHECK_EQ(contract_signal(e, &e->win, 0), 0);
}

/* Two host threads of a rank use one window at once, on ids of their own. */
static void *second_thread(void *arg)
{
	struct contract_env *e = (struct contract_env *)arg;
	int next = (e->rank + 1) % e->nranks;

	for (uint64_t round = 1; round <= 20; round++) {
		CHECK_EQ(oriel_window_signal(e->window, next, 8, ORIEL_ADD, 1, NULL), 0);
		CHECK_EQ(oriel_window_wait_signal(e->window, -1, 8, ORIEL_GE, round, NULL), 0);
		CHECK_EQ(oriel_window_barrier(e->window, 8, NULL), 0);
	}
	return NULL;
}

CASE(host_two_threads, c.shape = CONTRACT_HOST)
{
	pthread_t t;

	REQUIRE(!pthread_create(&t, NULL, second_thread, e));
	for (int round = 1; round <= 20; round++)
		exchange(e, e->window, round, 3);
	pthread_join(t, NULL);
}

/* ---- windows ------------------------------------------------------------------------------- */

#define WINDOWS 5

/* Several windows at once, destroyed in an order that is not the one they were made in. */
CASE(host_windows_in_any_order, c.shape = CONTRACT_HOST)
{
	const int order[3][WINDOWS] = { { 0, 1, 2, 3, 4 }, { 4, 3, 2, 1, 0 }, { 2, 0, 4, 1, 3 } };
	struct oriel_window *w[WINDOWS];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < WINDOWS; i++) {
			struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

			o.bytes = 4096 + (uint64_t)i * 1000;
			o.signals = 4 + (uint32_t)i;
			REQUIRE_OK(oriel_window_create(e->comm, &o, &w[i]));
		}
		for (int i = 0; i < WINDOWS; i++) {
			exchange(e, w[order[round][i]], 1, i % 4);
			REQUIRE_OK(oriel_window_destroy(w[order[round][i]]));
			/* the others still work */
			if (i + 1 < WINDOWS)
				REQUIRE_OK(oriel_window_barrier(w[order[round][i + 1]], 5, NULL));
		}
	}
	exchange(e, e->window, 1, 0);
}

CASE(host_window_life, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;

	o.bytes = 8192;
	for (int i = 0; i < 20; i++) {
		void *p;

		REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
		p = oriel_window_buffer(w);
		REQUIRE(p);
		/* a new window is empty, whatever its memory was before */
		CHECK_EQ(contract_bytes_not(e, p, 0, 8192), 0);
		REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
		contract_fill_bytes(e, p, 0xff, 8192);
		REQUIRE_OK(
			oriel_window_signal(w, (e->rank + 1) % e->nranks, 0, ORIEL_ADD, 1, NULL));
		REQUIRE_OK(oriel_window_wait_signal(w, -1, 0, ORIEL_GE, 1, NULL));
		REQUIRE_OK(oriel_window_destroy(w));
	}
	CHECK_EQ(oriel_window_destroy(NULL), 0);
}

/* A window may have none of anything; what it has none of is out of range. */
CASE(host_window_of_nothing, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;
	struct oriel_source s;
	uint8_t bytes[8] = { 0 };

	o.signals = o.counters = o.barriers = 0;
	o.bytes = 0;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	CHECK_EQ(oriel_window_signal(w, 0, 0, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_barrier(w, 0, NULL), ORIEL_ERANGE);
	REQUIRE_OK(oriel_window_source(w, contract_scratch(e, bytes, sizeof(bytes)), sizeof(bytes),
				       &s));
	CHECK_EQ(oriel_window_put(w, 0, 0, &s, 0, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put(w, 0, 0, &s, 0, 0, NULL), 0);
	REQUIRE_OK(oriel_window_destroy(w));
	o.barriers = 1;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	REQUIRE_OK(oriel_window_destroy(w));
}

/* ---- options ------------------------------------------------------------------------------- */

/* The last rank wants something else; every rank is told what. */
static void disagree(struct contract_env *e, const char *field, struct oriel_window_options o,
		     const struct oriel_window_options *last)
{
	struct oriel_window *w = NULL;

	if (e->rank == e->nranks - 1)
		o = *last;
	CHECK_EQ(oriel_window_create(e->comm, &o, &w), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), field);
	CHECK(w == NULL);
}

CASE(host_options_disagree, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT, x;

	o.bytes = 4096;
	o.staging_slot_bytes = 64;
	x = o, x.signals = 17;
	disagree(e, "signals", o, &x);
	x = o, x.counters = 1;
	disagree(e, "counters", o, &x);
	x = o, x.barriers = 15;
	disagree(e, "barriers", o, &x);
	x = o, x.bytes = 4097;
	disagree(e, "bytes", o, &x);
	x = o, x.staging_slot_bytes = 128;
	disagree(e, "staging_slot_bytes", o, &x);
	x = o, x.staging_depth = 2;
	disagree(e, "staging_depth", o, &x);
	x = o, x.staging_channels = 3;
	disagree(e, "staging_channels", o, &x);
	x = o, x.first_count = 1;
	disagree(e, "first_count", o, &x);
	/* nothing was left behind, and the comm is as good as before */
	CHECK_EQ(oriel_comm_status(e->comm), 0);
	exchange(e, e->window, 1, 0);
}

/* What a rank tests of its own calls is its own business. */
CASE(host_checked_on_one_rank, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;

	o.bytes = 4096;
	o.checked = e->rank == 0;
	e->local = (uint8_t *)contract_alloc(e, 65536);
	REQUIRE(e->local);
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	REQUIRE_OK(oriel_window_source(w, e->local, 65536, &e->src));
	exchange(e, w, 1, 0);
	REQUIRE_OK(oriel_window_destroy(w));
}

/* Options no window can have, refused alike on all ranks. */
CASE(host_options_refused, c.shape = CONTRACT_HOST)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT, bad[7];
	struct oriel_window *w = NULL;

	o.bytes = 4096;
	o.staging_slot_bytes = 64;
	for (int i = 0; i < 7; i++)
		bad[i] = o;
	bad[0].staging_slot_bytes = 100;
	bad[1].staging_depth = 3;
	bad[2].staging_channels = 0;
	bad[3].signals = UINT32_MAX;
	bad[4].barriers = UINT32_MAX;
	bad[5].bytes = UINT64_MAX;
	bad[6].size = 0;
	for (int i = 0; i < 7; i++)
		CHECK(is_refused(oriel_window_create(e->comm, &bad[i], &w)));
	CHECK(is_refused(oriel_window_create(e->comm, NULL, &w)));
	CHECK(is_refused(oriel_window_create(e->comm, &o, NULL)));
	CHECK_EQ(oriel_window_create(NULL, &o, &w), ORIEL_EINVAL);
	CHECK(w == NULL);
	exchange(e, e->window, 1, 0);
}

/* One rank's bad argument is an error of the call on all of them. */
CASE(host_one_rank_is_wrong, c.shape = CONTRACT_HOST)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	char name[24];
	int err;

	o.bytes = 4096;
	if (e->rank == e->nranks - 1)
		o.size = 1;
	err = oriel_window_create(e->comm, &o, &w);
	CHECK_EQ(err, ORIEL_EINVAL);
	CHECK(w == NULL);
	snprintf(name, sizeof(name), "rank %d", e->nranks - 1);
	if (e->rank != e->nranks - 1)
		CHECK_HAS(oriel_last_error(), name);
	CHECK(oriel_last_error()[0]);
	exchange(e, e->window, 1, 0);
}

/* ---- launches ------------------------------------------------------------------------------ */

CONTRACT_KERNEL(noop_kernel)
{
	contract_report(a, g, 0, 0);
}

CASE(host_launch_refused, c.shape = CONTRACT_HOST)
{
	struct contract_args a = contract_args(e);
	const struct oriel_kernel *noop = contract_kernel(&noop_kernel);
	int many = e->cuda ? 1025 : 33;

	CHECK(is_refused(oriel_launch(e->comm, NULL, 1, 1, &a, sizeof(a), NULL)));
	CHECK(is_refused(oriel_launch(e->comm, noop, 0, 1, &a, sizeof(a), NULL)));
	CHECK(is_refused(oriel_launch(e->comm, noop, -1, 1, &a, sizeof(a), NULL)));
	CHECK(is_refused(oriel_launch(e->comm, noop, 1, 0, &a, sizeof(a), NULL)));
	CHECK(oriel_launch(e->comm, noop, 1, many, &a, sizeof(a), NULL) < 0);
	CHECK(is_refused(oriel_launch(e->comm, noop, 1, 1, &a, sizeof(a) - 1, NULL)));
	CHECK(is_refused(oriel_launch(e->comm, noop, 1, 1, NULL, sizeof(a), NULL)));
	CHECK(is_refused(oriel_launch(NULL, noop, 1, 1, &a, sizeof(a), NULL)));
	contract_launch(e, &noop_kernel, 1, &a);
}
