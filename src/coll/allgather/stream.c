/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/stream.c - one exec as work on a stream: copies by the copy engine, and kernels of
 * one warp that signal and wait.
 *
 * Large blocks use no SMs for data.  The steps are: copy the own block to self, handshake, copy it
 * to the mapped peers.  Then, for each block from another node, a kernel waits for it and forwards
 * it to queued peers, and copies follow.  Small blocks are one kernel.  Nothing here queries the
 * device or waits.  So all of it may be captured into a graph, which then holds the request.
 *
 * Called by request.c on the thread that runs the exec.
 */
#include <stdlib.h>
#include <string.h>

#include "../../comm/control.h"
#include "gather.h"

/* The smallest slice of an own block that is divided among several blocks of a kernel. */
#define SLICE_BYTES (16u << 10)
#define SLICES_MIN 4u  /* this many per rank are allowed, ... */
#define ITEMS_MOST 32u /* ... and this many in total, whichever is more */
/*
 * An SM has room for two blocks of the kernel.  From LONE_BYTES on two on one SM only make each
 * other slow.  From WIDE_BYTES on the memory of the GPU is the limit, and blocks on half of its SMs
 * are faster than on all: 396 us instead of 550 for 16 MiB between 8 ranks.
 */
#define LONE_BYTES (256u << 10)
#define WIDE_BYTES (4u << 20)
#define FEW_THREADS 128 /* if more threads would have nothing to copy */
#define FEW_BYTES (FEW_THREADS * 16u * 2u)
#define WARP_THREADS 32

struct job {
	struct oriel_allgather_request *req;
	struct ori_device *device;
	const struct ori_gather_plan *plan;
	struct ori_gather_op op;
	const uint8_t *send;
	void *stream;
	int nmapped;
};

static int launch_grid(struct job *j, const struct oriel_kernel *kernel, int nblocks, int nthreads,
		       const void *args, size_t args_bytes)
{
	struct ori_mark *mark = NULL;
	int err = j->device->streams->launch(j->device, kernel, nblocks, nthreads, args, args_bytes,
					     j->stream, &mark);

	ori_gather_set_mark(j->req, mark);
	return err;
}

static int launch(struct job *j, int code, int first)
{
	j->op.code = code;
	j->op.first = first;
	return launch_grid(j, ori_gather_kernel(), 1, WARP_THREADS, &j->op, sizeof(j->op));
}

/* Copies the own block to its place on this rank. */
static int copy_to_self(struct job *j)
{
	const struct oriel_gather_view *view = &j->req->view;
	struct ori_copy_job copy = { view->buffer + (uint64_t)j->req->comm->rank * j->op.bytes,
				     j->send, j->op.bytes };

	return copy.to == copy.from ? 0 :
				      j->device->streams->copies(j->device, &copy, 1, j->stream);
}

/* Copies an item to all mapped peers, starting with the next rank of the node. */
static int broadcast(struct job *j, const uint8_t *from, int item)
{
	const struct oriel_gather_view *view = &j->req->view;
	const struct ori_gather_map *m = &j->req->state->map;
	uint64_t off = (uint64_t)j->plan->block[item] * j->op.bytes;
	int node = m->node[m->rank], n = 0, err = 0;
	struct ori_copy_job copies[16];

	for (int i = 0; i < j->nmapped && !err; i++) {
		int peer = m->members[m->first[node] + (m->rail[m->rank] + 1 + i) % m->size[node]];

		copies[n++] = (struct ori_copy_job){ view->mapped[peer] + off, from, j->op.bytes };
		if (n == (int)ORI_COUNT(copies) || i + 1 == j->nmapped) {
			err = j->device->streams->copies(j->device, copies, n, j->stream);
			n = 0;
		}
	}
	return err;
}

static int enqueue_large(struct job *j)
{
	int first = 1, err = copy_to_self(j);

	if (!err)
		err = launch(j, ORI_GATHER_BEGIN, 0);
	if (!err)
		err = broadcast(j, j->send, 0);
	/*
	 * Without mapped peers, or with nothing to forward to them, the last kernel does all steps.
	 */
	for (; j->plan->relay && j->nmapped && first < j->plan->nitems && !err; first++) {
		err = launch(j, ORI_GATHER_STEP, first);
		if (!err)
			err = broadcast(j,
					j->req->view.buffer +
						(uint64_t)j->plan->block[first] * j->op.bytes,
					first);
	}
	return err ? err : launch(j, ORI_GATHER_END, first);
}

/* With several nodes the same on all ranks of a node: a rank counts the slices that arrive. */
static uint32_t count_slices(uint64_t bytes, uint32_t targets)
{
	uint64_t slices = (bytes + SLICE_BYTES - 1) / SLICE_BYTES;
	uint32_t most = ITEMS_MOST / targets > SLICES_MIN ? ITEMS_MOST / targets : SLICES_MIN;

	return slices < most ? (uint32_t)slices : most;
}

/* With one node ranks may have different numbers. */
static uint32_t cut_slices(uint32_t slices, uint64_t bytes, uint32_t targets, int resident)
{
	uint32_t room = resident > 0 ? (uint32_t)resident : 1;
	uint32_t part = bytes < LONE_BYTES ? 1 : bytes < WIDE_BYTES ? 2 : 4;
	uint32_t most = room / part / targets;

	/* by hand, between 3 ranks of a GPU, 4 slices of 13 MiB took 90 us, 8 took 59, 16 70 */
	if (bytes >= WIDE_BYTES && room / part % targets)
		most++;
	most = most ? most : 1;
	return slices < most ? slices : most;
}

