/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/scale/scale.c - measures the time and the memory of a start with N ranks.
 *
 * Usage: bench_scale processes N | tcp N | threads N | peers N P
 *   processes  N processes of this machine meet by TCP, then create a comm
 *   tcp        N threads meet by TCP (sockets as between processes), exchange facts, classify
 *   threads    N threads meet in memory, exchange facts, classify
 *   peers      N processes, all queued peers of each other, create a comm; then each creates queues
 *              to P peers
 * Prints one line: "mode ranks boot_ms allgather_ms classify_ms comm_ms pss_kib".  Times are those
 * of the slowest rank; classify_ms is CPU time; the allgather has 1 KiB per rank.  pss_kib is the
 * largest proportional memory share of a rank.  "-" means: not measured in this mode.
 * The line of mode peers is "peers ranks P comm_ms connect_ms pss_kib".
 * bench/scale/run.sh runs this program at several sizes and fits the formula.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../../src/boot/boot.h"
#include "../../src/comm/topology.h"
#include "../../src/util/util.h"

#define ROUNDS 5
#define RECORD_BYTES 1024
#define TIMEOUT_NS (120 * ORI_NS_PER_S)
#define STACK_BYTES (256u << 10)
#define RANKS_MAX 4096

/* What a rank measured; in memory that parent and children share. */
struct result {
	uint64_t joined_ns; /* on the common clock */
	uint64_t allgather_ns, classify_ns, comm_ns, connect_ns;
	long pss_kib;
	int status;
};

struct rank_args {
	struct oriel_boot *boot; /* NULL: join by the id */
	const struct oriel_boot_id *id;
	int rank, nranks;
	int peers; /* to connect; -1: as ever */
	struct result *result;
};

static long own_pss_kib(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	long kib = -1;

	while (f && kib < 0 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Pss: %ld kB", &kib) != 1)
			kib = -1;
	}
	if (f)
		fclose(f);
	return kib;
}

static int time_allgather(struct oriel_boot *boot, struct result *r)
{
	unsigned char mine[RECORD_BYTES], *all = malloc((size_t)boot->nranks * RECORD_BYTES);
	uint64_t start = 0;
	int err = all ? 0 : ORIEL_ENOMEM;

	memset(mine, boot->rank & 0xff, sizeof(mine));
	for (int i = 0; i <= ROUNDS && !err; i++) {
		if (i == 1) /* the first one brings all here */
			start = ori_now_ns();
		err = boot->ops->allgather(boot, mine, all, sizeof(mine), TIMEOUT_NS);
	}
	r->allgather_ns = (ori_now_ns() - start) / ROUNDS;
	for (int i = 0; i < boot->nranks && !err; i++) {
		if (all[(size_t)i * RECORD_BYTES + RECORD_BYTES - 1] != (i & 0xff))
			err = ORIEL_EPROTO;
	}
	free(all);
	return err;
}

/* Of this thread alone: with more ranks than cores the clock on the wall shows the others. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * ORI_NS_PER_S + (uint64_t)t.tv_nsec;
}

static int time_classify(struct oriel_boot *boot, struct result *r)
{
	struct ori_facts mine, *all = calloc((size_t)boot->nranks, sizeof(*all));
	struct ori_topology topology;
	struct ori_config config;
	uint64_t start;
	int err = all ? ori_config_read(&config) : ORIEL_ENOMEM;

	if (!err)
		err = ori_facts_gather(&mine, &config);
	if (!err)
		err = boot->ops->allgather(boot, &mine, all, sizeof(mine), TIMEOUT_NS);
	start = cpu_ns();
	if (!err)
		err = ori_classify(all, boot->nranks, &topology);
	r->classify_ns = cpu_ns() - start;
	if (!err)
		ori_topology_free(&topology);
	free(all);
	return err;
}

/* To the next `peers` ranks; the ones before are named by those. */
static int connect_some(struct oriel_comm *comm, int peers)
{
	int rank = oriel_comm_rank(comm), n = oriel_comm_size(comm), ranks[RANKS_MAX];

	for (int i = 0; i < peers; i++)
		ranks[i] = (rank + 1 + i) % n;
	return oriel_comm_connect(comm, ranks, peers);
}

static int time_comm(struct oriel_boot *boot, int peers, struct result *r)
{
	struct oriel_comm_options options = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_comm *comm;
	char topology[32];
	uint64_t start = ori_now_ns();
	int err;

	snprintf(topology, sizeof(topology), "%dx1", boot->nranks);
	options.topology = peers < 0 ? NULL : topology;
	options.connect = peers < 0 ? 0 : ORIEL_CONNECT_NONE;
	err = oriel_comm_create(boot, &options, &comm);
	r->comm_ns = ori_now_ns() - start;
	if (err)
		return err;
	start = ori_now_ns();
	/* each rank has as many before it as behind it */
	if (peers >= 0)
		err = connect_some(comm, peers / 2);
	r->connect_ns = ori_now_ns() - start;
	r->pss_kib = own_pss_kib();
	if (!err)
		err = oriel_comm_barrier(comm, ORIEL_WORLD);
	if (err)
		return err;
	err = oriel_comm_barrier(comm, ORIEL_WORLD);
	if (!err)
		err = oriel_comm_destroy(comm);
	return err;
}

