/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sources.c - comm/sources.c and registrations.c on the CPU: sources are counted and
 * released, and never mistaken for older memory at the same address.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"
#include "comm/comm.h"
#include "util/util.h"

#define BYTES 65536u
#define MANY 300000
#define QUICK_NS (60 * ORI_NS_PER_S) /* a list of them took more than 200 s */

static struct oriel_window *make_window(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;

	o.bytes = BYTES;
	CHECK_EQ(oriel_window_create(env->comm, &o, &w), 0);
	return w;
}

static void with_queued_ranks(rank_fn *fn)
{
	struct ranks_options o = { .nranks = 2, .topology = "2x1" };

	ranks_run(&o, fn, NULL);
}

/* ---- memory that goes and comes back --------------------------------------------------------- */

static void map_twice(struct rank_env *env)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, peer = !env->rank,
	    protection = PROT_READ | PROT_WRITE;
	struct oriel_window *w = make_window(env);
	unsigned char *memory = mmap(NULL, BYTES, protection, flags, -1, 0);
	unsigned char *got = oriel_window_buffer(w);
	struct oriel_source s[2];

	for (int round = 0; round < 2; round++) {
		if (round) {
			munmap(memory, BYTES);
			REQUIRE(mmap(memory, BYTES, protection, flags | MAP_FIXED, -1, 0) ==
				memory);
		}
		memset(memory, round + 1 + 10 * env->rank, BYTES);
		REQUIRE_OK(oriel_window_source(w, memory, BYTES, &s[round]));
		REQUIRE_OK(oriel_window_put_signal(w, peer, 0, &s[round], 0, BYTES, 0, ORIEL_ADD, 1,
						   NULL));
		REQUIRE_OK(
			oriel_window_wait_signal(w, peer, 0, ORIEL_GE, (uint64_t)round + 1, NULL));
		CHECK_EQ(got[0], round + 1 + 10 * peer);
		CHECK(!memcmp(got, got + 1, BYTES - 1));
		REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	}
	/* Not the registration of pages that are gone, which a NIC might have pinned. */
	CHECK(s[0].key[0] != s[1].key[0]);
	CHECK_EQ(oriel_window_source_release(w, &s[0]), 0);
	CHECK_EQ(oriel_window_source_release(w, &s[1]), 0);
	CHECK(!env->comm->sources);
	REQUIRE_OK(oriel_window_destroy(w));
	munmap(memory, BYTES);
}

TEST(memory_mapped_again_is_registered_anew)
{
	with_queued_ranks(map_twice);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void count(struct rank_env *env)
{
	struct oriel_window *w = make_window(env), *other = make_window(env);
	struct oriel_source a, b, c, copy;
	void *memory = NULL;

	REQUIRE_OK(oriel_alloc(env->comm, BYTES, &memory));
	REQUIRE_OK(oriel_window_source(w, memory, BYTES, &a));
	REQUIRE_OK(oriel_window_source(w, memory, BYTES, &b));
	REQUIRE_OK(oriel_window_source(other, memory, BYTES, &c));
	CHECK_EQ(a.key[0], b.key[0]);
	CHECK(a.key[0] != c.key[0]);
	copy = c;
	CHECK_EQ(oriel_window_source_release(w, &c), ORIEL_EINVAL); /* the other window's */
	CHECK_EQ(oriel_window_source_release(w, &a), 0);
	/* one reference is left */
	REQUIRE_OK(oriel_window_put(w, !env->rank, 0, &b, 0, BYTES, NULL));
	CHECK_EQ(oriel_window_source_release(w, &b), 0);
	CHECK(b.bytes == 0 && b.key[0] == 0);
	CHECK_EQ(oriel_window_source_release(w, &b), 0); /* cleared */
	CHECK_EQ(oriel_window_source_release(w, NULL), 0);
	CHECK_EQ(oriel_window_source_release(NULL, &c), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_source_release(other, &c), 0);
	CHECK_EQ(oriel_window_source_release(other, &copy), ORIEL_EINVAL); /* given back before */
	CHECK(!env->comm->sources);
	REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	REQUIRE_OK(oriel_window_destroy(other));
	REQUIRE_OK(oriel_window_destroy(w));
	REQUIRE_OK(oriel_free(env->comm, memory));
}

TEST(every_source_is_given_back_once)
{
	with_queued_ranks(count);
}

static void end_with_owner(struct rank_env *env)
{
	struct oriel_window *w = make_window(env);
	struct oriel_source own, again, stack, ours;
	uint64_t word = 0;
	void *memory = NULL;

	REQUIRE_OK(oriel_alloc(env->comm, BYTES, &memory));
	REQUIRE_OK(oriel_window_source(w, oriel_window_buffer(w), BYTES, &own));
	REQUIRE_OK(oriel_window_source(w, oriel_window_buffer(w), BYTES, &again));
	CHECK_EQ(own.key[0], again.key[0]);
	REQUIRE_OK(oriel_window_source(w, &word, sizeof(word), &stack));
	REQUIRE_OK(oriel_window_source(w, (char *)memory + 8, 8, &ours));
	REQUIRE_OK(oriel_free(env->comm, memory));
	CHECK_EQ(oriel_window_source_release(w, &ours), ORIEL_EINVAL); /* went with its memory */
	REQUIRE_OK(oriel_window_destroy(w));
	CHECK(!env->comm->sources);
	CHECK(!env->comm->retired);
}

TEST(sources_go_with_their_window_and_their_memory)
{
	with_queued_ranks(end_with_owner);
}

/* ---- many ------------------------------------------------------------------------------------ */

/*
 * One byte each of `memory`, or all of them the first byte: the library cannot know whether it is
 * the same.
 */
static void take_and_give(struct oriel_window *w, char *memory, struct oriel_source *s, int apart)
{
	for (int i = 0; i < MANY; i++)
		REQUIRE_OK(oriel_window_source(w, memory + i * apart, 1, &s[i]));
	for (int i = 0; i < MANY; i++)
		REQUIRE_OK(oriel_window_source_release(w, &s[i]));
}

static void many(struct rank_env *env)
{
	struct oriel_window *w = make_window(env);
	struct oriel_source *s = calloc(MANY, sizeof(*s));
	char *memory = calloc(MANY, 1);
	uint64_t start = ori_now_ns();

	REQUIRE(s && memory);
	if (!env->rank) {
		take_and_give(w, memory, s, 1);
		take_and_give(w, memory, s, 0);
		CHECK(ori_now_ns() - start < QUICK_NS);
		CHECK(!env->comm->sources);
		REQUIRE_OK(oriel_window_put(w, 1, 0, &s[0], 0, 0, NULL));
	}
	REQUIRE_OK(oriel_window_destroy(w));
	free(s);
	free(memory);
}

TEST(many_sources_are_quick)
{
	with_queued_ranks(many);
}
