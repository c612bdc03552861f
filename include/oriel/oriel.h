/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/oriel.h - the host API.
 *
 * A status is 0 or a negative ORIEL_E* (oriel/status.h).  Outputs come last and are written only on
 * success.  Arguments are always checked.  Destroy calls accept NULL.  Every failure is logged
 * once, where it is first detected.  oriel_last_error() returns its text.
 *
 * [C] marks a collective call: all ranks of the comm make it, in the same order.  If it fails on
 * one rank, all ranks return an error that names the rank and the cause.
 *
 * A struct of options begins with its size and may grow at its end, so initialise it with its
 * ..._INIT.  Headers and library must have the same major and minor version.  Otherwise the first
 * call of a program returns ORIEL_EVERSION.
 *
 * After fork() the ranks belong to the parent.  In the child, every call with a handle from before
 * the fork returns ORIEL_EUNSUPPORTED and changes nothing; destroy calls too.  The child may create
 * a boot and objects of its own.  Flat handles (struct oriel_window_dev, oriel_comm_dev) cannot be
 * checked: the child must not use them.
 */
#ifndef ORIEL_H
#define ORIEL_H

#include <stddef.h>
#include <stdint.h>

#include "device/element.h"
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
struct oriel_memory;
struct oriel_buffer;
struct oriel_window;

/* ---- versions, errors ------------------------------------------------------------------------ */

/* The version of the library: "0.1.0". */
const char *oriel_version(void);
/* The name of a status: "ORIEL_ETIMEDOUT". */
const char *oriel_status_name(int status);
/* The text of a status: "the deadline passed". */
const char *oriel_status_text(int status);
/* The text of this thread's last failure, "" if none. */
const char *oriel_last_error(void);

/* ---- the usual case: one comm, set up from the launcher and the environment ------------------ */

/*
 * Creates a comm of all ranks that the launcher started.  Calls oriel_boot_env, oriel_comm_create
 * with default options, and oriel_boot_destroy.  *comm is an ordinary comm: oriel_comm_split, for
 * example, works on it.  Call it again only after oriel_finalize. [C]
 */
int oriel_init(struct oriel_comm **comm);
/*
 * Destroys the remaining windows, then the comm.  Works on any comm.  Returns ORIEL_EBUSY on all
 * ranks, and destroys nothing, while a rank has registered buffers, requests of collectives, or
 * captured graphs that use a window. [C]
 */
int oriel_finalize(struct oriel_comm *comm);

/* ---- boot: how ranks find each other --------------------------------------------------------- */

struct oriel_boot_id {
	unsigned char bytes[128];
};

/* Callbacks into a runtime of the user (MPI, a torch store, ...). */
struct oriel_boot_ops {
	size_t size; /* sizeof(struct oriel_boot_ops) */
	/* every rank gives `bytes` and gets nranks * bytes, in rank order; returns 0 on success */
	int (*allgather)(void *ctx, const void *mine, void *all, size_t bytes);
	/* tell the others that this rank gives up; may be NULL */
	void (*abort)(void *ctx, int why);
	/* called once when the boot is no longer used; may be NULL */
	void (*destroy)(void *ctx);
};

/*
 * Finds the ranks from the environment: PMIx; else RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; else
 * one rank. [C]
 */
int oriel_boot_env(struct oriel_boot **boot);
/* Makes boots for ranks that are threads; boots[r] is for the thread that becomes rank r. */
int oriel_boot_threads(int nranks, struct oriel_boot **boots);
/* Makes an id for a job.  One process makes it and sends it to all others by any means. */
int oriel_boot_make_id(struct oriel_boot_id *id);
/* Joins the job of an id.  All processes make the call, also the one that made the id. */
int oriel_boot_join(const struct oriel_boot_id *id, int rank, int nranks,
		    struct oriel_boot **boot); /* [C] */
/* The ranks find each other through the callbacks of the user. */
int oriel_boot_user(const struct oriel_boot_ops *ops, void *ctx, int rank, int nranks,
		    struct oriel_boot **boot);
