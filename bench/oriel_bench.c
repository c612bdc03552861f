/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/oriel_bench.c - measures Oriel in the way in which bench/limit measures the limits: pinned
 * ranks, a private source, one thread per rank, kernels of one block.
 *
 * Usage, under oriel-run:  oriel_bench pair | barrier | create | memory
 *	pair     2 ranks: put 8 B + signal, packet of 8 B, put 1 MiB and 64 MiB aligned or not,
 *	         barrier
 *	barrier  any number of ranks on 2 cores
 *	create   time of oriel_window_create, not pinned
 *	memory   memory of a rank outside user buffers, not pinned
 * Rank 0 prints lines "name value unit".  No data is checked: the contract tests and oriel-perf do
 * this.
 */
#include <oriel/device.h>
#include <oriel/oriel.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS 20000
#define LARGE (64u << 20)
#define SLACK 4096u /* room for unaligned copies */
#define CREATES 15
#define USER_BYTES (1u << 20)

struct job {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_source source;
	int rank, nranks;
};

struct bench_args {
	struct oriel_window_dev win;
	struct oriel_source source;
	uint64_t bytes, src_off, dst_off;
	uint64_t first; /* ping-pong: signals got before */
	int32_t peer, rounds;
	double *seconds; /* of the rounds */
};

/* ---- kernels: one block of one thread -------------------------------------------------------- */

ORIEL_KERNEL(ping_pong_kernel, struct bench_args)
{
	struct oriel_group g = oriel_group_block();
	int second = a->win.comm.rank == 1, err = 0;
	double start = bench_now();

	for (uint64_t i = a->first + 1; !err && i <= a->first + (uint64_t)a->rounds; i++) {
		if (second)
			err = oriel_wait_signal_from(&a->win, g, a->peer, 0, ORIEL_GE, i);
		if (!err)
			err = oriel_put_signal(&a->win, g, a->peer, 0, &a->source, 0, 8, 0,
					       ORIEL_ADD, 1);
		if (!err && !second)
			err = oriel_wait_signal_from(&a->win, g, a->peer, 0, ORIEL_GE, i);
	}
	*a->seconds = bench_now() - start;
	return err;
}

ORIEL_KERNEL(packet_kernel, struct bench_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t out = 1, in = 0;
	int second = a->win.comm.rank == 1, err = 0;
	double start = bench_now();

	for (int i = 0; !err && i < a->rounds; i++) {
		if (second)
			err = oriel_packet_recv(&a->win, g, a->peer, 0, &in, sizeof(in));
		if (!err)
			err = oriel_packet_send(&a->win, g, a->peer, 0, &out, sizeof(out));
		if (!err && !second)
			err = oriel_packet_recv(&a->win, g, a->peer, 0, &in, sizeof(in));
	}
	*a->seconds = bench_now() - start;
	return err;
}

ORIEL_KERNEL(put_kernel, struct bench_args)
{
	struct oriel_group g = oriel_group_block();
	double start = bench_now();
	int err = 0;

	for (int i = 0; !err && i < a->rounds; i++)
		err = oriel_put(&a->win, g, a->peer, a->dst_off, &a->source, a->src_off, a->bytes);
	if (!err)
		err = oriel_flush(&a->win, g, a->peer);
	*a->seconds = bench_now() - start;
	return err;
}

ORIEL_KERNEL(barrier_kernel, struct bench_args)
{
	struct oriel_group g = oriel_group_block();
	double start = bench_now();
	int err = 0;

	for (int i = 0; !err && i < a->rounds; i++)
		err = oriel_barrier(&a->win, g, 0);
	*a->seconds = bench_now() - start;
	return err;
}

/* ---- running --------------------------------------------------------------------------------- */

static int fail(const struct job *job, const char *what, int err)
{
	fprintf(stderr, "oriel_bench: rank %d: %s: %s\n", job->rank, what, oriel_status_text(err));
	if (job->comm)
		oriel_comm_abort(job->comm, err);
	return 1;
}

static int launch(struct job *job, const struct oriel_kernel *kernel, const struct bench_args *args,
		  double *seconds)
{
	struct bench_args a = *args;
	int err = oriel_window_device(job->window, &a.win);

	a.source = job->source;
	a.seconds = seconds;
	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	if (!err)
		err = oriel_launch(job->comm, kernel, 1, 1, &a, sizeof(a), NULL);
	return err;
}

static int make_window(struct job *job, uint64_t bytes)
{
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	void *src = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	w.bytes = bytes;
	w.boxes = 1;
	w.box_bytes = 64;
	err = oriel_window_create(job->comm, &w, &job->window);
	if (err)
		return err;
	if (src == MAP_FAILED)
		return ORIEL_ENOMEM;
	memset(src, 1, bytes);
	memset(oriel_window_buffer(job->window), 0, bytes);
	return oriel_window_source(job->window, src, bytes, &job->source);
}

