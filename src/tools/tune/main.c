/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/main.c - oriel-tune: command line, start of ranks, order of the steps.
 *
 * Under a launcher this process is one rank.  Without one it executes oriel-run, which starts the
 * program again as ranks.  Exit status: 0; 1 if something failed; 2 for a bad command line.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"
#include "tools/common/progress.h"
#include "util/util.h"

static const char help_text[] =
	"Usage: oriel-tune [options]               starts the ranks itself, with oriel-run\n"
	"       oriel-run -n 8 oriel-tune [options]\n"
	"\n"
	"Measures which settings of the all-to-all-v (blocks, warps, chunk) are fastest on this\n"
	"machine, for each kind of peer and each size, and at which sizes collectives of a team\n"
	"change from one way to another.  Later runs load the file it writes.\n"
	"\n"
	"  -n N             number of ranks to start (default 8)\n"
	"  --topology TEXT  layout of the ranks, as for oriel-run: 2x4\n"
	"  --quick          vary one setting at a time, on a CPU up to 1 MiB: under a minute\n"
	"  --explain        print for each size the reason, the predicted and the measured time\n"
	"  -o FILE          write to FILE (default: the file that later runs load); -: no file\n"
	"  -h, --help       print this text\n"
	"  --version        print the version\n";

static int usage(const char *what, const char *value)
{
	const char *rank = getenv("RANK");

	if (!rank || !*rank || !strcmp(rank, "0"))
		fprintf(stderr, "oriel-tune: %s '%s' (try oriel-tune --help)\n", what, value);
	return 2;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct tool_options *o)
{
	enum { TOPOLOGY = 256, QUICK, EXPLAIN, VERSION };
	static const struct option names[] = {
		{ "topology", required_argument, NULL, TOPOLOGY },
		{ "quick", no_argument, NULL, QUICK },
		{ "explain", no_argument, NULL, EXPLAIN },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int c;
	char *end;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "n:o:h", names, NULL)) != -1) {
		switch (c) {
		case 'n':
			o->ranks = (int)strtol(optarg, &end, 10);
			if (*end || o->ranks < 2 || o->ranks > 1024)
				return usage("-n needs 2 to 1024 ranks, not", optarg);
			break;
		case 'o':
			o->output = optarg;
			break;
		case TOPOLOGY:
			o->topology = optarg;
			break;
		case QUICK:
			o->quick = 1;
			break;
		case EXPLAIN:
			o->explain = 1;
			break;
		case 'h':
			fputs(help_text, stdout);
			return 0;
		case VERSION:
			printf("oriel-tune %s\n", oriel_version());
			return 0;
		default:
			return usage("unknown option or missing value at", argv[optind - 1]);
		}
	}
	return optind < argc ? usage("unexpected argument", argv[optind]) : -1;
}

/* Tests before the measurement whether the file can be created.  One process does this. */
static int probe_output(const char *path)
{
	char temporary[PATH_MAX];
	int fd;

	if (!path || !strcmp(path, "-"))
		return 0;
	snprintf(temporary, sizeof(temporary), "%s.%ld.probe", path, (long)getpid());
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		fprintf(stderr, "oriel-tune: cannot write to %s: %s\n", path, strerror(errno));
		return 1;
	}
	close(fd);
	(void)unlink(temporary);
	return 0;
}

/* ---- start of ranks -------------------------------------------------------------------------- */

