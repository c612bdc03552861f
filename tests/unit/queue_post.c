/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/queue_post.c - device/queue.h by one thread: reserve, publish, turn, poll, errors,
 * giving up.  Small rings and first indices near the edges, so that everything wraps in every test.
 */
#include "queue_nic.h"

#define SHORT_NS 3000000ull

static const uint32_t depths[] = { 2, 4, 8 };
static const uint64_t starts[] = {
	0, 0xfff0, 0x7ff0, (1ull << 24) - 8, (1ull << 32) - 8, (1ull << 62) - 8
};

static int each(uint32_t *depth, uint64_t *start, unsigned int i)
{
	if (i >= 18)
		return 0;
	*depth = depths[i % 3];
	*start = starts[i / 3];
	return 1;
}

/* n NOPs or, with an offset, one inline write of `value` behind n - 1 NOPs. */
static int post(struct nic *n, uint64_t timeout_ns, uint32_t count, uint64_t offset, uint64_t value,
		uint64_t *base)
{
	struct ori_op_context scope = nic_scope(n, timeout_ns);
	struct oriel_queue *q = &n->main.q;
	int err = ori_queue_reserve(&scope, q, count, base);

	if (err)
		return err;
	for (uint32_t i = 0; i < count; i++)
		ori_wqe_nop(ori_queue_slot(q, *base + i), *base + i, q->qpn, 0);
	if (offset != NIC_NEVER)
		ori_wqe_write_inline(ori_queue_slot(q, *base + count - 1), *base + count - 1,
				     q->qpn, offset, NIC_REMOTE_KEY, &value, 8, 0);
	return ori_queue_publish(&scope, q, *base, count);
}

static int post_nop(struct nic *n, uint64_t timeout_ns, uint64_t *base)
{
	return post(n, timeout_ns, 1, NIC_NEVER, 0, base);
}

TEST(posts_wrap_at_every_edge)
{
	uint32_t depth;
	uint64_t start, base;

	for (unsigned int i = 0; each(&depth, &start, i); i++) {
		struct nic *n = nic_open(depth, start);
		struct ori_op_context scope = nic_scope(n, 0);
		uint64_t next = start;

		for (uint64_t k = 0; k < 48; k++) {
			uint32_t burst = 1 + (uint32_t)(k & 1);

			CHECK_EQ(post(n, 0, burst, 8 * (k % 8), k + 1, &base), 0);
			CHECK_EQ(base, next);
			next += burst;
			CHECK_EQ(ori_queue_wait(&scope, &n->main.q, next), 0);
			CHECK_EQ(n->main.q.completed, next);
			CHECK_EQ(nic_word(n, 8 * (k % 8)), k + 1);
		}
		CHECK_EQ(n->main.rings, 48); /* one doorbell a burst */
		CHECK_EQ(n->main.done, next);
		CHECK_EQ(n->broken, 0);
		free(n);
	}
}

/* The ring is mostly full: a reserve waits for the WQE that had its slot. */
TEST(posting_without_waiting_reuses_slots_in_time)
{
	uint32_t depth;
	uint64_t start, base = 0;

	for (unsigned int i = 0; each(&depth, &start, i); i++) {
		struct nic *n = nic_open(depth, start);
		struct ori_op_context scope = nic_scope(n, 0);
		int full = 0;

		n->slow = 1;
		for (uint64_t k = 0; k < 40ull * depth; k++) {
			CHECK_EQ(post(n, 0, 1, 8, k, &base), 0);
			full += n->main.taken - n->main.done == depth;
		}
		CHECK(full > 20);
		CHECK_EQ(ori_queue_wait(&scope, &n->main.q, base + 1), 0);
		CHECK_EQ(n->main.done, start + 40ull * depth);
		CHECK_EQ(nic_word(n, 8), 40ull * depth - 1);
		CHECK_EQ(n->broken, 0);
		free(n);
	}
}

TEST(a_full_queue_makes_reserve_wait_and_giving_up_poisons_it)
{
	uint64_t base, bell;

	for (int d = 0; d < 3; d++) {
		struct nic *n = nic_open(depths[d], 0xfff0);

		n->hold = 1;
		for (uint32_t k = 0; k < depths[d]; k++)
			CHECK_EQ(post_nop(n, SHORT_NS, &base), 0);
		bell = n->main.doorbell;
		CHECK_EQ(post_nop(n, SHORT_NS, &base), ORIEL_ETIMEDOUT);
		CHECK(n->main.doorbell == bell);
		CHECK_EQ(ORIEL_FAILURE_STATUS(n->main.q.error), ORIEL_ETIMEDOUT);
		CHECK_EQ(ORIEL_FAILURE_RANK(n->main.q.error), 1);
		/* Its slots will never be published: producers behind it get an error at once. */
		n->hold = 0;
		CHECK_EQ(post_nop(n, 0, &base), ORIEL_ETIMEDOUT);
		free(n);
	}
}

