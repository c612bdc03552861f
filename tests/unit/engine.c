/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/engine.c - without an engine: an empty list, and a refusal that says for whom and why. */
#include "../../src/engine/engine.h"
#include "../check.h"
#include <oriel/oriel.h>

TEST(none_is_listed)
{
	struct ori_engine_row row;

	CHECK_EQ(ori_engine_row(0, &row), 0);
}

TEST(require_names_ranks_and_reason)
{
	CHECK_EQ(ori_engine_require(0, 4, "ORIEL_TOPOLOGY puts them on nodes 0 and 1"),
		 ORIEL_EUNSUPPORTED);
	CHECK_HAS(oriel_last_error(),
		  "rank 0 and rank 4 are queued peers (ORIEL_TOPOLOGY puts them on nodes 0 and 1)");
	CHECK_HAS(oriel_last_error(), "no engine for queued peers; use a layout of one node");
}
