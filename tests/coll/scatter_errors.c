/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/scatter_errors.c - long reduce-scatters between windows when ranks differ, are late,
 * abort or die: every rank gets a status with a clear line, and nothing hangs.
 */
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "coll/team/team.h"
#include "scatter_bed.h"

static int says(const char *part)
{
	if (strstr(oriel_last_error(), part))
		return 1;
	printf("the text is: %s\n", oriel_last_error());
	return 0;
}

/* ---- errors ---------------------------------------------------------------------------------- */

#define LONG 60000u

static int call(const struct memory *m, uint64_t count, int type)
{
	uint8_t *send = sender(m, IN_FIRST);

	return oriel_reducescatter(m->env->comm, send, send, count, type, ORIEL_REDUCE_SUM, NULL);
}

/* Call number `which`; the last rank makes another one than the others, or a wrong one. */
static int make_bad_call(const struct memory *m, int which)
{
	int odd = m->env->rank == m->env->nranks - 1;
	uint8_t *send = sender(m, IN_FIRST);

	switch (which) {
	case 0:
		return call(m, odd ? LONG + 1 : LONG, ORIEL_TYPE_INT32);
	case 1: /* the others expect it to be long */
		return call(m, odd ? 5 : LONG, ORIEL_TYPE_INT32);
	case 2:
		return call(m, LONG, odd ? ORIEL_TYPE_FLOAT : ORIEL_TYPE_INT32);
	case 3:
		return odd ? oriel_allreduce(m->env->comm, send, send, LONG, ORIEL_TYPE_INT32,
					     ORIEL_REDUCE_SUM, NULL) :
			     call(m, LONG, ORIEL_TYPE_INT32);
	default:
		return oriel_reducescatter(m->env->comm, send, odd ? send + 4 : send, LONG,
					   ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, NULL);
	}
}

static void bad_rank(struct rank_env *env)
{
	static const char *const texts[] = { "counts: 60000 and 60001", "counts: 60000 and 5",
					     "types: 5 and 11",
					     "calls: reduce-scatter and all-reduce", NULL };
	struct kind k = { ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, LONG };
	struct memory m;
	uint8_t *send;

	open_memory(&m, env);
	send = sender(&m, IN_FIRST);
	for (int i = 0; i < (int)ORI_COUNT(texts) && !check_failures; i++) {
		uint64_t written = 0;

		memset(send, 7, WINDOW_BYTES);
		CHECK_EQ(make_bad_call(&m, i), texts[i] ? ORIEL_EMISMATCH : ORIEL_EINVAL);
		CHECK(!texts[i] || says(texts[i]));
		for (size_t at = 0; at < WINDOW_BYTES; at++)
			written += send[at] != 7;
		CHECK_EQ(written, 0);
		scatter(&m, &k, send, ON_START);
	}
	close_memory(&m);
}

TEST(a_call_that_is_refused_writes_nothing)
{
	bed_rows(few, ORI_COUNT(few), bad_rank, NULL);
}

/* Rank 2 never makes the second call.  The others pass their deadline and name it. */
#define LATE_NS (2 * ORI_NS_PER_S) /* of the calls alone */

static void late_rank(struct rank_env *env)
{
	uint32_t *over = env->arg;
	struct memory m;

	open_memory(&m, env);
	CHECK_EQ(call(&m, LONG, ORIEL_TYPE_FLOAT), 0);
	ori_team_of_calls(env->comm)->dev.win.comm.timeout_ns = LATE_NS;
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == 2) {
		while (__atomic_load_n(over, __ATOMIC_ACQUIRE) < 2)
			usleep(1000);
	} else {
		CHECK_EQ(call(&m, LONG, ORIEL_TYPE_FLOAT), ORIEL_ETIMEDOUT);
		CHECK(says("rank 2") && says("oriel_reducescatter"));
		__atomic_add_fetch(over, 1, __ATOMIC_RELEASE);
	}
	close_memory(&m);
}

TEST(a_late_rank_is_named)
{
	struct ranks_options o = { .nranks = 3, .deadline_s = 60, .timeout_s = 30 };

	for (o.processes = 0; o.processes < 2 && !check_failures; o.processes++) {
#if defined(__SANITIZE_THREAD__)
		if (o.processes) {
			printf("left out: processes, ThreadSanitizer sees one only\n");
			return;
		}
#endif
		ranks_run(&o, late_rank, ranks_shared(sizeof(uint32_t)));
	}
}

static void aborting_rank(struct rank_env *env)
{
	struct memory m;

	open_memory(&m, env);
	CHECK_EQ(call(&m, LONG, ORIEL_TYPE_FLOAT), 0);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == 0)
		CHECK_EQ(oriel_comm_abort(env->comm, ORIEL_EINVAL), 0);
	else
		CHECK_EQ(call(&m, LONG, ORIEL_TYPE_FLOAT), ORIEL_EABORTED);
	close_memory(&m);
}

TEST(an_abort_ends_the_call)
{
	bed_rows(few, ORI_COUNT(few), aborting_rank, NULL);
}

static void die(int signal)
{
	(void)signal;
	kill(getpid(), SIGKILL);
}

/* A rank dies somewhere in a row of calls, also while others read its buffer or wait for it. */
static void dying_rank(struct rank_env *env)
{
	int victim = *(int *)env->arg % 3, err = 0;
	struct itimerval when = { .it_value.tv_usec = 3000 + 1700 * *(int *)env->arg };
	struct memory m;

	open_memory(&m, env);
	CHECK_EQ(call(&m, LONG, ORIEL_TYPE_FLOAT), 0);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0); /* no rank is in that call */
	if (env->rank == victim) {
		signal(SIGALRM, die);
		setitimer(ITIMER_REAL, &when, NULL);
	}
	while (!err)
		err = call(&m, LONG, ORIEL_TYPE_FLOAT);
	CHECK_EQ(err, ORIEL_EPEER);
	CHECK(says(victim == 0 ? "rank 0" : victim == 1 ? "rank 1" : "rank 2"));
	close_memory(&m);
}

TEST(a_rank_that_dies_in_a_call_ends_it)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .deadline_s = 60, .timeout_s = 20 };

#if defined(__SANITIZE_THREAD__)
	check_skip("ThreadSanitizer does not see what orders processes");
	return;
#endif
	for (int i = 0; i < 9 && !check_failures; i++) {
		o.expect_killed = 1u << i % 3;
		ranks_run(&o, dying_rank, &i);
	}
}
