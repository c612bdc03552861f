/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/reduce_stuck.c - a rank that stops in the middle of a long collective of the host: it
 * dies, comes too late, or aborts.  The other ranks get the status, and nobody hangs.
 *
 * The rank stops where the test wants it: a page of its buffer lies in memory that it may not
 * access.  When a reduction comes to that page, all ranks have met.  In calls of many rounds some
 * rounds are over.  Ranks that do not even enter the call: reduce_errors.c.  Calls of a kernel:
 * team_stuck.c.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coll/team/cards.h"
#include "coll/team/team.h"
#include "reduce_bed.h"

#define VICTIM 1
#define LATE_NS 200000000u /* deadline of a call in which a rank stops */
#define UNIT 65536u        /* as large as pages are anywhere */
#define WINDOW_BYTES (4u << 20)

enum { BROADCAST, BROADCAST_FROM_IT, REDUCE, SCATTER, KINDS };
enum { DIES, COMES_LATE, ABORTS, ENDINGS };

/* What a test does; in memory that all ranks share. */
struct scene {
	int ending, kind, in_window;
	int way;          /* ORI_CARDS_* of a reduction; 0: other calls */
	uint64_t bytes;   /* that a rank gives, or gets by a broadcast */
	uint32_t stopped; /* atomic: the victim has come to its page */
	uint32_t over;    /* atomic: ranks whose call has ended */
};

/* ---- the victim ------------------------------------------------------------------------------ */

static struct trap {
	uint8_t *page;
	size_t bytes; /* of a page */
	struct scene *scene;
	struct oriel_comm *comm;
	uint32_t others;
	uint32_t left; /* atomic: the call has ended */
} trap;

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* The call goes on when those of all others have ended. */
static void stop(int sig, siginfo_t *info, void *context)
{
	struct trap *t = &trap;
	uint8_t *at = (uint8_t *)info->si_addr;

	(void)context;
	if (!t->page || at < t->page || at >= t->page + t->bytes) {
		signal(sig, SIG_DFL); /* a fault of something else: once more, and to its end */
		return;
	}
	__atomic_store_n(&t->scene->stopped, 1, __ATOMIC_RELEASE);
	if (t->scene->ending == DIES)
		kill(getpid(), SIGKILL);
	while (load(&t->scene->over) < t->others)
		usleep(1000);
	mprotect(t->page, t->bytes, PROT_READ | PROT_WRITE);
}

