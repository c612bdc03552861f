/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_comms.c - comms on the fake CUDA driver: a split comm creates no streams, the
 * next comm reuses pinned memory, and what happens to errors of the driver after a rank has died or
 * a kernel has crashed.
 *
 * The tests themselves never open a device: ranks are processes, or threads of a separate process.
 */
#include <signal.h>
#include <time.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"
#include "comm/control.h"
#include "device/cuda/cuda_device.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"

#define RANKS 8
#define LONG_S 60.0

static int make_comm(struct rank_env *env, double timeout_s, struct oriel_comm **comm)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;

	o.device = "cuda";
	o.timeout = timeout_s;
	return oriel_comm_create(env->boot, &o, comm);
}

static void pause_1ms(void)
{
	struct timespec t = { .tv_nsec = 1000000 };

	nanosleep(&t, NULL);
}

/* ---- streams --------------------------------------------------------------------------------- */

struct add_args {
	uint64_t *word;
	uint64_t value;
};

ORIEL_KERNEL(add_kernel, struct add_args)
{
	if (oriel_group_is_leader(oriel_group_block()))
		ori_add_release_sys(a->word, a->value);
	return 0;
}

/* A kernel on the comm's own stream adds `value` to the word. */
static void add(struct oriel_comm *comm, uint64_t *word, uint64_t value)
{
	struct add_args args = { word, value };

	CHECK_EQ(oriel_launch(comm, fake_cuda_kernel(&add_kernel), 1, 1, &args, sizeof(args), NULL),
		 0);
}

static void split_and_use(struct rank_env *env)
{
	struct oriel_comm *parent, *all, *half;
	uint64_t word = 0, *device = NULL;
	int streams;

	REQUIRE_OK(make_comm(env, LONG_S, &parent));
	REQUIRE_OK(oriel_comm_barrier(parent, ORIEL_WORLD));
	streams = fake_cuda_count("cuStreamCreateWithPriority");
	REQUIRE_OK(oriel_comm_split(parent, 0, 0, &all));
	REQUIRE_OK(oriel_comm_split(all, env->rank % 2, 0, &half));
	REQUIRE_OK(oriel_comm_barrier(parent, ORIEL_WORLD));
	CHECK_EQ(fake_cuda_count("cuStreamCreateWithPriority"), streams);
	CHECK_EQ(oriel_comm_size(half), RANKS / 2);
	REQUIRE_OK(oriel_alloc(half, sizeof(word), (void **)&device));
	add(parent, device, 1);
	add(half, device, 2);
	add(all, device, 4);
	/* The parents may go first: what they shared stays. */
	CHECK_EQ(oriel_comm_destroy(parent), 0);
	add(half, device, 8);
	CHECK_EQ(oriel_comm_destroy(all), 0);
	add(half, device, 16);
	CHECK_EQ(oriel_comm_sync(half, NULL), 0);
	CHECK_EQ(oriel_copy(half, &word, device, sizeof(word)), 0);
	CHECK_EQ(word, 31);
	CHECK_EQ(oriel_comm_barrier(half, ORIEL_WORLD), 0);
	CHECK_EQ(oriel_free(half, device), 0);
	CHECK_EQ(oriel_comm_destroy(half), 0);
}

static void thread_ranks(void *arg)
{
	struct ranks_options o = { .nranks = RANKS, .no_comm = 1 };
	char left[256];

	(void)arg;
	ranks_run(&o, split_and_use, NULL);
	if (fake_cuda_live(left, sizeof(left)))
		check_fail(__FILE__, __LINE__, "left over:%s", left);
}

/* A GPU feeds 32 streams of a process at once; those beyond wait behind others. */
TEST(a_split_makes_no_streams)
{
	struct apart a;

	apart_run(&a, thread_ranks, NULL);
}

/* ---- pinned memory --------------------------------------------------------------------------- */

/* How often memory was pinned, when all ranks have come here. */
static int pins(struct oriel_comm *all)
{
	int n;

	CHECK_EQ(oriel_comm_barrier(all, ORIEL_WORLD), 0);
	n = fake_cuda_count("cuMemHostRegister");
	CHECK_EQ(oriel_comm_barrier(all, ORIEL_WORLD), 0);
	return n;
}

