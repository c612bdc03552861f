/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/contract.c - rows of the contract suite and how one is run.
 *
 * Owns the table of transports.  Linked into every program of tests/contract/.  Registration runs
 * before main(); contract_launch() and the rest run on the ranks.
 */
#include <time.h>

#include "contract.h"

#define MAX_THREADS 300 /* of all ranks and blocks of a row together */

/* A new transport is one line: a comm topology for each number of ranks; "" leaves that one out. */
static const struct contract_transport {
	const char *name;
	const char *topology[5]; /* for 1, 2, 3, 4, 8 ranks; NULL: as found */
} transports[] = {
	{ "mapped", { NULL, NULL, NULL, "", NULL } },
	{ "queued", { "", "2x1", "3x1", "", "8x1" } },
	{ "mixed", { "", "", "0,0,1", "2x2", "2x4" } },
	{ "nodes", { "", "", "", "", "4x2" } },
};

static const int rank_counts[5] = { 1, 2, 3, 4, 8 };
static const int thread_counts[3] = { 1, 4, 32 };

struct contract_test {
	struct check_test test; /* first: check_running points at it */
	const struct contract_case *c;
	struct contract_row row;
	char name[112];
};

/* ---- making the tests ---------------------------------------------------------------------- */

/* The word list of ORIEL_CONTRACT, taken out of the environment: the library knows no such name. */
static const char *words(void)
{
	static char kept[64];
	const char *set = getenv("ORIEL_CONTRACT");

	if (set) {
		snprintf(kept, sizeof(kept), "%s", set);
		unsetenv("ORIEL_CONTRACT");
	}
	return kept;
}

static int wanted(const struct contract_case *c, const struct contract_row *row, int nth)
{
	int all = row->ranks * row->threads * (c->blocks ? c->blocks : 1);

	if (row->topology && !row->topology[0])
		return 0;
	if (row->ranks < c->min_ranks || (c->max_ranks && row->ranks > c->max_ranks))
		return 0;
	if (all > MAX_THREADS || (all >= 256 && strstr(words(), "quick")))
		return 0;
	if (strstr(words(), row->processes ? "threads" : "processes"))
		return 0;
	if (row->processes ? c->only_threads : c->only_processes)
		return 0;
	if (c->shape == CONTRACT_HOST)
		return row->threads == 1;
	if (c->shape == CONTRACT_PAIRS && !c->only_threads && !c->only_processes)
		return row->processes == nth % 2;
	return 1;
}

static void run_row(void);

static void add(const struct contract_case *c, const struct contract_row *row)
{
	struct contract_test *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->c = c;
	t->row = *row;
	snprintf(t->name, sizeof(t->name), "%s/%s/%dranks/%dthreads/%s", c->name, row->transport,
		 row->ranks, row->threads, row->processes ? "processes" : "threads");
	t->test.name = t->name;
	t->test.run = run_row;
	check_register(&t->test);
}

void contract_register(const struct contract_case *c)
{
	struct contract_row row;

	for (size_t t = 0; t < sizeof(transports) / sizeof(transports[0]); t++)
		for (int r = 0; r < 5; r++)
			for (int g = 0; g < 3; g++)
				for (row.processes = 0; row.processes < 2; row.processes++) {
					row.transport = transports[t].name;
					row.topology = transports[t].topology[r];
					row.ranks = rank_counts[r];
					row.threads = thread_counts[g];
					if (wanted(c, &row, r + g))
						add(c, &row);
				}
}

/* ---- running one --------------------------------------------------------------------------- */

struct oriel_window_options contract_window_options(const struct contract_case *c)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.signals = c->window.signals ? c->window.signals : o.signals;
	o.counters = c->window.counters ? c->window.counters : o.counters;
	o.barriers = c->window.barriers ? c->window.barriers : o.barriers;
	o.bytes = c->window.bytes ? c->window.bytes : 65536;
	o.checked = c->window.checked;
	o.staging_slot_bytes = c->window.staging_slot_bytes;
	o.staging_depth = c->window.staging_depth ? c->window.staging_depth : o.staging_depth;
	o.staging_channels = c->window.staging_channels ? c->window.staging_channels :
							  o.staging_channels;
	o.first_count = c->window.first_count;
	return o;
}

static void make_window(struct contract_env *e, const struct contract_case *c)
{
	struct oriel_window_options o = contract_window_options(c);

	REQUIRE_OK(oriel_window_create(e->comm, &o, &e->window));
	REQUIRE_OK(oriel_window_device(e->window, &e->win));
	e->buffer = oriel_window_buffer(e->window);
	e->bytes = o.bytes;
	e->local = contract_alloc(e, o.bytes);
	REQUIRE(e->buffer && e->local);
	REQUIRE_OK(oriel_window_source(e->window, e->local, o.bytes, &e->src));
}

