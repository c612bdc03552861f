/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/verify.h - oriel-info --verify: will a job run here?  What its files share.
 * verify_local.c and verify_pairs.c check, verify.c calls them, verify_report.c prints.
 *
 * Every rank checks its own machine, then every ordered pair of ranks tries what a window does.
 * All ranks get all results; rank 0 prints.
 */
#ifndef ORI_INFO_VERIFY_H
#define ORI_INFO_VERIFY_H

#include <stdint.h>

#include "info.h"

#define VERIFY_SECONDS 20             /* the program ends within this, whatever happens */
#define VERIFY_PAIRS_NS 8000000000ull /* of which the pairs may take, but for a round under way */
#define VERIFY_WAIT_NS 2000000000ull  /* the longest single wait for a peer */
#define VERIFY_MEET_NS 8000000000ull  /* for ranks that are still in such waits */
#define VERIFY_LANES_MAX 16
#define VERIFY_TEXT 200

enum verify_state { VERIFY_OK, VERIFY_SKIPPED, VERIFY_WARNING, VERIFY_FAILED };

/* The prerequisites, in the order they are printed. */
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

/* Travels between ranks: fixed layout, no pointers. */
struct verify_check {
	int32_t state; /* enum verify_state */
	int32_t rank;  /* whose; after merging, the first of the worst */
	char cause[VERIFY_TEXT], remedy[VERIFY_TEXT];
};

/* What is tried between two ranks, on every lane. */
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
#define VERIFY_NOT_RUN 2   /* time or the comm was over before */
#define VERIFY_NOT_ASKED 3 /* there is no such lane, or no kernel for this device */
#define VERIFY_NONE 4      /* the NIC has no atomics; what needs them does without */

/* One rank's view of one peer on one lane; travels. */
struct verify_cell {
	int8_t to[VERIFY_TESTS];   /* what I did to it */
	int8_t from[VERIFY_TESTS]; /* what I saw of what it did to me */
	uint8_t nic;
	uint8_t kind; /* ORIEL_PEER_* */
};

/* All that is known at the end. */
struct verify {
	int rank, nranks,
		threads; /* threads: the ranks are of this process, there is no launcher */
	int lanes, gpu;  /* gpu: some rank has one; then what the host can issue is tried */
	char engine[VERIFY_TEXT];
	struct verify_check checks[VERIFY_CHECKS];
	struct verify_cell *cells; /* [rank][peer][lane]; NULL: the pairs were not tried */
	double seconds;
};

const char *verify_check_name(int check);
const char *verify_test_name(int test);
void verify_set(struct verify_check *, enum verify_state, const char *remedy, const char *cause,
		...) __attribute__((format(printf, 4, 5)));
/* What to do about a status, in a line. */
const char *verify_remedy(int status);

/* verify_local.c: this rank's own prerequisites */
void verify_local(const struct info *, int nranks, int local_ranks, struct verify_check *checks);

/* verify_pairs.c: tries all pairs; row is this rank's; the window stays, NULL if it was not made */
struct oriel_boot;
struct oriel_comm;
struct oriel_window;
void verify_pairs(struct verify *, struct oriel_boot *, struct oriel_comm *,
		  struct verify_cell *row, struct oriel_window **window);

/* verify_report.c */
/* The result of a -> b on a lane: what both ends say. */
int verify_pair_result(const struct verify *, int a, int b, int lane, int test);
int verify_is_good(const struct verify *);
void verify_print_text(const struct verify *);
void verify_print_json(const struct verify *);

/* verify.c: returns the exit status */
int verify_main(int json);

#endif
