/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/user.c - a boot over the callbacks of the user's own runtime (MPI, a torch store, ...).
 *
 * Owns the user's callbacks until the last boot over them closes, then calls destroy once.  The
 * deadlines are those of the callbacks: nothing here can end a call inside the user's runtime.  A
 * group of all ranks uses the same callbacks, in another order if needed.  A smaller group meets by
 * TCP, with an id that its first member distributes through the callbacks.
 *
 * Called by: comm through the table of boot.h, on any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "impl.h"

struct user_calls {
	struct oriel_boot_ops ops;
	void *ctx;
	int refs; /* atomic */
};

struct user_boot {
	struct oriel_boot base;
	struct user_calls *calls;
	int *order; /* my rank -> rank in the callbacks; NULL: the same */
};

/* What each rank contributes when subgroups are made. */
struct user_offer {
	int32_t status; /* of making the id; also 0 for ranks that make none */
	struct oriel_boot_id id;
};

static const struct ori_boot_backend user_ops;

static int call_allgather(struct user_boot *b, const void *mine, void *all, size_t bytes)
{
	int value = b->calls->ops.allgather(b->calls->ctx, mine, all, bytes);

	if (value)
		return ori_fail(ORIEL_EBOOT,
				"%s: the user's allgather callback returned %d (rank %d)",
				ori_boot_serves(&b->base), value, b->base.rank);
	return 0;
}

/* The callbacks have their own order of ranks.  This group may have another one. */
static int ordered_allgather(struct user_boot *b, const void *mine, void *all, size_t bytes)
{
	unsigned char *raw, *out = all;
	int err;

	if (!b->order)
		return call_allgather(b, mine, all, bytes);
	raw = malloc((size_t)b->base.nranks * bytes);
	if (!raw)
		return ori_fail(ORIEL_ENOMEM, "no memory to gather %d times %zu bytes",
				b->base.nranks, bytes);
	err = call_allgather(b, mine, raw, bytes);
	for (int r = 0; r < b->base.nranks && !err; r++)
		memcpy(out + (size_t)r * bytes, raw + (size_t)b->order[r] * bytes, bytes);
	free(raw);
	return err;
}

/* A barrier gathers one byte, because runtimes treat zero bytes differently. */
static int user_barrier(struct user_boot *b)
{
	unsigned char mine = 1, *all = malloc((size_t)b->base.nranks);
	int err;

	if (!all)
		return ori_fail(ORIEL_ENOMEM, "no memory for a barrier of %d ranks",
				b->base.nranks);
	err = call_allgather(b, &mine, all, 1);
	free(all);
	return err;
}

static int user_allgather(struct oriel_boot *boot, const void *mine, void *all, size_t bytes,
			  uint64_t timeout_ns)
{
	struct user_boot *b = (struct user_boot *)boot;

	(void)timeout_ns;
	return bytes ? ordered_allgather(b, mine, all, bytes) : user_barrier(b);
}

/* On success it takes over the caller's reference to the calls. */
static int user_create(struct user_calls *calls, int *order, int rank, int nranks,
		       struct oriel_boot **boot)
{
	struct user_boot *b = calloc(1, sizeof(*b));

	if (!b)
		return ori_fail(ORIEL_ENOMEM, "no memory for the boot of rank %d", rank);
	ori_boot_init(&b->base, &user_ops, rank, nranks);
	b->calls = calls;
	b->order = order;
	*boot = &b->base;
	return 0;
}

/* The group of all members of b: the same callbacks, with one more reference. */
static int whole_subgroup(struct user_boot *b, const int *members, int me, struct oriel_boot **sub)
{
	int n = b->base.nranks, changed = 0, err;
	int *order = malloc((size_t)n * sizeof(*order));

	if (!order)
		return ori_fail(ORIEL_ENOMEM, "no memory for a subgroup of %d ranks", n);
	for (int i = 0; i < n; i++) {
		order[i] = b->order ? b->order[members[i]] : members[i];
		changed |= order[i] != i;
	}
	if (!changed) {
		free(order);
		order = NULL;
	}
	err = user_create(b->calls, order, me, n, sub);
	if (err)
		free(order);
	else
		__atomic_fetch_add(&b->calls->refs, 1, __ATOMIC_RELAXED);
	return err;
}

/*
 * All ranks of the parent are in this call, each for its own subgroup.  One allgather serves them
 * all.
 */
