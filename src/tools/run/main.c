/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/main.c - oriel-run: starts the ranks of a job on this machine and ends them together.
 *
 * Sets up this process: descriptors, limits, signals.  run.h lists the files that do the rest.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

/*
 * Opens 0, 1 and 2 if they are closed, so that no pipe of ours gets such a number.  Closes all
 * others, so that ranks inherit only what we give them.
 */
static void clean_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	closefrom(STDERR_FILENO + 1);
}

/* Each rank has two pipes, so 256 ranks need more descriptors than many default limits. */
static void raise_limits(struct run_plan *plan)
{
	struct rlimit all;

	getrlimit(RLIMIT_NOFILE, &plan->files);
	all = plan->files;
	all.rlim_cur = all.rlim_max;
	setrlimit(RLIMIT_NOFILE, &all);
}

/* From here on these signals come through a descriptor.  SIGHUP stays ignored under nohup. */
static void catch_signals(struct run_plan *plan)
{
	static const int caught[] = { SIGCHLD, SIGINT, SIGTERM, SIGQUIT, SIGTSTP };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, hangup;

	sigemptyset(&plan->signals);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		sigaddset(&plan->signals, caught[i]);
	if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler != SIG_IGN)
		sigaddset(&plan->signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &plan->signals, &plan->signal_mask);
	signal(SIGCHLD, SIG_DFL); /* if the parent ignored it, waitpid() would find nothing */
	sigaction(SIGPIPE, &ignore, &plan->pipe_action);
}

int main(int argc, char **argv)
{
	struct run_options options;
	struct run_plan plan;
	struct run_warden warden;
	struct run_mps mps;
	int code;

	clean_descriptors();
	code = run_options_parse(argc, argv, &options);
	if (code >= 0)
		return code;
	memset(&plan, 0, sizeof(plan));
	plan.options = &options;
	raise_limits(&plan);
	catch_signals(&plan);
	code = run_mps_start(&plan, &mps);
	if (code)
		return code;
	code = run_plan_make(&plan);
	if (code)
		goto out;
	code = run_warden_start(&plan, &warden);
	if (!code)
		code = run_job(&plan);
	run_warden_stop(&warden);
	run_plan_close(&plan);
out:
	run_mps_stop(&mps);
	return code;
}
