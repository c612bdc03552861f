/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/hub.c - bytes from the network as the rendezvous sees them (boot/tcp_hub_*.c).
 *
 * The hub has no thread and no listening socket here: the input says which connection sends what,
 * and how much time passes.  So a run is the same each time.  Raw bytes test the parser of hellos
 * and headers.  Right hellos and headers, which a fuzzer would hardly guess, lead to the rest:
 * collectives, meetings, questions and endings of a job of up to four ranks.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"
#include "boot/tcp_hub.h"
#include "fuzz.h"

#define CONNS 5
#define OPS 64
#define BODY 4096u

enum hub_op { OP_RAW, OP_HELLO, OP_MESSAGE, OP_CONTRIB, OP_MEET, OP_CLOSE, OP_TIME, OP_COUNT };

struct yard {
	struct tcp_hub hub;
	int fd[CONNS]; /* the other ends; -1: none */
	uint64_t ahead_ns;
};

static const unsigned char secret[TCP_SECRET_BYTES] = "open sesame";

/* As ori_hub_accept() does it. */
static void connect_one(struct yard *y, int i)
{
	struct hub_conn *c = calloc(1, sizeof(*c));
	int pair[2];

	if (!c || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		exit(1);
	c->fd = ori_tcp_adopt(pair[0]);
	close(pair[0]);
	CHECK(c->fd >= 0);
	c->rank = -1;
	c->out_tail = &c->out;
	c->until_ns = ori_deadline_ns(TCP_HELLO_NS);
	c->next = y->hub.conns;
	y->hub.conns = c;
	y->hub.strangers++;
	y->fd[i] = pair[1];
}

/* One turn of the hub's loop. */
static void turn(struct yard *y)
{
	uint64_t now = ori_now_ns() + y->ahead_ns;
	char sink[4096];

	for (struct hub_conn *c = y->hub.conns; c; c = c->next) {
		if (!c->broken && c->state != CONN_ENDING)
			ori_hub_conn_read(&y->hub, c);
		ori_hub_conn_timer(&y->hub, c, now);
	}
	ori_hub_round_timer(&y->hub, y->hub.gathers, now);
	ori_hub_meet_timer(&y->hub, now);
	ori_hub_tell_left(&y->hub);
	ori_hub_sweep(&y->hub);
	for (int i = 0; i < CONNS; i++)
		while (y->fd[i] >= 0 && recv(y->fd[i], sink, sizeof(sink), 0) > 0)
			;
}

static void send_bytes(struct yard *y, int i, const void *data, size_t bytes)
{
	if (y->fd[i] < 0)
		connect_one(y, i);
	while (bytes) {
		ssize_t n = send(y->fd[i], data, bytes, MSG_NOSIGNAL);

		if (n <= 0)
			break; /* the hub has closed it, or reads no more */
		data = (const char *)data + n;
		bytes -= (size_t)n;
	}
	turn(y);
}

static void hello(struct yard *y, int i, struct fuzz_input *in)
{
	uint8_t bent = fuzz_byte(in);
	struct tcp_hello h;

	memset(&h, 0, sizeof(h));
	h.magic = TCP_MAGIC;
	h.version = TCP_VERSION;
	memcpy(h.secret, secret, sizeof(secret));
	h.rank = fuzz_byte(in);
	h.nranks = 1 + fuzz_byte(in) % 4;
	h.has_hub = h.rank == 0;
	h.timeout_ns = h.late_ns = ORI_NS_PER_S;
	if (bent < sizeof(h))
		((uint8_t *)&h)[bent] ^= 1u << i;
	send_bytes(y, i, &h, sizeof(h));
}

static void message(struct yard *y, int i, enum hub_op op, struct fuzz_input *in)
{
	unsigned char body[sizeof(struct tcp_header) + sizeof(struct tcp_contrib) +
			   sizeof(struct tcp_meet) + BODY];
	unsigned char *at = body + sizeof(struct tcp_header);
	struct tcp_contrib part = { 0 };
	struct tcp_meet meet = { 0 };
	struct tcp_header h;
	uint32_t type = fuzz_byte(in) % 20, bytes;
	uint64_t gid, seq;

	memset(body, 0, sizeof(body));
	/* one after the other: the order in which arguments are evaluated is the compiler's */
	gid = fuzz_byte(in) % 3;
	seq = fuzz_byte(in) % 3;
	ori_tcp_header_fill(&h, (enum tcp_type)type, gid, seq, fuzz_byte(in) % 6, 0);
	if (op == OP_CONTRIB || op == OP_MEET) {
		h.type = op == OP_MEET ? TCP_MEET : TCP_CONTRIB;
		part.index = fuzz_byte(in) % 5;
		part.n = fuzz_byte(in) % 5;
		part.timeout_ns = part.late_ns = (uint64_t)fuzz_byte(in) << 24;
		memcpy(at, &part, sizeof(part));
		at += sizeof(part);
	}
	if (op == OP_MEET) {
		meet.scope = fuzz_byte(in) % 3;
		meet.count = fuzz_byte(in);
		memcpy(at, &meet, sizeof(meet));
		at += sizeof(meet);
	}
	bytes = fuzz_word(in) % BODY;
	fuzz_take(in, at, bytes);
	h.bytes = bytes + (uint32_t)(at - body - (ptrdiff_t)sizeof(h));
	if (op == OP_MESSAGE && bytes > BODY / 2)
		h.bytes = fuzz_word(in); /* a length of its own */
	memcpy(body, &h, sizeof(h));
	if (h.bytes > BODY)
		send_bytes(y, i, body, sizeof(h));
	else
		send_bytes(y, i, body, sizeof(h) + h.bytes);
}

static void step(struct yard *y, struct fuzz_input *in)
{
	enum hub_op op = (enum hub_op)(fuzz_byte(in) % OP_COUNT);
	int i = fuzz_byte(in) % CONNS;
	unsigned char raw[256];

	switch (op) {
	case OP_RAW:
		send_bytes(y, i, raw, fuzz_take(in, raw, fuzz_byte(in)));
		break;
	case OP_HELLO:
		hello(y, i, in);
		break;
	case OP_CLOSE:
		if (y->fd[i] >= 0)
			close(y->fd[i]);
		y->fd[i] = -1;
		turn(y);
		break;
	case OP_TIME:
		y->ahead_ns += (uint64_t)fuzz_byte(in) << 26;
		turn(y);
		break;
	default:
		message(y, i, op, in);
	}
}

/* The counts that the hub keeps must be those of its lists. */
static void check_counts(const struct tcp_hub *hub)
{
	int strangers = 0, waiting = 0, live = 0;

	for (const struct hub_conn *c = hub->conns; c; c = c->next) {
		strangers += c->state == CONN_HELLO;
		waiting += c->state == CONN_WAITING;
		live += c->state == CONN_LIVE;
		CHECK(c->state == CONN_HELLO || c->state == CONN_ENDING ||
		      hub->slots[c->rank].conn == c);
	}
	CHECK_EQ(hub->strangers, strangers);
	CHECK_EQ(hub->waiting, waiting);
	CHECK_EQ(hub->live, live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct yard y;

	memset(&y, 0, sizeof(y));
	for (int i = 0; i < CONNS; i++)
		y.fd[i] = -1;
	memcpy(y.hub.place.secret, secret, sizeof(secret));
	for (int n = 0; n < OPS && in.left; n++) {
		step(&y, &in);
		check_counts(&y.hub);
	}
	for (int i = 0; i < CONNS; i++)
		if (y.fd[i] >= 0)
			close(y.fd[i]);
	turn(&y);
	ori_hub_close_all(&y.hub);
	return 0;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static void seed_hello(struct fuzz_output *out, uint8_t rank, uint8_t nranks)
{
	const uint8_t bytes[] = { OP_HELLO, rank, 255, rank, (uint8_t)(nranks - 1) };

	fuzz_give(out, bytes, sizeof(bytes));
}

static void seed_part(struct fuzz_output *out, uint8_t op, uint8_t rank, uint8_t n, uint32_t bytes)
{
	const uint8_t head[] = { op, rank, 0, 0, 0, rank, rank, n, 255 };
	const uint8_t meet[] = { 1, rank };
	uint8_t body[64] = { 0 };

	fuzz_give(out, head, sizeof(head));
	if (op == OP_MEET) {
		fuzz_give(out, meet, sizeof(meet));
		for (uint8_t i = 0; i < n; i++)
			body[4 * i] = i;
		bytes = 4u * n;
	}
	fuzz_give_word(out, bytes);
	fuzz_give(out, body, bytes);
}

static void seed_message(struct fuzz_output *out, uint8_t rank, uint8_t type, uint8_t to)
{
	const uint8_t head[] = { OP_MESSAGE, rank, type, 0, 0, to };

	fuzz_give(out, head, sizeof(head));
	fuzz_give_word(out, type == TCP_ABORT ? 4 : 0);
	fuzz_give_word(out, 0);
}

size_t fuzz_seed(int n, uint8_t *out, size_t room)
{
	struct fuzz_output o = { out, room, 0 };

	if (n > 3)
		return 0;
	for (uint8_t r = 0; r < 3; r++)
		seed_hello(&o, r, 3);
	for (uint8_t r = 0; r < 3 && n < 2; r++)
		seed_part(&o, n ? OP_MEET : OP_CONTRIB, r, 3, 16);
	if (n == 2) {
		seed_message(&o, 1, TCP_ASK, 2);
		seed_message(&o, 2, TCP_ABORT, 2);
	}
	for (uint8_t r = 0; r < 3 && n < 3; r++)
		seed_message(&o, r, TCP_BYE, r);
	if (n == 3) {
		const uint8_t raw[] = { OP_RAW, 3,   8,   'G',     'E', 'T', ' ',      '/',
					' ',    'H', 'T', OP_TIME, 0,   255, OP_CLOSE, 0 };

		fuzz_give(&o, raw, sizeof(raw));
	}
	return o.bytes;
}
