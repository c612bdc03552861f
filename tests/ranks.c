/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/ranks.c - the ways in which ranks.h runs a function as several ranks: threads, processes,
 * or as one rank of a launched job.
 *
 * Owns the life of a rank around the test's function: boot, comm, destroy, and the verdict.  Knows
 * nothing of what the function tests.  Called by test bodies, on the main thread of the test
 * program; one ranks_run() at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"
#include "ranks_hosts.h"

#define RANKS_MAX 256
#define STACK_BYTES ((size_t)8 << 20)
/* Long, because a rank may be delayed for seconds at any point.  They pass only on an error. */
#define DEADLINE_S 150.0
#define TIMEOUT_S 60.0

/* Present in programs built with AddressSanitizer. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* ---- one rank ------------------------------------------------------------------------------- */

static int make_comm(struct rank_env *env, const struct ranks_options *o)
{
	struct oriel_comm_options options = ORIEL_COMM_OPTIONS_INIT;
	int err;

	options.topology = o->topology;
	options.timeout = o->timeout_s;
	err = oriel_comm_create(env->boot, &options, &env->comm);
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d of %d: comm: %s: %s", env->rank,
			   env->nranks, oriel_status_name(err), oriel_last_error());
	return err;
}

/*
 * A function that returned early left its windows behind.  The abort lets them go with the comm,
 * and ends the waits of ranks that would stand there until their deadline.
 */
static void end_comm(struct rank_env *env, const struct ranks_options *o)
{
	int err = oriel_comm_destroy(env->comm);

	/* a rank that was to be killed may have died in the very round of the destroy */
	if (!err || (err == ORIEL_EPEER && o->expect_killed))
		return;
	check_fail(__FILE__, __LINE__, "rank %d of %d: comm destroy: %s: %s", env->rank,
		   env->nranks, oriel_status_name(err), oriel_last_error());
	if (err == ORIEL_EBUSY) {
		oriel_comm_abort(env->comm, ORIEL_EABORTED);
		oriel_comm_destroy(env->comm);
	}
}

/* From a boot (or none) to the end of the rank. */
static void run_rank(struct rank_env *env, const struct ranks_options *o, rank_fn *fn)
{
	int err = 0;

	if (env->boot && !o->no_comm)
		err = make_comm(env, o);
	if (!err)
		fn(env);
	if (env->comm)
		end_comm(env, o);
	if (!env->boot)
		return;
	err = oriel_boot_destroy(env->boot);
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d of %d: boot destroy: %s: %s", env->rank,
			   env->nranks, oriel_status_name(err), oriel_last_error());
}

/* ---- threads --------------------------------------------------------------------------------- */

/* `lock` guards `running` and every rank's `ended`. */
struct crew {
	const struct ranks_options *o;
	rank_fn *fn;
	pthread_mutex_t lock;
	pthread_cond_t change;
	int running;
};

struct member {
	struct crew *crew;
	struct rank_env env;
	pthread_t thread;
	int ended;
};

