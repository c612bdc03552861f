/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/engine.c - the software NIC as an engine: its table, and what a NIC asks the comm.
 *
 * Owns the NICs.  The memory of queues and wires belongs to the comm.  drive.c has the thread, and
 * decides who steps the NICs.  Called by the comm, on any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "soft_engine.h"
#include "wire.h"

#define PROTECTION_DOMAIN 1u
#define COPY_LATE_NS (5 * ORI_NS_PER_S) /* even a copy of 1 GiB does not take so long */

/*
 * ---- the world of a NIC
 * --------------------------------------------------------------------------------
 */

static uint64_t world_clock(void *ctx)
{
	(void)ctx;
	return ori_now_ns();
}

static const void *world_resolve(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes,
				 int *device)
{
	struct nic_context *n = ctx;
	const struct ori_engine_world *w = &n->engine->world;

	return w->resolve(w->ctx, rank, id, offset, bytes, device);
}

/*
 * The device's driver may delay a call for its own reasons.  Peers may then take this NIC for dead,
 * so a late copy is logged here.
 */
static int world_copy(void *ctx, void *to, const void *from, uint64_t bytes)
{
	const struct ori_engine_world *w = &((struct nic_context *)ctx)->engine->world;
	uint64_t start = ori_now_ns(), age;
	int err = w->copy(w->ctx, to, from, bytes);

	age = ori_now_ns() - start;
	if (age > COPY_LATE_NS)
		ori_log(ORI_LOG_WARN,
			"software NIC of rank %d: a device copy of %llu bytes took %.1f s", w->rank,
			(unsigned long long)bytes, (double)age / 1e9);
	return err;
}

static int world_reaches(void *ctx, int rank)
{
	const struct ori_engine_world *w = &((struct nic_context *)ctx)->engine->world;

	return w->reaches(w->ctx, rank);
}

static void world_kick(void *ctx, int rank)
{
	struct nic_context *n = ctx;

	if (rank != n->engine->world.rank)
		n->engine->world.kick(n->engine->world.ctx, rank);
}

static void world_completed(void *ctx, uint32_t qpn, uint64_t wqe)
{
	struct nic_context *n = ctx;

	n->engine->world.completed(n->engine->world.ctx, n->number, qpn, wqe);
}

static void world_error(void *ctx, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct nic_context *n = ctx;
	struct soft_engine *e = n->engine;

	e->world.doomed(e->world.ctx, n->number, qpn);
	if (e->nerrors < SOFT_ERRORS_KEPT) {
		struct soft_queue_error error = { n->number, qpn, syndrome, wqe };

		e->errors[e->nerrors++] = error;
	}
}

/*
 * ---- the table
 * ---------------------------------------------------------------------------------------------
 */

static void soft_memory_remove(struct ori_engine *engine, const uint32_t key[ORIEL_NICS_MAX])
{
	struct soft_engine *e = (struct soft_engine *)engine;

	soft_engine_lock(e);
	for (uint32_t n = 0; n < engine->nics; n++)
		if (key[n])
			soft_mr_destroy(e->nic[n], key[n]);
	soft_engine_unlock(e);
}

static int soft_memory_add(struct ori_engine *engine, const struct ori_engine_memory *m,
			   uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	struct soft_mr_attr attr = { .base = m->base,
				     .iova = m->iova,
				     .bytes = m->bytes,
				     .access = SOFT_LOCAL_WRITE,
				     .pd = PROTECTION_DOMAIN,
				     .export_id = m->export_id,
				     .export_offset = m->export_offset,
				     .device = m->device };
	int err = 0;

	if (m->remote)
		attr.access |= SOFT_REMOTE_WRITE | SOFT_REMOTE_READ | SOFT_REMOTE_ATOMIC;
	memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	if (tell)
		memset(tell, 0, sizeof(*tell)); /* the peer's NIC knows its keys */
	soft_engine_lock(e);
	for (uint32_t n = 0; n < engine->nics && !err; n++)
		err = soft_mr_create(e->nic[n], &attr, &key[n]);
	soft_engine_unlock(e);
	if (err) {
		soft_memory_remove(engine, key);
		memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	}
	return err;
}

/* The comm makes the wires to the peers, and each peer knows its own memory. */
static int soft_memory_told(struct ori_engine *engine, int rank, const uint32_t key[ORIEL_NICS_MAX],
			    const struct ori_engine_blob *told)
{
	(void)engine;
	(void)rank;
	(void)key;
	(void)told;
	return 0;
}

static int soft_address(struct ori_engine *engine, struct ori_engine_address *out)
{
	(void)engine;
	memset(out, 0, sizeof(*out));
	return 0;
}

static int soft_peer(struct ori_engine *engine, int rank, const struct ori_engine_address *address)
{
	(void)engine;
	(void)rank;
	(void)address;
	return 0;
}

static uint32_t soft_queue_number(struct ori_engine *engine, uint32_t nic, uint32_t qpn)
{
	(void)engine;
	(void)nic;
	return qpn;
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
	int err;

	soft_engine_lock(e);
	err = soft_qp_create(e->nic[nic], &attr, &q->qpn, &q->cqn);
	soft_engine_unlock(e);
	q->bare = e->config.dbr_mode == SOFT_DBR_DOORBELL && !(e->config.dbr_late > 0);
	return err;
}

static int soft_responder_add(struct ori_engine *engine, uint32_t nic, uint32_t *qpn)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	struct soft_qp_attr attr = { .pd = PROTECTION_DOMAIN };
	uint32_t cqn;
	int err;

	soft_engine_lock(e);
	err = soft_qp_create(e->nic[nic], &attr, qpn, &cqn);
	soft_engine_unlock(e);
	return err;
}

