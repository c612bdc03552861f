/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/kernel.c - the only kernel of the campaign: takes operations from a list and does
 * them.
 *
 * Runs on the CPU, on the fake driver and, built by nvcc, on a GPU.  Writes a wrong value or a
 * failed call into the report of the rank.  After a failed call the block skips its other
 * operations, because their waits might never end.
 */
#include "ops.h"

#define CAS_TRIES 1000000u

struct camp_run {
	const struct camp_args *a;
	const struct camp_op *o;
	const struct oriel_window_dev *win;
	const struct camp_place *place;
	uint64_t tag;
	struct oriel_ticket ticket;
};

/* The first thread that fails fills in the report.  The host reads it when no kernel runs. */
ORIEL_DEV_OUT void camp_note(const struct camp_run *r, struct oriel_group g, int status,
			     uint64_t off, uint64_t expected, uint64_t found)
{
	struct camp_report *report = r->a->report;

	if (ori_fetch_add_acq_rel_sys(&report->wrong, 1))
		return;
	report->step = r->o->step;
	report->code = r->o->code;
	report->block = (int32_t)g.block;
	report->status = status;
	report->window = r->o->window;
	report->place = r->o->place;
	report->peer = r->o->peer;
	report->id = r->o->id;
	report->off = off;
	report->expected = expected;
	report->found = found;
}

ORIEL_DEV void camp_same(const struct camp_run *r, struct oriel_group g, uint64_t expected,
			 uint64_t found)
{
	if (oriel_group_is_leader(g) && expected != found)
		camp_note(r, g, 0, r->o->off, expected, found);
}

/* ---- local memory ---------------------------------------------------------------------------- */

ORIEL_DEV_OUT int camp_fill(const struct camp_run *r, struct oriel_group g)
{
	uint8_t *at = (uint8_t *)(uintptr_t)r->place->address + r->o->off;
	uint64_t i;

	for (i = g.thread; i < r->o->bytes; i += g.size)
		at[i] = camp_byte(r->tag, r->o->src_off + i);
	return oriel_group_sync(g);
}

ORIEL_DEV int camp_zero(const struct camp_run *r, struct oriel_group g)
{
	uint8_t *at = (uint8_t *)(uintptr_t)r->place->address + r->o->off;
	uint64_t i;

	for (i = g.thread; i < r->o->bytes; i += g.size)
		at[i] = 0;
	return oriel_group_sync(g);
}

ORIEL_DEV_OUT int camp_check(const struct camp_run *r, struct oriel_group g)
{
	const uint8_t *at = (const uint8_t *)(uintptr_t)r->place->address + r->o->off;
	uint64_t i;

	for (i = g.thread; i < r->o->bytes; i += g.size)
		if (at[i] != camp_byte(r->tag, r->o->src_off + i)) {
			camp_note(r, g, 0, r->o->off + i, camp_byte(r->tag, r->o->src_off + i),
				  at[i]);
			break;
		}
	return oriel_group_sync(g);
}

ORIEL_DEV int camp_word(const struct camp_run *r, struct oriel_group g)
{
	uint64_t *at = (uint64_t *)(uintptr_t)(r->place->address + r->o->off);
	int err = oriel_group_sync(g);

	if (r->o->code == CAMP_STORE_WORD && oriel_group_is_leader(g))
		*at = r->o->value;
	if (r->o->code == CAMP_CHECK_WORD)
		camp_same(r, g, r->o->value, *at);
	return err ? err : oriel_group_sync(g);
}

/* The graph's kernels before this one of the same stream have ended: plain accesses do. */
ORIEL_DEV int camp_replay(const struct camp_run *r, struct oriel_group g)
{
	int err = oriel_group_sync(g);

	if (oriel_group_is_leader(g))
		r->a->cells[r->o->cell]++;
	return err ? err : oriel_group_sync(g);
}

/* ---- data ------------------------------------------------------------------------------------ */

ORIEL_DEV_OUT int camp_put(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	const struct oriel_source *s = &r->place->source;
	int op = o->how & ~CAMP_REPLAYED;

	switch (o->code) {
	case CAMP_PUT:
		return oriel_put(r->win, g, o->peer, o->off, s, o->src_off, o->bytes);
	case CAMP_PUT_SIGNAL:
		return oriel_put_signal(r->win, g, o->peer, o->off, s, o->src_off, o->bytes, o->id,
					op, o->value);
	case CAMP_PUT_COUNTER:
		return oriel_put_counter(r->win, g, o->peer, o->off, s, o->src_off, o->bytes,
					 o->cell);
	default:
		return oriel_put_signal_counter(r->win, g, o->peer, o->off, s, o->src_off, o->bytes,
						o->id, op, o->value, o->cell);
	}
}

