/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/look.c - one look at a queue: has it failed, is it idle?
 *
 * The doorbell record tells which WQE was rung last, so a look needs no memory of earlier looks.
 * It may come at any time, also after the queue went round many times.  Called by the watcher
 * (scan.c) and by the engine, under the engine's lock.
 */
#include <oriel/device/queue.h>

#include "mlx5.h"

struct entry {
	uint32_t opcode; /* ORI_CQE_* */
	uint16_t counter;
	uint8_t syndrome;
};

/* The CQE in the place of WQE `index`, whichever WQE it is of. */
static struct entry entry_at(const struct mlx5_queue *q, uint64_t index)
{
	const uint8_t *cqe = q->cq + (index & (q->depth - 1)) * sizeof(struct ori_cqe);
	/* [MLX1] acquire, sys; partner: the NIC, which writes the syndrome before. */
	uint32_t last = ori_load_acquire32_sys((const uint32_t *)(const void *)(cqe + 0x3c));
	struct entry e = { .opcode = last >> 28, .counter = ori_be16((uint16_t)last) };

	/* only an error CQE has a syndrome, and it stays */
	if (e.opcode == ORI_CQE_REQ_ERR)
		e.syndrome = cqe[offsetof(struct ori_cqe, syndrome)];
	return e;
}

/*
 * Is the CQE of WQE `index` there?  A place has CQEs of indices one depth apart, and a depth is at
 * most 2^15.  So 16 bits tell the WQE from those of the laps before and after.
 */
static int is_written(const struct mlx5_queue *q, uint64_t index)
{
	struct entry e = entry_at(q, index);

	return e.opcode != ORI_CQE_INVALID && e.counter == (uint16_t)index;
}

static int is_error(const struct mlx5_queue *q, uint64_t index)
{
	struct entry e = entry_at(q, index);

	return e.opcode != ORI_CQE_INVALID && e.opcode != ORI_CQE_REQ &&
	       e.counter == (uint16_t)index;
}

static uint16_t rung16(const struct mlx5_queue *q)
{
	/* [MLX2] acquire, sys; partner [QUEUE1] in ori_queue_ring(). */
	return (uint16_t)ori_be32(ori_load_acquire32_sys(&q->record[1]));
}

/*
 * How many WQEs were rung.  The record has 16 bits, so the count is exact if there is a look in
 * every 2^16 WQEs.  Otherwise it is too small by a multiple of 2^16, which only a message shows.
 */
static uint64_t rung(const struct mlx5_queue *q)
{
	uint64_t count = q->seen + (uint16_t)(rung16(q) - (uint16_t)q->seen);

	/*
	 * In the first lap the next place was never written, unless more was rung since.  Else 2^16
	 * WQEs were not seen.
	 */
	if (count < q->depth && entry_at(q, count).opcode != ORI_CQE_INVALID &&
	    rung16(q) == (uint16_t)count)
		count += 1u << 16;
	return count;
}

/* The first index from low to high where `test` gives `wanted`; high if there is none. */
static uint64_t search(const struct mlx5_queue *q, uint64_t low, uint64_t high,
		       int (*test)(const struct mlx5_queue *, uint64_t), int wanted)
{
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (test(q, middle) == wanted)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Only WQEs of the last lap may lack their CQE: a producer does not use the slot of any other. */
static uint64_t last_lap(const struct mlx5_queue *q, uint64_t count)
{
	return count < q->depth ? 0 : count - q->depth;
}

/* The first of `count` WQEs without a CQE; CQEs come in order.  Most looks need one load here. */
static uint64_t first_pending(const struct mlx5_queue *q, uint64_t count)
{
	if (!count || is_written(q, count - 1))
		return count;
	return search(q, last_lap(q, count), count, is_written, 0);
}

uint64_t mlx5_queue_pending(const struct mlx5_queue *q)
{
	return first_pending(q, rung(q));
}

/*
 * After an error there are only errors.  So if the last CQE is a success, all are.
 *
 * Producers go on meanwhile and may overwrite places of this lap.  Then the search ends too early
 * and nothing is found.  It is found by a later look: a failed queue comes to rest.
 */
int mlx5_queue_failed(struct mlx5_queue *q, uint64_t *index, uint32_t *syndrome)
{
	uint64_t count = rung(q), first = last_lap(q, count), end = first_pending(q, count);

	q->seen = count;
	if (end == first || !is_error(q, end - 1))
		return 0;
	*index = search(q, first, end, is_error, 1);
	*syndrome = entry_at(q, *index).syndrome;
	return 1;
}

int mlx5_queue_idle(const struct mlx5_queue *q)
{
	uint16_t count = rung16(q);
	struct entry e = entry_at(q, (uint64_t)count + 65535);

	if (e.opcode == ORI_CQE_INVALID)
		return count == 0;
	return e.counter == (uint16_t)(count - 1);
}
