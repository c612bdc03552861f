/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/allgather_long.c - the all-gather with every count four times in place and four times
 * not, on every layout, with each algorithm; on a good wire and on faulty ones.  Takes minutes:
 * label long.
 */
#include "allgather_bed.h"

struct row {
	const char *topology;
	int nranks;
	int algorithm, processes;
};

static const uint64_t counts[] = { 0, 1, 8192, 1048567, 1048576 };
static const struct row layouts[] = {
	{ NULL, 1, 0, 0 },  { NULL, 4, 0, 0 },  { NULL, 8, 0, 0 },  { "2x4", 8, 0, 0 },
	{ "4x2", 8, 0, 0 }, { "8x1", 8, 0, 0 }, { "3x2", 6, 0, 0 }, { "5x1", 5, 0, 0 },
};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static void row_rank(struct rank_env *env)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	const struct row *row = env->arg;
	struct oriel_allgather_request *req;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 1048576, 1));
	o.algorithm = row->algorithm;
	o.bytes = b.room;
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, &o, &req));
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		for (int k = 0; k < 8; k++)
			if (bed_exec(&b, req, counts[i], 1, k % 2, "long"))
				return;
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(bed_close(&b));
}

static void run_rows(void)
{
	for (size_t l = 0; l < LAYOUTS; l++)
		for (int a = 0; a <= (layouts[l].topology ? ORIEL_GATHER_DOUBLING : 0); a++)
			for (int processes = 0; processes < 2; processes++) {
				struct row row = { layouts[l].topology, layouts[l].nranks, a,
						   processes };
				struct ranks_options o = { .nranks = row.nranks,
							   .processes = processes,
							   .topology = row.topology,
							   .deadline_s = 300,
							   .timeout_s = 250 };

				ranks_run(&o, row_rank, &row);
			}
}

TEST(every_count_on_every_layout)
{
	run_rows();
}

TEST(every_count_on_a_faulty_wire)
{
	setenv("ORIEL_SOFT_FAULTS", "seed=11,drop=0.002,dup=0.002,reorder=0.02", 1);
	run_rows();
	unsetenv("ORIEL_SOFT_FAULTS");
}
