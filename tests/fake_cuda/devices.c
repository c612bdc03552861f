/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/devices.c - the made-up GPUs, and contexts: the primary one of each GPU, and a stack of
 * current ones a thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define STACK_MAX 8
#define STACK_BYTES 1024

struct context { /* under fake_lock */
	int gpu;
	int refs;           /* cuDevicePrimaryCtxRetain */
	unsigned int peers; /* bit n: it may use memory of GPU n */
	size_t stack;       /* of a kernel's thread, bytes */
};

static struct context primary[FAKE_GPUS_MAX];
static _Thread_local struct context *stack[STACK_MAX];
static _Thread_local int depth;

static int is_gpu(ori_cu_device gpu)
{
	return gpu >= 0 && gpu < fake_knobs.gpus;
}

/* ---- the driver ------------------------------------------------------------------------------ */

ori_cu_result cuInit(unsigned int flags)
{
	int err = fake_enter(FAKE_cuInit);

	if (err)
		return err;
	if (flags)
		return FAKE_INVALID_VALUE;
	if (!fake_knobs.gpus)
		return ORI_CU_NO_DEVICE;
	fake_initialised();
	return 0;
}

ori_cu_result cuDriverGetVersion(int *version)
{
	int err = fake_enter(FAKE_cuDriverGetVersion);

	if (!err)
		*version = 13000;
	return err;
}

ori_cu_result cuGetErrorString(ori_cu_result result, const char **text)
{
	static const struct {
		int result;
		const char *text;
	} known[] = {
		{ 0, "no error" },
		{ FAKE_INVALID_VALUE, "invalid argument" },
		{ ORI_CU_OUT_OF_MEMORY, "out of memory" },
		{ FAKE_NOT_INITIALIZED, "initialization error" },
		{ ORI_CU_NO_DEVICE, "no CUDA-capable device is detected" },
		{ FAKE_INVALID_CONTEXT, "invalid device context" },
		{ FAKE_NO_PEER_ACCESS, "peer access is not supported between these two devices" },
		{ ORI_CU_NOT_FOUND, "named symbol not found" },
		{ ORI_CU_NOT_READY, "device not ready" },
		{ ORI_CU_ILLEGAL_ADDRESS, "an illegal memory access was encountered" },
		{ ORI_CU_LAUNCH_FAILED, "unspecified launch failure" },
		{ ORI_CU_ALREADY_PINNED,
		  "part or all of the requested memory range is already mapped" },
		{ FAKE_NOT_SUPPORTED, "operation not supported" },
		{ FAKE_UNKNOWN, "unknown error" },
	};
	int err = fake_enter(FAKE_cuGetErrorString);

	if (err)
		return err;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].result == result) {
			*text = known[i].text;
			return 0;
		}
	*text = NULL;
	return FAKE_INVALID_VALUE;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

ori_cu_result cuDeviceGetCount(int *count)
{
	int err = fake_enter(FAKE_cuDeviceGetCount);

	if (!err)
		*count = fake_knobs.gpus;
	return err;
}

ori_cu_result cuDeviceGet(ori_cu_device *device, int ordinal)
{
	int err = fake_enter(FAKE_cuDeviceGet);

	if (err)
		return err;
	if (!is_gpu(ordinal))
		return FAKE_INVALID_DEVICE;
	*device = ordinal;
	return 0;
}

/* Begins a call about a GPU. */
static int enter_gpu(enum fake_call call, ori_cu_device gpu)
{
	int err = fake_enter(call);

	return err || is_gpu(gpu) ? err : FAKE_INVALID_DEVICE;
}

ori_cu_result cuDeviceGetName(char *name, int bytes, ori_cu_device gpu)
{
	int err = enter_gpu(FAKE_cuDeviceGetName, gpu);

	if (!err)
		snprintf(name, (size_t)bytes, "Fake GPU");
	return err;
}

