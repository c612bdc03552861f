/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/verbs_fake.h - libibverbs as plain memory, in one process.  Its devices execute a post
 * at once, and complete it when they are polled.  A test can make them lie, refuse, run full and
 * raise events.
 */
#ifndef ORI_TEST_VERBS_FAKE_H
#define ORI_TEST_VERBS_FAKE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../check.h"
#include "engine/verbs/verbs.h"

#define FAKE_DEVICES 3
#define FAKE_MRS 64
#define FAKE_WCS 256
#define FAKE_EVENTS 8

struct fake_mr {
	struct ibv_mr mr;
	int live, access, dmabuf;
};

struct fake_wc {
	struct ibv_wc wc;
	struct ibv_qp *qp;
};

/* The state of the fake world; set before devices are opened, or in between. */
static struct fake {
	/* ---- as told ---- */
	int devices;
	enum ibv_transport_type transport[FAKE_DEVICES];
	enum ibv_port_state state[FAKE_DEVICES];
	uint8_t layer;
	int atomic_cap, atomics_lie;
	int inline_refused, inline_lowered;
	int max_cqe;
	int post_error;            /* errno of the next post */
	enum ibv_wc_status status; /* of the next completion */
	int twice;                 /* the next completion is told twice */
	int register_error;        /* errno of plain registrations that ask for access */
	int dmabuf_error;          /* errno of dma-buf registrations */
	enum ibv_gid_type gid_type;
	/* ---- as it is ---- */
	struct fake_mr mrs[FAKE_MRS];
	struct fake_wc wcs[FAKE_WCS];
	int nwcs, notified, markers;
	struct ibv_async_event events[FAKE_EVENTS];
	int nevents;
	int live; /* objects not yet destroyed */
	uint32_t last_qpn;
	int qp_states[64];
	struct ibv_qp_attr last_rtr, last_rts;
} fake;

static struct ibv_device fake_device[FAKE_DEVICES];
static struct ibv_device *fake_list[FAKE_DEVICES + 1];
static const char *const fake_names[FAKE_DEVICES] = { "fake_0", "fake_1", "fake_2" };

static int fake_number(struct ibv_device *d)
{
	return (int)(d - fake_device);
}

/* ---- devices --------------------------------------------------------------------------------- */

static struct ibv_device **fake_device_list(int *n)
{
	memset(fake_list, 0, sizeof(fake_list));
	for (int i = 0; i < fake.devices; i++) {
		fake_list[i] = &fake_device[i];
		fake_device[i].transport_type = fake.transport[i];
	}
	*n = fake.devices;
	fake.live++;
	return fake_list;
}

static void fake_device_list_free(struct ibv_device **list)
{
	CHECK(list == fake_list);
	fake.live--;
}

static const char *fake_device_name(struct ibv_device *d)
{
	return fake_names[fake_number(d)];
}

static int fake_poll(struct ibv_cq *cq, int room, struct ibv_wc *out)
{
	int n = 0, left = 0;

	for (int i = 0; i < fake.nwcs; i++)
		if (n < room && fake.wcs[i].qp->send_cq == cq)
			out[n++] = fake.wcs[i].wc;
		else
			fake.wcs[left++] = fake.wcs[i];
	fake.nwcs = left;
	return n;
}

static int fake_notify(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	fake.notified++;
	return 0;
}

static struct fake_mr *fake_find(uint32_t key)
{
	return key && key <= FAKE_MRS && fake.mrs[key - 1].live ? &fake.mrs[key - 1] : NULL;
}

static int fake_reaches(uint32_t key, uint64_t address, uint64_t bytes, int access)
{
	struct fake_mr *m = fake_find(key);
	uint64_t base = m ? (uint64_t)(uintptr_t)m->mr.addr : 0;

	return m && (m->access & access) == access && address >= base &&
	       address + bytes <= base + m->mr.length;
}

static void fake_atomic(const struct ibv_send_wr *wr, uint64_t *word, uint64_t *old)
{
	*old = *word;
	if (fake.atomics_lie)
		return;
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		*word += wr->wr.atomic.compare_add;
	else if (*word == wr->wr.atomic.compare_add)
		*word = wr->wr.atomic.swap;
}

static enum ibv_wc_status fake_execute(const struct ibv_send_wr *wr)
{
	const struct ibv_sge *s = wr->sg_list;
	void *local = (void *)(uintptr_t)s->addr;
	int atomic = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		     wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	uint64_t remote = atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;
	uint32_t rkey = atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey;
	int writes = wr->opcode != IBV_WR_RDMA_WRITE;
	int access = atomic ? IBV_ACCESS_REMOTE_ATOMIC :
		     writes ? IBV_ACCESS_REMOTE_READ :
			      IBV_ACCESS_REMOTE_WRITE;

