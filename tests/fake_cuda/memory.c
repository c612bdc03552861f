/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/memory.c - device memory: physical memory in memfds, reserved addresses, and mappings
 * of the memory at the addresses.
 *
 * It also has the guard: while no kernel runs, the mappings cannot be accessed.  So host code that
 * dereferences device memory crashes here as with a GPU, and a line says so.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"
#include "util/util.h"

#define POISON 0xa5
#define GONE 64u
#define POISON_BYTES ((size_t)256 << 10) /* at the beginning: all of it would take long */

struct range { /* reserved addresses */
	struct range *next;
	char *addr;
	size_t bytes;
	char *alias; /* for copies, which may run from one mapping into the next */
};

static struct fake_phys *all_phys;
static struct fake_mapping *all_mappings;
static struct range *all_ranges;
static struct range gone[GONE]; /* addresses that were given back, the last at gone_next - 1 */
static unsigned int gone_next;
static size_t used_bytes[FAKE_GPUS_MAX];
static int running; /* kernels */
static struct sigaction segv_before;

/* ---- addresses that were given back ---------------------------------------------------------- */

static void note_gone(char *addr, size_t bytes)
{
	gone[gone_next++ % GONE] = (struct range){ .addr = addr, .bytes = bytes };
}

/* The last that was so long, where nothing else is now; else anywhere. */
static void *map_again(size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *at;

	for (unsigned int i = 1; fake_knobs.reuse && i <= GONE; i++) {
		const struct range *r = &gone[(gone_next - i) % GONE];

		if (r->bytes != bytes)
			continue;
		at = mmap(r->addr, bytes, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);
		if (at != MAP_FAILED)
			return at;
	}
	return mmap(NULL, bytes, prot, flags, fd, offset);
}

/* ---- the guard ------------------------------------------------------------------------------- */

static int may_touch(const struct fake_mapping *m)
{
	return m->accessible && (running || !fake_knobs.guard || m->kind == FAKE_MANAGED);
}

void fake_protect(struct fake_mapping *m)
{
	if (mprotect(m->addr, m->bytes, may_touch(m) ? PROT_READ | PROT_WRITE : PROT_NONE))
		fake_fault("mprotect of %zu bytes: %s", m->bytes, strerror(errno));
}

void fake_kernels_running(int change)
{
	int before = running;

	running += change;
	if (!before != !running)
		for (struct fake_mapping *m = all_mappings; m; m = m->next)
			fake_protect(m);
}

/* Says whose memory it was; the action before, or the default, then ends the program. */
static void on_segv(int sig, siginfo_t *info, void *context)
{
	const char *addr = info->si_addr;
	char line[160];
	int n = 0;

	(void)context;
	/* No lock: the thread that crashed may hold it. */
	for (const struct fake_mapping *m = all_mappings; m; m = m->next)
		if (addr >= m->addr && addr < m->addr + m->bytes)
			n = snprintf(line, sizeof(line),
				     "fake_cuda: %s touched device memory at %p (byte %td of %zu)\n",
				     m->accessible ? "host code" : "somebody without access",
				     (const void *)addr, addr - m->addr, m->bytes);
	for (const struct range *r = all_ranges; r && !n; r = r->next)
		if (addr >= r->addr && addr < r->addr + r->bytes)
			n = snprintf(line, sizeof(line),
				     "fake_cuda: reserved memory at %p is touched and not mapped\n",
				     (const void *)addr);
	for (unsigned int i = 0; i < GONE && !n; i++)
		if (addr >= gone[i].addr && addr < gone[i].addr + gone[i].bytes)
			n = snprintf(line, sizeof(line),
				     "fake_cuda: memory at %p is touched and was given back\n",
				     (const void *)addr);
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		abort();
	sigaction(sig, &segv_before, NULL);
}

static void watch_segv(void)
{
	static int watched;
	struct sigaction a = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };

	if (!watched)
		sigaction(SIGSEGV, &a, &segv_before);
	watched = 1;
}

/* ---- physical memory ------------------------------------------------------------------------- */

static int phys_new(int fd, int gpu, size_t bytes, int handle_types, struct fake_phys **out)
{
	struct fake_phys *p = calloc(1, sizeof(*p));

	if (!p)
		return ORI_CU_OUT_OF_MEMORY;
	p->alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (p->alias == MAP_FAILED) {
		free(p);
		return ORI_CU_OUT_OF_MEMORY;
	}
	watch_segv();
	p->fd = fd;
	p->gpu = gpu;
	p->bytes = bytes;
	p->handle_types = handle_types;
	p->next = all_phys;
	all_phys = p;
	used_bytes[gpu] += bytes;
	*out = p;
	return 0;
}

