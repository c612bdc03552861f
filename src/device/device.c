/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/device.c - finds a device by its name.
 *
 * Called by: comm creation and oriel-info, on the user's thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../util/util.h"
#include "device.h"

#define NUMBER_MAX 1023

/* The N of "cuda:N", -1 for "cuda" alone; -2 for anything else. */
static int cuda_number(const char *name)
{
	const char *digits = name + 5;
	long n;

	if (!strcmp(name, "cuda"))
		return -1;
	if (strncmp(name, "cuda:", 5) || !digits[0] || digits[strspn(digits, "0123456789")] ||
	    strlen(digits) > 4)
		return -2;
	n = strtol(digits, NULL, 10);
	return n <= NUMBER_MAX ? (int)n : -2;
}

int ori_device_open(const char *name, uint64_t timeout_ns, struct ori_device **device)
{
	int number = cuda_number(name);

	if (!strcmp(name, "cpu"))
		return ori_cpu_device_open(timeout_ns, device);
	if (number >= -1)
		return ori_cuda_device_open(number, timeout_ns, device);
	return ori_fail(ORIEL_ECONFIG, "device \"%s\" is not one of cpu, cuda, cuda:N", name);
}

int ori_device_images_add(const void *image, size_t bytes)
{
	return ori_cuda_images_add(image, bytes);
}

uint32_t ori_device_spin_polls(void)
{
	return ori_cpu_spin_polls();
}

uint64_t ori_device_shared_bytes(uint64_t wanted, uint64_t maps, uint64_t least)
{
	return ori_cpu_shared_bytes(wanted, maps, least);
}

void ori_device_hold(struct ori_device *device)
{
	/* relaxed: the caller holds it already */
	__atomic_fetch_add(&device->holders, 1, __ATOMIC_RELAXED);
}

void ori_device_drop(struct ori_device *device)
{
	/*
	 * [DEVICE1] acq_rel, process; partner: [DEVICE1] of the other holders.  Publishes what this
	 * holder did with the device.  Without it the last holder could close the device with an
	 * old view of it: for example, a list of mappings without another holder's last call.
	 */
	if (!__atomic_fetch_sub(&device->holders, 1, __ATOMIC_ACQ_REL))
		device->ops->close(device);
}

int ori_device_row(int n, struct ori_device_row *row)
{
	if (n > 0)
		return ori_cuda_row(n - 1, row);
	snprintf(row->name, sizeof(row->name), "cpu");
	snprintf(row->text, sizeof(row->text),
		 "%d cores, shared memory by memfd, blocks of 1 to 32 threads", ori_core_count());
	return 1;
}
