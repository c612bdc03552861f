/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/queues.c - CQs and queue pairs that libibverbs makes.
 *
 * The software NIC has one CQ for each queue pair.  So its queue pair is made with the CQ, and gets
 * the send queue when the program's queue pair names the CQ.  A second one cannot use that CQ.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "uverbs.h"

#define DEPTH_MAX 32768u /* of the software NIC */

/* ---- CQ -------------------------------------------------------------------------------------- */

/* A NIC writes nothing into a new CQ, but the software NIC does: that is undone. */
static int take_number(struct uv_cq *cq, uint8_t *buffer)
{
	struct soft_qp_attr attr = { .sq = (struct ori_wqe *)(void *)buffer,
				     .cq = (struct ori_cqe *)(void *)buffer,
				     .record = cq->record,
				     .doorbell = &cq->doorbell,
				     .depth = cq->depth };
	size_t bytes = (size_t)cq->depth * sizeof(struct ori_cqe);
	void *before = malloc(bytes);
	int err;

	if (!before)
		return ENOMEM;
	memcpy(before, buffer, bytes);
	err = stub_number_take(cq->device, &attr, &cq->qpn, &cq->cqn);
	memcpy(buffer, before, bytes);
	free(before);
	return err;
}

int uv_cq_create(const struct uv_call *call)
{
	struct mlx5_ib_create_cq vendor;
	struct mlx5_ib_create_cq_resp vendor_answer = { 0 };
	struct uv_cq *cq = calloc(1, sizeof(*cq));
	uint32_t entries;
	int err;

	if (!cq)
		return ENOMEM;
	uv_get(call, UVERBS_ATTR_CREATE_CQ_CQE, &entries, sizeof(entries));
	uv_get(call, UVERBS_ATTR_UHW_IN, &vendor, sizeof(vendor));
	cq->device = call->file->device;
	cq->channel = uv_channel_of(call->file,
				    uv_get_value(call, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL));
	uv_get(call, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &cq->user_handle, sizeof(cq->user_handle));
	cq->record_arm = (const uint32_t *)(uintptr_t)vendor.db_addr;
	for (cq->depth = 1; cq->depth <= entries && cq->depth <= DEPTH_MAX;)
		cq->depth *= 2;
	if (vendor.cqe_size != sizeof(struct ori_cqe) || vendor.cqe_comp_en ||
	    cq->depth > DEPTH_MAX || vendor.buf_addr % STUB_PAGE || vendor.db_addr % 8 ||
	    !(vendor.flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX) ||
	    !uv_uar_of_page(call->file, vendor.uar_page_index))
		err = EINVAL;
	else if (!uv_is_mapped(vendor.buf_addr, (uint64_t)cq->depth * vendor.cqe_size) ||
		 !uv_is_mapped(vendor.db_addr, 8))
		err = EFAULT;
	else
		err = take_number(cq, (uint8_t *)(uintptr_t)vendor.buf_addr);
	if (err) {
		free(cq);
		return err;
	}
	entries = cq->depth - 1;
	vendor_answer.cqn = cq->cqn;
	uv_put_handle(call, UVERBS_ATTR_CREATE_CQ_HANDLE, uv_add(call->file, UV_CQ, &cq->base));
	uv_put(call, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &entries, sizeof(entries));
	uv_put(call, UVERBS_ATTR_UHW_OUT, &vendor_answer, sizeof(vendor_answer));
	return 0;
}

/* Its software queue pair has gone with the program's, if there was one. */
void uv_cq_drop(struct uv_cq *cq)
{
	soft_qp_destroy(cq->device->nic, cq->qpn);
	free(cq);
}

int uv_cq_destroy(const struct uv_call *call)
{
	uint64_t handle = uv_get_value(call, UVERBS_ATTR_DESTROY_CQ_HANDLE);
	struct uv_cq *cq = uv_find(call->file, UV_CQ, handle);
	struct ib_uverbs_destroy_cq_resp r = { 0 };

	if (!cq)
		return ENOENT;
	if (cq->qp)
		return EBUSY;
	if (cq->channel)
		r.comp_events_reported = uv_cq_events_end(cq);
	uv_forget(call->file, UV_CQ, &cq->base);
	uv_cq_drop(cq);
	uv_put(call, UVERBS_ATTR_DESTROY_CQ_RESP, &r, sizeof(r));
	return 0;
}

/* ---- queue pairs of either kind -------------------------------------------------------------- */

int uv_qp_attach(struct uv_qp *qp, struct uv_cq *cq, const struct uv_send_queue *send)
{
	struct soft_qp *soft = soft_qp_find(cq->device->nic, cq->qpn);
	struct uv_uar *uar = uv_uar_of_page(qp->file, send->page);

	if (!soft || cq->qp || !uar || (uintptr_t)send->sq % 64 || (uintptr_t)send->record % 8 ||
	    !uv_is_mapped((uintptr_t)send->sq, (uint64_t)send->blocks * 64) ||
	    !uv_is_mapped((uintptr_t)send->record, 8))
		return EINVAL;
	soft->attr.sq = (struct ori_wqe *)(void *)send->sq;
	soft->attr.record = send->record;
	soft->attr.pd = send->pd;
	soft->attr.core_direct = send->core_direct;
	qp->cq = cq;
	qp->uar = uar;
	qp->record = send->record;
	qp->blocks = send->blocks;
	qp->next = uar->queues;
	uar->queues = qp;
	cq->qp = qp;
	return 0;
}

/*
 * The software NIC wants as many CQEs as blocks.  The engine's first queue pair of another size is
 * only a question, how many blocks libmlx5 takes, and is never connected.
 */
