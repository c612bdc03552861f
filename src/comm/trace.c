/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/trace.c - the memory of a rank's trace, and the notes of host code.
 *
 * Device code writes events by itself (oriel/device/trace.h).  Room for all events is made when
 * the comm is created, and the file is opened then, so a folder that cannot be used is told at the
 * start.  The file is written when the comm ends, or when the process exits without that.
 *
 * A trace is an aid: no failure here fails the job.  Notes come from any thread; the rest is called
 * on user threads in calls that create or destroy the comm.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <oriel/device/trace.h>

#include "memory.h"
#include "trace.h"

#define LARGE_PAGE ((size_t)2 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `traces` and all names */
static struct ori_trace *traces;

void ori_trace_offer(const struct oriel_comm *c, struct ori_trace_offer *offer)
{
	offer->wanted = c->config.trace[0] != '\0';
	offer->id = (uint32_t)c->generation_seed;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int untraced(const struct ori_trace *t, const char *what, int why)
{
	ori_log(ORI_LOG_WARN, "ORIEL_TRACE: %s %s: %s; this rank writes no trace", what, t->path,
		strerror(why));
	return -1;
}

/* Makes the last folder of the path if it is missing.  The name tells comm and rank. */
static int open_file(struct ori_trace *t, const char *folder)
{
	int fd;

	snprintf(t->path, sizeof(t->path), "%s", folder);
	if (mkdir(folder, 0777) && errno != EEXIST)
		return untraced(t, "cannot make the folder", errno);
	snprintf(t->path, sizeof(t->path), "%s/oriel-%08x-rank%d.json", folder, t->id, t->rank);
	fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	t->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (t->file)
		return 0;
	if (fd >= 0)
		close(fd);
	return untraced(t, "cannot create", errno);
}

/*
 * An event is one cache line, and a page has few events: large pages save page walks.  Touches all
 * pages now, because a fault later would be in the time of a call.
 */
static int host_room(struct ori_trace *t, uint64_t capacity)
{
	size_t bytes = (size_t)capacity * sizeof(*t->host.events);
	size_t large = bytes >= LARGE_PAGE ? LARGE_PAGE : sizeof(*t->host.events);

	t->host.events = aligned_alloc(large, (bytes + large - 1) / large * large);
	if (!t->host.events)
		return untraced(t, "no memory for the events of", ENOMEM);
	if (large == LARGE_PAGE)
		(void)madvise(t->host.events, bytes, MADV_HUGEPAGE);
	memset(t->host.events, 0, bytes);
	t->host.count = &t->host_count;
	t->host.capacity = capacity;
	ori_trace_ticks_begin(t);
	return 0;
}

/*
 * Events of kernels are in device memory.  Stores to the host would take microseconds, and the next
 * release of the kernel would wait for them (docs/decisions/0060).
 */
static int kernel_room(struct oriel_comm *c, struct ori_trace *t, uint64_t capacity)
{
	struct ori_trace_head head = { .count = 0 }, *near;
	int err = ori_memory_alloc(c, capacity * sizeof(*t->kernels.events), &t->kernel_events);

	if (!err)
		err = ori_memory_alloc(c, sizeof(head), &t->kernel_head);
	if (!err)
		err = ori_memory_alloc_host(c, sizeof(uint64_t), &t->kernel_clock);
	if (err)
		return untraced(t, "no memory for the events of kernels of", ENOMEM);
	near = t->kernel_head->allocation.base;
	t->kernels.events = t->kernel_events->allocation.base;
	t->kernels.count = &near->count;
	t->kernels.capacity = capacity;
	head.trace = t->kernels;
	if (c->device->ops->copy(c->device, near, &head, sizeof(head)))
		return untraced(t, "the device takes no events of", EIO);
	t->kernel_device = c->device;
	c->dev.trace = &near->trace;
	return 0;
}

static void free_trace(struct ori_trace *t)
{
	if (t->file)
		fclose(t->file);
	free(t->host.events);
	free(t->fetched.events);
	free(t);
}

static void fetch_rest(void);

static void expect_exit(void)
{
	if (atexit(fetch_rest))
		ori_log(ORI_LOG_WARN, "ORIEL_TRACE: no memory; a process that exits without "
				      "destroying its comm writes no events of kernels");
}

/* A device's driver is open now.  So at exit fetch_rest() runs before the driver's own handlers. */
static void list(struct ori_trace *t)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (t->kernel_device)
		pthread_once(&once, expect_exit);
	pthread_mutex_lock(&lock);
	t->next = traces;
	traces = t;
	pthread_mutex_unlock(&lock);
}

static void unlist(const struct ori_trace *t)
{
	struct ori_trace **at = &traces;

	pthread_mutex_lock(&lock);
	while (*at && *at != t)
		at = &(*at)->next;
	if (*at)
		*at = t->next;
	pthread_mutex_unlock(&lock);
}

static struct ori_trace *make(struct oriel_comm *c, uint32_t id)
{
	uint64_t capacity = c->config.trace_events ? (uint64_t)c->config.trace_events : 1;
	struct ori_trace *t = aligned_alloc(_Alignof(struct ori_trace), sizeof(*t));
	int bad;

	if (!t) {
		ori_log(ORI_LOG_WARN, "ORIEL_TRACE: no memory; this rank writes no trace");
		return NULL;
	}
	memset(t, 0, sizeof(*t));
	t->id = id;
	t->rank = c->rank;
	t->nranks = c->nranks;
	t->pid = (int)getpid();
	snprintf(t->hostname, sizeof(t->hostname), "%s", c->facts[c->rank].host);
	t->nics = 1;
	bad = open_file(t, c->config.trace);
	if (!bad)
		bad = host_room(t, capacity);
	if (!bad && c->device->separate)
		bad = kernel_room(c, t, capacity);
	if (!bad) {
		if (!c->device->separate)
			c->dev.trace = &t->host;
		return t;
	}
	if (t->file)
		unlink(t->path);
	free_trace(t);
	return NULL;
}

