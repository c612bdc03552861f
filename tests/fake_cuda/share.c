/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/share.c - memory between processes (descriptors, fabric handles, CUDA IPC), memory that
 * a user's program allocates, pinned host memory, and attributes of pointers.
 *
 * A fabric handle and an IPC handle name a descriptor of the exporting process.  The importer opens
 * it through /proc, so the exporter must be alive and of the same user, as for real handles.  This
 * works across network namespaces, while passing descriptors over sockets does not.  So a fabric
 * handle is valid on another "host" of the same fabric, and nowhere else.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "atomic.h"
#include "fake.h"

#define MAGIC_IPC 0x4b414645u
#define MAGIC_FABRIC 0x4b414646u

struct name { /* what a handle's 64 bytes hold */
	uint32_t magic;
	int32_t pid, fd, gpu;
	uint64_t bytes;
	int32_t cluster, clique; /* of a fabric handle */
};

struct pin {
	struct pin *next;
	char *base;
	size_t bytes;
	int owned; /* cuMemHostAlloc */
};

static struct pin *all_pins;

/* ---- names of descriptors -------------------------------------------------------------------- */

static void name_write(void *handle, uint32_t magic, const struct fake_phys *p)
{
	struct name n = {
		magic, getpid(), p->fd, p->gpu, p->bytes, fake_knobs.cluster, fake_knobs.clique
	};

	memset(handle, 0, 64);
	memcpy(handle, &n, sizeof(n));
}

/* The named memory, here; the exporter may be this process. */
static int name_open(const void *handle, uint32_t magic, int handle_types, struct fake_phys **out)
{
	struct name n;
	char path[64];
	int fd, err;

	memcpy(&n, handle, sizeof(n));
	if (n.magic != magic || (magic == MAGIC_FABRIC && (n.cluster != fake_knobs.cluster ||
							   n.clique != fake_knobs.clique)))
		return FAKE_INVALID_VALUE;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", n.pid, n.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return FAKE_INVALID_VALUE;
	err = fake_phys_adopt(fd, handle_types, out);
	if (!err && ((*out)->gpu != n.gpu || (*out)->bytes != n.bytes)) {
		fake_phys_drop(*out);
		return FAKE_INVALID_VALUE;
	}
	if (err)
		close(fd);
	return err;
}

/* ---- export and import of VMM memory --------------------------------------------------------- */

ori_cu_result cuMemExportToShareableHandle(void *handle, ori_cu_mem memory, int handle_type,
					   unsigned long long flags)
{
	int err = fake_enter(FAKE_cuMemExportToShareableHandle), fd;
	struct fake_phys *p;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	p = fake_phys_find(memory);
	if (!p)
		fake_fault("export of %#llx, which is no memory or was released", memory);
	if (!(p->handle_types & handle_type) || flags) {
		err = FAKE_INVALID_VALUE;
	} else if (handle_type == ORI_CU_HANDLE_FABRIC) {
		name_write(handle, MAGIC_FABRIC, p);
	} else {
		fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
		err = fd < 0 ? FAKE_UNKNOWN : 0;
		if (!err)
			memcpy(handle, &fd, sizeof(fd));
	}
	pthread_mutex_unlock(&fake_lock);
	return err;
}

static int import_fd(int theirs, struct fake_phys **out)
{
	int fd = fcntl(theirs, F_DUPFD_CLOEXEC, 0), err;

	if (fd < 0)
		return FAKE_INVALID_VALUE;
	err = fake_phys_adopt(fd, ORI_CU_HANDLE_FD, out);
	if (err)
		close(fd);
	return err;
}

ori_cu_result cuMemImportFromShareableHandle(ori_cu_mem *memory, void *handle, int handle_type)
{
	int err = fake_enter(FAKE_cuMemImportFromShareableHandle);
	struct fake_phys *p;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	if (handle_type == ORI_CU_HANDLE_FD)
		err = import_fd((int)(intptr_t)handle, &p);
	else if (handle_type == ORI_CU_HANDLE_FABRIC && fake_knobs.fabric && fake_knobs.imex)
		err = name_open(handle, MAGIC_FABRIC, ORI_CU_HANDLE_FABRIC, &p);
	else
		err = FAKE_NOT_SUPPORTED;
	if (!err) {
		p->handles = 1;
		*memory = (ori_cu_mem)(uintptr_t)p;
	}
	pthread_mutex_unlock(&fake_lock);
	return err;
}

