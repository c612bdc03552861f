/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c - broadcast, collect, fcollect and all-to-all over teams, for all types and for bytes.
 *
 * A call on SHMEM_TEAM_INVALID returns -1.  Every other mistake ends the job.  Data may be in any
 * memory, also where the specification asks for symmetric memory.
 */
#include <stdlib.h>

#include "set.h"

/* ---- bodies ---------------------------------------------------------------------------------- */

void osh_coll_broadcast(const char *call, struct osh_set *s, void *dest, const void *source,
			uint64_t bytes, int root)
{
	if (OSH_UNLIKELY(root < 0 || root >= s->n))
		osh_fail_pe(call, root, s->n);
	/* The root only reads. */
	if (!osh_direct_broadcast(call, s, dest, source, bytes, root))
		osh_set_broadcast(call, s, s->rank == root ? (void *)source : dest, bytes, root);
}

void osh_coll_fcollect(const char *call, struct osh_set *s, void *dest, const void *source,
		       uint64_t bytes)
{
	if (!osh_direct_fcollect(call, s, dest, source, bytes))
		osh_set_gather(call, s, source, dest, bytes);
}

void osh_coll_alltoall(const char *call, struct osh_set *s, void *dest, const void *source,
		       uint64_t bytes)
{
	if (!osh_direct_alltoall(call, s, dest, source, bytes))
		osh_set_exchange(call, s, source, dest, bytes);
}

/* A team's broadcast writes dest of the root too. */
static void broadcast_all(const char *call, struct osh_set *s, void *dest, const void *source,
			  uint64_t bytes, int root)
{
	osh_coll_broadcast(call, s, dest, source, bytes, root);
	if (s->rank == root && dest != source && bytes)
		memmove(dest, source, bytes);
}

/*
 * PEs may give different numbers of elements.  If they do, each PE's part is a broadcast: nothing
 * is padded, however different the parts are.
 */
void osh_coll_collect(const char *call, struct osh_set *s, void *dest, const void *source,
		      size_t nelems, size_t size)
{
	uint64_t bytes = osh_set_bytes(call, nelems, size), *all;
	uint8_t *at = dest;
	int i, equal = 1;

	if (osh_direct_collect(call, s, dest, source, bytes))
		return;
	all = osh_set_scratch(call, (uint64_t)s->n * sizeof(*all));
	osh_set_gather(call, s, &bytes, all, sizeof(bytes));
	for (i = 1; i < s->n; i++)
		equal &= all[i] == all[0];
	if (equal)
		osh_coll_fcollect(call, s, dest, source, bytes);
	for (i = 0; i < s->n && !equal; at += all[i++]) {
		if (!all[i])
			continue;
		broadcast_all(call, s, at, source, all[i], i);
	}
	free(all);
}

#define PIECE_BYTES (256u << 10) /* of scratch memory for one direction */

/* Copies `count` elements of every block between memory with strides and packed memory. */
struct strided {
	uint8_t *memory;
	ptrdiff_t stride; /* of elements, in bytes */
	uint64_t block;   /* from one PE's block to the next, in elements */
	size_t size;
	int n;
};

static void pack(const struct strided *from, uint64_t first, uint64_t count, uint8_t *to)
{
	for (int i = 0; i < from->n; i++) {
		const uint8_t *at = from->memory +
				    (ptrdiff_t)((uint64_t)i * from->block + first) * from->stride;

		for (uint64_t k = 0; k < count; k++, at += from->stride, to += from->size)
			memcpy(to, at, from->size);
	}
}

static void unpack(const struct strided *to, uint64_t first, uint64_t count, const uint8_t *from)
{
	for (int i = 0; i < to->n; i++) {
		uint8_t *at = to->memory +
			      (ptrdiff_t)((uint64_t)i * to->block + first) * to->stride;

		for (uint64_t k = 0; k < count; k++, at += to->stride, from += to->size)
			memcpy(at, from, to->size);
	}
}

