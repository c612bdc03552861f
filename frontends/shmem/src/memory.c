/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - the symmetric memory of a PE: one window and its regions.
 *
 * shmem_init() opens it, before any other call.  Later only the tables are read, by any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "globals.h"
#include "osh.h"

static uint64_t round_up(uint64_t n, uint64_t alignment)
{
	return (n + alignment - 1) & ~(alignment - 1);
}

/* ---- addresses ------------------------------------------------------------------------------- */

uint64_t osh_offset_search(const void *address, uint64_t bytes)
{
	const struct osh_region *r;
	uint64_t at;
	unsigned int i;

	for (i = 0; i < osh.nregions; i++) {
		r = &osh.regions[i];
		at = (uintptr_t)address - r->base;
		/* An address right behind the region belongs to it if no byte is used. */
		if (at <= r->bytes && bytes <= r->bytes - at && (bytes || at < r->bytes))
			return r->offset + at;
	}
	return OSH_NOWHERE;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void open_window(uint64_t bytes)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.signals = 0;
	o.counters = 0;
	o.barriers = OSH_BARRIERS;
	o.buffer = osh.memory;
	o.bytes = bytes;
	osh_check("shmem_init", oriel_window_create(osh.comm, &o, &osh.window));
	osh_check("shmem_init", oriel_window_device(osh.window, &osh.dev));
	osh_check("shmem_init", oriel_window_source(osh.window, osh.memory, bytes, &osh.source));
	osh.control = (struct osh_control *)osh.memory;
}

/*
 * What PEs must have alike: the sizes of the parts, in order, so that offsets mean the same
 * everywhere.  `queued` is collected on the way.
 */
struct shape {
	uint64_t heap_bytes;
	uint64_t globals_bytes;
	uint64_t globals_hash;
	uint64_t queued;
};

static uint64_t hash_of(const struct osh_globals *g)
{
	uint64_t hash = 0xcbf29ce484222325u;
	const char *c;
	int i;

	for (i = 0; i < g->n; i++) {
		hash = (hash ^ g->segment[i].bytes) * 0x100000001b3u;
		for (c = g->segment[i].name; *c; c++)
			hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
	}
	return hash;
}

static void compare_shapes(const struct shape *mine, const struct shape *other, int pe)
{
	if (other->heap_bytes != mine->heap_bytes)
		osh_fail("shmem_init",
			 "SHMEM_SYMMETRIC_SIZE is %llu bytes here and %llu on PE %d: it must be "
			 "alike on all PEs",
			 (unsigned long long)mine->heap_bytes,
			 (unsigned long long)other->heap_bytes, pe);
	if (other->globals_bytes != mine->globals_bytes ||
	    other->globals_hash != mine->globals_hash)
		osh_fail("shmem_init",
			 "PE %d runs another program, or other versions of its libraries: its "
			 "variables have %llu bytes, here they have %llu",
			 pe, (unsigned long long)other->globals_bytes,
			 (unsigned long long)mine->globals_bytes);
}

/* Compares what all PEs have, before memory is exposed. */
static void agree_on_shape(const struct osh_globals *g, uint64_t heap_bytes, int npes)
{
	struct shape mine = { heap_bytes, g->bytes, hash_of(g), 0 };
	struct shape *all = calloc((size_t)npes, sizeof(*all));
	int pe;

	if (!all)
		osh_fail("shmem_init", "no memory for %d PEs", npes);
	for (pe = 0; pe < npes; pe++)
		mine.queued |= oriel_comm_peer_kind(osh.comm, pe) == ORIEL_PEER_QUEUED;
	osh_check("shmem_init",
		  oriel_comm_allgather(osh.comm, ORIEL_WORLD, &mine, all, sizeof(mine)));
	for (pe = 0; pe < npes; pe++) {
		compare_shapes(&mine, &all[pe], pe);
		osh.any_queued |= all[pe].queued != 0;
	}
	free(all);
}

/* Notes where each PE's window is here. */
static void find_peers(int npes)
{
	uint8_t **peers = calloc((size_t)npes, sizeof(*peers));
	int pe;

	if (!peers)
		osh_fail("shmem_init", "no memory for %d PEs", npes);
	for (pe = 0; pe < npes; pe++) {
		peers[pe] = oriel_window_mapped(osh.window, pe);
		osh.nqueued += !peers[pe];
	}
	osh.peers = peers;
}