static void *member_main(void *arg)
{
	struct member *m = arg;
	struct crew *crew = m->crew;

	run_rank(&m->env, crew->o, crew->fn);
	pthread_mutex_lock(&crew->lock);
	m->ended = 1;
	crew->running--;
	pthread_cond_signal(&crew->change);
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

static struct timespec deadline_of(const struct ranks_options *o)
{
	struct timespec t;
	double s = o->deadline_s;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += (time_t)s;
	t.tv_nsec += (long)((s - (double)(time_t)s) * 1e9);
	if (t.tv_nsec >= 1000000000L) {
		t.tv_nsec -= 1000000000L;
		t.tv_sec++;
	}
	return t;
}

static int is_past(const struct timespec *deadline)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > deadline->tv_sec ||
	       (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

static void die_of_threads(const struct member *members, int n)
{
	fprintf(stderr, "%s: the deadline passed; ranks still running:", __FILE__);
	for (int r = 0; r < n; r++)
		if (!members[r].ended)
			fprintf(stderr, " %d", r);
	fprintf(stderr, "\n");
	fflush(NULL);
	abort();
}

static void start_member(struct member *m)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(&m->thread, &attr, member_main, m);
	pthread_attr_destroy(&attr);
	if (err) {
		fprintf(stderr, "%s: no thread for rank %d: %s\n", __FILE__, m->env.rank,
			strerror(err));
		abort();
	}
}

static void run_crew(struct crew *crew, struct member *members, int n)
{
	struct timespec deadline = deadline_of(crew->o);
	int err = 0;

	for (int r = 0; r < n; r++)
		start_member(&members[r]);
	pthread_mutex_lock(&crew->lock);
	while (crew->running && !err)
		err = pthread_cond_timedwait(&crew->change, &crew->lock, &deadline);
	if (crew->running)
		die_of_threads(members, n);
	pthread_mutex_unlock(&crew->lock);
	for (int r = 0; r < n; r++)
		pthread_join(members[r].thread, NULL);
}

static void run_threads(const struct ranks_options *o, rank_fn *fn, void *arg)
{
	struct crew crew = { .o = o, .fn = fn, .running = o->nranks };
	struct member *members = calloc((size_t)o->nranks, sizeof(*members));
	struct oriel_boot **boots = calloc((size_t)o->nranks, sizeof(*boots));
	pthread_condattr_t attr;
	int err = 0;

	if (!members || !boots)
		err = ORIEL_ENOMEM;
	else if (!o->no_boot)
		err = oriel_boot_threads(o->nranks, boots);
	if (err) {
		check_fail(__FILE__, __LINE__, "boot of %d threads: %s", o->nranks,
			   oriel_status_name(err));
		goto err_arrays;
	}
	for (int r = 0; r < o->nranks; r++) {
		members[r].crew = &crew;
		members[r].env.rank = r;
		members[r].env.nranks = o->nranks;
		members[r].env.boot = boots[r];
		members[r].env.arg = arg;
	}
	pthread_mutex_init(&crew.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&crew.change, &attr);
	pthread_condattr_destroy(&attr);
	run_crew(&crew, members, o->nranks);
	pthread_cond_destroy(&crew.change);
	pthread_mutex_destroy(&crew.lock);
err_arrays:
	free(boots);
	free(members);
}

/* ---- processes ------------------------------------------------------------------------------- */

static size_t heap_bytes(void)
{
	return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() :
							 0;
}

static void *nothing(void *arg)
{
	return arg;
}

/* What the C library keeps of a thread that has ended, for the next one. */
static size_t thread_bytes;

static void learn_thread_bytes(void)
{
	size_t before = heap_bytes();
	pthread_t thread;

	if (thread_bytes || !before || pthread_create(&thread, NULL, nothing, NULL))
		return;
	pthread_join(thread, NULL);
	thread_bytes = heap_bytes() - before;
}

/*
 * A full leak check takes seconds of CPU on aarch64, so only a rank whose heap has grown gets one,
 * by something else than threads.  A leak of that very size is left to the runs on threads: these
 * are checked when the test program exits.
 */
static int may_have_leaked(size_t heap_before)
{
	size_t now = heap_bytes();

	return now > heap_before && !(thread_bytes && (now - heap_before) % thread_bytes == 0);
}

/*
 * Leaves by _exit: the parent's exit handlers and unwritten output are not the child's.  That skips
 * the leak check at exit too, so it is asked for here.
 */
static void child_leave(int rank, size_t heap_before)
{
	fflush(NULL);
	if (may_have_leaked(heap_before) && __lsan_do_recoverable_leak_check &&
	    __lsan_do_recoverable_leak_check())
		check_fail(__FILE__, __LINE__, "rank %d leaked memory", rank);
	fflush(NULL);
	_exit(__atomic_load_n(&check_failures, __ATOMIC_RELAXED) ? 1 : 0);
}

static void child_main(struct rank_env *env, const struct ranks_options *o, rank_fn *fn,
		       struct hosts_place *hosts)
{
	size_t heap_before = heap_bytes();
	char local[16];
	int err = 0;

	/* as launchers do: ranks of a host take its GPUs in turn */
	snprintf(local, sizeof(local), "%d",
		 o->hosts ? env->rank % (env->nranks / HOSTS) : env->rank);
	setenv("LOCAL_RANK", local, 1);
	__atomic_store_n(&check_failures, 0, __ATOMIC_RELAXED);
	if (!o->no_boot)
		err = oriel_boot_join(&env->id, env->rank, env->nranks, &env->boot);
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d of %d: boot: %s: %s", env->rank,
			   env->nranks, oriel_status_name(err), oriel_last_error());
	else if (o->hosts)
		hosts_enter(env, o->deadline_s, hosts);
	if (!err)
		run_rank(env, o, fn);
	child_leave(env->rank, heap_before);
}

