/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/who.c - contract of the handle's queries: ranks, kinds, peer indices, mapped
 * addresses; the same answers in kernels and on the host, by value and by pointer.
 */
#include "contract.h"

ORIEL_DEV uint64_t queries_wrong(const struct oriel_window_dev *w, const uint64_t *kinds)
{
	int n = oriel_nranks(w), me = oriel_rank(w), k, index = 0;
	uint64_t wrong = 0;

	for (k = 0; k < n; k++) {
		wrong += (uint64_t)oriel_peer_kind(w, k) != kinds[k];
		wrong += (oriel_peer_kind(w, k) == ORIEL_PEER_SELF) != (k == me);
		if (k == me)
			continue;
		wrong += oriel_peer_to_index(w, k) != index;
		wrong += oriel_index_to_peer(w, index) != k;
		index++;
	}
	wrong += index != n - 1;
	wrong += oriel_peer_kind(w, -1) != ORIEL_PEER_NONE;
	wrong += oriel_peer_kind(w, n) != ORIEL_PEER_NONE;
	return wrong;
}

CONTRACT_KERNEL(query_kernel)
{
	struct oriel_window_dev mine = a->win;
	uint64_t wrong;

	wrong = queries_wrong(&mine, (const uint64_t *)(const void *)a->local);
	wrong += queries_wrong(a->win_ptr, (const uint64_t *)(const void *)a->local);
	wrong += oriel_rank(&mine) != a->peer || oriel_nranks(&mine) != a->id;
	wrong += g.size != (uint32_t)a->mode || g.thread >= g.size;
	wrong += oriel_group_is_leader(g) != (g.thread == 0);
	wrong += oriel_group_thread().size != 1 || !oriel_group_is_leader(oriel_group_thread());
	wrong += g.block >= g.nblocks || g.nblocks != (uint32_t)a->rounds;
	contract_report(a, g, 0, wrong);
}

CASE(who_queries, c.blocks = 3)
{
	struct contract_args a = contract_args(e);
	void *shared = contract_alloc(e, sizeof(e->win));
	uint64_t kinds[8] = { 0 };

	REQUIRE(shared);
	contract_write(e, shared, &e->win, sizeof(e->win));
	a.win_ptr = (const struct oriel_window_dev *)shared;
	for (int k = 0; k < e->nranks; k++)
		kinds[k] = (uint64_t)oriel_comm_peer_kind(e->comm, k);
	contract_write(e, e->local, kinds, sizeof(kinds));
	a.peer = oriel_comm_rank(e->comm);
	a.id = oriel_comm_size(e->comm);
	a.mode = e->threads;
	a.rounds = 3;
	CHECK_EQ(a.peer, e->rank);
	CHECK_EQ(a.id, e->nranks);
	contract_launch(e, &query_kernel, 3, &a);
}

/* Stores and loads through the address are puts and gets, once a sync has passed. */
CONTRACT_KERNEL(address_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), err, k, kind;
	uint64_t wrong = 0;
	uint8_t *p;

	for (k = 0; k < n; k++) {
		p = (uint8_t *)oriel_mapped_address(w, k, (uint64_t)me * 100);
		kind = oriel_peer_kind(w, k);
		wrong += (p != NULL) != (kind == ORIEL_PEER_SELF || kind == ORIEL_PEER_MAPPED);
		wrong += k == me && p != w->buffer + me * 100;
		if (p)
			contract_fill(g, p, 100, 3, me, k);
	}
	wrong += oriel_mapped_address(w, -1, 0) != NULL;
	wrong += oriel_mapped_address(w, n, 0) != NULL;
	wrong += oriel_mapped_address(w, me, w->bytes + 1) != NULL;
	err = oriel_barrier_arrive_wait(w, g, 0);
	for (k = 0; k < n && !err; k++)
		if (oriel_mapped_address(w, k, 0))
			wrong += contract_wrong(g, w->buffer + k * 100, 100, 3, k, me);
	contract_report(a, g, err, wrong);
}

CASE(who_mapped_address, 0)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &address_kernel, 1, &a);
}

CASE(who_host_agrees, c.shape = CONTRACT_HOST)
{
	struct oriel_comm_dev dev;
	struct oriel_comm_peer peer;
	int mapped = 0;

	REQUIRE_OK(oriel_comm_device(e->comm, &dev));
	CHECK_EQ(dev.rank, e->rank);
	CHECK_EQ(dev.nranks, e->nranks);
	CHECK(dev.timeout_ns > 0);
	for (int k = 0; k < e->nranks; k++) {
		const char *why = oriel_comm_peer_reason(e->comm, k);
		int kind = oriel_comm_peer_kind(e->comm, k);

		contract_read(e, &peer, &dev.peers[k], sizeof(peer));
		CHECK_EQ(peer.kind, kind);
		CHECK(why && why[0]);
		CHECK_EQ(kind == ORIEL_PEER_SELF, k == e->rank);
		mapped += kind == ORIEL_PEER_SELF || kind == ORIEL_PEER_MAPPED;
		CHECK_EQ(oriel_comm_node(e->comm, k) == oriel_comm_node(e->comm, e->rank),
			 kind != ORIEL_PEER_QUEUED);
		CHECK(oriel_comm_node(e->comm, k) < oriel_comm_nodes(e->comm));
		CHECK(oriel_comm_node_rank(e->comm, k) < oriel_comm_node_size(e->comm, k));
		CHECK_EQ(peer.node, oriel_comm_node(e->comm, k));
	}
	CHECK_EQ(oriel_comm_node_size(e->comm, e->rank), mapped);
	CHECK(sizeof(struct oriel_window_dev) <= 1088);
}

/* ---- groups -------------------------------------------------------------------------------- */

/* What one thread of a group wrote is there for all after the group's barrier. */
CONTRACT_KERNEL(group_kernel)
{
	uint64_t *row = (uint64_t *)(void *)a->local + g.block * 2 * CONTRACT_THREADS;
	uint64_t wrong = 0;
	int err = 0, i;

	for (i = 1; i <= a->rounds && !err; i++) {
		row[(i & 1) * CONTRACT_THREADS + (int)g.thread] = (uint64_t)i * 100 + g.thread;
		err = oriel_group_sync(g);
		if (!err)
			wrong += row[(i & 1) * CONTRACT_THREADS + (int)((g.thread + 1) % g.size)] !=
				 (uint64_t)i * 100 + (g.thread + 1) % g.size;
	}
	contract_report(a, g, err, wrong);
}

CASE(who_group_barrier, c.blocks = 4)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 200);
	contract_launch(e, &group_kernel, 4, &a);
}

/* Blocks of one launch wait for each other: all are live at once. */
CONTRACT_KERNEL(live_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w), err;

	err = oriel_signal(w, g, me, 0, ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal_from(w, g, me, 0, ORIEL_GE, g.nblocks);
	contract_report(a, g, err, 0);
}

CASE(who_blocks_live_at_once, c.blocks = 8)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &live_kernel, 8, &a);
}
