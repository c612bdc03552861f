/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/agree.c - one status for all ranks.
 *
 * After a step that can fail on one rank alone, all ranks exchange their status.  So no rank waits
 * for one that has given up.
 * Called by the other files of oriel-perf, on the host thread of all ranks.
 */
#include "perf.h"

#include <stdlib.h>

/* All ranks return the first status that is not 0; rank 0 says whose it was. */
int perf_agree(struct perf_job *job, int status, const char *what)
{
	int32_t mine = status, *all = calloc((size_t)job->nranks, sizeof(*all));
	int err;

	if (!all) { /* cannot take part: end the waits of the others */
		oriel_comm_abort(job->comm, ORIEL_ENOMEM);
		return ORIEL_ENOMEM;
	}
	err = oriel_comm_allgather(job->comm, ORIEL_WORLD, &mine, all, sizeof(mine));
	for (int r = 0; !err && r < job->nranks; r++) {
		err = all[r];
		if (err && job->rank == 0)
			fprintf(stderr, "oriel-perf: %s failed on rank %d: %s\n", what, r,
				oriel_status_text(err));
	}
	free(all);
	return err;
}
