/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_ops.c - every WQE of the software NIC end to end, with the bytes checked, at
 * every edge of the indices and numbers: 16-bit WQE index, CQE phase, 24-bit PSN, depths from 1.
 */
#include "soft_world.h"

#include "engine/soft/state.h"

#define BYTES (1u << 20)
#define GUARD 64u

struct pair {
	struct world w;
	struct queue a, b;
	uint8_t *mem[2]; /* GUARD | BYTES | GUARD */
	uint32_t key[2];
};

static uint8_t *data_of(struct pair *p, int rank)
{
	return p->mem[rank] + GUARD;
}

static void pair_open(struct pair *p, const char *personality, const char *faults, uint32_t depth,
		      uint64_t first, int exported)
{
	world_open(&p->w, 2, personality, faults);
	for (int r = 0; r < 2; r++) {
		p->mem[r] = aligned_alloc(64, BYTES + 2 * GUARD);
		if (!p->mem[r])
			exit(1);
		memset(p->mem[r], 0xcc, BYTES + 2 * GUARD);
		p->key[r] = world_mr(&p->w, r, data_of(p, r), BYTES, WORLD_ALL, exported);
	}
	queue_open(&p->w, &p->a, 0, depth, first, 0);
	queue_open(&p->w, &p->b, 1, depth, first, 0);
	queue_connect(&p->w, &p->a, &p->b);
}

static void pair_close(struct pair *p)
{
	CHECK_EQ(p->w.at[0].error.count + p->w.at[1].error.count, 0);
	for (int r = 0; r < 2; r++)
		for (uint32_t i = 0; i < GUARD; i++) {
			CHECK_EQ(p->mem[r][i], 0xcc);
			CHECK_EQ(p->mem[r][GUARD + BYTES + i], 0xcc);
		}
	world_settle(&p->w, 300);
	CHECK(!soft_nic_busy(p->w.nic[0]) && !soft_nic_busy(p->w.nic[1]));
	queue_close(&p->w, &p->a);
	queue_close(&p->w, &p->b);
	world_close(&p->w);
	free(p->mem[0]);
	free(p->mem[1]);
}

static void post_rdma(struct pair *p, uint32_t opcode, uint64_t remote, uint64_t local,
		      uint32_t bytes, uint32_t flags)
{
	ori_wqe_rdma(queue_slot(&p->a), p->a.next, p->a.qpn, opcode, remote, p->key[1], local,
		     p->key[0], bytes, flags);
	queue_ring(&p->a);
}

static void post_inline(struct pair *p, uint64_t remote, const void *value, uint32_t bytes)
{
	ori_wqe_write_inline(queue_slot(&p->a), p->a.next, p->a.qpn, remote, p->key[1], value,
			     bytes, 0);
	queue_ring(&p->a);
}

static void post_add(struct pair *p, uint64_t remote, uint64_t value, uint64_t result,
		     uint32_t flags)
{
	ori_wqe_fetch_add(queue_slot(&p->a), p->a.next, p->a.qpn, remote, p->key[1], value, result,
			  p->key[0], flags);
	queue_ring(&p->a);
}

static const uint32_t sizes[] = { 1,     2,     7,     8,      9,      15,     16,     17,
				  28,    31,    32,    33,     63,     64,     65,     255,
				  256,   257,   4095,  4096,   4097,   8191,   8192,   8193,
				  65535, 65536, 65537, 131072, 262145, 786433, 1048576 };

static void one_write(struct pair *p, uint32_t bytes, uint64_t to, uint64_t from)
{
	memset(data_of(p, 1), 0x11, BYTES);
	post_rdma(p, ORI_WQE_RDMA_WRITE, to, from, bytes, 0);
	queue_drain(&p->w, &p->a, 0);
	CHECK(!memcmp(data_of(p, 1) + to, data_of(p, 0) + from, bytes));
	CHECK(!to || data_of(p, 1)[to - 1] == 0x11);
	CHECK(to + bytes == BYTES || data_of(p, 1)[to + bytes] == 0x11);
}

