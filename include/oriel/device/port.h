/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/port.h - the only header that tests for the compiler.
 *
 * It provides the other device headers with function qualifiers, ORIEL_KERNEL, the CPU runtime,
 * fences, hints and a pause.  It has four variants: C11 and C++17 for CPU threads, CUDA, and
 * bitcode for Triton (ORIEL_BITCODE: src/bitcode).  Ordered loads, stores and adds are in access.h.
 *
 * __CUDA_ARCH__ only chooses the body of a primitive.  Layouts and signatures are the same for the
 * host and the device pass.
 */
#ifndef ORIEL_DEVICE_PORT_H
#define ORIEL_DEVICE_PORT_H

#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L)
#error "Oriel needs C11 or C++17: compile with -std=c11 or later"
#endif

#include <stdint.h>
#include <string.h>

#include "../status.h"
#include "types.h"

#if defined(ORIEL_BITCODE)
#define ORIEL_DEV static inline __attribute__((device, always_inline, unused))
#define ORIEL_DEV_OUT static __attribute__((device, noinline, unused))
#define ORIEL_DEV_FOLD ORIEL_DEV
#define ORIEL_DEV_LONG ORIEL_DEV
#elif defined(__CUDACC__)
#define ORIEL_DEV static __host__ __device__ __forceinline__
#define ORIEL_DEV_OUT static __host__ __device__ __noinline__
#define ORIEL_DEV_FOLD ORIEL_DEV
#define ORIEL_DEV_LONG ORIEL_DEV_OUT
#else
#define ORIEL_DEV static inline __attribute__((always_inline, unused))
#define ORIEL_DEV_OUT static __attribute__((noinline, unused))
#define ORIEL_DEV_FOLD ORIEL_DEV_OUT
#define ORIEL_DEV_LONG ORIEL_DEV_OUT
#endif

/*
 * ORI_VALUE(name) is the type of a struct that an ORIEL_DEV_OUT function takes by value.  Triton's
 * code generator cannot compile such a parameter.  So in its bitcode (src/bitcode) the caller makes
 * a copy, and the function takes a reference to that.  const: the function may not change it.
 */
#if defined(ORIEL_BITCODE)
template <class type> struct ori_value : type {
	inline __attribute__((device, always_inline)) ori_value(const type &from) : type(from)
	{
	}
};
#define ORI_VALUE(name) const ori_value<struct name> &
#else
#define ORI_VALUE(name) struct name
#endif

/*
 * ORI_RARE(function)(arguments) calls an ORIEL_DEV_OUT function that a fast path hardly ever needs.
 * On a GPU it calls through a pointer.  ptxas gives functions that it can see registers beside
 * those of their callers, all the way down.  A kernel with a deep rare path then keeps its own
 * values on the stack, also where it never makes the call.  A call through a pointer has a fixed
 * convention, in which the called function saves registers.
 */
#if defined(__CUDACC__) && !defined(ORIEL_BITCODE)
template <class function> static __host__ __device__ __forceinline__ function *ori_rare(function *f)
{
#if defined(__CUDA_ARCH__)
	asm("" : "+l"(f));
#endif
	return f;
}
#define ORI_RARE(function) ori_rare(function)
#else
#define ORI_RARE(function) function
#endif

/*
 * ORIEL_DEV functions are inlined: the fast path of every call.  ORIEL_DEV_OUT functions exist once
 * per translation unit: posting to queues, streams, barriers.  When these were inlined too, a
 * kernel of a dozen calls took minutes to compile.
 *
 * ORIEL_DEV_FOLD functions choose among many variants by their arguments.  For a CPU they exist
 * once.  For a GPU they are inlined, and constant arguments leave one variant.
 *
 * ORIEL_DEV_LONG functions move long data, and exist once per translation unit.
 *
 * To compile the loops of all types and operators takes seconds, for a GPU a minute.  So the two
 * get theirs from the caller, as pointers: ORI_NAMES_LOOPS.  Constant arguments leave one loop.  A
 * GPU's short calls do without a pointer (ORI_NAMES_WORDS).  Triton's code generator has none, so
 * its bitcode inlines everything.
 */
#if defined(ORIEL_BITCODE)
#define ORI_NAMES_LOOPS 0
#define ORI_NAMES_WORDS 0
#elif defined(__CUDACC__)
#define ORI_NAMES_LOOPS 1
#define ORI_NAMES_WORDS 0
#else
#define ORI_NAMES_LOOPS 1
#define ORI_NAMES_WORDS 1
#endif

#if defined(__CUDA_ARCH__)
#define ORIEL_ON_GPU 1
#else
#define ORIEL_ON_GPU 0
#endif

/*
 * The size of a memcpy that another rank may race with.  gcc expands a memcpy of known size in
 * place, and ThreadSanitizer does not see that copy.  So under it the size is hidden from gcc.
 */
ORIEL_DEV uint64_t ori_seen_bytes(uint64_t bytes)
{
#if defined(__SANITIZE_THREAD__) && !ORIEL_ON_GPU
	__asm__("" : "+r"(bytes));
#endif
	return bytes;
}

/*
 * ORIEL_TRACES: can this code write trace events?  On a GPU only if it is compiled with
 * ORIEL_TRACE_DEVICE, because notes take registers (docs/decisions/0047).  Not in Triton's bitcode.
 *
 * ORI_TRACES_BESIDE: a traced call is made in a function of its own, so that the fast path has no
 * code for traces.  On a GPU that function would need the handle in memory instead of the constant
 * bank, so there the fast path itself notes the call (docs/decisions/0060).
 */
