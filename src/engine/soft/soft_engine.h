/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/soft_engine.h - what engine.c (the table) and drive.c (who steps the NICs) share.
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
	uint32_t lock; /* by drivers: who has it steps the NICs */
	struct ori_drive drive;
	struct oriel_waiters *kicks; /* where peers find this rank's thread asleep */
	/* under `lock` */
	int silent; /* the NICs are not stepped any more */
	struct soft_queue_error errors[SOFT_ERRORS_KEPT];
	int nerrors;
};

/* ---- drive.c --------------------------------------------------------------------------------- */

void soft_engine_drive(struct ori_engine *);
void soft_engine_rest(struct ori_engine *);
/* Nobody steps the NICs meanwhile.  Waits for the running step. */
void soft_engine_lock(struct soft_engine *);
void soft_engine_unlock(struct soft_engine *);
int soft_engine_thread_start(struct soft_engine *);
void soft_engine_thread_stop(struct soft_engine *);
void soft_engine_silence(struct ori_engine *);

#endif
