/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/sms.c - multiprocessors: places for the blocks of all kernels.
 *
 * A GPU has as many as knob sms says, each with room for a number of blocks and threads.  A block
 * is placed on the SM with the most free room, and keeps its place until its last thread has ended.
 * Kernels of all streams share the SMs in the order in which they began.  As on a GPU, no block of
 * a later kernel is placed while an earlier one has blocks left.  So a kernel that fills the SMs
 * and waits for a later kernel waits for ever here, too.
 *
 * A thread of a block without a place exists, but sleeps until there is room.  Knob room=0 gives
 * every block a place at once.
 */
#include <stdlib.h>

#include "device/cpu/cpu.h"
#include "fake.h"

#define SMS_MAX 1024

struct block {
	int sm; /* -1: it waits */
	int left;
};

struct fake_grid {
	struct fake_grid *next; /* of those with blocks that wait */
	const struct fake_op *op;
	struct oriel_kernel door; /* what the pool runs */
	int gpu, unplaced;
	struct block *blocks;
};

static struct gpu {
	int threads[SMS_MAX], blocks[SMS_MAX]; /* that are taken */
	struct fake_grid *first, **last;
} gpus[FAKE_GPUS_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all this */
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

/* The SM with most free threads among those with room; -1: none. */
static int find_sm(const struct gpu *g, int threads)
{
	int n = fake_knobs.sms < SMS_MAX ? fake_knobs.sms : SMS_MAX, best = -1;

	for (int i = 0; i < n; i++)
		if (g->blocks[i] < FAKE_BLOCKS_PER_SM &&
		    g->threads[i] + threads <= FAKE_THREADS_PER_SM &&
		    (best < 0 || g->threads[i] < g->threads[best]))
			best = i;
	return best;
}

static void place(struct gpu *g, struct fake_grid *grid)
{
	while (grid->unplaced) {
		int sm = find_sm(g, grid->op->wide);

		if (sm < 0)
			return;
		g->blocks[sm]++;
		g->threads[sm] += grid->op->wide;
		grid->blocks[grid->op->nblocks - grid->unplaced--].sm = sm;
	}
}

/* Wants the lock. */
static void place_all(struct gpu *g)
{
	while (g->first) {
		place(g, g->first);
		if (g->first->unplaced)
			break;
		g->first = g->first->next;
	}
	if (!g->first)
		g->last = &g->first;
	pthread_cond_broadcast(&moved);
}

static int at_door(const void *args)
{
	struct fake_grid *grid = *(struct fake_grid *const *)args;
	struct block *b = &grid->blocks[oriel_cpu_this_thread()->block];
	struct gpu *g = &gpus[grid->gpu];
	int status;

	pthread_mutex_lock(&lock);
	while (b->sm < 0)
		pthread_cond_wait(&moved, &lock);
	pthread_mutex_unlock(&lock);
	status = grid->op->kernel->cpu(grid->op->args);
	pthread_mutex_lock(&lock);
	if (--b->left == 0) {
		g->blocks[b->sm]--;
		g->threads[b->sm] -= grid->op->wide;
		place_all(g);
	}
	pthread_mutex_unlock(&lock);
	return status;
}

int fake_grid_run(struct ori_pool *pool, const struct fake_op *op, struct ori_outcome *outcome)
{
	struct fake_grid grid = { .op = op, .gpu = op->gpu, .unplaced = op->nblocks }, *arg = &grid;
	struct gpu *g = &gpus[op->gpu];
	int err;

	if (!fake_knobs.room)
		return ori_pool_launch(pool, op->kernel, op->nblocks, op->nthreads, op->args,
				       op->kernel->args_bytes, outcome);
	grid.blocks = malloc(sizeof(*grid.blocks) * (size_t)op->nblocks);
	if (!grid.blocks)
		fake_fault("no memory to launch %s", op->kernel->name);
	for (int i = 0; i < op->nblocks; i++)
		grid.blocks[i] = (struct block){ -1, op->nthreads };
	grid.door = *op->kernel;
	grid.door.cpu = at_door;
	grid.door.args_bytes = sizeof(arg);
	pthread_mutex_lock(&lock);
	if (!g->first)
		g->last = &g->first;
	*g->last = &grid;
	g->last = &grid.next;
	place_all(g);
	pthread_mutex_unlock(&lock);
	err = ori_pool_launch(pool, &grid.door, op->nblocks, op->nthreads, &arg, sizeof(arg),
			      outcome);
	free(grid.blocks);
	return err;
}
