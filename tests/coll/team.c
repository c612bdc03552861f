/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/team.c - collectives inside a running kernel: every call against the model, several
 * blocks on several channels, many calls in one kernel, refusals, deadlines, counts about to wrap.
 *
 * Rows as in reduce.c.
 */
#include <time.h>

#include <oriel/device/coll.h>

#include "reduce_bed.h"

#define CELLS_MOST 4096u /* as coll/tune/plan.h */

#define UNSHOWN_DEADLINE_S 20 /* of ranks that must be told before it */

const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

static const struct bed_row rows[] = {
	{ "alone", 1, 0, NULL },          { "two processes", 2, 1, NULL },
	{ "three threads", 3, 0, NULL },  { "eight processes", 8, 1, NULL },
	{ "mixed threads", 4, 0, "2x2" }, { "mixed processes", 4, 1, "2x2" },
	{ "queued", 3, 0, "3x1" },
};

/* ---- the kernel ------------------------------------------------------------------------------ */

struct args {
	struct oriel_team_dev team;
	uint8_t *memory;      /* of a block: send, then recv */
	uint64_t block_bytes; /* from one block's memory to the next */
	uint64_t recv_off;
	uint64_t count;
	uint32_t timeout_ms;
	int32_t kind, type, op, root, channel, calls;
};

ORIEL_DEV int make_one(const struct args *a, struct oriel_group g, int channel, const uint8_t *send,
		       uint8_t *recv)
{
	switch (a->kind) {
	case ORI_COLL_BROADCAST:
		return oriel_coll_broadcast(&a->team, g, channel, recv, a->count, a->root);
	case ORI_COLL_ALLGATHER:
		return oriel_coll_allgather(&a->team, g, channel, send, recv, a->count);
	case ORI_COLL_ALLTOALL:
		return oriel_coll_alltoall(&a->team, g, channel, send, recv, a->count);
	case ORI_COLL_ALLREDUCE:
		return oriel_coll_allreduce(&a->team, g, channel, send, recv, a->count, a->type,
					    a->op);
	default:
		return oriel_coll_reducescatter(&a->team, g, channel, send, recv, a->count, a->type,
						a->op);
	}
}

/* Each block makes the calls on its own channel, with its own memory. */
ORIEL_KERNEL(make_calls, struct args)
{
	struct oriel_group g = oriel_group_within(oriel_group_block(), a->timeout_ms);
	uint8_t *mine = a->memory + g.block * a->block_bytes;
	int err = 0;

	for (int i = 0; i < a->calls && !err; i++)
		err = make_one(a, g, a->channel + (int)g.block, mine, mine + a->recv_off);
	return err;
}

/* ---- both ways ------------------------------------------------------------------------------- */

/* How the teams of a test move short calls. */
static uint32_t cells;

