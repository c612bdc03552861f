/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/returned.c - what kernels of this rank returned, and its text.
 *
 * On the CPU a launch returns the outcome.  On a separate device a thread that fails stores one
 * word in control memory (struct oriel_kernel_report): status, block and the number of its kernel.
 * Owns the table of numbers and names.  A kernel that succeeds stores nothing.
 *
 * Called by: oriel_launch() and oriel_comm_sync(), on any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "failure.h"
#include "object.h"
#include "returned.h"

#define NAMES_MAX 0xfffu /* largest number in a report; further kernels have the number 0 */

struct ori_kernel_name {
	struct ori_kernel_name *next;
	const struct oriel_kernel *kernel;
	uint32_t number;
	char name[64];
};

/* ---- numbers of kernels ---------------------------------------------------------------------- */

/*
 * Lock held.  After dlclose() another kernel may have the same address, so names are compared as
 * well.
 */
static struct ori_kernel_name *find_kernel(struct oriel_comm *c, const struct oriel_kernel *kernel)
{
	struct ori_kernel_name *n = c->returned.names;

	while (n && (n->kernel != kernel || strncmp(n->name, kernel->name, sizeof(n->name) - 1)))
		n = n->next;
	return n;
}

/* Lock held.  NULL: too many kernels, or no memory; a report then has no name. */
static struct ori_kernel_name *add_kernel(struct oriel_comm *c, const struct oriel_kernel *kernel)
{
	struct ori_kernel_name *n;

	if (c->returned.count >= NAMES_MAX)
		return NULL;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->kernel = kernel;
	n->number = ++c->returned.count;
	snprintf(n->name, sizeof(n->name), "%s", kernel->name);
	n->next = c->returned.names;
	c->returned.names = n;
	return n;
}

void ori_returned_prepare(struct oriel_comm *c, const struct oriel_kernel *kernel,
			  struct ori_launch *launch)
{
	struct ori_kernel_name *n;

	memset(&launch->dev, 0, sizeof(launch->dev));
	if (!c->device->separate)
		return;
	pthread_mutex_lock(&c->lock);
	n = find_kernel(c, kernel);
	if (!n)
		n = add_kernel(c, kernel);
	launch->dev.kernel = n ? n->number : 0;
	pthread_mutex_unlock(&c->lock);
	launch->dev.report = ori_control_near(c, offsetof(struct ori_control, report));
	launch->dev.host_shift =
		(int64_t)((uint8_t *)&c->control->report - (uint8_t *)launch->dev.report);
}

void ori_returned_close(struct oriel_comm *c)
{
	struct ori_kernel_name *n;

	while ((n = c->returned.names)) {
		c->returned.names = n->next;
		free(n);
	}
}

/* ---- why ------------------------------------------------------------------------------------- */

/* The failure word of the nth window of this comm that the user has; NULL: there are fewer. */
static const uint64_t *window_failure(struct oriel_comm *c, int n, int *number)
{
	const uint64_t *word = NULL;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child; child = child->next)
		if (child->failure && !child->along && n-- == 0) {
			word = child->failure;
			*number = child->number;
			break;
		}
	pthread_mutex_unlock(&c->lock);
	return word;
}

/* Is a failed window the reason?  "window 1 has failed: rank 2 gave up waiting for rank 0" */
static int window_text(struct oriel_comm *c, int status, char *out, size_t bytes)
{
	const uint64_t *word;
	char text[128];
	int number;

	/* Control memory stays until the comm ends, so the word is read without the lock. */
	for (int n = 0; (word = window_failure(c, n, &number)); n++) {
		uint64_t failure = 0;

		if (ori_control_load(c, word, &failure) || ORIEL_FAILURE_STATUS(failure) != status)
			continue;
		ori_failure_text(failure, text, sizeof(text));
		snprintf(out, bytes, "window %d has failed: %s", number, text);
		return 1;
	}
	return 0;
}

/*
 * Why a kernel returned this status, if that is known: the comm's first failure, what the caller
 * knows (`why`), or a window's failure.  Returns 1 if the cause has been logged.  That holds for
 * `why` on the CPU, where it is the last error of the kernel's thread.
 */
static int reason_text(struct oriel_comm *c, int status, const char *why, char *out, size_t bytes)
{
	if (ori_comm_has_failed(c) && ori_comm_failed(c) == status) {
		snprintf(out, bytes, ": %s", ori_last_error_text());
		return 1;
	}
	if (why[0]) {
		snprintf(out, bytes, ": %s", why);
		return !c->device->separate;
	}
	out[0] = '\0';
	if (bytes > 2 && window_text(c, status, out + 2, bytes - 2))
		memcpy(out, ": ", 2);
	return 0;
}

