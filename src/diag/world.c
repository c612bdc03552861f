/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/world.c - finds the comms of this process by their boards, so that a report can ask them.
 *
 * A wait knows its comm only by the flat handle.  Owns the list.  A comm is not unlisted while it
 * is being asked, so every question must end by itself.
 *
 * Called by: comm.c, when a comm begins and ends; late.c, on any thread.
 */
#include <pthread.h>
#include <stdlib.h>

#include "../util/util.h"
#include "diag.h"
#include "report.h"

struct entry {
	const struct oriel_board *board;
	struct ori_diag_world world;
	int asked; /* questions in progress */
	int ready;
	uint64_t told_ns; /* when its rank last printed the graph; 0: never */
	struct entry *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static struct entry *entries;

static struct entry *find(const struct oriel_board *board)
{
	struct entry *e = entries;

	while (e && e->board != board)
		e = e->next;
	return e;
}

int ori_diag_list(const struct oriel_board *board, const struct ori_diag_world *world)
{
	struct entry *e = calloc(1, sizeof(*e)), **at = &entries;

	if (!e)
		return ori_fail(ORIEL_ENOMEM, "no memory to list a comm for reports");
	e->board = board;
	e->world = *world;
	pthread_mutex_lock(&lock);
	while (*at) /* the comm that was created first leads a rank's report */
		at = &(*at)->next;
	*at = e;
	pthread_mutex_unlock(&lock);
	return 0;
}

void ori_diag_ready(const struct oriel_board *board)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(board);
	if (e)
		e->ready = 1;
	pthread_mutex_unlock(&lock);
}

void ori_diag_unlist(const struct oriel_board *board)
{
	struct entry *e, **at = &entries;

	pthread_mutex_lock(&lock);
	/* bounded: the comm answers in bounded time */
	while ((e = find(board)) && e->asked)
		pthread_cond_wait(&answered, &lock);
	while (*at && *at != e)
		at = &(*at)->next;
	if (e)
		*at = e->next;
	pthread_mutex_unlock(&lock);
	free(e);
}

static struct entry *begin(const struct oriel_board *board)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(board);
	if (e)
		e->asked++;
	pthread_mutex_unlock(&lock);
	return e;
}

static void end(struct entry *e)
{
	pthread_mutex_lock(&lock);
	e->asked--;
	pthread_cond_broadcast(&answered);
	pthread_mutex_unlock(&lock);
}

int ori_diag_nranks(const struct oriel_board *board)
{
	struct entry *e = begin(board);
	int n = e ? e->world.nranks : 0;

	if (e)
		end(e);
	return n;
}

struct ori_diag_held *ori_diag_hold(const struct oriel_board *board, struct ori_diag_world *world)
{
	struct entry *e = begin(board);

	if (e)
		*world = e->world;
	return (struct ori_diag_held *)e;
}

void ori_diag_drop(struct ori_diag_held *held)
{
	end((struct entry *)held);
}

int ori_diag_signal_from(const struct oriel_board *board, int window, int id, int rank,
			 uint64_t *value)
{
	struct entry *e = begin(board);
	int known = 0;

	if (!e)
		return 0;
	known = e->world.signal_from(e->world.ctx, window, id, rank, value);
	end(e);
	return known;
}

int ori_diag_ask(const struct oriel_board *board, int rank, int brief, char *out, size_t bytes)
{
	struct entry *e = begin(board);
	int told = 0;

	if (!e)
		return 0;
	told = e->world.ask(e->world.ctx, rank, brief, out, bytes);
	end(e);
	return told;
}

int ori_diag_late_source(const struct oriel_board *board, int rank, int window, int id)
{
	int nranks = ori_diag_nranks(board), late = -1;
	uint64_t value, least = 0;

	for (int i = 1; i <= nranks; i++) {
		int r = (rank + i) % nranks; /* this rank is the last: few signal themselves */

		if (ori_diag_signal_from(board, window, id, r, &value) &&
		    (late < 0 || value < least)) {
			late = r;
			least = value;
		}
	}
	return late;
}

/* ---- ranks of the job ------------------------------------------------------------------------ */

/* The next entry of a rank of the job after `last`, held as by begin(); drops `last`. */
static struct entry *next_of(struct entry *last, uint64_t job, int job_rank)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = last ? last->next : entries;
	while (e && (e->world.job != job || e->world.job_rank != job_rank))
		e = e->next;
	if (e)
		e->asked++;
	pthread_mutex_unlock(&lock);
	if (last)
		end(last);
	return e;
}

void ori_diag_told(uint64_t job, int job_rank)
{
	struct entry *e = NULL;

	while ((e = next_of(e, job, job_rank)))
		/* relaxed: only the time counts */
		__atomic_store_n(&e->told_ns, ori_now_ns(), __ATOMIC_RELAXED);
}

void ori_diag_report(uint64_t job, int job_rank, int full, char *out, size_t bytes)
{
	struct ori_lines lines;
	struct entry *e = NULL;
	uint64_t told = 0;
	int first = 1;

	ori_lines_begin(&lines, out, bytes);
	while ((e = next_of(e, job, job_rank))) {
		uint64_t ns = __atomic_load_n(&e->told_ns, __ATOMIC_RELAXED);
		int ready;

		pthread_mutex_lock(&lock);
		ready = e->ready;
		pthread_mutex_unlock(&lock);
		told = ns > told ? ns : told;
		e->world.report(e->world.ctx, &lines, first, ready, full);
		first = 0;
	}
	if (told)
		ori_lines_add(&lines, "told %llu",
			      (unsigned long long)((ori_now_ns() - told) / 1000));
}

/* Is there an earlier entry of the same rank?  Lock held. */
static int is_repeated(const struct entry *e)
{
	for (struct entry *f = entries; f != e; f = f->next)
		if (f->world.job == e->world.job && f->world.job_rank == e->world.job_rank)
			return 1;
	return 0;
}

int ori_diag_member(int n, uint64_t *job, int *job_rank, int *job_ranks)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	for (e = entries; e; e = e->next)
		if (!is_repeated(e) && n-- == 0)
			break;
	if (e) {
		*job = e->world.job;
		*job_rank = e->world.job_rank;
		*job_ranks = e->world.job_ranks;
	}
	pthread_mutex_unlock(&lock);
	return e != NULL;
}

/* The rank of a comm that is rank `job_rank` of the job; -1: none. */
static int in_comm(const struct ori_diag_world *w, int job_rank)
{
	if (!w->world)
		return job_rank < w->nranks ? job_rank : -1;
	for (int r = 0; r < w->nranks; r++)
		if (w->world[r] == job_rank)
			return r;
	return -1;
}

void ori_diag_ask_report(uint64_t job, int job_rank, char *out, size_t bytes, uint64_t timeout_ns)
{
	struct entry *e;

	out[0] = '\0';
	pthread_mutex_lock(&lock);
	for (e = entries; e; e = e->next)
		if (e->ready && e->world.job == job && in_comm(&e->world, job_rank) >= 0)
			break;
	if (e)
		e->asked++;
	pthread_mutex_unlock(&lock);
	if (!e)
		return;
	e->world.ask_report(e->world.ctx, in_comm(&e->world, job_rank), out, bytes, timeout_ns);
	end(e);
}
