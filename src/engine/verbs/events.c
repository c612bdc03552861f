/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/events.c - asynchronous events of a device: queue pairs in error, ports, removal of
 * the device; and the descriptor to sleep on.
 *
 * Events are read in progress(), which never waits for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../../util/util.h"
#include "verbs.h"

static int unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ?
		       ori_fail_errno(errno, "cannot read a device's events without waiting") :
		       0;
}

static int watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ?
		       ori_fail_errno(errno, "cannot watch a device's events") :
		       0;
}

int verbs_events_open(struct verbs_fabric *f)
{
	int err = unblock(f->context->async_fd);

	if (!err)
		err = unblock(f->channel->fd);
	if (err)
		return err;
	f->wake_fd = epoll_create1(EPOLL_CLOEXEC);
	if (f->wake_fd < 0)
		return ori_fail_errno(errno, "no descriptor to sleep on");
	err = watch(f->wake_fd, f->context->async_fd);
	return err ? err : watch(f->wake_fd, f->channel->fd);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void lose(struct verbs_fabric *f, struct verbs_link *l, uint32_t syndrome)
{
	/* A probe's link has no tag, and nobody to tell. */
	if (l->rank >= 0 && f->world.link_lost)
		f->world.link_lost(f->world.ctx, l->tag, syndrome);
}

static void take(struct verbs_fabric *f, const struct ibv_async_event *event)
{
	const char *text = f->lib->event_text(event->event_type);
	uint32_t syndrome = verbs_event_syndrome(event->event_type);

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR: {
		struct verbs_link *l = event->element.qp->qp_context;

		ori_log(ORI_LOG_WARN, "%s: queue pair to rank %d: %s", f->name, l->rank, text);
		lose(f, l, syndrome);
		return;
	}
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		ori_log(ORI_LOG_ERROR, "%s: %s", f->name, text);
		for (struct verbs_link *l = f->links; l; l = l->next)
			lose(f, l, syndrome);
		return;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
		if (event->element.port_num == f->port)
			ori_log(ORI_LOG_WARN, "%s port %d: %s", f->name, f->port, text);
		return;
	default:
		ori_log(ORI_LOG_DEBUG, "%s: %s", f->name, text);
	}
}

void verbs_events_take(struct verbs_fabric *f)
{
	struct ibv_async_event event;

	while (!f->lib->event(f->context, &event)) {
		take(f, &event);
		f->lib->event_ack(&event);
	}
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static void take_cq_events(struct verbs_fabric *f)
{
	struct ibv_cq *cq;
	void *context;

	while (!f->lib->cq_event(f->channel, &cq, &context))
		f->lib->cq_event_ack(cq, 1);
}

/*
 * A completion that came before the CQ was armed wakes nobody.  So the CQ is polled once more after
 * arming.  A completion found then is kept for progress().
 */
int verbs_arm(struct ori_fabric *fabric, int *fd)
{
	struct verbs_fabric *f = (struct verbs_fabric *)fabric;

	if (f->kept || f->ending || f->unmarked)
		return 0;
	take_cq_events(f);
	if (ibv_req_notify_cq(f->cq, 0))
		return -1;
	f->kept = ibv_poll_cq(f->cq, 1, &f->kept_wc) > 0;
	/* If an event wakes the sleeper, the next look must find it. */
	f->looks = VERBS_LOOKS_PER_EVENT;
	*fd = f->wake_fd;
	return f->kept ? 0 : 1;
}
