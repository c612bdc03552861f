/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.h - the table of an engine.  An engine executes the work queues of queued peers.
 *
 * comm/ uses this header alone.  soft/, mlx5/ and proxied/ implement it.  An engine gets addresses
 * of queues, memory and wires, and does not know comms.  Calls into the comm go through struct
 * ori_engine_world.
 */
#ifndef ORI_ENGINE_H
#define ORI_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

#include "../util/config.h"

/* Calls from an engine into its comm.  They run on any thread that drives the engine. */
struct ori_engine_world {
	void *ctx;
	int rank, nranks;
	struct oriel_waiters *waiters; /* to be woken when words of this rank may have changed */
	struct oriel_waiters *kicks;   /* tells peers that this rank's engine sleeps */
	/*
	 * Finds `bytes` at `offset` of allocation `id` of a rank in this address space.  Returns
	 * NULL if they are not reachable.  Sets *device if they are device memory, which only
	 * `copy` may touch.
	 */
	const void *(*resolve)(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes,
			       int *device);
	/*
	 * Copies between two places, of which at least one is device memory.  The copy is complete
	 * on return.  Returns 0 or a status.  NULL: there is no device memory.
	 */
	int (*copy)(void *ctx, void *to, const void *from, uint64_t bytes);
	/*
	 * Can the engine of `rank` resolve exported device memory of this rank?  If not, the
	 * payload crosses in small pieces.  NULL: every rank can.
	 */
	int (*reaches)(void *ctx, int rank);
	/*
	 * Exports device memory as a dma-buf, for NICs that access it directly.  Returns a
	 * descriptor that the caller closes, or a negative value if this is not possible.  *offset
	 * is the place of `base` in the dma-buf.  NULL: there is no device memory.
	 */
	int (*dmabuf)(void *ctx, const void *base, uint64_t bytes, uint64_t *offset);
	/*
	 * Lets the device store to pages of the engine or registers of its NIC, at the host's
	 * address.  The device posts there.  Returns 0, or a status and in `why` what is missing.
	 * NULL: the device reaches all memory.
	 */
	int (*reach)(void *ctx, void *base, uint64_t bytes, int registers, char *why,
		     size_t why_bytes);
	void (*unreach)(void *ctx, void *base);
	/*
	 * A NIC writes payload into device memory, then a word into host memory.  Is the payload
	 * visible to a device that has seen the word?  Returns 0, or a status and the reason.
	 * NULL: there is only one memory.
	 */
	int (*ordered)(void *ctx, char *why, size_t why_bytes);
	/*
	 * Kernels on a device post to the queues and do not drive the engine.  The engine must poll
	 * the doorbells itself.
	 */
	int device_posts;
	/* Something is on the wire to `rank`: its engine should look. */
	void (*kick)(void *ctx, int rank);
	/* A queue has failed.  Called before anything is written that could look like a success. */
	void (*doomed)(void *ctx, uint32_t nic, uint32_t qpn);
	/* The same with the cause.  Called once per queue, without the engine's lock. */
	void (*failed)(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome);
	/*
	 * A WQE is complete: its CQE is about to be written.  For traces.  NULL: nobody asks.  An
	 * engine whose NIC writes the CQEs does not call it.
	 */
	void (*completed)(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe);
};

struct ori_engine_memory {
	void *base;
	uint64_t iova; /* the address of `base` in WQEs */
	uint64_t bytes;
	int remote;                        /* peers may read, write and add to it */
	int device;                        /* only ori_engine_world.copy may touch it */
	uint64_t export_id, export_offset; /* 0: not exported */
};

/*
 * What peers must know about a region before their queues may use its key.  All zeros if there is
 * nothing to know.
 */
struct ori_engine_blob {
	uint8_t bytes[64];
};

/* How peers reach this rank's NICs.  All zeros if the comm's own wires are used. */
struct ori_engine_address {
	uint8_t bytes[256];
};

