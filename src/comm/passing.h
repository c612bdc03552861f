/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/passing.h - hands memory descriptors to other processes (passing.c), and asks other
 * processes for theirs (fetching.c).
 */
#ifndef ORI_PASSING_H
#define ORI_PASSING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../device/device.h"

/* One service per process, shared by its comms. */
struct ori_passing;
int ori_passing_open(struct ori_passing **);
void ori_passing_close(struct ori_passing *);
const char *ori_passing_socket(const struct ori_passing *);
const uint8_t *ori_passing_token(const struct ori_passing *);
int ori_passing_offer(struct ori_passing *, const struct ori_allocation *, uint64_t *id);
/* For ranks of this process: the offered allocation.  ORIEL_EINVAL, not logged: there is none. */
int ori_passing_find(struct ori_passing *, uint64_t id, struct ori_allocation *);
/* The same by address: memory of oriel_alloc that contains [ptr, ptr + bytes). */
int ori_passing_find_range(struct ori_passing *, const void *ptr, size_t bytes, uint64_t *id,
			   struct ori_allocation *);
/* Finds memory of any comm of this process that contains a part of the range, but not all of it. */
int ori_passing_find_left(struct ori_passing *, const void *ptr, size_t bytes,
			  struct ori_allocation *);
void ori_passing_withdraw(struct ori_passing *, uint64_t id);
/*
 * Asks another process.  The caller closes theirs->fd unless it is -1.  During the wait `look` (may
 * be NULL) is called many times per second; if it returns a status other than 0, the wait ends.
 */
int ori_passing_fetch(const char *socket, const uint8_t token[16], uint64_t id, uint64_t timeout_ns,
		      int (*look)(void *ctx), void *ctx, struct ori_allocation *theirs);

/* ---- between the two ends ------------------------------------------------------------------- */

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

/* Content of handle[] for ORI_EXPORT_CUDA_PARTS: the ids of the parts. */
struct ori_passing_parts {
	uint64_t first;
	uint64_t count;
};

socklen_t ori_passing_address(const char *name, struct sockaddr_un *);
int ori_passing_same_user(int fd);
void ori_passing_set_timeout(int fd, uint64_t ns);

#endif
