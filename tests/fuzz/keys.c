/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/keys.c - what other ranks say about their memory and their addresses: the blobs of the
 * proxied engine (engine/proxied/memory.c, engine/proxy/keys.c), and WQEs that use such keys.
 *
 * The fabric is this file: it counts what it is given and moves nothing.  Every operation that
 * reaches it must lie in memory that a peer has described, and in memory of this rank.
 */
#include <errno.h>
#include <stdlib.h>

#include "../check.h"
#include "engine/proxied/fabric.h"
#include "fuzz.h"
#include "oriel/device/wqe.h"
#include "util/config.h"

#define RANKS 3
#define OPS 40
#define MINE 4096u
#define TOLD 8
#define DEPTH 16u
#define OPEN_MAX 64

/* As engine/proxied/memory.c lays out its blob. */
struct memory_blob {
	uint32_t magic, nics;
	uint64_t iova, bytes;
	struct {
		uint64_t address, key;
	} nic[2];
};

enum keys_op { OP_TELL, OP_FORGET, OP_PEER, OP_WQE, OP_DRIVE, OP_COUNT };

static struct yard {
	struct ori_fabric fabric;
	struct ori_engine *engine;
	uint8_t *mine;
	uint32_t my_key[ORIEL_NICS_MAX];
	struct ori_engine_blob right; /* how this rank describes its own memory */
	struct {
		int rank, live;
		uint32_t key;
		struct memory_blob blob;
	} told[TOLD];
	uint64_t open[OPEN_MAX]; /* cookies of operations that are not complete */
	int nopen;
	struct oriel_queue queue;
	uint32_t record[2];
	uint64_t doorbell, next;
} yard;

/* ---- the fabric ------------------------------------------------------------------------------ */

static int is_told(const struct ori_proxy_op *op)
{
	for (int i = 0; i < TOLD; i++) {
		const struct memory_blob *b = &yard.told[i].blob;
		uint64_t off = op->remote - b->nic[0].address;

		if (yard.told[i].live && op->remote_cookie == b->nic[0].key && off <= b->bytes &&
		    op->bytes <= b->bytes - off)
			return 1;
	}
	return 0;
}

static int post(void *ctx, const struct ori_proxy_op *op)
{
	const uint8_t *local = op->local;

	(void)ctx;
	CHECK(is_told(op));
	if (!op->data)
		CHECK(local >= yard.mine && op->bytes <= MINE &&
		      local + op->bytes <= yard.mine + MINE);
	if (yard.nopen == OPEN_MAX)
		return -EAGAIN;
	yard.open[yard.nopen++] = op->cookie;
	return 0;
}

static int progress(void *ctx, struct ori_proxy_completion *out, int room)
{
	int n = 0;

	(void)ctx;
	while (n < room && yard.nopen)
		out[n++] = (struct ori_proxy_completion){ yard.open[--yard.nopen], 0 };
	return n;
}

static int memory_add(struct ori_fabric *f, const struct ori_engine_memory *m,
		      struct ori_fabric_region *out)
{
	(void)f;
	*out = (struct ori_fabric_region){ .address = (uint64_t)(uintptr_t)m->base, .key = 77 };
	return 0;
}

static void memory_remove(struct ori_fabric *f, const struct ori_fabric_region *region)
{
	(void)f;
	(void)region;
}

static int address(struct ori_fabric *f, uint8_t out[ORI_FABRIC_ADDRESS_BYTES], uint32_t *bytes)
{
	(void)f;
	memset(out, 1, 16);
	*bytes = 16;
	return 0;
}

static int peer_add(struct ori_fabric *f, int rank, const uint8_t *where, uint32_t bytes)
{
	uint8_t copy[ORI_FABRIC_ADDRESS_BYTES];

	(void)f;
	CHECK(rank >= 0 && rank < RANKS && bytes <= sizeof(copy));
	memcpy(copy, where, bytes); /* AddressSanitizer looks */
	return 0;
}

static int link_add(struct ori_fabric *f, uint32_t tag, void **link, uint32_t *number)
{
	*link = f;
	*number = tag;
	return 0;
}

static int link_connect(struct ori_fabric *f, void *link, int rank, uint32_t number)
{
	(void)f;
	(void)link;
	(void)rank;
	(void)number;
	return 0;
}

