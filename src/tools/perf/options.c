/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/options.c - the command line of oriel-perf: its grammar and its errors.
 *
 * All ranks have the same command line, so only the first rank prints an error: one line, before
 * the ranks have met.
 * Called once, by main().
 */
#include "perf.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (1ull << 46)

int perf_is_first(void)
{
	const char *rank = getenv("RANK");

	return !rank || !*rank || !strcmp(rank, "0");
}

static int usage(const char *what, const char *value)
{
	if (perf_is_first())
		fprintf(stderr, "oriel-perf: %s '%s' (try oriel-perf --help)\n", what, value);
	return 2;
}

/* ---- values ---------------------------------------------------------------------------------- */

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

static int parse_real(const char *text, double most, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v) || v < 0 || v > most)
		return -1;
	*out = v;
	return 0;
}

/* The place of a word in a list that ends with NULL; -1: it is not there. */
static int find_word(const char *const *words, const char *word)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], word))
			return i;
	return -1;
}

/* ---- flags ----------------------------------------------------------------------------------- */

enum {
	FLAG_BLOCKS = 256,
	FLAG_THREADS,
	FLAG_DEVICE,
	FLAG_QUICK,
	FLAG_JSON,
	FLAG_FORMAT,
	FLAG_PLOT,
	FLAG_LIMIT,
	FLAG_COMPARE,
	FLAG_TOLERANCE,
	FLAG_SPLIT,
	FLAG_SEED,
	FLAG_EXPLAIN,
	FLAG_ALGORITHM,
	FLAG_POLICY,
	FLAG_GRAPH,
	FLAG_IN_KERNEL,
	FLAG_LINE,
	FLAG_WINDOWS,
	FLAG_VERSION
};

static const struct option long_flags[] = {
	{ "blocks", required_argument, NULL, FLAG_BLOCKS },
	{ "threads", required_argument, NULL, FLAG_THREADS },
	{ "device", required_argument, NULL, FLAG_DEVICE },
	{ "quick", no_argument, NULL, FLAG_QUICK },
	{ "verbose", no_argument, NULL, 'v' },
	{ "json", required_argument, NULL, FLAG_JSON },
	{ "format", required_argument, NULL, FLAG_FORMAT },
	{ "plot", required_argument, NULL, FLAG_PLOT },
	{ "limit", required_argument, NULL, FLAG_LIMIT },
	{ "compare", required_argument, NULL, FLAG_COMPARE },
	{ "tolerance", required_argument, NULL, FLAG_TOLERANCE },
	{ "split", required_argument, NULL, FLAG_SPLIT },
	{ "seed", required_argument, NULL, FLAG_SEED },
	{ "explain", no_argument, NULL, FLAG_EXPLAIN },
	{ "algorithm", required_argument, NULL, FLAG_ALGORITHM },
	{ "graph", no_argument, NULL, FLAG_GRAPH },
	{ "policy", required_argument, NULL, FLAG_POLICY },
	{ "in-kernel", no_argument, NULL, FLAG_IN_KERNEL },
	{ "line", no_argument, NULL, FLAG_LINE },
	{ "windows", no_argument, NULL, FLAG_WINDOWS },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, FLAG_VERSION },
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

/* Flags whose value is one of a few words. */
static int set_word(struct perf_options *o, int flag, const char *word)
{
	static const char *const formats[] = { "oriel", "nccl", "csv", NULL };
	static const char *const splits[] = { "uniform", "random", "skew", NULL };
	int n;

	switch (flag) {
	case FLAG_FORMAT:
		n = find_word(formats, word);
		o->format = (enum perf_format)n;
		return n < 0 ? usage("--format needs oriel, nccl or csv, not", word) : 0;
	case FLAG_SPLIT:
		n = find_word(splits, word);
		o->split = (enum perf_split)n;
		return n < 0 ? usage("--split needs uniform, random or skew, not", word) : 0;
	case FLAG_POLICY:
		o->policy = perf_gather_policy(word);
		return o->policy < 0 ?
			       usage("--policy needs by_size, fastest, no_sms or default, not",
				     word) :
			       0;
	default:
		o->algorithm = perf_gather_algorithm(word);
		return o->algorithm < 0 ?
			       usage("--algorithm needs auto, direct, ring or doubling, not",
				     word) :
			       0;
	}
}

static int set_real(struct perf_options *o, int flag, const char *text)
{
	if (flag == FLAG_TOLERANCE)
		return parse_real(text, 1e6, &o->tolerance) ?
			       usage("--tolerance needs a percentage such as 10, not", text) :
			       0;
	return parse_real(text, 1e9, &o->limit) || o->limit <= 0 ?
		       usage("--limit needs GB/s above 0, not", text) :
		       0;
}

/* Flags that are on or off. */
static void set_switch(struct perf_options *o, int flag)
{
	switch (flag) {
	case 'v':
		o->verbose = 1;
		break;
	case FLAG_QUICK:
		o->quick = 1;
		break;
	case FLAG_EXPLAIN:
		o->explain = 1;
		break;
	case FLAG_IN_KERNEL:
		o->in_kernel = 1;
		break;
	case FLAG_LINE:
		o->on_line = 1;
		break;
	case FLAG_WINDOWS:
		o->in_windows = 1;
		break;
	default:
		o->graph = 1;
		break;
	}
}

