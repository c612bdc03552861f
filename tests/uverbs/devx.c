/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/devx.c - commands to the device itself: capabilities, queue pairs, memory keys.
 *
 * A command has the bytes of the firmware's interface (engine/mlx5/ifc.h).  A refused one gets a
 * status and a syndrome in its answer, and EREMOTEIO.  Each check has a syndrome of its own, which
 * the engine prints.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mlx5/ifc.h"
#include "uverbs.h"

#define CAP_GENERAL 0u
#define CAP_ROCE 4u
#define STATUS_BAD_PARAMETER 3u
#define FIRST_UDP_SPORT 0xc000u

enum syndrome {
	SYN_COMMAND = 0x5eb001,
	SYN_CQ,
	SYN_MEMORY,
	SYN_PAGE,
	SYN_PD,
	SYN_SIZE,
	SYN_TRANSPORT,
	SYN_STATE,
	SYN_NUMBER,
	SYN_PATH,
	SYN_WIRE,
	SYN_KEY,
	SYN_TIMESTAMP,
};

struct command {
	const struct uv_call *call;
	const uint32_t *in;
	uint32_t *out;
	size_t in_bytes, out_bytes;
};

static struct command command_of(const struct uv_call *call, uint16_t in, uint16_t out)
{
	struct command c = { .call = call };

	c.in = uv_buffer(call, in, &c.in_bytes);
	c.out = uv_buffer(call, out, &c.out_bytes);
	return c;
}

static int is_whole(const struct command *c, size_t in_bytes)
{
	return c->in && c->out && c->in_bytes >= in_bytes && c->out_bytes >= MLX5_ANSWER_WORDS * 4;
}

static int refuse(const struct command *c, enum syndrome syndrome)
{
	c->out[0] = ori_be32(STATUS_BAD_PARAMETER << 24);
	mlx5_set(c->out, MLX5_SYNDROME, syndrome);
	return EREMOTEIO;
}

/*
 * UVERBS_CLOCK=real: the device's clock shows real time, as REAL_TIME_CLOCK_ENABLE of mlxconfig
 * makes it.
 */
static int clock_is_real(void)
{
	const char *clock = getenv("UVERBS_CLOCK");

	return clock && !strcmp(clock, "real");
}

/* ---- capabilities ---------------------------------------------------------------------------- */

