/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/results.c - what the blocks of a kernel measure, and how the host gets it.
 *
 * A kernel writes it to device memory: the times of each block's samples, then wrong bytes of each
 * block, then one word `seen`.  The host reads a copy.
 * Called by: measure.c and inside.c, on the rank's host thread.
 */
#include "kernel.h"
#include "perf.h"

#include <stdlib.h>

static uint64_t count_words(const struct perf_options *opt)
{
	return (uint64_t)opt->blocks * (PERF_SAMPLES_MAX + 2) + 1;
}

static void point_to(const struct perf_job *job, uint64_t *base, struct perf_args *a)
{
	uint64_t blocks = (uint64_t)job->opt->blocks;

	a->times = base;
	a->wrong = a->times + blocks * PERF_SAMPLES_MAX;
	a->seen_out = a->wrong + blocks;
}

int perf_results_open(struct perf_job *job, struct perf_results *r)
{
	uint64_t words = count_words(job->opt);
	void *device = NULL;
	int err = oriel_alloc(job->comm, words * sizeof(uint64_t), &device);

	r->device = device;
	r->host = calloc(words, sizeof(uint64_t));
	return err ? err : r->host ? 0 : ORIEL_ENOMEM;
}

/* Device memory of a failed comm ends with the comm. */
void perf_results_close(struct perf_job *job, struct perf_results *r)
{
	free(r->host);
	r->host = NULL;
	if (r->device && !oriel_comm_status(job->comm))
		(void)oriel_free(job->comm, r->device);
	r->device = NULL;
}

void perf_results_set(const struct perf_job *job, const struct perf_results *r, struct perf_args *a)
{
	point_to(job, r->device, a);
}

int perf_results_fetch(const struct perf_job *job, const struct perf_results *r,
		       struct perf_args *a)
{
	int err = oriel_copy(job->comm, r->host, r->device,
			     count_words(job->opt) * sizeof(uint64_t));

	point_to(job, r->host, a);
	return err;
}

void perf_results_samples(const struct perf_job *job, const struct perf_args *a, double scale,
			  float *us)
{
	for (uint32_t i = 0; i < a->samples; i++) {
		uint64_t longest = 0;

		for (int b = 0; b < job->opt->blocks; b++) {
			uint64_t ns = a->times[(uint64_t)b * a->samples + i];

			longest = ns > longest ? ns : longest;
		}
		us[i] = (float)((double)longest * scale * 1e-3 / a->batch);
	}
}