	if (!(wr->send_flags & IBV_SEND_INLINE) &&
	    !fake_reaches(s->lkey, s->addr, s->length, writes ? IBV_ACCESS_LOCAL_WRITE : 0))
		return IBV_WC_LOC_PROT_ERR;
	if (!fake_reaches(rkey, remote, s->length, access))
		return IBV_WC_REM_ACCESS_ERR;
	if (atomic)
		fake_atomic(wr, (uint64_t *)(uintptr_t)remote, local);
	else if (writes)
		memcpy(local, (void *)(uintptr_t)remote, s->length);
	else
		memcpy((void *)(uintptr_t)remote, local, s->length);
	return IBV_WC_SUCCESS;
}

static int fake_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_wc c = { .qp = qp, .wc = { .wr_id = wr->wr_id, .qp_num = qp->qp_num } };
	int error = fake.post_error;

	*bad = wr;
	fake.post_error = 0;
	if (error)
		return error;
	CHECK(!(wr->send_flags & IBV_SEND_INLINE) || !fake.inline_lowered);
	CHECK_EQ(fake.qp_states[qp->qp_num % 64], IBV_QPS_RTS);
	fake.markers += !wr->num_sge;
	c.wc.status = fake.status ? fake.status : wr->num_sge ? fake_execute(wr) : IBV_WC_SUCCESS;
	fake.status = IBV_WC_SUCCESS;
	if (!(wr->send_flags & IBV_SEND_SIGNALED) && c.wc.status == IBV_WC_SUCCESS)
		return 0;
	for (int i = 0; i <= fake.twice; i++)
		fake.wcs[fake.nwcs++] = c;
	fake.twice = 0;
	CHECK(fake.nwcs < FAKE_WCS);
	return 0;
}

static struct ibv_context *fake_open(struct ibv_device *d)
{
	struct ibv_context *c = calloc(1, sizeof(*c));

	c->device = d;
	c->ops.poll_cq = fake_poll;
	c->ops.post_send = fake_post;
	c->ops.req_notify_cq = fake_notify;
	c->async_fd = eventfd(0, 0);
	fake.live++;
	return c;
}

static int fake_close(struct ibv_context *c)
{
	close(c->async_fd);
	free(c);
	fake.live--;
	return 0;
}

static int fake_query_device(struct ibv_context *c, struct ibv_device_attr *out)
{
	(void)c;
	memset(out, 0, sizeof(*out));
	out->phys_port_cnt = 1;
	out->max_pkeys = 1;
	out->max_qp_wr = 1024;
	out->max_cqe = fake.max_cqe;
	out->max_qp_rd_atom = 4;
	out->max_qp_init_rd_atom = 16;
	out->atomic_cap = (enum ibv_atomic_cap)fake.atomic_cap;
	return 0;
}

static int fake_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

	CHECK_EQ(port, 1);
	attr->state = fake.state[fake_number(c->device)];
	attr->active_mtu = IBV_MTU_2048;
	attr->max_msg_sz = 1u << 20;
	attr->gid_tbl_len = 4;
	attr->lid = 7;
	attr->link_layer = fake.layer;
	return 0;
}

static int fake_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *out)
{
	(void)c;
	(void)port;
	memset(out, 0, sizeof(*out));
	out->raw[15] = (uint8_t)index;
	return index < 3 ? 0 : -1;
}

/* Entry 1 is IPv4, entry 2 is not there. */
static int fake_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *out, uint32_t flags, size_t bytes)
{
	(void)flags;
	CHECK_EQ(bytes, sizeof(*out));
	memset(out, 0, sizeof(*out));
	if (index > 1)
		return ENODATA;
	CHECK_EQ(fake_query_gid(c, (uint8_t)port, (int)index, &out->gid), 0);
	out->gid.raw[0] = index ? 0 : 0xfe;
	out->gid.raw[1] = index ? 0 : 0x80;
	out->gid.raw[10] = out->gid.raw[11] = index ? 0xff : 0;
	out->gid_type = fake.gid_type;
	return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct ibv_pd *fake_pd_alloc(struct ibv_context *c)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = c;
	fake.live++;
	return pd;
}

static int fake_pd_free(struct ibv_pd *pd)
{
	free(pd);
	fake.live--;
	return 0;
}

static struct ibv_mr *fake_register(struct ibv_pd *pd, void *base, size_t bytes, int access,
				    int dmabuf)
{
	uint32_t i = 0;

	while (fake.mrs[i].live)
		i++;
	CHECK(i < FAKE_MRS);
	fake.mrs[i] = (struct fake_mr){ .live = 1, .access = access, .dmabuf = dmabuf };
	fake.mrs[i].mr =
		(struct ibv_mr){ .context = pd->context, .pd = pd, .addr = base, .length = bytes };
	fake.mrs[i].mr.lkey = fake.mrs[i].mr.rkey = i + 1;
	fake.live++;
	return &fake.mrs[i].mr;
}

static struct ibv_mr *fake_mr_add(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
	if (fake.register_error && access) {
		errno = fake.register_error;
		return NULL;
	}
	return fake_register(pd, base, bytes, access, 0);
}

