/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/gpu.c - one GPU of this process, shared and reference-counted.
 *
 * It uses the primary context, so that it shares memory and streams with the program's CUDA
 * runtime.  Thread ranks share the object: their copies use few streams, and each kernel is loaded
 * once.
 *
 * Called by: device.c on the thread that creates or destroys a comm.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/config.h"
#include "../../util/util.h"
#include "cuda_device.h"

/* ---- opening --------------------------------------------------------------------------------- */

static int attribute(const struct ori_cuda_gpu *gpu, int which)
{
	int value = 0;

	/* an attribute that the driver does not know is one that the GPU does not have */
	return gpu->cu->cuDeviceGetAttribute(&value, which, gpu->dev) ? 0 : value;
}

/*
 * An MPS client with a share sees only the SMs of its share.  Some drivers show all of them; then
 * the variable gives the share.  NVML does not know shares.
 */
static int look_share(struct ori_cuda_gpu *gpu)
{
	const char *text = ori_environment_get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	double percent = text && ori_cuda_mps(gpu->cu, gpu->dev) ? strtod(text, NULL) : 100;
	int major = attribute(gpu, ORI_CU_DEV_MAJOR), minor = attribute(gpu, ORI_CU_DEV_MINOR);
	int cores_per_sm = major == 7 || (major == 8 && minor == 0) ? 64 : 128;
	int err = gpu->cu->cuDeviceGetAttribute(&gpu->sms, ORI_CU_DEV_SMS, gpu->dev);

	if (err)
		return ori_cuda_fail(err, "cuDeviceGetAttribute", "SMs of GPU %d", gpu->ordinal);
	if (!(percent > 0 && percent < 100))
		percent = 100;
	gpu->sms_all = gpu->nvml.cores / cores_per_sm;
	if (gpu->sms_all < gpu->sms)
		gpu->sms_all = percent < 100 ? (int)(gpu->sms * 100 / percent) : gpu->sms;
	else if (gpu->sms_all == gpu->sms && percent < 100)
		gpu->sms = (int)(gpu->sms * percent / 100);
	if (gpu->sms < 1)
		gpu->sms = 1;
	ori_log(ORI_LOG_DEBUG, "GPU %d: %d SMs, of which this process has %d", gpu->ordinal,
		gpu->sms_all, gpu->sms);
	return 0;
}

static int check_abilities(const struct ori_cuda_gpu *gpu)
{
	const char *missing = NULL;

	if (!attribute(gpu, ORI_CU_DEV_UVA))
		missing = "unified addressing";
	else if (!attribute(gpu, ORI_CU_DEV_VMM))
		missing = "virtual memory management";
	else if (!attribute(gpu, ORI_CU_DEV_POSIX_FD))
		missing = "memory export by descriptor";
	else if (attribute(gpu, ORI_CU_DEV_MAJOR) < 7)
		missing = "compute capability 7.0, which threads that wait for each other need";
	return missing ? ori_fail(ORIEL_EUNSUPPORTED, "GPU %d has no %s", gpu->ordinal, missing) :
			 0;
}

static int look(struct ori_cuda_gpu *gpu)
{
	char bus_id[32];
	int err = gpu->cu->cuDeviceGet(&gpu->dev, gpu->ordinal);

	if (err)
		return ori_cuda_fail(err, "cuDeviceGet", "GPU %d", gpu->ordinal);
	err = check_abilities(gpu);
	if (err)
		return err;
	if (!gpu->cu->cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), gpu->dev))
		ori_nvml_read(bus_id, &gpu->nvml);
	gpu->rdma = attribute(gpu, ORI_CU_DEV_RDMA_VMM);
	return look_share(gpu);
}

/*
 * Memory of the runtime (cudaMalloc) on one GPU must be opened to another, per pair of contexts.
 * Thread ranks use each other's pointers directly.
 */
static void enable_one_way(struct ori_cuda_gpu *from, struct ori_cuda_gpu *to)
{
	struct ori_cuda_scope scope;
	int can = 0, err;

	if (from->cu->cuDeviceCanAccessPeer(&can, from->dev, to->dev) || !can ||
	    ori_cuda_enter(from, &scope))
		return;
	err = from->cu->cuCtxEnablePeerAccess(to->context, 0);
	ori_cuda_leave(&scope);
	if (err && err != ORI_CU_PEER_ENABLED)
		ori_log(ORI_LOG_WARN,
			"GPU %d cannot use memory of GPU %d: cuCtxEnablePeerAccess: %s",
			from->ordinal, to->ordinal, ori_cuda_text(err));
}

/*
 * A kernel that keeps a handle on its stack needs more than the 1 KiB that CUDA provides.  Its
 * first launch would enlarge the stack, after all running kernels have ended.  These may be waiting
 * for this one.  So the stack is large enough from the start, also for the program's registered
 * kernels.  It is never made smaller, because the program uses the same context.
 */
static int make_stack(struct ori_cuda_gpu *gpu)
{
	size_t want = ori_cuda_noted_find(gpu, ori_cuda_function_find);
	int err = gpu->cu->cuCtxGetLimit(&gpu->stack, ORI_CU_LIMIT_STACK);

	if (err)
		return ori_cuda_fail(err, "cuCtxGetLimit", "GPU %d", gpu->ordinal);
	if (want < ORI_CUDA_STACK_BYTES)
		want = ORI_CUDA_STACK_BYTES;
	if (gpu->stack >= want)
		return 0;
	err = gpu->cu->cuCtxSetLimit(ORI_CU_LIMIT_STACK, want);
	if (err)
		ori_log(ORI_LOG_INFO, "GPU %d: kernels keep stacks of %zu bytes: cuCtxSetLimit: %s",
			gpu->ordinal, gpu->stack, ori_cuda_text(err));
	else
		gpu->stack = want;
	return 0;
}

