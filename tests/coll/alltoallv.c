/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/alltoallv.c - all-to-all-v where it is easy to get wrong: sizes of all kinds, plans
 * that change and differ, a late receiver, counts about to wrap.
 *
 * Rows: ranks as threads and as processes, all mapped, all queued and mixed; on CUDA (the fake
 * driver) as processes.
 */
#include <sched.h>

#include "alltoallv_bed.h"

#define SLOT 5000u
#define FAKE_CALLS                                                                                 \
	6 /* of a request on the fake driver, whose kernels are threads that must be started */

static const struct bed_row rows[] = {
	{ 4, 0, NULL },  { 3, 1, NULL },  { 4, 0, "2x2" },
	{ 4, 1, "2x2" }, { 3, 0, "3x1" }, { 1, 0, NULL },
};

static void run_rows(rank_fn *fn, void *arg, int min_ranks)
{
	bed_rows(rows, ORI_COUNT(rows), fn, arg, min_ranks);
}

static struct oriel_alltoallv_options slots_of(uint64_t bytes)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;

	o.slot_bytes = bytes;
	o.send_bytes = 65536;
	return o;
}

static struct oriel_alltoallv_options packed_of(uint64_t bytes)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;

	o.recv_bytes = bytes;
	o.send_bytes = 65536;
	return o;
}

/* The same calls with fixed slots and packed, all ways of giving data in turn. */
static void run_calls(struct rank_env *env, bed_sizes_fn *sizes, int calls,
		      const struct ori_a2a_plan *plans, int nplans)
{
	for (int packed = 0; packed < 2; packed++) {
		struct oriel_alltoallv_options o = packed ? packed_of(32768) : slots_of(SLOT);
		struct bed b;

		REQUIRE_OK(bed_open(&b, env, &o, sizes, 7));
		for (int i = 0; i < (bed_on_cuda() ? FAKE_CALLS : calls); i++) {
			if (nplans)
				REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plans[i % nplans]));
			bed_call(&b, i % BED_WAYS);
		}
		bed_close(&b);
	}
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static uint64_t sizes_zero(uint64_t seed, uint64_t call, int from, int to)
{
	uint64_t x = bed_random(seed, call, from, to);

	return call % 5 == 4 ? 0 : x & 3 ? 0 : x >> 20 & 4095;
}

static void zero_rank(struct rank_env *env)
{
	const struct ori_a2a_plan plans[] = { bed_plan(1, 1, 1024, 0, 1),
					      bed_plan(3, 2, 512, 64, 2) };

	run_calls(env, sizes_zero, 20, plans, 2);
}

TEST(zero_bytes_to_some_peers_in_some_calls)
{
	run_rows(zero_rank, NULL, 1);
}

static uint64_t sizes_tiny(uint64_t seed, uint64_t call, int from, int to)
{
	(void)seed;
	return (call * 3 + (uint64_t)from + 2 * (uint64_t)to) % 12;
}

static void tiny_rank(struct rank_env *env)
{
	const struct ori_a2a_plan plans[] = { bed_plan(8, 8, 16, 0, 3), bed_plan(8, 5, 16, 4, 1) };

	run_calls(env, sizes_tiny, 16, plans, 2);
}

TEST(fewer_bytes_than_blocks)
{
	run_rows(tiny_rank, NULL, 1);
}

static uint64_t sizes_odd(uint64_t seed, uint64_t call, int from, int to)
{
	static const uint64_t odd[] = { 1,   15,  16,   17,   63,   64,   65,
					127, 129, 1023, 1025, 2047, 4095, 4097 };

	(void)seed;
	return odd[(call + 3 * (uint64_t)from + 5 * (uint64_t)to) % ORI_COUNT(odd)];
}

static void odd_rank(struct rank_env *env)
{
	const struct ori_a2a_plan plans[] = { bed_plan(3, 3, 48, 0, 2),
					      bed_plan(7, 1, 4096, 128, 1),
					      bed_plan(1, 4, 1000000, 8192, 1) };

	run_calls(env, sizes_odd, 14, plans, 3);
}

TEST(sizes_that_are_multiples_of_nothing)
{
	run_rows(odd_rank, NULL, 1);
}

static uint64_t sizes_random(uint64_t seed, uint64_t call, int from, int to)
{
	return bed_random(seed, call, from, to) % 4097;
}

