/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/stream.c - one exec as work on a stream: copies of the copy engine, and kernels of one warp that say
 * and see that something is there.
 *
 * Large blocks use no SMs for data: own block to self, handshake, own block to the mapped peers, and for each block
 * that comes from another node a kernel that waits for it and posts it on, and then its copies.  Small ones are one
 * kernel.  Nothing here asks the device anything or waits, so all of it may be captured into a graph, which then
 * holds the request.
 *
 * Called by request.c on the thread that runs the exec.
 */
#include <stdlib.h>
#include <string.h>

#include "../../comm/control.h"
#include "gather.h"

#define SLICE_BYTES                                                                                \
	(64u << 10) /* of an own block, at least, where it is cut for several blocks of a kernel */
#define SLICES_MIN 4u   /* there may be so many for each rank, ... */
#define ITEMS_MOST 32u  /* ... and so many for all of them, whichever is more */
#define FEW_THREADS 128 /* where more would have nothing to copy */
#define FEW_BYTES (FEW_THREADS * 16u * 2u)
#define WARP_THREADS 32

/* A plan where kernels read it. */
struct ori_gather_near {
	struct ori_gather_table table;
	int32_t *host; /* what was published, and how much */
	const void *near;
	uint64_t bytes;
	const void *done; /* the word that counts blocks of a grid */
	uint64_t zero;    /* what it starts with */
};

/* ---- tables -------------------------------------------------------------------------------------------- */

static int count_sends(const struct ori_gather_plan *p)
{
	int n = 0;

	for (int f = 0; f < p->nout; f++)
		n += p->out[f].nitems;
	return n;
}

/* Takes n numbers of the table: where they are here, and in *near where kernels find them. */
static int32_t *take(struct ori_gather_near *n, int *at, int count, const int32_t **near)
{
	int32_t *here = n->host + *at;

	*near = (const int32_t *)n->near + *at;
	*at += count;
	return here;
}

static void fill_sends(const struct ori_gather_plan *p, int32_t *first, int32_t *flow,
		       int32_t *place)
{
	int n = 0;

	for (int i = 0; i < p->nitems; i++) {
		first[i] = n;
		for (int f = 0; f < p->nout; f++)
			for (int k = 0; k < p->out[f].nitems; k++)
				if (p->out[f].items[k] == i) {
					flow[n] = f;
					place[n++] = k;
				}
	}
	first[p->nitems] = n;
}

static void fill_table(const struct ori_gather_map *m, const struct ori_gather_plan *p,
		       struct ori_gather_near *n)
{
	struct ori_gather_table *t = &n->table;
	int node = m->node[m->rank], size = m->size[node], at = 0, sends = count_sends(p);
	int32_t *to, *first, *flow;

	t->nmapped = size - 1;
	t->nin = p->nin;
	t->nout = p->nout;
	t->nitems = p->nitems;
	to = take(n, &at, size - 1, &t->mapped);
	for (int i = 0; i < size - 1; i++)
		to[i] = m->members[m->first[node] + (m->rail[m->rank] + 1 + i) % size];
	to = take(n, &at, p->nin, &t->in_peer);
	for (int f = 0; f < p->nin; f++)
		to[f] = p->in[f].peer;
	to = take(n, &at, p->nin, &t->in_items);
	for (int f = 0; f < p->nin; f++)
		to[f] = p->in[f].nitems;
	to = take(n, &at, p->nout, &t->out_peer);
	for (int f = 0; f < p->nout; f++)
		to[f] = p->out[f].peer;
	memcpy(take(n, &at, p->nitems, &t->block), p->block, sizeof(int32_t) * (size_t)p->nitems);
	memcpy(take(n, &at, p->nitems, &t->from), p->from, sizeof(int32_t) * (size_t)p->nitems);
	memcpy(take(n, &at, p->nitems, &t->place), p->place, sizeof(int32_t) * (size_t)p->nitems);
	first = take(n, &at, p->nitems + 1, &t->send_first);
	flow = take(n, &at, sends, &t->send_flow);
	fill_sends(p, first, flow, take(n, &at, sends, &t->send_place));
}

static void free_near(struct oriel_comm *c, struct ori_gather_near *n)
{
	if (!n)
		return;
	ori_control_unpublish(c, n->near, n->bytes);
	ori_control_unpublish(c, n->done, sizeof(n->zero));
	free(n->host);
	free(n);
}