/* On CPUs a team has cells only if it is asked for them. */
static void both_ways(const struct bed_row *some, size_t n, void (*rank)(struct rank_env *))
{
	for (cells = bed_on_cuda() ? ORIEL_CELLS_NEVER : ORIEL_CELLS_CHOSEN;
	     cells <= ORIEL_CELLS_IF_POSSIBLE && !check_failures; cells += bed_on_cuda() ? 1 : 2)
		bed_rows(some, n, rank, NULL);
	cells = ORIEL_CELLS_CHOSEN;
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct job {
	struct bed bed;
	struct oriel_team *team;
	struct args args;
	int whole; /* recv is aligned to words of 8 bytes */
};

static void open_job(struct job *j, struct rank_env *env, const struct oriel_team_options *o,
		     uint64_t bytes)
{
	struct oriel_team_options all = ORIEL_TEAM_OPTIONS_INIT;

	memset(j, 0, sizeof(*j));
	bed_open(&j->bed, env, bytes);
	if (o)
		all = *o;
	all.cells = cells;
	REQUIRE_OK(oriel_team_create(env->comm, o || cells ? &all : NULL, &j->team));
	REQUIRE_OK(oriel_team_device(j->team, &j->args.team));
	j->args.memory = j->bed.memory;
}

static void close_job(struct job *j)
{
	CHECK_EQ(oriel_team_destroy(j->team), 0);
	bed_close(&j->bed);
}

static int launch(struct job *j, int nblocks, int nthreads)
{
	const struct oriel_kernel *kernel = &make_calls;
	int err, synced;

	if (bed_on_cuda() && fake_cuda_kernel)
		kernel = fake_cuda_kernel(kernel);
	err = oriel_launch(j->bed.env->comm, kernel, nblocks, nthreads, &j->args, sizeof(j->args),
			   NULL);
	/* on the CPU the launch has returned the kernel's status, and the sync does it again */
	synced = oriel_comm_sync(j->bed.env->comm, NULL);
	return err ? err : synced;
}

/* The byte that `from` has for `to` at this place; all ranks can compute it. */
static uint8_t byte_of(const struct bed *b, int from, int to, uint64_t i)
{
	return (uint8_t)model_mix(b->seed + i + ((uint64_t)from << 32) + ((uint64_t)to << 48));
}

static uint64_t elem_of(const struct args *a)
{
	return a->type ? model_bytes(a->type) : 1;
}

/* Bytes of a block's input and output. */
static void sizes_of(const struct job *j, uint64_t *send, uint64_t *recv)
{
	uint64_t n = (uint64_t)j->bed.env->nranks, bytes = j->args.count * elem_of(&j->args);
	int kind = j->args.kind;

	*send = kind == ORI_COLL_ALLTOALL || kind == ORI_COLL_REDUCESCATTER ? n * bytes : bytes;
	*recv = kind == ORI_COLL_ALLTOALL || kind == ORI_COLL_ALLGATHER ? n * bytes : bytes;
}

static void fill_block(struct job *j, uint64_t off)
{
	struct bed *b = &j->bed;
	uint64_t send, recv, count = j->args.count;
	int to;

	sizes_of(j, &send, &recv);
	if (j->args.type)
		bed_fill(b, off, j->args.type, 0, send / elem_of(&j->args));
	for (uint64_t i = 0; i < send && !j->args.type; i++) {
		to = j->args.kind == ORI_COLL_ALLTOALL ? (int)(i / count) : 0;
		b->host[off + i] = byte_of(b, b->env->rank, to, i % count);
	}
	if (j->args.kind == ORI_COLL_BROADCAST && b->env->rank == j->args.root)
		memcpy(b->host + off + j->args.recv_off, b->host + off, send);
}

static void check_block(struct job *j, uint64_t off)
{
	struct bed *b = &j->bed;
	uint64_t send, recv, wrong = 0, count = j->args.count;
	int from, to, kind = j->args.kind, first = kind == ORI_COLL_REDUCESCATTER;

	sizes_of(j, &send, &recv);
	off += j->args.recv_off;
	if (j->args.type) {
		bed_check(b, off, j->args.type, j->args.op,
			  first ? (uint64_t)b->env->rank * count : 0, count);
		return;
	}
	for (uint64_t i = 0; i < recv; i++) {
		from = kind == ORI_COLL_BROADCAST ? j->args.root : (int)(i / count);
		to = kind == ORI_COLL_ALLTOALL ? b->env->rank : 0;
		wrong += b->host[off + i] != byte_of(b, from, to, i % count);
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(b->host[off + recv], BED_POISON);
}

static void call_all(struct job *j, int kind, int type, int op, uint64_t count, int nblocks,
		     int nthreads)
{
	struct bed *b = &j->bed;
	uint64_t send, recv;

	j->args.kind = kind;
	j->args.type = type;
	j->args.op = op;
	j->args.count = count;
	j->args.root = (int)(b->seed % (uint64_t)b->env->nranks);
	sizes_of(j, &send, &recv);
	j->args.recv_off = j->whole ? (send + 15) & ~(uint64_t)7 : send + 3;
	j->args.block_bytes = (send + recv + 31) & ~(uint64_t)7;
	if (j->args.block_bytes * (uint64_t)nblocks > b->bytes) {
		check_fail(__FILE__, __LINE__, "the test's memory is too small");
		return;
	}
	memset(b->host, BED_POISON, b->bytes);
	for (int i = 0; i < nblocks; i++)
		fill_block(j, (uint64_t)i * j->args.block_bytes);
	bed_push(b);
	bed_pull(b, "the kernel", launch(j, nblocks, nthreads));
	for (int i = 0; i < nblocks; i++)
		check_block(j, (uint64_t)i * j->args.block_bytes);
	b->seed = model_mix(b->seed);
}

/* Every collective with this many elements. */
static void call_every(struct job *j, uint64_t count, int nblocks, int nthreads)
{
	call_all(j, ORI_COLL_BROADCAST, 0, 0, count, nblocks, nthreads);
	call_all(j, ORI_COLL_ALLGATHER, 0, 0, count, nblocks, nthreads);
	call_all(j, ORI_COLL_ALLTOALL, 0, 0, count, nblocks, nthreads);
	call_all(j, ORI_COLL_ALLREDUCE, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, count, nblocks,
		 nthreads);
	call_all(j, ORI_COLL_REDUCESCATTER, ORIEL_TYPE_INT16, ORIEL_REDUCE_MIN, count, nblocks,
		 nthreads);
}

/* ---- every call ------------------------------------------------------------------------------ */

static void every_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 0, 1, 5, 64, 1000, 5003 };
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	o.channels = 3;
	o.slot_bytes = 4096; /* so that calls have many rounds */
	open_job(&j, env, &o, 400000);
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
		j.args.calls = 1 + (int)i % 3;
		call_every(&j, counts[i], 1 + (int)i % 3, 1 + (int)i % 4);
	}
	close_job(&j);
}

