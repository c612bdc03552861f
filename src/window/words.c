/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/words.c - operations of host code on signals, counters and barriers.
 *
 * Each call fills a struct ori_window_op; issue.c checks and executes it.  Reads, which no stream
 * orders, are in reads.c.
 */
#include "issue.h"

#define ALL_PEERS (-1)

/* ---- signals --------------------------------------------------------------------------------- */

int oriel_window_signal(struct oriel_window *w, int peer, int id, int op, uint64_t value,
			void *stream)
{
	struct ori_window_op o = {
		.code = ORI_WINDOW_SIGNAL, .peer = peer, .id = id, .op = op, .value = value
	};

	return ori_window_issue_fast(w, "oriel_window_signal", o, NULL, stream);
}

int oriel_window_signal_all(struct oriel_window *w, int id, int op, uint64_t value, void *stream)
{
	struct ori_window_op o = {
		.code = ORI_WINDOW_SIGNAL_ALL, .peer = ALL_PEERS, .id = id, .op = op, .value = value
	};

	return ori_window_issue(w, "oriel_window_signal_all", &o, NULL, stream);
}

int oriel_window_reset_signal(struct oriel_window *w, int id, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_RESET_SIGNAL, .peer = ALL_PEERS, .id = id };

	return ori_window_issue(w, "oriel_window_reset_signal", &op, NULL, stream);
}

int oriel_window_reset_signals(struct oriel_window *w, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_RESET_SIGNALS, .peer = ALL_PEERS };

	return ori_window_issue(w, "oriel_window_reset_signals", &op, NULL, stream);
}

int oriel_window_signal_advance(struct oriel_window *w, int peer, int id, uint64_t value,
				void *stream)
{
	struct ori_window_op op = {
		.code = ORI_WINDOW_SIGNAL_ADVANCE, .peer = peer, .id = id, .value = value
	};

	return ori_window_issue(w, "oriel_window_signal_advance", &op, NULL, stream);
}

/* A sum only grows, so a wait for it has one comparison.  `what` are summed. */
static int refuse_sum(struct oriel_window *w, const char *call, const char *what)
{
	int err = ori_window_check(w, call);

	return err ? err :
		     ori_fail(ORIEL_EINVAL, "%s: a sum over %s waits by ORIEL_GE only", call, what);
}

int oriel_window_wait_signal(struct oriel_window *w, int peer, int id, int cmp, uint64_t value,
			     void *stream)
{
	struct ori_window_op op = {
		.code = ORI_WINDOW_WAIT_SIGNAL, .peer = peer, .id = id, .op = cmp, .value = value
	};

	if (peer < 0 && cmp != ORIEL_GE)
		return refuse_sum(w, "oriel_window_wait_signal", "sources");
	return ori_window_issue_fast(w, "oriel_window_wait_signal", op, NULL, stream);
}

int oriel_window_wait_signal_timeout(struct oriel_window *w, int peer, int id, int cmp,
				     uint64_t value, double timeout, void *stream)
{
	static const char call[] = "oriel_window_wait_signal_timeout";
	struct ori_window_op op = {
		.code = ORI_WINDOW_WAIT_SIGNAL, .peer = peer, .id = id, .op = cmp, .value = value
	};

	if (peer < 0 && cmp != ORIEL_GE)
		return refuse_sum(w, call, "sources");
	return ori_window_issue_within(w, call, &op, timeout, stream);
}

/* ---- counters -------------------------------------------------------------------------------- */

int oriel_window_wait_counter(struct oriel_window *w, int peer, int id, int cmp, uint64_t value,
			      void *stream)
{
	static const char call[] = "oriel_window_wait_counter";
	struct ori_window_op op = { .code = ORI_WINDOW_WAIT_COUNTER,
				    .peer = peer,
				    .counter = id,
				    .op = cmp,
				    .value = value };

	if (peer < 0 && cmp != ORIEL_GE)
		return refuse_sum(w, call, "peers");
	return ori_window_issue(w, call, &op, NULL, stream);
}

int oriel_window_wait_counter_timeout(struct oriel_window *w, int peer, int id, int cmp,
				      uint64_t value, double timeout, void *stream)
{
	static const char call[] = "oriel_window_wait_counter_timeout";
	struct ori_window_op op = { .code = ORI_WINDOW_WAIT_COUNTER,
				    .peer = peer,
				    .counter = id,
				    .op = cmp,
				    .value = value };

	if (peer < 0 && cmp != ORIEL_GE)
		return refuse_sum(w, call, "peers");
	return ori_window_issue_within(w, call, &op, timeout, stream);
}

int oriel_window_reset_counter(struct oriel_window *w, int peer, int id, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_RESET_COUNTER, .peer = peer, .counter = id };

	return ori_window_issue(w, "oriel_window_reset_counter", &op, NULL, stream);
}

/* ---- barriers -------------------------------------------------------------------------------- */

int oriel_window_barrier(struct oriel_window *w, int id, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_BARRIER, .peer = ALL_PEERS, .id = id };

	return ori_window_issue(w, "oriel_window_barrier", &op, NULL, stream);
}

int oriel_window_barrier_timeout(struct oriel_window *w, int id, double timeout, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_BARRIER, .peer = ALL_PEERS, .id = id };

	return ori_window_issue_within(w, "oriel_window_barrier_timeout", &op, timeout, stream);
}
