/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_wait.c - WAIT, and the companion queue pair that counts completions with it.  A
 * lane is built as the engine builds it: a main queue, a companion, a loopback responder and a
 * sink.
 */
#include "soft_world.h"

struct lane {
	struct world w;
	struct queue main, remote, companion, responder;
	uint64_t counter, sink, target[64], source[64];
	uint32_t counter_key, sink_key, target_key, source_key;
};

static void lane_open(struct lane *l, const char *personality, const char *faults, uint32_t depth,
		      uint64_t first)
{
	memset(l, 0, sizeof(*l));
	world_open(&l->w, 2, personality, faults);
	l->counter_key = world_mr(&l->w, 0, &l->counter, 8, WORLD_ALL, 0);
	l->sink_key = world_mr(&l->w, 0, &l->sink, 8, SOFT_LOCAL_WRITE, 0);
	l->source_key = world_mr(&l->w, 0, l->source, sizeof(l->source), SOFT_LOCAL_WRITE, 0);
	l->target_key = world_mr(&l->w, 1, l->target, sizeof(l->target), WORLD_ALL, 0);
	queue_open(&l->w, &l->main, 0, depth, first, 0);
	queue_open(&l->w, &l->remote, 1, depth, first, 0);
	queue_open(&l->w, &l->companion, 0, 2 * depth, first, 1);
	queue_open(&l->w, &l->responder, 0, 0, 0, 0);
	queue_connect(&l->w, &l->main, &l->remote);
	queue_connect(&l->w, &l->companion, &l->responder);
}

static void lane_close(struct lane *l)
{
	queue_close(&l->w, &l->main);
	queue_close(&l->w, &l->remote);
	queue_close(&l->w, &l->companion);
	queue_close(&l->w, &l->responder);
	world_close(&l->w);
}

static void post_put(struct lane *l, uint64_t i)
{
	l->source[i % 64] = i;
	ori_wqe_rdma(queue_slot(&l->main), l->main.next, l->main.qpn, ORI_WQE_RDMA_WRITE,
		     i % 64 * 8, l->target_key, i % 64 * 8, l->source_key, 8, 0);
	queue_ring(&l->main);
}

/* Counts the completion of main WQE `index`. */
static void post_count(struct lane *l, uint64_t index)
{
	struct queue *c = &l->companion;

	ori_wqe_wait(queue_slot(c), c->next, c->qpn, l->main.cqn, (uint32_t)index);
	queue_ring(c);
	ori_wqe_fetch_add(queue_slot(c), c->next, c->qpn, 0, l->counter_key, 1, 0, l->sink_key, 0);
	queue_ring(c);
}

static void poll_both(struct lane *l)
{
	uint32_t syndrome;

	while (l->main.polled < l->main.next && queue_poll(&l->main, &syndrome))
		CHECK_EQ(syndrome, 0);
	while (l->companion.polled < l->companion.next && queue_poll(&l->companion, &syndrome))
		CHECK_EQ(syndrome, 0);
}

static void count_puts(const char *faults, uint32_t depth, uint64_t first, int puts)
{
	struct lane l;

	lane_open(&l, NULL, faults, depth, first);
	for (int i = 0; i < puts; i++) {
		while (queue_full(&l.main) ||
		       l.companion.next - l.companion.polled > 2 * depth - 2) {
			uint64_t completed;

			world_step(&l.w, 1 + i % 3);
			poll_both(&l);
			/* the counter never runs ahead of the completions */
			completed = l.main.polled - l.main.first;
			CHECK(l.counter <= completed);
		}
		post_put(&l, (uint64_t)i);
		post_count(&l, l.main.next - 1);
	}
	queue_drain(&l.w, &l.main, 0);
	queue_drain(&l.w, &l.companion, 0);
	CHECK_EQ(l.counter, (uint64_t)puts);
	CHECK_EQ(l.sink, (uint64_t)puts - 1);
	CHECK(!soft_nic_busy(l.w.nic[0]) || l.w.config.drop > 0);
	lane_close(&l);
}

TEST(companion_counts)
{
	static const uint64_t firsts[] = {
		0, 0xfff0, 0x7ff0, (1u << 24) - 8, (1ull << 31) - 8, (1ull << 32) - 8
	};

	for (size_t i = 0; i < ORI_COUNT(firsts); i++)
		for (uint32_t depth = 1; depth <= 8; depth *= 2)
			count_puts(NULL, depth, firsts[i], 200);
}

TEST(companion_counts_over_a_bad_wire)
{
	for (int seed = 0; seed < 10; seed++) {
		char text[128];

		snprintf(text, sizeof(text),
			 "seed=%d,drop=0.05,dup=0.1,reorder=0.1,torn_cqe=0.2,retry=50,retry_ns=200000",
			 seed);
		count_puts(text, 4, 0xfff0, 150);
	}
}

