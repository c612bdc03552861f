/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/post.c - the proxy's operations as work requests, and their completions.
 *
 * Every post has a place in a table until its completion is reported.  There are as many places as
 * CQ entries.  A post that finds no room leaves nothing behind.  In a stream of posts only some are
 * signalled: a queue pair completes in order, so one completion stands for all posts before it.  If
 * a stream ends with unsignalled posts, a signalled empty write (a marker) follows them.  Called
 * within ori_proxy_step().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "verbs.h"

#define SIGNAL_BELOW 4u  /* with fewer open posts, every post is signalled and needs no marker */
#define SIGNAL_EVERY 16u /* with more, one of this many */

int verbs_ops_create(struct verbs_fabric *f, uint32_t room)
{
	f->ops = calloc(room, sizeof(*f->ops));
	if (!f->ops)
		return ori_fail(ORIEL_ENOMEM, "no memory for %u open operations", room);
	f->ops_room = room;
	for (uint32_t i = 0; i < room; i++)
		f->ops[i].next = i + 1;
	f->ops_free = 0;
	return 0;
}

/* ---- posts ----------------------------------------------------------------------------------- */

/* The work request is posted: takes the first free place, at the end of the link's list. */
static void take_place(struct verbs_fabric *f, struct verbs_link *l, uint64_t cookie, int signalled,
		       int marker)
{
	uint32_t at = f->ops_free;
	struct verbs_op *place = &f->ops[at];

	f->ops_free = place->next;
	*place = (struct verbs_op){ .cookie = cookie,
				    .link = l,
				    .next = VERBS_NONE,
				    .signalled = (uint8_t)signalled,
				    .marker = (uint8_t)marker };
	if (l->last == VERBS_NONE)
		l->first = at;
	else
		f->ops[l->last].next = at;
	l->last = at;
	l->signalled += (uint32_t)signalled;
	l->since = signalled ? 0 : l->since + 1;
	l->open += !marker;
}

