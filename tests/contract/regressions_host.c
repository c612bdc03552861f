/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/regressions_host.c - bugs of host calls that were found and fixed, each with a
 * case that fails without its fix: memory and its users, buffers from several threads, collectives
 * that go wrong.
 */
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "contract.h"

#define BYTES 4096
#define WORKERS 4
#define LONG_S 60 /* deadline of comms whose calls should fail at once */

static struct oriel_window *make_window(struct oriel_comm *comm, void *buffer)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;

	o.bytes = BYTES;
	o.buffer = buffer;
	if (oriel_window_create(comm, &o, &w))
		check_fail(__FILE__, __LINE__, "window: %s", oriel_last_error());
	return w;
}

/* ---- memory of a window ---------------------------------------------------------------------- */

/* A buffer over a window's own memory keeps it, and can still be exchanged. */
CASE(regression_buffer_outlives_window, c.shape = CONTRACT_HOST, c.no_window = 1, c.max_ranks = 3)
{
	int next = (e->rank + 1) % e->nranks;
	struct oriel_window *w = make_window(e->comm, NULL);
	struct oriel_buffer *buffer;
	uint8_t *p, *theirs;

	REQUIRE(w);
	p = (uint8_t *)oriel_window_buffer(w);
	REQUIRE_OK(oriel_buffer_register(e->comm, p, BYTES, &buffer));
	CHECK_EQ(oriel_free(e->comm, p), ORIEL_EINVAL); /* not from oriel_alloc */
	REQUIRE_OK(oriel_window_destroy(w));
	contract_fill_bytes(e, p, e->rank + 1, BYTES);
	REQUIRE_OK(oriel_buffer_exchange(e->comm, buffer));
	theirs = (uint8_t *)oriel_buffer_mapped(buffer, next);
	CHECK_EQ(theirs != NULL, oriel_comm_peer_kind(e->comm, next) != ORIEL_PEER_QUEUED);
	if (theirs)
		CHECK_EQ(contract_bytes_not(e, theirs, next + 1, BYTES), 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_buffer_release(buffer));
}

CASE(regression_window_over_window, c.shape = CONTRACT_HOST, c.no_window = 1, c.max_ranks = 3)
{
	int next = (e->rank + 1) % e->nranks, before = (e->rank + e->nranks - 1) % e->nranks;
	struct oriel_window *first = make_window(e->comm, NULL), *second;
	struct oriel_source s;
	uint8_t mine[64], *p;

	REQUIRE(first);
	p = (uint8_t *)oriel_window_buffer(first);
	second = make_window(e->comm, p);
	REQUIRE(second);
	REQUIRE_OK(oriel_window_destroy(first));
	memset(mine, e->rank + 1, sizeof(mine));
	REQUIRE_OK(oriel_window_source(second, contract_scratch(e, mine, sizeof(mine)),
				       sizeof(mine), &s));
	REQUIRE_OK(oriel_window_put_signal(second, next, BYTES - 64, &s, 0, 64, 0, ORIEL_ADD, 1,
					   NULL));
	REQUIRE_OK(oriel_window_wait_signal(second, before, 0, ORIEL_GE, 1, NULL));
	CHECK(oriel_window_buffer(second) == p);
	CHECK_EQ(contract_bytes_not(e, p + BYTES - 64, before + 1, 64), 0);
	REQUIRE_OK(oriel_window_destroy(second));
}

/*
 * After an abort rank 0 gives all up while rank 1, a thread of the same process, is still in its
 * puts: they end with the abort, not in memory that has gone.
 */
