/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/signal.h - bodies of device.h: signals at their receiver, who waits for them and
 * resets them.  signal_send.h sends them.
 *
 * There is one word per (source, id) in the receiver's memory.  Only the source writes it; the
 * receiver never stores to it.  A queued source has one word per NIC, and their sum is the value.
 * Reads count from the receiver's own `signal_base` (per source) and `signal_sum_base` (for sums).
 * Resets and advances move these bases.  Bases are accessed with relaxed atomics, because the words
 * give the order ([SIG1], [SIG2], [SIG3]).
 */
#ifndef ORIEL_DEVICE_SIGNAL_H
#define ORIEL_DEVICE_SIGNAL_H

#include "window.h"

ORIEL_DEV uint64_t ori_signal_index(const struct oriel_window_dev *win, int peer, int id)
{
	return (uint64_t)(uint32_t)peer * win->signal_stride + (uint32_t)id;
}

/* The address of the source's word. */
ORIEL_DEV uint64_t *ori_signal_word(const struct oriel_window_dev *win, int peer, int id)
{
	return ori_words_of(win, peer, &win->signal_words[ori_signal_index(win, peer, id)]);
}

/* The total of all signals from the source. */
ORIEL_DEV uint64_t ori_signal_load(const struct oriel_window_dev *win, int peer, int id)
{
	const uint64_t *word = ori_signal_word(win, peer, id);
	/* [SIG3] acquire, system scope; partner [SIG1], or [SOFT7], [SOFT9] or the NIC's add. */
	uint64_t sum = ori_load_acquire_sys(word);
	uint32_t i;

	/* [SIG3] again: one word per NIC. */
	if (win->word_nics > 1 && ori_words_are_host(win, peer))
		for (i = 1; i < win->word_nics; i++)
			sum += ori_load_acquire_sys(word + i * ori_signal_plane(win));
	return sum;
}

/*
 * As ori_signal_wait(), for a queued source.  Not inlined, so that others pay nothing.  It has its
 * own struct ori_spin: passing the caller's by address would force that one into memory.
 */
ORIEL_DEV_OUT int ori_signal_wait_queued(const struct oriel_window_dev *win,
					 ORI_VALUE(oriel_group) g, int op, int peer, int id,
					 int cmp, uint64_t value)
{
	uint64_t i = ori_signal_index(win, peer, id);
	struct ori_nic_words words;
	struct ori_spin s;

	ori_spin_begin(&s, &win->comm, win->failure, op, peer, id, win->number, value);
	ori_spin_within(&s, g);
	ori_spin_host(&s, 1);
	words.first = (uint64_t *)ori_host_half(&win->comm, &win->signal_words[i]);
	words.stride = ori_signal_plane(win);
	words.n = win->word_nics;
	return ori_nic_words_wait(&s, &words, ori_load_relaxed_sys(&win->signal_base[i]), cmp);
}

/* Called by one thread: waits until (source, id) compares.  op: ORIEL_OP_SIGNAL and flags. */
ORIEL_DEV int ori_signal_wait_op(const struct oriel_window_dev *win, struct oriel_group g, int op,
				 int peer, int id, int cmp, uint64_t value)
{
	uint64_t i = ori_signal_index(win, peer, id);
	struct ori_spin s;

	if (ori_words_are_host(win, peer))
		return ori_signal_wait_queued(win, g, op, peer, id, cmp, value);
	ori_spin_begin(&s, &win->comm, win->failure, op, peer, id, win->number, value);
	ori_spin_within(&s, g);
	return ori_word_wait(&s, &win->signal_words[i], ori_load_relaxed_sys(&win->signal_base[i]),
			     cmp);
}

ORIEL_DEV int ori_signal_wait(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			      int id, int cmp, uint64_t value)
{
	return ori_signal_wait_op(win, g, ORIEL_OP_SIGNAL, peer, id, cmp, value);
}

ORIEL_DEV uint64_t oriel_read_signal_from(const struct oriel_window_dev *win, int peer, int id)
{
	/* Loads the base first, because a load after an acquire waits for it. */
	uint64_t base = ori_load_relaxed_sys(&win->signal_base[ori_signal_index(win, peer, id)]);

	/* [SIG3] inside: data may be read after this read. */
	return ori_signal_load(win, peer, id) - base;
}

/* Called by one thread: how far resets have moved the source's base, in totals of the source. */
ORIEL_DEV uint64_t ori_signal_moved(const struct oriel_window_dev *win, int peer, int id)
{
	return ori_load_relaxed_sys(&win->signal_base[ori_signal_index(win, peer, id)]) -
	       win->first_count;
}

/*
 * When a traced wait begins; 0: now, which is also its end.  A signal that has arrived already is
 * waited for in no time.  Only a CPU asks, for which reading the time takes longer than this.
 */
