/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/proxy_device.c - the library's own device code (oriel/device/queue.h, fetch.h) on
 * queues that a proxy serves: put with signal and counter, reads, fetched values, fences, threads
 * on one queue, errors.
 */
#include <pthread.h>

#include "proxy_world.h"

#include "oriel/device/fetch.h"
#include "engine/engine.h"

/* An engine that is nothing but a proxy and the lock that serialises it. */
struct test_engine {
	struct ori_engine base;
	struct ori_proxy *proxy;
	int budget;
	uint32_t lock;
};

static void drive(struct ori_engine *engine)
{
	struct test_engine *e = (struct test_engine *)engine;

	if (__atomic_exchange_n(&e->lock, 1, __ATOMIC_ACQUIRE))
		return;
	ori_proxy_step(e->proxy, e->budget);
	__atomic_store_n(&e->lock, 0, __ATOMIC_RELEASE);
}

static const struct ori_engine_ops engine_ops = { .name = "proxy test", .drive = drive };

struct bench {
	struct proxy_world w;
	struct dev main[2], companion[2];
	struct test_engine engine;
	struct oriel_lane lanes[2];
	struct oriel_link link;
	struct oriel_comm_dev comm;
	struct ori_op_context scope;
	struct oriel_waiters waiters;
	struct oriel_board board;
	struct oriel_comm_peer peers[2];
	struct oriel_result *results;
	uint64_t failure, last_signal, total;
	uint64_t *counter;
	uint32_t their_key[ORIEL_NICS_MAX], my_key[ORIEL_NICS_MAX], counter_key[ORIEL_NICS_MAX];
};

static void bench_lanes(struct bench *b, uint32_t depth, uint64_t first)
{
	for (int i = 0; i < 2; i++) {
		dev_open(&b->w, &b->main[i], depth, first, i, 0);
		dev_open(&b->w, &b->companion[i], depth, first, -1, 1);
		b->lanes[i].main = &b->main[i].q;
		b->lanes[i].companion = &b->companion[i].q;
		b->lanes[i].sink_key = b->w.sink_key;
	}
	b->link.lanes = b->lanes;
	b->link.nlanes = 2;
	b->link.flags = ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED;
	b->link.message_bytes = 1000;
	b->last_signal = first;
	b->link.last_signal = &b->last_signal;
}

static void bench_open(struct bench *b, uint64_t seed, uint32_t depth, uint64_t first)
{
	memset(b, 0, sizeof(*b));
	world_open(&b->w, seed);
	bench_lanes(b, depth, first);
	b->results = calloc(ORIEL_RESULT_SLOTS, sizeof(*b->results));
	b->counter = calloc(2, sizeof(*b->counter));
	b->comm.nranks = 2;
	b->comm.timeout_ns = 20 * ORI_NS_PER_S;
	b->comm.late_ns = 15 * ORI_NS_PER_S;
	b->comm.spin_polls = 100;
	b->comm.failure = &b->failure;
	b->comm.waiters = &b->waiters;
	b->comm.board = &b->board;
	b->comm.peers = b->peers;
	b->comm.engine = &b->engine.base;
	b->comm.results = b->results;
	b->comm.result_key[0] = world_key(&b->w, b->results,
					  ORIEL_RESULT_SLOTS * sizeof(*b->results),
					  ORI_PROXY_LOCAL_WRITE);
	b->scope = ori_comm_context(&b->comm);
	b->my_key[0] = b->w.my_key;
	b->their_key[0] = b->w.their_key;
	b->counter_key[0] = world_key(&b->w, b->counter, 16, WORLD_ALL);
	b->engine.base.ops = &engine_ops;
	b->engine.proxy = b->w.proxy;
	b->engine.budget = 8;
}

static void bench_close(struct bench *b)
{
	for (int i = 0; i < 2; i++) {
		dev_close(&b->w, &b->main[i]);
		dev_close(&b->w, &b->companion[i]);
	}
	free(b->results);
	free(b->counter);
	world_close(&b->w);
}

static struct ori_post put_signal_counter(struct bench *b, uint64_t at, uint64_t bytes)
{
	struct ori_post p;

