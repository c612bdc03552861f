/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/slab.h - how a rank's control memory is cut into pieces (slab.c). */
#ifndef ORI_COMM_SLAB_H
#define ORI_COMM_SLAB_H

#include <stdint.h>

/*
 * Virtual size of a rank's control slab.  Only pages that are touched take memory; a comm of 64
 * ranks with default windows touches well under 1 MiB.
 */
#if defined(__SANITIZE_THREAD__)
/* ThreadSanitizer leaves only some GiB of addresses for all ranks and comms of a process. */
#define ORI_SLAB_BYTES (1ull << 26)
#else
#define ORI_SLAB_BYTES (1ull << 30)
#endif
/* On a separate device: all pages of both halves exist from the start, and one half is pinned. */
#define ORI_SLAB_SEPARATE_BYTES (1ull << 25)
/* The least size, if limits of the process (ulimit -f, ulimit -v) make it smaller. */
#define ORI_SLAB_LEAST_BYTES (1ull << 20)
#define ORI_SLAB_ALIGN 4096u

/* Allocates offsets in [0, bytes): first fit; free ranges are sorted and merged. */
struct ori_range {
	uint64_t offset, bytes;
	struct ori_range *next;
};
struct ori_slab {
	struct ori_range *free_ranges;
	uint64_t bytes; /* of all */
	uint64_t used;  /* handed out */
	int limited;    /* a limit of this process keeps it small */
};
int ori_slab_init(struct ori_slab *, uint64_t bytes);
void ori_slab_destroy(struct ori_slab *);
int ori_slab_take(struct ori_slab *, uint64_t bytes, uint64_t *offset); /* whole pages */
void ori_slab_give(struct ori_slab *, uint64_t offset, uint64_t bytes);

#endif
