/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/run.h - the parts of oriel-run, the local launcher.
 *
 *   options.c   the command line
 *   spawn.c     a rank from fork to exec: environment, descriptors, process group
 *   stream.c    what ranks print: whole lines with a tag, and back-pressure
 *   job.c       the one poll loop: signals, ends of ranks, output
 *   cause.c     decides which of several failed ranks is the cause; it gives the exit status
 *   ending.c    the steps that end a job, and their deadlines
 *   report.c    what oriel-run itself prints about ranks
 *   orphans.c   processes that ranks left behind
 *   warden.c    a process that ends them if oriel-run was killed
 *   mps.c       --mps: a private MPS daemon for the job
 *   mps_keeper.c  the process that starts and ends that daemon
 *
 * One thread.  During a job it blocks only in poll() of job.c and in the wait for exec of spawn.c.
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
	double grace_s;       /* time between two phases of the end of a job */
	const char *topology; /* NULL: none */
	int tag;
	int debug;       /* --debug */
	int mps;         /* --mps */
	int mps_percent; /* of the SMs, for each rank; 0: no limit */
	char **command;  /* NULL-terminated */
};

/* Returns -1 to go on, or an exit status; usage errors and --help have been printed. */
int run_options_parse(int argc, char **argv, struct run_options *);

/* ---- stream.c -------------------------------------------------------------------------------- */

/* Where lines go: oriel-run's own stdout or stderr. */
struct run_sink {
	int fd;
	int broken; /* cannot be written any more: further output is discarded */
	int error;  /* errno if output was lost; 0: the reader has closed the pipe */
	int told;   /* the error has been reported */
	char *text;
	size_t begin, end, size; /* text[begin..end) is still to be written */
};

#define RUN_LINE_BYTES 4000 /* longer lines are written in pieces, each by one atomic pipe write */

/* What one rank prints on one descriptor. */
struct run_stream {
	int fd; /* our end of the pipe; -1: closed */
	int rank;
	struct run_sink *sink;
	int cut; /* pieces of the current line have been written */
	size_t used;
	char line[RUN_LINE_BYTES]; /* begin of a line whose end has not been read yet */
};

