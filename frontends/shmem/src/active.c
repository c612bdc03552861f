/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * active.c - active sets: what deprecated collectives name by a first PE, a stride and a number.
 *
 * Threads of a PE may make such calls at the same time, even on the same PEs.  Then each call has a
 * pSync of its own.  So PEs and pSync together name a set, and the threads do not meet in it.  This
 * holds for the set of all PEs too: it is not SHMEM_TEAM_WORLD, which another thread may use.
 *
 * pSync is symmetric.  Its offset is the tag by which the PEs of a call find each other.  A set is
 * made at its first use, by its PEs alone, and kept: programs use few of them, many times.
 */
#include <pthread.h>

#include "set.h"

struct active {
	struct osh_set set;
	int start, log_stride;
	struct active *next;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
#define LISTS 64u                     /* 6 bits of list_of() */
static struct active *actives[LISTS]; /* by tag; under list_lock */

/* Arrays of one type lie at equal distances: the multiplication spreads them. */
static struct active **list_of(int tag)
{
	return &actives[(unsigned int)tag * 2654435761u >> 26];
}

static int tag_of(const long *pSync)
{
	uint64_t offset = osh_offset(pSync, sizeof(*pSync));

	return offset == OSH_NOWHERE ? 0 : (int)(offset / sizeof(*pSync) % 0x7fffffff);
}

/* Under list_lock. */
static struct active *find(int start, int log_stride, int n, int tag)
{
	struct active *a;

	for (a = *list_of(tag); a; a = a->next) {
		if (a->set.name[0] == tag && a->start == start && a->log_stride == log_stride &&
		    a->set.n == n)
			break;
	}
	return a;
}

/* Under list_lock.  Does not communicate: the first collective makes the comm. */
static struct active *make(const char *call, int start, int log_stride, int n, int tag, int rank)
{
	struct active *a = osh_set_scratch(call, sizeof(*a));
	int *world = osh_set_scratch(call, (uint64_t)n * sizeof(*world));

	for (int i = 0; i < n; i++)
		world[i] = start + (i << log_stride);
	osh_set_open(&a->set, world, n, rank, 1);
	osh_set_name(call, &a->set, NULL, tag);
	a->start = start;
	a->log_stride = log_stride;
	a->next = *list_of(tag);
	*list_of(tag) = a;
	return a;
}

/*
 * Returns this PE's number in the set, or -1 if it is not in it.  The standard leaves open what the
 * call of such a PE does.  Some programs make the call on all PEs, so there it returns at once.
 */
static int check(const char *call, int start, int log_stride, int n)
{
	int64_t stride, last;
	int off = osh.pe - start;

	osh_check_ready(call);
	osh_check_pe(call, start);
	if (log_stride < 0 || log_stride > 30 || n < 1)
		osh_fail(call, "an active set of %d PEs with logPE_stride %d is not possible", n,
			 log_stride);
	stride = (int64_t)1 << log_stride;
	last = start + (n - 1) * stride;
	if (last >= (int64_t)osh.npes)
		osh_fail(call,
			 "the active set (PE_start %d, logPE_stride %d, PE_size %d) goes beyond "
			 "the last PE, %d",
			 start, log_stride, n, (int)osh.npes - 1);
	if (off >= 0 && osh.pe <= last && off % stride == 0)
		return (int)(off / stride);
	if (osh.dev.checked & ORIEL_WINDOW_CHECKED)
		osh_fail(call,
			 "this PE is not in the active set (PE_start %d, logPE_stride %d, PE_size "
			 "%d)",
			 start, log_stride, n);
	return -1;
}

struct osh_set *osh_active_set(const char *call, int PE_start, int logPE_stride, int PE_size,
			       const long *pSync)
{
	int rank = check(call, PE_start, logPE_stride, PE_size);
	int tag;
	struct active *a;

	if (rank < 0)
		return NULL;
	if (PE_size == 1)
		logPE_stride = 0; /* any stride is the same set */
	tag = tag_of(pSync);
	pthread_mutex_lock(&list_lock);
	a = find(PE_start, logPE_stride, PE_size, tag);
	if (!a)
		a = make(call, PE_start, logPE_stride, PE_size, tag, rank);
	pthread_mutex_unlock(&list_lock);
	return &a->set;
}

/* They have been closed and freed with all other sets. */
void osh_active_sets_forget(void)
{
	memset(actives, 0, sizeof(actives));
}

/* ---- public: barriers ------------------------------------------------------------------------ */

void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
	struct osh_set *s = osh_active_set("shmem_sync", PE_start, logPE_stride, PE_size, pSync);

	if (s)
		osh_set_meet("shmem_sync", s);
}

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
	struct osh_set *s = osh_active_set("shmem_barrier", PE_start, logPE_stride, PE_size, pSync);

	if (s) {
		osh_quiet("shmem_barrier", &osh.context);
		osh_set_meet("shmem_barrier", s);
	}
}
