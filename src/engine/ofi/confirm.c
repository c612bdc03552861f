/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/confirm.c - when is a write placed at the peer?  Where the provider sends an
 * acknowledgement for each (tcp), a put with a signal would cost three messages.
 *
 * The signal is an atomic, and the peer answers it: with one stream a peer, that answer confirms
 * all writes before it too.  So writes are posted without acknowledgement, and kept after they left
 * until something posted behind them on their link is answered: an atomic, a read, a word.  What is
 * still without at the end of a step is asked about: 8 bytes of the peer are read.  One question of
 * a link is open at a time; writes that follow it share the next one.
 *
 * Used when f->lazy; else every write is reported when it ends.  Called within ori_proxy_step().
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "ofi.h"

void ori_ofi_confirm_posted(struct ofi_fabric *f, struct ofi_op *op)
{
	struct ofi_link *l = op->link;

	if (!f->lazy)
		return;
	op->number = ++l->posted;
	if (op->kind != OFI_WRITE) {
		l->asked = op->number;
		return;
	}
	l->last_write = op->number;
	if (l->unasked)
		return;
	l->unasked = 1;
	l->next_unasked = f->unasked;
	f->unasked = l;
}

/* All writes of the link before number `answered` are placed. */
static void confirm(struct ofi_fabric *f, struct ofi_link *l)
{
	while (l->sent && l->sent->number < l->answered) {
		struct ofi_op *op = l->sent;

		l->sent = op->next;
		op->left = OFI_READY;
		op->next = NULL;
		if (f->ready)
			f->ready_last->next = op;
		else
			f->ready = op;
		f->ready_last = op;
	}
}

/*
 * In the order of their numbers: writes of one stream leave in it, but nothing here depends on
 * that.
 */
static void keep(struct ofi_link *l, struct ofi_op *op)
{
	struct ofi_op **at = &l->sent;

	if (l->sent && l->sent_last->number < op->number)
		at = &l->sent_last->next;
	while (*at && (*at)->number < op->number)
		at = &(*at)->next;
	op->next = *at;
	*at = op;
	op->left = OFI_SENT;
	if (!op->next)
		l->sent_last = op;
}

int ori_ofi_confirm_ended(struct ofi_fabric *f, struct ofi_op *op)
{
	struct ofi_link *l = op->link;

	if (!f->lazy || !l || op->reported)
		return 1;
	if (op->kind == OFI_WRITE) {
		if (op->number < l->answered)
			return 1;
		keep(l, op);
		return 0;
	}
	if (op->kind == OFI_CONFIRM)
		l->asking = 0;
	if (op->number > l->answered) {
		l->answered = op->number;
		confirm(f, l);
	}
	return 1;
}

struct ofi_op *ori_ofi_confirm_ready(struct ofi_fabric *f)
{
	struct ofi_op *op = f->ready;

	if (op)
		f->ready = op->next;
	return op;
}

/* Only for operations that are lost: long lists do not matter. */
void ori_ofi_confirm_drop(struct ofi_op *op)
{
	struct ofi_op **at = &op->link->sent, *before = NULL;

	while (*at != op) {
		before = *at;
		at = &before->next;
	}
	*at = op->next;
	if (op->link->sent_last == op)
		op->link->sent_last = before;
	op->left = 0;
}

/* Returns 0 if it must be tried again. */
static int ask(struct ofi_fabric *f, struct ofi_link *l)
{
	struct ofi_op *op;
	ssize_t err;

	/* of a broken connection lost.c will have the last word */
	if (l->asked > l->last_write || l->peer->broken_ns || l->peer->lost)
		return 1;
	if (l->asking)
		return 0;
	op = ori_ofi_op_take(f, OFI_CONFIRM, l->peer);
	if (!op)
		return 0;
	op->link = l;
	err = fi_read(f->end.ep, op->data, 8, f->ops_region.desc, l->peer->address, l->peer->ping,
		      l->peer->ping_key, op);
	if (!err) {
		l->peer->open++;
		l->asking = 1;
		ori_ofi_confirm_posted(f, op);
		return 1;
	}
	ori_ofi_op_give(f, op);
	return 0;
}

void ori_ofi_confirm_ask(void *fabric)
{
	struct ofi_fabric *f = fabric;
	struct ofi_link **at = &f->unasked, *l;

	while ((l = *at) != NULL) {
		if (!ask(f, l)) {
			at = &l->next_unasked;
			continue;
		}
		*at = l->next_unasked;
		l->unasked = 0;
	}
}
