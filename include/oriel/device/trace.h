/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/trace.h - notes what a call did, for ORIEL_TRACE (docs/tracing.md).
 *
 * The leader of a group notes a call after it ended.  An event is eight words.  Writers take
 * numbers from one count per rank and never wait.  Each event has its own place, so no event
 * replaces another.  When all places are taken, further events are only counted.
 *
 * All accesses are relaxed.  The last word has a checksum of the others, so a reader recognises an
 * event that is not complete yet.  A release would cost a GPU 0.5 us per event.
 *
 * On a CPU, calls that are tuned for latency come here only in windows with a bit in `checked`.
 * They test that word anyway, so tracing costs them nothing while it is off (docs/decisions/0047).
 * On a GPU they note themselves: ori_trace_start() before the call, ori_trace_end() after it.  The
 * number of the event is taken at the beginning.  It arrives while the call runs, so that nothing
 * waits for memory at its end (docs/decisions/0060).
 */
#ifndef ORIEL_DEVICE_TRACE_H
#define ORIEL_DEVICE_TRACE_H

#include "handle.h"

/* How many places ahead a writer fetches: the time of a few calls hides that of a cache miss. */
#define ORI_TRACE_AHEAD 6

/* What ori_watch_...() returns if it made the whole call: neither 0 nor a status. */
#define ORI_WATCHED 1

/* The status of a call whose ori_watch_...() did not return 0. */
ORIEL_DEV int ori_watched_status(int err)
{
	return err < 0 ? err : 0;
}

ORIEL_DEV int ori_traced(const struct oriel_comm_dev *comm)
{
	return ORIEL_TRACES && comm->trace != NULL;
}

/* Is this call noted by a function beside its fast path? */
ORIEL_DEV int ori_traced_beside(const struct oriel_comm_dev *comm)
{
	return ORI_TRACES_BESIDE && ori_traced(comm);
}

/* The clock of this device's events: CLOCK_MONOTONIC, or the GPU's globaltimer. */
ORIEL_DEV uint64_t ori_trace_now(void)
{
	uint64_t now;

#if ORIEL_ON_GPU
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#else
	now = oriel_cpu_now_ns();
#endif
	return now;
}

/* When a call begins, or is about to publish: in ticks, if the trace has them. */
ORIEL_DEV uint64_t ori_trace_time(const struct oriel_trace_dev *t)
{
	return !ORIEL_ON_GPU && t->ticks ? ori_ticks() : ori_trace_now();
}

/*
 * When a call ends.  The word that ended a wait is loaded before the time is read.  Otherwise the
 * wait could seem to end before its signal was sent.
 */
ORIEL_DEV uint64_t ori_trace_time_late(const struct oriel_trace_dev *t)
{
	ori_ticks_after_loads();
	return ori_trace_time(t);
}

/* The beginning of a call: the leader's time, 0 for the other threads and if nothing is traced. */
ORIEL_DEV uint64_t ori_trace_begin(const struct oriel_comm_dev *comm, struct oriel_group g)
{
	return ori_traced(comm) && oriel_group_is_leader(g) ? ori_trace_time(comm->trace) : 0;
}

/* An event before it is packed. */
struct ori_trace_note {
	uint64_t begin, end;
	int32_t kind, op, status;
	int32_t peer, id, window; /* < 0: none, or several peers */
	uint32_t block;
	uint32_t ticks; /* not 0: begin and end are ticks */
	uint64_t bytes;
	uint64_t value; /* of a signal; what a wait wants; the count of a queue after a post */
	uint64_t base;  /* of a wait: the total at which its own count was 0 */
	uint64_t place; /* the number of the event, or ORI_TRACE_NO_PLACE: taken at the end */
};

#define ORI_TRACE_NO_PLACE UINT64_MAX

ORIEL_DEV struct ori_trace_note ori_trace_note_of(int kind, uint64_t begin, int peer, int id,
						  int window)
{
	struct ori_trace_note n;

	n.begin = begin;
	n.end = 0;
	n.kind = kind;
	n.op = 0;
	n.status = 0;
	n.peer = peer;
	n.id = id;
	n.window = window;
	n.block = 0;
	n.ticks = 0;
	n.bytes = 0;
	n.value = 0;
	n.base = 0;
	n.place = ORI_TRACE_NO_PLACE;
	return n;
}

/*
 * A note for the fast path of a GPU; ori_trace_end() writes it.  Without a trace, in all threads
 * but the leader, and on a CPU its beginning is 0, and so it is never written.
 */
ORIEL_DEV struct ori_trace_note ori_trace_start(const struct oriel_comm_dev *comm,
						struct oriel_group g, int kind, int peer, int id,
						int window)
{
	uint64_t begin = ORI_TRACES_BESIDE ? 0 : ori_trace_begin(comm, g);
	struct ori_trace_note n = ori_trace_note_of(kind, begin, peer, id, window);

	if (begin)
		n.place = ori_fetch_add_relaxed_dev(comm->trace->count, 1);
	return n;
}

