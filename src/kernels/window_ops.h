/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/window_ops.h - host-issued window operations as one kernel, for devices that are not the
 * host.
 *
 * window/ops.c fills the struct and launches the kernel on the caller's stream, with one block.
 * Nobody waits for the kernel's status, so an error becomes the window's failure.
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

struct ori_window_op {
	struct oriel_window_dev win;
	struct oriel_source source; /* put: from here; get: to here */
	uint64_t window_off;        /* in the peer's window */
	uint64_t source_off;
	uint64_t bytes;
	uint64_t value;
	int32_t code; /* ORI_WINDOW_* */
	int32_t peer;
	int32_t id;          /* signal or barrier */
	int32_t op;          /* ORIEL_ADD or ORIEL_SET; for waits ORIEL_EQ ... */
	uint32_t timeout_ms; /* of a wait; 0: the comm's */
	uint32_t reserved;
};

#ifndef ORIEL_KERNEL_IMAGE
struct oriel_kernel;
const struct oriel_kernel *ori_window_op_kernel(void);
/* Number of threads of the block for that operation. */
int ori_window_op_threads(int code);
#endif

#endif
