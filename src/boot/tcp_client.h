/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_client.h - the inside of a rank's TCP boot, for tcp_join.c (meeting the others),
 * tcp_client.c (what messages mean), tcp_reader.c (the thread that takes them), tcp_relay.c (the tree that
 * results come down) and tcp_group.c (the table of boot.h).
 */
#ifndef ORI_BOOT_TCP_CLIENT_H
#define ORI_BOOT_TCP_CLIENT_H

#include <poll.h>

#include "tcp.h"

enum tcp_gone { TCP_HERE, TCP_GONE_LEFT, TCP_GONE_DEAD };

/* An abort of a group that this rank has not made yet. */
struct tcp_early {
	struct tcp_early *next;
	uint64_t gid;
	int status, rank;
	char why[ORI_BOOT_WHY_BYTES];
};

/* A question to another rank, while its asker waits. */
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
	int *world; /* member -> world rank */
	struct tcp_group *next;
	uint64_t seq, subgroups; /* calls made so far */
	/* the collective under way */
	int pending, answered, status;
	int complete; /* all have contributed; the result comes down the tree */
	uint64_t pending_seq;
	void *all;
	size_t all_bytes;
	char text[ORI_BOOT_WHY_BYTES];
	/* 0, or why no collective of this group will succeed any more */
	int failed, failed_rank, logged;
	char why[ORI_BOOT_WHY_BYTES];
	struct ori_watch watch;
	struct tcp_ask *asks;
	uint64_t asked; /* questions so far */
};

/* A whole message: header and body as they travel.  Counted, since it may go to several. */
struct tcp_packet {
	int refs;
	size_t bytes;
	unsigned char data[];
};

/* A message as it comes in. */
struct tcp_in {
	struct tcp_header header;
	struct tcp_packet *packet; /* NULL until the header is there */
	size_t got;                /* of header and body */
};

struct tcp_out {
	struct tcp_out *next;
	struct tcp_packet *packet;
	size_t off;
};

/* Whoever knocks at the relay: a child, once its hello was right. */
struct tcp_child {
	int fd; /* -1: free */
	int up;
	struct tcp_hello hello;
	size_t got;
	uint64_t until_ns; /* must have said hello */
	struct tcp_out *out, **out_tail;
};

enum tcp_link { TCP_LINK_NONE, TCP_LINK_CONNECTING, TCP_LINK_HELLO, TCP_LINK_UP };

#define TCP_CHILDREN (2 * TCP_FANOUT)
#define TCP_KNOCKERS (TCP_CHILDREN + 4) /* children, and strangers at a time */

/* This rank's place in the tree.  The joining thread's, then the reader's. */
struct tcp_relay {
	int listen_fd; /* -1: none, or all children are here */
	struct tcp_welcome welcome;
	int parent_fd;
	enum tcp_link link;
	struct tcp_in in;
	int children; /* that are up */
	struct tcp_child child[TCP_KNOCKERS];
};

#define TCP_RELAY_FDS (2 + TCP_KNOCKERS)

struct tcp_client {
	/* fixed once joined */
	int fd, pid, rank, nranks, hub_rank;
	int of_rank_0, listening; /* as in struct tcp_join */
	int ports, port;          /* where the hub may be: so many, from this one on */
	struct tcp_place place;
	struct tcp_hub *hub;
	uint64_t timeout_ns, late_ns;
	pthread_t reader;
	struct tcp_relay relay;
	struct tcp_in in;          /* the reader's */
	pthread_mutex_t send_lock; /* one message at a time; never taken with `lock` held */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	/* under lock */
	int refs; /* groups */
	struct tcp_group *groups;
	struct tcp_early *early;
	int nearly;
	unsigned char *gone; /* enum tcp_gone of each world rank */
	int lost;            /* 0, or the status of a connection that is of no more use */
	char lost_why[128];
	int hub_silent; /* did not answer in time: its farewell is not waited for */
	int failed; /* a collective or a group has: who is missing is not waited for at the end */
	int closing, reader_ended;
};

/* tcp_join.c: connects, says hello, waits for the welcome. */
int ori_tcp_meet(struct tcp_client *);

/* tcp_reader.c: the thread that takes messages. */
int ori_tcp_reader_start(struct tcp_client *);
/* One step: 1 when the packet is whole (then the caller's), 0: more is to come, or negative errno. */
int ori_tcp_in_step(struct tcp_in *, int fd, struct tcp_packet **packet);
void ori_tcp_packet_drop(struct tcp_packet *);

/* tcp_relay.c; on the reader's thread but for open. */
/* Listens where children can knock; returns the port, 0 if that is not possible. */
uint16_t ori_tcp_relay_open(struct tcp_client *);
void ori_tcp_relay_start(struct tcp_client *); /* after the welcome: begins to connect */
int ori_tcp_relay_fill(struct tcp_client *, struct pollfd *fds);
/* poll() on those that are descriptors: it refuses more entries than a process may have open. */
int ori_tcp_relay_poll(struct pollfd *fds, int n, int ms);
uint64_t ori_tcp_relay_deadline(const struct tcp_client *);
void ori_tcp_relay_serve(struct tcp_client *, const struct pollfd *fds, int n);
void ori_tcp_relay_pass(struct tcp_client *, struct tcp_packet *);
extern uint64_t ori_tcp_relay_count; /* messages this process has passed on */
/* Sends what is still owed to the children, at most ns; then closes all. */
void ori_tcp_relay_end(struct tcp_client *, uint64_t ns);

/* tcp_ask.c */
void ori_tcp_answer(struct oriel_boot *, ori_boot_answer_fn *, void *ctx);
int ori_tcp_ask(struct oriel_boot *, int rank, char *out, size_t bytes, uint64_t timeout_ns);
/* The reader's; lock not held for take_ask, which sends, held for take_tell. */
void ori_tcp_take_ask(struct tcp_client *, const struct tcp_header *);
void ori_tcp_take_tell(struct tcp_client *, const struct tcp_header *, const unsigned char *body);

/* tcp_client.c */
struct tcp_group *ori_tcp_group_find(struct tcp_client *, uint64_t gid); /* lock held */
/* What a message means; from the hub, or from the parent.  0 or -EPROTO. */
int ori_tcp_client_take(struct tcp_client *, struct tcp_packet *);
/* No result will come down the tree any more. */
void ori_tcp_client_unlinked(struct tcp_client *);
int ori_tcp_client_send(struct tcp_client *, const struct tcp_header *, const void *head,
			size_t head_bytes, const void *data, size_t bytes, uint64_t deadline_ns);
/* Ends all groups of the client.  Lock not held. */
void ori_tcp_client_lost(struct tcp_client *, int status, const char *why);
/* Says BYE, ends the reader, frees. */
void ori_tcp_client_close(struct tcp_client *);

/* tcp_group.c; lock held.  May give up the lock to call a watcher; the group may be gone after. */
void ori_tcp_group_fail(struct tcp_group *, int status, int rank, const char *why);
int ori_tcp_group_index(const struct tcp_group *, int world_rank); /* -1: not a member */
void ori_tcp_hub_text(const struct tcp_group *, char *text, size_t bytes);
int ori_tcp_group_create(struct tcp_client *, uint64_t gid, const int *world, int rank, int n,
			 struct oriel_boot **boot);

#endif
