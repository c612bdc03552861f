/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/export.c - how memory is handed between processes (comm/passing.c, comm/fetching.c,
 * device/cpu/memory.c).
 *
 * As the asking side: another process answers with any bytes and any number of descriptors.  What
 * is mapped must be readable from the first byte to the last, and no descriptor may leak.
 * As the serving side: any request comes.  A descriptor goes out only for the right token and id.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"
#include "comm/passing.h"
#include "device/cpu/cpu.h"
#include "fuzz.h"
#include "util/util.h"

#define SOCKET_NAME_BYTES 32
#define WAIT_NS (2 * ORI_NS_PER_S)
#define DESCRIPTORS 3

/* What the hostile server answers next. */
static struct {
	struct ori_passing_answer answer;
	size_t bytes;
	int fds[DESCRIPTORS], nfds;
} next;

static char server_name[SOCKET_NAME_BYTES];
static int server = -1;
static struct ori_passing *service;
static struct ori_allocation offered;
static uint64_t offered_id;
static int open_at_first; /* descriptors when all was set up */

static void send_next(int connection)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec io = { &next.answer, next.bytes };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1 };
	size_t bytes = (size_t)next.nfds * sizeof(int);

	if (next.nfds) {
		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(&control.header), next.fds, bytes);
	}
	(void)sendmsg(connection, &message, MSG_NOSIGNAL);
}

static void *serve(void *arg)
{
	struct ori_passing_request request;
	int connection;

	(void)arg;
	for (;;) {
		connection = accept4(server, NULL, NULL, SOCK_CLOEXEC);
		if (connection < 0 && errno != EINTR) /* libFuzzer has a timer */
			return NULL;
		if (connection < 0)
			continue;
		if (recv(connection, &request, sizeof(request), 0) > 0)
			send_next(connection);
		close(connection);
	}
}

/* Descriptors of this process, as far as a few leaked ones would be found. */
static int count_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void start(void)
{
	struct sockaddr_un address;
	pthread_t thread;
	socklen_t length;

	if (server >= 0)
		return;
	snprintf(server_name, sizeof(server_name), "oriel-fuzz-%d", (int)getpid());
	length = ori_passing_address(server_name, &address);
	server = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (server < 0 || bind(server, (struct sockaddr *)&address, length) || listen(server, 64) ||
	    pthread_create(&thread, NULL, serve, NULL))
		exit(1);
	pthread_detach(thread);
	CHECK_EQ(ori_passing_open(&service), 0);
	CHECK_EQ(ori_cpu_alloc(NULL, 4096, &offered), 0);
	CHECK_EQ(ori_passing_offer(service, &offered, &offered_id), 0);
	open_at_first = count_open();
}

static int make_descriptor(uint8_t kind, uint32_t bytes)
{
	int fd;

	if (kind % 4 == 3)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, bytes % (1u << 16)))
		exit(1);
	if (kind % 4 != 2 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		exit(1);
	return fd;
}

static void map(struct ori_allocation *theirs)
{
	const volatile uint8_t *bytes;
	void *base;

	if (!ori_cpu_import(NULL, theirs, &base)) {
		bytes = base;
		(void)bytes[0];
		(void)bytes[theirs->bytes - 1];
		ori_cpu_unimport(NULL, theirs, base);
	}
	if (theirs->fd >= 0)
		close(theirs->fd);
}

/* Both servers close their ends soon after the answer; what stays open has leaked. */
static void await_closed(void)
{
	for (int i = 0; i < 2000 && count_open() > open_at_first; i++)
		usleep(1000);
	CHECK(count_open() <= open_at_first);
}

static void ask(struct fuzz_input *in)
{
	static const uint8_t token[16];
	struct ori_allocation theirs;
	uint8_t how = fuzz_byte(in), kind = fuzz_byte(in);

	next.nfds = how % (DESCRIPTORS + 1);
	next.bytes = how & 4 ? sizeof(next.answer) : 1 + fuzz_byte(in) % sizeof(next.answer);
	fuzz_take(in, &next.answer, sizeof(next.answer));
	if (how & 8)
		next.answer.status = 0;
	if (how & 16)
		next.answer.kind = ORI_EXPORT_HOST_FD;
	if (how & 32)
		next.answer.bytes %= 1u << 17;
	for (int i = 0; i < next.nfds; i++)
		next.fds[i] = make_descriptor((uint8_t)(kind + i), fuzz_word(in));
	if (!ori_passing_fetch(server_name, token, 1, WAIT_NS, NULL, NULL, &theirs))
		map(&theirs);
	for (int i = 0; i < next.nfds; i++)
		close(next.fds[i]);
	await_closed();
}

/* Receives the answer of the library's own service.  Returns 1 if a descriptor came. */
static int hear(int fd)
{
	struct ori_passing_answer answer;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = { &answer, sizeof(answer) };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header;
	ssize_t n;
	int got;

	do
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return 0;
	header = CMSG_FIRSTHDR(&message);
	if (!header)
		return 0;
	memcpy(&got, CMSG_DATA(header), sizeof(got));
	close(got);
	return 1;
}

static void request(struct fuzz_input *in)
{
	struct ori_passing_request r;
	struct sockaddr_un address;
	socklen_t length = ori_passing_address(ori_passing_socket(service), &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), right;
	uint8_t how = fuzz_byte(in);
	size_t bytes = how & 1 ? sizeof(r) : 1 + fuzz_byte(in) % sizeof(r);

	fuzz_take(in, &r, sizeof(r));
	if (how & 2)
		r.magic = ORI_PASSING_MAGIC;
	if (how & 4)
		memcpy(r.token, ori_passing_token(service), sizeof(r.token));
	if (how & 8)
		r.id = offered_id;
	right = bytes == sizeof(r) && r.magic == ORI_PASSING_MAGIC && r.id == offered_id &&
		!memcmp(r.token, ori_passing_token(service), sizeof(r.token));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, length) ||
	    send(fd, &r, bytes, MSG_NOSIGNAL) < 0)
		exit(1);
	CHECK_EQ(hear(fd), right);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	start();
	if (fuzz_byte(&in) & 1)
		request(&in);
	else
		ask(&in);
	return 0;
}

size_t fuzz_seed(int n, uint8_t *out, size_t room)
{
	struct ori_passing_answer answer = { .status = 0, .kind = ORI_EXPORT_HOST_FD };
	struct ori_passing_request r = { .magic = ORI_PASSING_MAGIC, .id = 1 };
	struct fuzz_output o = { out, room, 0 };

	if (n > 5)
		return 0;
	if (n == 5) { /* a request */
		const uint8_t head[] = { 1, 15 };

		fuzz_give(&o, head, sizeof(head));
		fuzz_give(&o, &r, sizeof(r));
		return o.bytes;
	}
	answer.bytes = n == 4 ? 1ull << 40 : 8192;
	fuzz_give_byte(&o, 0);
	fuzz_give_byte(&o, (uint8_t)(4 | n % (DESCRIPTORS + 1)));
	fuzz_give_byte(&o, (uint8_t)n);
	fuzz_give(&o, &answer, sizeof(answer));
	for (int i = 0; i < DESCRIPTORS; i++)
		fuzz_give_word(&o, 8192);
	return o.bytes;
}
