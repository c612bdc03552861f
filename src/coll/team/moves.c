/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/moves.c - collectives of the host among ranks of one node, after their cards (cards.c):
 * broadcast here, the others in reductions.c.
 *
 * Short data comes with the card of the call: one step.  Long data that lies in a window of the
 * comm is read and written where it is (direct.c): all ranks map it.  Other memory is known to its
 * own rank alone.  A rank copies data from there to its belt, a part of the desk that stays in a
 * cache, and the others read it there.  Data that does not fit on the belt takes the rounds of the
 * team: their slots are longer, so that ranks that share cores meet less often.
 *
 * Called by calls.c on the thread of the call.
 */
#include "direct.h"

/*
 * A long broadcast is copied to the belt and from there in chunks, so that root and readers copy at
 * the same time.
 */
#define CHUNK_BYTES (16u << 10)
/*
 * Up to here that is also the way of data in windows: a root that copies it once more does not wait
 * for its readers.
 */
#define BELT_BYTES (64u << 10)
static_assert(BELT_BYTES <= ORI_CARD_BELT_BYTES, "what goes over the belt fits on it");

/* ---- broadcast ------------------------------------------------------------------------------- */

/* The root of a short broadcast does not wait for the others. */
static int broadcast_short(struct ori_cards *c, uint8_t *data, uint64_t bytes)
{
	int root = c->x.call.root, own = root == ori_cards_rank(c), meets = ori_cards_must_meet(c),
	    err;

	if (own)
		ori_cards_show(c, data, bytes);
	ori_cards_write(c, meets);
	err = meets ? ori_cards_meet(c) : ori_cards_follow(c, root);
	if (!err && !own && bytes)
		memcpy(data, ori_cards_at(c, root, ori_cards_shown_off(c, bytes)), bytes);
	return err;
}

struct stream {
	uint8_t *data, *belt;
	uint64_t bytes;
	uint32_t chunks; /* 0: they do not fit on the belt */
};

static uint64_t chunk_bytes(const struct stream *s, uint32_t i)
{
	return ori_coll_least(s->bytes - (uint64_t)i * CHUNK_BYTES, CHUNK_BYTES);
}

static uint8_t *chunk_on_belt(const struct stream *s, uint32_t i)
{
	return s->belt + (uint64_t)i * CHUNK_BYTES;
}

static void put_chunk(const struct stream *s, uint32_t i)
{
	memcpy(chunk_on_belt(s, i), s->data + (uint64_t)i * CHUNK_BYTES, chunk_bytes(s, i));
}

/* The root: the card tells of the first chunk, steps tell of the others. */
static void put_chunks(struct ori_cards *c, const struct stream *s)
{
	for (uint32_t i = 1; i < s->chunks; i++) {
		put_chunk(s, i);
		ori_cards_step(c, i);
	}
}

static int take_chunks(struct ori_cards *c, const struct stream *s, int root)
{
	int err = 0;

	for (uint32_t i = 0; i < s->chunks && !err; i++) {
		if (i)
			err = ori_cards_await_step(c, root, i);
		if (!err)
			memcpy(s->data + (uint64_t)i * CHUNK_BYTES, chunk_on_belt(s, i),
			       chunk_bytes(s, i));
	}
	return err;
}

/*
 * The root fills the belt while the ranks meet.  No rank writes its buffer before it knows that all
 * make the same call.
 */
static int broadcast_long(struct ori_cards *c, uint8_t *data, uint64_t bytes)
{
	int root = c->x.call.root, own = root == ori_cards_rank(c), err, put = own;
	int in_place = bytes > BELT_BYTES;
	struct stream s = { data, ori_cards_at(c, root, ori_cards_belt_off(c)), bytes, 0 };

	if (bytes <= ORI_CARD_BELT_BYTES)
		s.chunks = (uint32_t)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
	ori_cards_begin_steps(c);
	if (own && in_place)
		put = !ori_direct_find(c, data, NULL, bytes) && s.chunks;
	if (put)
		put_chunk(&s, 0);
	ori_cards_write(c, 1);
	if (put)
		put_chunks(c, &s);
	err = ori_cards_meet(c);
	if (err)
		return err;
	if (in_place && ori_direct_is_found(c, root))
		return ori_direct_broadcast(c, data, bytes);
	if (!s.chunks)
		return ori_cards_rounds(c, data, data);
	return own ? 0 : take_chunks(c, &s, root);
}

/* ---- one call -------------------------------------------------------------------------------- */

/* The others learn from the card that this rank refuses the call. */
static int refuse(struct ori_cards *c, int status)
{
	int meets = ori_cards_must_meet(c);

	ori_cards_write(c, meets);
	if (meets)
		return ori_cards_meet(c);
	ori_cards_leave(c, status);
	return status;
}

static int make(struct ori_cards *c, const struct ori_terms *call, const uint8_t *send,
		uint8_t *recv)
{
	uint64_t bytes = call->size * (call->type ? oriel_type_bytes(call->type) : 1);

	if (call->refused)
		return refuse(c, -(int)call->refused);
	if (call->kind == ORI_COLL_BROADCAST && bytes <= ORI_CARD_AREA_BYTES)
		return broadcast_short(c, recv, bytes);
	if (call->kind == ORI_COLL_BROADCAST)
		return broadcast_long(c, recv, bytes);
	if (call->kind == ORI_COLL_ALLREDUCE)
		return ori_cards_allreduce(c, send, recv, bytes);
	return ori_cards_reducescatter(c, send, recv, bytes);
}

int ori_cards_run(struct ori_cards *c, const char *name, const struct ori_terms *call,
		  const uint8_t *send, uint8_t *recv)
{
	struct ori_trace_note note;
	int err = ori_cards_begin(c, name, call);

	if (err)
		return err;
	note = ori_coll_note(c->team, c->x.g, 0, call, ORIEL_TRACE_COLL);
	err = make(c, call, send, recv);
	if (c->in_rounds)
		return err; /* they have noted the call */
	ori_trace_end(&c->team->win.comm, c->x.g, note, err);
	return err;
}
