/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/speaker.c - a thread that reports late waits for kernels of a separate device.
 *
 * A kernel cannot log and cannot be woken.  Its waits write what they wait for on this rank's
 * board, and read a failure word in device memory.  The thread reads the board and logs which rank
 * is late.  It also copies a failure from the host's word, which other ranks write, to the device's
 * word.
 *
 * Only comms on a separate device have such a thread.
 */
#include <stdlib.h>

#include "../diag/diag.h"
#include "control.h"
#include "failure.h"
#include "object.h"
#include "speaker.h"

#define LOOK_NS 20000000ull

struct ori_speaker {
	struct oriel_comm *comm;
	pthread_t thread;
	uint32_t stop; /* futex word */
	int told;      /* the device knows of the failure */
	struct seen {
		uint64_t since; /* since_ns of the slot: another value is another wait */
		uint64_t first_ns, next_ns;
		int told; /* the graph has been printed: the kernel is about to give up */
	} seen[ORIEL_BOARD_SLOTS];
};

static void look_at_slot(struct ori_speaker *w, int n, uint64_t now)
{
	struct oriel_comm *c = w->comm;
	struct seen *seen = &w->seen[n];
	uint64_t late = c->dev.late_ns < c->timeout_ns / 2 ? c->dev.late_ns : c->timeout_ns / 2;
	struct oriel_board_slot slot;

	if (!ori_board_read(&c->control->board, n, &slot)) {
		seen->since = 0;
		return;
	}
	if (seen->since != slot.since_ns) {
		seen->since = slot.since_ns;
		seen->first_ns = now;
		seen->next_ns = now + late;
		seen->told = 0;
	}
	/* A kernel cannot print when it gives up, and its slot is empty then. */
	if (!seen->told && now - seen->first_ns > c->timeout_ns / 2 &&
	    now - seen->first_ns + 3 * LOOK_NS > c->timeout_ns) {
		seen->told = 1;
		ori_doctor_deadline(&c->control->board);
	}
	if (now < seen->next_ns)
		return;
	ori_diag_late_slot(&slot, c->rank, &c->control->board,
			   slot.peer >= 0 && slot.peer < c->nranks ? c->dev_peers[slot.peer].board :
								     NULL,
			   now - seen->first_ns);
	seen->next_ns = now + late;
}

static void *watch_main(void *arg)
{
	struct ori_speaker *w = arg;
	struct oriel_comm *c = w->comm;

	ori_log_rank_set(c->rank);
	/* relaxed: nothing is read because of the word; pthread_join() orders the end */
	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		uint64_t now = ori_now_ns();

		if (!w->told && ori_comm_has_failed(c)) {
			ori_comm_tell_device(c);
			w->told = 1;
		}
		for (int n = 0; n < ORIEL_BOARD_SLOTS; n++)
			look_at_slot(w, n, now);
		ori_futex_wait(&w->stop, 0, LOOK_NS);
	}
	return NULL;
}

int ori_speaker_start(struct oriel_comm *c)
{
	struct ori_speaker *w;

	if (!c->device->separate)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return ori_fail(ORIEL_ENOMEM, "no memory for the watch over kernels");
	w->comm = c;
	if (pthread_create(&w->thread, NULL, watch_main, w)) {
		free(w);
		return ori_fail(ORIEL_ENOMEM, "cannot start the thread that watches kernels");
	}
	c->watch = w;
	return 0;
}

void ori_speaker_stop(struct oriel_comm *c)
{
	struct ori_speaker *w = c->watch;

	if (!w)
		return;
	__atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED); /* see watch_main() */
	ori_futex_wake_all(&w->stop);
	pthread_join(w->thread, NULL);
	free(w);
	c->watch = NULL;
}
