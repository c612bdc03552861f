/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/compile/every_call.h - a kernel that makes every call of oriel/device.h and of the
 * transport layer once, to its own rank.
 *
 * A rank has no queue to itself, so the calls that need one are refused.  A C, a C++ and a CUDA
 * file include it: one source for all three.
 */
#ifndef ORI_TEST_EVERY_CALL_H
#define ORI_TEST_EVERY_CALL_H

#include <oriel/device.h>

#define EVERY_CALL_MAX 96
#define EVERY_CALL_BYTES 64

struct every_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint8_t *message; /* EVERY_CALL_BYTES to send and as many to receive into */
	int32_t *status;  /* [EVERY_CALL_MAX], in the order of the calls */
	int32_t *calls;   /* how many there were */
};

ORIEL_DEV void every_note(const struct every_args *a, struct oriel_group g, int *n, int status)
{
	if (oriel_group_is_leader(g))
		a->status[*n] = status;
	++*n;
}

ORIEL_DEV void every_put_and_get(const struct every_args *a, struct oriel_group g, int *n)
{
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w);
	uint64_t value = 7;

	every_note(a, g, n, oriel_put(w, g, me, 0, &a->src, 0, 64));
	every_note(a, g, n, oriel_put_signal(w, g, me, 0, &a->src, 0, 64, 0, ORIEL_ADD, 1));
	every_note(a, g, n, oriel_put_counter(w, g, me, 0, &a->src, 0, 64, 0));
	every_note(a, g, n,
		   oriel_put_signal_counter(w, g, me, 0, &a->src, 0, 64, 0, ORIEL_ADD, 1, 0));
	every_note(a, g, n, oriel_put_value(w, g, me, 128, &value, sizeof(value)));
	every_note(a, g, n, oriel_get(w, g, me, 0, &a->src, 0, 64));
	every_note(a, g, n, oriel_get_nbi(w, g, me, 0, &a->src, 0, 64));
	every_note(a, g, n, oriel_get_value(w, g, me, 128, &value, sizeof(value)));
	every_note(a, g, n, value == 7 ? 0 : ORIEL_EREMOTE);
	every_note(a, g, n, oriel_fetch_add(w, g, me, 128, 1, &value));
	every_note(a, g, n, oriel_swap(w, g, me, 128, 9, &value));
	every_note(a, g, n, oriel_compare_swap(w, g, me, 128, 9, 10, &value));
	every_note(a, g, n, value == 9 ? 0 : ORIEL_EREMOTE);
}

ORIEL_DEV void every_word(const struct every_args *a, struct oriel_group g, int *n)
{
	struct oriel_words words = { 128, 1, ORIEL_TYPE_INT16, ORIEL_LT, 0, NULL, NULL };
	const struct oriel_window_dev *w = &a->win;
	uint64_t value = 0;

	every_note(a, g, n,
		   oriel_atomic(w, g, oriel_rank(w), 128, ORIEL_TYPE_INT16, ORIEL_ATOMIC_ADD, 0,
				(uint64_t)-20, &value));
	every_note(a, g, n, value == 10 ? 0 : ORIEL_EREMOTE);
	every_note(a, g, n, oriel_wait_word(w, g, 128, ORIEL_TYPE_INT16, ORIEL_LT, 0));
	every_note(a, g, n, oriel_wait_any_word(w, g, &words, 0, &value));
	every_note(a, g, n, oriel_find_word(w, &words, 0) == value ? 0 : ORIEL_EREMOTE);
	every_note(a, g, n,
		   oriel_read_word(w, 128, ORIEL_TYPE_INT16) == (uint64_t)-10 ? 0 : ORIEL_EREMOTE);
	oriel_wake(w, oriel_rank(w));
}

