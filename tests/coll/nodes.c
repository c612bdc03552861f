/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/nodes.c - long broadcasts and all-reduces of several nodes (device/coll_nodes.h),
 * inside a kernel and on lines: every byte against the model, nodes of all shapes, slots of several
 * sizes, and the number of rounds, which tells that a call did go this way.  nodes_host.c has the
 * host's calls.
 */
#include <oriel/device/coll.h>
#include <oriel/device/coll_line.h>

#include "reduce_bed.h"

const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

static const struct bed_row rows[] = {
	{ "two by two", 4, 1, "2x2" },          { "taking turns", 4, 0, "0,1,0,1" },
	{ "two by four", 8, 0, "2x4" },         { "one is alone", 3, 0, "0,0,1" },
	{ "three sizes", 6, 0, "0,1,1,2,2,2" }, { "three sizes, processes", 6, 1, "0,1,1,2,2,2" },
};

/* The shares of the nodes of these help nobody, so such calls have no round more. */
static const struct bed_row flat[] = { { "queued", 3, 0, "3x1" },
				       { "queued processes", 3, 1, "3x1" } };

struct args {
	struct oriel_team_dev team;
	uint8_t *send, *recv;
	uint64_t count, bytes; /* bytes: from the result of a line to that of the single call */
	int32_t kind, type, op, root;
	int32_t calls; /* on a line; 0: a single call */
};

/* A line, and a single call behind it on the same channel. */
ORIEL_DEV int make_line(const struct args *a, struct oriel_group g)
{
	struct oriel_coll_line line;
	int err, closed, i;

	err = oriel_coll_open_allreduce(&line, &a->team, g, 0, a->count, a->type, a->op);
	for (i = 0; i < a->calls && !err; i++)
		err = oriel_coll_again(&line, g, a->send, a->recv);
	closed = oriel_coll_close(&line, g);
	err = err ? err : closed;
	if (!err)
		err = oriel_coll_allreduce(&a->team, g, 0, a->send, a->recv + a->bytes, a->count,
					   a->type, a->op);
	return err;
}

ORIEL_KERNEL(make_call, struct args)
{
	struct oriel_group g = oriel_group_block();

	if (a->calls)
		return make_line(a, g);
	if (a->kind == ORI_COLL_BROADCAST)
		return oriel_coll_broadcast(&a->team, g, 0, a->recv, a->count, a->root);
	return oriel_coll_allreduce(&a->team, g, 0, a->send, a->recv, a->count, a->type, a->op);
}

struct job {
	struct bed bed;
	struct oriel_team *team;
	struct args args;
	uint64_t rounds; /* of the team so far */
};

static void open_job(struct job *j, struct rank_env *env, uint64_t slot_bytes, uint64_t bytes)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;

	memset(j, 0, sizeof(*j));
	bed_open(&j->bed, env, bytes);
	o.slot_bytes = slot_bytes;
	REQUIRE_OK(oriel_team_create(env->comm, &o, &j->team));
	REQUIRE_OK(oriel_team_device(j->team, &j->args.team));
}

static void close_job(struct job *j)
{
	CHECK_EQ(oriel_team_destroy(j->team), 0);
	bed_close(&j->bed);
}

/* A real GPU copies by warps. */
static int threads_of(int nthreads)
{
	return bed_on_cuda() && !fake_cuda_kernel ? 96 * nthreads : nthreads;
}

static void launch(struct job *j, int nthreads)
{
	const struct oriel_kernel *kernel = &make_call;
	int err;

	if (bed_on_cuda() && fake_cuda_kernel)
		kernel = fake_cuda_kernel(kernel);
	err = oriel_launch(j->bed.env->comm, kernel, 1, threads_of(nthreads), &j->args,
			   sizeof(j->args), NULL);
	bed_pull(&j->bed, "the kernel", err);
}

