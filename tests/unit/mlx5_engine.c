/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mlx5_engine.c - the mlx5 engine's own code over a stub of libmlx5 whose NIC is the
 * software NIC: two ranks, a main queue between them, and a companion queue in loopback.
 */
#include <oriel/oriel.h>

#include "../check.h"

#if __has_include(<infiniband/mlx5dv.h>)
#include <oriel/device/queue.h>

#include "mlx5_stub.h"

#define AREA 16384u

struct told {
	int doomed, failed;
	uint32_t qpn, syndrome;
	uint64_t wqe;
};

struct pair {
	struct ori_engine *e[2];
	struct told told[2];
	struct oriel_queue main[2], companion;
	uint32_t key[2][ORIEL_NICS_MAX];
	uint8_t *area[2];
};

static void doomed(void *ctx, uint32_t nic, uint32_t qpn)
{
	struct told *t = ctx;

	CHECK_EQ(nic, 0);
	CHECK_EQ(t->failed, 0);
	t->qpn = qpn;
	__atomic_add_fetch(&t->doomed, 1, __ATOMIC_RELAXED);
}

static void failed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct told *t = ctx;

	CHECK_EQ(nic, 0);
	CHECK_EQ(qpn, t->qpn);
	CHECK_EQ(t->doomed, 1);
	t->wqe = wqe;
	t->syndrome = syndrome;
	/* release; partner: the thread's test */
	__atomic_store_n(&t->failed, 1, __ATOMIC_RELEASE);
}

static void queue_begin(struct oriel_queue *q, uint32_t depth)
{
	memset(q, 0, sizeof(*q));
	q->depth = depth;
	q->log_depth = (uint32_t)__builtin_ctz(depth);
}

/* PSNs of both ends agree: what one sends first the other expects first. */
static void check_psns(void)
{
	for (struct stub_queue *a = stub.queues; a; a = a->next)
		for (struct stub_queue *b = stub.queues; b; b = b->next)
			if (a->peer == b->rank && a->dest == b->qpn && a->state == IBV_QPS_RTS) {
				CHECK_EQ(a->send_psn, b->receive_psn);
				CHECK_EQ(a->receive_psn, b->send_psn);
			}
}

static void meet(struct pair *p)
{
	struct ori_engine_address address;
	uint32_t responder = 0;

	for (int r = 0; r < 2; r++) {
		CHECK_EQ(p->e[r]->ops->address(p->e[r], &address), 0);
		CHECK_EQ(p->e[1 - r]->ops->peer(p->e[1 - r], r, &address), 0);
	}
	for (int r = 0; r < 2; r++)
		CHECK_EQ(p->e[r]->ops->connect(p->e[r], 0, p->main[r].qpn, 1 - r,
					       p->e[1 - r]->ops->queue_number(p->e[1 - r], 0,
									      p->main[1 - r].qpn)),
			 0);
	CHECK_EQ(p->e[0]->ops->responder_add(p->e[0], 0, &responder), 0);
	CHECK_EQ(p->e[0]->ops->connect(p->e[0], 0, p->companion.qpn, 0, responder), 0);
	CHECK_EQ(p->e[0]->ops->connect(p->e[0], 0, responder, 0, p->companion.qpn), 0);
	check_psns();
}

static void pair_open(struct pair *p, const char *depth, int device_posts)
{
	struct ori_config config;

	stub_open_world();
	memset(p, 0, sizeof(*p));
	for (int r = 0; r < 2; r++) {
		struct ori_engine_world world = { .ctx = &p->told[r],
						  .rank = r,
						  .nranks = 2,
						  .doomed = doomed,
						  .failed = failed,
						  .reach = device_posts ? stub_reach : NULL,
						  .unreach = stub_unreach,
						  .device_posts = device_posts };
		struct ori_engine_memory m = { .bytes = AREA, .remote = 1 };

		stub_config(&config, r, depth);
		CHECK_EQ(ori_mlx5_engine_open(&config, &world, &p->e[r]), 0);
		p->area[r] = aligned_alloc(4096, AREA);
		memset(p->area[r], 0, AREA);
		m.base = p->area[r];
		CHECK_EQ(p->e[r]->ops->memory_add(p->e[r], &m, p->key[r], NULL), 0);
		queue_begin(&p->main[r], (uint32_t)config.depth);
		CHECK_EQ(p->e[r]->ops->queue_add(p->e[r], 0, &p->main[r], 0), 0);
	}
	queue_begin(&p->companion, (uint32_t)config.depth);
	CHECK_EQ(p->e[0]->ops->queue_add(p->e[0], 0, &p->companion, 1), 0);
	meet(p);
}

