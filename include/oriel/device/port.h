/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/port.h - the only header that looks at the compiler.
 *
 * Gives the other device headers: function qualifiers, atomics whose names say order and
 * scope, a clock, a pause, and ORIEL_KERNEL.  Three faces: C11 and C++17 for CPU threads
 * (GCC/Clang atomics; real acquire and release operations, no standalone fences, so that
 * ThreadSanitizer sees every edge), and CUDA (inline PTX at system scope).
 *
 * __CUDA_ARCH__ chooses the body of a primitive here and nothing else anywhere: layouts and
 * signatures are the same for the host and the device pass.
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
 * ORIEL_DEV folds into its caller: the short way of every call.  ORIEL_DEV_OUT is one function a
 * translation unit: posting to queues, streams, barriers.  With those inlined too a kernel of a dozen calls took
 * minutes to compile.
 */

#if defined(__CUDA_ARCH__)
#define ORIEL_ON_GPU 1
#else
#define ORIEL_ON_GPU 0
#endif

/*
 * A mistake made on purpose, built only with -DORIEL_MUTANT=n: tests/mutants/run.sh makes each and names
 * the test that finds it.
 */
#ifndef ORIEL_MUTANT
#define ORIEL_MUTANT 0
#endif
#define ORI_MUTANT(n) (ORIEL_MUTANT == (n))

/* ---- CPU runtime: slow paths, in src/device/cpu/ -------------------------------------- */

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
int oriel_cpu_group_agree(struct ori_block *, uint32_t thread, uint32_t nthreads, int verdict,
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

/* ---- kernels ----------------------------------------------------------------------------- */

/*
 * A kernel as the host names it: ORIEL_KERNEL(name, type) defines one called `name`.  C and C++: its body
 * for the CPU; on a CUDA device oriel_launch() finds a function of that name in the images given to
 * oriel_kernels_add().  A .cu file: both bodies from one source; gpu_symbol is the __global__ function and
 * gpu_find asks the CUDA runtime of that program for its handle.
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
 * A kernel of a .cu file is noted before main(): comms on a GPU have it loaded when they open it.  Loaded at its
 * first launch it would wait for kernels that run, and those perhaps for this one.
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

/* ---- atomics: 64-bit words at system scope --------------------------------------------- */

ORIEL_DEV uint64_t ori_load_acquire_sys(const uint64_t *word)
{
#if ORIEL_ON_GPU
	uint64_t v;
	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV uint64_t ori_load_relaxed_sys(const uint64_t *word)
{
#if ORIEL_ON_GPU
	uint64_t v;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

ORIEL_DEV void ori_store_release_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
#else
	__atomic_store_n(word, v, __ATOMIC_RELEASE);
#endif
}

ORIEL_DEV void ori_store_relaxed_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
#else
	__atomic_store_n(word, v, __ATOMIC_RELAXED);
#endif
}

/*
 * An acquire in two halves, for loops that wait: polls, then once ori_poll_end(), by the same thread.  From sm_90 on
 * the polls are relaxed and the end is a fence, which drops the L1 once and not with every poll (sync of two ranks 1.09
 * instead of 1.17 us): the acquire pattern of the PTX memory model.  Elsewhere each poll is the acquire load: older
 * GPUs have no fence that only acquires, and ThreadSanitizer sees loads.
 */
#if ORIEL_ON_GPU && __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ >= 13
#define ORI_HALF_FENCES 1
#else
#define ORI_HALF_FENCES 0
#endif

ORIEL_DEV uint64_t ori_poll_sys(const uint64_t *word)
{
	return ORI_HALF_FENCES ? ori_load_relaxed_sys(word) : ori_load_acquire_sys(word);
}

ORIEL_DEV void ori_poll_end(void)
{
#if ORI_HALF_FENCES
	asm volatile("fence.acquire.sys;" ::: "memory");
#endif
}

/* A test that runs kernels on the CPU may look at each atomic before it is made. */
#ifndef ORI_ATOMIC_LOOK
#define ORI_ATOMIC_LOOK(word) ((void)0)
#endif

/* Adds without returning the old value: the cheap form of a signal. */
ORIEL_DEV void ori_add_release_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
#else
	ORI_ATOMIC_LOOK(word);
	(void)__atomic_fetch_add(word, v, __ATOMIC_RELEASE);
#endif
}

/*
 * A release in two halves, for device/mapped.h: a thread begins, may then wait for something else, and stores or
 * adds.  On a GPU the first half is the fence; on the CPU it is nothing and the second one the release operation,
 * so that ThreadSanitizer sees it.
 */
/* fence.release is of sm_90; the older one drops the L1 too. */
ORIEL_DEV void ori_release_begin(void)
{
#if ORI_HALF_FENCES
	asm volatile("fence.release.sys;" ::: "memory");
#elif ORIEL_ON_GPU
	asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

ORIEL_DEV void ori_release_store(uint64_t *word, uint64_t value)
{
#if ORIEL_ON_GPU
	ori_store_relaxed_sys(word, value);
#else
	ori_store_release_sys(word, value);
#endif
}

/*
 * The word as ori_release_add() takes it.  On a GPU the address gets the top bit of lanemask_lt,
 * which is 0: an address that lanes seem to have in common makes ptxas elect one of them to add for
 * all, a dozen instructions between the fence and the add.  Made before the fence: after it every
 * instruction is waited for.
 */
ORIEL_DEV uint64_t *ori_release_at(uint64_t *word)
{
#if ORIEL_ON_GPU
	uint64_t at;

	asm volatile("{\n\t"
		     ".reg .u32 zero;\n\t"
		     "mov.u32 zero, %%lanemask_lt;\n\t"
		     "shr.u32 zero, zero, 31;\n\t"
		     "mad.wide.u32 %0, zero, 8, %1;\n\t"
		     "}"
		     : "=l"(at)
		     : "l"(word));
	return (uint64_t *)at;
#else
	return word;
#endif
}

ORIEL_DEV void ori_release_add(uint64_t *at, uint64_t value)
{
#if ORIEL_ON_GPU
	asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
#else
	ori_add_release_sys(at, value);
#endif
}

ORIEL_DEV uint64_t ori_fetch_add_acq_rel_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.sys.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(v)
		     : "memory");
	return old;
