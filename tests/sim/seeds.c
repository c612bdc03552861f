/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/seeds.c - the scheduler, and the test that runs many seeds through it.
 *
 * ORIEL_SIM_SEEDS is the number of seeds (default 2,000), ORIEL_SIM_FIRST the first one.
 * ORIEL_SIM_SEED=n runs one seed and prints its plan.  At the end the test prints which operations
 * met which faults.  With 2,000 seeds or more, it fails if a pair of operation and fault never met.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "sim.h"
#include "util/util.h"

#define STEPS_MAX 2000000u /* of a run: one that takes longer hangs */
#define SETTLE_MAX 200000u
/* Rounds without work after which only time can help: delayed packets wait for 256 steps. */
#define IDLE_LONG 40u
#define IDLE_DELAYED 400u
#define FAILURES_MAX 3
#define ENOUGH_SEEDS 2000u

/* X(name, active in this configuration) */
#define FAULT_LIST(X)                                                                              \
	X("none", !(c->drop > 0 || c->dup > 0 || c->reorder > 0 || c->delay > 0))                  \
	X("drop", c->drop > 0 && s->dropped)                                                       \
	X("dup", c->dup > 0 && s->duplicated)                                                      \
	X("reorder", c->reorder > 0 && s->reordered)                                               \
	X("delay", c->delay > 0 && s->delayed)                                                     \
	X("dbr_late", c->dbr_late > 0)                                                             \
	X("torn", c->torn_cqe > 0)                                                                 \
	X("ooo", c->ooo)                                                                           \
	X("overtake", c->overtake)                                                                 \
	X("no_atom", c->no_atomics)                                                                \
	X("hca", c->hca_atomics)                                                                   \
	X("dbr_rec", c->dbr_mode == SOFT_DBR_RECORD)                                               \
	X("dbr_rnd", c->dbr_mode == SOFT_DBR_RANDOM)                                               \
	X("qp_err", p->fatal == SIM_FATAL_QP && struck)                                            \
	X("revoke", p->fatal == SIM_FATAL_REVOKE && struck)                                        \
	X("stall", p->fatal == SIM_FATAL_STALL && struck)

#define FAULT_NAME(name, active) name,
static const char *const fault_names[] = { FAULT_LIST(FAULT_NAME) };
#undef FAULT_NAME
#define FAULTS ORI_COUNT(fault_names)

static uint64_t covered[SIM_KINDS][FAULTS];
static struct soft_stats total;
static uint64_t total_steps, total_struck;

/* ---- one run --------------------------------------------------------------------------------- */

/*
 * If no NIC finds work, the clock advances in larger steps, so that timers expire.  The steps grow
 * further once everything that was held back for some steps must have been released.
 */
static void leap(struct sim_world *w)
{
	uint64_t nics = (uint64_t)w->plan->ranks * (uint64_t)w->plan->nics,
		 round = w->idle / (6 * nics);
	uint64_t most = w->plan->config[0][0].delay > 0 ? IDLE_DELAYED : IDLE_LONG;
	uint64_t doublings = round > most ? (round - most) / 4 : 0;

	if (w->idle % (6 * nics) == 0)
		w->now_ns += w->plan->config[0][0].retry_timeout_ns / 2
			     << (doublings < 10 ? doublings : 10);
}

static void step_nic(struct sim_world *w, int rank, int nic)
{
	int budget = 1 + (int)sim_below(&w->random, w->plan->budget);

	w->now_ns += 1 + sim_below(&w->random, w->plan->step_ns);
	w->idle++;
	if (soft_nic_step(w->rank[rank].nic[nic], budget))
		w->idle = 0;
	else
		leap(w);
	sim_check_rank(w, rank);
}

static void step_some_nic(struct sim_world *w)
{
	int rank = (int)sim_below(&w->random, (uint64_t)w->plan->ranks);
	int nic = (int)sim_below(&w->random, (uint64_t)w->plan->nics);

	if (rank != w->plan->lazy_rank || sim_below(&w->random, 4) == 0)
		step_nic(w, rank, nic);
}

