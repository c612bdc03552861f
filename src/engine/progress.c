/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/progress.c - how CPU threads that post or wait move an engine: see progress.h.
 */
#include "progress.h"

#include "engine.h"

void oriel_cpu_drive(struct ori_engine *engine)
{
	engine->ops->drive(engine);
}

uint64_t ori_progress_sleep_ns(const struct ori_engine *engine)
{
	return engine->sleep_ns;
}

uint64_t ori_progress_work(const struct ori_engine *engine)
{
	/* relaxed: the value only tells that it changed */
	return __atomic_load_n(&engine->work, __ATOMIC_RELAXED);
}

void ori_progress_rest(struct ori_engine *engine)
{
	if (engine->ops->rest)
		engine->ops->rest(engine);
}
