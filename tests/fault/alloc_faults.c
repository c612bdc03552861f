/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/alloc_faults.c - the first allocation of a rank fails, then the second, and so on
 * until no run fails any more.
 *
 * There must be no crash and no hang, every call must return a status, and everything must be
 * freed.
 *
 * This program defines malloc and its relatives in front of the C library's (or the sanitizer's).
 * They fail only on rank 0's thread, or, over TCP, on any thread.  They also list what the library
 * holds, which is linked into this program.  Every run is its own process (pool.h).
 */
#include <errno.h>
#include <pthread.h>

#include "../../src/boot/tcp.h"
#include "pool.h"
#include "scenario.h"

#define TIMEOUT_S 5.0 /* a rank that cannot be told waits so long, each time */
#define TIMEOUT_TEXT "5"
#define SPARE_S 10.0 /* any process may stand still for some seconds */
#define RUNS_MAX 1000

/* ---- the allocator in front ------------------------------------------------------------------ */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#ifdef SANITIZED
#define REAL(name) __interceptor_##name
#define real_aligned REAL(aligned_alloc)
#else
#define REAL(name) __libc_##name
#define real_aligned REAL(memalign)
#endif
extern void *REAL(malloc)(size_t);
extern void *REAL(calloc)(size_t, size_t);
extern void *REAL(realloc)(void *, size_t);
extern void REAL(free)(void *);
extern void *real_aligned(size_t, size_t);

/* Runs before the sanitizer is ready, and inside of it. */
#define BARE __attribute__((no_sanitize("address", "undefined", "thread")))

#define SLOTS 65536u

struct held {
	void *block, *caller;
	size_t bytes;
};

extern char __executable_start, etext;
static struct held
	held[SLOTS]; /* under `busy`; open addressing, a slot is found again by its block */
static int busy;
static int held_count;
static _Thread_local int countdown;  /* 0: none fails on this thread */
static _Thread_local int fired;      /* 1: one has failed; 2: it was the library's own */
static int any_countdown, any_fired; /* atomic: the same for all threads together */

BARE static void table_lock(void)
{
	while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		;
}

