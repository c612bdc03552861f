/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/devx.c - objects made by commands to the device: queue pairs that may wait for
 * another queue's CQ (core-direct), and keys over other keys.
 *
 * Called under the engine's lock, or before any other thread knows the NIC.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "ifc.h"
#include "mlx5.h"

#define UDP_SPORT 0xc000u /* first dynamic port, the source port for RoCE v2 */
#define RNR_TIMER 12u
#define RNR_RETRY 7u
#define ENTRY_BYTES (1ull << 30) /* the length of an entry has 32 bits */

static uint32_t log2_of(uint32_t n)
{
	return n > 1 ? 31u - (uint32_t)__builtin_clz(n) : 0;
}

/* ---- capabilities -------------------------------------------------------------------------- */

static int query(struct mlx5_nic *n, uint32_t group, uint32_t *out)
{
	uint32_t in[4] = { 0 };
	int err;

	memset(out, 0, MLX5_CAP_WORDS * 4);
	mlx5_set(in, MLX5_OPCODE, MLX5_OP_QUERY_HCA_CAP);
	mlx5_set(in, MLX5_OP_MOD, group);
	err = n->b->command(n->v.context, in, sizeof(in), out, MLX5_CAP_WORDS * 4);
	return err > 0 ? err : err ? errno : 0;
}

/*
 * A device whose clock shows real time refuses a queue pair with free-running timestamps, and an
 * old one knows no other format.  A device without RoCE does not answer: it counts cycles.
 */
static uint32_t choose_ts_format(struct mlx5_nic *n, uint32_t *room)
{
	return !query(n, MLX5_CAP_ROCE_NOW, room) && mlx5_get(room, MLX5_CAP_ROCE_TS_FORMAT) ?
		       MLX5_TS_DEFAULT :
		       MLX5_TS_FREE_RUNNING;
}

int mlx5_devx_capabilities(struct mlx5_nic *n, char *why, size_t bytes)
{
	uint32_t *out = calloc(MLX5_CAP_WORDS, 4);
	int err, has;

	if (!out) {
		snprintf(why, bytes, "no memory to query %s", n->v.name);
		return ORIEL_ENOMEM;
	}
	err = query(n, MLX5_CAP_GENERAL_NOW, out);
	has = !err && mlx5_get(out, MLX5_CAP_CORE_DIRECT);
	if (has)
		n->ts_format = choose_ts_format(n, out);
	free(out);
	if (has)
		return 0;
	if (err)
		snprintf(why, bytes,
			 "%s does not report its capabilities (%s): set UCTX_EN=1 with mlxconfig",
			 n->v.name, strerror(err));
	else
		snprintf(why, bytes,
			 "%s has no core-direct (WAIT), which counters need: update its firmware, "
			 "or set "
			 "ORIEL_ENGINE=verbs",
			 n->v.name);
	return MLX5_LACKING;
}

/* ---- queue pairs that may wait ------------------------------------------------------------- */

/* Takes memory for the send queue, followed by one line with the doorbell record. */
static int take_memory(struct mlx5_queue *q, uint32_t depth, char *why, size_t bytes)
{
	struct mlx5_nic *n = q->nic;
	size_t ring = (size_t)depth * ORI_WQE_BYTES, whole = ring + 64;

	q->memory = mlx5_memory_take(whole, n);
	if (q->memory)
		q->umem = n->b->umem_add(n->v.context, q->memory, whole, IBV_ACCESS_LOCAL_WRITE);
	if (!q->umem) {
		snprintf(why, bytes, "%s: queue memory cannot be registered (%s): raise ulimit -l",
			 n->v.name, n->unreached[0] ? n->unreached : strerror(errno));
		return MLX5_LACKING;
	}
	/* uncached: a store leaves the CPU at once */
	q->uar = n->b->uar_add(n->v.context, MLX5DV_UAR_ALLOC_TYPE_NC);
	if (!q->uar)
		q->uar = n->b->uar_add(n->v.context, MLX5DV_UAR_ALLOC_TYPE_BF);
	if (!q->uar) {
		snprintf(why, bytes,
			 "%s has no free doorbell page (%s): lower ORIEL_LANES, or put fewer "
			 "ranks on a NIC",
			 n->v.name, strerror(errno));
		return MLX5_LACKING;
	}
	q->sq = q->memory;
	q->record = (uint32_t *)(void *)(q->sq + ring);
	q->doorbell = q->uar->reg_addr;
	q->depth = depth;
	return mlx5_doorbell_map(n, q->uar->reg_addr, why, bytes);
}

