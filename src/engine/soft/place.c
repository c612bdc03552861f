/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/place.c - how payload crosses the wire, and how it is put into memory.
 *
 * Up to 32 bytes ride in the header, up to 4096 behind it, more as a reference to exported memory
 * that the receiver copies from.  A loopback names the region by key, since both ends are this NIC.
 * Does not know what the bytes are for; permission to touch `to` is the caller's business.
 *
 * Called within soft_nic_step().
 */
#include <string.h>

#include "state.h"

static int loopback(const struct soft_nic *nic, const struct soft_qp *qp)
{
	return qp->rank == nic->rank;
}

uint32_t soft_place_packet_bytes(const struct soft_nic *nic, const struct soft_qp *qp,
				 const struct soft_mr *mr)
{
	uint32_t mtu = nic->config.mtu;

	if (mtu <= SOFT_SLOT_BYTES || loopback(nic, qp) || (mr && mr->attr.export_id))
		return mtu;
	return SOFT_SLOT_BYTES;
}

static void set_flag(struct soft_packet *p, uint32_t flag)
{
	p->flags_psn |= flag << 24;
}

const void *soft_place_carry(const struct soft_nic *nic, const struct soft_qp *qp,
			     struct soft_packet *p, const void *from, const struct soft_mr *mr,
			     uint32_t key, uint64_t address, uint32_t bytes)
{
	p->bytes = bytes;
	if (bytes <= SOFT_SMALL_BYTES) {
		set_flag(p, SOFT_PACKET_SMALL);
		soft_place_copy(p->u.data, from, bytes);
		return NULL;
	}
	if (bytes <= SOFT_SLOT_BYTES) {
		set_flag(p, SOFT_PACKET_SLOT);
		return from;
	}
	if (loopback(nic, qp)) {
		set_flag(p, SOFT_PACKET_KEY);
		p->u.local.address = address;
		p->u.local.key = key;
		return NULL;
	}
	set_flag(p, SOFT_PACKET_REF);
	p->u.ref.id = mr->attr.export_id;
	p->u.ref.offset = mr->attr.export_offset + (address - mr->attr.iova);
	return NULL;
}

const void *soft_place_source(struct soft_nic *nic, const struct soft_qp *qp,
			      const struct soft_packet *p, const struct soft_slot *slot)
{
	uint32_t bytes = p->bytes;

	switch (soft_packet_flags(p) & ~SOFT_PACKET_LAST) {
	case SOFT_PACKET_SMALL:
		return bytes <= SOFT_SMALL_BYTES ? p->u.data : NULL;
	case SOFT_PACKET_SLOT:
		return bytes <= SOFT_SLOT_BYTES ? slot->payload : NULL;
	case SOFT_PACKET_KEY:
		if (!loopback(nic, qp))
			return NULL;
		return soft_mr_find(nic, p->u.local.key, qp->attr.pd, 0, p->u.local.address, bytes,
				    NULL);
	case SOFT_PACKET_REF:
		if (!nic->world.resolve || p->u.ref.offset > UINT64_MAX - bytes)
			return NULL;
		return nic->world.resolve(nic->world.ctx, qp->rank, p->u.ref.id, p->u.ref.offset,
					  bytes);
	default:
		return NULL;
	}
}

static int is_word(const void *p, uint32_t bytes)
{
	return bytes == 8 && ((uintptr_t)p & 7) == 0;
}

void soft_place_copy(void *to, const void *from, uint32_t bytes)
{
	uint64_t word;

	if (bytes != 8) {
		/* source and target may be one mapping: ranks that are threads, and loopback */
		memmove(to, from, bytes);
		return;
	}
	/* [N1] acquire: an aligned word read over the wire is never torn */
	if (is_word(from, bytes))
		word = __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE);
	else
		memcpy(&word, from, 8);
	/*
	 * [N2] release; partner: the acquire load of whoever waits for a signal word.  What this
	 * NIC placed before, for earlier messages, is visible to a thread that sees this word.
	 */
	if (is_word(to, bytes))
		__atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
	else
		memcpy(to, &word, 8);
}
