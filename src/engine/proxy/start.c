/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/start.c - from doorbell to a WQE that may start: taking, WAIT, fences, order.
 *
 * WQEs of a queue start in order.  One that may not start yet delays everything behind it: a fence
 * until enough is complete, a WAIT until another CQ has moved, a full back end until the next step.
 * Nothing is consumed before its post succeeded: `next` moves only then.
 *
 * Called within ori_proxy_step().
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

/* Logs something that no correct device does. */
static void violation(const struct ori_proxy *p, const struct proxy_queue *q, uint64_t idx,
		      const char *fmt, ...) ORI_PRINTF(4, 5);

static void violation(const struct ori_proxy *p, const struct proxy_queue *q, uint64_t idx,
		      const char *fmt, ...)
{
	char text[160];
	va_list args;

	if (!p->attr.strict)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ori_log(ORI_LOG_ERROR, "proxy of rank %d: queue pair 0x%x, WQE %llu: %s", p->attr.rank,
		q->number, (unsigned long long)idx, text);
}

/* ---- doorbells ------------------------------------------------------------------------------- */

/*
 * The device must see an error even if it rang nothing valid.  The first index without CQE then
 * counts as rung.
 */
static void refuse_doorbell(struct ori_proxy *p, struct proxy_queue *q)
{
	if (q->ci == q->pi) {
		q->pi++;
		p->outstanding++;
	}
	ori_proxy_cq_error(p, q, ORI_SYNDROME_LOCAL_QP_OP);
}

static void ring(struct ori_proxy *p, struct proxy_queue *q, uint64_t value)
{
	uint32_t number = ori_be32((uint32_t)(value >> 32)) >> 8;
	uint32_t index = ori_be32((uint32_t)value) >> 8 & 0xffff;
	uint32_t advance = (uint16_t)(index - (uint32_t)q->pi);

	if (number == q->number && advance <= q->depth - (uint32_t)(q->pi - q->ci)) {
		q->pi += advance;
		p->outstanding += advance;
		proxy_activate(p, q);
		return;
	}
	if (q->state == QUEUE_ERROR)
		return;
	if (number != q->number)
		violation(p, q, q->pi, "the doorbell names queue pair 0x%x", number);
	else
		violation(p, q, q->pi,
			  "doorbell 0x%04x goes back, or past the %u blocks of the queue", index,
			  q->depth);
	refuse_doorbell(p, q);
}

void ori_proxy_doorbell(struct ori_proxy *p, struct proxy_queue *q)
{
	/* relaxed: only tests for a change; the value is loaded again below */
	if (__atomic_load_n(q->doorbell, __ATOMIC_RELAXED) == q->bell_seen ||
	    q->state == QUEUE_RESET)
		return;
	/* [PROXY5] acquire, sys; partner [QUEUE2] in ori_queue_ring(), after its WQEs. */
	q->bell_seen = __atomic_load_n(q->doorbell, __ATOMIC_ACQUIRE);
	ring(p, q, q->bell_seen);
}

/* ---- what holds a WQE ------------------------------------------------------------------------ */

static int fenced(const struct proxy_queue *q)
{
	switch (q->head.flags & 0xe0) {
	case ORI_WQE_FENCE:
	case 0x80: /* fence and small fence */
		return q->open_reads != 0;
	case ORI_WQE_STRONG:
		return q->open != 0;
	default:
		return 0;
	}
}

/*
 * Is the CQE that the WAIT at the head names still to come?  Then the queue is in that CQ's list
 * until it moves.  An error CQE ends the wait as a failure: WQEs behind a WAIT count successes, and
 * the count of a failed put must never be seen.
 */
