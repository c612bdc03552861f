/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/allgather_requests.c - requests of the all-gather: on windows and buffers, several at
 * once, the plain call, in what order things may end, and what is refused.
 */
#include <sched.h>
#include <signal.h>

#include "allgather_bed.h"
#include "coll/allgather/gather.h"

/*
 * The number of ranks that have reached this point of the test, in shared memory.  A rank that
 * fails on purpose waits for it.
 */
static int *come;

static void run(const char *topology, int nranks, int processes, rank_fn *fn)
{
	struct ranks_options o = { .nranks = nranks,
				   .processes = processes,
				   .topology = topology,
				   .timeout_s = 60,
				   .deadline_s = 120 };

	if (!come)
		come = ranks_shared(sizeof(*come));
	REQUIRE(come);
	__atomic_store_n(come, 0, __ATOMIC_SEQ_CST);
	ranks_run(&o, fn, NULL);
}

/*
 * Not by the comm: the others are past it, and in nothing of the library's that could fail with it.
 */
static void come_last(const struct rank_env *env)
{
	__atomic_add_fetch(come, 1, __ATOMIC_SEQ_CST);
	while (env->rank == env->nranks - 1 &&
	       __atomic_load_n(come, __ATOMIC_SEQ_CST) < env->nranks)
		sched_yield();
}

/* On one node of threads, on mixed peers as processes, on queued threads. */
static void run_all(rank_fn *fn)
{
	run(NULL, 3, 0, fn);
	run("2x2", 4, 1, fn);
	run("3x1", 3, 0, fn);
}

/* ---- on a buffer ----------------------------------------------------------------------------- */

#define MAX_COUNT 3000u

/* `skew` bytes into the memory: nothing need be aligned. */
static void buffer_skewed(struct rank_env *env, uint64_t skew)
{
	struct oriel_allgather_request *req;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, MAX_COUNT + 64, 0));
	b.recv += skew;
	REQUIRE_OK(oriel_buffer_register(env->comm, b.recv, MAX_COUNT * (uint64_t)env->nranks + 64,
					 &b.buffer));
	REQUIRE_OK(oriel_allgather_create_buffer(env->comm, b.buffer, MAX_COUNT, 1, NULL, &req));
	for (uint64_t count = 1; count <= MAX_COUNT; count += 599) {
		if (bed_exec(&b, req, count, 1, 0, "buffer"))
			break;
		if (bed_exec(&b, req, count / 4, 4, 1, "buffer of words"))
			break;
	}
	/* released by its user it stays for the request */
	REQUIRE_OK(oriel_buffer_release(b.buffer));
	b.buffer = NULL;
	bed_exec(&b, req, MAX_COUNT, 1, 0, "released buffer");
	CHECK_EQ(oriel_allgather_exec(req, b.send, MAX_COUNT + 1, 1, NULL), ORIEL_ERANGE);
	REQUIRE_OK(oriel_allgather_destroy(req));
	/* and is gone now, or its memory could not be freed */
	b.recv -= skew;
	REQUIRE_OK(bed_close(&b));
}

static void buffer_rank(struct rank_env *env)
{
	buffer_skewed(env, 0);
	buffer_skewed(env, 3);
	/* each rank another: only the memory's length must be alike */
	buffer_skewed(env, (uint64_t)env->rank * 5);
}

TEST(on_a_buffer)
{
	run_all(buffer_rank);
}

/* ---- several --------------------------------------------------------------------------------- */

