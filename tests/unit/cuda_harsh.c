/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_harsh.c - the fake driver where it is as strict as a GPU: room on the SMs, the
 * order of streams and events, memory that is really freed.  Each test has its own process, because
 * the driver does not survive fork().
 */
#include <sched.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"

#define DEADLINE_NS (60 * ORI_NS_PER_S)

struct words {
	uint64_t began, ended, go;
	uint64_t turn, place[2]; /* who was the first of two */
};

struct spin_args {
	struct words *words;
	void *memory; /* it has a pointer there */
	int32_t who;
	int32_t pad;
};

/* Says that it has begun, and ends when it is let go. */
ORIEL_KERNEL(spin_kernel, struct spin_args)
{
	struct oriel_group g = oriel_group_block();

	if (oriel_group_is_leader(g)) {
		ori_add_release_sys(&a->words->began, 1);
		while (!ori_load_acquire_sys(&a->words->go))
			sched_yield();
		ori_add_release_sys(&a->words->ended, 1);
	}
	return 0;
}

/* Takes a turn. */
ORIEL_KERNEL(turn_kernel, struct spin_args)
{
	uint64_t turn = __atomic_add_fetch(&a->words->turn, 1, __ATOMIC_ACQ_REL);

	ori_store_release_sys(&a->words->place[a->who], turn);
	return 0;
}

struct bench {
	const struct ori_cuda_driver *cu;
	void *context, *streams[2];
	ori_cu_mem memory;
	ori_cu_ptr at;
	size_t bytes;
};

static int map_memory(struct bench *b)
{
	struct ori_cu_prop prop = { .type = ORI_CU_ALLOC_PINNED,
				    .handle_types = ORI_CU_HANDLE_FD,
				    .location = { ORI_CU_LOCATION_DEVICE, 0 } };
	struct ori_cu_access access = { { ORI_CU_LOCATION_DEVICE, 0 }, ORI_CU_ACCESS_READWRITE };

	b->bytes = (size_t)2 << 20;
	return b->cu->cuMemCreate(&b->memory, b->bytes, &prop, 0) ||
	       b->cu->cuMemAddressReserve(&b->at, b->bytes, 0, 0, 0) ||
	       b->cu->cuMemMap(b->at, b->bytes, 0, b->memory, 0) ||
	       b->cu->cuMemSetAccess(b->at, b->bytes, &access, 1) || b->cu->cuMemRelease(b->memory);
}

static void bench_open(struct bench *b, const char *knobs)
{
	fake_cuda_knobs(knobs);
	if (ori_cuda_driver_get(&b->cu) || b->cu->cuDevicePrimaryCtxRetain(&b->context, 0) ||
	    b->cu->cuCtxPushCurrent(b->context) || map_memory(b) ||
	    b->cu->cuStreamCreateWithPriority(&b->streams[0], ORI_CU_STREAM_NON_BLOCKING, 0) ||
	    b->cu->cuStreamCreateWithPriority(&b->streams[1], ORI_CU_STREAM_NON_BLOCKING, 0)) {
		fprintf(stderr, "the bench cannot be made\n");
		_exit(9);
	}
}

static void launch(struct bench *b, const struct oriel_kernel *kernel, int nblocks, int nthreads,
		   struct spin_args *args, int stream)
{
	struct oriel_launch_dev unreported = { 0 }; /* the hidden last parameter of a kernel */
	void *params[] = { args, &unreported }, *function;

	kernel = fake_cuda_kernel(kernel);
	CHECK_EQ(kernel->gpu_find(kernel->gpu_symbol, &function), 0);
	CHECK_EQ(b->cu->cuLaunchKernel(function, (unsigned int)nblocks, 1, 1,
				       (unsigned int)nthreads, 1, 1, 0, b->streams[stream], params,
				       NULL),
		 0);
}

static void await(const uint64_t *word, uint64_t value)
{
	uint64_t end = ori_now_ns() + DEADLINE_NS;

	while (ori_load_acquire_sys(word) < value && ori_now_ns() < end)
		sched_yield();
	CHECK_EQ(ori_load_acquire_sys(word), value);
}

static void await_stream(struct bench *b, int stream)
{
	uint64_t end = ori_now_ns() + DEADLINE_NS;

	while (b->cu->cuStreamQuery(b->streams[stream]) == ORI_CU_NOT_READY && ori_now_ns() < end)
		sched_yield();
	CHECK_EQ(b->cu->cuStreamQuery(b->streams[stream]), 0);
}

/* ---- room ------------------------------------------------------------------------------------ */

/*
 * One SM, 2,048 threads: one block of 1,024 of the first, then of the second kernel one, and not
 * the other.
 */
static void share_room(void *arg)
{
	struct words w = { 0 };
	struct spin_args args = { .words = &w };
	struct bench b;

	(void)arg;
	bench_open(&b, "sms=1,threads=2");
	launch(&b, &spin_kernel, 1, 1024, &args, 0);
	await(&w.began, 1);
	launch(&b, &spin_kernel, 2, 1024, &args, 1);
	await(&w.began, 2);
	usleep(100000);
	CHECK_EQ(ori_load_acquire_sys(&w.began), 2);
	ori_store_release_sys(&w.go, 1);
	await(&w.ended, 3);
	await_stream(&b, 0);
	await_stream(&b, 1);
}

TEST(kernels_of_all_streams_share_the_sms)
{
	struct apart a;

	apart_run(&a, share_room, NULL);
}

