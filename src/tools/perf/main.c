/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/main.c - oriel-perf: options, order of the steps, exit status.
 *
 * Uses oriel_boot_env(): run it under oriel-run, or alone as one rank.  Exit status, the same on
 * every rank: 0; 1 if something failed or data was wrong; 2 for a bad command line.  Only rank 0
 * prints; a rank that fails prints its own error.
 */
#include "perf.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (1ull << 46)

const struct perf_op *const perf_ops[PERF_OPS] = {
	&perf_op_put,       &perf_op_get,           &perf_op_put_signal, &perf_op_signal,
	&perf_op_barrier,   &perf_op_sendrecv,      &perf_op_atomics,    &perf_op_completion,
	&perf_op_fanout,    &perf_op_alltoallv,     &perf_op_allgather,  &perf_op_broadcast,
	&perf_op_allreduce, &perf_op_reducescatter,
};

static const uint64_t quick_sizes[] = { 8, 4096, 65536, 1u << 20 };

static const char help_text[] =
	"usage: oriel-perf OP [options]               one rank\n"
	"       oriel-run -n 8 oriel-perf OP [options]\n"
	"\n"
	"Measures an operation and checks every byte.  OP is put, get, put_signal, signal,\n"
	"barrier, sendrecv, atomics or completion; all runs these (completion only if there are\n"
	"queued peers).  The collectives are allgather, alltoallv, broadcast, allreduce and\n"
	"reducescatter.\n"
	"\n"
	"  -b SIZE           smallest size in bytes; K, M and G are factors of 1024 (default 8)\n"
	"  -e SIZE           largest size (default 8M)\n"
	"  -f FACTOR         each size is FACTOR times the one before (default 4)\n"
	"  -n N              timed iterations per row (default 20 to 4000, depending on the size;\n"
	"                    100 with --format nccl)\n"
	"  -w N              warm-up iterations per row (default: a tenth of -n)\n"
	"  -c 0|1            1: check the data, in separate iterations (default 1)\n"
	"  --blocks N        blocks per launch, 1 to 64; they share the data (default 1)\n"
	"  --threads N       threads per block: cpu 1 to 32 (default 1), cuda 1 to 512\n"
	"                    (default 512)\n"
	"  --device NAME     cpu, cuda or cuda:N (default: ORIEL_DEVICE, or cpu)\n"
	"  --quick           only 8 B, 4 KiB, 64 KiB and 1 MiB, with few iterations\n"
	"  --json FILE       also write environment, topology and rows as JSON\n"
	"  --format NAME     oriel (default), or nccl: the columns of nccl-tests\n"
	"  --split NAME      alltoallv: uniform (default), random, or skew (one peer gets half of\n"
	"                    all bytes); the size is the average per peer\n"
	"  --seed N          alltoallv: seed of random splits (default 1)\n"
	"  --algorithm NAME  allgather, between nodes: auto (default), direct, ring or doubling\n"
	"  --graph           allgather and reductions with cuda: capture a graph and replay it\n"
	"  --explain         allgather: print the algorithm of each size and the estimated time\n"
	"                    of the others; alltoallv: print the plan of each size, the reason\n"
	"                    for it and its estimated time\n"
	"  --help            print this text\n"
	"\n"
	"The column #wrong counts wrong bytes; for signal and barrier it counts waits that ended\n"
	"too early.  The exit status is 1 if #wrong is not 0 or a call failed, and 2 for a wrong\n"
	"command line.\n";

/* ---- flags ----------------------------------------------------------------------------------- */

/* For errors before the ranks have met: all have the same command line, so only one prints. */
static int is_first(void)
{
	const char *rank = getenv("RANK");

	return !rank || !*rank || !strcmp(rank, "0");
}

static int usage(const char *what, const char *value)
{
	if (is_first())
		fprintf(stderr, "oriel-perf: %s '%s' (try oriel-perf --help)\n", what, value);
	return 2;
}

static int parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	char *end;
	uint64_t v;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end || v < least || v > most)
		return -1;
	*out = v;
	return 0;
}

static int parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMG";
	size_t len = strlen(text);
	const char *unit;
	char digits[32];
	unsigned shift = 0;
	uint64_t v;

	if (!len || len >= sizeof(digits))
		return -1;
	memcpy(digits, text, len + 1);
	unit = strchr(units, digits[len - 1] & ~0x20);
	if (digits[len - 1] > '9' && unit && *unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		digits[len - 1] = '\0';
	}
	if (parse_number(digits, 1, SIZE_LIMIT >> shift, &v))
		return -1;
	*out = v << shift;
	return 0;
}