static int arm(struct ori_fabric *f, int *fd)
{
	(void)f;
	(void)fd;
	return -1;
}

static void fabric_close(struct ori_fabric *f)
{
	(void)f;
	yard.nopen = 0;
}

static const struct ori_fabric_ops ops = {
	.posts = { .post_write = post,
		   .post_write_inline = post,
		   .post_read = post,
		   .post_fetch_add = post,
		   .post_compare_swap = post,
		   .progress = progress },
	.memory_add = memory_add,
	.memory_remove = memory_remove,
	.address = address,
	.peer_add = peer_add,
	.link_add = link_add,
	.link_connect = link_connect,
	.arm = arm,
	.close = fabric_close,
};

static int open_fabric(const struct ori_config *config, const struct ori_fabric_world *world,
		       struct ori_fabric **out)
{
	(void)config;
	(void)world;
	yard.fabric.ops = &ops;
	yard.fabric.link_flags = ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED;
	yard.fabric.message_bytes = 1u << 20;
	*out = &yard.fabric;
	return 0;
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void failed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	(void)ctx;
	(void)nic;
	(void)qpn;
	(void)wqe;
	(void)syndrome;
}

static void doomed(void *ctx, uint32_t nic, uint32_t qpn)
{
	(void)ctx;
	(void)nic;
	(void)qpn;
}

static void open_queue(void)
{
	struct oriel_queue *q = &yard.queue;

	q->sq = aligned_alloc(64, DEPTH * ORI_WQE_BYTES);
	q->cq = aligned_alloc(64, DEPTH * sizeof(struct ori_cqe));
	if (!q->sq || !q->cq)
		exit(1);
	memset(q->sq, 0, DEPTH * ORI_WQE_BYTES);
	memset(q->cq, 0, DEPTH * sizeof(struct ori_cqe));
	q->record = yard.record;
	q->doorbell = &yard.doorbell;
	q->depth = DEPTH;
	q->log_depth = 4;
	CHECK_EQ(yard.engine->ops->queue_add(yard.engine, 0, q, 0), 0);
	CHECK_EQ(yard.engine->ops->connect(yard.engine, 0, q->qpn, 1, 0), 0);
}

static void open_yard(void)
{
	static struct oriel_waiters waiters;
	static const struct ori_fabric_kind kind = { "fuzz", open_fabric };
	struct ori_engine_world world = {
		.rank = 0, .nranks = RANKS, .waiters = &waiters, .failed = failed, .doomed = doomed
	};
	struct ori_engine_memory memory = { .bytes = MINE, .remote = 1 };
	struct ori_config config;

	memset(&yard, 0, sizeof(yard));
	memset(&config, 0, sizeof(config));
	config.nics = 1;
	yard.mine = calloc(1, MINE);
	if (!yard.mine || ori_proxied_open(&config, &world, &kind, &yard.engine))
		exit(1);
	memory.base = yard.mine;
	CHECK_EQ(yard.engine->ops->memory_add(yard.engine, &memory, yard.my_key, &yard.right), 0);
	open_queue();
}

