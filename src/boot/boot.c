/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/boot.c - the public calls of a boot, its references, and what all implementations share.
 *
 * Owns the checks of arguments and the listing of handles; each implementation owns its group.
 * Called by: users (oriel_boot_*) and comm (hold, drop), from any thread.
 */
#include <stdlib.h>
#include <time.h>

#include "../util/options.h"
#include "impl.h"

/* ---- shared by the implementations ------------------------------------------------------------- */

void ori_boot_init(struct oriel_boot *boot, const struct ori_boot_backend *ops, int rank,
		   int nranks)
{
	boot->ops = ops;
	boot->rank = rank;
	boot->nranks = nranks;
	boot->refs = 1;
}

void ori_boot_no_answer(struct oriel_boot *boot, ori_boot_answer_fn *fn, void *ctx)
{
	(void)boot;
	(void)fn;
	(void)ctx;
}

int ori_boot_no_ask(struct oriel_boot *boot, int rank, char *out, size_t bytes, uint64_t timeout_ns)
{
	(void)boot;
	(void)rank;
	(void)out;
	(void)bytes;
	(void)timeout_ns;
	return ORIEL_EUNSUPPORTED;
}

void ori_boot_hold(struct oriel_boot *boot)
{
	/* relaxed: who takes a reference already has one */
	__atomic_fetch_add(&boot->refs, 1, __ATOMIC_RELAXED);
}

void ori_boot_drop(struct oriel_boot *boot)
{
	/*
	 * [B1] acquire and release, paired with itself: what each holder did with the boot comes
	 * before the close by the last one.
	 */
	if (boot && __atomic_sub_fetch(&boot->refs, 1, __ATOMIC_ACQ_REL) == 0)
		boot->ops->close(boot);
}

int ori_boot_members_check(const struct oriel_boot *boot, const int *members, int n, int *my_index)
{
	unsigned char *seen;
	int err = 0;

	*my_index = -1;
	if (!members || n < 1 || n > boot->nranks)
		return ori_fail(ORIEL_EINVAL, "a subgroup of %d of %d ranks", n, boot->nranks);
	seen = calloc((size_t)boot->nranks, 1);
	if (!seen)
		return ori_fail(ORIEL_ENOMEM, "no memory for a subgroup of %d ranks", n);
	for (int i = 0; i < n && !err; i++) {
		if (members[i] < 0 || members[i] >= boot->nranks || seen[members[i]]++)
			err = ori_fail(ORIEL_EINVAL,
				       "member %d of a subgroup is rank %d: out of range or twice",
				       i, members[i]);
		else if (members[i] == boot->rank)
			*my_index = i;
	}
	free(seen);
	if (!err && *my_index < 0)
		err = ori_fail(ORIEL_EINVAL, "rank %d asks for a subgroup it is not in",
			       boot->rank);
	return err;
}

uint64_t ori_boot_seconds_ns(double seconds)
{
	return (uint64_t)(seconds * 1e9);
}

uint64_t ori_boot_grace_ns(uint64_t ns)
{
	uint64_t grace = 2 * ORI_NS_PER_S;

	return ns > UINT64_MAX - grace ? UINT64_MAX : ns + grace;
}

void ori_boot_timespec(uint64_t when_ns, struct timespec *out)
{
	out->tv_sec = (time_t)(when_ns / ORI_NS_PER_S);
	out->tv_nsec = (long)(when_ns % ORI_NS_PER_S);
}

int ori_boot_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int err = pthread_condattr_init(&attr);

	if (err)
		return ori_fail_errno(err, "a condition variable");
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	err = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return err ? ori_fail_errno(err, "a condition variable") : 0;
}

/* ---- public ------------------------------------------------------------------------------------- */

/* Hands a new boot to the user, or closes it when it cannot be listed. */
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
		return ori_fail(ORIEL_ERANGE, "%s: %d ranks; 1 to %d are possible", call, nranks,
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
