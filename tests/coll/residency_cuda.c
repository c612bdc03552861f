/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/residency_cuda.c - collectives on several streams of a GPU that is too small for all
 * of them at once.
 *
 * Ranks share the GPU, and the kernel of each call takes all the room that its rank has.  The first
 * rank makes its calls before the others begin.  If all its kernels ran at once, they would fill
 * the GPU and wait for kernels that find no room.
 */
#include <stdlib.h>
#include <unistd.h>

#include <oriel/coll.h>

#include "../ranks.h"
#include "cuda_stream.h"
#include "comm/comm.h"
#include "fake_cuda/fake.h"

#define BLOCK (256u << 10)
#define WAYS 6 /* blocks that wait, one of each at least, are more than there is room for */

/* One way of data: a request on a stream of its own, of one of the two kinds. */
struct way {
	struct oriel_comm *comm;
	struct oriel_alltoallv_request *exchange;
	struct oriel_allgather_request *gather;
	struct oriel_window *window;
	void *stream, *sizes;
};

static int way_open(struct way *w, struct rank_env *env, struct oriel_comm *comm, int gathers)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_window_options wo = ORIEL_WINDOW_OPTIONS_INIT;
	uint64_t sizes[8];
	int err = make_stream(env, &w->stream);

	w->comm = comm;
	for (int r = 0; r < env->nranks; r++)
		sizes[r] = BLOCK;
	o.slot_bytes = BLOCK;
	wo.bytes = (uint64_t)BLOCK * (uint64_t)env->nranks;
	if (!err && gathers) {
		err = oriel_window_create(comm, &wo, &w->window);
		return err ? err : oriel_allgather_create(comm, w->window, NULL, &w->gather);
	}
	if (!err)
		err = oriel_alltoallv_create(comm, &o, &w->exchange);
	if (!err)
		err = oriel_alloc(comm, sizeof(sizes), &w->sizes);
	return err ? err : oriel_copy(comm, w->sizes, sizes, sizeof(*sizes) * (size_t)env->nranks);
}

static int way_exec(struct way *w)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;

	if (w->gather)
		return oriel_allgather_exec(w->gather, NULL, BLOCK, 1, w->stream);
	args.send_sizes = w->sizes;
	return oriel_alltoallv_exec(w->exchange, &args, w->stream);
}

static void way_end(struct way *w)
{
	REQUIRE_OK(oriel_comm_sync(w->comm, w->stream));
	if (w->gather) {
		CHECK_EQ(oriel_allgather_status(w->gather), 0);
		REQUIRE_OK(oriel_allgather_destroy(w->gather));
		REQUIRE_OK(oriel_window_destroy(w->window));
	} else {
		CHECK_EQ(oriel_alltoallv_status(w->exchange), 0);
		REQUIRE_OK(oriel_alltoallv_destroy(w->exchange));
		REQUIRE_OK(oriel_free(w->comm, w->sizes));
	}
	CHECK_EQ(cuStreamDestroy_v2(w->stream), 0);
}

enum comms { ONE_COMM, SPLIT_COMMS, OWN_COMMS };

struct mix {
	int gathers[WAYS]; /* 1: an all-gather, 0: an all-to-all-v */
	enum comms comms;
};

static int get_comm(struct rank_env *env, enum comms kind, int i, struct oriel_comm **comm)
{
	*comm = env->comm;
	if (!i || kind == ONE_COMM)
		return 0;
	return kind == SPLIT_COMMS ? oriel_comm_split(env->comm, 0, env->rank, comm) :
				     oriel_comm_create(env->boot, NULL, comm);
}

static void mix_rank(struct rank_env *env)
{
	const struct mix *mix = env->arg;
	struct way ways[WAYS] = { 0 };
	struct oriel_comm *comm;

	for (int i = 0; i < WAYS; i++) {
		REQUIRE_OK(get_comm(env, mix->comms, i, &comm));
		REQUIRE_OK(way_open(&ways[i], env, comm, mix->gathers[i]));
	}
	for (int k = 0; k < 3; k++) {
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		if (env->rank) /* until all kernels of the first rank have had their turn */
			REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		for (int i = 0; i < WAYS; i++)
			REQUIRE_OK(way_exec(&ways[i]));
		if (!env->rank) {
			usleep(20000);
			REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		}
	}
	for (int i = 0; i < WAYS; i++) {
		way_end(&ways[i]);
		if (ways[i].comm != env->comm)
			REQUIRE_OK(oriel_comm_destroy(ways[i].comm));
	}
}

static void run_mix(const char *knobs, int nranks, const struct mix *mix)
{
	struct ranks_options o = { .nranks = nranks, .deadline_s = 100, .timeout_s = 20 };

	fake_cuda_knobs(knobs);
	ranks_run(&o, mix_rank, (void *)(uintptr_t)mix);
	fake_cuda_knobs("");
}

TEST(requests_on_several_streams)
{
	static const struct mix exchanges = { { 0, 0, 0, 0, 0, 0 }, ONE_COMM };
	static const struct mix gathers = { { 1, 1, 1, 1, 1, 1 }, ONE_COMM };
	static const struct mix both = { { 0, 1, 0, 1, 1, 0 }, ONE_COMM };

	run_mix("sms=1,threads=2", 2, &exchanges);
	run_mix("sms=1,threads=2", 2, &gathers);
	run_mix("sms=1,threads=2", 2, &both);
}

