/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_ends.c - impossible doorbells, and the end of queue pairs: by hand, together with
 * their peer, in the middle of traffic.  Also what creation refuses.
 */
#include "soft_bench.h"

#include "engine/soft/state.h"

/* ---- doorbells ------------------------------------------------------------------------------- */

static void bad_doorbell(struct bench *t, uint64_t value)
{
	uint32_t syndrome = 0;

	good(t);
	queue_drain(&t->w, &t->a, 0);
	t->a.doorbell = value;
	for (int i = 0; i < 100 && !queue_poll(&t->a, &syndrome); i++)
		world_step(&t->w, 8);
	CHECK_EQ(syndrome, ORI_SYNDROME_LOCAL_QP_OP);
	CHECK_EQ(t->w.at[0].error.count, 1);
	CHECK_EQ(t->w.at[0].error.syndrome, ORI_SYNDROME_LOCAL_QP_OP);
	/* what is rung rightly afterwards is flushed */
	t->a.next = t->a.polled;
	good(t);
	queue_drain(&t->w, &t->a, ORI_SYNDROME_FLUSHED);
	/* and nonsense is passed over */
	t->a.doorbell = ori_doorbell_value(t->a.next + 100, t->a.qpn);
	world_settle(&t->w, 20);
	t->a.doorbell = ori_doorbell_value(t->a.next + 1, t->a.qpn + 1);
	world_settle(&t->w, 20);
	CHECK(!queue_poll(&t->a, &syndrome));
	good(t);
	queue_drain(&t->w, &t->a, ORI_SYNDROME_FLUSHED);
	CHECK_EQ(t->w.at[0].error.count, 1);
	bench_close(t);
}

TEST(doorbells_out_of_range)
{
	struct bench *t;

	t = bench_open(NULL);
	bad_doorbell(t, ori_doorbell_value(0xfffe, t->a.qpn)); /* back */
	t = bench_open(NULL);
	bad_doorbell(t, ori_doorbell_value(0xffff + 9, t->a.qpn)); /* past the ring */
	t = bench_open(NULL);
	bad_doorbell(t, ori_doorbell_value(0x8000, t->a.qpn));
	t = bench_open(NULL);
	bad_doorbell(t, ori_doorbell_value(0x10000, t->a.qpn + 1)); /* another queue's number */
	t = bench_open(NULL);
	bad_doorbell(t, 0);
	t = bench_open(NULL);
	bad_doorbell(t, UINT64_MAX);
}

/* Rung over a full queue: the first outstanding WQE bears the error. */
TEST(doorbell_over_a_full_queue)
{
	struct bench *t = bench_open(NULL);
	uint32_t syndrome;

	for (int i = 0; i < 8; i++) {
		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 0,
			     t->key[1], 0, t->key[0], 64, 0);
		queue_ring(&t->a);
	}
	soft_nic_step(t->w.nic[0], 100); /* sent, and not answered */
	t->a.doorbell = ori_doorbell_value(t->a.next + 1, t->a.qpn);
	for (int i = 0; i < 8; i++) {
		for (int n = 0; n < 100 && !queue_poll(&t->a, &syndrome); n++)
			world_step(&t->w, 3);
		CHECK_EQ(syndrome, i ? ORI_SYNDROME_FLUSHED : ORI_SYNDROME_LOCAL_QP_OP);
	}
	bench_close(t);
}

/*
 * Strict mode sees a block that is written again before its completion; faithful mode does not
 * look.
 */
TEST(block_reused_early)
{
	for (int strict = 0; strict < 2; strict++) {
		struct bench *t = bench_open(strict ? "strict=1" : NULL);

		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 8,
			     t->key[1], 8, t->key[0], 64, 0);
		queue_ring(&t->a);
		soft_nic_step(t->w.nic[0], 100); /* sent, and not answered */
		t->a.sq[t->a.first & 7].u.rdma.raddr.address ^= 1;
		queue_drain(&t->w, &t->a, strict ? ORI_SYNDROME_LOCAL_QP_OP : 0);
		bench_close(t);
	}
}

