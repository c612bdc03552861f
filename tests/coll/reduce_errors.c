/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/reduce_errors.c - bad and different arguments, late and dead ranks: every rank gets a
 * status with a clear line, nothing hangs, and after a refusal the next call works.
 */
#include <signal.h>
#include <unistd.h>

#include "coll/team/team.h"
#include "reduce_bed.h"

static const struct bed_row rows[] = { { "threads", 3, 0, NULL },
				       { "processes", 3, 1, NULL },
				       { "mixed", 4, 0, "2x2" },
				       { "mixed processes", 4, 1, "2x2" } };

/*
 * Elements of 4 bytes of a broadcast in which all ranks meet.  The root of a short one may go on
 * alone: tests/coll/cards.c.
 */
#define LONG 2000

/* The status of a call on every device: on CUDA it comes with the stream. */
static int status_of(struct rank_env *env, int err)
{
	return err ? err : oriel_comm_sync(env->comm, NULL);
}

static int says(const char *part)
{
	if (strstr(oriel_last_error(), part))
		return 1;
	printf("the text is: %s\n", oriel_last_error());
	return 0;
}

/* ---- a rank with bad arguments --------------------------------------------------------------- */

/* Rank 1 makes call number `which` with a bad argument, all others make it right. */
static int make_bad_call(struct rank_env *env, int which, uint8_t *m)
{
	int bad = env->rank == 1;

	switch (which) {
	case 0:
		return oriel_allreduce(env->comm, m, m, 10, bad ? 99 : ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, NULL);
	case 1:
		return oriel_allreduce(env->comm, m, m, 10, ORIEL_TYPE_FLOAT,
				       bad ? ORIEL_REDUCE_XOR : ORIEL_REDUCE_SUM, NULL);
	case 2:
		return oriel_reducescatter(env->comm, m, m, 10, ORIEL_TYPE_FLOAT,
					   bad ? 0 : ORIEL_REDUCE_SUM, NULL);
	case 3:
		return oriel_allreduce(env->comm, NULL, bad ? NULL : m, 10, ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, NULL);
	case 4:
		return oriel_broadcast(env->comm, m, LONG, bad ? 0 : 4, 0, NULL);
	case 5:
		return oriel_allreduce(env->comm, m, bad ? m + 4 : m, 10, ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, NULL);
	case 6:
		return oriel_reducescatter(env->comm, m, bad ? m + 4 : m, 10, ORIEL_TYPE_FLOAT,
					   ORIEL_REDUCE_SUM, NULL);
	case 7:
		return oriel_broadcast(env->comm, m, LONG, 4, bad ? env->nranks : 0, NULL);
	case 8:
		return oriel_allreduce(env->comm, m, m, bad ? 1ull << 60 : 10, ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, NULL);
	default:
		return oriel_broadcast(env->comm, m, bad ? 1ull << 60 : 10, 1ull << 10, 0, NULL);
	}
}

#define BAD_CALLS 10

static void bad_rank(struct rank_env *env)
{
	struct bed b;

	bed_open(&b, env, 100000);
	for (int i = 0; i < BAD_CALLS && !check_failures; i++) {
		int want = i < 7 ? ORIEL_EINVAL : ORIEL_ERANGE;

		CHECK_EQ(status_of(env, make_bad_call(env, i, b.memory)), want);
		CHECK(env->rank == 1 || says("rank 1 refused the call"));
		/* nothing is lost: the next call works */
		bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 100, 0, 0);
	}
	bed_close(&b);
}

TEST(a_bad_argument_on_one_rank_is_a_status_on_all)
{
	bed_rows(rows, ORI_COUNT(rows), bad_rank, NULL);
}

/*
 * Rank 1 refuses a call, then rank 0 one.  On CUDA a rank learns of the other's refusal in
 * oriel_comm_sync(), once.  Its own has been returned and must not come again, nor hide the other.
 */
