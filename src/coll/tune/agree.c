/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/agree.c - the ranks of a comm agree on a tuning table; plans are made from it.
 *
 * Each rank looks for a file and reads ORIEL_A2A_PLAN.  After one round all ranks have the same
 * table and the same wishes.  A file that is damaged or does not apply is ignored, because a
 * missing optimisation must not end a run.  The lowest rank that has such a file logs one line.
 * The data is attached to the comm and freed with it.
 *
 * Called by: coll/alltoallv, coll/allgather and coll/team when something is created, oriel-tune,
 * tests.  agree and use run on the comm's host thread.  The others may run on any thread, as
 * nothing changes afterwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../comm/agree.h"
#include "../../comm/object.h"
#include "../../kernels/alltoallv.h"
#include "tune.h"

#define PATH_BYTES 512
/* Below this a block of a GPU has less than 3 us to copy, and dividing the blocks costs up to 1. */
#define SPREAD_BYTES (128u << 10)
/*
 * Below this a call takes little longer than its launch.  On an H200 grids that needed nearly all
 * SMs of a rank then took up to 3 us longer than grids with a fifth fewer blocks.
 */
#define ROOMY_BYTES (1u << 20)

/* The settings of ORIEL_A2A_PLAN. */
struct wishes {
	uint32_t preset; /* enum ori_tune_preset + 1; 0: none */
	uint32_t named;  /* parts of plan that were given */
	struct ori_a2a_plan plan;
};

enum { FILE_NONE, FILE_GOOD, FILE_REFUSED };

/* What a rank sends in the round. */
struct record {
	uint64_t key; /* hash: ranks on different machines share no table */
	uint32_t file;
	uint32_t cores; /* this rank's share */
	struct wishes wishes;
	struct ori_tune_table table;
};
_Static_assert(sizeof(struct record) <= ORI_RECORD_BYTES, "must fit a record");

struct tune {
	struct ori_attachment attachment; /* must be first */
	int agreed;
	uint32_t cores;
	uint32_t small; /* from the first guess */
	struct wishes wishes;
	int has_table;
	int owner; /* rank whose table it is; -1: given by ori_tune_use() */
	struct ori_tune_table table;
};

static void forget(struct ori_attachment *a, const void *owner)
{
	(void)a;
	(void)owner; /* nothing here depends on a window or a buffer */
}

static void destroy(struct ori_attachment *a)
{
	free(a);
}

static struct tune *look(struct oriel_comm *c)
{
	return (struct tune *)(void *)ori_attachment_find(c, destroy);
}

/* Ranks on this rank's host. */
static int neighbours(const struct oriel_comm *c)
{
	int ranks = 1;

	for (int r = 0; r < c->nranks; r++)
		ranks += r != c->rank && c->facts[r].host_id == c->facts[c->rank].host_id;
	return ranks;
}

/*
 * The inbox saves a handshake and costs a copy (docs/decisions/0019).  If ranks share cores, the
 * handshake is a switch of processes, which costs as much as a copy of some KiB.  On a GPU it costs
 * 1 us or more, and a copy of 4 KiB less.
 */
static uint32_t first_small(const struct oriel_comm *c)
{
	if (c->device->separate)
		return 4096;
	return neighbours(c) > ori_core_count() ? 8192 : 1024;
}

/* This rank's share of its host's cores. */
static uint32_t own_cores(const struct oriel_comm *c)
{
	int ranks = neighbours(c), cores = ori_core_count();

	if (c->device->separate)
		return 0;
	return cores > ranks ? (uint32_t)(cores / ranks) : 1;
}

static int get(struct oriel_comm *c, struct tune **out)
{
	struct tune *t = look(c);

	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t)
			return ori_fail(ORIEL_ENOMEM, "no memory for a tuning table");
		t->attachment.forget = forget;
		t->attachment.destroy = destroy;
		t->cores = own_cores(c);
		t->small = first_small(c);
		ori_attachment_add(c, &t->attachment);
	}
	*out = t;
	return 0;
}

/* ---- the round ------------------------------------------------------------------------------- */

static int read_wishes(const char *text, struct wishes *w)
{
	memset(w, 0, sizeof(*w));
	if (!text[0])
		return 0;
	for (int p = ORI_PRESET_TABLES; p <= ORI_PRESET_CPU; p++) {
		if (strcmp(text, ori_preset_name((enum ori_tune_preset)p)))
			continue;
		w->preset = (uint32_t)p + 1;
		return 0;
	}
	return ori_plan_parse(text, &w->plan, &w->named);
}

