/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/front/inject.c - a preloaded library: the nth call of one kind that liboriel or
 * liboriel_shmem makes fails, on one rank.
 *
 * Calls of the interpreter, of numpy and of the C library itself are let through: how they cope is
 * not ours to test.  A call is the library's if it returns to the library's code.
 *
 * FRONT_CALL names the call; FRONT_N counts from 1; FRONT_ERRNO is what it gives.  FRONT_RANK is
 * the rank (RANK in its environment).  FRONT_REPORT names a file that is made when the call fails.
 * FRONT_CALL=kill ends the process by SIGKILL at the nth allocation.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static const char *faulty; /* NULL: no call fails in this process */
static int left, kills, fault_errno;
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

static long number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, 10) : -1;
}

__attribute__((constructor)) static void begin(void)
{
	const char *call = getenv("FRONT_CALL");

	if (!call || !getenv("RANK") || number("RANK") != number("FRONT_RANK"))
		return;
	kills = !strcmp(call, "kill");
	fault_errno = (int)number("FRONT_ERRNO");
	left = (int)number("FRONT_N");
	faulty = kills ? "malloc" : call;
}

/* Without the C library, whose open() and write() are among the calls. */
static void report(void)
{
	const char *path = getenv("FRONT_REPORT");
	long fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) :
			 -1;

	if (fd >= 0)
		syscall(SYS_close, fd);
}

static int is_library(const void *caller)
{
	Dl_info info;
	const char *name;

	inside = 1;
	if (!dladdr(caller, &info) || !info.dli_fname)
		info.dli_fname = "";
	inside = 0;
	name = strrchr(info.dli_fname, '/');
	return !strncmp(name ? name + 1 : info.dli_fname, "liboriel", 8);
}

static int fails(const char *call, const void *caller)
{
	if (!faulty || inside || __atomic_load_n(&left, __ATOMIC_RELAXED) <= 0 ||
	    strcmp(call, faulty) || !is_library(caller) ||
	    __atomic_sub_fetch(&left, 1, __ATOMIC_ACQ_REL))
		return 0;
	report();
	if (kills)
		kill(getpid(), SIGKILL);
	errno = fault_errno;
	return 1;
}

/* ---- memory ---------------------------------------------------------------------------------- */

#define CALLER __builtin_return_address(0)

EXPORT void *malloc(size_t bytes)
{
	return fails("malloc", CALLER) ? NULL : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t n, size_t bytes)
{
	return fails("malloc", CALLER) ? NULL : __libc_calloc(n, bytes);
}

EXPORT void *realloc(void *block, size_t bytes)
{
	return fails("malloc", CALLER) ? NULL : __libc_realloc(block, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
	return fails("malloc", CALLER) ? NULL : __libc_memalign(alignment, bytes);
}

EXPORT char *strdup(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = fails("malloc", CALLER) ? NULL : __libc_malloc(bytes);

	return copy ? memcpy(copy, text, bytes) : NULL;
}

/* ---- system calls ---------------------------------------------------------------------------- */

static void *behind(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (!f)
		_exit(97);
	return f;
}

/* A union: ISO C has no cast from an object pointer to a function pointer. */
#define FORWARD(ret, name, types, args)                                                            \
	union {                                                                                    \
		void *found;                                                                       \
		ret(*f) types;                                                                     \
	} next = { .found = behind(name) };                                                        \
	return next.f args

#define CALL(ret, name, types, args, parameters)                                                   \
	EXPORT ret name parameters;                                                                \
	EXPORT ret name parameters                                                                 \
	{                                                                                          \
		if (fails(#name, CALLER))                                                          \
			return (ret)-1;                                                            \
		FORWARD(ret, #name, types, args);                                                  \
	}

CALL(int, memfd_create, (const char *, unsigned), (name, flags), (const char *name, unsigned flags))
CALL(int, ftruncate, (int, off_t), (fd, bytes), (int fd, off_t bytes))
CALL(int, fallocate, (int, int, off_t, off_t), (fd, mode, offset, bytes),
     (int fd, int mode, off_t offset, off_t bytes))
CALL(int, mprotect, (void *, size_t, int), (at, bytes, prot), (void *at, size_t bytes, int prot))
CALL(int, socket, (int, int, int), (domain, type, protocol), (int domain, int type, int protocol))
CALL(int, bind, (int, const struct sockaddr *, socklen_t), (fd, address, bytes),
     (int fd, const struct sockaddr *address, socklen_t bytes))
CALL(int, listen, (int, int), (fd, backlog), (int fd, int backlog))
CALL(int, accept4, (int, struct sockaddr *, socklen_t *, int), (fd, address, bytes, flags),
     (int fd, struct sockaddr *address, socklen_t *bytes, int flags))
CALL(int, connect, (int, const struct sockaddr *, socklen_t), (fd, address, bytes),
     (int fd, const struct sockaddr *address, socklen_t bytes))
CALL(ssize_t, send, (int, const void *, size_t, int), (fd, data, bytes, flags),
     (int fd, const void *data, size_t bytes, int flags))
CALL(ssize_t, sendmsg, (int, const struct msghdr *, int), (fd, message, flags),
     (int fd, const struct msghdr *message, int flags))
CALL(ssize_t, recv, (int, void *, size_t, int), (fd, data, bytes, flags),
     (int fd, void *data, size_t bytes, int flags))
CALL(ssize_t, recvmsg, (int, struct msghdr *, int), (fd, message, flags),
     (int fd, struct msghdr *message, int flags))
CALL(int, eventfd, (unsigned, int), (count, flags), (unsigned count, int flags))
CALL(int, epoll_create1, (int), (flags), (int flags))

EXPORT void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (fails("mmap", CALLER))
		return MAP_FAILED;
	FORWARD(void *, "mmap", (void *, size_t, int, int, int, off_t),
		(at, bytes, prot, flags, fd, offset));
}

EXPORT void *mremap(void *at, size_t bytes, size_t new_bytes, int flags, ...)
{
	va_list ap;
	void *to;

	va_start(ap, flags);
	to = va_arg(ap, void *); /* without MREMAP_FIXED it is not read */
	va_end(ap);
	if (fails("mremap", CALLER))
		return MAP_FAILED;
	FORWARD(void *, "mremap", (void *, size_t, size_t, int, ...),
		(at, bytes, new_bytes, flags, to));
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t); /* without O_CREAT it is not read */
	va_end(ap);
	if (fails("open", CALLER))
		return -1;
	FORWARD(int, "open", (const char *, int, ...), (path, flags, mode));
}

EXPORT int fcntl(int fd, int command, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *); /* an int or a pointer: both travel in one register */
	va_end(ap);
	if (fails("fcntl", CALLER))
		return -1;
	FORWARD(int, "fcntl", (int, int, ...), (fd, command, arg));
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	if (fails("poll", CALLER))
		return -1;
	FORWARD(int, "poll", (struct pollfd *, nfds_t, int), (fds, n, timeout_ms));
}

/* The name that poll() has in a hardened library, where its array has a known size. */
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t bytes);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t bytes)
{
	if (fails("poll", CALLER))
		return -1;
	FORWARD(int, "__poll_chk", (struct pollfd *, nfds_t, int, size_t),
		(fds, n, timeout_ms, bytes));
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main_fn)(void *),
			  void *arg)
{
	if (fails("pthread_create", CALLER))
		return errno;
	FORWARD(int, "pthread_create",
		(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *),
		(thread, attr, main_fn, arg));
}
