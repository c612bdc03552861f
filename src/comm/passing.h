/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/passing.h - what the two ends of descriptor passing (passing.c, fetching.c) share. */
#ifndef ORI_PASSING_H
#define ORI_PASSING_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ORI_PASSING_MAGIC 0x4f52464431ull /* "ORFD1" */

/* The answer is an int32 status, with the descriptor attached if it is 0. */
struct ori_passing_request {
	uint64_t magic;
	uint64_t id;
	uint8_t token[16];
};

socklen_t ori_passing_address(const char *name, struct sockaddr_un *);
int ori_passing_same_user(int fd);
void ori_passing_set_timeout(int fd, uint64_t ns);

#endif
