/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/port.h - the only header that looks at the compiler.
 *
 * Gives the other device headers: function qualifiers, ORIEL_KERNEL, the CPU's runtime, fences,
 * hints and a pause.  It has three faces: C11 and C++17 for CPU threads, and CUDA.  Ordered
 * loads, stores and adds are in access.h.
 *
 * __CUDA_ARCH__ chooses the body of a primitive and nothing else: layouts and signatures are the
 * same for the host and the device pass.
 */
#ifndef ORIEL_DEVICE_PORT_H
#define ORIEL_DEVICE_PORT_H

#include <stdint.h>
#include <string.h>

#include "../status.h"
#include "types.h"

#if defined(__CUDACC__)
#define ORIEL_DEV static __host__ __device__ __forceinline__
#define ORIEL_DEV_OUT static __host__ __device__ __noinline__
#else
#define ORIEL_DEV static inline __attribute__((always_inline, unused))
#define ORIEL_DEV_OUT static __attribute__((noinline, unused))
#endif

/*
 * ORIEL_DEV folds into its caller: the short way of every call.  ORIEL_DEV_OUT is one function
 * per translation unit: posting to queues, streams, barriers.  With these inlined too, a kernel
 * of a dozen calls took minutes to compile.
 */

#if defined(__CUDA_ARCH__)
#define ORIEL_ON_GPU 1
#else
#define ORIEL_ON_GPU 0
#endif

/* fence.acquire and fence.release are of sm_90; the older fence does both, and drops the L1 too. */
#if ORIEL_ON_GPU && __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ >= 13
#define ORI_HALF_FENCES 1
#else
#define ORI_HALF_FENCES 0
#endif

/* ---- CPU runtime: slow paths, in src/device/cpu/ --------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif

struct ori_spin;
struct ori_block;
struct ori_engine;

/* Where the calling thread stands in its launch; host threads outside one: a block of 1. */
struct oriel_cpu_thread {
	uint32_t block, nblocks;
	uint32_t thread, nthreads;
	struct ori_block *shared; /* NULL in a block of one thread */
};

const struct oriel_cpu_thread *oriel_cpu_this_thread(void);
int oriel_cpu_group_agree(struct ori_block *, const struct oriel_group *, int verdict,
			  uint64_t *value);
int oriel_cpu_spin_slow(struct ori_spin *, uint64_t have);
void oriel_cpu_spin_end(struct ori_spin *);
void oriel_cpu_wake(struct oriel_waiters *);
void oriel_cpu_drive(struct ori_engine *);
void oriel_cpu_yield(void);
void oriel_cpu_report(const struct oriel_comm_dev *, const char *call, const char *what,
		      uint64_t value, uint64_t limit);

#ifdef __cplusplus
}
#endif

/* ---- kernels --------------------------------------------------------------------------------- */

/*
 * A kernel as the host names it: ORIEL_KERNEL(name, type) defines one called `name`.  C and C++:
 * its body for the CPU; on a CUDA device oriel_launch() finds a function of that name in the
 * images given to oriel_kernels_add().  A .cu file: both bodies from one source; gpu_symbol is
 * the __global__ function and gpu_find asks the CUDA runtime of that program for its handle.
 *
 * The body has `a`, the arguments, and returns a status.  The first one that is not 0, of any
 * thread of any block, is what oriel_comm_sync() returns; on the CPU oriel_launch() returns it too.
 */
struct oriel_kernel {
	const char *name;
	int (*cpu)(const void *args);
	size_t args_bytes;
	const void *gpu_symbol;
	int (*gpu_find)(const void *symbol, void **function); /* 0: *function is a CUfunction */
};

/*
 * A kernel of a .cu file is noted before main(): comms on a GPU have it loaded when they open it.
 * Loaded at its first launch it would wait for kernels that run, and those perhaps for this one.
 */
struct oriel_kernel_note {
	const struct oriel_kernel *kernel;
	struct oriel_kernel_note *next;
};

#ifdef __cplusplus
extern "C" {
#endif
void oriel_kernels_note(struct oriel_kernel_note *);
void oriel_kernels_forget(struct oriel_kernel_note *);
#ifdef __cplusplus
}
#endif

#if defined(__CUDACC__)
static inline int ori_cuda_find(const void *symbol, void **function)
{
	return (int)cudaGetFuncBySymbol((cudaFunction_t *)function, symbol);
}

