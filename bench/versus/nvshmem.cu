/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/versus/nvshmem.cu - the rows of bench/limit/gpu.cu with NVSHMEM.
 *
 * Usage: versus_nvshmem 2|8       the number of ranks, each a process
 *	2	put_signal of 8 B, 64 KiB and 1 MiB by a block of 512; bandwidth of 1 to 64
 *		blocks; sync, barrier
 *	8	sync, barrier
 * bench/gpu.sh builds this program if the Python wheel of NVSHMEM is installed; else it says so.
 * Rank 0 prints.
 */
#include <nvshmem.h>
#include <nvshmemx.h>

#include "../gpu.h"

static __global__ void __launch_bounds__(GPU_THREADS)
	ping_pong(uint8_t *to, const uint8_t *from, uint64_t *word, uint64_t bytes, int rank,
		  int rounds, uint64_t first, uint64_t *ns)
{
	uint64_t start = 0;

	for (int i = 1; i <= GPU_WARM + rounds; i++) {
		if (i == GPU_WARM + 1)
			start = gpu_clock_ns();
		if (rank == 1) {
			if (!threadIdx.x)
				nvshmem_signal_wait_until(word, NVSHMEM_CMP_GE, first + i);
			__syncthreads();
		}
		nvshmemx_putmem_signal_nbi_block(to, from, bytes, word, first + i,
						 NVSHMEM_SIGNAL_SET, 1 - rank);
		if (rank == 0) {
			if (!threadIdx.x)
				nvshmem_signal_wait_until(word, NVSHMEM_CMP_GE, first + i);
			__syncthreads();
		}
	}
	if (!threadIdx.x)
		*ns = gpu_clock_ns() - start;
}

static __global__ void meet(int rounds, int barrier, uint64_t *ns)
{
	uint64_t start = 0;

	for (int i = 1; i <= GPU_WARM + rounds; i++) {
		if (i == GPU_WARM + 1)
			start = gpu_clock_ns();
		if (barrier)
			nvshmemx_barrier_all_block();
		else
			nvshmemx_sync_all_block();
	}
	if (!threadIdx.x)
		*ns = gpu_clock_ns() - start;
}

static __global__ void put_all(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	uint64_t share = (bytes / gridDim.x + 127) & ~127ull;
	uint64_t begin = share * blockIdx.x < bytes ? share * blockIdx.x : bytes;
	uint64_t mine = bytes - begin < share ? bytes - begin : share;

	nvshmemx_putmem_nbi_block(to + begin, from + begin, mine, 1);
	if (!threadIdx.x)
		nvshmem_quiet();
}

/* ---- running ---- */

struct job {
	struct gpu_meeting *m;
	uint32_t meetings;
	int rank, n;
	uint8_t *source, *landing;
	uint64_t *word, *ns;
	uint64_t first;
	cudaStream_t stream;
};

static void join(struct job *job)
{
	nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
	nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;

	static_assert(sizeof(id) <= sizeof(job->m->handles), "id");
	gpu_must(cudaSetDevice(0), "device");
	gpu_must(cudaFree(NULL), "device");
	if (job->rank == 0) {
		nvshmemx_get_uniqueid(&id);
		memcpy(job->m->handles, &id, sizeof(id));
	}
	gpu_meet(job->m, job->n, &job->meetings);
	memcpy(&id, job->m->handles, sizeof(id));
	nvshmemx_set_attr_uniqueid_args(job->rank, job->n, &id, &attr);
	if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr)) {
		fprintf(stderr, "versus_nvshmem: rank %d: nvshmemx_init_attr failed\n", job->rank);
		_exit(1);
	}
}

static void open_job(struct job *job, uint64_t bytes)
{
	join(job);
	job->source = (uint8_t *)nvshmem_malloc(bytes);
	job->landing = (uint8_t *)nvshmem_malloc(bytes);
	job->word = (uint64_t *)nvshmem_calloc(16, 8);
	if (!job->source || !job->landing || !job->word) {
		fprintf(stderr, "versus_nvshmem: no memory\n");
		_exit(1);
	}
	gpu_must(cudaStreamCreateWithFlags(&job->stream, cudaStreamNonBlocking), "stream");
	gpu_must(cudaMallocHost(&job->ns, sizeof(*job->ns)), "pinned memory");
	gpu_fill(job->source, bytes, job->rank, job->stream);
	nvshmem_barrier_all();
}