static void two_bad_rank(struct rank_env *env)
{
	struct bed b;
	int err;

	bed_open(&b, env, 100000);
	for (int bad = 1; bad >= 0; bad--) {
		err = oriel_broadcast(env->comm, b.memory, LONG, env->rank == bad ? 0 : 4, 0, NULL);
		CHECK_EQ(err, bed_on_cuda() && env->rank != bad ? 0 : ORIEL_EINVAL);
		CHECK(!err || says(env->rank == bad ? "elements of 0 bytes" : "refused the call"));
	}
	if (bed_on_cuda()) {
		CHECK_EQ(oriel_comm_sync(env->comm, NULL), ORIEL_EINVAL);
		CHECK(says(env->rank == 1 ? "broadcast: rank 0 refused the call" :
					    "broadcast: rank 1 refused the call"));
	}
	CHECK_EQ(oriel_comm_sync(env->comm, NULL), 0);
	err = oriel_broadcast(env->comm, b.memory, LONG + (env->rank == 2), 4, 0, NULL);
	CHECK_EQ(status_of(env, err), ORIEL_EMISMATCH);
	CHECK(says("rank 0 and rank 2 differ in their bytes: 8000 and 8004"));
	bed_close(&b);
}

TEST(a_refusal_is_told_once_with_rank_and_reason)
{
	bed_rows(rows, ORI_COUNT(rows), two_bad_rank, NULL);
}

/* ---- ranks that differ ----------------------------------------------------------------------- */

static int make_different_call(struct rank_env *env, int which, uint8_t *m)
{
	int odd = env->rank == env->nranks - 1;

	switch (which) {
	case 0:
		return oriel_allreduce(env->comm, m, m, odd ? 11 : 10, ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, NULL);
	case 1: /* of very different sizes: on CUDA with different numbers of blocks */
		return oriel_allreduce(env->comm, m, m, odd ? 0 : 25000, ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, NULL);
	case 2:
		return oriel_allreduce(env->comm, m, m, 10,
				       odd ? ORIEL_TYPE_INT32 : ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM,
				       NULL);
	case 3:
		return oriel_reducescatter(env->comm, m, m, 10, ORIEL_TYPE_FLOAT,
					   odd ? ORIEL_REDUCE_MIN : ORIEL_REDUCE_MAX, NULL);
	case 4:
		return oriel_broadcast(env->comm, m, LONG, 4, odd ? 1 : 0, NULL);
	default:
		return odd ? oriel_broadcast(env->comm, m, 40, 1, 0, NULL) :
			     oriel_allreduce(env->comm, m, m, 10, ORIEL_TYPE_FLOAT,
					     ORIEL_REDUCE_SUM, NULL);
	}
}

static void different_rank(struct rank_env *env)
{
	static const char *const texts[] = {
		"counts: 10 and 11",  "counts: 25000 and 0", "types: 11 and 5",
		"operators: 4 and 3", "roots: 0 and 1",      "calls: all-reduce and broadcast"
	};
	struct bed b;

	bed_open(&b, env, 100000);
	for (int i = 0; i < (int)ORI_COUNT(texts) && !check_failures; i++) {
		memset(b.host, 7, b.bytes);
		bed_push(&b);
		CHECK_EQ(status_of(env, make_different_call(env, i, b.memory)), ORIEL_EMISMATCH);
		CHECK(says(texts[i]));
		CHECK_EQ(oriel_copy(env->comm, b.host, b.memory, b.bytes), 0);
		for (uint64_t at = 0; at < b.bytes; at++)
			CHECK_EQ(b.host[at], 7); /* no buffer is written */
		bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 5000, 0, 0);
	}
	bed_close(&b);
}

TEST(ranks_that_differ_all_get_a_mismatch)
{
	bed_rows(rows, ORI_COUNT(rows), different_rank, NULL);
}

/* ---- late and dead ranks --------------------------------------------------------------------- */

static int make_call(struct rank_env *env, int which, uint8_t *m)
{
	if (which == 0)
		return oriel_broadcast(env->comm, m, LONG, 4, 0, NULL);
	if (which == 1)
		return oriel_allreduce(env->comm, m, m, 4096, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM,
				       NULL);
	return oriel_reducescatter(env->comm, m, m, 1000, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL);
}

/* In memory that all ranks share. */
struct scene {
	int which;
	uint32_t over; /* ranks whose call has failed */
};

