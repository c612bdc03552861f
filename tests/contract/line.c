/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/line.c - contract of lines: the packets of packet.c through boxes that groups hold
 * open, alone and mixed with packet calls.
 *
 * Every case runs in both forms of device/box.h, as in packet.c.
 */
#include "contract.h"

#define BOX_BYTES 600
#define BOXES 2 /* of each form */
#define FORMS 2
#define BOXED c.window.boxes = BOXES * FORMS, c.window.box_bytes = BOX_BYTES

/* Which calls a side of a pair makes. */
enum { LINES, CALLS, LINES_IN_TURN };

static struct contract_args args_of_form(struct contract_env *e, int form)
{
	struct contract_args a = contract_args(e);

	a.win.box_marked = (uint32_t)form;
	a.id = form * BOXES; /* memory of one form means nothing to the other */
	a.bytes = BOX_BYTES;
	return a;
}

ORIEL_DEV uint64_t bytes_of(int i)
{
	const uint64_t sizes[8] = { 8, 0, 1, 64, 9, BOX_BYTES, 512, BOX_BYTES - 1 };

	return sizes[i % 8];
}

/* Does round i use the line?  A new line is opened after every eight rounds of calls. */
ORIEL_DEV int by_line(int way, int i)
{
	return way == LINES || (way == LINES_IN_TURN && i / 8 % 2 == 0);
}

/*
 * One rank's end of a conversation with two neighbours: round i sends to the right one and receives
 * from the left one.  With two ranks these are the same, and both lines use one box.
 */
struct ends {
	struct oriel_line right, left;
	int open, same;
};

ORIEL_DEV int ends_open(const struct contract_args *a, struct oriel_group g, struct ends *x)
{
	int right = contract_right(&a->win, 1), left = contract_left(&a->win, 1), err;

	x->same = right == left;
	err = oriel_line_open(&x->right, &a->win, g, right, a->id);
	if (!err && !x->same)
		err = oriel_line_open(&x->left, &a->win, g, left, a->id);
	x->open = !err;
	return err;
}

ORIEL_DEV int ends_close(struct oriel_group g, struct ends *x)
{
	int err = 0;

	if (!x->open)
		return 0;
	x->open = 0;
	err = oriel_line_close(&x->right, g);
	return x->same ? err : oriel_line_close(&x->left, g);
}

ORIEL_DEV int ends_send(const struct contract_args *a, struct oriel_group g, struct ends *x,
			uint64_t bytes)
{
	if (!x->open)
		return oriel_packet_send(&a->win, g, contract_right(&a->win, 1), a->id, a->local,
					 bytes);
	return oriel_line_send(&x->right, g, a->local, bytes);
}

ORIEL_DEV int ends_recv(const struct contract_args *a, struct oriel_group g, struct ends *x,
			uint64_t bytes)
{
	uint8_t *to = a->local + 4096;

	if (!x->open)
		return oriel_packet_recv(&a->win, g, contract_left(&a->win, 1), a->id, to, bytes);
	return oriel_line_recv(x->same ? &x->right : &x->left, g, to, bytes);
}

/* mode: what this rank uses. */
CONTRACT_KERNEL(talk_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int err = 0, i, last;
	uint64_t wrong = 0, bytes;
	struct ends x;

	x.open = 0;
	for (i = 0; i < a->rounds && !err; i++) {
		bytes = bytes_of(i);
		if (by_line(a->mode, i) != x.open)
			err = x.open ? ends_close(g, &x) : ends_open(a, g, &x);
		contract_fill(g, a->local, bytes, (uint64_t)i, me, right);
		if (!err)
			err = oriel_group_sync(g);
		if (!err)
			err = ends_send(a, g, &x, bytes);
		if (!err)
			err = ends_recv(a, g, &x, bytes);
		if (!err)
			wrong += contract_wrong(g, a->local + 4096, bytes, (uint64_t)i, left, me);
		if (!err)
			err = oriel_group_sync(g);
	}
	last = ends_close(g, &x);
	contract_report(a, g, err ? err : last, wrong);
}

/* Even ranks use `even`, the others `odd`. */
static void talk(struct contract_env *e, int even, int odd, int rounds)
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.mode = e->rank % 2 ? odd : even;
		a.rounds = contract_rounds(e, rounds);
		contract_launch(e, &talk_kernel, 1, &a);
		contract_launch(e, &talk_kernel, 1, &a); /* counts outlive a launch */
	}
}

