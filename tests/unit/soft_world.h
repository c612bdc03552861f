/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_world.h - up to four software NICs in one process, stepped by the test, with a
 * clock that only the test moves.
 *
 * The device is the simplest one: one thread that fills a send queue, rings, and takes the CQEs one
 * by one.
 */
#ifndef ORI_TEST_SOFT_WORLD_H
#define ORI_TEST_SOFT_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "engine/soft/nic.h"
#include "engine/soft/wire.h"
#include "util/util.h"

const char *oriel_last_error(void);

#define WORLD_NICS 4
#define WORLD_PD 7u
#define WORLD_ALL (SOFT_LOCAL_WRITE | SOFT_REMOTE_WRITE | SOFT_REMOTE_READ | SOFT_REMOTE_ATOMIC)

struct world_error {
	uint32_t qpn, syndrome;
	uint64_t index;
	int count;
};

struct world_export {
	const uint8_t *base;
	uint64_t bytes;
	int device;
};

struct world {
	int n;
	uint64_t now_ns, step_ns;
	struct soft_config config;
	struct soft_nic *nic[WORLD_NICS];
	struct soft_ring *ring[WORLD_NICS][WORLD_NICS]; /* [from][to] */
	struct world_export export[WORLD_NICS][16];     /* id - 1 */
	uint32_t exports[WORLD_NICS];
	int unresolved;     /* this many resolves fail */
	soft_copy_fn *copy; /* of device memory, if there is any: soft_device.h */
	struct world_nic {
		struct world *world;
		int rank;
		struct world_error error; /* the last told */
		int kicks;
		int unreached; /* the others cannot resolve its device memory */
	} at[WORLD_NICS];
};

/* A queue pair and the device that posts on it. */
struct queue {
	struct ori_wqe *sq;
	struct ori_cqe *cq;
	uint32_t record[2];
	uint64_t doorbell;
	uint32_t depth, qpn, cqn;
	uint64_t first, next, polled;
	int rank;
};

__attribute__((unused)) static uint64_t world_clock(void *ctx)
{
	return ((struct world_nic *)ctx)->world->now_ns;
}

static const void *world_resolve(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes,
				 int *device)
{
	struct world_nic *at = ctx;
	struct world *w = at->world;
	const struct world_export *e;

	CHECK(rank != at->rank); /* a loopback needs no resolving */
	if (w->unresolved) {
		w->unresolved--;
		return NULL;
	}
	if (rank < 0 || rank >= w->n || id < 1 || id > w->exports[rank])
		return NULL;
	e = &w->export[rank][id - 1];
	*device = e->device;
	CHECK(!e->device || !w->at[rank].unreached);
	return offset > e->bytes || bytes > e->bytes - offset ? NULL : e->base + offset;
}

static int world_copy(void *ctx, void *to, const void *from, uint64_t bytes)
{
	return ((struct world_nic *)ctx)->world->copy(ctx, to, from, bytes);
}

static int world_reaches(void *ctx, int rank)
{
	struct world_nic *at = ctx;

	CHECK(rank >= 0 && rank < at->world->n);
	return !at->unreached;
}

static void world_kick(void *ctx, int rank)
{
	struct world_nic *at = ctx;

	CHECK(rank >= 0 && rank < at->world->n && rank != at->rank);
	at->kicks++;
}

static void world_error(void *ctx, uint32_t qpn, uint64_t index, uint32_t syndrome)
{
	struct world_nic *at = ctx;

	at->error.qpn = qpn;
	at->error.index = index;
	at->error.syndrome = syndrome;
	at->error.count++;
}

static void world_ring(struct world *w, int from, int to)
{
	struct soft_ring *r = aligned_alloc(128, (sizeof(*r) + 127) & ~(size_t)127);

	if (!r)
		exit(1);
	soft_ring_init(r);
	w->ring[from][to] = r;
}

