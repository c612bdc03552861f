/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/ranges.c - the memory type of the library's own addresses, without a driver call.
 *
 * Every copy must know whether its ends are device memory or pinned.  The driver needs about a
 * microsecond for each end, which is a tenth of a small message.  Memory that this library has
 * mapped, opened or pinned is looked up here instead.  Ranges of one type each, sorted, for the
 * whole process.  The user's own memory is not listed.
 *
 * Called by: memory.c, pinned.c, export.c.  Any thread.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "cuda_device.h"

struct range {
	uintptr_t base;
	size_t bytes;
	int type;
	int users; /* CUDA IPC returns the same address for two openings */
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct range *ranges; /* by base; they do not overlap */
static size_t count, room;

/* The first range whose base is above the address. */
static size_t after(uintptr_t at)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges[middle].base <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* NULL: not the library's memory. */
static struct range *find(uintptr_t at)
{
	size_t next = after(at);

	if (!next || at - ranges[next - 1].base >= ranges[next - 1].bytes)
		return NULL;
	return &ranges[next - 1];
}

static int grow(void)
{
	size_t more = room ? 2 * room : 64;
	struct range *larger;

	if (count < room)
		return 0;
	larger = realloc(ranges, more * sizeof(*ranges));
	if (!larger)
		return -1;
	ranges = larger;
	room = more;
	return 0;
}

void ori_cuda_range_add(const void *base, size_t bytes, int type)
{
	uintptr_t at = (uintptr_t)base;
	struct range *known;
	size_t next;

	pthread_rwlock_wrlock(&lock);
	known = find(at);
	if (known) {
		known->users += known->base == at;
	} else if (!grow()) { /* without memory for the entry, the driver is asked */
		next = after(at);
		memmove(&ranges[next + 1], &ranges[next], (count - next) * sizeof(*ranges));
		ranges[next] = (struct range){ at, bytes, type, 1 };
		count++;
	}
	pthread_rwlock_unlock(&lock);
}

static void remove_at(size_t n)
{
	count--;
	memmove(&ranges[n], &ranges[n + 1], (count - n) * sizeof(*ranges));
	if (count)
		return;
	free(ranges);
	ranges = NULL;
	room = 0;
}

void ori_cuda_range_remove(const void *base)
{
	struct range *known;

	pthread_rwlock_wrlock(&lock);
	known = find((uintptr_t)base);
	if (known && known->base == (uintptr_t)base && !--known->users)
		remove_at((size_t)(known - ranges));
	pthread_rwlock_unlock(&lock);
}

int ori_cuda_range_type(const void *ptr)
{
	struct range *known;
	int type;

	pthread_rwlock_rdlock(&lock);
	known = find((uintptr_t)ptr);
	type = known ? known->type : 0;
	pthread_rwlock_unlock(&lock);
	return type;
}
