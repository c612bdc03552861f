/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/host_ops.c - contract of what host code issues besides puts and gets (host.c):
 * counters, resets, reads that wait for nothing, flush, and the handle in device memory.  Atomics
 * are host_atomic.c.
 *
 * Reads follow no stream.  So a case that reads what its own calls did waits for the stream first
 * (settle), and for the other ranks with a barrier of the comm, which delivers nothing itself.
 */
#include <pthread.h>

#include "contract.h"

static void settle(struct contract_env *e)
{
	REQUIRE_OK(oriel_comm_sync(e->comm, NULL));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

static uint64_t signal_of(struct contract_env *e, int peer, int id)
{
	uint64_t value = UINT64_MAX;

	CHECK_EQ(oriel_window_read_signal(e->window, peer, id, &value), 0);
	return value;
}

static uint64_t counter_of(struct contract_env *e, int peer, int id)
{
	uint64_t value = UINT64_MAX;

	CHECK_EQ(oriel_window_read_counter(e->window, peer, id, &value), 0);
	return value;
}

/* ---- signals ------------------------------------------------------------------------------- */

/* No wait: the barrier of the comm only tells that the other ranks' calls have returned. */
CASE(host_signals_are_delivered, c.shape = CONTRACT_HOST)
{
	int n = e->nranks, rounds = contract_rounds(e, 20);

	for (int i = 1; i <= rounds; i++) {
		for (int k = 0; k < n; k++)
			REQUIRE_OK(oriel_window_signal(e->window, k, 2, ORIEL_ADD,
						       (uint64_t)e->rank + 1, NULL));
		settle(e);
		for (int k = 0; k < n; k++)
			CHECK_EQ(signal_of(e, k, 2), (uint64_t)(k + 1) * (uint64_t)i);
		CHECK_EQ(signal_of(e, -1, 2), (uint64_t)(n * (n + 1) / 2) * (uint64_t)i);
		CHECK_EQ(signal_of(e, -1, 4), 0);
		REQUIRE_OK(oriel_window_signal_all(e->window, 3, ORIEL_SET, (uint64_t)i, NULL));
		settle(e);
		for (int k = 0; k < n; k++)
			CHECK_EQ(signal_of(e, k, 3), k == e->rank ? 0 : (uint64_t)i);
		CHECK_EQ(signal_of(e, -1, 3), (uint64_t)(n - 1) * (uint64_t)i);
	}
}

/* Every round waits for the same value, as a captured graph does. */
CASE(host_signals_advance_and_reset, c.shape = CONTRACT_HOST)
{
	int n = e->nranks, left = (e->rank + n - 1) % n, right = (e->rank + 1) % n;

	for (int i = 1; i <= 5; i++) {
		REQUIRE_OK(oriel_window_signal(e->window, right, 0, ORIEL_ADD, 2, NULL));
		REQUIRE_OK(oriel_window_wait_signal(e->window, left, 0, ORIEL_GE, 2, NULL));
		REQUIRE_OK(oriel_window_signal_advance(e->window, left, 0, 2, NULL));
		for (int k = 0; k < n; k++)
			REQUIRE_OK(oriel_window_signal(e->window, k, 1, ORIEL_ADD, 1, NULL));
		REQUIRE_OK(oriel_window_wait_signal(e->window, -1, 1, ORIEL_GE, (uint64_t)n, NULL));
		REQUIRE_OK(oriel_window_signal_advance(e->window, -1, 1, (uint64_t)n, NULL));
		settle(e);
		CHECK_EQ(signal_of(e, left, 0), 0);
		CHECK_EQ(signal_of(e, -1, 0), 0);
		CHECK_EQ(signal_of(e, -1, 1), 0);
		CHECK_EQ(signal_of(e, left, 1), i); /* only the sum advanced */
		settle(e);
	}
	REQUIRE_OK(oriel_window_reset_signal(e->window, 1, NULL));
	settle(e);
	CHECK_EQ(signal_of(e, left, 1), 0);
	CHECK_EQ(signal_of(e, -1, 1), 0);
	settle(e);
	REQUIRE_OK(oriel_window_signal(e->window, right, 1, ORIEL_ADD, 1, NULL));
	REQUIRE_OK(oriel_window_wait_signal(e->window, -1, 1, ORIEL_GE, 1, NULL));
	REQUIRE_OK(oriel_window_barrier(e->window, 0, NULL));
}

/* ---- counters ------------------------------------------------------------------------------ */

/* k + 1 puts to rank k, half of them with a signal; each is counted when its call is complete. */
static void count_puts(struct contract_env *e, int round)
{
	uint64_t off = (uint64_t)e->rank * 64;

	for (int k = 0; k < e->nranks; k++) {
		for (int j = 0; j <= k; j++) {
			if (j % 2)
				REQUIRE_OK(oriel_window_put_signal_counter(e->window, k, off,
									   &e->src, 0, 64, 0,
									   ORIEL_ADD, 1, 5, NULL));
			else
				REQUIRE_OK(oriel_window_put_counter(e->window, k, off, &e->src, 0,
								    j ? 0 : 64, 5, NULL));
		}
		REQUIRE_OK(oriel_comm_sync(e->comm, NULL));
		CHECK_EQ(counter_of(e, k, 5), (uint64_t)(k + 1) * (uint64_t)round);
		CHECK_EQ(counter_of(e, k, 6), 0);
		REQUIRE_OK(oriel_window_wait_counter(e->window, k, 5, ORIEL_EQ,
						     (uint64_t)(k + 1) * (uint64_t)round, NULL));
	}
}

CASE(host_counters, c.shape = CONTRACT_HOST)
{
	int n = e->nranks, rounds = 3;
	uint64_t all = (uint64_t)(n * (n + 1) / 2);

	for (int round = 1; round <= rounds; round++) {
		contract_fill_bytes(e, e->local, round, 64);
		count_puts(e, round);
		REQUIRE_OK(oriel_window_wait_counter(e->window, -1, 5, ORIEL_GE,
						     all * (uint64_t)round, NULL));
		CHECK_EQ(counter_of(e, -1, 5), all * (uint64_t)round);
		settle(e);
		CHECK_EQ(contract_bytes_not(e, e->buffer, round, (size_t)n * 64), 0);
		CHECK_EQ(signal_of(e, n - 1, 0), (uint64_t)((e->rank + 1) / 2) * (uint64_t)round);
		settle(e);
	}
	REQUIRE_OK(oriel_window_reset_counter(e->window, 0, 5, NULL));
	settle(e);
	CHECK_EQ(counter_of(e, 0, 5), 0);
	CHECK_EQ(counter_of(e, -1, 5), (all - 1) * (uint64_t)rounds);
	REQUIRE_OK(oriel_window_reset_counter(e->window, -1, 5, NULL));
	settle(e);
	CHECK_EQ(counter_of(e, -1, 5), 0);
	count_puts(e, 1);
}

/* The call names the peer whose operations are missing.  On CUDA its failure is the window's. */
CASE(host_counter_deadline, c.shape = CONTRACT_HOST)
{
	int last = e->nranks - 1;
	double start = contract_now();
	char text[96];

	CHECK_EQ(oriel_window_wait_counter_timeout(e->window, 0, 4, ORIEL_GE, 1, 0.0, NULL),
		 ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_counter_timeout(e->window, 0, 4, ORIEL_GE, 1, 1e9, NULL),
		 ORIEL_EINVAL);
	REQUIRE_OK(oriel_window_put_counter(e->window, last, 0, &e->src, 0, 8, 4, NULL));
	REQUIRE_OK(oriel_window_wait_counter_timeout(e->window, last, 4, ORIEL_EQ, 1, 30.0, NULL));
	REQUIRE_OK(oriel_window_wait_counter_timeout(e->window, -1, 4, ORIEL_GE, 1, 30.0, NULL));
	CHECK_EQ(contract_issued(e, e->comm, e->window,
				 oriel_window_wait_counter_timeout(e->window, last, 4, ORIEL_GE, 3,
								   0.02, NULL)),
		 ORIEL_ETIMEDOUT);
	CHECK(contract_now() - start < 20);
	CHECK_EQ(oriel_window_status(e->window), e->cuda ? ORIEL_ETIMEDOUT : 0);
	if (e->cuda)
		return;
	snprintf(text, sizeof(text), "for operations to rank %d: have 1, want 3", last);
	CHECK_EQ(oriel_window_wait_counter_timeout(e->window, last, 4, ORIEL_GE, 3, 0.02, NULL),
		 ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), text);
	CHECK_EQ(oriel_window_wait_counter_timeout(e->window, -1, 4, ORIEL_GE, 3, 0.02, NULL),
		 ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), "counter 4");
}

