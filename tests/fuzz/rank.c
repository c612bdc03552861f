/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/rank.c - messages of the rendezvous as a rank sees them (boot/tcp_in.c, tcp_take.c).
 *
 * The rank is number 1 of four and has two groups: all ranks, and ranks 1 and 3.  Both wait for a
 * collective, so that results, reports and failures have somewhere to go.  The input is a list of
 * messages with raw fields.  There is no reader thread: each message is taken at once.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"
#include "boot/tcp_client.h"
#include "fuzz.h"

#define RANKS 4
#define MESSAGES 48
#define BODY 256u
#define SUBGROUP 7u
#define ALL_BYTES 64u

struct yard {
	struct tcp_client client;
	struct tcp_group group[2];
	int world[2][RANKS];
	unsigned char all[2][ALL_BYTES], gone[RANKS];
	struct tcp_ask ask;
	char answer[32];
	int hub; /* the hub's end of the connection */
};

static void watch(void *ctx, int status, int rank, const char *why)
{
	const struct tcp_group *g = ctx;

	/* rank -1: the rendezvous, if no member of the group has it */
	CHECK(rank >= -1 && rank < g->base.nranks && rank != g->base.rank);
	CHECK(ori_status_received(status, 0));
	CHECK(strlen(why) < ORI_BOOT_WHY_BYTES);
}

static void answer(void *ctx, char *out, size_t bytes)
{
	(void)ctx;
	snprintf(out, bytes, "waits for rank 2");
}

static void open_group(struct yard *y, int n, uint64_t gid, const int *world, int members)
{
	struct tcp_group *g = &y->group[n];

	g->base.rank = members == RANKS ? 1 : 0;
	g->base.nranks = members;
	g->client = &y->client;
	g->gid = gid;
	g->world = y->world[n];
	memcpy(y->world[n], world, (size_t)members * sizeof(*world));
	g->watch.fn = watch;
	g->watch.ctx = g;
	g->watch.answer = answer;
	g->next = y->client.groups;
	y->client.groups = g;
}

/* Every group waits again, as after its next call. */
static void begin_all(struct yard *y)
{
	for (int n = 0; n < 2; n++) {
		struct tcp_group *g = &y->group[n];

		g->pending = 1;
		g->answered = 0;
		g->complete = 0;
		g->call = "fuzz";
		g->all = y->all[n];
		g->all_bytes = ALL_BYTES;
	}
	y->ask = (struct tcp_ask){ NULL, 0, 2, 0, y->answer, sizeof(y->answer) };
}

static void open_yard(struct yard *y)
{
	static const int all[RANKS] = { 0, 1, 2, 3 }, odd[] = { 1, 3 };
	int pair[2];

	memset(y, 0, sizeof(*y));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		exit(1);
	y->client.fd = pair[0];
	y->hub = pair[1];
	y->client.rank = 1;
	y->client.nranks = RANKS;
	y->client.gone = y->gone;
	pthread_mutex_init(&y->client.lock, NULL);
	pthread_mutex_init(&y->client.send_lock, NULL);
	CHECK_EQ(ori_boot_cond_init(&y->client.cond), 0);
	open_group(y, 0, 0, all, RANKS);
	open_group(y, 1, SUBGROUP, odd, 2);
	begin_all(y);
	y->group[0].asks = &y->ask;
}

static void close_yard(struct yard *y)
{
	while (y->client.early) {
		struct tcp_early *e = y->client.early;

		y->client.early = e->next;
		free(e);
	}
	ori_tcp_packet_drop(y->client.in.packet);
	close(y->client.fd);
	close(y->hub);
	pthread_mutex_destroy(&y->client.lock);
	pthread_mutex_destroy(&y->client.send_lock);
	pthread_cond_destroy(&y->client.cond);
}

/* As the reader's thread does it.  Returns 0, or the error that ends the connection. */
static int take_all(struct yard *y)
{
	struct tcp_packet *packet = NULL;
	char sink[512];
	int err = 0;

	for (;;) {
		size_t before = y->client.in.got;

		err = ori_tcp_in_step(&y->client.in, y->client.fd, &packet);
		if (err == 1) {
			err = ori_tcp_client_take(&y->client, packet);
			ori_tcp_packet_drop(packet);
		} else if (err == 0 && y->client.in.got == before) {
			break;
		}
		if (err < 0)
			break;
	}
	while (recv(y->hub, sink, sizeof(sink), 0) > 0)
		; /* answers of this rank */
	return err;
}

