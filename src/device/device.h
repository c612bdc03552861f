/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/device.h - the table of a device: memory, its export and import, copies, kernels.
 *
 * comm/ and window/ use this header alone.  cpu/ and cuda/ implement it.  Calls return 0 or a
 * status.  The call that decides a failure logs it.
 */
#ifndef ORI_DEVICE_TABLE_H
#define ORI_DEVICE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

struct ori_device;
struct ori_facts;

/* How another process gets access to an allocation. */
enum ori_export_kind {
	ORI_EXPORT_HOST_FD = 1, /* a memfd: host memory */
	ORI_EXPORT_CUDA_FD,     /* a CUDA VMM allocation, as a descriptor */
	ORI_EXPORT_CUDA_IPC,    /* cudaMalloc memory of the user: handle[] is a CUipcMemHandle */
	ORI_EXPORT_CUDA_PARTS,  /* several CUDA VMM allocations, one after the other: parts */
	ORI_EXPORT_CUDA_FABRIC, /* like CUDA_FD, for another host of its NVLink fabric: handle[] */
};

/*
 * One allocation that another process can map.  The record that a peer sends about its own
 * allocation has the same form (bytes, kind, handle, and the descriptor it passed).  `base` is then
 * an address in the peer's process, which has no meaning here.
 */
struct ori_allocation {
	void *base;
	size_t bytes;  /* whole pages */
	int fd;        /* descriptor to pass, owned by the allocation; -1: the handle is enough */
	uint32_t kind; /* enum ori_export_kind */
	uint32_t far;  /* CUDA_FD only: handle[] is its fabric handle, for ranks of other hosts */
	uint8_t handle[64];
	uint32_t nparts;              /* CUDA_PARTS only, else 0 */
	struct ori_allocation *parts; /* each of another kind, with its own bytes; base is unused */
	/*
	 * Of memory that describe() found: the user's allocation, which may be freed at any time.
	 */
	uint64_t identity;
};

#define ORI_IDENTITY_NEVER UINT64_MAX /* the value of `identity` if there is none */

/* Identifies one allocation of the user among all that this process ever has. */
struct ori_identity {
	uint64_t number; /* 0: the device cannot see when memory at this address is replaced */
	void *base;
	size_t bytes;
};

/* How a launch ended, for devices whose launches are synchronous. */
struct ori_outcome {
	int status;     /* 0, or the first status other than 0 that a thread returned */
	uint32_t block; /* the block of that thread */
	char why[256];  /* last error of the first failed thread that has a text; else "" */
};

/* Additional input and output of a launch. */
struct ori_launch {
	struct oriel_launch_dev dev; /* separate devices: where threads store their status */
	struct ori_outcome outcome;  /* all other devices */
};

