/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/vmm_cuda.c - windows, buffers and sources on memory that the program mapped itself
 * (cuMemCreate and cuMemMap, as PyTorch's expandable segments do), on the fake driver: several
 * allocations behind one range, other ones at the same addresses later, and ones that cannot be
 * exported.
 */
#include <oriel/device.h>

#include "../ranks.h"
#include "fake_cuda/fake.h"

#define CHUNK FAKE_PAGE
#define CHUNKS 4
#define OFF ((size_t)1 << 20)            /* a window begins in the middle of the first chunk */
#define BYTES (CHUNKS * CHUNK - 2 * OFF) /* and ends in the middle of the last */
#define PIECE 4096u

/* ---- memory of the program ------------------------------------------------------------------- */

/* A reserved range and what is mapped there. */
struct segment {
	ori_cu_ptr at;
	void *context;
};

static void must(int err, const char *call)
{
	if (err)
		check_fail(__FILE__, __LINE__, "%s: %d", call, err);
}

static void segment_map(struct segment *s, int handle_types)
{
	struct ori_cu_prop prop = {
		.type = ORI_CU_ALLOC_PINNED,
		.handle_types = handle_types,
		.location = { .type = ORI_CU_LOCATION_DEVICE },
	};
	struct ori_cu_access access = { .location = prop.location,
					.flags = ORI_CU_ACCESS_READWRITE };
	ori_cu_mem handle;

	must(cuCtxPushCurrent_v2(s->context), "push");
	for (int i = 0; i < CHUNKS; i++) {
		ori_cu_ptr at = s->at + (ori_cu_ptr)i * CHUNK;

		must(cuMemCreate(&handle, CHUNK, &prop, 0), "create");
		must(cuMemMap(at, CHUNK, 0, handle, 0), "map");
		must(cuMemRelease(handle), "release");
		must(cuMemSetAccess(at, CHUNK, &access, 1), "access");
	}
	must(cuCtxPopCurrent_v2(NULL), "pop");
}

static void segment_unmap(struct segment *s)
{
	for (int i = 0; i < CHUNKS; i++)
		must(cuMemUnmap(s->at + (ori_cu_ptr)i * CHUNK, CHUNK), "unmap");
}

static void segment_make(struct segment *s, int handle_types)
{
	must(cuDevicePrimaryCtxRetain(&s->context, 0), "context");
	must(cuMemAddressReserve(&s->at, CHUNKS * CHUNK, 0, 0, 0), "reserve");
	segment_map(s, handle_types);
}

static void segment_end(struct segment *s)
{
	segment_unmap(s);
	must(cuMemAddressFree(s->at, CHUNKS * CHUNK), "free");
	must(cuDevicePrimaryCtxRelease_v2(0), "context");
}

static char *segment_window(const struct segment *s)
{
	return (char *)(uintptr_t)s->at + OFF;
}

/* ---- what is put there ----------------------------------------------------------------------- */

static void fill(uint8_t *to, size_t bytes, int rank, int round)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)(i * 7 + i / 251 + (size_t)rank * 31 + (size_t)round * 101);
}

/* Around the boundary of chunks c - 1 and c, as an offset in the window. */
static uint64_t boundary(int c)
{
	return (uint64_t)c * CHUNK - OFF - PIECE / 2;
}

struct put_args {
	struct oriel_window_dev win;
	struct oriel_source src;
};

/* To the right neighbour, over every boundary, from over the same boundary; then all meet. */
ORIEL_KERNEL(put_kernel, struct put_args)
{
	struct oriel_group g = oriel_group_block();
	int right = (a->win.comm.rank + 1) % a->win.comm.nranks, err = 0;

	for (int c = 1; c < CHUNKS && !err; c++)
		err = oriel_put(&a->win, g, right, boundary(c), &a->src, boundary(c), PIECE);
	if (!err)
		err = oriel_barrier(&a->win, g, 0);
	return err;
}

