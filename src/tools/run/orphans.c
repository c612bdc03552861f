/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/orphans.c - processes that ranks started and left behind.
 *
 * oriel-run is a subreaper: a process below it whose parent died becomes a child of oriel-run,
 * whatever its group or session.  This file finds them by their parent in /proc.  Their own
 * children become ours when they have ended.  Called by ending.c, and by mps_keeper.c for the
 * processes of the MPS daemon.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

/* The parent of a process; 0 if the process has ended or is a zombie. */
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
	/* pid (name) state parent ...; a name may contain blanks and parentheses */
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

		/* Our child keeps its pid until waitpid(), so this cannot hit another process. */
		if (pid > 1 && parent_of(pid) == getpid() && !is_live_rank(job, pid))
			found += kill(pid, sig) == 0;
	}
	if (proc)
		closedir(proc);
	return found;
}
