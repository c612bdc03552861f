/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/memory.c - memory of a GPU that peers can map: allocated, exported, imported.
 *
 * Allocations use the driver's virtual memory calls and are exported by descriptor to ranks of this
 * host.  If the GPU is part of a multi-node NVLink fabric that accepts them, they also have a
 * fabric handle.  The allocation's handle is released as soon as it is mapped: mapping and export
 * keep the memory.
 *
 * The user's own memory is in export.c.  Any thread; nothing here runs while kernels use the
 * memory.
 */
#include <string.h>
#include <unistd.h>

#include "../../util/util.h"
#include "../cpu/cpu.h"
#include "cuda_device.h"

#define ACCESS_MAX 64

static struct ori_cu_prop properties(const struct ori_cuda_gpu *gpu, int32_t handles)
{
	struct ori_cu_prop prop = {
		.type = ORI_CU_ALLOC_PINNED,
		.handle_types = handles,
		.location = { .type = ORI_CU_LOCATION_DEVICE, .id = gpu->dev },
		.gpudirect_rdma = gpu->rdma != 0,
	};

	return prop;
}

/* ---- mapping --------------------------------------------------------------------------------- */

struct access_list {
	struct ori_cu_access access[ACCESS_MAX];
	const struct ori_cuda_gpu *owner;
	size_t count;
};

/*
 * Grants access to the GPU itself and to this process's GPUs that reach it, because thread ranks
 * share pointers.
 */
static int add_access(struct ori_cuda_gpu *gpu, void *arg)
{
	struct access_list *l = arg;
	int can = gpu == l->owner;

	if (!can && l->owner->cu->cuDeviceCanAccessPeer(&can, gpu->dev, l->owner->dev))
		can = 0;
	if (can && l->count < ACCESS_MAX)
		l->access[l->count++] = (struct ori_cu_access){
			.location = { .type = ORI_CU_LOCATION_DEVICE, .id = gpu->dev },
			.flags = ORI_CU_ACCESS_READWRITE,
		};
	return 0;
}

/* Maps the allocation at an address of this process.  The context is current. */
static int map_handle(struct ori_cuda_gpu *gpu, ori_cu_mem handle, size_t bytes, void **base)
{
	const struct ori_cuda_driver *cu = gpu->cu;
	struct access_list list = { .owner = gpu };
	const char *call = "cuMemAddressReserve";
	ori_cu_ptr at;
	int err = cu->cuMemAddressReserve(&at, bytes, gpu->granularity, 0, 0);

	if (err)
		goto err_call;
	call = "cuMemMap";
	err = cu->cuMemMap(at, bytes, 0, handle, 0);
	if (err)
		goto err_address;
	call = "cuMemSetAccess";
	(void)ori_cuda_gpus_each(add_access, &list);
	err = cu->cuMemSetAccess(at, bytes, list.access, list.count);
	if (err)
		goto err_map;
	*base = (void *)(uintptr_t)at;
	ori_cuda_range_add(*base, bytes, ORI_CU_MEMORY_DEVICE);
	return 0;

err_map:
	(void)cu->cuMemUnmap(at, bytes);
err_address:
	(void)cu->cuMemAddressFree(at, bytes);
err_call:
	return ori_cuda_fail(err, call, "%zu bytes of GPU %d", bytes, gpu->ordinal);
}

/*
 * Memory that a copy or fill past its deadline may still touch stays mapped until the process ends.
 * If it were unmapped, the GPU would fault, and every rank on it would lose its context.
 */
static void unmap(struct ori_cuda_gpu *gpu, void *base, size_t bytes)
{
	ori_cu_ptr at = (ori_cu_ptr)(uintptr_t)base;
	int err;

	if (ori_cuda_lanes_touch(gpu, base, bytes)) {
		ori_log(ORI_LOG_WARN,
			"%zu bytes of GPU %d are never freed: a copy that passed its deadline "
			"still uses them",
			bytes, gpu->ordinal);
		return;
	}
	ori_cuda_range_remove(base);
	err = gpu->cu->cuMemUnmap(at, bytes);
	if (!err)
		(void)gpu->cu->cuMemAddressFree(at, bytes);
	/* else it was reported before, and everything ends with the context */
	else if (!ori_cuda_is_lost(err))
		(void)ori_cuda_fail(err, "cuMemUnmap", "%zu bytes of GPU %d", bytes, gpu->ordinal);
}

