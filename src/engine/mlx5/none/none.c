/* SPDX-License-Identifier: BSD-3-Clause */
/* engine/mlx5/none/none.c - replaces the mlx5 engine in builds without the headers of libmlx5. */
#include <stdio.h>

#include "../../../util/util.h"
#include "../mlx5_engine.h"

#define REASON "built without infiniband/mlx5dv.h (package libibverbs-dev)"

int ori_mlx5_engine_probe(const struct ori_config *config, const struct ori_engine_world *world,
			  char *reason, size_t bytes)
{
	(void)config;
	(void)world;
	snprintf(reason, bytes, "%s", REASON);
	return ORIEL_EUNSUPPORTED;
}

int ori_mlx5_engine_open(const struct ori_config *config, const struct ori_engine_world *world,
			 struct ori_engine **engine)
{
	(void)config;
	(void)world;
	(void)engine;
	return ori_fail(ORIEL_EUNSUPPORTED, "mlx5 engine: %s", REASON);
}
