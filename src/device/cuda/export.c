/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/export.c - memory that others made: whether peers can have the user's, and host
 * memory pinned for kernels.
 *
 * Any thread.  Pins are counted for the whole process: ranks that are threads pin the same memory.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "cuda_device.h"

/* ---- the user's memory ----------------------------------------------------------------------- */

struct pointer_facts {
	uint64_t type, managed, ordinal, ipc; /* the driver writes 1 to 4 bytes of each */
};

/* The first `count` of them, cheapest first. */
static int look(const struct ori_cuda_gpu *gpu, const void *ptr, struct pointer_facts *f,
		unsigned int count)
{
	int attributes[] = { ORI_CU_PTR_MEMORY_TYPE, ORI_CU_PTR_IS_MANAGED, ORI_CU_PTR_ORDINAL,
			     ORI_CU_PTR_IPC_CAPABLE };
	void *values[] = { &f->type, &f->managed, &f->ordinal, &f->ipc };
	ori_cu_ptr at = (ori_cu_ptr)(uintptr_t)ptr;
	struct ori_cuda_scope scope;
	int err;

	memset(f, 0, sizeof(*f));
	err = gpu->cu->cuPointerGetAttributes(count, attributes, values, at);
	/* addresses are the same in all contexts, so most drivers ask for none */
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
	/* two ways in which drivers say that they do not know the address */
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
	 * The driver will not say (a kernel crashed): whoever takes it for the host's would crash,
	 * too.
	 */
	if (look(d->gpu, ptr, &f, 2))
		return 1;
	return f.type == ORI_CU_MEMORY_DEVICE && !f.managed;
}

/* NULL, or why no other process can have it. */
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
	if (!f->ipc)
		return "it is from a memory pool or mapped by the program: CUDA IPC takes neither";
	return NULL;
}

static int describe_inside(struct ori_cuda_gpu *gpu, const void *ptr, size_t bytes,
			   struct ori_allocation *out)
{
	ori_cu_ptr at = (ori_cu_ptr)(uintptr_t)ptr, base;
	struct ori_cu_ipc handle;
	size_t size;
	int err = gpu->cu->cuMemGetAddressRange(&base, &size, at);

	if (err)
		return ori_cuda_fail(err, "cuMemGetAddressRange", "%zu bytes at %p", bytes, ptr);
	if (bytes > size || at - base > size - bytes)
		return ori_fail(ORIEL_ERANGE, "%zu bytes at %p leave their allocation of %zu bytes",
				bytes, ptr, size);
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
	return 0;
}

int ori_cuda_describe(struct ori_device *device, const void *ptr, size_t bytes,
		      struct ori_allocation *out)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	struct pointer_facts f;
	const char *why;
	int err = look(d->gpu, ptr, &f, 4);

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
	err = describe_inside(d->gpu, ptr, bytes, out);
	ori_cuda_leave(&scope);
	return err;
}

void ori_cuda_forget(struct ori_device *device, struct ori_allocation *a)
{
	(void)device;
	memset(a->handle, 0, sizeof(a->handle)); /* the driver keeps nothing for a handle */
}

/* ---- pins ------------------------------------------------------------------------------------ */

struct pin {
	struct pin *next;
	void *base;
	size_t bytes;
	int refs;
	int foreign; /* the program had pinned it already */
};

static pthread_mutex_t pins_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pin *pins;

static int pin_inside(const struct ori_cuda_driver *cu, struct pin *p)
{
	ori_cu_ptr seen = 0;
	int err = cu->cuMemHostRegister(p->base, p->bytes,
					ORI_CU_PIN_PORTABLE | ORI_CU_PIN_DEVICEMAP);

	p->foreign = err == ORI_CU_ALREADY_PINNED;
	if (err && !p->foreign)
		return ori_cuda_fail(err, "cuMemHostRegister", "%zu bytes of host memory",
				     p->bytes);
	err = cu->cuMemHostGetDevicePointer(&seen, p->base, 0);
	if (!err && seen == (ori_cu_ptr)(uintptr_t)p->base)
		return 0;
	if (!p->foreign)
		(void)cu->cuMemHostUnregister(p->base);
	if (err)
		return ori_cuda_fail(err, "cuMemHostGetDevicePointer", "%zu bytes of host memory",
				     p->bytes);
	return ori_fail(ORIEL_EUNSUPPORTED,
			"this GPU sees pinned host memory at another address than the host: queues "
			"and signals of queued peers could not be shared");
}

static int add_pin(struct ori_cuda_device *d, void *base, size_t bytes)
{
	struct ori_cuda_scope scope;
	struct pin *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return ori_fail(ORIEL_ENOMEM, "no memory to remember a pinned range");
	p->base = base;
	p->bytes = bytes;
	p->refs = 1;
	err = ori_cuda_enter(d->gpu, &scope);
	if (!err) {
		err = pin_inside(d->gpu->cu, p);
		ori_cuda_leave(&scope);
	}
	if (err) {
		free(p);
		return err;
	}
	p->next = pins;
	pins = p;
	if (!p->foreign)
		ori_cuda_range_add(base, bytes, ORI_CU_MEMORY_HOST);
	return 0;
}

int ori_cuda_pin(struct ori_device *device, void *base, size_t bytes)
{
	struct pin *p;
	int err = 0;

	pthread_mutex_lock(&pins_lock);
	for (p = pins; p && p->base != base; p = p->next)
		;
	if (p && p->bytes < bytes)
		err = ori_fail(ORIEL_EINVAL, "%zu bytes at %p are pinned already, not %zu",
			       p->bytes, base, bytes);
	else if (p)
		p->refs++;
	else
		err = add_pin((struct ori_cuda_device *)device, base, bytes);
	pthread_mutex_unlock(&pins_lock);
	return err;
}

void ori_cuda_unpin(struct ori_device *device, void *base)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct pin **link = &pins, *p;
	struct ori_cuda_scope scope;

	pthread_mutex_lock(&pins_lock);
	while (*link && (*link)->base != base)
		link = &(*link)->next;
	p = *link;
	if (p && !--p->refs) {
		*link = p->next;
		if (!p->foreign)
			ori_cuda_range_remove(base);
		if (!p->foreign && !ori_cuda_enter(d->gpu, &scope)) {
			int err = 0;

			if (ori_cuda_lanes_touch(d->gpu, base, p->bytes))
				ori_log(ORI_LOG_WARN,
					"host memory stays pinned: a copy that passed its deadline "
					"still uses it");
			else
				err = d->gpu->cu->cuMemHostUnregister(base);
			if (err && !ori_cuda_is_lost(err))
				(void)ori_cuda_fail(err, "cuMemHostUnregister", "host memory");
			ori_cuda_leave(&scope);
		}
		free(p);
	}
	pthread_mutex_unlock(&pins_lock);
}
