/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_wire.c - the bytes of messages, addresses, and complete reads and writes with a
 * deadline.
 *
 * Owns no state.  Called by: hub and clients, on their own threads.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tcp.h"

void ori_tcp_header_fill(struct tcp_header *h, enum tcp_type type, uint64_t gid, uint64_t seq,
			 int rank, size_t bytes)
{
	h->magic = TCP_MAGIC;
	h->type = type;
	h->gid = gid;
	h->seq = seq;
	h->rank = (uint32_t)rank;
	h->bytes = (uint32_t)bytes;
}

int64_t ori_tcp_body_max(uint32_t type, int from_hub)
{
	switch (type) {
	case TCP_CONTRIB:
		return from_hub ? -1 : (int64_t)sizeof(struct tcp_contrib) + TCP_CONTRIB_MAX;
	case TCP_MEET:
		return from_hub ? -1 :
				  (int64_t)(sizeof(struct tcp_contrib) + sizeof(struct tcp_meet)) +
					  4 * ORI_BOOT_RANKS_MAX;
	case TCP_BYE:
	case TCP_LINKED:
		return from_hub ? -1 : 0;
	case TCP_ABORT:
		return 4 + TCP_TEXT_MAX;
	case TCP_ASK:
		return 0;
	case TCP_TELL:
		return ORI_BOOT_ANSWER_BYTES;
	case TCP_WELCOME:
		return from_hub ? (int64_t)sizeof(struct tcp_welcome) : -1;
	case TCP_REFUSE:
		return from_hub ? 4 + TCP_TEXT_MAX : -1;
	case TCP_RESULT:
	case TCP_SPREAD:
		return from_hub ? (int64_t)TCP_RESULT_MAX : -1;
	case TCP_LATE:
	case TCP_FAIL:
		return from_hub ? (int64_t)sizeof(struct ori_round_report) : -1;
	case TCP_HEARD:
	case TCP_COMPLETE:
	case TCP_DEAD:
		return from_hub ? 0 : -1;
	case TCP_LEFT:
		return from_hub ? 4 * ORI_BOOT_RANKS_MAX : -1;
	default:
		return -1;
	}
}

int ori_tcp_secret_equal(const unsigned char *a, const unsigned char *b)
{
	volatile unsigned char differ = 0; /* volatile: the compiler cannot end the loop early */

	for (int i = 0; i < TCP_SECRET_BYTES; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

void ori_tcp_place_name(struct tcp_place *place)
{
	char host[INET6_ADDRSTRLEN] = "?";
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&place->addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&place->addr;

	if (place->addr.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(place->name, sizeof(place->name), "[%s]:%d", host, ntohs(v6->sin6_port));
	} else {
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(place->name, sizeof(place->name), "%s:%d", host, ntohs(v4->sin_port));
	}
}

int ori_tcp_addr_pack(const struct sockaddr_storage *addr, uint16_t *family,
		      unsigned char bytes[16])
{
	memset(bytes, 0, 16);
	*family = addr->ss_family;
	if (addr->ss_family == AF_INET)
		memcpy(bytes, &((const struct sockaddr_in *)addr)->sin_addr, 4);
	else if (addr->ss_family == AF_INET6)
		memcpy(bytes, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
	else
		return -1;
	return 0;
}

int ori_tcp_addr_unpack(uint16_t family, uint16_t port, const unsigned char bytes[16],
			struct sockaddr_storage *addr, socklen_t *addr_bytes)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = family;
	if (family == AF_INET) {
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, bytes, 4);
		*addr_bytes = sizeof(*v4);
	} else if (family == AF_INET6) {
		v6->sin6_port = htons(port);
		memcpy(&v6->sin6_addr, bytes, 16);
		*addr_bytes = sizeof(*v6);
	} else {
		return -1;
	}
	return 0;
}

/* The port has the same offset in both families. */
int ori_tcp_port(const struct tcp_place *place)
{
	return ntohs(((const struct sockaddr_in *)&place->addr)->sin_port);
}

void ori_tcp_port_set(struct tcp_place *place, int port)
{
	((struct sockaddr_in *)&place->addr)->sin_port = htons((uint16_t)port);
	ori_tcp_place_name(place);
}

int ori_tcp_is_loopback(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == 127;
	if (addr->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
	return 0;
}

int ori_tcp_resolve(const char *variable, const char *host, int port, struct tcp_place *place)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL, *pick;
	char service[16];
	int err;

	snprintf(service, sizeof(service), "%d", port);
	hints.ai_flags = AI_NUMERICSERV;
	err = getaddrinfo(host, service, &hints, &list);
	if (err || !list)
		return ori_fail(ORIEL_ECONFIG, "%s=%.100s: no such address: %s", variable, host,
				gai_strerror(err));
	/*
	 * IPv4 first: all ranks must pick the same address, and not every host has a working IPv6.
	 */
	for (pick = list; pick && pick->ai_family != AF_INET; pick = pick->ai_next)
		;
	if (!pick)
		pick = list;
	memset(&place->addr, 0, sizeof(place->addr));
	memcpy(&place->addr, pick->ai_addr, pick->ai_addrlen);
	place->addr_bytes = pick->ai_addrlen;
	freeaddrinfo(list);
	ori_tcp_place_name(place);
	return 0;
}

/* Returns 0 when ready or in error (the next call shows which), -ETIMEDOUT at the deadline. */
static int wait_ready(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now = ori_now_ns(), ms;
		int n;

		if (now >= deadline_ns)
			return -ETIMEDOUT;
		ms = (deadline_ns - now) / 1000000 + 1;
		n = poll(&p, 1, ms > 60000 ? 60000 : (int)ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

int ori_tcp_send_all(int fd, const void *data, size_t bytes, uint64_t deadline_ns)
{
	const unsigned char *at = data;

	while (bytes) {
		ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
		int err = 0;

		if (n > 0) {
			at += n;
			bytes -= (size_t)n;
		} else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			err = wait_ready(fd, POLLOUT, deadline_ns);
		} else if (n < 0 && errno != EINTR) {
			err = -errno;
		}
		if (err)
			return err;
	}
	return 0;
}

int ori_tcp_recv_all(int fd, void *data, size_t bytes, uint64_t deadline_ns)
{
	unsigned char *at = data;

	while (bytes) {
		ssize_t n = recv(fd, at, bytes, 0);
		int err = 0;

		if (n > 0) {
			at += n;
			bytes -= (size_t)n;
		} else if (n == 0) {
			err = -ECONNRESET;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			err = wait_ready(fd, POLLIN, deadline_ns);
		} else if (errno != EINTR) {
			err = -errno;
		}
		if (err)
			return err;
	}
	return 0;
}
