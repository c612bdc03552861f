/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_errors.c - everything a device or peer can get wrong: each gets its syndrome, touches
 * nothing outside the registration, and leaves the NIC running.
 */
#include "soft_world.h"

#include "engine/soft/state.h"

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

static int untouched(const struct bench *t, int rank)
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
 * One good WQE, the bad one (already in its slot), two good ones: success, the syndrome, two flushes;
 * then one rung after the error, flushed too.
 */
static void good(struct bench *t)
{
	ori_wqe_nop(queue_slot(&t->a), t->a.next, t->a.qpn, 0);
	queue_ring(&t->a);
}

static void expect(struct bench *t, uint32_t want)
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

/* ---- remote: key, range, access, alignment ---------------------------------------------------------- */

struct remote_case {
	const char *name;
	uint32_t opcode;
	uint64_t address;
	uint32_t bytes;
	uint32_t want;
	int key; /* 0 right, 1 wrong tag, 2 wrong slot, 3 zero, 4 revoked, 5 other pd, 6 no access, 7 far slot */
};

static const struct remote_case remote_cases[] = {
	{ "past the end", ORI_WQE_RDMA_WRITE, BYTES - 7, 8, 0x13, 0 },
	{ "past the end, long", ORI_WQE_RDMA_WRITE, 1, BYTES, 0x13, 0 },
	{ "far past", ORI_WQE_RDMA_WRITE, 1ull << 40, 8, 0x13, 0 },
	{ "overflow", ORI_WQE_RDMA_WRITE, UINT64_MAX - 3, 8, 0x13, 0 },
	{ "before the start", ORI_WQE_RDMA_WRITE, (uint64_t)-8, 8, 0x13, 0 },
	{ "wrong tag", ORI_WQE_RDMA_WRITE, 0, 8, 0x13, 1 },
	{ "wrong slot", ORI_WQE_RDMA_WRITE, 0, 8, 0x13, 2 },
	{ "key 0", ORI_WQE_RDMA_WRITE, 0, 8, 0x13, 3 },
	{ "revoked key", ORI_WQE_RDMA_WRITE, 0, 8, 0x13, 4 },
	{ "other domain", ORI_WQE_RDMA_WRITE, 0, 8, 0x13, 5 },
	{ "no access", ORI_WQE_RDMA_WRITE, 0, 8, 0x13, 6 },
	{ "far slot", ORI_WQE_RDMA_WRITE, 0, 8, 0x13, 7 },
	{ "read past the end", ORI_WQE_RDMA_READ, BYTES - 7, 8, 0x13, 0 },
	{ "read overflow", ORI_WQE_RDMA_READ, UINT64_MAX, 8, 0x13, 0 },
	{ "read revoked key", ORI_WQE_RDMA_READ, 0, 8, 0x13, 4 },
	{ "read no access", ORI_WQE_RDMA_READ, 0, 8, 0x13, 6 },
	{ "atomic misaligned", ORI_WQE_ATOMIC_FA, 4, 8, 0x12, 0 },
	{ "atomic past the end", ORI_WQE_ATOMIC_FA, BYTES, 8, 0x13, 0 },
	{ "atomic overflow", ORI_WQE_ATOMIC_CS, UINT64_MAX - 7, 8, 0x13, 0 },
	{ "atomic wrong tag", ORI_WQE_ATOMIC_CS, 0, 8, 0x13, 1 },
	{ "atomic no access", ORI_WQE_ATOMIC_FA, 0, 8, 0x13, 6 },
};

static uint32_t odd_key(struct bench *t, int which)
{
	struct soft_mr_attr attr = { t->mem[1] + GUARD, 0, BYTES, WORLD_ALL, WORLD_PD, 0, 0 };
	uint32_t key = t->key[1];

	switch (which) {
	case 1:
		return key ^ 1;
	case 2:
		return key + 0x300;
	case 3:
		return 0;
	case 4:
		CHECK_EQ(soft_mr_create(t->w.nic[1], &attr, &key), 0);
		soft_mr_destroy(t->w.nic[1], key);
		return key;
	case 5:
		attr.pd++;
		CHECK_EQ(soft_mr_create(t->w.nic[1], &attr, &key), 0);
		return key;
	case 6:
		attr.access = SOFT_LOCAL_WRITE;
		CHECK_EQ(soft_mr_create(t->w.nic[1], &attr, &key), 0);
		return key;
	case 7:
		return 0xffffff00u | (key & 0xff);
	default:
		return key;
	}
}

