/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/queued_bench.c - measures queued peers: 2 ranks on different emulated nodes, with the
 * software NIC.
 *
 * Usage, under oriel-run -n 2 --topology 2x1:  queued_bench pair | threads | idle
 *	pair     pinned, one thread per rank: put 8 B + signal, put 1 MiB, small puts per second
 *	threads  not pinned: small puts per second from 4 threads of rank 0, on one queue
 *	idle     the share of a core that an idle rank with open queues uses
 * Rank 0 prints lines "name value unit".  No data is checked: the contract tests and oriel-perf do
 * this.
 */
#include <oriel/device.h>
#include <oriel/oriel.h>

#include <string.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS 20000
#define LARGE (1u << 20)
#define LARGE_PUTS 200
#define SMALL 8u
#define SMALL_PUTS 200000
#define THREADS 4

struct job {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_source source;
	int rank;
	uint64_t signals; /* got so far, by the rank that is put to */
};

struct bench_args {
	struct oriel_window_dev win;
	struct oriel_source source;
	uint64_t bytes;
	uint64_t first;      /* signals got before */
	int32_t puts;        /* of each block */
	int32_t blocks;      /* that put and signal */
	double *begin, *end; /* [block] */
};

/* ---- kernels --------------------------------------------------------------------------------- */

ORIEL_KERNEL(ping_pong_kernel, struct bench_args)
{
	struct oriel_group g = oriel_group_block();
	int me = a->win.comm.rank, peer = 1 - me, err = 0;

	a->begin[0] = bench_now();
	for (uint64_t i = a->first + 1; !err && i <= a->first + (uint64_t)a->puts; i++) {
		if (me == 1)
			err = oriel_wait_signal_from(&a->win, g, peer, 0, ORIEL_GE, i);
		if (!err)
			err = oriel_put_signal(&a->win, g, peer, 0, &a->source, 0, a->bytes, 0,
					       ORIEL_ADD, 1);
		if (!err && me == 0)
			err = oriel_wait_signal_from(&a->win, g, peer, 0, ORIEL_GE, i);
	}
	a->end[0] = bench_now();
	return err;
}

/*
 * Rank 0 puts, its time ends with the flush; rank 1 waits for the signals, and so drives its NIC.
 */
ORIEL_KERNEL(put_kernel, struct bench_args)
{
	struct oriel_group g = oriel_group_block();
	int err = 0;

	a->begin[g.block] = bench_now();
	if (a->win.comm.rank == 1) {
		err = oriel_wait_signal_from(&a->win, g, 0, 0, ORIEL_GE,
					     a->first + (uint64_t)a->blocks);
	} else {
		for (int i = 0; !err && i < a->puts; i++)
			err = oriel_put(&a->win, g, 1, g.block * 4096u, &a->source, g.block * 4096u,
					a->bytes);
		if (!err)
			err = oriel_flush(&a->win, g, 1);
	}
	a->end[g.block] = bench_now();
	if (!err && a->win.comm.rank == 0)
		err = oriel_signal(&a->win, g, 1, 0, ORIEL_ADD, 1);
	return err;
}

/* ---- running --------------------------------------------------------------------------------- */

static int fail(const struct job *job, const char *what, int err)
{
	fprintf(stderr, "queued_bench: rank %d: %s: %s\n", job->rank, what, oriel_status_text(err));
	if (job->comm)
		oriel_comm_abort(job->comm, err);
	return 1;
}

/* Seconds from the first block's begin to the last one's end. */
static int launch(struct job *job, const struct oriel_kernel *kernel, const struct bench_args *args,
		  int blocks, double *seconds)
{
	double begin[THREADS], end[THREADS], first, last;
	struct bench_args a = *args;
	int err = oriel_window_device(job->window, &a.win);

	a.source = job->source;
	a.first = job->signals;
	a.begin = begin;
	a.end = end;
	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	if (!err)
		err = oriel_launch(job->comm, kernel, blocks, 1, &a, sizeof(a), NULL);
	if (err)
		return err;
	first = begin[0];
	last = end[0];
	for (int b = 1; b < blocks; b++) {
		first = begin[b] < first ? begin[b] : first;
		last = end[b] > last ? end[b] : last;
	}
	*seconds = last - first;
	return 0;
}

