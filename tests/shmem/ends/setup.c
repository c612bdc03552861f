/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * setup.c CASE - programs that end early, by a mistake or by intention.  setup.sh knows what
 * each of them prints and returns.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../pe.h"

static long word;
static long numbers[4];
static int me, npes;

static void compute_for_ever(void)
{
	for (;;)
		pause();
}

/* ---- mistakes of PE 0 ------------------------------------------------------------------------ */

static void bad_pe(void)
{
	shmem_long_p(&word, 1, npes);
}

static void negative_pe(void)
{
	(void)shmem_long_g(&word, -1);
}

static void bad_address(void)
{
	long local = 0;

	shmem_long_put(&local, &word, 1, 0);
}

static void bad_source(void)
{
	long local = 0;

	shmem_long_get(&word, &local, 1, 0);
}

static void beyond_end(void)
{
	shmem_putmem(&word, numbers, (size_t)1 << 40, 0);
}

static void too_many(void)
{
	shmem_put128(&word, numbers, SIZE_MAX / 8, 0);
}

static void bad_stride(void)
{
	shmem_long_iput(numbers, numbers, 0, 1, 2, 0);
}

static void bad_context(void)
{
	shmem_ctx_long_p(SHMEM_CTX_INVALID, &word, 1, 0);
}

static void destroy_default(void)
{
	shmem_ctx_destroy(SHMEM_CTX_DEFAULT);
}

static void bad_free(void)
{
	shmem_free(&word);
}

static void exit_five(void)
{
	exit(5);
}

static void killed(void)
{
	kill(getpid(), SIGKILL);
}

static void late(void)
{
	compute_for_ever();
}

/* ---- what all PEs do ------------------------------------------------------------------------- */

static void bad_sizes(void)
{
	(void)shmem_malloc(me == 0 ? 100 : 200);
}

static void other_block(void)
{
	void *a = shmem_malloc(64), *b = shmem_malloc(64);

	shmem_free(me == 0 ? a : b);
}

static void other_alignment(void)
{
	(void)shmem_malloc(64);
	(void)shmem_align(me == 0 ? 64 : 4096, 64);
}

/* The heap has 1 MiB: PE 0 finds room in it, but with its alignment PE 1 does not. */
static void other_room(void)
{
	(void)shmem_malloc(64);
	(void)shmem_align(me == 0 ? 64 : (size_t)1 << 20, 64);
}

static void free_or_malloc(void)
{
	void *p = shmem_malloc(64);

	if (me == 0)
		shmem_free(p);
	else
		(void)shmem_malloc(64);
}

static void double_free(void)
{
	void *p = shmem_malloc(10);

	shmem_free(p);
	shmem_free(p);
}

static void too_small(void)
{
	CHECK(!shmem_malloc((size_t)2 << 20));
}

static void global_exit(int status)
{
	if (me == npes - 1) {
		printf("PE %d ends the job", me); /* no newline: stdio still holds the text */
		shmem_global_exit(status);
	}
	if (me == 0)
		shmem_barrier_all();
	compute_for_ever();
}

static void global_exit_three(void)
{
	global_exit(3);
}

static void global_exit_zero(void)
{
	global_exit(0);
}

/* PE 0 holds the lock of a stream, as in fgets(), and blocks the alarm in its thread. */
static void global_exit_locked(void)
{
	sigset_t alarms;

	if (me == 0) {
		sigemptyset(&alarms);
		sigaddset(&alarms, SIGALRM);
		pthread_sigmask(SIG_BLOCK, &alarms, NULL);
		flockfile(stdin);
		shmem_barrier_all();
		compute_for_ever();
	}
	shmem_barrier_all();
	global_exit(0);
}

static void *global_exit_soon(void *unused)
{
	usleep(300000);
	shmem_global_exit(5);
	return unused;
}

/*
 * Stands still.  The launcher ends this process when PE 0 has ended; if it does not, a child does
 * after 15 seconds.  The child ends with this process: nobody is to wait for it.
 */