int ori_trace_open(struct oriel_comm *c, const struct ori_trace_offer *offers, size_t stride,
		   void *scratch)
{
	const char *at = (const char *)offers;
	struct ori_clock_offset clock = { 0, 0 };
	uint32_t id = offers->id;
	int any = 0, err;

	for (int r = 0; r < c->nranks; r++)
		any |= ((const struct ori_trace_offer *)(at + (size_t)r * stride))->wanted != 0;
	if (!any)
		return 0;
	err = ori_trace_clock_align(c, scratch, &clock);
	if (err || !c->config.trace[0])
		return err;
	c->trace = make(c, id);
	if (!c->trace)
		return 0;
	c->trace->clock = clock;
	list(c->trace);
	return 0;
}

/* ---- notes of the host ----------------------------------------------------------------------- */

uint64_t ori_trace_call_begin(const struct oriel_comm *c)
{
	return c->trace ? ori_now_ns() : 0;
}

/* The number of a name, counted from 1; 0 if there are too many. */
static int name_number(struct ori_trace *t, const char *name)
{
	int n;

	pthread_mutex_lock(&lock);
	for (n = 0; n < t->names; n++)
		if (!strncmp(t->name[n], name, ORI_TRACE_NAME_BYTES - 1))
			break;
	if (n == t->names && n < ORI_TRACE_NAMES)
		snprintf(t->name[t->names++], ORI_TRACE_NAME_BYTES, "%s", name);
	pthread_mutex_unlock(&lock);
	return n < ORI_TRACE_NAMES ? n + 1 : 0;
}

void ori_trace_call(struct oriel_comm *c, uint64_t begin_ns, const char *name, uint64_t bytes,
		    int status)
{
	struct ori_trace_note n = ori_trace_note_of(ORIEL_TRACE_CALL, begin_ns, -1, 0, -1);

	if (!c->trace || !begin_ns)
		return;
	n.end = ori_now_ns();
	n.id = name_number(c->trace, name);
	n.bytes = bytes;
	n.status = status;
	ori_trace_write(&c->trace->host, n);
}

void ori_trace_engine(struct oriel_comm *c, uint32_t nics)
{
	if (c->trace)
		c->trace->nics = nics;
}

void ori_trace_completed(struct oriel_comm *c, uint32_t nic, uint32_t qpn, uint64_t wqe)
{
	struct ori_trace_note n;

	if (!c->trace)
		return;
	n = ori_trace_note_of(ORIEL_TRACE_CQE, ori_now_ns(), -1, (int)qpn, -1);
	n.end = n.begin;
	n.value = wqe + 1;
	n.base = nic;
	ori_trace_write(&c->trace->host, n);
}

/* ---- the end --------------------------------------------------------------------------------- */

/*
 * Copies the events of kernels to the host.  A kernel that still runs may be writing; an event that
 * is not complete is left out.
 */
static void fetch_kernel_events(struct ori_trace *t)
{
	struct ori_trace_copy *to = &t->fetched;
	struct ori_device *d = t->kernel_device;
	int err;

	if (!d)
		return;
	free(to->events);
	memset(to, 0, sizeof(*to));
	err = d->ops->copy(d, &to->count, t->kernels.count, sizeof(to->count));
	if (!err)
		to->n = to->count < t->kernels.capacity ? to->count : t->kernels.capacity;
	if (to->n) {
		to->events = malloc(to->n * sizeof(*to->events));
		err = !to->events ? ORIEL_ENOMEM :
				    d->ops->copy(d, to->events, t->kernels.events,
						 to->n * sizeof(*to->events));
	}
	if (!err)
		return;
	to->failed = 1;
	to->n = 0;
	ori_log(ORI_LOG_WARN, "ORIEL_TRACE: the events of kernels of %s are lost: %s", t->path,
		oriel_status_name(err));
}

static void write_file(struct ori_trace *t)
{
	int why;

	ori_trace_ticks_end(t);
	why = ori_trace_file_write(t);
	if (fclose(t->file) && !why)
		why = errno;
	t->file = NULL;
	if (why)
		ori_log(ORI_LOG_WARN, "ORIEL_TRACE: %s is not complete: %s", t->path,
			strerror(why));
}

void ori_trace_close(struct oriel_comm *c)
{
	struct ori_trace *t = c->trace;

	if (!t)
		return;
	unlist(t); /* waits for write_rest(), and nobody else finds it from now on */
	if (t->file) {
		fetch_kernel_events(t);
		write_file(t);
	}
	c->trace = NULL;
	free_trace(t);
}

/*
 * A process that exits without destroying its comm.  First the events of kernels are fetched, while
 * the driver still works.  The file is written last, after all handlers of the program: they may
 * still make calls, or destroy the comm.  Threads may still run, so nothing is freed.
 */
static void fetch_rest(void)
{
	pthread_mutex_lock(&lock);
	for (struct ori_trace *t = traces; t; t = t->next)
		if (t->pid == (int)getpid())
			fetch_kernel_events(t);
	pthread_mutex_unlock(&lock);
}

static __attribute__((destructor)) void write_rest(void)
{
	pthread_mutex_lock(&lock);
	for (struct ori_trace *t = traces; t; t = t->next)
		if (t->file && t->pid == (int)getpid())
			write_file(t);
	traces = NULL;
	pthread_mutex_unlock(&lock);
}
