/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv_steps.h - the steps of an all-to-all-v: what a block does with one item in each
 * phase.
 *
 * A rank stores the words of mapped peers with release ([A2A1] to [A2A3]) after the data that they
 * announce.  The peers read them with acquire ([A2A4]).  Words of queued peers are signals.
 * alltoallv.h has the protocol.
 *
 * Included by: alltoallv.c, alltoallv_slots.h.  Runs on all threads of a block.
 */
#ifndef ORI_KERNELS_ALLTOALLV_STEPS_H
#define ORI_KERNELS_ALLTOALLV_STEPS_H

#include "alltoallv_items.h"
#include "alltoallv_packed.h"

/* ---- telling -------------------------------------------------------------------------------- */

/*
 * Copies a queued peer's data from the caller's memory to the send buffer, where the engine may
 * read it.
 */
ORIEL_DEV void ori_a2a_stage(const struct ori_a2a_args *a, struct oriel_group g,
			     const struct ori_a2a_item *it, uint64_t begin, uint64_t bytes)
{
	if (a->copy_in)
		ori_group_copy(g, (uint8_t *)(uintptr_t)a->staging.address + it->staged_off + begin,
			       a->send + it->src_off + begin, bytes);
}

/*
 * Called by one thread, as block 0: posts told[], if asked for, and the signal, after all earlier
 * posts of that lane.
 */
ORIEL_DEV_OUT int ori_a2a_post_mark(const struct ori_a2a_args *a, const struct ori_a2a_item *it,
				    uint64_t k, uint64_t word, uint64_t steps, int with_word)
{
	struct oriel_group one = ori_a2a_poster(it->peer, 0);
	uint64_t off = offsetof(struct ori_a2a_row, told) + 8u * (k & 1u);
	int err = 0;

	if (with_word)
		err = oriel_put_value(a->win, one, it->peer, ori_a2a_row_off(a) + off, &word, 8);
	return err ? err :
		     oriel_signal(a->win, one, it->peer, ORI_A2A_SIGNAL_MARK, ORIEL_ADD, steps);
}

ORIEL_DEV_OUT int ori_a2a_tell_queued(const struct ori_a2a_args *a, struct oriel_group g,
				      const struct ori_a2a_item *it, uint64_t k, uint64_t word,
				      uint64_t steps)
{
	uint64_t bytes = steps == 2 ? it->bytes : 0;
	int err;

	ori_a2a_stage(a, g, it, 0, bytes);
	err = ori_agree_failure(&a->comm, a->failure, g);
	if (!err && oriel_group_is_leader(g)) {
		if (bytes)
			err = oriel_put(a->win, ori_a2a_poster(it->peer, 0), it->peer,
					ori_a2a_row_off(a) + ori_a2a_inbox_off(a, k), &a->staging,
					it->staged_off, bytes);
		if (!err)
			err = ori_a2a_post_mark(a, it, k, word, steps, 1);
	}
	return ori_group_agree(g, err);
}

/*
 * Called by block 0 of a peer: tells it that this rank is in the call and what it sends, with all
 * data of a small message.  opened: the first half of the release is already done.
 */
ORIEL_DEV int ori_a2a_tell(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			   int opened, const struct ori_a2a_item *it, uint64_t k)
{
	int whole = ori_a2a_is_small(a, it); /* true for a refused call too: it has no bytes */
	uint64_t word = ori_a2a_word(it, whole, k);
	struct ori_a2a_row *row;
	int err;

	if (!whole && !ori_a2a_is_packed(a, parts) && !a->synchronised)
		return 0; /* told later, with the data */
	if (it->queued)
		return ori_a2a_tell_queued(a, g, it, k, word, whole ? 2 : 1);
	row = ori_a2a_row(a, it->window, a->comm.rank);
	if (!it->bytes || !whole) {
		/*
		 * Only the leader: the word announces nothing that other threads did.  Its next
		 * wait finds a failure.
		 */
		if (oriel_group_is_leader(g) && !ori_failures_any(it->look)) {
			/*
			 * [A2A2] release, system scope; partner [A2A4] in ori_a2a_wait().
			 * Publishes that this rank has read the data of the last call, so the peer
			 * may write its receive buffer.  Without it the peer's data could overwrite
			 * bytes that an earlier kernel still reads.
			 */
			ori_release_begin_if(!opened);
			ori_publish(&row->told[k & 1u], ORIEL_SET, word, it->waiters);
			/* relaxed: no rank waits for it in this call */
			if (whole)
				ori_store_relaxed_sys(&row->came, (k + 1) << ORI_A2A_CAME_SHIFT);
		}
		return 0;
	}
	ori_group_copy(g, (uint8_t *)row + ori_a2a_inbox_off(a, k), a->send + it->src_off,
		       it->bytes);
	err = ori_group_agree_failures(g, it->look);
	if (!err && oriel_group_is_leader(g)) {
		ori_a2a_store(it, &row->told[k & 1u], word);
		/* relaxed: no rank waits for it in this call */
		ori_store_relaxed_sys(&row->came, (k + 1) << ORI_A2A_CAME_SHIFT);
	}
	return err;
}