/* Strict mode tells a record that is behind its doorbell; the queue would hang on hardware. */
TEST(record_behind_the_doorbell)
{
	struct bench *t = bench_open("dbr=record,strict=1");
	uint32_t syndrome = 0;

	ori_wqe_nop(queue_slot(&t->a), t->a.next, t->a.qpn, 0);
	t->a.doorbell = ori_doorbell_value(t->a.next + 1, t->a.qpn);
	for (int i = 0; i < 100 && !queue_poll(&t->a, &syndrome); i++)
		world_step(&t->w, 8);
	CHECK_EQ(syndrome, ORI_SYNDROME_LOCAL_QP_OP);
	bench_close(t);
}

/* ---- ends ------------------------------------------------------------------------------------ */

TEST(failed_by_hand)
{
	struct bench *t = bench_open(NULL);
	uint32_t syndrome;

	for (int i = 0; i < 3; i++)
		good(t);
	world_step(&t->w, 1); /* rung, and hardly begun */
	soft_qp_fail(t->w.nic[0], t->a.qpn, ORI_SYNDROME_ABORTED);
	world_settle(&t->w, 50);
	for (int i = 0, first = 1; i < 3; i++) {
		CHECK(queue_poll(&t->a, &syndrome));
		if (!syndrome)
			continue;
		CHECK_EQ(syndrome, first ? ORI_SYNDROME_ABORTED : ORI_SYNDROME_FLUSHED);
		first = 0;
	}
	CHECK_EQ(t->w.at[0].error.count, 1);
	/* the peer's requests are answered with an error, at once */
	ori_wqe_rdma(queue_slot(&t->b), t->b.next, t->b.qpn, ORI_WQE_RDMA_WRITE, 0, t->key[0], 0,
		     t->key[1], 64, 0);
	queue_ring(&t->b);
	queue_drain(&t->w, &t->b, ORI_SYNDROME_REMOTE_OP);
	CHECK(untouched(t, 0));
	bench_close(t);
}

TEST(failed_with_nothing_outstanding)
{
	struct bench *t = bench_open(NULL);

	soft_qp_fail(t->w.nic[0], t->a.qpn, ORI_SYNDROME_ABORTED);
	world_settle(&t->w, 10);
	CHECK_EQ(t->w.at[0].error.count, 1);
	CHECK_EQ(t->w.at[0].error.syndrome, ORI_SYNDROME_ABORTED);
	good(t);
	queue_drain(&t->w, &t->a, ORI_SYNDROME_FLUSHED);
	soft_qp_fail(t->w.nic[0], t->a.qpn, ORI_SYNDROME_ABORTED);
	world_settle(&t->w, 10);
	CHECK_EQ(t->w.at[0].error.count, 1);
	bench_close(t);
}

/* The peer's queue pair was destroyed: its number is not found, so there is no answer. */
TEST(peer_destroyed)
{
	struct bench *t = bench_open(NULL);
	struct queue other;
	uint32_t old = t->b.qpn;

	queue_close(&t->w, &t->b);
	queue_open(&t->w, &other, 1, 8, 0, 0); /* same slot, another number */
	CHECK(other.qpn != old);
	CHECK_EQ(other.qpn & 0x3fff, old & 0x3fff);
	ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 0, t->key[1], 0,
		     t->key[0], 64, 0);
	queue_ring(&t->a);
	t->w.step_ns = 20000;
	expect(t, ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK(untouched(t, 1));
	t->b = other;
	bench_close(t);
}

/*
 * Errors in the middle of long traffic: earlier WQEs complete, each WQE has exactly one CQE, in
 * order.
 */