static void run_rank(const struct rank_args *a, int make_comm)
{
	struct oriel_boot *boot = a->boot;
	struct result *r = a->result;

	r->status = boot ? 0 : oriel_boot_join(a->id, a->rank, a->nranks, &boot);
	r->joined_ns = ori_now_ns();
	if (r->status)
		return;
	r->status = time_allgather(boot, r);
	if (!r->status)
		r->status = make_comm ? time_comm(boot, a->peers, r) : time_classify(boot, r);
	oriel_boot_destroy(boot);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static int run_processes(const struct oriel_boot_id *id, int n, int peers, struct result *results)
{
	int started = 0, bad = 0, status;

	fflush(NULL);
	for (; started < n; started++) {
		struct rank_args a = { NULL, id, started, n, peers, &results[started] };
		pid_t pid = fork();

		if (pid == 0) {
			run_rank(&a, 1);
			_exit(results[started].status != 0);
		}
		if (pid < 0)
			break;
	}
	if (started < n)
		fprintf(stderr, "scale: only %d processes could be started\n", started);
	for (int i = 0; i < started; i++)
		bad |= wait(&status) < 0 || status;
	return bad || started < n;
}

static void *thread_main(void *arg)
{
	run_rank(arg, 0);
	return NULL;
}

static int run_threads(const struct oriel_boot_id *id, struct oriel_boot **boots, int n,
		       struct result *results)
{
	struct rank_args *args = calloc((size_t)n, sizeof(*args));
	pthread_t *threads = calloc((size_t)n, sizeof(*threads));
	pthread_attr_t attr;
	int started = 0;

	if (!args || !threads || pthread_attr_init(&attr))
		return 1;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (; started < n; started++) {
		args[started] = (struct rank_args){
			boots ? boots[started] : NULL, id, started, n, -1, &results[started]
		};
		if (pthread_create(&threads[started], &attr, thread_main, &args[started]))
			break;
	}
	if (started < n)
		fprintf(stderr, "scale: only %d threads could be started\n", started);
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	pthread_attr_destroy(&attr);
	free(args);
	free(threads);
	return started < n;
}

/* ---- the line -------------------------------------------------------------------------------- */

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void print_ms(uint64_t ns)
{
	if (ns)
		printf(" %.3f", (double)ns / 1e6);
	else
		printf(" -");
}

static int report(const char *mode, int n, int peers, uint64_t start_ns,
		  const struct result *results)
{
	struct result worst = { 0 };

	for (int i = 0; i < n; i++) {
		const struct result *r = &results[i];

		if (r->status) {
			fprintf(stderr, "scale: rank %d of %d: %s\n", i, n,
				oriel_status_name(r->status));
			return 1;
		}
		worst.joined_ns = larger(worst.joined_ns, r->joined_ns);
		worst.allgather_ns = larger(worst.allgather_ns, r->allgather_ns);
		worst.classify_ns = larger(worst.classify_ns, r->classify_ns);
		worst.comm_ns = larger(worst.comm_ns, r->comm_ns);
		worst.connect_ns = larger(worst.connect_ns, r->connect_ns);
		if (r->pss_kib > worst.pss_kib)
			worst.pss_kib = r->pss_kib;
	}
	if (peers >= 0) {
		printf("%s %d %d", mode, n, peers);
		print_ms(worst.comm_ns);
		print_ms(worst.connect_ns);
		printf(" %ld\n", worst.pss_kib);
		return 0;
	}
	printf("%s %d", mode, n);
	print_ms(worst.joined_ns - start_ns);
	print_ms(worst.allgather_ns);
	print_ms(worst.classify_ns);
	print_ms(worst.comm_ns);
	if (worst.pss_kib > 0)
		printf(" %ld\n", worst.pss_kib);
	else
		printf(" -\n");
	return 0;
}

/* Both ends of every connection are in one process in the modes with threads. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int usage(void)
{
	fprintf(stderr,
		"usage: bench_scale processes|tcp|threads N | peers N P   (N from 2 to %d, P even "
		"and below N)\n",
		RANKS_MAX);
	return 2;
}

int main(int argc, char **argv)
{
	int n = argc == 3 || argc == 4 ? atoi(argv[2]) : 0, err = 0;
	int peers = argc == 4 ? atoi(argv[3]) : -1;
	static struct oriel_boot *boots[RANKS_MAX];
	struct oriel_boot_id id;
	struct result *results;
	uint64_t start;

	if (n < 2 || n > RANKS_MAX || (argc == 4) != !strcmp(argv[1], "peers") ||
	    (argc == 4 && (peers < 0 || peers >= n || peers % 2)))
		return usage();
	raise_limit();
	results = mmap(NULL, (size_t)n * sizeof(*results), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		return 1;
	start = ori_now_ns();
	if (!strcmp(argv[1], "threads"))
		err = oriel_boot_threads(n, boots) || run_threads(NULL, boots, n, results);
	else if (!strcmp(argv[1], "tcp"))
		err = oriel_boot_make_id(&id) || run_threads(&id, NULL, n, results);
	else if (!strcmp(argv[1], "processes") || peers >= 0)
		err = oriel_boot_make_id(&id) || run_processes(&id, n, peers, results);
	else
		return usage();
	return report(argv[1], n, peers, start, results) || err;
}
