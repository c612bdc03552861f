/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/proxy_world.h - a proxy of rank 0 with a back end that is plain memory: rank 1 is an
 * array, an operation is a memcpy.
 *
 * As the seed decides, the back end completes late, in any order, and sometimes has no room; it can
 * fail the n-th operation.  The device is the simplest one: one thread that fills a queue, rings,
 * and takes the CQEs one by one.
 */
#ifndef ORI_TEST_PROXY_WORLD_H
#define ORI_TEST_PROXY_WORLD_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "engine/proxy/proxy.h"
#include "oriel/device/wqe.h"
#include "util/util.h"

#define WORLD_BYTES 65536u
#define WORLD_OPS 256
#define WORLD_LINKS 4
#define WORLD_ALL                                                                                  \
	(ORI_PROXY_LOCAL_WRITE | ORI_PROXY_REMOTE_WRITE | ORI_PROXY_REMOTE_READ |                  \
	 ORI_PROXY_REMOTE_ATOMIC)
#define LOCAL_COOKIE 0x10ca1ull
#define REMOTE_COOKIE 0x5e307eull
/* The back end's address of the first byte of rank 1: neither a pointer nor 0. */
#define REMOTE_START 0x7000000ull

enum mem_kind { MEM_WRITE, MEM_INLINE, MEM_READ, MEM_ADD, MEM_SWAP, MEM_KINDS };

struct mem_op {
	struct ori_proxy_op op;
	uint8_t data[28];
	enum mem_kind kind;
	uint64_t number;     /* of all posts */
	uint64_t execute_at; /* ticks */
	uint64_t report_at;
	uint32_t syndrome;
	uint8_t used, executed;
};

struct mem_link {
	int flushed, broken;
};

struct proxy_world {
	struct ori_proxy *proxy;
	uint8_t *mine, *theirs; /* WORLD_BYTES each, in blocks of their own for the sanitizer */
	uint32_t my_key, their_key;
	uint64_t *sink;
	uint32_t sink_key;
	/* the back end */
	uint64_t random, tick, posts, submits;
	int ordered;        /* operations of a link take effect in the order posted */
	uint32_t delay;     /* longest, in ticks; 0: at the next look */
	uint32_t again;     /* of 256 posts so many find no room */
	int room;           /* open operations */
	uint64_t fail_at;   /* this post (1-based) completes with fail_syndrome */
	uint64_t refuse_at; /* this post is refused with fail_syndrome */
	uint32_t fail_syndrome;
	struct mem_op ops[WORLD_OPS];
	int open;
	struct mem_link links[WORLD_LINKS];
	uint64_t kinds[MEM_KINDS], agains;
	/* errors told */
	uint32_t told_qpn, told_syndrome;
	uint64_t told_index;
	int told;
};

static inline uint64_t world_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* ---- the back end ---------------------------------------------------------------------------- */

static int mem_post(struct proxy_world *w, const struct ori_proxy_op *op, enum mem_kind kind)
{
	struct mem_link *link = op->link;
	struct mem_op *o = w->ops;

	CHECK(!link->flushed);
	CHECK(op->remote_cookie == REMOTE_COOKIE);
	CHECK(kind == MEM_INLINE || op->local_cookie == LOCAL_COOKIE ||
	      op->local == (void *)w->sink);
	CHECK(op->remote >= REMOTE_START && op->bytes &&
	      op->remote + op->bytes <= REMOTE_START + WORLD_BYTES);
	CHECK((kind != MEM_ADD && kind != MEM_SWAP) || (op->bytes == 8 && !(op->remote & 7)));
	if (w->open >= w->room || (w->again && world_random(&w->random) % 256 < w->again)) {
		w->agains++;
		return -EAGAIN;
	}
	w->posts++;
	if (w->posts == w->refuse_at)
		return (int)w->fail_syndrome;
	while (o->used)
		o++;
	memset(o, 0, sizeof(*o));
	o->op = *op;
	if (kind == MEM_INLINE)
		memcpy(o->data, op->data, op->bytes);
	o->kind = kind;
	o->used = 1;
	o->number = w->posts;
	o->execute_at = w->tick + (w->delay ? world_random(&w->random) % w->delay : 0);
	o->report_at = o->execute_at + (w->delay ? world_random(&w->random) % w->delay : 0);
	if (w->posts == w->fail_at)
		o->syndrome = w->fail_syndrome;
	w->open++;
	w->kinds[kind]++;
	return 0;
}

