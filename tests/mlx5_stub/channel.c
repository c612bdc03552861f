/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mlx5_stub/channel.c - completion events, as far as the stub has them: one per CQ, after the
 * CQ was armed for errors and an error CQE was written.
 *
 * A channel is a descriptor that counts events.  The CQs of unread events are marked.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "stub.h"

static struct stub_queue *queue_of(struct stub_device *d, uint32_t qpn)
{
	struct stub_queue *q = stub_queues;

	while (q && (q->device != d || q->qpn != qpn))
		q = q->next;
	return q;
}

static void failed(struct stub_device *d, uint32_t qpn)
{
	struct stub_queue *q = queue_of(d, qpn);

	if (q)
		stub_notice_fail(&q->notice, d, qpn);
}

static void look(void)
{
	for (struct stub_queue *q = stub_queues; q; q = q->next)
		if (stub_notice_take(&q->notice, q->device, q->qpn))
			q->event = !eventfd_write(q->cq.channel->fd, 1);
}

const struct stub_hooks stub_hooks = { .look = look, .failed = failed, .refused = stub_refused };

/* A NIC would also send an event for the next success: no caller here asks for that. */
int stub_arm(struct ibv_cq *cq, int solicited)
{
	struct stub_queue *q = (struct stub_queue *)(void *)cq;

	if (!solicited || !q->cq.channel)
		return EINVAL;
	stub_lock();
	q->notice.armed = 1;
	stub_unlock();
	return 0;
}

STUB_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *channel = stub_lacks("channel") ? NULL :
								   calloc(1, sizeof(*channel));

	if (!channel) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	channel->context = c;
	channel->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (channel->fd >= 0)
		return channel;
	free(channel);
	return NULL;
}

STUB_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	const struct stub_queue *q;

	stub_lock();
	for (q = stub_queues; q && q->cq.channel != channel;)
		q = q->next;
	stub_unlock();
	if (q)
		return EBUSY;
	close(channel->fd);
	free(channel);
	return 0;
}

STUB_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **ctx)
{
	struct stub_queue *q;
	eventfd_t one;
	int none;

	if (eventfd_read(channel->fd, &one))
		return -1;
	stub_lock();
	for (q = stub_queues; q && !(q->event && q->cq.channel == channel);)
		q = q->next;
	none = !q; /* destroyed since */
	if (q) {
		q->event = 0;
		*cq = (struct ibv_cq *)(void *)&q->cq;
		*ctx = q->cq.cq_context;
	}
	stub_unlock();
	errno = EAGAIN;
	return none ? -1 : 0;
}

STUB_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq;
	(void)n;
}
