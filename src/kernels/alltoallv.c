/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv.c - the all-to-all-v kernel: one source for CPU blocks and CUDA.
 *
 * The work of a call is a list of items, one for each (peer, block of that peer); item i is done by block
 * i % nblocks, so any number of blocks does any number of items.  A block goes through three phases, each over all
 * its items: tell (marks and small messages), send, receive.  It waits in the second and third only, for what other
 * ranks do in a phase before that, so no block needs another one of its grid to run beside it.
 *
 * alltoallv.h has the protocol.  Marks of mapped peers are stored with release [S1] after the group met, and read with
 * acquire [W1], as in device/mapped.h; those of queued peers are signals.  Compiled twice, as window_ops.c is.
 *
 * Called by: oriel_alltoallv_exec() through the device's launch.
 */
#include <oriel/device.h>

#include "alltoallv_items.h"

/* ---- telling --------------------------------------------------------------------------------------- */

/* Of caller's memory, what a queued peer gets must first be where the engine may read. */
ORIEL_DEV void ori_a2a_stage(const struct ori_a2a_args *a, struct oriel_group g,
			     const struct ori_a2a_item *it, uint64_t begin, uint64_t bytes)
{
	if (a->copy_in)
		ori_group_copy(g, (uint8_t *)(uintptr_t)a->staging.address + it->staged_off + begin,
			       a->send + it->src_off + begin, bytes);
}

/* By one thread, on the block's lane: bytes[], if asked for, and the mark, after what the lane was given before. */
ORIEL_DEV_OUT int ori_a2a_post_mark(const struct ori_a2a_args *a, const struct ori_a2a_item *it,
				    uint64_t k, uint64_t word, uint64_t steps, int with_bytes)
{
	struct oriel_group one = oriel_group_thread();
	uint64_t off = offsetof(struct ori_a2a_row, bytes) + 8u * (k & 1u);
	int err = 0;

	if (with_bytes)
		err = oriel_put_value(&a->win, one, it->peer, ori_a2a_row_off(a) + off, &word, 8);
	return err ? err :
		     oriel_signal(&a->win, one, it->peer, ORI_A2A_SIGNAL_MARK, ORIEL_ADD, steps);
}

ORIEL_DEV_OUT int ori_a2a_tell_queued(const struct ori_a2a_args *a, struct oriel_group g,
				      const struct ori_a2a_item *it, uint64_t k, uint64_t word,
				      uint64_t steps)
{
	uint64_t bytes = steps == 2 ? it->bytes : 0;
	int err;

	ori_a2a_stage(a, g, it, 0, bytes);
	err = ori_agree_window(&a->win, g);
	if (!err && oriel_group_is_leader(g)) {
		if (bytes)
			err = oriel_put(&a->win, oriel_group_thread(), it->peer,
					ori_a2a_row_off(a) + ori_a2a_inbox_off(a, k), &a->staging,
					it->staged_off, bytes);
		if (!err)
			err = ori_a2a_post_mark(a, it, k, word, steps, 1);
	}
	return ori_group_agree(g, err);
}

/* Block 0 of a peer: that this rank is in the call, and all of a small message. */
ORIEL_DEV int ori_a2a_tell(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			   const struct ori_a2a_item *it, uint64_t k)
{
	int whole = ori_a2a_is_small(a, it); /* also of a call that is refused: no bytes */
	uint64_t steps = whole ? 2 : 1;
	uint64_t word = it->refused ? ORI_A2A_REFUSED :
			whole       ? it->bytes | ORI_A2A_INLINE :
				      it->bytes;
	struct ori_a2a_row *row;
	int err;

	if (!whole && !ori_a2a_is_packed(a) && !a->synchronised)
		return 0; /* the mark of the data says all */
	if (mixed && it->queued)
		return ori_a2a_tell_queued(a, g, it, k, word, steps);
	row = ori_a2a_row(a, it->window, a->win.comm.rank);
	if (whole && it->bytes)
		ori_group_copy(g, (uint8_t *)row + ori_a2a_inbox_off(a, k), a->send + it->src_off,
			       it->bytes);
	err = ori_group_agree_look(g, it->look);
	if (!err && oriel_group_is_leader(g)) {
		row->bytes[k & 1u] = word;
		ori_a2a_store(a, it, &row->mark, 2 * k + steps);
	}
	return err;
}

