/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/verify_pairs.c - every ordered pair of ranks tests window operations, on every lane.
 *
 * In round k rank r sends to r+k and receives from r-k.  So each round is a permutation, and n-1
 * rounds cover all pairs.  The block that uses a lane tests it.  Ranks of a GPU job test only
 * host-issued calls.
 * Called by: verify.c, on the rank's thread; the kernel on threads of the CPU device.
 */
#include <stdlib.h>
#include <string.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#include "../../boot/boot.h"
#include "../../util/util.h"
#include "verify.h"

/* What a source rank writes to its peer, for each lane. */
#define DATA_BYTES 1024u
#define ORDER_WORDS 16u
#define ORDER_OFF DATA_BYTES
#define ATOMIC_OFF (ORDER_OFF + ORDER_WORDS * 8)
#define SLOT_BYTES 2048u

struct pair_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	int to, from;
	uint32_t lanes;                            /* slots of a source */
	struct verify_cell *to_cells, *from_cells; /* by lane */
};

static uint64_t slot_off(int rank, uint32_t lane, uint32_t lanes)
{
	return ((uint64_t)rank * lanes + lane) * SLOT_BYTES;
}

static uint8_t pattern(int rank, uint32_t lane, uint32_t i)
{
	return (uint8_t)(i * 13 + i / 251 + (uint32_t)rank * 37 + lane * 101 + 1);
}

/* ---- one pair, from a kernel ----------------------------------------------------------------- */

static void send_order(const struct pair_args *a, struct oriel_group g, struct verify_cell *cell)
{
	int me = oriel_rank(&a->win), err = 0;
	uint64_t off = slot_off(me, g.block, a->lanes);

	for (uint32_t i = 0; i < ORDER_WORDS && !err; i++) {
		uint64_t word = i + 1;

		err = oriel_put_value(&a->win, g, a->to, off + ORDER_OFF + i * 8, &word, 8);
		if (!err)
			err = oriel_signal(&a->win, g, a->to, (int)g.block, ORIEL_ADD, 1);
	}
	cell->to[VERIFY_ORDER] = (int8_t)err;
}

static void try_counter(const struct pair_args *a, struct oriel_group g, struct verify_cell *cell)
{
	uint64_t off = slot_off(oriel_rank(&a->win), g.block, a->lanes);
	int err = oriel_put_counter(&a->win, g, a->to, off, &a->src, g.block * DATA_BYTES,
				    DATA_BYTES, (int)g.block);

	if (!err)
		err = oriel_wait_counter(&a->win, g, a->to, (int)g.block, ORIEL_GE, 1);
	if (!err && oriel_read_counter(&a->win, a->to, (int)g.block) != 1)
		err = VERIFY_WRONG;
	cell->to[VERIFY_COUNTER] = (int8_t)err;
}

static void try_atomic(const struct pair_args *a, struct oriel_group g, struct verify_cell *cell)
{
	uint64_t off = slot_off(oriel_rank(&a->win), g.block, a->lanes) + ATOMIC_OFF;
	uint64_t first = 1, second = 0, third = 0;
	int err = oriel_fetch_add(&a->win, g, a->to, off, 5, &first);

	if (!err)
		err = oriel_compare_swap(&a->win, g, a->to, off, 5, 9, &second);
	if (!err)
		err = oriel_fetch_add(&a->win, g, a->to, off, 0, &third);
	if (!err && (first != 0 || second != 5 || third != 9))
		err = VERIFY_WRONG;
	cell->to[VERIFY_ATOMIC] = err == ORIEL_EUNSUPPORTED ? VERIFY_NONE : (int8_t)err;
}

static int data_is_right(const uint8_t *at, int from, uint32_t lane)
{
	for (uint32_t i = 0; i < DATA_BYTES; i++) {
		if (at[i] != pattern(from, lane, i))
			return 0;
	}
	return 1;
}

