/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_garbage.c - nonsense in send queues, doorbells and on the wire.
 *
 * The NIC must not crash (the sanitizers watch), must write nothing outside the registered memory,
 * and must stay usable.
 */
#include "soft_world.h"

#include "engine/soft/state.h"

#define BYTES 4096u

static uint64_t state;

static uint64_t rnd(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

struct yard {
	struct world w;
	struct queue a, b;
	uint8_t *mem[2]; /* exactly BYTES: the sanitizer guards the edges */
	uint32_t key[2];
};

static void yard_open(struct yard *y, const char *faults)
{
	world_open(&y->w, 2, NULL, faults);
	for (int r = 0; r < 2; r++) {
		y->mem[r] = calloc(1, BYTES);
		y->key[r] = world_mr(&y->w, r, y->mem[r], BYTES, WORLD_ALL, 1);
	}
	queue_open(&y->w, &y->a, 0, 16, 0xfff8, 1);
	queue_open(&y->w, &y->b, 1, 16, 0xfff8, 1);
	queue_connect(&y->w, &y->a, &y->b);
}

static void yard_close(struct yard *y)
{
	queue_close(&y->w, &y->a);
	queue_close(&y->w, &y->b);
	world_close(&y->w);
	free(y->mem[0]);
	free(y->mem[1]);
}

/* Anything between a right WQE with one field bent and pure noise. */
static void noise_wqe(struct yard *y, struct queue *q)
{
	struct ori_wqe *w = queue_slot(q);
	uint8_t *bytes = (uint8_t *)w;
	static const uint8_t opcodes[] = { 0, 8, 0xf, 0x10, 0x11, 0x12, 0x23 };

	if (rnd() % 2) {
		ori_wqe_rdma(w, q->next, q->qpn, rnd() % 2 ? ORI_WQE_RDMA_WRITE : ORI_WQE_RDMA_READ,
			     rnd() % (BYTES / 2), y->key[1 - q->rank], rnd() % (BYTES / 2),
			     y->key[q->rank], 1 + (uint32_t)(rnd() % (BYTES / 2)), 0);
		if (rnd() % 4 == 0)
			bytes[rnd() % 48] ^= (uint8_t)(1u << rnd() % 8);
		return;
	}
	for (int i = 0; i < 64; i += 8) {
		uint64_t v = rnd();

		memcpy(bytes + i, &v, 8);
	}
	if (rnd() % 8 == 0)
		return;
	ori_wqe_ctrl_set(w, q->next, q->qpn, opcodes[rnd() % 7], 1 + (uint32_t)(rnd() % 5),
			 (uint32_t)(rnd() % 4) << 5);
	if (rnd() % 2) {
		w->u.rdma.raddr.key = ori_be32(y->key[1 - q->rank]);
		w->u.rdma.raddr.address = ori_be64(rnd() % (BYTES + 64));
	}
	if (rnd() % 2)
		ori_wqe_data_set(&w->u.rdma.data, rnd() % BYTES, y->key[q->rank],
				 (uint32_t)(rnd() % 300));
	if (rnd() % 8 == 0)
		w->u.rdma.data.byte_count = ori_be32(ORI_WQE_INLINE_FLAG | (uint32_t)(rnd() % 40));
	if (rnd() % 4 == 0)
		ori_wqe_data_set(&w->u.atomic.result, rnd() % BYTES, y->key[q->rank], 8);
	if (rnd() % 4 == 0)
		w->u.wait.number = ori_be32(rnd() % 2 ? y->a.cqn : y->b.cqn);
}

TEST(noise_in_send_queues)
{
	uint64_t completed = 0, failed = 0;

	state = 1;
	for (int round = 0; round < 1500; round++) {
		struct yard y;
		uint32_t syndrome;

		yard_open(&y, "strict=0,mtu=64,retry=2,retry_ns=10000");
		for (int i = 0; i < 12; i++) {
			struct queue *q = rnd() % 2 ? &y.a : &y.b;

			noise_wqe(&y, q);
			if (rnd() % 32)
				queue_ring(q);
			else
				q->doorbell = rnd();
			world_step(&y.w, 1 + (int)(rnd() % 8));
		}
		world_settle(&y.w, 60);
		while (y.a.polled < y.a.next && queue_poll(&y.a, &syndrome)) {
			completed++;
			failed += syndrome != 0;
		}
		yard_close(&y);
	}
	/* the noise reached both paths */
	CHECK(failed > 1000 && completed > failed + 500);
}

static void noise_packet(struct yard *y, struct soft_packet *p, int to)
{
	struct queue *q = to ? &y->b : &y->a;
	uint8_t *bytes = (uint8_t *)p;

	for (int i = 0; i < 64; i += 8) {
		uint64_t v = rnd();

		memcpy(bytes + i, &v, 8);
	}
	if (rnd() % 8 == 0)
		return;
	p->op_qpn = (uint32_t)(rnd() % 10) << 24 | q->qpn;
	if (rnd() % 4)
		p->flags_psn = 1u << (24 + rnd() % 6) | (uint32_t)(rnd() % 40);
	if (rnd() % 2)
		p->bytes = (uint32_t)(rnd() % 5000);
	if (rnd() % 4)
		p->u1.key = y->key[to];
	if (rnd() % 8 == 0)
		p->u1.ack = (uint32_t)(rnd() % 40);
	if (rnd() % 2)
		p->address = rnd() % (BYTES + 64);
	if (rnd() % 2)
		p->u2.packet_bytes = (uint32_t)(rnd() % 200);
	if (rnd() % 4 == 0) {
		p->u.ref.id = rnd() % 4;
		p->u.ref.offset = rnd() % (2 * BYTES);
	}
	if (rnd() % 8 == 0) {
		p->u.local.key = y->key[to];
		p->u.local.address = rnd() % BYTES;
	}
}

/* A hostile peer: fills slots with anything, in between real traffic. */
TEST(noise_on_the_wire)
{
	struct soft_stats s = { 0 };
	uint64_t refused = 0, received = 0;

	state = 2;
	for (int round = 0; round < 1500; round++) {
		struct yard y;
		struct soft_tx tx[2] = { { 0 } };

		yard_open(&y, round % 2 ? "strict=0,mtu=64,retry=2,retry_ns=10000" :
					  "strict=0,mtu=64,retry=2,retry_ns=10000,ooo=1");
		tx[0].ring = y.w.ring[1][0];
		tx[1].ring = y.w.ring[0][1];
		for (int i = 0; i < 20; i++) {
			int to = (int)(rnd() % 2);
			struct soft_packet p;

			if (rnd() % 4 == 0) {
				struct queue *q = to ? &y.a : &y.b; /* something to be answered */

				noise_wqe(&y, q);
				queue_ring(q);
				soft_nic_step(y.w.nic[1 - to], 8);
				/* the forger writes over what the NIC had put */
				tx[to].next = 0;
				continue;
			}
			noise_packet(&y, &p, to);
			soft_tx_put(&tx[to], &p, y.mem[0], (uint32_t)(rnd() % BYTES));
			world_step(&y.w, 1 + (int)(rnd() % 8));
		}
		/* and a consumer's count that cannot be */
		y.w.ring[0][1]->taken = rnd();
		y.w.ring[1][0]->taken = rnd();
		world_settle(&y.w, 40);
		s = world_stats(&y.w);
		refused += s.refused;
		received += s.packets_received;
		yard_close(&y);
	}
	CHECK(refused > 1000 && received > refused);
}

/* Every slot number of a ring is noise: only what looks filled is taken, and nothing breaks. */
TEST(noise_in_whole_rings)
{
	state = 3;
	for (int round = 0; round < 30; round++) {
		struct yard y;

		yard_open(&y, "strict=0,retry=2,retry_ns=10000");
		for (uint32_t i = 0; i < SOFT_RING_SLOTS; i++) {
			struct soft_slot *slot = &y.w.ring[0][1]->slot[i];

			noise_packet(&y, &slot->packet, 1);
			memset(slot->payload, (int)rnd(), 256);
			slot->packet.seq = i + 1;
		}
		world_settle(&y.w, 40);
		CHECK_EQ(world_stats(&y.w).packets_received >= SOFT_RING_SLOTS, 1);
		yard_close(&y);
	}
}
