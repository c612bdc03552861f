/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub.h - the inside of the hub, from top to bottom:
 *
 *	tcp_hub.c        life and loop
 *	tcp_hub_conn.c   connections: bytes in, timers, endings
 *	tcp_hub_join.c   who may join
 *	tcp_hub_abort.c  aborts by ranks of this process
 *	tcp_hub_meet.c   meetings: some ranks make a group
 *	tcp_hub_round.c  collectives
 *	tcp_hub_tree.c   the tree that large results come down
 *	tcp_hub_out.c    messages out
 *
 * A file calls only files below it.  All of it runs on the hub's one thread, but for the fields
 * marked otherwise.
 */
#ifndef ORI_BOOT_TCP_HUB_H
#define ORI_BOOT_TCP_HUB_H

#include "tcp.h"

/* An outgoing message, shared by the connections it goes to. */
struct hub_blob {
	int refs;
	size_t bytes;
	unsigned char data[];
};

struct hub_out {
	struct hub_out *next;
	struct hub_blob *blob;
	size_t off;
};

enum conn_state {
	CONN_HELLO,   /* no hello yet; until_ns: deadline for it */
	CONN_WAITING, /* joined; until_ns: gives up if others are still missing */
	CONN_LIVE,    /* welcomed */
	/* said BYE or was refused: closes when all is sent, at until_ns at the latest */
	CONN_ENDING
};

struct hub_conn {
	struct hub_conn *next;
	int fd;
	enum conn_state state;
	int broken; /* will be closed in this turn of the loop */
	int rank, has_hub, late_told;
	uint16_t relay_port;
	uint64_t since_ns, until_ns, late_ns;
	/* Incoming: first the hello, then headers and bodies. */
	union {
		struct tcp_hello hello;
		struct tcp_header header;
		unsigned char bytes[sizeof(struct tcp_hello)];
	} in;
	size_t in_got, body_got;
	unsigned char *body;
	struct hub_out *out, **out_tail;
};

enum slot_state { SLOT_EMPTY, SLOT_WAITING, SLOT_LIVE, SLOT_LEFT, SLOT_DEAD };

#define HUB_STRANGERS_MAX 512 /* connections without a hello */

struct hub_slot {
	enum slot_state state;
	struct hub_conn *conn; /* while waiting or live */
	int parent;            /* in the tree; -1: the hub */
	uint32_t children;     /* in the tree */
	int linked;            /* its link to its parent is up */
};

struct tcp_hub {
	/* fixed */
	enum ori_mode tree_mode;
	/* keep: made for an id, so it waits for ranks even if none of this process is left */
	int pid, keep;
	struct tcp_place place;
	int listen_fd, wake_fd;
	uint64_t timeout_ns;
	pthread_t thread;
	/* under ori_tcp_lock() */
	struct tcp_hub *next;
	pthread_cond_t cond;
	int holds, ready, ended, stop;
	int complete;             /* written by the hub's thread: all ranks have joined */
	struct tcp_abort *aborts; /* of ranks of this process, which wait */
	uint64_t last_abort;      /* number of the last one */
	/* Used by the hub's thread only. */
	struct hub_conn *conns;
	int strangers; /* connections in CONN_HELLO */
	int nranks, waiting, live;
	struct hub_slot *slots;
	uint32_t *left; /* nranks entries: ranks that said BYE in this turn of the loop */
	int nleft;
	int failed; /* some rank never came; every later rank is told `why` */
	char why[ORI_BOOT_WHY_BYTES];
	struct ori_round *gathers;
	struct ori_round *meetings; /* meet.h */
	int tree;                   /* the welcomes contained parents */
	int links_wanted;           /* number of ranks with a parent */
	/*
	 * Number of ranks whose link to their parent is up.  -1: a link broke, so the tree is no
	 * longer used.
	 */
	int links;
	uint64_t idle_ns, accept_ns, stop_ns;
	unsigned warned; /* number of bad connections so far */
	int full;        /* errno of the last accept without a free descriptor; 0: none */
	int abort_taken; /* somebody waits until an abort is sent */
};

