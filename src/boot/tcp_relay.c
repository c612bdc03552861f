/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_relay.c - a rank's place in the tree that distributes large results: its link to its
 * parent, and the links of its children.
 *
 * Owns those sockets.  Nothing here can fail a boot: a rank without a link does not report one to
 * the hub, and the hub then sends everything itself.  A child must have the job's secret.
 *
 * Threads: open and start on the joining thread, before there is a reader; the rest on the
 * reader's.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tcp_client.h"

#define SEND_NS (2 * ORI_NS_PER_S)

uint64_t ori_tcp_relay_count; /* atomic, relaxed: a count for tests */

/* ---- children ------------------------------------------------------------------------------- */

uint16_t ori_tcp_relay_open(struct tcp_client *c)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);
	struct sockaddr_in *port = (struct sockaddr_in *)&addr; /* at the same offset in IPv6 */
	int fd;

	c->relay.parent_fd = -1;
	c->relay.listen_fd = -1;
	for (int i = 0; i < TCP_KNOCKERS; i++)
		c->relay.child[i].fd = -1;
	/* Listens only at the address by which this rank reaches the hub. */
	if (getsockname(c->fd, (struct sockaddr *)&addr, &bytes))
		return 0;
	port->sin_port = 0;
	fd = ori_tcp_socket(addr.ss_family);
	if (fd < 0)
		return 0;
	if (bind(fd, (struct sockaddr *)&addr, bytes) || listen(fd, TCP_KNOCKERS) ||
	    getsockname(fd, (struct sockaddr *)&addr, &bytes)) {
		ori_tcp_close(fd);
		return 0;
	}
	c->relay.listen_fd = fd;
	return ntohs(port->sin_port);
}

static void close_listener(struct tcp_relay *relay)
{
	ori_tcp_close(relay->listen_fd);
	relay->listen_fd = -1;
}

static void pop_out(struct tcp_child *child)
{
	struct tcp_out *out = child->out;

	child->out = out->next;
	if (!child->out)
		child->out_tail = &child->out;
	ori_tcp_packet_drop(out->packet);
	free(out);
}

static void child_close(struct tcp_relay *relay, struct tcp_child *child)
{
	while (child->out)
		pop_out(child);
	relay->children -= child->up;
	ori_tcp_close(child->fd);
	child->fd = -1;
}

static void child_accept(struct tcp_relay *relay)
{
	struct tcp_child *child = relay->child;
	int fd;

	while (child < relay->child + TCP_KNOCKERS && child->fd >= 0)
		child++;
	if (child == relay->child + TCP_KNOCKERS)
		return;
	fd = ori_tcp_accept(relay->listen_fd);
	if (fd < 0)
		return;
	ori_tcp_tune(fd);
	memset(child, 0, sizeof(*child));
	child->fd = fd;
	child->out_tail = &child->out;
	child->until_ns = ori_deadline_ns(TCP_HELLO_NS);
}

static int hello_is_right(const struct tcp_client *c, const struct tcp_hello *hello)
{
	if (hello->magic != TCP_MAGIC || !ori_tcp_secret_equal(hello->secret, c->place.secret))
		return 0;
	return hello->version == TCP_VERSION && hello->nranks == (uint32_t)c->nranks &&
	       c->relay.children < (int)c->relay.welcome.children;
}

/* Reads the hello.  A child sends nothing after it, so later reads only detect its end. */
static void child_read(struct tcp_client *c, struct tcp_child *child)
{
	struct tcp_header welcome;
	ssize_t n = recv(child->fd, (char *)&child->hello + child->got,
			 sizeof(child->hello) - child->got, 0);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	if (n <= 0 || child->up) {
		child_close(&c->relay, child);
		return;
	}
	child->got += (size_t)n;
	if (child->got < sizeof(child->hello))
		return;
	ori_tcp_header_fill(&welcome, TCP_WELCOME, 0, 0, c->rank, 0);
	/* 32 bytes always fit into an empty socket. */
	if (!hello_is_right(c, &child->hello) ||
	    send(child->fd, &welcome, sizeof(welcome), MSG_NOSIGNAL) != sizeof(welcome)) {
		child_close(&c->relay, child);
		return;
	}
	child->up = 1;
	if (++c->relay.children == (int)c->relay.welcome.children)
		close_listener(&c->relay);
}

static void child_flush(struct tcp_relay *relay, struct tcp_child *child)
{
	while (child->out) {
		struct tcp_out *out = child->out;
		ssize_t n = send(child->fd, out->packet->data + out->off,
				 out->packet->bytes - out->off, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n < 0) {
			child_close(relay, child);
			return;
		}
		out->off += (size_t)n;
		if (out->off == out->packet->bytes)
			pop_out(child);
	}
}

