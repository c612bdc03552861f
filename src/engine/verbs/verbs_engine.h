/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/verbs_engine.h - the verbs engine as others see it: the choice of an engine, and
 * tests.
 */
#ifndef ORI_VERBS_ENGINE_H
#define ORI_VERBS_ENGINE_H

#include "../proxied/fabric.h"

extern const struct ori_fabric_kind ori_verbs_fabric;

/*
 * 0: a port can be used, `reason` names it; else why not.  Opens devices to look, and closes them.
 */
int ori_verbs_engine_probe(const struct ori_config *, char *reason, size_t bytes);
int ori_verbs_engine_open(const struct ori_config *, const struct ori_engine_world *,
			  struct ori_engine **);

#endif
