/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/limit/gpu.cu - measures kernels written by hand between processes that share a GPU (CUDA
 * IPC, under MPS).
 *
 * Usage: limit_gpu 2|8    the number of ranks, each a process
 *	2	ping-pong of 8 B by one thread, and of 8 B, 64 KiB and 1 MiB by a block of 512;
 *		packets of 8 B to 16 KiB; bandwidth of 1 to 64 blocks; a barrier of 2 ranks
 *	8	a barrier of 8 ranks
 * There are no failure words, no deadlines and no argument checks: only the loads and stores, and
 * the one release and acquire that the task needs.  Rows "..._same" do what every call of a library
 * must do besides: look at two failure words, stop a wait after some polls, and tell all threads
 * the verdict.  A row with several ways of copying prints one
 * line per way, "row/way"; the best counts.  Rank 0 prints.  The caller must end a program that
 * hangs.
 */
#include "../gpu.h"
#include "../gpu_words.h"
#include "gpu_packet.h"

struct pair {
	uint8_t *mine, *theirs;    /* data; the landing place is GPU_LARGE further on */
	u64 *my_word, *their_word; /* this row's words */
	int second;
};

#define FAILED 8 /* two failure words, in the line of a row's word; nobody sets them */

/* ---- copies ---- */

/* `bytes` is a multiple of 16; all in flight that `UNROLL` allows. */
template <int UNROLL>
static __device__ __forceinline__ void copy(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	uint4 *d = (uint4 *)to, v[UNROLL];
	const uint4 *s = (const uint4 *)from;
	uint64_t n = bytes / 16, i = threadIdx.x, step = blockDim.x;

	for (; i + (UNROLL - 1) * step < n; i += UNROLL * step) {
#pragma unroll
		for (int k = 0; k < UNROLL; k++)
			v[k] = s[i + k * step];
#pragma unroll
		for (int k = 0; k < UNROLL; k++)
			d[i + k * step] = v[k];
	}
	for (; i < n; i += step)
		d[i] = s[i];
}

/*
 * Bulk copies through shared memory: one thread moves pieces of 16 KiB, BULK_STAGES of them under
 * way, of which BULK_STORES may be on their way out.
 */
#define BULK_PIECE 16384u
#define BULK_STAGES 12u
#define BULK_STORES 4u
#define BULK_SHARED (BULK_STAGES * BULK_PIECE + 128u)

static __device__ __forceinline__ uint32_t shared_address(const void *at)
{
	return (uint32_t)__cvta_generic_to_shared(at);
}

static __device__ __forceinline__ void bulk_load(void *stage, const uint8_t *from, uint32_t bytes,
						 u64 *arrived)
{
	asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(
			     shared_address(arrived)),
		     "r"(bytes)
		     : "memory");
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1], %2, [%3];" ::"r"(shared_address(stage)),
		     "l"(from), "r"(bytes), "r"(shared_address(arrived))
		     : "memory");
}

static __device__ __forceinline__ void bulk_await(u64 *arrived, uint32_t phase)
{
	uint32_t there = 0;

	while (!there)
		asm volatile("{\n.reg .pred p;\n"
			     "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
			     "selp.u32 %0, 1, 0, p;\n}"
			     : "=r"(there)
			     : "r"(shared_address(arrived)), "r"(phase)
			     : "memory");
}

static __device__ __forceinline__ void bulk_store(uint8_t *to, const void *stage, uint32_t bytes)
{
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
		     "r"(shared_address(stage)), "r"(bytes)
		     : "memory");
	asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

static __device__ __forceinline__ uint32_t piece_bytes(uint64_t bytes, uint64_t i)
{
	uint64_t left = bytes - i * BULK_PIECE;

	return left < BULK_PIECE ? (uint32_t)left : BULK_PIECE;
}

