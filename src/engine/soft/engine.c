/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/engine.c - the software NIC as an engine: its lock, its thread, and who drives it.
 *
 * Whoever posts or waits drives (try-lock, so nobody waits for a driver).  The thread backs them up: it
 * works when a packet arrives while the rank computes, and when nobody else has driven for a moment; with
 * nothing outstanding it sleeps until a peer's kick or its timer.
 *
 * Owns: the NICs, the lock, the thread.  The memory of queues and wires is the comm's.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../device/cpu/cpu.h"
#include "../../util/util.h"
#include "../engine.h"
#include "nic.h"
#include "wire.h"

#define STEP_BUDGET 64
#define PROTECTION_DOMAIN 1u
#define WATCH_NS 200000ull  /* a look at what the callers do */
#define BUSY_NS 50000ull    /* longest sleep while answers are awaited: timers run on */
#define IDLE_NS 10000000ull /* longest sleep: the cost of a missed kick */
#define ERRORS_KEPT 16

struct queue_error {
	uint32_t nic, qpn, syndrome;
	uint64_t wqe;
};

struct soft_engine {
	struct ori_engine base;
	struct ori_engine_world world;
	struct soft_config config;
	struct soft_nic *nic[ORIEL_NICS_MAX];
	struct nic_context {
		struct soft_engine *engine;
		uint32_t number;
	} context[ORIEL_NICS_MAX];
	uint32_t lock;     /* by drivers: who has it steps the NICs */
	uint64_t drives;   /* by callers: how often one has driven */
	uint32_t watching; /* by the thread: it sleeps because callers drive */
	uint32_t rests;    /* futex word: moved by a caller that stops driving while it does */
	uint32_t stop;
	int started;
	pthread_t thread;
	struct oriel_waiters *kicks; /* where peers find this rank's thread asleep */
	/* under `lock` */
	struct queue_error errors[ERRORS_KEPT];
	int nerrors;
};

/* ---- the world of a NIC -------------------------------------------------------------------------------- */

static uint64_t world_clock(void *ctx)
{
	(void)ctx;
	return ori_now_ns();
}

static const void *world_resolve(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes)
{
	struct nic_context *n = ctx;
	const struct ori_engine_world *w = &n->engine->world;

	return w->resolve(w->ctx, rank, id, offset, bytes);
}

static void world_kick(void *ctx, int rank)
{
	struct nic_context *n = ctx;

	if (rank != n->engine->world.rank)
		n->engine->world.kick(n->engine->world.ctx, rank);
}

static void world_error(void *ctx, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct nic_context *n = ctx;
	struct soft_engine *e = n->engine;

	e->world.doomed(e->world.ctx, n->number, qpn);
	if (e->nerrors < ERRORS_KEPT) {
		struct queue_error error = { n->number, qpn, syndrome, wqe };

		e->errors[e->nerrors++] = error;
	}
}

/* ---- driving --------------------------------------------------------------------------------------------- */

static void tell_errors(struct soft_engine *e, const struct queue_error *errors, int n)
{
	for (int i = 0; i < n; i++)
		e->world.failed(e->world.ctx, errors[i].nic, errors[i].qpn, errors[i].wqe,
				errors[i].syndrome);
}

/* How much was done; -1 if somebody else is at it.  *busy: more is to come. */
static int step_all(struct soft_engine *e, int *busy)
{
	struct queue_error errors[ERRORS_KEPT];
	int done = 0, nerrors;

	/* [N1] acquire; partner [N2]: the NICs' state passes from driver to driver. */
	if (__atomic_load_n(&e->lock, __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&e->lock, 1, __ATOMIC_ACQUIRE))
		return -1;
	*busy = 0;
	for (uint32_t n = 0; n < e->base.nics; n++) {
		done += soft_nic_step(e->nic[n], STEP_BUDGET);
		*busy |= soft_nic_busy(e->nic[n]);
	}
	nerrors = e->nerrors;
	e->nerrors = 0;
	memcpy(errors, e->errors, sizeof(errors[0]) * (size_t)nerrors);
	/* [N2] release; partner [N1]. */
	__atomic_store_n(&e->lock, 0, __ATOMIC_RELEASE);
	if (done) {
		/* relaxed: a hint for waits that wonder whether to sleep */
		__atomic_fetch_add(&e->base.work, 1, __ATOMIC_RELAXED);
		ori_wake(e->world.waiters);
	}
	tell_errors(e, errors, nerrors);
	return done;
}

static void soft_drive(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	int busy;

	if (step_all(e, &busy) >= 0)
		__atomic_fetch_add(&e->drives, 1, __ATOMIC_RELAXED);
}

