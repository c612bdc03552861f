/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/litmus.c - memory order of what moves data without a meeting of its own: packets,
 * lines, paths and collectives, by the million.
 *
 * Nothing but the calls themselves orders the ranks, and every word is checked.  A torn cell, a
 * cell taken early, data behind its signal or a credit given early shows as a wrong word.  C for
 * the CPU, where aarch64 is the hard case, and CUDA for a GPU.  LITMUS_ROUNDS: rounds of a stream.
 */
#include <oriel/device.h>

#include "lines_bed.h"

#define STREAM_BYTES 16384u

/* What a stream is made of. */
enum { PACKETS, LINES, PATHS };

struct stream_args {
	struct oriel_window_dev win;
	struct oriel_source source; /* `local` */
	uint64_t *local, *wrong;
	uint64_t bytes;
	int32_t rounds, mode;
};

static int rounds_of_test(void)
{
	const char *given = getenv("LITMUS_ROUNDS");
	int rounds = given ? atoi(given) : bed_on_cuda() && !fake_cuda_kernel ? 1000000 : 20000;

	CHECK(rounds >= 100); /* fewer show nothing */
	return rounds;
}

/* ---- streams --------------------------------------------------------------------------------- */

ORIEL_DEV uint64_t word_of(uint64_t round, int from, uint64_t k)
{
	return (round * 2u + (uint32_t)from) * 0x9e3779b97f4a7c15ull + k;
}

ORIEL_DEV void fill_words(const struct stream_args *a, struct oriel_group g, uint64_t round)
{
	uint64_t k;

	for (k = g.thread; k < a->bytes / 8; k += g.size)
		a->local[k] = word_of(round, a->win.comm.rank, k);
}

ORIEL_DEV uint64_t wrong_words(const struct stream_args *a, struct oriel_group g,
			       const uint64_t *words, uint64_t round)
{
	uint64_t k, wrong = 0;

	for (k = g.thread; k < a->bytes / 8; k += g.size)
		wrong += words[k] != word_of(round, 1 - a->win.comm.rank, k);
	return wrong;
}

/* Rank 0 sends, rank 1 receives; neither waits for anything else. */
ORIEL_DEV int stream_packets(const struct stream_args *a, struct oriel_group g, uint64_t *wrong)
{
	int sends = a->win.comm.rank == 0, i, closed = 0, err = 0;
	struct oriel_line line;

	if (a->mode == LINES)
		err = oriel_line_open(&line, &a->win, g, sends, 0);
	if (err)
		return err;
	for (i = 0; i < a->rounds && !err; i++) {
		if (sends) {
			fill_words(a, g, (uint64_t)i);
			err = oriel_group_sync(g);
			if (!err)
				err = a->mode == LINES ?
					      oriel_line_send(&line, g, a->local, a->bytes) :
					      oriel_packet_send(&a->win, g, 1, 0, a->local,
								a->bytes);
			continue;
		}
		err = a->mode == LINES ? oriel_line_recv(&line, g, a->local, a->bytes) :
					 oriel_packet_recv(&a->win, g, 0, 0, a->local, a->bytes);
		if (!err) {
			*wrong += wrong_words(a, g, a->local, (uint64_t)i);
			err = oriel_group_sync(g);
		}
	}
	if (a->mode == LINES)
		closed = oriel_line_close(&line, g);
	return err ? err : closed;
}

/*
 * Both ranks put into the other's window, into its halves in turn.  A rank that signals round i + 1
 * has read what came in round i, so round i + 2 may go there.
 */
ORIEL_DEV int stream_paths(const struct stream_args *a, struct oriel_group g, uint64_t *wrong)
{
	uint64_t i, half;
	struct oriel_path path;
	int err = oriel_path_open(&path, &a->win, g, 1 - a->win.comm.rank, &a->source, 0);

	for (i = 1; i <= (uint64_t)a->rounds && !err; i++) {
		half = (i & 1u) * STREAM_BYTES;
		fill_words(a, g, i);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_path_put_signal(&path, g, half, 0, a->bytes, ORIEL_SET, i);
		if (!err)
			err = oriel_path_wait(&path, g, i);
		if (!err) {
			*wrong += wrong_words(a, g, (uint64_t *)(void *)(a->win.buffer + half), i);
			err = oriel_group_sync(g);
		}
	}
	return err;
}

