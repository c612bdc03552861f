/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_device.c - device/cuda on the fake driver of tests/fake_cuda: the choice of the
 * GPU, the classification of the user's memory, pins, copies, launches.  Every test ends with
 * nothing left over.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "comm/topology.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "fake_cuda/fake_cuda.h"
#include "util/util.h"

#define LONG_S 60 /* of what should work: any thread may stand still for seconds */

/* The driver counts its GPUs once per process: there are two, and the first is the default. */
static struct ori_device *open_gpu(const char *name, const char *knobs, double timeout_s)
{
	struct ori_device *device = NULL;
	char text[256];

	snprintf(text, sizeof(text), "gpus=2,%s", knobs);
	fake_cuda_knobs(text);
	if (ori_device_open(name, (uint64_t)(timeout_s * 1e9), &device))
		check_fail(__FILE__, __LINE__, "no device %s: %s", name, oriel_last_error());
	return device;
}

/* What shall end by its deadline gets a short one for that call: all else may take its time. */
static void set_deadline(struct ori_device *device, double timeout_s)
{
	((struct ori_cuda_device *)device)->timeout_ns = (uint64_t)(timeout_s * 1e9);
}

static void close_gpu(struct ori_device *device)
{
	char left[256];

	device->ops->close(device);
	if (fake_cuda_live(left, sizeof(left)))
		check_fail(__FILE__, __LINE__, "left over:%s", left);
}

/* ---- which GPU ------------------------------------------------------------------------------- */

static int gpu_of(struct ori_device *device)
{
	struct ori_facts facts;

	memset(&facts, 0, sizeof(facts));
	CHECK_EQ(device->ops->facts(device, &facts), 0);
	CHECK_EQ(facts.device, ORI_DEVICE_CUDA);
	return facts.gpu;
}

TEST(the_rank_chooses_its_gpu)
{
	struct ori_device *first, *second;

	setenv("LOCAL_RANK", "3", 1);
	first = open_gpu("cuda", "", LONG_S);
	REQUIRE(first);
	CHECK_EQ(gpu_of(first), 1);
	second = open_gpu("cuda:0", "", LONG_S);
	REQUIRE(second);
	CHECK_EQ(gpu_of(second), 0);
	CHECK(first->separate && second->separate);
	first->ops->close(first);
	close_gpu(second);
	unsetenv("LOCAL_RANK");
}

TEST(ranks_of_a_process_share_a_gpu)
{
	struct ori_device *d[3];
	int streams;

	for (int i = 0; i < 3; i++) {
		d[i] = open_gpu("cuda", "", LONG_S);
		REQUIRE(d[i]);
		if (i == 0)
			streams = fake_cuda_count("cuStreamCreateWithPriority");
	}
	/* The knobs were set anew for each: the third made one stream, its own. */
	CHECK(streams > 1);
	CHECK_EQ(fake_cuda_count("cuStreamCreateWithPriority"), 1);
	CHECK_EQ(fake_cuda_count("cuDevicePrimaryCtxRetain"), 0);
	d[0]->ops->close(d[0]);
	d[2]->ops->close(d[2]);
	close_gpu(d[1]);
}

TEST(peer_access_is_a_fact)
{
	struct ori_facts facts;
	struct ori_device *d = open_gpu("cuda:0", "peer=1", LONG_S);

	REQUIRE(d);
	memset(&facts, 0, sizeof(facts));
	CHECK_EQ(d->ops->facts(d, &facts), 0);
	CHECK(facts.gpu_access & 2);
	CHECK_EQ(facts.fabric_available, 0);
	close_gpu(d);
	d = open_gpu("cuda:0", "peer=0", LONG_S);
	REQUIRE(d);
	memset(&facts, 0, sizeof(facts));
	CHECK_EQ(d->ops->facts(d, &facts), 0);
	CHECK_EQ(facts.gpu_access & 2, 0);
	close_gpu(d);
}

