/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/kernel.h - what every kernel of oriel-perf shares: its argument and its loop.
 *
 * Owns the layout of one measured run (warm-up, then samples of `batch` operations each) and the
 * division of a size among blocks.  The operation itself is a batch function in ops_*.c.
 *
 * Included by ops_*.c (kernels) and measure.c (fills the argument).  With nvcc, ops_*.c are
 * compiled twice: for the host, and with ORIEL_KERNEL_IMAGE for the GPU (kernels.cu).
 * Runs on all threads of a launch; only a block's leader writes results.
 */
#ifndef ORI_PERF_KERNEL_H
#define ORI_PERF_KERNEL_H

#include <oriel/device.h>
#include <oriel/oriel.h>

#include <time.h>

/* Data starts one page into the buffers; the guard bytes just before and after it are checked. */
#define PERF_DATA_OFF 4096u
#define PERF_GUARD 64u
/* Distance of words that different ranks or blocks write. */
#define PERF_WORD_STRIDE 128u

/* The part of a rank in a ping-pong. */
#define PERF_ANSWERS 0
#define PERF_STARTS 1
#define PERF_ALONE 2

/* How a block learns that a put is complete. */
#define PERF_TICKET 0
#define PERF_COUNTER 1

struct perf_args {
	struct oriel_window_dev win;
	struct oriel_source local; /* put source, get and receive target */
	uint64_t bytes;
	uint64_t seen;    /* operations that earlier launches on this window counted */
	uint64_t chunk;   /* sendrecv: bytes that a send can move without waiting for a receive */
	int32_t to, from; /* neighbours on the ring; in a ping-pong both are the partner */
	int32_t turn;     /* PERF_STARTS, ... */
	uint32_t warm;    /* operations before the first sample */
	uint32_t samples;
	uint32_t batch;     /* operations in a sample */
	uint32_t check;     /* 1: a verification pass, which also looks for waits that end early */
	uint32_t variant;   /* completion: PERF_TICKET or PERF_COUNTER */
	uint32_t fan;       /* fanout: how many peers */
	uint32_t shift;     /* ring distance of `to`; fanout: of its first peer */
	uint64_t *times;    /* [block][sample]: nanoseconds per batch */
	uint64_t *wrong;    /* [block]: wrong bytes or early ends that the kernel found */
	uint64_t *seen_out; /* block 0: `seen` after this launch */
};

/* What a block keeps between batches.  The same in all threads, except `wrong` (leader only). */
struct perf_state {
	uint64_t seen;
	uint64_t wrong;
};

typedef int perf_batch_fn(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			  uint32_t n);

struct perf_piece {
	uint64_t begin;
	uint64_t bytes;
};

ORIEL_DEV uint64_t perf_now_ns(void)
{
#if ORIEL_ON_GPU
	uint64_t ns;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns)::"memory");
	return ns;
#else
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

/* This block's share of `bytes`: whole cache lines, so that no two blocks write one line. */
ORIEL_DEV struct perf_piece perf_piece(uint64_t bytes, struct oriel_group g)
{
	uint64_t share = (bytes + g.nblocks - 1) / g.nblocks;
	struct perf_piece p;

	share = (share + 63u) & ~(uint64_t)63;
	p.begin = share * g.block < bytes ? share * g.block : bytes;
	p.bytes = bytes - p.begin < share ? bytes - p.begin : share;
	return p;
}

/* Ring distance of the j-th peer of a fan-out; the first has `first`, this rank is left out. */
ORIEL_DEV int perf_fan_shift(int nranks, int first, int j)
{
	int shift = first + j;

	return shift < nranks ? shift : shift - nranks + 1;
}

/*
 * The loop of every kernel.  An error ends it; all threads of a group get the same error.  s: what
 * the batches keep, which may be more than struct perf_state.
 */
ORIEL_DEV int perf_loop_with(const struct perf_args *a, struct oriel_group g, perf_batch_fn *batch,
			     struct perf_state *s)
{
	uint32_t i;
	int err;

	s->seen = a->seen;
	s->wrong = 0;
	err = a->warm ? batch(a, g, s, a->warm) : 0;
	for (i = 0; !err && i < a->samples; i++) {
		uint64_t start = perf_now_ns();

		err = batch(a, g, s, a->batch);
		if (!err && oriel_group_is_leader(g))
			a->times[(uint64_t)g.block * a->samples + i] = perf_now_ns() - start;
	}
	if (!oriel_group_is_leader(g))
		return err;
	a->wrong[g.block] = s->wrong;
	if (g.block == 0)
		*a->seen_out = s->seen;
	return err;
}

ORIEL_DEV int perf_loop(const struct perf_args *a, perf_batch_fn *batch)
{
	struct perf_state s;

	return perf_loop_with(a, oriel_group_block(), batch, &s);
}

#endif
