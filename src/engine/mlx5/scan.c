/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/scan.c - the thread that finds queues in error: by their CQs, and by the device's
 * asynchronous events.
 *
 * No other thread would find them: devices read only the CQEs that they wait for, and a device that
 * waits for a signal reads none.  It tells the comm after it has released the engine's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/device/queue.h>

#include "../../util/util.h"
#include "mlx5.h"

#define SCAN_NS 1000000ull
#define WHOLE_LOOKS 64u /* one of this many looks at a CQ reads every entry */
#define FAILURES_KEPT 64

/* ---- one CQ -------------------------------------------------------------------------------- */

struct entry {
	uint32_t opcode; /* ORI_CQE_* */
	uint16_t counter;
	uint8_t owner, syndrome;
};

static struct entry look(const struct mlx5_queue *q, uint64_t index)
{
	const uint8_t *cqe = q->cq + (index & (q->depth - 1)) * sizeof(struct ori_cqe);
	/* [MLX1] acquire, sys; partner: the NIC, which writes the syndrome before. */
	uint32_t last = ori_load_acquire32_sys((const uint32_t *)(const void *)(cqe + 0x3c));
	struct entry e = { .opcode = last >> 28,
			   .counter = ori_be16((uint16_t)last),
			   .owner = (last >> 24) & 1u };

	/* only an error CQE has a syndrome, and it stays */
	if (e.opcode == ORI_CQE_REQ_ERR)
		e.syndrome = cqe[offsetof(struct ori_cqe, syndrome)];
	return e;
}

/* Is it the CQE of WQE `index`, or of one 2^16 later? */
static int is_of(const struct mlx5_queue *q, uint64_t index, struct entry e)
{
	return e.opcode != ORI_CQE_INVALID && e.counter == (uint16_t)index &&
	       e.owner == ((index >> q->log_depth) & 1u);
}

/*
 * CQEs come in order, and after an error there are only errors.  So if the last CQE is a success,
 * all are.  Both the last CQE and the first error are found by binary search.
 */
