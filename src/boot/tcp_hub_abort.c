/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub_abort.c - aborts by ranks of the hub's own process.
 *
 * Such a rank waits until its abort has left the process.  begin and end run on the rank's thread,
 * the rest on the hub's own.
 */
#include <errno.h>
#include <unistd.h>

#include "tcp_hub.h"

void ori_tcp_hub_abort_begin(struct tcp_hub *hub, struct tcp_abort *a, uint64_t until_ns)
{
	*a = (struct tcp_abort){ .until_ns = until_ns };
	if (!hub || hub->pid != getpid())
		return;
	ori_tcp_lock();
	a->number = ++hub->last_abort;
	a->next = hub->aborts;
	hub->aborts = a;
	ori_tcp_unlock();
}

void ori_tcp_hub_abort_end(struct tcp_hub *hub, struct tcp_abort *a, int failed)
{
	struct tcp_abort **at;
	struct timespec when;
	int err = 0;

	if (!a->number)
		return;
	ori_boot_timespec(a->until_ns, &when);
	ori_tcp_lock();
	while (!failed && !a->sent && !hub->ended && err != ETIMEDOUT)
		err = ori_tcp_wait(&hub->cond, &when);
	for (at = &hub->aborts; *at != a; at = &(*at)->next)
		;
	*at = a->next;
	ori_tcp_unlock();
}

void ori_hub_abort_taken(struct tcp_hub *hub, uint64_t number)
{
	ori_tcp_lock();
	for (struct tcp_abort *a = hub->aborts; a; a = a->next)
		a->taken |= a->number == number;
	ori_tcp_unlock();
	hub->abort_taken = 1;
}

/* What is queued for ranks of this process does not count: they end with the hub. */
void ori_hub_aborts_sent(struct tcp_hub *hub)
{
	if (!hub->abort_taken)
		return;
	for (const struct hub_conn *c = hub->conns; c; c = c->next)
		if (c->out && !c->broken && c->state == CONN_LIVE && !c->has_hub)
			return;
	ori_tcp_lock();
	for (struct tcp_abort *a = hub->aborts; a; a = a->next)
		a->sent |= a->taken;
	pthread_cond_broadcast(&hub->cond);
	ori_tcp_unlock();
	hub->abort_taken = 0;
}