/* This rank's number in the boot. */
int oriel_boot_rank(const struct oriel_boot *boot);
/* How many ranks the boot has. */
int oriel_boot_nranks(const struct oriel_boot *boot);
/* Destroys a boot.  A comm keeps what it needs of it, so the boot may be destroyed first. */
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
/* Which queued peers get queues when the comm is created. */
enum oriel_connect { ORIEL_CONNECT_ALL = 1, ORIEL_CONNECT_NONE = 2 };
#define ORIEL_COMM_OPTIONS_INIT                                                                    \
	{                                                                                          \
		sizeof(struct oriel_comm_options), NULL, NULL, 0.0, 0, 0                           \
	}

enum oriel_scope { ORIEL_WORLD = 0, ORIEL_NODE = 1 };

/*
 * Creates a comm of all ranks of the boot.  It finds out how each peer is reached, and creates
 * queues to queued peers.  Options NULL: as ORIEL_COMM_OPTIONS_INIT. [C]
 */
int oriel_comm_create(struct oriel_boot *boot, const struct oriel_comm_options *options,
		      struct oriel_comm **comm);
/*
 * Divides a comm into smaller ones.  Ranks with the same colour form a comm, ordered by key, then
 * by rank.  A rank with colour < 0 joins none and gets *sub = NULL.
 *
 * CUDA: both comms share one default stream (oriel_launch() with stream NULL).  Work that one comm
 * launches there runs after all earlier work of the other.  So all ranks must launch in the same
 * order there, or use streams of their own.
 */
int oriel_comm_split(struct oriel_comm *comm, int color, int key,
		     struct oriel_comm **sub); /* [C] */
/*
 * Makes a comm of the `n` ranks in `ranks`.  Their new ranks are their places in the list.
 * Collective over these ranks only: no other rank of the comm takes part or learns of it.  Each of
 * them makes the call with the same list and the same tag, which is 0 or more.
 *
 * A rank makes one such call at a time per tag, and ranks make their calls with one tag in the same
 * order.  Calls with different tags are independent, also on several threads of a rank and beside
 * other collective calls of the comm.  CUDA: both comms share one default stream, as with
 * oriel_comm_split().
 *
 * A rank that cannot use its own list (itself missing, a rank twice or out of range) returns
 * ORIEL_EINVAL or ORIEL_ERANGE at once; the ranks that it should have met wait until their
 * deadline.  If two ranks wait for each other with different lists, both return ORIEL_EMISMATCH at
 * once.  Any other difference ends at the deadline, with the ranks that did not come.  In all cases
 * a later call works.  ORIEL_EBUSY: another thread of this rank is in a call with this tag.
 * ORIEL_EUNSUPPORTED: the comm came from oriel_boot_user, and the list has neither one rank nor
 * all.
 */
int oriel_comm_subset(struct oriel_comm *comm, const int *ranks, int n, int tag,
		      struct oriel_comm **sub);
/*
 * Makes a comm of the ranks that are left after the death of a rank.  They keep their old order.
 * Each of them makes the call, and destroys the old comm then or later.  It needs no comm that has
 * failed: without deaths, all ranks form a comm.  Ranks that have destroyed all their comms are not
 * waited for.
 *
 * If ranks die during the call, it begins again without them.  A rank whose new comm fails before
 * it is used makes the call again, on the old comm or on the new one: both meet the ranks that
 * could not make the new one.  A rank makes one such call at a time.  CUDA: both comms share one
 * default stream.
 *
 * A rank that lives but does not come ends the call at the deadline (ORIEL_ETIMEDOUT) by name.
 * ORIEL_EPEER: the process with the rendezvous has died, which is that of rank 0 or the one that
 * made the id.  ORIEL_EUNSUPPORTED: the comm came from oriel_boot_user.
 */
int oriel_comm_shrink(struct oriel_comm *comm, struct oriel_comm **sub);
/*
 * Destroys a comm and frees its memory of oriel_alloc.  Windows and buffers must be destroyed
 * first, else ORIEL_EBUSY on all ranks.  A failed comm destroys them itself.  If the buffer of a
 * failed window is malloc memory, other ranks that are threads may still use it.  Free it only
 * after their calls have returned. [C]
 */
int oriel_comm_destroy(struct oriel_comm *comm);
/* Ends every wait on every rank of the comm with ORIEL_EABORTED.  `why` is any status except 0. */
int oriel_comm_abort(struct oriel_comm *comm, int why);
/* The first failure of the comm, or 0. */
int oriel_comm_status(struct oriel_comm *comm);

