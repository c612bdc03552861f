/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/layout.c - checks a window's options, and places its arrays in control memory.
 *
 * Pure functions.  Rows that different ranks write start on separate cache lines, so that two
 * sources never compete for one line.
 */
#include <oriel/device.h>

#include "../util/options.h"
#include "window.h"

#define IDS_MAX 65536u
#define STAGING_MAX (1ull << 40) /* bytes per peer */
#define BOXES_MAX 1024u
#define LINE_WORDS (ORIEL_LINE_BYTES / 8u)

static int check_count(const char *what, uint32_t n)
{
	if (n <= IDS_MAX)
		return 0;
	return ori_fail(ORIEL_ERANGE, "oriel_window_create: %u %s, at most %u", n, what, IDS_MAX);
}

static int check_staging(const struct oriel_window_options *o)
{
	if (!o->staging_slot_bytes)
		return 0;
	if (o->staging_slot_bytes % 16 || o->staging_slot_bytes > (1ull << 30))
		return ori_fail(ORIEL_EINVAL,
				"oriel_window_create: staging_slot_bytes %llu is not a multiple of "
				"16 up to 1 GiB",
				(unsigned long long)o->staging_slot_bytes);
	/* A power of two: the slot is the count modulo the depth, even when the count wraps. */
	if (!o->staging_depth || (o->staging_depth & (o->staging_depth - 1)) ||
	    o->staging_depth > 1024)
		return ori_fail(ORIEL_EINVAL,
				"oriel_window_create: staging_depth %u is not a power of two up to "
				"1024",
				o->staging_depth);
	if (!o->staging_channels || o->staging_channels > 1024)
		return ori_fail(ORIEL_ERANGE, "oriel_window_create: staging_channels %u, 1 to 1024",
				o->staging_channels);
	/* Their product over all peers must fit in 64 bits. */
	if (o->staging_slot_bytes * o->staging_depth * o->staging_channels > STAGING_MAX)
		return ori_fail(ORIEL_ERANGE,
				"oriel_window_create: %u channels of %u slots of %llu bytes for "
				"each peer, at most %llu bytes in all",
				o->staging_channels, o->staging_depth,
				(unsigned long long)o->staging_slot_bytes, STAGING_MAX);
	return 0;
}

static int check_boxes(const struct oriel_window_options *o)
{
	if (o->boxes > BOXES_MAX)
		return ori_fail(ORIEL_ERANGE, "oriel_window_create: %u boxes, at most %u", o->boxes,
				BOXES_MAX);
	if (o->boxes && (!o->box_bytes || o->box_bytes > ORI_BOX_BYTES_MAX))
		return ori_fail(ORIEL_ERANGE, "oriel_window_create: box_bytes %u, 1 to %u",
				o->box_bytes, ORI_BOX_BYTES_MAX);
	return 0;
}

ORI_OPTIONS_NO_PADDING(struct oriel_window_options, box_bytes);

int ori_window_options_take(const struct oriel_window_options *given,
			    struct oriel_window_options *o)
{
	const struct oriel_window_options init = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	*o = init;
	if (!given)
		return ori_fail(ORIEL_EINVAL, "oriel_window_create: no options");
	err = ori_options_take("oriel_window_create", "ORIEL_WINDOW_OPTIONS_INIT", given, o,
			       sizeof(*o));
	if (err)
		return err;
	if (o->buffer && !o->bytes)
		return ori_fail(ORIEL_EINVAL, "oriel_window_create: a buffer of 0 bytes");
	if (o->bytes > (1ull << 46))
		return ori_fail(ORIEL_ERANGE, "oriel_window_create: a buffer of %llu bytes",
				(unsigned long long)o->bytes);
	err = check_count("signals", o->signals);
	if (!err)
		err = check_count("counters", o->counters);
	if (!err)
		err = check_count("barriers", o->barriers);
	if (!err)
		err = check_staging(o);
	return err ? err : check_boxes(o);
}

