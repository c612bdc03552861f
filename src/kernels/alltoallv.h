/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv.h - argument, memory layout and protocol of the all-to-all-v kernel.
 *
 * coll/alltoallv fills the struct and launches; kernels/alltoallv.c is the kernel.
 *
 * In call number k of a request (k counts from first_count) rank s tells rank d, in d's row for s:
 *   told[k & 1]    k + 1 in the upper 16 bits; below, how many elements s sends to d in call k
 *                  (ORI_A2A_* below).  s has entered the call, so d may write its receive buffer
 *   came           (k + 1) << 16 when all data is there: the blocks of a message add up to 1 << 16
 *   granted        packed: k + 1; grant[k & 1] is the byte of s's receive buffer where d's data
 *                  goes, or a refusal
 * Every rank does so for every peer in every call, also for zero bytes.  So the counts of a pair
 * never depend on sizes or on the plans of the two ranks.  A queued peer's row has told[] and
 * grant[] too.  There told and came together are one signal that grows by two per call; granted is
 * another signal.
 *
 * A message of up to `small` bytes is put into the row's inbox before it is told; the receiver
 * copies it out.  Rows have two inboxes, used in turn.  A rank that writes an inbox in call k+2 has
 * seen what the receiver told in call k+1.  So the receiver has left call k and no longer reads
 * that inbox.  The same holds for told[] and grant[], and so 16 bits of k are enough.
 *
 * Model: models/alltoallv.pml
 */
#ifndef ORI_KERNELS_ALLTOALLV_H
#define ORI_KERNELS_ALLTOALLV_H

#include <oriel/device/types.h>

#define ORI_A2A_SIGNAL_MARK 0 /* signal ids: the words of queued peers are signals, added to */
#define ORI_A2A_SIGNAL_GRANTED 1
#define ORI_A2A_SIGNALS 2

/*
 * The maximum per block, whatever the plan says.  An SM of an H200 copies 49 GB/s with 512 threads
 * and with 1024.  With 1024, each thread has half as many registers and spills.
 */
#define ORI_A2A_THREADS 512
/*
 * The minimum that a GPU copies to a mapped peer between two tests of the failure words, whatever
 * the plan says.  A block takes 20 us for 1 MiB; 16 chunks instead of one cost 2 us more.
 */
#define ORI_A2A_GPU_CHUNK (1u << 20)

/*
 * The lower 48 bits of told: the number of elements, with a bit that says they are in the inbox; or
 * ORI_A2A_NOTHING.
 */
#define ORI_A2A_TOLD_SHIFT 48
#define ORI_A2A_TOLD_MASK ((1ull << ORI_A2A_TOLD_SHIFT) - 1)
#define ORI_A2A_INLINE (1ull << 47)
#define ORI_A2A_NOTHING ORI_A2A_TOLD_MASK /* the sender cannot take part in this call */

#define ORI_A2A_CAME_SHIFT 16 /* a message has fewer blocks than 1 << 16 */

#define ORI_A2A_REFUSED (~0ull) /* grant[]: there is no room for this call */

/* In `win` of the receiver, one per source; two inboxes follow it.  Written by the source. */
struct ori_a2a_row {
	uint64_t told[2];
	uint64_t came;    /* mapped peers */
	uint64_t granted; /* mapped peers */
	uint64_t grant[2];
	uint8_t pad[ORIEL_LINE_BYTES - 48];
};

/* This rank's own. */
struct ori_a2a_state {
	uint64_t calls;   /* k; incremented by the last block that has read it */
	uint64_t refused; /* 0, or a failure word: the first refused call since the host asked */
	uint32_t left;    /* blocks that have read `calls` */
	uint8_t pad[ORIEL_LINE_BYTES - 20];
};

/*
 * A kernel's argument is sent with every launch, which takes time on a GPU that many ranks share.
 * So it holds only what kernels need in every call.  The rest of the window's handle is in device
 * memory.
 */
#define ORI_A2A_INLINE_PEERS 8

struct ori_a2a_args {
	struct oriel_comm_dev comm;
	const struct oriel_window_dev *win;
	/* the window with the receive memory: another one if the caller gave that memory */
	const struct oriel_window_dev *recv_win;
	uint8_t *buffer; /* of win, and so are these */
	uint64_t *failure;
	uint8_t *peers[ORI_A2A_INLINE_PEERS]; /* windows of the first peers; NULL: queued */
	struct oriel_source staging;          /* the request's send buffer */
	const uint8_t *send;                  /* base of the offsets */
	const uint64_t *send_sizes, *send_offsets;
	uint64_t *recv_sizes, *recv_offsets;
	uint8_t *recv; /* this rank's receive memory */
	struct ori_a2a_state *state;
	/* [nranks]: blocks that have sent their share of this call to that queued peer */
	uint32_t *arrived;
	uint64_t first; /* first_count */
	uint64_t elem_bytes;
	uint64_t most_elems;  /* of one message */
	uint64_t send_elems;  /* how far offsets reach */
	uint64_t slot_stride; /* bytes; 0: packed */
	uint64_t slot_elems;  /* the same in elements */
	uint64_t recv_elems;  /* that the receive buffer holds */
	uint64_t recv_off;    /* where it is in recv_win */
	uint64_t row_stride;  /* rows are at the start of win */
	uint64_t inbox_bytes;
	uint64_t staging_off; /* where `send` is in the send buffer */
	uint64_t chunk[2];    /* ORI_PLAN_MAPPED, ORI_PLAN_QUEUED (alltoallv_plan.h) */
	uint32_t blocks[2];   /* for each peer of that kind */
	uint32_t most_blocks; /* the larger of the two that are in use */
	uint32_t items;       /* nranks * most_blocks, and with `shares` up to nranks more */
	uint32_t small;       /* at most inbox_bytes */
	uint32_t counted;     /* blocks of this launch except surplus ones */
	uint32_t synchronised;
	uint32_t copy_in; /* `send` is not in the send buffer */
	uint32_t early;   /* most messages will not be small */
	int32_t number;   /* the window's, for reports */
	/* blocks follow the sizes if these differ: none has more than 1 / shares; 0: no */
	uint32_t shares;
	uint32_t reserved;
};

static_assert(sizeof(struct ori_a2a_row) == ORIEL_LINE_BYTES, "layout");
static_assert(sizeof(struct ori_a2a_state) == ORIEL_LINE_BYTES, "layout");

#ifndef ORIEL_KERNEL_IMAGE
struct oriel_kernel;

/* Four variants of the kernel.  Each leaves out the code for cases that its calls never have. */
#define ORI_A2A_KERNEL_SLOTS 0  /* all peers mapped, a slot for each, a block for each item */
#define ORI_A2A_KERNEL_SHARES 1 /* the same, and blocks follow the sizes */
#define ORI_A2A_KERNEL_MAPPED 2 /* all peers mapped */
#define ORI_A2A_KERNEL_MIXED 3
#define ORI_A2A_KERNELS 4
const struct oriel_kernel *ori_a2a_kernel(int which);
#endif

#endif
