/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/proxy_garbage.c - nonsense in send queues and doorbells.
 *
 * The proxy must not crash (the sanitizers watch).  It must pass nothing outside the known memory
 * to the back end (the back end checks).  It must stay usable.
 */
#include "proxy_world.h"

static uint64_t state;

static uint64_t rnd(void)
{
	return world_random(&state);
}

static void noise(void *at, size_t bytes)
{
	uint8_t *p = at;

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t v = rnd();

		memcpy(p + i, &v, 8);
	}
}

/* Anything between a right WQE with one bit bent and pure noise. */
static void noise_wqe(struct proxy_world *w, struct dev *d, const struct dev *other)
{
	static const uint8_t opcodes[] = { 0, 8, 0xf, 0x10, 0x11, 0x12, 0x23 };
	struct ori_wqe *q = dev_slot(d);

	if (rnd() % 2) {
		ori_wqe_rdma(q, d->next, d->q.qpn,
			     rnd() % 2 ? ORI_WQE_RDMA_WRITE : ORI_WQE_RDMA_READ, rnd() % 60000,
			     w->their_key, rnd() % 60000, w->my_key, 1 + (uint32_t)(rnd() % 5000),
			     (uint32_t)(rnd() % 4) << 5);
		if (rnd() % 4 == 0)
			((uint8_t *)q)[rnd() % 48] ^= (uint8_t)(1u << rnd() % 8);
		q->ctrl.fm_ce_se |= ORI_WQE_CQ_UPDATE; /* else CQEs and indices part */
		return;
	}
	noise(q, sizeof(*q));
	if (rnd() % 8 == 0)
		return;
	ori_wqe_ctrl_set(q, d->next, d->q.qpn, opcodes[rnd() % 7], 1 + (uint32_t)(rnd() % 5),
			 (uint32_t)(rnd() % 5) << 5);
	if (rnd() % 2)
		ori_wqe_raddr_set(&q->u.rdma.raddr, rnd() % (WORLD_BYTES + 64),
				  rnd() % 4 ? w->their_key : w->my_key);
	if (rnd() % 2)
		ori_wqe_data_set(&q->u.rdma.data, rnd() % WORLD_BYTES, w->my_key,
				 (uint32_t)(rnd() % 9000));
	if (rnd() % 8 == 0)
		q->u.rdma.data.byte_count = ori_be32(ORI_WQE_INLINE_FLAG | (uint32_t)(rnd() % 40));
	if (rnd() % 3 == 0)
		ori_wqe_data_set(&q->u.atomic.result, rnd() % WORLD_BYTES,
				 rnd() % 4 ? w->my_key : w->sink_key, 8);
	if (rnd() % 4 == 0)
		ori_wqe_wait(q, d->next, d->q.qpn, rnd() % 2 ? d->q.cqn : other->q.cqn,
			     (uint32_t)(d->next + rnd() % 8 - 4));
}

TEST(noise_in_send_queues)
{
	uint64_t completed = 0, failed = 0, posts = 0;

	state = 1;
	for (int round = 0; round < 3000; round++) {
		struct proxy_world w;
		struct dev d[3];
		uint32_t syndrome;

		world_open(&w, rnd());
		w.ordered = (int)(rnd() % 2);
		w.delay = (uint32_t)(rnd() % 4);
		w.again = (uint32_t)(rnd() % 3) * 40;
		dev_open(&w, &d[0], 16, 0xfff8, 0, 1);
		dev_open(&w, &d[1], 2, 0x7ffff8, 1, 0);
		dev_open(&w, &d[2], 8, 0, -1, 1);
		for (int i = 0; i < 20; i++) {
			struct dev *q = &d[rnd() % 3];

			if (!dev_full(q)) {
				noise_wqe(&w, q, &d[rnd() % 3]);
				dev_ring(q);
			}
			if (rnd() % 64 == 0)
				q->doorbell = rnd();
			ori_proxy_step(w.proxy, 1 + (int)(rnd() % 8));
		}
		world_settle(&w, 40);
		CHECK_EQ(w.open, 0);
		for (int i = 0; i < 3; i++) {
			d[i].next += 4; /* a bad doorbell may give an error for one never rung */
			while (dev_poll(&d[i], &syndrome)) {
				completed++;
				failed += syndrome != 0;
			}
			dev_close(&w, &d[i]);
		}
		posts += w.posts;
		world_close(&w);
	}
	/* the noise reached both paths */
	CHECK(failed > 5000 && completed > failed + 3000 && posts > 3000);
}

/* The device writes over its blocks, its own struct and the CQ while the proxy is at work. */
TEST(memory_that_changes_under_way)
{
	state = 2;
	for (int round = 0; round < 500; round++) {
		struct proxy_world w;
		struct dev d, keep;

		world_open(&w, rnd());
		w.delay = 3;
		w.again = 100;
		dev_open(&w, &d, 8, rnd(), 0, 1);
		keep = d;
		for (int i = 0; i < 12; i++) {
			noise_wqe(&w, &d, &d);
			dev_ring(&d);
			noise(d.q.sq + rnd() % 8 * 64, rnd() % 2 ? 8 : 64);
			noise(d.q.cq, 8 * 64);
			d.q.depth = 8;
			ori_proxy_step(w.proxy, 2);
			noise(&d.q, sizeof(d.q)); /* pointers and depth: not looked at again */
			d.q = keep.q;
		}
		world_settle(&w, 20);
		dev_close(&w, &d);
		world_close(&w);
	}
}