static int mem_write(void *ctx, const struct ori_proxy_op *op)
{
	return mem_post(ctx, op, MEM_WRITE);
}

static int mem_inline(void *ctx, const struct ori_proxy_op *op)
{
	return mem_post(ctx, op, MEM_INLINE);
}

static int mem_read(void *ctx, const struct ori_proxy_op *op)
{
	return mem_post(ctx, op, MEM_READ);
}

static int mem_add(void *ctx, const struct ori_proxy_op *op)
{
	return mem_post(ctx, op, MEM_ADD);
}

static int mem_swap(void *ctx, const struct ori_proxy_op *op)
{
	return mem_post(ctx, op, MEM_SWAP);
}

static void mem_submit(void *ctx)
{
	((struct proxy_world *)ctx)->submits++;
}

static void mem_flush(void *ctx, void *link)
{
	struct proxy_world *w = ctx;
	struct mem_link *l = link;

	CHECK(!l->flushed);
	l->flushed = l->broken = 1;
	(void)w;
}

static void mem_execute(struct proxy_world *w, struct mem_op *o)
{
	struct mem_link *link = o->op.link;
	uint8_t *at = w->theirs + (o->op.remote - REMOTE_START);
	uint64_t old;

	o->executed = 1;
	if (link->broken && !o->syndrome)
		o->syndrome = ORI_SYNDROME_FLUSHED;
	if (o->syndrome) {
		link->broken = 1;
		return;
	}
	switch (o->kind) {
	case MEM_WRITE:
		memcpy(at, o->op.local, o->op.bytes);
		return;
	case MEM_INLINE:
		memcpy(at, o->data, o->op.bytes);
		return;
	case MEM_READ:
		memcpy(o->op.local, at, o->op.bytes);
		return;
	default:
		memcpy(&old, at, 8);
		memcpy(o->op.local, &old, 8);
		if (o->kind == MEM_ADD)
			old += o->op.swap_add;
		else if (old == o->op.compare)
			old = o->op.swap_add;
		memcpy(at, &old, 8);
	}
}

/* Must it wait for an earlier operation of its link? */
static int mem_behind(const struct proxy_world *w, const struct mem_op *o)
{
	for (int i = 0; w->ordered && i < WORLD_OPS; i++)
		if (w->ops[i].used && !w->ops[i].executed && w->ops[i].op.link == o->op.link &&
		    w->ops[i].number < o->number)
			return 1;
	return 0;
}

static int mem_progress(void *ctx, struct ori_proxy_completion *out, int room)
{
	struct proxy_world *w = ctx;
	int n = 0, first, moved;

	if (!w->open)
		return 0;
	w->tick++;
	first = (int)(world_random(&w->random) % WORLD_OPS);
	do {
		moved = 0;
		for (int i = 0; i < WORLD_OPS; i++) {
			struct mem_op *o = &w->ops[(first + i) % WORLD_OPS];

			if (!o->used || o->executed || o->execute_at > w->tick || mem_behind(w, o))
				continue;
			mem_execute(w, o);
			moved = w->ordered;
		}
	} while (moved);
	for (int i = 0; i < WORLD_OPS && n < room; i++) {
		struct mem_op *o = &w->ops[(first + i) % WORLD_OPS];

		if (!o->used || !o->executed || o->report_at > w->tick)
			continue;
		out[n].cookie = o->op.cookie;
		out[n++].syndrome = o->syndrome;
		o->used = 0;
		w->open--;
	}
	return n;
}

/* ---- the world ------------------------------------------------------------------------------- */

static void world_failed(void *ctx, uint32_t qpn, uint64_t index, uint32_t syndrome)
{
	struct proxy_world *w = ctx;

	w->told++;
	w->told_qpn = qpn;
	w->told_index = index;
	w->told_syndrome = syndrome;
}