CASE(regression_free_after_abort, c.shape = CONTRACT_HOST, c.no_window = 1, c.only_threads = 1,
     c.min_ranks = 2, c.max_ranks = 2)
{
	struct oriel_window *w = NULL;
	struct oriel_comm *comm;
	struct oriel_source s;
	uint8_t mine[64] = { 0 };
	void *p;
	int err = 0;

	REQUIRE_OK(contract_comm(e, LONG_S, &comm));
	REQUIRE_OK(oriel_alloc(comm, BYTES, &p));
	w = make_window(comm, p);
	REQUIRE(w);
	REQUIRE_OK(oriel_window_source(w, mine, sizeof(mine), &s));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	if (e->rank == 0) {
		usleep(20000);
		CHECK_EQ(oriel_comm_abort(comm, ORIEL_EABORTED), 0);
		CHECK_EQ(oriel_window_destroy(w), 0);
		CHECK_EQ(oriel_free(comm, p), 0);
		CHECK_EQ(oriel_comm_destroy(comm), 0);
	}
	while (e->rank == 1 && !err)
		err = oriel_window_put(w, 0, 0, &s, 0, sizeof(mine), NULL);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	if (e->rank == 1) {
		CHECK_EQ(err, ORIEL_EABORTED);
		CHECK_EQ(oriel_window_put(w, 0, 0, &s, 0, sizeof(mine), NULL), ORIEL_EABORTED);
		CHECK_EQ(oriel_window_destroy(w), 0);
		CHECK_EQ(oriel_comm_destroy(comm), 0);
	}
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

#define WINDOWS 50

/* A peer may still be answered with a descriptor for a moment, so the number has to settle. */
static int settles_at(int want)
{
	double start = contract_now();

	while (open_descriptors() != want && contract_now() - start < 1)
		usleep(1000);
	return open_descriptors() == want;
}

/*
 * 1: on every rank the windows had one each, and none was left.  0 also if one rank began too soon.
 */
static int count_windows(struct contract_env *e)
{
	struct oriel_window *w[WINDOWS];
	int before = open_descriptors(), right, all[3] = { 0 };

	for (int i = 0; i < WINDOWS; i++)
		w[i] = make_window(e->comm, NULL);
	right = settles_at(before + WINDOWS);
	for (int i = 0; i < WINDOWS; i++)
		CHECK_EQ(oriel_window_destroy(w[i]), 0);
	right = settles_at(before) && right;
	CHECK_EQ(oriel_comm_allgather(e->comm, ORIEL_WORLD, &right, all, sizeof(right)), 0);
	for (int r = 0; r < e->nranks; r++)
		right = right && all[r];
	return right;
}

/* One descriptor an allocation, however many ranks map it, and none when it has gone. */
CASE(regression_descriptors_of_windows, c.shape = CONTRACT_HOST, c.no_window = 1,
     c.only_processes = 1, c.max_ranks = 3)
{
	int tries = 0;

	/* the first number may be one of a moment; a leak is there in every try */
	while (tries < 10 && !count_windows(e))
		tries++;
	CHECK(tries < 10);
}

/* ---- buffers from several threads ------------------------------------------------------------ */

struct workers {
	struct oriel_comm *comm;
	pthread_barrier_t meet;
	struct oriel_buffer *got[WORKERS];
	void *memory; /* BYTES */
};

struct worker {
	struct workers *all;
	pthread_t thread;
	int number;
};

/*
 * Rounds that start together and look at each other's buffer, then rounds in any order.  On busy
 * cores a race may be missed here; ThreadSanitizer sees it.
 */
static void *register_and_release(void *arg)
{
	struct worker *me = (struct worker *)arg;
	struct workers *all = me->all;
	struct oriel_buffer *mine = NULL;

	for (int i = 0; i < 5000; i++) {
		pthread_barrier_wait(&all->meet);
		CHECK_EQ(oriel_buffer_register(all->comm, all->memory, BYTES,
					       &all->got[me->number]),
			 0);
		pthread_barrier_wait(&all->meet);
		CHECK(all->got[me->number] == all->got[0]);
		pthread_barrier_wait(&all->meet);
		CHECK_EQ(oriel_buffer_release(all->got[me->number]), 0);
	}
	for (int i = 0; i < 10000; i++) {
		CHECK_EQ(oriel_buffer_register(all->comm, all->memory, BYTES, &mine), 0);
		CHECK_EQ(oriel_buffer_release(mine), 0);
	}
	return NULL;
}

CASE(regression_register_from_threads, c.shape = CONTRACT_HOST, c.no_window = 1, c.max_ranks = 1)
{
	struct workers *all = (struct workers *)calloc(1, sizeof(*all));
	struct worker worker[WORKERS];

	REQUIRE(all);
	all->comm = e->comm;
	all->memory = contract_alloc(e, BYTES);
	REQUIRE(all->memory);
	pthread_barrier_init(&all->meet, NULL, WORKERS);
	for (int i = 0; i < WORKERS; i++) {
		worker[i].all = all;
		worker[i].number = i;
		if (pthread_create(&worker[i].thread, NULL, register_and_release, &worker[i]))
			abort(); /* the others would wait for it for ever */
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i].thread, NULL);
	pthread_barrier_destroy(&all->meet);
	free(all);
}

/* ---- collectives that go wrong --------------------------------------------------------------- */

/* Rank 0 destroys a window while the others are elsewhere: it is out, and they hear of it. */
CASE(regression_failed_destroy_is_told, c.shape = CONTRACT_HOST, c.no_window = 1, c.min_ranks = 2,
     c.max_ranks = 3)
{
	struct oriel_window *w;
	struct oriel_comm *comm;
	double start;
	int err;

	REQUIRE_OK(contract_comm(e, LONG_S, &comm));
	w = make_window(comm, NULL);
	REQUIRE(w);
	err = e->rank == 0 ? oriel_window_destroy(w) : oriel_comm_barrier(comm, ORIEL_WORLD);
	CHECK_EQ(err, ORIEL_EMISMATCH);
	start = contract_now();
	CHECK(oriel_comm_barrier(comm, ORIEL_WORLD) < 0);
	CHECK(contract_now() - start < LONG_S / 4.0);
	CHECK_EQ(oriel_comm_status(comm), ORIEL_EMISMATCH);
	REQUIRE_OK(oriel_comm_destroy(comm)); /* the windows go with it */
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
}

