/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/fetching.c - the client of passing.c: asks another process for one allocation.
 *
 * Called by: imports.c, on the user's thread in a collective call, and with a short deadline on the
 * thread that drives the engine.  The other process may be suspended or dead: connect, send and
 * receive all end by the deadline.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../util/util.h"
#include "passing.h"

#define PAUSE_NS (ORI_NS_PER_S / 100)
/* Longest wait in one system call.  Between two of them go_on() looks for failures. */
#define SLICE_NS (ORI_NS_PER_S / 50)

struct asking {
	const char *socket;
	const uint8_t *token;
	uint64_t id, deadline_ns;
	int (*look)(void *ctx);
	void *ctx;
	int unheard; /* the other side closed without an answer */
};

/* After a system call without a result.  0: try again; else the status that ends the wait. */
static int go_on(const struct asking *a)
{
	int err = a->look ? a->look(a->ctx) : 0;

	if (err)
		return err;
	if (ori_now_ns() >= a->deadline_ns)
		return ori_fail_silent(ORIEL_ETIMEDOUT,
				       "a peer's process does not hand out its memory");
	return 0;
}

static int is_slice_over(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int reach(const struct asking *a, int connection)
{
	struct sockaddr_un address;
	socklen_t length = ori_passing_address(a->socket, &address);
	int err;

	while (connect(connection, (struct sockaddr *)&address, length)) {
		if (!is_slice_over())
			return ori_fail(ORIEL_EPEER, "cannot reach a peer's process: %s",
					strerror(errno));
		err = go_on(a);
		if (err)
			return err;
	}
	if (!ori_passing_same_user(connection))
		return ori_fail(ORIEL_EAUTH, "a peer's process belongs to another user");
	return 0;
}

static int send_request(struct asking *a, int connection)
{
	struct ori_passing_request request = { .magic = ORI_PASSING_MAGIC, .id = a->id };
	int err;

	memcpy(request.token, a->token, sizeof(request.token));
	while (send(connection, &request, sizeof(request), MSG_NOSIGNAL) < 0) {
		if (errno == EPIPE || errno == ECONNRESET) {
			a->unheard = 1;
			return ori_fail_silent(ORIEL_EPEER, "a peer's process does not listen");
		}
		if (!is_slice_over())
			return ori_fail(ORIEL_EPEER, "cannot ask a peer's process: %s",
					strerror(errno));
		err = go_on(a);
		if (err)
			return err;
	}
	return 0; /* packets are sent whole */
}

/* Returns the bytes of the answer, or -1.  *fd: its descriptor.  *err: why the wait must end. */
static ssize_t receive(const struct asking *a, int connection, struct ori_passing_answer *answer,
		       int *fd, int *err)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = { answer, sizeof(*answer) };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1 };
	struct cmsghdr *header;
	ssize_t got;

	do {
		message.msg_control = control.bytes;
		/*
		 * Room for one descriptor exactly.  CMSG_SPACE() is rounded up to room for two, and
		 * a second one, from a hostile process, would stay open for ever.
		 */
		message.msg_controllen = CMSG_LEN(sizeof(int));
		got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && is_slice_over() && !(*err = go_on(a)));
	header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(header), sizeof(int));
	if (got > 0 && *fd < 0 && message.msg_flags & MSG_CTRUNC)
		*err = ori_fail_errno(EMFILE, "cannot take the descriptor of a peer's memory");
	return got;
}

/* Fills all but base; *theirs owns the descriptor, if there is one. */
static int receive_answer(struct asking *a, int connection, struct ori_allocation *theirs)
{
	struct ori_passing_answer answer = { .status = ORIEL_EPROTO };
	int fd = -1, err = 0;
	ssize_t got = receive(a, connection, &answer, &fd, &err);

	if (err)
		return err;
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
	a->unheard = got <= 0;
	if (a->unheard)
		return ori_fail_silent(ORIEL_EPEER, "a peer's process does not answer");
	if (got != (ssize_t)sizeof(answer) || answer.status == ORIEL_EAUTH)
		return ori_fail(ORIEL_EPEER, "a peer's process refused to hand out its memory");
	if (answer.status == ORIEL_ESYSTEM)
		return ori_fail(ORIEL_ESYSTEM,
				"a peer's process has no descriptor left to hand out its "
				"memory; raise its limit (ulimit -n)");
	/* It offered that memory a moment ago.  Its call has failed, so it has left this one. */
	return ori_fail(ORIEL_EPEER, "a peer's process has withdrawn that memory");
}

static int ask(struct asking *a, struct ori_allocation *theirs)
{
	int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err;

	if (connection < 0)
		return ori_fail_errno(errno, "socket to a peer's process");
	ori_passing_set_timeout(connection, SLICE_NS);
	err = reach(a, connection);
	if (!err)
		err = send_request(a, connection);
	if (!err)
		err = receive_answer(a, connection, theirs);
	close(connection);
	return err;
}

/*
 * The service closes a connection on which no request comes for a while.  That happens if this
 * process was suspended in between.  So it asks again until its own deadline.
 */
int ori_passing_fetch(const char *socket_name, const uint8_t token[16], uint64_t id,
		      uint64_t timeout_ns, int (*look)(void *ctx), void *ctx,
		      struct ori_allocation *theirs)
{
	struct asking a = { socket_name, token, id, ori_deadline_ns(timeout_ns), look, ctx, 0 };
	int err, stop;

	for (;;) {
		a.unheard = 0;
		err = ask(&a, theirs);
		if (!err || !a.unheard)
			return err;
		stop = go_on(&a);
		if (stop)
			return stop;
		ori_sleep_ns(PAUSE_NS);
	}
}
