/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/common.c - what all implementations of a boot share: the base struct and its references, the
 * check of a list of members, times and conditions.
 *
 * Owns no group, and calls no other file of this folder.  Called by: the implementations, and comm
 * (hold, drop), on any thread.
 */
#include <stdlib.h>
#include <time.h>

#include "impl.h"

#define LATE_LEAST_NS 100000000ull

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

const char *ori_boot_serves(const struct oriel_boot *boot)
{
	return boot->serves ? boot->serves : "boot exchange";
}

const char *ori_boot_serve_begin(struct oriel_boot *boot, const char *call)
{
	const char *outer = boot->serves;

	if (!outer)
		boot->serves = call;
	return outer;
}

void ori_boot_serve_end(struct oriel_boot *boot, const char *outer)
{
	boot->serves = outer;
}

int ori_boot_round(struct oriel_boot *boot, const char *call, const void *mine, void *all,
		   size_t bytes, uint64_t timeout_ns)
{
	const char *outer = ori_boot_serve_begin(boot, call);
	int err;

	__atomic_store_n(&boot->round_since_ns, ori_now_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&boot->round_call, boot->serves, __ATOMIC_RELAXED);
	err = boot->ops->allgather(boot, mine, all, bytes, timeout_ns);
	/* A rank that comes after the others gave up has not waited, and has nothing to tell. */
	if (err == ORIEL_ETIMEDOUT && boot->late &&
	    ori_now_ns() - boot->round_since_ns >= LATE_LEAST_NS)
		boot->late(boot->late_ctx);
	__atomic_store_n(&boot->round_call, NULL, __ATOMIC_RELAXED);
	ori_boot_serve_end(boot, outer);
	return err;
}

void ori_boot_hold(struct oriel_boot *boot)
{
	/* relaxed: the thread that takes a reference already has one */
	__atomic_fetch_add(&boot->refs, 1, __ATOMIC_RELAXED);
}

void ori_boot_drop(struct oriel_boot *boot)
{
	/*
	 * [BOOT1] acq_rel, process scope; its own partner.  Publishes a holder's last use of the
	 * boot to the holder that closes it.  Without it the last holder could free the boot while
	 * another one's stores to it are still to come.
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
		return ori_fail(ORIEL_EINVAL, "cannot make a subgroup of %d ranks out of %d", n,
				boot->nranks);
	seen = calloc((size_t)boot->nranks, 1);
	if (!seen)
		return ori_fail(ORIEL_ENOMEM, "no memory for a subgroup of %d ranks", n);
	for (int i = 0; i < n && !err; i++) {
		if (members[i] < 0 || members[i] >= boot->nranks || seen[members[i]]++)
			err = ori_fail(ORIEL_EINVAL,
				       "member %d of a subgroup is rank %d, which does not exist "
				       "or is listed twice",
				       i, members[i]);
		else if (members[i] == boot->rank)
			*my_index = i;
	}
	free(seen);
	if (!err && *my_index < 0)
		err = ori_fail(ORIEL_EINVAL,
			       "rank %d is not a member of the subgroup that it makes", boot->rank);
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

void ori_boot_rank_text(const int *world, int rank, char *text, size_t bytes)
{
	if (world && world[rank] != rank)
		snprintf(text, bytes, "rank %d (world rank %d)", rank, world[rank]);
	else
		snprintf(text, bytes, "rank %d", rank);
}
