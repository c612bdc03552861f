/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/coll.h - the parts that the programs of bench/coll share: the cases, the number of
 * runs of each, the data and its check.
 *
 * The limit, Oriel, Open MPI and OpenSHMEM are measured by the same loops over the same footprint,
 * so that their figures can be compared.  This file uses nothing of Oriel.
 */
#ifndef ORI_BENCH_COLL_H
#define ORI_BENCH_COLL_H

#include <stdlib.h>
#include <string.h>

#include "../bench.h"

enum coll_op { COLL_GATHER, COLL_EXCHANGE };

struct coll_case {
	enum coll_op op;
	const char *size; /* part of the figure's name */
	size_t bytes;     /* a rank's block, or one peer's part */
	int skew; /* COLL_EXCHANGE: the next rank gets half of all, `bytes` is the average */
};

/* all-gather: bytes per rank; all-to-all-v: bytes per peer */
static const struct coll_case coll_cases[] = {
	{ COLL_GATHER, "1k", 1u << 10, 0 },   { COLL_GATHER, "64k", 64u << 10, 0 },
	{ COLL_GATHER, "1m", 1u << 20, 0 },   { COLL_GATHER, "16m", 16u << 20, 0 },
	{ COLL_EXCHANGE, "1k", 1u << 10, 0 }, { COLL_EXCHANGE, "64k", 64u << 10, 0 },
	{ COLL_EXCHANGE, "1m", 1u << 20, 0 },
};
#define COLL_CASES (sizeof(coll_cases) / sizeof(coll_cases[0]))

/* Bytes that `from` sends to `to`; a multiple of 16, as all sizes are. */
static inline size_t coll_part(const struct coll_case *c, int nranks, int from, int to)
{
	size_t half = c->bytes / 2 * (size_t)nranks;

	if (!c->skew || nranks == 1)
		return c->bytes;
	return to == (from + 1) % nranks ? half : (half / (size_t)(nranks - 1)) & ~(size_t)15;
}

/* Room for the largest part.  The data of rank r lands at r times this. */
static inline size_t coll_slot(const struct coll_case *c, int nranks)
{
	return coll_part(c, nranks, 0, 1 % nranks);
}

/* Bytes that a rank sends and receives; its own block is copied too. */
static inline size_t coll_send_bytes(const struct coll_case *c, int nranks)
{
	return c->op == COLL_GATHER ? c->bytes : c->bytes * (size_t)nranks;
}

static inline size_t coll_recv_bytes(const struct coll_case *c, int nranks)
{
	return coll_slot(c, nranks) * (size_t)nranks;
}

/* Of all buffers.  A program whose buffers are worse aligned than the limit's would be slower. */
#define COLL_ALIGN 4096u

/* Private memory for `bytes`, or NULL. */
static inline void *coll_alloc(size_t bytes)
{
	return aligned_alloc(COLL_ALIGN, (bytes + COLL_ALIGN - 1) & ~(size_t)(COLL_ALIGN - 1));
}

/* Calls in one timed loop: about 256 MiB over all ranks, and few if ranks share cores. */
static inline int coll_loops(const struct coll_case *c, int nranks)
{
	size_t moved = c->bytes * (size_t)nranks * (size_t)nranks;
	size_t most = nranks > BENCH_CORES ? 300 : 3000, n = (256u << 20) / moved;

	return (int)(n < 2 ? 2 : n > most ? most : n);
}

static inline uint64_t coll_word(int from, int to, size_t off)
{
	uint64_t x = ((uint64_t)(from + 1) << 52) ^ ((uint64_t)(to + 1) << 44) ^ off;

	x *= 0x9e3779b97f4a7c15u;
	return x ^ (x >> 29);
}

/* Sizes are multiples of 8.  An all-gather sends the same to all: `to` is 0. */
static inline void coll_fill(uint8_t *send, const struct coll_case *c, int rank, int nranks)
{
	int parts = c->op == COLL_GATHER ? 1 : nranks;

	for (int to = 0; to < parts; to++) {
		size_t bytes = coll_part(c, nranks, rank, to);

		for (size_t off = 0; off < bytes; off += 8) {
			uint64_t word = coll_word(rank, to, off);

			memcpy(send + off, &word, 8);
		}
		send += bytes;
	}
}

/* The number of words that differ from what their sender wrote. */
static inline uint64_t coll_wrong(const uint8_t *recv, const struct coll_case *c, int rank,
				  int nranks)
{
	uint64_t wrong = 0;

	for (int from = 0; from < nranks; from++) {
		const uint8_t *data = recv + (size_t)from * coll_slot(c, nranks);
		size_t bytes = coll_part(c, nranks, from, rank);

		for (size_t off = 0; off < bytes; off += 8) {
			uint64_t want = coll_word(from, c->op == COLL_GATHER ? 0 : rank, off), have;

			memcpy(&have, data + off, 8);
			wrong += have != want;
		}
	}
	return wrong;
}

static inline const char *coll_name(const struct coll_case *c)
{
	return c->op == COLL_GATHER ? "gather" : c->skew ? "skew" : "exchange";
}

/* Prints "mpi_gather8_64k 331 us".  If words are wrong, prints only an error, and returns 1. */
static inline int coll_print(const char *who, const struct coll_case *c, int nranks, double us,
			     uint64_t wrong)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_%s%d_%s", who, coll_name(c), nranks, c->size);
	if (wrong) {
		fprintf(stderr, "%s: %llu words are wrong\n", name, (unsigned long long)wrong);
		return 1;
	}
	bench_print(name, us, "us");
	return 0;
}

#endif
