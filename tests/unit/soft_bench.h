/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_bench.h - two ranks for the tests of errors: guarded memory, a queue pair that
 * will fail, and another one that shows that the NICs still work afterwards.
 */
#ifndef ORI_TEST_SOFT_BENCH_H
#define ORI_TEST_SOFT_BENCH_H

#include "soft_world.h"

#define BYTES 4096u
#define GUARD 256u

/* Two ranks; a second pair of queues shows that the NICs are still alive afterwards. */
struct bench {
	struct world w;
	struct queue a, b, a2, b2;
	uint8_t mem[2][GUARD + BYTES + GUARD] __attribute__((aligned(64)));
	uint32_t key[2];
};

static struct bench *bench_open(const char *faults)
{
	struct bench *t = aligned_alloc(64, (sizeof(*t) + 63) & ~(size_t)63);
	char text[256];

	if (!t)
		exit(1);
	memset(t, 0, sizeof(*t));
	memset(t->mem, 0x77, sizeof(t->mem));
	snprintf(text, sizeof(text), "strict=0,retry=4,retry_ns=100000,%s", faults ? faults : "");
	world_open(&t->w, 2, NULL, text);
	for (int r = 0; r < 2; r++)
		t->key[r] = world_mr(&t->w, r, t->mem[r] + GUARD, BYTES, WORLD_ALL, 0);
	queue_open(&t->w, &t->a, 0, 8, 0xfffe, 0);
	queue_open(&t->w, &t->b, 1, 8, 0xfffe, 0);
	queue_open(&t->w, &t->a2, 0, 8, 0, 0);
	queue_open(&t->w, &t->b2, 1, 8, 0, 0);
	queue_connect(&t->w, &t->a, &t->b);
	queue_connect(&t->w, &t->a2, &t->b2);
	return t;
}

__attribute__((unused)) static int untouched(const struct bench *t, int rank)
{
	for (size_t i = 0; i < sizeof(t->mem[rank]); i++)
		if (t->mem[rank][i] != 0x77)
			return 0;
	return 1;
}

/* The other queue pairs still work, both ways. */
static void check_alive(struct bench *t)
{
	uint64_t value = 0x1122334455667788ull;

	ori_wqe_write_inline(queue_slot(&t->a2), t->a2.next, t->a2.qpn, 0, t->key[1], &value, 8, 0);
	queue_ring(&t->a2);
	queue_drain(&t->w, &t->a2, 0);
	CHECK(!memcmp(t->mem[1] + GUARD, &value, 8));
}

static void bench_close(struct bench *t)
{
	check_alive(t);
	for (size_t i = 0; i < GUARD; i++)
		for (int r = 0; r < 2; r++) {
			CHECK_EQ(t->mem[r][i], 0x77);
			CHECK_EQ(t->mem[r][GUARD + BYTES + i], 0x77);
		}
	world_settle(&t->w, 100);
	CHECK(!soft_nic_busy(t->w.nic[0]) && !soft_nic_busy(t->w.nic[1]));
	queue_close(&t->w, &t->a);
	queue_close(&t->w, &t->b);
	queue_close(&t->w, &t->a2);
	queue_close(&t->w, &t->b2);
	world_close(&t->w);
	free(t);
}

/*
 * Posts one good WQE, the bad one (already in its slot) and two good ones.  Expects success, the
 * syndrome and two flushes; then a WQE that is rung after the error, flushed too.
 */
static void good(struct bench *t)
{
	ori_wqe_nop(queue_slot(&t->a), t->a.next, t->a.qpn, 0);
	queue_ring(&t->a);
}

__attribute__((unused)) static void expect(struct bench *t, uint32_t want)
{
	uint64_t bad = t->a.next - 1;
	uint32_t syndrome, seen = 0;

	good(t);
	good(t);
	for (int i = 0; i < 20000 && t->a.polled < t->a.next; i++) {
		world_step(&t->w, 1 + i % 7);
		while (t->a.polled < t->a.next && queue_poll(&t->a, &syndrome)) {
			seen++;
			CHECK_EQ(syndrome, t->a.polled - 1 < bad  ? 0 :
					   t->a.polled - 1 == bad ? want :
								    ORI_SYNDROME_FLUSHED);
		}
	}
	CHECK_EQ(t->a.polled, t->a.next);
	good(t);
	queue_drain(&t->w, &t->a, ORI_SYNDROME_FLUSHED);
	CHECK_EQ(t->w.at[0].error.count, 1);
	CHECK_EQ(t->w.at[0].error.qpn, t->a.qpn);
	CHECK_EQ(t->w.at[0].error.syndrome, want);
	CHECK_EQ(t->w.at[0].error.index, bad);
}

#endif
