/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mlx5_stub.h - the interface of the mlx5 engine to libmlx5, with the software NIC
 * behind it.  The engine gets or provides queue memory, records and doorbells; the stub passes them
 * to soft_nic, which executes the posted WQEs.
 *
 * Device fake_N is the NIC of rank N.  Every call can be refused, so that tests see the message for
 * each missing thing.
 */
#ifndef ORI_TEST_MLX5_STUB_H
#define ORI_TEST_MLX5_STUB_H

#include "engine/mlx5/ifc.h"
#include "engine/mlx5/mlx5.h"
#include "engine/soft/state.h"
#include "soft_world.h"
#include "verbs_fake.h"

#define STUB_KEYS 64

/* A CQ, the software NIC's queue pair behind it, and whichever queue pair uses it. */
struct stub_queue {
	struct ibv_cq_ex cq; /* first */
	struct ibv_qp qp;
	int rank, depth, has_qp, peer, state;
	uint32_t qpn, cqn, blocks, dest, send_psn, receive_psn;
	uint8_t *sq, *ring;
	uint32_t record[2];
	uint64_t doorbell;
	struct stub_queue *next;
};

struct stub_uar {
	struct mlx5dv_devx_uar uar; /* first */
	uint64_t doorbell;
};

struct stub_umem {
	struct mlx5dv_devx_umem umem; /* first */
	uint8_t *base;
	size_t bytes;
};

/* libmlx5 keeps what is in it to itself */
struct mlx5dv_devx_obj {
	struct stub_queue *queue; /* NULL: a key */
	int rank;
	uint32_t key;
};

struct stub_mr {
	struct ibv_mr mr; /* first */
	uint64_t iova;
	int rank;
};

static struct stub {
	/* ---- refused ---- */
	int not_mlx5, no_open, no_core_direct, no_command, no_cq, big_cqe, no_qp, no_show,
		no_doorbell;
	int no_umem, no_uar, no_object, no_context;
	int no_dmabuf, no_channel;
	int no_registers, no_pages; /* in reach of a GPU that posts */
	uint32_t blocks;            /* of the send queue for a request */
	uint32_t ts_formats;        /* capability: 0 free-running, 1 real time, 2 both */
	int no_roce;                /* the device has no group of RoCE capabilities */
	/* ---- as it is ---- */
	struct world world;
	struct stub_queue *queues;
	struct stub_umem *umem;
	struct stub_uar *uar;
	struct mlx5dv_ctx_allocators from;
	uint8_t *dmabuf_base;
	struct stub_queue *notice; /* whose completion event comes next; NULL: none */
	int mapped, doorbells, keys, dmabufs;
	int alone;            /* only one engine or probe runs */
	int mapped_doorbells; /* pages of doorbells in a GPU's reach */
	void *doorbell_pages[64];
} stub;

static int stub_rank(struct ibv_context *c)
{
	return fake_number(c->device);
}

static struct soft_nic *stub_nic(int rank)
{
	return stub.world.nic[rank];
}

/* ---- devices ------------------------------------------------------------------------------- */

static bool stub_is_mlx5(struct ibv_device *device)
{
	(void)device;
	return !stub.not_mlx5;
}

static struct ibv_context *stub_open(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	CHECK_EQ(attr->flags, MLX5DV_CONTEXT_FLAGS_DEVX);
	errno = EPERM;
	return stub.no_open ? NULL : fake_open(device);
}

/* libmlx5 unmaps the pages of doorbells now.  Ranks share the list, so one alone is checked. */
static int stub_close(struct ibv_context *c)
{
	if (stub.alone)
		CHECK_EQ(stub.mapped_doorbells, 0);
	return fake_close(c);
}

static int stub_context_set(struct ibv_context *c, enum mlx5dv_set_ctx_attr_type type, void *attr)
{
	(void)c;
	CHECK_EQ(type, MLX5DV_CTX_ATTR_BUF_ALLOCATORS);
	stub.from = *(struct mlx5dv_ctx_allocators *)attr;
	return stub.no_context ? EOPNOTSUPP : 0;
}

static int stub_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *out, uint32_t flags, size_t bytes)
{
	int err = fake_query_gid_ex(c, port, index, out, flags, bytes);

	out->gid.raw[15] = (uint8_t)(stub_rank(c) + 1);
	return err;
}

