/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/reports.c - connects reports of waits (src/diag) with the comm.
 *
 * It answers other ranks that wait for this one.  For this rank's own reports it finds out what
 * another rank does (struct ori_diag_world): it reads the board of a mapped peer in memory, and
 * asks other ranks through the boot.  Nothing here runs before a wait is late or somebody asks.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../diag/diag.h"
#include "../diag/report.h"
#include "agree.h"
#include "control.h"
#include "imports.h"
#include "links.h"
#include "object.h"
#include "reports.h"

/* A running rank answers in milliseconds.  One that does not is suspended or cannot be reached. */
#define ASK_NS ORI_NS_PER_S
/* The same for a question that a wait asks before its deadline: it looks at no word meanwhile. */
#define BRIEF_NS (ORI_NS_PER_S / 20)

/* ---- the report of this rank ----------------------------------------------------------------- */

/* "0-3,7": the ranks in the job of all ranks of the comm; "*" if that is all of them. */
static void members_text(const struct oriel_comm *c, char *out, size_t bytes)
{
	size_t at = 0;
	int last;

	out[0] = '\0';
	for (int r = 0; r < c->nranks && c->nranks < c->job_ranks; r = last + 1) {
		for (last = r; last + 1 < c->nranks && c->world[last + 1] == c->world[last] + 1;)
			last++;
		at += (size_t)snprintf(out + at, bytes - at, "%s%d-%d", at ? "," : "", c->world[r],
				       c->world[last]);
		if (at >= bytes)
			break;
	}
	if (!at || at >= bytes) /* too long: a reader takes it for all ranks */
		snprintf(out, bytes, "*");
}

/* The collective call of the host that this rank is in, if any. */
static void add_round(struct oriel_comm *c, struct ori_lines *lines)
{
	const char *call = __atomic_load_n(&c->boot->round_call, __ATOMIC_RELAXED);
	uint64_t since = __atomic_load_n(&c->boot->round_since_ns, __ATOMIC_RELAXED);
	uint32_t fetching = __atomic_load_n(&c->fetching, __ATOMIC_RELAXED);
	char members[48];

	if (fetching) {
		int rank = ORI_FETCHING_RANK(fetching);

		ori_lines_add(lines, "wait %llx %d %d 0 -1 0 0 0 0 %s", (unsigned long long)c->key,
			      ORI_REPORT_FETCH, rank < c->nranks ? c->world[rank] : -1,
			      ori_call_name(ORI_FETCHING_CALL(fetching)));
	} else if (call) {
		members_text(c, members, sizeof(members));
		ori_lines_add(lines, "round %llx %llu %s %s", (unsigned long long)c->key,
			      (unsigned long long)((ori_now_ns() - since) / 1000), members, call);
	}
}

static int late_source(void *ctx, int window, int id)
{
	struct oriel_comm *c = ctx;

	return ori_diag_late_source(&c->control->board, c->rank, window, id);
}

static void add_queue(struct oriel_comm *c, int rank, uint32_t n, struct ori_lines *lines)
{
	struct oriel_queue *q =
		ori_lane_main(&c->links->lane[(uint64_t)rank * c->links->lanes + n]);
	uint64_t posted, complete, error;

	if (!q)
		return;
	/* relaxed: three looks at counts that move */
	posted = __atomic_load_n(&q->produced, __ATOMIC_RELAXED);
	complete = __atomic_load_n(&q->completed, __ATOMIC_RELAXED);
	error = __atomic_load_n(&q->error, __ATOMIC_RELAXED);
	if (posted != complete || error)
		ori_lines_add(lines, "queue %d %u %llu %llu %d", c->world[rank], n,
			      (unsigned long long)posted, (unsigned long long)complete,
			      ORIEL_FAILURE_STATUS(error));
}