/* ---- sending -------------------------------------------------------------------------------- */

/* Bytes to copy to a mapped peer between two tests of the failure words. */
ORIEL_DEV uint64_t ori_a2a_mapped_chunk(const struct ori_a2a_args *a)
{
	uint64_t chunk = a->chunk[ORI_PLAN_MAPPED];

	return ORIEL_ON_GPU && chunk < ORI_A2A_GPU_CHUNK ? ORI_A2A_GPU_CHUNK : chunk;
}

/* Copies chunk by chunk.  A failure of the window ends the copy early. */
ORIEL_DEV void ori_a2a_copy(const struct ori_a2a_args *a, struct oriel_group g, uint8_t *to,
			    const uint8_t *from, uint64_t bytes)
{
	uint64_t piece, chunk = ori_a2a_mapped_chunk(a);
	struct ori_failures look = { 0, 0 };

	while (bytes && !ori_failures_any(look)) {
		piece = bytes < chunk ? bytes : chunk;
		/*
		 * The load runs while the chunk is copied.  The leader sees the failure too when
		 * the group agrees.
		 */
		if (bytes > piece)
			look = ori_failures_load(&a->comm, a->failure);
		ori_group_copy(g, to, from, piece);
		to += piece;
		from += piece;
		bytes -= piece;
	}
}

/*
 * One thread posts.  The lane of block 0 keeps order, also between windows, so a single block need
 * not wait.  Several blocks must be complete before they meet.  off: in the receive memory.
 */
ORIEL_DEV_OUT int ori_a2a_send_queued(const struct ori_a2a_args *a, struct oriel_group g,
				      const struct ori_a2a_item *it, uint64_t off)
{
	struct oriel_group one = ori_a2a_poster(it->peer, it->index);
	uint64_t begin, end, piece, chunk = a->chunk[ORI_PLAN_QUEUED];
	int err;

	end = ori_a2a_slice(it, &begin);
	ori_a2a_stage(a, g, it, begin, end);
	end += begin;
	err = ori_agree_failure(&a->comm, a->failure, g);
	if (!err && oriel_group_is_leader(g)) {
		for (; !err && begin < end; begin += piece) {
			piece = end - begin < chunk ? end - begin : chunk;
			err = oriel_put(a->recv_win, one, it->peer, a->recv_off + off + begin,
					&a->staging, it->staged_off + begin, piece);
		}
		if (!err && it->blocks > 1)
			err = oriel_flush(a->win, one, it->peer);
	}
	return ori_group_agree(g, err);
}

/* Called by the leader after its group met: is this the last block of the peer? */
ORIEL_DEV int ori_a2a_arrive(const struct ori_a2a_args *a, const struct ori_a2a_item *it)
{
	if (it->blocks == 1)
		return 1;
	/*
	 * [A2A5] acq_rel, device scope; its own partner.  Publishes a block's share of the message
	 * to the last block, which passes it on with [A2A3] or with a queue's mark.  Without it the
	 * peer could be told of a message whose other shares have not arrived.
	 */
	if (ori_fetch_add32_acq_rel(&a->arrived[it->peer], 1) + 1 != it->blocks)
		return 0;
	a->arrived[it->peer] = 0; /* for the next call, which begins after this one has ended */
	return 1;
}

/*
 * Finds where this rank's data goes in the peer's receive memory.  Waits until it may be written
 * there.
 */
ORIEL_DEV int ori_a2a_target(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			     struct ori_a2a_item *it, uint64_t k, uint64_t *off)
{
	int err = 0;

	*off = (uint64_t)(uint32_t)a->comm.rank * a->slot_stride;
	if (ori_a2a_is_packed(a, parts))
		err = ori_a2a_granted(a, g, parts, it->peer, k, off);
	else if (a->synchronised)
		err = ori_a2a_await(a, g, parts, it->peer, ORI_A2A_WAIT_TOLD, k, &it->told);
	return err;
}

/* Does this GPU lack atomics on the peer?  If all peers have atomics, this needs no load. */
ORIEL_DEV int ori_a2a_cannot_add(const struct ori_a2a_args *a, const struct ori_a2a_item *it)
{
	return a->comm.flags & ORIEL_PEER_NO_ATOMICS &&
	       a->win->peers[it->peer].flags & ORIEL_PEER_NO_ATOMICS;
}

