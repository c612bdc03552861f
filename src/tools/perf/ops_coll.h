/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/ops_coll.h - the argument of kernels that call collectives.
 *
 * inside.c fills it, and the kernels of ops_coll.c read it.
 */
#ifndef PERF_OPS_COLL_H
#define PERF_OPS_COLL_H

#include "kernel.h"

#include <oriel/device/team.h>

struct perf_coll_args {
	struct perf_args run; /* must be first.  Only `bytes`, the counts and the results are set */
	struct oriel_team_dev team;
	uint8_t *send, *recv; /* any memory of the device */
	uint32_t in_place;
	uint32_t reserved;
};

#endif
