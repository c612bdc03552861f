/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_client.h - the inside of a rank's TCP boot, from top to bottom:
 *
 *	tcp_group.c   the table of boot.h
 *	tcp_gather.c  a collective of a group
 *	tcp_reader.c  the thread that takes messages
 *	tcp_join.c    how a rank meets the others
 *	tcp_take.c    what messages mean
 *	tcp_ask.c     questions to other ranks, and answers
 *	tcp_relay.c   the tree that large results come down
 *	tcp_in.c      a message as it comes in
 *	tcp_client.c  the connection and its groups
 *
 * A file calls only files below it.
 */
#ifndef ORI_BOOT_TCP_CLIENT_H
#define ORI_BOOT_TCP_CLIENT_H

#include <poll.h>

#include "tcp.h"
#include "watch.h"

enum tcp_gone { TCP_HERE, TCP_GONE_LEFT, TCP_GONE_DEAD };

/* An abort of a group that this rank has not created yet. */
struct tcp_early {
	struct tcp_early *next;
	uint64_t gid;
	int status, rank;
	char why[ORI_BOOT_WHY_BYTES];
};

/* A question to another rank, while the asking thread waits. */
struct tcp_ask {
	struct tcp_ask *next;
	uint64_t seq;
	int world_rank, answered;
	char *out;
	size_t bytes;
};

struct tcp_client;

/* One group of ranks.  Fields after `client` are under the client's lock. */
struct tcp_group {
	struct oriel_boot base;
	struct tcp_client *client;
	uint64_t gid;
	uint64_t scope; /* of a meeting: its parent and tag (tcp_group.c); 0: an ordinary group */
	int *world;     /* member -> world rank */
	struct tcp_group *next;
	uint64_t seq, subgroups; /* calls made so far */
	/* The collective in progress. */
	int pending, answered, status;
	int complete;     /* all members have contributed; the result comes through the tree */
	const char *call; /* the user's call that it serves */
	uint64_t pending_seq;
	void *all;
	size_t all_bytes;
	char text[ORI_BOOT_WHY_BYTES];
	/* 0, or why no collective of this group can succeed any more */
	int failed, failed_rank, logged;
	char why[ORI_BOOT_WHY_BYTES];
	struct ori_watch watch;
	struct tcp_ask *asks;
	uint64_t asked; /* questions so far */
};

/*
 * A whole message: header and body as they are sent.  Reference-counted, because it may go to
 * several ranks.
 */
struct tcp_packet {
	int refs;
	size_t bytes;
	unsigned char data[];
};

/* An incoming message. */
struct tcp_in {
	struct tcp_header header;
	struct tcp_packet *packet; /* NULL until the header is there */
	size_t got;                /* bytes received, of header and body */
};

struct tcp_out {
	struct tcp_out *next;
	struct tcp_packet *packet;
	size_t off;
};

/* A connection to the relay.  It is a child once its hello is accepted. */
struct tcp_child {
	int fd; /* -1: free */
	int up;
	struct tcp_hello hello;
	size_t got;
	uint64_t until_ns; /* deadline for its hello */
	struct tcp_out *out, **out_tail;
};

enum tcp_link { TCP_LINK_NONE, TCP_LINK_CONNECTING, TCP_LINK_HELLO, TCP_LINK_UP };

#define TCP_CHILDREN (2 * TCP_FANOUT)
#define TCP_KNOCKERS (TCP_CHILDREN + 4) /* children, and strangers at the same time */

/* This rank's place in the tree.  Used by the joining thread, then by the reader. */
struct tcp_relay {
	int listen_fd; /* -1: none, or all children are here */
	struct tcp_welcome welcome;
	int parent_fd;
	enum tcp_link link;
	struct tcp_in in;
	int children; /* children whose links are up */
	struct tcp_child child[TCP_KNOCKERS];
};

#define TCP_RELAY_FDS (2 + TCP_KNOCKERS)

struct tcp_client {
	/* Fixed after the join. */
	int fd, pid, rank, nranks, hub_rank;
	int of_rank_0, listening; /* as in struct tcp_join */
	int ports, port;          /* the hub is at one of `ports` ports, from `port` on */
	struct tcp_place place;
	struct tcp_hub *hub;
	uint64_t timeout_ns, late_ns;
	pthread_t reader;
	struct tcp_relay relay;
	struct tcp_in in;          /* used by the reader only */
	pthread_mutex_t send_lock; /* one message at a time; never taken while `lock` is held */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	/* under lock */
	int refs; /* number of groups */
	struct tcp_group *groups;
	struct tcp_early *early;
	int nearly;
	uint64_t meetings;   /* that this rank has come to so far */
	unsigned char *gone; /* enum tcp_gone of each world rank */
	int lost;            /* 0, or the status of a connection that is unusable */
	char lost_why[128];
	int hub_silent; /* it did not answer in time, so its farewell is not awaited */
	/* a collective or group has failed: the end does not wait for missing ranks */
	int failed;
	int closing, reader_ended;
};