TEST(every_call_inside_a_kernel)
{
	both_ways(rows, ORI_COUNT(rows), every_rank);
}

/* One element, elements beside whole packs of 16 bytes, and several rounds. */
static void types_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 1, 37, 4099 };
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	o.slot_bytes = 4096;
	open_job(&j, env, &o, 400000);
	j.args.calls = 1;
	for (int type = ORIEL_TYPE_INT8; type <= ORIEL_TYPE_DOUBLE && !check_failures; type++)
		for (int op = ORIEL_REDUCE_SUM; op <= ORIEL_REDUCE_XOR && !check_failures; op++)
			for (int i = 0; i < 3 && oriel_reduce_is_valid(type, op); i++) {
				call_all(&j, ORI_COLL_ALLREDUCE, type, op, counts[i], 1, 4);
				call_all(&j, ORI_COLL_REDUCESCATTER, type, op, counts[i], 1, 4);
			}
	close_job(&j);
}

TEST(every_type_inside_a_kernel)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "three processes", 3, 1, NULL },
				       { "mixed threads", 4, 0, "2x2" } };

	both_ways(few, ORI_COUNT(few), types_rank);
}

/*
 * Blocks of whole words: device/coll_words.h, in all its variants.  On CPUs that is for groups of
 * one thread and a few words.
 */
static void words_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 8, 16, 56, 128, 496, 1024, 2048, 4096 };
	static const int threads[] = { 32, 96, 256, 512 };
	int real = bed_on_cuda() && !fake_cuda_kernel;
	struct job j;

	open_job(&j, env, NULL, 600000);
	j.args.calls = 5;
	j.whole = 1;
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++)
		for (size_t k = 0; k < (real ? ORI_COUNT(threads) : 1) && !check_failures; k++)
			call_every(&j, counts[i], 1, real ? threads[k] : 1);
	close_job(&j);
}

TEST(blocks_of_whole_words)
{
	both_ways(rows, ORI_COUNT(rows), words_rank);
}

static void default_rank(struct rank_env *env)
{
	struct job j;

	open_job(&j, env, NULL, 3000000);
	j.args.calls = 1;
	call_all(&j, ORI_COLL_ALLREDUCE, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, 150001, 1, 1);
	call_all(&j, ORI_COLL_BROADCAST, 0, 0, 1200001, 1, 2);
	close_job(&j);
}

TEST(a_team_without_options)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	both_ways(few, ORI_COUNT(few), default_rank);
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void wrap_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	o.slot_bytes = 1024;
	o.first_count = UINT64_MAX - 5;
	open_job(&j, env, &o, 100000);
	j.args.calls = 4;
	call_every(&j, 700, 1, 1);
	close_job(&j);
}

TEST(words_wrap)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	both_ways(few, ORI_COUNT(few), wrap_rank);
}

/*
 * Marks of cells have 31 bits of the round's number.  Before they repeat, places are cleared: about
 * the counts where the bits below 2^30 are 0.
 */
