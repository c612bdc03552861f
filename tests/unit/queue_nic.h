/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/queue_nic.h - the smallest NIC that can check a queue: one main queue, one companion,
 * no wire.
 *
 * It takes the WQEs whose doorbell was rung, keeps a copy, executes them in order, and writes CQEs.
 * It reports a device that breaks a rule.  Doorbells never go back or past the ring.  The record is
 * never behind the doorbell.  A WQE carries its own index.  A slot is not written before its CQE.
 *
 * Single-threaded tests use it as the engine of the comm, so it runs inside ring and wait.  With
 * threads it runs on its own thread.
 */
#ifndef ORI_TEST_QUEUE_NIC_H
#define ORI_TEST_QUEUE_NIC_H

#include <oriel/device/queued.h>

#include "../check.h"
#include "engine/engine.h"

#define NIC_DEPTH_MAX 64u
#define NIC_MEMORY 4096u
#define NIC_REMOTE_KEY 0x7700u
#define NIC_SINK_KEY 0x8800u
#define NIC_LOCAL_KEY 0x9900u
#define NIC_LOG 64u
#define NIC_NEVER UINT64_MAX

struct nic_queue {
	struct oriel_queue q; /* the device's */
	_Alignas(128) struct ori_wqe sq[NIC_DEPTH_MAX];
	_Alignas(128) struct ori_cqe cq[NIC_DEPTH_MAX];
	_Alignas(128) uint32_t record[2];
	uint64_t doorbell;
	/* the NIC's */
	_Alignas(128) struct ori_wqe copy[NIC_DEPTH_MAX];
	uint64_t taken, done;
	uint64_t rings;    /* how often the doorbell was seen to move */
	uint64_t error_at; /* index that ends with REMOTE_ACCESS, and all behind it flushed */
};

struct nic_logged {
	uint8_t opcode, flags;
	uint64_t index;
};

struct nic {
	struct ori_engine engine; /* first: drive() gets it */
	struct ori_engine_ops ops;
	struct nic_queue main, companion;
	int hold;  /* takes and completes nothing */
	int stall; /* takes, but completes nothing */
	int slow;  /* completes one WQE every third time it is driven */
	uint64_t drives;
	int broken; /* rules the device broke; told once */
	uint8_t memory[NIC_MEMORY] __attribute__((aligned(128))); /* the peer's */
	uint64_t sink;
	uint64_t word_watched;          /* offset of a word that may only grow; NIC_NEVER: none */
	struct nic_logged log[NIC_LOG]; /* of the main queue */
	uint32_t logged;
	/* what the device sees */
	struct oriel_comm_dev comm;
	struct oriel_comm_peer peers[2];
	struct oriel_link link;
	struct oriel_lane lane;
	uint64_t last_signal;
	uint64_t failure;
	struct oriel_waiters waiters;
	struct oriel_board board;
};

/* ---- taking doorbells ------------------------------------------------------------------------ */

/* Ends all waits too: the NIC does nothing more. */
static void nic_complain(struct nic *n, const char *what, uint64_t have, uint64_t want)
{
	__atomic_store_n(&n->failure, ORIEL_FAILURE(ORIEL_EPROTO, 0), __ATOMIC_RELAXED);
	if (!n->broken++)
		check_fail(__FILE__, __LINE__, "%s: %llu, should be %llu", what,
			   (unsigned long long)have, (unsigned long long)want);
}

static void nic_copy_wqe(struct nic *n, struct nic_queue *f, uint64_t index)
{
	struct ori_wqe *to = &f->copy[index & (f->q.depth - 1)];
	uint32_t word;

	memcpy(to, &f->sq[index & (f->q.depth - 1)], sizeof(*to));
	word = ori_be32(to->ctrl.opmod_idx_opcode);
	if (word >> 24 || ((word >> 8) & 0xffff) != (uint16_t)index)
		nic_complain(n, "index in a WQE", word >> 8, (uint16_t)index);
	if (ori_be32(to->ctrl.qpn_ds) >> 8 != f->q.qpn)
		nic_complain(n, "number in a WQE", ori_be32(to->ctrl.qpn_ds) >> 8, f->q.qpn);
}

static int nic_take(struct nic *n, struct nic_queue *f)
{
	uint64_t bell = __atomic_load_n(&f->doorbell, __ATOMIC_ACQUIRE);
	uint32_t index = ori_be32((uint32_t)bell) >> 8, record;
	uint16_t advance = (uint16_t)(index - f->taken);

	if (!bell || !advance || n->broken)
		return 0;
	/* relaxed: the doorbell alone must show the WQEs, and a record at least as new */
	record = ori_be32(__atomic_load_n(&f->record[1], __ATOMIC_RELAXED));
	if (ori_be32((uint32_t)(bell >> 32)) >> 8 != f->q.qpn)
		nic_complain(n, "number rung", bell >> 32, f->q.qpn);
	if ((uint16_t)(record - index) >= 0x8000)
		nic_complain(n, "record is behind the doorbell", record, index);
	if (advance > f->q.depth - (f->taken - f->done)) {
		nic_complain(n, "doorbell went back or past the ring: index", index,
			     (uint16_t)f->taken);
		return 0;
	}
	f->rings++;
	for (uint16_t i = 0; i < advance; i++)
		nic_copy_wqe(n, f, f->taken++);
	return 1;
}

