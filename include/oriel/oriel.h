/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/oriel.h - the host API.
 *
 * A status is 0 or a negative ORIEL_E* (oriel/status.h); outputs come last and are written only on
 * success.  Arguments are always checked.  [C] marks a collective call: all ranks of the comm make
 * it, in the same order; if one fails inside it, all return an error that names the rank and the
 * cause.  Destroy calls take NULL.  Every failure is logged once, where it was decided, and its
 * text is kept for oriel_last_error().
 *
 * A struct of options begins with its size and may grow at its end: start with its ..._INIT.
 * Headers and library must have the same major and minor version, else the first call of a program
 * returns ORIEL_EVERSION.
 *
 * After fork() ranks are the parent's.  In the child a call with a handle made before returns
 * ORIEL_EUNSUPPORTED and touches nothing, destroy calls included.  The child may make a boot and
 * objects of its own.  Flat handles (struct oriel_window_dev, oriel_comm_dev) cannot be checked:
 * the child must not use them.
 */
#ifndef ORIEL_H
#define ORIEL_H

#include <stddef.h>
#include <stdint.h>

#include "device/group.h"
#include "device/types.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ORIEL_VERSION_MAJOR 0
#define ORIEL_VERSION_MINOR 1
#define ORIEL_VERSION_PATCH 0

struct oriel_boot;
struct oriel_comm;
struct oriel_buffer;
struct oriel_window;

/* ---- versions, errors ----------------------------------------------------------------------- */

const char *oriel_version(void);           /* "0.1.0" */
const char *oriel_status_name(int status); /* "ORIEL_ETIMEDOUT" */
const char *oriel_status_text(int status); /* "the deadline passed" */
const char *oriel_last_error(void);        /* this thread's last failure, "" if none */

/* ---- the usual case: one comm, as the launcher and the environment say ----------------------- */

/*
 * oriel_boot_env, oriel_comm_create with default options, oriel_boot_destroy.  *comm is a comm like
 * any other: oriel_comm_split makes more of it.  Call it again only after oriel_finalize. [C]
 */
int oriel_init(struct oriel_comm **comm);
/*
 * Destroys the windows that are left, then the comm.  Works on any comm.  ORIEL_EBUSY on all ranks,
 * and everything stays, while a rank has registered buffers, requests of collectives, or captured
 * graphs that use a window. [C]
 */
int oriel_finalize(struct oriel_comm *comm);

/* ---- boot: how ranks find each other --------------------------------------------------------- */

struct oriel_boot_id {
	unsigned char bytes[128];
};

/* What a user's own runtime offers (MPI, a torch store, ...). */
struct oriel_boot_ops {
	size_t size; /* sizeof(struct oriel_boot_ops) */
	/* every rank gives `bytes` and gets nranks * bytes, in rank order; not 0: it failed */
	int (*allgather)(void *ctx, const void *mine, void *all, size_t bytes);
	/* tell the others that this rank gives up; may be NULL */
	void (*abort)(void *ctx, int why);
	/* called once when the boot is no longer used; may be NULL */
	void (*destroy)(void *ctx);
};

/* By the environment: PMIx; else RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; else one rank. [C] */
int oriel_boot_env(struct oriel_boot **boot);
/* nranks threads of this process; boots[r] is for the thread that will be rank r. */
int oriel_boot_threads(int nranks, struct oriel_boot **boots);
/* One process makes an id and hands it to all by any means; then all join. */
int oriel_boot_make_id(struct oriel_boot_id *id);
int oriel_boot_join(const struct oriel_boot_id *id, int rank, int nranks,
		    struct oriel_boot **boot); /* [C] */
int oriel_boot_user(const struct oriel_boot_ops *ops, void *ctx, int rank, int nranks,
		    struct oriel_boot **boot);
int oriel_boot_rank(const struct oriel_boot *boot);
int oriel_boot_nranks(const struct oriel_boot *boot);
/* A comm keeps what it needs of its boot, so this may come before oriel_comm_destroy. */
int oriel_boot_destroy(struct oriel_boot *boot);