/*
 * Called by the leader after its group met: announces this block's share of a message.  The message
 * is complete with the last share.
 */
ORIEL_DEV void ori_a2a_deliver(const struct ori_a2a_args *a, int parts,
			       const struct ori_a2a_item *it, uint64_t k)
{
	struct ori_a2a_row *row = ori_a2a_row(a, it->window, a->comm.rank);
	uint64_t *came = ori_release_at(&row->came), whole = 1ull << ORI_A2A_CAME_SHIFT;

	/* tells the peer now, if not told before; relaxed: the release below publishes it */
	if (it->index == 0 && !ori_a2a_is_packed(a, parts) && !a->synchronised)
		ori_store_relaxed_sys(&row->told[k & 1u], ori_a2a_word(it, 0, k));
	/* without atomics the last block announces the shares of all */
	if (ori_a2a_cannot_add(a, it) && !ori_a2a_arrive(a, it))
		return;
	/*
	 * [A2A3] release, system scope; partner [A2A4] in ori_a2a_wait().  Publishes this block's
	 * share of the message in the peer's receive buffer, and `told`.  Without it the peer could
	 * see that all data has come and read bytes of the previous call.
	 */
	ori_release_begin();
	if (it->blocks == 1 || ori_a2a_cannot_add(a, it))
		ori_publish(came, ORIEL_SET, (k + 1) * whole, it->waiters);
	else
		ori_publish(came, ORIEL_ADD, it->index ? 1 : whole - (it->blocks - 1), it->waiters);
}

/* The same for a queued peer.  Called by the last block. */
ORIEL_DEV_OUT int ori_a2a_deliver_queued(const struct ori_a2a_args *a, struct oriel_group g,
					 int parts, const struct ori_a2a_item *it, uint64_t k)
{
	int told = a->synchronised || ori_a2a_is_packed(a, parts),
	    err = ori_agree_failure(&a->comm, a->failure, g);

	if (!err && oriel_group_is_leader(g) && ori_a2a_arrive(a, it))
		err = ori_a2a_post_mark(a, it, k, ori_a2a_word(it, 0, k), told ? 1 : 2, !told);
	return ori_group_agree(g, err);
}

