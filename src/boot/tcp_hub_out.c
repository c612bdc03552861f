/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub_out.c - the outgoing half of the hub's connections: builds messages, queues them,
 * and sends as much as the socket accepts.
 *
 * Owns the queue of each connection.  Never blocks, and closes nothing: a connection that must end
 * is marked broken.  The lowest of the hub's files: it calls none of the others.  On the hub's
 * thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tcp_hub.h"

#define ENDING_NS ORI_NS_PER_S
#define WARNINGS_MAX 10

void ori_hub_warn(struct tcp_hub *hub, const char *what)
{
	if (++hub->warned <= WARNINGS_MAX)
		ori_log(ORI_LOG_WARN, "rendezvous at %s: dropped %s%s", hub->place.name, what,
			hub->warned == WARNINGS_MAX ? "; more of this is not logged" : "");
}

struct hub_blob *ori_hub_blob(enum tcp_type type, uint64_t gid, uint64_t seq, int rank,
			      const void *body, size_t bytes)
{
	struct hub_blob *blob = malloc(sizeof(*blob) + sizeof(struct tcp_header) + bytes);
	struct tcp_header h;

	if (!blob)
		return NULL;
	blob->refs = 1;
	blob->bytes = sizeof(h) + bytes;
	ori_tcp_header_fill(&h, type, gid, seq, rank, bytes);
	memcpy(blob->data, &h, sizeof(h));
	if (bytes)
		memcpy(blob->data + sizeof(h), body, bytes);
	return blob;
}

void ori_hub_blob_drop(struct hub_blob *blob)
{
	if (--blob->refs == 0)
		free(blob);
}

void ori_hub_send_blob(struct hub_conn *c, struct hub_blob *blob)
{
	struct hub_out *out;

	if (c->broken)
		return;
	out = malloc(sizeof(*out));
	if (!out) {
		c->broken = 1;
		return;
	}
	blob->refs++;
	out->blob = blob;
	out->off = 0;
	out->next = NULL;
	*c->out_tail = out;
	c->out_tail = &out->next;
	ori_hub_conn_flush(c);
}

void ori_hub_send(struct hub_conn *c, enum tcp_type type, uint64_t gid, uint64_t seq, int rank,
		  const void *body, size_t bytes)
{
	struct hub_blob *blob = ori_hub_blob(type, gid, seq, rank, body, bytes);

	if (!blob) {
		c->broken = 1;
		return;
	}
	ori_hub_send_blob(c, blob);
	ori_hub_blob_drop(blob);
}

void ori_hub_send_others(struct tcp_hub *hub, const struct hub_conn *except, enum tcp_type type,
			 uint64_t gid, uint64_t seq, int rank, const void *body, size_t bytes)
{
	struct hub_blob *blob = ori_hub_blob(type, gid, seq, rank, body, bytes);

	for (int own = 0; own <= 1; own++)
		for (struct hub_conn *c = hub->conns; c; c = c->next) {
			if (c->state != CONN_LIVE || c == except || c->has_hub != own)
				continue;
			if (blob)
				ori_hub_send_blob(c, blob);
			else
				/* no memory: an error at the rank is better than an endless wait */
				c->broken = 1;
		}
	if (blob)
		ori_hub_blob_drop(blob);
}

static void pop(struct hub_conn *c)
{
	struct hub_out *out = c->out;

	c->out = out->next;
	if (!c->out)
		c->out_tail = &c->out;
	ori_hub_blob_drop(out->blob);
	free(out);
}

void ori_hub_conn_flush(struct hub_conn *c)
{
	while (c->out && !c->broken) {
		struct hub_out *out = c->out;
		ssize_t n = send(c->fd, out->blob->data + out->off, out->blob->bytes - out->off,
				 MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n < 0) {
			c->broken = 1;
			return;
		}
		out->off += (size_t)n;
		if (out->off == out->blob->bytes)
			pop(c);
	}
	if (c->state == CONN_ENDING)
		c->broken = 1; /* everything is sent */
}

void ori_hub_out_clear(struct hub_conn *c)
{
	while (c->out)
		pop(c);
}

void ori_hub_refuse(struct hub_conn *c, int status, const char *text)
{
	unsigned char body[4 + TCP_TEXT_MAX];
	int32_t code = status;
	size_t bytes = strnlen(text, TCP_TEXT_MAX);

	memcpy(body, &code, 4);
	memcpy(body + 4, text, bytes);
	c->state = CONN_ENDING;
	c->until_ns = ori_deadline_ns(ENDING_NS);
	ori_hub_send(c, TCP_REFUSE, 0, 0, 0, body, 4 + bytes);
}
