/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.c - which bytes of the symmetric heap are free.
 *
 * All PEs make the same calls in the same order and must get the same offsets.  So the result
 * depends on the calls alone: first fit by offset.  The book-keeping is in private memory.  A
 * program that writes beyond its block destroys data, but not the heap.
 *
 * Blocks are a list sorted by offset, without gaps; two neighbours are never both free.  Free
 * blocks are in a second list, also sorted.  The calls are collective, so they come one at a time;
 * the lock is for programs that break this rule.
 */
#include <pthread.h>
#include <stdlib.h>

#include "osh.h"

struct block {
	uint64_t offset;
	uint64_t bytes;
	uint64_t asked;                         /* by the program; 0: free */
	struct block *before, *after;           /* neighbours */
	struct block *free_before, *free_after; /* of a free block */
	struct block *chain;                    /* of a used block: the next of its bucket */
};

#define BUCKETS 1024 /* of used blocks by offset, for shmem_free() */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *first, *first_free;
static struct block *used[BUCKETS];

static struct block **bucket_of(uint64_t offset)
{
	/* Blocks begin at multiples of 64. */
	return &used[(offset / 64 * 0x9e3779b97f4a7c15u) >> 54];
}

static struct block *new_block(uint64_t offset, uint64_t bytes)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b)
		osh_fail("shmem_malloc", "no memory for the book-keeping of the heap");
	b->offset = offset;
	b->bytes = bytes;
	return b;
}

static void insert_after(struct block *at, struct block *b)
{
	b->before = at;
	b->after = at->after;
	if (b->after)
		b->after->before = b;
	at->after = b;
}

static void take_out(struct block *b)
{
	if (b->before)
		b->before->after = b->after;
	if (b->after)
		b->after->before = b->before;
}

/* Puts a free block into the second list.  `from` is a free block before it, or NULL. */
static void free_insert(struct block *b, struct block *from)
{
	struct block *next = from ? from->free_after : first_free;

	while (next && next->offset < b->offset) {
		from = next;
		next = next->free_after;
	}
	b->free_before = from;
	b->free_after = next;
	if (next)
		next->free_before = b;
	*(from ? &from->free_after : &first_free) = b;
}

static void free_take_out(struct block *b)
{
	*(b->free_before ? &b->free_before->free_after : &first_free) = b->free_after;
	if (b->free_after)
		b->free_after->free_before = b->free_before;
}

/* Cuts a free block at `bytes`.  The rest becomes a free block of its own. */
static void cut(struct block *b, uint64_t bytes)
{
	struct block *rest;

	if (b->bytes == bytes)
		return;
	rest = new_block(b->offset + bytes, b->bytes - bytes);
	b->bytes = bytes;
	insert_after(b, rest);
	free_insert(rest, b);
}

/* Joins a free block with its free successor. */
static void join(struct block *b)
{
	struct block *next = b->after;

	free_take_out(next);
	take_out(next);
	b->bytes += next->bytes;
	free(next);
}

static uint64_t round_up(uint64_t n, uint64_t alignment)
{
	return (n + alignment - 1) & ~(alignment - 1);
}

/* Used blocks have whole lines, so all blocks begin at multiples of 64. */
static uint64_t lines(uint64_t bytes)
{
	return round_up(bytes, 64);
}

static struct block *find(uint64_t offset)
{
	struct block *b = *bucket_of(offset);

	while (b && b->offset != offset)
		b = b->chain;
	return b;
}

/* ---- calls ----------------------------------------------------------------------------------- */

void osh_heap_open(uint64_t bytes)
{
	first = NULL;
	first_free = NULL;
	if (!bytes)
		return;
	first = new_block(0, bytes);
	free_insert(first, NULL);
}

void osh_heap_close(void)
{
	struct block *b;

	while ((b = first)) {
		first = b->after;
		free(b);
	}
	first_free = NULL;
	memset(used, 0, sizeof(used));
}

static uint64_t take(uint64_t bytes, uint64_t alignment)
{
	uint64_t want = lines(bytes), skip;
	struct block *b, **bucket;

	if (want < bytes)
		return OSH_NOWHERE;
	for (b = first_free; b; b = b->free_after) {
		skip = round_up(b->offset, alignment) - b->offset;
		if (skip <= b->bytes && want <= b->bytes - skip)
			break;
	}
	if (!b)
		return OSH_NOWHERE;
	if (skip) {
		cut(b, skip);
		b = b->after;
	}
	cut(b, want);
	free_take_out(b);
	b->asked = bytes;
	bucket = bucket_of(b->offset);
	b->chain = *bucket;
	*bucket = b;
	return b->offset;
}

uint64_t osh_heap_take(uint64_t bytes, uint64_t alignment)
{
	uint64_t offset;

	pthread_mutex_lock(&lock);
	offset = take(bytes, alignment);
	pthread_mutex_unlock(&lock);
	return offset;
}

uint64_t osh_heap_bytes(uint64_t offset)
{
	struct block *b;
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	b = find(offset);
	bytes = b ? b->asked : OSH_NOWHERE;
	pthread_mutex_unlock(&lock);
	return bytes;
}

static int give(uint64_t offset)
{
	struct block *b = find(offset), **at = bucket_of(offset);

	if (!b)
		return -1;
	while (*at != b)
		at = &(*at)->chain;
	*at = b->chain;
	b->asked = 0;
	free_insert(b, b->before && !b->before->asked ? b->before : NULL);
	if (b->after && !b->after->asked)
		join(b);
	if (b->before && !b->before->asked)
		join(b->before);
	return 0;
}

int osh_heap_give(uint64_t offset)
{
	int result;

	pthread_mutex_lock(&lock);
	result = give(offset);
	pthread_mutex_unlock(&lock);
	return result;
}

uint64_t osh_heap_largest(void)
{
	uint64_t largest = 0;
	struct block *b;

	pthread_mutex_lock(&lock);
	for (b = first_free; b; b = b->free_after)
		largest = b->bytes > largest ? b->bytes : largest;
	pthread_mutex_unlock(&lock);
	return largest;
}
