/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/perf.h - the parts of oriel-perf and what they hand to each other.
 *
 *	main.c     order of the steps, exit status
 *	options.c  the command line
 *	help.c     the text of --help
 *	facts.c    machine, ranks and topology, gathered from all ranks
 *	agree.c    one status for all ranks
 *	engine.c   what the engine of queued peers has counted
 *	check.c    the data of a verification pass
 *	memory.c   device memory as the host sees it
 *	image.c    the kernels for a GPU, if nvcc compiled them (kernels.cu)
 *	measure.c  memory of an operation, verification passes, timing, percentiles
 *	results.c  what a kernel measures, and how the host gets it
 *	rates.c    bandwidths of a row
 *	limit.c    the speed of memcpy, as a limit in a plot
 *	head.c     what is printed before the first table
 *	report.c   tables in all formats
 *	progress.c  a line on the terminal
 *	file.c     files that appear complete or not at all
 *	json.c     the run as one JSON object
 *	json_read.c  reads a JSON file
 *	compare.c  compares the rows with those of a JSON file
 *	plot.c     a picture of the rows, drawn by gnuplot
 *	child.c    runs another program, such as gnuplot
 *	ops_*.c    the operations that are one kernel on a window
 *	alltoallv.c  all-to-all and all-to-all-v, called from the host
 *	reduce.c     broadcast, all-reduce and reduce-scatter, called from the host
 *	allgather.c  the persistent all-gather, called from the host
 *	inside.c   collectives inside a kernel; their kernels are in ops_coll.c
 *	inside_v.c  all-to-all-v inside a kernel
 *	team.c     the team of both
 *	split.c    how an all-to-all-v distributes its bytes
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
#define PERF_OPS 16
#define PERF_QUICK_SIZES 4
#define PERF_PASSES 2 /* verified iterations of a row */
#define PERF_TEXT 96
#define PERF_FAN_BYTES 65536u /* to each peer of a fan-out */
#define PERF_PACKET_BYTES 65536u
#define PERF_COUNTS 16      /* numbers in an engine's line */
#define PERF_CPU_THREADS 32 /* per block */
#define PERF_CUDA_THREADS 512

struct perf_args;
struct perf_bed;
struct perf_job;
struct perf_op;
struct perf_rows;

/* How much data an operation moves, for the rates of a row. */
enum perf_traffic {
	PERF_TRAFFIC_PEER,   /* the bytes of the row go to one peer, or to a few */
	PERF_TRAFFIC_BLOCKS, /* they are a block, and there is one per rank */
	PERF_TRAFFIC_ONCE,   /* they are all data, which goes to every rank */
	PERF_TRAFFIC_TWICE,  /* they are all data, which is collected and goes to every rank */
};

/* Where an operation can have its result. */
enum perf_place {
	PERF_OUT_OF_PLACE,
	PERF_EITHER_PLACE, /* in the buffer of the input too */
	PERF_IN_PLACE,     /* only there */
};

/* One operation; the table of them is perf_ops. */
struct perf_op {
	const char *name;
	const char *legend;  /* one line under the table's title */
	const char *type;    /* column `type` */
	const char *element; /* type of an element; NULL: it is `type` */
	int typed;           /* rows of one table differ in `type`, so it is shown */
	uint32_t elem_bytes; /* size / count; 0: the operation moves no user data */
	enum perf_traffic traffic;
	enum perf_place place;
	int sums;   /* it adds up elements */
	int copies; /* a mapped peer of a CPU gets the data by one copy: memcpy is its limit */
	uint64_t fixed_bytes;
	int sized; /* one row per size, else one row of fixed_bytes */
	int pairs; /* ranks 2i and 2i+1 play ping-pong, time is half a round trip; else a ring */
	int to_window;              /* data arrives in the window, else in local memory */
	int from_right;             /* ... and comes from the right neighbour, else from the left */
	int staged;                 /* needs a window with staging */
	int boxed;                  /* needs a window with a box per block */
	uint64_t most_bytes;        /* larger sizes have no row; 0: all have one */
	int far;                    /* ring at the distance with the most queued neighbours */
	int fan;                    /* a row is PERF_FAN_BYTES to each of 1 .. nranks - 1 peers */
	int atomics;                /* needs a NIC with atomics */
	const char *variants[2];    /* two rows per size, with these words in column `type` */
	const struct perf_op *with; /* also runs when the user asks for that operation */
	const struct oriel_kernel *kernel;
	const struct oriel_kernel *on_line; /* the kernel for --line; NULL: there is none */
	int parted;                         /* on a line: blocks divide the peers, not the data */
	int windowed;                       /* --windows: its buffers can lie in windows */
	/* of a collective that the host calls: the same inside a kernel, for --in-kernel */
	const struct perf_op *inside;
	/* not NULL: runs the whole table, uses only the texts above, and is not part of "all" */
	int (*run)(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows);
	/* extra check on the host after a verification pass of n operations, or NULL; collective */
	int (*verify)(struct perf_bed *bed, int pass, uint32_t n, uint64_t *wrong);
};

