/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/post.c - operations passed to libfabric, and their results.
 *
 * A completion means that written data is placed at the peer.  Every post asks the provider for
 * that, or confirm.c finds it out (f->lazy).
 *
 * A signal word is written as an atomic if the provider has atomics.  A provider that copies by CPU
 * (tcp) may place the 8 bytes of a plain write in two parts, and plain copies have no order between
 * threads.  Its atomics have: libfabric 1.17 on aarch64 adds by casal and writes by stlr (seen with
 * a watchpoint).  So a thread that sees the word sees the data copied before it.
 *
 * Called within ori_proxy_step(), under the engine's lock.
 */
#include <errno.h>
#include <string.h>

#include <oriel/device/wqe.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "../../util/util.h"
#include "ofi.h"

static const char *const kind_names[] = { "",          "write",        "write",   "read",
					  "fetch-add", "compare-swap", "confirm", "ping" };

/* ---- errors ---------------------------------------------------------------------------------- */

uint32_t ori_ofi_syndrome(int err)
{
	switch (err) {
	case FI_EACCES:
	case FI_EPERM:
	case FI_EKEYREJECTED:
		return ORI_SYNDROME_REMOTE_ACCESS;
	case FI_EINVAL:
	case FI_ENOSYS:
	case FI_EOPNOTSUPP:
	case FI_EBADFLAGS:
	case FI_EOPBADSTATE:
		return ORI_SYNDROME_REMOTE_INVALID;
	case FI_EMSGSIZE:
	case FI_ETRUNC:
	case FI_ETOOSMALL:
		return ORI_SYNDROME_LOCAL_LENGTH;
	case FI_EFAULT:
	case FI_ENOKEY:
		return ORI_SYNDROME_LOCAL_PROT;
	case FI_ENOMEM:
	case FI_ENORX:
	case FI_EREMOTEIO:
		return ORI_SYNDROME_REMOTE_OP;
	default:
		/*
		 * Connection refused, reset, shut down, unreachable, timed out, EIO.  Also
		 * ECANCELED: nothing is cancelled here, so the provider did it when the connection
		 * broke.
		 */
		return ORI_SYNDROME_RETRY_EXCEEDED;
	}
}

/* ---- posting --------------------------------------------------------------------------------- */

static struct ofi_op *take_op(struct ofi_fabric *f, const struct ori_proxy_op *from,
			      enum ofi_kind kind)
{
	struct ofi_link *link = from->link;
	struct ofi_op *op = ori_ofi_op_take(f, kind, link->peer);

	if (!op)
		return NULL;
	op->cookie = from->cookie;
	op->link = link;
	return op;
}

/* The result of a post: 0, -EAGAIN or a syndrome. */
static int posted(struct ofi_fabric *f, struct ofi_op *op, ssize_t err)
{
	struct ofi_link *link = op->link;
	struct ofi_peer *peer = op->peer;
	const char *what = kind_names[op->kind];

	if (!err) {
		peer->open++;
		peer->stuck_ns = 0;
		ori_ofi_confirm_posted(f, op);
		return 0;
	}
	ori_ofi_op_give(f, op);
	if (err == -FI_EAGAIN) {
		/* no room, or the connection is being made */
		if (!peer->lost && !ori_ofi_lost_stuck(f, peer))
			return -EAGAIN;
		ori_ofi_tell(f, link, "connection", FI_ETIMEDOUT,
			     "the provider accepts no operations to it");
		return ORI_SYNDROME_RETRY_EXCEEDED;
	}
	ori_ofi_tell(f, link, what, (int)-err, "not taken");
	return (int)ori_ofi_syndrome((int)-err);
}

static void *desc_of(uint64_t cookie)
{
	return (void *)(uintptr_t)cookie;
}

static ssize_t write_from(struct ofi_fabric *f, const struct ori_proxy_op *from, struct ofi_op *op,
			  void *source, void *desc)
{
	struct iovec iov = { source, from->bytes };
	struct fi_rma_iov rma = { from->remote, from->bytes, from->remote_cookie };
	struct fi_msg_rma msg = { .msg_iov = &iov,
				  .desc = &desc,
				  .iov_count = 1,
				  .addr = op->peer->address,
				  .rma_iov = &rma,
				  .rma_iov_count = 1,
				  .context = op };

	return fi_writemsg(f->end.ep, &msg, FI_COMPLETION | (f->lazy ? 0 : FI_DELIVERY_COMPLETE));
}

int ori_ofi_post_write(void *fabric, const struct ori_proxy_op *from)
{
	struct ofi_fabric *f = fabric;
	struct ofi_op *op = take_op(f, from, OFI_WRITE);

	if (!op)
		return -EAGAIN;
	return posted(f, op, write_from(f, from, op, from->local, desc_of(from->local_cookie)));
}

static ssize_t write_word(struct ofi_fabric *f, const struct ori_proxy_op *from, struct ofi_op *op)
{
	memcpy(&op->operand, from->data, sizeof(op->operand));
	return fi_atomic(f->end.ep, &op->operand, 1, f->ops_region.desc, op->peer->address,
			 from->remote, from->remote_cookie, FI_UINT64, FI_ATOMIC_WRITE, op);
}