/* Runs the programs to their end. */
static void schedule(struct sim_world *w, struct sim_fiber_arg *arg, int *live, int count)
{
	while (count && !w->violated) {
		if (++w->steps > STEPS_MAX) {
			sim_violate(w, "hang: %d programs have not ended after %u steps", count,
				    STEPS_MAX);
		} else if (sim_below(&w->random, 100) < w->plan->cpu_percent) {
			int i = (int)sim_below(&w->random, (uint64_t)count),
			    rank = arg[live[i]].rank;

			if (!sim_fiber_resume(live[i]))
				live[i] = live[--count];
			sim_check_rank(w, rank);
		} else {
			step_some_nic(w);
		}
	}
}

static int busy(struct sim_world *w)
{
	for (int rank = 0; rank < w->plan->ranks; rank++)
		for (int nic = 0; nic < w->plan->nics; nic++)
			if (soft_nic_busy(w->rank[rank].nic[nic]))
				return 1;
	return 0;
}

/* The NICs finish their work.  After a fault, answers may be due to ranks that do not take them. */
static void settle(struct sim_world *w)
{
	uint32_t i = 0;

	while (!w->violated && (!sim_check_settled(w) || (busy(w) && !sim_struck(w)))) {
		for (int rank = 0; rank < w->plan->ranks; rank++)
			for (int nic = 0; nic < w->plan->nics; nic++)
				step_nic(w, rank, nic);
		if (++i > SETTLE_MAX)
			sim_violate(w, "WQEs without completion, or NICs that never rest");
	}
	/* and late copies of packets must change nothing */
	for (i = 0; i < 300 && !w->violated; i++)
		for (int rank = 0; rank < w->plan->ranks; rank++)
			for (int nic = 0; nic < w->plan->nics; nic++)
				(void)soft_nic_step(w->rank[rank].nic[nic], 64);
	for (int rank = 0; rank < w->plan->ranks; rank++)
		sim_check_rank(w, rank);
}

static void cover(struct sim_world *w)
{
	const struct sim_plan *p = w->plan;
	const struct soft_config *c = &p->config[p->fatal_rank][p->fatal_nic];
	struct soft_stats sum = { 0 }, one, *s = &sum;
	int struck = sim_struck(w);

	for (int at = 0; at < p->ranks * p->nics; at++) {
		const uint64_t *from = (const uint64_t *)(const void *)&one;
		uint64_t *to = (uint64_t *)(void *)&sum, *all = (uint64_t *)(void *)&total;

		soft_nic_stats(w->rank[at / p->nics].nic[at % p->nics], &one);
		for (size_t i = 0; i < sizeof(sum) / sizeof(*to); i++) {
			to[i] += from[i];
			all[i] += from[i];
		}
	}
#define FAULT_ACTIVE(name, active) active,
	{
		int active[] = { FAULT_LIST(FAULT_ACTIVE) };

		for (int at = 0; at < p->ranks * p->threads; at++) {
			const struct sim_thread *t = &p->thread[at / p->threads][at % p->threads];

			for (int i = 0; i < t->ops; i++)
				for (size_t f = 0; f < FAULTS; f++)
					covered[t->op[i].kind][f] +=
						active[f] && t->op[i].progress != SIM_PLANNED;
		}
	}
#undef FAULT_ACTIVE
	total_steps += w->steps;
	total_struck += (uint64_t)struck;
}

