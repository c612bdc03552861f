/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/trace_file.c - writes the events of a rank as JSON, one event per line, in the format of
 * Chrome's trace viewer and Perfetto.
 *
 * Times are microseconds of rank 0's clock.  A call is a complete event ("X").  A burst of WQEs is
 * an asynchronous one ("b", "e"), from its doorbell to its last CQE.  Arrows between ranks need the
 * files of both ranks: oriel-trace draws them from the arguments here.
 *
 * Called by: trace.c, when the comm ends.
 */
#include <errno.h>
#include <stdlib.h>

#include <oriel/device/barrier.h>
#include <oriel/device/team.h>
#include <oriel/device/trace.h>

#include "../diag/diag.h"
#include "trace.h"

/* Numbers of tracks beyond those of blocks. */
#define QUEUE_TRACK 1000000u
#define HOST_TRACK 1000001u /* calls of the host, if kernels run on a separate device */

/* An event, unpacked; times are on the clock of rank 0. */
struct event {
	int64_t begin_ns, end_ns;
	int kind, op, status, peer, id, window;
	uint32_t block;
	uint64_t bytes, value, base;
};

/* ---- reading events -------------------------------------------------------------------------- */

static int64_t time_of(const struct ori_trace *t, uint64_t word, int ticks)
{
	return ticks ? ori_trace_ticks_ns(t, word) : (int64_t)word;
}

/* Returns 0 if the event is not there or not complete. */
static int read_event(const struct ori_trace *t, const struct oriel_trace_event *from,
		      int64_t ahead_ns, struct event *e)
{
	int ticks;
	uint64_t w[8], sum;

	for (int i = 0; i < 8; i++)
		w[i] = ori_load_relaxed_sys(&from->word[i]);
	sum = (uint32_t)w[7];
	for (int i = 0; i < 7; i++)
		sum = ori_trace_mix(sum, i, w[i]);
	if (w[7] >> 32 != ori_trace_seal(sum) >> 32)
		return 0;
	ticks = (w[7] & ORIEL_TRACE_TICKS) != 0;
	e->begin_ns = time_of(t, w[0], ticks) - ahead_ns;
	e->end_ns = time_of(t, w[1], ticks) - ahead_ns;
	if (e->end_ns < e->begin_ns)
		e->end_ns = e->begin_ns;
	e->peer = (int32_t)(uint32_t)w[2];
	e->id = (int32_t)(uint32_t)(w[2] >> 32);
	e->window = (int32_t)(uint32_t)w[3];
	e->block = (uint32_t)(w[3] >> 32);
	e->bytes = w[4];
	e->value = w[5];
	e->base = w[6];
	e->kind = (int)(w[7] & 0xff & ~(uint64_t)ORIEL_TRACE_TICKS);
	e->op = (int)(w[7] >> 8 & 0xff);
	e->status = (int16_t)(w[7] >> 16 & 0xffff);
	return 1;
}

/* ---- bursts of WQEs -------------------------------------------------------------------------- */

/* The end of each burst that was rung, so that only the last CQE of a burst ends it. */
struct burst {
	uint64_t queue, next;
};

/* NICs number their queues independently of each other. */
static uint64_t queue_of(const struct ori_trace *t, const struct event *e)
{
	uint64_t nic = e->kind == ORIEL_TRACE_CQE ? e->base : e->base % t->nics;

	return nic << 32 | (uint32_t)e->id;
}

static int compare_bursts(const void *a, const void *b)
{
	const struct burst *x = a, *y = b;

	if (x->queue != y->queue)
		return x->queue < y->queue ? -1 : 1;
	return x->next < y->next ? -1 : x->next > y->next;
}

struct bursts {
	struct burst *all;
	size_t n, room;
};

static void add_bursts(const struct ori_trace *t, const struct oriel_trace_event *from, uint64_t n,
		       struct bursts *b)
{
	struct event e;

