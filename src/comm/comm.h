/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/comm.h - the comm and what its files share.
 *
 * comm.c makes and ends it, agree.c lets ranks decide together, slab.c cuts control memory and control.c
 * keeps its two halves, memory.c owns allocations, buffers.c registrations, imports.c peers' memory, passing.c hands descriptors to
 * other processes, failure.c keeps the first failure.
 *
 * Locking: `lock` guards the lists and the failure text.  Collective calls on one comm are the user's
 * to serialise, as with any ordered call.
 */
#ifndef ORI_COMM_H
#define ORI_COMM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

#include "../boot/boot.h"
#include "../device/device.h"
#include "../engine/engine.h"
#include "../util/config.h"
#include "../util/util.h"
#include "spans.h"
#include "topology.h"

/* ---- control memory ---------------------------------------------------------------------------- */

/*
 * Virtual size of a rank's control slab.  Pages exist only once touched; a comm of 64 ranks with
 * default windows touches well under 1 MiB of it.
 */
#if defined(__SANITIZE_THREAD__)
/* ThreadSanitizer leaves a program some GiB of addresses only, for all its ranks and comms. */
#define ORI_SLAB_BYTES (1ull << 26)
#else
#define ORI_SLAB_BYTES (1ull << 30)
#endif
/* Where the device's memory is not the host's: both halves exist from the start, one of them pinned. */
#define ORI_SLAB_SEPARATE_BYTES (1ull << 25)
/* Where file sizes or addresses are limited it may be smaller, down to this. */
#define ORI_SLAB_LEAST_BYTES (1ull << 20)
#define ORI_SLAB_ALIGN 4096u

/*
 * Names of memory that this rank told its peers of and that is gone (gone.c).  Written by this rank
 * alone: a name, then the count, which runs for ever.  A reader that is further behind than the
 * names kept knows only that it is.
 */
#define ORI_GONE_KEPT 32u
struct ori_gone {
	uint64_t count;
	uint64_t id[ORI_GONE_KEPT];
};

/* At offset 0 of every rank's slab; peers map it. */
struct ori_control {
	struct oriel_waiters waiters;
	struct oriel_waiters engine_waiters; /* the thread of this rank's engine, when it sleeps */
	uint64_t failure; /* first failure; set once, by this rank or by a mapped peer that aborts */
	uint8_t pad[ORIEL_LINE_BYTES - 8];
	struct oriel_board board;
	struct ori_gone gone;
	struct oriel_kernel_report report; /* what this rank's kernels returned: returned.c */
};

/* Cuts offsets out of [0, bytes): first fit, free ranges kept sorted and merged. */
struct ori_range {
	uint64_t offset, bytes;
	struct ori_range *next;
};
struct ori_slab {
	struct ori_range *free_ranges;
	uint64_t used; /* bytes handed out */
	int limited;   /* smaller than it could be, by a limit of this process */
};
int ori_slab_init(struct ori_slab *, uint64_t bytes);
void ori_slab_destroy(struct ori_slab *);
int ori_slab_take(struct ori_slab *, uint64_t bytes, uint64_t *offset); /* whole pages */
void ori_slab_give(struct ori_slab *, uint64_t offset, uint64_t bytes);

/* ---- memory of this rank and of peers ----------------------------------------------------------- */

struct ori_memory {
	struct ori_allocation allocation;
	size_t asked;  /* by the user, where it is ours: the allocation is whole pages */
	uint64_t id;   /* what a peer asks for; unique in this process */
	int users;     /* windows and buffers over it */
	int owned;     /* by a window: goes with its last user */
	int described; /* the user's own: only told to peers, never freed */
	int borrowed;  /* another comm's of this process: neither */
	int host;      /* the host's, where kernels reach it */
	int gone;      /* peers have been told so */
	struct ori_memory *next;
};

/* A peer's allocation in this address space. */
struct ori_import {
	int peer;
	uint64_t id;
	struct ori_device *device;    /* who mapped it */
	struct ori_allocation theirs; /* without the descriptor */
	void *base;
	int users;
	int kept; /* one of them is the engine */
	struct ori_import *next;
};

/* How another rank finds a range of mine; travels in collective records. */
struct ori_export {
	uint64_t id; /* 0: lives in this process only */
	uint64_t offset;
	uint64_t allocation_bytes;
	uint64_t address; /* for ranks of the same process */
	uint64_t bytes;
	uint64_t far;       /* `handle` is there: ranks of other hosts can map it */
	uint8_t handle[64]; /* of the allocation on its NVLink fabric */
};

