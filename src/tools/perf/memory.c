/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/memory.c - the host's access to device memory: direct on the CPU, through a copy in
 * host memory on CUDA.
 *
 * Called by: measure.c and check.c, on the rank's host thread, while no kernel runs on this window.
 */
#include "perf.h"

#include <string.h>

int perf_memory_open(struct perf_bed *bed, uint8_t *at, uint64_t bytes, int fetch, uint8_t **host)
{
	*host = bed->stage ? bed->stage : at;
	return bed->stage && fetch ? oriel_copy(bed->job->comm, bed->stage, at, bytes) : 0;
}

int perf_memory_store(struct perf_bed *bed, uint8_t *at, uint64_t bytes)
{
	return bed->stage ? oriel_copy(bed->job->comm, at, bed->stage, bytes) : 0;
}

int perf_memory_zero(struct perf_bed *bed, uint8_t *at, uint64_t bytes)
{
	uint8_t *host;
	int err = perf_memory_open(bed, at, bytes, 0, &host);

	if (err)
		return err;
	memset(host, 0, bytes);
	return perf_memory_store(bed, at, bytes);
}
