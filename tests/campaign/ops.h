/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/ops.h - the work of a rank's kernel: operations, the tables they refer to, the
 * report.
 *
 * emit.c turns a program into one array of operations per rank before it runs.  The array is in
 * device memory.  A launch names a part of it, and every block takes the operations that carry its
 * number, in order (kernel.c).  Expected bytes are functions of a tag, so a kernel checks without
 * the host.
 *
 * C and CUDA: shared between the compilers of host and kernel.
 */
#ifndef ORI_CAMPAIGN_OPS_H
#define ORI_CAMPAIGN_OPS_H

#include <oriel/device.h>
#include <oriel/oriel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text) */
#define CAMP_OP_LIST(X)                                                                            \
	X(FILL, "fill")                                                                            \
	X(CHECK, "check")                                                                          \
	X(STORE_WORD, "store word")                                                                \
	X(CHECK_WORD, "check word")                                                                \
	X(PUT, "put")                                                                              \
	X(PUT_SIGNAL, "put_signal")                                                                \
	X(PUT_COUNTER, "put_counter")                                                              \
	X(PUT_SIGNAL_COUNTER, "put_signal_counter")                                                \
	X(PUT_VALUE, "put_value")                                                                  \
	X(GET, "get")                                                                              \
	X(GET_NBI, "get_nbi")                                                                      \
	X(GET_VALUE, "get_value")                                                                  \
	X(SIGNAL, "signal")                                                                        \
	X(SIGNAL_ALL, "signal_all")                                                                \
	X(WAIT_FROM, "wait_signal_from")                                                           \
	X(WAIT_SUM, "wait_signal")                                                                 \
	X(READ_FROM, "read_signal_from")                                                           \
	X(READ_SUM, "read_signal")                                                                 \
	X(RESET_SIGNAL, "reset_signal")                                                            \
	X(ADVANCE_FROM, "signal_advance_from")                                                     \
	X(WAIT_COUNTER, "wait_counter")                                                            \
	X(READ_COUNTER, "read_counter")                                                            \
	X(FENCE, "fence")                                                                          \
	X(FLUSH, "flush")                                                                          \
	X(FLUSH_ALL, "flush_all")                                                                  \
	X(TICKET, "take_ticket")                                                                   \
	X(WAIT_LOCAL, "wait_local")                                                                \
	X(SYNC, "sync")                                                                            \
	X(BARRIER, "barrier")                                                                      \
	X(ARRIVE, "barrier_arrive")                                                                \
	X(LEAVE, "barrier_wait")                                                                   \
	X(BARRIER_PEER, "barrier_peer")                                                            \
	X(SEND, "send")                                                                            \
	X(RECV, "recv")                                                                            \
	X(ADD_FIELD, "fetch_add")                                                                  \
	X(SWAP, "swap")                                                                            \
	X(CAS_ADD, "compare_swap")                                                                 \
	X(REPLAY, "next replay")                                                                   \
	X(ZERO, "zero")                                                                            \
	X(PACKET_SEND, "packet_send")                                                              \
	X(PACKET_RECV, "packet_recv")

enum camp_code {
#define CAMP_OP_CODE(name, text) CAMP_##name,
	CAMP_OP_LIST(CAMP_OP_CODE)
#undef CAMP_OP_CODE
		CAMP_CODES
};

#define CAMP_CELLS 64      /* words of a rank's kernels: replay counts, sums of swapped values */
#define CAMP_REPLAYED 0x40 /* of camp_op.how: the tag moves with the replay of its graph */

/* Members that an operation does not need are 0. */
struct camp_op {
	int32_t code, block, step;
	int32_t window; /* index into camp_args.windows */
	int32_t place;  /* index into camp_args.places: source, target or checked memory */
	int32_t peer, id;
	int32_t how;      /* ORIEL_ADD, a comparison, ...; CAMP_REPLAYED */
	uint64_t off;     /* in the peer's window; of local memory for FILL, CHECK and the like */
	uint64_t src_off; /* in the place, or where the tag's bytes begin */
	uint64_t bytes;   /* or how often */
	uint64_t value;
	uint64_t tag;
	int32_t cell;
	int32_t reserved;
};

/* Local memory of a rank; its source is of one window's comm. */
struct camp_place {
	uint64_t address;
	struct oriel_source source;
};

/* The first failure in this rank's kernels, and the number of failures. */
struct camp_report {
	uint64_t wrong; /* atomic: differences and failed calls; who made it 1 fills in the rest */
	uint64_t stop;  /* atomic: a call has failed, so waits would stand still */
	uint64_t checked; /* atomic: operations done */
	int32_t step, code, block, status;
	int32_t window, place, peer, id;
	uint64_t off, expected, found;
};

struct camp_args {
	const struct oriel_window_dev *windows;
	const struct camp_place *places;
	const struct camp_op *ops; /* of this launch */
	struct camp_report *report;
	uint64_t *cells;
	uint64_t count;
};

/* The value of a byte in a range with this tag. */
ORIEL_DEV uint8_t camp_byte(uint64_t tag, uint64_t i)
{
	uint64_t x = tag * 0x9e3779b97f4a7c15ull + (i >> 3) + 1;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	x ^= x >> 31;
	return (uint8_t)(x >> (8 * (i & 7)));
}

/* For sums of values in unknown order. */
ORIEL_DEV uint64_t camp_mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x7fb5d329728ea185ull;
	x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44dull;
	return x ^ (x >> 33);
}

/* kernel.c */
extern const struct oriel_kernel *const camp_kernel;

#ifdef __cplusplus
}
#endif

#endif
