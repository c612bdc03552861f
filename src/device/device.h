/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/device.h - the table of a device: memory, its export and import, copies, kernels.
 *
 * comm/ and window/ use nothing but this header; cpu/ and (later) cuda/ implement it.  Calls return
 * 0 or a status and log what they decide.
 */
#ifndef ORI_DEVICE_TABLE_H
#define ORI_DEVICE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

struct ori_device;

/* One allocation that can be given to another process by descriptor. */
struct ori_allocation {
	void *base;
	size_t bytes; /* whole pages */
	int fd;       /* what is passed; owned by the allocation */
};

struct ori_device_ops {
	const char *name; /* "cpu" */
	/* Memory that peers can map; zeroed. */
	int (*alloc)(struct ori_device *, size_t bytes, struct ori_allocation *);
	void (*free)(struct ori_device *, struct ori_allocation *);
	/* Maps a peer's allocation of at least `bytes` bytes from its descriptor (not consumed). */
	int (*import)(struct ori_device *, int fd, size_t bytes, void **base);
	void (*unimport)(struct ori_device *, void *base, size_t bytes);
	/* Gives the pages of a range back; they read as zero afterwards. */
	void (*discard)(struct ori_device *, struct ori_allocation *, size_t offset, size_t bytes);
	int (*launch)(struct ori_device *, const struct oriel_kernel *, int nblocks, int nthreads,
		      const void *args, size_t args_bytes, void *stream);
	void (*close)(struct ori_device *);
};

/* First member of every implementation's struct. */
struct ori_device {
	const struct ori_device_ops *ops;
};

/* "cpu", "cuda", "cuda:N"; waits inside the device end after timeout_ns.  ORIEL_EUNSUPPORTED with a line for one that is not built in. */
int ori_device_open(const char *name, uint64_t timeout_ns, struct ori_device **);
/* For oriel-info: n counts from 0; 0 past the end. */
struct ori_device_row {
	const char *name;
	char text[160];
};
int ori_device_row(int n, struct ori_device_row *);

int ori_cpu_device_open(uint64_t timeout_ns, struct ori_device **);

/*
 * How many ranks of this host wait beside each other; the CPU spin helper yields at once when they
 * outnumber the cores.  The largest value told to this process counts.
 */
void ori_cpu_neighbours_set(int ranks_on_host, int ranks_in_process);
/* What follows from it for oriel_comm_dev.spin_polls. */
uint32_t ori_cpu_spin_polls(void);

#endif