int ori_ofi_post_write_inline(void *fabric, const struct ori_proxy_op *from)
{
	struct ofi_fabric *f = fabric;
	int word = f->atomics && from->bytes == 8 && !(from->remote & 7);
	struct ofi_op *op = take_op(f, from, word ? OFI_WORD : OFI_WRITE);

	if (!op)
		return -EAGAIN;
	if (word)
		return posted(f, op, write_word(f, from, op));
	memcpy(op->data, from->data, from->bytes);
	return posted(f, op, write_from(f, from, op, op->data, f->ops_region.desc));
}

int ori_ofi_post_read(void *fabric, const struct ori_proxy_op *from)
{
	struct ofi_fabric *f = fabric;
	struct ofi_op *op = take_op(f, from, OFI_READ);

	if (!op)
		return -EAGAIN;
	return posted(f, op,
		      fi_read(f->end.ep, from->local, from->bytes, desc_of(from->local_cookie),
			      op->peer->address, from->remote, from->remote_cookie, op));
}

int ori_ofi_post_fetch_add(void *fabric, const struct ori_proxy_op *from)
{
	struct ofi_fabric *f = fabric;
	struct ofi_op *op;

	if (!f->atomics)
		return ORI_SYNDROME_REMOTE_INVALID;
	op = take_op(f, from, OFI_FETCH_ADD);
	if (!op)
		return -EAGAIN;
	op->operand = from->swap_add;
	return posted(f, op,
		      fi_fetch_atomic(f->end.ep, &op->operand, 1, f->ops_region.desc, from->local,
				      desc_of(from->local_cookie), op->peer->address, from->remote,
				      from->remote_cookie, FI_UINT64, FI_SUM, op));
}

int ori_ofi_post_compare_swap(void *fabric, const struct ori_proxy_op *from)
{
	struct ofi_fabric *f = fabric;
	struct ofi_op *op;

	if (!f->atomics)
		return ORI_SYNDROME_REMOTE_INVALID;
	op = take_op(f, from, OFI_COMPARE_SWAP);
	if (!op)
		return -EAGAIN;
	op->operand = from->swap_add;
	op->compare = from->compare;
	return posted(f, op,
		      fi_compare_atomic(f->end.ep, &op->operand, 1, f->ops_region.desc,
					&op->compare, f->ops_region.desc, from->local,
					desc_of(from->local_cookie), op->peer->address,
					from->remote, from->remote_cookie, FI_UINT64, FI_CSWAP,
					op));
}

/* ---- completions ----------------------------------------------------------------------------- */

/* An operation has ended and becomes free.  Returns 1 if it must be reported. */
static int ended(struct ofi_fabric *f, struct ofi_op *op, uint32_t syndrome,
		 struct ori_proxy_completion *out)
{
	int own = op->kind >= OFI_CONFIRM, told = op->reported;

	if (op->kind == OFI_PING)
		ori_ofi_lost_answered(op->peer, !syndrome);
	else
		op->peer->ended++;
	if (op->kind != OFI_PING && !told)
		op->peer->open--;
	out->cookie = op->cookie;
	out->syndrome = syndrome;
	f->lost_ops -= op->lost && !told;
	ori_ofi_op_give(f, op);
	return !own && !told;
}

/* Takes one failed operation.  Returns how many there are to report. */
static int take_error(struct ofi_fabric *f, struct ori_proxy_completion *out)
{
	struct fi_cq_err_entry entry = { 0 };
	char detail[96] = "";
	struct ofi_op *op;

	if (fi_cq_readerr(f->end.cq, &entry, 0) < 0)
		return 0;
	op = entry.op_context;
	if (entry.prov_errno)
		(void)fi_cq_strerror(f->end.cq, entry.prov_errno, entry.err_data, detail,
				     sizeof(detail));
	if (!op) {
		ori_log(ORI_LOG_WARN, "ofi: the provider reports: %s%s%s",
			ori_ofi_error(f->end.lib, entry.err), *detail ? ": " : "", detail);
		return 0;
	}
	if (op->link)
		ori_ofi_tell(f, op->link, kind_names[op->kind], entry.err, detail);
	if (!op->peer->broken_ns)
		op->peer->broken_ns = ori_now_ns();
	return ended(f, op, ori_ofi_syndrome(entry.err), out);
}

int ori_ofi_progress(void *fabric, struct ori_proxy_completion *out, int room)
{
	struct ofi_fabric *f = fabric;
	struct fi_cq_entry entries[32];
	size_t want = room < (int)ORI_COUNT(entries) ? (size_t)room : ORI_COUNT(entries);
	ssize_t n = fi_cq_read(f->end.cq, entries, want);
	struct ofi_op *op;
	int count = 0;

	if (n == -FI_EAVAIL)
		return take_error(f, out);
	for (ssize_t i = 0; i < n; i++)
		if (ori_ofi_confirm_ended(f, entries[i].op_context))
			count += ended(f, entries[i].op_context, 0, &out[count]);
	while (count < room && (op = ori_ofi_confirm_ready(f)) != NULL)
		count += ended(f, op, 0, &out[count]);
	ori_ofi_lost_check(f);
	if (f->lost_ops)
		count += ori_ofi_lost_report(f, out + count, room - count);
	if (f->unasked)
		ori_ofi_confirm_ask(f);
	return count;
}

/*
 * The provider ends open operations by itself, with success or error.  lost.c finds those that it
 * forgets.
 */
void ori_ofi_flush(void *fabric, void *link)
{
	(void)fabric;
	((struct ofi_link *)link)->dead = 1;
}
