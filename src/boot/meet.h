/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/meet.h - meetings: some members of a group make a group of their own (meet.c).
 *
 * A meeting is a record of round.h with the list of its members.  It has no number: members meet
 * again and again with the same list, and only members count their meetings.  So its owner takes a
 * meeting off the list as soon as it is complete or has failed.
 *
 * Used by threads_meet.c (under the group's lock) and by the TCP hub (on its one thread).
 */
#ifndef ORI_BOOT_MEET_H
#define ORI_BOOT_MEET_H

#include "round.h"

struct ori_round *ori_meeting_find(struct ori_round *list, uint64_t scope, const uint32_t *members,
				   int n);
/* Adds an empty meeting to the list.  NULL: no memory. */
struct ori_round *ori_meeting_create(struct ori_round **list, uint64_t scope,
				     const uint32_t *members, int n, size_t bytes, uint32_t first);
/* The index of that rank in the list of members; -1: not a member. */
int ori_meeting_index(const struct ori_round *, uint32_t rank);
/* The meeting of that scope in which the rank has come; NULL: none. */
struct ori_round *ori_meeting_of(struct ori_round *list, uint64_t scope, uint32_t rank);
/*
 * Another meeting of the same scope that cannot take place beside this one: each waits for a rank
 * that has come to the other.  NULL: none.  Fails both with ORIEL_EMISMATCH; each names the rank
 * with the other list.
 */
struct ori_round *ori_meeting_clash(struct ori_round *list, struct ori_round *);

#endif
