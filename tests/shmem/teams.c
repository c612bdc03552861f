/* SPDX-License-Identifier: BSD-3-Clause */
/* teams.c - teams: who is in them, splits, translation, their contexts, sync and end. */
#include "pe.h"

static int me, npes;
static long *word, *row; /* symmetric; row has one element per PE */

static void check_predefined(void)
{
	int pe, shared = shmem_team_n_pes(SHMEM_TEAM_SHARED);

	CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_WORLD), me);
	CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_WORLD), npes);
	CHECK(shared >= 1 && shared <= npes);
	CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_SHARED, shmem_team_my_pe(SHMEM_TEAM_SHARED),
					 SHMEM_TEAM_WORLD),
		 me);
	/* exactly the PEs of SHMEM_TEAM_SHARED can be reached by loads and stores */
	for (pe = 0; pe < npes; pe++)
		CHECK_EQ(shmem_ptr(word, pe) != NULL,
			 shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_SHARED) >= 0);
	for (pe = 0; pe < shared; pe++)
		CHECK(shmem_team_ptr(SHMEM_TEAM_SHARED, word, pe) ==
		      shmem_ptr(word,
				shmem_team_translate_pe(SHMEM_TEAM_SHARED, pe, SHMEM_TEAM_WORLD)));
}

static void check_invalid(void)
{
	shmem_team_config_t config = { 77 };
	shmem_team_t team = SHMEM_TEAM_WORLD, other = SHMEM_TEAM_WORLD;
	shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;

	CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_INVALID), -1);
	CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_INVALID), -1);
	CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD), -1);
	CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID), -1);
	CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, npes, SHMEM_TEAM_WORLD), -1);
	CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, -1, SHMEM_TEAM_WORLD), -1);
	CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, SHMEM_TEAM_NUM_CONTEXTS, &config));
	CHECK_EQ(config.num_contexts, 77);
	CHECK(shmem_team_sync(SHMEM_TEAM_INVALID));
	CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx));
	CHECK(ctx == SHMEM_CTX_INVALID);
	CHECK(shmem_team_ptr(SHMEM_TEAM_INVALID, word, 0) == NULL);
	shmem_team_destroy(SHMEM_TEAM_INVALID);
	CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team));
	CHECK(team == SHMEM_TEAM_INVALID);
	CHECK(shmem_team_split_2d(SHMEM_TEAM_INVALID, 1, NULL, 0, &team, NULL, 0, &other));
	CHECK(other == SHMEM_TEAM_INVALID);
	/* PEs that do not exist; PEs twice; none; a configuration that does not exist */
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes, 1, 1, NULL, 0, &team));
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, -1, 1, 1, NULL, 0, &team));
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes + 1, NULL, 0, &team));
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 0, 2, NULL, 0, &team));
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1 << 30, 4, NULL, 0, &team));
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 0, NULL, 0, &team));
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, NULL, 1l << 20, &team));
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, NULL, SHMEM_TEAM_NUM_CONTEXTS,
				       &team));
	CHECK(team == SHMEM_TEAM_INVALID);
	CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 0, NULL, 0, &team, NULL, 0, &other));
}

/* The PEs of `team` are world[0..n) in that order. */
static void check_members(shmem_team_t team, const int *world, int n)
{
	int mine = -1, pe;
	long sum = 0;

	for (pe = 0; pe < n; pe++)
		if (world[pe] == me)
			mine = pe;
	if (mine < 0) {
		CHECK(team == SHMEM_TEAM_INVALID);
		return;
	}
	CHECK_EQ(shmem_team_n_pes(team), n);
	CHECK_EQ(shmem_team_my_pe(team), mine);
	for (pe = 0; pe < n; pe++) {
		CHECK_EQ(shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD), world[pe]);
		CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, world[pe], team), pe);
		CHECK(shmem_team_ptr(team, word, pe) == shmem_ptr(word, world[pe]));
		sum += world[pe];
	}
	*word = me;
	CHECK_EQ(shmem_long_sum_reduce(team, word + 1, word, 1), 0);
	CHECK_EQ(word[1], sum);
}

static void check_strided(int start, int stride, int size)
{
	shmem_team_config_t config = { 3 }, got = { 0 };
	shmem_team_t team;
	int world[64], i;

	for (i = 0; i < size; i++)
		world[i] = start + i * stride;
	CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, &config,
					  SHMEM_TEAM_NUM_CONTEXTS, &team),
		 0);
	check_members(team, world, size);
	if (team != SHMEM_TEAM_INVALID) {
		CHECK_EQ(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &got), 0);
		CHECK_EQ(got.num_contexts, 3);
		CHECK_EQ(shmem_team_get_config(team, 0, &got), 0);
	}
	shmem_team_destroy(team);
}

