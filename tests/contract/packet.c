/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/packet.c - contract of packets: any size and alignment, boxes that wrap, slow
 * ends, several boxes at once, deadlines, sizes that do not match.
 *
 * Every case runs in both forms of device/box.h on each device: in slots, then in marked cells.
 * The handle says which; each form has boxes of its own, because memory of one means nothing to the
 * other.  Packets of queued peers always use slots.
 */
#include "contract.h"

#define BOX_BYTES 1000 /* in most windows here */
#define PLACE (BOX_BYTES + 64)
#define BOXES 4 /* of each form */
#define FORMS 2
#define BOXED(bytes) c.window.boxes = BOXES * FORMS, c.window.box_bytes = (bytes)

/* Sizes at the edges of cells, lines and the box, and none at all. */
ORIEL_DEV uint64_t packet_bytes(int i, uint64_t most)
{
	const uint64_t sizes[16] = { 0,   1,   7,   8,   9,   15,        16,
				     17,  112, 113, 128, 504, BOX_BYTES, BOX_BYTES - 1,
				     333, 8 };

	return sizes[i % 16] < most ? sizes[i % 16] : most;
}

ORIEL_DEV void pause_for(int64_t rounds)
{
	int64_t i;

	for (i = 0; i < rounds; i++)
		ori_pause();
}

/* The arguments of a launch whose packets have this form. */
static struct contract_args args_of_form(struct contract_env *e, int form)
{
	struct contract_args a = contract_args(e);

	a.win.box_marked = (uint32_t)form;
	a.id = form * BOXES;
	return a;
}

/* ---- streams: one block sends, another receives ---------------------------------------------- */

/* Receives packet i, and counts bytes that are wrong in it or changed round it. */
ORIEL_DEV int take_packet(const struct contract_args *a, struct oriel_group g, uint8_t *place,
			  int box, int i, uint64_t bytes, uint64_t round, uint64_t *wrong)
{
	int left = contract_left(&a->win, 1 + box % BOXES), me = oriel_rank(&a->win), err;
	uint64_t skew = 16 + (uint64_t)(i % 9);

	contract_set(g, place, PLACE, CONTRACT_GUARD);
	err = oriel_group_sync(g);
	if (!err)
		err = oriel_packet_recv(&a->win, g, left, box, place + skew, bytes);
	if (err)
		return err;
	*wrong += contract_not(g, place, skew, CONTRACT_GUARD);
	*wrong += contract_wrong(g, place + skew, bytes, round, left, me);
	*wrong += contract_not(g, place + skew + bytes, PLACE - skew - bytes, CONTRACT_GUARD);
	return oriel_group_sync(g);
}

/*
 * Blocks in pairs: the even one sends into box id + block / 2 of a neighbour, the odd one receives.
 * bytes: the longest packet.  src_off, dst_off: pauses of the sender and the receiver.
 */
CONTRACT_KERNEL(stream_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int box = a->id + (int)g.block / 2, me = oriel_rank(w), err = 0, i;
	int right = contract_right(w, 1 + box % BOXES);
	uint8_t *mine = a->local + (uint64_t)g.block * PLACE;
	uint64_t wrong = 0, bytes, round;

	for (i = 0; i < a->rounds && !err; i++) {
		bytes = packet_bytes(i * (int)a->value, a->bytes);
		round = (uint64_t)(box * 1000 + i);
		if (g.block % 2) {
			pause_for((int64_t)a->dst_off);
			err = take_packet(a, g, mine, box, i, bytes, round, &wrong);
			continue;
		}
		pause_for((int64_t)a->src_off);
		contract_fill(g, mine + i % 9, bytes, round, me, right);
		err = oriel_group_sync(g);
		if (!err) /* when it returns, the source is written again */
			err = oriel_packet_send(w, g, right, box, mine + i % 9, bytes);
	}
	contract_report(a, g, err, wrong);
}

static void stream(struct contract_env *e, int boxes, int rounds, uint64_t most, uint64_t send_slow,
		   uint64_t recv_slow)
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.rounds = contract_rounds(e, rounds);
		a.value = a.rounds < 32 ? 5 : 1;
		a.bytes = most;
		a.src_off = send_slow;
		a.dst_off = recv_slow;
		contract_launch(e, &stream_kernel, 2 * boxes, &a);
		contract_launch(e, &stream_kernel, 2 * boxes, &a); /* counts outlive a launch */
	}
}

CASE(packet_stream, c.blocks = 2, c.shape = CONTRACT_FULL, BOXED(BOX_BYTES))
{
	stream(e, 1, 64, BOX_BYTES, 0, 0);
}