/* By one thread; `bytes` is a multiple of 16. */
static __device__ void bulk_copy(uint8_t *to, const uint8_t *from, uint64_t bytes, uint8_t *stages,
				 u64 *arrived)
{
	uint64_t n = (bytes + BULK_PIECE - 1) / BULK_PIECE, next;

	for (uint32_t k = 0; k < BULK_STAGES; k++)
		asm volatile(
			"mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&arrived[k])));
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	for (next = 0; next < n && next < BULK_STAGES; next++)
		bulk_load(stages + next * BULK_PIECE, from + next * BULK_PIECE,
			  piece_bytes(bytes, next), &arrived[next]);
	for (uint64_t i = 0; i < n; i++) {
		uint32_t k = (uint32_t)(i % BULK_STAGES);

		bulk_await(&arrived[k], (uint32_t)(i / BULK_STAGES) & 1u);
		bulk_store(to + i * BULK_PIECE, stages + k * BULK_PIECE, piece_bytes(bytes, i));
		if (i < BULK_STORES || next >= n)
			continue;
		/*
		 * All but the last BULK_STORES have been read out: the stage of the one before is
		 * free.
		 */
		asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(BULK_STORES) : "memory");
		k = (uint32_t)(next % BULK_STAGES);
		bulk_load(stages + k * BULK_PIECE, from + next * BULK_PIECE,
			  piece_bytes(bytes, next), &arrived[k]);
		next++;
	}
	asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* ---- kernels ---- */

/* The loop of both ping-pongs; `put` moves the data of one round. */
#define WAY_8 0 /* one thread moves 8 bytes */

template <int WAY>
static __global__ void __launch_bounds__(GPU_THREADS, 1)
	ping_pong(struct pair p, uint64_t bytes, int rounds, u64 first, uint64_t *ns)
{
	uint64_t start = 0;

	for (int i = 1; i <= GPU_WARM + rounds; i++) {
		if (i == GPU_WARM + 1)
			start = gpu_clock_ns();
		if (p.second) {
			if (!threadIdx.x)
				await(p.my_word, first + i);
			__syncthreads();
		}
		if (WAY == WAY_8) {
			if (!threadIdx.x)
				*(volatile u64 *)(p.theirs + GPU_LARGE) = *(volatile u64 *)p.mine;
		} else {
			copy<WAY ? WAY : 1>(p.theirs + GPU_LARGE, p.mine, bytes);
		}
		__syncthreads();
		if (!threadIdx.x)
			store_release(p.their_word, first + i);
		if (!p.second) {
			if (!threadIdx.x)
				await(p.my_word, first + i);
			__syncthreads();
		}
	}
	if (!threadIdx.x)
		*ns = gpu_clock_ns() - start;
}

/* ---- the same with what a call must do besides ---- */

#define POLLS 1000000

static __device__ __forceinline__ u64 load_relaxed(const u64 *word)
{
	u64 v;

	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
}

/* By the group: waits, and tells all threads whether it ended well. */
static __device__ __forceinline__ int wait_same(const struct pair &p, u64 v)
{
	int bad = 0, polls = POLLS;
	u64 failed;

	if (!threadIdx.x) {
		failed = load_relaxed(p.my_word + FAILED) | load_relaxed(p.my_word + FAILED + 1);
		do
			bad = load_acquire(p.my_word) < v;
		while (bad && --polls);
		bad |= failed != 0;
	}
	return __syncthreads_or(bad);
}

template <int WAY>
static __device__ __forceinline__ int put_same(const struct pair &p, uint64_t bytes, u64 v)
{
	u64 failed = 0;

	if (!threadIdx.x)
		failed = load_relaxed(p.my_word + FAILED) | load_relaxed(p.my_word + FAILED + 1);
	if (WAY == WAY_8) {
		if (!threadIdx.x)
			*(volatile u64 *)(p.theirs + GPU_LARGE) = *(volatile u64 *)p.mine;
	} else {
		copy<WAY ? WAY : 1>(p.theirs + GPU_LARGE, p.mine, bytes);
	}
	if (__syncthreads_or(failed != 0))
		return 1;
	if (!threadIdx.x)
		store_release(p.their_word, v);
	return 0;
}

template <int WAY>
static __global__ void __launch_bounds__(GPU_THREADS, 1)
	ping_pong_same(struct pair p, uint64_t bytes, int rounds, u64 first, uint64_t *ns)
{
	uint64_t start = 0;
	int bad = 0;

	for (int i = 1; !bad && i <= GPU_WARM + rounds; i++) {
		if (i == GPU_WARM + 1)
			start = gpu_clock_ns();
		if (p.second)
			bad = wait_same(p, first + i);
		if (!bad)
			bad = put_same<WAY>(p, bytes, first + i);
		if (!bad && !p.second)
			bad = wait_same(p, first + i);
	}
	if (!threadIdx.x)
		*ns = bad ? 0 : gpu_clock_ns() - start;
}

struct ranks {
	u64 *words[GPU_RANKS_MAX]; /* each rank's row of words, one per source, a line apart */
	int me, n;
};

#define LINE 16 /* words */

static __global__ void meet(struct ranks w, int rounds, u64 first, uint64_t *ns)
{
	uint64_t start = 0;
	int t = (int)threadIdx.x;

	for (int i = 1; i <= GPU_WARM + rounds; i++) {
		if (i == GPU_WARM + 1)
			start = gpu_clock_ns();
		__syncthreads();
		if (t < w.n) {
			store_release(w.words[t] + (64 + w.me) * LINE, first + i);
			await(w.words[w.me] + (64 + t) * LINE, first + i);
		}
		__syncthreads();
	}
	if (!t)
		*ns = gpu_clock_ns() - start;
}

static __device__ __forceinline__ uint64_t share_of(uint64_t bytes, uint64_t *begin)
{
	uint64_t share = (bytes / gridDim.x + 127) & ~127ull;

	*begin = share * blockIdx.x < bytes ? share * blockIdx.x : bytes;
	return bytes - *begin < share ? bytes - *begin : share;
}

template <int UNROLL, int THREADS>
static __global__ void __launch_bounds__(THREADS, 1)
	put_all(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	uint64_t begin, mine = share_of(bytes, &begin);

	copy<UNROLL>(to + begin, from + begin, mine);
}

static __global__ void put_bulk(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	extern __shared__ __align__(128) uint8_t shared[];
	uint64_t begin, mine = share_of(bytes, &begin);

	if (!threadIdx.x)
		bulk_copy(to + begin, from + begin, mine, shared,
			  (u64 *)(shared + BULK_STAGES * BULK_PIECE));
}

/* ---- running ---- */

struct job {
	struct gpu_meeting *m;
	uint32_t meetings;
	int rank, n;
	uint8_t *data[GPU_RANKS_MAX];
	u64 *words[GPU_RANKS_MAX];
	uint64_t *ns; /* pinned */
	u64 first;    /* words got so far, by all rows */
	cudaStream_t stream;
};

static void open_job(struct job *job)
{
	struct gpu_meeting *m = job->m;
	int r = job->rank;

	static_assert(sizeof(cudaIpcMemHandle_t) <= sizeof(m->handles[0][0]), "handle");
	gpu_must(cudaMalloc(&job->data[r], 2 * GPU_LARGE + GPU_SLACK), "data");
	gpu_must(cudaMalloc(&job->words[r], 128 * LINE * 8), "words");
	gpu_must(cudaMemset(job->words[r], 0, 128 * LINE * 8), "words");
	gpu_must(cudaStreamCreateWithFlags(&job->stream, cudaStreamNonBlocking), "stream");
	gpu_must(cudaMallocHost(&job->ns, sizeof(*job->ns)), "pinned memory");
	gpu_must(cudaDeviceSynchronize(), "start");
	gpu_fill(job->data[r], GPU_LARGE, r, job->stream);
	gpu_must(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)m->handles[r][0], job->data[r]),
		 "handle of the data");
	gpu_must(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)m->handles[r][1], job->words[r]),
		 "handle of the words");
	gpu_meet(m, job->n, &job->meetings);
	for (int q = 0; q < job->n; q++) {
		if (q == r)
			continue;
		gpu_must(cudaIpcOpenMemHandle((void **)&job->data[q],
					      *(cudaIpcMemHandle_t *)m->handles[q][0],
					      cudaIpcMemLazyEnablePeerAccess),
			 "a peer's data");
		gpu_must(cudaIpcOpenMemHandle((void **)&job->words[q],
					      *(cudaIpcMemHandle_t *)m->handles[q][1],
					      cudaIpcMemLazyEnablePeerAccess),
			 "a peer's words");
	}
	gpu_meet(m, job->n, &job->meetings);
}

