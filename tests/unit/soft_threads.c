/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_threads.c - two NICs driven by two threads, each with a thread's own device: what
 * the single-threaded tests cannot show, the memory order of rings, doorbells, CQEs and signal
 * words. Under ThreadSanitizer every missing edge is a report.
 */
#include <pthread.h>
#include <sched.h>

#include "soft_world.h"

#define ROUNDS 3000u
#define BYTES 20000u

struct end {
	struct world *w;
	int rank;
	struct queue q;
	uint8_t *mem; /* source | target, BYTES each, then the signal word */
	uint32_t key, peer_key;
	int wrong;
	int done; /* has seen all of its rounds; read by the other end */
	struct end *other;
	pthread_t thread;
};

static uint64_t real_clock(void *ctx)
{
	(void)ctx;
	return ori_now_ns();
}

static uint64_t *signal_of(struct end *e)
{
	return (uint64_t *)(void *)(e->mem + 2 * BYTES);
}

static void drive(struct end *e)
{
	if (!soft_nic_step(e->w->nic[e->rank], 64))
		sched_yield();
}

static int expired(uint64_t deadline)
{
	return ori_now_ns() > deadline;
}

static uint32_t bytes_of(uint64_t round)
{
	return round % 64 == 0 ? BYTES : 1 + (uint32_t)(round * 37 % 300);
}

static void post(struct end *e, uint64_t round)
{
	uint32_t bytes = bytes_of(round);

	memset(e->mem, (int)(uint8_t)(round + (uint64_t)e->rank), bytes);
	ori_wqe_rdma(queue_slot(&e->q), e->q.next, e->q.qpn, ORI_WQE_RDMA_WRITE, BYTES, e->peer_key,
		     0, e->key, bytes, 0);
	queue_ring(&e->q);
	if (round % 2)
		ori_wqe_fetch_add(queue_slot(&e->q), e->q.next, e->q.qpn, 2 * BYTES, e->peer_key, 1,
				  2 * BYTES + 8, e->key, 0);
	else
		ori_wqe_write_inline(queue_slot(&e->q), e->q.next, e->q.qpn, 2 * BYTES, e->peer_key,
				     &round, 8, 0);
	queue_ring(&e->q);
}

/* The peer's bytes of this round are there, all of them, once its signal is. */
static void check(struct end *e, uint64_t round)
{
	uint8_t want = (uint8_t)(round + (uint64_t)(1 - e->rank));

	for (uint32_t i = 0; i < bytes_of(round); i++)
		e->wrong += e->mem[BYTES + i] != want;
}

static void *run(void *arg)
{
	struct end *e = arg;
	uint64_t deadline = ori_now_ns() + 60 * ORI_NS_PER_S;
	uint32_t syndrome;

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		post(e, round);
		while (__atomic_load_n(signal_of(e), __ATOMIC_ACQUIRE) < round &&
		       !expired(deadline))
			drive(e);
		check(e, round);
		/*
		 * the source is written again in the next round; the target only when this thread
		 * drives
		 */
		while (e->q.polled < e->q.next && !expired(deadline)) {
			if (queue_poll(&e->q, &syndrome))
				e->wrong += syndrome != 0;
			else
				drive(e);
		}
		if (expired(deadline))
			break;
	}
	e->wrong += *signal_of(e) != ROUNDS;
	/* the other end's last acknowledgement may have been dropped: it asks for it again */
	__atomic_store_n(&e->done, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&e->other->done, __ATOMIC_ACQUIRE) && !expired(deadline))
		drive(e);
	return NULL;
}

static const void *find_export(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes)
{
	struct world *w = ctx;
	const struct world_export *e = &w->export[rank][id - 1];

	return offset + bytes <= e->bytes ? e->base + offset : NULL;
}

