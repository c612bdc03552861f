/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/subset.c - comms of listed ranks (oriel_comm_subset), and of those that live
 * (oriel_comm_shrink), made without the others.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "contract.h"

#define SHORT_S 2 /* deadline of calls that must pass it, and of those around them */
#define LONG_S 60
#define AT_ONCE_S 20 /* far below LONG_S; the machine may be busy */

/* Uses the comm of `n` ranks want[]: who they are, a window, signals. */
static void check_sub(struct contract_env *e, struct oriel_comm *sub, const int *want, int n)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;
	int all[8] = { 0 };

	CHECK_EQ(oriel_comm_size(sub), n);
	REQUIRE_OK(oriel_comm_allgather(sub, ORIEL_WORLD, &e->rank, all, sizeof(int)));
	for (int r = 0; r < n; r++)
		CHECK_EQ(all[r], want[r]);
	CHECK_EQ(all[oriel_comm_rank(sub)], e->rank);
	for (int r = 0; r < n; r++)
		CHECK_EQ(oriel_comm_peer_kind(sub, r), oriel_comm_peer_kind(e->comm, want[r]));
	o.bytes = 4096;
	REQUIRE_OK(oriel_window_create(sub, &o, &w));
	for (int r = 0; r < n; r++)
		REQUIRE_OK(oriel_window_signal(w, r, 1, ORIEL_ADD, (uint64_t)e->rank + 1, NULL));
	for (int r = 0; r < n; r++)
		REQUIRE_OK(
			oriel_window_wait_signal(w, r, 1, ORIEL_EQ, (uint64_t)want[r] + 1, NULL));
	REQUIRE_OK(oriel_window_destroy(w));
}

static int has(const int *list, int n, int rank)
{
	for (int i = 0; i < n; i++)
		if (list[i] == rank)
			return 1;
	return 0;
}

/* Only the listed ranks do anything. */
static void use_subset(struct contract_env *e, const int *list, int n, int tag)
{
	struct oriel_comm *sub = NULL;

	if (!has(list, n, e->rank))
		return;
	REQUIRE_OK(oriel_comm_subset(e->comm, list, n, tag, &sub));
	check_sub(e, sub, list, n);
	REQUIRE_OK(oriel_comm_destroy(sub));
}

/* All ranks from `first` on, in steps of `step`; returns how many. */
static int every(struct contract_env *e, int first, int step, int *list)
{
	int n = 0;

	for (int r = first; r < e->nranks; r += step)
		list[n++] = r;
	return n;
}