static int send_message(struct yard *y, struct fuzz_input *in)
{
	static const uint64_t gids[] = { 0, SUBGROUP, 9, UINT64_MAX };
	unsigned char bytes[sizeof(struct tcp_header) + BODY];
	uint8_t how = fuzz_byte(in);
	struct tcp_header h;
	uint64_t gid, seq;
	uint32_t type, body;

	/* one after the other: the order in which arguments are evaluated is the compiler's */
	type = fuzz_byte(in) % 20;
	gid = gids[fuzz_byte(in) % 4];
	seq = fuzz_byte(in) % 3;
	ori_tcp_header_fill(&h, (enum tcp_type)type, gid, seq, fuzz_byte(in) % 6, 0);
	body = how & 1 ? ALL_BYTES : how & 2 ? sizeof(struct ori_round_report) : fuzz_byte(in);
	fuzz_take(in, bytes + sizeof(h), body);
	h.bytes = how & 4 ? fuzz_word(in) % (1u << 20) : body;
	if (how & 8)
		h.magic ^= 1u << (how >> 4);
	memcpy(bytes, &h, sizeof(h));
	if (send(y->hub, bytes, sizeof(h) + body, MSG_NOSIGNAL) < 0)
		return -1;
	y->client.relay.link = how & 16 ? TCP_LINK_UP : TCP_LINK_NONE;
	return take_all(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct yard y;

	open_yard(&y);
	for (int n = 0; n < MESSAGES && in.left; n++) {
		if (send_message(&y, &in))
			break;
		for (int g = 0; g < 2; g++)
			CHECK(!y.group[g].answered || !y.group[g].status ||
			      ori_status_received(y.group[g].status, 0));
		if (y.group[0].answered)
			begin_all(&y);
	}
	ori_tcp_client_lost(&y.client, ORIEL_EPEER, "is gone");
	for (int n = 0; n < 2; n++)
		CHECK(y.group[n].failed < 0);
	close_yard(&y);
	return 0;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static void seed(struct fuzz_output *out, uint8_t how, uint8_t type, uint8_t gid, uint8_t rank,
		 const void *body, uint8_t bytes)
{
	const uint8_t head[] = { how, type, gid, 0, rank };

	fuzz_give(out, head, sizeof(head));
	if (!(how & 3))
		fuzz_give_byte(out, bytes);
	if (bytes)
		fuzz_give(out, body, bytes);
}

size_t fuzz_seed(int n, uint8_t *out, size_t room)
{
	static const uint8_t zeros[ALL_BYTES];
	static const uint32_t left[] = { 0, 3 };
	struct ori_round_report report = { .status = ORIEL_ETIMEDOUT, .kind = ORI_GATHER_MISSING };
	struct {
		int32_t status;
		char text[8];
	} abort_body = { ORIEL_EABORTED, "no disk" };
	struct fuzz_output o = { out, room, 0 };

	report.count = report.total = 1;
	report.ranks[0] = 1;
	switch (n) {
	case 0:
		seed(&o, 1, TCP_RESULT, 0, 5, zeros, ALL_BYTES);
		seed(&o, 16, TCP_COMPLETE, 0, 0, NULL, 0);
		seed(&o, 1, TCP_SPREAD, 0, 5, zeros, ALL_BYTES);
		break;
	case 1:
		seed(&o, 2, TCP_LATE, 1, 0, &report, sizeof(report));
		seed(&o, 2, TCP_FAIL, 0, 0, &report, sizeof(report));
		break;
	case 2:
		seed(&o, 0, TCP_LEFT, 0, 0, left, sizeof(left));
		seed(&o, 0, TCP_DEAD, 0, 2, NULL, 0);
		break;
	case 3:
		seed(&o, 0, TCP_ABORT, 2, 3, &abort_body, sizeof(abort_body));
		seed(&o, 0, TCP_ABORT, 0, 3, &abort_body, sizeof(abort_body));
		break;
	case 5: /* in 16 bits of a failure word this status would be 0 */
	case 6:
		abort_body.status = n == 5 ? -65536 : INT32_MIN;
		seed(&o, 0, TCP_ABORT, 1, 3, &abort_body, sizeof(abort_body));
		break;
	case 4:
		seed(&o, 0, TCP_ASK, 0, 2, NULL, 0);
		seed(&o, 0, TCP_TELL, 0, 2, "waits", 5);
		break;
	default:
		break;
	}
	return o.bytes;
}
