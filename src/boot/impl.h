/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/impl.h - what the implementations of a boot share: how each is made, the gathering of one
 * collective (round.c) and the telling of a watcher (watch.c).  For src/boot only.
 */
#ifndef ORI_BOOT_IMPL_H
#define ORI_BOOT_IMPL_H

#include <pthread.h>

#include "../util/config.h"
#include "../util/util.h"
#include "boot.h"

#define ORI_BOOT_RANKS_MAX 16384
#define ORI_BOOT_WHY_BYTES 400

/* ---- making (one a file) ---------------------------------------------------------------------- */

void ori_boot_init(struct oriel_boot *, const struct ori_boot_backend *, int rank, int nranks);
int ori_boot_single_create(struct oriel_boot **boot);
int ori_boot_threads_create(int nranks, uint64_t late_ns, struct oriel_boot **boots);
int ori_boot_user_create(const struct oriel_boot_ops *ops, void *ctx, int rank, int nranks,
			 struct oriel_boot **boot);
int ori_boot_env_create(const struct ori_config *, struct oriel_boot **boot);
/* What is behind oriel_boot_make_id and oriel_boot_join, without the listing of the handle. */
int ori_boot_id_make(const struct ori_config *, struct oriel_boot_id *id);
int ori_boot_id_join(const struct ori_config *, const struct oriel_boot_id *id, int rank,
		     int nranks, struct oriel_boot **boot);

/* Of boots whose ranks cannot be asked. */
void ori_boot_no_answer(struct oriel_boot *, ori_boot_answer_fn *, void *ctx);
int ori_boot_no_ask(struct oriel_boot *, int rank, char *out, size_t bytes, uint64_t timeout_ns);

/* 0, or ORIEL_EINVAL: the members are ranks of the boot, each once, and me is among them. */
int ori_boot_members_check(const struct oriel_boot *, const int *members, int n, int *my_index);
uint64_t ori_boot_seconds_ns(double seconds);
/* ns + 2 s, without overflow: how long a rank waits for somebody who has ns to answer. */
uint64_t ori_boot_grace_ns(uint64_t ns);
/* Absolute monotonic nanoseconds as pthread_cond_timedwait takes them. */
void ori_boot_timespec(uint64_t when_ns, struct timespec *out);
/* A condition on the monotonic clock. */
int ori_boot_cond_init(pthread_cond_t *cond);

/* ---- one collective, gathered (round.c) ------------------------------------------------------- */

enum ori_gather_kind {
	ORI_GATHER_MISSING = 1, /* ranks[0..count) of `total` did not come within `ns` */
	ORI_GATHER_BYTES,       /* ranks[0] gives bytes[0], ranks[1] gives bytes[1] */
	ORI_GATHER_LISTS,       /* ranks[0] is in the group twice, or says it has another size */
	ORI_GATHER_NOMEM        /* no memory for bytes[0] */
};

#define ORI_GATHER_NAMED 16

/* Why a collective failed or who is late; fixed layout, it also travels between processes. */
struct ori_round_report {
	int32_t status;
	uint32_t kind;
	uint32_t total; /* missing ranks; the first ORI_GATHER_NAMED are in ranks[] */
	uint32_t count;
	uint32_t ranks[ORI_GATHER_NAMED]; /* numbers within the group */
	uint64_t bytes[2];
	uint64_t ns;
};

/*
 * What has come so far of one collective.  A failed one stays listed until all members came, so
 * that a late member gets the same answer as those who waited for it.
 */
struct ori_round {
	struct ori_round *next;
	uint64_t gid, seq;
	int n, arrived, left;
	size_t bytes;
	uint32_t first;      /* index of the first that came */
	unsigned char *have; /* n: came */
	uint32_t *who;       /* n: the owner's number of the one that came */
	unsigned char *data; /* n * bytes */
	uint64_t start_ns, deadline_ns, late_ns;
	int late_told;
	struct ori_round_report failed; /* status 0: not */
};

struct ori_round *ori_round_find(struct ori_round *list, uint64_t gid, uint64_t seq);
/* Adds an empty one to the list; NULL: no memory. */
struct ori_round *ori_round_create(struct ori_round **list, uint64_t gid, uint64_t seq, int n,
				   size_t bytes, uint32_t first);
void ori_round_destroy(struct ori_round **list, struct ori_round *);
void ori_round_destroy_all(struct ori_round **list);
/* Takes one member's bytes and deadline.  What does not fit fails the collective. */
void ori_round_add(struct ori_round *, uint32_t index, uint32_t who, int n, const void *mine,
		   size_t bytes, uint64_t timeout_ns, uint64_t late_ns);
/* Fails it with `status` naming who is missing; no effect on one that has failed. */
void ori_round_expire(struct ori_round *, int status);
void ori_round_missing(const struct ori_round *, struct ori_round_report *);

/*
 * The report in words.  world[i]: number of member i in the whole job, NULL if the same; named
 * beside the group's own number where it differs.
 */
void ori_round_text(const struct ori_round_report *, const int *world, char *text, size_t bytes);
/* The missing ranks of a report: "rank 1, rank 3 and 5 more". */
void ori_round_names(const struct ori_round_report *, const int *world, char *text, size_t bytes);
/* "rank 1", or "rank 1 (world rank 5)". */
void ori_boot_rank_text(const int *world, int rank, char *text, size_t bytes);

/* ---- watcher (watch.c) ------------------------------------------------------------------------- */

/* A member's ear and mouth.  All fields under the owner's lock, which is not held while fn runs. */
struct ori_watch {
	ori_boot_watch_fn *fn;
	void *ctx;
	int told;    /* this fn was called: not again */
	int calling; /* fn runs now, on `caller` */
	pthread_t caller;
	/* who speaks for this rank when others ask; called with the lock held */
	ori_boot_answer_fn *answer;
	void *answer_ctx;
};

/* Lock held on entry and exit, given up meanwhile.  Waits for a running fn of another thread. */
void ori_watch_set(struct ori_watch *, pthread_mutex_t *, pthread_cond_t *, ori_boot_watch_fn *,
		   void *ctx);
/* Calls fn, once for each fn that was set.  Lock as above. */
void ori_watch_tell(struct ori_watch *, pthread_mutex_t *, pthread_cond_t *, int status, int rank,
		    const char *why);
void ori_watch_settle(struct ori_watch *, pthread_mutex_t *lock, pthread_cond_t *cond, int status,
		      int rank, const char *why);

#endif