CASE(subset_of_listed_ranks, c.shape = CONTRACT_HOST)
{
	int list[8] = { 0 }, n = every(e, 0, 1, list);

	use_subset(e, list, n, 0);
	for (int i = 0; i < n; i++) /* another order */
		list[i] = n - 1 - i;
	use_subset(e, list, n, 0);
	for (int r = 0; r < e->nranks; r++) /* each rank alone; no rank waits for another */
		use_subset(e, &r, 1, 7);
	if (e->nranks > 1) { /* the parent goes on without rank 0 */
		n = every(e, 1, 1, list);
		use_subset(e, list, n, 0);
		use_subset(e, list, n, 0);
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

/* Odd and even ranks with one tag at the same time, many times; then lists that overlap. */
CASE(subsets_at_once, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	struct oriel_comm *sub[6];
	int list[8], n = every(e, e->rank % 2, 2, list);

	for (int i = 0; i < 6; i++)
		REQUIRE_OK(oriel_comm_subset(e->comm, list, n, 3, &sub[i]));
	for (int i = 0; i < 6; i++) {
		check_sub(e, sub[i], list, n);
		REQUIRE_OK(oriel_comm_destroy(sub[i]));
	}
	/* neighbours in a ring: rank 0 comes last to its second pair, and no pair waits for it */
	for (int r = 0; r + 1 < e->nranks; r++) {
		int pair[2] = { r, r + 1 };

		use_subset(e, pair, 2, 3);
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

/* ---- several threads of a rank --------------------------------------------------------------- */

struct call {
	pthread_t thread;
	struct contract_env *e;
	const int *list;
	int n, tag, patient, status;
	struct oriel_comm *sub;
};

static void use_made(struct call *c)
{
	if (c->status)
		return;
	check_sub(c->e, c->sub, c->list, c->n);
	CHECK_EQ(oriel_comm_destroy(c->sub), 0);
}

/*
 * On a GPU the comms of a rank share one stream, so all ranks must use them in the same order
 * (oriel_comm_split).  Threads have no such order: there they only make the comms.
 */
static void *make_call(void *arg)
{
	struct call *c = (struct call *)arg;

	c->sub = NULL;
	do /* subset_tag_is_busy makes another call with this tag */
		c->status = oriel_comm_subset(c->e->comm, c->list, c->n, c->tag, &c->sub);
	while (c->status == ORIEL_EBUSY && c->patient);
	if (!c->e->cuda)
		use_made(c);
	return NULL;
}

static void await_call(struct call *c)
{
	pthread_join(c->thread, NULL);
	if (c->e->cuda)
		use_made(c);
}

/*
 * Every rank is in three calls at once, with three tags, on three threads.  Ranks start them in
 * different orders, so with one thread, or with one tag, they would wait for each other.
 */
CASE(subsets_on_threads, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	struct call calls[3];
	int all[8], back[8], n = every(e, 0, 1, all);
	int odd[8], nodd = every(e, e->rank % 2, 2, odd);

	for (int i = 0; i < n; i++)
		back[i] = all[n - 1 - i];
	for (int i = 0; i < 3; i++) {
		int k = (i + e->rank) % 3;

		calls[k].e = e;
		calls[k].list = k == 0 ? all : k == 1 ? back : odd;
		calls[k].n = k == 2 ? nodd : n;
		calls[k].tag = 10 + k;
		calls[k].patient = 0;
		REQUIRE(!pthread_create(&calls[k].thread, NULL, make_call, &calls[k]));
	}
	/* collectives of the parent go on meanwhile */
	for (int i = 0; i < 20; i++)
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	for (int k = 0; k < 3; k++) {
		await_call(&calls[k]);
		CHECK_EQ(calls[k].status, 0);
	}
}

/* Rank 0 is in a call whose other member has not come; a second one with its tag is refused. */
CASE(subset_tag_is_busy, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	struct oriel_comm *sub = NULL;
	struct call c;
	int pair[2] = { 0, 1 }, self = 0, err = 0;

	c.e = e;
	c.list = pair;
	c.n = 2;
	c.tag = 4;
	c.patient = 1;
	c.status = -1;
	if (e->rank == 0) {
		REQUIRE(!pthread_create(&c.thread, NULL, make_call, &c));
		/* until the thread waits in its call, this one succeeds */
		for (double start = contract_now(); !err && contract_now() - start < AT_ONCE_S;) {
			err = oriel_comm_subset(e->comm, &self, 1, 4, &sub);
			if (!err)
				CHECK_EQ(oriel_comm_destroy(sub), 0);
			usleep(1000);
		}
		CHECK_EQ(err, ORIEL_EBUSY);
		CHECK_HAS(oriel_last_error(), "tag 4");
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	if (e->rank == 1)
		REQUIRE(!pthread_create(&c.thread, NULL, make_call, &c));
	if (e->rank < 2)
		await_call(&c);
	CHECK_EQ(c.status, e->rank < 2 ? 0 : -1);
}

/* ---- bad lists ------------------------------------------------------------------------------- */

CASE(subset_refuses_bad_lists, c.shape = CONTRACT_HOST)
{
	struct oriel_comm *sub = (struct oriel_comm *)(void *)e, *same = sub;
	int list[9], n = every(e, 0, 1, list), other = (e->rank + 1) % e->nranks;

	CHECK_EQ(oriel_comm_subset(NULL, list, n, 0, &sub), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_subset(e->comm, NULL, 1, 0, &sub), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_subset(e->comm, list, 0, 0, &sub), ORIEL_ERANGE);
	CHECK_EQ(oriel_comm_subset(e->comm, list, -1, 0, &sub), ORIEL_ERANGE);
	list[n] = 0;
	CHECK_EQ(oriel_comm_subset(e->comm, list, n + 1, 0, &sub), ORIEL_ERANGE);
	CHECK_EQ(oriel_comm_subset(e->comm, list, n, -1, &sub), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "tag -1");
	list[n - 1] = e->nranks;
	CHECK_EQ(oriel_comm_subset(e->comm, list, n, 0, &sub), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "does not exist");
	list[n - 1] = -1;
	CHECK_EQ(oriel_comm_subset(e->comm, list, n, 0, &sub), ORIEL_ERANGE);
	if (e->nranks > 1) {
		list[0] = list[1] = e->rank;
		CHECK_EQ(oriel_comm_subset(e->comm, list, 2, 0, &sub), ORIEL_EINVAL);
		CHECK_HAS(oriel_last_error(), "twice");
		CHECK_EQ(oriel_comm_subset(e->comm, &other, 1, 0, &sub), ORIEL_EINVAL);
		CHECK_HAS(oriel_last_error(), "not in its own list");
	}
	CHECK(sub == same);
	n = every(e, 0, 1, list);
	/* a good list, but one rank has no place: all get its status */
	CHECK_EQ(oriel_comm_subset(e->comm, list, n, 0, e->rank == n - 1 ? NULL : &sub),
		 ORIEL_EINVAL);
	CHECK(sub == same);
	use_subset(e, list, n, 0);
}

/* Ranks 0 and 1 wait for each other with different lists: both know it long before the deadline. */
CASE(subset_lists_differ, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	struct oriel_comm *comm, *sub = NULL;
	int list[8], n = every(e, 0, 1, list), turned[2] = { 1, 0 };
	double start;

	REQUIRE_OK(contract_comm(e, LONG_S, &comm));
	for (int i = 0; i < 3 && e->rank < 2; i++) {
		start = contract_now();
		/* with two ranks the second list has another order, else another length */
		CHECK_EQ(oriel_comm_subset(comm, e->rank && n == 2 ? turned : list,
					   e->rank && n > 2 ? n : 2, i, &sub),
			 ORIEL_EMISMATCH);
		CHECK(contract_now() - start < AT_ONCE_S);
		CHECK_HAS(oriel_last_error(), e->rank ? "rank 0" : "rank 1");
		CHECK_HAS(oriel_last_error(), "different lists");
	}
	REQUIRE_OK(oriel_comm_barrier(comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_comm_subset(comm, list, n, 0, &sub));
	check_sub(e, sub, list, n);
	REQUIRE_OK(oriel_comm_destroy(sub));
	REQUIRE_OK(oriel_comm_destroy(comm));
}

/*
 * A member that does not come is named at the deadline.  Then both come, and it works.  Threads,
 * and more than three ranks, would only take more time.
 */
CASE(subset_member_does_not_come, c.shape = CONTRACT_HOST, c.min_ranks = 2, c.max_ranks = 3,
     c.only_processes = 1)
{
	struct oriel_comm *comm, *sub = NULL;
	int list[8], n = every(e, 0, 1, list), last = e->nranks - 1;
	double start = contract_now();

	REQUIRE_OK(contract_comm(e, SHORT_S, &comm));
	if (e->rank != last) {
		CHECK_EQ(oriel_comm_subset(comm, list, n, 0, &sub), ORIEL_ETIMEDOUT);
		CHECK(contract_now() - start < AT_ONCE_S);
		CHECK_HAS(oriel_last_error(), "oriel_comm_subset");
		CHECK_HAS(oriel_last_error(),
			  last == 1 ? "rank 1 did not come" : "rank 2 did not come");
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	CHECK_EQ(oriel_comm_status(comm), 0);
	REQUIRE_OK(oriel_comm_destroy(comm));
	use_subset(e, list, n, 0);
}

/* ---- a member dies --------------------------------------------------------------------------- */

CASE(subset_member_dies, c.shape = CONTRACT_HOST, c.no_window = 1, c.min_ranks = 2,
     c.only_processes = 1, c.last_dies = 1)
{
	struct oriel_comm *sub = NULL;
	int list[8], n = every(e, 0, 1, list);
	char name[32];
	double start;

	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	if (e->rank == n - 1) {
		usleep(100000); /* the others are in the call, or come later: both must end */
		raise(SIGKILL);
	}
	start = contract_now();
	snprintf(name, sizeof(name), "rank %d", n - 1);
	CHECK_EQ(oriel_comm_subset(e->comm, list, n, 0, &sub), ORIEL_EPEER);
	CHECK(contract_now() - start < AT_ONCE_S);
	CHECK_HAS(oriel_last_error(), name);
}

/* ---- oriel_comm_shrink ----------------------------------------------------------------------- */

CASE(shrink_without_deaths, c.shape = CONTRACT_HOST)
{
	struct oriel_comm *sub = (struct oriel_comm *)(void *)e, *same = sub;
	int list[8] = { 0 }, n = every(e, 0, 1, list);

	REQUIRE_OK(oriel_comm_shrink(e->comm, &sub));
	check_sub(e, sub, list, n);
	REQUIRE_OK(oriel_comm_destroy(sub));
	CHECK_EQ(oriel_comm_shrink(NULL, &sub), ORIEL_EINVAL);
	sub = same;
	CHECK_EQ(oriel_comm_shrink(e->comm, e->rank == n - 1 ? NULL : &sub), ORIEL_EINVAL);
	CHECK(sub == same);
	CHECK_HAS(oriel_last_error(), "oriel_comm_shrink");
}

/* A rank that aborts a comm lives on. */
CASE(shrink_after_an_abort, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	struct oriel_comm *comm = NULL, *sub = NULL;
	int list[8], n = every(e, 0, 1, list);

	REQUIRE_OK(oriel_comm_split(e->comm, 0, 0, &comm));
	if (e->rank == n - 1)
		REQUIRE_OK(oriel_comm_abort(comm, ORIEL_EPROTO));
	CHECK(oriel_comm_barrier(comm, ORIEL_WORLD) < 0);
	REQUIRE_OK(oriel_comm_shrink(comm, &sub));
	oriel_comm_destroy(comm); /* reports how it failed */
	check_sub(e, sub, list, n);
	REQUIRE_OK(oriel_comm_destroy(sub));
}

CASE(survivors_make_a_comm, c.shape = CONTRACT_HOST, c.no_window = 1, c.min_ranks = 2,
     c.only_processes = 1, c.last_dies = 1)
{
	struct oriel_comm *sub = NULL, *again = NULL;
	int list[8], n = every(e, 0, 1, list) - 1;
	double start;

	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	if (e->rank == n) {
		usleep(100000); /* the others are in the call, or come later: both must end */
		raise(SIGKILL);
	}
	if (e->rank % 2) /* some ranks know of the death, some do not */
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), ORIEL_EPEER);
	else
		usleep(150000);
	start = contract_now();
	REQUIRE_OK(oriel_comm_shrink(e->comm, &sub));
	CHECK(contract_now() - start < AT_ONCE_S);
	check_sub(e, sub, list, n);
	REQUIRE_OK(oriel_comm_shrink(sub, &again));
	REQUIRE_OK(oriel_comm_destroy(sub));
	check_sub(e, again, list, n);
	REQUIRE_OK(oriel_comm_destroy(again));
}
