/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/cq.c - completions, and the flush after an error.
 *
 * Takes completions from the back end in any order.  Gives the device one CQE per WQE, in order.
 *
 * Owns ci and the CQ memory.  Layout and phase are those of engine/soft/cq.c: a device cannot tell
 * which of the two it polls.  Called within ori_proxy_step().
 */
#include <string.h>

#include "state.h"

#define INDEX_MASK ((1ull << PROXY_INDEX_BITS) - 1)

/*
 * For the device, CQE number n is valid if the opcode is not INVALID and the owner bit is that of
 * n's lap.  Fresh entries have neither.
 */
void ori_proxy_cq_init(struct proxy_queue *q)
{
	memset(q->cq, 0, q->depth * sizeof(*q->cq));
	for (uint32_t i = 0; i < q->depth; i++) {
		uint64_t n = q->cq_count + i;

		q->cq[n & (q->depth - 1)].op_own = (uint8_t)(ORI_CQE_INVALID << 4 |
							     !((n / q->depth) & 1));
	}
}

/* ---- from the back end ----------------------------------------------------------------------- */

/*
 * A cookie that is not open here (its queue is gone, or it was reported twice) changes nothing.  It
 * is counted, so that a faulty back end can be found.
 */
void ori_proxy_cq_completed(struct ori_proxy *p, const struct ori_proxy_completion *c)
{
	struct proxy_queue *q = proxy_queue_find(p, (uint32_t)(c->cookie >> PROXY_INDEX_BITS));
	uint64_t ahead = q ? (c->cookie - q->ci) & INDEX_MASK : 0;
	struct proxy_slot *slot = q ? proxy_slot_at(q, q->ci + ahead) : NULL;

	if (!q || ahead >= q->next - q->ci || slot->state != SLOT_POSTED) {
		p->stats.strays++;
		return;
	}
	slot->state = SLOT_COMPLETE;
	slot->syndrome = c->syndrome ? proxy_syndrome(c->syndrome) : 0;
	q->open--;
	q->open_reads -= slot->opcode != ORI_WQE_RDMA_WRITE;
	q->failing |= slot->syndrome != 0;
	proxy_activate(p, q);
}

/* ---- to the device --------------------------------------------------------------------------- */

void ori_proxy_cq_unwait(struct proxy_queue *q)
{
	struct proxy_queue **at;

	if (!q->waits_on)
		return;
	at = &q->waits_on->waiters;
	while (*at != q)
		at = &(*at)->next_waiter;
	*at = q->next_waiter;
	q->waits_on = q->next_waiter = NULL;
}

static void activate_waiters(struct ori_proxy *p, struct proxy_queue *q)
{
	while (q->waiters) {
		struct proxy_queue *w = q->waiters;

		ori_proxy_cq_unwait(w);
		proxy_activate(p, w);
	}
}

static void write_cqe(struct ori_proxy *p, struct proxy_queue *q, uint32_t opcode,
		      uint32_t syndrome, uint32_t bytes)
{
	struct ori_cqe *cqe = &q->cq[q->cq_count & (q->depth - 1)];
	struct ori_cqe body = { .syndrome = (uint8_t)syndrome };
	uint32_t code = syndrome ? ORI_CQE_REQ_ERR : ORI_CQE_REQ;
	uint32_t owner = (uint32_t)(q->cq_count / q->depth) & 1, count = ori_be32(bytes), word;

	body.opcode_qpn = ori_be32(opcode << 24 | q->number);
	memcpy(&body.reserved0[0x2c], &count, sizeof(count));
	memcpy(cqe, &body, offsetof(struct ori_cqe, wqe_counter));
	/* wqe_counter (big-endian), signature 0, op_own: in memory order */
	word = ori_be16((uint16_t)q->ci) | (code << 4 | owner) << 24;
	if (p->attr.completed)
		p->attr.completed(p->attr.failed_ctx, q->number, q->cq_count);
	/*
	 * [PROXY6] release, sys; partner [QUEUE5] in ori_queue_poll().  Publishes the body, earlier
	 * writes of the fabric or the proxy, and that the WQE's slot and source are free.  Without
	 * it a poster could count the WQE as complete and read the old answer.
	 */
	__atomic_store_n((uint32_t *)(void *)&cqe->wqe_counter, word, __ATOMIC_RELEASE);
	if (syndrome && !q->bad) {
		q->bad = 1;
		q->first_bad = q->cq_count;
	}
	q->cq_count++;
	p->stats.cqes++;
	activate_waiters(p, q);
}