/* Two windows, three requests on the first, at different places and at the same one. */
static void several_rank(struct rank_env *env)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *req[4];
	struct bed a, b, half;

	REQUIRE_OK(bed_open(&a, env, 8192, 1));
	REQUIRE_OK(bed_open(&b, env, 512, 1));
	o.bytes = 4096 * (uint64_t)env->nranks;
	REQUIRE_OK(oriel_allgather_create(env->comm, a.window, &o, &req[0]));
	REQUIRE_OK(oriel_allgather_create(env->comm, a.window, &o, &req[1]));
	o.offset = o.bytes;
	REQUIRE_OK(oriel_allgather_create(env->comm, a.window, &o, &req[2]));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req[3]));
	half = a;
	half.recv += o.offset;
	for (int k = 0; k < 5; k++) {
		bed_exec(&a, req[k % 2], 4000, 1, k % 2, "same place");
		bed_exec(&half, req[2], 4001, 1, 1 - k % 2, "second half");
		bed_exec(&b, req[3], 500, 1, 0, "second window");
	}
	CHECK_EQ(oriel_window_destroy(a.window), ORIEL_EBUSY);
	CHECK_HAS(oriel_last_error(), "use window");
	/* one of those on the same memory goes, the others work on */
	REQUIRE_OK(oriel_allgather_destroy(req[0]));
	bed_exec(&a, req[1], 4096, 1, 0, "its neighbour is gone");
	bed_exec(&half, req[2], 4096, 1, 0, "its neighbour is gone");
	REQUIRE_OK(oriel_allgather_destroy(req[2]));
	REQUIRE_OK(oriel_allgather_destroy(req[1]));
	REQUIRE_OK(bed_close(&a));
	bed_exec(&b, req[3], 512, 1, 1, "the other window is gone");
	REQUIRE_OK(oriel_allgather_destroy(req[3]));
	REQUIRE_OK(bed_close(&b));
}

TEST(several_requests_and_windows)
{
	run_all(several_rank);
}

/* Destroyed in another order on every rank, and made again: words are used again, not made anew. */
static void orders_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req[3];
	struct ori_gather_state *s;
	struct bed b;
	int words = 0;

	REQUIRE_OK(bed_open(&b, env, 1000, 1));
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < 3; i++)
			REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req[i]));
		for (int i = 0; i < 3; i++)
			bed_exec(&b, req[i], 1000, 1, i % 2, "orders");
		for (int i = 0; i < 3; i++)
			REQUIRE_OK(oriel_allgather_destroy(req[(i + env->rank) % 3]));
	}
	REQUIRE_OK(ori_gather_state_get(env->comm, &s));
	for (struct ori_gather_words *w = s->words; w; w = w->next)
		words++;
	/* a rank may be making one while another has not yet destroyed it */
	CHECK(words <= 6);
	REQUIRE_OK(bed_close(&b));
}

TEST(destroyed_in_any_order)
{
	run_all(orders_rank);
}

/*
 * The comm is destroyed first.  The request is then an empty shell, which its user may still
 * destroy.
 */
static void comm_first_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	struct oriel_comm *comm;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 1000, 0));
	REQUIRE_OK(
		oriel_buffer_register(env->comm, b.recv, 1000 * (uint64_t)env->nranks, &b.buffer));
	REQUIRE_OK(oriel_allgather_create_buffer(env->comm, b.buffer, 1000, 1, NULL, &req));
	bed_exec(&b, req, 1000, 1, 0, "before the comm goes");
	REQUIRE_OK(oriel_buffer_release(b.buffer));
	comm = env->comm;
	env->comm = NULL;
	REQUIRE_OK(oriel_comm_destroy(comm));
	CHECK_EQ(oriel_allgather_exec(req, NULL, 1, 1, NULL), ORIEL_ESTALE);
	CHECK_EQ(oriel_allgather_status(req), ORIEL_ESTALE);
	CHECK_EQ(oriel_allgather_destroy(req), 0);
	CHECK_EQ(oriel_allgather_destroy(req), ORIEL_ESTALE);
	free(b.image);
}

TEST(the_comm_goes_first)
{
	run_all(comm_first_rank);
}

/* ---- the plain call -------------------------------------------------------------------------- */

