/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/checked.c - contract of the `checked` option.
 *
 * Bad ranks, ids, ranges and words of device calls give a status on every thread and change
 * nothing.  A destroyed window, and a barrier id that is in use, are reported.  Good calls work as
 * in other windows.
 */
#include "contract.h"

#define BYTES 4096

/* One bad call each, in a table: a->peer is a good rank. */
/* clang-format off */
enum probe {
	PUT_RANK_LOW, PUT_RANK_HIGH, PUT_END, PUT_FAR, PUT_OVERFLOW, PUT_SOURCE_END,
	PUT_SOURCE_OVERFLOW, PUT_SIGNAL_RANK, PUT_SIGNAL_ID, PUT_SIGNAL_ID_LOW, PUT_SIGNAL_OP,
	PUT_SIGNAL_END, PUT_COUNTER_ID, PUT_COUNTER_END, PUT_BOTH_SIGNAL, PUT_BOTH_COUNTER,
	PUT_BOTH_END, PUT_BOTH_OP, VALUE_NONE, VALUE_LONG, VALUE_END, VALUE_RANK, GET_RANK,
	GET_END, GET_OVERFLOW, GET_TARGET_END, GET_NBI_END, GET_NBI_RANK, GET_VALUE_NONE,
	GET_VALUE_LONG, GET_VALUE_END, GET_VALUE_RANK, ADD_MISALIGNED, ADD_END, ADD_OVERFLOW,
	ADD_RANK, SWAP_MISALIGNED, SWAP_END, CAS_MISALIGNED, CAS_END, CAS_RANK, SIGNAL_RANK,
	SIGNAL_ID, SIGNAL_OP, SIGNAL_ALL_ID, SIGNAL_ALL_OP, WAIT_RANK, WAIT_ID, WAIT_CMP,
	WAIT_SUM_ID, RESET_ID, ADVANCE_ID, ADVANCE_FROM_ID, ADVANCE_FROM_RANK, COUNTER_RANK,
	COUNTER_ID, COUNTER_CMP, COUNTER_ALL_ID, COUNTER_RESET_ID, COUNTER_RESET_RANK, FENCE_RANK,
	FLUSH_RANK, TICKET_RANK, SYNC_ID, SYNC_ID_LOW, BARRIER_ID, ARRIVE_ID, BARRIER_WAIT_ID,
	BARRIER_PEER_ID, BARRIER_PEER_RANK, SEND_RANK, SEND_CHANNEL, RECV_RANK, RECV_CHANNEL,
	PACKET_SEND_RANK, PACKET_SEND_BOX, PACKET_SEND_END, PACKET_RECV_RANK, PACKET_RECV_BOX,
	PACKET_RECV_END, PROBES
};

