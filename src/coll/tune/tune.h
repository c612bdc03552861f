/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/tune.h - declarations that the tuner's files share with each other, with oriel-tune and
 * with the tests.
 *
 * tables.c has the first guesses, model.c fits measurements, cache.c and save.c read and write the
 * file.  key.c says what a file is valid for, text.c turns plans into text, agree.c keeps the
 * agreement of a comm's ranks.  Collectives use only plan.h.
 */
#ifndef ORI_COLL_TUNE_H
#define ORI_COLL_TUNE_H

#include <stddef.h>
#include <stdint.h>

#include "plan.h"

struct oriel_kernel;

/* ---- tables.c: first guesses, pure functions ------------------------------------------------- */

enum ori_tune_preset {
	ORI_PRESET_TABLES,   /* measured per size; the default for CUDA (docs/decisions/0020) */
	ORI_PRESET_PROPOSAL, /* ranges proposed before anything was measured */
	ORI_PRESET_CPU,      /* one block of one thread per peer */
};
const char *ori_preset_name(enum ori_tune_preset);
/* Both kinds of peers; small, uniform, cores and spread are 0. */
void ori_tune_first(enum ori_tune_preset, uint64_t bytes_per_peer, struct ori_a2a_plan *plan);
/* How many ranks, and do they have GPUs? */
void ori_tune_first_ways(int separate, int nranks, struct ori_tune_ways *ways);
/*
 * Reduces the blocks until `peers` times the larger of the two fits `resident`, at least 1 each.
 * Returns 1 if something was reduced.
 */
int ori_tune_cap(struct ori_a2a_plan *plan, uint32_t peers, uint64_t resident);

/* ---- model.c: pure functions ----------------------------------------------------------------- */

/* One measurement of an exchange with peers of one kind. */
struct ori_tune_point {
	double bytes;  /* sent by this rank to all of them together */
	double blocks; /* per peer */
	double us;
};

/*
 * us = latency_us + bytes / min(rate, blocks * block_rate); rates in bytes per us.  rate 0:
 * unknown.
 */
struct ori_tune_model {
	double latency_us, rate, block_rate;
	double error; /* median of |predicted - measured| / measured over the points of the fit */
};

/*
 * Logs and returns ORIEL_EINVAL for useless points: fewer than two sizes, or times that are not
 * positive.
 */
int ori_tune_fit(const struct ori_tune_point *points, size_t n, struct ori_tune_model *model);
double ori_tune_predict(const struct ori_tune_model *model, double bytes, double blocks);
/*
 * An exchange with peers of both kinds at once takes the longer part, plus the fraction 1 - overlap
 * of the shorter part (overlap 1: all of it is hidden).
 */
double ori_tune_predict_both(double mapped_us, double queued_us, double overlap);
/* The overlap, 0 to 1, that explains a measured time. */
double ori_tune_overlap(double mapped_us, double queued_us, double both_us);

/* ---- cache.c: the file ----------------------------------------------------------------------- */

#define ORI_TUNE_ROWS 12
#define ORI_TUNE_VERSION 3
#define ORI_TUNE_CHUNK_MAX (1u << 30)
#define ORI_TUNE_BLOCKS_MAX 64
#define ORI_TUNE_WARPS_MAX 32

/* The best setting found for exchanges of up to `bytes` per peer. */
struct ori_tune_row {
	uint64_t bytes;
	uint32_t chunk;
	uint16_t blocks, warps;
	float us; /* as measured with this setting */
	uint32_t reserved;
};

/* Everything that was measured.  Ranks exchange it as bytes. */
struct ori_tune_table {
	struct ori_tune_model model[ORI_PLAN_KINDS];
	double overlap;
	uint32_t rows[ORI_PLAN_KINDS]; /* 0: this kind was not measured */
	uint32_t small;
	uint32_t reserved;
	struct ori_tune_ways ways;
	struct ori_tune_row row[ORI_PLAN_KINDS][ORI_TUNE_ROWS]; /* by size, ascending */
};

