/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/spawn.c - one rank from fork to exec.
 *
 * Owns the environment, descriptors 0 to 2, process group, limits and signals of a new rank.  Every
 * descriptor of oriel-run is close-on-exec, and main() has closed all others.  So a rank inherits
 * 0, 1, 2, and rank 0 also the rendezvous socket.  Called by main() and by job.c before its loop.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"
#include "util/util.h"

/* ---- what the ranks have in common ----------------------------------------------------------- */

/*
 * Reserves a port of 127.0.0.1 while the socket is open: the kernel gives its number to nobody
 * else.  If it does not listen, a rank can bind the same port with SO_REUSEADDR.
 */
static int open_port(int listening, int *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(a);
	int fd, on = 1;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || (listening && listen(fd, SOMAXCONN)) ||
	    getsockname(fd, (struct sockaddr *)&a, &bytes)) {
		close(fd);
		return -1;
	}
	*port = ntohs(a.sin_port);
	return fd;
}

static int make_secret(char text[65])
{
	unsigned char bytes[32];
	int err = ori_random_bytes(bytes, sizeof(bytes));

	for (size_t i = 0; !err && i < sizeof(bytes); i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
	return err;
}

int run_plan_make(struct run_plan *plan)
{
	const char *given = getenv("ORIEL_SECRET");

	plan->rank0_on_terminal = isatty(STDIN_FILENO);
	plan->secret[0] = '\0';
	if (!(given && *given) && make_secret(plan->secret))
		return 1;
	plan->listen_fd = open_port(1, &plan->listen_port);
	if (plan->listen_fd < 0)
		goto err_port;
	plan->master_fd = open_port(0, &plan->master_port);
	if (plan->master_fd < 0)
		goto err_listen;
	return 0;

err_listen:
	close(plan->listen_fd);
	plan->listen_fd = -1;
err_port:
	fprintf(stderr, "oriel-run: cannot open a port on 127.0.0.1: %s\n", strerror(errno));
	return 1;
}

void run_plan_close_listener(struct run_plan *plan)
{
	if (plan->listen_fd >= 0)
		close(plan->listen_fd);
	plan->listen_fd = -1;
}

void run_plan_close(struct run_plan *plan)
{
	run_plan_close_listener(plan);
	if (plan->master_fd >= 0)
		close(plan->master_fd);
	plan->master_fd = -1;
}

/* ---- in the child ---------------------------------------------------------------------------- */

static int set_number(const char *name, int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", n);
	return setenv(name, text, 1);
}

/* Does not replace values that the user has set. */
static int set_debug(void)
{
	return setenv("ORIEL_CHECKED", "1", 0) || setenv("ORIEL_STRICT", "1", 0) ||
	       setenv("ORIEL_LATE", "2", 0) || setenv("ORIEL_LOG", "info", 0);
}

/*
 * A rank's standard error is a pipe, on which a line of progress cannot be replaced.  Tools show it
 * on our terminal themselves.  With --tag our lines come later than the rank's, so there is none.
 */
static int set_terminal(const struct run_plan *plan, int rank)
{
	char path[128];

	if (rank || plan->options->tag || !isatty(STDERR_FILENO) ||
	    ttyname_r(STDERR_FILENO, path, sizeof(path)))
		return unsetenv("_ORIEL_TERMINAL");
	return setenv("_ORIEL_TERMINAL", path, 1);
}

static int set_environment(const struct run_plan *plan, int rank)
{
	const char *topology = plan->options->topology;
	int n = plan->options->nranks, err;

	err = set_number("RANK", rank) || set_number("WORLD_SIZE", n) ||
	      set_number("LOCAL_RANK", rank) || set_number("LOCAL_WORLD_SIZE", n) ||
	      setenv("MASTER_ADDR", "127.0.0.1", 1) ||
	      set_number("MASTER_PORT", plan->master_port) ||
	      set_number("ORIEL_PORT", plan->listen_port) || set_number("ORIEL_LISTENING", 1) ||
	      setenv(plan->mark, "1", 1) ||
	      setenv("ORIEL_LAUNCHER", "env", 1); /* even if mpirun or srun started us */
	if (!err && plan->secret[0])
		err = setenv("ORIEL_SECRET", plan->secret, 1);
	if (!err && topology)
		err = setenv("ORIEL_TOPOLOGY", topology, 1);
	if (!err && plan->options->debug)
		err = set_debug();
	if (!err)
		err = set_terminal(plan, rank);
	if (!err) /* an outer oriel-run may have set it */
		err = rank ? unsetenv("ORIEL_LISTEN_FD") :
			     set_number("ORIEL_LISTEN_FD", plan->listen_fd);
	return err;
}

static int set_descriptors(const struct run_plan *plan, int rank, int out, int err)
{
	int null;

	if (rank) {
		null = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (null < 0 || dup2(null, STDIN_FILENO) < 0)
			return -1;
	} else if (fcntl(plan->listen_fd, F_SETFD, 0)) {
		return -1;
	}
	if (out >= 0 && dup2(out, STDOUT_FILENO) < 0)
		return -1;
	return dup2(err, STDERR_FILENO) < 0 ? -1 : 0;
}

/* Gives the program the signals and limits that oriel-run was started with. */
static int set_process(const struct run_plan *plan, int own_group, pid_t parent)
{
	if (own_group && setpgid(0, 0))
		return -1;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return -1;
	if (getppid() != parent) /* it died before the line above took effect */
		_exit(1);
	setrlimit(RLIMIT_NOFILE, &plan->files);
	sigaction(SIGPIPE, &plan->pipe_action, NULL);
	signal(SIGINT, SIG_DFL); /* '&' in a shell script makes a program ignore these two */
	signal(SIGQUIT, SIG_DFL);
	return sigprocmask(SIG_SETMASK, &plan->signal_mask, NULL);
}

/* What a child sends if it could not execute the program. */
struct birth_error {
	int number; /* errno */
	int in_exec;
};

struct birth {
	int out[2], err[2], report[2]; /* pipes; -1: none */
};

static void become(const struct run_plan *plan, int rank, const struct run_rank *r,
		   const struct birth *b, pid_t parent)
{
	struct birth_error error = { 0, 0 };
	ssize_t n;

	if (!set_process(plan, r->own_group, parent) && !set_environment(plan, rank) &&
	    !set_descriptors(plan, rank, b->out[1], b->err[1])) {
		execvp(plan->options->command[0], plan->options->command);
		error.in_exec = 1;
	}
	error.number = errno;
	n = write(b->report[1], &error, sizeof(error));
	_exit(n == sizeof(error) ? 1 : 2);
}

/* ---- in the parent --------------------------------------------------------------------------- */

static void close_both(int fd[2])
{
	for (int i = 0; i < 2; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = -1;
	}
}

static int open_birth(struct birth *b, int tag)
{
	int err;

	memset(b, -1, sizeof(*b));
	err = pipe2(b->report, O_CLOEXEC) || pipe2(b->err, O_CLOEXEC) ||
	      (tag && pipe2(b->out, O_CLOEXEC));
	/* Only our ends: the program's ends must block. */
	return err || fcntl(b->err[0], F_SETFL, O_NONBLOCK) ||
	       (tag && fcntl(b->out[0], F_SETFL, O_NONBLOCK));
}

static void close_birth(struct birth *b)
{
	close_both(b->report);
	close_both(b->err);
	close_both(b->out);
}

/* Waits until exec closes the pipe.  Returns 1 if the child sent an error instead. */
static int read_report(int fd, struct birth_error *error)
{
	ssize_t n;

	do
		n = read(fd, error, sizeof(*error));
	while (n < 0 && errno == EINTR);
	return n == sizeof(*error);
}

/* Is it a program of this folder, named without the folder?  mpirun would find it. */
static int is_in_this_folder(const char *name)
{
	struct stat st;

	return !strchr(name, '/') && !stat(name, &st) && S_ISREG(st.st_mode) && !access(name, X_OK);
}

static int birth_failed(const struct run_plan *plan, int rank, const struct birth_error *e)
{
	const char *name = plan->options->command[0];

	if (!e->in_exec) {
		fprintf(stderr, "oriel-run: cannot start rank %d: %s\n", rank, strerror(e->number));
		return 1;
	}
	fprintf(stderr, "oriel-run: cannot run '%s': %s", name, strerror(e->number));
	if (e->number == ENOENT && is_in_this_folder(name))
		fprintf(stderr, "; write ./%s for the file in this folder", name);
	fprintf(stderr, "\n");
	return e->number == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_NOT_EXECUTABLE;
}

static void attach(struct run_stream *s, int rank, int pipe_fd[2])
{
	s->rank = rank;
	s->fd = pipe_fd[0];
	pipe_fd[0] = -1;
}

int run_spawn(const struct run_plan *plan, int rank, struct run_rank *r)
{
	struct birth_error error = { 0, 0 };
	pid_t parent = getpid(), pid;
	struct birth b;
	int code = 0;

	r->own_group = rank || !plan->rank0_on_terminal;
	pid = open_birth(&b, plan->options->tag) ? -1 : fork();
	if (pid == 0)
		become(plan, rank, r, &b, parent);
	if (pid < 0) {
		error.number = errno;
		code = birth_failed(plan, rank, &error);
		goto out;
	}
	close(b.report[1]);
	b.report[1] = -1;
	if (read_report(b.report[0], &error)) {
		waitpid(pid, NULL, 0);
		code = birth_failed(plan, rank, &error);
		goto out;
	}
	r->pid = r->was_pid = pid;
	attach(&r->err, rank, b.err);
	if (plan->options->tag)
		attach(&r->out, rank, b.out);
out:
	close_birth(&b);
	return code;
}