static uint32_t world_key(struct proxy_world *w, void *base, uint64_t bytes, uint32_t access)
{
	struct ori_proxy_memory m = { base, 0, bytes, access, LOCAL_COOKIE };
	uint32_t key = 0;

	CHECK_EQ(ori_proxy_key_add(w->proxy, &m, &key), 0);
	return key;
}

__attribute__((unused)) static void world_open(struct proxy_world *w, uint64_t seed)
{
	static const struct ori_proxy_backend table = {
		.post_write = mem_write,
		.post_write_inline = mem_inline,
		.post_read = mem_read,
		.post_fetch_add = mem_add,
		.post_compare_swap = mem_swap,
		.submit = mem_submit,
		.progress = mem_progress,
		.flush = mem_flush,
	};
	struct ori_proxy_attr attr = { .rank = 0,
				       .nranks = 2,
				       .backend = &table,
				       .backend_ctx = w,
				       .failed = world_failed,
				       .failed_ctx = w };
	struct ori_proxy_remote remote = { 0, WORLD_BYTES, WORLD_ALL, REMOTE_START, REMOTE_COOKIE };

	memset(w, 0, sizeof(*w));
	w->random = seed;
	w->ordered = 1;
	w->room = WORLD_OPS;
	w->mine = aligned_alloc(64, WORLD_BYTES);
	w->theirs = aligned_alloc(64, WORLD_BYTES);
	w->sink = calloc(1, sizeof(*w->sink));
	if (!w->mine || !w->theirs || !w->sink || ori_proxy_create(&attr, &w->proxy))
		exit(1);
	memset(w->mine, 0x11, WORLD_BYTES);
	memset(w->theirs, 0x22, WORLD_BYTES);
	w->my_key = world_key(w, w->mine, WORLD_BYTES, WORLD_ALL);
	w->sink_key = world_key(w, w->sink, 8, ORI_PROXY_LOCAL_WRITE);
	w->their_key = 0xabcd12;
	CHECK_EQ(ori_proxy_remote_add(w->proxy, 1, w->their_key, &remote), 0);
}

__attribute__((unused)) static void world_close(struct proxy_world *w)
{
	ori_proxy_destroy(w->proxy);
	free(w->mine);
	free(w->theirs);
	free(w->sink);
}

__attribute__((unused)) static struct ori_proxy_stats world_stats(const struct proxy_world *w)
{
	struct ori_proxy_stats s;

	ori_proxy_stats(w->proxy, &s);
	return s;
}

__attribute__((unused)) static void world_settle(struct proxy_world *w, int steps)
{
	for (int i = 0; i < steps; i++)
		ori_proxy_step(w->proxy, 64);
}

__attribute__((unused)) static void world_fill(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)world_random(&seed);
}

/* ---- the device ------------------------------------------------------------------------------ */

struct dev {
	struct oriel_queue q;
	uint32_t record[2];
	uint64_t doorbell;
	uint64_t first, next, polled;
};

/* link < 0: a loopback. */
__attribute__((unused)) static void dev_open(struct proxy_world *w, struct dev *d, uint32_t depth,
					     uint64_t first, int link, int core_direct)
{
	memset(d, 0, sizeof(*d));
	d->q.sq = aligned_alloc(64, depth * 64);
	d->q.cq = aligned_alloc(64, depth * 64);
	if (!d->q.sq || !d->q.cq)
		exit(1);
	memset(d->q.sq, 0xa5, depth * 64);
	memset(d->q.cq, 0xa5, depth * 64);
	d->q.record = d->record;
	d->q.doorbell = &d->doorbell;
	d->q.depth = depth;
	d->q.log_depth = (uint32_t)__builtin_ctz(depth);
	d->q.reserved = d->q.produced = d->q.completed = first;
	d->first = d->next = d->polled = first;
	CHECK_EQ(ori_proxy_queue_add(w->proxy, &d->q, core_direct), 0);
	CHECK_EQ(ori_proxy_queue_connect(w->proxy, d->q.qpn, link < 0 ? 0 : 1,
					 link < 0 ? NULL : &w->links[link]),
		 0);
}

