/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/threads_meet.c - some members of a group of threads make a group, without the others.
 *
 * Owns the meetings in progress, under the lock of the group in which the members meet.  A meeting
 * that is complete or has failed is taken off the list, so the next one with the same list begins
 * afresh.  The member that leaves it last frees it.
 *
 * Called by: comm through the table of boot.h, on any thread of the ranks.
 */
#include <stdlib.h>

#include "meet.h"
#include "threads.h"

/* One call of one member. */
struct visit {
	struct thread_boot *boot;
	struct thread_group *group;
	struct ori_round *meeting;
	const char *call;
	int *world; /* member of the meeting -> rank of the first group, for messages */
	int me;
	int survivors; /* they know that the group has failed */
};

static void visit_end(struct visit *v)
{
	struct ori_round *m = v->meeting;

	ori_round_unlist(&v->group->meetings, m);
	pthread_cond_broadcast(&v->group->cond);
	if (++m->left < m->arrived)
		return;
	if (m->made)
		ori_thread_group_drop(m->made);
	ori_round_destroy(&v->group->meetings, m);
}

/* All members have come.  The last one makes the group; the meeting holds a reference to it. */
static int make_group(struct visit *v, const int *members)
{
	struct thread_group *made;
	int err = ori_thread_group_create(v->meeting->n, v->group->late_ns, members,
					  v->group->world, &made);

	if (err)
		return err;
	made->refs = 1;
	v->meeting->made = made;
	return 0;
}

/* Lock held.  Returns 0, or why no more members can come, with the text. */
static int broken(const struct visit *v, char *text)
{
	const struct ori_round *m = v->meeting;
	char name[64];

	if (v->group->failed && !v->survivors) {
		snprintf(text, ORI_BOOT_WHY_BYTES, "%s", v->group->why);
		return v->group->failed;
	}
	for (int i = 0; i < m->n; i++) {
		if (m->have[i] || !v->group->gone[m->members[i]])
			continue;
		ori_boot_rank_text(v->world, i, name, sizeof(name));
		snprintf(text, ORI_BOOT_WHY_BYTES, "%s left the group", name);
		return ORIEL_EPEER;
	}
	return 0;
}

static void warn_late(const struct visit *v)
{
	struct ori_round_report report;
	char text[ORI_BOOT_WHY_BYTES];

	v->meeting->late_told = 1;
	ori_round_missing(v->meeting, &report);
	ori_round_text(&report, v->world, text, sizeof(text));
	ori_log(ORI_LOG_WARN, "%s is late: %s", v->call, text);
}

/* Lock held.  Waits until the group is made or cannot be made. */
static int await(const struct visit *v, char *text)
{
	struct ori_round *m = v->meeting;
	int err = 0;

	while (!m->made && !m->failed.status && !(err = broken(v, text))) {
		uint64_t now = ori_now_ns(), until = m->deadline_ns;
		struct timespec when;

		if (now >= m->deadline_ns) {
			ori_round_expire(m, ORIEL_ETIMEDOUT);
			break;
		}
		if (!m->late_told && now >= m->late_ns)
			warn_late(v);
		if (!m->late_told && m->late_ns < until)
			until = m->late_ns;
		ori_boot_timespec(until, &when);
		pthread_cond_timedwait(&v->group->cond, &v->group->lock, &when);
	}
	if (err || !m->failed.status)
		return err;
	ori_round_text(&m->failed, v->world, text, ORI_BOOT_WHY_BYTES);
	return m->failed.status;
}

/* Lock held.  Comes to the meeting, waits for the others, and takes this member's boot. */
static int visit(struct visit *v, const int *members, uint64_t timeout_ns, char *text,
		 struct oriel_boot **sub)
{
	struct ori_round *m = v->meeting;
	int err = 0;

	ori_round_add(m, (uint32_t)v->me, (uint32_t)v->boot->base.rank, m->n, NULL, 0, timeout_ns,
		      v->group->late_ns);
	if (!broken(v, text))
		ori_meeting_clash(v->group->meetings, m);
	pthread_cond_broadcast(&v->group->cond);
	if (m->arrived == m->n)
		err = make_group(v, members);
	if (err) {
		/* The others must not wait for a group that nobody makes. */
		m->failed.kind = ORI_GATHER_NOMEM;
		m->failed.status = err;
	}
	err = await(v, text);
	if (!err)
		err = ori_thread_boot_create(m->made, v->boot->base.ops, v->me, sub);
	if (!err)
		(*sub)->waited_ns = ori_now_ns() - m->start_ns;
	visit_end(v);
	return err;
}

static int enter(struct visit *v, const int *members, const uint32_t *list, int n, uint32_t tag,
		 uint64_t timeout_ns, struct oriel_boot **sub)
{
	struct thread_group *g = v->group;
	char text[ORI_BOOT_WHY_BYTES] = "no memory";
	int err = ORIEL_ENOMEM;

	pthread_mutex_lock(&g->lock);
	if (ori_meeting_of(g->meetings, tag, (uint32_t)v->boot->base.rank)) {
		snprintf(text, sizeof(text), "another thread of rank %d is in a call with tag %u",
			 v->boot->base.rank, tag);
		err = ORIEL_EBUSY;
		goto out;
	}
	v->meeting = ori_meeting_find(g->meetings, tag, list, n);
	if (!v->meeting)
		v->meeting = ori_meeting_create(&g->meetings, tag, list, n, 0, (uint32_t)v->me);
	if (v->meeting)
		err = visit(v, members, timeout_ns, text, sub);
out:
	pthread_mutex_unlock(&g->lock);
	return err ? ori_fail(err, "%s: %s", v->call, text) : 0;
}

/*
 * Its members that wait leave by themselves.  Until they do, the meeting must not exclude another
 * one, which the same members make without that rank.
 */
void ori_thread_meet_gone(struct thread_group *g, int rank)
{
	for (struct ori_round *m = g->meetings, *after; m; m = after) {
		after = m->next;
		if (ori_meeting_index(m, (uint32_t)rank) >= 0)
			ori_round_unlist(&g->meetings, m);
	}
}

int ori_thread_subset(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
		      const char *call, uint64_t timeout_ns, struct oriel_boot **sub)
{
	struct thread_boot *b = (struct thread_boot *)boot;
	struct visit v = {
		.boot = b, .group = b->group, .call = call, .survivors = tag == ORI_BOOT_SURVIVORS
	};
	uint32_t *list = NULL;
	int err = ori_boot_members_check(boot, members, n, &v.me);

	if (err)
		return err;
	v.world = calloc((size_t)n, sizeof(*v.world));
	list = calloc((size_t)n, sizeof(*list));
	if (!v.world || !list) {
		err = ori_fail(ORIEL_ENOMEM, "%s: no memory for %d ranks", call, n);
		goto out;
	}
	for (int i = 0; i < n; i++) {
		v.world[i] = b->group->world[members[i]];
		list[i] = (uint32_t)members[i];
	}
	err = enter(&v, members, list, n, tag, timeout_ns, sub);
out:
	free(v.world);
	free(list);
	return err;
}