/* 1: all held. */
static int run_seed(uint64_t seed, int verbose)
{
	static struct sim_plan plan;
	static struct sim_world world;
	struct sim_fiber_arg arg[SIM_RANKS * SIM_THREADS];
	int live[SIM_RANKS * SIM_THREADS], count = 0, err;

	sim_plan_make(&plan, seed);
	err = sim_world_open(&world, &plan);
	if (!err)
		err = sim_fibers_setup();
	if (err)
		sim_violate(&world, "cannot build the world: %d", err);
	sim_clock_use(&world);
	for (int at = 0; at < plan.ranks * plan.threads && !err; at++) {
		struct sim_fiber_arg a = { &world, at / plan.threads, at % plan.threads };

		arg[at] = a;
		live[count++] = at;
		sim_fiber_start(at, sim_program_run, &arg[at]);
	}
	if (!err) {
		schedule(&world, arg, live, count);
		settle(&world);
		sim_check_end(&world);
		sim_fibers_abandon();
		cover(&world);
	}
	if (verbose || world.violated)
		sim_plan_print(&plan);
	if (verbose || world.violated)
		printf("seed %llu: %llu steps, %llu us, fault %s: %s\n", (unsigned long long)seed,
		       (unsigned long long)world.steps, (unsigned long long)world.now_ns / 1000,
		       !err && sim_struck(&world) ? "struck" : "none",
		       world.violated ? world.violation : "all held");
	sim_world_close(&world);
	return !world.violated;
}

/* ---- many ------------------------------------------------------------------------------------ */

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* Returns pairs that never met. */
static int print_coverage(void)
{
	int missing = 0;

	printf("operations begun under each fault:\n%-16s", "");
	for (size_t f = 0; f < FAULTS; f++)
		printf(" %8s", fault_names[f]);
	printf("\n");
	for (int k = 0; k < SIM_KINDS; k++) {
		printf("%-16s", sim_kind_text((enum sim_kind)k));
		for (size_t f = 0; f < FAULTS; f++) {
			printf(" %8llu", (unsigned long long)covered[k][f]);
			missing += !covered[k][f];
		}
		printf("\n");
	}
	return missing;
}

static void print_totals(uint64_t seeds)
{
	printf("%llu seeds, %llu ended by a fault, %llu steps: wqes %llu, cqes %llu, packets %llu, "
	       "retransmits %llu, naks %llu, replays %llu, stalls %llu, dropped %llu, doubled %llu\n",
	       (unsigned long long)seeds, (unsigned long long)total_struck,
	       (unsigned long long)total_steps, (unsigned long long)total.wqes,
	       (unsigned long long)total.cqes, (unsigned long long)total.packets_sent,
	       (unsigned long long)total.retransmits, (unsigned long long)total.naks,
	       (unsigned long long)total.replays, (unsigned long long)total.stalls,
	       (unsigned long long)total.dropped, (unsigned long long)total.duplicated);
}

/* Seeds that once found a mistake, and that the default range of `make test` does not contain. */
TEST(seeds_that_found_something)
{
	static const uint64_t found[] = {
		3399, 10203, /* a counted word of lane n, counted by the companion of lane 0 */
	};

	if (number("ORIEL_SIM_SEED", 0))
		return;
	ori_log_level_set(ORI_LOG_ERROR);
	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
		CHECK(run_seed(found[i], 0));
	sim_fibers_free();
}

TEST(seeds)
{
	uint64_t first = number("ORIEL_SIM_FIRST", 1),
		 seeds = number("ORIEL_SIM_SEEDS", ENOUGH_SEEDS);
	uint64_t only = number("ORIEL_SIM_SEED", 0);
	int failures = 0, missing;

	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	/* what the NICs say about faults that were asked for would fill pages */
	ori_log_level_set(only ? ORI_LOG_INFO : ORI_LOG_ERROR);
	if (only) {
		CHECK(run_seed(only, 1));
		sim_fibers_free();
		return;
	}
	for (uint64_t seed = first; seed < first + seeds && failures < FAILURES_MAX; seed++)
		failures += !run_seed(seed, 0);
	sim_fibers_free();
	CHECK_EQ(failures, 0);
	print_totals(seeds);
	missing = print_coverage();
	if (seeds < ENOUGH_SEEDS)
		return;
	CHECK_EQ(missing, 0);
	CHECK(total.retransmits > 0);
	CHECK(total.naks > 0);
	CHECK(total.replays > 0);
}
