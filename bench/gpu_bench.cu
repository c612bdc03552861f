/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/gpu_bench.cu - measures Oriel on a GPU, in the same rows in which bench/limit/gpu.cu
 * measures the limits.
 *
 * Usage, under oriel-run with ORIEL_DEVICE=cuda:  gpu_bench pair | blocks | many | queued
 *	pair    2 ranks: put_signal of 8 B, 64 KiB, 1 MiB; packets of 8 B to 16 KiB; bandwidth of 1
 *		to 64 blocks, aligned and not; sync, barrier
 *	many    8 ranks: sync, barrier, and a ping-pong that waits for one source or for the sum
 *		over all sources
 *	queued  2 ranks on emulated nodes of one rank (--topology 2x1): put_signal through the
 *		software NIC
 * Rank 0 prints lines "name value unit".  Data is checked after every row that moves data.
 */
#include <oriel/device.h>
#include <oriel/oriel.h>

#include "gpu.h"

#define RESULTS_BYTES 4096u
#define SMALL_BYTES (2u << 20) /* window and source of rows that move little */

struct bench_args {
	struct oriel_window_dev win;
	struct oriel_source source;
	uint64_t bytes, src_off, dst_off;
	uint64_t first; /* signals got before this launch */
	int32_t peer, rounds;
	int32_t barrier; /* meeting: oriel_barrier instead of oriel_barrier_arrive_wait */
	uint64_t *ns;
};

ORIEL_DEV uint64_t clock_ns(void)
{
#if ORIEL_ON_GPU
	return gpu_clock_ns();
#else
	return (uint64_t)(bench_now() * 1e9);
#endif
}

/* ---- kernels ---- */

/* Sets the signal, as the kernel written by hand and NVSHMEM's do. */
ORIEL_DEV int strike(const struct bench_args *a, struct oriel_group g, uint64_t count)
{
	return oriel_put_signal(&a->win, g, a->peer, a->dst_off, &a->source, a->src_off, a->bytes,
				0, ORIEL_SET, count);
}

ORIEL_DEV int await(const struct bench_args *a, struct oriel_group g, int sum, uint64_t count)
{
	return sum ? oriel_wait_signal(&a->win, g, 0, count) :
		     oriel_wait_signal_from(&a->win, g, a->peer, 0, ORIEL_GE, count);
}

/* `sum`: waits for the sum over all sources; known to the compiler. */
ORIEL_DEV int rally(const struct bench_args *a, struct oriel_group g, int sum)
{
	int second = a->win.comm.rank == 1, err = 0;
	uint64_t start = 0;

	for (int i = 1; !err && i <= GPU_WARM + a->rounds; i++) {
		if (i == GPU_WARM + 1)
			start = clock_ns();
		if (second)
			err = await(a, g, sum, a->first + (uint64_t)i);
		if (!err)
			err = strike(a, g, a->first + (uint64_t)i);
		if (!err && !second)
			err = await(a, g, sum, a->first + (uint64_t)i);
	}
	if (oriel_group_is_leader(g))
		*a->ns = clock_ns() - start;
	return err;
}

/* The same through a path: as a kernel with many rounds would do it. */
ORIEL_DEV int path_rally(const struct bench_args *a, struct oriel_group g)
{
	int second = a->win.comm.rank == 1, err;
	struct oriel_path path;
	uint64_t start = 0;

	err = oriel_path_open(&path, &a->win, g, a->peer, &a->source, 0);
	for (int i = 1; !err && i <= GPU_WARM + a->rounds; i++) {
		if (i == GPU_WARM + 1)
			start = clock_ns();
		if (second)
			err = oriel_path_wait(&path, g, a->first + (uint64_t)i);
		if (!err)
			err = oriel_path_put_signal(&path, g, a->dst_off, a->src_off, a->bytes,
						    ORIEL_SET, a->first + (uint64_t)i);
		if (!err && !second)
			err = oriel_path_wait(&path, g, a->first + (uint64_t)i);
	}
	if (oriel_group_is_leader(g))
		*a->ns = clock_ns() - start;
	return err;
}

ORIEL_KERNEL(bench_path_thread, struct bench_args)
{
	return path_rally(a, oriel_group_thread());
}

ORIEL_KERNEL(bench_path, struct bench_args)
{
	return path_rally(a, oriel_group_block());
}

ORIEL_KERNEL(bench_thread, struct bench_args)
{
	return rally(a, oriel_group_thread(), 0);
}

ORIEL_KERNEL(bench_block, struct bench_args)
{
	return rally(a, oriel_group_block(), 0);
}

ORIEL_KERNEL(bench_sum, struct bench_args)
{
	return rally(a, oriel_group_block(), 1);
}

