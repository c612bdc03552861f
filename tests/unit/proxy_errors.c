/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/proxy_errors.c - bad WQEs, keys and doorbells, and operations that fail.
 *
 * Each gets the right syndrome, reported once.  Later WQEs are flushed, no memory is touched, and
 * the proxy continues with its other queues.
 */
#include "proxy_world.h"

struct bad {
	struct proxy_world w;
	struct dev d, other;
	uint8_t *mine, *theirs; /* as they were */
};

static void bad_open(struct bad *b, uint64_t first, int loopback)
{
	world_open(&b->w, first);
	dev_open(&b->w, &b->d, 8, first, loopback ? -1 : 0, 0);
	dev_open(&b->w, &b->other, 8, 0, 1, 0);
	world_fill(b->w.mine, WORLD_BYTES, 1);
	world_fill(b->w.theirs, WORLD_BYTES, 2);
	b->mine = malloc(WORLD_BYTES);
	b->theirs = malloc(WORLD_BYTES);
	if (!b->mine || !b->theirs)
		exit(1);
	memcpy(b->mine, b->w.mine, WORLD_BYTES);
	memcpy(b->theirs, b->w.theirs, WORLD_BYTES);
}

/* A good WQE follows the bad one: flushed.  Nothing was touched; another queue still works. */
static void bad_close(struct bad *b, uint32_t want)
{
	struct dev *d = &b->d;
	uint32_t syndrome = 0;
	uint64_t value = 77;

	dev_ring(d);
	dev_inline(&b->w, d, 0, &value, 8, 0);
	world_settle(&b->w, 20);
	CHECK(dev_poll(d, &syndrome));
	CHECK_EQ(syndrome, want);
	CHECK(dev_poll(d, &syndrome));
	CHECK_EQ(syndrome, ORI_SYNDROME_FLUSHED);
	dev_inline(&b->w, d, 0, &value, 8, 0); /* posted after the error */
	world_settle(&b->w, 5);
	CHECK(dev_poll(d, &syndrome));
	CHECK_EQ(syndrome, ORI_SYNDROME_FLUSHED);
	CHECK_EQ(b->w.told, 1);
	CHECK_EQ(b->w.told_qpn, d->q.qpn);
	CHECK_EQ(b->w.told_syndrome, want);
	CHECK_EQ(b->w.told_index, d->first);
	CHECK_EQ(b->w.posts, 0);
	CHECK(!memcmp(b->mine, b->w.mine, WORLD_BYTES));
	CHECK(!memcmp(b->theirs, b->w.theirs, WORLD_BYTES));
	dev_inline(&b->w, &b->other, 0, &value, 8, 0);
	dev_drain(&b->w, &b->other, 0);
	CHECK(!memcmp(b->w.theirs, &value, 8));
	CHECK(!ori_proxy_busy(b->w.proxy));
	dev_close(&b->w, d);
	dev_close(&b->w, &b->other);
	world_close(&b->w);
	free(b->mine);
	free(b->theirs);
}

/* Starts from a good write and bends it. */
static struct ori_wqe *good_write(struct bad *b)
{
	struct dev *d = &b->d;

	bad_open(b, 0xfffe, 0);
	ori_wqe_rdma(dev_slot(d), d->next, d->q.qpn, ORI_WQE_RDMA_WRITE, 0, b->w.their_key, 0,
		     b->w.my_key, 64, 0);
	return dev_slot(d);
}

static struct ori_wqe *good_add(struct bad *b, int loopback)
{
	struct dev *d = &b->d;

	bad_open(b, 0, loopback);
	ori_wqe_fetch_add(dev_slot(d), d->next, d->q.qpn, 64,
			  loopback ? b->w.my_key : b->w.their_key, 1, 0, b->w.sink_key, 0);
	return dev_slot(d);
}

TEST(wrong_control_segment)
{
	struct bad b;
	struct ori_wqe *w;

	w = good_write(&b);
	w->ctrl.opmod_idx_opcode ^= ori_be32(0x100); /* index */
	bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
	w = good_write(&b);
	w->ctrl.qpn_ds ^= ori_be32(0x100); /* queue pair */
	bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
	w = good_write(&b);
	w->ctrl.opmod_idx_opcode |= ori_be32(0x01000000); /* opmod */
	bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
	w = good_write(&b);
	w->ctrl.fm_ce_se |= 0xa0; /* fence mode 5 */
	bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
	for (uint32_t ds = 0; ds < 64; ds += ds < 8 ? 1 : 11) {
		if (ds == 3)
			continue;
		w = good_write(&b);
		w->ctrl.qpn_ds = ori_be32(b.d.q.qpn << 8 | ds);
		bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
	}
	w = good_write(&b);
	w->ctrl.opmod_idx_opcode ^= ori_be32(ORI_WQE_RDMA_WRITE ^ 0x0a); /* SEND */
	bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
}

