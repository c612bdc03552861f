/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/fake.h - the declarations that the files of the fake driver share.
 *
 *   calls.c     knobs, counts, injected failures, objects that are left over
 *   devices.c   GPUs, contexts
 *   nvml.c      what NVML reports about the GPUs
 *   memory.c    physical memory, addresses, mappings, access rights
 *   share.c     export, import, CUDA IPC; memory that a user allocates; pinned memory
 *   streams.c   streams, copies
 *   events.c    events, and streams that wait for them
 *   kernels.c   modules, functions, launches
 *   sms.c       places for blocks
 *   uses.c      which memory the work of a stream uses
 *   graphs.c    captured streams, graphs, batches of copies
 *
 * One lock (fake_lock) guards all tables.  Each stream has its own lock for its queue, taken inside
 * fake_lock or alone.  No work of a stream runs under either lock.
 */
#ifndef ORI_FAKE_H
#define ORI_FAKE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda/driver.h"
#include "fake_cuda.h"

#define FAKE_PROTOTYPE(field, symbol, args) ori_cu_result symbol args;
ORI_CU_CALLS(FAKE_PROTOTYPE)
#undef FAKE_PROTOTYPE
/* Those of graphs that the library or a test calls; not counted, and none fails on demand. */
#define FAKE_PROTOTYPE(field, symbol, args) ori_cu_result symbol args;
ORI_CU_STREAM_CALLS(FAKE_PROTOTYPE)
#undef FAKE_PROTOTYPE
ori_cu_result cuStreamBeginCapture_v2(void *stream, int mode);
ori_cu_result cuStreamEndCapture(void *stream, void **graph);
ori_cu_result cuUserObjectRelease(void *object, unsigned int refs);
ori_cu_result cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
ori_cu_result cuGraphLaunch(void *exec, void *stream);
ori_cu_result cuGraphExecDestroy(void *exec);
ori_cu_result cuGraphDestroy(void *graph);

enum fake_call {
#define FAKE_CALL(field, symbol, args) FAKE_##field,
	ORI_CU_CALLS(FAKE_CALL)
#undef FAKE_CALL
		FAKE_CALLS
};

/* Results that the library has no name for. */
#define FAKE_INVALID_VALUE 1
#define FAKE_NOT_INITIALIZED 3
#define FAKE_INVALID_DEVICE 101
#define FAKE_INVALID_CONTEXT 201
#define FAKE_NO_PEER_ACCESS 217
#define FAKE_NOT_SUPPORTED 801
#define FAKE_UNKNOWN 999

#define FAKE_GPUS_MAX 8
#define FAKE_PAGE ((size_t)2 << 20) /* granularity of physical memory, as on real GPUs */
#define FAKE_SMS 8
#define FAKE_BLOCKS_PER_SM 16
#define FAKE_THREADS_PER_SM 2048

struct fake_knobs {
	int gpus, sms, peer, fabric, mps, fd, dmabuf, vmm, threads, local, guard, leaks, order, c2c;
	int room, late, reuse, atomics, imex, cluster, clique;
	size_t mem_bytes;
};

extern struct fake_knobs fake_knobs;
extern pthread_mutex_t fake_lock;

/* ---- calls.c --------------------------------------------------------------------------------- */

/*
 * Begins every call: 0, or what it must return.  FAKE_NOT_INITIALIZED before cuInit and after fork.
 */
int fake_enter(enum fake_call);
/*
 * For calls that give something back: those do their work and then return an injected error, as
 * real ones return the error of work that failed before.  1: not even that can be done.
 */
static inline int fake_refuses(int err)
{
	return err == FAKE_NOT_INITIALIZED || err == FAKE_INVALID_CONTEXT;
}
/* For work on streams: how long this call's work should take. */
unsigned int fake_slow_us(enum fake_call);
void fake_sleep_us(unsigned int us);
/* For work on streams: not before fake_cuda_hold() lets it. */
void fake_await_release(enum fake_call);
/* A kernel was launched (1) or has ended (-1). */
void fake_kernel_counts(int change);
/*
 * For calls that on a GPU wait for all kernels of the process and meanwhile keep every other thread
 * out of the driver: a kernel that waits for one that is not launched yet then waits for ever.
 */
void fake_await_kernels(void);
/* For calls that do not begin by fake_enter(): until no such call waits. */
void fake_await_turn(void);
/* The error of fake_cuda_break(), or 0. */
int fake_broken(void);
void fake_initialised(void);
int fake_is_initialised(void);
/* A mistake of the caller that a real driver would not survive, or would hide. */
void fake_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- devices.c ------------------------------------------------------------------------------- */