int uv_qp_ready(struct uv_qp *qp)
{
	if (qp->blocks != qp->cq->depth)
		return EINVAL;
	return stub_connect(qp->cq->device, qp->cq->qpn, qp->dest);
}

void uv_qp_drop(struct uv_qp *qp)
{
	struct uv_qp **at = &qp->uar->queues;

	while (*at != qp)
		at = &(*at)->next;
	*at = qp->next;
	soft_qp_destroy(qp->cq->device->nic, qp->cq->qpn);
	qp->cq->qpn = 0; /* the number may be given again */
	qp->cq->qp = NULL;
	if (qp->pd)
		qp->pd->users--;
	free(qp);
}

/* ---- queue pairs of libibverbs --------------------------------------------------------------- */

static int create(const struct uv_call *call, struct uv_qp *qp)
{
	uint64_t pd_handle = uv_get_value(call, UVERBS_ATTR_CREATE_QP_PD_HANDLE);
	uint64_t cq_handle = uv_get_value(call, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE);
	struct uv_pd *pd = uv_find(call->file, UV_PD, pd_handle);
	struct uv_cq *cq = uv_find(call->file, UV_CQ, cq_handle);
	struct mlx5_ib_create_qp vendor;
	struct uv_send_queue send = { 0 };
	int err;

	uv_get(call, UVERBS_ATTR_UHW_IN, &vendor, sizeof(vendor));
	if (!pd || !cq || uv_get_value(call, UVERBS_ATTR_CREATE_QP_TYPE) != IBV_QPT_RC ||
	    vendor.rq_wqe_count || !(vendor.flags & MLX5_QP_FLAG_UAR_PAGE_INDEX) ||
	    vendor.sq_wqe_count & (vendor.sq_wqe_count - 1))
		return EINVAL;
	/* results inside CQEs: the software NIC does not, and no reader here would find them */
	if (vendor.flags & MLX5_QP_FLAG_SCATTER_CQE)
		return EOPNOTSUPP;
	send.sq = (uint8_t *)(uintptr_t)vendor.buf_addr;
	send.record = (const uint32_t *)(uintptr_t)vendor.db_addr;
	send.blocks = vendor.sq_wqe_count;
	send.page = vendor.bfreg_index;
	send.pd = pd->number;
	qp->file = call->file;
	uv_get(call, UVERBS_ATTR_CREATE_QP_USER_HANDLE, &qp->user_handle, sizeof(qp->user_handle));
	err = uv_qp_attach(qp, cq, &send);
	if (!err) {
		qp->pd = pd;
		pd->users++;
	}
	return err;
}

int uv_qp_create(const struct uv_call *call)
{
	struct mlx5_ib_create_qp_resp vendor = { 0 };
	struct ib_uverbs_qp_cap cap;
	struct uv_qp *qp = calloc(1, sizeof(*qp));
	int err = qp ? create(call, qp) : ENOMEM;

	if (err) {
		free(qp);
		return err;
	}
	uv_get(call, UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap));
	uv_put_handle(call, UVERBS_ATTR_CREATE_QP_HANDLE, uv_add(call->file, UV_QP, &qp->base));
	uv_put(call, UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap));
	uv_put(call, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qp->cq->qpn, sizeof(qp->cq->qpn));
	uv_put(call, UVERBS_ATTR_UHW_OUT, &vendor, sizeof(vendor));
	return 0;
}

/* What each state asks for, by the InfiniBand specification. */
static const uint32_t needed[] = {
	[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	[IBV_QPS_RTS] = IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT,
};

static int to_rtr(struct uv_qp *qp, const struct ib_uverbs_modify_qp *request)
{
	uint8_t own[16];

	/* devices of one number share a network, and so an address */
	(void)uv_gid(qp->file->number, UV_GID_INDEX, own);
	if (!request->dest.is_global || request->dest.sgid_index != UV_GID_INDEX ||
	    memcmp(request->dest.dgid, own, 16))
		return ENETUNREACH;
	qp->dest = request->dest_qp_num;
	return 0;
}

int uv_qp_modify(const struct uv_call *call)
{
	struct ib_uverbs_modify_qp request;
	struct uv_qp *qp;
	int err = 0, state;

	uv_get(call, UVERBS_ATTR_CORE_IN, &request, sizeof(request));
	qp = uv_find(call->file, UV_QP, request.qp_handle);
	state = request.qp_state;
	if (!qp || !(request.attr_mask & IBV_QP_STATE))
		return EINVAL;
	if (state == IBV_QPS_ERR) {
		soft_qp_fail(qp->cq->device->nic, qp->cq->qpn, ORI_SYNDROME_FLUSHED);
		qp->state = state;
		return 0;
	}
	if (state != qp->state + 1 || state > IBV_QPS_RTS ||
	    (request.attr_mask & needed[state]) != needed[state])
		return EINVAL;
	if (state == IBV_QPS_RTR)
		err = to_rtr(qp, &request);
	if (state == IBV_QPS_RTS)
		err = uv_qp_ready(qp);
	if (!err)
		qp->state = state;
	return err;
}

int uv_qp_destroy(const struct uv_call *call)
{
	uint64_t handle = uv_get_value(call, UVERBS_ATTR_DESTROY_QP_HANDLE);
	struct uv_qp *qp = uv_find(call->file, UV_QP, handle);
	struct ib_uverbs_destroy_qp_resp r = { 0 };

	if (!qp)
		return ENOENT;
	r.events_reported = uv_events_end(qp);
	uv_forget(call->file, UV_QP, &qp->base);
	uv_qp_drop(qp);
	uv_put(call, UVERBS_ATTR_DESTROY_QP_RESP, &r, sizeof(r));
	return 0;
}
