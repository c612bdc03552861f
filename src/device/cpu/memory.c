/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cpu/memory.c - exportable memory of the CPU device: one memfd per allocation.
 *
 * The descriptor is sealed against shrinking before it is sent.  An importer checks the seal and
 * the size before it maps.  So a peer cannot remove a mapped page from this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../util/util.h"
#include "cpu.h"

static uint64_t limit_of(int resource)
{
	struct rlimit limit;

	return getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX :
										limit.rlim_cur;
}

uint64_t ori_cpu_shared_bytes(uint64_t wanted, uint64_t maps, uint64_t least)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), file = limit_of(RLIMIT_FSIZE);
	uint64_t map = limit_of(RLIMIT_AS) / maps, bytes = wanted;

	if (bytes > file)
		bytes = file;
	if (bytes > map)
		bytes = map;
	return bytes < least ? least : bytes & ~(page - 1);
}

/* Beyond the limit, ftruncate() would raise SIGXFSZ, which ends the program. */
static int check_file_limit(size_t bytes)
{
	uint64_t limit = limit_of(RLIMIT_FSIZE);

	if (bytes <= limit)
		return 0;
	return ori_fail(ORIEL_ENOMEM,
			"cannot allocate %zu bytes: memory for peers is a file, and this process's "
			"files may have %llu bytes at most; raise that limit (ulimit -f)",
			bytes, (unsigned long long)limit);
}

static int map_failed(int error, size_t bytes, const char *whose)
{
	uint64_t limit = limit_of(RLIMIT_AS);

	if (error == ENOMEM && limit != UINT64_MAX)
		return ori_fail(ORIEL_ENOMEM,
				"cannot map %zu bytes%s: this process may map %llu bytes in all; "
				"raise that limit (ulimit -v)",
				bytes, whose, (unsigned long long)limit);
	return ori_fail(ORIEL_ENOMEM, "cannot map %zu bytes%s: %s", bytes, whose, strerror(error));
}

int ori_cpu_alloc(struct ori_device *device, size_t bytes, struct ori_allocation *out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t rounded = (bytes + page - 1) & ~(page - 1);
	void *base;
	int fd, err;

	(void)device;
	if (bytes == 0 || rounded < bytes || rounded > (size_t)INT64_MAX)
		return ori_fail(ORIEL_EINVAL, "cannot allocate %zu bytes", bytes);
	err = check_file_limit(rounded);
	if (err)
		return err;
	fd = memfd_create("oriel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return ori_fail_errno(errno, "memfd_create");
	if (ftruncate(fd, (off_t)rounded) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		err = ori_fail_errno(errno, "memory of %zu bytes", rounded);
		goto err_fd;
	}
	base = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED) {
		err = map_failed(errno, rounded, "");
		goto err_fd;
	}
	out->base = base;
	out->bytes = rounded;
	out->fd = fd;
	out->kind = ORI_EXPORT_HOST_FD;
	return 0;

err_fd:
	close(fd);
	return err;
}

void ori_cpu_free(struct ori_device *device, struct ori_allocation *a)
{
	(void)device;
	munmap(a->base, a->bytes);
	close(a->fd);
	a->base = NULL;
	a->fd = -1;
}

int ori_cpu_describe(struct ori_device *device, const void *ptr, size_t bytes,
		     struct ori_allocation *out)
{
	(void)device;
	(void)out;
	return ori_fail(ORIEL_EEXPORT,
			"%zu bytes at %p cannot be given to another process: allocate them with "
			"oriel_alloc",
			bytes, ptr);
}

int ori_cpu_import(struct ori_device *device, const struct ori_allocation *theirs, void **base)
{
	size_t bytes = theirs->bytes;
	int fd = theirs->fd, seals;
	struct stat st;
	void *map;

	(void)device;
	if (theirs->kind != ORI_EXPORT_HOST_FD)
		return ori_fail(ORIEL_EUNSUPPORTED,
				"a peer's memory is on a GPU: a CPU rank cannot load and store it");
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return ori_fail(ORIEL_EPROTO, "a peer's memory is not sealed against shrinking");
	if (fstat(fd, &st))
		return ori_fail_errno(errno, "size of a peer's memory");
	if (bytes == 0 || st.st_size < 0 || (uint64_t)st.st_size < bytes)
		return ori_fail(ORIEL_EPROTO,
				"a peer's memory has %lld bytes, but the peer announced %zu",
				(long long)st.st_size, bytes);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map == MAP_FAILED)
		return map_failed(errno, bytes, " of a peer");
	*base = map;
	return 0;
}

void ori_cpu_unimport(struct ori_device *device, const struct ori_allocation *theirs, void *base)
{
	(void)device;
	munmap(base, theirs->bytes);
}

/*
 * Asks the kernel without touching a page: with MS_ASYNC this call only looks at the mappings.
 * ENOMEM alone means that there is a hole.  Other errors say nothing about the memory.
 */
int ori_cpu_is_memory(struct ori_device *device, const void *ptr, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)ptr & ~(page - 1);

	(void)device;
	if (bytes > UINTPTR_MAX - (page - 1) - (uintptr_t)ptr)
		return 0; /* beyond the last address */
	return !msync((void *)at, (uintptr_t)ptr + bytes - at, MS_ASYNC) || errno != ENOMEM;
}

void ori_cpu_discard(struct ori_device *device, struct ori_allocation *a, size_t offset,
		     size_t bytes)
{
	(void)device;
	/*
	 * The range is whole pages (comm/slab.c).  If punching fails, zeros must be written
	 * instead.
	 */
	if (fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)bytes))
		__builtin_memset((char *)a->base + offset, 0, bytes);
}
