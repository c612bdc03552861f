/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/facts.h - what one rank tells the others: its host, its device and what that device
 * reaches.
 *
 * Filled by the device (ori_device_ops.facts) and by comm/facts.c, which adds the host and the
 * overrides of the configuration.  Judged by comm/topology.c.
 */
#ifndef ORI_FACTS_H
#define ORI_FACTS_H

#include <stdint.h>

#define ORI_DEVICE_CPU 0
#define ORI_DEVICE_CUDA 1
#define ORI_TOPOLOGY_TEXT_MAX 128

/* Sent as bytes: fixed layout, no pointers. */
struct ori_facts {
	char host[64];        /* name, for people */
	uint64_t host_id;     /* boot id and network namespace: equal means one machine */
	int32_t device;       /* ORI_DEVICE_* */
	int32_t gpu;          /* ordinal on its host; -1 for cpu */
	uint64_t gpu_access;  /* bit n: this GPU can load and store GPU n of the host */
	uint64_t gpu_atomics; /* bit n: ... and its atomics there are atomic */
	int32_t fabric_available;
	int32_t fabric_mode;                /* enum ori_mode */
	uint8_t fabric_uuid[16];            /* after overrides */
	uint32_t fabric_clique;             /* after overrides */
	int32_t mapped_allowed;             /* ORIEL_MAPPED */
	char layout[ORI_TOPOLOGY_TEXT_MAX]; /* ORIEL_TOPOLOGY, "" for none */
	int32_t forced_node;                /* -1, or the node a split inherits from its parent */
	int32_t fabric_refused; /* its GPU is on a fabric that takes no memory of this process */
};

#endif
