/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/verify.c - the steps of oriel-info --verify: the ranks meet, check, test
 * pairs, exchange results.
 *
 * Under a launcher this process is one rank.  Alone it starts ranks as threads, two per node, so
 * that it tests both mapped and queued pairs.  If a step hangs, a watchdog ends the program
 * in time, with a report that names the step.
 *
 * Threads: one per rank in this process, and the watchdog.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../../boot/boot.h"
#include "../../util/util.h"
#include "verify.h"

#define ALONE_RANKS 4
#define ALONE_LAYOUT "2x2"
#define ALONE_RANKS_MAX 16

/* The first message of a rank; fixed layout. */
struct hello {
	struct ori_facts facts;
	char version[32];
	int32_t lanes, facts_err;
};

/* State of a rank's thread. */
struct rank {
	const struct info *info;
	const struct ori_config *config;
	const struct ori_facts *facts;
	int facts_err, threads;
	const char *layout; /* NULL: as configured */
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct hello *hellos;
	struct verify v;
	pthread_t thread;
};

/* ---- watchdog -------------------------------------------------------------------------------- */

static int step = VERIFY_RENDEZVOUS;                           /* atomic: the check under way */
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER; /* held while printing */
static uint64_t start_ns;
static int prints_json;
static int speaks; /* atomic: this process has rank 0, so it prints */

static void print(const struct verify *v)
{
	if (prints_json)
		verify_print_json(v);
	else
		verify_print_text(v);
	fflush(stdout);
}

static void clear_checks(struct verify *v)
{
	for (int i = 0; i < VERIFY_CHECKS; i++)
		verify_set(&v->checks[i], VERIFY_SKIPPED, "", "not reached");
}

static void *watchdog_main(void *arg)
{
	static struct verify v;
	int at;

	(void)arg;
	ori_sleep_ns((VERIFY_SECONDS - 1) * ORI_NS_PER_S);
	at = __atomic_load_n(&step, __ATOMIC_RELAXED);
	pthread_mutex_lock(&print_lock); /* never unlocked: nothing is printed after this */
	if (__atomic_load_n(&speaks, __ATOMIC_RELAXED)) {
		v.nranks = 1;
		v.lanes = 1;
		v.seconds = (double)(ori_now_ns() - start_ns) / 1e9;
		clear_checks(&v);
		verify_set(&v.checks[at], VERIFY_FAILED,
			   "run again with ORIEL_LOG=debug; the last line names the late rank",
			   "\"%s\" did not end within %d s", verify_check_name(at),
			   VERIFY_SECONDS - 1);
		print(&v);
	}
	_exit(1);
}

static void start_watchdog(void)
{
	pthread_t thread;

	start_ns = ori_now_ns();
	if (!pthread_create(&thread, NULL, watchdog_main, NULL))
		pthread_detach(thread);
}

static void enter(int check)
{
	__atomic_store_n(&step, check, __ATOMIC_RELAXED);
}

/* ---- one rank -------------------------------------------------------------------------------- */

static int meet(struct rank *r)
{
	struct hello mine;
	int err;

	memset(&mine, 0, sizeof(mine));
	mine.facts = *r->facts;
	snprintf(mine.version, sizeof(mine.version), "%s", oriel_version());
	mine.lanes = r->config->lanes;
	mine.facts_err = r->facts_err;
	r->hellos = calloc((size_t)r->v.nranks, sizeof(*r->hellos));
	err = r->hellos ? r->boot->ops->allgather(r->boot, &mine, r->hellos, sizeof(mine),
						  VERIFY_MEET_NS) :
			  ORIEL_ENOMEM;
	return err;
}

/* Number of ranks on this rank's host; sets lanes and gpu, alike on all ranks. */
static int look_around(struct rank *r)
{
	struct verify *v = &r->v;
	int local = 0;

	v->lanes = 1;
	for (int i = 0; i < v->nranks; i++) {
		const struct hello *h = &r->hellos[i];

		local += h->facts.host_id == r->facts->host_id;
		v->gpu |= h->facts.device != ORI_DEVICE_CPU;
		if (h->lanes > v->lanes && h->lanes <= VERIFY_LANES_MAX)
			v->lanes = h->lanes;
		if (strncmp(h->version, oriel_version(), sizeof(h->version)))
			verify_set(&v->checks[VERIFY_VERSION], VERIFY_FAILED,
				   "install the same Oriel for all ranks",
				   "rank %d has Oriel %.31s, this rank %s", i, h->version,
				   oriel_version());
	}
	if (v->gpu)
		v->lanes = 1;
	return local;
}

