/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.c - which engines are compiled in, and which one serves a comm.
 *
 * Called by comm creation and split, and by oriel-info (row), on any thread.
 */
#include "engine.h"

#include <stdio.h>
#include <string.h>

#include <oriel/device/wqe.h>

#include "../device/cpu/cpu.h"
#include "../util/util.h"

int ori_engine_row(int n, struct ori_engine_row *row)
{
	if (n != 0)
		return 0;
	row->name = "soft";
	snprintf(row->text, sizeof(row->text),
		 "software NIC: executes mlx5 work queues between ranks of one machine");
	return 1;
}

int ori_engine_require(int rank_a, int rank_b, int same_host, const char *reason)
{
	if (same_host)
		return 0;
	return ori_fail(ORIEL_EUNSUPPORTED,
			"rank %d and rank %d are queued peers (%s), and this build's only engine is "
			"the software NIC, which serves ranks of one machine",
			rank_a, rank_b, reason);
}

int ori_engine_open(const struct ori_config *config, const struct ori_engine_world *world,
		    struct ori_engine **engine)
{
	if (strcmp(config->engine, "auto") && strcmp(config->engine, "soft"))
		return ori_fail(ORIEL_ECONFIG, "ORIEL_ENGINE=%s is not one of auto, soft",
				config->engine);
	return ori_soft_engine_open(config, world, engine);
}

void oriel_cpu_drive(struct ori_engine *engine)
{
	engine->ops->drive(engine);
}

uint64_t ori_cpu_work(const struct ori_engine *engine)
{
	return __atomic_load_n(&engine->work, __ATOMIC_RELAXED);
}

void ori_cpu_rest(struct ori_engine *engine)
{
	if (engine->ops->rest)
		engine->ops->rest(engine);
}

const char *ori_syndrome_text(uint32_t syndrome)
{
	switch (syndrome) {
#define SYNDROME_TEXT(name, value, text)                                                           \
	case value:                                                                                \
		return text;
		ORI_SYNDROME_LIST(SYNDROME_TEXT)
#undef SYNDROME_TEXT
	default:
		return "unknown syndrome";
	}
}