typedef void ping_pong_fn(struct pair p, uint64_t bytes, int rounds, u64 first, uint64_t *ns);

static void run_ping_pong(struct job *job, ping_pong_fn *kernel, const char *name, int threads,
			  uint64_t bytes, int rounds)
{
	int r = job->rank, peer = 1 - r;
	struct pair p = { job->data[r], job->data[peer], job->words[r] + peer * LINE,
			  job->words[peer] + r * LINE, r };

	gpu_meet(job->m, job->n, &job->meetings);
	kernel<<<1, threads, 0, job->stream>>>(p, bytes, rounds, job->first, job->ns);
	gpu_must(cudaGetLastError(), name);
	gpu_must(cudaStreamSynchronize(job->stream), name);
	job->first += GPU_WARM + rounds;
	if (r == 0)
		bench_print(name, (double)*job->ns * 1e-3 / rounds / 2, "us");
	gpu_meet(job->m, job->n, &job->meetings);
	gpu_check(name, job->data[r] + GPU_LARGE, bytes, peer, 0, job->stream);
}

static void run_meet(struct job *job)
{
	struct ranks w;
	char name[32];

	memcpy(w.words, job->words, sizeof(w.words));
	w.me = job->rank;
	w.n = job->n;
	gpu_meet(job->m, job->n, &job->meetings);
	meet<<<1, 32, 0, job->stream>>>(w, GPU_SYNCS, 0, job->ns);
	gpu_must(cudaStreamSynchronize(job->stream), "meeting");
	snprintf(name, sizeof(name), "sync%d", job->n);
	if (job->rank == 0)
		bench_print(name, (double)*job->ns * 1e-3 / GPU_SYNCS, "us");
}

