/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/passing.c - hands memory descriptors to other processes of the same user.
 *
 * There is one service per process: a socket in the abstract namespace, which leaves no file
 * behind, and a thread that answers requests {magic, token, id} with a descriptor.  It hands out
 * memory only to a sender that has the same user id and knows the token, which ranks learn through
 * their boot.  Everything received is untrusted.
 *
 * Owns the socket, the thread and the table of offered descriptors.  The descriptors belong to
 * memory.c, which withdraws an offer before it closes the descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../util/util.h"
#include "passing.h"

#define REQUEST_TIMEOUT_MS 2000
#define FULL_TABLE_PAUSE_MS 10

struct offer {
	uint64_t id;
	uint64_t owner; /* of a part: the id of the whole allocation; else the own id */
	struct ori_allocation allocation;
	struct offer *next;
};

struct ori_passing {
	int refs; /* under `lock` */
	int listener, stop;
	pthread_t thread;
	char socket[32];
	uint8_t token[16];
	pthread_mutex_t offers_lock;
	struct offer *offers;
	uint64_t next_id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ori_passing *service; /* of the process `service_pid` */
static pid_t service_pid;

socklen_t ori_passing_address(const char *name, struct sockaddr_un *address)
{
	size_t length = strnlen(name, 31);

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path + 1, name, length); /* sun_path[0] stays 0: abstract */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int ori_passing_same_user(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == geteuid();
}

void ori_passing_set_timeout(int fd, uint64_t ns)
{
	struct timeval t = { (time_t)(ns / ORI_NS_PER_S), (suseconds_t)(ns % ORI_NS_PER_S / 1000) };

	if (!t.tv_sec && !t.tv_usec)
		t.tv_usec = 1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

/* ---- the serving side ----------------------------------------------------------------------- */

/* Compares all bytes, so that the time does not show where the tokens differ. */
static int tokens_equal(const uint8_t *a, const uint8_t *b)
{
	uint8_t difference = 0;

	for (int i = 0; i < 16; i++)
		difference |= (uint8_t)(a[i] ^ b[i]);
	return difference == 0;
}

/* *fd: a copy of the descriptor, or -1. */
static void find_offer(struct ori_passing *p, uint64_t id, struct ori_passing_answer *answer,
		       int *fd)
{
	memset(answer, 0, sizeof(*answer));
	answer->status = ORIEL_EINVAL;
	*fd = -1;
	pthread_mutex_lock(&p->offers_lock);
	for (struct offer *o = p->offers; o && answer->status; o = o->next) {
		if (o->id != id)
			continue;
		if (o->allocation.fd >= 0)
			*fd = fcntl(o->allocation.fd, F_DUPFD_CLOEXEC, 0);
		if (o->allocation.fd >= 0 && *fd < 0) {
			answer->status = ORIEL_ESYSTEM;
			break;
		}
		answer->status = 0;
		answer->kind = o->allocation.kind;
		answer->bytes = o->allocation.bytes;
		memcpy(answer->handle, o->allocation.handle, sizeof(answer->handle));
	}
	pthread_mutex_unlock(&p->offers_lock);
}

static void send_answer(int connection, struct ori_passing_answer *answer, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = { answer, sizeof(*answer) };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1 };

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	}
	/* Other errors mean that the peer is gone and needs no answer. */
	while (sendmsg(connection, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void serve(struct ori_passing *p, int connection)
{
	struct ori_passing_request request;
	struct ori_passing_answer answer;
	uint64_t deadline;
	ssize_t got;
	int fd;

	ori_passing_set_timeout(connection, REQUEST_TIMEOUT_MS * 1000000ull);
	if (!ori_passing_same_user(connection))
		return;
	/* a signal does not extend the deadline */
	deadline = ori_deadline_ns(REQUEST_TIMEOUT_MS * 1000000ull);
	do {
		got = recv(connection, &request, sizeof(request), 0);
	} while (got < 0 && errno == EINTR && ori_now_ns() < deadline);
	if (got < 0) {
		ori_log(ORI_LOG_WARN, "a request for memory did not come in %d ms",
			REQUEST_TIMEOUT_MS);
		return;
	}
	if (got != (ssize_t)sizeof(request) || request.magic != ORI_PASSING_MAGIC ||
	    !tokens_equal(request.token, p->token)) {
		ori_log(ORI_LOG_WARN, "refused a request for memory: malformed or wrong token");
		memset(&answer, 0, sizeof(answer));
		answer.status = ORIEL_EAUTH; /* answered, so that the peer does not ask again */
		send_answer(connection, &answer, -1);
		return;
	}
	find_offer(p, request.id, &answer, &fd);
	send_answer(connection, &answer, fd);
	if (fd >= 0)
		close(fd);
}

/* Peers see only that this process does not answer, so it logs the cause itself, once. */
static void table_is_full(int error, int *told)
{
	char reason[192];

	if (!*told)
		ori_log(ORI_LOG_ERROR, "cannot hand out memory to other processes: %s",
			ori_errno_text(error, reason, sizeof(reason)));
	*told = 1;
}

static void *service_main(void *arg)
{
	struct ori_passing *p = arg;
	int told = 0;
	struct pollfd fds[2] = { { p->listener, POLLIN, 0 }, { p->stop, POLLIN, 0 } };

	for (;;) {
		int connection;

		if (poll(fds, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			return NULL;
		}
		if (fds[1].revents)
			return NULL;
		/* The listener does not block: the peer may have closed the connection. */
		connection = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
		if (connection < 0) {
			/*
			 * Without free descriptors the connection stays pending.  A pause keeps
			 * this loop from spinning.
			 */
			if (errno == EMFILE || errno == ENFILE) {
				table_is_full(errno, &told);
				usleep(FULL_TABLE_PAUSE_MS * 1000);
			}
			continue;
		}
		serve(p, connection);
		close(connection);
	}
}

static int start_service(struct ori_passing *p)
{
	struct sockaddr_un address;
	uint8_t random[12];
	socklen_t length;
	int err = ori_random_bytes(p->token, sizeof(p->token));

	if (!err)
		err = ori_random_bytes(random, sizeof(random));
	if (err)
		return err;
	strcpy(p->socket, "oriel-");
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(p->socket + 6 + 2 * i, 3, "%02x", random[i]);
	p->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	p->stop = eventfd(0, EFD_CLOEXEC);
	length = ori_passing_address(p->socket, &address);
	if (p->listener < 0 || p->stop < 0 ||
	    bind(p->listener, (struct sockaddr *)&address, length) || listen(p->listener, 1024))
		return ori_fail_errno(errno, "socket for passing memory to other processes");
	if (pthread_create(&p->thread, NULL, service_main, p))
		return ori_fail(ORIEL_ENOMEM, "cannot start the thread that passes memory");
	return 0;
}

static void drop_offers(struct offer *offers)
{
	while (offers) {
		struct offer *o = offers;

		offers = o->next;
		free(o);
	}
}

static void free_service(struct ori_passing *p)
{
	if (p->listener >= 0)
		close(p->listener);
	if (p->stop >= 0)
		close(p->stop);
	drop_offers(p->offers);
	pthread_mutex_destroy(&p->offers_lock);
	free(p);
}

int ori_passing_open(struct ori_passing **out)
{
	struct ori_passing *p;
	int err = 0;

	pthread_mutex_lock(&lock);
	/* A forked child has the parent's table but not its thread, so it starts its own. */
	if (service && service_pid == getpid()) {
		service->refs++;
		*out = service;
		goto out;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		err = ori_fail(ORIEL_ENOMEM, "no memory for the descriptor service");
		goto out;
	}
	p->refs = 1;
	p->next_id = 1;
	p->listener = p->stop = -1;
	pthread_mutex_init(&p->offers_lock, NULL);
	err = start_service(p);
	if (err) {
		free_service(p);
		goto out;
	}
	service = p;
	service_pid = getpid();
	*out = p;
out:
	pthread_mutex_unlock(&lock);
	return err;
}

void ori_passing_close(struct ori_passing *p)
{
	uint64_t one = 1;
	int last;

	pthread_mutex_lock(&lock);
	last = --p->refs == 0;
	if (last && service == p)
		service = NULL;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	/* An eventfd write of 1 to a fresh counter cannot fail or block. */
	if (write(p->stop, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(p->thread, NULL);
	free_service(p);
}

const char *ori_passing_socket(const struct ori_passing *p)
{
	return p->socket;
}

const uint8_t *ori_passing_token(const struct ori_passing *p)
{
	return p->token;
}

static int add_offer(struct offer **offers, const struct ori_allocation *allocation)
{
	struct offer *o = malloc(sizeof(*o));

	if (!o)
		return ori_fail(ORIEL_ENOMEM, "no memory to offer a descriptor");
	o->allocation = *allocation;
	o->next = *offers;
	*offers = o;
	return 0;
}

/*
 * Ids are consecutive: first the id of the whole allocation, then those of its parts.  Parts have
 * no base, so that a search by address does not find them.
 */
int ori_passing_offer(struct ori_passing *p, const struct ori_allocation *allocation, uint64_t *id)
{
	struct ori_passing_parts parts = { .count = allocation->nparts };
	struct offer *made = NULL, *last = NULL;
	uint64_t next;

	for (uint32_t i = 0; i <= allocation->nparts; i++) {
		if (add_offer(&made, i ? &allocation->parts[i - 1] : allocation)) {
			drop_offers(made);
			return ORIEL_ENOMEM;
		}
		if (i)
			made->allocation.base = NULL;
		else
			last = made;
	}
	pthread_mutex_lock(&p->offers_lock);
	*id = p->next_id;
	parts.first = *id + 1;
	if (parts.count)
		memcpy(last->allocation.handle, &parts, sizeof(parts));
	p->next_id += (uint64_t)allocation->nparts + 1;
	next = p->next_id;
	for (struct offer *o = made; o; o = o->next) {
		o->id = --next;
		o->owner = *id;
	}
	last->next = p->offers;
	p->offers = made;
	pthread_mutex_unlock(&p->offers_lock);
	return 0;
}

int ori_passing_find(struct ori_passing *p, uint64_t id, struct ori_allocation *out)
{
	int err = ORIEL_EINVAL;

	pthread_mutex_lock(&p->offers_lock);
	for (struct offer *o = p->offers; o && err; o = o->next)
		if (o->id == id) {
			*out = o->allocation;
			err = 0;
		}
	pthread_mutex_unlock(&p->offers_lock);
	return err;
}

int ori_passing_find_range(struct ori_passing *p, const void *ptr, size_t bytes, uint64_t *id,
			   struct ori_allocation *out)
{
	uintptr_t begin = (uintptr_t)ptr;
	int err = ORIEL_EINVAL;

	pthread_mutex_lock(&p->offers_lock);
	for (struct offer *o = p->offers; o && err; o = o->next) {
		uintptr_t base = (uintptr_t)o->allocation.base;

		if (begin < base || begin - base > o->allocation.bytes ||
		    bytes > o->allocation.bytes - (begin - base))
			continue;
		/* memory that the user allocated: each comm describes it for itself */
		if (o->allocation.identity)
			continue;
		*id = o->id;
		*out = o->allocation;
		err = 0;
	}
	pthread_mutex_unlock(&p->offers_lock);
	return err;
}

int ori_passing_find_left(struct ori_passing *p, const void *ptr, size_t bytes,
			  struct ori_allocation *out)
{
	uintptr_t begin = (uintptr_t)ptr, end = begin + bytes;
	int found = 0;

	pthread_mutex_lock(&p->offers_lock);
	for (struct offer *o = p->offers; o && !found; o = o->next) {
		uintptr_t base = (uintptr_t)o->allocation.base, after = base + o->allocation.bytes;

		/* not memory that the user allocated: it may have been freed */
		found = !o->allocation.identity && begin < after && end > base &&
			(begin < base || end > after);
		if (found)
			*out = o->allocation;
	}
	pthread_mutex_unlock(&p->offers_lock);
	return found;
}

void ori_passing_withdraw(struct ori_passing *p, uint64_t id)
{
	pthread_mutex_lock(&p->offers_lock);
	for (struct offer **at = &p->offers; *at;) {
		struct offer *o = *at;

		if (o->owner != id) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		free(o);
	}
	pthread_mutex_unlock(&p->offers_lock);
}
