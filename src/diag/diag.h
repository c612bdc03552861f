/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/diag.h - who waits for what: the board of a rank, and the log line of a late wait.
 *
 * The board is in control memory that mapped peers read.  So a report can say what the other rank
 * itself waits for.  Only waiting threads write it, through ori_spin.  Other facts, and the state
 * of queued peers, come from the comm that owns the board (struct ori_diag_world).
 */
#ifndef ORI_DIAG_H
#define ORI_DIAG_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reports name a window by the number in its handle.  Its upper bits say which collective the
 * window serves.  The user has not created such a window and does not know it.
 */
#define ORI_USE_SHIFT 28
#define ORI_USE_ALLGATHER (1 << ORI_USE_SHIFT)
#define ORI_USE_ALLTOALLV (2 << ORI_USE_SHIFT)
/* 3 to 6: the collective that a wait on a team belongs to, ORI_COLL_* of device/team.h */
#define ORI_USE_TEAM (7 << ORI_USE_SHIFT)
/* words.c: "window 3", or "all-gather (window 3)". */
void ori_diag_window_text(int number, char *out, size_t bytes);

struct ori_spin;
struct oriel_board;
struct oriel_board_slot;

/*
 * The first call takes a slot, later calls update `have`.  `block` is the kernel block that waits.
 * Does nothing if the board is full.
 */
void ori_board_update(struct ori_spin *, uint64_t have, uint32_t block);
void ori_board_clear(struct ori_spin *);
/* A consistent copy of slot n.  Returns 0 if the slot is free or changes too fast. */
int ori_board_read(const struct oriel_board *, int n, struct oriel_board_slot *out);

struct ori_graph;
struct ori_lines;

/* What a report may ask a rank's comm.  Called only when a wait is late, or somebody asks. */
struct ori_diag_world {
	void *ctx;
	int nranks;
	/*
	 * The job: the comm that was created first, and those split from it.  A rank of the job has
	 * one number in all of them.
	 */
	uint64_t job;
	int job_rank, job_ranks;
	const int *world; /* the rank in the job of each rank of this comm; NULL: the same */
	/*
	 * The value of signal `id` of window `window` from `rank`.  Returns 0 if it is not known.
	 */
	int (*signal_from)(void *ctx, int window, int id, int rank, uint64_t *value);
	/*
	 * What that rank says it is doing ("itself waits ...").  Returns 0 if it cannot be asked.
	 * brief: of a mapped rank that does not answer soon, what its board of this comm says.
	 */
	int (*ask)(void *ctx, int rank, int brief, char *out, size_t bytes);
	/* The report of that rank (report.h), from the rank itself or from its board. */
	void (*ask_report)(void *ctx, int rank, char *out, size_t bytes, uint64_t timeout_ns);
	/*
	 * Ranks of one host print the graph of a deadline once.  claim: 1 if this rank shall print
	 * it; otherwise it returns when the rank that does so has collected all reports.  claimed:
	 * this rank has collected them.
	 */
	int (*claim)(void *ctx);
	void (*claimed)(void *ctx);
	/*
	 * The lines of this comm in the report of its own rank.  first: also those about the rank.
	 * ready: the comm is complete.  full: also what may take some time to find out.
	 */
	void (*report)(void *ctx, struct ori_lines *, int first, int ready, int full);
};

/* Comms are found by their boards.  unlist returns when no thread is asking the comm any more. */
int ori_diag_list(const struct oriel_board *,
		  const struct ori_diag_world *); /* 0 or ORIEL_ENOMEM */
void ori_diag_ready(const struct oriel_board *);  /* the comm is complete */
void ori_diag_unlist(const struct oriel_board *);
int ori_diag_signal_from(const struct oriel_board *, int window, int id, int rank, uint64_t *value);
int ori_diag_ask(const struct oriel_board *, int rank, int brief, char *out, size_t bytes);
int ori_diag_nranks(const struct oriel_board *); /* 0: not listed */
/* Holds the comm, so that its functions may be called; NULL if it is not listed. */
struct ori_diag_held;
struct ori_diag_held *ori_diag_hold(const struct oriel_board *, struct ori_diag_world *);
void ori_diag_drop(struct ori_diag_held *);
/* The source that has added least to a sum of signals of this rank; -1 if unknown. */
int ori_diag_late_source(const struct oriel_board *, int rank, int window, int id);

