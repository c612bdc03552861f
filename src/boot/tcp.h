/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp.h - what the files of the TCP boot share: the messages, the hub's handle, the client.
 *
 * One process runs a hub (tcp_hub*.c, with its own thread).  Every rank is a client with one
 * connection (tcp_client.c, tcp_group.c), also the rank in the hub's process.
 * Protocol: docs/protocols/boot-tcp.md
 */
#ifndef ORI_BOOT_TCP_H
#define ORI_BOOT_TCP_H

#include <sys/socket.h>

#include "impl.h"
#include "round.h"

/* ---- messages (tcp_wire.c) ------------------------------------------------------------------ */

#define TCP_MAGIC 0x31424f52u /* "ROB1" */
#define TCP_VERSION 4u
#define TCP_SECRET_BYTES 64
#define TCP_CONTRIB_MAX ORI_BOOT_PART_MAX /* one rank's part of an allgather */
#define TCP_RESULT_MAX ORI_BOOT_RESULT_MAX
#define TCP_TEXT_MAX 512
/* children of a rank in the tree that distributes results */
#define TCP_FANOUT 8
#define TCP_HELLO_NS (3 * ORI_NS_PER_S) /* a connection must send its hello within this time */

enum tcp_type {
	TCP_CONTRIB = 1, /* to the hub: struct tcp_contrib, data */
	TCP_ABORT,       /* both ways: int32 status, text */
	TCP_BYE,         /* to the hub */
	TCP_LINKED,   /* to the hub: my link to my parent in the tree is up (seq 1) or down (0) */
	TCP_HEARD,    /* from the hub: your hello is accepted, others are still missing */
	TCP_WELCOME,  /* from the hub: struct tcp_welcome; from a parent: nothing */
	TCP_REFUSE,   /* from the hub: int32 status, text */
	TCP_RESULT,   /* from the hub: n * bytes */
	TCP_SPREAD,   /* from the hub or a parent: the same, to be forwarded to the children */
	TCP_COMPLETE, /* from the hub: the result of (gid, seq) is coming through the tree */
	TCP_LATE,     /* from the hub: struct ori_round_report */
	TCP_FAIL,     /* from the hub: struct ori_round_report */
	TCP_DEAD,     /* from the hub: `rank` has died */
	TCP_LEFT,     /* from the hub: the uint32 ranks that have said BYE */
	/* both ways: asks `rank` what it is doing, or `rank` asks; seq numbers the question */
	TCP_ASK,
	TCP_TELL, /* both ways: the answer, a text */
	/* to the hub: struct tcp_contrib, struct tcp_meet, the uint32 world ranks of all members */
	TCP_MEET
};

/* All numbers are little-endian, like every machine that Oriel runs on. */
struct tcp_header {
	uint32_t magic, type;
	uint64_t gid; /* group; 0: all ranks */
	uint64_t seq; /* number of the collective in its group */
	/* the world rank it concerns or comes from; in a result: ms that its first member waited */
	uint32_t rank;
	uint32_t bytes; /* of the body that follows */
};

struct tcp_hello {
	uint32_t magic, version;
	unsigned char secret[TCP_SECRET_BYTES];
	uint32_t rank, nranks;
	uint32_t has_hub;    /* the hub is in this rank's process */
	uint32_t relay_port; /* port for its children in the tree; 0: none */
	uint64_t timeout_ns, late_ns;
};

struct tcp_welcome {
	int32_t hub_rank; /* the rank whose process has the hub, or -1 */
	int32_t parent;   /* the rank that forwards results to me; -1: the hub itself */
	uint32_t children;
	uint16_t family, port; /* of the parent: AF_*, host order */
	unsigned char addr[16];
};

struct tcp_contrib {
	uint32_t index, n; /* in the group */
	uint64_t timeout_ns, late_ns;
};

struct tcp_meet {
	uint64_t scope; /* meetings of one scope exclude each other: a group and a tag */
	uint64_t count; /* how many meetings this rank has come to; goes to all members */
};

_Static_assert(sizeof(struct tcp_header) == 32, "the header travels");
_Static_assert(sizeof(struct tcp_hello) == 104, "the hello travels");
_Static_assert(sizeof(struct tcp_welcome) == 32, "the welcome travels");
_Static_assert(sizeof(struct tcp_contrib) == 24, "the contribution travels");
_Static_assert(sizeof(struct tcp_meet) == 16, "the meeting travels");
_Static_assert(sizeof(struct ori_round_report) == 104, "the report travels");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers travel as they lie in memory");

/* Where the ranks meet, and with which secret. */
struct tcp_place {
	struct sockaddr_storage addr;
	socklen_t addr_bytes;
	unsigned char secret[TCP_SECRET_BYTES]; /* zero-padded */
	char name[80];                          /* "127.0.0.1:29500" */
};

void ori_tcp_header_fill(struct tcp_header *, enum tcp_type, uint64_t gid, uint64_t seq, int rank,
			 size_t bytes);
/*
 * Largest body of a message type, from a client or from the hub.  -1: this side never sends the
 * type.
 */
