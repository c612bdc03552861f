/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/team_v.c - all-to-all-v inside a running kernel: random sizes that only the device
 * knows, every byte checked, several blocks and calls, refusals that lose nothing.
 *
 * Rows as in team.c.  A size is a hash of (seed, block, from, to), so every rank can compute it.
 */
#include <oriel/device/coll.h>

#include "reduce_bed.h"

const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

static const struct bed_row rows[] = {
	{ "alone", 1, 0, NULL },          { "two processes", 2, 1, NULL },
	{ "three threads", 3, 0, NULL },  { "eight processes", 8, 1, NULL },
	{ "mixed threads", 4, 0, "2x2" }, { "mixed processes", 4, 1, "2x2" },
	{ "queued", 3, 0, "3x1" },
};

/* A block's memory: sizes to send, sizes that came, data to send, data that came. */
struct args {
	struct oriel_team_dev team;
	uint8_t *memory;
	uint64_t block_bytes, send_off, recv_off;
	uint64_t slot;
	int32_t calls, reserved;
};

ORIEL_KERNEL(exchange_kernel, struct args)
{
	struct oriel_group g = oriel_group_block();
	uint8_t *mine = a->memory + g.block * a->block_bytes;
	uint64_t *sizes = (uint64_t *)(void *)mine;
	int err = 0;

	for (int i = 0; i < a->calls && !err; i++)
		err = oriel_coll_alltoallv(&a->team, g, (int)g.block, mine + a->send_off, sizes,
					   mine + a->recv_off, sizes + a->team.win.comm.nranks,
					   a->slot);
	return err;
}

/* Which sizes there are. */
enum shape { ANY, EDGES, ONE_IS_LONG, FULL };

struct job {
	struct bed bed;
	struct oriel_team *team;
	struct args args;
	enum shape shape;
};

static void open_job_with(struct job *j, struct rank_env *env, struct oriel_team_options *o,
			  uint64_t bytes)
{
	const uint32_t *cells = (const uint32_t *)env->arg;

	memset(j, 0, sizeof(*j));
	bed_open(&j->bed, env, bytes);
	o->channels = 3;
	o->cells = *cells;
	REQUIRE_OK(oriel_team_create(env->comm, o, &j->team));
	REQUIRE_OK(oriel_team_device(j->team, &j->args.team));
	j->args.memory = j->bed.memory;
}

static void open_job(struct job *j, struct rank_env *env, uint64_t team_slot, uint64_t bytes)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;

	o.slot_bytes = team_slot;
	open_job_with(j, env, &o, bytes);
}

static void close_job(struct job *j)
{
	CHECK_EQ(oriel_team_destroy(j->team), 0);
	bed_close(&j->bed);
}

/* Three warps for each thread, where threads are real: they divide the ranks unevenly. */
static int launch(struct job *j, int nblocks, int nthreads)
{
	const struct oriel_kernel *kernel = &exchange_kernel;
	int err, synced;

	if (bed_on_cuda() && fake_cuda_kernel)
		kernel = fake_cuda_kernel(kernel);
	else if (bed_on_cuda())
		nthreads *= 96;
	err = oriel_launch(j->bed.env->comm, kernel, nblocks, nthreads, &j->args, sizeof(j->args),
			   NULL);
	synced = oriel_comm_sync(j->bed.env->comm, NULL);
	return err ? err : synced;
}

/* Nothing, everything, or anything between; or sizes around the longest that goes in cells. */
static uint64_t size_of(const struct job *j, int block, int from, int to)
{
	uint64_t x = model_mix(j->bed.seed + ((uint64_t)block << 20) + ((uint64_t)from << 30) +
			       ((uint64_t)to << 40));

	if (j->shape == EDGES && j->args.team.cell_bytes)
		return j->args.team.short_bytes - 1 + x % 3;
	if (j->shape == ONE_IS_LONG)
		return from == j->bed.env->nranks - 1 && to == 0 ? j->args.slot : x % 9;
	if (j->shape == FULL)
		return j->args.slot;
	return x % 4 == 0 ? 0 : x % 4 == 1 ? j->args.slot : (x >> 8) % (j->args.slot + 1);
}

static uint8_t byte_of(const struct job *j, int block, int from, int to, uint64_t i)
{
	return (uint8_t)model_mix(j->bed.seed + i + ((uint64_t)block << 28) +
				  ((uint64_t)from << 36) + ((uint64_t)to << 48));
}