int fake_phys_create(int gpu, size_t bytes, int handle_types, struct fake_phys **out)
{
	char name[16];
	int fd, err = ORI_CU_OUT_OF_MEMORY;

	if (bytes > fake_knobs.mem_bytes || used_bytes[gpu] > fake_knobs.mem_bytes - bytes)
		return ORI_CU_OUT_OF_MEMORY;
	/* An importer reads the GPU's number from the name. */
	snprintf(name, sizeof(name), "fake-gpu%d", gpu);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		goto err_fd;
	err = phys_new(fd, gpu, bytes, handle_types, out);
	if (err)
		goto err_fd;
	/* Nobody promises that new memory is zero. */
	memset((*out)->alias, POISON, bytes < POISON_BYTES ? bytes : POISON_BYTES);
	return 0;

err_fd:
	if (fd >= 0)
		close(fd);
	return err;
}

int fake_phys_adopt(int fd, int handle_types, struct fake_phys **out)
{
	char path[64], name[64];
	struct stat st;
	ssize_t n;
	int gpu;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	if (n < 0 || fstat(fd, &st) || st.st_size <= 0)
		return FAKE_INVALID_VALUE;
	name[n] = '\0';
	if (sscanf(name, "/memfd:fake-gpu%d", &gpu) != 1 || gpu < 0 || gpu >= fake_knobs.gpus)
		return FAKE_INVALID_VALUE;
	return phys_new(fd, gpu, (size_t)st.st_size, handle_types, out);
}

void fake_phys_drop(struct fake_phys *p)
{
	struct fake_phys **at = &all_phys;

	if (p->handles || p->mappings)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	used_bytes[p->gpu] -= p->bytes;
	munmap(p->alias, p->bytes);
	close(p->fd);
	free(p);
}

struct fake_phys *fake_phys_find(ori_cu_mem handle)
{
	struct fake_phys *p = all_phys;

	while (p && ((ori_cu_mem)(uintptr_t)p != handle || !p->handles))
		p = p->next;
	return p;
}

/* ---- mappings -------------------------------------------------------------------------------- */

struct fake_mapping *fake_mapping_at(const void *inside)
{
	const char *addr = inside;
	struct fake_mapping *m = all_mappings;

	while (m && (addr < m->addr || addr >= m->addr + m->bytes))
		m = m->next;
	return m;
}

struct fake_mapping *fake_mapping_first(void)
{
	return all_mappings;
}

/* Where copies find the bytes of a reserved address; NULL: it is not reserved. */
static char *range_alias(const char *addr)
{
	struct range *r = all_ranges;

	while (r && (addr < r->addr || addr >= r->addr + r->bytes))
		r = r->next;
	return r ? r->alias + (addr - r->addr) : NULL;
}

int fake_map(struct fake_phys *p, char *addr, size_t bytes, size_t offset,
	     enum fake_mapping_kind kind, struct fake_mapping **out)
{
	struct fake_mapping *m = calloc(1, sizeof(*m));
	int flags = MAP_SHARED | MAP_NORESERVE | (addr ? MAP_FIXED : 0);
	static uint64_t next_id;

	if (!m)
		return ORI_CU_OUT_OF_MEMORY;
	m->addr = addr ? mmap(addr, bytes, PROT_NONE, flags, p->fd, (off_t)offset) :
			 map_again(bytes, PROT_NONE, flags, p->fd, (off_t)offset);
	if (m->addr == MAP_FAILED) {
		free(m);
		return ORI_CU_OUT_OF_MEMORY;
	}
	m->id = ++next_id;
	if (kind == FAKE_VMM && mmap(range_alias(addr), bytes, PROT_READ | PROT_WRITE, flags, p->fd,
				     (off_t)offset) == MAP_FAILED)
		fake_fault("no second address for %zu bytes: %s", bytes, strerror(errno));
	m->bytes = bytes;
	m->offset = offset;
	m->phys = p;
	m->kind = kind;
	m->accessible = kind != FAKE_VMM;
	p->mappings++;
	m->next = all_mappings;
	all_mappings = m;
	fake_protect(m);
	*out = m;
	return 0;
}

