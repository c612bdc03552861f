/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/soft_engine.h - shared by engine.c (the table) and drive.c (which threads step the
 * NICs).
 */
#ifndef ORI_SOFT_ENGINE_H
#define ORI_SOFT_ENGINE_H

#include "../drive.h"
#include "../engine.h"
#include "nic.h"

#define SOFT_ERRORS_KEPT 16

struct soft_queue_error {
	uint32_t nic, qpn, syndrome;
	uint64_t wqe;
};

struct soft_engine {
	struct ori_engine base;
	struct ori_engine_world world;
	struct soft_config config;
	struct soft_nic *nic[ORIEL_NICS_MAX];
	struct nic_context {
		struct soft_engine *engine;
		uint32_t number;
	} context[ORIEL_NICS_MAX];
	uint32_t lock; /* by drivers: the holder steps the NICs */
	struct ori_drive drive;
	struct oriel_waiters *kicks; /* tells peers that this rank's thread sleeps */
	/* under `lock` */
	int silent; /* the NICs are no longer stepped */
	struct soft_queue_error errors[SOFT_ERRORS_KEPT];
	int nerrors;
};

/* ---- drive.c --------------------------------------------------------------------------------- */

void soft_engine_drive(struct ori_engine *);
void soft_engine_rest(struct ori_engine *);
/* Waits for the running step.  No thread steps the NICs until unlock. */
void soft_engine_lock(struct soft_engine *);
void soft_engine_unlock(struct soft_engine *);
int soft_engine_thread_start(struct soft_engine *);
void soft_engine_thread_stop(struct soft_engine *);
void soft_engine_silence(struct ori_engine *);

#endif