static void stop_and_die(void)
{
	pid_t pe = getpid();

	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sleep(15);
		kill(pe, SIGKILL);
		_exit(0);
	}
	raise(SIGSTOP);
}

/* PE 1 does not answer, and its queue is full: the posts of shmem_global_exit() find no room. */
static void global_exit_full(void)
{
	static char piece[4096], there[sizeof(piece)];
	pthread_t thread;

	shmem_barrier_all();
	if (me == 1)
		stop_and_die();
	CHECK(!pthread_create(&thread, NULL, global_exit_soon, NULL));
	for (;;)
		shmem_putmem_nbi(there, piece, sizeof(piece), 1);
}

static void returns(void)
{
	shmem_long_p(&word, 1, (me + 1) % npes);
}

static void twice(void)
{
	shmem_finalize();
	shmem_init();
	CHECK_EQ(shmem_n_pes(), npes);
	CHECK_EQ(word, 0);
	shmem_barrier_all();
	shmem_long_p(&word, 1 + me, (me + 1) % npes);
	shmem_barrier_all();
	CHECK_EQ(word, 1 + (me + npes - 1) % npes);
	shmem_finalize();
	shmem_finalize();
}

/*
 * PE 1 dies while PE 0 waits for it in the middle of shmem_finalize().  The library's calls of
 * oriel_window_destroy() come here: a program's functions go before those of its libraries.
 */
static int dies_in_finalize;

struct oriel_window;
int oriel_window_destroy(struct oriel_window *window);
int oriel_window_destroy(struct oriel_window *window)
{
	int (*original)(struct oriel_window *);

	if (dies_in_finalize && me == 1) {
		usleep(200000);
		killed();
	}
	*(void **)&original = dlsym(RTLD_NEXT, "oriel_window_destroy");
	return original(window);
}

static void finalize_alone(void)
{
	dies_in_finalize = 1;
	shmem_finalize();
}

static void says(void)
{
	char name[SHMEM_MAX_NAME_LEN];
	int major, minor;

	shmem_info_get_version(&major, &minor);
	shmem_info_get_name(name);
	shmem_pcontrol(1);
	if (me == 0)
		printf("version %d.%d of %s\n", major, minor, name);
}

static const struct {
	const char *name;
	void (*body)(void);
	int only_first; /* PE 0 alone; the others wait in a barrier */
} cases[] = {
	{ "bad_pe", bad_pe, 1 },
	{ "negative_pe", negative_pe, 1 },
	{ "bad_address", bad_address, 1 },
	{ "bad_source", bad_source, 1 },
	{ "beyond_end", beyond_end, 1 },
	{ "too_many", too_many, 1 },
	{ "bad_stride", bad_stride, 1 },
	{ "bad_context", bad_context, 1 },
	{ "destroy_default", destroy_default, 1 },
	{ "bad_free", bad_free, 1 },
	{ "exit_five", exit_five, 1 },
	{ "killed", killed, 1 },
	{ "late", late, 1 },
	{ "bad_sizes", bad_sizes, 0 },
	{ "other_block", other_block, 0 },
	{ "other_alignment", other_alignment, 0 },
	{ "other_room", other_room, 0 },
	{ "free_or_malloc", free_or_malloc, 0 },
	{ "double_free", double_free, 0 },
	{ "too_small", too_small, 0 },
	{ "global_exit_three", global_exit_three, 0 },
	{ "global_exit_zero", global_exit_zero, 0 },
	{ "global_exit_locked", global_exit_locked, 0 },
	{ "global_exit_full", global_exit_full, 0 },
	{ "returns", returns, 0 },
	{ "twice", twice, 0 },
	{ "finalize_alone", finalize_alone, 0 },
	{ "says", says, 0 },
};

int main(int argc, char **argv)
{
	size_t i;

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "not_ready"))
		shmem_barrier_all();
	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		if (!cases[i].only_first || me == 0)
			cases[i].body();
		else
			shmem_barrier_all();
		return 0;
	}
	return 2;
}
