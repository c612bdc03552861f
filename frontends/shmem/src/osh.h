/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * osh.h - what the files of the OpenSHMEM front end share.
 *
 * A PE is a rank of one comm.  All symmetric memory of a PE is one window: control words, then the
 * globals of the program, then the heap.  A region is a part of it that the program sees at one
 * place: the same bytes have the same offset on all PEs, but not the same address.
 *
 * Bodies that every call needs are inline here: from an address to an offset, and from there to the
 * memory of a mapped PE.  The front end uses the public headers of Oriel only.
 *
 * Files call downwards in this order: setup, the groups of calls (rma, order, atomic, wait, coll,
 * ...), context and team, memory (heap, globals), fail.
 */
#ifndef OSH_H
#define OSH_H

#include <stdint.h>
#include <string.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

/* The library defines functions whose names are macros for programs. */
#define OSH_NO_GENERIC
#include "shmem.h"

#define OSH_LIKELY(x) __builtin_expect(!!(x), 1)
#define OSH_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- memory ---------------------------------------------------------------------------------- */

/* A part of the window, and where the program sees this PE's copy of it. */
struct osh_region {
	uintptr_t base;
	uint64_t bytes;
	uint64_t offset; /* in the window, alike on all PEs */
	char name[80];   /* for messages: "the symmetric heap", "the variables of libx.so" */
};

#define OSH_REGIONS_MAX 64
#define OSH_NOWHERE UINT64_MAX /* the offset of an address outside symmetric memory */

/* What a call of shmem_malloc() or shmem_free() asks for. */
struct osh_asked {
	uint64_t bytes;  /* 0: a block is freed */
	uint64_t offset; /* in the heap; OSH_NOWHERE: no room */
};

/*
 * At offset 0 of the window.  Words are written as the comment says; a PE reads its own and those
 * of others.
 */
struct osh_control {
	uint32_t exit; /* 0, or OSH_EXIT | status: by the PE that calls shmem_global_exit() */
	uint8_t pad0[60];
	struct osh_asked asked[2]; /* last two calls of this PE: by this PE (alloc.c) */
	uint8_t pad1[32];
	/* Offsets [low, high) of the words that waits of this PE look at: by this PE (awaited.c) */
	uint64_t awaited_low, awaited_high;
	uint8_t pad2[48];
};
#define OSH_EXIT 0x10000u /* the job ends with the status in the low bits */
#define OSH_STOP 0x20000u /* this PE's watcher ends: shmem_finalize() */

/* The heap begins at such an address on every PE: the most that shmem_align() can give. */
#define OSH_HEAP_ALIGN (64u << 20)

/* Barriers of the window by id.  Teams use windows of their own comms. */
#define OSH_BARRIER_ALL 0
#define OSH_BARRIER_SYNC 1
#define OSH_BARRIER_END 2
#define OSH_BARRIERS 3

/* ---- contexts -------------------------------------------------------------------------------- */

/*
 * A context is a block number of Oriel: operations of a block have their own lane and their own
 * flush.
 */
struct osh_ctx {
	struct oriel_group group; /* one thread; group.block is the context's number */
	long options;             /* SHMEM_CTX_* */
	shmem_team_t team;        /* whose PE numbers its calls use */
	const int *world;         /* PE of the team -> PE of the world; NULL: the same */
	int npes;                 /* of the team */
	struct osh_ctx *next;     /* in the list of living contexts */
};

/* ---- the library ----------------------------------------------------------------------------- */

struct osh_state {
	/* What every put and get reads. */
	uintptr_t heap; /* region 0: where the heap is */
	uint64_t heap_bytes;
	uint64_t heap_offset;
	uint8_t *const *peers; /* [npes]: a PE's window here; NULL: queued */
	unsigned int npes;     /* 0: shmem_init() was not called, or shmem_finalize() was */
	int pe;
	unsigned int nregions;
	unsigned int nqueued;        /* PEs that are not mapped from here */
	struct oriel_window_dev dev; /* the window */

	struct osh_region regions[OSH_REGIONS_MAX]; /* [0] is the heap */
	struct oriel_source source;                 /* this PE's window as a local operand */
	struct oriel_window *window;
	struct oriel_comm *comm; /* the world */
	struct osh_control *control;
	void *allocation; /* from oriel_alloc() */
	uint8_t *memory;  /* the window in it */
	int any_queued;   /* is any pair of PEs of the job queued?  Alike on all PEs. */
	int thread_level;
	int debug;              /* SHMEM_DEBUG */
	int pid;                /* of the process that called shmem_init(), not of its children */
	struct osh_ctx context; /* SHMEM_CTX_DEFAULT */
};

extern struct osh_state osh __attribute__((visibility("hidden")));

/* ---- errors (fail.c) ------------------------------------------------------------------------- */

/* Prints "shmem: PE 3: <call>: ..." and ends the job. */
void osh_fail(const char *call, const char *format, ...)
	__attribute__((noreturn, cold, format(printf, 2, 3)));