/* ---- allocations ----------------------------------------------------------------------------- */

static int alloc_inside(struct ori_cuda_device *d, size_t bytes, struct ori_allocation *out)
{
	struct ori_cuda_gpu *gpu = d->gpu;
	struct ori_cu_prop prop = properties(gpu, gpu->handles);
	struct ori_allocation a = { .bytes = bytes, .fd = -1 };
	ori_cu_mem handle;
	int err = gpu->cu->cuMemCreate(&handle, bytes, &prop, 0);

	if (err)
		return ori_cuda_fail(err, "cuMemCreate", "%zu bytes of GPU %d", bytes,
				     gpu->ordinal);
	err = map_handle(gpu, handle, bytes, &a.base);
	if (!err) {
		err = ori_cuda_zero(d, a.base, bytes);
		if (!err)
			err = ori_cuda_export_handle(gpu, handle, gpu->handles, &a);
		if (err)
			unmap(gpu, a.base, bytes);
	}
	(void)gpu->cu->cuMemRelease(handle);
	if (!err)
		*out = a;
	return err;
}

int ori_cuda_alloc(struct ori_device *device, size_t bytes, struct ori_allocation *out)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	size_t grain = d->gpu->granularity, rounded = (bytes + grain - 1) / grain * grain;
	struct ori_cuda_scope scope;
	int err;

	if (!bytes || rounded < bytes || rounded > (size_t)INT64_MAX)
		return ori_fail(ORIEL_EINVAL, "cannot allocate %zu bytes", bytes);
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = alloc_inside(d, rounded, out);
	ori_cuda_leave(&scope);
	return err;
}

void ori_cuda_free(struct ori_device *device, struct ori_allocation *a)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;

	if (!ori_cuda_enter(d->gpu, &scope)) {
		unmap(d->gpu, a->base, a->bytes);
		ori_cuda_leave(&scope);
	}
	if (a->fd >= 0)
		close(a->fd);
	a->base = NULL;
	a->fd = -1;
}

void ori_cuda_discard(struct ori_device *device, struct ori_allocation *a, size_t offset,
		      size_t bytes)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;

	/* The pages stay: freeing them would need an unmap of the range. */
	if (ori_cuda_enter(d->gpu, &scope))
		return;
	(void)ori_cuda_zero(d, (char *)a->base + offset, bytes);
	ori_cuda_leave(&scope);
}

/* ---- imports --------------------------------------------------------------------------------- */

static int import_handle(struct ori_cuda_gpu *gpu, const struct ori_allocation *theirs,
			 ori_cu_mem *handle)
{
	int fabric = theirs->kind == ORI_EXPORT_CUDA_FABRIC, err;
	struct ori_cu_fabric copy;
	void *what = &copy;

	if (!theirs->bytes || theirs->bytes % gpu->granularity || theirs->bytes > INT64_MAX)
		return ori_fail(ORIEL_EPROTO, "a peer says its GPU memory has %zu bytes",
				theirs->bytes);
	memcpy(&copy, theirs->handle, sizeof(copy));
	if (!fabric)
		what = (void *)(uintptr_t)theirs->fd; /* the driver takes the number itself */
	err = gpu->cu->cuMemImportFromShareableHandle(handle, what,
						      fabric ? ORI_CU_HANDLE_FABRIC :
							       ORI_CU_HANDLE_FD);
	if (err)
		return ori_cuda_fail(err, "cuMemImportFromShareableHandle",
				     "a peer's memory of %zu bytes", theirs->bytes);
	return 0;
}

static int import_vmm(struct ori_cuda_gpu *gpu, const struct ori_allocation *theirs, void **base)
{
	ori_cu_mem handle;
	int err = import_handle(gpu, theirs, &handle);

	if (err)
		return err;
	err = map_handle(gpu, handle, theirs->bytes, base);
	(void)gpu->cu->cuMemRelease(handle);
	return err;
}