static void both(const char *faults)
{
	struct world w = { .n = 2 };
	struct soft_world around = { &w, real_clock, find_export, NULL, NULL };
	struct end e[2];

	CHECK_EQ(soft_config_personality(&w.config, NULL), 0);
	CHECK_EQ(soft_config_faults(&w.config, faults), 0);
	for (int a = 0; a < 2; a++)
		for (int b = 0; b < 2; b++)
			world_ring(&w, a, b);
	for (int a = 0; a < 2; a++) {
		memset(&e[a], 0, sizeof(e[a]));
		e[a].w = &w;
		e[a].rank = a;
		e[a].other = &e[1 - a];
		e[a].mem = calloc(1, 2 * BYTES + 64);
		REQUIRE(!soft_nic_create(&w.config, &around, a, 2, &w.nic[a]));
		for (int b = 0; b < 2; b++)
			soft_nic_wire(w.nic[a], b, w.ring[b][a], w.ring[a][b]);
		e[a].key = world_mr(&w, a, e[a].mem, 2 * BYTES + 64, WORLD_ALL, 1);
		queue_open(&w, &e[a].q, a, 8, 0xfff0, 0);
	}
	queue_connect(&w, &e[0].q, &e[1].q);
	for (int a = 0; a < 2; a++)
		e[a].peer_key = e[1 - a].key;
	for (int a = 0; a < 2; a++)
		REQUIRE(!pthread_create(&e[a].thread, NULL, run, &e[a]));
	for (int a = 0; a < 2; a++)
		pthread_join(e[a].thread, NULL);
	for (int a = 0; a < 2; a++)
		CHECK_EQ(e[a].wrong, 0);
	for (int a = 0; a < 2; a++)
		queue_close(&w, &e[a].q);
	world_close(&w);
	free(e[0].mem);
	free(e[1].mem);
}

TEST(ping_pong)
{
	both(NULL);
}

TEST(ping_pong_small_packets)
{
	both("mtu=256,torn_cqe=0.2,dbr=random");
}

TEST(ping_pong_over_a_bad_wire)
{
	both("seed=5,drop=0.005,dup=0.05,reorder=0.05,retry_ns=1000000,retry=100");
}

/* The waiting thread is not the one that drives the NIC: only the signal word orders the two. */
struct watch {
	uint64_t *signal;
	const uint8_t *data;
	uint64_t seen; /* rounds checked */
	int wrong;
};

static void *watch(void *arg)
{
	struct watch *t = arg;
	uint64_t deadline = ori_now_ns() + 60 * ORI_NS_PER_S;

	for (uint64_t round = 1; round <= ROUNDS && !expired(deadline); round++) {
		while (__atomic_load_n(t->signal, __ATOMIC_ACQUIRE) < round && !expired(deadline))
			sched_yield();
		for (uint32_t i = 0; i < bytes_of(round); i++)
			t->wrong += t->data[i] != (uint8_t)round;
		__atomic_store_n(&t->seen, round, __ATOMIC_RELEASE);
	}
	return NULL;
}

TEST(waiter_apart)
{
	struct world w;
	struct end e = { .w = &w };
	struct queue peer;
	uint8_t *target = calloc(1, 2 * BYTES + 64);
	struct watch t = { .signal = (uint64_t *)(void *)(target + 2 * BYTES),
			   .data = target + BYTES };
	uint64_t deadline = ori_now_ns() + 60 * ORI_NS_PER_S;
	pthread_t thread;

	world_open(&w, 2, NULL, "mtu=4096");
	e.mem = calloc(1, 2 * BYTES + 64);
	e.key = world_mr(&w, 0, e.mem, 2 * BYTES + 64, WORLD_ALL, 0);
	e.peer_key = world_mr(&w, 1, target, 2 * BYTES + 64, WORLD_ALL, 0);
	queue_open(&w, &e.q, 0, 8, 0, 0);
	queue_open(&w, &peer, 1, 8, 0, 0);
	queue_connect(&w, &e.q, &peer);
	REQUIRE(!pthread_create(&thread, NULL, watch, &t));
	for (uint64_t round = 1; round <= ROUNDS && !expired(deadline); round++) {
		post(&e, round);
		queue_drain(&w, &e.q, 0);
		while (__atomic_load_n(&t.seen, __ATOMIC_ACQUIRE) < round && !expired(deadline))
			sched_yield();
	}
	pthread_join(thread, NULL);
	CHECK_EQ(t.seen, ROUNDS);
	CHECK_EQ(t.wrong, 0);
	queue_close(&w, &e.q);
	queue_close(&w, &peer);
	world_close(&w);
	free(e.mem);
	free(target);
}