/* What this rank knows of a peer besides topology. */
struct ori_peer {
	int same_process;
	int far;         /* on another host: its host's half of control memory is out of reach */
	char socket[32]; /* where its process hands out descriptors */
	uint8_t token[16];
	struct ori_pair pair;
	struct ori_control *control; /* mapped and self: the host's half; NULL if far */
	uint64_t slab_bytes;
	void *slab_base, *near_base;                  /* the two halves of its control memory */
	struct ori_import *slab_import, *near_import; /* NULL for a rank of this process */
	uint64_t gone_seen; /* names of gone memory that this rank has heard */
};

/*
 * What stands on a comm: first member of windows and buffers.  destroy frees without talking to other
 * ranks; it is called when a comm takes its children along: all of a failed one, else those that ask for it.
 */
struct ori_child {
	void (*destroy)(struct ori_child *);
	/*
	 * In a user's words, what of it a queue names by this key and address at that rank; 0:
	 * nothing.  NULL: peers' queues name nothing of it.  Under the comm's lock.
	 */
	int (*name)(const struct ori_child *, int rank, uint32_t nic, uint32_t key,
		    uint64_t address, char *out, size_t bytes);
	struct ori_child *next;
	/*
	 * The value of signal `id` from `rank`, if this is window `number` and the host can read
	 * it; 0: not.
	 */
	int (*signal_from)(const struct ori_child *, int number, int id, int rank, uint64_t *value);
	int along; /* the user has no handle to it: does not keep the comm from going */
	/* Of windows: their number, and their failure word in the device's half; else NULL. */
	int number;
	const uint64_t *failure;
};

/*
 * What a layer above keeps on a comm; it is first in a struct of that layer.  Called on the thread
 * that ends the window, buffer or comm; none talks to other ranks.  The last two only when all
 * ranks have come to it.
 */
struct ori_attachment {
	void (*reap)(struct ori_attachment *); /* lets go of what nobody needs any more; or NULL */
	void (*forget)(struct ori_attachment *, const void *owner); /* a window or buffer goes */
	void (*destroy)(struct ori_attachment *);                   /* the comm goes */
	struct ori_attachment *next;
};

/*
 * What kernels of this rank returned, under the comm's lock.  names: of all kernels that were
 * launched on a separate device; a graph may run them at any time, so none goes before the comm.
 * status, text: the first failure of a launch that was over on return.
 */
struct ori_kernel_name;
struct ori_returned {
	struct ori_kernel_name *names;
	uint32_t count;
	int status;
	char text[512];
};

struct oriel_comm {
	struct oriel_boot *boot;      /* this comm's own group */
	struct oriel_boot *node_boot; /* the ranks of this node; == boot when there is one node */
	struct ori_config config;
	uint64_t timeout_ns;
	int rank, nranks;
	struct ori_device *device;      /* what runs kernels */
	struct ori_device *host_device; /* maps host memory of peers; the same on the CPU */
	struct ori_passing *passing;    /* descriptor service of this process */
	struct ori_topology topology;
	struct ori_facts *facts; /* [nranks] */
	struct ori_peer *peers;  /* [nranks] */
	struct oriel_comm_peer *dev_peers;
	struct ori_memory *slab_memory; /* the host's half of control memory */
	struct ori_memory *near_memory; /* the device's half; the same where memory is one */
	uint64_t slab_bytes;
	/* The collective call under way: agree.c. */
	int call, call_rounds; /* enum ori_call; rounds that are over */
	uint64_t call_end_ns;
	uint32_t fetching; /* atomic: ORI_FETCHING() of the memory that is waited for; 0: none */
	int boot_lost; /* atomic: status of a failure of the boot while the comm is being made */
	int quiet;     /* no rank stores to this one's memory: not yet, or not any more */
	int overdue;   /* atomic: kernels on the comm's own stream have not ended in time */
	struct ori_slab slab;
	int device_lost;           /* atomic: the user has been told that and why */
	struct ori_speaker *watch; /* looks after waits of a device that cannot speak; else NULL */
	const char *engine_name; /* chosen by all ranks; NULL without queued peers, as are the next */
	struct ori_engine *engine;
	struct ori_links *links;
	struct ori_control *control; /* own */
	struct oriel_comm_dev dev;

