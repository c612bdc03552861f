/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/lost.c - peers that do not answer, and operations that the provider has forgotten.
 *
 * A provider may lose operations without an error.  With tcp;ofi_rxm 1.17, an atomic that was sent
 * when the connection broke never ends, and a post to a dead peer returns -FI_EAGAIN for ever.  So
 * a peer that is silent while operations are open is pinged: 8 bytes of its memory are read.  The
 * peer is given up, with all its open operations,
 *
 *  - some time after an operation failed: the connection is gone;
 *  - if the provider takes no ping for a long time: no connection can be made;
 *  - if a ping was answered, but earlier operations were not (where the provider keeps order).
 *
 * A peer that is only slow takes the ping and answers it late, after the other operations.  It is
 * not given up.  Called within progress() and posts, under the engine's lock.
 */
#include <oriel/device/wqe.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "../../util/util.h"
#include "ofi.h"

#define LOOK_EVERY 1024u        /* calls of progress() between checks */
#define QUIET_NS 1000000000ull  /* silence before a ping */
#define BROKEN_NS 1000000000ull /* time for the provider to end the rest after the first failure */
#define ANSWER_NS 5000000000ull /* time for operations that were posted before an answered ping */

static void give_up(struct ofi_fabric *f, struct ofi_peer *p, const char *why)
{
	int n = 0;

	p->lost = 1;
	for (int i = 0; i < OFI_OPS; i++) {
		struct ofi_op *op = &f->ops[i];

		if (op->kind == OFI_FREE || op->kind >= OFI_CONFIRM || op->peer != p || op->lost ||
		    op->left == OFI_READY)
			continue;
		op->lost = 1;
		f->lost_ops++;
		n++;
		ori_ofi_tell(f, op->link, "connection", FI_ETIMEDOUT, why);
	}
	ori_log(ORI_LOG_DEBUG, "ofi: %d operations to rank %d given up: %s", n, (int)(p - f->peers),
		why);
}

int ori_ofi_lost_report(struct ofi_fabric *f, struct ori_proxy_completion *out, int room)
{
	int n = 0;

	for (int i = 0; i < OFI_OPS && n < room; i++) {
		struct ofi_op *op = &f->ops[i];

		if (op->kind == OFI_FREE || !op->lost || op->reported)
			continue;
		op->reported = 1;
		op->peer->open--;
		f->lost_ops--;
		out[n].cookie = op->cookie;
		out[n++].syndrome = ORI_SYNDROME_RETRY_EXCEEDED;
		/* else it is not free yet: the provider may still use its context */
		if (op->left) {
			ori_ofi_confirm_drop(op);
			ori_ofi_op_give(f, op);
		}
	}
	return n;
}

int ori_ofi_lost_stuck(struct ofi_fabric *f, struct ofi_peer *p)
{
	uint64_t now;

	if (p->open)
		return 0; /* only silence counts, not missing room */
	now = ori_now_ns();
	if (!p->stuck_ns)
		p->stuck_ns = now;
	return now - p->stuck_ns >= f->stuck_limit_ns;
}

void ori_ofi_lost_answered(struct ofi_peer *p, int good)
{
	p->pinged = 0;
	if (good)
		p->answer_ns = ori_now_ns();
}

static void ping(struct ofi_fabric *f, struct ofi_peer *p, uint64_t now)
{
	struct ofi_op *op = ori_ofi_op_take(f, OFI_PING, p);
	ssize_t err;

	if (!op)
		return; /* all are in use, also by other peers; their end is awaited */
	err = fi_read(f->end.ep, op->data, 8, f->ops_region.desc, p->address, p->ping, p->ping_key,
		      op);
	if (!err) {
		p->pinged = 1;
		p->stuck_ns = 0;
		return;
	}
	ori_ofi_op_give(f, op);
	if (!p->stuck_ns)
		p->stuck_ns = now;
	if (err != -FI_EAGAIN && !p->broken_ns)
		p->broken_ns = now;
}

static void look_at(struct ofi_fabric *f, struct ofi_peer *p, uint64_t now)
{
	if (!p->open) {
		p->quiet_ns = p->answer_ns = 0;
		return;
	}
	if (!p->quiet_ns || (p->ended != p->ended_seen && !p->broken_ns)) {
		p->quiet_ns = now;
		p->answer_ns = 0;
		p->ended_seen = p->ended;
		return;
	}
	if (p->broken_ns && now - p->broken_ns >= BROKEN_NS)
		give_up(f, p, "the connection broke, and some operations were never reported");
	else if (p->stuck_ns && now - p->stuck_ns >= f->stuck_limit_ns)
		give_up(f, p, "the provider accepts no operations to it");
	else if (p->answer_ns && f->ordered && now - p->answer_ns >= ANSWER_NS)
		give_up(f, p, "the peer answers, but some operations were lost");
	else if (!p->pinged && !p->answer_ns && now - p->quiet_ns >= QUIET_NS)
		ping(f, p, now);
}

void ori_ofi_lost_check(struct ofi_fabric *f)
{
	uint64_t now;

	if (++f->looks % LOOK_EVERY)
		return;
	now = ori_now_ns();
	for (int i = 0; i < f->world.nranks; i++)
		if (!f->peers[i].lost)
			look_at(f, &f->peers[i], now);
}
