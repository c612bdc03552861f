/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/wqe_golden.c - every encoder of oriel/device/wqe.h, byte for byte.
 *
 * Each is compared twice: with hex written by hand from the description of the formats, which runs
 * anywhere, and with blocks made by the helpers and structs of infiniband/mlx5dv.h, if that is
 * installed.
 */
#include <endian.h>

#include <oriel/device/wqe.h>

#include "../check.h"

#if defined(__has_include)
#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>
#define HAVE_MLX5DV 1
#endif
#endif

#define QPN 0x0abcdeu
#define CQN 0x000123u
#define RKEY 0x11223344u
#define LKEY 0x55667788u
#define REMOTE 0x0102030405060708ull
#define LOCAL 0x1112131415161718ull

/* 16-bit wrap, and bits above it that must not leak into the opcode modifier. */
static const uint64_t indices[] = { 0,
				    1,
				    0x7fff,
				    0x8000,
				    0xfffe,
				    0xffff,
				    0x10000,
				    0x10001,
				    0xffffff,
				    0x1000000,
				    0xffffffffull,
				    1ull << 32,
				    0x123456789abcdefull };
#define NINDICES (sizeof(indices) / sizeof(indices[0]))

static const uint8_t value[28] = { 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9,
				   0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3,
				   0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xdb };

/* ---- one call for every kind of block -------------------------------------------------------- */

enum kind {
	WRITE,
	READ,
	INLINE_1,
	INLINE_12,
	INLINE_13,
	INLINE_28,
	FETCH_ADD,
	COMPARE_SWAP,
	WAIT_CQE,
	DUMP,
	NOP,
	KINDS
};

static const char *const names[KINDS] = { "write",     "read",      "inline 1",  "inline 12",
					  "inline 13", "inline 28", "fetch-add", "compare-swap",
					  "wait",      "dump",      "nop" };
static const uint32_t inline_bytes[KINDS] = {
	[INLINE_1] = 1, [INLINE_12] = 12, [INLINE_13] = 13, [INLINE_28] = 28
};

static void encode(struct ori_wqe *w, enum kind kind, uint64_t index, uint32_t flags)
{
	switch (kind) {
	case WRITE:
	case READ:
		ori_wqe_rdma(w, index, QPN, kind == WRITE ? ORI_WQE_RDMA_WRITE : ORI_WQE_RDMA_READ,
			     REMOTE, RKEY, LOCAL, LKEY, 0x40000000u, flags);
		break;
	case INLINE_1:
	case INLINE_12:
	case INLINE_13:
	case INLINE_28:
		ori_wqe_write_inline(w, index, QPN, REMOTE, RKEY, value, inline_bytes[kind], flags);
		break;
	case FETCH_ADD:
		ori_wqe_fetch_add(w, index, QPN, REMOTE, RKEY, 0xa1a2a3a4a5a6a7a8ull, LOCAL, LKEY,
				  flags);
		break;
	case COMPARE_SWAP:
		ori_wqe_compare_swap(w, index, QPN, REMOTE, RKEY, 0xb1b2b3b4b5b6b7b8ull,
				     0xa1a2a3a4a5a6a7a8ull, LOCAL, LKEY, flags);
		break;
	case WAIT_CQE:
		ori_wqe_wait(w, index, QPN, CQN, 0xfedcba98u);
		break;
	case DUMP:
		ori_wqe_dump(w, index, QPN, LOCAL, LKEY, 4096);
		break;
	default:
		ori_wqe_nop(w, index, QPN, flags);
		break;
	}
}

/* WAIT and DUMP take no flags. */
static int has_flags(enum kind kind)
{
	return kind != WAIT_CQE && kind != DUMP;
}

