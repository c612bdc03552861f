/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mlx5_stub/direct.c - the part of libmlx5 that the stub has: queues with visible memory, and
 * objects created by command.
 *
 * MLX5_STUB_LACKS names one thing that is missing, as a NIC, a driver or a kernel may lack it:
 * mlx5, devx, capabilities, core_direct, channel, cq, qp, memory, doorbell, umem, uar, object.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mlx5/ifc.h"
#include "stub.h"

#define BLOCKS 4u /* of the send queue that a work request takes, as libmlx5 reckons */

struct stub_umem {
	struct mlx5dv_devx_umem umem; /* first */
	uint8_t *base;
	size_t bytes;
	struct stub_umem *next;
};

struct stub_uar {
	struct mlx5dv_devx_uar uar; /* first */
	uint64_t *doorbell;
	struct stub_uar *next;
};

/* libmlx5 keeps what is in it to itself */
struct mlx5dv_devx_obj {
	struct stub_device *device;
	struct stub_queue *queue; /* NULL: a key */
	uint32_t key;
};

static struct stub_umem *umems;
static struct stub_uar *uars;
static uint32_t last_id;

int stub_lacks(const char *what)
{
	const char *missing = getenv("MLX5_STUB_LACKS");

	return missing && !strcmp(missing, what);
}

static struct stub_context *context_of(struct ibv_context *c)
{
	return (struct stub_context *)(void *)c;
}

/* ---- devices --------------------------------------------------------------------------------- */

STUB_EXPORT bool mlx5dv_is_supported(struct ibv_device *d)
{
	(void)d;
	return !stub_lacks("mlx5");
}

STUB_EXPORT struct ibv_context *mlx5dv_open_device(struct ibv_device *d,
						   struct mlx5dv_context_attr *attr)
{
	errno = EPERM;
	return stub_lacks("devx") || attr->flags != MLX5DV_CONTEXT_FLAGS_DEVX ? NULL :
										ibv_open_device(d);
}

STUB_EXPORT int mlx5dv_set_context_attr(struct ibv_context *c, enum mlx5dv_set_ctx_attr_type type,
					void *attr)
{
	if (type != MLX5DV_CTX_ATTR_BUF_ALLOCATORS)
		return EOPNOTSUPP;
	context_of(c)->from = *(struct mlx5dv_ctx_allocators *)attr;
	return 0;
}

STUB_EXPORT int mlx5dv_devx_general_cmd(struct ibv_context *c, const void *in, size_t in_bytes,
					void *out, size_t out_bytes)
{
	(void)c;
	if (stub_lacks("capabilities") || in_bytes != 16 || out_bytes != MLX5_CAP_WORDS * 4 ||
	    mlx5_get(in, MLX5_OPCODE) != MLX5_OP_QUERY_HCA_CAP)
		return EINVAL;
	if (mlx5_get(in, MLX5_OP_MOD) == MLX5_CAP_GENERAL_NOW)
		mlx5_set(out, MLX5_CAP_CORE_DIRECT, !stub_lacks("core_direct"));
	return 0;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static uint8_t *take(struct stub_context *c, size_t bytes)
{
	size_t whole = (bytes + 4095) & ~(size_t)4095;
	uint8_t *base = c->from.alloc ? c->from.alloc(whole, c->from.data) :
					aligned_alloc(4096, whole);

	if (base)
		memset(base, 0xa5, whole);
	return base;
}

static void give(struct stub_context *c, void *base)
{
	if (c->from.free && base)
		c->from.free(base, c->from.data);
	else
		free(base);
}

static uint64_t *page_take(void)
{
	uint64_t *page = aligned_alloc(STUB_PAGE, STUB_PAGE);

	if (page)
		memset(page, 0, STUB_PAGE);
	return page;
}

static void queue_free(struct stub_queue *q)
{
	free(q->doorbell);
	give(q->context, q->sq);
	give(q->context, q->ring);
	free(q);
}

STUB_EXPORT struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *c,
					       struct ibv_cq_init_attr_ex *attr,
					       struct mlx5dv_cq_init_attr *direct)
{
	struct stub_queue *q = calloc(1, sizeof(*q));
	struct soft_qp_attr soft = { 0 };
	int err = ENOMEM;