static int run_ping_pong(struct job *job, const struct oriel_kernel *kernel, const char *name)
{
	struct bench_args a = { .peer = 1 - job->rank, .rounds = ROUNDS };
	double ns[BENCH_BLOCKS + 1] = { 0 };
	int err = 0;

	/* the first block is the warm-up */
	for (int b = 0; !err && b <= BENCH_BLOCKS; b++) {
		err = launch(job, kernel, &a, &ns[b]);
		a.first += ROUNDS;
		ns[b] *= 1e9 / ROUNDS / 2;
	}
	if (!err && job->rank == 0)
		bench_print(name, bench_median(ns + 1, BENCH_BLOCKS), "ns");
	return err;
}

struct put_case {
	const char *name;
	uint64_t bytes;
	uint32_t src_off, dst_off;
	int both; /* both ranks put at once, else rank 0 alone */
};

static const struct put_case put_cases[] = {
	{ "put1_1m", 1u << 20, 0, 0, 0 },      { "put1_64m", LARGE, 0, 0, 0 },
	{ "put2_1m", 1u << 20, 0, 0, 1 },      { "put2_64m", LARGE, 0, 0, 1 },
	{ "put1_1m_src1", 1u << 20, 1, 0, 0 }, { "put1_1m_dst1", 1u << 20, 0, 1, 0 },
	{ "put1_1m_src4", 1u << 20, 4, 0, 0 }, { "put1_1m_dst4", 1u << 20, 0, 4, 0 },
	{ "put1_64m_src1", LARGE, 1, 0, 0 },   { "put1_64m_dst1", LARGE, 0, 1, 0 },
};

static int run_put(struct job *job, const struct put_case *c)
{
	struct bench_args a = { .bytes = c->bytes,
				.src_off = c->src_off,
				.dst_off = c->dst_off,
				.peer = 1 - job->rank };
	double rate[BENCH_BLOCKS + 1] = { 0 };
	int err = 0;

	for (int b = 0; !err && b <= BENCH_BLOCKS; b++) {
		a.rounds = b ? bench_copies(c->bytes) : 1;
		if (!c->both && job->rank == 1)
			a.rounds = 0;
		err = launch(job, &put_kernel, &a, &rate[b]);
		rate[b] = (double)c->bytes * a.rounds / rate[b] * 1e-9;
	}
	if (!err && job->rank == 0)
		bench_print(c->name, bench_median(rate + 1, BENCH_BLOCKS), "GB/s");
	return err;
}

static int run_barrier(struct job *job)
{
	struct bench_args a = { .rounds = job->nranks > BENCH_CORES ? 1000 : ROUNDS };
	double ns[BENCH_BLOCKS + 1] = { 0 };
	char name[32];
	int err = 0;

	for (int b = 0; !err && b <= BENCH_BLOCKS; b++) {
		err = launch(job, &barrier_kernel, &a, &ns[b]);
		ns[b] *= 1e9 / a.rounds;
	}
	snprintf(name, sizeof(name), "barrier%d", job->nranks);
	if (!err && job->rank == 0)
		bench_print(name, bench_median(ns + 1, BENCH_BLOCKS), "ns");
	return err;
}

/* ---- window creation ------------------------------------------------------------------------- */

/* The slowest rank's time counts: the call is collective. */
static int largest(struct job *job, double mine, double *out)
{
	double *all = malloc((size_t)job->nranks * sizeof(*all));
	int err = all ? oriel_comm_allgather(job->comm, ORIEL_WORLD, &mine, all, sizeof(mine)) :
			ORIEL_ENOMEM;

	*out = 0;
	for (int r = 0; !err && r < job->nranks; r++)
		*out = all[r] > *out ? all[r] : *out;
	free(all);
	return err;
}