/* ---- executing ------------------------------------------------------------------------------- */

static uint8_t *nic_at(struct nic *n, uint32_t key, uint64_t address, uint64_t bytes)
{
	if (key == NIC_LOCAL_KEY)
		return (uint8_t *)(uintptr_t)address;
	if (key == NIC_SINK_KEY)
		return (uint8_t *)&n->sink;
	if (key != NIC_REMOTE_KEY || address > NIC_MEMORY || bytes > NIC_MEMORY - address)
		nic_complain(n, "memory named", address, NIC_MEMORY);
	return n->memory + (address + bytes <= NIC_MEMORY ? address : 0);
}

/* Words are stored whole, with release, so that a thread may wait for one. */
static void nic_place(struct nic *n, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint64_t value;

	if (bytes != 8 || ((uintptr_t)to & 7)) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(&value, from, 8);
	if (to == n->memory + n->word_watched && !ori_reached(value, *(uint64_t *)(void *)to))
		nic_complain(n, "a word went back", value, *(uint64_t *)(void *)to);
	__atomic_store_n((uint64_t *)(void *)to, value, __ATOMIC_RELEASE);
}

static void nic_transfer(struct nic *n, const struct ori_wqe *w, int read)
{
	const struct ori_wqe_data *d = &w->u.rdma.data;
	uint32_t bytes = ori_be32(d->byte_count), given = bytes & ~ORI_WQE_INLINE_FLAG;
	uint8_t *remote = nic_at(n, ori_be32(w->u.rdma.raddr.key),
				 ori_be64(w->u.rdma.raddr.address), given);
	uint8_t *local;

	if (bytes & ORI_WQE_INLINE_FLAG) {
		nic_place(n, remote, w->u.inl.payload.bytes, given);
		return;
	}
	local = nic_at(n, ori_be32(d->key), ori_be64(d->address), bytes);
	nic_place(n, read ? local : remote, read ? remote : local, bytes);
}

static void nic_atomic(struct nic *n, const struct ori_wqe *w, int compare)
{
	const struct ori_wqe_data *d = &w->u.atomic.result;
	uint64_t *word = (void *)nic_at(n, ori_be32(w->u.atomic.raddr.key),
					ori_be64(w->u.atomic.raddr.address), 8);
	uint64_t operand = ori_be64(w->u.atomic.operands.swap_add);
	uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (!compare)
		__atomic_store_n(word, old + operand, __ATOMIC_RELEASE);
	else if (old == ori_be64(w->u.atomic.operands.compare))
		__atomic_store_n(word, operand, __ATOMIC_RELEASE);
	nic_place(n, nic_at(n, ori_be32(d->key), ori_be64(d->address), 8), (uint8_t *)&old, 8);
}

/* 0: has to wait. */
static int nic_execute(struct nic *n, const struct ori_wqe *w)
{
	uint32_t opcode = ori_be32(w->ctrl.opmod_idx_opcode) & 0xff;

	if (opcode == ORI_WQE_WAIT)
		return (int32_t)((uint32_t)n->main.done - 1 - ori_be32(w->u.wait.index)) >= 0;
	if (opcode == ORI_WQE_RDMA_WRITE || opcode == ORI_WQE_RDMA_READ)
		nic_transfer(n, w, opcode == ORI_WQE_RDMA_READ);
	else if (opcode == ORI_WQE_ATOMIC_FA || opcode == ORI_WQE_ATOMIC_CS)
		nic_atomic(n, w, opcode == ORI_WQE_ATOMIC_CS);
	else if (opcode != ORI_WQE_NOP)
		nic_complain(n, "opcode", opcode, ORI_WQE_NOP);
	return 1;
}

/* The body first, then the last four bytes with release: partner of [QUEUE5]. */
static void nic_write_cqe(struct nic_queue *f, uint64_t index, uint32_t syndrome)
{
	struct ori_cqe *cqe = &f->cq[index & (f->q.depth - 1)];
	uint32_t owner = (uint32_t)(index >> f->q.log_depth) & 1u;
	uint32_t op_own = (syndrome ? ORI_CQE_REQ_ERR : ORI_CQE_REQ) << 4 | owner;

	memset(cqe, 0, 0x3c);
	cqe->syndrome = (uint8_t)syndrome;
	cqe->opcode_qpn = ori_be32(f->q.qpn);
	__atomic_store_n((uint32_t *)(void *)&cqe->wqe_counter,
			 (uint32_t)ori_be16((uint16_t)index) | op_own << 24, __ATOMIC_RELEASE);
}

