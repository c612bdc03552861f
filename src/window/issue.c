/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/issue.c - executes one operation of host code on a window.
 *
 * On the CPU a host-issued operation is the device call itself.  A group of one makes it on the
 * caller's thread, with the checked handle.  On a separate device it is a kernel of one block on
 * the caller's stream (kernels/window_ops.c).  Then the arguments are tested here, and an error of
 * the kernel becomes the window's failure.  Any thread may call; two threads may use one window at
 * the same time.
 */
#include "../comm/control.h"
#include "../comm/failure.h"
#include "../comm/links.h"
#include "issue.h"

/* ---- failures -------------------------------------------------------------------------------- */

/*
 * The window's failure word.  0 if the device cannot copy any more: then the comm has failed and
 * says why.
 */
static uint64_t failure_word(struct oriel_window *w)
{
	uint64_t failure;

	(void)ori_comm_device_status(w->comm, ori_control_load(w->comm, w->dev.failure, &failure));
	return failure;
}

int ori_window_failed(struct oriel_window *w)
{
	uint64_t failure = failure_word(w);
	int of_comm = ORIEL_FAILURE_STATUS(ori_comm_failure(w->comm));
	char name[48], text[128];

	/* a wait that the comm's failure ended names the rank it waited for, which may be well */
	if (!failure || of_comm == ORIEL_FAILURE_STATUS(failure))
		return ori_comm_failed(w->comm);
	ori_diag_window_text(w->dev.number, name, sizeof(name));
	ori_failure_text(failure, text, sizeof(text));
	return ori_fail_silent(ORIEL_FAILURE_STATUS(failure), "%s has failed: %s", name, text);
}

/*
 * Reports the first rank that had no queues when the window was created.  Calls to one peer report
 * that peer.
 */
static int not_connected(struct oriel_window *w, const char *call, int peer)
{
	int r = peer;

	for (int i = 0; peer < 0 && i < w->comm->nranks && r < 0; i++)
		if (w->peers[i].kind == ORIEL_PEER_NONE)
			r = i;
	return ori_fail(ORIEL_ENOTCONN,
			"%s: window %d was made before rank %d was connected: call "
			"oriel_comm_connect first, then oriel_window_create",
			call, w->number, r);
}

int ori_window_ended(struct oriel_window *w, const char *call, int peer, uint64_t texts, int err)
{
	int has_text = ori_last_error_count() != texts;

	/* the wait that timed out has already logged what it waited for */
	if (has_text && err == ORIEL_ETIMEDOUT)
		return err;
	if (ORIEL_FAILURE_STATUS(ori_comm_failure(w->comm)) == err)
		return ori_comm_failed(w->comm);
	if (has_text)
		return err;
	if (ORIEL_FAILURE_STATUS(failure_word(w)) == err)
		return ori_window_failed(w);
	if (err == ORIEL_ENOTCONN)
		return not_connected(w, call, peer);
	return ori_fail(err, "%s: window %d: %s", call, w->number, oriel_status_text(err));
}

/* ---- arguments, for a separate device -------------------------------------------------------- */

int ori_window_check_peer(const struct oriel_window *w, const char *call, int peer)
{
	if (peer >= 0 && peer < w->comm->nranks)
		return 0;
	return ori_fail(ORIEL_ERANGE, "%s: rank %d does not exist (ranks are 0 to %d)", call, peer,
			w->comm->nranks - 1);
}

int ori_window_check_id(const char *call, const char *what, int id, uint32_t ids)
{
	if (id >= 0 && (uint32_t)id < ids)
		return 0;
	if (!ids)
		return ori_fail(ORIEL_ERANGE, "%s: %s %d does not exist (the window has none)",
				call, what, id);
	return ori_fail(ORIEL_ERANGE, "%s: %s %d does not exist (ids are 0 to %u)", call, what, id,
			ids - 1);
}

static int check_signal(const struct oriel_window *w, const char *call,
			const struct ori_window_op *op)
{
	int err = ori_window_check_id(call, "signal", op->id, w->options.signals);

	if (err || op->op == ORIEL_ADD || op->op == ORIEL_SET)
		return err;
	return ori_fail(ORIEL_EINVAL, "%s: op %d is not ORIEL_ADD or ORIEL_SET", call, op->op);
}

static int check_counter(const struct oriel_window *w, const char *call,
			 const struct ori_window_op *op)
{
	return ori_window_check_id(call, "counter", op->counter, w->options.counters);
}

static int check_compare(const char *call, int cmp)
{
	if (cmp >= ORIEL_EQ && cmp <= ORIEL_LE)
		return 0;
	return ori_fail(ORIEL_EINVAL, "%s: unknown comparison %d", call, cmp);
}

