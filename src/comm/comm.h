/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/comm.h - the comm: one rank's view of a group of ranks, with its device, memory and queues.
 *
 * Every other function of the folder is declared beside its source: object.h, memory.h, and so on.
 *
 * Floors.  A file calls files of lower floors only, so no two files call each other in a circle:
 *
 *  10  api            public calls: questions, collectives, memory, launches
 *      split          a comm of some ranks of a comm
 *   9  comm           a comm is made
 *      buffers        registered buffers
 *   8  destroy        a comm is ended
 *      sources        local memory as source of puts, memory for peers
 *   7  connect        queues to the peers that are asked for
 *      settle         waits until nothing uses memory that goes
 *   6  links          the engine and its tables
 *      returned       what kernels of this rank returned
 *   5  control        the two halves of control memory
 *   4  memory         allocations of this rank
 *   3  gone           tells peers of memory that is gone
 *   2  imports        peers' memory in this address space
 *      lanes          queue pairs
 *      speaker        names who is late for kernels of a separate device
 *   1  failure        the first failure, and who is told
 *      fetching       asks another process for a descriptor
 *      registrations  keys of memory, registered sources
 *      reports        questions of late waits
 *      topology       who is mapped, who is queued
 *   0  object, agree, facts, layout, passing, slab, spans
 *
 * Locking: `lock` guards the lists and the failure text.  The user serialises collective calls on
 * one comm, as all calls whose order matters.
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

/* What this rank knows of a peer besides topology. */
struct ori_peer {
	int same_process;
	int far;         /* on another host: the host half of its control memory is out of reach */
	char socket[32]; /* where its process hands out descriptors */
	uint8_t token[16];
	struct ori_pair pair;
	struct ori_control *control; /* mapped and self: the host half; NULL if far */
	uint64_t slab_bytes;
	void *slab_base, *near_base;                  /* the two halves of its control memory */
	struct ori_import *slab_import, *near_import; /* NULL for a rank of this process */
	uint64_t gone_seen; /* names of gone memory that this rank has heard */
};

/*
 * What kernels of this rank returned, under the comm's lock.  names: of all kernels that were
 * launched on a separate device; a graph may run them at any time, so none goes before the comm.
 * status, text: the first failure of a launch that was over on return.
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
	struct ori_device *device;      /* runs kernels */
	struct ori_device *host_device; /* maps host memory of peers; the same on the CPU */
	struct ori_passing *passing;    /* descriptor service of this process */
	struct ori_topology topology;
	struct ori_facts *facts; /* [nranks] */
	struct ori_peer *peers;  /* [nranks] */
	struct oriel_comm_peer *dev_peers;
	struct ori_memory *slab_memory; /* the host half of control memory */
	struct ori_memory *near_memory; /* the device's half; the same where memory is one */
	uint64_t slab_bytes;
	/* The collective call under way: agree.c. */
	int call, call_rounds; /* enum ori_call; rounds that are over */
	uint64_t call_end_ns;
	uint32_t fetching; /* atomic: ORI_FETCHING() of the memory that is waited for; 0: none */
	int boot_lost; /* atomic: status of a failure of the boot while the comm is being made */
	int quiet;     /* no rank stores to this one's memory: not yet, or not any more */
	int overdue;   /* atomic: kernels on the comm's own stream have not ended in time */
	struct ori_slab slab;
	int device_lost;           /* atomic: the user has been told that and why */
	struct ori_speaker *watch; /* looks after waits of a device that cannot speak; else NULL */
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
	struct ori_registration *retired; /* their memory is gone; NICs may look at them */
	struct ori_child *children;
	struct ori_attachment *attachments;
	int next_window;          /* number of the next one */
	uint64_t generation_seed; /* random: window handles of this comm are told apart by it */
	char failure_text[256];
	pthread_cond_t failure_told; /* failure_text is there */
	int failure_untold;          /* the text was waited for and did not come: not again */
	struct ori_held *held;       /* a failure that waits for its cause; failure.c */
	struct ori_returned returned; /* by kernels; returned.c */
};

/*
 * The body of create and split.  `boot` is the comm's own and is dropped on failure.  `status` is
 * an error of this rank before the call; the others learn it here.  `parent` is NULL, or the comm
 * whose GPU the new one shares; a CPU device is always its own.  `forced_nodes` is NULL, or the
 * node of each rank as the parent has it.
 */
int ori_comm_build(struct oriel_boot *boot, const struct ori_config *, int status,
		   const struct oriel_comm *parent, const int *forced_nodes, struct oriel_comm **);

#endif