ORIEL_KERNEL(stream_kernel, struct stream_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t wrong = 0;
	int err = a->mode == PATHS ? stream_paths(a, g, &wrong) : stream_packets(a, g, &wrong);

	if (wrong)
		(void)ori_fetch_add_acq_rel_sys(a->wrong, wrong);
	return err;
}

/* marked: the form of packets, cells with marks or slots (device/box.h). */
static void stream(struct rank_env *env, int mode, uint64_t bytes, int threads, int marked)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct stream_args a;
	uint64_t wrong = 0;
	void *local;

	memset(&a, 0, sizeof(a));
	o.bytes = 2 * STREAM_BYTES;
	o.boxes = 1;
	o.box_bytes = bytes < 1024 ? 1024 : (uint32_t)bytes; /* short: many laps of the box */
	REQUIRE_OK(oriel_window_create(env->comm, &o, &window));
	REQUIRE_OK(oriel_window_device(window, &a.win));
	REQUIRE_OK(oriel_alloc(env->comm, STREAM_BYTES + 8, &local));
	REQUIRE_OK(oriel_window_source(window, local, STREAM_BYTES, &a.source));
	a.local = (uint64_t *)local;
	a.wrong = a.local + STREAM_BYTES / 8;
	a.win.box_marked = (uint32_t)marked;
	a.bytes = bytes;
	a.rounds = rounds_of_test() / (bytes > 1024 ? 4 : 1);
	a.mode = mode;
	REQUIRE_OK(oriel_copy(env->comm, a.wrong, &wrong, sizeof(wrong)));
	REQUIRE_OK(oriel_launch(env->comm, &stream_kernel, 1, threads, &a, sizeof(a), NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_copy(env->comm, &wrong, a.wrong, sizeof(wrong)));
	CHECK_EQ(wrong, 0);
	if (env->rank == 1)
		printf("  %d rounds of %llu bytes, %d threads%s: %llu wrong words\n", a.rounds,
		       (unsigned long long)bytes, threads, marked ? ", marked cells" : "",
		       (unsigned long long)wrong);
	REQUIRE_OK(oriel_window_destroy(window));
	REQUIRE_OK(oriel_free(env->comm, local));
}

/*
 * Groups of a CPU are one thread where time counts: threads of one group only switch.  The last
 * three are whole batches of a line on a GPU, which have a way of their own; the CPU has only the
 * first of them.
 */
static void streams(struct rank_env *env, int mode)
{
	int real = bed_on_cuda() && !fake_cuda_kernel, n;
	static const uint64_t bytes[] = { 8, 256, 1024, 32, 4096, 16384 };
	static const int threads[] = { 1, 32, 128, 1, 128, 512 };

	n = mode != LINES ? 3 : real ? 6 : 4;
	for (int marked = 0; marked < (mode == PATHS ? 1 : 2); marked++)
		for (int i = 0; i < n && !check_failures; i++)
			stream(env, mode, bytes[i], real ? threads[i] : 1, marked);
}

static void packets_rank(struct rank_env *env)
{
	streams(env, PACKETS);
}

static void lines_rank(struct rank_env *env)
{
	streams(env, LINES);
}

static void paths_rank(struct rank_env *env)
{
	streams(env, PATHS);
}

static const struct bed_row pairs[] = {
	{ "two threads", 2, 0, NULL },
	{ "two processes", 2, 1, NULL },
};

TEST(packets_in_a_stream)
{
	bed_rows(pairs, ORI_COUNT(pairs), packets_rank, NULL);
}

TEST(lines_in_a_stream)
{
	bed_rows(pairs, ORI_COUNT(pairs), lines_rank, NULL);
}