static void pair_close(struct pair *p)
{
	for (int r = 0; r < 2; r++) {
		p->e[r]->ops->memory_remove(p->e[r], p->key[r]);
		p->e[r]->ops->close(p->e[r]);
		free(p->area[r]);
	}
	stub_close_world();
}

/* The simplest of devices: one thread. */
static struct ori_wqe *slot(struct oriel_queue *q)
{
	return ori_queue_slot(q, q->produced);
}

static void ring(struct pair *p, struct oriel_queue *q)
{
	q->reserved = ++q->produced;
	ori_store_release32_sys(&q->record[1], ori_doorbell_record(q->produced));
	ori_store_release_sys(q->doorbell, ori_doorbell_value(q->produced, q->qpn));
	p->e[0]->ops->drive(p->e[0]);
}

/* Of rank 0's area to rank 1's, at the same offset. */
static void put(struct pair *p, uint64_t offset, uint32_t bytes, uint32_t key)
{
	struct oriel_queue *q = &p->main[0];

	ori_wqe_rdma(slot(q), q->produced, q->qpn, ORI_WQE_RDMA_WRITE, offset, key, offset,
		     p->key[0][0], bytes, 0);
	ring(p, q);
}

/* Until the last WQE of the queue is done: 1, or the poll's status. */
static int finish(struct oriel_queue *q)
{
	int done = 0;

	for (int i = 0; i < 100000 && !done; i++) {
		world_step(&stub.world, 64);
		done = ori_queue_poll(q, q->produced - 1);
	}
	return done;
}

TEST(a_put_arrives)
{
	struct pair p;

	pair_open(&p, "16", 0);
	/* a fabric that routes adaptively lets writes pass each other, and nobody can ask it */
	CHECK_EQ(p.e[0]->link_flags & ORIEL_LINK_WRITES_ORDERED, 0);
	/* four blocks a request, and still as asked */
	CHECK_EQ(p.main[0].depth, 16);
	CHECK_EQ(p.companion.depth, 16);
	world_fill(p.area[0], AREA, 1);
	put(&p, 100, 9000, p.key[1][0]);
	CHECK_EQ(finish(&p.main[0]), 1);
	CHECK(!memcmp(p.area[1] + 100, p.area[0] + 100, 9000));
	CHECK_EQ(p.area[1][99] | p.area[1][9100], 0);
	CHECK_EQ(mlx5_watch_scan((struct mlx5_engine *)p.e[0]), 0);
	pair_close(&p);
}

/* oriel-perf adds up the numbers of all ranks: each has words before it, and they are counts. */
TEST(statistics_are_counts)
{
	struct pair p;
	char text[256];

	pair_open(&p, "16", 0);
	p.e[0]->ops->statistics(p.e[0], text, sizeof(text));
	CHECK(!strncmp(text, "looks at queues ", 16));
	CHECK_HAS(text, ", events 0, failed queues 0");
	pair_close(&p);
}

TEST(rings_go_round)
{
	struct pair p;

	pair_open(&p, "4", 0);
	for (uint32_t i = 0; i < 1000; i++) {
		p.area[0][i] = (uint8_t)(i * 7 + 1);
		put(&p, i, 1, p.key[1][0]);
		CHECK_EQ(finish(&p.main[0]), 1);
		if (i % 3 == 0)
			CHECK_EQ(mlx5_watch_scan((struct mlx5_engine *)p.e[0]), 0);
	}
	CHECK(!memcmp(p.area[1], p.area[0], 1000));
	pair_close(&p);
}

