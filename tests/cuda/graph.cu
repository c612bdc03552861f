/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/graph.cu - window operations in CUDA graphs: captured once, replayed 1,000 times,
 * every replay checked on the device.
 *
 * One graph holds a kernel that puts, signals, waits and passes a barrier.  Another holds the same
 * as host-issued operations on the capturing stream.  Both wait for "one more" signal and move the
 * start by one, so the captured arguments are right in every replay.  A third exchanges packets,
 * whose counts are in device memory.
 */
#include "gpu.h"

#define REPLAYS 1000
#define BYTES 1032

struct graph_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint8_t *local;
	/* [0] replays begun, [1] replays checked, [2] wrong bytes, [3] failed calls */
	uint64_t *words;
	int32_t left, right;
};

ORIEL_DEV uint8_t graph_byte(uint64_t replay, int source, uint64_t i)
{
	return (uint8_t)(replay * 13 + (replay >> 8) + (uint64_t)source * 101 + i * 7);
}

/* The next replay's data into local memory. */
ORIEL_DEV int fill_next(const struct graph_args *a, struct oriel_group g)
{
	uint64_t k, replay = a->words[0] + 1;
	int err = oriel_group_sync(g);

	for (k = g.thread; k < BYTES; k += g.size)
		a->local[k] = graph_byte(replay, oriel_rank(&a->win), k);
	if (oriel_group_is_leader(g))
		a->words[0] = replay;
	return err ? err : oriel_group_sync(g);
}

ORIEL_DEV int check_this(const struct graph_args *a, struct oriel_group g)
{
	uint64_t k, wrong = 0, replay = a->words[0];

	for (k = g.thread; k < BYTES; k += g.size)
		wrong += a->win.buffer[k] != graph_byte(replay, a->left, k);
	if (wrong)
		(void)ori_fetch_add_acq_rel_sys(a->words + 2, wrong);
	if (oriel_group_is_leader(g))
		a->words[1]++;
	return oriel_group_sync(g);
}

ORIEL_DEV void note_failure(const struct graph_args *a, struct oriel_group g, int err)
{
	if (err && oriel_group_is_leader(g))
		(void)ori_fetch_add_acq_rel_sys(a->words + 3, 1);
}