TEST(a_producer_waits_for_its_turn_and_giving_up_poisons_the_queue)
{
	struct nic *n = nic_open(4, 0xfffe);
	struct ori_op_context scope = nic_scope(n, SHORT_NS);
	struct oriel_queue *q = &n->main.q;
	uint64_t first = 0, second = 0;

	CHECK_EQ(ori_queue_reserve(&scope, q, 1, &first), 0);
	CHECK_EQ(ori_queue_reserve(&scope, q, 1, &second), 0);
	ori_wqe_nop(ori_queue_slot(q, second), second, q->qpn, 0);
	CHECK_EQ(ori_queue_publish(&scope, q, second, 1), ORIEL_ETIMEDOUT);
	CHECK_EQ(n->main.doorbell, 0);
	CHECK_EQ(q->produced, 0xfffe);
	CHECK_EQ(ori_queue_failed(q), ORIEL_ETIMEDOUT);
	/* The one before it can no longer make good for it, but nothing was rung out of order. */
	CHECK_EQ(n->main.taken, 0xfffe);
	free(n);
}

TEST(turns_are_passed_on_in_order)
{
	struct nic *n = nic_open(8, 0x7ffe);
	struct ori_op_context scope = nic_scope(n, SHORT_NS);
	struct oriel_queue *q = &n->main.q;
	uint64_t base[3];

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(ori_queue_reserve(&scope, q, 1, &base[i]), 0);
		ori_wqe_nop(ori_queue_slot(q, base[i]), base[i], q->qpn, 0);
	}
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(ori_queue_publish(&scope, q, base[i], 1), 0);
		CHECK_EQ(n->main.done, base[i] + 1);
	}
	CHECK_EQ(n->broken, 0);
	free(n);
}

TEST(a_late_poller_finds_its_wqe_complete_though_the_entry_was_written_again)
{
	uint32_t depth;
	uint64_t start, base, mine;

	for (unsigned int i = 0; each(&depth, &start, i); i++) {
		struct nic *n = nic_open(depth, start);

		CHECK_EQ(post_nop(n, 0, &mine), 0);
		for (uint64_t k = 0; k < 5ull * depth; k++) {
			CHECK_EQ(post_nop(n, 0, &base), 0);
			CHECK_EQ(ori_queue_poll(&n->main.q, mine), 1);
		}
		CHECK(ori_be16(n->main.cq[mine & (depth - 1)].wqe_counter) != (uint16_t)mine);
		free(n);
	}
}

TEST(an_entry_of_an_earlier_lap_is_not_taken_for_this_one)
{
	uint32_t depth;
	uint64_t start, base;

	for (unsigned int i = 0; each(&depth, &start, i); i++) {
		struct nic *n = nic_open(depth, start);

		CHECK_EQ(ori_queue_poll(&n->main.q, start), 0); /* nothing ever written */
		for (uint64_t k = 0; k < 3ull * depth; k++)
			CHECK_EQ(post_nop(n, 0, &base), 0);
		n->hold = 1;
		CHECK_EQ(post_nop(n, 0, &base), 0);
		CHECK_EQ(ori_queue_poll(&n->main.q, base), 0);
		CHECK_EQ(ori_queue_poll(&n->main.q, base + depth), 0);
		CHECK_EQ(ori_queue_poll(&n->main.q, base + 2 * depth), 0);
		n->hold = 0;
		nic_step(n);
		CHECK_EQ(ori_queue_poll(&n->main.q, base), 1);
		free(n);
	}
}

/* One poll of the last of many completes them all; `completed` never goes back. */
TEST(completed_only_grows)
{
	struct nic *n = nic_open(8, 0xfffc);
	uint64_t base;

	for (int k = 0; k < 8; k++)
		CHECK_EQ(post_nop(n, 0, &base), 0);
	CHECK_EQ(n->main.q.completed, 0xfffc);
	CHECK_EQ(ori_queue_poll(&n->main.q, base - 1), 1);
	CHECK_EQ(n->main.q.completed, base);
	CHECK_EQ(ori_queue_poll(&n->main.q, base - 5), 1);
	CHECK_EQ(n->main.q.completed, base);
	ori_queue_note_completed(&n->main.q, base - 3);
	CHECK_EQ(n->main.q.completed, base);
	free(n);
}

