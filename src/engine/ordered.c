/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ordered.c - may a NIC write into the memory of the rank's device by itself?
 *
 * Called by the engines and by the choice among them, on any thread.
 */
#include "engine.h"

int ori_engine_ordered(const struct ori_config *config, const struct ori_engine_world *world,
		       char *why, size_t bytes)
{
	if (!world || !world->ordered || !config->nic_order)
		return 0;
	return world->ordered(world->ctx, why, bytes);
}
