/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/host_atomic.c - contract of atomics that host code issues: nothing is lost between
 * ranks, the old value arrives in memory of the device, bad arguments change nothing.
 */
#include "contract.h"

#define OLD_OFF 40000 /* where the old values go, in e->local */

static void settle(struct contract_env *e)
{
	REQUIRE_OK(oriel_comm_sync(e->comm, NULL));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

static uint64_t *old_word(struct contract_env *e)
{
	return (uint64_t *)(void *)(e->local + OLD_OFF);
}

/* Each transport is atomic only within itself, so queued ranks use the second word. */
CASE(host_fetch_add, c.shape = CONTRACT_HOST)
{
	int queued = oriel_comm_peer_kind(e->comm, 0) == ORIEL_PEER_QUEUED;
	int rounds = contract_rounds(e, 40);
	uint64_t old, last = 0, near = (uint64_t)oriel_comm_node_size(e->comm, 0);

	for (int i = 0; i < rounds; i++) {
		REQUIRE_OK(
			oriel_window_fetch_add(e->window, 0, queued ? 8 : 0, 3, old_word(e), NULL));
		old = contract_word(e, old_word(e));
		CHECK_EQ(old % 3, 0);
		CHECK(!i || old > last);
		last = old;
		REQUIRE_OK(oriel_window_fetch_add(e->window, 0, queued ? 24 : 16, 1, NULL, NULL));
	}
	settle(e);
	if (e->rank)
		return;
	CHECK_EQ(contract_word(e, e->buffer), 3 * near * (uint64_t)rounds);
	CHECK_EQ(contract_word(e, e->buffer + 8),
		 3 * ((uint64_t)e->nranks - near) * (uint64_t)rounds);
	CHECK_EQ(contract_word(e, e->buffer + 16), near * (uint64_t)rounds);
	CHECK_EQ(contract_word(e, e->buffer + 24), ((uint64_t)e->nranks - near) * (uint64_t)rounds);
}

/* One word per pair of ranks: the whole sequence of values is known. */
CASE(host_swap_and_compare_swap, c.shape = CONTRACT_HOST)
{
	uint64_t off = (uint64_t)e->rank * 8;

	for (int k = 0; k < e->nranks; k++) {
		REQUIRE_OK(oriel_window_swap(e->window, k, off, 5, old_word(e), NULL));
		CHECK_EQ(contract_word(e, old_word(e)), 0);
		REQUIRE_OK(oriel_window_compare_swap(e->window, k, off, 5, 7, old_word(e), NULL));
		CHECK_EQ(contract_word(e, old_word(e)), 5);
		REQUIRE_OK(oriel_window_compare_swap(e->window, k, off, 5, 9, old_word(e), NULL));
		CHECK_EQ(contract_word(e, old_word(e)), 7);
		REQUIRE_OK(oriel_window_swap(e->window, k, off, UINT64_MAX, NULL, NULL));
		REQUIRE_OK(oriel_window_compare_swap(e->window, k, off, UINT64_MAX, 100 + off, NULL,
						     NULL));
	}
	settle(e);
	for (int k = 0; k < e->nranks; k++)
		CHECK_EQ(contract_word(e, e->buffer + (size_t)k * 8), 100 + (uint64_t)k * 8);
}

CASE(host_atomics_refused, c.shape = CONTRACT_HOST)
{
	uint64_t *old = old_word(e), here = 0;
	struct oriel_window *w = e->window;
	int n = e->nranks;

	CHECK_EQ(oriel_window_fetch_add(w, -1, 0, 1, old, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_fetch_add(w, n, 0, 1, old, NULL), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "ranks are 0 to");
	CHECK_EQ(oriel_window_fetch_add(w, 0, e->bytes, 1, old, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_fetch_add(w, n - 1, e->bytes - 4, 1, old, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_fetch_add(w, n - 1, UINT64_MAX - 7, 1, old, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_fetch_add(w, n - 1, 4, 1, old, NULL), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "8-byte aligned");
	CHECK_EQ(oriel_window_swap(w, n, 0, 1, old, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_swap(w, 0, 1, 1, old, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_compare_swap(w, n, 0, 0, 1, old, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_compare_swap(w, 0, e->bytes, 0, 1, old, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_fetch_add(w, 0, 0, 1, (uint64_t *)(void *)(e->local + OLD_OFF + 4),
					NULL),
		 ORIEL_EINVAL);
	CHECK_EQ(oriel_window_fetch_add(NULL, 0, 0, 1, old, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_swap(NULL, 0, 0, 1, (uint64_t *)(void *)1, NULL), ORIEL_EINVAL);
	/* a real GPU may reach all host memory; the fake one does not */
	if (contract_is_fake()) {
		CHECK_EQ(oriel_window_fetch_add(w, 0, 0, 1, &here, NULL), ORIEL_EINVAL);
		CHECK_HAS(oriel_last_error(), "cannot write");
		CHECK_EQ(here, 0);
	}
	CHECK_EQ(oriel_window_status(w), 0);
	settle(e);
	CHECK_EQ(contract_bytes_not(e, e->buffer, 0, e->bytes), 0);
}
