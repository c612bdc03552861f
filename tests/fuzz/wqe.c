/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/wqe.c - WQEs, doorbell records and doorbells as the software NIC sees them.
 *
 * They are written by a device, which may be broken.  No WQE may make the NIC touch memory outside
 * the registered regions.  Each rung WQE gets exactly one CQE, good or bad, unless the doorbell
 * itself was wrong.
 */
#include "soft_yard.h"

#define OPS 48

enum wqe_op { OP_WQE, OP_WQE_AND_RING, OP_DOORBELL, OP_RECORD, OP_STEP, OP_REVOKE, OP_COUNT };

static int step(struct soft_yard *y, struct fuzz_input *in)
{
	uint8_t what = fuzz_byte(in);
	int rank = what >> 7, wild = 0;
	struct queue *q = &y->q[rank];
	uint64_t bell;

	switch (what % OP_COUNT) {
	case OP_WQE:
		yard_wqe(y, rank, fuzz_byte(in), in);
		break;
	case OP_WQE_AND_RING:
		if (queue_full(q))
			break;
		yard_wqe(y, rank, fuzz_byte(in), in);
		queue_ring(q);
		break;
	case OP_DOORBELL:
		fuzz_take(in, &bell, sizeof(bell));
		if (what & 64)
			bell = ori_doorbell_value(q->next + bell % 32, q->qpn);
		__atomic_store_n(&q->doorbell, bell, __ATOMIC_RELEASE);
		wild = 1;
		break;
	case OP_RECORD:
		q->record[1] = fuzz_word(in);
		wild = 1;
		break;
	case OP_REVOKE:
		soft_mr_destroy(y->w.nic[rank], y->key[rank]);
		break;
	default:
		world_step(&y->w, 1 + fuzz_byte(in) % 16);
	}
	return wild;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct soft_yard y;
	uint32_t syndrome;
	int wild = 0;
	uint8_t how = fuzz_byte(&in);

	yard_open(&y, how);
	for (int n = 0; n < OPS && in.left; n++)
		wild |= step(&y, &in);
	world_settle(&y.w, 200);
	for (int r = 0; r < 2 && !wild; r++)
		while (y.q[r].polled < y.q[r].next && queue_poll(&y.q[r], &syndrome))
			;
	yard_close(&y);
	return 0;
}

size_t fuzz_seed(int n, uint8_t *out, size_t room)
{
	struct fuzz_output o = { out, room, 0 };

	if (n > 8)
		return 0;
	fuzz_give_byte(&o, (uint8_t)(n << 1));
	for (uint8_t i = 0; i < 3; i++) {
		fuzz_give_byte(&o, OP_WQE_AND_RING | (i & 1 ? 126 : 0));
		fuzz_give_byte(&o, 1 | 2 | 4 | 8 | (n == 5 ? 16 : 0));
		yard_seed_wqe(&o, (uint8_t)(n + i));
		fuzz_give_byte(&o, OP_STEP);
		fuzz_give_byte(&o, 15);
	}
	if (n == 7) {
		const uint8_t bell[] = { OP_DOORBELL | 64, 3, 0, 0, 0, 0, 0, 0, 0, OP_REVOKE };

		fuzz_give(&o, bell, sizeof(bell));
	}
	return o.bytes;
}