static int check_range(const char *call, const char *what, uint64_t off, uint64_t bytes,
		       uint64_t limit)
{
	if (off <= limit && bytes <= limit - off)
		return 0;
	return ori_fail(ORIEL_ERANGE, "%s: %llu bytes at %llu pass the end of the %s (%llu)", call,
			(unsigned long long)bytes, (unsigned long long)off, what,
			(unsigned long long)limit);
}

static int check_transfer(const struct oriel_window *w, const char *call,
			  const struct ori_window_op *op, const struct oriel_source *source)
{
	int err = check_range(call, "window", op->window_off, op->bytes, w->options.bytes);

	return err ? err : check_range(call, "source", op->source_off, op->bytes, source->bytes);
}

/* Does the operation exist on that type, and can a NIC of 8-byte atomics reach the word? */
static int check_typed(const struct oriel_window *w, const char *call,
		       const struct ori_window_op *op, uint64_t skew, uint64_t bytes)
{
	uint64_t begin = (skew + op->window_off) & ~7ull;

	if (!ori_atomic_is_valid(op->id, op->op))
		return ori_fail(ORIEL_EINVAL, "%s: no operation %d on type %d", call, op->op,
				op->id);
	if ((skew + op->window_off) % bytes)
		return ori_fail(ORIEL_EINVAL,
				"%s: the word must be aligned to its size; its offset is %llu",
				call, (unsigned long long)op->window_off);
	if (w->peers[op->peer].link && (begin < skew || begin + 8 > skew + w->options.bytes))
		return ori_fail(ORIEL_EINVAL,
				"%s: the 8 aligned bytes that hold the word pass an end of the "
				"window; its offset is %llu",
				call, (unsigned long long)op->window_off);
	return 0;
}

/* The word is checked after its peer, whose buffer decides the alignment. */
static int check_atomic(const struct oriel_window *w, const char *call,
			const struct ori_window_op *op)
{
	const struct oriel_window_peer *p = &w->peers[op->peer];
	const struct oriel_link *link = p->link ? &w->comm->links->link[op->peer] : NULL;
	uint64_t skew = p->link ? w->links[op->peer].buffer_skew : (uint64_t)(uintptr_t)p->buffer;
	int typed = op->code == ORI_WINDOW_ATOMIC;
	uint64_t bytes = typed ? oriel_type_bytes(op->id) : 8;
	int err = check_range(call, "window", op->window_off, bytes, w->options.bytes);

	if (!err && typed)
		err = check_typed(w, call, op, skew, bytes);
	else if (!err && (skew + op->window_off) % 8)
		err = ori_fail(ORIEL_EINVAL,
			       "%s: the word must be 8-byte aligned; its offset is %llu", call,
			       (unsigned long long)op->window_off);
	if (!err && p->flags & ORIEL_PEER_NO_ATOMICS)
		err = ori_fail(ORIEL_EUNSUPPORTED,
			       "%s: no native atomics between this GPU and that of rank %d", call,
			       op->peer);
	if (!err && link && !(link->flags & ORIEL_LINK_ATOMICS))
		err = ori_fail(ORIEL_EUNSUPPORTED, "%s: the NIC has no atomics", call);
	if (!err && op->old && !w->comm->device->ops->can_store(w->comm->device, op->old))
		err = ori_fail(ORIEL_EINVAL,
			       "%s: the device cannot write the old value to %p: use oriel_alloc, "
			       "device memory or pinned host memory",
			       call, (void *)op->old);
	return err;
}

/* A word of this rank's own buffer. */
static int check_word(const struct oriel_window *w, const char *call,
		      const struct ori_window_op *op)
{
	uint64_t bytes = ori_type_is_integer(op->id) ? oriel_type_bytes(op->id) : 0;
	int err = check_compare(call, op->op);

	if (!err && !bytes)
		err = ori_fail(ORIEL_EINVAL, "%s: type %d is no integer type", call, op->id);
	if (!err)
		err = check_range(call, "window", op->window_off, bytes, w->options.bytes);
	if (!err && ((uintptr_t)w->buffer + op->window_off) & (bytes - 1))
		err = ori_fail(ORIEL_EINVAL,
			       "%s: the word must be aligned to its size; its offset is %llu", call,
			       (unsigned long long)op->window_off);
	return err;
}