struct ori_device_ops {
	const char *name; /* "cpu" */
	/* Memory that peers can map; zeroed. */
	int (*alloc)(struct ori_device *, size_t bytes, struct ori_allocation *);
	void (*free)(struct ori_device *, struct ori_allocation *);
	/*
	 * Finds the user's own memory as an allocation that peers can map.  It is the whole
	 * allocation around ptr.  Fails with ORIEL_EEXPORT and the reason.  forget() undoes it;
	 * it is NULL for a device whose describe() always fails.
	 */
	int (*describe)(struct ori_device *, const void *ptr, size_t bytes,
			struct ori_allocation *);
	void (*forget)(struct ori_device *, struct ori_allocation *);
	/*
	 * Maps a peer's allocation, of any kind that the peer's device makes.  The descriptor stays
	 * open.
	 */
	int (*import)(struct ori_device *, const struct ori_allocation *theirs, void **base);
	void (*unimport)(struct ori_device *, const struct ori_allocation *theirs, void *base);
	/* Gives the pages of a range back to the system.  They read as zero afterwards. */
	void (*discard)(struct ori_device *, struct ori_allocation *, size_t offset, size_t bytes);
	/*
	 * Separate devices only: zeroed host memory that peers can map.  Kernels load and store it
	 * at the host's address.  free_host() with `again` lets the memory be given out again;
	 * without, somebody may still store to it.  In both cases the address stays mapped until no
	 * rank of the process uses the device.
	 */
	int (*alloc_host)(struct ori_device *, size_t bytes, struct ori_allocation *);
	void (*free_host)(struct ori_device *, struct ori_allocation *, int again);
	/* Is this memory that the host cannot load and store? */
	int (*holds)(struct ori_device *, const void *ptr);
	/* Can kernels store to this address?  A device may answer yes where it cannot tell. */
	int (*can_store)(struct ori_device *, const void *ptr);
	/* Does the whole range belong to memory of this process? */
	int (*is_memory)(struct ori_device *, const void *ptr, size_t bytes);
	void (*identify)(struct ori_device *, const void *ptr, struct ori_identity *);
	/*
	 * Copies between any two memories of host and device.  The copy is complete on return.
	 * Safe while kernels run and wait.
	 */
	int (*copy)(struct ori_device *, void *to, const void *from, size_t bytes);
	/* launch: NULL if the kernel's status is not needed. */
	int (*launch)(struct ori_device *, const struct oriel_kernel *, int nblocks, int nthreads,
		      const void *args, size_t args_bytes, void *stream, struct ori_launch *launch);
	/*
	 * Would a launch find this kernel?  A library that was built without nvcc has none for
	 * GPUs.
	 */
	int (*has_kernel)(struct ori_device *, const struct oriel_kernel *);
	/*
	 * The number of blocks that this rank may launch so that the blocks of all ranks and comms
	 * on the device run at once.
	 */
	int (*resident)(struct ori_device *, const struct oriel_kernel *, int nthreads,
			int *nblocks);
	/*
	 * Waits until everything launched on the stream is complete.  Returns ORIEL_ETIMEDOUT after
	 * the device's deadline.
	 */
	int (*sync)(struct ori_device *, void *stream);
	/* What the topology needs: which device this is, and which devices it reaches. */
	int (*facts)(struct ori_device *, struct ori_facts *);
	/*
	 * Tells how many ranks of a comm, in how many processes, use this device.  Called before
	 * the first launch of the comm.  If several comms hold the device, the largest number
	 * counts.
	 */
	void (*shared)(struct ori_device *, int ranks, int processes);
	void (*close)(struct ori_device *);
};

/* One of several copies that go to a stream together. */
struct ori_copy_job {
	void *to;
	const void *from;
	size_t bytes;
};

/* A place in the order of a stream: the work before it has ended, or it has not.  NULL: it has. */
struct ori_mark;

/* What a stream can do besides kernels.  On the CPU it is complete on return. */
struct ori_stream_ops {
	/*
	 * Between the two, calls of this thread share one way into the device's context.  They are
	 * all for this device.  After an error there is no leave().
	 */
	int (*enter)(struct ori_device *);
	void (*leave)(struct ori_device *);
	/*
	 * Queues copies behind the stream's work.  Copy engines execute them, in any order among
	 * each other.
	 */
	int (*copies)(struct ori_device *, const struct ori_copy_job *, int n, void *stream);
	/*
	 * If the stream is being captured, sets *held.  The graph then calls gone(arg), on any
	 * thread, when it is destroyed.
	 */
	int (*hold)(struct ori_device *, void *stream, void (*gone)(void *arg), void *arg,
		    int *held);
	/* Is the stream being captured into a graph? */
	int (*capturing)(struct ori_device *, void *stream, int *captured);
	/*
	 * Sets *mark (an earlier mark or NULL) to the place behind all work of the stream.  Does
	 * nothing while the stream is captured: a graph may run at any time and any number of
	 * times.  A device that cannot record the place waits for the stream.  *mark is then NULL
	 * if the stream became idle.  If it did not, the result is ORIEL_ETIMEDOUT and a mark that
	 * is never passed.
	 */
	int (*mark)(struct ori_device *, void *stream, struct ori_mark **mark);
	/*
	 * Has all work before the mark ended?  Never waits and logs nothing.  Failed work counts as
	 * ended.
	 */
	int (*passed)(struct ori_device *, const struct ori_mark *);
	/*
	 * Orders all later work of the stream after the mark.  Does nothing while the stream is
	 * captured.
	 */
	int (*follow)(struct ori_device *, void *stream, const struct ori_mark *);
	void (*unmark)(struct ori_device *, struct ori_mark *);
	/*
	 * launch() of the device's table, for kernels whose blocks wait for blocks of other ranks.
	 * If the kernel does not fit beside this rank's kernels on other streams, it runs after
	 * them.  *mark (mark may be NULL) becomes the place behind the kernel, as by mark().  It is
	 * set also with an error if the kernel was launched.  While the stream is captured, this is
	 * a plain launch.
	 */
	int (*launch)(struct ori_device *, const struct oriel_kernel *, int nblocks, int nthreads,
		      const void *args, size_t args_bytes, void *stream, struct ori_mark **mark);
};

