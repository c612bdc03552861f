/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/calls.c - the calls of the C library that reach a device: open, close, ioctl, mmap,
 * stat; and socket, so that libibverbs asks sysfs for devices and not the machine's own kernel.
 *
 * A descriptor of a device is one of /dev/null: a character device, whose numbers the files of
 * sysfs repeat.  All other descriptors and paths go to the C library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "uverbs.h"

#define FILES 4096

static struct uv_file *files[FILES]; /* by descriptor; loads and stores are atomic */

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

static struct uv_file *file_of(int fd)
{
	return fd >= 0 && fd < FILES ? __atomic_load_n(&files[fd], __ATOMIC_ACQUIRE) : NULL;
}

/* The number of the device that the path names, or -1. */
static int device_of(const char *path)
{
	static const char prefix[] = "/dev/infiniband/uverbs";
	size_t length = sizeof(prefix) - 1;

	if (!path || strncmp(path, prefix, length) || path[length] < '0' ||
	    path[length] >= '0' + STUB_DEVICES || path[length + 1])
		return -1;
	return path[length] - '0';
}

static int open_device(int number, int flags)
{
	struct uv_file *file;
	int fd = NEXT(int (*)(const char *, int, ...), "open")("/dev/null", flags);

	if (fd < 0)
		return -1;
	file = fd < FILES ? uv_open(number) : NULL;
	if (!file) {
		NEXT(int (*)(int), "close")(fd);
		errno = ENOMEM;
		return -1;
	}
	__atomic_store_n(&files[fd], file, __ATOMIC_RELEASE);
	return fd;
}

STUB_EXPORT int open(const char *path, int flags, ...)
{
	int number = device_of(path);
	mode_t mode = 0;
	va_list list;

	if (number >= 0)
		return open_device(number, flags);
	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_start(list, flags);
		mode = va_arg(list, mode_t);
		va_end(list);
	}
	return NEXT(int (*)(const char *, int, ...), "open")(path, flags, mode);
}

STUB_EXPORT int close(int fd)
{
	struct uv_file *file = file_of(fd);

	if (file) {
		__atomic_store_n(&files[fd], NULL, __ATOMIC_RELEASE);
		/* a child closes its copy of the descriptor; the device and its thread stay here */
		if (file->process == getpid())
			uv_close(file);
	}
	return NEXT(int (*)(int), "close")(fd);
}

STUB_EXPORT int stat(const char *path, struct stat *out)
{
	return NEXT(int (*)(const char *, struct stat *),
		    "stat")(device_of(path) >= 0 ? "/dev/null" : path, out);
}

STUB_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	struct uv_file *file = file_of(fd);
	void *argument;
	va_list list;
	int err;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (!file)
		return NEXT(int (*)(int, unsigned long, ...), "ioctl")(fd, request, argument);
	err = request == RDMA_VERBS_IOCTL ? uv_ioctl(file, argument) : ENOTTY;
	if (!err)
		return 0;
	errno = err;
	return -1;
}

STUB_EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	struct uv_file *file = file_of(fd);
	struct uv_uar *uar = NULL;

	if (file) {
		stub_lock();
		uar = uv_uar_of_page(file, (uint32_t)(offset / STUB_PAGE));
		stub_unlock();
		if (!uar || bytes != STUB_PAGE || !(flags & MAP_SHARED)) {
			errno = EINVAL;
			return MAP_FAILED;
		}
		fd = uar->fd;
		offset = 0;
	}
	return NEXT(void *(*)(void *, size_t, int, int, int, off_t),
		    "mmap")(address, bytes, protection, flags, fd, offset);
}

STUB_EXPORT int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return NEXT(int (*)(int, int, int), "socket")(domain, type, protocol);
}
