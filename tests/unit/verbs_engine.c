/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/verbs_engine.c - the verbs engine by its own table, over the fake library: two ranks
 * and one queue between them.  What the comm does on a machine with an RDMA device: puts, a device
 * that reports a broken link, and silence after a failure.
 */
#include <oriel/oriel.h>

#include "../check.h"

#if __has_include(<infiniband/verbs.h>)
#include <oriel/device/queue.h>

#include "engine/proxied/proxied.h"
#include "engine/verbs/verbs_engine.h"
#include "util/util.h"
#include "verbs_fake.h"

#define DEPTH 4u
#define AREA 4096u

struct told {
	int completed, doomed, failed;
	uint32_t qpn, syndrome;
};

static struct rank {
	struct ori_engine *e;
	struct oriel_queue q;
	uint32_t record[2], key[ORIEL_NICS_MAX];
	uint64_t doorbell;
	struct ori_engine_blob blob;
	struct told told;
	struct oriel_waiters waiters;
	uint8_t *area;
} ranks[2];

static void completed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe)
{
	struct told *t = ctx;

	CHECK_EQ(nic, 0);
	CHECK_EQ(wqe, t->completed);
	t->qpn = qpn;
	t->completed++;
}

static void doomed(void *ctx, uint32_t nic, uint32_t qpn)
{
	CHECK_EQ(nic, 0);
	CHECK(qpn != 0);
	((struct told *)ctx)->doomed++;
}

static void failed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct told *t = ctx;

	(void)wqe;
	CHECK_EQ(nic, 0);
	t->qpn = qpn;
	t->syndrome = syndrome;
	t->failed++;
}

static void queue_begin(struct rank *r)
{
	r->q.sq = aligned_alloc(64, DEPTH * 64);
	r->q.cq = aligned_alloc(64, DEPTH * 64);
	memset(r->q.cq, 0xa5, DEPTH * 64);
	r->q.record = r->record;
	r->q.doorbell = &r->doorbell;
	r->q.depth = DEPTH;
	r->q.log_depth = (uint32_t)__builtin_ctz(DEPTH);
}

static void rank_open(int rank)
{
	struct rank *r = &ranks[rank];
	struct ori_engine_world world = { .ctx = &r->told,
					  .waiters = &r->waiters,
					  .rank = rank,
					  .nranks = 2,
					  .doomed = doomed,
					  .failed = failed,
					  .completed = completed };
	struct ori_engine_memory m = { .bytes = AREA, .remote = 1 };
	struct ori_config config;

	setenv("ORIEL_IB_LIBRARY", "fake", 1);
	setenv("ORIEL_QUEUE_DEPTH", "4", 1);
	CHECK_EQ(ori_config_read(&config), 0);
	CHECK_EQ(ori_verbs_engine_open(&config, &world, &r->e), 0);
	r->area = calloc(1, AREA);
	m.base = r->area;
	CHECK_EQ(r->e->ops->memory_add(r->e, &m, r->key, &r->blob), 0);
	queue_begin(r);
	CHECK_EQ(r->e->ops->queue_add(r->e, 0, &r->q, 0), 0);
}

static void ranks_open(void)
{
	struct ori_engine_address address;

	fake_reset();
	memset(ranks, 0, sizeof(ranks));
	for (int r = 0; r < 2; r++)
		rank_open(r);
	for (int r = 0; r < 2; r++) {
		struct ori_engine *e = ranks[r].e, *other = ranks[1 - r].e;

		CHECK_EQ(other->ops->address(other, &address), 0);
		CHECK_EQ(e->ops->peer(e, 1 - r, &address), 0);
		CHECK_EQ(e->ops->memory_told(e, 1 - r, ranks[1 - r].key, &ranks[1 - r].blob), 0);
	}
	for (int r = 0; r < 2; r++) {
		struct ori_engine *e = ranks[r].e, *other = ranks[1 - r].e;
		uint32_t number = other->ops->queue_number(other, 0, ranks[1 - r].q.qpn);

		CHECK_EQ(e->ops->connect(e, 0, ranks[r].q.qpn, 1 - r, number), 0);
		/* a fabric has wires of its own: it takes none */
		CHECK_EQ(e->wire_bytes, 0);
		CHECK(!e->ops->wire_set);
	}
}

static void ranks_close(void)
{
	for (int r = 0; r < 2; r++) {
		struct ori_engine *e = ranks[r].e;

		e->ops->memory_remove(e, ranks[r].key);
		e->ops->close(e);
		free(ranks[r].q.sq);
		free(ranks[r].q.cq);
		free(ranks[r].area);
	}
	CHECK_EQ(fake.live, 0);
}