TEST(comms_on_several_streams)
{
	static const struct mix split = { { 1, 0, 1, 0, 0, 1 }, SPLIT_COMMS };
	static const struct mix own = { { 0, 1, 0, 1, 0, 1 }, OWN_COMMS };

	run_mix("sms=1,threads=2", 2, &split);
	run_mix("sms=3,threads=2", 2, &own);
}

/*
 * Streams overtake each other, and no rank may fill the room with calls that others have left for
 * later.
 */
static void overtake_rank(struct rank_env *env)
{
	const struct mix *mix = env->arg;
	struct way ways[WAYS] = { 0 };

	for (int i = 0; i < WAYS; i++)
		REQUIRE_OK(way_open(&ways[i], env, env->comm, mix->gathers[i]));
	for (int k = 0; k < 20; k++)
		for (int i = 0; i < WAYS; i++)
			REQUIRE_OK(way_exec(&ways[(i + k) % WAYS]));
	for (int i = 0; i < WAYS; i++)
		way_end(&ways[i]);
}

TEST(streams_that_overtake_each_other)
{
	static const struct mix both = { { 0, 1, 0, 1, 1, 0 }, ONE_COMM };
	struct ranks_options o = { .nranks = 2, .deadline_s = 150, .timeout_s = 60 };

	fake_cuda_knobs("sms=1,threads=2,late=9");
	ranks_run(&o, overtake_rank, (void *)(uintptr_t)&both);
	fake_cuda_knobs("");
}

/* What fits runs at once, in any order on the ranks. */
static void any_order_rank(struct rank_env *env)
{
	struct way ways[2] = { 0 };

	for (int i = 0; i < 2; i++)
		REQUIRE_OK(way_open(&ways[i], env, env->comm, 0));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	for (int i = 0; i < 2; i++)
		REQUIRE_OK(way_exec(&ways[i ^ env->rank]));
	for (int i = 0; i < 2; i++)
		way_end(&ways[i]);
}

TEST(what_fits_is_not_ordered)
{
	struct ranks_options o = { .nranks = 2, .deadline_s = 100, .timeout_s = 20 };

	fake_cuda_knobs("sms=32,threads=2");
	ranks_run(&o, any_order_rank, NULL);
	fake_cuda_knobs("");
}

/* More comms than blocks find room: refused, and no rank waits for another. */
static void crowd_rank(struct rank_env *env)
{
	struct oriel_comm *more[4];
	struct way way = { 0 };

	REQUIRE_OK(way_open(&way, env, env->comm, 0));
	REQUIRE_OK(way_exec(&way));
	REQUIRE_OK(oriel_comm_sync(env->comm, way.stream));
	for (int i = 0; i < 4; i++)
		REQUIRE_OK(oriel_comm_create(env->boot, NULL, &more[i]));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	CHECK_EQ(way_exec(&way), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "each of its 10 ranks and comms");
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	for (int i = 0; i < 4; i++)
		REQUIRE_OK(oriel_comm_destroy(more[i]));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(way_exec(&way));
	way_end(&way);
}

TEST(more_comms_than_room)
{
	struct ranks_options o = { .nranks = 2, .deadline_s = 100, .timeout_s = 20 };

	fake_cuda_knobs("sms=1,threads=2");
	ranks_run(&o, crowd_rank, NULL);
	fake_cuda_knobs("");
}

/*
 * The driver may wait for running kernels while it loads another one, and those may wait for a peer
 * that waits for the driver.  So what calls need is loaded when their requests are made.
 */
static void loaded_rank(struct rank_env *env)
{
	static const uint64_t expected[] = { 8, 64 << 10, BLOCK };
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t each = BLOCK / sizeof(float);
	int n = env->nranks;
	struct way ways[2] = { 0 };
	float *data;
	int before;

	for (int i = 0; i < 2; i++)
		REQUIRE_OK(way_open(&ways[i], env, env->comm, i));
	REQUIRE_OK(oriel_alloc(env->comm, (uint64_t)(n + 1) * BLOCK, (void **)&data));
	REQUIRE_OK(oriel_broadcast(env->comm, data, 1, 1, 0, NULL)); /* makes the comm's team */
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	before = fake_cuda_count("cuModuleGetFunction");
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	args.send_sizes = ways[0].sizes;
	for (size_t i = 0; i < ORI_COUNT(expected); i++) {
		args.expect_bytes = expected[i];
		REQUIRE_OK(oriel_alltoallv_exec(ways[0].exchange, &args, ways[0].stream));
	}
	REQUIRE_OK(way_exec(&ways[1]));
	for (uint64_t count = 1; count <= each; count *= each) {
		REQUIRE_OK(oriel_broadcast(env->comm, data, count, sizeof(*data), 0, NULL));
		REQUIRE_OK(oriel_allreduce(env->comm, data, data, count, ORIEL_TYPE_FLOAT,
					   ORIEL_REDUCE_SUM, NULL));
		REQUIRE_OK(oriel_reducescatter(env->comm, data, data + (uint64_t)n * each, count,
					       ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL));
	}
	CHECK_EQ(fake_cuda_count("cuModuleGetFunction"), before);
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_free(env->comm, data));
	for (int i = 0; i < 2; i++)
		way_end(&ways[i]);
}

TEST(kernels_are_loaded_before_calls)
{
	struct ranks_options o = { .nranks = 2, .deadline_s = 100, .timeout_s = 20 };

	fake_cuda_knobs("sms=32,threads=2");
	ranks_run(&o, loaded_rank, NULL);
	fake_cuda_knobs("");
}
