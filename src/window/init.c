/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/init.c - oriel_init() and oriel_finalize(): a comm from the environment, and its end with
 * all its windows.
 *
 * It owns nothing: both functions are made of public calls.  It is in this folder because it uses
 * windows.  Called by users, on the rank's thread.
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
	/* If `comm` is NULL, oriel_comm_create() reports that to all ranks. */
	err = oriel_comm_create(boot, NULL, comm);
	(void)oriel_boot_destroy(boot); /* the comm has a boot of its own; this cannot fail */
	return err;
}

/* If a rank has other objects than windows, no rank destroys any window. */
static int meet_to_finalize(struct oriel_comm *c)
{
	int others, status = ori_comm_settle(c);

	ori_attachments_reap(c); /* frees requests whose pending work is now complete */
	(void)ori_window_left(c, &others);
	if (!status && others)
		status = ori_fail(ORIEL_EBUSY,
				  "oriel_finalize: %d registered buffers, requests of collectives "
				  "or captured graphs are left: release or destroy them first",
				  others);
	return ori_agree(c->boot, c->timeout_ns, ORI_CALL_FINALIZE, status, NULL, NULL, 0);
}

/* All ranks create windows in the same order, so the newest is the same on all ranks. */
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
			return err; /* the same on all ranks: the comm stays usable */
		/* As in oriel_comm_destroy(): the comm is destroyed, and absent ranks are told. */
		if (err)
			ori_comm_fail_all(c, err, ori_last_error_text());
	}
	end = oriel_comm_destroy(c);
	return err ? err : end;
}
