/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mlx5_stub/verbs.c - the part of libibverbs that the stub has: devices, memory, state of
 * queue pairs, events.
 *
 * There are two devices, mlx5_0 and mlx5_1, with one RoCE v2 port each.  Functions that only the
 * verbs engine calls exist, so that the library can be loaded, but refuse.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "stub.h"

#undef ibv_query_port
#undef ibv_reg_mr

struct stub_queue *stub_queues;
static struct ibv_device handles[STUB_DEVICES];

struct stub_device *stub_device_of(struct ibv_context *c)
{
	return &stub.devices[c->device - handles];
}

void stub_refused(struct stub_device *d, uint32_t qpn)
{
	struct stub_queue *q = stub_queues;

	while (q && (q->device != d || q->qpn != qpn))
		q = q->next;
	if (q && q->context->nevents < STUB_EVENTS) {
		struct ibv_async_event *e = &q->context->events[q->context->nevents++];

		e->event_type = IBV_EVENT_QP_ACCESS_ERR;
		e->element.qp = &q->qp;
	}
}

/* ---- devices --------------------------------------------------------------------------------- */

/* Never changed again: users read them at any time. */
__attribute__((constructor)) static void devices_init(void)
{
	for (int i = 0; i < STUB_DEVICES; i++) {
		struct ibv_device *d = &handles[i];

		d->node_type = IBV_NODE_CA;
		d->transport_type = IBV_TRANSPORT_IB;
		snprintf(d->name, sizeof(d->name), "mlx5_%d", i);
	}
}

STUB_EXPORT struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(STUB_DEVICES + 1, sizeof(*list));

	if (!list)
		return NULL;
	for (int i = 0; i < STUB_DEVICES; i++)
		list[i] = &handles[i];
	*n = STUB_DEVICES;
	return list;
}

STUB_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

STUB_EXPORT const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

STUB_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct stub_context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->context.device = d;
	c->context.async_fd = eventfd(0, EFD_CLOEXEC);
	c->context.ops.req_notify_cq = stub_arm;
	return &c->context;
}

STUB_EXPORT int ibv_close_device(struct ibv_context *c)
{
	close(c->async_fd);
	free(c);
	return 0;
}

STUB_EXPORT int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *out)
{
	(void)c;
	memset(out, 0, sizeof(*out));
	out->phys_port_cnt = 1;
	out->max_pkeys = 1;
	out->max_qp_wr = 32768;
	out->max_cqe = 1 << 22;
	out->max_qp_rd_atom = 16;
	out->max_qp_init_rd_atom = 16;
	out->atomic_cap = IBV_ATOMIC_HCA;
	return 0;
}

STUB_EXPORT int ibv_query_port(struct ibv_context *c, uint8_t port,
			       struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

	(void)c;
	if (port != 1)
		return EINVAL;
	attr->state = IBV_PORT_ACTIVE;
	attr->active_mtu = IBV_MTU_4096;
	attr->max_msg_sz = 1u << 30;
	attr->gid_tbl_len = 1;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

STUB_EXPORT int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *out)
{
	memset(out, 0, sizeof(*out));
	if (port != 1 || index)
		return -1;
	out->raw[10] = out->raw[11] = 0xff;
	out->raw[12] = 10;
	out->raw[15] = (uint8_t)(c->device - handles + 1);
	return 0;
}

STUB_EXPORT int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
				  struct ibv_gid_entry *out, uint32_t flags, size_t bytes)
{
	(void)flags;
	if (bytes < sizeof(*out))
		return EINVAL;
	memset(out, 0, sizeof(*out));
	out->gid_index = index;
	out->port_num = port;
	out->gid_type = IBV_GID_TYPE_ROCE_V2;
	return ibv_query_gid(c, (uint8_t)port, (int)index, &out->gid) ? ENODATA : 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

STUB_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	static uint32_t last_pd; /* guarded by the lock */
	struct stub_pd *pd = calloc(1, sizeof(*pd));
	int err = pd ? stub_up() : ENOMEM;

	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	pd->pd.context = c;
	stub_lock();
	pd->number = ++last_pd & 0xffffff;
	stub_unlock();
	return &pd->pd;
}

STUB_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	stub_down();
	free(pd);
	return 0;
}

