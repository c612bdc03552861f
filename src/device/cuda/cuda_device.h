/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/cuda_device.h - what the files of the CUDA device share.
 *
 * There are two objects.  A gpu is one GPU of this process: primary context, copy lanes, loaded
 * kernels.  Thread ranks share it (gpu.c).  A device is one rank's view of a gpu, with its own
 * stream and deadline.
 */
#ifndef ORI_CUDA_DEVICE_H
#define ORI_CUDA_DEVICE_H

#include <pthread.h>
#include <stdint.h>

#include "../device.h"
#include "driver.h"

/*
 * Copies of one process that run at once.  The number is small because streams share channels to
 * the GPU (CUDA_DEVICE_MAX_CONNECTIONS).  Behind a kernel that waits, nothing in the same channel
 * moves.
 */
#define ORI_CUDA_LANES 8
#define ORI_CUDA_BOUNCE_BYTES ((size_t)256 << 10)
#define ORI_CUDA_IMAGES_MAX 64
#define ORI_CUDA_FUNCTIONS_MAX 1024

/*
 * Stack of a kernel's thread: a window handle (at most 1 KiB), and the locals of calls.
 * Collectives with queued peers need most: a line some 2700 bytes.
 */
#define ORI_CUDA_STACK_BYTES ((size_t)3072)

/*
 * A lane does one copy at a time: the thread that has set `busy` owns stream and bounce buffer.  A
 * copy or fill that passed its deadline leaves the lane busy and lost.  The lane then keeps the
 * ranges that it may still touch, until its stream is found idle.
 */
struct ori_cuda_lane {
	void *stream;
	char *bounce; /* pinned, ORI_CUDA_BOUNCE_BYTES: for host memory that is not */
	uint32_t busy;
	uint32_t lost;
	const char *to, *from; /* ranges of the lost copy; NULL: a fill, or the bounce buffer */
	size_t bytes;
	uint8_t pad[ORIEL_LINE_BYTES - 48];
};

/* A kernel that was registered (noted.c), or launched once. */
struct ori_cuda_function {
	const struct oriel_kernel *kernel;
	/* kernel->symbol when found: a kernel on a stack may be another one now */
	const void *symbol;
	const char *name;
	void *function;
	int threads, blocks; /* blocks of `threads` threads that fit on one SM; 0: not asked yet */
};

/* What NVML knows about a GPU.  All zero without NVML. */
struct ori_nvml_facts {
	int present;
	int index; /* number on this host, independent of CUDA_VISIBLE_DEVICES */
	int cores; /* of all SMs together; 0: unknown */
	int fabric;
	uint8_t fabric_uuid[16];
	uint32_t fabric_clique;
};

struct ori_cuda_gpu {
	struct ori_cuda_gpu *next;
	const struct ori_cuda_driver *cu;
	int refs;    /* written by gpu.c, under its lock */
	int devices; /* atomic: devices open on it, in this process */
	int stuck;   /* a rank was closed while its work did not end, so the GPU stays open */
	int ordinal;
	ori_cu_device dev;
	void *context;
	int sms;     /* SMs of this process: its MPS share */
	int sms_all; /* SMs of the GPU */
	/* handle types of exports: ORI_CU_HANDLE_FD, and ORI_CU_HANDLE_FABRIC if it works */
	int32_t handles;
	int fabric_refused; /* the GPU is on a fabric that does not accept memory of this process */
	int rdma;           /* allocations may be marked for GPUDirect RDMA */
	size_t stack;       /* local memory per thread that needs no resize */
	size_t granularity;
	struct ori_nvml_facts nvml;
	char *bounce; /* of all lanes, followed by `zeros` */
	char *zeros;  /* ORI_CUDA_BOUNCE_BYTES that are never written */
	struct ori_cuda_lane lanes[ORI_CUDA_LANES];
	pthread_mutex_t lost_lock;  /* for the fields of all lanes from `lost` on */
	pthread_mutex_t kept_lock;  /* for `kept` */
	struct ori_cuda_kept *kept; /* pinned host memory that was freed: pinned.c */
	pthread_mutex_t lock;       /* for the fields below */
	void *modules[ORI_CUDA_IMAGES_MAX];
	int nmodules;
	struct ori_cuda_function functions[ORI_CUDA_FUNCTIONS_MAX];
	int nfunctions;
	uint64_t notes_gone; /* number of notes that had gone at the last check of functions */
};

struct ori_cuda_device {
	struct ori_device base;
	struct ori_cuda_gpu *gpu;
	uint64_t timeout_ns;
	void *stream;     /* the stream that NULL means */
	int sharers;      /* ranks on this GPU; set before any launch */
	int sharers_here; /* how many of them are in this process */
	pthread_mutex_t marks_lock;
	struct ori_mark *free_marks;     /* unused marks, for reuse */
	pthread_mutex_t flights_lock;    /* taken before marks_lock */
	struct ori_cuda_flight *flights; /* flights.c: streams with kernels of collectives */
	int told_order;                  /* it was logged that some of these wait for others */
};

