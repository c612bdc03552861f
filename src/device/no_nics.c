/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/no_nics.c - the NIC functions of a device that is not a PCI device and whose memory is
 * host memory.
 */
#include "device.h"

static int no_place(struct ori_device *device, char *address, size_t bytes)
{
	(void)device;
	(void)address;
	(void)bytes;
	return ORIEL_EUNSUPPORTED;
}

static int no_dmabuf(struct ori_device *device, const void *ptr, size_t bytes, uint64_t *offset)
{
	(void)device;
	(void)ptr;
	(void)bytes;
	(void)offset;
	return -1;
}

/* Kernels are threads of the host, so they reach all its memory. */
static int all_reach(struct ori_device *device, void *base, size_t bytes, int registers, char *why,
		     size_t why_bytes)
{
	(void)device;
	(void)base;
	(void)bytes;
	(void)registers;
	(void)why;
	(void)why_bytes;
	return 0;
}

static void no_unreach(struct ori_device *device, void *base)
{
	(void)device;
	(void)base;
}

static int all_ordered(struct ori_device *device, char *why, size_t bytes)
{
	(void)device;
	(void)why;
	(void)bytes;
	return 0;
}

const struct ori_nic_ops ori_no_nic_ops = {
	.place = no_place,
	.dmabuf = no_dmabuf,
	.reach = all_reach,
	.unreach = no_unreach,
	.ordered = all_ordered,
};
