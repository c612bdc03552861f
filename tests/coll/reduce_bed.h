/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/reduce_bed.h - the parts that the tests of broadcast, all-reduce and reduce-scatter
 * share: memory of a rank, calls of which every element is checked, and the rows.
 *
 * On the CPU the buffers are malloc memory, which no peer can map.  On CUDA they are device memory,
 * and the test accesses them through oriel_copy().
 */
#ifndef ORI_TEST_REDUCE_BED_H
#define ORI_TEST_REDUCE_BED_H

#include <oriel/coll.h>

#include "../ranks.h"
#include "../reduce_model.h"
#include "util/util.h"

#define BED_POISON 0xa5

struct bed {
	struct rank_env *env;
	uint8_t *memory, *host; /* on the device, and its image here */
	uint64_t bytes;
	uint64_t seed;
	int cuda;
};

static inline int bed_on_cuda(void)
{
	const char *device = getenv("ORIEL_DEVICE");

	return device && !strncmp(device, "cuda", 4);
}

static inline void bed_open(struct bed *b, struct rank_env *env, uint64_t bytes)
{
	memset(b, 0, sizeof(*b));
	b->env = env;
	b->bytes = bytes + 64;
	b->cuda = bed_on_cuda();
	b->host = (uint8_t *)malloc(b->bytes);
	b->seed = 11;
	if (b->cuda)
		REQUIRE_OK(oriel_alloc(env->comm, b->bytes, (void **)&b->memory));
	else
		b->memory = (uint8_t *)malloc(b->bytes);
}

static inline void bed_close(struct bed *b)
{
	if (b->cuda)
		CHECK_EQ(oriel_free(b->env->comm, b->memory), 0);
	else
		free(b->memory);
	free(b->host);
}

static inline void bed_push(struct bed *b)
{
	CHECK_EQ(oriel_copy(b->env->comm, b->memory, b->host, b->bytes), 0);
}

/* Waits for the call and fetches the memory. */
static inline void bed_pull(struct bed *b, const char *what, int err)
{
	if (!err)
		err = oriel_comm_sync(b->env->comm, NULL);
	if (err)
		check_fail(__FILE__, __LINE__, "%s on rank %d: %s: %s", what, b->env->rank,
			   oriel_status_name(err), oriel_last_error());
	CHECK_EQ(oriel_copy(b->env->comm, b->host, b->memory, b->bytes), 0);
}

/* `count` elements of this rank's input from element `first` on. */
static inline void bed_fill(struct bed *b, uint64_t off, int type, uint64_t first, uint64_t count)
{
	uint32_t elem = model_bytes(type);

	for (uint64_t i = 0; i < count; i++)
		model_element(type, b->seed, b->env->rank, first + i, b->host + off + i * elem);
}

/* Elements first .. first + count of the result lie at off, and nothing was written behind. */
static inline void bed_check(struct bed *b, uint64_t off, int type, int op, uint64_t first,
			     uint64_t count)
{
	uint32_t elem = model_bytes(type);
	uint8_t want[8];

	for (uint64_t i = 0; i < count; i++) {
		model_result(type, op, b->seed, b->env->nranks, first + i, want);
		if (!memcmp(want, b->host + off + i * elem, elem))
			continue;
		check_fail(__FILE__, __LINE__,
			   "rank %d of %d, type %d op %d: element %" PRIu64 " of %" PRIu64
			   " is wrong",
			   b->env->rank, b->env->nranks, type, op, i, count);
		return;
	}
	CHECK_EQ(b->host[off + count * elem], BED_POISON);
}

/* One all-reduce; `skew` moves the buffers off their alignment. */
static inline void bed_allreduce(struct bed *b, int type, int op, uint64_t count, uint64_t skew,
				 int in_place)
{
	uint64_t bytes = count * model_bytes(type), to = in_place ? skew : 2 * skew + bytes + 8;

	memset(b->host, BED_POISON, b->bytes);
	bed_fill(b, skew, type, 0, count);
	bed_push(b);
	bed_pull(b, "all-reduce",
		 oriel_allreduce(b->env->comm, in_place ? NULL : b->memory + skew, b->memory + to,
				 count, type, op, NULL));
	bed_check(b, to, type, op, 0, count);
	b->seed = model_mix(b->seed);
}

/* place: 0 apart, 1 the start of the input, 2 the own block in it. */
static inline void bed_reducescatter(struct bed *b, int type, int op, uint64_t count, uint64_t skew,
				     int place)
{
	uint64_t n = (uint64_t)b->env->nranks, block = count * model_bytes(type);
	uint64_t own = (uint64_t)b->env->rank * count;
	uint64_t to = place == 0 ? 2 * skew + n * block + 8 :
		      place == 1 ? skew :
				   skew + (uint64_t)b->env->rank * block;

	memset(b->host, BED_POISON, b->bytes);
	bed_fill(b, skew, type, 0, n * count);
	bed_push(b);
	bed_pull(b, "reduce-scatter",
		 oriel_reducescatter(b->env->comm, b->memory + skew, b->memory + to, count, type,
				     op, NULL));
	if (place)
		memset(b->host + to + block, BED_POISON, 1); /* the next block of the input */
	bed_check(b, to, type, op, own, count);
	b->seed = model_mix(b->seed);
}

static inline void bed_broadcast(struct bed *b, uint64_t bytes, uint64_t skew, int root)
{
	uint64_t wrong = 0;

	memset(b->host, BED_POISON, b->bytes);
	for (uint64_t i = 0; i < bytes && b->env->rank == root; i++)
		b->host[skew + i] = (uint8_t)model_mix(b->seed + i);
	bed_push(b);
	bed_pull(b, "broadcast",
		 oriel_broadcast(b->env->comm, b->memory + skew, bytes, 1, root, NULL));
	for (uint64_t i = 0; i < bytes; i++)
		wrong += b->host[skew + i] != (uint8_t)model_mix(b->seed + i);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(b->host[skew + bytes], BED_POISON);
	b->seed = model_mix(b->seed);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct bed_row {
	const char *name;
	int nranks, processes;
	const char *topology;
};

/*
 * Runs fn in the rows that this build has.  CUDA ranks are processes, because each needs its own
 * driver.  ThreadSanitizer does not see what orders processes, so there ranks are threads.
 */
static inline void bed_rows(const struct bed_row *rows, size_t n, rank_fn *fn, void *arg)
{
	struct ranks_options o = { .deadline_s = 120, .timeout_s = 60 };
	int ran = 0;

	for (size_t i = 0; i < n; i++) {
#if defined(__SANITIZE_THREAD__)
		if (rows[i].processes)
			continue;
#endif
		if (bed_on_cuda() && !rows[i].processes)
			continue;
		o.nranks = rows[i].nranks;
		o.processes = rows[i].processes;
		o.topology = rows[i].topology;
		ranks_run(&o, fn, arg);
		ran = 1;
		if (check_failures) {
			printf("... in row \"%s\"\n", rows[i].name);
			return;
		}
	}
	if (!ran)
		check_skip("no row of this test is for this device or sanitizer");
}

/* How the teams of a test move short calls: ORIEL_CELLS_*. */
static uint32_t bed_cells;

/* Runs rank() in the rows, without marked cells and with them. */
static inline void bed_both_ways(const struct bed_row *rows, size_t n, rank_fn *rank)
{
	for (bed_cells = ORIEL_CELLS_NEVER; bed_cells <= ORIEL_CELLS_IF_POSSIBLE && !check_failures;
	     bed_cells++)
		bed_rows(rows, n, rank, NULL);
}

#endif
