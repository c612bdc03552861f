/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/verify_report.c - the results of --verify, as text and as JSON.
 *
 * Only reads struct verify.  Keys of the JSON are stable: new ones may be added, but none changes
 * its meaning.
 */
#include <stdio.h>
#include <string.h>

#include <oriel/oriel.h>

#include "verify.h"

#define PAIRS_SHOWN 20 /* bad pairs in the text; the JSON has all */

static const char *const check_names[VERIFY_CHECKS] = {
	[VERIFY_VARIABLES] = "variables",
	[VERIFY_DEVICE] = "device",
	[VERIFY_SHARED_MEMORY] = "shared memory",
	[VERIFY_MEMORY] = "memory",
	[VERIFY_DESCRIPTORS] = "open files",
	[VERIFY_LOCKED] = "locked memory",
	[VERIFY_CORES] = "cores",
	[VERIFY_VERSION] = "version",
	[VERIFY_RENDEZVOUS] = "rendezvous",
	[VERIFY_COMM] = "comm",
	[VERIFY_WINDOW] = "window",
	[VERIFY_PAIRS] = "pairs",
};
static const char *const test_names[VERIFY_TESTS] = { "put", "signal", "order", "counter",
						      "atomic" };
static const char *const state_names[] = { "ok", "skipped", "warning", "failed" };

const char *verify_check_name(int check)
{
	return check_names[check];
}

const char *verify_test_name(int test)
{
	return test_names[test];
}

/* ---- results --------------------------------------------------------------------------------- */

static const struct verify_cell *cell_of(const struct verify *v, int rank, int peer, int lane)
{
	size_t at = ((size_t)rank * (size_t)v->nranks + (size_t)peer) * (size_t)v->lanes;

	return &v->cells[at + (size_t)lane];
}

int verify_pair_result(const struct verify *v, int a, int b, int lane, int test)
{
	int sent = (int)cell_of(v, a, b, lane)->to[test];
	int seen = (int)cell_of(v, b, a, lane)->from[test];

	/* only the source knows the result of a counter or an atomic */
	if (test == VERIFY_COUNTER || test == VERIFY_ATOMIC || sent < 0)
		return sent;
	return sent == VERIFY_NOT_ASKED ? sent : seen;
}

static const char *result_name(int result)
{
	switch (result) {
	case 0:
		return "ok";
	case VERIFY_WRONG:
		return "wrong data";
	case VERIFY_NOT_RUN:
		return "not run";
	case VERIFY_NOT_ASKED:
		return "skipped";
	case VERIFY_NONE:
		return "none";
	default:
		return oriel_status_name(result);
	}
}

static int is_bad(int result)
{
	return result < 0 || result == VERIFY_WRONG || result == VERIFY_NOT_RUN;
}

static const char *pair_remedy(const struct verify_cell *cell, int result)
{
	if (result == VERIFY_NOT_RUN)
		return "an earlier failure or the time limit ended the test; try fewer ranks";
	if (result == VERIFY_WRONG)
		return cell->kind == ORIEL_PEER_QUEUED ?
			       "data and signal came in another order or changed on the way: "
			       "compare with ORIEL_ENGINE=soft, and report it with this output" :
			       "shared memory gave wrong bytes: report it with this output";
	if (result == ORIEL_ETIMEDOUT && cell->kind == ORIEL_PEER_QUEUED)
		return "the NIC or the network does not answer; check: ports up, one MTU and one "
		       "kind of GID, no firewall; or try another ORIEL_ENGINE";
	return verify_remedy(result);
}

static int lane_is_asked(const struct verify *v, int a, int b, int lane)
{
	return verify_pair_result(v, a, b, lane, VERIFY_PUT) != VERIFY_NOT_ASKED;
}

/* bad, unrun, none: lanes with a bad test, with one that did not run, without atomics. */
struct tally {
	long pairs, lanes, bad, unrun, none;
};

static struct tally count(const struct verify *v)
{
	struct tally t = { .pairs = 0 };

	for (int a = 0; v->cells && a < v->nranks; a++) {
		for (int b = 0; b < v->nranks; b++) {
			if (a == b)
				continue;
			t.pairs++;
			for (int lane = 0; lane < v->lanes; lane++) {
				int bad = 0, unrun = 0, none = 0;

				if (!lane_is_asked(v, a, b, lane))
					continue;
				t.lanes++;
				for (int test = 0; test < VERIFY_TESTS; test++) {
					int r = verify_pair_result(v, a, b, lane, test);

					bad |= is_bad(r);
					unrun |= r == VERIFY_NOT_RUN;
					none |= r == VERIFY_NONE;
				}
				t.bad += bad;
				t.unrun += unrun;
				t.none += none;
			}
		}
	}
	return t;
}

