/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/trace_clock.c - how far the clocks of ranks and devices are apart, for the trace.
 *
 * No rank leaves a round before all ranks have entered it.  So rank 0's entry comes before this
 * rank's exit, and this rank's entry before rank 0's exit.  Each round thus gives a lower and an
 * upper bound of the difference of the two clocks.  A few rounds are made and the tightest bounds
 * kept.  The middle is the result, and half the distance is its error, which the file states.
 *
 * Called on user threads, in calls that create a comm or a window.
 */
#include <time.h>

#include "agree.h"
#include "memory.h"
#include "trace.h"

#define ROUNDS 8
#define LAUNCHES 4
#define GUESS_ERROR_NS 1000000u

/* The difference is between the two: the host's clock was read before and after the other one. */
struct bounds {
	int64_t low, high;
};

static void tighten(struct bounds *b, int64_t low, int64_t high)
{
	if (low > b->low)
		b->low = low;
	if (high < b->high)
		b->high = high;
}

static struct ori_clock_offset middle(struct bounds b)
{
	struct ori_clock_offset out;

	/* bounds that cross: a clock was set during the measurement */
	if (b.high < b.low) {
		out.ahead_ns = b.high;
		out.error_ns = (uint64_t)(b.low - b.high);
		return out;
	}
	out.ahead_ns = b.low + (b.high - b.low) / 2;
	out.error_ns = (uint64_t)(b.high - b.low) / 2;
	return out;
}

int ori_trace_clock_align(struct oriel_comm *c, struct ori_clock_reading *all,
			  struct ori_clock_offset *out)
{
	struct ori_clock_reading mine = { 0, 0 };
	struct bounds b = { INT64_MIN, INT64_MAX };
	int err = 0;

	for (int n = 0; n <= ROUNDS && !err; n++) {
		struct ori_clock_reading last = mine;

		mine.entered_ns = ori_now_ns();
		err = ori_comm_agree(c, 0, &last, all, sizeof(last));
		mine.left_ns = ori_now_ns();
		/* what came is about the round before */
		if (!err && n)
			tighten(&b, (int64_t)(last.entered_ns - all[0].left_ns),
				(int64_t)(last.left_ns - all[0].entered_ns));
	}
	if (err)
		return err;
	*out = middle(b);
	/* Ranks of one host read the same clock. */
	if (c->facts[c->rank].host_id == c->facts[0].host_id)
		out->ahead_ns = 0, out->error_ns = 0;
	return 0;
}

/* A GPU's clock counts from 1970 and follows the host's.  The error is an estimate. */
static struct ori_clock_offset guess(void)
{
	struct ori_clock_offset out = { 0, GUESS_ERROR_NS };
	struct timespec t;

	if (!clock_gettime(CLOCK_REALTIME, &t))
		out.ahead_ns = (int64_t)t.tv_sec * (int64_t)ORI_NS_PER_S + (int64_t)t.tv_nsec -
			       (int64_t)ori_now_ns();
	return out;
}

static struct ori_clock_offset measure(struct oriel_comm *c, const struct oriel_kernel *kernel)
{
	struct bounds b = { INT64_MIN, INT64_MAX };
	struct ori_trace *t = c->trace;
	uint64_t *at = t->kernel_clock->allocation.base, begin, end;
	int err = 0;

	for (int n = 0; n < LAUNCHES && !err; n++) {
		begin = ori_now_ns();
		err = c->device->ops->launch(c->device, kernel, 1, 1, &at, sizeof(at), NULL, NULL);
		if (!err)
			err = c->device->ops->sync(c->device, NULL);
		end = ori_now_ns();
		if (!err)
			tighten(&b, (int64_t)(*at - end), (int64_t)(*at - begin));
	}
	return err ? guess() : middle(b);
}

void ori_trace_clock_device(struct oriel_comm *c, const struct oriel_kernel *kernel)
{
	struct ori_trace *t = c->trace;
	int can;

	if (!t || t->device_known || !c->device->separate)
		return;
	can = c->device->ops->has_kernel(c->device, kernel);
	if (!can)
		ori_log(ORI_LOG_INFO,
			"ORIEL_TRACE: this library was built without kernels for GPUs, so times "
			"of kernels may be wrong by %u us",
			GUESS_ERROR_NS / 1000);
	t->device = can ? measure(c, kernel) : guess();
	t->device_known = 1;
}