TEST(reads_and_atomics)
{
	struct pair p;
	struct oriel_queue *q = &p.main[0];
	uint64_t *there, *here;

	pair_open(&p, "16", 0);
	there = (uint64_t *)(void *)p.area[1];
	here = (uint64_t *)(void *)p.area[0];
	there[0] = 40;
	there[5] = 0x1234;
	ori_wqe_fetch_add(slot(q), q->produced, q->qpn, 0, p.key[1][0], 2, 8, p.key[0][0], 0);
	ring(&p, q);
	CHECK_EQ(finish(q), 1);
	CHECK_EQ(there[0], 42);
	CHECK_EQ(here[1], 40);
	ori_wqe_compare_swap(slot(q), q->produced, q->qpn, 0, p.key[1][0], 42, 7, 16, p.key[0][0],
			     0);
	ring(&p, q);
	ori_wqe_rdma(slot(q), q->produced, q->qpn, ORI_WQE_RDMA_READ, 40, p.key[1][0], 64,
		     p.key[0][0], 8, 0);
	ring(&p, q);
	CHECK_EQ(finish(q), 1);
	CHECK_EQ(there[0], 7);
	CHECK_EQ(here[2], 42);
	CHECK_EQ(here[8], 0x1234);
	pair_close(&p);
}

/* The companion waits for the main queue's CQE and adds to a counter of its own rank. */
TEST(wait_and_counter)
{
	struct pair p;
	struct oriel_queue *q = &p.companion;
	uint64_t *counter;

	pair_open(&p, "8", 0);
	counter = (uint64_t *)(void *)(p.area[0] + 8192);
	for (uint64_t i = 0; i < 40; i++) {
		ori_wqe_wait(slot(q), q->produced, q->qpn, p.main[0].cqn, (uint32_t)i);
		ring(&p, q);
		ori_wqe_fetch_add(slot(q), q->produced, q->qpn, 8192, p.key[0][0], 1, 8200,
				  p.key[0][0], 0);
		ring(&p, q);
		world_settle(&stub.world, 20);
		CHECK_EQ(*counter, i);
		CHECK_EQ(p.e[0]->ops->idle(p.e[0]), 0);
		put(&p, 0, 64, p.key[1][0]);
		CHECK_EQ(finish(q), 1);
		CHECK_EQ(*counter, i + 1);
		CHECK_EQ(finish(&p.main[0]), 1);
		CHECK_EQ(p.e[0]->ops->idle(p.e[0]), 1);
	}
	pair_close(&p);
}

/* WAIT takes the CQE of a failed WQE for one: who waits for the count must look at the queue. */
TEST(a_count_is_looked_into)
{
	struct pair p;
	struct oriel_queue *q = &p.companion;
	uint64_t *counter;

	pair_open(&p, "8", 0);
	counter = (uint64_t *)(void *)(p.area[0] + 8192);
	for (uint64_t i = 0; i < 20; i++) {
		CHECK_EQ(ori_queue_verify(&p.main[0]), 0);
		put(&p, 0, 64, i < 19 ? p.key[1][0] : p.key[1][0] ^ 0x5500);
		ori_wqe_wait(slot(q), q->produced, q->qpn, p.main[0].cqn, (uint32_t)i);
		ring(&p, q);
		ori_wqe_fetch_add(slot(q), q->produced, q->qpn, 8192, p.key[0][0], 1, 8200,
				  p.key[0][0], 0);
		ring(&p, q);
		CHECK_EQ(finish(q), 1);
		CHECK_EQ(*counter, i + 1);
		/* the caller of reserve would have noted it by now */
		if (i % 5 == 4)
			CHECK_EQ(ori_queue_poll(&p.main[0], i), i < 19 ? 1 : ORIEL_EREMOTE);
	}
	CHECK_EQ(ori_queue_verify(&p.main[0]), ORIEL_EREMOTE);
	CHECK_EQ(p.told[0].failed, 0);
	pair_close(&p);
}

/* A main queue may not wait: it was not made for it. */
TEST(only_companions_wait)
{
	struct pair p;
	struct oriel_queue *q = &p.main[0];

	pair_open(&p, "8", 0);
	ori_wqe_wait(slot(q), q->produced, q->qpn, p.companion.cqn, 0);
	ring(&p, q);
	CHECK_EQ(finish(q), ORIEL_EREMOTE);
	CHECK_EQ(mlx5_watch_scan((struct mlx5_engine *)p.e[0]), 1);
	CHECK_EQ(p.told[0].syndrome, ORI_SYNDROME_LOCAL_QP_OP);
	pair_close(&p);
}

