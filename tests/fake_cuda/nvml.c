/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/nvml.c - the few calls of NVML that the library makes, about the made-up GPUs: their
 * numbers on the host, and the NVLink fabric they are on (knobs cluster and clique).
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define FABRIC_COMPLETED 3
#define NOT_FOUND 6
#define NOT_SUPPORTED 3

struct fabric_info { /* nvmlGpuFabricInfo_t */
	unsigned char uuid[16];
	int status;
	unsigned int clique;
	unsigned char state;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetIndex(void *device, unsigned int *index);
int nvmlDeviceGetGpuFabricInfo(void *device, struct fabric_info *);

int nvmlInit_v2(void)
{
	return 0;
}

/* The handle is the number and one. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
	long bus = strlen(bus_id) > 5 ? strtol(bus_id + 5, NULL, 16) - 0x1a : -1;

	if (bus < 0 || bus >= fake_knobs.gpus)
		return NOT_FOUND;
	*device = (void *)(uintptr_t)(bus + 1);
	return 0;
}

int nvmlDeviceGetIndex(void *device, unsigned int *index)
{
	*index = (unsigned int)(uintptr_t)device - 1;
	return 0;
}

int nvmlDeviceGetGpuFabricInfo(void *device, struct fabric_info *info)
{
	(void)device;
	if (!fake_knobs.cluster)
		return NOT_SUPPORTED;
	memset(info, 0, sizeof(*info));
	memset(info->uuid, fake_knobs.cluster, sizeof(info->uuid));
	info->clique = (unsigned int)fake_knobs.clique;
	info->state = FABRIC_COMPLETED;
	return 0;
}
