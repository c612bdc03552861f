/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mlx5_stub_objects.h - the part of mlx5_stub.h that creates objects by command and maps
 * memory for a GPU.  Included by mlx5_stub.h only.
 */
#ifndef ORI_TEST_MLX5_STUB_OBJECTS_H
#define ORI_TEST_MLX5_STUB_OBJECTS_H

/* ---- objects made by command --------------------------------------------------------------- */

static struct mlx5dv_devx_umem *stub_umem_add(struct ibv_context *c, void *base, size_t bytes,
					      uint32_t access)
{
	(void)c;
	CHECK_EQ(access, IBV_ACCESS_LOCAL_WRITE);
	errno = ENOMEM;
	if (stub.no_umem)
		return NULL;
	stub.umem = calloc(1, sizeof(*stub.umem));
	stub.umem->umem.umem_id = 77;
	stub.umem->base = base;
	stub.umem->bytes = bytes;
	fake.live++;
	return &stub.umem->umem;
}

static int stub_umem_remove(struct mlx5dv_devx_umem *umem)
{
	free(umem);
	fake.live--;
	return 0;
}

static struct mlx5dv_devx_uar *stub_uar_add(struct ibv_context *c, uint32_t type)
{
	(void)c;
	(void)type;
	errno = ENOMEM;
	if (stub.no_uar)
		return NULL;
	stub.uar = calloc(1, sizeof(*stub.uar));
	stub.uar->uar.reg_addr = &stub.uar->doorbell;
	stub.uar->uar.page_id = 99;
	fake.live++;
	return &stub.uar->uar;
}

static void stub_uar_remove(struct mlx5dv_devx_uar *uar)
{
	free(uar);
	fake.live--;
}

/*
 * The queue pair behind the CQ goes over to the memory, record and doorbell that the command
 * names.
 */
static void stub_object_queue(const uint32_t *in, struct mlx5dv_devx_obj *o, uint32_t *out)
{
	struct stub_queue *s = stub.queues;
	struct soft_qp *qp;

	while (s && (s->rank != o->rank || s->cqn != mlx5_get(in, MLX5_QPC_CQN_SND)))
		s = s->next;
	CHECK(s != NULL);
	CHECK_EQ(1 << mlx5_get(in, MLX5_QPC_LOG_SQ_SIZE), s->depth);
	CHECK_EQ(mlx5_get(in, MLX5_QPC_PD), WORLD_PD);
	CHECK_EQ(mlx5_get(in, MLX5_QPC_RQ_TYPE), 3);
	CHECK_EQ(mlx5_get(in, MLX5_QPC_UAR_PAGE), 99);
	CHECK_EQ(mlx5_get(in, MLX5_QPC_TS_FORMAT), stub.ts_formats && !stub.no_roce ? 1 : 0);
	CHECK_EQ(mlx5_get(in, MLX5_WQ_UMEM_ID), 77);
	CHECK_EQ(mlx5_get(in, MLX5_QPC_DBR_UMEM_ID), 77);
	CHECK(mlx5_get(in, MLX5_WQ_UMEM_VALID) && mlx5_get(in, MLX5_QPC_DBR_UMEM_VALID));
	CHECK(mlx5_get64(in, MLX5_QPC_DBR_ADDR) + 8 <= stub.umem->bytes);
	CHECK((size_t)s->depth * 64 <= mlx5_get64(in, MLX5_QPC_DBR_ADDR));
	qp = soft_qp_find(stub_nic(s->rank), s->qpn);
	qp->attr.sq = (struct ori_wqe *)(void *)stub.umem->base;
	qp->attr.record = (uint32_t *)(void *)(stub.umem->base + mlx5_get64(in, MLX5_QPC_DBR_ADDR));
	qp->attr.doorbell = &stub.uar->doorbell;
	qp->attr.core_direct = (int)mlx5_get(in, MLX5_QPC_CD_MASTER);
	for (uint32_t i = 0; i < stub_nic(s->rank)->bell_count; i++)
		if (stub_nic(s->rank)->bells[i].qp == qp)
			stub_nic(s->rank)->bells[i].word = qp->attr.doorbell;
	s->has_qp = 1;
	s->state = IBV_QPS_RESET;
	o->queue = s;
	mlx5_set(out, MLX5_OBJECT, s->qpn);
}

