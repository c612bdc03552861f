/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/connect.c - makes queues to the queued peers that the user asks for, and to no others.
 *
 * All ranks take part in the rounds: which rank wants queues to which (and the lists of those that
 * name single peers); how many new peers each rank has; the names of the new queues and wires;
 * whether all ranks could connect.  A pair gets queues if one of the two names the other.  The
 * memory of a pair is allocated when it is connected, so a rank of a large job pays only for the
 * peers it talks to.  No thread sees a new queue, or posts to it, before the last round is over.
 * So after a failure the peers are not connected, as before the call.
 *
 * Does not own the tables (links.c) or the queue pairs (lanes.c).  Called by comm creation and by
 * oriel_comm_connect, on any thread.  The engine runs meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "connect.h"
#include "failure.h"
#include "imports.h"
#include "links.h"
#include "object.h"

/* Index of the first lane number in a row. */
#define ROW_NUMBERS (1u + sizeof(struct ori_export) / sizeof(uint32_t))

/* What a rank sends in the first round. */
struct wish_record {
	uint32_t lanes, nics, flags; /* must be the same on all ranks */
	int32_t count;               /* how many peers it names, or ORI_CONNECT_ALL */
	struct ori_engine_address address;
};
_Static_assert(sizeof(struct wish_record) <= ORI_RECORD_BYTES, "must fit a record");

/* One call, on one rank. */
struct connecting {
	struct oriel_comm *comm;
	int32_t *named;           /* ranks that this rank names; none twice, none that has queues */
	int32_t nnamed;           /* how many, or ORI_CONNECT_ALL */
	struct wish_record *wish; /* [nranks] */
	uint8_t *fresh;           /* [nranks] 1: this call makes queues to that rank */
	int32_t count, most;      /* number of such ranks; the largest number on any rank */
	/*
	 * [nranks][most] rows of `row` words each: peer + 1; the wires from that peer (struct
	 * ori_export); the queue number of each lane.
	 */
	uint32_t *rows, row;
};

static int needs_queues(struct oriel_comm *c, int rank)
{
	return c->peers[rank].pair.kind == ORIEL_PEER_QUEUED && !c->links->link[rank].nlanes;
}

/* Gathers `bytes` from all ranks.  A rank without memory aborts, so that no rank waits. */
static int gather(struct oriel_comm *c, const void *mine, void *all, uint64_t bytes)
{
	int err = mine && all ? ori_boot_round(c->boot, ori_call_name(c->call), mine, all, bytes,
					       ori_comm_round_ns(c)) :
				ori_fail(ORIEL_ENOMEM, "no memory to exchange queues");

	if (err && (!mine || !all))
		c->boot->ops->abort(c->boot, err, ori_last_error_text());
	return err;
}

/* ---- which pairs ---------------------------------------------------------------------------- */

static int compare(const struct connecting *k)
{
	const struct wish_record *all = k->wish;

	for (int r = 1; r < k->comm->nranks; r++)
		if (all[r].lanes != all[0].lanes || all[r].nics != all[0].nics ||
		    all[r].flags != all[0].flags)
			return ori_fail(ORIEL_EMISMATCH,
					"rank %d and rank 0 differ in ORIEL_LANES, ORIEL_NICS or "
					"the engine's abilities",
					r);
	for (int r = 0; r < k->comm->nranks; r++)
		if (all[r].count < ORI_CONNECT_ALL || all[r].count > k->comm->nranks)
			return ori_fail(ORIEL_EPROTO, "rank %d wants queues to %d of %d ranks", r,
					all[r].count, k->comm->nranks);
	return 0;
}

/* Rank a wants queues to b.  Marks the other rank if this one is part of the pair. */
static void wish_for(struct connecting *k, int a, int b)
{
	int me = k->comm->rank;

	if (a == me || b == me)
		k->fresh[a == me ? b : a] = 1;
}

