/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/run.c - runs one seed in its own process.
 *
 * So a crash or an endless wait is a finding like any other, each seed has its own environment, and
 * the process that starts seeds never uses CUDA.  The output of the process is kept beside the
 * result.  Of tests/check.h, this file has the part that tests/ranks.c needs.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "rank.h"

#define PRINTED 6 /* lines of what it printed that are shown */

int check_failures, check_skipped;
struct check_test *check_tests, *check_running;

void check_fail(const char *file, int line, const char *fmt, ...)
{
	va_list args;

	__atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED);
	fprintf(stderr, "%s:%d: ", file, line);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

void check_skip(const char *fmt, ...)
{
	(void)fmt;
	check_skipped = 1;
}

double camp_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void camp_nap(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	nanosleep(&nap, NULL);
}

/* ---- in the child ---------------------------------------------------------------------------- */

/* Nearest to the cause: the lowest level, then the earliest step. */
static const struct camp_told *cause(const struct camp_result *result)
{
	const struct camp_told *best = NULL;

	for (int r = 0; r < CAMP_RANKS; r++) {
		const struct camp_told *t = &result->told[r];

		if (t->level && (!best || t->level < best->level ||
				 (t->level == best->level && t->step < best->step)))
			best = t;
	}
	return best;
}

static void run_program(const struct camp_program *p, double timeout_s, struct camp_result *result)
{
	struct camp_shared shared = { .told = result->told };
	struct ranks_options o;

	memset(&o, 0, sizeof(o));
	o.nranks = p->config.ranks;
	o.processes = p->config.processes;
	o.timeout_s = timeout_s;
	o.deadline_s = 2 * timeout_s + 15;
	if (camp_emit_program(p, NULL, &shared.emit))
		abort();
	result->nops = shared.emit->nops;
	ranks_run(&o, camp_rank_main, &shared);
	if (!cause(result) && !check_failures && !o.processes)
		camp_gpu_leftovers();
	result->failed = cause(result) || check_failures;
	camp_emit_free(shared.emit);
}

static void child_main(uint64_t seed, const struct camp_options *o, struct camp_result *result)
{
	struct camp_program p;

	camp_plan(seed, o, &p);
	camp_config_apply(&p.config, o->timeout_s);
	run_program(&p, o->timeout_s, result);
	fflush(NULL);
	_exit(result->failed ? 1 : 0);
}

/* ---- the parent's side ----------------------------------------------------------------------- */

int camp_child_begin(struct camp_child *c, uint64_t seed, const struct camp_options *o)
{
	pid_t parent = getpid();
	struct camp_program p;

	memset(c, 0, sizeof(*c));
	c->seed = seed;
	c->result = mmap(NULL, sizeof(*c->result), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	c->errors = memfd_create("campaign", MFD_CLOEXEC);
	if (c->result == MAP_FAILED || c->errors < 0) {
		perror("campaign");
		exit(2);
	}
	camp_plan(seed, o, &p);
	camp_config_text(&p.config, c->result->config, sizeof(c->result->config));
	c->deadline_s = 3 * o->timeout_s + 20;
	c->began = camp_now();
	fflush(NULL);
	c->pid = fork();
	if (c->pid)
		return c->pid > 0 ? 0 : -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	dup2(c->errors, STDERR_FILENO);
	dup2(c->errors, STDOUT_FILENO);
	child_main(seed, o, c->result);
	_exit(1); /* not reached */
}

/* What follows from the abort that ends a failed program, and what is said on every run. */
static int is_noise(const char *line)
{
	return strstr(line, "aborted the comm") || strstr(line, "the comm has failed") ||
	       strstr(line, "warning:");
}

/* The first lines that tell something. */
static void keep_printed(struct camp_child *c)
{
	char *text = c->result->text, line[400];
	size_t used = strlen(text), room = sizeof(c->result->text);
	FILE *in = fdopen(c->errors, "r");
	int lines = 0;

	if (!in) {
		close(c->errors);
		return;
	}
	rewind(in);
	while (fgets(line, sizeof(line), in) && lines < PRINTED && used + sizeof(line) + 8 < room)
		if (!is_noise(line)) {
			line[strcspn(line, "\n")] = 0;
			used += (size_t)snprintf(text + used, room - used, "\n    %s", line);
			lines++;
		}
	fclose(in);
}

static void judge(struct camp_child *c, int status)
{
	struct camp_result *r = c->result;
	const struct camp_told *told = cause(r);
	size_t used = strlen(r->text);

	if (told)
		used += (size_t)snprintf(r->text + used, sizeof(r->text) - used, "%s%s",
					 used ? "\n    " : "", told->text);
	if (WIFSIGNALED(status)) {
		r->failed = 2;
		snprintf(r->text + used, sizeof(r->text) - used, "%sended by signal %d (%s)",
			 used ? "\n    " : "", WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else if (WEXITSTATUS(status)) {
		r->failed = r->failed ? r->failed : 1;
	}
	if (r->failed)
		keep_printed(c);
	else
		close(c->errors);
}

int camp_child_poll(struct camp_child *c)
{
	int status = 0;
	pid_t got = waitpid(c->pid, &status, WNOHANG);

	if (!got || (got < 0 && errno == EINTR)) {
		if (camp_now() - c->began < c->deadline_s)
			return 0;
		kill(c->pid, SIGKILL);
		waitpid(c->pid, &status, 0);
		snprintf(c->result->text, sizeof(c->result->text), "not over after %.0f s",
			 c->deadline_s);
	}
	c->result->seconds = camp_now() - c->began;
	judge(c, status);
	return 1;
}