	pthread_mutex_t lock;
	struct ori_memory *memories;
	struct ori_import *imports;
	struct ori_span *sources;         /* all registrations of local memory */
	struct ori_registration *retired; /* their memory is gone; NICs may look at them */
	struct ori_child *children;
	struct ori_attachment *attachments;
	int next_window;          /* number of the next one */
	uint64_t generation_seed; /* random: window handles of this comm are told apart by it */
	char failure_text[256];
	pthread_cond_t failure_told;  /* failure_text is there */
	int failure_untold;           /* it was waited for and did not come: not again */
	struct ori_held *held;        /* a failure that waits for its cause; failure.c */
	struct ori_returned returned; /* what kernels returned; returned.c */
};

/*
 * A rank and the call (enum ori_call) that waits for its memory, in one word for other threads to
 * read.
 */
#define ORI_FETCHING(call, rank) ((uint32_t)(call) << 16 | ((uint32_t)(rank) + 1u))
#define ORI_FETCHING_CALL(word) ((int)((word) >> 16))
#define ORI_FETCHING_RANK(word) ((int)((word)&0xffffu) - 1)

/*
 * Whom to wake after a store to words of a mapped peer.  Sleepers of another host are out of
 * reach; on a GPU nobody sleeps, elsewhere a timer wakes them.  This rank's own stand in for
 * them, so that nobody tests for NULL.
 */
static inline struct oriel_waiters *ori_peer_waiters(struct oriel_comm *c, int rank)
{
	struct ori_control *control = c->peers[rank].control;

	return control ? &control->waiters : &c->control->waiters;
}

/* ---- agree.c: all ranks decide together --------------------------------------------------------- */

enum ori_call {
	ORI_CALL_COMM_CREATE = 1,
	ORI_CALL_COMM_SPLIT,
	ORI_CALL_COMM_DESTROY,
	ORI_CALL_ALLGATHER,
	ORI_CALL_BARRIER,
	ORI_CALL_BUFFER_EXCHANGE,
	ORI_CALL_WINDOW_CREATE,
	ORI_CALL_WINDOW_DESTROY,
	ORI_CALL_GATHER_INIT,
	ORI_CALL_COMM_CONNECT,
	ORI_CALL_TUNE_AGREE,
	ORI_CALL_ALLTOALLV_CREATE,
};

#define ORI_RECORD_BYTES 768

/*
 * One round among the ranks of `boot`.  Every rank tells which call it is in, its status so far (with
 * the text of its last error) and up to ORI_RECORD_BYTES of its own; `all` gets nranks * bytes.
 * Returns 0 if all are in the same call with status 0.  Else the same status on all ranks, and a line
 * that names the first rank that failed and why, or who is in another call.
 */
int ori_agree(struct oriel_boot *boot, uint64_t timeout_ns, enum ori_call call, int status,
	      const void *mine, void *all, size_t bytes);

/* The same for a call of call_bytes bytes in all: ORIEL_EMISMATCH if ranks differ in that. */
int ori_agree_bytes(struct oriel_boot *boot, uint64_t timeout_ns, enum ori_call call, int status,
		    const void *mine, void *all, size_t bytes, uint64_t call_bytes);

/*
 * Calls of several rounds have one deadline.  begin sets it.  After the first round all ranks hold
 * the same one, counted from the rank that came first: a rank that came later gives up no later
 * than the others do, and so is not taken for the one that is late.
 */
void ori_comm_call_begin(struct oriel_comm *, enum ori_call);
/* What is left of it for a wait between two rounds. */
uint64_t ori_comm_call_left_ns(const struct oriel_comm *);
/*
 * What a round may take: a second more, for ranks that gave up between two rounds have a cause to
 * tell.
 */
uint64_t ori_comm_round_ns(const struct oriel_comm *);
/* One round of the call: ori_agree among all ranks of the comm. */
int ori_comm_agree(struct oriel_comm *, int status, const void *mine, void *all, size_t bytes);
/* "oriel_window_create" */
const char *ori_call_name(int call);

/* ---- failure.c ------------------------------------------------------------------------------------ */

/* Keeps the first failure, ends this rank's waits.  From any thread. */
void ori_comm_fail(struct oriel_comm *, int status, int rank, const char *why);
/*
 * As ori_comm_fail_all, for what is likely to be the other end's doing: that end is given some time
 * to say why, and this is told and logged only if it does not.  Waits of this rank have been ended
 * before.
 */