/* A second thread of the victim gives up while the first one is in the call. */
static void *abort_it(void *arg)
{
	(void)arg;
	while (!load(&trap.scene->stopped) && !load(&trap.left))
		usleep(1000);
	CHECK_EQ(oriel_comm_abort(trap.comm, ORIEL_EINVAL), 0);
	return NULL;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

struct job {
	struct rank_env *env;
	struct oriel_window *window;
	uint8_t *send, *recv;
	uint64_t room; /* of each of the two */
};

static int open_job(struct job *j, struct rank_env *env, const struct scene *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	void *memory;

	memset(j, 0, sizeof(*j));
	j->env = env;
	j->room = (s->bytes + UNIT - 1) / UNIT * UNIT;
	o.bytes = WINDOW_BYTES;
	if (s->in_window) {
		if (oriel_window_create(env->comm, &o, &j->window))
			return -1;
		memory = oriel_window_buffer(j->window);
	} else {
		memory = mmap(NULL, 2 * j->room, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	j->send = (uint8_t *)memory;
	j->recv = j->send + j->room;
	return memory == MAP_FAILED ? -1 : 0;
}

/* A failed comm has kept the window. */
static void close_job(struct job *j)
{
	if (!j->window)
		munmap(j->send, 2 * j->room);
	else if (!oriel_comm_status(j->env->comm))
		CHECK_EQ(oriel_window_destroy(j->window), 0);
}

static int call(const struct job *j, int kind, uint64_t bytes)
{
	struct oriel_comm *c = j->env->comm;
	uint64_t block = bytes / 4 / (uint32_t)j->env->nranks;

	switch (kind) {
	case BROADCAST:
		return oriel_broadcast(c, j->recv, bytes, 1, 0, NULL);
	case BROADCAST_FROM_IT:
		return oriel_broadcast(c, j->recv, bytes, 1, VICTIM, NULL);
	case REDUCE:
		return oriel_allreduce(c, j->send, j->recv, bytes / 4, ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, NULL);
	default:
		return oriel_reducescatter(c, j->send, j->recv, block, ORIEL_TYPE_FLOAT,
					   ORIEL_REDUCE_SUM, NULL);
	}
}

/*
 * A page that only the victim touches, and not before the ranks have met: in the middle of the
 * piece that it combines itself.  Of a broadcast it copies everything.
 */
static void set_trap(const struct job *j, struct scene *s)
{
	uint32_t n = (uint32_t)j->env->nranks;
	uint64_t at = s->bytes * (2 * VICTIM + 1) / (2 * n);
	uint8_t *buffer = s->kind == REDUCE || s->kind == SCATTER ? j->send : j->recv;
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = stop;
	action.sa_flags = SA_SIGINFO;
	trap.scene = s;
	trap.comm = j->env->comm;
	trap.others = n - 1;
	trap.bytes = (size_t)sysconf(_SC_PAGESIZE);
	trap.page = (uint8_t *)(((uintptr_t)buffer + at) / trap.bytes * trap.bytes);
	REQUIRE(!sigaction(SIGSEGV, &action, NULL));
	REQUIRE(!sigaction(SIGBUS, &action, NULL));
	REQUIRE(!mprotect(trap.page, trap.bytes, PROT_NONE));
}

static void be_victim(const struct job *j, struct scene *s, int want)
{
	pthread_t thread;
	int err;

	set_trap(j, s);
	if (s->ending == ABORTS)
		REQUIRE(!pthread_create(&thread, NULL, abort_it, NULL));
	err = call(j, s->kind, s->bytes);
	CHECK(!err || err == want); /* it may have come to its page in its last step */
	__atomic_store_n(&trap.left, 1, __ATOMIC_RELEASE);
	if (s->ending == ABORTS) {
		pthread_join(thread, NULL);
		CHECK_EQ(load(&s->stopped), 1);
	}
	trap.page = NULL;
	CHECK(s->ending != DIES); /* the call never came to the page */
}

/* A rank that takes a broadcast from the root's window does not wait for others that take it. */
static int may_succeed(const struct job *j, const struct scene *s)
{
	return j->window && s->kind == BROADCAST && j->env->rank;
}

static void be_other(const struct job *j, struct scene *s, int want)
{
	static const char *const names[KINDS] = { "oriel_broadcast", "oriel_broadcast",
						  "oriel_allreduce", "oriel_reducescatter" };
	int err = call(j, s->kind, s->bytes);

	if (err || !may_succeed(j, s)) {
		CHECK_EQ(err, want);
		/* a root may stop before this rank has begun: the text is not of the call then */
		if (s->kind != BROADCAST_FROM_IT)
			CHECK_HAS(oriel_last_error(), names[s->kind]);
		if (s->ending == DIES)
			CHECK_HAS(oriel_last_error(), "rank 1");
	}
	__atomic_add_fetch(&s->over, 1, __ATOMIC_RELEASE);
}

/* The team has failed, and later calls tell it at once. */
static void check_after(const struct job *j, const struct scene *s, int want)
{
	struct oriel_comm *c = j->env->comm;

	CHECK_EQ(call(j, s->kind, s->bytes), want);
	CHECK_EQ(call(j, REDUCE, 64), want);
	if (s->ending != COMES_LATE)
		return;
	CHECK_EQ(oriel_comm_status(c), 0); /* only the team is lost */
	CHECK_EQ(oriel_comm_barrier(c, ORIEL_WORLD), 0);
}

static void stuck_rank(struct rank_env *env)
{
	static const int statuses[ENDINGS] = { ORIEL_EPEER, ORIEL_ETIMEDOUT, ORIEL_EABORTED };
	struct scene *s = env->arg;
	int want = statuses[s->ending];
	struct job j;

	REQUIRE(!open_job(&j, env, s));
	CHECK_EQ(call(&j, s->kind, s->bytes), 0);
	CHECK_EQ(ori_team_last_way(env->comm), s->way);
	if (s->ending == COMES_LATE)
		ori_team_of_calls(env->comm)->dev.win.comm.timeout_ns = LATE_NS;
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == VICTIM)
		be_victim(&j, s, want);
	else
		be_other(&j, s, want);
	check_after(&j, s, want);
	close_job(&j);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct row {
	const char *name;
	int nranks;
	const char *topology;
	int in_window;
	uint64_t bytes;
	int way;        /* of a reduction, ORI_CARDS_*; 0: not with cards */
	uint32_t kinds; /* bit k: those in which the others wait for a rank that stops */
};

#define ALL ((1u << KINDS) - 1)

/*
 * The ways of long data: a belt, rounds of a team, straight between windows.  Ranks that do not map
 * each other make rounds.
 */
static const struct row rows[] = {
	{ "a belt", 3, NULL, 0, 180000, ORI_CARDS_PIECES, 1u << BROADCAST_FROM_IT | 1u << REDUCE },
	{ "rounds", 3, NULL, 0, 3000000, ORI_CARDS_ROUNDS, ALL },
	/* a root whose data the others copy does nothing itself */
	{ "windows", 3, NULL, 1, 1500000, ORI_CARDS_DIRECT, ALL & ~(1u << BROADCAST_FROM_IT) },
	{ "mixed", 4, "2x2", 0, 3000000, 0, ALL },
	{ "queued", 3, "3x1", 0, 3000000, 0, ALL },
};

static void run(int ending)
{
	struct ranks_options o = { .processes = 1, .deadline_s = 60, .timeout_s = 30 };
	struct scene *s = (struct scene *)ranks_shared(sizeof(*s));

#if defined(__SANITIZE_THREAD__)
	check_skip("ThreadSanitizer does not see what orders processes");
	return;
#endif
	o.expect_killed = ending == DIES ? 1u << VICTIM : 0;
	for (size_t i = 0; i < ORI_COUNT(rows); i++)
		for (int kind = 0; kind < KINDS && !check_failures; kind++) {
			if (!(rows[i].kinds >> kind & 1))
				continue;
			memset(s, 0, sizeof(*s));
			s->ending = ending;
			s->kind = kind;
			s->bytes = rows[i].bytes;
			s->in_window = rows[i].in_window;
			s->way = kind >= REDUCE ? rows[i].way : 0;
			o.nranks = rows[i].nranks;
			o.topology = rows[i].topology;
			ranks_run(&o, stuck_rank, s);
			if (check_failures)
				printf("... row \"%s\", kind %d\n", rows[i].name, kind);
		}
}

TEST(a_rank_dies_in_a_call)
{
	run(DIES);
}

TEST(a_rank_is_late_in_a_call)
{
	run(COMES_LATE);
}

TEST(a_rank_aborts_in_a_call)
{
	run(ABORTS);
}
