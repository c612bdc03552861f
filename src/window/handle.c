/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/handle.c - fills a window's control memory, its table of peers and its device handle.
 *
 * It decides nothing: it only turns offsets into pointers.
 */
#include <pthread.h>
#include <string.h>

#include <oriel/device.h>

#include "../comm/control.h"
#include "../comm/failure.h"
#include "../comm/links.h"
#include "../comm/sources.h"
#include "window.h"

/* An address in this rank's control memory: the device's half. */
static void *own(struct oriel_window *w, uint64_t offset)
{
	return ori_control_near(w->comm, w->control_offset + offset);
}

/* The same in the host's half. */
static void *own_host(struct oriel_window *w, uint64_t offset)
{
	return ori_control_host(w->comm, w->control_offset + offset);
}

static void fill(struct oriel_window *w, uint64_t offset, uint64_t words, uint64_t value)
{
	uint64_t *word = own_host(w, offset);

	for (uint64_t i = 0; value && i < words; i++)
		word[i] = value;
}

/* All counts of all boxes.  Cells and slots stay zeros, which are no mark. */
static void init_boxes(struct oriel_window *w, uint64_t first)
{
	uint64_t n = (uint64_t)w->comm->nranks * w->options.boxes;

	for (uint64_t i = 0; first && i < n; i++) {
		struct oriel_box *box = own_host(w, w->layout.boxes + i * w->layout.box.stride);

		box->credit = box->sent = box->freed = box->taken = box->returned = first;
	}
}

/*
 * The host half starts as zeros.  Words are set there and copied to the device's half before any
 * peer knows of them.  A word set after the exchange could erase the first signal of a fast peer.
 */
int ori_window_control_init(struct oriel_window *w, uint64_t generation)
{
	const struct ori_window_layout *l = &w->layout;
	const struct oriel_window_options *o = &w->options;
	struct ori_window_header *header = own_host(w, l->header);
	uint64_t n = (uint64_t)w->comm->nranks, first = o->first_count;
	uint64_t channels = o->staging_slot_bytes ? n * o->staging_channels : 0;

	/* the words of several NICs are summed, so only the first NIC's word starts at `first` */
	fill(w, l->signal_words, n * l->signal_stride, first);
	fill(w, l->signal_base, n * l->signal_stride, first);
	/* a counter is the sum over its lanes; the first lane's word starts at `first` */
	for (uint64_t r = 0; r < n; r++)
		fill(w, l->counter_words + r * l->counter_lanes * l->counter_stride * 8,
		     l->counter_stride, first);
	fill(w, l->counter_base, n * l->counter_stride, first);
	fill(w, l->arrival_words, n * l->barrier_stride, first);
	fill(w, l->arrival_sent, n * l->barrier_stride, first);
	fill(w, l->grids, o->barriers * (sizeof(struct oriel_grid) / 8), first);
	if (w->comm->links)
		fill(w, l->signal_totals, n * l->signal_stride, first);
	for (uint64_t i = 0; l->has_turns && i < n * l->signal_stride; i++)
		((struct oriel_turn *)own_host(w, l->signal_turns))[i].total = first;
	fill(w, l->staging_words, channels * ori_staging_row_words(o->staging_depth), first);
	fill(w, l->staging_free, channels * ORI_STAGING_LINE_WORDS, first);
	fill(w, l->staging_cursors, channels * ORI_STAGING_LINE_WORDS, first);
	init_boxes(w, first);
	header->failure = 0;
	/*
	 * [WIN1] release, system scope; partner [CHECK1] in ori_check_live().  Publishes the words
	 * set above to a checked call that finds this generation.  A user may pass the handle to a
	 * thread by a relaxed store.  Without [WIN1] that thread could find the window alive but
	 * read words that are not set yet.
	 */
	__atomic_store_n(&header->generation, generation, __ATOMIC_RELEASE);
	return ori_control_mirror(w->comm, w->control_offset, l->bytes);
}

