/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/gpu_nvshmem.cu - the rows of gpu_limit.cu with NVSHMEM.
 *
 * Usage: versus_nvshmem_coll 2|8  the number of ranks, each a process
 *
 * All-gather is fcollectmem_on_stream, all-reduce float_sum_reduce_on_stream, broadcast
 * broadcastmem_on_stream.  Reduce-scatters of these sizes do not fit in NVSHMEM's scratch memory,
 * and more of that would change the all-reduce too: they are not measured.  NVSHMEM has no
 * all-to-all-v, so two ways are measured with uniform sizes, and the better one counts:
 *	alltoall  alltoallmem_on_stream
 *	puts	  a kernel that puts with signals: one block per peer, sizes in device memory.
 *		  No rank may be one call ahead, so the kernel ends with a barrier.
 * bench/coll/gpu.sh builds this program if the Python wheel of NVSHMEM is installed; else it says
 * so.  Rank 0 prints.
 */
#include <nvshmem.h>
#include <nvshmemx.h>

#include "gpu.h"

struct job {
	struct gpu_meeting *m;
	uint32_t meetings;
	int rank, n;
	uint8_t *send, *recv;
	uint64_t *words; /* signals, [n] */
	uint64_t *sizes; /* device memory, [n] */
	uint64_t call;
	const struct coll_case *c;
	cudaStream_t stream;
};

static struct coll_list cases;

static void call_reduce(void *arg)
{
	struct job *j = (struct job *)arg;

	nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, (float *)j->recv,
					    (const float *)j->send, j->c->bytes / 4, j->stream);
}

static void call_cast(void *arg)
{
	struct job *j = (struct job *)arg;

	nvshmemx_broadcastmem_on_stream(NVSHMEM_TEAM_WORLD, j->recv, j->recv, j->c->bytes, 0,
					j->stream);
}

static void call_gather(void *arg)
{
	struct job *j = (struct job *)arg;

	nvshmemx_fcollectmem_on_stream(NVSHMEM_TEAM_WORLD, j->recv, j->send, j->c->bytes,
				       j->stream);
}

static void call_alltoall(void *arg)
{
	struct job *j = (struct job *)arg;

	nvshmemx_alltoallmem_on_stream(NVSHMEM_TEAM_WORLD, j->recv, j->send, j->c->bytes,
				       j->stream);
}

static __global__ void __launch_bounds__(512)
	put_parts(uint8_t *recv, const uint8_t *send, uint64_t slot, const uint64_t *sizes,
		  uint64_t *words, uint64_t call, int rank, int n)
{
	int p = (int)(blockIdx.x + rank) % n;

	nvshmemx_putmem_signal_nbi_block(recv + rank * slot, send + p * slot, sizes[p],
					 words + rank, call, NVSHMEM_SIGNAL_SET, p);
	if (!threadIdx.x)
		nvshmem_signal_wait_until(words + p, NVSHMEM_CMP_GE, call);
}

static void call_puts(void *arg)
{
	struct job *j = (struct job *)arg;

	put_parts<<<j->n, 512, 0, j->stream>>>(j->recv, j->send, j->c->bytes, j->sizes, j->words,
					       ++j->call, j->rank, j->n);
	nvshmemx_barrier_all_on_stream(j->stream);
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
		fprintf(stderr, "versus_nvshmem_coll: rank %d: nvshmemx_init_attr failed\n",
			j->rank);
		_exit(1);
	}
}

static void open_job(struct job *j)
{
	join(j);
	j->send = (uint8_t *)nvshmem_malloc(cases.send);
	j->recv = (uint8_t *)nvshmem_malloc(cases.recv);
	j->words = (uint64_t *)nvshmem_calloc(GPU_RANKS_MAX, 8);
	if (!j->send || !j->recv || !j->words) {
		fprintf(stderr, "versus_nvshmem_coll: no memory\n");
		_exit(1);
	}
	gpu_must(cudaMalloc(&j->sizes, GPU_RANKS_MAX * sizeof(uint64_t)), "sizes");
	gpu_must(cudaStreamCreateWithFlags(&j->stream, cudaStreamNonBlocking), "stream");
	nvshmem_barrier_all();
}

/* Large ones are slow: fewer calls. */
static void run_row(struct job *j, const char *way, void (*fn)(void *))
{
	int calls = j->c->bytes > 1u << 20 ? 4 : j->c->bytes > 64u << 10 ? 30 : 200;
	char name[64];
	double us;

	coll_name(j->c, j->n, way, name, sizeof(name));
	gpu_meet(j->m, j->n, &j->meetings);
	us = coll_time(fn, j, calls, j->stream);
	gpu_must(cudaGetLastError(), name);
	nvshmem_barrier_all();
	coll_check(name, j->c, j->recv, j->c->bytes, j->rank, j->n, j->stream);
	if (j->rank == 0)
		bench_print(name, us, "us");
}

static void run_case(struct job *j)
{
	uint64_t sizes[GPU_RANKS_MAX];

	for (int p = 0; p < j->n; p++)
		sizes[p] = coll_bytes(j->c, j->rank, p, j->n);
	gpu_must(cudaMemcpy(j->sizes, sizes, j->n * sizeof(*sizes), cudaMemcpyDefault), "sizes");
	if (j->c->op != COLL_CAST)
		coll_fill(j->c, j->send, j->rank, j->n, j->stream);
	else if (!j->rank) /* in place, as the others */
		coll_fill(j->c, j->recv, 0, j->n, j->stream);
	if (j->c->op == COLL_GATHER || coll_is_whole(j->c)) {
		run_row(j, "",
			j->c->op == COLL_GATHER ? call_gather :
			j->c->op == COLL_CAST   ? call_cast :
						  call_reduce);
		return;
	}
	run_row(j, "alltoall", call_alltoall);
	run_row(j, "puts", call_puts);
}

static void run_rank(struct gpu_meeting *m, int rank, int n)
{
	struct job job;

	memset(&job, 0, sizeof(job));
	job.m = m;
	job.rank = rank;
	job.n = n;
	open_job(&job);
	for (int i = 0; i < cases.n; i++)
		if (cases.c[i].op != COLL_SKEW && cases.c[i].op != COLL_SCATTER) {
			job.c = &cases.c[i];
			run_case(&job);
		}
	fflush(stdout);
	nvshmem_barrier_all();
	nvshmem_finalize();
}

int main(int argc, char **argv)
{
	int n = argc == 2 ? atoi(argv[1]) : 0;
	struct gpu_meeting *m = gpu_meeting_open();

	if (n < 2 || n > GPU_RANKS_MAX || !m || !coll_cases(&cases, 0, NULL, n)) {
		fprintf(stderr, "usage: versus_nvshmem_coll RANKS, 2 or 8\n");
		return 2;
	}
	return gpu_fork(n, m, run_rank);
}
