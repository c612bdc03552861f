/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/orphans.c - processes that ranks started and left behind.
 *
 * oriel-run is the subreaper of its ranks' families: a process whose parent died becomes
 * a child of oriel-run, whatever group or session it moved to.  They are found by their
 * parent in /proc; those below them become our children when the ones above have ended.
 * Called by job.c at the end of a job.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

/* Parent of a process, or 0 if it is gone already or is a zombie. */
static pid_t parent_of(pid_t pid)
{
	char path[64], text[512], state;
	const char *behind_name;
	int parent = 0;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	/* pid (name) state parent ...: a name may have blanks and parentheses in it */
	behind_name = strrchr(text, ')');
	if (!behind_name || sscanf(behind_name + 1, " %c %d", &state, &parent) != 2)
		return 0;
	return state == 'Z' ? 0 : parent;
}

static int is_live_rank(const struct run_job *job, pid_t pid)
{
	for (int r = 0; r < job->nranks; r++)
		if (job->ranks[r].pid == pid)
			return 1;
	return 0;
}

int run_orphans_signal(const struct run_job *job, int sig)
{
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	int found = 0;

	while (proc && (e = readdir(proc))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;

		/* It is our child and not waited for, so its pid cannot be another's by now. */
		if (pid > 1 && parent_of(pid) == getpid() && !is_live_rank(job, pid))
			found += kill(pid, sig) == 0;
	}
	if (proc)
		closedir(proc);
	return found;
}