CASE(packet_short, c.blocks = 2, BOXED(8))
{
	stream(e, 1, 400, 8, 0, 0);
}

CASE(packet_one_byte, c.blocks = 2, BOXED(1))
{
	stream(e, 1, 200, 1, 0, 0);
}

CASE(packet_slow_receiver, c.blocks = 2, BOXED(BOX_BYTES))
{
	stream(e, 1, 32, BOX_BYTES, 0, 3000);
}

CASE(packet_slow_sender, c.blocks = 2, BOXED(BOX_BYTES))
{
	stream(e, 1, 32, BOX_BYTES, 3000, 0);
}

CASE(packet_boxes, c.blocks = 2 * BOXES, BOXED(BOX_BYTES))
{
	stream(e, BOXES, 32, BOX_BYTES, 0, 0);
}

/* The 7 bits of a cell's lap: a box of 8 bytes has 64 cells, and 128 laps repeat. */
CASE(packet_over_laps, c.blocks = 2, BOXED(8), c.window.first_count = 64 * 128 - 100)
{
	stream(e, 1, 200, 8, 0, 0);
}

CASE(packet_over_32_bits, c.blocks = 2, BOXED(8), c.window.first_count = UINT32_MAX - 20)
{
	stream(e, 1, 200, 8, 0, 0);
}

/* Before the wrap a slot that was never used holds 0, which must be no mark after it. */
CASE(packet_over_64_bits, c.blocks = 2, BOXED(8), c.window.first_count = UINT64_MAX - 20)
{
	stream(e, 1, 200, 8, 0, 0);
}

CASE(packet_long_over_64_bits, c.blocks = 2, BOXED(BOX_BYTES), c.window.first_count = UINT64_MAX)
{
	stream(e, 1, 32, BOX_BYTES, 0, 0);
}

/* ---- one block, both directions -------------------------------------------------------------- */

/* Every rank sends to all and receives from all, itself included. */
CONTRACT_KERNEL(exchange_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), err = 0, i, k;
	uint8_t *to = a->local + 4096;
	uint64_t wrong = 0, bytes;

	for (i = 0; i < a->rounds && !err; i++) {
		bytes = packet_bytes(i, BOX_BYTES);
		for (k = 0; k < n && !err; k++) {
			contract_fill(g, a->local, bytes, (uint64_t)i, me, contract_right(w, k));
			err = oriel_group_sync(g);
			if (!err)
				err = oriel_packet_send(w, g, contract_right(w, k), a->id, a->local,
							bytes);
		}
		for (k = 0; k < n && !err; k++) {
			err = oriel_packet_recv(w, g, contract_left(w, k), a->id, to, bytes);
			if (!err)
				wrong += contract_wrong(g, to, bytes, (uint64_t)i,
							contract_left(w, k), me);
			if (!err)
				err = oriel_group_sync(g);
		}
	}
	contract_report(a, g, err, wrong);
}

CASE(packet_exchange, BOXED(BOX_BYTES))
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.rounds = contract_rounds(e, 48);
		contract_launch(e, &exchange_kernel, 1, &a);
	}
}

/* ---- long packets ---------------------------------------------------------------------------- */

#define LONG_BYTES 65536u

/* Whole batches of cells, odd sizes and places, and a short packet between long ones. */
ORIEL_DEV uint64_t long_bytes(int i, uint64_t most)
{
	const uint64_t less[6] = { 0, most / 4 * 3, 25535, most - 8, most / 4 - 8, 1 };

	return most - less[i % 6];
}

/* Every rank sends to its neighbour and receives from the other one. */
CONTRACT_KERNEL(long_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	uint8_t *to = a->local + a->bytes + 64;
	uint64_t wrong = 0, bytes;
	int err = 0, i;

	for (i = 0; i < a->rounds && !err; i++) {
		bytes = long_bytes(i, a->bytes);
		contract_fill(g, a->local + i % 3 * 8, bytes, (uint64_t)i, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_packet_send(w, g, right, a->id, a->local + i % 3 * 8, bytes);
		if (!err)
			err = oriel_packet_recv(w, g, left, a->id, to + i % 2 * 5, bytes);
		if (!err)
			wrong += contract_wrong(g, to + i % 2 * 5, bytes, (uint64_t)i, left, me);
		if (!err)
			err = oriel_group_sync(g);
	}
	contract_report(a, g, err, wrong);
}

static void long_packets(struct contract_env *e, uint64_t most, int rounds)
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.id = form;
		a.bytes = most;
		a.rounds = rounds;
		contract_launch(e, &long_kernel, 1, &a);
	}
}

