/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/node_move.h - how a long call combines elements: straight from the memory of all ranks,
 * and straight to where results go.
 *
 * Included by: reduce_node.c, scatter_node.c.  Runs on all threads of a block.
 */
#ifndef ORI_KERNELS_NODE_MOVE_H
#define ORI_KERNELS_NODE_MOVE_H

#include "node.h"

#ifdef ORIEL_KERNEL_IMAGE
#define ori_any_reducer ori_reducer_of
#else
#include "loops.h"
#endif

/* The sums that most programs need; a GPU combines their elements without a call per word. */
#define ORI_REDUCE_ANY 0
#define ORI_REDUCE_SUM_FLOAT 1
#define ORI_REDUCE_SUM_HALF 2
#define ORI_REDUCE_SUM_BFLOAT16 3

ORIEL_DEV int ori_node_usual(const struct ori_terms *call)
{
	if (!ORIEL_ON_GPU || call->op != ORIEL_REDUCE_SUM)
		return ORI_REDUCE_ANY;
	return call->type == ORIEL_TYPE_FLOAT    ? ORI_REDUCE_SUM_FLOAT :
	       call->type == ORIEL_TYPE_HALF     ? ORI_REDUCE_SUM_HALF :
	       call->type == ORIEL_TYPE_BFLOAT16 ? ORI_REDUCE_SUM_BFLOAT16 :
						   ORI_REDUCE_ANY;
}

/* `usual` is a constant where this is inlined. */
ORIEL_DEV uint64_t ori_node_word(struct ori_reducer how, struct ori_row row, int n, int usual)
{
	if (usual == ORI_REDUCE_SUM_FLOAT)
		return ori_sum_float_word_here(row, n);
	if (usual == ORI_REDUCE_SUM_HALF)
		return ori_sum_half_word_here(row, n);
	if (usual == ORI_REDUCE_SUM_BFLOAT16)
		return ori_sum_bfloat16_word_here(row, n);
	return ori_reducer_word(how, row, n);
}

/* What a kernel combines.  Its parts are local variables or constants where they are used. */
struct ori_node_task {
	uint64_t off;  /* of the elements in the memory of every rank */
	uint64_t i;    /* the first unit of 16 bytes */
	uint64_t end;  /* behind the last one */
	uint8_t *only; /* where results go; NULL: to the memory of all ranks */
};

/*
 * Called by all threads: combines this thread's share of the units.  The compiler keeps addresses
 * in registers only if they are local variables.
 */
ORIEL_DEV void ori_node_loop(const struct ori_node_op *a, struct oriel_group g,
			     const struct ori_node_reach *reach, struct ori_node_task task,
			     int usual)
{
	struct ori_reducer how = ori_any_reducer(a->call.type, a->call.op);
	struct ori_row low = { { 0 } }, high = { { 0 } };
	uint64_t step = (uint64_t)g.nblocks * g.size, i = task.i;
	uint8_t *from[ORI_WORD_SOURCES], *to[ORI_WORD_SOURCES];
	int r, n = a->comm.nranks;

	ORI_UNROLL
	for (r = 0; r < ORI_WORD_SOURCES; r++) {
		from[r] = r < n ? reach->send[r] + task.off : NULL;
		to[r] = r < n && !task.only ? reach->recv[r] : NULL;
	}
	for (i += (uint64_t)g.block * g.size + g.thread; i < task.end; i += step) {
		uint64_t first, second;

		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < n)
				ori_pair_load(from[r] + 16u * i, &low.word[r], &high.word[r]);
		first = ori_node_word(how, low, n, usual);
		second = ori_node_word(how, high, n, usual);
		if (task.only) {
			ori_pair_store(task.only + 16u * i, first, second);
			continue;
		}
		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < n)
				ori_pair_store(to[r] + 16u * i, first, second);
	}
}

/* Loops of all sums but the most usual one. */
ORIEL_DEV void ori_node_unusual(const struct ori_node_op *a, struct oriel_group g,
				const struct ori_node_reach *reach, struct ori_node_task task)
{
	switch (ori_node_usual(&a->call)) {
	case ORI_REDUCE_SUM_HALF:
		ori_node_loop(a, g, reach, task, ORI_REDUCE_SUM_HALF);
		break;
	case ORI_REDUCE_SUM_BFLOAT16:
		ori_node_loop(a, g, reach, task, ORI_REDUCE_SUM_BFLOAT16);
		break;
	default:
		ori_node_loop(a, g, reach, task, ORI_REDUCE_ANY);
	}
}

/* Called by all threads: this block's share of n bytes, in whole lines of 128. */
ORIEL_DEV void ori_node_copy(struct oriel_group g, uint8_t *to, const uint8_t *from, uint64_t n)
{
	uint64_t share = (n / g.nblocks + 128u) & ~(uint64_t)127, begin = share * g.block;

	if (begin < n)
		ori_group_copy(g, to + begin, from + begin, ori_coll_least(n - begin, share));
}

#endif
