/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/engine.c - the engine's table, for queues that the NIC itself executes.
 *
 * Owns the NICs.  Queue memory belongs to the NIC: queue_add() replaces sq, cq, record, doorbell
 * and depth of the given queue.  Called by the comm, on any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "mlx5.h"

#define SLEEP_NS 50000ull /* longest sleep of a wait: a NIC wakes nobody */

_Static_assert(sizeof(struct verbs_address) * ORIEL_NICS_MAX <= sizeof(struct ori_engine_address),
	       "the addresses of all NICs fit");

static struct mlx5_engine *engine_of(struct ori_engine *engine)
{
	return (struct mlx5_engine *)engine;
}

/*
 * Does nothing: the NIC executes by itself, and the thread that rings flushes the doorbell
 * (queue.h).
 */
static void mlx5_drive(struct ori_engine *engine)
{
	(void)engine;
}

/* ---- memory -------------------------------------------------------------------------------- */

static void mlx5_memory_remove(struct ori_engine *engine, const uint32_t key[ORIEL_NICS_MAX])
{
	struct mlx5_engine *e = engine_of(engine);

	pthread_mutex_lock(&e->lock);
	for (uint32_t n = 0; n < engine->nics; n++)
		if (key[n])
			mlx5_region_remove(&e->nic[n], key[n]);
	pthread_mutex_unlock(&e->lock);
}

static int mlx5_memory_add(struct ori_engine *engine, const struct ori_engine_memory *m,
			   uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell)
{
	struct mlx5_engine *e = engine_of(engine);
	int err = 0;

	memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	if (tell)
		memset(tell, 0, sizeof(*tell)); /* the NIC of the peer asks this NIC, by the key */
	pthread_mutex_lock(&e->lock);
	for (uint32_t n = 0; n < engine->nics && !err; n++)
		err = mlx5_region_add(&e->nic[n], m, &key[n]);
	pthread_mutex_unlock(&e->lock);
	if (err)
		mlx5_memory_remove(engine, key);
	return err;
}

/* Peers send nothing, so there is nothing to keep. */
static int mlx5_memory_told(struct ori_engine *engine, int rank, const uint32_t key[ORIEL_NICS_MAX],
			    const struct ori_engine_blob *told)
{
	(void)engine;
	(void)rank;
	(void)key;
	(void)told;
	return 0;
}

/* ---- addresses ----------------------------------------------------------------------------- */

static int mlx5_address(struct ori_engine *engine, struct ori_engine_address *out)
{
	struct mlx5_engine *e = engine_of(engine);
	struct verbs_address own;

	memset(out, 0, sizeof(*out));
	for (uint32_t n = 0; n < engine->nics; n++) {
		verbs_address_own(&e->nic[n].v, &own);
		memcpy(out->bytes + n * sizeof(own), &own, sizeof(own));
	}
	return 0;
}

static int mlx5_peer(struct ori_engine *engine, int rank, const struct ori_engine_address *address)
{
	struct mlx5_engine *e = engine_of(engine);

	if (rank < 0 || rank >= e->world.nranks)
		return ori_fail(ORIEL_EPROTO, "mlx5: there is no rank %d", rank);
	for (uint32_t n = 0; n < engine->nics; n++) {
		struct verbs_address own, a;

		verbs_address_own(&e->nic[n].v, &own);
		memcpy(&a, address->bytes + n * sizeof(a), sizeof(a));
		if (a.magic != own.magic || a.mtu < IBV_MTU_256 || a.mtu > IBV_MTU_4096 || !a.reads)
			return ori_fail(ORIEL_EPROTO, "mlx5: rank %d sent an invalid address",
					rank);
		if (a.link_layer != own.link_layer || a.gid_type != own.gid_type)
			return ori_fail(ORIEL_EMISMATCH,
					"mlx5: %s and the port of rank %d are of different kinds: "
					"see "
					"ORIEL_IB_HCA and ORIEL_IB_GID_INDEX",
					e->nic[n].v.name, rank);
		e->peers[(size_t)rank * ORIEL_NICS_MAX + n] = a;
	}
	return 0;
}

/* ---- queues -------------------------------------------------------------------------------- */

static int add(struct mlx5_engine *e, uint32_t nic, uint32_t depth, int core_direct, int answers,
	       struct mlx5_queue **out)
{
	char why[MLX5_WHY] = "";
	struct mlx5_nic *n;
	int err;

