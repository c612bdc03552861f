/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/mlx5_engine.h - the public part of the mlx5 engine: for the choice of an engine, and
 * for tests.
 */
#ifndef ORI_MLX5_ENGINE_H
#define ORI_MLX5_ENGINE_H

#include "../engine.h"

/*
 * Returns 0 if a port can be used, and its name in `reason`.  Otherwise `reason` has the first
 * thing that is missing and how to fix it (ORIEL_EUNSUPPORTED: there is no mlx5 NIC).  The world,
 * if given, has the device that is to post.  Makes one queue of each kind to test, and leaves
 * nothing behind.
 */
int ori_mlx5_engine_probe(const struct ori_config *, const struct ori_engine_world *, char *reason,
			  size_t bytes);
int ori_mlx5_engine_open(const struct ori_config *, const struct ori_engine_world *,
			 struct ori_engine **);

#endif