static void have_room(void *arg)
{
	struct words w = { 0 };
	struct spin_args args = { .words = &w };
	struct bench b;

	(void)arg;
	bench_open(&b, "sms=1,threads=2,room=0");
	launch(&b, &spin_kernel, 2, 1024, &args, 0);
	launch(&b, &spin_kernel, 2, 1024, &args, 1);
	await(&w.began, 4);
	ori_store_release_sys(&w.go, 1);
	await_stream(&b, 0);
	await_stream(&b, 1);
}

TEST(room_for_all)
{
	struct apart a;

	apart_run(&a, have_room, NULL);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Pairs of kernels on two streams, the first launched first, until either has been the first. */
static void overtake(void *arg)
{
	uint64_t end = ori_now_ns() + DEADLINE_NS;
	int first[2] = { 0, 0 };
	struct bench b;

	(void)arg;
	bench_open(&b, "late=11");
	while ((!first[0] || !first[1]) && ori_now_ns() < end) {
		struct words w = { 0 };

		for (int i = 0; i < 2; i++) {
			struct spin_args args = { .words = &w, .who = i };

			launch(&b, &turn_kernel, 1, 1, &args, i);
		}
		await_stream(&b, 0);
		await_stream(&b, 1);
		first[w.place[1] < w.place[0]]++;
	}
	CHECK(first[0] && first[1]);
}

TEST(streams_overtake_each_other)
{
	struct apart a;

	apart_run(&a, overtake, NULL);
}

/* A wait is for the record that was there, whatever is recorded later and where. */
static void wait_for_record(void *arg)
{
	struct words w = { 0 }, x = { 0 };
	struct spin_args args = { .words = &w }, other = { .words = &x };
	struct bench b;
	void *event;

	(void)arg;
	bench_open(&b, "late=5");
	CHECK_EQ(b.cu->cuEventCreate(&event, ORI_CU_EVENT_NO_TIMING), 0);
	CHECK_EQ(b.cu->cuStreamWaitEvent(b.streams[1], event, 0), 0);
	CHECK_EQ(b.cu->cuEventQuery(event), 0);
	await_stream(&b, 1);
	launch(&b, &spin_kernel, 1, 1, &args, 0);
	CHECK_EQ(b.cu->cuEventRecord(event, b.streams[0]), 0);
	CHECK_EQ(b.cu->cuEventQuery(event), ORI_CU_NOT_READY);
	CHECK_EQ(b.cu->cuStreamWaitEvent(b.streams[1], event, 0), 0);
	launch(&b, &turn_kernel, 1, 1, &other, 1);
	CHECK_EQ(b.cu->cuEventRecord(event, b.streams[1]), 0);
	CHECK_EQ(b.cu->cuEventDestroy(event), 0);
	await(&w.began, 1);
	usleep(50000);
	CHECK_EQ(ori_load_acquire_sys(&x.turn), 0);
	ori_store_release_sys(&w.go, 1);
	await_stream(&b, 1);
	CHECK_EQ(x.turn, 1);
}

TEST(streams_wait_for_events)
{
	struct apart a;

	apart_run(&a, wait_for_record, NULL);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void come_again(void *arg)
{
	struct bench b;
	ori_cu_ptr before;
	char byte = 0;

	(void)arg;
	bench_open(&b, "reuse=1");
	before = b.at;
	fake_cuda_write((void *)(uintptr_t)b.at, "old", 4);
	CHECK_EQ(b.cu->cuMemUnmap(b.at, b.bytes), 0);
	CHECK_EQ(b.cu->cuMemAddressFree(b.at, b.bytes), 0);
	CHECK_EQ(map_memory(&b), 0);
	CHECK_EQ(b.at, before);
	fake_cuda_read(&byte, (void *)(uintptr_t)b.at, 1);
	CHECK(byte != 'o');
}

TEST(addresses_come_again_at_once)
{
	struct apart a;

	apart_run(&a, come_again, NULL);
}

static void unmap_under_kernel(struct bench *b)
{
	static struct words w;
	struct spin_args args = { .words = &w, .memory = (char *)(uintptr_t)b->at + 100 };

	fake_cuda_hold("cuLaunchKernel", 1); /* for ever: this process ends first */
	launch(b, &spin_kernel, 1, 1, &args, 0);
	b->cu->cuMemUnmap(b->at, b->bytes);
}

static void touch_after_free(struct bench *b)
{
	b->cu->cuMemUnmap(b->at, b->bytes);
	b->cu->cuMemAddressFree(b->at, b->bytes);
	*(volatile char *)(uintptr_t)b->at = 1;
}

static void event_after_destroy(struct bench *b)
{
	void *event;

	b->cu->cuEventCreate(&event, ORI_CU_EVENT_NO_TIMING);
	b->cu->cuEventDestroy(event);
	b->cu->cuEventRecord(event, b->streams[0]);
}

struct mistake {
	void (*make)(struct bench *);
	const char *says;
};

static void make_mistake(void *arg)
{
	const struct mistake *m = arg;
	struct bench b;

	bench_open(&b, "reuse=1");
	m->make(&b);
}

TEST(mistakes_end_the_program)
{
	static const struct mistake mistakes[] = {
		{ unmap_under_kernel, "while work on a stream uses it: spin_kernel" },
		{ touch_after_free, "was given back" },
		{ event_after_destroy, "no event or was destroyed" },
	};

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		struct mistake m = mistakes[i];
		struct apart a;

		apart_begin(&a, make_mistake, &m);
		apart_end(&a);
		/* A sanitizer turns the signal into an exit status. */
		CHECK(WIFSIGNALED(a.status) || WEXITSTATUS(a.status) != 0);
		CHECK(!WIFEXITED(a.status) || WEXITSTATUS(a.status) != 9);
		CHECK_HAS(a.text, "fake_cuda: ");
		CHECK_HAS(a.text, m.says);
	}
}