static uint32_t access_of(unsigned int access)
{
	return (access & IBV_ACCESS_LOCAL_WRITE ? SOFT_LOCAL_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_WRITE ? SOFT_REMOTE_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_READ ? SOFT_REMOTE_READ : 0) |
	       (access & IBV_ACCESS_REMOTE_ATOMIC ? SOFT_REMOTE_ATOMIC : 0);
}

STUB_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *base, size_t bytes,
					    uint64_t iova, unsigned int access)
{
	struct stub_mr *m = calloc(1, sizeof(*m));
	struct soft_mr_attr attr = { .base = base,
				     .iova = iova,
				     .bytes = bytes,
				     .access = access_of(access),
				     .pd = ((struct stub_pd *)(void *)pd)->number };
	int err;

	/* as the kernel has it */
	if (((uintptr_t)base ^ iova) % 4096) {
		free(m);
		errno = EINVAL;
		return NULL;
	}
	if (!m)
		return NULL;
	m->device = stub_device_of(pd->context);
	m->mr.context = pd->context;
	m->mr.pd = pd;
	m->mr.addr = base;
	m->mr.length = bytes;
	stub_lock();
	err = soft_mr_create(m->device->nic, &attr, &m->mr.lkey);
	stub_unlock();
	if (err) {
		free(m);
		errno = ENOMEM;
		return NULL;
	}
	m->mr.rkey = m->mr.lkey;
	return &m->mr;
}

STUB_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
	return ibv_reg_mr_iova2(pd, base, bytes, (uintptr_t)base, (unsigned int)access);
}

STUB_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct stub_mr *m = (struct stub_mr *)(void *)mr;

	stub_lock();
	soft_mr_destroy(m->device->nic, mr->lkey);
	stub_unlock();
	free(m);
	return 0;
}

STUB_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	(void)attr;
	if (ah)
		ah->context = pd->context;
	return ah;
}

STUB_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static struct stub_queue *of_qp(struct ibv_qp *qp)
{
	return (struct stub_queue *)(void *)((char *)qp - offsetof(struct stub_queue, qp));
}

/* One state after the other, with all that each asks for; connected when ready to send. */
STUB_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static const int needed[] = {
		[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
				IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT,
	};
	struct stub_queue *q = of_qp(qp);
	union ibv_gid own;
	int err = 0;

	if ((int)attr->qp_state != q->state + 1 || attr->qp_state > IBV_QPS_RTS ||
	    mask != needed[attr->qp_state])
		return EINVAL;
	(void)ibv_query_gid(qp->context, 1, 0, &own);
	stub_lock();
	if (attr->qp_state == IBV_QPS_RTR) {
		if (!attr->ah_attr.is_global || memcmp(&own, &attr->ah_attr.grh.dgid, 16))
			err = ENETUNREACH;
		q->dest = attr->dest_qp_num;
	}
	if (attr->qp_state == IBV_QPS_RTS)
		err = stub_connect(q->device, q->qpn, q->dest);
	if (!err)
		q->state = (int)attr->qp_state;
	stub_unlock();
	return err;
}

STUB_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct stub_queue *q = of_qp(qp);
	struct stub_context *c = q->context;
	int left = 0;

	stub_lock();
	for (int i = 0; i < c->nevents; i++)
		if (c->events[i].element.qp != qp)
			c->events[left++] = c->events[i];
	c->nevents = left;
	q->blocks = 0;
	stub_unlock();
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

STUB_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *out)
{
	struct stub_context *c = (struct stub_context *)(void *)context;
	int none;

	stub_lock();
	none = !c->nevents;
	if (!none) {
		*out = c->events[0];
		memmove(c->events, c->events + 1, (size_t)--c->nevents * sizeof(c->events[0]));
	}
	stub_unlock();
	errno = EAGAIN;
	return none ? -1 : 0;
}

STUB_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

STUB_EXPORT const char *ibv_event_type_str(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_ACCESS_ERR ? "access error" : "event";
}

STUB_EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success" : "failure";
}

/* ---- what the verbs engine would need -------------------------------------------------------- */

STUB_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *c, int entries, void *ctx,
					 struct ibv_comp_channel *channel, int vector)
{
	(void)c;
	(void)entries;
	(void)ctx;
	(void)channel;
	(void)vector;
	errno = EOPNOTSUPP;
	return NULL;
}

STUB_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	(void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}