/* The next calls return the value, or a negative status for a bad argument. */

/* This rank's number in the comm. */
int oriel_comm_rank(struct oriel_comm *comm);
/* How many ranks the comm has. */
int oriel_comm_size(struct oriel_comm *comm);
/* How many nodes the comm has. */
int oriel_comm_nodes(struct oriel_comm *comm);
/* The number of the node on which `rank` is. */
int oriel_comm_node(struct oriel_comm *comm, int rank);
/* The number of `rank` among the ranks of its node. */
int oriel_comm_node_rank(struct oriel_comm *comm, int rank);
/* How many ranks the node of `rank` has. */
int oriel_comm_node_size(struct oriel_comm *comm, int rank);
/* How `rank` is reached: one of ORIEL_PEER_*. */
int oriel_comm_peer_kind(struct oriel_comm *comm, int rank);
/* Why a peer is reached as it is: a text that is valid while the comm exists. */
const char *oriel_comm_peer_reason(struct oriel_comm *comm, int rank);

/*
 * Gathers small host data of all ranks: up to 16 MiB per rank and 1 GiB in total, else
 * ORIEL_ERANGE.
 */
int oriel_comm_allgather(struct oriel_comm *comm, enum oriel_scope scope, const void *mine,
			 void *all, size_t bytes); /* [C] */
/*
 * Barrier of the host code of all ranks.  Returns when all ranks of the comm, or of this rank's
 * node, have made the call. [C]
 */
int oriel_comm_barrier(struct oriel_comm *comm, enum oriel_scope scope);
/*
 * Creates queues to the given ranks.  It is for large jobs whose comm starts without queues
 * (ORIEL_CONNECT_NONE).  Each rank passes its own list, which may be empty.  A pair is connected if
 * either rank lists the other.  Mapped peers, this rank and peers that already have queues are
 * skipped.
 *
 * The new peers are reachable in windows that are created later and in the comm's own handle
 * (oriel_comm_device).  In a window without queues to a peer, operations on that peer return
 * ORIEL_ENOTCONN.  Barriers and signal_all need queues to all peers and return it too. [C]
 */
int oriel_comm_connect(struct oriel_comm *comm, const int *ranks, int n);
/* Gives the comm's own handle for kernels, without a window. */
int oriel_comm_device(struct oriel_comm *comm, struct oriel_comm_dev *dev);
/*
 * Describes the engine that executes this rank's queues.  The text is one line with statistics:
 * "soft: wqes 12, ...".  It is "none" without queued peers.  A line that does not fit is cut.
 */
int oriel_comm_engine(struct oriel_comm *comm, char *text, size_t bytes);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Allocates memory of the comm's device that peers can map; bytes is at least 1. */
int oriel_alloc(struct oriel_comm *comm, size_t bytes, void **ptr);
/*
 * Frees memory of oriel_alloc.  It first waits until this rank's operations are complete.  If the
 * deadline passes before, it returns that error and frees nothing.
 */
int oriel_free(struct oriel_comm *comm, void *ptr);
/*
 * Keeps memory of oriel_alloc when its comm ends.  It is for languages with garbage collection,
 * whose arrays may live longer than the comm.  oriel_memory_drop frees such memory.
 */
int oriel_memory_keep(struct oriel_comm *comm, void *ptr, struct oriel_memory **memory);
/*
 * Frees memory of oriel_memory_keep, instead of oriel_free.  It works like oriel_free while the
 * comm exists, and without a wait afterwards.  If it returns an error, the memory stays and the
 * call may be repeated.  Do not call it while another thread destroys the comm.
 */
int oriel_memory_drop(struct oriel_memory *memory);

/*
 * Copies memory of this process, from and to the host or the comm's device.  The copy is finished
 * on return, even while kernels run.
 */
int oriel_copy(struct oriel_comm *comm, void *to, const void *from, size_t bytes);

/*
 * Registers memory of this rank.  Local.  Registering the same range again adds a reference and
 * returns the same buffer.  Release it once per registration, before its memory is freed or
 * unmapped.
 */
int oriel_buffer_register(struct oriel_comm *comm, void *ptr, size_t bytes,
			  struct oriel_buffer **buffer);