#else
	ORI_ATOMIC_LOOK(word);
	return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);
#endif
}

ORIEL_DEV uint64_t ori_swap_acq_rel_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.sys.global.exch.b64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(v)
		     : "memory");
	return old;
#else
	ORI_ATOMIC_LOOK(word);
	return __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL);
#endif
}

/* Returns the old value; the swap happened if it equals `expected`. */
ORIEL_DEV uint64_t ori_compare_swap_acq_rel_sys(uint64_t *word, uint64_t expected, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.sys.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(old)
		     : "l"(word), "l"(expected), "l"(v)
		     : "memory");
	return old;
#else
	ORI_ATOMIC_LOOK(word);
	__atomic_compare_exchange_n(word, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return expected;
#endif
}

/*
 * Among threads of one device: the indices of a queue, which no peer and no engine touches, need no more.
 */
ORIEL_DEV uint64_t ori_load_acquire_dev(const uint64_t *word)
{
#if ORIEL_ON_GPU
	uint64_t v;
	asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV void ori_store_release_dev(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
#else
	__atomic_store_n(word, v, __ATOMIC_RELEASE);
#endif
}

ORIEL_DEV uint64_t ori_fetch_add_acq_rel_dev(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(v)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);
#endif
}

/* Takes a number; orders nothing. */
ORIEL_DEV uint64_t ori_fetch_add_relaxed_dev(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(v)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, v, __ATOMIC_RELAXED);
#endif
}

ORIEL_DEV uint32_t ori_load_acquire32_sys(const uint32_t *word)
{
#if ORIEL_ON_GPU
	uint32_t v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV void ori_store_release32_sys(uint32_t *word, uint32_t v)
{
#if ORIEL_ON_GPU
	asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(v) : "memory");
#else
	__atomic_store_n(word, v, __ATOMIC_RELEASE);
#endif
}

/* Only among threads of one device. */
ORIEL_DEV uint32_t ori_fetch_add32_acq_rel(uint32_t *word, uint32_t v)
{
#if ORIEL_ON_GPU
	uint32_t old;
	asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
		     : "=r"(old)
		     : "l"(word), "r"(v)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);
#endif
}

/*
 * Everything this thread stored before is seen before what it stores after.  The one standalone fence:
 * for oriel_fence(), which orders a user's plain puts.  No edge of ours rests on it, so nothing is lost by
 * ThreadSanitizer not seeing it (docs/decisions/0007).
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
	__sync_synchronize();
#endif
}

/*
 * CPU, beside a store to a register of a device: what was stored before is with the device before
 * what is stored after, and nothing stays behind in the core.  Registers are mapped
 * write-combining, where a store is ordered with nothing and leaves when it likes
 * (docs/decisions/0016).  A GPU's release store at system scope is enough: it orders, and keeps
 * nothing back.
 */
ORIEL_DEV void ori_push_stores(void)
{
#if ORIEL_ON_GPU
#elif defined(__aarch64__)
	__asm__ volatile("dsb st" ::: "memory");
#elif defined(__x86_64__)
	__asm__ volatile("sfence" ::: "memory");
#else
	__sync_synchronize();
#endif
}

/* ---- what a kernel returned ------------------------------------------------------------- */

/*
 * By every thread whose body returned something other than 0; out of line, for no kernel that
 * succeeds comes here.  The claim is an atomic on the device's own memory: a GPU has none on the
 * host's that the host's processor would respect.
 */
ORIEL_DEV_OUT void ori_kernel_failed(struct oriel_launch_dev launch, uint32_t block, int status)
{
	struct oriel_kernel_report *host;
	uint64_t taken;

	if (!launch.report)
		return;
	host = (struct oriel_kernel_report *)((uint8_t *)launch.report + launch.host_shift);
	/*
	 * [RETURN3] acquire, system scope; partner [RETURN4] in comm/returned.c.  Without it the
	 * store below could come before the host's 0, which would then wipe out this report.
	 */
	taken = ori_load_acquire_sys(&host->taken);
	if (ori_compare_swap_acq_rel_sys(&launch.report->claims, taken, taken + 1) != taken)
		return;
	/*
	 * [RETURN1] release, system scope; partner [RETURN2] in comm/returned.c.  Publishes what
	 * this thread wrote before it failed: a host that reads the status may read that.
	 */
	ori_store_release_sys(&host->first, ORIEL_REPORT(status, launch.kernel, block));
}

/* ---- hints, clock ----------------------------------------------------------------------- */

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

/* CPU: another thread may have this core.  A GPU needs no such favour. */
ORIEL_DEV void ori_yield(void)
{
#if !ORIEL_ON_GPU
	oriel_cpu_yield();
#endif
}

/* CPU: whoever posts or waits lends the engine of its queues some time.  A NIC needs none. */
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
	 * relaxed, and no fence between the word just stored and this load: a sleeper that
	 * is missed here wakes by its own timer (struct oriel_waiters says why that is enough).
	 */
	if (__builtin_expect(__atomic_load_n(&waiters->sleepers, __ATOMIC_RELAXED) != 0, 0))
		oriel_cpu_wake(waiters);
#endif
}

#endif