/* Queues with work or an error.  The indices of a GPU's queues are in its own memory. */
static void add_queues(struct oriel_comm *c, struct ori_lines *lines)
{
	if (!c->links || c->device->separate)
		return;
	for (int r = 0; r < c->nranks; r++)
		for (uint32_t n = 0; n < c->links->lanes; n++)
			add_queue(c, r, n, lines);
}

static void add_failure(struct oriel_comm *c, struct ori_lines *lines)
{
	uint64_t note = __atomic_load_n(&c->syndrome, __ATOMIC_RELAXED);
	char text[sizeof(c->failure_text)];

	pthread_mutex_lock(&c->lock);
	memcpy(text, c->failure_text, sizeof(text));
	pthread_mutex_unlock(&c->lock);
	if (text[0])
		ori_lines_add(lines, "failure %s", text);
	if (note)
		ori_lines_add(lines, "syndrome 0x%02x: %s, %s queue to rank %d, lane %d",
			      (unsigned)(note & 0xff), ori_syndrome_text((uint32_t)note & 0xff),
			      note >> 9 & 1 ? "main" : "companion", (int)(note >> 32),
			      (int)(note >> 16 & 0xffff));
}

static int count_windows(struct oriel_comm *c)
{
	int n = 0;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child; child = child->next)
		n += child->failure != NULL;
	pthread_mutex_unlock(&c->lock);
	return n;
}

/* How this rank reaches the ranks of the job, as far as they are in this comm. */
static void add_kinds(struct oriel_comm *c, struct ori_lines *lines)
{
	char kinds[ORI_REPORT_KINDS + 1] = "";

	for (int r = 0; r < c->nranks; r++)
		if (c->world[r] < ORI_REPORT_KINDS)
			kinds[c->world[r]] = "-smq"[c->peers[r].pair.kind & 3];
	ori_lines_add(lines, "kinds %s", kinds);
}

static void add_who(struct oriel_comm *c, struct ori_lines *lines, int ready)
{
	const struct ori_facts *facts = &c->facts[c->rank];

	ori_lines_add(lines, "who %d %d %llx %d %d %s %s", c->job_rank, c->job_ranks,
		      (unsigned long long)c->job, (int)getpid(),
		      ready ? c->topology.node[c->rank] : 0, facts->host[0] ? facts->host : "?",
		      c->config.device);
}

