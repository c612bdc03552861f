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

struct entry {
	const struct oriel_board *board;
	struct ori_diag_world world;
	int asked; /* questions in progress */
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
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return ori_fail(ORIEL_ENOMEM, "no memory to list a comm for reports");
	e->board = board;
	e->world = *world;
	pthread_mutex_lock(&lock);
	e->next = entries;
	entries = e;
	pthread_mutex_unlock(&lock);
	return 0;
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

int ori_diag_ask(const struct oriel_board *board, int rank, char *out, size_t bytes)
{
	struct entry *e = begin(board);
	int told = 0;

	if (!e)
		return 0;
	told = e->world.ask(e->world.ctx, rank, out, bytes);
	end(e);
	return told;
}
