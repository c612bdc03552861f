/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/contract.c - runs a row of the contract suite: its memory and window, launches,
 * and the host's access to device memory.
 *
 * Linked into every program of tests/contract/.  The runner calls contract_run_row() on the main
 * thread; ranks call the other functions.  contract_rows.c decides which rows there are.
 */
#include <time.h>

#include "contract.h"

#ifdef __cplusplus
extern "C" {
#endif
/* tests/fake_cuda, where it is linked: the kernel as its launches take it. */
const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));
#ifdef __cplusplus
}
#endif

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
	o.boxes = c->window.boxes;
	o.box_bytes = c->window.box_bytes;
	return o;
}

static void make_window(struct contract_env *e, const struct contract_case *c)
{
	struct oriel_window_options o = contract_window_options(c);

	REQUIRE_OK(oriel_window_create(e->comm, &o, &e->window));
	REQUIRE_OK(oriel_window_device(e->window, &e->win));
	e->buffer = (uint8_t *)oriel_window_buffer(e->window);
	e->bytes = o.bytes;
	e->local = (uint8_t *)contract_alloc(e, o.bytes);
	REQUIRE(e->buffer && e->local);
	REQUIRE_OK(oriel_window_source(e->window, e->local, o.bytes, &e->src));
}

/* Where kernels report, and the host's copy of it: one memory on the CPU. */
static int make_reports(struct contract_env *e)
{
	const size_t words = CONTRACT_SLOTS * sizeof(uint64_t);

	e->dev_status = (int32_t *)contract_alloc(e, CONTRACT_SLOTS * sizeof(int32_t));
	e->dev_wrong = (uint64_t *)contract_alloc(e, words);
	e->dev_out = (uint64_t *)contract_alloc(e, words * CONTRACT_OUT);
	e->status = e->dev_status;
	e->wrong = e->dev_wrong;
	e->out = e->dev_out;
	if (e->cuda) {
		e->status = (int32_t *)calloc(CONTRACT_SLOTS, sizeof(int32_t));
		e->wrong = (uint64_t *)calloc(1, words);
		e->out = (uint64_t *)calloc(1, words * CONTRACT_OUT);
		e->scratch = (uint8_t *)contract_alloc(e, CONTRACT_SCRATCH);
	}
	return e->dev_status && e->dev_wrong && e->dev_out && e->status && e->wrong && e->out;
}

static void free_memory(struct contract_env *e)
{
	if (e->cuda) {
		free(e->status);
		free(e->wrong);
		free(e->out);
	}
	while (e->nallocs > 0)
		CHECK_EQ(oriel_free(e->comm, e->allocs[--e->nallocs]), 0);
}

static void rank_main(struct rank_env *ranks)
{
	struct contract_test *t = (struct contract_test *)ranks->arg;
	struct contract_env e;

	memset(&e, 0, sizeof(e));
	e.rank = ranks->rank;
	e.nranks = ranks->nranks;
	e.threads = t->row.threads;
	e.launched = t->row.launched;
	e.processes = ranks->processes;
	e.cuda = contract_on_cuda();
	e.row = &t->row;
	e.ranks = ranks;
	e.boot = ranks->boot;
	e.comm = ranks->comm;
	if (make_reports(&e)) {
		if (!t->c->no_window)
			make_window(&e, t->c);
		if (t->c->no_window || e.src.bytes)
			t->c->body(&e);
		if (e.window)
			CHECK_EQ(oriel_window_destroy(e.window), 0);
	}
	free_memory(&e);
}

/*
 * Contexts take longer than cases.  When no more processes will be forked, a comm of one rank keeps
 * this process's context from row to row, until the process ends.
 */
static void hold_context(void)
{
	static struct oriel_boot *boot;
	static struct oriel_comm *comm;

	if (comm || contract_is_fake())
		return;
	if (oriel_boot_threads(1, &boot) || oriel_comm_create(boot, NULL, &comm))
		check_fail(__FILE__, __LINE__, "no CUDA comm of one rank: %s", oriel_last_error());
}