#if !ORIEL_ON_GPU
#define ORIEL_TRACES 1
#define ORI_TRACES_BESIDE 1
#elif defined(ORIEL_TRACE_DEVICE) && !defined(ORIEL_BITCODE)
#define ORIEL_TRACES 1
#define ORI_TRACES_BESIDE 0
#else
#define ORIEL_TRACES 0
#define ORI_TRACES_BESIDE 0
#endif

/* The number of the highest bit of v, which is not 0. */
ORIEL_DEV uint32_t ori_high_bit(uint32_t v)
{
#if ORIEL_ON_GPU
	uint32_t bit;

	asm("bfind.u32 %0, %1;" : "=r"(bit) : "r"(v));
	return bit;
#else
	return 31u - (uint32_t)__builtin_clz(v);
#endif
}

/* Before a loop of few rounds whose loads should be in flight together. */
#if ORIEL_ON_GPU
#define ORI_UNROLL _Pragma("unroll")
#else
#define ORI_UNROLL
#endif

/*
 * Before a loop that polls a fixed number of times.  ptxas would unroll all of them: in the
 * exchange of coll_line.h that was 64 x 4 loads, 40 KiB of code, and registers on the stack.
 */
#if ORIEL_ON_GPU
#define ORI_ROLLED _Pragma("unroll 1")
#else
#define ORI_ROLLED
#endif

/*
 * sm_90 introduced fence.acquire and fence.release.  The older fence does both, and drops the L1
 * too.  The assembler must know them: nvcc's from CUDA 13 on, and Triton's own.
 */
#if ORIEL_ON_GPU && __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ >= 13 || defined(ORIEL_BITCODE))
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

/* The calling thread's place in its launch.  A host thread outside a launch is a block of 1. */
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
uint64_t oriel_cpu_now_ns(void);
void oriel_cpu_report(const struct oriel_comm_dev *, const char *call, const char *what,
		      uint64_t value, uint64_t limit);

#ifdef __cplusplus
}
#endif

/* ---- kernels --------------------------------------------------------------------------------- */

/*
 * A kernel, for the host.  ORIEL_KERNEL(name, type) defines one called `name`.  In C and C++ it
 * defines the body for the CPU.  On a CUDA device oriel_launch() then searches the images of
 * oriel_kernels_add() for a function of that name.  In a .cu file one source gives both bodies:
 * gpu_symbol is the __global__ function, and gpu_find asks that program's CUDA runtime for its
 * handle.
 *
 * The body gets its arguments as `a` and returns a status.  oriel_comm_sync() returns the first
 * status that is not 0, of any thread of any block.  On the CPU oriel_launch() returns it too.
 */
struct oriel_kernel {
	const char *name;
	int (*cpu)(const void *args);
	size_t args_bytes;
	const void *gpu_symbol;
	int (*gpu_find)(const void *symbol, void **function); /* 0: *function is a CUfunction */
};

/*
 * A kernel of a .cu file is registered before main(), and a comm loads it when it opens its GPU.  A
 * load at the first launch would wait for running kernels.  These may in turn wait for this kernel:
 * a deadlock.
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

/*
 * Images that hold only kernels (nvcc --fatbin) use plain names, so that they can be found by name.
 */
#if defined(ORIEL_KERNEL_IMAGE)
#define ORI_KERNEL_LINKAGE extern "C"
#else
#define ORI_KERNEL_LINKAGE static
#endif
/*
 * The largest block a kernel may be launched with.  Smaller blocks leave more registers per thread.
 */
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
 * Orders this thread's earlier stores before its later stores.  This is the only standalone fence.
 * It serves oriel_fence(), which orders a user's plain puts.  No labelled edge of the library
 * depends on it, so ThreadSanitizer need not see it (docs/decisions/0007).
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
 * CPU, next to a store to a device register.  Earlier stores reach the device before later ones,
 * and no store stays in the core.  Registers are mapped write-combining: without this, such a store
 * is unordered and may leave late (docs/decisions/0016).  On a GPU a release store at system scope
 * is enough.
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

/* Fetches the cache line, so that the next store to it does not wait. */
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

/*
 * CPU: a counter of constant rate that all cores share; 0 if this processor has none.  Reading it
 * takes half the time of a clock.  Earlier loads may still be on their way when it is read.
 */
ORIEL_DEV uint64_t ori_ticks(void)
{
	uint64_t ticks = 0;

#if ORIEL_ON_GPU
#elif defined(__x86_64__)
	ticks = __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
#endif
	return ticks;
}

/* CPU: earlier loads have their values before the counter is read. */
ORIEL_DEV void ori_ticks_after_loads(void)
{
#if ORIEL_ON_GPU
#elif defined(__x86_64__)
	__asm__ volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

/* CPU: gives the core to another thread.  A GPU does not need it. */
ORIEL_DEV void ori_yield(void)
{
#if !ORIEL_ON_GPU
	oriel_cpu_yield();
#endif
}

/*
 * CPU: a thread that posts or waits also drives the engine of its queues.  A NIC needs no such
 * help.
 */
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
	 * Relaxed, without a fence between the store of the word and this load.  A sleeper that is
	 * missed here wakes by its own timer; see struct oriel_waiters.
	 */
	if (__builtin_expect(__atomic_load_n(&waiters->sleepers, __ATOMIC_RELAXED) != 0, 0))
		oriel_cpu_wake(waiters);
#endif
}

/*
 * The value is computed here, before the next poll.  Compilers move what is used after a loop
 * behind it, where everything waits for it.
 */
ORIEL_DEV uint32_t ori_now32(uint32_t value)
{
#if ORIEL_ON_GPU
	asm volatile("" : "+r"(value));
#endif
	return value;
}

ORIEL_DEV uint8_t *ori_now_pointer(uint8_t *at)
{
#if ORIEL_ON_GPU
	asm volatile("" : "+l"(at));
#endif
	return at;
}

#endif