ORIEL_KERNEL(bench_packet, struct bench_args)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)a->source.address;
	struct oriel_group g = oriel_group_block();
	int second = a->win.comm.rank == 1, err = 0;
	uint64_t start = 0;

	for (int i = 1; !err && i <= GPU_WARM + a->rounds; i++) {
		if (i == GPU_WARM + 1)
			start = clock_ns();
		if (second)
			err = oriel_packet_recv(&a->win, g, a->peer, 0, a->win.buffer, a->bytes);
		if (!err)
			err = oriel_packet_send(&a->win, g, a->peer, 0, from, a->bytes);
		if (!err && !second)
			err = oriel_packet_recv(&a->win, g, a->peer, 0, a->win.buffer, a->bytes);
	}
	if (oriel_group_is_leader(g))
		*a->ns = clock_ns() - start;
	return err;
}

/* The same through a line: as a kernel with many rounds would do it. */
ORIEL_KERNEL(bench_line, struct bench_args)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)a->source.address;
	struct oriel_group g = oriel_group_block();
	int second = a->win.comm.rank == 1, err, last;
	struct oriel_line line;
	uint64_t start = 0;

	err = oriel_line_open(&line, &a->win, g, a->peer, 0);
	for (int i = 1; !err && i <= GPU_WARM + a->rounds; i++) {
		if (i == GPU_WARM + 1)
			start = clock_ns();
		if (second)
			err = oriel_line_recv(&line, g, a->win.buffer, a->bytes);
		if (!err)
			err = oriel_line_send(&line, g, from, a->bytes);
		if (!err && !second)
			err = oriel_line_recv(&line, g, a->win.buffer, a->bytes);
	}
	if (oriel_group_is_leader(g))
		*a->ns = clock_ns() - start;
	last = oriel_line_close(&line, g);
	return err ? err : last;
}

ORIEL_KERNEL(bench_meet, struct bench_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t start = 0;
	int err = 0;

	for (int i = 1; !err && i <= GPU_WARM + a->rounds; i++) {
		if (i == GPU_WARM + 1)
			start = clock_ns();
		err = a->barrier ? oriel_barrier(&a->win, g, 0) :
				   oriel_barrier_arrive_wait(&a->win, g, 0);
	}
	if (oriel_group_is_leader(g))
		*a->ns = clock_ns() - start;
	return err;
}

ORIEL_KERNEL(bench_put, struct bench_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t share = (a->bytes / g.nblocks + 127) & ~127ull;
	uint64_t begin = share * g.block < a->bytes ? share * g.block : a->bytes;
	uint64_t mine = a->bytes - begin < share ? a->bytes - begin : share;

	return oriel_put(&a->win, g, a->peer, a->dst_off + begin, &a->source, a->src_off + begin,
			 mine);
}

/* ---- running ---- */

struct job {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_source source;
	uint8_t *source_at, *results;
	uint64_t first;
	int rank, nranks;
	cudaStream_t stream;
};

static int fail(const struct job *job, const char *what, int err)
{
	fprintf(stderr, "gpu_bench: rank %d: %s: %s: %s\n", job->rank, what, oriel_status_text(err),
		oriel_last_error());
	if (job->comm)
		oriel_comm_abort(job->comm, err);
	return 1;
}

static int open_job(struct job *job, uint64_t bytes)
{
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	struct cudaPointerAttributes where;
	void *source = NULL, *results = NULL;
	int err;

	w.bytes = bytes + GPU_SLACK;
	w.boxes = 1;
	w.box_bytes = gpu_packets[GPU_PACKETS - 1].bytes;
	err = oriel_window_create(job->comm, &w, &job->window);
	if (!err)
		err = oriel_alloc(job->comm, bytes + GPU_SLACK, &source);
	if (!err)
		err = oriel_alloc(job->comm, RESULTS_BYTES, &results);
	if (!err)
		err = oriel_window_source(job->window, source, bytes + GPU_SLACK, &job->source);
	if (err)
		return err;
	job->source_at = (uint8_t *)source;
	job->results = (uint8_t *)results;
	gpu_must(cudaPointerGetAttributes(&where, source), "where memory is");
	if (where.type != cudaMemoryTypeDevice) {
		fprintf(stderr, "gpu_bench: this is no device memory: set ORIEL_DEVICE=cuda\n");
		return ORIEL_EINVAL;
	}
	gpu_must(cudaSetDevice(where.device), "device");
	gpu_must(cudaStreamCreateWithFlags(&job->stream, cudaStreamNonBlocking), "stream");
	gpu_fill(source, bytes + GPU_SLACK, job->rank, job->stream);
	return oriel_comm_barrier(job->comm, ORIEL_WORLD);
}

