/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/allgather_bed.h - the parts that the tests of the all-gather share: receive memory,
 * send memory, and calls of which every byte is checked.
 *
 * Every byte is a function of (round, rank, offset).  The receive memory is filled with another
 * byte before each exec.  So data that comes before its rank is ready is overwritten, and found
 * missing.  The tests access memory only through oriel_copy(), so they also run on a device whose
 * memory the host cannot touch.
 */
#ifndef ORI_TEST_ALLGATHER_BED_H
#define ORI_TEST_ALLGATHER_BED_H

#include <oriel/coll.h>

#include "../ranks.h"

#define BED_POISON 0xa5
#define BED_GUARD 64u

struct bed {
	struct rank_env *env;
	struct oriel_window *window;
	struct oriel_buffer *buffer;
	uint8_t *recv;  /* device: room for all blocks, then the guard */
	uint8_t *send;  /* device: room for one block */
	uint8_t *image; /* host: as large as recv */
	uint64_t room;  /* bytes of all blocks */
	uint64_t round;
};

static inline uint64_t bed_word(uint64_t round, int rank, uint64_t i)
{
	uint64_t stamp = (round * 64 + (uint64_t)rank + 1) * 0x9e3779b97f4a7c15u;

	return (stamp ^ (stamp >> 29)) + i * 0xbf58476d1ce4e5b9u;
}

static inline void bed_fill(uint8_t *to, uint64_t bytes, uint64_t round, int rank)
{
	for (uint64_t i = 0; i * 8 < bytes; i++) {
		uint64_t word = bed_word(round, rank, i);

		memcpy(to + i * 8, &word, bytes - i * 8 < 8 ? bytes - i * 8 : 8);
	}
}

static inline uint64_t bed_wrong(const uint8_t *from, uint64_t bytes, uint64_t round, int rank)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i * 8 < bytes; i++) {
		uint64_t word = bed_word(round, rank, i);

		wrong += memcmp(from + i * 8, &word, bytes - i * 8 < 8 ? bytes - i * 8 : 8) != 0;
	}
	return wrong;
}

/* A window (or, with no window wanted, plain device memory) for blocks of up to `bytes` a rank. */
static inline int bed_open(struct bed *b, struct rank_env *env, uint64_t bytes, int with_window)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	void *p = NULL;
	int err;

	memset(b, 0, sizeof(*b));
	b->env = env;
	b->room = bytes * (uint64_t)env->nranks;
	b->image = (uint8_t *)malloc(b->room + BED_GUARD);
	o.bytes = b->room + BED_GUARD;
	if (with_window) {
		err = oriel_window_create(env->comm, &o, &b->window);
		if (!err)
			b->recv = (uint8_t *)oriel_window_buffer(b->window);
	} else {
		err = oriel_alloc(env->comm, o.bytes, &p);
		b->recv = (uint8_t *)p;
	}
	if (!err)
		err = oriel_alloc(env->comm, bytes ? bytes : 1, &p);
	b->send = (uint8_t *)p;
	return b->image ? err : ORIEL_ENOMEM;
}

static inline int bed_close(struct bed *b)
{
	int err = b->window ? oriel_window_destroy(b->window) : 0;

	if (!err && b->buffer)
		err = oriel_buffer_release(b->buffer);
	if (!err && !b->window && b->recv)
		err = oriel_free(b->env->comm, b->recv);
	if (!err && b->send)
		err = oriel_free(b->env->comm, b->send);
	free(b->image);
	return err;
}

/* Fills everything with poison, then writes this round's own block; returns the sendbuf to use. */
static inline int bed_begin(struct bed *b, uint64_t bytes, int in_place, const void **sendbuf)
{
	uint64_t all = bytes * (uint64_t)b->env->nranks, own = bytes * (uint64_t)b->env->rank;
	uint8_t *to = in_place ? b->recv + own : b->send;
	int err;

	b->round++;
	memset(b->image, BED_POISON, all + BED_GUARD);
	err = oriel_copy(b->env->comm, b->recv, b->image, all + BED_GUARD);
	bed_fill(b->image, bytes, b->round, b->env->rank);
	if (!err && bytes)
		err = oriel_copy(b->env->comm, to, b->image, bytes);
	*sendbuf = to;
	return err;
}

/* Checks every byte, and the guard behind them. */
static inline void bed_check(struct bed *b, uint64_t bytes, const char *what)
{
	uint64_t all = bytes * (uint64_t)b->env->nranks, wrong = 0, guard = 0;

	memset(b->image, 0, all + BED_GUARD);
	REQUIRE_OK(oriel_copy(b->env->comm, b->image, b->recv, all + BED_GUARD));
	for (int r = 0; r < b->env->nranks; r++)
		wrong += bed_wrong(b->image + (uint64_t)r * bytes, bytes, b->round, r);
	for (uint64_t i = 0; i < BED_GUARD; i++)
		guard += b->image[all + i] != BED_POISON;
	if (wrong || guard)
		check_fail(__FILE__, __LINE__,
			   "%s: rank %d of %d, round %llu, %llu bytes: %llu wrong words, %llu bytes "
			   "behind them changed",
			   what, b->env->rank, b->env->nranks, (unsigned long long)b->round,
			   (unsigned long long)bytes, (unsigned long long)wrong,
			   (unsigned long long)guard);
}

/* One exec of a request, or the plain call if the request is NULL; checks the result. */
static inline int bed_exec(struct bed *b, struct oriel_allgather_request *req, uint64_t count,
			   uint64_t elem_bytes, int in_place, const char *what)
{
	const void *sendbuf;
	int err = bed_begin(b, count * elem_bytes, in_place, &sendbuf);

	if (!err)
		err = req ? oriel_allgather_exec(req, sendbuf, count, elem_bytes, NULL) :
			    oriel_allgather(b->env->comm, sendbuf, b->recv, count, elem_bytes,
					    NULL);
	if (!err)
		err = oriel_comm_sync(b->env->comm, NULL);
	if (err)
		check_fail(__FILE__, __LINE__, "%s: rank %d: %llu x %llu bytes: %s", what,
			   b->env->rank, (unsigned long long)count, (unsigned long long)elem_bytes,
			   oriel_last_error());
	else
		bed_check(b, count * elem_bytes, what);
	return err;
}

#endif