enum {
	FLAG_BLOCKS = 256,
	FLAG_THREADS,
	FLAG_DEVICE,
	FLAG_QUICK,
	FLAG_JSON,
	FLAG_FORMAT,
	FLAG_SPLIT,
	FLAG_SEED,
	FLAG_EXPLAIN,
	FLAG_ALGORITHM,
	FLAG_GRAPH,
	FLAG_HELP
};

static const struct option long_flags[] = {
	{ "blocks", required_argument, NULL, FLAG_BLOCKS },
	{ "threads", required_argument, NULL, FLAG_THREADS },
	{ "device", required_argument, NULL, FLAG_DEVICE },
	{ "quick", no_argument, NULL, FLAG_QUICK },
	{ "json", required_argument, NULL, FLAG_JSON },
	{ "format", required_argument, NULL, FLAG_FORMAT },
	{ "split", required_argument, NULL, FLAG_SPLIT },
	{ "seed", required_argument, NULL, FLAG_SEED },
	{ "explain", no_argument, NULL, FLAG_EXPLAIN },
	{ "algorithm", required_argument, NULL, FLAG_ALGORITHM },
	{ "graph", no_argument, NULL, FLAG_GRAPH },
	{ "help", no_argument, NULL, FLAG_HELP },
	{ NULL, 0, NULL, 0 },
};

static int set_number(struct perf_options *o, int flag, const char *text)
{
	uint64_t v = 0;

	switch (flag) {
	case 'f':
		return parse_number(text, 2, 1u << 20, &o->factor) ?
			       usage("-f needs a number of at least 2, not", text) :
			       0;
	case 'n':
		if (parse_number(text, 1, 1000000000, &v))
			return usage("-n needs a number of at least 1, not", text);
		o->iterations = (uint32_t)v;
		return 0;
	case 'w':
		if (parse_number(text, 0, 1000000000, &v))
			return usage("-w needs a number of at least 0, not", text);
		o->warm = (int)v;
		return 0;
	case 'c':
		if (parse_number(text, 0, 1, &v))
			return usage("-c needs 0 or 1, not", text);
		o->check = (int)v;
		return 0;
	case FLAG_BLOCKS:
		if (parse_number(text, 1, PERF_BLOCKS_MAX, &v))
			return usage("--blocks needs 1 to 64, not", text);
		o->blocks = (int)v;
		return 0;
	default:
		if (parse_number(text, 1, PERF_CUDA_THREADS, &v))
			return usage("--threads needs 1 to 32, with cuda 1 to 512, not", text);
		o->threads = (int)v;
		return 0;
	}
}

static int set_split(struct perf_options *o, const char *name)
{
	static const char *const names[] = { "uniform", "random", "skew" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(names[i], name)) {
			o->split = (enum perf_split)i;
			return 0;
		}
	return usage("--split needs uniform, random or skew, not", name);
}

/* 0, an exit status, or -1 for --help. */
static int set_flag(struct perf_options *o, int flag, const char *text, const char *word)
{
	switch (flag) {
	case 'b':
		return parse_size(text, &o->begin) ?
			       usage("-b needs a size such as 64K, not", text) :
			       0;
	case 'e':
		return parse_size(text, &o->end) ? usage("-e needs a size such as 64K, not", text) :
						   0;
	case FLAG_DEVICE:
		o->device = text;
		return 0;
	case FLAG_QUICK:
		o->quick = 1;
		return 0;
	case FLAG_JSON:
		o->json = text;
		return 0;
	case FLAG_FORMAT:
		o->nccl = !strcmp(text, "nccl");
		return o->nccl || !strcmp(text, "oriel") ?
			       0 :
			       usage("--format needs oriel or nccl, not", text);
	case FLAG_SPLIT:
		return set_split(o, text);
	case FLAG_SEED:
		return parse_number(text, 0, UINT64_MAX, &o->seed) ?
			       usage("--seed needs a number, not", text) :
			       0;
	case FLAG_EXPLAIN:
		o->explain = 1;
		return 0;
	case FLAG_ALGORITHM:
		o->algorithm = perf_gather_algorithm(text);
		return o->algorithm < 0 ?
			       usage("--algorithm needs auto, direct, ring or doubling, not",
				     text) :
			       0;
	case FLAG_GRAPH:
		o->graph = 1;
		return 0;
	case FLAG_HELP:
		return -1;
	case '?':
		return usage("unknown option", word);
	case ':':
		return usage("a value is missing after", word);
	default:
		return set_number(o, flag, text);
	}
}