/*
 * context.c.  Every thread puts enter and leave around driver calls.  They make the context
 * current.  They also permit calls that a stream capture of the program (or of another thread)
 * would forbid.
 */
struct ori_cuda_scope {
	const struct ori_cuda_driver *cu; /* NULL: nothing to leave */
	int capture_mode;
};
int ori_cuda_enter(const struct ori_cuda_gpu *, struct ori_cuda_scope *);
void ori_cuda_leave(struct ori_cuda_scope *);
/* Entries of ori_cuda_stream_ops. */
int ori_cuda_stream_enter(struct ori_device *);
void ori_cuda_stream_leave(struct ori_device *);
/*
 * Calls each(gpu, arg) for the GPUs that this process has open, until a call returns other than 0.
 */
int ori_cuda_gpus_each(int (*each)(struct ori_cuda_gpu *, void *arg), void *arg);
/*
 * For gpu.c: locks and returns their list.  Nobody else reads or changes it until it is unlocked.
 */
struct ori_cuda_gpu **ori_cuda_gpus_lock(void);
void ori_cuda_gpus_unlock(void);

/* gpu.c */
int ori_cuda_gpu_get(int ordinal, struct ori_cuda_gpu **);
void ori_cuda_gpu_put(struct ori_cuda_gpu *);

/* memory.c, export.c: entries of the device's table. */
int ori_cuda_alloc(struct ori_device *, size_t bytes, struct ori_allocation *);
void ori_cuda_free(struct ori_device *, struct ori_allocation *);
int ori_cuda_import(struct ori_device *, const struct ori_allocation *theirs, void **base);
void ori_cuda_unimport(struct ori_device *, const struct ori_allocation *theirs, void *base);
void ori_cuda_discard(struct ori_device *, struct ori_allocation *, size_t offset, size_t bytes);
int ori_cuda_describe(struct ori_device *, const void *ptr, size_t bytes, struct ori_allocation *);
void ori_cuda_forget(struct ori_device *, struct ori_allocation *);
int ori_cuda_holds(struct ori_device *, const void *ptr);
int ori_cuda_can_store(struct ori_device *, const void *ptr);
int ori_cuda_is_memory(struct ori_device *, const void *ptr, size_t bytes);
void ori_cuda_identify(struct ori_device *, const void *ptr, struct ori_identity *);
/*
 * export.c, also for memory.c: fills kind, descriptor and fabric handle, as far as the handle types
 * allow.
 */
int ori_cuda_export_handle(struct ori_cuda_gpu *, ori_cu_mem handle, int32_t types,
			   struct ori_allocation *);
/*
 * Memory type of the driver.  0: the driver does not know the address, so it is plain host memory.
 * Negative: a status, the driver could not answer.
 */
int ori_cuda_memory_type(const struct ori_cuda_gpu *, const void *ptr);
/* pinned.c: entries of the table; the last one for gpu.c, when the last rank leaves. */
int ori_cuda_alloc_host(struct ori_device *, size_t bytes, struct ori_allocation *);
void ori_cuda_free_host(struct ori_device *, struct ori_allocation *, int again);
void ori_cuda_kept_release(struct ori_cuda_gpu *, int has_context);
/* memory.c, for gpu.c: finds by trial how allocations of this GPU can be exported. */
int ori_cuda_memory_probe(struct ori_cuda_gpu *);

/*
 * ranges.c: the type (ORI_CU_MEMORY_*) of the library's own memory by address.  0: ask the driver.
 */
void ori_cuda_range_add(const void *base, size_t bytes, int type);
void ori_cuda_range_remove(const void *base);
int ori_cuda_range_type(const void *ptr);

/* copy.c */
int ori_cuda_lanes_open(struct ori_cuda_gpu *);
void ori_cuda_lanes_close(struct ori_cuda_gpu *);
/*
 * The number of lanes whose work passed its deadline and is still running, and whether some of it
 * touches [base, base + bytes).  Lanes whose work has ended meanwhile become free.  The context is
 * current.
 */
int ori_cuda_lanes_lost(struct ori_cuda_gpu *);
int ori_cuda_lanes_touch(struct ori_cuda_gpu *, const void *base, size_t bytes);
int ori_cuda_copy(struct ori_device *, void *to, const void *from, size_t bytes);
int ori_cuda_zero(struct ori_cuda_device *, void *base, size_t bytes);
/*
 * Waits until the stream is idle; polls without pauses at first.  Returns the driver's last answer:
 * ORI_CU_NOT_READY after timeout_ns.
 */
int ori_cuda_stream_poll(const struct ori_cuda_driver *, void *stream, uint64_t timeout_ns);
/* The same, with a status and its text: ORIEL_ETIMEDOUT after timeout_ns. */
int ori_cuda_stream_wait(const struct ori_cuda_driver *, void *stream, uint64_t timeout_ns,
			 const char *what);

