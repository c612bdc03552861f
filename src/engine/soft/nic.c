/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/nic.c - the software NIC as a whole: its life, its wires, and step().
 *
 * Owns the order of work within a step: doorbells, incoming packets, every queue pair with work,
 * timers.  Queue pairs are made in qp.c, regions in mr.c.
 *
 * Called by any thread that drives the NIC, one call at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

/* A step reads the clock when the ticks reach this number: often when idle, seldom under load. */
#define TICKS 32u
#define TICKS_IDLE 8u
/* Packets taken from one peer before the next peer's turn. */
#define TURN 32
/* Device copies for peers before they get their answers: one put and its neighbour. */
#define TURN_COPIES 2u

int soft_nic_create(const struct soft_config *config, const struct soft_world *world, int rank,
		    int nranks, struct soft_nic **out)
{
	struct soft_nic *nic;
	int err = ORIEL_ENOMEM;

	if (rank < 0 || rank >= nranks || !world->clock || config->mtu < 64 ||
	    config->mtu > 1u << 20 || config->device_mtu < 64 ||
	    config->device_mtu > ORI_WQE_MESSAGE_BYTES || !config->max_reads ||
	    config->max_reads > 64)
		return ori_fail(ORIEL_EINVAL,
				"software NIC: a parameter is out of range: rank %d of %d, mtu "
				"%u, %u reads",
				rank, nranks, config->mtu, config->max_reads);
	nic = calloc(1, sizeof(*nic));
	if (!nic)
		return ori_fail(ORIEL_ENOMEM, "no memory for a software NIC");
	nic->config = *config;
	nic->config.ooo |= config->overtake;
	nic->world = *world;
	nic->rank = rank;
	nic->nranks = nranks;
	nic->peers = calloc((size_t)nranks, sizeof(*nic->peers));
	nic->wired = calloc((size_t)nranks, sizeof(*nic->wired));
	nic->kicks = calloc((size_t)nranks, sizeof(*nic->kicks));
	if (!nic->peers || !nic->wired || !nic->kicks) {
		ori_fail(err, "no memory for a software NIC with %d peers", nranks);
		goto err_nic;
	}
	err = soft_faults_setup(nic);
	if (!err)
		err = soft_mr_setup(nic);
	if (err)
		goto err_nic;
	*out = nic;
	return 0;

err_nic:
	soft_nic_destroy(nic);
	return err;
}

void soft_nic_destroy(struct soft_nic *nic)
{
	if (!nic)
		return;
	for (uint32_t i = 1; i < nic->qp_room; i++)
		if (nic->qps[i])
			soft_qp_destroy(nic, nic->qps[i]->number);
	free(nic->qps);
	free(nic->generations);
	free(nic->active);
	free(nic->timed);
	free(nic->bells);
	free(nic->mrs);
	free(nic->held);
	soft_late_drop(nic);
	free(nic->wired);
	free(nic->kicks);
	free(nic->peers);
	free(nic);
}

void soft_nic_wire(struct soft_nic *nic, int rank, struct soft_ring *in, struct soft_ring *out)
{
	struct soft_peer *peer = &nic->peers[rank];

	if (!peer->wired)
		nic->wired[nic->wired_count++] = rank;
	memset(peer, 0, sizeof(*peer));
	peer->wired = 1;
	peer->rank = rank;
	peer->rx.ring = in;
	peer->tx.ring = out;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static void take_packet(struct soft_nic *nic, const struct soft_peer *peer,
			const struct soft_slot *slot)
{
	/* this copy is checked: the sender may still write to the slot */
	struct soft_packet p = slot->packet;
	struct soft_qp *qp = soft_qp_find(nic, soft_packet_qpn(&p));
	uint32_t op = soft_packet_op(&p);

	nic->stats.packets_received++;
	nic->left--;
	if (!qp || qp->state == SOFT_RESET || qp->rank != peer->rank || op < SOFT_OP_WRITE ||
	    op > SOFT_OP_ATOMIC_VALUE) {
		nic->stats.refused++;
		return;
	}
	if (op < SOFT_OP_ACK)
		soft_responder_request(nic, qp, &p, slot);
	else
		soft_requester_answer(nic, qp, &p, slot);
}

/* After long copies, the peers that wait for them get their answers first. */
static int may_take(const struct soft_nic *nic)
{
	return nic->left > 0 && nic->copied < TURN_COPIES;
}

static void take_from(struct soft_nic *nic, struct soft_peer *peer)
{
	uint64_t before = peer->rx.next;
	const struct soft_slot *slot;

	while (may_take(nic) && peer->rx.next - before < TURN) {
		slot = soft_rx_peek(&peer->rx);
		if (!slot)
			break;
		take_packet(nic, peer, slot);
		peer->rx.next++;
	}
	/*
	 * After a device copy this happens at the end of the step, with the answers:
	 * publish_taken().
	 */
	if (peer->rx.next != before && !nic->copied)
		soft_rx_publish(&peer->rx);
}

/*
 * A requester takes a packet for lost if it was taken and not answered within the timeout.  So
 * packets whose execution took long count as taken only after their answers were sent.
 */
static void publish_taken(struct soft_nic *nic)
{
	for (int i = 0; i < nic->wired_count; i++)
		soft_rx_publish(&nic->peers[nic->wired[i]].rx);
}

static void take_packets(struct soft_nic *nic)
{
	int count = nic->wired_count, at = nic->wired_first;

	for (int i = 0; i < count && may_take(nic); i++) {
		take_from(nic, &nic->peers[nic->wired[at]]);
		at = at + 1 < count ? at + 1 : 0;
	}
	/*
	 * The next step begins with another peer, so that no peer starves if the budget is small.
	 */
	nic->wired_first = nic->wired_first + 1 < count ? nic->wired_first + 1 : 0;
}

static void run_qp(struct soft_nic *nic, struct soft_qp *qp)
{
	if (qp->state == SOFT_RESET)
		return;
	if (nic->left <= 0) {
		soft_reply_run(nic, qp); /* ACKs cost no budget */
		soft_activate(nic, qp);
		return;
	}
	soft_fetch_late_record(nic, qp);
	soft_reply_run(nic, qp);
	soft_requester_run(nic, qp);
	soft_cq_run(nic, qp);
}

/*
 * Runs the queue pairs of one word of the map.  A queue pair that becomes active meanwhile, also
 * itself, runs in the next step.
 */
static void run_word(struct soft_nic *nic, uint32_t word, uint64_t mask)
{
	uint64_t bits = nic->active[word] & mask;

	nic->active[word] &= ~mask;
	for (; bits; bits &= bits - 1) {
		uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);

		if (nic->left <= 0 && !nic->run_first)
			nic->run_first = slot; /* no budget for it now, so it is first next time */
		run_qp(nic, nic->qps[slot]);
	}
}