/* ---- packed: where data goes ------------------------------------------------------------------------ */

/* What `source` said it sends here in this call. */
ORIEL_DEV uint64_t ori_a2a_told(const struct ori_a2a_args *a, int source, uint64_t k)
{
	return ori_a2a_row(a, a->win.buffer, source)->bytes[k & 1u];
}

/*
 * Waits until all ranks have told, and adds up: where the data of `peer` begins in this rank's receive buffer, or
 * ORI_A2A_REFUSED when there is no room for all of it.
 */
ORIEL_DEV_OUT int ori_a2a_place(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
				int peer, uint64_t k, uint64_t *place)
{
	uint64_t sum = 0, mine = 0, bytes, self = 0;
	struct ori_a2a_item it;
	int r, err = 0;

	it.peer = a->win.comm.rank;
	ori_a2a_look(a, g, mixed, &it);
	self = it.bytes;
	for (r = 0; !err && r < a->win.comm.nranks; r++) {
		bytes = self;
		if (r != a->win.comm.rank) {
			err = ori_a2a_await(a, g, mixed, r, ORI_A2A_SIGNAL_MARK, 2 * k + 1);
			bytes = ori_a2a_told(a, r, k);
			bytes = bytes == ORI_A2A_REFUSED ? 0 : bytes & ~ORI_A2A_INLINE;
		}
		mine = r == peer ? sum : mine;
		if (bytes > a->recv_bytes - sum)
			sum = mine = ORI_A2A_REFUSED;
		if (sum == ORI_A2A_REFUSED)
			break;
		sum += bytes;
	}
	/* nobody leaves the loop before the others: sums are of the same words */
	*place = sum == ORI_A2A_REFUSED ? ORI_A2A_REFUSED : mine;
	return err;
}

/* Block 0 of a peer: where its data goes, or that there is no room in this call. */
ORIEL_DEV_OUT int ori_a2a_grant(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
				const struct ori_a2a_item *it, uint64_t k)
{
	struct oriel_group one = oriel_group_thread();
	uint64_t place = 0, off = offsetof(struct ori_a2a_row, grant) + 8u * (k & 1u);
	int err = ori_a2a_place(a, g, mixed, it->peer, k, &place);
	struct ori_a2a_row *row;

	if (!err && oriel_group_is_leader(g)) {
		if (mixed && it->queued) {
			err = oriel_put_value(&a->win, one, it->peer, ori_a2a_row_off(a) + off,
					      &place, 8);
			if (!err)
				err = oriel_signal(&a->win, one, it->peer, ORI_A2A_SIGNAL_GRANTED,
						   ORIEL_ADD, 1);
		} else {
			row = ori_a2a_row(a, it->window, a->win.comm.rank);
			row->grant[k & 1u] = place;
			ori_a2a_store(a, it, &row->granted, k + 1);
		}
	}
	/* one place for all threads: on a GPU lanes of a warp that meet at two wait for each other for ever */
	return mixed && it->queued ? ori_group_agree(g, err) : err;
}

/* The whole group; what a peer has granted, or refused, this rank. */
ORIEL_DEV int ori_a2a_granted(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			      int peer, uint64_t k, uint64_t *place)
{
	int err = ori_a2a_await(a, g, mixed, peer, ORI_A2A_SIGNAL_GRANTED, k + 1);

	if (err)
		return err;
	*place = ori_a2a_row(a, a->win.buffer, peer)->grant[k & 1u];
	if (*place == ORI_A2A_REFUSED)
		ori_a2a_refusal(a, g, peer);
	return 0;
}

/* ---- sending ---------------------------------------------------------------------------------------- */

/* Chunk by chunk; a window that fails meanwhile ends it early. */
ORIEL_DEV void ori_a2a_copy(const struct ori_a2a_args *a, struct oriel_group g, uint8_t *to,
			    const uint8_t *from, uint64_t bytes)
{
	uint64_t piece, chunk = a->chunk[ORI_PLAN_MAPPED];

	while (bytes) {
		piece = bytes < chunk ? bytes : chunk;
		ori_group_copy(g, to, from, piece);
		to += piece;
		from += piece;
		bytes -= piece;
		if (bytes && ori_look_failed(ori_look_window(&a->win)))
			return; /* the leader sees it too when the group agrees */
	}
}

