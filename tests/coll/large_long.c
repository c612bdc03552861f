/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/large_long.c - every collective with blocks above 2^31 bytes, between two processes:
 * the host's calls, then those inside a kernel.  Every byte that comes is compared.  The host's
 * all-to-all-v: alltoallv_random.c with A2A_LARGE.
 *
 * What is sent, and what should come, is one pattern of 16 MiB that is mapped again and again.  No
 * power of two is a multiple of its length, so a truncated size or offset finds other bytes.  Only
 * received data and windows take memory of their own: up to 7 GiB per rank.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <oriel/device/coll.h>

#include "coll/team/cards.h"
#include "coll/team/team.h"
#include "reduce_bed.h"

#define NRANKS 2
#define PATTERN ((uint64_t)4097 * 4096)
#define WORDS ((1u << 29) + 1025u)      /* elements of a reduction, 4 bytes each */
#define BYTES (4 * (uint64_t)WORDS + 1) /* of a block otherwise */
#define ROOM (NRANKS * BYTES + 4096)

enum { BROADCAST, GATHER, EXCHANGE, EXCHANGE_V, REDUCE, SCATTER, KINDS };

/* Bytes of all-to-all-v from one rank to another. */
static uint64_t part_of(int from, int to)
{
	return from == to ? 5 : BYTES - 3 * (uint64_t)(from + 1);
}

/* ---- patterns -------------------------------------------------------------------------------- */

static uint32_t pattern_word(int from, int to, uint64_t i)
{
	return (uint32_t)model_mix(i + ((uint64_t)from << 40) + ((uint64_t)to << 50));
}

/* from: a rank, or NRANKS: the sum of all. */
static void fill_pattern(uint8_t *p, int from, int to)
{
	for (uint64_t i = 0; i < PATTERN / 4; i++) {
		uint32_t x = 0;

		for (int r = 0; r < NRANKS; r++)
			if (from == r || from == NRANKS)
				x += pattern_word(r, to, i);
		memcpy(p + 4 * i, &x, sizeof(x));
	}
}

