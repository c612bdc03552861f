/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/destroy.c - ends a comm, also one that failed or whose creation failed half-way.
 *
 * Destruction has two rounds.  After the first, all ranks have come and settled.  After the second,
 * all engines have stopped.  Then each rank frees its memory.  A failed comm is freed without a
 * round.  Called on user threads.
 */
#include <stdlib.h>

#include "agree.h"
#include "destroy.h"
#include "failure.h"
#include "imports.h"
#include "kept.h"
#include "links.h"
#include "object.h"
#include "passing.h"
#include "reports.h"
#include "returned.h"
#include "settle.h"
#include "speaker.h"
#include "trace.h"

/* Ends everything on this rank that may access peers' memory: callbacks, children, engine. */
static void stop_comm(struct oriel_comm *c)
{
	if (c->boot)
		c->boot->ops->watch(c->boot, NULL, NULL);
	ori_reports_close(c);
	while (c->attachments) {
		struct ori_attachment *attachment = c->attachments;

		c->attachments = attachment->next;
		attachment->destroy(attachment);
	}
	while (c->children) {
		struct ori_child *child = c->children;

		ori_child_remove(c, child);
		child->destroy(child);
	}
	ori_links_free(c);
	ori_failure_stop(c);
}

void ori_comm_free(struct oriel_comm *c)
{
	int abandon = c->control && ori_comm_has_failed(c);

	if (abandon)
		c->quiet = 0;
	stop_comm(c);
	ori_speaker_stop(c);
	ori_trace_close(c);
	for (int r = 0; c->peers && r < c->nranks; r++) {
		ori_import_drop(c, c->peers[r].slab_import);
		ori_import_drop(c, c->peers[r].near_import);
	}
	ori_imports_drop_all(c);
	ori_kept_outlive(c, abandon);
	while (c->memories) {
		if (abandon)
			ori_memory_abandon(c, c->memories);
		else
			ori_memory_free(c, c->memories);
	}
	ori_slab_destroy(&c->slab);
	if (c->host_device && c->host_device != c->device)
		c->host_device->ops->close(c->host_device);
	if (c->device)
		ori_device_drop(c->device);
	if (c->passing)
		ori_passing_close(c->passing);
	ori_topology_free(&c->topology);
	if (c->node_boot)
		ori_boot_drop(c->node_boot);
	if (c->boot)
		ori_boot_drop(c->boot);
	free(c->facts);
	free(c->peers);
	free(c->dev_peers);
	free(c->world);
	ori_failure_close(c);
	ori_returned_close(c);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static int has_children(struct oriel_comm *c)
{
	int has = 0;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child; child = child->next)
		has |= !child->along;
	pthread_mutex_unlock(&c->lock);
	return has;
}

/*
 * An engine may still hold packets for a peer.  If ranks are threads, an access to memory that the
 * peer has freed would crash the process.  So all engines stop before any rank frees memory.  A
 * rank that fails here does not write to failure words of peers: that memory may already belong to
 * another comm.
 */
static int stop_together(struct oriel_comm *c)
{
	int err;

	stop_comm(c);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_COMM_DESTROY, 0, NULL, NULL, 0);
	c->quiet = !err;
	if (err) {
		ori_comm_fail(c, err, c->rank, ori_last_error_text());
		c->boot->ops->abort(c->boot, err, ori_last_error_text());
	}
	return err;
}

int oriel_comm_destroy(struct oriel_comm *c)
{
	int status = 0, err;

	if (!c)
		return 0;
	err = ori_comm_check(c, "oriel_comm_destroy");
	if (err)
		return err;
	/*
	 * Peers may still store to control memory of this rank (a wake-up after the last signal),
	 * and thread ranks share the mapping.  So all ranks must have come here before it is freed.
	 */
	if (!ori_comm_failed(c)) {
		if (has_children(c))
			status = ori_fail(ORIEL_EBUSY,
					  "oriel_comm_destroy: windows or buffers are left");
		else
			status = ori_comm_settle(c);
		err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_COMM_DESTROY, status, NULL, NULL,
				0);
		if (err == ORIEL_EBUSY)
			return err; /* on all ranks: the comm stays usable */
		/*
		 * Ranks that did not come may still store to this rank's memory.  On a failed comm
		 * the addresses stay.
		 */
		if (err)
			ori_comm_fail_all(c, err, ori_last_error_text());
		else
			err = stop_together(c);
	} else {
		(void)ori_comm_settle(c);
	}
	ori_live_remove(c);
	ori_comm_free(c);
	return err;
}