/* The engine gives its keys tag 0; the software NIC gives tags of its own. */
static void stub_object_key(const uint32_t *in, struct mlx5dv_devx_obj *o, uint32_t *out)
{
	int remote = (int)mlx5_get(in, MLX5_MKC_REMOTE_WRITE);
	struct soft_mr_attr attr = {
		.base = (void *)(uintptr_t)mlx5_get64(in, MLX5_KLM_ADDRESS),
		.iova = mlx5_get64(in, MLX5_MKC_START),
		.bytes = mlx5_get64(in, MLX5_MKC_BYTES),
		.access = SOFT_LOCAL_WRITE |
			  (remote ? SOFT_REMOTE_WRITE | SOFT_REMOTE_READ | SOFT_REMOTE_ATOMIC : 0),
		.pd = mlx5_get(in, MLX5_MKC_PD)
	};

	CHECK_EQ(mlx5_get(in, MLX5_MKC_ACCESS_MODE), 2);
	CHECK_EQ(mlx5_get(in, MLX5_MKC_TAG), 0);
	CHECK_EQ(mlx5_get(in, MLX5_MKC_OCTWORDS), 4);
	CHECK_EQ(mlx5_get(in, MLX5_KLM_BYTES), attr.bytes);
	CHECK(mlx5_get(in, MLX5_KLM_KEY) != 0);
	CHECK_EQ(soft_mr_create(stub_nic(o->rank), &attr, &o->key), 0);
	o->key &= ~0xffu;
	stub_nic(o->rank)->mrs[o->key >> 8].tag = 0;
	stub.keys++;
	mlx5_set(out, MLX5_OBJECT, o->key >> 8);
}

static struct mlx5dv_devx_obj *stub_object_create(struct ibv_context *c, const void *in,
						  size_t in_bytes, void *out, size_t out_bytes)
{
	struct mlx5dv_devx_obj *o;

	CHECK(in_bytes >= 272);
	CHECK_EQ(out_bytes, 16);
	errno = EREMOTEIO;
	if (stub.no_object)
		return NULL;
	o = calloc(1, sizeof(*o));
	o->rank = stub_rank(c);
	if (mlx5_get(in, MLX5_OPCODE) == MLX5_OP_CREATE_QP)
		stub_object_queue(in, o, out);
	else
		stub_object_key(in, o, out);
	fake.live++;
	return o;
}

static int stub_object_modify(struct mlx5dv_devx_obj *o, const void *in, size_t in_bytes, void *out,
			      size_t out_bytes)
{
	struct stub_queue *s = o->queue;
	const uint32_t *words = in;
	uint32_t op = mlx5_get(in, MLX5_OPCODE);

	(void)out;
	CHECK_EQ(in_bytes, 272);
	CHECK_EQ(out_bytes, 16);
	CHECK_EQ(mlx5_get(in, MLX5_OBJECT), s->qpn);
	s->state++;
	CHECK_EQ(op, MLX5_OP_RST2INIT_QP + (uint32_t)s->state - IBV_QPS_INIT);
	if (s->state == IBV_QPS_RTR) {
		s->peer = ((const uint8_t *)(words + (0xc0 + 0x140) / 32))[15] - 1;
		s->dest = mlx5_get(in, MLX5_QPC_REMOTE_QPN);
		s->receive_psn = mlx5_get(in, MLX5_QPC_NEXT_RCV_PSN);
		CHECK_EQ(mlx5_get(in, MLX5_QPC_RMAC_HIGH), 0x0203);
		CHECK_EQ(mlx5_get(in, MLX5_QPC_RMAC_LOW), 0x04050607);
	}
	if (s->state == IBV_QPS_RTS) {
		s->send_psn = mlx5_get(in, MLX5_QPC_NEXT_SEND_PSN);
		stub_ready(s);
	}
	return 0;
}

static int stub_object_destroy(struct mlx5dv_devx_obj *o)
{
	if (o->queue)
		o->queue->has_qp = 0;
	else
		soft_mr_destroy(stub_nic(o->rank), o->key);
	free(o);
	fake.live--;
	return 0;
}

/* What a world does for a GPU that posts. */
__attribute__((unused)) static int stub_reach(void *ctx, void *base, uint64_t bytes, int registers,
					      char *why, size_t why_bytes)
{
	(void)ctx;
	CHECK_EQ((uintptr_t)base % 4096, 0);
	CHECK_EQ(bytes % 4096, 0);
	if (registers ? stub.no_registers : stub.no_pages) {
		snprintf(why, why_bytes, "out of the GPU's reach: %s",
			 registers ? "registers" : "pages");
		return ORIEL_ESYSTEM;
	}
	stub.mapped++;
	stub.doorbells += registers;
	if (registers && stub.mapped_doorbells < 64)
		stub.doorbell_pages[stub.mapped_doorbells++] = base;
	return 0;
}

__attribute__((unused)) static void stub_unreach(void *ctx, void *base)
{
	(void)ctx;
	CHECK_EQ((uintptr_t)base % 4096, 0);
	stub.mapped--;
	for (int i = 0; i < stub.mapped_doorbells; i++)
		if (stub.doorbell_pages[i] == base) {
			stub.doorbell_pages[i] = stub.doorbell_pages[--stub.mapped_doorbells];
			break;
		}
}

#endif