static void run_ping_pong(struct job *job, const struct gpu_size *size)
{
	gpu_meet(job->m, job->n, &job->meetings);
	ping_pong<<<1, GPU_THREADS, 0, job->stream>>>(job->landing, job->source, job->word,
						      size->bytes, job->rank, size->rounds,
						      job->first, job->ns);
	gpu_must(cudaGetLastError(), size->name);
	gpu_must(cudaStreamSynchronize(job->stream), size->name);
	job->first += GPU_WARM + (uint64_t)size->rounds;
	if (job->rank == 0)
		bench_print(size->name, (double)*job->ns * 1e-3 / size->rounds / 2, "us");
	gpu_meet(job->m, job->n, &job->meetings);
	gpu_check(size->name, job->landing, size->bytes, 1 - job->rank, 0, job->stream);
}

static void run_meet(struct job *job, int barrier)
{
	char name[32];

	gpu_meet(job->m, job->n, &job->meetings);
	meet<<<1, 32, 0, job->stream>>>(GPU_SYNCS / 4, barrier, job->ns);
	gpu_must(cudaGetLastError(), "meeting");
	gpu_must(cudaStreamSynchronize(job->stream), "meeting");
	snprintf(name, sizeof(name), "%s%d", barrier ? "barrier" : "sync", job->n);
	if (job->rank == 0)
		bench_print(name, (double)*job->ns * 1e-3 / (GPU_SYNCS / 4), "us");
}

static void run_put(struct job *job, int blocks)
{
	uint64_t bytes = gpu_row_bytes(blocks);
	cudaEvent_t begin, end;
	float ms = 0;
	char name[32];

	snprintf(name, sizeof(name), "bw%d", blocks);
	gpu_meet(job->m, job->n, &job->meetings);
	if (job->rank == 0) {
		gpu_must(cudaEventCreate(&begin), name);
		gpu_must(cudaEventCreate(&end), name);
		for (int i = -1; i < GPU_LAUNCHES; i++) {
			if (i == 0)
				gpu_must(cudaEventRecord(begin, job->stream), name);
			put_all<<<blocks, GPU_THREADS, 0, job->stream>>>(job->landing, job->source,
									 bytes);
			gpu_must(cudaGetLastError(), name);
		}
		gpu_must(cudaEventRecord(end, job->stream), name);
		gpu_must(cudaStreamSynchronize(job->stream), name);
		gpu_must(cudaEventElapsedTime(&ms, begin, end), name);
		bench_print(name, (double)bytes * GPU_LAUNCHES / ms * 1e-6, "GB/s");
	}
	gpu_meet(job->m, job->n, &job->meetings);
	if (job->rank == 1)
		gpu_check(name, job->landing, bytes, 0, 0, job->stream);
}

static void run_rank(struct gpu_meeting *m, int rank, int n)
{
	struct job job;

	memset(&job, 0, sizeof(job));
	job.m = m;
	job.rank = rank;
	job.n = n;
	open_job(&job, n == 2 ? GPU_LARGE : 1u << 20);
	for (int i = 0; n == 2 && i < 3; i++)
		run_ping_pong(&job, &gpu_sizes[i]);
	for (int i = 0; n == 2 && i < 5; i++)
		run_put(&job, gpu_blocks[i]);
	run_meet(&job, 0);
	run_meet(&job, 1);
	fflush(stdout);
	nvshmem_barrier_all();
	nvshmem_finalize();
}

int main(int argc, char **argv)
{
	int n = argc == 2 ? atoi(argv[1]) : 0;
	struct gpu_meeting *m = gpu_meeting_open();

	if (n < 2 || n > GPU_RANKS_MAX || !m) {
		fprintf(stderr, "usage: versus_nvshmem RANKS, 2 or 8\n");
		return 2;
	}
	return gpu_fork(n, m, run_rank);
}
