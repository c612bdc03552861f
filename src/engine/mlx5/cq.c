/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/cq.c - the completion queue of a queue: made by libmlx5, read by devices.
 *
 * Called under the engine's lock, or before any other thread knows the NIC.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <oriel/device/wqe.h>

#include "mlx5.h"

int mlx5_cq_make(struct mlx5_queue *q, uint32_t depth, char *why, size_t bytes)
{
	struct mlx5_nic *n = q->nic;
	/* libmlx5 makes one entry more, and rounds up */
	struct ibv_cq_init_attr_ex attr = { .cqe = depth - 1,
					    .cq_context = q,
					    .channel = n->notices,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN };
	struct mlx5dv_cq_init_attr direct = { .comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
					      .cqe_size = sizeof(struct ori_cqe) };
	struct mlx5dv_cq out = { 0 };
	struct mlx5dv_obj obj = { .cq = { .out = &out } };
	struct ibv_cq_ex *cq = n->b->cq_create(n->v.context, &attr, &direct);

	if (!cq) {
		snprintf(why, bytes,
			 "%s cannot make a CQ that ignores overruns (%s): use a newer kernel and "
			 "rdma-core",
			 n->v.name, n->unreached[0] ? n->unreached : strerror(errno));
		return MLX5_LACKING;
	}
	q->ibv_cq = ibv_cq_ex_to_cq(cq);
	obj.cq.in = q->ibv_cq;
	if (n->b->init_obj(&obj, MLX5DV_OBJ_CQ) || out.cqe_size != sizeof(struct ori_cqe) ||
	    out.cqe_cnt != depth) {
		snprintf(why, bytes,
			 "%s: asked for a CQ of %u entries of 64 bytes, got %u of %u: unset "
			 "MLX5_CQE_SIZE, use a depth of 2 to 32768",
			 n->v.name, depth, out.cqe_cnt, out.cqe_size);
		return MLX5_LACKING;
	}
	q->cq = out.buf;
	q->cqn = out.cqn;
	/*
	 * For solicited completions, which posts do not have, and for errors.  So the NIC sends one
	 * event, at the first error CQE.  A CQ that cannot be armed is looked at in its turn.
	 */
	if (n->notices)
		(void)ibv_req_notify_cq(q->ibv_cq, 1);
	return 0;
}