static void same_block(const void *got, const void *want, const char *name, uint64_t index)
{
	const uint8_t *g = got, *w = want;

	for (int i = 0; i < 64; i++)
		if (g[i] != w[i]) {
			check_fail(__FILE__, __LINE__,
				   "%s, index 0x%llx: byte %d is %02x, not %02x", name,
				   (unsigned long long)index, i, g[i], w[i]);
			return;
		}
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* What an encoder leaves alone stays as it was: the block starts as 0xee. */
#define E4 "eeeeeeee"
#define E16 E4 E4 E4 E4
#define RADDR                                                                                      \
	"0102030405060708"                                                                         \
	"11223344"                                                                                 \
	"00000000"

/* With index 0x1fffe and no flags. */
static const char *const golden[KINDS] = {
	[WRITE] = "00fffe08"
		  "0abcde03"
		  "00000008"
		  "00000000" RADDR "40000000"
		  "55667788"
		  "1112131415161718" E16,
	[READ] = "00fffe10"
		 "0abcde03"
		 "00000008"
		 "00000000" RADDR "40000000"
		 "55667788"
		 "1112131415161718" E16,
	[INLINE_1] = "00fffe08"
		     "0abcde03"
		     "00000008"
		     "00000000" RADDR "80000001"
		     "c0eeeeee" E4 E4 E16,
	[INLINE_12] = "00fffe08"
		      "0abcde03"
		      "00000008"
		      "00000000" RADDR "8000000c"
		      "c0c1c2c3"
		      "c4c5c6c7"
		      "c8c9cacb" E16,
	[INLINE_13] = "00fffe08"
		      "0abcde04"
		      "00000008"
		      "00000000" RADDR "8000000d"
		      "c0c1c2c3"
		      "c4c5c6c7"
		      "c8c9cacb"
		      "cceeeeee" E4 E4 E4,
	[INLINE_28] = "00fffe08"
		      "0abcde04"
		      "00000008"
		      "00000000" RADDR "8000001c"
		      "c0c1c2c3"
		      "c4c5c6c7"
		      "c8c9cacb"
		      "cccdcecf"
		      "d0d1d2d3"
		      "d4d5d6d7"
		      "d8d9dadb",
	[FETCH_ADD] = "00fffe12"
		      "0abcde04"
		      "00000008"
		      "00000000" RADDR "a1a2a3a4a5a6a7a8"
		      "0000000000000000"
		      "00000008"
		      "55667788"
		      "1112131415161718",
	[COMPARE_SWAP] = "00fffe11"
			 "0abcde04"
			 "00000008"
			 "00000000" RADDR "a1a2a3a4a5a6a7a8"
			 "b1b2b3b4b5b6b7b8"
			 "00000008"
			 "55667788"
			 "1112131415161718",
	[WAIT_CQE] = "00fffe0f"
		     "0abcde02"
		     "00000008"
		     "00000000"
		     "0000000000000000"
		     "fedcba98"
		     "00000123" E16 E16,
	[DUMP] = "00fffe23"
		 "0abcde02"
		 "00000008"
		 "00000000"
		 "00001000"
		 "55667788"
		 "1112131415161718" E16 E16,
	[NOP] = "00fffe00"
		"0abcde01"
		"00000008"
		"00000000" E16 E16 E16,
};

static void from_hex(const char *hex, uint8_t out[64])
{
	REQUIRE(strlen(hex) == 128);
	for (int i = 0; i < 64; i++) {
		unsigned int byte = 0;

		CHECK_EQ(sscanf(hex + 2 * i, "%2x", &byte), 1);
		out[i] = (uint8_t)byte;
	}
}

TEST(blocks_are_the_hex_written_by_hand)
{
	for (enum kind k = 0; k < KINDS; k++) {
		uint8_t want[64] = { 0 };
		struct ori_wqe got;

		from_hex(golden[k], want);
		memset(&got, 0xee, sizeof(got));
		encode(&got, k, 0x1fffe, 0);
		same_block(&got, want, names[k], 0x1fffe);
	}
}

TEST(index_wraps_at_16_bits_and_flags_stay_in_their_byte)
{
	for (enum kind k = 0; k < KINDS; k++)
		for (size_t i = 0; i < NINDICES; i++) {
			uint8_t want[64] = { 0 };
			struct ori_wqe got;

			from_hex(golden[k], want);
			want[1] = (uint8_t)(indices[i] >> 8);
			want[2] = (uint8_t)indices[i];
			want[11] = has_flags(k) ? 0x68 : 0x08;
			memset(&got, 0xee, sizeof(got));
			encode(&got, k, indices[i], ORI_WQE_STRONG);
			same_block(&got, want, names[k], indices[i]);
		}
}

TEST(fence_and_strong_are_the_fence_modes_2_and_3)
{
	struct ori_wqe w;

	CHECK_EQ(ORI_WQE_CQ_UPDATE, 2 << 2);
	CHECK_EQ(ORI_WQE_FENCE, 2 << 5);
	CHECK_EQ(ORI_WQE_STRONG, 3 << 5);
	ori_wqe_nop(&w, 0, QPN, ORI_WQE_FENCE);
	CHECK_EQ(w.ctrl.fm_ce_se, 0x48);
	ori_wqe_nop(&w, 0, QPN, 0);
	CHECK_EQ(w.ctrl.fm_ce_se, 0x08);
}

TEST(longest_and_shortest_transfer)
{
	struct ori_wqe w;

	ori_wqe_rdma(&w, 0, QPN, ORI_WQE_RDMA_WRITE, 0, RKEY, 0, LKEY,
		     (uint32_t)ORI_WQE_MESSAGE_BYTES, 0);
	CHECK_EQ(memcmp(&w.u.rdma.data, "\x40\0\0\0", 4), 0);
	ori_wqe_rdma(&w, 0, 0xffffff, ORI_WQE_RDMA_WRITE, ~0ull, ~0u, ~0ull, ~0u, 1, 0);
	CHECK_EQ(memcmp(&w.u.rdma.data, "\0\0\0\1", 4), 0);
	CHECK_EQ(memcmp(&w.ctrl.qpn_ds, "\xff\xff\xff\x03", 4), 0);
}

/* Memory order of the record's word and of the 8 bytes rung. */
TEST(doorbell_record_and_value)
{
	for (size_t i = 0; i < NINDICES; i++) {
		uint8_t hi = (uint8_t)(indices[i] >> 8), lo = (uint8_t)indices[i];
		uint8_t record[4] = { 0, 0, hi, lo };
		uint8_t bell[8] = { 0, hi, lo, 0, 0x0a, 0xbc, 0xde, 0 };
		uint32_t r = ori_doorbell_record(indices[i]);
		uint64_t b = ori_doorbell_value(indices[i], QPN);

		CHECK_EQ(memcmp(&r, record, 4), 0);
		CHECK_EQ(memcmp(&b, bell, 8), 0);
	}
}

TEST(offsets_of_the_formats)
{
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, qpn_ds), 4);
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, signature), 8);
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, dci_stream), 9);
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, fm_ce_se), 11);
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, imm), 12);
	CHECK_EQ(offsetof(struct ori_wqe, u.rdma.raddr), 16);
	CHECK_EQ(offsetof(struct ori_wqe, u.rdma.data), 32);
	CHECK_EQ(offsetof(struct ori_wqe, u.inl.payload.bytes), 36);
	CHECK_EQ(offsetof(struct ori_wqe, u.atomic.operands.compare), 40);
	CHECK_EQ(offsetof(struct ori_wqe, u.atomic.result), 48);
	CHECK_EQ(offsetof(struct ori_wqe, u.wait.index), 24);
	CHECK_EQ(offsetof(struct ori_wqe, u.wait.number), 28);
	CHECK_EQ(offsetof(struct ori_wqe, u.dump), 16);
	CHECK_EQ(offsetof(struct ori_cqe, hw_error), 0x34);
	CHECK_EQ(offsetof(struct ori_cqe, hw_type), 0x35);
	CHECK_EQ(offsetof(struct ori_cqe, vendor_syndrome), 0x36);
	CHECK_EQ(offsetof(struct ori_cqe, syndrome), 0x37);
	CHECK_EQ(offsetof(struct ori_cqe, opcode_qpn), 0x38);
	CHECK_EQ(offsetof(struct ori_cqe, wqe_counter), 0x3c);
	CHECK_EQ(offsetof(struct ori_cqe, signature), 0x3e);
	CHECK_EQ(offsetof(struct ori_cqe, op_own), 0x3f);
}