static void retire(struct ori_proxy *p, struct proxy_queue *q)
{
	proxy_slot_at(q, q->ci)->state = SLOT_FREE;
	q->ci++;
	p->outstanding--;
	p->left--;
}

static void complete(struct ori_proxy *p, struct proxy_queue *q)
{
	const struct proxy_slot *slot = proxy_slot_at(q, q->ci);

	if ((slot->flags >> 2 & 3) >= 2)
		write_cqe(p, q, slot->opcode, 0, slot->bytes);
	retire(p, q);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/*
 * The comm is told before the CQE is visible.  So a thread that sees an error in the queue finds
 * its cause in the comm.
 */
static void tell(struct ori_proxy *p, struct proxy_queue *q, uint32_t syndrome)
{
	if (q->told)
		return;
	q->told = 1;
	p->stats.errors++;
	if (p->attr.failed)
		p->attr.failed(p->attr.failed_ctx, q->number, q->ci, syndrome);
}

void ori_proxy_cq_error(struct ori_proxy *p, struct proxy_queue *q, uint32_t syndrome)
{
	if (q->state == QUEUE_ERROR)
		return;
	q->state = QUEUE_ERROR;
	q->error = proxy_syndrome(syndrome);
	ori_proxy_cq_unwait(q);
	proxy_activate(p, q);
	if (q->link)
		p->backend.flush(p->attr.backend_ctx, q->link);
}

static uint32_t opcode_of(const struct proxy_queue *q, uint64_t idx)
{
	if (idx < q->next)
		return proxy_slot_at(q, idx)->opcode;
	if (idx == q->next && q->taken)
		return q->head.opcode;
	return ori_be32(q->sq[idx & (q->depth - 1)].ctrl.opmod_idx_opcode) & 0xff;
}

static void flush_one(struct ori_proxy *p, struct proxy_queue *q)
{
	uint32_t syndrome = q->error ? q->error : ORI_SYNDROME_FLUSHED;

	tell(p, q, syndrome);
	q->error = 0;
	write_cqe(p, q, opcode_of(q, q->ci), syndrome, 0);
	retire(p, q);
}

/*
 * While the back end has an operation, its memory is in use.  So its CQE, which frees the memory,
 * waits.
 */
static int held(const struct proxy_queue *q)
{
	return q->ci < q->next && proxy_slot_at(q, q->ci)->state == SLOT_POSTED;
}

static void flush(struct ori_proxy *p, struct proxy_queue *q)
{
	/*
	 * All waits end now, even if the back end takes long to drop its operations, or no WQE has
	 * the error.
	 */
	tell(p, q, q->error ? q->error : ORI_SYNDROME_FLUSHED);
	if (q->ci == q->pi)
		q->error = 0;
	while (p->left > 0 && q->ci < q->pi && !held(q))
		flush_one(p, q);
	if (q->next < q->ci) {
		q->next = q->ci;
		q->taken = 0;
	}
	if (q->ci < q->pi && !held(q))
		proxy_activate(p, q);
}

void ori_proxy_cq_run(struct ori_proxy *p, struct proxy_queue *q)
{
	while (p->left > 0 && q->state == QUEUE_READY && q->ci < q->next) {
		const struct proxy_slot *slot = proxy_slot_at(q, q->ci);

		if (slot->state != SLOT_COMPLETE)
			break;
		if (slot->syndrome)
			ori_proxy_cq_error(p, q, slot->syndrome);
		else
			complete(p, q);
	}
	if (q->state == QUEUE_ERROR)
		flush(p, q);
	else if (p->left <= 0)
		proxy_activate(p, q);
}
