/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/coll.h - collectives on windows: all of oriel/coll/.
 */
#ifndef ORIEL_COLL_H
#define ORIEL_COLL_H

#include "coll/allgather.h"
#include "coll/alltoallv.h"
#include "coll/reduce.h"
#include "coll/team.h"

#endif
