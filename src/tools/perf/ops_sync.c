/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/ops_sync.c - barrier of all ranks, and fetch_add at the right neighbour.
 *
 * Verification of the barrier: just before the barrier every rank counts its arrival in a word of
 * its own window.  In turn, one of the ranks arrives late.  After the barrier each rank reads the
 * words of all ranks: by a get from queued peers, whose NIC may have no atomics, otherwise by an
 * atomic.  A count that is too small means that the barrier ended early.
 *
 * Verification of the atomics: checks every value fetched.  All ranks also add to words of rank 0,
 * one word per transport: if an update is lost, the sum is too small.
 *
 * Called by oriel_launch() through measure.c, on the threads of the launch; the verify function on
 * the rank's host thread.
 */
#include "kernel.h"
#include "perf.h"

#define LATE_NS 20000u

ORIEL_DEV uint64_t word_off(uint32_t index)
{
	return PERF_DATA_OFF + (uint64_t)index * PERF_WORD_STRIDE;
}

ORIEL_DEV void be_late(void)
{
	uint64_t until = perf_now_ns() + LATE_NS;

	while (perf_now_ns() < until)
		ori_pause();
}

ORIEL_DEV int count_arrival(const struct perf_args *a, struct oriel_group g, struct perf_state *s)
{
	s->seen++;
	if (s->seen % (uint64_t)a->win.comm.nranks == (uint64_t)a->win.comm.rank)
		be_late();
	return oriel_fetch_add(&a->win, g, a->win.comm.rank, word_off(g.block), 1, NULL);
}

ORIEL_DEV int look_for_missing(const struct perf_args *a, struct oriel_group g,
			       struct perf_state *s)
{
	int peer, err = 0;

	for (peer = 0; !err && peer < a->win.comm.nranks; peer++) {
		uint64_t have = 0;

		if (oriel_peer_kind(&a->win, peer) == ORIEL_PEER_QUEUED)
			err = oriel_get_value(&a->win, g, peer, word_off(g.block), &have,
					      sizeof(have));
		else
			err = oriel_fetch_add(&a->win, g, peer, word_off(g.block), 0, &have);
		if (!err && have < s->seen)
			s->wrong++;
	}
	return err;
}

ORIEL_DEV int barrier_batch(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			    uint32_t n)
{
	int err = 0;
	uint32_t i;

	for (i = 0; !err && i < n; i++) {
		if (a->check)
			err = count_arrival(a, g, s);
		if (!err)
			err = oriel_barrier(&a->win, g, (int)g.block);
		if (!err && a->check)
			err = look_for_missing(a, g, s);
	}
	return err;
}

ORIEL_DEV int atomics_batch(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			    uint32_t n)
{
	int queued = oriel_peer_kind(&a->win, 0) == ORIEL_PEER_QUEUED;
	uint32_t i, common = g.nblocks + (uint32_t)queued;
	uint64_t old = 0;
	int err = 0;

	for (i = 0; !err && i < n; i++) {
		err = oriel_fetch_add(&a->win, g, a->to, word_off(g.block), 1, &old);
		if (!err && a->check) {
			s->wrong += old == s->seen ? 0 : sizeof(old);
			err = oriel_fetch_add(&a->win, g, 0, word_off(common), 1, NULL);
		}
		s->seen++;
	}
	return err;
}

#ifndef ORIEL_KERNEL_IMAGE
/* The common words of rank 0 must hold the sum of all blocks, ranks and passes so far. */
static int atomics_verify(struct perf_bed *bed, int pass, uint32_t n, uint64_t *wrong)
{
	const uint8_t *buffer = oriel_window_buffer(bed->window);
	uint32_t blocks = (uint32_t)bed->job->opt->blocks;
	uint64_t want = (uint64_t)(pass + 1) * n * blocks * (uint64_t)bed->job->nranks;
	uint64_t word = 0, have = 0;
	int err = oriel_comm_barrier(bed->job->comm, ORIEL_WORLD);

	if (err || bed->job->rank)
		return err;
	for (uint32_t i = 0; i < 2 && !err; i++) {
		err = oriel_copy(bed->job->comm, &word, buffer + word_off(blocks + i),
				 sizeof(word));
		have += word;
	}
	if (!err && have != want)
		*wrong += sizeof(have);
	return err;
}
#endif

ORIEL_KERNEL(barrier_kernel, struct perf_args)
{
	return perf_loop(a, barrier_batch);
}

ORIEL_KERNEL(atomics_kernel, struct perf_args)
{
	return perf_loop(a, atomics_batch);
}

#ifndef ORIEL_KERNEL_IMAGE

const struct perf_op perf_op_barrier = {
	.name = "barrier",
	.legend =
		"oriel_barrier of all ranks; time of one call; #wrong counts ranks that left early",
	.type = "none",
	.kernel = &barrier_kernel,
};

const struct perf_op perf_op_atomics = {
	.name = "atomics",
	.legend = "every rank calls fetch_add on a word of its right neighbour; time of one call",
	.type = "uint64",
	.elem_bytes = 8,
	.fixed_bytes = 8,
	.atomics = 1,
	.kernel = &atomics_kernel,
	.verify = atomics_verify,
};

#endif
