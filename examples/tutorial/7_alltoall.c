/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tutorial, step 7: an all-to-all whose sizes differ.  The signal carries the size.
 *
 * Rank r sends p + r + 1 words to rank p.  docs/tutorial.md explains it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define BLOCKS 2
#define THREADS 2
#define SLOT_WORDS 64
#define SLOT_BYTES (SLOT_WORDS * sizeof(uint64_t))

struct exchange_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint64_t *send;   /* the memory of src: one slot per rank */
	uint64_t *counts; /* words that came from each rank */
};

static void must(int status)
{
	if (status)
		exit(1);
}

/* Word i that rank `from` sends to rank `to`. */
ORIEL_DEV uint64_t value(int from, int to, uint64_t i)
{
	return (uint64_t)from * 1000 + (uint64_t)to * 100 + i;
}

ORIEL_DEV int send_to(const struct exchange_args *a, struct oriel_group g, int peer)
{
	int rank = oriel_rank(&a->win), err;
	uint64_t count = (uint64_t)(peer + rank + 1);
	uint64_t *slot = a->send + peer * SLOT_WORDS;

	for (uint64_t i = g.thread; i < count; i += g.size)
		slot[i] = value(rank, peer, i);
	err = oriel_group_sync(g);
	if (err)
		return err;
	/* In the peer's window this rank owns slot `rank`.  The signal becomes count + 1. */
	return oriel_put_signal(&a->win, g, peer, (uint64_t)rank * SLOT_BYTES, &a->src,
				(uint64_t)peer * SLOT_BYTES, count * sizeof(*slot), /* signal */ 0,
				ORIEL_SET, count + 1);
}

ORIEL_DEV int receive_from(const struct exchange_args *a, struct oriel_group g, int peer)
{
	int err = oriel_wait_signal_from(&a->win, g, peer, 0, ORIEL_GE, 1);

	if (!err && oriel_group_is_leader(g))
		a->counts[peer] = oriel_read_signal_from(&a->win, peer, 0) - 1;
	return err;
}

/* Block b serves the peers b, b + nblocks and so on.  All puts leave before the first wait. */
ORIEL_KERNEL(exchange, struct exchange_args)
{
	struct oriel_group g = oriel_group_block();
	int first = (int)g.block, step = (int)g.nblocks, err = 0;

	for (int peer = first; peer < oriel_nranks(&a->win) && !err; peer += step)
		err = send_to(a, g, peer);
	for (int peer = first; peer < oriel_nranks(&a->win) && !err; peer += step)
		err = receive_from(a, g, peer);
	return err ? err : oriel_flush_all(&a->win, g);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct exchange_args args;
	const uint64_t *received;
	struct oriel_comm *comm;
	int rank, nranks, words = 0, wrong = 0;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	if (2 * nranks > SLOT_WORDS) {
		fprintf(stderr, "at most %d ranks\n", SLOT_WORDS / 2);
		return 1;
	}
	options.bytes = (uint64_t)nranks * SLOT_BYTES;
	must(oriel_window_create(comm, &options, &window));
	must(oriel_alloc(comm, options.bytes, (void **)&args.send));
	must(oriel_alloc(comm, (size_t)nranks * sizeof(uint64_t), (void **)&args.counts));
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, args.send, options.bytes, &args.src));
	must(oriel_launch(comm, &exchange, BLOCKS, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));

	received = oriel_window_buffer(window);
	for (int from = 0; from < nranks; from++)
		for (uint64_t i = 0; i < args.counts[from]; i++, words++)
			wrong += received[from * SLOT_WORDS + (int)i] != value(from, rank, i);
	printf("rank %d received %d words from %d ranks, %d are wrong\n", rank, words, nranks,
	       wrong);
	must(oriel_finalize(comm)); /* frees the memory of oriel_alloc, too */
	return wrong != 0;
}