static int has_launcher(void)
{
	return getenv("RANK") || getenv("WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

/* Executes oriel-run from the folder of this program.  Returns only if that fails. */
static int become_run(const struct tool_options *o)
{
	char self[PATH_MAX], run[PATH_MAX], ranks[16];
	const char *argv[16];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int a = 0;

	if (n <= 0) {
		fprintf(stderr, "oriel-tune: cannot find the path of this program: %s\n",
			strerror(errno));
		return 1;
	}
	self[n] = '\0';
	n = strrchr(self, '/') - self;
	snprintf(run, sizeof(run), "%.*s/oriel-run", (int)n, self);
	snprintf(ranks, sizeof(ranks), "%d", o->ranks);
	argv[a++] = run;
	argv[a++] = "-n";
	argv[a++] = ranks;
	if (o->topology) {
		argv[a++] = "--topology";
		argv[a++] = o->topology;
	}
	argv[a++] = self;
	if (o->quick)
		argv[a++] = "--quick";
	if (o->explain)
		argv[a++] = "--explain";
	if (o->output) {
		argv[a++] = "-o";
		argv[a++] = o->output;
	}
	argv[a] = NULL;
	execv(run, (char *const *)(uintptr_t)argv);
	fprintf(stderr, "oriel-tune: cannot start %s: %s\n", run, strerror(errno));
	return 1;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void set_sizes(struct tool_job *job)
{
	/* on a CPU the largest sizes would take most of the minute */
	uint64_t most = job->opt->quick && job->cores ? 1u << 20 : 16u << 20;

	for (uint64_t bytes = 1024; bytes <= most && job->nsizes < TOOL_SIZES; bytes *= 4)
		job->size[job->nsizes++].bytes = bytes;
}

static int tune_size(struct tool_job *job, struct tool_size *s)
{
	int end, err = tool_request_open(job, s->bytes);

	if (err)
		return err;
	err = tool_sweep(job, s);
	if (!err)
		err = tool_compare(job, s);
	end = tool_request_close(job);
	return err ? err : end;
}

/* Rank 0 saves the table; the others wait for its status. */
static int save(struct tool_job *job, const struct ori_tune_key *key)
{
	const char *to = job->opt->output;
	char path[PATH_MAX];
	int err;

	if (to && !strcmp(to, "-"))
		return 0;
	err = to ? 0 : ori_tune_path(key, path, sizeof(path));
	if (err) {
		fprintf(stderr,
			"oriel-tune: neither XDG_CACHE_HOME nor HOME is set: use -o FILE\n");
		return err;
	}
	err = ori_tune_save(to ? to : path, key, &job->table);
	if (!err)
		printf("# written to %s%s\n", to ? to : path,
		       to ? ": runs with ORIEL_TUNE_FILE set to it load it" : "");
	return err;
}

static int finish(struct tool_job *job, const struct ori_tune_key *key)
{
	int32_t mine = 0, *all;
	int err = tool_fit(job);

	if (!err && job->rank == 0) {
		tool_report_sizes(job);
		tool_report_ways(job);
		if (job->opt->explain)
			tool_report_explain(job);
		err = save(job, key);
		printf("# took %.1f s\n", (double)(ori_now_ns() - job->start_ns) / 1e9);
	}
	all = calloc((size_t)job->nranks, sizeof(*all));
	if (!all) {
		oriel_comm_abort(job->comm, ORIEL_ENOMEM);
		return ORIEL_ENOMEM;
	}
	mine = err;
	err = oriel_comm_allgather(job->comm, ORIEL_WORLD, &mine, all, sizeof(mine));
	for (int r = 0; !err && r < job->nranks; r++)
		err = all[r];
	free(all);
	return err;
}

static int run(struct tool_job *job)
{
	struct ori_tune_key key;
	struct ori_a2a_plan plan;
	int err = ori_tune_plan(job->comm, 1024, &plan);

	if (err)
		return err;
	for (int k = 0; k < ORI_PLAN_KINDS; k++)
		job->peers[k] = ori_tune_peers(job->comm, k);
	job->cores = plan.cores;
	job->reps = job->opt->quick ? 7 : 11;
	job->sample_us = job->opt->quick ? 3000 : 8000;
	job->limit_s = job->opt->quick ? 35 : 1800;
	job->ways_s = job->limit_s + (job->opt->quick ? 15 : 120);
	set_sizes(job);
	ori_tune_key(job->comm, &key);
	if (job->rank == 0)
		tool_report_head(job, &key);
	err = tool_sizes_open(job);
	for (int i = 0; !err && i < job->nsizes; i++) {
		job->current = i;
		err = tune_size(job, &job->size[i]);
	}
	if (job->rank == 0)
		tool_progress_clear();
	if (!err)
		err = tool_kernel_sweep(job);
	if (!err)
		err = tool_host_sweep(job);
	if (!err)
		err = finish(job, &key);
	tool_sizes_close(job);
	return err;
}

int main(int argc, char **argv)
{
	struct tool_options o = { .ranks = 8 };
	struct tool_job *job;
	struct oriel_boot *boot = NULL;
	int err, status = parse(argc, argv, &o);

	if (status >= 0)
		return status;
	if (!has_launcher())
		return probe_output(o.output) ? 1 : become_run(&o);
	/* Settings are compared with the first guess, so no file or variable may replace it. */
	setenv("ORIEL_TUNE_FILE", "none", 1);
	unsetenv("ORIEL_A2A_PLAN");
	job = calloc(1, sizeof(*job));
	if (!job) {
		fprintf(stderr, "oriel-tune: out of memory\n");
		return 1;
	}
	job->opt = &o;
	job->start_ns = ori_now_ns();
	err = oriel_boot_env(&boot);
	if (!err)
		err = oriel_comm_create(boot, NULL, &job->comm);
	oriel_boot_destroy(boot);
	if (!err) {
		job->rank = oriel_comm_rank(job->comm);
		job->nranks = oriel_comm_size(job->comm);
		err = run(job);
		if (err) {
			fprintf(stderr, "oriel-tune: rank %d: %s\n", job->rank,
				oriel_status_text(err));
			oriel_comm_abort(job->comm, err); /* others may wait for this rank */
		}
		status = oriel_comm_destroy(job->comm);
		err = err ? err : status;
	}
	free(job);
	return err ? 1 : 0;
}
