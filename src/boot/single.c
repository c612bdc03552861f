/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/single.c - the boot of a group of one rank.  There is no other rank to wait for or to tell.
 *
 * Other implementations also return it for a subgroup of one member.  Called by: comm through the
 * table of boot.h, on any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "impl.h"

static int single_allgather(struct oriel_boot *boot, const void *mine, void *all, size_t bytes,
			    uint64_t timeout_ns)
{
	(void)boot;
	(void)timeout_ns;
	if (bytes && mine != all)
		memmove(all, mine, bytes);
	return 0;
}

static int single_subgroup(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
			   uint64_t timeout_ns, struct oriel_boot **sub)
{
	int me, err = ori_boot_members_check(boot, members, n, &me);

	(void)tag;
	(void)timeout_ns;
	return err ? err : ori_boot_single_create(sub);
}

static int single_subset(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
			 const char *call, uint64_t timeout_ns, struct oriel_boot **sub)
{
	(void)call;
	return single_subgroup(boot, members, n, tag, timeout_ns, sub);
}

static void single_gone(struct oriel_boot *boot, unsigned char *gone)
{
	(void)boot;
	gone[0] = 0;
}

static void single_watch(struct oriel_boot *boot, ori_boot_watch_fn *fn, void *ctx)
{
	(void)boot;
	(void)fn;
	(void)ctx;
}

static void single_abort(struct oriel_boot *boot, int status, const char *why)
{
	(void)boot;
	(void)status;
	(void)why;
}

static void single_close(struct oriel_boot *boot)
{
	free(boot);
}

static const struct ori_boot_backend single_ops = {
	.name = "single",
	.allgather = single_allgather,
	.subgroup = single_subgroup,
	.subset = single_subset,
	.gone = single_gone,
	.watch = single_watch,
	.abort = single_abort,
	.answer = ori_boot_no_answer,
	.ask = ori_boot_no_ask,
	.close = single_close,
};

int ori_boot_single_create(struct oriel_boot **boot)
{
	struct oriel_boot *b = calloc(1, sizeof(*b));

	if (!b)
		return ori_fail(ORIEL_ENOMEM, "no memory for the boot of one rank");
	ori_boot_init(b, &single_ops, 0, 1);
	*boot = b;
	return 0;
}