/* GPU of the calling thread's current context; -1: none. */
int fake_current_gpu(void);
/* fake_enter() and a current context. */
int fake_enter_context(enum fake_call, int *gpu);
/* Does this process have a context on the GPU? */
int fake_gpu_is_open(int gpu);
int fake_contexts_live(char *text, size_t bytes);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Physical memory: a memfd.  Lives while a handle or a mapping refers to it. */
struct fake_phys {
	struct fake_phys *next;
	int fd;
	int gpu;
	int handle_types;
	int handles;  /* cuMemCreate, import; each is released once */
	int mappings; /* addresses that show it */
	size_t bytes;
	char *alias; /* for copies: always mapped, known to nobody else */
};

enum fake_mapping_kind {
	FAKE_VMM,
	FAKE_MALLOC,
	FAKE_MANAGED,
	FAKE_POOL,
	FAKE_IPC,
};

struct fake_mapping {
	struct fake_mapping *next;
	char *addr;
	size_t bytes, offset;
	struct fake_phys *phys;
	enum fake_mapping_kind kind;
	int accessible;   /* some GPU has access; kernels may touch it */
	int pending;      /* work on streams that will */
	const char *user; /* what work, the last of it that was submitted, and of which rank */
	int user_rank;
	int opens;   /* CUDA IPC: times it was opened */
	uint64_t id; /* no two of a process have the same one */
	struct ori_cu_ipc handle;
};

/* All below want fake_lock held. */

int fake_phys_create(int gpu, size_t bytes, int handle_types, struct fake_phys **);
/* Takes the descriptor over when it succeeds. */
int fake_phys_adopt(int fd, int handle_types, struct fake_phys **);
void fake_phys_drop(struct fake_phys *); /* frees it if nothing refers to it any more */
struct fake_phys *fake_phys_find(ori_cu_mem handle);
/* At an address of its own (addr NULL) or over a reserved one. */
int fake_map(struct fake_phys *, char *addr, size_t bytes, size_t offset, enum fake_mapping_kind,
	     struct fake_mapping **);
void fake_unmap(struct fake_mapping *);
struct fake_mapping *fake_mapping_at(const void *inside);
struct fake_mapping *fake_mapping_first(void);
void fake_protect(struct fake_mapping *);
/* A kernel begins (1) or ends (-1): while none runs nobody may touch device memory. */
void fake_kernels_running(int change);
/*
 * Where a copy finds the bytes: the alias of device memory, or the host's own address.  Ends the
 * program when the range leaves its allocation.  *mapping: NULL for host memory.
 */
char *fake_bytes(const void *addr, size_t bytes, const char *call, struct fake_mapping **mapping);
int fake_memory_live(char *text, size_t bytes);

/* ---- share.c, streams.c, kernels.c ----------------------------------------------------------- */

int fake_pins_live(char *text, size_t bytes);
int fake_streams_live(char *text, size_t bytes);
int fake_events_live(char *text, size_t bytes);
int fake_kernels_live(char *text, size_t bytes);

/* One piece of work on a stream. */
enum fake_op_kind { FAKE_OP_COPY, FAKE_OP_SET, FAKE_OP_KERNEL, FAKE_OP_RECORD, FAKE_OP_WAIT };

struct fake_record;

struct fake_op {
	struct fake_op *next;
	enum fake_op_kind kind;
	enum fake_call call;
	unsigned int slow_us;
	char *to;
	const char *from;
	size_t bytes;
	int value;
	struct fake_mapping *uses[2]; /* pending until it is executed */
	struct fake_mapping **more;   /* the same, of a kernel */
	int nmore;
	const struct oriel_kernel *kernel;
	int gpu, nblocks, nthreads, rank;
	int wide; /* threads of a block as it was launched: the room it takes */
	void *args;
	struct oriel_launch_dev launch; /* the kernel's last parameter */
	struct fake_record *record;     /* of an event */
};

/* graphs.c; with fake_lock: was the operation for a graph that the stream is captured into? */
int fake_capture(void *stream, struct fake_op *);
/* With fake_lock: is the stream being captured? */
int fake_captured(void *stream);
int fake_graphs_live(char *text, size_t bytes);

/* events.c: a stream has come to a record, or to a wait for one. */
void fake_record_run(struct fake_op *);

/* Takes the operation over; ends the program if it is no stream. */
void fake_submit(void *stream, struct fake_op *, const char *call);
void fake_run_kernel(const struct fake_op *);

/* ---- sms.c, uses.c --------------------------------------------------------------------------- */

struct ori_pool;
struct ori_outcome;

/* Runs a kernel to its end, each block when there is room for it. */
int fake_grid_run(struct ori_pool *, const struct fake_op *, struct ori_outcome *);

/* With fake_lock: its memory is used (1), or no more (-1). */
void fake_uses_pend(struct fake_op *, int change);
/* With fake_lock: finds the memory that the arguments point into, and uses it. */
void fake_uses_of_kernel(struct fake_op *);
/* The same work once more, and the end of one that is no more pending. */
struct fake_op *fake_op_copy(const struct fake_op *);
void fake_op_free(struct fake_op *);

#endif
