/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/shmem/oriel.c - the cases of bench/shmem with Oriel's own calls.
 *
 * Usage, under oriel-run:  oriel_shmem_bench [PREFIX [CASES [fine]]]
 * One-sided calls are made by a kernel of one thread, which runs on the calling thread.
 * Collectives are those of the host.  OpenSHMEM's alltoalls has no relative here.
 *
 * In shmem.c calls take turns among CASES_GROUP pSync arrays, and each has its own memory in the
 * library.  So the requests of an all-gather take turns here, on one receive memory: otherwise one
 * side had its words in the cache, and the other had not.  An all-to-all has one request, because
 * the receive memory belongs to it.
 */
#include <oriel/coll.h>
#include <oriel/device.h>
#include <oriel/oriel.h>

#include "cases.h"

#define SECOND 1

struct library {
	struct oriel_comm *comm;
	struct oriel_window *send, *recv; /* the memory of the job */
	struct oriel_window_dev from, to; /* their handles */
	struct oriel_source send_source, recv_source;
	struct oriel_allgather_request *gather[CASES_GROUP];
	struct oriel_alltoallv_request *exchange;
	uint64_t *counts; /* of the exchange */
};

struct round_args {
	struct oriel_window_dev from, to;
	struct oriel_source send, recv;
	uint64_t bytes, first; /* first: signals got before */
	int32_t rounds;
};

