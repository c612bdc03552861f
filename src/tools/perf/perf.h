/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/perf.h - the parts of oriel-perf and what they hand to each other.
 *
 *	main.c     options, order of the steps, exit status
 *	facts.c    machine, ranks and topology, gathered from all ranks
 *	agree.c    one status for all ranks
 *	engine.c   what the engine of queued peers has counted
 *	check.c    the data of a verification pass
 *	memory.c   device memory as the host sees it
 *	image.c    the kernels for a GPU, if nvcc compiled them (kernels.cu)
 *	measure.c  memory of an operation, verification passes, timing, percentiles
 *	report.c   tables in both formats
 *	json.c     the same as one JSON object
 *	ops_*.c    the operations that are one kernel on a window
 *	alltoallv.c  all-to-all-v, called from the host
 *	reduce.c     broadcast, all-reduce and reduce-scatter, called from the host
 *	allgather.c  the persistent all-gather, called from the host
 *	graph.c    captures and replays a CUDA graph
 *
 * One host thread per rank.  Every function that returns a status returns an error on all ranks
 * or on none, unless it says otherwise.
 */
#ifndef ORI_PERF_H
#define ORI_PERF_H

#include <oriel/oriel.h>

#include <stdint.h>
#include <stdio.h>

#define PERF_SAMPLES_MAX 256 /* per rank and row */
#define PERF_BLOCKS_MAX 64
#define PERF_OPS 14
#define PERF_PASSES 2 /* verified iterations of a row */
#define PERF_TEXT 96
#define PERF_FAN_BYTES 65536u /* to each peer of a fan-out */
#define PERF_COUNTS 16        /* numbers in an engine's line */
#define PERF_CPU_THREADS 32   /* per block */
#define PERF_CUDA_THREADS 512

struct perf_bed;
struct perf_job;
struct perf_op;
struct perf_rows;

/* One operation; the table of them is perf_ops. */
struct perf_op {
	const char *name;
	const char *legend;  /* one line under the table's title */
	const char *type;    /* column `type` */
	uint32_t elem_bytes; /* size / count; 0: the operation moves no user data */
	uint64_t fixed_bytes;
	int sized; /* one row per size, else one row of fixed_bytes */
	int pairs; /* ranks 2i and 2i+1 play ping-pong, time is half a round trip; else a ring */
	int to_window;              /* data arrives in the window, else in local memory */
	int from_right;             /* ... and comes from the right neighbour, else from the left */
	int staged;                 /* needs a window with staging */
	int far;                    /* ring at the distance with the most queued neighbours */
	int fan;                    /* a row is PERF_FAN_BYTES to each of 1 .. nranks - 1 peers */
	int atomics;                /* needs a NIC with atomics */
	const char *variants[2];    /* two rows per size, with these words in column `type` */
	const struct perf_op *with; /* also runs when the user asks for that operation */
	const struct oriel_kernel *kernel;
	/* not NULL: runs the whole table, uses only the texts above, and is not part of "all" */
	int (*run)(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows);
	/* extra check on the host after a verification pass of n operations, or NULL; collective */
	int (*verify)(struct perf_bed *bed, int pass, uint32_t n, uint64_t *wrong);
};

extern const struct perf_op *const perf_ops[PERF_OPS];
extern const struct perf_op perf_op_put, perf_op_get, perf_op_put_signal, perf_op_signal,
	perf_op_barrier, perf_op_sendrecv, perf_op_atomics, perf_op_completion, perf_op_fanout,
	perf_op_alltoallv, perf_op_allgather, perf_op_broadcast, perf_op_allreduce,
	perf_op_reducescatter;

/* How all-to-all-v distributes bytes among peers. */
enum perf_split { PERF_UNIFORM, PERF_RANDOM, PERF_SKEW };

struct perf_options {
	const struct perf_op *op; /* NULL: all */
	uint64_t begin, end, factor;
	uint32_t iterations; /* 0: by size */
	int warm;            /* -1: by iterations */
	int check;
	int blocks, threads; /* threads 0: by device */
	const char *device;  /* NULL: the library's default */
	int cuda;            /* 1: by --device or ORIEL_DEVICE */
	int quick;
	int nccl; /* --format nccl */
	const char *json;
	enum perf_split split; /* alltoallv */
	uint64_t seed;
	int explain;
	int algorithm;  /* allgather */
	int graph;      /* allgather: capture an exec in a CUDA graph and replay it */
	char line[512]; /* the flags of the command line */
};

/* What a rank tells the others about itself, through oriel_comm_allgather. */
struct perf_rank {
	char host[64];
	char device[32];
	int32_t pid;
	int32_t node, node_rank, node_size;
	int32_t no_atomics; /* the NIC to a queued peer, or the GPU of a mapped one, has none */
	uint32_t reserved;
	uint64_t available_bytes;
};

struct perf_facts {
	char date[32], cpu[PERF_TEXT], kernel[PERF_TEXT];
	long cores;
	char share[PERF_TEXT]; /* CUDA: how ranks share a GPU */
	int nranks, nodes;
	struct perf_rank *ranks;    /* [nranks] */
	uint8_t *kinds;             /* [rank][peer]: ORIEL_PEER_* */
	char (*reasons)[PERF_TEXT]; /* [rank][peer], or only rank 0's row when has_all is 0 */
	int has_all;
	int queued;     /* ordered pairs that are queued peers */
	int no_atomics; /* as in struct perf_rank, for any rank */
};

