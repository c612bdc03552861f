/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/tune_ways.c - the tuner's table says at which sizes collectives of a team change from
 * one way to another.  Each call is made with limits that lead it one way and the other, and every
 * element is compared with the sum in rank order: so results have the same bits with any table.
 * The way that a call went is looked up, except where calls of the host go in rounds between nodes.
 */
#include <oriel/coll/team.h>

#include "coll/team/cards.h"
#include "coll/team/team.h"
#include "coll/tune/tune.h"
#include "kernels/coll.h"
#include "reduce_bed.h"

#define MOST 100000u

static const struct bed_row rows[] = { { "threads", 3, 0, NULL },
				       { "two", 2, 1, NULL },
				       { "four", 4, 1, NULL },
				       { "queued", 3, 1, "3x1" },
				       { "mixed", 4, 1, "2x2" } };

/* Both ends of what a table may say, and a limit between the sizes of a test. */
static const struct ori_tune_ways tables[] = {
	{ .cells = 0, .once = 0, .host_once = 0, .long_from = ORI_TUNE_LONG_MIN },
	{ .cells = 0, .once = 32768, .host_once = 65536, .long_from = 65536 },
	{ .cells = 256,
	  .once = ORI_TUNE_ONCE_MAX,
	  .host_once = ORI_TUNE_ONCE_MAX,
	  .long_from = ORI_TUNE_LONG_MAX },
};
static const struct ori_tune_ways *ways;

/* All ranks use a table with `ways`, as if it came from a file. */
static void use_table(struct rank_env *env)
{
	struct ori_tune_table t;

	memset(&t, 0, sizeof(t));
	t.ways = *ways;
	CHECK_EQ(ori_tune_table_check(&t), 0);
	snprintf(env->comm->config.tune_file, sizeof(env->comm->config.tune_file), "none");
	REQUIRE_OK(ori_tune_agree(env->comm));
	REQUIRE_OK(ori_tune_use(env->comm, &t));
}

static void with_each_table(rank_fn *rank)
{
	for (size_t i = 0; i < ORI_COUNT(tables) && !check_failures; i++) {
		ways = &tables[i];
		bed_rows(rows, ORI_COUNT(rows), rank, NULL);
	}
}

/* ---- calls of the host ----------------------------------------------------------------------- */

/* How an all-reduce of the host goes.  `before`: the last long call, for one that is not long. */
static int way_of(struct rank_env *env, uint64_t bytes, int before)
{
	if (ori_tune_peers(env->comm, ORI_PLAN_QUEUED))
		return 0;
	if (bed_on_cuda())
		return bytes >= ways->long_from ? ORI_NODE_STAGED : before;
	return bytes <= ways->host_once ? ORI_CARDS_ONCE : ORI_CARDS_PIECES;
}

static void host_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 2048, 6000, 12001, MOST / 4 };
	int way = 0;
	struct bed b;

	use_table(env);
	bed_open(&b, env, 2 * MOST + 100);
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
		bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, counts[i], 0, 0);
		way = way_of(env, 4 * counts[i], way);
		CHECK_EQ(ori_team_last_way(env->comm), way);
	}
	bed_reducescatter(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 5000, 0, 0);
	bed_broadcast(&b, MOST, 0, 1);
	bed_close(&b);
}

TEST(the_table_leads_calls_of_the_host)
{
	with_each_table(host_rank);
}

/* oriel-tune moves the limits of a team that is there already. */
static void moved_rank(struct rank_env *env)
{
	struct ori_tune_ways moved;
	int way = 0;
	struct bed b;

	bed_open(&b, env, 2 * MOST);
	ways = &moved;
	moved = tables[0];
	CHECK_EQ(ori_team_ways_set(env->comm, ways), ORIEL_EINVAL);
	bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 1, 0, 0);
	for (size_t i = 0; i < 2 * ORI_COUNT(tables) && !check_failures; i++) {
		moved = tables[i % ORI_COUNT(tables)];
		REQUIRE_OK(ori_team_ways_set(env->comm, ways));
		bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 10000, 0, 1);
		way = way_of(env, 40000, way);
		CHECK_EQ(ori_team_last_way(env->comm), way);
	}
	bed_close(&b);
}

