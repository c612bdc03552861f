/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/inside/oriel.cu - the rows of inside.h with Oriel's collectives inside a kernel.
 *
 * Usage, under oriel-run with ORIEL_DEVICE=cuda:  oriel
 * Each block has its own channel of a team, and its share of every rank's data ("blocks").
 * With lines the calls are held open.  Blocks then divide the ranks ("parts"); in an all-reduce
 * they divide the data as before ("lines").  Long data is also received in a window ("into").
 */
#include <oriel/coll/team.h>
#include <oriel/device/coll.h>
#include <oriel/oriel.h>

#include "inside.h"

struct inside_args {
	struct oriel_team_dev team;
	struct oriel_window_dev win;
	const uint8_t *send;
	uint8_t *recv;
	uint64_t bytes; /* of a block */
	int32_t calls;
	uint64_t *ns;
};

ORIEL_DEV uint64_t clock_ns(void)
{
#if ORIEL_ON_GPU
	return gpu_clock_ns();
#else
	return (uint64_t)(bench_now() * 1e9);
#endif
}

/* Called by every block: the slowest one counts.  A part may have only the rank itself. */
ORIEL_DEV void tell_time(const struct inside_args *a, struct oriel_group g, uint64_t ns)
{
	if (!oriel_group_is_leader(g))
		return;
#if ORIEL_ON_GPU
	atomicMax((unsigned long long *)a->ns, ns);
#else
	*a->ns = ns;
#endif
}

/* `op`: known to the compiler. */
ORIEL_DEV int make_calls(const struct inside_args *a, int op)
{
	struct oriel_group g = oriel_group_block();
	uint64_t all = g.block * a->bytes * (uint32_t)a->team.win.comm.nranks, start = 0;
	uint64_t own = g.block * a->bytes;
	int err = 0;

	for (int i = 1; !err && i <= GPU_WARM + a->calls; i++) {
		if (i == GPU_WARM + 1)
			start = clock_ns();
		if (op == INSIDE_EXCHANGE)
			err = oriel_coll_alltoall(&a->team, g, (int)g.block, a->send + all,
						  a->recv + all, a->bytes);
		else if (op == INSIDE_GATHER)
			err = oriel_coll_allgather(&a->team, g, (int)g.block, a->send + own,
						   a->recv + all, a->bytes);
		else if (op == INSIDE_CAST)
			err = oriel_coll_broadcast(&a->team, g, (int)g.block, a->recv + own,
						   a->bytes, (i - 1) % a->team.win.comm.nranks);
		else
			err = oriel_coll_allreduce(&a->team, g, (int)g.block, a->send + own,
						   a->recv + own, a->bytes / 4, ORIEL_TYPE_FLOAT,
						   ORIEL_REDUCE_SUM);
	}
	tell_time(a, g, clock_ns() - start);
	return err;
}

/* The same calls, held open.  `into`: known to the compiler. */
ORIEL_DEV int make_line_calls(const struct inside_args *a, int op, int into)
{
	struct oriel_group g = oriel_group_block();
	uint64_t own = op == INSIDE_REDUCE ? g.block * a->bytes : 0, start = 0;
	int part = (int)g.block, parts = (int)g.nblocks, err, closed;
	struct oriel_coll_line line;

	if (op == INSIDE_EXCHANGE)
		err = oriel_coll_open_alltoall(&line, &a->team, g, part, a->bytes, part, parts);
	else if (op == INSIDE_GATHER)
		err = oriel_coll_open_allgather(&line, &a->team, g, part, a->bytes, part, parts);
	else
		err = oriel_coll_open_allreduce(&line, &a->team, g, part, a->bytes / 4,
						ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM);
	if (!err && into)
		err = oriel_coll_into(&line, g, &a->win, 0);
	for (int i = 1; !err && i <= GPU_WARM + a->calls; i++) {
		if (i == GPU_WARM + 1)
			start = clock_ns();
		err = oriel_coll_again(&line, g, a->send + own, into ? NULL : a->recv + own);
	}
	tell_time(a, g, clock_ns() - start);
	closed = oriel_coll_close(&line, g);
	return err ? err : closed;
}

ORIEL_KERNEL(inside_exchange_line, struct inside_args)
{
	return make_line_calls(a, INSIDE_EXCHANGE, 0);
}

ORIEL_KERNEL(inside_gather_line, struct inside_args)
{
	return make_line_calls(a, INSIDE_GATHER, 0);
}

ORIEL_KERNEL(inside_reduce_line, struct inside_args)
{
	return make_line_calls(a, INSIDE_REDUCE, 0);
}

ORIEL_KERNEL(inside_exchange_into, struct inside_args)
{
	return make_line_calls(a, INSIDE_EXCHANGE, 1);
}

ORIEL_KERNEL(inside_gather_into, struct inside_args)
{
	return make_line_calls(a, INSIDE_GATHER, 1);
}

ORIEL_KERNEL(inside_exchange, struct inside_args)
{
	return make_calls(a, INSIDE_EXCHANGE);
}

ORIEL_KERNEL(inside_gather, struct inside_args)
{
	return make_calls(a, INSIDE_GATHER);
}

ORIEL_KERNEL(inside_reduce, struct inside_args)
{
	return make_calls(a, INSIDE_REDUCE);
}

ORIEL_KERNEL(inside_cast, struct inside_args)
{
	return make_calls(a, INSIDE_CAST);
}

/* ---- running ---- */

