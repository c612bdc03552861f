/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/packet.c - device/packet.h on two ranks whose handles are made by hand: what a full
 * box holds, cells that are half written or old, and the order of marks and credits.
 *
 * tests/contract/packet.c tests what users see.  Here the test looks into the boxes, and
 * ThreadSanitizer finds a missing edge between two ranks that are threads.
 */
#include <pthread.h>

#include <oriel/device.h>

#include "../check.h"

#define BOX_BYTES 100
#define ROW_WORDS (ORIEL_LINE_BYTES / 8)
#define BOX_ROOM 16384 /* more than a box takes */
#define SOON_MS 5      /* a deadline of calls that must not succeed */

/* All that peers address is in one struct, so one distance serves all of them. */
struct rank {
	_Alignas(ORIEL_LINE_BYTES) uint64_t signals[2][ROW_WORDS];
	_Alignas(ORIEL_LINE_BYTES) uint8_t boxes[2 * BOX_ROOM];
	uint64_t failure, comm_failure;
	struct oriel_waiters waiters;
	struct oriel_board board;
	struct oriel_comm_peer peers[2];
	struct oriel_window_dev win;
};

struct world {
	struct rank rank[2];
};

static void fill_comm(struct rank *me, int r)
{
	struct oriel_comm_dev *c = &me->win.comm;

	c->rank = r;
	c->nranks = 2;
	c->timeout_ns = 20000000000ull;
	c->late_ns = 60000000000ull;
	c->spin_polls = 16;
	c->failure = &me->comm_failure;
	c->waiters = &me->waiters;
	c->board = &me->board;
	c->peers = me->peers;
}

static void fill_window(struct world *w, int r, int form)
{
	struct ori_box_shape s = ori_box_shape_of(BOX_BYTES, 0);
	struct rank *me = &w->rank[r];
	struct oriel_window_dev *d = &me->win;

	REQUIRE(s.stride <= BOX_ROOM);
	d->failure = &me->failure;
	d->box_memory = me->boxes;
	d->box_shift = (me->boxes + (uint64_t)r * s.stride) - (uint8_t *)me->signals[r];
	d->boxes = 1;
	d->box_bytes = BOX_BYTES;
	d->box_stride = (uint32_t)s.stride;
	d->box_marked = (uint32_t)form;
	d->cell_mask = (uint32_t)s.cells - 1;
	d->cell_laps = (uint32_t)__builtin_ctzll(s.cells);
	d->slot_bytes = (uint32_t)s.slot_bytes;
	d->slot_mask = (uint32_t)s.slots - 1;
	for (int p = 0; p < 2; p++) {
		d->inline_peers[p].kind = p == r ? ORIEL_PEER_SELF : ORIEL_PEER_MAPPED;
		d->inline_peers[p].signals = w->rank[p].signals[r];
		d->inline_peers[p].waiters = &w->rank[p].waiters;
		d->inline_peers[p].failure = &w->rank[p].failure;
	}
}

static struct world *make_world(int form)
{
	struct world *w = aligned_alloc(ORIEL_LINE_BYTES, sizeof(*w));

