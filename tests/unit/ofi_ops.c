/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit/ofi_ops.c - the ofi engine moves data: writes, reads, atomics, counters, order, over TCP on
 * loopback between two engines of one process.
 */
#include "ofi_world.h"

static void fill(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		p[i] = (uint8_t)(seed >> 56);
	}
}

static uint64_t word_at(const struct end *e, uint64_t offset)
{
	return __atomic_load_n((const uint64_t *)(const void *)(e->memory + offset),
			       __ATOMIC_ACQUIRE);
}

/* A put is in the second half of the peer's memory when its CQE says so. */
TEST(write_and_read)
{
	static const uint32_t sizes[] = { 1,    15,    16,    17,      4095,         4096,
					  4097, 65536, 65537, 1 << 20, (1 << 20) + 3 };
	struct ori_config config;
	struct end p[2];
	uint64_t half = END_BYTES / 2;

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	for (size_t i = 0; i < ORI_COUNT(sizes); i++) {
		uint32_t n = sizes[i];

		fill(p[0].memory, n, i + 1);
		end_rdma(&p[0], ORI_WQE_RDMA_WRITE, half + i, 0, n, p[0].theirs.key[0]);
		CHECK_EQ(end_drain(&p[0], &p[0].main), 0);
		CHECK(!memcmp(p[1].memory + half + i, p[0].memory, n));
		memset(p[0].memory, 0, n);
		end_rdma(&p[0], ORI_WQE_RDMA_READ, half + i, 0, n, p[0].theirs.key[0]);
		CHECK_EQ(end_drain(&p[0], &p[0].main), 0);
		CHECK(!memcmp(p[1].memory + half + i, p[0].memory, n));
	}
	CHECK_EQ(p[0].failed + p[1].failed, 0);
	pair_close(p);
}

TEST(atomics)
{
	struct ori_config config;
	struct end p[2];
	struct end_queue *d = &p[0].main;
	uint64_t *result;

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	CHECK(p[0].engine->link_flags & ORIEL_LINK_ATOMICS);
	result = (uint64_t *)(void *)p[0].memory;
	for (uint64_t i = 0; i < 5; i++) {
		ori_wqe_fetch_add(end_slot(d), d->next, d->q.qpn, 64, p[0].theirs.key[0],
				  0x100000001ull, 0, p[0].mine.key[0], 0);
		end_ring(&p[0], d);
		CHECK_EQ(end_drain(&p[0], d), 0);
		CHECK_EQ(*result, i * 0x100000001ull);
	}
	ori_wqe_compare_swap(end_slot(d), d->next, d->q.qpn, 64, p[0].theirs.key[0],
			     5 * 0x100000001ull, 77, 0, p[0].mine.key[0], 0);
	end_ring(&p[0], d);
	CHECK_EQ(end_drain(&p[0], d), 0);
	CHECK_EQ(*result, 5 * 0x100000001ull);
	CHECK_EQ(word_at(&p[1], 64), 77);
	ori_wqe_compare_swap(end_slot(d), d->next, d->q.qpn, 64, p[0].theirs.key[0], 76, 99, 0,
			     p[0].mine.key[0], 0);
	end_ring(&p[0], d);
	CHECK_EQ(end_drain(&p[0], d), 0);
	CHECK_EQ(*result, 77);
	CHECK_EQ(word_at(&p[1], 64), 77);
	pair_close(p);
}

/*
 * 1 to 28 bytes from the WQE itself, aligned and not: a word goes as an atomic, the rest as a
 * write.
 */
TEST(inline_writes)
{
	struct ori_config config;
	struct end p[2];
	struct end_queue *d = &p[0].main;
	uint8_t data[28];

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	for (uint32_t n = 1; n <= 28; n++)
		for (uint64_t at = 128; at < 137; at += 4) {
			fill(data, n, n + at);
			ori_wqe_write_inline(end_slot(d), d->next, d->q.qpn, at, p[0].theirs.key[0],
					     data, n, 0);
			end_ring(&p[0], d);
			CHECK_EQ(end_drain(&p[0], d), 0);
			CHECK(!memcmp(p[1].memory + at, data, n));
		}
	pair_close(p);
}