void run_sink_init(struct run_sink *, int fd);
void run_sink_free(struct run_sink *);
int run_sink_pending(const struct run_sink *);
void run_sink_say(struct run_sink *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes as much as is possible without blocking. */
void run_sink_flush(struct run_sink *);

/* Makes one read().  Returns 1 if there may be more to read now. */
int run_stream_read(struct run_stream *);
/* Reads all that is in the pipe now. */
void run_stream_drain(struct run_stream *);
/* Writes a last line without a newline, then closes the stream. */
void run_stream_end(struct run_stream *);

/* ---- spawn.c --------------------------------------------------------------------------------- */

/* What all ranks of the job have in common. */
struct run_plan {
	const struct run_options *options;
	int listen_fd; /* rendezvous socket; rank 0 inherits it */
	int listen_port;
	int master_fd; /* reserves MASTER_PORT for the program's own use */
	int master_port;
	int rank0_on_terminal; /* rank 0 stays in our process group and may read the terminal */
	char secret[65];
	char mark[32];    /* environment variable by which the warden finds processes of the job */
	sigset_t signals; /* signals that oriel-run reads from a descriptor */
	/* settings that oriel-run was started with; ranks get them back */
	sigset_t signal_mask;
	struct sigaction pipe_action;
	struct rlimit files;
};

struct run_rank {
	pid_t pid;     /* 0: ended and collected, or never started */
	pid_t was_pid; /* the pid, also after the end */
	int own_group;
	int end_fd;   /* pidfd; -1: none */
	int ended_as; /* 1 for the rank that ended first, 2 for the next; 0: still runs */
	int suspect;  /* had failed, or was ending, when oriel-run saw the first failure */
	int status;   /* of waitpid, after the end */
	int followed; /* failed by itself, and this has not been reported yet */
	struct run_stream out, err; /* out: only with --tag */
};

/* Returns 0, or an exit status after it has printed one line. */
int run_plan_make(struct run_plan *);
void run_plan_close_listener(struct run_plan *);
void run_plan_close(struct run_plan *);
/*
 * Starts one rank and waits until exec has succeeded.  Returns 0, or an exit status after it has
 * printed one line.
 */
int run_spawn(const struct run_plan *, int rank, struct run_rank *);

/* ---- job.c ----------------------------------------------------------------------------------- */

enum run_phase {
	RUN_RUNNING, /* no failure so far */
	RUN_VERDICT, /* a rank failed; waits for ranks that were ending: one may be the cause */
	RUN_GRACE,   /* the cause is known; the others have time to report and to end */
	RUN_TERM,    /* they got SIGTERM, or the signal that oriel-run got */
	RUN_KILL     /* they get SIGKILL */
};

struct run_job {
	const struct run_options *options;
	struct run_sink out, err;
	struct run_rank *ranks;
	struct pollfd *polls;
	struct run_stream **polled; /* the stream of each entry of polls, NULL for the others */
	int nranks;
	int live;     /* ranks that run */
	int children; /* not 0: a process is left, which need not be a rank */
	int signal_fd;
	int ends_fd;   /* epoll set of the ranks' end_fd */
	int ends;      /* ranks that have ended so far */
	int stops;     /* signals that asked us to end */
	int exit_code; /* of the cause; 0: there is none, or it is not known yet */
	enum run_phase phase;
	int kill_rounds;
	uint64_t phase_end_ns; /* when the next phase begins */
	uint64_t job_end_ns;   /* --timeout */
	uint64_t flush_end_ns; /* when output that nobody reads is discarded */
};

/* Runs the whole job and returns its exit status. */
int run_job(struct run_plan *);

/* ---- cause.c --------------------------------------------------------------------------------- */

/* Call it for each rank after its start: records the order in which ranks end. */
void run_cause_watch(struct run_job *, int rank);
/* Call it after waitpid(): if a rank failed, looks for the cause and reports it when certain. */
void run_cause_collected(struct run_job *);
/* Chooses and reports the cause among the ranks that have ended so far. */
void run_cause_decide(struct run_job *);

/* ---- ending.c -------------------------------------------------------------------------------- */

/* Signals live ranks with their process groups, and processes that ended ranks left behind. */
void run_signal_all(struct run_job *, int sig);
void run_end_after_verdict(struct run_job *);
void run_end_with_grace(struct run_job *);
void run_end_by(struct run_job *, int sig); /* SIGKILL follows after the grace */
void run_end_now(struct run_job *);
/* The deadline of a phase, or of --timeout, has passed. */
void run_phase_over(struct run_job *);
void run_timed_out(struct run_job *);
/* A signal asks oriel-run to end.  At the second one it kills the ranks at once. */
void run_stop(struct run_job *, int sig);

/* ---- report.c -------------------------------------------------------------------------------- */

int run_status_failed(int status);
int run_status_code(int status); /* exit status, 128 + n for signal n */
/* "rank 3 (pid 1234) was killed by signal 9 (Killed); ending the job" */
void run_report_failure(struct run_job *, int rank);
/* Reports ranks that failed by themselves after the first one. */
void run_report_followers(struct run_job *);
/* Prints one line: `before`, the list of live ranks such as 0-3,7, `after`. */
void run_report_live(struct run_job *, const char *before, const char *after);

/* ---- orphans.c ------------------------------------------------------------------------------- */

/* Signals every child of this process that is not a live rank; returns how many. */
int run_orphans_signal(const struct run_job *, int sig);

/* ---- warden.c -------------------------------------------------------------------------------- */

struct run_warden {
	int hold_fd; /* if it closes before a byte was written, the warden ends the job; -1: none */
	int gone_fd; /* end of file: the warden has ended */
};

/*
 * Call it before oriel-run becomes a subreaper.  Sets the mark.  Returns 0, or an exit status after
 * it has printed one line.
 */
int run_warden_start(struct run_plan *, struct run_warden *);
void run_warden_stop(struct run_warden *);

/* ---- mps.c, mps_keeper.c --------------------------------------------------------------------- */

struct run_mps {
	int hold_fd; /* the keeper ends the daemon when this end of a pipe closes; -1: none */
	int say_fd;  /* messages of the keeper */
};

/*
 * Returns 0 when the daemon answers and this process's environment, which ranks inherit, names it;
 * or an exit status after it has printed one line.  Call it before you open other descriptors,
 * because the keeper inherits them, and before oriel-run becomes a subreaper.  Without --mps it
 * does nothing.
 */
int run_mps_start(const struct run_plan *, struct run_mps *);
/* Ends daemon and keeper within a deadline; prints a line for each problem. */
void run_mps_stop(struct run_mps *);
/* The main function of the keeper. */
void run_mps_keep(const struct run_plan *, const char *folder, int hold_fd, int say_fd);

#endif
