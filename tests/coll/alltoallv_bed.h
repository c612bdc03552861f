/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/alltoallv_bed.h - the parts that the tests of all-to-all-v share: a request, its
 * memory, and calls of which every byte is checked.
 *
 * The sizes of a call are a function of (seed, call, from, to) that every rank can compute, and so
 * is every byte.  The receive buffer is filled with another byte before each call.  So data that
 * comes too early is overwritten, and found missing.  The tests access memory only through
 * oriel_copy(), so they also run on a device whose memory the host cannot touch.
 */
#ifndef ORI_TEST_ALLTOALLV_BED_H
#define ORI_TEST_ALLTOALLV_BED_H

#include <oriel/coll.h>

#include "../ranks.h"
#include "coll/alltoallv/alltoallv.h"

#define BED_POISON 0xa5
#define BED_GUARD 64u

/* Elements that `from` sends `to` in a call. */
typedef uint64_t bed_sizes_fn(uint64_t seed, uint64_t call, int from, int to);

struct bed {
	struct rank_env *env;
	struct oriel_alltoallv_request *request;
	struct oriel_alltoallv_options options;
	bed_sizes_fn *sizes;
	uint64_t seed, call;
	uint64_t *words;        /* device: sizes, offsets, what came, where it is; nranks each */
	uint64_t *host;         /* the same here */
	uint8_t *own;           /* device: the caller's own send memory */
	uint8_t *sent, *landed; /* host images of the send memory and of the receive buffer */
	uint64_t send_bytes, recv_bytes, slot_stride;
};

/* splitmix64's finaliser: every bit of x reaches every bit of the result. */
static inline uint64_t bed_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline uint64_t bed_random(uint64_t seed, uint64_t call, int from, int to)
{
	return bed_mix(seed * 0x9e3779b97f4a7c15u +
		       bed_mix(call * 4096 + (uint64_t)from * 64 + (uint64_t)to + 1));
}

static inline uint64_t bed_stamp(const struct bed *b, int from, int to)
{
	return bed_random(b->seed ^ 0x5bd1e995u, b->call, from, to);
}

static inline void bed_fill(uint8_t *data, uint64_t bytes, uint64_t stamp)
{
	for (uint64_t off = 0; off < bytes; off += 8) {
		uint64_t word = bed_mix(stamp + off);

		memcpy(data + off, &word, bytes - off < 8 ? bytes - off : 8);
	}
}

static inline uint64_t bed_wrong(const uint8_t *data, uint64_t bytes, uint64_t stamp)
{
	uint64_t wrong = 0;

	for (uint64_t off = 0; off < bytes; off += 8) {
		uint64_t word = bed_mix(stamp + off), n = bytes - off < 8 ? bytes - off : 8;

		if (memcmp(data + off, &word, n))
			for (uint64_t i = 0; i < n; i++)
				wrong += data[off + i] != ((const uint8_t *)&word)[i];
	}
	return wrong;
}

static inline uint64_t bed_not_poison(const uint8_t *data, uint64_t bytes)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < bytes; i++)
		wrong += data[i] != BED_POISON;
	return wrong;
}

/* Collective; a request of these options and memory for its calls. */
static inline int bed_open(struct bed *b, struct rank_env *env,
			   const struct oriel_alltoallv_options *options, bed_sizes_fn *sizes,
			   uint64_t seed)
{
	struct ori_a2a_layout layout;
	size_t n = (size_t)env->nranks;
	int err;

	memset(b, 0, sizeof(*b));
	b->env = env;
	b->options = *options;
	b->sizes = sizes;
	b->seed = seed;
	err = oriel_alltoallv_create(env->comm, options, &b->request);
	if (err)
		return err;
	ori_alltoallv_layout(options, env->nranks, &layout);
	b->slot_stride = layout.slot_stride;
	b->recv_bytes = layout.recv_bytes;
	b->send_bytes = options->send_bytes ? options->send_bytes : layout.recv_bytes;
	b->host = calloc(4 * n, sizeof(uint64_t));
	b->sent = malloc(b->send_bytes);
	b->landed = malloc(b->recv_bytes);
	err = oriel_alloc(env->comm, 4 * n * sizeof(uint64_t), (void **)&b->words);
	return err ? err : oriel_alloc(env->comm, b->send_bytes, (void **)&b->own);
}