/* Under addresses the kernel does not take: by a key over the key; and its ends are its ends. */
TEST(memory_anywhere)
{
	struct pair p;
	struct ori_engine_memory m = { .bytes = 200, .remote = 1 };
	uint32_t key[ORIEL_NICS_MAX];

	pair_open(&p, "8", 0);
	CHECK_EQ(stub.keys, 0);
	m.base = p.area[1] + 1003;
	m.iova = 3;
	CHECK_EQ(p.e[1]->ops->memory_add(p.e[1], &m, key, NULL), 0);
	CHECK_EQ(stub.keys, 1);
	world_fill(p.area[0], 256, 3);
	put(&p, 3, 200, key[0]);
	CHECK_EQ(finish(&p.main[0]), 1);
	CHECK(!memcmp(p.area[1] + 1003, p.area[0] + 3, 200));
	CHECK_EQ(p.area[1][1002] | p.area[1][1203], 0);
	put(&p, 4, 200, key[0]);
	CHECK_EQ(finish(&p.main[0]), ORIEL_EREMOTE);
	p.e[1]->ops->memory_remove(p.e[1], key);
	/* by its address: no second key */
	m.iova = (uintptr_t)m.base;
	m.remote = 0;
	CHECK_EQ(p.e[1]->ops->memory_add(p.e[1], &m, key, NULL), 0);
	CHECK_EQ(stub.keys, 1);
	p.e[1]->ops->memory_remove(p.e[1], key);
	pair_close(&p);
}