BARE static void table_unlock(void)
{
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

BARE static unsigned slot_of(const void *block)
{
	return (unsigned)(((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15ull >> 48);
}

BARE static int from_library(const void *caller)
{
	return (uintptr_t)caller >= (uintptr_t)&__executable_start &&
	       (uintptr_t)caller < (uintptr_t)&etext;
}

/* A freed slot keeps its caller, so that a search goes on past it. */
BARE static void *hold(void *block, size_t bytes, void *caller)
{
	unsigned i = slot_of(block);

	if (!block || !from_library(caller))
		return block;
	table_lock();
	while (held[i].block)
		i = (i + 1) % SLOTS;
	held[i].block = block;
	held[i].bytes = bytes;
	held[i].caller = caller;
	held_count++;
	table_unlock();
	return block;
}

BARE static void unhold(const void *block)
{
	unsigned i = slot_of(block);

	if (!block)
		return;
	table_lock();
	while (held[i].caller && held[i].block != block)
		i = (i + 1) % SLOTS;
	if (held[i].caller) {
		held[i].block = NULL;
		held_count--;
	}
	table_unlock();
}

BARE static int fails(const void *caller)
{
	/* those of the C library at a new thread's start are not the library's to survive */
	if (__atomic_load_n(&any_countdown, __ATOMIC_RELAXED) > 0 && from_library(caller) &&
	    !__atomic_sub_fetch(&any_countdown, 1, __ATOMIC_ACQ_REL)) {
		__atomic_store_n(&any_fired, 1, __ATOMIC_RELEASE);
		errno = ENOMEM;
		return 1;
	}
	if (countdown == 0 || --countdown)
		return 0;
	fired = from_library(caller) ? 2 : 1;
	errno = ENOMEM;
	return 1;
}

BARE void *malloc(size_t bytes)
{
	void *caller = __builtin_return_address(0);

	return fails(caller) ? NULL : hold(REAL(malloc)(bytes), bytes, caller);
}

BARE void *calloc(size_t n, size_t bytes)
{
	void *caller = __builtin_return_address(0);

	return fails(caller) ? NULL : hold(REAL(calloc)(n, bytes), n * bytes, caller);
}

BARE void *realloc(void *old, size_t bytes)
{
	void *caller = __builtin_return_address(0), *block;

	if (fails(caller))
		return NULL;
	unhold(old);
	block = REAL(realloc)(old, bytes);
	return hold(block ? block : old, bytes, caller);
}

BARE void *aligned_alloc(size_t alignment, size_t bytes)
{
	void *caller = __builtin_return_address(0);

	return fails(caller) ? NULL : hold(real_aligned(alignment, bytes), bytes, caller);
}

BARE void free(void *block)
{
	unhold(block);
	REAL(free)(block);
}

static int count_held(void)
{
	int n;

	table_lock();
	n = held_count;
	table_unlock();
	return n;
}

static void show_held(void)
{
	table_lock();
	for (unsigned i = 0; i < SLOTS; i++)
		if (held[i].block)
			fprintf(stderr, "held: %zu bytes, taken at program offset %#zx\n",
				held[i].bytes,
				(size_t)((char *)held[i].caller - &__executable_start));
	table_unlock();
}

/* ---- one run --------------------------------------------------------------------------------- */

struct run {
	struct scenario ranks[2];
	int n, boot_status, fired;
	double seconds;
};

static void *rank_1(void *arg)
{
	scenario_run(arg);
	return NULL;
}

enum boot { ALONE, THREADS, TCP };

/* Over TCP with itself: rendezvous and reader are threads of this process. */
static int make_boot(enum boot kind, int nranks, struct oriel_boot **boots)
{
	struct oriel_boot_id id;
	int err;

	if (kind != TCP)
		return kind == ALONE ? oriel_boot_env(boots) : oriel_boot_threads(nranks, boots);
	err = oriel_boot_make_id(&id);
	return err ? err : oriel_boot_join(&id, 0, 1, boots);
}

/* Rank 0, on the calling thread: its nth allocation fails. */
static void run_once(struct run *run, int nranks, enum boot kind, int n)
{
	struct oriel_boot *boots[2] = { NULL, NULL };
	double start = scenario_now();
	pthread_t thread;
	int after_boot;

	memset(run, 0, sizeof(*run));
	run->n = n;
	fired = 0;
	any_fired = 0;
	__atomic_store_n(&any_countdown, kind == TCP ? n : 0, __ATOMIC_RELEASE);
	countdown = kind == TCP ? 0 : n;
	run->boot_status = make_boot(kind, nranks, boots);
	after_boot = countdown;
	countdown = 0;
	for (int r = 0; r < nranks && !run->boot_status; r++)
		run->ranks[r] = (struct scenario){
			.rank = r, .nranks = nranks, .timeout_s = TIMEOUT_S, .boot = boots[r]
		};
	if (run->boot_status)
		goto out;
	if (nranks == 2 && pthread_create(&thread, NULL, rank_1, &run->ranks[1])) {
		check_fail(__FILE__, __LINE__, "no thread");
		_exit(1);
	}
	countdown = after_boot;
	scenario_run(&run->ranks[0]);
	countdown = 0;
	if (nranks == 2)
		pthread_join(thread, NULL);
out:
	__atomic_store_n(&any_countdown, 0, __ATOMIC_RELEASE);
	run->fired = fired ? fired : __atomic_load_n(&any_fired, __ATOMIC_ACQUIRE);
	run->seconds = scenario_now() - start;
}

/* A rank that ran out of memory says so.  A rank that was only affected must give some text. */
static void judge(const struct run *run, int nranks)
{
	const struct scenario *s = &run->ranks[0];
	int status = run->boot_status ? run->boot_status : s->status;
	const char *call = run->boot_status ? "boot" : s->call;

	if (!run->fired && status)
		check_fail(__FILE__, __LINE__, "nothing failed, but %s: %s", call, s->error);
	if (run->fired == 2 && status && status != ORIEL_ENOMEM)
		check_fail(__FILE__, __LINE__, "allocation %d of rank 0 failed, %s says %s: %s",
			   run->n, call, oriel_status_name(status), s->error);
	if (nranks == 2 && !run->boot_status && !status && run->ranks[1].status)
		check_fail(__FILE__, __LINE__,
			   "allocation %d of rank 0 failed: rank 0 is well, rank 1 has %s in %s",
			   run->n, oriel_status_name(run->ranks[1].status), run->ranks[1].call);
	/* a rank that can no longer take part tells the others why */
	if (nranks == 2 && run->fired == 2 && status && call &&
	    (!strcmp(call, "window_create") || !strcmp(call, "buffer_exchange")) &&
	    run->ranks[1].status != ORIEL_ENOMEM)
		check_fail(__FILE__, __LINE__, "allocation %d, %s: rank 1 was told %s in %s: %s",
			   run->n, call, oriel_status_name(run->ranks[1].status),
			   run->ranks[1].call, run->ranks[1].error);
	if (run->seconds > TIMEOUT_S + SPARE_S)
		check_fail(__FILE__, __LINE__, "allocation %d of rank 0 failed: took %.1f s",
			   run->n, run->seconds);
}

/* A rendezvous that no rank joins ends by itself, after its timeout. */
static void check_given_back(int held_before, int fds_before)
{
	double until = scenario_now() + TIMEOUT_S + SPARE_S;

	while ((count_held() != held_before || scenario_open_fds() != fds_before) &&
	       scenario_now() < until) {
		usleep(2000);
		ori_tcp_hub_reap(); /* as the next one to start does */
	}
	CHECK_EQ(count_held(), held_before);
	CHECK_EQ(scenario_open_fds(), fds_before);
	if (count_held() != held_before)
		show_held();
}

/* ---- all runs ------------------------------------------------------------------------------- */

static const struct kind {
	const char *name;
	int nranks;
	enum boot boot;
} kinds[] = {
	{ "one rank alone", 1, ALONE },
	{ "one rank of a thread group", 1, THREADS },
	{ "one rank over TCP", 1, TCP },
	{ "two ranks", 2, THREADS },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* What came of a run; shared with the processes of the runs. */
struct verdict {
	int ran, fired, unnoticed;
	int late_create, late_split,
		late; /* the other rank learnt nothing of the failure and waited */
};

static struct verdict (*verdicts)[KINDS];

static const struct kind *kind_of(int i)
{
	return &kinds[(size_t)i % KINDS];
}

static void count_deadline(const struct run *run, struct verdict *v)
{
	const char *call = run->ranks[0].call;

	if (run->ranks[1].status != ORIEL_ETIMEDOUT || !call)
		return;
	v->late = 1;
	v->late_create = !strcmp(call, "comm_create");
	v->late_split = !strcmp(call, "comm_split");
	printf("allocation %d (%s): the other rank ran into its deadline\n", run->n, call);
}

static void run_and_judge(const struct kind *kind, int n, struct verdict *v)
{
	int before = count_held(), fds = scenario_open_fds();
	struct run run;

	run_once(&run, kind->nranks, kind->boot, n);
	judge(&run, kind->nranks);
	check_given_back(before, fds);
	if (check_failures)
		fprintf(stderr, "%s: allocation %d, status %d in %s: %s\n", kind->name, n,
			run.ranks[0].status, run.ranks[0].call ? run.ranks[0].call : "boot",
			run.ranks[0].error);
	v->fired = run.fired;
	v->unnoticed = run.fired && !run.boot_status && !run.ranks[0].status;
	count_deadline(&run, v);
	__atomic_store_n(&v->ran, 1, __ATOMIC_RELEASE);
}

static void run_case(int i)
{
	run_and_judge(kind_of(i), i / (int)KINDS + 1, &verdicts[i / (int)KINDS][(size_t)i % KINDS]);
}

/* No more of a kind of which one run has needed fewer allocations; none at all after a failure. */
static int is_wanted(int i)
{
	if (check_failures)
		return 0;
	for (int n = 0; n < i / (int)KINDS; n++) {
		const struct verdict *v = &verdicts[n][(size_t)i % KINDS];

		if (__atomic_load_n(&v->ran, __ATOMIC_ACQUIRE) && !v->fired)
			return 0;
	}
	return 1;
}

static void sum_up(size_t k)
{
	int failed = 0, unnoticed = 0, late = 0, create = 0, split = 0;

	for (int n = 0; n < RUNS_MAX; n++) {
		const struct verdict *v = &verdicts[n][k];

		failed += v->fired != 0;
		unnoticed += v->unnoticed;
		late += v->late;
		create += v->late_create;
		split += v->late_split;
	}
	CHECK(failed > 20 && failed < RUNS_MAX - 1);
	/* a group that this rank cannot even make is one it cannot tell: 9 each at most */
	CHECK(create <= 9 && split <= 9);
	CHECK_EQ(create + split, late);
	printf("%s: %d allocations failed, one by one; %d without effect; %d cost a deadline\n",
	       kinds[k].name, failed, unnoticed, late);
}

TEST(every_allocation)
{
	const struct pool pool = {
		.count = RUNS_MAX * (int)KINDS, .wanted = is_wanted, .run = run_case, .what = "run"
	};
	struct verdict none = { 0 };

	verdicts = pool_shared(RUNS_MAX * sizeof(*verdicts));
	setenv("ORIEL_TIMEOUT", TIMEOUT_TEXT, 1);
	for (size_t k = 0; k < KINDS; k++)
		run_and_judge(&kinds[k], 0, &none);
	pool_run(&pool);
	for (size_t k = 0; k < KINDS; k++)
		sum_up(k);
	unsetenv("ORIEL_TIMEOUT");
}