/*
 * `faults` are added to a personality; all may be NULL.  copy: the copy function for device memory.
 */
__attribute__((unused)) static void world_open_device(struct world *w, int n,
						      const char *personality, const char *faults,
						      soft_copy_fn *copy)
{
	memset(w, 0, sizeof(*w));
	w->n = n;
	w->copy = copy;
	w->now_ns = 1;
	w->step_ns = 1000;
	CHECK_EQ(soft_config_personality(&w->config, personality), 0);
	CHECK_EQ(soft_config_faults(&w->config, faults), 0);
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++)
			world_ring(w, a, b);
	for (int a = 0; a < n; a++) {
		struct soft_world around = { .ctx = &w->at[a],
					     .clock = world_clock,
					     .resolve = world_resolve,
					     .kick = world_kick,
					     .error = world_error,
					     .copy = copy ? world_copy : NULL,
					     .reaches = world_reaches };

		w->at[a].world = w;
		w->at[a].rank = a;
		if (soft_nic_create(&w->config, &around, a, n, &w->nic[a]))
			exit(1);
		for (int b = 0; b < n; b++)
			soft_nic_wire(w->nic[a], b, w->ring[b][a], w->ring[a][b]);
	}
}

__attribute__((unused)) static void world_open(struct world *w, int n, const char *personality,
					       const char *faults)
{
	world_open_device(w, n, personality, faults, NULL);
}

__attribute__((unused)) static void world_close(struct world *w)
{
	for (int a = 0; a < w->n; a++)
		soft_nic_destroy(w->nic[a]);
	for (int a = 0; a < w->n; a++)
		for (int b = 0; b < w->n; b++)
			free(w->ring[a][b]);
}

/* Zero-based region; exported when asked. */
static uint32_t world_mr_of(struct world *w, int rank, void *base, uint64_t bytes, uint32_t access,
			    int exported, int device)
{
	struct soft_mr_attr attr = {
		.base = base, .bytes = bytes, .access = access, .pd = WORLD_PD, .device = device
	};
	uint32_t key = 0;

	if (exported) {
		struct world_export *e = &w->export[rank][w->exports[rank]++];

		e->base = base;
		e->bytes = bytes;
		e->device = device;
		attr.export_id = w->exports[rank];
	}
	CHECK_EQ(soft_mr_create(w->nic[rank], &attr, &key), 0);
	return key;
}

__attribute__((unused)) static uint32_t world_mr(struct world *w, int rank, void *base,
						 uint64_t bytes, uint32_t access, int exported)
{
	return world_mr_of(w, rank, base, bytes, access, exported, 0);
}

/* depth 0: a pure responder. */
__attribute__((unused)) static void queue_open(struct world *w, struct queue *q, int rank,
					       uint32_t depth, uint64_t first, int core_direct)
{
	struct soft_qp_attr attr = {
		.depth = depth, .first_index = first, .pd = WORLD_PD, .core_direct = core_direct
	};

	memset(q, 0, sizeof(*q));
	q->rank = rank;
	q->depth = depth;
	q->first = q->next = q->polled = first;
	q->record[1] = ori_doorbell_record(first);
	if (depth) {
		q->sq = aligned_alloc(64, depth * sizeof(*q->sq));
		q->cq = aligned_alloc(64, depth * sizeof(*q->cq));
		if (!q->sq || !q->cq)
			exit(1);
		memset(q->sq, 0xa5, depth * sizeof(*q->sq));
		attr.sq = q->sq;
		attr.cq = q->cq;
		attr.record = q->record;
		attr.doorbell = &q->doorbell;
	}
	CHECK_EQ(soft_qp_create(w->nic[rank], &attr, &q->qpn, &q->cqn), 0);
}

__attribute__((unused)) static void queue_connect(struct world *w, struct queue *a, struct queue *b)
{
	CHECK_EQ(soft_qp_connect(w->nic[a->rank], a->qpn, b->rank, b->qpn), 0);
	CHECK_EQ(soft_qp_connect(w->nic[b->rank], b->qpn, a->rank, a->qpn), 0);
}