static void put_round(struct rank_env *env, struct oriel_window *window, struct segment *from,
		      int round)
{
	uint8_t piece[PIECE], want[PIECE];
	struct put_args a;

	fill(piece, PIECE, env->rank, round);
	for (int c = 1; c < CHUNKS; c++)
		REQUIRE_OK(oriel_copy(env->comm, segment_window(from) + boundary(c), piece, PIECE));
	REQUIRE_OK(oriel_window_device(window, &a.win));
	REQUIRE_OK(oriel_window_source(window, segment_window(from), BYTES, &a.src));
	REQUIRE_OK(
		oriel_launch(env->comm, fake_cuda_kernel(&put_kernel), 1, 2, &a, sizeof(a), NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	fill(want, PIECE, (env->rank + env->nranks - 1) % env->nranks, round);
	for (int c = 1; c < CHUNKS; c++) {
		REQUIRE_OK(oriel_copy(env->comm, piece,
				      (char *)oriel_window_buffer(window) + boundary(c), PIECE));
		CHECK_EQ(memcmp(piece, want, PIECE), 0);
	}
}

static int make_window(struct rank_env *env, const struct segment *s, struct oriel_window **window)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = BYTES;
	o.buffer = segment_window(s);
	o.barriers = 1;
	return oriel_window_create(env->comm, &o, window);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* A window on the program's memory, then on other memory at the same addresses. */
static void window_rank(struct rank_env *env)
{
	struct oriel_window *window;
	struct segment to, from;

	segment_make(&to, ORI_CU_HANDLE_FD);
	segment_make(&from, ORI_CU_HANDLE_FD);
	for (int round = 0; round < 3; round++) {
		REQUIRE_OK(make_window(env, &to, &window));
		put_round(env, window, &from, round);
		REQUIRE_OK(oriel_window_destroy(window));
		segment_unmap(&to);
		segment_map(&to, ORI_CU_HANDLE_FD);
	}
	segment_end(&to);
	/* a source on it stays known to the comm for as long as that lives */
	REQUIRE_OK(oriel_comm_destroy(env->comm));
	env->comm = NULL;
	segment_end(&from);
}

static void run(rank_fn *fn, int nranks, const char *topology)
{
	struct ranks_options o = { .nranks = nranks,
				   .processes = 1,
				   .topology = topology,
				   .deadline_s = 100,
				   .timeout_s = 60 };

	ranks_run(&o, fn, NULL);
}

TEST(window_of_mapped_peers)
{
	run(window_rank, 3, NULL);
}

TEST(window_of_queued_peers)
{
	run(window_rank, 2, "2x1");
}

TEST(window_of_both)
{
	run(window_rank, 4, "2x2");
}

/* Every byte of a peer's buffer, through the mapping that this process has of it. */
static void buffer_rank(struct rank_env *env)
{
	int right = (env->rank + 1) % env->nranks;
	uint8_t *mine = malloc(BYTES), *want = malloc(BYTES);
	struct oriel_buffer *buffer;
	struct segment s;

	segment_make(&s, ORI_CU_HANDLE_FD);
	for (int round = 0; round < 2; round++) {
		fill(mine, BYTES, env->rank, round);
		REQUIRE_OK(oriel_copy(env->comm, segment_window(&s), mine, BYTES));
		REQUIRE_OK(oriel_buffer_register(env->comm, segment_window(&s), BYTES, &buffer));
		REQUIRE_OK(oriel_buffer_exchange(env->comm, buffer));
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		fill(want, BYTES, right, round);
		REQUIRE_OK(oriel_copy(env->comm, mine, oriel_buffer_mapped(buffer, right), BYTES));
		CHECK_EQ(memcmp(mine, want, BYTES), 0);
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		REQUIRE_OK(oriel_buffer_release(buffer));
		segment_unmap(&s);
		segment_map(&s, ORI_CU_HANDLE_FD);
	}
	segment_end(&s);
	free(mine);
	free(want);
}

TEST(buffer)
{
	run(buffer_rank, 2, NULL);
}

/* Made for nobody: said so, with what to ask for. */
static void refused_rank(struct rank_env *env)
{
	struct oriel_window *window;
	struct segment s;

	segment_make(&s, 0);
	CHECK_EQ(make_window(env, &s, &window), ORIEL_EEXPORT);
	if (!strstr(oriel_last_error(), "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"))
		check_fail(__FILE__, __LINE__, "%s", oriel_last_error());
	segment_end(&s);
}

TEST(memory_without_a_handle_type)
{
	run(refused_rank, 2, NULL);
}

/* Queued peers do not map it: the engine reads and writes it here. */
static void unshared_rank(struct rank_env *env)
{
	struct oriel_window *window;
	struct segment to, from;

	segment_make(&to, 0);
	segment_make(&from, 0);
	REQUIRE_OK(make_window(env, &to, &window));
	put_round(env, window, &from, 5);
	REQUIRE_OK(oriel_window_destroy(window));
	segment_end(&to);
	REQUIRE_OK(oriel_comm_destroy(env->comm));
	env->comm = NULL;
	segment_end(&from);
}

TEST(memory_without_a_handle_type_of_queued_peers)
{
	run(unshared_rank, 2, "2x1");
}

/* A gap behind the range is no memory. */
static void gap_rank(struct rank_env *env)
{
	struct oriel_window *window;
	struct segment s;

	segment_make(&s, ORI_CU_HANDLE_FD);
	must(cuMemUnmap(s.at + CHUNK, CHUNK), "unmap");
	CHECK_EQ(make_window(env, &s, &window), ORIEL_EINVAL);
	for (int i = 0; i < CHUNKS; i++)
		if (i != 1)
			must(cuMemUnmap(s.at + (ori_cu_ptr)i * CHUNK, CHUNK), "unmap");
	must(cuMemAddressFree(s.at, CHUNKS * CHUNK), "free");
	must(cuDevicePrimaryCtxRelease_v2(0), "context");
}

TEST(a_gap)
{
	run(gap_rank, 2, NULL);
}
