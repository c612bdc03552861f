/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * set.c - sets of PEs: what they own in Oriel, and their collectives.
 *
 * The collectives are those of Oriel's device API, called on the caller's thread: no launch, and
 * any memory.  Oriel compares the calls of all PEs, so different sizes end the job with a message.
 * Mapped PEs have faster ones (direct.c), and come here if their data is not symmetric.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/device/coll.h>

#include "cards.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct osh_set *sets; /* under list_lock */

/* ---- life ------------------------------------------------------------------------------------ */

void osh_set_open(struct osh_set *s, const int *world, int n, int rank, int owned)
{
	memset(s, 0, sizeof(*s));
	s->world = world;
	s->n = n;
	s->rank = rank;
	s->owned = owned;
	s->mapped = 1;
	/* A node is a set of ranks in which all pairs are mapped. */
	for (int i = 0; i < n; i++)
		s->mapped &= oriel_comm_node(osh.comm, world[i]) ==
			     oriel_comm_node(osh.comm, world[0]);
	pthread_mutex_lock(&list_lock);
	s->next = sets;
	sets = s;
	pthread_mutex_unlock(&list_lock);
}

void osh_set_name(const char *call, struct osh_set *s, const struct osh_set *parent, int number)
{
	int above = parent ? parent->depth : 0;

	s->depth = above + 1;
	s->name = osh_set_scratch(call, (uint64_t)s->depth * sizeof(*s->name));
	for (int i = 0; i < above; i++)
		s->name[i] = parent->name[i];
	s->name[above] = number;
}

static void take_out(struct osh_set *s)
{
	struct osh_set **at = &sets;

	pthread_mutex_lock(&list_lock);
	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
	pthread_mutex_unlock(&list_lock);
}

void osh_set_close(const char *call, struct osh_set *s)
{
	take_out(s);
	osh_check(call, oriel_team_destroy(s->rounds));
	osh_check(call, oriel_window_destroy(s->meeting));
	osh_cards_close(s);
	if (s->comm != osh.comm)
		osh_check(call, oriel_comm_destroy(s->comm));
	free((void *)s->world);
	free(s->name);
	if (s->owned)
		free(s);
}

/* As strcmp(): a list that begins another one comes first. */
static int compare_lists(const int *a, int na, const int *b, int nb)
{
	for (int i = 0; i < na && i < nb; i++) {
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	}
	return (na > nb) - (na < nb);
}

static int goes_before(const struct osh_set *a, const struct osh_set *b)
{
	int order = compare_lists(a->world, a->n, b->world, b->n);

	if (!order)
		order = compare_lists(a->name, a->depth, b->name, b->depth);
	return order < 0;
}

/*
 * Closing a set is collective over its PEs.  A PE that closed sets in the order of their age could
 * wait for one that does so in another order: threads of a PE make sets in any order.  PEs and name
 * of a set are the same on all its PEs, and no two sets share both.
 */
void osh_sets_close(void)
{
	while (sets) {
		struct osh_set *first = sets;

		for (struct osh_set *s = sets; s; s = s->next) {
			if (goes_before(s, first))
				first = s;
		}
		osh_set_close("shmem_finalize", first);
	}
}

struct oriel_comm *osh_set_comm(const char *call, struct osh_set *s)
{
	if (!s->comm)
		osh_check(call, oriel_comm_subset(osh.comm, s->world, s->n, s->name[0], &s->comm));
	return s->comm;
}

static void make_rounds(const char *call, struct osh_set *s)
{
	osh_check(call, oriel_team_create(osh_set_comm(call, s), NULL, &s->rounds));
	osh_check(call, oriel_team_device(s->rounds, &s->dev));
}

static void make_meeting(const char *call, struct osh_set *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = s->mapped ? osh_cards_bytes(s->n) : 0;
	o.signals = 0;
	o.counters = 0;
	o.barriers = 1;
	osh_check(call, oriel_window_create(osh_set_comm(call, s), &o, &s->meeting));
	osh_check(call, oriel_window_device(s->meeting, &s->barrier));
	if (s->mapped)
		osh_cards_open(call, s);
}

void *osh_set_scratch(const char *call, uint64_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		osh_fail(call, "no memory for %llu bytes of scratch", (unsigned long long)bytes);
	return memory;
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* The rounds of a set, for a call that begins. */
static inline const struct oriel_team_dev *rounds(const char *call, struct osh_set *s)
{
	if (OSH_UNLIKELY(!s->rounds))
		make_rounds(call, s);
	return &s->dev;
}

/* A device call keeps no text: the team has it. */
static void check_rounds(const char *call, struct osh_set *s, int err)
{
	if (OSH_LIKELY(!err))
		return;
	(void)oriel_team_status(s->rounds);
	osh_fail_status(call, err);
}

void osh_set_ready(const char *call, struct osh_set *s)
{
	if (OSH_UNLIKELY(!s->meeting))
		make_meeting(call, s);
}

void osh_set_meet(const char *call, struct osh_set *s)
{
	osh_set_ready(call, s);
	osh_check(call, oriel_barrier_arrive_wait(&s->barrier, osh.context.group, 0));
}

void osh_set_broadcast(const char *call, struct osh_set *s, void *data, uint64_t bytes, int root)
{
	check_rounds(call, s,
		     oriel_coll_broadcast(rounds(call, s), osh.context.group, 0, data, bytes,
					  root));
}

void osh_set_gather(const char *call, struct osh_set *s, const void *source, void *dest,
		    uint64_t bytes)
{
	check_rounds(call, s,
		     oriel_coll_allgather(rounds(call, s), osh.context.group, 0, source, dest,
					  bytes));
}

void osh_set_compare(const char *call, struct osh_set *s, uint64_t nelems)
{
	uint64_t bytes = (uint64_t)s->n * sizeof(nelems);
	uint64_t *all = osh_set_scratch(call, bytes);

	memset(all, 0, bytes); /* static analysis does not follow what peers write */
	osh_set_gather(call, s, &nelems, all, sizeof(nelems));
	for (int i = 1; i < s->n; i++) {
		if (all[i] != all[0])
			osh_fail(call, "PE %d gives %llu elements, PE %d %llu", s->world[i],
				 (unsigned long long)all[i], s->world[0],
				 (unsigned long long)all[0]);
	}
	free(all);
}

void osh_set_exchange(const char *call, struct osh_set *s, const void *source, void *dest,
		      uint64_t bytes)
{
	check_rounds(call, s,
		     oriel_coll_alltoall(rounds(call, s), osh.context.group, 0, source, dest,
					 bytes));
}

void osh_set_reduce(const char *call, struct osh_set *s, const void *source, void *dest,
		    const struct osh_reduction *r)
{
	check_rounds(call, s,
		     oriel_coll_allreduce(rounds(call, s), osh.context.group, 0, source, dest,
					  r->count, r->type, r->op));
}

void osh_set_combine(const struct osh_set *s, const struct osh_reduction *r, void *dest,
		     uint64_t count)
{
	struct ori_sources from = { .table = s->blocks, .n = s->n };

	if (r->combine)
		r->combine(dest, s->blocks, count, s->n);
	else
		ori_reduce(osh.context.group, dest, &from, count, r->type, r->op);
}
