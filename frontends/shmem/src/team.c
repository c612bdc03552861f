/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team.c - teams: a set of PEs with a handle.
 *
 * A split is a split of the parent's comm.  All PEs of the parent decide from the same arguments
 * whether they are good, so a bad split returns -1 on all of them without communication.
 */
#include <stdlib.h>

#include "set.h"

struct osh_team osh_team_world, osh_team_shared;

/* Names of sets without parent: those of active sets are from 0 to less than SHARED_TAG. */
#define WORLD_NAME (-1)
#define SHARED_TAG 0x7fffffff

/* ---- the predefined teams -------------------------------------------------------------------- */

static int *take_list(const char *call, int n)
{
	return osh_set_scratch(call, (uint64_t)n * sizeof(int));
}

static void open_world(void)
{
	int *world = take_list("shmem_init", (int)osh.npes);

	for (int pe = 0; pe < (int)osh.npes; pe++)
		world[pe] = pe;
	osh_set_open(&osh_team_world.set, world, (int)osh.npes, osh.pe, 0);
	osh_set_name("shmem_init", &osh_team_world.set, NULL, WORLD_NAME);
	osh_team_world.set.comm = osh.comm;
}

/* The PEs that loads and stores reach from here: a node of Oriel. */
static void open_shared(void)
{
	int *world = take_list("shmem_init", (int)osh.npes);
	int n = 0, rank = 0, node = oriel_comm_node(osh.comm, osh.pe);

	for (int pe = 0; pe < (int)osh.npes; pe++) {
		if (oriel_comm_node(osh.comm, pe) != node)
			continue;
		if (pe == osh.pe)
			rank = n;
		world[n++] = pe;
	}
	osh_set_open(&osh_team_shared.set, world, n, rank, 0);
	osh_set_name("shmem_init", &osh_team_shared.set, NULL, SHARED_TAG);
}

void osh_teams_open(void)
{
	open_world();
	open_shared();
}

/* ---- questions ------------------------------------------------------------------------------- */

int shmem_team_my_pe(shmem_team_t handle)
{
	const struct osh_team *team = osh_team_of("shmem_team_my_pe", handle);

	return team ? team->set.rank : -1;
}

int shmem_team_n_pes(shmem_team_t handle)
{
	const struct osh_team *team = osh_team_of("shmem_team_n_pes", handle);

	return team ? team->set.n : -1;
}

int shmem_team_get_config(shmem_team_t handle, long config_mask, shmem_team_config_t *config)
{
	const struct osh_team *team = osh_team_of("shmem_team_get_config", handle);

	if (!team || !config || config_mask & ~SHMEM_TEAM_NUM_CONTEXTS)
		return -1;
	if (config_mask & SHMEM_TEAM_NUM_CONTEXTS)
		config->num_contexts = team->config.num_contexts;
	return 0;
}

int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team)
{
	const struct osh_team *from = osh_team_of("shmem_team_translate_pe", src_team);
	const struct osh_team *to = osh_team_of("shmem_team_translate_pe", dest_team);

	if (!from || !to || src_pe < 0 || src_pe >= from->set.n)
		return -1;
	if (to == &osh_team_world)
		return from->set.world[src_pe];
	for (int pe = 0; pe < to->set.n; pe++) {
		if (to->set.world[pe] == from->set.world[src_pe])
			return pe;
	}
	return -1;
}

void *shmem_team_ptr(shmem_team_t handle, const void *dest, int pe)
{
	const struct osh_team *team = osh_team_of("shmem_team_ptr", handle);

	if (!team)
		return NULL;
	if (pe < 0 || pe >= team->set.n)
		osh_fail_pe("shmem_team_ptr", pe, team->set.n);
	return shmem_ptr(dest, team->set.world[pe]);
}

/* ---- splits ---------------------------------------------------------------------------------- */

/* Which PEs of the parent form a team: those of one colour, in the order of their keys. */
struct split {
	int color, key;
	int n; /* PEs of the new team */
	int (*member)(const struct split *, int key);
	int start, stride; /* for member() */
};

static int member_by_stride(const struct split *split, int key)
{
	return split->start + key * split->stride;
}

/* 0: the mask selects only fields that exist, with values that are possible. */
static int check_config(const shmem_team_config_t *config, long mask)
{
	if (mask & ~SHMEM_TEAM_NUM_CONTEXTS)
		return -1;
	if (!mask)
		return 0;
	return config && config->num_contexts >= 0 ? 0 : -1;
}

