/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/meet.c - meetings: which one a rank comes to, and which ones exclude each other.
 *
 * A rank is in at most one meeting of a scope at a time: a scope is a group and a tag.  So two
 * ranks with different lists, each of which waits for the other, would wait for ever.  They get an
 * answer at once.  Longer circles end at the deadline.
 *
 * Owns no record: see round.c.  It neither waits nor sends.
 */
#include <stdlib.h>
#include <string.h>

#include "meet.h"

struct ori_round *ori_meeting_find(struct ori_round *list, uint64_t scope, const uint32_t *members,
				   int n)
{
	while (list && (list->scope != scope || list->n != n ||
			memcmp(list->members, members, (size_t)n * sizeof(*members))))
		list = list->next;
	return list;
}

struct ori_round *ori_meeting_create(struct ori_round **list, uint64_t scope,
				     const uint32_t *members, int n, size_t bytes, uint32_t first)
{
	uint32_t *own = malloc((size_t)n * sizeof(*own));
	struct ori_round *m = own ? ori_round_create(list, 0, 0, n, bytes, first) : NULL;

	if (!m) {
		free(own);
		return NULL;
	}
	memcpy(own, members, (size_t)n * sizeof(*own));
	m->scope = scope;
	m->members = own;
	return m;
}

int ori_meeting_index(const struct ori_round *m, uint32_t rank)
{
	for (int i = 0; i < m->n; i++) {
		if (m->members[i] == rank)
			return i;
	}
	return -1;
}

struct ori_round *ori_meeting_of(struct ori_round *list, uint64_t scope, uint32_t rank)
{
	for (; list; list = list->next) {
		int i = list->scope == scope ? ori_meeting_index(list, rank) : -1;

		if (i >= 0 && list->have[i])
			return list;
	}
	return NULL;
}

/* The index in m of a rank that m waits for and that has come to `other`; -1: none. */
static int waits_elsewhere(const struct ori_round *m, const struct ori_round *other)
{
	for (int i = 0; i < other->n; i++) {
		int index = other->have[i] ? ori_meeting_index(m, other->members[i]) : -1;

		if (index >= 0 && !m->have[index])
			return index;
	}
	return -1;
}

struct ori_round *ori_meeting_clash(struct ori_round *list, struct ori_round *m)
{
	for (struct ori_round *other = list; other; other = other->next) {
		int theirs, mine;

		if (other == m || other->scope != m->scope)
			continue;
		theirs = waits_elsewhere(m, other);
		mine = waits_elsewhere(other, m);
		if (theirs < 0 || mine < 0)
			continue;
		ori_round_fail_lists(m, (uint32_t)theirs);
		ori_round_fail_lists(other, (uint32_t)mine);
		return other;
	}
	return NULL;
}
