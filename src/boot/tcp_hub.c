/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub.c - the life of a hub: its socket, its thread's loop, and who waits for its end.
 *
 * Owns the list of this process's hubs.  A hub ends when all ranks have left or died, when no rank
 * came before the timeout, or when the last rank of its process releases it.
 *
 * Threads: start, find, hold and release on the ranks' threads; everything else on the hub's own.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tcp_hub.h"

#define START_NS (5 * ORI_NS_PER_S)
#define LINGER_NS ORI_NS_PER_S /* for the last messages of a hub that is being stopped */

/* under ori_tcp_lock() */
static struct tcp_hub *hubs;
static struct tcp_hub *ended_hubs; /* ended while nobody waited: to be joined and freed */

/* ---- the thread ----------------------------------------------------------------------------- */

/* The descriptors that the loop polls, kept between turns. */
struct poll_set {
	struct pollfd *fds;
	struct hub_conn **conns; /* of fds[2 + i] */
	size_t room, count;
};

static int poll_set_grow(struct poll_set *set, size_t room)
{
	struct pollfd *fds = realloc(set->fds, (room + 2) * sizeof(*fds));
	struct hub_conn **conns;

	if (!fds)
		return -1;
	set->fds = fds;
	conns = realloc(set->conns, room * sizeof(struct hub_conn *));
	if (!conns)
		return -1;
	set->conns = conns;
	set->room = room;
	return 0;
}