ORIEL_DEV void every_signal(const struct every_args *a, struct oriel_group g, int *n)
{
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w);

	every_note(a, g, n, oriel_signal(w, g, me, 0, ORIEL_ADD, 1));
	every_note(a, g, n, oriel_signal_all(w, g, 1, ORIEL_SET, 5));
	every_note(a, g, n, oriel_wait_signal_from(w, g, me, 0, ORIEL_GE, 3));
	every_note(a, g, n, oriel_wait_signal(w, g, 0, 3));
	every_note(a, g, n, oriel_read_signal(w, 0) == 3 ? 0 : ORIEL_EREMOTE);
	every_note(a, g, n, oriel_read_signal_from(w, me, 0) == 3 ? 0 : ORIEL_EREMOTE);
	/* nobody moves the start while another thread of the group still reads */
	every_note(a, g, n, oriel_group_sync(g));
	every_note(a, g, n, oriel_group_thread().size == 1 ? 0 : ORIEL_EREMOTE);
	every_note(a, g, n, oriel_group_warp().size <= 32 ? 0 : ORIEL_EREMOTE);
	every_note(a, g, n, oriel_signal_advance(w, g, 0, 1));
	every_note(a, g, n, oriel_signal_advance_from(w, g, me, 0, 1));
	every_note(a, g, n, oriel_reset_signal(w, g, 0));
	every_note(a, g, n, oriel_wait_counter(w, g, me, 0, ORIEL_GE, 2));
	every_note(a, g, n, oriel_wait_counter_all(w, g, 0, 2));
	every_note(a, g, n, oriel_read_counter(w, me, 0) == 2 ? 0 : ORIEL_EREMOTE);
	every_note(a, g, n, oriel_group_sync(g));
	every_note(a, g, n, oriel_reset_counter(w, g, me, 0));
}

ORIEL_DEV void every_order(const struct every_args *a, struct oriel_group g, int *n)
{
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w);
	struct oriel_ticket ticket;
	struct oriel_line line;
	struct oriel_path path;

	memset(&ticket, 0, sizeof(ticket));
	every_note(a, g, n, oriel_fence(w, g, me));
	every_note(a, g, n, oriel_flush(w, g, me));
	every_note(a, g, n, oriel_flush_all(w, g));
	every_note(a, g, n, oriel_take_ticket(w, g, me, &ticket));
	every_note(a, g, n, oriel_wait_local(w, g, &ticket, 1000000000ull));
	every_note(a, g, n, oriel_barrier_arrive_wait(w, g, 0));
	every_note(a, g, n, oriel_barrier(w, g, 0));
	every_note(a, g, n, oriel_barrier_arrive(w, g, 1));
	every_note(a, g, n, oriel_barrier_wait(w, g, 1));
	every_note(a, g, n, oriel_barrier_peer(w, g, me, 2));
	every_note(a, g, n, oriel_grid_sync(w, oriel_group_within(g, 60000), 2));
	every_note(a, g, n, oriel_send(w, g, me, 0, a->message, EVERY_CALL_BYTES));
	every_note(a, g, n,
		   oriel_recv(w, g, me, 0, a->message + EVERY_CALL_BYTES, EVERY_CALL_BYTES));
	every_note(a, g, n, oriel_packet_send(w, g, me, 0, a->message, EVERY_CALL_BYTES));
	every_note(a, g, n,
		   oriel_packet_recv(w, g, me, 0, a->message + EVERY_CALL_BYTES, EVERY_CALL_BYTES));
	every_note(a, g, n, oriel_line_open(&line, w, g, me, 0));
	every_note(a, g, n, oriel_line_send(&line, g, a->message, EVERY_CALL_BYTES));
	every_note(a, g, n,
		   oriel_line_recv(&line, g, a->message + EVERY_CALL_BYTES, EVERY_CALL_BYTES));
	every_note(a, g, n, oriel_line_close(&line, g));
	every_note(a, g, n, oriel_path_open(&path, w, g, me, &a->src, 0));
	every_note(a, g, n, oriel_path_put_signal(&path, g, 0, 0, 8, ORIEL_ADD, 1));
	every_note(a, g, n, oriel_path_wait(&path, g, 1));
}

/*
 * Two words, a slot with its length, ready and free words, and a cursor, all in the window's
 * buffer.
 */