/* What a table is valid for, one line each. */
#define ORI_TUNE_KEY_BYTES 160
struct ori_tune_key {
	char device[ORI_TUNE_KEY_BYTES];
	char engine[ORI_TUNE_KEY_BYTES];
	char shape[ORI_TUNE_KEY_BYTES];
	char version[ORI_TUNE_KEY_BYTES];
};

extern const char *const ori_plan_kinds[ORI_PLAN_KINDS]; /* "mapped", "queued" */
#define ORI_TUNE_FILE_BYTES 16384
/* Detects damage and makes names; no protection against attacks. */
uint64_t ori_tune_checksum(const char *text, size_t bytes);

/* key.c */
void ori_tune_key(struct oriel_comm *, struct ori_tune_key *);
uint64_t ori_tune_key_hash(const struct ori_tune_key *);
/*
 * The path of the file of that key, if ORIEL_TUNE_FILE is not set.  Returns 0, or
 * ORIEL_EUNSUPPORTED without a home directory.
 */
int ori_tune_path(const struct ori_tune_key *, char *path, size_t bytes);
/*
 * Returns 0; ORIEL_EUNSUPPORTED: no such file; ORIEL_EPROTO: damaged; ORIEL_EMISMATCH: valid for
 * something else; ORIEL_ESYSTEM.  `why` gives the reason in a few words.  Logs nothing: only the
 * caller knows whether the user asked for the file.
 */
int ori_tune_load(const char *path, const struct ori_tune_key *, struct ori_tune_table *, char *why,
		  size_t bytes);
/* Replaces the file atomically.  Creates its folder. */
int ori_tune_save(const char *path, const struct ori_tune_key *, const struct ori_tune_table *);
/* Are all numbers in range and sizes ascending?  For tables from a file or from another rank. */
int ori_tune_table_check(const struct ori_tune_table *);
/* The row for that size: the first that covers it, else the last.  NULL without rows. */
const struct ori_tune_row *ori_tune_row(const struct ori_tune_table *, int kind, uint64_t bytes);

/* ---- text.c ---------------------------------------------------------------------------------- */

/* Which parts of a plan a text gives: bit ORI_PLAN_MAPPED, bit ORI_PLAN_QUEUED, and: */
#define ORI_PLAN_HAS_SMALL 4u
#define ORI_PLAN_HAS_SPREAD 8u
/*
 * "mapped=1/1/64K,queued=2/1/256K,small=0,spread=256K", any part of it.  Logs and returns
 * ORIEL_ECONFIG if invalid.
 */
int ori_plan_parse(const char *text, struct ori_a2a_plan *plan, uint32_t *named);
void ori_plan_text(const struct ori_a2a_plan *, char *text, size_t bytes);
/* 4096 is "4K". */
void ori_bytes_text(uint64_t bytes, char *text, size_t room);

/* ---- agree.c --------------------------------------------------------------------------------- */

/* Sets the table to use from now on; NULL: the first guess.  Local: all ranks must do it. */
int ori_tune_use(struct oriel_comm *, const struct ori_tune_table *);
/*
 * Adjusts a plan to what the kernels of a GPU really use.  Blocks are reduced until those of all
 * ranks run at once.  Warps are limited to the maximum of a block, and chunks of mapped peers are
 * raised.  The caller has set plan->uniform.  Does nothing on the CPU.
 */
int ori_tune_resident(struct oriel_comm *, struct ori_a2a_plan *plan);
/* Number of peers of a kind; self counts as mapped. */
uint32_t ori_tune_peers(struct oriel_comm *, int kind);
/* Time of one exchange of bytes_per_peer with all peers, by the table; 0: nothing was measured. */
double ori_tune_predict_us(struct oriel_comm *, uint64_t bytes_per_peer);

#endif