/* Collective. */
static inline void bed_close(struct bed *b)
{
	CHECK_EQ(oriel_alltoallv_destroy(b->request), 0);
	CHECK_EQ(oriel_free(b->env->comm, b->words), 0);
	CHECK_EQ(oriel_free(b->env->comm, b->own), 0);
	free(b->host);
	free(b->sent);
	free(b->landed);
}

/* How a call takes its data: by its number all ways come in turn. */
#define BED_BUFFER 0  /* the request's send buffer, packed, offsets computed by the kernel */
#define BED_INSIDE 1  /* from 48 bytes into it, in the other order, with a byte between */
#define BED_OWN 2     /* the caller's memory */
#define BED_OFFSETS 3 /* the caller's memory, with offsets */
#define BED_WAYS 4

/* Sizes, offsets and data of this rank's next call, in the host images. */
static inline void bed_write(struct bed *b, int way, uint64_t start)
{
	uint64_t n = (uint64_t)b->env->nranks, elem = b->options.elem_bytes, at = 0;

	for (uint64_t i = 0; i < n; i++) {
		int to = way == BED_INSIDE || way == BED_OFFSETS ? (int)(n - 1 - i) : (int)i;
		uint64_t count = b->sizes(b->seed, b->call, b->env->rank, to);

		b->host[to] = count;
		b->host[n + (uint64_t)to] = at;
		bed_fill(b->sent + start + at * elem, count * elem, bed_stamp(b, b->env->rank, to));
		at += count + (way == BED_INSIDE || way == BED_OFFSETS);
	}
}

static inline int bed_prepare(struct bed *b, int way, struct oriel_alltoallv_args *args)
{
	struct oriel_comm *c = b->env->comm;
	uint64_t n = (uint64_t)b->env->nranks, start = way == BED_INSIDE ? 48 : 0;
	uint8_t *base = way < BED_OWN ? oriel_alltoallv_send_buffer(b->request) : b->own;
	int err;

	bed_write(b, way, start);
	memset(b->host + 2 * n, 0xff, 2 * n * sizeof(uint64_t));
	memset(b->landed, BED_POISON, b->recv_bytes);
	err = oriel_copy(c, base, b->sent, b->send_bytes);
	if (!err)
		err = oriel_copy(c, oriel_alltoallv_recv_buffer(b->request), b->landed,
				 b->recv_bytes);
	if (!err)
		err = oriel_copy(c, b->words, b->host, 4 * n * sizeof(uint64_t));
	args->send = way == BED_BUFFER ? NULL : base + start;
	args->send_sizes = b->words;
	args->send_offsets = way == BED_INSIDE || way == BED_OFFSETS ? b->words + n : NULL;
	args->recv_sizes = b->words + 2 * n;
	args->recv_offsets = b->words + 3 * n;
	return err;
}

