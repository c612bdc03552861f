/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/gpu_oriel.cu - measures Oriel's collectives on a GPU, in the same rows in which
 * gpu_limit.cu measures the limits.
 *
 * Usage, under oriel-run with ORIEL_DEVICE=cuda:  oriel_coll_gpu rows | exchange | small | busy
 *	rows      every case of gpu.h, or those that are named (OP:BYTES[:SEED]).  All-gather is out
 *		  of place, on a window.  All-to-all-v sends from the request's send buffer; sent
 *		  and received sizes are in device memory.
 *	exchange  only the all-to-all-v with even splits
 *	small     only the all-to-all-v with even splits of up to SMALL_BYTES
 *	busy      how much slower a kernel runs beside all-gathers of 16 MiB: a kernel that uses
 *		  only registers, and one that uses memory.  For comparison, the first kernel also
 *		  runs beside as many bytes that are copied without Oriel.
 * Rank 0 prints lines "name value unit".  Data is checked after every row.
 */
#include <oriel/coll.h>
#include <oriel/oriel.h>

#include "gpu.h"

#define SMALL_BYTES 4096u
#define ONE_KERNEL (1u << 20) /* blocks up to here are gathered by one kernel in any case */

struct job {
	struct oriel_comm *comm;
	int rank, n;
	cudaStream_t stream;
	uint8_t *send, *recv;
	const struct coll_case *c;
	struct oriel_window *window;
	struct oriel_allgather_request *gather;
	struct oriel_alltoallv_request *exchange;
	struct oriel_alltoallv_args args;
};

static void oriel_must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, oriel_status_text(err), oriel_last_error());
	_exit(1);
}

static void barrier(struct job *j)
{
	oriel_must(oriel_comm_barrier(j->comm, ORIEL_WORLD), "barrier");
}

static void *alloc(struct job *j, uint64_t bytes)
{
	void *at = NULL;

	oriel_must(oriel_alloc(j->comm, bytes, &at), "memory");
	return at;
}

/* ---- rows ---- */

static void call_gather(void *arg)
{
	struct job *j = (struct job *)arg;

	oriel_must(oriel_allgather_exec(j->gather, j->send, j->c->bytes, 1, j->stream),
		   "all-gather");
}

static void call_exchange(void *arg)
{
	struct job *j = (struct job *)arg;

	oriel_must(oriel_alltoallv_exec(j->exchange, &j->args, j->stream), "all-to-all-v");
}

static void open_gather(struct job *j, int policy)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_allgather_options how = ORIEL_ALLGATHER_OPTIONS_INIT;

	o.bytes = (uint64_t)j->n * j->c->bytes;
	how.policy = policy;
	j->send = (uint8_t *)alloc(j, j->c->bytes);
	oriel_must(oriel_window_create(j->comm, &o, &j->window), "window");
	oriel_must(oriel_allgather_create(j->comm, j->window, &how, &j->gather), "all-gather");
}

static void close_gather(struct job *j)
{
	oriel_must(oriel_allgather_status(j->gather), "all-gather");
	oriel_must(oriel_allgather_destroy(j->gather), "all-gather");
	oriel_must(oriel_window_destroy(j->window), "window");
	oriel_must(oriel_free(j->comm, j->send), "memory");
}

static void run_gather(struct job *j, const char *name, int policy)
{
	double us;

	open_gather(j, policy);
	coll_fill(j->c, j->send, j->rank, j->n, j->stream);
	barrier(j);
	us = coll_time(call_gather, j, j->c->calls, j->stream);
	barrier(j);
	coll_check(name, j->c, (uint8_t *)oriel_window_buffer(j->window), j->c->bytes, j->rank,
		   j->n, j->stream);
	if (j->rank == 0)
		bench_print(name, us, "us");
	close_gather(j);
}

/* Sizes, offsets, what came: [n] each, in device memory. */
static uint64_t *open_exchange(struct job *j)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_args none = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t *words = (uint64_t *)alloc(j, 3 * GPU_RANKS_MAX * sizeof(uint64_t));
	uint64_t host[3 * GPU_RANKS_MAX] = { 0 };

	for (int p = 0; p < j->n; p++) {
		host[p] = coll_bytes(j->c, j->rank, p, j->n);
		host[GPU_RANKS_MAX + p] = (uint64_t)p * j->c->bytes;
	}
	oriel_must(oriel_copy(j->comm, words, host, sizeof(host)), "sizes");
	o.slot_bytes = j->c->bytes;
	oriel_must(oriel_alltoallv_create(j->comm, &o, &j->exchange), "all-to-all-v");
	j->args = none;
	j->args.send_sizes = words;
	j->args.send_offsets = words + GPU_RANKS_MAX;
	j->args.recv_sizes = words + 2 * GPU_RANKS_MAX;
	return words;
}