/* Many laps of the box: it has room for four of the longest. */
CASE(packet_long, c.window.boxes = FORMS, c.window.box_bytes = LONG_BYTES,
     c.window.bytes = 2 * LONG_BYTES + 256)
{
	long_packets(e, LONG_BYTES, 24);
}

/* The longest of all: a mark has 24 bits for the size.  Its boxes take 134 MB per source. */
#if !defined(__SANITIZE_THREAD__) /* there control memory is small */
CASE(packet_longest, c.max_ranks = 2, c.window.boxes = FORMS,
     c.window.box_bytes = ORI_BOX_BYTES_MAX, c.window.bytes = 2 * ORI_BOX_BYTES_MAX + 256)
{
	long_packets(e, ORI_BOX_BYTES_MAX, 6);
}
#endif

/*
 * Memory that only the kernel can name: a variable of the one thread, or shared memory of a GPU's
 * block.  Packets leave from it and come back to it.
 */
CONTRACT_KERNEL(own_memory_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	uint64_t variable[PLACE / 8], wrong = 0, bytes;
	int err = 0, i;
#if ORIEL_ON_GPU
	__shared__ uint64_t shared[PLACE / 8];
	uint8_t *mine = (uint8_t *)shared;
#else
	uint8_t *mine = a->local;
#endif

	if (g.size == 1)
		mine = (uint8_t *)variable;
	for (i = 0; i < a->rounds && !err; i++) {
		bytes = packet_bytes(i, BOX_BYTES);
		contract_fill(g, mine + i % 9, bytes, (uint64_t)i, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_packet_send(w, g, right, a->id, mine + i % 9, bytes);
		if (!err)
			err = oriel_packet_recv(w, g, left, a->id, mine + i % 3 * 8, bytes);
		if (!err)
			wrong += contract_wrong(g, mine + i % 3 * 8, bytes, (uint64_t)i, left, me);
		if (!err)
			err = oriel_group_sync(g);
	}
	contract_report(a, g, err, wrong);
}

CASE(packet_own_memory, c.shape = CONTRACT_FULL, BOXED(BOX_BYTES))
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.rounds = contract_rounds(e, 48);
		contract_launch(e, &own_memory_kernel, 1, &a);
	}
}

/*
 * Data that looks like a mark, in every word: of the next packets, of this lap and the next.  A
 * receiver that mistook data for a mark would return before its packet came.
 */
ORIEL_DEV uint32_t like_a_mark(const struct oriel_window_dev *w, int packet, uint64_t i)
{
	uint64_t count = 8 * (uint64_t)packet + i;

	if (packet % 2)
		return (uint32_t)ori_slot_mark((uint64_t)packet + 1 + i % 4);
	return ori_ring_mark(ori_ring_of(w, ori_box_mine(w, 0, 0)),
			     count + (uint64_t)(packet % 4) * (w->cell_mask + 1) / 2, 64);
}

CONTRACT_KERNEL(marks_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	uint32_t *mine = (uint32_t *)(void *)a->local, *to = mine + 1024;
	int i, err = 0;
	uint64_t wrong = 0, k;

	for (i = 0; i < a->rounds && !err; i++) {
		for (k = g.thread; k < 16; k += g.size)
			mine[k] = like_a_mark(w, i, k);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_packet_send(w, g, contract_right(w, 1), a->id, mine, 64);
		if (!err)
			err = oriel_packet_recv(w, g, contract_left(w, 1), a->id, to, 64);
		for (k = g.thread; k < 16 && !err; k += g.size)
			wrong += to[k] != like_a_mark(w, i, k);
		if (!err)
			err = oriel_group_sync(g);
	}
	contract_report(a, g, err, wrong);
}

CASE(packet_data_like_marks, BOXED(64))
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.rounds = contract_rounds(e, 200);
		contract_launch(e, &marks_kernel, 1, &a);
	}
}

/* ---- what ends early ------------------------------------------------------------------------- */

enum { SEND, RECV };

/* `rounds` calls, each with its own deadline of src_off ms, if that is not 0. */
CONTRACT_KERNEL(call_kernel)
{
	struct oriel_group within = oriel_group_within(g, (uint32_t)a->src_off);
	const struct oriel_window_dev *w = &a->win;
	int err = 0, i, done = 0;
	uint64_t wrong = 0;

	for (i = 0; i < a->rounds && !err; i++) {
		if (a->mode == SEND) {
			contract_fill(g, a->local, a->bytes, a->value + (uint64_t)i, 1, 2);
			err = oriel_group_sync(g);
			if (!err)
				err = oriel_packet_send(w, within, a->peer, a->id, a->local,
							a->bytes);
		} else {
			err = oriel_packet_recv(w, within, a->peer, a->id, a->local + 4096,
						a->bytes);
			if (!err) {
				wrong += contract_wrong(g, a->local + 4096, a->bytes,
							a->value + (uint64_t)i, 1, 2);
				err = oriel_group_sync(g);
			}
		}
		done += !err;
	}
	a->out[contract_slot(g) * CONTRACT_OUT] = (uint64_t)done;
	contract_report(a, g, err, wrong);
}