	if (!q)
		return NULL;
	q->context = context_of(c);
	q->device = stub_device_of(c);
	/* before others find the queue in the list */
	q->cq.context = c;
	q->cq.channel = attr->channel;
	q->cq.cq_context = attr->cq_context;
	for (q->depth = 1; q->depth < attr->cqe + 1;)
		q->depth *= 2;
	/* the send queue as large as its CQ: what a command makes lies elsewhere */
	q->sq = take(q->context, (size_t)q->depth * 64);
	q->ring = take(q->context, (size_t)q->depth * 64);
	soft.sq = (struct ori_wqe *)(void *)q->sq;
	soft.cq = (struct ori_cqe *)(void *)q->ring;
	soft.record = q->record;
	q->doorbell = page_take();
	soft.doorbell = q->doorbell;
	soft.depth = q->depth;
	if (stub_lacks("cq") || !(attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) ||
	    direct->cqe_size != 64)
		err = EINVAL;
	else if (q->sq && q->ring && q->doorbell) {
		stub_lock();
		err = stub_number_take(q->device, &soft, &q->qpn, &q->cqn);
		if (!err) {
			q->next = stub_queues;
			stub_queues = q;
		}
		stub_unlock();
	}
	if (err) {
		queue_free(q);
		errno = err;
		return NULL;
	}
	return &q->cq;
}

STUB_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct stub_queue *q = (struct stub_queue *)(void *)cq, **at = &stub_queues;

	if (q->blocks)
		return EBUSY;
	stub_lock();
	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	soft_qp_destroy(q->device->nic, q->qpn);
	stub_unlock();
	queue_free(q);
	return 0;
}

STUB_EXPORT struct ibv_qp *mlx5dv_create_qp(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr,
					    struct mlx5dv_qp_init_attr *direct)
{
	struct stub_queue *q = (struct stub_queue *)(void *)attr->send_cq;

	errno = EINVAL;
	if (stub_lacks("qp") || attr->qp_type != IBV_QPT_RC ||
	    !(direct->create_flags & MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE))
		return NULL;
	for (q->blocks = 1; q->blocks < attr->cap.max_send_wr * BLOCKS;)
		q->blocks *= 2;
	q->qp.context = c;
	q->qp.qp_context = attr->qp_context;
	q->qp.qp_num = q->qpn;
	q->state = IBV_QPS_RESET;
	stub_lock();
	soft_qp_find(q->device->nic, q->qpn)->attr.pd =
		((struct stub_pd *)(void *)attr->pd)->number;
	stub_unlock();
	return &q->qp;
}

STUB_EXPORT int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	static struct mlx5_wqe_av av = { .rmac = { 2, 3, 4, 5, 6, 7 } };
	struct stub_queue *q;

	if (type == MLX5DV_OBJ_PD)
		obj->pd.out->pdn = ((struct stub_pd *)(void *)obj->pd.in)->number;
	if (type == MLX5DV_OBJ_AH)
		obj->ah.out->av = &av;
	if (type == MLX5DV_OBJ_CQ) {
		q = (struct stub_queue *)(void *)obj->cq.in;
		obj->cq.out->buf = q->ring;
		obj->cq.out->cqe_cnt = q->depth;
		obj->cq.out->cqe_size = 64;
		obj->cq.out->cqn = q->cqn;
	}
	if (type == MLX5DV_OBJ_QP) {
		q = (struct stub_queue *)(void *)((char *)obj->qp.in -
						  offsetof(struct stub_queue, qp));
		obj->qp.out->sq.buf = stub_lacks("memory") ? NULL : q->sq;
		obj->qp.out->sq.wqe_cnt = q->blocks;
		obj->qp.out->sq.stride = 64;
		obj->qp.out->dbrec = q->record;
		obj->qp.out->bf.reg = stub_lacks("doorbell") ? NULL : q->doorbell;
		obj->qp.out->bf.size = 256;
	}
	return 0;
}