static void check_sizes(struct job *j, const char *name, const uint64_t *words)
{
	uint64_t came[GPU_RANKS_MAX];

	oriel_must(oriel_copy(j->comm, came, words + 2 * GPU_RANKS_MAX, sizeof(came)), "sizes");
	for (int p = 0; p < j->n; p++)
		if (came[p] != coll_bytes(j->c, p, j->rank, j->n)) {
			fprintf(stderr, "%s: %llu bytes came from rank %d\n", name,
				(unsigned long long)came[p], p);
			_exit(1);
		}
}

static void run_exchange(struct job *j, const char *name)
{
	uint64_t *words = open_exchange(j);
	double us;

	coll_fill(j->c, (uint8_t *)oriel_alltoallv_send_buffer(j->exchange), j->rank, j->n,
		  j->stream);
	barrier(j);
	us = coll_time(call_exchange, j, j->c->calls, j->stream);
	oriel_must(oriel_alltoallv_status(j->exchange), name);
	barrier(j);
	check_sizes(j, name, words);
	coll_check(name, j->c, (uint8_t *)oriel_alltoallv_recv_buffer(j->exchange), j->c->bytes,
		   j->rank, j->n, j->stream);
	if (j->rank == 0)
		bench_print(name, us, "us");
	barrier(j);
	oriel_must(oriel_alltoallv_destroy(j->exchange), "all-to-all-v");
	oriel_must(oriel_free(j->comm, words), "memory");
}

static void call_whole(void *arg)
{
	struct job *j = (struct job *)arg;
	uint64_t n = j->c->bytes / 4;
	int err;

	if (j->c->op == COLL_CAST)
		err = oriel_broadcast(j->comm, j->recv, n, 4, 0, j->stream);
	else if (j->c->op == COLL_SCATTER)
		err = oriel_reducescatter(j->comm, j->send, j->recv, n / j->n, ORIEL_TYPE_FLOAT,
					  ORIEL_REDUCE_SUM, j->stream);
	else
		err = oriel_allreduce(j->comm, j->send, j->recv, n, ORIEL_TYPE_FLOAT,
				      ORIEL_REDUCE_SUM, j->stream);
	oriel_must(err, coll_ops[j->c->op]);
}

static void time_whole(struct job *j, const char *name)
{
	double us;

	if (j->c->op != COLL_CAST)
		coll_fill(j->c, j->send, j->rank, j->n, j->stream);
	else if (!j->rank)
		coll_fill(j->c, j->recv, 0, j->n, j->stream);
	barrier(j);
	us = coll_time(call_whole, j, j->c->calls, j->stream);
	barrier(j);
	coll_check(name, j->c, j->recv, 0, j->rank, j->n, j->stream);
	if (j->rank == 0)
		bench_print(name, us, "us");
}

/* In a window, where all ranks reach the buffers, and "plain", in memory of this rank only. */
static void run_whole(struct job *j)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	char name[64];

	o.bytes = 2 * j->c->bytes;
	oriel_must(oriel_window_create(j->comm, &o, &j->window), "window");
	j->send = (uint8_t *)oriel_window_buffer(j->window);
	j->recv = j->send + j->c->bytes;
	time_whole(j, coll_name(j->c, j->n, "", name, sizeof(name)));
	barrier(j);
	oriel_must(oriel_window_destroy(j->window), "window");
	j->send = (uint8_t *)alloc(j, j->c->bytes);
	j->recv = (uint8_t *)alloc(j, j->c->bytes);
	time_whole(j, coll_name(j->c, j->n, "plain", name, sizeof(name)));
	oriel_must(oriel_free(j->comm, j->send), "memory");
	oriel_must(oriel_free(j->comm, j->recv), "memory");
}

