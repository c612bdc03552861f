/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * set.h - sets of PEs that make collectives: teams (team.c) and active sets (active.c).
 *
 * A set is a comm of Oriel.  What collectives need is made by the first one that needs it: the
 * comm, the rounds (an Oriel team) and a window for barriers.  A collective is made by all PEs of
 * the set in the same order, so all of them make these things at the same time.
 *
 * One thread of a PE makes a collective on a set at a time, as the specification demands.
 */
#ifndef OSH_SET_H
#define OSH_SET_H

#include <oriel/coll.h>

#include "osh.h"

struct osh_set {
	int rank, n;       /* this PE's number in the set; how many PEs it has */
	const int *world;  /* [n]: PEs of the world, in the order of the set */
	int *name;         /* [depth]: the path to this set from one without parent */
	int depth, splits; /* splits: how many have been made of it, the same on all its PEs */
	struct oriel_comm *comm;         /* NULL: not made yet; the world's is osh.comm */
	struct oriel_team *rounds;       /* NULL: not made yet */
	struct oriel_team_dev dev;       /* of rounds */
	struct oriel_window *meeting;    /* NULL: not made yet */
	struct oriel_window_dev barrier; /* of meeting: barrier 0 */
	int mapped;                      /* every pair of its PEs is mapped */
	/* mapped sets, once `meeting` is made: cards.c */
	uint64_t calls, exchanges; /* so far */
	uint64_t met;              /* the last call that began with a meeting of all */
	uint64_t slot;             /* of the call that runs */
	uint8_t **desks;           /* [n]: the cards at each PE */
	const uint8_t **blocks;    /* [n]: for the call that runs, where the data of each PE is */
	int owned;                 /* the struct is malloc memory and goes with the set */
	struct osh_set *next;      /* all sets */
};

/* ---- life (set.c) ---------------------------------------------------------------------------- */

/*
 * Lists a set.  world becomes the set's own.  A set that is the first member of malloc memory is
 * `owned`: that memory is freed with it.
 */
void osh_set_open(struct osh_set *, const int *world, int n, int rank, int owned);
/*
 * Names a set among those with the same PEs, alike on all of them: number `number` of its parent.
 * Without parent, the number is the tag of oriel_comm_subset(), by which the set makes its comm.
 */
void osh_set_name(const char *call, struct osh_set *, const struct osh_set *parent, int number);
/* Frees what a set has made, on all its PEs at once, and takes it off the list. */
void osh_set_close(const char *call, struct osh_set *);
/* Closes all sets, in an order that all PEs agree on. */
void osh_sets_close(void);
/* The set's comm; makes it if need be. */
struct oriel_comm *osh_set_comm(const char *call, struct osh_set *);

/* ---- collectives (set.c); a failure ends the job --------------------------------------------- */

/* All PEs of the set meet.  Completes no operation of a context. */
void osh_set_meet(const char *call, struct osh_set *);
/* Makes what a mapped set needs for cards. */
void osh_set_ready(const char *call, struct osh_set *);
/* `bytes` of data at PE `root` of the set replace those of all others. */
void osh_set_broadcast(const char *call, struct osh_set *, void *data, uint64_t bytes, int root);
/* Blocks of `bytes` of all PEs, in the order of the set. */
void osh_set_gather(const char *call, struct osh_set *, const void *source, void *dest,
		    uint64_t bytes);
/* Block i of source goes to PE i. */
void osh_set_exchange(const char *call, struct osh_set *, const void *source, void *dest,
		      uint64_t bytes);

/* Combines `count` elements at each of n places, in this order. */
typedef void osh_combine_fn(void *dest, const uint8_t *const *from, uint64_t count, int n);

struct osh_reduction {
	uint64_t count;
	size_t size;             /* of an element */
	int type, op;            /* ORIEL_REDUCE_*; ORIEL_TYPE_*, or a number above them */
	osh_combine_fn *combine; /* of a type that Oriel lacks; else NULL */
};