TEST(listings_show_the_gpus)
{
	struct ori_device_row row;
	int found = 0;

	fake_cuda_knobs("gpus=2,mps=0");
	for (int n = 0; ori_device_row(n, &row); n++) {
		if (strncmp(row.name, "cuda", 4) != 0)
			continue;
		found++;
		CHECK_HAS(row.text, "Fake GPU");
		CHECK_HAS(row.text, "MPS off");
	}
	CHECK_EQ(found, 2);
}

/* ---- memory ---------------------------------------------------------------------------------- */

TEST(new_memory_is_zero_and_the_devices)
{
	struct ori_device *d = open_gpu("cuda", "", LONG_S);
	struct ori_allocation a;
	static char bytes[300000];
	int other = 0;

	REQUIRE(d);
	REQUIRE_OK(d->ops->alloc(d, sizeof(bytes), &a));
	CHECK(a.bytes >= sizeof(bytes) && a.fd >= 0 && a.kind == ORI_EXPORT_CUDA_FD);
	CHECK(d->ops->holds(d, a.base));
	CHECK(d->ops->holds(d, (char *)a.base + a.bytes - 1));
	CHECK(!d->ops->holds(d, &other));
	memset(bytes, 1, sizeof(bytes));
	CHECK_EQ(d->ops->copy(d, bytes, a.base, sizeof(bytes)), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		other |= bytes[i];
	CHECK_EQ(other, 0);
	memset(bytes, 7, sizeof(bytes));
	CHECK_EQ(d->ops->copy(d, a.base, bytes, sizeof(bytes)), 0);
	d->ops->discard(d, &a, 4096, 8192);
	fake_cuda_read(bytes, a.base, sizeof(bytes));
	CHECK_EQ(bytes[4095], 7);
	CHECK_EQ(bytes[4096], 0);
	CHECK_EQ(bytes[4096 + 8191], 0);
	CHECK_EQ(bytes[4096 + 8192], 7);
	d->ops->free(d, &a);
	CHECK_EQ(a.fd, -1);
	close_gpu(d);
}

TEST(too_much_memory_is_refused)
{
	struct ori_device *d = open_gpu("cuda", "mem=64", LONG_S);
	struct ori_allocation a = { .fd = -1 };

	REQUIRE(d);
	CHECK_EQ(d->ops->alloc(d, (size_t)65 << 20, &a), ORIEL_ENOMEM);
	CHECK_HAS(oriel_last_error(), "cuMemCreate");
	CHECK_EQ(d->ops->alloc(d, 0, &a), ORIEL_EINVAL);
	CHECK_EQ(d->ops->alloc(d, SIZE_MAX - 5, &a), ORIEL_EINVAL);
	close_gpu(d);
}

TEST(the_users_memory_is_described_whole)
{
	struct ori_device *d = open_gpu("cuda", "", LONG_S);
	struct ori_allocation a;
	char *user;

	REQUIRE(d);
	user = fake_cuda_malloc(0, FAKE_CUDA_MALLOC, 100000);
	REQUIRE_OK(d->ops->describe(d, user + 5000, 1000, &a));
	CHECK(a.base == user);
	CHECK(a.bytes >= 100000);
	CHECK_EQ(a.kind, ORI_EXPORT_CUDA_IPC);
	CHECK_EQ(a.fd, -1);
	CHECK_EQ(d->ops->describe(d, user + 1, a.bytes, &a), ORIEL_ERANGE);
	d->ops->forget(d, &a);
	fake_cuda_free(user);
	close_gpu(d);
}

static void refused(struct ori_device *d, const void *ptr, const char *why)
{
	struct ori_allocation a;

	CHECK_EQ(d->ops->describe(d, ptr, 64, &a), ORIEL_EEXPORT);
	CHECK_HAS(oriel_last_error(), why);
}

TEST(memory_that_cannot_be_exported_is_refused_with_the_reason)
{
	static char host[4096] __attribute__((aligned(4096)));
	struct ori_device *d = open_gpu("cuda", "", LONG_S);
	void *managed, *pool, *other;
	struct ori_allocation pinned;

	REQUIRE(d);
	managed = fake_cuda_malloc(0, FAKE_CUDA_MANAGED, 4096);
	pool = fake_cuda_malloc(0, FAKE_CUDA_POOL, 4096);
	other = fake_cuda_malloc(1, FAKE_CUDA_MALLOC, 4096);
	REQUIRE_OK(d->ops->alloc_host(d, 4096, &pinned));
	refused(d, managed, "managed");
	refused(d, pool, "pool");
	refused(d, other, "another GPU");
	refused(d, pinned.base, "pinned host memory");
	refused(d, host, "host memory");
	CHECK(!d->ops->holds(d, managed)); /* host code may touch it */
	CHECK(d->ops->holds(d, pool));
	d->ops->free_host(d, &pinned, 1);
	fake_cuda_free(managed);
	fake_cuda_free(pool);
	fake_cuda_free(other);
	close_gpu(d);
}

/* As the program's own would be: by the handle it was made with, whole. */
TEST(mapped_memory_is_described_by_its_handle)
{
	struct ori_device *d = open_gpu("cuda", "", LONG_S);
	struct ori_allocation own, a;

	REQUIRE(d);
	REQUIRE_OK(d->ops->alloc(d, (size_t)4 << 20, &own));
	REQUIRE_OK(d->ops->describe(d, (char *)own.base + ((size_t)3 << 20), 4096, &a));
	CHECK_EQ(a.kind, ORI_EXPORT_CUDA_FD);
	CHECK_EQ(a.bytes, own.bytes);
	CHECK(a.base == own.base);
	CHECK(a.fd >= 0);
	d->ops->forget(d, &a);
	CHECK_EQ(a.fd, -1);
	d->ops->free(d, &own);
	close_gpu(d);
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct copier {
	pthread_t thread;
	struct ori_device *device;
	int index, wrong;
};

static int one_trip(struct ori_device *d, size_t bytes, unsigned char *host, int seed)
{
	struct ori_allocation a[2];
	int wrong;

	if (d->ops->alloc(d, bytes + 3, &a[0]) || d->ops->alloc(d, bytes, &a[1]))
		return 1;
	for (size_t i = 0; i < bytes; i++)
		host[i] = (unsigned char)(i * 7 + (size_t)seed);
	wrong = d->ops->copy(d, (char *)a[0].base + 3, host, bytes) ||
		d->ops->copy(d, a[1].base, (char *)a[0].base + 3, bytes);
	memset(host, 0, bytes);
	wrong |= d->ops->copy(d, host, a[1].base, bytes) != 0;
	for (size_t i = 0; i < bytes; i++)
		wrong |= host[i] != (unsigned char)(i * 7 + (size_t)seed);
	d->ops->free(d, &a[0]);
	d->ops->free(d, &a[1]);
	return wrong;
}

static void *copy_often(void *arg)
{
	static const size_t sizes[] = { 1, 8, 17, 4097, 262143, 262144, 700001 };
	struct copier *c = arg;
	unsigned char *host = malloc(700001);

	for (size_t i = 0; host && i < sizeof(sizes) / sizeof(sizes[0]); i++)
		c->wrong |= one_trip(c->device, sizes[i], host, c->index);
	c->wrong |= !host;
	free(host);
	return NULL;
}

/* More threads than there are streams for copies. */
TEST(many_threads_copy_at_once)
{
	struct ori_device *d = open_gpu("cuda", "slow=cuMemcpyAsync:200", LONG_S);
	struct copier c[12];

	REQUIRE(d);
	memset(c, 0, sizeof(c));
	for (int i = 0; i < 12; i++) {
		c[i].device = d;
		c[i].index = i;
		REQUIRE(!pthread_create(&c[i].thread, NULL, copy_often, &c[i]));
	}
	for (int i = 0; i < 12; i++) {
		pthread_join(c[i].thread, NULL);
		CHECK_EQ(c[i].wrong, 0);
	}
	close_gpu(d);
}

TEST(host_to_host_needs_no_gpu)
{
	struct ori_device *d = open_gpu("cuda", "", LONG_S);
	char from[] = "some text", to[sizeof(from)] = "";

	REQUIRE(d);
	CHECK_EQ(d->ops->copy(d, to, from, sizeof(from)), 0);
	CHECK(!strcmp(to, from));
	CHECK_EQ(fake_cuda_count("cuMemcpyAsync"), 0);
	close_gpu(d);
}

/* ---- kernels --------------------------------------------------------------------------------- */

struct wait_args {
	uint64_t *go, *seen;
	uint64_t *host; /* pinned */
};

/* Every block reports; all must be there at once, and all wait for the host's word. */
ORIEL_KERNEL(wait_kernel, struct wait_args)
{
	struct oriel_group g = oriel_group_block();

	if (oriel_group_is_leader(g)) {
		ori_add_release_sys(a->host, 1);
		while (!ori_load_acquire_sys(a->go))
			usleep(200);
	}
	oriel_group_sync(g);
	ori_add_release_sys(a->seen, 1);
	return 0;
}

struct stage {
	struct ori_device *device;
	struct ori_allocation memory; /* go, seen */
	struct ori_allocation host;   /* a word */
	struct wait_args args;
};

static uint64_t *pinned_word; /* of the stage that is open */

static int stage_open(struct stage *s, double timeout_s)
{
	s->device = open_gpu("cuda", "", timeout_s);
	if (!s->device || s->device->ops->alloc(s->device, 4096, &s->memory) ||
	    s->device->ops->alloc_host(s->device, 4096, &s->host))
		return 1;
	pinned_word = s->host.base;
	s->args.go = s->memory.base;
	s->args.seen = s->args.go + 8;
	s->args.host = pinned_word;
	return 0;
}

static void stage_close(struct stage *s)
{
	s->device->ops->free_host(s->device, &s->host, 1);
	s->device->ops->free(s->device, &s->memory);
	close_gpu(s->device);
}

static int stage_launch(struct stage *s, int nblocks, int nthreads, void *stream)
{
	return s->device->ops->launch(s->device, fake_cuda_kernel(&wait_kernel), nblocks, nthreads,
				      &s->args, sizeof(s->args), stream, NULL);
}

static void stage_go(struct stage *s)
{
	uint64_t one = 1;

	CHECK_EQ(s->device->ops->copy(s->device, s->args.go, &one, sizeof(one)), 0);
}

static int await_word(uint64_t *word, uint64_t value)
{
	uint64_t deadline = ori_now_ns() + LONG_S * ORI_NS_PER_S;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value && ori_now_ns() < deadline)
		usleep(100);
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value;
}

/* The copy that releases the kernel can only come while it runs. */
TEST(launches_return_at_once_and_copies_pass_kernels)
{
	struct stage s;
	uint64_t seen = 0;

	REQUIRE(!stage_open(&s, LONG_S));
	REQUIRE_OK(stage_launch(&s, 4, 8, NULL));
	CHECK(await_word(pinned_word, 4));
	stage_go(&s);
	CHECK_EQ(s.device->ops->sync(s.device, NULL), 0);
	CHECK_EQ(s.device->ops->copy(s.device, &seen, s.args.seen, sizeof(seen)), 0);
	CHECK_EQ(seen, 32);
	stage_close(&s);
}

TEST(a_stream_keeps_the_order)
{
	struct stage s;
	uint64_t seen = 0;

	REQUIRE(!stage_open(&s, LONG_S));
	stage_go(&s);
	for (int i = 0; i < 20; i++)
		REQUIRE_OK(stage_launch(&s, 1, 1, NULL));
	CHECK_EQ(s.device->ops->sync(s.device, NULL), 0);
	CHECK_EQ(s.device->ops->copy(s.device, &seen, s.args.seen, sizeof(seen)), 0);
	CHECK_EQ(seen, 20);
	stage_close(&s);
}

TEST(a_users_stream_is_used)
{
	const struct ori_cuda_driver *cu;
	void *stream, *context;
	struct stage s;

	REQUIRE(!stage_open(&s, LONG_S));
	REQUIRE_OK(ori_cuda_driver_get(&cu));
	REQUIRE(!cu->cuDevicePrimaryCtxRetain(&context, 0) && !cu->cuCtxPushCurrent(context));
	REQUIRE(!cu->cuStreamCreateWithPriority(&stream, ORI_CU_STREAM_NON_BLOCKING, 0));
	REQUIRE_OK(stage_launch(&s, 1, 1, stream));
	CHECK(await_word(pinned_word, 1));
	CHECK_EQ(cu->cuStreamQuery(stream), ORI_CU_NOT_READY);
	CHECK_EQ(s.device->ops->sync(s.device, NULL), 0); /* the rank's own stream is empty */
	stage_go(&s);
	CHECK_EQ(s.device->ops->sync(s.device, stream), 0);
	CHECK_EQ(cu->cuStreamDestroy(stream), 0);
	cu->cuCtxPopCurrent(&context);
	cu->cuDevicePrimaryCtxRelease(0);
	stage_close(&s);
}

TEST(a_kernel_that_does_not_end_is_named)
{
	struct stage s;

	REQUIRE(!stage_open(&s, LONG_S));
	REQUIRE_OK(stage_launch(&s, 1, 1, NULL));
	set_deadline(s.device, 0.1);
	CHECK_EQ(s.device->ops->sync(s.device, NULL), ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), "not complete after");
	set_deadline(s.device, LONG_S);
	stage_go(&s);
	CHECK_EQ(s.device->ops->sync(s.device, NULL), 0);
	stage_close(&s);
}