/* ---- comm: who the ranks are and how each is reached ----------------------------------------- */

struct oriel_comm_options {
	size_t size;
	const char *device;   /* "cpu", "cuda", "cuda:1"; NULL: ORIEL_DEVICE, else cpu */
	const char *topology; /* "2x4" or a list of node ids; NULL: ORIEL_TOPOLOGY */
	double timeout;       /* seconds; 0: ORIEL_TIMEOUT */
	int connect;          /* ORIEL_CONNECT_*; 0: ORIEL_CONNECT, else all */
	int reserved;         /* 0 */
};
/* Which queued peers a comm has queues to from the start. */
enum oriel_connect { ORIEL_CONNECT_ALL = 1, ORIEL_CONNECT_NONE = 2 };
#define ORIEL_COMM_OPTIONS_INIT                                                                    \
	{                                                                                          \
		sizeof(struct oriel_comm_options), NULL, NULL, 0.0, 0, 0                           \
	}

enum oriel_scope { ORIEL_WORLD = 0, ORIEL_NODE = 1 };

int oriel_comm_create(struct oriel_boot *boot, const struct oriel_comm_options *options,
		      struct oriel_comm **comm); /* [C] */
/*
 * Ranks of one colour become a comm, ordered by key, then rank; colour < 0: none, *sub = NULL.
 * CUDA: both comms have one own stream (of oriel_launch() with NULL), so what is launched there on
 * the one comes after what was launched there on the other: in the same order on all ranks, or on
 * streams of the caller's.
 */
int oriel_comm_split(struct oriel_comm *comm, int color, int key,
		     struct oriel_comm **sub); /* [C] */
/*
 * [C] Windows and buffers must be gone, else ORIEL_EBUSY on all ranks.  A failed comm takes them
 * along.  Memory of oriel_alloc goes too.  A failed window whose buffer is malloc memory: other
 * ranks that are threads may still be in calls that use it, so free it only after they returned.
 */
int oriel_comm_destroy(struct oriel_comm *comm);
/* Ends every wait on every rank of the comm with ORIEL_EABORTED (why: any status but 0). */
int oriel_comm_abort(struct oriel_comm *comm, int why);
int oriel_comm_status(struct oriel_comm *comm); /* first failure, or 0 */

/* Queries return the value, or a negative status for a bad argument. */
int oriel_comm_rank(struct oriel_comm *comm);
int oriel_comm_size(struct oriel_comm *comm);
int oriel_comm_nodes(struct oriel_comm *comm);
int oriel_comm_node(struct oriel_comm *comm, int rank);
int oriel_comm_node_rank(struct oriel_comm *comm, int rank);
int oriel_comm_node_size(struct oriel_comm *comm, int rank);
int oriel_comm_peer_kind(struct oriel_comm *comm, int rank); /* ORIEL_PEER_* */
/* Why that peer is reached so; valid while the comm lives. */
const char *oriel_comm_peer_reason(struct oriel_comm *comm, int rank);

/* For small things of the host: up to 16 MiB from each rank and 1 GiB in all, else ORIEL_ERANGE. */
int oriel_comm_allgather(struct oriel_comm *comm, enum oriel_scope scope, const void *mine,
			 void *all, size_t bytes);                       /* [C] */
int oriel_comm_barrier(struct oriel_comm *comm, enum oriel_scope scope); /* [C] */
/*
 * For jobs of many ranks whose comm starts without queues (ORIEL_CONNECT_NONE): makes them to these
 * ranks.  Every rank names its own, or none; a pair is connected when one of the two names the
 * other.  Mapped peers, this rank and peers that have queues already need nothing.  Windows made
 * afterwards reach the new peers, and so does the comm's own handle (oriel_comm_device).  In a
 * window without queues to a peer, operations on it return ORIEL_ENOTCONN, and so do barriers
 * and signal_all, which need all of them. [C]
 */