/* All of it in one kernel. */
ORIEL_KERNEL(ring_kernel, struct graph_args)
{
	struct oriel_group g = oriel_group_block();
	const struct oriel_window_dev *w = &a->win;
	int err = fill_next(a, g);

	if (!err)
		err = oriel_put_signal(w, g, a->right, 0, &a->src, 0, BYTES, 0, ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal_from(w, g, a->left, 0, ORIEL_GE, 1);
	if (!err)
		err = oriel_signal_advance_from(w, g, a->left, 0, 1);
	if (!err)
		err = check_this(a, g);
	if (!err)
		err = oriel_barrier(w, g, 0);
	note_failure(a, g, err);
	return err;
}

/* Two packets a replay, so that replays meet every place of the box. */
ORIEL_KERNEL(packet_kernel, struct graph_args)
{
	struct oriel_group g = oriel_group_block();
	const struct oriel_window_dev *w = &a->win;
	int err = fill_next(a, g);

	if (!err)
		err = oriel_packet_send(w, g, a->right, 0, a->local, BYTES / 2);
	if (!err)
		err = oriel_packet_send(w, g, a->right, 0, a->local + BYTES / 2, BYTES - BYTES / 2);
	if (!err)
		err = oriel_packet_recv(w, g, a->left, 0, a->win.buffer, BYTES / 2);
	if (!err)
		err = oriel_packet_recv(w, g, a->left, 0, a->win.buffer + BYTES / 2,
					BYTES - BYTES / 2);
	if (!err)
		err = check_this(a, g);
	note_failure(a, g, err);
	return err;
}

/* What surrounds the host-issued operations. */
ORIEL_KERNEL(before_kernel, struct graph_args)
{
	struct oriel_group g = oriel_group_block();

	int err = fill_next(a, g);

	note_failure(a, g, err);
	return err;
}

ORIEL_KERNEL(after_kernel, struct graph_args)
{
	struct oriel_group g = oriel_group_block();
	int err = oriel_signal_advance_from(&a->win, g, a->left, 0, 1);

	if (!err)
		err = check_this(a, g);
	note_failure(a, g, err);
	return err;
}

/* ---- capture and replay ---------------------------------------------------------------------- */

struct setup {
	struct rank_env *env;
	struct oriel_window *window;
	struct graph_args a;
	cudaStream_t stream;
};

static int capture_kernel(struct setup *s)
{
	return oriel_launch(s->env->comm, &ring_kernel, 1, 256, &s->a, sizeof(s->a), s->stream);
}

static int capture_packets(struct setup *s)
{
	return oriel_launch(s->env->comm, &packet_kernel, 1, 256, &s->a, sizeof(s->a), s->stream);
}

static int capture_host(struct setup *s)
{
	int err = oriel_launch(s->env->comm, &before_kernel, 1, 256, &s->a, sizeof(s->a),
			       s->stream);

	if (!err)
		err = oriel_window_put(s->window, s->a.right, 0, &s->a.src, 0, BYTES / 2,
				       s->stream);
	if (!err)
		err = oriel_window_put_signal(s->window, s->a.right, BYTES / 2, &s->a.src,
					      BYTES / 2, BYTES - BYTES / 2, 0, ORIEL_ADD, 1,
					      s->stream);
	if (!err)
		err = oriel_window_wait_signal(s->window, s->a.left, 0, ORIEL_GE, 1, s->stream);
	if (!err)
		err = oriel_launch(s->env->comm, &after_kernel, 1, 256, &s->a, sizeof(s->a),
				   s->stream);
	return err ? err : oriel_window_barrier(s->window, 1, s->stream);
}

/* Thread-local capture: other ranks of this process go on calling CUDA. */
static void capture_and_replay(struct setup *s, int (*fn)(struct setup *), const char *what)
{
	uint64_t words[4] = { 0 };
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	size_t nodes = 0;

	REQUIRE_OK(oriel_copy(s->env->comm, s->a.words, words, sizeof(words)));
	GPU_OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
	REQUIRE_OK(fn(s));
	GPU_OK(cudaStreamEndCapture(s->stream, &graph));
	GPU_OK(cudaGraphGetNodes(graph, NULL, &nodes));
	REQUIRE(nodes > 0);
	GPU_OK(gpu_graph_make(graph, s->stream, &exec));
	REQUIRE_OK(oriel_comm_barrier(s->env->comm, ORIEL_WORLD));
	for (int i = 0; i < REPLAYS; i++)
		GPU_OK(cudaGraphLaunch(exec, s->stream));
	REQUIRE_OK(oriel_comm_sync(s->env->comm, s->stream));
	REQUIRE_OK(oriel_copy(s->env->comm, words, s->a.words, sizeof(words)));
	CHECK_EQ(words[0], REPLAYS);
	CHECK_EQ(words[1], REPLAYS);
	CHECK_EQ(words[2], 0);
	CHECK_EQ(words[3], 0);
	CHECK_EQ(oriel_window_status(s->window), 0);
	if (s->env->rank == 0)
		printf("  %s: %llu of %d replays checked, %zu nodes\n", what,
		       (unsigned long long)words[1], REPLAYS, nodes);
	GPU_OK(cudaGraphExecDestroy(exec));
	GPU_OK(cudaGraphDestroy(graph));
	REQUIRE_OK(oriel_comm_barrier(s->env->comm, ORIEL_WORLD));
}

static void graphs(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct setup s;
	void *local, *words;

	memset(&s, 0, sizeof(s));
	s.env = env;
	o.bytes = 4096;
	o.boxes = 1;
	o.box_bytes = BYTES;
	REQUIRE_OK(oriel_alloc(env->comm, 4096, &local));
	REQUIRE_OK(oriel_alloc(env->comm, 4 * 8, &words));
	s.a.local = (uint8_t *)local;
	s.a.words = (uint64_t *)words;
	s.a.left = (env->rank + env->nranks - 1) % env->nranks;
	s.a.right = (env->rank + 1) % env->nranks;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &s.window));
	REQUIRE_OK(oriel_window_device(s.window, &s.a.win));
	REQUIRE_OK(oriel_window_source(s.window, local, 4096, &s.a.src));
	GPU_OK(cudaSetDevice(0));
	GPU_OK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
	capture_and_replay(&s, capture_kernel, "a kernel");
	capture_and_replay(&s, capture_host, "host-issued operations");
	capture_and_replay(&s, capture_packets, "a kernel with packets");
	GPU_OK(cudaStreamDestroy(s.stream));
	REQUIRE_OK(oriel_window_destroy(s.window));
	REQUIRE_OK(oriel_free(env->comm, local));
	REQUIRE_OK(oriel_free(env->comm, words));
}

TEST(graphs_of_2_processes)
{
	gpu_run(2, 1, NULL, graphs, NULL);
}

TEST(graphs_of_queued_processes)
{
	gpu_run(2, 1, "2x1", graphs, NULL);
}

TEST(graphs_of_2_threads)
{
	gpu_run(2, 0, NULL, graphs, NULL);
}

TEST(graphs_of_4_threads)
{
	gpu_run(4, 0, NULL, graphs, NULL);
}
