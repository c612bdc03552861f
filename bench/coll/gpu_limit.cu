/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/gpu_limit.cu - measures collectives written by hand between processes that share a GPU
 * (CUDA IPC, under MPS).
 *
 * Usage: limit_coll_gpu RANKS [OP:BYTES[:SEED]...]    2 to 8 ranks, each a process; the cases of
 *                                                     gpu.h, or those that are named
 *
 * All-gather has these ways:
 *	ce	the copy engine, with a kernel of one warp before and after it; one copy at a time
 *	batch	the same, with all copies in one batch
 *	push	one kernel that stores the own block to all ranks
 *	weave	the same, but blocks of a peer take turns instead of halves
 *	fan	the same, but a block loads a chunk once and stores it to all ranks
 *	pull	one kernel that copies the own block to its place, from where the others fetch it
 * All-to-all-v is one kernel.  It reads sizes and offsets from device memory, and tells the
 * receiver how much came.  Its way "shares" has a list of shares, all of about the same size, which
 * the host made: it needs no time to find them.
 * A broadcast from rank 0 is in place, and has two ways:
 *	pass	each of the others takes a piece from rank 0, and stores it to all the others
 *	take	each of the others takes all from rank 0
 * Kernels are tried with several numbers of blocks per peer, and the best counts: rows are
 * "row/way".  The kernels are in gpu_limit_kernels.h.
 *
 * There are no failure words, no deadlines and no argument checks.  The caller must end a program
 * that hangs.
 */
#include "gpu_limit_kernels.h"

static struct coll_list cases;

struct job {
	struct gpu_meeting *m;
	uint32_t meetings;
	struct world w;
	u64 *sizes, *offsets;
	struct share *shares;
	cudaStream_t stream;
	/* of the row that runs */
	const struct coll_case *c;
	int blocks, threads, nshares;
	u64 ready, arrived;
};

static void call_push(void *arg)
{
	struct job *j = (struct job *)arg;

	gather_push<false><<<j->w.n * j->blocks, j->threads, 0, j->stream>>>(j->w, j->c->bytes,
									     j->blocks, ++j->ready,
									     j->arrived);
	j->arrived += j->blocks;
}

static void call_weave(void *arg)
{
	struct job *j = (struct job *)arg;

	gather_push<true><<<j->w.n * j->blocks, j->threads, 0, j->stream>>>(j->w, j->c->bytes,
									    j->blocks, ++j->ready,
									    j->arrived);
	j->arrived += j->blocks;
}

static void call_fan(void *arg)
{
	struct job *j = (struct job *)arg;
	int grid = j->w.n * j->blocks;

	gather_fan<<<grid, j->threads, 0, j->stream>>>(j->w, j->c->bytes, ++j->ready, j->arrived);
	j->arrived += grid;
}

static void call_shares(void *arg)
{
	struct job *j = (struct job *)arg;

	exchange_shares<<<j->nshares, j->threads, 0, j->stream>>>(j->w, j->shares, j->c->bytes,
								  ++j->ready);
}

static void call_reduce(void *arg)
{
	struct job *j = (struct job *)arg;
	int grid = j->w.n * j->blocks;

	reduce<<<grid, j->threads, 0, j->stream>>>(j->w, j->c->bytes, ++j->ready, j->arrived);
	j->arrived += grid;
}

static void call_scatter(void *arg)
{
	struct job *j = (struct job *)arg;
	int grid = j->w.n * j->blocks;

	scatter<<<grid, j->threads, 0, j->stream>>>(j->w, j->c->bytes, ++j->ready, j->arrived);
	j->arrived += grid;
}

template <bool pass> static void call_cast(void *arg)
{
	struct job *j = (struct job *)arg;
	int grid = j->w.n * j->blocks;

	cast<pass><<<grid, j->threads, 0, j->stream>>>(j->w, j->c->bytes, ++j->ready, j->arrived);
	j->arrived += grid;
}

static void call_pull(void *arg)
{
	struct job *j = (struct job *)arg;

	gather_pull<<<j->w.n * j->blocks, j->threads, 0, j->stream>>>(j->w, j->c->bytes, j->blocks,
								      j->ready, j->arrived);
	j->ready += j->blocks;
	j->arrived += j->blocks;
}

static void call_exchange(void *arg)
{
	struct job *j = (struct job *)arg;

	exchange<<<j->w.n * j->blocks, j->threads, 0, j->stream>>>(j->w, j->c->bytes, j->blocks,
								   ++j->ready, j->arrived);
	j->arrived += j->blocks;
}

static void call_ce(void *arg)
{
	struct job *j = (struct job *)arg;
	uint64_t bytes = j->c->bytes;

	meet<<<1, 32, 0, j->stream>>>(j->w, ++j->ready);
	for (int i = 1; i <= j->w.n; i++) {
		int p = (j->w.me + i) % j->w.n;

		gpu_must(cudaMemcpyAsync(j->w.recv[p] + j->w.me * bytes, j->w.send[j->w.me], bytes,
					 cudaMemcpyDefault, j->stream),
			 "copy engine");
	}
	meet<<<1, 32, 0, j->stream>>>(j->w, ++j->ready);
}