void ori_tcp_relay_pass(struct tcp_client *c, struct tcp_packet *packet)
{
	for (int i = 0; i < TCP_KNOCKERS; i++) {
		struct tcp_child *child = &c->relay.child[i];
		struct tcp_out *out;

		if (child->fd < 0 || !child->up)
			continue;
		out = calloc(1, sizeof(*out));
		if (!out) {
			/* an error at the child is better than an endless wait */
			child_close(&c->relay, child);
			continue;
		}
		packet->refs++;
		__atomic_fetch_add(&ori_tcp_relay_count, 1, __ATOMIC_RELAXED);
		out->packet = packet;
		*child->out_tail = out;
		child->out_tail = &out->next;
		child_flush(&c->relay, child);
	}
}

/* ---- the parent ----------------------------------------------------------------------------- */

static void tell_hub(struct tcp_client *c, int up)
{
	struct tcp_header h;

	ori_tcp_header_fill(&h, TCP_LINKED, 0, (uint64_t)up, c->rank, 0);
	/* An error is not reported here: the reader notices a hub that cannot be reached. */
	ori_tcp_client_send(c, &h, NULL, 0, NULL, 0, ori_deadline_ns(SEND_NS));
}

void ori_tcp_relay_cut(struct tcp_client *c)
{
	struct tcp_relay *relay = &c->relay;
	int was_up = relay->link == TCP_LINK_UP;

	ori_tcp_close(relay->parent_fd);
	relay->parent_fd = -1;
	relay->link = TCP_LINK_NONE;
	ori_tcp_packet_drop(relay->in.packet);
	memset(&relay->in, 0, sizeof(relay->in));
	if (!was_up)
		return;
	tell_hub(c, 0);
	ori_tcp_client_unlinked(c);
	for (int i = 0; i < TCP_KNOCKERS; i++) {
		struct tcp_child *child = &relay->child[i];

		if (child->fd >= 0 && !child->out)
			child_close(relay, child);
	}
}

void ori_tcp_relay_start(struct tcp_client *c)
{
	struct tcp_relay *relay = &c->relay;
	struct sockaddr_storage addr;
	socklen_t bytes;

	if (!relay->welcome.children)
		close_listener(relay);
	if (relay->welcome.parent < 0 ||
	    ori_tcp_addr_unpack(relay->welcome.family, relay->welcome.port, relay->welcome.addr,
				&addr, &bytes))
		return;
	relay->parent_fd = ori_tcp_socket(addr.ss_family);
	if (relay->parent_fd < 0)
		return;
	relay->link = TCP_LINK_CONNECTING;
	/* The socket does not block.  The reader learns the result. */
	if (connect(relay->parent_fd, (struct sockaddr *)&addr, bytes) && errno != EINPROGRESS)
		ori_tcp_relay_cut(c);
}

