/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/nics.c - for NICs that access a GPU's memory directly: the GPU's PCI address, and its
 * memory as a dma-buf.  For kernels that post to such a NIC: access to its queues and registers.
 *
 * Owns nothing: a descriptor belongs to the caller.  Called by engines, through the comm, on any
 * thread.
 */
#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

#include "../../util/util.h"
#include "cuda_device.h"

/* The driver writes hexadecimal digits in upper case, sysfs needs lower case. */
static int cuda_place(struct ori_device *device, char *address, size_t bytes)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	int err = d->gpu->cu->cuDeviceGetPCIBusId(address, (int)bytes, d->gpu->dev);

	for (size_t i = 0; !err && i < bytes && address[i]; i++)
		address[i] = (char)tolower((unsigned char)address[i]);
	return err ? ORIEL_EUNSUPPORTED : 0;
}

/* A dma-buf consists of whole pages of the host: those that contain the range. */
static int cuda_dmabuf(struct ori_device *device, const void *ptr, size_t bytes, uint64_t *offset)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	const struct ori_cuda_driver *cu = d->gpu->cu;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uint64_t)(uintptr_t)ptr;
	uint64_t begin = at & ~(page - 1), end = (at + bytes + page - 1) & ~(page - 1);
	struct ori_cuda_scope scope;
	int fd = -1, can = 0, err;

	if (cu->cuDeviceGetAttribute(&can, ORI_CU_DEV_DMA_BUF, d->gpu->dev) || !can)
		return -1;
	if (ori_cuda_enter(d->gpu, &scope))
		return -1;
	err = cu->cuMemGetHandleForAddressRange(&fd, begin, end - begin, ORI_CU_RANGE_DMA_BUF, 0);
	ori_cuda_leave(&scope);
	if (err)
		return -1;
	*offset = at - begin;
	return fd;
}

/*
 * A NIC writes payload to GPU memory, and then the signal to host memory.  A GPU that sees the
 * signal must also see the payload, and only some GPUs guarantee this.  If the GPU shares the
 * host's page tables (a coherent link, as on Grace Hopper), it reads the signal over that link.
 * Payload may then still be on its way over PCIe, whatever the GPU guarantees.
 */
static int cuda_ordered(struct ori_device *device, char *why, size_t bytes)
{
	const struct ori_cuda_gpu *gpu = ((struct ori_cuda_device *)device)->gpu;
	int order = 0, coherent = 0;

	if (gpu->cu->cuDeviceGetAttribute(&order, ORI_CU_DEV_WRITES_ORDER, gpu->dev))
		order = 0;
	if (gpu->cu->cuDeviceGetAttribute(&coherent, ORI_CU_DEV_HOST_PAGES, gpu->dev))
		coherent = 0; /* a driver that does not know the attribute has no such link */
	if (order >= ORI_CU_WRITES_ORDER_OWNER && !coherent)
		return 0;
	if (coherent)
		snprintf(why, bytes,
			 "GPU %d has a coherent link to the host, so it may see a signal before "
			 "the payload that a NIC wrote: if its NICs also write through that "
			 "link, set ORIEL_NIC_ORDER=0",
			 gpu->ordinal);
	else
		snprintf(why, bytes,
			 "GPU %d does not order a NIC's writes into its memory (%d of %d): use a "
			 "GPU of sm_90 or newer; if you know that your platform orders them, set "
			 "ORIEL_NIC_ORDER=0",
			 gpu->ordinal, order, ORI_CU_WRITES_ORDER_OWNER);
	return ORIEL_ESYSTEM;
}

static int reach_inside(const struct ori_cuda_gpu *gpu, void *base, size_t bytes, int registers,
			char *why, size_t why_bytes)
{
	unsigned int flags = ORI_CU_PIN_PORTABLE | ORI_CU_PIN_DEVICEMAP;
	ori_cu_ptr seen = 0;
	int err;

	if (registers)
		flags |= ORI_CU_PIN_IO;
	err = gpu->cu->cuMemHostRegister(base, bytes, flags);
	if (err) {
		snprintf(why, why_bytes, "GPU %d cannot map %s (CUDA error %d): %s", gpu->ordinal,
			 registers ? "doorbells" : "queues", err,
			 registers ? "load nvidia with NVreg_RegistryDwords="
				     "\"PeerMappingOverride=1;\"" :
				     "raise ulimit -l");
		return ORIEL_ESYSTEM;
	}
	err = gpu->cu->cuMemHostGetDevicePointer(&seen, base, 0);
	if (!err && seen == (ori_cu_ptr)(uintptr_t)base)
		return 0;
	(void)gpu->cu->cuMemHostUnregister(base);
	snprintf(why, why_bytes, "GPU %d sees the host's memory at another address than the host",
		 gpu->ordinal);
	return ORIEL_ESYSTEM;
}

static int cuda_reach(struct ori_device *device, void *base, size_t bytes, int registers, char *why,
		      size_t why_bytes)
{
	const struct ori_cuda_gpu *gpu = ((struct ori_cuda_device *)device)->gpu;
	struct ori_cuda_scope scope;
	int err;

	err = ori_cuda_enter(gpu, &scope);
	if (err) {
		snprintf(why, why_bytes, "%s", ori_last_error_text());
		return err;
	}
	err = reach_inside(gpu, base, bytes, registers, why, why_bytes);
	ori_cuda_leave(&scope);
	return err;
}

static void cuda_unreach(struct ori_device *device, void *base)
{
	const struct ori_cuda_gpu *gpu = ((struct ori_cuda_device *)device)->gpu;
	struct ori_cuda_scope scope;
	int err;

	if (ori_cuda_enter(gpu, &scope))
		return;
	err = gpu->cu->cuMemHostUnregister(base);
	ori_cuda_leave(&scope);
	if (err && !ori_cuda_is_lost(err))
		ori_log(ORI_LOG_WARN, "GPU %d keeps queues of a NIC mapped (CUDA error %d)",
			gpu->ordinal, err);
}

const struct ori_nic_ops ori_cuda_nic_ops = {
	.place = cuda_place,
	.dmabuf = cuda_dmabuf,
	.reach = cuda_reach,
	.unreach = cuda_unreach,
	.ordered = cuda_ordered,
};
