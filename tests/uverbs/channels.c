/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/channels.c - completion events: an armed CQ has got an error CQE.
 *
 * libmlx5 arms a CQ by its doorbell record and by a register.  The register of a page is shared by
 * all CQs, and only its last value is found.  So the record decides here.  An event is sent once,
 * when the error CQE is written; no program of the tests arms a CQ twice, or for successes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uverbs.h"

#define ARMED_FOR_ERRORS (1u << 24) /* "solicited", in the second word of the record */
#define KEPT 64

static int due; /* failed queue pairs whose events may still come; guarded by the lock */

int uv_channel_create(const struct uv_call *call)
{
	struct ib_uverbs_create_comp_channel_resp r = { 0 };
	struct uv_channel *channel = calloc(1, sizeof(*channel));
	int pair[2];

	if (!channel)
		return ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		free(channel);
		return errno;
	}
	channel->in = pair[0];
	channel->fd = pair[1];
	channel->out = fcntl(pair[1], F_DUPFD_CLOEXEC, 0);
	uv_add(call->file, UV_CHANNEL, &channel->base);
	r.fd = (uint32_t)channel->fd;
	uv_put(call, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	return 0;
}

/* The program closes its own descriptor. */
void uv_channel_drop(struct uv_channel *channel)
{
	close(channel->in);
	if (channel->out >= 0)
		close(channel->out);
	free(channel);
}

struct uv_channel *uv_channel_of(const struct uv_file *file, uint64_t fd)
{
	struct uv_object *at = file->objects[UV_CHANNEL];

	while (at && (uint64_t)((struct uv_channel *)(void *)at)->fd != fd)
		at = at->next;
	return (struct uv_channel *)(void *)at;
}

void uv_cq_failed(struct stub_device *device, uint32_t qpn)
{
	struct uv_qp *qp = uv_qp_of_number(device, qpn);

	if (!qp || !qp->cq->channel)
		return;
	qp->cq->notice.armed =
		(ori_be32(__atomic_load_n(&qp->cq->record_arm[1], __ATOMIC_ACQUIRE)) &
		 ARMED_FOR_ERRORS) != 0;
	stub_notice_fail(&qp->cq->notice, device, qpn);
	due += qp->cq->notice.armed;
}

static void look(struct uv_qp *qp)
{
	struct uv_cq *cq = qp->cq;
	struct ib_uverbs_comp_event_desc event = { .cq_handle = cq->user_handle };

	if (!cq->qpn || !stub_notice_take(&cq->notice, cq->device, cq->qpn))
		return;
	due--;
	if (send(cq->channel->in, &event, sizeof(event), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		cq->events++;
}

void uv_channels_look(void)
{
	if (due)
		uv_each_qp(look);
}

uint32_t uv_cq_events_end(struct uv_cq *cq)
{
	struct ib_uverbs_comp_event_desc kept[KEPT];
	int count = 0;

	due -= cq->notice.armed && cq->notice.failed;
	while (cq->events && count < KEPT &&
	       recv(cq->channel->out, &kept[count], sizeof(kept[0]), MSG_DONTWAIT) > 0) {
		if (kept[count].cq_handle == cq->user_handle)
			cq->events--;
		else
			count++;
	}
	for (int i = 0; i < count; i++)
		(void)send(cq->channel->in, &kept[i], sizeof(kept[0]), MSG_DONTWAIT | MSG_NOSIGNAL);
	return cq->events;
}
