/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ordered.c - may a NIC write directly into the memory of the rank's device?
 *
 * Called by the engines and by the choice of an engine, on any thread.
 */
#include "engine.h"

int ori_engine_ordered(const struct ori_config *config, const struct ori_engine_world *world,
		       char *why, size_t bytes)
{
	if (!world || !world->ordered || !config->nic_order)
		return 0;
	return world->ordered(world->ctx, why, bytes);
}