/* The puts and gets of the list. */
ORIEL_DEV int probe_data(const struct contract_args *a, struct oriel_group g, int probe)
{
	const struct oriel_window_dev *w = &a->win;
	const struct oriel_source *s = &a->src;
	int p = a->peer, n = oriel_nranks(w);
	uint64_t far = UINT64_MAX - 7;
	uint8_t v[32];

	memset(v, 1, sizeof(v));
	switch (probe) {
	case PUT_RANK_LOW: return oriel_put(w, g, -1, 0, s, 0, 8);
	case PUT_RANK_HIGH: return oriel_put(w, g, n, 0, s, 0, 8);
	case PUT_END: return oriel_put(w, g, p, BYTES - 7, s, 0, 8);
	case PUT_FAR: return oriel_put(w, g, p, BYTES + 1, s, 0, 0);
	case PUT_OVERFLOW: return oriel_put(w, g, p, far, s, 0, 16);
	case PUT_SOURCE_END: return oriel_put(w, g, p, 0, s, BYTES - 7, 8);
	case PUT_SOURCE_OVERFLOW: return oriel_put(w, g, p, 0, s, far, 16);
	case PUT_SIGNAL_RANK: return oriel_put_signal(w, g, n, 0, s, 0, 8, 0, ORIEL_ADD, 1);
	case PUT_SIGNAL_ID: return oriel_put_signal(w, g, p, 0, s, 0, 8, 4, ORIEL_ADD, 1);
	case PUT_SIGNAL_ID_LOW: return oriel_put_signal(w, g, p, 0, s, 0, 8, -1, ORIEL_ADD, 1);
	case PUT_SIGNAL_OP: return oriel_put_signal(w, g, p, 0, s, 0, 8, 0, 3, 1);
	case PUT_SIGNAL_END: return oriel_put_signal(w, g, p, BYTES, s, 0, 1, 0, ORIEL_ADD, 1);
	case PUT_COUNTER_ID: return oriel_put_counter(w, g, p, 0, s, 0, 8, 3);
	case PUT_COUNTER_END: return oriel_put_counter(w, g, p, BYTES, s, 0, 1, 0);
	case PUT_BOTH_SIGNAL:
		return oriel_put_signal_counter(w, g, p, 0, s, 0, 8, 4, ORIEL_ADD, 1, 0);
	case PUT_BOTH_COUNTER:
		return oriel_put_signal_counter(w, g, p, 0, s, 0, 8, 0, ORIEL_ADD, 1, -1);
	case PUT_BOTH_END:
		return oriel_put_signal_counter(w, g, p, BYTES, s, 0, 1, 0, ORIEL_ADD, 1, 0);
	case PUT_BOTH_OP: return oriel_put_signal_counter(w, g, p, 0, s, 0, 8, 0, 0, 1, 0);
	case VALUE_NONE: return oriel_put_value(w, g, p, 0, v, 0);
	case VALUE_LONG: return oriel_put_value(w, g, p, 0, v, 29);
	case VALUE_END: return oriel_put_value(w, g, p, BYTES - 3, v, 4);
	case VALUE_RANK: return oriel_put_value(w, g, n, 0, v, 4);
	case GET_RANK: return oriel_get(w, g, -2, 0, s, 0, 8);
	case GET_END: return oriel_get(w, g, p, BYTES - 7, s, 0, 8);
	case GET_OVERFLOW: return oriel_get(w, g, p, far, s, 0, 16);
	case GET_TARGET_END: return oriel_get(w, g, p, 0, s, BYTES - 7, 8);
	case GET_NBI_END: return oriel_get_nbi(w, g, p, BYTES - 7, s, 0, 8);
	case GET_NBI_RANK: return oriel_get_nbi(w, g, n, 0, s, 0, 8);
	case GET_VALUE_NONE: return oriel_get_value(w, g, p, 0, v, 0);
	case GET_VALUE_LONG: return oriel_get_value(w, g, p, 0, v, 29);
	case GET_VALUE_END: return oriel_get_value(w, g, p, BYTES - 3, v, 4);
	case GET_VALUE_RANK: return oriel_get_value(w, g, -1, 0, v, 4);
	default: return 0;
	}
}