/* path: "" if there is no file.  why: the reason if it is refused. */
static void read_file(struct oriel_comm *c, struct record *mine, char *path, char *why,
		      size_t why_bytes)
{
	const char *wanted = c->config.tune_file;
	struct ori_tune_key key;
	int err;

	ori_tune_key(c, &key);
	mine->key = ori_tune_key_hash(&key);
	if (!strcmp(wanted, "none"))
		return;
	if (wanted[0])
		snprintf(path, PATH_BYTES, "%s", wanted);
	else if (ori_tune_path(&key, path, PATH_BYTES))
		return;
	err = ori_tune_load(path, &key, &mine->table, why, why_bytes);
	if (err == ORIEL_EUNSUPPORTED && !wanted[0])
		return; /* not tuned here */
	mine->file = err ? FILE_REFUSED : FILE_GOOD;
}

/*
 * The lowest rank with a table that fits all ranks; -1: none.  Records come from other processes
 * and are checked.
 */
static int choose(struct oriel_comm *c, const struct record *all)
{
	int owner = -1;

	for (int r = 0; r < c->nranks; r++) {
		if (all[r].key != all[0].key)
			return -1;
		if (owner < 0 && all[r].file == FILE_GOOD && !ori_tune_table_check(&all[r].table))
			owner = r;
	}
	return owner;
}

/* Compares records byte by byte, as they were sent. */
static int same(const void *a, const void *b, size_t bytes)
{
	return !memcmp(a, b, bytes);
}

/*
 * Logs one line per job for a refused file, and for files or ORIEL_A2A_PLAN that differ between
 * ranks.
 */
static void tell(struct oriel_comm *c, const struct record *all, int owner, const char *path,
		 const char *why)
{
	int refused = 0, unlike = 0, wishes = 0;

	while (refused < c->nranks && all[refused].file != FILE_REFUSED)
		refused++;
	if (refused == c->rank)
		ori_log(ORI_LOG_WARN, "tuning file %.200s is ignored: %.200s", path, why);
	if (c->rank != (owner < 0 ? 0 : owner))
		return;
	while (unlike < c->nranks &&
	       (owner < 0 || all[unlike].file != FILE_GOOD ||
		same(&all[unlike].table, &all[owner].table, sizeof(all[owner].table))))
		unlike++;
	if (unlike < c->nranks)
		ori_log(ORI_LOG_WARN, "rank %d has another tuning file; all ranks use rank %d's",
			unlike, owner);
	while (wishes < c->nranks &&
	       same(&all[wishes].wishes, &all[0].wishes, sizeof(struct wishes)))
		wishes++;
	if (wishes < c->nranks)
		ori_log(ORI_LOG_WARN, "rank %d has another ORIEL_A2A_PLAN; all ranks use rank 0's",
			wishes);
	if (owner >= 0)
		ori_log(ORI_LOG_INFO, "tuning file %.200s is in use", path);
}

static void take(struct oriel_comm *c, struct tune *t, const struct record *all, int owner)
{
	for (int r = 0; r < c->nranks; r++)
		if (all[r].cores < t->cores)
			t->cores = all[r].cores;
	t->wishes = all[0].wishes;
	t->owner = owner;
	t->has_table = owner >= 0;
	if (owner >= 0)
		t->table = all[owner].table;
	t->agreed = 1;
}

int ori_tune_agree(struct oriel_comm *c)
{
	struct record *mine, *all;
	char path[PATH_BYTES] = "", why[256] = "";
	struct tune *t = NULL;
	int err, status = get(c, &t);

	if (t && t->agreed)
		return 0;
	mine = calloc(1, sizeof(*mine));
	all = calloc((size_t)c->nranks, sizeof(*all));
	if (!status && (!mine || !all))
		status = ori_fail(ORIEL_ENOMEM, "no memory for a tuning table");
	if (!status)
		status = read_wishes(c->config.a2a_plan, &mine->wishes);
	if (!status) {
		mine->cores = t->cores;
		read_file(c, mine, path, why, sizeof(why));
	}
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_TUNE_AGREE, status, mine, all,
			status ? 0 : sizeof(*mine));
	if (!err) {
		int owner = choose(c, all);

		tell(c, all, owner, path, why);
		take(c, t, all, owner);
	}
	free(mine);
	free(all);
	return err;
}

int ori_tune_is_agreed(struct oriel_comm *c)
{
	const struct tune *t = look(c);

	return t && t->agreed;
}

/* ---- plans ----------------------------------------------------------------------------------- */

uint32_t ori_tune_peers(struct oriel_comm *c, int kind)
{
	uint32_t n = 0;

	for (int r = 0; r < c->nranks; r++)
		n += (c->peers[r].pair.kind == ORIEL_PEER_QUEUED) == (kind == ORI_PLAN_QUEUED);
	return n;
}

static void apply_table(const struct ori_tune_table *table, uint64_t bytes,
			struct ori_a2a_plan *plan)
{
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		const struct ori_tune_row *r = ori_tune_row(table, k, bytes);