static void default_rank(struct rank_env *env)
{
	run_calls(env, sizes_random, 12, NULL, 0);
}

TEST(other_splits_in_every_call_by_the_tuners_plan)
{
	run_rows(default_rank, NULL, 1);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void changing_rank(struct rank_env *env)
{
	const struct ori_a2a_plan plans[] = {
		bed_plan(1, 1, 65536, 0, 1), bed_plan(2, 3, 512, 0, 1), bed_plan(4, 1, 256, 0, 2),
		bed_plan(2, 2, 64, 16, 1),   bed_plan(1, 4, 128, 0, 2), bed_plan(8, 1, 64, 0, 1),
	};

	run_calls(env, sizes_random, 18, plans, (int)ORI_COUNT(plans));
}

TEST(blocks_change_between_calls)
{
	run_rows(changing_rank, NULL, 1);
}

/* Sender and receiver never have the same plan, and each has another one in the next call. */
static void differing_rank(struct rank_env *env)
{
	const struct ori_a2a_plan all[] = {
		bed_plan(1, 1, 65536, 0, 1),
		bed_plan(5, 2, 512, 4096, 1),
		bed_plan(2, 3, 256, 0, 2),
		bed_plan(3, 1, 64, 200, 1),
	};
	struct ori_a2a_plan mine[4];

	for (int i = 0; i < 4; i++)
		mine[i] = all[(i + env->rank) % 4];
	run_calls(env, sizes_random, 16, mine, 4);
}

TEST(ranks_are_tuned_differently)
{
	run_rows(differing_rank, NULL, 2);
}

/* Settings of the request: they are used, explained, and may differ between ranks. */
static void settings_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = slots_of(SLOT);
	char text[512], runs[160];
	struct bed b;

	o.mapped = (struct oriel_alltoallv_setting){ 2 + (uint32_t)env->rank % 3, 2, 512 };
	REQUIRE_OK(bed_open(&b, env, &o, sizes_random, 11));
	for (int i = 0; i < (bed_on_cuda() ? FAKE_CALLS : 12); i++)
		bed_call(&b, i % BED_WAYS);
	if (!bed_on_cuda()) {
		CHECK_EQ(b.request->plan.kind[ORI_PLAN_MAPPED].blocks, o.mapped.blocks);
		CHECK_EQ(b.request->plan.kind[ORI_PLAN_MAPPED].warps, 2);
		CHECK_EQ(b.request->plan.kind[ORI_PLAN_MAPPED].chunk, 512);
		CHECK(b.request->plan.kind[ORI_PLAN_QUEUED].chunk != 512);
	}
	REQUIRE_OK(oriel_alltoallv_explain(b.request, SLOT, text, sizeof(text)));
	CHECK_HAS(text, b.request->plan.uniform ? "(options of the request)" :
						  "(mapped: options of the request; queued: ");
	/* for the size of the last call, that is what has just run */
	(void)snprintf(runs, sizeof(runs), "; runs %d block%s of %d thread%s: %s", b.request->grid,
		       b.request->grid == 1 ? "" : "s", b.request->threads,
		       b.request->threads == 1 ? "" : "s", b.request->kernel->name);
	REQUIRE_OK(oriel_alltoallv_explain(b.request, b.request->plan_bytes, text, sizeof(text)));
	CHECK_HAS(text, runs);
	bed_close(&b);
}

TEST(settings_of_the_request)
{
	run_rows(settings_rank, NULL, 3);
}

/* ---- a late receiver ------------------------------------------------------------------------- */

struct gate {
	uint32_t entered; /* ranks about to make the call, in all calls so far */
};

/*
 * After each call one rank keeps its received data until all others are at their next call, and
 * then checks it again: no rank may have written there.  The pause only makes a mistake more likely
 * to be seen.
 */