CASE(line_both_ends, c.shape = CONTRACT_FULL, BOXED)
{
	talk(e, LINES, LINES, 64);
}

CASE(line_and_calls, BOXED)
{
	talk(e, LINES, CALLS, 64);
}

CASE(line_opened_again, BOXED)
{
	talk(e, LINES_IN_TURN, LINES, 64);
}

CASE(line_over_laps, BOXED, c.window.first_count = UINT64_MAX - 40)
{
	talk(e, LINES, LINES, 64);
}

/* ---- whole batches --------------------------------------------------------------------------- */

#define BATCH_BYTES 16384u /* of the largest group */

/* A batch has four cells for each thread, and a way of its own if all its words are whole. */
ORIEL_DEV uint64_t batch_bytes(int i, uint32_t threads)
{
	const int32_t more[8] = { 0, 0, 8, 0, -8, -1, 0, 0 };
	uint64_t batch = 32u * (uint64_t)threads;

	return i % 8 == 7 ? 3 * batch / 4 : batch + (uint64_t)(int64_t)more[i % 8];
}

/* Two batches follow each other; further packets are a little longer or shorter, or unaligned. */
CONTRACT_KERNEL(batch_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	uint64_t wrong = 0, bytes;
	int err = 0, i, last;
	uint8_t *from, *to;
	struct ends x;

	err = ends_open(a, g, &x);
	for (i = 0; i < a->rounds && !err; i++) {
		bytes = batch_bytes(i, g.size);
		from = a->local + (i % 16 == 3 ? 3 : 0);
		to = a->local + a->dst_off + (i % 16 == 11 ? 5 : 0);
		contract_fill(g, from, bytes, (uint64_t)i, me, right);
		contract_set(g, to + bytes, 1, CONTRACT_GUARD);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_line_send(&x.right, g, from, bytes);
		if (!err)
			err = oriel_line_recv(x.same ? &x.right : &x.left, g, to, bytes);
		if (!err) {
			wrong += contract_wrong(g, to, bytes, (uint64_t)i, left, me);
			wrong += contract_not(g, to + bytes, 1, CONTRACT_GUARD);
			err = oriel_group_sync(g);
		}
	}
	last = ends_close(g, &x);
	contract_report(a, g, err ? err : last, wrong);
}

/* Some batches come to the end of the ring, and go on at its start. */
CASE(line_batches, c.window.boxes = BOXES * FORMS, c.window.box_bytes = BATCH_BYTES + 8,
     c.window.first_count = UINT64_MAX - 300)
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.dst_off = e->bytes / 2;
		a.rounds = contract_rounds(e, 48);
		contract_launch(e, &batch_kernel, 1, &a);
		contract_launch(e, &batch_kernel, 1, &a);
	}
}

/* ---- slow ends ------------------------------------------------------------------------------- */

ORIEL_DEV void pause_for(uint64_t rounds)
{
	uint64_t i;

	for (i = 0; i < rounds; i++)
		ori_pause();
}

/*
 * Block 0 sends to the right neighbour, block 1 receives from the left one, each by a line of its
 * own.  Of two ranks, which are neighbours twice, each has a box to send into.  src_off, dst_off:
 * pauses of the sender and of the receiver.
 */
CONTRACT_KERNEL(stream_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w), right = contract_right(w, 1), left = contract_left(w, 1);
	int sends = !g.block, from = sends ? me : left, to = sends ? right : me;
	uint8_t *mine = a->local + 4096 * g.block;
	uint64_t wrong = 0, bytes;
	struct oriel_line line;
	int err, last, i;

	err = oriel_line_open(&line, w, g, sends ? right : left, a->id + from % BOXES);
	for (i = 0; i < a->rounds && !err; i++) {
		bytes = bytes_of(i);
		pause_for(sends ? a->src_off : a->dst_off);
		if (sends)
			contract_fill(g, mine, bytes, (uint64_t)i, from, to);
		err = oriel_group_sync(g);
		if (!err)
			err = sends ? oriel_line_send(&line, g, mine, bytes) :
				      oriel_line_recv(&line, g, mine, bytes);
		if (!err && !sends)
			wrong += contract_wrong(g, mine, bytes, (uint64_t)i, from, to);
		if (!err) /* the next packet is written to the same place */
			err = oriel_group_sync(g);
	}
	last = oriel_line_close(&line, g);
	contract_report(a, g, err ? err : last, wrong);
}

