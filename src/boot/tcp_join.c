/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_join.c - how a rank meets the others: connect, hello, welcome.
 *
 * Owns the retries, because the hub may start later than this rank.  Everything here runs on one
 * thread of the rank, before the client's reader exists.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tcp_client.h"

#define RETRY_FIRST_NS 5000000ull
#define RETRY_LAST_NS 200000000ull
#define TRY_NS (2 * ORI_NS_PER_S) /* for one connect */

/* Internal verdict: failed now, but may succeed later. */
#define TRY_AGAIN 1

static void sleep_ns(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / ORI_NS_PER_S),
			      .tv_nsec = (long)(ns % ORI_NS_PER_S) };

	nanosleep(&t, NULL);
}

static int wait_connected(int fd, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int err = 0;
	socklen_t bytes = sizeof(err);

	for (;;) {
		uint64_t now = ori_now_ns();
		int n;

		if (now >= deadline_ns)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)((deadline_ns - now) / 1000000 + 1));
		if (n > 0)
			break;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
	return -err;
}

/*
 * A connect to a free port of this host can connect to itself.  This happens if the system picks
 * the target port as our own port.
 */
static int met_itself(int fd)
{
	struct sockaddr_storage a, b;
	socklen_t a_bytes = sizeof(a), b_bytes = sizeof(b);

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	if (getsockname(fd, (struct sockaddr *)&a, &a_bytes) ||
	    getpeername(fd, (struct sockaddr *)&b, &b_bytes))
		return 0;
	return a_bytes == b_bytes && !memcmp(&a, &b, a_bytes);
}

/* Returns a connected socket, or a negative errno. */
static int connect_once(const struct tcp_place *place, uint64_t deadline_ns)
{
	uint64_t until = ori_deadline_ns(TRY_NS);
	int fd = ori_tcp_socket(place->addr.ss_family), err = 0;

	if (fd < 0)
		return fd;
	if (connect(fd, (const struct sockaddr *)&place->addr, place->addr_bytes))
		err = errno == EINPROGRESS || errno == EINTR ?
			      wait_connected(fd, until < deadline_ns ? until : deadline_ns) :
			      -errno;
	if (!err && met_itself(fd))
		err = -ECONNREFUSED;
	if (err) {
		ori_tcp_close(fd);
		return err;
	}
	ori_tcp_tune(fd);
	return fd;
}

static int say_hello(struct tcp_client *c, uint64_t deadline_ns)
{
	struct tcp_hello hello;
	uint64_t now = ori_now_ns();

	memset(&hello, 0, sizeof(hello));
	hello.magic = TCP_MAGIC;
	hello.version = TCP_VERSION;
	memcpy(hello.secret, c->place.secret, sizeof(hello.secret));
	hello.rank = (uint32_t)c->rank;
	hello.nranks = (uint32_t)c->nranks;
	hello.has_hub = c->hub != NULL;
	hello.relay_port = ori_tcp_relay_open(c);
	hello.timeout_ns = deadline_ns > now ? deadline_ns - now : 0;
	hello.late_ns = c->late_ns;
	return ori_tcp_send_all(c->fd, &hello, sizeof(hello), ori_boot_grace_ns(deadline_ns));
}

/* Another program may have that port.  Then the next port is tried. */
static int not_ours(struct tcp_client *c)
{
	if (c->ports > 1)
		return TRY_AGAIN;
	return ori_fail(ORIEL_EPROTO, "%s answers, but not as a rendezvous of this version",
			c->place.name);
}

static int take_refusal(struct tcp_client *c, const unsigned char *body, uint32_t bytes)
{
	char text[TCP_TEXT_MAX + 1];
	int32_t status;

	if (bytes < 4)
		return not_ours(c);
	memcpy(&status, body, 4);
	memcpy(text, body + 4, bytes - 4);
	text[bytes - 4] = '\0';
	if (status == ORIEL_EBUSY || (status == ORIEL_EAUTH && c->ports > 1))
		return TRY_AGAIN;
	if (status >= 0)
		return not_ours(c);
	return ori_fail(ori_status_received(status, ORIEL_EBOOT),
			"rank %d of %d could not join: %s", c->rank, c->nranks, text);
}

static void show_late(const unsigned char *body, uint32_t bytes, int nranks)
{
	struct ori_round_report r;
	char names[ORI_BOOT_WHY_BYTES];

	if (bytes != sizeof(r))
		return;
	memcpy(&r, body, sizeof(r));
	if (r.count > ORI_GATHER_NAMED || r.total > (uint32_t)nranks)
		return;
	ori_round_names(&r, NULL, names, sizeof(names));
	ori_log(ORI_LOG_WARN, "still waiting to meet %s (%.1f s)", names, (double)r.ns / 1e9);
}

/* Whose the rendezvous is, for a message, where this is known before it has answered. */
static const char *of_rank_0(const struct tcp_client *c)
{
	return c->of_rank_0 ? " of rank 0" : "";
}

