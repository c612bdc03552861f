/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/calls.c - broadcast, all-reduce and reduce-scatter of the host, on a team that belongs
 * to the comm.
 *
 * The first call of a comm creates the team.  A rank with bad arguments takes part too, and tells
 * the others its status in the first round.  On the CPU the call runs on the caller's thread.  On a
 * separate device it is a kernel on the caller's stream; nothing here waits for it, and everything
 * is allowed while the stream is captured.  Calls share the team, so a mark orders them on whatever
 * streams they are.
 *
 * Called by users on any thread, one call at a time per comm.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/coll/reduce.h>
#include <oriel/device/coll.h>

#include "../../comm/agree.h"
#include "../../comm/failure.h"
#include "../../comm/returned.h"
#include "../../kernels/coll.h"
#include "../../window/window.h"
#include "cards.h"
#include "node.h"
#include "team.h"

#define GPU_CHANNELS 32u

/* What a comm keeps. */
struct state {
	struct ori_attachment attachment; /* must be first */
	struct oriel_comm *comm;
	struct oriel_team *team; /* a child of the comm, which destroys it */
	struct ori_mark *mark;   /* behind the last call on a stream */
	struct ori_cards cards;  /* CPU: if all ranks map each other */
};

static void forget(struct ori_attachment *a, const void *owner)
{
	(void)a;
	(void)owner;
}

static void destroy(struct ori_attachment *a)
{
	struct state *s = (struct state *)a;

	s->comm->device->streams->unmark(s->comm->device, s->mark);
	free(s);
}

/*
 * Why the kernel of a call failed.  The refusal is taken in any case: only the first report of a
 * kernel is kept, so this one may belong to a call that nobody will ask about.
 */
static void explain(struct ori_attachment *a, const struct oriel_kernel *kernel, int status,
		    char *out, size_t bytes)
{
	struct state *s = (struct state *)a;
	struct ori_channel state;
	char text[192];

	if (!s->team || ori_team_refusal_read(s->team, 0, &state) || !state.refused)
		return;
	if (kernel != ori_coll_kernel() && kernel != ori_reduce_node_kernel() &&
	    kernel != ori_scatter_node_kernel())
		return;
	if (status != ORIEL_FAILURE_STATUS(state.refused))
		return;
	ori_team_refusal_text(&state, text, sizeof(text));
	snprintf(out, bytes, "%s: %s", ori_team_call_text(state.first.kind), text);
}

/* The other ranks are about to create the team: they learn that this rank cannot. */
static int refuse_memory(struct oriel_comm *c, const char *call)
{
	int err = ori_fail(ORIEL_ENOMEM, "%s: no memory", call);

	(void)ori_agree(c->boot, c->timeout_ns, ORI_CALL_TEAM_CREATE, err, NULL, NULL, 0);
	return err;
}

/* Creates the team at the first call.  Collective then. */
static int get_state(struct oriel_comm *c, const char *call, struct state **out)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct state *s = (struct state *)ori_attachment_find(c, destroy);
	const char *outer;
	int err;

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return refuse_memory(c, call);
		s->comm = c;
		s->attachment.forget = forget;
		s->attachment.destroy = destroy;
		s->attachment.explain = explain;
		ori_attachment_add(c, &s->attachment);
	}
	*out = s;
	if (s->team)
		return 0;
	o.channels = c->device->separate ? GPU_CHANNELS : 1;
	outer = ori_boot_serve_begin(c->boot, call);
	err = ori_team_make(c, call, &o, 1, &s->team);
	ori_boot_serve_end(c->boot, outer);
	if (!err && s->team->desk_off) {
		s->cards.comm = c;
		s->cards.team = &s->team->dev;
		s->cards.desk_off = s->team->desk_off;
		s->cards.strict = s->team->checked;
		s->cards.once = s->team->ways.host_once;
	}
	return err;
}