static void receive(const struct pair_args *a, struct oriel_group g, struct verify_cell *cell)
{
	const uint8_t *at = a->win.buffer + slot_off(a->from, g.block, a->lanes);
	const uint64_t *words = (const uint64_t *)(const void *)(at + ORDER_OFF);
	int err = oriel_wait_signal_from(&a->win, g, a->from, (int)g.block, ORIEL_GE, 1);

	cell->from[VERIFY_SIGNAL] = (int8_t)err;
	cell->from[VERIFY_PUT] = (int8_t)(err                                 ? err :
					  data_is_right(at, a->from, g.block) ? 0 :
										VERIFY_WRONG);
	for (uint32_t i = 0; i < ORDER_WORDS && !err; i++) {
		err = oriel_wait_signal_from(&a->win, g, a->from, (int)g.block, ORIEL_GE, i + 2);
		if (!err && ori_load_relaxed_sys(&words[i]) != i + 1)
			err = VERIFY_WRONG;
	}
	cell->from[VERIFY_ORDER] = (int8_t)err;
}

ORIEL_KERNEL(verify_pair, struct pair_args)
{
	struct oriel_group g = oriel_group_block();
	struct verify_cell *to = &a->to_cells[g.block], *from = &a->from_cells[g.block];
	uint64_t off = slot_off(oriel_rank(&a->win), g.block, a->lanes);
	int err = oriel_put_signal(&a->win, g, a->to, off, &a->src, g.block * DATA_BYTES,
				   DATA_BYTES, (int)g.block, ORIEL_ADD, 1);

	to->to[VERIFY_PUT] = to->to[VERIFY_SIGNAL] = (int8_t)err;
	send_order(a, g, to);
	receive(a, g, from);
	try_counter(a, g, to);
	try_atomic(a, g, to);
	return 0; /* each cell has its own status */
}

/* ---- one pair, from the host (GPU jobs) ------------------------------------------------------ */

static void host_pair(struct oriel_comm *comm, struct oriel_window *window,
		      const struct pair_args *a)
{
	struct verify_cell *to = a->to_cells, *from = a->from_cells;
	uint64_t mine = slot_off(oriel_rank(&a->win), 0, a->lanes);
	uint8_t got[DATA_BYTES];
	int err = oriel_window_put_signal(window, a->to, mine, &a->src, 0, DATA_BYTES, 0, ORIEL_ADD,
					  1, NULL);

	if (!err)
		err = oriel_window_wait_signal(window, a->from, 0, ORIEL_GE, 1, NULL);
	if (!err)
		err = oriel_comm_sync(comm, NULL);
	if (!err)
		err = oriel_window_status(window);
	to->to[VERIFY_PUT] = to->to[VERIFY_SIGNAL] = to->to[VERIFY_ORDER] = (int8_t)err;
	from->from[VERIFY_SIGNAL] = (int8_t)err;
	if (!err)
		err = oriel_copy(comm, got, a->win.buffer + slot_off(a->from, 0, a->lanes),
				 DATA_BYTES);
	if (!err && !data_is_right(got, a->from, 0))
		err = VERIFY_WRONG;
	from->from[VERIFY_PUT] = from->from[VERIFY_ORDER] = (int8_t)err;
	to->to[VERIFY_COUNTER] = to->to[VERIFY_ATOMIC] = VERIFY_NOT_ASKED;
}

/* ---- all pairs ------------------------------------------------------------------------------- */

struct pairs {
	struct verify *v;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct verify_cell *row;
	void *data;
	struct pair_args args;
};

/* Lanes to a queued peer.  A mapped peer has no queues: one block tests it. */
static int lanes_of(const struct oriel_window_dev *win, int peer)
{
	const struct oriel_link *link = win->comm.peers[peer].link;

	if (oriel_peer_kind(win, peer) != ORIEL_PEER_QUEUED || !link)
		return 1;
	return link->nlanes < VERIFY_LANES_MAX ? (int)link->nlanes : VERIFY_LANES_MAX;
}

/* Marks lanes that this peer does not have: their blocks used its other lanes. */
static void mark_lanes(struct pairs *p, int peer)
{
	const struct oriel_link *link = p->args.win.comm.peers[peer].link;
	struct verify_cell *cells = &p->row[(size_t)peer * (size_t)p->v->lanes];
	int n = lanes_of(&p->args.win, peer);

	for (int lane = 0; lane < p->v->lanes; lane++) {
		cells[lane].kind = (uint8_t)oriel_peer_kind(&p->args.win, peer);
		cells[lane].nic = link && lane < n ? (uint8_t)link->lanes[lane].nic : 0;
		for (int t = 0; t < VERIFY_TESTS && lane >= n; t++)
			cells[lane].to[t] = cells[lane].from[t] = VERIFY_NOT_ASKED;
	}
}

