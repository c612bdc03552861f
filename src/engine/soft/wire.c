/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/wire.c - rings of packets in shared memory.
 *
 * Owns the memory order of the wire.  requester.c and responder.c know what a packet means.  Called
 * within soft_nic_step(), on any thread that drives the NIC.
 */
#include <string.h>

#include "wire.h"

void soft_ring_init(struct soft_ring *ring)
{
	/*
	 * Slot numbers start at 1, so 0 means "never filled".  Payload is not touched, so its pages
	 * stay unallocated.
	 */
	ring->taken = 0;
	for (uint32_t i = 0; i < SOFT_RING_SLOTS; i++)
		memset(&ring->slot[i].packet, 0, sizeof(ring->slot[i].packet));
}

/* A count that the consumer cannot have reached means a broken peer: no room, for ever. */
static uint32_t room(const struct soft_tx *tx)
{
	uint64_t used = tx->next - tx->taken;

	return used > SOFT_RING_SLOTS ? 0 : SOFT_RING_SLOTS - (uint32_t)used;
}

static void look(struct soft_tx *tx)
{
	/*
	 * [WIRE4] acquire, sys; partner [WIRE3] in soft_rx_publish().  The consumer has finished
	 * reading the slots counted here, so they may be overwritten.
	 */
	tx->taken = __atomic_load_n(&tx->ring->taken, __ATOMIC_ACQUIRE);
}

uint32_t soft_tx_room(struct soft_tx *tx, uint32_t want)
{
	uint32_t n = room(tx);

	if (n >= want)
		return n;
	look(tx);
	return room(tx);
}

int soft_tx_passed(struct soft_tx *tx, uint64_t count)
{
	if (tx->taken < count)
		look(tx);
	return tx->taken >= count;
}

void soft_tx_put(struct soft_tx *tx, const struct soft_packet *packet, const void *payload,
		 uint32_t bytes)
{
	struct soft_slot *slot = &tx->ring->slot[tx->next % SOFT_RING_SLOTS];

	memcpy(&slot->packet.op_qpn, &packet->op_qpn, sizeof(*packet) - sizeof(packet->seq));
	if (bytes)
		memcpy(slot->payload, payload, bytes);
	tx->next++;
	/*
	 * [WIRE1] release, sys: the reader may be another process; partner [WIRE2] in
	 * soft_rx_peek().  Publishes header and payload.  For a payload by reference, it also
	 * publishes the source bytes that the posting thread wrote.  Without it the peer could see
	 * the number of this packet together with the payload of the slot's previous packet, and
	 * place that.
	 */
	__atomic_store_n(&slot->packet.seq, (uint32_t)tx->next, __ATOMIC_RELEASE);
	__builtin_prefetch(&tx->ring->slot[tx->next % SOFT_RING_SLOTS], 1, 3);
}

struct soft_slot *soft_rx_peek(const struct soft_rx *rx)
{
	struct soft_slot *slot = &rx->ring->slot[rx->next % SOFT_RING_SLOTS];

	/* [WIRE2] acquire, sys; partner [WIRE1] in soft_tx_put(). */
	if (__atomic_load_n(&slot->packet.seq, __ATOMIC_ACQUIRE) != (uint32_t)(rx->next + 1))
		return NULL;
	return slot;
}

void soft_rx_publish(struct soft_rx *rx)
{
	/*
	 * [WIRE3] release, sys; partner [WIRE4] in look().  Publishes that the slots have been
	 * read.  Without it the producer could overwrite a slot while this rank still copies from
	 * it.
	 */
	__atomic_store_n(&rx->ring->taken, rx->next, __ATOMIC_RELEASE);
}
