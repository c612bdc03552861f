/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/tools/doctor_play.c - ranks that hang on purpose, for doctor_test.sh.
 *
 * The argument says how: host and kernel waits in a ring, a rank that sleeps, a barrier that one
 * rank does not reach, a collective call of the host crossed with a wait, a ring over two comms, a
 * ring of threads.
 * The ranks end at their deadline, PLAY_S seconds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

/* In the program that is linked with tests/fake_cuda. */
const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

struct play {
	struct oriel_comm *comm;
	struct oriel_window *window;
	int rank, nranks;
};

static void must(int status)
{
	if (status)
		exit(1);
}

static void play_seconds(void)
{
	const char *seconds = getenv("PLAY_S");

	sleep(seconds ? (unsigned)atoi(seconds) : 3);
}

static void make_window(struct play *p, struct oriel_comm *comm, struct oriel_window **window)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	(void)p;
	o.bytes = 64;
	must(oriel_window_create(comm, &o, window));
}

static int wait_right(const struct play *p)
{
	return oriel_window_wait_signal(p->window, (p->rank + 1) % p->nranks, 5, ORIEL_GE, 7, NULL);
}

/* ---- plays ----------------------------------------------------------------------------------- */

static void ring(struct play *p)
{
	(void)wait_right(p);
}

struct kernel_args {
	struct oriel_window_dev win;
};

ORIEL_KERNEL(kernel_ring, struct kernel_args)
{
	struct oriel_group g = oriel_group_block();
	int right = (oriel_rank(&a->win) + 1) % oriel_nranks(&a->win);

	return oriel_wait_signal_from(&a->win, g, right, 5, ORIEL_GE, 7);
}

static void kernel(struct play *p)
{
	const struct oriel_kernel *k = fake_cuda_kernel ? fake_cuda_kernel(&kernel_ring) :
							  &kernel_ring;
	struct kernel_args args;

	must(oriel_window_device(p->window, &args.win));
	(void)oriel_launch(p->comm, k, 1, 1, &args, sizeof(args), NULL);
	(void)oriel_comm_sync(p->comm, NULL);
}

/* Rank 1 sleeps; all others wait for it in a row: the last for rank 0, rank 0 for rank 1. */
static void asleep(struct play *p)
{
	if (p->rank == 1)
		play_seconds();
	else
		(void)oriel_window_wait_signal(p->window, p->rank ? 0 : 1, 5, ORIEL_GE, 7, NULL);
}

/* Rank 1 signals rank 0.  A fault of its NIC stops that. */
static void lost(struct play *p)
{
	if (p->rank == 1)
		(void)oriel_window_signal(p->window, 0, 5, ORIEL_ADD, 7, NULL);
	else if (p->rank == 0)
		(void)oriel_window_wait_signal(p->window, 1, 5, ORIEL_GE, 7, NULL);
	else
		play_seconds();
}

/* The last rank does not come. */
static void barrier(struct play *p)
{
	if (p->rank == p->nranks - 1)
		play_seconds();
	else
		(void)oriel_window_barrier(p->window, 2, NULL);
}

/* Rank 0 is in a collective call of the host.  The others wait for a signal of rank 0. */
static void crossed(struct play *p)
{
	if (p->rank == 0)
		(void)oriel_comm_barrier(p->comm, ORIEL_WORLD);
	else
		(void)oriel_window_wait_signal(p->window, 0, 5, ORIEL_GE, 7, NULL);
}

/* The last rank has forgotten a signal to rank 1, and all others are at the end of the program. */
static void forgotten(struct play *p)
{
	if (p->rank == 1)
		(void)oriel_window_wait_signal(p->window, p->nranks - 1, 5, ORIEL_GE, 7, NULL);
	else
		(void)oriel_finalize(p->comm);
}

/* The last rank comes to a barrier long after the others gave up, and gives up at once. */
static void too_late(struct play *p)
{
	if (p->rank == p->nranks - 1)
		sleep(9);
	(void)oriel_comm_barrier(p->comm, ORIEL_WORLD);
	sleep(p->rank == p->nranks - 1 ? 0 : 8); /* it can still be asked */
}

/* Rank 0 waits for 1 in one comm; rank 1 waits for 0 in a comm with the ranks in reverse. */
static void two_comms(struct play *p)
{
	struct oriel_window *other;
	struct oriel_comm *sub;

	must(oriel_comm_split(p->comm, 0, p->nranks - p->rank, &sub));
	make_window(p, sub, &other);
	if (p->rank == 0)
		(void)oriel_window_wait_signal(p->window, 1, 5, ORIEL_GE, 7, NULL);
	else
		(void)oriel_window_wait_signal(other, p->nranks - 1, 6, ORIEL_GE, 8, NULL);
}

static const struct {
	const char *name;
	void (*play)(struct play *);
} plays[] = {
	{ "ring", ring },           { "kernel", kernel },       { "asleep", asleep },
	{ "lost", lost },           { "barrier", barrier },     { "crossed", crossed },
	{ "two_comms", two_comms }, { "forgotten", forgotten }, { "too_late", too_late },
};

/* ---- ranks that are threads of one process --------------------------------------------------- */

#define THREADS 3

static void *thread_main(void *boot)
{
	struct play p;

	must(oriel_comm_create((struct oriel_boot *)boot, NULL, &p.comm));
	p.rank = oriel_comm_rank(p.comm);
	p.nranks = oriel_comm_size(p.comm);
	make_window(&p, p.comm, &p.window);
	ring(&p);
	return NULL;
}

static int threads(void)
{
	struct oriel_boot *boots[THREADS];
	pthread_t thread[THREADS];

	must(oriel_boot_threads(THREADS, boots));
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&thread[i], NULL, thread_main, boots[i]));
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *away = getenv("PLAY_AWAY"), *rank = getenv("RANK");
	struct play p;

	/* a rank without a record, like one on another machine */
	if (away && rank && !strcmp(away, rank))
		setenv("ORIEL_DOCTOR", "off", 1);
	if (argc == 2 && !strcmp(argv[1], "threads"))
		return threads();
	must(oriel_init(&p.comm));
	p.rank = oriel_comm_rank(p.comm);
	p.nranks = oriel_comm_size(p.comm);
	make_window(&p, p.comm, &p.window);
	for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++)
		if (argc == 2 && !strcmp(argv[1], plays[i].name)) {
			plays[i].play(&p);
			_exit(0); /* whatever is left of the comm ends with the process */
		}
	fprintf(stderr, "doctor_play: no such play\n");
	return 2;
}
