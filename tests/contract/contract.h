/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/contract.h - the frame of the contract suite: one set of cases, run over every
 * transport, number of ranks and group size, with ranks as threads and as processes.
 *
 * A case is a rank function.  Most cases launch one kernel and check what it left.  contract_rows.c
 * owns the table of transports; a new transport is one line there.  It makes one test per case and
 * row, named case/transport/Nranks/group/threads|processes.  contract.c runs it through
 * ranks_run().
 *
 * The rows depend on the device, ORIEL_DEVICE.  On the CPU a group is a block of 1, 4 or 32
 * threads.  On a GPU it is a block of 1 to 512 threads, or a warp or a thread of a larger block.
 *
 * ORIEL_CONTRACT holds words that choose rows or describe the machine:
 *	threads    only rows with thread ranks
 *	processes  only rows with processes
 *	quick      without the rows that have hundreds of threads
 *	wide       only the rows that have hundreds of threads
 *	narrow     without groups of 32
 *	few        without two of three rows with processes (CUDA: without half of the rows, and
 *		   without most rows with processes)
 *	nokill     without the cases that kill a rank
 *	kill       only the cases that kill a rank
 *	fake       the CUDA device is tests/fake_cuda, whose threads are CPU threads
 *	mlx5       tests/mlx5_stub executes the queues
 *	fabric     ranks are processes on two hosts of an NVLink fabric of the fake driver
 *
 * These files are C and CUDA: nvcc builds programs from the same sources that run on either device
 * (tests/cuda/CMakeLists.txt).  So host code must be both C and C++, and may touch device memory
 * only through contract_read() and similar functions.
 */
#ifndef ORI_TEST_CONTRACT_H
#define ORI_TEST_CONTRACT_H

#include <oriel/device.h>
#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CONTRACT_THREADS 512 /* threads a group may have */
#define CONTRACT_BLOCKS 16   /* blocks a case may launch */
#define CONTRACT_SLOTS (CONTRACT_THREADS * CONTRACT_BLOCKS)
#define CONTRACT_OUT 4       /* words a thread may leave */
#define CONTRACT_GUARD 0xee  /* bytes nobody may write */
#define CONTRACT_UNSET 12345 /* status of a thread that never reported */

/* ---- rows and cases ------------------------------------------------------------------------ */

struct contract_row {
	const char *transport;
	const char *topology; /* comm option; NULL: as found */
	int ranks, processes;
	int threads;  /* of a group */
	int launched; /* threads of a block; more than the group's: the others are idle */
	int scope;    /* ORIEL_GROUP_* */
	int hosts;    /* of ranks.h */
};

enum contract_shape {
	/* every (ranks, group), threads and processes in turn; CUDA: some groups in turn */
	CONTRACT_PAIRS,
	CONTRACT_FULL, /* every row; CUDA: threads and processes in turn */
	CONTRACT_HOST, /* groups of one thread: the case launches no kernel, or does not care */
};