static int soft_connect(struct ori_engine *engine, uint32_t nic, uint32_t qpn, int rank,
			uint32_t remote_qpn)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	int err;

	soft_engine_lock(e);
	err = soft_qp_connect(e->nic[nic], qpn, rank, remote_qpn);
	soft_engine_unlock(e);
	return err;
}

static void soft_wire_set(struct ori_engine *engine, uint32_t nic, int rank, void *in, void *out)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	/* Zeros are an empty ring.  So pages of slots that were never filled are not allocated. */
	soft_engine_lock(e);
	soft_nic_wire(e->nic[nic], rank, in, out);
	soft_engine_unlock(e);
}

static int soft_start(struct ori_engine *engine)
{
	return soft_engine_thread_start((struct soft_engine *)engine);
}

static int soft_idle(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	int idle = 1;

	soft_engine_lock(e);
	for (uint32_t n = 0; n < engine->nics && idle; n++)
		idle = soft_nic_idle(e->nic[n]);
	soft_engine_unlock(e);
	return idle;
}

static void soft_apart(struct ori_engine *engine, void (*what)(void *), void *arg)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	soft_engine_lock(e);
	what(arg);
	soft_engine_unlock(e);
}

static void soft_statistics(struct ori_engine *engine, char *out, size_t bytes)
{
	struct soft_engine *e = (struct soft_engine *)engine;
	struct soft_stats sum = { 0 }, s;

	soft_engine_lock(e);
	for (uint32_t n = 0; n < engine->nics; n++) {
		soft_nic_stats(e->nic[n], &s);
		sum.packets_sent += s.packets_sent;
		sum.packets_received += s.packets_received;
		sum.retransmits += s.retransmits;
		sum.naks += s.naks;
		sum.replays += s.replays;
		sum.stalls += s.stalls;
		sum.wqes += s.wqes;
		sum.copies += s.copies;
	}
	soft_engine_unlock(e);
	snprintf(out, bytes,
		 "wqes %llu, packets sent %llu received %llu, retransmits %llu, naks %llu, "
		 "replays %llu, stalls %llu, device copies %llu",
		 (unsigned long long)sum.wqes, (unsigned long long)sum.packets_sent,
		 (unsigned long long)sum.packets_received, (unsigned long long)sum.retransmits,
		 (unsigned long long)sum.naks, (unsigned long long)sum.replays,
		 (unsigned long long)sum.stalls, (unsigned long long)sum.copies);
}

static void soft_close(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	soft_engine_thread_stop(e);
	for (uint32_t n = 0; n < engine->nics; n++)
		if (e->nic[n])
			soft_nic_destroy(e->nic[n]);
	free(e);
}

static const struct ori_engine_ops soft_ops = {
	.name = "soft",
	.drive = soft_engine_drive,
	.rest = soft_engine_rest,
	.memory_add = soft_memory_add,
	.memory_told = soft_memory_told,
	.address = soft_address,
	.peer = soft_peer,
	.queue_number = soft_queue_number,
	.memory_remove = soft_memory_remove,
	.queue_add = soft_queue_add,
	.responder_add = soft_responder_add,
	.connect = soft_connect,
	.wire_set = soft_wire_set,
	.start = soft_start,
	.idle = soft_idle,
	.silence = soft_engine_silence,
	.apart = soft_apart,
	.statistics = soft_statistics,
	.close = soft_close,
};

static int read_config(const struct ori_config *config, int rank, struct soft_config *out)
{
	int err = soft_config_personality(out, config->soft_nic);

	if (!err)
		err = soft_config_faults(out, config->soft_faults);
	/* One seed per job, but every rank has another sequence of random numbers. */
	if (!err)
		out->seed += (uint64_t)rank * 0x9e3779b97f4a7c15ull;
	return err;
}

/*
 * With late_device=1 the engine imitates a NIC that writes directly into device memory.  A device
 * that guarantees order sees no late writes, so late_device is then switched off.
 */
static int check_late(struct soft_engine *e, const struct ori_config *config)
{
	char why[ORI_ENGINE_REASON];
	int err = ori_engine_ordered(config, &e->world, why, sizeof(why));

	if (err)
		return ori_fail(ORIEL_EUNSUPPORTED, "software NIC with late_device=1: %s", why);
	e->config.late_device = e->world.ordered &&
				e->world.ordered(e->world.ctx, why, sizeof(why)) != 0;
	return 0;
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
	e->base.wire_bytes = sizeof(struct soft_ring);
	e->base.message_bytes = ORI_WQE_MESSAGE_BYTES;
	e->world = *world;
	e->kicks = world->kicks;
	err = read_config(config, world->rank, &e->config);
	if (!err && e->config.late_device)
		err = check_late(e, config);
	if (!e->config.no_atomics)
		e->base.link_flags |= ORIEL_LINK_ATOMICS;
	if (!e->config.ooo)
		e->base.link_flags |= ORIEL_LINK_ORDERED;
	if (!e->config.ooo && !e->config.overtake)
		e->base.link_flags |= ORIEL_LINK_WRITES_ORDERED;
	for (int n = 0; n < config->nics && !err; n++) {
		struct soft_world w = { .ctx = &e->context[n],
					.clock = world_clock,
					.resolve = world_resolve,
					.kick = world_kick,
					.error = world_error,
					.copy = world->copy ? world_copy : NULL,
					.reaches = world->reaches ? world_reaches : NULL,
					.completed = world->completed ? world_completed : NULL };

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
