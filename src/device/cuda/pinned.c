/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/pinned.c - host memory that kernels load and store: allocated, and kept for reuse.
 *
 * The driver unpins memory only after all kernels of the process have ended, and blocks other
 * threads' launches meanwhile.  With thread ranks, a running kernel may wait for a kernel that
 * another rank has yet to launch: a deadlock.  So freed memory stays pinned until the process's
 * last rank leaves the GPU.  A comm that is created before that reuses it.
 *
 * Any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "../cpu/cpu.h"
#include "cuda_device.h"

/* Memory that was freed. */
struct ori_cuda_kept {
	struct ori_cuda_kept *next;
	struct ori_allocation a;
	int again; /* nobody can still store to it */
};

/* ---- pinning, the context is current --------------------------------------------------------- */

static void unpin(const struct ori_cuda_gpu *gpu, void *base)
{
	int err = gpu->cu->cuMemHostUnregister(base);

	if (err && !ori_cuda_is_lost(err))
		(void)ori_cuda_fail(err, "cuMemHostUnregister", "host memory");
}

static int pin(const struct ori_cuda_gpu *gpu, const struct ori_allocation *a)
{
	ori_cu_ptr seen = 0;
	int err = gpu->cu->cuMemHostRegister(a->base, a->bytes,
					     ORI_CU_PIN_PORTABLE | ORI_CU_PIN_DEVICEMAP);

	if (err)
		return ori_cuda_fail(err, "cuMemHostRegister", "%zu bytes of host memory",
				     a->bytes);
	err = gpu->cu->cuMemHostGetDevicePointer(&seen, a->base, 0);
	if (!err && seen == (ori_cu_ptr)(uintptr_t)a->base)
		return 0;
	unpin(gpu, a->base);
	if (err)
		return ori_cuda_fail(err, "cuMemHostGetDevicePointer", "%zu bytes of host memory",
				     a->bytes);
	return ori_fail(ORIEL_EUNSUPPORTED,
			"this GPU sees pinned host memory at another address than the host: queues "
			"and signals of queued peers could not be shared");
}

/* ---- the table's entries --------------------------------------------------------------------- */

static struct ori_cuda_kept *take_kept(struct ori_cuda_gpu *gpu, size_t bytes)
{
	struct ori_cuda_kept **at = &gpu->kept, *k;

	pthread_mutex_lock(&gpu->kept_lock);
	while ((k = *at) && !(k->again && k->a.bytes == bytes))
		at = &k->next;
	if (k)
		*at = k->next;
	pthread_mutex_unlock(&gpu->kept_lock);
	return k;
}

static int make(struct ori_cuda_gpu *gpu, size_t bytes, struct ori_allocation *out)
{
	struct ori_cuda_scope scope;
	int err = ori_cpu_alloc(NULL, bytes, out);

	if (err)
		return err;
	err = ori_cuda_enter(gpu, &scope);
	if (!err) {
		err = pin(gpu, out);
		ori_cuda_leave(&scope);
	}
	if (err)
		ori_cpu_free(NULL, out);
	else
		ori_cuda_range_add(out->base, out->bytes, ORI_CU_MEMORY_HOST);
	return err;
}

int ori_cuda_alloc_host(struct ori_device *device, size_t bytes, struct ori_allocation *out)
{
	struct ori_cuda_gpu *gpu = ((struct ori_cuda_device *)device)->gpu;
	struct ori_cuda_kept *k = take_kept(gpu, bytes);

	if (!k)
		return make(gpu, bytes, out);
	*out = k->a;
	free(k);
	memset(out->base, 0, out->bytes);
	return 0;
}

/* Can a copy that passed its deadline still write there? */
static int is_touched(struct ori_cuda_gpu *gpu, const struct ori_allocation *a)
{
	struct ori_cuda_scope scope;
	int touched = 1;

	if (!ori_cuda_enter(gpu, &scope)) {
		touched = ori_cuda_lanes_touch(gpu, a->base, a->bytes);
		ori_cuda_leave(&scope);
	}
	return touched;
}

void ori_cuda_free_host(struct ori_device *device, struct ori_allocation *a, int again)
{
	struct ori_cuda_gpu *gpu = ((struct ori_cuda_device *)device)->gpu;
	struct ori_cuda_kept *k = malloc(sizeof(*k));

	if (!k) {
		ori_log(ORI_LOG_WARN, "%zu bytes of pinned host memory are never freed", a->bytes);
		return;
	}
	k->a = *a;
	k->again = again && !is_touched(gpu, a);
	a->base = NULL;
	a->fd = -1;
	pthread_mutex_lock(&gpu->kept_lock);
	k->next = gpu->kept;
	gpu->kept = k;
	pthread_mutex_unlock(&gpu->kept_lock);
}

void ori_cuda_kept_release(struct ori_cuda_gpu *gpu, int has_context)
{
	while (gpu->kept) {
		struct ori_cuda_kept *k = gpu->kept;

		gpu->kept = k->next;
		ori_cuda_range_remove(k->a.base);
		if (has_context) /* else nothing is pinned any more */
			unpin(gpu, k->a.base);
		ori_cpu_free(NULL, &k->a);
		free(k);
	}
}