ORIEL_DEV int probe_words(const struct contract_args *a, struct oriel_group g, int probe)
{
	const struct oriel_window_dev *w = &a->win;
	int p = a->peer, n = oriel_nranks(w);
	uint64_t old, far = UINT64_MAX - 7;

	switch (probe) {
	case ADD_MISALIGNED: return oriel_fetch_add(w, g, p, 4, 1, &old);
	case ADD_END: return oriel_fetch_add(w, g, p, BYTES, 1, &old);
	case ADD_OVERFLOW: return oriel_fetch_add(w, g, p, far, 1, &old);
	case ADD_RANK: return oriel_fetch_add(w, g, n, 0, 1, &old);
	case SWAP_MISALIGNED: return oriel_swap(w, g, p, 1, 1, &old);
	case SWAP_END: return oriel_swap(w, g, p, BYTES, 1, &old);
	case CAS_MISALIGNED: return oriel_compare_swap(w, g, p, 7, 0, 1, &old);
	case CAS_END: return oriel_compare_swap(w, g, p, BYTES, 0, 1, NULL);
	case CAS_RANK: return oriel_compare_swap(w, g, -1, 0, 0, 1, NULL);
	case SIGNAL_RANK: return oriel_signal(w, g, n, 0, ORIEL_ADD, 1);
	case SIGNAL_ID: return oriel_signal(w, g, p, 4, ORIEL_ADD, 1);
	case SIGNAL_OP: return oriel_signal(w, g, p, 0, 0, 1);
	case SIGNAL_ALL_ID: return oriel_signal_all(w, g, -1, ORIEL_ADD, 1);
	case SIGNAL_ALL_OP: return oriel_signal_all(w, g, 0, 9, 1);
	case WAIT_RANK: return oriel_wait_signal_from(w, g, n, 0, ORIEL_EQ, 0);
	case WAIT_ID: return oriel_wait_signal_from(w, g, p, 4, ORIEL_EQ, 0);
	case WAIT_CMP: return oriel_wait_signal_from(w, g, p, 0, 7, 0);
	case WAIT_SUM_ID: return oriel_wait_signal(w, g, 4, 0);
	case RESET_ID: return oriel_reset_signal(w, g, 4);
	case ADVANCE_ID: return oriel_signal_advance(w, g, -1, 1);
	case ADVANCE_FROM_ID: return oriel_signal_advance_from(w, g, p, 4, 1);
	case ADVANCE_FROM_RANK: return oriel_signal_advance_from(w, g, n, 0, 1);
	case COUNTER_RANK: return oriel_wait_counter(w, g, -1, 0, ORIEL_EQ, 0);
	case COUNTER_ID: return oriel_wait_counter(w, g, p, 3, ORIEL_EQ, 0);
	case COUNTER_CMP: return oriel_wait_counter(w, g, p, 0, 0, 0);
	case COUNTER_ALL_ID: return oriel_wait_counter_all(w, g, 3, 0);
	case COUNTER_RESET_ID: return oriel_reset_counter(w, g, p, 3);
	case COUNTER_RESET_RANK: return oriel_reset_counter(w, g, n, 0);
	default: return 0;
	}
}

ORIEL_DEV int probe_rest(const struct contract_args *a, struct oriel_group g, int probe)
{
	const struct oriel_window_dev *w = &a->win;
	int p = a->peer, n = oriel_nranks(w);
	struct oriel_ticket t;

	switch (probe) {
	case FENCE_RANK: return oriel_fence(w, g, n);
	case FLUSH_RANK: return oriel_flush(w, g, -1);
	case TICKET_RANK: return oriel_take_ticket(w, g, n, &t);
	case SYNC_ID: return oriel_barrier_arrive_wait(w, g, 2);
	case SYNC_ID_LOW: return oriel_barrier_arrive_wait(w, g, -1);
	case BARRIER_ID: return oriel_barrier(w, g, 2);
	case ARRIVE_ID: return oriel_barrier_arrive(w, g, 2);
	case BARRIER_WAIT_ID: return oriel_barrier_wait(w, g, 2);
	case BARRIER_PEER_ID: return oriel_barrier_peer(w, g, p, 2);
	case BARRIER_PEER_RANK: return oriel_barrier_peer(w, g, n, 0);
	case SEND_RANK: return oriel_send(w, g, n, 0, a->local, 8);
	case SEND_CHANNEL: return oriel_send(w, g, p, 1, a->local, 8);
	case RECV_RANK: return oriel_recv(w, g, -1, 0, a->local, 8);
	case RECV_CHANNEL: return oriel_recv(w, g, p, -1, a->local, 8);
	case PACKET_SEND_RANK: return oriel_packet_send(w, g, n, 0, a->local, 8);
	case PACKET_SEND_BOX: return oriel_packet_send(w, g, p, 2, a->local, 8);
	case PACKET_SEND_END: return oriel_packet_send(w, g, p, 0, a->local, 65);
	case PACKET_RECV_RANK: return oriel_packet_recv(w, g, -1, 0, a->local, 8);
	case PACKET_RECV_BOX: return oriel_packet_recv(w, g, p, -1, a->local, 8);
	case PACKET_RECV_END: return oriel_packet_recv(w, g, p, 1, a->local, 1ull << 40);
	default: return 0;
	}
}

