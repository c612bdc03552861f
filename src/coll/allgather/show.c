/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/show.c - one exec of small blocks on the CPU, among ranks of one node, with a
 * single meeting.
 *
 * Stores into peers (run.c) need two meetings: before them the peer must allow writes, after them
 * all ranks must know that the data is there.  If ranks share cores, a meeting is a round of
 * process switches and costs more than a copy of many KiB.  So a rank shows its block in its own
 * memory.  All others copy it from there to their receive memory, which nobody else writes.
 *
 * A rank has two slots, used in turn.  A rank that fills a slot in exec k + 2 has seen the marks of
 * all ranks for exec k + 1.  A rank sets that mark after it has left exec k.  So nobody still reads
 * the block of exec k in the slot.  Slots lie in the window of the words, which stays until the
 * comm is destroyed.  So a rank may read the slot of a rank that has destroyed its request.
 *
 * Called by request.c on the thread that runs the exec.
 */
#include <stdlib.h>
#include <string.h>

#include "gather.h"

/* At the start of a rank's window of words; two slots of ORI_GATHER_SHOWN_BYTES follow. */
struct stage {
	uint64_t mark; /* written by its rank only: execs it has shown its block for */
	uint8_t pad[ORIEL_LINE_BYTES - 8];
};

uint64_t ori_gather_shown_room(const struct oriel_comm *c, const struct ori_gather_map *m)
{
	if (c->device->separate || m->nnodes > 1 || m->nranks == 1)
		return 0;
	return sizeof(struct stage) + 2 * (uint64_t)ORI_GATHER_SHOWN_BYTES;
}

int ori_gather_is_shown(const struct oriel_allgather_request *req, uint64_t bytes)
{
	int few = req->comm->nranks < ORI_GATHER_SHOWN_RANKS;

	return req->words->window->options.bytes &&
	       !(req->options.flags & ORIEL_GATHER_UNGUARDED) &&
	       bytes <= (few ? ORI_GATHER_SHOWN_FEW_BYTES : ORI_GATHER_SHOWN_BYTES);
}

static struct stage *stage_of(const struct oriel_window_dev *words, int rank)
{
	return (struct stage *)(void *)ori_peer_entry(words, rank)->buffer;
}

static uint8_t *slot_of(struct stage *s, uint64_t k)
{
	return (uint8_t *)(s + 1) + (k & 1u) * (uint64_t)ORI_GATHER_SHOWN_BYTES;
}

/* Shows the own block to all ranks. */
static void show(const struct oriel_window_dev *words, uint64_t k, const void *from, uint64_t bytes)
{
	int rank = words->comm.rank, n = words->comm.nranks;
	struct stage *mine = stage_of(words, rank);

	memcpy(slot_of(mine, k), from, bytes);
	/*
	 * [AG8] release, system scope; partner [AG9] in take_some(), [AG10] in await().  Publishes
	 * this rank's block in its slot to all ranks of the node.  Without it a rank could see the
	 * mark of this exec but copy the block of two execs before.
	 */
	ori_store_release_sys(&mine->mark, k + 1);
	for (int i = 1; i < n; i++)
		ori_wake(ori_peer_entry(words, (rank + i) % n)->waiters);
}

static void take(const struct oriel_allgather_request *req, int peer, uint64_t k, uint64_t bytes)
{
	memcpy(req->view.buffer + (uint64_t)peer * bytes,
	       slot_of(stage_of(ori_gather_dev(req), peer), k), bytes);
}

/* Waits until that rank shows its block of exec k. */
static int await(const struct oriel_window_dev *words, int peer, uint64_t k)
{
	struct ori_spin s;

	ori_spin_begin(&s, &words->comm, words->failure, ORIEL_OP_SIGNAL, peer, ORI_GATHER_LOCAL,
		       words->number, k + 1);
	/* [AG10] acquire, system scope, in ori_word_wait(); partner [AG8] in show(). */
	return ori_word_wait(&s, &stage_of(words, peer)->mark, 0, ORIEL_GE);
}

/* Copies the blocks that are already shown, and marks their ranks in `taken`. */
static void take_some(const struct oriel_allgather_request *req, uint64_t k, uint64_t bytes,
		      uint8_t *taken)
{
	const struct oriel_window_dev *words = ori_gather_dev(req);
	int rank = words->comm.rank, n = words->comm.nranks;

	for (int i = 1; i < n; i++) {
		int peer = (rank + i) % n;

		/* [AG9] acquire, system scope; partner [AG8] in show(). */
		taken[i] = ori_load_acquire_sys(&stage_of(words, peer)->mark) > k;
		if (taken[i])
			take(req, peer, k, bytes);
	}
}

/* Copies all blocks except the own one.  *peer is the rank of the last wait. */
static int take_all(const struct oriel_allgather_request *req, uint64_t k, uint64_t bytes,
		    int *peer)
{
	const struct oriel_window_dev *words = ori_gather_dev(req);
	int rank = words->comm.rank, n = words->comm.nranks, err = 0;
	uint8_t *taken = req->scratch;

	take_some(req, k, bytes, taken);
	for (int i = 1; i < n && !err; i++) {
		if (taken[i])
			continue;
		*peer = (rank + i) % n;
		err = await(words, *peer, k);
		if (!err)
			take(req, *peer, k, bytes);
	}
	return err;
}

int ori_gather_run_shown(struct oriel_allgather_request *req, const void *sendbuf, uint64_t bytes)
{
	const struct oriel_window_dev *words = ori_gather_dev(req);
	uint8_t *own = req->view.buffer + (uint64_t)words->comm.rank * bytes;
	uint64_t k = req->words->staged;
	int peer = words->comm.rank, err = ori_gather_scratch(req, (size_t)words->comm.nranks);

	if (!err) {
		show(words, k, sendbuf, bytes);
		if (own != sendbuf)
			memcpy(own, sendbuf, bytes);
		err = take_all(req, k, bytes, &peer);
	}
	if (err)
		ori_gather_give_up(words, err, peer);
	req->words->staged = k + 1;
	return err;
}
