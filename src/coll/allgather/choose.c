/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/choose.c - which algorithm an exec uses, in what pieces, and its expected cost.
 *
 * Pure functions of size, nodes and the speeds that all ranks agreed on.  All ranks must get the
 * same answer: ranks with different algorithms would wait for each other.  So costs are integers,
 * because compilers may round sums of products differently from machine to machine.
 * docs/allgather.md has the formulas.
 */
#include <string.h>

#include "gather.h"

#define CHUNK_MIN (64u << 10)
#define CHUNK_MAX (1u << 20)
/*
 * Doubling sends to half the nodes at once and needs the whole bisection of the network.  The ring
 * only uses the link to the next node.  So a byte of doubling counts as this much more expensive.
 */
#define FAR_PERCENT 115
#define TICKS 1048576.0 /* of a ns */
#define TICKS_MOST 1e15 /* a second */

static const char *const names[] = { "auto", "direct", "ring", "doubling" };

const char *ori_gather_name(int algorithm)
{
	return algorithm >= 0 && algorithm <= ORIEL_GATHER_DOUBLING ? names[algorithm] : "?";
}

static const char *const policies[] = {
	[ORIEL_GATHER_POLICY_DEFAULT] = "default",
	[ORIEL_GATHER_BY_SIZE] = "by_size",
	[ORIEL_GATHER_FASTEST] = "fastest",
	[ORIEL_GATHER_NO_SMS] = "no_sms",
};

const char *ori_gather_policy_name(int policy)
{
	return policy >= 0 && policy <= ORIEL_GATHER_NO_SMS ? policies[policy] : "?";
}

int ori_gather_policy_of(const char *call, const char *text)
{
	for (int p = ORIEL_GATHER_BY_SIZE; p <= ORIEL_GATHER_NO_SMS; p++)
		if (!strcmp(text, policies[p]))
			return p;
	return ori_fail(ORIEL_ECONFIG,
			"%s: ORIEL_GATHER_POLICY=%.40s: must be by_size, fastest or no_sms", call,
			text);
}

/* Between nodes nothing was measured that is faster than the copy engine for large blocks. */
uint64_t ori_gather_kernel_bytes(const struct ori_gather_map *m, int policy)
{
	if (policy == ORIEL_GATHER_NO_SMS)
		return 0;
	if (policy == ORIEL_GATHER_FASTEST && m->nnodes == 1)
		return ORI_GATHER_FASTEST_BYTES;
	return ORI_GATHER_KERNEL_BYTES;
}

static int log2_up(int n)
{
	int k = 0;

	while ((1ll << k) < n)
		k++;
	return k;
}

/*
 * Pieces are forwarded while the next ones arrive.  Many pieces make the last hop short, but each
 * costs a word and some time.
 */
static uint64_t chunk_of(const struct ori_gather_map *m, uint64_t bytes, int algorithm)
{
	uint64_t chunk = CHUNK_MAX;

	if (algorithm == ORIEL_GATHER_DIRECT || m->nnodes == 1)
		return bytes ? bytes : 1;
	while (chunk > CHUNK_MIN && chunk * 8 > bytes)
		chunk /= 2;
	return chunk;
}

/*
 * Multiplying by a power of two loses nothing, so the result is the same on all ranks.  Absurd
 * values are capped.
 */
static uint64_t ticks_of(double ns)
{
	double ticks = ns * TICKS;

	if (!(ticks > 0))
		return 0;
	return ticks < TICKS_MOST ? (uint64_t)ticks : (uint64_t)TICKS_MOST;
}

/* 128 bits: 2^50 ticks for each byte that 2^23 ranks have. */
__extension__ typedef unsigned __int128 ticks_t;

static ticks_t cost_of(const struct ori_gather_map *m, const struct ori_gather_speed *s,
		       int algorithm, uint64_t bytes, uint64_t chunk)
{
	ticks_t rails = (ticks_t)m->rails, far = (ticks_t)m->nnodes - 1, hops = far, all;
	ticks_t latency = ticks_of(s->latency_ns), net = ticks_of(s->net_ns_byte);
	ticks_t copy = ticks_of(s->copy_ns_byte), local = (rails - 1) * bytes * copy;

	if (algorithm == ORIEL_GATHER_DIRECT)
		return latency + far * rails * bytes * net + local;
	all = far * bytes * net;
	if (algorithm == ORIEL_GATHER_DOUBLING) {
		hops = (ticks_t)log2_up(m->nnodes);
		all = all * FAR_PERCENT / 100;
	}
	/* the bytes already include the hop of the last piece */
	all += hops * latency + (hops ? hops - 1 : 0) * chunk * net;
	return all + (rails - 1) * chunk * copy + local;
}

void ori_gather_choose(const struct ori_gather_map *m, const struct ori_gather_speed *s,
		       uint64_t bytes, int wanted, uint64_t chunk, int direct,
		       struct ori_gather_choice *c)
{
	int best = direct ? ORIEL_GATHER_DIRECT : ORIEL_GATHER_RING;
	ticks_t cost[4] = { 0 };

	c->cost_ns[ORIEL_GATHER_AUTO] = 0;
	for (int a = ORIEL_GATHER_DIRECT; a <= ORIEL_GATHER_DOUBLING; a++) {
		uint64_t piece = chunk ? chunk : chunk_of(m, bytes, a);

		piece = piece < bytes ? piece : bytes;
		cost[a] = cost_of(m, s, a, bytes, piece);
		c->cost_ns[a] = (double)cost[a] / TICKS;
		if (a >= best && cost[a] < cost[best])
			best = a;
	}
	c->algorithm = wanted ? wanted : m->nnodes == 1 ? ORIEL_GATHER_DIRECT : best;
	/* At most the block: the number of pieces is rounded up and must not wrap. */
	if (chunk > bytes)
		chunk = bytes ? bytes : 1;
	c->chunk = chunk ? chunk : chunk_of(m, bytes, c->algorithm);
}
