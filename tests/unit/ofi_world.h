/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/ofi_world.h - ranks of the ofi engine over TCP on loopback, in one process or two.
 * Each has the simplest device: one thread that fills a queue, rings, drives the engine and takes
 * the CQEs one by one.
 */
#ifndef ORI_TEST_OFI_WORLD_H
#define ORI_TEST_OFI_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "engine/engine.h"
#include "engine/ofi/ofi_engine.h"
#include "oriel/device/wqe.h"
#include "util/util.h"

/*
 * libfabric 1.17 forgets the description of a connection request that nobody took before its
 * endpoint was closed: not ours to free.
 */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric.so\n";
}

/*
 * libfabric is not instrumented.  ThreadSanitizer sees its copies of data (through memcpy) but not
 * the casal and stlr that publish them.  So it would report each signalled put as a race.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:libfabric.so\n";
}

#define END_BYTES (4u << 20)
#define END_DEPTH 64u
#define END_LIMIT_NS 60000000000ull /* either rank may stand still for seconds */

/* One queue as its device sees it. */
struct end_queue {
	struct oriel_queue q;
	uint32_t record[2];
	uint64_t doorbell, next, polled;
};

/* What a rank sends to the other. */
struct end_told {
	struct ori_engine_address address;
	struct ori_engine_blob blob;
	uint32_t key[ORIEL_NICS_MAX];
	uint32_t number;
};

struct end {
	int rank;
	struct ori_engine *engine;
	struct oriel_waiters waiters, kicks;
	uint8_t *memory; /* for the other rank */
	uint64_t *sink;
	uint32_t sink_key[ORIEL_NICS_MAX];
	struct end_told mine, theirs;
	struct end_queue main, companion;
	int doomed, failed;
	uint32_t syndrome;
};

/* Skips the test, or fails it if everything should be installed. */
__attribute__((unused)) static int no_ofi(const struct ori_config *config)
{
	char reason[256];

	if (!ori_ofi_engine_probe(config, reason, sizeof(reason)))
		return 0;
	if (getenv("CI"))
		check_fail(__FILE__, __LINE__, "no ofi engine: %s", reason);
	else
		check_skip("no ofi engine: %s", reason);
	return 1;
}

__attribute__((unused)) static void end_config(struct ori_config *config)
{
	CHECK_EQ(ori_config_read(config), 0);
	snprintf(config->ofi_address, sizeof(config->ofi_address), "127.0.0.1");
	config->timeout = 60;
}

static void end_doomed(void *ctx, uint32_t nic, uint32_t qpn)
{
	struct end *e = ctx;

	(void)nic;
	(void)qpn;
	__atomic_fetch_add(&e->doomed, 1, __ATOMIC_RELAXED);
}

static void end_failed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct end *e = ctx;
	uint32_t none = 0;

	(void)nic;
	(void)qpn;
	(void)wqe;
	/* the first one stays; who sees the count sees it */
	__atomic_compare_exchange_n(&e->syndrome, &none, syndrome, 0, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	__atomic_fetch_add(&e->failed, 1, __ATOMIC_RELEASE);
}

static int end_queue_open(struct end *e, struct end_queue *d, int core_direct)
{
	memset(d, 0, sizeof(*d));
	d->q.sq = aligned_alloc(64, END_DEPTH * 64);
	d->q.cq = aligned_alloc(64, END_DEPTH * 64);
	if (!d->q.sq || !d->q.cq)
		exit(1);
	d->q.record = d->record;
	d->q.doorbell = &d->doorbell;
	d->q.depth = END_DEPTH;
	d->q.log_depth = (uint32_t)__builtin_ctz(END_DEPTH);
	return e->engine->ops->queue_add(e->engine, 0, &d->q, core_direct);
}

/* Up to what it tells the other rank. */
__attribute__((unused)) static int end_open(struct end *e, int rank,
					    const struct ori_config *config)
{
	struct ori_engine_world world = { .ctx = e,
					  .rank = rank,
					  .nranks = 2,
					  .waiters = &e->waiters,
					  .kicks = &e->kicks,
					  .doomed = end_doomed,
					  .failed = end_failed };
	struct ori_engine_memory memory = { .bytes = END_BYTES, .remote = 1 };
	struct ori_engine_memory sink = { .bytes = 8 };
	const struct ori_engine_ops *ops;
	int err;

	memset(e, 0, sizeof(*e));
	e->rank = rank;
	e->memory = aligned_alloc(64, END_BYTES);
	e->sink = calloc(1, 8);
	if (!e->memory || !e->sink)
		exit(1);
	memset(e->memory, 0, END_BYTES);
	memory.base = e->memory;
	sink.base = e->sink;
	err = ori_ofi_engine_open(config, &world, &e->engine);
	if (err)
		return err;
	ops = e->engine->ops;
	err = ops->memory_add(e->engine, &memory, e->mine.key, &e->mine.blob);
	if (!err)
		err = ops->memory_add(e->engine, &sink, e->sink_key, NULL);
	if (!err)
		err = end_queue_open(e, &e->main, 0);
	if (!err)
		err = end_queue_open(e, &e->companion, 1);
	if (!err)
		err = ops->address(e->engine, &e->mine.address);
	if (!err)
		e->mine.number = ops->queue_number(e->engine, 0, e->main.q.qpn);
	return err;
}