__attribute__((unused)) static void queue_close(struct world *w, struct queue *q)
{
	soft_qp_destroy(w->nic[q->rank], q->qpn);
	free(q->sq);
	free(q->cq);
}

static inline struct ori_wqe *queue_slot(struct queue *q)
{
	return &q->sq[q->next & (q->depth - 1)];
}

/* The WQE at `next` was written. */
static inline void queue_ring(struct queue *q)
{
	q->next++;
	__atomic_store_n(&q->record[1], ori_doorbell_record(q->next), __ATOMIC_RELEASE);
	__atomic_store_n(&q->doorbell, ori_doorbell_value(q->next, q->qpn), __ATOMIC_RELEASE);
}

static inline int queue_full(const struct queue *q)
{
	return q->next - q->polled >= q->depth;
}

__attribute__((unused)) static void world_step(struct world *w, int budget)
{
	w->now_ns += w->step_ns;
	for (int a = 0; a < w->n; a++)
		soft_nic_step(w->nic[a], budget);
}

/* Next CQE in order: 1 if there is one, with its syndrome (0: success). */
__attribute__((unused)) static int queue_poll(struct queue *q, uint32_t *syndrome)
{
	const struct ori_cqe *cqe = &q->cq[q->polled & (q->depth - 1)];
	uint32_t word = __atomic_load_n((const uint32_t *)(const void *)&cqe->wqe_counter,
					__ATOMIC_ACQUIRE);
	uint32_t op_own = word >> 24;

	if (op_own >> 4 == ORI_CQE_INVALID || (op_own & 1) != ((q->polled / q->depth) & 1))
		return 0;
	CHECK_EQ(ori_be16((uint16_t)word), (uint16_t)q->polled);
	CHECK_EQ(ori_be32(cqe->opcode_qpn) & 0xffffff, q->qpn);
	CHECK(op_own >> 4 == ORI_CQE_REQ || op_own >> 4 == ORI_CQE_REQ_ERR);
	*syndrome = op_own >> 4 == ORI_CQE_REQ_ERR ? cqe->syndrome : 0;
	CHECK_EQ(*syndrome != 0, op_own >> 4 == ORI_CQE_REQ_ERR);
	q->polled++;
	return 1;
}

/* Steps until everything posted on `q` has its CQE; each must have this syndrome. */
__attribute__((unused)) static int queue_drain(struct world *w, struct queue *q, uint32_t want)
{
	for (int i = 0; i < 2000000; i++) {
		uint32_t syndrome;

		while (q->polled < q->next && queue_poll(q, &syndrome))
			CHECK_EQ(syndrome, want);
		if (q->polled == q->next)
			return 1;
		world_step(w, 64);
	}
	check_fail(__FILE__, __LINE__, "queue of rank %d: %llu of %llu WQEs completed", q->rank,
		   (unsigned long long)(q->polled - q->first),
		   (unsigned long long)(q->next - q->first));
	return 0;
}

__attribute__((unused)) static void world_settle(struct world *w, int steps)
{
	for (int i = 0; i < steps; i++)
		world_step(w, 64);
}

__attribute__((unused)) static void world_fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		p[i] = (uint8_t)(seed >> 24);
	}
}

__attribute__((unused)) static struct soft_stats world_stats(const struct world *w)
{
	struct soft_stats sum = { 0 }, one;

	for (int a = 0; a < w->n; a++) {
		const uint64_t *from = (const uint64_t *)(const void *)&one;
		uint64_t *to = (uint64_t *)(void *)&sum;

		soft_nic_stats(w->nic[a], &one);
		for (size_t i = 0; i < sizeof(sum) / 8; i++)
			to[i] += from[i];
	}
	return sum;
}

#endif