/*
 * images.c: the modules of a GPU, under its lock.  find returns NULL for a name that no image has.
 */
int ori_cuda_images_load(struct ori_cuda_gpu *);
void ori_cuda_images_unload(struct ori_cuda_gpu *);
void *ori_cuda_images_find(struct ori_cuda_gpu *, const char *function);

extern const struct ori_stream_ops ori_cuda_stream_ops; /* stream.c */

/* marks.c: entries of the table of streams. */
int ori_cuda_capturing(struct ori_device *, void *stream, int *captured);
int ori_cuda_mark(struct ori_device *, void *stream, struct ori_mark **);
int ori_cuda_passed(struct ori_device *, const struct ori_mark *);
int ori_cuda_follow(struct ori_device *, void *stream, const struct ori_mark *);
void ori_cuda_unmark(struct ori_device *, struct ori_mark *);
/* Is the stream being captured into a graph?  The context is current. */
int ori_cuda_is_capturing(struct ori_cuda_device *, void *stream, int *capturing);
/*
 * For flights.c, with the context current: the number of a stream, a mark behind all its work,
 * order after a mark, has a mark passed, one more reference to a mark.
 */
uint64_t ori_cuda_stream_number(struct ori_cuda_device *, void *stream);
/* number: of the stream, see ori_cuda_stream_number(). */
int ori_cuda_mark_record(struct ori_cuda_device *, void *stream, uint64_t number,
			 struct ori_mark **);
int ori_cuda_mark_follow(struct ori_cuda_device *, void *stream, const struct ori_mark *);
int ori_cuda_mark_passed(struct ori_cuda_device *, const struct ori_mark *);
struct ori_mark *ori_cuda_mark_share(struct ori_cuda_device *, struct ori_mark *);
/* For device.c, when the device is closed. */
void ori_cuda_marks_close(struct ori_cuda_device *);

/* flights.c: the table's launch for kernels of collectives. */
int ori_cuda_launch_together(struct ori_device *, const struct oriel_kernel *, int nblocks,
			     int nthreads, const void *args, size_t args_bytes, void *stream,
			     struct ori_mark **);
void ori_cuda_flights_close(struct ori_cuda_device *);

/*
 * noted.c: calls find for each kernel that the program has registered, before anything runs on the
 * GPU.  Returns the largest local memory per thread among them.  The context is current, and no
 * other thread knows the GPU yet.
 */
size_t ori_cuda_noted_find(struct ori_cuda_gpu *,
			   size_t (*find)(struct ori_cuda_gpu *, const struct oriel_kernel *));
/* How many registered kernels have gone because their library was closed. */
uint64_t ori_cuda_noted_gone(void);

/* launch.c */
/*
 * The number of ranks that share the GPU's SMs: in this process, and in all.  Counts comms of the
 * process that do not know of each other.
 */
void ori_cuda_sharers(const struct ori_cuda_device *, int64_t *here, int64_t *all);
/*
 * Finds a kernel before its launch.  Returns the bytes of local memory per thread, or 0, also if it
 * cannot be found.
 */
size_t ori_cuda_function_find(struct ori_cuda_gpu *, const struct oriel_kernel *);
/* Both need the context to be current.  fit: the number of its blocks that an SM holds. */
int ori_cuda_prepare(struct ori_cuda_device *, const struct oriel_kernel *, int nblocks,
		     int nthreads, void **function, int *fit);
int ori_cuda_start(struct ori_cuda_device *, const struct oriel_kernel *, void *function,
		   int nblocks, int nthreads, const void *args, void *stream,
		   const struct ori_launch *launch);
int ori_cuda_launch(struct ori_device *, const struct oriel_kernel *, int nblocks, int nthreads,
		    const void *args, size_t args_bytes, void *stream, struct ori_launch *launch);
int ori_cuda_has_kernel(struct ori_device *, const struct oriel_kernel *);
int ori_cuda_resident(struct ori_device *, const struct oriel_kernel *, int nthreads, int *nblocks);
int ori_cuda_sync(struct ori_device *, void *stream);
/*
 * Launches the first kernel of a stream, one that does nothing.  Two threads that launched the
 * first kernels of two streams at once could leave one kernel queued behind the other thread's next
 * one (H200, driver 580).  If that one waits for it, both hang.  Returns 1 if it is complete (or
 * the library has no kernels), 0 if it has not begun because the GPU is full, or a negative status.
 * The context is current.
 */
int ori_cuda_begin_stream(struct ori_cuda_device *, void *stream);

/* facts.c */
int ori_cuda_facts(struct ori_device *, struct ori_facts *);

/* ---- nics.c ---------------------------------------------------------------------------------- */

extern const struct ori_nic_ops ori_cuda_nic_ops;
/* Are the contexts of this GPU served by MPS? */
int ori_cuda_mps(const struct ori_cuda_driver *, ori_cu_device);

/* nvml.c */
void ori_nvml_read(const char *pci_bus_id, struct ori_nvml_facts *);

#endif
