/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/queue_transport.c - device/queued.h on a single link: which WQEs an operation becomes,
 * in which order they leave, and what each kind of NIC gets.  tests/contract/transport.c tests what
 * arrives on real ranks.
 */
#include "queue_nic.h"

#define ORDERED (ORIEL_LINK_ORDERED | ORIEL_LINK_WRITES_ORDERED)
#define ALL (ORIEL_LINK_ATOMICS | ORDERED)
#define SHORT_NS 3000000ull
#define DATA 256u /* offset of the peer's data */
#define WORD 64u  /* and of its word */

struct rig {
	struct nic *n;
	struct oriel_group g;
	struct oriel_remote remote;
	struct oriel_source source;
	struct oriel_queue_word word;
	uint64_t total;
	_Alignas(64) uint8_t local[256]; /* the counter is its first word */
};

static void rig_open(struct rig *r, uint32_t flags)
{
	memset(r, 0, sizeof(*r));
	r->n = nic_open(8, 0xfffc);
	r->n->link.flags = flags;
	r->g = oriel_group_thread();
	r->remote.bytes = NIC_MEMORY;
	r->remote.key[0] = NIC_REMOTE_KEY;
	r->source.address = (uint64_t)(uintptr_t)r->local;
	r->source.bytes = sizeof(r->local);
	r->source.key[0] = NIC_LOCAL_KEY;
	r->word.memory = r->remote;
	r->word.offset = WORD;
	r->word.total = &r->total;
	for (int i = 8; i < 256; i++)
		r->local[i] = (uint8_t)(i * 7 + 1);
}

static void rig_close(struct rig *r)
{
	CHECK_EQ(r->n->broken, 0);
	free(r->n);
}

static uint64_t counter(struct rig *r)
{
	return __atomic_load_n((uint64_t *)(void *)r->local, __ATOMIC_ACQUIRE);
}

static int is_logged(struct rig *r, uint32_t at, uint32_t opcode, uint32_t flags)
{
	return at < r->n->logged && r->n->log[at].opcode == opcode &&
	       r->n->log[at].flags == (ORI_WQE_CQ_UPDATE | flags);
}

/*
 * One body of each call for the whole file: they are inline, and a file that holds thirty of them
 * takes the compiler half a minute.
 */
#define ONCE static __attribute__((noinline)) int

ONCE put(struct rig *r, int peer, uint64_t dst_off, uint64_t src_off, uint64_t bytes)
{
	return oriel_queue_put(&r->n->comm, r->g, peer, &r->remote, dst_off, &r->source, src_off,
			       bytes);
}

ONCE signal_word(struct rig *r, const struct oriel_queue_word *word, int op, uint64_t value)
{
	return oriel_queue_signal(&r->n->comm, r->g, 1, word, op, value);
}

ONCE signal_fence(struct rig *r, int op, uint64_t value)
{
	return oriel_queue_signal_fence(&r->n->comm, r->g, 1, &r->word, op, value);
}

ONCE put_signal(struct rig *r, uint64_t bytes, int op, uint64_t value)
{
	return oriel_queue_put_signal(&r->n->comm, r->g, 1, &r->remote, DATA, &r->source, 8, bytes,
				      &r->word, op, value);
}

ONCE put_signal_counter(struct rig *r, uint64_t bytes, uint64_t value)
{
	return oriel_queue_put_signal_counter(&r->n->comm, r->g, 1, &r->remote, DATA, &r->source, 8,
					      bytes, &r->word, ORIEL_ADD, value, &r->source, 0);
}

ONCE signal_counter(struct rig *r, uint64_t value, uint64_t counter_off)
{
	return oriel_queue_signal_counter(&r->n->comm, r->g, 1, &r->word, ORIEL_ADD, value,
					  &r->source, counter_off);
}

ONCE take_ticket(struct rig *r, struct oriel_ticket *ticket)
{
	return oriel_queue_take_ticket(&r->n->comm, r->g, 1, ticket);
}

ONCE wait_local(struct rig *r, const struct oriel_ticket *ticket, uint64_t timeout_ns)
{
	return oriel_queue_wait_local(&r->n->comm, r->g, ticket, timeout_ns);
}

ONCE fence(struct rig *r, int peer)
{
	return oriel_queue_fence(&r->n->comm, r->g, peer);
}

ONCE flush(struct rig *r, int peer)
{
	return oriel_queue_flush(&r->n->comm, r->g, peer);
}