static struct ibv_mr *fake_mr_add_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					 uint64_t iova, int fd, int access)
{
	CHECK_EQ(offset, 4096);
	CHECK(fd >= 0);
	if (fake.dmabuf_error) {
		errno = fake.dmabuf_error;
		return NULL;
	}
	return fake_register(pd, (void *)(uintptr_t)iova, bytes, access, 1);
}

static int fake_mr_remove(struct ibv_mr *mr)
{
	struct fake_mr *m = fake_find(mr->lkey);

	CHECK(m && &m->mr == mr);
	m->live = 0;
	fake.live--;
	return 0;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static struct ibv_comp_channel *fake_channel_create(struct ibv_context *c)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	channel->context = c;
	channel->fd = eventfd(0, 0);
	fake.live++;
	return channel;
}

static int fake_channel_destroy(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	fake.live--;
	return 0;
}

static struct ibv_cq *fake_cq_create(struct ibv_context *c, int entries, void *ctx,
				     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	(void)ctx;
	(void)vector;
	cq->context = c;
	cq->channel = channel;
	cq->cqe = entries;
	fake.live++;
	return cq;
}

static int fake_cq_destroy(struct ibv_cq *cq)
{
	free(cq);
	fake.live--;
	return 0;
}

static int fake_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **ctx)
{
	(void)channel;
	(void)cq;
	(void)ctx;
	return -1;
}

static void fake_cq_event_ack(struct ibv_cq *cq, unsigned int n)
{
	(void)cq;
	(void)n;
}

static struct ibv_qp *fake_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;

	if (fake.inline_refused && attr->cap.max_inline_data) {
		errno = EINVAL;
		return NULL;
	}
	if (fake.inline_lowered)
		attr->cap.max_inline_data = 0;
	qp = calloc(1, sizeof(*qp));
	qp->context = pd->context;
	qp->qp_context = attr->qp_context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->qp_num = ++fake.last_qpn;
	fake.qp_states[qp->qp_num % 64] = IBV_QPS_RESET;
	fake.live++;
	return qp;
}

static int fake_qp_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int *state = &fake.qp_states[qp->qp_num % 64];

	CHECK(mask & IBV_QP_STATE);
	CHECK(attr->qp_state == IBV_QPS_ERR || (int)attr->qp_state == *state + 1);
	*state = (int)attr->qp_state;
	if (attr->qp_state == IBV_QPS_RTR)
		fake.last_rtr = *attr;
	if (attr->qp_state == IBV_QPS_RTS)
		fake.last_rts = *attr;
	return 0;
}

static int fake_qp_destroy(struct ibv_qp *qp)
{
	int left = 0;

	for (int i = 0; i < fake.nwcs; i++)
		if (fake.wcs[i].qp != qp)
			fake.wcs[left++] = fake.wcs[i];
	fake.nwcs = left;
	free(qp);
	fake.live--;
	return 0;
}

static int fake_event(struct ibv_context *c, struct ibv_async_event *out)
{
	(void)c;
	if (!fake.nevents)
		return -1;
	*out = fake.events[0];
	memmove(fake.events, fake.events + 1, (size_t)--fake.nevents * sizeof(*out));
	return 0;
}

static void fake_event_ack(struct ibv_async_event *event)
{
	(void)event;
}

static const char *fake_event_text(enum ibv_event_type type)
{
	(void)type;
	return "an event";
}

static const char *fake_status_text(enum ibv_wc_status status)
{
	(void)status;
	return "a status";
}

static const struct verbs_library fake_library = {
	.device_list = fake_device_list,
	.device_list_free = fake_device_list_free,
	.device_name = fake_device_name,
	.open = fake_open,
	.close = fake_close,
	.query_device = fake_query_device,
	.query_port = fake_query_port,
	.query_gid = fake_query_gid,
	.query_gid_ex = fake_query_gid_ex,
	.pd_alloc = fake_pd_alloc,
	.pd_free = fake_pd_free,
	.mr_add = fake_mr_add,
	.mr_add_dmabuf = fake_mr_add_dmabuf,
	.mr_remove = fake_mr_remove,
	.channel_create = fake_channel_create,
	.channel_destroy = fake_channel_destroy,
	.cq_create = fake_cq_create,
	.cq_destroy = fake_cq_destroy,
	.cq_event = fake_cq_event,
	.cq_event_ack = fake_cq_event_ack,
	.qp_create = fake_qp_create,
	.qp_modify = fake_qp_modify,
	.qp_destroy = fake_qp_destroy,
	.event = fake_event,
	.event_ack = fake_event_ack,
	.event_text = fake_event_text,
	.status_text = fake_status_text,
};

/* One RoCE v2 device with everything. */
static void fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.devices = 1;
	for (int i = 0; i < FAKE_DEVICES; i++)
		fake.state[i] = IBV_PORT_ACTIVE;
	fake.layer = IBV_LINK_LAYER_ETHERNET;
	fake.gid_type = IBV_GID_TYPE_ROCE_V2;
	fake.atomic_cap = IBV_ATOMIC_HCA;
	fake.max_cqe = 128;
	verbs_library_set("fake", &fake_library);
}

#endif
