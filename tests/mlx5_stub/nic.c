/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mlx5_stub/nic.c - the software NICs of a process, and the thread that plays their hardware.
 *
 * Owns `stub`.  The NICs are created with the first user and destroyed with the last.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "nics.h"
#include "util/util.h"

#define STEP_BUDGET 64
#define HOT_NS 300000ull /* after work, how long it is looked for without a pause */
#define NAP_FIRST_NS 10000ull
#define NAP_NS 200000ull
#define PLACE_SHIFT 19 /* a number: place, turn (5 bits), slot (14 bits) */
#define TURNS 32u
#define SLOT_BITS 14

static pthread_mutex_t power =
	PTHREAD_MUTEX_INITIALIZER; /* guards users, thread and stop; before stub.lock */

struct stub stub = { .lock = PTHREAD_MUTEX_INITIALIZER };

void stub_lock(void)
{
	__atomic_fetch_add(&stub.wanted, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&stub.lock);
	__atomic_fetch_sub(&stub.wanted, 1, __ATOMIC_RELAXED);
}

void stub_unlock(void)
{
	pthread_mutex_unlock(&stub.lock);
}

/* ---- the world of a NIC ---------------------------------------------------------------------- */

static uint64_t world_clock(void *ctx)
{
	(void)ctx;
	return ori_now_ns();
}

/* Nothing is exported: payload crosses inside packets. */
static const void *world_resolve(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes,
				 int *device)
{
	(void)ctx;
	(void)rank;
	(void)id;
	(void)offset;
	(void)bytes;
	(void)device;
	return NULL;
}

/* The other NIC looks by itself. */
static void world_kick(void *ctx, int rank)
{
	(void)ctx;
	(void)rank;
}

/*
 * The rank that posted finds only a CQE.  The rank that refused a peer's request has no CQE, and
 * gets an event.
 */
static void world_error(void *ctx, uint32_t qpn, uint64_t index, uint32_t syndrome)
{
	(void)index;
	stub_hooks.failed(ctx, qpn);
	if (syndrome == ORI_SYNDROME_LOCAL_ACCESS)
		stub_hooks.refused(ctx, qpn);
}

void stub_notice_fail(struct stub_notice *notice, struct stub_device *d, uint32_t qpn)
{
	const struct soft_qp *qp = soft_qp_find(d->nic, qpn);

	notice->failed = 1;
	notice->cqes = qp ? qp->cq_count : 0;
}

