/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_late.c - device/cuda when the GPU does not end a copy or a fill in time, on the
 * fake driver of tests/fake_cuda.
 *
 * Memory that the GPU may still access is not unmapped, and lanes become usable again.  The library
 * leaks on purpose here, so these tests are their own program.
 */
#include <unistd.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "device/device.h"
#include "fake_cuda/fake_cuda.h"

static struct ori_device *open_gpu(double timeout_s)
{
	struct ori_device *device = NULL;

	if (ori_device_open("cuda", (uint64_t)(timeout_s * 1e9), &device))
		check_fail(__FILE__, __LINE__, "no device: %s", oriel_last_error());
	return device;
}

/* Device memory that is mapped, as the fake driver counts it. */
static int mappings(void)
{
	char text[256], *at;

	(void)fake_cuda_live(text, sizeof(text));
	at = strstr(text, "memory handles, ");
	return at ? atoi(at + strlen("memory handles, ")) : 0;
}

/*
 * Two views of one GPU: work of the first is held by the driver and its deadline passes, however
 * slow this machine is; all else is done with the second, which has time.
 */
struct views {
	struct ori_device *hasty, *patient;
};

static int views_open(struct views *v)
{
	v->patient = open_gpu(30);
	v->hasty = open_gpu(0.1);
	return !v->patient || !v->hasty;
}

static void views_close(struct views *v)
{
	v->hasty->ops->close(v->hasty);
	v->patient->ops->close(v->patient);
}

/* Memory unmapped under the fill would end the program. */
TEST(memory_that_is_still_being_filled_stays)
{
	struct ori_allocation a = { .fd = -1 };
	struct views v;

	REQUIRE(!views_open(&v));
	fake_cuda_hold("cuMemsetD8Async", 1);
	CHECK_EQ(v.hasty->ops->alloc(v.hasty, (size_t)32 << 20, &a), ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), "filling with zeros");
	CHECK_EQ(a.fd, -1);
	CHECK_EQ(mappings(), 1);
	REQUIRE_OK(v.patient->ops->alloc(v.patient, 4096, &a)); /* by another lane */
	v.patient->ops->free(v.patient, &a);
	CHECK_EQ(mappings(), 1);
	views_close(&v); /* and does not wait for it */
	fake_cuda_hold("cuMemsetD8Async", 0);
}

/* Memory and lane of a late copy can go once it has ended, and not before. */
TEST(memory_of_a_late_copy_goes_when_it_has_ended)
{
	struct ori_allocation a, b, c;
	struct ori_device *d;
	uint64_t word = 1;
	struct views v;
	int left;

	REQUIRE(!views_open(&v));
	d = v.patient;
	left = mappings();
	REQUIRE_OK(d->ops->alloc(d, 4096, &a));
	REQUIRE_OK(d->ops->alloc(d, 4096, &b));
	REQUIRE_OK(d->ops->alloc(d, 4096, &c));
	fake_cuda_hold("cuMemcpyAsync", 1);
	CHECK_EQ(v.hasty->ops->copy(v.hasty, a.base, &word, sizeof(word)), ORIEL_ETIMEDOUT);
	CHECK_EQ(v.hasty->ops->copy(v.hasty, &word, b.base, sizeof(word)), ORIEL_ETIMEDOUT);
	d->ops->free(d, &c); /* nobody uses that */
	CHECK_EQ(mappings(), left + 2);
	d->ops->free(d, &a);
	CHECK_EQ(mappings(), left + 2);
	fake_cuda_hold("cuMemcpyAsync", 0);
	for (int i = 0; i < 3000 && mappings() > left + 1; i++) {
		struct ori_allocation again = b;

		again.fd = -1;
		d->ops->free(d, &again);
		usleep(10000);
	}
	CHECK_EQ(mappings(), left + 1);
	close(b.fd);
	views_close(&v);
}

/* Host memory that a late copy still writes is nobody's. */
TEST(host_memory_of_a_late_copy_is_not_given_out)
{
	struct ori_allocation a, host, next;
	struct ori_device *d;
	void *first;
	struct views v;

	REQUIRE(!views_open(&v));
	d = v.patient;
	REQUIRE_OK(d->ops->alloc(d, 4096, &a));
	REQUIRE_OK(d->ops->alloc_host(d, 4096, &host));
	first = host.base;
	fake_cuda_hold("cuMemcpyAsync", 1);
	CHECK_EQ(v.hasty->ops->copy(v.hasty, host.base, a.base, 8), ORIEL_ETIMEDOUT);
	d->ops->free_host(d, &host, 1);
	REQUIRE_OK(d->ops->alloc_host(d, 4096, &next));
	CHECK(next.base != first);
	fake_cuda_hold("cuMemcpyAsync", 0);
	d->ops->free_host(d, &next, 1);
	CHECK_EQ(d->ops->copy(d, &first, a.base, 8), 0);
	d->ops->free(d, &a);
	views_close(&v);
}

/* The lanes of late copies stay out of use, the others work; when the copies have ended all do. */
TEST(a_copy_that_does_not_end_is_given_up)
{
	struct ori_allocation a;
	uint64_t word = 1;
	struct views v;

	REQUIRE(!views_open(&v));
	REQUIRE_OK(v.patient->ops->alloc(v.patient, 4096, &a));
	for (int round = 0; round < 3; round++) {
		fake_cuda_hold("cuMemcpyAsync", 1);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(v.hasty->ops->copy(v.hasty, a.base, &word, sizeof(word)),
				 ORIEL_ETIMEDOUT);
		fake_cuda_hold("cuMemcpyAsync", 0);
		CHECK_EQ(v.patient->ops->copy(v.patient, &word, a.base, sizeof(word)), 0);
	}
	v.patient->ops->free(v.patient, &a);
	views_close(&v);
}
