/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/put.h - bodies of device.h: the put family.
 *
 * Every put takes the same steps.  It tests the arguments (checked windows) and moves the data.
 * Then the group agrees on the failure words that its leader saw.  Only then the put publishes.  So
 * a put on a failed window publishes nothing, and all threads return the same status.
 *
 * The fast path is inlined and tuned for latency.  It serves mapped peers with atomics whose entry
 * is inside the handle.  All other paths are called.
 */
#ifndef ORIEL_DEVICE_PUT_H
#define ORIEL_DEVICE_PUT_H

#include "check.h"
#include "turn.h"
#include "window_queued.h"

/* ---- after the data: signal and count -------------------------------------------------------- */

/* Called by one thread after its group met: ORIEL_ADD on a mapped peer without atomics. */
ORIEL_DEV_OUT void ori_signal_in_turn(const struct oriel_window_dev *win, int peer, int id,
				      uint64_t value)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, peer);
	uint64_t i = (uint64_t)(uint32_t)peer * win->signal_stride + (uint32_t)id;

	ori_add_in_turn(&win->comm, win->failure, win->number, &win->signal_turns[i],
			&p->signals[id], value, p->waiters);
}

/* Called by one thread: counts one completion of an operation to `peer`. */
ORIEL_DEV void ori_count(const struct oriel_window_dev *win, int peer, int counter)
{
	/* [SIG1] inside; partner [SIG4].  After this count the source may be written again. */
	ori_word_signal(ori_counter_word(win, peer, 0, counter), ORIEL_ADD, 1, win->comm.waiters);
}

/* ---- the put itself -------------------------------------------------------------------------- */

/*
 * On a GPU the first warp alone moves a few bytes.  The other warps of the block go directly to the
 * meeting.  Otherwise the meeting would wait for the slowest of all warps.  Not in windows with
 * peers that are queued or without atomics, because the whole group takes part in those puts.
 */
ORIEL_DEV int ori_put_is_few(const struct oriel_window_dev *win, struct oriel_group g,
			     uint64_t bytes)
{
	return ORIEL_ON_GPU && g.scope == ORIEL_GROUP_BLOCK && bytes < 64 &&
	       !(win->queued_peers | win->comm.flags);
}

/*
 * A put to a peer that is queued or has no atomics.  Called, not inlined, so that others pay
 * nothing.
 */
ORIEL_DEV_OUT int ori_put_not_plain(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    ORI_VALUE(ori_transfer) t)
{
	struct oriel_window_peer p = *ori_peer_entry(win, t.peer);
	int err;

	if (!ori_peer_is_mapped(&p))
		return ori_put_queued(win, g, t);
	if (t.bytes)
		ori_group_copy(g, p.buffer + t.offset, ori_transfer_local(t), t.bytes);
	err = ori_agree_window(win, g);
	if (err || !oriel_group_is_leader(g))
		return err;
	if (t.signal >= 0 && t.op == ORIEL_ADD)
		ori_signal_in_turn(win, t.peer, t.signal, t.signal_value);
	else if (t.signal >= 0)
		ori_word_signal(&p.signals[t.signal], t.op, win->first_count + t.signal_value,
				p.waiters);
	if (t.counter >= 0)
		ori_count(win, t.peer, t.counter);
	return 0;
}

/* The state of a put after its data is moved, for the steps after the meeting. */
struct ori_put_end {
	struct ori_failures look;
	uint64_t *word; /* the leader's: ori_release_at() of the signal word */
	struct oriel_waiters *waiters;
};

/* Moves the data to a plain peer.  Returns 0 if the peer is not plain; then nothing was moved. */
ORIEL_DEV int ori_put_move(const struct oriel_window_dev *win, struct oriel_group g,
			   const struct oriel_window_peer *entry, struct ori_transfer t, int few,
			   struct ori_put_end *end)
{
	struct oriel_window_peer p = *entry;
	struct ori_early early = { 0, 0 };
	struct oriel_group movers = g;

	if (few && g.size > 32u)
		movers.size = 32u;
	end->waiters = p.waiters;
	/* Both loads run while the following code executes; `look` is needed last. */
	if (ORIEL_ON_GPU && t.bytes)
		early = ori_copy_early(movers, t.local->address + t.local_off, t.bytes);
	if (oriel_group_is_leader(g))
		end->look = ori_failures_of_window(win);
	if (!few && !ori_peer_is_plain(&p))
		return 0;
	/*
	 * On CPUs the line of the signal is not fetched ahead: the receiver polls it, and would
	 * take it back before the copy ends.
	 */
	if (t.signal >= 0 && oriel_group_is_leader(g))
		end->word = ori_release_at(&p.signals[t.signal]);
	if (t.bytes && !ori_copy_late(movers, early, p.buffer + t.offset, t.bytes))
		ori_group_copy(movers, p.buffer + t.offset, ori_transfer_local(t), t.bytes);
	return 1;
}