static int check_words(const struct oriel_window *w, const char *call,
		       const struct ori_window_op *op)
{
	int err;

	switch (op->code) {
	case ORI_WINDOW_PUT_SIGNAL:
	case ORI_WINDOW_SIGNAL:
	case ORI_WINDOW_SIGNAL_ALL:
		return check_signal(w, call, op);
	case ORI_WINDOW_PUT_SIGNAL_COUNTER:
		err = check_signal(w, call, op);
		return err ? err : check_counter(w, call, op);
	case ORI_WINDOW_PUT_COUNTER:
	case ORI_WINDOW_RESET_COUNTER:
		return check_counter(w, call, op);
	case ORI_WINDOW_WAIT_COUNTER:
		err = check_counter(w, call, op);
		return err ? err : check_compare(call, op->op);
	case ORI_WINDOW_WAIT_SIGNAL:
		err = ori_window_check_id(call, "signal", op->id, w->options.signals);
		return err ? err : check_compare(call, op->op);
	case ORI_WINDOW_RESET_SIGNAL:
	case ORI_WINDOW_SIGNAL_ADVANCE:
		return ori_window_check_id(call, "signal", op->id, w->options.signals);
	case ORI_WINDOW_BARRIER:
		return ori_window_check_id(call, "barrier", op->id, w->options.barriers);
	case ORI_WINDOW_WAIT_WORD:
		return check_word(w, call, op);
	default:
		return 0;
	}
}

/* Operations by what they need besides their words. */
static int is_transfer(int code)
{
	return code == ORI_WINDOW_PUT || code == ORI_WINDOW_GET || code == ORI_WINDOW_PUT_SIGNAL ||
	       code == ORI_WINDOW_PUT_COUNTER || code == ORI_WINDOW_PUT_SIGNAL_COUNTER;
}

static int is_atomic(int code)
{
	return code == ORI_WINDOW_FETCH_ADD || code == ORI_WINDOW_SWAP ||
	       code == ORI_WINDOW_COMPARE_SWAP || code == ORI_WINDOW_ATOMIC;
}

static int needs_peer(int code)
{
	return is_transfer(code) || is_atomic(code) || code == ORI_WINDOW_SIGNAL;
}

/* A peer without queues is known here, so that it does not become a failure of the window. */
static int check_connected(struct oriel_window *w, const char *call, const struct ori_window_op *op)
{
	int all = op->code == ORI_WINDOW_BARRIER || op->code == ORI_WINDOW_SIGNAL_ALL;
	int one = needs_peer(op->code) || (op->code == ORI_WINDOW_FLUSH && op->peer >= 0);

	if ((all && w->dev.absent_peers) || (one && w->peers[op->peer].kind == ORIEL_PEER_NONE))
		return not_connected(w, call, op->peer);
	return 0;
}

static int check_op(struct oriel_window *w, const char *call, const struct ori_window_op *op,
		    const struct oriel_source *source)
{
	int err = check_words(w, call, op);

	if (!err && (op->peer >= 0 || needs_peer(op->code)))
		err = ori_window_check_peer(w, call, op->peer);
	/* every transfer has a source: ops.c has refused the others */
	if (!err && source && is_transfer(op->code))
		err = check_transfer(w, call, op, source);
	if (!err && is_atomic(op->code))
		err = check_atomic(w, call, op);
	return err ? err : check_connected(w, call, op);
}

/* ---- issuing --------------------------------------------------------------------------------- */

int ori_window_launch(struct oriel_window *w, const char *call, const struct ori_window_op *op,
		      const struct oriel_source *source, void *stream)
{
	struct ori_window_op_args args = { .win = w->dev, .op = *op };
	struct oriel_comm *c = w->comm;
	int err = check_op(w, call, op, source);

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	if (source)
		args.source = *source;
	/* A kernel that posts cannot wake a sleeping engine thread, so it is woken now. */
	if (c->engine)
		c->engine->ops->drive(c->engine);
	err = c->device->ops->launch(c->device, ori_window_op_kernel(), 1,
				     ori_window_op_threads(op->code), &args, sizeof(args), stream,
				     NULL);
	return ori_comm_device_status(c, err);
}

int ori_window_issue(struct oriel_window *w, const char *call, const struct ori_window_op *op,
		     const struct oriel_source *source, void *stream)
{
	int err = ori_window_check(w, call);
	uint64_t texts;

	if (err)
		return err;
	if (w->comm->device->separate)
		return ori_window_launch(w, call, op, source, stream);
	texts = ori_last_error_count();
	err = ori_window_op_here(&w->host_dev, op, source);
	return err ? ori_window_ended(w, call, op->peer, texts, err) : 0;
}

int ori_window_take_timeout(const char *call, double seconds, uint32_t *ms)
{
	if (!(seconds > 0) || seconds * 1e3 > (double)UINT32_MAX)
		return ori_fail(ORIEL_EINVAL, "%s: a deadline of %g s: more than 0, at most %u s",
				call, seconds, UINT32_MAX / 1000);
	*ms = (uint32_t)(seconds * 1e3);
	if (!*ms)
		*ms = 1;
	return 0;
}

int ori_window_issue_within(struct oriel_window *w, const char *call, struct ori_window_op *op,
			    double timeout, void *stream)
{
	int err = ori_window_check(w, call);

	if (!err)
		err = ori_window_take_timeout(call, timeout, &op->timeout_ms);
	return err ? err : ori_window_issue(w, call, op, NULL, stream);
}
