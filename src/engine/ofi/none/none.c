/* SPDX-License-Identifier: BSD-3-Clause */
/* engine/ofi/none/none.c - replaces the ofi engine in builds without the headers of libfabric. */
#include <stdio.h>

#include "../../../util/util.h"
#include "../ofi_engine.h"

#define REASON "built without libfabric's headers (package libfabric-dev)"

int ori_ofi_engine_probe(const struct ori_config *config, char *reason, size_t bytes)
{
	(void)config;
	snprintf(reason, bytes, "%s", REASON);
	return ORIEL_EUNSUPPORTED;
}

int ori_ofi_engine_open(const struct ori_config *config, const struct ori_engine_world *world,
			struct ori_engine **engine)
{
	(void)config;
	(void)world;
	(void)engine;
	return ori_fail(ORIEL_EUNSUPPORTED, "ofi engine: %s", REASON);
}
