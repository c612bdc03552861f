/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/alltoallv_errors.c - errors of all-to-all-v: options, arguments, sizes beyond the
 * capacity, ranks that do not call.
 *
 * A refused call returns the same status on all ranks, and the next call of the request works.  A
 * rank that does not call ends the call of the others.
 */
#include <sched.h>
#include <signal.h>

#include "alltoallv_bed.h"

static const struct bed_row rows[] = {
	{ 3, 0, NULL }, { 2, 1, NULL }, { 4, 1, "2x2" }, { 2, 0, "2x1" }
};

static void run_rows(rank_fn *fn)
{
	bed_rows(rows, ORI_COUNT(rows), fn, NULL, 1);
}

static uint64_t sizes_some(uint64_t seed, uint64_t call, int from, int to)
{
	return bed_random(seed, call, from, to) % 1000;
}

/* ---- options and arguments ------------------------------------------------------------------- */

/* Settings that no plan can have, on one rank alone. */
static void refuse_settings(struct rank_env *env, struct oriel_alltoallv_options *o)
{
	static const struct oriel_alltoallv_setting bad[] = {
		{ 0, 1, 16 }, { 65, 1, 16 },        { 1, 0, 16 }, { 1, 33, 16 },      { 1, 1, 0 },
		{ 1, 1, 24 }, { 1, 1, 2ull << 30 }, { 0, 0, 16 }, { 1, 1, 1008 + 1 },
	};
	const struct oriel_alltoallv_setting none = { 0, 0, 0 };
	struct oriel_alltoallv_request *a = NULL;

	for (size_t i = 0; i < ORI_COUNT(bad); i++) {
		o->mapped = env->rank == env->nranks - 1 && i % 2 ? bad[i] : none;
		o->queued = env->rank == env->nranks - 1 && i % 2 == 0 ? bad[i] : none;
		CHECK_EQ(oriel_alltoallv_create(env->comm, o, &a), ORIEL_ERANGE);
		CHECK_HAS(oriel_last_error(), i % 2 ? "mapped has" : "queued has");
	}
	o->mapped = o->queued = none;
}

static void options_rank(struct rank_env *env)
{
	const struct oriel_alltoallv_options good = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_options o = good;
	struct oriel_alltoallv_request *a = NULL;

	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "slot_bytes");
	o.slot_bytes = 64;
	o.recv_bytes = 64;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	o.recv_bytes = 0;
	o.elem_bytes = 0;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	o.elem_bytes = 1;
	o.size = 3;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	o.size = sizeof(o);
	o.synchronised = 5;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "synchronised is 5, must be 0 or 1");
	o.synchronised = 1;
	o.reserved = 1;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "reserved is 1, must be 0");
	o.reserved = 0;
	refuse_settings(env, &o);
	o.slot_bytes = 1ull << 60;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_ERANGE);
	CHECK_EQ(oriel_alltoallv_create(env->comm, NULL, &a), ORIEL_EINVAL);
	/* one rank's mistake is everybody's */
	o.slot_bytes = env->rank == 1 ? 0 : 64;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "slot_bytes");
	o.slot_bytes = env->rank == 1 ? 128 : 64;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "rank 1 and rank 0 differ in option slot_bytes");
	o.slot_bytes = 64;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, NULL), ORIEL_EINVAL);
	CHECK(a == NULL);
}

TEST(options_that_cannot_be)
{
	run_rows(options_rank);
}