/* Makes the buffers of all ranks known to all ranks: mapped, or addressed by queues. [C] */
int oriel_buffer_exchange(struct oriel_comm *comm, struct oriel_buffer *buffer);
/* Where this process maps the buffer of `rank`; NULL if not exchanged or not mapped. */
void *oriel_buffer_mapped(struct oriel_buffer *buffer, int rank);
/*
 * Tells how work queues address the buffer of a queued rank.  It is the buffer from offset 0
 * (device/types.h).  Call it after the exchange.
 */
int oriel_buffer_remote(struct oriel_buffer *buffer, int rank, struct oriel_remote *remote);
/*
 * Gives this rank's buffer as source of puts, or as memory for counters.  It is valid until the
 * buffer's last release.
 */
int oriel_buffer_source(struct oriel_buffer *buffer, struct oriel_source *source);
/*
 * Releases a registered buffer.  The last release waits until this rank's operations are complete.
 * Peers must flush theirs first.
 */
int oriel_buffer_release(struct oriel_buffer *buffer);

/* ---- windows --------------------------------------------------------------------------------- */

struct oriel_window_options {
	size_t size;
	uint32_t signals;  /* ids per sending rank */
	uint32_t counters; /* ids per peer */
	uint32_t barriers; /* ids */
	/*
	 * device calls test ranks, ids and ranges; may differ per rank; ORIEL_CHECKED=1 forces it
	 */
	int32_t checked;
	/*
	 * The memory to expose.  NULL: the window allocates it, aligned to a page.  Ranks in other
	 * processes can only map memory of oriel_alloc() or device memory.
	 */
	void *buffer;
	uint64_t bytes; /* of the buffer; the same on all ranks; 0: a window without a buffer */
	uint64_t staging_slot_bytes; /* 0: no staged send and receive; a multiple of 16 */
	uint32_t staging_depth;      /* slots per channel; a power of two */
	uint32_t staging_channels;   /* per pair of ranks */
	uint64_t first_count;        /* where words and epochs start; for tests of wrap-around */
	uint32_t boxes;              /* of packets, per pair of ranks; 0: no packets */
	uint32_t box_bytes; /* the longest packet, up to 8 MiB; a box holds at least four of them */
};
#define ORIEL_WINDOW_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(struct oriel_window_options), 16, 16, 16, 0, NULL, 0, 0, 4, 1, 0, 0, 0      \
	}

/*
 * Creates a window on all ranks.  Its signals, counters and barriers start at 0.
 * ORIEL_WINDOW_OPTIONS_INIT gives 16 of each, numbered from 0, and no buffer: set at least `bytes`.
 * ORIEL_EMISMATCH: ranks differ in an option other than `buffer` and `checked`. [C]
 */
int oriel_window_create(struct oriel_comm *comm, const struct oriel_window_options *options,
			struct oriel_window **window);
/*
 * Destroys a window on all ranks.  Returns ORIEL_EBUSY while a captured graph or a request uses the
 * window, and ORIEL_EMISMATCH if ranks pass different windows.  In both cases no window is
 * destroyed. [C]
 */
int oriel_window_destroy(struct oriel_window *window);
/* The address of this rank's own window buffer. */
void *oriel_window_buffer(struct oriel_window *window);
/* Where this process maps the buffer of `rank`; NULL if there is none or it is not mapped. */
void *oriel_window_mapped(struct oriel_window *window, int rank);
/*
 * Registers local memory as put source or get target.  Call it at any time; no peer takes part.
 * The source is valid in all windows of the comm.  It ends when it is released, its window is
 * destroyed, or oriel_free frees its memory.
 *
 * Release the source before you free or unmap the memory, because a NIC may still read the old
 * pages.  A source that is made later always refers to the current memory, even at the same
 * address.
 *
 * Each call needs its own release.  Memory of oriel_alloc, of cudaMalloc and of the window itself
 * is registered only once.  For other memory the library cannot tell whether it is still the same,
 * so each call registers it again.  Make such a source once and keep it.
 */
int oriel_window_source(struct oriel_window *window, void *ptr, size_t bytes,
			struct oriel_source *source);
/*
 * Releases a source and clears *source.  It first waits until this rank's operations are complete,
 * as oriel_buffer_release does.  Then the memory may be freed.  NULL and a cleared source are
 * accepted and need no release.  ORIEL_EINVAL: the source is not, or no longer, a source of this
 * window.
 */
