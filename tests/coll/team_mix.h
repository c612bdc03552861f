/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/team_mix.h - different collectives at the same time: a kernel whose blocks make all
 * calls, single ones and lines, each on its own channel, and at any moment another call and another
 * size than their neighbours.  The kernel checks every element; data differ from call to call, also
 * if a graph is replayed.
 */
#ifndef ORIEL_TESTS_COLL_TEAM_MIX_H
#define ORIEL_TESTS_COLL_TEAM_MIX_H

#include <oriel/device/coll.h>

#include "reduce_bed.h"

const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

#define KINDS 9 /* six single calls, three of a line */
#define CHANNELS 4

/*
 * The memory of a channel: what its block found wrong, calls that were made there before, sizes to
 * send, sizes that came, data to send, data that came.  Data are words of 32 bits; words[c % 2] of
 * them are for one peer on channel c.
 */
struct args {
	struct oriel_team_dev team;
	uint8_t *memory; /* of channel 0 */
	uint64_t channel_bytes;
	uint64_t words[2];
	int32_t calls, channel; /* of block 0 */
};

/* A call of a block, equal in all its threads. */
struct call {
	const struct oriel_team_dev *team;
	uint64_t *sizes;
	uint32_t *send, *recv;
	uint64_t words;
	int me, n, channel, kind, root, in_line;
	uint64_t number; /* of all calls on the channel */
};

/* What a line's kind does, as a single call does it. */
ORIEL_DEV int single_kind(int kind)
{
	return kind == 6 ? 2 : kind == 7 ? 1 : kind == 8 ? 4 : kind;
}

ORIEL_DEV struct call call_of(const struct args *a, int channel, uint64_t number)
{
	uint8_t *mine = a->memory + (uint32_t)channel * a->channel_bytes;
	uint64_t mix = (uint32_t)channel + number; /* neighbours never make the same call */
	struct call c;

	c.team = &a->team;
	c.me = a->team.win.comm.rank;
	c.n = a->team.win.comm.nranks;
	c.words = a->words[channel % 2];
	c.channel = channel;
	c.number = number;
	c.kind = single_kind((int)(mix % KINDS));
	c.in_line = mix % KINDS >= 6;
	c.root = (int)(mix % (uint32_t)c.n);
	c.sizes = (uint64_t *)(void *)mine + 2;
	c.send = (uint32_t *)(void *)(c.sizes + 2 * c.n);
	c.recv = c.send + (uint32_t)c.n * c.words;
	return c;
}

/* What rank `from` has for `to`: another word for each place, pair, call and channel. */
ORIEL_DEV uint32_t word_of(const struct call *c, int from, int to, uint64_t i)
{
	return (uint32_t)i * 2654435761u + (uint32_t)c->number * 40503u +
	       (uint32_t)c->channel * 97u + (uint32_t)from * 7919u + (uint32_t)to * 104729u;
}

/* All-to-all-v: nothing, everything, or anything between. */
ORIEL_DEV uint64_t words_for(const struct call *c, int from, int to)
{
	uint32_t x = word_of(c, from, to, 12345) >> 8;

	return x % 4 == 0 ? 0 : x % 4 == 1 ? c->words : (x >> 2) % (c->words + 1);
}

ORIEL_DEV int is_per_peer(int kind)
{
	return kind == 2 || kind == 3 || kind == 5;
}

ORIEL_DEV void fill(const struct call *c, struct oriel_group g)
{
	int blocks = is_per_peer(c->kind) ? c->n : 1, to;
	uint64_t i, k;

	for (to = 0; to < blocks; to++)
		for (i = g.thread; i < c->words; i += g.size)
			c->send[(uint32_t)to * c->words + i] = word_of(c, c->me, to, i);
	for (k = g.thread; k < (uint32_t)c->n; k += g.size)
		c->sizes[k] = 4 * words_for(c, c->me, (int)k);
	for (i = g.thread; i < (uint32_t)c->n * c->words; i += g.size)
		c->recv[i] = c->kind == 0 && c->me == c->root && i < c->words ? c->send[i] : 77;
}

/* A line of two calls with the same data. */
ORIEL_DEV int make_line(const struct call *c, struct oriel_group g)
{
	struct oriel_coll_line line;
	int err, closed, i;

	if (c->kind == 2)
		err = oriel_coll_open_alltoall(&line, c->team, g, c->channel, 4 * c->words, 0, 1);
	else if (c->kind == 1)
		err = oriel_coll_open_allgather(&line, c->team, g, c->channel, 4 * c->words, 0, 1);
	else
		err = oriel_coll_open_allreduce(&line, c->team, g, c->channel, c->words,
						ORIEL_TYPE_UINT32, ORIEL_REDUCE_SUM);
	for (i = 0; i < 2 && !err; i++)
		err = oriel_coll_again(&line, g, c->send, c->recv);
	closed = oriel_coll_close(&line, g);
	return err ? err : closed;
}