/* After `theirs` is there. */
__attribute__((unused)) static int end_connect(struct end *e)
{
	const struct ori_engine_ops *ops = e->engine->ops;
	uint32_t responder;
	int err = ops->peer(e->engine, !e->rank, &e->theirs.address);

	if (!err)
		err = ops->memory_told(e->engine, !e->rank, e->theirs.key, &e->theirs.blob);
	if (!err)
		err = ops->connect(e->engine, 0, e->main.q.qpn, !e->rank, e->theirs.number);
	if (!err)
		err = ops->responder_add(e->engine, 0, &responder);
	if (!err)
		err = ops->connect(e->engine, 0, e->companion.q.qpn, e->rank, responder);
	if (!err)
		err = ops->connect(e->engine, 0, responder, e->rank, e->companion.q.qpn);
	if (!err)
		err = ops->start(e->engine);
	return err;
}

__attribute__((unused)) static void end_close(struct end *e)
{
	if (e->engine)
		e->engine->ops->close(e->engine);
	free(e->main.q.sq);
	free(e->main.q.cq);
	free(e->companion.q.sq);
	free(e->companion.q.cq);
	free(e->memory);
	free(e->sink);
}

/* ---- the device ------------------------------------------------------------------------------ */

static inline struct ori_wqe *end_slot(struct end_queue *d)
{
	return (struct ori_wqe *)(void *)(d->q.sq + (d->next & (END_DEPTH - 1)) * 64);
}

static inline void end_ring(struct end *e, struct end_queue *d)
{
	d->next++;
	__atomic_store_n(&d->record[1], ori_doorbell_record(d->next), __ATOMIC_RELEASE);
	__atomic_store_n(&d->doorbell, ori_doorbell_value(d->next, d->q.qpn), __ATOMIC_RELEASE);
	e->engine->ops->drive(e->engine);
}

static inline int end_poll(struct end_queue *d, uint32_t *syndrome)
{
	const struct ori_cqe *cqe = (const struct ori_cqe *)(const void *)d->q.cq +
				    (d->polled & (END_DEPTH - 1));
	uint32_t word = __atomic_load_n((const uint32_t *)(const void *)&cqe->wqe_counter,
					__ATOMIC_ACQUIRE);
	uint32_t op_own = word >> 24;

	if (op_own >> 4 == ORI_CQE_INVALID || (op_own & 1) != ((d->polled / END_DEPTH) & 1))
		return 0;
	*syndrome = cqe->syndrome;
	d->polled++;
	return 1;
}

/*
 * Waits until everything posted has its CQE.  Returns the first syndrome, 0 if there is none, or -1
 * if it takes too long.
 */
__attribute__((unused)) static int end_drain(struct end *e, struct end_queue *d)
{
	uint64_t deadline = ori_now_ns() + END_LIMIT_NS;
	uint32_t syndrome, first = 0;

	while (d->polled != d->next) {
		while (end_poll(d, &syndrome))
			if (syndrome && !first)
				first = syndrome;
		e->engine->ops->drive(e->engine);
		if (ori_now_ns() > deadline)
			return -1;
	}
	return (int)first;
}

/*
 * The number of failures that the engine reported, once there is one.  Its own thread reports,
 * independent of the queue.
 */
__attribute__((unused)) static int end_failures(struct end *e)
{
	uint64_t deadline = ori_now_ns() + END_LIMIT_NS;
	int n;

	while (!(n = __atomic_load_n(&e->failed, __ATOMIC_ACQUIRE)) && ori_now_ns() < deadline)
		e->engine->ops->drive(e->engine);
	return n;
}

/* Posts one operation; waits while the queue is full. */
__attribute__((unused)) static void end_rdma(struct end *e, uint32_t opcode, uint64_t remote,
					     uint64_t local, uint32_t bytes, uint32_t rkey)
{
	struct end_queue *d = &e->main;

	if (d->next - d->polled >= END_DEPTH)
		CHECK_EQ(end_drain(e, d), 0);
	ori_wqe_rdma(end_slot(d), d->next, d->q.qpn, opcode, remote, rkey, local, e->mine.key[0],
		     bytes, 0);
	end_ring(e, d);
}

__attribute__((unused)) static void end_add(struct end *e, uint64_t remote, uint64_t value)
{
	struct end_queue *d = &e->main;

	if (d->next - d->polled >= END_DEPTH)
		CHECK_EQ(end_drain(e, d), 0);
	ori_wqe_fetch_add(end_slot(d), d->next, d->q.qpn, remote, e->theirs.key[0], value, 0,
			  e->sink_key[0], 0);
	end_ring(e, d);
}

/* Both ranks in this process, connected. */
__attribute__((unused)) static int pair_open(struct end pair[2])
{
	struct ori_config config;
	int err = 0;

	end_config(&config);
	for (int i = 0; i < 2 && !err; i++)
		err = end_open(&pair[i], i, &config);
	for (int i = 0; i < 2 && !err; i++)
		pair[i].theirs = pair[!i].mine;
	for (int i = 0; i < 2 && !err; i++)
		err = end_connect(&pair[i]);
	return err;
}

__attribute__((unused)) static void pair_close(struct end pair[2])
{
	end_close(&pair[0]);
	end_close(&pair[1]);
}

/* Waits for a word that the other rank writes. */
__attribute__((unused)) static int end_wait(struct end *e, const uint64_t *word, uint64_t want)
{
	uint64_t deadline = ori_now_ns() + END_LIMIT_NS;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < want) {
		e->engine->ops->drive(e->engine);
		if (ori_now_ns() > deadline)
			return -1;
	}
	return 0;
}

#endif