/*
 * The put family, given the peer's entry.  The compiler removes parts that a call does not use.
 * moved: NULL, or the trace's time of the moment before the leader publishes.  The time is read
 * while the stores of the copy leave the core, so it costs nothing there.
 */
ORIEL_DEV int ori_put_entry(const struct oriel_window_dev *win, struct oriel_group g,
			    const struct oriel_window_peer *entry, struct ori_transfer t,
			    uint64_t *moved)
{
	struct ori_put_end end = { { 0, 0 }, NULL, NULL };
	int few = ori_put_is_few(win, g, t.bytes), err;

	if ((!few || g.thread < 32u) && !ori_put_move(win, g, entry, t, few, &end))
		return ori_put_not_plain(win, g, ori_transfer_out(t));
	/* One thread: [SIG1] begins before the failure words are loaded, see mapped.h. */
	if (t.signal >= 0 && g.scope == ORIEL_GROUP_THREAD)
		ori_release_begin();
	err = ori_group_agree_failures(g, end.look);
	if (err || !oriel_group_is_leader(g))
		return err;
	if (moved)
		*moved = ori_trace_time(win->comm.trace);
	if (t.signal >= 0) {
		/*
		 * [SIG1] release, system scope; partners [SIG2] and [SIG3].  Publishes the bytes
		 * that all threads of the group copied before they met [GROUP1].  Without it the
		 * peer finds the signal and reads the old bytes of its buffer.
		 */
		if (g.scope != ORIEL_GROUP_THREAD)
			ori_release_begin();
		ori_publish(end.word, t.op,
			    t.op == ORIEL_SET ? win->first_count + t.signal_value : t.signal_value,
			    end.waiters);
	}
	if (t.counter >= 0)
		ori_count(win, t.peer, t.counter);
	return 0;
}

ORIEL_DEV_OUT int ori_put_beyond(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				 ORI_VALUE(ori_transfer) t)
{
	return ori_put_entry(win, g, &win->peers[t.peer], t, NULL);
}

/*
 * Entries inside the handle are constants for a GPU.  Loads of other entries would share a
 * scoreboard with the loads of the data and wait for them.  So puts to those peers are called, not
 * inlined.
 */
ORIEL_DEV int ori_put_bytes(const struct oriel_window_dev *win, struct oriel_group g,
			    struct ori_transfer t, uint64_t *moved)
{
	if (ORIEL_ON_GPU && t.peer >= ORIEL_INLINE_PEERS)
		return ori_put_beyond(win, g, ori_transfer_out(t));
	return ori_put_entry(win, g,
			     ORIEL_ON_GPU ? &win->inline_peers[t.peer] :
					    ori_peer_entry(win, t.peer),
			     t, moved);
}

ORIEL_DEV int ori_put_value(const struct oriel_window_dev *win, struct oriel_group g,
			    struct ori_transfer t)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, t.peer);

	if (!ori_peer_is_mapped(p))
		return ori_put_queued(win, g, t);
	if (oriel_group_is_leader(g))
		memcpy(p->buffer + t.offset, t.value, ori_seen_bytes(t.bytes));
	return ori_agree_window(win, g);
}

/*
 * A put in a window that is checked or traced.  A checked one tests its arguments.  On a CPU a
 * traced one makes the whole put here and returns ORI_WATCHED: the fast path has no code for it.
 */
ORIEL_DEV_OUT int ori_watch_put(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				const char *call, ORI_VALUE(ori_transfer) t, int with_signal,
				int with_counter)
{
	int err = ori_window_is_checked(win) ?
			  ori_check_put(win, g, call, t, with_signal, with_counter) :
			  0;
	struct ori_trace_note n;
	uint64_t moved = 0;

	if (err || !ori_traced_beside(&win->comm))
		return err;
	n = ori_trace_note_of(ORIEL_TRACE_PUT, ori_trace_begin(&win->comm, g), t.peer, t.signal,
			      win->number);
	err = ori_put_bytes(win, g, t, &moved);
	ori_trace_transfer(win, g, t, n, moved, err);
	return err ? err : ORI_WATCHED;
}