TEST(byte_order)
{
	CHECK(ori_be16(0x0102) == 0x0201);
	CHECK(ori_be32(0x01020304) == 0x04030201);
	CHECK(ori_be64(0x0102030405060708ull) == 0x0807060504030201ull);
}

/* ---- against the vendor's header ------------------------------------------------------------- */

#ifdef HAVE_MLX5DV

#define FLAGS_OF(flags) ((uint8_t)(MLX5_WQE_CTRL_CQ_UPDATE | (flags)))

static void vendor_raddr(void *at)
{
	struct mlx5_wqe_raddr_seg *r = at;

	r->raddr = htobe64(REMOTE);
	r->rkey = htobe32(RKEY);
	r->reserved = 0;
}

static void vendor_atomic(uint8_t *b, uint64_t compare)
{
	struct mlx5_wqe_atomic_seg *a = (void *)(b + 32);

	vendor_raddr(b + 16);
	a->swap_add = htobe64(0xa1a2a3a4a5a6a7a8ull);
	a->compare = htobe64(compare);
	mlx5dv_set_data_seg((void *)(b + 48), 8, LKEY, LOCAL);
}

static uint8_t vendor_inline(uint8_t *b, uint32_t bytes)
{
	struct mlx5_wqe_inl_data_seg *s = (void *)(b + 32);
	size_t segment = (sizeof(*s) + bytes + 15) / 16;

	vendor_raddr(b + 16);
	s->byte_count = htobe32(bytes | MLX5_INLINE_SEG);
	memcpy(s + 1, value, bytes);
	return (uint8_t)(2 + segment);
}

