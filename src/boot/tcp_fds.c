/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_fds.c - the sockets of the TCP boot, listed so that a forked child closes them.
 *
 * A child of fork() has copies of its parent's sockets, but not the threads that serve them.  An
 * open copy would hide the parent's death from the other ranks, and keep its port in use.  So every
 * socket is listed here, under a lock that fork() also takes, and the child closes them all.
 * fork() also waits until no hub is working.  Otherwise a lock of the allocator that the hub's
 * thread held would stay locked in the child for ever (AddressSanitizer has such a lock).
 *
 * Called by: hub and clients, on any thread; the fork handlers on the thread that forks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tcp.h"

#define FDS_LISTED 65536 /* higher descriptors are used but not listed */

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* taken before lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char listed[FDS_LISTED / CHAR_BIT]; /* under lock */
static void (*prepare)(void);                       /* under lock; NULL: not set */

static void child_after_fork(void)
{
	for (int fd = 0; fd < FDS_LISTED; fd++) {
		if (listed[fd / CHAR_BIT] & 1u << fd % CHAR_BIT)
			close(fd);
	}
	memset(listed, 0, sizeof(listed));
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&busy);
}

/* prepare() takes the lock itself. */
static void before_fork(void)
{
	void (*fn)(void);

	pthread_mutex_lock(&busy);
	pthread_mutex_lock(&lock);
	fn = prepare;
	pthread_mutex_unlock(&lock);
	if (fn)
		fn();
	pthread_mutex_lock(&lock);
}

static void parent_after_fork(void)
{
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&busy);
}

static void install(void)
{
	pthread_atfork(before_fork, parent_after_fork, child_after_fork);
}

void ori_tcp_before_fork(void (*fn)(void))
{
	pthread_mutex_lock(&lock);
	prepare = fn;
	pthread_mutex_unlock(&lock);
}

void ori_tcp_busy_begin(void)
{
	pthread_mutex_lock(&busy);
}

void ori_tcp_busy_end(void)
{
	pthread_mutex_unlock(&busy);
}

void ori_tcp_lock(void)
{
	pthread_mutex_lock(&lock);
}

void ori_tcp_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

int ori_tcp_wait(pthread_cond_t *cond, const struct timespec *until)
{
	return pthread_cond_timedwait(cond, &lock, until);
}

/* Lock held.  Takes the result of a system call. */
static int list_fd(int fd)
{
	if (fd < 0)
		return -errno;
	if (fd < FDS_LISTED)
		listed[fd / CHAR_BIT] |= (unsigned char)(1u << fd % CHAR_BIT);
	return fd;
}

int ori_tcp_socket(int family)
{
	int fd;

	pthread_once(&once, install);
	ori_tcp_lock();
	fd = list_fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	ori_tcp_unlock();
	return fd;
}

int ori_tcp_accept(int listen_fd)
{
	int fd;

	ori_tcp_lock();
	fd = list_fd(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	ori_tcp_unlock();
	return fd;
}

int ori_tcp_adopt(int old)
{
	int fd, flags;

	pthread_once(&once, install);
	ori_tcp_lock();
	fd = list_fd(fcntl(old, F_DUPFD_CLOEXEC, 3));
	ori_tcp_unlock();
	if (fd < 0)
		return fd;
	/* The original stays open for a later boot of this process, but not in its children. */
	fcntl(old, F_SETFD, FD_CLOEXEC);
	flags = fcntl(fd, F_GETFL);
	/* A hub that blocks in accept would never end. */
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		int err = -errno;

		ori_tcp_close(fd);
		return err;
	}
	return fd;
}

void ori_tcp_close(int fd)
{
	if (fd < 0)
		return;
	ori_tcp_lock();
	if (fd < FDS_LISTED)
		listed[fd / CHAR_BIT] &= (unsigned char)~(1u << fd % CHAR_BIT);
	close(fd);
	ori_tcp_unlock();
}

/* Small messages are sent at once.  The death of a whole host is noticed in half a minute. */
void ori_tcp_tune(int fd)
{
	int on = 1, idle = 10, interval = 5, probes = 4;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}