/* clang-format on */

/* All bad calls one after the other; wrong is 1 + the first that was not refused as it should. */
CONTRACT_KERNEL(probe_kernel)
{
	uint64_t wrong = 0;
	int err, probe;

	for (probe = 0; probe < PROBES; probe++) {
		err = probe_data(a, g, probe);
		if (!err)
			err = probe_words(a, g, probe);
		if (!err)
			err = probe_rest(a, g, probe);
		if (!wrong && err != ORIEL_ERANGE && err != ORIEL_EINVAL)
			wrong = (uint64_t)probe + 1;
		/* an op or comparison of no meaning is invalid; a rank or id is out of range */
		if (!wrong && (probe == PUT_SIGNAL_OP || probe == SIGNAL_OP || probe == WAIT_CMP) &&
		    err != ORIEL_EINVAL)
			wrong = (uint64_t)probe + 1;
		if (!wrong &&
		    (probe == PUT_RANK_HIGH || probe == SIGNAL_ID || probe == PUT_OVERFLOW ||
		     probe == SYNC_ID) &&
		    err != ORIEL_ERANGE)
			wrong = (uint64_t)probe + 1;
	}
	contract_report(a, g, 0, wrong);
}

static void check_untouched(struct contract_env *e)
{
	CHECK_EQ(contract_bytes_not(e, e->buffer, CONTRACT_GUARD, e->bytes), 0);
	CHECK_EQ(contract_bytes_not(e, e->local, 0x11, e->bytes), 0);
	for (int r = 0; r < e->nranks; r++) {
		for (int id = 0; id < 4; id++)
			CHECK_EQ(contract_signal_from(e, &e->win, r, id), 0);
		for (int id = 0; id < 3; id++)
			CHECK_EQ(contract_counter(e, &e->win, r, id), 0);
	}
	CHECK_EQ(oriel_window_status(e->window), 0); /* refused calls do not fail the window */
}

CASE(checked_refuses, c.shape = CONTRACT_FULL, c.window.checked = 1, c.window.bytes = BYTES,
     c.window.signals = 4, c.window.counters = 3, c.window.barriers = 2,
     c.window.staging_slot_bytes = 64, c.window.staging_channels = 1, c.window.boxes = 2,
     c.window.box_bytes = 64)
{
	struct contract_args a = contract_args(e);

	contract_fill_bytes(e, e->buffer, CONTRACT_GUARD, e->bytes);
	contract_fill_bytes(e, e->local, 0x11, e->bytes);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	a.peer = (e->rank + 1) % e->nranks;
	contract_launch(e, &probe_kernel, 1, &a);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	check_untouched(e);
}

/* ---- good calls ---------------------------------------------------------------------------- */

/* Up to the last byte, the last id and the last word. */
CONTRACT_KERNEL(edges_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err, k;
	uint64_t old = 0;

	err = oriel_put(w, g, n - 1, BYTES, &a->src, BYTES, 0);
	for (k = 0; k < n && !err; k++) {
		err = oriel_put_signal_counter(w, g, k, 0, &a->src, BYTES, 0, 3, ORIEL_ADD, 1, 2);
		if (!err)
			err = oriel_fetch_add(w, g, k, BYTES - 8, 1, &old);
		if (!err)
			err = oriel_wait_counter(w, g, k, 2, ORIEL_EQ, 1);
		if (!err)
			err = oriel_wait_signal_from(w, g, k, 3, ORIEL_EQ, 1);
	}
	if (!err)
		err = oriel_barrier(w, g, 1);
	if (!err)
		err = oriel_get(w, g, n - 1, 0, &a->src, 0, BYTES);
	if (!err)
		err = oriel_barrier_arrive_wait(w, g, 0);
	contract_report(a, g, err, 0);
}

