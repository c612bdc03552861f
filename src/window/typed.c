/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/typed.c - operations of host code on elements of a window buffer: atomics of every type,
 * and waits for words of the own buffer.
 *
 * Waits for one word and atomics go through issue.c and follow the stream.  Calls on several words,
 * and reads, are for the CPU device: there the host reads the buffer itself.
 */
#include "issue.h"

static int refuse_separate(const char *call)
{
	return ori_fail(ORIEL_EUNSUPPORTED,
			"%s: only on the CPU device; in a kernel use the call of oriel/device.h",
			call);
}

int oriel_window_atomic(struct oriel_window *w, int peer, uint64_t offset, int type, int op,
			uint64_t expected, uint64_t value, uint64_t *old, void *stream)
{
	struct ori_window_op o = { .code = ORI_WINDOW_ATOMIC,
				   .peer = peer,
				   .window_off = offset,
				   .id = type,
				   .op = op,
				   .expected = expected,
				   .value = value,
				   .old = old };

	return ori_window_issue(w, "oriel_window_atomic", &o, NULL, stream);
}

/* ---- one word -------------------------------------------------------------------------------- */

int oriel_window_wait_word(struct oriel_window *w, uint64_t offset, int type, int cmp,
			   uint64_t value, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_WAIT_WORD,
				    .peer = -1,
				    .window_off = offset,
				    .id = type,
				    .op = cmp,
				    .value = value };

	return ori_window_issue(w, "oriel_window_wait_word", &op, NULL, stream);
}

int oriel_window_wait_word_timeout(struct oriel_window *w, uint64_t offset, int type, int cmp,
				   uint64_t value, double timeout, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_WAIT_WORD,
				    .peer = -1,
				    .window_off = offset,
				    .id = type,
				    .op = cmp,
				    .value = value };

	return ori_window_issue_within(w, "oriel_window_wait_word_timeout", &op, timeout, stream);
}

/* A thread that polls drives the engine of its rank, as a wait does. */
int oriel_window_read_word(struct oriel_window *w, uint64_t offset, int type, uint64_t *value)
{
	static const char call[] = "oriel_window_read_word";
	int err = ori_window_check(w, call);

	if (err)
		return err;
	if (w->comm->device->separate)
		return refuse_separate(call);
	if (!value)
		return ori_fail(ORIEL_EINVAL, "%s: no place for the value", call);
	err = ori_check_words(&w->host_dev, oriel_group_thread(), call, offset, type, ORIEL_EQ, 1);
	if (err)
		return err;
	if (w->host_dev.queued_peers)
		ori_drive(w->host_dev.comm.engine);
	if (ori_failed(&w->host_dev.comm, w->host_dev.failure))
		return ori_window_failed(w);
	*value = oriel_read_word(&w->host_dev, offset, type); /* [WORD1] inside */
	return 0;
}

/* ---- any of several words -------------------------------------------------------------------- */

static int wait_any(struct oriel_window *w, const char *call, const struct oriel_words *words,
		    uint64_t first, uint32_t timeout_ms, uint64_t *index)
{
	uint64_t texts = ori_last_error_count();
	int err = 0;

	if (w->comm->device->separate)
		return refuse_separate(call);
	if (!words || !index)
		return ori_fail(ORIEL_EINVAL, "%s: no %s", call,
				words ? "place for the index" : "words");
	err = oriel_wait_any_word(&w->host_dev,
				  oriel_group_within(oriel_group_thread(), timeout_ms), words,
				  first, index);
	return err ? ori_window_ended(w, call, -1, texts, err) : 0;
}

int oriel_window_wait_any_word(struct oriel_window *w, const struct oriel_words *words,
			       uint64_t first, uint64_t *index)
{
	static const char call[] = "oriel_window_wait_any_word";
	int err = ori_window_check(w, call);

	return err ? err : wait_any(w, call, words, first, 0, index);
}

int oriel_window_wait_any_word_timeout(struct oriel_window *w, const struct oriel_words *words,
				       uint64_t first, double timeout, uint64_t *index)
{
	static const char call[] = "oriel_window_wait_any_word_timeout";
	uint32_t timeout_ms = 0;
	int err = ori_window_check(w, call);

	if (!err)
		err = ori_window_take_timeout(call, timeout, &timeout_ms);
	return err ? err : wait_any(w, call, words, first, timeout_ms, index);
}