/* A kernel whose body is one call, made a->rounds times.  `i` counts them, and `g` is the group. */
#define ROUNDS(name, call)                                                                         \
	ORIEL_KERNEL(name##_kernel, struct round_args)                                             \
	{                                                                                          \
		struct oriel_group g = oriel_group_block();                                        \
		uint64_t old = 0;                                                                  \
		int err = 0;                                                                       \
                                                                                                   \
		(void)old;                                                                         \
		for (int32_t i = 0; !err && i < a->rounds; i++)                                    \
			err = (call);                                                              \
		return err;                                                                        \
	}

ORIEL_DEV int flushed(const struct oriel_window_dev *win, struct oriel_group g, int err)
{
	return err ? err : oriel_flush(win, g, SECOND);
}

ROUNDS(put, flushed(&a->to, g, oriel_put(&a->to, g, SECOND, 0, &a->send, 0, a->bytes)))
ROUNDS(get, oriel_get(&a->from, g, SECOND, 0, &a->recv, 0, a->bytes))
ROUNDS(put_value, flushed(&a->to, g, oriel_put_value(&a->to, g, SECOND, 0, a->from.buffer, 8)))
ROUNDS(get_value, oriel_get_value(&a->from, g, SECOND, 0, a->to.buffer, 8))
ROUNDS(fetch_add, oriel_fetch_add(&a->to, g, SECOND, 0, 1, &old))
ROUNDS(add, flushed(&a->to, g, oriel_fetch_add(&a->to, g, SECOND, 0, 1, NULL)))
ROUNDS(swap, oriel_swap(&a->to, g, SECOND, 0, (uint64_t)i, &old))
ROUNDS(compare_swap, oriel_compare_swap(&a->to, g, SECOND, 0, (uint64_t)i, (uint64_t)i + 1, &old))
ROUNDS(barrier, oriel_barrier(&a->to, g, 0))
ROUNDS(sync, oriel_barrier_arrive_wait(&a->to, g, 1))

/* There and back: two calls. */
ORIEL_KERNEL(put_signal_kernel, struct round_args)
{
	struct oriel_group g = oriel_group_block();
	int second = oriel_rank(&a->to) == SECOND, err = 0;

	for (uint64_t i = a->first + 1; !err && i <= a->first + (uint64_t)a->rounds / 2; i++) {
		if (second)
			err = oriel_wait_signal_from(&a->to, g, 0, 0, ORIEL_GE, i);
		if (!err)
			err = oriel_put_signal(&a->to, g, !second, 0, &a->send, 0, a->bytes, 0,
					       ORIEL_ADD, 1);
		if (!err && !second)
			err = oriel_wait_signal_from(&a->to, g, SECOND, 0, ORIEL_GE, i);
	}
	return err;
}

static int launch(struct cases_job *j, const struct oriel_kernel *kernel, size_t bytes, int rounds)
{
	static uint64_t got; /* signals, in all loops of put_signal */
	struct library *l = j->context;
	struct round_args args = { .from = l->from,
				   .to = l->to,
				   .send = l->send_source,
				   .recv = l->recv_source,
				   .bytes = bytes,
				   .first = got,
				   .rounds = rounds };

	if (kernel == &put_signal_kernel)
		got += (uint64_t)rounds / 2;
	return oriel_launch(l->comm, kernel, 1, 1, &args, sizeof(args), NULL);
}

#define LAUNCH(name)                                                                               \
	static int name(struct cases_job *j, size_t bytes, int rounds)                             \
	{                                                                                          \
		return launch(j, &name##_kernel, bytes, rounds);                                   \
	}
LAUNCH(put)
LAUNCH(get)
LAUNCH(put_value)
LAUNCH(get_value)
LAUNCH(fetch_add)
LAUNCH(add)
LAUNCH(swap)
LAUNCH(compare_swap)
LAUNCH(put_signal)
LAUNCH(barrier)
LAUNCH(sync)

/* ---- collectives ----------------------------------------------------------------------------- */

static int meet(struct cases_job *j)
{
	struct library *l = j->context;

	return oriel_window_barrier(l->recv, 2, NULL);
}

typedef int collective(struct cases_job *j, size_t bytes, int turn);

static int repeat(struct cases_job *j, enum cases_data data, size_t bytes, int rounds,
		  collective *call)
{
	int err = 0;

	for (int i = 0; !err && i < rounds; i++) {
		cases_renew(j, data, bytes);
		err = call(j, bytes, i % CASES_GROUP);
		if (!err && i % CASES_GROUP == CASES_GROUP - 1)
			err = meet(j);
	}
	return err;
}

/* OpenSHMEM has two buffers here, and the root's second one is not written. */
static int call_broadcast(struct cases_job *j, size_t bytes, int turn)
{
	struct library *l = j->context;

	(void)turn;
	return oriel_broadcast(l->comm, j->rank ? j->recv : j->send, bytes, 1, 0, NULL);
}

static int call_sum(struct cases_job *j, size_t bytes, int turn)
{
	struct library *l = j->context;

	(void)turn;
	return oriel_allreduce(l->comm, j->send, j->recv, bytes / sizeof(double), ORIEL_TYPE_DOUBLE,
			       ORIEL_REDUCE_SUM, NULL);
}

static int call_gather(struct cases_job *j, size_t bytes, int turn)
{
	struct library *l = j->context;

	return oriel_allgather_exec(l->gather[turn], j->send, bytes, 1, NULL);
}

static int open_gather(struct cases_job *j, size_t bytes)
{
	struct oriel_allgather_options options = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct library *l = j->context;
	int err = 0;

	options.bytes = bytes * (uint64_t)j->nranks;
	for (int i = 0; !err && i < CASES_GROUP; i++)
		err = oriel_allgather_create(l->comm, l->recv, &options, &l->gather[i]);
	return err;
}

static int close_gather(struct cases_job *j)
{
	struct library *l = j->context;
	int err = 0;

	for (int i = 0; i < CASES_GROUP; i++)
		err |= oriel_allgather_destroy(l->gather[i]);
	return err;
}

static int call_alltoall(struct cases_job *j, size_t bytes, int turn)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	struct library *l = j->context;

	(void)turn;
	args.send = j->send;
	args.send_sizes = l->counts;
	args.expect_bytes = bytes;
	return oriel_alltoallv_exec(l->exchange, &args, NULL);
}

static int open_alltoall(struct cases_job *j, size_t bytes)
{
	struct oriel_alltoallv_options options = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct library *l = j->context;

	for (int r = 0; r < j->nranks; r++)
		l->counts[r] = bytes;
	options.slot_bytes = bytes;
	options.expect_bytes = bytes;
	return oriel_alltoallv_create(l->comm, &options, &l->exchange);
}

/* The data lies in memory of the request: it goes where the check looks for it. */
static int close_alltoall(struct cases_job *j)
{
	struct library *l = j->context;
	int right = 1;

	for (int r = 0; right && r < j->nranks; r++)
		right = cases_came_from(j, oriel_alltoallv_slot(l->exchange, r), 1, l->counts[r],
					r);
	if (!right)
		fprintf(stderr, "oriel_shmem_bench: alltoall: wrong data on rank %d\n", j->rank);
	return oriel_alltoallv_destroy(l->exchange) || !right;
}

#define COLLECTIVE(name, data)                                                                     \
	static int name(struct cases_job *j, size_t bytes, int rounds)                             \
	{                                                                                          \
		return repeat(j, data, bytes, rounds, call_##name);                                \
	}
COLLECTIVE(broadcast, CASES_FROM_ROOT)
COLLECTIVE(gather, CASES_BLOCKS)
COLLECTIVE(alltoall, CASES_EXCHANGED)
COLLECTIVE(sum, CASES_SUM)

static const struct cases_case cases[] = {
	{ "put", CASES_FIRST, CASES_AT_SECOND, 0, put, NULL, NULL },
	{ "get", CASES_FIRST, CASES_AT_FIRST, 0, get, NULL, NULL },
	{ "p", CASES_FIRST, CASES_AT_SECOND, 1, put_value, NULL, NULL },
	{ "g", CASES_FIRST, CASES_AT_FIRST, 1, get_value, NULL, NULL },
	{ "fetchadd", CASES_FIRST, CASES_NOTHING, 1, fetch_add, NULL, NULL },
	{ "add", CASES_FIRST, CASES_NOTHING, 1, add, NULL, NULL },
	{ "swap", CASES_FIRST, CASES_NOTHING, 1, swap, NULL, NULL },
	{ "cswap", CASES_FIRST, CASES_NOTHING, 1, compare_swap, NULL, NULL },
	{ "putsignal", CASES_PAIR, CASES_AT_BOTH, 0, put_signal, NULL, NULL },
	{ "barrier", CASES_ALL, CASES_NOTHING, 1, barrier, NULL, NULL },
	{ "sync", CASES_ALL, CASES_NOTHING, 1, sync, NULL, NULL },
	{ "broadcast", CASES_ALL, CASES_FROM_ROOT, 0, broadcast, NULL, NULL },
	{ "fcollect", CASES_ALL, CASES_BLOCKS, 0, gather, open_gather, close_gather },
	{ "collect", CASES_ALL, CASES_BLOCKS, 0, gather, open_gather, close_gather },
	{ "alltoall", CASES_ALL, CASES_NOTHING, 0, alltoall, open_alltoall, close_alltoall },
	{ "sum", CASES_ALL, CASES_SUM, 0, sum, NULL, NULL },
};

/* ---- setup ----------------------------------------------------------------------------------- */

static int open_window(struct cases_job *j, struct oriel_window **window,
		       struct oriel_window_dev *dev, struct oriel_source *source, double **memory)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct library *l = j->context;
	int err;

	options.bytes = (uint64_t)j->nranks * CASES_MOST;
	err = oriel_window_create(l->comm, &options, window);
	if (!err)
		err = oriel_window_device(*window, dev);
	if (err)
		return err;
	*memory = oriel_window_buffer(*window);
	return oriel_window_source(*window, *memory, options.bytes, source);
}

int main(int argc, char **argv)
{
	struct library l = { 0 };
	struct cases_job job = { .context = &l, .meet = meet };
	int err = oriel_init(&l.comm);

	if (err)
		return 1;
	job.rank = oriel_comm_rank(l.comm);
	job.nranks = oriel_comm_size(l.comm);
	bench_pin(job.rank);
	l.counts = calloc((size_t)job.nranks, sizeof(*l.counts));
	if (!l.counts || job.nranks < 2)
		err = ORIEL_EINVAL;
	if (!err)
		err = open_window(&job, &l.send, &l.from, &l.send_source, &job.send);
	if (!err)
		err = open_window(&job, &l.recv, &l.to, &l.recv_source, &job.recv);
	if (!err)
		err = cases_run(&job, argc, argv, "oriel", cases, sizeof(cases) / sizeof(cases[0]));
	if (err) {
		fprintf(stderr, "oriel_shmem_bench: rank %d: error %d\n", job.rank, err);
		oriel_comm_abort(l.comm, ORIEL_EABORTED);
	}
	free(l.counts);
	return oriel_finalize(l.comm) || err;
}
