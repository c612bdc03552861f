/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/threads.h - the inside of the boot of thread ranks, from top to bottom:
 *
 *	threads.c        the table of boot.h
 *	threads_meet.c   some members make a group
 *	threads_group.c  the group that the ranks share
 *
 * A file calls only files below it.
 */
#ifndef ORI_BOOT_THREADS_H
#define ORI_BOOT_THREADS_H

#include "impl.h"
#include "round.h"
#include "watch.h"

struct thread_group;

/* A subgroup that some of its members have not fetched yet. */
struct thread_offer {
	struct thread_offer *next;
	uint64_t call;
	uint32_t tag;
	int n, fetched;
	int *members;
	struct thread_group *group;
};

/* All fields but n, late_ns and world are under the lock. */
struct thread_group {
	pthread_mutex_t lock;
	pthread_cond_t cond; /* a collective moved, a watcher ended */
	int n, refs;
	uint64_t late_ns;
	int *world;          /* member -> rank of the first group, for messages */
	unsigned char *gone; /* this member has closed its boot */
	struct ori_watch *watches;
	struct ori_round *gathers;
	struct ori_round *meetings; /* threads_meet.c */
	struct thread_offer *offers;
	int failed, failed_rank; /* status of an abort, and its rank */
	char why[ORI_BOOT_WHY_BYTES];
};

struct thread_boot {
	struct oriel_boot base;
	struct thread_group *group;
	uint64_t seq, subgroups; /* calls made so far; used by the rank only */
};

/* threads_group.c.  world: NULL for the first group.  A new group has no references. */
int ori_thread_group_create(int n, uint64_t late_ns, const int *members, const int *world,
			    struct thread_group **out);
void ori_thread_group_drop(struct thread_group *);
void ori_thread_offers_destroy(struct thread_offer *); /* all of the list */
/* A boot of the group with that table; it takes a reference. */
int ori_thread_boot_create(struct thread_group *, const struct ori_boot_backend *, int rank,
			   struct oriel_boot **out);

/* threads_meet.c: an entry of the table of boot.h. */
int ori_thread_subset(struct oriel_boot *, const int *members, int n, uint32_t tag,
		      const char *call, uint64_t timeout_ns, struct oriel_boot **sub);
/* Lock held: a rank has left. */
void ori_thread_meet_gone(struct thread_group *, int rank);

#endif