struct job {
	struct oriel_comm *comm;
	struct oriel_team *team;
	struct oriel_window *window;
	uint8_t *send, *recv;
	uint64_t *ns;
	int rank, n;
	cudaStream_t stream;
};

/* How a call is made. */
enum { ONCE, LINES, INTO };

static int run_row(struct job *j, const struct inside_case *c, int blocks, int way)
{
	const struct oriel_kernel *kernels[3][4] = {
		{ &inside_exchange, &inside_gather, &inside_reduce, &inside_cast },
		{ &inside_exchange_line, &inside_gather_line, &inside_reduce_line, NULL },
		{ &inside_exchange_into, &inside_gather_into, NULL, NULL },
	};
	/* how many blocks divide the data; parts of a line divide the ranks */
	int shares = way != ONCE && inside_gathers(c) ? 1 : blocks;
	struct inside_args a;
	uint64_t ns = 0;
	char name[64];
	int err;

	snprintf(name, sizeof(name), "%s/%s%d", c->name,
		 way == ONCE            ? "blocks" :
		 way == INTO            ? "into" :
		 c->op == INSIDE_REDUCE ? "lines" :
					  "parts",
		 blocks);
	memset(&a, 0, sizeof(a));
	err = oriel_window_device(j->window, &a.win);
	if (err)
		return err;
	inside_begin(c, shares, j->send, j->recv, j->rank, j->n, j->stream);
	gpu_must(cudaMemsetAsync(a.win.buffer, 0, (size_t)INSIDE_MOST * j->n, j->stream), "window");
	gpu_must(cudaMemsetAsync(j->ns, 0, sizeof(*j->ns), j->stream), "time");
	gpu_must(cudaStreamSynchronize(j->stream), "memory");
	err = oriel_team_device(j->team, &a.team);
	a.send = j->send;
	a.recv = j->recv;
	a.bytes = c->bytes / (uint64_t)shares;
	a.calls = c->calls;
	a.ns = j->ns;
	if (!err)
		err = oriel_comm_barrier(j->comm, ORIEL_WORLD);
	if (!err)
		err = oriel_launch(j->comm, kernels[way][c->op], blocks, INSIDE_THREADS, &a,
				   sizeof(a), j->stream);
	if (!err)
		err = oriel_comm_sync(j->comm, j->stream);
	if (!err)
		err = oriel_copy(j->comm, &ns, j->ns, sizeof(ns));
	if (err)
		return err;
	if (way == INTO)
		gpu_must(cudaMemcpy(j->recv, a.win.buffer, (size_t)INSIDE_MOST * j->n,
				    cudaMemcpyDefault),
			 "received data");
	inside_end(name, c, shares, j->recv, j->rank, j->n, j->stream);
	if (j->rank == 0)
		bench_print(name, (double)ns / 1e3 / c->calls, "us");
	return 0;
}

/* A call by itself, and one that is held open; no broadcast is.  Ranks have at most a part each. */
static int run_rows(struct job *j, const struct inside_case *c, int blocks)
{
	int err = 0, divides = inside_divides(c, blocks);

	if (divides)
		err = run_row(j, c, blocks, ONCE);
	if (!err && c->op != INSIDE_CAST && (c->op == INSIDE_REDUCE ? divides : blocks <= j->n))
		err = run_row(j, c, blocks, LINES);
	if (!err && inside_gathers(c) && blocks <= j->n && c->bytes > 16384)
		err = run_row(j, c, blocks, INTO);
	return err;
}

static int open_job(struct job *j)
{
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	void *at[3] = { NULL, NULL, NULL };
	int err;

	o.channels = (uint32_t)inside_blocks[INSIDE_COUNTS - 1];
	o.line_bytes = 64u << 10;
	w.bytes = (uint64_t)INSIDE_MOST * (uint64_t)j->n;
	err = oriel_team_create(j->comm, &o, &j->team);
	if (!err)
		err = oriel_window_create(j->comm, &w, &j->window);
	for (int i = 0; i < 3 && !err; i++)
		err = oriel_alloc(j->comm, i < 2 ? (uint64_t)INSIDE_MOST * j->n : 4096, &at[i]);
	if (err)
		return err;
	j->send = (uint8_t *)at[0];
	j->recv = (uint8_t *)at[1];
	j->ns = (uint64_t *)at[2];
	gpu_must(cudaSetDevice(0), "device");
	gpu_must(cudaStreamCreateWithFlags(&j->stream, cudaStreamNonBlocking), "stream");
	return 0;
}

int main(void)
{
	struct job job;
	int err;

	memset(&job, 0, sizeof(job));
	err = oriel_init(&job.comm);
	if (!err) {
		job.rank = oriel_comm_rank(job.comm);
		job.n = oriel_comm_size(job.comm);
		err = open_job(&job);
	}
	for (int i = 0; i < INSIDE_CASES && !err; i++)
		for (int b = 0; b < INSIDE_COUNTS && !err; b++)
			err = run_rows(&job, &inside_cases[i], inside_blocks[b]);
	if (err) {
		fprintf(stderr, "oriel: rank %d: %s: %s\n", job.rank, oriel_status_text(err),
			oriel_last_error());
		if (job.comm)
			oriel_comm_abort(job.comm, err);
		return 1;
	}
	fflush(stdout);
	oriel_free(job.comm, job.send);
	oriel_free(job.comm, job.recv);
	oriel_free(job.comm, job.ns);
	return oriel_window_destroy(job.window) || oriel_team_destroy(job.team) ||
	       oriel_finalize(job.comm);
}
