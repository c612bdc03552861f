/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/gather.h - the all-gather for devices: the view of receive memory, the words, and the put
 * to a queued peer.  Host code on the CPU and kernels on a GPU share it.
 *
 * Called by one thread at a time per request: by coll/allgather on the CPU, by kernels/gather.c and
 * gather_node.c on a GPU.
 */
#ifndef ORI_KERNELS_GATHER_H
#define ORI_KERNELS_GATHER_H

#include <oriel/device.h>

/* Signals of a request's words.  All use ORIEL_ADD and count from the end of the last exec. */
#define ORI_GATHER_READY 0 /* 1: that rank may be written to */
#define ORI_GATHER_LOCAL 1 /* 1, or ONE in gather_node.c: that rank has stored all its data here */
#define ORI_GATHER_NET 2   /* + lane: pieces that came through queues */
#define ORI_GATHER_ONE 65536u /* more than a rank's block has slices */

/*
 * Receive memory of any origin; all code that moves data uses it.  The blocks of all ranks lie one
 * after the other in it, with the same layout on every rank.
 */
struct oriel_gather_view {
	uint8_t *buffer;            /* this rank's */
	uint64_t bytes;             /* of it, alike on every rank */
	struct oriel_source source; /* this rank's, for queues; offset 0 is buffer */
	uint8_t *const *mapped;     /* [nranks] where peers' are mapped; NULL for queued peers */
	const struct oriel_remote *remote; /* [nranks] queued peers' */
};

/*
 * Called by one thread: posts `bytes` at `off` of this rank's receive memory to the same offset at
 * the peer, and then the arrival signal, on that lane.
 */
ORIEL_DEV int ori_gather_put(const struct oriel_gather_view *view,
			     const struct oriel_window_dev *words, int peer, uint32_t lane,
			     uint64_t off, uint64_t bytes)
{
	const struct oriel_window_link *link = ori_peer_entry(words, peer)->link;
	const struct oriel_remote *to = &view->remote[peer];
	struct ori_op_context scope = ori_window_context(words);
	struct ori_post post;

	if (!link || !link->link)
		return ORIEL_ENOTCONN;
	ori_post_init(&post);
	post.remote = to->address + off;
	post.rkey = to->key;
	post.local = view->source.address + off;
	post.lkey = view->source.key;
	post.bytes = bytes;
	ori_post_set_signal(words, &post, link, peer, ORI_GATHER_NET + (int)lane, ORIEL_ADD, 1);
	return ori_queue_post(&scope, link->link, lane, &post);
}

/* How many of n pieces use lane `lane`; piece k uses lane k % lanes. */
ORIEL_DEV uint64_t ori_gather_share(uint64_t n, uint32_t lanes, uint32_t lane)
{
	return n > lane ? (n - lane + lanes - 1) / lanes : 0;
}

/* Called by one thread: waits until all pieces to the peer are complete. */
ORIEL_DEV int ori_gather_flush(const struct oriel_window_dev *words, int peer, uint32_t lanes)
{
	const struct oriel_window_link *link = ori_peer_entry(words, peer)->link;
	struct ori_op_context scope = ori_window_context(words);
	int err = link && link->link ? 0 : ORIEL_ENOTCONN;

	for (uint32_t l = 0; l < lanes && !err; l++)
		err = ori_lane_flush(&scope, link->link, l);
	return err;
}

/* Signals of (peer, id) received in this exec.  Acquire: [SIG3] in oriel_read_signal_from(). */
ORIEL_DEV uint64_t ori_gather_count(const struct oriel_window_dev *words, int peer, int id)
{
	return oriel_read_signal_from(words, peer, id);
}

/* The next exec counts from here.  One thread at a time. */
ORIEL_DEV void ori_gather_advance(const struct oriel_window_dev *words, int peer, int id,
				  uint64_t n)
{
	uint64_t *base = &words->signal_base[ori_signal_index(words, peer, id)];

	ori_store_relaxed_sys(base, ori_load_relaxed_sys(base) + n);
}