#if CUDART_VERSION >= 13000
static void call_batch(void *arg)
{
	struct job *j = (struct job *)arg;
	const void *from[GPU_RANKS_MAX];
	void *to[GPU_RANKS_MAX];
	size_t bytes[GPU_RANKS_MAX], first = 0;
	struct cudaMemcpyAttributes how;

	memset(&how, 0, sizeof(how));
	how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	how.flags = cudaMemcpyFlagPreferOverlapWithCompute;
	for (int i = 0; i < j->w.n; i++) {
		int p = (j->w.me + 1 + i) % j->w.n;

		to[i] = j->w.recv[p] + j->w.me * j->c->bytes;
		from[i] = j->w.send[j->w.me];
		bytes[i] = j->c->bytes;
	}
	meet<<<1, 32, 0, j->stream>>>(j->w, ++j->ready);
	gpu_must(cudaMemcpyBatchAsync(to, from, bytes, (size_t)j->w.n, &how, &first, 1, j->stream),
		 "batch of copies");
	meet<<<1, 32, 0, j->stream>>>(j->w, ++j->ready);
}
#endif

/* All ranks have the words at 0 and nothing under way. */
static void begin_row(struct job *j)
{
	gpu_meet(j->m, j->w.n, &j->meetings);
	gpu_must(cudaMemsetAsync(j->w.words[j->w.me], 0, WORDS * sizeof(u64), j->stream), "words");
	gpu_must(cudaStreamSynchronize(j->stream), "words");
	j->ready = j->arrived = 0;
	gpu_meet(j->m, j->w.n, &j->meetings);
}

static void run_row(struct job *j, const char *way, void (*fn)(void *))
{
	char name[64];
	double us;

	coll_name(j->c, j->w.n, way, name, sizeof(name));
	if (j->c->op == COLL_CAST && !j->w.me) /* the check of the row before has cleared it */
		coll_fill(j->c, j->w.recv[0], 0, j->w.n, j->stream);
	begin_row(j);
	us = coll_time(fn, j, j->c->calls, j->stream);
	gpu_must(cudaGetLastError(), name);
	gpu_meet(j->m, j->w.n, &j->meetings);
	coll_check(name, j->c, j->w.recv[j->w.me], j->c->bytes, j->w.me, j->w.n, j->stream);
	if (j->w.me == 0)
		bench_print(name, us, "us");
}

/* With several numbers of blocks, as far as all of a rank's find room on its SMs at once. */
static void run_kernel(struct job *j, const char *what, const void *kernel, void (*fn)(void *))
{
	int sms = 0, fit = 0;
	char way[32];

	gpu_must(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
	j->threads = j->c->bytes < 4096 ? 128 : 512;
	gpu_must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, j->threads, 0),
		 "occupancy");
	for (j->blocks = 1; j->blocks <= 64; j->blocks *= 2) {
		if (j->w.n * j->blocks > fit * sms ||
		    (j->blocks > 1 && j->c->bytes / j->blocks < 1024))
			break;
		snprintf(way, sizeof(way), "%s%d", what, j->blocks);
		run_row(j, way, fn);
	}
}

static void set_sizes(struct job *j)
{
	u64 sizes[GPU_RANKS_MAX], offsets[GPU_RANKS_MAX];

	for (int p = 0; p < j->w.n; p++) {
		sizes[p] = coll_bytes(j->c, j->w.me, p, j->w.n);
		offsets[p] = (u64)p * j->c->bytes;
	}
	gpu_must(cudaMemcpy(j->sizes, sizes, j->w.n * sizeof(u64), cudaMemcpyDefault), "sizes");
	gpu_must(cudaMemcpy(j->offsets, offsets, j->w.n * sizeof(u64), cudaMemcpyDefault),
		 "offsets");
}

/* Shares of at most `most` bytes. */
static void run_shares(struct job *j, uint64_t most, const char *way)
{
	struct share list[SHARES];
	int n = 0, sms = 0, fit = 0;

	for (int i = 0; i < j->w.n; i++) {
		int p = (j->w.me + i) % j->w.n;
		uint64_t bytes = coll_bytes(j->c, j->w.me, p, j->w.n),
			 blocks = bytes ? (bytes + most - 1) / most : 1;

		for (uint64_t b = 0; b < blocks && n < SHARES; b++, n++) {
			uint64_t share = (bytes / blocks + 127) & ~127ull, at = share * b;

			list[n].peer = p;
			list[n].first = b == 0;
			list[n].begin = at;
			list[n].bytes = bytes - at < share ? bytes - at : share;
			list[n].count = b ? 1 : ONE - (blocks - 1);
		}
	}
	gpu_must(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
	gpu_must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, exchange_shares, 512, 0),
		 "occupancy");
	if (n == SHARES || n > fit * sms)
		return;
	gpu_must(cudaMemcpy(j->shares, list, n * sizeof(list[0]), cudaMemcpyDefault), "shares");
	j->nshares = n;
	j->threads = 512;
	run_row(j, way, call_shares);
}

