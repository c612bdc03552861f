/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/alltoallv/options.c - options of an all-to-all-v request: checks, and the memory that they
 * ask for.
 *
 * Pure, but for the log.  Called by: create.c, tests.
 */
#include <stddef.h>

#include "../../util/options.h"
#include "../../comm/failure.h"
#include "alltoallv.h"

#define BYTES_MAX (1ull << 44)
#define PAGE 4096u

static_assert(BYTES_MAX < ORI_A2A_INLINE, "elements of a message in the word that tells of it");

/* ---- options --------------------------------------------------------------------------------- */

static int check_bytes(const char *what, uint64_t bytes)
{
	if (bytes <= BYTES_MAX)
		return 0;
	return ori_fail(ORIEL_ERANGE, "oriel_alltoallv_create: %s %llu, at most %llu", what,
			(unsigned long long)bytes, BYTES_MAX);
}

ORI_OPTIONS_NO_PADDING(struct oriel_alltoallv_options, recv_memory_bytes);

/* Copies a setting of the options.  It is refused if no plan can have it. */
static int take_setting(const char *name, const struct oriel_alltoallv_setting *given,
			struct ori_a2a_setting *s)
{
	*s = (struct ori_a2a_setting){ given->blocks, given->warps, given->chunk_bytes };
	if (!(s->blocks | s->warps | s->chunk) || ori_tune_setting_fits(s))
		return 0;
	return ori_fail(ORIEL_ERANGE,
			"oriel_alltoallv_create: %s has %u blocks, %u warps and chunks of %llu "
			"bytes, must be 1 to 64, 1 to 32 and a multiple of 16 up to 1 GiB, or all "
			"0",
			name, s->blocks, s->warps, (unsigned long long)s->chunk);
}

static int check_options(const struct oriel_alltoallv_options *o)
{
	int err;

	if (!o->slot_bytes == !o->recv_bytes)
		return ori_fail(ORIEL_EINVAL,
				"oriel_alltoallv_create: one of slot_bytes (fixed slots) and "
				"recv_bytes (packed) must be given, not %s",
				o->slot_bytes ? "both" : "none");
	if (!o->elem_bytes)
		return ori_fail(ORIEL_EINVAL, "oriel_alltoallv_create: elements of 0 bytes");
	if (o->synchronised != 0 && o->synchronised != 1)
		return ori_fail(ORIEL_EINVAL,
				"oriel_alltoallv_create: synchronised is %d, must be 0 or 1",
				o->synchronised);
	if (o->reserved)
		return ori_fail(ORIEL_EINVAL,
				"oriel_alltoallv_create: reserved is %d, must be 0: use "
				"ORIEL_ALLTOALLV_OPTIONS_INIT",
				o->reserved);
	err = check_bytes("slot_bytes", o->slot_bytes);
	if (!err)
		err = check_bytes("recv_bytes", o->recv_bytes);
	if (!err)
		err = check_bytes("send_bytes", o->send_bytes);
	return err ? err : check_bytes("elem_bytes", o->elem_bytes);
}

