/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/cuda_faults.c - the nth call of every function of the CUDA driver fails, for two
 * ranks that go through windows and collectives.
 *
 * There must be no crash and no hang, and every call of the library must return a status with a
 * text.  The driver is tests/fake_cuda.  Every case is its own process (pool.h).
 * unit/cuda_driver.c does the same for the device alone, and also checks that nothing is left.
 * Here a comm that failed keeps memory on purpose while kernels may use it.
 */
#include <pthread.h>

#define POOL_WIDTH 6 /* every thread of a kernel is a thread here */

#include "fake_cuda/fake_cuda.h"
#include "pool.h"
#include "scenario.h"

#define TIMEOUT_S 8.0 /* of a rank that cannot be told */
#define TIMEOUT_TEXT "8"
#define SPARE_S 20.0 /* for several calls that wait, and a busy machine */
#define RANKS 2
#define CALLS_MOST 128
#define EACH 5 /* of many calls of one kind: the first ones and the last */
#define ERROR 999

/* Shared with the cases: how often each call is made when all goes well. */
static int *counts;

struct verdict {
	int failed; /* a rank returned an error */
};

static struct verdict *verdicts;

static void *rank_main(void *scenario)
{
	scenario_run(scenario);
	return NULL;
}

static void run_ranks(struct scenario *ranks)
{
	struct oriel_boot *boots[RANKS];
	pthread_t threads[RANKS];

	REQUIRE_OK(oriel_boot_threads(RANKS, boots));
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = (struct scenario){
			.rank = r, .nranks = RANKS, .timeout_s = TIMEOUT_S, .boot = boots[r]
		};
		if (pthread_create(&threads[r], NULL, rank_main, &ranks[r]))
			_exit(95);
	}
	for (int r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
}

static void run_with_failure(const char *call, int nth, struct verdict *v)
{
	struct scenario ranks[RANKS] = { 0 };
	double start = scenario_now();

	fake_cuda_knobs("sms=4,threads=2");
	(void)fake_cuda_kernel(&meet_kernel); /* its name is known from now on */
	if (call)
		fake_cuda_fail(call, nth, ERROR);
	run_ranks(ranks);
	for (int r = 0; r < RANKS; r++)
		v->failed |= ranks[r].status != 0;
	if (scenario_now() - start > 2 * TIMEOUT_S + SPARE_S)
		check_fail(__FILE__, __LINE__, "%s, number %d: took %.1f s", call, nth,
			   scenario_now() - start);
	if (!check_failures)
		return;
	for (int r = 0; r < RANKS; r++)
		fprintf(stderr, "%s, number %d: rank %d: %s in %s: %s\n", call ? call : "no call",
			nth, r, oriel_status_name(ranks[r].status),
			ranks[r].call ? ranks[r].call : "-", ranks[r].error);
}

/* ---- all cases ------------------------------------------------------------------------------- */

/* The number of the call that fails in case i. */
static int nth_of(int i)
{
	int count = counts[i / EACH], slot = i % EACH;

	return slot == EACH - 1 && count > EACH ? count : slot + 1;
}

static int is_wanted(int i)
{
	return nth_of(i) <= counts[i / EACH];
}

static void run_case(int i)
{
	run_with_failure(fake_cuda_call_name(i / EACH), nth_of(i), &verdicts[i]);
}

static void run_good(int i)
{
	(void)i;
	run_with_failure(NULL, 0, &verdicts[0]);
	CHECK(!verdicts[0].failed);
	for (int n = 0; fake_cuda_call_name(n); n++)
		counts[n] = fake_cuda_count(fake_cuda_call_name(n));
}

static int always(int i)
{
	(void)i;
	return 1;
}

TEST(every_call_of_the_driver)
{
	struct pool good = { .count = 1, .wanted = always, .run = run_good, .what = "run" };
	struct pool all = { .wanted = is_wanted, .run = run_case, .what = "case" };
	int calls = 0, failed = 0, cases = 0;

	while (fake_cuda_call_name(calls))
		calls++;
	REQUIRE(calls <= CALLS_MOST);
	all.count = calls * EACH;
	counts = pool_shared(CALLS_MOST * sizeof(*counts));
	verdicts = pool_shared((size_t)all.count * sizeof(*verdicts));
	setenv("ORIEL_DEVICE", "cuda", 1);
	setenv("ORIEL_TIMEOUT", TIMEOUT_TEXT, 1);
	pool_run(&good);
	REQUIRE(!check_failures);
	pool_run(&all);
	for (int i = 0; i < all.count; i++) {
		cases += is_wanted(i);
		failed += is_wanted(i) && verdicts[i].failed;
	}
	printf("%d calls of the driver failed, one by one; %d of them failed a call of Oriel\n",
	       cases, failed);
	CHECK(failed > 50); /* a driver whose failures nobody sees would test nothing */
}