static void link_connected(struct tcp_client *c)
{
	struct tcp_relay *relay = &c->relay;
	struct tcp_hello hello;
	int err = 0;
	socklen_t bytes = sizeof(err);

	memset(&hello, 0, sizeof(hello));
	hello.magic = TCP_MAGIC;
	hello.version = TCP_VERSION;
	memcpy(hello.secret, c->place.secret, sizeof(hello.secret));
	hello.rank = (uint32_t)c->rank;
	hello.nranks = (uint32_t)c->nranks;
	getsockopt(relay->parent_fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
	if (err || send(relay->parent_fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
		ori_tcp_relay_cut(c);
		return;
	}
	ori_tcp_tune(relay->parent_fd);
	relay->link = TCP_LINK_HELLO;
}

/*
 * The parent sends its welcome, and then results.  *result: a complete one, which belongs to the
 * caller.
 */
static int take_from_parent(struct tcp_client *c, struct tcp_packet *packet,
			    struct tcp_packet **result)
{
	struct tcp_header h;

	memcpy(&h, packet->data, sizeof(h));
	if (c->relay.link == TCP_LINK_UP) {
		if (h.type != TCP_SPREAD)
			return -EPROTO;
		*result = packet;
		return 0;
	}
	if (h.type != TCP_WELCOME || h.rank != (uint32_t)c->relay.welcome.parent)
		return -EPROTO;
	c->relay.link = TCP_LINK_UP;
	tell_hub(c, 1);
	return 0;
}

static struct tcp_packet *link_read(struct tcp_client *c)
{
	struct tcp_packet *packet, *result = NULL;
	int err = ori_tcp_in_step(&c->relay.in, c->relay.parent_fd, &packet);

	if (err == 1) {
		err = take_from_parent(c, packet, &result);
		if (!result)
			ori_tcp_packet_drop(packet);
	}
	if (err < 0)
		ori_tcp_relay_cut(c);
	return result;
}

/* ---- in the reader's loop ------------------------------------------------------------------- */

int ori_tcp_relay_fill(struct tcp_client *c, struct pollfd *fds)
{
	struct tcp_relay *relay = &c->relay;

	fds[0] = (struct pollfd){ .fd = relay->listen_fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = relay->parent_fd, .events = POLLIN };
	if (relay->link == TCP_LINK_CONNECTING)
		fds[1].events = POLLOUT;
	for (int i = 0; i < TCP_KNOCKERS; i++) {
		struct tcp_child *child = &relay->child[i];

		fds[2 + i] = (struct pollfd){ .fd = child->fd, .events = POLLIN };
		if (child->fd >= 0 && child->out)
			fds[2 + i].events |= POLLOUT;
	}
	return TCP_RELAY_FDS;
}

/* The earliest deadline of a connection without a hello. */
uint64_t ori_tcp_relay_deadline(const struct tcp_client *c)
{
	uint64_t until = UINT64_MAX;

	for (int i = 0; i < TCP_KNOCKERS; i++) {
		const struct tcp_child *child = &c->relay.child[i];

		if (child->fd >= 0 && !child->up && child->until_ns < until)
			until = child->until_ns;
	}
	return until;
}

struct tcp_packet *ori_tcp_relay_serve(struct tcp_client *c, const struct pollfd *fds, int n)
{
	struct tcp_relay *relay = &c->relay;
	uint64_t now = ori_now_ns();

	for (int i = 0; i < n - 2; i++) {
		struct tcp_child *child = &relay->child[i];
		short got = fds[2 + i].revents;

		if (child->fd < 0 || child->fd != fds[2 + i].fd)
			continue;
		if (got & POLLOUT)
			child_flush(relay, child);
		if (child->fd >= 0 && got & (POLLIN | POLLHUP | POLLERR))
			child_read(c, child);
		if (child->fd >= 0 && !child->up && now >= child->until_ns)
			child_close(relay, child);
	}
	if (fds[0].revents && relay->listen_fd >= 0)
		child_accept(relay);
	if (!fds[1].revents || relay->parent_fd < 0)
		return NULL;
	if (relay->link != TCP_LINK_CONNECTING)
		return link_read(c);
	link_connected(c);
	return NULL;
}

int ori_tcp_relay_poll(struct pollfd *fds, int n, int ms)
{
	struct pollfd open[1 + TCP_RELAY_FDS];
	int at[1 + TCP_RELAY_FDS], count = 0, got;

	for (int i = 0; i < n; i++) {
		fds[i].revents = 0;
		if (fds[i].fd < 0)
			continue;
		at[count] = i;
		open[count++] = fds[i];
	}
	got = poll(open, (nfds_t)count, ms);
	for (int i = 0; got > 0 && i < count; i++)
		fds[at[i]].revents = open[i].revents;
	return got;
}

/* The number of children with pending data; 0 at the deadline. */
static int owes(const struct tcp_relay *relay)
{
	int n = 0;

	for (int i = 0; i < TCP_KNOCKERS; i++)
		n += relay->child[i].fd >= 0 && relay->child[i].out != NULL;
	return n;
}

void ori_tcp_relay_end(struct tcp_client *c, uint64_t ns)
{
	struct tcp_relay *relay = &c->relay;
	uint64_t until = ori_deadline_ns(ns);
	struct pollfd fds[TCP_RELAY_FDS];

	while (owes(relay) && ori_now_ns() < until) {
		ori_tcp_relay_fill(c, fds);
		if (ori_tcp_relay_poll(fds + 2, TCP_KNOCKERS, 100) <= 0)
			continue;
		for (int i = 0; i < TCP_KNOCKERS; i++) {
			if (fds[2 + i].revents & (POLLOUT | POLLHUP | POLLERR))
				child_flush(relay, &relay->child[i]);
		}
	}
	for (int i = 0; i < TCP_KNOCKERS; i++) {
		if (relay->child[i].fd >= 0)
			child_close(relay, &relay->child[i]);
	}
	close_listener(relay);
	ori_tcp_close(relay->parent_fd);
	relay->parent_fd = -1;
	ori_tcp_packet_drop(relay->in.packet);
	relay->in.packet = NULL;
}