/* One thread posts; the lane keeps order, so only several blocks must be complete before they meet. */
ORIEL_DEV_OUT int ori_a2a_send_queued(const struct ori_a2a_args *a, struct oriel_group g,
				      const struct ori_a2a_item *it, uint64_t dst_off)
{
	struct oriel_group one = oriel_group_thread();
	uint64_t begin, end, piece, chunk = a->chunk[ORI_PLAN_QUEUED];
	int err;

	end = ori_a2a_slice(it, &begin);
	ori_a2a_stage(a, g, it, begin, end);
	end += begin;
	err = ori_agree_window(&a->win, g);
	if (!err && oriel_group_is_leader(g)) {
		for (; !err && begin < end; begin += piece) {
			piece = end - begin < chunk ? end - begin : chunk;
			err = oriel_put(&a->win, one, it->peer, dst_off + begin, &a->staging,
					it->staged_off + begin, piece);
		}
		if (!err && it->blocks > 1)
			err = oriel_flush(&a->win, one, it->peer);
	}
	return ori_group_agree(g, err);
}

/* By the leader, after its group met: am I the last block of this peer? */
ORIEL_DEV int ori_a2a_arrive(const struct ori_a2a_args *a, const struct ori_a2a_item *it)
{
	if (it->blocks == 1)
		return 1;
	/*
	 * [B1] release and acquire, device scope; its own partner.  Who is last has seen the stores of the other
	 * blocks, and passes them on with [S1].
	 */
	if (ori_fetch_add32_acq_rel(&a->arrived[it->peer], 1) + 1 != it->blocks)
		return 0;
	a->arrived[it->peer] = 0; /* for the next call, which begins after this one has ended */
	return 1;
}

/* Where this rank's data goes in the peer's window; waits until it may. */
ORIEL_DEV int ori_a2a_target(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			     const struct ori_a2a_item *it, uint64_t k, uint64_t *off)
{
	int err = 0;

	*off = a->recv_off + (uint64_t)(uint32_t)a->win.comm.rank * a->slot_stride;
	if (ori_a2a_is_packed(a)) {
		err = ori_a2a_granted(a, g, mixed, it->peer, k, off);
		if (!err && *off != ORI_A2A_REFUSED)
			*off += a->recv_off;
	} else if (a->synchronised) {
		err = ori_a2a_await(a, g, mixed, it->peer, ORI_A2A_SIGNAL_MARK, 2 * k + 1);
	}
	return err;
}

/* Every block of a peer: its share of a message that is not small. */
ORIEL_DEV int ori_a2a_send(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			   struct ori_a2a_item *it, uint64_t k)
{
	int told = a->synchronised || ori_a2a_is_packed(a);
	uint64_t off, begin, bytes;
	struct ori_a2a_row *row;
	struct ori_look look;
	int err = ori_a2a_target(a, g, mixed, it, k, &off);

	if (!err && mixed && it->queued && off != ORI_A2A_REFUSED)
		err = ori_a2a_send_queued(a, g, it, off);
	if (err)
		return err;
	bytes = ori_a2a_slice(it, &begin);
	/* who is in the call has said what it sends: on its way while data is copied */
	if (a->synchronised && !ori_a2a_is_packed(a) && it->index == 0) {
		it->told = ori_a2a_told(a, it->peer, k);
		it->knows = 1;
	}
	/* so is this; one of several chunks may end the copy early, which is seen after it */
	look = ori_a2a_look_early(a, g);
	if (!(mixed && it->queued) && off != ORI_A2A_REFUSED)
		ori_a2a_copy(a, g, it->window + off + begin, a->send + it->src_off + begin, bytes);
	if (bytes > a->chunk[ORI_PLAN_MAPPED])
		look = ori_a2a_look_early(a, g);
	err = ori_group_agree_look(g, look);
	if (!err && oriel_group_is_leader(g) && ori_a2a_arrive(a, it)) {
		if (mixed && it->queued) {
			err = ori_a2a_post_mark(a, it, k, it->bytes, told ? 1 : 2, !told);
		} else {
			row = ori_a2a_row(a, it->window, a->win.comm.rank);
			/* where it was told, the peer may be reading it */
			if (!told)
				row->bytes[k & 1u] = it->bytes;
			ori_a2a_store(a, it, &row->mark, 2 * k + 2);
		}
	}
	return mixed && it->queued ? ori_group_agree(g, err) : err;
}