CASE(checked_allows_the_edges, c.window.checked = 1, c.window.bytes = BYTES, c.window.signals = 4,
     c.window.counters = 3, c.window.barriers = 2)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &edges_kernel, 1, &a);
	/* a GPU's adds and an engine's are atomic among themselves, not with each other */
	if (!e->cuda || strcmp(e->row->transport, "mixed"))
		CHECK_EQ(contract_word(e, e->local + BYTES - 8), e->nranks);
}

/* ---- destroyed windows --------------------------------------------------------------------- */

/* The same handle, before and after. */
CONTRACT_KERNEL(stale_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w), want = a->mode, err;
	uint64_t wrong = 0, v = 0;

	err = oriel_put(w, g, me, 0, &a->src, 0, 8);
	wrong += oriel_put_value(w, g, me, 0, &v, 8) != want;
	wrong += oriel_get(w, g, me, 0, &a->src, 0, 8) != want;
	wrong += oriel_signal(w, g, me, 0, ORIEL_ADD, 1) != want;
	wrong += oriel_signal_all(w, g, 1, ORIEL_ADD, 1) != want;
	wrong += oriel_wait_signal_from(w, g, me, 0, ORIEL_GE, 0) != want;
	wrong += oriel_wait_signal(w, g, 0, 0) != want;
	wrong += oriel_wait_counter(w, g, me, 0, ORIEL_GE, 0) != want;
	wrong += oriel_fetch_add(w, g, me, 8, 1, &v) != want;
	wrong += oriel_barrier_peer(w, g, me, 0) != want;
	wrong += oriel_flush(w, g, me) != want;
	contract_report(a, g, err, wrong);
}

CASE(checked_stale_handle, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct contract_args a = contract_args(e);
	struct oriel_window *w;

	o.bytes = BYTES;
	o.checked = 1;
	a.local = (uint8_t *)contract_alloc(e, BYTES);
	REQUIRE(a.local);
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	REQUIRE_OK(oriel_window_device(w, &a.win));
	REQUIRE_OK(oriel_window_source(w, a.local, BYTES, &a.src));
	contract_launch(e, &stale_kernel, 1, &a);
	REQUIRE_OK(oriel_window_destroy(w));
	a.mode = ORIEL_ESTALE;
	contract_launch_expect(e, &stale_kernel, 1, &a, ORIEL_ESTALE);
	/* nor does a new window in its place make the old handle good */
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	contract_launch_expect(e, &stale_kernel, 1, &a, ORIEL_ESTALE);
	REQUIRE_OK(oriel_window_destroy(w));
}

/* ---- a barrier id in use ------------------------------------------------------------------- */

/*
 * On rank 1 two blocks use one id.  The first block stays until rank 0 comes, so the other one gets
 * an error.  Only then does it let rank 0 continue.
 */
CONTRACT_KERNEL(busy_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w), err = 0, told = 0;

	if (me == 0 && g.block == 0) {
		err = oriel_wait_signal_from(w, g, 1, 0, ORIEL_GE, 1);
		if (!err)
			err = oriel_barrier_peer(w, g, 1, 0);
	} else if (me == 1) {
		err = oriel_barrier_peer(w, g, 0, 0);
		told = err == ORIEL_EBUSY;
		if (told)
			err = oriel_signal(w, g, 0, 0, ORIEL_ADD, 1);
	}
	a->out[contract_slot(g) * CONTRACT_OUT] = (uint64_t)told;
	contract_report(a, g, err, 0);
}

CASE(checked_barrier_in_use, c.min_ranks = 2, c.blocks = 2, c.window.checked = 1)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &busy_kernel, 2, &a);
	if (e->rank != 1)
		return;
	for (int t = 0; t < e->threads; t++) {
		const uint64_t *other = &e->out[CONTRACT_THREADS * CONTRACT_OUT];

		CHECK_EQ(e->out[t * CONTRACT_OUT] + other[t * CONTRACT_OUT], 1);
		CHECK_EQ(e->out[t * CONTRACT_OUT], e->out[0]);
	}
}

