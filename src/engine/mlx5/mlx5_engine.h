/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/mlx5_engine.h - the mlx5 engine as others see it: the choice of an engine, and
 * tests.
 */
#ifndef ORI_MLX5_ENGINE_H
#define ORI_MLX5_ENGINE_H

#include "../engine.h"

/*
 * 0: a port can be used, `reason` names it; else the first thing that is missing, and its remedy
 * (ORIEL_EUNSUPPORTED: there is no mlx5 NIC at all).  The world, if any, has the device that is to
 * post.  Makes one queue of each kind to look, and leaves nothing.
 */
int ori_mlx5_engine_probe(const struct ori_config *, const struct ori_engine_world *, char *reason,
			  size_t bytes);
int ori_mlx5_engine_open(const struct ori_config *, const struct ori_engine_world *,
			 struct ori_engine **);

#endif