static pid_t start_child(struct rank_env *env, const struct ranks_options *o, rank_fn *fn,
			 struct hosts_place *hosts)
{
	pid_t parent = getpid(), pid;

	fflush(NULL); /* or the child would print it again */
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it died before the line above */
		_exit(1);
	child_main(env, o, fn, hosts);
	_exit(1); /* not reached */
}

static void judge_child(const struct ranks_options *o, int rank, int status)
{
	int expected = rank < 64 && (o->expect_killed >> rank & 1);

	if (expected && !WIFSIGNALED(status))
		check_fail(__FILE__, __LINE__, "rank %d should have been killed; it exited with %d",
			   rank, WEXITSTATUS(status));
	else if (!expected && WIFSIGNALED(status))
		check_fail(__FILE__, __LINE__, "rank %d was killed by signal %d (%s)", rank,
			   WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (!expected && WEXITSTATUS(status))
		check_fail(__FILE__, __LINE__, "rank %d failed (exit %d)", rank,
			   WEXITSTATUS(status));
}

/* Takes those that ended; returns how many still run.  pids[r] becomes 0 when it is collected. */
static int collect(const struct ranks_options *o, pid_t *pids)
{
	int running = 0;

	for (int r = 0; r < o->nranks; r++) {
		int status;
		pid_t got;

		if (!pids[r])
			continue;
		got = waitpid(pids[r], &status, WNOHANG);
		if (got == 0 || (got < 0 && errno == EINTR)) {
			running++;
			continue;
		}
		pids[r] = 0;
		if (got < 0)
			check_fail(__FILE__, __LINE__, "rank %d: waitpid: %s", r, strerror(errno));
		else
			judge_child(o, r, status);
	}
	return running;
}

/* SIGKILL ends stopped processes too, so the waitpid here is short. */
static void kill_children(const struct ranks_options *o, pid_t *pids)
{
	for (int r = 0; r < o->nranks; r++)
		if (pids[r])
			kill(pids[r], SIGKILL);
	for (int r = 0; r < o->nranks; r++) {
		if (!pids[r])
			continue;
		waitpid(pids[r], NULL, 0);
		pids[r] = 0;
		check_fail(__FILE__, __LINE__,
			   "rank %d still ran at the deadline of %.1f s; killed", r, o->deadline_s);
	}
}

/*
 * A separate process makes the id.  oriel_boot_make_id() starts a thread, and ranks forked from a
 * process with threads confuse the sanitizers.
 */
struct id_place {
	struct oriel_boot_id id;
	int ready; /* atomic; 1: made, -1: failed */
	struct hosts_place hosts;
};

static pid_t start_id_maker(struct id_place *place)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* [R1] release, pairs [A1]: who sees `ready` sees the id. */
	__atomic_store_n(&place->ready, oriel_boot_make_id(&place->id) ? -1 : 1, __ATOMIC_RELEASE);
	for (;;)
		pause(); /* until the ranks have ended and we are killed */
}

static int wait_for_id(struct id_place *place, const struct timespec *deadline)
{
	int ready;

	/* [A1] acquire, pairs [R1]. */
	while (!(ready = __atomic_load_n(&place->ready, __ATOMIC_ACQUIRE)) && !is_past(deadline))
		hosts_nap();
	if (ready != 1)
		check_fail(__FILE__, __LINE__, "no boot id");
	return ready == 1 ? 0 : -1;
}

static void fork_ranks(const struct ranks_options *o, struct rank_env *env, rank_fn *fn,
		       pid_t *pids, struct hosts_place *hosts)
{
	for (int r = 0; r < o->nranks; r++) {
		env->rank = r;
		pids[r] = start_child(env, o, fn, hosts);
		if (pids[r] > 0)
			continue;
		check_fail(__FILE__, __LINE__, "fork of rank %d: %s", r, strerror(errno));
		pids[r] = 0;
		kill_children(o, pids);
		return;
	}
}

