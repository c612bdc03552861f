/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/lines_kernel.h - the kernel of lines.c: each block opens lines, makes their calls with
 * other data each time, and checks every byte that comes.
 */
#ifndef ORIEL_TESTS_COLL_LINES_KERNEL_H
#define ORIEL_TESTS_COLL_LINES_KERNEL_H

#include <oriel/device/coll.h>

#include "reduce_bed.h"

/* A block's memory: what it found wrong, data to send, data that came. */
struct args {
	struct oriel_team_dev team;
	struct oriel_window_dev win; /* `into` is not 0: data is received there */
	uint64_t into;               /* bytes of the window for each block */
	uint8_t *memory;
	uint64_t block_bytes, send_off, recv_off;
	uint64_t count; /* bytes of a rank's block; all-reduce: 32-bit integers */
	uint32_t timeout_ms;
	int32_t kind, parts, calls, lines, between, first_part;
};

/* What rank `from` sends to `to` in a call: another byte for each call, place and pair. */
ORIEL_DEV uint8_t byte_of(int from, int to, uint64_t i, int call)
{
	return (uint8_t)(i * 7u + i / 251u + (uint32_t)call * 13u + (uint32_t)from * 31u +
			 (uint32_t)to * 101u);
}

ORIEL_DEV uint32_t int_of(int from, uint64_t i, int call)
{
	return (uint32_t)i * 2654435761u + (uint32_t)call * 97u + (uint32_t)from * 12345u;
}

ORIEL_DEV void fill_send(const struct args *a, struct oriel_group g, uint8_t *send, int call)
{
	int n = a->team.win.comm.nranks, me = a->team.win.comm.rank, to;
	uint64_t i;

	if (a->kind == ORI_COLL_ALLREDUCE) {
		for (i = g.thread; i < a->count; i += g.size) {
			uint32_t v = int_of(me, i, call);

			memcpy(send + 4 * i, &v, sizeof(v));
		}
		return;
	}
	for (to = 0; to < (a->kind == ORI_COLL_ALLTOALL ? n : 1); to++)
		for (i = g.thread; i < a->count; i += g.size)
			send[(uint64_t)(uint32_t)to * a->count + i] = byte_of(me, to, i, call);
}

/* How many bytes of the call are wrong, among those that this thread looks at. */
ORIEL_DEV uint64_t count_wrong(const struct args *a, struct oriel_group g, const uint8_t *recv,
			       int part, int call)
{
	int n = a->team.win.comm.nranks, me = a->team.win.comm.rank, r;
	int to = a->kind == ORI_COLL_ALLTOALL ? me : 0;
	uint64_t i, wrong = 0;

	if (a->kind == ORI_COLL_ALLREDUCE) {
		for (i = g.thread; i < a->count; i += g.size) {
			uint32_t sum = 0, v;

			for (r = 0; r < n; r++)
				sum += int_of(r, i, call);
			memcpy(&v, recv + 4 * i, sizeof(v));
			wrong += v != sum;
		}
		return wrong;
	}
	for (r = 0; r < n; r++)
		for (i = g.thread; (me + r) % a->parts == part && i < a->count; i += g.size)
			wrong += recv[(uint64_t)(uint32_t)r * a->count + i] !=
				 byte_of(r, to, i, call);
	return wrong;
}

ORIEL_DEV int open_line(const struct args *a, struct oriel_group g, int part,
			struct oriel_coll_line *line)
{
	if (a->kind == ORI_COLL_ALLREDUCE)
		return oriel_coll_open_allreduce(line, &a->team, g, (int)g.block, a->count,
						 ORIEL_TYPE_UINT32, ORIEL_REDUCE_SUM);
	if (a->kind == ORI_COLL_ALLTOALL)
		return oriel_coll_open_alltoall(line, &a->team, g, (int)g.block, a->count, part,
						a->parts);
	return oriel_coll_open_allgather(line, &a->team, g, (int)g.block, a->count, part, a->parts);
}

/* Where a block receives in the window: not at its beginning, and at any byte. */
ORIEL_DEV uint64_t into_off(const struct args *a, struct oriel_group g)
{
	return 64 + g.block * a->into + a->recv_off % 8;
}

/* The calls of a line, with a check after each. */
ORIEL_DEV int use_line(const struct args *a, struct oriel_group g, struct oriel_coll_line *line,
		       int part, uint64_t *wrong)
{
	uint8_t *mine = a->memory + g.block * a->block_bytes, *recv = mine + a->recv_off;
	int err = 0, i;

	if (a->into) {
		recv = a->win.buffer + into_off(a, g);
		err = oriel_coll_into(line, g, &a->win, 64);
		if (!err) /* the last place counts */
			err = oriel_coll_into(line, g, &a->win, into_off(a, g));
		if (!err && oriel_coll_again(line, g, mine, mine) != ORIEL_EINVAL)
			*wrong += 1; /* another place than the one that was named */
	}

	for (i = 0; i < a->calls && !err; i++) {
		/* every other call in its own place */
		uint8_t *to = a->kind == ORI_COLL_ALLREDUCE && i % 2 ? mine + a->send_off : recv;
		uint8_t *send = mine + a->send_off;

		if (a->kind == ORI_COLL_ALLGATHER && i % 2)
			send = recv + (uint64_t)(uint32_t)a->team.win.comm.rank * a->count;
		fill_send(a, g, send, i);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_coll_again(line, g, send, a->into && i % 3 ? NULL : to);
		if (!err)
			*wrong += count_wrong(a, g, to, part, i);
		if (!err)
			err = oriel_group_sync(g);
	}
	return err;
}

/* An ordinary call on the channel finds its rounds where the line has left them. */
ORIEL_DEV int call_between(const struct args *a, struct oriel_group g, uint64_t *wrong)
{
	uint64_t *word = (uint64_t *)(void *)(a->memory + g.block * a->block_bytes) + 1;
	int err;

	if (oriel_group_is_leader(g))
		*word = (uint64_t)(uint32_t)a->team.win.comm.rank + 1;
	err = oriel_coll_allreduce(&a->team, g, (int)g.block, word, word, 1, ORIEL_TYPE_UINT64,
				   ORIEL_REDUCE_MAX);
	*wrong += !err && *word != (uint64_t)(uint32_t)a->team.win.comm.nranks;
	return err ? err : oriel_group_sync(g);
}

/* Each block is a part, with its own channel and memory. */
ORIEL_KERNEL(line_kernel, struct args)
{
	struct oriel_group g = oriel_group_within(oriel_group_block(), a->timeout_ms);
	uint8_t *mine = a->memory + g.block * a->block_bytes;
	int part = a->first_part + (int)g.block, err = 0, closed, i;
	struct oriel_coll_line line;
	uint64_t wrong = 0;

	for (i = 0; i < a->lines && !err; i++) {
		err = open_line(a, g, part, &line);
		if (!err)
			err = use_line(a, g, &line, part, &wrong);
		closed = oriel_coll_close(&line, g);
		if (!err)
			err = closed;
		/* a line that was closed is of no use, and does no harm */
		if (!err && (oriel_coll_again(&line, g, mine, mine) != ORIEL_EINVAL ||
			     oriel_coll_close(&line, g) != ORIEL_EINVAL))
			wrong++;
		if (!err && a->between)
			err = call_between(a, g, &wrong);
	}
	if (wrong)
		(void)ori_fetch_add_relaxed_dev((uint64_t *)(void *)mine, wrong);
	return err;
}

#endif