/* 0; an exit status; or -1 if the text that the user asked for has been printed. */
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
	case FLAG_JSON:
		o->json = text;
		return 0;
	case FLAG_PLOT:
		o->plot = text;
		return 0;
	case FLAG_COMPARE:
		o->compare = text;
		return 0;
	case FLAG_LIMIT:
	case FLAG_TOLERANCE:
		return set_real(o, flag, text);
	case FLAG_FORMAT:
	case FLAG_SPLIT:
	case FLAG_ALGORITHM:
	case FLAG_POLICY:
		return set_word(o, flag, text);
	case 'v':
	case FLAG_QUICK:
	case FLAG_EXPLAIN:
	case FLAG_GRAPH:
	case FLAG_IN_KERNEL:
	case FLAG_LINE:
	case FLAG_WINDOWS:
		set_switch(o, flag);
		return 0;
	case FLAG_SEED:
		return parse_number(text, 0, UINT64_MAX, &o->seed) ?
			       usage("--seed needs a number, not", text) :
			       0;
	case 'h':
		if (perf_is_first())
			fputs(perf_help_text, stdout);
		return -1;
	case FLAG_VERSION:
		if (perf_is_first())
			printf("oriel-perf %s\n", oriel_version());
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

/* What calls of the host have, and calls inside a kernel do not. */
static int check_in_kernel(const struct perf_options *o)
{
	if (o->graph || o->explain || o->algorithm || o->policy)
		return usage("--in-kernel excludes --graph, --explain, --algorithm, --policy in",
			     o->line);
	if (o->in_windows)
		return usage("--in-kernel excludes --windows in", o->line);
	return 0;
}

/* --line is for operations that have a kernel for it. */
static int check_line(const struct perf_options *o)
{
	const struct perf_op *op = o->op;

	if (!op)
		return usage("--line needs one operation, not", "all");
	if (op->inside && op->inside->on_line && !o->in_kernel)
		return usage("--line needs --in-kernel, which is missing in", o->line);
	if (op->inside && o->in_kernel)
		op = op->inside;
	return op->on_line ?
		       0 :
		       usage("--line is for packet, allgather, alltoall, allreduce, not", op->name);
}

/* Flags of some operations, which others would ignore. */
static int check_operation(const struct perf_options *o)
{
	static const char *const gathers[] = { "allgather", NULL };
	static const char *const uneven[] = { "alltoallv", NULL };
	static const char *const planned[] = { "allgather", "alltoall", "alltoallv", NULL };
	static const char *const captured[] = { "allgather", "broadcast", "allreduce",
						"reducescatter", NULL };
	const char *op = o->op ? o->op->name : "all";

	if (o->split && find_word(uneven, op) < 0)
		return usage("--split is for alltoallv, not", op);
	if (o->algorithm && find_word(gathers, op) < 0)
		return usage("--algorithm is for allgather, not", op);
	if (o->policy && find_word(gathers, op) < 0)
		return usage("--policy is for allgather, not", op);
	if (o->explain && find_word(planned, op) < 0)
		return usage("--explain is for allgather, alltoall, alltoallv, not", op);
	if (o->graph && find_word(captured, op) < 0)
		return usage("--graph is for allgather, broadcast, allreduce, reducescatter, not",
			     op);
	return 0;
}

/* Flags that need, or exclude, another. */
static int check_together(const struct perf_options *o)
{
	if (o->quick ? 0 : o->begin > o->end)
		return usage("-b is larger than -e in", o->line);
	if (o->format == PERF_FORMAT_CSV && (o->explain || o->verbose))
		return usage("--format csv prints rows only: leave out -v and --explain in",
			     o->line);
	if (o->plot && o->op && !o->op->sized)
		return usage("--plot needs an operation with sizes, not", o->op->name);
	if (o->limit > 0 && !o->plot)
		return usage("--limit needs --plot, which is missing in", o->line);
	if (o->on_line && check_line(o))
		return 2;
	if (o->in_windows && !(o->op && o->op->windowed))
		return usage("--windows is for broadcast, allreduce, reducescatter, not",
			     o->op ? o->op->name : "all");
	if (o->in_kernel && check_in_kernel(o))
		return 2;
	return check_operation(o);
}

int perf_options_parse(int argc, char **argv, struct perf_options *o)
{
	int flag, err = 0;

	keep_line(o, argc, argv); /* before getopt moves the words */
	opterr = 0;
	while (!err && (flag = getopt_long(argc, argv, ":b:e:f:n:w:c:vh", long_flags, NULL)) != -1)
		err = set_flag(o, flag, optarg, argv[optind - 1]);
	if (err)
		return err;
	if (optind == argc)
		return usage("the operation is missing in", o->line);
	if (optind + 1 < argc)
		return usage("only one operation is possible; unexpected", argv[optind + 1]);
	/* The head of nccl-tests' output has one number of iterations for all sizes. */
	if (o->format == PERF_FORMAT_NCCL && !o->iterations)
		o->iterations = 100;
	if (o->format == PERF_FORMAT_NCCL && o->warm < 0)
		o->warm = 10;
	if (o->quick)
		o->end = perf_quick_sizes[PERF_QUICK_SIZES - 1];
	err = set_op(o, argv[optind]);
	if (!err)
		err = set_device(o);
	return err ? err : check_together(o);
}
