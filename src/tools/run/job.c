/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/job.c - the job: one poll loop over signals, output and deadlines.
 *
 * A job is over when all ranks and all processes that they left behind have ended, and all their
 * output is written.  cause.c decides which failure gives the exit status, ending.c how to end the
 * job.  Called once, by main(), on the only thread.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"
#include "util/util.h"

/* ---- ranks that ended ------------------------------------------------------------------------ */

static int find_rank(const struct run_job *job, pid_t pid)
{
	for (int r = 0; r < job->nranks; r++)
		if (job->ranks[r].pid == pid)
			return r;
	return -1;
}

/* Reads its output first, so that it is written before our message about the rank. */
static void rank_ended(struct run_job *job, struct run_rank *r, int status)
{
	run_stream_drain(&r->out);
	run_stream_drain(&r->err);
	r->pid = 0;
	r->status = status;
	r->followed = run_status_failed(status) && job->phase <= RUN_GRACE;
	job->live--;
}

static void collect(struct run_job *job)
{
	int status, rank;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		rank = find_rank(job, pid);
		if (rank >= 0) /* otherwise a rank left it behind */
			rank_ended(job, &job->ranks[rank], status);
	}
	job->children = pid == 0;
	run_cause_collected(job);
	if (!job->live && job->children && job->phase == RUN_RUNNING)
		run_end_with_grace(job);
}

/* ---- signals --------------------------------------------------------------------------------- */

/* Ctrl-Z: the terminal does not send it to the ranks' process groups. */
static void suspend(struct run_job *job)
{
	run_signal_all(job, SIGSTOP);
	raise(SIGSTOP);
	run_signal_all(job, SIGCONT);
}