/* `control_offset` is the window's offset in that rank's slab. */
void ori_window_peer_fill(struct oriel_window *w, int rank, uint64_t control_offset, void *buffer)
{
	const struct ori_window_layout *l = &w->layout;
	const struct oriel_window_options *o = &w->options;
	struct ori_peer *peer = &w->comm->peers[rank];
	struct oriel_window_peer *p = &w->peers[rank];
	char *base = (char *)peer->near_base + control_offset;
	uint64_t me = (uint64_t)w->comm->rank, row = me * o->staging_channels;

	p->kind = peer->pair.kind;
	p->flags = peer->pair.flags;
	p->buffer = buffer;
	p->signals = (uint64_t *)(void *)(base + l->signal_words) + me * l->signal_stride;
	p->arrivals = (uint64_t *)(void *)(base + l->arrival_words) + me * l->barrier_stride;
	p->waiters = ori_peer_waiters(w->comm, rank);
	p->failure = &((struct ori_window_header *)(void *)(base + l->header))->failure;
	p->staging = (uint8_t *)base + l->staging + row * o->staging_depth * o->staging_slot_bytes;
	p->staging_words = (uint64_t *)(void *)(base + l->staging_words) +
			   row * ori_staging_row_words(o->staging_depth);
	p->staging_free = (uint64_t *)(void *)(base + l->staging_free) +
			  row * ORI_STAGING_LINE_WORDS;
}

/* Offsets of this rank's rows in the peer's control memory, which has the same layout as ours. */
void ori_window_link_fill(struct oriel_window *w, int rank, const uint32_t *control_key,
			  const uint32_t *buffer_key, uint64_t buffer_address)
{
	const struct ori_window_layout *l = &w->layout;
	const struct oriel_window_options *o = &w->options;
	struct oriel_window_link *link = &w->links[rank];
	uint64_t me = (uint64_t)w->comm->rank, row = me * o->staging_channels;

	w->peers[rank].kind = ORIEL_PEER_QUEUED;
	w->peers[rank].link = link;
	link->link = ori_link_to(w->comm, rank);
	link->buffer_skew = buffer_address & ORI_IOVA_MASK;
	memcpy(link->control_key, control_key, sizeof(link->control_key));
	memcpy(link->buffer_key, buffer_key, sizeof(link->buffer_key));
	link->signals = l->signal_words + me * l->signal_stride * 8;
	link->arrivals = l->arrival_words + me * l->barrier_stride * 8;
	link->staging = l->staging + row * o->staging_depth * o->staging_slot_bytes;
	link->staging_words = l->staging_words + row * ori_staging_row_words(o->staging_depth) * 8;
	link->staging_free = l->staging_free + row * ORIEL_LINE_BYTES;
}

static void build_arrays(struct oriel_window *w, struct oriel_window_dev *d)
{
	const struct ori_window_layout *l = &w->layout;
	struct ori_window_header *header = own(w, l->header), *host = own_host(w, l->header);

	d->failure = &header->failure;
	w->child.number = w->number;
	w->child.failure = d->failure;
	d->generation_word = &header->generation;
	d->generation = host->generation;
	d->signal_stride = l->signal_stride;
	d->counter_stride = l->counter_stride;
	d->barrier_stride = l->barrier_stride;
	d->signal_words = own(w, l->signal_words);
	d->signal_base = own(w, l->signal_base);
	d->signal_sum_base = own(w, l->signal_sum_base);
	d->counter_words = own(w, l->counter_words);
	d->counter_base = own(w, l->counter_base);
	d->arrival_words = own(w, l->arrival_words);
	d->arrival_sent = own(w, l->arrival_sent);
	d->barrier_users = own(w, l->barrier_users);
	d->grids = own(w, l->grids);
	d->signal_ops = own(w, l->signal_ops);
	d->staging_words = own(w, l->staging_words);
	d->staging_free = own(w, l->staging_free);
	d->staging_cursors = own(w, l->staging_cursors);
	d->staging = own(w, l->staging);
	d->signal_totals = own(w, l->signal_totals);
	d->staging_posted = own(w, l->staging_posted);
	d->staging_out = own(w, l->staging_out);
	d->signal_turns = l->has_turns ? own(w, l->signal_turns) : NULL;
	d->control = own(w, 0);
	d->counter_lanes = l->counter_lanes;
	d->word_nics = l->word_nics;
	memcpy(d->control_key, w->control_key, sizeof(d->control_key));
}

/*
 * Cells need indivisible stores to every mapped peer, and both ends must agree.  All ranks know all
 * facts, so the whole comm uses cells or slots.
 */