struct ori_engine_ops {
	const char *name;
	/* Executes pending work, unless another thread is driving.  Never blocks. */
	void (*drive)(struct ori_engine *);
	/*
	 * The thread that drove goes to sleep, so the engine's own thread must take over.  NULL: it
	 * always does the work.
	 */
	void (*rest)(struct ori_engine *);
	/* Registers memory: one key per NIC.  *tell (may be NULL) is sent to the peers. */
	int (*memory_add)(struct ori_engine *, const struct ori_engine_memory *,
			  uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell);
	void (*memory_remove)(struct ori_engine *, const uint32_t key[ORIEL_NICS_MAX]);
	/*
	 * A queued peer's region, with the blob that the peer sent.  NULL blob: the region is gone;
	 * this never fails.
	 */
	int (*memory_told)(struct ori_engine *, int rank, const uint32_t key[ORIEL_NICS_MAX],
			   const struct ori_engine_blob *);
	/*
	 * This rank's address, and the address of a queued peer.  Needed before its queues are
	 * connected.
	 */
	int (*address)(struct ori_engine *, struct ori_engine_address *);
	int (*peer)(struct ori_engine *, int rank, const struct ori_engine_address *);
	/*
	 * Makes a queue pair over the queue's memory.  Sets its qpn, its cqn and its CQ.  A NIC
	 * with its own queue memory replaces sq, cq, record, doorbell and depth.
	 */
	int (*queue_add)(struct ori_engine *, uint32_t nic, struct oriel_queue *, int core_direct);
	/* The number of this queue that the other end passes to connect(). */
	uint32_t (*queue_number)(struct ori_engine *, uint32_t nic, uint32_t qpn);
	/* Makes a queue pair that only answers: the far end of a loopback. */
	int (*responder_add)(struct ori_engine *, uint32_t nic, uint32_t *qpn);
	int (*connect)(struct ori_engine *, uint32_t nic, uint32_t qpn, int rank,
		       uint32_t remote_number);
	/*
	 * `in` is in this rank's memory, `out` in that of `rank`.  Both were zero when they were
	 * made.  NULL if wire_bytes is 0.
	 */
	void (*wire_set)(struct ori_engine *, uint32_t nic, int rank, void *in, void *out);
	/* Starts the engine.  Queues and wires may be added before and after this. */
	int (*start)(struct ori_engine *);
	/*
	 * Are all WQEs that were rung complete?  For hosts that cannot read a device's queues.
	 * Failures among them have been reported on return.
	 */
	int (*idle)(struct ori_engine *);
	/*
	 * Stops all answers to peers and all traffic of this rank.  Called after a failure, before
	 * memory is freed that peers may still write to.  Requests of peers then run into their
	 * retries, and meanwhile the peers learn of the failure.  An answer such as "no such key"
	 * would look like a failure of its own.  Nothing starts after this call.  It may be
	 * repeated.
	 */
	void (*silence)(struct ori_engine *);
	/*
	 * Calls what(arg) while no thread is inside resolve() or uses its result.  NULL: the engine
	 * never resolves.
	 */
	void (*apart)(struct ori_engine *, void (*what)(void *), void *arg);
	/* Writes one line of counts, or "" if nothing is known. */
	void (*statistics)(struct ori_engine *, char *out, size_t bytes);
	void (*close)(struct ori_engine *);
};

/* First member of every implementation's struct. */
struct ori_engine {
	const struct ori_engine_ops *ops;
	uint32_t nics;
	uint32_t link_flags;    /* ORIEL_LINK_* */
	uint64_t message_bytes; /* longest message of one WQE */
	size_t wire_bytes;      /* per direction, pair of ranks and NIC; 0: has its own wire */
	int own_rings;          /* queue_add() replaces the rings of queues: none need be given */
	uint64_t work;          /* changed by any driver that finds work */
	/*
	 * Longest sleep of a wait on the CPU.  0: no limit, because writers wake the sleeper.  A
	 * NIC does not wake anybody.
	 */
	uint64_t sleep_ns;
};

#define ORI_ENGINE_REASON 288 /* bytes of a probe's line: what is missing, how to fix it */

/* For listings: n counts from 0.  Returns 0 past the end. */
struct ori_engine_row {
	const char *name;
	char text[ORI_ENGINE_REASON + 16];
};
int ori_engine_row(int n, struct ori_engine_row *);

/* Engines; each value is a bit of a mask.  Their preference is in engine.c. */
enum ori_engine_bit {
	ORI_ENGINE_VERBS = 1,
	ORI_ENGINE_OFI = 2,
	ORI_ENGINE_SOFT = 4,
	ORI_ENGINE_MLX5 = 8,
};

/*
 * Finds the engines that this rank could use for its queued peers.
 *
 * If ORIEL_ENGINE names one, that is the answer, or ORIEL_ECONFIG or ORIEL_EUNSUPPORTED with the
 * reason.  Otherwise the answer is soft if all ranks share a machine, else every engine whose probe
 * succeeds here.  *mask 0 means none; `why` then says what is missing.  If an mlx5 NIC cannot be
 * used directly and verbs takes its place, a log line says why.  The world knows what the rank's
 * device can reach; NULL means everything.
 */
int ori_engine_offer(const struct ori_config *, const struct ori_engine_world *, int one_machine,
		     uint32_t *mask, char *why, size_t bytes);
/* The name of the best engine that all ranks offered, or NULL if there is none. */
const char *ori_engine_best(uint32_t mask);
/*
 * May a NIC write directly into the device's memory?  Returns 0, or a status and in `why` what is
 * missing and which variable to set.  The world may be NULL: no device is known yet.
 */
int ori_engine_ordered(const struct ori_config *, const struct ori_engine_world *, char *why,
		       size_t bytes);
/* Opens the engine of that name. */
int ori_engine_open(const char *name, const struct ori_config *, const struct ori_engine_world *,
		    struct ori_engine **);

int ori_soft_engine_open(const struct ori_config *, const struct ori_engine_world *,
			 struct ori_engine **);
/* Checks that the texts of ORIEL_SOFT_* can be parsed, before any rank relies on them. */
int ori_soft_engine_check(const struct ori_config *);

/* The text of a CQE's syndrome, such as "remote access error". */
const char *ori_syndrome_text(uint32_t syndrome);

#endif