static void run_case(struct job *j)
{
	uint64_t sum = 0, grain;

	coll_fill(j->c, j->w.send[j->w.me], j->w.me, j->w.n, j->stream);
	set_sizes(j);
	if (j->c->op == COLL_REDUCE) {
		run_kernel(j, "direct", (const void *)reduce, call_reduce);
		return;
	}
	if (j->c->op == COLL_SCATTER) {
		run_kernel(j, "direct", (const void *)scatter, call_scatter);
		return;
	}
	if (j->c->op == COLL_CAST) {
		run_kernel(j, "pass", (const void *)cast<true>, call_cast<true>);
		run_kernel(j, "take", (const void *)cast<false>, call_cast<false>);
		return;
	}
	if (j->c->op != COLL_GATHER) {
		run_kernel(j, "blocks", (const void *)exchange, call_exchange);
		for (int p = 0; p < j->w.n; p++)
			sum += coll_bytes(j->c, j->w.me, p, j->w.n);
		if (j->c->op == COLL_SKEW || j->c->op == COLL_RANDOM) {
			grain = sum / j->w.n < 64u << 10 ? 64u << 10 : sum / j->w.n;
			run_shares(j, grain, "shares1");
			run_shares(j, grain * 2 / 3, "shares2");
			run_shares(j, grain / 2, "shares3");
			run_shares(j, grain / 4, "shares4");
		}
		return;
	}
	run_row(j, "ce", call_ce);
#if CUDART_VERSION >= 13000
	run_row(j, "batch", call_batch);
#endif
	run_kernel(j, "push", (const void *)gather_push<false>, call_push);
	if (j->c->bytes >= 1u << 20) {
		run_kernel(j, "weave", (const void *)gather_push<true>, call_weave);
		run_kernel(j, "fan", (const void *)gather_fan, call_fan);
	}
	if (j->c->bytes >= 64u << 10)
		run_kernel(j, "pull", (const void *)gather_pull, call_pull);
}

static void *open_peer(const uint8_t *handle, const char *what)
{
	void *at = NULL;

	gpu_must(cudaIpcOpenMemHandle(&at, *(const cudaIpcMemHandle_t *)(const void *)handle,
				      cudaIpcMemLazyEnablePeerAccess),
		 what);
	return at;
}

/* One allocation of data: what is sent, then what is received. */
static void open_job(struct job *j)
{
	uint64_t half = cases.recv;
	int me = j->w.me;

	gpu_must(cudaSetDevice(0), "device");
	gpu_must(cudaMalloc(&j->w.send[me], 2 * half), "data");
	gpu_must(cudaMalloc(&j->w.words[me], WORDS * sizeof(u64)), "words");
	gpu_must(cudaMalloc(&j->sizes, GPU_RANKS_MAX * sizeof(u64)), "sizes");
	gpu_must(cudaMalloc(&j->offsets, GPU_RANKS_MAX * sizeof(u64)), "offsets");
	gpu_must(cudaMalloc(&j->shares, SHARES * sizeof(*j->shares)), "shares");
	j->w.sizes = j->sizes;
	j->w.offsets = j->offsets;
	gpu_must(cudaStreamCreateWithFlags(&j->stream, cudaStreamNonBlocking), "stream");
	gpu_must(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)j->m->handles[me][0], j->w.send[me]),
		 "handle");
	gpu_must(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)j->m->handles[me][1], j->w.words[me]),
		 "handle");
	gpu_meet(j->m, j->w.n, &j->meetings);
	for (int q = 0; q < j->w.n; q++) {
		if (q != me) {
			j->w.send[q] = (uint8_t *)open_peer(j->m->handles[q][0], "a peer's data");
			j->w.words[q] = (u64 *)open_peer(j->m->handles[q][1], "a peer's words");
		}
		j->w.recv[q] = j->w.send[q] + half;
	}
}

static void run_rank(struct gpu_meeting *m, int rank, int n)
{
	struct job job;

	memset(&job, 0, sizeof(job));
	job.m = m;
	job.w.me = rank;
	job.w.n = n;
	open_job(&job);
	for (int i = 0; i < cases.n; i++) {
		job.c = &cases.c[i];
		run_case(&job);
	}
	gpu_meet(m, n, &job.meetings);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0;
	struct gpu_meeting *m = gpu_meeting_open();

	if (n < 2 || n > GPU_RANKS_MAX || !m || !coll_cases(&cases, argc - 2, argv + 2, n)) {
		fprintf(stderr, "usage: limit_coll_gpu RANKS [OP:BYTES[:SEED]...], 2 to 8 ranks\n");
		return 2;
	}
	return gpu_fork(n, m, run_rank);
}
