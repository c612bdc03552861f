/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor/json.c - a job as one JSON object.  docs/doctor.md describes its members.
 *
 * Texts come from other processes and may hold any bytes: what is not printable ASCII is escaped.
 */
#include <string.h>

#include "doctor.h"

static void put_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c < 0x20 || *c >= 0x7f)
			fprintf(out, "\\u%04x", *c);
		else
			fputc(*c, out);
	}
	fputc('"', out);
}

static void put_member(FILE *out, const char *name, const char *text)
{
	fprintf(out, ", \"%s\": ", name);
	put_text(out, text);
}

static const char *comma(int first)
{
	return first ? "" : ", ";
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* The ranks that a wait needs: one, or all that have not come to a collective call. */
static void put_peers(FILE *out, const struct ori_graph *g, const struct ori_report_wait *w,
		      int rank)
{
	int n = 0;

	fputs(", \"peers\": [", out);
	for (int p = 0; p < g->nranks; p++)
		if (ori_graph_needs(g, w, rank, p))
			fprintf(out, "%s%d", comma(!n++), p);
	fputc(']', out);
}

static void put_wait(FILE *out, const struct ori_graph *g, int rank,
		     const struct ori_report_wait *w)
{
	char text[192];

	ori_report_wait_text(w, text, sizeof(text));
	fputs("{\"call\": ", out);
	put_text(out, w->call);
	put_member(out, "text", text);
	if (w->op != ORI_REPORT_FETCH && w->op != ORI_REPORT_ROUND)
		fprintf(out, ", \"window\": %d, \"id\": %d, \"have\": %llu, \"want\": %llu",
			w->window < 0 ? -1 : w->window & 0xfffffff, w->id,
			(unsigned long long)w->have, (unsigned long long)w->want);
	fprintf(out, ", \"block\": %d, \"comm\": \"%llx\", \"seconds\": %.3f", w->block,
		(unsigned long long)w->comm, (double)w->age_us * 1e-6);
	put_peers(out, g, w, rank);
	fputc('}', out);
}

static void put_queue(FILE *out, const struct ori_report_queue *q)
{
	fprintf(out,
		"{\"peer\": %d, \"lane\": %d, \"posted\": %llu, \"seen_complete\": %llu, "
		"\"status\": %d}",
		q->peer, q->lane, (unsigned long long)q->posted, (unsigned long long)q->complete,
		q->status);
}

static void put_rank(FILE *out, const struct ori_graph *g, int rank)
{
	const struct ori_report *r = &g->reports[rank];

	fprintf(out, "  {\"rank\": %d, \"mark\": \"%s\", \"answers\": %s, \"pid\": %d", rank,
		ori_mark_text(g->marks[rank]), r->rank >= 0 && !r->silent[0] ? "true" : "false",
		r->pid);
	put_member(out, "silent", r->silent);
	put_member(out, "host", r->host);
	put_member(out, "device", r->device);
	put_member(out, "kinds", r->kinds);
	put_member(out, "failure", r->failure);
	put_member(out, "syndrome", r->syndrome);
	put_member(out, "engine", r->engine);
	fprintf(out, ", \"node\": %d, \"windows\": %d,\n   \"waits\": [", r->node, r->windows);
	for (int i = 0; i < r->nwaits; i++) {
		fputs(comma(!i), out);
		put_wait(out, g, rank, &r->waits[i]);
	}
	fprintf(out, "], \"more_waits\": %d,\n   \"queues\": [", r->more);
	for (int i = 0; i < r->nqueues; i++) {
		fputs(comma(!i), out);
		put_queue(out, &r->queues[i]);
	}
	fputs("]}", out);
}

/* ---- verdict --------------------------------------------------------------------------------- */

static void put_cycle(FILE *out, const struct ori_graph *g, int first)
{
	int at = first, n = 0;

	fputc('[', out);
	do {
		fprintf(out, "%s%d", comma(!n++), at);
		at = g->next[at];
	} while (at != first);
	fputc(']', out);
}

static void put_verdict(FILE *out, const struct doctor_job *job)
{
	const struct ori_graph *g = &job->graph;
	char who[256];
	int n = 0;

	fprintf(out, " \"verdict\": \"%s\",\n \"deadlocks\": [", doctor_verdict(job));
	for (int r = 0; r < g->nranks; r++)
		if (ori_graph_begins_cycle(g, r)) {
			fputs(comma(!n++), out);
			put_cycle(out, g, r);
		}
	fputs("],\n \"late\": [", out);
	n = 0;
	for (int r = 0; r < g->nranks; r++)
		if (g->marks[r] == ORI_MARK_LATE) {
			int waiting = ori_graph_waiters(g, r, who, sizeof(who));

			fprintf(out, "%s{\"rank\": %d, \"waiting\": %d, \"ranks\": \"%s\"}",
				comma(!n++), r, waiting, who);
		}
	fputs("],\n", out);
}

void doctor_json(const struct doctor_job *job, FILE *out)
{
	fprintf(out,
		"{\"schema\": %d, \"job\": %u, \"nranks\": %d, \"time\": %.3f, \"took\": %.3f,\n",
		DOCTOR_SCHEMA, (unsigned)(uint32_t)job->job, job->graph.nranks, job->at_s,
		job->took_s);
	put_verdict(out, job);
	fputs(" \"ranks\": [\n", out);
	for (int r = 0; r < job->graph.nranks; r++) {
		put_rank(out, &job->graph, r);
		fputs(r + 1 < job->graph.nranks ? ",\n" : "\n", out);
	}
	fputs(" ]}\n", out);
}
