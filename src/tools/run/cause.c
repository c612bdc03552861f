/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/cause.c - decides which rank's failure is the cause of the job's failure.
 *
 * When a rank dies, the kernel closes its connections first.  Then it frees the memory, which may
 * take seconds, and only after that oriel-run can collect the status.  In the meantime the other
 * ranks notice the death and may exit first.  So the first failure that oriel-run sees need not be
 * the cause.  Every rank that is ending at that moment is a suspect, and the verdict waits for all
 * suspects.  A killed rank counts before one that called abort(), and that one before one that
 * exited.  Among equals the first counts.
 *
 * Owns the order in which ranks ended, and the verdict.  Called by job.c, on the only thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

#define PF_EXITING 0x4 /* flags in /proc/PID/stat: the process is exiting */
#define PF_DUMPCORE 0x200
#define NOTED_AT_ONCE 64

/* ---- the order of ends ----------------------------------------------------------------------- */

/*
 * A pidfd becomes ready when its process ends, and epoll returns descriptors in the order in which
 * they became ready.  waitpid() has no such order; it is used only if the kernel has no pidfds or
 * no descriptor is left.
 */
void run_cause_watch(struct run_job *job, int rank)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.u32 = (uint32_t)rank };
	struct run_rank *r = &job->ranks[rank];

	r->end_fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	if (r->end_fd < 0)
		return;
	if (epoll_ctl(job->ends_fd, EPOLL_CTL_ADD, r->end_fd, &e)) {
		close(r->end_fd);
		r->end_fd = -1;
	}
}

static void note_end(struct run_job *job, int rank)
{
	if (!job->ranks[rank].ended_as)
		job->ranks[rank].ended_as = ++job->ends;
}

/* Numbers all ranks that have ended, collected ones included. */
static void note_ends(struct run_job *job)
{
	struct epoll_event e[NOTED_AT_ONCE];
	int n;

	do {
		n = epoll_wait(job->ends_fd, e, NOTED_AT_ONCE, 0);
		for (int i = 0; i < n; i++)
			note_end(job, (int)e[i].data.u32);
	} while (n == NOTED_AT_ONCE || (n < 0 && errno == EINTR));
	for (int r = 0; r < job->nranks; r++) {
		if (job->ranks[r].pid)
			continue;
		if (job->ranks[r].end_fd >= 0)
			close(job->ranks[r].end_fd);
		job->ranks[r].end_fd = -1;
		note_end(job, r);
	}
}

/* ---- suspects -------------------------------------------------------------------------------- */

static size_t read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, size - 1, f);
	fclose(f);
	text[n] = '\0';
	return n;
}

/* Is it a zombie, or has the kernel begun to end it? */
static int is_exiting(pid_t pid)
{
	char text[1024], state;
	const char *behind_name;
	unsigned flags;

	if (!read_proc(pid, "stat", text, sizeof(text)))
		return 1;
	/* pid (name) state parent group session terminal its-group flags */
	behind_name = strrchr(text, ')');
	if (!behind_name ||
	    sscanf(behind_name + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return 0;
	return state == 'Z' || (flags & (PF_EXITING | PF_DUMPCORE));
}

/* Has it got a SIGKILL that it has not handled yet? */
static int has_kill_pending(pid_t pid)
{
	char text[4096];
	const char *at;
	int found = 0;

	if (!read_proc(pid, "status", text, sizeof(text)))
		return 0;
	for (at = text; (at = strstr(at, "Pnd:")); at++)
		found |= (int)(strtoull(at + 4, NULL, 16) >> (SIGKILL - 1) & 1);
	return found;
}

static void gather_suspects(struct run_job *job)
{
	for (int r = 0; r < job->nranks; r++) {
		struct run_rank *rank = &job->ranks[r];

		rank->suspect = rank->pid ? is_exiting(rank->pid) || has_kill_pending(rank->pid) :
					    rank->followed;
	}
}

static int suspects_live(const struct run_job *job)
{
	for (int r = 0; r < job->nranks; r++)
		if (job->ranks[r].suspect && job->ranks[r].pid)
			return 1;
	return 0;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* Many programs call abort() after an error, so it may follow another rank's death. */
static int weight(int status)
{
	if (!WIFSIGNALED(status))
		return 0;
	return WTERMSIG(status) == SIGABRT ? 1 : 2;
}

static int is_likelier(const struct run_rank *rank, const struct run_rank *than)
{
	int difference = than ? weight(rank->status) - weight(than->status) : 1;

	return difference > 0 || (difference == 0 && rank->ended_as < than->ended_as);
}

void run_cause_decide(struct run_job *job)
{
	struct run_rank *first = NULL;

	for (int r = 0; r < job->nranks; r++) {
		struct run_rank *rank = &job->ranks[r];

		if (rank->suspect && rank->followed && is_likelier(rank, first))
			first = rank;
	}
	if (!first)
		return;
	first->followed = 0;
	job->exit_code = run_status_code(first->status);
	run_report_failure(job, (int)(first - job->ranks));
}

void run_cause_collected(struct run_job *job)
{
	int failed = 0;

	note_ends(job);
	for (int r = 0; r < job->nranks; r++)
		failed |= job->ranks[r].followed;
	if (job->phase == RUN_RUNNING && failed) {
		gather_suspects(job);
		run_end_after_verdict(job);
	}
	if (job->phase == RUN_VERDICT && !suspects_live(job)) {
		run_cause_decide(job);
		run_end_with_grace(job);
	}
}