int oriel_window_source_release(struct oriel_window *window, struct oriel_source *source);
/* Gives the window as kernels see it: a flat handle for the arguments of a kernel. */
int oriel_window_device(struct oriel_window *window, struct oriel_window_dev *dev);
/*
 * Gives the address of the window's handle for kernels.  It is in memory that kernels can read:
 * device memory, or on the CPU ordinary memory.  It is for languages whose kernels take pointers.
 * The handle never changes, and the address is valid until the window is destroyed.  Later calls
 * return the same address.
 */
int oriel_window_device_address(struct oriel_window *window, const struct oriel_window_dev **dev);
/* The first failure of the window, or 0. */
int oriel_window_status(struct oriel_window *window);

/* ---- operations issued by the host ----------------------------------------------------------- */

/*
 * Each call means what the device call of the same name means (oriel/device.h).  CPU device: the
 * operation is complete and delivered on return; `stream` is ignored.  CUDA: it is executed in
 * stream order, also while the stream is captured, and complete and delivered before what follows
 * on the stream.  An error that occurs later on the stream becomes the window's failure
 * (oriel_window_status).  A wait without a timeout of its own ends at the comm's deadline.
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
/* Puts data and counts it: counter (peer, counter) has grown by 1 when the put is complete. */
int oriel_window_put_counter(struct oriel_window *window, int peer, uint64_t dst_off,
			     const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
			     int counter, void *stream);
/*
 * Puts data, signals the peer and counts the put.  This is oriel_window_put_signal; counter (peer,
 * counter) has grown by 1 when it is complete.
 */
int oriel_window_put_signal_counter(struct oriel_window *window, int peer, uint64_t dst_off,
				    const struct oriel_source *src, uint64_t src_off,
				    uint64_t bytes, int signal, int op, uint64_t value, int counter,
				    void *stream);
/*
 * Waits until operations of kernels to `peer` are complete and delivered.  Their counters have then
 * counted them.  peer < 0: to all peers.  It covers all blocks of kernels that ended before the
 * call (CUDA: earlier on the stream) without a flush of their own.  Operations of the calls in this
 * section need no flush.
 */
int oriel_window_flush(struct oriel_window *window, int peer, void *stream);

/*
 * oriel_window_fetch_add adds `value` to a word of the peer's window buffer.  oriel_window_swap
 * stores `value` in a word of the peer's window buffer.  oriel_window_compare_swap stores `value`
 * in a word of the peer's window buffer if it has `expected`.
 *
 * The word is 8 bytes, aligned.  Its previous value goes to *old; old may be NULL.  CPU: any
 * memory.  CUDA: memory that the device can write (oriel_alloc, cudaMalloc, pinned host memory);
 * other memory is refused with ORIEL_EINVAL.  There *old is written in stream order, so it must
 * stay valid until then.
 */
int oriel_window_fetch_add(struct oriel_window *window, int peer, uint64_t offset, uint64_t value,
			   uint64_t *old, void *stream);
int oriel_window_swap(struct oriel_window *window, int peer, uint64_t offset, uint64_t value,
		      uint64_t *old, void *stream);
int oriel_window_compare_swap(struct oriel_window *window, int peer, uint64_t offset,
			      uint64_t expected, uint64_t value, uint64_t *old, void *stream);

/*
 * Makes an atomic on an element of any type in the peer's window buffer.  This is oriel_atomic of
 * oriel/device.h: `type` is an integer of 1 to 8 bytes, a float or a double, and `op` is one of
 * ORIEL_ATOMIC_*.  *old is that of the calls above.
 */
int oriel_window_atomic(struct oriel_window *window, int peer, uint64_t offset, int type, int op,
			uint64_t expected, uint64_t value, uint64_t *old, void *stream);

/*
 * Signals a peer: adds to a word there, or sets it.  The peer's word (this rank, id) grows by
 * `value` (op is ORIEL_ADD) or becomes `value` (op is ORIEL_SET).  An id uses one of the two, never
 * both.
 */
int oriel_window_signal(struct oriel_window *window, int peer, int id, int op, uint64_t value,
			void *stream);
/* Signals every rank except this one.  `op` is ORIEL_ADD or ORIEL_SET, as for one rank. */
int oriel_window_signal_all(struct oriel_window *window, int id, int op, uint64_t value,
			    void *stream);