static int stub_command(struct ibv_context *c, const void *in, size_t in_bytes, void *out,
			size_t out_bytes)
{
	(void)c;
	CHECK_EQ(in_bytes, 16);
	CHECK_EQ(out_bytes, 16 + 4096);
	CHECK_EQ(mlx5_get(in, MLX5_OPCODE), MLX5_OP_QUERY_HCA_CAP);
	if (stub.no_command)
		return EPERM;
	if (mlx5_get(in, MLX5_OP_MOD) == MLX5_CAP_ROCE_NOW) {
		mlx5_set(out, MLX5_CAP_ROCE_TS_FORMAT, stub.ts_formats);
		return stub.no_roce ? EREMOTEIO : 0;
	}
	CHECK_EQ(mlx5_get(in, MLX5_OP_MOD), MLX5_CAP_GENERAL_NOW);
	mlx5_set(out, MLX5_CAP_CORE_DIRECT, !stub.no_core_direct);
	return 0;
}

/* ---- memory -------------------------------------------------------------------------------- */

static uint32_t stub_access(int access)
{
	return (access & IBV_ACCESS_LOCAL_WRITE ? SOFT_LOCAL_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_WRITE ? SOFT_REMOTE_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_READ ? SOFT_REMOTE_READ : 0) |
	       (access & IBV_ACCESS_REMOTE_ATOMIC ? SOFT_REMOTE_ATOMIC : 0);
}

static struct ibv_mr *stub_mr_add_iova(struct ibv_pd *pd, void *base, size_t bytes, uint64_t iova,
				       unsigned int access)
{
	struct soft_mr_attr attr = { .base = base,
				     .iova = iova,
				     .bytes = bytes,
				     .access = stub_access((int)access),
				     .pd = WORLD_PD };
	struct stub_mr *m = calloc(1, sizeof(*m));

	/* as the kernel has it */
	CHECK_EQ(((uintptr_t)base ^ iova) % 4096, 0);
	m->rank = stub_rank(pd->context);
	m->iova = iova;
	m->mr.context = pd->context;
	m->mr.addr = base;
	m->mr.length = bytes;
	CHECK_EQ(soft_mr_create(stub_nic(m->rank), &attr, &m->mr.lkey), 0);
	m->mr.rkey = m->mr.lkey;
	fake.live++;
	return &m->mr;
}

static struct ibv_mr *stub_mr_add(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
	return stub_mr_add_iova(pd, base, bytes, (uintptr_t)base, (unsigned int)access);
}

/* The place of the memory in the dma-buf, and that it was asked for, are in `stub`. */
__attribute__((unused)) static int stub_dmabuf(void *ctx, const void *base, uint64_t bytes,
					       uint64_t *offset)
{
	(void)ctx;
	(void)bytes;
	*offset = (uintptr_t)base % 4096 + 8192;
	stub.dmabuf_base = (uint8_t *)(uintptr_t)base - *offset;
	return dup(STDERR_FILENO);
}

static struct ibv_mr *stub_mr_add_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					 uint64_t iova, int fd, int access)
{
	CHECK(fd >= 0);
	/* as the kernel has it */
	CHECK_EQ((offset ^ iova) % 4096, 0);
	errno = EOPNOTSUPP;
	if (stub.no_dmabuf)
		return NULL;
	stub.dmabufs++;
	return stub_mr_add_iova(pd, stub.dmabuf_base + offset, bytes, iova, (unsigned int)access);
}

static int stub_mr_remove(struct ibv_mr *mr)
{
	struct stub_mr *m = (struct stub_mr *)mr;

	soft_mr_destroy(stub_nic(m->rank), mr->lkey);
	free(m);
	fake.live--;
	return 0;
}

/* ---- queues -------------------------------------------------------------------------------- */

static void *stub_take(size_t bytes)
{
	void *base = stub.from.alloc ? stub.from.alloc(bytes, stub.from.data) :
				       aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);

	if (base)
		memset(base, 0xa5, bytes);
	return base;
}

static void stub_give(void *base)
{
	if (stub.from.free)
		stub.from.free(base, stub.from.data);
	else
		free(base);
}

static struct ibv_cq_ex *stub_cq_create(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr,
					struct mlx5dv_cq_init_attr *direct)
{
	struct stub_queue *s = calloc(1, sizeof(*s));
	struct soft_qp_attr soft = { .pd = WORLD_PD };