	for (uint64_t i = 0; i < n && b->n < b->room; i++)
		if (read_event(t, &from[i], 0, &e) && e.kind == ORIEL_TRACE_POST) {
			b->all[b->n].queue = queue_of(t, &e);
			b->all[b->n++].next = e.value;
		}
}

static int is_burst(const struct ori_trace *t, const struct bursts *b, const struct event *e)
{
	struct burst key = { queue_of(t, e), e->value };

	return b->n && bsearch(&key, b->all, b->n, sizeof(key), compare_bursts) != NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_text(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

static void write_us(FILE *f, const char *key, int64_t ns)
{
	unsigned long long size = ns < 0 ? 0 - (unsigned long long)ns : (unsigned long long)ns;

	fprintf(f, ",\"%s\":%s%llu.%03llu", key, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

static const char *const coll_names[8] = {
	[ORI_COLL_ALLGATHER] = "all-gather",         [ORI_COLL_ALLTOALLV] = "all-to-all-v",
	[ORI_COLL_BROADCAST] = "broadcast",          [ORI_COLL_ALLREDUCE] = "all-reduce",
	[ORI_COLL_REDUCESCATTER] = "reduce-scatter", [ORI_COLL_ALLTOALL] = "all-to-all"
};

static const char *const wait_names[16] = { [ORIEL_OP_SIGNAL] = "wait in a collective",
					    [ORIEL_OP_COUNTER] = "wait_counter",
					    [ORIEL_OP_SEND] = "send: wait for a free slot",
					    [ORIEL_OP_RECV] = "recv: wait for a message",
					    [ORIEL_OP_WORD] = "wait_word",
					    [ORIEL_OP_QUEUE] = "wait for completions",
					    [ORIEL_OP_GRID] = "grid_sync",
					    [ORIEL_OP_PACKET_SEND] = "packet_send: wait for room",
					    [ORIEL_OP_PACKET_RECV] = "packet_recv" };

static const char *name_of(const struct ori_trace *t, const struct event *e)
{
	const char *name = NULL;

	switch (e->kind) {
	case ORIEL_TRACE_PUT:
		return e->id >= 0 ? "put_signal" : "put";
	case ORIEL_TRACE_GET:
		return "get";
	case ORIEL_TRACE_SIGNAL:
		return e->peer < 0 ? "signal_all" : "signal";
	case ORIEL_TRACE_WAIT_SIGNAL:
		return "wait_signal_from";
	case ORIEL_TRACE_WAIT_SUM:
		return "wait_signal";
	case ORIEL_TRACE_BARRIER:
		return e->peer < 0 ? "barrier" : "barrier_peer";
	case ORIEL_TRACE_POST:
	case ORIEL_TRACE_CQE:
		return "WQEs";
	case ORIEL_TRACE_WAIT:
		name = wait_names[e->op & 15];
		return name ? name : "wait";
	case ORIEL_TRACE_COLL:
		name = coll_names[e->op & 7];
		return name ? name : "collective";
	case ORIEL_TRACE_ROUND:
		return "round";
	default:
		return e->id > 0 && e->id <= t->names ? t->name[e->id - 1] : "call";
	}
}

static const char *category_of(int kind)
{
	static const char *const names[] = {
		[ORIEL_TRACE_PUT] = "put",       [ORIEL_TRACE_GET] = "get",
		[ORIEL_TRACE_SIGNAL] = "signal", [ORIEL_TRACE_WAIT_SIGNAL] = "wait",
		[ORIEL_TRACE_WAIT_SUM] = "wait", [ORIEL_TRACE_BARRIER] = "barrier",
		[ORIEL_TRACE_POST] = "queue",    [ORIEL_TRACE_CQE] = "queue",
		[ORIEL_TRACE_WAIT] = "inner",    [ORIEL_TRACE_COLL] = "collective",
		[ORIEL_TRACE_ROUND] = "round",   [ORIEL_TRACE_CALL] = "call"
	};

	return kind > 0 && kind <= ORIEL_TRACE_CALL ? names[kind] : "unknown";
}

static void write_number(FILE *f, const char *key, uint64_t value)
{
	fprintf(f, ",\"%s\":%llu", key, (unsigned long long)value);
}

static void write_window(FILE *f, int window)
{
	char text[64];

	if (window < 0)
		return;
	ori_diag_window_text(window, text, sizeof(text));
	fprintf(f, ",\"window\":%d,\"in\":", window);
	write_text(f, text);
}

/* Signals and waits have all that oriel-trace needs to match them. */
static void write_arguments(FILE *f, const struct event *e)
{
	static const char *const compare[8] = {
		[ORIEL_EQ] = "==", [ORIEL_NE] = "!=", [ORIEL_GT] = ">",
		[ORIEL_GE] = ">=", [ORIEL_LT] = "<",  [ORIEL_LE] = "<="
	};
	int wait = e->kind == ORIEL_TRACE_WAIT_SIGNAL || e->kind == ORIEL_TRACE_WAIT_SUM;
	int signal = (e->kind == ORIEL_TRACE_PUT && e->id >= 0) || e->kind == ORIEL_TRACE_SIGNAL;
	int word = e->kind == ORIEL_TRACE_WAIT && e->op == ORIEL_OP_WORD;

	/* a wait inside a call does not know how it ended: the call does */
	fprintf(f, ",\"args\":{\"status\":\"%s\"",
		e->kind == ORIEL_TRACE_WAIT ? "unknown" :
		e->status                   ? oriel_status_name(e->status) :
					      "ok");
	/* the word of a user's window has its offset there (device/word.h) */
	if (e->peer >= 0 && !word)
		fprintf(f, ",\"peer\":%d", e->peer);
	write_window(f, e->window);
	if (e->bytes || e->kind == ORIEL_TRACE_PUT || e->kind == ORIEL_TRACE_GET)
		write_number(f, e->kind == ORIEL_TRACE_POST ? "wqes" : "bytes", e->bytes);
	if (signal || wait)
		fprintf(f, ",\"signal\":%d", e->id);
	else if (e->kind == ORIEL_TRACE_BARRIER)
		fprintf(f, ",\"barrier\":%d%s", e->id,
			e->op == ORI_ARRIVE ? ",\"part\":\"arrive\"" :
			e->op == ORI_WAIT   ? ",\"part\":\"wait\"" :
					      "");
	if (signal)
		fprintf(f, ",\"op\":\"%s\"", e->op == ORIEL_ADD ? "add" : "set");
	if (wait && compare[e->op & 7])
		fprintf(f, ",\"compare\":\"%s\"", compare[e->op & 7]);
	if (signal || wait || e->kind == ORIEL_TRACE_POST)
		write_number(f, "value", e->value);
	if (wait)
		write_number(f, "base", e->base);
	if (e->kind == ORIEL_TRACE_POST)
		write_number(f, "lane", e->base);
	fputs("}}", f);
}

static uint32_t track_of(const struct ori_trace *t, const struct event *e)
{
	if (e->kind == ORIEL_TRACE_POST || e->kind == ORIEL_TRACE_CQE)
		return QUEUE_TRACK;
	return e->kind == ORIEL_TRACE_CALL && t->kernel_head ? HOST_TRACK : e->block;
}

static void write_event(struct ori_trace *t, const struct event *e)
{
	int burst = e->kind == ORIEL_TRACE_POST || e->kind == ORIEL_TRACE_CQE;
	FILE *f = t->file;

	fputs(",\n{\"name\":", f);
	write_text(f, name_of(t, e));
	fprintf(f, ",\"cat\":\"%s\",\"ph\":\"%s\"", category_of(e->kind),
		e->kind == ORIEL_TRACE_POST ? "b" :
		burst                       ? "e" :
					      "X");
	write_us(f, "ts", e->begin_ns);
	if (!burst)
		write_us(f, "dur", e->end_ns - e->begin_ns);
	else
		fprintf(f, ",\"id\":\"%d.%llx.%llu\"", t->rank, (unsigned long long)queue_of(t, e),
			(unsigned long long)e->value);
	fprintf(f, ",\"pid\":%d,\"tid\":%u", t->rank, track_of(t, e));
	if (e->kind == ORIEL_TRACE_CQE)
		fputs(",\"args\":{}}", f);
	else
		write_arguments(f, e);
}

/* Returns how many of the n events were written or belong to another event. */
static uint64_t write_events(struct ori_trace *t, const struct oriel_trace_event *from, uint64_t n,
			     int64_t ahead_ns, const struct bursts *b)
{
	uint64_t complete = 0;
	struct event e;

	for (uint64_t i = 0; i < n && !ferror(t->file); i++) {
		if (!read_event(t, &from[i], ahead_ns, &e))
			continue;
		complete++;
		if (e.kind != ORIEL_TRACE_CQE || is_burst(t, b, &e))
			write_event(t, &e);
	}
	return complete;
}

/* The viewer's names of tracks: the first event has no comma before it. */
static void write_names(const struct ori_trace *t)
{
	static const char *const track =
		",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,"
		"\"args\":{\"name\":\"%s\"}}";
	char text[128];

	snprintf(text, sizeof(text), "rank %d (%s)", t->rank, t->hostname);
	fprintf(t->file,
		"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":", t->rank);
	write_text(t->file, text);
	fputs("}}", t->file);
	fprintf(t->file, track, t->rank, QUEUE_TRACK, "queues");
	fprintf(t->file, track, t->rank, HOST_TRACK, "host");
}

/* unfinished: calls of kernels that had begun, and had not ended when the events were copied */
static void write_facts(const struct ori_trace *t, uint64_t events, uint64_t lost,
			uint64_t unfinished)
{
	fprintf(t->file,
		"\n],\n\"displayTimeUnit\":\"ns\",\n\"oriel\":{\"version\":1,\"comm\":\"%08x\","
		"\"rank\":%d,\"nranks\":%d,\"host\":",
		t->id, t->rank, t->nranks);
	write_text(t->file, t->hostname);
	fprintf(t->file, ",\"clock_ahead_ns\":%lld,\"clock_error_ns\":%llu",
		(long long)t->clock.ahead_ns,
		(unsigned long long)(t->clock.error_ns + ori_trace_ticks_error_ns(t)));
	if (t->device_known)
		fprintf(t->file, ",\"device_ahead_ns\":%lld,\"device_error_ns\":%llu",
			(long long)t->device.ahead_ns, (unsigned long long)t->device.error_ns);
	if (unfinished)
		write_number(t->file, "unfinished", unfinished);
	if (t->fetched.failed)
		fputs(",\"kernels_lost\":true", t->file);
	fprintf(t->file, ",\"events\":%llu,\"lost\":%llu}}\n", (unsigned long long)events,
		(unsigned long long)lost);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int ori_trace_file_write(struct ori_trace *t)
{
	uint64_t host_count = ori_load_relaxed_sys(&t->host_count), complete, kernels;
	uint64_t nhost = least(host_count, t->host.capacity);
	const struct ori_trace_copy *c = &t->fetched;
	struct bursts b = { .room = nhost + c->n };

	/* without memory for it, bursts have no ends */
	b.all = malloc((b.room + 1) * sizeof(*b.all));
	if (!b.all)
		b.room = 0;
	add_bursts(t, t->host.events, nhost, &b);
	add_bursts(t, c->events, c->n, &b);
	if (b.n)
		qsort(b.all, b.n, sizeof(*b.all), compare_bursts);
	fputs("{\"traceEvents\":[\n", t->file);
	write_names(t);
	complete = write_events(t, t->host.events, nhost, t->clock.ahead_ns, &b);
	kernels = write_events(t, c->events, c->n, t->clock.ahead_ns + t->device.ahead_ns, &b);
	write_facts(t, complete + kernels, host_count - complete + c->count - c->n, c->n - kernels);
	free(b.all);
	errno = 0;
	if (!fflush(t->file) && !ferror(t->file))
		return 0;
	return errno ? errno : EIO;
}
