/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mlx5_watch.c - the watcher of the mlx5 engine with the queues of a rank of a large
 * job: how many queues it looks at in a millisecond, and when it finds one that failed.
 *
 * Two ranks have 1,024 queues between them, over the stub whose NIC is the software NIC.
 */
#include <oriel/oriel.h>

#include "../check.h"

#if __has_include(<infiniband/mlx5dv.h>)
#include <oriel/device/queue.h>

#include "mlx5_stub.h"

#define QUEUES 1024
#define AREA 4096u
#define TURNS (QUEUES / MLX5_TURN_QUEUES) /* until every queue had its turn */
#define WRONG_KEY 0x5500u

static struct many {
	struct ori_engine *e[2];
	struct oriel_queue queue[2][QUEUES];
	uint32_t key[2][ORIEL_NICS_MAX];
	uint8_t *area[2];
	/* the failure that rank 0 was told last, and how many it was told */
	uint32_t qpn, syndrome;
	uint64_t wqe;
	int failures;
} many;

static void doomed(void *ctx, uint32_t nic, uint32_t qpn)
{
	(void)ctx;
	(void)nic;
	(void)qpn;
}

static void failed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	(void)ctx;
	(void)nic;
	many.qpn = qpn;
	many.wqe = wqe;
	many.syndrome = syndrome;
	/* release; partner: the test of the thread */
	__atomic_add_fetch(&many.failures, 1, __ATOMIC_RELEASE);
}

static void add_queues(int rank, const struct ori_config *config)
{
	struct ori_engine *e = many.e[rank];

	for (int i = 0; i < QUEUES; i++) {
		struct oriel_queue *q = &many.queue[rank][i];

		q->depth = (uint32_t)config->depth;
		CHECK_EQ(e->ops->queue_add(e, 0, q, 0), 0);
	}
}

static void open_rank(int rank)
{
	struct ori_engine_world world = {
		.rank = rank, .nranks = 2, .doomed = doomed, .failed = failed
	};
	struct ori_engine_memory m = { .bytes = AREA, .remote = 1 };
	struct ori_config config;

	stub_config(&config, rank, "4");
	CHECK_EQ(ori_mlx5_engine_open(&config, &world, &many.e[rank]), 0);
	many.area[rank] = aligned_alloc(4096, AREA);
	memset(many.area[rank], 0, AREA);
	m.base = many.area[rank];
	CHECK_EQ(many.e[rank]->ops->memory_add(many.e[rank], &m, many.key[rank], NULL), 0);
	add_queues(rank, &config);
}

static void many_open(int no_channel)
{
	struct ori_engine_address address;

	stub_open_world();
	stub.no_channel = no_channel;
	memset(&many, 0, sizeof(many));
	for (int r = 0; r < 2; r++)
		open_rank(r);
	for (int r = 0; r < 2; r++) {
		struct ori_engine *e = many.e[r];

		CHECK_EQ(many.e[1 - r]->ops->address(many.e[1 - r], &address), 0);
		CHECK_EQ(e->ops->peer(e, 1 - r, &address), 0);
		for (int i = 0; i < QUEUES; i++)
			CHECK_EQ(e->ops->connect(e, 0, many.queue[r][i].qpn, 1 - r,
						 many.queue[1 - r][i].qpn),
				 0);
	}
}

static void many_close(void)
{
	for (int r = 0; r < 2; r++) {
		many.e[r]->ops->memory_remove(many.e[r], many.key[r]);
		many.e[r]->ops->close(many.e[r]);
		free(many.area[r]);
	}
	stub_close_world();
}

static struct mlx5_engine *watched(void)
{
	return (struct mlx5_engine *)many.e[0];
}

/* Rank 0 puts 8 bytes; returns what the poll of its CQE says. */
static int put(int queue, uint32_t key)
{
	struct oriel_queue *q = &many.queue[0][queue];
	int done = 0;

	ori_wqe_rdma(ori_queue_slot(q, q->produced), q->produced, q->qpn, ORI_WQE_RDMA_WRITE, 0,
		     key, 0, many.key[0][0], 8, 0);
	q->reserved = ++q->produced;
	ori_store_release32_sys(&q->record[1], ori_doorbell_record(q->produced));
	ori_store_release_sys(q->doorbell, ori_doorbell_value(q->produced, q->qpn));
	for (int i = 0; i < 100000 && !done; i++) {
		world_step(&stub.world, 64);
		done = ori_queue_poll(q, q->produced - 1);
	}
	return done;
}

/* Rank 0's queue, as the stub has it. */
static struct stub_queue *stub_queue_of(int queue)
{
	struct stub_queue *s = stub.queues;