/*
 * Called by one thread.  An exec that ended without its peers leaves ranks with different counts.
 * So the request becomes unusable on this rank and on all ranks that would wait for it.
 */
ORIEL_DEV_OUT void ori_gather_give_up(const struct oriel_window_dev *words, int err, int peer)
{
	uint64_t failure = ORIEL_FAILURE_LATE(err, peer, words->comm.rank);

	/* acq_rel without a partner: no other data depends on a failure word */
	ori_compare_swap_acq_rel_sys(words->failure, 0, failure);
	/* if the comm has failed, all ranks know already */
	if (ori_failed(&words->comm, NULL))
		return;
	for (int p = 0; p < words->comm.nranks; p++) {
		const struct oriel_window_peer *other = ori_peer_entry(words, p);

		if (p == words->comm.rank)
			continue;
		if (other->failure)
			ori_tell_failure(other, failure);
		else if (other->link && other->link->link)
			ori_fail_queued(words, other->link, failure);
	}
}

/* ---- kernels -------------------------------------------------------------------------------- */

#define ORI_GATHER_BEGIN 1 /* handshake, own block to queued peers */
#define ORI_GATHER_STEP 2  /* waits for item `first`, forwards it to queued peers */
/* STEP for all items from `first` on; then waits until all data has arrived and left. */
#define ORI_GATHER_END 3
/* Everything, with the copies of small blocks.  Inside one node gather_node.c does that. */
#define ORI_GATHER_ALL 4

/* A plan for kernels (coll/allgather/plan.c).  All tables lie in one piece of memory. */
struct ori_gather_table {
	const int32_t *mapped;     /* [nmapped] from the next rank of the node on */
	const int32_t *in_peer;    /* [nin] */
	const int32_t *in_items;   /* [nin] number of items it brings */
	const int32_t *out_peer;   /* [nout] */
	const int32_t *block;      /* [nitems] rank that owns it */
	const int32_t *from;       /* [nitems] in-flow; -1: own */
	const int32_t *place;      /* [nitems] position in that flow */
	const int32_t *send_first; /* [nitems + 1] index of its first send */
	const int32_t *send_flow;  /* [nsends] */
	const int32_t *send_place; /* [nsends] position in that flow */
	int32_t nmapped, nin, nout, nitems;
};

struct ori_gather_op {
	struct oriel_window_dev words;
	struct oriel_gather_view view;
	struct ori_gather_table plan;
	const uint8_t *send;   /* ORI_GATHER_ALL: the own block */
	uint32_t *blocks_done; /* ORI_GATHER_ALL: of the grid; 0 between launches */
	uint64_t bytes, chunk, pieces;
	uint32_t lanes, guarded, relay, slices;
	int32_t code, first;
};

/*
 * ORI_GATHER_ALL among mapped peers only.  It is sent with every launch, which takes time on a GPU
 * that many ranks share.  So it holds only what that kernel needs.
 */
#define ORI_GATHER_INLINE_PEERS 8

struct ori_gather_node_op {
	struct oriel_comm_dev comm;
	uint64_t *failure; /* of the words, and so are these */
	uint64_t *signal_words, *signal_base;
	struct oriel_turn *signal_turns;
	const struct oriel_window_peer *peers; /* all of them, in the device's memory */
	uint8_t *const *mapped;                /* their receive memory; this table is there too */
	uint8_t *buffer;
	const uint8_t *send;
	uint32_t *blocks_done; /* of the grid; 0 between launches */
	uint64_t bytes;
	uint32_t signal_stride, guarded, slices;
	int32_t number; /* of the words' window, for reports */
	struct {
		uint8_t *memory;
		uint64_t *signals;
	} near[ORI_GATHER_INLINE_PEERS]; /* of the first peers */
};

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_gather_kernel(void);
/* Takes struct ori_gather_node_op. */
const struct oriel_kernel *ori_gather_node_kernel(void);
#endif

#endif