/* Reads the lists of the ranks that name single peers. */
static int read_lists(struct connecting *k, int longest)
{
	struct oriel_comm *c = k->comm;
	uint64_t size = (uint64_t)longest;
	int32_t *mine = calloc(size, sizeof(*mine));
	int32_t *all = calloc(size * (uint64_t)c->nranks, sizeof(*all));
	int err;

	if (mine && k->nnamed > 0)
		memcpy(mine, k->named, (uint64_t)k->nnamed * sizeof(*mine));
	err = gather(c, mine, all, size * sizeof(*mine));
	for (int r = 0; r < c->nranks && !err; r++)
		for (int i = 0; i < k->wish[r].count && !err; i++) {
			int named = all[(uint64_t)r * size + (uint64_t)i];

			if (named < 0 || named >= c->nranks)
				err = ori_fail(ORIEL_EPROTO,
					       "rank %d wants queues to rank %d of %d", r, named,
					       c->nranks);
			else
				wish_for(k, r, named);
		}
	free(mine);
	free(all);
	return err;
}

static int choose_peers(struct connecting *k)
{
	struct oriel_comm *c = k->comm;
	int longest = 0, err = 0;

	for (int r = 0; r < c->nranks; r++) {
		if (k->wish[r].count > longest)
			longest = k->wish[r].count;
		for (int p = 0; p < c->nranks && k->wish[r].count == ORI_CONNECT_ALL; p++)
			wish_for(k, r, p);
	}
	if (longest)
		err = read_lists(k, longest);
	for (int r = 0; r < c->nranks; r++) {
		k->fresh[r] &= needs_queues(c, r);
		k->count += k->fresh[r];
	}
	return err;
}

/* ---- making queues -------------------------------------------------------------------------- */

static int make_peer(struct oriel_comm *c, int rank)
{
	struct ori_links *l = c->links;
	int err = 0;

	for (uint32_t n = 0; n < l->lanes && !err; n++)
		err = ori_lane_make(c, l, rank, n);
	return err;
}

static int make_peers(struct connecting *k)
{
	int err = ori_links_make_memory(k->comm, k->fresh, k->count);

	for (int r = 0; r < k->comm->nranks && !err; r++)
		if (k->fresh[r])
			err = make_peer(k->comm, r);
	return err;
}

static int exchange_rows(struct connecting *k)
{
	struct oriel_comm *c = k->comm;
	struct ori_links *l = c->links;
	uint64_t words = (uint64_t)k->most * k->row;
	uint32_t *mine = calloc(words, sizeof(*mine)), *at = mine;
	int err;

	k->rows = calloc(words * (uint64_t)c->nranks, sizeof(*k->rows));
	for (int r = 0; r < c->nranks && mine; r++) {
		if (!k->fresh[r])
			continue;
		at[0] = (uint32_t)r + 1;
		memcpy(at + 1, &l->peers[r].told, sizeof(l->peers[r].told));
		memcpy(at + ROW_NUMBERS, &l->number[(uint64_t)r * l->lanes],
		       l->lanes * sizeof(*at));
		at += k->row;
	}
	err = gather(c, mine, k->rows, words * sizeof(*mine));
	free(mine);
	return err;
}

/* The row in which `rank` tells this rank of its queues; NULL: there is none. */
static const uint32_t *find_row(const struct connecting *k, int rank)
{
	const uint32_t *row = k->rows + (uint64_t)rank * (uint64_t)k->most * k->row;

	for (int i = 0; i < k->most; i++, row += k->row)
		if (row[0] == (uint32_t)k->comm->rank + 1)
			return row;
	return NULL;
}

/* ---- connecting ----------------------------------------------------------------------------- */

static int set_wires(struct oriel_comm *c, int rank, const uint32_t *row)
{
	struct ori_peer_links *p = &c->links->peers[rank];
	struct ori_engine *e = c->engine;
	struct ori_export theirs;
	void *out;
	int err;

	if (!e->wire_bytes)
		return 0;
	memcpy(&theirs, row + 1, sizeof(theirs));
	if (theirs.bytes != ori_links_wire_bytes(c) || theirs.offset % ORI_SLAB_ALIGN)
		return ori_fail(ORIEL_EPROTO, "rank %d names wires that cannot be", rank);
	err = ori_import_range(c, rank, &theirs, &out, &p->import);
	for (uint32_t nic = 0; nic < e->nics && !err; nic++)
		e->ops->wire_set(e, nic, rank, p->wires + nic * e->wire_bytes,
				 (char *)out + nic * e->wire_bytes);
	return err;
}

