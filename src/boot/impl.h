/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/impl.h - the constructors of all boots, and what the implementations share (common.c).  For
 * src/boot only.
 */
#ifndef ORI_BOOT_IMPL_H
#define ORI_BOOT_IMPL_H

#include <pthread.h>

#include "../util/config.h"
#include "../util/util.h"
#include "boot.h"

#define ORI_BOOT_RANKS_MAX 16384
#define ORI_BOOT_WHY_BYTES 400

/* ---- making: one function per implementation ------------------------------------------------ */

int ori_boot_single_create(struct oriel_boot **boot);
int ori_boot_threads_create(int nranks, uint64_t late_ns, struct oriel_boot **boots);
int ori_boot_user_create(const struct oriel_boot_ops *ops, void *ctx, int rank, int nranks,
			 struct oriel_boot **boot);
int ori_boot_env_create(const struct ori_config *, struct oriel_boot **boot);
/* oriel_boot_make_id and oriel_boot_join, without the listing of the handle. */
int ori_boot_id_make(const struct ori_config *, struct oriel_boot_id *id);
int ori_boot_id_join(const struct ori_config *, const struct oriel_boot_id *id, int rank,
		     int nranks, struct oriel_boot **boot);

/* ---- shared (common.c) ---------------------------------------------------------------------- */

void ori_boot_init(struct oriel_boot *, const struct ori_boot_backend *, int rank, int nranks);

/* Table entries for boots whose ranks cannot be asked. */
void ori_boot_no_answer(struct oriel_boot *, ori_boot_answer_fn *, void *ctx);
int ori_boot_no_ask(struct oriel_boot *, int rank, char *out, size_t bytes, uint64_t timeout_ns);

/* The user's call that the rounds serve, as text. */
const char *ori_boot_serves(const struct oriel_boot *);

/*
 * Returns 0 if the members are ranks of the boot, each once, with this rank among them.  Otherwise
 * returns ORIEL_EINVAL.
 */
int ori_boot_members_check(const struct oriel_boot *, const int *members, int n, int *my_index);
uint64_t ori_boot_seconds_ns(double seconds);
/* ns + 2 s, without overflow: how long a rank waits for an answer that may take ns. */
uint64_t ori_boot_grace_ns(uint64_t ns);
/* Absolute monotonic nanoseconds as pthread_cond_timedwait takes them. */
void ori_boot_timespec(uint64_t when_ns, struct timespec *out);
/* A condition on the monotonic clock. */
int ori_boot_cond_init(pthread_cond_t *cond);
/* "rank 1", or "rank 1 (world rank 5)". */
void ori_boot_rank_text(const int *world, int rank, char *text, size_t bytes);

#endif
