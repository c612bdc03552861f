/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/node.c - what the host does for the kernels of long calls (kernels/node.h): which calls
 * are long, with how many blocks, and where their buffers are in windows.
 *
 * Called by calls.c on the thread of the call.
 */
#include <oriel/device/coll.h>

#include "../../window/window.h"
#include "node.h"

/* Bytes of the receive buffer. */
static uint64_t bytes_of(const struct ori_terms *call)
{
	return call->size * (call->type ? oriel_type_bytes(call->type) : 1);
}

/* long_from counts all bytes that a rank gives or, in a broadcast, gets. */
const struct oriel_kernel *ori_node_kernel(const struct oriel_team *t, const struct ori_terms *call)
{
	uint64_t bytes = bytes_of(call);

	if (!t->stage_off || call->refused)
		return NULL;
	if (call->kind == ORI_COLL_REDUCESCATTER)
		bytes *= (uint64_t)t->comm->nranks;
	if (bytes < t->ways.long_from)
		return NULL;
	return call->kind == ORI_COLL_ALLREDUCE ? ori_reduce_node_kernel() :
						  ori_scatter_node_kernel();
}

/*
 * A block moves a unit per thread at a time.  With eight ranks on a GPU, where 14 fit, 8 blocks
 * took 293 us for an all-reduce of 64 MiB, 7 took 303 and 12 took 310.
 */
int ori_node_blocks(const struct oriel_team *t, const struct ori_terms *call)
{
	uint64_t piece = bytes_of(call), n = (uint64_t)t->comm->nranks, blocks;
	uint64_t most = ((uint64_t)t->blocks + 2) / 2;

	if (call->kind == ORI_COLL_ALLREDUCE)
		piece /= n;
	else if (call->kind == ORI_COLL_BROADCAST && n > 1)
		piece /= n - 1;
	blocks = piece / (16u * ORI_COLL_THREADS);
	blocks = blocks < most ? blocks : most;
	return blocks ? (int)blocks : 1;
}

/* The window of the comm in which a buffer lies; the kernels move units of 16 bytes. */
static struct oriel_window *find_place(struct oriel_comm *c, const void *data, uint64_t bytes,
				       int32_t *number, uint64_t *off)
{
	struct oriel_window *w = NULL;

	if (!(((uintptr_t)data | bytes) & 15u))
		w = ori_window_covering(c, data, bytes);
	*number = w ? w->number : -1;
	*off = w ? (uint64_t)((const char *)data - (const char *)w->buffer) : 0;
	return w;
}

/*
 * The other ranks read what a rank gives while it stores its result.  A result at the start of the
 * elements would be in the block that rank 0 reads.
 */
static int may_scatter(const struct ori_node_op *op, uint64_t bytes, uint64_t gives)
{
	uintptr_t s = (uintptr_t)op->send, r = (uintptr_t)op->recv;

	if ((r | bytes) & 15u)
		return 0;
	return r == s + (uint64_t)op->comm.rank * bytes || r + bytes <= s || s + gives <= r;
}

/*
 * All buffers in windows, or none.  The result of a reduce-scatter need not be in one: only its own
 * rank stores it.
 */
static void find_places(struct oriel_comm *c, struct ori_node_op *op)
{
	int scatters = op->call.kind == ORI_COLL_REDUCESCATTER;
	uint64_t bytes = bytes_of(&op->call);
	uint64_t gives = scatters ? bytes * (uint64_t)c->nranks : bytes;
	struct ori_coll_places *p = &op->places;
	const struct oriel_window *send = NULL, *recv;

	if (!scatters || may_scatter(op, bytes, gives))
		send = find_place(c, op->send, gives, &p->send_window, &p->send_off);
	recv = scatters ? send : find_place(c, op->recv, bytes, &p->recv_window, &p->recv_off);
	if (!send || !recv) {
		p->send_window = p->recv_window = -1;
		return;
	}
	for (int r = 0; r < c->nranks; r++) {
		op->near[r].send = send->dev.inline_peers[r].buffer;
		op->near[r].recv = recv->dev.inline_peers[r].buffer;
	}
}

static_assert(ORI_COLL_STAGE_RANKS <= ORIEL_INLINE_PEERS, "the host knows these peers' memory");

void ori_node_fill(const struct oriel_team *t, struct ori_node_op *op, const struct ori_terms *call,
		   const void *send, void *recv)
{
	const struct oriel_window_dev *win = &t->dev.win;

	*op = (struct ori_node_op){ .comm = win->comm,
				    .failure = win->failure,
				    .signal_words = win->signal_words,
				    .signal_stride = win->signal_stride,
				    .ready = ORI_COLL_READY(t->dev.channels),
				    .met = ORI_COLL_MET(t->dev.channels),
				    .team = t->near_handle,
				    .call = *call,
				    .send = send,
				    .recv = recv,
				    .number = win->number };
	for (int r = 0; r < win->comm.nranks; r++) {
		op->near[r].desk = (struct ori_coll_desk *)(void *)(win->inline_peers[r].buffer +
								    t->stage_off);
		op->near[r].signals = win->inline_peers[r].signals;
	}
	find_places(t->comm, op);
}