/* The last rank gives `other` bytes, the rest 8; then all are right again. */
static void allgather_differs(struct contract_env *e, struct oriel_comm *comm, size_t other)
{
	static const uint8_t mine[1000] = { 0 };
	uint8_t all[3 * 1000], rank = (uint8_t)e->rank;
	int last = e->nranks - 1;
	char name[24];

	CHECK_EQ(oriel_comm_allgather(comm, ORIEL_WORLD, mine, all, e->rank == last ? other : 8),
		 ORIEL_EMISMATCH);
	snprintf(name, sizeof(name), "rank %d", last);
	CHECK_HAS(oriel_last_error(), name);
	CHECK_EQ(oriel_comm_allgather(comm, ORIEL_WORLD, &rank, all, 1), 0);
	for (int r = 0; r < e->nranks; r++)
		CHECK_EQ(all[r], r);
}

CASE(regression_allgather_bytes_differ, c.shape = CONTRACT_HOST, c.no_window = 1, c.min_ranks = 2,
     c.max_ranks = 3)
{
	struct oriel_comm *comm;

	REQUIRE_OK(contract_comm(e, LONG_S, &comm));
	allgather_differs(e, comm, 32);
	allgather_differs(e, comm, 1000);
	allgather_differs(e, comm, 0);
	REQUIRE_OK(oriel_comm_destroy(comm));
}

/* Sizes that no memory has, on the last rank or on all: told to all, and nothing is copied. */
CASE(regression_allgather_too_large, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, (size_t)1 << 62,
					((size_t)16 << 20) + 1 };
	uint8_t mine[8] = { 0 }, all[8 * 8];
	int last = e->nranks - 1;
	char name[24];

	snprintf(name, sizeof(name), "rank %d", last);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CHECK_EQ(oriel_comm_allgather(e->comm, ORIEL_WORLD, mine, all, sizes[i]),
			 ORIEL_ERANGE);
		CHECK_EQ(oriel_comm_allgather(e->comm, ORIEL_NODE, mine, all, sizes[i]),
			 ORIEL_ERANGE);
		CHECK_EQ(oriel_comm_allgather(e->comm, ORIEL_WORLD, mine, all,
					      e->rank == last ? sizes[i] : 8),
			 ORIEL_ERANGE);
		if (e->rank != last)
			CHECK_HAS(oriel_last_error(), name);
	}
	CHECK_EQ(oriel_comm_status(e->comm), 0);
	CHECK_EQ(oriel_comm_allgather(e->comm, ORIEL_WORLD, mine, all, 8), 0);
}

/* One rank's scope is no scope: the others do not wait for it. */
CASE(regression_bad_scope_is_told, c.shape = CONTRACT_HOST, c.no_window = 1, c.max_ranks = 3)
{
	enum oriel_scope scope = e->rank == e->nranks - 1 ? (enum oriel_scope)99 : ORIEL_WORLD;
	double start = contract_now();
	uint8_t rank = (uint8_t)e->rank, all[3];

	CHECK_EQ(oriel_comm_allgather(e->comm, scope, &rank, all, 1), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_barrier(e->comm, scope), ORIEL_EINVAL);
	CHECK(contract_now() - start < LONG_S / 4.0);
	CHECK_EQ(oriel_comm_status(e->comm), 0);
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
}

/* A buffer left on one rank keeps the comm on all of them. */
CASE(regression_comm_busy_on_one_rank, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	int last = e->nranks - 1;
	struct oriel_buffer *buffer = NULL;
	struct oriel_comm *comm;
	uint8_t memory[64] = { 0 };

	REQUIRE_OK(contract_comm(e, LONG_S, &comm));
	if (e->rank == last)
		REQUIRE_OK(oriel_buffer_register(comm, contract_scratch(e, memory, sizeof(memory)),
						 sizeof(memory), &buffer));
	REQUIRE(oriel_comm_destroy(comm) == ORIEL_EBUSY); /* else the handle is gone */
	CHECK_EQ(oriel_comm_status(comm), 0);
	CHECK_EQ(oriel_comm_barrier(comm, ORIEL_WORLD), 0);
	if (e->rank == last)
		REQUIRE_OK(oriel_buffer_release(buffer));
	REQUIRE_OK(oriel_comm_destroy(comm));
}

/* Texts were cut at 255 bytes without a word. */
CASE(regression_long_options, c.shape = CONTRACT_HOST, c.no_window = 1, c.max_ranks = 3)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_comm *comm = NULL;
	char text[300];

	memset(text, '0', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 1; i < e->nranks; i++)
		text[2 * i - 1] = ',';
	for (int i = 0; i < 2; i++) {
		o.topology = i == 0 ? text : NULL;
		o.device = i == 1 ? text : NULL;
		CHECK_EQ(oriel_comm_create(e->boot, &o, &comm), ORIEL_EINVAL);
		CHECK_HAS(oriel_last_error(), "too long");
		text[256] = '\0'; /* one byte more than fits */
		CHECK_EQ(oriel_comm_create(e->boot, &o, &comm), ORIEL_EINVAL);
		CHECK(!comm);
		text[256] = '0';
	}
	o.device = NULL;
	o.topology = text;
	text[127] = '\0'; /* the longest a layout may be */
	REQUIRE_OK(oriel_comm_create(e->boot, &o, &comm));
	REQUIRE_OK(oriel_comm_destroy(comm));
}
