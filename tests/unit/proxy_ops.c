/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/proxy_ops.c - every WQE through the proxy, with the bytes checked.  The back end is
 * late, full and out of order, as the seed decides.  CQEs come in order, one per WQE.  Also fences,
 * and every edge of the indices.
 */
#include "proxy_world.h"

TEST(bytes_of_every_size)
{
	static const uint32_t sizes[] = { 1,  7,  8,  15,   16,   17,   28,   29,
					  63, 64, 65, 4095, 4096, 4097, 65536 };
	struct proxy_world w;
	struct dev d;

	world_open(&w, 1);
	dev_open(&w, &d, 8, 0, 0, 0);
	for (size_t i = 0; i < ORI_COUNT(sizes); i++) {
		uint32_t n = sizes[i];

		world_fill(w.mine, WORLD_BYTES, n);
		memset(w.theirs, 0x22, WORLD_BYTES);
		dev_rdma(&w, &d, ORI_WQE_RDMA_WRITE, WORLD_BYTES - n, 0, n, 0);
		dev_drain(&w, &d, 0);
		CHECK(!memcmp(w.theirs + WORLD_BYTES - n, w.mine, n));
		CHECK(n == WORLD_BYTES || w.theirs[WORLD_BYTES - n - 1] == 0x22);
		world_fill(w.theirs, WORLD_BYTES, ~n);
		memset(w.mine, 0x11, WORLD_BYTES);
		dev_rdma(&w, &d, ORI_WQE_RDMA_READ, 0, WORLD_BYTES - n, n, 0);
		dev_drain(&w, &d, 0);
		CHECK(!memcmp(w.mine + WORLD_BYTES - n, w.theirs, n));
		CHECK(n == WORLD_BYTES || w.mine[WORLD_BYTES - n - 1] == 0x11);
	}
	for (uint32_t n = 1; n <= 28; n++) {
		uint8_t value[28];

		world_fill(value, sizeof(value), n);
		memset(w.theirs, 0x22, 64);
		dev_inline(&w, &d, 3, value, n, 0);
		dev_drain(&w, &d, 0);
		CHECK(!memcmp(w.theirs + 3, value, n));
		CHECK(w.theirs[2] == 0x22 && w.theirs[3 + n] == 0x22);
	}
	CHECK_EQ(w.kinds[MEM_WRITE], ORI_COUNT(sizes));
	CHECK_EQ(w.kinds[MEM_READ], ORI_COUNT(sizes));
	CHECK_EQ(w.kinds[MEM_INLINE], 28);
	CHECK(w.submits > 0 && w.submits <= w.posts);
	CHECK(!ori_proxy_busy(w.proxy));
	dev_close(&w, &d);
	world_close(&w);
}

TEST(atomics)
{
	struct proxy_world w;
	struct dev d;
	uint64_t word = UINT64_MAX - 1, old;

	world_open(&w, 2);
	dev_open(&w, &d, 4, 0, 0, 0);
	memcpy(w.theirs + 64, &word, 8);
	dev_add(&w, &d, 64, 5, 131, 0); /* the answer may go anywhere */
	dev_drain(&w, &d, 0);
	memcpy(&word, w.theirs + 64, 8);
	memcpy(&old, w.mine + 131, 8);
	CHECK_EQ(word, 3);
	CHECK(old == UINT64_MAX - 1);
	for (int hit = 0; hit < 2; hit++) {
		ori_wqe_compare_swap(dev_slot(&d), d.next, d.q.qpn, 64, w.their_key, hit ? 3 : 4,
				     77, 128, w.my_key, 0);
		dev_ring(&d);
		dev_drain(&w, &d, 0);
		memcpy(&old, w.mine + 128, 8);
		memcpy(&word, w.theirs + 64, 8);
		CHECK_EQ(old, 3);
		CHECK_EQ(word, hit ? 77 : 3);
	}
	ori_wqe_nop(dev_slot(&d), d.next, d.q.qpn, ORI_WQE_FENCE);
	dev_ring(&d);
	ori_wqe_dump(dev_slot(&d), d.next, d.q.qpn, 0, w.my_key, WORLD_BYTES);
	dev_ring(&d);
	dev_drain(&w, &d, 0);
	CHECK_EQ(w.posts, 3); /* NOP and DUMP are the proxy's own */
	dev_close(&w, &d);
	world_close(&w);
}

