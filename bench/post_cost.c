/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/post_cost.c - posts puts into a queue that no engine executes, to count the instructions of
 * one post.
 *
 * Usage: post_cost post|call COUNT
 *	post  only the queue's part: one WQE, the doorbell record, the doorbell
 *	call  oriel_queue_put(), which adds argument checks and the agreement of the group
 * bench/run.sh counts the instructions of two runs under callgrind.  The difference, divided by the
 * difference of the counts, is the cost of one post.  Every slot is free from the start and there
 * is no engine, so a post never waits and no other code runs.
 */
#include <oriel/device/queued.h>

#include <stdio.h>
#include <stdlib.h>

#define DEPTH 32768u

static struct ori_wqe sq[DEPTH];
static struct ori_cqe cq[DEPTH];

static void set_queue(struct oriel_queue *q, uint32_t *record, uint64_t *doorbell)
{
	memset(q, 0, sizeof(*q));
	q->sq = (uint8_t *)sq;
	q->cq = (uint8_t *)cq;
	q->record = record;
	q->doorbell = doorbell;
	q->depth = DEPTH;
	q->log_depth = 15;
	q->qpn = 7;
	q->peer = 1;
}

static int call_many(const struct oriel_comm_dev *comm, long count)
{
	struct oriel_remote dst = { 0, 4096, { 0x1100, 0 } };
	struct oriel_source src = { 4096, 4096, { 0x2200, 0 } };
	struct oriel_group g = { 0, 1, 0, 1, ORIEL_GROUP_THREAD, 0, NULL };
	int err = 0;

	for (long i = 0; !err && i < count; i++)
		err = oriel_queue_put(comm, g, 1, &dst, 8 * (i & 255), &src, 0, 8);
	return err;
}

static int post_many(const struct oriel_comm_dev *comm, long count)
{
	static const uint32_t rkey[ORIEL_NICS_MAX] = { 0x1100 }, lkey[ORIEL_NICS_MAX] = { 0x2200 };
	struct ori_op_context scope = ori_comm_context(comm);
	struct ori_post post;
	int err = 0;

	ori_post_init(&post);
	post.rkey = rkey;
	post.local = 4096;
	post.lkey = lkey;
	post.bytes = 8;
	for (long i = 0; !err && i < count; i++) {
		post.remote = 8 * (uint64_t)(i & 255);
		err = ori_queue_post(&scope, comm->peers[1].link, 0, &post);
	}
	return err;
}

int main(int argc, char **argv)
{
	static struct oriel_queue q;
	static uint32_t record[2];
	static uint64_t doorbell, failure;
	struct oriel_lane lane = { &q, NULL, 0, 0 };
	struct oriel_link link = { &lane, 1, ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED,
				   ORI_WQE_MESSAGE_BYTES, NULL };
	struct oriel_comm_peer peers[2];
	struct oriel_comm_dev comm;
	long count = argc == 3 ? atol(argv[2]) : 0;
	int err, call = argc == 3 && !strcmp(argv[1], "call");

	if (count < 1 || count > (long)DEPTH || (!call && strcmp(argv[1], "post"))) {
		fprintf(stderr, "usage: post_cost post|call COUNT, from 1 to %u\n", DEPTH);
		return 2;
	}
	set_queue(&q, record, &doorbell);
	memset(peers, 0, sizeof(peers));
	peers[1].kind = ORIEL_PEER_QUEUED;
	peers[1].link = &link;
	memset(&comm, 0, sizeof(comm));
	comm.nranks = 2;
	comm.timeout_ns = 1000000000;
	comm.failure = &failure;
	comm.peers = peers;
	err = call ? call_many(&comm, count) : post_many(&comm, count);
	if (err || q.produced != (uint64_t)count ||
	    doorbell != ori_doorbell_value((uint64_t)count, q.qpn)) {
		fprintf(stderr, "post_cost: %ld posts, status %d, %llu rung\n", count, err,
			(unsigned long long)q.produced);
		return 1;
	}
	return 0;
}