/* tcp_hub_abort.c */
/* The hub has queued the abort with this number for the other ranks. */
void ori_hub_abort_taken(struct tcp_hub *, uint64_t number);
/* Called in each turn of the loop: tells those who wait, if everything queued is sent. */
void ori_hub_aborts_sent(struct tcp_hub *);

/* tcp_hub_conn.c */
void ori_hub_accept(struct tcp_hub *);
void ori_hub_conn_read(struct tcp_hub *, struct hub_conn *);
void ori_hub_conn_timer(struct tcp_hub *, struct hub_conn *, uint64_t now);
/*
 * Tells the others which ranks left in this turn.  One message for all, because at the end of a job
 * all ranks leave.
 */
void ori_hub_tell_left(struct tcp_hub *);
/*
 * Closes broken connections and tells the others which ranks died.  Repeats until none is broken.
 */
void ori_hub_sweep(struct tcp_hub *);
void ori_hub_close_all(struct tcp_hub *);

/* tcp_hub_out.c */
/* Logs that something was dropped.  Anybody can connect, so the number of lines is bounded. */
void ori_hub_warn(struct tcp_hub *, const char *what);
/* Queues a message: body and its size may be NULL and 0. */
void ori_hub_send(struct hub_conn *, enum tcp_type, uint64_t gid, uint64_t seq, int rank,
		  const void *body, size_t bytes);
/*
 * Sends to all live ranks but `except`.  Ranks of the hub's own process come last.  The message may
 * end their process, and with it the hub, before the others have received it.
 */
void ori_hub_send_others(struct tcp_hub *, const struct hub_conn *except, enum tcp_type,
			 uint64_t gid, uint64_t seq, int rank, const void *body, size_t bytes);
struct hub_blob *ori_hub_blob(enum tcp_type, uint64_t gid, uint64_t seq, int rank, const void *body,
			      size_t bytes);
void ori_hub_send_blob(struct hub_conn *, struct hub_blob *);
void ori_hub_blob_drop(struct hub_blob *);
/* Sends as much of the queue as the socket accepts. */
void ori_hub_conn_flush(struct hub_conn *);
/* Drops all messages that are still queued. */
void ori_hub_out_clear(struct hub_conn *);
/* Sends why the connection is refused, and closes it afterwards. */
void ori_hub_refuse(struct hub_conn *, int status, const char *text);

/* tcp_hub_join.c */
void ori_hub_hello(struct tcp_hub *, struct hub_conn *);
void ori_hub_join_timer(struct tcp_hub *, struct hub_conn *, uint64_t now);

/* tcp_hub_tree.c */
/* Plans which rank forwards results to which, after all ranks have joined. */
void ori_hub_tree_plan(struct tcp_hub *);
void ori_hub_tree_welcome(const struct tcp_hub *, int rank, struct tcp_welcome *);
void ori_hub_linked(struct tcp_hub *, struct hub_conn *);
/* Returns 1 if the result was sent through the tree, 0 if it must be sent to each rank. */
int ori_hub_tree_send(struct tcp_hub *, const struct ori_round *);

/* tcp_hub_round.c */
void ori_hub_contrib(struct tcp_hub *, struct hub_conn *);
/*
 * Handles late ranks and deadlines of a list of collectives or meetings.  Returns when it must be
 * called again.  A collective whose deadline passes is failed, and its members are told.
 */
uint64_t ori_hub_round_timer(struct tcp_hub *, struct ori_round *list, uint64_t now);
/* Sends a report, or the result, to all members that have come. */
void ori_hub_send_report(struct tcp_hub *, const struct ori_round *, enum tcp_type,
			 const struct ori_round_report *);
void ori_hub_send_result(struct tcp_hub *, const struct ori_round *);

/* tcp_hub_meet.c */
void ori_hub_meet(struct tcp_hub *, struct hub_conn *);
uint64_t ori_hub_meet_timer(struct tcp_hub *, uint64_t now);
/* A rank has left or died: nobody waits for it any longer. */
void ori_hub_meet_gone(struct tcp_hub *, int rank);

#endif
