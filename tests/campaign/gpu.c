/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/gpu.c - the CUDA calls that a user's program makes beside Oriel: streams, graphs,
 * its own memory.
 *
 * Driver calls that the library itself does not make are looked up by name, in the program
 * (tests/fake_cuda) or in the driver's library.  Called on the threads of the ranks.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "device/cuda/cuda_device.h"
#include "fake_cuda/fake_cuda.h"
#include "check.h"
#include "gpu.h"

#define CAPTURE_THREAD_LOCAL 1

/* tests/fake_cuda, where it is linked */
#pragma weak fake_cuda_kernel
#pragma weak fake_cuda_malloc
#pragma weak fake_cuda_free
#pragma weak fake_cuda_live

static struct {
	int (*begin_capture)(void *stream, int mode);
	int (*end_capture)(void *stream, void **graph);
	int (*instantiate)(void **exec, void *graph, unsigned long long flags);
	int (*upload)(void *exec, void *stream);
	int (*launch)(void *exec, void *stream);
	int (*exec_destroy)(void *exec);
	int (*graph_destroy)(void *graph);
	int (*mem_alloc)(unsigned long long *ptr, size_t bytes);
	int (*mem_free)(unsigned long long ptr);
} driver;

int camp_gpu_is_fake(void)
{
	return fake_cuda_kernel != NULL;
}

static void *find(void *library, const char *name)
{
	void *at = dlsym(library, name);

	if (!at && !camp_gpu_is_fake()) {
		fprintf(stderr, "campaign: the driver has no %s\n", name);
		abort();
	}
	return at;
}

static void find_all(void)
{
	void *library = dlopen(camp_gpu_is_fake() ? NULL : "libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "campaign: %s\n", dlerror());
		abort();
	}
	*(void **)&driver.begin_capture = find(library, "cuStreamBeginCapture_v2");
	*(void **)&driver.end_capture = find(library, "cuStreamEndCapture");
	*(void **)&driver.instantiate = find(library, "cuGraphInstantiateWithFlags");
	*(void **)&driver.upload = find(library, "cuGraphUpload");
	*(void **)&driver.launch = find(library, "cuGraphLaunch");
	*(void **)&driver.exec_destroy = find(library, "cuGraphExecDestroy");
	*(void **)&driver.graph_destroy = find(library, "cuGraphDestroy");
	*(void **)&driver.mem_alloc = find(library, "cuMemAlloc_v2");
	*(void **)&driver.mem_free = find(library, "cuMemFree_v2");
}

static struct ori_cuda_device *enter(struct oriel_comm *comm, struct ori_cuda_scope *scope)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ori_cuda_device *d = (struct ori_cuda_device *)comm->device;

	pthread_once(&once, find_all);
	return ori_cuda_enter(d->gpu, scope) ? NULL : d;
}

/* ---- streams --------------------------------------------------------------------------------- */

int camp_gpu_stream(struct oriel_comm *comm, void **stream)
{
	struct ori_cuda_scope scope;
	struct ori_cuda_device *d = enter(comm, &scope);
	int err;

	if (!d)
		return -1;
	err = d->gpu->cu->cuStreamCreateWithPriority(stream, ORI_CU_STREAM_NON_BLOCKING, 0);
	ori_cuda_leave(&scope);
	return err;
}

int camp_gpu_stream_destroy(struct oriel_comm *comm, void *stream)
{
	struct ori_cuda_scope scope;
	struct ori_cuda_device *d = enter(comm, &scope);
	int err;

	if (!d)
		return -1;
	err = d->gpu->cu->cuStreamDestroy(stream);
	ori_cuda_leave(&scope);
	return err;
}

/* ---- memory ---------------------------------------------------------------------------------- */

int camp_gpu_malloc(struct oriel_comm *comm, size_t bytes, void **ptr)
{
	struct ori_cuda_scope scope;
	struct ori_cuda_device *d = enter(comm, &scope);
	unsigned long long made = 0;
	int err = 0;

	if (!d)
		return -1;
	if (fake_cuda_malloc)
		*ptr = fake_cuda_malloc(d->gpu->ordinal, FAKE_CUDA_MALLOC, bytes);
	else
		err = driver.mem_alloc(&made, bytes);
	if (made)
		*ptr = (void *)(uintptr_t)made;
	ori_cuda_leave(&scope);
	return err;
}

int camp_gpu_free(struct oriel_comm *comm, void *ptr)
{
	struct ori_cuda_scope scope;
	struct ori_cuda_device *d = enter(comm, &scope);
	int err = 0;

	if (!d)
		return -1;
	if (fake_cuda_free)
		fake_cuda_free(ptr);
	else
		err = driver.mem_free((unsigned long long)(uintptr_t)ptr);
	ori_cuda_leave(&scope);
	return err;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

int camp_gpu_capture(struct oriel_comm *comm, void *stream)
{
	struct ori_cuda_scope scope;
	int err;

	if (!enter(comm, &scope))
		return -1;
	err = driver.begin_capture(stream, CAPTURE_THREAD_LOCAL);
	ori_cuda_leave(&scope);
	return err;
}

int camp_gpu_captured(struct oriel_comm *comm, void *stream, void **graph, void **exec)
{
	struct ori_cuda_scope scope;
	int err;

	if (!enter(comm, &scope))
		return -1;
	err = driver.end_capture(stream, graph);
	if (!err)
		err = driver.instantiate(exec, *graph, 0);
	if (!err && driver.upload)
		err = driver.upload(*exec, stream);
	ori_cuda_leave(&scope);
	return err;
}

int camp_gpu_graph_launch(struct oriel_comm *comm, void *exec, void *stream)
{
	struct ori_cuda_scope scope;
	int err;

	if (!enter(comm, &scope))
		return -1;
	err = driver.launch(exec, stream);
	ori_cuda_leave(&scope);
	return err;
}

int camp_gpu_graph_destroy(struct oriel_comm *comm, void *graph, void *exec)
{
	struct ori_cuda_scope scope;
	int err, also;

	if (!enter(comm, &scope))
		return -1;
	err = driver.exec_destroy(exec);
	also = driver.graph_destroy(graph);
	ori_cuda_leave(&scope);
	return err ? err : also;
}

const struct oriel_kernel *camp_gpu_kernel(const struct oriel_kernel *kernel)
{
	return fake_cuda_kernel ? fake_cuda_kernel(kernel) : kernel;
}

void camp_gpu_leftovers(void)
{
	char text[256];

	if (fake_cuda_live && fake_cuda_live(text, sizeof(text)))
		check_fail(__FILE__, __LINE__, "left when all comms are gone:%s", text);
}