static void one_round(struct pairs *p, int k)
{
	int n = p->v->nranks, me = p->v->rank, err;
	size_t lanes = (size_t)p->v->lanes;

	p->args.to = (me + k) % n;
	p->args.from = (me + n - k) % n;
	p->args.to_cells = &p->row[(size_t)p->args.to * lanes];
	p->args.from_cells = &p->row[(size_t)p->args.from * lanes];
	if (p->v->gpu) {
		host_pair(p->comm, p->window, &p->args);
	} else {
		err = oriel_launch(p->comm, &verify_pair, p->v->lanes, 1, &p->args, sizeof(p->args),
				   NULL);
		if (err)
			memset(p->args.to_cells->to, err, VERIFY_TESTS);
	}
	mark_lanes(p, p->args.to);
	mark_lanes(p, p->args.from);
}

/* Returns 1 to go on.  All ranks decide the same, so none waits for one that has stopped. */
static int all_go_on(struct pairs *p, struct oriel_boot *boot, int go)
{
	unsigned char mine = (unsigned char)go, *all = malloc((size_t)p->v->nranks);
	int err = !all || boot->ops->allgather(boot, &mine, all, 1, VERIFY_MEET_NS);

	for (int r = 0; r < p->v->nranks && !err; r++)
		go &= all[r];
	free(all);
	return !err && go;
}

static void run_rounds(struct pairs *p, struct oriel_boot *boot)
{
	uint64_t end = ori_deadline_ns(VERIFY_PAIRS_NS);
	int go = 1;

	for (int peer = 0; peer < p->v->nranks; peer++)
		mark_lanes(p, peer);
	for (int k = 1; k < p->v->nranks && all_go_on(p, boot, go); k++) {
		one_round(p, k);
		go = ori_now_ns() < end && !oriel_comm_status(p->comm);
	}
}

static int prepare(struct pairs *p)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	uint32_t lanes = (uint32_t)p->v->lanes;
	uint8_t bytes[VERIFY_LANES_MAX * DATA_BYTES];
	int err;

	options.bytes = (uint64_t)p->v->nranks * lanes * SLOT_BYTES;
	options.signals = options.counters = lanes;
	options.checked = 1;
	err = oriel_window_create(p->comm, &options, &p->window);
	if (err)
		return err;
	for (uint32_t i = 0; i < lanes * DATA_BYTES; i++)
		bytes[i] = pattern(p->v->rank, i / DATA_BYTES, i % DATA_BYTES);
	err = oriel_alloc(p->comm, lanes * DATA_BYTES, &p->data);
	if (!err)
		err = oriel_copy(p->comm, p->data, bytes, lanes * DATA_BYTES);
	if (!err)
		err = oriel_window_source(p->window, p->data, lanes * DATA_BYTES, &p->args.src);
	if (!err)
		err = oriel_window_device(p->window, &p->args.win);
	/* the handle is a copy, so its deadline can be shorter */
	p->args.win.comm.timeout_ns = VERIFY_WAIT_NS;
	p->args.lanes = lanes;
	return err;
}

/* If a pair made the comm fail, the check gets that failure. */
static void check_comm(struct pairs *p, struct verify_check *check)
{
	int err = oriel_comm_status(p->comm);

	verify_set(check, VERIFY_OK, "", "all tried");
	if (!err)
		return;
	/* a call on the failed comm sets the last error to the cause */
	oriel_comm_barrier(p->comm, ORIEL_WORLD);
	verify_set(check, VERIFY_FAILED, verify_remedy(err), "%s", ori_last_error_text());
}

void verify_pairs(struct verify *v, struct oriel_boot *boot, struct oriel_comm *comm,
		  struct verify_cell *row, struct oriel_window **window)
{
	struct pairs *p = calloc(1, sizeof(*p));
	struct verify_check *check = &v->checks[VERIFY_WINDOW];
	int err = p ? 0 : ORIEL_ENOMEM;

	if (!err) {
		p->v = v;
		p->comm = comm;
		p->row = row;
		err = prepare(p);
	}
	if (err) {
		verify_set(check, VERIFY_FAILED, verify_remedy(err), "%s", ori_last_error_text());
	} else {
		verify_set(check, VERIFY_OK, "", "made on all ranks");
		run_rounds(p, boot);
		check_comm(p, &v->checks[VERIFY_PAIRS]);
	}
	*window = p ? p->window : NULL;
	free(p);
}
