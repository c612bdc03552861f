/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/world.c - builds the world of a plan: regions between guards, connected NICs, lanes and
 * links as src/comm/ makes them, and a comm for the device code of each rank.
 *
 * The wires live longer than a run: they are large, and only their headers need a fresh start.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "util/util.h"

#define PD 1u
#define LOCAL SOFT_LOCAL_WRITE
#define REMOTE (SOFT_REMOTE_WRITE | SOFT_REMOTE_READ | SOFT_REMOTE_ATOMIC)

static struct soft_ring *rings[SIM_NICS][SIM_RANKS][SIM_RANKS]; /* [nic][from][to] */

int sim_violate(struct sim_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->violated)
		return 0;
	w->violated = 1;
	va_start(ap, fmt);
	vsnprintf(w->violation, sizeof(w->violation), fmt, ap);
	va_end(ap);
	return 0;
}

/* ---- what bytes and words are called --------------------------------------------------------- */

uint8_t sim_stamp(uint32_t id, uint64_t offset)
{
	return (uint8_t)(id * 151u + (uint32_t)offset * 7u + (uint32_t)(offset >> 8) * 29u);
}

uint8_t sim_library_byte(int rank, uint64_t offset)
{
	return sim_stamp(1000u + (uint32_t)rank, offset);
}

uint64_t sim_zone(const struct sim_plan *p, int source, int thread)
{
	return ((uint64_t)source * (uint64_t)p->threads + (uint64_t)thread) * SIM_ZONE;
}

uint32_t sim_word(int source, int thread, enum sim_word word)
{
	if (word == SIM_WORD_SHARED)
		return 24u + (uint32_t)source;
	return (uint32_t)(source * SIM_THREADS + thread) * 2 + (uint32_t)word;
}

uint32_t sim_word_counter(int peer, int thread)
{
	return 32u + (uint32_t)(peer * SIM_THREADS + thread);
}

uint64_t *sim_word_at(struct sim_world *w, int rank, uint32_t word)
{
	return (uint64_t *)(void *)w->rank[rank].region[SIM_CONTROL].base + word;
}

/* ---- the world of a NIC ---------------------------------------------------------------------- */

static uint64_t world_clock(void *ctx)
{
	return ((struct sim_engine *)ctx)->world->now_ns;
}

/* Only sources are exported: id 1. */
static const void *world_resolve(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes,
				 int *device)
{
	struct sim_world *w = ((struct sim_engine *)ctx)->world;
	const struct sim_region *s;

	*device = 0;
	if (rank < 0 || rank >= w->plan->ranks || id != 1)
		return NULL;
	s = &w->rank[rank].region[SIM_SOURCE];
	return offset > s->bytes || bytes > s->bytes - offset ? NULL : s->base + offset;
}

/* As ori_lane_failed() does: the queue, and the comm of every rank. */
static void world_error(void *ctx, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct sim_engine *e = ctx;
	struct sim_world *w = e->world;

	(void)wqe;
	w->told++;
	if (!syndrome)
		sim_violate(w, "rank %d: queue pair 0x%x failed without a syndrome", e->rank, qpn);
	for (int peer = 0; peer < w->plan->ranks; peer++)
		for (uint32_t n = 0; n < w->plan->lanes; n++) {
			struct sim_lane_memory *m = &w->rank[e->rank].lane_memory[peer][n];
			struct oriel_queue *q = m->main.qpn == qpn ? &m->main : &m->companion;

			if (peer == e->rank || (int)(n % (uint32_t)w->plan->nics) != e->nic ||
			    q->qpn != qpn || q->error)
				continue;
			q->error = ORIEL_FAILURE(ORIEL_EREMOTE, peer);
		}
	for (int rank = 0; rank < w->plan->ranks; rank++)
		if (!w->rank[rank].failure)
			w->rank[rank].failure = ORIEL_FAILURE(ORIEL_EREMOTE, e->rank);
}