int stub_notice_take(struct stub_notice *notice, struct stub_device *d, uint32_t qpn)
{
	const struct soft_qp *qp = notice->armed && notice->failed ? soft_qp_find(d->nic, qpn) :
								     NULL;

	if (!qp || qp->cq_count <= notice->cqes)
		return 0;
	notice->armed = 0;
	return 1;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int step(void)
{
	int done = 0;

	while (__atomic_load_n(&stub.wanted, __ATOMIC_RELAXED))
		sched_yield();
	pthread_mutex_lock(&stub.lock);
	stub_hooks.look();
	for (int i = 0; i < STUB_DEVICES; i++)
		done += soft_nic_step(stub.devices[i].nic, STEP_BUDGET);
	pthread_mutex_unlock(&stub.lock);
	return done;
}

static void *nics_main(void *arg)
{
	uint64_t busy_ns = ori_now_ns(), nap_ns = 0;

	(void)arg;
	(void)prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
	while (!__atomic_load_n(&stub.stop, __ATOMIC_ACQUIRE)) {
		if (step()) {
			busy_ns = ori_now_ns();
			nap_ns = 0;
		} else if (!nap_ns && ori_now_ns() - busy_ns < HOT_NS) {
			sched_yield();
		} else {
			nap_ns = nap_ns ? nap_ns * 2 : NAP_FIRST_NS;
			if (nap_ns > NAP_NS)
				nap_ns = NAP_NS;
			ori_sleep_ns(nap_ns);
		}
	}
	return NULL;
}

/* ---- up and down ----------------------------------------------------------------------------- */

static void nics_destroy(void)
{
	for (int i = 0; i < STUB_DEVICES; i++) {
		struct stub_device *d = &stub.devices[i];

		if (d->nic)
			soft_nic_destroy(d->nic);
		free(d->turns);
		d->nic = NULL;
		d->turns = NULL;
		d->turns_room = 0;
		memset(d->met, 0, sizeof(d->met));
	}
	stub_place_give();
}

static int nics_create(void)
{
	const char *name = getenv("ORIEL_SOFT_NIC"), *faults = getenv("ORIEL_SOFT_FAULTS");
	struct soft_config config;
	int err;

	if (soft_config_personality(&config, name ? name : "cx7") ||
	    soft_config_faults(&config, faults))
		return EINVAL;
	err = stub_place_take();
	for (int i = 0; i < STUB_DEVICES && !err; i++) {
		struct stub_device *d = &stub.devices[i];
		struct soft_world world = { .ctx = d,
					    .clock = world_clock,
					    .resolve = world_resolve,
					    .kick = world_kick,
					    .error = world_error };

		if (soft_nic_create(&config, &world, stub_place(), STUB_PLACES, &d->nic))
			err = ENOMEM;
	}
	if (err)
		nics_destroy();
	return err;
}

int stub_up(void)
{
	int err = 0;

	pthread_mutex_lock(&power);
	if (!stub.users) {
		stub_lock();
		err = nics_create();
		stub_unlock();
		stub.stop = 0;
		if (!err && pthread_create(&stub.thread, NULL, nics_main, NULL)) {
			nics_destroy();
			err = ENOMEM;
		}
	}
	stub.users += !err;
	pthread_mutex_unlock(&power);
	return err;
}

void stub_down(void)
{
	pthread_mutex_lock(&power);
	if (!--stub.users) {
		__atomic_store_n(&stub.stop, 1, __ATOMIC_RELEASE);
		pthread_join(stub.thread, NULL);
		stub_lock();
		nics_destroy();
		stub_unlock();
	}
	pthread_mutex_unlock(&power);
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static int turns_grow(struct stub_device *d, uint32_t slot)
{
	uint32_t room = d->turns_room;
	uint8_t *grown;

	if (slot < room)
		return 0;
	room = slot * 2 + 64;
	grown = realloc(d->turns, room);
	if (!grown)
		return ENOMEM;
	memset(grown + d->turns_room, 0, room - d->turns_room);
	d->turns = grown;
	d->turns_room = room;
	return 0;
}

/*
 * Numbers of one NIC are enough for packets, but processes must not give the same: which is at the
 * other end is seen by the number alone, as on one NIC that all of them share.  The first try finds
 * out which slot is next.
 */
int stub_number_take(struct stub_device *d, const struct soft_qp_attr *attr, uint32_t *qpn,
		     uint32_t *cqn)
{
	uint32_t slot, turn;

	if (soft_qp_create(d->nic, attr, qpn, cqn))
		return ENOMEM;
	slot = *qpn & ((1u << SLOT_BITS) - 1);
	soft_qp_destroy(d->nic, *qpn);
	if (turns_grow(d, slot))
		return ENOMEM;
	turn = d->turns[slot]++ % TURNS;
	d->nic->generations[slot] = (uint16_t)((uint32_t)stub_place() * TURNS + turn);
	return soft_qp_create(d->nic, attr, qpn, cqn) ? ENOMEM : 0;
}

int stub_connect(struct stub_device *d, uint32_t qpn, uint32_t dest)
{
	int place = (int)(dest >> PLACE_SHIFT), err;
	struct soft_ring *in, *out;
	uint64_t start;

	if (place >= STUB_PLACES)
		return EINVAL;
	err = stub_wire((int)(d - stub.devices), place, &in, &out, &start);
	if (err)
		return err;
	if (d->met[place] != start)
		soft_nic_wire(d->nic, place, in, out);
	d->met[place] = start;
	return soft_qp_connect(d->nic, qpn, place, dest) ? EINVAL : 0;
}
