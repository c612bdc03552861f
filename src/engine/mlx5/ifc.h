/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/ifc.h - the positions of fields in the device's commands: only those that the engine
 * sets or reads.
 *
 * A command is an array of big-endian 32-bit words.  A field has a first bit, counted from the
 * highest bit of word 0, and a width.  A field wider than 32 bits is two whole words.
 *
 * Source: the lists of fields in mlx5_ifc.h of Linux and of rdma-core 44 (structs cmd_hca_cap,
 * roce_cap, create_qp_in, qpc, ads, create_mkey_in, mkc; klm of Linux only).  mlx5_fields.c adds up
 * the widths of those lists and compares.
 */
#ifndef ORI_MLX5_IFC_H
#define ORI_MLX5_IFC_H

#include <stdint.h>

#include <oriel/device/wqe.h>

/* ---- commands ------------------------------------------------------------------------------ */

#define MLX5_OP_QUERY_HCA_CAP 0x100u
#define MLX5_OP_CREATE_MKEY 0x200u
#define MLX5_OP_CREATE_QP 0x500u
#define MLX5_OP_RST2INIT_QP 0x502u
#define MLX5_OP_INIT2RTR_QP 0x503u
#define MLX5_OP_RTR2RTS_QP 0x504u

#define MLX5_COMMAND_WORDS 68u     /* create_qp, its transitions, create_mkey without entries */
#define MLX5_MKEY_WORDS (68u + 4u) /* with one entry, padded to 16 bytes */
#define MLX5_ANSWER_WORDS 4u
#define MLX5_CAP_WORDS (4u + 1024u)

/* X(name, first bit, bits) */
#define MLX5_FIELD_LIST(X)                                                                         \
	X(OPCODE, 0x0, 16)                                                                         \
	X(OP_MOD, 0x30, 16)                                                                        \
	X(OBJECT, 0x48, 24)   /* qpn, in and out; index of a memory key, out */                    \
	X(SYNDROME, 0x20, 32) /* out */                                                            \
	X(CAP_CORE_DIRECT, 0x80 + 0x22c, 1)                                                        \
	X(CAP_ROCE_TS_FORMAT, 0x80 + 0x1e, 2)                                                      \
	X(WQ_UMEM_ID, 0x840, 32)                                                                   \
	X(WQ_UMEM_VALID, 0x860, 1)                                                                 \
	/* queue pair context, at 0xc0 of the commands that carry one */                           \
	X(QPC_ST, 0xc0 + 0x8, 8)                                                                   \
	X(QPC_PM_STATE, 0xc0 + 0x13, 2)                                                            \
	X(QPC_PD, 0xc0 + 0x28, 24)                                                                 \
	X(QPC_MTU, 0xc0 + 0x40, 3)                                                                 \
	X(QPC_LOG_MSG_MAX, 0xc0 + 0x43, 5)                                                         \
	X(QPC_LOG_SQ_SIZE, 0xc0 + 0x51, 4)                                                         \
	X(QPC_TS_FORMAT, 0xc0 + 0x58, 2)                                                           \
	X(QPC_UAR_PAGE, 0xc0 + 0x68, 24)                                                           \
	X(QPC_USER_INDEX, 0xc0 + 0x88, 24)                                                         \
	X(QPC_REMOTE_QPN, 0xc0 + 0xa8, 24)                                                         \
	X(QPC_PKEY_INDEX, 0xc0 + 0xd0, 16)                                                         \
	X(QPC_GRH, 0xc0 + 0xe8, 1)                                                                 \
	X(QPC_RLID, 0xc0 + 0xf0, 16)                                                               \
	X(QPC_ACK_TIMEOUT, 0xc0 + 0x100, 5)                                                        \
	X(QPC_SGID_INDEX, 0xc0 + 0x108, 8)                                                         \
	X(QPC_HOP_LIMIT, 0xc0 + 0x118, 8)                                                          \
	X(QPC_TCLASS, 0xc0 + 0x124, 8)                                                             \
	X(QPC_RGID, 0xc0 + 0x140, 128)                                                             \
	X(QPC_DSCP, 0xc0 + 0x1ca, 6)                                                               \
	X(QPC_UDP_SPORT, 0xc0 + 0x1d0, 16)                                                         \
	X(QPC_ETH_PRIO, 0xc0 + 0x1e1, 3)                                                           \
	X(QPC_SL, 0xc0 + 0x1e4, 4)                                                                 \
	X(QPC_PORT, 0xc0 + 0x1e8, 8)                                                               \
	X(QPC_RMAC_HIGH, 0xc0 + 0x1f0, 16)                                                         \
	X(QPC_RMAC_LOW, 0xc0 + 0x200, 32)                                                          \
	X(QPC_LOG_SRA_MAX, 0xc0 + 0x388, 3)                                                        \
	X(QPC_RETRY_COUNT, 0xc0 + 0x38d, 3)                                                        \
	X(QPC_RNR_RETRY, 0xc0 + 0x390, 3)                                                          \
	X(QPC_NEXT_SEND_PSN, 0xc0 + 0x3c8, 24)                                                     \
	X(QPC_CQN_SND, 0xc0 + 0x3e8, 24)                                                           \
	X(QPC_LOG_RRA_MAX, 0xc0 + 0x488, 3)                                                        \
	X(QPC_ATOMIC_MODE, 0xc0 + 0x48c, 4)                                                        \
	X(QPC_REMOTE_READ, 0xc0 + 0x490, 1)                                                        \
	X(QPC_REMOTE_WRITE, 0xc0 + 0x491, 1)                                                       \
	X(QPC_REMOTE_ATOMIC, 0xc0 + 0x492, 1)                                                      \
	X(QPC_CD_MASTER, 0xc0 + 0x49f, 1)                                                          \
	X(QPC_MIN_RNR_NAK, 0xc0 + 0x4a3, 5)                                                        \
	X(QPC_NEXT_RCV_PSN, 0xc0 + 0x4a8, 24)                                                      \
	X(QPC_CQN_RCV, 0xc0 + 0x4e8, 24)                                                           \
	X(QPC_DBR_ADDR, 0xc0 + 0x500, 64)                                                          \
	X(QPC_RQ_TYPE, 0xc0 + 0x565, 3)                                                            \
	X(QPC_CS_REQ, 0xc0 + 0x630, 8)                                                             \
	X(QPC_CS_RES, 0xc0 + 0x638, 8)                                                             \
	X(QPC_DBR_UMEM_VALID, 0xc0 + 0x683, 1)                                                     \
	X(QPC_DBR_UMEM_ID, 0xc0 + 0x720, 32)                                                       \
	/* memory key context, at 0x80 of create_mkey */                                           \
	X(MKC_ATOMIC, 0x80 + 0x11, 1)                                                              \
	X(MKC_REMOTE_WRITE, 0x80 + 0x12, 1)                                                        \
	X(MKC_REMOTE_READ, 0x80 + 0x13, 1)                                                         \
	X(MKC_LOCAL_WRITE, 0x80 + 0x14, 1)                                                         \
	X(MKC_LOCAL_READ, 0x80 + 0x15, 1)                                                          \
	X(MKC_ACCESS_MODE, 0x80 + 0x16, 2)                                                         \
	X(MKC_QPN, 0x80 + 0x20, 24)                                                                \
	X(MKC_TAG, 0x80 + 0x38, 8)                                                                 \
	X(MKC_PD, 0x80 + 0x68, 24)                                                                 \
	X(MKC_START, 0x80 + 0x80, 64)                                                              \
	X(MKC_BYTES, 0x80 + 0xc0, 64)                                                              \
	X(MKC_OCTWORDS, 0x80 + 0x1a0, 32)                                                          \
	X(MKEY_OCTWORDS_USED, 0x300, 32)                                                           \
	X(KLM_BYTES, 0x880, 32)                                                                    \
	X(KLM_KEY, 0x8a0, 32)                                                                      \
	X(KLM_ADDRESS, 0x8c0, 64)