static void fill_node_op(const struct job *j, struct ori_gather_node_op *op)
{
	const struct oriel_window_dev *w = &j->op.words;

	*op = (struct ori_gather_node_op){ .comm = w->comm,
					   .failure = w->failure,
					   .signal_words = w->signal_words,
					   .signal_base = w->signal_base,
					   .signal_turns = w->signal_turns,
					   .peers = w->peers,
					   .mapped = j->op.view.mapped,
					   .buffer = j->op.view.buffer,
					   .send = j->send,
					   .blocks_done = j->op.blocks_done,
					   .bytes = j->op.bytes,
					   .signal_stride = w->signal_stride,
					   .guarded = j->op.guarded,
					   .slices = j->op.slices,
					   .number = w->number };
	for (int r = 0; r < w->comm.nranks && r < ORI_GATHER_INLINE_PEERS; r++) {
		op->near[r].memory = j->req->view.mapped[r];
		op->near[r].signals = w->inline_peers[r].signals;
	}
}

/*
 * One block per item, or as many as can be resident together with those of all ranks of the GPU.
 * In the second case a block executes several items in turn.  So the launch never exceeds its
 * limit.
 */
static int enqueue_small(struct job *j)
{
	int one_node = j->req->state->map.nnodes == 1;
	const struct oriel_kernel *kernel = one_node ? ori_gather_node_kernel() :
						       ori_gather_kernel();
	int nthreads = j->op.bytes <= FEW_BYTES ? FEW_THREADS : ORI_GATHER_COPY_THREADS;
	int nblocks, resident = 0, err;
	struct ori_gather_node_op node;

	j->op.code = ORI_GATHER_ALL;
	j->op.slices = count_slices(j->op.bytes, (uint32_t)j->nmapped + 1);
	err = j->device->ops->resident(j->device, kernel, nthreads, &resident);
	if (err)
		return err;
	if (one_node)
		j->op.slices = cut_slices(j->op.slices, j->op.bytes, (uint32_t)j->nmapped + 1,
					  resident);
	nblocks = (j->nmapped + 1) * (int)j->op.slices;
	nblocks = nblocks < resident ? nblocks : resident;
	/* with less than one, the launch refuses and gives the reason */
	nblocks = nblocks > 0 ? nblocks : 1;
	if (!one_node)
		return launch_grid(j, kernel, nblocks, nthreads, &j->op, sizeof(j->op));
	fill_node_op(j, &node);
	return launch_grid(j, kernel, nblocks, nthreads, &node, sizeof(node));
}

int ori_gather_mark(struct oriel_allgather_request *r, void *stream)
{
	struct ori_mark *mark = NULL;
	int err = r->comm->device->streams->mark(r->comm->device, stream, &mark);

	ori_gather_set_mark(r, mark);
	return err;
}

/* While the stream is captured, the graph holds the request, and the request holds its memory. */
static int hold(struct oriel_allgather_request *r, void *stream)
{
	struct ori_gather_token *t = r->token;
	int held = 0, err;

	__atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&t->graphs, 1, __ATOMIC_RELAXED);
	err = r->comm->device->streams->hold(r->comm->device, stream, ori_gather_graph_gone, t,
					     &held);
	if (err || !held) {
		ori_gather_graph_gone(t);
		return err;
	}
	pthread_mutex_lock(&r->state->lock);
	ori_gather_hold(r);
	pthread_mutex_unlock(&r->state->lock);
	return 0;
}

int ori_gather_enqueue(struct oriel_allgather_request *r, const void *sendbuf,
		       const struct ori_gather_choice *choice, const struct ori_gather_plan *plan,
		       uint64_t bytes, void *stream)
{
	const struct ori_gather_map *m = &r->state->map;
	struct job j = { .req = r,
			 .device = r->comm->device,
			 .plan = plan,
			 .send = sendbuf,
			 .stream = stream,
			 .nmapped = m->size[m->node[m->rank]] - 1 };
	struct ori_gather_near **near = &r->near[plan->algorithm];
	const struct ori_stream_ops *streams = r->comm->device->streams;
	int err = *near ? 0 : ori_gather_near_make(r, plan, near);

	if (!err)
		err = streams->enter(r->comm->device);
	if (err)
		return err;
	err = hold(r, stream);
	/* the words count execs in one order, on any streams */
	if (!err)
		err = streams->follow(r->comm->device, stream, r->mark);
	if (err) {
		streams->leave(r->comm->device);
		return err;
	}
	j.op = (struct ori_gather_op){ .words = *ori_gather_dev(r),
				       .view = r->near_view,
				       .plan = (*near)->table,
				       .send = sendbuf,
				       .blocks_done = (uint32_t *)(uintptr_t)(*near)->done,
				       .bytes = bytes,
				       .chunk = choice->chunk,
				       .pieces = (bytes + choice->chunk - 1) / choice->chunk,
				       .lanes = r->lanes,
				       .guarded = !(r->options.flags & ORIEL_GATHER_UNGUARDED),
				       .relay = (uint32_t)plan->relay };
	err = bytes <= r->kernel_bytes ? enqueue_small(&j) : enqueue_large(&j);
	/*
	 * On an error the stream may have got a part of the work.  On success the last kernel has
	 * set the mark.
	 */
	if (err)
		(void)ori_gather_mark(r, stream);
	streams->leave(r->comm->device);
	return err;
}
