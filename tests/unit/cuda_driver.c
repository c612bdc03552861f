/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_driver.c - device/cuda when the driver is missing, lacks something, or fails: on
 * the fake driver of tests/fake_cuda, every case in a process of its own.
 */
#include <sys/mman.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "comm/topology.h"
#include "device/device.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"

#define TIMEOUT_NS (5 * ORI_NS_PER_S)

/* ---- no driver ------------------------------------------------------------------------------- */

struct missing {
	const char *library, *knobs, *device;
	int status;
	const char *says;
};

static void open_missing(void *arg)
{
	const struct missing *m = arg;
	struct ori_device *device = NULL;
	char left[256];

	setenv("ORIEL_CUDA_LIBRARY", m->library, 1);
	fake_cuda_knobs(m->knobs);
	CHECK_EQ(ori_device_open(m->device, TIMEOUT_NS, &device), m->status);
	CHECK(!device);
	CHECK_HAS(oriel_last_error(), m->says);
	CHECK_EQ(fake_cuda_live(left, sizeof(left)), 0);
}

TEST(what_is_missing_is_said)
{
	static const struct missing cases[] = {
		{ "libno-such-driver.so.1", "", "cuda", ORIEL_EUNSUPPORTED,
		  "libno-such-driver.so.1" },
		{ "libc.so.6", "", "cuda", ORIEL_EUNSUPPORTED, "libc.so.6 has no cuInit" },
		{ "self", "gpus=0", "cuda", ORIEL_EUNSUPPORTED,
		  "cuInit: no CUDA-capable device is detected" },
		{ "self", "gpus=2", "cuda:2", ORIEL_EUNSUPPORTED,
		  "GPU 2 does not exist: this process sees 2 GPUs" },
		{ "self", "vmm=0", "cuda", ORIEL_EUNSUPPORTED, "virtual memory management" },
		{ "self", "fd=0", "cuda", ORIEL_EUNSUPPORTED, "memory export by descriptor" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct missing m = cases[i];
		struct apart a;

		apart_run(&a, open_missing, &m);
	}
}

/* One line, from the function that decided it. */
TEST(a_missing_driver_is_one_line)
{
	struct missing m = { "libno-such-driver.so.1", "", "cuda", ORIEL_EUNSUPPORTED, "no-such" };
	struct apart a;
	char *end;

	apart_run(&a, open_missing, &m);
	end = strchr(a.text, '\n');
	CHECK(end && end[1] == '\0');
	CHECK_HAS(a.text, "oriel:");
}

static void use_after_fork(void *arg)
{
	struct ori_device *device = NULL;

	(void)arg;
	CHECK(ori_device_open("cuda", TIMEOUT_NS, &device) != 0);
	CHECK(!device);
	CHECK_HAS(oriel_last_error(), "initialization error");
}

static void open_then_fork(void *arg)
{
	struct ori_device *device = NULL;
	struct apart a;

	(void)arg;
	if (ori_device_open("cuda", TIMEOUT_NS, &device)) {
		check_fail(__FILE__, __LINE__, "%s", oriel_last_error());
		return;
	}
	device->ops->close(device);
	apart_run(&a, use_after_fork, NULL);
}

TEST(a_child_of_a_process_that_used_the_driver_is_refused)
{
	struct apart a;

	apart_run(&a, open_then_fork, NULL);
}

/* ---- MPS ------------------------------------------------------------------------------------- */

static void share(void *knobs)
{
	struct ori_device *device = NULL;

	fake_cuda_knobs(knobs);
	if (ori_device_open("cuda", TIMEOUT_NS, &device)) {
		check_fail(__FILE__, __LINE__, "%s", oriel_last_error());
		return;
	}
	device->ops->shared(device, 2, 1); /* threads need no MPS */
	fputs("- processes:\n", stderr);
	device->ops->shared(device, 2, 2);
	fputs("- again:\n", stderr);
	device->ops->shared(device, 2, 2);
	device->ops->close(device);
}

TEST(sharing_a_gpu_without_mps_is_said_once)
{
	char without[] = "mps=0", with[] = "mps=1";
	struct apart a;

	apart_run(&a, share, without);
	CHECK(!strncmp(a.text, "- processes:\n", 13));
	CHECK_HAS(a.text, "without MPS");
	CHECK_HAS(a.text, "oriel-run --mps");
	CHECK(!strcmp(strstr(a.text, "- again"), "- again:\n"));
	apart_run(&a, share, with);
	CHECK(!strcmp(a.text, "- processes:\n- again:\n"));
}

static void share_in_one(void *knobs)
{
	struct ori_device *device = NULL;

	fake_cuda_knobs(knobs);
	if (ori_device_open("cuda", TIMEOUT_NS, &device)) {
		check_fail(__FILE__, __LINE__, "%s", oriel_last_error());
		return;
	}
	device->ops->shared(device, 2, 1);
	fputs("- four:\n", stderr);
	device->ops->shared(device, 4, 1);
	fputs("- again:\n", stderr);
	device->ops->shared(device, 8, 1);
	device->ops->close(device);
}

TEST(many_ranks_of_a_process_under_mps_are_said_once)
{
	char without[] = "mps=0", with[] = "mps=1";
	struct apart a;

	apart_run(&a, share_in_one, with);
	CHECK(!strncmp(a.text, "- four:\n", 8));
	CHECK_HAS(a.text, "4 ranks of one process use GPU 0 under MPS");
	CHECK(!strcmp(strstr(a.text, "- again"), "- again:\n"));
	apart_run(&a, share_in_one, without);
	CHECK(!strcmp(a.text, "- four:\n- again:\n"));
}

/* ---- every call fails once ------------------------------------------------------------------- */

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

/* Memory that was mapped, as the program's own; and a peer's of two such allocations. */
static int use_mapped(struct ori_device *d, const struct ori_allocation *mine)
{
	struct ori_allocation user, parts[2] = { *mine, *mine };
	struct ori_allocation whole = { .kind = ORI_EXPORT_CUDA_PARTS,
					.fd = -1,
					.bytes = 2 * mine->bytes,
					.nparts = 2,
					.parts = parts };
	void *imported;
	int err = d->ops->describe(d, mine->base, 64, &user);

	if (err)
		return err;
	d->ops->forget(d, &user);
	err = d->ops->import(d, &whole, &imported);
	if (!err)
		d->ops->unimport(d, &whole, imported);
	return err;
}

/* Uses a little of everything.  Returns the first error and undoes what it did. */
static int use_memory(struct ori_device *d, void *host, void *theirs)
{
	const struct ori_device_ops *ops = d->ops;
	struct ori_allocation mine, user = { .fd = -1 };
	struct add_args args = { .value = 5 };
	void *imported;
	uint64_t seen = 0;
	int err = ops->alloc(d, 100, &mine);

	if (err)
		return err;
	args.word = mine.base;
	err = ops->import(d, &mine, &imported);
	if (err)
		goto out;
	err = ops->describe(d, theirs, 64, &user);
	if (!err)
		ops->forget(d, &user);
	if (!err)
		err = use_mapped(d, &mine);
	if (!err)
		err = ops->copy(d, host, theirs, 64);
	if (!err)
		err = ops->launch(d, fake_cuda_kernel(&add_kernel), 1, 1, &args, sizeof(args), NULL,
				  NULL);
	if (!err)
		err = ops->sync(d, NULL);
	if (!err)
		err = ops->copy(d, &seen, imported, sizeof(seen));
	if (!err)
		CHECK_EQ(seen, 5);
	else
		(void)ops->sync(d,
				/* a wait that failed has not waited: the kernel may run yet */
				NULL);
	ops->unimport(d, &mine, imported);
out:
	ops->free(d, &mine);
	return err;
}

static int use_device(void)
{
	struct ori_allocation host;
	struct ori_device *d = NULL;
	struct ori_facts facts;
	char place[32];
	uint64_t offset;
	void *theirs;
	int fd, err;

	err = ori_device_open("cuda:1", TIMEOUT_NS, &d);
	if (err)
		return err;
	theirs = fake_cuda_malloc(1, FAKE_CUDA_MALLOC, 4096);
	memset(&facts, 0, sizeof(facts));
	err = d->ops->facts(d, &facts);
	(void)d->nics->place(d, place, sizeof(place));
	fd = d->nics->dmabuf(d, theirs, 100, &offset);
	if (fd >= 0)
		close(fd);
	if (!err)
		err = d->ops->alloc_host(d, 4096, &host);
	if (!err) {
		err = use_memory(d, host.base, theirs);
		d->ops->free_host(d, &host, 1);
	}
	fake_cuda_free(theirs);
	d->ops->close(d);
	return err;
}

struct failing {
	const char *call; /* NULL: none */
	int nth;
	int *counts; /* shared: how often each call is made when all goes well */
	int *status;
};

/*
 * An address that the driver could not unmap must not be used again.  Without a context nothing can
 * be freed at all.
 */
static int may_leave(const char *call)
{
	return !strcmp(call, "cuMemUnmap") || !strcmp(call, "cuCtxPushCurrent") ||
	       !strcmp(call, "cuThreadExchangeStreamCaptureMode");
}

static void use_with_failure(void *arg)
{
	const struct failing *f = arg;
	char left[256];
	int n, err;

	fake_cuda_knobs("gpus=2");
	if (f->call)
		fake_cuda_fail(f->call, f->nth, 999);
	err = use_device();
	if (f->status)
		*f->status = err;
	if (fake_cuda_live(left, sizeof(left)) && !(f->call && may_leave(f->call)))
		check_fail(__FILE__, __LINE__, "%s, call %d, fails: left are%s",
			   f->call ? f->call : "nothing", f->nth, left);
	for (n = 0; f->counts && fake_cuda_call_name(n); n++)
		f->counts[n] = fake_cuda_count(fake_cuda_call_name(n));
}

/*
 * Those whose failure may be borne in silence: questions with a sensible answer when there is none,
 * and giving back, where nothing is left to do.  All others must make the use fail.
 */
static int may_be_borne(const char *call)
{
	static const char *const borne[] = {
		"cuGetErrorString",
		"cuDeviceGetAttribute",
		"cuDeviceGetPCIBusId",
		"cuDeviceGetName",
		"cuDeviceGetUuid",
		"cuDeviceTotalMem",
		"cuFuncGetAttribute",
		"cuDeviceCanAccessPeer",
		"cuDeviceGetP2PAttribute", /* then there are no atomics */
		"cuDevicePrimaryCtxRelease",
		"cuCtxPopCurrent",
		"cuCtxEnablePeerAccess",
		"cuCtxSetLimit", /* stacks stay as they are */
		"cuStreamDestroy",
		"cuMemRelease",
		"cuMemAddressFree",
		"cuMemUnmap",
		"cuModuleUnload",
		"cuIpcCloseMemHandle",
		"cuMemHostUnregister",
		"cuMemFreeHost",
		"cuMemGetHandleForAddressRange", /* then the NIC's driver is asked */
		"cuThreadExchangeStreamCaptureMode",
		"cuDeviceGet",            /* of the other GPU */
		"cuPointerGetAttributes", /* by holds and copy: then it is host memory */
		"cuCtxPushCurrent",       /* on the way out */
		"cuModuleGetFunction",    /* the next image may have it */
		"cuStreamQuery",          /* by close */
	};

	for (size_t i = 0; i < sizeof(borne) / sizeof(borne[0]); i++)
		if (!strcmp(borne[i], call))
			return 1;
	return 0;
}

static void *shared(size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		abort();
	return map;
}

TEST(every_call_may_fail_and_nothing_is_left)
{
	int *counts = shared(4096), *status = shared(4096);
	struct failing good = { NULL, 0, counts, status };
	struct apart a;

	apart_run(&a, use_with_failure, &good);
	REQUIRE(!check_failures);
	CHECK_EQ(*status, 0);
	for (int n = 0; fake_cuda_call_name(n); n++) {
		const char *call = fake_cuda_call_name(n);

		/* Many calls of one kind are alike: the first ones, and the last. */
		for (int nth = 1; nth <= counts[n]; nth++) {
			struct failing f = { call, nth, NULL, status };

			if (nth > 12 && nth < counts[n])
				continue;
			*status = 1;
			apart_run(&a, use_with_failure, &f);
			/*
			 * What cannot be asked for is not there: "GPU 1 has no ...".  A library
			 * without kernels of its own says which one it has not found.
			 */
			if (*status && strcmp(call, "cuDeviceGetAttribute") != 0 &&
			    !strstr(a.text, "(library kernels: none")) {
				CHECK_HAS(a.text, call);
				CHECK_HAS(a.text, "unknown error");
			}
			if (*status == 0 && !may_be_borne(call))
				check_fail(__FILE__, __LINE__, "%s, call %d of %d, fails unseen",
					   call, nth, counts[n]);
		}
	}
	munmap(counts, 4096);
	munmap(status, 4096);
}