ONCE reset(struct rig *r, const struct oriel_queue_word *word, uint64_t value)
{
	return oriel_queue_reset(&r->n->comm, r->g, 1, word, value);
}

TEST(put_is_one_write)
{
	struct rig r;

	rig_open(&r, ALL);
	CHECK_EQ(put(&r, 1, DATA, 16, 100), 0);
	CHECK_EQ(flush(&r, 1), 0);
	CHECK_EQ(r.n->logged, 1);
	CHECK(is_logged(&r, 0, ORI_WQE_RDMA_WRITE, 0));
	CHECK(!memcmp(r.n->memory + DATA, r.local + 16, 100));
	CHECK_EQ(r.n->memory[DATA + 100], 0);
	CHECK_EQ(r.n->memory[DATA - 1], 0);
	/* 0 bytes move nothing */
	CHECK_EQ(put(&r, 1, DATA, 0, 0), 0);
	CHECK_EQ(r.n->logged, 1);
	rig_close(&r);
}

TEST(put_signal_is_one_burst_with_one_doorbell)
{
	struct rig r;

	rig_open(&r, ALL);
	CHECK_EQ(put_signal(&r, 40, ORIEL_ADD, 3), 0);
	CHECK_EQ(r.n->main.rings, 1);
	CHECK(is_logged(&r, 0, ORI_WQE_RDMA_WRITE, 0));
	CHECK(is_logged(&r, 1, ORI_WQE_ATOMIC_FA, 0));
	CHECK_EQ(nic_word(r.n, WORD), 3);
	CHECK_EQ(put_signal(&r, 0, ORIEL_SET, 9), 0);
	CHECK_EQ(r.n->logged, 3);
	CHECK_EQ(nic_word(r.n, WORD), 9);
	rig_close(&r);
}

TEST(signal_fence_carries_the_fence)
{
	struct rig r;

	rig_open(&r, ALL);
	CHECK_EQ(signal_word(&r, &r.word, ORIEL_ADD, 1), 0);
	CHECK_EQ(signal_fence(&r, ORIEL_ADD, 1), 0);
	CHECK_EQ(signal_fence(&r, ORIEL_SET, 7), 0);
	CHECK_EQ(fence(&r, 1), 0);
	CHECK(is_logged(&r, 0, ORI_WQE_ATOMIC_FA, 0));
	CHECK(is_logged(&r, 1, ORI_WQE_ATOMIC_FA, ORI_WQE_FENCE));
	CHECK(is_logged(&r, 2, ORI_WQE_RDMA_WRITE, ORI_WQE_FENCE));
	CHECK(is_logged(&r, 3, ORI_WQE_NOP, ORI_WQE_FENCE));
	CHECK_EQ(nic_word(r.n, WORD), 7);
	rig_close(&r);
}

/* A fabric may route adaptively: a plain write that tells of others starts after them. */
TEST(where_writes_overtake_a_set_is_strong)
{
	struct rig r;

	rig_open(&r, ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED);
	CHECK_EQ(put_signal(&r, 40, ORIEL_SET, 9), 0);
	CHECK_EQ(put_signal(&r, 40, ORIEL_ADD, 1), 0);
	CHECK_EQ(fence(&r, 1), 0);
	CHECK(is_logged(&r, 0, ORI_WQE_RDMA_WRITE, 0));
	CHECK(is_logged(&r, 1, ORI_WQE_RDMA_WRITE, ORI_WQE_STRONG));
	CHECK(is_logged(&r, 2, ORI_WQE_RDMA_WRITE, 0));
	CHECK(is_logged(&r, 3, ORI_WQE_ATOMIC_FA, 0)); /* the NIC holds it back itself */
	CHECK(is_logged(&r, 4, ORI_WQE_NOP, ORI_WQE_STRONG));
	rig_close(&r);
}

/* More than one WQE can carry: cut, in order, the signal behind the last piece. */
TEST(puts_above_the_longest_message_are_split)
{
	struct rig r;

	rig_open(&r, ALL);
	r.n->link.message_bytes = 16;
	CHECK_EQ(put_signal(&r, 200, ORIEL_ADD, 1), 0);
	CHECK_EQ(flush(&r, 1), 0);
	CHECK_EQ(r.n->logged, 14); /* 12 of 16, one of 8, the add */
	CHECK(is_logged(&r, 12, ORI_WQE_RDMA_WRITE, 0));
	CHECK(is_logged(&r, 13, ORI_WQE_ATOMIC_FA, 0));
	CHECK(!memcmp(r.n->memory + DATA, r.local + 8, 200));
	CHECK_EQ(r.n->memory[DATA + 200], 0);
	rig_close(&r);
}

