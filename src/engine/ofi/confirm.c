/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/confirm.c - finds out when a write is placed at the peer.
 *
 * Some providers (tcp) send an acknowledgement for each write.  A put with a signal would then cost
 * three messages.
 *
 * The signal is an atomic, and the peer answers it.  With one stream per peer, that answer also
 * confirms all writes before it.  So writes are posted without acknowledgement.  After they left,
 * they are kept until the peer answers something posted behind them on their link: an atomic, a
 * read, a word.  At the end of a step, writes without such a successor cause a question: 8 bytes of
 * the peer are read.  One question per link is open at a time; writes that follow it share the next
 * one.
 *
 * Used if f->lazy.  Otherwise every write is reported when it ends.  Called within
 * ori_proxy_step().
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

/* All writes of the link before number `answered` are placed: reports them. */
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
 * Inserts in the order of the numbers.  Writes of one stream leave in that order, but this code
 * does not depend on it.
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

/* Only for lost operations, so the length of the list does not matter. */
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

	/* lost.c decides about a broken connection. */
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