/* Images of kernels alone (nvcc --fatbin) give them their plain names, to be found by. */
#if defined(ORIEL_KERNEL_IMAGE)
#define ORI_KERNEL_LINKAGE extern "C"
#else
#define ORI_KERNEL_LINKAGE static
#endif
/* Threads of the largest block a kernel may be launched with: fewer leave each more registers. */
#ifndef ORIEL_KERNEL_THREADS
#define ORIEL_KERNEL_THREADS 512
#endif
#define ORIEL_KERNEL(name, args_type)                                                              \
	static __host__ __device__ int name##_body(const args_type *a);                            \
	static int name##_entry(const void *ori_kernel_args)                                       \
	{                                                                                          \
		return name##_body((const args_type *)ori_kernel_args);                            \
	}                                                                                          \
	ORI_KERNEL_LINKAGE __global__ void __launch_bounds__(ORIEL_KERNEL_THREADS, 1)              \
		name##_gpu(const __grid_constant__ args_type ori_kernel_args,                      \
			   const __grid_constant__ struct oriel_launch_dev ori_kernel_launch)      \
	{                                                                                          \
		int ori_kernel_status = name##_body(&ori_kernel_args);                             \
		if (ori_kernel_status)                                                             \
			ori_kernel_failed(ori_kernel_launch, blockIdx.x, ori_kernel_status);       \
	}                                                                                          \
	static const struct oriel_kernel name = { #name, name##_entry, sizeof(args_type),          \
						  (const void *)name##_gpu, ori_cuda_find };       \
	static struct oriel_kernel_note name##_noted = { &name, NULL };                            \
	static __attribute__((constructor)) void name##_note(void)                                 \
	{                                                                                          \
		oriel_kernels_note(&name##_noted);                                                 \
	}                                                                                          \
	static __attribute__((destructor)) void name##_forget(void)                                \
	{                                                                                          \
		oriel_kernels_forget(&name##_noted);                                               \
	}                                                                                          \
	static __host__ __device__ int name##_body(const args_type *a)
#else
#define ORIEL_KERNEL(name, args_type)                                                              \
	static int name##_body(const args_type *a);                                                \
	static int name##_entry(const void *ori_kernel_args)                                       \
	{                                                                                          \
		return name##_body((const args_type *)ori_kernel_args);                            \
	}                                                                                          \
	static const struct oriel_kernel name = { #name, name##_entry, sizeof(args_type), NULL,    \
						  NULL };                                          \
	static int name##_body(const args_type *a)
#endif

/* ---- fences ---------------------------------------------------------------------------------- */

/*
 * Everything this thread stored before is seen before what it stores after.  The one standalone
 * fence, for oriel_fence(), which orders a user's plain puts.  None of our own edges rests on it,
 * so it does no harm that ThreadSanitizer does not see it (docs/decisions/0007).
 */
ORIEL_DEV void ori_fence_sys(void)
{
#if ORIEL_ON_GPU
	asm volatile("fence.sc.sys;" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dmb ish" ::: "memory");
#elif defined(__x86_64__)
	__asm__ volatile("mfence" ::: "memory");
#else
	__sync_synchronize(); /* no partner, as said above */
#endif
}

/*
 * CPU, beside a store to a register of a device.  What was stored before reaches the device
 * before what is stored after, and nothing stays behind in the core.  Registers are mapped
 * write-combining: such a store is ordered with nothing and may leave late (docs/decisions/0016).
 * A GPU's release store at system scope is enough: it orders, and keeps nothing back.
 */
ORIEL_DEV void ori_push_stores(void)
{
#if ORIEL_ON_GPU
#elif defined(__aarch64__)
	__asm__ volatile("dsb st" ::: "memory");
#elif defined(__x86_64__)
	__asm__ volatile("sfence" ::: "memory");
#else
	__sync_synchronize(); /* partner: the device behind the register */
#endif
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* The next store to this line should not wait for it. */
ORIEL_DEV void ori_prefetch_for_write(const void *line)
{
#if ORIEL_ON_GPU
	(void)line;
#else
	__builtin_prefetch(line, 1, 3);
#endif
}

ORIEL_DEV void ori_pause(void)
{
#if ORIEL_ON_GPU
	asm volatile("nanosleep.u32 20;");
#elif defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__) && !defined(__CUDACC__)
	__asm__ volatile("yield");
#endif
}

/* CPU: another thread may have this core.  A GPU has no need of it. */
ORIEL_DEV void ori_yield(void)
{
#if !ORIEL_ON_GPU
	oriel_cpu_yield();
#endif
}

/* CPU: a thread that posts or waits also drives the engine of its queues.  A NIC needs no help. */
ORIEL_DEV void ori_drive(struct ori_engine *engine)
{
#if ORIEL_ON_GPU
	(void)engine;
#else
	if (engine)
		oriel_cpu_drive(engine);
#endif
}

/* Wakes CPU threads that sleep on a word of this rank.  A GPU peer never sleeps. */
ORIEL_DEV void ori_wake(struct oriel_waiters *waiters)
{
#if ORIEL_ON_GPU
	(void)waiters;
#else
	/*
	 * Relaxed, and no fence between the word just stored and this load.  A sleeper that is
	 * missed here wakes by its own timer (struct oriel_waiters says why that is enough).
	 */
	if (__builtin_expect(__atomic_load_n(&waiters->sleepers, __ATOMIC_RELAXED) != 0, 0))
		oriel_cpu_wake(waiters);
#endif
}

#endif
