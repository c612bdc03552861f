/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/export.c - memory that the program allocated: whether peers can map it, and how.
 *
 * Memory of cudaMalloc is shared by CUDA IPC.  Memory that the program mapped itself (cuMemCreate,
 * cuMemMap, as PyTorch's expandable segments) is shared by the handle types it was created with.
 * One range often consists of many allocations, and each is exported.  Any thread.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../util/util.h"
#include "../cpu/cpu.h"
#include "cuda_device.h"

/* ---- handles --------------------------------------------------------------------------------- */

/* By descriptor for this host and by fabric handle for others, or by fabric handle alone. */
int ori_cuda_export_handle(struct ori_cuda_gpu *gpu, ori_cu_mem handle, int32_t types,
			   struct ori_allocation *out)
{
	const struct ori_cuda_driver *cu = gpu->cu;
	struct ori_cu_fabric fabric;
	int err = 0, fd = -1;

	out->fd = -1;
	out->kind = types & ORI_CU_HANDLE_FD ? ORI_EXPORT_CUDA_FD : ORI_EXPORT_CUDA_FABRIC;
	out->far = (types & ORI_CU_HANDLE_FABRIC) != 0;
	memset(out->handle, 0, sizeof(out->handle));
	if (types & ORI_CU_HANDLE_FD)
		err = cu->cuMemExportToShareableHandle(&fd, handle, ORI_CU_HANDLE_FD, 0);
	if (!err && out->far) {
		err = cu->cuMemExportToShareableHandle(&fabric, handle, ORI_CU_HANDLE_FABRIC, 0);
		if (err && fd >= 0)
			close(fd);
		else if (!err)
			memcpy(out->handle, &fabric, sizeof(fabric));
	}
	if (err)
		return ori_cuda_fail(err, "cuMemExportToShareableHandle", "GPU %d", gpu->ordinal);
	out->fd = fd;
	return 0;
}

/* ---- the user's memory ----------------------------------------------------------------------- */

struct pointer_facts {
	uint64_t type, managed, ordinal, ipc, id; /* the driver writes 1 to 8 bytes to each */
};

/* Reads the first `count` attributes, cheapest first. */
static int look(const struct ori_cuda_gpu *gpu, const void *ptr, struct pointer_facts *f,
		unsigned int count)
{
	int attributes[] = { ORI_CU_PTR_MEMORY_TYPE, ORI_CU_PTR_IS_MANAGED, ORI_CU_PTR_ORDINAL,
			     ORI_CU_PTR_IPC_CAPABLE, ORI_CU_PTR_BUFFER_ID };
	void *values[] = { &f->type, &f->managed, &f->ordinal, &f->ipc, &f->id };
	ori_cu_ptr at = (ori_cu_ptr)(uintptr_t)ptr;
	struct ori_cuda_scope scope;
	int err;

	memset(f, 0, sizeof(*f));
	err = gpu->cu->cuPointerGetAttributes(count, attributes, values, at);
	/* Addresses are the same in all contexts, so most drivers need no context. */
	if (err != ORI_CU_INVALID_CONTEXT)
		return err;
	if (ori_cuda_enter(gpu, &scope))
		return ORI_CU_UNKNOWN;
	err = gpu->cu->cuPointerGetAttributes(count, attributes, values, at);
	ori_cuda_leave(&scope);
	return err;
}

int ori_cuda_memory_type(const struct ori_cuda_gpu *gpu, const void *ptr)
{
	struct pointer_facts f;
	int err, ours = ori_cuda_range_type(ptr);

	if (ours)
		return ours;
	err = look(gpu, ptr, &f, 1);
	/* The two results by which drivers say that they do not know the address. */
	if (err == ORI_CU_INVALID_CONTEXT || err == ORI_CU_INVALID_VALUE)
		return 0;
	return err ? ori_cuda_fail(err, "cuPointerGetAttributes", "%p", ptr) :
		     (int)(uint32_t)f.type;
}

int ori_cuda_holds(struct ori_device *device, const void *ptr)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct pointer_facts f;

	/*
	 * The driver cannot answer after a kernel crashed.  Taking the memory for host memory would
	 * crash.
	 */
	if (look(d->gpu, ptr, &f, 2))
		return 1;
	return f.type == ORI_CU_MEMORY_DEVICE && !f.managed;
}

/* A GPU with access to pageable memory also reaches host memory that the driver does not know. */
int ori_cuda_can_store(struct ori_device *device, const void *ptr)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	int pageable = 0;

	if (ori_cuda_memory_type(d->gpu, ptr))
		return 1;
	if (d->gpu->cu->cuDeviceGetAttribute(&pageable, ORI_CU_DEV_PAGEABLE, d->gpu->dev))
		return 1; /* a lost GPU reports itself at the launch */
	return pageable;
}