/* Checks every byte that came, and that no other byte was written. */
static inline void bed_look(struct bed *b)
{
	struct oriel_comm *c = b->env->comm;
	uint64_t n = (uint64_t)b->env->nranks, elem = b->options.elem_bytes, at = 0, rest;

	CHECK_EQ(oriel_copy(c, b->host, b->words, 4 * n * sizeof(uint64_t)), 0);
	CHECK_EQ(oriel_copy(c, b->landed, oriel_alltoallv_recv_buffer(b->request), b->recv_bytes),
		 0);
	for (uint64_t r = 0; r < n; r++) {
		uint64_t count = b->sizes(b->seed, b->call, (int)r, b->env->rank);
		uint64_t place = b->slot_stride ? r * b->slot_stride : at;

		if (b->host[2 * n + r] != count || b->host[3 * n + r] != place / elem)
			check_fail(__FILE__, __LINE__,
				   "call %" PRIu64 " rank %d from %" PRIu64 ": %" PRIu64
				   " at %" PRIu64 ", not %" PRIu64 " at %" PRIu64,
				   b->call, b->env->rank, r, b->host[2 * n + r], b->host[3 * n + r],
				   count, place / elem);
		rest = bed_wrong(b->landed + place, count * elem,
				 bed_stamp(b, (int)r, b->env->rank));
		if (rest)
			check_fail(__FILE__, __LINE__,
				   "call %" PRIu64 " rank %d from %" PRIu64 ": %" PRIu64
				   " of %" PRIu64 " bytes wrong",
				   b->call, b->env->rank, r, rest, count * elem);
		at = place + count * elem;
		if (b->slot_stride)
			CHECK_EQ(bed_not_poison(b->landed + at, (r + 1) * b->slot_stride - at), 0);
	}
	if (!b->slot_stride)
		CHECK_EQ(bed_not_poison(b->landed + at, b->recv_bytes - at), 0);
}

/* One call by all ranks, with the status expected on this rank. */
static inline void bed_call(struct bed *b, int way)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	int err = bed_prepare(b, way, &args);

	if (!err)
		err = oriel_alltoallv_exec(b->request, &args, NULL);
	if (!err)
		err = oriel_comm_sync(b->env->comm, NULL);
	if (!err)
		err = oriel_alltoallv_status(b->request);
	if (err)
		check_fail(__FILE__, __LINE__, "call %" PRIu64 " rank %d: %s: %s", b->call,
			   b->env->rank, oriel_status_name(err), oriel_last_error());
	else
		bed_look(b);
	b->call++;
}

static inline struct ori_a2a_plan bed_plan(uint32_t mapped, uint32_t queued, uint64_t chunk,
					   uint32_t small, uint32_t cores)
{
	struct ori_a2a_plan plan;

	memset(&plan, 0, sizeof(plan));
	plan.kind[ORI_PLAN_MAPPED].blocks = mapped;
	plan.kind[ORI_PLAN_MAPPED].warps = 1;
	plan.kind[ORI_PLAN_MAPPED].chunk = chunk;
	plan.kind[ORI_PLAN_QUEUED].blocks = queued;
	plan.kind[ORI_PLAN_QUEUED].warps = 1;
	plan.kind[ORI_PLAN_QUEUED].chunk = chunk;
	plan.small = small;
	plan.cores = cores;
	return plan;
}

static inline int bed_on_cuda(void)
{
	const char *device = getenv("ORIEL_DEVICE");

	return device && !strncmp(device, "cuda", 4);
}

/*
 * Rows that a build runs.  CUDA ranks are processes, because each needs its own driver.
 * ThreadSanitizer does not see what orders processes, so there ranks are threads.
 */
static inline int bed_runs(int processes)
{
#if defined(__SANITIZE_THREAD__)
	return !processes && !bed_on_cuda();
#else
	return processes || !bed_on_cuda();
#endif
}

/* A job of a test: how many ranks, as what, and how they reach each other. */
struct bed_row {
	int nranks, processes;
	const char *topology;
};

/* Runs `fn` in every row that this build runs and that has enough ranks, until one fails. */
static inline void bed_rows(const struct bed_row *rows, size_t n, rank_fn *fn, void *arg,
			    int min_ranks)
{
	struct ranks_options o = { .deadline_s = 120, .timeout_s = 60 };

	for (size_t i = 0; i < n && !check_failures; i++) {
		if (rows[i].nranks < min_ranks || !bed_runs(rows[i].processes))
			continue;
		o.nranks = rows[i].nranks;
		o.processes = rows[i].processes;
		o.topology = rows[i].topology;
		ranks_run(&o, fn, arg);
		if (check_failures)
			printf("... in row %zu: %d %s, topology %s\n", i, o.nranks,
			       o.processes ? "processes" : "threads",
			       o.topology ? o.topology : "of the machine");
	}
}

#endif