TEST(an_error_ends_waits_and_posts_and_is_never_not_yet)
{
	struct nic *n = nic_open(4, 0xfffe);
	struct ori_op_context scope = nic_scope(n, 0);
	struct oriel_queue *q = &n->main.q;
	uint64_t base;

	n->main.error_at = 0xffff;
	CHECK_EQ(post(n, 0, 3, NIC_NEVER, 0, &base), 0);
	CHECK_EQ(ori_queue_poll(q, base), 1); /* before the error: complete */
	CHECK_EQ(q->error, 0);
	CHECK_EQ(ori_queue_poll(q, base + 1), ORIEL_EREMOTE);
	CHECK_EQ(ORIEL_FAILURE_STATUS(q->error), ORIEL_EREMOTE);
	CHECK_EQ(ORIEL_FAILURE_RANK(q->error), 1);
	CHECK_EQ(ori_queue_wait(&scope, q, base + 1), 0);
	CHECK_EQ(ori_queue_wait(&scope, q, base + 2), ORIEL_EREMOTE);
	CHECK_EQ(ori_queue_wait(&scope, q, base + 3), ORIEL_EREMOTE); /* flushed */
	CHECK_EQ(q->completed, base + 1);
	CHECK_EQ(post_nop(n, 0, &base), ORIEL_EREMOTE);
	free(n);
}

/* The flush alone, read first, is an error too; and the first cause stays. */
TEST(the_first_cause_of_a_poisoned_queue_stays)
{
	struct nic *n = nic_open(4, 0);
	struct oriel_queue *q = &n->main.q;
	uint64_t base;

	n->main.error_at = 0;
	CHECK_EQ(post(n, 0, 2, NIC_NEVER, 0, &base), 0);
	CHECK_EQ(ori_queue_poison(q, ORIEL_EABORTED), ORIEL_EABORTED);
	CHECK_EQ(ori_queue_poll(q, base + 1), ORIEL_EREMOTE);
	CHECK_EQ(ori_queue_failed(q), ORIEL_EABORTED);
	CHECK_EQ(post_nop(n, 0, &base), ORIEL_EABORTED);
	free(n);
}

TEST(a_failed_comm_ends_the_wait_of_a_queue)
{
	struct nic *n = nic_open(2, 0);
	struct ori_op_context scope = nic_scope(n, 0);
	uint64_t base;

	n->stall = 1;
	CHECK_EQ(post_nop(n, 0, &base), 0);
	n->failure = ORIEL_FAILURE(ORIEL_EPEER, 1);
	CHECK_EQ(ori_queue_wait(&scope, &n->main.q, base + 1), ORIEL_EPEER);
	free(n);
}

TEST(a_wait_for_what_was_before_the_first_wqe_is_over_at_once)
{
	for (int i = 0; i < 6; i++) {
		struct nic *n = nic_open(2, starts[i]);
		struct ori_op_context scope = nic_scope(n, SHORT_NS);

		n->hold = 1;
		CHECK_EQ(ori_queue_wait(&scope, &n->main.q, starts[i]), 0);
		CHECK_EQ(ori_queue_wait(&scope, &n->main.q, starts[i] - 1), 0);
		CHECK_EQ(ori_queue_wait(&scope, &n->main.q, starts[i] + 1), ORIEL_ETIMEDOUT);
		/* A deadline of a wait alone poisons nothing. */
		CHECK_EQ(n->main.q.error, 0);
		free(n);
	}
}

TEST(what_is_rung_is_in_the_record_and_in_the_doorbell)
{
	struct nic *n = nic_open(4, 0xffff);
	uint64_t base;

	n->hold = 1;
	CHECK_EQ(post(n, 0, 2, NIC_NEVER, 0, &base), 0);
	CHECK(n->main.record[1] == ori_doorbell_record(0x10001));
	CHECK(n->main.record[0] == 0);
	CHECK(n->main.doorbell == ori_doorbell_value(0x10001, 0x0abc01));
	CHECK_EQ(n->main.q.produced, 0x10001);
	free(n);
}