int verify_is_good(const struct verify *v)
{
	for (int i = 0; i < VERIFY_CHECKS; i++) {
		if (v->checks[i].state == VERIFY_FAILED)
			return 0;
	}
	return v->cells && !count(v).bad;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_checks(const struct verify *v)
{
	for (int i = 0; i < VERIFY_CHECKS; i++) {
		const struct verify_check *c = &v->checks[i];

		printf("  %-14s %-8s", check_names[i], state_names[c->state]);
		if (c->state >= VERIFY_WARNING && v->nranks > 1)
			printf(" rank %d:", c->rank);
		printf(" %s\n", c->cause);
		if (c->state >= VERIFY_WARNING && c->remedy[0])
			printf("  %-14s %-8s -> %s\n", "", "", c->remedy);
	}
}

static void print_bad_lane(const struct verify *v, int a, int b, int lane)
{
	const struct verify_cell *cell = cell_of(v, a, b, lane);

	printf("  %d -> %d, %s, NIC %d, lane %d:", a, b,
	       cell->kind == ORIEL_PEER_QUEUED ? "queued" : "mapped", cell->nic, lane);
	for (int test = 0; test < VERIFY_TESTS; test++)
		printf(" %s %s%s", test_names[test],
		       result_name(verify_pair_result(v, a, b, lane, test)),
		       test + 1 < VERIFY_TESTS ? "," : "\n");
	for (int test = 0; test < VERIFY_TESTS; test++) {
		int r = verify_pair_result(v, a, b, lane, test);

		if (!is_bad(r))
			continue;
		printf("     -> %s\n", pair_remedy(cell, r));
		return;
	}
}

static int is_bad_lane(const struct verify *v, int a, int b, int lane)
{
	for (int test = 0; test < VERIFY_TESTS; test++) {
		int r = verify_pair_result(v, a, b, lane, test);

		if (is_bad(r) && r != VERIFY_NOT_RUN)
			return 1;
	}
	return 0;
}

static void print_bad_pairs(const struct verify *v, long unrun)
{
	int shown = 0;

	for (int a = 0; a < v->nranks; a++) {
		for (int b = 0; b < v->nranks; b++) {
			for (int lane = 0; a != b && lane < v->lanes; lane++) {
				if (!is_bad_lane(v, a, b, lane))
					continue;
				if (shown++ < PAIRS_SHOWN)
					print_bad_lane(v, a, b, lane);
			}
		}
	}
	if (shown > PAIRS_SHOWN)
		printf("  and %d more; --json shows all\n", shown - PAIRS_SHOWN);
	if (unrun)
		printf("  %ld lanes not tested completely, after a failure or the time limit\n",
		       unrun);
}

void verify_print_text(const struct verify *v)
{
	struct tally t = count(v);

	printf("oriel %s: can %d %s work together here?\n", oriel_version(), v->nranks,
	       v->nranks == 1 ? "rank" : "ranks");
	if (v->threads)
		printf("(no launcher: the ranks are %d threads of this process; to test a whole\n"
		       " job use oriel-run, mpirun, torchrun or srun --mpi=pmix)\n",
		       v->nranks);
	printf("\nprerequisites\n");
	print_checks(v);
	printf("\npairs\n");
	if (!v->cells)
		printf("  not tested\n");
	else
		printf("  %ld ordered pairs, %ld lanes: put, signal, order%s; %ld bad\n", t.pairs,
		       t.lanes,
		       v->gpu ? " (counter and atomic need a kernel: skipped)" :
				", counter, atomic",
		       t.bad);
	if (t.none)
		printf("  on %ld of them the NIC has no atomics (ORIEL_EUNSUPPORTED)\n", t.none);
	if (v->engine[0])
		printf("  engine of rank 0: %s\n", v->engine);
	if (v->cells && t.bad)
		print_bad_pairs(v, t.unrun);
	printf("\nverdict: %s (%.1f s)\n", verify_is_good(v) ? "ok" : "FAILED", v->seconds);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_checks(const struct verify *v)
{
	printf("  \"checks\": [");
	for (int i = 0; i < VERIFY_CHECKS; i++) {
		const struct verify_check *c = &v->checks[i];

		info_json_member(i ? ",\n    {" : "\n    {", "name", check_names[i]);
		info_json_member(", ", "state", state_names[c->state]);
		printf(", \"rank\": %d", c->rank);
		info_json_member(", ", "cause", c->cause);
		info_json_member(", ", "remedy", c->remedy);
		printf("}");
	}
	printf("\n  ],\n");
}

static void put_pair(const struct verify *v, int a, int b, int lane, const char *before)
{
	const struct verify_cell *cell = cell_of(v, a, b, lane);
	const char *remedy = "";

	printf("%s    {\"from\": %d, \"to\": %d, \"lane\": %d, \"nic\": %d", before, a, b, lane,
	       cell->nic);
	info_json_member(", ", "kind", cell->kind == ORIEL_PEER_QUEUED ? "queued" : "mapped");
	for (int test = 0; test < VERIFY_TESTS; test++) {
		int r = verify_pair_result(v, a, b, lane, test);

		info_json_member(", ", test_names[test], result_name(r));
		if (is_bad(r) && !remedy[0])
			remedy = pair_remedy(cell, r);
	}
	info_json_member(", ", "remedy", remedy);
	printf("}");
}

static void put_pairs(const struct verify *v)
{
	const char *before = "\n";

	printf("  \"pairs\": [");
	for (int a = 0; v->cells && a < v->nranks; a++) {
		for (int b = 0; b < v->nranks; b++) {
			for (int lane = 0; a != b && lane < v->lanes; lane++) {
				if (!lane_is_asked(v, a, b, lane))
					continue;
				put_pair(v, a, b, lane, before);
				before = ",\n";
			}
		}
	}
	printf("\n  ]\n");
}

void verify_print_json(const struct verify *v)
{
	info_json_member("{\n  ", "version", oriel_version());
	info_json_member(",\n  ", "verdict", verify_is_good(v) ? "ok" : "failed");
	printf(",\n  \"seconds\": %.3f,\n  \"nranks\": %d,\n  \"threads\": %s,\n", v->seconds,
	       v->nranks, v->threads ? "true" : "false");
	info_json_member("  ", "engine", v->engine);
	printf(",\n");
	put_checks(v);
	put_pairs(v);
	printf("}\n");
}