/* By dma-buf, else as the host's, and by a key over a key only if pages do not agree. */
TEST(memory_of_a_gpu)
{
	static const struct {
		int no_dmabuf, iova, dmabufs, keys;
	} cases[] = { { 0, 1003, 1, 0 }, { 1, 1003, 0, 0 }, { 0, 3, 1, 1 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ori_engine_memory m = { .bytes = 200, .remote = 1, .device = 1 };
		uint32_t key[ORIEL_NICS_MAX];
		struct pair p;

		pair_open(&p, "8", 0);
		((struct mlx5_engine *)p.e[1])->nic[0].v.world.dmabuf = stub_dmabuf;
		stub.no_dmabuf = cases[i].no_dmabuf;
		m.base = p.area[1] + 1003;
		m.iova = (uint64_t)cases[i].iova;
		CHECK_EQ(p.e[1]->ops->memory_add(p.e[1], &m, key, NULL), 0);
		CHECK_EQ(stub.dmabufs, cases[i].dmabufs);
		CHECK_EQ(stub.keys, cases[i].keys);
		world_fill(p.area[0], 2048, 3);
		put(&p, m.iova, 200, key[0]);
		CHECK_EQ(finish(&p.main[0]), 1);
		CHECK(!memcmp(p.area[1] + 1003, p.area[0] + m.iova, 200));
		p.e[1]->ops->memory_remove(p.e[1], key);
		pair_close(&p);
	}
}

/* `good` puts, then one with a wrong key and two more; *every* looks in between, or none. */
static void fail_after(uint32_t good, int watched)
{
	struct pair p;
	struct mlx5_engine *e;

	pair_open(&p, "8", 0);
	e = (struct mlx5_engine *)p.e[0];
	for (uint32_t i = 0; i < good; i++) {
		put(&p, i % 64, 8, p.key[1][0]);
		CHECK_EQ(finish(&p.main[0]), 1);
		if (watched)
			CHECK_EQ(mlx5_watch_scan(e), 0);
	}
	put(&p, 0, 8, p.key[1][0] ^ 0x5500);
	put(&p, 0, 8, p.key[1][0]);
	put(&p, 0, 8, p.key[1][0]);
	CHECK_EQ(finish(&p.main[0]), ORIEL_EREMOTE);
	CHECK_EQ(mlx5_watch_scan(e), 1);
	CHECK_EQ(p.told[0].doomed, 1);
	CHECK_EQ(p.told[0].failed, 1);
	CHECK_EQ(p.told[0].qpn, p.main[0].qpn);
	CHECK_EQ(p.told[0].syndrome, ORI_SYNDROME_REMOTE_ACCESS);
	CHECK_EQ((uint16_t)p.told[0].wqe, (uint16_t)good);
	if (watched)
		CHECK_EQ(p.told[0].wqe, good);
	/* told once */
	for (int i = 0; i < 100; i++)
		CHECK_EQ(mlx5_watch_scan(e), 0);
	pair_close(&p);
}

TEST(an_error_is_told_once)
{
	for (uint32_t good = 0; good < 20; good++)
		fail_after(good, 1);
}

TEST(an_error_is_found_after_laps)
{
	for (uint32_t good = 0; good < 40; good++)
		fail_after(good, 0);
	fail_after(65536 - 8, 0);
	fail_after(65536 - 5, 0);
	fail_after(32768 + 3, 0);
	/* the record's 16 bits begin again, with the failed WQE before or after that */
	for (uint32_t good = 65536 - 3; good < 65536 + 10; good++)
		fail_after(good, 0);
}

TEST(an_event_is_told)
{
	struct pair p;
	struct mlx5_engine *e;

	pair_open(&p, "8", 0);
	e = (struct mlx5_engine *)p.e[1];
	for (struct mlx5_queue *q = e->nic[0].queues; q; q = q->next)
		if (q->qpn == p.main[1].qpn) {
			fake.events[0].event_type = IBV_EVENT_QP_ACCESS_ERR;
			fake.events[0].element.qp = q->link.qp;
			fake.nevents = 1;
		}
	CHECK_EQ(mlx5_watch_scan(e), 1);
	CHECK_EQ(p.told[1].qpn, p.main[1].qpn);
	CHECK(p.told[1].syndrome != 0);
	pair_close(&p);
}

TEST(the_thread_watches)
{
	struct pair p;
	uint64_t deadline = ori_now_ns() + 20 * ORI_NS_PER_S;

	pair_open(&p, "8", 0);
	CHECK_EQ(p.e[0]->ops->start(p.e[0]), 0);
	for (int i = 0; i < 100; i++) {
		put(&p, 0, 8, p.key[1][0]);
		CHECK_EQ(finish(&p.main[0]), 1);
	}
	put(&p, 0, 8, p.key[1][0] ^ 0x5500);
	CHECK_EQ(finish(&p.main[0]), ORIEL_EREMOTE);
	while (!__atomic_load_n(&p.told[0].failed, __ATOMIC_ACQUIRE) && ori_now_ns() < deadline)
		ori_sleep_ns(1000000);
	CHECK_EQ(p.told[0].syndrome, ORI_SYNDROME_REMOTE_ACCESS);
	pair_close(&p);
}

/* Where a GPU posts all it touches is mapped for it, and unmapped (checked at the world's end). */
TEST(queues_in_reach_of_a_gpu)
{
	struct pair p;

	pair_open(&p, "16", 1);
	CHECK(stub.doorbells >= 2);
	CHECK(stub.mapped >= 4 + stub.doorbells);
	world_fill(p.area[0], 64, 9);
	put(&p, 0, 64, p.key[1][0]);
	CHECK_EQ(finish(&p.main[0]), 1);
	CHECK(!memcmp(p.area[1], p.area[0], 64));
	pair_close(&p);
}

TEST(what_peers_say_is_checked)
{
	struct pair p;
	struct ori_engine_address a;
	struct oriel_queue q;

	pair_open(&p, "8", 0);
	CHECK_EQ(p.e[0]->ops->address(p.e[0], &a), 0);
	a.bytes[0] ^= 1;
	CHECK_EQ(p.e[0]->ops->peer(p.e[0], 1, &a), ORIEL_EPROTO);
	CHECK_EQ(p.e[0]->ops->peer(p.e[0], 2, &a), ORIEL_EPROTO);
	CHECK_EQ(p.e[0]->ops->connect(p.e[0], 0, p.main[0].qpn, 1, 0), ORIEL_EPROTO);
	CHECK_EQ(p.e[0]->ops->connect(p.e[0], 0, p.main[0].qpn, 1, 1u << 24), ORIEL_EPROTO);
	CHECK_EQ(p.e[0]->ops->connect(p.e[0], 0, 0xabcdef, 1, 5), ORIEL_EINVAL);
	queue_begin(&q, 8);
	q.produced = 5;
	CHECK_EQ(p.e[0]->ops->queue_add(p.e[0], 0, &q, 0), ORIEL_ECONFIG);
	pair_close(&p);
}
#else
TEST(mlx5_engine)
{
	check_skip("infiniband/mlx5dv.h is not installed");
}
#endif