void contract_run_row(void)
{
	struct contract_test *t = (struct contract_test *)(void *)check_running;
	struct ranks_options o;

	if (t->why_not) {
		check_skip("%s", t->why_not);
		return;
	}
	if (contract_on_cuda() && !t->row.processes)
		hold_context();
	memset(&o, 0, sizeof(o));
	o.nranks = t->row.ranks;
	o.processes = t->row.processes;
	o.topology = t->row.topology;
	o.hosts = t->row.hosts;
	if (t->c->last_dies)
		o.expect_killed = 1ull << (t->row.ranks - 1);
	ranks_run(&o, rank_main, t);
}

/* ---- for the bodies ------------------------------------------------------------------------ */

int contract_rounds(const struct contract_env *e, int n)
{
	int load = e->nranks * e->threads;

	n /= CONTRACT_SLOW; /* a race that has happened is seen, however seldom */
	if (load > 16 && (!e->cuda || contract_is_fake()))
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
	a.status = e->dev_status;
	a.wrong = e->dev_wrong;
	a.out = e->dev_out;
	a.scope = e->row->scope;
	return a;
}

const struct oriel_kernel *contract_kernel(const struct oriel_kernel *kernel)
{
	return fake_cuda_kernel && contract_is_fake() ? fake_cuda_kernel(kernel) : kernel;
}

/* Threads 0 to `threads` of every block; what lies between blocks is left as it is. */
static void reset_reports(struct contract_env *e, int nblocks)
{
	for (int b = 0; b < nblocks; b++) {
		size_t at = (size_t)b * CONTRACT_THREADS, n = (size_t)e->threads;

		for (size_t i = 0; i < n; i++)
			e->status[at + i] = CONTRACT_UNSET;
		memset(e->wrong + at, 0, n * sizeof(*e->wrong));
		memset(e->out + at * CONTRACT_OUT, 0, n * CONTRACT_OUT * sizeof(*e->out));
	}
}

static int copy_reports(struct contract_env *e, int nblocks, int to_device)
{
	size_t n = (size_t)(nblocks - 1) * CONTRACT_THREADS + (size_t)e->threads;
	void *host[3] = { e->status, e->wrong, e->out };
	void *device[3] = { e->dev_status, e->dev_wrong, e->dev_out };
	size_t bytes[3] = { n * sizeof(*e->status), n * sizeof(*e->wrong),
			    n * CONTRACT_OUT * sizeof(*e->out) };
	int err = 0;

	for (int i = 0; i < 3 && e->cuda && !err; i++)
		err = oriel_copy(e->comm, to_device ? device[i] : host[i],
				 to_device ? host[i] : device[i], bytes[i]);
	return err;
}

/* 0 too if all threads reported 0: has one of them reported this status? */
static int is_reported(const struct contract_env *e, int nblocks, int status)
{
	int failed = 0;

	for (int b = 0; b < nblocks; b++)
		for (int t = 0; t < e->threads; t++) {
			int reported = e->status[b * CONTRACT_THREADS + t];

			if (status && reported == status)
				return 1;
			failed |= reported != CONTRACT_UNSET && reported != 0;
		}
	return !status && !failed;
}

/*
 * What a kernel's threads return, the launch (CPU) and oriel_comm_sync() return.  0, or the launch
 * itself has failed.  A rank that dies may take the contexts of the others on its GPU along: then
 * the launch itself has the status that the kernel would have had.
 */
static int launch(struct contract_env *e, const struct oriel_kernel *kernel, int nblocks,
		  const struct contract_args *a, int expect)
{
	int err, returned = 0;

	reset_reports(e, nblocks);
	err = copy_reports(e, nblocks, 1);
	if (!err)
		returned = oriel_launch(e->comm, contract_kernel(kernel), nblocks, e->launched, a,
					sizeof(*a), NULL);
	if (!err && (!returned || !e->cuda)) {
		int again = oriel_comm_sync(e->comm, NULL);

		returned = returned ? returned : again;
		if (returned != again)
			check_fail(__FILE__, __LINE__, "rank %d: %s returned %d, then %d", e->rank,
				   kernel->name, returned, again);
	}
	if (!err)
		err = copy_reports(e, nblocks, 0);
	if (!err && is_reported(e, nblocks, returned))
		return 0;
	err = err ? err : returned ? returned : ORIEL_EREMOTE;
	if (err && !(e->cuda && err == ORIEL_EPEER && expect == ORIEL_EPEER))
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
	if (!launch(e, kernel, nblocks, a, expect))
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
	if (launch(e, kernel, 1, a, 0))
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

/* ---- device memory, from the host ------------------------------------------------------------ */

static void copy(struct contract_env *e, void *to, const void *from, size_t bytes)
{
	int err = 0;

	if (!bytes)
		return;
	if (!e->cuda) {
		memcpy(to, from, bytes);
		return;
	}
	err = oriel_comm_sync(e->comm, NULL);
	if (!err)
		err = oriel_copy(e->comm, to, from, bytes);
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d: copy of %zu bytes: %s", e->rank, bytes,
			   oriel_last_error());
}

