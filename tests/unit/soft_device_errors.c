/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_device_errors.c - device copies that fail or take long, as both ends see them;
 * and what a host may conclude from an idle NIC.
 */
#include "soft_device.h"

/* ---- copies that fail ------------------------------------------------------------------------ */

/* The bad WQE was posted; the n-th copy from now on fails. */
static void expect(struct pair *p, uint64_t nth, uint32_t want, uint32_t told_there)
{
	uint32_t syndrome = 0;
	uint64_t value = 1;

	device_copies();
	device.fail_at = nth;
	for (int i = 0; i < 1000 && !queue_poll(&p->a, &syndrome); i++)
		world_step(&p->w, 64);
	CHECK_EQ(syndrome, want);
	CHECK_EQ(device_copies(), nth); /* and it is not tried again */
	CHECK_EQ(p->w.at[0].error.count, 1);
	CHECK_EQ(p->w.at[0].error.syndrome, want);
	world_settle(&p->w, 100);
	CHECK_EQ(p->w.at[1].error.count, told_there ? 1 : 0);
	CHECK_EQ(p->w.at[1].error.syndrome, told_there);
	ori_wqe_write_inline(queue_slot(&p->a), p->a.next, p->a.qpn, 0, p->key[1], &value, 8, 0);
	queue_ring(&p->a);
	queue_drain(&p->w, &p->a, ORI_SYNDROME_FLUSHED);
	CHECK_EQ(device_copies(), 0);
	p->w.at[0].error.count = p->w.at[1].error.count = 0;
	pair_close(p);
}

static const char *const manners[] = { "soft", "efa" };

TEST(a_failing_target_is_a_remote_error)
{
	for (size_t i = 0; i < ORI_COUNT(manners); i++) {
		struct pair p;

		pair_open(&p, manners[i], NULL, &shared, &shared);
		post_rdma(&p, ORI_WQE_RDMA_WRITE, 0, 0, 100000);
		expect(&p, 1, ORI_SYNDROME_REMOTE_OP, ORI_SYNDROME_LOCAL_PROT);
	}
}

TEST(a_failing_source_is_a_local_error)
{
	struct pair p;

	pair_open(&p, NULL, NULL, &unreached, &host);
	post_rdma(&p, ORI_WQE_RDMA_WRITE, 0, 0, 100000);
	expect(&p, 7, ORI_SYNDROME_LOCAL_PROT, 0);
}

TEST(a_failing_answer_is_an_error_where_it_failed)
{
	struct pair p;

	pair_open(&p, NULL, NULL, &shared, &shared);
	post_rdma(&p, ORI_WQE_RDMA_READ, 0, 0, 100000);
	expect(&p, 1, ORI_SYNDROME_LOCAL_PROT, 0);
	pair_open(&p, NULL, NULL, &host, &unreached);
	post_rdma(&p, ORI_WQE_RDMA_READ, 0, 0, 100000);
	expect(&p, 3, ORI_SYNDROME_REMOTE_OP, ORI_SYNDROME_LOCAL_PROT);
}

TEST(a_failing_atomic_is_an_error_and_is_not_repeated)
{
	for (uint64_t nth = 1; nth <= 3; nth++) {
		struct pair p;

		pair_open(&p, NULL, NULL, &shared, &shared);
		post_add(&p, 0, 1, 0);
		/* read, written back, and the value at home */
		if (nth < 3)
			expect(&p, nth, ORI_SYNDROME_REMOTE_OP, ORI_SYNDROME_LOCAL_PROT);
		else
			expect(&p, nth, ORI_SYNDROME_LOCAL_PROT, 0);
	}
}

TEST(device_memory_needs_a_copy)
{
	struct soft_mr_attr attr = { .base = &attr, .bytes = 8, .device = 1 };
	struct world w;
	uint32_t key;

	world_open(&w, 1, NULL, NULL);
	CHECK_EQ(soft_mr_create(w.nic[0], &attr, &key), ORIEL_EINVAL);
	CHECK_HAS(ori_last_error_text(), "device memory");
	world_close(&w);
}

