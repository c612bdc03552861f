/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mlx5_stub/stub.h - a library in place of libibverbs and libmlx5, with software NICs.
 *
 * The mlx5 engine loads it if ORIEL_IB_LIBRARY and ORIEL_MLX5_LIBRARY name it.  The engine gets or
 * registers queue memory, records and doorbells; the stub passes them to engine/soft.  That
 * executes the posted WQEs on its own thread, as hardware does: no caller drives it, errors are
 * reported only by CQE and event, and it wakes no thread.
 *
 * A process has one NIC per device, shared by its ranks.  NICs of several processes meet in the
 * file that MLX5_STUB_WIRE names (wires.c).  Without that file a process is alone, which is enough
 * for ranks that are threads.
 *
 * One lock, stub.lock, guards everything except the creation and destruction of NICs (nic.c).
 * stub_lock() takes it ahead of the NICs' thread.
 */
#ifndef ORI_TEST_MLX5_STUB_LIBRARY_H
#define ORI_TEST_MLX5_STUB_LIBRARY_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>

#include "engine/soft/state.h"

#define STUB_DEVICES 2
#define STUB_PLACES 16 /* processes that may meet */
#define STUB_EVENTS 64
#define STUB_PAGE 4096u

/* Marks the functions that the shared library exports. */
#define STUB_EXPORT __attribute__((visibility("default")))

struct stub_device {
	struct ibv_device device; /* first */
	struct soft_nic *nic;     /* NULL: down */
	uint8_t *turns;           /* by slot of the NIC's table: how often its number was given */
	uint32_t turns_room;
	uint64_t met[STUB_PLACES]; /* start of the process that a wire leads to; 0: none */
};

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
	struct stub_queue *next;
};

struct stub {
	pthread_mutex_t lock;
	int wanted; /* threads that want the lock; the NICs' thread gives way */
	struct stub_device devices[STUB_DEVICES];
	struct stub_queue *queues;
	uint32_t pds, last_pd;
	pthread_t thread;
	int stop;
};

extern struct stub stub;

void stub_lock(void);
void stub_unlock(void);

/* nic.c: up with the first protection domain of the process, down with its last.  0 or an errno. */
int stub_up(void);
void stub_down(void);
/* Creates a queue pair with a number that no other process has.  Needs the lock, as all below. */
int stub_number_take(struct stub_device *, const struct soft_qp_attr *, uint32_t *qpn,
		     uint32_t *cqn);
/* To ready: speaks to queue pair `dest`, of whichever process.  0 or an errno. */
int stub_connect(struct stub_queue *);

/*
 * wires.c: this process's place among those that meet; where it is taken and given back.  0 or an
 * errno.
 */
int stub_place_take(void);
void stub_place_give(void);
int stub_place(void);
/*
 * The rings between this process and the one at `place`, and when that one joined.  Both find the
 * rings empty.
 */
int stub_wire(int device, int place, struct soft_ring **in, struct soft_ring **out,
	      uint64_t *start);

#endif