/* tcp_reader.c: the thread that takes messages. */
int ori_tcp_reader_start(struct tcp_client *);

/* What a rank gives to a collective, and where the result goes. */
struct tcp_part {
	enum tcp_type type; /* TCP_CONTRIB or TCP_MEET */
	const void *mine;
	size_t bytes;
	void *all;
	size_t all_bytes;
};

/* tcp_gather.c: takes part in the next collective of the group, and waits for its end. */
int ori_tcp_gather(struct tcp_group *, const struct tcp_part *, uint64_t timeout_ns);

/* tcp_join.c: connects, says hello, waits for the welcome. */
int ori_tcp_meet(struct tcp_client *);

/* tcp_take.c: what a message of the hub or of the parent means.  0 or -EPROTO. */
int ori_tcp_client_take(struct tcp_client *, const struct tcp_packet *);

/* tcp_ask.c */
void ori_tcp_answer(struct oriel_boot *, ori_boot_answer_fn *, void *ctx);
int ori_tcp_ask(struct oriel_boot *, int rank, char *out, size_t bytes, uint64_t timeout_ns);
/* Called by the reader.  take_ask sends, so the lock is not held.  For take_tell it is held. */
void ori_tcp_take_ask(struct tcp_client *, const struct tcp_header *);
void ori_tcp_take_tell(struct tcp_client *, const struct tcp_header *, const unsigned char *body);

/* tcp_relay.c: on the reader's thread, except open and start. */
/* Listens for children.  Returns the port, or 0 if this is not possible. */
uint16_t ori_tcp_relay_open(struct tcp_client *);
void ori_tcp_relay_start(struct tcp_client *); /* after the welcome: begins to connect */
int ori_tcp_relay_fill(struct tcp_client *, struct pollfd *fds);
/* poll() on the valid descriptors only: poll() refuses more entries than a process may open. */
int ori_tcp_relay_poll(struct pollfd *fds, int n, int ms);
uint64_t ori_tcp_relay_deadline(const struct tcp_client *);
/* Returns a result that has come from the parent and now belongs to the caller, or NULL. */
struct tcp_packet *ori_tcp_relay_serve(struct tcp_client *, const struct pollfd *fds, int n);
/* Ends the link to the parent.  No more results come that way, so the children's links end too. */
void ori_tcp_relay_cut(struct tcp_client *);
/* Forwards a result to the children. */
void ori_tcp_relay_pass(struct tcp_client *, struct tcp_packet *);
extern uint64_t ori_tcp_relay_count; /* messages that this process has forwarded */
/* Sends pending data to the children, for at most ns, then closes all links. */
void ori_tcp_relay_end(struct tcp_client *, uint64_t ns);

/* tcp_in.c */
/*
 * One step.  Returns 1 when the packet is complete (it then belongs to the caller), 0 if more is to
 * come, or a negative errno.
 */
int ori_tcp_in_step(struct tcp_in *, int fd, struct tcp_packet **packet);
void ori_tcp_packet_drop(struct tcp_packet *);

/* tcp_client.c; calls on a group need the lock */
struct tcp_group *ori_tcp_group_find(struct tcp_client *, uint64_t gid);
int ori_tcp_group_index(const struct tcp_group *, int world_rank); /* -1: not a member */
/* May release the lock to call a watcher.  The group may be gone afterwards. */
void ori_tcp_group_fail(struct tcp_group *, int status, int rank, const char *why);
/* The hub as text, with what the group knows of it. */
void ori_tcp_hub_text(const struct tcp_group *, char *text, size_t bytes);
/* The tree delivers no more results, so groups that wait for one can fail again. */
void ori_tcp_client_unlinked(struct tcp_client *);
int ori_tcp_client_send(struct tcp_client *, const struct tcp_header *, const void *head,
			size_t head_bytes, const void *data, size_t bytes, uint64_t deadline_ns);
/* Ends all groups of the client.  Lock not held. */
void ori_tcp_client_lost(struct tcp_client *, int status, const char *why);
/* Says BYE, ends the reader, frees. */
void ori_tcp_client_close(struct tcp_client *);

#endif
