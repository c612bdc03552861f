/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/trace.h - the trace of a rank (ORIEL_TRACE, docs/tracing.md).
 *
 * trace.c owns the memory of the events and notes calls of the host.  trace_clock.c aligns clocks.
 * trace_ticks.c turns ticks of the processor into times.  trace_file.c writes the file.
 */
#ifndef ORI_COMM_TRACE_H
#define ORI_COMM_TRACE_H

#include <stdio.h>

#include "comm.h"

#define ORI_TRACE_NAMES 128 /* calls of the host with different names; later ones are "call" */
#define ORI_TRACE_NAME_BYTES 64

/* How far a clock is ahead of another one, and by how much that may be wrong. */
struct ori_clock_offset {
	int64_t ahead_ns;
	uint64_t error_ns;
};

/* What kernels of a separate device count in, and how they find it. */
struct ori_trace_head {
	struct oriel_trace_dev trace;
	uint64_t count;
};

/* Events of kernels, when they were copied to the host. */
struct ori_trace_copy {
	struct oriel_trace_event *events;
	uint64_t n;     /* places that were taken */
	uint64_t count; /* events that there were, also those without a place */
	int failed;     /* they could not be copied */
};

/* The counter of ori_ticks() and the clock at the same time. */
struct ori_tick_mark {
	uint64_t ticks, ns;
	uint64_t error_ticks; /* the clock was read at most this long before or after */
};

struct ori_trace {
	/*
	 * Events of host code.  On the CPU also those of kernels; a separate device has events of
	 * its own, and their count, in its memory.  Every writer reads `host` and adds to its
	 * count: both are in one cache line.
	 */
	_Alignas(ORIEL_LINE_BYTES) struct oriel_trace_dev host;
	uint64_t host_count;
	struct oriel_trace_dev kernels;   /* in the memory of kernel_device */
	struct ori_device *kernel_device; /* separate, or NULL */
	struct ori_trace_copy fetched;    /* of `kernels` */
	struct ori_tick_mark first, last; /* if host.ticks: when the trace began and ended */
	struct ori_memory *kernel_events; /* device memory */
	struct ori_memory *kernel_head;   /* device memory: struct ori_trace_head */
	struct ori_memory *kernel_clock;  /* host memory that a kernel stores its clock to */
	uint32_t nics;                    /* a queue of lane n belongs to NIC n % nics */
	FILE *file;
	char path[512];
	uint32_t id;                    /* the comm's, from rank 0 */
	struct ori_clock_offset clock;  /* of this rank, ahead of rank 0 */
	struct ori_clock_offset device; /* of kernels, ahead of this rank */
	int device_known;
	int rank, nranks, pid;
	char hostname[64];
	int names;
	char name[ORI_TRACE_NAMES][ORI_TRACE_NAME_BYTES];
	struct ori_trace *next; /* all traces of the process */
};

/* What a rank tells the others when a comm is made. */
struct ori_trace_offer {
	uint32_t wanted; /* ORIEL_TRACE is set on this rank */
	uint32_t id;     /* rank 0's becomes the comm's */
};

/*
 * Collective, if any rank wants a trace: aligns the clocks, opens this rank's file and makes room
 * for its events.  A rank that cannot write its file logs one line and goes on without a trace.
 * Fails only if a round fails.  scratch: memory for nranks struct ori_clock_reading.  It may hold
 * the offers, which are read first.
 */
void ori_trace_offer(const struct oriel_comm *, struct ori_trace_offer *);
int ori_trace_open(struct oriel_comm *, const struct ori_trace_offer *offers, size_t stride,
		   void *scratch);
/* Writes the file.  Nothing uses the comm any more, unless it has failed. */
void ori_trace_close(struct oriel_comm *);

/* Calls of the host: begin, then the call with its name.  Both do nothing without a trace. */
uint64_t ori_trace_call_begin(const struct oriel_comm *);
void ori_trace_call(struct oriel_comm *, uint64_t begin_ns, const char *name, uint64_t bytes,
		    int status);
/* The comm has an engine with this number of NICs.  It has completed a WQE (any thread). */
void ori_trace_engine(struct oriel_comm *, uint32_t nics);
void ori_trace_completed(struct oriel_comm *, uint32_t nic, uint32_t qpn, uint64_t wqe);

/*
 * trace_clock.c.  Collective: *out is how far this rank's clock is ahead of rank 0's.  all: memory
 * for nranks readings.  It is the caller's: a trace must not fail a comm for want of memory.
 */
struct ori_clock_reading {
	uint64_t entered_ns, left_ns; /* of the last round */
};
int ori_trace_clock_align(struct oriel_comm *, struct ori_clock_reading *all,
			  struct ori_clock_offset *out);
/*
 * Separate device: compares the clock of kernels with this rank's.  The kernel stores its clock to
 * the address that is its argument.  A library without kernels guesses.  Once per comm; later calls
 * do nothing.
 */
void ori_trace_clock_device(struct oriel_comm *, const struct oriel_kernel *);

/*
 * trace_ticks.c.  Begin: events of the host are timed with ori_ticks() if the system itself counts
 * its time with that counter.  End: before the file is written.  Between the two, the time of a
 * tick is on a straight line.  error_ns: by how much a time may be wrong.
 */
void ori_trace_ticks_begin(struct ori_trace *);
void ori_trace_ticks_end(struct ori_trace *);
int64_t ori_trace_ticks_ns(const struct ori_trace *, uint64_t ticks);
uint64_t ori_trace_ticks_error_ns(const struct ori_trace *);

/*
 * trace_file.c: writes events and facts to t->file.  Returns 0, or the errno of the failure.
 */
int ori_trace_file_write(struct ori_trace *);

#endif
