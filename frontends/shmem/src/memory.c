/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - the symmetric memory of a PE: one window, its regions, and the calls that allocate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "osh.h"

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
	osh.control = osh.memory;
}

/* Notes where each PE's window is here, and whether any pair of PEs is queued. */
static void find_peers(int npes)
{
	uint8_t **peers = calloc((size_t)npes, sizeof(*peers)), *queued = calloc((size_t)npes, 1);
	uint8_t mine;
	int pe;

	if (!peers || !queued)
		osh_fail("shmem_init", "no memory for %d PEs", npes);
	for (pe = 0; pe < npes; pe++) {
		peers[pe] = oriel_window_mapped(osh.window, pe);
		osh.nqueued += !peers[pe];
	}
	mine = osh.nqueued > 0;
	osh_check("shmem_init", oriel_comm_allgather(osh.comm, ORIEL_WORLD, &mine, queued, 1));
	for (pe = 0; pe < npes; pe++)
		osh.any_queued |= queued[pe];
	free(queued);
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

void osh_memory_open(uint64_t heap_bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), heap_offset;
	uint64_t heap = (heap_bytes + page - 1) & ~(page - 1);
	int npes = oriel_comm_size(osh.comm);

	osh.bounce = page;
	heap_offset = osh.bounce + OSH_BOUNCE_BYTES;
	osh_check("shmem_init", oriel_alloc(osh.comm, heap_offset + heap, &osh.memory));
	open_window(heap_offset + heap);
	find_peers(npes);
	osh_heap_open(heap);
	osh.heap = (uintptr_t)osh.memory + heap_offset;
	osh.heap_bytes = heap;
	osh.heap_offset = heap_offset;
	add_region(osh.heap, heap, heap_offset, "the symmetric heap");
	osh.context.group.size = 1;
	osh.context.group.nblocks = 1;
	osh.context.team = SHMEM_TEAM_WORLD;
	osh.context.npes = npes;
	osh.npes = (unsigned int)npes;
}

void osh_memory_close(void)
{
	osh.npes = 0;
	osh.nregions = 0;
	osh.heap_bytes = 0;
	osh.control = NULL;
	osh_heap_close();
	(void)oriel_window_source_release(osh.window, &osh.source);
	osh_check("shmem_finalize", oriel_window_destroy(osh.window));
	osh.window = NULL;
	free((void *)(uintptr_t)osh.peers);
	osh.peers = NULL;
	osh_check("shmem_finalize", oriel_free(osh.comm, osh.memory));
}

/* ---- allocation ------------------------------------------------------------------------------ */

/*
 * Meets all PEs and compares `bytes` with the next PE, so all PEs together compare all sizes.  The
 * two words are used in turn: a PE stores to a word again only after the barrier of the next
 * allocation, and its neighbour has read the word before that barrier.
 */
static void agree(const char *call, uint64_t bytes)
{
	static unsigned int turn;
	int next = (osh.pe + 1) % (int)osh.npes;
	uint64_t at, theirs;

	turn ^= 1;
	at = offsetof(struct osh_control, asked) + 8 * turn;
	osh.control->asked[turn] = bytes;
	osh_barrier(call, OSH_BARRIER_ALL);
	osh_check(call, oriel_get_value(&osh.dev, osh.context.group, next, at, &theirs, 8));
	if (theirs != bytes)
		osh_fail(call, "PE %d asks for %llu bytes and PE %d for %llu: sizes must be alike",
			 osh.pe, (unsigned long long)bytes, next, (unsigned long long)theirs);
}

static void no_room(const char *call, uint64_t bytes)
{
	if (osh.pe == 0)
		fprintf(stderr,
			"shmem: %s: no room for %llu bytes: the largest free piece of the heap has "
			"%llu of %llu bytes; set SHMEM_SYMMETRIC_SIZE higher, for example to "
			"%lluM\n",
			call, (unsigned long long)bytes, (unsigned long long)osh_heap_largest(),
			(unsigned long long)osh.heap_bytes,
			(unsigned long long)((2 * osh.heap_bytes + bytes) >> 20) + 1);
}