/* ---- copies that take long ------------------------------------------------------------------- */

/* Time passes during a copy, and the NICs of the other ranks go on meanwhile. */
struct slow {
	struct world *w;
	uint64_t copy_ns;
	int inside; /* a copy of another NIC, made meanwhile */
};

static void pass_time(void *ctx)
{
	struct slow *s = ctx;

	if (s->inside)
		return;
	s->inside = 1;
	for (int i = 0; i < 100; i++) {
		s->w->now_ns += s->copy_ns / 100;
		soft_nic_step(s->w->nic[0], 64);
		soft_nic_step(s->w->nic[2], 64);
	}
	s->inside = 0;
}

/* Ranks 0 and 2, with four queues each, want messages to or from the device of rank 1. */
struct crowd {
	struct world w;
	struct queue q[8], end[8];
	struct device_area *area[3];
	uint32_t key[3];
};

static void crowd_open(struct crowd *c, const struct side *one)
{
	world_open_device(&c->w, 3, NULL, NULL, device_copy);
	c->w.at[1].unreached = one->unreached;
	for (int r = 0; r < 3; r++) {
		c->area[r] = device_alloc(DEVICE_BYTES);
		c->key[r] = world_mr_of(&c->w, r, r == 1 ? c->area[r]->device : c->area[r]->alias,
					DEVICE_BYTES, WORLD_ALL, r != 1 || one->exported, r == 1);
	}
	for (int i = 0; i < 8; i++) {
		queue_open(&c->w, &c->q[i], i % 2 * 2, 16, 0, 0);
		queue_open(&c->w, &c->end[i], 1, 16, 0, 0);
		queue_connect(&c->w, &c->q[i], &c->end[i]);
	}
}

static void crowd_post(struct crowd *c, int queues, int messages, uint32_t opcode, uint32_t bytes)
{
	for (int i = 0; i < queues; i++)
		for (int n = 0; n < messages; n++) {
			struct queue *q = &c->q[i];

			ori_wqe_rdma(queue_slot(q), q->next, q->qpn, opcode, 0, c->key[1], 0,
				     c->key[q->rank], bytes, 0);
			queue_ring(q);
		}
}

/* Until so many are complete. */
static void crowd_drain(struct crowd *c, int left, int budget)
{
	uint32_t syndrome;

	for (int step = 0; step < 100000 && left; step++) {
		world_step(&c->w, budget);
		for (int i = 0; i < 8; i++)
			while (c->q[i].polled < c->q[i].next && queue_poll(&c->q[i], &syndrome)) {
				CHECK_EQ(syndrome, 0);
				left--;
			}
	}
	CHECK_EQ(left, 0);
}

/*
 * With retry_ns of 1 ms and 14 retries a peer counts as dead after 3 s.  A request that it has
 * taken but not answered is sent again after 1 ms.  Here more than a hundred copies take much
 * longer.
 */
static struct soft_stats slow_copies(uint32_t opcode, const struct side *one, uint32_t bytes,
				     int budget, uint64_t copy_ns)
{
	struct crowd *c = calloc(1, sizeof(*c));
	struct slow slow = { NULL, copy_ns, 0 };
	struct soft_stats stats;

	if (!c)
		exit(1);
	crowd_open(c, one);
	slow.w = &c->w;
	device.during = pass_time;
	device.during_ctx = &slow;
	/* two at a time, from a rank each: the second is copied before the first is answered */
	for (int i = 0; i < 20; i++) {
		crowd_post(c, 2, 1, opcode, bytes);
		crowd_drain(c, 2, budget);
	}
	/* and all at once */
	crowd_post(c, 8, 10, opcode, bytes);
	crowd_drain(c, 80, budget);
	CHECK(c->w.now_ns > 120 * copy_ns);
	stats = world_stats(&c->w);
	CHECK_EQ(stats.naks, 0);
	for (int r = 0; r < 3; r++)
		CHECK_EQ(c->w.at[r].error.count, 0);
	for (int i = 0; i < 8; i++) {
		queue_close(&c->w, &c->q[i]);
		queue_close(&c->w, &c->end[i]);
	}
	world_close(&c->w);
	device_reset();
	free(c);
	return stats;
}