TEST(paths_to_and_fro)
{
	bed_rows(pairs, ORI_COUNT(pairs), paths_rank, NULL);
}

/* ---- collectives that are held open ---------------------------------------------------------- */

static const struct bed_row groups[] = {
	{ "two processes", 2, 1, NULL },
	{ "two threads", 2, 0, NULL },
	{ "three threads", 3, 0, NULL },
};

/* Short calls through cells, and long ones through slots; marks of short calls repeat often. */
static void collectives_rank(struct rank_env *env)
{
	static const struct {
		int kind;
		uint64_t count;
	} calls[] = { { ORI_COLL_ALLTOALL, 64 },   { ORI_COLL_ALLTOALL, 20000 },
		      { ORI_COLL_ALLGATHER, 200 }, { ORI_COLL_ALLGATHER, 20000 },
		      { ORI_COLL_ALLREDUCE, 16 },  { ORI_COLL_ALLREDUCE, 5000 } };
	int real = bed_on_cuda() && !fake_cuda_kernel, rounds = rounds_of_test();
	/* long runs: three ranks on two cores take turns, each for a time slice of the system */
	int fewer = env->nranks > 2 && !real && rounds > 100000 ? 4 : 1;
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	o.slot_bytes = 16384;
	o.line_bytes = 8192;
	open_job(&j, env, &o, 400000);
	j.args.lines = 1;
	for (size_t i = 0; i < ORI_COUNT(calls) && !check_failures; i++) {
		j.args.calls = rounds / (calls[i].count > 1000 ? 20 : 2) / fewer;
		call_lines(&j, calls[i].kind, calls[i].count, 0, 1, real ? 96 : 1);
	}
	close_job(&j);
}

TEST(collectives_held_open)
{
	bed_both_ways(groups, ORI_COUNT(groups), collectives_rank);
}

/* ---- calls of a team, one after the other ---------------------------------------------------- */

struct call_args {
	struct oriel_team_dev team;
	uint64_t *sizes, *send, *recv, *wrong; /* 2 n words; n blocks of `words` each; one */
	int32_t rounds, words;
};

ORIEL_DEV uint64_t word_from(uint64_t round, int from, uint64_t k)
{
	return (round * 64u + (uint32_t)from) * 0x9e3779b97f4a7c15ull + k;
}

/* Words that go from one rank to another. */
ORIEL_DEV uint64_t words_between(const struct call_args *a, uint64_t round, int from, int to)
{
	return word_from(round, from, (uint32_t)to * 77u) % 1009u % ((uint32_t)a->words + 1u);
}

ORIEL_DEV void fill_calls(const struct call_args *a, struct oriel_group g, uint64_t round)
{
	uint64_t n = (uint32_t)a->team.win.comm.nranks, words = (uint32_t)a->words, k;
	int me = a->team.win.comm.rank;

	for (k = g.thread; k < n * words; k += g.size) {
		a->send[k] = word_from(round, me, k);
		a->recv[k] = k < words && round % n == (uint32_t)me ? a->send[k] : 0;
	}
	for (k = g.thread; k < n; k += g.size)
		a->sizes[k] = 8u * words_between(a, round, me, (int)k);
}

ORIEL_DEV int make_call(const struct call_args *a, struct oriel_group g, uint64_t round)
{
	const struct oriel_team_dev *t = &a->team;
	uint64_t bytes = 8u * (uint64_t)(uint32_t)a->words;
	int n = t->win.comm.nranks;

	switch (round / (uint32_t)n % 4u) {
	case 0:
		return oriel_coll_alltoallv(t, g, 0, a->send, a->sizes, a->recv, a->sizes + n,
					    bytes);
	case 1:
		return oriel_coll_broadcast(t, g, 0, a->recv, bytes, (int)(round % (uint32_t)n));
	case 2:
		return oriel_coll_reducescatter(t, g, 0, a->send, a->recv, (uint32_t)a->words,
						ORIEL_TYPE_UINT64, ORIEL_REDUCE_SUM);
	default:
		return oriel_coll_allgather(t, g, 0, a->send, a->recv, bytes);
	}
}