/* Rank 0 puts 8 bytes to the same offset of rank 1, and rings. */
static void post(uint64_t offset)
{
	struct oriel_queue *q = &ranks[0].q;

	ori_wqe_rdma(ori_queue_slot(q, q->produced), q->produced, q->qpn, ORI_WQE_RDMA_WRITE,
		     offset, ranks[1].key[0], offset, ranks[0].key[0], 8, 0);
	q->reserved = ++q->produced;
	ori_store_release32_sys(&q->record[1], ori_doorbell_record(q->produced));
	ori_store_release_sys(q->doorbell, ori_doorbell_value(q->produced, q->qpn));
}

static int drive_until(int (*done)(void))
{
	for (int i = 0; i < 10000 && !done(); i++)
		for (int r = 0; r < 2; r++)
			ranks[r].e->ops->drive(ranks[r].e);
	return done();
}

static int is_complete(void)
{
	return ori_queue_poll(&ranks[0].q, ranks[0].q.produced - 1) == 1;
}

/* Every completion is told for the trace. */
TEST(puts_are_executed_and_told)
{
	ranks_open();
	/* a fabric that routes adaptively lets writes pass each other, and nobody can ask it */
	CHECK_EQ(ranks[0].e->link_flags & ORIEL_LINK_WRITES_ORDERED, 0);
	for (int i = 0; i < 10; i++) {
		ranks[0].area[8 * i] = (uint8_t)(i + 1);
		post((uint64_t)i * 8);
		CHECK(drive_until(is_complete));
		CHECK_EQ(ranks[1].area[8 * i], i + 1);
	}
	CHECK_EQ(ranks[0].told.completed, 10);
	CHECK_EQ(ranks[0].told.qpn, ranks[0].q.qpn);
	CHECK_EQ(ranks[0].e->ops->idle(ranks[0].e), 1);
	ranks_close();
}

/* The thread of the engine takes over when the thread that drove goes to sleep. */
TEST(the_thread_takes_over)
{
	uint64_t deadline = ori_now_ns() + 20 * ORI_NS_PER_S;

	ranks_open();
	CHECK_EQ(ranks[0].e->ops->start(ranks[0].e), 0);
	ranks[0].e->ops->drive(ranks[0].e);
	ranks[0].area[0] = 77;
	post(0);
	ranks[0].e->ops->rest(ranks[0].e);
	while (!is_complete() && ori_now_ns() < deadline)
		ori_sleep_ns(100000);
	CHECK(is_complete());
	CHECK_EQ(ranks[1].area[0], 77);
	ranks_close();
}

/*
 * The device says that the queue pair is in error, before any completion does.  Fake events are of
 * no certain device, so only rank 0 looks.
 */
TEST(a_lost_link_fails_its_queue)
{
	struct proxied_engine *e;

	ranks_open();
	e = (struct proxied_engine *)ranks[0].e;
	fake.events[0].event_type = IBV_EVENT_QP_ACCESS_ERR;
	fake.events[0].element.qp = ((struct verbs_fabric *)e->nic[0].fabric)->links->qp;
	fake.nevents = 1;
	for (int i = 0; i < 10000 && !ranks[0].told.failed; i++)
		e->base.ops->drive(&e->base);
	CHECK_EQ(ranks[0].told.failed, 1);
	CHECK_EQ(ranks[0].told.doomed, 1);
	CHECK_EQ(ranks[0].told.qpn, ranks[0].q.qpn);
	CHECK(ranks[0].told.syndrome != 0);
	ranks_close();
}

static int never(void)
{
	return 0;
}

/* After a failure nothing leaves this rank and nothing is answered.  It may be said twice. */
TEST(a_silent_engine_does_nothing)
{
	ranks_open();
	CHECK_EQ(ranks[0].e->ops->start(ranks[0].e), 0);
	for (int i = 0; i < 2; i++)
		ranks[0].e->ops->silence(ranks[0].e);
	ranks[0].area[0] = 5;
	post(0);
	(void)drive_until(never);
	CHECK(!is_complete());
	CHECK_EQ(ranks[1].area[0], 0);
	CHECK_EQ(ranks[0].told.completed, 0);
	ranks_close();
}
#else
TEST(verbs_engine)
{
	check_skip("infiniband/verbs.h is not installed");
}
#endif