static void run_processes(const struct ranks_options *o, rank_fn *fn, void *arg)
{
	struct rank_env env = { .nranks = o->nranks, .processes = 1, .arg = arg };
	struct timespec deadline = deadline_of(o);
	struct id_place *place = ranks_shared(sizeof(*place));
	pid_t maker, pids[RANKS_MAX] = { 0 };

	learn_thread_bytes();
	maker = start_id_maker(place);
	if (maker < 0) {
		check_fail(__FILE__, __LINE__, "fork: %s", strerror(errno));
		goto out;
	}
	if (wait_for_id(place, &deadline))
		goto out_maker;
	env.id = place->id;
	fork_ranks(o, &env, fn, pids, &place->hosts);
	while (collect(o, pids)) {
		if (is_past(&deadline)) {
			kill_children(o, pids);
			break;
		}
		hosts_nap();
	}
out_maker:
	kill(maker, SIGKILL);
	waitpid(maker, NULL, 0);
out:
	munmap(place, sizeof(*place));
}

/* ---- launched -------------------------------------------------------------------------------- */

/*
 * This process is one rank of a job that a launcher started, on this machine or on several.  Each
 * run is a separate job, with the next port: a rank that is early must not join the hub of the last
 * run.
 */
static void run_launched(const struct ranks_options *o, rank_fn *fn, void *arg)
{
	static int runs;
	const char *size = getenv("WORLD_SIZE"), *rank = getenv("RANK"),
		   *port = getenv("MASTER_PORT");
	struct rank_env env = { .nranks = o->nranks, .processes = 1, .arg = arg };
	char text[16];
	int err;

	runs++;
	if (!size || !rank || !port || atoi(size) != o->nranks) {
		check_skip("wants %d ranks, launched are %s", o->nranks, size ? size : "none");
		return;
	}
	if (o->no_boot || o->expect_killed) {
		check_skip("starts or kills ranks itself, but these were launched");
		return;
	}
	env.rank = atoi(rank);
	snprintf(text, sizeof(text), "%d", atoi(port) + runs);
	setenv("ORIEL_PORT", text, 1);
	alarm((unsigned int)o->deadline_s + 1); /* ends the program: nobody else would */
	err = oriel_boot_env(&env.boot);
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d of %d: boot: %s: %s", env.rank, env.nranks,
			   oriel_status_name(err), oriel_last_error());
	else
		run_rank(&env, o, fn);
	alarm(0);
}

/* ---- both ------------------------------------------------------------------------------------ */

void ranks_run(const struct ranks_options *options, rank_fn *fn, void *arg)
{
	struct ranks_options o = *options;
	const char *old = getenv("ORIEL_TIMEOUT");
	char saved[64], text[32];

	if (o.nranks < 1 || o.nranks > RANKS_MAX) {
		check_fail(__FILE__, __LINE__, "%d ranks: 1 to %d can be run", o.nranks, RANKS_MAX);
		return;
	}
	/* A copy on the stack: leak checks of forked ranks would not see a pointer to it. */
	snprintf(saved, sizeof(saved), "%s", old ? old : "");
	if (o.deadline_s <= 0)
		o.deadline_s = DEADLINE_S;
	if (o.timeout_s <= 0)
		o.timeout_s = TIMEOUT_S;
	/* Set before the boot is made: its waits read it, and forked ranks inherit it. */
	snprintf(text, sizeof(text), "%g", o.timeout_s);
	setenv("ORIEL_TIMEOUT", text, 1);
	setenv("ORIEL_TUNE_FILE", "none", 1); /* not the user's: tests know which way calls go */
	if (o.hosts && (o.hosts != HOSTS || !o.processes || getenv("RANKS_LAUNCHED")))
		check_skip("ranks of two hosts are processes that this program starts");
	else if (o.hosts && !hosts_can_be_made())
		check_skip("cannot make network namespaces: not root");
	else if (getenv("RANKS_LAUNCHED"))
		run_launched(&o, fn, arg);
	else if (o.processes)
		run_processes(&o, fn, arg);
	else
		run_threads(&o, fn, arg);
	if (old)
		setenv("ORIEL_TIMEOUT", saved, 1);
	else
		unsetenv("ORIEL_TIMEOUT");
}

void *ranks_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		fprintf(stderr, "%s: no shared memory: %s\n", __FILE__, strerror(errno));
		abort();
	}
	return p;
}
