/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/boot.h - the table behind struct oriel_boot.  The ranks of a group exchange small messages
 * through it, before windows exist and beside them.
 *
 * A boot is one group of ranks.  comm/ uses this header alone.  Implementations: threads.c (ranks
 * are threads), tcp_*.c (a hub, and one connection per rank), user.c (callbacks), single.c (one
 * rank).  Any thread may call, with one collective at a time per boot.
 */
#ifndef ORI_BOOT_H
#define ORI_BOOT_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

/*
 * The tag with which survivors meet (subset), after the failure of a group.  A group that has
 * failed is no hindrance.  Members may come from different groups, if both have the same living
 * members: one may have seen a new group fail that others could not make.
 */
#define ORI_BOOT_SURVIVORS UINT32_MAX

/* The limits of an allgather: bytes of one member, and of all members together. */
#define ORI_BOOT_PART_MAX (16u << 20)
#define ORI_BOOT_RESULT_MAX (1u << 30)

/* Called once, on any thread, when a rank of this group has died or aborted. */
typedef void ori_boot_watch_fn(void *ctx, int status, int rank, const char *why);

/*
 * Writes what this rank is doing ("itself waits ..."), for a rank that waits for it, and further
 * lines for a report.  Does not block.
 */
typedef void ori_boot_answer_fn(void *ctx, char *out, size_t bytes);

#define ORI_BOOT_ANSWER_BYTES 4608 /* a line of text, then a report of src/diag/report.h */

struct ori_boot_backend {
	const char *name; /* "threads", "tcp", "user", "single" */
	/*
	 * Every member gives `bytes` and gets the bytes of all members in rank order.  `bytes` is
	 * the same on all members; 0 makes it a barrier.  A failure reaches all waiting members,
	 * within timeout_ns.  The last error names the user's call, and the rank that is missing,
	 * dead or aborted.
	 */
	int (*allgather)(struct oriel_boot *, const void *mine, void *all, size_t bytes,
			 uint64_t timeout_ns);
	/*
	 * Makes a group of `members`: ranks of this boot, in the order of their new ranks, with
	 * this rank among them.  All members call it with the same list.  It is the same-numbered
	 * subgroup call of each member on this boot.  `tag` distinguishes disjoint groups of one
	 * round.  May communicate with all ranks of this boot.
	 */
	int (*subgroup)(struct oriel_boot *, const int *members, int n, uint32_t tag,
			uint64_t timeout_ns, struct oriel_boot **sub);
	/*
	 * Makes a group of `members` as subgroup does, but only the members call it.  Members make
	 * their calls with one tag in the same order; calls with different tags are independent.
	 * Messages name `call`.  The new boot's waited_ns tells how long the first member waited.
	 * Nothing else of this boot changes, so threads may call it beside its rounds.
	 *
	 * ORIEL_EMISMATCH: two members wait for each other with different lists.  ORIEL_EBUSY: this
	 * rank is already in a call with the tag.  ORIEL_EUNSUPPORTED: this boot cannot reach some
	 * of its ranks without all others.
	 */
	int (*subset)(struct oriel_boot *, const int *members, int n, uint32_t tag,
		      const char *call, uint64_t timeout_ns, struct oriel_boot **sub);
	/*
	 * gone[member] = 1 for those that have died or left, as far as this rank knows; else 0.
	 * NULL: this boot does not learn of it.
	 */
	void (*gone)(struct oriel_boot *, unsigned char *gone);
	/*
	 * Sets the one watcher of this boot.  NULL removes it: no watcher is called after the
	 * return.
	 */
	void (*watch)(struct oriel_boot *, ori_boot_watch_fn *, void *ctx);
	/*
	 * Ends the watchers and pending calls of all other members with `status` and this rank's
	 * number.
	 */
	void (*abort)(struct oriel_boot *, int status, const char *why);
	/*
	 * Sets the function that answers for this rank when others ask.  NULL removes it: it is not
	 * called after the return.
	 */
	void (*answer)(struct oriel_boot *, ori_boot_answer_fn *, void *ctx);
	/*
	 * Asks another member what it is doing.  0: `out` has its answer.  ORIEL_ETIMEDOUT: no
	 * answer came in time; `out` is "" or names what stands between, such as "rank 0 (the
	 * rendezvous) does not answer".  ORIEL_EUNSUPPORTED: it cannot be asked.  Logs nothing.
	 */
	int (*ask)(struct oriel_boot *, int rank, char *out, size_t bytes, uint64_t timeout_ns);
	/* Leaves the group and frees the boot.  Called when the last reference is dropped. */
	void (*close)(struct oriel_boot *);
};

/* First member of every implementation's struct. */
struct oriel_boot {
	const struct ori_boot_backend *ops;
	int rank, nranks;
	int refs; /* atomic */
	/* How long the first member of the last allgather waited.  0 if this is not known. */
	uint64_t waited_ns;
	/*
	 * For messages: the user's call that the rounds serve now; NULL: none.  Written between
	 * rounds, by the thread that makes them.
	 */
	const char *serves;
	/*
	 * The same for reports, on any thread: the user's call of the round under way, and since
	 * when.  Both atomic, relaxed: a report may name the last call for a moment.
	 */
	const char *round_call; /* NULL: no round */
	uint64_t round_since_ns;
	/*
	 * Called when a round has passed its deadline, while reports still show it.  NULL: nothing.
	 * Written between rounds, as `serves`.
	 */
	void (*late)(void *ctx);
	void *late_ctx;
};

/*
 * common.c: an allgather on behalf of the user's call `call`, which messages name.  If an outer
 * call is already set, messages name the outer call.
 */
int ori_boot_round(struct oriel_boot *, const char *call, const void *mine, void *all, size_t bytes,
		   uint64_t timeout_ns);
/*
 * From now on all rounds serve `call`, until ori_boot_serve_end() gets the value returned here.
 * For calls that consist of other calls: oriel_allgather_create() creates a window.
 */
const char *ori_boot_serve_begin(struct oriel_boot *, const char *call);
void ori_boot_serve_end(struct oriel_boot *, const char *outer);

/* common.c: take a reference, drop a reference.  The last drop closes the boot. */
void ori_boot_hold(struct oriel_boot *);
void ori_boot_drop(struct oriel_boot *);

#endif
