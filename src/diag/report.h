/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/report.h - what one rank says of itself: who it is, what it waits for, its queues, failures.
 *
 * A report is text, one fact per line: it travels through the boot and through the socket of
 * oriel-doctor.  A reader skips lines that it does not know, and a line that does not fit is left
 * out.  Ranks in a report are ranks of the job: those of the comm that was created first.
 *
 *	who RANK RANKS JOB PID NODE HOST DEVICE
 *	wait COMM OP PEER ID WINDOW BLOCK HAVE WANT AGE_US CALL
 *	round COMM AGE_US MEMBERS CALL	a collective call of the host, in which all members meet
 *	queue PEER LANE POSTED COMPLETE STATUS
 *	kinds LETTERS		how it reaches each rank: s self, m mapped, q queued, - not at all
 *	told AGE_US		it has just printed the graph
 *	windows COUNT, failure TEXT, syndrome TEXT, engine TEXT, silent TEXT
 */
#ifndef ORI_DIAG_REPORT_H
#define ORI_DIAG_REPORT_H

#include <stddef.h>
#include <stdint.h>

#define ORI_REPORT_BYTES 4096 /* through the boot; more is cut at the end of a line */
#define ORI_REPORT_WAITS 16
#define ORI_REPORT_QUEUES 8
#define ORI_REPORT_KINDS 256 /* ranks whose kind is shown */

#define ORI_REPORT_ROUND 254 /* op of a wait: a collective call of the host */
#define ORI_REPORT_FETCH 253 /* op of a wait: memory of another process */

struct ori_report_wait {
	uint64_t comm; /* the same number on all ranks of a comm */
	int op;        /* as in struct oriel_board_slot, or ORI_REPORT_* */
	int peer;      /* -1: several */
	int id, window, block;
	uint64_t have, want, age_us;
	char call[48];
	char members[64]; /* of a round: "0-3,7"; "*": all ranks */
};

struct ori_report_queue {
	int peer, lane, status;
	uint64_t posted, complete;
};

struct ori_report {
	int rank; /* -1: nothing is known of this rank */
	int ranks, pid, node, windows;
	uint64_t job;
	char host[64], device[32];
	char silent[96];     /* why the rank itself did not answer; "": it did */
	uint64_t told_us;    /* UINT64_MAX: it has printed no graph */
	uint64_t sampled_us; /* when the report came, counted from the start of the collection */
	int nwaits, nqueues, more; /* more: waits that are not listed */
	struct ori_report_wait waits[ORI_REPORT_WAITS];
	struct ori_report_queue queues[ORI_REPORT_QUEUES];
	char kinds[ORI_REPORT_KINDS + 1];
	char failure[256], syndrome[96], engine[256];
};

/* Appends whole lines to a buffer. */
struct ori_lines {
	char *text;
	size_t bytes, used;
};
void ori_lines_begin(struct ori_lines *, char *text, size_t bytes);
void ori_lines_add(struct ori_lines *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct oriel_board;
/* What the functions below need to know of a comm. */
struct ori_report_comm {
	uint64_t key;
	int rank;         /* whose waits these are, in the job */
	const int *world; /* rank in the job of each rank of the comm; NULL: the same */
	int nranks;
	/* The rank of the comm that a sum of signals waits for; -1 if unknown.  May be NULL. */
	int (*late_source)(void *ctx, int window, int id);
	void *ctx;
};
/* One line per wait on the board. */
void ori_report_board(struct ori_lines *, const struct ori_report_comm *,
		      const struct oriel_board *);

void ori_report_clear(struct ori_report *);
/* Adds what the text says.  Bad lines are skipped. */
void ori_report_parse(struct ori_report *, const char *text);
/* "signal 5 of window 0 from rank 2: have 0, want 1" */
void ori_report_wait_text(const struct ori_report_wait *, char *out, size_t bytes);
/* Is `rank` in a list such as "0-3,7"? */
int ori_report_is_member(const char *members, int rank);

#endif
