/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/init.c - the usual case in two calls: a comm as the environment says, and its end with all
 * its windows.
 *
 * Owns nothing: both calls are made of public ones.  Lies here because it knows windows.  Called by
 * users, on the rank's thread.
 */
#include "../comm/agree.h"
#include "../comm/failure.h"
#include "../comm/settle.h"
#include "window.h"

int oriel_init(struct oriel_comm **comm)
{
	struct oriel_boot *boot;
	int err = oriel_boot_env(&boot);

	if (err)
		return err;
	/* A missing place for the comm is told to all ranks there. */
	err = oriel_comm_create(boot, NULL, comm);
	(void)oriel_boot_destroy(boot); /* the comm has a boot of its own; this cannot fail */
	return err;
}

/* A rank with more than windows keeps all ranks from destroying any. */
static int meet_to_finalize(struct oriel_comm *c)
{
	int others, status = ori_comm_settle(c);

	ori_attachments_reap(c); /* requests that were kept for what is complete now */
	(void)ori_window_left(c, &others);
	if (!status && others)
		status = ori_fail(ORIEL_EBUSY,
				  "oriel_finalize: %d registered buffers, requests of collectives "
				  "or captured graphs are left: release or destroy them first",
				  others);
	return ori_agree(c->boot, c->timeout_ns, ORI_CALL_FINALIZE, status, NULL, NULL, 0);
}

/* Windows are made by all ranks in one order, so the newest is the same one everywhere. */
static int destroy_windows(struct oriel_comm *c)
{
	struct oriel_window *w;
	int others, err = 0;

	while (!err && (w = ori_window_left(c, &others)))
		err = oriel_window_destroy(w);
	return err;
}

int oriel_finalize(struct oriel_comm *c)
{
	int err, end;

	if (!c)
		return 0;
	err = ori_comm_check(c, "oriel_finalize");
	if (err)
		return err;
	if (!ori_comm_failed(c)) {
		err = meet_to_finalize(c);
		if (!err)
			err = destroy_windows(c);
		if (err == ORIEL_EBUSY)
			return err; /* on all ranks: the comm lives on */
		/* As in oriel_comm_destroy(): it goes, and ranks that did not come are told. */
		if (err)
			ori_comm_fail_all(c, err, ori_last_error_text());
	}
	end = oriel_comm_destroy(c);
	return err ? err : end;
}