static void report(void *ctx, struct ori_lines *lines, int first, int ready, int full)
{
	struct oriel_comm *c = ctx;
	struct ori_report_comm comm = { c->key, c->job_rank, c->world, c->nranks, late_source, c };
	char counts[256] = "";

	if (first)
		add_who(c, lines, ready);
	ori_report_board(lines, &comm, &c->control->board);
	add_round(c, lines);
	add_failure(c, lines);
	if (!ready)
		return;
	add_queues(c, lines);
	ori_lines_add(lines, "windows %d", count_windows(c));
	if (c->nranks == c->job_ranks)
		add_kinds(c, lines);
	if (!full || !c->engine)
		return;
	c->engine->ops->statistics(c->engine, counts, sizeof(counts));
	ori_lines_add(lines, "engine %s: %s", c->engine->ops->name, counts);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* A report has the waits of all comms of the rank.  Is there one of a comm other than this? */
static int waits_elsewhere(const struct oriel_comm *c, const char *report)
{
	unsigned long long key;

	for (const char *line = report; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if ((sscanf(line, "wait %llx", &key) == 1 ||
		     sscanf(line, "round %llx", &key) == 1) &&
		    key != c->key)
			return 1;
	}
	return 0;
}

/* Runs on a thread of the boot, under the boot's lock. */
static void answer(void *ctx, char *out, size_t bytes)
{
	struct oriel_comm *c = ctx;
	uint32_t fetching = __atomic_load_n(&c->fetching, __ATOMIC_RELAXED);
	const char *call = __atomic_load_n(&c->boot->round_call, __ATOMIC_RELAXED);
	uint64_t since = __atomic_load_n(&c->boot->round_since_ns, __ATOMIC_RELAXED);
	char report[ORI_REPORT_BYTES];
	size_t used;

	if (fetching)
		snprintf(out, bytes, "itself waits in %s for memory of rank %d",
			 ori_call_name(ORI_FETCHING_CALL(fetching)), ORI_FETCHING_RANK(fetching));
	else if (!ori_diag_board_text(&c->control->board, out, bytes < 256 ? bytes : 256) && call)
		snprintf(out, bytes, "itself waits %.1f s in %s for ranks that have not called it",
			 (double)(ori_now_ns() - since) * 1e-9, call);
	ori_diag_report(c->job, c->job_rank, 0, report, sizeof(report));
	if (!strcmp(out, ORI_DIAG_NO_WAIT) && waits_elsewhere(c, report))
		snprintf(out, bytes, ORI_DIAG_OTHER_COMM);
	used = strlen(out);
	if (used + 2 < bytes &&
	    (size_t)snprintf(out + used, bytes - used, "\n%s", report) >= bytes - used)
		strrchr(out, '\n')[1] = '\0'; /* only whole lines are read */
}

/*
 * The first line of an answer is for late reports.  The board of a mapped rank has its waits, but
 * not the calls that meet through the boot: these need a question.
 */
static int ask(void *ctx, int rank, int brief, char *out, size_t bytes)
{
	struct oriel_comm *c = ctx;
	struct ori_control *mapped = c->peers[rank].control;
	char between[160];
	int err;

	if (mapped && ori_diag_board_text(&mapped->board, out, bytes))
		return 1;
	out[0] = '\0'; /* a boot that cannot ask writes nothing */
	err = c->boot->ops->ask(c->boot, rank, out, bytes, mapped && brief ? BRIEF_NS : ASK_NS);
	if (mapped && (err == ORIEL_EUNSUPPORTED || (err && brief))) {
		snprintf(out, bytes, ORI_DIAG_NO_WAIT_HERE);
		return 1;
	}
	if (err == ORIEL_ETIMEDOUT) {
		snprintf(between, sizeof(between), "%s", out);
		snprintf(out, bytes, "%s%s", between[0] ? "cannot be asked: " : "does not answer",
			 between);
	}
	out[err ? strlen(out) : strcspn(out, "\n")] = '\0';
	return !err || err == ORIEL_ETIMEDOUT;
}

/* The report of a rank that does not answer, as far as this rank knows it. */
static void report_silent(struct oriel_comm *c, int rank, const char *why, char *out, size_t bytes)
{
	struct ori_report_comm comm = { c->key, c->world[rank], c->world, c->nranks, NULL, NULL };
	struct ori_lines lines;

	ori_lines_begin(&lines, out, bytes);
	ori_lines_add(&lines, "who %d %d %llx 0 %d %s ?", c->world[rank], c->job_ranks,
		      (unsigned long long)c->job, c->topology.node[rank],
		      c->facts[rank].host[0] ? c->facts[rank].host : "?");
	ori_lines_add(&lines, "silent %s", why);
	if (c->peers[rank].control)
		ori_report_board(&lines, &comm, &c->peers[rank].control->board);
}

static void ask_report(void *ctx, int rank, char *out, size_t bytes, uint64_t timeout_ns)
{
	struct oriel_comm *c = ctx;
	char why[160] = "it is stopped, has ended or cannot be reached";
	size_t head;
	int err;

	if (rank == c->rank) {
		ori_diag_report(c->job, c->job_rank, 0, out, bytes);
		return;
	}
	err = c->boot->ops->ask(c->boot, rank, out, bytes, timeout_ns);
	if (err == ORIEL_EUNSUPPORTED) {
		report_silent(c, rank, "it cannot be asked", out, bytes);
	} else if (err) {
		if (err == ORIEL_ETIMEDOUT && out[0])
			snprintf(why, sizeof(why), "%s", out);
		report_silent(c, rank, why, out, bytes);
	} else {
		head = strcspn(out, "\n");
		head += out[head] == '\n';
		memmove(out, out + head, strlen(out + head) + 1);
	}
}

static int signal_from(void *ctx, int window, int id, int rank, uint64_t *value)
{
	struct oriel_comm *c = ctx;
	int known = 0;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child && !known; child = child->next)
		known = child->signal_from && child->signal_from(child, window, id, rank, value);
	pthread_mutex_unlock(&c->lock);
	return known;
}