TEST(work_that_crashed_is_an_error_of_every_call)
{
	struct stage s;
	uint64_t word = 0;

	REQUIRE(!stage_open(&s, LONG_S));
	fake_cuda_break(ORI_CU_ILLEGAL_ADDRESS);
	CHECK_EQ(s.device->ops->sync(s.device, NULL), ORIEL_EDEVICE);
	CHECK_HAS(oriel_last_error(), "illegal memory access");
	CHECK_EQ(s.device->ops->copy(s.device, s.args.go, &word, sizeof(word)), ORIEL_EDEVICE);
	CHECK(s.device->ops->holds(s.device, s.args.go));
	CHECK_EQ(stage_launch(&s, 1, 1, NULL), ORIEL_EDEVICE);
	CHECK_HAS(oriel_last_error(), "wait_kernel");
	fake_cuda_break(0);
	stage_close(&s);
}

TEST(launches_that_could_hang_are_refused)
{
	struct stage s;
	struct oriel_kernel nowhere = wait_kernel;

	REQUIRE(!stage_open(&s, LONG_S));
	/* 8 SMs: 16 blocks of 1 thread fit on each, 2 of 1024 */
	CHECK_EQ(stage_launch(&s, 8 * 16 + 1, 1, NULL), ORIEL_ERANGE);
	CHECK_EQ(stage_launch(&s, 8 * 2 + 1, 1024, NULL), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "8 SMs");
	s.device->ops->shared(s.device, 4, 4);
	CHECK_EQ(stage_launch(&s, 4 + 1, 1024, NULL), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "each of 4 ranks");
	s.device->ops->shared(s.device, 1, 1);
	nowhere.name = "nowhere";
	CHECK_EQ(s.device->ops->launch(s.device, &nowhere, 1, 1, &s.args, sizeof(s.args), NULL,
				       NULL),
		 ORIEL_EUNSUPPORTED);
	CHECK_HAS(oriel_last_error(), "nowhere_gpu");
	CHECK_EQ(s.device->ops->launch(s.device, &wait_kernel, 1, 1, &s.args, 1, NULL, NULL),
		 ORIEL_EINVAL);
	stage_close(&s);
}