	CHECK(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS);
	CHECK(attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	CHECK(direct->comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE && direct->cqe_size == 64);
	CHECK(!attr->channel || attr->cq_context);
	s->cq.context = c;
	s->cq.channel = attr->channel;
	s->cq.cq_context = attr->cq_context;
	s->rank = stub_rank(c);
	for (s->depth = 1; s->depth < (int)attr->cqe + 1;)
		s->depth *= 2;
	s->sq = stub.no_cq ? NULL : stub_take((size_t)s->depth * 64);
	s->ring = s->sq ? stub_take((size_t)s->depth * 64) : NULL;
	if (!s->ring) {
		free(s);
		errno = EINVAL;
		return NULL;
	}
	soft.sq = (struct ori_wqe *)(void *)s->sq;
	soft.cq = (struct ori_cqe *)(void *)s->ring;
	soft.record = s->record;
	soft.doorbell = &s->doorbell;
	soft.depth = (uint32_t)s->depth;
	CHECK_EQ(soft_qp_create(stub_nic(s->rank), &soft, &s->qpn, &s->cqn), 0);
	s->next = stub.queues;
	stub.queues = s;
	fake.live++;
	return &s->cq;
}

static int stub_cq_destroy(struct ibv_cq *cq)
{
	struct stub_queue *s = (struct stub_queue *)(void *)cq, **at = &stub.queues;

	CHECK(!s->has_qp);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	soft_qp_destroy(stub_nic(s->rank), s->qpn);
	stub_give(s->sq);
	stub_give(s->ring);
	free(s);
	fake.live--;
	return 0;
}

static struct ibv_comp_channel *stub_channel_create(struct ibv_context *c)
{
	errno = EOPNOTSUPP;
	return stub.no_channel ? NULL : fake_channel_create(c);
}

static int stub_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **ctx)
{
	struct stub_queue *s = stub.notice;

	if (!s || s->cq.channel != channel)
		return -1;
	stub.notice = NULL;
	*cq = (struct ibv_cq *)(void *)&s->cq;
	*ctx = s->cq.cq_context;
	return 0;
}

static struct ibv_qp *stub_qp_create(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr,
				     struct mlx5dv_qp_init_attr *direct)
{
	struct stub_queue *s = (struct stub_queue *)(void *)attr->send_cq;

	CHECK(direct->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS);
	CHECK(direct->create_flags & MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE);
	CHECK(attr->comp_mask & IBV_QP_INIT_ATTR_PD && attr->pd);
	CHECK_EQ(attr->cap.max_recv_wr, 0);
	CHECK_EQ(attr->sq_sig_all, 0);
	errno = EINVAL;
	if (stub.no_qp)
		return NULL;
	s->has_qp = 1;
	for (s->blocks = 1; s->blocks < attr->cap.max_send_wr * stub.blocks;)
		s->blocks *= 2;
	s->qp.context = c;
	s->qp.qp_context = attr->qp_context;
	s->qp.qp_num = s->qpn;
	s->state = IBV_QPS_RESET;
	fake.live++;
	return &s->qp;
}

static struct stub_queue *stub_of_qp(struct ibv_qp *qp)
{
	return (struct stub_queue *)(void *)((char *)qp - offsetof(struct stub_queue, qp));
}

static int stub_qp_destroy(struct ibv_qp *qp)
{
	stub_of_qp(qp)->has_qp = 0;
	fake.live--;
	return 0;
}

static void stub_ready(struct stub_queue *s)
{
	CHECK(s->peer >= 0 && s->peer < stub.world.n);
	CHECK_EQ(soft_qp_connect(stub_nic(s->rank), s->qpn, s->peer, s->dest), 0);
}

static int stub_qp_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct stub_queue *s = stub_of_qp(qp);

	CHECK(mask & IBV_QP_STATE);
	CHECK_EQ((int)attr->qp_state, s->state + 1);
	s->state = (int)attr->qp_state;
	if (attr->qp_state == IBV_QPS_INIT)
		CHECK(attr->qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC);
	if (attr->qp_state == IBV_QPS_RTR) {
		CHECK(attr->ah_attr.is_global);
		s->peer = attr->ah_attr.grh.dgid.raw[15] - 1;
		s->dest = attr->dest_qp_num;
		s->receive_psn = attr->rq_psn;
	}
	if (attr->qp_state == IBV_QPS_RTS) {
		s->send_psn = attr->sq_psn;
		stub_ready(s);
	}
	return 0;
}