/* WAIT and its segment are not in the header: 8 bytes reserved, index, number of the CQ. */
static void vendor_wait(uint8_t *b)
{
	uint32_t words[4] = { 0, 0, htobe32(0xfedcba98u), htobe32(CQN) };

	memcpy(b + 16, words, sizeof(words));
}

static void vendor_block(uint8_t *b, enum kind kind, uint64_t index, uint32_t flags)
{
	static const uint8_t opcode[KINDS] = {
		[WRITE] = MLX5_OPCODE_RDMA_WRITE,
		[READ] = MLX5_OPCODE_RDMA_READ,
		[INLINE_1] = MLX5_OPCODE_RDMA_WRITE,
		[INLINE_12] = MLX5_OPCODE_RDMA_WRITE,
		[INLINE_13] = MLX5_OPCODE_RDMA_WRITE,
		[INLINE_28] = MLX5_OPCODE_RDMA_WRITE,
		[FETCH_ADD] = MLX5_OPCODE_ATOMIC_FA,
		[COMPARE_SWAP] = MLX5_OPCODE_ATOMIC_CS,
		[WAIT_CQE] = 0x0f,
		[DUMP] = 0x23,
		[NOP] = MLX5_OPCODE_NOP,
	};
	uint8_t ds = 1;

	if (kind == WRITE || kind == READ) {
		vendor_raddr(b + 16);
		mlx5dv_set_data_seg((void *)(b + 32), 0x40000000u, LKEY, LOCAL);
		ds = 3;
	} else if (inline_bytes[kind]) {
		ds = vendor_inline(b, inline_bytes[kind]);
	} else if (kind == FETCH_ADD || kind == COMPARE_SWAP) {
		vendor_atomic(b, kind == FETCH_ADD ? 0 : 0xb1b2b3b4b5b6b7b8ull);
		ds = 4;
	} else if (kind == WAIT_CQE) {
		vendor_wait(b);
		ds = 2;
	} else if (kind == DUMP) {
		mlx5dv_set_data_seg((void *)(b + 16), 4096, LKEY, LOCAL);
		ds = 2;
	}
	/* The helper leaves the stream of a DCI alone. */
	memset(b, 0, 16);
	mlx5dv_set_ctrl_seg((void *)b, (uint16_t)index, opcode[kind], 0, QPN,
			    FLAGS_OF(has_flags(kind) ? flags : 0), ds, 0, 0);
}

