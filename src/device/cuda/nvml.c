/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/nvml.c - facts about a GPU that only NVML knows: its number on the host, the number
 * of its cores, its NVLink fabric.
 *
 * Loaded by dlopen, like the driver, and optional: without it a GPU has the number that CUDA gives
 * it, and no fabric.  A program that is its own driver (ORIEL_CUDA_LIBRARY=self) is also its own
 * NVML.  Any thread; opened once per process.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "../../util/util.h"
#include "cuda_device.h"

#define FABRIC_COMPLETED 3

/* nvmlGpuFabricInfo_t, version 1: every driver since CUDA 12 fills it. */
struct fabric_info {
	unsigned char uuid[16];
	int status;
	unsigned int clique;
	unsigned char state;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct {
	int (*init)(void);
	int (*by_bus_id)(const char *, void **);
	int (*index)(void *, unsigned int *);
	int (*cores)(void *, unsigned int *);
	int (*fabric)(void *, struct fabric_info *);
	int ready;
} nvml;

static int find(void *library, const char *name, void *call)
{
	void *found = dlsym(library, name);

	memcpy(call, &found, sizeof(found));
	return found != NULL;
}

static void open_once(void)
{
	int self = !strcmp(ori_cuda_variable("ORIEL_CUDA_LIBRARY"), "self");
	void *library = dlopen(self ? NULL : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		ori_log(ORI_LOG_DEBUG, "no NVML (%s): NVLink fabrics are not detected", dlerror());
		return;
	}
	nvml.ready = find(library, "nvmlInit_v2", &nvml.init) &&
		     find(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_bus_id) &&
		     find(library, "nvmlDeviceGetIndex", &nvml.index) && !nvml.init();
	if (!nvml.ready)
		return;
	(void)find(library, "nvmlDeviceGetNumGpuCores", &nvml.cores);
	(void)find(library, "nvmlDeviceGetGpuFabricInfo", &nvml.fabric);
}

static void look_fabric(void *handle, struct ori_nvml_facts *facts)
{
	static const uint8_t zero[16];
	struct fabric_info info = { .state = 0 };

	if (!nvml.fabric || nvml.fabric(handle, &info))
		return;
	/* A cluster of all zeros is NVLink inside one machine, which peer access covers. */
	if (info.state != FABRIC_COMPLETED || info.status || !memcmp(info.uuid, zero, sizeof(zero)))
		return;
	facts->fabric = 1;
	memcpy(facts->fabric_uuid, info.uuid, sizeof(info.uuid));
	facts->fabric_clique = info.clique;
}

void ori_nvml_read(const char *pci_bus_id, struct ori_nvml_facts *facts)
{
	unsigned int index, cores;
	void *handle;

	memset(facts, 0, sizeof(*facts));
	pthread_once(&once, open_once);
	if (!nvml.ready || nvml.by_bus_id(pci_bus_id, &handle) || nvml.index(handle, &index))
		return;
	facts->present = 1;
	facts->index = (int)index;
	if (nvml.cores && !nvml.cores(handle, &cores))
		facts->cores = (int)cores;
	look_fabric(handle, facts);
}
