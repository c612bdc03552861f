/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/oriel.c - the cases of bench/coll with Oriel: persistent all-gather, all-to-all-v.
 *
 * Usage, under oriel-run:  oriel_coll [PREFIX [CASE [ALGORITHM]]]
 *	PREFIX     of the names of the figures (default oriel)
 *	CASE       only this case: gather_1m, exchange_64k, skew_64k, ...; all: every case
 *	ALGORITHM  of the all-gather: auto, direct, ring, doubling
 * Data is sent from memory of the program, as with MPI.  Ranks are pinned as in the other programs.
 * Rank 0 prints lines "oriel_gather8_64k value us"; the value is that of the slowest rank.
 */
#include <oriel/coll.h>

#include "coll.h"

/*
 * Every rank sends and gets as much as with the uniform split of that size, so the busiest link is
 * as busy.
 */
static const struct coll_case skewed[] = {
	{ COLL_EXCHANGE, "64k", 64u << 10, 1 },
	{ COLL_EXCHANGE, "1m", 1u << 20, 1 },
};
#define SKEWED (sizeof(skewed) / sizeof(skewed[0]))

struct job {
	struct oriel_comm *comm;
	int rank, nranks, algorithm;
	uint8_t *send;
	struct oriel_window *window; /* of an all-gather */
	struct oriel_allgather_request *gather;
	struct oriel_alltoallv_request *exchange;
	uint64_t *sizes;
};

static int call(const struct job *job, const struct coll_case *c)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;

	if (c->op == COLL_GATHER)
		return oriel_allgather_exec(job->gather, job->send, c->bytes, 1, NULL);
	args.send = job->send;
	args.send_sizes = job->sizes;
	return oriel_alltoallv_exec(job->exchange, &args, NULL);
}

static int open_gather(struct job *job, const struct coll_case *c)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	w.bytes = coll_recv_bytes(c, job->nranks);
	o.algorithm = job->algorithm;
	err = oriel_window_create(job->comm, &w, &job->window);
	return err ? err : oriel_allgather_create(job->comm, job->window, &o, &job->gather);
}

static int open_exchange(struct job *job, const struct coll_case *c)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;

	o.slot_bytes = coll_slot(c, job->nranks);
	return oriel_alltoallv_create(job->comm, &o, &job->exchange);
}

static int open_case(struct job *job, const struct coll_case *c)
{
	job->send = coll_alloc(coll_send_bytes(c, job->nranks));
	job->sizes = malloc((size_t)job->nranks * sizeof(*job->sizes));
	if (!job->send || !job->sizes)
		return ORIEL_ENOMEM;
	coll_fill(job->send, c, job->rank, job->nranks);
	for (int r = 0; r < job->nranks; r++)
		job->sizes[r] = coll_part(c, job->nranks, job->rank, r);
	return c->op == COLL_GATHER ? open_gather(job, c) : open_exchange(job, c);
}

static int close_case(struct job *job)
{
	int err = oriel_allgather_destroy(job->gather);

	if (!err)
		err = oriel_window_destroy(job->window);
	if (!err)
		err = oriel_alltoallv_destroy(job->exchange);
	free(job->send);
	free(job->sizes);
	job->gather = NULL;
	job->window = NULL;
	job->exchange = NULL;
	return err;
}

static uint8_t *received(struct job *job, const struct coll_case *c)
{
	return c->op == COLL_GATHER ? oriel_window_buffer(job->window) :
				      oriel_alltoallv_recv_buffer(job->exchange);
}

/* What each rank tells after a case. */
struct result {
	double us[BENCH_BLOCKS];
	uint64_t wrong;
};

static int report(struct job *job, const struct coll_case *c, const char *prefix,
		  const struct result *mine)
{
	struct result *all = calloc((size_t)job->nranks, sizeof(*all));
	double us[BENCH_BLOCKS] = { 0 };
	uint64_t wrong = 0;
	int err = all ? oriel_comm_allgather(job->comm, ORIEL_WORLD, mine, all, sizeof(*mine)) :
			ORIEL_ENOMEM;

	for (int r = 0; !err && r < job->nranks; r++) {
		wrong += all[r].wrong;
		for (int b = 0; b < BENCH_BLOCKS; b++)
			us[b] = all[r].us[b] > us[b] ? all[r].us[b] : us[b];
	}
	free(all);
	if (err || job->rank)
		return err ? err : wrong ? ORIEL_EPROTO : 0;
	return coll_print(prefix, c, job->nranks, bench_median(us, BENCH_BLOCKS), wrong) ?
		       ORIEL_EPROTO :
		       0;
}

static int run_case(struct job *job, const struct coll_case *c, const char *prefix)
{
	struct result mine = { .wrong = 0 };
	int n = coll_loops(c, job->nranks), err = open_case(job, c);

	for (int b = -1; !err && b < BENCH_BLOCKS; b++) { /* the first is the warm-up */
		double start;

		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
		start = bench_now();
		for (int i = 0; !err && i < n; i++)
			err = call(job, c);
		if (b >= 0)
			mine.us[b] = (bench_now() - start) * 1e6 / n;
	}
	if (!err)
		mine.wrong = coll_wrong(received(job, c), c, job->rank, job->nranks);
	if (!err)
		err = report(job, c, prefix, &mine);
	return err ? err : close_case(job);
}

static int is_wanted(const struct coll_case *c, const char *name)
{
	char own[64];

	snprintf(own, sizeof(own), "%s_%s", coll_name(c), c->size);
	return !strcmp(name, "all") || !strcmp(name, own);
}

static int find_algorithm(const char *name)
{
	static const char *const names[] = { "auto", "direct", "ring", "doubling" };

	for (int i = 0; i < 4; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

int main(int argc, char **argv)
{
	const char *prefix = argc > 1 ? argv[1] : "oriel", *wanted = argc > 2 ? argv[2] : "all";
	struct job job = { .algorithm = argc > 3 ? find_algorithm(argv[3]) : 0 };
	struct oriel_boot *boot = NULL;
	int err;

	if (argc > 4 || job.algorithm < 0) {
		fprintf(stderr, "usage: oriel_coll [PREFIX [CASE [auto|direct|ring|doubling]]]\n");
		return 2;
	}
	err = oriel_boot_env(&boot);
	if (!err)
		err = oriel_comm_create(boot, NULL, &job.comm);
	oriel_boot_destroy(boot);
	if (!err) {
		job.rank = oriel_comm_rank(job.comm);
		job.nranks = oriel_comm_size(job.comm);
		bench_pin(job.rank);
	}
	for (size_t i = 0; !err && i < COLL_CASES; i++)
		if (is_wanted(&coll_cases[i], wanted))
			err = run_case(&job, &coll_cases[i], prefix);
	for (size_t i = 0; !err && i < SKEWED; i++)
		if (is_wanted(&skewed[i], wanted))
			err = run_case(&job, &skewed[i], prefix);
	if (err) {
		fprintf(stderr, "oriel_coll: rank %d: %s\n", job.rank, oriel_status_text(err));
		if (job.comm)
			oriel_comm_abort(job.comm, err);
	}
	return (job.comm && oriel_comm_destroy(job.comm)) || err;
}