		if (r)
			plan->kind[k] = (struct ori_a2a_setting){ r->blocks, r->warps, r->chunk };
	}
	plan->small = table->small;
}

static void apply_wishes(const struct wishes *w, struct ori_a2a_plan *plan)
{
	for (uint32_t k = 0; k < ORI_PLAN_KINDS; k++)
		if (w->named & 1u << k)
			plan->kind[k] = w->plan.kind[k];
	if (w->named & ORI_PLAN_HAS_SMALL)
		plan->small = w->plan.small;
	if (w->named & ORI_PLAN_HAS_SPREAD)
		plan->spread = w->plan.spread;
}

/* Returns where the plan comes from, for --explain. */
static const char *fill(struct oriel_comm *c, const struct tune *t, uint64_t bytes,
			struct ori_a2a_plan *plan)
{
	int preset = c->device->separate ? ORI_PRESET_TABLES : ORI_PRESET_CPU;

	if (t && t->wishes.preset)
		preset = (int)t->wishes.preset - 1;
	ori_tune_first((enum ori_tune_preset)preset, bytes, plan);
	plan->small = t ? t->small : first_small(c);
	plan->spread = c->device->separate ? SPREAD_BYTES : 0;
	if (t && t->has_table && !t->wishes.preset)
		apply_table(&t->table, bytes, plan);
	if (t)
		apply_wishes(&t->wishes, plan);
	if (t && (t->wishes.named || t->wishes.preset))
		return "ORIEL_A2A_PLAN";
	if (t && t->has_table)
		return "measured by oriel-tune";
	return c->device->separate ? "first guess for cuda" : "first guess for cpu";
}

/* Adjusts a setting to what the kernels of a GPU really use. */
static void used(int kind, struct ori_a2a_setting *s)
{
	if (s->warps > ORI_A2A_THREADS / 32)
		s->warps = ORI_A2A_THREADS / 32;
	if (kind == ORI_PLAN_MAPPED && s->chunk < ORI_A2A_GPU_CHUNK)
		s->chunk = ORI_A2A_GPU_CHUNK;
}

/*
 * The blocks of all ranks on a GPU wait for each other, so all must be resident.  Ranks may have
 * plans of different widths, and a narrow block keeps a wide one from its SM.  So each block counts
 * as the widest that a kernel may have.
 */
static int count_resident(struct oriel_comm *c, struct ori_a2a_plan *plan, int *resident)
{
	for (int k = 0; k < ORI_PLAN_KINDS; k++)
		used(k, &plan->kind[k]);
	return c->device->ops->resident(c->device,
					ori_a2a_kernel(plan->uniform ? ORI_A2A_KERNEL_MAPPED :
								       ORI_A2A_KERNEL_MIXED),
					ORI_A2A_THREADS, resident);
}

int ori_tune_resident(struct oriel_comm *c, struct ori_a2a_plan *plan)
{
	int resident = 0, err;

	if (!c->device->separate)
		return 0;
	err = count_resident(c, plan, &resident);
	if (!err)
		(void)ori_tune_cap(plan, (uint32_t)c->nranks, (uint64_t)resident);
	return err;
}

/* A short call with a guessed number of blocks leaves room; but not fewer than two for that. */
static void leave_room(struct oriel_comm *c, struct ori_a2a_plan *plan)
{
	uint32_t *blocks = &plan->kind[ORI_PLAN_MAPPED].blocks, fewer;
	int resident = 0;

	if (!c->device->separate || count_resident(c, plan, &resident))
		return;
	fewer = (uint32_t)resident * 4 / 5 / (uint32_t)c->nranks;
	fewer = fewer < 2 ? 2 : fewer;
	*blocks = *blocks < fewer ? *blocks : fewer;
}

int ori_tune_plan(struct oriel_comm *c, uint64_t bytes, struct ori_a2a_plan *plan)
{
	return ori_tune_plan_with(c, bytes, NULL, plan);
}

int ori_tune_plan_with(struct oriel_comm *c, uint64_t bytes, const struct ori_a2a_setting *given,
		       struct ori_a2a_plan *plan)
{
	const struct tune *t = look(c);
	int guessed = !t || !(t->has_table || t->wishes.preset ||
			      t->wishes.named & 1u << ORI_PLAN_MAPPED);
	int err;

