/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/strict.c - what a strict NIC logs about a program that breaks the rules of a queue.
 *
 * Called within soft_nic_step().
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

uint32_t soft_strict_violation(const struct soft_nic *nic, const struct soft_qp *qp, uint64_t idx,
			       const char *fmt, ...)
{
	char text[160];
	va_list args;

	if (nic->config.strict) {
		va_start(args, fmt);
		vsnprintf(text, sizeof(text), fmt, args);
		va_end(args);
		ori_log(ORI_LOG_ERROR, "software NIC of rank %d: queue pair 0x%x, WQE %llu: %s",
			nic->rank, qp->number, (unsigned long long)idx, text);
	}
	return ORI_SYNDROME_LOCAL_QP_OP;
}

uint32_t soft_strict_check_slot(const struct soft_nic *nic, const struct soft_qp *qp, uint64_t idx)
{
	const void *now = &qp->attr.sq[idx & (qp->attr.depth - 1)];
	const void *then = &qp->shadow[idx & (qp->window - 1)];

	if (!memcmp(now, then, ORI_WQE_BYTES))
		return 0;
	return soft_strict_violation(nic, qp, idx,
				     "the block was written again before its completion");
}