static void call(struct contract_env *e, struct contract_args *a, int mode, int rounds, int expect)
{
	a->mode = mode;
	a->rounds = rounds;
	contract_launch_expect(e, &call_kernel, 1, a, expect);
}

/*
 * Each rank fills the box of its right neighbour until a deadline ends the call, and empties its
 * own box until a deadline ends the call.  Nothing is lost: both go on afterwards.
 */
CASE(packet_deadlines, BOXED(BOX_BYTES))
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);
		int left = (e->rank + e->nranks - 1) % e->nranks, sent, all[8];

		a.bytes = BOX_BYTES;
		a.src_off = 20;
		a.peer = left;
		call(e, &a, RECV, 1, ORIEL_ETIMEDOUT);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		a.peer = (e->rank + 1) % e->nranks;
		call(e, &a, SEND, 1000, ORIEL_ETIMEDOUT);
		sent = (int)e->out[0];
		/* in short queues the third waits for the peer, which may stand still */
		CHECK(sent >= 2 && sent < 1000);
		REQUIRE_OK(oriel_comm_allgather(e->comm, ORIEL_WORLD, &sent, all, sizeof(sent)));
		a.src_off = 0;
		a.peer = left;
		call(e, &a, RECV, all[left], 0);
		a.src_off = 20;
		call(e, &a, RECV, 1, ORIEL_ETIMEDOUT);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		a.src_off = 0;
		a.value = 77;
		a.peer = (e->rank + 1) % e->nranks;
		call(e, &a, SEND, 3, 0);
		a.peer = left;
		call(e, &a, RECV, 3, 0);
		CHECK_EQ(oriel_window_status(e->window), 0);
	}
}

/* To self, so that one rank sees both ends.  The window is unusable afterwards. */
static void mismatch(struct contract_env *e, int form, uint64_t sent, uint64_t asked)
{
	struct contract_args a = args_of_form(e, form);

	a.peer = e->rank;
	a.bytes = 100;
	call(e, &a, SEND, 1, 0);
	call(e, &a, RECV, 1, 0);
	a.bytes = sent;
	call(e, &a, SEND, 1, 0);
	a.bytes = asked;
	call(e, &a, RECV, 1, ORIEL_EMISMATCH);
	CHECK_EQ(oriel_window_status(e->window), ORIEL_EMISMATCH);
	call(e, &a, RECV, 1, ORIEL_EMISMATCH);
	call(e, &a, SEND, 1, ORIEL_EMISMATCH);
	CHECK_EQ(oriel_comm_status(e->comm), 0); /* only the window is lost */
}

CASE(packet_too_short, BOXED(BOX_BYTES))
{
	mismatch(e, 0, 100, 99);
}

CASE(packet_too_long, BOXED(BOX_BYTES))
{
	mismatch(e, 0, 0, BOX_BYTES);
}

CASE(packet_too_short_in_cells, BOXED(BOX_BYTES))
{
	mismatch(e, 1, BOX_BYTES, 1);
}

CASE(packet_too_long_in_cells, BOXED(BOX_BYTES))
{
	mismatch(e, 1, 8, BOX_BYTES);
}

/* Also in windows that are not checked.  The refused call changes nothing. */
CASE(packet_over_the_box, BOXED(100))
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.peer = e->rank;
		a.bytes = 101;
		call(e, &a, SEND, 1, ORIEL_ERANGE);
		call(e, &a, RECV, 1, ORIEL_ERANGE);
		a.bytes = 100;
		call(e, &a, SEND, 2, 0);
		call(e, &a, RECV, 2, 0);
		CHECK_EQ(oriel_window_status(e->window), 0);
	}
}

CASE(packet_not_asked_for, 0)
{
	struct contract_args a = contract_args(e);

	a.peer = e->rank;
	call(e, &a, SEND, 1, ORIEL_EUNSUPPORTED);
	call(e, &a, RECV, 1, ORIEL_EUNSUPPORTED);
	CHECK_EQ(oriel_window_status(e->window), 0);
}
