/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/device.h - the table of a device: memory, its export and import, copies, kernels.
 *
 * comm/ and window/ use nothing but this header; cpu/ and cuda/ implement it.  Calls return
 * 0 or a status and log what they decide.
 */
#ifndef ORI_DEVICE_TABLE_H
#define ORI_DEVICE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

struct ori_device;
struct ori_facts;

/* How another process gets at an allocation. */
enum ori_export_kind {
	ORI_EXPORT_HOST_FD = 1, /* a memfd: host memory */
	ORI_EXPORT_CUDA_FD,     /* a CUDA VMM allocation, as a descriptor */
	ORI_EXPORT_CUDA_IPC,    /* the user's cudaMalloc memory: handle[] is a CUipcMemHandle */
	ORI_EXPORT_CUDA_PARTS,  /* several CUDA VMM allocations, one after the other: parts */
	ORI_EXPORT_CUDA_FABRIC, /* the same on another host of its NVLink fabric: handle[] */
};

/*
 * One allocation that can be given to another process.  What a peer says about its own (bytes,
 * kind, handle, and the descriptor it passed) has the same form; base is then its address there, of
 * use to nobody here.
 */
struct ori_allocation {
	void *base;
	size_t bytes;  /* whole pages */
	int fd;        /* what is passed, owned by the allocation; -1: nothing, the handle is all */
	uint32_t kind; /* enum ori_export_kind */
	uint32_t far;  /* of CUDA_FD: handle[] is its fabric handle, for ranks of other hosts */
	uint8_t handle[64];
	uint32_t nparts;              /* of CUDA_PARTS, else 0 */
	struct ori_allocation *parts; /* each of another kind, with its own bytes; base is unused */
	uint64_t identity; /* described: the user's allocation, which may go at any time */
};

#define ORI_IDENTITY_NEVER UINT64_MAX /* what ori_allocation.identity is where there is none */

/* One allocation of the user's, told from all others that this process ever had or will have. */
struct ori_identity {
	uint64_t number; /* 0: memory may come and go there and the device would not know */
	void *base;
	size_t bytes;
};

/* How a launch ended, where it is over on return. */
struct ori_outcome {
	int status;     /* 0, or the first other status that a thread returned */
	uint32_t block; /* whose thread that was */
	char why[256];  /* the last error of the first thread that failed and has one; else "" */
};

/* What a launch is given beside its kernel, and what it gives back. */
struct ori_launch {
	struct oriel_launch_dev dev; /* separate devices: where threads leave what they return */
	struct ori_outcome outcome;  /* others */
};

struct ori_device_ops {
	const char *name; /* "cpu" */
	/* Memory that peers can map; zeroed. */
	int (*alloc)(struct ori_device *, size_t bytes, struct ori_allocation *);
	void (*free)(struct ori_device *, struct ori_allocation *);
	/*
	 * The user's own memory as an allocation peers can map (the whole of it, ptr somewhere
	 * inside); ORIEL_EEXPORT with the reason.  Undone by forget.
	 */
	int (*describe)(struct ori_device *, const void *ptr, size_t bytes,
			struct ori_allocation *);
	void (*forget)(struct ori_device *, struct ori_allocation *);
	/*
	 * Maps a peer's allocation (its descriptor is not consumed), of any kind the peer's device
	 * makes.
	 */
	int (*import)(struct ori_device *, const struct ori_allocation *theirs, void **base);
	void (*unimport)(struct ori_device *, const struct ori_allocation *theirs, void *base);
	/* Gives the pages of a range back; they read as zero afterwards. */
	void (*discard)(struct ori_device *, struct ori_allocation *, size_t offset, size_t bytes);
	/*
	 * Of separate devices: host memory that peers can map and kernels load and store, at the
	 * address it has for the host; zeroed.  What is given back may be given out again, unless
	 * somebody can still be storing to it: either way the address stays until no rank of the
	 * process uses the device.
	 */
	int (*alloc_host)(struct ori_device *, size_t bytes, struct ori_allocation *);
	void (*free_host)(struct ori_device *, struct ori_allocation *, int again);
	/* Is this memory that the host cannot load and store? */
	int (*holds)(struct ori_device *, const void *ptr);
	/* Is all of it memory of this process? */
	int (*is_memory)(struct ori_device *, const void *ptr, size_t bytes);
	void (*identify)(struct ori_device *, const void *ptr, struct ori_identity *);
	/*
	 * Between any two memories of host and device; done on return.  Safe while kernels run and
	 * wait.
	 */
	int (*copy)(struct ori_device *, void *to, const void *from, size_t bytes);
	/* launch: NULL where nobody asks what the kernel returns. */
	int (*launch)(struct ori_device *, const struct oriel_kernel *, int nblocks, int nthreads,
		      const void *args, size_t args_bytes, void *stream, struct ori_launch *launch);
	/*
	 * How many blocks of a kernel a rank may launch so that those of all ranks and comms on the
	 * device run at once.
	 */
	int (*resident)(struct ori_device *, const struct oriel_kernel *, int nthreads,
			int *nblocks);
	/*
	 * All that was launched on the stream is done.  ORIEL_ETIMEDOUT after the device's
	 * deadline.
	 */
	int (*sync)(struct ori_device *, void *stream);
	/* What topology must know: which device this is and whom it reaches. */
	int (*facts)(struct ori_device *, struct ori_facts *);
	/*
	 * So many ranks of a comm use this very device, in so many processes: told before any
	 * launch of that comm.  Of comms that hold one device the largest number counts.
	 */
	void (*shared)(struct ori_device *, int ranks, int processes);
	void (*close)(struct ori_device *);
};

/* One of several copies that a stream is given together. */
struct ori_copy_job {
	void *to;
	const void *from;
	size_t bytes;
};

