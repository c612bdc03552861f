/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/launch.c - from a struct oriel_kernel to a running grid.
 *
 * Finds the function once per kernel, refuses grids whose blocks could not all be resident (they
 * wait for each other), and launches.  All calls here are permitted while the stream is being
 * captured into a graph.
 *
 * Any thread.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../../kernels/image.h"
#include "../../kernels/window_ops.h"
#include "../../util/util.h"
#include "cuda_device.h"

#define SPIN_NS 100000
#define BEGIN_NS 1000000000
#define NAME_MAX_BYTES 256

/* ---- functions ------------------------------------------------------------------------------- */

/* Its name in an image; 0 if the kernel has none, or one that is too long. */
static int name_function(const struct oriel_kernel *kernel, char name[NAME_MAX_BYTES])
{
	return kernel->name &&
	       snprintf(name, NAME_MAX_BYTES, "%s_gpu", kernel->name) < NAME_MAX_BYTES;
}

/* NULL if it is nowhere; *err is then the error of the program's CUDA runtime, if it has one. */
static void *search_function(struct ori_cuda_gpu *gpu, const struct oriel_kernel *kernel,
			     const char *name, int *err)
{
	void *function = NULL;

	*err = kernel->gpu_find ? kernel->gpu_find(kernel->gpu_symbol, &function) : 0;
	return kernel->gpu_find && !*err ? function : ori_cuda_images_find(gpu, name);
}

static int find_function(struct ori_cuda_gpu *gpu, const struct oriel_kernel *kernel,
			 void **function)
{
	char name[NAME_MAX_BYTES];
	int err = 0;

	if (!name_function(kernel, name))
		return ori_fail(ORIEL_EINVAL,
				"a kernel has no name, or a name of more than %d bytes",
				NAME_MAX_BYTES - 5);
	*function = search_function(gpu, kernel, name, &err);
	if (*function)
		return 0;
	if (err)
		return ori_fail(ORIEL_EUNSUPPORTED,
				"kernel \"%s\": the program's CUDA runtime does not find it on GPU "
				"%d (error %d): was it compiled for this GPU?",
				kernel->name, gpu->ordinal, err);
	return ori_fail(ORIEL_EUNSUPPORTED,
			"kernel \"%s\": no image of kernels has %s; compile its source with nvcc "
			"-x cu, or add an image with oriel_kernels_add() (library kernels: %s)",
			kernel->name, name, ori_kernels_text());
}

/* If a function is loaded only at its first use, this question loads it before its launch. */
static void look_at_function(struct ori_cuda_gpu *gpu, const struct oriel_kernel *kernel,
			     void *function)
{
	int local = 0, registers = 0;

	(void)gpu->cu->cuFuncGetAttribute(&local, ORI_CU_FUNC_LOCAL_BYTES, function);
	(void)gpu->cu->cuFuncGetAttribute(&registers, ORI_CU_FUNC_REGISTERS, function);
	ori_log(ORI_LOG_DEBUG, "kernel \"%s\": %d registers, %d bytes of local memory per thread",
		kernel->name, registers, local);
	if ((size_t)local > gpu->stack)
		ori_log(ORI_LOG_WARN,
			"kernel \"%s\" uses %d bytes of local memory per thread, more than the "
			"%zu that are reserved: its first launch waits for all running kernels",
			kernel->name, local, gpu->stack);
}

/*
 * A library with kernels was closed.  Functions that the program's runtime found are looked up
 * again, because another library may have its kernels at the same addresses.  The GPU is locked.
 */
static void drop_gone(struct ori_cuda_gpu *gpu)
{
	uint64_t gone = ori_cuda_noted_gone();
	int n = 0;

	if (gone == gpu->notes_gone)
		return;
	for (int i = 0; i < gpu->nfunctions; i++)
		if (!gpu->functions[i].symbol)
			gpu->functions[n++] = gpu->functions[i];
	gpu->nfunctions = n;
	gpu->notes_gone = gone;
}

