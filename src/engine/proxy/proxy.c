/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/proxy.c - the proxy as a whole: its life, and the order of work within a step.
 *
 * A step looks at the doorbells and starts new WQEs, takes completions, then runs every queue with
 * work: CQEs first, because they free the device, then new WQEs.  If the back end had no room for a
 * queue, the queue runs again in the next step, not in this one, so that a step ends.
 *
 * Called by any thread that drives the engine, one call at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

#define COMPLETIONS 32 /* taken from the back end at once */

/* ---- what a back end does not have ----------------------------------------------------------- */

static int refuse_post(void *ctx, const struct ori_proxy_op *op)
{
	(void)ctx;
	(void)op;
	return ORI_SYNDROME_REMOTE_INVALID;
}

static void no_submit(void *ctx)
{
	(void)ctx;
}

static int no_progress(void *ctx, struct ori_proxy_completion *out, int room)
{
	(void)ctx;
	(void)out;
	(void)room;
	return 0;
}

static void no_flush(void *ctx, void *link)
{
	(void)ctx;
	(void)link;
}

static void complete_table(struct ori_proxy_backend *b)
{
	b->post_write = b->post_write ? b->post_write : refuse_post;
	b->post_write_inline = b->post_write_inline ? b->post_write_inline : refuse_post;
	b->post_read = b->post_read ? b->post_read : refuse_post;
	b->post_fetch_add = b->post_fetch_add ? b->post_fetch_add : refuse_post;
	b->post_compare_swap = b->post_compare_swap ? b->post_compare_swap : refuse_post;
	b->submit = b->submit ? b->submit : no_submit;
	b->progress = b->progress ? b->progress : no_progress;
	b->flush = b->flush ? b->flush : no_flush;
}

/* ---- life ------------------------------------------------------------------------------------ */

int ori_proxy_create(const struct ori_proxy_attr *attr, struct ori_proxy **out)
{
	struct ori_proxy *p;
	int err;

	if (!attr->backend || attr->rank < 0 || attr->rank >= attr->nranks)
		return ori_fail(ORIEL_EINVAL, "proxy: rank %d of %d needs a back end", attr->rank,
				attr->nranks);
	p = calloc(1, sizeof(*p));
	if (!p)
		return ori_fail(ORIEL_ENOMEM, "no memory for a proxy");
	p->attr = *attr;
	p->backend = *attr->backend;
	complete_table(&p->backend);
	err = ori_proxy_keys_setup(p);
	if (err) {
		ori_proxy_destroy(p);
		return err;
	}
	*out = p;
	return 0;
}

void ori_proxy_destroy(struct ori_proxy *p)
{
	if (!p)
		return;
	ori_proxy_queues_free(p);
	ori_proxy_keys_free(p);
	free(p);
}

/* ---- step ------------------------------------------------------------------------------------ */

/* Was a doorbell rung? */
static int look_at_doorbells(struct ori_proxy *p)
{
	uint64_t before = p->outstanding;
	uint32_t seen = 0;

	for (uint32_t i = 1; seen < p->queue_count; i++)
		if (p->queues[i]) {
			ori_proxy_doorbell(p, p->queues[i]);
			seen++;
		}
	return p->outstanding != before;
}

static void take_completions(struct ori_proxy *p)
{
	struct ori_proxy_completion done[COMPLETIONS];
	int room, n;

	if (p->left <= 0)
		return;
	do {
		room = p->left < COMPLETIONS ? p->left : COMPLETIONS;
		n = p->backend.progress(p->attr.backend_ctx, done, room);
		if (n <= 0)
			return;
		for (int i = 0; i < n; i++)
			ori_proxy_cq_completed(p, &done[i]);
		p->left -= n;
	} while (n == room && p->left > 0);
}

static void run_queue(struct ori_proxy *p, struct proxy_queue *q)
{
	ori_proxy_cq_run(p, q);
	ori_proxy_start(p, q);
	/* WQEs executed here are already complete */
	ori_proxy_cq_run(p, q);
}

/* Runs the queues of this word that are in `mask`. */
static void run_word(struct ori_proxy *p, uint32_t word, uint64_t mask)
{
	uint64_t bits;

	while (p->left > 0 && (bits = p->active[word] & mask) != 0) {
		uint32_t place = word * 64 + (uint32_t)__builtin_ctzll(bits);

		p->active[word] &= ~(bits & -bits);
		run_queue(p, p->queues[place]);
		p->run_first = place + 1;
	}
}

/*
 * Repeats until no work is left, because a CQE may release a WAIT of a queue that was already
 * visited.  Starts behind the queue that ran last, so that none starves if the budget is small.
 */
static void run_queues(struct ori_proxy *p)
{
	uint32_t words = p->queue_room / 64, first;
	int before;

	if (!words)
		return; /* no queue yet */
	first = p->run_first % (words * 64);
	run_word(p, first / 64, UINT64_MAX << (first % 64));
	do {
		before = p->left;
		for (uint32_t i = 1; i <= words; i++)
			run_word(p, (first / 64 + i) % words, UINT64_MAX);
	} while (p->left > 0 && p->left != before);
}

int ori_proxy_step(struct ori_proxy *p, int budget)
{
	p->left = budget;
	for (uint32_t i = 0; i < p->queue_room / 64; i++) {
		p->active[i] |= p->again[i];
		p->again[i] = 0;
	}
	if (budget <= 0)
		return 0;
	/* Taking completions may take as long as a post, so new doorbells come first. */
	if (look_at_doorbells(p))
		run_queues(p);
	take_completions(p);
	run_queues(p);
	if (p->posted) {
		p->posted = 0;
		p->backend.submit(p->attr.backend_ctx);
	}
	return budget - p->left;
}

int ori_proxy_busy(const struct ori_proxy *p)
{
	return p->outstanding != 0;
}

void ori_proxy_stats(const struct ori_proxy *p, struct ori_proxy_stats *out)
{
	*out = p->stats;
}
