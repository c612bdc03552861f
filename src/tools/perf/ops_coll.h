/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/ops_coll.h - the argument of kernels that call collectives.
 *
 * inside.c and inside_v.c fill it, and the kernels of ops_coll.c read it.
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
	/* all-to-all-v only */
	uint32_t first_split;
	const uint64_t *sizes; /* [split][block][rank]; calls use the splits in turn */
	uint64_t *came;        /* [block][rank] */
	uint64_t cut;          /* bytes from one rank's share of a block to the next */
};

#endif