/* Memory that a program mapped piece by piece consists of several adjacent allocations. */
static int is_device_memory(const struct ori_cuda_gpu *gpu, const void *ptr, size_t bytes)
{
	ori_cu_ptr at = (ori_cu_ptr)(uintptr_t)ptr, end = at + bytes, base;
	size_t size;

	while (at < end) {
		int err = gpu->cu->cuMemGetAddressRange(&base, &size, at);

		/*
		 * A lost GPU gives no more answers about its memory, and its failure is reported
		 * elsewhere.
		 */
		if (err && ori_cuda_is_lost(err))
			return 1;
		if (err || base + size <= at)
			return 0;
		at = base + size;
	}
	return 1;
}

int ori_cuda_is_memory(struct ori_device *device, const void *ptr, size_t bytes)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	int is;

	if (bytes > UINTPTR_MAX - (uintptr_t)ptr)
		return 0;
	if (!ori_cuda_holds(device, ptr))
		return ori_cpu_is_memory(device, ptr, bytes);
	if (ori_cuda_enter(d->gpu, &scope))
		return 1;
	is = is_device_memory(d->gpu, ptr, bytes);
	ori_cuda_leave(&scope);
	return is;
}

/*
 * The driver numbers every allocation of cudaMalloc.  Memory that a program maps and unmaps itself,
 * and memory of pools, may change behind an address while the driver reports the same range.
 */
void ori_cuda_identify(struct ori_device *device, const void *ptr, struct ori_identity *out)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	struct pointer_facts f;
	ori_cu_ptr base = 0;
	size_t bytes = 0;
	int err;

	memset(out, 0, sizeof(*out));
	if (ori_cuda_range_type(ptr) || look(d->gpu, ptr, &f, 5) ||
	    f.type != ORI_CU_MEMORY_DEVICE || f.managed || !f.ipc || ori_cuda_enter(d->gpu, &scope))
		return;
	err = d->gpu->cu->cuMemGetAddressRange(&base, &bytes, (ori_cu_ptr)(uintptr_t)ptr);
	ori_cuda_leave(&scope);
	if (err)
		return;
	out->number = f.id;
	out->base = (void *)(uintptr_t)base;
	out->bytes = bytes;
}

/* NULL, or why no other process can map it. */
static const char *obstacle(const struct ori_cuda_gpu *gpu, const struct pointer_facts *f)
{
	if (f->managed)
		return "it is managed memory";
	if (f->type == ORI_CU_MEMORY_HOST)
		return "it is pinned host memory";
	if (f->type != ORI_CU_MEMORY_DEVICE)
		return "it is host memory, or no memory that CUDA knows";
	if ((int)(uint32_t)f->ordinal != gpu->ordinal)
		return "it is memory of another GPU than this rank's";
	return NULL;
}

static int describe_inside(struct ori_cuda_gpu *gpu, const void *ptr, size_t bytes, uint64_t id,
			   struct ori_allocation *out)
{
	ori_cu_ptr at = (ori_cu_ptr)(uintptr_t)ptr, base;
	struct ori_cu_ipc handle;
	size_t size;
	int err = gpu->cu->cuMemGetAddressRange(&base, &size, at);

	if (err)
		return ori_cuda_fail(err, "cuMemGetAddressRange", "%zu bytes at %p", bytes, ptr);
	if (bytes > size || at - base > size - bytes)
		return ori_fail(ORIEL_ERANGE,
				"%zu bytes at %p exceed their allocation of %zu bytes", bytes, ptr,
				size);
	err = gpu->cu->cuIpcGetMemHandle(&handle, base);
	if (err)
		return ori_fail(ORIEL_EEXPORT,
				"%zu bytes at %p: cuIpcGetMemHandle: %s; allocate them with "
				"oriel_alloc",
				bytes, ptr, ori_cuda_text(err));
	memset(out, 0, sizeof(*out));
	out->base = (void *)(uintptr_t)base;
	out->bytes = size;
	out->fd = -1;
	out->kind = ORI_EXPORT_CUDA_IPC;
	memcpy(out->handle, &handle, sizeof(handle));
	out->identity = id;
	return 0;
}

/* ---- memory that the program mapped itself --------------------------------------------------- */

#define PARTS_MAX 65536u

/*
 * The mapping that contains the address.  Callers step from one mapping to the next by its end.  So
 * this relies on a driver that returns a mapping here, not the whole reservation.
 */
static int part_at(struct ori_cuda_gpu *gpu, ori_cu_ptr at, ori_cu_ptr *base, size_t *bytes)
{
	int err = gpu->cu->cuMemGetAddressRange(base, bytes, at);

	if (err == ORI_CU_NOT_FOUND || err == ORI_CU_INVALID_VALUE)
		return ori_fail(ORIEL_ERANGE,
				"no memory is mapped at %#llx: a window, buffer or source there has a "
				"gap",
				at);
	if (err)
		return ori_cuda_fail(err, "cuMemGetAddressRange", "memory at %#llx", at);
	return 0;
}