static int set_op(struct perf_options *o, const char *name)
{
	for (int i = 0; i < PERF_OPS; i++)
		if (!strcmp(perf_ops[i]->name, name))
			o->op = perf_ops[i];
	return o->op || !strcmp(name, "all") ? 0 : usage("unknown operation", name);
}

static void keep_line(struct perf_options *o, int argc, char **argv)
{
	size_t n = 0;

	for (int i = 1; i < argc && n < sizeof(o->line); i++)
		n += (size_t)snprintf(o->line + n, sizeof(o->line) - n, "%s%s", i > 1 ? " " : "",
				      argv[i]);
}

/* Called after all flags have been read: some defaults depend on the device. */
static int set_device(struct perf_options *o)
{
	const char *device = o->device ? o->device : getenv("ORIEL_DEVICE");

	o->cuda = device && !strncmp(device, "cuda", 4);
	if (!o->threads)
		o->threads = o->cuda ? PERF_CUDA_THREADS : 1;
	if (!o->cuda && o->threads > PERF_CPU_THREADS)
		return usage("on the CPU --threads can be at most 32; see", o->line);
	if (!o->cuda && o->graph)
		return usage("--graph needs --device cuda, which is missing in", o->line);
	return 0;
}

static int parse(int argc, char **argv, struct perf_options *o)
{
	int flag, err = 0;

	keep_line(o, argc, argv); /* before getopt moves the words */
	opterr = 0;
	while (!err && (flag = getopt_long(argc, argv, ":b:e:f:n:w:c:", long_flags, NULL)) != -1)
		err = set_flag(o, flag, optarg, argv[optind - 1]);
	if (err)
		return err;
	if (optind == argc)
		return usage("the operation is missing in", o->line);
	if (optind + 1 < argc)
		return usage("only one operation is possible; unexpected", argv[optind + 1]);
	/* The head of nccl-tests' output has one number of iterations for all sizes. */
	if (o->nccl && !o->iterations)
		o->iterations = 100;
	if (o->nccl && o->warm < 0)
		o->warm = 10;
	if (o->quick)
		o->end = quick_sizes[3];
	else if (o->begin > o->end)
		return usage("-b is larger than -e in", o->line);
	err = set_device(o);
	return err ? err : set_op(o, argv[optind]);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* If there is no memory, the caller agrees on the error with the other ranks. */
static int keep_row(struct perf_rows *rows, const struct perf_row *row)
{
	if (rows->n == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 64;
		struct perf_row *more = realloc(rows->row, room * sizeof(*more));

		if (!more)
			return ORIEL_ENOMEM;
		rows->row = more;
		rows->room = room;
	}
	rows->row[rows->n++] = *row;
	return 0;
}

int perf_row_end(struct perf_job *job, const struct perf_row *row, struct perf_rows *rows)
{
	int err = perf_agree(job, keep_row(rows, row), "keeping a row");

	if (!err && job->rank == 0)
		perf_report_row(job, row);
	return err;
}

static int run_row(struct perf_bed *bed, struct perf_row *row, struct perf_rows *rows)
{
	int err = row->unsupported ? 0 : perf_row_measure(bed, row);

	return err ? err : perf_row_end(bed->job, row, rows);
}

/* Measures one row, or one per variant; `fan`: number of peers of a fan-out. */
static int run_size(struct perf_bed *bed, uint64_t bytes, int fan, struct perf_rows *rows)
{
	const struct perf_op *op = bed->op;
	int err = 0;

	for (int v = 0; !err && v < (op->variants[0] ? 2 : 1); v++) {
		struct perf_row row = { .op = op,
					.type = op->variants[v] ? op->variants[v] : op->type,
					.variant = v,
					.fan = fan,
					.bytes = bytes,
					.count = op->elem_bytes ? bytes / op->elem_bytes : 0 };

		row.unsupported = op->atomics && bed->job->facts.no_atomics;
		err = run_row(bed, &row, rows);
	}
	return err;
}

/* Rows for 1 to 8 peers, then twice as many each time, and for all peers. */
static int run_fan(struct perf_bed *bed, struct perf_rows *rows)
{
	int most = bed->job->nranks - 1, next, err = 0;

	for (int fan = 1; !err && fan <= most; fan = next) {
		err = run_size(bed, (uint64_t)fan * PERF_FAN_BYTES, fan, rows);
		next = fan < 8 ? fan + 1 : fan < most && 2 * fan > most ? most : 2 * fan;
	}
	return err;
}

int perf_sizes_each(const struct perf_options *o, int (*fn)(void *ctx, uint64_t bytes), void *ctx)
{
	int err = 0;

	if (o->quick) {
		for (int i = 0; !err && i < 4; i++)
			err = fn(ctx, quick_sizes[i]);
		return err;
	}
	for (uint64_t bytes = o->begin; !err && bytes <= o->end; bytes *= o->factor)
		err = fn(ctx, bytes);
	return err;
}

struct sized {
	struct perf_bed *bed;
	struct perf_rows *rows;
};

static int run_sized(void *ctx, uint64_t bytes)
{
	struct sized *s = ctx;

	return run_size(s->bed, bytes, 0, s->rows);
}

static int run_sizes(struct perf_bed *bed, struct perf_rows *rows)
{
	struct sized s = { bed, rows };

	if (bed->op->fan)
		return run_fan(bed, rows);
	if (!bed->op->sized)
		return run_size(bed, bed->op->fixed_bytes, 0, rows);
	return perf_sizes_each(bed->job->opt, run_sized, &s);
}

static int run_op(struct perf_job *job, const struct perf_op *op, struct perf_rows *rows)
{
	struct perf_bed bed;
	int err, closed;

	if (op->run)
		return op->run(job, op, rows);
	err = perf_memory_check(job, op);
	if (!err)
		err = perf_bed_open(job, op, &bed);
	if (err)
		return err;
	if (job->rank == 0)
		perf_report_op(job, op);
	err = run_sizes(&bed, rows);
	closed = perf_bed_close(&bed);
	return err ? err : closed;
}

static int is_wanted(const struct perf_job *job, const struct perf_op *op)
{
	const struct perf_op *asked = job->opt->op;

	if (op->fan && job->nranks == 1)
		return 0;
	if (op->run)
		return op == asked;
	return asked ? op == asked || op->with == asked : !op->far || job->facts.queued;
}

static int run_all(struct perf_job *job, struct perf_rows *rows)
{
	const struct perf_options *o = job->opt;
	int err = perf_facts_gather(job);

	if (!err && o->json)
		err = perf_agree(job, job->rank ? 0 : perf_json_probe(o->json), "writing JSON");
	if (err)
		return err;
	if (job->rank == 0)
		perf_report_head(job);
	for (int i = 0; !err && i < PERF_OPS; i++)
		if (is_wanted(job, perf_ops[i]))
			err = run_op(job, perf_ops[i], rows);
	if (!err)
		err = perf_engine_gather(job);
	if (!err && job->rank == 0)
		perf_report_tail(job, rows);
	if (!err && o->json)
		err = perf_agree(job, job->rank ? 0 : perf_json_write(job, rows), "writing JSON");
	return err;
}

static int count_wrong(const struct perf_job *job, const struct perf_rows *rows)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < rows->n; i++)
		wrong += rows->row[i].wrong;
	if (wrong && job->rank == 0)
		fprintf(stderr, "oriel-perf: %llu wrong: see the rows where #wrong is not 0\n",
			(unsigned long long)wrong);
	return wrong != 0;
}

