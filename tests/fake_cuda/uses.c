/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/uses.c - records which device memory the work of a stream uses: freeing it before the
 * work has ended is a mistake.
 *
 * The memory of a copy is known.  With knob reuse=1, a kernel counts as a user of all memory that
 * its arguments point into.  Pointers that the kernel loads from memory are not seen.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "util/util.h"

/* Wants fake_lock. */
static void pend(struct fake_mapping *m, const struct fake_op *op, int change)
{
	m->pending += change;
	if (change > 0) {
		m->user = op->kernel ? op->kernel->name : "a copy";
		m->user_rank = op->rank;
	}
}

void fake_uses_pend(struct fake_op *op, int change)
{
	for (int i = 0; i < 2; i++)
		if (op->uses[i])
			pend(op->uses[i], op, change);
	for (int i = 0; i < op->nmore; i++)
		pend(op->more[i], op, change);
}

static void add(struct fake_op *op, struct fake_mapping *m)
{
	void *grown;

	for (int i = 0; i < op->nmore; i++)
		if (op->more[i] == m)
			return;
	grown = realloc(op->more, sizeof(*op->more) * (size_t)(op->nmore + 1));
	if (!grown)
		fake_fault("no memory for work on a stream");
	op->more = grown;
	op->more[op->nmore++] = m;
	pend(m, op, 1);
}

void fake_uses_of_kernel(struct fake_op *op)
{
	uintptr_t word;

	for (size_t at = 0; fake_knobs.reuse && at + sizeof(word) <= op->kernel->args_bytes;
	     at += sizeof(word)) {
		struct fake_mapping *m;

		memcpy(&word, (const char *)op->args + at, sizeof(word));
		m = fake_mapping_at((const void *)word);
		if (m)
			add(op, m);
	}
}

struct fake_op *fake_op_copy(const struct fake_op *op)
{
	struct fake_op *c = malloc(sizeof(*c));

	if (!c)
		fake_fault("no memory to launch a graph");
	*c = *op;
	c->next = NULL;
	c->more = NULL;
	c->nmore = 0;
	if (op->args) {
		c->args = malloc(op->kernel->args_bytes + 1);
		if (!c->args)
			fake_fault("no memory to launch a graph");
		memcpy(c->args, op->args, op->kernel->args_bytes);
	}
	pthread_mutex_lock(&fake_lock);
	fake_uses_pend(c, 1);
	/*
	 * looked for again: what was there when the stream was captured may be gone, and is not
	 * touched then
	 */
	if (c->args)
		fake_uses_of_kernel(c);
	pthread_mutex_unlock(&fake_lock);
	return c;
}

void fake_op_free(struct fake_op *op)
{
	free(op->more);
	free(op->args);
	free(op);
}