static void marks_rank(struct rank_env *env)
{
	static const uint64_t first[] = { (1ull << 30) - 3, (1ull << 31) - 4, (1ull << 32) - 5 };
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	for (size_t i = 0; i < ORI_COUNT(first) && !check_failures; i++) {
		o.first_count = first[i];
		open_job(&j, env, &o, 100000);
		j.args.calls = 3;
		call_every(&j, 40, 1, 1 + (int)i);
		close_job(&j);
	}
}

TEST(marks_wrap)
{
	const struct bed_row few[] = { { "two threads", 2, 0, NULL },
				       { "three processes", 3, 1, NULL } };

	both_ways(few, ORI_COUNT(few), marks_rank);
}

/* Words of marked cells here whose mark is older than `oldest`.  No rank stores meanwhile. */
static int old_marks(struct job *j, uint32_t oldest)
{
	const struct oriel_team_dev *t = &j->args.team;
	uint64_t bytes = t->channel_bytes - t->cells_off, *words = (uint64_t *)malloc(bytes);
	struct oriel_comm *comm = j->bed.env->comm;
	int old = 0;

	CHECK_EQ(oriel_comm_barrier(comm, ORIEL_WORLD), 0);
	CHECK_EQ(oriel_copy(comm, words, t->win.buffer + t->cells_off, bytes), 0);
	CHECK_EQ(oriel_comm_barrier(comm, ORIEL_WORLD), 0);
	for (uint64_t i = 0; i < bytes / 8; i++)
		old += words[i] >> 32 && (uint32_t)(words[i] >> 32) < oldest;
	free(words);
	return old;
}

/* Long blocks, then the count at which places are cleared: no mark of the blocks is left. */
static void clear_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	o.first_count = (1ull << 30) - 4;
	open_job(&j, env, &o, 100000);
	j.args.calls = 1;
	for (int i = 0; i < 2; i++)
		call_all(&j, ORI_COLL_ALLGATHER, 0, 0, 4096, 1, 2);
	if (j.args.team.cell_bytes)
		CHECK(old_marks(&j, 0xc0000000u) > 1000);
	for (int i = 0; i < 6; i++)
		call_all(&j, ORI_COLL_ALLGATHER, 0, 0, 8, 1, 2);
	if (j.args.team.cell_bytes)
		CHECK_EQ(old_marks(&j, 0xc0000000u), 0);
	close_job(&j);
}

TEST(cells_of_old_marks_are_cleared)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "two processes", 2, 1, NULL } };

	both_ways(few, ORI_COUNT(few), clear_rank);
}

/* Short and long calls in turn, and calls at the edge between them. */
static void edge_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 8, 9000, 511, 512, 513, 1, 4095, 4096, 4097, 2048 };
	struct job j;

	open_job(&j, env, NULL, 400000);
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
		j.args.calls = 2;
		call_every(&j, counts[i], 1, 1 + (int)i % 4);
	}
	close_job(&j);
}

TEST(short_and_long_calls)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "three processes", 3, 1, NULL } };

	both_ways(few, ORI_COUNT(few), edge_rank);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	o.channels = 2;
	open_job(&j, env, &o, 100000);
	j.args.calls = 1;
	j.args.kind = ORI_COLL_ALLREDUCE;
	j.args.type = ORIEL_TYPE_INT32;
	j.args.op = ORIEL_REDUCE_SUM;
	j.args.count = env->rank == 1 ? 20 : 21;
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "rank 0 and rank 1 differ in their counts: 21 and 20");
	CHECK_EQ(oriel_team_status(j.team), 0);
	/* one rank's call is short, the others' are long; and the other way round */
	j.args.count = env->rank == 1 ? 20 : 5000;
	CHECK_EQ(launch(&j, 1, 2), ORIEL_EMISMATCH);
	j.args.count = env->rank == 0 ? 5000 : 20;
	CHECK_EQ(launch(&j, 1, 3), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EMISMATCH);
	j.args.kind = env->rank == 1 ? ORI_COLL_ALLREDUCE : ORI_COLL_BROADCAST;
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EMISMATCH);
	j.args.kind = ORI_COLL_ALLREDUCE;
	j.args.op = env->rank == 0 ? 77 : ORIEL_REDUCE_SUM;
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EINVAL);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "rank 0 refused the call");
	/* a channel that does not exist: on all ranks, because they cannot be told there */
	j.args.channel = 2;
	CHECK_EQ(launch(&j, 1, 1), ORIEL_ERANGE);
	j.args.channel = 0;
	call_every(&j, 100, 2, 1);
	close_job(&j);
}

