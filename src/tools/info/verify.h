/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/verify.h - oriel-info --verify: will a job run here?
 *
 * Every rank checks its own machine (verify_local.c).  Then every ordered pair of ranks tests the
 * operations of a window (verify_pairs.c).  All ranks get all results; rank 0 prints them
 * (verify_report.c).  verify.c calls the others.
 */
#ifndef ORI_INFO_VERIFY_H
#define ORI_INFO_VERIFY_H

#include <stdint.h>

#include "info.h"

#define VERIFY_SECONDS 20             /* the program ends within this time, whatever happens */
#define VERIFY_PAIRS_NS 8000000000ull /* after this, no new round of pairs begins */
#define VERIFY_WAIT_NS 2000000000ull  /* the longest single wait for a peer */
#define VERIFY_MEET_NS 8000000000ull  /* ranks that are in such waits may come this late */
#define VERIFY_LANES_MAX 16
#define VERIFY_TEXT 200

enum verify_state { VERIFY_OK, VERIFY_SKIPPED, VERIFY_WARNING, VERIFY_FAILED };

/* The checks, in the order in which they are printed. */
enum verify_name {
	VERIFY_VARIABLES,
	VERIFY_DEVICE,
	VERIFY_SHARED_MEMORY,
	VERIFY_MEMORY,
	VERIFY_DESCRIPTORS,
	VERIFY_LOCKED,
	VERIFY_CORES,
	VERIFY_VERSION,
	VERIFY_RENDEZVOUS,
	VERIFY_COMM,
	VERIFY_WINDOW,
	VERIFY_PAIRS,
	VERIFY_CHECKS
};

/* Sent between ranks: fixed layout, no pointers. */
struct verify_check {
	int32_t state; /* enum verify_state */
	int32_t rank;  /* the rank that checked; after merging, the first with the worst state */
	char cause[VERIFY_TEXT], remedy[VERIFY_TEXT];
};

/* What two ranks test, on every lane. */
enum verify_test {
	VERIFY_PUT,
	VERIFY_SIGNAL,
	VERIFY_ORDER,
	VERIFY_COUNTER,
	VERIFY_ATOMIC,
	VERIFY_TESTS
};

/* Results of a test: 0, a negative status, or one of these. */
#define VERIFY_WRONG 1     /* it succeeded, but the bytes or the value are wrong */
#define VERIFY_NOT_RUN 2   /* no time was left, or the comm had failed */
#define VERIFY_NOT_ASKED 3 /* there is no such lane, or no kernel for this device */
#define VERIFY_NONE 4      /* the NIC has no atomics; Oriel works without them */

/* One rank's results with one peer on one lane; sent between ranks. */
struct verify_cell {
	int8_t to[VERIFY_TESTS];   /* this rank's operations to the peer */
	int8_t from[VERIFY_TESTS]; /* the peer's operations, as this rank saw them */
	uint8_t nic;
	uint8_t kind; /* ORIEL_PEER_* */
};

/* All results. */
struct verify {
	int rank, nranks, threads; /* 1: no launcher, the ranks are threads of this process */
	int lanes, gpu; /* gpu: some rank has one; then only host-issued calls are tested */
	char engine[VERIFY_TEXT];
	struct verify_check checks[VERIFY_CHECKS];
	struct verify_cell *cells; /* [rank][peer][lane]; NULL: pairs were not tested */
	double seconds;
};

const char *verify_check_name(int check);
const char *verify_test_name(int test);
void verify_set(struct verify_check *, enum verify_state, const char *remedy, const char *cause,
		...) __attribute__((format(printf, 4, 5)));
/* One line that says what to do about a status. */
const char *verify_remedy(int status);

/* verify_local.c: this rank's own prerequisites */
void verify_local(const struct info *, int nranks, int local_ranks, struct verify_check *checks);

/* verify_pairs.c: tests all pairs.  `row`: this rank's results.  *window: NULL if it failed. */
struct oriel_boot;
struct oriel_comm;
struct oriel_window;
void verify_pairs(struct verify *, struct oriel_boot *, struct oriel_comm *,
		  struct verify_cell *row, struct oriel_window **window);

/* verify_report.c */
/* The result of a -> b on a lane, from the reports of both ranks. */
int verify_pair_result(const struct verify *, int a, int b, int lane, int test);
int verify_is_good(const struct verify *);
void verify_print_text(const struct verify *);
void verify_print_json(const struct verify *);

/* verify.c: returns the exit status */
int verify_main(int json);

#endif
