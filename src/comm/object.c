/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/object.c - the comm as an object: is the handle alive, has it failed, what stands on it.
 *
 * The ground floor of src/comm.  It calls no other file of the folder, so all of them may call it.
 * Owns the lists of children (windows, buffers) and attachments.  Any thread; takes the comm's
 * lock.
 */
#include "control.h"
#include "object.h"

int ori_comm_check(struct oriel_comm *c, const char *call)
{
	return ori_live_check(c, ORI_LIVE_COMM, call);
}

int ori_comm_check_rank(struct oriel_comm *c, int rank, const char *call)
{
	int err = ori_comm_check(c, call);

	if (!err && (rank < 0 || rank >= c->nranks))
		err = ori_fail(ORIEL_ERANGE, "%s: rank %d does not exist (ranks are 0 to %d)", call,
			       rank, c->nranks - 1);
	return err;
}

/* ---- failure words -------------------------------------------------------------------------- */

int ori_failure_set(uint64_t *word, uint64_t failure)
{
	uint64_t none = 0;

	/*
	 * [COMM1] release, system scope; partner [COMM2] in ori_comm_failure().  Publishes all that
	 * the setting rank did before: its stores to peers' memory and the text of the failure.
	 * Without it: A stores to B's window and gives up; B sees the word and returns to its user;
	 * a store of A appears in B's buffer after that.  System scope, because mapped peers of
	 * other processes set the word.  Waits of device code read it relaxed: they only end.
	 */
	return __atomic_compare_exchange_n(word, &none, failure, 0, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

uint64_t ori_comm_failure(const struct oriel_comm *c)
{
	/* [COMM2] acquire, system scope; partner [COMM1] in ori_failure_set(). */
	return __atomic_load_n(&c->control->failure, __ATOMIC_ACQUIRE);
}

int ori_comm_has_failed(const struct oriel_comm *c)
{
	return ori_comm_failure(c) != 0;
}

/* ---- children and attachments --------------------------------------------------------------- */

void ori_child_add(struct oriel_comm *c, struct ori_child *child)
{
	pthread_mutex_lock(&c->lock);
	child->next = c->children;
	c->children = child;
	pthread_mutex_unlock(&c->lock);
}

void ori_child_unlink(struct oriel_comm *c, struct ori_child *child)
{
	for (struct ori_child **at = &c->children; *at; at = &(*at)->next)
		if (*at == child) {
			*at = child->next;
			break;
		}
}

void ori_child_remove(struct oriel_comm *c, struct ori_child *child)
{
	pthread_mutex_lock(&c->lock);
	ori_child_unlink(c, child);
	pthread_mutex_unlock(&c->lock);
}

void ori_attachment_add(struct oriel_comm *c, struct ori_attachment *a)
{
	pthread_mutex_lock(&c->lock);
	a->next = c->attachments;
	/*
	 * [ATTACH1] release, process scope; partner [ATTACH2] in first_attachment().  Publishes the
	 * attachment.  Without it a thread could find it before its members are set.
	 */
	__atomic_store_n(&c->attachments, a, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&c->lock);
}

/*
 * Nothing is taken off the list before the comm goes, so it may be walked without the lock.  Short
 * collectives do that in each call.
 */
static struct ori_attachment *first_attachment(struct oriel_comm *c)
{
	/* [ATTACH2] acquire, process scope; partner [ATTACH1] in ori_attachment_add(). */
	return __atomic_load_n(&c->attachments, __ATOMIC_ACQUIRE);
}

struct ori_attachment *ori_attachment_find(struct oriel_comm *c,
					   void (*destroy)(struct ori_attachment *))
{
	struct ori_attachment *a = first_attachment(c);

	while (a && a->destroy != destroy)
		a = a->next;
	return a;
}

void ori_attachments_reap(struct oriel_comm *c)
{
	for (struct ori_attachment *a = first_attachment(c); a; a = a->next)
		if (a->reap)
			a->reap(a);
}

void ori_attachments_forget(struct oriel_comm *c, const void *owner)
{
	for (struct ori_attachment *a = first_attachment(c); a; a = a->next)
		a->forget(a, owner);
}

void ori_attachments_explain(struct oriel_comm *c, const struct oriel_kernel *kernel, int status,
			     char *out, size_t bytes)
{
	out[0] = '\0';
	for (struct ori_attachment *a = first_attachment(c); a; a = a->next)
		if (a->explain)
			a->explain(a, kernel, status, out, bytes);
}
