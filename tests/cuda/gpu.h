/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/gpu.h - what the programs of tests/cuda/ share: ranks on a GPU, checks of CUDA calls.
 *
 * Ranks are made by ranks.h with ORIEL_DEVICE=cuda.  A process that has used CUDA cannot fork ranks
 * that do, so tests with processes stand before those with threads in a file.
 */
#ifndef ORI_TEST_GPU_H
#define ORI_TEST_GPU_H

#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"

/* A CUDA call that should succeed; prints the reason and leaves. */
#define GPU_OK(call)                                                                               \
	do {                                                                                       \
		cudaError_t gpu_err = (call);                                                      \
		if (gpu_err != cudaSuccess) {                                                      \
			check_fail(__FILE__, __LINE__, "%s: %s", #call,                            \
				   cudaGetErrorString(gpu_err));                                   \
			return;                                                                    \
		}                                                                                  \
	} while (0)

/*
 * A graph that is ready on the GPU.  The driver waits for running kernels when a graph is created
 * and, if it was not uploaded, at its first launch.  Kernels of other thread ranks may in turn wait
 * for this rank.  So all ranks do this and meet before any of them launches.
 */
static inline cudaError_t gpu_graph_make(cudaGraph_t graph, cudaStream_t stream,
					 cudaGraphExec_t *exec)
{
	cudaError_t err = cudaGraphInstantiate(exec, graph, 0);

	if (!err)
		err = cudaGraphUpload(*exec, stream);
	return err ? err : cudaStreamSynchronize(stream);
}

/* Asked in a separate process: this one must not have used CUDA when it forks ranks. */
static inline int gpu_count(void)
{
	static int count = -1;
	int status = 0, n = 0;
	pid_t pid;

	if (count >= 0)
		return count;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(cudaGetDeviceCount(&n) == cudaSuccess ? n : 0);
	if (pid > 0)
		waitpid(pid, &status, 0);
	count = pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	return count;
}

/* Runs fn as ranks on the GPU; skips with a reason if there is no GPU. */
static inline void gpu_run_options(struct ranks_options *o, rank_fn *fn, void *arg)
{
	static int used_here;

	if (!gpu_count()) {
		check_skip("no CUDA device here");
		return;
	}
	if (o->processes && used_here) {
		check_fail(__FILE__, __LINE__, "this process has used CUDA and cannot fork ranks");
		return;
	}
	used_here |= !o->processes;
	setenv("ORIEL_DEVICE", "cuda", 0);
	ranks_run(o, fn, arg);
}

static inline void gpu_run(int nranks, int processes, const char *topology, rank_fn *fn, void *arg)
{
	struct ranks_options o;

	memset(&o, 0, sizeof(o));
	o.nranks = nranks;
	o.processes = processes;
	o.topology = topology;
	gpu_run_options(&o, fn, arg);
}

/* Waits for the comm's own stream, then copies.  Returns 0 if either fails, which fails a check. */
static inline uint64_t gpu_word(struct oriel_comm *comm, const void *from)
{
	uint64_t word = 0;

	if (oriel_comm_sync(comm, NULL) || oriel_copy(comm, &word, from, sizeof(word)))
		check_fail(__FILE__, __LINE__, "copy: %s", oriel_last_error());
	return word;
}

/* Numbers for delays and data; the same for the same seed. */
ORIEL_DEV uint32_t gpu_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Waits up to a microsecond, so that the two sides meet in different ways. */
ORIEL_DEV void gpu_random_delay(uint32_t *state)
{
#if ORIEL_ON_GPU
	long long until = clock64() + gpu_random(state) % 1024;

	if (gpu_random(state) % 4)
		while (clock64() < until)
			;
#else
	(void)gpu_random(state);
#endif
}

#endif