	if (nic >= e->base.nics)
		return ori_fail(ORIEL_EINVAL, "mlx5: there is no NIC %u", nic);
	n = &e->nic[nic];
	pthread_mutex_lock(&e->lock);
	err = answers ? mlx5_responder_make(n, why, sizeof(why), out) :
			mlx5_queue_make(n, depth, core_direct, why, sizeof(why), out);
	if (!err) {
		(*out)->next = n->queues;
		n->queues = *out;
		n->queue_count++;
	}
	pthread_mutex_unlock(&e->lock);
	return err ? ori_fail(err, "mlx5: %s", why) : 0;
}

/* The NIC's queue pairs start at index 0 and its CQs at CQE 0.  WAIT counts in 32 bits. */
static int mlx5_queue_add(struct ori_engine *engine, uint32_t nic, struct oriel_queue *q,
			  int core_direct)
{
	struct mlx5_queue *made;
	int err;

	if (q->produced & UINT32_MAX)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_QUEUE_START=%llu: queues of a hardware NIC start at 0; "
				"unset it, or set ORIEL_ENGINE=soft",
				(unsigned long long)q->produced);
	err = add(engine_of(engine), nic, q->depth, core_direct, 0, &made);
	if (err)
		return err;
	q->sq = made->sq;
	q->cq = made->cq;
	q->record = made->record;
	q->doorbell = made->doorbell;
	q->depth = made->depth;
	q->log_depth = made->log_depth;
	q->qpn = made->qpn;
	q->cqn = made->cqn;
	q->mmio = 1;
	return 0;
}

static int mlx5_responder_add(struct ori_engine *engine, uint32_t nic, uint32_t *qpn)
{
	struct mlx5_queue *made;
	int err = add(engine_of(engine), nic, 0, 0, 1, &made);

	if (!err)
		*qpn = made->qpn;
	return err;
}

static uint32_t mlx5_queue_number(struct ori_engine *engine, uint32_t nic, uint32_t qpn)
{
	(void)engine;
	(void)nic;
	return qpn;
}

