/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/lanes.c - a lane: main queue to a peer, companion queue looped back to this rank, sink.
 *
 * Owns nothing: memory is the slab's, queue pairs the engine's.
 */
#include <stdio.h>
#include <string.h>

#include <oriel/device/wqe.h>

#include "links.h"

static struct ori_lane_memory *lane_memory(struct oriel_comm *c, struct ori_links *l, int rank,
					   uint32_t n)
{
	uint64_t at = l->lane_memory + ((uint64_t)rank * l->lanes + n) * l->lane_bytes;

	return (void *)((char *)c->slab_memory->allocation.base + at);
}

static void queue_init(struct ori_links *l, struct oriel_queue *q, uint8_t *rings, uint32_t *record,
		       uint64_t *doorbell, int rank, uint32_t n)
{
	memset(q, 0, sizeof(*q));
	q->sq = rings;
	q->cq = rings + (uint64_t)l->depth * ORI_WQE_BYTES;
	q->record = record;
	q->doorbell = doorbell;
	q->depth = l->depth;
	q->log_depth = (uint32_t)__builtin_ctz(l->depth);
	q->peer = rank;
	q->lane = n;
	q->reserved = q->produced = q->completed = l->start;
}

int ori_lane_make(struct oriel_comm *c, struct ori_links *l, int rank, uint32_t n)
{
	struct ori_lane_memory *m = lane_memory(c, l, rank, n);
	uint64_t i = (uint64_t)rank * l->lanes + n, pair = (uint64_t)l->depth * 2 * ORI_WQE_BYTES;
	struct ori_engine_memory sink = { .base = &m->sink, .bytes = sizeof(m->sink) };
	struct oriel_lane *lane = &l->lane[i];
	struct ori_engine *e = c->engine;
	int err;

	queue_init(l, &m->main, (uint8_t *)(m + 1), m->main_bell.record, &m->main_bell.doorbell, rank,
		   n);
	queue_init(l, &m->companion, (uint8_t *)(m + 1) + pair, m->companion_bell.record,
		   &m->companion_bell.doorbell, rank, n);
	lane->main = &m->main;
	lane->companion = &m->companion;
	lane->nic = n % e->nics;
	err = e->ops->memory_add(e, &sink, l->sink_key[i]);
	lane->sink_key = l->sink_key[i][lane->nic];
	if (!err)
		err = e->ops->queue_add(e, lane->nic, &m->main, 0);
	if (!err)
		err = e->ops->queue_add(e, lane->nic, &m->companion, 1);
	return err;
}

int ori_lane_connect(struct oriel_comm *c, struct ori_links *l, int rank, uint32_t n,
		     uint32_t remote_qpn)
{
	struct oriel_lane *lane = &l->lane[(uint64_t)rank * l->lanes + n];
	struct ori_engine *e = c->engine;
	uint32_t responder;
	int err = e->ops->connect(e, lane->nic, lane->main->qpn, rank, remote_qpn);

	if (!err)
		err = e->ops->responder_add(e, lane->nic, &responder);
	if (!err)
		err = e->ops->connect(e, lane->nic, lane->companion->qpn, c->rank, responder);
	if (!err)
		err = e->ops->connect(e, lane->nic, responder, c->rank, lane->companion->qpn);
	return err;
}

void ori_lane_failed(void *comm, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct oriel_comm *c = comm;
	struct ori_links *l = c->links;
	uint64_t n = l ? (uint64_t)c->nranks * l->lanes : 0;
	char text[200];

	for (uint64_t i = 0; i < n; i++) {
		struct oriel_lane *lane = &l->lane[i];
		struct oriel_queue *q;
		uint64_t none = 0;

		if (!lane->main || lane->nic != nic)
			continue;
		q = lane->main->qpn == qpn ? lane->main :
		    lane->companion->qpn == qpn ? lane->companion :
						  NULL;
		if (!q)
			continue;
		__atomic_compare_exchange_n(&q->error, &none, ORIEL_FAILURE(ORIEL_EREMOTE, q->peer), 0,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
		/* What was flushed after the first error is no news. */
		if (__atomic_load_n(&c->control->failure, __ATOMIC_ACQUIRE))
			return;
		snprintf(text, sizeof(text),
			 "rank %d: %s queue to rank %d, lane %u: WQE %llu failed: %s (0x%02x)", c->rank,
			 q == lane->main ? "main" : "companion", q->peer, q->lane,
			 (unsigned long long)wqe, ori_syndrome_text(syndrome), syndrome);
		ori_log(ORI_LOG_ERROR, "%s", text);
		ori_comm_fail_all(c, ORIEL_EREMOTE, text);
		return;
	}
}
