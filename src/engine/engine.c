/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.c - which engines are compiled in, and the refusal when none is.
 *
 * Called by comm creation and split (require) and by oriel-info (row), on any thread.
 */
#include "engine.h"

#include "../util/util.h"

int ori_engine_row(int n, struct ori_engine_row *row)
{
	(void)n;
	(void)row;
	return 0; /* none compiled in: every n is past the end */
}

int ori_engine_require(int rank_a, int rank_b, const char *reason)
{
	return ori_fail(ORIEL_EUNSUPPORTED,
			"rank %d and rank %d are queued peers (%s), and this build has no engine for "
			"queued peers; use a layout of one node",
			rank_a, rank_b, reason);
}