/* Without memory, some connections are not polled in this turn.  They are served later. */
static void poll_set_fill(struct poll_set *set, struct tcp_hub *hub, uint64_t now)
{
	set->count = 0;
	set->fds[0] = (struct pollfd){ .fd = hub->wake_fd, .events = POLLIN };
	set->fds[1] = (struct pollfd){ .fd = hub->listen_fd, .events = POLLIN };
	if (now < hub->accept_ns || hub->strangers >= HUB_STRANGERS_MAX)
		set->fds[1].fd = -1;
	for (struct hub_conn *c = hub->conns; c; c = c->next) {
		struct pollfd *p;

		if (set->count == set->room && poll_set_grow(set, set->room * 2))
			return;
		p = &set->fds[2 + set->count];
		p->fd = c->fd;
		p->events = (short)((c->state != CONN_ENDING ? POLLIN : 0) |
				    (c->out ? POLLOUT : 0));
		p->revents = 0;
		set->conns[set->count++] = c;
	}
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Runs all timers.  Returns the time of the next one. */
static uint64_t run_timers(struct tcp_hub *hub, uint64_t now)
{
	uint64_t next = ori_hub_round_timer(hub, hub->gathers, now);

	next = sooner(next, ori_hub_meet_timer(hub, now));

	for (struct hub_conn *c = hub->conns; c; c = c->next) {
		ori_hub_conn_timer(hub, c, now);
		if (c->state == CONN_LIVE)
			continue;
		next = sooner(next, c->until_ns);
		if (c->state == CONN_WAITING && !c->late_told)
			next = sooner(next, c->late_ns);
	}
	if (now < hub->accept_ns)
		next = sooner(next, hub->accept_ns);
	if (!hub->complete && !hub->waiting && hub->timeout_ns < UINT64_MAX - hub->idle_ns)
		next = sooner(next, hub->idle_ns + hub->timeout_ns);
	return next;
}

static int has_output(const struct tcp_hub *hub)
{
	for (const struct hub_conn *c = hub->conns; c; c = c->next) {
		if (c->out)
			return 1;
	}
	return 0;
}

static int must_stop(struct tcp_hub *hub)
{
	int stop;

	ori_tcp_lock();
	stop = hub->stop;
	ori_tcp_unlock();
	return stop;
}

static int is_over(struct tcp_hub *hub, uint64_t now)
{
	if (must_stop(hub)) {
		if (!hub->stop_ns)
			hub->stop_ns = now + LINGER_NS;
		return !has_output(hub) || now >= hub->stop_ns;
	}
	if (hub->complete)
		return !hub->live && !has_output(hub);
	/* `now` is older than the last poll, and the last rank may have left since. */
	return !hub->waiting && now >= hub->idle_ns && now - hub->idle_ns >= hub->timeout_ns;
}

static void poll_once(struct tcp_hub *hub, struct poll_set *set, uint64_t next, uint64_t now)
{
	uint64_t ms = next <= now ? 0 : (next - now) / 1000000 + 1, wakes;
	/*
	 * If a process is stopped and continued, its poll takes longer by that time.  This bounds
	 * it.
	 */
	uint64_t most = next == UINT64_MAX ? 60000 : 500;
	int n;

	poll_set_fill(set, hub, now);
	ori_tcp_busy_end();
	n = poll(set->fds, (nfds_t)(2 + set->count), (int)(ms > most ? most : ms));
	ori_tcp_busy_begin();
	if (n <= 0)
		return;
	if (set->fds[0].revents && read(hub->wake_fd, &wakes, sizeof(wakes)) < 0)
		return; /* taken already */
	for (size_t i = 0; i < set->count; i++) {
		struct hub_conn *c = set->conns[i];
		short got = set->fds[2 + i].revents;

		if (got & POLLOUT && !c->broken)
			ori_hub_conn_flush(c);
		if (got & (POLLIN | POLLHUP | POLLERR) && !c->broken) {
			if (c->state == CONN_ENDING)
				c->broken = 1;
			else
				ori_hub_conn_read(hub, c);
		}
	}
	if (set->fds[1].revents)
		ori_hub_accept(hub);
}

static void hub_free(struct tcp_hub *hub)
{
	close(hub->wake_fd);
	pthread_cond_destroy(&hub->cond);
	free(hub);
}

static void unlist(struct tcp_hub *hub)
{
	struct tcp_hub **at = &hubs;

	while (*at && *at != hub)
		at = &(*at)->next;
	if (*at)
		*at = hub->next;
}

void ori_tcp_hub_reap(void)
{
	struct tcp_hub *list;

	ori_tcp_lock();
	list = ended_hubs;
	ended_hubs = NULL;
	ori_tcp_unlock();
	while (list) {
		struct tcp_hub *hub = list;

		list = hub->next;
		if (hub->pid == getpid())
			pthread_join(hub->thread, NULL);
		hub_free(hub);
	}
}

/* A holder joins the thread and frees the hub.  Without a holder, the next start or fork does. */
static void hub_end(struct tcp_hub *hub)
{
	ori_hub_close_all(hub);
	ori_tcp_close(hub->listen_fd);
	ori_tcp_lock();
	unlist(hub);
	if (!hub->holds) {
		hub->next = ended_hubs;
		ended_hubs = hub;
	}
	hub->ready = 1;
	hub->ended = 1;
	pthread_cond_broadcast(&hub->cond);
	ori_tcp_unlock();
}

static void hub_ready(struct tcp_hub *hub)
{
	ori_tcp_lock();
	hub->ready = 1;
	pthread_cond_broadcast(&hub->cond);
	ori_tcp_unlock();
}

static void *hub_main(void *arg)
{
	struct tcp_hub *hub = arg;
	struct poll_set set = { 0 };
	uint64_t next, now = ori_now_ns();

	ori_tcp_busy_begin();
	hub->idle_ns = now;
	if (poll_set_grow(&set, 16)) {
		ori_log(ORI_LOG_ERROR, "rendezvous at %s: no memory", hub->place.name);
	} else {
		hub_ready(hub);
		for (;;) {
			next = run_timers(hub, now);
			ori_hub_sweep(hub);
			if (is_over(hub, now))
				break;
			/*
			 * Timers use the time before the poll.  Messages that came while this
			 * process was stopped are taken first.  So a deadline passes only for
			 * messages that are still missing.
			 */
			now = ori_now_ns();
			poll_once(hub, &set, hub->stop_ns ? hub->stop_ns : next, now);
			ori_hub_tell_left(hub);
			ori_hub_sweep(hub);
			ori_hub_aborts_sent(hub);
		}
	}
	free(set.fds);
	free(set.conns);
	hub_end(hub);
	ori_tcp_busy_end();
	return NULL;
}

/* ---- start ---------------------------------------------------------------------------------- */

static int listen_at(struct tcp_place *place)
{
	int fd = ori_tcp_socket(place->addr.ss_family), on = 1, err = 0;

	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&place->addr, place->addr_bytes) || listen(fd, 1024))
		err = -errno;
	if (err) {
		ori_tcp_close(fd);
		return err;
	}
	return fd;
}

/* The address where it really listens, because the port may be 0. */
static int open_socket(struct tcp_place *place, int listen_fd)
{
	int fd = listen_fd > 0 ? ori_tcp_adopt(listen_fd) : listen_at(place);
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);

	if (fd < 0)
		return fd;
	if (getsockname(fd, (struct sockaddr *)&addr, &bytes)) {
		int err = -errno;

		ori_tcp_close(fd);
		return err;
	}
	if (listen_fd <= 0) {
		place->addr = addr;
		place->addr_bytes = bytes;
	}
	ori_tcp_place_name(place);
	return fd;
}

/*
 * Lock held.  fork() cannot wait for a thread that is still starting, so this waits for its start,
 * some microseconds.
 */
