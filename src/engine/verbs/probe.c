/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/probe.c - do the device's atomics work?  Two queue pairs of this NIC are connected
 * to each other and execute one fetch-add and one compare-swap.  The words must be right
 * afterwards.
 *
 * Called once when a NIC is opened, before any link.
 */
#include <stdio.h>
#include <string.h>

#include "../../util/util.h"
#include "verbs.h"

#define ANSWER_NS (10 * ORI_NS_PER_S) /* a device that never answers costs this once */

struct probe {
	struct verbs_fabric *f;
	struct verbs_link *near, *far;
	struct ibv_mr *mr;
	uint64_t words[2]; /* [0] is the target, [1] takes old values */
};

/* Returns NULL, or what went wrong. */
static const char *execute(struct probe *p, enum ibv_wr_opcode opcode, uint64_t compare_add,
			   uint64_t swap)
{
	uint64_t deadline = ori_now_ns() + ANSWER_NS;
	struct ibv_sge piece = { .addr = (uint64_t)(uintptr_t)&p->words[1],
				 .length = 8,
				 .lkey = p->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &piece,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;
	int n;

	wr.wr.atomic.remote_addr = (uint64_t)(uintptr_t)&p->words[0];
	wr.wr.atomic.rkey = p->mr->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	if (ibv_post_send(p->near->qp, &wr, &bad))
		return "cannot be posted";
	while (!(n = ibv_poll_cq(p->f->cq, 1, &wc))) {
		if (ori_now_ns() > deadline)
			return "do not complete";
		ori_sleep_ns(1000);
	}
	if (n < 0)
		return "cannot be polled for";
	return wc.status == IBV_WC_SUCCESS ? NULL : p->f->lib->status_text(wc.status);
}

static const char *try_both(struct probe *p)
{
	const char *wrong;

	p->words[0] = 40;
	wrong = execute(p, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0);
	if (wrong)
		return wrong;
	if (p->words[0] != 42 || p->words[1] != 40)
		return "gave a wrong sum";
	wrong = execute(p, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 7);
	if (wrong)
		return wrong;
	return p->words[0] != 7 || p->words[1] != 42 ? "gave a wrong swap" : NULL;
}

static int connect(struct probe *p)
{
	struct verbs_address own;
	int err;

	verbs_address_own(p->f, &own);
	err = verbs_link_create(p->f, 0, &p->near);
	if (!err)
		err = verbs_link_create(p->f, 0, &p->far);
	if (!err)
		err = verbs_link_ready(p->near, &own, p->far->qp->qp_num);
	return err ? err : verbs_link_ready(p->far, &own, p->near->qp->qp_num);
}

/* Breaks both ends first, so that nothing of them is left in the CQ when links begin to use it. */
static void disconnect(struct probe *p)
{
	struct ibv_wc wc[4];

	if (p->near)
		verbs_link_destroy(p->near);
	if (p->far)
		verbs_link_destroy(p->far);
	while (ibv_poll_cq(p->f->cq, 4, wc) > 0)
		;
}

int verbs_probe_atomics(struct verbs_fabric *f, char *why, size_t bytes)
{
	struct probe p = { .f = f };
	const char *wrong;
	int err;

	if (f->attr.atomic_cap == IBV_ATOMIC_NONE) {
		snprintf(why, bytes, "no atomics: the device has none");
		return 0;
	}
	p.mr = f->lib->mr_add(f->pd, p.words, sizeof(p.words),
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	err = p.mr ? connect(&p) : 0;
	wrong = !p.mr ? "need memory that cannot be registered" : err ? NULL : try_both(&p);
	disconnect(&p);
	if (p.mr)
		f->lib->mr_remove(p.mr);
	if (err)
		return err;
	if (wrong) {
		snprintf(why, bytes, "no atomics: they %s", wrong);
		return 0;
	}
	f->base.link_flags |= ORIEL_LINK_ATOMICS;
	snprintf(why, bytes, "atomics executed");
	return 0;
}
