/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/run.c - one exec on the CPU.
 *
 * A loop over four kinds of work: post blocks that may leave, see which blocks have come, forward
 * those to the node, store the own block into mapped peers.  Each is done in small pieces, so that
 * none delays another.  With nothing to do, the loop waits like every wait of the library
 * (device/spin.h), which drives the engine of the queues.
 *
 * Order: a rank signals READY ([SIG1]) when it has entered the exec.  A rank that has read that
 * signal ([SIG3]) may write to it.  Stores to a mapped peer come before LOCAL ([SIG1]) to it, data
 * through a queue before its arrival count.  An exec ends when everything it waits for has come and
 * everything it posted is complete.  After that nobody writes to this rank or reads its memory.
 *
 * Called by request.c on the thread that runs the exec.
 */
#include <stdlib.h>
#include <string.h>

#include "gather.h"

/* Bytes of the own block stored to every peer before the next part; they stay in the cache. */
#define STORE_BYTES (128u << 10)
#define POSTS 2 /* to one peer before other work */

struct run {
	struct oriel_allgather_request *req;
	const struct oriel_window_dev *words;
	const struct oriel_gather_view *view;
	const struct ori_gather_plan *plan;
	const struct ori_gather_map *map;
	const uint8_t *send; /* the own block */
	uint64_t bytes, chunk, pieces;
	int guarded, rank, nmapped, waiting; /* waiting: mapped peers not yet ready */
	/* all of these are one allocation */
	uint64_t *sent; /* [nmapped + 1] bytes of the own block stored there; self is last */
	uint64_t *arrived, *relayed;       /* [nin] pieces */
	uint64_t *posted;                  /* [nout] pieces */
	uint64_t *have;                    /* [nitems] pieces of it that are here */
	uint8_t *mapped_ready, *out_ready; /* [nmapped + 1], [nout] */
};

/* The nth mapped peer, counted from the next rank of the node. */
static int mapped_peer(const struct run *r, int n)
{
	const struct ori_gather_map *m = r->map;
	int node = m->node[r->rank];

	return m->members[m->first[node] + (m->rail[r->rank] + 1 + n) % m->size[node]];
}

static struct ori_gather_piece piece_of(const struct run *r, int item, uint64_t at, uint64_t bytes)
{
	struct ori_gather_piece p = { .block_off = (uint64_t)r->plan->block[item] * r->bytes,
				      .at = at,
				      .bytes = r->bytes - at < bytes ? r->bytes - at : bytes };

	p.from = r->view->buffer + p.block_off;
	return p;
}

/* ---- the four kinds of work; each returns 1 if there was some, 0, or a status ---------------- */

static int look_ready(struct run *r)
{
	int did = 0;

	for (int i = 0; r->waiting && i < r->nmapped; i++)
		if (!r->mapped_ready[i] &&
		    ori_gather_count(r->words, mapped_peer(r, i), ORI_GATHER_READY)) {
			r->mapped_ready[i] = 1;
			r->waiting--;
			did = 1;
		}
	for (int f = 0; f < r->plan->nout; f++)
		if (!r->out_ready[f] &&
		    ori_gather_count(r->words, r->plan->out[f].peer, ORI_GATHER_READY))
			did = r->out_ready[f] = 1;
	return did;
}

/* Posts from receive memory, which queues can address.  The own block is there too by now. */
static int post_one(struct run *r, int f)
{
	const struct ori_gather_flow *flow = &r->plan->out[f];
	uint64_t seq = r->posted[f], k = seq % r->pieces;
	int item = flow->items[seq / r->pieces], err;
	struct ori_gather_piece p = piece_of(r, item, k * r->chunk, r->chunk);

	if (r->have[item] <= k)
		return 0;
	r->posted[f]++;
	err = ori_gather_put(r->view, r->words, flow->peer, (uint32_t)(seq % r->req->lanes),
			     p.block_off + p.at, p.bytes);
	return err ? err : 1;
}

static int post_some(struct run *r)
{
	int did = 0, one;

	for (int f = 0; f < r->plan->nout; f++) {
		uint64_t all = (uint64_t)r->plan->out[f].nitems * r->pieces;

		for (int n = 0; n < POSTS && r->out_ready[f] && r->posted[f] < all; n++) {
			one = post_one(r, f);
			if (one < 0)
				return one;
			did |= one;
		}
	}
	return did;
}

static int look_arrived(struct run *r)
{
	int did = 0;

	for (int f = 0; f < r->plan->nin; f++) {
		const struct ori_gather_flow *flow = &r->plan->in[f];
		uint64_t all = (uint64_t)flow->nitems * r->pieces;

		while (r->arrived[f] < all) {
			uint64_t seq = r->arrived[f], lane = seq % r->req->lanes;

			if (ori_gather_count(r->words, flow->peer, ORI_GATHER_NET + (int)lane) <=
			    seq / r->req->lanes)
				break;
			r->have[flow->items[seq / r->pieces]]++;
			r->arrived[f]++;
			did = 1;
		}
	}
	return did;
}

