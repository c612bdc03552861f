/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/threads_group.c - the group that thread ranks share: its memory and its references.
 *
 * The lowest of the files of this boot.  Called by: threads.c and threads_meet.c, on threads of the
 * ranks.
 */
#include <stdlib.h>

#include "threads.h"

static void group_free(struct thread_group *g)
{
	pthread_mutex_destroy(&g->lock);
	pthread_cond_destroy(&g->cond);
	free(g->world);
	free(g->gone);
	free(g->watches);
	free(g);
}

int ori_thread_group_create(int n, uint64_t late_ns, const int *members, const int *world,
			    struct thread_group **out)
{
	struct thread_group *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return ori_fail(ORIEL_ENOMEM, "no memory for a group of %d threads", n);
	err = ori_boot_cond_init(&g->cond);
	if (err) {
		free(g);
		return err;
	}
	pthread_mutex_init(&g->lock, NULL);
	g->n = n;
	g->late_ns = late_ns;
	g->world = calloc((size_t)n, sizeof(*g->world));
	g->gone = calloc((size_t)n, 1);
	g->watches = calloc((size_t)n, sizeof(*g->watches));
	if (!g->world || !g->gone || !g->watches) {
		group_free(g);
		return ori_fail(ORIEL_ENOMEM, "no memory for a group of %d threads", n);
	}
	for (int i = 0; i < n; i++)
		g->world[i] = members ? world[members[i]] : i;
	*out = g;
	return 0;
}

void ori_thread_offers_destroy(struct thread_offer *offer)
{
	while (offer) {
		struct thread_offer *next = offer->next;

		ori_thread_group_drop(offer->group);
		free(offer->members);
		free(offer);
		offer = next;
	}
}

static void group_hold(struct thread_group *g)
{
	pthread_mutex_lock(&g->lock);
	g->refs++;
	pthread_mutex_unlock(&g->lock);
}

void ori_thread_group_drop(struct thread_group *g)
{
	int last;

	pthread_mutex_lock(&g->lock);
	last = --g->refs == 0;
	pthread_mutex_unlock(&g->lock);
	if (!last)
		return;
	ori_thread_offers_destroy(g->offers);
	ori_round_destroy_all(&g->gathers);
	ori_round_destroy_all(&g->meetings);
	group_free(g);
}

int ori_thread_boot_create(struct thread_group *g, const struct ori_boot_backend *ops, int rank,
			   struct oriel_boot **out)
{
	struct thread_boot *b = calloc(1, sizeof(*b));

	if (!b)
		return ori_fail(ORIEL_ENOMEM, "no memory for the boot of rank %d", rank);
	ori_boot_init(&b->base, ops, rank, g->n);
	b->group = g;
	group_hold(g);
	*out = &b->base;
	return 0;
}
