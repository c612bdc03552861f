/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/boot.c - the public calls of a boot.
 *
 * Owns the checks of arguments and the listing of handles.  The implementations do the work.
 * Called by: users, on any thread.
 */
#include <stdlib.h>

#include "../util/options.h"
#include "impl.h"

/* Gives a new boot to the user, or closes it if it cannot be listed. */
static int give(struct oriel_boot *made, struct oriel_boot **boot)
{
	int err = ori_live_add(made, ORI_LIVE_BOOT);

	if (err) {
		ori_boot_drop(made);
		return err;
	}
	*boot = made;
	return 0;
}

static int check_place(const char *call, int rank, int nranks)
{
	if (nranks < 1 || nranks > ORI_BOOT_RANKS_MAX)
		return ori_fail(ORIEL_ERANGE, "%s: %d ranks (must be 1 to %d)", call, nranks,
				ORI_BOOT_RANKS_MAX);
	if (rank < 0 || rank >= nranks)
		return ori_fail(ORIEL_ERANGE, "%s: rank %d is not within 0 to %d", call, rank,
				nranks - 1);
	return 0;
}

int oriel_boot_env(struct oriel_boot **boot)
{
	struct ori_config config;
	struct oriel_boot *made;
	int err;

	if (!boot)
		return ori_fail(ORIEL_EINVAL, "oriel_boot_env: boot is NULL");
	err = ori_config_read(&config);
	if (!err)
		err = ori_boot_env_create(&config, &made);
	return err ? err : give(made, boot);
}

int oriel_boot_threads(int nranks, struct oriel_boot **boots)
{
	struct ori_config config;
	struct oriel_boot **made;
	int err = check_place("oriel_boot_threads", 0, nranks);

	if (err)
		return err;
	if (!boots)
		return ori_fail(ORIEL_EINVAL, "oriel_boot_threads: boots is NULL");
	err = ori_config_read(&config);
	if (err)
		return err;
	made = calloc((size_t)nranks, sizeof(struct oriel_boot *));
	if (!made)
		return ori_fail(ORIEL_ENOMEM, "oriel_boot_threads: no memory for %d boots", nranks);
	err = ori_boot_threads_create(nranks, ori_boot_seconds_ns(config.late), made);
	if (err)
		goto out;
	for (int r = 0; r < nranks && !err; r++)
		err = ori_live_add(made[r], ORI_LIVE_BOOT);
	for (int r = 0; r < nranks; r++) {
		if (err) {
			ori_live_remove(made[r]);
			ori_boot_drop(made[r]);
		} else {
			boots[r] = made[r];
		}
	}
out:
	free(made);
	return err;
}

int oriel_boot_make_id(struct oriel_boot_id *id)
{
	struct ori_config config;
	int err;

	if (!id)
		return ori_fail(ORIEL_EINVAL, "oriel_boot_make_id: id is NULL");
	err = ori_config_read(&config);
	return err ? err : ori_boot_id_make(&config, id);
}

int oriel_boot_join(const struct oriel_boot_id *id, int rank, int nranks, struct oriel_boot **boot)
{
	struct ori_config config;
	struct oriel_boot *made;
	int err;

	if (!id || !boot)
		return ori_fail(ORIEL_EINVAL, "oriel_boot_join: %s is NULL", id ? "boot" : "id");
	err = check_place("oriel_boot_join", rank, nranks);
	if (err)
		return err;
	ori_log_rank_set(rank);
	err = ori_config_read(&config);
	if (!err)
		err = ori_boot_id_join(&config, id, rank, nranks, &made);
	return err ? err : give(made, boot);
}

ORI_OPTIONS_NO_PADDING(struct oriel_boot_ops, destroy);

int oriel_boot_user(const struct oriel_boot_ops *ops, void *ctx, int rank, int nranks,
		    struct oriel_boot **boot)
{
	struct oriel_boot_ops own = { sizeof(own), NULL, NULL, NULL };
	struct oriel_boot *made;
	int err;

	if (!ops || !boot)
		return ori_fail(ORIEL_EINVAL, "oriel_boot_user: %s is NULL", ops ? "boot" : "ops");
	err = ori_options_take("oriel_boot_user", "sizeof(struct oriel_boot_ops)", ops, &own,
			       sizeof(own));
	if (err)
		return err;
	if (!own.allgather)
		return ori_fail(ORIEL_EINVAL, "oriel_boot_user: ops->allgather is NULL");
	err = check_place("oriel_boot_user", rank, nranks);
	if (err)
		return err;
	ori_log_rank_set(rank);
	err = ori_boot_user_create(&own, ctx, rank, nranks, &made);
	return err ? err : give(made, boot);
}

int oriel_boot_rank(const struct oriel_boot *boot)
{
	int err = ori_live_check(boot, ORI_LIVE_BOOT, "oriel_boot_rank");

	return err ? err : boot->rank;
}

int oriel_boot_nranks(const struct oriel_boot *boot)
{
	int err = ori_live_check(boot, ORI_LIVE_BOOT, "oriel_boot_nranks");

	return err ? err : boot->nranks;
}

int oriel_boot_destroy(struct oriel_boot *boot)
{
	int err;

	if (!boot)
		return 0;
	err = ori_live_check(boot, ORI_LIVE_BOOT, "oriel_boot_destroy");
	if (err)
		return err;
	ori_live_remove(boot);
	ori_boot_drop(boot);
	return 0;
}
