/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/window_layout.c - window/layout.c: arrays do not overlap, bad options are refused. */
#include "../check.h"
#include "window/window.h"

static struct oriel_window_options options(void)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = 4096;
	return o;
}

/* As oriel_window_create() does. */
static int take(const struct oriel_window_options *given)
{
	struct oriel_window_options own;

	return ori_window_options_take(given, &own);
}

TEST(arrays_follow_each_other_on_lines_of_their_own)
{
	struct oriel_window_options o = options();
	struct ori_window_layout l;

	o.staging_slot_bytes = 4096;
	o.staging_depth = 4;
	o.staging_channels = 3;
	ori_window_layout(&o, 5, 0, 0, &l);
	{
		uint64_t at[] = { l.header,          l.signal_words,  l.signal_base,
				  l.signal_sum_base, l.counter_words, l.counter_base,
				  l.arrival_words,   l.arrival_sent,  l.barrier_users,
				  l.staging_words,   l.staging_free,  l.staging_cursors,
				  l.staging,         l.bytes };

		for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
			CHECK_EQ(at[i] % ORIEL_LINE_BYTES, 0);
			if (i)
				CHECK(at[i] > at[i - 1]);
		}
	}
	CHECK(l.signal_base - l.signal_words >= 5 * 16 * 8);
	CHECK_EQ(l.bytes - l.staging, 5 * 3 * 4 * 4096);
	CHECK_EQ(l.signal_stride % (ORIEL_LINE_BYTES / 8), 0);
}

TEST(nothing_asked_for_takes_next_to_nothing)
{
	struct oriel_window_options o = options();
	struct ori_window_layout l;

	o.signals = o.counters = o.barriers = 0;
	ori_window_layout(&o, 64, 0, 0, &l);
	CHECK(l.bytes <= 1024);
}

TEST(defaults_at_64_ranks_are_small)
{
	struct oriel_window_options o = options();
	struct ori_window_layout l;

	ori_window_layout(&o, 64, 0, 0, &l);
	CHECK(l.bytes < 128 * 1024);
}

TEST(a_nic_has_words_of_its_own)
{
	struct oriel_window_options o = options();
	struct ori_window_layout one, two, few;

	ori_window_layout(&o, 5, 4, 1, &one);
	ori_window_layout(&o, 5, 4, 2, &two);
	CHECK_EQ(one.word_nics, 1);
	CHECK_EQ(two.word_nics, 2);
	CHECK_EQ(two.signal_base - two.signal_words, 2 * (one.signal_base - one.signal_words));
	CHECK_EQ(two.arrival_sent - two.arrival_words, 2 * (one.arrival_sent - one.arrival_words));
	/* one lane uses one NIC, however many there are */
	ori_window_layout(&o, 5, 1, 2, &few);
	CHECK_EQ(few.word_nics, 1);
}

TEST(impossible_options_are_refused_with_their_name)
{
	struct oriel_window_options o;
	char byte;

	CHECK_EQ(take(NULL), ORIEL_EINVAL);
	o = options();
	CHECK_EQ(take(&o), 0);
	o.size = 3;
	CHECK_EQ(take(&o), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "ORIEL_WINDOW_OPTIONS_INIT");
	o = options();
	o.buffer = &byte;
	o.bytes = 0;
	CHECK_EQ(take(&o), ORIEL_EINVAL);
	o = options();
	o.signals = 1u << 30;
	CHECK_EQ(take(&o), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "signals");
	o = options();
	o.bytes = UINT64_MAX;
	CHECK_EQ(take(&o), ORIEL_ERANGE);
}

TEST(staging_options_are_refused_with_their_name)
{
	static const struct {
		uint64_t slot;
		uint32_t depth, channels;
		const char *word;
	} bad[] = {
		{ 100, 4, 1, "staging_slot_bytes" },  { 2ull << 30, 4, 1, "staging_slot_bytes" },
		{ 4096, 0, 1, "staging_depth" },      { 4096, 3, 1, "staging_depth" },
		{ 4096, 2048, 1, "staging_depth" },   { 4096, 4, 0, "staging_channels" },
		{ 4096, 4, 5000, "staging_channels" }
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct oriel_window_options o = options();

		o.staging_slot_bytes = bad[i].slot;
		o.staging_depth = bad[i].depth;
		o.staging_channels = bad[i].channels;
		CHECK(take(&o) < 0);
		CHECK_HAS(oriel_last_error(), bad[i].word);
	}
}

TEST(box_options_are_refused_with_their_name)
{
	struct oriel_window_options o = options();

	o.box_bytes = UINT32_MAX; /* without boxes it does not matter */
	CHECK_EQ(take(&o), 0);
	o.boxes = 1;
	CHECK_EQ(take(&o), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "box_bytes");
	o.box_bytes = 0;
	CHECK_EQ(take(&o), ORIEL_ERANGE);
	o.box_bytes = 8u << 20;
	CHECK_EQ(take(&o), 0);
	o.boxes = 5000;
	CHECK_EQ(take(&o), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "boxes");
}

TEST(a_box_holds_four_packets_in_either_form)
{
	for (uint64_t bytes = 1; bytes <= 8u << 20; bytes += bytes / 3 + 1) {
		struct ori_box_shape s = ori_box_shape_of(bytes, 0), queued;

		queued = ori_box_shape_of(bytes, 1);
		CHECK(s.cells >= 4 * ori_packet_cells(bytes));
		CHECK(s.slots >= 4);
		CHECK(s.slot_bytes >= bytes + 16);
		CHECK_EQ(s.cells & (s.cells - 1), 0);
		CHECK_EQ(s.slots & (s.slots - 1), 0);
		CHECK_EQ(s.stride % ORIEL_LINE_BYTES, 0);
		CHECK(s.stride >= sizeof(struct oriel_box) + s.cells * 16);
		CHECK(s.stride >= sizeof(struct oriel_box) + s.slots * s.slot_bytes);
		CHECK(queued.stride - s.stride >= s.slots * (8 + s.slot_bytes));
		CHECK(queued.stride <= UINT32_MAX); /* its place in the handle */
	}
}

TEST(boxes_lie_behind_each_other)
{
	struct oriel_window_options o = options();
	struct ori_window_layout l;

	o.boxes = 3;
	o.box_bytes = 100;
	ori_window_layout(&o, 5, 0, 0, &l);
	CHECK_EQ(l.boxes % ORIEL_LINE_BYTES, 0);
	CHECK_EQ(l.bytes - l.boxes, 5 * 3 * l.box.stride);
}

TEST(differences_are_named)
{
	struct oriel_window_options a = options(), b = options();

	CHECK(!ori_window_options_differ(&a, &b));
	b.staging_depth = 8; /* without staging it does not matter */
	CHECK(!ori_window_options_differ(&a, &b));
	b = options();
	b.barriers++;
	CHECK_HAS(ori_window_options_differ(&a, &b), "barriers");
	b = options();
	b.bytes++;
	CHECK_HAS(ori_window_options_differ(&a, &b), "bytes");
	b = options();
	b.box_bytes++; /* without boxes it does not matter */
	CHECK(!ori_window_options_differ(&a, &b));
	a.boxes = b.boxes = 1;
	CHECK_HAS(ori_window_options_differ(&a, &b), "box_bytes");
	b.boxes++;
	CHECK_HAS(ori_window_options_differ(&a, &b), "boxes");
	a = b = options();
	b.checked = 1; /* each rank's own business */
	CHECK(!ori_window_options_differ(&a, &b));
}