TEST(wrong_lengths)
{
	static const uint32_t lengths[] = { 0, (1u << 30) + 1, 0x7fffffff };
	static const uint32_t inlined[] = { 0, 13, 28, 0x7fffffff };
	struct bad b;
	struct ori_wqe *w;

	for (size_t i = 0; i < ORI_COUNT(lengths); i++) {
		w = good_write(&b);
		w->u.rdma.data.byte_count = ori_be32(lengths[i]);
		bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
	}
	for (size_t i = 0; i < ORI_COUNT(inlined); i++) {
		w = good_write(&b); /* 3 segments hold 12 bytes */
		w->u.rdma.data.byte_count = ori_be32(inlined[i] | ORI_WQE_INLINE_FLAG);
		bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
	}
	for (int loopback = 0; loopback < 2; loopback++) {
		w = good_add(&b, loopback);
		w->u.atomic.result.byte_count = ori_be32(4);
		bad_close(&b, ORI_SYNDROME_LOCAL_LENGTH);
	}
}

TEST(wrong_local_memory)
{
	struct bad b;
	struct ori_wqe *w;
	uint32_t key;

	w = good_write(&b);
	w->u.rdma.data.key = ori_be32(b.w.my_key ^ 1); /* tag */
	bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	w = good_write(&b);
	w->u.rdma.data.key = ori_be32(b.w.my_key ^ 0x1234500); /* slot */
	bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	w = good_write(&b);
	w->u.rdma.data.key = 0;
	bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	w = good_write(&b);
	w->u.rdma.data.address = ori_be64(WORLD_BYTES - 63);
	bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	w = good_write(&b);
	w->u.rdma.data.address = ori_be64(UINT64_MAX - 3);
	bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	/* gone before it is taken */
	w = good_write(&b);
	ori_proxy_key_remove(b.w.proxy, b.w.my_key);
	bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	/* a read into memory that may not be written */
	w = good_write(&b);
	key = world_key(&b.w, b.w.mine, WORLD_BYTES, 0);
	ori_wqe_rdma(w, b.d.next, b.d.q.qpn, ORI_WQE_RDMA_READ, 0, b.w.their_key, 0, key, 64, 0);
	bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	w = good_write(&b);
	ori_wqe_dump(w, b.d.next, b.d.q.qpn, 8, b.w.sink_key, 1);
	bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	for (int loopback = 0; loopback < 2; loopback++) {
		w = good_add(&b, loopback);
		w->u.atomic.result.address = ori_be64(1); /* 1 byte past the sink */
		bad_close(&b, ORI_SYNDROME_LOCAL_PROT);
	}
}