static int waits(struct ori_proxy *p, struct proxy_queue *q)
{
	uint32_t cqn = q->head.rkey, cqe = q->head.bytes;
	struct proxy_queue *on = cqn & PROXY_CQN_BIT ? proxy_queue_find(p, cqn ^ PROXY_CQN_BIT) :
						       NULL;
	uint64_t good;

	if (!on) {
		violation(p, q, q->next, "WAIT for CQ 0x%x, which does not exist", cqn);
		q->head_syndrome = ORI_SYNDROME_LOCAL_QP_OP;
		return 0;
	}
	good = on->bad ? on->first_bad : on->cq_count;
	if ((int32_t)((uint32_t)good - 1 - cqe) >= 0)
		return 0;
	if (on->bad && (int32_t)((uint32_t)on->cq_count - 1 - cqe) >= 0) {
		q->head_syndrome = ORI_SYNDROME_FLUSHED;
		return 0;
	}
	q->waits_on = on;
	q->next_waiter = on->waiters;
	on->waiters = q;
	return 1;
}

static int blocked(struct ori_proxy *p, struct proxy_queue *q)
{
	if (q->head_syndrome)
		return 0;
	if (q->waits_on)
		return 1;
	if (!fenced(q) && !(q->head.opcode == ORI_WQE_WAIT && waits(p, q)))
		return 0;
	p->stats.stalls += !q->stalled;
	q->stalled = 1;
	return 1;
}

/* ---- starting -------------------------------------------------------------------------------- */

/*
 * The WQE is copied once and the copy is checked, because the device may change the slot at any
 * time.
 */
static void take(struct ori_proxy *p, struct proxy_queue *q)
{
	struct ori_wqe w = q->sq[q->next & (q->depth - 1)];
	char why[128] = "";

	q->head_syndrome = (uint8_t)ori_wqe_decode(&w, q->next, q->number, &q->head, why,
						   sizeof(why));
	if (q->head_syndrome) {
		violation(p, q, q->next, "%s", why);
	} else if (q->head.opcode == ORI_WQE_WAIT && !q->core_direct) {
		violation(p, q, q->next, "WAIT on a queue pair that does not support it");
		q->head_syndrome = ORI_SYNDROME_LOCAL_QP_OP;
	}
	q->taken = 1;
	p->stats.wqes++;
}

static void started(struct ori_proxy *p, struct proxy_queue *q, enum proxy_executed how,
		    uint32_t syndrome)
{
	struct proxy_slot *slot = proxy_slot_at(q, q->next);
	int fetches = q->head.kind == ORI_WQE_KIND_READ || q->head.kind == ORI_WQE_KIND_ATOMIC;

	slot->opcode = q->head.opcode;
	slot->flags = q->head.flags;
	slot->bytes = fetches ? q->head.bytes : 0;
	slot->syndrome = how == REFUSED ? proxy_syndrome(syndrome) : 0;
	slot->state = how == POSTED ? SLOT_POSTED : SLOT_COMPLETE;
	if (how == POSTED) {
		q->open++;
		q->open_reads += (uint32_t)fetches;
		p->posted = 1;
		p->stats.posts++;
	}
	q->failing |= how == REFUSED;
	q->taken = 0;
	q->stalled = 0;
	q->next++;
	p->left--;
}

/* Returns 1 when a WQE was started. */
static int start(struct ori_proxy *p, struct proxy_queue *q)
{
	enum proxy_executed how = REFUSED;
	uint32_t syndrome;

	if (q->failing || q->next == q->pi)
		return 0;
	if (!q->taken)
		take(p, q);
	if (blocked(p, q))
		return 0;
	syndrome = q->head_syndrome;
	if (!syndrome)
		how = ori_proxy_execute(p, q, &syndrome);
	if (how == TRY_AGAIN) {
		p->stats.again++;
		p->again[q->place / 64] |= 1ull << (q->place % 64);
		return 0;
	}
	started(p, q, how, syndrome);
	return 1;
}

void ori_proxy_start(struct ori_proxy *p, struct proxy_queue *q)
{
	while (p->left > 0 && q->state == QUEUE_READY)
		if (!start(p, q))
			return;
	if (q->state == QUEUE_READY)
		proxy_activate(p, q);
}