static void fill_block(struct job *j, int block)
{
	uint8_t *mine = j->bed.host + (uint64_t)block * j->args.block_bytes;
	int n = j->bed.env->nranks, rank = j->bed.env->rank;

	for (int to = 0; to < n; to++) {
		uint64_t bytes = size_of(j, block, rank, to);

		memcpy(mine + (size_t)to * sizeof(bytes), &bytes, sizeof(bytes));
		for (uint64_t i = 0; i < bytes; i++)
			mine[j->args.send_off + (uint64_t)to * j->args.slot + i] =
				byte_of(j, block, rank, to, i);
	}
}

/* Data of every rank, its size, and nothing behind it up to the next slot. */
static void check_block(struct job *j, int block)
{
	const uint8_t *mine = j->bed.host + (uint64_t)block * j->args.block_bytes;
	int n = j->bed.env->nranks, rank = j->bed.env->rank;
	uint64_t wrong = 0, came;

	for (int from = 0; from < n; from++) {
		const uint8_t *at = mine + j->args.recv_off + (uint64_t)from * j->args.slot;
		uint64_t bytes = size_of(j, block, from, rank);

		memcpy(&came, mine + (size_t)(n + from) * sizeof(came), sizeof(came));
		CHECK_EQ(came, bytes);
		for (uint64_t i = 0; i < j->args.slot; i++)
			wrong += at[i] != (i < bytes ? byte_of(j, block, from, rank, i) :
						       (uint8_t)BED_POISON);
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(mine[j->args.recv_off + (uint64_t)n * j->args.slot], BED_POISON);
}

static void set_layout(struct job *j, uint64_t slot)
{
	uint64_t n = (uint64_t)j->bed.env->nranks;

	j->args.slot = slot;
	j->args.send_off = 2 * n * sizeof(uint64_t) + 5; /* not aligned */
	j->args.recv_off = j->args.send_off + n * slot + 2;
	j->args.block_bytes = (j->args.recv_off + n * slot + 1 + 63) & ~(uint64_t)63;
}

static void exchange(struct job *j, uint64_t slot, int nblocks, int nthreads)
{
	struct bed *b = &j->bed;

	set_layout(j, slot);
	if (j->args.block_bytes * (uint64_t)nblocks > b->bytes) {
		check_fail(__FILE__, __LINE__, "the test's memory is too small");
		return;
	}
	memset(b->host, BED_POISON, b->bytes);
	for (int i = 0; i < nblocks; i++)
		fill_block(j, i);
	bed_push(b);
	bed_pull(b, "the kernel", launch(j, nblocks, nthreads));
	for (int i = 0; i < nblocks; i++)
		check_block(j, i);
	b->seed = model_mix(b->seed);
}

/* Teams with cells and without: the first round of a call differs. */
static void both_ways(const struct bed_row *some, size_t n, void (*rank)(struct rank_env *))
{
	uint32_t cells = ORIEL_CELLS_NEVER;

	bed_rows(some, n, rank, &cells);
	cells = ORIEL_CELLS_IF_POSSIBLE;
	if (!check_failures)
		bed_rows(some, n, rank, &cells);
}

static void sizes_rank(struct rank_env *env)
{
	static const uint64_t slots[] = { 0, 1, 7, 64, 500, 3001 };
	struct job j;

	open_job(&j, env, 4096, 300000); /* so that long calls have many rounds */
	for (size_t i = 0; i < ORI_COUNT(slots) && !check_failures; i++) {
		j.args.calls = 1 + (int)i % 3;
		exchange(&j, slots[i], 1 + (int)i % 3, 1 + (int)i % 4);
	}
	close_job(&j);
}

TEST(random_sizes)
{
	both_ways(rows, ORI_COUNT(rows), sizes_rank);
}

/* Short messages come in cells, and long ones in rounds after them. */
static void short_and_long_rank(struct rank_env *env)
{
	struct job j;

	open_job(&j, env, 8192, 400000);
	for (int i = 0; i < 6 && !check_failures; i++) {
		j.shape = i < 2 ? EDGES : i < 4 ? ONE_IS_LONG : ANY;
		j.args.calls = 1 + i % 3;
		exchange(&j, i < 2 ? 4200 : 10000, 1, 1 + i % 4);
	}
	close_job(&j);
}

TEST(short_and_long_messages)
{
	both_ways(rows, ORI_COUNT(rows), short_and_long_rank);
}

/* Rounds that channel 0 has made. */
static uint64_t rounds_of(struct job *j)
{
	struct ori_channel channel;

	memset(&channel, 0, sizeof(channel));
	CHECK_EQ(oriel_copy(j->bed.env->comm, &channel, j->args.team.win.buffer, sizeof(channel)),
		 0);
	return channel.rounds;
}

/* The longest messages that cells take come in one round, and a byte more does not. */
static void one_round_rank(struct rank_env *env)
{
	uint64_t before, most;
	struct job j;

	/* a slot of the team has no room for them: without cells they would take more rounds */
	open_job(&j, env, 4096, 400000);
	most = j.args.team.short_bytes;
	j.args.calls = 1;
	for (int i = 0; i < 4 && most && !check_failures; i++) {
		j.shape = i < 2 ? FULL : ONE_IS_LONG;
		before = rounds_of(&j);
		exchange(&j, most + (uint64_t)i % 2, 1, 1);
		CHECK_EQ(rounds_of(&j) - before > 1, i % 2);
	}
	close_job(&j);
}

TEST(the_longest_short_messages_take_one_round)
{
	both_ways(rows, ORI_COUNT(rows), one_round_rank);
}

/*
 * Counts about to wrap, and marks about to repeat, which have 31 bits of a round's number: sizes
 * have cells of their own, at the end of a place.
 */
static void wrap_rank(struct rank_env *env)
{
	static const uint64_t first[] = { (1ull << 30) - 3, (1ull << 31) - 4, (1ull << 32) - 5,
					  UINT64_MAX - 5 };
	struct job j;

	for (size_t i = 0; i < ORI_COUNT(first) && !check_failures; i++) {
		struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;

		o.first_count = first[i];
		open_job_with(&j, env, &o, 200000);
		j.args.calls = 3;
		for (int k = 0; k < 6 && !check_failures; k++) {
			j.shape = k % 3 == 1 ? ONE_IS_LONG : ANY;
			exchange(&j, k % 3 == 1 ? 5000 : 60, 1 + k % 2, 1 + k % 3);
		}
		close_job(&j);
	}
}

TEST(counts_and_marks_wrap)
{
	const struct bed_row few[] = { { "two threads", 2, 0, NULL },
				       { "three processes", 3, 1, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	both_ways(few, ORI_COUNT(few), wrap_rank);
}

/* Places are larger if lines send more in cells; single calls do not. */
static void beside_lines_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	o.line_bytes = 16384;
	open_job_with(&j, env, &o, 500000);
	if (j.args.team.cell_bytes)
		CHECK(j.args.team.cell_bytes > j.args.team.short_bytes);
	for (int i = 0; i < 6 && !check_failures; i++) {
		j.shape = i % 3 == 0 ? EDGES : i % 3 == 1 ? ONE_IS_LONG : ANY;
		j.args.calls = 1 + i % 2;
		exchange(&j, i % 3 == 0 ? 4200 : 10000, 1, 1 + i % 4);
	}
	close_job(&j);
}

TEST(a_team_with_longer_lines)
{
	both_ways(rows, ORI_COUNT(rows), beside_lines_rank);
}

/* The smallest slot of a team: the sizes leave no room for data in the first round. */
static void narrow_rank(struct rank_env *env)
{
	struct job j;

	open_job(&j, env, 64 * ((uint64_t)env->nranks + 1), 100000);
	j.args.calls = 2;
	for (int i = 0; i < 4 && !check_failures; i++)
		exchange(&j, 333, 1, 1 + i);
	close_job(&j);
}

TEST(a_narrow_team)
{
	const struct bed_row some[] = { { "eight processes", 8, 1, NULL },
					{ "twelve threads", 12, 0, NULL },
					{ "mixed threads", 4, 0, "2x2" },
					{ "queued", 3, 0, "3x1" } };

	both_ways(some, ORI_COUNT(some), narrow_rank);
}

/* A size beyond the slot, or slots that differ, on one rank: all are told, and nothing is lost. */
static void refused_rank(struct rank_env *env)
{
	uint64_t bad = 101;
	struct job j;

	open_job(&j, env, 4096, 100000);
	j.args.calls = 1;
	set_layout(&j, 100);
	memset(j.bed.host, BED_POISON, j.bed.bytes);
	fill_block(&j, 0);
	if (env->rank == 1)
		memcpy(j.bed.host, &bad, sizeof(bad));
	bed_push(&j.bed);
	CHECK_EQ(launch(&j, 1, 2), ORIEL_ERANGE);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "rank 1 refused the call");
	bed_pull(&j.bed, "the refused call", 0);
	CHECK_EQ(j.bed.host[j.args.recv_off], BED_POISON);
	exchange(&j, 100, 1, 1);
	j.args.slot = env->rank == 1 ? 200 : 100;
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "rank 0 and rank 1 differ in their bytes: 100 and 200");
	exchange(&j, 100, 2, 1);
	close_job(&j);
}

TEST(refused_calls_lose_nothing)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	both_ways(few, ORI_COUNT(few), refused_rank);
}