static void add_region(uintptr_t base, uint64_t bytes, uint64_t offset, const char *name)
{
	struct osh_region *r = &osh.regions[osh.nregions++];

	r->base = base;
	r->bytes = bytes;
	r->offset = offset;
	snprintf(r->name, sizeof(r->name), "%s", name);
}

static void add_regions(const struct osh_globals *g, uint64_t globals_offset)
{
	char name[sizeof(osh.regions[0].name)];
	int i;

	add_region(osh.heap, osh.heap_bytes, osh.heap_offset, "the symmetric heap");
	for (i = 0; i < g->n; i++) {
		snprintf(name, sizeof(name), "the variables of %s", g->segment[i].name);
		add_region(g->segment[i].start, g->segment[i].bytes, globals_offset, name);
		globals_offset += g->segment[i].bytes;
	}
}

/* Takes memory and places the window in it so that the heap is aligned. */
static void take_memory(void)
{
	uint64_t bytes = osh.heap_offset + osh.heap_bytes;

	if (oriel_alloc(osh.comm, bytes + OSH_HEAP_ALIGN, &osh.allocation))
		osh_fail("shmem_init",
			 "%s; %llu bytes of it are the symmetric heap: set SHMEM_SYMMETRIC_SIZE "
			 "lower, or raise the limit",
			 oriel_last_error(), (unsigned long long)osh.heap_bytes);
	osh.heap = round_up((uintptr_t)osh.allocation + osh.heap_offset, OSH_HEAP_ALIGN);
	osh.memory = (uint8_t *)osh.heap - osh.heap_offset;
}

static void open_default_context(int npes)
{
	osh.context.group.size = 1;
	osh.context.group.nblocks = 1;
	osh.context.team = SHMEM_TEAM_WORLD;
	osh.context.npes = npes;
}

void osh_memory_open(uint64_t heap_bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), globals_offset;
	int npes = oriel_comm_size(osh.comm);
	struct osh_globals globals;

	osh_globals_find(&globals);
	osh.heap_bytes = round_up(heap_bytes, page);
	agree_on_shape(&globals, osh.heap_bytes, npes);
	globals_offset = page;
	osh.heap_offset = globals_offset + globals.bytes;
	take_memory();
	open_window(osh.heap_offset + osh.heap_bytes);
	find_peers(npes);
	osh_heap_open(osh.heap_bytes);
	open_default_context(npes);
	osh_globals_move(&globals, osh.memory + globals_offset);
	add_regions(&globals, globals_offset);
	osh.npes = (unsigned int)npes;
	osh_debug("heap of %llu bytes at %p, %d segments of variables with %llu bytes",
		  (unsigned long long)osh.heap_bytes, (void *)osh.heap, globals.n,
		  (unsigned long long)globals.bytes);
}

/* Handles are forgotten before a failure is reported: the report must not use what is destroyed. */
void osh_memory_close(void)
{
	struct oriel_window *window = osh.window;
	void *allocation = osh.allocation;

	osh.npes = 0;
	osh.nregions = 0;
	osh.nqueued = 0;
	osh.any_queued = 0;
	osh.heap_bytes = 0;
	osh.control = NULL;
	osh_heap_close();
	(void)oriel_window_source_release(window, &osh.source);
	osh.window = NULL;
	osh_check("shmem_finalize", oriel_window_destroy(window));
	free((void *)(uintptr_t)osh.peers);
	osh.peers = NULL;
	/* The program's variables keep their pages: their own mapping holds them. */
	osh.allocation = NULL;
	osh_check("shmem_finalize", oriel_free(osh.comm, allocation));
}

/* ---- public: where things are ---------------------------------------------------------------- */

int shmem_pe_accessible(int pe)
{
	osh_check_ready("shmem_pe_accessible");
	return (unsigned int)pe < osh.npes;
}

int shmem_addr_accessible(const void *addr, int pe)
{
	osh_check_ready("shmem_addr_accessible");
	return (unsigned int)pe < osh.npes && osh_offset(addr, 1) != OSH_NOWHERE;
}

void *shmem_ptr(const void *dest, int pe)
{
	uint64_t offset;

	osh_check_pe("shmem_ptr", pe);
	offset = osh_offset(dest, 1);
	if (offset == OSH_NOWHERE || !osh.peers[pe])
		return NULL;
	return osh_mapped(pe, dest, offset);
}