/* The rest of a CQE: opcode echoed, and bytes of what came back. */
TEST(bodies_of_cqes)
{
	static const uint32_t opcodes[] = { ORI_WQE_RDMA_READ, ORI_WQE_RDMA_WRITE,
					    ORI_WQE_ATOMIC_FA };
	static const uint32_t bytes[] = { 100, 0, 8 };
	struct proxy_world w;
	struct dev d;

	world_open(&w, 3);
	dev_open(&w, &d, 4, 0, 0, 0);
	dev_rdma(&w, &d, ORI_WQE_RDMA_READ, 0, 0, 100, 0);
	dev_rdma(&w, &d, ORI_WQE_RDMA_WRITE, 0, 0, 100, 0);
	dev_add(&w, &d, 64, 1, 64, 0);
	dev_drain(&w, &d, 0);
	for (uint32_t i = 0; i < 3; i++) {
		const struct ori_cqe *cqe = (const struct ori_cqe *)(const void *)d.q.cq + i;
		uint32_t count;

		memcpy(&count, &cqe->reserved0[0x2c], 4);
		CHECK_EQ(ori_be32(count), bytes[i]);
		CHECK_EQ(ori_be32(cqe->opcode_qpn) >> 24, opcodes[i]);
	}
	dev_close(&w, &d);
	world_close(&w);
}

/* ---- a stream of everything ------------------------------------------------------------------ */

struct stream {
	uint64_t adds, last_word;
	uint32_t bytes[64]; /* what was put at each place */
};

static void stream_post(struct proxy_world *w, struct dev *d, struct stream *s, uint64_t i)
{
	uint64_t at = 4096 + i % 64 * 64;

	switch (world_random(&w->random) % 5) {
	case 0:
		s->last_word = i + 1;
		dev_inline(w, d, 0, &s->last_word, 8,
			   ORI_WQE_STRONG); /* the back end may not order */
		break;
	case 1:
		s->adds++;
		dev_add(w, d, 8, 1, 64, 0);
		break;
	case 2:
		s->bytes[i % 64]++;
		memset(w->mine + at, (int)(i % 251), 64);
		dev_rdma(w, d, ORI_WQE_RDMA_WRITE, at, at, 64, 0);
		break;
	case 3:
		dev_rdma(w, d, ORI_WQE_RDMA_READ, 8, 128, 8, 0);
		break;
	default:
		ori_wqe_nop(dev_slot(d), d->next, d->q.qpn, 0);
		dev_ring(d);
	}
}

static void stream_run(struct proxy_world *w, struct dev *d, int messages)
{
	struct stream s = { 0 };
	struct ori_proxy_stats stats;
	uint64_t word;
	uint32_t syndrome;
	int steps = 0;

	memset(w->theirs, 0, WORLD_BYTES);
	memset(w->mine, 0, WORLD_BYTES);
	for (int i = 0; i < messages; i++) {
		/* a place is written again only after its last put is complete */
		while (dev_full(d) || (d->q.depth > 64 && d->next - d->polled >= 64)) {
			while (dev_poll(d, &syndrome))
				CHECK_EQ(syndrome, 0);
			ori_proxy_step(w->proxy, 1 + (int)(world_random(&w->random) % 8));
			REQUIRE(++steps < 1000 * messages);
		}
		stream_post(w, d, &s, (uint64_t)i);
	}
	dev_drain(w, d, 0);
	memcpy(&word, w->theirs, 8);
	CHECK_EQ(word, s.last_word);
	memcpy(&word, w->theirs + 8, 8);
	CHECK_EQ(word, s.adds); /* each exactly once, whatever was tried again */
	for (uint64_t i = 0; i < 64; i++)
		if (s.bytes[i])
			CHECK(!memcmp(w->mine + 4096 + i * 64, w->theirs + 4096 + i * 64, 64));
	ori_proxy_stats(w->proxy, &stats);
	CHECK_EQ(stats.cqes, messages);
	CHECK_EQ(stats.wqes, messages);
	CHECK_EQ(stats.posts, w->posts);
	CHECK_EQ(stats.strays + stats.errors, 0);
	CHECK_EQ(w->open, 0);
	CHECK(!ori_proxy_busy(w->proxy));
	/* one CQE a WQE: nothing more comes */
	world_settle(w, 20);
	CHECK(!dev_poll(d, &syndrome));
}

