/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/kernels.c - modules, functions, launches.
 *
 * A function is a struct oriel_kernel that a test gave to fake_cuda_kernel().  The image of a
 * module is ignored.  A name is looked up among those kernels, with the suffix "_gpu" that
 * ORIEL_KERNEL adds.  A launch runs the kernel's CPU body in the library's own pool of threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/device.h"
#include "fake.h"
#include "kernels/gather.h"
#include "kernels/alltoallv.h"
#include "kernels/clock.h"
#include "kernels/coll.h"
#include "kernels/window_ops.h"
#include "util/util.h"

#define THREADS_PER_BLOCK 1024
#define MEET_NS (120 * ORI_NS_PER_S) /* threads of a block wait so long for each other */

struct known {
	struct known *next;
	const struct oriel_kernel *original;
	struct oriel_kernel copy; /* what a test launches */
};

struct module {
	struct module *next;
};

static struct known *all_known;
static struct module *all_modules;
static struct ori_pool *pool; /* made once, never ended: its threads idle */

/* ---- kernels that tests give ----------------------------------------------------------------- */

static struct known *known_find(const void *original)
{
	struct known *k = all_known;

	while (k && k->original != original)
		k = k->next;
	return k;
}

/* In place of cudaGetFuncBySymbol. */
static int find_function(const void *symbol, void **function)
{
	struct known *k;

	pthread_mutex_lock(&fake_lock);
	k = known_find(symbol);
	pthread_mutex_unlock(&fake_lock);
	if (!k)
		return ORI_CU_NOT_FOUND;
	*function = &k->copy;
	return 0;
}

const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *kernel)
{
	struct known *k;

	pthread_mutex_lock(&fake_lock);
	k = known_find(kernel);
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			fake_fault("no memory for kernel %s", kernel->name);
		k->original = kernel;
		k->copy = *kernel;
		k->copy.gpu_symbol = kernel;
		k->copy.gpu_find = find_function;
		k->next = all_known;
		all_known = k;
	}
	pthread_mutex_unlock(&fake_lock);
	return &k->copy;
}

/*
 * The library finds its own kernels by name in images; one that has nothing in it stands for all of
 * them, also where the library was built without nvcc.
 */
__attribute__((constructor)) static void add_library_kernels(void)
{
	static const char image[] = "// looked at by nobody: names are what counts\n";

	fake_cuda_kernel(ori_window_op_kernel());
	fake_cuda_kernel(ori_gather_kernel());
	fake_cuda_kernel(ori_gather_node_kernel());
	for (int i = 0; i < ORI_A2A_KERNELS; i++)
		fake_cuda_kernel(ori_a2a_kernel(i));
	fake_cuda_kernel(ori_coll_kernel());
	fake_cuda_kernel(ori_reduce_node_kernel());
	fake_cuda_kernel(ori_scatter_node_kernel());
	fake_cuda_kernel(ori_clock_kernel());
	if (ori_cuda_images_add(image, sizeof(image)))
		fake_fault("the library takes no image");
}

/* ---- modules --------------------------------------------------------------------------------- */

ori_cu_result cuModuleLoadData(void **module, const void *image)
{
	int err = fake_enter_context(FAKE_cuModuleLoadData, NULL);
	struct module *m;

	if (err)
		return err;
	m = image ? calloc(1, sizeof(*m)) : NULL;
	if (!m)
		return FAKE_INVALID_VALUE;
	fake_await_kernels();
	pthread_mutex_lock(&fake_lock);
	m->next = all_modules;
	all_modules = m;
	pthread_mutex_unlock(&fake_lock);
	*module = m;
	return 0;
}

static struct module **module_at(void *module, const char *call)
{
	struct module **at = &all_modules;

	while (*at && *at != module)
		at = &(*at)->next;
	if (!*at)
		fake_fault("%s of %p, which is no module or was unloaded", call, module);
	return at;
}

ori_cu_result cuModuleUnload(void *module)
{
	int err = fake_enter_context(FAKE_cuModuleUnload, NULL);
	struct module **at;

	if (fake_refuses(err))
		return err;
	fake_await_kernels();
	pthread_mutex_lock(&fake_lock);
	at = module_at(module, "cuModuleUnload");
	*at = (*at)->next;
	pthread_mutex_unlock(&fake_lock);
	free(module);
	return err;
}

static int is_called(const struct known *k, const char *name)
{
	size_t n = strlen(k->copy.name);

	return !strncmp(k->copy.name, name, n) && !strcmp(name + n, "_gpu");
}

ori_cu_result cuModuleGetFunction(void **function, void *module, const char *name)
{
	int err = fake_enter_context(FAKE_cuModuleGetFunction, NULL);
	struct known *k;

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	module_at(module, "cuModuleGetFunction");
	for (k = all_known; k && !is_called(k, name); k = k->next)
		;
	pthread_mutex_unlock(&fake_lock);
	if (!k)
		return ORI_CU_NOT_FOUND;
	*function = &k->copy;
	return 0;
}

