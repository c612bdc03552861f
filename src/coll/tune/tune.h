/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/tune.h - what the tuner's files share with each other, with oriel-tune and with the
 * tests.
 *
 * tables.c has the first guesses, model.c the fit of what was measured, cache.c and save.c the
 * file, key.c what a file is valid for, text.c plans as text, agree.c what a comm's ranks have
 * agreed on.  plan.h is all that collectives see.
 */
#ifndef ORI_COLL_TUNE_H
#define ORI_COLL_TUNE_H

#include <stddef.h>
#include <stdint.h>

#include "plan.h"

struct oriel_kernel;

/* ---- tables.c: first guesses, pure functions ------------------------------------------------ */

enum ori_tune_preset {
	ORI_PRESET_TABLES,   /* measured per size; what CUDA starts from (docs/decisions/0020) */
	ORI_PRESET_PROPOSAL, /* the ranges that were proposed before anything was measured */
	ORI_PRESET_CPU,      /* one block of one thread a peer */
};
const char *ori_preset_name(enum ori_tune_preset);
/* Both kinds of peers; small, uniform and cores are 0. */
void ori_tune_first(enum ori_tune_preset, uint64_t bytes_per_peer, struct ori_a2a_plan *plan);
/*
 * Fewer blocks, until `peers` times the larger of the two fits `resident`, at least 1 each.
 * Returns 1 if something was cut.
 */
int ori_tune_cap(struct ori_a2a_plan *plan, uint32_t peers, uint64_t resident);

/* ---- model.c: pure functions ---------------------------------------------------------------- */

/* One measurement of an exchange with peers of one kind. */
struct ori_tune_point {
	double bytes;  /* this rank sends, to all of them together */
	double blocks; /* for each of them */
	double us;
};

/*
 * us = latency_us + bytes / min(rate, blocks * block_rate); rates in bytes per us.  rate 0: nothing
 * known.
 */
struct ori_tune_model {
	double latency_us, rate, block_rate;
	double error; /* median of |predicted - measured| / measured over the points of the fit */
};

/*
 * ORIEL_EINVAL, with a line, for points that say nothing: less than two sizes, times that are not
 * positive.
 */
int ori_tune_fit(const struct ori_tune_point *points, size_t n, struct ori_tune_model *model);
double ori_tune_predict(const struct ori_tune_model *model, double bytes, double blocks);
/*
 * An exchange with peers of both kinds at once: the longer part, and the share `overlap` does not
 * hide of the shorter one (1: all is hidden).
 */
double ori_tune_predict_both(double mapped_us, double queued_us, double overlap);
/* What overlap makes that true of a measured time; 0 to 1. */
double ori_tune_overlap(double mapped_us, double queued_us, double both_us);

/* ---- cache.c: the file ---------------------------------------------------------------------- */

#define ORI_TUNE_ROWS 12
#define ORI_TUNE_VERSION 1
#define ORI_TUNE_CHUNK_MAX (1u << 30)
#define ORI_TUNE_BLOCKS_MAX 64
#define ORI_TUNE_WARPS_MAX 32

/* Best setting found for exchanges of up to `bytes` per peer. */
struct ori_tune_row {
	uint64_t bytes;
	uint32_t chunk;
	uint16_t blocks, warps;
	float us; /* as measured with this setting */
	uint32_t reserved;
};

/* Everything that was measured.  Travels between ranks as bytes. */
struct ori_tune_table {
	struct ori_tune_model model[ORI_PLAN_KINDS];
	double overlap;
	uint32_t rows[ORI_PLAN_KINDS]; /* 0: this kind was not measured */
	uint32_t small;
	uint32_t reserved;
	struct ori_tune_row row[ORI_PLAN_KINDS][ORI_TUNE_ROWS]; /* by size, ascending */
};

/* What a table is valid for, as one line each. */
#define ORI_TUNE_KEY_BYTES 160
struct ori_tune_key {
	char device[ORI_TUNE_KEY_BYTES];
	char engine[ORI_TUNE_KEY_BYTES];
	char shape[ORI_TUNE_KEY_BYTES];
	char version[ORI_TUNE_KEY_BYTES];
};

extern const char *const ori_plan_kinds[ORI_PLAN_KINDS]; /* "mapped", "queued" */
#define ORI_TUNE_FILE_BYTES 16384
/* Against damage and for names, not against people. */
uint64_t ori_tune_checksum(const char *text, size_t bytes);

/* key.c */
void ori_tune_key(struct oriel_comm *, struct ori_tune_key *);
uint64_t ori_tune_key_hash(const struct ori_tune_key *);
/*
 * Where the file of that key lies when ORIEL_TUNE_FILE does not say; 0, or ORIEL_EUNSUPPORTED
 * without a home.
 */
int ori_tune_path(const struct ori_tune_key *, char *path, size_t bytes);
/*
 * 0; ORIEL_EUNSUPPORTED: no such file; ORIEL_EPROTO: damaged; ORIEL_EMISMATCH: for something else;
 * ORIEL_ESYSTEM. `why` says it in a few words.  Logs nothing: the caller knows whether anybody
 * asked for the file.
 */
int ori_tune_load(const char *path, const struct ori_tune_key *, struct ori_tune_table *, char *why,
		  size_t bytes);
/* Replaces the file at once or not at all; makes the folder it is in. */
int ori_tune_save(const char *path, const struct ori_tune_key *, const struct ori_tune_table *);
/* Are all numbers in range and sizes ascending?  For tables from a file or from another rank. */
int ori_tune_table_check(const struct ori_tune_table *);
/* The row for that size: the first that reaches it, else the last.  NULL without rows. */
const struct ori_tune_row *ori_tune_row(const struct ori_tune_table *, int kind, uint64_t bytes);

/* ---- text.c --------------------------------------------------------------------------------- */

/* What a text names of a plan: bit ORI_PLAN_MAPPED, bit ORI_PLAN_QUEUED, and: */
#define ORI_PLAN_HAS_SMALL 4u
/* "mapped=1/1/64K,queued=2/1/256K,small=0", any of them; ORIEL_ECONFIG with a line. */
int ori_plan_parse(const char *text, struct ori_a2a_plan *plan, uint32_t *named);
void ori_plan_text(const struct ori_a2a_plan *, char *text, size_t bytes);
/* 4096 is "4K". */
void ori_bytes_text(uint64_t bytes, char *text, size_t room);

/* ---- agree.c -------------------------------------------------------------------------------- */

/* The table in use from now on, NULL: the first guess.  Local: all ranks must do it. */
int ori_tune_use(struct oriel_comm *, const struct ori_tune_table *);
/* What was agreed on; NULL for the first guess. */
const struct ori_tune_table *ori_tune_table(struct oriel_comm *);
/*
 * Makes of a plan what the kernels of a GPU do with it: blocks are cut until those of all ranks run
 * at once, warps to what a block may have, chunks of mapped peers are raised; plan->uniform is
 * set.  Nothing on the CPU.
 */
int ori_tune_resident(struct oriel_comm *, struct ori_a2a_plan *plan);
/* Peers of a kind, self among the mapped. */
uint32_t ori_tune_peers(struct oriel_comm *, int kind);
/* Of one exchange of bytes_per_peer with everybody, by the table; 0: nothing was measured. */
double ori_tune_predict_us(struct oriel_comm *, uint64_t bytes_per_peer);

#endif
