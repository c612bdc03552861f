/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/exchange_terms.h - the ranks of a team compare their calls: see exchange.h.
 */
#ifndef ORIEL_DEVICE_EXCHANGE_TERMS_H
#define ORIEL_DEVICE_EXCHANGE_TERMS_H

#include "exchange_places.h"

ORIEL_DEV int ori_terms_differ(const struct ori_terms *a, const struct ori_terms *b)
{
	return a->size != b->size || a->kind != b->kind || a->type != b->type || a->op != b->op ||
	       a->root != b->root;
}

/* The call of rank r, as it is shown in the round that was met last. */
ORIEL_DEV struct ori_terms ori_exchange_call(const struct ori_exchange *x, int r)
{
	struct ori_sources s = ori_exchange_sources(x, x->round - 1, 0, 0);
	struct ori_terms call;

	memcpy(&call, ori_source(&s, r) - sizeof(struct ori_show), sizeof(call));
	return call;
}

/*
 * What the leader finds when it looks at the calls of all ranks, from rank 0 on.  Every rank sees
 * all calls, so all come to the same result: the status of the first rank that refuses, else
 * ORIEL_EMISMATCH.
 */
struct ori_compared {
	struct ori_terms first, other; /* of rank 0, and of the rank `bad` */
	int32_t bad;                   /* -1: all make the same call */
	int32_t err;                   /* not 0: a rank refuses, and the others need no look */
};

ORIEL_DEV void ori_compared_add(struct ori_compared *c, int rank, const struct ori_terms *call)
{
	if (rank == 0) {
		c->first = *call;
		c->bad = -1;
		c->err = 0;
	}
	if (call->refused)
		c->err = -(int)call->refused;
	if (call->refused || (c->bad < 0 && ori_terms_differ(&c->first, call))) {
		c->other = *call;
		c->bad = rank;
	}
}

/* Returns the result.  The host can read in the channel why a call was refused. */
ORIEL_DEV_OUT int ori_compared_end(const struct ori_exchange *x, const struct ori_compared *c)
{
	struct ori_channel *state = ori_exchange_state(x);
	int err = c->err ? c->err : ORIEL_EMISMATCH;

	if (c->bad < 0)
		return 0;
	if (!state->refused) {
		state->first = c->first;
		state->other = c->other;
		state->refused = ORIEL_FAILURE(err, c->bad);
	}
	return err;
}

ORIEL_DEV_OUT int ori_exchange_compare_out(const struct ori_exchange *x)
{
	struct ori_compared c;
	struct ori_terms call;
	int r;

	c.err = 0;
	for (r = 0; r < x->team->win.comm.nranks && !c.err; r++) {
		call = ori_exchange_call(x, r);
		ori_compared_add(&c, r, &call);
	}
	return ori_compared_end(x, &c);
}

/* Called by the leader: do all ranks make the same call? */
ORIEL_DEV int ori_exchange_compare(const struct ori_exchange *x)
{
	struct ori_exchange copy = *x;

	return ORI_RARE(ori_exchange_compare_out)(&copy);
}

#endif
