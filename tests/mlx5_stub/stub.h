/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mlx5_stub/stub.h - a library in place of libibverbs and libmlx5, with software NICs.
 *
 * The mlx5 engine loads it if ORIEL_IB_LIBRARY and ORIEL_MLX5_LIBRARY name it.  The engine gets or
 * registers queue memory, records and doorbells; the stub passes them to the NICs of nics.h.
 */
#ifndef ORI_TEST_MLX5_STUB_LIBRARY_H
#define ORI_TEST_MLX5_STUB_LIBRARY_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "nics.h"

#define STUB_EVENTS 64

struct stub_context {
	struct ibv_context context; /* first */
	struct ibv_async_event events[STUB_EVENTS];
	int nevents;
	struct mlx5dv_ctx_allocators from; /* of queue memory; zeros: malloc */
};

struct stub_pd {
	struct ibv_pd pd; /* first */
	uint32_t number;
};

struct stub_mr {
	struct ibv_mr mr; /* first */
	struct stub_device *device;
};

/* A CQ, the software NIC's queue pair behind it, and whichever queue pair uses it. */
struct stub_queue {
	struct ibv_cq_ex cq; /* first */
	struct ibv_qp qp;
	struct stub_device *device;
	struct stub_context *context;
	uint32_t qpn, cqn, depth, blocks, dest;
	int state; /* enum ibv_qp_state */
	uint8_t *sq, *ring;
	uint32_t record[2];
	uint64_t *doorbell; /* a page of its own, as contexts have */
	struct stub_notice notice;
	int event; /* on its channel, not yet read */
	struct stub_queue *next;
};

/* All queues of the process; needs the lock. */
extern struct stub_queue *stub_queues;

/* verbs.c */
struct stub_device *stub_device_of(struct ibv_context *);

/* channel.c */
int stub_arm(struct ibv_cq *, int solicited);
/* verbs.c: sends an asynchronous event. */
void stub_refused(struct stub_device *, uint32_t qpn);
/* direct.c: does MLX5_STUB_LACKS name it? */
int stub_lacks(const char *what);

#endif
