/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/device.c - the CUDA device's table: one rank's view of a GPU.
 *
 * Memory is in memory.c, pinned.c and export.c, copies in copy.c, kernels in launch.c and images.c.
 * Marks on streams are in marks.c, kernels of collectives in flights.c.  What the ranks of a
 * process share is in gpu.c.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/config.h"
#include "../../util/util.h"
#include "cuda_device.h"

/*
 * The number of ranks per process that get channels for their streams under MPS.  Some channels
 * remain for the program.
 */
#define RANKS_UNDER_MPS 2

static void cuda_close(struct ori_device *device)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;

	if (!ori_cuda_enter(d->gpu, &scope)) {
		if (d->gpu->cu->cuStreamQuery(d->stream) == ORI_CU_NOT_READY) {
			ori_log(ORI_LOG_WARN, "GPU %d: closed while kernels of this rank still run",
				d->gpu->ordinal);
			__atomic_store_n(&d->gpu->stuck, 1, __ATOMIC_RELAXED);
		}
		/* returns at once, even under a kernel that never ends */
		(void)d->gpu->cu->cuStreamDestroy(d->stream);
		ori_cuda_leave(&scope);
	}
	__atomic_sub_fetch(&d->gpu->devices, 1, __ATOMIC_RELAXED);
	ori_cuda_flights_close(d);
	ori_cuda_marks_close(d);
	ori_cuda_gpu_put(d->gpu);
	free(d);
}

/* Without MPS, the processes on a GPU run in turns. */
static void warn_turns(const struct ori_cuda_gpu *gpu)
{
	static int told;

	if (ori_cuda_mps(gpu->cu, gpu->dev) || __atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		return;
	ori_log(ORI_LOG_WARN,
		"several processes use GPU %d without MPS: they take turns of about 2 ms, and a "
		"wait between them costs as much (oriel-run --mps starts MPS)",
		gpu->ordinal);
}

/*
 * Under MPS a process has 8 channels to the GPU.  Additional streams of its ranks wait behind each
 * other's kernels.
 */
static void warn_channels(const struct ori_cuda_gpu *gpu, int here)
{
	static int told;

	if (!ori_cuda_mps(gpu->cu, gpu->dev) || __atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		return;
	ori_log(ORI_LOG_WARN,
		"%d ranks of one process use GPU %d under MPS, where a process has few channels: a "
		"kernel may wait behind one that waits for it (run them as processes, or without "
		"MPS)",
		here, gpu->ordinal);
}

static void cuda_shared(struct ori_device *device, int ranks, int processes)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	/* Assumes the same number in each process, as all launchers do. */
	int here = processes > 1 ? (ranks + processes - 1) / processes : ranks;

	/*
	 * A smaller comm on the same device does not lower the number, because kernels of the other
	 * ranks may still run there.
	 */
	if (ranks > d->sharers)
		d->sharers = ranks;
	if (here > d->sharers_here)
		d->sharers_here = here;
	if (processes > 1)
		warn_turns(d->gpu);
	if (here > RANKS_UNDER_MPS)
		warn_channels(d->gpu, here);
}

static const struct ori_device_ops cuda_ops = {
	.name = "cuda",
	.alloc = ori_cuda_alloc,
	.free = ori_cuda_free,
	.describe = ori_cuda_describe,
	.forget = ori_cuda_forget,
	.import = ori_cuda_import,
	.unimport = ori_cuda_unimport,
	.discard = ori_cuda_discard,
	.alloc_host = ori_cuda_alloc_host,
	.free_host = ori_cuda_free_host,
	.holds = ori_cuda_holds,
	.can_store = ori_cuda_can_store,
	.is_memory = ori_cuda_is_memory,
	.identify = ori_cuda_identify,
	.copy = ori_cuda_copy,
	.launch = ori_cuda_launch,
	.has_kernel = ori_cuda_has_kernel,
	.resident = ori_cuda_resident,
	.sync = ori_cuda_sync,
	.facts = ori_cuda_facts,
	.shared = cuda_shared,
	.close = cuda_close,
};

/* This rank's number on its host, from the launcher's variables. */
static long local_rank(void)
{
	static const char *const names[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
					     "MPI_LOCALRANKID", "SLURM_LOCALID" };

	for (size_t i = 0; i < ORI_COUNT(names); i++) {
		const char *text = ori_environment_get(names[i]);

		if (text && *text)
			return strtol(text, NULL, 10);
	}
	return 0;
}

/* The ranks of a host use its GPUs in turn. */
static int choose(const struct ori_cuda_driver *cu, int number)
{
	long local = local_rank();

	if (number >= 0)
		return number;
	return local > 0 ? (int)(local % cu->ndevices) : 0;
}

/* Lowest priority, so that copies come before kernels.  The context is current. */
static int make_stream(struct ori_cuda_gpu *gpu, void **stream)
{
	int err = gpu->cu->cuStreamCreateWithPriority(stream, ORI_CU_STREAM_NON_BLOCKING, 0);

	return err ? ori_cuda_fail(err, "cuStreamCreateWithPriority", "GPU %d", gpu->ordinal) : 0;
}

/*
 * Makes a stream whose first kernel has ended.  If that kernel does not get its turn, makes a
 * stream that has had no kernel.
 */
static int open_stream_inside(struct ori_cuda_device *d)
{
	void *stream = NULL;
	int err = make_stream(d->gpu, &stream), begun;

	if (err)
		return err;
	begun = ori_cuda_begin_stream(d, stream);
	if (begun > 0) {
		d->stream = stream;
		return 0;
	}
	/*
	 * Returns at once, whatever is in the stream: the kernel uses no memory, and nobody waits
	 * for it.
	 */
	(void)d->gpu->cu->cuStreamDestroy(stream);
	return begun < 0 ? begun : make_stream(d->gpu, &d->stream);
}

static int open_stream(struct ori_cuda_device *d)
{
	struct ori_cuda_scope scope;
	int err = ori_cuda_enter(d->gpu, &scope);

	if (err)
		return err;
	err = open_stream_inside(d);
	ori_cuda_leave(&scope);
	return err;
}

int ori_cuda_device_open(int number, uint64_t timeout_ns, struct ori_device **device)
{
	const struct ori_cuda_driver *cu;
	struct ori_cuda_device *d;
	int err = ori_cuda_driver_get(&cu);

	if (err)
		return err;
	d = calloc(1, sizeof(*d));
	if (!d)
		return ori_fail(ORIEL_ENOMEM, "no memory for the cuda device");
	err = ori_cuda_gpu_get(choose(cu, number), &d->gpu);
	if (err)
		goto err_memory;
	d->base.ops = &cuda_ops;
	d->base.streams = &ori_cuda_stream_ops;
	d->base.nics = &ori_cuda_nic_ops;
	d->base.separate = 1;
	d->timeout_ns = timeout_ns;
	d->sharers = 1;
	d->sharers_here = 1;
	pthread_mutex_init(&d->marks_lock, NULL);
	pthread_mutex_init(&d->flights_lock, NULL);
	err = open_stream(d);
	if (err)
		goto err_gpu;
	__atomic_add_fetch(&d->gpu->devices, 1, __ATOMIC_RELAXED);
	*device = &d->base;
	return 0;

err_gpu:
	ori_cuda_flights_close(d);
	ori_cuda_marks_close(d);
	ori_cuda_gpu_put(d->gpu);
err_memory:
	free(d);
	return err;
}
