/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/host_ops_refused.c - arguments that the calls of host_ops.c refuse, in every
 * window: nothing happens, and the window stays usable.
 */
#include "contract.h"

/* What a refused call must leave alone. */
static void check_untouched(struct contract_env *e)
{
	uint64_t value = UINT64_MAX;

	CHECK_EQ(oriel_window_status(e->window), 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	CHECK_EQ(contract_bytes_not(e, e->buffer, 0, e->bytes), 0);
	REQUIRE_OK(oriel_window_read_signal(e->window, -1, 0, &value));
	CHECK_EQ(value, 0);
	REQUIRE_OK(oriel_window_read_counter(e->window, -1, 0, &value));
	CHECK_EQ(value, 0);
}

CASE(host_counters_refused, c.shape = CONTRACT_HOST)
{
	struct oriel_window *w = e->window;
	struct oriel_source *s = &e->src;
	uint64_t end = e->bytes, value = 77;
	int n = e->nranks;

	CHECK_EQ(oriel_window_put_counter(w, n, 0, s, 0, 8, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_counter(w, 0, end, s, 0, 8, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_counter(w, 0, 0, s, end, 8, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_counter(w, 0, 0, s, 0, 8, 16, NULL), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "counter 16 does not exist");
	CHECK_EQ(oriel_window_put_counter(w, 0, 0, s, 0, 8, -1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_counter(w, 0, 0, NULL, 0, 8, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_put_counter(NULL, 0, 0, NULL, 0, 8, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_put_signal_counter(w, 0, 0, s, 0, 8, 16, ORIEL_ADD, 1, 0, NULL),
		 ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_signal_counter(w, 0, 0, s, 0, 8, 0, 7, 1, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_put_signal_counter(w, 0, 0, s, 0, 8, 0, ORIEL_ADD, 1, 16, NULL),
		 ORIEL_ERANGE);
	CHECK_EQ(oriel_window_put_signal_counter(w, n, 0, s, 0, 8, 0, ORIEL_ADD, 1, 0, NULL),
		 ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_counter(w, n, 0, ORIEL_GE, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_counter(w, 0, 16, ORIEL_GE, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_counter(w, -1, 16, ORIEL_GE, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_counter(w, 0, 0, 9, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_counter(w, -1, 0, ORIEL_EQ, 0, NULL), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "a sum over peers");
	CHECK_EQ(oriel_window_reset_counter(w, n, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_reset_counter(w, 0, -1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_reset_counter(w, -1, 16, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_read_counter(w, n, 0, &value), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_read_counter(w, 0, 16, &value), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_read_counter(w, 0, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_read_counter(NULL, 0, 0, &value), ORIEL_EINVAL);
	CHECK_EQ(value, 77);
	check_untouched(e);
}

CASE(host_signals_refused, c.shape = CONTRACT_HOST)
{
	struct oriel_window *w = e->window;
	uint64_t value = 77;
	int n = e->nranks;

	CHECK_EQ(oriel_window_signal_all(w, 16, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_signal_all(w, 0, 0, 1, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_reset_signal(w, 16, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_reset_signal(w, -1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_signal_advance(w, n, 0, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_signal_advance(w, 0, 16, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_signal_advance(w, -1, -1, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_read_signal(w, n, 0, &value), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_read_signal(w, -1, 16, &value), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "ids are 0 to 15");
	CHECK_EQ(oriel_window_read_signal(w, 0, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_read_signal(NULL, 0, 0, &value), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_flush(w, n, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_device_address(w, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_device_address(NULL, NULL), ORIEL_EINVAL);
	CHECK_EQ(value, 77);
	check_untouched(e);
}

/* A window without counters has none to count, and one without a buffer no word for an atomic. */
CASE(host_ops_on_a_window_of_nothing, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;
	uint64_t value;

	o.signals = o.counters = 0;
	o.bytes = 0;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	CHECK_EQ(oriel_window_fetch_add(w, 0, 0, 1, NULL, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_counter(w, 0, 0, ORIEL_GE, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_read_counter(w, 0, 0, &value), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "the window has none");
	CHECK_EQ(oriel_window_read_signal(w, -1, 0, &value), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_flush(w, -1, NULL), 0);
	REQUIRE_OK(oriel_window_destroy(w));
	CHECK_EQ(oriel_window_read_counter(w, 0, 0, &value), ORIEL_ESTALE);
	CHECK_EQ(oriel_window_fetch_add(w, 0, 0, 1, NULL, NULL), ORIEL_ESTALE);
}

/* A peer without queues is named by the call, and the window stays usable. */
CASE(host_ops_without_queues, c.shape = CONTRACT_HOST, c.no_window = 1, c.min_ranks = 2)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_window_options wo = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_comm *comm;
	struct oriel_window *w;
	int far = -1;

	o.topology = e->row->topology;
	o.connect = ORIEL_CONNECT_NONE;
	wo.bytes = 4096;
	REQUIRE_OK(oriel_comm_create(e->boot, &o, &comm));
	REQUIRE_OK(oriel_window_create(comm, &wo, &w));
	for (int k = 0; k < e->nranks; k++)
		if (oriel_comm_peer_kind(comm, k) == ORIEL_PEER_QUEUED)
			far = k;
	if (far >= 0) {
		CHECK_EQ(oriel_window_fetch_add(w, far, 0, 1, NULL, NULL), ORIEL_ENOTCONN);
		CHECK_HAS(oriel_last_error(), "oriel_comm_connect");
		CHECK_EQ(oriel_window_signal(w, far, 0, ORIEL_ADD, 1, NULL), ORIEL_ENOTCONN);
		CHECK_EQ(oriel_window_signal_all(w, 0, ORIEL_ADD, 1, NULL), ORIEL_ENOTCONN);
		CHECK_EQ(oriel_window_barrier(w, 0, NULL), ORIEL_ENOTCONN);
		CHECK_EQ(oriel_window_flush(w, far, NULL), ORIEL_ENOTCONN);
	}
	REQUIRE_OK(oriel_window_flush(w, -1, NULL));
	REQUIRE_OK(oriel_window_fetch_add(w, e->rank, 0, 1, NULL, NULL));
	REQUIRE_OK(oriel_comm_sync(comm, NULL));
	CHECK_EQ(oriel_window_status(w), 0);
	REQUIRE_OK(oriel_window_destroy(w));
	REQUIRE_OK(oriel_comm_destroy(comm));
}