/* ---- what commands name ---------------------------------------------------------------------- */

STUB_EXPORT struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *c, void *base,
							  size_t bytes, uint32_t access)
{
	struct stub_umem *u = stub_lacks("umem") ? NULL : calloc(1, sizeof(*u));

	(void)c;
	(void)access;
	errno = ENOMEM;
	if (!u)
		return NULL;
	u->base = base;
	u->bytes = bytes;
	stub_lock();
	u->umem.umem_id = ++last_id;
	u->next = umems;
	umems = u;
	stub_unlock();
	return &u->umem;
}

STUB_EXPORT int mlx5dv_devx_umem_dereg(struct mlx5dv_devx_umem *umem)
{
	struct stub_umem **at = &umems, *u = (struct stub_umem *)(void *)umem;

	stub_lock();
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	stub_unlock();
	free(u);
	return 0;
}

STUB_EXPORT struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *c, uint32_t type)
{
	struct stub_uar *u = stub_lacks("uar") ? NULL : calloc(1, sizeof(*u));

	(void)c;
	(void)type;
	errno = ENOMEM;
	if (!u)
		return NULL;
	u->doorbell = page_take();
	if (!u->doorbell) {
		free(u);
		return NULL;
	}
	u->uar.reg_addr = u->doorbell;
	stub_lock();
	u->uar.page_id = ++last_id & 0xffffff;
	u->next = uars;
	uars = u;
	stub_unlock();
	return &u->uar;
}

STUB_EXPORT void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *uar)
{
	struct stub_uar **at = &uars, *u = (struct stub_uar *)(void *)uar;

	stub_lock();
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	stub_unlock();
	free(u->doorbell);
	free(u);
}

/* ---- objects made by command ----------------------------------------------------------------- */

/*
 * The queue pair behind the CQ of the command now uses the memory, record and doorbell that the
 * command names.
 */
static int make_queue(const uint32_t *in, struct mlx5dv_devx_obj *o, uint32_t *out)
{
	struct stub_queue *q = stub_queues;
	struct stub_umem *memory = umems;
	struct stub_uar *uar = uars;
	uint64_t record = mlx5_get64(in, MLX5_QPC_DBR_ADDR);
	struct soft_qp *qp;

	while (q && (q->device != o->device || q->cqn != mlx5_get(in, MLX5_QPC_CQN_SND)))
		q = q->next;
	while (memory && memory->umem.umem_id != mlx5_get(in, MLX5_WQ_UMEM_ID))
		memory = memory->next;
	while (uar && uar->uar.page_id != mlx5_get(in, MLX5_QPC_UAR_PAGE))
		uar = uar->next;
	if (!q || !memory || !uar || memory->umem.umem_id != mlx5_get(in, MLX5_QPC_DBR_UMEM_ID) ||
	    !mlx5_get(in, MLX5_WQ_UMEM_VALID) || !mlx5_get(in, MLX5_QPC_DBR_UMEM_VALID) ||
	    1u << mlx5_get(in, MLX5_QPC_LOG_SQ_SIZE) != q->depth || record < q->depth * 64ull ||
	    record + 8 > memory->bytes || mlx5_get(in, MLX5_QPC_RQ_TYPE) != MLX5_RQ_NONE)
		return EREMOTEIO;
	qp = soft_qp_find(q->device->nic, q->qpn);
	qp->attr.sq = (struct ori_wqe *)(void *)memory->base;
	qp->attr.record = (uint32_t *)(void *)(memory->base + record);
	qp->attr.doorbell = uar->doorbell;
	qp->attr.pd = mlx5_get(in, MLX5_QPC_PD);
	qp->attr.core_direct = (int)mlx5_get(in, MLX5_QPC_CD_MASTER);
	for (uint32_t i = 0; i < q->device->nic->bell_count; i++)
		if (q->device->nic->bells[i].qp == qp)
			q->device->nic->bells[i].word = qp->attr.doorbell;
	q->blocks = q->depth;
	q->state = IBV_QPS_RESET;
	o->queue = q;
	mlx5_set(out, MLX5_OBJECT, q->qpn);
	return 0;
}

