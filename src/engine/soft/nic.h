/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/nic.h - the software NIC: executes mlx5 work queues over plain memory.
 *
 * There is one NIC per rank, or several to imitate several.  It takes doorbells, fetches and
 * validates WQEs, and sends packets to other NICs through rings in memory.  It places incoming
 * data, answers, and writes CQEs.  It is an RC requester and responder with PSN, MTU, ACK/NAK and
 * retry.  The core is soft_nic_step(), without threads, locks or a clock of its own.  So the
 * engine, a deterministic scheduler and a fuzzer drive the same code.  The caller serialises: one
 * step at a time per NIC.
 *
 * Packets of peers, WQEs and the content of rings are untrusted and checked before use.  A bad one
 * gets the syndrome of docs/protocols/soft-nic.md and touches nothing outside a registration.
 */
#ifndef ORI_SOFT_NIC_H
#define ORI_SOFT_NIC_H

#include <stdint.h>

#include <oriel/device/wqe.h>

struct soft_nic;
struct soft_ring; /* wire.h: one direction between two NICs, in memory that both map */

/* ---- configuration: from ORIEL_SOFT_FAULTS and ORIEL_SOFT_NIC (personality) ------------------ */

/*
 * How the NIC learns the producer index (reference: doorbell value, record, or either by chance).
 */
enum soft_dbr_mode { SOFT_DBR_DOORBELL, SOFT_DBR_RECORD, SOFT_DBR_RANDOM };

struct soft_config {
	uint64_t seed;
	double drop, dup, reorder, delay; /* per packet, 0..1 */
	double dbr_late; /* the doorbell is seen before the record, so the record is read late */
	double torn_cqe; /* body and last 4 bytes of a CQE are written in separate steps */
	int ooo;         /* messages of one QP may be placed in any order */
	/*
	 * The fabric routes each packet separately, so plain writes of one QP are placed in any
	 * order.  A READ or atomic leaves only when all writes before it are acknowledged, as on a
	 * ConnectX.
	 */
	int overtake;
	int no_atomics; /* atomics are refused with REMOTE_INVALID; devices must not post them */
	/*
	 * An atomic reads its word and stores it some steps later: it is atomic within this NIC
	 * alone.
	 */
	int hca_atomics;
	uint32_t mtu; /* bytes of payload in a packet, 64 .. 1 MiB */
	/*
	 * The same for device memory by reference, 64 .. 1 GiB.  A copy costs much and a byte
	 * little, so a message is one packet by default.  Parsing `mtu` from a text sets both.
	 */
	uint32_t device_mtu;
	uint64_t rate; /* bytes per second that this NIC sends; 0: no limit */
	/* Number of a WQE that this rank's NIC takes, from 1; 0: never. */
	uint64_t revoke_at, qp_error_at, stall_at, kill_at;
	int strict; /* what no correct device does is logged, not only refused */
	enum soft_dbr_mode dbr_mode;
	uint32_t retry_count; /* timeouts before RETRY_EXCEEDED */
	uint64_t retry_timeout_ns;
	uint32_t max_reads; /* outstanding reads and atomics per QP */
	uint32_t first_psn; /* tests start near the 24-bit edge */
	uint32_t qps;       /* largest number of queue pairs of this NIC; 0: no limit */
	int late_device;    /* writes into device memory are seen late: late.c */
};

/*
 * Sets the defaults of a personality: "soft" (default, also NULL and ""), "cx7", "efa", "thor2".
 * ORIEL_ECONFIG with a log line.
 */
int soft_config_personality(struct soft_config *, const char *name);
/* Applies "seed=42,drop=0.01,...".  ORIEL_ECONFIG with a log line that names key and value. */
int soft_config_faults(struct soft_config *, const char *text);
/* The text that repeats this configuration. */
void soft_config_text(const struct soft_config *, char *out, size_t bytes);

/* ---- the world around a NIC ------------------------------------------------------------------ */

/*
 * Finds bytes of another rank's registered memory in this process, so that payload can cross by
 * reference.  They are in allocation `id` of `rank`, which has at least offset + bytes bytes.
 * NULL: not reachable now; the packet is then treated as lost.  May be slow the first time for an
 * id.  The caller sets *device to 0.  It becomes 1 for device memory, which only soft_copy_fn may
 * touch.
 */
typedef const void *soft_resolve_fn(void *ctx, int rank, uint64_t id, uint64_t offset,
				    uint64_t bytes, int *device);
/*
 * Copies between two places, of which at least one is device memory.  The copy is complete on
 * return.  Returns 0 or a status.
 */
typedef int soft_copy_fn(void *ctx, void *to, const void *from, uint64_t bytes);
/*
 * Can the NIC of `rank` resolve exported device memory of this rank?  Asked when a QP is connected.
 */
