/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/proxy_wait.c - WAIT and the counters: a companion queue waits until its main queue has
 * completed enough; then the proxy itself adds.  A failed operation is never counted.
 */
#include "proxy_world.h"

struct pair {
	struct proxy_world w;
	struct dev main, companion;
	uint64_t *counter;
	uint32_t counter_key;
};

static void pair_open(struct pair *p, uint64_t seed, uint32_t depth, uint64_t first)
{
	world_open(&p->w, seed);
	dev_open(&p->w, &p->main, depth, first, 0, 0);
	dev_open(&p->w, &p->companion, 2 * depth, first, -1, 1);
	p->counter = calloc(4, sizeof(*p->counter));
	p->counter_key = world_key(&p->w, p->counter, 4 * sizeof(*p->counter), WORLD_ALL);
}

static void pair_close(struct pair *p)
{
	dev_close(&p->w, &p->main);
	dev_close(&p->w, &p->companion);
	free(p->counter);
	world_close(&p->w);
}

static void post_wait(struct dev *d, uint32_t cqn, uint64_t index)
{
	ori_wqe_wait(dev_slot(d), d->next, d->q.qpn, cqn, (uint32_t)index);
	dev_ring(d);
}

static void post_count(struct pair *p, uint64_t index)
{
	struct dev *c = &p->companion;

	post_wait(c, p->main.q.cqn, index);
	ori_wqe_fetch_add(dev_slot(c), c->next, c->q.qpn, 8, p->counter_key, 1, 0, p->w.sink_key,
			  0);
	dev_ring(c);
}

static void poll_ok(struct dev *d)
{
	uint32_t syndrome;

	while (dev_poll(d, &syndrome))
		CHECK_EQ(syndrome, 0);
}

/* After every step: counter = CQEs of the main queue that were waited for; never ahead of them. */
TEST(counter_follows_completions)
{
	static const uint64_t firsts[] = { 0, 0xfff0, 0x7ff0, (1ull << 32) - 20 };

	for (uint64_t seed = 0; seed < 24; seed++) {
		struct pair p;
		uint64_t posted = 0, before = 0;
		int steps = 0;

		pair_open(&p, seed, seed % 3 ? 2u << seed % 3 : 2, firsts[seed % 4]);
		p.w.delay = (uint32_t)(seed % 5);
		p.w.again = (uint32_t)(seed % 4) * 40;
		while (posted < 200 || p.main.polled < p.main.next) {
			if (posted < 200 && !dev_full(&p.main) &&
			    p.companion.next - p.companion.polled + 2 <= p.companion.q.depth) {
				dev_inline(&p.w, &p.main, 0, &posted, 8, 0);
				post_count(&p, p.main.next - 1);
				posted++;
			}
			ori_proxy_step(p.w.proxy, 1 + (int)(world_random(&p.w.random) % 6));
			REQUIRE(++steps < 100000);
			poll_ok(&p.main);
			poll_ok(&p.companion);
			CHECK(p.counter[1] >= before);
			CHECK(p.counter[1] <= p.main.polled - p.main.first);
			before = p.counter[1];
		}
		dev_drain(&p.w, &p.companion, 0);
		CHECK_EQ(p.counter[1], 200);
		CHECK_EQ(p.counter[0] + p.counter[2] + p.counter[3], 0);
		CHECK_EQ(world_stats(&p.w).local_atomics, 200);
		CHECK_EQ(p.w.posts, 200); /* the counting never reached the back end */
		CHECK(world_stats(&p.w).stalls > 0);
		pair_close(&p);
	}
}

/* WAIT stalls all behind it, and one step is enough once the CQ has moved. */
TEST(wait_stalls_its_queue)
{
	struct pair p;
	uint32_t syndrome;
	uint64_t value = 1;

	pair_open(&p, 1, 8, 0);
	post_count(&p, 2);
	for (int i = 0; i < 3; i++) {
		world_settle(&p.w, 5);
		CHECK_EQ(p.counter[1], 0);
		CHECK(!dev_poll(&p.companion, &syndrome));
		CHECK(ori_proxy_busy(p.w.proxy));
		dev_inline(&p.w, &p.main, 0, &value, 8, 0);
	}
	CHECK_EQ(world_stats(&p.w).stalls, 1);
	for (int i = 0; !p.counter[1] && i < 10; i++)
		ori_proxy_step(p.w.proxy, 64);
	CHECK_EQ(p.counter[1], 1);
	dev_drain(&p.w, &p.main, 0);
	dev_drain(&p.w, &p.companion, 0);
	/* one that is reached already does not stall */
	post_count(&p, 0);
	ori_proxy_step(p.w.proxy, 64);
	CHECK_EQ(p.counter[1], 2);
	CHECK_EQ(world_stats(&p.w).stalls, 1);
	pair_close(&p);
}

