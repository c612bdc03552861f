/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/events.c - asynchronous events: what a device says of a queue pair in error.
 *
 * The program reads them from one end of a socket pair.  This end is kept too, because a destroyed
 * queue pair takes its unread events with it: libibverbs waits until all others are acknowledged.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uverbs.h"

int uv_events_alloc(const struct uv_call *call)
{
	struct uv_file *file = call->file;
	int pair[2];

	if (file->event_in >= 0)
		return EBUSY;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return errno;
	file->event_in = pair[0];
	file->event_out = fcntl(pair[1], F_DUPFD_CLOEXEC, 0);
	uv_put_handle(call, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, (uint32_t)pair[1]);
	return 0;
}

/* A full socket loses the event, as a full event queue does. */
void uv_event(struct uv_qp *qp, uint32_t type)
{
	struct ib_uverbs_async_event_desc event = { .element = qp->user_handle,
						    .event_type = type };

	/* the kernel tells nobody of a queue pair that was made by command */
	if (!qp->by_command &&
	    send(qp->file->event_in, &event, sizeof(event), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		qp->events++;
}

uint32_t uv_events_end(struct uv_qp *qp)
{
	struct ib_uverbs_async_event_desc kept[64];
	struct uv_file *file = qp->file;
	int count = 0;

	while (qp->events && count < 64 &&
	       recv(file->event_out, &kept[count], sizeof(kept[0]), MSG_DONTWAIT) > 0) {
		if (kept[count].element == qp->user_handle)
			qp->events--;
		else
			count++;
	}
	for (int i = 0; i < count; i++)
		(void)send(file->event_in, &kept[i], sizeof(kept[0]), MSG_DONTWAIT | MSG_NOSIGNAL);
	return qp->events;
}

static void refused(struct stub_device *device, uint32_t qpn)
{
	struct uv_qp *qp = uv_qp_of_number(device, qpn);

	if (qp)
		uv_event(qp, IBV_EVENT_QP_ACCESS_ERR);
}

static void look(void)
{
	uv_look();
	uv_channels_look();
}

const struct stub_hooks stub_hooks = { .look = look, .failed = uv_cq_failed, .refused = refused };
