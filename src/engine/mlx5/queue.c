/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/queue.c - queue pairs in the NIC's own layout: made by libmlx5, then taken over by
 * mlx5dv_init_obj.
 *
 * The CQ has one entry per block of the send queue and ignores overruns.  So nobody must tell the
 * NIC which entries were consumed.  Results are never inside CQEs.  Called under the engine's lock,
 * or before any other thread knows the NIC.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "mlx5.h"

#define DEPTH_MAX 32768u /* so that 16-bit indices stay unambiguous */
#define TRIES 4

/* ---- queue pair ---------------------------------------------------------------------------- */

static int make_qp(struct mlx5_queue *q, uint32_t requests, char *why, size_t bytes)
{
	struct mlx5_nic *n = q->nic;
	struct ibv_qp_init_attr_ex attr = { .qp_context = q,
					    .send_cq = q->ibv_cq,
					    .recv_cq = q->ibv_cq,
					    .cap = { .max_send_wr = requests,
						     .max_send_sge = 1,
						     .max_inline_data = ORI_WQE_INLINE_BYTES },
					    .qp_type = IBV_QPT_RC,
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = n->v.pd };
	struct mlx5dv_qp_init_attr direct = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
					      .create_flags =
						      MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE };
	struct mlx5dv_qp out = { 0 };
	struct mlx5dv_obj obj = { .qp = { .out = &out } };

	q->link.qp = n->b->qp_create(n->v.context, &attr, &direct);
	if (!q->link.qp) {
		snprintf(why, bytes,
			 "%s cannot make a queue pair that keeps results out of CQEs (%s): use a "
			 "newer kernel and rdma-core, raise ulimit -l",
			 n->v.name, strerror(errno));
		return MLX5_LACKING;
	}
	obj.qp.in = q->link.qp;
	if (n->b->init_obj(&obj, MLX5DV_OBJ_QP) || !out.sq.buf || !out.dbrec ||
	    out.sq.stride != ORI_WQE_BYTES) {
		snprintf(why, bytes,
			 "%s does not show its queue pairs' memory: install rdma-core 28 or newer",
			 n->v.name);
		return MLX5_LACKING;
	}
	if (!out.bf.reg) {
		snprintf(why, bytes,
			 "%s has no mapped doorbell register: check the access rights of "
			 "/dev/infiniband/uverbs*",
			 n->v.name);
		return MLX5_LACKING;
	}
	q->qpn = q->link.qp->qp_num;
	q->sq = out.sq.buf;
	q->depth = out.sq.wqe_cnt;
	q->record = (uint32_t *)out.dbrec;
	q->doorbell = out.bf.reg;
	return mlx5_doorbell_map(n, out.bf.reg, why, bytes);
}

static void unmake(struct mlx5_queue *q)
{
	struct mlx5_nic *n = q->nic;

	if (q->link.qp)
		n->v.lib->qp_destroy(q->link.qp);
	if (q->object)
		n->b->object_destroy(q->object);
	if (q->ibv_cq)
		n->v.lib->cq_destroy(q->ibv_cq);
	if (q->umem)
		n->b->umem_remove(q->umem);
	if (q->uar)
		n->b->uar_remove(q->uar);
	if (q->memory)
		mlx5_memory_give(q->memory, n);
	q->link.qp = NULL;
	q->object = NULL;
	q->ibv_cq = NULL;
	q->umem = NULL;
	q->uar = NULL;
	q->memory = NULL;
}

/*
 * CQ and send queue must have the same length.  libmlx5 decides how many blocks it reserves per
 * request.  The first queue of a NIC finds this out.  Later queues ask for as many requests as fill
 * the blocks.
 */
static int make_matched(struct mlx5_queue *q, uint32_t depth, char *why, size_t bytes)
{
	struct mlx5_nic *n = q->nic;

	for (int i = 0; i < TRIES; i++) {
		uint32_t requests = depth / n->blocks ? depth / n->blocks : 1;
		int err = mlx5_cq_make(q, depth, why, bytes);

		if (!err)
			err = make_qp(q, requests, why, bytes);
		if (err || q->depth == depth)
			return err;
		if (q->depth > depth && requests > 1)
			n->blocks *= q->depth / depth;
		else
			depth = q->depth;
		unmake(q);
		if (!depth || depth > DEPTH_MAX)
			break;
	}
	snprintf(why, bytes,
		 "%s: cannot make a send queue of %u blocks: set another ORIEL_QUEUE_DEPTH",
		 n->v.name, depth);
	return MLX5_LACKING;
}

static struct mlx5_queue *queue_new(struct mlx5_nic *n, char *why, size_t bytes)
{
	struct mlx5_queue *q = calloc(1, sizeof(*q));

	if (!q) {
		snprintf(why, bytes, "no memory for a queue");
		return NULL;
	}
	q->nic = n;
	q->link.fabric = &n->v;
	q->link.rank = -1;
	return q;
}

int mlx5_queue_make(struct mlx5_nic *n, uint32_t depth, int core_direct, char *why, size_t bytes,
		    struct mlx5_queue **out)
{
	struct mlx5_queue *q = queue_new(n, why, bytes);
	int err;

	if (!q)
		return ORIEL_ENOMEM;
	err = core_direct ? mlx5_devx_queue_make(q, depth, why, bytes) :
			    make_matched(q, depth, why, bytes);
	if (!err && q->link.qp && verbs_link_init(&q->link)) {
		snprintf(why, bytes, "%s", ori_last_error_text());
		err = ORIEL_ESYSTEM;
	}
	if (err) {
		mlx5_queue_drop(q);
		return err;
	}
	q->log_depth = (uint32_t)__builtin_ctz(q->depth);
	*out = q;
	return 0;
}

int mlx5_responder_make(struct mlx5_nic *n, char *why, size_t bytes, struct mlx5_queue **out)
{
	int err = mlx5_queue_make(n, 4, 0, why, bytes, out);

	if (!err)
		(*out)->answers = 1;
	return err;
}

int mlx5_queue_connect(struct mlx5_queue *q, int rank, const struct verbs_address *to,
		       uint32_t number)
{
	q->link.rank = rank;
	return q->object ? mlx5_devx_queue_connect(q, to, number) :
			   verbs_link_ready(&q->link, to, number);
}

void mlx5_queue_drop(struct mlx5_queue *q)
{
	unmake(q);
	free(q);
}