int mlx5_devx_queue_make(struct mlx5_queue *q, uint32_t depth, char *why, size_t bytes)
{
	struct mlx5_nic *n = q->nic;
	uint32_t in[MLX5_COMMAND_WORDS] = { 0 }, out[MLX5_ANSWER_WORDS] = { 0 };
	int err = mlx5_cq_make(q, depth, why, bytes);

	if (!err)
		err = take_memory(q, depth, why, bytes);
	if (err)
		return err;
	mlx5_set(in, MLX5_OPCODE, MLX5_OP_CREATE_QP);
	mlx5_set(in, MLX5_QPC_ST, MLX5_ST_RC);
	mlx5_set(in, MLX5_QPC_PM_STATE, MLX5_PM_MIGRATED);
	mlx5_set(in, MLX5_QPC_PD, n->pdn);
	mlx5_set(in, MLX5_QPC_TS_FORMAT, n->ts_format);
	mlx5_set(in, MLX5_QPC_UAR_PAGE, q->uar->page_id);
	mlx5_set(in, MLX5_QPC_USER_INDEX, 0xffffff);
	mlx5_set(in, MLX5_QPC_CQN_SND, q->cqn);
	mlx5_set(in, MLX5_QPC_CQN_RCV, q->cqn);
	mlx5_set(in, MLX5_QPC_LOG_SQ_SIZE, log2_of(depth));
	mlx5_set(in, MLX5_QPC_RQ_TYPE, MLX5_RQ_NONE);
	mlx5_set(in, MLX5_QPC_CS_REQ, 0);
	mlx5_set(in, MLX5_QPC_CS_RES, 0);
	mlx5_set(in, MLX5_QPC_CD_MASTER, 1);
	mlx5_set(in, MLX5_WQ_UMEM_ID, q->umem->umem_id);
	mlx5_set(in, MLX5_WQ_UMEM_VALID, 1);
	mlx5_set(in, MLX5_QPC_DBR_UMEM_ID, q->umem->umem_id);
	mlx5_set(in, MLX5_QPC_DBR_UMEM_VALID, 1);
	mlx5_set64(in, MLX5_QPC_DBR_ADDR, (uint64_t)((uint8_t *)q->record - q->sq));
	q->object = n->b->object_create(n->v.context, in, sizeof(in), out, sizeof(out));
	if (!q->object) {
		snprintf(why, bytes,
			 "%s cannot make a core-direct queue pair (%s, syndrome 0x%x): update "
			 "its firmware, or set ORIEL_ENGINE=verbs",
			 n->v.name, strerror(errno), mlx5_get(out, MLX5_SYNDROME));
		return MLX5_LACKING;
	}
	q->qpn = mlx5_get(out, MLX5_OBJECT);
	return 0;
}

static int modify(struct mlx5_queue *q, uint32_t op, uint32_t in[MLX5_COMMAND_WORDS])
{
	uint32_t out[MLX5_ANSWER_WORDS] = { 0 };

	mlx5_set(in, MLX5_OPCODE, op);
	mlx5_set(in, MLX5_OBJECT, q->qpn);
	mlx5_set(in, MLX5_QPC_PM_STATE, MLX5_PM_MIGRATED);
	if (!q->nic->b->object_modify(q->object, in, MLX5_COMMAND_WORDS * 4, out, sizeof(out)))
		return 0;
	return ori_fail_errno(errno,
			      "%s: queue pair 0x%x cannot change state (0x%x, syndrome 0x%x)",
			      q->nic->v.name, q->qpn, op, mlx5_get(out, MLX5_SYNDROME));
}