static void unmap_parts(struct ori_cuda_gpu *gpu, const struct ori_allocation *theirs,
			uint32_t nparts, ori_cu_ptr at)
{
	ori_cu_ptr next = at;
	int err = 0;

	for (uint32_t i = 0; i < nparts && !err; i++) {
		err = gpu->cu->cuMemUnmap(next, theirs->parts[i].bytes);
		next += theirs->parts[i].bytes;
	}
	if (!err)
		(void)gpu->cu->cuMemAddressFree(at, theirs->bytes);
	else if (!ori_cuda_is_lost(err))
		(void)ori_cuda_fail(err, "cuMemUnmap", "a peer's memory of %zu bytes",
				    theirs->bytes);
}

static int map_part(struct ori_cuda_gpu *gpu, const struct ori_allocation *part, ori_cu_ptr at)
{
	struct access_list list = { .owner = gpu };
	ori_cu_mem handle;
	int err = import_handle(gpu, part, &handle);

	if (err)
		return err;
	err = gpu->cu->cuMemMap(at, part->bytes, 0, handle, 0);
	(void)gpu->cu->cuMemRelease(handle);
	if (err)
		return ori_cuda_fail(err, "cuMemMap", "a peer's memory of %zu bytes", part->bytes);
	(void)ori_cuda_gpus_each(add_access, &list);
	err = gpu->cu->cuMemSetAccess(at, part->bytes, list.access, list.count);
	if (!err)
		return 0;
	(void)gpu->cu->cuMemUnmap(at, part->bytes);
	return ori_cuda_fail(err, "cuMemSetAccess", "a peer's memory of %zu bytes", part->bytes);
}

/* Uses one address range for all parts.  comm/imports.c has checked that the sizes add up. */
static int import_parts(struct ori_cuda_gpu *gpu, const struct ori_allocation *theirs, void **base)
{
	ori_cu_ptr at, next;
	uint32_t done;
	int err = gpu->cu->cuMemAddressReserve(&at, theirs->bytes, gpu->granularity, 0, 0);

	if (err)
		return ori_cuda_fail(err, "cuMemAddressReserve", "a peer's memory of %zu bytes",
				     theirs->bytes);
	for (next = at, done = 0; done < theirs->nparts && !err; done += !err) {
		err = map_part(gpu, &theirs->parts[done], next);
		next += theirs->parts[done].bytes;
	}
	if (err) {
		unmap_parts(gpu, theirs, done, at);
		return err;
	}
	*base = (void *)(uintptr_t)at;
	ori_cuda_range_add(*base, theirs->bytes, ORI_CU_MEMORY_DEVICE);
	return 0;
}

/* The driver counts: a handle that is opened twice has one address, and needs two closes. */
static int import_ipc(struct ori_cuda_gpu *gpu, const struct ori_allocation *theirs, void **base)
{
	const struct ori_cuda_driver *cu = gpu->cu;
	struct ori_cu_ipc handle;
	ori_cu_ptr at, start;
	size_t bytes = 0;
	int err;

	memcpy(&handle, theirs->handle, sizeof(handle));
	err = cu->cuIpcOpenMemHandle(&at, handle, ORI_CU_IPC_LAZY_PEER);
	if (err)
		return ori_cuda_fail(err, "cuIpcOpenMemHandle", "a peer's memory of %zu bytes",
				     theirs->bytes);
	err = cu->cuMemGetAddressRange(&start, &bytes, at);
	if (!err && start + bytes - at >= theirs->bytes) {
		*base = (void *)(uintptr_t)at;
		ori_cuda_range_add(*base, theirs->bytes, ORI_CU_MEMORY_DEVICE);
		return 0;
	}
	(void)cu->cuIpcCloseMemHandle(at);
	if (err)
		return ori_cuda_fail(err, "cuMemGetAddressRange", "a peer's memory");
	return ori_fail(ORIEL_EPROTO,
			"a peer's GPU memory has %zu bytes, but the peer announced %zu",
			(size_t)(start + bytes - at), theirs->bytes);
}

static void close_ipc(struct ori_cuda_gpu *gpu, void *base)
{
	int err = gpu->cu->cuIpcCloseMemHandle((ori_cu_ptr)(uintptr_t)base);

	if (err && !ori_cuda_is_lost(err))
		(void)ori_cuda_fail(err, "cuIpcCloseMemHandle", "a peer's memory");
}