/* exchanges: only even ones; most: of up to so many bytes. */
static void run_rows(struct job *j, const struct coll_list *l, int exchanges, uint64_t most)
{
	char name[64];

	for (int i = 0; i < l->n; i++) {
		j->c = &l->c[i];
		if (j->c->bytes > most || (exchanges && j->c->op != COLL_EXCHANGE))
			continue;
		coll_name(j->c, j->n, "", name, sizeof(name));
		if (coll_is_whole(j->c)) {
			run_whole(j);
		} else if (j->c->op != COLL_GATHER) {
			run_exchange(j, name);
		} else {
			run_gather(j, name, ORIEL_GATHER_POLICY_DEFAULT);
			coll_name(j->c, j->n, "fastest", name, sizeof(name));
			if (j->c->bytes > ONE_KERNEL)
				run_gather(j, name, ORIEL_GATHER_FASTEST);
		}
	}
}

/* ---- a kernel beside all-gathers ---- */

/*
 * A kernel with one block on every SM runs during the whole measurement.  It records the time after
 * each slice of its work; all slices are equal.  All-gathers begin after it has run for a while,
 * and end before it does.  So one kernel is compared with itself, with its blocks in the same
 * places.  At a second launch the driver could place the blocks elsewhere, and the blocks of ranks
 * that share a GPU on the same SMs.
 */
#define BESIDE_SLICES 2000
#define BESIDE_SLICE_NS 50000u   /* about */
#define BESIDE_LEAD_NS 25000000u /* before the first all-gather */
#define BESIDE_CALLS 60          /* all-gathers, at more than 0.4 ms each */
#define BESIDE_TRIAL 100         /* slices of the run that says how long one is */
#define BESIDE_WARM 20           /* slices at its start that do not count */
#define BESIDE_BYTES (64u << 20) /* of the one that uses memory */

/*
 * Nanoseconds, and cycles of the SM: what a slice loses of these it loses to others on the SM, not
 * to a slower clock.
 */
struct note {
	uint64_t ns, cycles;
};

static __device__ __forceinline__ void note_time(struct note *notes, int slice)
{
	struct note now = { gpu_clock_ns(), (uint64_t)clock64() };

	if (!threadIdx.x)
		notes[(uint64_t)blockIdx.x * BESIDE_SLICES + slice] = now;
}

/* Chains of multiplications, no memory but for the times. */
static __global__ void use_registers(int slices, int rounds, struct note *notes, float *never)
{
	float x = threadIdx.x, y = x + 1, z = x + 2;

	for (int s = 0; s < slices; s++) {
		for (int i = 0; i < rounds; i++) {
#pragma unroll
			for (int k = 0; k < 16; k++) {
				x = x * 1.0001f + 0.5f;
				y = y * 0.9999f + 0.5f;
				z = z * 1.0002f - 0.5f;
			}
		}
		note_time(notes, s);
	}
	if (x + y + z == 12345.678f)
		*never = x;
}

/* Goes through its block's share of `at` again and again, 256 x 16 bytes a round. */
static __global__ void use_memory(int slices, int rounds, struct note *notes, uint4 *at, uint64_t n)
{
	uint64_t share = n / gridDim.x / blockDim.x * blockDim.x, i = 0;

	at += share * blockIdx.x + threadIdx.x;
	for (int s = 0; s < slices; s++) {
		for (int r = 0; r < rounds; r++) {
			uint4 v = at[i];

			v.x += 1;
			at[i] = v;
			i = i + blockDim.x < share ? i + blockDim.x : 0;
		}
		note_time(notes, s);
	}
}

static __global__ void stamp(struct note *at)
{
	at->ns = gpu_clock_ns();
}

struct beside {
	struct job *j;
	cudaStream_t stream;
	uint4 *data;
	struct note *notes, *host; /* [block][slice] and two stamps behind them; *host: a copy */
	int sms, memory, rounds;
	void (*call)(void *job); /* what goes on beside the kernel */
};

static uint64_t notes_of(const struct beside *b)
{
	return (uint64_t)b->sms * BESIDE_SLICES;
}

static void launch_beside(struct beside *b, int slices)
{
	if (b->memory)
		use_memory<<<b->sms, 256, 0, b->stream>>>(slices, b->rounds, b->notes, b->data,
							  BESIDE_BYTES / 16);
	else
		use_registers<<<b->sms, 256, 0, b->stream>>>(slices, b->rounds, b->notes,
							     (float *)b->data);
	gpu_must(cudaGetLastError(), "kernel beside");
}

static void take_times(struct beside *b)
{
	gpu_must(cudaStreamSynchronize(b->stream), "kernel beside");
	gpu_must(cudaMemcpy(b->host, b->notes, (notes_of(b) + 2) * sizeof(struct note),
			    cudaMemcpyDeviceToHost),
		 "times");
}

