/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxied/engine.c - the engine over a fabric: its table, its queues, its life.
 *
 * Owns the fabrics and proxies, one of each per NIC.  Queue memory belongs to the comm.  Keys are
 * in memory.c, the stepping of the proxies is in drive.c.  Called by the comm, on any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <oriel/device/wqe.h>

#include "../../util/util.h"
#include "proxied.h"

/* The far end of a loopback.  The proxy needs no queue for it, so all have one number. */
#define RESPONDER 0x7fffffu

/* ---- what proxy and fabric tell -------------------------------------------------------------- */

static void queue_completed(void *ctx, uint32_t qpn, uint64_t wqe)
{
	struct proxied_nic *n = ctx;

	n->engine->world.completed(n->engine->world.ctx, n->number, qpn, wqe);
}

/*
 * Called within a step, before the error's CQE is visible.  The comm gets the details after the
 * lock is released.
 */
static void queue_failed(void *ctx, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct proxied_nic *n = ctx;
	struct proxied_engine *e = n->engine;

	e->world.doomed(e->world.ctx, n->number, qpn);
	if (e->nerrors < PROXIED_ERRORS_KEPT) {
		struct proxied_error error = { n->number, qpn, syndrome, wqe };

		e->errors[e->nerrors++] = error;
	}
}

static void link_lost(void *ctx, uint32_t tag, uint32_t syndrome)
{
	struct proxied_nic *n = ctx;

	ori_proxy_queue_fail(n->proxy, tag, syndrome);
}

static int dmabuf(void *ctx, const void *base, uint64_t bytes, uint64_t *offset)
{
	struct proxied_nic *n = ctx;

	return n->engine->world.dmabuf(n->engine->world.ctx, base, bytes, offset);
}

/* ---- queues ---------------------------------------------------------------------------------- */

static int queue_room(struct proxied_nic *n)
{
	uint32_t room = n->queue_room ? n->queue_room * 2 : 16;
	struct proxied_queue *made;

	if (n->nqueues < n->queue_room)
		return 0;
	made = realloc(n->queues, room * sizeof(*made));
	if (!made)
		return ori_fail(ORIEL_ENOMEM, "no memory for %u queues", room);
	n->queues = made;
	n->queue_room = room;
	return 0;
}

static struct proxied_queue *find_queue(struct proxied_nic *n, uint32_t qpn)
{
	for (uint32_t i = 0; i < n->nqueues; i++)
		if (n->queues[i].qpn == qpn)
			return &n->queues[i];
	return NULL;
}

/* A queue that may WAIT is a companion: it only loops back and needs no link. */
static int proxied_queue_add(struct ori_engine *engine, uint32_t nic, struct oriel_queue *q,
			     int core_direct)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	struct proxied_nic *n = &e->nic[nic];
	struct proxied_queue made = { 0 };
	int err;

	ori_proxied_lock(e);
	err = queue_room(n);
	if (!err)
		err = ori_proxy_queue_add(n->proxy, q, core_direct);
	if (err)
		goto out;
	made.qpn = q->qpn;
	if (!core_direct)
		err = n->fabric->ops->link_add(n->fabric, q->qpn, &made.link, &made.number);
	if (err)
		ori_proxy_queue_remove(n->proxy, q->qpn);
	else
		n->queues[n->nqueues++] = made;
out:
	ori_proxied_unlock(e);
	return err;
}

static uint32_t proxied_queue_number(struct ori_engine *engine, uint32_t nic, uint32_t qpn)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	struct proxied_queue *q;
	uint32_t number;

	ori_proxied_lock(e);
	q = find_queue(&e->nic[nic], qpn);
	number = q ? q->number : 0;
	ori_proxied_unlock(e);
	return number;
}

static int proxied_responder_add(struct ori_engine *engine, uint32_t nic, uint32_t *qpn)
{
	(void)engine;
	(void)nic;
	*qpn = RESPONDER;
	return 0;
}

static int proxied_connect(struct ori_engine *engine, uint32_t nic, uint32_t qpn, int rank,
			   uint32_t remote_number)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	struct proxied_nic *n = &e->nic[nic];
	struct proxied_queue *q;
	int err = 0;

	if (qpn == RESPONDER)
		return 0;
	ori_proxied_lock(e);
	q = find_queue(n, qpn);
	if (q && q->link)
		err = n->fabric->ops->link_connect(n->fabric, q->link, rank, remote_number);
	if (!err)
		err = ori_proxy_queue_connect(n->proxy, qpn, rank, q ? q->link : NULL);
	ori_proxied_unlock(e);
	return err;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int proxied_start(struct ori_engine *engine)
{
	return ori_proxied_thread_start((struct proxied_engine *)engine);
}