static void rank_main(struct rank_env *ranks)
{
	struct contract_test *t = ranks->arg;
	struct contract_env e;

	memset(&e, 0, sizeof(e));
	e.rank = ranks->rank;
	e.nranks = ranks->nranks;
	e.threads = t->row.threads;
	e.processes = ranks->processes;
	e.row = &t->row;
	e.ranks = ranks;
	e.boot = ranks->boot;
	e.comm = ranks->comm;
	e.status = contract_alloc(&e, CONTRACT_SLOTS * sizeof(*e.status));
	e.wrong = contract_alloc(&e, CONTRACT_SLOTS * sizeof(*e.wrong));
	e.out = contract_alloc(&e, CONTRACT_SLOTS * CONTRACT_OUT * sizeof(*e.out));
	if (!t->c->no_window)
		make_window(&e, t->c);
	if (e.status && e.wrong && e.out && (t->c->no_window || e.src.bytes))
		t->c->body(&e);
	if (e.window)
		CHECK_EQ(oriel_window_destroy(e.window), 0);
	while (e.nallocs > 0)
		CHECK_EQ(oriel_free(e.comm, e.allocs[--e.nallocs]), 0);
}

static void run_row(void)
{
	struct contract_test *t = (struct contract_test *)(void *)check_running;
	struct ranks_options o;

	memset(&o, 0, sizeof(o));
	o.nranks = t->row.ranks;
	o.processes = t->row.processes;
	o.topology = t->row.topology;
	if (t->c->last_dies)
		o.expect_killed = 1ull << (t->row.ranks - 1);
	ranks_run(&o, rank_main, t);
}

/* ---- for the bodies ------------------------------------------------------------------------ */

int contract_rounds(const struct contract_env *e, int n)
{
	int load = e->nranks * e->threads;

	if (load > 16)
		n = (int)(n * 16LL / load);
	return n < 3 ? 3 : n;
}

struct contract_args contract_args(const struct contract_env *e)
{
	struct contract_args a;

	memset(&a, 0, sizeof(a));
	a.win = e->win;
	a.src = e->src;
	a.local = e->local;
	a.status = e->status;
	a.wrong = e->wrong;
	a.out = e->out;
	return a;
}

static int launch(struct contract_env *e, const struct oriel_kernel *kernel, int nblocks,
		  const struct contract_args *a)
{
	int err;

	for (int i = 0; i < CONTRACT_SLOTS; i++)
		e->status[i] = CONTRACT_UNSET;
	memset(e->wrong, 0, CONTRACT_SLOTS * sizeof(*e->wrong));
	memset(e->out, 0, CONTRACT_SLOTS * CONTRACT_OUT * sizeof(*e->out));
	err = oriel_launch(e->comm, kernel, nblocks, e->threads, a, sizeof(*a), NULL);
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d: launch of %s: %s", e->rank, kernel->name,
			   oriel_last_error());
	return err;
}

/* One line for the first thread that differs, not one a thread. */
static void check_threads(struct contract_env *e, const struct oriel_kernel *kernel, int nblocks,
			  int expect)
{
	for (int b = 0; b < nblocks; b++)
		for (int t = 0; t < e->threads; t++) {
			int slot = b * CONTRACT_THREADS + t;

			if (e->status[slot] == expect && !e->wrong[slot])
				continue;
			check_fail(__FILE__, __LINE__,
				   "%s: rank %d block %d thread %d: status %d, want %d; %llu wrong",
				   kernel->name, e->rank, b, t, e->status[slot], expect,
				   (unsigned long long)e->wrong[slot]);
			return;
		}
}

void contract_launch_expect(struct contract_env *e, const struct oriel_kernel *kernel, int nblocks,
			    const struct contract_args *a, int expect)
{
	if (!launch(e, kernel, nblocks, a))
		check_threads(e, kernel, nblocks, expect);
}

void contract_launch(struct contract_env *e, const struct oriel_kernel *kernel, int nblocks,
		     const struct contract_args *a)
{
	contract_launch_expect(e, kernel, nblocks, a, 0);
}

int contract_launch_status(struct contract_env *e, const struct oriel_kernel *kernel,
			   const struct contract_args *a)
{
	if (launch(e, kernel, 1, a))
		return CONTRACT_UNSET;
	check_threads(e, kernel, 1, e->status[0]);
	return e->status[0];
}

void *contract_alloc(struct contract_env *e, size_t bytes)
{
	void *p = NULL;

	if (e->nallocs == (int)(sizeof(e->allocs) / sizeof(e->allocs[0])) ||
	    oriel_alloc(e->comm, bytes, &p)) {
		check_fail(__FILE__, __LINE__, "no memory: %s", oriel_last_error());
		return NULL;
	}
	e->allocs[e->nallocs++] = p;
	return p;
}

int contract_comm(struct contract_env *e, double timeout_s, struct oriel_comm **comm)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;

	o.timeout = timeout_s;
	o.topology = e->row->topology;
	return oriel_comm_create(e->boot, &o, comm);
}

double contract_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