	ori_post_init(&p);
	p.remote = at;
	p.local = at;
	p.bytes = bytes;
	p.rkey = b->their_key;
	p.lkey = b->my_key;
	p.signal = ORIEL_ADD;
	p.word = 0;
	p.signal_value = 1;
	p.word_key = b->their_key;
	p.total = &b->total;
	p.count = &b->counter[1];
	p.count_address = 8;
	p.count_key = b->counter_key;
	return p;
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static int wait_counter(struct bench *b, uint64_t want)
{
	struct ori_spin s;
	int err = 0;

	ori_spin_begin(&s, &b->comm, NULL, ORIEL_OP_COUNTER, 1, 0, -1, want);
	while (!err && load(&b->counter[1]) < want)
		err = ori_spin(&s, 0);
	ori_spin_end(&s);
	return err;
}

static void puts_and_gets(uint64_t seed, uint32_t depth, uint64_t first, uint32_t flags)
{
	struct bench b;
	struct ori_fetch bytes_at = { &b.link, 0, 3, 70, b.their_key };
	struct ori_fetch word_at = { &b.link, 1, 0, 8, b.their_key };
	uint64_t word, old;

	bench_open(&b, seed, depth, first);
	b.w.delay = (uint32_t)(seed % 4);
	b.w.again = (uint32_t)(seed % 3) * 50;
	b.w.ordered = flags & ORIEL_LINK_ORDERED ? 1 : 0;
	b.link.flags = flags;
	memset(b.w.theirs, 0, 8);
	for (uint64_t i = 1; i <= 60; i++) {
		struct ori_post p = put_signal_counter(&b, 64,
						       1 + i * 50); /* more than a message, too */

		world_fill(b.w.mine, WORLD_BYTES, i);
		REQUIRE(ori_queue_post(&b.scope, &b.link, (uint32_t)(i % 2), &p) == 0);
		REQUIRE(wait_counter(&b, i) == 0);
		CHECK(!memcmp(b.w.mine + 64, b.w.theirs + 64, 1 + i * 50));
		REQUIRE(ori_lane_flush(&b.scope, &b.link, (uint32_t)(i % 2)) == 0);
		memcpy(&word, b.w.theirs, 8);
		CHECK_EQ(word, i);
		REQUIRE(ori_lane_fence(&b.scope, &b.link, 0) == 0);
		REQUIRE(ori_fetch_bytes(&b.scope, &bytes_at, &word, 8) == 0);
		CHECK(!memcmp(&word, b.w.mine + 70, 8));
		if (flags & ORIEL_LINK_ATOMICS) {
			REQUIRE(ori_fetch_atomic(&b.scope, &word_at, 0, 0, 1, &old) == 0);
			memcpy(&word, b.w.theirs + 8, 8);
			CHECK_EQ(word, old + 1);
		}
	}
	CHECK_EQ(b.w.told, 0);
	bench_close(&b);
}

TEST(device_code_drives_it)
{
	static const uint64_t firsts[] = { 0, 0xfff0, 0x7ff0, (1ull << 32) - 30 };
	static const uint32_t depths[] = { 2, 4, 64 };

	for (uint64_t seed = 0; seed < 24; seed++)
		puts_and_gets(seed, depths[seed % 3], firsts[seed % 4],
			      seed % 5 == 3 ? ORIEL_LINK_ATOMICS :
			      seed % 5 == 4 ? 0 :
					      ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define THREADS 4
#define PUTS 150

struct job {
	struct bench *b;
	int number, err;
};

static void *put_many(void *arg)
{
	struct job *j = arg;

	for (uint64_t i = 0; i < PUTS && !j->err; i++) {
		struct ori_post p = put_signal_counter(j->b, 4096 + (uint64_t)j->number * 4096, 64);

		j->err = ori_queue_post(&j->b->scope, &j->b->link, 0, &p);
	}
	return NULL;
}

TEST(threads_on_one_queue)
{
	struct bench b;
	struct job jobs[THREADS];
	pthread_t threads[THREADS];
	uint64_t word;

	bench_open(&b, 7, 8, 0xff00);
	b.w.delay = 2;
	b.w.again = 30;
	memset(b.w.theirs, 0, 8);
	world_fill(b.w.mine, WORLD_BYTES, 3);
	for (int i = 0; i < THREADS; i++) {
		jobs[i] = (struct job){ &b, i, 0 };
		REQUIRE(pthread_create(&threads[i], NULL, put_many, &jobs[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHECK_EQ(jobs[i].err, 0);
	}
	CHECK_EQ(wait_counter(&b, THREADS * PUTS), 0);
	CHECK_EQ(ori_lane_flush(&b.scope, &b.link, 0), 0);
	memcpy(&word, b.w.theirs, 8);
	CHECK_EQ(word, THREADS * PUTS);
	for (int i = 0; i < THREADS; i++)
		CHECK(!memcmp(b.w.mine + 4096 + i * 4096, b.w.theirs + 4096 + i * 4096, 64));
	bench_close(&b);
}

/* A put that fails: the queue's waits end with a status, the counter stays, later posts refuse. */
TEST(device_code_sees_errors)
{
	struct bench b;
	struct ori_post p;

	bench_open(&b, 9, 4, 0xfffe);
	b.w.fail_at = 3;
	b.w.fail_syndrome = ORI_SYNDROME_REMOTE_ACCESS;
	p = put_signal_counter(&b, 64, 64);
	CHECK_EQ(ori_queue_post(&b.scope, &b.link, 0, &p), 0);
	CHECK_EQ(wait_counter(&b, 1), 0);
	CHECK_EQ(ori_queue_post(&b.scope, &b.link, 0, &p), 0);
	CHECK_EQ(ori_lane_flush(&b.scope, &b.link, 0), ORIEL_EREMOTE);
	world_settle(&b.w, 20);
	CHECK_EQ(b.counter[1], 1);
	CHECK_EQ(ori_queue_post(&b.scope, &b.link, 0, &p), ORIEL_EREMOTE);
	CHECK_EQ(b.w.told, 2); /* the main queue and its companion */
	bench_close(&b);
}