extern const struct perf_op *const perf_ops[PERF_OPS];
extern const struct perf_op perf_op_put, perf_op_get, perf_op_put_signal, perf_op_signal,
	perf_op_packet, perf_op_barrier, perf_op_sendrecv, perf_op_atomics, perf_op_completion,
	perf_op_fanout, perf_op_alltoall, perf_op_alltoallv, perf_op_allgather, perf_op_broadcast,
	perf_op_allreduce, perf_op_reducescatter;
/* ops_coll.c: the collectives inside a kernel */
extern const struct perf_op perf_inside_broadcast, perf_inside_allgather, perf_inside_alltoall,
	perf_inside_alltoallv, perf_inside_allreduce, perf_inside_reducescatter;

extern const uint64_t perf_quick_sizes[PERF_QUICK_SIZES];

/* How all-to-all-v distributes bytes among peers. */
enum perf_split { PERF_UNIFORM, PERF_RANDOM, PERF_SKEW };

enum perf_format { PERF_FORMAT_ORIEL, PERF_FORMAT_NCCL, PERF_FORMAT_CSV };

struct perf_options {
	const struct perf_op *op; /* NULL: all */
	uint64_t begin, end, factor;
	uint32_t iterations; /* 0: by size */
	int warm;            /* -1: by iterations */
	int check;
	int blocks, threads; /* threads 0: by device */
	const char *device;  /* NULL: the library's default */
	int cuda;            /* 1: by --device or ORIEL_DEVICE */
	int quick, verbose;
	int in_kernel;  /* collectives are called inside a kernel */
	int on_line;    /* operations are made on a line, which a kernel holds open */
	int in_windows; /* the buffers of a collective lie in windows */
	enum perf_format format;
	const char *json, *plot, *compare; /* files; NULL: none */
	double tolerance;                  /* --compare: percent */
	double limit;                      /* --plot: GB/s; 0: none was given */
	enum perf_split split;             /* alltoallv */
	uint64_t seed;
	int explain;
	int algorithm;  /* allgather */
	int policy;     /* allgather */
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
	struct perf_past *past; /* --compare, rank 0: the rows of the run before */
	/* rank 0, for the line of progress */
	const struct perf_op *current;
	int rows_begun; /* of it */
};

/* What the blocks of a kernel measure: times, wrong, seen (struct perf_args). */
struct perf_results {
	uint64_t *device; /* memory that kernels write */
	uint64_t *host;   /* a copy, after each kernel */
};