int sim_nic_stalled(struct sim_world *w, int rank, int nic)
{
	const struct soft_config *c = &w->plan->config[rank][nic];
	struct soft_stats s;

	soft_nic_stats(w->rank[rank].nic[nic], &s);
	return c->stall_at && s.wqes >= c->stall_at;
}

int sim_struck(struct sim_world *w)
{
	/* with a stall planned the deadline is short, and a slow wire may reach it first */
	for (int at = 0; w->plan->fatal == SIM_FATAL_STALL && at < SIM_RANKS * SIM_THREADS; at++)
		if (w->plan->thread[at / SIM_THREADS][at % SIM_THREADS].status == ORIEL_ETIMEDOUT)
			return 1;
	return w->told || sim_nic_stalled(w, w->plan->fatal_rank, w->plan->fatal_nic);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int region_make(struct sim_world *w, int rank, struct sim_region *r, uint64_t bytes,
		       uint8_t fill, uint32_t access, uint64_t export_id)
{
	struct soft_mr_attr attr = {
		.bytes = bytes, .access = access, .pd = PD, .export_id = export_id
	};
	void *all;
	int err = 0;

	if (posix_memalign(&all, 64, bytes + 2 * SIM_GUARD))
		return ORIEL_ENOMEM;
	r->base = (uint8_t *)all + SIM_GUARD;
	r->bytes = bytes;
	memset(all, SIM_GUARD_FILL, SIM_GUARD);
	memset(r->base, fill, bytes);
	memset(r->base + bytes, SIM_GUARD_FILL, SIM_GUARD);
	attr.base = r->base;
	for (int nic = 0; nic < w->plan->nics && !err; nic++)
		err = soft_mr_create(w->rank[rank].nic[nic], &attr, &r->key[nic]);
	return err;
}

static void region_free(struct sim_region *r)
{
	if (r->base)
		free(r->base - SIM_GUARD);
}

static int memory_make(struct sim_world *w, int rank)
{
	struct sim_plan *p = w->plan;
	struct sim_region *r = w->rank[rank].region;
	uint64_t zones = (uint64_t)p->ranks * (uint64_t)p->threads * SIM_ZONE;
	int err = region_make(w, rank, &r[SIM_WINDOW], zones, SIM_FILL, LOCAL | REMOTE, 0);

	if (!err)
		err = region_make(w, rank, &r[SIM_SOURCE], zones, 0, LOCAL, 1);
	if (!err)
		err = region_make(w, rank, &r[SIM_LANDING], (uint64_t)p->threads * SIM_ZONE,
				  SIM_FILL, LOCAL, 0);
	if (!err)
		err = region_make(w, rank, &r[SIM_LIBRARY], SIM_LIBRARY_BYTES, 0, SOFT_REMOTE_READ,
				  0);
	if (!err)
		err = region_make(w, rank, &r[SIM_CONTROL], SIM_WORDS * 8, 0, LOCAL | REMOTE, 0);
	if (!err)
		err = region_make(w, rank, &r[SIM_RESULTS],
				  sizeof(struct oriel_result) * ORIEL_RESULT_SLOTS, 0, LOCAL, 0);
	if (err)
		return err;
	for (uint64_t i = 0; i < SIM_LIBRARY_BYTES; i++)
		r[SIM_LIBRARY].base[i] = sim_library_byte(rank, i);
	for (uint32_t i = 0; i < SIM_WORD_FETCH_ADD; i++) {
		*sim_word_at(w, rank, i) = p->first_word;
		for (int peer = 0; peer < p->ranks; peer++)
			w->rank[rank].totals[peer][i] = p->first_word;
	}
	for (uint32_t i = 0; i < SIM_WORDS; i++)
		w->rank[rank].word_seen[i] = *sim_word_at(w, rank, i);
	for (int t = 0; t < p->threads; t++)
		for (int i = 0; i < p->thread[rank][t].ops; i++) {
			const struct sim_op *op = &p->thread[rank][t].op[i];

			for (uint32_t b = 0; b < op->bytes && op->kind != SIM_READ; b++)
				r[SIM_SOURCE].base[op->local + b] = sim_stamp(op->id, b);
		}
	return 0;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static int queue_make(struct sim_world *w, int rank, struct oriel_queue *q, uint8_t *at,
		      uint32_t *record, uint64_t *doorbell, int peer, uint32_t n, int core_direct)
{
	struct sim_plan *p = w->plan;
	struct soft_qp_attr attr = { .sq = (struct ori_wqe *)(void *)at,
				     .cq = (struct ori_cqe *)(void *)(at +
								      p->depth * ORI_WQE_BYTES),
				     .record = record,
				     .doorbell = doorbell,
				     .depth = p->depth,
				     .first_index = p->first,
				     .pd = PD,
				     .core_direct = core_direct };

	q->sq = at;
	q->cq = at + p->depth * ORI_WQE_BYTES;
	q->record = record;
	q->doorbell = doorbell;
	q->depth = p->depth;
	q->log_depth = (uint32_t)__builtin_ctz(p->depth);
	q->peer = peer;
	q->lane = n;
	q->reserved = q->produced = q->completed = p->first;
	return soft_qp_create(w->rank[rank].nic[n % (uint32_t)p->nics], &attr, &q->qpn, &q->cqn);
}

static int lane_make(struct sim_world *w, int rank, int peer, uint32_t n)
{
	struct sim_lane_memory *m = &w->rank[rank].lane_memory[peer][n];
	struct oriel_lane *lane = &w->rank[rank].lane[peer][n];
	struct sim_watch watch = { w->plan->first, 0, w->plan->first, w->plan->first,
				   w->plan->first };
	size_t pair = 2ull * w->plan->depth * ORI_WQE_BYTES;
	void *at;
	int err;

	if (posix_memalign(&at, 64, 2 * pair))
		return ORIEL_ENOMEM;
	memset(at, 0xa5, 2 * pair);
	m->rings = at;
	m->watch[0] = m->watch[1] = watch;
	lane->main = &m->main;
	lane->companion = &m->companion;
	lane->nic = n % (uint32_t)w->plan->nics;
	err = region_make(w, rank, &m->sink, 8, 0, LOCAL, 0);
	lane->sink_key = m->sink.key[lane->nic];
	if (!err)
		err = queue_make(w, rank, &m->main, m->rings, m->main_bell.record,
				 &m->main_bell.doorbell, peer, n, 0);
	if (!err)
		err = queue_make(w, rank, &m->companion, m->rings + pair, m->companion_bell.record,
				 &m->companion_bell.doorbell, peer, n, 1);
	return err;
}

static int links_make(struct sim_world *w, int rank)
{
	struct sim_rank *r = &w->rank[rank];
	int err = 0;

	for (int peer = 0; peer < w->plan->ranks; peer++) {
		struct oriel_link *link = &r->link[peer];

		for (uint32_t n = 0; n < w->plan->lanes && peer != rank && !err; n++)
			err = lane_make(w, rank, peer, n);
		link->lanes = r->lane[peer];
		link->nlanes = w->plan->lanes;
		link->flags = w->plan->flags;
		link->message_bytes = w->plan->message_bytes;
		link->last_signal = &r->last_signal[peer];
		r->last_signal[peer] = w->plan->first;
	}
	return err;
}

static int lane_connect(struct sim_world *w, int rank, int peer, uint32_t n)
{
	struct soft_nic *nic = w->rank[rank].nic[n % (uint32_t)w->plan->nics];
	struct oriel_lane *lane = &w->rank[rank].lane[peer][n];
	struct soft_qp_attr attr = { .pd = PD };
	uint32_t responder, cqn;
	int err = soft_qp_connect(nic, lane->main->qpn, peer,
				  w->rank[peer].lane[rank][n].main->qpn);

	if (!err)
		err = soft_qp_create(nic, &attr, &responder, &cqn);
	if (!err)
		err = soft_qp_connect(nic, lane->companion->qpn, rank, responder);
	if (!err)
		err = soft_qp_connect(nic, responder, rank, lane->companion->qpn);
	return err;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int nics_make(struct sim_world *w, int rank)
{
	struct sim_rank *r = &w->rank[rank];
	int err = 0;

	for (int nic = 0; nic < w->plan->nics && !err; nic++) {
		struct soft_world world = { .ctx = &r->nic_context[nic],
					    .clock = world_clock,
					    .resolve = world_resolve,
					    .error = world_error };

		r->nic_context[nic].world = w;
		r->nic_context[nic].rank = rank;
		r->nic_context[nic].nic = nic;
		err = soft_nic_create(&w->plan->config[rank][nic], &world, rank, w->plan->ranks,
				      &r->nic[nic]);
	}
	return err;
}

static void comm_make(struct sim_world *w, int rank)
{
	struct sim_rank *r = &w->rank[rank];
	struct oriel_comm_dev *c = &r->comm;

	r->engine.world = w;
	r->engine.rank = rank;
	c->rank = rank;
	c->nranks = w->plan->ranks;
	c->timeout_ns = w->plan->timeout_ns;
	c->spin_polls = 1;
	c->failure = &r->failure;
	c->waiters = &r->waiters;
	c->engine = &r->engine.base;
	c->results = (struct oriel_result *)(void *)r->region[SIM_RESULTS].base;
	memcpy(c->result_key, r->region[SIM_RESULTS].key, sizeof(c->result_key));
}

static int wires_make(struct sim_world *w)
{
	for (int nic = 0; nic < w->plan->nics; nic++)
		for (int a = 0; a < w->plan->ranks; a++)
			for (int b = 0; b < w->plan->ranks; b++) {
				void *at = rings[nic][a][b];

				if (!at && posix_memalign(&at, 64, sizeof(struct soft_ring)))
					return ORIEL_ENOMEM;
				rings[nic][a][b] = at;
				soft_ring_init(at);
			}
	for (int nic = 0; nic < w->plan->nics; nic++)
		for (int a = 0; a < w->plan->ranks; a++)
			for (int b = 0; b < w->plan->ranks; b++)
				soft_nic_wire(w->rank[a].nic[nic], b, rings[nic][b][a],
					      rings[nic][a][b]);
	return 0;
}

int sim_world_open(struct sim_world *w, struct sim_plan *p)
{
	int err = 0;

	memset(w, 0, sizeof(*w));
	w->plan = p;
	w->now_ns = 1000;
	w->random = ~p->seed;
	for (int rank = 0; rank < p->ranks && !err; rank++) {
		err = nics_make(w, rank);
		if (!err)
			err = memory_make(w, rank);
		if (!err)
			err = links_make(w, rank);
		comm_make(w, rank);
	}
	if (!err)
		err = wires_make(w);
	for (int rank = 0; rank < p->ranks; rank++)
		for (int peer = 0; peer < p->ranks; peer++)
			for (uint32_t n = 0; n < p->lanes && peer != rank && !err; n++)
				err = lane_connect(w, rank, peer, n);
	return err;
}

void sim_world_close(struct sim_world *w)
{
	for (int rank = 0; rank < SIM_RANKS; rank++) {
		struct sim_rank *r = &w->rank[rank];

		for (int nic = 0; nic < SIM_NICS; nic++)
			soft_nic_destroy(r->nic[nic]);
		for (int i = 0; i < SIM_REGIONS; i++)
			region_free(&r->region[i]);
		for (int peer = 0; peer < SIM_RANKS; peer++)
			for (int n = 0; n < SIM_LANES; n++) {
				region_free(&r->lane_memory[peer][n].sink);
				free(r->lane_memory[peer][n].rings);
			}
	}
}