	while (s->rank || s->qpn != many.queue[0][queue].qpn)
		s = s->next;
	return s;
}

static void check_told(int queue, uint64_t wqe, int failures)
{
	CHECK_EQ(many.failures, failures);
	CHECK_EQ(many.qpn, many.queue[0][queue].qpn);
	CHECK_EQ(many.wqe, wqe);
	CHECK_EQ(many.syndrome, ORI_SYNDROME_REMOTE_ACCESS);
}

/* What costs time is a look at a queue, so looks are counted. */
TEST(a_turn_has_few_queues)
{
	struct mlx5_nic *n;

	many_open(0);
	n = &watched()->nic[0];
	CHECK_EQ(n->queue_count, QUEUES);
	for (uint64_t turn = 1; turn <= TURNS; turn++) {
		CHECK_EQ(mlx5_watch_turn(watched()), 0);
		CHECK_EQ(n->visits, turn * MLX5_TURN_QUEUES);
	}
	/* a look at all is what idle() asks for */
	CHECK_EQ(mlx5_watch_scan(watched()), 0);
	CHECK_EQ(n->visits, 2 * QUEUES);
	many_close();
}

/* Without completion events: also the last queue of the list, and one that went round. */
TEST(every_queue_has_its_turn)
{
	static const int failing[] = { 0, 1, 63, 64, 500, QUEUES - 2, QUEUES - 1 };

	many_open(1);
	for (int i = 0; i < (int)(sizeof(failing) / sizeof(failing[0])); i++) {
		uint32_t good = (uint32_t)i * 5;
		int turns = 0;

		for (uint32_t j = 0; j < good; j++)
			CHECK_EQ(put(failing[i], many.key[1][0]), 1);
		CHECK_EQ(put(failing[i], many.key[1][0] ^ WRONG_KEY), ORIEL_EREMOTE);
		while (many.failures == i && turns++ <= (int)TURNS)
			mlx5_watch_turn(watched());
		CHECK(turns <= (int)TURNS);
		check_told(failing[i], good, i + 1);
	}
	many_close();
}

/* The event of a CQ comes long before its queue's turn.  One without an error changes nothing. */
TEST(an_event_comes_before_the_turn)
{
	struct mlx5_nic *n;
	int failing[2] = { 0, QUEUES - 1 };

	many_open(0);
	/* one of each rank was made twice, to learn how libmlx5 counts blocks */
	CHECK_EQ(fake.notified, 2 * (QUEUES + 1));
	n = &watched()->nic[0];
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(put(failing[i], many.key[1][0] ^ WRONG_KEY), ORIEL_EREMOTE);
		stub.notice = stub_queue_of(failing[i]);
		/* not in this turn, nor in the one after */
		n->turn = i ? n->queues->next : NULL;
		n->visits = 0;
		CHECK_EQ(mlx5_watch_turn(watched()), 1);
		CHECK_EQ(n->visits, MLX5_TURN_QUEUES + 1);
		check_told(failing[i], 0, i + 1);
	}
	stub.notice = stub_queue_of(7);
	CHECK_EQ(mlx5_watch_turn(watched()), 0);
	CHECK_EQ(n->events, 3);
	many_close();
}

/* All links of a NIC break at once: as many as fit are told in a turn, and the others later. */
TEST(many_failures_are_all_told)
{
	many_open(0);
	for (int i = 0; i < QUEUES; i += 4)
		CHECK_EQ(put(i, many.key[1][0] ^ WRONG_KEY), ORIEL_EREMOTE);
	for (uint32_t turn = 0; turn < 2 * TURNS; turn++)
		mlx5_watch_turn(watched());
	CHECK_EQ(many.failures, QUEUES / 4);
	CHECK_EQ(mlx5_watch_scan(watched()), 0);
	many_close();
}

/* The thread itself, with all queues at work. */
TEST(the_thread_finds_one_of_many)
{
	uint64_t deadline = ori_now_ns() + 20 * ORI_NS_PER_S;

	many_open(1);
	CHECK_EQ(many.e[0]->ops->start(many.e[0]), 0);
	for (int i = 0; i < QUEUES; i++)
		CHECK_EQ(put(i, many.key[1][0]), 1);
	CHECK_EQ(put(QUEUES / 3, many.key[1][0] ^ WRONG_KEY), ORIEL_EREMOTE);
	while (!__atomic_load_n(&many.failures, __ATOMIC_ACQUIRE) && ori_now_ns() < deadline)
		ori_sleep_ns(1000000);
	mlx5_watch_stop(watched());
	check_told(QUEUES / 3, 1, 1);
	many_close();
}
#else
TEST(mlx5_watch)
{
	check_skip("infiniband/mlx5dv.h is not installed");
}
#endif
