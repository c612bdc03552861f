/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/place.c - how payload crosses the wire.  place_copy.c writes it to memory.
 *
 * Up to 32 bytes are in the header, up to 4096 behind it.  Longer payload is a reference to
 * exported memory, from which the receiver copies.  A loopback names the region by key, because
 * both ends are this NIC.  Only world.copy touches device memory, and a copy takes some 10 us for
 * any size.  So device memory goes by reference at any size: a message is then one copy from source
 * to target.  It goes inline only if the other end cannot reach it.  The caller checks the
 * permission to write to `to`.
 *
 * Called within soft_nic_step().
 */
#include "state.h"

/* More copies in a step would delay others: a copy takes some 10 us, a packet a tenth of that. */
#define STEP_COPIES 4u

static int loopback(const struct soft_nic *nic, const struct soft_qp *qp)
{
	return qp->rank == nic->rank;
}

int soft_place_is_shared(const struct soft_nic *nic, const struct soft_qp *qp,
			 const struct soft_mr *mr)
{
	if (loopback(nic, qp))
		return 1;
	return mr->attr.export_id && (!mr->attr.device || qp->reached);
}

uint32_t soft_place_packet_bytes(const struct soft_nic *nic, const struct soft_qp *qp,
				 const struct soft_mr *mr)
{
	uint32_t mtu = nic->config.mtu;

	if (soft_place_is_shared(nic, qp, mr))
		return mr->attr.device ? nic->config.device_mtu : mtu;
	return mtu < SOFT_SLOT_BYTES ? mtu : SOFT_SLOT_BYTES;
}

/* ---- the sender's end ------------------------------------------------------------------------ */

static void set_flag(struct soft_packet *p, uint32_t flag)
{
	p->flags_psn |= flag << 24;
}

int soft_place_may_carry(struct soft_nic *nic, const struct soft_qp *qp, const struct soft_mr *mr,
			 uint32_t bytes)
{
	if (!mr || !mr->attr.device || soft_place_is_shared(nic, qp, mr))
		return 1;
	if (nic->copied < STEP_COPIES) {
		nic->copier = qp->slot;
		return soft_send_ready(nic, qp, bytes);
	}
	/* This queue pair comes first in the next step, unless it used up the copies itself. */
	if (!nic->run_first && nic->copier != qp->slot)
		nic->run_first = qp->slot;
	return 0;
}

static int carry_inline(struct soft_nic *nic, struct soft_packet *p,
			const struct soft_payload *payload, int device, const void **behind)
{
	uint32_t bytes = payload->bytes;
	int small = bytes <= SOFT_SMALL_BYTES, again = payload->again && !device;
	const void *from = payload->from;

	set_flag(p, small ? SOFT_PACKET_SMALL : SOFT_PACKET_SLOT);
	if (again) {
		soft_place_copy_again(nic->bounce, from, bytes);
		from = nic->bounce;
	}
	if (small)
		return soft_place_move(nic, p->u.data, from, bytes, device);
	*behind = device ? nic->bounce : from;
	return device ? soft_place_move(nic, nic->bounce, from, bytes, 1) : 0;
}

int soft_place_carry(struct soft_nic *nic, const struct soft_qp *qp, struct soft_packet *p,
		     const struct soft_payload *payload, const void **behind)
{
	const struct soft_mr *mr = payload->mr;
	int device = mr && mr->attr.device;

	*behind = NULL;
	p->bytes = payload->bytes;
	if (device)
		soft_late_release(nic, 1);
	if (device ? !soft_place_is_shared(nic, qp, mr) : payload->bytes <= SOFT_SLOT_BYTES)
		return carry_inline(nic, p, payload, device, behind);
	if (loopback(nic, qp) || !mr) {
		set_flag(p, SOFT_PACKET_KEY);
		p->u.local.address = payload->address;
		p->u.local.key = payload->key;
		return 0;
	}
	set_flag(p, SOFT_PACKET_REF);
	p->u.ref.id = mr->attr.export_id;
	p->u.ref.offset = mr->attr.export_offset + (payload->address - mr->attr.iova);
	return 0;
}

/* ---- the receiver's end ---------------------------------------------------------------------- */

static const void *local_source(const struct soft_nic *nic, const struct soft_qp *qp,
				const struct soft_packet *p, int *device)
{
	const struct soft_mr *mr;
	const void *from = soft_mr_find(nic, p->u.local.key, qp->attr.pd, 0, p->u.local.address,
					p->bytes, &mr);

	if (from)
		*device = mr->attr.device;
	return from;
}

const void *soft_place_source(struct soft_nic *nic, const struct soft_qp *qp,
			      const struct soft_packet *p, const struct soft_slot *slot,
			      int *device)
{
	uint32_t bytes = p->bytes;

	*device = 0;
	switch (soft_packet_flags(p) & ~SOFT_PACKET_LAST) {
	case SOFT_PACKET_SMALL:
		/*
		 * The address in the ring, not the copy: the device's driver knows that the ring is
		 * pinned.
		 */
		return bytes <= SOFT_SMALL_BYTES ? slot->packet.u.data : NULL;
	case SOFT_PACKET_SLOT:
		return bytes <= SOFT_SLOT_BYTES ? slot->payload : NULL;
	case SOFT_PACKET_KEY:
		return loopback(nic, qp) ? local_source(nic, qp, p, device) : NULL;
	case SOFT_PACKET_REF:
		if (!nic->world.resolve || p->u.ref.offset > UINT64_MAX - bytes)
			return NULL;
		return nic->world.resolve(nic->world.ctx, qp->rank, p->u.ref.id, p->u.ref.offset,
					  bytes, device);
	default:
		return NULL;
	}
}
