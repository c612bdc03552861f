/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/wire.c - packets as the software NIC finds them in its rings.
 *
 * The rings are memory that another process writes, and that process may be hostile.  Forged
 * packets come between real traffic, and the ring's count may be anything.  No packet may make the
 * NIC touch memory outside the registered regions.
 */
#include "soft_yard.h"

#include "engine/soft/state.h"

#define OPS 48

enum wire_op { OP_PACKET, OP_WQE, OP_STEP, OP_TAKEN, OP_COUNT };

/* Fields of 64 raw bytes that `fix` makes right, bit by bit. */
static void make_packet(struct soft_yard *y, int to, uint8_t fix, struct fuzz_input *in,
			struct soft_packet *p)
{
	fuzz_take(in, p, sizeof(*p));
	if (fix & 1)
		p->op_qpn = (p->op_qpn >> 24) % 10 << 24 | y->q[to].qpn;
	if (fix & 2)
		p->flags_psn = (p->flags_psn & 0xff000000u) |
			       ((p->flags_psn + y->w.config.first_psn) & 0xffu);
	if (fix & 4)
		p->u1.key = y->key[to];
	if (fix & 8)
		p->address %= YARD_BYTES;
	if (fix & 16)
		p->bytes %= 256;
	if (fix & 32)
		p->flags_psn = (p->flags_psn & 0xffffffu) |
			       (uint32_t)(SOFT_PACKET_SMALL | (fix & 64 ? SOFT_PACKET_LAST : 0))
				       << 24;
	if (fix & 128)
		p->u2.packet_bytes %= 256;
}

/* Puts the packet where the NIC of rank `to` looks next. */
static void forge(struct soft_yard *y, int to, struct fuzz_input *in)
{
	const struct soft_peer *from = &y->w.nic[to]->peers[1 - to];
	struct soft_tx tx = { .ring = from->rx.ring, .next = from->rx.next };
	uint8_t fix = fuzz_byte(in), bytes = fuzz_byte(in);
	uint8_t payload[256];
	struct soft_packet p;

	make_packet(y, to, fix, in, &p);
	memset(payload, bytes, sizeof(payload));
	soft_tx_put(&tx, &p, payload, bytes);
}

static void step(struct soft_yard *y, struct fuzz_input *in)
{
	uint8_t what = fuzz_byte(in);
	int rank = what >> 7;
	uint64_t taken;

	switch (what % OP_COUNT) {
	case OP_PACKET:
		forge(y, rank, in);
		break;
	case OP_WQE:
		if (queue_full(&y->q[rank]))
			break;
		yard_wqe(y, rank, fuzz_byte(in), in);
		queue_ring(&y->q[rank]);
		break;
	case OP_TAKEN:
		fuzz_take(in, &taken, sizeof(taken));
		__atomic_store_n(&y->w.ring[rank][1 - rank]->taken, what & 64 ? taken % 128 : taken,
				 __ATOMIC_RELEASE);
		break;
	default:
		break;
	}
	world_step(&y->w, 1 + (what >> 2) % 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct soft_yard y;
	uint8_t how = fuzz_byte(&in);

	yard_open(&y, how);
	for (int n = 0; n < OPS && in.left; n++)
		step(&y, &in);
	world_settle(&y.w, 100);
	yard_close(&y);
	return 0;
}

size_t fuzz_seed(int n, uint8_t *out, size_t room)
{
	static const uint8_t ops[] = { SOFT_OP_WRITE,        SOFT_OP_READ,        SOFT_OP_FETCH_ADD,
				       SOFT_OP_COMPARE_SWAP, SOFT_OP_ACK,         SOFT_OP_NAK,
				       SOFT_OP_READ_DATA,    SOFT_OP_ATOMIC_VALUE };
	struct fuzz_output o = { out, room, 0 };
	struct soft_packet p;

	if (n >= (int)sizeof(ops))
		return 0;
	fuzz_give_byte(&o, (uint8_t)(n & 1 ? 2 : 16));
	/* a request that the forged packets may answer */
	fuzz_give_byte(&o, OP_WQE | 128);
	fuzz_give_byte(&o, 15);
	yard_seed_wqe(&o, (uint8_t)(n == 7 ? 4 : 2));
	for (uint32_t i = 0; i < 3; i++) {
		memset(&p, 0, sizeof(p));
		p.op_qpn = (uint32_t)ops[n] << 24;
		p.flags_psn = i;
		p.bytes = n == 1 ? 200 : 8;
		p.address = 64;
		p.u2.packet_bytes = n == 1 ? 64 : 0;
		fuzz_give_byte(&o, OP_PACKET | 128 | 60);
		fuzz_give_byte(&o, (uint8_t)(1 | 2 | (n < 4 ? 4 : 0) | 32 | 64));
		fuzz_give_byte(&o, 8);
		fuzz_give(&o, &p, sizeof(p));
	}
	return o.bytes;
}