/* ---- what is shown ------------------------------------------------------------------------- */

static void stub_show_qp(struct stub_queue *s, struct mlx5dv_qp *out)
{
	out->sq.buf = s->sq;
	out->sq.wqe_cnt = s->blocks;
	out->sq.stride = 64;
	out->dbrec = s->record;
	out->bf.reg = stub.no_doorbell ? NULL : &s->doorbell;
	out->bf.size = 256;
}

static int stub_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	static struct mlx5_wqe_av av = { .rmac = { 2, 3, 4, 5, 6, 7 } };

	if (type == MLX5DV_OBJ_PD)
		obj->pd.out->pdn = WORLD_PD;
	if (type == MLX5DV_OBJ_AH)
		obj->ah.out->av = &av;
	if (type == MLX5DV_OBJ_CQ) {
		struct stub_queue *s = (struct stub_queue *)(void *)obj->cq.in;

		obj->cq.out->buf = s->ring;
		obj->cq.out->cqe_cnt = (uint32_t)s->depth;
		obj->cq.out->cqe_size = stub.big_cqe ? 128 : 64;
		obj->cq.out->cqn = s->cqn;
	}
	if (type == MLX5DV_OBJ_QP) {
		if (stub.no_show)
			return EOPNOTSUPP;
		stub_show_qp(stub_of_qp(obj->qp.in), obj->qp.out);
	}
	return 0;
}

static struct ibv_ah *stub_ah_create(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	(void)pd;
	CHECK(attr->is_global);
	fake.live++;
	return ah;
}

static int stub_ah_destroy(struct ibv_ah *ah)
{
	free(ah);
	fake.live--;
	return 0;
}

#include "mlx5_stub_objects.h"

/* ---- the world ----------------------------------------------------------------------------- */

static void stub_open_world(void)
{
	static struct verbs_library verbs;
	struct mlx5_boundary b = { .verbs = &verbs,
				   .mr_add_iova = stub_mr_add_iova,
				   .ah_create = stub_ah_create,
				   .ah_destroy = stub_ah_destroy,
				   .is_mlx5 = stub_is_mlx5,
				   .open = stub_open,
				   .context_set = stub_context_set,
				   .init_obj = stub_init_obj,
				   .cq_create = stub_cq_create,
				   .qp_create = stub_qp_create,
				   .command = stub_command,
				   .object_create = stub_object_create,
				   .object_modify = stub_object_modify,
				   .object_destroy = stub_object_destroy,
				   .umem_add = stub_umem_add,
				   .umem_remove = stub_umem_remove,
				   .uar_add = stub_uar_add,
				   .uar_remove = stub_uar_remove };

	fake_reset();
	fake.devices = 2;
	verbs = fake_library;
	verbs.close = stub_close;
	verbs.query_gid_ex = stub_query_gid_ex;
	verbs.mr_add = stub_mr_add;
	verbs.mr_add_dmabuf = stub_mr_add_dmabuf;
	verbs.mr_remove = stub_mr_remove;
	verbs.channel_create = stub_channel_create;
	verbs.cq_event = stub_cq_event;
	verbs.cq_destroy = stub_cq_destroy;
	verbs.qp_modify = stub_qp_modify;
	verbs.qp_destroy = stub_qp_destroy;
	verbs_library_set("fake", &verbs);
	mlx5_boundary_set(&b);
	memset(&stub, 0, sizeof(stub));
	stub.blocks = 4;
	world_open(&stub.world, 2, NULL, NULL);
}

static void stub_close_world(void)
{
	CHECK_EQ(fake.live, 0);
	CHECK(stub.queues == NULL);
	CHECK_EQ(stub.mapped, 0);
	world_close(&stub.world);
	mlx5_boundary_set(NULL);
}

static void stub_config(struct ori_config *config, int rank, const char *depth)
{
	setenv("ORIEL_IB_LIBRARY", "fake", 1);
	setenv("ORIEL_IB_HCA", rank ? "=fake_1" : "=fake_0", 1);
	setenv("ORIEL_QUEUE_DEPTH", depth, 1);
	CHECK_EQ(ori_config_read(config), 0);
}

#endif
