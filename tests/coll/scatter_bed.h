/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/scatter_bed.h - the parts that the tests of reduce-scatters between windows share:
 * memory of a rank in windows and elsewhere, and a call of which every element is checked.
 */
#ifndef ORI_TEST_SCATTER_BED_H
#define ORI_TEST_SCATTER_BED_H

#include "reduce_bed.h"

#define WINDOW_BYTES (3u << 20)

static const struct bed_row few[] = { { "threads", 3, 0, NULL }, { "processes", 3, 1, NULL } };

/* ---- memory of a rank ------------------------------------------------------------------------ */

/* Where the send buffer lies. */
enum where {
	IN_FIRST,  /* in the first window, on all ranks */
	IN_EITHER, /* on odd ranks in the second window, at another offset */
	NOT_LAST,  /* the last rank has memory that no peer can map */
	ONLY_FIRST /* only rank 0 has its buffer in a window */
};
#define WHERES 4

/* Where the result goes: in place on block 0 or on the own block, in a window, or elsewhere. */
enum place { ON_START, ON_OWN, IN_WINDOW, ELSEWHERE };
#define PLACES 4

struct memory {
	struct rank_env *env;
	struct oriel_window *window[2];
	void *pages; /* of the second window */
	uint8_t *plain, *result;
	uint64_t seed;
};

static inline void open_memory(struct memory *m, struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	memset(m, 0, sizeof(*m));
	m->env = env;
	m->seed = 5;
	m->plain = malloc(WINDOW_BYTES);
	m->result = malloc(WINDOW_BYTES);
	o.bytes = WINDOW_BYTES;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &m->window[0]));
	REQUIRE_OK(oriel_alloc(env->comm, WINDOW_BYTES, &m->pages));
	o.buffer = m->pages;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &m->window[1]));
}

static inline void close_memory(struct memory *m)
{
	free(m->plain);
	free(m->result);
	if (oriel_comm_status(m->env->comm))
		return;
	CHECK_EQ(oriel_window_destroy(m->window[1]), 0);
	CHECK_EQ(oriel_window_destroy(m->window[0]), 0);
	CHECK_EQ(oriel_free(m->env->comm, m->pages), 0);
}

static inline uint8_t *sender(const struct memory *m, enum where where)
{
	int rank = m->env->rank;

	if ((where == NOT_LAST && rank == m->env->nranks - 1) || (where == ONLY_FIRST && rank > 0))
		return m->plain;
	if (where == IN_EITHER && rank % 2)
		return (uint8_t *)oriel_window_buffer(m->window[1]) + 4096;
	return oriel_window_buffer(m->window[0]);
}

static inline uint8_t *receiver(const struct memory *m, uint8_t *send, uint64_t block,
				enum place place)
{
	switch (place) {
	case ON_START:
		return send;
	case ON_OWN:
		return send + (uint64_t)m->env->rank * block;
	case IN_WINDOW: /* behind the input, if the input lies there too */
		return (uint8_t *)oriel_window_buffer(m->window[0]) + WINDOW_BYTES / 2 + 1;
	default:
		return m->result + 3;
	}
}

/* ---- one call, of which every element is checked --------------------------------------------- */

struct kind {
	int type, op;
	uint64_t count;
};

static inline uint64_t block_of(const struct kind *k)
{
	return k->count * model_bytes(k->type);
}

static inline void fill(const struct memory *m, const struct kind *k, uint8_t *send)
{
	uint64_t elements = k->count * (uint64_t)m->env->nranks;

	for (uint64_t i = 0; i < elements; i++)
		model_element(k->type, m->seed, m->env->rank, i, send + i * model_bytes(k->type));
}

/* Elements of the input that are no result must stay. */
static inline uint64_t count_changed(const struct memory *m, const struct kind *k,
				     const uint8_t *send, const uint8_t *recv)
{
	uint64_t elements = k->count * (uint64_t)m->env->nranks, changed = 0;
	uint32_t elem = model_bytes(k->type);
	uint8_t want[8];

	for (uint64_t i = 0; i < elements; i++) {
		const uint8_t *at = send + i * elem;

		if (at >= recv && at < recv + block_of(k))
			continue;
		model_element(k->type, m->seed, m->env->rank, i, want);
		changed += memcmp(at, want, elem) != 0;
	}
	return changed;
}

static inline uint64_t count_wrong(const struct memory *m, const struct kind *k,
				   const uint8_t *recv)
{
	uint64_t first = (uint64_t)m->env->rank * k->count, wrong = 0;
	uint32_t elem = model_bytes(k->type);
	uint8_t want[8];

	for (uint64_t i = 0; i < k->count; i++) {
		model_result(k->type, k->op, m->seed, m->env->nranks, first + i, want);
		wrong += memcmp(recv + i * elem, want, elem) != 0;
	}
	return wrong;
}

static inline void scatter(struct memory *m, const struct kind *k, uint8_t *send, enum place place)
{
	uint8_t *recv = receiver(m, send, block_of(k), place);
	uint64_t wrong, changed;

	if (place >= IN_WINDOW)
		memset(recv, BED_POISON, block_of(k) + 1);
	fill(m, k, send);
	CHECK_EQ(oriel_reducescatter(m->env->comm, send, recv, k->count, k->type, k->op, NULL), 0);
	wrong = count_wrong(m, k, recv);
	changed = count_changed(m, k, send, recv);
	if (wrong || changed)
		check_fail(__FILE__, __LINE__,
			   "rank %d of %d, type %d op %d, %" PRIu64 " elements, place %d: %" PRIu64
			   " wrong, %" PRIu64 " changed in the input",
			   m->env->rank, m->env->nranks, k->type, k->op, k->count, (int)place,
			   wrong, changed);
	if (place >= IN_WINDOW)
		CHECK_EQ(recv[block_of(k)], BED_POISON);
	m->seed = model_mix(m->seed);
}

#endif