enum mlx5_field {
#define MLX5_FIELD_ENUM(name, bit, bits) MLX5_##name = (bit) << 8 | (bits),
	MLX5_FIELD_LIST(MLX5_FIELD_ENUM)
#undef MLX5_FIELD_ENUM
};

/* ---- values -------------------------------------------------------------------------------- */

#define MLX5_ST_RC 0u
#define MLX5_PM_MIGRATED 3u
#define MLX5_RQ_NONE 3u        /* no receive queue */
#define MLX5_ATOMIC_UP_TO_8 3u /* atomics of up to 8 bytes */
#define MLX5_ACCESS_KLM 2u
/* groups of capabilities: the current ones, not the possible maximum */
#define MLX5_CAP_GENERAL_NOW 1u
#define MLX5_CAP_ROCE_NOW 9u
#define MLX5_TS_FREE_RUNNING 0u /* timestamps of CQEs count cycles */
#define MLX5_TS_DEFAULT 1u      /* as the device is set up */

static inline uint32_t mlx5_get(const uint32_t *words, enum mlx5_field field)
{
	uint32_t bit = (uint32_t)field >> 8, bits = (uint32_t)field & 0xff;

	return (uint32_t)(ori_be32(words[bit / 32]) >> (32 - bits - bit % 32)) &
	       (uint32_t)((1ull << bits) - 1);
}

static inline void mlx5_set(uint32_t *words, enum mlx5_field field, uint32_t value)
{
	uint32_t bit = (uint32_t)field >> 8, bits = (uint32_t)field & 0xff;
	uint32_t shift = 32 - bits - bit % 32, mask = (uint32_t)((1ull << bits) - 1) << shift;
	uint32_t *w = &words[bit / 32];

	*w = ori_be32((ori_be32(*w) & ~mask) | (value << shift & mask));
}

static inline void mlx5_set64(uint32_t *words, enum mlx5_field field, uint64_t value)
{
	uint32_t at = ((uint32_t)field >> 8) / 32;

	words[at] = ori_be32((uint32_t)(value >> 32));
	words[at + 1] = ori_be32((uint32_t)value);
}

static inline uint64_t mlx5_get64(const uint32_t *words, enum mlx5_field field)
{
	uint32_t at = ((uint32_t)field >> 8) / 32;

	return (uint64_t)ori_be32(words[at]) << 32 | ori_be32(words[at + 1]);
}

#endif