	(void)fill(c, t, bytes, plan);
	for (int k = 0; given && k < ORI_PLAN_KINDS; k++)
		if (given[k].blocks)
			plan->kind[k] = given[k];
	plan->uniform = ori_tune_peers(c, ORI_PLAN_QUEUED) == 0;
	plan->cores = t ? t->cores : own_cores(c);
	guessed = guessed && !(given && given[ORI_PLAN_MAPPED].blocks);
	err = ori_tune_resident(c, plan);
	if (!err && guessed && bytes < ROOMY_BYTES)
		leave_room(c, plan);
	/* with more blocks for a peer each of them has less to copy */
	if (!plan->uniform || bytes / plan->kind[ORI_PLAN_MAPPED].blocks < plan->spread)
		plan->spread = 0; /* not in this call */
	/*
	 * A small message among others is told later than those, because a GPU needs a second fence
	 * for it; and whoever sends to its sender waits for that word.
	 */
	if (c->device->separate && bytes > plan->small &&
	    !(t && t->wishes.named & ORI_PLAN_HAS_SMALL))
		plan->small = 0;
	return err;
}

void ori_tune_ways(struct oriel_comm *c, struct ori_tune_ways *ways)
{
	const struct tune *t = look(c);

	if (t && t->has_table)
		*ways = t->table.ways;
	else
		ori_tune_first_ways(c->device->separate, c->nranks, ways);
}

int ori_tune_link(struct oriel_comm *c, int kind, uint64_t *latency_ns, uint64_t *bytes_per_us)
{
	const struct tune *t = look(c);

	if (!t || !t->has_table || kind < 0 || kind >= ORI_PLAN_KINDS ||
	    t->table.model[kind].rate < 1)
		return ORIEL_EUNSUPPORTED;
	*latency_ns = (uint64_t)(t->table.model[kind].latency_us * 1e3);
	*bytes_per_us = (uint64_t)t->table.model[kind].rate;
	return 0;
}

double ori_tune_predict_us(struct oriel_comm *c, uint64_t bytes)
{
	const struct tune *t = look(c);
	struct ori_a2a_plan plan;
	double us[ORI_PLAN_KINDS] = { 0 };

	if (!t || !t->has_table || ori_tune_plan(c, bytes, &plan))
		return 0;
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		double peers = ori_tune_peers(c, k);

		if (peers > 0 && t->table.model[k].rate > 0)
			us[k] = ori_tune_predict(&t->table.model[k], peers * (double)bytes,
						 plan.kind[k].blocks);
	}
	return ori_tune_predict_both(us[ORI_PLAN_MAPPED], us[ORI_PLAN_QUEUED], t->table.overlap);
}

/* The larger fit error of the kinds of peers in use. */
static double fit_error(const struct tune *t, const struct ori_a2a_plan *plan)
{
	double mapped = t->table.model[ORI_PLAN_MAPPED].error;
	double queued = t->table.model[ORI_PLAN_QUEUED].error;

	return plan->uniform || mapped > queued ? mapped : queued;
}

int ori_tune_explain(struct oriel_comm *c, uint64_t bytes_per_peer, char *text, size_t bytes)
{
	return ori_tune_explain_with(c, bytes_per_peer, NULL, text, bytes);
}

/* Of the kinds of peers that the comm has, which have settings of the request? */
static const char *given_text(const struct ori_a2a_setting *given, int uniform)
{
	int mapped = given && given[ORI_PLAN_MAPPED].blocks;
	int queued = given && given[ORI_PLAN_QUEUED].blocks && !uniform;

	if (mapped && (queued || uniform))
		return "options of the request";
	return mapped ? "mapped: options of the request; queued: " :
	       queued ? "queued: options of the request; mapped: " :
			"";
}

int ori_tune_explain_with(struct oriel_comm *c, uint64_t bytes_per_peer,
			  const struct ori_a2a_setting *given, char *text, size_t bytes)
{
	const struct tune *t = look(c);
	struct ori_a2a_plan plan;
	char size[24], settings[160], prediction[80] = "";
	const char *source = fill(c, t, bytes_per_peer, &plan), *own;
	double us = ori_tune_predict_us(c, bytes_per_peer);
	int err = ori_tune_plan_with(c, bytes_per_peer, given, &plan);

	if (err)
		return err;
	own = given_text(given, (int)plan.uniform);
	ori_bytes_text(bytes_per_peer, size, sizeof(size));
	ori_plan_text(&plan, settings, sizeof(settings));
	/* the table's model is that of its own settings */
	if (us > 0 && !own[0])
		snprintf(prediction, sizeof(prediction), "; %.3g us predicted, fits within %.0f %%",
			 us, 100 * fit_error(t, &plan));
	if (own[0] && own[strlen(own) - 1] != ' ')
		source = "";
	snprintf(text, bytes, "%s per peer: %s (%s%s%s)", size, settings, own, source, prediction);
	return 0;
}

/* ---- for oriel-tune -------------------------------------------------------------------------- */

int ori_tune_use(struct oriel_comm *c, const struct ori_tune_table *table)
{
	struct tune *t = NULL;
	int err = get(c, &t);

	if (err)
		return err;
	t->owner = -1;
	t->has_table = table != NULL;
	if (table)
		t->table = *table;
	return 0;
}