/* `rounds`: that the call must have. */
static void run(struct job *j, int nthreads, uint64_t rounds)
{
	struct ori_channel state;

	bed_push(&j->bed);
	launch(j, nthreads);
	CHECK_EQ(oriel_copy(j->bed.env->comm, &state, j->args.team.win.buffer, sizeof(state)), 0);
	CHECK_EQ(state.rounds - j->rounds, rounds);
	j->rounds = state.rounds;
}

/* Ranks of the smallest node. */
static uint64_t least_of(const struct rank_env *env)
{
	uint64_t least = UINT64_MAX, size;

	for (int r = 0; r < env->nranks; r++) {
		size = (uint64_t)oriel_comm_node_size(env->comm, r);
		least = size < least ? size : least;
	}
	return least;
}

/* Rounds of a chunk that are filled, and `more` in which it moves on. */
static uint64_t rounds_of(uint64_t bytes, uint64_t chunk, uint64_t more)
{
	return (bytes + chunk - 1) / chunk + more;
}

/* `more`: rounds after those in which the root shows its chunks. */
static void broadcast(struct job *j, uint64_t bytes, int root, int nthreads, uint64_t skew,
		      uint64_t more)
{
	const struct oriel_team_dev *t = &j->args.team;
	uint64_t chunk = t->row_bytes * least_of(j->bed.env), wrong = 0;
	struct bed *b = &j->bed;

	chunk = chunk < t->slot_bytes ? chunk : t->slot_bytes;
	j->args.kind = ORI_COLL_BROADCAST;
	j->args.root = root;
	j->args.count = bytes;
	j->args.recv = b->memory + skew;
	memset(b->host, BED_POISON, b->bytes);
	for (uint64_t i = 0; i < bytes && b->env->rank == root; i++)
		b->host[skew + i] = (uint8_t)model_mix(b->seed + i);
	run(j, nthreads, rounds_of(bytes, chunk, more));
	for (uint64_t i = 0; i < bytes; i++)
		wrong += b->host[skew + i] != (uint8_t)model_mix(b->seed + i);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(b->host[skew + bytes], BED_POISON);
	b->seed = model_mix(b->seed);
}