void ori_gather_near_free(struct oriel_allgather_request *r)
{
	for (int a = 0; a < 4; a++) {
		free_near(r->comm, r->near[a]);
		r->near[a] = NULL;
	}
}

/* The place is known before what is there: pointers in the table are of the published copy. */
static int make_near(struct oriel_allgather_request *r, const struct ori_gather_plan *p,
		     struct ori_gather_near **out)
{
	const struct ori_gather_map *m = &r->state->map;
	size_t words = (size_t)m->size[m->node[m->rank]] + 2 * (size_t)p->nin + (size_t)p->nout +
		       4 * (size_t)p->nitems + 1 + 2 * (size_t)count_sends(p);
	struct ori_gather_near *n = calloc(1, sizeof(*n));
	int err;

	if (n)
		n->host = calloc(words, sizeof(*n->host));
	if (!n || !n->host) {
		free(n);
		return ori_fail(ORIEL_ENOMEM, "no memory for the plan of an all-gather");
	}
	n->bytes = words * sizeof(*n->host);
	err = ori_control_publish(r->comm, n->host, n->bytes, &n->near);
	if (!err)
		err = ori_control_publish(r->comm, &n->zero, sizeof(n->zero), &n->done);
	if (!err) {
		fill_table(m, p, n);
		err = r->comm->device->ops->copy(r->comm->device, (void *)(uintptr_t)n->near,
						 n->host, n->bytes);
	}
	if (err) {
		free_near(r->comm, n);
		return err;
	}
	*out = n;
	return 0;
}

/* ---- the work ------------------------------------------------------------------------------------------ */

struct job {
	struct oriel_allgather_request *req;
	struct ori_device *device;
	const struct ori_gather_plan *plan;
	struct ori_gather_op op;
	const uint8_t *send;
	void *stream;
	int nmapped;
};

static int launch(struct job *j, int code, int first)
{
	j->op.code = code;
	j->op.first = first;
	return j->device->streams->launch(j->device, ori_gather_kernel(), 1, WARP_THREADS, &j->op,
					  sizeof(j->op), j->stream, &j->req->mark);
}

/* The own block to its place here. */
static int copy_to_self(struct job *j)
{
	const struct oriel_gather_view *view = &j->req->view;
	struct ori_copy_job copy = { view->buffer + (uint64_t)j->req->comm->rank * j->op.bytes,
				     j->send, j->op.bytes };

	return copy.to == copy.from ? 0 :
				      j->device->streams->copies(j->device, &copy, 1, j->stream);
}

/* An item to all mapped peers, from the next rank of the node on. */
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
	/* Without mapped peers, or with nothing to hand on to them, the last kernel does all steps. */
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

/* Alike on all ranks of a node, for a rank counts the slices that come. */
static uint32_t count_slices(uint64_t bytes, uint32_t targets)
{
	uint64_t slices = (bytes + SLICE_BYTES - 1) / SLICE_BYTES;
	uint32_t most = ITEMS_MOST / targets > SLICES_MIN ? ITEMS_MOST / targets : SLICES_MIN;

	return slices < most ? (uint32_t)slices : most;
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
 * One block for each item, or as many as can be resident beside those of all ranks of the GPU: they take several
 * in turn.  What the launch would refuse is never asked of it.
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
	nblocks = (j->nmapped + 1) * (int)j->op.slices;
	err = ori_cuda_resident(j->device, kernel, nthreads, &resident);
	if (err)
		return err;
	nblocks = nblocks < resident ? nblocks : resident;
	/* less than one is for the launch to refuse, with its reason */
	nblocks = nblocks > 0 ? nblocks : 1;
	if (!one_node)
		return j->device->streams->launch(j->device, kernel, nblocks, nthreads, &j->op,
						  sizeof(j->op), j->stream, &j->req->mark);
	fill_node_op(j, &node);
	return j->device->streams->launch(j->device, kernel, nblocks, nthreads, &node, sizeof(node),
					  j->stream, &j->req->mark);
}

/* While the stream is captured the graph holds the request, and the request its memory. */
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
	int err = *near ? 0 : make_near(r, plan, near);

	if (!err)
		err = hold(r, stream);
	/* the words count execs in one order, whatever streams they are on */
	if (!err)
		err = streams->follow(r->comm->device, stream, r->mark);
	if (err)
		return err;
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
	 * the stream may have got a part of it; all of it ends with a kernel, which has set the
	 * mark
	 */
	if (err)
		(void)streams->mark(r->comm->device, stream, &r->mark);
	return err;
}