/* The same for a status of Oriel.  If a PE called shmem_global_exit(), ends with its status. */
void osh_fail_status(const char *call, int err) __attribute__((noreturn, cold));
/* Prints a line if SHMEM_DEBUG is set. */
void osh_debug(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));
void osh_fail_pe(const char *call, int pe, int npes) __attribute__((noreturn, cold));
void osh_fail_not_ready(const char *call) __attribute__((noreturn, cold));
/* The bytes at `address` are not all in one region. */
void osh_fail_address(const char *call, const char *what, const void *address, uint64_t bytes)
	__attribute__((noreturn, cold));
void osh_watch_start(void);
void osh_watch_stop(void);

static inline void osh_check(const char *call, int err)
{
	if (OSH_UNLIKELY(err))
		osh_fail_status(call, err);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Searches all regions; OSH_NOWHERE if the bytes are not all in one of them. */
uint64_t osh_offset_search(const void *address, uint64_t bytes);

/* The offset of `bytes` symmetric bytes in the window. */
static inline uint64_t osh_offset(const void *address, uint64_t bytes)
{
	uint64_t at = (uintptr_t)address - osh.heap;

	if (OSH_LIKELY(at < osh.heap_bytes && bytes <= osh.heap_bytes - at))
		return osh.heap_offset + at;
	return osh_offset_search(address, bytes);
}

/* The same, and the end of the job for an address outside symmetric memory. */
static inline uint64_t osh_offset_of(const char *call, const char *what, const void *address,
				     uint64_t bytes)
{
	uint64_t offset = osh_offset(address, bytes);

	if (OSH_UNLIKELY(offset == OSH_NOWHERE))
		osh_fail_address(call, what, address, bytes);
	return offset;
}

/* Tests a PE of the world.  It is the test for a call before shmem_init() too. */
static inline void osh_check_pe(const char *call, int pe)
{
	if (OSH_UNLIKELY((unsigned int)pe >= osh.npes))
		osh_fail_pe(call, pe, (int)osh.npes);
}

static inline void osh_check_ready(const char *call)
{
	if (OSH_UNLIKELY(!osh.npes))
		osh_fail_not_ready(call);
}

/* ---- contexts (context.c) -------------------------------------------------------------------- */

/* Makes a context over the PEs of a team.  world may be NULL.  Returns NULL without memory. */
struct osh_ctx *osh_ctx_make(long options, shmem_team_t team, const int *world, int npes);
/* Quiets and frees it. */
void osh_ctx_free(struct osh_ctx *ctx);
/* The contexts of a team that is destroyed, or all contexts (team SHMEM_TEAM_INVALID). */
void osh_ctx_free_of(shmem_team_t team);
void osh_fail_ctx(const char *call) __attribute__((noreturn, cold));

static inline const struct osh_ctx *osh_ctx_of(const char *call, shmem_ctx_t ctx)
{
	if (OSH_LIKELY(ctx == SHMEM_CTX_DEFAULT))
		return &osh.context;
	if (OSH_UNLIKELY(ctx == SHMEM_CTX_INVALID))
		osh_fail_ctx(call);
	return ctx;
}

/* The PE of the world that a call with this context names. */
static inline int osh_ctx_pe(const char *call, const struct osh_ctx *ctx, int pe)
{
	if (OSH_LIKELY(!ctx->world)) {
		osh_check_pe(call, pe);
		return pe;
	}
	if (OSH_UNLIKELY((unsigned int)pe >= (unsigned int)ctx->npes))
		osh_fail_pe(call, pe, ctx->npes);
	return ctx->world[pe];
}

/* ---- data (rma.c) ---------------------------------------------------------------------------- */

/* Puts and gets to PEs of the world that are queued from here.  Offsets are in the window. */
void osh_put_queued(const char *call, const struct osh_ctx *ctx, int pe, uint64_t offset,
		    const void *source, uint64_t bytes, int nbi);
void osh_get_queued(const char *call, const struct osh_ctx *ctx, int pe, uint64_t offset,
		    void *dest, uint64_t bytes, int nbi);

/* Around a wait for words of this PE: tells other PEs which stores should wake it (awaited.c). */
void osh_awaited_begin(uint64_t offset, uint64_t bytes);
void osh_awaited_end(void);
/* The peer has threads that sleep: wakes them if they wait for these bytes. */
void osh_wake_awaited(int pe, uint64_t offset, uint64_t bytes) __attribute__((cold));

/*
 * Called after stores to a mapped PE: wakes its waits for these bytes.  Only a PE that sleeps costs
 * more than a load.  A missed wake costs the waiter at most 1 ms, so the load is relaxed.
 */
static inline void osh_wake(int pe, uint64_t offset, uint64_t bytes)
{
	if (OSH_UNLIKELY(
		    __atomic_load_n(&osh.dev.comm.peers[pe].waiters->sleepers, __ATOMIC_RELAXED)))
		osh_wake_awaited(pe, offset, bytes);
}

/* Strided transfers; strides are in elements and at least 1. */
void osh_iput(const char *call, const struct osh_ctx *ctx, void *dest, const void *source,
	      ptrdiff_t dst, ptrdiff_t sst, uint64_t nelems, uint64_t elem_bytes, int pe);
void osh_iget(const char *call, const struct osh_ctx *ctx, void *dest, const void *source,
	      ptrdiff_t dst, ptrdiff_t sst, uint64_t nelems, uint64_t elem_bytes, int pe);

/* The bytes of nelems elements.  Too many for 64 bits become too many for any region. */
static inline uint64_t osh_bytes(uint64_t nelems, uint64_t elem_bytes)
{
	return OSH_LIKELY(nelems <= UINT64_MAX / elem_bytes) ? nelems * elem_bytes : UINT64_MAX;
}

/* A word at any address.  Stores through it are made once, as they are written here. */
typedef volatile uint64_t __attribute__((aligned(1), may_alias)) osh_any_word;
typedef volatile uint32_t __attribute__((aligned(1), may_alias)) osh_any_half;
typedef volatile uint16_t __attribute__((aligned(1), may_alias)) osh_any_quarter;

#define OSH_WORDS_MOST 64 /* bytes that are stored word by word */

/*
 * A copy to another PE.  It stores the last word once; of up to OSH_WORDS_MOST bytes every word.
 * The PE may wait for such a word, and set it to 0 as soon as it has come.  memmove() stores 8, 16
 * or 32 bytes twice, so its second store could undo that.
 */
static inline void osh_store(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	uint64_t word;

	if (bytes > OSH_WORDS_MOST) {
		memcpy(to, from, bytes - sizeof(word));
		to += bytes - sizeof(word);
		from += bytes - sizeof(word);
		bytes = sizeof(word);
	}
	for (; bytes >= sizeof(word); bytes -= sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		*(osh_any_word *)to = word;
		to += sizeof(word);
		from += sizeof(word);
	}
	if (bytes & 4) {
		uint32_t half;

		memcpy(&half, from, sizeof(half));
		*(osh_any_half *)to = half;
		to += sizeof(half);
		from += sizeof(half);
	}
	if (bytes & 2) {
		uint16_t quarter;

		memcpy(&quarter, from, sizeof(quarter));
		*(osh_any_quarter *)to = quarter;
		to += sizeof(quarter);
		from += sizeof(quarter);
	}
	if (bytes & 1)
		*(volatile uint8_t *)to = *from;
}

/*
 * Where a mapped PE has the bytes of `address`.  On the own PE it is the address itself: variables
 * have a second view in the window, and only within one view memmove() sees that areas overlap.
 */
static inline uint8_t *osh_mapped(int pe, const void *address, uint64_t offset)
{
	return pe == osh.pe ? (uint8_t *)(uintptr_t)address : osh.peers[pe] + offset;
}

/* Any put.  `pe` is a PE of the context.  memmove(): a PE may put to itself, also overlapping. */
static inline void osh_put(const char *call, const struct osh_ctx *ctx, void *dest,
			   const void *source, uint64_t bytes, int pe, int nbi)
{
	int to = osh_ctx_pe(call, ctx, pe);
	uint64_t offset;

	if (OSH_UNLIKELY(!bytes))
		return;
	offset = osh_offset_of(call, "dest", dest, bytes);
	if (OSH_LIKELY(osh.peers[to] != NULL)) {
		if (OSH_LIKELY(to != osh.pe))
			osh_store(osh.peers[to] + offset, source, bytes);
		else
			memmove(dest, source, bytes);
		osh_wake(to, offset, bytes);
		return;
	}
	osh_put_queued(call, ctx, to, offset, source, bytes, nbi);
}

static inline void osh_get(const char *call, const struct osh_ctx *ctx, void *dest,
			   const void *source, uint64_t bytes, int pe, int nbi)
{
	int from = osh_ctx_pe(call, ctx, pe);
	uint64_t offset;

	if (OSH_UNLIKELY(!bytes))
		return;
	offset = osh_offset_of(call, "source", source, bytes);
	if (OSH_LIKELY(osh.peers[from] != NULL)) {
		memmove(dest, osh_mapped(from, source, offset), bytes);
		return;
	}
	osh_get_queued(call, ctx, from, offset, dest, bytes, nbi);
}

/* ---- order (order.c) ------------------------------------------------------------------------- */

void osh_quiet(const char *call, const struct osh_ctx *ctx);
void osh_fence(const char *call, const struct osh_ctx *ctx);
/* Completes the default context and meets all PEs; `id` is OSH_BARRIER_*. */
void osh_barrier(const char *call, int id);

/* ---- memory (memory.c, heap.c, globals.c) ---------------------------------------------------- */

/* Lays out, exposes and maps the symmetric memory. */
void osh_memory_open(uint64_t heap_bytes);
void osh_memory_close(void);

/* The heap's book-keeping: offsets from its first byte.  The same calls give the same results. */
void osh_heap_open(uint64_t bytes);
void osh_heap_close(void);
uint64_t osh_heap_take(uint64_t bytes, uint64_t alignment); /* OSH_NOWHERE: no room */
uint64_t osh_heap_bytes(uint64_t offset);                   /* of a block; OSH_NOWHERE: none */
int osh_heap_give(uint64_t offset);                         /* -1: not a block */
uint64_t osh_heap_largest(void);

#endif