/* Stores one piece of every in-flow to all mapped peers. */
static int relay_some(struct run *r)
{
	int did = 0;

	for (int f = 0; f < r->plan->nin && !r->waiting; f++) {
		uint64_t seq = r->relayed[f];
		struct ori_gather_piece p;

		if (seq == r->arrived[f])
			continue;
		r->relayed[f]++;
		did = 1;
		if (!r->plan->relay)
			continue;
		p = piece_of(r, r->plan->in[f].items[seq / r->pieces], seq % r->pieces * r->chunk,
			     r->chunk);
		for (int i = 0; i < r->nmapped; i++)
			ori_gather_to_mapped(r->view, mapped_peer(r, i), &p);
	}
	return did;
}

/* The part at p->at of the own block goes from the caller's memory to its own place. */
static void store_self(struct run *r, struct ori_gather_piece p)
{
	p.from = r->send;
	ori_gather_to_self(r->view, &p);
	r->sent[r->nmapped] = p.at + p.bytes;
}

/*
 * Stores the next part of the own block to self and all peers that are furthest behind.  It is read
 * once from memory, then from the cache.  A peer that becomes ready late is served alone.
 *
 * Self comes first, and the others get a copy of that.  Receive memory is usually aligned alike
 * on all ranks, the caller's memory is not: what malloc() returns is 16 bytes off.  Eight copies of
 * 64 KiB from there took a fifth longer (Xeon, glibc 2.36).
 */
static int store_some(struct run *r)
{
	uint64_t least = r->bytes;
	struct ori_gather_piece p;

	for (int i = 0; i <= r->nmapped; i++)
		if (r->mapped_ready[i] && r->sent[i] < least)
			least = r->sent[i];
	if (least == r->bytes)
		return 0;
	p = piece_of(r, 0, least, STORE_BYTES);
	if (r->sent[r->nmapped] == least)
		store_self(r, p);
	for (int i = 0; i < r->nmapped; i++) {
		if (!r->mapped_ready[i] || r->sent[i] != least)
			continue;
		ori_gather_to_mapped(r->view, mapped_peer(r, i), &p);
		r->sent[i] += p.bytes;
	}
	return 1;
}

