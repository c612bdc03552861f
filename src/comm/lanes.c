/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/lanes.c - a lane: the main queue to a peer; the companion queue, which is connected to this
 * rank itself; and the sink, a word for results that nobody reads.
 *
 * Owns nothing: the memory belongs to links.c, the queue pairs to the engine.  Called by connect.c
 * on user threads, and by the engine, which reports failed queues here.
 */
#include <stdio.h>
#include <string.h>

#include "../engine/wqe_decode.h"

#include "control.h"
#include "failure.h"
#include "links.h"
#include "object.h"

static struct ori_lane_memory *lane_memory(struct ori_links *l, int rank, uint32_t n)
{
	return (struct ori_lane_memory *)(void *)(l->peers[rank].lanes + n * l->lane_bytes);
}

struct oriel_queue *ori_lane_main(const struct oriel_lane *lane)
{
	/* [LINKS2] acquire, process scope; partner [LINKS1] in ori_lane_make(). */
	return __atomic_load_n(&lane->main, __ATOMIC_ACQUIRE);
}

uint64_t ori_lane_bytes(uint32_t depth, int own_rings)
{
	return sizeof(struct ori_lane_memory) + (own_rings ? 0 : 4ull * depth * ORI_WQE_BYTES);
}

/*
 * For kernels of a separate device: the indices of the queues are in device memory, the rings in
 * host memory.
 */
int ori_lane_publish(struct oriel_comm *c, struct ori_links *l, int rank, uint32_t n,
		     struct oriel_lane *out)
{
	struct ori_lane_memory *m = lane_memory(l, rank, n), *near = l->peers[rank].near + n;

	*out = l->lane[(uint64_t)rank * l->lanes + n];
	out->main = &near->main;
	out->companion = &near->companion;
	return c->device->ops->copy(c->device, near, m, sizeof(*m));
}

static void queue_init(struct ori_links *l, struct oriel_queue *q, uint8_t *rings, uint32_t *record,
		       uint64_t *doorbell, int rank, uint32_t n)
{
	memset(q, 0, sizeof(*q));
	q->sq = rings;
	q->cq = rings ? rings + (uint64_t)l->depth * ORI_WQE_BYTES : NULL;
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
	struct ori_lane_memory *m = lane_memory(l, rank, n);
	uint64_t i = (uint64_t)rank * l->lanes + n, pair = (uint64_t)l->depth * 2 * ORI_WQE_BYTES;
	struct ori_engine_memory sink = { .base = &m->sink, .bytes = sizeof(m->sink) };
	struct oriel_lane *lane = &l->lane[i];
	struct ori_engine *e = c->engine;
	uint8_t *rings = e->own_rings ? NULL : (uint8_t *)(m + 1);
	int err;

	queue_init(l, &m->main, rings, m->main_bell.record, &m->main_bell.doorbell, rank, n);
	queue_init(l, &m->companion, rings ? rings + pair : NULL, m->companion_bell.record,
		   &m->companion_bell.doorbell, rank, n);
	lane->nic = n % e->nics;
	err = e->ops->memory_add(e, &sink, l->sink_key[i], NULL);
	lane->sink_key = l->sink_key[i][lane->nic];
	if (!err)
		err = e->ops->queue_add(e, lane->nic, &m->main, 0);
	if (!err)
		err = e->ops->queue_add(e, lane->nic, &m->companion, 1);
	if (err)
		return err;
	l->number[i] = e->ops->queue_number(e, lane->nic, m->main.qpn);
	lane->companion = &m->companion;
	/*
	 * [LINKS1] release, process scope; partner [LINKS2] in ori_lane_main().  Publishes the
	 * lane's two queues and its NIC to threads that look for a failed queue or wait for all
	 * queues, while this call connects.  Without it: A makes this lane; B looks for the number
	 * of another queue that failed, finds `main`, and reads a companion that is still NULL.
	 */
	__atomic_store_n(&lane->main, &m->main, __ATOMIC_RELEASE);
	return 0;
}

int ori_lane_connect(struct oriel_comm *c, struct ori_links *l, int rank, uint32_t n,
		     uint32_t remote_number)
{
	struct oriel_lane *lane = &l->lane[(uint64_t)rank * l->lanes + n];
	struct ori_engine *e = c->engine;
	uint32_t responder;
	int err = e->ops->connect(e, lane->nic, lane->main->qpn, rank, remote_number);

	if (!err)
		err = e->ops->responder_add(e, lane->nic, &responder);
	if (!err)
		err = e->ops->connect(e, lane->nic, lane->companion->qpn, c->rank, responder);
	if (!err)
		err = e->ops->connect(e, lane->nic, responder, c->rank, lane->companion->qpn);
	return err;
}

