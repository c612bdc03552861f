/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/slab.c - cuts a range of offsets into page-aligned pieces.
 *
 * Knows offsets only, not memory.  First fit over a short list of free ranges, sorted and merged: a
 * comm has tens of windows, not millions.  The caller holds the comm's lock.
 */
#include <stdlib.h>

#include "../util/util.h"
#include "slab.h"

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + ORI_SLAB_ALIGN - 1) & ~(uint64_t)(ORI_SLAB_ALIGN - 1);
}

static struct ori_range *new_range(uint64_t offset, uint64_t bytes, struct ori_range *next)
{
	struct ori_range *r = malloc(sizeof(*r));

	if (r) {
		r->offset = offset;
		r->bytes = bytes;
		r->next = next;
	}
	return r;
}

int ori_slab_init(struct ori_slab *slab, uint64_t bytes)
{
	slab->bytes = bytes & ~(uint64_t)(ORI_SLAB_ALIGN - 1);
	slab->used = 0;
	slab->limited = 0;
	slab->free_ranges = new_range(0, slab->bytes, NULL);
	return slab->free_ranges ? 0 : ori_fail(ORIEL_ENOMEM, "no memory for the control slab");
}

void ori_slab_destroy(struct ori_slab *slab)
{
	while (slab->free_ranges) {
		struct ori_range *r = slab->free_ranges;

		slab->free_ranges = r->next;
		free(r);
	}
}

int ori_slab_take(struct ori_slab *slab, uint64_t bytes, uint64_t *offset)
{
	uint64_t want = whole_pages(bytes);

	if (want < bytes || want == 0)
		return ori_fail(ORIEL_EINVAL, "cannot take %llu bytes of control memory",
				(unsigned long long)bytes);
	for (struct ori_range **at = &slab->free_ranges; *at; at = &(*at)->next) {
		struct ori_range *r = *at;

		if (r->bytes < want)
			continue;
		*offset = r->offset;
		r->offset += want;
		r->bytes -= want;
		if (r->bytes == 0) {
			*at = r->next;
			free(r);
		}
		slab->used += want;
		return 0;
	}
	return ori_fail(ORIEL_ENOMEM,
			"control memory is full: %llu bytes wanted, %llu of %llu in use; %s",
			(unsigned long long)want, (unsigned long long)slab->used,
			(unsigned long long)slab->bytes,
			slab->limited ? "limits of this process keep it small, raise them "
					"(ulimit -f, ulimit -v)" :
					"it has words, staging slots and boxes of all windows: ask "
					"for fewer windows, or for smaller slots or boxes");
}

void ori_slab_give(struct ori_slab *slab, uint64_t offset, uint64_t bytes)
{
	struct ori_range **at = &slab->free_ranges, *before = NULL, *next;
	uint64_t size = whole_pages(bytes);

	slab->used -= size;
	while (*at && (*at)->offset < offset) {
		before = *at;
		at = &(*at)->next;
	}
	next = *at;
	if (before && before->offset + before->bytes == offset) {
		before->bytes += size;
	} else {
		struct ori_range *r = new_range(offset, size, next);

		/* Without memory for the record the range is lost, but nothing breaks. */
		if (!r)
			return;
		*at = r;
		before = r;
	}
	if (next && before->offset + before->bytes == next->offset) {
		before->bytes += next->bytes;
		before->next = next->next;
		free(next);
	}
}
