/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/trace_ticks.c - turns ticks of the processor's counter into times of CLOCK_MONOTONIC.
 *
 * A traced call reads the counter, because a clock takes twice as long.  The counter is used only
 * if the system counts its own time with it.  Then it has the same rate on all cores, and the
 * system watches it.  Counter and clock are compared when the trace begins and when its file is
 * written.  All events lie between, so a straight line through both points gives their times.
 *
 * Called by: trace.c and trace_file.c, on the thread that creates or ends the comm.
 */
#include <string.h>

#include <oriel/device/port.h>

#include "trace.h"

#define READINGS 32

/* The names of the counters that ori_ticks() reads. */
static int clock_is_counter(void)
{
	FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	char name[64] = "";

	if (!f)
		return 0;
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return !strcmp(name, "tsc\n") || !strcmp(name, "arch_sys_counter\n");
}

/* Reads the clock between two readings of the counter.  The closest pair of several is kept. */
static struct ori_tick_mark mark(void)
{
	struct ori_tick_mark best = { 0, 0, UINT64_MAX };

	for (int n = 0; n < READINGS; n++) {
		uint64_t before = ori_ticks(), ns, apart;

		ori_ticks_after_loads();
		ns = ori_now_ns();
		ori_ticks_after_loads();
		apart = ori_ticks() - before;
		if (apart / 2 + 1 < best.error_ticks) {
			best.ticks = before + apart / 2;
			best.ns = ns;
			best.error_ticks = apart / 2 + 1;
		}
	}
	return best;
}

void ori_trace_ticks_begin(struct ori_trace *t)
{
	if (!ori_ticks() || !clock_is_counter())
		return;
	t->first = t->last = mark();
	t->host.ticks = 1;
}

void ori_trace_ticks_end(struct ori_trace *t)
{
	if (t->host.ticks)
		t->last = mark();
}

static double ns_per_tick(const struct ori_trace *t)
{
	uint64_t ticks = t->last.ticks - t->first.ticks;

	return ticks ? (double)(t->last.ns - t->first.ns) / (double)ticks : 0;
}

int64_t ori_trace_ticks_ns(const struct ori_trace *t, uint64_t ticks)
{
	double since = (double)(int64_t)(ticks - t->first.ticks) * ns_per_tick(t);

	return (int64_t)t->first.ns + (int64_t)since;
}

uint64_t ori_trace_ticks_error_ns(const struct ori_trace *t)
{
	uint64_t a = t->first.error_ticks, b = t->last.error_ticks;

	return (uint64_t)((double)(a > b ? a : b) * ns_per_tick(t) + 0.5);
}
