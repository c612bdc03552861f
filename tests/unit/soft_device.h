/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_device.h - device memory for the tests of the software NIC, mapped twice.
 *
 * Regions and exports name the first address, which nobody may access.  So a NIC that loads or
 * stores there crashes.  The device copy, which the NIC must use, and the test go through the
 * second address.
 */
#ifndef ORI_TEST_SOFT_DEVICE_H
#define ORI_TEST_SOFT_DEVICE_H

#include <sys/mman.h>
#include <unistd.h>

#include "soft_world.h"

#define DEVICE_AREAS 8
#define DEVICE_BYTES (4u << 20)

struct device_area {
	uint8_t *device; /* PROT_NONE */
	uint8_t *alias;  /* the same bytes */
	size_t bytes;
};

static struct {
	struct device_area area[DEVICE_AREAS];
	int areas;
	uint64_t copies, bytes; /* atomic: NICs of several threads */
	uint64_t fail_at;       /* this copy fails, counted from 1; 0: none */
	/* called in the middle of a copy, if set: what others see then */
	void (*during)(void *ctx);
	void *during_ctx;
} device;

static inline struct device_area *device_alloc(size_t bytes)
{
	struct device_area *a = &device.area[device.areas];
	int fd = memfd_create("device", MFD_CLOEXEC);

	if (device.areas == DEVICE_AREAS || fd < 0 || ftruncate(fd, (off_t)bytes))
		exit(1);
	a->bytes = bytes;
	a->device = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
	a->alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (a->device == MAP_FAILED || a->alias == MAP_FAILED)
		exit(1);
	close(fd);
	device.areas++;
	return a;
}

static inline void device_reset(void)
{
	for (int i = 0; i < device.areas; i++) {
		munmap(device.area[i].device, device.area[i].bytes);
		munmap(device.area[i].alias, device.area[i].bytes);
	}
	memset(&device, 0, sizeof(device));
}

/* The address at which the bytes can be accessed; *is: they are device memory. */
static inline uint8_t *device_alias(const void *p, uint64_t bytes, int *is)
{
	const uint8_t *at = p;

	for (int i = 0; i < device.areas; i++) {
		const struct device_area *a = &device.area[i];

		if (at < a->device || at >= a->device + a->bytes)
			continue;
		CHECK(bytes <= (uint64_t)(a->device + a->bytes - at));
		*is = 1;
		return a->alias + (at - a->device);
	}
	return (uint8_t *)(uintptr_t)p;
}

__attribute__((unused)) static int device_copy(void *ctx, void *to, const void *from,
					       uint64_t bytes)
{
	uint64_t number = __atomic_add_fetch(&device.copies, 1, __ATOMIC_RELAXED);
	int is = 0;
	uint8_t *target = device_alias(to, bytes, &is);
	const uint8_t *source = device_alias(from, bytes, &is);
	uint64_t half = bytes / 2;

	(void)ctx;
	CHECK(is);    /* host memory needs no device */
	CHECK(bytes); /* and nothing no copy */
	if (number == device.fail_at)
		return ORIEL_ESYSTEM;
	__atomic_fetch_add(&device.bytes, bytes, __ATOMIC_RELAXED);
	memmove(target, source, half);
	if (device.during)
		device.during(device.during_ctx);
	memmove(target + half, source + half, bytes - half);
	return 0;
}

/* Copies made since the last call. */
__attribute__((unused)) static uint64_t device_copies(void)
{
	return __atomic_exchange_n(&device.copies, 0, __ATOMIC_RELAXED);
}

/*
 * ---- two ranks with such memory -----------------------------------------------------------------
 */

/* The kind of a rank's memory, and how the other rank accesses it. */
struct side {
	int device, exported, unreached;
};

__attribute__((unused)) static const struct side host = { 0, 1, 0 }, shared = { 1, 1, 0 },
						 private = { 1, 0, 0 }, unreached = { 1, 1, 1 };

struct pair {
	struct world w;
	struct queue a, b;
	struct device_area *area[2]; /* the alias is where the test looks, whatever the NIC uses */
	uint32_t key[2];
};

static inline uint8_t *data_of(struct pair *p, int rank)
{
	return p->area[rank]->alias;
}

__attribute__((unused)) static void pair_open(struct pair *p, const char *personality,
					      const char *faults, const struct side *a,
					      const struct side *b)
{
	const struct side *side[2] = { a, b };

	world_open_device(&p->w, 2, personality, faults, device_copy);
	for (int r = 0; r < 2; r++) {
		p->area[r] = device_alloc(DEVICE_BYTES);
		p->w.at[r].unreached = side[r]->unreached;
		p->key[r] = world_mr_of(&p->w, r,
					side[r]->device ? p->area[r]->device : p->area[r]->alias,
					DEVICE_BYTES, WORLD_ALL, side[r]->exported,
					side[r]->device);
	}
	queue_open(&p->w, &p->a, 0, 8, 0xfffe, 0);
	queue_open(&p->w, &p->b, 1, 8, 0xfffe, 0);
	queue_connect(&p->w, &p->a, &p->b);
}

__attribute__((unused)) static void pair_close(struct pair *p)
{
	CHECK_EQ(p->w.at[0].error.count + p->w.at[1].error.count, 0);
	world_settle(&p->w, 300);
	for (int r = 0; r < 2; r++) {
		CHECK(!soft_nic_busy(p->w.nic[r]));
		CHECK(soft_nic_idle(p->w.nic[r]));
	}
	queue_close(&p->w, &p->a);
	queue_close(&p->w, &p->b);
	world_close(&p->w);
	device_reset();
}

__attribute__((unused)) static void post_rdma(struct pair *p, uint32_t opcode, uint64_t remote,
					      uint64_t local, uint32_t bytes)
{
	ori_wqe_rdma(queue_slot(&p->a), p->a.next, p->a.qpn, opcode, remote, p->key[1], local,
		     p->key[0], bytes, 0);
	queue_ring(&p->a);
}

__attribute__((unused)) static void post_add(struct pair *p, uint64_t remote, uint64_t value,
					     uint64_t result)
{
	ori_wqe_fetch_add(queue_slot(&p->a), p->a.next, p->a.qpn, remote, p->key[1], value, result,
			  p->key[0], 0);
	queue_ring(&p->a);
}

#endif
