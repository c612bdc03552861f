/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/facts.c - what a rank tells the others about its GPU, and what oriel-info shows.
 *
 * Any thread.  The rows open no context, so looking at a busy GPU does not disturb it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/config.h"
#include "../../util/util.h"
#include "../facts.h"
#include "cuda_device.h"

#define GPUS_MAX 64 /* bits of ori_facts.gpu_access */

static int attribute(const struct ori_cuda_driver *cu, int which, ori_cu_device dev, int otherwise)
{
	int value = 0;

	return cu->cuDeviceGetAttribute(&value, which, dev) ? otherwise : value;
}

/*
 * Drivers before 12.3 cannot answer.  There, a control pipe shows that a daemon will serve this
 * process.
 */
int ori_cuda_mps(const struct ori_cuda_driver *cu, ori_cu_device dev)
{
	int enabled = attribute(cu, ORI_CU_DEV_MPS, dev, -1);

	return enabled >= 0 ? enabled : ori_cuda_mps_pipe();
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* The GPU's number on its host.  CUDA numbers only the GPUs that this process may see. */
static int host_index(const struct ori_cuda_driver *cu, int ordinal, ori_cu_device dev)
{
	struct ori_nvml_facts nvml;
	char bus_id[32];

	if (cu->cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), dev))
		return ordinal;
	ori_nvml_read(bus_id, &nvml);
	return nvml.present ? nvml.index : ordinal;
}

/*
 * A GPU hidden from this process cannot be mapped by it, so it does not count as reachable.
 * *atomics: those GPUs on which this one's atomics are atomic.
 */
static uint64_t reachable(const struct ori_cuda_gpu *gpu, uint64_t *atomics)
{
	const struct ori_cuda_driver *cu = gpu->cu;
	uint64_t bits = 0;

	*atomics = 0;
	for (int i = 0; i < cu->ndevices; i++) {
		ori_cu_device other;
		int can = 0, native = 0, index;

		if (i == gpu->ordinal || cu->cuDeviceGet(&other, i) ||
		    cu->cuDeviceCanAccessPeer(&can, gpu->dev, other) || !can)
			continue;
		index = host_index(cu, i, other);
		if (index < 0 || index >= GPUS_MAX)
			continue;
		bits |= 1ull << index;
		/* a driver that does not report it has none */
		if (!cu->cuDeviceGetP2PAttribute(&native, ORI_CU_P2P_ATOMICS, gpu->dev, other) &&
		    native)
			*atomics |= 1ull << index;
	}
	return bits;
}

int ori_cuda_facts(struct ori_device *device, struct ori_facts *facts)
{
	const struct ori_cuda_gpu *gpu = ((struct ori_cuda_device *)device)->gpu;
	int index = gpu->nvml.present ? gpu->nvml.index : gpu->ordinal;

	if (index < 0 || index >= GPUS_MAX)
		return ori_fail(ORIEL_ERANGE, "GPU %d of this host: at most %d are possible", index,
				GPUS_MAX);
	facts->device = ORI_DEVICE_CUDA;
	facts->gpu = index;
	facts->gpu_access = reachable(gpu, &facts->gpu_atomics);
	/* Only with memory that the fabric accepts, because topology relies on it. */
	facts->fabric_available = (gpu->handles & ORI_CU_HANDLE_FABRIC) != 0;
	facts->fabric_refused = gpu->fabric_refused;
	if (facts->fabric_available) {
		memcpy(facts->fabric_uuid, gpu->nvml.fabric_uuid, sizeof(facts->fabric_uuid));
		facts->fabric_clique = gpu->nvml.fabric_clique;
	}
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void describe_exports(const struct ori_cuda_driver *cu, ori_cu_device dev, char *out,
			     size_t bytes)
{
	struct ori_nvml_facts nvml = { .present = 0 };
	char bus_id[32];

	if (!cu->cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), dev))
		ori_nvml_read(bus_id, &nvml);
	snprintf(out, bytes, "%s%sIPC%s",
		 attribute(cu, ORI_CU_DEV_POSIX_FD, dev, 0) ? "descriptor, " : "",
		 attribute(cu, ORI_CU_DEV_DMA_BUF, dev, 0) ? "dma-buf, " : "",
		 !attribute(cu, ORI_CU_DEV_FABRIC, dev, 0) ? "" :
		 nvml.fabric                               ? ", fabric" :
							     " (fabric handles: no fabric here)");
}

static void describe(const struct ori_cuda_driver *cu, ori_cu_device dev, char *out, size_t bytes)
{
	char name[64] = "unknown GPU", exports[80];
	size_t memory = 0;

	(void)cu->cuDeviceGetName(name, sizeof(name), dev);
	(void)cu->cuDeviceTotalMem(&memory, dev);
	describe_exports(cu, dev, exports, sizeof(exports));
	snprintf(out, bytes, "%s, %d SMs, %.1f GiB, sm_%d%d, CUDA %d.%d, export by %s, MPS %s",
		 name, attribute(cu, ORI_CU_DEV_SMS, dev, 0), (double)memory / (double)(1ull << 30),
		 attribute(cu, ORI_CU_DEV_MAJOR, dev, 0), attribute(cu, ORI_CU_DEV_MINOR, dev, 0),
		 cu->version / 1000, cu->version % 1000 / 10, exports,
		 ori_cuda_mps(cu, dev) ? "on" : "off");
}

int ori_cuda_row(int n, struct ori_device_row *row)
{
	const struct ori_cuda_driver *cu;
	ori_cu_device dev;
	char why[160];

	if (ori_cuda_driver_find(&cu, why, sizeof(why))) {
		if (n != 0)
			return 0;
		snprintf(row->name, sizeof(row->name), "cuda");
		snprintf(row->text, sizeof(row->text), "not usable: %s", why);
		return 1;
	}
	if (n >= cu->ndevices || cu->cuDeviceGet(&dev, n))
		return 0;
	snprintf(row->name, sizeof(row->name), "cuda:%d", n);
	describe(cu, dev, row->text, sizeof(row->text));
	return 1;
}