static int kept(struct oriel_comm *comm)
{
	struct ori_gather_state *s;
	int n = 0;

	if (ori_gather_state_get(comm, &s))
		return -1;
	for (struct oriel_allgather_request *r = s->requests; r; r = r->next)
		n += r->cached && !r->staging;
	return n;
}

static void plain_window_rank(struct rank_env *env)
{
	struct bed b, at;

	REQUIRE_OK(bed_open(&b, env, 5000, 1));
	for (int k = 0; k < 4; k++)
		bed_exec(&b, NULL, 4000, 1, k % 2, "plain");
	CHECK_EQ(kept(env->comm), 1);
	bed_exec(&b, NULL, 1000, 4, 0, "plain, other elements");
	CHECK_EQ(kept(env->comm), 1);
	bed_exec(&b, NULL, 3999, 1, 0, "plain, other length");
	CHECK_EQ(kept(env->comm), 2);
	at = b;
	at.recv += 100;
	bed_exec(&at, NULL, 4000, 1, 0, "plain, other place");
	CHECK_EQ(kept(env->comm), 3);
	bed_exec(&at, NULL, 0, 1, 0, "plain, nothing");
	CHECK_EQ(kept(env->comm), 3);
	/* they keep nobody from destroying the window, and go with it */
	REQUIRE_OK(bed_close(&b));
	CHECK_EQ(kept(env->comm), 0);
}

TEST(plain_on_a_window)
{
	run_all(plain_window_rank);
}

static void plain_buffer_rank(struct rank_env *env)
{
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 2000, 0));
	REQUIRE_OK(oriel_buffer_register(env->comm, b.recv,
					 2000 * (uint64_t)env->nranks + BED_GUARD, &b.buffer));
	REQUIRE_OK(oriel_buffer_exchange(env->comm, b.buffer));
	for (int k = 0; k < 4; k++)
		bed_exec(&b, NULL, 2000, 1, k % 2, "plain on a buffer");
	CHECK_EQ(kept(env->comm), 1);
	REQUIRE_OK(bed_close(&b));
	CHECK_EQ(kept(env->comm), 0);
}

TEST(plain_on_a_buffer)
{
	run_all(plain_buffer_rank);
}

/* More places than are kept: the oldest go, and come again. */
static void plain_many_rank(struct rank_env *env)
{
	struct bed b, at;

	REQUIRE_OK(bed_open(&b, env, 200, 1));
	at = b;
	for (int k = 0; k < 150; k++) {
		at.recv = b.recv + k % 75;
		at.round = (uint64_t)k;
		if (bed_exec(&at, NULL, 16, 1, 0, "plain in many places"))
			break;
	}
	CHECK_EQ(kept(env->comm), 64);
	REQUIRE_OK(bed_close(&b));
}

TEST(plain_in_many_places)
{
	run(NULL, 2, 0, plain_many_rank);
	run("2x1", 2, 0, plain_many_rank);
}

/*
 * No window: through the library's, which grows, and in slices when a block is larger than it may
 * be.
 */
static void plain_staged_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 1, 4097, 100, 70001, 0, 70001, 4300001 };
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 4300001, 0));
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		if (bed_exec(&b, NULL, counts[i], 1, (int)i % 2, "plain without a window"))
			break;
	CHECK_EQ(kept(env->comm), 0);
	REQUIRE_OK(bed_close(&b));
}