ORIEL_DEV_OUT int camp_values(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	uint8_t mine[28];
	uint64_t i;
	int err;

	for (i = 0; i < 28; i++)
		mine[i] = o->code == CAMP_PUT_VALUE ? camp_byte(r->tag, o->src_off + i) : 0;
	if (o->code == CAMP_PUT_VALUE)
		return oriel_put_value(r->win, g, o->peer, o->off, mine, o->bytes);
	err = oriel_get_value(r->win, g, o->peer, o->off, mine, o->bytes);
	for (i = 0; i < o->bytes && !err; i++)
		if (mine[i] != camp_byte(r->tag, o->src_off + i)) {
			camp_note(r, g, 0, o->off + i, camp_byte(r->tag, o->src_off + i), mine[i]);
			break;
		}
	return err;
}

ORIEL_DEV_OUT int camp_get(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;

	if (o->code == CAMP_GET)
		return oriel_get(r->win, g, o->peer, o->off, &r->place->source, o->src_off,
				 o->bytes);
	return oriel_get_nbi(r->win, g, o->peer, o->off, &r->place->source, o->src_off, o->bytes);
}

/* ---- atomics --------------------------------------------------------------------------------- */

/*
 * One byte of the word belongs to this block alone: it must hold what the block itself has added.
 */
ORIEL_DEV_OUT int camp_add_field(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	uint64_t i, old = 0;
	int err = 0;

	for (i = 0; i < o->bytes && !err; i++) {
		err = oriel_fetch_add(r->win, g, o->peer, o->off, 1ull << (8 * o->id), &old);
		if (!err)
			camp_same(r, g, i, old >> (8 * o->id) & 0xff);
	}
	return err;
}

/* The values swapped in minus the values that came out.  This sum does not depend on the order. */
ORIEL_DEV_OUT int camp_swap(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	uint64_t i, old = 0, sum = 0;
	int err = 0;

	for (i = 0; i < o->bytes && !err; i++) {
		err = oriel_swap(r->win, g, o->peer, o->off, o->value + i, &old);
		sum += camp_mix(o->value + i) - camp_mix(old);
	}
	if (oriel_group_is_leader(g))
		(void)ori_fetch_add_acq_rel_sys(r->a->cells + o->cell, sum);
	return err;
}

/* Adds 1 by compare_swap, the given number of times, however often other blocks interfere. */
ORIEL_DEV_OUT int camp_cas_add(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	uint64_t done = 0, known = 0, old = 0;
	uint32_t tries;
	int err = 0;

	for (tries = 0; done < o->bytes && !err && tries < CAS_TRIES; tries++) {
		err = oriel_compare_swap(r->win, g, o->peer, o->off, known, known + 1, &old);
		done += !err && old == known;
		known = old == known ? known + 1 : old;
	}
	if (!err)
		camp_same(r, g, o->bytes, done);
	return err;
}

/* ---- words, order ---------------------------------------------------------------------------- */

/* Once, or as often as said. */
ORIEL_DEV_OUT int camp_signal(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	uint64_t i = 0;
	int err;

	do {
		err = oriel_signal(r->win, g, o->peer, o->id, o->how & ~CAMP_REPLAYED, o->value);
	} while (!err && ++i < o->bytes);
	return err;
}

ORIEL_DEV_OUT int camp_signals(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	int how = o->how & ~CAMP_REPLAYED;

	switch (o->code) {
	case CAMP_SIGNAL:
		return camp_signal(r, g);
	case CAMP_SIGNAL_ALL:
		return oriel_signal_all(r->win, g, o->id, how, o->value);
	case CAMP_WAIT_FROM:
		return oriel_wait_signal_from(r->win, g, o->peer, o->id, how, o->value);
	case CAMP_WAIT_SUM:
		return oriel_wait_signal(r->win, g, o->id, o->value);
	case CAMP_READ_FROM:
		camp_same(r, g, o->value, oriel_read_signal_from(r->win, o->peer, o->id));
		return 0;
	case CAMP_READ_SUM:
		camp_same(r, g, o->value, oriel_read_signal(r->win, o->id));
		return 0;
	case CAMP_RESET_SIGNAL:
		return oriel_reset_signal(r->win, g, o->id);
	case CAMP_ADVANCE_FROM:
		return oriel_signal_advance_from(r->win, g, o->peer, o->id, o->value);
	case CAMP_WAIT_COUNTER:
		return oriel_wait_counter(r->win, g, o->peer, o->id, ORIEL_GE, o->value);
	default:
		camp_same(r, g, o->value, oriel_read_counter(r->win, o->peer, o->id));
		return 0;
	}
}

