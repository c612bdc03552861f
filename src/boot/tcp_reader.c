/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_reader.c - a rank's reader: the thread that takes what comes from the hub and down the tree.
 *
 * Owns the putting together of messages.  Never blocks but in poll: a peer that stops in the middle of a
 * message keeps nobody else from being heard.  Sizes are bounded before memory is taken.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tcp_client.h"

#define READS_A_TURN 16 /* so that a large result does not keep the tree waiting */
#define DRAIN_NS ORI_NS_PER_S

void ori_tcp_packet_drop(struct tcp_packet *packet)
{
	if (packet && --packet->refs == 0)
		free(packet);
}

/* The header is complete: is it one of ours, and is there room for what follows? */
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

static int read_hub(struct tcp_client *c)
{
	struct tcp_packet *packet = NULL;
	int err = 0;

	for (int i = 0; i < READS_A_TURN && err >= 0; i++) {
		size_t before = c->in.got;

		err = ori_tcp_in_step(&c->in, c->fd, &packet);
		if (err == 1) {
			err = ori_tcp_client_take(c, packet);
			ori_tcp_packet_drop(packet);
			packet = NULL;
		} else if (err == 0 && c->in.got == before) {
			break; /* nothing more is there */
		}
	}
	return err < 0 ? err : 0;
}

static int poll_ms(const struct tcp_client *c)
{
	uint64_t until = ori_tcp_relay_deadline(c), now = ori_now_ns();

	if (until == UINT64_MAX)
		return -1; /* the end of the connection, or of the client, ends it */
	return until <= now ? 0 : (int)((until - now) / 1000000 + 1);
}

static int serve(struct tcp_client *c)
{
	struct pollfd fds[1 + TCP_RELAY_FDS];
	int n, got;

	fds[0] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
	n = ori_tcp_relay_fill(c, fds + 1);
	got = ori_tcp_relay_poll(fds, 1 + n, poll_ms(c));
	if (got < 0 && errno != EINTR)
		return -errno;
	if (got < 0)
		return 0;
	ori_tcp_relay_serve(c, fds + 1, n);
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

/* The library's threads take no signals: those are the program's. */
int ori_tcp_reader_start(struct tcp_client *c)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&c->reader, NULL, reader_main, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err ? ori_fail_errno(err, "cannot start the reader of rank %d", c->rank) : 0;
}