static void build_boxes(struct oriel_window *w, struct oriel_window_dev *d)
{
	const struct ori_window_layout *l = &w->layout;
	uint64_t me = (uint64_t)w->comm->rank, row = me * w->options.boxes * l->box.stride;

	d->boxes = w->options.boxes;
	if (!d->boxes)
		return;
	d->box_memory = own(w, l->boxes);
	d->box_shift = (int64_t)(l->boxes + row) -
		       (int64_t)(l->signal_words + me * l->signal_stride * 8);
	d->box_bytes = w->options.box_bytes;
	d->box_stride = (uint32_t)l->box.stride;
	d->box_marked = w->comm->device->separate && !l->has_turns;
	d->cell_mask = (uint32_t)l->box.cells - 1;
	d->cell_laps = (uint32_t)__builtin_ctzll(l->box.cells);
	d->slot_bytes = (uint32_t)l->box.slot_bytes;
	d->slot_mask = (uint32_t)l->box.slots - 1;
}

/*
 * Copies the tables of peers to where kernels read them.  Links come first, since peers point to
 * them.
 */
static int publish_peers(struct oriel_window *w, struct oriel_window_dev *d)
{
	uint64_t n = (uint64_t)w->comm->nranks;
	int err = ori_control_publish(w->comm, w->links, n * sizeof(*w->links), &w->near_links);

	for (uint64_t r = 0; r < n && !err; r++)
		if (w->peers[r].link)
			w->peers[r].link = (const struct oriel_window_link *)w->near_links + r;
	if (!err)
		err = ori_control_publish(w->comm, w->peers, n * sizeof(*w->peers), &w->near_peers);
	d->peers = w->near_peers;
	return err;
}

int ori_window_handle_build(struct oriel_window *w)
{
	const struct oriel_window_options *o = &w->options;
	struct oriel_window_dev *d = &w->dev;
	int nranks = w->comm->nranks, err;

	memset(d, 0, sizeof(*d));
	d->comm = w->comm->dev;
	d->bytes = o->bytes;
	d->buffer = w->buffer;
	d->number = w->number;
	d->checked = o->checked || w->comm->config.checked ? ORIEL_WINDOW_CHECKED : 0;
	if (d->comm.trace)
		d->checked |= ORIEL_WINDOW_TRACED;
	d->first_count = o->first_count;
	d->signals = o->signals;
	d->counters = o->counters;
	d->barriers = o->barriers;
	d->staging_slot_bytes = o->staging_slot_bytes;
	d->staging_depth = o->staging_depth;
	d->staging_channels = o->staging_channels;
	build_arrays(w, d);
	build_boxes(w, d);
	err = publish_peers(w, d);
	for (int r = 0; r < nranks; r++) {
		d->absent_peers += w->peers[r].kind == ORIEL_PEER_NONE;
		d->queued_peers += w->peers[r].kind == ORIEL_PEER_QUEUED ||
				   w->peers[r].kind == ORIEL_PEER_NONE;
		if (r < ORIEL_INLINE_PEERS)
			d->inline_peers[r] = w->peers[r];
	}
	w->host_dev = *d;
	w->host_dev.checked |= ORIEL_WINDOW_CHECKED;
	/* the table that kernels read may lie in device memory */
	w->host_dev.peers = w->peers;
	return err;
}

/* Only one thread at a time publishes a handle.  It is rare: once per window that needs it. */
static pthread_mutex_t publishing = PTHREAD_MUTEX_INITIALIZER;

/* Not when the handle is built: few programs need it, and the slab is small. */
int ori_window_handle_publish(struct oriel_window *w, const struct oriel_window_dev **near)
{
	int err = 0;

	pthread_mutex_lock(&publishing);
	if (!w->near_handle) {
		err = ori_comm_device_status(w->comm,
					     ori_control_publish(w->comm, &w->dev, sizeof(w->dev),
								 &w->near_handle));
		if (err)
			ori_window_handle_unpublish(w);
	}
	if (!err)
		*near = w->near_handle;
	pthread_mutex_unlock(&publishing);
	return err;
}

void ori_window_handle_unpublish(struct oriel_window *w)
{
	ori_control_unpublish(w->comm, w->near_handle, sizeof(w->dev));
	w->near_handle = NULL;
}

void ori_window_use_set(struct oriel_window *w, int use)
{
	w->dev.number = w->host_dev.number = w->number | use;
}