/* Means of the slices that began and ended between two times, over all blocks; 0: there is none. */
static struct note slice_means(const struct beside *b, int slices, uint64_t from, uint64_t to)
{
	struct note sum = { 0, 0 };
	uint64_t count = 0;

	for (int block = 0; block < b->sms; block++) {
		const struct note *at = b->host + (uint64_t)block * BESIDE_SLICES;

		for (int s = BESIDE_WARM; s < slices; s++)
			if (at[s - 1].ns >= from && at[s].ns <= to) {
				sum.ns += at[s].ns - at[s - 1].ns;
				sum.cycles += at[s].cycles - at[s - 1].cycles;
				count++;
			}
	}
	if (count) {
		sum.ns /= count;
		sum.cycles /= count;
	}
	return sum;
}

/* How many rounds a slice of BESIDE_SLICE_NS has with all ranks at it; alike on all ranks. */
static void calibrate(struct beside *b)
{
	double most = 1, mine, all[GPU_RANKS_MAX];

	b->rounds = 100;
	/* once now: its first launch loads it, which waits for kernels that run */
	stamp<<<1, 1, 0, b->j->stream>>>(b->notes);
	gpu_must(cudaStreamSynchronize(b->j->stream), "stamp");
	barrier(b->j);
	launch_beside(b, BESIDE_TRIAL);
	take_times(b);
	mine = (double)slice_means(b, BESIDE_TRIAL, 0, UINT64_MAX).ns;
	oriel_must(oriel_comm_allgather(b->j->comm, ORIEL_WORLD, &mine, all, sizeof(mine)),
		   "times");
	for (int r = 0; r < b->j->n; r++)
		most = all[r] > most ? all[r] : most;
	b->rounds = 1 + (int)(b->rounds * (double)BESIDE_SLICE_NS / most);
}

/* As many bytes by the copy engine as an all-gather moves, and nothing else. */
static void call_copies(void *arg)
{
	struct job *j = (struct job *)arg;
	uint8_t *to = (uint8_t *)oriel_window_buffer(j->window);

	for (int i = 0; i < j->n; i++)
		gpu_must(cudaMemcpyAsync(to + (uint64_t)i * j->c->bytes, j->send, j->c->bytes,
					 cudaMemcpyDeviceToDevice, j->stream),
			 "copy");
}

/* Percent by which slices beside all-gathers took longer. */
struct loss {
	double ns, cycles;
};

/* 0: the kernel had ended before them. */
static int run_beside(struct beside *b, struct loss *lost)
{
	struct timespec lead = { 0, BESIDE_LEAD_NS };
	const struct note *stamps = b->host + notes_of(b);
	struct note alone, beside;

	barrier(b->j);
	launch_beside(b, BESIDE_SLICES);
	nanosleep(&lead, NULL);
	stamp<<<1, 1, 0, b->j->stream>>>(b->notes + notes_of(b));
	for (int i = 0; i < BESIDE_CALLS; i++)
		b->call(b->j);
	stamp<<<1, 1, 0, b->j->stream>>>(b->notes + notes_of(b) + 1);
	gpu_must(cudaStreamSynchronize(b->j->stream), "all-gathers");
	take_times(b);
	for (int block = 0; block < b->sms; block++)
		if (b->host[(uint64_t)(block + 1) * BESIDE_SLICES - 1].ns < stamps[1].ns)
			return 0;
	alone = slice_means(b, BESIDE_SLICES, 0, stamps[0].ns);
	beside = slice_means(b, BESIDE_SLICES, stamps[0].ns, stamps[1].ns);
	if (!alone.ns || !beside.ns)
		return 0;
	lost->ns = ((double)beside.ns / (double)alone.ns - 1) * 100;
	lost->cycles = ((double)beside.cycles / (double)alone.cycles - 1) * 100;
	return 1;
}

