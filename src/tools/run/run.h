/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/run.h - the parts of oriel-run, the local launcher.
 *
 *   options.c   the command line
 *   spawn.c     a rank from fork to exec: environment, descriptors, process group
 *   stream.c    what ranks print: whole lines with a tag, and back-pressure
 *   job.c       the one poll loop: signals, ends of ranks, output
 *   cause.c     which of several failed ranks is the cause, and so the exit status
 *   ending.c    the steps that end a job, and their deadlines
 *   report.c    the lines oriel-run itself prints about ranks
 *   orphans.c   processes that ranks left behind
 *   warden.c    the process that ends them when oriel-run was killed
 *   mps.c       --mps: a private MPS daemon for the job; mps_keeper.c is the process that keeps it
 *
 * One thread.  Nothing here blocks but poll() in job.c and the wait for exec in spawn.c.
 */
#ifndef ORI_RUN_H
#define ORI_RUN_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define RUN_RANKS_MAX 4096
#define RUN_EXIT_OUTPUT 1 /* all ranks succeeded, but their output could not be written */
#define RUN_EXIT_USAGE 2
#define RUN_EXIT_TIMEOUT 124
#define RUN_EXIT_NOT_EXECUTABLE 126
#define RUN_EXIT_NOT_FOUND 127
#define RUN_EXIT_SIGNAL 128
#define RUN_NEVER UINT64_MAX
#define RUN_GRACE_S 2.0

/* ---- options.c ------------------------------------------------------------------------------- */

struct run_options {
	int nranks;
	double timeout_s;     /* 0: none */
	double grace_s;       /* from one phase of the end to the next */
	const char *topology; /* NULL: none */
	int tag;
	int debug;       /* --debug */
	int mps;         /* --mps */
	int mps_percent; /* of the SMs, for each rank; 0: no limit */
	char **command;  /* NULL-terminated */
};

/* Returns -1 to go on, or the status to exit with (usage errors and --help have been printed). */
int run_options_parse(int argc, char **argv, struct run_options *);

/* ---- stream.c -------------------------------------------------------------------------------- */

/* Where lines go: oriel-run's own stdout or stderr. */
struct run_sink {
	int fd;
	int broken; /* cannot be written any more: what comes is thrown away */
	int error;  /* errno if output was lost by that; 0: only its reader has gone */
	int told;
	char *text;
	size_t begin, end, size; /* text[begin..end) is still to be written */
};

#define RUN_LINE_BYTES 4000 /* longer lines go out in pieces; a piece is one atomic pipe write */

/* What one rank prints on one descriptor. */
struct run_stream {
	int fd; /* our end of the pipe, -1: at its end */
	int rank;
	struct run_sink *sink;
	int cut; /* pieces of the line are out already */
	size_t used;
	char line[RUN_LINE_BYTES]; /* begin of a line whose end has not come */
};