TEST(blocks_are_those_of_mlx5dv)
{
	static const uint32_t flags[] = { 0, ORI_WQE_FENCE, ORI_WQE_STRONG };

	for (enum kind k = 0; k < KINDS; k++)
		for (size_t i = 0; i < NINDICES; i++)
			for (int f = 0; f < 3; f++) {
				_Alignas(64) uint8_t want[64];
				struct ori_wqe got;

				memset(want, 0, sizeof(want));
				memset(&got, 0, sizeof(got));
				vendor_block(want, k, indices[i], flags[f]);
				encode(&got, k, indices[i], flags[f]);
				same_block(&got, want, names[k], indices[i]);
			}
}

TEST(numbers_are_those_of_mlx5dv)
{
	CHECK_EQ(ORI_WQE_BYTES, MLX5_SEND_WQE_BB);
	CHECK_EQ(ORI_WQE_NOP, MLX5_OPCODE_NOP);
	CHECK_EQ(ORI_WQE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE);
	CHECK_EQ(ORI_WQE_RDMA_READ, MLX5_OPCODE_RDMA_READ);
	CHECK_EQ(ORI_WQE_ATOMIC_CS, MLX5_OPCODE_ATOMIC_CS);
	CHECK_EQ(ORI_WQE_ATOMIC_FA, MLX5_OPCODE_ATOMIC_FA);
	CHECK_EQ(ORI_WQE_CQ_UPDATE, MLX5_WQE_CTRL_CQ_UPDATE);
	/* The header's fence is mode 4, with the small fence; mode 2 is the fence alone. */
	CHECK_EQ(ORI_WQE_FENCE, (MLX5_WQE_CTRL_FENCE >> 1));
	CHECK_EQ(ORI_WQE_STRONG, ORI_WQE_FENCE | MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
	CHECK_EQ(ORI_WQE_INLINE_FLAG, (uint32_t)MLX5_INLINE_SEG);
	CHECK_EQ(ORI_CQE_REQ, MLX5_CQE_REQ);
	CHECK_EQ(ORI_CQE_REQ_ERR, MLX5_CQE_REQ_ERR);
	CHECK_EQ(ORI_CQE_INVALID, MLX5_CQE_INVALID);
	CHECK_EQ(MLX5_SND_DBR, 1); /* record[1] is the send queue's */
}

TEST(syndromes_are_those_of_mlx5dv)
{
	CHECK_EQ(ORI_SYNDROME_LOCAL_LENGTH, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	CHECK_EQ(ORI_SYNDROME_LOCAL_QP_OP, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	CHECK_EQ(ORI_SYNDROME_LOCAL_PROT, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	CHECK_EQ(ORI_SYNDROME_FLUSHED, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	CHECK_EQ(ORI_SYNDROME_BAD_RESPONSE, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
	CHECK_EQ(ORI_SYNDROME_LOCAL_ACCESS, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
	CHECK_EQ(ORI_SYNDROME_REMOTE_INVALID, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
	CHECK_EQ(ORI_SYNDROME_REMOTE_ACCESS, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	CHECK_EQ(ORI_SYNDROME_REMOTE_OP, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
	CHECK_EQ(ORI_SYNDROME_RETRY_EXCEEDED, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	CHECK_EQ(ORI_SYNDROME_RNR_EXCEEDED, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
	CHECK_EQ(ORI_SYNDROME_ABORTED, MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);
}

TEST(completions_are_laid_out_as_in_mlx5dv)
{
	CHECK_EQ(sizeof(struct ori_cqe), sizeof(struct mlx5_cqe64));
	CHECK_EQ(offsetof(struct ori_cqe, opcode_qpn), offsetof(struct mlx5_cqe64, sop_drop_qpn));
	CHECK_EQ(offsetof(struct ori_cqe, wqe_counter), offsetof(struct mlx5_cqe64, wqe_counter));
	CHECK_EQ(offsetof(struct ori_cqe, signature), offsetof(struct mlx5_cqe64, signature));
	CHECK_EQ(offsetof(struct ori_cqe, op_own), offsetof(struct mlx5_cqe64, op_own));
	CHECK_EQ(sizeof(struct ori_cqe), sizeof(struct mlx5_err_cqe));
	CHECK_EQ(offsetof(struct ori_cqe, vendor_syndrome),
		 offsetof(struct mlx5_err_cqe, vendor_err_synd));
	CHECK_EQ(offsetof(struct ori_cqe, syndrome), offsetof(struct mlx5_err_cqe, syndrome));
	CHECK_EQ(offsetof(struct ori_cqe, opcode_qpn),
		 offsetof(struct mlx5_err_cqe, s_wqe_opcode_qpn));
	CHECK_EQ(offsetof(struct ori_cqe, wqe_counter), offsetof(struct mlx5_err_cqe, wqe_counter));
	CHECK_EQ(offsetof(struct ori_cqe, op_own), offsetof(struct mlx5_err_cqe, op_own));
}

TEST(segments_are_laid_out_as_in_mlx5dv)
{
	CHECK_EQ(sizeof(struct ori_wqe_ctrl), sizeof(struct mlx5_wqe_ctrl_seg));
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, qpn_ds), offsetof(struct mlx5_wqe_ctrl_seg, qpn_ds));
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, signature),
		 offsetof(struct mlx5_wqe_ctrl_seg, signature));
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, fm_ce_se),
		 offsetof(struct mlx5_wqe_ctrl_seg, fm_ce_se));
	CHECK_EQ(offsetof(struct ori_wqe_ctrl, imm), offsetof(struct mlx5_wqe_ctrl_seg, imm));
	CHECK_EQ(sizeof(struct ori_wqe_raddr), sizeof(struct mlx5_wqe_raddr_seg));
	CHECK_EQ(offsetof(struct ori_wqe_raddr, key), offsetof(struct mlx5_wqe_raddr_seg, rkey));
	CHECK_EQ(sizeof(struct ori_wqe_data), sizeof(struct mlx5_wqe_data_seg));
	CHECK_EQ(offsetof(struct ori_wqe_data, key), offsetof(struct mlx5_wqe_data_seg, lkey));
	CHECK_EQ(offsetof(struct ori_wqe_data, address), offsetof(struct mlx5_wqe_data_seg, addr));
	CHECK_EQ(sizeof(struct ori_wqe_atomic), sizeof(struct mlx5_wqe_atomic_seg));
	CHECK_EQ(offsetof(struct ori_wqe_atomic, compare),
		 offsetof(struct mlx5_wqe_atomic_seg, compare));
	CHECK_EQ(offsetof(struct ori_wqe_inline, bytes), sizeof(struct mlx5_wqe_inl_data_seg));
}

#else

TEST(blocks_are_those_of_mlx5dv)
{
	check_skip("built without infiniband/mlx5dv.h (package libibverbs-dev)");
}

#endif