const char *ori_window_options_differ(const struct oriel_window_options *a,
				      const struct oriel_window_options *b)
{
	if (a->bytes != b->bytes)
		return "bytes";
	if (a->signals != b->signals)
		return "signals";
	if (a->counters != b->counters)
		return "counters";
	if (a->barriers != b->barriers)
		return "barriers";
	if (a->staging_slot_bytes != b->staging_slot_bytes)
		return "staging_slot_bytes";
	if (a->staging_slot_bytes && a->staging_depth != b->staging_depth)
		return "staging_depth";
	if (a->staging_slot_bytes && a->staging_channels != b->staging_channels)
		return "staging_channels";
	if (a->first_count != b->first_count)
		return "first_count";
	if (a->boxes != b->boxes)
		return "boxes";
	if (a->boxes && a->box_bytes != b->box_bytes)
		return "box_bytes";
	return NULL;
}

static uint32_t row_words(uint32_t ids)
{
	return (ids + LINE_WORDS - 1) / LINE_WORDS * LINE_WORDS;
}

/* The place of an array of `words` words; the next one starts on a new line. */
static uint64_t place(uint64_t *end, uint64_t words)
{
	uint64_t at = *end;

	*end += (words * 8 + ORIEL_LINE_BYTES - 1) & ~(uint64_t)(ORIEL_LINE_BYTES - 1);
	return at;
}

void ori_window_layout(const struct oriel_window_options *o, int nranks, uint32_t lanes,
		       uint32_t nics, struct ori_window_layout *l)
{
	uint64_t n = (uint64_t)nranks, end = 0;
	uint64_t channels = o->staging_slot_bytes ? n * o->staging_channels : 0;

	l->signal_stride = row_words(o->signals);
	l->counter_stride = row_words(o->counters);
	l->barrier_stride = row_words(o->barriers);
	l->header = place(&end, sizeof(struct ori_window_header) / 8);
	/* Each NIC adds only to its own words: see ori_signal_plane() in device/handle.h. */
	l->word_nics = nics < lanes ? nics : lanes;
	if (!l->word_nics)
		l->word_nics = 1;
	l->signal_words = place(&end, l->word_nics * n * l->signal_stride);
	l->signal_base = place(&end, n * l->signal_stride);
	l->signal_sum_base = place(&end, o->signals);
	l->counter_lanes = lanes ? lanes : 1;
	l->counter_words = place(&end, n * l->counter_lanes * l->counter_stride);
	l->counter_base = place(&end, n * l->counter_stride);
	l->arrival_words = place(&end, l->word_nics * n * l->barrier_stride);
	l->arrival_sent = place(&end, n * l->barrier_stride);
	l->barrier_users = place(&end, (o->barriers + 1) / 2);
	l->grids = place(&end, o->barriers * (sizeof(struct oriel_grid) / 8));
	l->signal_ops = place(&end, n * l->signal_stride);
	l->staging_words = place(&end, channels * ori_staging_row_words(o->staging_depth));
	l->staging_free = place(&end, channels * ORI_STAGING_LINE_WORDS);
	l->staging_cursors = place(&end, channels * ORI_STAGING_LINE_WORDS);
	l->staging = place(&end, channels * o->staging_depth * (o->staging_slot_bytes / 8));
	l->signal_totals = place(&end, lanes ? n * l->signal_stride : 0);
	l->staging_posted = place(&end, lanes ? channels * o->staging_depth : 0);
	l->staging_out =
		place(&end, lanes ? channels * o->staging_depth * (o->staging_slot_bytes / 8) : 0);
	l->box = ori_box_shape_of(o->box_bytes, lanes != 0);
	l->boxes = place(&end, n * o->boxes * (l->box.stride / 8));
	l->has_turns = 0;
	l->signal_turns = end;
	l->bytes = end;
}

void ori_window_layout_turns(int nranks, struct ori_window_layout *l)
{
	uint64_t turns = (uint64_t)nranks * l->signal_stride;

	l->has_turns = 1;
	l->signal_turns = place(&l->bytes, turns * (sizeof(struct oriel_turn) / 8));
}