/*
 * On all ranks of the row at once; `launches` of them back to back, timed from the second on, in
 * *ms.  A single one has no event behind it: with the events of 8 ranks pending, kernels that wait
 * for each other took twice as long.
 */
static int run_kernel(struct job *job, const struct oriel_kernel *kernel, int blocks, int threads,
		      struct bench_args *a, int launches, float *ms)
{
	cudaEvent_t begin = NULL, end = NULL;
	int err = oriel_window_device(job->window, &a->win);

	a->source = job->source;
	a->ns = (uint64_t *)job->results;
	if (launches > 1) {
		gpu_must(cudaEventCreate(&begin), "event");
		gpu_must(cudaEventCreate(&end), "event");
	}
	for (int i = 0; !err && i < launches; i++) {
		if (i == 1)
			gpu_must(cudaEventRecord(begin, job->stream), "event");
		err = oriel_launch(job->comm, kernel, blocks, threads, a, sizeof(*a), job->stream);
	}
	if (end)
		gpu_must(cudaEventRecord(end, job->stream), "event");
	if (!err)
		err = oriel_comm_sync(job->comm, job->stream);
	if (!err && end)
		gpu_must(cudaEventElapsedTime(ms, begin, end), "event");
	if (end) {
		gpu_must(cudaEventDestroy(begin), "event");
		gpu_must(cudaEventDestroy(end), "event");
	}
	return err;
}

/* Ranks 0 and 1 play; the others of a larger comm wait on the host. */
static int run_rally(struct job *job, const char *name, const struct oriel_kernel *kernel,
		     int threads, uint64_t bytes, int rounds)
{
	struct bench_args a;
	uint64_t ns = 0;
	int err = oriel_comm_barrier(job->comm, ORIEL_WORLD);

	memset(&a, 0, sizeof(a));
	a.bytes = bytes;
	a.first = job->first;
	a.peer = 1 - job->rank;
	a.rounds = rounds;
	if (!err && job->rank < 2)
		err = run_kernel(job, kernel, 1, threads, &a, 1, NULL);
	if (!err && job->rank < 2)
		err = oriel_copy(job->comm, &ns, a.ns, sizeof(ns));
	job->first += GPU_WARM + (uint64_t)rounds;
	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	if (err)
		return err;
	if (job->rank == 0)
		bench_print(name, (double)ns * 1e-3 / rounds / 2, "us");
	if (job->rank < 2)
		gpu_check(name, oriel_window_buffer(job->window), bytes, 1 - job->rank, 0,
			  job->stream);
	return 0;
}

static int run_meet(struct job *job, int barrier)
{
	struct bench_args a;
	uint64_t ns = 0;
	char name[32];
	int err = oriel_comm_barrier(job->comm, ORIEL_WORLD);

	memset(&a, 0, sizeof(a));
	a.rounds = GPU_SYNCS;
	a.barrier = barrier;
	if (!err)
		err = run_kernel(job, &bench_meet, 1, 32, &a, 1, NULL);
	if (!err)
		err = oriel_copy(job->comm, &ns, a.ns, sizeof(ns));
	snprintf(name, sizeof(name), "%s%d", barrier ? "barrier" : "sync", job->nranks);
	if (!err && job->rank == 0)
		bench_print(name, (double)ns * 1e-3 / GPU_SYNCS, "us");
	return err;
}

struct skew {
	const char *name;
	uint32_t src, dst;
};

static const struct skew skews[] = {
	{ "", 0, 0 }, { "_src1", 1, 0 }, { "_dst1", 0, 1 }, { "_src4", 4, 0 }, { "_dst4", 0, 4 },
};

static int run_put(struct job *job, int blocks, const struct skew *skew)
{
	uint64_t bytes = gpu_row_bytes(blocks);
	struct bench_args a;
	char name[32];
	float ms = 0;
	int err = oriel_comm_barrier(job->comm, ORIEL_WORLD);

	memset(&a, 0, sizeof(a));
	a.bytes = bytes;
	a.src_off = skew->src;
	a.dst_off = skew->dst;
	a.peer = 1;
	snprintf(name, sizeof(name), "bw%d%s", blocks, skew->name);
	if (!err && job->rank == 0)
		err = run_kernel(job, &bench_put, blocks, GPU_THREADS, &a, GPU_LAUNCHES + 1, &ms);
	if (!err && job->rank == 0)
		bench_print(name, (double)bytes * GPU_LAUNCHES / ms * 1e-6, "GB/s");
	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	if (!err && job->rank == 1)
		gpu_check(name, (uint8_t *)oriel_window_buffer(job->window) + skew->dst, bytes, 0,
			  skew->src, job->stream);
	return err;
}

