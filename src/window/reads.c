/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/reads.c - host code reads signals and counters now: no stream orders the read, and it
 * waits for nothing.
 *
 * On the CPU a read is the device call.  On a separate device the words that engines write lie in
 * host memory and are loaded there.  All others are copied from device memory, which works while
 * kernels run.  Any thread may call.
 */
#include <stdlib.h>

#include <oriel/device.h>

#include "../comm/control.h"
#include "../comm/failure.h"
#include "issue.h"

/* The words to add up: those of one peer, or of all. */
struct peers {
	int first, count;
};

static struct peers peers_of(const struct oriel_window *w, int peer)
{
	struct peers all = { 0, w->comm->nranks }, one = { peer, 1 };

	return peer < 0 ? all : one;
}

/* Words of device memory, copied to the host. */
static int fetch(struct oriel_window *w, const uint64_t *near, uint64_t words, uint64_t **copy)
{
	struct ori_device *d = w->comm->device;
	int err;

	*copy = malloc(words * sizeof(**copy));
	if (!*copy)
		return ori_fail(ORIEL_ENOMEM, "no memory to read %llu words of a window",
				(unsigned long long)words);
	err = ori_comm_device_status(w->comm, d->ops->copy(d, *copy, near, words * sizeof(**copy)));
	if (!err)
		return 0;
	free(*copy);
	*copy = NULL;
	return err;
}

/*
 * Bases are copied before words, as kernels load them.  The other order could pair old words with
 * the base of a reset in between, and the value would be below 0.
 */
static int fetch_both(struct oriel_window *w, const uint64_t *near_base, uint64_t base_words,
		      const uint64_t *near, uint64_t words, uint64_t **base, uint64_t **copy)
{
	int err = fetch(w, near_base, base_words, base);

	if (err)
		return err;
	err = fetch(w, near, words, copy);
	if (err)
		free(*base);
	return err;
}

/* ---- signals --------------------------------------------------------------------------------- */

static int signal_separate(struct oriel_window *w, int peer, int id, uint64_t *value)
{
	const struct oriel_window_dev *d = &w->host_dev;
	struct peers p = peers_of(w, peer);
	uint64_t at = ori_signal_index(d, p.first, id), stride = d->signal_stride;
	uint64_t words = (uint64_t)(p.count - 1) * stride + 1, sum_base = 0, sum = 0;
	uint64_t *base, *copy;
	int err = 0;

	if (peer < 0)
		err = ori_comm_device_status(w->comm,
					     ori_control_load(w->comm, &d->signal_sum_base[id],
							      &sum_base));
	if (!err)
		err = fetch_both(w, &d->signal_base[at], words, &d->signal_words[at], words, &base,
				 &copy);
	if (err)
		return err;
	for (int i = 0; i < p.count; i++) {
		int queued = ori_words_are_host(d, p.first + i);

		/* [SIG3] inside, for the words of an engine */
		sum += queued ? ori_signal_load(d, p.first + i, id) : copy[(uint64_t)i * stride];
		sum -= base[(uint64_t)i * stride];
	}
	free(base);
	free(copy);
	*value = sum - sum_base;
	return 0;
}

static uint64_t signal_here(const struct oriel_window_dev *d, int peer, int id)
{
	return peer < 0 ? oriel_read_signal(d, id) : oriel_read_signal_from(d, peer, id);
}

/* ---- counters -------------------------------------------------------------------------------- */

static int counter_separate(struct oriel_window *w, int peer, int id, uint64_t *value)
{
	const struct oriel_window_dev *d = &w->host_dev;
	struct peers p = peers_of(w, peer);
	uint64_t at = ori_counter_index(d, p.first, 0, id), stride = d->counter_stride, sum = 0;
	uint64_t row = d->counter_lanes * stride, *base, *copy;
	int err = fetch_both(w, ori_counter_base(d, p.first, id),
			     (uint64_t)(p.count - 1) * stride + 1, &d->counter_words[at],
			     (uint64_t)p.count * row - stride + 1, &base, &copy);

	if (err)
		return err;
	for (int i = 0; i < p.count; i++) {
		/* [SIG4] inside, for the words of an engine */
		if (ori_words_are_host(d, p.first + i))
			sum += ori_counter_sum(d, p.first + i, id);
		else
			for (uint64_t lane = 0; lane < d->counter_lanes; lane++)
				sum += copy[(uint64_t)i * row + lane * stride];
		sum -= base[(uint64_t)i * stride];
	}
	free(base);
	free(copy);
	*value = sum;
	return 0;
}

static uint64_t counter_here(const struct oriel_window_dev *d, int peer, int id)
{
	struct peers p = { peer < 0 ? 0 : peer, peer < 0 ? d->comm.nranks : 1 };
	uint64_t sum = 0;

	for (int i = 0; i < p.count; i++)
		sum += oriel_read_counter(d, p.first + i, id);
	return sum;
}

/* ---- public ---------------------------------------------------------------------------------- */

/*
 * A failed window returns its failure, so that a loop of reads ends.  A thread that polls drives
 * the engine of its rank, as a wait does.
 */
static int begin(struct oriel_window *w, const char *call, int is_signal, int peer, int id,
		 const uint64_t *value)
{
	int err = ori_window_check(w, call);

	if (!err && !value)
		err = ori_fail(ORIEL_EINVAL, "%s: no place for the value", call);
	if (!err)
		err = ori_window_check_id(call, is_signal ? "signal" : "counter", id,
					  is_signal ? w->options.signals : w->options.counters);
	if (!err && peer >= 0)
		err = ori_window_check_peer(w, call, peer);
	if (err)
		return err;
	if (w->comm->device->separate)
		return ori_window_failed(w);
	if (w->host_dev.queued_peers)
		ori_drive(w->host_dev.comm.engine);
	return ori_failed(&w->host_dev.comm, w->host_dev.failure) ? ori_window_failed(w) : 0;
}

int oriel_window_read_signal(struct oriel_window *w, int peer, int id, uint64_t *value)
{
	int err = begin(w, "oriel_window_read_signal", 1, peer, id, value);

	if (err)
		return err;
	if (w->comm->device->separate)
		return signal_separate(w, peer, id, value);
	*value = signal_here(&w->host_dev, peer, id);
	return 0;
}

int oriel_window_read_counter(struct oriel_window *w, int peer, int id, uint64_t *value)
{
	int err = begin(w, "oriel_window_read_counter", 0, peer, id, value);

	if (err)
		return err;
	if (w->comm->device->separate)
		return counter_separate(w, peer, id, value);
	*value = counter_here(&w->host_dev, peer, id);
	return 0;
}