/* libibverbs finds the Ethernet address of a GID; its address handle has it. */
static int find_mac(struct mlx5_nic *n, struct ibv_ah_attr *attr, uint8_t mac[6])
{
	struct mlx5dv_ah out = { 0 };
	struct mlx5dv_obj obj = { .ah = { .out = &out } };
	int err;

	obj.ah.in = n->b->ah_create(n->v.pd, attr);
	if (!obj.ah.in)
		return ori_fail_errno(errno, "%s: no Ethernet address for a GID", n->v.name);
	err = n->b->init_obj(&obj, MLX5DV_OBJ_AH);
	if (!err)
		memcpy(mac, out.av->rmac, 6);
	n->b->ah_destroy(obj.ah.in);
	return err ? ori_fail(ORIEL_EUNSUPPORTED, "%s: libmlx5 shows no address handles",
			      n->v.name) :
		     0;
}

static int set_path(struct mlx5_queue *q, const struct verbs_address *to, uint32_t *in)
{
	const struct verbs_fabric *f = &q->nic->v;
	struct ibv_ah_attr attr = { 0 };
	uint8_t mac[6] = { 0 };

	verbs_fill_address(f, to, &attr);
	mlx5_set(in, MLX5_QPC_PORT, f->port);
	mlx5_set(in, MLX5_QPC_PKEY_INDEX, f->settings.pkey_index);
	if (attr.is_global) {
		mlx5_set(in, MLX5_QPC_SGID_INDEX, attr.grh.sgid_index);
		mlx5_set(in, MLX5_QPC_HOP_LIMIT, attr.grh.hop_limit);
		mlx5_set(in, MLX5_QPC_TCLASS, attr.grh.traffic_class);
		memcpy(in + ((uint32_t)MLX5_QPC_RGID >> 8) / 32, attr.grh.dgid.raw, 16);
	}
	if (f->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET) {
		mlx5_set(in, MLX5_QPC_GRH, attr.is_global);
		mlx5_set(in, MLX5_QPC_RLID, attr.dlid);
		mlx5_set(in, MLX5_QPC_SL, attr.sl);
		return 0;
	}
	/* No kernel is involved, so the fields that it would fill for RoCE are filled here. */
	if (find_mac(q->nic, &attr, mac))
		return ORIEL_ESYSTEM;
	mlx5_set(in, MLX5_QPC_RMAC_HIGH, (uint32_t)mac[0] << 8 | mac[1]);
	mlx5_set(in, MLX5_QPC_RMAC_LOW,
		 (uint32_t)mac[2] << 24 | (uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 | mac[5]);
	mlx5_set(in, MLX5_QPC_ETH_PRIO, attr.sl & 7u);
	mlx5_set(in, MLX5_QPC_DSCP, attr.grh.traffic_class >> 2);
	if (f->gid.type == VERBS_GID_ROCE_V2)
		mlx5_set(in, MLX5_QPC_UDP_SPORT, UDP_SPORT);
	return 0;
}

int mlx5_devx_queue_connect(struct mlx5_queue *q, const struct verbs_address *to, uint32_t number)
{
	const struct verbs_fabric *f = &q->nic->v;
	uint32_t init[MLX5_COMMAND_WORDS] = { 0 }, rtr[MLX5_COMMAND_WORDS] = { 0 };
	uint32_t rts[MLX5_COMMAND_WORDS] = { 0 };
	uint32_t reads = (uint32_t)f->attr.max_qp_init_rd_atom;
	int err;

	mlx5_set(init, MLX5_QPC_PORT, f->port);
	mlx5_set(init, MLX5_QPC_PKEY_INDEX, f->settings.pkey_index);
	mlx5_set(init, MLX5_QPC_REMOTE_READ, 1);
	mlx5_set(init, MLX5_QPC_REMOTE_WRITE, 1);
	mlx5_set(init, MLX5_QPC_REMOTE_ATOMIC, 1);
	mlx5_set(init, MLX5_QPC_ATOMIC_MODE, MLX5_ATOMIC_UP_TO_8);
	err = modify(q, MLX5_OP_RST2INIT_QP, init);
	if (err)
		return err;
	mlx5_set(rtr, MLX5_QPC_MTU, f->settings.mtu < to->mtu ? f->settings.mtu : to->mtu);
	mlx5_set(rtr, MLX5_QPC_LOG_MSG_MAX, 30);
	mlx5_set(rtr, MLX5_QPC_REMOTE_QPN, number);
	mlx5_set(rtr, MLX5_QPC_NEXT_RCV_PSN, verbs_first_psn(number, q->qpn));
	mlx5_set(rtr, MLX5_QPC_LOG_RRA_MAX, log2_of((uint32_t)f->attr.max_qp_rd_atom));
	mlx5_set(rtr, MLX5_QPC_MIN_RNR_NAK, RNR_TIMER);
	err = set_path(q, to, rtr);
	if (!err)
		err = modify(q, MLX5_OP_INIT2RTR_QP, rtr);
	if (err)
		return err;
	mlx5_set(rts, MLX5_QPC_NEXT_SEND_PSN, verbs_first_psn(q->qpn, number));
	mlx5_set(rts, MLX5_QPC_LOG_SRA_MAX, log2_of(reads < to->reads ? reads : to->reads));
	mlx5_set(rts, MLX5_QPC_RETRY_COUNT, f->settings.retry_count);
	mlx5_set(rts, MLX5_QPC_RNR_RETRY, RNR_RETRY);
	mlx5_set(rts, MLX5_QPC_ACK_TIMEOUT, f->settings.timeout);
	return modify(q, MLX5_OP_RTR2RTS_QP, rts);
}

/* ---- keys over keys ------------------------------------------------------------------------ */

static void set_entries(uint32_t *in, uint64_t entries, uint32_t key, uint64_t address,
			uint64_t bytes)
{
	for (uint64_t i = 0; i < entries; i++, in += 4) {
		uint64_t part = bytes < ENTRY_BYTES ? bytes : ENTRY_BYTES;

		mlx5_set(in, MLX5_KLM_BYTES, (uint32_t)part);
		mlx5_set(in, MLX5_KLM_KEY, key);
		mlx5_set64(in, MLX5_KLM_ADDRESS, address);
		address += part;
		bytes -= part;
	}
}

struct mlx5dv_devx_obj *mlx5_devx_key(struct mlx5_nic *n, uint32_t key, uint64_t address,
				      uint64_t iova, uint64_t bytes, int remote, uint32_t *out_key)
{
	uint64_t entries = (bytes + ENTRY_BYTES - 1) / ENTRY_BYTES, room = (entries + 3) & ~3ull;
	size_t words = MLX5_COMMAND_WORDS + 4 * room;
	uint32_t *in = calloc(words, 4), out[MLX5_ANSWER_WORDS] = { 0 };
	struct mlx5dv_devx_obj *object;

	if (!in) {
		errno = ENOMEM;
		return NULL;
	}
	mlx5_set(in, MLX5_OPCODE, MLX5_OP_CREATE_MKEY);
	mlx5_set(in, MLX5_MKC_ACCESS_MODE, MLX5_ACCESS_KLM);
	mlx5_set(in, MLX5_MKC_LOCAL_READ, 1);
	mlx5_set(in, MLX5_MKC_LOCAL_WRITE, 1);
	mlx5_set(in, MLX5_MKC_REMOTE_READ, remote != 0);
	mlx5_set(in, MLX5_MKC_REMOTE_WRITE, remote != 0);
	mlx5_set(in, MLX5_MKC_ATOMIC, remote != 0);
	mlx5_set(in, MLX5_MKC_QPN, 0xffffff);
	mlx5_set(in, MLX5_MKC_TAG, 0);
	mlx5_set(in, MLX5_MKC_PD, n->pdn);
	mlx5_set64(in, MLX5_MKC_START, iova);
	mlx5_set64(in, MLX5_MKC_BYTES, bytes);
	mlx5_set(in, MLX5_MKC_OCTWORDS, (uint32_t)room);
	mlx5_set(in, MLX5_MKEY_OCTWORDS_USED, (uint32_t)room);
	set_entries(in, entries, key, address, bytes);
	object = n->b->object_create(n->v.context, in, words * 4, out, sizeof(out));
	free(in);
	if (object)
		*out_key = mlx5_get(out, MLX5_OBJECT) << 8;
	return object;
}