TEST(limits_of_a_team_move)
{
	/* processes: `ways` is a variable of each rank here */
	bed_rows(rows + 1, ORI_COUNT(rows) - 1, moved_rank, NULL);
}

/* ---- calls inside a kernel ------------------------------------------------------------------- */

/* Rounds that channel 0 has made. */
static uint64_t rounds_of(struct rank_env *env, const struct oriel_team_dev *dev)
{
	struct ori_channel channel;

	memset(&channel, 0, sizeof(channel));
	CHECK_EQ(oriel_copy(env->comm, &channel, dev->win.buffer, sizeof(channel)), 0);
	return channel.rounds;
}

static void reduce_in_kernel(struct bed *b, const struct ori_coll_args *base, uint64_t count,
			     uint64_t rounds)
{
	uint64_t before = rounds_of(b->env, &base->team), off = 4 * count + 64;
	struct ori_coll_args args = *base;

	args.call.kind = ORI_COLL_ALLREDUCE;
	args.call.size = count;
	args.call.root = -1;
	args.call.type = ORIEL_TYPE_FLOAT;
	args.call.op = ORIEL_REDUCE_SUM;
	args.send = b->memory;
	args.recv = b->memory + off;
	memset(b->host, BED_POISON, b->bytes);
	bed_fill(b, 0, ORIEL_TYPE_FLOAT, 0, count);
	bed_push(b);
	bed_pull(b, "a launch",
		 oriel_launch(b->env->comm, ori_coll_kernel(), 1,
			      bed_on_cuda() ? ORI_COLL_THREADS : 1, &args, sizeof(args), NULL));
	bed_check(b, off, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 0, count);
	CHECK_EQ(rounds_of(b->env, &base->team) - before, rounds);
	b->seed = model_mix(b->seed);
}

static void kernel_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 1024, 6000, 12001, 16384 };
	int mapped = !ori_tune_peers(env->comm, ORI_PLAN_QUEUED);
	struct ori_coll_args args;
	struct oriel_team *team;
	struct bed b;

	use_table(env);
	memset(&args, 0, sizeof(args));
	bed_open(&b, env, 2 * MOST);
	REQUIRE_OK(oriel_team_create(env->comm, NULL, &team));
	REQUIRE_OK(oriel_team_device(team, &args.team));
	CHECK_EQ(args.team.short_bytes, mapped ? ways->cells : 0);
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++)
		reduce_in_kernel(&b, &args, counts[i],
				 env->nranks == 2 || 4 * counts[i] <= ways->once ? 1 : 2);
	CHECK_EQ(oriel_team_destroy(team), 0);
	bed_close(&b);
}

TEST(the_table_leads_calls_in_a_kernel)
{
	with_each_table(kernel_rank);
}

/* The options of a team come before the table. */
static void options_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct oriel_team_dev dev;
	struct oriel_team *team;

	ways = &tables[2];
	use_table(env);
	for (o.cells = ORIEL_CELLS_CHOSEN; o.cells <= ORIEL_CELLS_IF_POSSIBLE; o.cells++) {
		REQUIRE_OK(oriel_team_create(env->comm, &o, &team));
		REQUIRE_OK(oriel_team_device(team, &dev));
		CHECK_EQ(dev.short_bytes, o.cells == ORIEL_CELLS_CHOSEN ? 256 :
					  o.cells == ORIEL_CELLS_NEVER  ? 0 :
									  ORI_TUNE_CELLS_MAX);
		CHECK_EQ(dev.once_bytes, ORI_TUNE_ONCE_MAX);
		CHECK_EQ(oriel_team_destroy(team), 0);
	}
}

TEST(options_come_before_the_table)
{
	bed_rows(rows + 1, 1, options_rank, NULL);
}