int oriel_comm_connect(struct oriel_comm *comm, const int *ranks, int n);
int oriel_comm_device(struct oriel_comm *comm, struct oriel_comm_dev *dev);
/*
 * What executes this rank's queues and how much it has done, as one line: "soft: wqes 12, ...", or
 * "none" without queued peers.  A line that does not fit is cut.
 */
int oriel_comm_engine(struct oriel_comm *comm, char *text, size_t bytes);

/* ---- memory ---------------------------------------------------------------------------------- */

/*
 * Device memory that peers can map.  oriel_free waits until this rank's operations are complete; if
 * they are not by the deadline it returns that error and the memory stays.
 */
int oriel_alloc(struct oriel_comm *comm, size_t bytes, void **ptr);
int oriel_free(struct oriel_comm *comm, void *ptr);

/*
 * Between any two memories of this process, of the host or of the comm's device.  Done on return,
 * also while kernels run.
 */
int oriel_copy(struct oriel_comm *comm, void *to, const void *from, size_t bytes);

/*
 * Local; the same range again counts a reference and gives the same buffer.  Release it as often
 * before its memory is freed or unmapped.
 */
int oriel_buffer_register(struct oriel_comm *comm, void *ptr, size_t bytes,
			  struct oriel_buffer **buffer);
int oriel_buffer_exchange(struct oriel_comm *comm, struct oriel_buffer *buffer); /* [C] */
/* Rank's buffer in this rank's address space; NULL if not exchanged or not mapped. */
void *oriel_buffer_mapped(struct oriel_buffer *buffer, int rank);
/* Queued rank's buffer as queues name it (device/queued.h), from offset 0; after the exchange. */
int oriel_buffer_remote(struct oriel_buffer *buffer, int rank, struct oriel_remote *remote);
/* This rank's buffer as source of puts, or as home of counters; valid until its last release. */
int oriel_buffer_source(struct oriel_buffer *buffer, struct oriel_source *source);
/* The last release waits until this rank's operations are complete; peers flush theirs before. */
int oriel_buffer_release(struct oriel_buffer *buffer);

/* ---- windows --------------------------------------------------------------------------------- */

struct oriel_window_options {
	size_t size;
	uint32_t signals;  /* ids per source */
	uint32_t counters; /* ids per peer */
	uint32_t barriers; /* ids */
	/* device calls test ranks, ids and ranges; may differ by rank; ORIEL_CHECKED=1: always */
	int32_t checked;
	void *buffer; /* memory to expose; NULL: the window allocates `bytes` itself */
	uint64_t bytes;
	uint64_t staging_slot_bytes; /* 0: no staged send and receive; a multiple of 16 */
	uint32_t staging_depth;      /* slots per channel; a power of two */
	uint32_t staging_channels;   /* per pair of ranks */
	uint64_t first_count;        /* where words and epochs start; for tests of wrap-around */
};
#define ORIEL_WINDOW_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(struct oriel_window_options), 16, 16, 16, 0, NULL, 0, 0, 4, 1, 0            \
	}

int oriel_window_create(struct oriel_comm *comm, const struct oriel_window_options *options,
			struct oriel_window **window); /* [C] */
/*
 * ORIEL_EBUSY while a captured graph or a request uses it, ORIEL_EMISMATCH if ranks mean different
 * windows: they stay.
 */
int oriel_window_destroy(struct oriel_window *window);  /* [C] */
void *oriel_window_buffer(struct oriel_window *window); /* own buffer */
/*
 * Local memory as a put source or get target; any time, no peer involved.  It is good for all
 * windows of the comm until it is released, its window is destroyed, or oriel_free takes its
 * memory.
 * Release it before you free or unmap the memory: a NIC may go on reading the old pages.  A source
 * that is made afterwards is always of the memory that is there then, even at the same address.
 * Every call needs a release of its own.  Memory of oriel_alloc, of cudaMalloc and of the window
 * itself is registered once, however often it is asked for.  Nobody can tell whether other memory
 * is still the same, so every call registers it anew: ask once and keep the source.
 */