/* WAIT holds everything behind it, and nothing else. */
TEST(wait_stalls_its_queue_only)
{
	struct lane l;
	uint32_t syndrome;

	lane_open(&l, NULL, NULL, 8, 0xfff0);
	post_count(&l, l.main.next + 1); /* the second to come */
	world_settle(&l.w, 50);
	CHECK_EQ(l.counter, 0);
	CHECK(!queue_poll(&l.companion, &syndrome));
	CHECK(soft_nic_busy(l.w.nic[0])); /* rung and not completed */
	post_put(&l, 1);
	queue_drain(&l.w, &l.main, 0);
	world_settle(&l.w, 50);
	CHECK_EQ(l.counter, 0);
	post_put(&l, 2);
	queue_drain(&l.w, &l.main, 0);
	queue_drain(&l.w, &l.companion, 0);
	CHECK_EQ(l.counter, 1);
	CHECK(world_stats(&l.w).stalls > 0);
	lane_close(&l);
}

/* Several queues wait for one CQ. */
TEST(many_wait_for_one)
{
	struct lane l;
	struct queue more[6];

	lane_open(&l, NULL, NULL, 8, 0);
	for (int i = 0; i < 6; i++) {
		queue_open(&l.w, &more[i], 0, 4, 0, 1);
		CHECK_EQ(soft_qp_connect(l.w.nic[0], more[i].qpn, 0, more[i].qpn), 0);
		ori_wqe_wait(queue_slot(&more[i]), 0, more[i].qpn, l.main.cqn, (uint32_t)i / 2);
		queue_ring(&more[i]);
	}
	world_settle(&l.w, 10);
	for (int n = 0; n < 3; n++) {
		post_put(&l, (uint64_t)n);
		queue_drain(&l.w, &l.main, 0);
		queue_drain(&l.w, &more[2 * n], 0);
		queue_drain(&l.w, &more[2 * n + 1], 0);
		for (int i = 2 * n + 2; i < 6; i++)
			CHECK_EQ(more[i].cq[0].op_own >> 4, ORI_CQE_INVALID);
	}
	for (int i = 0; i < 6; i++)
		queue_close(&l.w, &more[i]);
	lane_close(&l);
}

/*
 * An error CQE counts as a CQE; a WAIT whose queue fails is flushed; a CQ that goes away fails it.
 */
TEST(wait_and_errors)
{
	struct lane l;

	lane_open(&l, NULL, "strict=0", 8, 0);
	post_count(&l, 0);
	world_settle(&l.w, 10);
	soft_qp_fail(l.w.nic[0], l.main.qpn, ORI_SYNDROME_ABORTED);
	world_settle(&l.w, 10);
	post_put(&l, 1);
	queue_drain(&l.w, &l.main, ORI_SYNDROME_FLUSHED);
	queue_drain(&l.w, &l.companion, 0);
	CHECK_EQ(l.counter, 1);
	CHECK_EQ(l.w.at[0].error.count, 1);

	post_count(&l, 5);
	world_settle(&l.w, 10);
	soft_qp_fail(l.w.nic[0], l.companion.qpn, ORI_SYNDROME_FLUSHED);
	queue_drain(&l.w, &l.companion, ORI_SYNDROME_FLUSHED);
	CHECK_EQ(l.counter, 1);
	lane_close(&l);

	lane_open(&l, NULL, "strict=0", 8, 0);
	ori_wqe_wait(queue_slot(&l.companion), l.companion.next, l.companion.qpn, l.main.cqn, 0);
	queue_ring(&l.companion);
	world_settle(&l.w, 10);
	queue_close(&l.w, &l.main);
	queue_drain(&l.w, &l.companion, ORI_SYNDROME_LOCAL_QP_OP);
	queue_open(&l.w, &l.main, 0, 8, 0, 0);
	lane_close(&l);
}

TEST(wait_needs_the_right)
{
	struct lane l;

	lane_open(&l, NULL, "strict=0", 8, 0);
	ori_wqe_wait(queue_slot(&l.main), 0, l.main.qpn, l.companion.cqn, 0);
	queue_ring(&l.main);
	queue_drain(&l.w, &l.main, ORI_SYNDROME_LOCAL_QP_OP);
	/* no such CQ; a queue pair's number is none */
	ori_wqe_wait(queue_slot(&l.companion), 0, l.companion.qpn, l.main.qpn, 0);
	queue_ring(&l.companion);
	queue_drain(&l.w, &l.companion, ORI_SYNDROME_LOCAL_QP_OP);
	lane_close(&l);
}

/* Fences: a write behind a fenced READ's answer; without one it may overtake. */
TEST(fence_waits_for_answers)
{
	struct lane l;
	uint64_t value = 99;
	struct soft_stats before;

	lane_open(&l, NULL, NULL, 8, 0);
	l.target[3] = 7;
	before = world_stats(&l.w);
	ori_wqe_rdma(queue_slot(&l.main), 0, l.main.qpn, ORI_WQE_RDMA_READ, 24, l.target_key, 24,
		     l.source_key, 8, 0);
	queue_ring(&l.main);
	ori_wqe_write_inline(queue_slot(&l.main), 1, l.main.qpn, 24, l.target_key, &value, 8,
			     ORI_WQE_FENCE);
	queue_ring(&l.main);
	soft_nic_step(l.w.nic[0], 100);
	/* only the READ is on the wire */
	CHECK_EQ(world_stats(&l.w).packets_sent - before.packets_sent, 1);
	queue_drain(&l.w, &l.main, 0);
	CHECK_EQ(l.source[3], 7);
	CHECK_EQ(l.target[3], 99);
	lane_close(&l);
}
