/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/options.c - the command line of oriel-run: parsing, its errors, the help text.
 *
 * Owns the grammar only.  Called once, by main().  Every error is one line that says what is wrong
 * and how to get help.
 */
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/oriel.h>

#include "comm/topology.h"
#include "run.h"

static const char help[] =
	"Usage: oriel-run -n N [options] [--] program [arguments]\n"
	"\n"
	"Starts N processes of a program on this machine as the ranks of one job.\n"
	"\n"
	"  -n N               number of ranks\n"
	"  -np N              the same, as mpirun has it\n"
	"  --topology LAYOUT  emulate several nodes: 2x4, or one node id per rank: 0,0,1,1\n"
	"  --timeout S        end the job after S seconds (exit status 124)\n"
	"  --grace S          let the other ranks run for S seconds after the first failure\n"
	"                     (default 2), so that they can report it; then send them SIGTERM,\n"
	"                     and SIGKILL after S more seconds\n"
	"  --mps[=PERCENT]    let ranks share GPUs through an MPS daemon for this job; PERCENT\n"
	"                     limits each rank to that share of a GPU's SMs\n"
	"  --debug            help to find a mistake: check every window, name a late rank after 2 s,\n"
	"                     refuse misspelt ORIEL_* variables, log more.  Sets ORIEL_CHECKED=1,\n"
	"                     ORIEL_STRICT=1, ORIEL_LATE=2 and ORIEL_LOG=info unless they are set\n"
	"  --tag              write the rank before each line of standard output, as is done for\n"
	"                     standard error\n"
	"  -h, --help         print this text\n"
	"  --version          print the version\n"
	"\n"
	"Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,\n"
	"ORIEL_PORT and ORIEL_SECRET in its environment.  Rank 0 reads standard input.\n"
	"\n"
	"The first rank that fails ends the job.  The exit status of oriel-run is\n"
	"  0        all ranks succeeded\n"
	"  2        the command line of oriel-run is wrong\n"
	"  124      the time of --timeout is over\n"
	"  126,127  the program cannot be executed, or was not found\n"
	"  128 + n  signal n killed the rank that failed, or ended oriel-run\n"
	"  else     the exit status of the rank that failed; 1 also means that the output of the\n"
	"           ranks could not be written\n"
	"If several ranks fail at the same time, a killed rank counts first, then one that called\n"
	"abort(), then the one that exited first.\n"
	"\n"
	"Example: oriel-run -n 8 oriel-perf put\n";

__attribute__((format(printf, 1, 2))) static int usage_error(const char *fmt, ...)
{
	va_list ap;

	fputs("oriel-run: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(" (try oriel-run --help)\n", stderr);
	return RUN_EXIT_USAGE;
}

static int parse_count(const char *text, int *count)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < 1 || n > RUN_RANKS_MAX)
		return usage_error("-n needs a number of ranks from 1 to %d, not '%s'",
				   RUN_RANKS_MAX, text);
	*count = (int)n;
	return -1;
}

static int parse_seconds(const char *option, const char *text, double *seconds)
{
	char *end;
	double s = strtod(text, &end);

	/* 1e9 s is 30 years.  Much more would not fit into 64 bits of nanoseconds. */
	if (end == text || *end || !isfinite(s) || s <= 0 || s > 1e9)
		return usage_error("%s needs a number of seconds above 0, not '%s'", option, text);
	*seconds = s;
	return -1;
}

static int parse_mps(const char *text, struct run_options *o)
{
	char *end;
	long percent;

	o->mps = 1;
	o->mps_percent = 0;
	if (!text)
		return -1;
	percent = strtol(text, &end, 10);
	if (end == text || *end || percent < 1 || percent > 100)
		return usage_error("--mps takes a percentage from 1 to 100 or no value, not '%s'",
				   text);
	o->mps_percent = (int)percent;
	return -1;
}

/* Checks it here, so that the error is reported once and not by every rank. */
static int check_topology(const char *text, int nranks)
{
	int *nodes = calloc((size_t)nranks, sizeof(*nodes));
	int err = nodes ? ori_layout_parse(text, nranks, nodes) : ORIEL_ENOMEM;

	free(nodes);
	return err ? RUN_EXIT_USAGE : -1;
}

static int check_together(const struct run_options *o, int nargs)
{
	if (!o->nranks)
		return usage_error("the number of ranks is missing: use -n N");
	if (!nargs)
		return usage_error("the program is missing: it comes after the options");
	return o->topology ? check_topology(o->topology, o->nranks) : -1;
}

enum { OPT_TOPOLOGY = 256, OPT_TIMEOUT, OPT_GRACE, OPT_TAG, OPT_MPS, OPT_DEBUG, OPT_VERSION };

static const struct option names[] = {
	{ "topology", required_argument, NULL, OPT_TOPOLOGY },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "grace", required_argument, NULL, OPT_GRACE },
	{ "debug", no_argument, NULL, OPT_DEBUG },
	{ "tag", no_argument, NULL, OPT_TAG },
	{ "mps", optional_argument, NULL, OPT_MPS },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* One option that getopt has found. */
static int take(int option, char **argv, struct run_options *o)
{
	switch (option) {
	case 'n':
		/* -np N, as mpirun has it */
		return parse_count(!strcmp(optarg, "p") && argv[optind] ? argv[optind++] : optarg,
				   &o->nranks);
	case OPT_TOPOLOGY:
		o->topology = optarg;
		return -1;
	case OPT_TIMEOUT:
		return parse_seconds("--timeout", optarg, &o->timeout_s);
	case OPT_GRACE:
		return parse_seconds("--grace", optarg, &o->grace_s);
	case OPT_DEBUG:
		o->debug = 1;
		return -1;
	case OPT_TAG:
		o->tag = 1;
		return -1;
	case OPT_MPS:
		return parse_mps(optarg, o);
	case 'h':
		fputs(help, stdout);
		return 0;
	case OPT_VERSION:
		printf("oriel-run %d.%d.%d\n", ORIEL_VERSION_MAJOR, ORIEL_VERSION_MINOR,
		       ORIEL_VERSION_PATCH);
		return 0;
	case ':':
		return usage_error("option '%s' needs a value", argv[optind - 1]);
	default:
		if (optopt && optopt < OPT_TOPOLOGY) /* perhaps one of several, as in -xh */
			return usage_error("unknown option '-%c'", optopt);
		return usage_error("unknown option '%s'", argv[optind - 1]);
	}
}

int run_options_parse(int argc, char **argv, struct run_options *o)
{
	int option, verdict;

	memset(o, 0, sizeof(*o));
	o->grace_s = RUN_GRACE_S;
	opterr = 0;
	/* '+': stop at the program, which has its own options; ':': return ':' without a value */
	while ((option = getopt_long(argc, argv, "+:n:h", names, NULL)) != -1) {
		verdict = take(option, argv, o);
		if (verdict >= 0)
			return verdict;
	}
	o->command = argv + optind;
	return check_together(o, argc - optind);
}
