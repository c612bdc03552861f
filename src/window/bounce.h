/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/bounce.h - registered memory through which a window moves data of any other memory to and
 * from queued peers (bounce.c).
 *
 * A window makes its slots at the first such transfer.  Each transfer takes the next slot in turn,
 * so several are in flight.  The slot's lock is held from the copy to the post.  A slot that a NIC
 * may still read is waited for before its next use.
 */
#ifndef ORI_WINDOW_BOUNCE_H
#define ORI_WINDOW_BOUNCE_H

#include "window.h"

#define ORI_BOUNCE_SLOTS 16
#define ORI_BOUNCE_BYTES 65536 /* of a slot */

struct ori_bounce_slot {
	pthread_mutex_t lock;
	uint8_t *memory;
	uint64_t source_off;        /* of `memory` in the source of all slots */
	int posted;                 /* a NIC may read the slot until `ticket` is complete */
	struct oriel_ticket ticket; /* of the last post */
};

struct ori_bounce {
	struct ori_memory *memory;
	struct oriel_source source;
	uint64_t next; /* atomic: slots handed out; runs for ever */
	struct ori_bounce_slot slot[ORI_BOUNCE_SLOTS];
};

/*
 * Locks the next slot, whose memory may then be written.  *source is that of all slots.  Waits for
 * the last post of the slot, up to the comm's deadline.
 */
int ori_bounce_take(struct oriel_window *, const char *call, struct ori_bounce_slot **,
		    const struct oriel_source **source);
/*
 * Unlocks the slot.  peer >= 0: a NIC may read the slot for what block `g.block` has posted to that
 * peer.
 */
int ori_bounce_give(struct oriel_window *, struct ori_bounce_slot *, struct oriel_group g,
		    int peer);
/* The window ends: its operations are complete, or it has failed. */
void ori_bounce_free(struct oriel_window *);

#endif
