/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/fetching.c - the asking side of passing.c: one allocation of another process.
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

#define PAUSE_NS (ORI_NS_PER_S / 100)

/*
 * Fills all but base; *theirs owns the descriptor, if there is one.  *unheard: the other side closed without
 * an answer.
 */
static int receive_answer(int connection, uint64_t deadline, struct ori_allocation *theirs,
			  int *unheard)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct ori_passing_answer answer = { .status = ORIEL_EPROTO };
	int fd = -1;
	struct iovec io = { &answer, sizeof(answer) };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header;
	ssize_t got;

	do {
		got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR && ori_now_ns() < deadline);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return ori_fail_silent(ORIEL_ETIMEDOUT,
				       "a peer's process does not hand out its memory");
	header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(header), sizeof(int));
	if (got > 0 && fd < 0 && message.msg_flags & MSG_CTRUNC)
		return ori_fail_errno(EMFILE, "cannot take the descriptor of a peer's memory");
	if (got == (ssize_t)sizeof(answer) && !answer.status) {
		memset(theirs, 0, sizeof(*theirs));
		theirs->fd = fd;
		theirs->kind = answer.kind;
		theirs->bytes = answer.bytes;
		memcpy(theirs->handle, answer.handle, sizeof(theirs->handle));
		return 0;
	}
	if (fd >= 0)
		close(fd);
	*unheard = got <= 0;
	if (*unheard)
		return ori_fail_silent(ORIEL_EPEER, "a peer's process does not answer");
	if (got != (ssize_t)sizeof(answer) || answer.status == ORIEL_EAUTH)
		return ori_fail(ORIEL_EPEER, "a peer's process refused to hand out its memory");
	if (answer.status == ORIEL_ESYSTEM)
		return ori_fail(ORIEL_ESYSTEM,
				"a peer's process has no descriptor left to hand out its "
				"memory; raise its limit (ulimit -n)");
	return ori_fail(ORIEL_EPROTO, "a peer's process does not know that memory");
}

static int ask(const char *socket_name, const uint8_t token[16], uint64_t id, uint64_t timeout_ns,
	       struct ori_allocation *theirs, int *unheard)
{
	struct ori_passing_request request = { .magic = ORI_PASSING_MAGIC, .id = id };
	uint64_t deadline = ori_deadline_ns(timeout_ns);
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
	if (sent == (ssize_t)sizeof(request)) {
		err = receive_answer(connection, deadline, theirs, unheard);
	} else if (errno == EPIPE || errno == ECONNRESET) {
		*unheard = 1;
		err = ori_fail_silent(ORIEL_EPEER, "a peer's process does not listen");
	} else {
		err = ori_fail(ORIEL_EPEER, "cannot ask a peer's process: %s", strerror(errno));
	}
out:
	close(connection);
	return err;
}

/*
 * The service gives up on who connects and then says nothing for a while.  That may have been this process,
 * stopped in between: so it asks again, until its own deadline.
 */
int ori_passing_fetch(const char *socket_name, const uint8_t token[16], uint64_t id,
		      uint64_t timeout_ns, struct ori_allocation *theirs)
{
	uint64_t deadline = ori_deadline_ns(timeout_ns), now = ori_now_ns();
	int unheard, err;

	for (;;) {
		unheard = 0;
		err = ask(socket_name, token, id, deadline > now ? deadline - now : 1, theirs,
			  &unheard);
		now = ori_now_ns();
		if (!err || !unheard)
			return err;
		if (now >= deadline)
			return ori_fail_silent(ORIEL_ETIMEDOUT,
					       "a peer's process does not hand out its memory");
		ori_sleep_ns(PAUSE_NS);
	}
}
