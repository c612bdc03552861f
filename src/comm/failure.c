/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/failure.c - the first failure of a comm: a word that ends all waits, and a text.
 *
 * Device code tests the word in control memory; the text is for people.  A mapped peer that aborts
 * writes the word directly, so the word may be set before its text has arrived.  Kernels of a
 * separate device test a copy in device memory, which the host keeps up to date.
 *
 * Any thread; takes the comm's lock.  Owns the thread of a failure that waits for its cause.
 * Model: models/failure.pml
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "failure.h"
#include "object.h"

/* How long a GPU error waits for a report of a dead peer.  The boot usually needs milliseconds. */
#define VERDICT_NS (5 * ORI_NS_PER_S)
/* How long the other end of a queue has to report the cause.  It may be suspended for a while. */
#define CAUSE_NS (2 * ORI_NS_PER_S)
/*
 * How long a call waits for the text of a failure word.  Longer than CAUSE_NS: a text that
 * ori_comm_fail_later() holds back has been published by then.
 */
#define TEXT_NS (3 * ORI_NS_PER_S)

void ori_comm_fail(struct oriel_comm *c, int status, int rank, const char *why)
{
	pthread_mutex_lock(&c->lock);
	if (!c->failure_text[0])
		snprintf(c->failure_text, sizeof(c->failure_text), "%s", why);
	pthread_cond_broadcast(&c->failure_told);
	pthread_mutex_unlock(&c->lock);
	(void)ori_failure_set(&c->control->failure, ORIEL_FAILURE(status, rank));
	ori_comm_tell_device(c);
	oriel_cpu_wake(&c->control->waiters);
}

void ori_comm_tell_device(struct oriel_comm *c)
{
	uint64_t failure = ori_comm_failure(c);

	/* An error of the copy is not reported here: the next call on the device returns it. */
	if (c->device->separate && failure && c->dev.failure)
		(void)c->device->ops->copy(c->device, (void *)(uintptr_t)c->dev.failure, &failure,
					   sizeof(failure));
}

/* Lock held.  Waits until the text is there, at most ns. */
static void await_text(struct oriel_comm *c, uint64_t ns, const int *stop)
{
	uint64_t end = ori_deadline_ns(ns);
	struct timespec when = { (time_t)(end / ORI_NS_PER_S), (long)(end % ORI_NS_PER_S) };

	while (!c->failure_text[0] && !*stop && ori_now_ns() < end)
		pthread_cond_timedwait(&c->failure_told, &c->lock, &when);
}

/*
 * The word can be set before its text: a mapped peer has set it, or the other end of a queue has
 * still to report the cause.
 */
static void take_text(struct oriel_comm *c, char *text, size_t bytes)
{
	pthread_mutex_lock(&c->lock);
	await_text(c, TEXT_NS, &c->failure_untold);
	c->failure_untold = !c->failure_text[0];
	snprintf(text, bytes, "%s", c->failure_text);
	pthread_mutex_unlock(&c->lock);
}

void ori_failure_text(uint64_t failure, char *out, size_t bytes)
{
	int rank = ORIEL_FAILURE_RANK(failure), by = ORIEL_FAILURE_BY(failure);

	if (by >= 0 && by != rank)
		snprintf(out, bytes, "rank %d gave up waiting for rank %d", by, rank);
	else
		snprintf(out, bytes, "%s (rank %d)",
			 oriel_status_text(ORIEL_FAILURE_STATUS(failure)), rank);
}

int ori_comm_failed(struct oriel_comm *c)
{
	uint64_t failure = ori_comm_failure(c);
	char text[256];
	int status = ORIEL_FAILURE_STATUS(failure);

	if (!failure)
		return 0;
	take_text(c, text, sizeof(text));
	if (!text[0] && status == ORIEL_EPEER)
		snprintf(text, sizeof(text), "rank %d died or left", ORIEL_FAILURE_RANK(failure));
	else if (!text[0])
		snprintf(text, sizeof(text), "rank %d gave up: %s", ORIEL_FAILURE_RANK(failure),
			 oriel_status_text(status));
	return ori_fail_silent(status, "the comm has failed: %s", text);
}

/* Keeps the text.  Does not set the failure word: no kernel runs yet that could wait on it. */
void ori_comm_boot_failed(void *comm, int status, int rank, const char *why)
{
	struct oriel_comm *c = comm;

	(void)rank;
	pthread_mutex_lock(&c->lock);
	if (!c->failure_text[0])
		snprintf(c->failure_text, sizeof(c->failure_text), "%s", why);
	pthread_mutex_unlock(&c->lock);
	/* relaxed: the text is read under the lock */
	__atomic_store_n(&c->boot_lost, status, __ATOMIC_RELAXED);
}

int ori_comm_lost(struct oriel_comm *c)
{
	int status = __atomic_load_n(&c->boot_lost, __ATOMIC_RELAXED);
	char text[256];

	if (!status)
		return ori_comm_failed(c);
	pthread_mutex_lock(&c->lock);
	memcpy(text, c->failure_text, sizeof(text));
	pthread_mutex_unlock(&c->lock);
	return ori_fail_silent(status, "the comm has failed: %s", text);
}

