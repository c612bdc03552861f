/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/diag_graph.c - src/diag: reports as text, and what a graph of them says.
 *
 * Most tests give each rank a report as text, as it would come from the rank.
 */
#include <oriel/device/types.h>
#include <oriel/device/word.h>

#include "../check.h"
#include "diag/diag.h"
#include "diag/graph.h"

#define SECOND "1000000"

/* The lines of all ranks, one text per rank; "" if nothing is known of it. */
static void graph_of(struct ori_graph *g, int nranks, const char *const *texts)
{
	char who[64];

	if (ori_graph_open(g, nranks)) {
		check_fail(__FILE__, __LINE__, "no memory");
		exit(1);
	}
	for (int r = 0; r < nranks; r++) {
		if (!texts[r][0])
			continue;
		snprintf(who, sizeof(who), "who %d %d 7 %d 0 host cpu\n", r, nranks, 100 + r);
		ori_report_parse(&g->reports[r], who);
		ori_report_parse(&g->reports[r], texts[r]);
	}
	ori_graph_judge(g);
}

/* A wait for a signal of a rank since a second. */
#define WAITS(peer) "wait 1 1 " #peer " 5 0 0 0 1 " SECOND " oriel_wait_signal_from\n"
#define YOUNG(peer) "wait 1 1 " #peer " 5 0 0 0 1 50000 oriel_wait_signal_from\n"
#define QUEUE(peer) "wait 1 9 " #peer " 0 0 0 3 4 " SECOND " oriel_flush\n"
#define GRID "wait 1 10 0 0 0 0 1 2 " SECOND " oriel_grid_sync\n"
#define ROUND(members) "round 1 " SECOND " " members " oriel_comm_barrier\n"

static char said[4096];

static void keep_line(void *ctx, const char *line)
{
	(void)ctx;
	strncat(said, line, sizeof(said) - strlen(said) - 2);
	strcat(said, "\n");
}

static const char *text_of(const struct ori_graph *g)
{
	said[0] = '\0';
	ori_graph_print(g, 1, keep_line, NULL);
	return said;
}

/* ---- deadlocks ------------------------------------------------------------------------------- */

TEST(a_cycle_is_a_deadlock)
{
	static const char *const texts[] = { WAITS(1), WAITS(2), WAITS(1), WAITS(0),
					     "windows 1\n" };
	struct ori_graph g;

	graph_of(&g, 5, texts);
	CHECK_EQ(g.deadlocks, 1);
	CHECK_EQ(g.marks[0], ORI_MARK_STUCK);
	CHECK_EQ(g.marks[1], ORI_MARK_DEADLOCK);
	CHECK_EQ(g.marks[2], ORI_MARK_DEADLOCK);
	CHECK_EQ(g.marks[3], ORI_MARK_STUCK);
	CHECK_EQ(g.marks[4], ORI_MARK_NONE);
	CHECK(ori_graph_begins_cycle(&g, 1) && !ori_graph_begins_cycle(&g, 2));
	CHECK_HAS(text_of(&g), "deadlock: rank 1 waits for 2 waits for 1\n");
	CHECK_HAS(said, "rank 4 waits for nothing in Oriel");
	ori_graph_close(&g);
}

TEST(two_cycles_are_two_deadlocks)
{
	static const char *const texts[] = { WAITS(3), WAITS(2), WAITS(1), WAITS(0) };
	struct ori_graph g;

	graph_of(&g, 4, texts);
	CHECK_EQ(g.deadlocks, 2);
	CHECK_HAS(text_of(&g), "deadlock: rank 0 waits for 3 waits for 0\n");
	CHECK_HAS(said, "deadlock: rank 1 waits for 2 waits for 1\n");
	ori_graph_close(&g);
}

/* Any of these may still go on, so there is no deadlock. */
TEST(what_may_go_on_is_no_deadlock)
{
	static const char *const cases[][2] = {
		{ WAITS(1), YOUNG(0) },          /* it may have signalled just before */
		{ WAITS(1), WAITS(0) QUEUE(0) }, /* another block waits for a NIC */
		{ WAITS(1), WAITS(0) WAITS(9) }, /* and another for a rank that is not known */
		{ WAITS(1), "windows 1\n" },     /* it waits for nothing */
		{ WAITS(1), WAITS(1) },          /* for itself */
		{ WAITS(1), "" },                /* nothing is known of it */
		{ WAITS(-1), WAITS(0) },         /* for any of several */
		{ ROUND("*"), ROUND("*") },      /* both have come */
	};
	struct ori_graph g;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		graph_of(&g, 2, cases[i]);
		if (g.deadlocks)
			check_fail(__FILE__, __LINE__, "case %zu is a deadlock", i);
		ori_graph_close(&g);
	}
}