static int start_thread(struct tcp_hub *hub)
{
	struct timespec when;
	int err;

	err = ori_thread_start(&hub->thread, hub_main, hub);
	if (err)
		return err;
	ori_boot_timespec(ori_deadline_ns(START_NS), &when);
	while (!hub->ready && err != ETIMEDOUT)
		err = ori_tcp_wait(&hub->cond, &when);
	return 0;
}

/* Two hubs of a launcher's job in one process would accept each other's ranks. */
static int env_hub_exists(void)
{
	int found = 0;

	ori_tcp_lock();
	for (struct tcp_hub *hub = hubs; hub; hub = hub->next)
		found |= !hub->keep && hub->pid == getpid();
	ori_tcp_unlock();
	return found;
}

int ori_tcp_hub_start(struct tcp_place *place, int listen_fd, int keep, uint64_t timeout_ns,
		      struct tcp_hub **out)
{
	struct ori_config config;
	struct tcp_hub *hub;
	int err = ori_config_read(&config);

	if (err)
		return err;
	if (!keep && env_hub_exists())
		return ori_fail(ORIEL_EBUSY,
				"the boot of this job is still in use in this process");
	ori_tcp_hub_reap();
	ori_tcp_before_fork(ori_tcp_hub_reap);
	hub = calloc(1, sizeof(*hub));
	if (!hub)
		return ori_fail(ORIEL_ENOMEM, "no memory for the rendezvous");
	hub->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (hub->wake_fd < 0) {
		err = ori_fail_errno(errno, "rendezvous: eventfd");
		goto err_hub;
	}
	err = ori_boot_cond_init(&hub->cond);
	if (err)
		goto err_wake;
	hub->listen_fd = open_socket(place, listen_fd);
	if (hub->listen_fd < 0) {
		err = ori_fail_errno(-hub->listen_fd, "cannot listen at %s", place->name);
		goto err_cond;
	}
	hub->place = *place;
	hub->tree_mode = (enum ori_mode)config.boot_tree;
	hub->pid = getpid();
	hub->keep = keep;
	hub->holds = !keep;
	hub->timeout_ns = timeout_ns;
	ori_tcp_lock();
	hub->next = hubs;
	hubs = hub;
	err = start_thread(hub);
	if (err)
		unlist(hub);
	ori_tcp_unlock();
	if (err) {
		err = ori_fail_errno(err, "cannot start the rendezvous thread");
		goto err_listen;
	}
	*out = hub;
	return 0;

err_listen:
	ori_tcp_close(hub->listen_fd);
err_cond:
	pthread_cond_destroy(&hub->cond);
err_wake:
	close(hub->wake_fd);
err_hub:
	free(hub);
	return err;
}

/* ---- holders -------------------------------------------------------------------------------- */

struct tcp_hub *ori_tcp_hub_find(const struct tcp_place *place)
{
	struct tcp_hub *hub;

	ori_tcp_lock();
	for (hub = hubs; hub; hub = hub->next) {
		/*
		 * A complete hub accepts no more ranks, and its last holder may be about to free
		 * it.
		 */
		if (hub->pid == getpid() && !hub->complete && !hub->ended &&
		    ori_tcp_secret_equal(hub->place.secret, place->secret) &&
		    !strcmp(hub->place.name, place->name))
			break;
	}
	if (hub)
		hub->holds++;
	ori_tcp_unlock();
	return hub;
}

/* Lock held.  Returns 1 if the thread has ended within the time. */
static int wait_ended(struct tcp_hub *hub, uint64_t timeout_ns)
{
	struct timespec when;
	int err = 0;

	ori_boot_timespec(ori_deadline_ns(timeout_ns), &when);
	while (!hub->ended && err != ETIMEDOUT)
		err = ori_tcp_wait(&hub->cond, &when);
	return hub->ended;
}

void ori_tcp_hub_release(struct tcp_hub *hub, uint64_t timeout_ns)
{
	uint64_t one = 1;

	if (!hub || hub->pid != getpid())
		return;
	ori_tcp_lock();
	/*
	 * Ranks with the id may still come, from this process or others.  The hub ends by itself.
	 */
	if (hub->holds > 1 || (hub->keep && !hub->complete && !hub->ended)) {
		hub->holds--;
		ori_tcp_unlock();
		return;
	}
	if (!wait_ended(hub, timeout_ns)) {
		if (timeout_ns)
			ori_log(ORI_LOG_WARN, "rendezvous at %s: closed while ranks were in it",
				hub->place.name);
		hub->stop = 1;
		if (write(hub->wake_fd, &one, sizeof(one)) < 0)
			ori_log(ORI_LOG_DEBUG,
				"rendezvous: cannot wake its thread; it ends at its next timer");
	}
	ori_tcp_unlock();
	pthread_join(hub->thread, NULL);
	hub_free(hub);
}