typedef void launch_fn(uint8_t *to, const uint8_t *from, uint64_t bytes, int blocks,
		       cudaStream_t stream);

template <int UNROLL, int THREADS>
static void launch_put(uint8_t *to, const uint8_t *from, uint64_t bytes, int blocks,
		       cudaStream_t stream)
{
	put_all<UNROLL, THREADS><<<blocks, THREADS, 0, stream>>>(to, from, bytes);
}

static void launch_bulk(uint8_t *to, const uint8_t *from, uint64_t bytes, int blocks,
			cudaStream_t stream)
{
	put_bulk<<<blocks, 32, BULK_SHARED, stream>>>(to, from, bytes);
}

static void run_put(struct job *job, const char *way, int blocks, launch_fn *launch)
{
	uint64_t bytes = gpu_row_bytes(blocks);
	cudaEvent_t begin, end;
	float ms = 0;
	char name[48];

	snprintf(name, sizeof(name), "bw%d/%s", blocks, way);
	gpu_meet(job->m, job->n, &job->meetings);
	if (job->rank == 0) {
		gpu_must(cudaEventCreate(&begin), name);
		gpu_must(cudaEventCreate(&end), name);
		for (int i = -1; i < GPU_LAUNCHES; i++) {
			if (i == 0)
				gpu_must(cudaEventRecord(begin, job->stream), name);
			launch(job->data[1] + GPU_LARGE, job->data[0], bytes, blocks, job->stream);
			gpu_must(cudaGetLastError(), name);
		}
		gpu_must(cudaEventRecord(end, job->stream), name);
		gpu_must(cudaStreamSynchronize(job->stream), name);
		gpu_must(cudaEventElapsedTime(&ms, begin, end), name);
		bench_print(name, (double)bytes * GPU_LAUNCHES / ms * 1e-6, "GB/s");
	}
	gpu_meet(job->m, job->n, &job->meetings);
	if (job->rank == 1)
		gpu_check(name, job->data[1] + GPU_LARGE, bytes, 0, 0, job->stream);
}

