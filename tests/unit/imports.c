/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/imports.c - comm/imports.c and gone.c: an engine unmaps the memory of a peer when the
 * peer frees it.
 *
 * Ranks are processes, because ranks of one process have nothing to map.
 */
#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"
#include "comm/imports.h"

#define BYTES (1u << 20)
#define ROUNDS 70 /* more than names of gone memory are kept */

static int mapped(struct oriel_comm *c)
{
	int n = 0;

	pthread_mutex_lock(&c->lock);
	for (struct ori_import *i = c->imports; i; i = i->next)
		n += i->kept;
	pthread_mutex_unlock(&c->lock);
	return n;
}

static struct oriel_window *make_window(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;

	o.bytes = BYTES;
	CHECK_EQ(oriel_window_create(env->comm, &o, &w), 0);
	return w;
}

/* Rank 0 puts `memory`, full of the value, into rank 1's window; rank 1 looks at the bytes. */
static void send(struct rank_env *env, struct oriel_window *w, void *memory, int value)
{
	const unsigned char *got = oriel_window_buffer(w);
	struct oriel_source s;

	if (!env->rank) {
		memset(memory, value, BYTES);
		REQUIRE_OK(oriel_window_source(w, memory, BYTES, &s));
		REQUIRE_OK(oriel_window_put(w, 1, 0, &s, 0, BYTES, NULL));
		REQUIRE_OK(oriel_window_source_release(w, &s));
	}
	REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	if (env->rank) {
		CHECK_EQ(got[0], (unsigned char)value);
		CHECK(!memcmp(got, got + 1, BYTES - 1));
		CHECK(mapped(env->comm) <= 2);
	}
	REQUIRE_OK(oriel_window_barrier(w, 1, NULL));
}

static void windows(struct rank_env *env)
{
	for (int k = 0; k < 8; k++) {
		struct oriel_window *w = make_window(env);

		send(env, w, oriel_window_buffer(w), k);
		if (env->rank)
			CHECK_EQ(mapped(env->comm), 1); /* else this tests nothing */
		REQUIRE_OK(oriel_window_destroy(w));
		CHECK_EQ(mapped(env->comm), 0);
	}
}

/* Memory of one rank alone: it tells nobody in a call that all make. */
static void allocations(struct rank_env *env)
{
	struct oriel_window *w = make_window(env);

	for (int k = 0; k < ROUNDS; k++) {
		void *memory = NULL;

		if (!env->rank)
			REQUIRE_OK(oriel_alloc(env->comm, BYTES, &memory));
		send(env, w, memory, k);
		if (!env->rank)
			REQUIRE_OK(oriel_free(env->comm, memory));
	}
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	CHECK_EQ(mapped(env->comm), 0);
	REQUIRE_OK(oriel_window_destroy(w));
}

/* More go than are told of by name while the peer does not look. */
static void behind(struct rank_env *env)
{
	struct oriel_window *w = make_window(env);
	void *memory[ROUNDS] = { NULL };

	for (int k = 0; k < ROUNDS && !env->rank; k++) {
		struct oriel_source s;

		REQUIRE_OK(oriel_alloc(env->comm, BYTES, &memory[k]));
		memset(memory[k], k, BYTES);
		REQUIRE_OK(oriel_window_source(w, memory[k], BYTES, &s));
		REQUIRE_OK(oriel_window_put(w, 1, 0, &s, 0, BYTES, NULL));
	}
	REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	if (env->rank)
		CHECK_EQ(mapped(env->comm), ROUNDS);
	for (int k = 0; k < ROUNDS && !env->rank; k++)
		REQUIRE_OK(oriel_free(env->comm, memory[k]));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	CHECK_EQ(mapped(env->comm), 0);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	send(env, w, oriel_window_buffer(w), 5);
	REQUIRE_OK(oriel_window_destroy(w));
}

/* Gets read the peer's memory by name, too. */
static void gets(struct rank_env *env)
{
	struct oriel_window *w = make_window(env);
	void *memory = NULL;
	struct oriel_source s;

	REQUIRE_OK(oriel_alloc(env->comm, BYTES, &memory));
	memset(oriel_window_buffer(w), 3 + env->rank, BYTES);
	REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	REQUIRE_OK(oriel_window_source(w, memory, BYTES, &s));
	REQUIRE_OK(oriel_window_get(w, !env->rank, 0, &s, 0, BYTES, NULL));
	CHECK_EQ(((unsigned char *)memory)[BYTES - 1], 3 + !env->rank);
	CHECK_EQ(mapped(env->comm), 1);
	REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	REQUIRE_OK(oriel_window_destroy(w));
	CHECK_EQ(mapped(env->comm), 0);
	REQUIRE_OK(oriel_free(env->comm, memory));
}

static void with_processes(rank_fn *fn)
{
	struct ranks_options o = { .nranks = 2, .processes = 1, .topology = "2x1" };

	ranks_run(&o, fn, NULL);
}

TEST(windows_are_mapped_no_longer_than_they_live)
{
	with_processes(windows);
}

TEST(memory_that_one_rank_frees_is_let_go)
{
	with_processes(allocations);
}

TEST(a_rank_that_is_far_behind_lets_all_go)
{
	with_processes(behind);
}

TEST(what_gets_read_is_let_go)
{
	with_processes(gets);
}