/* Returns 0 if welcome, TRY_AGAIN if the other side closed the connection, or a status. */
static int hear_answer(struct tcp_client *c, uint64_t deadline_ns)
{
	struct tcp_welcome *welcome = &c->relay.welcome;
	unsigned char body[4 + TCP_TEXT_MAX];
	struct tcp_header h;
	/* A hub answers at once.  Other programs on its port may stay silent for ever. */
	uint64_t first_ns = c->ports > 1 ? ori_deadline_ns(TRY_NS) : deadline_ns;
	int err, heard = 0;

	for (;;) {
		err = ori_tcp_recv_all(c->fd, &h, sizeof(h), heard ? deadline_ns : first_ns);
		if (err)
			break;
		heard = 1;
		if (h.magic != TCP_MAGIC || ori_tcp_body_max(h.type, 1) < 0 ||
		    h.bytes > sizeof(body))
			return not_ours(c);
		err = ori_tcp_recv_all(c->fd, body, h.bytes, deadline_ns);
		if (err)
			break;
		if (h.type == TCP_REFUSE)
			return take_refusal(c, body, h.bytes);
		if (h.type == TCP_HEARD)
			continue;
		if (h.type == TCP_LATE) {
			show_late(body, h.bytes, c->nranks);
			continue;
		}
		if (h.type != TCP_WELCOME || h.bytes != sizeof(*welcome))
			return not_ours(c);
		memcpy(welcome, body, sizeof(*welcome));
		c->hub_rank = welcome->hub_rank;
		if (c->hub_rank < 0 || c->hub_rank >= c->nranks)
			c->hub_rank = -1;
		if (welcome->parent >= c->nranks || welcome->children > TCP_CHILDREN)
			return not_ours(c);
		return 0;
	}
	if (err != -ETIMEDOUT || (!heard && c->ports > 1))
		return TRY_AGAIN;
	return ori_fail(ORIEL_ETIMEDOUT,
			"rank %d of %d: the rendezvous%s at %s took the connection but does not answer",
			c->rank, c->nranks, of_rank_0(c), c->place.name);
}

static int meet_once(struct tcp_client *c, uint64_t deadline_ns, int *last_errno)
{
	int err;

	c->fd = connect_once(&c->place, deadline_ns);
	if (c->fd < 0) {
		*last_errno = -c->fd;
		return TRY_AGAIN;
	}
	*last_errno = ECONNRESET;
	if (say_hello(c, deadline_ns))
		err = TRY_AGAIN;
	else
		err = hear_answer(c, ori_boot_grace_ns(deadline_ns));
	if (err) {
		ori_tcp_relay_end(c, 0);
		ori_tcp_close(c->fd);
		c->fd = -1;
	} else {
		ori_tcp_relay_start(c);
	}
	return err;
}

/* The deadline has passed, or the hub can no longer come.  reached: it was there once. */
static int never_met(const struct tcp_client *c, int last, int reached)
{
	const char *who = c->of_rank_0 ? "rank 0" : "nobody";
	char place[144], reason[192];

	if (c->listening && last == ECONNREFUSED)
		return ori_fail(
			ORIEL_EPEER,
			"rank %d of %d: rank 0 is gone: nobody has the rendezvous at %s any more",
			c->rank, c->nranks, c->place.name);
	if (c->ports > 1)
		snprintf(place, sizeof(place), "one of the %d ports up to %s", c->ports,
			 c->place.name);
	else
		snprintf(place, sizeof(place), "%s", c->place.name);
	if (reached)
		return ori_fail(ORIEL_ETIMEDOUT,
				"rank %d of %d: the rendezvous%s at %s hung up and did not take "
				"this rank again within %.1f s: %s",
				c->rank, c->nranks, of_rank_0(c), place,
				(double)c->timeout_ns / 1e9,
				ori_errno_text(last, reason, sizeof(reason)));
	return ori_fail(ORIEL_ETIMEDOUT,
			"rank %d of %d: %s has%s opened the rendezvous at %s within %.1f s: %s",
			c->rank, c->nranks, who, c->of_rank_0 ? " not" : "", place,
			(double)c->timeout_ns / 1e9, ori_errno_text(last, reason, sizeof(reason)));
}

int ori_tcp_meet(struct tcp_client *c)
{
	uint64_t deadline = ori_deadline_ns(c->timeout_ns), pause = RETRY_FIRST_NS;
	int last = 0, reached = 0, err;

	for (int i = 0;; i++) {
		ori_tcp_port_set(&c->place, c->port + i % c->ports);
		err = meet_once(c, deadline, &last);
		if (err != TRY_AGAIN)
			return err;
		reached |= c->ports == 1 && last == ECONNRESET;
		if (ori_now_ns() + pause >= deadline || (c->listening && last == ECONNREFUSED))
			break;
		if ((i + 1) % c->ports) /* all ports first, then a pause */
			continue;
		sleep_ns(pause);
		if (pause < RETRY_LAST_NS)
			pause *= 2;
	}
	ori_tcp_port_set(&c->place, c->port + c->ports - 1);
	return never_met(c, last, reached);
}