/* The collection took longer than the wait is old: perhaps they never waited at the same time. */
TEST(a_wait_must_be_older_than_the_collection)
{
	static const char *const texts[] = { WAITS(1), WAITS(0) };
	struct ori_graph g;

	graph_of(&g, 2, texts);
	CHECK_EQ(g.deadlocks, 1);
	g.reports[1].sampled_us = 950000;
	ori_graph_judge(&g);
	CHECK_EQ(g.deadlocks, 0);
	ori_graph_close(&g);
}

/* A block in a grid sync waits for the other blocks of its rank: it changes nothing. */
TEST(a_grid_sync_does_not_hide_a_deadlock)
{
	static const char *const texts[] = { GRID WAITS(1), WAITS(0) };
	struct ori_graph g;

	graph_of(&g, 2, texts);
	CHECK_EQ(g.deadlocks, 1);
	ori_graph_close(&g);
}

/* Rank 0 needs 1 and 2, which are members and have not come; 3 is no member. */
TEST(a_collective_call_needs_those_who_have_not_come)
{
	static const char *const texts[] = { ROUND("0-2"), ROUND("0-2"), WAITS(0), WAITS(0) };
	struct ori_graph g;

	graph_of(&g, 4, texts);
	CHECK(!ori_graph_needs(&g, &g.reports[0].waits[0], 0, 1));
	CHECK(ori_graph_needs(&g, &g.reports[0].waits[0], 0, 2));
	CHECK(!ori_graph_needs(&g, &g.reports[0].waits[0], 0, 3));
	CHECK_HAS(text_of(&g), "deadlock: rank 0 waits for 2 waits for 0\n");
	CHECK_EQ(g.marks[1], ORI_MARK_STUCK);
	CHECK_EQ(g.marks[3], ORI_MARK_STUCK);
	ori_graph_close(&g);
}

/* ---- late ranks ------------------------------------------------------------------------------ */

TEST(the_late_rank_is_at_the_end_of_the_chain)
{
	static const char *const texts[] = { WAITS(1), WAITS(3), WAITS(1), "windows 1\n" };
	struct ori_graph g;
	char who[64];

	graph_of(&g, 4, texts);
	CHECK_EQ(g.marks[3], ORI_MARK_LATE);
	CHECK_EQ(g.marks[1], ORI_MARK_WAITS);
	CHECK_EQ(ori_graph_waiters(&g, 3, who, sizeof(who)), 3);
	CHECK(!strcmp(who, "0-2"));
	CHECK_HAS(text_of(&g),
		  "late: rank 3 waits for nothing in Oriel; 3 ranks wait for it (0-2)\n");
	ori_graph_close(&g);
}

TEST(a_rank_that_waits_for_its_nic_is_late)
{
	static const char *const texts[] = { WAITS(1), QUEUE(0) "queue 0 2 4 3 0\n" };
	struct ori_graph g;

	graph_of(&g, 2, texts);
	CHECK_EQ(g.marks[1], ORI_MARK_LATE);
	CHECK_HAS(text_of(&g), "late: rank 1 waits for completion on lane 0 of window 0 for "
			       "operations to rank 0: have 3, want 4; 1 rank waits for it (0)\n");
	CHECK_HAS(said, "rank 1 queue to 0, lane 2: 4 posted, 3 seen complete\n");
	ori_graph_close(&g);
}

TEST(a_silent_rank_says_why)
{
	static const char *const texts[] = { WAITS(1), "silent it is stopped\n" };
	struct ori_graph g;

	graph_of(&g, 2, texts);
	CHECK_HAS(text_of(&g), "rank 1 does not answer: it is stopped\n");
	CHECK_HAS(said, "late: rank 1 does not answer: it is stopped; 1 rank waits for it (0)\n");
	ori_graph_close(&g);
}

