/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/spans.c - the tree of spans.h: a treap.
 *
 * Random weights keep it shallow, whatever the order in which ranges are added.  Ranges with equal
 * begin and name are ordered by the addresses of their nodes, so every node has one place.
 */
#include <stddef.h>

#include "spans.h"

/* The finaliser of splitmix64: turns an address into random-looking bits. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static int is_before(const struct ori_span *a, const struct ori_span *b)
{
	if (a->begin != b->begin)
		return a->begin < b->begin;
	return a->name != b->name ? a->name < b->name : (uintptr_t)a < (uintptr_t)b;
}

static void update(struct ori_span *s)
{
	s->reach = s->end;
	if (s->left && s->left->reach > s->reach)
		s->reach = s->left->reach;
	if (s->right && s->right->reach > s->reach)
		s->reach = s->right->reach;
}

/* Nodes before `at` go to *left, the others to *right. */
static void cut(struct ori_span *tree, const struct ori_span *at, struct ori_span **left,
		struct ori_span **right)
{
	if (!tree) {
		*left = *right = NULL;
		return;
	}
	if (is_before(tree, at)) {
		cut(tree->right, at, &tree->right, right);
		*left = tree;
	} else {
		cut(tree->left, at, left, &tree->left);
		*right = tree;
	}
	update(tree);
}

/* All of `left` comes before all of `right`. */
static struct ori_span *join(struct ori_span *left, struct ori_span *right)
{
	if (!left || !right)
		return left ? left : right;
	if (left->weight >= right->weight) {
		left->right = join(left->right, right);
		update(left);
		return left;
	}
	right->left = join(left, right->left);
	update(right);
	return right;
}

void ori_span_add(struct ori_span **root, struct ori_span *s)
{
	struct ori_span *left, *right;

	s->left = s->right = NULL;
	s->reach = s->end;
	s->weight = mix((uint64_t)(uintptr_t)s ^ mix((uint64_t)s->begin));
	cut(*root, s, &left, &right);
	*root = join(join(left, s), right);
}

void ori_span_remove(struct ori_span **root, struct ori_span *s)
{
	struct ori_span *tree = *root;

	if (!tree)
		return;
	if (tree == s) {
		*root = join(s->left, s->right);
		return;
	}
	ori_span_remove(is_before(s, tree) ? &tree->left : &tree->right, s);
	update(tree);
}

struct ori_span *ori_span_at(struct ori_span *tree, uintptr_t begin, uint64_t name)
{
	struct ori_span *found = NULL;

	while (tree)
		if (tree->begin < begin || (tree->begin == begin && tree->name < name)) {
			tree = tree->right;
		} else {
			found = tree;
			tree = tree->left;
		}
	return found && found->begin == begin ? found : NULL;
}

struct ori_span *ori_span_overlapping(struct ori_span *tree, uintptr_t begin, uintptr_t end,
				      const struct ori_span *last)
{
	struct ori_span *found;

	/* no range of this subtree reaches `begin` */
	if (!tree || tree->reach <= begin)
		return NULL;
	if (!last || is_before(last, tree)) {
		found = ori_span_overlapping(tree->left, begin, end, last);
		if (found)
			return found;
		if (tree->begin < end && tree->end > begin)
			return tree;
	}
	return tree->begin < end ? ori_span_overlapping(tree->right, begin, end, last) : NULL;
}