static void *take(const char *call, uint64_t bytes, uint64_t alignment)
{
	uint64_t offset;

	osh_check_ready(call);
	if (!bytes)
		return NULL;
	offset = osh_heap_take(bytes, alignment);
	agree(call, bytes);
	if (offset == OSH_NOWHERE) {
		no_room(call, bytes);
		return NULL;
	}
	return (void *)(osh.heap + offset);
}

/* The heap's offset of a pointer that a call gave to the program. */
static uint64_t block_of(const char *call, const void *ptr)
{
	uint64_t offset = (uintptr_t)ptr - osh.heap;

	if (offset >= osh.heap_bytes || osh_heap_bytes(offset) == OSH_NOWHERE)
		osh_fail(call, "%p was not allocated from the symmetric heap, or is already free",
			 ptr);
	return offset;
}

static void give(const char *call, void *ptr)
{
	uint64_t offset;

	osh_check_ready(call);
	if (!ptr)
		return;
	offset = block_of(call, ptr);
	osh_barrier(call, OSH_BARRIER_ALL);
	osh_heap_give(offset);
}

/* ---- public ---------------------------------------------------------------------------------- */

#define LEAST_ALIGNMENT 64 /* a cache line: blocks of different uses do not share one */

void *shmem_malloc(size_t size)
{
	return take("shmem_malloc", size, LEAST_ALIGNMENT);
}

void *shmem_malloc_with_hints(size_t size, long hints)
{
	(void)hints; /* all memory of the heap is as good */
	return take("shmem_malloc_with_hints", size, LEAST_ALIGNMENT);
}

void *shmem_calloc(size_t count, size_t size)
{
	size_t bytes;
	void *ptr;

	if (__builtin_mul_overflow(count, size, &bytes))
		bytes = SIZE_MAX / 2;
	ptr = take("shmem_calloc", bytes, LEAST_ALIGNMENT);
	if (!ptr)
		return NULL;
	memset(ptr, 0, bytes);
	/* No PE may put before every PE has cleared its part. */
	osh_barrier("shmem_calloc", OSH_BARRIER_ALL);
	return ptr;
}

void *shmem_align(size_t alignment, size_t size)
{
	if (!alignment || alignment & (alignment - 1) || alignment % sizeof(void *))
		return NULL;
	return take("shmem_align", size, alignment < LEAST_ALIGNMENT ? LEAST_ALIGNMENT : alignment);
}

void *shmem_realloc(void *ptr, size_t size)
{
	uint64_t offset, old;
	void *now;

	if (!ptr)
		return take("shmem_realloc", size, LEAST_ALIGNMENT);
	if (!size) {
		give("shmem_realloc", ptr);
		return NULL;
	}
	osh_check_ready("shmem_realloc");
	offset = block_of("shmem_realloc", ptr);
	old = osh_heap_bytes(offset);
	now = take("shmem_realloc", size, LEAST_ALIGNMENT);
	if (!now)
		return NULL;
	memcpy(now, ptr, old < size ? old : size);
	give("shmem_realloc", ptr);
	return now;
}

void shmem_free(void *ptr)
{
	give("shmem_free", ptr);
}

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
	return pe == osh.pe ? (void *)(uintptr_t)dest : osh.peers[pe] + offset;
}

/* ---- deprecated names ------------------------------------------------------------------------ */

void *shmalloc(size_t size)
{
	return take("shmalloc", size, LEAST_ALIGNMENT);
}

void *shmemalign(size_t alignment, size_t size)
{
	return shmem_align(alignment, size);
}

void *shrealloc(void *ptr, size_t size)
{
	return shmem_realloc(ptr, size);
}

void shfree(void *ptr)
{
	give("shfree", ptr);
}