/* Many laps of the box. */
static void stream(struct contract_env *e, uint64_t send_slow, uint64_t recv_slow)
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.rounds = contract_rounds(e, 64);
		a.src_off = send_slow;
		a.dst_off = recv_slow;
		contract_launch(e, &stream_kernel, 2, &a);
		contract_launch(e, &stream_kernel, 2, &a);
	}
}

/* A line to this rank itself would be one line of two blocks. */
CASE(line_slow_receiver, c.blocks = 2, c.min_ranks = 2, BOXED)
{
	stream(e, 0, 3000);
}

CASE(line_slow_sender, c.blocks = 2, c.min_ranks = 2, BOXED)
{
	stream(e, 3000, 0);
}

/* ---- full boxes and deadlines ---------------------------------------------------------------- */

/* value: the number of the first packet.  mode: 1 receives.  src_off: deadline in ms. */
CONTRACT_KERNEL(one_way_kernel)
{
	struct oriel_group within = oriel_group_within(g, (uint32_t)a->src_off);
	uint64_t wrong = 0, round;
	struct oriel_line line;
	int err, last, i, done = 0;

	err = oriel_line_open(&line, &a->win, g, a->peer, a->id);
	for (i = 0; i < a->rounds && !err; i++) {
		round = a->value + (uint64_t)i;
		if (a->mode) {
			err = oriel_line_recv(&line, within, a->local + 4096, a->bytes);
			if (!err)
				wrong += contract_wrong(g, a->local + 4096, a->bytes, round, 1, 2);
		} else {
			contract_fill(g, a->local, a->bytes, round, 1, 2);
			err = oriel_group_sync(g);
			if (!err)
				err = oriel_line_send(&line, within, a->local, a->bytes);
		}
		if (!err)
			err = oriel_group_sync(g);
		done += !err;
	}
	last = oriel_line_close(&line, g);
	a->out[contract_slot(g) * CONTRACT_OUT] = (uint64_t)done;
	contract_report(a, g, err ? err : last, wrong);
}

static int one_way(struct contract_env *e, struct contract_args *a, int mode, int rounds,
		   int expect)
{
	a->mode = mode;
	a->peer = mode ? (e->rank + e->nranks - 1) % e->nranks : (e->rank + 1) % e->nranks;
	a->rounds = rounds;
	a->src_off = expect ? 20 : 0;
	contract_launch_expect(e, &one_way_kernel, 1, a, expect);
	return (int)e->out[0];
}

/* A deadline ends the call and loses nothing: another line goes on where the first one stopped. */
CASE(line_deadlines, BOXED)
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);
		int left = (e->rank + e->nranks - 1) % e->nranks, sent, all[8];

		one_way(e, &a, 1, 1, ORIEL_ETIMEDOUT);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		sent = one_way(e, &a, 0, 1000, ORIEL_ETIMEDOUT);
		/* in short queues the third waits for the peer, which may stand still */
		CHECK(sent >= (getenv("ORIEL_QUEUE_DEPTH") ? 2 : 4) && sent < 1000);
		REQUIRE_OK(oriel_comm_allgather(e->comm, ORIEL_WORLD, &sent, all, sizeof(sent)));
		one_way(e, &a, 1, all[left], 0);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		a.value = 77;
		one_way(e, &a, 0, 3, 0);
		one_way(e, &a, 1, 3, 0);
		CHECK_EQ(oriel_window_status(e->window), 0);
	}
}

CASE(line_over_the_box, BOXED)
{
	for (int form = 0; form < FORMS; form++) {
		struct contract_args a = args_of_form(e, form);

		a.bytes = BOX_BYTES + 1;
		one_way(e, &a, 0, 1, ORIEL_ERANGE);
		one_way(e, &a, 1, 1, ORIEL_ERANGE);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		a.bytes = BOX_BYTES;
		one_way(e, &a, 0, 1, 0);
		one_way(e, &a, 1, 1, 0);
	}
}

CASE(line_without_boxes, c.window.boxes = 0)
{
	struct contract_args a = args_of_form(e, 0);

	one_way(e, &a, 0, 1, ORIEL_EUNSUPPORTED);
}
