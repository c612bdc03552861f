/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/spans.h - ranges of addresses, found by what they overlap.
 *
 * A search tree ordered by where ranges begin, then by name; each node knows how far its subtree
 * reaches.  Ranges may overlap and may be equal.  A node is the first member of what it describes,
 * and the tree owns no memory, so nothing here fails.  Adding, removing and finding take the
 * logarithm of the number of ranges.
 *
 * Does not lock.  Used by: registrations.c.
 */
#ifndef ORI_SPANS_H
#define ORI_SPANS_H

#include <stdint.h>

struct ori_span {
	/* set by the owner before it is added */
	uintptr_t begin, end; /* [begin, end) */
	uint64_t name;        /* tells apart those that begin at one address */
	uintptr_t reach;      /* the largest end in this subtree */
	uint64_t weight;      /* random: a parent's is never below its children's */
	struct ori_span *left, *right;
};

void ori_span_add(struct ori_span **root, struct ori_span *);
void ori_span_remove(struct ori_span **root, struct ori_span *);
/* The first one that begins there and has this name or, if there is none, a larger one; or NULL. */
struct ori_span *ori_span_at(struct ori_span *root, uintptr_t begin, uint64_t name);
/*
 * The first range that overlaps [begin, end) and comes after `last`, or NULL; last = NULL: the very
 * first. `last` may not be removed before the next one is asked for.
 */
struct ori_span *ori_span_overlapping(struct ori_span *root, uintptr_t begin, uintptr_t end,
				      const struct ori_span *last);

#endif
