/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor/svg.c - a job as a picture: ranks on a circle, an arrow from each rank to those it waits
 * for.
 *
 * Colours follow the marks: red is a deadlock, orange a late rank.  Each arrow has its text as a
 * tooltip.  Every rank has one place, so that pictures of one job can be compared.
 */
#include <math.h>
#include <string.h>

#include "doctor.h"

#define NODE_R 22.0
#define PI 3.14159265358979323846

#define CHAR_W 7.4 /* of the verdict, on average */

struct picture {
	FILE *out;
	const struct ori_graph *g;
	double width, size, radius; /* size: height of the part with ranks */
};

static void place(const struct picture *p, int rank, double *x, double *y)
{
	double turn = 2 * PI * rank / (p->g->nranks > 0 ? p->g->nranks : 1) - PI / 2;

	*x = p->width / 2 + p->radius * cos(turn);
	*y = p->size / 2 + p->radius * sin(turn);
}

static const char *colour(int mark)
{
	switch (mark) {
	case ORI_MARK_DEADLOCK:
		return "#c62828";
	case ORI_MARK_STUCK:
		return "#ad6a6a";
	case ORI_MARK_LATE:
		return "#e08a00";
	case ORI_MARK_WAITS:
		return "#3566a8";
	default:
		return "#4a8f5c";
	}
}

static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if ((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f)
			fputc(*text, out);
	}
}

/* ---- arrows ---------------------------------------------------------------------------------- */

/* Bent to its right, so that two ranks that wait for each other have two arrows. */
static void put_arrow(const struct picture *p, int from, int to, const struct ori_report_wait *w)
{
	int dead = p->g->marks[from] == ORI_MARK_DEADLOCK && p->g->next[from] == to;
	double x0, y0, x1, y1, dx, dy, length;
	char text[192];

	place(p, from, &x0, &y0);
	place(p, to, &x1, &y1);
	dx = x1 - x0;
	dy = y1 - y0;
	length = sqrt(dx * dx + dy * dy);
	if (length < 1)
		return;
	dx /= length;
	dy /= length;
	ori_report_wait_text(w, text, sizeof(text));
	fprintf(p->out,
		"<path class=\"wait\" d=\"M%.1f %.1f Q%.1f %.1f %.1f %.1f\" fill=\"none\" "
		"stroke=\"%s\" stroke-width=\"%s\" marker-end=\"url(#%s)\"><title>rank %d waits "
		"%.1f s in ",
		x0 + dx * NODE_R, y0 + dy * NODE_R, (x0 + x1) / 2 - dy * length * 0.12,
		(y0 + y1) / 2 + dx * length * 0.12, x1 - dx * (NODE_R + 8), y1 - dy * (NODE_R + 8),
		dead ? "#c62828" : "#777", dead ? "3" : "1.5", dead ? "red" : "grey", from,
		(double)w->age_us * 1e-6);
	put_escaped(p->out, w->call);
	fputs(" for ", p->out);
	put_escaped(p->out, text);
	fputs("</title></path>\n", p->out);
}

static void put_arrows(const struct picture *p)
{
	for (int r = 0; r < p->g->nranks; r++)
		for (int i = 0; i < p->g->reports[r].nwaits; i++)
			for (int to = 0; to < p->g->nranks; to++)
				if (ori_graph_needs(p->g, &p->g->reports[r].waits[i], r, to))
					put_arrow(p, r, to, &p->g->reports[r].waits[i]);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void put_ranks(const struct picture *p)
{
	double x, y;

	for (int r = 0; r < p->g->nranks; r++) {
		const struct ori_report *report = &p->g->reports[r];
		int silent = report->rank < 0 || report->silent[0];

		place(p, r, &x, &y);
		fprintf(p->out,
			"<g class=\"rank\"><circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.0f\" "
			"fill=\"%s\"%s/>"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#fff\">%d</text>"
			"<title>rank %d: %s",
			x, y, NODE_R, colour(p->g->marks[r]),
			silent ? " stroke=\"#000\" stroke-width=\"3\" stroke-dasharray=\"4 3\"" :
				 "",
			x, y + 5, r, r, ori_mark_text(p->g->marks[r]));
		fprintf(p->out, ", process %d on ", report->pid);
		put_escaped(p->out, report->host[0] ? report->host : "an unknown host");
		fputs("</title></g>\n", p->out);
	}
}

/* The words of the verdict about one rank; "" if there are none. */
static const char *verdict_text(const struct ori_graph *g, int rank, char *text, size_t bytes)
{
	char words[300], who[64];

	text[0] = '\0';
	if (ori_graph_begins_cycle(g, rank)) {
		ori_graph_cycle_text(g, rank, words, sizeof(words));
		snprintf(text, bytes, "deadlock: %s", words);
	} else if (g->marks[rank] == ORI_MARK_LATE) {
		(void)ori_graph_waiters(g, rank, who, sizeof(who));
		snprintf(text, bytes, "late: rank %d; waiting for it: %s", rank, who);
	}
	return text;
}

/* Below the picture. */
static void put_verdict(const struct picture *p)
{
	double y = p->size + 4;
	char text[320];

	for (int r = 0; r < p->g->nranks; r++) {
		if (!verdict_text(p->g, r, text, sizeof(text))[0])
			continue;
		fprintf(p->out, "<text x=\"12\" y=\"%.0f\" fill=\"%s\">%s</text>\n", y,
			colour(p->g->marks[r]), text);
		y += 18;
	}
}

/* The picture is as wide as its ranks and its longest line need. */
static void measure(struct picture *p, int *lines)
{
	char text[320];

	p->radius = p->g->nranks * (2 * NODE_R + 24) / (2 * PI);
	if (p->radius < 110)
		p->radius = 110;
	p->size = p->width = 2 * (p->radius + NODE_R + 16);
	*lines = 0;
	for (int r = 0; r < p->g->nranks; r++) {
		double need = (double)strlen(verdict_text(p->g, r, text, sizeof(text))) * CHAR_W;

		*lines += need > 0;
		if (need + 24 > p->width)
			p->width = need + 24;
	}
}

void doctor_svg(const struct doctor_job *job, FILE *out)
{
	struct picture p = { .out = out, .g = &job->graph };
	int lines;

	measure(&p, &lines);
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"width=\"%.0f\" font-family=\"sans-serif\" font-size=\"14\">\n"
		"<title>who waits for whom: job %u</title>\n<defs>",
		p.width, p.size + 18 * lines + 8, p.width, (unsigned)(uint32_t)job->job);
	for (int i = 0; i < 2; i++)
		fprintf(out,
			"<marker id=\"%s\" markerWidth=\"10\" markerHeight=\"10\" refX=\"2\" "
			"refY=\"5\" orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path "
			"d=\"M0 0 L10 5 L0 10 z\" fill=\"%s\"/></marker>",
			i ? "red" : "grey", i ? "#c62828" : "#777");
	fputs("</defs>\n", out);
	put_arrows(&p);
	put_ranks(&p);
	put_verdict(&p);
	fputs("</svg>\n", out);
}