/* Collective over the parent.  PEs with colour -1 get SHMEM_TEAM_INVALID. */
static shmem_team_t make_team(const char *call, struct osh_team *parent, const struct split *split,
			      const shmem_team_config_t *config, long mask)
{
	struct oriel_comm *comm = NULL;
	struct osh_team *team;
	int *world, number = parent->set.splits++;

	osh_check(call, oriel_comm_split(osh_set_comm(call, &parent->set), split->color, split->key,
					 &comm));
	if (split->color < 0)
		return SHMEM_TEAM_INVALID;
	if (oriel_comm_size(comm) != split->n || oriel_comm_rank(comm) != split->key)
		osh_fail(call, "PEs pass different arguments: the team has %d PEs, not %d",
			 oriel_comm_size(comm), split->n);
	team = osh_set_scratch(call, sizeof(*team));
	world = take_list(call, split->n);
	for (int i = 0; i < split->n; i++)
		world[i] = parent->set.world[split->member(split, i)];
	osh_set_open(&team->set, world, split->n, split->key, 1);
	osh_set_name(call, &team->set, &parent->set, number);
	team->set.comm = comm;
	team->config.num_contexts = mask & SHMEM_TEAM_NUM_CONTEXTS ? config->num_contexts : 0;
	return team;
}

int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
			     const shmem_team_config_t *config, long config_mask,
			     shmem_team_t *new_team)
{
	const char *call = "shmem_team_split_strided";
	struct osh_team *parent = osh_team_of(call, parent_team);
	struct split split = { -1, 0, size, member_by_stride, start, stride };
	int64_t last = (int64_t)start + ((int64_t)size - 1) * stride;

	if (!new_team)
		return -1;
	*new_team = SHMEM_TEAM_INVALID;
	if (!parent || size < 1 || (size > 1 && !stride) || check_config(config, config_mask) ||
	    start < 0 || start >= parent->set.n || last < 0 || last >= parent->set.n)
		return -1;
	for (int i = 0; i < size; i++) {
		if (member_by_stride(&split, i) != parent->set.rank)
			continue;
		split.color = 0;
		split.key = i;
	}
	*new_team = make_team(call, parent, &split, config, config_mask);
	return 0;
}

/* The PEs of the parent are rows of xrange; the last row may be shorter. */
int shmem_team_split_2d(shmem_team_t parent_team, int xrange,
			const shmem_team_config_t *xaxis_config, long xaxis_mask,
			shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config,
			long yaxis_mask, shmem_team_t *yaxis_team)
{
	const char *call = "shmem_team_split_2d";
	struct osh_team *parent = osh_team_of(call, parent_team);
	struct split x = { .member = member_by_stride }, y = x;
	int x_of, y_of, rest;

	if (!xaxis_team || !yaxis_team)
		return -1;
	*xaxis_team = SHMEM_TEAM_INVALID;
	*yaxis_team = SHMEM_TEAM_INVALID;
	if (!parent || xrange < 1 || check_config(xaxis_config, xaxis_mask) ||
	    check_config(yaxis_config, yaxis_mask))
		return -1;
	if (xrange > parent->set.n)
		xrange = parent->set.n;
	x_of = parent->set.rank % xrange;
	y_of = parent->set.rank / xrange;
	rest = parent->set.n - y_of * xrange;
	x = (struct split){ y_of,          x_of, rest < xrange ? rest : xrange, member_by_stride,
			    y_of * xrange, 1 };
	y = (struct split){
		x_of, y_of,  (parent->set.n - x_of + xrange - 1) / xrange, member_by_stride,
		x_of, xrange
	};
	*xaxis_team = make_team(call, parent, &x, xaxis_config, xaxis_mask);
	*yaxis_team = make_team(call, parent, &y, yaxis_config, yaxis_mask);
	return 0;
}

void shmem_team_destroy(shmem_team_t handle)
{
	const char *call = "shmem_team_destroy";
	struct osh_team *team = osh_team_of(call, handle);

	if (!team)
		return;
	if (team == &osh_team_world || team == &osh_team_shared)
		osh_fail(call, "predefined teams cannot be destroyed");
	osh_ctx_free_of(team);
	osh_set_close(call, &team->set);
}

/* ---- calls on a team ------------------------------------------------------------------------- */

int shmem_team_sync(shmem_team_t handle)
{
	struct osh_team *team = osh_team_of("shmem_team_sync", handle);

	if (!team)
		return -1;
	if (team == &osh_team_world)
		shmem_sync_all();
	else
		osh_set_meet("shmem_team_sync", &team->set);
	return 0;
}

int shmem_team_create_ctx(shmem_team_t handle, long options, shmem_ctx_t *ctx)
{
	const struct osh_team *team = osh_team_of("shmem_team_create_ctx", handle);
	int is_world = team == &osh_team_world;

	if (!ctx)
		return -1;
	*ctx = SHMEM_CTX_INVALID;
	if (!team)
		return -1;
	*ctx = osh_ctx_make(options, handle, is_world ? NULL : team->set.world, team->set.n);
	return *ctx ? 0 : -1;
}
