/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_words.c - device/cuda/words.c on the fake driver of tests/fake_cuda: copies end by
 * a word, small ones are words, and drivers that cannot write words do without.  Also which calls of
 * the driver a copy makes around that.
 */
#include <pthread.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "fake_cuda/fake_cuda.h"
#include "util/util.h"

#define LONG_S 60 /* of what should work: any thread may stand still for seconds */
#define BYTES 4096

/* A GPU with two pieces of memory, and what they should hold. */
struct bench {
	struct ori_device *d;
	struct ori_allocation a, b;
	uint64_t text[BYTES / 8], seen[BYTES / 8];
};

static struct ori_device *open_gpu(const char *name, const char *knobs)
{
	struct ori_device *device = NULL;
	char text[256];

	snprintf(text, sizeof(text), "gpus=2,%s", knobs); /* counted once a process */
	fake_cuda_knobs(text);
	if (ori_device_open(name, (uint64_t)LONG_S * ORI_NS_PER_S, &device))
		check_fail(__FILE__, __LINE__, "no device: %s", oriel_last_error());
	return device;
}

static struct ori_cuda_gpu *gpu_of(const struct bench *b)
{
	return ((struct ori_cuda_device *)b->d)->gpu;
}

static int bench_open(struct bench *b, const char *knobs)
{
	b->d = open_gpu("cuda:0", knobs);
	if (!b->d)
		return -1;
	for (size_t i = 0; i < BYTES / 8; i++)
		b->text[i] = 0x0102030405060708ull * (i + 1);
	CHECK_EQ(b->d->ops->alloc(b->d, BYTES, &b->a), 0);
	CHECK_EQ(b->d->ops->alloc(b->d, BYTES, &b->b), 0);
	fake_cuda_write(b->a.base, b->text, BYTES);
	return 0;
}

static void bench_close(struct bench *b)
{
	char left[256];

	b->d->ops->free(b->d, &b->a);
	b->d->ops->free(b->d, &b->b);
	b->d->ops->close(b->d);
	if (fake_cuda_live(left, sizeof(left)))
		check_fail(__FILE__, __LINE__, "left over:%s", left);
}

/* From a to b, another text each time: the end of an older copy is not taken for that of this one. */
static void copy_once(struct bench *b)
{
	b->text[0]++;
	b->text[BYTES / 8 - 1] = b->text[0];
	fake_cuda_write(b->a.base, b->text, BYTES);
	CHECK_EQ(b->d->ops->copy(b->d, b->b.base, b->a.base, BYTES), 0);
	fake_cuda_read(b->seen, b->b.base, BYTES);
	CHECK(!memcmp(b->seen, b->text, BYTES));
}

/* Each kind of copy once: device to device, from host and to it, of any size and of a word. */
static void copy_all_ways(struct bench *b)
{
	const struct ori_device_ops *ops = b->d->ops;

	copy_once(b);
	CHECK_EQ(ops->copy(b->d, b->b.base, &b->text[1], BYTES - 8), 0);
	memset(b->seen, 0, sizeof(b->seen));
	CHECK_EQ(ops->copy(b->d, b->seen, b->b.base, BYTES), 0);
	CHECK(!memcmp(b->seen, &b->text[1], BYTES - 8));
	CHECK_EQ(ops->copy(b->d, (char *)b->b.base + 8, &b->text[7], 8), 0);
	CHECK_EQ(ops->copy(b->d, &b->seen[0], (char *)b->b.base + 8, 8), 0);
	CHECK_EQ(b->seen[0], b->text[7]);
}

/* ---- the end of a copy ----------------------------------------------------------------------- */

/*
 * The driver is asked when the word is late, which any copy may be on a busy machine; not all of
 * them.
 */
TEST(a_copy_ends_by_its_word)
{
	uint64_t end = ori_deadline_ns((uint64_t)LONG_S * ORI_NS_PER_S);
	struct bench b;
	int writes, queries, unasked = 0;

	REQUIRE(!bench_open(&b, ""));
	while (!unasked && ori_now_ns() < end) {
		writes = fake_cuda_count("cuStreamWriteValue64");
		queries = fake_cuda_count("cuStreamQuery");
		copy_once(&b);
		CHECK_EQ(fake_cuda_count("cuStreamWriteValue64"), writes + 1);
		unasked = fake_cuda_count("cuStreamQuery") == queries;
	}
	CHECK(unasked);
	CHECK(gpu_of(&b)->lanes[0].count > 0);
	bench_close(&b);
}

TEST(copies_wait_for_their_own_word)
{
	struct bench b;

	REQUIRE(!bench_open(&b, "slow=cuMemcpyAsync:2000"));
	for (int i = 0; i < 20; i++)
		copy_once(&b);
	copy_all_ways(&b);
	bench_close(&b);
}

/*
 * An error of the GPU does not wait for the deadline, though the word has not come.  A machine that
 * stands still may miss the moment: then the next copy is the one.
 */