int uv_devx_other(const struct uv_call *call)
{
	struct command c = command_of(call, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN,
				      MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT);

	if (!is_whole(&c, 16))
		return EINVAL;
	memset(c.out, 0, c.out_bytes);
	if (mlx5_get(c.in, MLX5_OPCODE) != MLX5_OP_QUERY_HCA_CAP ||
	    c.out_bytes < MLX5_CAP_WORDS * 4)
		return refuse(&c, SYN_COMMAND);
	if (mlx5_get(c.in, MLX5_OP_MOD) >> 1 == CAP_GENERAL)
		mlx5_set(c.out, MLX5_CAP_CORE_DIRECT, 1);
	if (mlx5_get(c.in, MLX5_OP_MOD) >> 1 == CAP_ROCE)
		mlx5_set(c.out, MLX5_CAP_ROCE_TS_FORMAT, (uint32_t)clock_is_real());
	return 0;
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static struct uv_cq *cq_of(const struct uv_file *file, uint32_t cqn)
{
	struct uv_object *at = file->objects[UV_CQ];

	while (at && ((struct uv_cq *)(void *)at)->cqn != cqn)
		at = at->next;
	return (struct uv_cq *)(void *)at;
}

static int pd_exists(const struct uv_file *file, uint32_t number)
{
	struct uv_object *at = file->objects[UV_PD];

	while (at && ((struct uv_pd *)(void *)at)->number != number)
		at = at->next;
	return at != NULL;
}

static int make_queue(const struct command *c, struct uv_qp *qp)
{
	const struct uv_file *file = c->call->file;
	struct uv_cq *cq = cq_of(file, mlx5_get(c->in, MLX5_QPC_CQN_SND));
	struct uv_umem *memory = uv_find(file, UV_UMEM, mlx5_get(c->in, MLX5_WQ_UMEM_ID));
	uint64_t record = mlx5_get64(c->in, MLX5_QPC_DBR_ADDR);
	struct uv_send_queue send = { .blocks = 1u << mlx5_get(c->in, MLX5_QPC_LOG_SQ_SIZE),
				      .page = mlx5_get(c->in, MLX5_QPC_UAR_PAGE),
				      .pd = mlx5_get(c->in, MLX5_QPC_PD),
				      .core_direct = (int)mlx5_get(c->in, MLX5_QPC_CD_MASTER) };
	uint64_t ring = (uint64_t)send.blocks * 64;

	if (!cq || mlx5_get(c->in, MLX5_QPC_CQN_RCV) != cq->cqn)
		return refuse(c, SYN_CQ);
	if (mlx5_get(c->in, MLX5_QPC_ST) != MLX5_ST_RC ||
	    mlx5_get(c->in, MLX5_QPC_RQ_TYPE) != MLX5_RQ_NONE)
		return refuse(c, SYN_TRANSPORT);
	if (!memory || !mlx5_get(c->in, MLX5_WQ_UMEM_VALID) ||
	    !mlx5_get(c->in, MLX5_QPC_DBR_UMEM_VALID) ||
	    mlx5_get(c->in, MLX5_QPC_DBR_UMEM_ID) != memory->base.handle)
		return refuse(c, SYN_MEMORY);
	if (send.blocks != cq->depth || record < ring || record + 8 > memory->bytes)
		return refuse(c, SYN_SIZE);
	if (clock_is_real() != (mlx5_get(c->in, MLX5_QPC_TS_FORMAT) != MLX5_TS_FREE_RUNNING))
		return refuse(c, SYN_TIMESTAMP);
	if (!uv_uar_of_page(file, send.page))
		return refuse(c, SYN_PAGE);
	if (!pd_exists(file, send.pd))
		return refuse(c, SYN_PD);
	send.sq = memory->address;
	send.record = (const uint32_t *)(const void *)(memory->address + record);
	qp->file = c->call->file;
	qp->by_command = 1;
	if (uv_qp_attach(qp, cq, &send))
		return refuse(c, SYN_MEMORY);
	mlx5_set(c->out, MLX5_OBJECT, cq->qpn);
	return 0;
}

/* What the kernel fills in for libibverbs, a command brings itself. */
static int check_path(const struct command *c, const struct uv_qp *qp)
{
	const uint8_t *to = (const uint8_t *)(c->in + ((uint32_t)MLX5_QPC_RGID >> 8) / 32);
	uint8_t own[16], mac[6];

	(void)uv_gid(qp->file->number, UV_GID_INDEX, own);
	uv_mac(own, mac);
	return mlx5_get(c->in, MLX5_QPC_PORT) == 1 && !memcmp(to, own, 16) &&
	       mlx5_get(c->in, MLX5_QPC_SGID_INDEX) == UV_GID_INDEX &&
	       mlx5_get(c->in, MLX5_QPC_RMAC_HIGH) == ((uint32_t)mac[0] << 8 | mac[1]) &&
	       mlx5_get(c->in, MLX5_QPC_RMAC_LOW) ==
		       ((uint32_t)mac[2] << 24 | (uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 |
			mac[5]) &&
	       mlx5_get(c->in, MLX5_QPC_UDP_SPORT) >= FIRST_UDP_SPORT &&
	       mlx5_get(c->in, MLX5_QPC_HOP_LIMIT) && mlx5_get(c->in, MLX5_QPC_MTU) &&
	       mlx5_get(c->in, MLX5_QPC_LOG_MSG_MAX);
}

int uv_devx_modify(const struct uv_call *call)
{
	struct command c = command_of(call, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
				      MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT);
	uint64_t handle = uv_get_value(call, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE);
	struct uv_command_object *o = uv_find(call->file, UV_OBJECT, handle);
	uint32_t op;

	if (!o || !o->qp || !is_whole(&c, MLX5_COMMAND_WORDS * 4))
		return EINVAL;
	op = mlx5_get(c.in, MLX5_OPCODE);
	if (mlx5_get(c.in, MLX5_OBJECT) != o->qp->cq->qpn)
		return refuse(&c, SYN_NUMBER);
	if (op != MLX5_OP_RST2INIT_QP + (uint32_t)o->qp->state || op > MLX5_OP_RTR2RTS_QP)
		return refuse(&c, SYN_STATE);
	if (op == MLX5_OP_RST2INIT_QP && !mlx5_get(c.in, MLX5_QPC_REMOTE_ATOMIC))
		return refuse(&c, SYN_TRANSPORT);
	if (op == MLX5_OP_INIT2RTR_QP) {
		if (!check_path(&c, o->qp))
			return refuse(&c, SYN_PATH);
		o->qp->dest = mlx5_get(c.in, MLX5_QPC_REMOTE_QPN);
	}
	if (op == MLX5_OP_RTR2RTS_QP && uv_qp_ready(o->qp))
		return refuse(&c, SYN_WIRE);
	o->qp->state++;
	return 0;
}

/* ---- memory keys ----------------------------------------------------------------------------- */

/*
 * A key over other keys.  The software NIC has none, so the entries must follow each other in
 * memory; the first says where.  Keys of commands have tag 0, those of the software NIC have not.
 */
static int make_key(const struct command *c, struct uv_mr *mr)
{
	struct soft_nic *nic = c->call->file->device->nic;
	uint32_t remote = mlx5_get(c->in, MLX5_MKC_REMOTE_WRITE);
	uint64_t entries = mlx5_get(c->in, MLX5_MKEY_OCTWORDS_USED), left;
	struct soft_mr_attr attr = {
		.iova = mlx5_get64(c->in, MLX5_MKC_START),
		.bytes = mlx5_get64(c->in, MLX5_MKC_BYTES),
		.access = SOFT_LOCAL_WRITE |
			  (remote ? SOFT_REMOTE_WRITE | SOFT_REMOTE_READ | SOFT_REMOTE_ATOMIC : 0),
		.pd = mlx5_get(c->in, MLX5_MKC_PD)
	};
	uint64_t next = 0;

	left = attr.bytes;
	if (mlx5_get(c->in, MLX5_MKC_ACCESS_MODE) != MLX5_ACCESS_KLM ||
	    mlx5_get(c->in, MLX5_MKC_QPN) != 0xffffff || !pd_exists(c->call->file, attr.pd) ||
	    c->in_bytes < MLX5_COMMAND_WORDS * 4 + entries * 16)
		return refuse(c, SYN_KEY);
	for (uint64_t i = 0; i < entries && left; i++) {
		const uint32_t *entry = c->in + 4 * i;
		uint64_t bytes = mlx5_get(entry, MLX5_KLM_BYTES);
		uint64_t at = mlx5_get64(entry, MLX5_KLM_ADDRESS);

		if (!mlx5_get(entry, MLX5_KLM_KEY) || !bytes || bytes > left || (i && at != next))
			return refuse(c, SYN_KEY);
		if (!i)
			attr.base = (void *)(uintptr_t)at;
		next = at + bytes;
		left -= bytes;
	}
	if (!attr.bytes) { /* filled later, by a WQE: until then nobody may use it */
		attr.base = mr;
		attr.bytes = 1;
		attr.access = 0;
	}
	if (left || soft_mr_create(nic, &attr, &mr->key))
		return refuse(c, SYN_KEY);
	mr->key &= ~0xffu;
	mr->device = c->call->file->device;
	nic->mrs[mr->key >> 8].tag = 0;
	mlx5_set(c->out, MLX5_OBJECT, mr->key >> 8);
	return 0;
}

/* ---- objects --------------------------------------------------------------------------------- */

static int make(const struct command *c, struct uv_command_object *o)
{
	uint32_t op = mlx5_get(c->in, MLX5_OPCODE);
	int err = ENOMEM;

	if (op == MLX5_OP_CREATE_QP) {
		o->qp = calloc(1, sizeof(*o->qp));
		err = o->qp ? make_queue(c, o->qp) : err;
	} else if (op == MLX5_OP_CREATE_MKEY) {
		o->mr = calloc(1, sizeof(*o->mr));
		err = o->mr ? make_key(c, o->mr) : err;
	} else {
		err = refuse(c, SYN_COMMAND);
	}
	if (!err)
		return 0;
	free(o->qp);
	free(o->mr);
	return err;
}

int uv_devx_create(const struct uv_call *call)
{
	struct command c = command_of(call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
				      MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT);
	struct uv_command_object *o;
	int err;

	if (!is_whole(&c, MLX5_COMMAND_WORDS * 4))
		return EINVAL;
	o = calloc(1, sizeof(*o));
	err = o ? make(&c, o) : ENOMEM;
	if (err) {
		free(o);
		return err;
	}
	uv_put_handle(call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE,
		      uv_add(call->file, UV_OBJECT, &o->base));
	return 0;
}

void uv_devx_drop(struct uv_command_object *o)
{
	if (o->qp)
		uv_qp_drop(o->qp);
	if (o->mr)
		uv_mr_drop(o->mr);
	free(o);
}

int uv_devx_destroy(const struct uv_call *call)
{
	uint64_t handle = uv_get_value(call, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE);
	struct uv_command_object *o = uv_find(call->file, UV_OBJECT, handle);

	if (!o)
		return ENOENT;
	uv_forget(call->file, UV_OBJECT, &o->base);
	uv_devx_drop(o);
	return 0;
}
