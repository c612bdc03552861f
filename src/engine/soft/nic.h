/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/nic.h - the software NIC: executes mlx5 work queues over plain memory.
 *
 * One NIC per rank (or several, to show several).  It takes doorbells, fetches and validates WQEs,
 * sends packets to other NICs through rings in memory, places what arrives, answers, and writes
 * CQEs: an RC requester and responder with PSN, MTU, ACK/NAK and retry.  The core is
 * soft_nic_step(): no threads, no locks, no clock of its own, so that the engine, a deterministic
 * scheduler and a fuzzer drive the same code.  The caller serialises: one step at a time per NIC.
 *
 * What a peer sends, what a WQE says and what lies in a ring is untrusted: checked before use, and
 * a bad one gets the syndrome of docs/protocols/soft-nic.md and touches nothing outside a
 * registration.
 */
#ifndef ORI_SOFT_NIC_H
#define ORI_SOFT_NIC_H

#include <stdint.h>

#include <oriel/device/wqe.h>

struct soft_nic;
struct soft_ring; /* wire.h: one direction between two NICs, in memory both map */

/* ---- configuration: from ORIEL_SOFT_FAULTS and ORIEL_SOFT_NIC (personality) ------------------ */

/*
 * How the NIC learns the producer index (reference: doorbell value, record, or either by chance).
 */
enum soft_dbr_mode { SOFT_DBR_DOORBELL, SOFT_DBR_RECORD, SOFT_DBR_RANDOM };

struct soft_config {
	uint64_t seed;
	double drop, dup, reorder, delay; /* per packet, 0..1 */
	double dbr_late; /* the doorbell is seen before the record: read the record late */
	double torn_cqe; /* body and last 4 bytes of a CQE in separate steps */
	int ooo;         /* messages of one QP may be placed in any order */
	/*
	 * The fabric routes each packet by itself: plain writes of one QP are placed in any order.
	 * A READ or atomic leaves only when all writes before it are acknowledged, as a ConnectX
	 * does it.
	 */
	int overtake;
	int no_atomics; /* atomics are refused with REMOTE_INVALID; devices must not post them */
	/* an atomic reads its word and stores it some steps later: atomic within this NIC alone */
	int hca_atomics;
	uint32_t mtu; /* bytes of payload in a packet, 64 .. 1 MiB */
	/*
	 * The same for device memory by reference, 64 .. 1 GiB: a copy costs much and a byte
	 * little, so a message is one packet unless asked otherwise.  Reading `mtu` from a text
	 * sets both.
	 */
	uint32_t device_mtu;
	uint64_t rate; /* bytes a second this NIC sends; 0: no limit */
	/* 1-based count of WQEs this rank's NIC takes; 0: never */
	uint64_t revoke_at, qp_error_at, stall_at, kill_at;
	int strict; /* what no correct device does is logged too, not only answered */
	enum soft_dbr_mode dbr_mode;
	uint32_t retry_count; /* timeouts before RETRY_EXCEEDED */
	uint64_t retry_timeout_ns;
	uint32_t max_reads; /* outstanding reads and atomics per QP */
	uint32_t first_psn; /* tests start near the 24-bit edge */
	uint32_t qps;       /* queue pairs that this NIC has; 0: as many as are asked for */
	int late_device;    /* what is written into device memory is seen late: late.c */
};

/*
 * Defaults of a personality: "soft" (default, also NULL and ""), "cx7", "efa", "thor2".
 * ORIEL_ECONFIG with a line.
 */
int soft_config_personality(struct soft_config *, const char *name);
/* "seed=42,drop=0.01,..." on top.  ORIEL_ECONFIG with a line that names key and value. */
int soft_config_faults(struct soft_config *, const char *text);
/* The string that replays this configuration. */
void soft_config_text(const struct soft_config *, char *out, size_t bytes);

/* ---- the world around a NIC ------------------------------------------------------------------ */