/*
 * Waits for a signal of one rank, or of all ranks together.  peer >= 0: until "the word of (peer,
 * id) <cmp> value" is true; cmp is ORIEL_EQ, _NE, _GT, _GE, _LT or _LE.  peer < 0: until the sum of
 * `id` over all ranks, this one included, is at least `value`; cmp must be ORIEL_GE.  Then this
 * rank sees all that those ranks wrote before they signalled.  A wait does not change the signal.
 */
int oriel_window_wait_signal(struct oriel_window *window, int peer, int id, int cmp, uint64_t value,
			     void *stream);
/* Lets later reads and waits of `id` count from its present value.  For ids with ORIEL_ADD. */
int oriel_window_reset_signal(struct oriel_window *window, int id, void *stream);
/* Resets the signals of every id.  Only for windows whose signals all use ORIEL_ADD. */
int oriel_window_reset_signals(struct oriel_window *window, void *stream);
/*
 * Lets later reads and waits of `id` count from a base that is `value` higher.  peer >= 0: for that
 * source.  peer < 0: for the sum over sources.  So a captured graph can wait for "one more" at each
 * launch.
 */
int oriel_window_signal_advance(struct oriel_window *window, int peer, int id, uint64_t value,
				void *stream);

/*
 * Waits for a counter of this rank.  peer >= 0: until "the counter (peer, id) <cmp> value" is true;
 * cmp is ORIEL_EQ, _NE, _GT, _GE, _LT or _LE.  peer < 0: until the sum over peers is at least
 * `value`; cmp must be ORIEL_GE.
 */
int oriel_window_wait_counter(struct oriel_window *window, int peer, int id, int cmp,
			      uint64_t value, void *stream);
/*
 * Lets later reads and waits of a counter count from its present value.  peer < 0: the counters of
 * all peers.
 */
int oriel_window_reset_counter(struct oriel_window *window, int peer, int id, void *stream);

/*
 * Barrier of all ranks.  All of them pass the same id.  On return, data that any rank had put with
 * the calls of this section is visible.
 */
int oriel_window_barrier(struct oriel_window *window, int id, void *stream);

/*
 * Waits until an integer of this rank's own window buffer compares.  This is oriel_wait_word of
 * oriel/device.h: cmp is ORIEL_EQ, _NE, _GT, _GE, _LT or _LE.
 */
int oriel_window_wait_word(struct oriel_window *window, uint64_t offset, int type, int cmp,
			   uint64_t value, void *stream);
/* Waits for one of several words.  See oriel_wait_any_word of oriel/device.h.  CPU device only. */
int oriel_window_wait_any_word(struct oriel_window *window, const struct oriel_words *words,
			       uint64_t first, uint64_t *index);

/*
 * oriel_window_wait_signal_timeout waits for a signal, with a deadline;
 * oriel_window_wait_counter_timeout waits for a counter, with a deadline;
 * oriel_window_barrier_timeout meets all ranks in a barrier, with a deadline;
 * oriel_window_wait_word_timeout waits for a word of this rank's window, with a deadline;
 * oriel_window_wait_any_word_timeout waits for one of several words, with a deadline.
 *
 * The deadline is in seconds: more than 0, at most 49 days.  If it passes, the call returns
 * ORIEL_ETIMEDOUT.  Otherwise each call is the one whose name lacks _timeout.
 */
int oriel_window_wait_signal_timeout(struct oriel_window *window, int peer, int id, int cmp,
				     uint64_t value, double timeout, void *stream);
int oriel_window_wait_counter_timeout(struct oriel_window *window, int peer, int id, int cmp,
				      uint64_t value, double timeout, void *stream);
int oriel_window_barrier_timeout(struct oriel_window *window, int id, double timeout, void *stream);
int oriel_window_wait_word_timeout(struct oriel_window *window, uint64_t offset, int type, int cmp,
				   uint64_t value, double timeout, void *stream);
int oriel_window_wait_any_word_timeout(struct oriel_window *window, const struct oriel_words *words,
				       uint64_t first, double timeout, uint64_t *index);

/*
 * oriel_window_read_signal gives the present value of a signal; oriel_window_read_counter gives the
 * present value of a counter.  peer < 0: the sum over sources or peers.  These calls wait for
 * nothing and follow no stream, so they also work while kernels run.  The caller sees what the
 * sources wrote before they signalled.  A failed window returns its failure and no value.
 */