void contract_read(struct contract_env *e, void *to, const void *from, size_t bytes)
{
	memset(to, 0, bytes); /* nothing old where the copy fails */
	copy(e, to, from, bytes);
}

void contract_write(struct contract_env *e, void *to, const void *from, size_t bytes)
{
	copy(e, to, from, bytes);
}

void contract_fill_bytes(struct contract_env *e, void *to, int value, size_t bytes)
{
	uint8_t *mine = (uint8_t *)malloc(bytes + 1);

	REQUIRE(mine);
	memset(mine, value, bytes);
	copy(e, to, mine, bytes);
	free(mine);
}

uint64_t contract_bytes_not(struct contract_env *e, const void *from, int value, size_t bytes)
{
	uint8_t *mine = (uint8_t *)malloc(bytes + 1);
	uint64_t different = 0;

	if (!mine)
		return bytes;
	memset(mine, ~value, bytes);
	copy(e, mine, from, bytes);
	for (size_t i = 0; i < bytes; i++)
		different += mine[i] != (uint8_t)value;
	free(mine);
	return different;
}

uint64_t contract_word(struct contract_env *e, const void *from)
{
	uint64_t word = 0;

	copy(e, &word, from, sizeof(word));
	return word;
}

void *contract_scratch(struct contract_env *e, void *mine, size_t bytes)
{
	if (!e->cuda)
		return mine;
	copy(e, e->scratch, mine, bytes);
	return e->scratch;
}

enum { SIGNAL, SIGNAL_FROM, COUNTER };

CONTRACT_KERNEL(read_kernel)
{
	const struct oriel_window_dev *w = &a->win;

	a->out[contract_slot(g) * CONTRACT_OUT] =
		a->mode == SIGNAL      ? oriel_read_signal(w, a->id) :
		a->mode == SIGNAL_FROM ? oriel_read_signal_from(w, a->peer, a->id) :
					 oriel_read_counter(w, a->peer, a->id);
	contract_report(a, g, 0, 0);
}

static uint64_t read_word(struct contract_env *e, const struct oriel_window_dev *w, int mode,
			  int peer, int id)
{
	struct contract_args a = contract_args(e);

	a.win = *w;
	a.mode = mode;
	a.peer = peer;
	a.id = id;
	contract_launch(e, &read_kernel, 1, &a);
	return e->out[0];
}

uint64_t contract_signal(struct contract_env *e, const struct oriel_window_dev *w, int id)
{
	return e->cuda ? read_word(e, w, SIGNAL, 0, id) : oriel_read_signal(w, id);
}

uint64_t contract_signal_from(struct contract_env *e, const struct oriel_window_dev *w, int peer,
			      int id)
{
	return e->cuda ? read_word(e, w, SIGNAL_FROM, peer, id) :
			 oriel_read_signal_from(w, peer, id);
}

uint64_t contract_counter(struct contract_env *e, const struct oriel_window_dev *w, int peer,
			  int id)
{
	return e->cuda ? read_word(e, w, COUNTER, peer, id) : oriel_read_counter(w, peer, id);
}

int contract_issued(struct contract_env *e, struct oriel_comm *comm, struct oriel_window *w,
		    int status)
{
	int err;

	if (status || !e->cuda)
		return status;
	err = oriel_comm_sync(comm, NULL);
	return err ? err : oriel_window_status(w);
}