/* Of the ranks that lost most, in the middle one of three tries. */
static void measure_beside(struct beside *b, const char *name)
{
	struct loss mine, all[GPU_RANKS_MAX];
	double ns[3], cycles[3];
	char of_cycles[64];
	int n = 0;

	calibrate(b);
	for (int i = 0; i < 3; i++) {
		struct loss worst = { -1e9, -1e9 };

		if (!run_beside(b, &mine))
			mine.ns = mine.cycles = 1e9;
		oriel_must(oriel_comm_allgather(b->j->comm, ORIEL_WORLD, &mine, all, sizeof(mine)),
			   "times");
		for (int r = 0; r < b->j->n; r++) {
			worst.ns = all[r].ns > worst.ns ? all[r].ns : worst.ns;
			worst.cycles = all[r].cycles > worst.cycles ? all[r].cycles : worst.cycles;
		}
		if (worst.ns < 1e8) {
			ns[n] = worst.ns;
			cycles[n++] = worst.cycles;
		}
	}
	if (b->j->rank)
		return;
	if (!n) {
		fprintf(stderr, "%s: the kernel had ended before the all-gathers beside it\n",
			name);
		return;
	}
	snprintf(of_cycles, sizeof(of_cycles), "%s_cycles", name);
	bench_print(name, bench_median(ns, (size_t)n), "percent");
	bench_print(of_cycles, bench_median(cycles, (size_t)n), "percent");
}

static void run_busy(struct job *j)
{
	struct beside b;

	memset(&b, 0, sizeof(b));
	b.j = j;
	for (size_t i = 0; i < COLL_CASES; i++)
		if (coll_table[i].op == COLL_GATHER)
			j->c = &coll_table[i]; /* the largest one */
	open_gather(j, ORIEL_GATHER_POLICY_DEFAULT);
	coll_fill(j->c, j->send, j->rank, j->n, j->stream);
	gpu_must(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "stream");
	gpu_must(cudaMalloc(&b.data, BESIDE_BYTES), "memory");
	gpu_must(cudaMemset(b.data, 0, BESIDE_BYTES), "memory");
	gpu_must(cudaDeviceGetAttribute(&b.sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
	gpu_must(cudaMalloc(&b.notes, (notes_of(&b) + 2) * sizeof(struct note)), "memory");
	b.host = (struct note *)malloc((notes_of(&b) + 2) * sizeof(struct note));
	if (!b.host)
		oriel_must(ORIEL_ENOMEM, "times");
	b.call = call_copies;
	measure_beside(&b, "lost_registers_copies");
	b.call = call_gather;
	measure_beside(&b, "lost_registers");
	b.memory = 1;
	measure_beside(&b, "lost_memory");
	barrier(j);
	coll_check("all-gathers beside a kernel", j->c, (uint8_t *)oriel_window_buffer(j->window),
		   j->c->bytes, j->rank, j->n, j->stream);
	close_gather(j);
}

/* rows, exchange, small or busy; cases can be named after the first two. */
static int is_usage(int argc, char **argv)
{
	if (argc < 2)
		return 0;
	return !strcmp(argv[1], "rows") || !strcmp(argv[1], "exchange") ||
	       (argc == 2 && (!strcmp(argv[1], "small") || !strcmp(argv[1], "busy")));
}

int main(int argc, char **argv)
{
	static struct coll_list list;
	struct oriel_boot *boot = NULL;
	struct job job;

	memset(&job, 0, sizeof(job));
	if (!is_usage(argc, argv)) {
		fprintf(stderr,
			"usage: oriel_coll_gpu rows|exchange [OP:BYTES[:SEED]...] | small | busy\n");
		return 2;
	}
	gpu_must(cudaSetDevice(0), "device");
	oriel_must(oriel_boot_env(&boot), "boot");
	oriel_must(oriel_comm_create(boot, NULL, &job.comm), "comm");
	oriel_boot_destroy(boot);
	job.rank = oriel_comm_rank(job.comm);
	job.n = oriel_comm_size(job.comm);
	if (job.n < 2 || job.n > GPU_RANKS_MAX || !coll_cases(&list, argc - 2, argv + 2, job.n)) {
		fprintf(stderr, "oriel_coll_gpu: 2 to %d ranks, OP:BYTES[:SEED]\n", GPU_RANKS_MAX);
		return 2;
	}
	gpu_must(cudaStreamCreateWithFlags(&job.stream, cudaStreamNonBlocking), "stream");
	if (!strcmp(argv[1], "busy"))
		run_busy(&job);
	else
		run_rows(&job, &list, !!strcmp(argv[1], "rows"),
			 !strcmp(argv[1], "small") ? SMALL_BYTES : ~0ull);
	gpu_must(cudaStreamDestroy(job.stream), "stream");
	oriel_must(oriel_comm_destroy(job.comm), "comm");
	return 0;
}