void ori_comm_fail_later(struct oriel_comm *, int status, const char *why);
int ori_failure_open(struct oriel_comm *);
/* What waits for its cause is told no more.  After the engine has ended. */
void ori_failure_stop(struct oriel_comm *);
void ori_failure_close(struct oriel_comm *);
/* Kernels of a separate device learn of a failure that the host's word holds. */
void ori_comm_tell_device(struct oriel_comm *);
/* Tells all other ranks too.  Not logged here. */
void ori_comm_fail_all(struct oriel_comm *, int status, const char *why);
/*
 * Has it failed?  For those that end things: the cause of a call that fails stays the last error.
 */
int ori_comm_has_failed(const struct oriel_comm *);
/* 0, or the first failure with its text as this thread's last error (not logged again). */
int ori_comm_failed(struct oriel_comm *);
/*
 * Failures of the boot before the comm's watcher is set; the boot's callback, and the same as
 * above.
 */
void ori_comm_boot_failed(void *comm, int status, int rank, const char *why);
int ori_comm_lost(struct oriel_comm *);
/* The same after a look at queues whose NIC does not tell of failures itself. */
int ori_comm_ask(struct oriel_comm *);

/*
 * What a device's call returned, as the user should hear it.  Under MPS a process that dies takes
 * the contexts of the others on its GPU along: ORIEL_EDEVICE then waits, for seconds at most, for
 * word of a dead peer and becomes the comm's failure, which names it.  Otherwise it is this rank's
 * own and fails the comm for all.
 */
int ori_comm_device_status(struct oriel_comm *, int err);

/* A failure word in words: "rank 1 gave up waiting for rank 0". */
void ori_failure_text(uint64_t failure, char *out, size_t bytes);

/* ---- returned.c: what this rank's kernels returned ------------------------------------------- */

void ori_returned_close(struct oriel_comm *);
/* Before a launch: where that kernel's threads leave what they return. */
void ori_returned_prepare(struct oriel_comm *, const struct oriel_kernel *, struct ori_launch *);
/* After a launch that is over on return: what it returned, with its text as the last error. */
int ori_returned_note(struct oriel_comm *, const struct oriel_kernel *, const struct ori_launch *);
/* The first failure since the last take, and its text; after that it is forgotten. */
int ori_returned_take(struct oriel_comm *);

/* ---- control.c: the two halves of control memory ----------------------------------------------------- */

/*
 * Words that devices write lie in the device's memory, words that engines and the host write in host memory
 * that the device can reach, at the same offset.  On the CPU the two are one and all of this is free.
 */
int ori_control_open(struct oriel_comm *);
void *ori_control_host(struct oriel_comm *, uint64_t offset);
void *ori_control_near(struct oriel_comm *, uint64_t offset);
/* The device's half becomes what the host's half is. */
int ori_control_mirror(struct oriel_comm *, uint64_t offset, uint64_t bytes);
/* A table of this rank's, for kernels to read; *near is `table` itself where memory is one. */
int ori_control_publish(struct oriel_comm *, const void *table, uint64_t bytes, const void **near);
void ori_control_unpublish(struct oriel_comm *, const void *near, uint64_t bytes);
/* A word of the device's half, by the host. */
uint64_t ori_control_load(struct oriel_comm *, const uint64_t *near);
void ori_control_store(struct oriel_comm *, uint64_t *near, uint64_t value);

/* reports.c: what late waits of this rank may ask, and what it answers to those of others. */
int ori_reports_open(struct oriel_comm *);
void ori_reports_close(struct oriel_comm *);

/* speaker.c: names who is late for kernels of a separate device, and tells them of failures. */
int ori_speaker_start(struct oriel_comm *);
void ori_speaker_stop(struct oriel_comm *);

/* ---- memory.c, imports.c, passing.c ------------------------------------------------------------------ */

int ori_memory_alloc(struct oriel_comm *, size_t bytes, struct ori_memory **);
/* The host's, where kernels of a separate device reach it. */
int ori_memory_alloc_host(struct oriel_comm *, size_t bytes, struct ori_memory **);
void ori_memory_free(struct oriel_comm *, struct ori_memory *);
/* Gives the pages back but, if ranks of this process may still store there, not the addresses. */
void ori_memory_abandon(struct oriel_comm *, struct ori_memory *);
/* The one or the other, by whether the comm has failed. */
void ori_memory_end(struct oriel_comm *, struct ori_memory *);
/* The allocation that holds [ptr, ptr + bytes), counted as used; NULL if it is not one of ours. */
struct ori_memory *ori_memory_use(struct oriel_comm *, const void *ptr, size_t bytes);
/*
 * The same; device memory of the user's own is described first, so that peers can map it.  *out is NULL for
 * memory that stays in this process.  ORIEL_EEXPORT with the reason.
 */
