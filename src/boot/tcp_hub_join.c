/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub_join.c - decides which ranks may join, and knows which are missing.
 *
 * Owns the rules of the hello.  The secret is compared before any number of the hello is used.  On
 * the hub's thread.
 */
#include <stdlib.h>
#include <string.h>

#include "tcp_hub.h"

static void missing_ranks(const struct tcp_hub *hub, uint64_t since_ns, struct ori_round_report *r)
{
	memset(r, 0, sizeof(*r));
	r->kind = ORI_GATHER_MISSING;
	r->ns = ori_now_ns() - since_ns;
	for (int i = 0; i < hub->nranks; i++) {
		if (hub->slots[i].state == SLOT_WAITING)
			continue;
		if (r->count < ORI_GATHER_NAMED)
			r->ranks[r->count++] = (uint32_t)i;
		r->total++;
	}
}

/*
 * The first rank to come sets the number of ranks.  If all waiting ranks have left again, the next
 * one sets it anew.
 */
static int set_size(struct tcp_hub *hub, uint32_t nranks)
{
	struct hub_slot *slots;
	uint32_t *left;

	if (hub->complete || hub->waiting)
		return 0;
	slots = calloc(nranks, sizeof(*slots));
	left = calloc(nranks, sizeof(*left));
	if (!slots || !left) {
		free(slots);
		free(left);
		return ORIEL_ENOMEM;
	}
	free(hub->slots);
	free(hub->left);
	hub->slots = slots;
	hub->left = left;
	hub->nranks = (int)nranks;
	return 0;
}

static int refuse_by_slot(struct hub_slot *slot, uint32_t rank, char *text, size_t bytes)
{
	switch (slot->state) {
	case SLOT_EMPTY:
		return 0;
	case SLOT_LEFT:
		/* the rank comes again while others still end: it must try once more */
		snprintf(text, bytes, "the previous job is still ending");
		return ORIEL_EBUSY;
	case SLOT_DEAD:
		snprintf(text, bytes, "rank %u died and cannot come back", rank);
		return ORIEL_EPEER;
	default:
		snprintf(text, bytes, "rank %u is already there: two processes have that rank",
			 rank);
		return ORIEL_EINVAL;
	}
}

/* Returns 0, or the status and text of a refusal. */
static int judge(struct tcp_hub *hub, const struct tcp_hello *hello, char *text, size_t bytes)
{
	if (!ori_tcp_secret_equal(hello->secret, hub->place.secret)) {
		snprintf(text, bytes, "the rendezvous at %s has another secret", hub->place.name);
		return ORIEL_EAUTH;
	}
	if (hello->version != TCP_VERSION) {
		snprintf(text, bytes, "protocol version %u, the rendezvous has %u", hello->version,
			 TCP_VERSION);
		return ORIEL_EPROTO;
	}
	if (hub->failed) {
		snprintf(text, bytes, "%s", hub->why);
		return ORIEL_ETIMEDOUT;
	}
	if (hello->nranks < 1 || hello->nranks > ORI_BOOT_RANKS_MAX ||
	    set_size(hub, hello->nranks)) {
		snprintf(text, bytes, "a job of %u ranks is not possible", hello->nranks);
		return ORIEL_ERANGE;
	}
	if (hello->nranks != (uint32_t)hub->nranks) {
		snprintf(text, bytes, "rank %u says there are %u ranks, others say %d", hello->rank,
			 hello->nranks, hub->nranks);
		return ORIEL_EMISMATCH;
	}
	if (hello->rank >= hello->nranks) {
		snprintf(text, bytes, "rank %u is not within 0 to %d", hello->rank,
			 hub->nranks - 1);
		return ORIEL_ERANGE;
	}
	return refuse_by_slot(&hub->slots[hello->rank], hello->rank, text, bytes);
}