/* The report of a rank of this process, over all its comms. */
void ori_diag_report(uint64_t job, int job_rank, int full, char *out, size_t bytes);
/* Member n of this process: a rank of a job.  Returns 0 past the end. */
int ori_diag_member(int n, uint64_t *job, int *job_rank, int *job_ranks);
/* The report of any rank of the job, through a comm of this process.  "" if none has the rank. */
void ori_diag_ask_report(uint64_t job, int job_rank, char *out, size_t bytes, uint64_t timeout_ns);
/* Notes that this rank prints the graph now, so that other ranks do not. */
void ori_diag_told(uint64_t job, int job_rank);

/* One line: a warning when a wait is late, an error when it is given up. */
void ori_diag_late(const struct ori_spin *, uint64_t have, uint64_t age_ns, int given_up);
/*
 * The same for a wait on the board of this rank, seen by another thread.  `rank` is this rank and
 * `own` its board.  `board` belongs to the rank that it waits for, or is NULL.
 */
void ori_diag_late_slot(const struct oriel_board_slot *, int rank, const struct oriel_board *own,
			const struct oriel_board *board, uint64_t age_ns);
/* words.c: "barrier 2 of window 1 from rank 3: have 4, want 5" */
void ori_diag_wait_text(const struct oriel_board_slot *, char *out, size_t bytes);
/* The user's call: "oriel_barrier", or "all-gather" for a window of a collective. */
const char *ori_diag_call_text(int op, int window);
/* A wait inside a collective for another rank to arrive.  It waits on internal words. */
int ori_diag_is_collective(const struct oriel_board_slot *);
/* Does it wait on a word of the user's window?  Then `peer` and `id` have the word's place. */
int ori_diag_is_window_word(const struct oriel_board_slot *);
/* Counters and queues are about this rank's own operations; all else comes from the peer. */
int ori_diag_is_own(int op);
/* The age of a wait by the clock that its slot was filled with; 0 if it fits no clock. */
uint64_t ori_diag_age_ns(uint64_t since_ns);
/*
 * What a rank waits for, according to its board: "itself waits 1.5 s for ...".  Returns 0 if there
 * is no wait on the board; the text is then ORI_DIAG_NO_WAIT.
 */
int ori_diag_board_text(const struct oriel_board *, char *out, size_t bytes);
#define ORI_DIAG_NO_WAIT "waits for nothing in Oriel"
#define ORI_DIAG_NO_WAIT_HERE "waits for nothing in this comm" /* its other comms are unknown */
#define ORI_DIAG_OTHER_COMM "itself waits in another comm"
#define ORI_DIAG_OTHERS " (and %d other waits)" /* other blocks, which wait for other ranks */

/*
 * chain.c.  `rank` has waited age_ns for `peer`.  `does` is the text of ori_diag_board_text() for
 * the peer.  Writes "; deadlock: rank 0 waits for 1 waits for 0" if the chain of waits is a cycle,
 * "; the chain of waits ends at rank 3, which ..." if it goes on behind the peer, else "".
 */
void ori_diag_chain_text(const struct oriel_board *own, int rank, int peer, const char *does,
			 uint64_t age_ns, char *out, size_t bytes);

/*
 * doctor.c: prints who waits for whom, over all ranks of the job.  At a deadline only one of the
 * ranks that reach it prints.
 */
void ori_doctor_deadline(const struct oriel_board *own);
/* For the thread of service.c.  Returns early when *stop is set. */
void ori_doctor_signal(const int *stop);

/*
 * service.c: oriel-doctor and SIGUSR1.  One service per process, which answers while a comm of this
 * process exists.  Failures are logged and otherwise ignored: a job runs without it.
 */
void ori_service_open(const char *folder); /* ORIEL_DOCTOR */
void ori_service_close(void);

#endif
