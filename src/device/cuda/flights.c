/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/flights.c - kernels of collectives on several streams: ensures that all kernels that
 * run at once fit on the GPU at once.
 *
 * Blocks of such a kernel wait for other ranks' kernels.  One rank could fill its part of the SMs,
 * from several streams, with blocks that wait for kernels which other ranks have yet to launch.
 * Then no rank could go on.  So a rank uses only its own part (the GPU divided by the ranks that
 * share it) and counts the kernels in flight there: the last one of each stream.  A kernel that
 * does not fit beside these runs after as many of them as needed, the oldest first.  It then waits
 * for earlier calls only.  If all ranks make their calls in the same order, the first call that is
 * not complete everywhere can always go on.
 *
 * Kernels of a captured graph are not counted: they run when the program launches the graph.
 *
 * Any thread; launches of one rank one at a time.
 */
#include <stdlib.h>

#include "../../util/util.h"
#include "cuda_device.h"

#define UNIT 65536 /* unit of load: one SM */

/* A stream with kernels that may not have ended; in the order in which streams became busy. */
struct ori_cuda_flight {
	struct ori_cuda_flight *next;
	uint64_t stream;
	struct ori_mark *mark; /* behind the last of them; NULL: all have ended */
	int64_t load;          /* SMs that its largest kernel takes, in UNITs */
	int fit;               /* blocks per SM of the kernel with the fewest */
	int followed;          /* set by the kernel that is being admitted */
};

/* What a kernel needs. */
struct wish {
	void *stream;
	uint64_t number;
	int64_t load;
	int fit;
};

/* This rank's part of the SMs, in UNITs. */
static int64_t room_of(const struct ori_cuda_device *d)
{
	int64_t here, all;

	ori_cuda_sharers(d, &here, &all);
	here = (int64_t)d->gpu->sms * UNIT / here;
	all = (int64_t)d->gpu->sms_all * UNIT / all;
	return here < all ? here : all;
}

/* Removes streams whose kernels have ended. */
static void reap(struct ori_cuda_device *d)
{
	struct ori_cuda_flight **at = &d->flights, *f;

	while ((f = *at)) {
		f->followed = 0;
		if (f->mark && !ori_cuda_mark_passed(d, f->mark)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		ori_cuda_unmark(&d->base, f->mark);
		free(f);
	}
}

/*
 * Most programs have one stream, with kernels of the same size again and again.  They need not ask
 * the driver whether one has ended.
 */
static int must_reap(const struct ori_cuda_device *d, const struct wish *w)
{
	const struct ori_cuda_flight *f = d->flights;

	return f && (f->next || f->stream != w->number || f->load > w->load || f->fit < w->fit);
}

/*
 * Do they fit at once, wherever blocks are placed?  Blocks of one size leave no gaps.  With several
 * sizes, every SM may have a gap that is just too small for the largest block.
 */
static int fits(const struct ori_cuda_device *d, const struct wish *w)
{
	int64_t load = w->load, room = room_of(d);
	int mixed = 0, fit = w->fit, others = 0;

	for (const struct ori_cuda_flight *f = d->flights; f; f = f->next) {
		if (f->stream == w->number || f->followed)
			continue;
		others = 1;
		load += f->load;
		mixed |= f->fit != w->fit;
		fit = f->fit < fit ? f->fit : fit;
	}
	if (mixed)
		room -= room / fit;
	/* a kernel alone was checked already */
	return !others || load <= room;
}

static void tell_order(struct ori_cuda_device *d, const struct oriel_kernel *kernel)
{
	if (!d->told_order)
		ori_log(ORI_LOG_WARN,
			"kernel \"%s\" waits for kernels of collectives on other streams, "
			"because they cannot all run at once on GPU %d: make such calls in the "
			"same order on all ranks, or put fewer ranks on a GPU (logged once)",
			kernel->name, d->gpu->ordinal);
	d->told_order = 1;
}

/* A kernel needs at least one block: fails if so many ranks and comms do not fit on the GPU. */
static int check_room(const struct ori_cuda_device *d, const struct oriel_kernel *kernel,
		      int nblocks, int nthreads, const struct wish *w)
{
	int64_t here, all;

	if (nblocks > 1 || w->load <= room_of(d))
		return 0;
	ori_cuda_sharers(d, &here, &all);
	return ori_fail(ORIEL_ERANGE,
			"kernel \"%s\": a block of %d threads does not fit into the part of GPU "
			"%d that each of its %lld ranks and comms has: put fewer ranks on it, or "
			"make comms by oriel_comm_split",
			kernel->name, nthreads, d->gpu->ordinal, (long long)all);
}

static int admit(struct ori_cuda_device *d, const struct oriel_kernel *kernel, const struct wish *w)
{
	int err = 0;

	for (struct ori_cuda_flight *f = d->flights; f && !err && !fits(d, w); f = f->next) {
		if (f->stream == w->number)
			continue;
		tell_order(d, kernel);
		err = ori_cuda_mark_follow(d, w->stream, f->mark);
		f->followed = 1;
	}
	return err;
}

/* The stream's entry; a new one is added at the end of the list. */
static int get_flight(struct ori_cuda_device *d, const struct wish *w, struct ori_cuda_flight **out)
{
	struct ori_cuda_flight **at = &d->flights;

	while (*at && (*at)->stream != w->number)
		at = &(*at)->next;
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return ori_fail(ORIEL_ENOMEM, "no memory for a launch");
		(*at)->stream = w->number;
		(*at)->fit = w->fit;
	}
	*out = *at;
	return 0;
}