static void one_read(struct pair *p, uint32_t bytes, uint64_t from, uint64_t to)
{
	memset(data_of(p, 0), 0x22, BYTES);
	post_rdma(p, ORI_WQE_RDMA_READ, from, to, bytes, 0);
	queue_drain(&p->w, &p->a, 0);
	CHECK(!memcmp(data_of(p, 0) + to, data_of(p, 1) + from, bytes));
	CHECK(!to || data_of(p, 0)[to - 1] == 0x22);
	CHECK(to + bytes == BYTES || data_of(p, 0)[to + bytes] == 0x22);
}

static void all_sizes(const char *personality, const char *faults, int exported)
{
	struct pair p;

	pair_open(&p, personality, faults, 8, 0, exported);
	for (size_t i = 0; i < ORI_COUNT(sizes); i++) {
		world_fill(data_of(&p, 0), BYTES, sizes[i]);
		one_write(&p, sizes[i], 0, BYTES - sizes[i]);
		if (sizes[i] + 3 <= BYTES)
			one_write(&p, sizes[i], 3, 1);
		world_fill(data_of(&p, 1), BYTES, ~sizes[i]);
		one_read(&p, sizes[i], BYTES - sizes[i], 0);
		if (sizes[i] + 5 <= BYTES)
			one_read(&p, sizes[i], 1, 5);
	}
	pair_close(&p);
}

TEST(write_read_all_sizes)
{
	all_sizes("soft", NULL, 1);
	all_sizes("soft", NULL, 0); /* all inline */
	all_sizes("cx7", NULL, 1);
	all_sizes("efa", NULL, 1);
	all_sizes("thor2", "mtu=256", 0);
}

TEST(mtu_that_is_no_power_of_two)
{
	all_sizes("soft", "mtu=1000", 1);
	all_sizes("soft", "mtu=5000", 0);
}

TEST(inline_writes)
{
	struct pair p;
	uint8_t value[28];

	pair_open(&p, NULL, NULL, 4, 0, 1);
	for (uint32_t n = 1; n <= 28; n++)
		for (uint32_t at = 0; at < 9; at++) {
			world_fill(value, sizeof(value), n * 16 + at);
			memset(data_of(&p, 1), 0, 64);
			post_inline(&p, at, value, n);
			queue_drain(&p.w, &p.a, 0);
			CHECK(!memcmp(data_of(&p, 1) + at, value, n));
			CHECK_EQ(data_of(&p, 1)[at + n], 0);
		}
	pair_close(&p);
}

TEST(atomics)
{
	struct pair p;
	uint64_t *word, *result;

	pair_open(&p, NULL, NULL, 4, 0, 1);
	word = (uint64_t *)(void *)(data_of(&p, 1) + 64);
	result = (uint64_t *)(void *)(data_of(&p, 0) + 128);
	*word = UINT64_MAX - 1;
	post_add(&p, 64, 5, 128, 0);
	queue_drain(&p.w, &p.a, 0);
	CHECK_EQ(*word, 3);
	CHECK(*result == UINT64_MAX - 1);
	for (int hit = 0; hit < 2; hit++) {
		ori_wqe_compare_swap(queue_slot(&p.a), p.a.next, p.a.qpn, 64, p.key[1], hit ? 3 : 4,
				     77, 128, p.key[0], 0);
		queue_ring(&p.a);
		queue_drain(&p.w, &p.a, 0);
		CHECK_EQ(*result, 3);
		CHECK_EQ(*word, hit ? 77 : 3);
	}
	/* the answer may go to an address that is not aligned */
	post_add(&p, 64, 1, 131, 0);
	queue_drain(&p.w, &p.a, 0);
	CHECK(!memcmp(data_of(&p, 0) + 131, &(uint64_t){ 77 }, 8));
	pair_close(&p);
}