static int work(struct run *r)
{
	int did = look_ready(r), more = 0;

	if (r->plan->nout)
		more = post_some(r);
	if (more >= 0 && r->plan->nin)
		more |= look_arrived(r) | relay_some(r);
	if (more < 0)
		return more;
	return did | more | store_some(r);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Finds the peer and the word to wait for.  0: nothing is left to do. */
static int missing(const struct run *r, int *peer, int *id)
{
	for (int i = 0; i <= r->nmapped; i++)
		if (r->sent[i] < r->bytes) {
			*peer = i < r->nmapped ? mapped_peer(r, i) : r->rank;
			*id = ORI_GATHER_READY;
			return 1;
		}
	for (int f = 0; f < r->plan->nin; f++)
		if (r->relayed[f] < (uint64_t)r->plan->in[f].nitems * r->pieces) {
			*peer = r->plan->in[f].peer;
			*id = ORI_GATHER_NET;
			return 1;
		}
	for (int f = 0; f < r->plan->nout; f++)
		if (r->posted[f] < (uint64_t)r->plan->out[f].nitems * r->pieces) {
			*peer = r->plan->out[f].peer;
			*id = ORI_GATHER_READY;
			return 1;
		}
	return 0;
}

/* Works until everything has left this rank, and everything from other nodes has arrived. */
static int work_all(struct run *r, int *peer)
{
	struct ori_spin s;
	int id = 0, did = 0, idle = 0;

	while (did >= 0 && missing(r, peer, &id)) {
		did = work(r);
		if (did && idle) {
			ori_spin_end(&s);
			idle = 0;
		}
		if (did)
			continue;
		/* age and deadline count from the last progress */
		if (!idle)
			ori_spin_begin(&s, &r->words->comm, r->words->failure, ORIEL_OP_SIGNAL,
				       *peer, id, r->words->number, 1);
		idle = 1;
		s.peer = *peer;
		s.id = id;
		did = ori_spin(&s, ori_gather_count(r->words, *peer, id));
	}
	if (idle)
		ori_spin_end(&s);
	return did < 0 ? did : 0;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static int signal_one(struct run *r, int peer, int id)
{
	return ori_signal_peer(r->words, oriel_group_thread(), peer, id, ORIEL_ADD, 1);
}

/* Tells all ranks that will write here that they may. */
static int say_ready(struct run *r)
{
	int err = 0;

	for (int i = 0; i < r->nmapped && !err; i++)
		err = signal_one(r, mapped_peer(r, i), ORI_GATHER_READY);
	for (int f = 0; f < r->plan->nin && !err; f++)
		err = signal_one(r, r->plan->in[f].peer, ORI_GATHER_READY);
	return err;
}

static int finish(struct run *r, int *peer)
{
	struct oriel_group g = oriel_group_thread();
	int err = 0;

	for (int i = 0; i < r->nmapped && !err; i++)
		err = signal_one(r, mapped_peer(r, i), ORI_GATHER_LOCAL);
	for (int i = 0; i < r->nmapped && !err; i++) {
		*peer = mapped_peer(r, i);
		err = oriel_wait_signal_from(r->words, g, *peer, ORI_GATHER_LOCAL, ORIEL_GE, 1);
	}
	for (int f = 0; f < r->plan->nout && !err; f++) {
		*peer = r->plan->out[f].peer;
		err = ori_gather_flush(r->words, *peer, r->req->lanes);
	}
	return err;
}

/* The next exec counts from the end of this one. */
static void advance(struct run *r)
{
	for (int i = 0; i < r->nmapped; i++) {
		if (r->guarded)
			ori_gather_advance(r->words, mapped_peer(r, i), ORI_GATHER_READY, 1);
		ori_gather_advance(r->words, mapped_peer(r, i), ORI_GATHER_LOCAL, 1);
	}
	for (int f = 0; f < r->plan->nout && r->guarded; f++)
		ori_gather_advance(r->words, r->plan->out[f].peer, ORI_GATHER_READY, 1);
	for (int f = 0; f < r->plan->nin; f++)
		for (uint32_t l = 0; l < r->req->lanes; l++)
			ori_gather_advance(r->words, r->plan->in[f].peer, ORI_GATHER_NET + (int)l,
					   ori_gather_share((uint64_t)r->plan->in[f].nitems *
								    r->pieces,
							    r->req->lanes, l));
}

int ori_gather_scratch(struct oriel_allgather_request *req, size_t bytes)
{
	void *more;

	if (bytes <= req->scratch_bytes)
		return 0;
	more = realloc(req->scratch, bytes);
	if (!more)
		return ori_fail(ORIEL_ENOMEM, "oriel_allgather_exec: no memory");
	req->scratch = more;
	req->scratch_bytes = bytes;
	return 0;
}

static int scratch(struct run *r)
{
	size_t m = (size_t)r->nmapped + 1, in = (size_t)r->plan->nin, out = (size_t)r->plan->nout;
	size_t words = m + 2 * in + out + (size_t)r->plan->nitems, flags = m + out;
	size_t bytes = words * sizeof(uint64_t) + flags;
	int err = ori_gather_scratch(r->req, bytes);

	if (err)
		return err;
	memset(r->req->scratch, 0, bytes);
	r->sent = r->req->scratch;
	r->arrived = r->sent + m;
	r->relayed = r->arrived + in;
	r->posted = r->relayed + in;
	r->have = r->posted + out;
	r->mapped_ready = (uint8_t *)(r->have + r->plan->nitems);
	r->out_ready = r->mapped_ready + m;
	memset(r->mapped_ready, !r->guarded, flags);
	r->mapped_ready[r->nmapped] = 1;
	r->waiting = r->guarded ? r->nmapped : 0;
	r->have[0] = r->pieces;
	return 0;
}

int ori_gather_run(struct oriel_allgather_request *req, const void *sendbuf,
		   const struct ori_gather_choice *choice, const struct ori_gather_plan *plan,
		   uint64_t bytes)
{
	struct run r = { .req = req,
			 .words = ori_gather_dev(req),
			 .view = &req->view,
			 .plan = plan,
			 .map = &req->state->map,
			 .send = sendbuf,
			 .bytes = bytes,
			 .chunk = choice->chunk,
			 .pieces = (bytes + choice->chunk - 1) / choice->chunk,
			 .guarded = !(req->options.flags & ORIEL_GATHER_UNGUARDED),
			 .rank = req->comm->rank };
	int peer = r.rank, err;

	r.nmapped = r.map->size[r.map->node[r.rank]] - 1;
	err = scratch(&r);
	if (!err && r.guarded)
		err = say_ready(&r);
	/* Queues send from receive memory. */
	if (!err && plan->nout)
		store_self(&r, piece_of(&r, 0, 0, bytes));
	if (!err)
		err = work_all(&r, &peer);
	if (!err)
		err = finish(&r, &peer);
	if (err)
		ori_gather_give_up(r.words, err, peer);
	else
		advance(&r);
	return err;
}