/* Maps the pattern over `bytes` at `at`, which is a whole page. */
static int map_pattern(uint8_t *at, uint64_t bytes, int from, int to)
{
	int fd = memfd_create("pattern", MFD_CLOEXEC), failed;
	uint8_t *p;

	if (fd < 0 || ftruncate(fd, (off_t)PATTERN))
		return -1;
	p = mmap(NULL, PATTERN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	failed = p == MAP_FAILED;
	if (!failed) {
		fill_pattern(p, from, to);
		munmap(p, PATTERN);
	}
	for (uint64_t off = 0; off < bytes && !failed; off += PATTERN) {
		uint64_t n = bytes - off < PATTERN ? bytes - off : PATTERN;

		failed = mmap(at + off, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED;
	}
	close(fd);
	return failed ? -1 : 0;
}

/* Address space for `bytes` and the pages around it. */
static uint8_t *reserve(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

struct job {
	struct rank_env *env;
	uint8_t *send, *recv;
	uint8_t *want; /* the pattern that is compared */
	uint64_t *sizes;
	int kind;
};

/* Elements of 4 bytes, or bytes, in one block. */
static uint64_t block_bytes(int kind)
{
	return kind == REDUCE || kind == SCATTER ? BYTES - 1 : BYTES;
}

/* The send memory becomes one run of the pattern of this rank, the receive memory zeros. */
static int fill_send(struct job *j)
{
	int per_peer = j->kind == EXCHANGE || j->kind == EXCHANGE_V || j->kind == SCATTER;

	(void)madvise(j->recv, ROOM, MADV_DONTNEED); /* zeros */
	return map_pattern(j->send, (per_peer ? 2 : 1) * ROOM / 2 + 4096, j->env->rank, 0);
}

/* What comes from `from` is its pattern, from the place on where its block began. */
static void check_run(struct job *j, uint64_t at, int from, uint64_t first, uint64_t bytes)
{
	REQUIRE(!map_pattern(j->want, ROOM, from, 0));
	if (memcmp(j->recv + at, j->want + first, bytes))
		check_fail(__FILE__, __LINE__, "kind %d, rank %d: wrong bytes from %d", j->kind,
			   j->env->rank, from);
}

static void check_recv(struct job *j, int root)
{
	uint64_t n = block_bytes(j->kind), mine = (uint64_t)j->env->rank, end = n;

	switch (j->kind) {
	case BROADCAST:
		check_run(j, 0, root, 0, n);
		break;
	case REDUCE:
		check_run(j, 0, NRANKS, 0, n);
		break;
	case SCATTER:
		check_run(j, 0, NRANKS, mine * n, n);
		break;
	default:
		for (int from = 0; from < NRANKS; from++) {
			uint64_t got = j->kind == EXCHANGE_V ? part_of(from, j->env->rank) : n;

			check_run(j, (uint64_t)from * n, from, j->kind == GATHER ? 0 : mine * n,
				  got);
			end = (uint64_t)from * n + got;
			if (j->kind == EXCHANGE_V)
				CHECK_EQ(j->sizes[NRANKS + from], got);
		}
	}
	for (uint64_t i = end; i < end + 64; i++)
		CHECK_EQ(j->recv[i], 0); /* nothing behind it */
}

static void open_job(struct job *j, struct rank_env *env)
{
	memset(j, 0, sizeof(*j));
	j->env = env;
	j->send = reserve(ROOM + 2 * PATTERN);
	j->recv = reserve(ROOM);
	j->want = reserve(ROOM);
	j->sizes = calloc(2 * NRANKS, sizeof(*j->sizes));
	REQUIRE(j->send && j->recv && j->want && j->sizes);
	for (int to = 0; to < NRANKS; to++)
		j->sizes[to] = part_of(env->rank, to);
}

static void close_job(struct job *j)
{
	munmap(j->send, ROOM + 2 * PATTERN);
	munmap(j->recv, ROOM);
	munmap(j->want, ROOM);
	free(j->sizes);
}

/* ---- calls of the host ----------------------------------------------------------------------- */

static int call_host(struct job *j)
{
	struct oriel_comm *comm = j->env->comm;

	switch (j->kind) {
	case BROADCAST:
		return oriel_broadcast(comm, j->env->rank ? j->recv : j->send, BYTES, 1, 0, NULL);
	case GATHER:
		return oriel_allgather(comm, j->send, j->recv, BYTES, 1, NULL);
	case REDUCE:
		return oriel_allreduce(comm, j->send, j->recv, WORDS, ORIEL_TYPE_UINT32,
				       ORIEL_REDUCE_SUM, NULL);
	default:
		return oriel_reducescatter(comm, j->send, j->recv, WORDS, ORIEL_TYPE_UINT32,
					   ORIEL_REDUCE_SUM, NULL);
	}
}

static void host_rank(struct rank_env *env)
{
	static const int kinds[] = { BROADCAST, GATHER, REDUCE, SCATTER };
	struct job j;

	open_job(&j, env);
	for (size_t i = 0; i < ORI_COUNT(kinds) && !check_failures; i++) {
		j.kind = kinds[i];
		REQUIRE(!fill_send(&j));
		REQUIRE_OK(call_host(&j));
		if (j.kind != BROADCAST || env->rank)
			check_recv(&j, 0);
	}
	close_job(&j);
}

/* The persistent all-gather, straight between windows. */
static void gather_windows(struct job *j, struct oriel_window *window)
{
	struct oriel_allgather_request *request;
	uint8_t *own = j->recv;

	REQUIRE_OK(oriel_allgather_create(j->env->comm, window, NULL, &request));
	j->kind = GATHER;
	j->recv = oriel_window_buffer(window);
	REQUIRE(!map_pattern(j->send, BYTES, j->env->rank, 0));
	REQUIRE_OK(oriel_allgather_exec(request, j->send, BYTES, 1, NULL));
	check_recv(j, 0);
	CHECK_EQ(oriel_allgather_destroy(request), 0);
	j->recv = own;
}

/*
 * Others straight between windows: data is sent from the start of the window, and comes to its
 * second half.  A reduce-scatter sends all of it.
 */
static void call_windows(struct job *j, uint8_t *window, int kind)
{
	uint8_t *pattern = j->send, *own = j->recv;

	j->kind = kind;
	REQUIRE(!fill_send(j));
	memcpy(window, pattern, (kind == SCATTER ? NRANKS : 1) * block_bytes(kind));
	j->send = window;
	if (kind != SCATTER) {
		j->recv = window + (ROOM / 2 & ~(uint64_t)63);
		memset(j->recv, 0, BYTES + 64);
	}
	REQUIRE_OK(call_host(j));
	if (kind != BROADCAST && oriel_comm_nodes(j->env->comm) == 1)
		CHECK_EQ(ori_team_last_way(j->env->comm), ORI_CARDS_DIRECT);
	if (kind != BROADCAST || j->env->rank)
		check_recv(j, 0);
	j->send = pattern;
	j->recv = own;
}

static void window_rank(struct rank_env *env)
{
	static const int kinds[] = { BROADCAST, REDUCE, SCATTER };
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct job j;

	open_job(&j, env);
	o.bytes = ROOM;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &window));
	gather_windows(&j, window);
	for (size_t i = 0; i < ORI_COUNT(kinds) && !check_failures; i++)
		call_windows(&j, oriel_window_buffer(window), kinds[i]);
	CHECK_EQ(oriel_window_destroy(window), 0);
	close_job(&j);
}

#define NEEDED_KIB (14u << 20)

static void run_two(rank_fn *fn)
{
	const char *const topologies[] = { NULL, "2x1" };
	struct ranks_options o = { .nranks = NRANKS, .processes = 1, .deadline_s = 250 };

	if (check_free_kib() < NEEDED_KIB) {
		check_skip("needs 14 GiB of free memory, there are %llu KiB",
			   (unsigned long long)check_free_kib());
		return;
	}
	for (int i = 0; i < 2 && !check_failures; i++) {
		o.topology = topologies[i];
		ranks_run(&o, fn, NULL);
	}
}

TEST(calls_of_the_host)
{
	run_two(host_rank);
}

TEST(calls_of_windows)
{
	run_two(window_rank);
}

/* ---- calls inside a kernel ------------------------------------------------------------------- */

struct args {
	struct oriel_team_dev team;
	uint8_t *send, *recv;
	uint64_t *sizes;
	uint64_t bytes, words;
	int32_t kind, reserved;
};

ORIEL_KERNEL(large_kernel, struct args)
{
	struct oriel_group g = oriel_group_block();
	const struct oriel_team_dev *t = &a->team;

	switch (a->kind) {
	case BROADCAST:
		return oriel_coll_broadcast(t, g, 0, t->win.comm.rank ? a->recv : a->send, a->bytes,
					    0);
	case GATHER:
		return oriel_coll_allgather(t, g, 0, a->send, a->recv, a->bytes);
	case EXCHANGE:
		return oriel_coll_alltoall(t, g, 0, a->send, a->recv, a->bytes);
	case EXCHANGE_V:
		return oriel_coll_alltoallv(t, g, 0, a->send, a->sizes, a->recv, a->sizes + NRANKS,
					    a->bytes);
	case REDUCE:
		return oriel_coll_allreduce(t, g, 0, a->send, a->recv, a->words, ORIEL_TYPE_UINT32,
					    ORIEL_REDUCE_SUM);
	default:
		return oriel_coll_reducescatter(t, g, 0, a->send, a->recv, a->words,
						ORIEL_TYPE_UINT32, ORIEL_REDUCE_SUM);
	}
}

static void kernel_rank(struct rank_env *env)
{
	struct oriel_team *team;
	struct args args;
	struct job j;

	open_job(&j, env);
	memset(&args, 0, sizeof(args));
	REQUIRE_OK(oriel_team_create(env->comm, NULL, &team));
	REQUIRE_OK(oriel_team_device(team, &args.team));
	args.send = j.send;
	args.recv = j.recv;
	args.sizes = j.sizes;
	args.bytes = BYTES;
	args.words = WORDS;
	for (j.kind = 0; j.kind < KINDS && !check_failures; j.kind++) {
		args.kind = j.kind;
		REQUIRE(!fill_send(&j));
		REQUIRE_OK(oriel_launch(env->comm, &large_kernel, 1, 1, &args, sizeof(args), NULL));
		if (j.kind != BROADCAST || env->rank)
			check_recv(&j, 0);
	}
	CHECK_EQ(oriel_team_destroy(team), 0);
	close_job(&j);
}

TEST(calls_inside_a_kernel)
{
	run_two(kernel_rank);
}
