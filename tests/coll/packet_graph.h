/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/packet_graph.h - a kernel that sends packets to a neighbour and takes those of the
 * other one, by single calls or in lines.  It checks every byte.
 *
 * Counts of packets are in the window.  If a kernel took them from its arguments, or a line did not
 * store them, the second replay of a graph would go on at the wrong place.
 */
#ifndef ORI_TEST_PACKET_GRAPH_H
#define ORI_TEST_PACKET_GRAPH_H

#include <oriel/device.h>

#include "../ranks.h"

#define PACKETS 9 /* of a launch */
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

#define KINDS 4 /* calls and lines in slots, calls and lines in cells */

struct job {
	struct rank_env *env;
	struct oriel_window *window;
	struct args args[KINDS];
};

static inline int launch(struct job *j, int which, int nthreads, void *stream)
{
	const struct oriel_kernel *kernel = &exchange_kernel;

	if (fake_cuda_kernel)
		kernel = fake_cuda_kernel(kernel);
	return oriel_launch(j->env->comm, kernel, 1, nthreads, &j->args[which],
			    sizeof(j->args[which]), stream);
}

static inline void open_job(struct job *j, struct rank_env *env)
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
	for (int i = 0; i < KINDS; i++) {
		REQUIRE_OK(oriel_alloc(env->comm, 3 * PLACE, &memory));
		REQUIRE_OK(oriel_copy(env->comm, memory, zero, sizeof(zero)));
		j->args[i].win = win;
		j->args[i].win.box_marked = (uint32_t)i / 2;
		j->args[i].memory = (uint64_t *)memory;
		j->args[i].box = i; /* memory of one form means nothing to the other */
		j->args[i].lines = i % 2;
	}
}

/* Nothing is wrong, and so many launches have run. */
static inline void check_all(struct job *j, uint64_t launches)
{
	uint64_t words[2];

	for (int i = 0; i < KINDS; i++) {
		REQUIRE_OK(oriel_copy(j->env->comm, words, j->args[i].memory, sizeof(words)));
		CHECK_EQ(words[0], 0);
		CHECK_EQ(words[1], launches * PACKETS);
	}
}

static inline void close_job(struct job *j)
{
	CHECK_EQ(oriel_window_destroy(j->window), 0);
	for (int i = 0; i < KINDS; i++)
		CHECK_EQ(oriel_free(j->env->comm, j->args[i].memory), 0);
}

#endif