ORIEL_DEV void every_mapped(const struct every_args *a, struct oriel_group g, int *n)
{
	const struct oriel_comm_dev *c = &a->win.comm;
	uint64_t *words = (uint64_t *)oriel_mapped_address(&a->win, c->rank, 1024);
	struct oriel_mapped_channel ch;

	ch.slots = a->win.buffer + 2048;
	ch.lengths = words + 2;
	ch.ready = words + 3;
	ch.free_count = words + 4;
	ch.cursor = words + 5;
	ch.slot_bytes = EVERY_CALL_BYTES;
	ch.depth = 1;
	ch.peer = c->rank;
	every_note(a, g, n, oriel_mapped_put(c, g, a->win.buffer + 1536, a->message, 16));
	every_note(a, g, n, oriel_mapped_signal(c, g, c->rank, words, ORIEL_ADD, 1));
	every_note(a, g, n,
		   oriel_mapped_put_signal(c, g, c->rank, a->win.buffer + 1536, a->message, 16,
					   words, ORIEL_ADD, 1));
	every_note(a, g, n, oriel_mapped_wait(c, g, c->rank, words, ORIEL_GE, 2));
	every_note(a, g, n, oriel_mapped_send(c, g, &ch, a->message, EVERY_CALL_BYTES));
	ch.cursor = words + 6;
	every_note(a, g, n,
		   oriel_mapped_recv(c, g, &ch, a->message + EVERY_CALL_BYTES, EVERY_CALL_BYTES));
}

ORIEL_DEV void every_refused(const struct every_args *a, struct oriel_group g, int *n, int status)
{
	every_note(a, g, n, status == ORIEL_ENOTCONN ? 0 : ORIEL_EREMOTE);
}

ORIEL_DEV void every_queue(const struct every_args *a, struct oriel_group g, int *n)
{
	const struct oriel_comm_dev *c = &a->win.comm;
	const struct oriel_source *s = &a->src;
	struct oriel_queue_word w;
	struct oriel_ticket ticket;
	int me = c->rank;

	memset(&w, 0, sizeof(w));
	memset(&ticket, 0, sizeof(ticket));
	every_refused(a, g, n, oriel_queue_put(c, g, me, &w.memory, 0, s, 0, 8));
	every_refused(a, g, n, oriel_queue_signal(c, g, me, &w, ORIEL_ADD, 1));
	every_refused(a, g, n, oriel_queue_signal_fence(c, g, me, &w, ORIEL_SET, 1));
	every_refused(a, g, n,
		      oriel_queue_put_signal(c, g, me, &w.memory, 0, s, 0, 8, &w, ORIEL_ADD, 1));
	every_refused(a, g, n,
		      oriel_queue_put_signal_counter(c, g, me, &w.memory, 0, s, 0, 8, &w, ORIEL_ADD,
						     1, s, 0));
	every_refused(a, g, n, oriel_queue_signal_counter(c, g, me, &w, ORIEL_ADD, 1, s, 0));
	every_refused(a, g, n, oriel_queue_take_ticket(c, g, me, &ticket));
	every_refused(a, g, n, oriel_queue_wait_local(c, g, &ticket, 1));
	every_refused(a, g, n, oriel_queue_fence(c, g, me));
	every_refused(a, g, n, oriel_queue_flush(c, g, me));
	every_refused(a, g, n, oriel_queue_reset(c, g, me, &w, 0));
}

ORIEL_KERNEL(every_call, struct every_args)
{
	struct oriel_group g = oriel_group_block();
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w), n = 0;

	every_note(a, g, &n, oriel_nranks(w) == 1 ? 0 : ORIEL_EREMOTE);
	every_note(a, g, &n, oriel_peer_kind(w, me) == ORIEL_PEER_SELF ? 0 : ORIEL_EREMOTE);
	/* A comm of one rank has no other peers; two may be named without asking for memory. */
	(void)oriel_peer_to_index(w, me);
	(void)oriel_index_to_peer(w, 0);
	every_note(a, g, &n, oriel_mapped_address(w, me, 0) ? 0 : ORIEL_EREMOTE);
	every_put_and_get(a, g, &n);
	every_word(a, g, &n);
	every_signal(a, g, &n);
	every_order(a, g, &n);
	every_mapped(a, g, &n);
	every_queue(a, g, &n);
	if (oriel_group_is_leader(g))
		*a->calls = n;
	return 0;
}

#endif