int oriel_window_read_signal(struct oriel_window *window, int peer, int id, uint64_t *value);
int oriel_window_read_counter(struct oriel_window *window, int peer, int id, uint64_t *value);
/* Reads an integer of this rank's own window buffer, with its sign extended.  CPU device only. */
int oriel_window_read_word(struct oriel_window *window, uint64_t offset, int type, uint64_t *value);

/* ---- transfers of any memory, by host code on the CPU device --------------------------------- */

/*
 * oriel_window_put_bytes puts data from any local memory; oriel_window_get_bytes gets data into any
 * local memory.  They are oriel_window_put and oriel_window_get, but the local memory needs no
 * source: the stack, constants, any array.  For queued peers the data goes through registered
 * memory of the window, which the first such call creates (1 MiB).  Any threads may call at the
 * same time.
 *
 * A put returns when `src` may be written again.  Its data is delivered by oriel_flush() of the
 * same block: a group `g` of one thread with g.block = block (oriel_group_thread).  Blocks are the
 * lanes of the device API: puts of one block to one peer arrive in order.  A get returns when `dst`
 * holds the data.  ORIEL_EUNSUPPORTED on a separate device.
 */
int oriel_window_put_bytes(struct oriel_window *window, int peer, uint64_t dst_off, const void *src,
			   uint64_t bytes, uint32_t block);
int oriel_window_get_bytes(struct oriel_window *window, int peer, uint64_t src_off, void *dst,
			   uint64_t bytes, uint32_t block);
/*
 * oriel_window_put_strided puts elements with strides, from any local memory;
 * oriel_window_get_strided gets elements with strides, into any local memory.  There are `count`
 * elements of elem_bytes.  Strides are in bytes from one element to the next; they may be negative,
 * or 0.  Otherwise these are put_bytes and get_bytes.
 */
int oriel_window_put_strided(struct oriel_window *window, int peer, uint64_t dst_off,
			     int64_t dst_stride, const void *src, int64_t src_stride,
			     uint64_t elem_bytes, uint64_t count, uint32_t block);
int oriel_window_get_strided(struct oriel_window *window, int peer, uint64_t src_off,
			     int64_t src_stride, void *dst, int64_t dst_stride, uint64_t elem_bytes,
			     uint64_t count, uint32_t block);

/* ---- kernels --------------------------------------------------------------------------------- */

/*
 * Runs a kernel with a copy of args.
 *
 * CPU: nblocks blocks of 1 to 32 threads, which all run at the same time.  The call is synchronous
 * and returns the kernel's status, as oriel_comm_sync() does.  A launch of one block of one thread
 * runs on the calling thread and uses args itself, not a copy.
 *
 * CUDA: asynchronous on `stream` (a CUstream or cudaStream_t; NULL is the comm's own stream).  The
 * launch is refused if the blocks of all ranks that share the GPU cannot be resident together.
 *
 * The end of a kernel completes none of its operations: see the three states in oriel/device.h.
 */
int oriel_launch(struct oriel_comm *comm, const struct oriel_kernel *kernel, int nblocks,
		 int nthreads, const void *args, size_t args_bytes, void *stream);
/*
 * Waits for the work launched on the stream, and returns the kernels' status.  It waits until all
 * work is finished; ORIEL_ETIMEDOUT after the comm's deadline.  CPU: there is nothing to wait for.
 * Then it returns the status of the kernels: the first status other than 0 of any thread since the
 * last call.  This covers all kernels that oriel_launch() ran for this comm, on any stream or in a
 * graph.  oriel_last_error() names the kernel, the block and the status.  If the comm or a window
 * had failed, it names that failure too.
 */
int oriel_comm_sync(struct oriel_comm *comm, void *stream);
/*
 * Adds an image of kernels for CUDA (nvcc -DORIEL_KERNEL_IMAGE --fatbin).  CUDA comms that are
 * created later search it for kernels that a C compiler compiled.  The image must stay in memory.
 * On GPUs already in use it is loaded at once, which waits for all kernels of the process.  So add
 * images before you create comms.
 */
int oriel_kernels_add(const void *image, size_t bytes);

#ifdef __cplusplus
}
#endif

#include "first_call.h"

#endif