static void check_rank(struct rank *r)
{
	struct verify_check *checks = r->v.checks;

	verify_set(&checks[VERIFY_VERSION], VERIFY_OK, "", "all ranks have Oriel %s",
		   oriel_version());
	verify_local(r->info, r->v.nranks, look_around(r), checks);
	if (r->facts_err)
		verify_set(&checks[VERIFY_DEVICE], VERIFY_FAILED, verify_remedy(r->facts_err),
			   "device %.60s: %.120s", r->config->device, r->info->job.error);
	else
		verify_set(&checks[VERIFY_DEVICE], VERIFY_OK, "", "%.60s opens", r->config->device);
	verify_set(&checks[VERIFY_RENDEZVOUS], VERIFY_OK, "", "%d ranks met by \"%s\" after %.2f s",
		   r->v.nranks, r->boot->ops->name, (double)(ori_now_ns() - start_ns) / 1e9);
}

/* Creates the comm and tests the pairs.  A rank that cannot do so tells the others. */
static void try_pairs(struct rank *r, struct verify_cell *row)
{
	struct oriel_comm_options options = ORIEL_COMM_OPTIONS_INIT;
	struct verify_check *checks = r->v.checks;
	int err;

	options.topology = r->layout;
	enter(VERIFY_COMM);
	err = oriel_comm_create(r->boot, &options, &r->comm);
	if (err) {
		verify_set(&checks[VERIFY_COMM], VERIFY_FAILED, verify_remedy(err), "%s",
			   ori_last_error_text());
		r->comm = NULL;
		return;
	}
	verify_set(&checks[VERIFY_COMM], VERIFY_OK, "", "%d nodes", oriel_comm_nodes(r->comm));
	enter(VERIFY_WINDOW);
	verify_pairs(&r->v, r->boot, r->comm, row, &r->window);
	oriel_comm_engine(r->comm, r->v.engine, sizeof(r->v.engine));
}

/* All ranks have the results.  Destroying things normally could wait for what hangs. */
static void take_down(struct rank *r)
{
	if (!r->comm)
		return;
	if (verify_is_good(&r->v))
		oriel_window_destroy(r->window);
	else
		oriel_comm_abort(r->comm, ORIEL_EABORTED);
	oriel_comm_destroy(r->comm);
}

/* Merges the checks of all ranks: keeps the worst state of each, and its rank. */
static void merge(struct verify *v, const unsigned char *all, size_t bytes)
{
	for (int rank = 0; rank < v->nranks; rank++) {
		const struct verify_check *theirs = (const void *)(all + (size_t)rank * bytes);

		for (int i = 0; i < VERIFY_CHECKS; i++) {
			struct verify_check *c = &v->checks[i];

			if (rank && theirs[i].state <= c->state)
				continue;
			*c = theirs[i];
			c->rank = rank;
			c->cause[VERIFY_TEXT - 1] = c->remedy[VERIFY_TEXT - 1] = '\0';
			if (c->state < VERIFY_OK || c->state > VERIFY_FAILED)
				c->state = VERIFY_FAILED;
		}
	}
}

/* A message of a rank is its checks, then its row of cells. */
static int tell_all(struct rank *r, unsigned char *mine, size_t checks_bytes, size_t row_bytes)
{
	size_t bytes = checks_bytes + row_bytes;
	unsigned char *all = malloc((size_t)r->v.nranks * bytes);
	int err;

	memcpy(mine, r->v.checks, checks_bytes);
	r->v.cells = malloc((size_t)r->v.nranks * row_bytes);
	if (!all || !r->v.cells) {
		free(all);
		return ori_fail(ORIEL_ENOMEM, "no memory for the results of %d ranks", r->v.nranks);
	}
	err = r->boot->ops->allgather(r->boot, mine, all, bytes, VERIFY_MEET_NS);
	for (int i = 0; i < r->v.nranks && !err; i++)
		memcpy((unsigned char *)r->v.cells + (size_t)i * row_bytes,
		       all + (size_t)i * bytes + checks_bytes, row_bytes);
	if (!err)
		merge(&r->v, all, bytes);
	free(all);
	return err;
}

static void drop_cells(struct verify *v)
{
	free(v->cells);
	v->cells = NULL;
}

static int exchange_and_try(struct rank *r)
{
	size_t checks_bytes = sizeof(r->v.checks), row_bytes;
	unsigned char *mine;
	int err = meet(r);

	if (err)
		return err;
	check_rank(r);
	row_bytes = (size_t)r->v.nranks * (size_t)r->v.lanes * sizeof(struct verify_cell);
	mine = malloc(checks_bytes + row_bytes);
	if (!mine)
		return ori_fail(ORIEL_ENOMEM, "no memory for %d ranks", r->v.nranks);
	memset(mine + checks_bytes, VERIFY_NOT_RUN, row_bytes);
	try_pairs(r, (struct verify_cell *)(void *)(mine + checks_bytes));
	enter(VERIFY_RENDEZVOUS);
	err = tell_all(r, mine, checks_bytes, row_bytes);
	free(mine);
	if (r->v.checks[VERIFY_COMM].state != VERIFY_OK ||
	    r->v.checks[VERIFY_WINDOW].state != VERIFY_OK)
		drop_cells(&r->v);
	return err;
}