TEST(wrong_remote_memory)
{
	struct bad b;
	struct ori_wqe *w;
	struct ori_proxy_remote remote = { 0, WORLD_BYTES, 0, REMOTE_START, REMOTE_COOKIE };

	w = good_write(&b);
	w->u.rdma.raddr.key = ori_be32(b.w.their_key + 1);
	bad_close(&b, ORI_SYNDROME_REMOTE_ACCESS);
	w = good_write(&b);
	w->u.rdma.raddr.address = ori_be64(WORLD_BYTES - 63);
	bad_close(&b, ORI_SYNDROME_REMOTE_ACCESS);
	w = good_write(&b);
	w->u.rdma.raddr.address = ori_be64(UINT64_MAX - 3);
	bad_close(&b, ORI_SYNDROME_REMOTE_ACCESS);
	for (uint32_t opcode = ORI_WQE_RDMA_WRITE; opcode <= ORI_WQE_RDMA_READ; opcode += 8) {
		w = good_write(&b);
		w->ctrl.opmod_idx_opcode ^= ori_be32(ORI_WQE_RDMA_WRITE ^ opcode);
		remote.access = opcode == ORI_WQE_RDMA_READ ? ORI_PROXY_REMOTE_WRITE :
							      ORI_PROXY_REMOTE_READ;
		w->u.rdma.raddr.key = ori_be32(9);
		CHECK_EQ(ori_proxy_remote_add(b.w.proxy, 1, 9, &remote), 0);
		bad_close(&b, ORI_SYNDROME_REMOTE_ACCESS);
	}
	for (int loopback = 0; loopback < 2; loopback++) {
		w = good_add(&b, loopback);
		w->u.atomic.raddr.address = ori_be64(4);
		bad_close(&b, ORI_SYNDROME_REMOTE_INVALID);
		w = good_add(&b, loopback);
		w->u.atomic.raddr.address = ori_be64(WORLD_BYTES);
		bad_close(&b, ORI_SYNDROME_REMOTE_ACCESS);
		w = good_add(&b, loopback);
		w->u.atomic.raddr.key = ori_be32(b.w.sink_key); /* not for peers */
		bad_close(&b, ORI_SYNDROME_REMOTE_ACCESS);
	}
	/* memory whose base is not aligned */
	w = good_add(&b, 0);
	remote.access = WORLD_ALL;
	remote.address++;
	remote.bytes--;
	w->u.atomic.raddr.key = ori_be32(9);
	CHECK_EQ(ori_proxy_remote_add(b.w.proxy, 1, 9, &remote), 0);
	bad_close(&b, ORI_SYNDROME_REMOTE_INVALID);
	w = good_add(&b, 0); /* one wrong does not mend the other */
	ori_wqe_raddr_set(&w->u.atomic.raddr, 7, 9);
	CHECK_EQ(ori_proxy_remote_add(b.w.proxy, 1, 9, &remote), 0);
	bad_close(&b, ORI_SYNDROME_REMOTE_INVALID);
	/* known once, and taken back */
	w = good_write(&b);
	w->u.rdma.raddr.key = ori_be32(9);
	CHECK_EQ(ori_proxy_remote_add(b.w.proxy, 1, 9, &remote), 0);
	ori_proxy_remote_remove(b.w.proxy, 1, 9);
	ori_proxy_remote_remove(b.w.proxy, 1, 9);
	bad_close(&b, ORI_SYNDROME_REMOTE_ACCESS);
	/* writes and reads through a loopback */
	bad_open(&b, 0, 1);
	ori_wqe_rdma(dev_slot(&b.d), b.d.next, b.d.q.qpn, ORI_WQE_RDMA_WRITE, 0, b.w.my_key, 64,
		     b.w.my_key, 64, 0);
	bad_close(&b, ORI_SYNDROME_LOCAL_QP_OP);
}

/* ---- doorbells ------------------------------------------------------------------------------- */

static void ring_value(uint64_t first, uint64_t value, int good_before)
{
	struct proxy_world w;
	struct dev d;
	uint32_t syndrome = 0;
	uint64_t word = 3;

	world_open(&w, 1);
	dev_open(&w, &d, 4, first, 0, 0);
	if (good_before) {
		dev_inline(&w, &d, 0, &word, 8, 0);
		dev_drain(&w, &d, 0);
	}
	if (!value)
		value = ori_doorbell_value(d.next, d.q.qpn + 1);
	else
		value = ori_doorbell_value(value, d.q.qpn);
	d.next++; /* one error is given, for the first index without CQE */
	__atomic_store_n(&d.doorbell, value, __ATOMIC_RELEASE);
	world_settle(&w, 5);
	CHECK(dev_poll(&d, &syndrome));
	CHECK_EQ(syndrome, ORI_SYNDROME_LOCAL_QP_OP);
	CHECK_EQ(w.told, 1);
	CHECK(!ori_proxy_busy(w.proxy));
	dev_close(&w, &d);
	world_close(&w);
}

TEST(wrong_doorbells)
{
	ring_value(0xfffe, 0xfffd, 0); /* back */
	ring_value(0xfffe, 0xfffe, 1);
	ring_value(0xfffe, 0x10003, 0); /* past the ring */
	ring_value(8, 0x8000, 1);
	ring_value(8, 0, 0); /* another queue pair's */
	ring_value(8, 0, 1);
}

/* ---- operations that fail -------------------------------------------------------------------- */