TEST(nop_and_dump)
{
	struct pair p;

	pair_open(&p, NULL, NULL, 4, 0, 1);
	ori_wqe_nop(queue_slot(&p.a), p.a.next, p.a.qpn, 0);
	queue_ring(&p.a);
	ori_wqe_dump(queue_slot(&p.a), p.a.next, p.a.qpn, 0, p.key[0], BYTES);
	queue_ring(&p.a);
	post_add(&p, 0, 1, 0, 0);
	ori_wqe_nop(queue_slot(&p.a), p.a.next, p.a.qpn, ORI_WQE_FENCE);
	queue_ring(&p.a);
	queue_drain(&p.w, &p.a, 0);
	pair_close(&p);
}

/* Loopback: the same NIC at both ends, and no resolving. */
TEST(loopback)
{
	struct pair p;
	struct queue a, b;

	pair_open(&p, NULL, NULL, 4, 0, 1);
	queue_open(&p.w, &a, 0, 8, 0, 0);
	queue_open(&p.w, &b, 0, 0, 0, 0);
	queue_connect(&p.w, &a, &b);
	world_fill(data_of(&p, 0), BYTES / 2, 1);
	for (uint32_t bytes = 8; bytes <= BYTES / 2; bytes *= 16) {
		memset(data_of(&p, 0) + BYTES / 2, 0, BYTES / 2);
		ori_wqe_rdma(queue_slot(&a), a.next, a.qpn, ORI_WQE_RDMA_WRITE, BYTES / 2, p.key[0],
			     0, p.key[0], bytes, 0);
		queue_ring(&a);
		queue_drain(&p.w, &a, 0);
		CHECK(!memcmp(data_of(&p, 0), data_of(&p, 0) + BYTES / 2, bytes));
		memset(data_of(&p, 0) + BYTES / 2, 0, BYTES / 2);
		ori_wqe_rdma(queue_slot(&a), a.next, a.qpn, ORI_WQE_RDMA_READ, 0, p.key[0],
			     BYTES / 2, p.key[0], bytes, 0);
		queue_ring(&a);
		queue_drain(&p.w, &a, 0);
		CHECK(!memcmp(data_of(&p, 0), data_of(&p, 0) + BYTES / 2, bytes));
	}
	queue_close(&p.w, &a);
	queue_close(&p.w, &b);
	pair_close(&p);
}

/* A mixed stream at one setting; words count up, data follows its number. */
static void stream(struct pair *p, int messages)
{
	uint64_t *words = (uint64_t *)(void *)data_of(p, 1);
	uint64_t adds = 0;
	uint32_t syndrome;

	memset(data_of(p, 1), 0, 4096);
	for (int i = 0; i < messages; i++) {
		uint64_t value = (uint64_t)i + 1;

		while (queue_full(&p->a)) {
			while (p->a.polled < p->a.next && queue_poll(&p->a, &syndrome))
				CHECK_EQ(syndrome, 0);
			if (queue_full(&p->a))
				world_step(&p->w, 1 + i % 5);
		}
		switch (i % 4) {
		case 0:
			post_inline(p, 0, &value, 8);
			break;
		case 1:
			post_add(p, 8, 1, 64, 0);
			adds++;
			break;
		case 2:
			memcpy(data_of(p, 0) + 8192 + (i % 64) * 64, &value, 8);
			post_rdma(p, ORI_WQE_RDMA_WRITE, 8192 + (uint64_t)(i % 64) * 64,
				  8192 + (uint64_t)(i % 64) * 64, 64, 0);
			break;
		default:
			post_rdma(p, ORI_WQE_RDMA_READ, 8, 128, 8, 0);
			break;
		}
	}
	queue_drain(&p->w, &p->a, 0);
	CHECK_EQ(words[0], (uint64_t)((messages - 1) / 4 * 4 + 1));
	CHECK_EQ(words[1], adds);
	CHECK(!memcmp(data_of(p, 0) + 8192, data_of(p, 1) + 8192, 64 * 64) || messages < 256);
}