TEST(loopback_atomics)
{
	struct pair p;
	struct dev *c = &p.companion;

	pair_open(&p, 1, 4, 0);
	p.counter[2] = 40;
	ori_wqe_fetch_add(dev_slot(c), c->next, c->q.qpn, 16, p.counter_key, 2, 0, p.w.sink_key, 0);
	dev_ring(c);
	dev_drain(&p.w, c, 0);
	CHECK_EQ(p.counter[2], 42);
	CHECK_EQ(*p.w.sink, 40);
	for (int hit = 0; hit < 2; hit++) {
		ori_wqe_compare_swap(dev_slot(c), c->next, c->q.qpn, 16, p.counter_key,
				     hit ? 42 : 41, 7, 0, p.w.sink_key, 0);
		dev_ring(c);
		dev_drain(&p.w, c, 0);
		CHECK_EQ(p.counter[2], hit ? 7 : 42);
		CHECK_EQ(*p.w.sink, 42);
	}
	CHECK_EQ(p.w.posts, 0);
	pair_close(&p);
}

/* The third put fails: two are counted, the third never, and the companion ends too. */
TEST(failed_operation_is_not_counted)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct pair p;
		uint32_t syndrome, want;

		pair_open(&p, seed, 8, 0xfffe);
		p.w.delay = (uint32_t)(seed % 6);
		p.w.fail_at = 3;
		p.w.fail_syndrome = ORI_SYNDROME_RETRY_EXCEEDED;
		for (uint64_t i = 0; i < 5; i++) {
			dev_inline(&p.w, &p.main, i * 8, &i, 8, 0);
			post_count(&p, p.main.next - 1);
		}
		world_settle(&p.w, 200);
		CHECK_EQ(p.counter[1], 2);
		CHECK_EQ(p.w.told, 2); /* once each queue */
		for (uint64_t i = 0; i < 5; i++) {
			want = i < 2  ? 0 :
			       i == 2 ? ORI_SYNDROME_RETRY_EXCEEDED :
					ORI_SYNDROME_FLUSHED;
			REQUIRE(dev_poll(&p.main, &syndrome));
			CHECK_EQ(syndrome, want);
		}
		for (uint64_t i = 0; i < 10; i++) {
			REQUIRE(dev_poll(&p.companion, &syndrome));
			CHECK_EQ(syndrome, i < 4 ? 0 : ORI_SYNDROME_FLUSHED);
		}
		CHECK(!ori_proxy_busy(p.w.proxy));
		pair_close(&p);
	}
}

static uint32_t first_syndrome(struct pair *p)
{
	uint32_t syndrome = 0;

	world_settle(&p->w, 5);
	CHECK(dev_poll(&p->companion, &syndrome));
	CHECK_EQ(p->w.told, 1);
	CHECK_EQ(p->w.told_syndrome, syndrome);
	return syndrome;
}

TEST(wrong_waits)
{
	struct pair p;

	for (int what = 0; what < 3; what++) {
		pair_open(&p, 1, 4, 0);
		post_wait(&p.companion,
			  what == 0 ? 0x123456 :
			  what == 1 ? p.main.q.qpn :
				      p.main.q.cqn + 7,
			  0);
		CHECK_EQ(first_syndrome(&p), ORI_SYNDROME_LOCAL_QP_OP);
		pair_close(&p);
	}
	/* on a queue that may not */
	pair_open(&p, 1, 4, 0);
	post_wait(&p.main, p.main.q.cqn, 0);
	world_settle(&p.w, 5);
	CHECK_EQ(p.w.told_syndrome, ORI_SYNDROME_LOCAL_QP_OP);
	CHECK_EQ(p.w.told_qpn, p.main.q.qpn);
	pair_close(&p);
}

/*
 * The CQ is destroyed while a queue waits for it.  A queue that waits for itself is ended by a
 * failure.
 */
TEST(waits_that_nobody_can_end)
{
	struct pair p;
	struct dev other;

	pair_open(&p, 1, 4, 0);
	dev_open(&p.w, &other, 4, 0, 1, 0);
	post_wait(&p.companion, other.q.cqn, 0);
	world_settle(&p.w, 5);
	CHECK_EQ(p.w.told, 0);
	dev_close(&p.w, &other);
	CHECK_EQ(first_syndrome(&p), ORI_SYNDROME_LOCAL_QP_OP);
	pair_close(&p);

	pair_open(&p, 1, 4, 0);
	post_wait(&p.companion, p.companion.q.cqn, 0);
	world_settle(&p.w, 5);
	CHECK_EQ(p.w.told, 0);
	ori_proxy_queue_fail(p.w.proxy, p.companion.q.qpn, ORI_SYNDROME_ABORTED);
	CHECK_EQ(first_syndrome(&p), ORI_SYNDROME_ABORTED);
	pair_close(&p);

	/* closed while it waits */
	pair_open(&p, 1, 4, 0);
	post_wait(&p.companion, p.main.q.cqn, 5);
	world_settle(&p.w, 5);
	dev_close(&p.w, &p.companion);
	dev_open(&p.w, &p.companion, 4, 0, -1, 1);
	dev_inline(&p.w, &p.main, 0, &p.w.tick, 8, 0);
	dev_drain(&p.w, &p.main, 0);
	pair_close(&p);
}