const char *ori_alltoallv_options_differ(const struct oriel_alltoallv_options *a,
					 const struct oriel_alltoallv_options *b)
{
	if (a->slot_bytes != b->slot_bytes)
		return "slot_bytes";
	if (a->recv_bytes != b->recv_bytes)
		return "recv_bytes";
	if (a->elem_bytes != b->elem_bytes)
		return "elem_bytes";
	if (!a->synchronised != !b->synchronised)
		return "synchronised";
	if (!a->recv_memory != !b->recv_memory)
		return "recv_memory";
	if (a->first_count != b->first_count)
		return "first_count";
	return NULL;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static uint64_t place(uint64_t *end, uint64_t bytes, uint64_t align)
{
	uint64_t at = round_up(*end, align);

	*end = at + bytes;
	return at;
}

/*
 * Elements of a slot.  Offsets count elements, and a slot begins at a multiple of 16 bytes.  So a
 * slot is a whole number of both.  0: a slot has no room for one element.
 */
static uint64_t slot_elems(const struct oriel_alltoallv_options *o)
{
	uint64_t unit = o->elem_bytes, step = 16;

	if (o->slot_bytes < o->elem_bytes)
		return 0;
	for (; step > 1 && unit % 2 == 0; step /= 2)
		unit /= 2;
	return round_up((o->slot_bytes + o->elem_bytes - 1) / o->elem_bytes, step);
}

void ori_alltoallv_layout(const struct oriel_alltoallv_options *o, int nranks,
			  struct ori_a2a_layout *l)
{
	uint64_t n = (uint64_t)nranks, end = 0,
		 most = o->slot_bytes ? o->slot_bytes : o->recv_bytes;

	l->inbox_bytes = round_up(most < ORI_A2A_INBOX_BYTES ? most : ORI_A2A_INBOX_BYTES,
				  ORIEL_LINE_BYTES);
	l->row_stride = sizeof(struct ori_a2a_row) + 2 * l->inbox_bytes;
	l->slot_elems = slot_elems(o);
	l->slot_stride = l->slot_elems ? l->slot_elems * o->elem_bytes :
					 round_up(o->slot_bytes, 16);
	l->recv_bytes = o->slot_bytes ? n * l->slot_stride : o->recv_bytes;
	(void)place(&end, n * l->row_stride, ORIEL_LINE_BYTES); /* rows are at 0 */
	l->state = place(&end, sizeof(struct ori_a2a_state), ORIEL_LINE_BYTES);
	l->arrived = place(&end, n * sizeof(uint32_t), ORIEL_LINE_BYTES);
	l->handle = place(&end, sizeof(struct oriel_window_dev), ORIEL_LINE_BYTES);
	l->recv_handle = o->recv_memory ?
				 place(&end, sizeof(struct oriel_window_dev), ORIEL_LINE_BYTES) :
				 l->handle;
	l->recv = o->recv_memory ? 0 : place(&end, l->recv_bytes, PAGE);
	l->bytes = end;
}

/* The caller's memory must hold what the options ask for. */
static int check_memory(const struct oriel_alltoallv_options *o, uint64_t needed)
{
	if (!o->recv_memory && o->recv_memory_bytes)
		return ori_fail(ORIEL_EINVAL,
				"oriel_alltoallv_create: recv_memory_bytes is %llu, but there is no "
				"recv_memory",
				(unsigned long long)o->recv_memory_bytes);
	if ((uintptr_t)o->recv_memory % 16u)
		return ori_fail(ORIEL_EINVAL,
				"oriel_alltoallv_create: recv_memory %p is not a multiple of 16",
				o->recv_memory);
	if (o->recv_memory && o->recv_memory_bytes < needed)
		return ori_fail(ORIEL_ERANGE,
				"oriel_alltoallv_create: recv_memory_bytes is %llu, but %llu bytes "
				"are needed to receive",
				(unsigned long long)o->recv_memory_bytes,
				(unsigned long long)needed);
	return 0;
}

int ori_alltoallv_options_take(const struct oriel_alltoallv_options *given, int nranks,
			       struct oriel_alltoallv_options *o,
			       struct ori_a2a_setting settings[ORI_PLAN_KINDS],
			       struct ori_a2a_layout *l)
{
	const struct oriel_alltoallv_options init = ORIEL_ALLTOALLV_OPTIONS_INIT;
	int err;

	*o = init;
	if (!given)
		return ori_fail(ORIEL_EINVAL, "oriel_alltoallv_create: no options");
	err = ori_options_take("oriel_alltoallv_create", "ORIEL_ALLTOALLV_OPTIONS_INIT", given, o,
			       sizeof(*o));
	if (!err)
		err = check_options(o);
	if (!err)
		err = take_setting("mapped", &o->mapped, &settings[ORI_PLAN_MAPPED]);
	if (!err)
		err = take_setting("queued", &o->queued, &settings[ORI_PLAN_QUEUED]);
	if (err)
		return err;
	ori_alltoallv_layout(o, nranks, l);
	return check_memory(o, l->recv_bytes);
}
