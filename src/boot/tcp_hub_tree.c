/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub_tree.c - the hub's side of the tree that distributes large results.
 *
 * With n ranks a result is n records, and without a tree the hub sends it n times.  With the tree
 * it sends the result to TCP_FANOUT hosts, and each of those forwards it to as many.  On each host
 * the lowest rank gets the result and forwards it to the others.  So each host gets it once over
 * the network.
 *
 * The tree is used when every rank has reported that its link is up, and as long as no rank has
 * left.  Where links cannot be made (a firewall between hosts), the hub sends results to each rank.
 *
 * Owns the plan: the parent of each rank.  On the hub's thread.
 */
#include <stdlib.h>
#include <string.h>

#include "tcp_hub.h"

#define TREE_RANKS 32          /* the tree pays off from here on */
#define TREE_BYTES (64u << 10) /* of a result */

/* A rank and its address, to sort ranks by host. */
struct place {
	uint16_t family;
	unsigned char addr[16];
	int rank;
};

static int compare_hosts(const struct place *a, const struct place *b)
{
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return memcmp(a->addr, b->addr, sizeof(a->addr));
}

static int compare_places(const void *x, const void *y)
{
	const struct place *a = x, *b = y;
	int hosts = compare_hosts(a, b);

	return hosts ? hosts : a->rank - b->rank;
}

static int find_place(const struct tcp_hub *hub, int rank, struct place *p)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);

	p->rank = rank;
	if (getpeername(hub->slots[rank].conn->fd, (struct sockaddr *)&addr, &bytes))
		return -1;
	return ori_tcp_addr_pack(&addr, &p->family, p->addr);
}

static void set_parent(struct tcp_hub *hub, int rank, int parent)
{
	hub->slots[rank].parent = parent;
	if (parent < 0)
		return;
	hub->slots[parent].children++;
	hub->links_wanted++;
}

/*
 * Other hosts cannot connect to a loopback address.  The parent of such a host is the hub, and it
 * has no children on other hosts.
 */
static int is_loopback(const struct place *p)
{
	struct sockaddr_storage addr;
	socklen_t bytes;

	return !ori_tcp_addr_unpack(p->family, 0, p->addr, &addr, &bytes) &&
	       ori_tcp_is_loopback(&addr);
}

/* `places` is sorted: the ranks of a host are neighbours, and the first of them is its leader. */
static int plan_hosts(struct tcp_hub *hub, const struct place *places)
{
	int *leaders = malloc((size_t)hub->nranks * sizeof(*leaders)), count = 0, hosts = 0;

	if (!leaders)
		return 0;
	for (int i = 0, first = 0; i < hub->nranks; i++) {
		if (i && !compare_hosts(&places[i], &places[i - 1])) {
			set_parent(hub, places[i].rank,
				   places[first + (i - first - 1) / TCP_FANOUT].rank);
			continue;
		}
		first = i;
		hosts++;
		if (is_loopback(&places[i])) {
			set_parent(hub, places[i].rank, -1);
			continue;
		}
		leaders[count] = places[i].rank;
		set_parent(hub, places[i].rank,
			   count < TCP_FANOUT ? -1 : leaders[count / TCP_FANOUT - 1]);
		count++;
	}
	free(leaders);
	return hosts;
}

void ori_hub_tree_plan(struct tcp_hub *hub)
{
	struct place *places;
	int hosts, known = 1;

	for (int i = 0; i < hub->nranks; i++)
		hub->slots[i].parent = -1;
	if (hub->tree_mode == ORI_MODE_OFF || hub->nranks < TREE_RANKS)
		return;
	places = calloc((size_t)hub->nranks, sizeof(*places));
	for (int i = 0; places && i < hub->nranks; i++)
		known &= hub->slots[i].conn->relay_port && !find_place(hub, i, &places[i]);
	if (places && known) {
		qsort(places, (size_t)hub->nranks, sizeof(*places), compare_places);
		hosts = plan_hosts(hub, places);
		/*
		 * On one host the tree sends as many bytes over longer paths.  Measured: it does
		 * not pay off.
		 */
		hub->tree = hosts > 1 || (hosts == 1 && hub->tree_mode == ORI_MODE_ON);
	}
	free(places);
}

void ori_hub_tree_welcome(const struct tcp_hub *hub, int rank, struct tcp_welcome *w)
{
	const struct hub_slot *slot = &hub->slots[rank];
	struct place p;

	w->parent = -1;
	if (!hub->tree)
		return;
	w->children = slot->children;
	if (slot->parent < 0 || find_place(hub, slot->parent, &p))
		return; /* without this link the tree is never complete, so it is not used */
	w->parent = slot->parent;
	w->port = hub->slots[slot->parent].conn->relay_port;
	w->family = p.family;
	memcpy(w->addr, p.addr, sizeof(w->addr));
}

void ori_hub_linked(struct tcp_hub *hub, struct hub_conn *c)
{
	struct hub_slot *slot = &hub->slots[c->rank];

	if (!hub->tree || hub->links < 0 || slot->parent < 0)
		return;
	if (!c->in.header.seq)
		hub->links = -1;
	else if (!slot->linked++)
		hub->links++;
}

static int is_whole(const struct tcp_hub *hub)
{
	return hub->tree && hub->live == hub->nranks && hub->links == hub->links_wanted;
}

/*
 * The hub tells all ranks at once that the collective is complete.  Otherwise a rank that leaves
 * after it would seem to be missing, at ranks whose copy of the result is still on the way.
 */
int ori_hub_tree_send(struct tcp_hub *hub, const struct ori_round *g)
{
	size_t bytes = (size_t)g->n * g->bytes;
	struct hub_blob *spread, *note;

	if (g->n != hub->nranks || bytes < TREE_BYTES || !is_whole(hub))
		return 0;
	spread = ori_hub_blob(TCP_SPREAD, g->gid, g->seq, ori_round_age_ms(g), g->data, bytes);
	note = ori_hub_blob(TCP_COMPLETE, g->gid, g->seq, 0, NULL, 0);
	for (int rank = 0; rank < hub->nranks && spread && note; rank++) {
		struct hub_slot *slot = &hub->slots[rank];

		if (slot->conn)
			ori_hub_send_blob(slot->conn, slot->parent < 0 ? spread : note);
	}
	if (spread)
		ori_hub_blob_drop(spread);
	if (note)
		ori_hub_blob_drop(note);
	return spread && note;
}
