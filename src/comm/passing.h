/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/passing.h - what the two ends of descriptor passing (passing.c, fetching.c) share. */
#ifndef ORI_PASSING_H
#define ORI_PASSING_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ORI_PASSING_MAGIC 0x4f52464432ull /* "ORFD2" */

struct ori_passing_request {
	uint64_t magic;
	uint64_t id;
	uint8_t token[16];
};

/* With a descriptor attached if `status` is 0 and the memory has one. */
struct ori_passing_answer {
	int32_t status;
	uint32_t kind; /* enum ori_export_kind */
	uint64_t bytes;
	uint8_t handle[64];
};

/* What handle[] of ORI_EXPORT_CUDA_PARTS holds: the ids by which the parts are asked for. */
struct ori_passing_parts {
	uint64_t first;
	uint64_t count;
};

socklen_t ori_passing_address(const char *name, struct sockaddr_un *);
int ori_passing_same_user(int fd);
void ori_passing_set_timeout(int fd, uint64_t ns);

#endif