static void welcome_all(struct tcp_hub *hub)
{
	int32_t hub_rank = -1;

	for (int i = hub->nranks - 1; i >= 0; i--) {
		if (hub->slots[i].conn->has_hub)
			hub_rank = i;
	}
	ori_tcp_lock();
	hub->complete = 1;
	ori_tcp_unlock();
	ori_hub_tree_plan(hub);
	for (int i = 0; i < hub->nranks; i++) {
		struct hub_conn *c = hub->slots[i].conn;
		struct tcp_welcome welcome = { .hub_rank = hub_rank };

		hub->slots[i].state = SLOT_LIVE;
		c->state = CONN_LIVE;
		ori_hub_tree_welcome(hub, i, &welcome);
		ori_hub_send(c, TCP_WELCOME, 0, 0, i, &welcome, sizeof(welcome));
	}
	hub->live = hub->nranks;
	hub->waiting = 0;
}

void ori_hub_hello(struct tcp_hub *hub, struct hub_conn *c)
{
	const struct tcp_hello *hello = &c->in.hello;
	char text[ORI_BOOT_WHY_BYTES];
	uint64_t now = ori_now_ns();
	int status;

	if (hello->magic != TCP_MAGIC) {
		ori_hub_warn(hub, "a connection that does not speak this protocol");
		c->broken = 1;
		return;
	}
	hub->strangers--;
	status = judge(hub, hello, text, sizeof(text));
	if (status) {
		if (status == ORIEL_EAUTH)
			ori_hub_warn(hub, "a connection with a wrong secret");
		ori_hub_refuse(c, status, text);
		return;
	}
	c->state = CONN_WAITING;
	c->rank = (int)hello->rank;
	c->has_hub = hello->has_hub != 0;
	c->relay_port = hello->relay_port <= 65535 ? (uint16_t)hello->relay_port : 0;
	c->since_ns = now;
	c->until_ns = hello->timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + hello->timeout_ns;
	c->late_ns = hello->late_ns > UINT64_MAX - now ? UINT64_MAX : now + hello->late_ns;
	c->in_got = 0;
	hub->slots[c->rank].state = SLOT_WAITING;
	hub->slots[c->rank].conn = c;
	if (++hub->waiting == hub->nranks)
		welcome_all(hub);
	else
		ori_hub_send(c, TCP_HEARD, 0, 0, c->rank, NULL, 0);
}

/* One rank's deadline has passed: tells all waiting ranks which ranks never came. */
static void give_up(struct tcp_hub *hub, const struct hub_conn *c)
{
	struct ori_round_report report;
	char names[ORI_BOOT_WHY_BYTES - 64], reason[192], full[224] = "";

	missing_ranks(hub, c->since_ns, &report);
	ori_round_names(&report, NULL, names, sizeof(names));
	if (hub->full)
		snprintf(full, sizeof(full), ": at the rendezvous, %s",
			 ori_errno_text(hub->full, reason, sizeof(reason)));
	snprintf(hub->why, sizeof(hub->why), "%s never came (waited %.1f s)%s", names,
		 (double)report.ns / 1e9, full);
	hub->failed = 1;
	/* those of the hub's own process last, as in ori_hub_send_others() */
	for (int own = 0; own <= 1; own++)
		for (int i = 0; i < hub->nranks; i++) {
			struct hub_slot *slot = &hub->slots[i];

			if (slot->state != SLOT_WAITING || slot->conn->has_hub != own)
				continue;
			ori_hub_refuse(slot->conn, ORIEL_ETIMEDOUT, hub->why);
			slot->state = SLOT_EMPTY;
			slot->conn = NULL;
		}
	hub->waiting = 0;
	hub->idle_ns = ori_now_ns();
}

void ori_hub_join_timer(struct tcp_hub *hub, struct hub_conn *c, uint64_t now)
{
	struct ori_round_report report;

	if (now >= c->until_ns) {
		give_up(hub, c);
	} else if (!c->late_told && now >= c->late_ns) {
		c->late_told = 1;
		missing_ranks(hub, c->since_ns, &report);
		ori_hub_send(c, TCP_LATE, 0, 0, 0, &report, sizeof(report));
	}
}
