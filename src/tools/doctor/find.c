/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor/find.c - which processes of this user can be asked, and to which jobs they belong.
 *
 * The records are files in a private directory (diag/record.h).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

/* ---- processes ------------------------------------------------------------------------------- */

/* The line of /proc/PID/stat: "PID (command) STATE PARENT ..."; the command may contain ')'. */
static int read_stat(pid_t pid, char *command, size_t bytes, char *state, int *parent)
{
	char path[48], line[512], *open, *end;
	size_t got;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (!f)
		return -1;
	got = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[got] = '\0';
	open = strchr(line, '(');
	end = strrchr(line, ')');
	if (!open || !end || sscanf(end + 1, " %c %d", state, parent) != 2)
		return -1;
	snprintf(command, bytes, "%.*s", (int)(end - open - 1), open + 1);
	return 0;
}

int doctor_process_state(pid_t pid, char *command, size_t bytes)
{
	char state;
	int parent;

	return read_stat(pid, command, bytes, &state, &parent) ? 0 : state;
}

static pid_t parent_of(pid_t pid)
{
	char command[32], state;
	int parent;

	return read_stat(pid, command, sizeof(command), &state, &parent) ? 0 : parent;
}

/* ---- records --------------------------------------------------------------------------------- */

static int add_place(struct doctor_places *p, const struct doctor_place *place)
{
	struct doctor_place *grown = realloc(p->place, (size_t)(p->count + 1) * sizeof(*grown));

	if (!grown)
		return -1;
	p->place = grown;
	p->place[p->count++] = *place;
	return 0;
}

static int read_record(const char *folder, pid_t pid, struct doctor_places *p)
{
	char path[ORI_RECORD_PATH_BYTES + 20], line[128];
	struct doctor_place place = { .pid = pid };
	int err = 0;
	FILE *f;

	ori_record_path(folder, pid, "job", path);
	f = fopen(path, "r");
	if (!f)
		return 0; /* the process has just ended */
	while (!err && fgets(line, sizeof(line), f))
		if (sscanf(line, "rank %d of %d job %" SCNx64, &place.rank, &place.ranks,
			   &place.job) == 3 &&
		    place.rank >= 0 && place.rank < place.ranks)
			err = add_place(p, &place);
	fclose(f);
	return err;
}

static int by_job_and_rank(const void *a, const void *b)
{
	const struct doctor_place *x = a, *y = b;

	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	return x->rank - y->rank;
}

struct finding {
	const char *folder;
	struct doctor_places *places;
	int err;
};

static void found(void *ctx, pid_t pid)
{
	struct finding *f = ctx;

	if (!f->err)
		f->err = read_record(f->folder, pid, f->places);
}

int doctor_find(const char *folder, struct doctor_places *p)
{
	struct finding f = { folder, p, 0 };

	p->place = NULL;
	p->count = 0;
	ori_record_each(folder, found, &f);
	if (p->count)
		qsort(p->place, (size_t)p->count, sizeof(*p->place), by_job_and_rank);
	return f.err;
}

void doctor_find_free(struct doctor_places *p)
{
	free(p->place);
	p->place = NULL;
	p->count = 0;
}

/* ---- the choice of a job --------------------------------------------------------------------- */

static int begins_job(const struct doctor_places *p, int i)
{
	return i == 0 || p->place[i].job != p->place[i - 1].job;
}

void doctor_list(const struct doctor_places *p)
{
	for (int i = 0; i < p->count; i++) {
		const struct doctor_place *first = &p->place[i];
		char command[64] = "?";
		int here = 0;

		if (!begins_job(p, i))
			continue;
		for (int k = i; k < p->count && p->place[k].job == first->job; k++)
			here++;
		(void)doctor_process_state(first->pid, command, sizeof(command));
		printf("job %u: %s, %d ranks, %d of them in processes of this machine (%d ...)\n",
		       (unsigned)(uint32_t)first->job, command, first->ranks, here,
		       (int)first->pid);
	}
}

static int means(const struct doctor_place *p, long number)
{
	return (long)(uint32_t)p->job == number || (long)p->pid == number ||
	       (long)parent_of(p->pid) == number;
}

int doctor_choose(const struct doctor_places *p, const char *name, uint64_t *job)
{
	char *end = NULL;
	long number = name ? strtol(name, &end, 10) : 0;
	int found = 0;

	if (name && (end == name || *end || number <= 0)) {
		fprintf(stderr, "oriel-doctor: '%s' is not the number of a job or a process\n",
			name);
		return DOCTOR_EXIT_USAGE;
	}
	for (int i = 0; i < p->count; i++) {
		if (name && !means(&p->place[i], number))
			continue;
		if (!found || p->place[i].job != *job)
			found++;
		*job = p->place[i].job;
	}
	if (!found && name)
		fprintf(stderr, "oriel-doctor: no job %s of this user runs here\n", name);
	else if (!found)
		fprintf(stderr, "oriel-doctor: no job of this user runs here\n");
	if (found <= 1)
		return found ? 0 : DOCTOR_EXIT_NONE;
	fprintf(stderr, "oriel-doctor: several jobs run here; choose one of them by its number\n");
	doctor_list(p);
	return DOCTOR_EXIT_USAGE;
}
