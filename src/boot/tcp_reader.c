/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_reader.c - a rank's reader: the thread that receives messages from the hub and the tree.
 *
 * Owns the thread.  It blocks in poll only.  So a peer that stops in the middle of a message does
 * not delay messages of others.  tcp_take.c knows what a message means.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tcp_client.h"

#define READS_A_TURN 16 /* so that a large result does not delay the tree */
#define DRAIN_NS ORI_NS_PER_S

/* Handles the packet and frees it.  Returns 0 or -EPROTO. */
static int take(struct tcp_client *c, struct tcp_packet *packet)
{
	struct tcp_header h;
	int err;

	memcpy(&h, packet->data, sizeof(h));
	if (h.type == TCP_SPREAD)
		/* first, because this rank may leave once it has its own copy */
		ori_tcp_relay_pass(c, packet);
	err = ori_tcp_client_take(c, packet);
	ori_tcp_packet_drop(packet);
	return err;
}

static int read_hub(struct tcp_client *c)
{
	struct tcp_packet *packet = NULL;
	int err = 0;

	for (int i = 0; i < READS_A_TURN && err >= 0; i++) {
		size_t before = c->in.got;

		err = ori_tcp_in_step(&c->in, c->fd, &packet);
		if (err == 1) {
			err = take(c, packet);
			packet = NULL;
		} else if (err == 0 && c->in.got == before) {
			break; /* no more data */
		}
	}
	return err < 0 ? err : 0;
}

static int poll_ms(const struct tcp_client *c)
{
	uint64_t until = ori_tcp_relay_deadline(c), now = ori_now_ns();

	if (until == UINT64_MAX)
		return -1; /* the connection or the client has ended */
	return until <= now ? 0 : (int)((until - now) / 1000000 + 1);
}

static int serve(struct tcp_client *c)
{
	struct pollfd fds[1 + TCP_RELAY_FDS];
	struct tcp_packet *result;
	int n, got;

	fds[0] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
	n = ori_tcp_relay_fill(c, fds + 1);
	got = ori_tcp_relay_poll(fds, 1 + n, poll_ms(c));
	if (got < 0 && errno != EINTR)
		return -errno;
	if (got < 0)
		return 0;
	result = ori_tcp_relay_serve(c, fds + 1, n);
	if (result && take(c, result))
		ori_tcp_relay_cut(c);
	return fds[0].revents ? read_hub(c) : 0;
}

static void *reader_main(void *arg)
{
	struct tcp_client *c = arg;
	int err, closing;

	ori_log_rank_set(c->rank);
	do {
		err = serve(c);
	} while (!err);
	pthread_mutex_lock(&c->lock);
	closing = c->closing;
	pthread_mutex_unlock(&c->lock);
	if (!closing && err == -EPROTO)
		ori_tcp_client_lost(c, ORIEL_EPROTO, "sent a malformed message");
	else if (!closing)
		ori_tcp_client_lost(c, ORIEL_EPEER, "is gone");
	ori_tcp_relay_end(c, DRAIN_NS);
	ori_tcp_packet_drop(c->in.packet);
	pthread_mutex_lock(&c->lock);
	c->reader_ended = 1;
	pthread_cond_broadcast(&c->cond);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int ori_tcp_reader_start(struct tcp_client *c)
{
	int err = ori_thread_start(&c->reader, reader_main, c);

	return err ? ori_fail_errno(err, "cannot start the reader of rank %d", c->rank) : 0;
}