static void check_2d(shmem_team_t parent, int xrange)
{
	int n = shmem_team_n_pes(parent), rank = shmem_team_my_pe(parent), world[64] = { 0 }, k = 0,
	    i;
	shmem_team_t x, y;

	if (parent == SHMEM_TEAM_INVALID)
		return;
	CHECK_EQ(shmem_team_split_2d(parent, xrange, NULL, 0, &x, NULL, 0, &y), 0);
	if (xrange > n)
		xrange = n;
	for (i = 0; i < n; i++)
		if (i / xrange == rank / xrange)
			world[k++] = shmem_team_translate_pe(parent, i, SHMEM_TEAM_WORLD);
	check_members(x, world, k);
	for (i = k = 0; i < n; i++)
		if (i % xrange == rank % xrange)
			world[k++] = shmem_team_translate_pe(parent, i, SHMEM_TEAM_WORLD);
	check_members(y, world, k);
	shmem_team_destroy(x);
	shmem_team_destroy(y);
}

/* A context of a team numbers PEs as the team does. */
static void check_context(shmem_team_t team)
{
	int n = shmem_team_n_pes(team), rank = shmem_team_my_pe(team), i;
	shmem_team_t of;
	shmem_ctx_t ctx;

	if (team == SHMEM_TEAM_INVALID)
		return;
	CHECK_EQ(shmem_team_create_ctx(team, 0, &ctx), 0);
	CHECK_EQ(shmem_ctx_get_team(ctx, &of), 0);
	CHECK(of == team);
	for (i = 0; i < n; i++)
		row[i] = -1;
	shmem_team_sync(team);
	for (i = 0; i < n; i++)
		shmem_ctx_long_p(ctx, &row[rank], 100 + me, i);
	shmem_ctx_quiet(ctx);
	shmem_team_sync(team);
	for (i = 0; i < n; i++)
		CHECK_EQ(row[i], 100 + shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD));
	shmem_team_sync(team);
	shmem_ctx_destroy(ctx);
}

/* A sync of a team waits for its PEs, and for no other. */
static void check_sync(shmem_team_t team)
{
	int n = shmem_team_n_pes(team), rank = shmem_team_my_pe(team), i, pe;

	for (i = 1; i <= 30; i++) {
		for (pe = 0; pe < n; pe++)
			shmem_long_p(&row[rank], i * 1000 + me,
				     shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD));
		shmem_quiet();
		CHECK_EQ(shmem_team_sync(team), 0);
		for (pe = 0; pe < n; pe++)
			CHECK_EQ(row[pe],
				 i * 1000 + shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD));
		CHECK_EQ(shmem_team_sync(team), 0);
	}
}

int main(void)
{
	shmem_team_t odd, sub, kept;
	int i;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	word = shmem_malloc(2 * sizeof(*word));
	row = shmem_malloc((size_t)npes * sizeof(*row));
	CHECK(word && row);
	check_predefined();
	check_invalid();
	check_strided(0, 1, npes);
	check_strided(npes - 1, 1, 1);
	check_strided(npes - 1, -1, npes);
	check_strided(0, 2, (npes + 1) / 2);
	if (npes > 1)
		check_strided(1, 1, npes - 1);
	for (i = 1; i <= npes + 1; i++)
		check_2d(SHMEM_TEAM_WORLD, i);
	check_2d(SHMEM_TEAM_SHARED, 2);
	/* all ranks of the odd or even team; then a split of that */
	shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (npes + 1) / 2, NULL, 0, &odd);
	if (npes > 1)
		shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, NULL, 0, &sub);
	if (me % 2)
		odd = sub;
	/* all teams use the same row, so they do it one after the other */
	check_context(SHMEM_TEAM_WORLD);
	shmem_barrier_all();
	check_context(SHMEM_TEAM_SHARED);
	shmem_barrier_all();
	check_context(odd);
	shmem_barrier_all();
	check_sync(SHMEM_TEAM_WORLD);
	shmem_barrier_all();
	check_sync(SHMEM_TEAM_SHARED);
	shmem_barrier_all();
	check_sync(odd);
	shmem_barrier_all();
	check_2d(odd, 2);
	CHECK_EQ(shmem_team_split_strided(odd, 0, 1, 1, NULL, 0, &kept), 0);
	shmem_team_destroy(odd);
	if (kept != SHMEM_TEAM_INVALID) /* it outlives its parent, and the end of the program */
		CHECK_EQ(shmem_team_sync(kept), 0);
	shmem_finalize();
	return 0;
}