ORIEL_DEV_OUT int camp_order(struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;

	switch (o->code) {
	case CAMP_FENCE:
		return oriel_fence(r->win, g, o->peer);
	case CAMP_FLUSH:
		return oriel_flush(r->win, g, o->peer);
	case CAMP_FLUSH_ALL:
		return oriel_flush_all(r->win, g);
	case CAMP_TICKET:
		return oriel_take_ticket(r->win, g, o->peer, &r->ticket);
	case CAMP_WAIT_LOCAL:
		return oriel_wait_local(r->win, g, &r->ticket, r->win->comm.timeout_ns);
	case CAMP_SYNC:
		return oriel_barrier_arrive_wait(r->win, g, o->id);
	case CAMP_BARRIER:
		return oriel_barrier(r->win, g, o->id);
	case CAMP_ARRIVE:
		return oriel_barrier_arrive(r->win, g, o->id);
	case CAMP_LEAVE:
		return oriel_barrier_wait(r->win, g, o->id);
	default:
		return oriel_barrier_peer(r->win, g, o->peer, o->id);
	}
}

ORIEL_DEV_OUT int camp_staged(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	uint8_t *at = (uint8_t *)(uintptr_t)r->place->address + o->src_off;

	return o->code == CAMP_SEND ? oriel_send(r->win, g, o->peer, o->id, at, o->bytes) :
				      oriel_recv(r->win, g, o->peer, o->id, at, o->bytes);
}

ORIEL_DEV_OUT int camp_packet(const struct camp_run *r, struct oriel_group g)
{
	const struct camp_op *o = r->o;
	uint8_t *at = (uint8_t *)(uintptr_t)r->place->address + o->src_off;

	return o->code == CAMP_PACKET_SEND ?
		       oriel_packet_send(r->win, g, o->peer, o->id, at, o->bytes) :
		       oriel_packet_recv(r->win, g, o->peer, o->id, at, o->bytes);
}

/* ---- the list -------------------------------------------------------------------------------- */

ORIEL_DEV int camp_do(struct camp_run *r, struct oriel_group g)
{
	switch (r->o->code) {
	case CAMP_FILL:
		return camp_fill(r, g);
	case CAMP_CHECK:
		return camp_check(r, g);
	case CAMP_STORE_WORD:
	case CAMP_CHECK_WORD:
		return camp_word(r, g);
	case CAMP_REPLAY:
		return camp_replay(r, g);
	case CAMP_PUT:
	case CAMP_PUT_SIGNAL:
	case CAMP_PUT_COUNTER:
	case CAMP_PUT_SIGNAL_COUNTER:
		return camp_put(r, g);
	case CAMP_PUT_VALUE:
	case CAMP_GET_VALUE:
		return camp_values(r, g);
	case CAMP_GET:
	case CAMP_GET_NBI:
		return camp_get(r, g);
	case CAMP_ADD_FIELD:
		return camp_add_field(r, g);
	case CAMP_SWAP:
		return camp_swap(r, g);
	case CAMP_CAS_ADD:
		return camp_cas_add(r, g);
	case CAMP_SEND:
	case CAMP_RECV:
		return camp_staged(r, g);
	case CAMP_ZERO:
		return camp_zero(r, g);
	case CAMP_PACKET_SEND:
	case CAMP_PACKET_RECV:
		return camp_packet(r, g);
	default:
		return r->o->code >= CAMP_FENCE && r->o->code <= CAMP_BARRIER_PEER ?
			       camp_order(r, g) :
			       camp_signals(r, g);
	}
}

/*
 * All threads look at `stop` through the leader: else some might leave a group that others wait
 * in.
 */
ORIEL_DEV int camp_stopped(const struct camp_args *a, struct oriel_group g)
{
	int stop = 0;

	if (oriel_group_is_leader(g))
		stop = ori_load_acquire_sys(&a->report->stop) ? ORIEL_EABORTED : 0;
	return ori_group_agree(g, stop);
}

ORIEL_KERNEL(campaign_kernel, struct camp_args)
{
	struct oriel_group g = oriel_group_block();
	struct camp_run r;
	uint64_t i, done = 0;
	int err = 0;

	memset(&r, 0, sizeof(r));
	r.a = a;
	for (i = 0; i < a->count && !err; i++) {
		r.o = a->ops + i;
		if ((uint32_t)r.o->block != g.block)
			continue;
		if (camp_stopped(a, g))
			break;
		r.win = a->windows + r.o->window;
		r.place = a->places + r.o->place;
		r.tag = r.o->tag;
		if (r.o->how & CAMP_REPLAYED)
			r.tag += a->cells[r.o->cell] << 32;
		err = camp_do(&r, g);
		done++;
	}
	/* the report has what failed, so the launch itself has no more to tell */
	if (!oriel_group_is_leader(g))
		return 0;
	(void)ori_fetch_add_acq_rel_sys(&a->report->checked, done);
	if (err) {
		camp_note(&r, g, err, r.o->off, 0, 0);
		ori_store_release_sys(&a->report->stop, 1);
	}
	return 0;
}

#ifdef __cplusplus
extern "C"
#endif
	const struct oriel_kernel *const camp_kernel = &campaign_kernel;
