/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tutorial, step 8: a fused all-to-all.  One kernel sends tokens to experts, computes, collects.
 *
 * Every rank is an expert.  A token names the expert it needs.  Results come back to the rank that
 * has the token.  Each block serves its own peers: it computes for one peer while the data of
 * others travels.  docs/tutorial.md explains it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define ROUNDS 5
#define BLOCKS 2
#define THREADS 2
#define TOKENS 48 /* of a rank */
#define WIDTH 32  /* numbers of a token */
#define SLOT_FLOATS (TOKENS * WIDTH)
#define SLOT_BYTES (SLOT_FLOATS * sizeof(float))
#define SENT 0     /* signal: tokens are in your window; its value is round << 32 | number */
#define RETURNED 1 /* signal: results are in your window; it counts rounds */

/* The window has two parts, each with a slot per rank: tokens to compute, and results. */
struct fused_args {
	struct oriel_window_dev win;
	struct oriel_source out;  /* tokens for each rank */
	struct oriel_source done; /* results for each rank */
	float *out_memory, *done_memory;
	const float *tokens;
	float *results;
};

static void must(int status)
{
	if (status)
		exit(1);
}

/* The expert that a token of a rank needs.  In a real program a small network decides this. */
ORIEL_DEV int expert_of(int rank, int token, int nranks)
{
	return (token * token + 3 * rank) % nranks;
}

ORIEL_DEV float expert_computes(int expert, float x)
{
	return (float)(expert + 2) * x + (float)expert;
}

ORIEL_DEV void copy_token(float *to, const float *from, struct oriel_group g)
{
	for (uint32_t i = g.thread; i < WIDTH; i += g.size)
		to[i] = from[i];
}

/* Packs the tokens that need this expert and puts them into its window. */
ORIEL_DEV int dispatch(const struct fused_args *a, struct oriel_group g, int expert, uint64_t round)
{
	int rank = oriel_rank(&a->win), nranks = oriel_nranks(&a->win), err;
	float *slot = a->out_memory + expert * SLOT_FLOATS;
	uint64_t number = 0;

	for (int token = 0; token < TOKENS; token++)
		if (expert_of(rank, token, nranks) == expert)
			copy_token(slot + number++ * WIDTH, a->tokens + token * WIDTH, g);
	err = oriel_group_sync(g);
	if (err)
		return err;
	return oriel_put_signal(&a->win, g, expert, (uint64_t)rank * SLOT_BYTES, &a->out,
				(uint64_t)expert * SLOT_BYTES, number * WIDTH * sizeof(float), SENT,
				ORIEL_SET, round << 32 | number);
}

/* Waits for the tokens of one rank, computes, and puts the results into its window. */
ORIEL_DEV int serve(const struct fused_args *a, struct oriel_group g, int from, uint64_t round)
{
	int rank = oriel_rank(&a->win), nranks = oriel_nranks(&a->win);
	const float *arrived = (const float *)a->win.buffer + from * SLOT_FLOATS;
	float *slot = a->done_memory + from * SLOT_FLOATS;
	int err = oriel_wait_signal_from(&a->win, g, from, SENT, ORIEL_GE, round << 32);
	uint64_t number;

	if (err)
		return err;
	number = oriel_read_signal_from(&a->win, from, SENT) & 0xffffffff;
	for (uint64_t i = g.thread; i < number * WIDTH; i += g.size)
		slot[i] = expert_computes(rank, arrived[i]);
	err = oriel_group_sync(g);
	if (err)
		return err;
	return oriel_put_signal(&a->win, g, from, (uint64_t)(nranks + rank) * SLOT_BYTES, &a->done,
				(uint64_t)from * SLOT_BYTES, number * WIDTH * sizeof(float),
				RETURNED, ORIEL_ADD, 1);
}

/* Waits for the results of one expert and adds them to those of its tokens. */
ORIEL_DEV int collect(const struct fused_args *a, struct oriel_group g, int expert, uint64_t round)
{
	int rank = oriel_rank(&a->win), nranks = oriel_nranks(&a->win);
	const float *from = (const float *)a->win.buffer + (nranks + expert) * SLOT_FLOATS;
	int err = oriel_wait_signal_from(&a->win, g, expert, RETURNED, ORIEL_GE, round);

	for (int token = 0; token < TOKENS && !err; token++) {
		if (expert_of(rank, token, nranks) != expert)
			continue;
		for (uint32_t i = g.thread; i < WIDTH; i += g.size)
			a->results[token * WIDTH + (int)i] += from[i];
		from += WIDTH;
	}
	return err;
}

ORIEL_KERNEL(fused, struct fused_args)
{
	struct oriel_group g = oriel_group_block();
	int first = (int)g.block, step = (int)g.nblocks, nranks = oriel_nranks(&a->win);
	int err = 0;

	for (uint64_t round = 1; round <= ROUNDS && !err; round++) {
		for (int peer = first; peer < nranks && !err; peer += step)
			err = dispatch(a, g, peer, round);
		for (int peer = first; peer < nranks && !err; peer += step)
			err = serve(a, g, peer, round);
		for (int peer = first; peer < nranks && !err; peer += step)
			err = collect(a, g, peer, round);
		if (!err)
			err = oriel_flush_all(&a->win, g); /* both sources are free again */
	}
	return err;
}

static int count_wrong(const struct fused_args *a, int rank, int nranks)
{
	int wrong = 0;

	for (int i = 0; i < TOKENS * WIDTH; i++) {
		int expert = expert_of(rank, i / WIDTH, nranks);

		wrong += a->results[i] != ROUNDS * expert_computes(expert, a->tokens[i]);
	}
	return wrong;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	static float tokens[TOKENS * WIDTH], results[TOKENS * WIDTH];
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct fused_args args;
	int rank, nranks, wrong;
	uint64_t part;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	part = (uint64_t)nranks * SLOT_BYTES;
	options.bytes = 2 * part;
	must(oriel_window_create(comm, &options, &window));
	must(oriel_alloc(comm, part, (void **)&args.out_memory));
	must(oriel_alloc(comm, part, (void **)&args.done_memory));
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, args.out_memory, part, &args.out));
	must(oriel_window_source(window, args.done_memory, part, &args.done));
	for (int i = 0; i < TOKENS * WIDTH; i++)
		tokens[i] = (float)((rank * 31 + i) % 64);
	args.tokens = tokens;
	args.results = results;

	must(oriel_launch(comm, &fused, BLOCKS, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));

	wrong = count_wrong(&args, rank, nranks);
	printf("rank %d: %d rounds with %d tokens, %d numbers are wrong\n", rank, ROUNDS, TOKENS,
	       wrong);
	must(oriel_finalize(comm));
	return wrong != 0;
}