void run_sink_init(struct run_sink *, int fd);
void run_sink_free(struct run_sink *);
int run_sink_pending(const struct run_sink *);
void run_sink_say(struct run_sink *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes what can be written without blocking. */
void run_sink_flush(struct run_sink *);

/* One read's worth.  Returns 1 if there may be more at once. */
int run_stream_read(struct run_stream *);
/* All there is now. */
void run_stream_drain(struct run_stream *);
/* Puts out a line that never got its end; closes. */
void run_stream_end(struct run_stream *);

/* ---- spawn.c --------------------------------------------------------------------------------- */

/* What all ranks of the job have in common. */
struct run_plan {
	const struct run_options *options;
	int listen_fd; /* rendezvous socket; rank 0 inherits it */
	int listen_port;
	int master_fd; /* holds MASTER_PORT free for the program's own use */
	int master_port;
	int rank0_on_terminal; /* rank 0 stays in our process group: it may read the terminal */
	char secret[65];
	char mark[32];    /* variable of all that the ranks start, by which the warden knows them */
	sigset_t signals; /* that oriel-run takes through a descriptor */
	/* as they were when oriel-run was started; ranks get them back */
	sigset_t signal_mask;
	struct sigaction pipe_action;
	struct rlimit files;
};

struct run_rank {
	pid_t pid;     /* 0: ended and collected, or never started */
	pid_t was_pid; /* the same, for ever */
	int own_group;
	int end_fd;   /* pidfd; -1: none */
	int ended_as; /* 1: the first of all ranks that ended, and so on; 0: lives */
	int suspect;  /* had failed or was dying when the first failure was seen */
	int status;   /* of waitpid, once it ended */
	int followed; /* failed by itself after the first one, and nobody has said so yet */
	struct run_stream out, err; /* out: only with --tag */
};

/* 0, or an exit status after one line. */
int run_plan_make(struct run_plan *);
void run_plan_close_listener(struct run_plan *);
void run_plan_close(struct run_plan *);
/* Starts one rank and waits until it has become the program.  0, or an exit status after a line. */
int run_spawn(const struct run_plan *, int rank, struct run_rank *);

/* ---- job.c ----------------------------------------------------------------------------------- */

enum run_phase {
	RUN_RUNNING, /* nothing has gone wrong */
	RUN_VERDICT, /* a rank failed; ranks that were dying then may be the cause: wait for them */
	RUN_GRACE,   /* the cause is known; the others may end by themselves and say why */
	RUN_TERM,    /* they were asked to end */
	RUN_KILL     /* they are being killed */
};

struct run_job {
	const struct run_options *options;
	struct run_sink out, err;
	struct run_rank *ranks;
	struct pollfd *polls;
	struct run_stream **polled; /* the stream of each entry of polls, NULL for the others */
	int nranks;
	int live;     /* ranks that run */
	int children; /* not 0: some process is left, be it no rank */
	int signal_fd;
	int ends_fd;   /* epoll set of the ranks' end_fd */
	int ends;      /* ranks that have ended so far */
	int stops;     /* signals that asked us to end */
	int exit_code; /* of the cause; 0 while it is not known or there is none */
	enum run_phase phase;
	int kill_rounds;
	uint64_t phase_end_ns; /* when the next phase begins */
	uint64_t job_end_ns;   /* --timeout */
	uint64_t flush_end_ns; /* when output that nobody reads is given up */
};

/* Runs the whole job and returns its exit status. */
int run_job(struct run_plan *);

/* ---- cause.c --------------------------------------------------------------------------------- */

/* Keeps note of when a rank ends; once it has been started. */
void run_cause_watch(struct run_job *, int rank);
/* Ranks were collected: if one failed, looks for the cause, and reports it once it is certain. */
void run_cause_collected(struct run_job *);
/* Names the cause among those that have ended so far. */
void run_cause_decide(struct run_job *);

/* ---- ending.c -------------------------------------------------------------------------------- */

/* Live ranks with their groups, and what is left of ranks that ended. */
void run_signal_all(struct run_job *, int sig);
void run_end_after_verdict(struct run_job *);
void run_end_with_grace(struct run_job *);
void run_end_by(struct run_job *, int sig); /* then SIGKILL */
void run_end_now(struct run_job *);
/* Deadlines: of a phase, of --timeout. */
void run_phase_over(struct run_job *);
void run_timed_out(struct run_job *);
/* A signal asks us to end; the second one gets it at once. */
void run_stop(struct run_job *, int sig);

/* ---- report.c -------------------------------------------------------------------------------- */

int run_status_failed(int status);
int run_status_code(int status); /* exit status, 128 + n for signal n */
/* "rank 3 (pid 1234) was killed by signal 9 (Killed); ending the job" */
void run_report_failure(struct run_job *, int rank);
/* Ranks that failed after the first one, by themselves. */
void run_report_followers(struct run_job *);
/* One line with the list of live ranks, such as 0-3,7, in its middle. */
void run_report_live(struct run_job *, const char *before, const char *after);

/* ---- orphans.c ------------------------------------------------------------------------------- */

/* Signals every child of this process that is not a live rank; returns how many. */
int run_orphans_signal(const struct run_job *, int sig);

/* ---- warden.c -------------------------------------------------------------------------------- */

struct run_warden {
	int hold_fd; /* its closing without a word ends the job; -1: none */
	int gone_fd; /* at its end the warden is gone */
};

/* Call it before oriel-run is a subreaper.  Sets the mark.  0, or an exit status after a line. */
int run_warden_start(struct run_plan *, struct run_warden *);
void run_warden_stop(struct run_warden *);

/* ---- mps.c, mps_keeper.c --------------------------------------------------------------------- */

struct run_mps {
	int hold_fd; /* the daemon lives until this end of a pipe is closed; -1: none */
	int say_fd;  /* what the keeper has to say */
};

/*
 * Returns once the daemon answers and this process's environment, which ranks inherit, names it: 0,
 * or an exit status after a line.  Comes before any other descriptor is opened, since the keeper
 * inherits them, and before oriel-run is a subreaper.  Without --mps it does nothing.
 */
int run_mps_start(const struct run_plan *, struct run_mps *);
/* Ends daemon and keeper, bounded by deadlines; what goes wrong is a line. */
void run_mps_stop(struct run_mps *);
/* The keeper's whole life. */
void run_mps_keep(const struct run_plan *, const char *folder, int hold_fd, int say_fd);

#endif