static void close_yard(void)
{
	yard.engine->ops->close(yard.engine);
	free(yard.queue.sq);
	free(yard.queue.cq);
	free(yard.mine);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A blob of 64 raw bytes; `fix` makes its first words right. */
static void tell(struct fuzz_input *in)
{
	uint8_t fix = fuzz_byte(in), slot = fuzz_byte(in) % TOLD;
	uint32_t key[ORIEL_NICS_MAX] = { (uint32_t)slot << 8 | (fix >> 6) };
	int rank = 1 + (fix >> 4) % 2;
	struct ori_engine_blob blob;
	struct memory_blob parsed;

	fuzz_take(in, &blob, sizeof(blob));
	if (fix & 1)
		memcpy(blob.bytes, yard.right.bytes, 8);
	memcpy(&parsed, blob.bytes, sizeof(parsed));
	if (fix & 2)
		parsed.iova = 0;
	if (fix & 4)
		parsed.bytes %= 1u << 16;
	memcpy(blob.bytes, &parsed, sizeof(parsed));
	/* the slot's old memory is gone, whoever owned it */
	for (int r = 1; r < RANKS; r++)
		if (yard.told[slot].live)
			(void)yard.engine->ops->memory_told(yard.engine, r, &yard.told[slot].key,
							    NULL);
	yard.told[slot].live = !yard.engine->ops->memory_told(yard.engine, rank, key, &blob);
	yard.told[slot].rank = rank;
	yard.told[slot].key = key[0];
	yard.told[slot].blob = parsed;
}

static void forget(uint8_t slot)
{
	uint32_t key[ORIEL_NICS_MAX] = { yard.told[slot].key };

	(void)yard.engine->ops->memory_told(yard.engine, yard.told[slot].rank, key, NULL);
	yard.told[slot].live = 0;
}

static void wqe(struct fuzz_input *in)
{
	uint8_t fix = fuzz_byte(in), slot = fuzz_byte(in) % TOLD;
	struct oriel_queue *q = &yard.queue;
	struct ori_wqe w;

	fuzz_take(in, &w, sizeof(w));
	if (fix & 1)
		ori_wqe_ctrl_set(&w, yard.next, q->qpn,
				 fix & 64 ? ORI_WQE_RDMA_READ : ORI_WQE_RDMA_WRITE, 3, 0);
	if (fix & 2)
		w.u.rdma.raddr.key = ori_be32(yard.told[slot].key);
	if (fix & 4)
		ori_wqe_data_set(&w.u.rdma.data, ori_be64(w.u.rdma.data.address) % MINE,
				 yard.my_key[0], ori_be32(w.u.rdma.data.byte_count) % MINE);
	memcpy(q->sq + (yard.next % DEPTH) * ORI_WQE_BYTES, &w, sizeof(w));
	yard.next++;
	yard.record[1] = ori_doorbell_record(yard.next);
	__atomic_store_n(&yard.doorbell, ori_doorbell_value(yard.next, q->qpn), __ATOMIC_RELEASE);
}

static void step(struct fuzz_input *in)
{
	struct ori_engine_address where;
	uint8_t fix;

	switch (fuzz_byte(in) % OP_COUNT) {
	case OP_TELL:
		tell(in);
		break;
	case OP_FORGET:
		forget(fuzz_byte(in) % TOLD);
		break;
	case OP_PEER:
		fix = fuzz_byte(in);
		CHECK_EQ(yard.engine->ops->address(yard.engine, &where), 0);
		fuzz_take(in, where.bytes + (fix & 1 ? 6 : 0), 64);
		(void)yard.engine->ops->peer(yard.engine, (int8_t)fuzz_byte(in), &where);
		break;
	case OP_WQE:
		wqe(in);
		break;
	default:
		yard.engine->ops->drive(yard.engine);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	open_yard();
	for (int n = 0; n < OPS && in.left; n++)
		step(&in);
	for (int n = 0; n < 8; n++)
		yard.engine->ops->drive(yard.engine);
	close_yard();
	return 0;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

size_t fuzz_seed(int n, uint8_t *out, size_t room)
{
	const uint8_t peer[] = { OP_PEER, 1, 16, 2, 3 };
	struct memory_blob blob = { .iova = 0, .bytes = 8192 };
	struct fuzz_output o = { out, room, 0 };
	struct ori_wqe w;

	if (n > 2)
		return 0;
	blob.nic[0].address = 0x10000;
	blob.nic[0].key = 5;
	if (n == 2)
		fuzz_give(&o, peer, sizeof(peer));
	for (uint8_t i = 0; i < 2; i++) {
		fuzz_give_byte(&o, OP_TELL);
		fuzz_give_byte(&o, 1);
		fuzz_give_byte(&o, i);
		fuzz_give(&o, &blob, sizeof(blob));
		memset(out + o.bytes, 0, sizeof(struct ori_engine_blob) - sizeof(blob));
		o.bytes += sizeof(struct ori_engine_blob) - sizeof(blob);
		memset(&w, 0, sizeof(w));
		w.u.rdma.raddr.address = ori_be64(256);
		w.u.rdma.data.byte_count = ori_be32(128);
		fuzz_give_byte(&o, OP_WQE);
		fuzz_give_byte(&o, n ? 7 : 7 | 64);
		fuzz_give_byte(&o, i);
		fuzz_give(&o, &w, sizeof(w));
		fuzz_give_byte(&o, i ? OP_FORGET : OP_DRIVE);
	}
	return o.bytes;
}
