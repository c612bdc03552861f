/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_device.c - the software NIC and memory that only a device copy may touch: every
 * operation from, to and between such regions, how many copies it takes, and a wire that loses and
 * reorders.
 */
#include "soft_device.h"

/* opcode: WRITE moves from rank 0 to rank 1, READ the other way. */
static void move(struct pair *p, uint32_t opcode, uint32_t bytes, uint64_t remote, uint64_t local)
{
	int to = opcode == ORI_WQE_RDMA_WRITE;
	uint64_t from_at = to ? local : remote, to_at = to ? remote : local;

	world_fill(data_of(p, 1 - to) + from_at, bytes, bytes + (uint32_t)to);
	memset(data_of(p, to) + to_at, 0x11, bytes + 1);
	if (to_at)
		data_of(p, to)[to_at - 1] = 0x12;
	post_rdma(p, opcode, remote, local, bytes);
	queue_drain(&p->w, &p->a, 0);
	CHECK(!memcmp(data_of(p, 0) + local, data_of(p, 1) + remote, bytes));
	CHECK_EQ(data_of(p, to)[to_at + bytes], 0x11);
	CHECK(!to_at || data_of(p, to)[to_at - 1] == 0x12);
}

static const uint32_t sizes[] = { 1,    8,    9,    28,   32,    33,    64,     255,
				  4095, 4096, 4097, 8193, 65536, 65537, 262145, 1048577 };

static void all_sizes(const char *personality, const char *faults, const struct side *a,
		      const struct side *b)
{
	struct pair p;

	pair_open(&p, personality, faults, a, b);
	for (size_t i = 0; i < ORI_COUNT(sizes); i++) {
		move(&p, ORI_WQE_RDMA_WRITE, sizes[i], 0, 1);
		move(&p, ORI_WQE_RDMA_WRITE, sizes[i], 8, 0);
		move(&p, ORI_WQE_RDMA_READ, sizes[i], 3, 5);
		move(&p, ORI_WQE_RDMA_READ, sizes[i], 0, 8);
	}
	pair_close(&p);
}

TEST(write_and_read_all_sizes)
{
	static const struct side *const sides[] = { &host, &shared, &private, &unreached };

	for (size_t a = 0; a < ORI_COUNT(sides); a++)
		for (size_t b = 0; b < ORI_COUNT(sides); b++)
			if (a || b)
				all_sizes(NULL, NULL, sides[a], sides[b]);
	all_sizes("efa", NULL, &shared, &unreached);
	all_sizes("soft", "mtu=1000", &shared, &shared);
	all_sizes("cx7", NULL, &shared, &private);
}

/* ---- how many copies ------------------------------------------------------------------------- */

static uint64_t copies_of(const char *personality, const char *faults, const struct side *a,
			  const struct side *b, uint32_t opcode, uint32_t bytes)
{
	struct pair p;
	uint64_t n;

	pair_open(&p, personality, faults, a, b);
	device_copies();
	move(&p, opcode, bytes, 64, 0);
	n = device_copies();
	CHECK_EQ(world_stats(&p.w).copies, n);
	CHECK_EQ(world_stats(&p.w).retransmits, 0);
	pair_close(&p);
	return n;
}

TEST(a_message_is_one_copy)
{
	static const uint32_t lengths[] = { 8, 32, 33, 4096, 65537, 3u << 20 };

	for (size_t i = 0; i < ORI_COUNT(lengths); i++) {
		uint32_t n = lengths[i];

		CHECK_EQ(copies_of(NULL, NULL, &shared, &shared, ORI_WQE_RDMA_WRITE, n), 1);
		CHECK_EQ(copies_of(NULL, NULL, &shared, &shared, ORI_WQE_RDMA_READ, n), 1);
		CHECK_EQ(copies_of("cx7", NULL, &shared, &shared, ORI_WQE_RDMA_WRITE, n), 1);
		CHECK_EQ(copies_of(NULL, NULL, &shared, &host, ORI_WQE_RDMA_WRITE, n), 1);
		/* a READ's answer is as long as the requester's device wants it */
		CHECK_EQ(copies_of(NULL, NULL, &shared, &host, ORI_WQE_RDMA_READ, n), 1);
	}
}

TEST(a_small_mtu_cuts_device_memory_too)
{
	uint32_t n = 1u << 20;

	CHECK_EQ(copies_of(NULL, "mtu=4096", &shared, &shared, ORI_WQE_RDMA_WRITE, n), n / 4096);
	CHECK_EQ(copies_of(NULL, "mtu=4096", &shared, &shared, ORI_WQE_RDMA_READ, n), n / 4096);
	CHECK_EQ(copies_of("cx7", "device_mtu=65536", &shared, &shared, ORI_WQE_RDMA_WRITE, n),
		 n / 65536);
	CHECK_EQ(copies_of(NULL, "mtu=4096,device_mtu=1048576", &shared, &shared,
			   ORI_WQE_RDMA_WRITE, n),
		 1);
}