	if (!w)
		abort(); /* the test program's own memory */
	memset(w, 0, sizeof(*w));
	for (int r = 0; r < 2; r++) {
		fill_comm(&w->rank[r], r);
		fill_window(w, r, form);
	}
	return w;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static uint8_t byte_of(uint64_t packet, uint64_t i)
{
	return (uint8_t)(packet * 37 + i * 3 + (packet >> 8));
}

static int send_one(struct world *w, uint64_t packet, uint64_t bytes, uint32_t within_ms)
{
	struct oriel_group g = oriel_group_within(oriel_group_thread(), within_ms);
	uint8_t data[BOX_BYTES];

	for (uint64_t i = 0; i < bytes; i++)
		data[i] = byte_of(packet, i);
	return oriel_packet_send(&w->rank[0].win, g, 1, 0, data, bytes);
}

/* A packet with wrong bytes counts as ORIEL_EREMOTE. */
static int take_one(struct world *w, uint64_t packet, uint64_t bytes, uint32_t within_ms)
{
	struct oriel_group g = oriel_group_within(oriel_group_thread(), within_ms);
	uint8_t data[BOX_BYTES] = { 0 };
	int err = oriel_packet_recv(&w->rank[1].win, g, 0, 0, data, bytes);

	for (uint64_t i = 0; i < bytes && !err; i++)
		if (data[i] != byte_of(packet, i))
			err = ORIEL_EREMOTE;
	return err;
}

/* ---- credits --------------------------------------------------------------------------------- */

static uint64_t send_until_full(struct world *w, uint64_t *next)
{
	uint64_t first = *next;
	int err = 0;

	while (!err) {
		err = send_one(w, *next, BOX_BYTES, SOON_MS);
		*next += !err;
	}
	CHECK_EQ(err, ORIEL_ETIMEDOUT);
	return *next - first;
}

/* What fits, and not one more.  The credit may lag by a quarter of the box. */
static void fill_and_empty(int form)
{
	struct world *w = make_world(form);
	const struct oriel_window_dev *d = &w->rank[0].win;
	uint64_t room = form ? (d->cell_mask + 1) / ori_packet_cells(BOX_BYTES) : d->slot_mask + 1;
	uint64_t sent = 0, taken = 0;

	CHECK_EQ(send_until_full(w, &sent), room);
	for (uint64_t round = 1; round < 20; round++) {
		for (uint64_t i = 0; i < round * 7 % room && taken < sent; i++)
			CHECK_EQ(take_one(w, taken++, BOX_BYTES, 0), 0);
		(void)send_until_full(w, &sent);
		CHECK(sent - taken <= room);
		CHECK(sent - taken >= room - room / 4 - 1);
	}
	while (taken < sent)
		CHECK_EQ(take_one(w, taken++, BOX_BYTES, 0), 0);
	CHECK_EQ(take_one(w, 0, BOX_BYTES, SOON_MS), ORIEL_ETIMEDOUT);
	free(w);
}

TEST(a_box_of_slots_takes_what_fits_and_no_more)
{
	fill_and_empty(0);
}

TEST(a_box_of_cells_takes_what_fits_and_no_more)
{
	fill_and_empty(1);
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The words of a packet's cell arrive one by one, in either order. */
TEST(a_cell_with_one_half_is_not_taken)
{
	for (int half = 0; half < 2; half++) {
		struct world *w = make_world(1);
		struct oriel_box *box = ori_box_mine(&w->rank[1].win, 0, 0);
		uint64_t *cell = ori_ring_cell(ori_ring_of(&w->rank[1].win, box), 0), whole[2];

		CHECK_EQ(send_one(w, 3, 8, 0), 0);
		memcpy(whole, cell, 16);
		cell[half] = 0;
		CHECK_EQ(take_one(w, 3, 8, SOON_MS), ORIEL_ETIMEDOUT);
		cell[half] = whole[half];
		CHECK_EQ(take_one(w, 3, 8, 0), 0);
		free(w);
	}
}

/* Of a packet of several cells the last one comes late. */
TEST(a_packet_with_a_missing_cell_is_not_taken)
{
	struct world *w = make_world(1);
	struct oriel_box *box = ori_box_mine(&w->rank[1].win, 0, 0);
	uint64_t *cell = ori_ring_cell(ori_ring_of(&w->rank[1].win, box), 4), whole[2];

	CHECK_EQ(send_one(w, 9, 39, 0), 0);
	memcpy(whole, cell, 16);
	memset(cell, 0, 16);
	CHECK_EQ(take_one(w, 9, 39, SOON_MS), ORIEL_ETIMEDOUT);
	memcpy(cell, whole, 16);
	CHECK_EQ(take_one(w, 9, 39, 0), 0);
	free(w);
}

/* Every lap meets the cells of the lap before: none of them may pass for a new one. */
TEST(cells_of_earlier_laps_are_not_taken)
{
	struct world *w = make_world(1);
	uint64_t laps = 300, cells = w->rank[0].win.cell_mask + 1;

	for (uint64_t i = 0; i < laps * cells / 8; i++) {
		CHECK_EQ(send_one(w, i, 64, 0), 0);
		CHECK_EQ(take_one(w, i, 64, 0), 0);
		if (i % 97 == 0)
			CHECK_EQ(take_one(w, i + 1, 64, 1), ORIEL_ETIMEDOUT);
	}
	free(w);
}

/* ---- two threads ----------------------------------------------------------------------------- */

#define PACKETS 4000

static void *sender(void *arg)
{
	struct world *w = arg;

	for (uint64_t i = 0; i < PACKETS; i++)
		if (send_one(w, i, i % (BOX_BYTES + 1), 0))
			check_fail(__FILE__, __LINE__, "packet %llu", (unsigned long long)i);
	return NULL;
}

static void stream(int form)
{
	struct world *w = make_world(form);
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, sender, w));
	for (uint64_t i = 0; i < PACKETS; i++)
		CHECK_EQ(take_one(w, i, i % (BOX_BYTES + 1), 0), 0);
	pthread_join(thread, NULL);
	free(w);
}

TEST(a_stream_in_slots)
{
	stream(0);
}

TEST(a_stream_in_cells)
{
	stream(1);
}
