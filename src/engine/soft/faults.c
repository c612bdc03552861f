/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/faults.c - faults of wire and NIC: random with a seed, so that a run can be repeated.
 *
 * Every packet leaves through soft_send(), which can drop, duplicate or hold back a packet.  Other
 * packets overtake a held packet.  Time is counted in steps of this NIC, never by a clock.
 *
 * Called within soft_nic_step().
 */
#include <signal.h>
#include <stdlib.h>

#include "../../util/util.h"
#include "state.h"

/* An unordered wire holds back this fraction of the packets by default. */
#define OOO_REORDER 0.1

int soft_faults_setup(struct soft_nic *nic)
{
	struct soft_config *c = &nic->config;

	nic->random = c->seed * 0x2545f4914f6cdd1dull + (uint64_t)nic->rank;
	if (c->ooo && !(c->reorder > 0))
		c->reorder = OOO_REORDER;
	nic->faulty = c->drop > 0 || c->dup > 0 || c->reorder > 0 || c->delay > 0;
	if (!nic->faulty)
		return 0;
	nic->held = calloc(SOFT_HELD, sizeof(*nic->held));
	if (!nic->held)
		return ori_fail(ORIEL_ENOMEM, "software NIC: no memory for held packets");
	return 0;
}

static void put(struct soft_nic *nic, struct soft_peer *peer, const struct soft_packet *packet,
		const void *payload, uint32_t bytes)
{
	soft_tx_put(&peer->tx, packet, payload, bytes);
	if (!peer->kick && peer->rank != nic->rank) {
		peer->kick = 1;
		nic->kicks[nic->kick_count++] = peer->rank;
	}
	nic->stats.packets_sent++;
}

static int hold(struct soft_nic *nic, int rank, const struct soft_packet *packet,
		const void *payload, uint32_t bytes, uint32_t steps)
{
	struct soft_held *h = nic->held;

	if (nic->held_count == SOFT_HELD)
		return 0;
	while (h->used)
		h++;
	h->used = 1;
	h->rank = rank;
	h->release_step = nic->steps + 1 + soft_random(nic) % steps;
	h->packet = *packet;
	h->bytes = bytes;
	soft_place_copy(h->payload, payload ? payload : h->payload, bytes);
	nic->held_count++;
	return 1;
}

/* Sends or holds back one copy of a packet. */
static void emit(struct soft_nic *nic, struct soft_peer *peer, const struct soft_packet *packet,
		 const void *payload, uint32_t bytes)
{
	if (soft_chance(nic, nic->config.reorder) &&
	    hold(nic, peer->rank, packet, payload, bytes, 8)) {
		nic->stats.reordered++;
		return;
	}
	if (soft_chance(nic, nic->config.delay) &&
	    hold(nic, peer->rank, packet, payload, bytes, 256)) {
		nic->stats.delayed++;
		return;
	}
	put(nic, peer, packet, payload, bytes);
}

/* With a rate, the clock adds credit in bytes.  A packet may overdraw it.  ACKs need no credit. */
static int rate_allows(struct soft_nic *nic, uint32_t bytes)
{
	uint64_t rate = nic->config.rate, now, passed;
	int64_t most = (int64_t)(rate / 1000 + 65536); /* 1 ms of credit */

	if (!rate || !bytes)
		return 1;
	now = nic->world.clock(nic->world.ctx);
	passed = now - nic->rate_ns < 1000000 ? now - nic->rate_ns : 1000000;
	nic->rate_ns = now;
	nic->rate_bytes += (int64_t)((double)passed * (double)rate * 1e-9);
	if (nic->rate_bytes > most)
		nic->rate_bytes = most;
	return nic->rate_bytes > 0;
}

int soft_send_ready(struct soft_nic *nic, const struct soft_qp *qp, uint32_t carried)
{
	return soft_tx_room(&nic->peers[qp->rank].tx, 2) >= 2 && rate_allows(nic, carried);
}

int soft_send(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *packet,
	      const void *payload, uint32_t bytes)
{
	uint32_t carried = soft_packet_op(packet) == SOFT_OP_READ ? 0 : packet->bytes;
	struct soft_peer *peer = &nic->peers[qp->rank];

	if (!soft_send_ready(nic, qp, carried))
		return 0;
	if (nic->config.rate)
		nic->rate_bytes -= carried;
	nic->stats.bytes_sent += carried;
	if (!nic->faulty) {
		put(nic, peer, packet, payload, bytes);
		return 1;
	}
	if (soft_chance(nic, nic->config.drop)) {
		nic->stats.dropped++;
		return 1;
	}
	emit(nic, peer, packet, payload, bytes);
	if (soft_chance(nic, nic->config.dup)) {
		nic->stats.duplicated++;
		emit(nic, peer, packet, payload, bytes);
	}
	return 1;
}

void soft_faults_release(struct soft_nic *nic)
{
	for (uint32_t i = 0; i < SOFT_HELD && nic->held_count; i++) {
		struct soft_held *h = &nic->held[i];
		struct soft_peer *peer = &nic->peers[h->rank];

		if (!h->used || nic->steps < h->release_step || !soft_tx_room(&peer->tx, 1))
			continue;
		put(nic, peer, &h->packet, h->payload, h->bytes);
		h->used = 0;
		nic->held_count--;
	}
}

uint32_t soft_faults_take(struct soft_nic *nic, uint32_t lkey)
{
	struct soft_config *c = &nic->config;
	uint64_t n = nic->stats.wqes;

	if (c->kill_at && n == c->kill_at)
		raise(SIGKILL);
	if (c->stall_at && n == c->stall_at) {
		ori_log(ORI_LOG_WARN, "software NIC of rank %d stalls at WQE %llu, as asked",
			nic->rank, (unsigned long long)n);
		nic->stalled = 1;
	}
	/* Applies to the first WQE from there on that names local memory. */
	if (c->revoke_at && n >= c->revoke_at && lkey) {
		ori_log(ORI_LOG_WARN,
			"software NIC of rank %d revokes key 0x%x at WQE %llu, as asked", nic->rank,
			lkey, (unsigned long long)n);
		soft_mr_destroy(nic, lkey);
		c->revoke_at = 0;
		return ORI_SYNDROME_LOCAL_PROT;
	}
	return c->qp_error_at && n == c->qp_error_at ? ORI_SYNDROME_ABORTED : 0;
}
