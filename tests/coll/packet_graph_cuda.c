/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/packet_graph_cuda.c - kernels that send packets, by single calls and in lines,
 * captured into a graph and replayed, with plain launches between the replays: CUDA ranks on the
 * fake driver.
 *
 * Counts of packets are in the window.  A kernel that takes them from its arguments, or a line that
 * does not store them, would go on at the wrong place in the second replay.
 */
#include <oriel/device.h>

#include "cuda_stream.h"
#include "util/util.h"

#define REPLAYS 12 /* several laps of the boxes */
#define PACKETS 9  /* of a launch */
#define BOX_BYTES 600
#define BOXES 2 /* of each form: of slots, and of marked cells */
#define PLACE 1024

const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

/* The memory of a rank: bytes that were wrong, packets that were sent before, then two places. */
struct args {
	struct oriel_window_dev win;
	uint64_t *memory;
	int32_t box, lines;
};

ORIEL_DEV uint64_t bytes_of(uint64_t number)
{
	const uint64_t sizes[8] = { 8, 0, 1, 64, 9, BOX_BYTES, 512, BOX_BYTES - 1 };

	return sizes[number % 8];
}

/* What rank `from` sends as its packet `number`. */
ORIEL_DEV uint8_t byte_of(int from, uint64_t number, uint64_t i)
{
	return (uint8_t)(i * 7u + i / 251u + number * 13u + (uint32_t)from * 31u + 1u);
}

/* One packet to the right neighbour, and one from the left. */
ORIEL_DEV int send_one(const struct args *a, struct oriel_group g, struct oriel_line *out,
		       uint64_t bytes)
{
	const struct oriel_window_dev *w = &a->win;
	uint8_t *from = (uint8_t *)(void *)a->memory + PLACE;

	if (a->lines)
		return oriel_line_send(out, g, from, bytes);
	return oriel_packet_send(w, g, out->peer, a->box, from, bytes);
}

ORIEL_DEV int take_one(const struct args *a, struct oriel_group g, struct oriel_line *in,
		       uint64_t bytes)
{
	const struct oriel_window_dev *w = &a->win;
	uint8_t *to = (uint8_t *)(void *)a->memory + 2 * PLACE;

	if (a->lines)
		return oriel_line_recv(in, g, to, bytes);
	return oriel_packet_recv(w, g, in->peer, a->box, to, bytes);
}

ORIEL_DEV int exchange(const struct args *a, struct oriel_group g, struct oriel_line *out,
		       struct oriel_line *in, uint64_t number)
{
	uint8_t *from = (uint8_t *)(void *)a->memory + PLACE, *to = from + PLACE;
	uint64_t bytes = bytes_of(number), i, wrong = 0;
	int err;

	for (i = g.thread; i < bytes; i += g.size)
		from[i] = byte_of(oriel_rank(&a->win), number, i);
	err = oriel_group_sync(g);
	if (!err)
		err = send_one(a, g, out, bytes);
	if (!err)
		err = take_one(a, g, in, bytes);
	for (i = g.thread; i < bytes && !err; i += g.size)
		wrong += to[i] != byte_of(in->peer, number, i);
	if (wrong)
		(void)ori_fetch_add_relaxed_dev(a->memory, wrong);
	return err ? err : oriel_group_sync(g);
}

ORIEL_KERNEL(exchange_kernel, struct args)
{
	struct oriel_group g = oriel_group_block();
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), right = (oriel_rank(w) + 1) % n,
	    left = (oriel_rank(w) + n - 1) % n;
	uint64_t first = a->memory[1];
	struct oriel_line out, in;
	int err, last, i;

	err = oriel_line_open(&out, w, g, right, a->box);
	last = oriel_line_open(&in, w, g, left, a->box);
	if (!a->lines) { /* single calls: a line that is open would lose them */
		(void)oriel_line_close(&out, g);
		(void)oriel_line_close(&in, g);
	}
	err = err ? err : last;
	for (i = 0; i < PACKETS && !err; i++)
		err = exchange(a, g, &out, &in, first + (uint64_t)i);
	if (a->lines) {
		last = oriel_line_close(&out, g);
		err = err ? err : last;
		last = oriel_line_close(&in, g);
		err = err ? err : last;
	}
	if (!err && oriel_group_is_leader(g))
		a->memory[1] = first + PACKETS;
	return err;
}