/* All ranks leave the first call before one of them does something else. */
static void make_first_call(struct rank_env *env, int which, uint8_t *m)
{
	CHECK_EQ(status_of(env, make_call(env, which, m)), 0);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
}

/* So long, because the ranks that do come must come within it. */
#define LATE_NS 2000000000u

/* Rank 2 never makes the second call.  The others pass their deadline and name it. */
static void late_rank(struct rank_env *env)
{
	static const char *const names[] = { "oriel_broadcast", "oriel_allreduce",
					     "oriel_reducescatter" };
	struct scene *scene = env->arg;
	int which = scene->which, err;
	struct bed b;

	bed_open(&b, env, 100000);
	make_first_call(env, which, b.memory);
	ori_team_of_calls(env->comm)->dev.win.comm.timeout_ns = LATE_NS;
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == 2) {
		while (__atomic_load_n(&scene->over, __ATOMIC_ACQUIRE) + 1 < (uint32_t)env->nranks)
			usleep(1000);
	} else {
		err = status_of(env, make_call(env, which, b.memory));
		CHECK_EQ(err, ORIEL_ETIMEDOUT);
		CHECK(bed_on_cuda() || (says("rank 2") && says(names[which])));
		/* the failure stays, and comes at once */
		CHECK(make_call(env, which, b.memory) != 0 || bed_on_cuda());
		__atomic_add_fetch(&scene->over, 1, __ATOMIC_RELEASE);
	}
	bed_close(&b);
}

TEST(a_late_rank_is_named)
{
	const struct bed_row few[] = { { "threads", 3, 0, NULL }, { "mixed", 4, 1, "2x2" } };
	struct ranks_options o = { .deadline_s = 60, .timeout_s = 30 };
	struct scene *scene;

	for (int which = 0; which < 3; which++)
		for (size_t i = 0; i < ORI_COUNT(few) && !check_failures; i++) {
			if (bed_on_cuda() && !few[i].processes)
				continue;
			o.nranks = few[i].nranks;
			o.processes = few[i].processes;
			o.topology = few[i].topology;
			scene = ranks_shared(sizeof(*scene));
			scene->which = which;
			ranks_run(&o, late_rank, scene);
		}
}

static void dying_rank(struct rank_env *env)
{
	int which = *(int *)env->arg;
	struct bed b;
	int err;

	bed_open(&b, env, 100000);
	make_first_call(env, which, b.memory);
	if (env->rank == 1)
		raise(SIGKILL);
	err = status_of(env, make_call(env, which, b.memory));
	CHECK_EQ(err, ORIEL_EPEER);
	CHECK(bed_on_cuda() || says("rank 1"));
	bed_close(&b);
}

TEST(a_dead_rank_ends_the_call)
{
	struct ranks_options o = {
		.nranks = 3, .processes = 1, .deadline_s = 60, .timeout_s = 20, .expect_killed = 2
	};

#if defined(__SANITIZE_THREAD__)
	check_skip("ThreadSanitizer does not see what orders processes");
	return;
#endif
	for (int which = 0; which < 3 && !check_failures; which++)
		ranks_run(&o, dying_rank, &which);
}

static void aborting_rank(struct rank_env *env)
{
	struct bed b;

	bed_open(&b, env, 100000);
	make_first_call(env, 1, b.memory);
	if (env->rank == 0)
		CHECK_EQ(oriel_comm_abort(env->comm, ORIEL_EINVAL), 0);
	else
		CHECK_EQ(status_of(env, make_call(env, 1, b.memory)), ORIEL_EABORTED);
	bed_close(&b);
}

TEST(an_abort_ends_the_call)
{
	const struct bed_row few[] = { { "threads", 3, 0, NULL }, { "processes", 3, 1, NULL } };

	bed_rows(few, ORI_COUNT(few), aborting_rank, NULL);
}

/* ---- no comm --------------------------------------------------------------------------------- */

TEST(calls_without_a_comm)
{
	int x = 0;

	CHECK_EQ(oriel_broadcast(NULL, &x, 1, 4, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_allreduce(NULL, &x, &x, 1, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, NULL),
		 ORIEL_EINVAL);
	CHECK_EQ(oriel_reducescatter(NULL, &x, &x, 1, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, NULL),
		 ORIEL_EINVAL);
}