/*
 * Put and signal without waiting between them, both ways at once: a signal seen means its data is
 * there.
 */
TEST(order_both_ways)
{
	struct ori_config config;
	struct end p[2];

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	CHECK(p[0].engine->link_flags & ORIEL_LINK_ORDERED);
	for (uint64_t round = 1; round <= 300; round++) {
		uint32_t n = (uint32_t)(round * 977 % 70000) + 8;

		for (int i = 0; i < 2; i++) {
			/*
			 * the target of a round is the source of none: it stays until it was looked
			 * at
			 */
			memset(p[i].memory + 4096, (int)(round * 2 + (uint64_t)i), n);
			end_rdma(&p[i], ORI_WQE_RDMA_WRITE, END_BYTES / 2, 4096, n,
				 p[i].theirs.key[0]);
			end_add(&p[i], 0, 1);
		}
		for (int i = 0; i < 2; i++) {
			const uint8_t *at = p[i].memory + END_BYTES / 2;
			uint8_t want = (uint8_t)(round * 2 + (uint64_t)!i);

			CHECK_EQ(end_wait(&p[i], (uint64_t *)(void *)p[i].memory, round), 0);
			CHECK(at[0] == want && at[n - 1] == want && at[n / 2] == want);
		}
		for (int i = 0; i < 2; i++)
			CHECK_EQ(end_drain(&p[i], &p[i].main), 0);
	}
	pair_close(p);
}

/* The companion counts a put when it is complete, and not before. */
TEST(counters)
{
	struct ori_config config;
	struct end p[2];
	struct end_queue *m = &p[0].main, *c = &p[0].companion;

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	for (uint64_t i = 1; i <= 20; i++) {
		memset(p[0].memory + 4096, (int)i, 50000);
		ori_wqe_wait(end_slot(c), c->next, c->q.qpn, m->q.cqn, (uint32_t)m->next);
		end_ring(&p[0], c);
		ori_wqe_fetch_add(end_slot(c), c->next, c->q.qpn, 8, p[0].mine.key[0], 1, 0,
				  p[0].sink_key[0], 0);
		end_ring(&p[0], c);
		CHECK_EQ(word_at(&p[0], 8), i - 1);
		end_rdma(&p[0], ORI_WQE_RDMA_WRITE, 4096, 4096, 50000, p[0].theirs.key[0]);
		CHECK_EQ(end_wait(&p[0], (uint64_t *)(void *)(p[0].memory + 8), i), 0);
		CHECK(!memcmp(p[1].memory + 4096, p[0].memory + 4096, 50000));
		CHECK_EQ(end_drain(&p[0], c), 0);
		CHECK_EQ(end_drain(&p[0], m), 0);
	}
	pair_close(p);
}

/* Nobody drives the second rank: its thread lets the first one's operations through. */
TEST(thread_makes_progress)
{
	struct ori_config config;
	struct end p[2];
	char text[512];

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	for (int i = 0; i < 50; i++) {
		end_rdma(&p[0], ORI_WQE_RDMA_WRITE, 4096, 4096, 100000, p[0].theirs.key[0]);
		end_add(&p[0], 0, 1);
		if (i % 10 == 0)
			ori_sleep_ns(3000000);
		CHECK_EQ(end_drain(&p[0], &p[0].main), 0);
	}
	CHECK_EQ(word_at(&p[1], 0), 50);
	CHECK(p[0].engine->ops->idle(p[0].engine));
	p[0].engine->ops->statistics(p[0].engine, text, sizeof(text));
	CHECK_HAS(text, "posts 100");
	CHECK_HAS(text, "doorbells timed");
	pair_close(p);
}
