/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/link.c - RC queue pairs: created, connected, broken.
 *
 * The attributes of a queue pair come from the port, from the peer's address, or from ORIEL_IB_*.
 * Called by fabric.c and probe.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "verbs.h"

/*
 * Receiver-not-ready cannot happen, because no queue receives messages.  The calls need values, so
 * these are medium ones.
 */
#define RNR_TIMER 12
#define RNR_RETRY 7
#define BOUNCE_BYTES 32u

/* ---- made ------------------------------------------------------------------------------------ */

static int make_bounce(struct verbs_link *l)
{
	size_t bytes = (size_t)l->room * BOUNCE_BYTES;

	l->bounce = calloc(1, bytes);
	if (!l->bounce)
		return ori_fail(ORIEL_ENOMEM, "no memory for inline data of a queue");
	l->bounce_mr = l->fabric->lib->mr_add(l->fabric->pd, l->bounce, bytes,
					      IBV_ACCESS_LOCAL_WRITE);
	return l->bounce_mr ? 0 : ori_fail_errno(errno, "cannot register inline data of a queue");
}

static int make_qp(struct verbs_link *l)
{
	struct verbs_fabric *f = l->fabric;
	struct ibv_qp_init_attr attr = { .qp_context = l,
					 .send_cq = f->cq,
					 .recv_cq = f->cq,
					 /* one more for a marker */
					 .cap = { .max_send_wr = f->depth + 1,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = ORI_WQE_INLINE_BYTES },
					 .qp_type = IBV_QPT_RC };

	l->qp = f->lib->qp_create(f->pd, &attr);
	if (!l->qp) {
		/* Some devices refuse a number that is too large, others lower it. */
		attr.cap.max_inline_data = 0;
		l->qp = f->lib->qp_create(f->pd, &attr);
	}
	if (!l->qp)
		return ori_fail_errno(errno, "%s: cannot make a queue pair", f->name);
	l->room = f->depth;
	return attr.cap.max_inline_data < ORI_WQE_INLINE_BYTES ? make_bounce(l) : 0;
}

int verbs_link_init(struct verbs_link *l)
{
	struct verbs_fabric *f = l->fabric;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .pkey_index = f->settings.pkey_index,
				    .port_num = f->port,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ };
	int err;

	if (f->attr.atomic_cap != IBV_ATOMIC_NONE)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	err = f->lib->qp_modify(l->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					IBV_QP_ACCESS_FLAGS);
	return err ? ori_fail_errno(err, "%s: cannot initialise a queue pair", f->name) : 0;
}

int verbs_link_create(struct verbs_fabric *f, uint32_t tag, struct verbs_link **out)
{
	struct verbs_link *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return ori_fail(ORIEL_ENOMEM, "no memory for a link");
	l->fabric = f;
	l->tag = tag;
	l->rank = -1;
	l->first = l->last = VERBS_NONE;
	err = make_qp(l);
	if (!err)
		err = verbs_link_init(l);
	if (err) {
		verbs_link_destroy(l);
		return err;
	}
	*out = l;
	return 0;
}

void verbs_link_destroy(struct verbs_link *l)
{
	if (l->qp)
		l->fabric->lib->qp_destroy(l->qp);
	if (l->bounce_mr)
		l->fabric->lib->mr_remove(l->bounce_mr);
	free(l->bounce);
	free(l);
}

/* ---- ready ----------------------------------------------------------------------------------- */

/* Both ends know both numbers, so both know the first PSN of each direction. */
uint32_t verbs_first_psn(uint32_t from, uint32_t to)
{
	uint64_t z = ((uint64_t)from << 32 | to) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(z >> 40);
}

void verbs_fill_address(const struct verbs_fabric *f, const struct verbs_address *to,
			struct ibv_ah_attr *out)
{
	int roce = f->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;

	out->sl = f->settings.service_level;
	out->port_num = f->port;
	out->dlid = to->lid;
	/* InfiniBand needs the global header between subnets only, or if the port requires it. */
	if (!roce && !(f->port_attr.flags & IBV_QPF_GRH_REQUIRED) &&
	    !memcmp(to->gid, f->gid.raw, 8))
		return;
	out->is_global = 1;
	memcpy(out->grh.dgid.raw, to->gid, sizeof(to->gid));
	out->grh.sgid_index = (uint8_t)f->gid.index;
	out->grh.hop_limit = f->hop_limit;
	out->grh.traffic_class = f->settings.traffic_class;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* Sets the queue pair to RTR (receive from the peer), then to RTS (send to it). */
int verbs_link_ready(struct verbs_link *l, const struct verbs_address *to, uint32_t number)
{
	struct verbs_fabric *f = l->fabric;
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)least((int)f->settings.mtu, to->mtu),
		.dest_qp_num = number,
		.rq_psn = verbs_first_psn(number, l->qp->qp_num),
		.max_dest_rd_atomic = (uint8_t)least(f->attr.max_qp_rd_atom, 255),
		.min_rnr_timer = RNR_TIMER
	};
	struct ibv_qp_attr send = { .qp_state = IBV_QPS_RTS,
				    .sq_psn = verbs_first_psn(l->qp->qp_num, number),
				    .max_rd_atomic = (uint8_t)least(f->attr.max_qp_init_rd_atom,
								    to->reads),
				    .timeout = f->settings.timeout,
				    .retry_cnt = f->settings.retry_count,
				    .rnr_retry = RNR_RETRY };
	int err;

	verbs_fill_address(f, to, &receive.ah_attr);
	err = f->lib->qp_modify(l->qp, &receive,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER);
	if (err)
		return ori_fail_errno(err, "%s: cannot connect to rank %d (queue pair to RTR)",
				      f->name, l->rank);
	err = f->lib->qp_modify(l->qp, &send,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return err ? ori_fail_errno(err, "%s: cannot connect to rank %d (queue pair to RTS)",
				    f->name, l->rank) :
		     0;
}

/* ---- broken ---------------------------------------------------------------------------------- */

void verbs_link_break(struct verbs_link *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (l->broken)
		return;
	l->broken = 1;
	/* This has no effect if it is already in error. */
	if (l->fabric->lib->qp_modify(l->qp, &attr, IBV_QP_STATE))
		ori_log(ORI_LOG_WARN, "%s: cannot stop a failed queue pair", l->fabric->name);
}
