/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_in.c - receives a message piece by piece, until it is complete.
 *
 * Never blocks.  Sizes are checked before memory is allocated.  Owns no state.  Called by:
 * tcp_reader.c for the hub, tcp_relay.c for the parent, on the reader's thread.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tcp_client.h"

void ori_tcp_packet_drop(struct tcp_packet *packet)
{
	if (packet && --packet->refs == 0)
		free(packet);
}

/* The header is complete: checks it, and takes memory for the body. */
static int begin_packet(struct tcp_in *in)
{
	const struct tcp_header *h = &in->header;
	int64_t max = ori_tcp_body_max(h->type, 1);

	if (h->magic != TCP_MAGIC || max < 0 || h->bytes > max)
		return -EPROTO;
	in->packet = malloc(sizeof(*in->packet) + sizeof(*h) + h->bytes);
	if (!in->packet)
		return -ENOMEM;
	in->packet->refs = 1;
	in->packet->bytes = sizeof(*h) + h->bytes;
	memcpy(in->packet->data, h, sizeof(*h));
	return 0;
}

static int is_whole(const struct tcp_in *in)
{
	return in->packet && in->got == in->packet->bytes;
}

int ori_tcp_in_step(struct tcp_in *in, int fd, struct tcp_packet **packet)
{
	size_t whole = in->packet ? in->packet->bytes : sizeof(in->header);
	unsigned char *at = in->packet ? in->packet->data : (unsigned char *)&in->header;
	ssize_t n = recv(fd, at + in->got, whole - in->got, 0);
	int err = 0;

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	in->got += (size_t)n;
	if (!in->packet && in->got == sizeof(in->header))
		err = begin_packet(in);
	if (err || !is_whole(in))
		return err;
	*packet = in->packet;
	in->packet = NULL;
	in->got = 0;
	return 1;
}