/* Window and memory of one operation, for all its sizes. */
struct perf_bed {
	struct perf_job *job;
	const struct perf_op *op;
	struct oriel_window *window;
	uint8_t *local;             /* device memory: page, data, page */
	uint8_t *stage;             /* host copy of `local`; NULL if the host can access `local` */
	struct oriel_source source; /* `local`, registered with the window */
	struct perf_results results;
	uint64_t area_bytes; /* room for data in `local` and in the window */
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
	double in_place_us; /* nccl format and PERF_EITHER_PLACE only, else 0 */
	double limit;       /* GB/s that memcpy reaches; 0: not measured */
	double past_us;     /* --compare: median of the run before; 0: it has no such row */
	uint64_t wrong, in_place_wrong; /* all; those of passes in place */
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

/* help.c */
extern const char perf_help_text[];

/* options.c: 0; an exit status; or -1 for --help and --version, which it has printed */
int perf_options_parse(int argc, char **argv, struct perf_options *o);
/* For errors before the ranks have met: all have the same command line, so only one prints. */
int perf_is_first(void);

/* main.c: rank 0 prints the row; all ranks keep it */
int perf_row_end(struct perf_job *job, struct perf_row *row, struct perf_rows *rows);
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

/* results.c: not collective */
int perf_results_open(struct perf_job *job, struct perf_results *r);
void perf_results_close(struct perf_job *job, struct perf_results *r);
/* Where the kernel writes them. */
void perf_results_set(const struct perf_job *job, const struct perf_results *r,
		      struct perf_args *a);
/* After the kernel: the host's copy, and `a` points into it. */
int perf_results_fetch(const struct perf_job *job, const struct perf_results *r,
		       struct perf_args *a);
/* Microseconds per operation of each sample: the time of its slowest block, times `scale`. */
void perf_results_samples(const struct perf_job *job, const struct perf_args *a, double scale,
			  float *us);

/* inside.c, inside_v.c */
int perf_inside_run(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows);
int perf_inside_v_run(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows);

/* progress.c: not collective */
void perf_progress_row(struct perf_job *job, const struct perf_op *op, uint64_t bytes);
void perf_progress_clear(const struct perf_job *job);

/* rates.c: not collective */
/* Bytes that the rate algbw counts: of all ranks, for collectives. */
uint64_t perf_total_bytes(const struct perf_op *op, uint64_t bytes, int nranks);
/* busbw / algbw, as nccl-tests counts them. */
double perf_bus_factor(const struct perf_op *op, int nranks);
/* Is busbw a number of its own? */
int perf_has_bus(const struct perf_op *op, int nranks);
/* GB/s of the row's bytes in that time. */
double perf_algbw(const struct perf_row *row, int nranks, double us);
void perf_rates_set(struct perf_row *row, int nranks);

/* limit.c: fills in the limit of a row that copies */
int perf_limit_measure(struct perf_job *job, struct perf_row *row);

/* allgather.c: the number of an algorithm; -1: there is none of that name */
int perf_gather_algorithm(const char *name);
int perf_gather_policy(const char *name); /* likewise */

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

/* head.c: called on rank 0 only */
void perf_report_head(const struct perf_job *job);
const char *perf_kind_name(int kind);
/* Calls fn for every different (kind, reason) with the number of ordered pairs that have it. */
void perf_reasons_each(const struct perf_facts *f,
		       void (*fn)(void *ctx, int kind, const char *reason, long pairs), void *ctx);

/* report.c: called on rank 0 only */
void perf_report_names(const struct perf_job *job);
void perf_report_op(const struct perf_job *job, const struct perf_op *op);
void perf_report_row(const struct perf_job *job, const struct perf_row *row);
void perf_report_tail(const struct perf_job *job, const struct perf_rows *rows);

/* file.c: rank 0 only; not collective.  A reader never sees half a file. */
#define PERF_PATH_BYTES 4096
struct perf_file {
	const char *path;
	char temporary[PERF_PATH_BYTES];
	FILE *stream;
};
int perf_file_probe(const char *path); /* tests before the measurements */
int perf_file_open(struct perf_file *file, const char *path);
int perf_file_close(struct perf_file *file, int failed); /* failed: there is no file then */

/* json.c: rank 0 only; not collective */
#define PERF_SCHEMA "oriel-perf"
#define PERF_SCHEMA_VERSION 1
int perf_json_write(const struct perf_job *job, const struct perf_rows *rows);

/* compare.c: rank 0 only; not collective */
int perf_past_read(const char *path, struct perf_past **past);
void perf_past_free(struct perf_past *past);
double perf_past_find(const struct perf_past *past, const struct perf_row *row);
/* Reports rows that are slower than allowed.  Returns 0, 1 (no row could be compared) or 3. */
int perf_past_judge(const struct perf_job *job, const struct perf_rows *rows);

/* plot.c: rank 0 only; not collective */
int perf_plot_probe(const struct perf_options *o);
int perf_plot_write(const struct perf_job *job, const struct perf_rows *rows);

#endif