static void late_rank(struct rank_env *env)
{
	struct gate *gate = env->arg;
	const struct ori_a2a_plan plan = bed_plan(3, 2, 512, 0, 1);
	struct oriel_alltoallv_options o = slots_of(SLOT);
	uint32_t n = (uint32_t)env->nranks, base;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, &o, sizes_random, 3));
	REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plan));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	base = __atomic_load_n(&gate->entered, __ATOMIC_ACQUIRE);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	for (uint32_t i = 0; i < 3 * n; i++) {
		if (i && i % n == (uint32_t)env->rank) {
			while (__atomic_load_n(&gate->entered, __ATOMIC_ACQUIRE) - base <
			       i * n + n - 1)
				sched_yield();
			for (int pause = 0; pause < 200; pause++)
				sched_yield();
			b.call--;
			bed_look(&b);
			b.call++;
		}
		__atomic_fetch_add(&gate->entered, 1, __ATOMIC_ACQ_REL);
		bed_call(&b, (int)i % BED_WAYS);
	}
	bed_close(&b);
}

TEST(a_late_receiver_keeps_its_data)
{
	run_rows(late_rank, ranks_shared(sizeof(struct gate)), 2);
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void wrap_rank(struct rank_env *env)
{
	static const uint64_t firsts[] = { UINT64_MAX - 5, UINT64_MAX - 12, (1ull << 63) - 7,
					   (1ull << 32) - 3 };

	for (size_t i = 0; i < (bed_on_cuda() ? 2 : 2 * ORI_COUNT(firsts)); i++) {
		struct oriel_alltoallv_options o = i % 2 ? packed_of(32768) : slots_of(SLOT);
		struct bed b;

		o.first_count = firsts[i / 2];
		REQUIRE_OK(bed_open(&b, env, &o, sizes_random, i));
		for (int call = 0; call < (bed_on_cuda() ? 8 : 16); call++) {
			const struct ori_a2a_plan plan = bed_plan(1 + (uint32_t)call % 3, 2, 700,
								  call % 4 == 1 ? 2048 : 0, 1);

			REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plan));
			bed_call(&b, call % BED_WAYS);
		}
		bed_close(&b);
	}
}

TEST(counts_wrap_around)
{
	run_rows(wrap_rank, NULL, 1);
}

/* ---- elements, overlaps, several requests ---------------------------------------------------- */

static uint64_t sizes_elements(uint64_t seed, uint64_t call, int from, int to)
{
	return bed_random(seed, call, from, to) % 90;
}

static void elements_rank(struct rank_env *env)
{
	static const uint64_t elems[] = { 1, 2, 4, 8, 12, 16, 56, 3, 5 };

	for (size_t i = 0; i < ORI_COUNT(elems); i++) {
		struct oriel_alltoallv_options o = i % 2 ? packed_of(32768) : slots_of(SLOT);
		struct bed b;

		o.elem_bytes = elems[i];
		REQUIRE_OK(bed_open(&b, env, &o, sizes_elements, i));
		for (int call = 0; call < 4; call++)
			bed_call(&b, call);
		bed_close(&b);
	}
}

TEST(sizes_and_offsets_count_elements)
{
	run_rows(elements_rank, NULL, 1);
}

/* The same bytes to everybody: offsets may overlap. */
static void same_bytes_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = slots_of(SLOT);
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t n = (uint64_t)env->nranks;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, &o, sizes_random, 1));
	for (int own = 0; own < 2; own++) {
		uint8_t *send = own ? b.own : oriel_alltoallv_send_buffer(b.request);

		memset(b.host, 0, 4 * n * sizeof(uint64_t));
		for (uint64_t r = 0; r < n; r++) {
			b.host[r] = 3001;
			b.host[n + r] = 5;
		}
		bed_fill(b.sent, 3006, (uint64_t)env->rank);
		REQUIRE_OK(oriel_copy(env->comm, send, b.sent, 3006));
		REQUIRE_OK(oriel_copy(env->comm, b.words, b.host, 4 * n * sizeof(uint64_t)));
		args.send = send;
		args.send_sizes = b.words;
		args.send_offsets = b.words + n;
		REQUIRE_OK(oriel_alltoallv_exec(b.request, &args, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		for (int r = 0; r < env->nranks; r++) {
			bed_fill(b.sent, 3006, (uint64_t)r);
			REQUIRE_OK(oriel_copy(env->comm, b.landed,
					      oriel_alltoallv_slot(b.request, r), 3001));
			CHECK(!memcmp(b.landed, b.sent + 5, 3001));
		}
	}
	bed_close(&b);
}

TEST(the_same_bytes_for_all)
{
	run_rows(same_bytes_rank, NULL, 1);
}

static void two_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = slots_of(SLOT), p = packed_of(32768);
	struct bed a, b;

	REQUIRE_OK(bed_open(&a, env, &o, sizes_random, 11));
	REQUIRE_OK(bed_open(&b, env, &p, sizes_odd, 12));
	for (int i = 0; i < 10; i++) {
		bed_call(i % 3 ? &a : &b, i % BED_WAYS);
		bed_call(i % 2 ? &a : &b, i % BED_WAYS);
	}
	bed_close(&a);
	bed_close(&b);
}