static int join(const struct perf_options *o, struct perf_job *job)
{
	struct oriel_comm_options c = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_boot *boot = NULL;
	int err = oriel_boot_env(&boot);

	c.device = o->device;
	if (!err)
		err = oriel_comm_create(boot, &c, &job->comm);
	oriel_boot_destroy(boot);
	if (err)
		return err;
	job->opt = o;
	job->rank = oriel_comm_rank(job->comm);
	job->nranks = oriel_comm_size(job->comm);
	return 0;
}

int main(int argc, char **argv)
{
	struct perf_options o = { .begin = 8,
				  .end = 8u << 20,
				  .factor = 4,
				  .warm = -1,
				  .check = 1,
				  .blocks = 1,
				  .seed = 1 };
	struct perf_rows rows = { NULL, 0, 0 };
	struct perf_job job;
	int err, bad;

	err = parse(argc, argv, &o);
	if (err < 0 && is_first())
		fputs(help_text, stdout);
	if (err)
		return err < 0 ? 0 : err;
	memset(&job, 0, sizeof(job));
	if (o.cuda && perf_image_add(is_first()))
		return 1;
	err = join(&o, &job); /* the library logs errors itself */
	if (err)
		return 1;
	err = run_all(&job, &rows);
	bad = count_wrong(&job, &rows);
	perf_facts_free(&job.facts);
	free(rows.row);
	return oriel_comm_destroy(job.comm) || err || bad;
}