/* A missed one costs WATCH_NS, so no fence. */
static void soft_rest(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	if (!__atomic_load_n(&e->watching, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&e->rests, 1, __ATOMIC_RELEASE);
	ori_futex_wake_all(&e->rests);
}

/* While callers drive, the thread only looks in now and then; *seen: how often they had. */
static void watch(struct soft_engine *e, uint64_t *seen)
{
	uint32_t rests = __atomic_load_n(&e->rests, __ATOMIC_ACQUIRE);

	__atomic_store_n(&e->watching, 1, __ATOMIC_RELAXED);
	ori_futex_wait(&e->rests, rests, WATCH_NS);
	__atomic_store_n(&e->watching, 0, __ATOMIC_RELAXED);
	/* One has gone to sleep: perhaps the last.  Others that still drive will be seen. */
	if (__atomic_load_n(&e->rests, __ATOMIC_ACQUIRE) != rests)
		*seen = __atomic_load_n(&e->drives, __ATOMIC_RELAXED);
}

/* Sleeps until a kick, at most `ns`; looks once more after having announced itself. */
static void sleep_until_kick(struct soft_engine *e, uint64_t ns)
{
	uint32_t epoch;
	int busy = 0;

	__atomic_fetch_add(&e->kicks->sleepers, 1, __ATOMIC_SEQ_CST);
	epoch = __atomic_load_n(&e->kicks->epoch, __ATOMIC_ACQUIRE);
	if (step_all(e, &busy) <= 0 && !__atomic_load_n(&e->stop, __ATOMIC_ACQUIRE))
		ori_futex_wait(&e->kicks->epoch, epoch, busy && ns > BUSY_NS ? BUSY_NS : ns);
	__atomic_fetch_sub(&e->kicks->sleepers, 1, __ATOMIC_SEQ_CST);
}

static void *engine_main(void *arg)
{
	struct soft_engine *e = arg;
	uint64_t seen = 0;

	while (!__atomic_load_n(&e->stop, __ATOMIC_ACQUIRE)) {
		uint64_t drives = __atomic_load_n(&e->drives, __ATOMIC_RELAXED);
		int busy = 0, done;

		if (drives != seen) {
			seen = drives;
			watch(e, &seen);
			continue;
		}
		done = step_all(e, &busy);
		if (done <= 0)
			sleep_until_kick(e, done < 0 ? BUSY_NS : IDLE_NS);
	}
	return NULL;
}

/* ---- the table --------------------------------------------------------------------------------------------- */

static void lock_engine(struct soft_engine *e)
{
	uint32_t never = 0;

	/* Bounded by the longest step. */
	while (__atomic_exchange_n(&e->lock, 1, __ATOMIC_ACQUIRE))
		ori_futex_wait(&never, 0, 20000);
}

static void unlock_engine(struct soft_engine *e)
{
	__atomic_store_n(&e->lock, 0, __ATOMIC_RELEASE);
}

static int soft_memory_add(struct ori_engine *engine, const struct ori_engine_memory *m,
			   uint32_t key[ORIEL_NICS_MAX])
{
	struct soft_engine *e = (struct soft_engine *)engine;
	struct soft_mr_attr attr = { .base = m->base,
				     .iova = m->iova,
				     .bytes = m->bytes,
				     .access = SOFT_LOCAL_WRITE,
				     .pd = PROTECTION_DOMAIN,
				     .export_id = m->export_id,
				     .export_offset = m->export_offset };
	int err = 0;

	if (m->remote)
		attr.access |= SOFT_REMOTE_WRITE | SOFT_REMOTE_READ | SOFT_REMOTE_ATOMIC;
	memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	lock_engine(e);
	for (uint32_t n = 0; n < engine->nics && !err; n++)
		err = soft_mr_create(e->nic[n], &attr, &key[n]);
	unlock_engine(e);
	return err;
}

static void soft_memory_remove(struct ori_engine *engine, const uint32_t key[ORIEL_NICS_MAX])
{
	struct soft_engine *e = (struct soft_engine *)engine;

	lock_engine(e);
	for (uint32_t n = 0; n < engine->nics; n++)
		if (key[n])
			soft_mr_destroy(e->nic[n], key[n]);
	unlock_engine(e);
}

static int soft_queue_add(struct ori_engine *engine, uint32_t nic, struct oriel_queue *q,
			  int core_direct)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	struct soft_qp_attr attr = { .sq = (struct ori_wqe *)(void *)q->sq,
				     .cq = (struct ori_cqe *)(void *)q->cq,
				     .record = q->record,
				     .doorbell = q->doorbell,
				     .depth = q->depth,
				     .first_index = q->produced,
				     .pd = PROTECTION_DOMAIN,
				     .core_direct = core_direct };

	return soft_qp_create(e->nic[nic], &attr, &q->qpn, &q->cqn);
}

