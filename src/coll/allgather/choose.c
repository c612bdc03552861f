/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/choose.c - which algorithm an exec takes, in what pieces, and what it should cost.
 *
 * Pure: size, nodes and the speeds that all ranks agreed on give the same answer everywhere, and must, for ranks
 * that ran different algorithms would wait for each other.  docs/allgather.md has the formulas.
 */
#include "gather.h"

#define CHUNK_MIN (64u << 10)
#define CHUNK_MAX (1u << 20)
/*
 * Doubling sends over half the nodes at once and needs the whole bisection of the network; the ring only ever
 * the next node's link.  So much dearer a byte of it is taken to be.
 */
#define FAR_FACTOR 1.15

static const char *const names[] = { "auto", "direct", "ring", "doubling" };

const char *ori_gather_name(int algorithm)
{
	return algorithm >= 0 && algorithm <= ORIEL_GATHER_DOUBLING ? names[algorithm] : "?";
}

static int log2_up(int n)
{
	int k = 0;

	while ((1ll << k) < n)
		k++;
	return k;
}

/*
 * Pieces are forwarded while the next ones come: many make the last hop short, each costs a word and some
 * time of its own.
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

static double cost_of(const struct ori_gather_map *m, const struct ori_gather_speed *s,
		      int algorithm, double bytes, double chunk)
{
	double nodes = m->nnodes, rails = m->rails, far = nodes - 1;
	double local = (rails - 1) * bytes * s->copy_ns_byte;
	double last = (rails - 1) * chunk * s->copy_ns_byte;

	switch (algorithm) {
	case ORIEL_GATHER_DIRECT:
		return s->latency_ns + far * rails * bytes * s->net_ns_byte + local;
	case ORIEL_GATHER_RING:
		return far * (s->latency_ns + chunk * s->net_ns_byte) - chunk * s->net_ns_byte +
		       far * bytes * s->net_ns_byte + last + local;
	default:
		return log2_up(m->nnodes) * (s->latency_ns + chunk * s->net_ns_byte) -
		       chunk * s->net_ns_byte + far * bytes * s->net_ns_byte * FAR_FACTOR + last +
		       local;
	}
}

void ori_gather_choose(const struct ori_gather_map *m, const struct ori_gather_speed *s,
		       uint64_t bytes, int wanted, uint64_t chunk, int direct,
		       struct ori_gather_choice *c)
{
	int best = direct ? ORIEL_GATHER_DIRECT : ORIEL_GATHER_RING;

	c->cost_ns[ORIEL_GATHER_AUTO] = 0;
	for (int a = ORIEL_GATHER_DIRECT; a <= ORIEL_GATHER_DOUBLING; a++) {
		uint64_t piece = chunk ? chunk : chunk_of(m, bytes, a);

		piece = piece < bytes ? piece : bytes;
		c->cost_ns[a] = cost_of(m, s, a, (double)bytes, (double)piece);
		if (a >= best && c->cost_ns[a] < c->cost_ns[best])
			best = a;
	}
	c->algorithm = wanted ? wanted : m->nnodes == 1 ? ORIEL_GATHER_DIRECT : best;
	/* Not more than there is: the number of pieces is rounded up, and must not wrap. */
	if (chunk > bytes)
		chunk = bytes ? bytes : 1;
	c->chunk = chunk ? chunk : chunk_of(m, bytes, c->algorithm);
}