static void post_case(struct bench *t, const struct remote_case *c, uint32_t rkey)
{
	struct ori_wqe *slot = queue_slot(&t->a);

	if (c->opcode == ORI_WQE_ATOMIC_FA)
		ori_wqe_fetch_add(slot, t->a.next, t->a.qpn, c->address, rkey, 1, 0, t->key[0], 0);
	else if (c->opcode == ORI_WQE_ATOMIC_CS)
		ori_wqe_compare_swap(slot, t->a.next, t->a.qpn, c->address, rkey, 0x7777777777777777ull,
				     1, 0, t->key[0], 0);
	else
		ori_wqe_rdma(slot, t->a.next, t->a.qpn, c->opcode, c->address, rkey, 0, t->key[0],
			     c->bytes, 0);
	queue_ring(&t->a);
}

TEST(remote_errors)
{
	for (size_t i = 0; i < ORI_COUNT(remote_cases); i++) {
		const struct remote_case *c = &remote_cases[i];
		struct bench *t = bench_open(NULL);
		int failures = check_failures;

		good(t);
		post_case(t, c, odd_key(t, c->key));
		expect(t, c->want);
		CHECK(untouched(t, 0) && untouched(t, 1));
		/* the responder's queue pair is in ERR too */
		CHECK_EQ(t->w.at[1].error.count, 1);
		CHECK_EQ(t->w.at[1].error.qpn, t->b.qpn);
		CHECK_EQ(t->w.at[1].error.syndrome, ORI_SYNDROME_LOCAL_ACCESS);
		ori_wqe_nop(queue_slot(&t->b), t->b.next, t->b.qpn, 0);
		queue_ring(&t->b);
		queue_drain(&t->w, &t->b, ORI_SYNDROME_FLUSHED);
		if (failures != check_failures)
			printf("in case: %s\n", c->name);
		bench_close(t);
	}
}

/* The NAK of an error may be lost; the requester still learns the right syndrome. */
TEST(remote_error_over_a_bad_wire)
{
	for (int seed = 0; seed < 20; seed++) {
		char text[64];
		struct bench *t;

		snprintf(text, sizeof(text), "drop=0.3,dup=0.2,reorder=0.2,retry=60,seed=%d", seed);
		t = bench_open(text);
		good(t);
		post_case(t, &remote_cases[seed % 12], odd_key(t, remote_cases[seed % 12].key));
		expect(t, 0x13);
		CHECK(untouched(t, 1));
		bench_close(t);
	}
}

TEST(no_atomics)
{
	struct bench *t = bench_open("no_atomics=1");

	good(t);
	ori_wqe_fetch_add(queue_slot(&t->a), t->a.next, t->a.qpn, 0, t->key[1], 1, 0, t->key[0], 0);
	queue_ring(&t->a);
	expect(t, ORI_SYNDROME_REMOTE_INVALID);
	CHECK(untouched(t, 1));
	bench_close(t);
}

/* A key revoked while a message is under way: the rest of it is refused. */
TEST(revoked_mid_message)
{
	for (int op = 0; op < 2; op++) {
		struct bench *t = bench_open("mtu=64");
		uint32_t opcode = op ? ORI_WQE_RDMA_READ : ORI_WQE_RDMA_WRITE;

		memset(t->mem[0] + GUARD, 0x11, BYTES);
		memset(t->mem[1] + GUARD, 0x22, BYTES);
		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, opcode, 0, t->key[1], 0, t->key[0],
			     BYTES, 0);
		queue_ring(&t->a);
		for (int i = 0; i < 8; i++)
			world_step(&t->w, 4);
		soft_mr_destroy(t->w.nic[1], t->key[1]);
		expect(t, ORI_SYNDROME_REMOTE_ACCESS);
		CHECK_EQ(op ? t->mem[0][GUARD] : t->mem[1][GUARD], op ? 0x22 : 0x11);
		CHECK_EQ(op ? t->mem[0][GUARD + BYTES - 1] : t->mem[1][GUARD + BYTES - 1],
			 op ? 0x11 : 0x22);
		t->key[1] = world_mr(&t->w, 1, t->mem[1] + GUARD, BYTES, WORLD_ALL, 0);
		bench_close(t);
	}
}

