/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mlx5_fields.c - the positions of fields in commands (engine/mlx5/ifc.h), worked out a
 * second time.
 *
 * The firmware's interface is published as lists of fields with their widths: mlx5_ifc.h of Linux
 * and of rdma-core.  A position there is the sum of the widths before it.  This file has the same
 * lists, with reserved and unused fields summed up, and adds.  A wrong position in the table, or a
 * wrong width, would be a queue pair with a wrong number, which only a NIC would find.
 */
#include <stdio.h>
#include <string.h>

#include "../check.h"
#include "engine/mlx5/ifc.h"

/* A field with a position in the table, or (name NULL) bits without one. */
struct width {
	const char *name;
	uint32_t bits;
};

/* clang-format off */

#define SKIP(bits) { NULL, bits }
#define F(name, bits) { #name, bits }

/* A line is a word of 32 bits, or several. */

static const struct width path[] = {
	SKIP(0x10), F(QPC_PKEY_INDEX, 16),
	SKIP(8), F(QPC_GRH, 1), SKIP(7), F(QPC_RLID, 16),
	F(QPC_ACK_TIMEOUT, 5), SKIP(3), F(QPC_SGID_INDEX, 8), SKIP(8), F(QPC_HOP_LIMIT, 8),
	SKIP(4), F(QPC_TCLASS, 8), SKIP(20),
	F(QPC_RGID, 128),
	SKIP(8), SKIP(2), F(QPC_DSCP, 6), F(QPC_UDP_SPORT, 16),
	SKIP(1), F(QPC_ETH_PRIO, 3), F(QPC_SL, 4), F(QPC_PORT, 8), F(QPC_RMAC_HIGH, 16),
	F(QPC_RMAC_LOW, 32),
};

static const struct width before_path[] = {
	SKIP(8), F(QPC_ST, 8), SKIP(3), F(QPC_PM_STATE, 2), SKIP(11),
	SKIP(8), F(QPC_PD, 24),
	F(QPC_MTU, 3), F(QPC_LOG_MSG_MAX, 5), SKIP(9), F(QPC_LOG_SQ_SIZE, 4), SKIP(3),
	F(QPC_TS_FORMAT, 2), SKIP(6),
	SKIP(8), F(QPC_UAR_PAGE, 24),
	SKIP(8), F(QPC_USER_INDEX, 24),
	SKIP(8), F(QPC_REMOTE_QPN, 24),
};

static const struct width behind_paths[] = {
	SKIP(8), F(QPC_LOG_SRA_MAX, 3), SKIP(2), F(QPC_RETRY_COUNT, 3), F(QPC_RNR_RETRY, 3),
	SKIP(13),
	SKIP(32),
	SKIP(8), F(QPC_NEXT_SEND_PSN, 24),
	SKIP(8), F(QPC_CQN_SND, 24),
	SKIP(32),
	SKIP(32),
	SKIP(32),
	SKIP(32),
	SKIP(8), F(QPC_LOG_RRA_MAX, 3), SKIP(1), F(QPC_ATOMIC_MODE, 4), F(QPC_REMOTE_READ, 1),
	F(QPC_REMOTE_WRITE, 1), F(QPC_REMOTE_ATOMIC, 1), SKIP(12), F(QPC_CD_MASTER, 1),
	SKIP(3), F(QPC_MIN_RNR_NAK, 5), F(QPC_NEXT_RCV_PSN, 24),
	SKIP(32),
	SKIP(8), F(QPC_CQN_RCV, 24),
	F(QPC_DBR_ADDR, 64),
	SKIP(32),
	SKIP(5), F(QPC_RQ_TYPE, 3), SKIP(24),
	SKIP(32),
	SKIP(32),
	SKIP(32),
	SKIP(32),
	SKIP(32),
	SKIP(16), F(QPC_CS_REQ, 8), F(QPC_CS_RES, 8),
	SKIP(64),
	SKIP(3), F(QPC_DBR_UMEM_VALID, 1), SKIP(0x9c),
	F(QPC_DBR_UMEM_ID, 32),
};