/* No write is sent twice, since none was lost. */
TEST(a_slow_target_is_not_a_dead_one)
{
	static const int budgets[] = { 1, 4, 64, 1000 };

	for (size_t i = 0; i < ORI_COUNT(budgets); i++) {
		struct soft_stats s = slow_copies(ORI_WQE_RDMA_WRITE, &shared, 100000, budgets[i],
						  100000000);

		/* host memory of the sender in pieces of 64 KiB */
		CHECK_EQ(s.copies, 240);
		CHECK_EQ(s.retransmits, 0);
		s = slow_copies(ORI_WQE_RDMA_WRITE, &private, 4096, budgets[i], 100000000);
		CHECK_EQ(s.copies, 120);
		CHECK_EQ(s.retransmits, 0);
	}
}

/*
 * A READ is taken long before its answer is sent: it is asked for again, but few are answered
 * twice.
 */
TEST(a_slow_source_is_not_a_dead_one)
{
	struct soft_stats s = slow_copies(ORI_WQE_RDMA_READ, &unreached, 4096, 64, 40000000);

	CHECK(s.copies >= 120 && s.copies < 200);
}

static void only_time(void *ctx)
{
	*(uint64_t *)ctx += 5 * ORI_NS_PER_S;
}

/*
 * The copies of a rank take long, and the answer to its own request is behind the data to be
 * copied.  Its timer has expired by then, but the answer is read first.  This holds at any phase of
 * the timer.
 */
TEST(who_copies_for_long_reads_its_answers_first)
{
	struct queue c, d, own;
	uint32_t syndrome;
	struct pair p;

	pair_open(&p, NULL, NULL, &shared, &shared);
	queue_open(&p.w, &own, 0, 8, 0, 0);
	CHECK_EQ(soft_qp_connect(p.w.nic[0], own.qpn, 0, own.qpn), 0);
	queue_open(&p.w, &c, 0, 8, 0, 0);
	queue_open(&p.w, &d, 1, 8, 0, 0);
	queue_connect(&p.w, &c, &d);
	device.during = only_time;
	device.during_ctx = &p.w.now_ns;
	for (int phase = 0; phase < 64; phase++) {
		ori_wqe_rdma(queue_slot(&c), c.next, c.qpn, ORI_WQE_RDMA_WRITE, 0, p.key[1], 0,
			     p.key[0], 64, 0);
		queue_ring(&c);
		for (int i = 0; i < 16; i++)
			soft_nic_step(p.w.nic[0], 64); /* sent, and its timer runs */
		for (int i = 0; i < phase % 32; i++) {
			ori_wqe_nop(queue_slot(&own), own.next, own.qpn, 0);
			queue_ring(&own);
			soft_nic_step(p.w.nic[0], 64);
			CHECK(queue_poll(&own, &syndrome));
		}
		for (int i = 0; i < 6; i++) {
			ori_wqe_rdma(queue_slot(&p.b), p.b.next, p.b.qpn, ORI_WQE_RDMA_WRITE, 0,
				     p.key[0], 0, p.key[1], 64, 0);
			queue_ring(&p.b);
		}
		/* its writes are sent before the ACK of ours: the queue pair is the first */
		soft_nic_step(p.w.nic[1], 64);
		for (int i = 0; i < 8; i++)
			soft_nic_step(p.w.nic[0], 64);
		queue_drain(&p.w, &c, 0);
		queue_drain(&p.w, &p.b, 0);
	}
	CHECK_EQ(world_stats(&p.w).retransmits, 0);
	queue_close(&p.w, &own);
	queue_close(&p.w, &c);
	queue_close(&p.w, &d);
	pair_close(&p);
}