/* What is neither a deadlock nor a late rank. */
TEST(other_verdicts)
{
	static const char *const young[] = { YOUNG(1), "windows 1\n" };
	static const char *const own[] = { QUEUE(1), "windows 1\n" };
	static const char *const self[] = { WAITS(0), "windows 1\n" };
	static const char *const none[] = { "windows 1\n", "windows 1\n" };
	struct ori_graph g;

	graph_of(&g, 2, young);
	CHECK_HAS(text_of(&g), "no deadlock, and no late rank: the waits have just begun\n");
	ori_graph_close(&g);
	graph_of(&g, 2, own);
	CHECK_HAS(text_of(&g), "no late rank: the waits are for a rank's own operations");
	ori_graph_close(&g);
	graph_of(&g, 2, self);
	CHECK_HAS(text_of(&g), "no late rank: the waits are for a rank's own operations");
	ori_graph_close(&g);
	graph_of(&g, 2, none);
	CHECK_HAS(text_of(&g), "no rank waits\n");
	ori_graph_close(&g);
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Lines that are cut, wrong or unknown are skipped, and the rest counts. */
TEST(bad_lines_are_skipped)
{
	struct ori_report r;

	ori_report_clear(&r);
	ori_report_parse(&r, "who 5 3 7 1 0 host cpu\nwho 1 x\nwait\nwait 1 2\nround 1\nqueue 1 2\n"
			     "novelty 1 2 3\n\n\nWHO\n" WAITS(2) "failure a b c");
	CHECK_EQ(r.rank, -1); /* rank 5 of 3 */
	CHECK_EQ(r.nwaits, 1);
	CHECK_EQ(r.waits[0].peer, 2);
	CHECK_EQ(r.nqueues, 0);
	CHECK(!strcmp(r.failure, "a b c"));
	ori_report_clear(&r);
	for (int i = 0; i < ORI_REPORT_WAITS + 3; i++)
		ori_report_parse(&r, WAITS(2));
	CHECK_EQ(r.nwaits, ORI_REPORT_WAITS);
	CHECK_EQ(r.more, 3);
}

/* A line that does not fit is left out whole; a text cannot begin a line of its own. */
TEST(lines_are_whole)
{
	struct ori_lines lines;
	char text[32];

	ori_lines_begin(&lines, text, sizeof(text));
	ori_lines_add(&lines, "failure %s", "a\nwait b");
	ori_lines_add(&lines, "windows %d", 123456789);
	ori_lines_add(&lines, "told %d", 1);
	CHECK(!strcmp(text, "failure a wait b\ntold 1\n"));
}

TEST(members_are_ranges)
{
	CHECK(ori_report_is_member("*", 4));
	CHECK(ori_report_is_member("0-2,7,9-9", 7) && ori_report_is_member("0-2,7,9-9", 9));
	CHECK(!ori_report_is_member("0-2,7,9-9", 3) && !ori_report_is_member("", 0));
}

TEST(calls_have_the_users_names)
{
	int queue = ORIEL_OP_QUEUE | ORIEL_CALL_WAIT_LOCAL << ORIEL_CALL_SHIFT;
	int barrier = ORIEL_OP_BARRIER | (ORIEL_CALL_BARRIERS + 7) << ORIEL_CALL_SHIFT;

	CHECK(!strcmp(ori_diag_call_text(queue, 0), "oriel_wait_local"));
	CHECK(!strcmp(ori_diag_call_text(barrier, 0), "oriel_barrier"));
	CHECK(!strcmp(ori_diag_call_text(barrier | ORIEL_CALL_BY_HOST, 0), "oriel_window_barrier"));
	CHECK(!strcmp(ori_diag_call_text(ORIEL_OP_SIGNAL, 3), "oriel_wait_signal_from"));
	CHECK(!strcmp(ori_diag_call_text(ORIEL_OP_SIGNAL, ORI_USE_ALLGATHER | 3), "all-gather"));
	CHECK(!strcmp(ori_diag_call_text(ORIEL_OP_WORD, 0), "oriel_wait_word"));
	CHECK(!strcmp(ori_diag_call_text(ORIEL_OP_WORD, -1), "oriel_mapped_wait"));
	CHECK(!strcmp(ori_diag_call_text(0xffff, -1), "a wait"));
}

/* A word of a window names no rank, and keeps its place on the way through a report. */
TEST(a_word_is_named_by_its_offset)
{
	struct oriel_board board = { 0 };
	struct ori_report_comm comm = { .key = 1, .nranks = 2 };
	struct ori_lines lines;
	struct ori_report r;
	char text[256];

	board.slot[0].op = ORIEL_OP_WORD;
	board.slot[0].peer = ORI_WORD_PEER(1ull << 32 | 8, ORIEL_GE, 1);
	board.slot[0].id = 8;
	board.slot[0].have = (uint64_t)-3;
	board.slot[0].want = 4;
	board.slot[0].state = 2;
	ori_lines_begin(&lines, text, sizeof(text));
	ori_report_board(&lines, &comm, &board);
	ori_report_clear(&r);
	ori_report_parse(&r, text);
	CHECK_EQ(r.nwaits, 1);
	ori_report_wait_text(&r.waits[0], text, sizeof(text));
	CHECK(!strcmp(text, "word at offset 4294967304 of window 0: have -3, want at least 4"));
}
