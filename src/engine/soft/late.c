/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/late.c - writes into device memory that arrive late: late_device=1.
 *
 * Some platforms do not order a NIC's writes into a GPU.  A word in host memory can then be seen
 * before payload that was written earlier.  Here such payload waits, in order, until its time has
 * come, or until something reads that memory through the NIC.  A read over PCIe also pushes earlier
 * writes.  The answer to the peer does not wait.
 *
 * Called within soft_nic_step() and where regions end; the caller serialises.
 */
#include <stdlib.h>
#include <string.h>

#include <oriel/oriel.h>

#include "../../util/util.h"
#include "state.h"

#define LATE_NS 20000000ull

struct soft_late {
	struct soft_late *next;
	uint64_t until_ns;
	void *to;
	uint32_t bytes;
	uint8_t data[];
};

int soft_late_move(struct soft_nic *nic, void *to, const void *from, uint32_t bytes, int device,
		   int to_device)
{
	struct soft_late *l, **at = &nic->late;
	int err;

	if (!nic->config.late_device || !to_device)
		return soft_place_move(nic, to, from, bytes, device || to_device);
	l = malloc(sizeof(*l) + bytes);
	if (!l)
		return ori_fail(ORIEL_ENOMEM, "software NIC: no memory for a late write");
	err = soft_place_move(nic, l->data, from, bytes, device);
	if (err) {
		free(l);
		return err;
	}
	l->next = NULL;
	l->to = to;
	l->bytes = bytes;
	l->until_ns = nic->world.clock(nic->world.ctx) + LATE_NS;
	while (*at)
		at = &(*at)->next;
	*at = l;
	return 0;
}

void soft_late_release(struct soft_nic *nic, int all)
{
	while (nic->late) {
		struct soft_late *l = nic->late;

		if (!all && nic->world.clock(nic->world.ctx) < l->until_ns)
			return;
		/* a failure is logged there */
		(void)soft_place_move(nic, l->to, l->data, l->bytes, 1);
		nic->late = l->next;
		free(l);
	}
}

void soft_late_drop(struct soft_nic *nic)
{
	while (nic->late) {
		struct soft_late *l = nic->late;

		nic->late = l->next;
		free(l);
	}
}
