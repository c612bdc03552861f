/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/groups.h - which variables belong together.
 *
 * One line per group: its title, and names without ORIEL_.  A name that ends with _ is the
 * beginning of names.  A variable in no group is in the last one.  oriel-info --all and
 * tools/variables.py, which reads this file, show the variables in these groups.
 */
#ifndef ORI_INFO_GROUPS_H
#define ORI_INFO_GROUPS_H

static const struct info_group {
	const char *title, *names;
} info_groups[] = {
	{ "Device, waits and log", "DEVICE CUDA_LIBRARY TIMEOUT LATE LOG DOCTOR STRICT CHECKED" },
	{ "Traces", "TRACE TRACE_" },
	{ "Which peers are mapped", "TOPOLOGY FABRIC FABRIC_UUID FABRIC_CLIQUE MAPPED" },
	{ "How ranks meet",
	  "LAUNCHER PMIX_LIBRARY SECRET PORT BOOT_ADDR BOOT_TREE LISTEN_FD LISTENING" },
	{ "Queues and engines", "ENGINE CONNECT LANES NICS QUEUE_DEPTH QUEUE_START NIC_ORDER" },
	{ "Software NIC", "SOFT_NIC SOFT_FAULTS" },
	{ "Engines verbs and mlx5", "IB_ MLX5_" },
	{ "Engine ofi", "OFI_" },
	{ "Collectives", "TUNE_FILE A2A_PLAN GATHER_POLICY" },
	{ "Other", "" },
};

#endif
