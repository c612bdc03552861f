/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/choice.h - chooses device, port and address: the parts that only decide.
 *
 * Pure functions of texts and tables, without library or files, so that unit tests cover all of it.
 * Called by device.c when a NIC is opened.
 */
#ifndef ORI_VERBS_CHOICE_H
#define ORI_VERBS_CHOICE_H

#include <stdint.h>

/* ---- ORIEL_IB_HCA ---------------------------------------------------------------------------- */

#define VERBS_HCA_RULES 32
#define VERBS_HCA_NAME 64

struct verbs_hca_rule {
	char name[VERBS_HCA_NAME];
	int port; /* -1: any */
};

struct verbs_hca {
	int excludes; /* "^": the list names devices that are not used */
	int exact;    /* "=": whole names; else prefixes of names */
	int count;    /* 0: no list, all devices are allowed */
	struct verbs_hca_rule rule[VERBS_HCA_RULES];
};

/*
 * Parses "mlx5", "mlx5_0:1,mlx5_1", "=mlx5_1", "^mlx5_3", "^=mlx5_3,mlx5_4".  ORIEL_ECONFIG with a
 * log line that names the variable and the mistake.
 */
int verbs_hca_parse(const char *text, struct verbs_hca *out);
int verbs_hca_takes(const struct verbs_hca *, const char *device, int port);
/*
 * The index of the first rule that matches the port.  Listed devices are used in the order of the
 * list.
 */
int verbs_hca_place(const struct verbs_hca *, const char *device, int port);

/* ---- addresses of a port --------------------------------------------------------------------- */

enum verbs_gid_type { VERBS_GID_IB, VERBS_GID_ROCE_V1, VERBS_GID_ROCE_V2 };

struct verbs_gid {
	uint8_t raw[16];
	uint32_t index;
	uint32_t type; /* enum verbs_gid_type */
};

/*
 * Chooses the source address: RoCE v2 before v1, IPv4 before IPv6, routable before link-local, then
 * the lowest index.  `wanted` >= 0 allows only that index.  Returns -1 if there is none.
 */
int verbs_gid_choose(const struct verbs_gid *table, int n, int wanted);
int verbs_gid_is_ipv4(const struct verbs_gid *);

/* ---- nearness -------------------------------------------------------------------------------- */

/*
 * The distance of two devices in the machine, from their sysfs paths
 * (".../pci0000:00/0000:00:01.0/...") and NUMA nodes (-1: not known).  0 under one switch.  It
 * grows with more bridges between them, then for one root complex, one NUMA node, one machine.  An
 * empty path means "somewhere on that node".
 */
int verbs_distance(const char *path_a, int node_a, const char *path_b, int node_b);

#endif
