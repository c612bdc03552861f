/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/ops.c - the records of open operations, and the log line of a link's first failure.
 *
 * Called within ori_proxy_step(), under the engine's lock.
 */
#include "../../util/util.h"
#include "ofi.h"

struct ofi_op *ori_ofi_op_take(struct ofi_fabric *f, enum ofi_kind kind, struct ofi_peer *peer)
{
	struct ofi_op *op = f->free_ops;

	if (!op)
		return NULL;
	f->free_ops = op->next;
	op->kind = (uint8_t)kind;
	op->peer = peer;
	op->link = NULL;
	op->lost = op->reported = op->left = 0;
	return op;
}

void ori_ofi_op_give(struct ofi_fabric *f, struct ofi_op *op)
{
	op->kind = OFI_FREE;
	op->next = f->free_ops;
	f->free_ops = op;
}

void ori_ofi_tell(struct ofi_fabric *f, struct ofi_link *link, const char *what, int err,
		  const char *detail)
{
	if (link->dead)
		return;
	link->dead = 1;
	ori_log(ORI_LOG_WARN, "ofi: %s to rank %d failed: %s%s%s", what, link->rank,
		ori_ofi_error(f->end.lib, err), *detail ? ": " : "", detail);
}