/* For engines whose NICs access the device's memory directly.  Logs nothing. */
struct ori_nic_ops {
	/*
	 * The PCI address in the form of sysfs, 0000:17:00.0; ORIEL_EUNSUPPORTED if there is none.
	 */
	int (*place)(struct ori_device *, char *address, size_t bytes);
	/*
	 * Exports device memory as a dma-buf.  Returns a descriptor that the caller closes, or a
	 * negative value if this is not possible.  *offset is the place of ptr in the dma-buf.
	 */
	int (*dmabuf)(struct ori_device *, const void *ptr, size_t bytes, uint64_t *offset);
	/*
	 * Lets kernels store to pages of host memory or registers of a NIC, at the host's address.
	 * Returns 0, or a status and what is missing.
	 */
	int (*reach)(struct ori_device *, void *base, size_t bytes, int registers, char *why,
		     size_t why_bytes);
	void (*unreach)(struct ori_device *, void *base);
	/*
	 * A NIC writes payload into device memory, then a word into host memory.  Is the payload
	 * visible to a kernel that has seen the word?  Returns 0, or a status and the reason.
	 */
	int (*ordered)(struct ori_device *, char *why, size_t bytes);
};
/* For a device that is not a PCI device and whose memory is host memory. */
extern const struct ori_nic_ops ori_no_nic_ops;

/* First member of every implementation's struct. */
struct ori_device {
	const struct ori_device_ops *ops;
	const struct ori_nic_ops *nics;
	const struct ori_stream_ops *streams;
	/* Device memory is not host memory, so control memory has two halves (comm/control.c). */
	int separate;
	int holders; /* atomic; holders besides the one that opened it */
};

/*
 * Opens "cpu", "cuda" or "cuda:N".  Waits inside the device end after timeout_ns.
 * ORIEL_EUNSUPPORTED with a log line if the device is not built in.
 */
int ori_device_open(const char *name, uint64_t timeout_ns, struct ori_device **);
/*
 * Adds or removes a holder.  The last one closes the device.  A split comm holds its parent's
 * device.
 */
void ori_device_hold(struct ori_device *);
void ori_device_drop(struct ori_device *);
/* For oriel-info: n counts from 0.  Returns 0 past the end. */
struct ori_device_row {
	char name[24];
	char text[192];
};
int ori_device_row(int n, struct ori_device_row *);

/*
 * Adds an image of kernels (cubin, fatbin or PTX text), for every GPU that is or will be open.  The
 * caller keeps it at the same address.
 */
int ori_device_images_add(const void *image, size_t bytes);
/* For oriel_comm_dev.spin_polls: few where the cores are crowded (util/crowd.c). */
uint32_t ori_device_spin_polls(void);
/*
 * How many bytes of host memory for peers this process may allocate, if it maps them `maps` times.
 * At most `wanted` and at least `least`.  If only `least` remains, its allocation says which limit
 * is too low.
 */
uint64_t ori_device_shared_bytes(uint64_t wanted, uint64_t maps, uint64_t least);

/* ---- what the folders cpu and cuda have for device.c ---------------------------------------- */

int ori_cpu_device_open(uint64_t timeout_ns, struct ori_device **);
uint32_t ori_cpu_spin_polls(void);
uint64_t ori_cpu_shared_bytes(uint64_t wanted, uint64_t maps, uint64_t least);
/* number < 0: the one of LOCAL_RANK, else 0.  ORIEL_EUNSUPPORTED with what is missing. */
int ori_cuda_device_open(int number, uint64_t timeout_ns, struct ori_device **);
/* One GPU, or why there is none; n counts from 0, 0 past the end.  For ori_device_row(). */
int ori_cuda_row(int n, struct ori_device_row *);
int ori_cuda_images_add(const void *image, size_t bytes);

#endif