TEST(plain_without_a_window)
{
	run(NULL, 3, 0, plain_staged_rank);
	run("2x2", 4, 1, plain_staged_rank);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused_exec(struct bed *b)
{
	struct rank_env *env = b->env;
	struct oriel_allgather_request *req, *none = NULL;
	uint64_t n = (uint64_t)env->nranks;

	REQUIRE_OK(oriel_allgather_create(env->comm, b->window, NULL, &req));
	CHECK_EQ(oriel_allgather_exec(none, b->send, 1, 1, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_allgather_exec((struct oriel_allgather_request *)(void *)b->window, b->send,
				      1, 1, NULL),
		 ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "takes a persistent all-gather, got a window");
	CHECK_EQ(oriel_allgather_exec(req, b->send, 1, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_allgather_exec(req, b->send, (b->room + BED_GUARD) / n + 1, 1, NULL),
		 ORIEL_ERANGE);
	CHECK_EQ(oriel_allgather_exec(req, b->send, UINT64_MAX / 2, 4, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_allgather_exec(req, b->send, UINT64_MAX / 2, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_allgather_exec(req, b->recv + n * 64 - 1, 64, 1, NULL), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "not where block");
	/* nothing is lost by any of it */
	bed_exec(b, req, 64, 1, 0, "after refusals");
	CHECK_EQ(oriel_allgather_destroy(NULL), 0);
	REQUIRE_OK(oriel_allgather_destroy(req));
	CHECK_EQ(oriel_allgather_exec(req, b->send, 1, 1, NULL), ORIEL_ESTALE);
}

static void refused_rank(struct rank_env *env)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *req = NULL;
	int last = env->rank == env->nranks - 1;
	struct oriel_buffer *buffer;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 1000, 1));
	/* one rank's mistake is all ranks' status */
	CHECK_EQ(oriel_allgather_create(env->comm, last ? NULL : b.window, NULL, &req),
		 ORIEL_EINVAL);
	o.size = last ? 1 : sizeof(o);
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_EINVAL);
	o.size = sizeof(o);
	o.algorithm = last ? 17 : 0;
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_EINVAL);
	o.algorithm = last ? ORIEL_GATHER_RING : ORIEL_GATHER_AUTO;
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "the algorithm");
	o.algorithm = 0;
	o.policy = last ? ORIEL_GATHER_NO_SMS + 1 : 0;
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "policy 4");
	/* no option is by_size, so only the last rank differs */
	o.policy = last ? ORIEL_GATHER_NO_SMS : env->rank % 2 ? ORIEL_GATHER_BY_SIZE : 0;
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "the policy");
	o.policy = 0;
	o.reserved = last;
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_EINVAL);
	o.reserved = 0;
	if (last)
		snprintf(env->comm->config.gather_policy, sizeof(env->comm->config.gather_policy),
			 "slow");
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "ORIEL_GATHER_POLICY=slow");
	snprintf(env->comm->config.gather_policy, sizeof(env->comm->config.gather_policy),
		 "by_size");
	o.offset = last ? b.room * 2 : 0;
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_ERANGE);
	o.offset = last ? 8 : 0; /* to the end is then another length */
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, &o, &req), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_allgather_create_buffer(env->comm, NULL, 1, 1, NULL, &req), ORIEL_EINVAL);
	CHECK_EQ(oriel_allgather_create_buffer(env->comm, (struct oriel_buffer *)(void *)b.window,
					       1, 1, NULL, &req),
		 ORIEL_EINVAL);
	REQUIRE_OK(oriel_buffer_register(env->comm, b.send, 1000, &buffer));
	CHECK_EQ(oriel_allgather_create_buffer(env->comm, buffer, 1001, 1, NULL, &req),
		 ORIEL_ERANGE);
	REQUIRE_OK(oriel_buffer_release(buffer));
	CHECK(!req);
	refused_exec(&b);
	REQUIRE_OK(bed_close(&b));
}

TEST(what_is_refused)
{
	run_all(refused_rank);
}

/* A buffer that requests use is not exchanged again: their view of it would be another. */
static void exchange_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 500, 0));
	REQUIRE_OK(
		oriel_buffer_register(env->comm, b.recv, 500 * (uint64_t)env->nranks, &b.buffer));
	REQUIRE_OK(oriel_allgather_create_buffer(env->comm, b.buffer, 500, 1, NULL, &req));
	CHECK_EQ(oriel_buffer_exchange(env->comm, b.buffer), ORIEL_EBUSY);
	bed_exec(&b, req, 500, 1, 0, "after the refusal");
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(oriel_buffer_exchange(env->comm, b.buffer));
	REQUIRE_OK(bed_close(&b));
}