/* The kernel's entry, or NULL; the GPU is locked. */
static struct ori_cuda_function *known_function(struct ori_cuda_gpu *gpu,
						const struct oriel_kernel *kernel)
{
	struct ori_cuda_function *f = gpu->functions, *end;

	drop_gone(gpu);
	for (end = f + gpu->nfunctions; f < end; f++)
		if (f->kernel == kernel && f->symbol == kernel->gpu_symbol &&
		    f->name == kernel->name)
			return f;
	return NULL;
}

static struct ori_cuda_function *remember(struct ori_cuda_gpu *gpu,
					  const struct oriel_kernel *kernel, void *function)
{
	struct ori_cuda_function *f = gpu->functions + gpu->nfunctions;

	if (gpu->nfunctions == ORI_CUDA_FUNCTIONS_MAX)
		f--; /* table full, which was never seen: the last entry is reused */
	else
		gpu->nfunctions++;
	*f = (struct ori_cuda_function){ kernel, kernel->gpu_symbol, kernel->name, function, 0, 0 };
	return f;
}

/*
 * The kernel's entry, made at its first launch if the kernel was not registered.  The GPU is
 * locked.
 */
static int get_function(struct ori_cuda_gpu *gpu, const struct oriel_kernel *kernel,
			struct ori_cuda_function **out)
{
	struct ori_cuda_function *f = known_function(gpu, kernel);
	void *function;
	int err;

	*out = f;
	if (f)
		return 0;
	err = find_function(gpu, kernel, &function);
	if (err)
		return err;
	look_at_function(gpu, kernel, function);
	*out = remember(gpu, kernel, function);
	return 0;
}

int ori_cuda_has_kernel(struct ori_device *device, const struct oriel_kernel *kernel)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	char name[NAME_MAX_BYTES];
	int has = 0, err;

	if (!name_function(kernel, name) || ori_cuda_enter(d->gpu, &scope))
		return 0;
	pthread_mutex_lock(&d->gpu->lock);
	has = known_function(d->gpu, kernel) || search_function(d->gpu, kernel, name, &err);
	pthread_mutex_unlock(&d->gpu->lock);
	ori_cuda_leave(&scope);
	return has;
}

size_t ori_cuda_function_find(struct ori_cuda_gpu *gpu, const struct oriel_kernel *kernel)
{
	void *function;
	int local = 0, err;

	if (!kernel->gpu_find || gpu->nfunctions == ORI_CUDA_FUNCTIONS_MAX)
		return 0;
	err = kernel->gpu_find(kernel->gpu_symbol, &function);
	if (!err)
		err = gpu->cu->cuFuncGetAttribute(&local, ORI_CU_FUNC_LOCAL_BYTES, function);
	if (err) {
		ori_log(ORI_LOG_DEBUG, "kernel \"%s\" is not available on GPU %d (error %d)",
			kernel->name, gpu->ordinal, err);
		return 0;
	}
	remember(gpu, kernel, function);
	return (size_t)local;
}

/* ---- residency ------------------------------------------------------------------------------- */

static int ask_occupancy(struct ori_cuda_gpu *gpu, struct ori_cuda_function *f, int nthreads)
{
	int blocks = 0, err;

	if (f->blocks && f->threads == nthreads)
		return 0;
	err = gpu->cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f->function, nthreads,
								   0);
	if (err)
		return ori_cuda_fail(err, "cuOccupancyMaxActiveBlocksPerMultiprocessor",
				     "kernel \"%s\" with %d threads per block", f->name, nthreads);
	if (blocks < 1)
		return ori_fail(ORIEL_ERANGE,
				"kernel \"%s\": a block of %d threads does not fit on an SM",
				f->name, nthreads);
	f->threads = nthreads;
	f->blocks = blocks;
	return 0;
}