/* Addresses of VMM stay reserved, and untouchable. */
void fake_unmap(struct fake_mapping *m)
{
	struct fake_mapping **at = &all_mappings;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	if (m->pending)
		fake_fault("rank %d: memory at %p, %zu bytes, is unmapped while work on a stream "
			   "uses it: %s of rank %d",
			   ori_log_rank_get(), (void *)m->addr, m->bytes, m->user, m->user_rank);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	if (m->kind != FAKE_VMM) {
		munmap(m->addr, m->bytes);
		note_gone(m->addr, m->bytes);
	} else if (mmap(m->addr, m->bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED ||
		   mmap(range_alias(m->addr), m->bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) {
		fake_fault("cannot unmap %zu bytes: %s", m->bytes, strerror(errno));
	}
	m->phys->mappings--;
	fake_phys_drop(m->phys);
	free(m);
}

/* How many bytes are mapped from an address on, and open to a GPU, up to `most`. */
static size_t mapped_bytes(const char *addr, size_t most)
{
	struct fake_mapping *m;
	size_t n = 0;

	while (n < most && (m = fake_mapping_at(addr + n)) && m->accessible)
		n = (size_t)(m->addr + m->bytes - addr);
	return n < most ? n : most;
}

/* A range that begins in host memory and runs into device memory is wrong, too. */
char *fake_bytes(const void *addr, size_t bytes, const char *call, struct fake_mapping **mapping)
{
	struct fake_mapping *m = fake_mapping_at(addr);

	*mapping = m;
	if (!m) {
		for (struct range *r = all_ranges; r; r = r->next)
			if ((const char *)addr < r->addr + r->bytes &&
			    (const char *)addr + bytes > r->addr)
				fake_fault("%s of %zu bytes at %p: nothing is mapped there", call,
					   bytes, addr);
		return (char *)(uintptr_t)addr;
	}
	if (m->kind == FAKE_VMM && m->accessible && mapped_bytes(addr, bytes) == bytes)
		return range_alias(addr);
	if (bytes > (size_t)(m->addr + m->bytes - (const char *)addr))
		fake_fault("%s of %zu bytes at %p runs %zu bytes beyond its allocation", call,
			   bytes, addr, bytes - (size_t)(m->addr + m->bytes - (const char *)addr));
	if (!m->accessible)
		fake_fault("%s at %p: no GPU was given access", call, addr);
	return m->phys->alias + m->offset + ((const char *)addr - m->addr);
}

int fake_memory_live(char *text, size_t bytes)
{
	int handles = 0, mappings = 0, ranges = 0;

	for (struct fake_phys *p = all_phys; p; p = p->next)
		handles += p->handles;
	for (struct fake_mapping *m = all_mappings; m; m = m->next)
		mappings++;
	for (struct range *r = all_ranges; r; r = r->next)
		ranges++;
	if (handles || mappings || ranges)
		snprintf(text, bytes, " %d memory handles, %d mappings, %d address ranges;",
			 handles, mappings, ranges);
	return handles + mappings + ranges;
}

/* ---- virtual memory management --------------------------------------------------------------- */

ori_cu_result cuMemGetAllocationGranularity(size_t *bytes, const struct ori_cu_prop *prop,
					    int which)
{
	int err = fake_enter(FAKE_cuMemGetAllocationGranularity);

	if (err)
		return err;
	if (prop->type != ORI_CU_ALLOC_PINNED || prop->location.type != ORI_CU_LOCATION_DEVICE ||
	    which != ORI_CU_GRANULARITY_MIN)
		return FAKE_INVALID_VALUE;
	*bytes = FAKE_PAGE;
	return 0;
}

static int prop_is_possible(const struct ori_cu_prop *p)
{
	int types = (fake_knobs.fd ? ORI_CU_HANDLE_FD : 0) |
		    (fake_knobs.fabric && fake_knobs.imex ? ORI_CU_HANDLE_FABRIC : 0);

	return p->type == ORI_CU_ALLOC_PINNED && p->location.type == ORI_CU_LOCATION_DEVICE &&
	       p->location.id >= 0 && p->location.id < fake_knobs.gpus &&
	       !(p->handle_types & ~types) && !p->gpudirect_rdma;
}

ori_cu_result cuMemCreate(ori_cu_mem *handle, size_t bytes, const struct ori_cu_prop *prop,
			  unsigned long long flags)
{
	int err = fake_enter_context(FAKE_cuMemCreate, NULL);
	struct fake_phys *p;

	if (err)
		return err;
	if (!fake_knobs.vmm)
		return FAKE_NOT_SUPPORTED;
	if (!bytes || bytes % FAKE_PAGE || flags || !prop_is_possible(prop))
		return FAKE_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	err = fake_phys_create(prop->location.id, bytes, prop->handle_types, &p);
	if (!err) {
		p->handles = 1;
		*handle = (ori_cu_mem)(uintptr_t)p;
	}
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuMemRelease(ori_cu_mem handle)
{
	int err = fake_enter(FAKE_cuMemRelease);
	struct fake_phys *p;

	if (fake_refuses(err))
		return err;
	pthread_mutex_lock(&fake_lock);
	p = fake_phys_find(handle);
	if (!p)
		fake_fault("cuMemRelease of %#llx, which is no memory or was released", handle);
	p->handles--;
	fake_phys_drop(p);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuMemAddressReserve(ori_cu_ptr *addr, size_t bytes, size_t alignment, ori_cu_ptr wish,
				  unsigned long long flags)
{
	int err = fake_enter(FAKE_cuMemAddressReserve);
	struct range *r;
	char *map;

	(void)wish;
	if (err)
		return err;
	if (!bytes || bytes % FAKE_PAGE || (alignment & (alignment - 1)) || flags)
		return FAKE_INVALID_VALUE;
	r = calloc(1, sizeof(*r));
	if (!r)
		return ORI_CU_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake_lock);
	map = map_again(2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED) {
		pthread_mutex_unlock(&fake_lock);
		free(r);
		return ORI_CU_OUT_OF_MEMORY;
	}
	r->addr = map;
	r->bytes = bytes;
	r->alias = map + bytes;
	r->next = all_ranges;
	all_ranges = r;
	pthread_mutex_unlock(&fake_lock);
	*addr = (ori_cu_ptr)(uintptr_t)map;
	return 0;
}

static int overlaps(const struct fake_mapping *m, const char *addr, size_t bytes)
{
	return addr < m->addr + m->bytes && m->addr < addr + bytes;
}

ori_cu_result cuMemAddressFree(ori_cu_ptr addr, size_t bytes)
{
	int err = fake_enter(FAKE_cuMemAddressFree);
	struct range **at = &all_ranges, *r;
	char *base = (char *)(uintptr_t)addr;

	if (fake_refuses(err))
		return err;
	pthread_mutex_lock(&fake_lock);
	while ((r = *at) && r->addr != base)
		at = &r->next;
	if (!r || r->bytes != bytes)
		fake_fault("cuMemAddressFree of %p, %zu bytes: not reserved so", (void *)base,
			   bytes);
	for (struct fake_mapping *m = all_mappings; m; m = m->next)
		if (overlaps(m, base, bytes))
			fake_fault("cuMemAddressFree of %p, where memory is mapped", (void *)base);
	*at = r->next;
	munmap(r->addr, 2 * r->bytes);
	note_gone(r->addr, 2 * r->bytes);
	free(r);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

/* Inside a reservation, and free. */
static void check_place(const char *addr, size_t bytes)
{
	struct range *r = all_ranges;

	while (r && (addr < r->addr || addr + bytes > r->addr + r->bytes))
		r = r->next;
	if (!r)
		fake_fault("cuMemMap at %p, which is not reserved", (const void *)addr);
	for (struct fake_mapping *m = all_mappings; m; m = m->next)
		if (overlaps(m, addr, bytes))
			fake_fault("cuMemMap at %p, where memory is mapped", (const void *)addr);
}

ori_cu_result cuMemMap(ori_cu_ptr addr, size_t bytes, size_t offset, ori_cu_mem handle,
		       unsigned long long flags)
{
	int err = fake_enter(FAKE_cuMemMap);
	struct fake_mapping *m;
	struct fake_phys *p;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	p = fake_phys_find(handle);
	if (!p)
		fake_fault("cuMemMap of %#llx, which is no memory or was released", handle);
	check_place((char *)(uintptr_t)addr, bytes);
	err = !bytes || bytes % FAKE_PAGE || offset || bytes > p->bytes || flags ?
		      FAKE_INVALID_VALUE :
		      fake_map(p, (char *)(uintptr_t)addr, bytes, offset, FAKE_VMM, &m);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuMemUnmap(ori_cu_ptr addr, size_t bytes)
{
	int err = fake_enter(FAKE_cuMemUnmap);
	struct fake_mapping *m;

	if (fake_refuses(err))
		return err;
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at((void *)(uintptr_t)addr);
	if (!m || m->kind != FAKE_VMM || m->addr != (char *)(uintptr_t)addr || m->bytes != bytes)
		fake_fault("cuMemUnmap of %#llx, %zu bytes: not mapped so", addr, bytes);
	fake_unmap(m);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuMemSetAccess(ori_cu_ptr addr, size_t bytes, const struct ori_cu_access *access,
			     size_t count)
{
	int err = fake_enter(FAKE_cuMemSetAccess);
	struct fake_mapping *m;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at((void *)(uintptr_t)addr);
	if (!m || m->addr != (char *)(uintptr_t)addr || m->bytes != bytes)
		err = FAKE_INVALID_VALUE;
	for (size_t i = 0; !err && i < count; i++) {
		int gpu = access[i].location.id;

		if (access[i].location.type != ORI_CU_LOCATION_DEVICE ||
		    access[i].flags != ORI_CU_ACCESS_READWRITE || gpu < 0 || gpu >= fake_knobs.gpus)
			err = FAKE_INVALID_VALUE;
		else if (gpu != m->phys->gpu && !fake_knobs.peer)
			err = FAKE_NO_PEER_ACCESS;
	}
	if (!err) {
		m->accessible = 1;
		fake_protect(m);
	}
	pthread_mutex_unlock(&fake_lock);
	return err;
}