/* What the engines of all ranks have counted, summed: a name such as "soft", and numbers. */
struct perf_engine {
	char name[32];
	int n;
	struct {
		char key[32];
		uint64_t count;
	} counts[PERF_COUNTS];
};

struct perf_job {
	const struct perf_options *opt;
	struct oriel_comm *comm;
	int rank, nranks;
	struct perf_facts facts;
	struct perf_engine engine;
};

/* Window and memory of one operation, for all its sizes. */
struct perf_bed {
	struct perf_job *job;
	const struct perf_op *op;
	struct oriel_window *window;
	uint8_t *local;             /* device memory: page, data, page */
	uint8_t *stage;             /* host copy of `local`; NULL if the host can access `local` */
	struct oriel_source source; /* `local`, registered with the window */
	uint64_t *results;          /* device memory: times, wrong, seen */
	uint64_t *results_host;     /* a copy of them, after each kernel */
	uint64_t area_bytes;        /* room for data in `local` and in the window */
	uint64_t chunk;
	uint64_t seen;
	int shift; /* distance of the neighbour on the ring */
};

struct perf_row {
	const struct perf_op *op;
	const char *type;
	int variant;
	int fan;         /* peers of a fan-out, else 0 */
	int unsupported; /* the NIC cannot do it: nothing was measured */
	uint64_t bytes, count;
	double time_us, algbw, busbw;
	double p50_us, p99_us;
	double again_us; /* second timed run, nccl format only */
	uint64_t wrong;
	int checked;
	uint32_t iterations, batch;
};

/* All rows of the run, for the JSON file of rank 0. */
struct perf_rows {
	struct perf_row *row;
	size_t n, room;
};

/* How often the operation of a row runs. */
struct perf_plan {
	uint32_t iterations, warm, samples, batch;
};

/* main.c: rank 0 prints the row; all ranks keep it */
int perf_row_end(struct perf_job *job, const struct perf_row *row, struct perf_rows *rows);
/* Calls fn for every size that the flags ask for. */
int perf_sizes_each(const struct perf_options *o, int (*fn)(void *ctx, uint64_t bytes), void *ctx);

/* facts.c */
int perf_facts_gather(struct perf_job *job);
void perf_facts_free(struct perf_facts *facts);
int perf_local_ranks(const struct perf_job *job, int rank); /* ranks on that rank's host */

/* agree.c */
int perf_agree(struct perf_job *job, int status, const char *what);

/* measure.c */
int perf_memory_check(struct perf_job *job, const struct perf_op *op);
int perf_bed_open(struct perf_job *job, const struct perf_op *op, struct perf_bed *bed);
int perf_bed_close(struct perf_bed *bed);
/* Measures the row that bytes, variant and fan describe, and fills in the rest. */
int perf_row_measure(struct perf_bed *bed, struct perf_row *row);
struct perf_plan perf_plan_make(const struct perf_options *opt, uint64_t bytes);
/* Percentiles, #wrong and the slowest rank's time, from at most PERF_SAMPLES_MAX samples. */
int perf_samples_join(struct perf_job *job, const float *samples, uint32_t nsamples, uint64_t wrong,
		      struct perf_row *row, double *time_us);

/* allgather.c: the number of an algorithm; -1: there is none of that name */
int perf_gather_algorithm(const char *name);

/* graph.c: CUDA only; not collective */
struct perf_graph;
int perf_graph_capture(int (*fn)(void *ctx, void *stream), void *ctx, struct perf_graph **graph);
int perf_graph_replay(struct perf_graph *graph);
int perf_graph_sync(struct perf_graph *graph);
void perf_graph_free(struct perf_graph *graph);

/* engine.c */
int perf_engine_gather(struct perf_job *job);

/* memory.c: not collective.  One range is open at a time. */
/*
 * Gives the host access to `bytes` at `at` (window or local memory), on CUDA through a copy.
 * `fetch`: the copy has the present content.
 */
int perf_memory_open(struct perf_bed *bed, uint8_t *at, uint64_t bytes, int fetch, uint8_t **host);
/* Copies what the host has stored there to device memory. */
int perf_memory_store(struct perf_bed *bed, uint8_t *at, uint64_t bytes);
int perf_memory_zero(struct perf_bed *bed, uint8_t *at, uint64_t bytes);

/* image.c: call it before the comm is created; not collective */
int perf_image_add(int say);

/* check.c: not collective */
int perf_check_fill(struct perf_bed *bed, int pass, uint64_t bytes);
int perf_check_count(struct perf_bed *bed, int pass, uint64_t bytes, uint64_t *wrong);

/* report.c: called on rank 0 only */
void perf_report_head(const struct perf_job *job);
void perf_report_op(const struct perf_job *job, const struct perf_op *op);
void perf_report_row(const struct perf_job *job, const struct perf_row *row);
void perf_report_tail(const struct perf_job *job, const struct perf_rows *rows);
const char *perf_kind_name(int kind);
/* Calls fn for every different (kind, reason) with the number of ordered pairs that have it. */
void perf_reasons_each(const struct perf_facts *f,
		       void (*fn)(void *ctx, int kind, const char *reason, long pairs), void *ctx);

/* json.c: rank 0 only; not collective */
int perf_json_probe(const char *path);
int perf_json_write(const struct perf_job *job, const struct perf_rows *rows);

#endif