/* The source is memory of oriel_alloc, so that payload crosses by reference. */
static int make_window(struct job *job)
{
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	void *src = NULL;
	int err;

	w.bytes = LARGE;
	err = oriel_window_create(job->comm, &w, &job->window);
	if (!err)
		err = oriel_alloc(job->comm, LARGE, &src);
	if (err)
		return err;
	memset(src, 1, LARGE);
	memset(oriel_window_buffer(job->window), 0, LARGE);
	return oriel_window_source(job->window, src, LARGE, &job->source);
}

static int run_ping_pong(struct job *job)
{
	struct bench_args a = { .bytes = SMALL, .puts = ROUNDS };
	double ns[BENCH_BLOCKS + 1] = { 0 };
	int err = 0;

	/* the first block is the warm-up */
	for (int b = 0; !err && b <= BENCH_BLOCKS; b++) {
		err = launch(job, &ping_pong_kernel, &a, 1, &ns[b]);
		job->signals += ROUNDS;
		ns[b] *= 1e9 / ROUNDS / 2;
	}
	if (!err && job->rank == 0)
		bench_print("queued_put8_signal", bench_median(ns + 1, BENCH_BLOCKS), "ns");
	return err;
}

/* `scale` a put: GB/s for 1e-9 bytes, Mput/s for 1e-6. */
static int run_puts(struct job *job, const char *name, uint64_t bytes, int puts, int blocks,
		    double scale, const char *unit)
{
	struct bench_args a = { .bytes = bytes, .puts = puts / blocks, .blocks = blocks };
	double rate[BENCH_BLOCKS + 1] = { 0 };
	int err = 0;

	for (int b = 0; !err && b <= BENCH_BLOCKS; b++) {
		err = launch(job, &put_kernel, &a, job->rank == 0 ? blocks : 1, &rate[b]);
		if (job->rank == 1)
			job->signals += (uint64_t)blocks;
		rate[b] = scale * a.puts * blocks / rate[b];
	}
	if (!err && job->rank == 0)
		bench_print(name, bench_median(rate + 1, BENCH_BLOCKS), unit);
	return err;
}

static int run_pair(struct job *job)
{
	int err = run_ping_pong(job);

	if (!err)
		err = run_puts(job, "queued_put_1m", LARGE, LARGE_PUTS, 1, LARGE * 1e-9, "GB/s");
	if (!err)
		err = run_puts(job, "queued_small1", SMALL, SMALL_PUTS, 1, 1e-6, "M/s");
	return err;
}

static int run_threads(struct job *job)
{
	return run_puts(job, "queued_small4", SMALL, SMALL_PUTS / 4, THREADS, 1e-6, "M/s");
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The busier rank's share. */
static int run_idle(struct job *job)
{
	double start, both[2], share;
	int err = run_ping_pong(&(struct job){ job->comm, job->window, job->source, -1, 0 });

	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	if (err)
		return err;
	usleep(100000);
	start = cpu_seconds();
	sleep(1);
	share = (cpu_seconds() - start) * 100;
	err = oriel_comm_allgather(job->comm, ORIEL_WORLD, &share, both, sizeof(share));
	if (!err && job->rank == 0)
		bench_print("queued_idle", both[0] > both[1] ? both[0] : both[1], "%");
	return err;
}

/* ---- main ------------------------------------------------------------------------------------ */

static int run(struct job *job, const char *what)
{
	int err;

	if (oriel_comm_size(job->comm) != 2 ||
	    oriel_comm_peer_kind(job->comm, 1 - job->rank) != ORIEL_PEER_QUEUED) {
		fprintf(stderr, "queued_bench: needs oriel-run -n 2 --topology 2x1\n");
		return ORIEL_EINVAL;
	}
	if (!strcmp(what, "pair"))
		bench_pin(job->rank);
	err = make_window(job);
	if (err)
		return err;
	return !strcmp(what, "pair")    ? run_pair(job) :
	       !strcmp(what, "threads") ? run_threads(job) :
					  run_idle(job);
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	struct job job = { .rank = -1 };
	struct oriel_boot *boot = NULL;
	int err;

	if (strcmp(what, "pair") && strcmp(what, "threads") && strcmp(what, "idle")) {
		fprintf(stderr, "usage: queued_bench pair|threads|idle\n");
		return 2;
	}
	err = oriel_boot_env(&boot);
	if (!err)
		err = oriel_comm_create(boot, NULL, &job.comm);
	oriel_boot_destroy(boot);
	if (err)
		return fail(&job, "joining", err);
	job.rank = oriel_comm_rank(job.comm);
	err = run(&job, what);
	if (err)
		return fail(&job, what, err);
	err = oriel_window_destroy(job.window);
	return oriel_comm_destroy(job.comm) || err;
}