TEST(an_error_ends_the_wait)
{
	uint64_t end = ori_deadline_ns((uint64_t)LONG_S * ORI_NS_PER_S);
	struct bench b;
	int err = 0;

	REQUIRE(!bench_open(&b, "slow=cuMemcpyAsync:20000"));
	fake_cuda_fail("cuStreamQuery", 1, ORI_CU_UNKNOWN);
	while (!err && ori_now_ns() < end)
		err = b.d->ops->copy(b.d, b.b.base, b.a.base, BYTES);
	CHECK_EQ(err, ORIEL_ESYSTEM);
	CHECK_HAS(oriel_last_error(), "cuStreamQuery");
	copy_all_ways(&b);
	bench_close(&b);
}

/* ---- words ----------------------------------------------------------------------------------- */

struct small {
	size_t to, from, bytes; /* offsets of the ends */
	int by_words;
};

TEST(a_word_or_two_from_the_host_need_no_copy)
{
	static const struct small smalls[] = {
		{ 0, 0, 8, 1 },   { 8, 16, 16, 1 }, { BYTES - 8, 8, 8, 1 }, { 16, 3, 8, 1 },
		{ 0, 0, 24, 0 },  { 4, 0, 8, 0 },   { 0, 0, 12, 0 },        { 0, 0, 4, 0 },
		{ 16, 0, 16, 1 }, { 1, 0, 1, 0 },
	};
	struct bench b;

	REQUIRE(!bench_open(&b, ""));
	for (size_t i = 0; i < ORI_COUNT(smalls); i++) {
		const struct small *s = &smalls[i];
		int copies = fake_cuda_count("cuMemcpyAsync");
		int words = fake_cuda_count("cuStreamBatchMemOp");

		CHECK_EQ(b.d->ops->copy(b.d, (char *)b.a.base + s->to,
					(char *)b.text + s->from + 64, s->bytes),
			 0);
		fake_cuda_read(b.seen, (char *)b.a.base + s->to, s->bytes);
		CHECK(!memcmp(b.seen, (char *)b.text + s->from + 64, s->bytes));
		CHECK_EQ(fake_cuda_count("cuStreamBatchMemOp") - words, s->by_words);
		CHECK_EQ(fake_cuda_count("cuMemcpyAsync") - copies, !s->by_words);
	}
	bench_close(&b);
}

/* Memory of the program's may be of a kind that streams cannot write, or be gone. */
TEST(words_go_to_our_own_memory_only)
{
	struct ori_device *other;
	struct ori_allocation a;
	struct bench b;
	char *user;

	REQUIRE(!bench_open(&b, ""));
	user = fake_cuda_malloc(0, FAKE_CUDA_MALLOC, BYTES);
	CHECK_EQ(b.d->ops->copy(b.d, user, b.text, 8), 0);
	fake_cuda_read(b.seen, user, 8);
	CHECK_EQ(b.seen[0], b.text[0]);
	fake_cuda_free(user);
	REQUIRE_OK(ori_device_open("cuda:1", (uint64_t)LONG_S * ORI_NS_PER_S, &other));
	REQUIRE_OK(other->ops->alloc(other, BYTES, &a));
	CHECK_EQ(b.d->ops->copy(b.d, a.base, b.text, 8), 0);
	CHECK_EQ(fake_cuda_count("cuStreamBatchMemOp"), 0);
	CHECK_EQ(other->ops->copy(other, a.base, b.text, 8), 0);
	CHECK_EQ(fake_cuda_count("cuStreamBatchMemOp"), 1);
	other->ops->free(other, &a);
	other->ops->close(other);
	bench_close(&b);
}

/* ---- drivers without ------------------------------------------------------------------------- */

TEST(a_gpu_without_words_is_asked)
{
	struct bench b;

	REQUIRE(!bench_open(&b, "words=0"));
	copy_all_ways(&b);
	CHECK_EQ(fake_cuda_count("cuStreamWriteValue64") + fake_cuda_count("cuStreamBatchMemOp"),
		 0);
	CHECK(fake_cuda_count("cuStreamQuery") > 0);
	bench_close(&b);
}

TEST(a_driver_without_the_calls_is_asked)
{
	const struct ori_cuda_driver *cu;
	struct ori_cuda_stream_calls *calls, all;
	struct bench b;

	REQUIRE_OK(ori_cuda_driver_get(&cu));
	/* of an object that is not const */
	calls = (struct ori_cuda_stream_calls *)(uintptr_t)&cu->streams;
	all = *calls;
	for (int missing = 1; missing <= 3; missing++) {
		if (missing & 1)
			calls->cuStreamWriteValue64 = NULL;
		if (missing & 2)
			calls->cuStreamBatchMemOp = NULL;
		if (!bench_open(&b, "")) {
			copy_all_ways(&b);
			CHECK(fake_cuda_count("cuStreamQuery") > 0);
			bench_close(&b);
		}
		*calls = all;
	}
}