ORIEL_DEV int make(const struct call *c, struct oriel_group g)
{
	uint64_t bytes = 4 * c->words;

	if (c->in_line)
		return make_line(c, g);

	switch (c->kind) {
	case 0:
		return oriel_coll_broadcast(c->team, g, c->channel, c->recv, bytes, c->root);
	case 1:
		return oriel_coll_allgather(c->team, g, c->channel, c->send, c->recv, bytes);
	case 2:
		return oriel_coll_alltoall(c->team, g, c->channel, c->send, c->recv, bytes);
	case 3:
		return oriel_coll_alltoallv(c->team, g, c->channel, c->send, c->sizes, c->recv,
					    c->sizes + c->n, bytes);
	case 4:
		return oriel_coll_allreduce(c->team, g, c->channel, c->send, c->recv, c->words,
					    ORIEL_TYPE_UINT32, ORIEL_REDUCE_SUM);
	default:
		return oriel_coll_reducescatter(c->team, g, c->channel, c->send, c->recv, c->words,
						ORIEL_TYPE_UINT32, ORIEL_REDUCE_SUM);
	}
}

/* Element i of the block from r, or of the result. */
ORIEL_DEV uint32_t expected(const struct call *c, int r, uint64_t i)
{
	uint32_t sum = 0;
	int from;

	switch (c->kind) {
	case 0:
		return word_of(c, c->root, 0, i);
	case 1:
		return word_of(c, r, 0, i);
	case 2:
		return word_of(c, r, c->me, i);
	case 3:
		return i < words_for(c, r, c->me) ? word_of(c, r, c->me, i) : 77;
	default:
		for (from = 0; from < c->n; from++)
			sum += word_of(c, from, c->kind == 4 ? 0 : c->me, i);
		return sum;
	}
}

ORIEL_DEV uint64_t count_wrong(const struct call *c, struct oriel_group g)
{
	int blocks = c->kind >= 1 && c->kind <= 3 ? c->n : 1, r;
	uint64_t wrong = 0, i;

	for (r = 0; r < blocks; r++) {
		for (i = g.thread; i < c->words; i += g.size)
			wrong += c->recv[(uint32_t)r * c->words + i] != expected(c, r, i);
		if (c->kind == 3)
			wrong += c->sizes[c->n + r] != 4 * words_for(c, r, c->me);
	}
	for (i = (uint32_t)blocks * c->words + g.thread; i < (uint32_t)c->n * c->words; i += g.size)
		wrong += c->recv[i] != 77;
	return wrong;
}

ORIEL_KERNEL(mix_kernel, struct args)
{
	struct oriel_group g = oriel_group_block();
	int channel = a->channel + (int)g.block, err = 0, i;
	uint64_t *words = (uint64_t *)(void *)(a->memory + (uint32_t)channel * a->channel_bytes);
	uint64_t wrong = 0, before = words[1];

	for (i = 0; i < a->calls && !err; i++) {
		struct call c = call_of(a, channel, before + (uint32_t)i);

		fill(&c, g);
		err = make(&c, g);
		if (!err)
			wrong += count_wrong(&c, g);
		if (!err)
			err = oriel_group_sync(g);
	}
	if (oriel_group_is_leader(g)) /* all its threads have met after reading it */
		words[1] = before + (uint32_t)a->calls;
	if (wrong)
		(void)ori_fetch_add_relaxed_dev(words, wrong);
	return err;
}

/* ---- the host -------------------------------------------------------------------------------- */

struct job {
	struct bed bed;
	struct oriel_team *team;
	struct args args;
	uint64_t launches[CHANNELS]; /* of which a block had the channel */
};

static inline void open_job(struct job *j, struct rank_env *env, uint64_t few, uint64_t many)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	uint64_t n = (uint64_t)env->nranks, most = few > many ? few : many;

	memset(j, 0, sizeof(*j));
	j->args.words[0] = few;
	j->args.words[1] = many;
	j->args.channel_bytes = 16 + 16 * n + 8 * n * most;
	bed_open(&j->bed, env, CHANNELS * j->args.channel_bytes);
	o.channels = CHANNELS;
	o.cells = bed_cells;
	o.slot_bytes = 16384; /* so that some calls have several rounds */
	REQUIRE_OK(oriel_team_create(env->comm, &o, &j->team));
	REQUIRE_OK(oriel_team_device(j->team, &j->args.team));
	memset(j->bed.host, 0, j->bed.bytes);
	bed_push(&j->bed);
	j->args.memory = j->bed.memory;
	j->args.calls = 2 * KINDS + 1;
}

static inline void close_job(struct job *j)
{
	uint64_t words[2]; /* wrong, calls */

	CHECK_EQ(oriel_copy(j->bed.env->comm, j->bed.host, j->bed.memory, j->bed.bytes), 0);
	for (int c = 0; c < CHANNELS; c++) {
		memcpy(words, j->bed.host + (size_t)c * j->args.channel_bytes, sizeof(words));
		CHECK_EQ(words[0], 0);
		CHECK_EQ(words[1], j->launches[c] * (uint32_t)j->args.calls);
	}
	CHECK_EQ(oriel_team_destroy(j->team), 0);
	bed_close(&j->bed);
}

static inline void count_launches(struct job *j, int channel, int nblocks, int launches)
{
	for (int c = channel; c < channel + nblocks; c++)
		j->launches[c] += (uint32_t)launches;
}

/* Two threads may do this at once, for different channels. */
static inline int launch(struct job *j, int channel, int nblocks, int nthreads, void *stream)
{
	const struct oriel_kernel *kernel = &mix_kernel;
	struct args args = j->args;

	args.channel = channel;
	if (bed_on_cuda() && fake_cuda_kernel)
		kernel = fake_cuda_kernel(kernel);
	count_launches(j, channel, nblocks, 1);
	return oriel_launch(j->bed.env->comm, kernel, nblocks, nthreads, &args, sizeof(args),
			    stream);
}

#endif