/* The checksum with word i of the event.  It begins with the lower half of the last word. */
ORIEL_DEV uint64_t ori_trace_mix(uint64_t sum, int i, uint64_t word)
{
	return sum ^ (word << (7 * i + 3) | word >> (61 - 7 * i));
}

/* The upper half of the last word: never 0, so a place that was never written has no event. */
ORIEL_DEV uint64_t ori_trace_seal(uint64_t sum)
{
	uint32_t half = (uint32_t)(sum ^ sum >> 32);

	return (uint64_t)(half ? half : 1u) << 32;
}

/* Stores words i and i + 1 of an event and returns the checksum after them. */
ORIEL_DEV uint64_t ori_trace_store(struct oriel_trace_event *e, int i, uint64_t word, uint64_t next,
				   uint64_t sum)
{
	ori_store_pair_relaxed_sys(&e->word[i], word, next);
	return ori_trace_mix(ori_trace_mix(sum, i, word), i + 1, next);
}

/* Called by one thread. */
ORIEL_DEV void ori_trace_write_here(const struct oriel_trace_dev *t, struct ori_trace_note n)
{
	uint64_t place = n.place, last, sum;
	struct oriel_trace_event *e;

	if (place == ORI_TRACE_NO_PLACE)
		place = ori_fetch_add_relaxed_dev(t->count, 1);
	if (place >= t->capacity)
		return;
	e = &t->events[place];
	/* A store that misses its line would hold up the stores of the next copy. */
	if (place + ORI_TRACE_AHEAD < t->capacity)
		ori_prefetch_for_write(e + ORI_TRACE_AHEAD);
	last = (uint64_t)(n.kind | (n.ticks ? ORIEL_TRACE_TICKS : 0)) |
	       (uint64_t)(n.op & 0xff) << 8 | (uint64_t)(n.status & 0xffff) << 16;
	sum = ori_trace_store(e, 0, n.begin, n.end, last);
	sum = ori_trace_store(e, 2, (uint32_t)n.peer | (uint64_t)(uint32_t)n.id << 32,
			      (uint32_t)n.window | (uint64_t)n.block << 32, sum);
	sum = ori_trace_store(e, 4, n.bytes, n.value, sum);
	sum = ori_trace_mix(sum, 6, n.base);
	ori_store_pair_relaxed_sys(&e->word[6], n.base, last | ori_trace_seal(sum));
}

ORIEL_DEV_OUT void ori_trace_write(const struct oriel_trace_dev *t, ORI_VALUE(ori_trace_note) n)
{
	ori_trace_write_here(t, n);
}

/* What all notes of calls have. */
ORIEL_DEV struct ori_trace_note ori_trace_ended(const struct oriel_trace_dev *t,
						struct oriel_group g, struct ori_trace_note n,
						int status)
{
	n.block = g.block;
	n.status = status;
	n.ticks = !ORIEL_ON_GPU && t->ticks;
	if (!n.end)
		n.end = ori_trace_time_late(t);
	return n;
}

/*
 * Called by any thread with what ori_trace_begin() gave it: the leader writes the note.  The call
 * ends now, unless the note says when.
 */
ORIEL_DEV void ori_trace_end(const struct oriel_comm_dev *comm, struct oriel_group g,
			     struct ori_trace_note n, int status)
{
	if (!n.begin)
		return;
	n = ori_trace_ended(comm->trace, g, n, status);
	if (ORIEL_ON_GPU)
		ori_trace_write_here(comm->trace, n);
	else
		ori_trace_write(comm->trace, n);
}

/*
 * The same in a function that is called only if something is traced.  On a CPU the note then stays
 * in registers.
 */
ORIEL_DEV void ori_trace_end_here(const struct oriel_comm_dev *comm, struct oriel_group g,
				  struct ori_trace_note n, int status)
{
	if (ORIEL_ON_GPU)
		ori_trace_end(comm, g, n, status);
	else if (n.begin)
		ori_trace_write_here(comm->trace, ori_trace_ended(comm->trace, g, n, status));
}

/*
 * A put, with its signal if it has one; n has its beginning.  moved: when all bytes were there, or
 * 0: now.
 */
ORIEL_DEV void ori_trace_transfer(const struct oriel_window_dev *win, struct oriel_group g,
				  struct ori_transfer t, struct ori_trace_note n, uint64_t moved,
				  int status)
{
	n.end = moved;
	n.op = t.signal >= 0 ? t.op : 0;
	n.bytes = t.bytes;
	n.value = t.signal_value;
	ori_trace_end_here(&win->comm, g, n, status);
}

#endif