static void nth_fails(uint64_t seed, int refuse)
{
	struct proxy_world w;
	struct dev d;
	uint64_t at = 1 + seed % 8, value, good = 0;
	uint32_t syndrome;

	world_open(&w, seed);
	w.delay = (uint32_t)(seed % 6);
	w.again = (uint32_t)(seed % 3) * 60;
	w.ordered = (int)(seed % 2);
	w.fail_at = refuse ? 0 : at;
	w.refuse_at = refuse ? at : 0;
	w.fail_syndrome = ORI_SYNDROME_REMOTE_ACCESS;
	memset(w.theirs, 0, 64);
	dev_open(&w, &d, 8, 0xfffc, 0, 0);
	for (value = 1; value <= 8; value++)
		dev_inline(&w, &d, (value - 1) * 8, &value, 8, 0);
	world_settle(&w, 300);
	for (uint64_t i = 1; i <= 8; i++) {
		REQUIRE(dev_poll(&d, &syndrome));
		if (syndrome == 0) {
			good++;
			CHECK_EQ(w.theirs[(i - 1) * 8], i);
			CHECK(i < at);
		} else if (good == i - 1) {
			/* unordered: one before it may have been cut off by the broken link */
			CHECK(i == at ? syndrome == ORI_SYNDROME_REMOTE_ACCESS :
					!w.ordered && syndrome == ORI_SYNDROME_FLUSHED);
			CHECK_EQ(w.told_syndrome, syndrome);
			CHECK_EQ(w.told_index, 0xfffc + i - 1);
		} else {
			CHECK_EQ(syndrome, ORI_SYNDROME_FLUSHED);
		}
	}
	CHECK(good == at - 1 || !w.ordered);
	CHECK_EQ(w.told, 1);
	CHECK_EQ(w.open, 0);
	CHECK_EQ(w.theirs[(at - 1) * 8], 0);
	CHECK_EQ(w.links[0].flushed, 1);
	CHECK(!ori_proxy_busy(w.proxy));
	CHECK_EQ(world_stats(&w).cqes, 8);
	dev_close(&w, &d);
	world_close(&w);
}

TEST(nth_operation_fails)
{
	for (uint64_t seed = 0; seed < 96; seed++) {
		nth_fails(seed, 0);
		nth_fails(seed, 1);
	}
}

/*
 * The CQE that frees memory waits until the back end has released it.  The error is reported at
 * once.
 */
TEST(flush_waits_for_the_back_end)
{
	struct proxy_world w;
	struct dev d;
	uint32_t syndrome;

	world_open(&w, 1);
	dev_open(&w, &d, 4, 0, 0, 0);
	for (int i = 0; i < 3; i++)
		dev_rdma(&w, &d, ORI_WQE_RDMA_READ, 0, 0, 8, 0);
	ori_proxy_step(w.proxy, 3); /* starts them, and has no budget left to see them complete */
	REQUIRE(w.open == 3);
	for (int i = 0; i < WORLD_OPS; i++)
		if (w.ops[i].used)
			w.ops[i].report_at = w.ops[i].number == 2 ? UINT64_MAX : 0;
	ori_proxy_queue_fail(w.proxy, d.q.qpn, ORI_SYNDROME_ABORTED);
	world_settle(&w, 10);
	CHECK_EQ(w.told, 1);
	CHECK_EQ(w.links[0].flushed, 1);
	CHECK(dev_poll(&d, &syndrome));
	CHECK_EQ(syndrome, ORI_SYNDROME_ABORTED);
	CHECK(!dev_poll(&d, &syndrome));
	for (int i = 0; i < WORLD_OPS; i++)
		w.ops[i].report_at = 0;
	dev_drain(&w, &d, ORI_SYNDROME_FLUSHED);
	dev_close(&w, &d);
	world_close(&w);
}

/* Unexpected completions: reported twice, or for a queue that was destroyed. */
static struct ori_proxy_completion forged[8];
static int forged_count;

static int forge(void *ctx, struct ori_proxy_completion *out, int room)
{
	int n = forged_count < room ? forged_count : room;

	(void)ctx;
	memcpy(out, forged, (size_t)n * sizeof(*out));
	forged_count = 0;
	return n;
}

static uint64_t last_cookie;

static int note_cookie(void *ctx, const struct ori_proxy_op *op)
{
	(void)ctx;
	last_cookie = op->cookie;
	return 0;
}