int oriel_window_source(struct oriel_window *window, void *ptr, size_t bytes,
			struct oriel_source *source);
/*
 * Waits until this rank's operations are complete, as oriel_buffer_release does; then the memory
 * may be freed.  Clears *source; NULL and a cleared source are nothing to release.  ORIEL_EINVAL:
 * no source of this window, or no longer.
 */
int oriel_window_source_release(struct oriel_window *window, struct oriel_source *source);
int oriel_window_device(struct oriel_window *window, struct oriel_window_dev *dev);
int oriel_window_status(struct oriel_window *window); /* first failure, or 0 */
/* Every id, as oriel_reset_signal: for windows whose signals are all ORIEL_ADD. */
int oriel_window_reset_signals(struct oriel_window *window, void *stream);

/*
 * Host-issued operations.  CPU device: done on return, `stream` is ignored.  CUDA: on the stream,
 * in its order, also while it is captured.  An error that comes up on the stream becomes the
 * window's failure (oriel_window_status).
 */
int oriel_window_put(struct oriel_window *window, int peer, uint64_t dst_off,
		     const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
		     void *stream);
int oriel_window_get(struct oriel_window *window, int peer, uint64_t src_off,
		     const struct oriel_source *dst, uint64_t dst_off, uint64_t bytes,
		     void *stream);
int oriel_window_put_signal(struct oriel_window *window, int peer, uint64_t dst_off,
			    const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
			    int signal, int op, uint64_t value, void *stream);
int oriel_window_signal(struct oriel_window *window, int peer, int id, int op, uint64_t value,
			void *stream);
/* peer >= 0: that source's word compares; peer < 0: the sum over sources, cmp ORIEL_GE. */
int oriel_window_wait_signal(struct oriel_window *window, int peer, int id, int cmp, uint64_t value,
			     void *stream);
int oriel_window_barrier(struct oriel_window *window, int id, void *stream);
/* The same with a deadline of their own, in seconds: more than 0, at most 49 days. */
int oriel_window_wait_signal_timeout(struct oriel_window *window, int peer, int id, int cmp,
				     uint64_t value, double timeout, void *stream);
int oriel_window_barrier_timeout(struct oriel_window *window, int id, double timeout, void *stream);

/* ---- kernels --------------------------------------------------------------------------------- */

/*
 * Runs `kernel` with a copy of args.  CPU: nblocks blocks of 1 to 32 threads, all live at once.  It
 * is synchronous and returns what the kernel returned, as oriel_comm_sync() does.  One block of one
 * thread runs on the caller, with the args themselves.  CUDA: on `stream` (a CUstream or
 * cudaStream_t; NULL is the comm's own), asynchronous; refused when the blocks of all ranks that
 * share the GPU could not run together.
 */
int oriel_launch(struct oriel_comm *comm, const struct oriel_kernel *kernel, int nblocks,
		 int nthreads, const void *args, size_t args_bytes, void *stream);
/*
 * All that was launched on the stream is done; ORIEL_ETIMEDOUT after the comm's deadline.  CPU: at
 * once.  Then it returns what kernels returned: the first status other than 0 of any thread of any
 * kernel that oriel_launch() gave to this comm, on any stream or in a graph, since the last call.
 * oriel_last_error() names the kernel, the block, the status and, where the comm or a window had
 * failed, that failure.
 */
int oriel_comm_sync(struct oriel_comm *comm, void *stream);
/*
 * Adds an image of kernels (nvcc -DORIEL_KERNEL_IMAGE --fatbin).  CUDA comms that are made later
 * look there for kernels that a C compiler compiled.  The image must stay.  On GPUs that are in use
 * already it is loaded at once, which waits for all kernels of the process: add images before comms
 * are made.
 */
int oriel_kernels_add(const void *image, size_t bytes);

#ifdef __cplusplus
}
#endif

#include "first_call.h"

#endif
