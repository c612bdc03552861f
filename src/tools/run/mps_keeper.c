/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/mps_keeper.c - the process that starts a job's MPS daemon, keeps it, and ends it.
 *
 * It runs in a session of its own, so that signals of a terminal reach neither it nor the daemon.
 * It ends when oriel-run's end of a pipe closes.  It is a subreaper: the daemon, which goes into
 * the background, and the server that the daemon starts become its children.  So waitpid() tells
 * when they have ended.  Every step has a deadline, and a message names the step that failed.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"
#include "util/util.h"

#define CONTROL "nvidia-cuda-mps-control"
#define START_NS (15 * ORI_NS_PER_S) /* until the daemon is in the background */
#define READY_NS (15 * ORI_NS_PER_S) /* from then to its first answer */
#define ASK_NS (5 * ORI_NS_PER_S)    /* for one command */
#define END_NS (10 * ORI_NS_PER_S)   /* from "quit" to the end of daemon and server */
#define KILL_NS (5 * ORI_NS_PER_S)
#define LOOK_MS 10

/* What run_control() returns besides exit statuses. */
#define TOO_LATE (-1)
#define CANCELLED (-2)
#define CANNOT_START (-3)

struct keeper {
	const struct run_plan *plan;
	int hold_fd; /* closed by the other side: oriel-run wants us to end, or has ended */
	int say_fd;
	int ending;
	char answer[256]; /* first line that the last command printed */
};

__attribute__((format(printf, 2, 3))) static void say(struct keeper *k, const char *fmt, ...)
{
	char text[500];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(text))
		n = sizeof(text) - 1;
	if (n > 0)
		text[n++] = '\n';
	if (n > 0 && write(k->say_fd, text, (size_t)n) < 0)
		return; /* oriel-run has ended, and nobody else listens */
}

/* A short pause.  Returns 1 if oriel-run has closed its end of the pipe. */
static int pause_or_let_go(const struct keeper *k)
{
	struct pollfd p = { .fd = k->ending ? -1 : k->hold_fd, .events = 0 };

	return poll(&p, 1, LOOK_MS) > 0;
}

/* ---- one run of the control program ---------------------------------------------------------- */

static void become_control(const struct keeper *k, const char *command, int in, int out)
{
	struct sigaction by_default = { .sa_handler = SIG_DFL };

	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0)
		_exit(126);
	sigaction(SIGPIPE, &by_default, NULL);
	setrlimit(RLIMIT_NOFILE, &k->plan->files);
	sigprocmask(SIG_SETMASK, &k->plan->signal_mask, NULL);
	if (command)
		execlp(CONTROL, CONTROL, (char *)NULL);
	else
		execlp(CONTROL, CONTROL, "-d", (char *)NULL);
	_exit(errno == ENOENT ? 127 : 126);
}

static int await_exit(const struct keeper *k, pid_t pid, uint64_t within_ns)
{
	uint64_t end = ori_deadline_ns(within_ns);
	int status, verdict = 0;
	pid_t ended;

	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && !verdict) {
		if (pause_or_let_go(k))
			verdict = CANCELLED;
		else if (ori_now_ns() >= end)
			verdict = TOO_LATE;
	}
	if (ended == pid)
		return run_status_code(status);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return verdict;
}

static void keep_answer(struct keeper *k, int out)
{
	ssize_t n = pread(out, k->answer, sizeof(k->answer) - 1, 0);

	k->answer[n > 0 ? n : 0] = '\0';
	k->answer[strcspn(k->answer, "\n")] = '\0';
}

/*
 * Runs the control program with a command; NULL: starts the daemon.  Returns its exit status, or
 * one of the values above.  Its input and output are files in memory, not pipes: a daemon may keep
 * them open, and nobody waits for their end.
 */
static int run_control(struct keeper *k, const char *command, uint64_t within_ns)
{
	int in = memfd_create("mps-in", MFD_CLOEXEC), out = memfd_create("mps-out", MFD_CLOEXEC);
	int verdict = CANNOT_START;
	pid_t pid;

	k->answer[0] = '\0';
	if (in < 0 || out < 0 || (command && dprintf(in, "%s\n", command) < 0) ||
	    lseek(in, 0, SEEK_SET))
		goto out;
	pid = fork();
	if (pid == 0)
		become_control(k, command, in, out);
	if (pid < 0)
		goto out;
	verdict = await_exit(k, pid, within_ns);
	keep_answer(k, out);
out:
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return verdict;
}

