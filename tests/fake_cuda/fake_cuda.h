/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fake_cuda/fake_cuda.h - a CUDA driver for test programs on machines without a GPU.
 *
 * A program that links it has the cu* functions that the library looks for
 * (ORIEL_CUDA_LIBRARY=self, set when the program starts).  Device memory is shared memory at
 * addresses that only kernels may touch; a kernel runs its CPU body on CPU threads, on a stream
 * that is a thread of its own.  What a real driver would take badly (freeing what is mapped, a copy
 * beyond an allocation, host code that touches device memory) ends the program with a line
 * beginning "fake_cuda:".
 *
 * Like the real one it cannot be used in a child of fork() once the parent has initialised it.
 *
 * ORIEL_FAKE_CUDA=gpus=2,peer=0,... sets the knobs; fake_cuda_knobs() sets them again:
 *   gpus=N      how many GPUs (1)            peer=0     they do not reach each other's memory (1)
 *   fabric=1    fabric handles (0)           mps=0      MPS is not running (1)
 *   fd=0        no export by descriptor (1)  vmm=0      no virtual memory management (1)
 *   dmabuf=0    no dma-bufs (1)              order=0    does not order what NICs write into it (1)
 *   c2c=1       a coherent link to the host (0)
 *   imex=0      no memory with fabric handles can be made (1)
 *   atomics=0   GPUs have no atomics for each other's memory: a kernel that is built with
 *               fake_cuda/atomic.h and makes one ends the program (1)
 *   cluster=N   the GPUs are on NVLink fabric N, and with clique=N in that clique of it; handles of
 *               another fabric or clique cannot be imported (0: on none, and NVML knows of none)
 *   mem=MIB     memory of a GPU (16384)      guard=0    host code may touch device memory (1)
 *   sms=N       multiprocessors of a GPU, which limit the blocks that run together (8)
 *   threads=N   a block of more runs with N: kernels share work among as many as there are (32)
 *   local=BYTES local memory that a thread of every kernel uses (0)
 *   fail=CALL:N[:CODE]   the N-th call of CALL fails (999, unknown error); several may be given
 *   slow=CALL:US         every CALL takes so long, on its stream if it works there
 *   leaks=1     what is left when the program ends is a failure (0)
 *   room=0      blocks of different kernels do not share the SMs: each finds room at once (1)
 *   late=SEED   work of a stream is kept back now and then, so that streams overtake each other in
 *               all ways that their order and events allow; the seed says when (0: never)
 *   reuse=1     addresses that were given back come again at once, and memory that the arguments of
 *               a launched kernel point into must not go before the kernel has ended (0)
 * ORIEL_FAKE_CUDA_ALWAYS sets knobs that fake_cuda_knobs() begins with: a whole suite runs with
 * them, whatever its tests set.
 */
#ifndef ORI_FAKE_CUDA_H
#define ORI_FAKE_CUDA_H

#include <stddef.h>

#include <oriel/device.h>

/*
 * All knobs to their defaults, then those of the text ("" or NULL: none).  Counts of calls begin
 * anew.
 */
void fake_cuda_knobs(const char *text);

/*
 * The nth call from now of "cuMemCreate", say, returns code; calls that give back do so all the
 * same.
 */
void fake_cuda_fail(const char *call, int nth, int code);
/*
 * From now on everything that asks the GPU gets this error, as after a kernel's crash; 0: no more.
 */
void fake_cuda_break(int code);
/* Work of "cuMemsetD8Async", say, that no stream has begun stays so until it is let go (0). */
void fake_cuda_hold(const char *call, int hold);
/* How often a call was made since the knobs were set. */
int fake_cuda_count(const char *call);
/*
 * The default stream (handle 1) of a test that plays a user who passes it: `stream` stands for it
 * from now on.  NULL: work there ends the program again, because Oriel itself never uses it.
 */
void fake_cuda_default_stream(void *stream);
/* The calls the library may make; n counts from 0, NULL past the end. */
const char *fake_cuda_call_name(int n);

/* Objects that exist, and in text which; 0 and "" when all was given back. */
int fake_cuda_live(char *text, size_t bytes);

/*
 * The kernel as oriel_launch() takes it on this device: gpu_find gives a function that runs
 * kernel->cpu. Lives as long as the program; the same pointer for the same kernel.  Its name is
 * known to cuModuleGetFunction from then on, so the original may be launched, too.  The library's
 * own are known.
 */
const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *kernel);

/* Memory as a user's program gets it: cudaMalloc and others that cannot be exported. */
enum fake_cuda_memory {
	FAKE_CUDA_MALLOC,  /* cudaMalloc */
	FAKE_CUDA_MANAGED, /* cudaMallocManaged: host code may touch it */
	FAKE_CUDA_POOL,    /* cudaMallocAsync: no CUDA IPC */
};
void *fake_cuda_malloc(int gpu, enum fake_cuda_memory, size_t bytes);
void fake_cuda_free(void *);

/* Looks into device memory, and writes it, past all streams. */
void fake_cuda_read(void *to, const void *device, size_t bytes);
void fake_cuda_write(void *device, const void *from, size_t bytes);

#endif
