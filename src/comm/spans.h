/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/spans.h - ranges of addresses, found by what they overlap.
 *
 * A search tree, ordered by the begin of a range, then by name.  Each node knows the largest end in
 * its subtree.  Ranges may overlap and may be equal.  A node is the first member of the struct that
 * it describes.  The tree allocates no memory, so no call here fails.  The cost of adding, removing
 * and finding is logarithmic in the number of ranges.
 *
 * Does not lock.  Used by: registrations.c.
 */
#ifndef ORI_SPANS_H
#define ORI_SPANS_H

#include <stdint.h>

struct ori_span {
	/* set by the owner before it adds the range */
	uintptr_t begin, end; /* [begin, end) */
	uint64_t name;        /* distinguishes ranges that begin at the same address */
	/* set by the tree */
	uintptr_t reach; /* the largest end in this subtree */
	uint64_t weight; /* random: a parent's weight is never below its children's */
	struct ori_span *left, *right;
};

void ori_span_add(struct ori_span **root, struct ori_span *);
void ori_span_remove(struct ori_span **root, struct ori_span *);
/* The range at `begin` with the smallest name that is not below `name`; NULL: there is none. */
struct ori_span *ori_span_at(struct ori_span *root, uintptr_t begin, uint64_t name);
/*
 * The first range after `last` that overlaps [begin, end); NULL: there is none.  last = NULL starts
 * the search.  Do not remove `last` before you ask for the next range.
 */
struct ori_span *ori_span_overlapping(struct ori_span *root, uintptr_t begin, uintptr_t end,
				      const struct ori_span *last);

#endif