static int run_create(struct job *job)
{
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	double ms[CREATES], start, took;
	int err = 0;

	w.bytes = USER_BYTES;
	for (int i = 0; !err && i < CREATES; i++) {
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
		if (err)
			break;
		start = bench_now();
		err = oriel_window_create(job->comm, &w, &job->window);
		took = (bench_now() - start) * 1e3;
		if (!err)
			err = largest(job, took, &ms[i]);
		if (!err)
			err = oriel_window_destroy(job->window);
		job->window = NULL;
	}
	if (!err && job->rank == 0)
		bench_print("create", bench_median(ms, CREATES), "ms");
	return err;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static double proc_kib(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	char line[256];
	double kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			kib = strtod(line + strlen(key), NULL);
	if (f)
		fclose(f);
	return kib;
}

/*
 * The proportional share of memory of this process: a shared page is divided by the number of
 * processes that map it.
 */
static double own_mib(void)
{
	return (proc_kib("/proc/self/smaps_rollup", "Pss:") +
		proc_kib("/proc/self/status", "VmPTE:")) /
	       1024;
}

/* Everything a window has is used once, so that its pages exist. */
static int use_window(struct job *job)
{
	uint64_t value = 1;
	struct oriel_source src;
	int err = oriel_window_source(job->window, &value, sizeof(value), &src);

	for (int r = 0; !err && r < job->nranks; r++)
		err = oriel_window_put_signal(job->window, r, (uint64_t)job->rank * 8, &src, 0, 8,
					      0, ORIEL_ADD, 1, NULL);
	if (!err)
		err = oriel_window_wait_signal(job->window, -1, 0, ORIEL_GE, (uint64_t)job->nranks,
					       NULL);
	return err ? err : oriel_window_barrier(job->window, 0, NULL);
}

struct memory_share {
	double before, after;
};

static int run_memory(struct job *job, double before)
{
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	struct memory_share mine = { before, 0 }, *all = calloc((size_t)job->nranks, sizeof(*all));
	double sum = 0, most = 0, total = 0;
	int err = all ? 0 : ORIEL_ENOMEM;

	w.bytes = USER_BYTES;
	if (!err)
		err = oriel_window_create(job->comm, &w, &job->window);
	if (!err) {
		memset(oriel_window_buffer(job->window), 0, USER_BYTES);
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	}
	if (!err)
		err = use_window(job);
	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	mine.after = own_mib();
	if (!err) /* also keeps all ranks alive until the last has looked */
		err = oriel_comm_allgather(job->comm, ORIEL_WORLD, &mine, all, sizeof(mine));
	for (int r = 0; !err && r < job->nranks; r++) {
		double grown = all[r].after - all[r].before - USER_BYTES / 1048576.0;

		sum += grown;
		total += all[r].after - USER_BYTES / 1048576.0;
		most = grown > most ? grown : most;
	}
	if (!err && job->rank == 0) {
		bench_print("memory_mean", sum / job->nranks, "MiB");
		bench_print("memory_max", most, "MiB");
		bench_print("memory_process", total / job->nranks, "MiB");
	}
	free(all);
	return err;
}

/* ---- main ------------------------------------------------------------------------------------ */

static int run_pair(struct job *job)
{
	int err;

	if (job->nranks != 2)
		return ORIEL_EINVAL;
	err = make_window(job, LARGE + SLACK);
	if (!err)
		err = run_ping_pong(job, &ping_pong_kernel, "put8_signal");
	if (!err)
		err = run_ping_pong(job, &packet_kernel, "packet8");
	if (!err)
		err = run_barrier(job);
	for (size_t i = 0; !err && i < sizeof(put_cases) / sizeof(put_cases[0]); i++)
		err = run_put(job, &put_cases[i]);
	return err;
}

static int run(struct job *job, const char *what, double before)
{
	int err;

	if (!strcmp(what, "create"))
		return run_create(job);
	if (!strcmp(what, "memory"))
		return run_memory(job, before);
	bench_pin(job->rank);
	if (!strcmp(what, "pair"))
		return run_pair(job);
	err = make_window(job, SLACK);
	return err ? err : run_barrier(job);
}

int main(int argc, char **argv)
{
	static const char *const known[] = { "pair", "barrier", "create", "memory" };
	struct job job = { .rank = -1 };
	struct oriel_boot *boot = NULL;
	const char *what = argc == 2 ? argv[1] : "";
	double before = 0;
	int err, i = 0;

	while (i < 4 && strcmp(what, known[i]))
		i++;
	if (i == 4) {
		fprintf(stderr, "usage: oriel_bench pair|barrier|create|memory\n");
		return 2;
	}
	if (!strcmp(what, "memory")) {
		/* the other ranks' processes share pages with this one from their start on */
		sleep(2);
		before = own_mib();
	}
	err = oriel_boot_env(&boot);
	if (!err)
		err = oriel_comm_create(boot, NULL, &job.comm);
	oriel_boot_destroy(boot);
	if (err)
		return fail(&job, "joining", err);
	job.rank = oriel_comm_rank(job.comm);
	job.nranks = oriel_comm_size(job.comm);
	err = run(&job, what, before);
	if (err)
		return fail(&job, what, err);
	err = oriel_window_destroy(job.window);
	return oriel_comm_destroy(job.comm) || err;
}