/* A peer that is really gone, with a device between, is still found out. */
TEST(a_peer_that_stops_in_a_copy_is_found)
{
	uint32_t syndrome = 0;
	struct pair p;

	pair_open(&p, NULL, "retry=4", &shared, &shared);
	post_rdma(&p, ORI_WQE_RDMA_WRITE, 0, 0, 4096);
	for (int i = 0; i < 100000 && !queue_poll(&p.a, &syndrome); i++) {
		p.w.now_ns += 10000;
		soft_nic_step(p.w.nic[0], 64);
	}
	CHECK_EQ(syndrome, ORI_SYNDROME_RETRY_EXCEEDED);
	p.w.at[0].error.count = 0;
	pair_close(&p);
}

/* ---- idle, and many doorbells ---------------------------------------------------------------- */

TEST(idle_is_when_all_that_was_rung_is_complete)
{
	static const char *const faults[] = { "", "torn_cqe=1", "dbr_late=1", "delay=1" };

	for (size_t i = 0; i < ORI_COUNT(faults); i++) {
		uint32_t syndrome;
		struct pair p;

		pair_open(&p, NULL, faults[i], &shared, &shared);
		for (int n = 0; n < 20; n++) {
			CHECK(soft_nic_idle(p.w.nic[0]));
			post_rdma(&p, ORI_WQE_RDMA_WRITE, 0, 0, 64);
			CHECK(!soft_nic_idle(p.w.nic[0])); /* though no step has seen it */
			CHECK(soft_nic_idle(p.w.nic[1]));
			for (int s = 0; s < 10000 && !soft_nic_idle(p.w.nic[0]); s++)
				world_step(&p.w, 1);
			CHECK(queue_poll(&p.a, &syndrome));
			CHECK_EQ(syndrome, 0);
			world_settle(&p.w, 600); /* what is held back on the way home */
		}
		pair_close(&p);
	}
}

#define MANY 300

/* More doorbells than a step looks at: each is found, and soon. */
TEST(many_doorbells)
{
	struct queue *q = calloc(MANY, sizeof(*q)), peer;
	uint32_t syndrome;
	struct world w;

	REQUIRE(q);
	world_open(&w, 1, NULL, NULL);
	queue_open(&w, &peer, 0, 0, 0, 0);
	for (int i = 0; i < MANY; i++) {
		queue_open(&w, &q[i], 0, 2, 0, 0);
		CHECK_EQ(soft_qp_connect(w.nic[0], q[i].qpn, 0, peer.qpn), 0);
	}
	for (int round = 0; round < 3 * MANY; round++) {
		struct queue *one = &q[round * 77 % MANY];
		int steps = 0;

		ori_wqe_nop(queue_slot(one), one->next, one->qpn, 0);
		queue_ring(one);
		CHECK(!soft_nic_idle(w.nic[0]));
		while (!queue_poll(one, &syndrome) && steps < 100) {
			soft_nic_step(w.nic[0], 64);
			steps++;
		}
		CHECK(steps <= 6);
	}
	/* the same one again and again: it is in the front by then */
	for (int round = 0; round < 10; round++) {
		int steps = 0;

		ori_wqe_nop(queue_slot(&q[MANY - 1]), q[MANY - 1].next, q[MANY - 1].qpn, 0);
		queue_ring(&q[MANY - 1]);
		while (!queue_poll(&q[MANY - 1], &syndrome) && steps < 100) {
			soft_nic_step(w.nic[0], 64);
			steps++;
		}
		CHECK(steps == 1 || round < 4);
	}
	CHECK_EQ(w.at[0].error.count, 0);
	for (int i = 0; i < MANY; i++)
		queue_close(&w, &q[i]);
	queue_close(&w, &peer);
	world_close(&w);
	free(q);
}
