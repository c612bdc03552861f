/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/facts.h - what one rank tells the others: its host, its device, and which devices that one
 * reaches.
 *
 * The device fills it (ori_device_ops.facts).  comm/facts.c adds the host and the overrides of the
 * configuration.  comm/topology.c evaluates it.
 */
#ifndef ORI_FACTS_H
#define ORI_FACTS_H

#include <stdint.h>

#define ORI_DEVICE_CPU 0
#define ORI_DEVICE_CUDA 1
#define ORI_TOPOLOGY_TEXT_MAX 128

/* Sent as bytes, so the layout is fixed and has no pointers. */
struct ori_facts {
	char host[64];        /* host name, for messages */
	uint64_t host_id;     /* boot id and network namespace: equal means one machine */
	int32_t device;       /* ORI_DEVICE_* */
	int32_t gpu;          /* ordinal on its host; -1 for cpu */
	uint64_t gpu_access;  /* bit n: this GPU can load and store GPU n of the host */
	uint64_t gpu_atomics; /* bit n: in addition, this GPU's atomics on GPU n are atomic */
	int32_t fabric_available;
	int32_t fabric_mode;                /* enum ori_mode */
	uint8_t fabric_uuid[16];            /* after overrides */
	uint32_t fabric_clique;             /* after overrides */
	int32_t mapped_allowed;             /* ORIEL_MAPPED */
	char layout[ORI_TOPOLOGY_TEXT_MAX]; /* ORIEL_TOPOLOGY, "" for none */
	/* -1, or the node that a split comm inherits from its parent */
	int32_t forced_node;
	/* the GPU is on a fabric that does not accept memory of this process */
	int32_t fabric_refused;
};

#endif