static int hand_round(struct user_boot *b, const struct ori_config *config, const int *members,
		      int n, struct oriel_boot_id *id)
{
	struct user_offer mine, *all;
	int maker = members[0], err;

	memset(&mine, 0, sizeof(mine));
	/* A failure here is sent too: the others must not wait for an id that never comes. */
	if (n > 1 && maker == b->base.rank)
		mine.status = ori_boot_id_make(config, &mine.id);
	all = calloc((size_t)b->base.nranks, sizeof(*all));
	if (!all)
		return ori_fail(ORIEL_ENOMEM, "no memory for the ids of %d ranks", b->base.nranks);
	err = ordered_allgather(b, &mine, all, sizeof(mine));
	if (!err && all[maker].status)
		err = maker == b->base.rank ?
			      (int)mine.status :
			      ori_fail(all[maker].status, "rank %d could not make an id: %s", maker,
				       oriel_status_text(all[maker].status));
	if (!err)
		*id = all[maker].id;
	free(all);
	return err;
}

static int user_subgroup(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
			 uint64_t timeout_ns, struct oriel_boot **sub)
{
	struct user_boot *b = (struct user_boot *)boot;
	struct ori_config config;
	struct oriel_boot_id id;
	int me, err = ori_boot_members_check(boot, members, n, &me);

	(void)tag; /* the maker's rank distinguishes groups */
	if (err)
		return err;
	if (n == boot->nranks)
		return whole_subgroup(b, members, me, sub);
	err = ori_config_read(&config);
	if (err)
		return err;
	if (timeout_ns < ori_boot_seconds_ns(config.timeout))
		config.timeout = (double)timeout_ns / 1e9;
	err = hand_round(b, &config, members, n, &id);
	if (err)
		return err;
	return n == 1 ? ori_boot_single_create(sub) : ori_boot_id_join(&config, &id, me, n, sub);
}

/* The callbacks gather from all ranks, so some ranks cannot meet without the others. */
static int user_subset(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
		       const char *call, uint64_t timeout_ns, struct oriel_boot **sub)
{
	int me, err = ori_boot_members_check(boot, members, n, &me);

	(void)tag;
	(void)timeout_ns;
	if (err)
		return err;
	if (n == boot->nranks)
		return whole_subgroup((struct user_boot *)boot, members, me, sub);
	if (n == 1)
		return ori_boot_single_create(sub);
	return ori_fail(ORIEL_EUNSUPPORTED,
			"%s: %d of %d ranks cannot meet alone: oriel_boot_user has callbacks for "
			"all ranks only; use oriel_comm_split",
			call, n, boot->nranks);
}

/* The user's runtime cannot call the library, so a watcher is never called. */
static void user_watch(struct oriel_boot *boot, ori_boot_watch_fn *fn, void *ctx)
{
	(void)boot;
	(void)fn;
	(void)ctx;
}

static void user_abort(struct oriel_boot *boot, int status, const char *why)
{
	struct user_calls *calls = ((struct user_boot *)boot)->calls;

	(void)why;
	if (calls->ops.abort)
		calls->ops.abort(calls->ctx, status);
}

static void user_close(struct oriel_boot *boot)
{
	struct user_boot *b = (struct user_boot *)boot;
	struct user_calls *calls = b->calls;

	free(b->order);
	free(b);
	/*
	 * [BOOT2] acq_rel, process scope; its own partner.  Publishes a boot's last use of the
	 * callbacks to the boot that ends them.  Without it destroy() could free the user's ctx
	 * while another thread's last callback still uses it.
	 */
	if (__atomic_sub_fetch(&calls->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (calls->ops.destroy)
		calls->ops.destroy(calls->ctx);
	free(calls);
}

static const struct ori_boot_backend user_ops = {
	.name = "user",
	.allgather = user_allgather,
	.subgroup = user_subgroup,
	.subset = user_subset,
	.watch = user_watch,
	.abort = user_abort,
	.answer = ori_boot_no_answer,
	.ask = ori_boot_no_ask,
	.close = user_close,
};

int ori_boot_user_create(const struct oriel_boot_ops *ops, void *ctx, int rank, int nranks,
			 struct oriel_boot **boot)
{
	struct user_calls *calls = calloc(1, sizeof(*calls));
	int err;

	if (!calls)
		return ori_fail(ORIEL_ENOMEM, "no memory for the callbacks of rank %d", rank);
	calls->ops = *ops;
	calls->ctx = ctx;
	calls->refs = 1;
	err = user_create(calls, NULL, rank, nranks, boot);
	if (err)
		free(calls);
	return err;
}