static int soft_responder_add(struct ori_engine *engine, uint32_t nic, uint32_t *qpn)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	struct soft_qp_attr attr = { .pd = PROTECTION_DOMAIN };
	uint32_t cqn;

	return soft_qp_create(e->nic[nic], &attr, qpn, &cqn);
}

static int soft_connect(struct ori_engine *engine, uint32_t nic, uint32_t qpn, int rank,
			uint32_t remote_qpn)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	return soft_qp_connect(e->nic[nic], qpn, rank, remote_qpn);
}

static size_t soft_wire_bytes(struct ori_engine *engine)
{
	(void)engine;
	return sizeof(struct soft_ring);
}

static void soft_wire_prepare(struct ori_engine *engine, void *in)
{
	(void)engine;
	soft_ring_init(in);
}

static void soft_wire_set(struct ori_engine *engine, uint32_t nic, int rank, void *in, void *out)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	soft_nic_wire(e->nic[nic], rank, in, out);
}

static int soft_start(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	if (pthread_create(&e->thread, NULL, engine_main, e))
		return ori_fail(ORIEL_ENOMEM, "cannot start the thread of the software NIC");
	e->started = 1;
	return 0;
}

static void soft_statistics(struct ori_engine *engine, char *out, size_t bytes)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	struct soft_stats sum = { 0 }, s;

	lock_engine(e);
	for (uint32_t n = 0; n < engine->nics; n++) {
		soft_nic_stats(e->nic[n], &s);
		sum.packets_sent += s.packets_sent;
		sum.packets_received += s.packets_received;
		sum.retransmits += s.retransmits;
		sum.naks += s.naks;
		sum.replays += s.replays;
		sum.stalls += s.stalls;
		sum.wqes += s.wqes;
	}
	unlock_engine(e);
	snprintf(out, bytes,
		 "wqes %llu, packets sent %llu received %llu, retransmits %llu, naks %llu, "
		 "replays %llu, stalls %llu",
		 (unsigned long long)sum.wqes, (unsigned long long)sum.packets_sent,
		 (unsigned long long)sum.packets_received, (unsigned long long)sum.retransmits,
		 (unsigned long long)sum.naks, (unsigned long long)sum.replays,
		 (unsigned long long)sum.stalls);
}

static void soft_close(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	if (e->started) {
		__atomic_store_n(&e->stop, 1, __ATOMIC_RELEASE);
		oriel_cpu_wake(e->kicks);
		pthread_join(e->thread, NULL);
	}
	for (uint32_t n = 0; n < engine->nics; n++)
		if (e->nic[n])
			soft_nic_destroy(e->nic[n]);
	free(e);
}

static const struct ori_engine_ops soft_ops = {
	.name = "soft",
	.drive = soft_drive,
	.rest = soft_rest,
	.memory_add = soft_memory_add,
	.memory_remove = soft_memory_remove,
	.queue_add = soft_queue_add,
	.responder_add = soft_responder_add,
	.connect = soft_connect,
	.wire_bytes = soft_wire_bytes,
	.wire_prepare = soft_wire_prepare,
	.wire_set = soft_wire_set,
	.start = soft_start,
	.statistics = soft_statistics,
	.close = soft_close,
};

static int read_config(const struct ori_config *config, int rank, struct soft_config *out)
{
	int err = soft_config_personality(out, config->soft_nic);

	if (!err)
		err = soft_config_faults(out, config->soft_faults);
	/* One seed for the job, another course of events on every rank. */
	if (!err)
		out->seed += (uint64_t)rank * 0x9e3779b97f4a7c15ull;
	return err;
}

int ori_soft_engine_check(const struct ori_config *config)
{
	struct soft_config out;

	return read_config(config, 0, &out);
}

int ori_soft_engine_open(const struct ori_config *config, const struct ori_engine_world *world,
			 struct ori_engine **engine)
{
	struct soft_engine *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return ori_fail(ORIEL_ENOMEM, "no memory for the software NIC");
	e->base.ops = &soft_ops;
	e->base.message_bytes = ORI_WQE_MESSAGE_BYTES;
	e->world = *world;
	e->kicks = world->kicks;
	err = read_config(config, world->rank, &e->config);
	if (!e->config.no_atomics)
		e->base.link_flags |= ORIEL_LINK_ATOMICS;
	if (!e->config.ooo)
		e->base.link_flags |= ORIEL_LINK_ORDERED;
	for (int n = 0; n < config->nics && !err; n++) {
		struct soft_world w = { &e->context[n], world_clock, world_resolve, world_kick,
					world_error };

		e->context[n].engine = e;
		e->context[n].number = (uint32_t)n;
		err = soft_nic_create(&e->config, &w, world->rank, world->nranks, &e->nic[n]);
		if (!err)
			e->base.nics++;
	}
	if (err) {
		soft_close(&e->base);
		return err;
	}
	*engine = &e->base;
	return 0;
}