static int export_part(struct ori_cuda_gpu *gpu, ori_cu_mem handle, struct ori_allocation *out)
{
	struct ori_cu_prop prop;
	int err = gpu->cu->cuMemGetAllocationPropertiesFromHandle(&prop, handle);

	if (err)
		return ori_cuda_fail(err, "cuMemGetAllocationPropertiesFromHandle", "GPU %d",
				     gpu->ordinal);
	if (!(prop.handle_types & (ORI_CU_HANDLE_FD | ORI_CU_HANDLE_FABRIC)))
		return ori_fail_silent(
			ORIEL_EEXPORT,
			"the program made it (cuMemCreate) without a handle type that can be "
			"exported: ask for CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or use "
			"oriel_alloc");
	return ori_cuda_export_handle(gpu, handle, prop.handle_types, out);
}

/* Describes one mapping, from its first byte. */
static int describe_part(struct ori_cuda_gpu *gpu, ori_cu_ptr base, size_t bytes,
			 struct ori_allocation *out)
{
	ori_cu_mem handle;
	int err = gpu->cu->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)base);

	if (err)
		return ori_fail_silent(
			ORIEL_EEXPORT,
			"it is from a memory pool, or of another kind that CUDA cannot share "
			"(cuMemRetainAllocationHandle: %s): allocate it with oriel_alloc or "
			"cudaMalloc",
			ori_cuda_text(err));
	err = export_part(gpu, handle, out);
	(void)gpu->cu->cuMemRelease(handle);
	out->base = (void *)(uintptr_t)base;
	out->bytes = bytes;
	return err;
}

static void forget_parts(struct ori_allocation *a)
{
	for (uint32_t i = 0; i < a->nparts; i++)
		if (a->parts[i].fd >= 0)
			close(a->parts[i].fd);
	free(a->parts);
	a->parts = NULL;
	a->nparts = 0;
}

/* The number of mappings behind the range. */
static int count_parts(struct ori_cuda_gpu *gpu, ori_cu_ptr at, size_t bytes, uint32_t *count)
{
	ori_cu_ptr base, end = at + bytes;
	size_t size;
	int err;

	for (*count = 0; at < end; at = base + size) {
		err = part_at(gpu, at, &base, &size);
		if (err)
			return err;
		if (++*count > PARTS_MAX)
			return ori_fail(ORIEL_ERANGE,
					"more than %u allocations make up the %zu bytes that end "
					"at %#llx",
					PARTS_MAX, bytes, end);
	}
	return 0;
}

static int describe_parts(struct ori_cuda_gpu *gpu, ori_cu_ptr at, uint32_t count,
			  struct ori_allocation *out)
{
	ori_cu_ptr base;
	size_t size;
	int err = 0;

	out->kind = ORI_EXPORT_CUDA_PARTS;
	out->fd = -1;
	out->parts = calloc(count, sizeof(*out->parts));
	if (!out->parts)
		return ori_fail(ORIEL_ENOMEM, "no memory to describe %u allocations", count);
	while (!err && out->nparts < count) {
		struct ori_allocation *part = &out->parts[out->nparts];

		err = part_at(gpu, at, &base, &size);
		if (!err)
			err = describe_part(gpu, base, size, part);
		if (err)
			break;
		if (!out->nparts++)
			out->base = (void *)(uintptr_t)base;
		out->bytes += size;
		at = base + size;
	}
	if (err)
		forget_parts(out);
	return err;
}

static int describe_vmm(struct ori_cuda_gpu *gpu, const void *ptr, size_t bytes,
			struct ori_allocation *out)
{
	ori_cu_ptr at = (ori_cu_ptr)(uintptr_t)ptr, base;
	uint32_t count = 0;
	size_t size;
	int err = count_parts(gpu, at, bytes, &count);

	memset(out, 0, sizeof(*out));
	out->fd = -1;
	if (!err && count == 1) {
		err = part_at(gpu, at, &base, &size);
		if (!err)
			err = describe_part(gpu, base, size, out);
	} else if (!err) {
		err = describe_parts(gpu, at, count, out);
	}
	if (err == ORIEL_EEXPORT)
		return ori_fail(err, "%zu bytes at %p cannot be given to another process: %s",
				bytes, ptr, ori_last_error_text());
	return err;
}

/* ---- either ---------------------------------------------------------------------------------- */

int ori_cuda_describe(struct ori_device *device, const void *ptr, size_t bytes,
		      struct ori_allocation *out)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	struct pointer_facts f;
	const char *why;
	int err = look(d->gpu, ptr, &f, 5);

	if (err)
		return ori_cuda_fail(err, "cuPointerGetAttributes", "%zu bytes at %p", bytes, ptr);
	why = obstacle(d->gpu, &f);
	if (why)
		return ori_fail(ORIEL_EEXPORT,
				"%zu bytes at %p cannot be given to another process: %s; allocate "
				"them with oriel_alloc or cudaMalloc",
				bytes, ptr, why);
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	if (f.ipc)
		err = describe_inside(d->gpu, ptr, bytes, f.id, out);
	else
		err = describe_vmm(d->gpu, ptr, bytes, out);
	ori_cuda_leave(&scope);
	return err;
}

void ori_cuda_forget(struct ori_device *device, struct ori_allocation *a)
{
	(void)device;
	forget_parts(a);
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	memset(a->handle, 0, sizeof(a->handle)); /* the driver keeps nothing per handle */
}