/* Of a type that Oriel has. */
void osh_set_reduce(const char *call, struct osh_set *, const void *source, void *dest,
		    const struct osh_reduction *);
/* Local: combines `count` elements at each of s->blocks. */
void osh_set_combine(const struct osh_set *, const struct osh_reduction *, void *dest,
		     uint64_t count);

/* nelems * bytes; the end of the job if that is more than any memory has. */
static inline uint64_t osh_set_bytes(const char *call, size_t nelems, size_t bytes)
{
	uint64_t product;

	if (OSH_UNLIKELY(__builtin_mul_overflow(nelems, bytes, &product)))
		osh_fail(call, "%zu elements of %zu bytes do not fit into memory", nelems, bytes);
	return product;
}

/*
 * For calls that work piece by piece: ends the job if PEs give different numbers of elements.  The
 * first piece would not show it.
 */
void osh_set_compare(const char *call, struct osh_set *, uint64_t nelems);
/* Memory for a call that works piece by piece; the end of the job without it. */
void *osh_set_scratch(const char *call, uint64_t bytes);

/* ---- the same among mapped PEs (direct.c) ---------------------------------------------------- */

/* They return 0, on all PEs alike, if the data must take the other way. */
int osh_direct_broadcast(const char *call, struct osh_set *, void *dest, const void *source,
			 uint64_t bytes, int root);
int osh_direct_fcollect(const char *call, struct osh_set *, void *dest, const void *source,
			uint64_t bytes);
int osh_direct_collect(const char *call, struct osh_set *, void *dest, const void *source,
		       uint64_t bytes);
int osh_direct_alltoall(const char *call, struct osh_set *, void *dest, const void *source,
			uint64_t bytes);
/* Long blocks only.  dst, sst: strides in bytes. */
int osh_direct_alltoalls(const char *call, struct osh_set *, void *dest, const void *source,
			 uint64_t dst, uint64_t sst, size_t nelems, size_t size);
int osh_direct_reduce(const char *call, struct osh_set *, void *dest, const void *source,
		      const struct osh_reduction *);

/* ---- from handles and numbers to sets -------------------------------------------------------- */

struct osh_team {
	struct osh_set set;
	shmem_team_config_t config;
};

/* team.c: the predefined teams. */
extern struct osh_team osh_team_world __attribute__((visibility("hidden")));
extern struct osh_team osh_team_shared __attribute__((visibility("hidden")));
void osh_teams_open(void);

/* The team of a handle; NULL for SHMEM_TEAM_INVALID. */
static inline struct osh_team *osh_team_of(const char *call, shmem_team_t team)
{
	osh_check_ready(call);
	if (OSH_LIKELY(team == SHMEM_TEAM_WORLD))
		return &osh_team_world;
	return team == SHMEM_TEAM_SHARED ? &osh_team_shared : team;
}

/*
 * active.c: the set of PEs PE_start, PE_start + 2^logPE_stride, ... for calls with this pSync;
 * makes it at its first use.  NULL: this PE is not in it, and its call does nothing.
 */
struct osh_set *osh_active_set(const char *call, int PE_start, int logPE_stride, int PE_size,
			       const long *pSync);
void osh_active_sets_forget(void);

/* ---- collectives of typed calls (coll.c, reduce.c) ------------------------------------------- */

/* The root's source goes to dest of all others. */
void osh_coll_broadcast(const char *call, struct osh_set *, void *dest, const void *source,
			uint64_t bytes, int root);
void osh_coll_fcollect(const char *call, struct osh_set *, void *dest, const void *source,
		       uint64_t bytes);
void osh_coll_alltoall(const char *call, struct osh_set *, void *dest, const void *source,
		       uint64_t bytes);
void osh_coll_collect(const char *call, struct osh_set *, void *dest, const void *source,
		      size_t nelems, size_t size);
/* dst, sst: strides in elements. */
void osh_coll_alltoalls(const char *call, struct osh_set *, void *dest, const void *source,
			ptrdiff_t dst, ptrdiff_t sst, size_t nelems, size_t size);

#endif
