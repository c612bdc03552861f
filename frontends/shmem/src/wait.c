/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - waits for words of this PE's symmetric memory, and tests of them.  The typed calls are
 * in wait_typed.c.
 *
 * Waits are Oriel's: they drive the queues, sleep when nothing comes, end at the deadline, and say
 * what they wait for when it is late.  A program that tests in a loop gets the same care here, in
 * small: every failed test drives the queues, some give the core to other PEs, and a few look
 * whether the job still lives.
 */
#include <sched.h>

#include "wait.h"

#define TESTS_PER_YIELD 16
#define TESTS_PER_LOOK 1024

static void check_cmp(const char *call, int cmp)
{
	if (OSH_UNLIKELY(cmp < SHMEM_CMP_EQ || cmp > SHMEM_CMP_LE))
		osh_fail(call, "%d is not a comparison (SHMEM_CMP_EQ to SHMEM_CMP_LE)", cmp);
}

void osh_wait(const char *call, uint64_t offset, int type, int cmp, uint64_t value)
{
	int err;

	check_cmp(call, cmp);
	osh_awaited_begin(offset, oriel_type_bytes(type));
	err = oriel_wait_word(&osh.dev, osh.context.group, offset, type, cmp, value);
	osh_awaited_end();
	osh_check(call, err);
}

void osh_wait_for(const char *call, const volatile void *ivar, int type, int cmp, uint64_t value)
{
	struct oriel_words one;

	osh_words(call, &one, ivar, 1, NULL, type, cmp, value, NULL);
	osh_wait(call, one.offset, type, cmp, value);
}

void osh_words(const char *call, struct oriel_words *words, const volatile void *ivars, size_t n,
	       const int *status, int type, int cmp, uint64_t value, const void *values)
{
	uint64_t bytes = oriel_type_bytes(type), all;
	const void *address = (const void *)(uintptr_t)ivars;

	osh_check_ready(call);
	check_cmp(call, cmp);
	if (__builtin_mul_overflow(n, bytes, &all))
		all = UINT64_MAX;
	words->offset = n ? osh_offset_of(call, "ivars", address, all) : 0;
	if (OSH_UNLIKELY(words->offset & (bytes - 1)))
		osh_fail(call, "ivars %p is not aligned to its %llu bytes", address,
			 (unsigned long long)bytes);
	words->count = n;
	words->type = type;
	words->cmp = cmp;
	words->value = value;
	words->values = values;
	words->skip = status;
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* Word i alone. */
static struct oriel_words one_of(const struct oriel_words *words, uint64_t i)
{
	uint64_t bytes = oriel_type_bytes(words->type);
	struct oriel_words one = *words;

	one.offset += i * bytes;
	one.count = 1;
	one.skip = NULL;
	if (one.values)
		one.values = (const uint8_t *)one.values + i * bytes;
	return one;
}

/*
 * Where a search for any word begins: after the word that this thread found last.  So no word
 * waits for ever behind one that always compares.
 */
static _Thread_local uint64_t turn;

/* Waits for one of the words, from `first` on; its index, or their count if none is left. */
static uint64_t wait_any(const char *call, const struct oriel_words *words, uint64_t first)
{
	uint64_t index;
	int err;

	osh_awaited_begin(words->offset, words->count * oriel_type_bytes(words->type));
	err = oriel_wait_any_word(&osh.dev, osh.context.group, words, first, &index);
	osh_awaited_end();
	osh_check(call, err);
	return index;
}

void osh_wait_all(const char *call, const struct oriel_words *words)
{
	struct oriel_words one;
	uint64_t i;

	for (i = 0; i < words->count; i++) {
		if (words->skip && words->skip[i])
			continue;
		one = one_of(words, i);
		(void)wait_any(call, &one, 0);
	}
}

size_t osh_wait_any(const char *call, const struct oriel_words *words)
{
	uint64_t index = wait_any(call, words, turn);

	turn = index + 1;
	return index < words->count ? index : SIZE_MAX;
}

/* The indices of all words from `first` on that compare now. */
static size_t collect(const struct oriel_words *words, uint64_t first, size_t *indices)
{
	struct oriel_words one;
	size_t n = 0;
	uint64_t i;

	for (i = first; i < words->count; i++) {
		if (words->skip && words->skip[i])
			continue;
		one = one_of(words, i);
		if (oriel_find_word(&osh.dev, &one, 0) == 0)
			indices[n++] = i;
	}
	return n;
}

/*
 * The word that ended the wait counts, even if it has changed since.  Words before it did not
 * compare.
 */
size_t osh_wait_some(const char *call, const struct oriel_words *words, size_t *indices)
{
	uint64_t first = wait_any(call, words, 0);

	if (first == words->count)
		return 0;
	indices[0] = first;
	return 1 + collect(words, first + 1, indices + 1);
}

/* ---- tests ----------------------------------------------------------------------------------- */

void osh_not_yet(const char *call)
{
	static _Thread_local unsigned int failed;

	failed++;
	if (osh.nqueued)
		oriel_cpu_drive(osh.dev.comm.engine);
	if (failed % TESTS_PER_YIELD == 0)
		sched_yield();
	if (failed % TESTS_PER_LOOK == 0)
		osh_check(call, oriel_window_status(osh.window));
}

size_t osh_test_any(const char *call, const struct oriel_words *words)
{
	uint64_t index = oriel_find_word(&osh.dev, words, turn);

	if (index < words->count) {
		turn = index + 1;
		return index;
	}
	osh_not_yet(call);
	return SIZE_MAX;
}

size_t osh_test_some(const char *call, const struct oriel_words *words, size_t *indices)
{
	size_t n = collect(words, 0, indices);

	if (!n)
		osh_not_yet(call);
	return n;
}

int osh_test_all(const char *call, const struct oriel_words *words)
{
	struct oriel_words one;
	uint64_t i;

	for (i = 0; i < words->count; i++) {
		if (words->skip && words->skip[i])
			continue;
		one = one_of(words, i);
		if (oriel_find_word(&osh.dev, &one, 0)) {
			osh_not_yet(call);
			return 0;
		}
	}
	return 1;
}