void osh_coll_alltoalls(const char *call, struct osh_set *s, void *dest, const void *source,
			ptrdiff_t dst, ptrdiff_t sst, size_t nelems, size_t size)
{
	struct strided to = { dest, dst * (ptrdiff_t)size, nelems, size, s->n };
	struct strided from = { (uint8_t *)source, sst * (ptrdiff_t)size, nelems, size, s->n };
	uint64_t piece = PIECE_BYTES / ((uint64_t)s->n * size), first, count;
	uint8_t *packed;

	(void)osh_set_bytes(call, nelems, size);
	if (dst < 1 || sst < 1)
		osh_fail(call, "strides are %td and %td, must be 1 or more", dst, sst);
	if ((dst == 1 && sst == 1) || !nelems) {
		osh_coll_alltoall(call, s, dest, source, nelems * size);
		return;
	}
	if (osh_direct_alltoalls(call, s, dest, source, (uint64_t)to.stride, (uint64_t)from.stride,
				 nelems, size))
		return;
	piece = piece ? piece : 1;
	if (piece < nelems)
		osh_set_compare(call, s, nelems);
	piece = piece < nelems ? piece : nelems;
	packed = osh_set_scratch(call, 2 * piece * (uint64_t)s->n * size);
	for (first = 0; first < nelems; first += count) {
		count = nelems - first < piece ? nelems - first : piece;
		pack(&from, first, count, packed);
		osh_coll_alltoall(call, s, packed + piece * (uint64_t)s->n * size, packed,
				  count * size);
		unpack(&to, first, count, packed + piece * (uint64_t)s->n * size);
	}
	free(packed);
}

/* ---- public ---------------------------------------------------------------------------------- */

/* NAME and TYPE are those of the call; BYTES is the size of an element. */
#define DEFINE(NAME, SUFFIX, TYPE, BYTES)                                                          \
	int shmem_##NAME##broadcast##SUFFIX(shmem_team_t handle, TYPE *dest, const TYPE *source,   \
					    size_t nelems, int PE_root)                            \
	{                                                                                          \
		const char *call = "shmem_" #NAME "broadcast" #SUFFIX;                             \
		struct osh_team *team = osh_team_of(call, handle);                                 \
                                                                                                   \
		if (!team)                                                                         \
			return -1;                                                                 \
		broadcast_all(call, &team->set, dest, source, osh_set_bytes(call, nelems, BYTES),  \
			      PE_root);                                                            \
		return 0;                                                                          \
	}                                                                                          \
	int shmem_##NAME##collect##SUFFIX(shmem_team_t handle, TYPE *dest, const TYPE *source,     \
					  size_t nelems)                                           \
	{                                                                                          \
		const char *call = "shmem_" #NAME "collect" #SUFFIX;                               \
		struct osh_team *team = osh_team_of(call, handle);                                 \
                                                                                                   \
		if (!team)                                                                         \
			return -1;                                                                 \
		osh_coll_collect(call, &team->set, dest, source, nelems, BYTES);                   \
		return 0;                                                                          \
	}                                                                                          \
	int shmem_##NAME##fcollect##SUFFIX(shmem_team_t handle, TYPE *dest, const TYPE *source,    \
					   size_t nelems)                                          \
	{                                                                                          \
		const char *call = "shmem_" #NAME "fcollect" #SUFFIX;                              \
		struct osh_team *team = osh_team_of(call, handle);                                 \
                                                                                                   \
		if (!team)                                                                         \
			return -1;                                                                 \
		osh_coll_fcollect(call, &team->set, dest, source,                                  \
				  osh_set_bytes(call, nelems, BYTES));                             \
		return 0;                                                                          \
	}                                                                                          \
	int shmem_##NAME##alltoall##SUFFIX(shmem_team_t handle, TYPE *dest, const TYPE *source,    \
					   size_t nelems)                                          \
	{                                                                                          \
		const char *call = "shmem_" #NAME "alltoall" #SUFFIX;                              \
		struct osh_team *team = osh_team_of(call, handle);                                 \
                                                                                                   \
		if (!team)                                                                         \
			return -1;                                                                 \
		osh_coll_alltoall(call, &team->set, dest, source,                                  \
				  osh_set_bytes(call, nelems, BYTES));                             \
		return 0;                                                                          \
	}                                                                                          \
	int shmem_##NAME##alltoalls##SUFFIX(shmem_team_t handle, TYPE *dest, const TYPE *source,   \
					    ptrdiff_t dst, ptrdiff_t sst, size_t nelems)           \
	{                                                                                          \
		const char *call = "shmem_" #NAME "alltoalls" #SUFFIX;                             \
		struct osh_team *team = osh_team_of(call, handle);                                 \
                                                                                                   \
		if (!team)                                                                         \
			return -1;                                                                 \
		osh_coll_alltoalls(call, &team->set, dest, source, dst, sst, nelems, BYTES);       \
		return 0;                                                                          \
	}

#define DEFINE_TYPE(NAME, TYPE, OP) DEFINE(NAME##_, , TYPE, sizeof(TYPE))

OSH_RMA_TYPES(DEFINE_TYPE, )
DEFINE(, mem, void, 1)