TEST(stray_completions)
{
	static const struct ori_proxy_backend table = { .post_write_inline = note_cookie,
							.progress = forge };
	struct ori_proxy_attr attr = { .nranks = 2, .backend = &table };
	struct ori_proxy_remote remote = { 0, 64, WORLD_ALL, 0, 0 };
	struct proxy_world w;
	struct dev d;
	uint64_t value = 1;

	world_open(&w, 1);
	ori_proxy_destroy(w.proxy);
	REQUIRE(ori_proxy_create(&attr, &w.proxy) == 0);
	CHECK_EQ(ori_proxy_remote_add(w.proxy, 1, w.their_key, &remote), 0);
	dev_open(&w, &d, 4, 0, 0, 0);
	dev_inline(&w, &d, 0, &value, 8, 0);
	ori_proxy_step(w.proxy, 8);
	forged_count = 6;
	for (int i = 0; i < 6; i++)
		forged[i].cookie = last_cookie + (i == 1 ? 0u : (uint64_t)(i - 1));
	forged[2].cookie = last_cookie;
	forged[3].cookie = ~0ull;
	forged[4].cookie = 0;
	dev_drain(&w, &d, 0);
	CHECK_EQ(world_stats(&w).strays, 5);
	dev_inline(&w, &d, 0, &value, 8, 0);
	ori_proxy_step(w.proxy, 8);
	dev_close(&w, &d);
	dev_open(&w, &d, 4, 1, 0, 0); /* the same place and index, another number */
	dev_inline(&w, &d, 0, &value, 8, 0);
	forged[0].cookie = last_cookie;
	ori_proxy_step(w.proxy, 8);
	CHECK(forged[0].cookie != last_cookie);
	forged_count = 1;
	world_settle(&w, 3);
	CHECK_EQ(world_stats(&w).strays, 6);
	CHECK(ori_proxy_busy(w.proxy));
	forged[0].cookie = last_cookie;
	forged_count = 1;
	dev_drain(&w, &d, 0);
	dev_close(&w, &d);
	world_close(&w);
}

/* ---- tables ---------------------------------------------------------------------------------- */

TEST(keys_are_not_reused_soon)
{
	struct proxy_world w;
	uint32_t key, last = 0, keys[300];

	world_open(&w, 1);
	for (int i = 0; i < 100; i++) {
		key = world_key(&w, w.mine, 8, WORLD_ALL);
		CHECK(key != last);
		ori_proxy_key_remove(w.proxy, key);
		ori_proxy_key_remove(w.proxy, key); /* twice: nothing */
		last = key;
	}
	for (int i = 0; i < 300; i++) {
		keys[i] = world_key(&w, w.mine, 8, WORLD_ALL);
		for (int j = 0; j < i; j++)
			CHECK(keys[i] != keys[j]);
	}
	for (int i = 0; i < 300; i++)
		ori_proxy_key_remove(w.proxy, keys[i]);
	world_close(&w);
}

TEST(bad_arguments)
{
	struct proxy_world w;
	struct ori_proxy_memory m = { &w, 0, 0, 0, 0 };
	struct ori_proxy_remote r = { UINT64_MAX, 2, 0, 0, 0 };
	struct oriel_queue q = { 0 };
	struct dev d;
	uint32_t key;

	world_open(&w, 1);
	CHECK_EQ(ori_proxy_key_add(w.proxy, &m, &key), ORIEL_EINVAL);
	CHECK_EQ(ori_proxy_remote_add(w.proxy, 1, 1, &r), ORIEL_EINVAL);
	r.iova = 0;
	CHECK_EQ(ori_proxy_remote_add(w.proxy, 2, 1, &r), ORIEL_EINVAL);
	CHECK_EQ(ori_proxy_queue_add(w.proxy, &q, 0), ORIEL_EINVAL);
	dev_open(&w, &d, 4, 0, 0, 0);
	CHECK_EQ(ori_proxy_queue_connect(w.proxy, d.q.qpn, 1, &w), ORIEL_EINVAL); /* twice */
	CHECK_EQ(ori_proxy_queue_connect(w.proxy, 0, 1, &w), ORIEL_EINVAL);
	CHECK_EQ(ori_proxy_step(w.proxy, 0), 0);
	ori_proxy_queue_fail(w.proxy, 0x7fffff, 1);
	ori_proxy_queue_remove(w.proxy, 0x7fffff);
	dev_close(&w, &d);
	world_close(&w);
	ori_proxy_destroy(NULL);
}

/* More queues than one word of the bit maps holds. */
TEST(many_queues)
{
	static struct dev d[150];
	struct proxy_world w;
	uint64_t value = 9;

	world_open(&w, 1);
	for (int i = 0; i < 150; i++)
		dev_open(&w, &d[i], 2, 0, i % WORLD_LINKS, 0);
	for (int i = 149; i >= 0; i -= 2) {
		dev_inline(&w, &d[i], (uint64_t)i * 8, &value, 8, 0);
		dev_drain(&w, &d[i], 0);
		CHECK_EQ(w.theirs[i * 8], 9);
	}
	for (int i = 0; i < 150; i++)
		dev_close(&w, &d[i]);
	world_close(&w);
}
