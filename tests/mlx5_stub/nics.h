/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mlx5_stub/nics.h - the software NICs of a process, and the thread that is their hardware.
 *
 * Two libraries are made with them: the stub of libibverbs and libmlx5 in this folder, and the
 * emulated kernel interface of ../uverbs.  The NICs execute posted WQEs on their own thread: no
 * caller drives them, errors are reported only by CQE and event, and they wake no thread.
 *
 * A process has one NIC per device, shared by its ranks.  NICs of several processes meet in the
 * file that MLX5_STUB_WIRE names (wires.c).  Without that file a process is alone, which is enough
 * for ranks that are threads.
 *
 * One lock, stub.lock, guards everything except the creation and destruction of NICs (nic.c).
 * stub_lock() takes it ahead of the NICs' thread.
 */
#ifndef ORI_TEST_MLX5_NICS_H
#define ORI_TEST_MLX5_NICS_H

#include <pthread.h>
#include <stdint.h>

#include "engine/soft/state.h"

#define STUB_DEVICES 2
#define STUB_PLACES 16 /* processes that may meet */
#define STUB_PAGE 4096u

/* Marks the functions that the shared library exports. */
#define STUB_EXPORT __attribute__((visibility("default")))

struct stub_device {
	struct soft_nic *nic; /* NULL: down */
	uint8_t *turns;       /* by slot of the NIC's table: how often its number was given */
	uint32_t turns_room;
	uint64_t met[STUB_PLACES]; /* start of the process that a wire leads to; 0: none */
};

struct stub {
	pthread_mutex_t lock;
	int wanted; /* threads that want the lock; the NICs' thread gives way */
	struct stub_device devices[STUB_DEVICES];
	uint32_t users;
	pthread_t thread;
	int stop;
};

extern struct stub stub;

void stub_lock(void);
void stub_unlock(void);

/* nic.c: up with the first user of the process, down with the last.  0 or an errno. */
int stub_up(void);
void stub_down(void);
/* Creates a queue pair with a number that no other process has.  Needs the lock, as all below. */
int stub_number_take(struct stub_device *, const struct soft_qp_attr *, uint32_t *qpn,
		     uint32_t *cqn);
/* To ready: queue pair `qpn` speaks to `dest`, of whichever process.  0 or an errno. */
int stub_connect(struct stub_device *, uint32_t qpn, uint32_t dest);

/*
 * Each library has its own; the NICs' thread calls them with the lock.  `look`: before each step.
 * `failed`: a queue pair is in error.  Its error CQEs come later.  `refused`: the reason is that it
 * refused a request of its peer.
 */
struct stub_hooks {
	void (*look)(void);
	void (*failed)(struct stub_device *, uint32_t qpn);
	void (*refused)(struct stub_device *, uint32_t qpn);
};

/*
 * Completion events of a CQ that was armed for errors.  The event is due when the CQ has more CQEs
 * than at the moment of the failure, because the next one is an error.
 */
struct stub_notice {
	int armed, failed;
	uint64_t cqes; /* at the failure */
};

/* Notes the failure of a queue pair. */
void stub_notice_fail(struct stub_notice *, struct stub_device *, uint32_t qpn);
/* Returns 1 once: now the event is due. */
int stub_notice_take(struct stub_notice *, struct stub_device *, uint32_t qpn);

extern const struct stub_hooks stub_hooks;

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
