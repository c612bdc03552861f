/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/none/none.c - replaces the verbs engine in builds without the headers of libibverbs.
 */
#include <stdio.h>

#include "../../../util/util.h"
#include "../verbs_engine.h"

#define REASON "built without infiniband/verbs.h (package libibverbs-dev)"

int ori_verbs_engine_probe(const struct ori_config *config, char *reason, size_t bytes)
{
	(void)config;
	snprintf(reason, bytes, "%s", REASON);
	return ORIEL_EUNSUPPORTED;
}

int ori_verbs_engine_open(const struct ori_config *config, const struct ori_engine_world *world,
			  struct ori_engine **engine)
{
	(void)config;
	(void)world;
	(void)engine;
	return ori_fail(ORIEL_EUNSUPPORTED, "verbs engine: %s", REASON);
}