static int mlx5_connect(struct ori_engine *engine, uint32_t nic, uint32_t qpn, int rank,
			uint32_t number)
{
	struct mlx5_engine *e = engine_of(engine);
	struct verbs_address to = { 0 };
	struct mlx5_queue *q;
	int err;

	if (nic >= engine->nics || rank < 0 || rank >= e->world.nranks || !number || number >> 24)
		return ori_fail(ORIEL_EPROTO,
				"mlx5: rank %d sent an invalid queue pair number (0x%x)", rank,
				number);
	if (rank == e->world.rank)
		verbs_address_own(&e->nic[nic].v, &to);
	else
		to = e->peers[(size_t)rank * ORIEL_NICS_MAX + nic];
	if (!to.magic)
		return ori_fail(ORIEL_EPROTO, "mlx5: the address of rank %d is not known", rank);
	pthread_mutex_lock(&e->lock);
	for (q = e->nic[nic].queues; q && q->qpn != qpn;)
		q = q->next;
	err = q ? mlx5_queue_connect(q, rank, &to, number) :
		  ori_fail(ORIEL_EINVAL, "mlx5: there is no queue pair 0x%x", qpn);
	pthread_mutex_unlock(&e->lock);
	return err;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int mlx5_start(struct ori_engine *engine)
{
	return mlx5_watch_start(engine_of(engine));
}

static int mlx5_idle(struct ori_engine *engine)
{
	struct mlx5_engine *e = engine_of(engine);
	int idle = 1;

	(void)mlx5_watch_scan(e);
	pthread_mutex_lock(&e->lock);
	for (uint32_t n = 0; n < engine->nics; n++)
		for (struct mlx5_queue *q = e->nic[n].queues; q && idle; q = q->next)
			idle = q->answers || mlx5_queue_idle(q);
	pthread_mutex_unlock(&e->lock);
	return idle;
}

static void mlx5_statistics(struct ori_engine *engine, char *out, size_t bytes)
{
	struct mlx5_engine *e = engine_of(engine);
	uint64_t visits = 0, events = 0;

	pthread_mutex_lock(&e->lock);
	for (uint32_t n = 0; n < engine->nics; n++) {
		visits += e->nic[n].visits;
		events += e->nic[n].events;
	}
	/* Numbers that can be added up over ranks: so no name of a NIC, which has a number too. */
	snprintf(out, bytes, "looks at queues %llu, events %llu, failed queues %llu",
		 (unsigned long long)visits, (unsigned long long)events,
		 (unsigned long long)e->failures);
	pthread_mutex_unlock(&e->lock);
}

/* A queue pair in error drops incoming packets.  Those made by DevX answer nobody. */
static void mlx5_silence(struct ori_engine *engine)
{
	struct mlx5_engine *e = engine_of(engine);

	mlx5_watch_stop(e);
	pthread_mutex_lock(&e->lock);
	for (uint32_t n = 0; n < engine->nics; n++)
		for (struct mlx5_queue *q = e->nic[n].queues; q; q = q->next)
			if (q->link.qp)
				verbs_link_break(&q->link);
	pthread_mutex_unlock(&e->lock);
}

static void mlx5_close(struct ori_engine *engine)
{
	struct mlx5_engine *e = engine_of(engine);

	mlx5_watch_stop(e);
	for (uint32_t n = 0; n < engine->nics; n++)
		mlx5_nic_close(&e->nic[n]);
	pthread_mutex_destroy(&e->lock);
	pthread_mutex_destroy(&e->looking);
	free(e->peers);
	free(e);
}

static const struct ori_engine_ops mlx5_ops = {
	.name = "mlx5",
	.drive = mlx5_drive,
	.memory_add = mlx5_memory_add,
	.memory_remove = mlx5_memory_remove,
	.memory_told = mlx5_memory_told,
	.address = mlx5_address,
	.peer = mlx5_peer,
	.queue_add = mlx5_queue_add,
	.queue_number = mlx5_queue_number,
	.responder_add = mlx5_responder_add,
	.connect = mlx5_connect,
	.start = mlx5_start,
	.idle = mlx5_idle,
	.silence = mlx5_silence,
	.statistics = mlx5_statistics,
	.close = mlx5_close,
};

int ori_mlx5_engine_probe(const struct ori_config *config, const struct ori_engine_world *world,
			  char *reason, size_t bytes)
{
	struct mlx5_nic *n = calloc(1, sizeof(*n));
	int err;

	if (!n) {
		snprintf(reason, bytes, "no memory to look for NICs");
		return ORIEL_ENOMEM;
	}
	err = mlx5_nic_open(n, config, 0, world, reason, bytes);
	if (!err) {
		err = mlx5_nic_try(n, reason, bytes);
		if (!err)
			snprintf(reason, bytes, "%s port %d: the NIC executes the queues itself",
				 n->v.name, n->v.port);
		mlx5_nic_close(n);
	}
	free(n);
	return err;
}

int ori_mlx5_engine_open(const struct ori_config *config, const struct ori_engine_world *world,
			 struct ori_engine **engine)
{
	struct mlx5_engine *e = calloc(1, sizeof(*e));
	char why[MLX5_WHY] = "no memory for NICs";
	int err = 0;

	if (!e)
		return ori_fail(ORIEL_ENOMEM, "mlx5: %s", why);
	e->base.ops = &mlx5_ops;
	/* Not WRITES_ORDERED: whether the fabric routes adaptively cannot be queried. */
	e->base.link_flags = ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED | ORIEL_LINK_SILENT;
	e->base.sleep_ns = SLEEP_NS;
	e->base.own_rings = 1;
	e->base.message_bytes = ORI_WQE_MESSAGE_BYTES;
	e->world = *world;
	pthread_mutex_init(&e->looking, NULL);
	pthread_mutex_init(&e->lock, NULL);
	e->peers = calloc((size_t)world->nranks * ORIEL_NICS_MAX, sizeof(*e->peers));
	if (!e->peers)
		err = ORIEL_ENOMEM;
	for (int n = 0; n < config->nics && !err; n++) {
		struct mlx5_nic *nic = &e->nic[n];

		err = mlx5_nic_open(nic, config, (uint32_t)n, &e->world, why, sizeof(why));
		if (err)
			break;
		e->base.nics++;
		if (nic->v.port_attr.max_msg_sz < e->base.message_bytes)
			e->base.message_bytes = nic->v.port_attr.max_msg_sz;
	}
	if (err) {
		mlx5_close(&e->base);
		return ori_fail(err, "mlx5: %s", why);
	}
	*engine = &e->base;
	return 0;
}