static void arguments_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	struct oriel_alltoallv_request *stale;
	struct bed b;

	o.slot_bytes = 1000;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_some, 1));
	stale = b.request;
	CHECK_EQ(oriel_alltoallv_exec(b.request, NULL, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_alltoallv_exec(b.request, &args, NULL), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "send_sizes");
	args.size = 8;
	CHECK_EQ(oriel_alltoallv_exec(b.request, &args, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_alltoallv_exec(NULL, &args, NULL), ORIEL_EINVAL);
	CHECK(oriel_alltoallv_slot(b.request, env->nranks) == NULL);
	CHECK(oriel_alltoallv_slot(b.request, 0) == oriel_alltoallv_recv_buffer(b.request));
	bed_call(&b, 0); /* nothing of it has left a trace */
	if (env->nranks > 1)
		CHECK_EQ(oriel_comm_destroy(env->comm), ORIEL_EBUSY);
	bed_close(&b);
	CHECK_EQ(oriel_alltoallv_status(stale), ORIEL_ESTALE);
	CHECK(oriel_alltoallv_send_buffer(stale) == NULL);
	CHECK(oriel_alltoallv_recv_buffer(stale) == NULL);
	CHECK_EQ(oriel_alltoallv_destroy(stale), ORIEL_ESTALE);
	CHECK_EQ(oriel_alltoallv_destroy(NULL), 0);
}

TEST(arguments_that_cannot_be)
{
	run_rows(arguments_rank);
}

/* ---- refused calls --------------------------------------------------------------------------- */

/*
 * One call in which `change` has spoilt this rank's sizes (words: sizes, then offsets); all ranks
 * get the status.
 */
static void refused_call(struct bed *b, int way, int spoils, uint64_t index, uint64_t value)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	int err;

	REQUIRE_OK(bed_prepare(b, way, &args));
	if (spoils)
		REQUIRE_OK(oriel_copy(b->env->comm, b->words + index, &value, sizeof(value)));
	err = oriel_alltoallv_exec(b->request, &args, NULL);
	if (!err && bed_on_cuda())
		err = oriel_comm_sync(b->env->comm, NULL);
	if (!err && bed_on_cuda())
		err = oriel_alltoallv_status(b->request);
	CHECK_EQ(err, ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "oriel_alltoallv_exec");
	CHECK_EQ(oriel_alltoallv_status(b->request), 0); /* told once */
	b->call++;
}

static void refused_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	uint64_t n = (uint64_t)env->nranks;
	struct bed b;

	o.slot_bytes = 1000;
	o.send_bytes = 65536;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_some, 9));
	for (int i = 0; i < 2 * env->nranks; i++) {
		struct ori_a2a_plan plan = bed_plan(1 + (uint32_t)i % 3, 2, 256, 64,
						    i % 4 < 2 ? 1 : 64);
		int culprit = env->rank == i % env->nranks;

		plan.spread = (uint32_t)i % 2;
		REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plan));
		bed_call(&b, i % BED_WAYS);
		refused_call(&b, BED_BUFFER, culprit, 0, 1001);        /* over the slot */
		refused_call(&b, BED_OWN, culprit, n - 1, UINT64_MAX); /* far over it */
		refused_call(&b, BED_OFFSETS, culprit, n, 65536);      /* past the end */
		refused_call(&b, BED_INSIDE, culprit, 2 * n - 1, UINT64_MAX - 3); /* far past it */
		bed_call(&b, (i + 1) % BED_WAYS);
	}
	bed_close(&b);
}

TEST(sizes_beyond_the_capacity_are_refused_on_all_ranks)
{
	run_rows(refused_rank);
}

static uint64_t sizes_fill(uint64_t seed, uint64_t call, int from, int to)
{
	(void)seed;
	/* everybody sends rank `call` 400 bytes in every other call, which is too much for it */
	return call % 2 && (uint64_t)to == call / 2 % 2 ? 400 : 100 + (uint64_t)from;
}

static void full_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct bed b;

	o.recv_bytes = 400 * (uint64_t)env->nranks - 1;
	o.send_bytes = 65536;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_fill, 9));
	for (int i = 0; i < 6; i++) {
		/* small messages and others, of one block and of several */
		struct ori_a2a_plan plan = bed_plan(1 + (uint32_t)i % 3, 2, 64, i % 2 ? 200 : 0, 1);

		plan.spread = i >= 3;
		REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plan));
		bed_call(&b, i % BED_WAYS);
		refused_call(&b, i % BED_WAYS, 0, 0, 0);
	}
	bed_close(&b);
}

TEST(more_than_a_packed_buffer_holds_is_refused_on_all_ranks)
{
	run_rows(full_rank);
}

/* ---- ranks that do not come ------------------------------------------------------------------ */

struct gate {
	uint32_t ended; /* ranks whose call has ended */
	uint32_t come;  /* ranks that make it */
	int waits;      /* the rank that dies waits for them; set before there are ranks */
};

static int call_status(struct bed *b)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	int err = bed_prepare(b, BED_BUFFER, &args);

	if (!err)
		err = oriel_alltoallv_exec(b->request, &args, NULL);
	if (!err && bed_on_cuda())
		err = oriel_comm_sync(b->env->comm, NULL);
	if (!err && bed_on_cuda())
		err = oriel_alltoallv_status(b->request);
	return err;
}

