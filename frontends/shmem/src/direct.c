/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.c - collectives of large blocks among mapped PEs: each PE copies from the others' memory.
 *
 * The rounds of Oriel copy data twice, through memory of their own, because any memory must do.
 * Sources of OpenSHMEM are symmetric, so mapped PEs can read them where they are.  The PEs first
 * exchange what they offer.  That publishes their sources, and all compare the calls.  They meet
 * again after the copies: then the sources may be written.
 */
#include <stdlib.h>

#include "set.h"

/* Blocks from here on are copied directly: two meetings cost less than a second copy. */
#define DIRECT_BYTES (16u << 10)

enum kind { BROADCAST = 1, GATHER, EXCHANGE };

struct offer {
	uint64_t bytes, offset; /* of a block; of the source in the window, or OSH_NOWHERE */
	uint32_t kind;
	int32_t root;
};

static void compare(const char *call, const struct osh_set *s, const struct offer *all)
{
	for (int i = 1; i < s->n; i++) {
		if (all[i].kind != all[0].kind || all[i].root != all[0].root)
			osh_fail(call, "PE %d makes another call than PE %d", s->world[i],
				 s->world[0]);
		if (all[i].bytes != all[0].bytes)
			osh_fail(call, "PE %d gives %llu bytes, PE %d %llu", s->world[i],
				 (unsigned long long)all[i].bytes, s->world[0],
				 (unsigned long long)all[0].bytes);
	}
}

/*
 * Exchanges offers.  Returns those of all PEs, or NULL if a source cannot be read from everywhere.
 * All PEs come to the same result.
 */
static struct offer *exchange_offers(const char *call, struct osh_set *s, const void *source,
				     uint64_t span, const struct offer *terms)
{
	struct offer mine = *terms, *all;

	if (!s->mapped || terms->bytes < DIRECT_BYTES)
		return NULL;
	all = osh_set_scratch(call, (uint64_t)s->n * sizeof(*all));
	mine.offset = span ? osh_offset(source, span) : 0;
	osh_set_gather(call, s, &mine, all, sizeof(mine));
	compare(call, s, all);
	for (int i = 0; i < s->n; i++) {
		if (all[i].offset != OSH_NOWHERE)
			continue;
		free(all);
		return NULL;
	}
	return all;
}

static const uint8_t *source_of(const struct osh_set *s, const struct offer *all, int i)
{
	return osh.peers[s->world[i]] + all[i].offset;
}

static void end(const char *call, struct osh_set *s, struct offer *all)
{
	free(all);
	osh_set_meet(call, s);
}

int osh_direct_broadcast(const char *call, struct osh_set *s, void *dest, const void *source,
			 uint64_t bytes, int root)
{
	struct offer terms = { bytes, 0, BROADCAST, root };
	struct offer *all = exchange_offers(call, s, source, s->rank == root ? bytes : 0, &terms);

	if (!all)
		return 0;
	if (s->rank != root)
		memcpy(dest, source_of(s, all, root), bytes);
	end(call, s, all);
	return 1;
}

/* From the next PE on, so that PEs do not all read from the same one. */
static void copy_blocks(const struct osh_set *s, const struct offer *all, uint8_t *dest,
			uint64_t bytes, uint64_t from)
{
	for (int k = 1; k <= s->n; k++) {
		int i = (s->rank + k) % s->n;

		memmove(dest + (uint64_t)i * bytes, source_of(s, all, i) + from, bytes);
	}
}

int osh_direct_gather(const char *call, struct osh_set *s, const void *source, void *dest,
		      uint64_t bytes)
{
	struct offer terms = { bytes, 0, GATHER, 0 };
	struct offer *all = exchange_offers(call, s, source, bytes, &terms);

	if (!all)
		return 0;
	copy_blocks(s, all, dest, bytes, 0);
	end(call, s, all);
	return 1;
}

int osh_direct_exchange(const char *call, struct osh_set *s, const void *source, void *dest,
			uint64_t bytes)
{
	struct offer terms = { bytes, 0, EXCHANGE, 0 };
	uint64_t span = osh_set_bytes(call, bytes, (size_t)s->n);
	struct offer *all = exchange_offers(call, s, source, span, &terms);

	if (!all)
		return 0;
	copy_blocks(s, all, dest, bytes, (uint64_t)s->rank * bytes);
	end(call, s, all);
	return 1;
}
