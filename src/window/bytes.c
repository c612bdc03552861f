/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/bytes.c - transfers between a peer's window buffer and any memory of this process, in one
 * piece or with strides.  CPU device only.
 *
 * Mapped peers: this thread copies.  Queued peers: the data goes through a slot (bounce.c); a few
 * bytes travel inside the WQE.  The caller's block chooses the lane.  A transfer with strides packs
 * as many elements into a slot as fit, and posts one WQE for them if they are also packed in the
 * window, else one WQE per element.
 */
#include <string.h>

#include "bounce.h"
#include "issue.h"

#define INSIDE_WQE ORI_VALUE_BYTES /* bytes that a WQE itself can carry */

/* One transfer.  Strides are in bytes from one element to the next. */
struct transfer {
	struct oriel_window *w;
	const char *call;
	struct oriel_group g;
	int peer, is_put;
	uint64_t offset; /* in the peer's window */
	uint8_t *local;  /* only read by a put */
	uint64_t elem_bytes, count;
	int64_t window_stride, local_stride;
};

/* ---- arguments ------------------------------------------------------------------------------- */

/* [*low, *high) are the offsets that the elements cover.  Returns 0 if they do not fit 64 bits. */
static int covered(const struct transfer *t, uint64_t *low, uint64_t *high)
{
	__int128 last = (__int128)t->window_stride * (__int128)(t->count - 1);
	__int128 a = (__int128)t->offset + (last < 0 ? last : 0);
	__int128 b = (__int128)t->offset + (last > 0 ? last : 0) + (__int128)t->elem_bytes;

	*low = (uint64_t)a;
	*high = (uint64_t)b;
	return a >= 0 && b <= (__int128)UINT64_MAX;
}