ORIEL_DEV uint64_t ori_trace_wait_begin(const struct oriel_window_dev *win, int peer, int id,
					int cmp, uint64_t value)
{
	/* [SIG3] inside, for the look alone: ori_signal_wait() follows. */
	if (!ORIEL_ON_GPU && ori_compare(oriel_read_signal_from(win, peer, id), cmp, value))
		return 0;
	return ori_trace_time(win->comm.trace);
}

ORIEL_DEV_OUT int ori_watch_wait(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				 int peer, int id, int cmp, uint64_t value)
{
	struct ori_trace_note n;
	int err = ori_window_is_checked(win) ?
			  ori_check_wait(win, g, "wait_signal_from", peer, id, cmp) :
			  0;

	if (err || !ori_traced_beside(&win->comm))
		return err;
	n = ori_trace_note_of(ORIEL_TRACE_WAIT_SIGNAL, 0, peer, id, win->number);
	n.op = cmp;
	n.value = value;
	if (oriel_group_is_leader(g)) {
		n.base = ori_signal_moved(win, peer, id);
		n.begin = ori_trace_wait_begin(win, peer, id, cmp, value);
		err = ori_signal_wait_op(win, g, ORIEL_OP_SIGNAL | ORIEL_CALL_NOTED, peer, id, cmp,
					 value);
		n.end = ori_trace_time_late(win->comm.trace);
		n.begin = n.begin ? n.begin : n.end;
	}
	ori_trace_end_here(&win->comm, g, n, err);
	err = ori_group_agree(g, err);
	return err ? err : ORI_WATCHED;
}

/* Called by the leader.  On a GPU it notes itself, as ori_put_noted(). */
ORIEL_DEV int ori_wait_noted(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			     int id, int cmp, uint64_t value)
{
	struct ori_trace_note n = ori_trace_start(&win->comm, g, ORIEL_TRACE_WAIT_SIGNAL, peer, id,
						  win->number);
	int err;

	n.op = cmp;
	n.value = value;
	if (n.begin)
		n.base = ori_signal_moved(win, peer, id);
	err = ori_signal_wait(win, g, peer, id, cmp, value);
	ori_trace_end(&win->comm, g, n, err);
	return err;
}

ORIEL_DEV int oriel_wait_signal_from(const struct oriel_window_dev *win, struct oriel_group g,
				     int peer, int id, int cmp, uint64_t value)
{
	int err = 0;

	if (ori_window_goes_beside(win))
		err = ori_watch_wait(win, g, peer, id, cmp, value);
	if (err)
		return ori_watched_status(err);
	if (oriel_group_is_leader(g))
		err = ori_wait_noted(win, g, peer, id, cmp, value);
	return ori_group_agree(g, err);
}

ORIEL_DEV uint64_t oriel_read_signal(const struct oriel_window_dev *win, int id)
{
	uint64_t sum = 0;
	int peer;

	for (peer = 0; peer < win->comm.nranks; peer++)
		sum += oriel_read_signal_from(win, peer, id);
	return sum - ori_load_relaxed_sys(&win->signal_sum_base[id]);
}

/* Sum of every `step`th source from `first` on. */
ORIEL_DEV_OUT uint64_t ori_read_signals(const struct oriel_window_dev *win, int first, int step,
					int id)
{
	uint64_t sum = 0;
	int peer;

	for (peer = first; peer < win->comm.nranks; peer += step)
		sum += oriel_read_signal_from(win, peer, id);
	return sum;
}

/*
 * Called by every lane of the group.  The lanes divide the rows among them, and all get the same
 * sum.  Bases are read once: each lane reads that of its first source, and the leader that of the
 * sum.  All lanes leave the loop in the same round.
 */
ORIEL_DEV int ori_wait_sum(const struct oriel_window_dev *win, struct oriel_group g, uint32_t lanes,
			   int id, uint64_t value)
{
	struct ori_failures look = ori_failures_of_window(win);
	int first = (int)g.thread, any, mine = first < win->comm.nranks, err;
	uint64_t have, base = 0, *word = NULL;
	int planes = win->word_nics > 1;
	struct ori_spin s;

	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_SIGNAL_SUM, -1, id, win->number,
		       value);
	ori_spin_within(&s, g);
	ori_spin_host(&s, win->queued_peers != 0);
	if (mine) {
		base = ori_load_relaxed_sys(&win->signal_base[ori_signal_index(win, first, id)]);
		word = ori_signal_word(win, first, id);
	}
	if (oriel_group_is_leader(g))
		base += ori_load_relaxed_sys(&win->signal_sum_base[id]);
	err = ori_failures_status(look);
	for (;;) {
		/* [SIG3] acquire, system scope; partner as in ori_signal_load(). */
		have = !mine  ? 0 :
		       planes ? ori_signal_load(win, first, id) - base :
				ori_load_acquire_sys(word) - base;
		if (first + (int)lanes < win->comm.nranks)
			have += ori_read_signals(win, first + (int)lanes, (int)lanes, id);
		have = ori_lanes_sum(lanes, have, err, &any);
		if (any || ori_reached(have, value))
			break;
		err = ori_spin(&s, have);
	}
	ori_spin_end(&s);
	return any ? ori_lanes_status(lanes, err) : 0;
}