TEST(indices_and_numbers_wrap)
{
	static const uint64_t firsts[] = { 0, 0xfff0, 0x7ff0, (1u << 24) - 8, (1ull << 32) - 8 };
	static const uint32_t depths[] = { 1, 2, 4, 8, 64, 256 };
	static const char *const psns[] = { "first_psn=0", "first_psn=0xfffff0" };

	for (size_t f = 0; f < ORI_COUNT(firsts); f++)
		for (size_t d = 0; d < ORI_COUNT(depths); d++)
			for (size_t n = 0; n < ORI_COUNT(psns); n++) {
				struct pair p;

				pair_open(&p, NULL, psns[n], depths[d], firsts[f], 1);
				stream(&p, 700);
				pair_close(&p);
			}
}

/* More than 2^16 WQEs on one queue. */
TEST(index_runs_round)
{
	struct pair p;

	pair_open(&p, NULL, "first_psn=0xff0000", 64, 0, 1);
	stream(&p, 140000);
	pair_close(&p);
}

TEST(doorbell_from_record)
{
	static const char *const modes[] = { "dbr=record", "dbr=random,seed=3",
					     "dbr_late=0.5,seed=4", "torn_cqe=0.5,seed=5" };

	for (size_t i = 0; i < ORI_COUNT(modes); i++) {
		struct pair p;

		pair_open(&p, NULL, modes[i], 8, 0xfff0, 1);
		stream(&p, 2000);
		pair_close(&p);
	}
}

/* A signal must never be seen before its data, at any step, under any budget. */
TEST(signal_after_data)
{
	for (int budget = 1; budget < 6; budget++) {
		struct pair p;
		uint64_t *signal;
		uint64_t seen = 0;

		pair_open(&p, NULL, "mtu=512", 16, 0, 1);
		signal = (uint64_t *)(void *)(data_of(&p, 1) + 65536);
		*signal = 0;
		for (uint64_t round = 1; round <= 50; round++) {
			memset(data_of(&p, 0), (int)round, 8192);
			post_rdma(&p, ORI_WQE_RDMA_WRITE, 0, 0, 8192, 0);
			post_inline(&p, 65536, &round, 8);
			while (*signal < round) {
				CHECK_EQ(*signal, seen);
				world_step(&p.w, budget);
			}
			seen = *signal;
			for (int i = 0; i < 8192; i++)
				if (data_of(&p, 1)[i] != (uint8_t)round) {
					CHECK_EQ(data_of(&p, 1)[i], (uint8_t)round);
					break;
				}
			queue_drain(&p.w, &p.a, 0);
		}
		pair_close(&p);
	}
}

/*
 * Reads limited to max_reads at a time, and by the window of numbers, with writes between them.
 * The answers are more than the wire holds; no ACK of a write may make one of them look lost.
 */
TEST(many_reads)
{
	static const char *const settings[] = { "mtu=64,max_reads=2", "mtu=64,max_reads=16" };

	for (int n = 0; n < 2; n++) {
		struct pair p;

		pair_open(&p, NULL, settings[n], 64, 0, 1);
		world_fill(data_of(&p, 1), BYTES, 9);
		memset(data_of(&p, 0), 0, BYTES);
		for (uint64_t i = 0; i < 32; i++) {
			post_rdma(&p, ORI_WQE_RDMA_READ, i * 4096, i * 4096, 4096, 0);
			post_rdma(&p, ORI_WQE_RDMA_WRITE, BYTES / 2 + i, BYTES / 2 + i, 1, 0);
		}
		for (int i = 0; i < 20000; i++)
			world_step(&p.w, 3);
		queue_drain(&p.w, &p.a, 0);
		CHECK(!memcmp(data_of(&p, 0), data_of(&p, 1), 32 * 4096));
		CHECK_EQ(world_stats(&p.w).retransmits, 0);
		pair_close(&p);
	}
}

