/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/agree.h - rounds in which all ranks decide together (agree.c). */
#ifndef ORI_COMM_AGREE_H
#define ORI_COMM_AGREE_H

#include "comm.h"

enum ori_call {
	ORI_CALL_COMM_CREATE = 1,
	ORI_CALL_COMM_SPLIT,
	ORI_CALL_COMM_DESTROY,
	ORI_CALL_ALLGATHER,
	ORI_CALL_BARRIER,
	ORI_CALL_BUFFER_EXCHANGE,
	ORI_CALL_WINDOW_CREATE,
	ORI_CALL_WINDOW_DESTROY,
	ORI_CALL_GATHER_INIT,
	ORI_CALL_COMM_CONNECT,
	ORI_CALL_TUNE_AGREE,
	ORI_CALL_ALLTOALLV_CREATE,
	ORI_CALL_GATHER,
	ORI_CALL_FINALIZE,
	ORI_CALL_TEAM_CREATE,
	ORI_CALL_COMM_SUBSET,
	ORI_CALL_COMM_SHRINK,
};
/* "oriel_window_create" */
const char *ori_call_name(int call);

#define ORI_RECORD_BYTES 768

/*
 * One round among the ranks of `boot`.  Every rank sends its call, its status so far (with the text
 * of its last error) and `bytes` bytes of its own, at most ORI_RECORD_BYTES.  `all` receives
 * nranks * bytes.  Returns 0 if all ranks are in the same call with status 0.  Otherwise all ranks
 * return the same status.  The message names the first rank that failed and its cause, or the rank
 * that is in another call.
 */
int ori_agree(struct oriel_boot *boot, uint64_t timeout_ns, enum ori_call call, int status,
	      const void *mine, void *all, size_t bytes);

/* The same for a call that moves call_bytes per rank: ORIEL_EMISMATCH if ranks differ in that. */
int ori_agree_bytes(struct oriel_boot *boot, uint64_t timeout_ns, enum ori_call call, int status,
		    const void *mine, void *all, size_t bytes, uint64_t call_bytes);

/*
 * A call of several rounds has one deadline.  ori_comm_call_begin() sets it.  After the first round
 * all ranks hold the same deadline, counted from the rank that came first.  So a rank that came
 * later gives up no later than the others, and no rank reports it as late.
 */
void ori_comm_call_begin(struct oriel_comm *, enum ori_call);
/* The time left for a wait between two rounds. */
uint64_t ori_comm_call_left_ns(const struct oriel_comm *);
/*
 * The time that a round may take.  After the first round it is one second more than the time left:
 * a rank that gave up at the deadline still reports its cause to the others.
 */
uint64_t ori_comm_round_ns(const struct oriel_comm *);
/* One round of the call: ori_agree among all ranks of the comm. */
int ori_comm_agree(struct oriel_comm *, int status, const void *mine, void *all, size_t bytes);

#endif