/* ---- add and set --------------------------------------------------------------------------- */

/* A source either adds to a signal or sets it; another id or another peer is another signal. */
CONTRACT_KERNEL(mixed_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	const struct oriel_source *s = &a->src;
	int p = a->peer, n = oriel_nranks(w), err;
	uint64_t wrong = 0;

	err = oriel_signal(w, g, p, 0, ORIEL_ADD, 1);
	if (!err)
		err = oriel_put_signal(w, g, p, 0, s, 0, 8, 1, ORIEL_SET, 5);
	if (!err)
		err = oriel_signal_all(w, g, 2, ORIEL_SET, 7);
	wrong += oriel_signal(w, g, p, 0, ORIEL_SET, 9) != ORIEL_EINVAL;
	wrong += oriel_put_signal(w, g, p, 0, s, 0, 8, 0, ORIEL_SET, 9) != ORIEL_EINVAL;
	wrong += oriel_put_signal_counter(w, g, p, 0, s, 0, 8, 1, ORIEL_ADD, 9, 0) != ORIEL_EINVAL;
	wrong += oriel_signal(w, g, p, 1, ORIEL_ADD, 9) != ORIEL_EINVAL;
	wrong += n > 1 && oriel_signal_all(w, g, 0, ORIEL_SET, 9) != ORIEL_EINVAL;
	wrong += n > 1 && oriel_signal(w, g, p, 2, ORIEL_ADD, 9) != ORIEL_EINVAL;
	/* what was refused is forgotten: the first op is still the good one */
	if (!err)
		err = oriel_signal(w, g, p, 0, ORIEL_ADD, 1);
	if (!err)
		err = oriel_signal(w, g, p, 1, ORIEL_SET, 6);
	contract_report(a, g, err, wrong);
}

CASE(checked_add_and_set_do_not_mix, c.window.checked = 1, c.window.bytes = BYTES,
     c.window.signals = 4, c.window.counters = 3)
{
	struct contract_args a = contract_args(e);
	int from = (e->rank + e->nranks - 1) % e->nranks;

	a.peer = (e->rank + 1) % e->nranks;
	contract_launch(e, &mixed_kernel, 1, &a);
	REQUIRE_OK(oriel_window_barrier(e->window, 0, NULL));
	CHECK_EQ(contract_signal_from(e, &e->win, from, 0), 2);
	CHECK_EQ(contract_signal_from(e, &e->win, from, 1), 6);
}

/* ---- texts --------------------------------------------------------------------------------- */

/* Arguments of host calls are always tested. */
CASE(checked_says_what_is_wrong, c.shape = CONTRACT_HOST, c.window.signals = 4)
{
	char want[96];

	CHECK_EQ(oriel_window_signal(e->window, e->nranks, 0, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	snprintf(want, sizeof(want), "rank %d does not exist (ranks are 0 to %d)", e->nranks,
		 e->nranks - 1);
	CHECK_HAS(oriel_last_error(), want);
	CHECK_EQ(oriel_comm_node(e->comm, -1), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "rank -1 does not exist (ranks are 0 to ");
	CHECK_EQ(oriel_window_signal(e->window, 0, 4, ORIEL_ADD, 1, NULL), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "signal 4 does not exist (ids are 0 to 3)");
	CHECK_EQ(oriel_window_barrier(e->window, -1, NULL), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "barrier -1 does not exist (ids are 0 to ");
	if (e->cuda)
		return;
	CHECK_EQ(oriel_window_signal(e->window, 0, 3, ORIEL_ADD, 1, NULL), 0);
	CHECK_EQ(oriel_window_signal(e->window, 0, 3, ORIEL_SET, 1, NULL), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(),
		  "ORIEL_SET on signal 3 to rank 0, which had ORIEL_ADD before");
}