/* ce 0: no CQE but for errors; the next with one retires it. */
TEST(unsignalled)
{
	struct pair p;
	uint32_t syndrome;
	uint64_t value = 5;

	pair_open(&p, NULL, NULL, 8, 0, 1);
	post_inline(&p, 0, &value, 8);
	p.a.next--;
	queue_slot(&p.a)->ctrl.fm_ce_se = 0;
	p.a.next++;
	world_settle(&p.w, 50);
	CHECK(!queue_poll(&p.a, &syndrome));
	CHECK_EQ(*(uint64_t *)(void *)data_of(&p, 1), 5);
	CHECK(!soft_nic_busy(p.w.nic[0]));
	pair_close(&p);
}

/*
 * More WQEs than may be under way at once, and one answer to all that are: nothing else will ever
 * wake the queue pair for the rest, so it must do that itself.  The wire has room for fewer than
 * the window, so the answers to the first of them are lost on the way.
 */
TEST(window_answered_at_once)
{
	struct soft_rx *answers;
	struct pair p;
	uint32_t syndrome;

	pair_open(&p, NULL, NULL, 128, 0, 1);
	answers = &p.w.nic[0]->peers[1].rx;
	world_fill(data_of(&p, 0), 1024, 9);
	for (uint64_t i = 0; i < 128; i++)
		post_rdma(&p, ORI_WQE_RDMA_WRITE, i * 8, i * 8, 8, 0);
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < 8; i++)
			soft_nic_step(p.w.nic[0], 1000);
		for (int i = 0; i < 8; i++)
			soft_nic_step(p.w.nic[1], 1000);
		while (turn == 0 && soft_rx_peek(answers))
			answers->next++;
	}
	/* the clock stands still: no timer helps */
	for (int i = 0; i < 40; i++)
		soft_nic_step(p.w.nic[i % 2], 1000);
	while (p.a.polled < p.a.next && queue_poll(&p.a, &syndrome))
		CHECK_EQ(syndrome, 0);
	CHECK_EQ(p.a.polled, p.a.next);
	CHECK(!memcmp(data_of(&p, 1), data_of(&p, 0), 1024));
	pair_close(&p);
}

/* A payload that cannot be read now counts as lost, and is sent again. */
TEST(unresolved_payload)
{
	struct pair p;

	pair_open(&p, NULL, "retry_ns=10000", 8, 0, 1);
	p.w.unresolved = 2;
	world_fill(data_of(&p, 0), BYTES, 4);
	one_write(&p, 300000, 0, 0);
	CHECK(world_stats(&p.w).retransmits > 0);
	p.w.unresolved = 2;
	one_read(&p, 300000, 0, 0);
	pair_close(&p);
}

TEST(rate_limits)
{
	struct pair p;
	uint64_t before;

	pair_open(&p, NULL, "rate=100M", 8, 0, 1);
	before = p.w.now_ns;
	one_write(&p, BYTES, 0, 0);
	/* 1 MiB at 100 MB/s are 10.5 ms, less 1.1 ms of credit at most */
	CHECK(p.w.now_ns - before > 8000000);
	CHECK(p.w.now_ns - before < 20000000);
	pair_close(&p);
}

/* Two ACKs or so for a burst, not one a message. */
TEST(acks_are_few)
{
	struct pair p;
	struct soft_stats before, after;
	uint64_t value = 1;

	pair_open(&p, NULL, NULL, 64, 0, 1);
	before = world_stats(&p.w);
	for (int i = 0; i < 32; i++)
		post_inline(&p, 0, &value, 8);
	queue_drain(&p.w, &p.a, 0);
	after = world_stats(&p.w);
	CHECK(after.packets_sent - before.packets_sent <= 32 + 4);
	CHECK(after.packets_sent - before.packets_sent >= 33);
	pair_close(&p);
}
