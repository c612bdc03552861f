/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_engine.c - the software NIC as an engine for queues that a device posts to.  No
 * caller drives it: its thread finds doorbells by itself, awake or after a sleep.  Also device
 * memory, and the answers of `idle`.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "engine/engine.h"
#include "engine/soft/soft_engine.h"
#include "engine/soft/state.h"
#include "soft_device.h"

#define DEPTH 8u

struct lone {
	struct ori_engine *engine;
	struct oriel_waiters waiters, kicks;
	struct oriel_queue q;
	struct queue view; /* the same queue, for queue_poll() */
	void *wire;
	struct device_area *area;
	uint32_t key[ORIEL_NICS_MAX];
	int doomed, failed;
	uint32_t syndrome;
	const char *copied_from; /* by the last copy */
};

static int lone_copy(void *ctx, void *to, const void *from, uint64_t bytes)
{
	((struct lone *)ctx)->copied_from = from; /* seen after the CQE */
	return device_copy(NULL, to, from, bytes);
}

static void lone_doomed(void *ctx, uint32_t nic, uint32_t qpn)
{
	(void)nic;
	(void)qpn;
	__atomic_fetch_add(&((struct lone *)ctx)->doomed, 1, __ATOMIC_RELAXED);
}

static void lone_failed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct lone *l = ctx;

	(void)nic;
	(void)qpn;
	(void)wqe;
	l->syndrome = syndrome;
	__atomic_store_n(&l->failed, 1, __ATOMIC_RELEASE);
}

static int make_queue(struct lone *l)
{
	uint32_t responder;
	int err;

	l->view.sq = aligned_alloc(64, DEPTH * sizeof(*l->view.sq));
	l->view.cq = aligned_alloc(64, DEPTH * sizeof(*l->view.cq));
	l->view.depth = DEPTH;
	if (!l->view.sq || !l->view.cq)
		exit(1);
	memset(l->view.sq, 0, DEPTH * sizeof(*l->view.sq));
	l->q.sq = (uint8_t *)l->view.sq;
	l->q.cq = (uint8_t *)l->view.cq;
	l->q.record = l->view.record;
	l->q.doorbell = &l->view.doorbell;
	l->q.depth = DEPTH;
	err = l->engine->ops->queue_add(l->engine, 0, &l->q, 0);
	if (!err)
		err = l->engine->ops->responder_add(l->engine, 0, &responder);
	if (!err)
		err = l->engine->ops->connect(l->engine, 0, l->q.qpn, 0, responder);
	if (!err)
		err = l->engine->ops->connect(l->engine, 0, responder, 0, l->q.qpn);
	l->view.qpn = l->q.qpn;
	return err;
}

static int lone_open(struct lone *l)
{
	struct ori_engine_world world = { .ctx = l,
					  .nranks = 1,
					  .waiters = &l->waiters,
					  .kicks = &l->kicks,
					  .copy = lone_copy,
					  .device_posts = 1,
					  .doomed = lone_doomed,
					  .failed = lone_failed };
	struct ori_engine_memory memory = { .bytes = DEVICE_BYTES, .remote = 1, .device = 1 };
	struct ori_config config;
	int err;

	memset(l, 0, sizeof(*l));
	err = ori_config_read(&config);
	if (!err)
		err = ori_soft_engine_open(&config, &world, &l->engine);
	if (err)
		return err;
	l->wire = aligned_alloc(128, (l->engine->wire_bytes + 127) & ~127ul);
	if (!l->wire)
		exit(1);
	memset(l->wire, 0, l->engine->wire_bytes);
	l->engine->ops->wire_set(l->engine, 0, 0, l->wire, l->wire);
	l->area = device_alloc(DEVICE_BYTES);
	memory.base = l->area->device;
	err = l->engine->ops->memory_add(l->engine, &memory, l->key, NULL);
	return err ? err : make_queue(l);
}

static void lone_close(struct lone *l)
{
	l->engine->ops->close(l->engine);
	free(l->view.sq);
	free(l->view.cq);
	free(l->wire);
	device_reset();
}

