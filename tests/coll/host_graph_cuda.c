/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/host_graph_cuda.c - host-issued operations captured into a graph and replayed, on the
 * fake driver.  Nothing runs while they are captured, and every replay is one more of each.
 */
#include "cuda_stream.h"

#define REPLAYS 20
#define BYTES 256

struct bed {
	struct rank_env *env;
	struct oriel_window *window;
	struct oriel_source source;
	uint64_t *memory; /* the device's: source, then the old value of an atomic */
	void *stream, *graph, *exec;
};

static uint64_t *old_word(const struct bed *b)
{
	return b->memory + BYTES / 8;
}

static int bed_open(struct bed *b, struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	void *memory = NULL;
	int err;

	memset(b, 0, sizeof(*b));
	b->env = env;
	o.bytes = 4096;
	err = oriel_window_create(env->comm, &o, &b->window);
	if (!err)
		err = oriel_alloc(env->comm, BYTES + 8, &memory);
	b->memory = memory;
	if (!err)
		err = oriel_window_source(b->window, memory, BYTES, &b->source);
	return err ? err : make_stream(env, &b->stream);
}

/* A ring: one put, two atomics, one signal; then all of it is waited for and taken back. */
static int issue(struct bed *b)
{
	int right = (b->env->rank + 1) % b->env->nranks, n = b->env->nranks;
	int left = (b->env->rank + n - 1) % n;
	struct oriel_window *w = b->window;
	int err = oriel_window_put_counter(w, right, 0, &b->source, 0, BYTES, 0, b->stream);

	if (!err)
		err = oriel_window_put_signal_counter(w, right, BYTES, &b->source, 0, BYTES, 0,
						      ORIEL_ADD, 1, 0, b->stream);
	if (!err)
		err = oriel_window_fetch_add(w, right, 1024, 5, old_word(b), b->stream);
	if (!err)
		err = oriel_window_swap(w, right, 1032, 9, NULL, b->stream);
	if (!err)
		err = oriel_window_signal_all(w, 1, ORIEL_ADD, 1, b->stream);
	if (!err)
		err = oriel_window_wait_signal(w, left, 0, ORIEL_EQ, 1, b->stream);
	if (!err)
		err = oriel_window_signal_advance(w, left, 0, 1, b->stream);
	if (!err)
		err = oriel_window_wait_signal(w, -1, 1, ORIEL_GE, (uint64_t)n - 1, b->stream);
	if (!err)
		err = oriel_window_signal_advance(w, -1, 1, (uint64_t)n - 1, b->stream);
	if (!err)
		err = oriel_window_wait_counter(w, right, 0, ORIEL_EQ, 2, b->stream);
	if (!err)
		err = oriel_window_reset_counter(w, -1, 0, b->stream);
	if (!err)
		err = oriel_window_flush(w, -1, b->stream);
	return err ? err : oriel_window_barrier(w, 0, b->stream);
}

static void capture(struct bed *b)
{
	REQUIRE_OK(cuStreamBeginCapture_v2(b->stream, 1));
	REQUIRE_OK(issue(b));
	REQUIRE_OK(cuStreamEndCapture(b->stream, &b->graph));
	REQUIRE_OK(cuGraphInstantiateWithFlags(&b->exec, b->graph, 0));
}

static uint64_t device_word(struct bed *b, const void *from)
{
	uint64_t word = 0;

	CHECK_EQ(oriel_copy(b->env->comm, &word, from, sizeof(word)), 0);
	return word;
}

static void check_words(struct bed *b, uint64_t replays)
{
	const uint64_t *buffer = oriel_window_buffer(b->window);
	uint64_t value = UINT64_MAX;

	CHECK_EQ(device_word(b, buffer + 128), 5 * replays);
	CHECK_EQ(device_word(b, buffer + 129), replays ? 9 : 0);
	CHECK_EQ(device_word(b, buffer), replays);
	CHECK_EQ(device_word(b, buffer + BYTES / 8), replays);
	if (replays)
		CHECK_EQ(device_word(b, old_word(b)), 5 * (replays - 1));
	for (int id = 0; id < 2; id++) {
		CHECK_EQ(oriel_window_read_signal(b->window, -1, id, &value), 0);
		CHECK_EQ(value, 0);
	}
	CHECK_EQ(oriel_window_read_counter(b->window, -1, 0, &value), 0);
	CHECK_EQ(value, 0);
}

static void graph_rank(struct rank_env *env)
{
	struct bed b;

	REQUIRE_OK(bed_open(&b, env));
	capture(&b);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	check_words(&b, 0);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	for (uint64_t i = 1; i <= REPLAYS; i++) {
		REQUIRE_OK(oriel_copy(env->comm, b.memory, &i, sizeof(i)));
		REQUIRE_OK(cuGraphLaunch(b.exec, b.stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, b.stream));
		check_words(&b, i);
		CHECK_EQ(oriel_window_status(b.window), 0);
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	}
	CHECK_EQ(cuGraphExecDestroy(b.exec), 0);
	CHECK_EQ(cuGraphDestroy(b.graph), 0);
	CHECK_EQ(cuStreamDestroy_v2(b.stream), 0);
	REQUIRE_OK(oriel_window_destroy(b.window));
	REQUIRE_OK(oriel_free(env->comm, b.memory));
}

static void run(const char *topology)
{
	struct ranks_options o = {
		.nranks = 2, .deadline_s = 120, .timeout_s = 60, .topology = topology
	};

	ranks_run(&o, graph_rank, NULL);
}

TEST(replays_to_a_mapped_peer)
{
	run(NULL);
}

TEST(replays_to_a_queued_peer)
{
	run("2x1");
}