static void make_again(struct rank_env *env)
{
	struct oriel_comm *stays, *comm = NULL;
	int first;

	REQUIRE_OK(make_comm(env, LONG_S, &stays));
	REQUIRE_OK(make_comm(env, LONG_S, &comm));
	REQUIRE_OK(oriel_comm_destroy(comm));
	first = pins(stays);
	for (int i = 0; i < 3; i++) {
		REQUIRE_OK(make_comm(env, LONG_S, &comm));
		REQUIRE_OK(oriel_comm_destroy(comm));
	}
	CHECK_EQ(pins(stays), first);
	/* one that was never finished has lost nothing */
	CHECK(make_comm(env, env->rank ? LONG_S : -1, &comm) < 0);
	REQUIRE_OK(make_comm(env, LONG_S, &comm));
	CHECK_EQ(pins(stays), first);
	/* to the memory of one that failed somebody may still be storing */
	if (env->rank == 0)
		CHECK_EQ(oriel_comm_abort(comm, ORIEL_EABORTED), 0);
	while (!oriel_comm_status(comm))
		pause_1ms();
	CHECK_EQ(oriel_comm_destroy(comm), 0);
	CHECK_EQ(pins(stays), first);
	REQUIRE_OK(make_comm(env, LONG_S, &comm));
	CHECK_EQ(pins(stays), first + env->nranks);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
	CHECK_EQ(fake_cuda_count("cuMemHostUnregister"), 0);
	CHECK_EQ(oriel_comm_destroy(stays), 0);
}

static void thread_again(void *arg)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };
	char left[256];

	(void)arg;
	ranks_run(&o, make_again, NULL);
	/* device memory of the comm that failed stays where it was: a peer may store there */
	(void)fake_cuda_live(left, sizeof(left));
	CHECK(!strstr(left, "pinned"));
}

TEST(pinned_memory_serves_the_next_comm)
{
	struct apart a;

	apart_run(&a, thread_again, NULL);
}

/* ---- a failed comm --------------------------------------------------------------------------- */

static int make_both(struct rank_env *env, double timeout_s, struct oriel_comm **comm,
		     struct oriel_window **window)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = 4096;
	return make_comm(env, timeout_s, comm) || oriel_window_create(*comm, &o, window) ||
	       oriel_comm_barrier(*comm, ORIEL_WORLD);
}

/*
 * A peer has set only the host's failure word, and the comm is destroyed at once.  Its kernel,
 * which waits, must learn of the failure before the memory that it polls is freed.
 */