/* Found by name: no gpu_find, as in a C program that added an image. */
TEST(kernels_of_images_are_found_by_name)
{
	struct stage s;

	REQUIRE(!stage_open(&s, LONG_S));
	stage_go(&s);
	fake_cuda_kernel(&wait_kernel);
	CHECK_EQ(s.device->ops->launch(s.device, &wait_kernel, 1, 1, &s.args, sizeof(s.args), NULL,
				       NULL),
		 0);
	CHECK_EQ(s.device->ops->sync(s.device, NULL), 0);
	stage_close(&s);
}

/* ---- for NICs -------------------------------------------------------------------------------- */

/* The descriptor shows the very bytes, from where it was said they are. */
static void check_dmabuf(struct ori_device *d, const char *base, size_t at, size_t bytes)
{
	uint64_t offset = 0;
	int fd = d->nics->dmabuf(d, base + at, bytes, &offset);
	char *map;

	REQUIRE(fd >= 0);
	CHECK(offset < (uint64_t)sysconf(_SC_PAGESIZE));
	CHECK_EQ(offset, at % (uint64_t)sysconf(_SC_PAGESIZE));
	map = mmap(NULL, offset + bytes, PROT_READ, MAP_SHARED, fd, 0);
	REQUIRE(map != MAP_FAILED);
	CHECK(!memcmp(map + offset, "window", 6));
	munmap(map, offset + bytes);
	close(fd);
}