/* ---- receiving -------------------------------------------------------------------------------------- */

/* By block 0 of a peer: what the caller learns about it. */
ORIEL_DEV void ori_a2a_tell_caller(const struct ori_a2a_args *a, struct oriel_group g, int peer,
				   uint64_t bytes, uint64_t place)
{
	if (!oriel_group_is_leader(g))
		return;
	if (a->recv_sizes)
		a->recv_sizes[peer] = bytes / a->elem_bytes;
	if (a->recv_offsets)
		a->recv_offsets[peer] = place;
}

/* Where a source's data is in this rank's receive buffer. */
ORIEL_DEV int ori_a2a_landing(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			      int peer, uint64_t k, uint64_t *place)
{
	*place = (uint64_t)(uint32_t)peer * a->slot_stride;
	return ori_a2a_is_packed(a) ? ori_a2a_place(a, g, mixed, peer, k, place) : 0;
}

ORIEL_DEV int ori_a2a_receive_self(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
				   const struct ori_a2a_item *it, uint64_t k)
{
	uint64_t place, begin, bytes = ori_a2a_slice(it, &begin);
	int err = ori_a2a_landing(a, g, mixed, it->peer, k, &place);

	if (err)
		return err;
	if (place == ORI_A2A_REFUSED || it->refused) {
		ori_a2a_refusal(a, g, it->peer);
		ori_a2a_tell_caller(a, g, it->peer, 0, 0);
		return 0;
	}
	ori_a2a_copy(a, g, a->win.buffer + a->recv_off + place + begin,
		     a->send + it->src_off + begin, bytes);
	if (it->index == 0)
		ori_a2a_tell_caller(a, g, it->peer, it->bytes, place);
	return ori_agree_window(&a->win, g);
}

/* Block 0 of a peer: until its data is here, which for a small message means out of the inbox. */
ORIEL_DEV int ori_a2a_receive(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			      const struct ori_a2a_item *it, uint64_t k)
{
	struct ori_a2a_row *row = ori_a2a_row(a, a->win.buffer, it->peer);
	uint64_t word, bytes, place = 0;
	int err = ori_a2a_await(a, g, mixed, it->peer, ORI_A2A_SIGNAL_MARK, 2 * k + 2);

	/* A small message waited for nothing; all the same this rank learns how the call went there. */
	if (!err && ori_a2a_is_packed(a))
		err = ori_a2a_granted(a, g, mixed, it->peer, k, &place);
	if (!err)
		err = ori_a2a_landing(a, g, mixed, it->peer, k, &place);
	if (err)
		return err;
	word = it->knows ? it->told : ori_a2a_told(a, it->peer, k);
	bytes = word & ~ORI_A2A_INLINE;
	if (word == ORI_A2A_REFUSED || place == ORI_A2A_REFUSED) {
		ori_a2a_refusal(a, g, place == ORI_A2A_REFUSED ? a->win.comm.rank : it->peer);
		bytes = 0;
		place = 0;
	} else if (word & ORI_A2A_INLINE && bytes) {
		ori_group_copy(g, a->win.buffer + a->recv_off + place,
			       (const uint8_t *)row + ori_a2a_inbox_off(a, k), bytes);
	}
	ori_a2a_tell_caller(a, g, it->peer, bytes, place);
	if (mixed && it->queued)
		return oriel_flush(&a->win, g, it->peer); /* the send memory may be written again */
	/* the wait looked at the failure words; that all threads are through is for the end of the launch to say */
	return 0;
}

/* ---- the call ---------------------------------------------------------------------------------------- */

#define ORI_A2A_TELL 0
#define ORI_A2A_GRANT 1
#define ORI_A2A_SEND 2
#define ORI_A2A_RECEIVE 3

