/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.h - the table of an engine: what executes the work queues of queued peers.
 *
 * comm/ uses nothing but this header; soft/ implements it.  An engine knows queues, memory and
 * wires by the addresses it is given, and nothing of comms: what it needs of one is in struct
 * ori_engine_world.
 */
#ifndef ORI_ENGINE_H
#define ORI_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

#include "../util/config.h"

/* What an engine may ask of the comm it serves; called from whichever thread drives it. */
struct ori_engine_world {
	void *ctx;
	int rank, nranks;
	struct oriel_waiters *waiters; /* woken when words of this rank may have changed */
	struct oriel_waiters *kicks;   /* where peers find this rank's engine asleep */
	/*
	 * `bytes` at `offset` of allocation `id` of a rank, in this address space; NULL: not
	 * reachable.  *device: it is device memory, only `copy` may touch it.
	 */
	const void *(*resolve)(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes,
			       int *device);
	/*
	 * Copies where one side at least is device memory; done on return.  NULL: there is none.  0
	 * or a status.
	 */
	int (*copy)(void *ctx, void *to, const void *from, uint64_t bytes);
	/*
	 * Can that rank's engine resolve exported device memory of this rank?  If not it crosses in
	 * small pieces.  NULL: every rank can.
	 */
	int (*reaches)(void *ctx, int rank);
	/*
	 * Device memory as a dma-buf, for NICs that reach it by themselves: a descriptor, the
	 * caller's to close, and where in it `base` lies; negative: not possible.  NULL: there is
	 * none.
	 */
	int (*dmabuf)(void *ctx, const void *base, uint64_t bytes, uint64_t *offset);
	/*
	 * Pages of the engine's, or registers of its NIC, that the device posts to: in its reach,
	 * at the address they have here.  0, or a status and what is missing.  NULL: all memory is.
	 */
	int (*reach)(void *ctx, void *base, uint64_t bytes, int registers, char *why,
		     size_t why_bytes);
	void (*unreach)(void *ctx, void *base);
	/*
	 * Does the device that sees a word which a NIC wrote into the host's memory see what it
	 * wrote into the device's before? 0, or a status and why not.  NULL: there is one memory.
	 */
	int (*ordered)(void *ctx, char *why, size_t why_bytes);
	/*
	 * Queues are posted by a device that drives nothing: the engine must look at doorbells
	 * itself.
	 */
	int device_posts;
	/* something lies on the wire towards `rank`: its engine should look */
	void (*kick)(void *ctx, int rank);
	/*
	 * a queue has failed: told before anything is written that could be taken for its success
	 */
	void (*doomed)(void *ctx, uint32_t nic, uint32_t qpn);
	/* the same with its cause; told once a queue, outside of the engine's lock */
	void (*failed)(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome);
};

struct ori_engine_memory {
	void *base;
	uint64_t iova; /* what WQEs call `base` */
	uint64_t bytes;
	int remote;                        /* peers may read, write and add to it */
	int device;                        /* only ori_engine_world.copy may touch it */
	uint64_t export_id, export_offset; /* 0: not exported */
};

/*
 * What peers must know of a region before their queues may name its key; zeros where that is
 * nothing.
 */
struct ori_engine_blob {
	uint8_t bytes[64];
};

/* How peers reach this rank's NICs; zeros where the comm's own wires do. */
struct ori_engine_address {
	uint8_t bytes[256];
};