TEST(late_full_and_out_of_order)
{
	static const uint32_t depths[] = { 1, 2, 4, 64, 256 };
	uint64_t agains = 0, stalls = 0;

	for (uint64_t seed = 0; seed < 60; seed++) {
		struct proxy_world w;
		struct dev d;

		world_open(&w, seed * 977);
		w.ordered = (int)(seed % 2);
		w.delay = (uint32_t)(seed % 7);
		w.again = (uint32_t)(seed % 5) * 50;
		w.room = seed % 3 ? WORLD_OPS : 1 + (int)(seed % 4);
		dev_open(&w, &d, depths[seed % 5], 0, 0, 0);
		stream_run(&w, &d, 600);
		agains += w.agains;
		CHECK_EQ(world_stats(&w).again, w.agains);
		stalls += world_stats(&w).stalls;
		CHECK_EQ(w.told, 0);
		dev_close(&w, &d);
		world_close(&w);
	}
	CHECK(agains > 1000 && stalls > 1000);
}

TEST(indices_wrap)
{
	static const uint64_t firsts[] = {
		0, 0xfff0, 0x7ff0, (1u << 24) - 8, (1ull << 32) - 8, (1ull << 40) - 8
	};
	static const uint32_t depths[] = { 1, 2, 4, 8, 64 };

	for (size_t f = 0; f < ORI_COUNT(firsts); f++)
		for (size_t n = 0; n < ORI_COUNT(depths); n++) {
			struct proxy_world w;
			struct dev d;

			world_open(&w, f * 16 + n);
			w.delay = 4;
			w.again = 40;
			dev_open(&w, &d, depths[n], firsts[f], 0, 0);
			stream_run(&w, &d, 300);
			dev_close(&w, &d);
			world_close(&w);
		}
}

