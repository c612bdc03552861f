/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_again.c - packets that are sent again: a request that arrives a second time after
 * all is over, and a request that is lost on a wire that other traffic keeps full.
 */
#include "soft_bench.h"

#include "engine/soft/state.h"

/* The first packet from NIC 0 to NIC 1 that NIC 1 has not taken yet. */
static struct soft_packet waiting(struct bench *t)
{
	struct soft_slot *slot = soft_rx_peek(&t->w.nic[1]->peers[0].rx);

	CHECK(slot != NULL);
	return slot ? slot->packet : (struct soft_packet){ 0 };
}

/*
 * The requester has its data and the region is deregistered.  Then a second copy of the request
 * arrives from a slow wire.  There is no error on either side, and the queue pair continues to
 * work.
 */
TEST(late_copy_of_a_read_whose_region_is_gone)
{
	struct bench *t = bench_open(NULL);
	struct soft_packet request;

	ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_READ, 0, t->key[1], 0,
		     t->key[0], 64, 0);
	queue_ring(&t->a);
	soft_nic_step(t->w.nic[0], 100);
	request = waiting(t);
	CHECK_EQ(soft_packet_op(&request), SOFT_OP_READ);
	queue_drain(&t->w, &t->a, 0);
	soft_mr_destroy(t->w.nic[1], t->key[1]);
	soft_tx_put(&t->w.nic[0]->peers[1].tx, &request, NULL, 0);
	world_settle(&t->w, 50);
	CHECK_EQ(world_stats(&t->w).replays, 1);
	CHECK_EQ(t->w.at[0].error.count, 0);
	CHECK_EQ(t->w.at[1].error.count, 0);
	t->key[1] = world_mr(&t->w, 1, t->mem[1] + GUARD, BYTES, WORLD_ALL, 0);
	ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 0, t->key[1], 0,
		     t->key[0], 64, 0);
	queue_ring(&t->a);
	queue_drain(&t->w, &t->a, 0);
	bench_close(t);
}

/* Something of other queue pairs always lies on the wire when the timer looks. */
TEST(lost_on_a_wire_that_is_never_empty)
{
	struct bench *t = bench_open(NULL);
	struct soft_packet other = { .op_qpn = (uint32_t)SOFT_OP_ACK << 24 | 0xfffff0u };
	struct soft_rx *rx;
	uint32_t syndrome = 1;

	ori_wqe_rdma(queue_slot(&t->a), t->a.next, t->a.qpn, ORI_WQE_RDMA_WRITE, 0, t->key[1], 0,
		     t->key[0], 64, 0);
	queue_ring(&t->a);
	soft_nic_step(t->w.nic[0], 100);
	CHECK_EQ(waiting(t).op_qpn >> 24, SOFT_OP_WRITE);
	rx = &t->w.nic[1]->peers[0].rx;
	rx->next++; /* lost */
	soft_rx_publish(rx);
	t->w.step_ns = 100000;
	for (int i = 0; i < 100000 && !queue_poll(&t->a, &syndrome); i++) {
		soft_tx_put(&t->w.nic[0]->peers[1].tx, &other, NULL, 0);
		world_step(&t->w, 64);
	}
	CHECK_EQ(syndrome, 0);
	CHECK(world_stats(&t->w).retransmits > 0);
	bench_close(t);
}
