/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_client.h - the inside of a rank's TCP boot, for tcp_join.c (meeting the others),
 * tcp_client.c (the connection and its reader) and tcp_group.c (the table of boot.h).
 */
#ifndef ORI_BOOT_TCP_CLIENT_H
#define ORI_BOOT_TCP_CLIENT_H

#include "tcp.h"

enum tcp_gone { TCP_HERE, TCP_GONE_LEFT, TCP_GONE_DEAD };

/* An abort of a group that this rank has not made yet. */
struct tcp_early {
	struct tcp_early *next;
	uint64_t gid;
	int status, rank;
	char why[ORI_BOOT_WHY_BYTES];
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
	uint64_t pending_seq;
	void *all;
	size_t all_bytes;
	char text[ORI_BOOT_WHY_BYTES];
	/* 0, or why no collective of this group will succeed any more */
	int failed, failed_rank, logged;
	char why[ORI_BOOT_WHY_BYTES];
	struct ori_watch watch;
};

struct tcp_client {
	/* fixed once joined */
	int fd, pid, rank, nranks, hub_rank;
	struct tcp_place place;
	struct tcp_hub *hub;
	uint64_t timeout_ns, late_ns;
	pthread_t reader;
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

/* tcp_client.c */
int ori_tcp_client_start(struct tcp_client *);
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