/* ---- one call -------------------------------------------------------------------------------- */

/* What the last of so many blocks gets, in bytes. */
static uint64_t last_share(const struct ori_terms *call, uint64_t elem, uint64_t blocks)
{
	struct oriel_group last = { .block = (uint32_t)blocks - 1, .nblocks = (uint32_t)blocks };
	uint64_t begin;

	return ori_coll_block_share(call, last, &begin) * elem;
}

/* The number of blocks follows from the call and the team, so it is the same on all ranks. */
static int count_blocks(const struct oriel_team *t, const struct ori_terms *call)
{
	uint64_t elem = call->type ? oriel_type_bytes(call->type) : 1, bytes = call->size * elem;
	uint64_t most = (uint64_t)t->blocks < t->dev.channels ? (uint64_t)t->blocks :
								t->dev.channels;
	uint64_t blocks = bytes / ORI_COLL_BLOCK_BYTES;

	if (t->by_nodes && bytes >= ORI_NODES_BYTES && call->kind != ORI_COLL_REDUCESCATTER) {
		blocks = ori_coll_least(bytes / ORI_NODES_BYTES, most);
		/* a block with less sends to every rank of a node */
		while (blocks > 1 && last_share(call, elem, blocks) < ORI_NODES_BYTES)
			blocks--;
	}
	if (call->refused || blocks < 1 || !t->comm->device->separate)
		return 1;
	return (int)(blocks < most ? blocks : most);
}

static void fill_args(const struct state *s, struct ori_coll_args *args,
		      const struct ori_terms *call, const void *send, void *recv)
{
	args->team = s->team->dev;
	args->launch.report = NULL;
	args->call = *call;
	args->send = send;
	args->recv = recv;
	args->stage_off = s->team->stage_off;
}

/* ---- launch ---------------------------------------------------------------------------------- */

static int launch_separate(struct state *s, const struct ori_terms *call, const void *send,
			   void *recv, void *stream)
{
	const struct oriel_kernel *kernel = ori_node_kernel(s->team, call);
	int node = kernel != NULL, nblocks, err;
	struct oriel_comm *c = s->comm;
	struct ori_mark *mark = NULL;
	struct ori_node_op op;
	struct ori_coll_args args;
	struct ori_launch launch;

	if (node) {
		ori_node_fill(s->team, &op, call, send, recv);
		nblocks = ori_node_blocks(s->team, call);
	} else {
		kernel = ori_coll_kernel();
		fill_args(s, &args, call, send, recv);
		nblocks = count_blocks(s->team, call);
	}
	/* the caller already gets the status of a call that this rank refuses */
	if (!call->refused) {
		ori_returned_prepare(c, kernel, &launch);
		*(node ? &op.launch : &args.launch) = launch.dev;
	}
	/* a posting kernel cannot wake the engine, so the engine must already be polling */
	if (c->engine)
		c->engine->ops->drive(c->engine);
	err = c->device->streams->enter(c->device);
	if (err)
		return ori_comm_device_status(c, err);
	err = c->device->streams->follow(c->device, stream, s->mark);
	if (!err)
		err = c->device->streams->launch(c->device, kernel, nblocks, ORI_COLL_THREADS,
						 node ? (const void *)&op : &args,
						 node ? sizeof(op) : sizeof(args), stream, &mark);
	c->device->streams->leave(c->device);
	if (mark) {
		c->device->streams->unmark(c->device, s->mark);
		s->mark = mark;
	}
	return ori_comm_device_status(c, err);
}

/*
 * The failure of the team or comm, in the words of the user's call.  A wait of this rank that gave
 * up has said more than the team knows: whom it waited for, and why that rank is late.
 */