/* Copies lanes, link and its word to the tables that kernels of a separate device read. */
static int publish_peer(struct oriel_comm *c, int rank, const struct oriel_link *link)
{
	struct ori_links *l = c->links;
	const struct oriel_lane *near = (const struct oriel_lane *)l->near_lanes +
					(uint64_t)rank * l->lanes;
	uint64_t *word = (uint64_t *)(uintptr_t)l->near_words + rank;
	struct oriel_link seen = *link;
	struct oriel_lane lane;
	int err = 0;

	for (uint32_t n = 0; n < l->lanes && !err; n++) {
		err = ori_lane_publish(c, l, rank, n, &lane);
		if (!err)
			err = c->device->ops->copy(c->device, (void *)(uintptr_t)(near + n), &lane,
						   sizeof(lane));
	}
	seen.lanes = near;
	seen.last_signal = word;
	if (!err)
		err = c->device->ops->copy(c->device, word, &l->start, sizeof(l->start));
	if (!err)
		err = c->device->ops->copy(c->device, (void *)(uintptr_t)&l->dev_link[rank], &seen,
					   sizeof(seen));
	return err;
}

/*
 * Until all ranks have connected, the caller fills a local copy only: nlanes in the table stays 0,
 * and ori_link_to() returns NULL.
 */
static void fill_link(struct oriel_comm *c, int rank, struct oriel_link *link)
{
	struct ori_links *l = c->links;

	link->lanes = &l->lane[(uint64_t)rank * l->lanes];
	link->nlanes = l->lanes;
	link->flags = c->engine->link_flags;
	link->message_bytes = c->engine->message_bytes;
	link->last_signal = &l->last_signal[rank];
	l->last_signal[rank] = l->start;
}

static int connect_peer(struct connecting *k, int rank)
{
	struct oriel_comm *c = k->comm;
	struct ori_links *l = c->links;
	const uint32_t *row = find_row(k, rank);
	struct oriel_link link;
	int err;

	if (!row)
		return ori_fail(ORIEL_EPROTO, "rank %d does not name its queues to this rank",
				rank);
	err = set_wires(c, rank, row);
	if (!err)
		err = c->engine->ops->peer(c->engine, rank, &k->wish[rank].address);
	for (uint32_t n = 0; n < l->lanes && !err; n++)
		err = ori_lane_connect(c, l, rank, n, row[ROW_NUMBERS + n]);
	if (err || !c->device->separate)
		return err;
	fill_link(c, rank, &link);
	return publish_peer(c, rank, &link);
}

static int connect_peers(struct connecting *k)
{
	int err = 0;

	for (int r = 0; r < k->comm->nranks && !err; r++)
		if (k->fresh[r])
			err = connect_peer(k, r);
	return err;
}

/*
 * All ranks have connected.  Makes the new peers visible to the comm's handle, and to windows that
 * are created from now on.
 */
static int show_peers(struct connecting *k)
{
	struct oriel_comm *c = k->comm;
	int err = 0;

	for (int r = 0; r < c->nranks && !err; r++) {
		struct oriel_comm_peer *d = &c->dev_peers[r];

		if (!k->fresh[r])
			continue;
		fill_link(c, r, &c->links->link[r]);
		/*
		 * [LINKS3] release, system scope; partner: the device's load of the peer's link,
		 * which needs no acquire because it reads on through that pointer only.  Publishes
		 * the link and its lanes to CPU kernels of other threads.  Without it such a kernel
		 * could see the pointer beside a link that has no lanes yet.
		 */
		__atomic_store_n(&d->link, ori_link_to(c, r), __ATOMIC_RELEASE);
		/* during the creation of the comm there is no handle yet */
		if (c->device->separate && c->dev.peers)
			err = c->device->ops->copy(c->device, (void *)(uintptr_t)&c->dev.peers[r],
						   d, sizeof(*d));
	}
	/* The others have returned from their last round: for them this rank fails the comm. */
	if (err)
		ori_comm_fail_all(c, err, ori_last_error_text());
	return err;
}