TEST(flush_in_order)
{
	for (int seed = 0; seed < 40; seed++) {
		char text[96];
		struct bench *t;
		uint32_t syndrome, posted = 0, bad = 3 + (uint32_t)seed % 9, state = 0;

		snprintf(text, sizeof(text), "seed=%d,drop=%s,torn_cqe=0.3,mtu=64,retry=60", seed,
			 seed % 2 ? "0.1" : "0");
		t = bench_open(text);
		for (int i = 0; i < 100000 && t->a.polled - t->a.first < 24; i++) {
			if (!queue_full(&t->a) && posted < 24) {
				uint64_t far = posted == bad ? BYTES : 0;

				ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn,
					     posted % 3 ? ORI_WQE_RDMA_WRITE : ORI_WQE_RDMA_READ,
					     far, t->key[1], 0, t->key[0], 1 + posted * 40, 0);
				queue_ring(&t->a);
				posted++;
			}
			world_step(&t->w, 1 + i % 4);
			while (t->a.polled < t->a.next && queue_poll(&t->a, &syndrome)) {
				uint32_t n = (uint32_t)(t->a.polled - 1 - t->a.first);

				CHECK_EQ(syndrome, n < bad ? 0 : n == bad ? 0x13 : 0x05);
				state += syndrome == 0x13;
			}
		}
		CHECK_EQ(t->a.polled - t->a.first, 24);
		CHECK_EQ(state, 1);
		CHECK(!queue_poll(&t->a, &syndrome));
		memset(t->mem[0] + GUARD, 0x77, BYTES);
		bench_close(t);
	}
}

/* Creation refuses what cannot work. */
TEST(bad_creation)
{
	struct bench *t = bench_open(NULL);
	struct soft_nic *nic = t->w.nic[0];
	struct soft_qp_attr attr = { t->a.sq, t->a.cq, t->a.record, &t->a.doorbell,
				     3,       0,       WORLD_PD,    0 };
	struct soft_mr_attr mr = {
		t->mem[0], UINT64_MAX - 10, BYTES, WORLD_ALL, WORLD_PD, 0, 0, 0,
	};
	uint32_t qpn, cqn, key;
	struct soft_config config = t->w.config;
	struct soft_world around = { .clock = world_clock };
	struct soft_nic *made = NULL;

	CHECK_EQ(soft_qp_create(nic, &attr, &qpn, &cqn), ORIEL_EINVAL);
	attr.depth = 65536;
	CHECK_EQ(soft_qp_create(nic, &attr, &qpn, &cqn), ORIEL_EINVAL);
	attr.depth = 8;
	attr.doorbell = NULL;
	CHECK_EQ(soft_qp_create(nic, &attr, &qpn, &cqn), ORIEL_EINVAL);
	CHECK_EQ(soft_mr_create(nic, &mr, &key), ORIEL_EINVAL);
	mr.iova = 0;
	mr.bytes = 0;
	CHECK_EQ(soft_mr_create(nic, &mr, &key), ORIEL_EINVAL);
	CHECK_EQ(soft_qp_connect(nic, t->a.qpn, 1, 5), ORIEL_EINVAL); /* twice */
	CHECK_EQ(soft_qp_connect(nic, 0, 1, 5), ORIEL_EINVAL);
	config.mtu = 1;
	CHECK_EQ(soft_nic_create(&config, &around, 0, 1, &made), ORIEL_EINVAL);
	CHECK(!made);
	soft_nic_destroy(NULL);
	soft_qp_destroy(nic, 0xabcdef);
	soft_qp_fail(nic, 0xabcdef, 1);
	bench_close(t);
}

/* Keys of the same slot differ from one life to the next, and the table grows. */
TEST(many_keys)
{
	struct bench *t = bench_open(NULL);
	uint32_t keys[200], last = 0;

	for (int i = 0; i < 200; i++)
		keys[i] = world_mr(&t->w, 0, t->mem[0], 64, WORLD_ALL, 0);
	for (int i = 0; i < 200; i++)
		for (int k = 0; k < i; k++)
			CHECK(keys[i] != keys[k]);
	for (int i = 0; i < 200; i++) {
		soft_mr_destroy(t->w.nic[0], keys[i]);
		CHECK(!soft_mr_find(t->w.nic[0], keys[i], WORLD_PD, 0, 0, 1, NULL));
	}
	for (int i = 0; i < 1000; i++) {
		uint32_t key = world_mr(&t->w, 0, t->mem[0], 64, WORLD_ALL, 0);

		CHECK(key != last);
		for (int k = 0; k < 200; k++)
			CHECK(key != keys[k]); /* the slot may be an old one, the key is not */
		CHECK(soft_mr_find(t->w.nic[0], key, WORLD_PD, WORLD_ALL, 0, 64, NULL) ==
		      t->mem[0]);
		last = key;
		soft_mr_destroy(t->w.nic[0], key);
	}
	bench_close(t);
}