static int tell_failure(struct state *s, const char *call, int err, uint64_t texts)
{
	int has_text = err == ORIEL_ETIMEDOUT && ori_last_error_count() != texts;
	char text[400];
	int status = has_text ? err : oriel_window_status(s->team->window);

	if (!status)
		return ori_fail(err, "%s: %s", call, oriel_status_text(err));
	snprintf(text, sizeof(text), "%s", oriel_last_error());
	return ori_fail_silent(status, "%s: %s", call, text);
}

static int run_here(struct state *s, const char *name, const struct ori_terms *call,
		    const void *send, void *recv)
{
	uint64_t texts = ori_last_error_count();
	struct ori_coll_args args;
	int err, refused;

	if (s->cards.team) {
		err = ori_cards_run(&s->cards, name, call, send, recv);
	} else {
		fill_args(s, &args, call, send, recv);
		err = ori_coll_kernel()->cpu(&args);
	}
	/* the caller returns the status of a call that this rank refuses, with its own text */
	if (!err || call->refused || s->cards.told)
		return err;
	refused = ori_team_refusal_take(s->team, 0, name);
	return refused ? refused : tell_failure(s, name, err, texts);
}

/*
 * `status` is what this rank found in its arguments.  The other ranks learn it, and this rank
 * returns it with its own text.
 */
static int run(struct oriel_comm *c, const char *name, int status, struct ori_terms call,
	       const void *send, void *recv, void *stream)
{
	struct state *s = NULL;
	char text[256];
	int err;

	if (status)
		snprintf(text, sizeof(text), "%s", oriel_last_error());
	err = get_state(c, name, &s);
	if (err)
		return err;
	if (status)
		call.refused = (uint8_t)-status;
	if (c->device->separate)
		err = launch_separate(s, &call, send, recv, stream);
	else
		err = run_here(s, name, &call, send, recv);
	return status ? ori_fail_silent(status, "%s", text) : err;
}

/* ---- for tests ------------------------------------------------------------------------------- */

struct oriel_team *ori_team_of_calls(struct oriel_comm *c)
{
	const struct state *s = (const struct state *)ori_attachment_find(c, destroy);

	return s ? s->team : NULL;
}

void ori_team_count_calls(struct oriel_comm *c, uint64_t calls)
{
	struct state *s = (struct state *)ori_attachment_find(c, destroy);

	s->cards.calls = s->cards.met = calls;
}

int ori_team_last_way(struct oriel_comm *c)
{
	const struct state *s = (const struct state *)ori_attachment_find(c, destroy);
	const struct oriel_team *t = ori_team_of_calls(c);
	struct ori_coll_desk desk;

	if (!t)
		return 0;
	if (!t->stage_off)
		return s->cards.way;
	if (oriel_copy(c, &desk, t->dev.win.buffer + t->stage_off, sizeof(desk)))
		return -1;
	return (int)desk.way;
}

