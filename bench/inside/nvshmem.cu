/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/inside/nvshmem.cu - the rows of inside.h with NVSHMEM's device calls.
 *
 * Usage: nvshmem RANKS
 * A team has one call at a time, made by one block of every PE.  So each block has a team of its
 * own, with all PEs, and its share of every PE's data.
 */
#include <nvshmem.h>
#include <nvshmemx.h>

#include "inside.h"

#define BLOCKS_MOST 8

struct teams {
	nvshmem_team_t of[BLOCKS_MOST];
};

struct job {
	struct gpu_meeting *m;
	uint32_t meetings;
	int rank, n;
	uint8_t *send, *recv;
	uint64_t *ns;
	struct teams teams;
	cudaStream_t stream;
};

/* bytes: of a block */
static __global__ void __launch_bounds__(INSIDE_THREADS, 1)
	make_calls(int op, struct teams teams, int n, uint8_t *recv, const uint8_t *send,
		   uint64_t bytes, int calls, uint64_t *ns)
{
	nvshmem_team_t team = teams.of[blockIdx.x];
	uint64_t all = blockIdx.x * bytes * (uint32_t)n, own = blockIdx.x * bytes, start = 0;

	recv += op == INSIDE_REDUCE || op == INSIDE_CAST ? own : all;
	send += op == INSIDE_EXCHANGE ? all : own;
	for (int i = 1; i <= GPU_WARM + calls; i++) {
		if (i == GPU_WARM + 1)
			start = gpu_clock_ns();
		if (op == INSIDE_EXCHANGE)
			nvshmemx_alltoallmem_block(team, recv, send, bytes);
		else if (op == INSIDE_GATHER)
			nvshmemx_fcollectmem_block(team, recv, send, bytes);
		else if (op == INSIDE_CAST)
			nvshmemx_float_broadcast_block(team, (float *)recv, (float *)recv,
						       bytes / 4, (i - 1) % n);
		else
			nvshmemx_float_sum_reduce_block(team, (float *)recv, (const float *)send,
							bytes / 4);
	}
	if (!threadIdx.x)
		atomicMax((unsigned long long *)ns, gpu_clock_ns() - start);
}

static void join(struct job *j)
{
	nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
	nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;

	static_assert(sizeof(id) <= sizeof(j->m->handles), "id");
	gpu_must(cudaSetDevice(0), "device");
	gpu_must(cudaFree(NULL), "device");
	if (j->rank == 0) {
		nvshmemx_get_uniqueid(&id);
		memcpy(j->m->handles, &id, sizeof(id));
	}
	gpu_meet(j->m, j->n, &j->meetings);
	memcpy(&id, j->m->handles, sizeof(id));
	nvshmemx_set_attr_uniqueid_args(j->rank, j->n, &id, &attr);
	if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr)) {
		fprintf(stderr, "nvshmem: rank %d: nvshmemx_init_attr failed\n", j->rank);
		_exit(1);
	}
}

static void run_row(struct job *j, const struct inside_case *c, int blocks)
{
	int calls = c->bytes > 64u << 10 ? 50 : 500;
	char name[64];

	snprintf(name, sizeof(name), "%s/blocks%d", c->name, blocks);
	inside_begin(c, blocks, j->send, j->recv, j->rank, j->n, j->stream);
	*j->ns = 0;
	nvshmem_barrier_all();
	make_calls<<<blocks, INSIDE_THREADS, 0, j->stream>>>(c->op, j->teams, j->n, j->recv,
							     j->send, c->bytes / blocks, calls,
							     j->ns);
	gpu_must(cudaStreamSynchronize(j->stream), name);
	nvshmem_barrier_all();
	inside_end(name, c, blocks, j->recv, j->rank, j->n, j->stream);
	if (j->rank == 0)
		bench_print(name, (double)*j->ns / 1e3 / calls, "us");
}

static void make_teams(struct job *j)
{
	for (int b = 0; b < BLOCKS_MOST; b++)
		if (nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, j->n, NULL, 0,
					       &j->teams.of[b]) ||
		    j->teams.of[b] == NVSHMEM_TEAM_INVALID) {
			fprintf(stderr, "nvshmem: rank %d: no team for block %d\n", j->rank, b);
			_exit(1);
		}
}

static void run_rank(struct gpu_meeting *m, int rank, int n)
{
	struct job job;

	memset(&job, 0, sizeof(job));
	job.m = m;
	job.rank = rank;
	job.n = n;
	join(&job);
	job.send = (uint8_t *)nvshmem_malloc((size_t)INSIDE_MOST * n);
	job.recv = (uint8_t *)nvshmem_malloc((size_t)INSIDE_MOST * n);
	gpu_must(cudaMallocManaged(&job.ns, sizeof(*job.ns)), "time");
	gpu_must(cudaStreamCreateWithFlags(&job.stream, cudaStreamNonBlocking), "stream");
	if (!job.send || !job.recv) {
		fprintf(stderr, "nvshmem: no memory\n");
		_exit(1);
	}
	make_teams(&job);
	for (int i = 0; i < INSIDE_CASES; i++)
		for (int b = 0; b < INSIDE_COUNTS; b++)
			if (inside_divides(&inside_cases[i], inside_blocks[b]))
				run_row(&job, &inside_cases[i], inside_blocks[b]);
	fflush(stdout);
	nvshmem_barrier_all();
	nvshmem_finalize();
}

int main(int argc, char **argv)
{
	int n = argc == 2 ? atoi(argv[1]) : 0;
	struct gpu_meeting *m = gpu_meeting_open();

	if (n < 2 || n > 8 || !m) {
		fprintf(stderr, "usage: nvshmem RANKS, 2 to 8\n");
		return 2;
	}
	return gpu_fork(n, m, run_rank);
}
