/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/fetching.c - the asking side of passing.c: one descriptor from another process.
 *
 * Called by: imports.c, on the user's thread, within a collective call.  The other process may be stopped
 * or gone: connect, send and receive all end by the deadline.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm.h"
#include "passing.h"

static int receive_descriptor(int connection, int *fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	int32_t status = ORIEL_EPROTO;
	struct iovec io = { &status, sizeof(status) };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header;
	ssize_t got;

	do {
		got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return ori_fail(ORIEL_ETIMEDOUT, "a peer's process does not hand out its memory");
	if (got != (ssize_t)sizeof(status))
		return ori_fail(ORIEL_EPEER, "a peer's process refused to hand out its memory");
	header = CMSG_FIRSTHDR(&message);
	if (status || !header || header->cmsg_level != SOL_SOCKET ||
	    header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int)))
		return ori_fail(ORIEL_EPROTO, "a peer's process does not know that memory");
	memcpy(fd, CMSG_DATA(header), sizeof(int));
	return 0;
}

int ori_passing_fetch(const char *socket_name, const uint8_t token[16], uint64_t id,
		      uint64_t timeout_ns, int *fd)
{
	struct ori_passing_request request = { .magic = ORI_PASSING_MAGIC, .id = id };
	struct sockaddr_un address;
	socklen_t length = ori_passing_address(socket_name, &address);
	ssize_t sent;
	int connection, err;

	memcpy(request.token, token, sizeof(request.token));
	connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connection < 0)
		return ori_fail_errno(errno, "socket to a peer's process");
	ori_passing_set_timeout(connection, timeout_ns);
	do {
		err = connect(connection, (struct sockaddr *)&address, length);
	} while (err && errno == EINTR);
	if (err) {
		err = ori_fail(ORIEL_EPEER, "cannot reach a peer's process: %s", strerror(errno));
		goto out;
	}
	if (!ori_passing_same_user(connection)) {
		err = ori_fail(ORIEL_EAUTH, "a peer's process belongs to another user");
		goto out;
	}
	do {
		sent = send(connection, &request, sizeof(request), MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent != (ssize_t)sizeof(request))
		err = ori_fail(ORIEL_EPEER, "cannot ask a peer's process: %s", strerror(errno));
	else
		err = receive_descriptor(connection, fd);
out:
	close(connection);
	return err;
}
