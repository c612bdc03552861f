/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub_conn.c - the hub's connections: bytes in, timers, endings.
 *
 * Owns the list of connections and their states.  Never blocks.  tcp_hub_join.c, tcp_hub_round.c
 * and tcp_hub_meet.c decide what a message means, tcp_hub_out.c sends.  Nothing is freed while the
 * loop walks the list: a connection that must end is marked broken, and removed at the end of the
 * turn.  On the hub's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tcp_hub.h"

#define READS_A_TURN 16 /* so that one busy rank does not delay the others */

/* ---- in ------------------------------------------------------------------------------------- */

/*
 * Other connections will close later.  Until then ranks seem to be missing, so this logs the
 * reason.
 */
static void accept_failed(struct tcp_hub *hub, int error)
{
	char reason[192];

	hub->accept_ns = ori_deadline_ns(ORI_NS_PER_S / 10); /* avoids a busy loop */
	if (hub->full || (error != EMFILE && error != ENFILE))
		return;
	hub->full = error;
	ori_log(ORI_LOG_ERROR, "the rendezvous at %s cannot take connections of ranks: %s",
		hub->place.name, ori_errno_text(error, reason, sizeof(reason)));
}

void ori_hub_accept(struct tcp_hub *hub)
{
	while (hub->strangers < HUB_STRANGERS_MAX) {
		int fd = ori_tcp_accept(hub->listen_fd);
		struct hub_conn *c;

		if (fd == -EINTR || fd == -ECONNABORTED)
			continue;
		if (fd < 0) {
			if (fd != -EAGAIN)
				accept_failed(hub, -fd);
			return;
		}
		c = calloc(1, sizeof(*c));
		if (!c) {
			ori_tcp_close(fd);
			return;
		}
		ori_tcp_tune(fd);
		c->fd = fd;
		c->rank = -1;
		c->out_tail = &c->out;
		c->until_ns = ori_deadline_ns(TCP_HELLO_NS);
		c->next = hub->conns;
		hub->conns = c;
		hub->strangers++;
		/* The hello may be here already, and a deadline of this turn must count it. */
		ori_hub_conn_read(hub, c);
	}
}

static void take_abort(struct tcp_hub *hub, struct hub_conn *c)
{
	const struct tcp_header *h = &c->in.header;

	if (h->bytes < 4) {
		ori_hub_warn(hub, "a malformed abort");
		c->broken = 1;
		return;
	}
	ori_hub_send_others(hub, c, TCP_ABORT, h->gid, 0, c->rank, c->body, h->bytes);
	if (c->has_hub && h->seq)
		ori_hub_abort_taken(hub, h->seq);
}

/* Forwards a question or an answer to the rank that it names, with the sender's rank. */
static void pass_on(struct tcp_hub *hub, struct hub_conn *c)
{
	const struct tcp_header *h = &c->in.header;
	struct hub_conn *to = h->rank < (uint32_t)hub->nranks ? hub->slots[h->rank].conn : NULL;

	if (to)
		ori_hub_send(to, (enum tcp_type)h->type, h->gid, h->seq, c->rank, c->body,
			     h->bytes);
}

static void take_bye(struct tcp_hub *hub, struct hub_conn *c)
{
	c->state = CONN_ENDING;
	c->broken = 1;
	hub->slots[c->rank].state = SLOT_LEFT;
	hub->slots[c->rank].conn = NULL;
	hub->live--;
	hub->left[hub->nleft++] = (uint32_t)c->rank; /* each rank once */
	ori_hub_meet_gone(hub, c->rank);
}

void ori_hub_tell_left(struct tcp_hub *hub)
{
	if (!hub->nleft)
		return;
	ori_hub_send_others(hub, NULL, TCP_LEFT, 0, 0, 0, hub->left,
			    (size_t)hub->nleft * sizeof(*hub->left));
	hub->nleft = 0;
}

static void take_message(struct tcp_hub *hub, struct hub_conn *c)
{
	if (c->in.header.type == TCP_CONTRIB)
		ori_hub_contrib(hub, c);
	else if (c->in.header.type == TCP_MEET)
		ori_hub_meet(hub, c);
	else if (c->in.header.type == TCP_ABORT)
		take_abort(hub, c);
	else if (c->in.header.type == TCP_LINKED)
		ori_hub_linked(hub, c);
	else if (c->in.header.type == TCP_ASK || c->in.header.type == TCP_TELL)
		pass_on(hub, c);
	else
		take_bye(hub, c);
	free(c->body);
	c->body = NULL;
	c->body_got = 0;
	c->in_got = 0;
}

