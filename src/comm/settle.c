/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/settle.c - waits until nothing on this rank uses memory that is about to be freed.
 *
 * Two things may use it: kernels on the comm's own stream, and operations posted to queues.  The
 * user synchronises other streams.  Called on user threads, before memory, keys, windows, buffers
 * or the comm end.  Both waits end by the comm's deadline.
 */
#include "failure.h"
#include "links.h"
#include "object.h"
#include "settle.h"

/*
 * Waits for all kernels on the comm's own stream.  When they have ended, none is overdue any more,
 * unless another thread has waited in vain meanwhile: then the count differs.
 */
static int await_kernels(struct oriel_comm *c)
{
	/* relaxed: no data is read because of the count */
	uint32_t before = __atomic_load_n(&c->overdue, __ATOMIC_RELAXED);
	int err = c->device->ops->sync(c->device, NULL);

	if (err == ORIEL_ETIMEDOUT)
		__atomic_fetch_add(&c->overdue, 1, __ATOMIC_RELAXED);
	else if (!err && before)
		__atomic_compare_exchange_n(&c->overdue, &before, 0, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	return err;
}

/*
 * Kernels of a failed comm end when they see the failure.  Another rank may have written it to the
 * host's word only, so it is copied to the device.  Memory must stay until the kernels have ended.
 */
static void end_kernels(struct oriel_comm *c)
{
	if (!c->device->separate || __atomic_load_n(&c->overdue, __ATOMIC_RELAXED))
		return;
	ori_comm_tell_device(c);
	(void)await_kernels(c);
}

int ori_comm_settle(struct oriel_comm *c)
{
	int err;

	if (ori_comm_has_failed(c)) {
		end_kernels(c);
		return 0;
	}
	err = ori_comm_device_status(c, await_kernels(c));
	return err ? err : ori_links_flush(c);
}