/* Out of the sender's device memory into slots, and out of them. */
TEST(what_cannot_be_reached_crosses_inline)
{
	uint32_t n = 1u << 20;

	CHECK_EQ(copies_of(NULL, NULL, &private, &host, ORI_WQE_RDMA_WRITE, n), n / 4096);
	CHECK_EQ(copies_of(NULL, NULL, &unreached, &host, ORI_WQE_RDMA_WRITE, n), n / 4096);
	CHECK_EQ(copies_of(NULL, NULL, &unreached, &shared, ORI_WQE_RDMA_WRITE, n), 2 * n / 4096);
	CHECK_EQ(copies_of(NULL, NULL, &host, &unreached, ORI_WQE_RDMA_READ, n), n / 4096);
	CHECK_EQ(copies_of(NULL, NULL, &shared, &private, ORI_WQE_RDMA_READ, n), 2 * n / 4096);
	CHECK_EQ(copies_of(NULL, NULL, &unreached, &host, ORI_WQE_RDMA_WRITE, 20), 1);
}

/* ---- words ----------------------------------------------------------------------------------- */

TEST(inline_writes)
{
	struct pair p;
	uint8_t value[28];

	pair_open(&p, NULL, NULL, &host, &shared);
	for (uint32_t n = 1; n <= 28; n++)
		for (uint32_t at = 0; at < 9; at++) {
			world_fill(value, sizeof(value), n * 16 + at);
			memset(data_of(&p, 1), 0, 64);
			ori_wqe_write_inline(queue_slot(&p.a), p.a.next, p.a.qpn, at, p.key[1],
					     value, n, 0);
			queue_ring(&p.a);
			queue_drain(&p.w, &p.a, 0);
			CHECK(!memcmp(data_of(&p, 1) + at, value, n));
			CHECK_EQ(data_of(&p, 1)[at + n], 0);
			CHECK_EQ(device_copies(), 1);
		}
	pair_close(&p);
}

static void atomics(const struct side *a, const struct side *b)
{
	uint64_t *word, *result;
	struct pair p;

	pair_open(&p, NULL, NULL, a, b);
	word = (uint64_t *)(void *)(data_of(&p, 1) + 64);
	result = (uint64_t *)(void *)(data_of(&p, 0) + 128);
	*word = UINT64_MAX - 1;
	post_add(&p, 64, 5, 128);
	queue_drain(&p.w, &p.a, 0);
	CHECK_EQ(*word, 3);
	CHECK(*result == UINT64_MAX - 1);
	CHECK_EQ(device_copies(), (uint64_t)(2 * b->device + a->device));
	for (int hit = 0; hit < 2; hit++) {
		ori_wqe_compare_swap(queue_slot(&p.a), p.a.next, p.a.qpn, 64, p.key[1], hit ? 3 : 4,
				     77, 128, p.key[0], 0);
		queue_ring(&p.a);
		queue_drain(&p.w, &p.a, 0);
		CHECK_EQ(*result, 3);
		CHECK_EQ(*word, hit ? 77 : 3);
		/* what did not match is not written */
		CHECK_EQ(device_copies(), (uint64_t)((1 + hit) * b->device + a->device));
	}
	pair_close(&p);
}

TEST(atomics_on_device_words)
{
	atomics(&shared, &shared);
	atomics(&host, &private);
	atomics(&private, &host);
}

/* Both ends are this NIC: payload by key, and a counter as a companion queue counts. */
TEST(loopback)
{
	struct queue a, b;
	struct pair p;

	pair_open(&p, NULL, NULL, &private, &host);
	queue_open(&p.w, &a, 0, 8, 0, 0);
	queue_open(&p.w, &b, 0, 0, 0, 0);
	queue_connect(&p.w, &a, &b);
	world_fill(data_of(&p, 0), DEVICE_BYTES / 2, 1);
	for (uint32_t bytes = 8; bytes <= DEVICE_BYTES / 2; bytes *= 16)
		for (int read = 0; read < 2; read++) {
			memset(data_of(&p, 0) + DEVICE_BYTES / 2, 0, DEVICE_BYTES / 2);
			ori_wqe_rdma(queue_slot(&a), a.next, a.qpn,
				     read ? ORI_WQE_RDMA_READ : ORI_WQE_RDMA_WRITE,
				     read ? 0 : DEVICE_BYTES / 2, p.key[0],
				     read ? DEVICE_BYTES / 2 : 0, p.key[0], bytes, 0);
			queue_ring(&a);
			queue_drain(&p.w, &a, 0);
			CHECK(!memcmp(data_of(&p, 0), data_of(&p, 0) + DEVICE_BYTES / 2, bytes));
			CHECK_EQ(device_copies(), 1);
		}
	memset(data_of(&p, 0), 0, 64);
	for (uint64_t n = 1; n <= 20; n++) {
		ori_wqe_fetch_add(queue_slot(&a), a.next, a.qpn, 8, p.key[0], 1, 16, p.key[0], 0);
		queue_ring(&a);
		queue_drain(&p.w, &a, 0);
		CHECK_EQ(((uint64_t *)(void *)data_of(&p, 0))[1], n);
		CHECK_EQ(((uint64_t *)(void *)data_of(&p, 0))[2], n - 1);
	}
	queue_close(&p.w, &a);
	queue_close(&p.w, &b);
	pair_close(&p);
}