ORIEL_DEV int ori_a2a_step(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			   struct ori_a2a_item *it, uint64_t k, int phase)
{
	int self = ori_a2a_is_self(a, it);

	switch (phase) {
	case ORI_A2A_TELL:
		return self || it->index ? 0 : ori_a2a_tell(a, g, mixed, it, k);
	case ORI_A2A_GRANT:
		return self || it->index ? 0 : ori_a2a_grant(a, g, mixed, it, k);
	case ORI_A2A_SEND:
		/* with slots of its own a rank need not wait to copy to itself */
		if (self)
			return ori_a2a_is_packed(a) ? 0 : ori_a2a_receive_self(a, g, mixed, it, k);
		return ori_a2a_is_small(a, it) ? 0 : ori_a2a_send(a, g, mixed, it, k);
	default:
		if (self)
			return ori_a2a_is_packed(a) ? ori_a2a_receive_self(a, g, mixed, it, k) : 0;
		return it->index ? 0 : ori_a2a_receive(a, g, mixed, it, k);
	}
}

/*
 * A call that ended without its peers leaves the counts apart: the request is of no more use, here and there.  A comm
 * that has failed says so itself.
 */
ORIEL_DEV_OUT void ori_a2a_give_up(const struct ori_a2a_args *a, int err)
{
	int r;

	if (ori_load_relaxed_sys(a->win.comm.failure))
		return;
	for (r = 0; r < a->win.comm.nranks; r++)
		if (r != a->win.comm.rank)
			(void)ori_fail_window(&a->win, err, r);
	(void)ori_compare_swap_acq_rel_sys(a->win.failure, 0, ORIEL_FAILURE(err, a->win.comm.rank));
}

/*
 * By every block, once all its threads have read `calls` and before it waits for data, for then it costs no time: the
 * last one moves it.  A call that fails after that leaves a request of no more use anyway.
 */
ORIEL_DEV void ori_a2a_count(const struct ori_a2a_args *a, struct oriel_group g, uint64_t calls)
{
	(void)oriel_group_sync(g);
	if (!oriel_group_is_leader(g))
		return;
	/* [B2] release and acquire, device scope; its own partner: all blocks have read `calls`. */
	if (a->counted > 1 && ori_fetch_add32_acq_rel(&a->state->left, 1) + 1 != a->counted)
		return;
	a->state->left = 0;
	ori_store_relaxed_sys(&a->state->calls, calls + 1);
}

/*
 * All phases, each over all items of the block.  With one item, as on a GPU, it is looked up once.  One call of each
 * step only: inlined several times they take so many registers that threads spill them.
 */
ORIEL_DEV int ori_a2a_phases(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			     struct ori_a2a_item *it, int found, uint64_t calls)
{
	uint64_t k = calls - a->first;
	uint32_t items = (uint32_t)a->win.comm.nranks * a->most_blocks, at = g.block, n;
	int phase, err = 0;

	for (phase = ORI_A2A_TELL; !err && phase <= ORI_A2A_RECEIVE; phase++) {
		if (phase == ORI_A2A_GRANT && !ori_a2a_is_packed(a))
			continue;
		if (phase == ORI_A2A_RECEIVE)
			ori_a2a_count(a, g, calls);
		for (n = g.block; !err && n < items; n += g.nblocks) {
			if (n != at) {
				at = n;
				found = ori_a2a_find(a, g, mixed, n, it);
			}
			if (found)
				err = ori_a2a_step(a, g, mixed, it, k, phase);
		}
	}
	return err;
}

ORIEL_DEV void ori_a2a_run(const struct ori_a2a_args *a, int mixed)
{
	struct oriel_group g = oriel_group_block();
	uint64_t calls = ori_load_relaxed_sys(&a->state->calls); /* beside what find() loads */
	struct ori_a2a_item it;
	int found = ori_a2a_find(a, g, mixed, g.block, &it), err;

	/* one of the excess, of a peer that has fewer blocks */
	if (!found && g.nblocks == (uint32_t)a->win.comm.nranks * a->most_blocks)
		return;
	err = ori_a2a_phases(a, g, mixed, &it, found, calls);
	if (err && oriel_group_is_leader(g))
		ori_a2a_give_up(a, err);
}

ORIEL_KERNEL(ori_alltoallv_mapped, struct ori_a2a_args)
{
	ori_a2a_run(a, 0);
}

ORIEL_KERNEL(ori_alltoallv_mixed, struct ori_a2a_args)
{
	ori_a2a_run(a, 1);
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_a2a_kernel(int mixed)
{
	return mixed ? &ori_alltoallv_mixed : &ori_alltoallv_mapped;
}
#endif