static int post(struct verbs_fabric *f, const struct ori_proxy_op *op, struct ibv_send_wr *wr)
{
	struct verbs_link *l = op->link;
	int signalled = !l->signalled || l->open < SIGNAL_BELOW || l->since + 1 >= SIGNAL_EVERY;
	struct ibv_send_wr *bad;
	int err;

	if (l->broken)
		return ORI_SYNDROME_FLUSHED;
	if (l->open == l->room || f->ops_free == f->ops_room)
		return -EAGAIN;
	wr->wr_id = f->ops_free;
	if (signalled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(l->qp, wr, &bad);
	/* The queue is full although the count says otherwise: open posts will make room. */
	if ((err == ENOMEM || err == EAGAIN) && l->open)
		return -EAGAIN;
	if (err) {
		ori_log(ORI_LOG_WARN, "%s: a post to rank %d was refused: %s", f->name, l->rank,
			strerror(err));
		return ORI_SYNDROME_LOCAL_QP_OP;
	}
	take_place(f, l, op->cookie, signalled, 0);
	l->posts++;
	return 0;
}

/*
 * Posts a marker behind unsignalled posts.  Without room now, it is posted when something
 * completes.
 */
static void post_marker(struct verbs_fabric *f, struct verbs_link *l)
{
	struct ibv_send_wr wr = { .wr_id = f->ops_free,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (l->broken)
		return; /* the device flushes all of them, signalled or not */
	if (f->ops_free == f->ops_room || ibv_post_send(l->qp, &wr, &bad))
		f->unmarked++;
	else
		take_place(f, l, 0, 1, 1);
}

static void post_markers(struct verbs_fabric *f)
{
	f->unmarked = 0;
	for (struct verbs_link *l = f->links; l; l = l->next)
		if (l->open && !l->signalled)
			post_marker(f, l);
}

static int post_rdma(struct verbs_fabric *f, const struct ori_proxy_op *op,
		     enum ibv_wr_opcode opcode, struct ibv_sge *piece, unsigned int flags)
{
	struct ibv_send_wr wr = {
		.sg_list = piece, .num_sge = 1, .opcode = opcode, .send_flags = flags
	};

	wr.wr.rdma.remote_addr = op->remote;
	wr.wr.rdma.rkey = (uint32_t)op->remote_cookie;
	return post(f, op, &wr);
}

static struct ibv_sge piece_of(const struct ori_proxy_op *op)
{
	struct ibv_sge piece = { .addr = (uint64_t)(uintptr_t)op->local,
				 .length = op->bytes,
				 .lkey = (uint32_t)op->local_cookie };

	return piece;
}

int verbs_post_write(void *ctx, const struct ori_proxy_op *op)
{
	struct ibv_sge piece = piece_of(op);

	return post_rdma(ctx, op, IBV_WR_RDMA_WRITE, &piece, 0);
}

int verbs_post_read(void *ctx, const struct ori_proxy_op *op)
{
	struct ibv_sge piece = piece_of(op);

	return post_rdma(ctx, op, IBV_WR_RDMA_READ, &piece, 0);
}

/*
 * The data are read during the call, or copied.  Posts of a queue pair complete in order.  So the
 * next piece of the bounce buffer is free whenever fewer than `room` posts are open.
 */
int verbs_post_write_inline(void *ctx, const struct ori_proxy_op *op)
{
	struct verbs_link *l = op->link;
	struct ibv_sge piece = { .addr = (uint64_t)(uintptr_t)op->data, .length = op->bytes };
	uint8_t *at;

	if (!l->bounce)
		return post_rdma(ctx, op, IBV_WR_RDMA_WRITE, &piece, IBV_SEND_INLINE);
	if (l->open == l->room)
		return -EAGAIN;
	at = l->bounce + l->posts % l->room * (l->bounce_mr->length / l->room);
	memcpy(at, op->data, op->bytes);
	piece.addr = (uint64_t)(uintptr_t)at;
	piece.lkey = l->bounce_mr->lkey;
	return post_rdma(ctx, op, IBV_WR_RDMA_WRITE, &piece, 0);
}

static int post_atomic(struct verbs_fabric *f, const struct ori_proxy_op *op,
		       enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge piece = piece_of(op);
	struct ibv_send_wr wr = { .sg_list = &piece, .num_sge = 1, .opcode = opcode };

	if (!(f->base.link_flags & ORIEL_LINK_ATOMICS))
		return ORI_SYNDROME_REMOTE_INVALID;
	piece.length = 8;
	wr.wr.atomic.remote_addr = op->remote;
	wr.wr.atomic.rkey = (uint32_t)op->remote_cookie;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return post(f, op, &wr);
}

int verbs_post_fetch_add(void *ctx, const struct ori_proxy_op *op)
{
	return post_atomic(ctx, op, IBV_WR_ATOMIC_FETCH_AND_ADD, op->swap_add, 0);
}

int verbs_post_compare_swap(void *ctx, const struct ori_proxy_op *op)
{
	return post_atomic(ctx, op, IBV_WR_ATOMIC_CMP_AND_SWP, op->compare, op->swap_add);
}

/* ---- completions ----------------------------------------------------------------------------- */

static void log_error(const struct verbs_fabric *f, const struct verbs_link *l,
		      const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR)
		ori_log(ORI_LOG_INFO,
			"%s: an operation to rank %d ended with \"%s\", vendor code 0x%x", f->name,
			l->rank, f->lib->status_text(wc->status), wc->vendor_err);
}

/* The oldest post of a link is complete.  Returns 1 if the proxy must be told. */
static int retire(struct verbs_fabric *f, struct verbs_link *l, uint32_t syndrome,
		  struct ori_proxy_completion *out)
{
	uint32_t at = l->first;
	struct verbs_op *place = &f->ops[at];
	int told = !place->marker;

	if (told) {
		out->cookie = place->cookie;
		out->syndrome = syndrome;
		l->open--;
	}
	l->signalled -= place->signalled;
	l->first = place->next;
	if (l->first == VERBS_NONE)
		l->last = VERBS_NONE;
	place->link = NULL;
	place->next = f->ops_free;
	f->ops_free = at;
	return told;
}

/*
 * Retires all posts up to the completed one, as far as there is room.  Only the completed one may
 * have failed.
 */
static int retire_ending(struct verbs_fabric *f, struct ori_proxy_completion *out, int room)
{
	struct verbs_link *l = f->ending;
	int n = 0;

	while (f->ending && n < room) {
		int last = l->first == f->upto;

		n += retire(f, l, last ? f->upto_syndrome : 0, &out[n]);
		if (last)
			f->ending = NULL;
	}
	if (!f->ending && l && l->open && !l->signalled)
		post_marker(f, l);
	return n;
}

static int complete(struct verbs_fabric *f, const struct ibv_wc *wc,
		    struct ori_proxy_completion *out, int room)
{
	struct verbs_link *l = wc->wr_id < f->ops_room ? f->ops[wc->wr_id].link : NULL;

	if (!l)
		return 0; /* belongs to no post: the device has completed it twice */
	log_error(f, l, wc);
	f->ending = l;
	f->upto = (uint32_t)wc->wr_id;
	f->upto_syndrome = verbs_status_syndrome(wc->status);
	return retire_ending(f, out, room);
}

/* Takes one completion at a time, because it may stand for any number of posts. */
static int next_wc(struct verbs_fabric *f, struct ibv_wc *out)
{
	if (!f->kept)
		return ibv_poll_cq(f->cq, 1, out) > 0;
	*out = f->kept_wc;
	f->kept = 0;
	return 1;
}

int verbs_progress(void *ctx, struct ori_proxy_completion *out, int room)
{
	struct verbs_fabric *f = ctx;
	int n = retire_ending(f, out, room), got = n;
	struct ibv_wc wc;

	while (n < room && !f->ending && next_wc(f, &wc)) {
		n += complete(f, &wc, out + n, room - n);
		got = 1;
	}
	if (f->unmarked)
		post_markers(f);
	if (!got && ++f->looks >= VERBS_LOOKS_PER_EVENT) {
		f->looks = 0;
		verbs_events_take(f);
	}
	return n;
}

void verbs_flush(void *ctx, void *link)
{
	(void)ctx;
	verbs_link_break(link);
}
