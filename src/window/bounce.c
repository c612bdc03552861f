/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/bounce.c - slots of registered memory between a queued peer and memory that no NIC knows:
 * the stack, constants, any array of the program.
 *
 * Owns the memory and the locks of the slots.  Does not post: that is bytes.c.  Called on any user
 * thread.
 */
#include <stdlib.h>

#include <oriel/device.h>

#include "../comm/memory.h"
#include "../comm/sources.h"
#include "bounce.h"

/* ---- making and ending ----------------------------------------------------------------------- */

static void free_bounce(struct oriel_window *w, struct ori_bounce *b)
{
	for (int i = 0; i < ORI_BOUNCE_SLOTS; i++)
		pthread_mutex_destroy(&b->slot[i].lock);
	ori_memory_unuse(w->comm, b->memory);
	free(b);
}

static int make(struct oriel_window *w, const char *call, struct ori_bounce **out)
{
	struct ori_bounce *b = calloc(1, sizeof(*b));
	size_t bytes = (size_t)ORI_BOUNCE_SLOTS * ORI_BOUNCE_BYTES;
	struct ori_memory *memory;
	int err;

	if (!b)
		return ori_fail(ORIEL_ENOMEM, "%s: no memory", call);
	err = ori_memory_alloc(w->comm, bytes, &memory);
	if (err) {
		free(b);
		return err;
	}
	memory->owned = 1;
	b->memory = ori_memory_use(w->comm, memory->allocation.base, bytes);
	for (int i = 0; i < ORI_BOUNCE_SLOTS; i++) {
		b->slot[i].source_off = (uint64_t)i * ORI_BOUNCE_BYTES;
		b->slot[i].memory = (uint8_t *)memory->allocation.base + b->slot[i].source_off;
		pthread_mutex_init(&b->slot[i].lock, NULL);
	}
	/* It ends with the other sources of the window. */
	err = ori_source_take(w->comm, &w->sources, memory->allocation.base, bytes, 1, &b->source);
	if (err) {
		free_bounce(w, b);
		return err;
	}
	*out = b;
	return 0;
}

/* Two threads may come first at the same time: one of them makes the slots. */
static int find_or_make(struct oriel_window *w, const char *call, struct ori_bounce **out)
{
	int err = 0;

	pthread_mutex_lock(&w->bounce_lock);
	if (!w->bounce)
		err = make(w, call, &w->bounce);
	*out = w->bounce;
	pthread_mutex_unlock(&w->bounce_lock);
	return err;
}

void ori_bounce_free(struct oriel_window *w)
{
	if (w->bounce)
		free_bounce(w, w->bounce);
	w->bounce = NULL;
}

/* ---- use ------------------------------------------------------------------------------------- */

int ori_bounce_take(struct oriel_window *w, const char *call, struct ori_bounce_slot **out,
		    const struct oriel_source **source)
{
	struct ori_bounce_slot *slot;
	struct ori_bounce *b;
	uint64_t turn;
	int err = find_or_make(w, call, &b);

	if (err)
		return err;
	/* relaxed: it only takes a number; the lock of the slot orders its use */
	turn = __atomic_fetch_add(&b->next, 1, __ATOMIC_RELAXED);
	slot = &b->slot[turn % ORI_BOUNCE_SLOTS];
	pthread_mutex_lock(&slot->lock);
	if (slot->posted)
		err = oriel_wait_local(&w->host_dev, oriel_group_thread(), &slot->ticket, 0);
	if (err) {
		pthread_mutex_unlock(&slot->lock);
		return err;
	}
	slot->posted = 0;
	*out = slot;
	*source = &b->source;
	return 0;
}

int ori_bounce_give(struct oriel_window *w, struct ori_bounce_slot *slot, struct oriel_group g,
		    int peer)
{
	int err = 0;

	if (peer >= 0) {
		err = oriel_take_ticket(&w->host_dev, g, peer, &slot->ticket);
		slot->posted = !err;
	}
	pthread_mutex_unlock(&slot->lock);
	return err;
}