static uint64_t written(const struct mlx5_queue *q)
{
	uint64_t low = q->seen, high = q->seen + q->depth;
	struct entry first = look(q, low);

	/*
	 * Most queues have nothing new, and a rank has thousands: then one load is enough.  A place
	 * of a later lap is something new.
	 */
	if (first.opcode == ORI_CQE_INVALID || first.counter == (uint16_t)(low - q->depth))
		return low;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (is_of(q, middle, look(q, middle)))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint64_t first_error(const struct mlx5_queue *q, uint64_t end)
{
	uint64_t low = q->seen, high = end - 1;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (look(q, middle).opcode == ORI_CQE_REQ)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * A watcher that slept while the queue went round loses its position.  An error CQE is never
 * overwritten by a success, so a look at all entries finds it.  The first error is the one after a
 * success.
 */
static int look_at_all(struct mlx5_queue *q, uint64_t *index)
{
	struct entry before = look(q, q->depth - 1);

	for (uint32_t i = 0; i < q->depth; i++) {
		struct entry e = look(q, i);

		if (e.opcode != ORI_CQE_REQ && e.opcode != ORI_CQE_INVALID &&
		    (before.opcode == ORI_CQE_REQ || before.opcode == ORI_CQE_INVALID ||
		     (uint16_t)(before.counter + 1) != e.counter)) {
			*index = q->seen + (uint16_t)(e.counter - (uint16_t)q->seen);
			return 1;
		}
		before = e;
	}
	return 0;
}

/* After it lost its position: any success that is still in the CQ gives it back. */
static void find_place(struct mlx5_queue *q)
{
	struct entry e = look(q, q->seen);

	if (e.opcode != ORI_CQE_REQ || is_of(q, q->seen, e))
		return;
	if ((uint16_t)(e.counter - (uint16_t)q->seen) < 0x8000u)
		q->seen += (uint16_t)(e.counter - (uint16_t)q->seen);
}

/* Returns 1 if the queue failed, at WQE *index. */
static int queue_failed(struct mlx5_queue *q, uint64_t *index)
{
	uint64_t end;

	find_place(q);
	end = written(q);
	if (end != q->seen && look(q, end - 1).opcode != ORI_CQE_REQ) {
		*index = first_error(q, end);
		return 1;
	}
	q->seen = end;
	return ++q->looks % WHOLE_LOOKS == 0 && look_at_all(q, index);
}

int mlx5_queue_idle(const struct mlx5_queue *q)
{
	/* [MLX2] acquire, sys; partner [QUEUE1] in ori_queue_ring(). */
	uint16_t rung = (uint16_t)ori_be32(ori_load_acquire32_sys(&q->record[1]));
	struct entry e = look(q, (uint64_t)rung + 65535);

	if (e.opcode == ORI_CQE_INVALID)
		return rung == 0;
	return e.counter == (uint16_t)(rung - 1);
}

/* ---- what the device says ------------------------------------------------------------------ */

static struct mlx5_queue *event_queue(struct mlx5_nic *n, const struct ibv_qp *qp)
{
	for (struct mlx5_queue *q = n->queues; q; q = q->next)
		if (q->link.qp == qp)
			return q;
	return NULL;
}

static void note(struct mlx5_queue *q, uint64_t wqe, uint32_t syndrome, struct mlx5_failure *out,
		 int *count)
{
	if (q->told || q->answers || *count == FAILURES_KEPT)
		return;
	q->told = 1;
	out[*count].nic = q->nic->number;
	out[*count].qpn = q->qpn;
	out[*count].wqe = wqe;
	out[*count].syndrome = syndrome;
	(*count)++;
}

static void take_events(struct mlx5_nic *n, struct mlx5_failure *out, int *count)
{
	struct ibv_async_event event;

	while (!n->v.lib->event(n->v.context, &event)) {
		uint32_t syndrome = verbs_event_syndrome(event.event_type);
		const char *text = n->v.lib->event_text(event.event_type);
		struct mlx5_queue *q;

		switch (event.event_type) {
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			q = event_queue(n, event.element.qp);
			ori_log(ORI_LOG_WARN, "%s: queue pair to rank %d: %s", n->v.name,
				q ? q->link.rank : -1, text);
			if (q)
				note(q, q->seen, syndrome, out, count);
			break;
		case IBV_EVENT_CQ_ERR:
		case IBV_EVENT_DEVICE_FATAL:
			ori_log(ORI_LOG_ERROR, "%s: %s", n->v.name, text);
			for (q = n->queues; q; q = q->next)
				note(q, q->seen, syndrome, out, count);
			break;
		default:
			ori_log(ORI_LOG_DEBUG, "%s: %s", n->v.name, text);
		}
		n->v.lib->event_ack(&event);
	}
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void scan_nic(struct mlx5_nic *n, struct mlx5_failure *out, int *count)
{
	uint64_t index = 0;

	for (struct mlx5_queue *q = n->queues; q; q = q->next)
		if (!q->told && !q->answers && *count < FAILURES_KEPT && queue_failed(q, &index))
			note(q, index, look(q, index).syndrome, out, count);
	take_events(n, out, count);
}

int mlx5_watch_scan(struct mlx5_engine *e)
{
	struct mlx5_failure failed[FAILURES_KEPT];
	int count = 0;

	pthread_mutex_lock(&e->looking);
	pthread_mutex_lock(&e->lock);
	for (uint32_t i = 0; i < e->base.nics; i++)
		scan_nic(&e->nic[i], failed, &count);
	e->scans++;
	e->failures += (uint64_t)count;
	pthread_mutex_unlock(&e->lock);
	for (int i = 0; i < count; i++)
		e->world.doomed(e->world.ctx, failed[i].nic, failed[i].qpn);
	for (int i = 0; i < count; i++)
		e->world.failed(e->world.ctx, failed[i].nic, failed[i].qpn, failed[i].wqe,
				failed[i].syndrome);
	pthread_mutex_unlock(&e->looking);
	if (count && e->world.waiters)
		ori_wake(e->world.waiters);
	return count;
}

static void *watch_main(void *arg)
{
	struct mlx5_engine *e = arg;

	ori_log_rank_set(e->world.rank);
	while (!__atomic_load_n(&e->stop, __ATOMIC_RELAXED)) {
		mlx5_watch_scan(e);
		ori_sleep_ns(SCAN_NS);
	}
	return NULL;
}

int mlx5_watch_start(struct mlx5_engine *e)
{
	if (pthread_create(&e->thread, NULL, watch_main, e))
		return ori_fail(ORIEL_ENOMEM, "cannot start the thread of the mlx5 engine");
	e->started = 1;
	return 0;
}

void mlx5_watch_stop(struct mlx5_engine *e)
{
	if (!e->started)
		return;
	__atomic_store_n(&e->stop, 1, __ATOMIC_RELAXED);
	pthread_join(e->thread, NULL);
	e->started = 0;
}
