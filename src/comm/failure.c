/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/failure.c - the first failure of a comm: who, what, why; told to all who wait.
 *
 * The word in control memory is what device code tests; the text is for people.  A mapped peer that
 * aborts writes the word directly, so a failure may be there before its text.  Kernels of a separate device
 * test a copy in its memory, which the host keeps.
 */
#include <stdio.h>
#include <string.h>

#include "comm.h"

static int set_word(uint64_t *word, uint64_t failure)
{
	uint64_t none = 0;

	/* [F1] release; waits read it relaxed: they only stop, nothing is read because of it. */
	return __atomic_compare_exchange_n(word, &none, failure, 0, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

void ori_comm_fail(struct oriel_comm *c, int status, int rank, const char *why)
{
	pthread_mutex_lock(&c->lock);
	if (!c->failure_text[0])
		snprintf(c->failure_text, sizeof(c->failure_text), "%s", why);
	pthread_mutex_unlock(&c->lock);
	set_word(&c->control->failure, ORIEL_FAILURE(status, rank));
	ori_comm_tell_device(c);
	oriel_cpu_wake(&c->control->waiters);
}

/* The word kernels look at, where it is not the host's own. */
void ori_comm_tell_device(struct oriel_comm *c)
{
	uint64_t failure = __atomic_load_n(&c->control->failure, __ATOMIC_ACQUIRE);

	if (c->device->separate && failure && c->dev.failure)
		ori_control_store(c, (uint64_t *)(uintptr_t)c->dev.failure, failure);
}

int ori_comm_failed(struct oriel_comm *c)
{
	uint64_t failure = __atomic_load_n(&c->control->failure, __ATOMIC_ACQUIRE);
	char text[256];
	int status = ORIEL_FAILURE_STATUS(failure);

	if (!failure)
		return 0;
	pthread_mutex_lock(&c->lock);
	memcpy(text, c->failure_text, sizeof(text));
	pthread_mutex_unlock(&c->lock);
	if (!text[0] && status == ORIEL_EPEER)
		snprintf(text, sizeof(text), "rank %d died or left", ORIEL_FAILURE_RANK(failure));
	else if (!text[0])
		snprintf(text, sizeof(text), "rank %d gave up: %s", ORIEL_FAILURE_RANK(failure),
			 oriel_status_text(status));
	return ori_fail_silent(status, "the comm has failed: %s", text);
}

int oriel_comm_status(struct oriel_comm *c)
{
	int err = ori_comm_check(c, "oriel_comm_status");

	return err ? err : ori_comm_failed(c);
}

void ori_comm_fail_all(struct oriel_comm *c, int status, const char *why)
{
	uint64_t first;

	ori_comm_fail(c, status, c->rank, why);
	/* Who gives up because of another's failure passes that one on, not itself. */
	first = __atomic_load_n(&c->control->failure, __ATOMIC_ACQUIRE);
	for (int r = 0; r < c->nranks; r++) {
		struct ori_control *control = c->peers[r].control;

		if (r == c->rank || !control)
			continue;
		set_word(&control->failure, first);
		oriel_cpu_wake(&control->waiters);
	}
	c->boot->ops->abort(c->boot, status, why);
}

int oriel_comm_abort(struct oriel_comm *c, int why)
{
	int err = ori_comm_check(c, "oriel_comm_abort");
	char text[128];

	if (err)
		return err;
	if (why >= 0)
		return ori_fail(ORIEL_EINVAL, "oriel_comm_abort: %d is not an error", why);
	snprintf(text, sizeof(text), "rank %d aborted the comm: %s", c->rank,
		 oriel_status_text(why));
	ori_log(ORI_LOG_ERROR, "%s", text);
	ori_comm_fail_all(c, ORIEL_EABORTED, text);
	return 0;
}
