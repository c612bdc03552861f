/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/contract.h - the frame of the contract suite: one set of cases, run over every
 * transport, number of ranks, group size, and with ranks as threads and as processes.
 *
 * A case is a rank function; most launch one kernel and look at what it left.  contract.c owns the
 * table of transports (a new transport is one line there), makes one test per case and row named
 * case/transport/Nranks/Nthreads/threads|processes, and runs it through ranks_run().
 *
 * ORIEL_CONTRACT holds words: "threads" runs the rows with thread ranks only, "processes" the
 * others, "quick" leaves out the rows with hundreds of threads.
 *
 * Device code here is the common subset of C and CUDA, like the kernels that use it.
 */
#ifndef ORI_TEST_CONTRACT_H
#define ORI_TEST_CONTRACT_H

#include <oriel/device.h>
#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"

#define CONTRACT_THREADS 32 /* threads a block may have */
#define CONTRACT_BLOCKS 16  /* blocks a case may launch */
#define CONTRACT_SLOTS (CONTRACT_THREADS * CONTRACT_BLOCKS)
#define CONTRACT_OUT 4       /* words a thread may leave */
#define CONTRACT_GUARD 0xee  /* bytes nobody may write */
#define CONTRACT_UNSET 12345 /* status of a thread that never reported */

/* ---- rows and cases ------------------------------------------------------------------------ */

struct contract_row {
	const char *transport;
	const char *topology; /* comm option; NULL: as found */
	int ranks, threads, processes;
};

enum contract_shape {
	CONTRACT_PAIRS, /* every (ranks, threads), threads and processes in turn */
	CONTRACT_FULL,  /* every row */
	CONTRACT_HOST,  /* groups of one thread: the case launches no kernel, or does not care */
};

struct contract_env {
	int rank, nranks;
	int threads;   /* of a group */
	int processes; /* ranks are processes */
	const struct contract_row *row;
	struct rank_env *ranks;
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	struct oriel_window *window; /* NULL with no_window, as all below to src */
	struct oriel_window_dev win;
	uint8_t *buffer;         /* own window memory */
	uint64_t bytes;          /* of the window, and of local */
	uint8_t *local;          /* source and target memory of this rank */
	struct oriel_source src; /* names local */
	int32_t *status;         /* [block * 32 + thread] */
	uint64_t *wrong;         /* [block * 32 + thread] */
	uint64_t *out;           /* [block * 32 + thread][CONTRACT_OUT] */
	void *allocs[16];
	int nallocs;
};

struct contract_case {
	const char *name;
	void (*body)(struct contract_env *);
	enum contract_shape shape;
	int min_ranks, max_ranks; /* 0: any */
	int blocks;               /* of its largest launch; keeps the number of threads sane */
	int no_window;            /* the body makes its own */
	int only_threads, only_processes;
	int last_dies;                      /* processes: the last rank ends by a signal */
	struct oriel_window_options window; /* zero fields get the suite's defaults */
};

void contract_register(const struct contract_case *);

