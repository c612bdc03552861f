/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c - one kernel for each call of the device API whose instructions are counted.
 *
 * README.md of this folder has the commands.  The same source is compiled as C for the CPU and as
 * CUDA for a GPU.  Nothing here runs.
 */
#include <oriel/device.h>

struct probe {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint64_t dst_off, src_off, bytes, value;
	int32_t peer, id, counter, op;
	struct oriel_ticket ticket;
	struct oriel_remote remote;
	struct oriel_queue_word word;
	void *memory;
	int *status;
};

#define PROBE(name, call)                                                                          \
	ORIEL_KERNEL(name, struct probe)                                                           \
	{                                                                                          \
		const struct oriel_window_dev *win = &a->win;                                      \
		const struct oriel_comm_dev *comm = &a->win.comm;                                  \
		struct oriel_group g = oriel_group_block();                                        \
                                                                                                   \
		(void)win;                                                                         \
		(void)comm;                                                                        \
		a->status[g.thread] = call;                                                        \
		return 0;                                                                          \
	}

PROBE(put, oriel_put(win, g, a->peer, a->dst_off, &a->src, a->src_off, a->bytes))
PROBE(put_signal, oriel_put_signal(win, g, a->peer, a->dst_off, &a->src, a->src_off, a->bytes,
				   a->id, ORIEL_ADD, a->value))
PROBE(put_signal_set, oriel_put_signal(win, g, a->peer, a->dst_off, &a->src, a->src_off, a->bytes,
				       a->id, ORIEL_SET, a->value))
PROBE(put_signal_thread, oriel_put_signal(win, oriel_group_thread(), a->peer, a->dst_off, &a->src,
					  a->src_off, a->bytes, a->id, ORIEL_ADD, a->value))
PROBE(put_counter,
      oriel_put_counter(win, g, a->peer, a->dst_off, &a->src, a->src_off, a->bytes, a->counter))
PROBE(put_signal_counter,
      oriel_put_signal_counter(win, g, a->peer, a->dst_off, &a->src, a->src_off, a->bytes, a->id,
			       ORIEL_ADD, a->value, a->counter))
PROBE(put_value, oriel_put_value(win, g, a->peer, a->dst_off, &a->value, 8))
PROBE(get, oriel_get(win, g, a->peer, a->src_off, &a->src, a->dst_off, a->bytes))
PROBE(fetch_add, oriel_fetch_add(win, g, a->peer, a->dst_off, a->value, NULL))
PROBE(signal_add, oriel_signal(win, g, a->peer, a->id, ORIEL_ADD, a->value))
PROBE(wait_signal_from, oriel_wait_signal_from(win, g, a->peer, a->id, ORIEL_GE, a->value))
PROBE(wait_signal, oriel_wait_signal(win, g, a->id, a->value))
PROBE(wait_counter, oriel_wait_counter(win, g, a->peer, a->counter, ORIEL_GE, a->value))
PROBE(barrier_arrive_wait, oriel_barrier_arrive_wait(win, g, a->id))
PROBE(barrier, oriel_barrier(win, g, a->id))
PROBE(barrier_peer, oriel_barrier_peer(win, g, a->peer, a->id))
PROBE(fence, oriel_fence(win, g, a->peer))
PROBE(flush, oriel_flush(win, g, a->peer))
PROBE(wait_local, oriel_wait_local(win, g, &a->ticket, 0))
PROBE(send, oriel_send(win, g, a->peer, a->id, a->memory, a->bytes))
PROBE(recv, oriel_recv(win, g, a->peer, a->id, a->memory, a->bytes))
PROBE(queue_put,
      oriel_queue_put(comm, g, a->peer, &a->remote, a->dst_off, &a->src, a->src_off, a->bytes))
PROBE(queue_put_signal, oriel_queue_put_signal(comm, g, a->peer, &a->remote, a->dst_off, &a->src,
					       a->src_off, a->bytes, &a->word, ORIEL_ADD, a->value))

/* In C an unused kernel would be left out. */
#ifndef __CUDACC__
const struct oriel_kernel *probes[] = {
	&put,
	&put_signal,
	&put_signal_set,
	&put_signal_thread,
	&put_counter,
	&put_signal_counter,
	&put_value,
	&get,
	&fetch_add,
	&signal_add,
	&wait_signal_from,
	&wait_signal,
	&wait_counter,
	&barrier_arrive_wait,
	&barrier,
	&barrier_peer,
	&fence,
	&flush,
	&wait_local,
	&send,
	&recv,
	&queue_put,
	&queue_put_signal,
};
#endif
