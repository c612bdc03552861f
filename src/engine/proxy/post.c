/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/post.c - one WQE that may start: looks up its keys, then executes it here or passes
 * it to the back end.
 *
 * Keys are looked up at each attempt, not when the WQE is taken, because memory may be removed
 * while it waits.  NOP, DUMP, WAIT and the atomics of a loopback are executed here.  So the proxy
 * is the only writer of counter words.  Called within ori_proxy_step().
 */
#include <errno.h>
#include <string.h>

#include "state.h"

static enum proxy_executed refuse(uint32_t *syndrome, uint32_t why)
{
	*syndrome = why;
	return REFUSED;
}

/* ---- loopback -------------------------------------------------------------------------------- */

/*
 * [PROXY7] acq_rel, sys; partners [SIG2] and [SIG4] of the threads that wait for the counter.
 * Publishes the CQE of the operation that is counted, which this thread wrote before.  Without it a
 * thread could see the count and then find the operation incomplete.  Atomic with any CPU of this
 * machine.
 */
static uint64_t modify(uint64_t *word, const struct ori_wqe_op *op)
{
	uint64_t old = op->u.atomic.compare;

	if (op->opcode == ORI_WQE_ATOMIC_FA)
		return __atomic_fetch_add(word, op->u.atomic.swap_add, __ATOMIC_ACQ_REL);
	__atomic_compare_exchange_n(word, &old, op->u.atomic.swap_add, 0, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return old;
}

static enum proxy_executed execute_loopback(struct ori_proxy *p, const struct ori_wqe_op *op,
					    uint32_t *syndrome)
{
	void *result, *word;
	uint64_t old;

	if (op->kind != ORI_WQE_KIND_ATOMIC)
		return refuse(syndrome, ORI_SYNDROME_LOCAL_QP_OP);
	result = ori_proxy_key_find(p, op->lkey, ORI_PROXY_LOCAL_WRITE, op->local, 8, NULL);
	if (!result)
		return refuse(syndrome, ORI_SYNDROME_LOCAL_PROT);
	if (op->remote & 7)
		return refuse(syndrome, ORI_SYNDROME_REMOTE_INVALID);
	word = ori_proxy_key_find(p, op->rkey, ORI_PROXY_REMOTE_ATOMIC, op->remote, 8, NULL);
	if (!word)
		return refuse(syndrome, ORI_SYNDROME_REMOTE_ACCESS);
	if ((uintptr_t)word & 7)
		return refuse(syndrome, ORI_SYNDROME_REMOTE_INVALID); /* the base is not aligned */
	old = modify(word, op);
	memcpy(result, &old, sizeof(old));
	p->stats.local_atomics++;
	return EXECUTED;
}

/* ---- the back end ---------------------------------------------------------------------------- */

static uint32_t find_local(const struct ori_proxy *p, const struct ori_wqe_op *op,
			   struct ori_proxy_op *out)
{
	uint32_t access = op->kind == ORI_WQE_KIND_WRITE ? 0 : ORI_PROXY_LOCAL_WRITE;

	if (op->inlined)
		return 0;
	out->local = ori_proxy_key_find(p, op->lkey, access, op->local, op->bytes,
					&out->local_cookie);
	return out->local ? 0 : ORI_SYNDROME_LOCAL_PROT;
}

static uint32_t find_remote(const struct ori_proxy *p, const struct proxy_queue *q,
			    struct ori_proxy_op *out)
{
	const struct ori_wqe_op *op = &q->head;
	int atomic = op->kind == ORI_WQE_KIND_ATOMIC;
	uint32_t access = atomic                        ? ORI_PROXY_REMOTE_ATOMIC :
			  op->kind == ORI_WQE_KIND_READ ? ORI_PROXY_REMOTE_READ :
							  ORI_PROXY_REMOTE_WRITE;

	if (atomic && op->remote & 7)
		return ORI_SYNDROME_REMOTE_INVALID;
	if (!ori_proxy_remote_find(p, q->rank, op->rkey, access, op->remote, op->bytes,
				   &out->remote, &out->remote_cookie))
		return ORI_SYNDROME_REMOTE_ACCESS;
	return atomic && out->remote & 7 ? ORI_SYNDROME_REMOTE_INVALID : 0;
}

static int hand_over(struct ori_proxy *p, const struct ori_wqe_op *op,
		     const struct ori_proxy_op *out)
{
	void *ctx = p->attr.backend_ctx;

	switch (op->opcode) {
	case ORI_WQE_RDMA_WRITE:
		return op->inlined ? p->backend.post_write_inline(ctx, out) :
				     p->backend.post_write(ctx, out);
	case ORI_WQE_RDMA_READ:
		return p->backend.post_read(ctx, out);
	case ORI_WQE_ATOMIC_FA:
		return p->backend.post_fetch_add(ctx, out);
	default:
		return p->backend.post_compare_swap(ctx, out);
	}
}

static enum proxy_executed post(struct ori_proxy *p, const struct proxy_queue *q,
				uint32_t *syndrome)
{
	const struct ori_wqe_op *op = &q->head;
	struct ori_proxy_op out = { .link = q->link, .bytes = op->bytes };
	uint32_t wrong = find_local(p, op, &out);
	int err;

	if (!wrong)
		wrong = find_remote(p, q, &out);
	if (wrong)
		return refuse(syndrome, wrong);
	out.cookie = (uint64_t)q->number << PROXY_INDEX_BITS |
		     (q->next & ((1ull << PROXY_INDEX_BITS) - 1));
	if (op->inlined) {
		out.data = op->u.data;
	} else if (op->kind == ORI_WQE_KIND_ATOMIC) {
		out.swap_add = op->u.atomic.swap_add;
		out.compare = op->u.atomic.compare;
	}
	err = hand_over(p, op, &out);
	if (!err)
		return POSTED;
	if (err == -EAGAIN)
		return TRY_AGAIN;
	return refuse(syndrome, err > 0 ? (uint32_t)err : ORI_SYNDROME_LOCAL_QP_OP);
}

enum proxy_executed ori_proxy_execute(struct ori_proxy *p, const struct proxy_queue *q,
				      uint32_t *syndrome)
{
	const struct ori_wqe_op *op = &q->head;

	switch (op->opcode) {
	case ORI_WQE_NOP:
	case ORI_WQE_WAIT:
		return EXECUTED;
	case ORI_WQE_DUMP:
		/* The proxy delays no writes to memory, so only the check remains to be done. */
		if (!ori_proxy_key_find(p, op->lkey, 0, op->local, op->bytes, NULL))
			return refuse(syndrome, ORI_SYNDROME_LOCAL_PROT);
		return EXECUTED;
	default:
		return q->rank == p->attr.rank ? execute_loopback(p, op, syndrome) :
						 post(p, q, syndrome);
	}
}