static int fill_context(struct ori_cuda_gpu *gpu)
{
	int err = make_stack(gpu);

	if (err)
		return err;
	err = ori_cuda_memory_probe(gpu);
	if (!err)
		err = ori_cuda_lanes_open(gpu);
	if (err)
		return err;
	err = ori_cuda_images_load(gpu);
	if (err)
		ori_cuda_lanes_close(gpu);
	return err;
}

/* Fills a new gpu, which may use memory of the others.  Their list is locked. */
static int open_gpu(struct ori_cuda_gpu *gpu, struct ori_cuda_gpu *others)
{
	struct ori_cuda_scope scope;
	int err = look(gpu);

	if (err)
		return err;
	err = gpu->cu->cuDevicePrimaryCtxRetain(&gpu->context, gpu->dev);
	if (err)
		return ori_cuda_fail(err, "cuDevicePrimaryCtxRetain", "GPU %d", gpu->ordinal);
	err = ori_cuda_enter(gpu, &scope);
	if (err)
		goto err_context;
	err = fill_context(gpu);
	ori_cuda_leave(&scope);
	if (err)
		goto err_context;
	for (struct ori_cuda_gpu *other = others; other; other = other->next) {
		enable_one_way(gpu, other);
		enable_one_way(other, gpu);
	}
	return 0;

err_context:
	(void)gpu->cu->cuDevicePrimaryCtxRelease(gpu->dev);
	return err;
}

/* Makes a gpu that is not in the list yet.  The list is locked. */
static int add_gpu(struct ori_cuda_gpu **list, int ordinal, struct ori_cuda_gpu **out)
{
	struct ori_cuda_gpu *gpu = calloc(1, sizeof(*gpu));
	int err;

	if (!gpu)
		return ori_fail(ORIEL_ENOMEM, "no memory for GPU %d", ordinal);
	pthread_mutex_init(&gpu->lock, NULL);
	pthread_mutex_init(&gpu->lost_lock, NULL);
	pthread_mutex_init(&gpu->kept_lock, NULL);
	gpu->ordinal = ordinal;
	err = ori_cuda_driver_get(&gpu->cu);
	if (!err && ordinal >= gpu->cu->ndevices)
		err = ori_fail(ORIEL_EUNSUPPORTED,
			       "GPU %d does not exist: this process sees %d GPUs", ordinal,
			       gpu->cu->ndevices);
	if (!err)
		err = open_gpu(gpu, *list);
	if (err) {
		pthread_mutex_destroy(&gpu->kept_lock);
		pthread_mutex_destroy(&gpu->lost_lock);
		pthread_mutex_destroy(&gpu->lock);
		free(gpu);
		return err;
	}
	gpu->next = *list;
	*list = gpu;
	*out = gpu;
	return 0;
}

int ori_cuda_gpu_get(int ordinal, struct ori_cuda_gpu **out)
{
	struct ori_cuda_gpu **list = ori_cuda_gpus_lock(), *gpu;
	int err = 0;

	for (gpu = *list; gpu && gpu->ordinal != ordinal; gpu = gpu->next)
		;
	if (!gpu)
		err = add_gpu(list, ordinal, &gpu);
	if (!err) {
		gpu->refs++;
		*out = gpu;
	}
	ori_cuda_gpus_unlock();
	return err;
}

/* Some kernels or copies do not end: unloading and releasing would wait for them. */
static int is_stuck(struct ori_cuda_gpu *gpu)
{
	struct ori_cuda_scope scope;
	int stuck = __atomic_load_n(&gpu->stuck, __ATOMIC_RELAXED);

	if (!stuck && !ori_cuda_enter(gpu, &scope)) {
		stuck = ori_cuda_lanes_lost(gpu);
		ori_cuda_leave(&scope);
	}
	return stuck;
}

void ori_cuda_gpu_put(struct ori_cuda_gpu *gpu)
{
	struct ori_cuda_gpu **link = ori_cuda_gpus_lock();
	struct ori_cuda_scope scope;

	/* A stuck GPU stays in the list, where a later open finds it. */
	if (--gpu->refs || is_stuck(gpu)) {
		ori_cuda_gpus_unlock();
		return;
	}
	while (*link != gpu)
		link = &(*link)->next;
	*link = gpu->next;
	if (!ori_cuda_enter(gpu, &scope)) {
		ori_cuda_kept_release(gpu, 1);
		ori_cuda_images_unload(gpu);
		ori_cuda_lanes_close(gpu);
		ori_cuda_leave(&scope);
	} else {
		ori_cuda_kept_release(gpu, 0);
	}
	(void)gpu->cu->cuDevicePrimaryCtxRelease(gpu->dev);
	ori_cuda_gpus_unlock();
	pthread_mutex_destroy(&gpu->kept_lock);
	pthread_mutex_destroy(&gpu->lost_lock);
	pthread_mutex_destroy(&gpu->lock);
	free(gpu);
}