typedef int soft_reaches_fn(void *ctx, int rank);
typedef uint64_t soft_clock_fn(void *ctx); /* ns, never goes back */
/* A packet was put into the ring towards `rank`: wake its NIC if it sleeps. */
typedef void soft_kick_fn(void *ctx, int rank);
/*
 * The first error of a QP.  Called once per QP, from within step, before the CQE is visible.  A QP
 * that refused a peer's request goes to ERR too and is reported with LOCAL_ACCESS.  May call
 * soft_qp_fail.
 */
typedef void soft_error_fn(void *ctx, uint32_t qpn, uint64_t wqe_index, uint32_t syndrome);

/* A CQE is about to be written; from within step. */
typedef void soft_completed_fn(void *ctx, uint32_t qpn, uint64_t wqe_index);

struct soft_world {
	void *ctx;
	soft_clock_fn *clock;
	soft_resolve_fn *resolve;
	soft_kick_fn *kick;
	soft_error_fn *error;
	soft_copy_fn *copy;           /* NULL: there is no device memory */
	soft_reaches_fn *reaches;     /* NULL: every rank can */
	soft_completed_fn *completed; /* NULL: nobody asks */
};

int soft_nic_create(const struct soft_config *, const struct soft_world *, int rank, int nranks,
		    struct soft_nic **);
void soft_nic_destroy(struct soft_nic *);
/*
 * Sets the rings to and from another NIC (or this one: loopback).  soft_ring_init has initialised
 * both.
 */
void soft_nic_wire(struct soft_nic *, int rank, struct soft_ring *in, struct soft_ring *out);

/* ---- memory regions -------------------------------------------------------------------------- */

#define SOFT_LOCAL_WRITE 1u
#define SOFT_REMOTE_WRITE 2u
#define SOFT_REMOTE_READ 4u
#define SOFT_REMOTE_ATOMIC 8u

struct soft_mr_attr {
	void *base;
	/* address of `base` in WQEs: 0 for zero-based, (uintptr_t)base for local use */
	uint64_t iova;
	uint64_t bytes;
	uint32_t access;
	uint32_t pd;
	uint64_t export_id;     /* 0: other processes cannot map it, so payload crosses inline */
	uint64_t export_offset; /* of `base` in the exported allocation */
	int device;             /* only soft_copy_fn may touch it */
};

int soft_mr_create(struct soft_nic *, const struct soft_mr_attr *, uint32_t *key);
/* Later packets and WQEs with this key fail.  Safe while packets are on the way. */
void soft_mr_destroy(struct soft_nic *, uint32_t key);

/* ---- queue pairs: one send queue and its CQ, memory given by the caller ---------------------- */

struct soft_qp_attr {
	struct ori_wqe *sq;       /* depth blocks; NULL for a pure responder */
	struct ori_cqe *cq;       /* depth entries, initialised by soft_qp_create */
	const uint32_t *record;   /* doorbell record, two be32 words */
	const uint64_t *doorbell; /* 8 bytes that the device rings; 0 until the first ring */
	uint32_t depth;           /* power of two, 1 .. 32768 */
	uint64_t first_index;     /* index of the first WQE, and number of the first CQE */
	uint32_t pd;
	int core_direct; /* may post WAIT */
};

int soft_qp_create(struct soft_nic *, const struct soft_qp_attr *, uint32_t *qpn, uint32_t *cqn);
/*
 * Sets the QP to RTS.  Each end is connected with the other's number.  A loopback pair has rank ==
 * own rank.
 */
int soft_qp_connect(struct soft_nic *, uint32_t qpn, int rank, uint32_t remote_qpn);
/* Sets the QP to ERR: outstanding and later WQEs are flushed. */
void soft_qp_fail(struct soft_nic *, uint32_t qpn, uint32_t syndrome);
void soft_qp_destroy(struct soft_nic *, uint32_t qpn);

/* ---- driving --------------------------------------------------------------------------------- */

/*
 * Does up to `budget` units of work (a packet taken or sent, a WQE started, a CQE written).
 * Returns how many.
 */
int soft_nic_step(struct soft_nic *, int budget);
/*
 * Is anything outstanding (rung WQEs that are not complete, packets held back)?  If not, the driver
 * may sleep.
 */
int soft_nic_busy(const struct soft_nic *);
/*
 * Do all WQEs rung by now have their CQE, and is no packet held back?  Looks at the doorbells, so
 * that a doorbell rung before this call counts.  Requests of peers do not count.
 */
int soft_nic_idle(const struct soft_nic *);

struct soft_stats {
	uint64_t wqes, cqes, packets_sent, packets_received, bytes_sent, retransmits, naks, replays,
		stalls, dropped, duplicated, reordered, delayed, refused, copies;
};
void soft_nic_stats(const struct soft_nic *, struct soft_stats *);

#endif