/* The count follows the completion, not the posting. */
TEST(counters_count_when_the_operation_is_complete)
{
	struct rig r;

	rig_open(&r, ALL);
	r.n->hold = 1;
	CHECK_EQ(put_signal_counter(&r, 40, 1), 0);
	CHECK_EQ(signal_counter(&r, 1, 0), 0);
	r.n->hold = 0;
	r.n->stall = 1;
	nic_step(r.n);
	CHECK_EQ(r.n->companion.taken, 0x10000); /* two of WAIT and add */
	CHECK_EQ(counter(&r), 0);
	r.n->stall = 0;
	nic_step(r.n);
	CHECK_EQ(counter(&r), 2);
	CHECK_EQ(nic_word(r.n, WORD), 2);
	rig_close(&r);
}

TEST(counters_without_nic_atomics_count_before_the_call_returns)
{
	struct rig r;

	rig_open(&r, ORDERED);
	CHECK_EQ(put_signal_counter(&r, 40, 1), 0);
	CHECK_EQ(counter(&r), 1);
	CHECK_EQ(signal_counter(&r, 1, 0), 0);
	CHECK_EQ(counter(&r), 2);
	CHECK_EQ(r.n->companion.taken, 0xfffc);
	rig_close(&r);
}

TEST(without_atomics_an_add_is_a_total_stored)
{
	struct rig r;

	rig_open(&r, ORDERED);
	r.n->word_watched = WORD;
	for (uint64_t i = 1; i <= 20; i++) {
		CHECK_EQ(signal_word(&r, &r.word, ORIEL_ADD, i), 0);
		CHECK_EQ(nic_word(r.n, WORD), i * (i + 1) / 2);
		CHECK_EQ(r.total, i * (i + 1) / 2);
	}
	CHECK(is_logged(&r, 0, ORI_WQE_RDMA_WRITE, 0));
	rig_close(&r);
}

TEST(without_atomics_or_a_total_an_add_is_refused)
{
	struct rig r;

	rig_open(&r, ORDERED);
	r.word.total = NULL;
	CHECK_EQ(signal_word(&r, &r.word, ORIEL_ADD, 1), ORIEL_EUNSUPPORTED);
	CHECK_EQ(signal_word(&r, &r.word, ORIEL_SET, 5), 0);
	CHECK_EQ(nic_word(r.n, WORD), 5);
	r.n->link.flags = ALL;
	CHECK_EQ(signal_word(&r, &r.word, ORIEL_ADD, 1), 0);
	CHECK_EQ(nic_word(r.n, WORD), 6);
	rig_close(&r);
}

/*
 * A producer that never got the turn has added nothing.  Else its abandoned add would arrive with
 * the next one.
 */
TEST(who_gives_up_before_its_turn_has_not_touched_the_total)
{
	struct rig r;
	struct ori_op_context scope;
	uint64_t base;

	rig_open(&r, ORDERED);
	r.n->comm.timeout_ns = SHORT_NS;
	scope = nic_scope(r.n, 0);
	r.total = 100;
	CHECK_EQ(ori_queue_reserve(&scope, &r.n->main.q, 1, &base), 0); /* and never publishes */
	CHECK_EQ(signal_word(&r, &r.word, ORIEL_ADD, 1), ORIEL_ETIMEDOUT);
	CHECK_EQ(r.total, 100);
	CHECK_EQ(r.n->logged, 0);
	rig_close(&r);
}

TEST(reset_sets_word_and_total_and_is_delivered)
{
	static const uint32_t flags[] = { ALL, ORDERED, ORIEL_LINK_ORDERED, 0 };

	for (int i = 0; i < 4; i++) {
		uint32_t mode = flags[i] & ORIEL_LINK_WRITES_ORDERED ? ORI_WQE_FENCE :
								       ORI_WQE_STRONG;
		struct rig r;

		rig_open(&r, flags[i]);
		CHECK_EQ(signal_word(&r, &r.word, ORIEL_ADD, 41), 0);
		CHECK_EQ(reset(&r, &r.word, 5), 0);
		CHECK_EQ(nic_word(r.n, WORD), 5);
		CHECK(is_logged(&r, 1, ORI_WQE_RDMA_WRITE, mode));
		CHECK_EQ(signal_word(&r, &r.word, ORIEL_ADD, 2), 0);
		CHECK_EQ(flush(&r, 1), 0);
		CHECK_EQ(nic_word(r.n, WORD), 7);
		rig_close(&r);
	}
}

