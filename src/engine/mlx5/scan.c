/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/scan.c - the thread that finds queues in error: by completion events, by the device's
 * asynchronous events, and by looks at a few queues in turn.
 *
 * No other thread would find them: devices read only the CQEs that they wait for, and a device that
 * waits for a signal reads none.  A NIC sends a completion event for an error CQE alone, because
 * cq.c arms each CQ so.  The turns find what events do not tell: a rank may have thousands of
 * queues, so a turn has few of them.  The thread tells the comm after it has released the engine's
 * lock.
 */
#include <poll.h>
#include <time.h>

#include <oriel/device/port.h>

#include "../../util/util.h"
#include "mlx5.h"

#define TICK_NS 1000000l
#define FAILURES_KEPT 64

/* Failures of one look, told after it. */
struct found {
	struct mlx5_failure failed[FAILURES_KEPT];
	int count;
};

static void note(struct mlx5_queue *q, uint64_t wqe, uint32_t syndrome, struct found *found)
{
	struct mlx5_failure *f;

	if (q->told || q->answers || found->count == FAILURES_KEPT)
		return;
	q->told = 1;
	f = &found->failed[found->count++];
	f->nic = q->nic->number;
	f->qpn = q->qpn;
	f->wqe = wqe;
	f->syndrome = syndrome;
}

/* ---- looks at queues ----------------------------------------------------------------------- */

static void visit(struct mlx5_queue *q, struct found *found)
{
	uint64_t index;
	uint32_t syndrome;

	if (q->told || q->answers)
		return;
	q->nic->visits++;
	if (mlx5_queue_failed(q, &index, &syndrome))
		note(q, index, syndrome, found);
}

/* Looks at the next `most` queues of the NIC, each at most once. */
static void visit_in_turn(struct mlx5_nic *n, uint32_t most, struct found *found)
{
	struct mlx5_queue *q = n->turn;

	for (uint32_t i = 0; i < most && i < n->queue_count; i++) {
		if (!q)
			q = n->queues;
		visit(q, found);
		q = q->next;
	}
	n->turn = q;
}

/* ---- what the device says ------------------------------------------------------------------ */

/*
 * A queue that has failed once is not used again, so its CQ is not armed again.  An event without
 * an error would be a NIC's mistake: then the turns must do.
 */
static void take_notices(struct mlx5_nic *n, struct found *found)
{
	struct ibv_cq *cq;
	void *queue;

	while (n->notices && !n->v.lib->cq_event(n->notices, &cq, &queue)) {
		n->events++;
		visit(queue, found);
		n->v.lib->cq_event_ack(cq, 1);
	}
}

static struct mlx5_queue *event_queue(struct mlx5_nic *n, const struct ibv_qp *qp)
{
	for (struct mlx5_queue *q = n->queues; q; q = q->next)
		if (q->link.qp == qp)
			return q;
	return NULL;
}

static void take_events(struct mlx5_nic *n, struct found *found)
{
	struct ibv_async_event event;

	while (!n->v.lib->event(n->v.context, &event)) {
		uint32_t syndrome = verbs_event_syndrome(event.event_type);
		const char *text = n->v.lib->event_text(event.event_type);
		struct mlx5_queue *q;

		n->events++;
		switch (event.event_type) {
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			q = event_queue(n, event.element.qp);
			ori_log(ORI_LOG_WARN, "%s: queue pair to rank %d: %s", n->v.name,
				q ? q->link.rank : -1, text);
			if (q)
				note(q, mlx5_queue_pending(q), syndrome, found);
			break;
		case IBV_EVENT_CQ_ERR:
		case IBV_EVENT_DEVICE_FATAL:
			ori_log(ORI_LOG_ERROR, "%s: %s", n->v.name, text);
			for (q = n->queues; q; q = q->next)
				note(q, mlx5_queue_pending(q), syndrome, found);
			break;
		default:
			ori_log(ORI_LOG_DEBUG, "%s: %s", n->v.name, text);
		}
		n->v.lib->event_ack(&event);
	}
}

/* ---- a look -------------------------------------------------------------------------------- */

/* Error CQEs come before asynchronous events, because they name the WQE. */
static int look(struct mlx5_engine *e, uint32_t most)
{
	struct found found = { .count = 0 };

	pthread_mutex_lock(&e->looking);
	pthread_mutex_lock(&e->lock);
	for (uint32_t i = 0; i < e->base.nics; i++) {
		take_notices(&e->nic[i], &found);
		visit_in_turn(&e->nic[i], most, &found);
		take_events(&e->nic[i], &found);
	}
	e->failures += (uint64_t)found.count;
	pthread_mutex_unlock(&e->lock);
	for (int i = 0; i < found.count; i++)
		e->world.doomed(e->world.ctx, found.failed[i].nic, found.failed[i].qpn);
	for (int i = 0; i < found.count; i++)
		e->world.failed(e->world.ctx, found.failed[i].nic, found.failed[i].qpn,
				found.failed[i].wqe, found.failed[i].syndrome);
	pthread_mutex_unlock(&e->looking);
	if (found.count && e->world.waiters)
		ori_wake(e->world.waiters);
	return found.count;
}

int mlx5_watch_scan(struct mlx5_engine *e)
{
	return look(e, UINT32_MAX);
}

int mlx5_watch_turn(struct mlx5_engine *e)
{
	return look(e, MLX5_TURN_QUEUES);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static uint64_t events_taken(struct mlx5_engine *e)
{
	uint64_t sum = 0;

	pthread_mutex_lock(&e->lock);
	for (uint32_t i = 0; i < e->base.nics; i++)
		sum += e->nic[i].events;
	pthread_mutex_unlock(&e->lock);
	return sum;
}

/* Sleeps until a device says something, or for a tick.  Returns whether a device woke it. */
static int sleep_until_told(const struct mlx5_engine *e)
{
	struct pollfd fds[2 * ORIEL_NICS_MAX];
	struct timespec tick = { .tv_nsec = TICK_NS };
	nfds_t n = 0;

	for (uint32_t i = 0; i < e->base.nics; i++) {
		const struct mlx5_nic *nic = &e->nic[i];

		fds[n++] = (struct pollfd){ .fd = nic->v.context->async_fd, .events = POLLIN };
		if (nic->notices)
			fds[n++] = (struct pollfd){ .fd = nic->notices->fd, .events = POLLIN };
	}
	return ppoll(fds, n, &tick, NULL) > 0;
}

/* A descriptor that is ready for ever, as that of a removed device, must not take a core. */
static void *watch_main(void *arg)
{
	struct mlx5_engine *e = arg;

	ori_log_rank_set(e->world.rank);
	while (!__atomic_load_n(&e->stop, __ATOMIC_RELAXED)) {
		uint64_t before = events_taken(e);
		int woken = sleep_until_told(e);

		mlx5_watch_turn(e);
		if (woken && events_taken(e) == before)
			ori_sleep_ns(TICK_NS);
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