TEST(a_buffer_in_use_is_not_exchanged)
{
	run_all(exchange_rank);
}

/* ---- ranks that fail ------------------------------------------------------------------------- */

/*
 * One rank does not call.  The deadline ends the call of the others, and the request is unusable on
 * all ranks.
 */
static void missing_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	struct bed b;
	int status;

	REQUIRE_OK(bed_open(&b, env, 4096, 1));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	bed_exec(&b, req, 4096, 1, 0, "before");
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	if (env->rank) {
		/* these waits alone are short: rank 0 does not come however long they are */
		req->words->window->dev.comm.timeout_ns = 300000000;
		status = oriel_allgather_exec(req, b.send, 4096, 1, NULL);
		CHECK_EQ(status, ORIEL_ETIMEDOUT);
		CHECK_EQ(oriel_allgather_status(req), ORIEL_ETIMEDOUT);
	}
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	CHECK_EQ(oriel_allgather_exec(req, b.send, 4096, 1, NULL), ORIEL_ETIMEDOUT);
	REQUIRE_OK(oriel_allgather_destroy(req));
	/* a new one has words of its own */
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	bed_exec(&b, req, 4096, 1, 0, "a new request");
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(bed_close(&b));
}

TEST(a_rank_does_not_come)
{
	run(NULL, 3, 0, missing_rank);
	run("2x2", 4, 1, missing_rank);
}

static void abort_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 4096, 1));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	bed_exec(&b, req, 4096, 1, 0, "before");
	come_last(env);
	if (env->rank == env->nranks - 1)
		REQUIRE_OK(oriel_comm_abort(env->comm, ORIEL_EABORTED));
	else
		CHECK_EQ(oriel_allgather_exec(req, b.send, 4096, 1, NULL), ORIEL_EABORTED);
	/* refused at once from now on, everywhere */
	CHECK_EQ(oriel_allgather_exec(req, b.send, 4096, 1, NULL), ORIEL_EABORTED);
	CHECK_EQ(oriel_allgather_create(env->comm, b.window, NULL, &req), ORIEL_EABORTED);
	CHECK_EQ(oriel_allgather_destroy(req), 0);
	free(b.image); /* the rest goes with the comm */
}

TEST(a_rank_aborts)
{
	run_all(abort_rank);
}

/* A rank is killed in the middle of an exec, by itself, between two others' blocks. */
static void killed_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	struct bed b;
	int err = 0;

	REQUIRE_OK(bed_open(&b, env, 65536, 1));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	bed_exec(&b, req, 65536, 1, 0, "before");
	come_last(env);
	if (env->rank == env->nranks - 1)
		raise(SIGKILL);
	for (int k = 0; k < 3 && !err; k++)
		err = oriel_allgather_exec(req, b.send, 65536, 1, NULL);
	CHECK_EQ(err, ORIEL_EPEER);
	CHECK_EQ(oriel_allgather_exec(req, b.send, 65536, 1, NULL), ORIEL_EPEER);
	CHECK_EQ(oriel_allgather_destroy(req), 0);
	free(b.image);
}

TEST(a_rank_dies)
{
	static const char *const layouts[] = { NULL, "2x2" };

	for (int i = 0; i < 2; i++) {
		struct ranks_options o = { .nranks = 4,
					   .processes = 1,
					   .topology = layouts[i],
					   .timeout_s = 60,
					   .deadline_s = 120,
					   .expect_killed = 1u << 3 };

		if (!come)
			come = ranks_shared(sizeof(*come));
		REQUIRE(come);
		__atomic_store_n(come, 0, __ATOMIC_SEQ_CST);
		ranks_run(&o, killed_rank, NULL);
	}
}
