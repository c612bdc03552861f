/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/queue_threads.c - eight producers on one queue, and the NIC on its own thread.
 *
 * Each producer puts its own payload, adds to a word that all share, and waits until its put is
 * complete.  The NIC checks the rules (queue_nic.h).  ThreadSanitizer reports a missing edge
 * between payload, WQE, record, doorbell, turn and CQE.
 */
#include <pthread.h>
#include <sched.h>

#include "queue_nic.h"

#define PRODUCERS 8
#define WORD 4000u /* offset of the shared word */

struct producer {
	struct nic *n;
	pthread_t thread;
	int number, rounds, err;
	uint64_t *total;
	uint64_t wrong;
	uint8_t payload[64];
};

struct engine_thread {
	struct nic *n;
	pthread_t thread;
	int stop;
};

static void *engine_main(void *arg)
{
	struct engine_thread *t = arg;

	while (!__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE))
		if (!nic_step(t->n))
			sched_yield();
	return NULL;
}

static int one_round(struct producer *p, int round)
{
	static const uint32_t lkey[ORIEL_NICS_MAX] = { NIC_LOCAL_KEY };
	static const uint32_t rkey[ORIEL_NICS_MAX] = { NIC_REMOTE_KEY };
	struct ori_op_context scope = nic_scope(p->n, 0);
	struct oriel_queue *q = &p->n->main.q;
	uint64_t at = (uint64_t)p->number * sizeof(p->payload);
	struct ori_post post;
	int err;

	ori_post_init(&post);
	memset(p->payload, p->number * 16 + round % 16, sizeof(p->payload));
	post.local = (uint64_t)(uintptr_t)p->payload;
	post.lkey = lkey;
	post.remote = at;
	post.rkey = rkey;
	post.bytes = sizeof(p->payload);
	post.signal = ORIEL_ADD;
	post.signal_value = 1;
	post.word = WORD;
	post.word_key = rkey;
	post.total = p->total;
	err = ori_queue_post(&scope, &p->n->link, 0, &post);
	if (!err)
		err = ori_queue_wait(&scope, q, ori_load_acquire_sys(&q->produced));
	if (!err)
		p->wrong += memcmp(p->n->memory + at, p->payload, sizeof(p->payload)) != 0;
	return err;
}

static void *producer_main(void *arg)
{
	struct producer *p = arg;

	for (int i = 0; i < p->rounds && !p->err; i++)
		p->err = one_round(p, i);
	return NULL;
}

static void run(uint32_t depth, uint64_t start, uint32_t flags, int rounds)
{
	struct nic *n = nic_open(depth, start);
	struct engine_thread engine = { .n = n };
	static struct producer producers[PRODUCERS];
	uint64_t total = 0;

	n->link.flags = flags;
	n->comm.engine = NULL; /* the NIC has its own thread */
	n->word_watched = WORD;
	CHECK_EQ(pthread_create(&engine.thread, NULL, engine_main, &engine), 0);
	for (int i = 0; i < PRODUCERS; i++) {
		struct producer *p = &producers[i];

		memset(p, 0, sizeof(*p));
		p->n = n;
		p->number = i;
		p->rounds = rounds;
		p->total = &total;
		CHECK_EQ(pthread_create(&p->thread, NULL, producer_main, p), 0);
	}
	for (int i = 0; i < PRODUCERS; i++) {
		pthread_join(producers[i].thread, NULL);
		CHECK_EQ(producers[i].err, 0);
		CHECK_EQ(producers[i].wrong, 0);
	}
	__atomic_store_n(&engine.stop, 1, __ATOMIC_RELEASE);
	pthread_join(engine.thread, NULL);
	CHECK_EQ(nic_word(n, WORD), (uint64_t)rounds * PRODUCERS);
	CHECK_EQ(n->main.done, start + 2ull * (uint64_t)rounds * PRODUCERS);
	CHECK_EQ(n->main.q.produced, n->main.done);
	CHECK_EQ(n->broken, 0);
	free(n);
}

/* The put and the add are one burst. */
TEST(eight_producers_with_nic_atomics)
{
	run(2, 0xfff0, ORIEL_LINK_ORDERED | ORIEL_LINK_ATOMICS, 40);
	run(4, (1ull << 32) - 8, ORIEL_LINK_ORDERED | ORIEL_LINK_ATOMICS, 40);
	run(8, 0x7ff0, ORIEL_LINK_ORDERED | ORIEL_LINK_ATOMICS, 100);
	run(64, (1ull << 24) - 8, ORIEL_LINK_ORDERED | ORIEL_LINK_ATOMICS, 200);
}

/* The sum is made in the turn: every total that leaves is larger than the last. */
TEST(eight_producers_with_totals)
{
	run(2, 0xfff0, ORIEL_LINK_ORDERED, 40);
	run(8, (1ull << 32) - 8, ORIEL_LINK_ORDERED, 100);
	run(64, 0x7ff0, ORIEL_LINK_ORDERED, 200);
}

TEST(eight_producers_without_order_or_atomics)
{
	run(2, (1ull << 24) - 8, 0, 30);
	run(8, 0xfff0, 0, 60);
}