/* Where writes may pass each other, the word leaves when the data is complete. */
TEST(without_order_the_word_waits_for_the_data)
{
	struct rig r;

	rig_open(&r, ORIEL_LINK_ATOMICS);
	r.n->stall = 1;
	r.n->comm.timeout_ns = SHORT_NS;
	CHECK_EQ(put_signal(&r, 40, ORIEL_ADD, 1), ORIEL_ETIMEDOUT);
	CHECK_EQ(r.n->main.taken, 0xfffd); /* the data alone */
	r.n->stall = 0;
	r.n->comm.timeout_ns = 20000000000ull;
	CHECK_EQ(put_signal(&r, 40, ORIEL_ADD, 1), 0);
	CHECK_EQ(nic_word(r.n, WORD), 1);
	CHECK_EQ(r.n->main.rings, 3);
	rig_close(&r);
}

TEST(a_ticket_is_waited_for_with_its_own_deadline)
{
	struct rig r;
	struct oriel_ticket ticket = { 0 };

	rig_open(&r, ALL);
	CHECK_EQ(take_ticket(&r, &ticket), 0);
	CHECK_EQ(wait_local(&r, &ticket, SHORT_NS), 0);
	r.n->stall = 1;
	CHECK_EQ(put(&r, 1, DATA, 8, 40), 0);
	CHECK_EQ(wait_local(&r, &ticket, SHORT_NS), 0); /* older than it */
	CHECK_EQ(take_ticket(&r, &ticket), 0);
	CHECK_EQ(ticket.peer, 1);
	CHECK_EQ(ticket.index, 0xfffd);
	CHECK_EQ(wait_local(&r, &ticket, SHORT_NS), ORIEL_ETIMEDOUT);
	CHECK_EQ(r.n->main.q.error, 0);
	r.n->stall = 0;
	CHECK_EQ(wait_local(&r, &ticket, 0), 0);
	ticket.lane = 1;
	CHECK_EQ(wait_local(&r, &ticket, 0), ORIEL_ENOTCONN);
	rig_close(&r);
}

TEST(what_is_not_right_is_refused_and_posts_nothing)
{
	struct rig r;
	struct oriel_queue_word odd, far;

	rig_open(&r, ALL);
	odd = far = r.word;
	odd.offset = 65;
	far.offset = NIC_MEMORY - 7;
	CHECK_EQ(put(&r, 0, 0, 0, 8), ORIEL_ENOTCONN);
	CHECK_EQ(put(&r, 2, 0, 0, 8), ORIEL_ENOTCONN);
	CHECK_EQ(put(&r, -1, 0, 0, 8), ORIEL_ENOTCONN);
	CHECK_EQ(put(&r, 1, NIC_MEMORY - 7, 0, 8), ORIEL_ERANGE);
	CHECK_EQ(put(&r, 1, UINT64_MAX, 0, 8), ORIEL_ERANGE);
	CHECK_EQ(put(&r, 1, 0, 249, 8), ORIEL_ERANGE);
	CHECK_EQ(put(&r, 1, 0, 8, UINT64_MAX), ORIEL_ERANGE);
	CHECK_EQ(signal_word(&r, &odd, ORIEL_ADD, 1), ORIEL_EINVAL);
	CHECK_EQ(signal_word(&r, &far, ORIEL_ADD, 1), ORIEL_ERANGE);
	CHECK_EQ(signal_word(&r, &r.word, 0, 1), ORIEL_EINVAL);
	CHECK_EQ(signal_word(&r, &r.word, 3, 1), ORIEL_EINVAL);
	CHECK_EQ(signal_counter(&r, 1, 4), ORIEL_EINVAL);
	CHECK_EQ(signal_counter(&r, 1, 256), ORIEL_ERANGE);
	CHECK_EQ(reset(&r, &odd, 0), ORIEL_EINVAL);
	CHECK_EQ(fence(&r, 0), ORIEL_ENOTCONN);
	CHECK_EQ(flush(&r, 7), ORIEL_ENOTCONN);
	CHECK_EQ(r.n->main.q.reserved, 0xfffc);
	/* A failed comm takes nothing. */
	r.n->failure = ORIEL_FAILURE(ORIEL_EPEER, 1);
	CHECK_EQ(put(&r, 1, 0, 8, 8), ORIEL_EPEER);
	CHECK_EQ(flush(&r, 1), ORIEL_EPEER);
	CHECK_EQ(r.n->main.q.reserved, 0xfffc);
	rig_close(&r);
}