static void allreduce(struct job *j, uint64_t count, int type, int op, int nthreads, int in_place)
{
	uint64_t bytes = count * model_bytes(type), n = (uint64_t)j->bed.env->nranks, piece;
	const struct oriel_team_dev *t = &j->args.team;
	struct bed *b = &j->bed;

	piece = ori_coll_piece(bytes, n, ori_nodes_piece_max(t, (uint32_t)least_of(j->bed.env)));
	j->args.kind = ORI_COLL_ALLREDUCE;
	j->args.type = type;
	j->args.op = op;
	j->args.count = count;
	j->args.send = b->memory + 8;
	j->args.recv = in_place ? j->args.send : b->memory + bytes + 24;
	memset(b->host, BED_POISON, b->bytes);
	bed_fill(b, 8, type, 0, count);
	run(j, nthreads, rounds_of(bytes, n * piece, 2));
	bed_check(b, (uint64_t)(j->args.recv - b->memory), type, op, 0, count);
	b->seed = model_mix(b->seed);
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define LEAST (512u << 10) /* bytes from which on calls go this way */

static void calls_rank(struct rank_env *env)
{
	uint64_t odd = LEAST / 4 + 12345;
	struct job j;

	open_job(&j, env, 0, 2 * 4 * odd + 64);
	for (int root = env->nranks % 2; root < env->nranks && !check_failures; root += 2)
		broadcast(&j, LEAST + 1000u * (uint32_t)root + 1, root, 1 + root % 4,
			  (uint64_t)root, 1);
	broadcast(&j, 2 * LEAST, 0, 4, 0, 1);
	allreduce(&j, LEAST / 4, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 1, 0);
	allreduce(&j, odd, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 4, 1);
	allreduce(&j, LEAST, ORIEL_TYPE_UINT8, ORIEL_REDUCE_XOR, 3, 0);
	allreduce(&j, LEAST / 2 + 7, ORIEL_TYPE_HALF, ORIEL_REDUCE_MAX, 2, 1);
	allreduce(&j, LEAST / 8 + 1, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_PRODUCT, 2, 0);
	close_job(&j);
}

TEST(broadcasts_and_all_reduces_of_all_nodes)
{
	bed_rows(rows, ORI_COUNT(rows), calls_rank, NULL);
}

/* Many rounds: chunks of a few KiB. */
static void small_rank(struct rank_env *env)
{
	struct job j;

	open_job(&j, env, 8192, 2 * 4 * (LEAST / 4 + 777) + 64);
	broadcast(&j, LEAST + 77, env->nranks - 1, 2, 3, 1);
	allreduce(&j, LEAST / 4 + 777, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 2, 1);
	close_job(&j);
}

TEST(many_rounds)
{
#if defined(__SANITIZE_THREAD__) /* a row will do: it looks at every access */
	bed_rows(rows + 1, 1, small_rank, NULL);
#else
	bed_rows(rows, ORI_COUNT(rows) - 1, small_rank, NULL);
#endif
}

/*
 * All-reduces on a line, and then a single one.  If the line lost count of its rounds, these would
 * find rounds that are over.
 */
static void line_rank(struct rank_env *env)
{
	uint64_t count = LEAST / 4 + 5;
	struct bed *b;
	struct job j;

	open_job(&j, env, 0, 3 * 4 * count + 64);
	b = &j.bed;
	j.args.kind = ORI_COLL_ALLREDUCE;
	j.args.type = ORIEL_TYPE_FLOAT;
	j.args.op = ORIEL_REDUCE_SUM;
	j.args.count = count;
	j.args.bytes = 4 * count + 16;
	j.args.send = b->memory;
	j.args.recv = b->memory + 4 * count + 16;
	for (j.args.calls = 1; j.args.calls <= 3 && !check_failures; j.args.calls++) {
		memset(b->host, BED_POISON, b->bytes);
		bed_fill(b, 0, ORIEL_TYPE_FLOAT, 0, count);
		bed_push(b);
		launch(&j, 1);
		bed_check(b, 4 * count + 16, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 0, count);
		bed_check(b, 8 * count + 32, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 0, count);
		b->seed = model_mix(b->seed);
	}
	close_job(&j);
}

TEST(lines_of_several_nodes)
{
	bed_rows(rows, ORI_COUNT(rows) - 2, line_rank, NULL);
}

/* The least slots have no room for shares of an all-reduce, which goes the usual way then. */
static void least_rank(struct rank_env *env)
{
	uint64_t count = LEAST / 4 + 5;
	struct job j;

	open_job(&j, env, 64u * (uint64_t)(env->nranks + 1), 4 * count + 64);
	CHECK_EQ(ori_nodes_piece_max(&j.args.team, 1), 0);
	j.args.kind = ORI_COLL_ALLREDUCE;
	j.args.type = ORIEL_TYPE_INT32;
	j.args.op = ORIEL_REDUCE_SUM;
	j.args.count = count;
	j.args.send = j.args.recv = j.bed.memory;
	memset(j.bed.host, BED_POISON, j.bed.bytes);
	bed_fill(&j.bed, 0, ORIEL_TYPE_INT32, 0, count);
	run(&j, 1, rounds_of(4 * count, 64u * (uint64_t)env->nranks, 1));
	bed_check(&j.bed, 0, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 0, count);
	close_job(&j);
}

TEST(slots_without_room_for_shares)
{
	const struct bed_row few[] = { { "two and one", 3, 0, "0,0,1" },
				       { "two and one, processes", 3, 1, "0,0,1" } };

	bed_rows(few, ORI_COUNT(few), least_rank, NULL);
}

/* Nodes of one rank share nothing. */
static void flat_rank(struct rank_env *env)
{
	struct job j;

	open_job(&j, env, 0, 2 * LEAST);
	broadcast(&j, LEAST, 1, 1, 0, 0);
	close_job(&j);
}

TEST(nodes_of_one_rank)
{
	bed_rows(flat, ORI_COUNT(flat), flat_rank, NULL);
}