void ori_cuda_sharers(const struct ori_cuda_device *d, int64_t *here, int64_t *all)
{
	int64_t ranks = d->sharers_here > 0 ? d->sharers_here : 1;
	int64_t devices = __atomic_load_n(&d->gpu->devices, __ATOMIC_RELAXED);
	int64_t times = devices > ranks ? (devices + ranks - 1) / ranks : 1;

	*here = ranks * times;
	*all = (d->sharers > 0 ? d->sharers : 1) * times;
}

static int check_residency(struct ori_cuda_device *d, struct ori_cuda_function *f, int nblocks,
			   int nthreads)
{
	struct ori_cuda_gpu *gpu = d->gpu;
	int err = ask_occupancy(gpu, f, nthreads);

	if (err)
		return err;
	if ((int64_t)nblocks * d->sharers_here > (int64_t)f->blocks * gpu->sms)
		return ori_fail(ORIEL_ERANGE,
				"kernel \"%s\": %d blocks of %d threads, on %d ranks here, "
				"cannot run at once: %d fit on each of the %d SMs of this process",
				f->name, nblocks, nthreads, d->sharers_here, f->blocks, gpu->sms);
	if ((int64_t)nblocks * d->sharers > (int64_t)f->blocks * gpu->sms_all)
		return ori_fail(ORIEL_ERANGE,
				"kernel \"%s\": %d blocks of %d threads on each of %d ranks cannot "
				"run at once: %d fit on each of the %d SMs of GPU %d",
				f->name, nblocks, nthreads, d->sharers, f->blocks, gpu->sms_all,
				gpu->ordinal);
	return 0;
}

/* ---- the table's entries --------------------------------------------------------------------- */

int ori_cuda_prepare(struct ori_cuda_device *d, const struct oriel_kernel *kernel, int nblocks,
		     int nthreads, void **function, int *fit)
{
	struct ori_cuda_function *f;
	int err;

	pthread_mutex_lock(&d->gpu->lock);
	err = get_function(d->gpu, kernel, &f);
	if (!err)
		err = check_residency(d, f, nblocks, nthreads);
	if (!err) {
		*function = f->function;
		*fit = f->blocks;
	}
	pthread_mutex_unlock(&d->gpu->lock);
	return err;
}

int ori_cuda_start(struct ori_cuda_device *d, const struct oriel_kernel *kernel, void *function,
		   int nblocks, int nthreads, const void *args, void *stream,
		   const struct ori_launch *launch)
{
	static const struct oriel_launch_dev nobody_asks;
	const struct oriel_launch_dev *dev = launch ? &launch->dev : &nobody_asks;
	void *params[] = { (void *)(uintptr_t)args, (void *)(uintptr_t)dev };
	int err = d->gpu->cu->cuLaunchKernel(function, (unsigned int)nblocks, 1, 1,
					     (unsigned int)nthreads, 1, 1, 0, stream, params, NULL);

	return err ? ori_cuda_fail(err, "cuLaunchKernel", "kernel \"%s\", %d x %d threads",
				   kernel->name, nblocks, nthreads) :
		     0;
}

int ori_cuda_launch(struct ori_device *device, const struct oriel_kernel *kernel, int nblocks,
		    int nthreads, const void *args, size_t args_bytes, void *stream,
		    struct ori_launch *launch)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	void *function;
	int err, fit;

	if (!args || args_bytes != kernel->args_bytes)
		return ori_fail(ORIEL_EINVAL,
				"kernel \"%s\": got %zu bytes of arguments, but it takes %zu",
				kernel->name ? kernel->name : "?", args_bytes, kernel->args_bytes);
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = ori_cuda_prepare(d, kernel, nblocks, nthreads, &function, &fit);
	if (!err)
		err = ori_cuda_start(d, kernel, function, nblocks, nthreads, args,
				     stream ? stream : d->stream, launch);
	ori_cuda_leave(&scope);
	return err;
}

