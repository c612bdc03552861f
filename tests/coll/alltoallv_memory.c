/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/alltoallv_memory.c - all-to-all-v into memory of the caller: every byte arrives there,
 * no byte beside it changes, and the memory is the caller's again afterwards.
 *
 * Rows: ranks as threads and as processes, all mapped, all queued and mixed, more ranks than the
 * kernel's argument names; on CUDA (the fake driver) as processes.
 */
#include <sched.h>

#include "alltoallv_bed.h"

#define SLOT 5000u
#define ROOM 65536u

static const struct bed_row rows[] = {
	{ 4, 0, NULL },  { 3, 1, NULL },  { 4, 0, "2x2" }, { 4, 1, "2x2" },
	{ 3, 0, "3x1" }, { 10, 0, NULL }, { 1, 0, NULL },
};

static void run_rows(rank_fn *fn, int min_ranks)
{
	bed_rows(rows, ORI_COUNT(rows), fn, NULL, min_ranks);
}

static uint64_t sizes_any(uint64_t seed, uint64_t call, int from, int to)
{
	uint64_t random = bed_random(seed, call, from, to);

	return random % 4 ? random % 3000 : random % 40;
}

static uint64_t sizes_few(uint64_t seed, uint64_t call, int from, int to)
{
	return bed_random(seed, call, from, to) % 200;
}

/* ---- the caller's memory --------------------------------------------------------------------- */

/* Memory of the caller; what is received begins at another place on every rank. */
struct memory {
	struct rank_env *env;
	uint8_t *all;
	uint64_t begin, bytes;
};

static int memory_open(struct memory *m, struct rank_env *env, struct oriel_alltoallv_options *o)
{
	struct ori_a2a_layout layout;
	int err;

	ori_alltoallv_layout(o, env->nranks, &layout);
	*m = (struct memory){ env, NULL, BED_GUARD + 16u * (uint64_t)env->rank, layout.recv_bytes };
	err = oriel_alloc(env->comm, m->begin + m->bytes + BED_GUARD, (void **)&m->all);
	if (err)
		return err;
	o->recv_memory = m->all + m->begin;
	o->recv_memory_bytes = m->bytes;
	return 0;
}

/* Fills the memory before and behind what is received; `fill` 0: looks at it. */
static void memory_guards(const struct memory *m, int fill)
{
	uint64_t ends[2] = { 0, m->begin + m->bytes }, sizes[2] = { m->begin, BED_GUARD };
	uint8_t guard[BED_GUARD + 16u * 64u];

	for (int i = 0; i < 2; i++) {
		memset(guard, 0x3c, sizeof(guard));
		if (fill) {
			CHECK_EQ(oriel_copy(m->env->comm, m->all + ends[i], guard, sizes[i]), 0);
			continue;
		}
		memset(guard, 0, sizeof(guard));
		CHECK_EQ(oriel_copy(m->env->comm, guard, m->all + ends[i], sizes[i]), 0);
		for (uint64_t byte = 0; byte < sizes[i]; byte++)
			CHECK_EQ(guard[byte], 0x3c);
	}
}

/* ---- data ------------------------------------------------------------------------------------ */

static void calls_rank(struct rank_env *env)
{
	const struct ori_a2a_plan plans[] = {
		bed_plan(1, 1, 65536, 0, 1),    /* no message is small */
		bed_plan(3, 2, 512, 2048, 1),   /* some are */
		bed_plan(2, 3, 256, 65536, 2),  /* all are */
		bed_plan(1, 1, 65536, 2048, 64) /* a block for each peer */
	};

	for (int packed = 0; packed < 2; packed++) {
		struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
		struct memory m;
		struct bed b;

		o.slot_bytes = packed ? 0 : SLOT;
		o.recv_bytes = packed ? 32768 : 0;
		o.send_bytes = ROOM;
		REQUIRE_OK(memory_open(&m, env, &o));
		memory_guards(&m, 1);
		REQUIRE_OK(bed_open(&b, env, &o, sizes_any, 23));
		CHECK(oriel_alltoallv_recv_buffer(b.request) == o.recv_memory);
		if (!packed)
			CHECK(oriel_alltoallv_slot(b.request, 0) == o.recv_memory);
		for (int i = 0; i < (bed_on_cuda() ? 4 : 16); i++) {
			REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plans[i % 4]));
			bed_call(&b, i / 4 % BED_WAYS);
			memory_guards(&m, 0);
		}
		bed_close(&b);
		REQUIRE_OK(oriel_copy(env->comm, o.recv_memory, "again mine", 10));
		REQUIRE_OK(oriel_free(env->comm, m.all));
	}
}

TEST(data_arrives_in_memory_of_the_caller)
{
	run_rows(calls_rank, 1);
}

/* Two requests, one after the other in the same memory, and one beside them in its own. */
static void twice_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options own = ORIEL_ALLTOALLV_OPTIONS_INIT, o;
	struct memory m;
	struct bed a, b;

	own.slot_bytes = SLOT;
	own.send_bytes = ROOM;
	o = own;
	REQUIRE_OK(memory_open(&m, env, &o));
	REQUIRE_OK(bed_open(&a, env, &own, sizes_any, 5));
	for (int turn = 0; turn < 2; turn++) {
		REQUIRE_OK(bed_open(&b, env, &o, sizes_any, 6));
		for (int i = 0; i < 3; i++) {
			bed_call(&a, i);
			bed_call(&b, i);
		}
		bed_close(&b);
	}
	bed_close(&a);
	REQUIRE_OK(oriel_free(env->comm, m.all));
}

TEST(a_second_request_in_the_same_memory)
{
	run_rows(twice_rank, 2);
}