struct ori_engine_ops {
	const char *name;
	/* Executes what there is to execute, if nobody else is at it.  Never blocks. */
	void (*drive)(struct ori_engine *);
	/* Who drove goes to sleep: the engine must look after itself.  NULL: it always does. */
	void (*rest)(struct ori_engine *);
	/* One key a NIC; *tell (may be NULL) is for the peers. */
	int (*memory_add)(struct ori_engine *, const struct ori_engine_memory *,
			  uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell);
	void (*memory_remove)(struct ori_engine *, const uint32_t key[ORIEL_NICS_MAX]);
	/* A queued peer's region and what it told of it; NULL: it is gone (never fails). */
	int (*memory_told)(struct ori_engine *, int rank, const uint32_t key[ORIEL_NICS_MAX],
			   const struct ori_engine_blob *);
	/* Own address, and that of a queued peer: before the queues to it are connected. */
	int (*address)(struct ori_engine *, struct ori_engine_address *);
	int (*peer)(struct ori_engine *, int rank, const struct ori_engine_address *);
	/*
	 * Makes a queue pair over the queue's memory; sets its qpn and cqn, and its CQ.  A NIC that
	 * has memory of its own for queues puts that in place of sq, cq, record, doorbell and
	 * depth.
	 */
	int (*queue_add)(struct ori_engine *, uint32_t nic, struct oriel_queue *, int core_direct);
	/* What the other end's connect() is given for this queue. */
	uint32_t (*queue_number)(struct ori_engine *, uint32_t nic, uint32_t qpn);
	/* A queue pair that only answers: the far end of a loopback. */
	int (*responder_add)(struct ori_engine *, uint32_t nic, uint32_t *qpn);
	int (*connect)(struct ori_engine *, uint32_t nic, uint32_t qpn, int rank,
		       uint32_t remote_number);
	/* `in` is in this rank's memory, `out` in that rank's; both were zeros when made. */
	void (*wire_set)(struct ori_engine *, uint32_t nic, int rank, void *in, void *out);
	/* May begin to work.  Queues and wires are added before and after this, while it works. */
	int (*start)(struct ori_engine *);
	/*
	 * Is everything that was rung complete?  For hosts that cannot look at a device's queues.
	 * What failed among it has been told on return.
	 */
	int (*idle)(struct ori_engine *);
	/*
	 * Peers get no answer any more, and nothing of this rank's goes out; after a failure,
	 * before memory goes that peers may still write to.  What they sent then waits for its
	 * retries and meanwhile they hear of the failure; an answer ("no such key") would look like
	 * one of its own.  Nothing is begun after it; may be called again.
	 */
	void (*silence)(struct ori_engine *);
	/*
	 * Calls back while nobody is within resolve() or uses what that gave.  NULL: it never
	 * resolves.
	 */
	void (*apart)(struct ori_engine *, void (*what)(void *), void *arg);
	/* One line of counts, "" if nothing is known. */
	void (*statistics)(struct ori_engine *, char *out, size_t bytes);
	void (*close)(struct ori_engine *);
};

/* First member of every implementation's struct. */
struct ori_engine {
	const struct ori_engine_ops *ops;
	uint32_t nics;
	uint32_t link_flags;    /* ORIEL_LINK_* */
	uint64_t message_bytes; /* longest message of one WQE */
	size_t wire_bytes; /* between two ranks and one NIC, one direction; 0: has its own wire */
	int own_rings;     /* queue_add() puts rings of its own into queues: none need be given */
	uint64_t work;     /* moved by whoever drives and finds something to do */
	/* Longest sleep of a wait on the CPU; 0: any, for writers wake it.  A NIC wakes nobody. */
	uint64_t sleep_ns;
};

#define ORI_ENGINE_REASON 288 /* bytes of a probe's line: what is missing, and what helps */

/* For listings: n counts from 0; 0 past the end. */
struct ori_engine_row {
	const char *name;
	char text[ORI_ENGINE_REASON + 16];
};
int ori_engine_row(int n, struct ori_engine_row *);

/* Engines, best first; the value is a bit of a mask. */
enum ori_engine_bit {
	ORI_ENGINE_VERBS = 1,
	ORI_ENGINE_OFI = 2,
	ORI_ENGINE_SOFT = 4,
	ORI_ENGINE_MLX5 = 8,
};

/*
 * Which engines this rank could use for its queued peers: the one ORIEL_ENGINE names (ORIEL_ECONFIG
 * or ORIEL_EUNSUPPORTED with the reason if it cannot be), else by itself: soft where all ranks
 * share a machine, what answers a probe of this machine where they do not.  0 in *mask: none, and
 * `why` says what is missing.  Where there is an mlx5 NIC that cannot be used as one, and verbs
 * takes its place, a line says why.  The world is asked what the rank's device reaches; NULL:
 * everything.
 */
int ori_engine_offer(const struct ori_config *, const struct ori_engine_world *, int one_machine,
		     uint32_t *mask, char *why, size_t bytes);
/* The best of the engines that all ranks offered, and its name; NULL if there is none. */
const char *ori_engine_best(uint32_t mask);
/*
 * For engines whose NIC writes into the device's memory itself: may it?  0, or a status and in
 * `why` what is missing and what to set.  The world may be NULL: no device is known yet.
 */
int ori_engine_ordered(const struct ori_config *, const struct ori_engine_world *, char *why,
		       size_t bytes);
/* Opens the engine of that name. */
int ori_engine_open(const char *name, const struct ori_config *, const struct ori_engine_world *,
		    struct ori_engine **);

int ori_soft_engine_open(const struct ori_config *, const struct ori_engine_world *,
			 struct ori_engine **);
/* The texts of ORIEL_SOFT_* parse?  Before any rank builds on them. */
int ori_soft_engine_check(const struct ori_config *);

/* "remote access error", for a CQE's syndrome. */
const char *ori_syndrome_text(uint32_t syndrome);

#endif