/* ---- order and faults ------------------------------------------------------------------------ */

struct early {
	const uint64_t *signal;
	uint64_t round;
	int seen;
};

static void look_for_signal(void *ctx)
{
	struct early *e = ctx;

	e->seen += *e->signal >= e->round;
}

/*
 * Put into device memory, signal in host memory: the word is there after the copy, not during it.
 */
TEST(signal_after_the_copy)
{
	for (int budget = 1; budget < 40; budget += budget < 6 ? 1 : 11) {
		uint64_t signal = 0;
		struct early early = { &signal, 0, 0 };
		uint32_t signal_key;
		struct pair p;

		pair_open(&p, NULL, budget % 2 ? "mtu=512" : NULL, &shared, &shared);
		signal_key = world_mr(&p.w, 1, &signal, 8, WORLD_ALL, 0);
		device.during = look_for_signal;
		device.during_ctx = &early;
		for (uint64_t round = 1; round <= 30; round++) {
			early.round = round;
			memset(data_of(&p, 0), (int)round, 8192);
			post_rdma(&p, ORI_WQE_RDMA_WRITE, 0, 0, 8192);
			ori_wqe_write_inline(queue_slot(&p.a), p.a.next, p.a.qpn, 0, signal_key,
					     &round, 8, 0);
			queue_ring(&p.a);
			while (signal < round)
				world_step(&p.w, budget);
			CHECK(!memcmp(data_of(&p, 1), data_of(&p, 0), 8192));
			queue_drain(&p.w, &p.a, 0);
		}
		CHECK_EQ(early.seen, 0);
		pair_close(&p);
	}
}

/*
 * Adds, puts of changing bytes and gets of them, over a bad wire: all right, and all exactly once.
 */
static struct soft_stats play(const char *personality, const char *faults, const struct side *a,
			      const struct side *b)
{
	struct soft_stats stats;
	uint64_t adds = 0, *word;
	struct pair p;
	char text[256];

	snprintf(text, sizeof(text), "retry_ns=200000,retry=50,%s", faults);
	pair_open(&p, personality, text, a, b);
	word = (uint64_t *)(void *)data_of(&p, 1);
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t bytes = 1 + i * 7919 % (i % 16 ? 300 : 60000);

		world_fill(data_of(&p, 0) + 4096, bytes, i);
		post_rdma(&p, ORI_WQE_RDMA_WRITE, 4096, 4096, bytes);
		if (!p.w.config.no_atomics) {
			post_add(&p, 0, 1, 0);
			adds++;
			post_add(&p, 0, 1, 8);
			adds++;
		}
		queue_drain(&p.w, &p.a, 0);
		CHECK(!memcmp(data_of(&p, 0) + 4096, data_of(&p, 1) + 4096, bytes));
		post_rdma(&p, ORI_WQE_RDMA_READ, 4096, 1u << 20, bytes);
		queue_drain(&p.w, &p.a, 0);
		CHECK(!memcmp(data_of(&p, 0) + (1u << 20), data_of(&p, 1) + 4096, bytes));
		CHECK_EQ(*word, adds);
		CHECK(!adds || ((uint64_t *)(void *)data_of(&p, 0))[1] == adds - 1);
	}
	stats = world_stats(&p.w);
	pair_close(&p);
	return stats;
}

TEST(over_a_bad_wire)
{
	static const struct side *const sides[] = { &shared, &unreached, &private };
	static const char *const names[] = { "soft", "cx7", "efa", "thor2" };

	for (size_t i = 0; i < ORI_COUNT(sides); i++)
		for (size_t n = 0; n < ORI_COUNT(names); n++) {
			const struct side *one = sides[i], *other = sides[(i + n) % 3];

			CHECK(play(names[n], "seed=1,drop=0.05", one, other).retransmits > 0);
			CHECK(play(names[n], "seed=2,dup=0.2", one, other).duplicated > 0);
			CHECK(play(names[n], "seed=3,reorder=0.2", one, other).reordered > 0);
			CHECK(play(names[n], "seed=4,delay=0.1", one, other).delayed > 0);
			play(names[n],
			     "seed=5,drop=0.03,dup=0.05,reorder=0.1,delay=0.02,torn_cqe=0.1,mtu=512",
			     one, other);
		}
}

/* Whoever is sent a packet twice copies once. */
TEST(duplicates_are_not_copied)
{
	struct pair p;

	pair_open(&p, NULL, "seed=7,dup=1", &shared, &shared);
	for (int i = 0; i < 100; i++) {
		move(&p, ORI_WQE_RDMA_WRITE, 5000, 0, 0);
		CHECK_EQ(device_copies(), 1);
	}
	CHECK(world_stats(&p.w).duplicated >= 100);
	pair_close(&p);
}
