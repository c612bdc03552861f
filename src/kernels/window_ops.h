/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/window_ops.h - host-issued window operations: one struct for all, executed by the host
 * itself or by a kernel.
 *
 * window/issue.c passes the struct to ori_window_op_here() on the CPU.  On a separate device it
 * launches the kernel on the caller's stream, with one block.  Nobody waits for the kernel's
 * status, so an error becomes the window's failure.
 */
#ifndef ORI_KERNELS_WINDOW_OPS_H
#define ORI_KERNELS_WINDOW_OPS_H

#include <oriel/device/types.h>

#define ORI_WINDOW_NOTHING 0 /* of no window */
#define ORI_WINDOW_PUT 1
#define ORI_WINDOW_GET 2
#define ORI_WINDOW_PUT_SIGNAL 3
#define ORI_WINDOW_SIGNAL 4
#define ORI_WINDOW_WAIT_SIGNAL 5 /* peer < 0: the sum over all sources */
#define ORI_WINDOW_BARRIER 6
#define ORI_WINDOW_RESET_SIGNALS 7 /* all ids */
#define ORI_WINDOW_PUT_COUNTER 8
#define ORI_WINDOW_PUT_SIGNAL_COUNTER 9
#define ORI_WINDOW_FETCH_ADD 10
#define ORI_WINDOW_SWAP 11
#define ORI_WINDOW_COMPARE_SWAP 12
#define ORI_WINDOW_SIGNAL_ALL 13
#define ORI_WINDOW_RESET_SIGNAL 14
#define ORI_WINDOW_SIGNAL_ADVANCE 15 /* peer < 0: the sum over all sources */
#define ORI_WINDOW_WAIT_COUNTER 16   /* peer < 0: the sum over all peers */
#define ORI_WINDOW_RESET_COUNTER 17  /* peer < 0: all peers */
#define ORI_WINDOW_FLUSH 18          /* peer < 0: all peers */
#define ORI_WINDOW_ATOMIC 19
#define ORI_WINDOW_WAIT_WORD 20 /* of the own window */

/* Members that an operation does not have are 0. */
struct ori_window_op {
	uint64_t window_off; /* in the peer's window */
	uint64_t source_off;
	uint64_t bytes;
	uint64_t value;
	uint64_t expected; /* compare_swap */
	uint64_t *old;     /* atomics: where the previous value goes; NULL: nowhere */
	int32_t code;      /* ORI_WINDOW_* */
	int32_t peer;
	int32_t id;      /* signal or barrier; ORIEL_TYPE_* of an atomic or a word */
	int32_t counter; /* id of a counter */
	int32_t op;      /* ORIEL_ADD or ORIEL_SET; waits: ORIEL_EQ ...; atomic: ORIEL_ATOMIC_* */
	uint32_t timeout_ms; /* of a wait; 0: the comm's */
};

/* The argument of the kernel. */
struct ori_window_op_args {
	struct oriel_window_dev win;
	struct ori_window_op op;
	struct oriel_source source; /* put: from here; get: to here */
};

#ifndef ORIEL_KERNEL_IMAGE
struct oriel_kernel;
const struct oriel_kernel *ori_window_op_kernel(void);
/* Number of threads of the block for that operation. */
int ori_window_op_threads(int code);
/* CPU: executes the operation on the calling thread.  source: of a put or get, else NULL. */
int ori_window_op_here(const struct oriel_window_dev *win, const struct ori_window_op *op,
		       const struct oriel_source *source);
#endif

#endif