/* Asks the driver; the GPU is locked. */
static int learn_function(struct ori_cuda_gpu *gpu, const struct oriel_kernel *kernel, int nthreads,
			  struct ori_cuda_function **out)
{
	struct ori_cuda_scope scope;
	int err = ori_cuda_enter(gpu, &scope);

	if (err)
		return err;
	err = get_function(gpu, kernel, out);
	if (!err)
		err = ask_occupancy(gpu, *out, nthreads);
	ori_cuda_leave(&scope);
	return err;
}

int ori_cuda_resident(struct ori_device *device, const struct oriel_kernel *kernel, int nthreads,
		      int *nblocks)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_function *f;
	int64_t here, all;
	int err = 0;

	pthread_mutex_lock(&d->gpu->lock);
	f = known_function(d->gpu, kernel);
	if (!f || !f->blocks || f->threads != nthreads)
		err = learn_function(d->gpu, kernel, nthreads, &f);
	if (!err) {
		ori_cuda_sharers(d, &here, &all);
		/* the two tests of check_residency(), with the comms that were created since */
		here = (int64_t)f->blocks * d->gpu->sms / here;
		all = (int64_t)f->blocks * d->gpu->sms_all / all;
		*nblocks = (int)(here < all ? here : all);
	}
	pthread_mutex_unlock(&d->gpu->lock);
	return err;
}

/* Pauses grow up to 50 us, because a kernel may run for minutes. */
static void pause_for(uint64_t age_ns)
{
	struct timespec t = { .tv_nsec = age_ns < 10 * SPIN_NS ? 0 : 50000 };

	if (age_ns < SPIN_NS)
		return;
	if (t.tv_nsec)
		nanosleep(&t, NULL);
	else
		sched_yield();
}

int ori_cuda_sync(struct ori_device *device, void *stream)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	uint64_t start = ori_now_ns(), age = 0;
	struct ori_cuda_scope scope;
	int err = ori_cuda_enter(d->gpu, &scope);

	if (err)
		return err;
	for (;;) {
		err = d->gpu->cu->cuStreamQuery(stream ? stream : d->stream);
		age = ori_now_ns() - start;
		if (err != ORI_CU_NOT_READY || age > d->timeout_ns)
			break;
		pause_for(age);
	}
	ori_cuda_leave(&scope);
	if (err == ORI_CU_NOT_READY)
		return ori_fail(ORIEL_ETIMEDOUT,
				"GPU %d: the work on the stream is not complete after %.1f s",
				d->gpu->ordinal, (double)age / 1e9);
	/* Errors of kernels persist: every later call on this context returns the same one. */
	return err ? ori_cuda_fail(err, "cuStreamQuery", "work on a stream of GPU %d failed",
				   d->gpu->ordinal) :
		     0;
}

/* ---- a new stream ---------------------------------------------------------------------------- */

static int has_kernels(struct ori_cuda_gpu *gpu)
{
	int has;

	pthread_mutex_lock(&gpu->lock);
	has = ori_cuda_images_find(gpu, "ori_window_ops_gpu") != NULL;
	pthread_mutex_unlock(&gpu->lock);
	return has;
}

int ori_cuda_begin_stream(struct ori_cuda_device *d, void *stream)
{
	struct ori_window_op_args nothing = { .op = { .code = ORI_WINDOW_NOTHING } };
	int err;

	if (!has_kernels(d->gpu))
		return 1;
	err = ori_cuda_launch(&d->base, ori_window_op_kernel(), 1, 1, &nothing, sizeof(nothing),
			      stream, NULL);
	if (err)
		return err;
	err = ori_cuda_stream_poll(d->gpu->cu, stream, BEGIN_NS);
	if (err && err != ORI_CU_NOT_READY)
		return ori_cuda_fail(err, "cuStreamQuery", "a stream of GPU %d", d->gpu->ordinal);
	return !err;
}