/* The same in every process of the machine, another for each GPU. */
ori_cu_result cuDeviceGetUuid_v2(struct ori_cu_uuid *uuid, ori_cu_device gpu)
{
	int err = enter_gpu(FAKE_cuDeviceGetUuid, gpu);

	if (err)
		return err;
	memcpy(uuid->bytes, "fake-gpu-uuid-00", sizeof(uuid->bytes));
	uuid->bytes[15] = (char)('0' + gpu);
	return 0;
}

ori_cu_result cuDeviceTotalMem_v2(size_t *bytes, ori_cu_device gpu)
{
	int err = enter_gpu(FAKE_cuDeviceTotalMem, gpu);

	if (!err)
		*bytes = fake_knobs.mem_bytes;
	return err;
}

ori_cu_result cuDeviceGetPCIBusId(char *id, int bytes, ori_cu_device gpu)
{
	int err = enter_gpu(FAKE_cuDeviceGetPCIBusId, gpu);

	if (!err)
		snprintf(id, (size_t)bytes, "0000:%02X:00.0", 0x1a + gpu);
	return err;
}

ori_cu_result cuDeviceGetAttribute(int *value, int attribute, ori_cu_device gpu)
{
	const struct {
		int attribute, value;
	} known[] = {
		{ ORI_CU_DEV_MAX_THREADS, 1024 },
		{ ORI_CU_DEV_SMS, fake_knobs.sms },
		{ ORI_CU_DEV_UVA, 1 },
		{ ORI_CU_DEV_MAJOR, 9 },
		{ ORI_CU_DEV_MINOR, 0 },
		{ ORI_CU_DEV_VMM, fake_knobs.vmm },
		{ ORI_CU_DEV_POSIX_FD, fake_knobs.fd },
		{ ORI_CU_DEV_RDMA_VMM, 0 },
		{ ORI_CU_DEV_FABRIC, fake_knobs.fabric },
		{ ORI_CU_DEV_DMA_BUF, fake_knobs.dmabuf },
		{ ORI_CU_DEV_MPS, fake_knobs.mps },
		{ ORI_CU_DEV_WRITES_ORDER, fake_knobs.order ? ORI_CU_WRITES_ORDER_OWNER : 0 },
		{ ORI_CU_DEV_HOST_PAGES, fake_knobs.c2c },
		{ ORI_CU_DEV_PAGEABLE, fake_knobs.c2c },
	};
	int err = enter_gpu(FAKE_cuDeviceGetAttribute, gpu);

	for (size_t i = 0; !err && i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].attribute == attribute) {
			*value = known[i].value;
			return 0;
		}
	return err ? err : FAKE_INVALID_VALUE;
}

ori_cu_result cuDeviceCanAccessPeer(int *can, ori_cu_device from, ori_cu_device to)
{
	int err = enter_gpu(FAKE_cuDeviceCanAccessPeer, from);

	if (err)
		return err;
	if (!is_gpu(to))
		return FAKE_INVALID_DEVICE;
	*can = from != to && fake_knobs.peer;
	return 0;
}

ori_cu_result cuDeviceGetP2PAttribute(int *value, int attribute, ori_cu_device from,
				      ori_cu_device to)
{
	int err = enter_gpu(FAKE_cuDeviceGetP2PAttribute, from);

	if (err)
		return err;
	if (!is_gpu(to) || from == to)
		return FAKE_INVALID_DEVICE;
	if (attribute != ORI_CU_P2P_ATOMICS)
		return FAKE_INVALID_VALUE;
	*value = fake_knobs.peer && fake_knobs.atomics;
	return 0;
}

/* ---- contexts -------------------------------------------------------------------------------- */

ori_cu_result cuDevicePrimaryCtxRetain(void **context, ori_cu_device gpu)
{
	int err = enter_gpu(FAKE_cuDevicePrimaryCtxRetain, gpu);

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	primary[gpu].gpu = gpu;
	if (!primary[gpu].refs++)
		primary[gpu].stack = STACK_BYTES;
	pthread_mutex_unlock(&fake_lock);
	*context = &primary[gpu];
	return 0;
}

