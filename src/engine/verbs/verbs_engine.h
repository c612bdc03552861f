/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/verbs_engine.h - the public part of the verbs engine: for the choice of an engine,
 * and for tests.
 */
#ifndef ORI_VERBS_ENGINE_H
#define ORI_VERBS_ENGINE_H

#include "../proxied/fabric.h"

extern const struct ori_fabric_kind ori_verbs_fabric;

/*
 * Returns 0 if a port can be used, and its name in `reason`; otherwise `reason` says why not.
 * Opens devices to look, and closes them.
 */
int ori_verbs_engine_probe(const struct ori_config *, char *reason, size_t bytes);
int ori_verbs_engine_open(const struct ori_config *, const struct ori_engine_world *,
			  struct ori_engine **);

#endif