/* Through a line; and by single calls, which have no limit of their own. */
static int run_packets(struct job *job, const struct gpu_packet *row)
{
	char name[32];
	int err = run_rally(job, row->name, &bench_line, row->threads, row->bytes, row->rounds);

	snprintf(name, sizeof(name), "%s_call", row->name);
	return err ? err :
		     run_rally(job, name, &bench_packet, row->threads, row->bytes, row->rounds);
}

/* By single calls, and on a path. */
static int run_blocks(struct job *job, const struct gpu_size *row)
{
	char name[48];
	int err = run_rally(job, row->name, &bench_block, GPU_THREADS, row->bytes, row->rounds);

	snprintf(name, sizeof(name), "%s_path", row->name);
	return err ? err : run_rally(job, name, &bench_path, GPU_THREADS, row->bytes, row->rounds);
}

static int run_pair(struct job *job)
{
	int err = open_job(job, GPU_LARGE);

	if (!err)
		err = run_rally(job, "thread8", &bench_thread, 1, 8, gpu_sizes[0].rounds);
	if (!err)
		err = run_rally(job, "thread8_path", &bench_path_thread, 1, 8, gpu_sizes[0].rounds);
	for (int i = 0; !err && i < 3; i++)
		err = run_blocks(job, &gpu_sizes[i]);
	for (int i = 0; !err && i < GPU_PACKETS; i++)
		err = run_packets(job, &gpu_packets[i]);
	for (int i = 0; !err && i < 5; i++)
		err = run_put(job, gpu_blocks[i], &skews[0]);
	/* the least, a usual and the largest number of blocks */
	for (int i = 0; !err && i < 5; i += 2)
		for (int k = 1; !err && k < 5; k++)
			err = run_put(job, gpu_blocks[i], &skews[k]);
	if (!err)
		err = run_meet(job, 0);
	return err ? err : run_meet(job, 1);
}

static int run_blocks_alone(struct job *job)
{
	int err = open_job(job, GPU_LARGE);

	for (int i = 0; !err && i < 2; i++)
		err = run_blocks(job, &gpu_sizes[i]);
	return err;
}

static int run_many(struct job *job)
{
	int err = open_job(job, SMALL_BYTES);

	if (!err)
		err = run_meet(job, 0);
	if (!err)
		err = run_meet(job, 1);
	if (!err)
		err = run_rally(job, "from_one", &bench_block, GPU_THREADS, 8, gpu_sizes[0].rounds);
	return err ? err :
		     run_rally(job, "sum_of_all", &bench_sum, GPU_THREADS, 8, gpu_sizes[0].rounds);
}

static int run_queued(struct job *job)
{
	int err = open_job(job, SMALL_BYTES);

	if (!err && oriel_comm_peer_kind(job->comm, 1 - job->rank) != ORIEL_PEER_QUEUED) {
		fprintf(stderr, "gpu_bench: the peer is not queued: --topology 2x1 is needed\n");
		return ORIEL_EINVAL;
	}
	if (!err)
		err = run_rally(job, "soft8", &bench_block, 32, 8, 1000);
	return err ? err : run_rally(job, "soft1m", &bench_block, 32, 1u << 20, 500);
}

static int run(struct job *job, const char *what)
{
	if (!strcmp(what, "many"))
		return run_many(job);
	if (job->nranks != 2) {
		fprintf(stderr, "gpu_bench: %s takes 2 ranks\n", what);
		return ORIEL_EINVAL;
	}
	if (!strcmp(what, "blocks"))
		return run_blocks_alone(job);
	return !strcmp(what, "pair") ? run_pair(job) : run_queued(job);
}

int main(int argc, char **argv)
{
	struct job job;
	struct oriel_boot *boot = NULL;
	const char *what = argc == 2 ? argv[1] : "";
	int err;

	if (strcmp(what, "pair") && strcmp(what, "blocks") && strcmp(what, "many") &&
	    strcmp(what, "queued")) {
		fprintf(stderr, "usage: gpu_bench pair|blocks|many|queued\n");
		return 2;
	}
	memset(&job, 0, sizeof(job));
	job.rank = -1;
	err = oriel_boot_env(&boot);
	if (!err)
		err = oriel_comm_create(boot, NULL, &job.comm);
	oriel_boot_destroy(boot);
	if (err)
		return fail(&job, "joining", err);
	job.rank = oriel_comm_rank(job.comm);
	job.nranks = oriel_comm_size(job.comm);
	err = run(&job, what);
	if (err)
		return fail(&job, what, err);
	err = oriel_window_destroy(job.window);
	return oriel_comm_destroy(job.comm) || err;
}