/* Cells lie behind the landing place.  They are cleared: marks start again in every row. */
template <int WIDE>
static void run_packet(struct job *job, const char *way, const struct gpu_packet *row)
{
	const uint64_t cells = GPU_LARGE + GPU_LARGE / 2;
	int r = job->rank, peer = 1 - r;
	struct packet_pair p = { (const uint64_t *)job->data[r],
				 (uint64_t *)(job->data[r] + GPU_LARGE),
				 (uint64_t *)(job->data[r] + cells),
				 (uint64_t *)(job->data[peer] + cells), r };
	char name[48];

	snprintf(name, sizeof(name), "%s/%s", row->name, way);
	gpu_must(cudaMemsetAsync(p.mine, 0, 2 * PACKET_BOX, job->stream), name);
	gpu_must(cudaStreamSynchronize(job->stream), name);
	gpu_meet(job->m, job->n, &job->meetings);
	packet_ping_pong<WIDE>
		<<<1, row->threads, 0, job->stream>>>(p, row->bytes, row->rounds, job->ns);
	gpu_must(cudaGetLastError(), name);
	gpu_must(cudaStreamSynchronize(job->stream), name);
	if (r == 0)
		bench_print(name, (double)*job->ns * 1e-3 / row->rounds / 2, "us");
	gpu_meet(job->m, job->n, &job->meetings);
	gpu_check(name, p.target, row->bytes, peer, 0, job->stream);
}

static void run_pair(struct job *job)
{
	for (int i = 0; i < GPU_PACKETS; i++) {
		run_packet<0>(job, "halves", &gpu_packets[i]);
		run_packet<1>(job, "wide", &gpu_packets[i]);
	}
	run_ping_pong(job, ping_pong<WAY_8>, "thread8", 1, 8, gpu_sizes[0].rounds);
	run_ping_pong(job, ping_pong<WAY_8>, "block8", GPU_THREADS, 8, gpu_sizes[0].rounds);
	run_ping_pong(job, ping_pong_same<WAY_8>, "thread8_same", 1, 8, gpu_sizes[0].rounds);
	run_ping_pong(job, ping_pong_same<WAY_8>, "block8_same", GPU_THREADS, 8,
		      gpu_sizes[0].rounds);
	for (int i = 1; i < 3; i++) {
		const struct gpu_size *s = &gpu_sizes[i];
		char name[48];

		snprintf(name, sizeof(name), "%s/unroll8", s->name);
		run_ping_pong(job, ping_pong<8>, name, GPU_THREADS, s->bytes, s->rounds);
		snprintf(name, sizeof(name), "%s/unroll16", s->name);
		run_ping_pong(job, ping_pong<16>, name, GPU_THREADS, s->bytes, s->rounds);
		snprintf(name, sizeof(name), "%s_same/unroll8", s->name);
		run_ping_pong(job, ping_pong_same<8>, name, GPU_THREADS, s->bytes, s->rounds);
		snprintf(name, sizeof(name), "%s_same/unroll16", s->name);
		run_ping_pong(job, ping_pong_same<16>, name, GPU_THREADS, s->bytes, s->rounds);
	}
	gpu_must(cudaFuncSetAttribute(put_bulk, cudaFuncAttributeMaxDynamicSharedMemorySize,
				      BULK_SHARED),
		 "shared memory of bulk copies");
	for (size_t i = 0; i < sizeof(gpu_blocks) / sizeof(gpu_blocks[0]); i++) {
		run_put(job, "unroll8-512", gpu_blocks[i], launch_put<8, 512>);
		run_put(job, "unroll16-512", gpu_blocks[i], launch_put<16, 512>);
		run_put(job, "unroll8-1024", gpu_blocks[i], launch_put<8, 1024>);
		run_put(job, "bulk", gpu_blocks[i], launch_bulk);
	}
}

static void run_rank(struct gpu_meeting *m, int rank, int n)
{
	struct job job;

	memset(&job, 0, sizeof(job));
	job.m = m;
	job.rank = rank;
	job.n = n;
	open_job(&job);
	if (n == 2)
		run_pair(&job);
	run_meet(&job);
	gpu_meet(m, n, &job.meetings);
}

int main(int argc, char **argv)
{
	int n = argc == 2 ? atoi(argv[1]) : 0;
	struct gpu_meeting *m = gpu_meeting_open();

	if (n < 2 || n > GPU_RANKS_MAX || !m) {
		fprintf(stderr, "usage: limit_gpu RANKS, 2 or 8\n");
		return 2;
	}
	return gpu_fork(n, m, run_rank);
}