static void fail_under_a_kernel(struct rank_env *env)
{
	struct oriel_window *window = NULL;
	struct oriel_comm *comm = NULL;

	REQUIRE(!make_both(env, LONG_S, &comm, &window));
	REQUIRE_OK(oriel_window_wait_signal(window, 0, 0, ORIEL_EQ, 1, NULL));
	for (int i = 0; i < 10; i++)
		pause_1ms();
	__atomic_store_n(&comm->control->failure, ORIEL_FAILURE(ORIEL_EABORTED, 0),
			 __ATOMIC_RELEASE);
	if (env->arg)
		CHECK_EQ(oriel_window_destroy(window), 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
}

static void thread_failed(void *arg)
{
	struct ranks_options o = { .nranks = 1, .no_comm = 1 };
	uint64_t start = ori_now_ns();
	char left[256];

	ranks_run(&o, fail_under_a_kernel, arg);
	CHECK(ori_now_ns() - start < (uint64_t)(LONG_S / 2 * 1e9));
	if (fake_cuda_live(left, sizeof(left)))
		check_fail(__FILE__, __LINE__, "left over:%s", left);
}

TEST(kernels_of_a_failed_comm_end_before_its_memory_goes)
{
	struct apart a;
	int with_window = 1;

	apart_run(&a, thread_failed, NULL);
	apart_run(&a, thread_failed, &with_window);
}

/* A kernel that begins after all deadlines finds its memory: unmapped, it would end the program. */
static void destroy_under_a_late_kernel(struct rank_env *env)
{
	struct oriel_window *window = NULL;
	struct oriel_comm *comm = NULL;

	REQUIRE(!make_both(env, LONG_S, &comm, &window));
	((struct ori_cuda_device *)comm->device)->timeout_ns = 200000000; /* of the stream alone */
	fake_cuda_hold("cuLaunchKernel", 1);
	REQUIRE_OK(oriel_window_signal(window, 0, 0, ORIEL_ADD, 1, NULL));
	CHECK_EQ(oriel_window_destroy(window), ORIEL_ETIMEDOUT);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
	fake_cuda_hold("cuLaunchKernel", 0);
	for (int i = 0; i < 50; i++)
		pause_1ms();
}

static void thread_late(void *arg)
{
	struct ranks_options o = { .nranks = 1, .no_comm = 1 };

	(void)arg;
	ranks_run(&o, destroy_under_a_late_kernel, NULL);
}

TEST(memory_stays_for_a_kernel_that_is_late)
{
	struct apart a;

	apart_run(&a, thread_late, NULL);
	CHECK_HAS(a.text, "bytes of device memory are never given back");
}

/*
 * oriel_free() returns at the deadline and frees nothing.  The memory can be used again, and freed
 * when the kernel has ended.
 */
static void free_under_a_late_kernel(struct rank_env *env)
{
	struct oriel_window *window = NULL;
	struct oriel_buffer *buffer = NULL;
	struct oriel_comm *comm = NULL;
	void *memory = NULL;

	REQUIRE(!make_both(env, LONG_S, &comm, &window));
	REQUIRE_OK(oriel_alloc(comm, 4096, &memory));
	((struct ori_cuda_device *)comm->device)->timeout_ns = 200000000; /* of the stream alone */
	fake_cuda_hold("cuLaunchKernel", 1);
	REQUIRE_OK(oriel_window_signal(window, 0, 0, ORIEL_ADD, 1, NULL));
	CHECK_EQ(oriel_free(comm, memory), ORIEL_ETIMEDOUT);
	CHECK_EQ(oriel_comm_status(comm), 0);
	((struct ori_cuda_device *)comm->device)->timeout_ns = (uint64_t)(LONG_S * 1e9);
	fake_cuda_hold("cuLaunchKernel", 0);
	REQUIRE_OK(oriel_buffer_register(comm, memory, 4096, &buffer));
	CHECK_EQ(oriel_free(comm, memory), ORIEL_EBUSY);
	CHECK_HAS(oriel_last_error(), "used by 1 windows or buffers");
	CHECK_EQ(oriel_buffer_release(buffer), 0);
	CHECK_EQ(oriel_free(comm, memory), 0);
	CHECK_EQ(oriel_window_destroy(window), 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
}

static void thread_free(void *arg)
{
	struct ranks_options o = { .nranks = 1, .no_comm = 1 };
	char left[256];

	(void)arg;
	ranks_run(&o, free_under_a_late_kernel, NULL);
	if (fake_cuda_live(left, sizeof(left)))
		check_fail(__FILE__, __LINE__, "left over:%s", left);
}

TEST(memory_that_could_not_be_freed_is_freed_later)
{
	struct apart a;

	apart_run(&a, thread_free, NULL);
	CHECK(!strstr(a.text, "never given back"));
}

/* ---- errors of a lost context ---------------------------------------------------------------- */

struct stage {
	uint32_t broken; /* survivors whose driver fails */
};

/* After a first error: the same answer, and everything can be freed. */
static void use_failed(struct oriel_comm *comm, struct oriel_window *window, int expect)
{
	uint64_t word = 0;

	CHECK_EQ(oriel_comm_status(comm), expect);
	CHECK_EQ(oriel_window_status(window), expect);
	CHECK_EQ(oriel_copy(comm, oriel_window_buffer(window), &word, sizeof(word)), expect);
	CHECK_EQ(oriel_window_signal(window, 0, 0, ORIEL_ADD, 1, NULL), expect);
	CHECK_EQ(oriel_window_destroy(window), 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
}

/*
 * The last rank dies after the drivers of all others answer as after a fault under MPS.  They then
 * sync, before or after the news of the death has come.
 */
static void die_under_mps(struct rank_env *env)
{
	struct stage *stage = env->arg;
	struct oriel_window *window = NULL;
	struct oriel_comm *comm = NULL;
	char name[24];
	int last = env->nranks - 1;

	REQUIRE(!make_both(env, LONG_S, &comm, &window));
	if (env->rank == last) {
		while (__atomic_load_n(&stage->broken, __ATOMIC_ACQUIRE) < (uint32_t)last)
			pause_1ms();
		raise(SIGKILL);
	}
	fake_cuda_break(env->rank ? ORI_CU_LAUNCH_FAILED : ORI_CU_ILLEGAL_ADDRESS);
	__atomic_fetch_add(&stage->broken, 1, __ATOMIC_RELEASE);
	CHECK_EQ(oriel_comm_sync(comm, NULL), ORIEL_EPEER);
	snprintf(name, sizeof(name), "rank %d", last);
	CHECK_HAS(oriel_last_error(), name);
	CHECK_HAS(oriel_last_error(), env->rank ? "(719)" : "(700)");
	use_failed(comm, window, ORIEL_EPEER);
}

TEST(a_context_lost_with_a_peer_names_the_peer)
{
	struct ranks_options o = {
		.nranks = 3, .processes = 1, .no_comm = 1, .expect_killed = 1ull << 2
	};

	ranks_run(&o, die_under_mps, ranks_shared(sizeof(struct stage)));
}

/*
 * If all ranks are one process, no rank can have died.  The rank whose kernel crashed says so at
 * once, and the others learn of it.
 */
static void crash(struct rank_env *env)
{
	struct oriel_window *window = NULL;
	struct oriel_comm *comm = NULL;

	REQUIRE(!make_both(env, LONG_S, &comm, &window));
	if (env->rank == 0) {
		fake_cuda_break(ORI_CU_ILLEGAL_ADDRESS);
		CHECK_EQ(oriel_comm_sync(comm, NULL), ORIEL_EDEVICE);
		CHECK_HAS(oriel_last_error(), "(700)");
	} else {
		while (!oriel_comm_status(comm))
			pause_1ms();
		CHECK_HAS(oriel_last_error(), "illegal memory access");
	}
	use_failed(comm, window, ORIEL_EDEVICE);
}

static void thread_crash(void *arg)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };

	(void)arg;
	ranks_run(&o, crash, NULL);
}

TEST(a_crash_of_ones_own_is_told_to_all)
{
	struct apart a;

	apart_run(&a, thread_crash, NULL);
}