int ori_memory_adopt(struct oriel_comm *, const void *ptr, size_t bytes, struct ori_memory **out);
void ori_memory_unuse(struct oriel_comm *, struct ori_memory *);
/* The user has freed it, or it goes: peers map it no longer.  With the lock. */
void ori_memory_tell_gone(struct oriel_comm *, struct ori_memory *);
/*
 * Is all of the range memory, and of one allocation where that is this comm's?  ORIEL_EINVAL or
 * ORIEL_ERANGE with a line that begins with the call.
 */
int ori_memory_check(struct oriel_comm *, const char *call, const void *ptr, size_t bytes);
/* What ranks of other hosts need to map the allocation. */
void ori_memory_export_far(const struct ori_allocation *, struct ori_export *);
/*
 * Describes the range for peers.  ORIEL_EEXPORT, with a line naming oriel_alloc, when a mapped peer
 * lives in another process, or on another host, and cannot map the memory.
 */
int ori_memory_export(struct oriel_comm *, const void *ptr, size_t bytes, const struct ori_memory *,
		      struct ori_export *);

/* A mapped peer's range in this address space; counted, dropped with ori_import_drop. */
int ori_import_range(struct oriel_comm *, int peer, const struct ori_export *, void **ptr,
		     struct ori_import **import);
void ori_import_drop(struct oriel_comm *, struct ori_import *);

/*
 * The whole of a peer's allocation, for engines that carry payload by name; good until the engine
 * is left.  Kept until the peer tells that it is gone, the window over it goes, or the comm ends.
 */
const void *ori_import_resolve(struct oriel_comm *, int peer, uint64_t id, uint64_t offset,
			       uint64_t bytes, int *device);
void ori_imports_drop_all(struct oriel_comm *);
/*
 * The engine's share in that memory, or in all of that rank's; what nobody else uses joins
 * *dropped.
 */
void ori_imports_take(struct oriel_comm *, int peer, uint64_t id, struct ori_import **dropped);
void ori_imports_take_all(struct oriel_comm *, int peer, struct ori_import **dropped);
void ori_imports_unmap(struct ori_import *dropped);

/* gone.c: the name of memory that goes, to ranks that may map it; with the lock. */
void ori_gone_tell(struct oriel_comm *, uint64_t id);
/* What that rank has told since the last look is mapped no more; within the engine. */
void ori_gone_check(struct oriel_comm *, int rank);
/* The same for all ranks, and for one memory; from outside, without the lock. */
void ori_gone_check_all(struct oriel_comm *);
void ori_gone_forget(struct oriel_comm *, int rank, uint64_t id);

/* ---- buffers.c, for layers above ---------------------------------------------------------------------- */

/* While it is held it stays exchanged as it is, and stays when its user has released it. */
void ori_buffer_hold(struct oriel_buffer *);
void ori_buffer_unhold(struct oriel_buffer *);
int ori_buffer_is_exchanged(struct oriel_buffer *);
size_t ori_buffer_range(struct oriel_buffer *, void **ptr);
struct oriel_comm *ori_buffer_comm(struct oriel_buffer *);
/* An exchanged one that has [ptr, ptr + bytes), or NULL; the one registered last. */
struct oriel_buffer *ori_buffer_covering(struct oriel_comm *, const void *ptr, size_t bytes);

/* ---- links.c, connect.c, registrations.c: queued peers ------------------------------------------------------------ */

/* Engine and results of a comm with more than one node, and the queues it starts with. [C] */
int ori_links_build(struct oriel_comm *);
/* Stops the engine and frees what is not in the slab. */
void ori_links_free(struct oriel_comm *);
/* All that this rank has posted is complete. */
int ori_links_flush(struct oriel_comm *);
/* As kernels see it; NULL without queues to that rank: mapped, or not connected. */
const struct oriel_link *ori_link_to(struct oriel_comm *, int rank);

/*
 * Local memory as source of puts and target of gets.  `owner` is the head of the list it joins;
 * `lasting`: memory that cannot go before its owner.  The same range of the same memory again
 * counts a reference; where it cannot be told whether it is the same it is registered anew.
 */
struct ori_registration;
int ori_source_take(struct oriel_comm *, struct ori_registration **owner, void *ptr, size_t bytes,
		    int lasting, struct oriel_source *);