int64_t ori_tcp_body_max(uint32_t type, int from_hub);
/* Returns 1 if they are equal.  The time does not depend on where they differ. */
int ori_tcp_secret_equal(const unsigned char *a, const unsigned char *b);
/* Writes host:port of an address. */
void ori_tcp_place_name(struct tcp_place *);
int ori_tcp_is_loopback(const struct sockaddr_storage *);
/* Resolves a name or number to an address.  Error messages name `variable`. */
int ori_tcp_resolve(const char *variable, const char *host, int port, struct tcp_place *);
/* Converts an address to 16 bytes and back.  Returns 0 on success. */
int ori_tcp_addr_pack(const struct sockaddr_storage *, uint16_t *family, unsigned char bytes[16]);
int ori_tcp_addr_unpack(uint16_t family, uint16_t port, const unsigned char bytes[16],
			struct sockaddr_storage *, socklen_t *addr_bytes);
int ori_tcp_port(const struct tcp_place *);
void ori_tcp_port_set(struct tcp_place *, int port); /* also updates the name */
/*
 * Blocks by poll, on a non-blocking socket.  Returns 0, -ETIMEDOUT, -ECONNRESET on EOF, or -errno.
 */
int ori_tcp_send_all(int fd, const void *data, size_t bytes, uint64_t deadline_ns);
int ori_tcp_recv_all(int fd, void *data, size_t bytes, uint64_t deadline_ns);

/*
 * Sockets (tcp_fds.c).  All sockets of the boot are listed, so that a forked child closes them.  A
 * copy that stays open in a child would keep a connection alive after its owner died.  Negative
 * errno on failure.
 */
void ori_tcp_lock(void); /* for that list and the list of hubs; held during fork() */
void ori_tcp_unlock(void);
/* Around all work of a hub but its poll.  fork() waits for the end, so the work must not block. */
void ori_tcp_busy_begin(void);
void ori_tcp_busy_end(void);
/* fork() first calls fn, while no hub is working and the lock is free. */
void ori_tcp_before_fork(void (*fn)(void));
/* lock held; like pthread_cond_timedwait */
int ori_tcp_wait(pthread_cond_t *, const struct timespec *until);
int ori_tcp_socket(int family);
int ori_tcp_accept(int listen_fd);
int ori_tcp_adopt(int fd); /* a copy of a descriptor from outside */
void ori_tcp_close(int fd);
void ori_tcp_tune(int fd); /* no delay, keep-alive */

/* ---- hub (tcp_hub.c) ------------------------------------------------------------------------ */

struct tcp_hub;

/*
 * Listens at `place` (port 0: any; place is updated), or on a copy of listen_fd if that is > 0.
 * keep 0: the caller holds the hub and releases it.  keep 1: the hub ends by itself when all ranks
 * have left, or when no rank came for timeout_ns.
 */
int ori_tcp_hub_start(struct tcp_place *, int listen_fd, int keep, uint64_t timeout_ns,
		      struct tcp_hub **hub);
/*
 * The hub of this process at that place, held for a rank that joins.  NULL: it is in another
 * process.
 */
struct tcp_hub *ori_tcp_hub_find(const struct tcp_place *);
/* Drops a hold (NULL: none).  The last one waits for the hub's end, at most timeout_ns. */
void ori_tcp_hub_release(struct tcp_hub *, uint64_t timeout_ns);

/* ---- aborts (tcp_hub_abort.c) ---------------------------------------------------------------- */

/* An abort by a rank of the hub's own process.  The members belong to the calls. */
struct tcp_abort {
	struct tcp_abort *next;
	uint64_t until_ns; /* when the call ends at the latest */
	uint64_t number;   /* 0: the hub is in another process, and nobody waits */
	int taken, sent;
};

/*
 * Around sending an abort to the hub.  end() waits until the hub has sent it to the ranks of other
 * processes, at most until until_ns: this process may end right after the abort, and the hub with
 * it.  Then the others would not learn that it was an abort.  hub may be NULL.  failed: it was not
 * sent to the hub.
 */
void ori_tcp_hub_abort_begin(struct tcp_hub *hub, struct tcp_abort *, uint64_t until_ns);
void ori_tcp_hub_abort_end(struct tcp_hub *hub, struct tcp_abort *, int failed);

/*
 * Joins and frees hubs that ended while nobody waited for them.  Called by the next start and by
 * fork().
 */
void ori_tcp_hub_reap(void);

/* ---- client (tcp_client.c, tcp_group.c) ----------------------------------------------------- */

struct tcp_join {
	const struct tcp_place *place;
	struct tcp_hub *hub; /* held for this rank, or NULL; the client always releases it */
	int rank, nranks;
	int of_rank_0; /* the hub is in rank 0's process */
	int listening; /* the hub already listens: a refused rank need not try again */
	int ports;     /* number of ports to try, from the place's port on; 0 means 1 */
	uint64_t timeout_ns, late_ns;
};

/* Meets the other ranks and makes the group of all ranks. */
int ori_tcp_join_create(const struct tcp_join *, struct oriel_boot **boot);

#endif
