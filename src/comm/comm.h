/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/comm.h - the comm: one rank's view of a group of ranks, with its device, memory and queues.
 *
 * Each other header of the folder declares the functions of its source: object.h, memory.h, etc.
 *
 * Floors.  A file calls only files of lower floors, so no files call each other in a circle:
 *
 *  10  api            public calls: questions, collectives, memory, launches
 *      split, subset  make a comm from some ranks of a comm
 *   9  comm           creates a comm
 *      buffers        registered buffers
 *   8  destroy        destroys a comm
 *      sources        registers local memory for puts and gets, and memory for peers
 *   7  connect        makes queues to the peers that the user asks for
 *      settle         waits until nothing uses memory that is about to be freed
 *   6  links          the engine and its tables
 *      returned       what kernels of this rank returned
 *   5  control        the two halves of control memory
 *      kept           memory that outlives its comm
 *      trace          events of this rank, for ORIEL_TRACE
 *   4  memory         allocations of this rank
 *   3  gone           tells peers which memory was freed
 *      reports        what a rank tells of itself, and asks other ranks
 *   2  imports        maps peers' memory into this address space
 *      lanes          queue pairs
 *      speaker        reports late waits of kernels on a separate device
 *   1  failure        keeps the first failure and tells the other ranks
 *      fetching       asks another process for a descriptor
 *      registrations  keys of memory, registered sources
 *      topology       which peers are mapped, which are queued
 *      trace_clock    compares the clocks of ranks and devices
 *      trace_file     writes the events of a rank
 *   0  object, agree, facts, layout, passing, slab, spans, trace_ticks
 *
 * A "separate" device has its own memory, which the host cannot read directly: a GPU.
 *
 * Locking: `lock` guards the lists and the failure text.  The user serialises collective calls on
 * one comm, as in MPI.
 */
#ifndef ORI_COMM_H
#define ORI_COMM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/oriel.h>

#include "../boot/boot.h"
#include "../device/device.h"
#include "../engine/engine.h"
#include "../util/config.h"
#include "../util/util.h"
#include "slab.h"
#include "topology.h"

struct ori_attachment;
struct ori_child;
struct ori_control;
struct ori_held;
struct ori_import;
struct ori_links;
struct ori_memory;
struct ori_passing;
struct ori_registration;
struct ori_span;
struct ori_speaker;
struct ori_trace;

/* What this rank knows of a peer besides topology. */
struct ori_peer {
	int same_process;
	int far;         /* on another host: this rank cannot map its host half */
	char socket[32]; /* where its process hands out descriptors (passing.c) */
	uint8_t token[16];
	struct ori_pair pair;
	struct ori_control *control; /* mapped and self: the host half; NULL if far */
	uint64_t slab_bytes;
	void *slab_base, *near_base;                  /* the two halves of its control memory */
	struct ori_import *slab_import, *near_import; /* NULL for a rank of this process */
	uint64_t gone_seen; /* how many names of freed memory this rank has read (gone.c) */
};

/*
 * What kernels of this rank returned (returned.c), under the comm's lock.
 *
 * names: all kernels that were launched on a separate device.  A captured graph may run them at any
 * time, so a name stays until the comm ends.
 * status, text: CPU device: the first failure since the last oriel_comm_sync().
 */
struct ori_kernel_name;
struct ori_returned {
	struct ori_kernel_name *names;
	uint32_t count;
	int status;
	char text[512];
};

struct oriel_comm {
	struct oriel_boot *boot;      /* this comm's own group */
	struct oriel_boot *node_boot; /* the ranks of this node; == boot when there is one node */
	struct ori_config config;
	uint64_t timeout_ns;
	int rank, nranks;
	/*
	 * For reports.  A job is the comms that the same ranks create, and comms split from them.
	 * `key` is the same on all ranks of this comm.
	 */
	uint64_t job, key;
	int job_rank, job_ranks;
	int *world;        /* [nranks] the rank in the job of each rank */
	uint64_t syndrome; /* atomic: ORI_SYNDROME_NOTE() of the last failed queue; 0: none */
	int attended;      /* this comm holds the service of oriel-doctor */
	struct ori_device *device;      /* runs kernels */
	struct ori_device *host_device; /* maps host memory of peers; the same on the CPU */
	struct ori_passing *passing;    /* descriptor service of this process */
	struct ori_topology topology;
	struct ori_facts *facts; /* [nranks] */
	struct ori_peer *peers;  /* [nranks] */
	struct oriel_comm_peer *dev_peers;
	struct ori_memory *slab_memory; /* the host half of control memory */
	struct ori_memory *near_memory; /* the device's half; on the CPU the same memory */
	uint64_t slab_bytes;
	/* The collective call under way: agree.c. */
	int call, call_rounds; /* enum ori_call; rounds that are over */
	uint64_t call_end_ns;
	uint32_t fetching; /* atomic: ORI_FETCHING() of the memory this rank waits for; 0: none */
	int boot_lost;     /* atomic: status of a boot failure during the creation of the comm */
	int quiet;         /* no peer stores to this rank's memory: not yet, or no longer */
	uint32_t overdue;  /* atomic: deadlines that kernels on the comm's own stream missed */
	struct ori_slab slab;
	int device_lost;           /* atomic: the loss of the device has been logged */
	struct ori_trace *trace;   /* NULL: no trace of this rank */
	struct ori_speaker *watch; /* separate device: reports late waits; else NULL */
	/* The next three are NULL without queued peers. */
	const char *engine_name; /* chosen by all ranks */
	struct ori_engine *engine;
	struct ori_links *links;
	struct ori_control *control; /* own */
	struct oriel_comm_dev dev;

	pthread_mutex_t lock;
	struct ori_memory *memories;
	struct ori_import *imports;
	struct ori_span *sources;         /* all registrations of local memory */
	struct ori_registration *retired; /* memory freed, but a NIC may still use the keys */
	struct ori_child *children;
	struct ori_attachment *attachments;
	int next_window;          /* number of the next window */
	uint64_t generation_seed; /* random: checked windows detect stale handles by it */
	char failure_text[256];
	pthread_cond_t failure_told; /* failure_text has been set */
	int failure_untold;          /* a wait for the text timed out: later calls do not wait */
	struct ori_held *held;       /* a failure that waits for its cause (failure.c) */
	struct ori_returned returned;
};

/* Where a comm that is made from another one comes from. */
struct ori_origin {
	const struct oriel_comm *parent; /* the new comm shares its GPU; not its CPU device */
	const int *nodes;                /* the node of each rank in the parent */
	int call;                        /* enum ori_call, for messages */
	uint64_t end_ns; /* the deadline of the whole call; the first round is over */
};

/*
 * The body of create, split and subset.  Takes ownership of `boot`, also on failure.  `status` is
 * an error that this rank had before; the other ranks learn it here.  `origin` is NULL for a comm
 * that is made from a boot.
 */
int ori_comm_build(struct oriel_boot *boot, const struct ori_config *, int status,
		   const struct ori_origin *origin, struct oriel_comm **);

#endif