static void run_rank(struct rank *r)
{
	int err;

	r->v.rank = r->boot->rank;
	r->v.nranks = r->boot->nranks;
	r->v.threads = r->threads;
	clear_checks(&r->v);
	err = exchange_and_try(r);
	if (err) {
		drop_cells(&r->v);
		verify_set(&r->v.checks[VERIFY_RENDEZVOUS], VERIFY_FAILED, verify_remedy(err), "%s",
			   ori_last_error_text());
	}
	r->v.seconds = (double)(ori_now_ns() - start_ns) / 1e9;
	take_down(r);
	free(r->hellos);
}

/* ---- ranks as threads ------------------------------------------------------------------------ */

static void *thread_main(void *arg)
{
	struct rank *r = arg;

	ori_log_rank_set(r->boot->rank);
	run_rank(r);
	oriel_boot_destroy(r->boot);
	return NULL;
}

/* The number of ranks in the configured layout. */
static int alone_ranks(const struct ori_config *config)
{
	int node[ALONE_RANKS_MAX];

	if (!config->topology[0])
		return ALONE_RANKS;
	for (int n = 2; n <= ALONE_RANKS_MAX; n++) {
		if (!ori_layout_parse(config->topology, n, node))
			return n;
	}
	return ALONE_RANKS; /* a bad layout: the comm reports the error */
}

static int run_alone(const struct rank *like, struct verify *out)
{
	struct oriel_boot *boots[ALONE_RANKS_MAX];
	struct rank *ranks = calloc(ALONE_RANKS_MAX, sizeof(*ranks));
	int n = alone_ranks(like->config), started = 0, err;

	if (!ranks)
		return ori_fail(ORIEL_ENOMEM, "no memory for %d ranks", n);
	err = oriel_boot_threads(n, boots);
	for (; started < n && !err; started++) {
		struct rank *r = &ranks[started];

		*r = *like;
		r->boot = boots[started];
		r->layout = like->config->topology[0] ? NULL : ALONE_LAYOUT;
		if (pthread_create(&r->thread, NULL, thread_main, r))
			err = ori_fail(ORIEL_ESYSTEM, "cannot start a thread for rank %d", started);
	}
	started -= err != 0 && started > 0;
	for (int i = 0; i < started; i++)
		pthread_join(ranks[i].thread, NULL);
	if (!err)
		*out = ranks[0].v;
	for (int i = !err; i < started; i++)
		free(ranks[i].v.cells);
	free(ranks);
	return err;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Makes waits shorter than in a job.  Keeps shorter ones that the user has set. */
static void shorten_waits(void)
{
	const char *timeout = getenv("ORIEL_TIMEOUT"), *late = getenv("ORIEL_LATE");

	if (!timeout || atof(timeout) > 6)
		setenv("ORIEL_TIMEOUT", "6", 1);
	if (!late || atof(late) > 2)
		setenv("ORIEL_LATE", "2", 1);
}

static void fail_alone(struct verify *v, enum verify_name check, int err)
{
	v->nranks = v->nranks ? v->nranks : 1;
	v->lanes = 1;
	v->seconds = (double)(ori_now_ns() - start_ns) / 1e9;
	clear_checks(v);
	verify_set(&v->checks[check], VERIFY_FAILED, verify_remedy(err), "%s",
		   ori_last_error_text());
}

static void gather_and_run(struct info *info, struct verify *v)
{
	struct ori_config config;
	struct ori_facts facts;
	struct rank r = { .info = info, .config = &config, .facts = &facts };
	int known, err;

	memset(&facts, 0, sizeof(facts));
	info_gather_here(info);
	err = info_gather_config(info, &config);
	if (err) {
		fail_alone(v, VERIFY_VARIABLES, err);
		return;
	}
	known = info->problems; /* of variables; problems of the device have their own check */
	r.facts_err = info_gather_facts(info, &config, &facts);
	if (r.facts_err)
		snprintf(info->job.error, sizeof(info->job.error), "%s", ori_last_error_text());
	info->problems = known;
	r.threads = !info_has_launcher();
	err = r.threads ? run_alone(&r, v) : oriel_boot_env(&r.boot);
	if (err) {
		fail_alone(v, VERIFY_RENDEZVOUS, err);
	} else if (!r.threads) {
		__atomic_store_n(&speaks, r.boot->rank == 0, __ATOMIC_RELAXED);
		run_rank(&r);
		*v = r.v;
		oriel_boot_destroy(r.boot);
	}
}

int verify_main(int json)
{
	struct info *info = calloc(1, sizeof(*info));
	struct verify v = { .rank = 0 };
	int status;

	prints_json = json;
	speaks = info_rank_by_name() == 0;
	shorten_waits();
	start_watchdog();
	if (!info) {
		fprintf(stderr, "oriel-info: out of memory\n");
		return 1;
	}
	gather_and_run(info, &v);
	pthread_mutex_lock(&print_lock);
	if (speaks)
		print(&v);
	/* An error status of another rank would end the job before rank 0 has printed. */
	status = speaks || !v.cells ? !verify_is_good(&v) : 0;
	free(v.cells);
	free(info);
	return status;
}