TEST(local_key_revoked_mid_message)
{
	for (int op = 0; op < 2; op++) {
		struct bench *t = bench_open("mtu=64");

		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn,
			     op ? ORI_WQE_RDMA_READ : ORI_WQE_RDMA_WRITE, 0, t->key[1], 0, t->key[0], BYTES,
			     0);
		queue_ring(&t->a);
		for (int i = 0; i < 8; i++)
			world_step(&t->w, 4);
		soft_mr_destroy(t->w.nic[0], t->key[0]);
		expect(t, ORI_SYNDROME_LOCAL_PROT);
		bench_close(t);
	}
}

/* ---- local: keys of data segments ---------------------------------------------------------------------- */

TEST(local_protection)
{
	for (int i = 0; i < 8; i++) {
		struct bench *t = bench_open(NULL);
		struct soft_mr_attr attr = { t->mem[0] + GUARD, 0, BYTES, 0, WORLD_PD, 0, 0 };
		uint32_t lkey = t->key[0], opcode = ORI_WQE_RDMA_WRITE, bytes = 8;
		uint64_t local = 0;

		good(t);
		if (i == 0)
			lkey ^= 0x80;
		if (i == 1)
			local = BYTES - 7;
		if (i == 2)
			local = UINT64_MAX - 6;
		if (i == 3)
			bytes = BYTES + 1;
		if (i == 4) {
			attr.pd++;
			CHECK_EQ(soft_mr_create(t->w.nic[0], &attr, &lkey), 0);
		}
		if (i >= 5) { /* the answer needs the right to write */
			CHECK_EQ(soft_mr_create(t->w.nic[0], &attr, &lkey), 0);
			opcode = ORI_WQE_RDMA_READ;
		}
		if (i == 6)
			ori_wqe_fetch_add(queue_slot(&t->a), t->a.next, t->a.qpn, 0, t->key[1], 1, 0, lkey,
					  0);
		else if (i == 7)
			ori_wqe_dump(queue_slot(&t->a), t->a.next, t->a.qpn, BYTES, t->key[0], 1);
		else
			ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, opcode, 0, t->key[1], local,
				     lkey, bytes, 0);
		queue_ring(&t->a);
		expect(t, ORI_SYNDROME_LOCAL_PROT);
		CHECK(untouched(t, 0) && untouched(t, 1));
		bench_close(t);
	}
}

/* ---- WQEs that no correct device writes ----------------------------------------------------------------- */

static void bend(struct ori_wqe *w, int how)
{
	uint32_t word = ori_be32(w->ctrl.opmod_idx_opcode), ds = ori_be32(w->ctrl.qpn_ds);

	switch (how) {
	case 0: /* index */
		w->ctrl.opmod_idx_opcode = ori_be32(word + 0x100);
		break;
	case 1: /* an old lap */
		w->ctrl.opmod_idx_opcode = ori_be32(word ^ 0x800);
		break;
	case 2: /* queue pair */
		w->ctrl.qpn_ds = ori_be32(ds + 0x100);
		break;
	case 3: /* segments */
		w->ctrl.qpn_ds = ori_be32(ds - 1);
		break;
	case 4:
		w->ctrl.qpn_ds = ori_be32(ds + 1);
		break;
	case 5:
		w->ctrl.qpn_ds = ori_be32(ds & ~0x3fu);
		break;
	case 6:
		w->ctrl.qpn_ds = ori_be32(ds | 0x3fu);
		break;
	case 7: /* opcode */
		w->ctrl.opmod_idx_opcode = ori_be32((word & ~0xffu) | 0x0a);
		break;
	case 8: /* opmod */
		w->ctrl.opmod_idx_opcode = ori_be32(word | 0x08000000u);
		break;
	case 9: /* zero length */
		w->u.rdma.data.byte_count = 0;
		break;
	case 10: /* too long */
		w->u.rdma.data.byte_count = ori_be32((1u << 30) + 1);
		break;
	case 11: /* inline, 0 bytes */
		w->u.rdma.data.byte_count = ori_be32(ORI_WQE_INLINE_FLAG);
		break;
	case 12: /* inline, more than 3 segments hold */
		w->u.rdma.data.byte_count = ori_be32(ORI_WQE_INLINE_FLAG | 13);
		break;
	case 13:
		w->u.rdma.data.byte_count = ori_be32(ORI_WQE_INLINE_FLAG | 0x7fffffff);
		break;
	case 14: /* fence mode */
		w->ctrl.fm_ce_se |= 0xe0;
		break;
	default: /* what the slot held before */
		memset(w, 0xa5, sizeof(*w));
		break;
	}
}