static void proxied_statistics(struct ori_engine *engine, char *out, size_t bytes)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	struct proxied_times t;
	struct ori_proxy_stats sum = { 0 }, s;
	uint64_t steps;

	ori_proxied_lock(e);
	for (uint32_t i = 0; i < engine->nics; i++) {
		ori_proxy_stats(e->nic[i].proxy, &s);
		sum.wqes += s.wqes;
		sum.posts += s.posts;
		sum.again += s.again;
		sum.local_atomics += s.local_atomics;
		sum.stalls += s.stalls;
		sum.strays += s.strays;
		sum.errors += s.errors;
	}
	t = e->times;
	steps = e->steps;
	ori_proxied_unlock(e);
	/* Numbers that can be added up over ranks. */
	snprintf(out, bytes,
		 "wqes %llu, posts %llu, no room %llu, loopback atomics %llu, stalls %llu, "
		 "strays %llu, errors %llu, steps %llu, doorbells timed %llu, "
		 "ns to their posts %llu, slow posts %llu",
		 (unsigned long long)sum.wqes, (unsigned long long)sum.posts,
		 (unsigned long long)sum.again, (unsigned long long)sum.local_atomics,
		 (unsigned long long)sum.stalls, (unsigned long long)sum.strays,
		 (unsigned long long)sum.errors, (unsigned long long)steps,
		 (unsigned long long)t.count, (unsigned long long)t.sum_ns,
		 (unsigned long long)t.slow);
}

static void close_nic(struct proxied_nic *n)
{
	/* The fabric first: it drops all operations, and reports no completion after that. */
	if (n->fabric)
		n->fabric->ops->close(n->fabric);
	ori_proxy_destroy(n->proxy);
	free(n->queues);
	free(n->regions);
}

static void proxied_close(struct ori_engine *engine)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;

	ori_proxied_thread_stop(e);
	for (uint32_t i = 0; i < ORIEL_NICS_MAX; i++)
		close_nic(&e->nic[i]);
	if (e->wake_fd >= 0)
		close(e->wake_fd);
	free(e);
}

static const struct ori_engine_ops proxied_ops = {
	.drive = ori_proxied_drive,
	.rest = ori_proxied_rest,
	.memory_add = ori_proxied_memory_add,
	.memory_remove = ori_proxied_memory_remove,
	.memory_told = ori_proxied_memory_told,
	.address = ori_proxied_address,
	.peer = ori_proxied_peer,
	.queue_add = proxied_queue_add,
	.queue_number = proxied_queue_number,
	.responder_add = proxied_responder_add,
	.connect = proxied_connect,
	.start = proxied_start,
	.idle = ori_proxied_idle,
	.silence = ori_proxied_silence,
	.statistics = proxied_statistics,
	.close = proxied_close,
};

static int open_nic(struct proxied_engine *e, const struct ori_config *config,
		    const struct ori_fabric_kind *kind, uint32_t number)
{
	struct proxied_nic *n = &e->nic[number];
	struct ori_fabric_world world = { .ctx = n,
					  .rank = e->world.rank,
					  .nranks = e->world.nranks,
					  .nic = number,
					  .device_memory = e->world.copy != NULL,
					  .link_lost = link_lost,
					  .dmabuf = e->world.dmabuf ? dmabuf : NULL };
	struct ori_proxy_attr attr = { .rank = e->world.rank,
				       .nranks = e->world.nranks,
				       .strict = config->strict,
				       .failed = queue_failed,
				       .failed_ctx = n,
				       .completed = e->world.completed ? queue_completed : NULL };
	struct ori_proxy_backend backend;
	int err;

	n->engine = e;
	n->number = number;
	err = kind->open(config, &world, &n->fabric);
	if (err)
		return err;
	backend = ori_proxied_backend(n->fabric);
	attr.backend = &backend;
	attr.backend_ctx = n;
	return ori_proxy_create(&attr, &n->proxy);
}

/* Keeps the abilities that all NICs have, because a put may use any NIC. */
static void take_abilities(struct proxied_engine *e)
{
	e->base.link_flags = ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED | ORIEL_LINK_WRITES_ORDERED;
	e->base.message_bytes = ORI_WQE_MESSAGE_BYTES;
	for (uint32_t i = 0; i < e->base.nics; i++) {
		const struct ori_fabric *f = e->nic[i].fabric;

		e->base.link_flags &= f->link_flags;
		if (f->message_bytes < e->base.message_bytes)
			e->base.message_bytes = f->message_bytes;
		e->passive |= f->passive_progress;
	}
}

int ori_proxied_open(const struct ori_config *config, const struct ori_engine_world *world,
		     const struct ori_fabric_kind *kind, struct ori_engine **engine)
{
	struct proxied_engine *e = calloc(1, sizeof(*e));
	int err = 0;

	if (!e)
		return ori_fail(ORIEL_ENOMEM, "no memory for the %s engine", kind->name);
	e->table = proxied_ops;
	e->table.name = kind->name;
	e->base.ops = &e->table;
	e->world = *world;
	e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->wake_fd < 0)
		err = ori_fail(ORIEL_ESYSTEM, "no eventfd for the %s engine", kind->name);
	for (int i = 0; i < config->nics && !err; i++) {
		err = open_nic(e, config, kind, (uint32_t)i);
		if (!err)
			e->base.nics++;
	}
	if (err) {
		proxied_close(&e->base);
		return err;
	}
	take_abilities(e);
	ori_log(ORI_LOG_INFO, "%s engine: %s", kind->name, e->nic[0].fabric->text);
	*engine = &e->base;
	return 0;
}