__attribute__((unused)) static void dev_close(struct proxy_world *w, struct dev *d)
{
	ori_proxy_queue_remove(w->proxy, d->q.qpn);
	free(d->q.sq);
	free(d->q.cq);
}

static inline struct ori_wqe *dev_slot(struct dev *d)
{
	return (struct ori_wqe *)(void *)(d->q.sq + (d->next & (d->q.depth - 1)) * 64);
}

/* The WQE at `next` was written. */
static inline void dev_ring(struct dev *d)
{
	d->next++;
	__atomic_store_n(&d->record[1], ori_doorbell_record(d->next), __ATOMIC_RELEASE);
	__atomic_store_n(&d->doorbell, ori_doorbell_value(d->next, d->q.qpn), __ATOMIC_RELEASE);
}

static inline int dev_full(const struct dev *d)
{
	return d->next - d->polled >= d->q.depth;
}

/* Next CQE in order: 1 if there is one, with its syndrome (0: success). */
__attribute__((unused)) static int dev_poll(struct dev *d, uint32_t *syndrome)
{
	const struct ori_cqe *cqe = (const struct ori_cqe *)(const void *)d->q.cq +
				    (d->polled & (d->q.depth - 1));
	uint32_t word = __atomic_load_n((const uint32_t *)(const void *)&cqe->wqe_counter,
					__ATOMIC_ACQUIRE);
	uint32_t op_own = word >> 24;

	if (op_own >> 4 == ORI_CQE_INVALID || (op_own & 1) != ((d->polled / d->q.depth) & 1))
		return 0;
	CHECK(d->polled < d->next);
	CHECK_EQ(ori_be16((uint16_t)word), (uint16_t)d->polled);
	CHECK_EQ(ori_be32(cqe->opcode_qpn) & 0xffffff, d->q.qpn);
	CHECK(op_own >> 4 == ORI_CQE_REQ || op_own >> 4 == ORI_CQE_REQ_ERR);
	*syndrome = cqe->syndrome;
	CHECK_EQ(*syndrome != 0, op_own >> 4 == ORI_CQE_REQ_ERR);
	d->polled++;
	return 1;
}

/* Steps until everything posted on `d` has its CQE; each must have this syndrome. */
__attribute__((unused)) static int dev_drain(struct proxy_world *w, struct dev *d, uint32_t want)
{
	uint32_t syndrome;

	for (int i = 0; i < 100000; i++) {
		while (dev_poll(d, &syndrome))
			CHECK_EQ(syndrome, want);
		if (d->polled == d->next)
			return 1;
		ori_proxy_step(w->proxy, 64);
	}
	check_fail(__FILE__, __LINE__, "%llu of %llu WQEs completed",
		   (unsigned long long)(d->polled - d->first),
		   (unsigned long long)(d->next - d->first));
	return 0;
}

__attribute__((unused)) static void dev_rdma(struct proxy_world *w, struct dev *d, uint32_t opcode,
					     uint64_t remote, uint64_t local, uint32_t bytes,
					     uint32_t flags)
{
	ori_wqe_rdma(dev_slot(d), d->next, d->q.qpn, opcode, remote, w->their_key, local, w->my_key,
		     bytes, flags);
	dev_ring(d);
}

__attribute__((unused)) static void dev_inline(struct proxy_world *w, struct dev *d,
					       uint64_t remote, const void *value, uint32_t bytes,
					       uint32_t flags)
{
	ori_wqe_write_inline(dev_slot(d), d->next, d->q.qpn, remote, w->their_key, value, bytes,
			     flags);
	dev_ring(d);
}

__attribute__((unused)) static void dev_add(struct proxy_world *w, struct dev *d, uint64_t remote,
					    uint64_t value, uint64_t result, uint32_t flags)
{
	ori_wqe_fetch_add(dev_slot(d), d->next, d->q.qpn, remote, w->their_key, value, result,
			  w->my_key, flags);
	dev_ring(d);
}

#endif
