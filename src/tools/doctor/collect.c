/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor/collect.c - the reports of all ranks of a job.
 *
 * Ranks of this machine are asked directly, through the socket of their process.  Ranks that this
 * does not reach are asked through another rank of the job, which reads their board in memory or
 * sends the question through the boot.  Every question has a deadline.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "util/util.h"

#define CONNECT_MS 500
#define ANSWER_MS 1500
#define ANSWER_BYTES (256u * 1024)
/* A rank that does not answer takes a second or two.  After this time no more of them are asked. */
#define ALL_NS (10 * ORI_NS_PER_S)

/* ---- one question ---------------------------------------------------------------------------- */

static void set_limits(int fd, int ms)
{
	struct timeval limit = { ms / 1000, ms % 1000 * 1000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Is the other end a process of this user?  A socket of somebody else could say anything. */
static int is_own_process(int fd, pid_t pid)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.pid == pid;
}

static int read_answer(int fd, char *text)
{
	size_t used = 0;
	ssize_t n = 0;

	while (used < ANSWER_BYTES - 1 &&
	       (n = recv(fd, text + used, ANSWER_BYTES - 1 - used, 0)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	return n < 0 ? -1 : 0;
}

/* 0, or -1 with the reason in `why`. */
static int question(const char *folder, pid_t pid, const char *line, char *text, char *why,
		    size_t bytes)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err = -1, state;
	struct sockaddr_un address;
	char command[64];

	text[0] = '\0';
	ori_record_address(folder, pid, &address);
	if (fd >= 0) {
		set_limits(fd, CONNECT_MS);
		err = connect(fd, (struct sockaddr *)&address, sizeof(address));
	}
	if (!err && !is_own_process(fd, pid)) {
		errno = EPERM;
		err = -1;
	}
	if (!err) {
		set_limits(fd, ANSWER_MS);
		err = send(fd, line, strlen(line), MSG_NOSIGNAL) < 0 || read_answer(fd, text);
	}
	state = doctor_process_state(pid, command, sizeof(command));
	if (err && state == 'T')
		snprintf(why, bytes, "process %d is stopped", (int)pid);
	else if (err && !state)
		snprintf(why, bytes, "process %d has ended", (int)pid);
	else if (err)
		snprintf(why, bytes, "process %d cannot be asked: %s", (int)pid, strerror(errno));
	if (fd >= 0)
		close(fd);
	return err ? -1 : 0;
}

/* ---- a job ----------------------------------------------------------------------------------- */

struct collection {
	struct doctor_job *job;
	uint64_t start_ns;
	char *text;
	pid_t asked[64]; /* processes that answered; others are asked through them */
	int nasked;
};

static void keep(struct collection *c, const struct ori_report *r)
{
	struct ori_graph *g = &c->job->graph;

	if (r->job != c->job->job || r->rank < 0 || r->rank >= g->nranks)
		return;
	g->reports[r->rank] = *r;
	g->reports[r->rank].sampled_us = (ori_now_ns() - c->start_ns) / 1000;
}

/* An answer to "report": the members of a process. */
static void keep_members(struct collection *c)
{
	struct ori_report *r = malloc(sizeof(*r));
	char *at = c->text, *next;

	while (r && at && !strncmp(at, "member\n", 7)) {
		at += 6; /* its last newline, so that a member without lines ends there too */
		next = strstr(at, "\nmember\n");
		if (next)
			*next = '\0';
		ori_report_clear(r);
		ori_report_parse(r, at);
		keep(c, r);
		at = next ? next + 1 : NULL;
	}
	free(r);
}

static void ask_process(struct collection *c, const struct doctor_place *p)
{
	struct ori_report *r = &c->job->graph.reports[p->rank];
	char why[96];

	if (!question(c->job->folder, p->pid, "report\n", c->text, why, sizeof(why))) {
		keep_members(c);
		if (c->nasked < (int)ORI_COUNT(c->asked))
			c->asked[c->nasked++] = p->pid;
		return;
	}
	snprintf(r->silent, sizeof(r->silent), "%s", why);
	r->pid = p->pid;
}

/* A rank that did not answer itself: another rank may know its waits. */
static void ask_about(struct collection *c, int rank)
{
	struct ori_report *r = &c->job->graph.reports[rank], got;
	char line[64], why[96], reason[96];
	int pid = r->pid;

	snprintf(reason, sizeof(reason), "%s", r->silent);
	snprintf(line, sizeof(line), "ask %" PRIx64 " %d\n", c->job->job, rank);
	for (int i = 0; i < c->nasked && i < 2; i++) {
		if (question(c->job->folder, c->asked[i], line, c->text, why, sizeof(why)))
			continue;
		ori_report_clear(&got);
		ori_report_parse(&got, c->text);
		keep(c, &got);
		if (r->rank >= 0)
			break;
	}
	if (reason[0]) { /* what this machine says of the process is more exact */
		snprintf(r->silent, sizeof(r->silent), "%s", reason);
		r->pid = pid;
	}
}

/* A process with several ranks is asked once.  Returns the report of its silent rank, or NULL. */
static const struct ori_report *silent_before(const struct collection *c,
					      const struct doctor_places *places, int n)
{
	for (int i = 0; i < n; i++) {
		const struct doctor_place *p = &places->place[i];

		if (p->job == c->job->job && p->pid == places->place[n].pid &&
		    c->job->graph.reports[p->rank].silent[0])
			return &c->job->graph.reports[p->rank];
	}
	return NULL;
}

/* Ranks of this machine first: then there is somebody to ask about the others. */
static void ask_all(struct collection *c, const struct doctor_places *places)
{
	struct ori_graph *g = &c->job->graph;

	for (int i = 0; i < places->count; i++) {
		const struct doctor_place *p = &places->place[i];
		const struct ori_report *same;

		if (p->job != c->job->job || p->rank >= g->nranks || g->reports[p->rank].rank >= 0)
			continue;
		same = silent_before(c, places, i);
		if (same)
			g->reports[p->rank] = *same;
		else
			ask_process(c, p);
	}
	for (int r = 0; r < g->nranks; r++)
		if (g->reports[r].rank < 0 && ori_now_ns() - c->start_ns < ALL_NS)
			ask_about(c, r);
}

static int ranks_of(const struct doctor_places *places, uint64_t job)
{
	for (int i = 0; i < places->count; i++)
		if (places->place[i].job == job)
			return places->place[i].ranks;
	return 0;
}

int doctor_collect(const char *folder, uint64_t job, struct doctor_job *out)
{
	struct collection c = { .job = out };
	struct doctor_places places;
	struct timespec now;
	int n, err = -1;

	memset(out, 0, sizeof(*out));
	if (doctor_find(folder, &places))
		return -1;
	n = ranks_of(&places, job);
	c.text = malloc(ANSWER_BYTES);
	out->job = job;
	out->folder = folder;
	if (n && c.text && !ori_graph_open(&out->graph, n)) {
		clock_gettime(CLOCK_REALTIME, &now);
		out->at_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
		c.start_ns = ori_now_ns();
		ask_all(&c, &places);
		ori_graph_judge(&out->graph);
		out->took_s = (double)(ori_now_ns() - c.start_ns) * 1e-9;
		err = 0;
	}
	free(c.text);
	doctor_find_free(&places);
	return err;
}

void doctor_job_free(struct doctor_job *job)
{
	ori_graph_close(&job->graph);
}
