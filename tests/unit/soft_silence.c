/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_silence.c - a peer that falls silent, and the faults that strike at the n-th WQE.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soft_world.h"

/* The other side falls silent: RETRY_EXCEEDED for the first, flush for the rest, told once. */
static void silent(const char *faults, int stepping)
{
	struct world w;
	struct queue a, b;
	static uint64_t word;
	uint32_t key, syndrome, seen[3] = { 0, 0, 0 };
	uint64_t value = 3;

	world_open(&w, 2, NULL, faults);
	queue_open(&w, &a, 0, 8, 0, 0);
	queue_open(&w, &b, 1, 8, 0, 0);
	queue_connect(&w, &a, &b);
	key = world_mr(&w, 1, &word, 8, WORLD_ALL, 0);
	for (int i = 0; i < 3; i++) {
		ori_wqe_write_inline(queue_slot(&a), a.next, a.qpn, 0, key, &value, 8, 0);
		queue_ring(&a);
	}
	for (int i = 0, n = 0; i < 200000 && n < 3; i++) {
		w.now_ns += 10000;
		soft_nic_step(w.nic[0], 16);
		if (stepping)
			soft_nic_step(w.nic[1], 16);
		while (n < 3 && queue_poll(&a, &syndrome))
			seen[n++] = syndrome;
	}
	CHECK_EQ(seen[0], ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK_EQ(seen[1], ORI_SYNDROME_FLUSHED);
	CHECK_EQ(seen[2], ORI_SYNDROME_FLUSHED);
	CHECK_EQ(w.at[0].error.count, 1);
	CHECK_EQ(w.at[0].error.syndrome, ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK_EQ(w.at[0].error.qpn, a.qpn);
	CHECK_EQ(w.at[0].error.index, 0);
	queue_close(&w, &a);
	queue_close(&w, &b);
	world_close(&w);
}

TEST(peer_never_steps)
{
	silent("retry=4", 0);
}

TEST(wire_drops_all)
{
	silent("retry=4,drop=1,seed=1", 1);
}

/* A ring that stays full is a dead peer too. */
TEST(peer_never_steps_and_wire_fills)
{
	struct world w;
	struct queue a, b;
	static uint8_t mem[4096];
	uint32_t key0, key1;

	world_open(&w, 2, NULL, "retry=4");
	queue_open(&w, &a, 0, 256, 0, 0);
	queue_open(&w, &b, 1, 8, 0, 0);
	queue_connect(&w, &a, &b);
	key0 = world_mr(&w, 0, mem, sizeof(mem), WORLD_ALL, 0);
	key1 = world_mr(&w, 1, mem, sizeof(mem), WORLD_ALL, 0);
	for (int i = 0; i < 200; i++) {
		ori_wqe_rdma(queue_slot(&a), a.next, a.qpn, ORI_WQE_RDMA_WRITE, 0, key1, 0, key0,
			     4096, 0);
		queue_ring(&a);
	}
	for (int i = 0; i < 100000 && a.polled < a.next; i++) {
		uint32_t syndrome;

		w.now_ns += 10000;
		soft_nic_step(w.nic[0], 16);
		while (a.polled < a.next && queue_poll(&a, &syndrome))
			CHECK_EQ(syndrome, a.polled == 1 ? ORI_SYNDROME_RETRY_EXCEEDED :
							   ORI_SYNDROME_FLUSHED);
	}
	CHECK_EQ(a.polled, 200);
	queue_close(&w, &a);
	queue_close(&w, &b);
	world_close(&w);
}

/* stall_at: this NIC does nothing any more; its peer finds out. */
TEST(stall_at)
{
	struct world w;
	struct queue a, b;
	static uint64_t word[2];
	uint32_t key0, key1, syndrome = 0;
	uint64_t value = 9;

	world_open(&w, 2, NULL, "retry=4,stall_at=3");
	queue_open(&w, &a, 0, 8, 0, 0);
	queue_open(&w, &b, 1, 8, 0, 0);
	queue_connect(&w, &a, &b);
	key0 = world_mr(&w, 0, &word[0], 8, WORLD_ALL, 0);
	key1 = world_mr(&w, 1, &word[1], 8, WORLD_ALL, 0);
	for (int i = 0; i < 3; i++) {
		ori_wqe_write_inline(queue_slot(&a), a.next, a.qpn, 0, key1, &value, 8, 0);
		queue_ring(&a);
	}
	world_settle(&w, 100);
	CHECK(!soft_nic_busy(w.nic[0]));
	ori_wqe_write_inline(queue_slot(&b), b.next, b.qpn, 0, key0, &value, 8, 0);
	queue_ring(&b);
	w.step_ns = 100000;
	for (int i = 0; i < 100000 && !queue_poll(&b, &syndrome); i++)
		world_step(&w, 16);
	CHECK_EQ(syndrome, ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK_EQ(word[0], 0);
	queue_close(&w, &a);
	queue_close(&w, &b);
	world_close(&w);
}

static void at_wqe(const char *faults, uint32_t want)
{
	struct world w;
	struct queue a, b;
	static uint64_t from[4], to[4];
	uint32_t key0, key1, syndrome;

	memset(to, 0, sizeof(to));
	world_open(&w, 2, NULL, faults);
	queue_open(&w, &a, 0, 8, 0, 0);
	queue_open(&w, &b, 1, 8, 0, 0);
	queue_connect(&w, &a, &b);
	key0 = world_mr(&w, 0, from, sizeof(from), WORLD_ALL, 0);
	key1 = world_mr(&w, 1, to, sizeof(to), WORLD_ALL, 0);
	for (uint64_t i = 0; i < 4; i++) {
		from[i] = i + 1;
		ori_wqe_rdma(queue_slot(&a), a.next, a.qpn, ORI_WQE_RDMA_WRITE, 8 * i, key1, 8 * i,
			     key0, 8, 0);
		queue_ring(&a);
	}
	world_settle(&w, 100);
	for (int i = 0; i < 4; i++) {
		CHECK(queue_poll(&a, &syndrome));
		CHECK_EQ(syndrome, i < 2 ? 0 : i == 2 ? want : ORI_SYNDROME_FLUSHED);
		CHECK_EQ(to[i], i < 2 ? (uint64_t)i + 1 : 0);
	}
	CHECK_EQ(w.at[0].error.count, 1);
	CHECK_EQ(w.at[0].error.index, 2);
	soft_mr_destroy(w.nic[0], key0); /* revoked already: nothing happens */
	queue_close(&w, &a);
	queue_close(&w, &b);
	world_close(&w);
}

TEST(qp_error_at)
{
	at_wqe("qp_error_at=3", ORI_SYNDROME_ABORTED);
}

TEST(revoke_at)
{
	at_wqe("revoke_at=3", ORI_SYNDROME_LOCAL_PROT);
}

/* kill_at ends the process, as a crash would. */
TEST(kill_at)
{
	pid_t child = fork();
	int status = 0;

	REQUIRE(child >= 0);
	if (!child) {
		struct world w;
		struct queue a;

		world_open(&w, 1, NULL, "kill_at=2");
		queue_open(&w, &a, 0, 4, 0, 0);
		if (soft_qp_connect(w.nic[0], a.qpn, 0, a.qpn))
			_exit(1);
		for (int i = 0; i < 2; i++) {
			ori_wqe_nop(queue_slot(&a), a.next, a.qpn, 0);
			queue_ring(&a);
			world_settle(&w, 10);
		}
		_exit(2);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
