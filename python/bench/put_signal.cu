/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * python/bench/put_signal.cu - the C kernel beside the Triton kernel of triton_put_signal.py.
 *
 * Two ranks put and signal in turn.  Rank 1 (second) begins with the wait.
 */
#include <oriel/device.h>

extern "C" __global__ void __launch_bounds__(512, 1)
	rally(const __grid_constant__ struct oriel_window_dev win,
	      const __grid_constant__ struct oriel_source source, int peer, int second,
	      uint64_t bytes, uint64_t first, int rounds, int *status)
{
	struct oriel_group g = oriel_group_block();
	int err = 0, i;

	for (i = 0; i < rounds && !err; i++) {
		if (second)
			err = oriel_wait_signal_from(&win, g, peer, 0, ORIEL_GE, first + i + 1);
		if (!err)
			err = oriel_put_signal(&win, g, peer, 0, &source, 0, bytes, 0, ORIEL_ADD,
					       1);
		if (!second && !err)
			err = oriel_wait_signal_from(&win, g, peer, 0, ORIEL_GE, first + i + 1);
	}
	if (err && g.thread == 0)
		*status = err;
}
