/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/gone.c - tells peers which memory was freed, so that they unmap it.
 *
 * When the first packet names memory of a peer, the engine maps that memory and keeps it mapped.
 * Before the owner frees memory, it writes the name into its control memory, which the ranks of its
 * machine map.  They look there before the engine looks up a name, and in calls that create or
 * destroy windows, allocate memory, or meet all ranks.  A mapping goes only while no thread uses
 * the engine's mappings: then no packet is being copied, and the next packet that names the memory
 * does not find it.
 *
 * Telling: any thread.  Looking: the thread that drives the engine, and user threads.
 */
#include "control.h"
#include "gone.h"
#include "imports.h"

/* ---- the owner ------------------------------------------------------------------------------ */

void ori_gone_tell(struct oriel_comm *c, uint64_t id)
{
	struct ori_gone *g;
	uint64_t count;

	if (!c->control || !id)
		return;
	g = &c->control->gone;
	count = __atomic_load_n(&g->count, __ATOMIC_RELAXED); /* one writer: the lock is held */
	/*
	 * [GONE3] release, system scope; partner [GONE4] in look().  A peer that reads this name in
	 * place of the one a lap before must see a count that is at least this one: then it knows
	 * that it has missed names.  Without it the peer would take this name for the older one and
	 * keep memory mapped whose name was overwritten.
	 */
	__atomic_store_n(&g->id[count % ORI_GONE_KEPT], id, __ATOMIC_RELEASE);
	/*
	 * [GONE1] release, system scope; partner [GONE2] in look().  A peer that sees the count
	 * sees the name.  Without it the peer would unmap the memory whose name stood there a lap
	 * before, and go on to use memory of this name.
	 */
	__atomic_store_n(&g->count, count + 1, __ATOMIC_RELEASE);
}

/* ---- the peers ------------------------------------------------------------------------------ */

static struct ori_gone *words_of(const struct oriel_comm *c, int rank)
{
	const struct ori_peer *p = &c->peers[rank];
	struct ori_control *control = p->slab_base;

	return control && !p->same_process ? &control->gone : NULL;
}

/* Has the rank freed memory since the last look?  Any thread. */
static int has_news(struct oriel_comm *c, int rank)
{
	struct ori_gone *g = words_of(c, rank);

	return g && __atomic_load_n(&g->count, __ATOMIC_RELAXED) !=
			    __atomic_load_n(&c->peers[rank].gone_seen, __ATOMIC_RELAXED);
}

/*
 * Moves imports whose memory was freed since the last look from the list to *dropped.  Only the
 * engine uses them.  If a peer has freed more memory than its list of names can hold, names were
 * overwritten.  Then all imports of that peer go; the engine maps them again when it needs them.
 */
static void look(struct oriel_comm *c, int rank, struct ori_import **dropped)
{
	struct ori_gone *g = words_of(c, rank);
	uint64_t *seen = &c->peers[rank].gone_seen, ids[ORI_GONE_KEPT] = { 0 }, count, n;

	if (!g || !has_news(c, rank))
		return;
	/* [GONE2] acquire, system scope; partner [GONE1] in ori_gone_tell(). */
	count = __atomic_load_n(&g->count, __ATOMIC_ACQUIRE);
	n = count - *seen;
	/* At most ORI_GONE_KEPT - 1 names: the owner may be overwriting the oldest place now. */
	for (uint64_t i = 0; n < ORI_GONE_KEPT && i < n; i++)
		/* [GONE4] acquire, system scope; partner [GONE3]: the count below is no older */
		ids[i] = __atomic_load_n(&g->id[(*seen + i) % ORI_GONE_KEPT], __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&g->count, __ATOMIC_RELAXED) - *seen >= ORI_GONE_KEPT)
		ori_imports_take_all(c, rank, dropped);
	else
		for (uint64_t i = 0; i < n; i++)
			ori_imports_take(c, rank, ids[i], dropped);
	__atomic_store_n(seen, count, __ATOMIC_RELAXED);
}

void ori_gone_check(struct oriel_comm *c, int rank)
{
	struct ori_import *dropped = NULL;

	look(c, rank, &dropped);
	ori_imports_unmap(dropped);
}

/* ---- from outside of the engine ------------------------------------------------------------- */

struct looking {
	struct oriel_comm *comm;
	int rank; /* whose memory `id` is; -1: look at all ranks */
	uint64_t id;
	struct ori_import *dropped;
};

static void look_apart(void *arg)
{
	struct looking *l = arg;

	if (l->rank >= 0)
		ori_imports_take(l->comm, l->rank, l->id, &l->dropped);
	for (int r = 0; l->rank < 0 && r < l->comm->nranks; r++)
		look(l->comm, r, &l->dropped);
}

/*
 * Takes the imports from the list while no thread uses the engine's mappings.  Unmaps them after
 * that, because a driver may be slow; no packet can find them any more.
 */
static void keep_out(struct looking *l)
{
	struct ori_engine *e = l->comm->engine;

	if (!e || !e->ops->apart)
		return;
	e->ops->apart(e, look_apart, l);
	ori_imports_unmap(l->dropped);
}

void ori_gone_check_all(struct oriel_comm *c)
{
	struct looking l = { .comm = c, .rank = -1 };
	int news = 0;

	for (int r = 0; c->engine && r < c->nranks && !news; r++)
		news = has_news(c, r);
	if (news)
		keep_out(&l);
}

void ori_gone_forget(struct oriel_comm *c, int rank, uint64_t id)
{
	struct looking l = { .comm = c, .rank = rank, .id = id };

	if (id && !c->peers[rank].same_process)
		keep_out(&l);
}