/* Called by every block of a peer: sends its share of a message that is not small. */
ORIEL_DEV int ori_a2a_send(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			   struct ori_a2a_item *it, uint64_t k)
{
	uint64_t off, begin, bytes;
	struct ori_failures look;
	int err = ori_a2a_target(a, g, parts, it, k, &off);

	if (err)
		return err;
	if (it->queued) {
		if (off != ORI_A2A_REFUSED)
			err = ori_a2a_send_queued(a, g, it, off);
		return err ? err : ori_a2a_deliver_queued(a, g, parts, it, k);
	}
	bytes = ori_a2a_slice(it, &begin);
	/*
	 * The load runs while data is copied.  A failure between chunks may end the copy early; a
	 * later test finds that failure.
	 */
	look = ori_a2a_failures_early(a, g);
	if (off != ORI_A2A_REFUSED)
		ori_a2a_copy(a, g, ori_a2a_recv_of(a, it) + off + begin,
			     a->send + it->src_off + begin, bytes);
	if (bytes > ori_a2a_mapped_chunk(a))
		look = ori_a2a_failures_early(a, g);
	err = ori_group_agree_failures(g, look);
	if (!err && oriel_group_is_leader(g))
		ori_a2a_deliver(a, parts, it, k);
	return err;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/*
 * Called by block 0 of a peer: writes the caller's results for it.  place: from ori_a2a_landing().
 */
ORIEL_DEV void ori_a2a_tell_caller(const struct ori_a2a_args *a, struct oriel_group g, int peer,
				   uint64_t count, uint64_t place)
{
	if (!oriel_group_is_leader(g))
		return;
	if (a->recv_sizes)
		a->recv_sizes[peer] = count;
	if (a->recv_offsets)
		a->recv_offsets[peer] = place;
}

/* Finds the element of this rank's receive buffer where a source's data begins. */
ORIEL_DEV int ori_a2a_landing(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			      int peer, uint64_t k, uint64_t *place)
{
	*place = (uint64_t)(uint32_t)peer * a->slot_elems;
	return ori_a2a_is_packed(a, parts) ? ori_a2a_place(a, g, parts, peer, k, place) : 0;
}

ORIEL_DEV int ori_a2a_receive_self(const struct ori_a2a_args *a, struct oriel_group g, int parts,
				   const struct ori_a2a_item *it, uint64_t k)
{
	uint64_t place, begin, bytes = ori_a2a_slice(it, &begin);
	int err = ori_a2a_landing(a, g, parts, it->peer, k, &place);

	if (err)
		return err;
	if (place == ORI_A2A_REFUSED || it->refused) {
		ori_a2a_refusal(a, g, it->peer);
		ori_a2a_tell_caller(a, g, it->peer, 0, 0);
		return 0;
	}
	ori_a2a_copy(a, g, a->recv + place * a->elem_bytes + begin, a->send + it->src_off + begin,
		     bytes);
	if (it->index == 0)
		ori_a2a_tell_caller(a, g, it->peer, it->count, place);
	return oriel_group_sync(g);
}

/*
 * Called by the leader: waits for the told word of a mapped peer, and until all its data is here.
 */
ORIEL_DEV int ori_a2a_wait_data(const struct ori_a2a_args *a, const struct ori_a2a_item *it,
				uint64_t k, uint64_t *word)
{
	uint64_t came;
	int err = 0;

	*word = it->told;
	if (!*word)
		err = ori_a2a_wait_mapped(a, it->peer, ORI_A2A_WAIT_TOLD, k, word);
	/* if the peer sends nothing, there is nothing to wait for either */
	if (!err && !(*word & ORI_A2A_INLINE))
		err = ori_a2a_wait_mapped(a, it->peer, ORI_A2A_WAIT_CAME, k, &came);
	if (err)
		(void)ori_fail_window(a->win, err, it->peer); /* names the peer that is missing */
	return err;
}

/* Called by the whole group: the remaining work for a message with told word `word`. */
ORIEL_DEV void ori_a2a_take(const struct ori_a2a_args *a, struct oriel_group g,
			    const struct ori_a2a_item *it, uint64_t k, uint64_t word,
			    uint64_t place)
{
	struct ori_a2a_row *row = ori_a2a_row(a, a->buffer, it->peer);
	uint64_t count = ori_a2a_count_of(word);

	word &= ORI_A2A_TOLD_MASK;
	if (word == ORI_A2A_NOTHING || place == ORI_A2A_REFUSED) {
		ori_a2a_refusal(a, g, place == ORI_A2A_REFUSED ? a->comm.rank : it->peer);
		count = 0;
		place = 0;
	} else if (word & ORI_A2A_INLINE && count) {
		ori_group_copy(g, a->recv + place * a->elem_bytes,
			       (const uint8_t *)row + ori_a2a_inbox_off(a, k),
			       count * a->elem_bytes);
	}
	ori_a2a_tell_caller(a, g, it->peer, count, place);
}

/*
 * Called by block 0 of a peer: waits until its data is here.  A small message is also copied out of
 * the inbox.
 */
ORIEL_DEV int ori_a2a_receive(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			      const struct ori_a2a_item *it, uint64_t k)
{
	uint64_t word = 0, place = 0;
	int err = 0;

	if (it->queued) {
		err = ori_a2a_await(a, g, parts, it->peer, ORI_A2A_WAIT_CAME, k, &word);
		word = ori_a2a_told(a, it->peer, k);
	} else {
		if (oriel_group_is_leader(g))
			err = ori_a2a_wait_data(a, it, k, &word);
		err = ori_group_agree_value(g, err, &word);
	}
	/*
	 * A small message did not wait for a grant.  This rank still must learn whether the peer
	 * refused.
	 */
	if (!err && ori_a2a_is_packed(a, parts))
		err = ori_a2a_granted(a, g, parts, it->peer, k, &place);
	if (!err)
		err = ori_a2a_landing(a, g, parts, it->peer, k, &place);
	if (err)
		return err;
	ori_a2a_take(a, g, it, k, word, place);
	if (it->queued) {
		/*
		 * after this the send memory may be written again; all blocks that sent from it
		 * meet
		 */
		if (oriel_group_is_leader(g))
			err = oriel_flush(a->win, ori_a2a_poster(it->peer, 0), it->peer);
		return ori_group_agree(g, err);
	}
	/*
	 * The wait tested the failure words.  The end of the launch ensures that all threads have
	 * finished.
	 */
	return 0;
}

/* ---- counting ------------------------------------------------------------------------------- */

/*
 * Called by one thread of every block, after all its threads have read `calls`.  The last block
 * increments it.  A call that fails after that makes the request unusable anyway.
 */
ORIEL_DEV void ori_a2a_count(const struct ori_a2a_args *a, uint64_t calls)
{
	/*
	 * [A2A6] acq_rel, device scope; its own partner.  Publishes that a block has read `calls`
	 * to the block that increments it.  Without it a slow block could read the number of the
	 * next call.
	 */
	if (a->counted > 1 && ori_fetch_add32_acq_rel(&a->state->left, 1) + 1 != a->counted)
		return;
	a->state->left = 0;
	ori_store_relaxed_sys(&a->state->calls, calls + 1);
}

#endif
