/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/box.h - the memory of packets: where a box lies, how large it is, and what a mark
 * is.
 *
 * A box takes the packets of one peer.  Its memory is in the receiver's control memory.  There are
 * two forms, and both ends of a pair use the same one (docs/decisions/0040).
 *
 *   cells   16 bytes each: two words of 4 bytes data and 4 bytes mark.  A ring of cells; a packet
 *           takes one cell per 8 bytes, and at least one.  Each word tells by itself that it has
 *           arrived.  GPUs use cells among mapped peers.
 *   slots   a header {mark, bytes}, then the data.  The mark is written last, with release.  CPUs,
 *           GPUs without atomics on each other, and queued peers use slots.
 *
 * A box has room for at least four packets of box_bytes.  Credits tell the sender how much of it
 * is free again.  The receiver returns them when it has taken a quarter of the box.
 */
#ifndef ORIEL_DEVICE_BOX_H
#define ORIEL_DEVICE_BOX_H

#include "window.h"

#define ORI_BOX_BYTES_MAX (8u << 20) /* a mark has 24 bits for the size of a packet */
#define ORI_BOX_PACKETS 4u           /* of the largest size that a box holds at least */
#define ORI_BOX_CELLS_MIN 64u
#define ORI_BOX_SLOTS_MAX 64u
#define ORI_BOX_SLOTS_BYTES 16384u /* more than 4 slots only as far as they fit in here */
#define ORI_SLOT_HEADER 16u

/* ---- sizes ----------------------------------------------------------------------------------- */

/* What box_bytes of a window's options lead to.  Powers of two: counts run over 2^64 and 2^32. */
struct ori_box_shape {
	uint64_t cells, slots;
	uint64_t slot_bytes;
	uint64_t stride; /* of a box, with everything */
};

ORIEL_DEV uint64_t ori_packet_cells(uint64_t bytes)
{
	return bytes ? (bytes + 7) / 8 : 1;
}

/* Bytes of the larger form. */
ORIEL_DEV uint64_t ori_box_data_bytes(uint64_t cells, uint64_t slots, uint64_t slot_bytes)
{
	uint64_t as_cells = cells * 16, as_slots = slots * slot_bytes;

	return as_cells > as_slots ? as_cells : as_slots;
}

/* `queued`: packets to queued peers leave from memory behind the box, with a word per slot. */
ORIEL_DEV struct ori_box_shape ori_box_shape_of(uint64_t box_bytes, int queued)
{
	struct ori_box_shape s;

	for (s.cells = ORI_BOX_CELLS_MIN; s.cells < ORI_BOX_PACKETS * ori_packet_cells(box_bytes);)
		s.cells *= 2;
	s.slot_bytes = (ORI_SLOT_HEADER + box_bytes + ORIEL_LINE_BYTES - 1) / ORIEL_LINE_BYTES *
		       ORIEL_LINE_BYTES;
	for (s.slots = ORI_BOX_PACKETS;
	     s.slots < ORI_BOX_SLOTS_MAX && 2 * s.slots * s.slot_bytes <= ORI_BOX_SLOTS_BYTES;)
		s.slots *= 2;
	s.stride = sizeof(struct oriel_box) + ori_box_data_bytes(s.cells, s.slots, s.slot_bytes);
	if (queued)
		s.stride += ORI_BOX_SLOTS_MAX * 8u + s.slots * s.slot_bytes;
	return s;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* This rank's box for the peer. */
ORIEL_DEV struct oriel_box *ori_box_mine(const struct oriel_window_dev *win, int peer, int box)
{
	uint64_t n = (uint64_t)(uint32_t)peer * win->boxes + (uint32_t)box;

	return (struct oriel_box *)(void *)(win->box_memory + n * win->box_stride);
}

/* A mapped peer's box for this rank.  The layouts are equal, so one distance serves all peers. */
ORIEL_DEV struct oriel_box *ori_box_theirs(const struct oriel_window_dev *win,
					   const struct oriel_window_peer *p, int box)
{
	return (struct oriel_box *)(void *)((uint8_t *)p->signals + win->box_shift +
					    (uint64_t)(uint32_t)box * win->box_stride);
}

/* The cells or slots of a box. */
ORIEL_DEV uint8_t *ori_box_data(struct oriel_box *box)
{
	return (uint8_t *)box + sizeof(*box);
}

ORIEL_DEV uint64_t *ori_box_cell(const struct oriel_window_dev *win, struct oriel_box *box,
				 uint64_t count)
{
	return (uint64_t *)(void *)(ori_box_data(box) + (count & win->cell_mask) * 16u);
}

ORIEL_DEV uint8_t *ori_box_slot(const struct oriel_window_dev *win, struct oriel_box *box,
				uint64_t count)
{
	return ori_box_data(box) + (count & win->slot_mask) * win->slot_bytes;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/*
 * The mark of a cell: bit 31, 7 bits of the lap, 24 bits of the packet's size.  Every lap writes
 * every cell of the ring.  So a cell that is waited for holds zeros or the mark of the lap before,
 * and 7 bits are enough for ever.  Memory of zeros holds no mark, because of bit 31.
 */
ORIEL_DEV uint32_t ori_cell_mark(const struct oriel_window_dev *win, uint64_t count, uint64_t bytes)
{
	return 0x80000000u | ((uint32_t)(count >> win->cell_laps) & 0x7fu) << 24 | (uint32_t)bytes;
}

/* The mark of a slot: unlike every earlier one there, and never 0, at which memory starts. */
ORIEL_DEV uint64_t ori_slot_mark(uint64_t count)
{
	return count << 1 | 1u;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Tested in every window: a packet that does not fit would destroy others. */
ORIEL_DEV int ori_packet_fits(const struct oriel_window_dev *win, uint64_t bytes)
{
	return win->boxes && bytes <= win->box_bytes;
}

ORIEL_DEV_OUT int ori_packet_refuse(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const char *call, uint64_t bytes)
{
	if (!win->boxes)
		return ori_refuse(win, g, ORIEL_EUNSUPPORTED, call,
				  "window was created without packets; boxes:", 0, 0);
	return ori_refuse(win, g, ORIEL_ERANGE, call,
			  "packet is longer than box_bytes of the window; bytes:", bytes, 0);
}

ORIEL_DEV_OUT int ori_check_packet(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				   const char *call, int peer, int box)
{
	int err = ori_check_id(win, g, call, "box", box, win->boxes);

	return err ? err : ori_check_peer(win, g, call, peer);
}

/*
 * Called by one thread that found a packet of another size.  It fails the window at once, so that
 * the other threads of the group do not wait for cells that never come.
 */
ORIEL_DEV_OUT int ori_packet_mismatch(const struct oriel_window_dev *win, int peer, uint64_t bytes)
{
	(void)ori_refuse(win, oriel_group_thread(), ORIEL_EMISMATCH, "packet_recv",
			 "sender's packet has another size; expected", bytes, 0);
	return ori_fail_window(win, ORIEL_EMISMATCH, peer);
}

#endif