ORIEL_DEV int ori_wait_sum_group(const struct oriel_window_dev *win, struct oriel_group g, int id,
				 uint64_t value)
{
	uint32_t lanes = ori_group_lanes(g);
	int err = 0;

	if (g.thread < lanes)
		err = ori_wait_sum(win, g, lanes, id, value);
	return ori_group_agree(g, err);
}

/* Called by the leader: how far resets have moved the bases of all sources and of their sum. */
ORIEL_DEV uint64_t ori_sum_moved(const struct oriel_window_dev *win, int id)
{
	uint64_t moved = ori_load_relaxed_sys(&win->signal_sum_base[id]);
	int peer;

	for (peer = 0; peer < win->comm.nranks; peer++)
		moved += ori_signal_moved(win, peer, id);
	return moved;
}

/* Waits and writes the note, which has the beginning of the wait. */
ORIEL_DEV int ori_wait_sum_noted(const struct oriel_window_dev *win, struct oriel_group g, int id,
				 uint64_t value, struct ori_trace_note n)
{
	int err;

	n.op = ORIEL_GE;
	n.value = value;
	if (n.begin)
		n.base = ori_sum_moved(win, id);
	err = ori_wait_sum_group(win, g, id, value);
	ori_trace_end(&win->comm, g, n, err);
	return err;
}

/* As ori_watch_put(). */
ORIEL_DEV_OUT int ori_watch_sum(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				int id, uint64_t value)
{
	int err = ori_window_is_checked(win) ? ori_check_signals(win, g, "wait_signal", id) : 0;

	if (err || !ori_traced_beside(&win->comm))
		return err;
	err = ori_wait_sum_noted(win, g, id, value,
				 ori_trace_note_of(ORIEL_TRACE_WAIT_SUM,
						   ori_trace_begin(&win->comm, g), -1, id,
						   win->number));
	return err ? err : ORI_WATCHED;
}

ORIEL_DEV int oriel_wait_signal(const struct oriel_window_dev *win, struct oriel_group g, int id,
				uint64_t value)
{
	int err = ori_window_goes_beside(win) ? ori_watch_sum(win, g, id, value) : 0;

	if (err)
		return ori_watched_status(err);
	/* On a GPU it notes itself, as ori_put_noted(). */
	return ori_wait_sum_noted(win, g, id, value,
				  ori_trace_start(&win->comm, g, ORIEL_TRACE_WAIT_SUM, -1, id,
						  win->number));
}

ORIEL_DEV int oriel_reset_signal(const struct oriel_window_dev *win, struct oriel_group g, int id)
{
	int err = 0;
	int peer;

	if (ori_window_is_checked(win))
		err = ori_check_signals(win, g, "reset_signal", id);
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	for (peer = (int)g.thread; peer < win->comm.nranks; peer += (int)g.size) {
		uint64_t i = ori_signal_index(win, peer, id);

		ori_store_relaxed_sys(&win->signal_base[i], ori_signal_load(win, peer, id));
	}
	if (oriel_group_is_leader(g))
		ori_store_relaxed_sys(&win->signal_sum_base[id], 0);
	return ori_group_agree(g, 0);
}

/* One group at a time advances or resets an id, so a separate load and store are enough. */
ORIEL_DEV int ori_advance(const struct oriel_window_dev *win, struct oriel_group g, uint64_t *base,
			  uint64_t value)
{
	int err = ori_agree_window(win, g);

	if (err)
		return err;
	if (oriel_group_is_leader(g))
		ori_store_relaxed_sys(base, ori_load_relaxed_sys(base) + value);
	return ori_group_agree(g, 0);
}

ORIEL_DEV int oriel_signal_advance(const struct oriel_window_dev *win, struct oriel_group g, int id,
				   uint64_t value)
{
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_signals(win, g, "signal_advance", id);
	return err ? err : ori_advance(win, g, &win->signal_sum_base[id], value);
}

ORIEL_DEV int oriel_signal_advance_from(const struct oriel_window_dev *win, struct oriel_group g,
					int peer, int id, uint64_t value)
{
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_wait(win, g, "signal_advance_from", peer, id, ORIEL_EQ);
	return err ? err :
		     ori_advance(win, g, &win->signal_base[ori_signal_index(win, peer, id)], value);
}

#endif