static int check(const struct transfer *t)
{
	struct oriel_window *w = t->w;
	uint64_t low, high;
	int err = ori_window_check(w, t->call);

	if (!err && w->comm->device->separate)
		err = ori_fail(ORIEL_EUNSUPPORTED,
			       "%s: only on the CPU device; use a source (oriel_window_source)",
			       t->call);
	if (!err)
		err = ori_window_check_peer(w, t->call, t->peer);
	if (err)
		return err;
	if (!t->count || !t->elem_bytes)
		return 0;
	if (!t->local)
		return ori_fail(ORIEL_EINVAL, "%s: null pointer", t->call);
	if (covered(t, &low, &high) && high <= w->options.bytes)
		return 0;
	if (t->count == 1)
		return ori_fail(ORIEL_ERANGE,
				"%s: %llu bytes at %llu pass the end of the window (%llu)", t->call,
				(unsigned long long)t->elem_bytes, (unsigned long long)t->offset,
				(unsigned long long)w->options.bytes);
	return ori_fail(ORIEL_ERANGE,
			"%s: %llu elements of %llu bytes at %llu, %lld bytes apart, pass an "
			"end of the window (%llu)",
			t->call, (unsigned long long)t->count, (unsigned long long)t->elem_bytes,
			(unsigned long long)t->offset, (long long)t->window_stride,
			(unsigned long long)w->options.bytes);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Constant sizes become single loads and stores, so an aligned element is never torn. */
static void copy_element(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	switch (bytes) {
	case 1:
		*to = *from;
		break;
	case 2:
		memcpy(to, from, 2);
		break;
	case 4:
		memcpy(to, from, 4);
		break;
	case 8:
		memcpy(to, from, 8);
		break;
	default:
		memmove(to, from, bytes);
	}
}

static void copy_elements(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,
			  uint64_t elem_bytes, uint64_t count)
{
	int64_t packed = (int64_t)elem_bytes;

	if (to_stride == packed && from_stride == packed && count > 1) {
		memmove(to, from, elem_bytes * count);
		return;
	}
	for (; count; count--, to += to_stride, from += from_stride)
		copy_element(to, from, elem_bytes);
}

static void copy_mapped(const struct transfer *t, uint8_t *remote)
{
	if (t->is_put)
		copy_elements(remote, t->window_stride, t->local, t->local_stride, t->elem_bytes,
			      t->count);
	else
		copy_elements(t->local, t->local_stride, remote, t->window_stride, t->elem_bytes,
			      t->count);
}

/* ---- queued peers ---------------------------------------------------------------------------- */

/* Posts `n` elements that are packed in the slot, or their reads into the slot. */
static int post(const struct transfer *t, const struct oriel_source *source, uint64_t source_off,
		uint64_t n)
{
	const struct oriel_window_dev *win = &t->w->host_dev;
	int packed = t->window_stride == (int64_t)t->elem_bytes;
	uint64_t offset = t->offset, posts = packed ? 1 : n, bytes = n / posts * t->elem_bytes;
	int err = 0;

	for (; posts && !err; posts--) {
		err = t->is_put ?
			      oriel_put(win, t->g, t->peer, offset, source, source_off, bytes) :
			      oriel_get_nbi(win, t->g, t->peer, offset, source, source_off, bytes);
		offset += (uint64_t)t->window_stride;
		source_off += t->elem_bytes;
	}
	return err;
}

/* Moves the first `n` elements of the transfer, which fit into a slot. */
static int move_slot(const struct transfer *t, uint64_t n)
{
	int64_t packed = (int64_t)t->elem_bytes;
	const struct oriel_source *source;
	struct ori_bounce_slot *slot;
	int given, err = ori_bounce_take(t->w, t->call, &slot, &source);

	if (err)
		return err;
	if (t->is_put)
		copy_elements(slot->memory, packed, t->local, t->local_stride, t->elem_bytes, n);
	err = post(t, source, slot->source_off, n);
	if (!t->is_put && !err)
		err = oriel_flush(&t->w->host_dev, t->g, t->peer);
	if (!t->is_put && !err)
		copy_elements(t->local, t->local_stride, slot->memory, packed, t->elem_bytes, n);
	given = ori_bounce_give(t->w, slot, t->g, t->is_put || err ? t->peer : -1);
	return err ? err : given;
}

/* An element that a WQE can carry, or that a result slot can hold. */
static int move_value(const struct transfer *t)
{
	const struct oriel_window_dev *win = &t->w->host_dev;

	if (t->is_put)
		return oriel_put_value(win, t->g, t->peer, t->offset, t->local, t->elem_bytes);
	return oriel_get_value(win, t->g, t->peer, t->offset, t->local, t->elem_bytes);
}

/* Elements that do not fit a slot go one by one, in pieces. */
static int move_large(struct transfer t)
{
	struct transfer piece = t;
	int err = 0;

	piece.count = 1;
	for (; t.count && !err; t.count--) {
		for (uint64_t at = 0; at < t.elem_bytes && !err; at += piece.elem_bytes) {
			uint64_t left = t.elem_bytes - at;

			piece.elem_bytes = left < ORI_BOUNCE_BYTES ? left : ORI_BOUNCE_BYTES;
			piece.window_stride = (int64_t)piece.elem_bytes;
			piece.offset = t.offset + at;
			piece.local = t.local + at;
			err = move_slot(&piece, 1);
		}
		t.offset += (uint64_t)t.window_stride;
		t.local += t.local_stride;
	}
	return err;
}

static int move_queued(struct transfer t)
{
	uint64_t most = ORI_BOUNCE_BYTES / t.elem_bytes, n;
	int err = 0;

	if (t.count == 1 && t.elem_bytes <= INSIDE_WQE)
		return move_value(&t);
	if (!most)
		return move_large(t);
	for (; t.count && !err; t.count -= n) {
		n = t.count < most ? t.count : most;
		err = move_slot(&t, n);
		t.offset += n * (uint64_t)t.window_stride;
		t.local += (int64_t)n * t.local_stride;
	}
	return err;
}

static int move(const struct transfer *t)
{
	uint64_t texts = ori_last_error_count();
	int err = check(t);

	if (err || !t->count || !t->elem_bytes)
		return err;
	if (ori_peer_is_mapped(&t->w->peers[t->peer])) {
		if (ori_failed(&t->w->host_dev.comm, t->w->host_dev.failure))
			return ori_window_failed(t->w);
		copy_mapped(t, t->w->peers[t->peer].buffer + t->offset);
		return 0;
	}
	err = move_queued(*t);
	return err ? ori_window_ended(t->w, t->call, t->peer, texts, err) : 0;
}

/* ---- public ---------------------------------------------------------------------------------- */

static struct oriel_group group_of(uint32_t block)
{
	struct oriel_group g = oriel_group_thread();

	g.block = block;
	return g;
}

int oriel_window_put_strided(struct oriel_window *w, int peer, uint64_t dst_off, int64_t dst_stride,
			     const void *src, int64_t src_stride, uint64_t elem_bytes,
			     uint64_t count, uint32_t block)
{
	struct transfer t = { .w = w,
			      .call = "oriel_window_put_strided",
			      .g = group_of(block),
			      .peer = peer,
			      .is_put = 1,
			      .offset = dst_off,
			      .local = (uint8_t *)(uintptr_t)src,
			      .elem_bytes = elem_bytes,
			      .count = count,
			      .window_stride = dst_stride,
			      .local_stride = src_stride };

	return move(&t);
}

int oriel_window_get_strided(struct oriel_window *w, int peer, uint64_t src_off, int64_t src_stride,
			     void *dst, int64_t dst_stride, uint64_t elem_bytes, uint64_t count,
			     uint32_t block)
{
	struct transfer t = { .w = w,
			      .call = "oriel_window_get_strided",
			      .g = group_of(block),
			      .peer = peer,
			      .offset = src_off,
			      .local = dst,
			      .elem_bytes = elem_bytes,
			      .count = count,
			      .window_stride = src_stride,
			      .local_stride = dst_stride };

	return move(&t);
}

int oriel_window_put_bytes(struct oriel_window *w, int peer, uint64_t dst_off, const void *src,
			   uint64_t bytes, uint32_t block)
{
	struct transfer t = { .w = w,
			      .call = "oriel_window_put_bytes",
			      .g = group_of(block),
			      .peer = peer,
			      .is_put = 1,
			      .offset = dst_off,
			      .local = (uint8_t *)(uintptr_t)src,
			      .elem_bytes = bytes,
			      .count = 1 };

	return move(&t);
}

int oriel_window_get_bytes(struct oriel_window *w, int peer, uint64_t src_off, void *dst,
			   uint64_t bytes, uint32_t block)
{
	struct transfer t = { .w = w,
			      .call = "oriel_window_get_bytes",
			      .g = group_of(block),
			      .peer = peer,
			      .offset = src_off,
			      .local = dst,
			      .elem_bytes = bytes,
			      .count = 1 };

	return move(&t);
}
