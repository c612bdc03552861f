/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/noted.c - kernels of the program's CUDA runtime, loaded when a GPU is opened.
 *
 * The runtime loads a program's kernels at the first query for one.  The driver lets this wait for
 * all running kernels, and all other calls wait behind it.  A copy that one of those kernels waits
 * for would then never begin.  So every ORIEL_KERNEL of a .cu file leaves a note.  The code that
 * opens a GPU queries all noted kernels while nothing of this library runs there.
 *
 * Owns the list; the notes belong to the program.  They are added and removed on any thread, also
 * before main() and when a library is unloaded.  Neither may wait for a driver.
 */
#include <stdlib.h>

#include <oriel/device.h>

#include "../../util/util.h"
#include "cuda_device.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct oriel_kernel_note *notes;
static uint64_t gone; /* number of notes that were removed */

void oriel_kernels_note(struct oriel_kernel_note *note)
{
	pthread_mutex_lock(&lock);
	note->next = notes;
	notes = note;
	pthread_mutex_unlock(&lock);
}

void oriel_kernels_forget(struct oriel_kernel_note *note)
{
	struct oriel_kernel_note **at = &notes;

	pthread_mutex_lock(&lock);
	while (*at && *at != note)
		at = &(*at)->next;
	if (*at) {
		*at = note->next;
		gone++;
	}
	pthread_mutex_unlock(&lock);
}

uint64_t ori_cuda_noted_gone(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = gone;
	pthread_mutex_unlock(&lock);
	return n;
}

/* A copy, so that the lock is not held during driver calls.  NULL: no notes, or no memory. */
static const struct oriel_kernel **all_noted(size_t *count)
{
	const struct oriel_kernel **kernels = NULL;
	struct oriel_kernel_note *n;
	size_t all = 0;

	*count = 0;
	pthread_mutex_lock(&lock);
	for (n = notes; n; n = n->next)
		all++;
	if (all)
		kernels = malloc(all * sizeof(const struct oriel_kernel *));
	for (n = notes; n && kernels; n = n->next)
		kernels[(*count)++] = n->kernel;
	pthread_mutex_unlock(&lock);
	return kernels;
}

size_t ori_cuda_noted_find(struct ori_cuda_gpu *gpu,
			   size_t (*find)(struct ori_cuda_gpu *, const struct oriel_kernel *))
{
	size_t count, most = 0;
	const struct oriel_kernel **kernels;

	gpu->notes_gone = ori_cuda_noted_gone();
	kernels = all_noted(&count);
	for (size_t i = 0; i < count; i++) {
		size_t local = find(gpu, kernels[i]);

		if (local > most)
			most = local;
	}
	free(kernels);
	return most;
}