/* The last rank waits until all others have given up, so it cannot come in time by chance. */
static void absent_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct gate *gate = env->arg;
	uint32_t before = __atomic_load_n(&gate->ended, __ATOMIC_ACQUIRE);
	struct bed b;

	o.slot_bytes = 1000;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_some, 2));
	bed_call(&b, BED_BUFFER);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	/* these waits alone are short: the last rank does not come however long they are */
	b.request->args.comm.timeout_ns = 300000000;
	if (env->rank == env->nranks - 1) {
		while (__atomic_load_n(&gate->ended, __ATOMIC_ACQUIRE) - before <
		       (uint32_t)env->nranks - 1)
			sched_yield();
		CHECK_EQ(call_status(&b), ORIEL_ETIMEDOUT); /* it was told */
	} else {
		CHECK_EQ(call_status(&b), ORIEL_ETIMEDOUT);
		__atomic_fetch_add(&gate->ended, 1, __ATOMIC_ACQ_REL);
	}
	/* On CUDA the host may have given up a moment before the kernel does. */
	while (bed_on_cuda() && !oriel_alltoallv_status(b.request))
		sched_yield();
	CHECK_EQ(oriel_alltoallv_status(b.request), ORIEL_ETIMEDOUT);
	bed_close(&b);
}

TEST(a_rank_that_does_not_come_fails_the_request)
{
	struct ranks_options o = { .nranks = 3, .deadline_s = 120, .timeout_s = 60 };

	o.processes = bed_on_cuda();
	ranks_run(&o, absent_rank, ranks_shared(sizeof(struct gate)));
}

/* Rank 1 dies when the others come to the call, or have been in it for a while. */
static void dying_rank(struct rank_env *env)
{
	struct gate *gate = env->arg;
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct bed b;

	o.slot_bytes = 100000;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_some, 2));
	bed_call(&b, BED_BUFFER);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	if (env->rank == 1) {
		while (gate->waits &&
		       __atomic_load_n(&gate->come, __ATOMIC_ACQUIRE) < (uint32_t)env->nranks - 1)
			sched_yield();
		if (gate->waits)
			usleep(50000); /* they fill their memory before they wait */
		raise(SIGKILL);
		return;
	}
	__atomic_fetch_add(&gate->come, 1, __ATOMIC_ACQ_REL);
	CHECK_EQ(call_status(&b), ORIEL_EPEER);
	CHECK_HAS(oriel_last_error(), "rank 1");
	CHECK_EQ(call_status(&b), ORIEL_EPEER); /* at once */
	(void)oriel_alltoallv_destroy(b.request);
	free(b.host);
	free(b.sent);
	free(b.landed);
}

TEST(a_dead_rank_ends_the_call)
{
	static const char *const topologies[] = { NULL, "2x2", "4x1" };
	struct ranks_options o = { .nranks = 4, .deadline_s = 60, .timeout_s = 30 };

#if defined(__SANITIZE_THREAD__)
	check_skip("ThreadSanitizer does not see what orders processes");
	return;
#endif
	o.processes = 1;
	o.expect_killed = 1u << 1;
	for (size_t i = 0; i < 2 * ORI_COUNT(topologies) && !check_failures; i++) {
		struct gate *gate = ranks_shared(sizeof(*gate));

		gate->waits = i % 2;
		o.topology = topologies[i / 2];
		ranks_run(&o, dying_rank, gate);
	}
}

static void aborting_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct bed b;
	int err;

	o.slot_bytes = 1000;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_some, 2));
	bed_call(&b, BED_BUFFER);
	(void)oriel_comm_barrier(env->comm,
				 ORIEL_WORLD); /* the abort may come while one is still in it */
	if (env->rank == 0) {
		CHECK_EQ(oriel_comm_abort(env->comm, ORIEL_EABORTED), 0);
	} else {
		err = call_status(&b);
		CHECK_EQ(err, ORIEL_EABORTED);
	}
	(void)oriel_alltoallv_destroy(b.request);
	free(b.host);
	free(b.sent);
	free(b.landed);
}

TEST(an_abort_ends_the_call)
{
	run_rows(aborting_rank);
}

/* A failed comm takes requests along that nobody has destroyed. */
static void left_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct bed b;

	o.slot_bytes = 1000;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_some, 2));
	bed_call(&b, BED_BUFFER);
	(void)oriel_comm_barrier(env->comm, ORIEL_WORLD);
	CHECK_EQ(oriel_comm_abort(env->comm, ORIEL_EABORTED), 0);
	free(b.host);
	free(b.sent);
	free(b.landed);
}

TEST(a_failed_comm_takes_requests_along)
{
	run_rows(left_rank);
}