/* The program's own, or an imported one; only memory that was mapped by cuMemMap has a handle. */
ori_cu_result cuMemRetainAllocationHandle(ori_cu_mem *memory, void *inside)
{
	int err = fake_enter(FAKE_cuMemRetainAllocationHandle);
	struct fake_mapping *m;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at(inside);
	if (!m || m->kind != FAKE_VMM) {
		err = FAKE_INVALID_VALUE;
	} else {
		m->phys->handles++;
		*memory = (ori_cu_mem)(uintptr_t)m->phys;
	}
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuMemGetAllocationPropertiesFromHandle(struct ori_cu_prop *prop, ori_cu_mem memory)
{
	int err = fake_enter(FAKE_cuMemGetAllocationPropertiesFromHandle);
	struct fake_phys *p;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	p = fake_phys_find(memory);
	if (!p)
		fake_fault("properties of %#llx, which is no memory or was released", memory);
	memset(prop, 0, sizeof(*prop));
	prop->type = ORI_CU_ALLOC_PINNED;
	prop->handle_types = p->handle_types;
	prop->location.type = ORI_CU_LOCATION_DEVICE;
	prop->location.id = p->gpu;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

/* ---- CUDA IPC -------------------------------------------------------------------------------- */

ori_cu_result cuIpcGetMemHandle(struct ori_cu_ipc *handle, ori_cu_ptr addr)
{
	int err = fake_enter_context(FAKE_cuIpcGetMemHandle, NULL);
	struct fake_mapping *m;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at((void *)(uintptr_t)addr);
	if (!m || m->kind != FAKE_MALLOC)
		err = FAKE_INVALID_VALUE;
	else
		name_write(handle, MAGIC_IPC, m->phys);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

/* A handle that is open already counts once more, at the same address. */
static struct fake_mapping *opened(const struct ori_cu_ipc *handle)
{
	struct fake_mapping *m = fake_mapping_first();

	while (m && (m->kind != FAKE_IPC || memcmp(&m->handle, handle, sizeof(*handle)) != 0))
		m = m->next;
	return m;
}

static int ipc_open(const struct ori_cu_ipc *handle, int gpu, struct fake_mapping **out)
{
	struct fake_phys *p;
	int err = name_open(handle, MAGIC_IPC, 0, &p);

	if (err)
		return err;
	if (p->gpu != gpu && !fake_knobs.peer)
		err = FAKE_NO_PEER_ACCESS;
	else
		err = fake_map(p, NULL, p->bytes, 0, FAKE_IPC, out);
	if (err)
		fake_phys_drop(p);
	else
		(*out)->handle = *handle;
	return err;
}

ori_cu_result cuIpcOpenMemHandle_v2(ori_cu_ptr *addr, struct ori_cu_ipc handle, unsigned int flags)
{
	struct fake_mapping *m;
	struct name n;
	int gpu, err = fake_enter_context(FAKE_cuIpcOpenMemHandle, &gpu);

	if (err)
		return err;
	memcpy(&n, &handle, sizeof(n));
	if (n.magic != MAGIC_IPC || flags != ORI_CU_IPC_LAZY_PEER)
		return FAKE_INVALID_VALUE;
	if (n.pid == getpid()) /* the real one refuses it, too */
		return FAKE_INVALID_CONTEXT;
	pthread_mutex_lock(&fake_lock);
	m = opened(&handle);
	if (!m)
		err = ipc_open(&handle, gpu, &m);
	if (!err) {
		m->opens++;
		*addr = (ori_cu_ptr)(uintptr_t)m->addr;
	}
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuIpcCloseMemHandle(ori_cu_ptr addr)
{
	int err = fake_enter_context(FAKE_cuIpcCloseMemHandle, NULL);
	struct fake_mapping *m;

	if (fake_refuses(err))
		return err;
	fake_await_kernels(); /* taken to wait, as freeing memory does: nobody has timed it */
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at((void *)(uintptr_t)addr);
	if (!m || m->kind != FAKE_IPC || m->addr != (char *)(uintptr_t)addr)
		fake_fault("cuIpcCloseMemHandle of %#llx, which no IPC handle gave", addr);
	if (--m->opens == 0)
		fake_unmap(m);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

/* ---- memory of the user ---------------------------------------------------------------------- */

void *fake_cuda_malloc(int gpu, enum fake_cuda_memory kind, size_t bytes)
{
	static const enum fake_mapping_kind kinds[] = { FAKE_MALLOC, FAKE_MANAGED, FAKE_POOL };
	size_t rounded = (bytes + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
	struct fake_mapping *m = NULL;
	struct fake_phys *p;

	pthread_mutex_lock(&fake_lock);
	if (!bytes || fake_phys_create(gpu, rounded, 0, &p))
		fake_fault("no memory of %zu bytes for the test", bytes);
	if (fake_map(p, NULL, rounded, 0, kinds[kind], &m))
		fake_fault("no addresses for %zu bytes of the test", bytes);
	pthread_mutex_unlock(&fake_lock);
	return m->addr;
}

void fake_cuda_free(void *addr)
{
	struct fake_mapping *m;

	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at(addr);
	if (!m || m->addr != addr || m->kind == FAKE_VMM || m->kind == FAKE_IPC)
		fake_fault("%p was not allocated by the test", addr);
	fake_unmap(m);
	pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_read(void *to, const void *device, size_t bytes)
{
	struct fake_mapping *m;

	pthread_mutex_lock(&fake_lock);
	memcpy(to, fake_bytes(device, bytes, "a read of the test", &m), bytes);
	pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_write(void *device, const void *from, size_t bytes)
{
	struct fake_mapping *m;

	pthread_mutex_lock(&fake_lock);
	memcpy(fake_bytes(device, bytes, "a write of the test", &m), from, bytes);
	pthread_mutex_unlock(&fake_lock);
}

/* Ranks are processes on a GPU each: what is not of an open one is a peer's. */
void fake_cuda_atomic(const void *word)
{
	struct fake_mapping *m;

	if (fake_knobs.atomics)
		return;
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at(word);
	if (m && !fake_gpu_is_open(m->phys->gpu))
		fake_fault("an atomic of a kernel at %p, in memory of GPU %d, which has none for "
			   "this one",
			   word, m->phys->gpu);
	pthread_mutex_unlock(&fake_lock);
}

/* ---- pinned memory --------------------------------------------------------------------------- */

static struct pin *pin_at(const void *inside)
{
	struct pin *p = all_pins;

	while (p && ((const char *)inside < p->base || (const char *)inside >= p->base + p->bytes))
		p = p->next;
	return p;
}

static int pin_add(void *base, size_t bytes, int owned)
{
	struct pin *p = calloc(1, sizeof(*p));

	if (!p)
		return ORI_CU_OUT_OF_MEMORY;
	p->base = base;
	p->bytes = bytes;
	p->owned = owned;
	p->next = all_pins;
	all_pins = p;
	return 0;
}

static void pin_remove(void *base, int owned, const char *call)
{
	struct pin **at = &all_pins, *p;

	while ((p = *at) && (p->base != base || p->owned != owned))
		at = &p->next;
	if (!p)
		fake_fault("%s of %p, which is not pinned so", call, base);
	*at = p->next;
	if (owned)
		munmap(p->base, p->bytes);
	free(p);
}

ori_cu_result cuMemHostRegister_v2(void *base, size_t bytes, unsigned int flags)
{
	int err = fake_enter_context(FAKE_cuMemHostRegister, NULL);

	if (err)
		return err;
	if (!base || !bytes ||
	    (flags & ~(unsigned int)(ORI_CU_PIN_PORTABLE | ORI_CU_PIN_DEVICEMAP | ORI_CU_PIN_IO)))
		return FAKE_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	for (struct pin *p = all_pins; p; p = p->next)
		if ((char *)base < p->base + p->bytes && p->base < (char *)base + bytes)
			err = ORI_CU_ALREADY_PINNED;
	if (!err && fake_mapping_at(base))
		err = FAKE_INVALID_VALUE;
	if (!err)
		err = pin_add(base, bytes, 0);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuMemHostUnregister(void *base)
{
	int err = fake_enter_context(FAKE_cuMemHostUnregister, NULL);

	if (fake_refuses(err))
		return err;
	fake_await_kernels();
	pthread_mutex_lock(&fake_lock);
	pin_remove(base, 0, "cuMemHostUnregister");
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuMemHostGetDevicePointer_v2(ori_cu_ptr *device, void *host, unsigned int flags)
{
	int err = fake_enter_context(FAKE_cuMemHostGetDevicePointer, NULL);

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	err = flags || !pin_at(host) ? FAKE_INVALID_VALUE : 0;
	pthread_mutex_unlock(&fake_lock);
	if (!err)
		*device = (ori_cu_ptr)(uintptr_t)host;
	return err;
}

ori_cu_result cuMemHostAlloc(void **base, size_t bytes, unsigned int flags)
{
	int err = fake_enter_context(FAKE_cuMemHostAlloc, NULL);
	void *map;

	(void)flags;
	if (err)
		return err;
	if (!bytes)
		return FAKE_INVALID_VALUE;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return ORI_CU_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake_lock);
	err = pin_add(map, bytes, 1);
	pthread_mutex_unlock(&fake_lock);
	if (err)
		munmap(map, bytes);
	else
		*base = map;
	return err;
}

ori_cu_result cuMemFreeHost(void *base)
{
	int err = fake_enter(FAKE_cuMemFreeHost);

	if (fake_refuses(err))
		return err;
	fake_await_kernels();
	pthread_mutex_lock(&fake_lock);
	pin_remove(base, 1, "cuMemFreeHost");
	pthread_mutex_unlock(&fake_lock);
	return err;
}

int fake_pins_live(char *text, size_t bytes)
{
	int live = 0;

	for (struct pin *p = all_pins; p; p = p->next)
		live++;
	if (live)
		snprintf(text, bytes, " %d pinned ranges;", live);
	return live;
}

/* ---- pointers -------------------------------------------------------------------------------- */

ori_cu_result cuMemGetAddressRange_v2(ori_cu_ptr *base, size_t *bytes, ori_cu_ptr inside)
{
	int err = fake_enter(FAKE_cuMemGetAddressRange);
	struct fake_mapping *m;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at((void *)(uintptr_t)inside);
	if (m) {
		*base = (ori_cu_ptr)(uintptr_t)m->addr;
		*bytes = m->bytes;
	}
	pthread_mutex_unlock(&fake_lock);
	return m ? 0 : ORI_CU_NOT_FOUND;
}

/* A "dma-buf" is the memfd of the whole allocation. */
ori_cu_result cuMemGetHandleForAddressRange(void *handle, ori_cu_ptr begin, size_t bytes, int type,
					    unsigned long long flags)
{
	int gpu, fd = -1, err = fake_enter_context(FAKE_cuMemGetHandleForAddressRange, &gpu);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct fake_mapping *m;

	if (err)
		return err;
	if (type != ORI_CU_RANGE_DMA_BUF || flags || begin % page || !bytes || bytes % page)
		return FAKE_INVALID_VALUE;
	if (!fake_knobs.dmabuf)
		return FAKE_NOT_SUPPORTED;
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at((void *)(uintptr_t)begin);
	if (!m || bytes > m->bytes - (size_t)(begin - (uint64_t)(uintptr_t)m->addr))
		err = FAKE_INVALID_VALUE;
	else
		fd = fcntl(m->phys->fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&fake_lock);
	if (!err && fd < 0)
		err = FAKE_UNKNOWN;
	if (!err)
		memcpy(handle, &fd, sizeof(fd));
	return err;
}

/* For a pointer that the driver does not know, everything is 0, and this is not an error. */
static int write_attribute(int attribute, void *value, const struct fake_mapping *m, int pinned)
{
	unsigned int type = m ? ORI_CU_MEMORY_DEVICE : pinned ? ORI_CU_MEMORY_HOST : 0;
	int gpu = m ? m->phys->gpu : pinned ? 0 : -2;
	uint64_t none = 0;
	unsigned char flag;

	switch (attribute) {
	case ORI_CU_PTR_BUFFER_ID:
		memcpy(value, m ? &m->id : &none, sizeof(none));
		return 0;
	case ORI_CU_PTR_MEMORY_TYPE:
		memcpy(value, &type, sizeof(type));
		return 0;
	case ORI_CU_PTR_ORDINAL:
		memcpy(value, &gpu, sizeof(gpu));
		return 0;
	case ORI_CU_PTR_IS_MANAGED:
		flag = m && m->kind == FAKE_MANAGED;
		break;
	case ORI_CU_PTR_IPC_CAPABLE:
		flag = m && m->kind == FAKE_MALLOC;
		break;
	default:
		return FAKE_INVALID_VALUE;
	}
	memcpy(value, &flag, sizeof(flag)); /* a boolean: one byte */
	return 0;
}

ori_cu_result cuPointerGetAttributes(unsigned int count, int *attributes, void **values,
				     ori_cu_ptr addr)
{
	int err = fake_enter_context(FAKE_cuPointerGetAttributes, NULL);
	const struct fake_mapping *m;
	int pinned;

	if (!err)
		err = fake_broken();
	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	m = fake_mapping_at((void *)(uintptr_t)addr);
	pinned = pin_at((void *)(uintptr_t)addr) != NULL;
	for (unsigned int i = 0; !err && i < count; i++)
		err = write_attribute(attributes[i], values[i], m, pinned);
	pthread_mutex_unlock(&fake_lock);
	return err;
}