/* Once is enough: it is not tried again. */
TEST(a_driver_that_refuses_is_asked)
{
	static const char *const calls[] = { "cuStreamWriteValue64", "cuStreamBatchMemOp" };
	struct bench b;

	for (size_t i = 0; i < ORI_COUNT(calls); i++) {
		int tried;

		REQUIRE(!bench_open(&b, ""));
		copy_all_ways(&b);
		fake_cuda_fail(calls[i], 1, 801);
		copy_all_ways(&b);
		tried = fake_cuda_count(calls[i]);
		copy_all_ways(&b);
		CHECK_EQ(fake_cuda_count(calls[i]), tried);
		bench_close(&b);
	}
}

/* ---- copies that do not end ------------------------------------------------------------------ */

static void set_deadline(struct bench *b, double timeout_s)
{
	((struct ori_cuda_device *)b->d)->timeout_ns = (uint64_t)(timeout_s * 1e9);
}

static int lost_lanes(const struct bench *b)
{
	int lost = 0;

	for (int i = 0; i < ORI_CUDA_LANES; i++)
		lost += (int)gpu_of(b)->lanes[i].lost;
	return lost;
}

/* Those that are lost come back when all lanes are taken, or something looks: as freeing does. */
static void find_lanes(struct bench *b)
{
	uint64_t end = ori_deadline_ns((uint64_t)LONG_S * ORI_NS_PER_S);
	struct ori_cuda_scope scope;

	REQUIRE_OK(ori_cuda_enter(gpu_of(b), &scope));
	while (ori_cuda_lanes_lost(gpu_of(b)) && ori_now_ns() < end)
		ori_sleep_ns(1000000);
	ori_cuda_leave(&scope);
	CHECK_EQ(lost_lanes(b), 0);
}

/* Held is the copy, the word behind it, or a copy that is words; its lane is used again after all. */
TEST(a_lane_that_was_lost_is_right_again)
{
	static const char *const held[] = { "cuMemcpyAsync", "cuStreamWriteValue64",
					    "cuStreamBatchMemOp" };
	struct bench b;

	REQUIRE(!bench_open(&b, ""));
	for (size_t round = 0; round < 2 * ORI_COUNT(held); round++) {
		const char *call = held[round % ORI_COUNT(held)];
		int words = !strcmp(call, "cuStreamBatchMemOp");

		fake_cuda_hold(call, 1);
		set_deadline(&b, 0.05);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(b.d->ops->copy(b.d, b.b.base, words ? (void *)b.text : b.a.base,
						words ? 8 : BYTES),
				 ORIEL_ETIMEDOUT);
		CHECK_HAS(oriel_last_error(), "a copy: not done");
		CHECK_EQ(lost_lanes(&b), 2);
		set_deadline(&b, LONG_S);
		fake_cuda_hold(call, 0);
		find_lanes(&b);
		for (int i = 0; i < 3; i++)
			copy_once(&b);
		copy_all_ways(&b);
		CHECK(gpu_of(&b)->words);
	}
	bench_close(&b);
}

/* ---- the calls around it --------------------------------------------------------------------- */

struct copier {
	struct bench *bench;
	struct ori_device *other;
	int own;
	int pushes, pops, modes; /* of the copies on the first GPU */
};

static void *copy_thrice(void *arg)
{
	struct copier *c = arg;
	uint64_t word = 5;

	if (c->own)
		ori_thread_own_set();
	c->pushes = fake_cuda_count("cuCtxPushCurrent");
	c->pops = fake_cuda_count("cuCtxPopCurrent");
	c->modes = fake_cuda_count("cuThreadExchangeStreamCaptureMode");
	for (int i = 0; i < 3; i++)
		copy_once(c->bench);
	c->pushes = fake_cuda_count("cuCtxPushCurrent") - c->pushes;
	c->pops = fake_cuda_count("cuCtxPopCurrent") - c->pops;
	c->modes = fake_cuda_count("cuThreadExchangeStreamCaptureMode") - c->modes;
	if (c->other) {
		struct ori_allocation a;

		CHECK_EQ(c->other->ops->alloc(c->other, BYTES, &a), 0);
		CHECK_EQ(c->other->ops->copy(c->other, a.base, &word, 8), 0);
		c->other->ops->free(c->other, &a);
		copy_all_ways(c->bench);
	}
	return NULL;
}

static void copy_apart(struct copier *c)
{
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, copy_thrice, c));
	pthread_join(thread, NULL);
}

/* The library's own threads stay in their context; the program's find their own as it was. */
TEST(own_threads_enter_a_context_once)
{
	struct copier own = { .own = 1 }, users = { .own = 0 };
	struct bench b;

	REQUIRE(!bench_open(&b, ""));
	own.bench = users.bench = &b;
	REQUIRE_OK(ori_device_open("cuda:1", (uint64_t)LONG_S * ORI_NS_PER_S, &own.other));
	copy_apart(&own);
	CHECK_EQ(own.pushes, 1);
	CHECK_EQ(own.pops, 0);
	CHECK_EQ(own.modes, 1);
	copy_apart(&users);
	CHECK_EQ(users.pushes, 3);
	CHECK_EQ(users.pops, 3);
	CHECK_EQ(users.modes, 6);
	own.other->ops->close(own.other);
	bench_close(&b);
}