/* "ORIEL_ETIMEDOUT (the deadline passed)", or the number if it is not a status of Oriel. */
static void status_text(int status, char *out, size_t bytes)
{
	if (strcmp(oriel_status_name(status), oriel_status_name(1)))
		snprintf(out, bytes, "%s (%s)", oriel_status_name(status),
			 oriel_status_text(status));
	else
		snprintf(out, bytes, "%d", status);
}

/* Sets the failure as this thread's last error.  Logs it unless its cause has been logged. */
static int tell(struct oriel_comm *c, const char *kernel, uint32_t block, int status,
		const char *why)
{
	char value[128], reason[320];
	int logged = reason_text(c, status, why, reason, sizeof(reason));

	status_text(status, value, sizeof(value));
	if (logged)
		return ori_fail_silent(status, "kernel \"%s\", block %u returned %s%s", kernel,
				       block, value, reason);
	return ori_fail(status, "kernel \"%s\", block %u returned %s%s", kernel, block, value,
			reason);
}

/* ---- what callers get ------------------------------------------------------------------------ */

int ori_returned_note(struct oriel_comm *c, const struct oriel_kernel *kernel,
		      const struct ori_launch *launch)
{
	const struct ori_outcome *o = &launch->outcome;
	int status;

	if (!o->status)
		return 0;
	status = tell(c, kernel->name, o->block, o->status, o->why);
	pthread_mutex_lock(&c->lock);
	if (!c->returned.status) {
		snprintf(c->returned.text, sizeof(c->returned.text), "%s", ori_last_error_text());
		__atomic_store_n(&c->returned.status, status, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

/* For CPU launches.  Not logged: oriel_launch() has already returned this failure. */
static int take_noted(struct oriel_comm *c)
{
	char text[sizeof(c->returned.text)];
	int status;

	/* relaxed, without the lock: in the usual case there is no failure */
	if (!__atomic_load_n(&c->returned.status, __ATOMIC_RELAXED))
		return 0;
	pthread_mutex_lock(&c->lock);
	status = c->returned.status;
	snprintf(text, sizeof(text), "%s", c->returned.text);
	__atomic_store_n(&c->returned.status, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&c->lock);
	return status ? ori_fail_silent(status, "%s", text) : 0;
}

/*
 * Takes the report and makes room for the next one.  0: there is none.  *kernel and its name stay
 * as they are if the kernel has no number.
 */
static uint64_t take_report(struct oriel_comm *c, const struct oriel_kernel **kernel, char *name,
			    size_t bytes)
{
	struct oriel_kernel_report *r = &c->control->report;
	struct ori_kernel_name *n;
	uint64_t word;

	pthread_mutex_lock(&c->lock);
	/* [RETURN2] acquire, system scope; partner [RETURN1] in ori_kernel_failed(). */
	word = __atomic_load_n(&r->first, __ATOMIC_ACQUIRE);
	if (word) {
		__atomic_store_n(&r->first, 0, __ATOMIC_RELAXED);
		/*
		 * [RETURN4] release, system scope; partner [RETURN3] in ori_kernel_failed().
		 * Publishes the 0.  A kernel fails, sees the new count and stores its report;
		 * without this order the 0 could come after that, and nobody would learn of it.
		 */
		__atomic_store_n(&r->taken, r->taken + 1, __ATOMIC_RELEASE);
		for (n = c->returned.names; n; n = n->next)
			if (n->number == ORIEL_REPORT_KERNEL(word)) {
				*kernel = n->kernel;
				snprintf(name, bytes, "%s", n->name);
			}
	}
	pthread_mutex_unlock(&c->lock);
	return word;
}

int ori_returned_take(struct oriel_comm *c)
{
	const struct oriel_kernel *kernel = NULL;
	char name[64] = "?", why[256];
	uint64_t word;

	if (!c->device->separate)
		return take_noted(c);
	/* relaxed, without the lock: usually there is no failure, and the stream has ended */
	if (!__atomic_load_n(&c->control->report.first, __ATOMIC_RELAXED))
		return 0;
	word = take_report(c, &kernel, name, sizeof(name));
	if (!word)
		return 0;
	ori_attachments_explain(c, kernel, ORIEL_REPORT_STATUS(word), why, sizeof(why));
	return tell(c, name, ORIEL_REPORT_BLOCK(word), ORIEL_REPORT_STATUS(word), why);
}