static int note(struct ori_cuda_device *d, struct ori_cuda_flight *f, const struct wish *w,
		struct ori_mark **mark)
{
	int err;

	f->load = w->load > f->load ? w->load : f->load;
	f->fit = w->fit < f->fit ? w->fit : f->fit;
	/* If this fails, the kernel has been waited for, or both marks say that it still runs. */
	err = ori_cuda_mark_record(d, w->stream, w->number, &f->mark);
	if (!mark)
		return err;
	ori_cuda_unmark(&d->base, *mark);
	*mark = ori_cuda_mark_share(d, f->mark);
	return err;
}

/* The context is current. */
static int launch(struct ori_cuda_device *d, const struct oriel_kernel *kernel, int nblocks,
		  int nthreads, const void *args, void *stream, struct ori_mark **mark)
{
	struct wish w = { .stream = stream };
	struct ori_cuda_flight *f = NULL;
	int captured = 0, err;
	void *function;

	err = ori_cuda_prepare(d, kernel, nblocks, nthreads, &function, &w.fit);
	if (!err)
		err = ori_cuda_is_capturing(d, stream, &captured);
	if (err)
		return err;
	if (captured)
		return ori_cuda_start(d, kernel, function, nblocks, nthreads, args, stream, NULL);
	/* Not earlier: asking a captured stream for its number ends the capture. */
	w.number = ori_cuda_stream_number(d, stream);
	w.load = ((int64_t)nblocks * UNIT + w.fit - 1) / w.fit;
	err = check_room(d, kernel, nblocks, nthreads, &w);
	if (err)
		return err;
	pthread_mutex_lock(&d->flights_lock);
	if (must_reap(d, &w))
		reap(d);
	err = admit(d, kernel, &w);
	if (!err)
		err = get_flight(d, &w, &f);
	if (!err)
		err = ori_cuda_start(d, kernel, function, nblocks, nthreads, args, stream, NULL);
	if (!err)
		err = note(d, f, &w, mark);
	pthread_mutex_unlock(&d->flights_lock);
	return err;
}

int ori_cuda_launch_together(struct ori_device *device, const struct oriel_kernel *kernel,
			     int nblocks, int nthreads, const void *args, size_t args_bytes,
			     void *stream, struct ori_mark **mark)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	int err;

	if (!args || args_bytes != kernel->args_bytes)
		return ori_fail(ORIEL_EINVAL,
				"kernel \"%s\": got %zu bytes of arguments, but it takes %zu",
				kernel->name, args_bytes, kernel->args_bytes);
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = launch(d, kernel, nblocks, nthreads, args, stream ? stream : d->stream, mark);
	ori_cuda_leave(&scope);
	return err;
}

void ori_cuda_flights_close(struct ori_cuda_device *d)
{
	struct ori_cuda_flight *f;

	while ((f = d->flights)) {
		d->flights = f->next;
		ori_cuda_unmark(&d->base, f->mark);
		free(f);
	}
	pthread_mutex_destroy(&d->flights_lock);
}
