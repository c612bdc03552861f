/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_errors.c - every error in a WQE or in a peer's request: each gets its syndrome,
 * touches nothing outside the registration, and leaves the NIC running.
 */
#include "soft_bench.h"

/* ---- remote: key, range, access, alignment --------------------------------------------------- */

struct remote_case {
	const char *name;
	uint32_t opcode;
	uint64_t address;
	uint32_t bytes;
	uint32_t want;
	int key; /* see odd_key(); 0 is the right one */
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
	struct soft_mr_attr attr = { t->mem[1] + GUARD, 0, BYTES, WORLD_ALL, WORLD_PD, 0, 0, 0 };
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
		ori_wqe_compare_swap(slot, t->a.next, t->a.qpn, c->address, rkey,
				     0x7777777777777777ull, 1, 0, t->key[0], 0);
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
		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, opcode, 0, t->key[1], 0,
			     t->key[0], BYTES, 0);
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
			     op ? ORI_WQE_RDMA_READ : ORI_WQE_RDMA_WRITE, 0, t->key[1], 0,
			     t->key[0], BYTES, 0);
		queue_ring(&t->a);
		for (int i = 0; i < 8; i++)
			world_step(&t->w, 4);
		soft_mr_destroy(t->w.nic[0], t->key[0]);
		expect(t, ORI_SYNDROME_LOCAL_PROT);
		bench_close(t);
	}
}

/* ---- local: keys of data segments ------------------------------------------------------------ */

TEST(local_protection)
{
	for (int i = 0; i < 8; i++) {
		struct bench *t = bench_open(NULL);
		struct soft_mr_attr attr = { t->mem[0] + GUARD, 0, BYTES, 0, WORLD_PD, 0, 0, 0 };
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
			ori_wqe_fetch_add(queue_slot(&t->a), t->a.next, t->a.qpn, 0, t->key[1], 1,
					  0, lkey, 0);
		else if (i == 7)
			ori_wqe_dump(queue_slot(&t->a), t->a.next, t->a.qpn, BYTES, t->key[0], 1);
		else
			ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, opcode, 0, t->key[1],
				     local, lkey, bytes, 0);
		queue_ring(&t->a);
		expect(t, ORI_SYNDROME_LOCAL_PROT);
		CHECK(untouched(t, 0) && untouched(t, 1));
		bench_close(t);
	}
}

/* ---- WQEs that no correct device writes ------------------------------------------------------ */

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
		ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 0,
			     t->key[1], 0, t->key[0], 8, 0);
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
	ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_READ, 0, t->key[1], 0,
		     t->key[0], 8, 0);
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