static struct oriel_queue *find_queue(struct oriel_comm *c, uint32_t nic, uint32_t qpn,
				      int *is_main)
{
	struct ori_links *l = c->links;
	uint64_t n = l ? (uint64_t)c->nranks * l->lanes : 0;

	for (uint64_t i = 0; i < n; i++) {
		struct oriel_lane *lane = &l->lane[i];
		struct oriel_queue *main = ori_lane_main(lane);

		if (!main || lane->nic != nic)
			continue;
		*is_main = main->qpn == qpn;
		if (*is_main)
			return main;
		if (lane->companion->qpn == qpn)
			return lane->companion;
	}
	return NULL;
}

/*
 * The engine calls it before it writes the error CQE.  The companion queue counts that CQE like any
 * other.  A thread that waits for the count must find the failure: oriel_wait_counter reads the
 * failure word after the count.
 */
void ori_lane_doomed(void *comm, uint32_t nic, uint32_t qpn)
{
	struct oriel_comm *c = comm;
	int is_main;
	struct oriel_queue *q = find_queue(c, nic, qpn, &is_main);

	if (!q)
		return;
	(void)ori_failure_set(&q->error, ORIEL_FAILURE(ORIEL_EREMOTE, q->peer));
	(void)ori_failure_set(&c->control->failure, ORIEL_FAILURE(ORIEL_EREMOTE, q->peer));
	ori_comm_tell_device(c);
}

/* "offset 4096 of window 0 ...".  Returns 0 if the key belongs to no window or buffer. */
static int name_target(struct oriel_comm *c, int rank, uint32_t nic, const struct ori_wqe_op *op,
		       char *out, size_t bytes)
{
	int named = 0;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child && !named; child = child->next)
		named = child->name &&
			child->name(child, rank, nic, op->rkey, op->remote, out, bytes);
	pthread_mutex_unlock(&c->lock);
	return named;
}

/* Describes the operation of the WQE for a message; "" if it cannot be decoded. */
static void describe(struct oriel_comm *c, const struct oriel_queue *q, uint32_t nic, uint64_t wqe,
		     char *out, size_t bytes)
{
	static const char *const words[] = { NULL, "put", "get", "atomic operation" };
	char target[112], why[64];
	struct ori_wqe_op op;
	struct ori_wqe w;

	out[0] = '\0';
	/* A failed queue takes no more WQEs, so nobody writes this slot. */
	memcpy(&w, q->sq + (wqe & (q->depth - 1)) * ORI_WQE_BYTES, sizeof(w));
	if (ori_wqe_decode(&w, wqe, q->qpn, &op, why, sizeof(why)) || op.kind == ORI_WQE_KIND_LOCAL)
		return;
	if (name_target(c, q->peer, nic, &op, target, sizeof(target)))
		snprintf(out, bytes, ": %s of %u bytes at %s", words[op.kind], op.bytes, target);
	else
		snprintf(out, bytes, ": %s of %u bytes at 0x%llx of key 0x%x", words[op.kind],
			 op.bytes, (unsigned long long)op.remote, op.rkey);
}

/*
 * Is this error only a consequence, so that another rank or queue reports the cause?  Either this
 * rank refused a request of the other end, or the other end had failed, or an earlier error flushed
 * this queue.
 */
static int is_consequence(uint32_t syndrome)
{
	return syndrome == ORI_SYNDROME_LOCAL_ACCESS || syndrome == ORI_SYNDROME_REMOTE_OP ||
	       syndrome == ORI_SYNDROME_FLUSHED;
}

void ori_lane_failed(void *comm, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct oriel_comm *c = comm;
	char text[256], what[160] = "";
	int is_main, told;
	struct oriel_queue *q = find_queue(c, nic, qpn, &is_main);

	if (q)
		/* relaxed: reports show it, and nothing else depends on it */
		__atomic_store_n(&c->syndrome,
				 ORI_SYNDROME_NOTE(q->peer, q->lane, is_main, syndrome),
				 __ATOMIC_RELAXED);
	/* Only the first failure is reported. */
	pthread_mutex_lock(&c->lock);
	told = c->failure_text[0] != '\0';
	pthread_mutex_unlock(&c->lock);
	if (!q || told)
		return;
	if (syndrome == ORI_SYNDROME_LOCAL_ACCESS)
		snprintf(what, sizeof(what), ": a request of rank %d was refused here", q->peer);
	else if (is_main && syndrome != ORI_SYNDROME_FLUSHED)
		describe(c, q, nic, wqe, what, sizeof(what));
	snprintf(text, sizeof(text),
		 "rank %d: %s queue to rank %d, lane %u: WQE %llu failed: %s (0x%02x)%s", c->rank,
		 is_main ? "main" : "companion", q->peer, q->lane, (unsigned long long)wqe,
		 ori_syndrome_text(syndrome), syndrome, what);
	if (is_consequence(syndrome)) {
		ori_comm_fail_later(c, ORIEL_EREMOTE, text);
		return;
	}
	ori_log(ORI_LOG_ERROR, "%s", text);
	ori_comm_fail_all(c, ORIEL_EREMOTE, text);
}
