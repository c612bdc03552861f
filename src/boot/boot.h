/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/boot.h - the table behind struct oriel_boot: how the ranks of one group exchange small
 * messages before (and beside) windows.
 *
 * A boot is one group of ranks.  comm/ uses nothing but this header.  Implementations: threads.c
 * (ranks are threads), tcp_*.c (a hub, and one connection per rank), user.c (callbacks), single.c
 * (one rank).  Any thread may call, one collective at a time per boot.
 */
#ifndef ORI_BOOT_H
#define ORI_BOOT_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

/* The most that one member gives an allgather, and that all of them give. */
#define ORI_BOOT_PART_MAX (16u << 20)
#define ORI_BOOT_RESULT_MAX (1u << 30)

/* Called once, from any thread, when a rank of this group is gone or has aborted. */
typedef void ori_boot_watch_fn(void *ctx, int status, int rank, const char *why);

/*
 * Writes what this rank is doing ("itself waits ..."), for a rank that waits for it.  Does not
 * block.
 */
typedef void ori_boot_answer_fn(void *ctx, char *out, size_t bytes);

#define ORI_BOOT_ANSWER_BYTES 256

struct ori_boot_backend {
	const char *name; /* "threads", "tcp", "user", "single" */
	/*
	 * Every member gives `bytes` (the same number on all; 0 makes it a barrier) and gets them
	 * all in rank order.  Fails on all that wait, within timeout_ns.  The last error names the
	 * call that the round serves, and the rank that is missing, dead or aborted.
	 */
	int (*allgather)(struct oriel_boot *, const void *mine, void *all, size_t bytes,
			 uint64_t timeout_ns);
	/*
	 * Makes the group of `members` (ranks of this boot, in the order of their new ranks; me
	 * among them).  All members call it, with the same list, as the same-numbered subgroup call
	 * on this boot; `tag` tells disjoint groups of one round apart.  May communicate among the
	 * whole parent.
	 */
	int (*subgroup)(struct oriel_boot *, const int *members, int n, uint32_t tag,
			uint64_t timeout_ns, struct oriel_boot **sub);
	/* One watcher per boot.  NULL takes it away: none is called after that returned. */
	void (*watch)(struct oriel_boot *, ori_boot_watch_fn *, void *ctx);
	/*
	 * Makes the watchers and pending calls of all other members end with `status`, naming me.
	 */
	void (*abort)(struct oriel_boot *, int status, const char *why);
	/*
	 * Sets the function that answers for this rank when others ask.  NULL takes it away: none
	 * is called after that returned.
	 */
	void (*answer)(struct oriel_boot *, ori_boot_answer_fn *, void *ctx);
	/*
	 * Asks another member what it is doing.  0: `out` has its answer.  ORIEL_ETIMEDOUT: no
	 * answer came in time.  ORIEL_EUNSUPPORTED: it cannot be asked.  Logs nothing.
	 */
	int (*ask)(struct oriel_boot *, int rank, char *out, size_t bytes, uint64_t timeout_ns);
	/* Leaves the group; frees.  Called when the last reference goes. */
	void (*close)(struct oriel_boot *);
};

/* First member of every implementation's struct. */
struct oriel_boot {
	const struct ori_boot_backend *ops;
	int rank, nranks;
	int refs; /* atomic */
	/* Of the last allgather: how long its first member waited.  0 where that is not known. */
	uint64_t waited_ns;
	/*
	 * For messages: the call of the user's that rounds serve now; NULL: none.  Written between
	 * rounds, by the thread that makes them.
	 */
	const char *serves;
};

/*
 * common.c: an allgather that serves `call` of the user's, for messages.  An outer call that is
 * already set keeps its name.
 */
int ori_boot_round(struct oriel_boot *, const char *call, const void *mine, void *all, size_t bytes,
		   uint64_t timeout_ns);
/*
 * All rounds serve `call` until ori_boot_serve_end() gets what this returned.  For a call of the
 * user's that is made of other calls: oriel_allgather_create() makes a window.
 */
const char *ori_boot_serve_begin(struct oriel_boot *, const char *call);
void ori_boot_serve_end(struct oriel_boot *, const char *outer);

/* common.c: take a reference, give one up (the last one closes). */
void ori_boot_hold(struct oriel_boot *);
void ori_boot_drop(struct oriel_boot *);

#endif
