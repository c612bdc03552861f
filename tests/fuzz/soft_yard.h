/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/soft_yard.h - two software NICs, connected by one pair of queues, for wire.c and
 * wqe.c.
 *
 * The memory of each rank is exactly the registered region, so AddressSanitizer finds any access
 * outside it.
 */
#ifndef ORI_TEST_SOFT_YARD_H
#define ORI_TEST_SOFT_YARD_H

#include "../unit/soft_world.h"
#include "fuzz.h"

#define YARD_BYTES 4096u
#define YARD_DEPTH 16u

struct soft_yard {
	struct world w;
	struct queue q[2]; /* of rank 0 and of rank 1 */
	uint8_t *mem[2];
	uint32_t key[2];
};

/*
 * As world_open(), with rings that are used again.  New ones are a megabyte of fresh pages, which
 * would take most of the time of an input.
 */
static void yard_open_world(struct world *w, const char *personality, const char *faults)
{
	static struct soft_ring rings[2][2] __attribute__((aligned(128)));

	memset(w, 0, sizeof(*w));
	w->n = 2;
	w->now_ns = 1;
	w->step_ns = 1000;
	CHECK_EQ(soft_config_personality(&w->config, personality), 0);
	CHECK_EQ(soft_config_faults(&w->config, faults), 0);
	for (int a = 0; a < 2; a++)
		for (int b = 0; b < 2; b++) {
			w->ring[a][b] = &rings[a][b];
			soft_ring_init(&rings[a][b]);
		}
	for (int a = 0; a < 2; a++) {
		struct soft_world around = { .ctx = &w->at[a],
					     .clock = world_clock,
					     .resolve = world_resolve,
					     .kick = world_kick,
					     .error = world_error,
					     .reaches = world_reaches };

		w->at[a].world = w;
		w->at[a].rank = a;
		if (soft_nic_create(&w->config, &around, a, 2, &w->nic[a]))
			exit(1);
		for (int b = 0; b < 2; b++)
			soft_nic_wire(w->nic[a], b, w->ring[b][a], w->ring[a][b]);
	}
}

static void yard_open(struct soft_yard *y, uint8_t how)
{
	char faults[96];

	snprintf(faults, sizeof(faults), "strict=%d,mtu=64,retry=2,retry_ns=10000,ooo=%d%s",
		 how & 1, how >> 1 & 1, how & 4 ? ",drop=0.2,reorder=0.2,dup=0.2" : "");
	yard_open_world(&y->w, how & 8 ? "cx7" : NULL, faults);
	for (int r = 0; r < 2; r++) {
		y->mem[r] = calloc(1, YARD_BYTES);
		if (!y->mem[r])
			exit(1);
		y->key[r] = world_mr(&y->w, r, y->mem[r], YARD_BYTES, WORLD_ALL, how >> 4 & 1);
		queue_open(&y->w, &y->q[r], r, YARD_DEPTH, 0xfff8, 1);
	}
	queue_connect(&y->w, &y->q[0], &y->q[1]);
}

static void yard_close(struct soft_yard *y)
{
	for (int r = 0; r < 2; r++)
		queue_close(&y->w, &y->q[r]);
	for (int r = 0; r < 2; r++) {
		soft_nic_destroy(y->w.nic[r]);
		free(y->mem[r]);
	}
}

/* A WQE of 64 raw bytes.  `fix` says which fields are made right, bit by bit. */
static void yard_wqe(struct soft_yard *y, int rank, uint8_t fix, struct fuzz_input *in)
{
	static const uint8_t opcodes[] = { ORI_WQE_NOP,       ORI_WQE_RDMA_WRITE, ORI_WQE_RDMA_READ,
					   ORI_WQE_ATOMIC_CS, ORI_WQE_ATOMIC_FA,  ORI_WQE_WAIT,
					   ORI_WQE_DUMP };
	static const uint8_t segments[] = { 1, 3, 3, 4, 4, 2, 2 };
	struct queue *q = &y->q[rank];
	struct ori_wqe w;
	uint8_t which;

	fuzz_take(in, &w, sizeof(w));
	which = ((const uint8_t *)&w)[0] % sizeof(opcodes);
	if (fix & 1)
		ori_wqe_ctrl_set(&w, q->next, q->qpn, opcodes[which], segments[which],
				 (uint32_t)(fix >> 6) << 5);
	if (fix & 2) {
		w.u.rdma.raddr.key = ori_be32(y->key[1 - rank]);
		w.u.rdma.raddr.address = ori_be64(ori_be64(w.u.rdma.raddr.address) % YARD_BYTES);
	}
	if (fix & 4)
		ori_wqe_data_set(&w.u.rdma.data, ori_be64(w.u.rdma.data.address) % YARD_BYTES,
				 y->key[rank], ori_be32(w.u.rdma.data.byte_count) % 300);
	if (fix & 8)
		ori_wqe_data_set(&w.u.atomic.result, ori_be64(w.u.atomic.result.address) % 512 * 8,
				 y->key[rank], 8);
	if (fix & 16)
		w.u.wait.number = ori_be32(y->q[fix >> 5 & 1].cqn);
	*queue_slot(q) = w;
}

/* For seeds: 64 bytes whose first one chooses the opcode, and an address and length that fit. */
__attribute__((unused)) static void yard_seed_wqe(struct fuzz_output *out, uint8_t which)
{
	struct ori_wqe w;

	memset(&w, 0, sizeof(w));
	((uint8_t *)&w)[0] = which;
	w.u.rdma.raddr.address = ori_be64(128);
	w.u.rdma.data.byte_count = ori_be32(200);
	fuzz_give(out, &w, sizeof(w));
}

#endif