/*
 * Entries follow each other in memory, so the first tells where it begins.  Its tag is 0, the
 * software NIC's not.
 */
static int make_key(const uint32_t *in, struct mlx5dv_devx_obj *o, uint32_t *out)
{
	uint32_t remote = mlx5_get(in, MLX5_MKC_REMOTE_WRITE);
	struct soft_mr_attr attr = {
		.base = (void *)(uintptr_t)mlx5_get64(in, MLX5_KLM_ADDRESS),
		.iova = mlx5_get64(in, MLX5_MKC_START),
		.bytes = mlx5_get64(in, MLX5_MKC_BYTES),
		.access = SOFT_LOCAL_WRITE |
			  (remote ? SOFT_REMOTE_WRITE | SOFT_REMOTE_READ | SOFT_REMOTE_ATOMIC : 0),
		.pd = mlx5_get(in, MLX5_MKC_PD)
	};

	if (mlx5_get(in, MLX5_MKC_ACCESS_MODE) != MLX5_ACCESS_KLM || !mlx5_get(in, MLX5_KLM_KEY) ||
	    soft_mr_create(o->device->nic, &attr, &o->key))
		return EREMOTEIO;
	o->key &= ~0xffu;
	o->device->nic->mrs[o->key >> 8].tag = 0;
	mlx5_set(out, MLX5_OBJECT, o->key >> 8);
	return 0;
}

STUB_EXPORT struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *c, const void *in,
							   size_t in_bytes, void *out,
							   size_t out_bytes)
{
	struct mlx5dv_devx_obj *o = calloc(1, sizeof(*o));
	int err = EREMOTEIO;

	if (!o)
		return NULL;
	o->device = stub_device_of(c);
	stub_lock();
	if (!stub_lacks("object") && in_bytes >= MLX5_COMMAND_WORDS * 4 && out_bytes == 16)
		err = mlx5_get(in, MLX5_OPCODE) == MLX5_OP_CREATE_QP ? make_queue(in, o, out) :
								       make_key(in, o, out);
	stub_unlock();
	if (err) {
		free(o);
		errno = err;
		return NULL;
	}
	return o;
}

STUB_EXPORT int mlx5dv_devx_obj_modify(struct mlx5dv_devx_obj *o, const void *in, size_t in_bytes,
				       void *out, size_t out_bytes)
{
	struct stub_queue *q = o->queue;
	uint32_t op = mlx5_get(in, MLX5_OPCODE);
	int err = 0;

	(void)out;
	stub_lock();
	if (!q || in_bytes != MLX5_COMMAND_WORDS * 4 || out_bytes != 16 ||
	    mlx5_get(in, MLX5_OBJECT) != q->qpn || op != MLX5_OP_RST2INIT_QP + (uint32_t)q->state)
		err = EREMOTEIO;
	else if (op == MLX5_OP_INIT2RTR_QP)
		q->dest = mlx5_get(in, MLX5_QPC_REMOTE_QPN);
	else if (op == MLX5_OP_RTR2RTS_QP)
		err = stub_connect(q->device, q->qpn, q->dest);
	if (!err)
		q->state++;
	stub_unlock();
	errno = err;
	return err;
}

STUB_EXPORT int mlx5dv_devx_obj_destroy(struct mlx5dv_devx_obj *o)
{
	stub_lock();
	if (o->queue)
		o->queue->blocks = 0;
	else
		soft_mr_destroy(o->device->nic, o->key);
	stub_unlock();
	free(o);
	return 0;
}