ORIEL_DEV_OUT int ori_watch_value(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  ORI_VALUE(ori_transfer) t)
{
	int err = ori_window_is_checked(win) ?
			  ori_check_value(win, g, "put_value", t.peer, t.offset, t.bytes) :
			  0;
	struct ori_trace_note n;

	if (err || !ori_traced_beside(&win->comm))
		return err;
	n = ori_trace_note_of(ORIEL_TRACE_PUT, ori_trace_begin(&win->comm, g), t.peer, t.signal,
			      win->number);
	err = ori_put_value(win, g, t);
	ori_trace_transfer(win, g, t, n, 0, err);
	return err ? err : ORI_WATCHED;
}

/* The fast paths.  On a GPU they note themselves; on a CPU the note is empty. */
ORIEL_DEV int ori_put_noted(const struct oriel_window_dev *win, struct oriel_group g,
			    struct ori_transfer t)
{
	struct ori_trace_note n = ori_trace_start(&win->comm, g, ORIEL_TRACE_PUT, t.peer, t.signal,
						  win->number);
	int err = ori_put_bytes(win, g, t, NULL);

	/* It ends here, after its signal: to read the time before that would delay the signal. */
	ori_trace_transfer(win, g, t, n, 0, err);
	return err;
}

ORIEL_DEV int ori_put_value_noted(const struct oriel_window_dev *win, struct oriel_group g,
				  struct ori_transfer t)
{
	struct ori_trace_note n = ori_trace_start(&win->comm, g, ORIEL_TRACE_PUT, t.peer, t.signal,
						  win->number);
	int err = ori_put_value(win, g, t);

	ori_trace_transfer(win, g, t, n, 0, err);
	return err;
}

/* ---- public ---------------------------------------------------------------------------------- */

ORIEL_DEV int oriel_put(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			uint64_t dst_off, const struct oriel_source *src, uint64_t src_off,
			uint64_t bytes)
{
	struct ori_transfer t = ori_transfer_of(peer, dst_off, src, src_off, bytes);
	int err = ori_window_goes_beside(win) ?
			  ori_watch_put(win, g, "put", ori_transfer_out(t), 0, 0) :
			  0;

	return err ? ori_watched_status(err) : ori_put_noted(win, g, t);
}

ORIEL_DEV int oriel_put_signal(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			       uint64_t dst_off, const struct oriel_source *src, uint64_t src_off,
			       uint64_t bytes, int signal, int op, uint64_t value)
{
	struct ori_transfer t = ori_transfer_of(peer, dst_off, src, src_off, bytes);
	int err;

	t = ori_transfer_signal(t, signal, op, value);
	err = ori_window_goes_beside(win) ?
		      ori_watch_put(win, g, "put_signal", ori_transfer_out(t), 1, 0) :
		      0;
	return err ? ori_watched_status(err) : ori_put_noted(win, g, t);
}

ORIEL_DEV int oriel_put_counter(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				uint64_t dst_off, const struct oriel_source *src, uint64_t src_off,
				uint64_t bytes, int counter)
{
	struct ori_transfer t = ori_transfer_of(peer, dst_off, src, src_off, bytes);
	int err;

	t.counter = counter;
	err = ori_window_goes_beside(win) ?
		      ori_watch_put(win, g, "put_counter", ori_transfer_out(t), 0, 1) :
		      0;
	return err ? ori_watched_status(err) : ori_put_noted(win, g, t);
}

ORIEL_DEV int oriel_put_signal_counter(const struct oriel_window_dev *win, struct oriel_group g,
				       int peer, uint64_t dst_off, const struct oriel_source *src,
				       uint64_t src_off, uint64_t bytes, int signal, int op,
				       uint64_t value, int counter)
{
	struct ori_transfer t = ori_transfer_of(peer, dst_off, src, src_off, bytes);
	int err;

	t = ori_transfer_signal(t, signal, op, value);
	t.counter = counter;
	err = ori_window_goes_beside(win) ?
		      ori_watch_put(win, g, "put_signal_counter", ori_transfer_out(t), 1, 1) :
		      0;
	return err ? ori_watched_status(err) : ori_put_noted(win, g, t);
}

ORIEL_DEV int oriel_put_value(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			      uint64_t dst_off, const void *value, uint64_t bytes)
{
	struct ori_transfer t = ori_transfer_of(peer, dst_off, NULL, 0, bytes);
	int err;

	t.value = value;
	err = ori_window_goes_beside(win) ? ori_watch_value(win, g, ori_transfer_out(t)) : 0;
	return err ? ori_watched_status(err) : ori_put_value_noted(win, g, t);
}

#endif