/* ---- reads while a kernel runs -------------------------------------------------------------- */

#define RELEASE_OFF 4096 /* the word in e->local that ends the kernel */
#define LOOKS 100000000

/* Signals this rank, then runs until the host has stored a word. */
CONTRACT_KERNEL(busy_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	const uint64_t *release = (const uint64_t *)(const void *)(a->local + RELEASE_OFF);
	int err = oriel_put_counter(w, g, w->comm.rank, 0, &a->src, 0, 8, 1), i;

	if (!err)
		err = oriel_signal(w, g, w->comm.rank, 1, ORIEL_ADD, 6);
	for (i = 0; i < LOOKS && !err && !ori_load_relaxed_sys(release); i++)
		ori_yield();
	contract_report(a, g, i == LOOKS ? ORIEL_ETIMEDOUT : err, 0);
}

static void *launch_busy(void *arg)
{
	struct contract_env *e = (struct contract_env *)arg;
	struct contract_args a = contract_args(e);

	contract_launch(e, &busy_kernel, 1, &a);
	return NULL;
}

CASE(host_reads_while_a_kernel_runs, c.shape = CONTRACT_HOST)
{
	double start = contract_now();
	uint64_t one = 1, value = 0;
	pthread_t t;

	contract_fill_bytes(e, e->local + RELEASE_OFF, 0, 8);
	REQUIRE(!pthread_create(&t, NULL, launch_busy, e));
	while (value != 6 && contract_now() - start < 60) {
		if (oriel_window_read_signal(e->window, e->rank, 1, &value))
			break;
		ori_yield();
	}
	CHECK_EQ(value, 6);
	CHECK_EQ(signal_of(e, -1, 1), 6);
	CHECK_EQ(counter_of(e, e->rank, 1), 1);
	CHECK_EQ(counter_of(e, -1, 1), 1);
	if (e->cuda)
		CHECK_EQ(oriel_copy(e->comm, e->local + RELEASE_OFF, &one, sizeof(one)), 0);
	else
		__atomic_store_n((uint64_t *)(void *)(e->local + RELEASE_OFF), one,
				 __ATOMIC_RELAXED);
	pthread_join(t, NULL);
}