static int nic_complete(struct nic *n, struct nic_queue *f)
{
	const struct ori_wqe *w = &f->copy[f->done & (f->q.depth - 1)];
	uint32_t syndrome = 0;

	if (f->done == f->taken || n->broken || n->stall)
		return 0;
	if (memcmp(w, &f->sq[f->done & (f->q.depth - 1)], sizeof(*w)))
		nic_complain(n, "a slot was written again before its CQE", f->done, f->done);
	if (f->done >= f->error_at)
		syndrome = f->done == f->error_at ? ORI_SYNDROME_REMOTE_ACCESS :
						    ORI_SYNDROME_FLUSHED;
	if (!syndrome && !nic_execute(n, w))
		return 0;
	if (f == &n->main) {
		struct nic_logged *l = &n->log[n->logged++ % NIC_LOG];

		l->opcode = (uint8_t)(ori_be32(w->ctrl.opmod_idx_opcode) & 0xff);
		l->flags = w->ctrl.fm_ce_se;
		l->index = f->done;
	}
	nic_write_cqe(f, f->done++, syndrome);
	return 1;
}

/* As much as there is; how much that was. */
static int nic_step(struct nic *n)
{
	int did = 0, now;

	if (n->hold)
		return 0;
	do {
		now = nic_take(n, &n->main) + nic_take(n, &n->companion);
		now += nic_complete(n, &n->main) + nic_complete(n, &n->companion);
		did += now;
	} while (now);
	if (did)
		ori_wake(&n->waiters);
	return did;
}

static void nic_drive(struct ori_engine *engine)
{
	struct nic *n = (struct nic *)(void *)engine;

	if (!n->slow)
		(void)nic_step(n);
	else if (!nic_take(n, &n->main) && ++n->drives % 3 == 0)
		(void)nic_complete(n, &n->main);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void nic_queue_open(struct nic_queue *f, uint32_t depth, uint64_t first, uint32_t qpn)
{
	memset(f->cq, 0xff, sizeof(f->cq));
	memset(f->sq, 0xa5, sizeof(f->sq));
	f->q.sq = (uint8_t *)f->sq;
	f->q.cq = (uint8_t *)f->cq;
	f->q.record = f->record;
	f->q.doorbell = &f->doorbell;
	f->q.qpn = qpn;
	f->q.cqn = qpn + 1;
	f->q.depth = depth;
	f->q.log_depth = (uint32_t)__builtin_ctz(depth);
	f->q.peer = 1;
	f->q.reserved = f->q.produced = f->q.completed = first;
	f->taken = f->done = first;
	f->error_at = NIC_NEVER;
}

/* One lane to rank 1, executed inside the caller's own ring and wait. */
static struct nic *nic_open(uint32_t depth, uint64_t first)
{
	struct nic *n = aligned_alloc(128, (sizeof(*n) + 127) & ~(size_t)127);

	if (!n)
		exit(1);
	memset(n, 0, sizeof(*n));
	nic_queue_open(&n->main, depth, first, 0x0abc01);
	nic_queue_open(&n->companion, depth, first, 0x0abc05);
	n->word_watched = NIC_NEVER;
	n->ops.drive = nic_drive;
	n->engine.ops = &n->ops;
	n->lane.main = &n->main.q;
	n->lane.companion = &n->companion.q;
	n->lane.sink_key = NIC_SINK_KEY;
	n->link.lanes = &n->lane;
	n->link.nlanes = 1;
	n->link.flags = ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED;
	n->link.message_bytes = ORI_WQE_MESSAGE_BYTES;
	n->last_signal = first;
	n->link.last_signal = &n->last_signal;
	n->peers[0].kind = ORIEL_PEER_SELF;
	n->peers[1].kind = ORIEL_PEER_QUEUED;
	n->peers[1].link = &n->link;
	n->comm.nranks = 2;
	n->comm.timeout_ns = 20000000000ull;
	n->comm.late_ns = 60000000000ull;
	n->comm.spin_polls = 16;
	n->comm.failure = &n->failure;
	n->comm.waiters = &n->waiters;
	n->comm.board = &n->board;
	n->comm.peers = n->peers;
	n->comm.engine = &n->engine;
	return n;
}

__attribute__((unused)) static struct ori_op_context nic_scope(struct nic *n, uint64_t timeout_ns)
{
	struct ori_op_context s = ori_comm_context(&n->comm);

	if (timeout_ns)
		s.timeout_ns = timeout_ns;
	return s;
}

__attribute__((unused)) static uint64_t nic_word(struct nic *n, uint64_t offset)
{
	return __atomic_load_n((uint64_t *)(void *)(n->memory + offset), __ATOMIC_ACQUIRE);
}

#endif
