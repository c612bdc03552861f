/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/round.h - the record of one collective while its parts are gathered (round.c).
 *
 * Used by threads.c (under its lock), by the TCP hub (on its one thread), and by the TCP clients,
 * which receive the hub's reports.
 */
#ifndef ORI_BOOT_ROUND_H
#define ORI_BOOT_ROUND_H

#include <stddef.h>
#include <stdint.h>

enum ori_gather_kind {
	ORI_GATHER_MISSING = 1, /* ranks[0..count) of `total` did not come within `ns` */
	ORI_GATHER_BYTES,       /* ranks[0] gives bytes[0], ranks[1] gives bytes[1] */
	ORI_GATHER_LISTS,       /* ranks[0] is in the group twice, or gives another group size */
	ORI_GATHER_NOMEM        /* no memory for bytes[0] */
};

#define ORI_GATHER_NAMED 16

/* Why a collective failed, or which ranks are late.  Fixed layout: it is sent between processes. */
struct ori_round_report {
	int32_t status;
	uint32_t kind;
	uint32_t total; /* number of missing ranks; ranks[] has the first ORI_GATHER_NAMED */
	uint32_t count;
	uint32_t ranks[ORI_GATHER_NAMED]; /* numbers within the group */
	uint64_t bytes[2];
	uint64_t ns;
};

/*
 * The parts of one collective so far.  A failed one stays listed until all members have come.  So a
 * late member gets the same answer as the members that waited for it.
 */
struct ori_round {
	struct ori_round *next;
	uint64_t gid, seq;
	int n, arrived, left;
	size_t bytes;
	uint32_t first;      /* index of the first member that came */
	unsigned char *have; /* n: this member came */
	uint32_t *who;       /* n: the owner's number for this member */
	unsigned char *data; /* n * bytes */
	uint64_t start_ns, deadline_ns, late_ns;
	int late_told;
	struct ori_round_report failed; /* status 0: it has not failed */
	/* Meetings only (meet.c): which group and tag they belong to, and who must come. */
	uint64_t scope;
	uint32_t *members; /* n: the owner's number of each member; NULL: an ordinary collective */
	void *made;        /* the owner's: what the members made together */
};

struct ori_round *ori_round_find(struct ori_round *list, uint64_t gid, uint64_t seq);
/* Adds an empty record to the list.  NULL: no memory. */
struct ori_round *ori_round_create(struct ori_round **list, uint64_t gid, uint64_t seq, int n,
				   size_t bytes, uint32_t first);
/* Takes it off the list, if it is there. */
void ori_round_unlist(struct ori_round **list, struct ori_round *);
void ori_round_destroy(struct ori_round **list, struct ori_round *);
void ori_round_destroy_all(struct ori_round **list);
/* Takes one member's bytes and deadline.  A part that does not fit fails the collective. */
void ori_round_add(struct ori_round *, uint32_t index, uint32_t who, int n, const void *mine,
		   size_t bytes, uint64_t timeout_ns, uint64_t late_ns);
/*
 * Fails the collective with `status` and the missing ranks.  Does nothing if it has failed already.
 */
void ori_round_expire(struct ori_round *, int status);
/* Fails the collective with ORIEL_EMISMATCH: member `index` has another list of members. */
void ori_round_fail_lists(struct ori_round *, uint32_t index);
/* How long its first member has waited.  Sent with the result, in the field `rank`. */
int ori_round_age_ms(const struct ori_round *);
void ori_round_missing(const struct ori_round *, struct ori_round_report *);

/*
 * The report as text.  world[i] is the number of member i in the whole job; NULL: the same number.
 * Where the two differ, the text has both.
 */
void ori_round_text(const struct ori_round_report *, const int *world, char *text, size_t bytes);
/* The missing ranks of a report: "rank 1, rank 3 and 5 more". */
void ori_round_names(const struct ori_round_report *, const int *world, char *text, size_t bytes);

#endif