TEST(refused_calls_lose_nothing)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	both_ways(few, ORI_COUNT(few), refused_rank);
}

/* The sum of what this rank last sent to itself in cells; only this rank writes there. */
static uint64_t own_cells(struct job *j)
{
	const struct oriel_team_dev *t = &j->args.team;
	uint64_t words[4 * (ORI_TERMS_CELLS + 2 + CELLS_MOST / 8u)], sum = 0;
	uint64_t bytes = 2 * (ORI_TERMS_CELLS + t->cell_bytes / 8u) * 16u;

	CHECK(bytes <= sizeof(words));
	CHECK_EQ(oriel_copy(j->bed.env->comm, words,
			    t->win.buffer + t->cells_off + (uint32_t)j->bed.env->rank * bytes,
			    bytes),
		 0);
	for (uint64_t i = 0; i < bytes / 8; i++)
		sum = 31 * sum + words[i];
	return sum;
}

/* A call on a failed team sends nothing: the mark is that of the call that failed. */
static void call_again(struct job *j)
{
	uint64_t before = j->args.team.cell_bytes ? own_cells(j) : 0;

	memset(j->bed.host, 99, j->bed.bytes);
	bed_push(&j->bed);
	CHECK_EQ(launch(j, 1, 1), ORIEL_ETIMEDOUT); /* at once */
	if (j->args.team.cell_bytes)
		CHECK_EQ(own_cells(j), before);
}

/* Rank 0 does not make the call.  The others give up after their own deadline. */
static void late_rank(struct rank_env *env)
{
	struct job j;
	int err;

	open_job(&j, env, NULL, 100000);
	j.whole = 1;
	j.args.calls = 3; /* the first two rounds clear places */
	call_all(&j, ORI_COLL_ALLTOALL, 0, 0, 48, 1, 1);
	j.args.calls = 1;
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	j.args.timeout_ms = 3000; /* ranks that come may stand still for a second or two */
	if (env->rank) {
		CHECK_EQ(launch(&j, 1, 1), ORIEL_ETIMEDOUT);
		err = oriel_team_status(j.team);
		CHECK_EQ(err, ORIEL_ETIMEDOUT);
		CHECK_HAS(oriel_last_error(), "rank 0");
		call_again(&j);
	}
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	/* the team has failed on the late rank too, and can be destroyed */
	CHECK_EQ(oriel_team_status(j.team), ORIEL_ETIMEDOUT);
	close_job(&j);
}

TEST(a_deadline_inside_a_kernel)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	both_ways(few, ORI_COUNT(few), late_rank);
}

/*
 * A queue of rank 0 to rank 1 has passed a deadline.  So rank 0 cannot show its slot, and rank 2
 * learns of it long before its own deadline.  Rank 1 learns of it from rank 2.
 */
static void unshown_rank(struct rank_env *env)
{
	struct oriel_queue *q;
	struct timespec begin, end;
	struct job j;

	open_job(&j, env, NULL, 100000);
	j.args.calls = 1;
	call_all(&j, ORI_COLL_ALLTOALL, 0, 0, 50, 1, 1);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == 0) {
		q = ori_peer_entry(&j.args.team.win, 1)->link->link->lanes[0].main;
		(void)ori_queue_poison(q, ORIEL_ETIMEDOUT);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	CHECK_EQ(launch(&j, 1, 1), ORIEL_ETIMEDOUT);
	clock_gettime(CLOCK_MONOTONIC, &end);
	CHECK(end.tv_sec - begin.tv_sec < UNSHOWN_DEADLINE_S / 2);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_ETIMEDOUT);
	close_job(&j);
}

TEST(a_slot_that_cannot_be_shown_ends_the_round)
{
	struct ranks_options o = { .nranks = 3 };

	o.topology = "3x1";
	o.deadline_s = 60;
	o.timeout_s = UNSHOWN_DEADLINE_S;
	if (!bed_on_cuda()) /* the test writes to the queue */
		ranks_run(&o, unshown_rank, NULL);
}