/* ---- start ----------------------------------------------------------------------------------- */

static int start_daemon(struct keeper *k)
{
	int verdict = run_control(k, NULL, START_NS);

	if (verdict == 0 || verdict == CANCELLED)
		return verdict;
	if (verdict == 127)
		say(k, CONTROL " is not in PATH; it comes with the NVIDIA driver");
	else if (verdict == 126)
		say(k, CONTROL " is in PATH but cannot be executed");
	else if (verdict == TOO_LATE)
		say(k, CONTROL " -d did not return within %d s", (int)(START_NS / ORI_NS_PER_S));
	else if (verdict == CANNOT_START)
		say(k, "cannot start " CONTROL ": %s", strerror(errno));
	else
		say(k, CONTROL " -d failed with status %d: %s", verdict,
		    k->answer[0] ? k->answer : "it printed nothing");
	return -1;
}

/* A daemon answers with a number.  Without a daemon the control program prints a text. */
static int await_answer(struct keeper *k)
{
	uint64_t end = ori_deadline_ns(READY_NS);

	for (;;) {
		int verdict = run_control(k, "get_default_active_thread_percentage", ASK_NS);

		if (verdict == CANCELLED)
			return CANCELLED;
		if (isdigit((unsigned char)k->answer[0]))
			return 0;
		if (ori_now_ns() >= end)
			break;
		if (pause_or_let_go(k))
			return CANCELLED;
	}
	say(k, "the MPS daemon was started but did not answer within %d s; the last attempt: %s",
	    (int)(READY_NS / ORI_NS_PER_S), k->answer[0] ? k->answer : "nothing");
	return -1;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Waits until no child is left: 1, or 0 at the deadline.  Sends them `sig` repeatedly if not 0. */
static int await_no_child(const struct keeper *k, int sig, uint64_t within_ns)
{
	struct run_job no_ranks = { .nranks = 0 };
	uint64_t end = ori_deadline_ns(within_ns);

	for (;;) {
		pid_t pid;

		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0 && errno == ECHILD)
			return 1;
		if (ori_now_ns() >= end)
			return 0;
		if (sig)
			run_orphans_signal(&no_ranks, sig);
		pause_or_let_go(k);
	}
}

static void end_daemon(struct keeper *k)
{
	int verdict;

	if (await_no_child(k, 0, 0)) /* never started, or ended by itself */
		return;
	verdict = run_control(k, "quit", ASK_NS);
	if (verdict)
		say(k, "\"quit\" to the MPS daemon failed (%s%d): %s",
		    verdict < 0 ? "no answer in time, " : "status ", verdict,
		    k->answer[0] ? k->answer : "it printed nothing");
	if (await_no_child(k, 0, verdict ? 0 : END_NS))
		return;
	say(k, "the MPS daemon did not end after \"quit\"; killing it");
	if (!await_no_child(k, SIGKILL, KILL_NS))
		say(k, "the MPS daemon did not end after SIGKILL");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

static void remove_folder(struct keeper *k, const char *folder)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (!access(folder, F_OK))
		say(k, "cannot remove %s", folder);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void close_stdio(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
}

/*
 * The daemon sees all GPUs, and ranks choose among them.  If CUDA_VISIBLE_DEVICES were set for the
 * daemon, too, ranks would apply it a second time, to the daemon's shorter list.  The limit of SMs
 * is also set for ranks only.
 */
static int set_variables(const char *folder)
{
	return setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1) ||
	       setenv("CUDA_MPS_LOG_DIRECTORY", folder, 1) || unsetenv("CUDA_VISIBLE_DEVICES") ||
	       unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
}

static void wait_until_let_go(const struct keeper *k)
{
	struct pollfd p = { .fd = k->hold_fd, .events = 0 };

	/* This wait has no deadline on purpose: it ends when oriel-run ends. */
	while (poll(&p, 1, -1) <= 0)
		;
}

void run_mps_keep(const struct run_plan *plan, const char *folder, int hold_fd, int say_fd)
{
	struct keeper k = { .plan = plan, .hold_fd = hold_fd, .say_fd = say_fd };

	close_stdio();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (set_variables(folder)) {
		say(&k, "no memory");
	} else if (!start_daemon(&k) && !await_answer(&k)) {
		say(&k, "+");
		wait_until_let_go(&k);
	}
	k.ending = 1;
	end_daemon(&k);
	remove_folder(&k, folder);
}
