/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/status.c - converts an error of libibverbs to the syndrome of an mlx5 CQE.
 *
 * Pure tables.  Called by post.c and events.c.
 */
#include "verbs.h"

uint32_t verbs_status_syndrome(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_LOC_LEN_ERR:
		return ORI_SYNDROME_LOCAL_LENGTH;
	case IBV_WC_LOC_PROT_ERR:
		return ORI_SYNDROME_LOCAL_PROT;
	case IBV_WC_WR_FLUSH_ERR:
		return ORI_SYNDROME_FLUSHED;
	case IBV_WC_BAD_RESP_ERR:
		return ORI_SYNDROME_BAD_RESPONSE;
	case IBV_WC_LOC_ACCESS_ERR:
		return ORI_SYNDROME_LOCAL_ACCESS;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_INV_RD_REQ_ERR:
		return ORI_SYNDROME_REMOTE_INVALID;
	case IBV_WC_REM_ACCESS_ERR:
		return ORI_SYNDROME_REMOTE_ACCESS;
	case IBV_WC_REM_OP_ERR:
		return ORI_SYNDROME_REMOTE_OP;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return ORI_SYNDROME_RETRY_EXCEEDED;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return ORI_SYNDROME_RNR_EXCEEDED;
	case IBV_WC_REM_ABORT_ERR:
	case IBV_WC_FATAL_ERR:
		return ORI_SYNDROME_ABORTED;
	default: /* errors of the queue itself, or of operations that are never posted */
		return ORI_SYNDROME_LOCAL_QP_OP;
	}
}

/*
 * The first three concern one queue pair.  Usually this end refused a request of the far end, and
 * the far end's own completion has the cause.  Ports may go down and come back.  A sender notices
 * it by its retries.
 */
uint32_t verbs_event_syndrome(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
		return ORI_SYNDROME_LOCAL_QP_OP;
	case IBV_EVENT_QP_REQ_ERR:
		return ORI_SYNDROME_REMOTE_INVALID;
	case IBV_EVENT_QP_ACCESS_ERR:
		return ORI_SYNDROME_LOCAL_ACCESS;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		return ORI_SYNDROME_ABORTED;
	default:
		return 0;
	}
}
