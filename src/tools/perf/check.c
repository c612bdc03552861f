/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/check.c - the data of a verification pass: fills it, and counts wrong bytes.
 *
 * A byte is a hash of (pass, source rank, offset), so stale data, data of another rank and shifted
 * data all differ.  The target is filled with a guard byte first; just before and after the data it
 * must not change.
 * Called by: measure.c, on the rank's host thread, while no kernel runs on this window.
 */
#include "kernel.h"
#include "perf.h"

#define POISON 0xa5

/* splitmix64's finaliser: every bit of x reaches every bit of the result. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t seed_of(int pass, int rank, uint64_t bytes)
{
	return mix((uint64_t)(pass + 1) << 48 ^ (uint64_t)(rank + 1) << 20 ^ mix(bytes));
}

static void fill_pattern(uint8_t *data, uint64_t bytes, uint64_t seed)
{
	for (uint64_t off = 0; off < bytes; off += 8) {
		uint64_t word = mix(seed + off);

		memcpy(data + off, &word, bytes - off < 8 ? bytes - off : 8);
	}
}

static uint64_t count_bytes(const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < bytes; i++)
		wrong += a[i] != b[i];
	return wrong;
}

/* Counts wrong bytes in [off, end) of `data`. */
static uint64_t count_pattern(const uint8_t *data, uint64_t off, uint64_t end, uint64_t seed)
{
	uint64_t wrong = 0;

	for (; off < end; off += 8) {
		uint64_t n = end - off < 8 ? end - off : 8;
		uint64_t word = mix(seed + off);

		if (memcmp(data + off, &word, n))
			wrong += count_bytes(data + off, (const uint8_t *)&word, n);
	}
	return wrong;
}

static uint64_t count_guard(const uint8_t *guard)
{
	uint64_t wrong = 0;

	for (unsigned i = 0; i < PERF_GUARD; i++)
		wrong += guard[i] != POISON;
	return wrong;
}

/* The source and the target of the data on this rank. */
static uint8_t *sending(struct perf_bed *bed)
{
	uint8_t *window = oriel_window_buffer(bed->window);

	return (bed->op->to_window ? bed->local : window) + PERF_DATA_OFF;
}

static uint8_t *landing(struct perf_bed *bed)
{
	uint8_t *window = oriel_window_buffer(bed->window);

	return (bed->op->to_window ? window : bed->local) + PERF_DATA_OFF;
}

/* The rank whose data arrives here. */
static int origin(const struct perf_bed *bed)
{
	int rank = bed->job->rank, n = bed->job->nranks;

	if (bed->op->pairs)
		return (rank ^ 1) < n ? rank ^ 1 : rank;
	return bed->op->from_right ? (rank + 1) % n : (rank + n - bed->shift) % n;
}

/* The j-th piece comes from the rank whose j-th peer this one is. */
static uint64_t count_fan(struct perf_bed *bed, const uint8_t *data, int pass, uint64_t bytes)
{
	int rank = bed->job->rank, n = bed->job->nranks, j = 0;
	uint64_t wrong = 0;

	for (uint64_t off = 0; off < bytes; off += PERF_FAN_BYTES, j++) {
		int from = (rank + n - perf_fan_shift(n, bed->shift, j)) % n;

		wrong += count_pattern(data, off, off + PERF_FAN_BYTES, seed_of(pass, from, bytes));
	}
	return wrong;
}

int perf_check_fill(struct perf_bed *bed, int pass, uint64_t bytes)
{
	uint8_t *at = sending(bed), *host;
	int err;

	if (!bed->op->sized && !bed->op->fan)
		return 0;
	err = perf_memory_open(bed, at, bytes, 0, &host);
	if (err)
		return err;
	fill_pattern(host, bytes, seed_of(pass, bed->job->rank, bytes));
	err = perf_memory_store(bed, at, bytes);
	if (err)
		return err;
	at = landing(bed) - PERF_GUARD;
	err = perf_memory_open(bed, at, bytes + 2 * PERF_GUARD, 0, &host);
	if (err)
		return err;
	memset(host, POISON, bytes + 2 * PERF_GUARD);
	return perf_memory_store(bed, at, bytes + 2 * PERF_GUARD);
}

int perf_check_count(struct perf_bed *bed, int pass, uint64_t bytes, uint64_t *wrong)
{
	uint8_t *host;
	int err;

	if (!bed->op->sized && !bed->op->fan)
		return 0;
	err = perf_memory_open(bed, landing(bed) - PERF_GUARD, bytes + 2 * PERF_GUARD, 1, &host);
	if (err)
		return err;
	*wrong += count_guard(host) + count_guard(host + PERF_GUARD + bytes);
	host += PERF_GUARD;
	*wrong += bed->op->fan ? count_fan(bed, host, pass, bytes) :
				 count_pattern(host, 0, bytes, seed_of(pass, origin(bed), bytes));
	return 0;
}