/* A header is complete: checks it, and takes memory for the body. */
static void take_header(struct tcp_hub *hub, struct hub_conn *c)
{
	const struct tcp_header *h = &c->in.header;
	int64_t max = ori_tcp_body_max(h->type, 0);

	if (h->magic != TCP_MAGIC || max < 0 || h->bytes > max || c->state != CONN_LIVE) {
		ori_hub_warn(hub, "a rank that sent a malformed message");
		c->broken = 1;
		return;
	}
	if (!h->bytes) {
		take_message(hub, c);
		return;
	}
	c->body = malloc(h->bytes);
	if (!c->body) {
		ori_hub_warn(hub, "a rank, for want of memory");
		c->broken = 1;
	}
}

static void conn_eof(struct tcp_hub *hub, struct hub_conn *c)
{
	if (c->state == CONN_HELLO)
		ori_hub_warn(hub, c->in_got ? "a connection that ended during its hello" :
					      "a connection that ended without a hello");
	c->broken = 1;
}

/* The missing part of the hello, the header or the body. */
static size_t wanted(struct hub_conn *c, void **at)
{
	size_t whole = c->state == CONN_HELLO ? sizeof(c->in.hello) : sizeof(c->in.header);

	if (c->body) {
		*at = c->body + c->body_got;
		return c->in.header.bytes - c->body_got;
	}
	*at = c->in.bytes + c->in_got;
	return whole - c->in_got;
}

static void took(struct tcp_hub *hub, struct hub_conn *c, size_t bytes, int last)
{
	if (c->body) {
		c->body_got += bytes;
		if (last)
			take_message(hub, c);
		return;
	}
	c->in_got += bytes;
	if (last && c->state == CONN_HELLO)
		ori_hub_hello(hub, c);
	else if (last)
		take_header(hub, c);
}

void ori_hub_conn_read(struct tcp_hub *hub, struct hub_conn *c)
{
	for (int i = 0; i < READS_A_TURN && !c->broken && c->state != CONN_ENDING; i++) {
		void *at;
		size_t bytes = wanted(c, &at);
		ssize_t n = recv(c->fd, at, bytes, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0) {
			conn_eof(hub, c);
			return;
		}
		took(hub, c, (size_t)n, (size_t)n == bytes);
	}
}

void ori_hub_conn_timer(struct tcp_hub *hub, struct hub_conn *c, uint64_t now)
{
	if (c->broken || c->state == CONN_LIVE)
		return;
	if (c->state == CONN_WAITING) {
		ori_hub_join_timer(hub, c, now);
	} else if (now >= c->until_ns) {
		if (c->state == CONN_HELLO)
			ori_hub_warn(hub, "a connection that did not say who it is");
		c->broken = 1;
	}
}

/* ---- endings -------------------------------------------------------------------------------- */

static void conn_free(struct hub_conn *c)
{
	ori_hub_out_clear(c);
	free(c->body);
	ori_tcp_close(c->fd);
	free(c);
}

/* The connection is no longer in the list. */
static void conn_gone(struct tcp_hub *hub, struct hub_conn *c)
{
	int was_live = c->state == CONN_LIVE;

	if (c->state == CONN_HELLO) {
		hub->strangers--;
	} else if (c->state == CONN_WAITING) {
		hub->slots[c->rank].state = SLOT_EMPTY;
		hub->slots[c->rank].conn = NULL;
		if (--hub->waiting == 0)
			hub->idle_ns = ori_now_ns();
	} else if (was_live) {
		hub->slots[c->rank].state = SLOT_DEAD;
		hub->slots[c->rank].conn = NULL;
		hub->live--;
		ori_hub_meet_gone(hub, c->rank);
		ori_hub_send_others(hub, NULL, TCP_DEAD, 0, 0, c->rank, NULL, 0);
	}
	conn_free(c);
}

void ori_hub_sweep(struct tcp_hub *hub)
{
	struct hub_conn **at = &hub->conns;

	while (*at) {
		struct hub_conn *c = *at;

		if (!c->broken) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		conn_gone(hub, c);
		/* sending may have broken a connection that was already visited */
		at = &hub->conns;
	}
}

void ori_hub_close_all(struct tcp_hub *hub)
{
	while (hub->conns) {
		struct hub_conn *c = hub->conns;

		hub->conns = c->next;
		conn_free(c);
	}
	ori_round_destroy_all(&hub->gathers);
	ori_round_destroy_all(&hub->meetings);
	free(hub->slots);
	free(hub->left);
	hub->slots = NULL;
	hub->left = NULL;
}