TEST(memory_as_a_dmabuf)
{
	struct ori_device *d = open_gpu("cuda", "", LONG_S);
	struct ori_allocation a = { 0 };
	uint64_t offset = 0;
	int number;

	REQUIRE(d);
	REQUIRE_OK(d->ops->alloc(d, 8192, &a));
	fake_cuda_write((char *)a.base + 100, "window", 6);
	check_dmabuf(d, a.base, 100, 50);
	check_dmabuf(d, a.base, 100, 6);
	/* not its own, and beyond the end */
	CHECK(d->nics->dmabuf(d, &number, sizeof(number), &offset) < 0);
	CHECK(d->nics->dmabuf(d, a.base, a.bytes + 1, &offset) < 0);
	d->ops->free(d, &a);
	close_gpu(d);
	d = open_gpu("cuda", "dmabuf=0", LONG_S);
	REQUIRE(d);
	REQUIRE_OK(d->ops->alloc(d, 8192, &a));
	CHECK(d->nics->dmabuf(d, a.base, 100, &offset) < 0);
	d->ops->free(d, &a);
	close_gpu(d);
}

TEST(where_the_gpu_is)
{
	struct ori_device *d = open_gpu("cuda:1", "", LONG_S), *cpu = NULL;
	uint64_t offset = 0;
	char place[32] = "";

	REQUIRE(d);
	CHECK_EQ(d->nics->place(d, place, sizeof(place)), 0);
	CHECK(!strcmp(place, "0000:1b:00.0")); /* as sysfs writes it */
	close_gpu(d);
	REQUIRE_OK(ori_device_open("cpu", ORI_NS_PER_S, &cpu));
	CHECK_EQ(cpu->nics->place(cpu, place, sizeof(place)), ORIEL_EUNSUPPORTED);
	CHECK(cpu->nics->dmabuf(cpu, place, sizeof(place), &offset) < 0);
	cpu->ops->close(cpu);
}

/* The last test: it leaks, and no later test could count leftovers. */
TEST(closing_under_a_running_kernel_does_not_wait)
{
	struct stage s;
	uint64_t start, one = 1;

	REQUIRE(!stage_open(&s, LONG_S));
	REQUIRE_OK(stage_launch(&s, 1, 1, NULL));
	CHECK(await_word(pinned_word, 1));
	set_deadline(s.device, 0.1);
	start = ori_now_ns();
	s.device->ops->close(s.device);
	CHECK(ori_now_ns() - start < LONG_S / 2 * ORI_NS_PER_S);
	fake_cuda_write(s.args.go, &one, sizeof(one));
	usleep(20000);
}
