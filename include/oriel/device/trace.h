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
 * Calls that are tuned for latency come here only in windows with a bit in `checked`.  They test
 * that word anyway, so tracing costs them nothing while it is off (docs/decisions/0047).
 */
#ifndef ORIEL_DEVICE_TRACE_H
#define ORIEL_DEVICE_TRACE_H

#include "handle.h"

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

/* The beginning of a call: the leader's clock, 0 for the other threads and if nothing is traced. */
ORIEL_DEV uint64_t ori_trace_begin(const struct oriel_comm_dev *comm, struct oriel_group g)
{
	return ori_traced(comm) && oriel_group_is_leader(g) ? ori_trace_now() : 0;
}

/* An event before it is packed. */
struct ori_trace_note {
	uint64_t begin_ns, end_ns;
	int32_t kind, op, status;
	int32_t peer, id, window; /* < 0: none, or several peers */
	uint32_t block;
	uint32_t reserved;
	uint64_t bytes;
	uint64_t value; /* of a signal; what a wait wants; the count of a queue after a post */
	uint64_t base;  /* of a wait: the total at which its own count was 0 */
};

ORIEL_DEV struct ori_trace_note ori_trace_note_of(int kind, uint64_t begin_ns, int peer, int id,
						  int window)
{
	struct ori_trace_note n;

	n.begin_ns = begin_ns;
	n.end_ns = 0;
	n.kind = kind;
	n.op = 0;
	n.status = 0;
	n.peer = peer;
	n.id = id;
	n.window = window;
	n.block = 0;
	n.reserved = 0;
	n.bytes = 0;
	n.value = 0;
	n.base = 0;
	return n;
}

/* 32 bits of all words but the last half word; never 0. */
ORIEL_DEV uint32_t ori_trace_checksum(const uint64_t *word)
{
	uint64_t sum = word[7] & 0xffffffffu;
	int i;

	for (i = 0; i < 7; i++)
		sum = (sum << 13 | sum >> 51) ^ word[i];
	sum ^= sum >> 32;
	return (uint32_t)sum ? (uint32_t)sum : 1u;
}

/* Called by one thread.  The event ends now, unless the note says when. */
ORIEL_DEV_OUT void ori_trace_write(const struct oriel_trace_dev *t, ORI_VALUE(ori_trace_note) n)
{
	uint64_t place = ori_fetch_add_relaxed_dev(t->count, 1), word[8];
	int i;

	if (place >= t->capacity)
		return;
	word[0] = n.begin_ns;
	word[1] = n.end_ns ? n.end_ns : ori_trace_now();
	word[2] = (uint64_t)(uint32_t)n.peer | (uint64_t)(uint32_t)n.id << 32;
	word[3] = (uint64_t)(uint32_t)n.window | (uint64_t)n.block << 32;
	word[4] = n.bytes;
	word[5] = n.value;
	word[6] = n.base;
	word[7] = (uint64_t)(n.kind & 0xff) | (uint64_t)(n.op & 0xff) << 8 |
		  (uint64_t)(n.status & 0xffff) << 16;
	word[7] |= (uint64_t)ori_trace_checksum(word) << 32;
	for (i = 0; i < 8; i++)
		ori_store_relaxed_sys(&t->events[place].word[i], word[i]);
}

/* Called by any thread with what ori_trace_begin() gave it: the leader writes the note. */
ORIEL_DEV void ori_trace_end(const struct oriel_comm_dev *comm, struct oriel_group g,
			     struct ori_trace_note n, int status)
{
	if (!n.begin_ns)
		return;
	n.block = g.block;
	n.status = status;
	ORI_WATCH(ori_trace_write)(comm->trace, n);
}

/* A put with its signal, or a signal alone. */
ORIEL_DEV void ori_trace_transfer(const struct oriel_window_dev *win, struct oriel_group g,
				  struct ori_transfer t, uint64_t begin_ns, int status)
{
	struct ori_trace_note n = ori_trace_note_of(ORIEL_TRACE_PUT, begin_ns, t.peer, t.signal,
						    win->number);

	n.op = t.signal >= 0 ? t.op : 0;
	n.bytes = t.bytes;
	n.value = t.signal_value;
	ori_trace_end(&win->comm, g, n, status);
}

#endif