static void post(struct lone *l, uint32_t key)
{
	ori_wqe_rdma(queue_slot(&l->view), l->view.next, l->q.qpn, ORI_WQE_RDMA_WRITE,
		     DEVICE_BYTES / 2, key, 0, l->key[0], 4096, 0);
	queue_ring(&l->view);
}

/* Its syndrome; -1 if the engine has not found it within a minute. */
static int wait_for_cqe(struct lone *l)
{
	uint64_t deadline = ori_now_ns() + 60 * ORI_NS_PER_S;
	uint32_t syndrome;

	while (!queue_poll(&l->view, &syndrome)) {
		if (ori_now_ns() > deadline)
			return -1;
		sched_yield();
	}
	return (int)syndrome;
}

static void pause_ms(long ms)
{
	struct timespec t = { 0, ms * 1000000 };

	nanosleep(&t, NULL);
}

TEST(the_thread_finds_doorbells_by_itself)
{
	struct lone l;

	REQUIRE_OK(lone_open(&l));
	REQUIRE_OK(l.engine->ops->start(l.engine));
	for (int round = 1; round <= 20; round++) {
		memset(l.area->alias, round, 4096);
		post(&l, l.key[0]);
		CHECK_EQ(wait_for_cqe(&l), 0);
		CHECK(!memcmp(l.area->alias, l.area->alias + DEVICE_BYTES / 2, 4096));
		/* pauses that find the thread awake, in short naps, in its longest */
		pause_ms(round % 4 * 3);
	}
	CHECK_EQ(device_copies(), 20);
	CHECK_EQ(l.doomed, 0);
	lone_close(&l);
}

/*
 * The ring is pinned, and known to be: a copy from elsewhere would ask the driver, and go through
 * another buffer.
 */
TEST(small_payload_is_copied_from_the_ring)
{
	uint64_t value = 0x1122334455667788;
	struct lone l;

	REQUIRE_OK(lone_open(&l));
	REQUIRE_OK(l.engine->ops->start(l.engine));
	ori_wqe_write_inline(queue_slot(&l.view), l.view.next, l.q.qpn, 64, l.key[0], &value,
			     sizeof(value), 0);
	queue_ring(&l.view);
	CHECK_EQ(wait_for_cqe(&l), 0);
	CHECK(!memcmp(l.area->alias + 64, &value, sizeof(value)));
	CHECK(l.copied_from >= (char *)l.wire &&
	      l.copied_from < (char *)l.wire + l.engine->wire_bytes);
	lone_close(&l);
}

/* Whether a GPU may leave the doorbell record alone. */
TEST(queues_say_whether_the_record_is_read)
{
	static const struct {
		const char *faults;
		uint32_t bare;
	} rows[] = { { "", 1 }, { "dbr=record", 0 }, { "dbr=random", 0 }, { "dbr_late=0.5", 0 } };
	struct lone l;

	for (size_t i = 0; i < ORI_COUNT(rows); i++) {
		setenv("ORIEL_SOFT_FAULTS", rows[i].faults, 1);
		REQUIRE_OK(lone_open(&l));
		CHECK_EQ(l.q.bare, rows[i].bare);
		lone_close(&l);
	}
	unsetenv("ORIEL_SOFT_FAULTS");
}

TEST(idle_counts_what_was_rung_and_not_seen)
{
	uint64_t deadline = ori_now_ns() + 60 * ORI_NS_PER_S;
	struct lone l;

	REQUIRE_OK(lone_open(&l));
	CHECK(l.engine->ops->idle(l.engine));
	post(&l, l.key[0]);
	CHECK(!l.engine->ops->idle(l.engine)); /* no thread yet: nobody can have looked */
	REQUIRE_OK(l.engine->ops->start(l.engine));
	while (!l.engine->ops->idle(l.engine) && ori_now_ns() < deadline)
		sched_yield();
	CHECK(l.engine->ops->idle(l.engine));
	CHECK_EQ(wait_for_cqe(&l), 0);
	lone_close(&l);
}

