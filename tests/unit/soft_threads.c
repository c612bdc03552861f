/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_threads.c - two NICs driven by two threads, each with its own device.
 *
 * This tests the memory order of rings, doorbells, CQEs and signal words, which single-threaded
 * tests cannot show.  ThreadSanitizer reports every missing edge.
 */
#include <pthread.h>
#include <sched.h>

#include "soft_device.h"

#define ROUNDS 3000u
#define BYTES 20000u
#define AREA (2 * BYTES + 64)

struct end {
	struct world *w;
	int rank;
	struct queue q;
	uint8_t *mem; /* source | target, BYTES each, then the signal word and the result of adds */
	struct device_area *area;
	uint64_t words[2]; /* the last two, if the rest is device memory */
	uint64_t *signal;
	uint64_t word_at; /* of the signal word, in its region */
	uint32_t key, peer_key, word_key, peer_word_key;
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
	return e->signal;
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
		ori_wqe_fetch_add(queue_slot(&e->q), e->q.next, e->q.qpn, e->word_at,
				  e->peer_word_key, 1, e->word_at + 8, e->word_key, 0);
	else
		ori_wqe_write_inline(queue_slot(&e->q), e->q.next, e->q.qpn, e->word_at,
				     e->peer_word_key, &round, 8, 0);
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

static const void *find_export(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes,
			       int *is_device)
{
	struct world *w = ctx;
	const struct world_export *e = &w->export[rank][id - 1];

	*is_device = e->device;
	return offset + bytes <= e->bytes ? e->base + offset : NULL;
}

/* on_device: data in memory that only copies touch, the signal words beside it in host memory. */
static void both(const char *faults, int on_device)
{
	struct world w = { .n = 2 };
	struct soft_world around = {
		.ctx = &w, .clock = real_clock, .resolve = find_export, .copy = device_copy
	};
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
		e[a].area = on_device ? device_alloc(AREA) : NULL;
		e[a].mem = on_device ? e[a].area->alias : calloc(1, AREA);
		REQUIRE(!soft_nic_create(&w.config, &around, a, 2, &w.nic[a]));
		for (int b = 0; b < 2; b++)
			soft_nic_wire(w.nic[a], b, w.ring[b][a], w.ring[a][b]);
		e[a].key = world_mr_of(&w, a, on_device ? e[a].area->device : e[a].mem, AREA,
				       WORLD_ALL, 1, on_device);
		e[a].word_key = on_device ? world_mr(&w, a, e[a].words, 16, WORLD_ALL, 0) :
					    e[a].key;
		e[a].word_at = on_device ? 0 : 2 * BYTES;
		e[a].signal = on_device ? e[a].words : (uint64_t *)(void *)(e[a].mem + 2 * BYTES);
		queue_open(&w, &e[a].q, a, 8, 0xfff0, 0);
	}
	queue_connect(&w, &e[0].q, &e[1].q);
	for (int a = 0; a < 2; a++)
		e[a].peer_key = e[1 - a].key;
	for (int a = 0; a < 2; a++)
		e[a].peer_word_key = e[1 - a].word_key;
	for (int a = 0; a < 2; a++)
		REQUIRE(!pthread_create(&e[a].thread, NULL, run, &e[a]));
	for (int a = 0; a < 2; a++)
		pthread_join(e[a].thread, NULL);
	for (int a = 0; a < 2; a++)
		CHECK_EQ(e[a].wrong, 0);
	for (int a = 0; a < 2; a++)
		queue_close(&w, &e[a].q);
	world_close(&w);
	for (int a = 0; a < 2 && !on_device; a++)
		free(e[a].mem);
	device_reset();
}

TEST(ping_pong)
{
	both(NULL, 0);
}

TEST(ping_pong_in_device_memory)
{
	both(NULL, 1);
	both("mtu=4096", 1);
}

TEST(ping_pong_small_packets)
{
	both("mtu=256,torn_cqe=0.2,dbr=random", 0);
}

TEST(ping_pong_over_a_bad_wire)
{
	both("seed=5,drop=0.005,dup=0.05,reorder=0.05,retry_ns=1000000,retry=100", 0);
	both("seed=6,drop=0.005,dup=0.05,reorder=0.05,retry_ns=1000000,retry=100", 1);
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
	e.word_key = e.key;
	e.peer_word_key = e.peer_key;
	e.word_at = 2 * BYTES;
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