int ori_cuda_import(struct ori_device *device, const struct ori_allocation *theirs, void **base)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	int err;

	if (theirs->kind == ORI_EXPORT_HOST_FD)
		return ori_cpu_import(device, theirs, base);
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	switch (theirs->kind) {
	case ORI_EXPORT_CUDA_FD:
	case ORI_EXPORT_CUDA_FABRIC:
		err = import_vmm(d->gpu, theirs, base);
		break;
	case ORI_EXPORT_CUDA_PARTS:
		err = import_parts(d->gpu, theirs, base);
		break;
	case ORI_EXPORT_CUDA_IPC:
		err = import_ipc(d->gpu, theirs, base);
		break;
	default:
		err = ori_fail(ORIEL_EPROTO, "a peer's memory is of unknown kind %u", theirs->kind);
	}
	ori_cuda_leave(&scope);
	return err;
}

void ori_cuda_unimport(struct ori_device *device, const struct ori_allocation *theirs, void *base)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;

	if (theirs->kind == ORI_EXPORT_HOST_FD) {
		ori_cpu_unimport(device, theirs, base);
		return;
	}
	if (ori_cuda_enter(d->gpu, &scope))
		return;
	if (theirs->kind != ORI_EXPORT_CUDA_IPC && theirs->kind != ORI_EXPORT_CUDA_PARTS) {
		unmap(d->gpu, base, theirs->bytes);
	} else if (ori_cuda_lanes_touch(d->gpu, base, theirs->bytes)) {
		ori_log(ORI_LOG_WARN, "a peer's memory stays open: a copy that passed its deadline "
				      "still uses it");
	} else {
		ori_cuda_range_remove(base);
		if (theirs->kind == ORI_EXPORT_CUDA_PARTS)
			unmap_parts(d->gpu, theirs, theirs->nparts, (ori_cu_ptr)(uintptr_t)base);
		else
			close_ipc(d->gpu, base);
	}
	ori_cuda_leave(&scope);
}

/* ---- which kind ------------------------------------------------------------------------------ */

/*
 * A fabric handle needs more than the GPU: the fabric's service, and a channel that this user may
 * open.
 */
static int fabric_works(struct ori_cuda_gpu *gpu)
{
	struct ori_cu_prop prop = properties(gpu, ORI_CU_HANDLE_FD | ORI_CU_HANDLE_FABRIC);
	struct ori_cu_fabric fabric;
	ori_cu_mem handle;
	size_t grain;
	int err = gpu->cu->cuMemGetAllocationGranularity(&grain, &prop, ORI_CU_GRANULARITY_MIN);

	if (!err)
		err = gpu->cu->cuMemCreate(&handle, grain, &prop, 0);
	if (!err) {
		err = gpu->cu->cuMemExportToShareableHandle(&fabric, handle, ORI_CU_HANDLE_FABRIC,
							    0);
		(void)gpu->cu->cuMemRelease(handle);
	}
	if (err)
		ori_log(ORI_LOG_INFO,
			"GPU %d is on an NVLink fabric that does not accept memory of this "
			"process (%s): give it access to an IMEX channel, "
			"/dev/nvidia-caps-imex-channels/channel0",
			gpu->ordinal, ori_cuda_text(err));
	return !err;
}

int ori_cuda_memory_probe(struct ori_cuda_gpu *gpu)
{
	int wanted = strcmp(ori_cuda_variable("ORIEL_FABRIC"), "off");
	struct ori_cu_prop prop;
	int supported = 0, err;

	if (gpu->cu->cuDeviceGetAttribute(&supported, ORI_CU_DEV_FABRIC, gpu->dev))
		supported = 0; /* a driver that does not know the attribute */
	gpu->handles = ORI_CU_HANDLE_FD;
	if (gpu->nvml.fabric && wanted) {
		if (supported && fabric_works(gpu))
			gpu->handles |= ORI_CU_HANDLE_FABRIC;
		else
			gpu->fabric_refused = 1;
	}
	prop = properties(gpu, gpu->handles);
	err = gpu->cu->cuMemGetAllocationGranularity(&gpu->granularity, &prop,
						     ORI_CU_GRANULARITY_MIN);
	if (err)
		return ori_cuda_fail(err, "cuMemGetAllocationGranularity", "GPU %d", gpu->ordinal);
	return 0;
}