int fake_kernels_live(char *text, size_t bytes)
{
	int live = 0;

	for (struct module *m = all_modules; m; m = m->next)
		live++;
	if (live)
		snprintf(text, bytes, " %d modules;", live);
	return live;
}

/* ---- functions ------------------------------------------------------------------------------- */

static const struct oriel_kernel *function_check(void *function, const char *call)
{
	struct known *k;

	pthread_mutex_lock(&fake_lock);
	for (k = all_known; k && &k->copy != function; k = k->next)
		;
	pthread_mutex_unlock(&fake_lock);
	if (!k)
		fake_fault("%s of %p, which is no function", call, function);
	return &k->copy;
}

ori_cu_result cuFuncGetAttribute(int *value, int attribute, void *function)
{
	int err = fake_enter_context(FAKE_cuFuncGetAttribute, NULL);

	if (err)
		return err;
	function_check(function, "cuFuncGetAttribute");
	switch (attribute) {
	case ORI_CU_FUNC_MAX_THREADS:
		*value = THREADS_PER_BLOCK;
		return 0;
	case ORI_CU_FUNC_LOCAL_BYTES:
		*value = fake_knobs.local;
		return 0;
	case ORI_CU_FUNC_REGISTERS:
		*value = 32;
		return 0;
	default:
		return FAKE_INVALID_VALUE;
	}
}

ori_cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
							  size_t shared_bytes)
{
	int err = fake_enter_context(FAKE_cuOccupancyMaxActiveBlocksPerMultiprocessor, NULL);

	(void)shared_bytes;
	if (err)
		return err;
	function_check(function, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
	if (threads < 1)
		return FAKE_INVALID_VALUE;
	if (threads > THREADS_PER_BLOCK) {
		*blocks = 0;
		return 0;
	}
	*blocks = FAKE_THREADS_PER_SM / threads < FAKE_BLOCKS_PER_SM ?
			  FAKE_THREADS_PER_SM / threads :
			  FAKE_BLOCKS_PER_SM;
	return 0;
}

/* ---- launches -------------------------------------------------------------------------------- */

static struct ori_pool *get_pool(void)
{
	pthread_mutex_lock(&fake_lock);
	if (!pool && ori_pool_create(MEET_NS, &pool))
		fake_fault("no threads for kernels");
	pthread_mutex_unlock(&fake_lock);
	return pool;
}

void fake_run_kernel(const struct fake_op *op)
{
	struct ori_pool *threads = get_pool();
	struct ori_outcome outcome;
	int err;

	pthread_mutex_lock(&fake_lock);
	fake_kernels_running(1);
	pthread_mutex_unlock(&fake_lock);
	ori_log_rank_set(op->rank);
	err = fake_grid_run(threads, op, &outcome);
	if (err)
		fake_fault("kernel %s: %d x %d threads cannot be had", op->kernel->name,
			   op->nblocks, op->nthreads);
	/* what the second parameter of a kernel is for: ORIEL_KERNEL() of device/port.h */
	if (outcome.status)
		ori_kernel_failed(op->launch, outcome.block, outcome.status);
	pthread_mutex_lock(&fake_lock);
	fake_kernels_running(-1);
	pthread_mutex_unlock(&fake_lock);
}

ori_cu_result cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y,
			     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			     unsigned int block_z, unsigned int shared_bytes, void *stream,
			     void **params, void **extra)
{
	int gpu, err = fake_enter_context(FAKE_cuLaunchKernel, &gpu);
	const struct oriel_kernel *kernel;
	struct fake_op *op;

	if (!err)
		err = fake_broken();
	if (err)
		return err;
	kernel = function_check(function, "cuLaunchKernel");
	if (!grid_x || !block_x || block_x > THREADS_PER_BLOCK || grid_y != 1 || grid_z != 1 ||
	    block_y != 1 || block_z != 1 || shared_bytes || extra)
		return FAKE_INVALID_VALUE;
	op = calloc(1, sizeof(*op));
	if (op)
		op->args = malloc(kernel->args_bytes + 1);
	if (!op || !op->args)
		fake_fault("no memory to launch %s", kernel->name);
	op->kind = FAKE_OP_KERNEL;
	op->call = FAKE_cuLaunchKernel;
	op->slow_us = fake_slow_us(FAKE_cuLaunchKernel);
	op->kernel = kernel;
	op->gpu = gpu;
	op->nblocks = (int)grid_x;
	op->wide = (int)block_x;
	op->nthreads = (int)block_x < fake_knobs.threads ? (int)block_x : fake_knobs.threads;
	op->rank = ori_log_rank_get();
	/* The arguments are taken now; the caller's may be gone when the kernel runs. */
	if (kernel->args_bytes)
		memcpy(op->args, params[0], kernel->args_bytes);
	memcpy(&op->launch, params[1], sizeof(op->launch));
	pthread_mutex_lock(&fake_lock);
	fake_uses_of_kernel(op);
	pthread_mutex_unlock(&fake_lock);
	fake_submit(stream, op, "cuLaunchKernel");
	return 0;
}