TEST(two_requests_of_a_comm)
{
	run_rows(two_rank, NULL, 1);
}

/* The ranks meet between calls themselves. */
static void unsynchronised_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = slots_of(SLOT);
	struct bed b;

	o.synchronised = 0;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_random, 5));
	for (int i = 0; i < 16; i++) {
		struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
		const struct ori_a2a_plan plan = bed_plan(1 + (uint32_t)i % 3, 2, 512, 100, 1);

		REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plan));
		REQUIRE_OK(bed_prepare(&b, i % BED_WAYS, &args));
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		REQUIRE_OK(oriel_alltoallv_exec(b.request, &args, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		/*
		 * all have left the call, so nobody's next data comes before this has been looked
		 * at
		 */
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		bed_look(&b);
		b.call++;
	}
	bed_close(&b);
}

TEST(unsynchronised_with_barriers_of_the_callers)
{
	run_rows(unsynchronised_rank, NULL, 1);
}

static uint64_t sizes_large_then_small(uint64_t seed, uint64_t call, int from, int to)
{
	return call % 2 ? 1 + bed_random(seed, call, from, to) % 8 :
			  2000 + bed_random(seed, call, from, to) % 2000;
}

/*
 * A large message, which its last block announces, is followed by a small one, which block 0
 * announces early.  On separate lanes the second mark could arrive first, and would be taken for
 * the first.
 */
static void one_after_the_other_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	const struct ori_a2a_plan plan = bed_plan(3, 3, 512, 16, 2);
	struct bed b;

	o.slot_bytes = 4096;
	o.synchronised = 0;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_large_then_small, 41));
	REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plan));
	for (int i = 0; i < 60; i++) {
		struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;

		REQUIRE_OK(bed_prepare(&b, BED_BUFFER, &args));
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		REQUIRE_OK(oriel_alltoallv_exec(b.request, &args, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		bed_look(&b);
		b.call++;
		/*
		 * what is small comes into the inbox: the receive buffer is this rank's own by now
		 */
		bed_call(&b, BED_OWN);
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	}
	bed_close(&b);
}

TEST(marks_of_two_calls_keep_their_order)
{
	struct ranks_options o = { .nranks = 2, .topology = "2x1", .deadline_s = 120 };

	o.processes = bed_on_cuda();
	setenv("ORIEL_LANES", "4", 1);
	setenv("ORIEL_SOFT_FAULTS", "seed=11,delay=0.3", 1);
	ranks_run(&o, one_after_the_other_rank, NULL);
	unsetenv("ORIEL_LANES");
	unsetenv("ORIEL_SOFT_FAULTS");
}

/* ---- a comm without queues ------------------------------------------------------------------- */

/* The request makes the queues that it needs. */
static void unconnected_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_comm_options co = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_comm *whole = env->comm;
	struct bed b;

	co.timeout = 60;
	co.topology = env->arg;
	co.connect = ORIEL_CONNECT_NONE;
	REQUIRE_OK(oriel_comm_create(env->boot, &co, &env->comm));
	o.slot_bytes = 8192;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_odd, 7));
	for (int k = 0; k < 3; k++)
		bed_call(&b, k);
	bed_close(&b);
	REQUIRE_OK(oriel_comm_destroy(env->comm));
	env->comm = whole;
}

TEST(a_comm_made_without_queues)
{
	static const char *const topologies[] = { "2x2", "4x1" };
	struct ranks_options o = { .nranks = 4, .deadline_s = 120, .timeout_s = 60 };

	for (size_t i = 0; i < ORI_COUNT(topologies); i++) {
		o.topology = topologies[i];
		ranks_run(&o, unconnected_rank, (void *)(uintptr_t)topologies[i]);
	}
}