TEST(malformed_wqes)
{
	for (int how = 0; how <= 15; how++) {
		struct bench *t = bench_open(NULL);
		int failures = check_failures;

		good(t);
		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 0, t->key[1], 0,
			     t->key[0], 8, 0);
		bend(queue_slot(&t->a), how);
		queue_ring(&t->a);
		expect(t, ORI_SYNDROME_LOCAL_QP_OP);
		CHECK(untouched(t, 0) && untouched(t, 1));
		if (failures != check_failures)
			printf("in case %d\n", how);
		bench_close(t);
	}
}

TEST(inline_read_and_short_atomic)
{
	struct bench *t = bench_open(NULL);

	good(t);
	ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_READ, 0, t->key[1], 0, t->key[0],
		     8, 0);
	queue_slot(&t->a)->u.rdma.data.byte_count |= ori_be32(ORI_WQE_INLINE_FLAG);
	queue_ring(&t->a);
	expect(t, ORI_SYNDROME_LOCAL_QP_OP);
	bench_close(t);

	t = bench_open(NULL);
	good(t);
	ori_wqe_fetch_add(queue_slot(&t->a), t->a.next, t->a.qpn, 0, t->key[1], 1, 0, t->key[0], 0);
	queue_slot(&t->a)->u.atomic.result.byte_count = ori_be32(4);
	queue_ring(&t->a);
	expect(t, ORI_SYNDROME_LOCAL_LENGTH);
	CHECK(untouched(t, 1));
	bench_close(t);
}

/* ---- doorbells ----------------------------------------------------------------------------------------- */

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
		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 0, t->key[1], 0,
			     t->key[0], 64, 0);
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

/* Strict mode sees a block that is written again before its completion; faithful mode does not look. */
TEST(block_reused_early)
{
	for (int strict = 0; strict < 2; strict++) {
		struct bench *t = bench_open(strict ? "strict=1" : NULL);

		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 8, t->key[1], 8,
			     t->key[0], 64, 0);
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

/* ---- ends ------------------------------------------------------------------------------------------------- */

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
	ori_wqe_rdma(queue_slot(&t->b), t->b.next, t->b.qpn, ORI_WQE_RDMA_WRITE, 0, t->key[0], 0, t->key[1],
		     64, 0);
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

/* The peer's queue pair is gone: its number is not found, so nobody answers. */
TEST(peer_destroyed)
{
	struct bench *t = bench_open(NULL);
	struct queue other;
	uint32_t old = t->b.qpn;

	queue_close(&t->w, &t->b);
	queue_open(&t->w, &other, 1, 8, 0, 0); /* same slot, another number */
	CHECK(other.qpn != old);
	CHECK_EQ(other.qpn & 0x3fff, old & 0x3fff);
	ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 0, t->key[1], 0, t->key[0],
		     64, 0);
	queue_ring(&t->a);
	t->w.step_ns = 20000;
	expect(t, ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK(untouched(t, 1));
	t->b = other;
	bench_close(t);
}

/* Errors in the middle of long traffic: earlier WQEs complete, each WQE has exactly one CQE, in order. */
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
					     posted % 3 ? ORI_WQE_RDMA_WRITE : ORI_WQE_RDMA_READ, far,
					     t->key[1], 0, t->key[0], 1 + posted * 40, 0);
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
	struct soft_qp_attr attr = { t->a.sq, t->a.cq, t->a.record, &t->a.doorbell, 3, 0, WORLD_PD, 0 };
	struct soft_mr_attr mr = { t->mem[0], UINT64_MAX - 10, BYTES, WORLD_ALL, WORLD_PD, 0, 0 };
	uint32_t qpn, cqn, key;
	struct soft_config config = t->w.config;
	struct soft_world around = { NULL, world_clock, NULL, NULL, NULL };
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
		CHECK(soft_mr_find(t->w.nic[0], key, WORLD_PD, WORLD_ALL, 0, 64, NULL) == t->mem[0]);
		last = key;
		soft_mr_destroy(t->w.nic[0], key);
	}
	bench_close(t);
}
