/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/reports.c - connects reports of late waits (src/diag) with the comm.
 *
 * It answers other ranks that wait for this one.  For its own reports it finds out what another
 * rank waits for (struct ori_diag_world): it reads the board of a mapped peer in memory, and asks
 * other ranks through the boot.  Nothing here runs before a wait is late.
 */
#include <stdio.h>

#include "../diag/diag.h"
#include "agree.h"
#include "control.h"
#include "imports.h"
#include "object.h"
#include "reports.h"

/* A running rank answers in milliseconds.  One that does not is suspended or cannot be reached. */
#define ASK_NS ORI_NS_PER_S

/* Runs on a thread of the boot, under the boot's lock. */
static void answer(void *ctx, char *out, size_t bytes)
{
	struct oriel_comm *c = ctx;
	uint32_t fetching = __atomic_load_n(&c->fetching, __ATOMIC_RELAXED);

	if (fetching)
		snprintf(out, bytes, "itself waits in %s for memory of rank %d",
			 ori_call_name(ORI_FETCHING_CALL(fetching)), ORI_FETCHING_RANK(fetching));
	else
		ori_diag_board_text(&c->control->board, out, bytes);
}

static int ask(void *ctx, int rank, char *out, size_t bytes)
{
	struct oriel_comm *c = ctx;
	int err;

	if (c->peers[rank].control) {
		ori_diag_board_text(&c->peers[rank].control->board, out, bytes);
		return 1;
	}
	err = c->boot->ops->ask(c->boot, rank, out, bytes, ASK_NS);
	if (err == ORIEL_ETIMEDOUT)
		snprintf(out, bytes, "does not answer");
	return !err || err == ORIEL_ETIMEDOUT;
}

static int signal_from(void *ctx, int window, int id, int rank, uint64_t *value)
{
	struct oriel_comm *c = ctx;
	int known = 0;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child && !known; child = child->next)
		known = child->signal_from && child->signal_from(child, window, id, rank, value);
	pthread_mutex_unlock(&c->lock);
	return known;
}

int ori_reports_open(struct oriel_comm *c)
{
	struct ori_diag_world world = { c, c->nranks, signal_from, ask };
	int err = ori_diag_list(&c->control->board, &world);

	if (!err)
		c->boot->ops->answer(c->boot, answer, c);
	return err;
}

void ori_reports_close(struct oriel_comm *c)
{
	if (!c->control)
		return;
	c->boot->ops->answer(c->boot, NULL, NULL);
	ori_diag_unlist(&c->control->board);
}
