/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxied/proxied.h - what the files of the proxied engine share.
 *
 * engine.c has the table and the queues, memory.c has the keys and what peers learn about them.
 * drive.c decides who steps the proxies and when the thread sleeps, times.c measures.
 */
#ifndef ORI_PROXIED_H
#define ORI_PROXIED_H

#include "../drive.h"
#include "fabric.h"

#define PROXIED_ERRORS_KEPT 16
#define PROXIED_SLOW_NS 4096 /* from doorbell to post: counted as slow */

struct proxied_queue {
	uint32_t qpn;
	uint32_t number; /* passed to the peer's connect() */
	void *link;      /* NULL: a companion, which the proxy executes */
};

/* One NIC: a fabric, and the proxy that posts to it.  All under the engine's lock. */
struct proxied_nic {
	struct proxied_engine *engine;
	uint32_t number;
	struct ori_fabric *fabric;
	struct ori_proxy *proxy;
	struct proxied_queue *queues;
	uint32_t nqueues, queue_room;
	struct ori_fabric_region *regions; /* by key >> 8 */
	uint32_t region_room;
};

struct proxied_error {
	uint32_t nic, qpn, syndrome;
	uint64_t wqe;
};

/* From doorbell to post. */
struct proxied_times {
	uint64_t count, sum_ns;
	uint64_t slow; /* posts that took PROXIED_SLOW_NS or more */
};

struct proxied_engine {
	struct ori_engine base;
	struct ori_engine_ops table; /* a copy with the name of the fabric's kind */
	struct ori_engine_world world;
	struct proxied_nic nic[ORIEL_NICS_MAX];
	int passive;     /* peers' operations need steps of this rank */
	uint32_t lock;   /* by drivers: the holder steps the proxies */
	uint32_t missed; /* by drivers that found it locked: step once more */
	struct ori_drive drive;
	int wake_fd; /* eventfd: ends the thread's sleep */
	/* under `lock` */
	int silent; /* the proxies are no longer stepped */
	struct proxied_error errors[PROXIED_ERRORS_KEPT];
	int nerrors;
	uint64_t began_ns; /* earliest time at which this step's doorbells were rung; 0: recorded */
	uint64_t look_ns;  /* when the last step began */
	uint64_t stir_ns;  /* when the last check for incoming data was made */
	uint64_t woken_ns; /* when sleepers were last woken on suspicion */
	uint64_t steps;
	struct proxied_times times;
};

/* ---- memory.c -------------------------------------------------------------------------------- */

int ori_proxied_memory_add(struct ori_engine *, const struct ori_engine_memory *,
			   uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell);
void ori_proxied_memory_remove(struct ori_engine *, const uint32_t key[ORIEL_NICS_MAX]);
int ori_proxied_memory_told(struct ori_engine *, int rank, const uint32_t key[ORIEL_NICS_MAX],
			    const struct ori_engine_blob *);
int ori_proxied_address(struct ori_engine *, struct ori_engine_address *);
int ori_proxied_peer(struct ori_engine *, int rank, const struct ori_engine_address *);

/* ---- times.c --------------------------------------------------------------------------------- */

/* The fabric's posts with a time measurement.  Their ctx is the struct proxied_nic. */
struct ori_proxy_backend ori_proxied_backend(const struct ori_fabric *);

/* ---- drive.c --------------------------------------------------------------------------------- */

void ori_proxied_drive(struct ori_engine *);
void ori_proxied_rest(struct ori_engine *);
int ori_proxied_idle(struct ori_engine *);
/* Waits for the running step.  No thread steps the proxies until unlock. */
void ori_proxied_lock(struct proxied_engine *);
void ori_proxied_unlock(struct proxied_engine *);
int ori_proxied_thread_start(struct proxied_engine *);
void ori_proxied_thread_stop(struct proxied_engine *);
void ori_proxied_silence(struct ori_engine *);

#endif