TEST(a_failing_device_is_told_with_its_syndrome)
{
	uint64_t deadline = ori_now_ns() + 60 * ORI_NS_PER_S;
	char text[256];
	struct lone l;

	REQUIRE_OK(lone_open(&l));
	device.fail_at = 1;
	REQUIRE_OK(l.engine->ops->start(l.engine));
	post(&l, l.key[0]);
	CHECK_EQ(wait_for_cqe(&l), ORI_SYNDROME_REMOTE_OP);
	while (!__atomic_load_n(&l.failed, __ATOMIC_ACQUIRE) && ori_now_ns() < deadline)
		sched_yield();
	CHECK(l.failed);
	l.engine->ops->statistics(l.engine, text, sizeof(text));
	CHECK_HAS(text, "device copies 1");
	lone_close(&l);
}

/* CPU time of this process. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * ORI_NS_PER_S + (uint64_t)t.tv_nsec;
}

/*
 * The thread sleeps.  The test prints the cost of an idle job, and limits it, so that a spinning
 * thread is noticed.
 */
TEST(an_idle_engine_costs_little)
{
	uint64_t before, start;
	struct lone l;
	double part;

	REQUIRE_OK(lone_open(&l));
	REQUIRE_OK(l.engine->ops->start(l.engine));
	pause_ms(200);
	pause_ms(999);
	before = cpu_ns();
	start = ori_now_ns();
	pause_ms(400);
	part = (double)(cpu_ns() - before) / (double)(ori_now_ns() - start);
	printf("       an idle engine takes %.1f %% of a core\n", 100 * part);
	CHECK(part < 0.5);
	lone_close(&l);
}

/* Memory that one NIC takes and the other does not is registered with neither. */
TEST(memory_is_registered_with_all_nics_or_none)
{
	struct ori_config config;
	struct oriel_waiters waiters, kicks;
	struct ori_engine_world world = { .nranks = 1, .waiters = &waiters, .kicks = &kicks };
	struct ori_engine_memory memory = { .base = &config, .bytes = 8 };
	uint32_t key[ORIEL_NICS_MAX] = { 0 }, first, room;
	struct ori_engine *engine = NULL;
	struct soft_nic *second;

	memset(&waiters, 0, sizeof(waiters));
	memset(&kicks, 0, sizeof(kicks));
	REQUIRE_OK(ori_config_read(&config));
	config.nics = 2;
	REQUIRE_OK(ori_soft_engine_open(&config, &world, &engine));
	second = ((struct soft_engine *)engine)->nic[1];
	first = second->mr_free;
	room = second->mr_room;
	second->mr_free = 0;
	second->mr_room = 1u << 24; /* as if all keys were taken */
	CHECK_EQ(engine->ops->memory_add(engine, &memory, key, NULL), ORIEL_ENOMEM);
	second->mr_free = first;
	second->mr_room = room;
	CHECK(!key[0] && !key[1]);
	for (uint32_t i = 0; i < room; i++)
		CHECK(!((struct soft_engine *)engine)->nic[0]->mrs[i].live);
	CHECK_EQ(engine->ops->memory_add(engine, &memory, key, NULL), 0);
	CHECK(key[0] && key[1]);
	engine->ops->close(engine);
}

/* As a ConnectX, which has so many and no more. */
TEST(queue_pairs_come_to_an_end)
{
	struct ori_config config;
	struct oriel_waiters waiters, kicks;
	struct ori_engine_world world = { .nranks = 1, .waiters = &waiters, .kicks = &kicks };
	struct ori_engine *engine = NULL;
	uint32_t qpn;

	memset(&waiters, 0, sizeof(waiters));
	memset(&kicks, 0, sizeof(kicks));
	REQUIRE_OK(ori_config_read(&config));
	snprintf(config.soft_faults, sizeof(config.soft_faults), "qps=2");
	REQUIRE_OK(ori_soft_engine_open(&config, &world, &engine));
	CHECK_EQ(engine->ops->responder_add(engine, 0, &qpn), 0);
	CHECK_EQ(engine->ops->responder_add(engine, 0, &qpn), 0);
	CHECK_EQ(engine->ops->responder_add(engine, 0, &qpn), ORIEL_ENOMEM);
	CHECK_HAS(ori_last_error_text(), "all of its 2 queue pairs");
	CHECK_HAS(ori_last_error_text(), "ORIEL_LANES");
	engine->ops->close(engine);
}