/* A loop of reads ends when the window cannot be signalled any more. */
CASE(host_reads_end_with_the_comm, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	double start = contract_now();
	struct oriel_window *w;
	struct oriel_comm *comm;
	uint64_t value = 0;
	int err = 0;

	REQUIRE_OK(contract_comm(e, 60, &comm));
	REQUIRE_OK(oriel_window_create(comm, &o, &w));
	REQUIRE_OK(oriel_comm_barrier(comm, ORIEL_WORLD));
	if (e->rank == e->nranks - 1)
		CHECK_EQ(oriel_comm_abort(comm, ORIEL_EINVAL), 0);
	while (!err && contract_now() - start < 30) {
		err = oriel_window_read_signal(w, -1, 0, &value);
		ori_yield();
	}
	CHECK_EQ(err, ORIEL_EABORTED);
	CHECK_EQ(oriel_window_read_counter(w, 0, 0, &value), ORIEL_EABORTED);
	CHECK_EQ(value, 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
}

/* ---- flush --------------------------------------------------------------------------------- */

#define FLUSH_BLOCKS 4
#define FLUSH_BYTES 512

/* Each block puts its own part to every rank and ends without a flush. */
CONTRACT_KERNEL(no_flush_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	uint64_t off = (uint64_t)g.block * FLUSH_BYTES;
	int err = 0, k;

	for (k = 0; k < oriel_nranks(w) && !err; k++)
		err = oriel_put_counter(w, g, k,
					(uint64_t)oriel_rank(w) * FLUSH_BLOCKS * FLUSH_BYTES + off,
					&a->src, off, FLUSH_BYTES, 2);
	contract_report(a, g, err, 0);
}

CASE(host_flush_of_kernels, c.shape = CONTRACT_HOST, c.blocks = FLUSH_BLOCKS)
{
	struct contract_args a = contract_args(e);
	size_t part = (size_t)FLUSH_BLOCKS * FLUSH_BYTES;
	int rounds = contract_rounds(e, 10);

	for (int i = 1; i <= rounds; i++) {
		contract_fill_bytes(e, e->local, i, part);
		contract_launch(e, &no_flush_kernel, FLUSH_BLOCKS, &a);
		for (int k = 0; k < e->nranks && i % 2; k++)
			REQUIRE_OK(oriel_window_flush(e->window, k, NULL));
		if (i % 2 == 0)
			REQUIRE_OK(oriel_window_flush(e->window, -1, NULL));
		REQUIRE_OK(oriel_comm_sync(e->comm, NULL));
		CHECK_EQ(counter_of(e, e->nranks - 1, 2), (uint64_t)(i * FLUSH_BLOCKS));
		/* complete: the source may be written; delivered: the peer has the old bytes */
		contract_fill_bytes(e, e->local, 0xff, part);
		settle(e);
		CHECK_EQ(contract_bytes_not(e, e->buffer, i, (size_t)e->nranks * part), 0);
		settle(e);
	}
}

/* ---- the handle in device memory ------------------------------------------------------------- */

CONTRACT_KERNEL(by_address_kernel)
{
	const struct oriel_window_dev *w = a->win_ptr;
	int n = oriel_nranks(w), err = 0, k;
	uint64_t wrong = 0;

	for (k = 0; k < n && !err; k++)
		err = oriel_put_signal(w, g, k, (uint64_t)oriel_rank(w) * 64, &a->src, 0, 64, 0,
				       ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal(w, g, 0, (uint64_t)n);
	for (k = 0; k < n && !err; k++)
		wrong += contract_not(g, w->buffer + k * 64, 64, k + 1);
	if (!err)
		err = oriel_barrier(w, g, 0);
	contract_report(a, g, err, wrong);
}

CASE(host_device_address, 0)
{
	const struct oriel_window_dev *again = NULL;
	struct contract_args a = contract_args(e);

	REQUIRE_OK(oriel_window_device_address(e->window, &a.win_ptr));
	REQUIRE_OK(oriel_window_device_address(e->window, &again));
	CHECK(a.win_ptr && a.win_ptr == again);
	memset(&a.win, 0, sizeof(a.win)); /* the kernel has only the address */
	contract_fill_bytes(e, e->local, e->rank + 1, 64);
	contract_launch(e, &by_address_kernel, 1, &a);
}
