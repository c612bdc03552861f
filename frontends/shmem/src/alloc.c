/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc.c - shmem_malloc() and its relatives.
 *
 * All PEs make the same calls in the same order, so heap.c gives all of them the same offsets.
 * Each call compares them: a difference ends the job.
 */
#include <stdio.h>

#include "osh.h"

#define LEAST_ALIGNMENT 64 /* a cache line: blocks of different uses do not share one */

static const char *place(char text[32], uint64_t offset)
{
	if (offset == OSH_NOWHERE)
		return "no room";
	snprintf(text, 32, "offset %llu", (unsigned long long)offset);
	return text;
}

/* Ends the job: this PE and the next one pass different things. */
static void differ(const char *call, const struct osh_asked *mine, int next,
		   const struct osh_asked *theirs) __attribute__((noreturn, cold));
static void differ(const char *call, const struct osh_asked *mine, int next,
		   const struct osh_asked *theirs)
{
	char here[32], there[32];

	if (!mine->bytes != !theirs->bytes)
		osh_fail(call, "PE %d %s at %s and PE %d %s at %s: all PEs make the same calls",
			 osh.pe, mine->bytes ? "allocates" : "frees", place(here, mine->offset),
			 next, theirs->bytes ? "allocates" : "frees", place(there, theirs->offset));
	if (!mine->bytes)
		osh_fail(call, "PE %d frees the block at %s and PE %d the one at %s of the heap",
			 osh.pe, place(here, mine->offset), next, place(there, theirs->offset));
	if (mine->bytes != theirs->bytes)
		osh_fail(call, "PE %d asks for %llu bytes and PE %d for %llu: sizes must be alike",
			 osh.pe, (unsigned long long)mine->bytes, next,
			 (unsigned long long)theirs->bytes);
	osh_fail(call,
		 "PE %d finds %s and PE %d %s in its heap: alignments and all earlier calls must "
		 "be alike",
		 osh.pe, place(here, mine->offset), next, place(there, theirs->offset));
}

/*
 * Meets all PEs and compares what is asked with the next PE, so all PEs together compare all.
 * `bytes` is 0 for a block that is freed.  The same sizes at the same offsets keep all heaps alike.
 *
 * The two places are used in turn: a PE stores to a place again only after the barrier of the next
 * call, and its neighbour has read the place before that barrier.
 */
static void agree(const char *call, uint64_t bytes, uint64_t offset)
{
	static unsigned int turn;
	const struct osh_asked mine = { bytes, offset };
	int next = (osh.pe + 1) % (int)osh.npes;
	struct osh_asked theirs;
	uint64_t at;

	turn ^= 1;
	at = offsetof(struct osh_control, asked) + turn * sizeof(mine);
	osh.control->asked[turn] = mine;
	osh_barrier(call, OSH_BARRIER_ALL);
	osh_check(call, oriel_window_get_bytes(osh.window, next, at, &theirs, sizeof(theirs),
					       osh.context.group.block));
	if (theirs.bytes != bytes || theirs.offset != offset)
		differ(call, &mine, next, &theirs);
}

static void no_room(const char *call, uint64_t bytes)
{
	if (osh.pe == 0)
		fprintf(stderr,
			"shmem: %s: no room for %llu bytes: the largest free piece of the heap has "
			"%llu bytes; set SHMEM_SYMMETRIC_SIZE higher (now %llu)\n",
			call, (unsigned long long)bytes, (unsigned long long)osh_heap_largest(),
			(unsigned long long)osh.heap_bytes);
}

static void *take(const char *call, uint64_t bytes, uint64_t alignment)
{
	uint64_t offset;

	osh_check_ready(call);
	if (!bytes)
		return NULL;
	offset = osh_heap_take(bytes, alignment);
	agree(call, bytes, offset);
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
	agree(call, 0, offset);
	osh_heap_give(offset);
}

/* ---- public ---------------------------------------------------------------------------------- */

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
	/* The standard leaves these open; all PEs pass the same, so all return here. */
	if (!alignment || alignment & (alignment - 1) || alignment > OSH_HEAP_ALIGN)
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