/*
 * Finds bytes of another rank's registered memory in this process, so that payload can cross by
 * reference: base of allocation `id` of `rank`, at least offset + bytes long.  NULL: not reachable
 * now; the packet is then treated as lost.  May be slow the first time for an id.
 * *device, 0 before: it is device memory, only soft_copy_fn may touch it.
 */
typedef const void *soft_resolve_fn(void *ctx, int rank, uint64_t id, uint64_t offset,
				    uint64_t bytes, int *device);
/*
 * Copies between memories of which one at least is device memory; done on return.  0 or a status.
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
 * First error of a QP: told once per QP, from within step, before the CQE is visible.  A QP that
 * refused a peer's request goes to ERR too and is told with LOCAL_ACCESS.  May call soft_qp_fail.
 */
typedef void soft_error_fn(void *ctx, uint32_t qpn, uint64_t wqe_index, uint32_t syndrome);

struct soft_world {
	void *ctx;
	soft_clock_fn *clock;
	soft_resolve_fn *resolve;
	soft_kick_fn *kick;
	soft_error_fn *error;
	soft_copy_fn *copy;       /* NULL: there is no device memory */
	soft_reaches_fn *reaches; /* NULL: every rank can */
};

int soft_nic_create(const struct soft_config *, const struct soft_world *, int rank, int nranks,
		    struct soft_nic **);
void soft_nic_destroy(struct soft_nic *);
/* Rings to and from another NIC (or this one: loopback), both initialised by soft_ring_init. */
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
	uint64_t export_id; /* 0: other processes cannot reach it; payload then crosses inline */
	uint64_t export_offset; /* of `base` in the exported allocation */
	int device;             /* only soft_copy_fn may touch it */
};

int soft_mr_create(struct soft_nic *, const struct soft_mr_attr *, uint32_t *key);
/* Later packets and WQEs that name the key fail; safe while traffic is under way. */
void soft_mr_destroy(struct soft_nic *, uint32_t key);

/* ---- queue pairs: one send queue and its CQ, memory given by the caller ---------------------- */

struct soft_qp_attr {
	struct ori_wqe *sq;       /* depth blocks; NULL for a pure responder */
	struct ori_cqe *cq;       /* depth entries, initialised by soft_qp_create */
	const uint32_t *record;   /* doorbell record, two be32 words */
	const uint64_t *doorbell; /* 8 bytes that the device rings; 0 until the first time */
	uint32_t depth;           /* power of two, 1 .. 32768 */
	uint64_t first_index;     /* index of the first WQE, and number of the first CQE */
	uint32_t pd;
	int core_direct; /* may post WAIT */
};

int soft_qp_create(struct soft_nic *, const struct soft_qp_attr *, uint32_t *qpn, uint32_t *cqn);
/* To RTS.  Both ends are connected with each other's numbers; a loopback pair has rank == own. */
int soft_qp_connect(struct soft_nic *, uint32_t qpn, int rank, uint32_t remote_qpn);
/* To ERR: outstanding and later WQEs are flushed. */
void soft_qp_fail(struct soft_nic *, uint32_t qpn, uint32_t syndrome);
void soft_qp_destroy(struct soft_nic *, uint32_t qpn);

/* ---- driving --------------------------------------------------------------------------------- */

/*
 * Does up to `budget` units of work (a packet taken or sent, a WQE started, a CQE written); returns
 * how many.
 */
int soft_nic_step(struct soft_nic *, int budget);
/*
 * Is anything outstanding (rung WQEs not completed, packets held back)?  If not the driver may
 * sleep.
 */
int soft_nic_busy(const struct soft_nic *);
/*
 * Has every WQE rung by now its CQE, and is no packet held back?  Looks at the doorbells, so that
 * what a device rang before this call counts.  What peers want of this NIC does not.
 */
int soft_nic_idle(const struct soft_nic *);

struct soft_stats {
	uint64_t wqes, cqes, packets_sent, packets_received, bytes_sent, retransmits, naks, replays,
		stalls, dropped, duplicated, reordered, delayed, refused, copies;
};
void soft_nic_stats(const struct soft_nic *, struct soft_stats *);

#endif