/* ---- one graph per host ---------------------------------------------------------------------- */

/* A graph that is older than this was about another deadline. */
#define GRAPH_NS (3 * ORI_NS_PER_S)
/* How long a rank waits for the one that collects, so that its own wait stays on the board. */
#define COLLECTED_NS (5 * ORI_NS_PER_S / 2)
#define LOOK_NS 1000000u

/* The word of the lowest rank of this host.  Its control memory is mapped, also if it is queued. */
static uint64_t *graph_word(struct oriel_comm *c)
{
	for (int r = 0; r < c->rank; r++)
		if (!c->peers[r].far && c->peers[r].slab_base)
			return &((struct ori_control *)c->peers[r].slab_base)->graph_ns;
	return &c->control->graph_ns;
}

/* All accesses to the word are relaxed: it orders nothing, reports travel by other ways. */
static int claim(void *ctx)
{
	struct oriel_comm *c = ctx;
	uint64_t *word = graph_word(c), now = ori_now_ns(), deadline = now + COLLECTED_NS;
	uint64_t was = __atomic_load_n(word, __ATOMIC_RELAXED);

	if ((!was || now > was + GRAPH_NS) &&
	    __atomic_compare_exchange_n(word, &was, now | 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return 1;
	while (__atomic_load_n(word, __ATOMIC_RELAXED) & 1 && ori_now_ns() < deadline)
		ori_sleep_ns(LOOK_NS);
	return 0;
}

static void claimed(void *ctx)
{
	struct oriel_comm *c = ctx;

	__atomic_store_n(graph_word(c), ori_now_ns() & ~1ull, __ATOMIC_RELAXED);
}

/* ---- begin and end --------------------------------------------------------------------------- */

/*
 * Called by the boot, on the thread that makes the round.  Boards do not show rounds.  So without
 * answers the graph would call ranks late that are in this round too.  The question to this rank
 * itself goes as far as that to any other.
 */
static void round_late(void *ctx)
{
	struct oriel_comm *c = ctx;
	char own[ORI_BOOT_ANSWER_BYTES];

	if (!c->boot->ops->ask(c->boot, c->rank, own, sizeof(own), ASK_NS / 2))
		ori_doctor_deadline(&c->control->board);
}

int ori_reports_open(struct oriel_comm *c)
{
	struct ori_diag_world world = { .ctx = c,
					.nranks = c->nranks,
					.job = c->job,
					.job_rank = c->job_rank,
					.job_ranks = c->job_ranks,
					.world = c->world,
					.signal_from = signal_from,
					.ask = ask,
					.ask_report = ask_report,
					.claim = claim,
					.claimed = claimed,
					.report = report };
	int err = ori_diag_list(&c->control->board, &world);

	if (!err)
		c->boot->ops->answer(c->boot, answer, c);
	return err;
}

void ori_reports_ready(struct oriel_comm *c)
{
	ori_diag_ready(&c->control->board);
	/* Not earlier: ranks that cannot make a comm unmap their memory at different times. */
	c->boot->late_ctx = c;
	c->boot->late = round_late;
	ori_service_open(c->config.doctor);
	c->attended = 1;
}

void ori_reports_close(struct oriel_comm *c)
{
	if (!c->control)
		return;
	c->boot->ops->answer(c->boot, NULL, NULL);
	c->boot->late = NULL;
	ori_diag_unlist(&c->control->board);
	if (c->attended)
		ori_service_close();
	c->attended = 0;
}
