/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cpu/cpu.c - the CPU device's table.  Memory is in memory.c, kernels are in launch.c, the
 * barrier of a block is in group.c, waits are in wait.c.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "cpu.h"

struct cpu_device {
	struct ori_device base;
	struct ori_pool *pool;
};

static int cpu_launch(struct ori_device *device, const struct oriel_kernel *kernel, int nblocks,
		      int nthreads, const void *args, size_t args_bytes, void *stream,
		      struct ori_launch *launch)
{
	struct cpu_device *cpu = (struct cpu_device *)device;

	(void)stream; /* a launch is synchronous: there is nothing to order it with */
	if (!kernel->cpu)
		return ori_fail(ORIEL_EINVAL, "kernel \"%s\" has no CPU body",
				kernel->name ? kernel->name : "?");
	if (nthreads > ORI_CPU_THREADS_MAX)
		return ori_fail(ORIEL_ERANGE, "a CPU block has 1 to %d threads, not %d",
				ORI_CPU_THREADS_MAX, nthreads);
	if ((int64_t)nblocks * nthreads > ORI_CPU_LAUNCH_MAX)
		return ori_fail(ORIEL_ERANGE, "a CPU launch has at most %d threads, not %d x %d",
				ORI_CPU_LAUNCH_MAX, nblocks, nthreads);
	return ori_pool_launch(cpu->pool, kernel, nblocks, nthreads, args, args_bytes,
			       launch ? &launch->outcome : NULL);
}

/* Every thread of a launch has its own worker, so only the launch's limit counts. */
static int cpu_has_kernel(struct ori_device *device, const struct oriel_kernel *kernel)
{
	(void)device;
	return kernel->cpu != NULL;
}

static int cpu_resident(struct ori_device *device, const struct oriel_kernel *kernel, int nthreads,
			int *nblocks)
{
	(void)device;
	(void)kernel;
	*nblocks = ORI_CPU_LAUNCH_MAX / nthreads;
	return 0;
}

/* ---- what host memory makes trivial ---------------------------------------------------------- */

static int cpu_holds(struct ori_device *device, const void *ptr)
{
	(void)device;
	(void)ptr;
	return 0;
}

static int cpu_can_store(struct ori_device *device, const void *ptr)
{
	(void)device;
	(void)ptr;
	return 1;
}

/* Pages may be unmapped and replaced, and a process cannot detect this. */
static void cpu_identify(struct ori_device *device, const void *ptr, struct ori_identity *out)
{
	(void)device;
	(void)ptr;
	memset(out, 0, sizeof(*out));
}

static int cpu_copy(struct ori_device *device, void *to, const void *from, size_t bytes)
{
	(void)device;
	memmove(to, from, bytes);
	return 0;
}

static int cpu_sync(struct ori_device *device, void *stream)
{
	(void)device;
	(void)stream;
	return 0;
}

/* ori_facts_gather() has set everything. */
static int cpu_facts(struct ori_device *device, struct ori_facts *facts)
{
	(void)device;
	(void)facts;
	return 0;
}

/* ori_crowd_ranks_set() tells how many ranks share the cores. */
static void cpu_shared(struct ori_device *device, int ranks, int processes)
{
	(void)device;
	(void)ranks;
	(void)processes;
}

static void cpu_close(struct ori_device *device)
{
	struct cpu_device *cpu = (struct cpu_device *)device;

	ori_pool_destroy(cpu->pool);
	free(cpu);
}

static const struct ori_device_ops cpu_ops = {
	.name = "cpu",
	.alloc = ori_cpu_alloc,
	.free = ori_cpu_free,
	.describe = ori_cpu_describe,
	.import = ori_cpu_import,
	.unimport = ori_cpu_unimport,
	.discard = ori_cpu_discard,
	.holds = cpu_holds,
	.can_store = cpu_can_store,
	.is_memory = ori_cpu_is_memory,
	.identify = cpu_identify,
	.copy = cpu_copy,
	.launch = cpu_launch,
	.has_kernel = cpu_has_kernel,
	.resident = cpu_resident,
	.sync = cpu_sync,
	.facts = cpu_facts,
	.shared = cpu_shared,
	.close = cpu_close,
};

/* There are no streams: work is done at once. */
static int cpu_copies(struct ori_device *device, const struct ori_copy_job *copies, int n,
		      void *stream)
{
	(void)device;
	(void)stream;
	for (int i = 0; i < n; i++)
		if (copies[i].bytes && copies[i].to != copies[i].from)
			memcpy(copies[i].to, copies[i].from, copies[i].bytes);
	return 0;
}

static int cpu_hold(struct ori_device *device, void *stream, void (*gone)(void *), void *arg,
		    int *held)
{
	(void)device;
	(void)stream;
	(void)gone;
	(void)arg;
	*held = 0;
	return 0;
}

static int cpu_enter(struct ori_device *device)
{
	(void)device;
	return 0;
}

static void cpu_leave(struct ori_device *device)
{
	(void)device;
}

static int cpu_capturing(struct ori_device *device, void *stream, int *captured)
{
	(void)device;
	(void)stream;
	*captured = 0;
	return 0;
}

static int cpu_mark(struct ori_device *device, void *stream, struct ori_mark **mark)
{
	(void)device;
	(void)stream;
	*mark = NULL;
	return 0;
}

static int cpu_passed(struct ori_device *device, const struct ori_mark *mark)
{
	(void)device;
	(void)mark;
	return 1;
}

static int cpu_follow(struct ori_device *device, void *stream, const struct ori_mark *mark)
{
	(void)device;
	(void)stream;
	(void)mark;
	return 0;
}

static void cpu_unmark(struct ori_device *device, struct ori_mark *mark)
{
	(void)device;
	(void)mark;
}

static int cpu_launch_on(struct ori_device *device, const struct oriel_kernel *kernel, int nblocks,
			 int nthreads, const void *args, size_t args_bytes, void *stream,
			 struct ori_mark **mark)
{
	if (mark)
		*mark = NULL;
	return device->ops->launch(device, kernel, nblocks, nthreads, args, args_bytes, stream,
				   NULL);
}

static const struct ori_stream_ops cpu_stream_ops = {
	.enter = cpu_enter,
	.leave = cpu_leave,
	.copies = cpu_copies,
	.hold = cpu_hold,
	.capturing = cpu_capturing,
	.mark = cpu_mark,
	.passed = cpu_passed,
	.follow = cpu_follow,
	.unmark = cpu_unmark,
	.launch = cpu_launch_on,
};

int ori_cpu_device_open(uint64_t timeout_ns, struct ori_device **device)
{
	struct cpu_device *cpu = calloc(1, sizeof(*cpu));
	int err;

	if (!cpu)
		return ori_fail(ORIEL_ENOMEM, "no memory for the cpu device");
	err = ori_pool_create(timeout_ns, &cpu->pool);
	if (err) {
		free(cpu);
		return err;
	}
	cpu->base.ops = &cpu_ops;
	cpu->base.nics = &ori_no_nic_ops;
	cpu->base.streams = &cpu_stream_ops;
	*device = &cpu->base;
	return 0;
}
