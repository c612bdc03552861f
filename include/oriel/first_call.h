/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/first_call.h - the first call of a program checks that headers and library fit.
 *
 * oriel.h includes this file last; programs need not read it.  Device code is compiled into the
 * program, so headers and library must agree on memory layouts.  Every program starts with one of
 * the calls below.  Each of them first compares the versions.  If they do not fit, it returns
 * ORIEL_EVERSION and logs both versions.  The functions of liboriel keep their names, for other
 * languages and debuggers.
 */
#ifndef ORIEL_FIRST_CALL_H
#define ORIEL_FIRST_CALL_H

#include "oriel.h"

#define ORIEL_VERSION                                                                              \
	(ORIEL_VERSION_MAJOR * 10000 + ORIEL_VERSION_MINOR * 100 + ORIEL_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or ORIEL_EVERSION: headers of that ORIEL_VERSION do not fit this library. */
int oriel_header_check(int version);

#ifndef ORIEL_LIBRARY /* the library itself defines these functions */

static inline int oriel_first_init(struct oriel_comm **comm)
{
	int err = oriel_header_check(ORIEL_VERSION);

	return err ? err : oriel_init(comm);
}

static inline int oriel_first_boot_env(struct oriel_boot **boot)
{
	int err = oriel_header_check(ORIEL_VERSION);

	return err ? err : oriel_boot_env(boot);
}

static inline int oriel_first_boot_threads(int nranks, struct oriel_boot **boots)
{
	int err = oriel_header_check(ORIEL_VERSION);

	return err ? err : oriel_boot_threads(nranks, boots);
}

static inline int oriel_first_boot_make_id(struct oriel_boot_id *id)
{
	int err = oriel_header_check(ORIEL_VERSION);

	return err ? err : oriel_boot_make_id(id);
}

static inline int oriel_first_boot_join(const struct oriel_boot_id *id, int rank, int nranks,
					struct oriel_boot **boot)
{
	int err = oriel_header_check(ORIEL_VERSION);

	return err ? err : oriel_boot_join(id, rank, nranks, boot);
}

static inline int oriel_first_boot_user(const struct oriel_boot_ops *ops, void *ctx, int rank,
					int nranks, struct oriel_boot **boot)
{
	int err = oriel_header_check(ORIEL_VERSION);

	return err ? err : oriel_boot_user(ops, ctx, rank, nranks, boot);
}

#define oriel_init oriel_first_init
#define oriel_boot_env oriel_first_boot_env
#define oriel_boot_threads oriel_first_boot_threads
#define oriel_boot_make_id oriel_first_boot_make_id
#define oriel_boot_join oriel_first_boot_join
#define oriel_boot_user oriel_first_boot_user

#endif

#ifdef __cplusplus
}
#endif

#endif