static void read_signals(struct run_job *job)
{
	struct signalfd_siginfo info;

	while (read(job->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			suspend(job);
		else if (info.ssi_signo != SIGCHLD)
			run_stop(job, (int)info.ssi_signo);
	}
	collect(job);
}

static int open_signals(const struct run_plan *plan)
{
	return signalfd(-1, &plan->signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void poll_sink(struct pollfd *p, const struct run_sink *s)
{
	p->fd = run_sink_pending(s) ? s->fd : -1;
	p->events = POLLOUT;
}

static void poll_stream(struct run_job *job, int *n, struct run_stream *s)
{
	if (s->fd < 0 || run_sink_pending(s->sink))
		return;
	job->polls[*n].fd = s->fd;
	job->polls[*n].events = POLLIN;
	job->polled[*n] = s;
	(*n)++;
}

static int fill_polls(struct run_job *job)
{
	int n = 3;

	job->polls[0].fd = job->signal_fd;
	job->polls[0].events = POLLIN;
	poll_sink(&job->polls[1], &job->out);
	poll_sink(&job->polls[2], &job->err);
	for (int r = 0; r < job->nranks; r++) {
		poll_stream(job, &n, &job->ranks[r].out);
		poll_stream(job, &n, &job->ranks[r].err);
	}
	return n;
}

/* Milliseconds until the next deadline, rounded up so that it has passed when poll returns. */
static int next_timeout(const struct run_job *job)
{
	uint64_t now = ori_now_ns(), next = job->phase_end_ns, ms;

	if (job->job_end_ns < next)
		next = job->job_end_ns;
	if (job->flush_end_ns < next)
		next = job->flush_end_ns;
	if (next == RUN_NEVER)
		return -1;
	if (next <= now)
		return 0;
	ms = (next - now + 999999) / 1000000;
	return ms > 3600000 ? 3600000 : (int)ms;
}

/* Reports lost output once.  If standard error is lost, only the exit status shows it. */
static void flush_sinks(struct run_job *job)
{
	run_sink_flush(&job->out);
	if (job->out.error && !job->out.told) {
		job->out.told = 1;
		run_sink_say(&job->err,
			     "cannot write standard output: %s; its further lines are lost",
			     strerror(job->out.error));
	}
	run_sink_flush(&job->err);
}

static void one_round(struct run_job *job)
{
	int n = fill_polls(job);

	if (poll(job->polls, (nfds_t)n, next_timeout(job)) > 0) {
		for (int i = 3; i < n; i++)
			if (job->polls[i].revents)
				run_stream_read(job->polled[i]);
		if (job->polls[0].revents)
			read_signals(job);
	}
	flush_sinks(job);
	if (ori_now_ns() >= job->job_end_ns)
		run_timed_out(job);
	if (ori_now_ns() >= job->phase_end_ns)
		run_phase_over(job);
}

/* No writer is left: reads the rest of the pipes. */
static void end_streams(struct run_job *job)
{
	for (int r = 0; r < job->nranks; r++) {
		run_stream_drain(&job->ranks[r].out);
		run_stream_end(&job->ranks[r].out);
		run_stream_drain(&job->ranks[r].err);
		run_stream_end(&job->ranks[r].err);
	}
}

/* If nobody reads our output, we wait until a signal asks us to end. */
static void loop(struct run_job *job)
{
	while (job->live || job->children)
		one_round(job);
	end_streams(job);
	run_report_followers(job);
	job->job_end_ns = job->phase_end_ns = RUN_NEVER;
	if (!job->stops)
		job->flush_end_ns = RUN_NEVER;
	flush_sinks(job);
	while ((run_sink_pending(&job->out) || run_sink_pending(&job->err)) &&
	       ori_now_ns() < job->flush_end_ns)
		one_round(job);
}

/* ---- start ----------------------------------------------------------------------------------- */

static int job_init(struct run_job *job, const struct run_plan *plan)
{
	size_t n = (size_t)plan->options->nranks;

	memset(job, 0, sizeof(*job));
	job->options = plan->options;
	job->phase_end_ns = job->job_end_ns = job->flush_end_ns = RUN_NEVER;
	run_sink_init(&job->out, STDOUT_FILENO);
	run_sink_init(&job->err, STDERR_FILENO);
	job->ranks = calloc(n, sizeof(*job->ranks));
	job->polls = calloc(3 + 2 * n, sizeof(*job->polls));
	job->polled = calloc(3 + 2 * n, sizeof(struct run_stream *));
	job->signal_fd = open_signals(plan);
	job->ends_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!job->ranks || !job->polls || !job->polled || job->signal_fd < 0 || job->ends_fd < 0) {
		fprintf(stderr, "oriel-run: cannot prepare %zu ranks: %s\n", n, strerror(errno));
		return 1;
	}
	for (size_t r = 0; r < n; r++) {
		job->ranks[r].end_fd = job->ranks[r].out.fd = job->ranks[r].err.fd = -1;
		job->ranks[r].out.sink = &job->out;
		job->ranks[r].err.sink = &job->err;
	}
	job->nranks = (int)n;
	return 0;
}

static void job_free(struct run_job *job)
{
	if (job->signal_fd >= 0)
		close(job->signal_fd);
	if (job->ends_fd >= 0)
		close(job->ends_fd);
	run_sink_free(&job->out);
	run_sink_free(&job->err);
	free(job->polled);
	free(job->polls);
	free(job->ranks);
}

/* Starts all ranks.  If one cannot be started, it ends those that run. */
static void start_ranks(struct run_job *job, const struct run_plan *plan)
{
	for (int r = 0; r < job->nranks; r++) {
		job->exit_code = run_spawn(plan, r, &job->ranks[r]);
		if (job->exit_code) {
			run_end_now(job);
			break;
		}
		run_cause_watch(job, r);
		job->live++;
	}
	job->children = job->live;
}

int run_job(struct run_plan *plan)
{
	struct run_job job;
	int code = job_init(&job, plan);

	if (code)
		goto out;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (plan->options->timeout_s > 0)
		job.job_end_ns = ori_deadline_ns((uint64_t)(plan->options->timeout_s * 1e9));
	start_ranks(&job, plan);
	/*
	 * From now on only rank 0 holds the listener.  If rank 0 dies, connections are refused, and
	 * the other ranks end at once (ORIEL_LISTENING).
	 */
	run_plan_close_listener(plan);
	loop(&job);
	code = job.exit_code;
	if (!code && (job.out.error || job.err.error))
		code = RUN_EXIT_OUTPUT;
out:
	job_free(&job);
	return code;
}