/* ---- beside a window of the caller ----------------------------------------------------------- */

/*
 * The memory lies in a window, in its first half on even ranks, in its second on the others.  An
 * all-gather into the start of the window must find the caller's window on all of them.
 */
static void window_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_window_options wo = ORIEL_WINDOW_OPTIONS_INIT;
	uint64_t n = (uint64_t)env->nranks, half = 16384 * n, mine, all[64];
	struct oriel_window *window;
	uint8_t *buffer;
	struct bed b;

	o.slot_bytes = SLOT;
	o.send_bytes = ROOM;
	wo.bytes = 2 * half;
	REQUIRE_OK(oriel_window_create(env->comm, &wo, &window));
	buffer = oriel_window_buffer(window);
	o.recv_memory = buffer + half * ((uint64_t)env->rank % 2);
	o.recv_memory_bytes = half;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_any, 9));
	for (uint64_t i = 0; i < 3; i++) {
		bed_call(&b, (int)i);
		mine = 100 * i + (uint64_t)env->rank;
		REQUIRE_OK(oriel_copy(env->comm, b.own, &mine, sizeof(mine)));
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD)); /* all have read */
		REQUIRE_OK(oriel_allgather(env->comm, b.own, buffer, 1, sizeof(mine), NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		REQUIRE_OK(oriel_copy(env->comm, all, buffer, n * sizeof(mine)));
		for (uint64_t r = 0; r < n; r++)
			CHECK_EQ(all[r], 100 * i + r);
	}
	bed_close(&b);
	REQUIRE_OK(oriel_window_destroy(window));
}

TEST(memory_in_a_window_of_the_caller)
{
	run_rows(window_rank, 2);
}

/* ---- a comm that fails ----------------------------------------------------------------------- */

/* The memory is the caller's again, whatever happened to the comm. */
static void aborted_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct memory m;
	struct bed b;

	o.slot_bytes = SLOT;
	o.send_bytes = ROOM;
	REQUIRE_OK(memory_open(&m, env, &o));
	REQUIRE_OK(bed_open(&b, env, &o, sizes_any, 4));
	bed_call(&b, 0);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	if (env->rank == 0)
		REQUIRE_OK(oriel_comm_abort(env->comm, ORIEL_EABORTED));
	while (!oriel_comm_status(env->comm))
		sched_yield();
	CHECK_EQ(oriel_alltoallv_destroy(b.request), 0);
	CHECK_EQ(oriel_free(env->comm, b.words), 0);
	CHECK_EQ(oriel_free(env->comm, b.own), 0);
	CHECK_EQ(oriel_free(env->comm, m.all), 0);
	free(b.host);
	free(b.sent);
	free(b.landed);
}

TEST(a_comm_that_was_aborted)
{
	run_rows(aborted_rank, 2);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse(struct rank_env *env, const struct oriel_alltoallv_options *o, int status,
		   const char *why)
{
	struct oriel_alltoallv_request *a = NULL;

	CHECK_EQ(oriel_alltoallv_create(env->comm, o, &a), status);
	CHECK_HAS(oriel_last_error(), why);
	CHECK(a == NULL);
}

/* All ranks get the status, whichever of them made the mistake. */
static void refused_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options good = ORIEL_ALLTOALLV_OPTIONS_INIT, o;
	int last = env->rank == env->nranks - 1;
	struct memory m;
	struct bed b;

	good.slot_bytes = 1000; /* 1008 in memory, a multiple of 16 */
	REQUIRE_OK(memory_open(&m, env, &good));
	o = good;
	o.recv_memory_bytes -= last;
	refuse(env, &o, ORIEL_ERANGE, "bytes are needed to receive");
	o = good;
	o.recv_memory = (uint8_t *)o.recv_memory + 8 * last;
	refuse(env, &o, ORIEL_EINVAL, "is not a multiple of 16");
	o = good;
	o.recv_memory = last ? NULL : o.recv_memory;
	refuse(env, &o, ORIEL_EINVAL, "there is no recv_memory");
	if (env->nranks > 1) {
		o.recv_memory_bytes = last ? 0 : o.recv_memory_bytes;
		refuse(env, &o, ORIEL_EMISMATCH, "differ in option recv_memory");
	}
	REQUIRE_OK(bed_open(&b, env, &good, sizes_few, 3)); /* nothing of it has left a trace */
	bed_call(&b, 0);
	bed_close(&b);
	/* a program that was compiled before there was recv_memory */
	good.size = offsetof(struct oriel_alltoallv_options, recv_memory);
	REQUIRE_OK(bed_open(&b, env, &good, sizes_few, 3));
	CHECK(oriel_alltoallv_recv_buffer(b.request) != good.recv_memory);
	bed_call(&b, 0);
	bed_close(&b);
	REQUIRE_OK(oriel_free(env->comm, m.all));
}

TEST(memory_that_is_refused)
{
	run_rows(refused_rank, 1);
}

/* Memory that ranks in other processes cannot map. */
static void unmapped_rank(struct rank_env *env)
{
	static _Alignas(16) uint8_t memory[4096];
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;

	o.slot_bytes = 16;
	o.recv_memory = memory;
	o.recv_memory_bytes = sizeof(memory);
	refuse(env, &o, ORIEL_EEXPORT, "cannot be mapped by rank");
}

TEST(memory_that_other_processes_cannot_map)
{
	struct ranks_options o = { .nranks = 2, .processes = 1, .deadline_s = 60, .timeout_s = 30 };

	if (bed_runs(1) && !bed_on_cuda())
		ranks_run(&o, unmapped_rank, NULL);
}