/* A place in the order of a stream: what stands before it has passed, or has not.  NULL: it has. */
struct ori_mark;

/* What a stream can be given beside kernels.  On the CPU it is done on return. */
struct ori_stream_ops {
	/*
	 * After what the stream has, before what it gets; among each other in any order.  By copy
	 * engines.
	 */
	int (*copies)(struct ori_device *, const struct ori_copy_job *, int n, void *stream);
	/*
	 * *held: the stream is being captured, and the graph calls gone(arg), on any thread, when
	 * it goes.
	 */
	int (*hold)(struct ori_device *, void *stream, void (*gone)(void *arg), void *arg,
		    int *held);
	/* Is its work going into a graph? */
	int (*capturing)(struct ori_device *, void *stream, int *captured);
	/*
	 * *mark (one of before, or NULL) becomes the place behind all that the stream has.  Does
	 * nothing while the stream is captured: that work may run at any time, any number of times.
	 * A device that cannot note the place waits for the stream: *mark is NULL when it is idle,
	 * and a place that is never passed, with ORIEL_ETIMEDOUT, when it is not in time.
	 */
	int (*mark)(struct ori_device *, void *stream, struct ori_mark **mark);
	/* Has all before it passed?  Never waits, and logs nothing: work that failed has passed. */
	int (*passed)(struct ori_device *, const struct ori_mark *);
	/*
	 * What the stream gets from now on comes after the mark; nothing is done while it is
	 * captured.
	 */
	int (*follow)(struct ori_device *, void *stream, const struct ori_mark *);
	void (*unmark)(struct ori_device *, struct ori_mark *);
	/*
	 * The table's launch, for kernels whose blocks wait for those of other ranks.  One that
	 * could not be resident beside the others of this rank, on other streams, follows these.
	 * mark (NULL: not wanted) gets the place behind it, as by mark(), also with an error if the
	 * kernel was launched.  While the stream is captured it is a launch and nothing else.
	 */
	int (*launch)(struct ori_device *, const struct oriel_kernel *, int nblocks, int nthreads,
		      const void *args, size_t args_bytes, void *stream, struct ori_mark **mark);
};

/* What engines ask for NICs that reach the device's memory by themselves.  Logs nothing. */
struct ori_nic_ops {
	/*
	 * Its PCI address as sysfs writes it, 0000:17:00.0; ORIEL_EUNSUPPORTED where it has none.
	 */
	int (*place)(struct ori_device *, char *address, size_t bytes);
	/*
	 * Memory that it holds as a dma-buf: a descriptor, the caller's to close, and where in it
	 * ptr lies; negative: not possible.
	 */
	int (*dmabuf)(struct ori_device *, const void *ptr, size_t bytes, uint64_t *offset);
	/*
	 * Pages of the host's memory, or registers of a NIC, that kernels store to at the address
	 * they have for the host.  0, or a status and what is missing.
	 */
	int (*reach)(struct ori_device *, void *base, size_t bytes, int registers, char *why,
		     size_t why_bytes);
	void (*unreach)(struct ori_device *, void *base);
	/*
	 * Do kernels that see a word which a NIC wrote into the host's memory see what it wrote
	 * into the device's before? 0, or a status and why not.
	 */
	int (*ordered)(struct ori_device *, char *why, size_t bytes);
};
/* Of a device that is no PCI device and whose memory is the host's. */
extern const struct ori_nic_ops ori_no_nic_ops;

/* First member of every implementation's struct. */
struct ori_device {
	const struct ori_device_ops *ops;
	const struct ori_nic_ops *nics;
	const struct ori_stream_ops *streams;
	/* its memory is not the host's: control memory has two halves (comm/control.c) */
	int separate;
	int holders; /* atomic: beside the one that opened it */
};

/*
 * "cpu", "cuda", "cuda:N"; waits inside the device end after timeout_ns.  ORIEL_EUNSUPPORTED with a
 * line for one that is not built in.
 */
int ori_device_open(const char *name, uint64_t timeout_ns, struct ori_device **);
/* One holder more, one less: the last one closes it.  A split comm holds its parent's. */
void ori_device_hold(struct ori_device *);
void ori_device_drop(struct ori_device *);
/* For oriel-info: n counts from 0; 0 past the end. */
struct ori_device_row {
	char name[24];
	char text[192];
};
int ori_device_row(int n, struct ori_device_row *);

/*
 * An image of kernels (cubin, fatbin or PTX text; it must stay where it is), for every GPU that is
 * open or will be.
 */
int ori_device_images_add(const void *image, size_t bytes);
/* For oriel_comm_dev.spin_polls: few where the cores are crowded (util/crowd.c). */
uint32_t ori_device_spin_polls(void);
/*
 * How much host memory for peers this process may have, up to `wanted`, if it maps so much `maps`
 * times.  It is `least` if that is more; then the allocation names the limit that is in the way.
 */
uint64_t ori_device_shared_bytes(uint64_t wanted, uint64_t maps, uint64_t least);

/* ---- what the folders cpu and cuda have for device.c ------------------------------------------ */

int ori_cpu_device_open(uint64_t timeout_ns, struct ori_device **);
uint32_t ori_cpu_spin_polls(void);
uint64_t ori_cpu_shared_bytes(uint64_t wanted, uint64_t maps, uint64_t least);
/* number < 0: the one of LOCAL_RANK, else 0.  ORIEL_EUNSUPPORTED with what is missing. */
int ori_cuda_device_open(int number, uint64_t timeout_ns, struct ori_device **);
/* One GPU, or why there is none; n counts from 0, 0 past the end.  For ori_device_row(). */
int ori_cuda_row(int n, struct ori_device_row *);
int ori_cuda_images_add(const void *image, size_t bytes);

#endif