ori_cu_result cuDevicePrimaryCtxRelease_v2(ori_cu_device gpu)
{
	int err = enter_gpu(FAKE_cuDevicePrimaryCtxRelease, gpu);

	if (fake_refuses(err) || !is_gpu(gpu))
		return err;
	pthread_mutex_lock(&fake_lock);
	if (primary[gpu].refs-- == 0)
		fake_fault("the context of GPU %d is released once too often", gpu);
	if (!primary[gpu].refs)
		primary[gpu].peers = 0;
	pthread_mutex_unlock(&fake_lock);
	return err;
}

static struct context *check_context(void *context)
{
	struct context *c = context;

	if (c < primary || c >= primary + FAKE_GPUS_MAX)
		fake_fault("%p is no context", context);
	return c;
}

ori_cu_result cuCtxPushCurrent_v2(void *context)
{
	int err = fake_enter(FAKE_cuCtxPushCurrent);
	struct context *c;

	if (err)
		return err;
	c = check_context(context);
	pthread_mutex_lock(&fake_lock);
	if (!c->refs)
		fake_fault("the context of GPU %d is used after its release", c->gpu);
	pthread_mutex_unlock(&fake_lock);
	if (depth == STACK_MAX)
		fake_fault("%d contexts pushed and none popped", STACK_MAX);
	stack[depth++] = c;
	return 0;
}

ori_cu_result cuCtxPopCurrent_v2(void **context)
{
	int err = fake_enter(FAKE_cuCtxPopCurrent);

	if (fake_refuses(err))
		return err;
	if (!depth)
		fake_fault("a context is popped that was not pushed");
	depth--;
	if (context)
		*context = stack[depth];
	return err;
}

int fake_current_gpu(void)
{
	return depth ? stack[depth - 1]->gpu : -1;
}

int fake_enter_context(enum fake_call call, int *gpu)
{
	int err = fake_enter(call), current = fake_current_gpu();

	if (gpu)
		*gpu = current;
	return err || current >= 0 ? err : FAKE_INVALID_CONTEXT;
}

ori_cu_result cuCtxEnablePeerAccess(void *peer, unsigned int flags)
{
	int gpu, err = fake_enter_context(FAKE_cuCtxEnablePeerAccess, &gpu);
	struct context *c;

	if (err)
		return err;
	c = check_context(peer);
	if (flags || c->gpu == gpu)
		return FAKE_INVALID_VALUE;
	if (!fake_knobs.peer)
		return FAKE_NO_PEER_ACCESS;
	pthread_mutex_lock(&fake_lock);
	err = primary[gpu].peers & (1u << c->gpu) ? ORI_CU_PEER_ENABLED : 0;
	primary[gpu].peers |= 1u << c->gpu;
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuCtxGetLimit(size_t *value, int limit)
{
	int gpu, err = fake_enter_context(FAKE_cuCtxGetLimit, &gpu);

	if (err)
		return err;
	if (limit != ORI_CU_LIMIT_STACK)
		return FAKE_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	*value = primary[gpu].stack;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

ori_cu_result cuCtxSetLimit(int limit, size_t value)
{
	int gpu, err = fake_enter_context(FAKE_cuCtxSetLimit, &gpu);

	if (err)
		return err;
	if (limit != ORI_CU_LIMIT_STACK)
		return FAKE_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	primary[gpu].stack = value;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

ori_cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	int err = fake_enter_context(FAKE_cuCtxGetStreamPriorityRange, NULL);

	if (err)
		return err;
	*least = 0;
	*greatest = -5;
	return 0;
}

int fake_gpu_is_open(int gpu)
{
	return primary[gpu].refs > 0;
}

/* Of the stacks only the caller's can be seen. */
int fake_contexts_live(char *text, size_t bytes)
{
	int live = 0, n = depth;

	for (int i = 0; i < FAKE_GPUS_MAX; i++)
		live += primary[i].refs;
	if (live || n)
		snprintf(text, bytes, " %d retained contexts, %d pushed here;", live, n);
	return live + n;
}
