/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/queue.c - the table of queues: numbers, creation, connection, removal.
 *
 * A number is (generation << 14 | place), never 0 and below 2^23.  So a completion, doorbell or WQE
 * of a removed queue does not match the next queue in the same place.
 *
 * Called by the engine; the caller serialises with ori_proxy_step().
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

#define PLACES PROXY_PLACES
#define GENERATIONS (1u << (23 - PROXY_PLACE_BITS))
#define FIRST_ROOM 64u   /* a whole word of each bit map */
#define DEPTH_MAX 32768u /* so that 16 bits are enough for the distance of a doorbell */

/*
 * Returns a larger copy of an array, with zeros in the new part.  NULL: no memory, the old array
 * stays.
 */
static void *enlarged(void *array, size_t old, size_t count, size_t size)
{
	uint8_t *made = realloc(array, count * size);

	if (!made) {
		ori_fail(ORIEL_ENOMEM, "proxy: no memory for %zu queues", count);
		return NULL;
	}
	memset(made + old * size, 0, (count - old) * size);
	return made;
}

static int grow(struct ori_proxy *p)
{
	uint32_t old = p->queue_room, room = old ? old * 2 : FIRST_ROOM;
	void *made;

	if (room > PLACES)
		return ori_fail(ORIEL_ENOMEM, "proxy: all of its %u queues are in use", PLACES);
	made = enlarged(p->queues, old, room, sizeof(*p->queues));
	if (!made)
		return ORIEL_ENOMEM;
	p->queues = made;
	made = enlarged(p->generations, old, room, sizeof(*p->generations));
	if (!made)
		return ORIEL_ENOMEM;
	p->generations = made;
	made = enlarged(p->active, old / 64, room / 64, sizeof(*p->active));
	if (!made)
		return ORIEL_ENOMEM;
	p->active = made;
	made = enlarged(p->again, old / 64, room / 64, sizeof(*p->again));
	if (!made)
		return ORIEL_ENOMEM;
	p->again = made;
	p->queue_room = room;
	return 0;
}

static int misaligned(const void *at, uintptr_t to)
{
	return ((uintptr_t)at & (to - 1)) != 0;
}

static int bad_queue(const struct oriel_queue *q)
{
	if (!q->sq || !q->cq || !q->doorbell || !q->depth || q->depth > DEPTH_MAX ||
	    q->depth & (q->depth - 1))
		return 1;
	return misaligned(q->sq, 8) || misaligned(q->cq, 8) || misaligned(q->doorbell, 8);
}

static struct proxy_queue *allocate(const struct oriel_queue *from, int core_direct)
{
	struct proxy_queue *q = calloc(1, sizeof(*q));

	if (q)
		q->slots = calloc(from->depth, sizeof(*q->slots));
	if (!q || !q->slots) {
		free(q);
		ori_fail(ORIEL_ENOMEM, "proxy: no memory for a queue of %u blocks", from->depth);
		return NULL;
	}
	/*
	 * Copies, because the device can overwrite its own struct and must not redirect the proxy.
	 */
	q->sq = (const struct ori_wqe *)(const void *)from->sq;
	q->cq = (struct ori_cqe *)(void *)from->cq;
	q->doorbell = from->doorbell;
	q->depth = from->depth;
	q->core_direct = core_direct;
	q->pi = q->next = q->ci = q->cq_count = from->produced;
	return q;
}

int ori_proxy_queue_add(struct ori_proxy *p, struct oriel_queue *from, int core_direct)
{
	struct proxy_queue *q;
	uint32_t place = 1;
	int err;

	if (bad_queue(from))
		return ori_fail(ORIEL_EINVAL,
				"proxy: a queue of %u blocks needs 1 to %u, a power of two, and "
				"memory aligned to 8 bytes",
				from->depth, DEPTH_MAX);
	if (p->queue_count + 1 >= p->queue_room) {
		err = grow(p);
		if (err)
			return err;
	}
	q = allocate(from, core_direct);
	if (!q)
		return ORIEL_ENOMEM;
	while (p->queues[place])
		place++; /* place 0 is not counted, so one is free */
	q->place = place;
	q->number = (uint32_t)p->generations[place] << PROXY_PLACE_BITS | place;
	p->generations[place] = (uint16_t)((p->generations[place] + 1u) % GENERATIONS);
	p->queues[place] = q;
	p->queue_count++;
	ori_proxy_cq_init(q);
	from->qpn = q->number;
	from->cqn = q->number | PROXY_CQN_BIT;
	return 0;
}

int ori_proxy_queue_connect(struct ori_proxy *p, uint32_t qpn, int rank, void *link)
{
	struct proxy_queue *q = proxy_queue_find(p, qpn);
	int loopback = rank == p->attr.rank;

	if (!q || q->state != QUEUE_RESET || rank < 0 || rank >= p->attr.nranks ||
	    loopback != !link)
		return ori_fail(ORIEL_EINVAL, "proxy: cannot connect queue pair 0x%x to rank %d",
				qpn, rank);
	q->rank = rank;
	q->link = link;
	q->state = QUEUE_READY;
	return 0;
}

void ori_proxy_queue_fail(struct ori_proxy *p, uint32_t qpn, uint32_t syndrome)
{
	struct proxy_queue *q = proxy_queue_find(p, qpn);

	if (q)
		ori_proxy_cq_error(p, q, syndrome);
}

static void free_queue(struct proxy_queue *q)
{
	free(q->slots);
	free(q);
}

void ori_proxy_queue_remove(struct ori_proxy *p, uint32_t qpn)
{
	struct proxy_queue *q = proxy_queue_find(p, qpn);
	uint64_t bit;

	if (!q)
		return;
	/* A queue that waits for this CQ finds that it is gone, and fails. */
	while (q->waiters) {
		proxy_activate(p, q->waiters);
		ori_proxy_cq_unwait(q->waiters);
	}
	ori_proxy_cq_unwait(q);
	bit = 1ull << (q->place % 64);
	p->active[q->place / 64] &= ~bit;
	p->again[q->place / 64] &= ~bit;
	p->outstanding -= q->pi - q->ci;
	p->queues[q->place] = NULL;
	p->queue_count--;
	free_queue(q);
}

void ori_proxy_queues_free(struct ori_proxy *p)
{
	for (uint32_t i = 0; i < p->queue_room; i++)
		if (p->queues[i])
			free_queue(p->queues[i]);
	free(p->queues);
	free(p->generations);
	free(p->active);
	free(p->again);
}