/* ---- the rounds ----------------------------------------------------------------------------- */

static void list_named(struct connecting *k, const int *ranks, int n)
{
	struct oriel_comm *c = k->comm;

	k->nnamed = n < 0 ? n : 0;
	for (int i = 0; i < n; i++) {
		if (!needs_queues(c, ranks[i]) || k->fresh[ranks[i]])
			continue;
		k->fresh[ranks[i]] = 1;
		k->named[k->nnamed++] = ranks[i];
	}
}

static int tell_wishes(struct connecting *k, int status, const int *ranks, int n)
{
	struct oriel_comm *c = k->comm;
	struct wish_record mine = { 0 };

	k->wish = calloc((uint64_t)c->nranks, sizeof(*k->wish));
	k->fresh = calloc((uint64_t)c->nranks, sizeof(*k->fresh));
	k->named = calloc((uint64_t)c->nranks, sizeof(*k->named));
	if (!status && (!k->wish || !k->fresh || !k->named))
		status = ori_fail(ORIEL_ENOMEM, "no memory for queues to %d ranks", c->nranks);
	if (!status) {
		list_named(k, ranks, n);
		mine.lanes = c->links->lanes;
		mine.nics = c->engine->nics;
		mine.flags = c->engine->link_flags;
		mine.count = k->nnamed;
		status = c->engine->ops->address(c->engine, &mine.address);
		k->row = ROW_NUMBERS + c->links->lanes;
	}
	return ori_comm_agree(c, status, &mine, k->wish, k->wish ? sizeof(mine) : 0);
}

/* Exchanges how many new peers each rank has; the largest number gives the number of rows. */
static int tell_counts(struct connecting *k, int status)
{
	struct oriel_comm *c = k->comm;
	int32_t *all = calloc((uint64_t)c->nranks, sizeof(*all));
	int err;

	if (!status && !all)
		status = ori_fail(ORIEL_ENOMEM, "no memory for queues to %d ranks", c->nranks);
	err = ori_comm_agree(c, status, &k->count, all, all ? sizeof(k->count) : 0);
	for (int r = 0; r < c->nranks && !err; r++) {
		if (all[r] < 0 || all[r] > c->nranks)
			err = ori_fail(ORIEL_EPROTO, "rank %d has queues to %d of %d ranks", r,
				       all[r], c->nranks);
		else if (all[r] > k->most)
			k->most = all[r];
	}
	free(all);
	return err;
}

int ori_connect_queues(struct oriel_comm *c, int status, const int *ranks, int n)
{
	struct connecting k = { .comm = c };
	int wishes = 0, err = tell_wishes(&k, status, ranks, n);

	if (!err)
		err = compare(&k); /* the same result on all ranks */
	for (int r = 0; r < c->nranks && !err; r++)
		wishes |= k.wish[r].count;
	if (err || !wishes)
		goto out;
	err = choose_peers(&k);
	err = tell_counts(&k, err ? err : make_peers(&k));
	if (err || !k.most)
		goto out;
	err = exchange_rows(&k);
	if (err)
		goto out;
	err = ori_comm_agree(c, connect_peers(&k), NULL, NULL, 0);
	if (!err)
		err = show_peers(&k);
out:
	free(k.wish);
	free(k.fresh);
	free(k.named);
	free(k.rows);
	return err;
}

int oriel_comm_connect(struct oriel_comm *c, const int *ranks, int n)
{
	int status = 0, err = ori_comm_check(c, "oriel_comm_connect");

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	ori_comm_call_begin(c, ORI_CALL_COMM_CONNECT);
	if (n < 0 || (n > 0 && !ranks))
		status = ori_fail(ORIEL_EINVAL, "oriel_comm_connect: %d ranks%s", n,
				  n > 0 ? " and no list" : "");
	for (int i = 0; !status && i < n; i++)
		status = ori_comm_check_rank(c, ranks[i], "oriel_comm_connect");
	/* Without queued peers there is nothing to make, but all ranks learn of bad arguments. */
	if (!c->links)
		return ori_comm_agree(c, status, NULL, NULL, 0);
	return ori_connect_queues(c, status, ranks, n);
}