int ori_team_ways_set(struct oriel_comm *c, const struct ori_tune_ways *ways)
{
	struct state *s = (struct state *)ori_attachment_find(c, destroy);

	if (!s || !s->team)
		return ori_fail(ORIEL_EINVAL, "no call of the host has made a team yet");
	s->team->ways = *ways;
	s->team->dev.once_bytes = ways->once;
	s->cards.once = ways->host_once;
	return 0;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static int check_buffers(const char *name, uint64_t count, const void *send, const void *recv)
{
	if (!count || (send && recv))
		return 0;
	return ori_fail(ORIEL_EINVAL, "%s: %s is NULL", name, recv ? "sendbuf" : "recvbuf");
}

static int check_count(const char *name, uint64_t count)
{
	if (count <= ORI_COLL_COUNT_MAX)
		return 0;
	return ori_fail(ORIEL_ERANGE, "%s: count %llu, at most %llu", name,
			(unsigned long long)count, ORI_COLL_COUNT_MAX);
}

static int check_reduction(const char *name, int type, int op)
{
	if (oriel_reduce_is_valid(type, op))
		return 0;
	if (!oriel_type_bytes(type))
		return ori_fail(ORIEL_EINVAL, "%s: type %d, must be one of ORIEL_TYPE_*", name,
				type);
	if (op < ORIEL_REDUCE_SUM || op > ORIEL_REDUCE_XOR)
		return ori_fail(ORIEL_EINVAL, "%s: operator %d, must be one of ORIEL_REDUCE_*",
				name, op);
	return ori_fail(ORIEL_EINVAL, "%s: operator %d combines bits, which type %d does not allow",
			name, op, type);
}

static int check_overlap(const char *name, const void *send, uint64_t send_bytes, const void *recv,
			 uint64_t recv_bytes, uint64_t allowed)
{
	uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;

	if (s == r || r == s + allowed || s + send_bytes <= r || r + recv_bytes <= s)
		return 0;
	return ori_fail(ORIEL_EINVAL,
			"%s: sendbuf and recvbuf overlap, but are not in place: recvbuf is at %lld",
			name, (long long)(r - s));
}

/* ---- public ---------------------------------------------------------------------------------- */

int oriel_broadcast(struct oriel_comm *c, void *buffer, uint64_t count, uint64_t elem_bytes,
		    int root, void *stream)
{
	const char *name = "oriel_broadcast";
	int status = 0, err = ori_comm_check(c, name);
	struct ori_terms call;

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	if (root < 0 || root >= c->nranks)
		status = ori_fail(ORIEL_ERANGE, "%s: root %d does not exist (ranks are 0 to %d)",
				  name, root, c->nranks - 1);
	else if (!elem_bytes)
		status = ori_fail(ORIEL_EINVAL, "%s: elements of 0 bytes", name);
	else if (count > ORI_COLL_COUNT_MAX / elem_bytes)
		status = ori_fail(ORIEL_ERANGE, "%s: %llu elements of %llu bytes, at most %llu",
				  name, (unsigned long long)count, (unsigned long long)elem_bytes,
				  ORI_COLL_COUNT_MAX);
	else if (count && !buffer)
		status = ori_fail(ORIEL_EINVAL, "%s: buffer is NULL", name);
	call = ori_terms_broadcast(c->nranks, status ? 0 : count * elem_bytes, root);
	return run(c, name, status, call, buffer, buffer, stream);
}

int oriel_allreduce(struct oriel_comm *c, const void *sendbuf, void *recvbuf, uint64_t count,
		    int type, int op, void *stream)
{
	const char *name = "oriel_allreduce";
	const void *send = sendbuf ? sendbuf : recvbuf;
	uint64_t bytes;
	int status, err = ori_comm_check(c, name);

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	status = check_reduction(name, type, op);
	if (!status)
		status = check_count(name, count);
	if (!status)
		status = check_buffers(name, count, send, recvbuf);
	bytes = status ? 0 : count * oriel_type_bytes(type);
	if (!status)
		status = check_overlap(name, send, bytes, recvbuf, bytes, 0);
	return run(c, name, status, ori_terms_reduce(ORI_COLL_ALLREDUCE, count, type, op), send,
		   recvbuf, stream);
}

int oriel_reducescatter(struct oriel_comm *c, const void *sendbuf, void *recvbuf, uint64_t count,
			int type, int op, void *stream)
{
	const char *name = "oriel_reducescatter";
	uint64_t bytes;
	int status, err = ori_comm_check(c, name);

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	status = check_reduction(name, type, op);
	if (!status)
		status = check_count(name, count);
	if (!status)
		status = check_buffers(name, count, sendbuf, recvbuf);
	bytes = status ? 0 : count * oriel_type_bytes(type);
	if (!status)
		status = check_overlap(name, sendbuf, bytes * (uint64_t)c->nranks, recvbuf, bytes,
				       bytes * (uint64_t)c->rank);
	return run(c, name, status, ori_terms_reduce(ORI_COLL_REDUCESCATTER, count, type, op),
		   sendbuf, recvbuf, stream);
}