/* The word that must have come to recv[k]; 0: none has. */
ORIEL_DEV uint64_t want_word(const struct call_args *a, uint64_t round, uint64_t k)
{
	uint64_t n = (uint32_t)a->team.win.comm.nranks, words = (uint32_t)a->words, sum = 0;
	int me = a->team.win.comm.rank, from = (int)(k / words), root = (int)(round % n), r;
	uint64_t mine = (uint32_t)me * words;

	switch (round / n % 4u) {
	case 0:
		if (k % words < words_between(a, round, from, me))
			return word_from(round, from, mine + k % words);
		return k < words && root == me ? word_from(round, me, k) : 0;
	case 1:
		return k < words ? word_from(round, root, k) : 0;
	case 2:
		for (r = 0; r < (int)n && k < words; r++)
			sum += word_from(round, r, mine + k);
		return sum;
	default:
		return word_from(round, from, k % words);
	}
}

ORIEL_DEV uint64_t wrong_calls(const struct call_args *a, struct oriel_group g, uint64_t round)
{
	uint64_t n = (uint32_t)a->team.win.comm.nranks, k, wrong = 0;
	int me = a->team.win.comm.rank;

	for (k = g.thread; k < n * (uint32_t)a->words; k += g.size)
		wrong += a->recv[k] != want_word(a, round, k);
	for (k = g.thread; k < n && round / n % 4u == 0; k += g.size)
		wrong += a->sizes[n + k] != 8u * words_between(a, round, (int)k, me);
	return wrong;
}

ORIEL_KERNEL(calls_kernel, struct call_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t i, wrong = 0;
	int err = 0;

	for (i = 0; i < (uint64_t)a->rounds && !err; i++) {
		fill_calls(a, g, i);
		err = make_call(a, g, i);
		if (err)
			break;
		wrong += wrong_calls(a, g, i);
		err = oriel_group_sync(g);
	}
	if (wrong)
		(void)ori_fetch_add_acq_rel_sys(a->wrong, wrong);
	return err;
}

static void make_calls(struct rank_env *env, struct job *j, int words, int rounds, int threads)
{
	uint64_t n = (uint64_t)env->nranks, wrong = 0;
	struct call_args a;

	memset(&a, 0, sizeof(a));
	a.team = j->args.team;
	a.wrong = (uint64_t *)(void *)j->bed.memory;
	a.sizes = a.wrong + 1;
	a.send = a.sizes + 2 * n;
	a.recv = a.send + n * (uint64_t)words;
	a.rounds = rounds;
	a.words = words;
	REQUIRE_OK(oriel_copy(env->comm, a.wrong, &wrong, sizeof(wrong)));
	REQUIRE_OK(oriel_launch(env->comm, &calls_kernel, 1, threads, &a, sizeof(a), NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_copy(env->comm, &wrong, a.wrong, sizeof(wrong)));
	CHECK_EQ(wrong, 0);
	if (env->rank == 1)
		printf("  %d calls of %d words, %d threads: %llu wrong words\n", rounds, words,
		       threads, (unsigned long long)wrong);
}

/* Short ones, and some that move more than a cell's place holds. */
static void calls_rank(struct rank_env *env)
{
	int real = bed_on_cuda() && !fake_cuda_kernel, rounds = rounds_of_test() / 4;
	int fewer = env->nranks > 2 && !real && rounds > 25000 ? 4 : 1; /* as above */
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	int few = 8 * env->nranks; /* every kind of call twice */
	struct job j;

	o.slot_bytes = 16384;
	open_job(&j, env, &o, 200000);
	make_calls(env, &j, 5, few + rounds / fewer, real ? 32 : 1);
	make_calls(env, &j, 100, few + rounds / 10 / fewer, real ? 128 : 1);
	make_calls(env, &j, 1000, few + rounds / 100 / fewer, real ? 512 : 1);
	close_job(&j);
}

TEST(calls_in_a_row)
{
	bed_both_ways(groups, ORI_COUNT(groups), calls_rank);
}
