/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/ending.c - the phases that end a job (enum run_phase): the verdict, a grace in which the
 * other ranks report what they saw, SIGTERM, and SIGKILL.
 *
 * Owns the phases and their deadlines.  job.c and cause.c call it when a rank has failed, a signal
 * has come or a deadline has passed.
 */
#include <stdio.h>
#include <string.h>

#include "run.h"
#include "util/util.h"

#define VERDICT_NS                                                                                 \
	(10 * ORI_NS_PER_S) /* for ranks that are ending: freeing their memory takes time */
#define KILL_AGAIN_NS (ORI_NS_PER_S / 20)
#define KILL_GIVE_UP 200 /* rounds: 10 s */

void run_signal_all(struct run_job *job, int sig)
{
	for (int r = 0; r < job->nranks; r++) {
		const struct run_rank *rank = &job->ranks[r];

		if (rank->pid)
			kill(rank->own_group ? -rank->pid : rank->pid, sig);
	}
	run_orphans_signal(job, sig);
}

static void enter(struct run_job *job, enum run_phase phase, uint64_t after_ns)
{
	job->phase = phase;
	job->phase_end_ns = ori_deadline_ns(after_ns);
}

/* Time between two phases. */
static uint64_t step_ns(const struct run_job *job)
{
	return (uint64_t)(job->options->grace_s * 1e9);
}

void run_end_after_verdict(struct run_job *job)
{
	enter(job, RUN_VERDICT, VERDICT_NS);
}

void run_end_with_grace(struct run_job *job)
{
	enter(job, RUN_GRACE, step_ns(job));
}

void run_end_by(struct run_job *job, int sig)
{
	run_signal_all(job, sig);
	enter(job, RUN_TERM, step_ns(job));
}

/*
 * Called again until no process is left: descendants of a killed process become our children only
 * after its death.
 */
void run_end_now(struct run_job *job)
{
	run_signal_all(job, SIGKILL);
	enter(job, RUN_KILL, KILL_AGAIN_NS);
	if (++job->kill_rounds < KILL_GIVE_UP)
		return;
	/* They are stuck in the kernel.  Nothing can end them, so we do not wait for them. */
	if (job->live)
		run_report_live(job, "giving up on ", ": not ended by SIGKILL");
	job->live = 0;
	job->children = 0;
}

static void grace_over(struct run_job *job)
{
	char later[64];

	snprintf(later, sizeof(later), ", still running %g s later", job->options->grace_s);
	run_report_followers(job);
	if (job->live)
		run_report_live(job, "ending ", later);
	else if (run_orphans_signal(job, 0))
		run_sink_say(&job->err, "ending processes that the ranks started and left running");
	run_end_by(job, SIGTERM);
}

void run_phase_over(struct run_job *job)
{
	switch (job->phase) {
	case RUN_RUNNING:
		break;
	case RUN_VERDICT:
		run_cause_decide(job);
		run_end_with_grace(job);
		break;
	case RUN_GRACE:
		grace_over(job);
		break;
	case RUN_TERM:
	case RUN_KILL:
		run_end_now(job);
		break;
	}
}

void run_timed_out(struct run_job *job)
{
	job->job_end_ns = RUN_NEVER;
	if (job->phase != RUN_RUNNING || !job->live)
		return;
	job->exit_code = RUN_EXIT_TIMEOUT;
	run_report_live(job, "the time of --timeout is over; ending ", ", still running");
	run_end_by(job, SIGTERM);
}

void run_stop(struct run_job *job, int sig)
{
	job->flush_end_ns = job->stops ? 0 : ori_deadline_ns(step_ns(job));
	if (job->stops++) {
		run_end_now(job);
		return;
	}
	if (job->phase == RUN_VERDICT)
		run_cause_decide(job);
	run_sink_say(&job->err, "signal %d (%s); ending the job", sig, strsignal(sig));
	if (!job->exit_code)
		job->exit_code = RUN_EXIT_SIGNAL + sig;
	if (job->phase < RUN_KILL)
		run_end_by(job, sig);
}