struct contract_env {
	int rank, nranks;
	int threads;   /* of a group */
	int processes; /* ranks are processes */
	int launched;  /* threads of a block, idle ones too */
	int cuda;      /* device memory is not the host's, launches are asynchronous */
	const struct contract_row *row;
	struct rank_env *ranks;
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	struct oriel_window *window; /* NULL with no_window, as all below to src */
	struct oriel_window_dev win;
	uint8_t *buffer;         /* own window memory, the device's */
	uint64_t bytes;          /* of the window, and of local */
	uint8_t *local;          /* source and target memory of this rank, the device's */
	struct oriel_source src; /* names local */
	/* what the last launch left, the host's: [block * CONTRACT_THREADS + thread] */
	int32_t *status;
	uint64_t *wrong;
	uint64_t *out; /* [...][CONTRACT_OUT] */
	/* where kernels leave it */
	int32_t *dev_status;
	uint64_t *dev_wrong;
	uint64_t *dev_out;
	uint8_t *scratch; /* CUDA: CONTRACT_SCRATCH bytes of contract_scratch() */
	void *allocs[24];
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
int contract_on_cuda(void);  /* ORIEL_DEVICE says so */
int contract_is_fake(void);  /* and it is tests/fake_cuda */
int contract_is_mlx5(void);  /* queued peers are the mlx5 engine's, over tests/mlx5_stub */
void contract_run_row(void); /* the running test: contract.c */

struct contract_test {
	struct check_test test; /* first: check_running points at it */
	const struct contract_case *c;
	struct contract_row row;
	const char *why_not; /* the reason, for a case that is skipped */
	char name[112];
};

/* CASE(name, c.shape = ..., c.window.bytes = ...) { uses e }; CASE(name, 0) is all default. */
#define CASE(id, ...)                                                                              \
	static void id(struct contract_env *e);                                                    \
	__attribute__((constructor)) static void add_##id(void)                                    \
	{                                                                                          \
		static struct contract_case c;                                                     \
		c.name = #id;                                                                      \
		c.body = id;                                                                       \
		(void)(__VA_ARGS__);                                                               \
		contract_register(&c);                                                             \
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
	int32_t scope; /* ORIEL_GROUP_*: which threads of a block are the group */
	int32_t reserved;
};

#define CONTRACT_SCRATCH 8192

/* ThreadSanitizer looks at every access, and orders what it has seen: fewer rounds and bytes do. */
#ifdef __SANITIZE_THREAD__
#define CONTRACT_SLOW 4
#else
#define CONTRACT_SLOW 1
#endif

/* n rounds where few threads share the cores, fewer (never under 3) where many do; n on a GPU. */
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
/* The kernel as oriel_launch() takes it on this row's device. */
const struct oriel_kernel *contract_kernel(const struct oriel_kernel *);

/* ---- device memory, from the host: plain accesses on the CPU --------------------------------- */

/* Both wait for what the comm's own stream still has to do, then copy. */
void contract_read(struct contract_env *, void *to, const void *from, size_t bytes);
void contract_write(struct contract_env *, void *to, const void *from, size_t bytes);
void contract_fill_bytes(struct contract_env *, void *to, int value, size_t bytes);
/* How many of the bytes are not `value`. */
uint64_t contract_bytes_not(struct contract_env *, const void *from, int value, size_t bytes);
uint64_t contract_word(struct contract_env *, const void *from);
/*
 * Host memory as a source the device can read: itself, or (CUDA) the scratch memory with its bytes.
 */
void *contract_scratch(struct contract_env *, void *mine, size_t bytes);
/* Words of a window of this rank. */
uint64_t contract_signal(struct contract_env *, const struct oriel_window_dev *, int id);
uint64_t contract_signal_from(struct contract_env *, const struct oriel_window_dev *, int peer,
			      int id);
uint64_t contract_counter(struct contract_env *, const struct oriel_window_dev *, int peer, int id);
/* How a host-issued operation that returned `status` ended: on CUDA its failure is the window's. */
int contract_issued(struct contract_env *, struct oriel_comm *, struct oriel_window *, int status);

#ifdef __cplusplus
}
#endif

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

/* The group of a row: the block, the last warp of the block, or its last thread. */
ORIEL_DEV struct oriel_group contract_group(const struct contract_args *a)
{
	if (a->scope == ORIEL_GROUP_THREAD)
		return oriel_group_thread();
	return a->scope == ORIEL_GROUP_WARP ? oriel_group_warp() : oriel_group_block();
}

/* Is the calling thread none of the group's? */
ORIEL_DEV int contract_is_idle(const struct contract_args *a)
{
	struct oriel_group block = oriel_group_block();

	if (a->scope == ORIEL_GROUP_THREAD)
		return block.thread != block.size - 1;
	return a->scope == ORIEL_GROUP_WARP && block.thread / 32 != (block.size - 1) / 32;
}

ORIEL_DEV uint32_t contract_slot(struct oriel_group g)
{
	return g.block * CONTRACT_THREADS + g.thread;
}

/* What this thread reported; a kernel returns it, too, so every case tests how it travels. */
ORIEL_DEV int contract_reported(const struct contract_args *a, struct oriel_group g)
{
	int status = a->status[contract_slot(g)];

	return status == CONTRACT_UNSET ? 0 : status;
}

/* A kernel of the suite: its body has `a`, the arguments, and `g`, the group of the row. */
#define CONTRACT_KERNEL(name)                                                                      \
	ORIEL_DEV void name##_case(const struct contract_args *a, struct oriel_group g);           \
	ORIEL_KERNEL(name, struct contract_args)                                                   \
	{                                                                                          \
		if (contract_is_idle(a))                                                           \
			return 0;                                                                  \
		name##_case(a, contract_group(a));                                                 \
		return contract_reported(a, contract_group(a));                                    \
	}                                                                                          \
	ORIEL_DEV void name##_case(const struct contract_args *a, struct oriel_group g)

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
