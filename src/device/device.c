/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/device.c - which devices this build has, by name.
 *
 * Called by: comm creation and oriel-info, on the user's thread.
 */
#include <stdio.h>
#include <string.h>

#include "../util/util.h"
#include "device.h"

int ori_device_open(const char *name, uint64_t timeout_ns, struct ori_device **device)
{
	if (!strcmp(name, "cpu"))
		return ori_cpu_device_open(timeout_ns, device);
	if (!strncmp(name, "cuda", 4) && (name[4] == '\0' || name[4] == ':'))
		return ori_fail(ORIEL_EUNSUPPORTED,
				"device \"%s\": this build has the cpu device only", name);
	return ori_fail(ORIEL_ECONFIG, "device \"%s\" is not one of cpu, cuda, cuda:N", name);
}

int ori_device_row(int n, struct ori_device_row *row)
{
	if (n != 0)
		return 0;
	row->name = "cpu";
	snprintf(row->text, sizeof(row->text),
		 "%d cores, shared memory by memfd, blocks of 1 to 32 threads", ori_core_count());
	return 1;
}