static const struct width key[] = {
	SKIP(17), F(MKC_ATOMIC, 1), F(MKC_REMOTE_WRITE, 1), F(MKC_REMOTE_READ, 1),
	F(MKC_LOCAL_WRITE, 1), F(MKC_LOCAL_READ, 1), F(MKC_ACCESS_MODE, 2), SKIP(8),
	F(MKC_QPN, 24), F(MKC_TAG, 8),
	SKIP(32),
	SKIP(8), F(MKC_PD, 24),
	F(MKC_START, 64),
	F(MKC_BYTES, 64),
	SKIP(32),
	SKIP(128),
	F(MKC_OCTWORDS, 32),
	SKIP(64),
};

/* clang-format on */

static const struct {
	const char *name;
	uint32_t bit, bits;
} table[] = {
#define ROW(name, bit, bits) { #name, bit, bits },
	MLX5_FIELD_LIST(ROW)
#undef ROW
};

#define TABLE (sizeof(table) / sizeof(table[0]))
static int found[TABLE];

/* Walks through a list from bit `at`.  Returns the bit behind it. */
static uint32_t walk(const struct width *list, size_t n, uint32_t at)
{
	for (size_t i = 0; i < n; at += list[i++].bits) {
		size_t row = 0;

		if (!list[i].name)
			continue;
		while (row < TABLE && strcmp(table[row].name, list[i].name))
			row++;
		CHECK(row < TABLE);
		if (row == TABLE)
			continue;
		found[row] = 1;
		if (table[row].bit != at || table[row].bits != list[i].bits)
			printf("%s: 0x%x and %u bits in the table\n", list[i].name, table[row].bit,
			       table[row].bits);
		CHECK_EQ(table[row].bit, at);
		CHECK_EQ(table[row].bits, list[i].bits);
	}
	return at;
}

#define WALK(list, at) walk(list, sizeof(list) / sizeof((list)[0]), at)

/* opcode, uid, reserved, op_mod, object, then what a command has of its own */
static const struct width head[] = {
	F(OPCODE, 16), SKIP(16), SKIP(16), F(OP_MOD, 16), SKIP(8), F(OBJECT, 24), SKIP(32),
};
static const struct width answer[] = { SKIP(32), F(SYNDROME, 32) };

static const struct width behind_context[] = {
	SKIP(64),
	F(WQ_UMEM_ID, 32),
	F(WQ_UMEM_VALID, 1),
	SKIP(31),
};

static const struct width behind_key[] = {
	SKIP(128),      F(MKEY_OCTWORDS_USED, 32), SKIP(0x560), F(KLM_BYTES, 32),
	F(KLM_KEY, 32), F(KLM_ADDRESS, 64),
};

/* The capability groups begin behind the answer's four words. */
static const struct width general[] = { SKIP(128), SKIP(17 * 32 + 12), F(CAP_CORE_DIRECT, 1) };
static const struct width roce[] = { SKIP(128), SKIP(30), F(CAP_ROCE_TS_FORMAT, 2) };

TEST(positions_are_sums_of_widths)
{
	uint32_t at = WALK(head, 0);

	CHECK_EQ(at, 0x80);
	CHECK_EQ(WALK(answer, 0), 0x40);
	/* create_qp and its transitions: opt_param_mask, reserved, context */
	at = WALK(before_path, at + 0x40);
	CHECK_EQ(at, 0xc0 + 0xc0);
	at = WALK(path, at);
	at += 0x160; /* the second path */
	at = WALK(behind_paths, at);
	CHECK_EQ(at, 0xc0 + 0x740);
	at = WALK(behind_context, at);
	CHECK_EQ(at, MLX5_COMMAND_WORDS * 32);
	/* create_mkey */
	at = WALK(key, 0x80);
	CHECK_EQ(at, 0x80 + 0x200);
	at = WALK(behind_key, at);
	CHECK_EQ(at, MLX5_COMMAND_WORDS * 32 + 128);
	WALK(general, 0);
	CHECK_EQ(WALK(roce, 0), 0x80 + 0x20);
	for (size_t row = 0; row < TABLE; row++)
		CHECK(found[row]);
}