static void run_active(struct soft_nic *nic)
{
	uint32_t words = nic->qp_room / 64, first = nic->run_first;
	uint64_t from = ~0ull << (first % 64);

	nic->run_first = 0;
	if (!words)
		return;
	run_word(nic, first / 64, from);
	for (uint32_t i = 1; i < words; i++)
		run_word(nic, (first / 64 + i) % words, ~0ull);
	if (~from)
		run_word(nic, first / 64, ~from);
}

static void run_timers(struct soft_nic *nic)
{
	uint64_t now = 0;

	for (uint32_t word = 0; word < nic->qp_room / 64; word++)
		for (uint64_t bits = nic->timed[word]; bits; bits &= bits - 1) {
			if (!now)
				now = nic->world.clock(nic->world.ctx);
			soft_requester_timer(nic,
					     nic->qps[word * 64 + (uint32_t)__builtin_ctzll(bits)],
					     now);
		}
}

static void kick(struct soft_nic *nic)
{
	for (int i = 0; i < nic->kick_count; i++) {
		nic->peers[nic->kicks[i]].kick = 0;
		if (nic->world.kick)
			nic->world.kick(nic->world.ctx, nic->kicks[i]);
	}
	nic->kick_count = 0;
}

int soft_nic_step(struct soft_nic *nic, int budget)
{
	if (nic->stalled || budget <= 0)
		return 0;
	nic->left = budget;
	nic->copied = nic->copier = 0;
	nic->steps++;
	if (nic->held_count)
		soft_faults_release(nic);
	if (nic->open_atomic.word && nic->steps >= nic->open_atomic.release_step) {
		soft_atomic_end(nic);
		nic->left--; /* a word has changed: this counts as work and wakes waiters */
	}
	if (nic->late)
		soft_late_release(nic, 0);
	soft_fetch_doorbells(nic);
	take_packets(nic);
	run_active(nic);
	nic->timer_ticks += nic->left == budget ? TICKS_IDLE : 1;
	if (nic->timer_ticks >= TICKS) {
		nic->timer_ticks = 0;
		run_timers(nic);
	}
	if (nic->copied)
		publish_taken(nic);
	if (nic->kick_count)
		kick(nic);
	return budget - (nic->left > 0 ? nic->left : 0);
}

int soft_nic_busy(const struct soft_nic *nic)
{
	if (nic->stalled)
		return 0;
	if (nic->outstanding || nic->held_count || nic->late)
		return 1;
	for (uint32_t i = 0; i < nic->qp_room / 64; i++)
		if (nic->active[i])
			return 1;
	for (uint32_t i = 0; i < nic->bell_count; i++)
		if (nic->bells[i].qp->state != SOFT_RESET &&
		    __atomic_load_n(nic->bells[i].word, __ATOMIC_RELAXED) != nic->bells[i].seen)
			return 1;
	for (int i = 0; i < nic->wired_count; i++)
		if (soft_rx_peek(&nic->peers[nic->wired[i]].rx))
			return 1;
	return 0;
}

int soft_nic_idle(const struct soft_nic *nic)
{
	if (nic->outstanding || nic->held_count || nic->late)
		return 0;
	for (uint32_t i = 0; i < nic->bell_count; i++) {
		const struct soft_bell *bell = &nic->bells[i];

		/* torn: the CQE of the last WQE counts as written, but is only half visible. */
		if (bell->qp->state != SOFT_RESET &&
		    (bell->qp->late || bell->qp->torn ||
		     __atomic_load_n(bell->word, __ATOMIC_RELAXED) != bell->seen))
			return 0;
	}
	return 1;
}

void soft_nic_stats(const struct soft_nic *nic, struct soft_stats *out)
{
	*out = nic->stats;
}