/* One reference less; the last one waits until this rank's operations are complete. */
int ori_source_give(struct oriel_comm *, struct ori_registration **owner,
		    const struct oriel_source *);
/* All of the owner's; what names them is complete. */
void ori_sources_end(struct oriel_comm *, struct ori_registration **owner);
/*
 * What of a first byte's address is its address under a remote key, zero-based but for these bits:
 * aligned words keep aligned addresses, and a kernel registers memory under another address only if
 * both agree within a page.
 */
#define ORI_IOVA_MASK 4095u
/* Memory that peers write to. */
int ori_register_remote(struct oriel_comm *, void *ptr, size_t bytes, const struct ori_export *,
			uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell);
/* A queued peer's memory, before queues name it; a key of 0 is of memory that is not there. */
int ori_peer_memory(struct oriel_comm *, int rank, const uint32_t key[ORIEL_NICS_MAX],
		    const struct ori_engine_blob *told);
void ori_peer_memory_forget(struct oriel_comm *, int rank, const uint32_t key[ORIEL_NICS_MAX]);
void ori_unregister(struct oriel_comm *, const uint32_t key[ORIEL_NICS_MAX]);
/* Sources that touch the range, which goes. */
void ori_sources_drop(struct oriel_comm *, const void *ptr, size_t bytes);
/* All that are left, before the engine goes. */
void ori_sources_drop_all(struct oriel_comm *);

/* One service a process, shared by its comms. */
struct ori_passing;
int ori_passing_open(struct ori_passing **);
void ori_passing_close(struct ori_passing *);
const char *ori_passing_socket(const struct ori_passing *);
const uint8_t *ori_passing_token(const struct ori_passing *);
int ori_passing_offer(struct ori_passing *, const struct ori_allocation *, uint64_t *id);
/* For ranks of this process: the allocation itself; 0 or ORIEL_EINVAL, silent. */
int ori_passing_find(struct ori_passing *, uint64_t id, struct ori_allocation *);
/* The same by address: the offer of oriel_alloc's memory that holds [ptr, ptr + bytes). */
int ori_passing_find_range(struct ori_passing *, const void *ptr, size_t bytes, uint64_t *id,
			   struct ori_allocation *);
/* Is there memory of any comm of this process that has part of [ptr, ptr + bytes), but not all? */
int ori_passing_find_left(struct ori_passing *, const void *ptr, size_t bytes,
			  struct ori_allocation *);
void ori_passing_withdraw(struct ori_passing *, uint64_t id);
/*
 * Asks another process; theirs->fd, if not -1, is the caller's to close.  `look` (may be NULL) is
 * called many times a second meanwhile; a status that it returns ends the wait.
 */
int ori_passing_fetch(const char *socket, const uint8_t token[16], uint64_t id, uint64_t timeout_ns,
		      int (*look)(void *ctx), void *ctx, struct ori_allocation *theirs);

/* ---- comm.c ------------------------------------------------------------------------------------------- */

/*
 * The body of create and split.  `boot` is the comm's own and is dropped on failure.  status: what went
 * wrong on this rank before; the others learn it here.  parent: NULL, or whose GPU it takes (a CPU
 * device it makes itself); forced_nodes: NULL, or the node of each rank inherited from there.
 */
int ori_comm_build(struct oriel_boot *boot, const struct ori_config *, int status,
		   const struct oriel_comm *parent, const int *forced_nodes, struct oriel_comm **);
/*
 * Before memory goes: kernels on the comm's own stream have ended, and what was posted is complete, for a NIC
 * may send it again and must find its key.  On a failed comm nothing is waited for.
 */
int ori_comm_settle(struct oriel_comm *);
void ori_child_add(struct oriel_comm *, struct ori_child *);
void ori_child_remove(struct oriel_comm *, struct ori_child *);
void ori_child_unlink(struct oriel_comm *, struct ori_child *); /* lock held */
void ori_attachment_add(struct oriel_comm *, struct ori_attachment *);
/* The one with that destroy function, or NULL. */
struct ori_attachment *ori_attachment_find(struct oriel_comm *,
					   void (*destroy)(struct ori_attachment *));
/* Before it is asked who uses a window or buffer. */
void ori_attachments_reap(struct oriel_comm *);
/* Before the window or buffer `owner` goes. */
void ori_attachments_forget(struct oriel_comm *, const void *owner);
/* A public entry's first lines: is the handle alive? */
int ori_comm_check(struct oriel_comm *, const char *call);
int ori_comm_check_rank(struct oriel_comm *, int rank, const char *call);

#endif