/* ---- the host -------------------------------------------------------------------------------- */

struct job {
	struct rank_env *env;
	struct oriel_window *window;
	void *stream, *exec;
	struct args args[4]; /* calls and lines in slots, calls and lines in cells */
};

static int launch(struct job *j, int which, int nthreads, void *stream)
{
	return oriel_launch(j->env->comm, fake_cuda_kernel(&exchange_kernel), 1, nthreads,
			    &j->args[which], sizeof(j->args[which]), stream);
}

static void open_job(struct job *j, struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window_dev win;
	uint64_t zero[2] = { 0, 0 };
	void *memory;

	memset(j, 0, sizeof(*j));
	j->env = env;
	o.bytes = 4096;
	o.boxes = 2 * BOXES;
	o.box_bytes = BOX_BYTES;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &j->window));
	REQUIRE_OK(oriel_window_device(j->window, &win));
	for (int i = 0; i < 4; i++) {
		REQUIRE_OK(oriel_alloc(env->comm, 3 * PLACE, &memory));
		REQUIRE_OK(oriel_copy(env->comm, memory, zero, sizeof(zero)));
		j->args[i].win = win;
		j->args[i].win.box_marked = (uint32_t)i / 2;
		j->args[i].memory = memory;
		j->args[i].box = i; /* memory of one form means nothing to the other */
		j->args[i].lines = i % 2;
	}
	REQUIRE_OK(make_stream(env, &j->stream));
}

static void capture(struct job *j)
{
	void *graph = NULL;

	REQUIRE_OK(cuStreamBeginCapture_v2(j->stream, 1));
	for (int i = 0; i < 4; i++)
		REQUIRE_OK(launch(j, i, 1 + i % 3, j->stream));
	REQUIRE_OK(cuStreamEndCapture(j->stream, &graph));
	REQUIRE_OK(cuGraphInstantiateWithFlags(&j->exec, graph, 0));
	REQUIRE_OK(cuGraphDestroy(graph));
}

/* Nothing is wrong, and so many launches have run. */
static void check_all(struct job *j, uint64_t launches)
{
	uint64_t words[2];

	for (int i = 0; i < 4; i++) {
		REQUIRE_OK(oriel_copy(j->env->comm, words, j->args[i].memory, sizeof(words)));
		CHECK_EQ(words[0], 0);
		CHECK_EQ(words[1], launches * PACKETS);
	}
}

static void graph_rank(struct rank_env *env)
{
	uint64_t launches = 0;
	struct job j;

	open_job(&j, env);
	capture(&j);
	check_all(&j, 0);
	for (int i = 0; i < REPLAYS && !check_failures; i++) {
		REQUIRE_OK(cuGraphLaunch(j.exec, j.stream));
		if (i % 2) /* a second one at once */
			REQUIRE_OK(cuGraphLaunch(j.exec, j.stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, j.stream));
		for (int k = 0; k < 4; k++)
			REQUIRE_OK(launch(&j, k, 1 + (i + k) % 4, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		launches += 2 + (uint64_t)i % 2;
		check_all(&j, launches);
	}
	CHECK_EQ(cuGraphExecDestroy(j.exec), 0);
	CHECK_EQ(cuStreamDestroy_v2(j.stream), 0);
	CHECK_EQ(oriel_window_destroy(j.window), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(oriel_free(env->comm, j.args[i].memory), 0);
}

TEST(captured_packets_are_replayed)
{
	struct ranks_options o = { .processes = 1, .deadline_s = 90, .timeout_s = 60 };
	static const struct {
		int nranks;
		const char *topology;
	} rows[] = { { 3, NULL }, { 4, "2x2" } };

	for (size_t i = 0; i < ORI_COUNT(rows) && !check_failures; i++) {
		o.nranks = rows[i].nranks;
		o.topology = rows[i].topology;
		ranks_run(&o, graph_rank, NULL);
	}
}