/* CASE(name, .shape = ..., .window = {...}) { uses e } */
#define CASE(id, ...)                                                                              \
	static void id(struct contract_env *e);                                                    \
	static const struct contract_case case_##id = { .name = #id, .body = id, __VA_ARGS__ };    \
	__attribute__((constructor)) static void add_##id(void)                                    \
	{                                                                                          \
		contract_register(&case_##id);                                                     \
	}                                                                                          \
	static void id(struct contract_env *e)

/* ---- what a kernel of the suite gets ------------------------------------------------------- */

struct contract_args {
	struct oriel_window_dev win;
	const struct oriel_window_dev *win_ptr; /* the same in memory, where a case sets it */
	struct oriel_source src;
	uint8_t *local;
	int32_t *status;
	uint64_t *wrong;
	uint64_t *out;
	int32_t rounds, mode, peer, id;
	uint64_t bytes, src_off, dst_off, value;
};

/* n rounds where few threads share the cores, fewer (never under 3) where many do. */
int contract_rounds(const struct contract_env *, int n);
/* Filled from the env; the case sets the rest. */
struct contract_args contract_args(const struct contract_env *);
/* Runs the kernel and checks that every thread reported `expect` and no wrong byte. */
void contract_launch_expect(struct contract_env *, const struct oriel_kernel *, int nblocks,
			    const struct contract_args *, int expect);
void contract_launch(struct contract_env *, const struct oriel_kernel *, int nblocks,
		     const struct contract_args *);
/* Runs the kernel and returns the status all threads of block 0 agree on (checked). */
int contract_launch_status(struct contract_env *, const struct oriel_kernel *,
			   const struct contract_args *);
/* Device memory that goes with the row; NULL counts as a failed check. */
void *contract_alloc(struct contract_env *, size_t bytes);
/* The suite's window options with the row's defaults. */
struct oriel_window_options contract_window_options(const struct contract_case *);
/* A comm of all ranks with its own deadline, on the row's topology. */
int contract_comm(struct contract_env *, double timeout_s, struct oriel_comm **comm);
double contract_now(void); /* seconds */

/* ---- device helpers ------------------------------------------------------------------------ */

/* The payload: every byte tells its round, source, destination and offset. */
ORIEL_DEV uint8_t contract_byte(uint64_t round, int source, int target, uint64_t offset)
{
	uint64_t x = round * 0x9e3779b97f4a7c15ull + ((uint64_t)source << 40) +
		     ((uint64_t)target << 48) + (offset >> 3) + 1;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	x ^= x >> 31;
	return (uint8_t)(x >> (8 * (offset & 7)));
}

/* This thread's share of `bytes`. */
ORIEL_DEV uint64_t contract_share(uint64_t bytes, uint32_t thread, uint32_t threads)
{
	return bytes / threads * thread + (thread < bytes % threads ? thread : bytes % threads);
}

ORIEL_DEV void contract_set(struct oriel_group g, uint8_t *p, uint64_t bytes, int value)
{
	uint64_t i, end = contract_share(bytes, g.thread + 1, g.size);

	for (i = contract_share(bytes, g.thread, g.size); i < end; i++)
		p[i] = (uint8_t)value;
}

ORIEL_DEV void contract_fill(struct oriel_group g, uint8_t *p, uint64_t bytes, uint64_t round,
			     int source, int target)
{
	uint64_t i, end = contract_share(bytes, g.thread + 1, g.size);

	for (i = contract_share(bytes, g.thread, g.size); i < end; i++)
		p[i] = contract_byte(round, source, target, i);
}

/* Bytes of this thread's share that are not `value`, or not the payload. */
ORIEL_DEV uint64_t contract_not(struct oriel_group g, const uint8_t *p, uint64_t bytes, int value)
{
	uint64_t i, wrong = 0, end = contract_share(bytes, g.thread + 1, g.size);

	for (i = contract_share(bytes, g.thread, g.size); i < end; i++)
		wrong += p[i] != (uint8_t)value;
	return wrong;
}

ORIEL_DEV uint64_t contract_wrong(struct oriel_group g, const uint8_t *p, uint64_t bytes,
				  uint64_t round, int source, int target)
{
	uint64_t i, wrong = 0, end = contract_share(bytes, g.thread + 1, g.size);

	for (i = contract_share(bytes, g.thread, g.size); i < end; i++)
		wrong += p[i] != contract_byte(round, source, target, i);
	return wrong;
}

ORIEL_DEV uint32_t contract_slot(struct oriel_group g)
{
	return g.block * CONTRACT_THREADS + g.thread;
}

/* Last thing a kernel does, on every thread. */
ORIEL_DEV void contract_report(const struct contract_args *a, struct oriel_group g, int err,
			       uint64_t wrong)
{
	a->status[contract_slot(g)] = err;
	a->wrong[contract_slot(g)] = wrong;
}

ORIEL_DEV int contract_right(const struct oriel_window_dev *win, int distance)
{
	return (win->comm.rank + distance) % win->comm.nranks;
}

ORIEL_DEV int contract_left(const struct oriel_window_dev *win, int distance)
{
	return (win->comm.rank + win->comm.nranks - distance % win->comm.nranks) % win->comm.nranks;
}

#endif