TEST(index_runs_round)
{
	struct proxy_world w;
	struct dev d;

	world_open(&w, 5);
	dev_open(&w, &d, 32, 0, 0, 0);
	stream_run(&w, &d, 70000);
	dev_close(&w, &d);
	world_close(&w);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* The first operation completes last, so none has a CQE before it. */
TEST(completion_in_order)
{
	struct proxy_world w;
	struct dev d;
	uint32_t syndrome;

	world_open(&w, 1);
	dev_open(&w, &d, 8, 0, 0, 0);
	for (uint64_t i = 0; i < 4; i++)
		dev_inline(&w, &d, i * 8, &i, 8, 0);
	ori_wqe_nop(dev_slot(&d), d.next, d.q.qpn, 0);
	dev_ring(&d);
	ori_proxy_step(w.proxy, 5); /* starts them, and has no budget left to see them complete */
	REQUIRE(w.open == 4);
	for (int i = 0; i < WORLD_OPS; i++)
		if (w.ops[i].number == 1)
			w.ops[i].report_at = UINT64_MAX;
	world_settle(&w, 10);
	CHECK_EQ(w.open, 1);
	CHECK(!dev_poll(&d, &syndrome));
	CHECK(ori_proxy_busy(w.proxy));
	for (int i = 0; i < WORLD_OPS; i++)
		w.ops[i].report_at = 0;
	dev_drain(&w, &d, 0);
	CHECK_EQ(d.polled, 5);
	dev_close(&w, &d);
	world_close(&w);
}

static int open_of(const struct proxy_world *w, enum mem_kind kind)
{
	int n = 0;

	for (int i = 0; i < WORLD_OPS; i++)
		n += w->ops[i].used && w->ops[i].kind == kind;
	return n;
}

/* A fence lets writes be open, but no read and no atomic; the strong one lets nothing be open. */
TEST(fences_hold)
{
	static const uint32_t flags[] = { ORI_WQE_FENCE, 0x80, ORI_WQE_STRONG, 0x20, 0 };

	for (size_t f = 0; f < ORI_COUNT(flags); f++) {
		uint64_t open_writes = 0, open_reads = 0;

		for (uint64_t seed = 0; seed < 30; seed++) {
			struct proxy_world w;
			struct dev d;
			uint64_t before;

			world_open(&w, seed);
			w.ordered = 0;
			w.delay = 6;
			w.again = 30;
			dev_open(&w, &d, 8, 0, 0, 0);
			dev_rdma(&w, &d, ORI_WQE_RDMA_READ, 0, 0, 8, 0);
			dev_add(&w, &d, 8, 1, 64, 0);
			dev_rdma(&w, &d, ORI_WQE_RDMA_WRITE, 256, 256, 8, 0);
			dev_inline(&w, &d, 16, &seed, 8, flags[f]);
			before = w.kinds[MEM_INLINE];
			for (int i = 0; i < 1000 && w.kinds[MEM_INLINE] == before; i++)
				ori_proxy_step(w.proxy, 1);
			open_reads += (uint64_t)(open_of(&w, MEM_READ) + open_of(&w, MEM_ADD));
			open_writes += (uint64_t)open_of(&w, MEM_WRITE);
			dev_drain(&w, &d, 0);
			dev_close(&w, &d);
			world_close(&w);
		}
		CHECK_EQ(open_reads == 0, f < 3);
		CHECK_EQ(open_writes == 0, f == 2);
	}
}

/* Many queues on one proxy and little budget: each gets its share. */
TEST(none_starves)
{
	struct proxy_world w;
	struct dev d[WORLD_LINKS];
	uint32_t syndrome;

	world_open(&w, 4);
	for (int i = 0; i < WORLD_LINKS; i++)
		dev_open(&w, &d[i], 16, 0, i, 0);
	for (int round = 0; round < 400; round++) {
		for (int i = 0; i < WORLD_LINKS; i++) {
			while (dev_poll(&d[i], &syndrome))
				CHECK_EQ(syndrome, 0);
			while (!dev_full(&d[i])) {
				ori_wqe_nop(dev_slot(&d[i]), d[i].next, d[i].q.qpn, 0);
				dev_ring(&d[i]);
			}
		}
		CHECK(ori_proxy_step(w.proxy, 4) <= 4);
	}
	for (int i = 0; i < WORLD_LINKS; i++) {
		CHECK(d[i].polled > 100);
		dev_drain(&w, &d[i], 0);
		dev_close(&w, &d[i]);
	}
	world_close(&w);
}

/* ce 0: no CQE but for errors. */
TEST(unsignalled)
{
	struct proxy_world w;
	struct dev d;
	uint64_t value = 5;
	uint32_t syndrome;

	world_open(&w, 1);
	dev_open(&w, &d, 8, 0, 0, 0);
	ori_wqe_write_inline(dev_slot(&d), 0, d.q.qpn, 0, w.their_key, &value, 8, 0);
	dev_slot(&d)->ctrl.fm_ce_se = 0;
	dev_ring(&d);
	world_settle(&w, 10);
	CHECK(!dev_poll(&d, &syndrome));
	CHECK(!memcmp(w.theirs, &value, 8));
	CHECK(!ori_proxy_busy(w.proxy));
	dev_close(&w, &d);
	world_close(&w);
}

/* A table with nothing in it: posts are refused as by a NIC that cannot. */
TEST(missing_functions)
{
	static const struct ori_proxy_backend none = { 0 };
	struct ori_proxy_attr attr = { .nranks = 2, .backend = &none };
	struct proxy_world w;
	struct ori_proxy_remote remote = { 0, WORLD_BYTES, WORLD_ALL, 0, 0 };
	struct dev d;
	uint32_t syndrome = 0;
	uint64_t value = 1;

	world_open(&w, 1);
	ori_proxy_destroy(w.proxy);
	REQUIRE(ori_proxy_create(&attr, &w.proxy) == 0);
	CHECK_EQ(ori_proxy_remote_add(w.proxy, 1, w.their_key, &remote), 0);
	dev_open(&w, &d, 4, 0, 0, 0);
	dev_inline(&w, &d, 0, &value, 8, 0);
	world_settle(&w, 3);
	CHECK(dev_poll(&d, &syndrome));
	CHECK_EQ(syndrome, ORI_SYNDROME_REMOTE_INVALID);
	dev_close(&w, &d);
	world_close(&w);
	attr.rank = 2;
	CHECK_EQ(ori_proxy_create(&attr, &w.proxy), ORIEL_EINVAL);
}