/*
 * Some NICs do not report failures: a kernel finds the error in a completion queue.  Polling the
 * engine makes such an error known to the comm.
 */
int ori_comm_ask(struct oriel_comm *c)
{
	if (c->engine && c->engine->link_flags & ORIEL_LINK_SILENT)
		(void)c->engine->ops->idle(c->engine);
	return ori_comm_failed(c);
}

void ori_comm_fail_all(struct oriel_comm *c, int status, const char *why)
{
	uint64_t first;

	ori_comm_fail(c, status, c->rank, why);
	/* A rank that gives up because of another's failure passes that failure on, not its own. */
	first = ori_comm_failure(c);
	for (int r = 0; r < c->nranks; r++) {
		struct ori_control *control = c->peers[r].control;

		if (r == c->rank || !control)
			continue;
		(void)ori_failure_set(&control->failure, first);
		oriel_cpu_wake(&control->waiters);
	}
	c->boot->ops->abort(c->boot, status, why);
}

/* ---- a failure that waits for its cause ----------------------------------------------------- */

struct ori_held {
	struct oriel_comm *comm;
	pthread_t thread;
	int status, stop; /* stop: under the comm's lock */
	char text[256];
};

static void *held_main(void *arg)
{
	struct ori_held *h = arg;
	struct oriel_comm *c = h->comm;
	int tell;

	ori_log_rank_set(c->rank);
	pthread_mutex_lock(&c->lock);
	await_text(c, CAUSE_NS, &h->stop);
	tell = !c->failure_text[0] && !h->stop;
	pthread_mutex_unlock(&c->lock);
	if (tell) {
		ori_log(ORI_LOG_ERROR, "%s", h->text);
		ori_comm_fail_all(c, h->status, h->text);
	}
	return NULL;
}

static int start_held(struct ori_held *h)
{
	return ori_thread_start(&h->thread, held_main, h);
}

void ori_comm_fail_later(struct oriel_comm *c, int status, const char *why)
{
	struct ori_held *h = calloc(1, sizeof(*h));
	int now = 0;

	pthread_mutex_lock(&c->lock);
	if (c->failure_text[0] || c->held)
		goto out;
	now = 1;
	if (!h)
		goto out;
	h->comm = c;
	h->status = status;
	snprintf(h->text, sizeof(h->text), "%s", why);
	now = start_held(h) != 0;
	if (!now) {
		c->held = h;
		h = NULL;
	}
out:
	pthread_mutex_unlock(&c->lock);
	free(h);
	if (!now)
		return;
	ori_log(ORI_LOG_ERROR, "%s", why);
	ori_comm_fail_all(c, status, why);
}

int ori_failure_open(struct oriel_comm *c)
{
	pthread_condattr_t attr;
	int err = pthread_condattr_init(&attr);

	if (err)
		return ori_fail_errno(err, "a condition variable");
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	err = pthread_cond_init(&c->failure_told, &attr);
	pthread_condattr_destroy(&attr);
	return err ? ori_fail_errno(err, "a condition variable") : 0;
}

void ori_failure_stop(struct oriel_comm *c)
{
	struct ori_held *h;

	pthread_mutex_lock(&c->lock);
	h = c->held;
	c->held = NULL;
	if (h)
		h->stop = 1;
	pthread_cond_broadcast(&c->failure_told);
	pthread_mutex_unlock(&c->lock);
	if (!h)
		return;
	pthread_join(h->thread, NULL);
	free(h);
}

void ori_failure_close(struct oriel_comm *c)
{
	ori_failure_stop(c);
	pthread_cond_destroy(&c->failure_told);
}

/* Could the death of another process have ended this one's context? */
static int has_other_processes(const struct oriel_comm *c)
{
	for (int r = 0; r < c->nranks; r++)
		if (!c->peers[r].same_process)
			return 1;
	return 0;
}

/* Waits until the comm has failed.  The boot's watcher fails it when a rank has died. */
static void await_verdict(struct oriel_comm *c)
{
	uint64_t longest = c->timeout_ns < VERDICT_NS ? c->timeout_ns : VERDICT_NS;
	uint64_t end = ori_deadline_ns(longest);
	struct timespec pause = { .tv_nsec = 1000000 };

	while (!ori_comm_failure(c) && ori_now_ns() < end)
		nanosleep(&pause, NULL);
}

int ori_comm_device_status(struct oriel_comm *c, int err)
{
	char what[256];
	int failed;

	if (err != ORIEL_EDEVICE)
		return err;
	snprintf(what, sizeof(what), "%s", ori_last_error_text());
	if (has_other_processes(c))
		await_verdict(c);
	failed = ori_comm_failed(c);
	if (failed) {
		char why[256];

		snprintf(why, sizeof(why), "%s", ori_last_error_text());
		if (__atomic_exchange_n(&c->device_lost, 1, __ATOMIC_RELAXED))
			return ori_fail_silent(failed, "%s; so %s", why, what);
		return ori_fail(failed, "%s; so %s", why, what);
	}
	ori_comm_fail_all(c, ORIEL_EDEVICE, what);
	return ori_fail_silent(err, "%s", what);
}
