/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/main.c - the program oriel-info: what this build, this machine and this job look like.
 *
 * Owns the command line and the exit status: 0; 1 for a problem (a bad or unknown variable, ranks
 * that did not meet, output that could not be written); 2 for a wrong command line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "info.h"
#include "verify.h"

#define USAGE                                                                                      \
	"Usage: oriel-info [--all] [--verify] [--json] [--ranks-from-env] [--help] [--version]\n"

static const char help[] = USAGE
	"\n"
	"Shows the version, the build, the machine, the devices, the engines and the ORIEL_*\n"
	"variables that are set.  Under a launcher it also shows how the ranks reach each\n"
	"other, and why:\n"
	"    oriel-run -n 4 oriel-info\n"
	"\n"
	"  --all             show every variable by group, with its meaning\n"
	"  --verify          test the prerequisites, then put, signal, order, counter and atomic\n"
	"                    between all pairs of ranks and on every NIC, for at most 20 s; each\n"
	"                    failure is printed with its cause and how to fix it; without a\n"
	"                    launcher the ranks are threads of this process\n"
	"  --json            print one JSON object, with every pair of ranks\n"
	"  --ranks-from-env  show the topology also without a launcher (then there is one rank)\n"
	"  -h, --help        print this text\n"
	"  --version         print the version\n"
	"\n"
	"Exit status: 0 if all is well; 1 if a variable is bad or unknown, the ranks do not\n"
	"meet, or --verify finds a failure; 2 for a wrong command line.\n";

struct options {
	int json, ranks, help, verify, all, version;
};

static int parse_options(int argc, char **argv, struct options *o)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			o->json = 1;
		} else if (!strcmp(argv[i], "--ranks-from-env")) {
			o->ranks = 1;
		} else if (!strcmp(argv[i], "--all")) {
			o->all = 1;
		} else if (!strcmp(argv[i], "--version")) {
			o->version = 1;
		} else if (!strcmp(argv[i], "--verify")) {
			o->verify = 1;
		} else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			o->help = 1;
		} else {
			fprintf(stderr, "oriel-info: unknown argument \"%s\"\n" USAGE, argv[i]);
			return -1;
		}
	}
	return 0;
}

/* Returns 0 if all output was written. */
static int close_output(void)
{
	int bad = ferror(stdout);

	bad |= fclose(stdout) != 0;
	if (bad)
		fprintf(stderr, "oriel-info: cannot write the output\n");
	return bad;
}

int info_has_launcher(void)
{
	const char *launcher = getenv("ORIEL_LAUNCHER");

	if (launcher && !strcmp(launcher, "none"))
		return 0;
	return (getenv("RANK") && getenv("WORLD_SIZE")) ||
	       (getenv("PMIX_RANK") && getenv("PMIX_NAMESPACE"));
}

/* For a rank that fails before the boot is open: only rank 0 may print. */
int info_rank_by_name(void)
{
	const char *launcher = getenv("ORIEL_LAUNCHER"), *rank = getenv("RANK");
	const char *pmix = getenv("PMIX_RANK");

	if (!info_has_launcher())
		return 0;
	if (pmix && !(rank && launcher && !strcmp(launcher, "env")))
		rank = pmix;
	return rank ? atoi(rank) : 0;
}

/* Gathers everything.  Without a valid configuration the ranks cannot meet. */
static void gather(struct info *info, const struct options *o)
{
	struct info_job *job = &info->job;
	struct ori_config config;
	struct ori_facts facts;
	int facts_err;

	job->present = o->ranks || info_has_launcher();
	job->rank = info_rank_by_name();
	info_gather_here(info);
	if (info_gather_config(info, &config)) {
		snprintf(job->error, sizeof(job->error), "%s", "a variable has a bad value");
		return;
	}
	facts_err = info_gather_facts(info, &config, &facts);
	if (job->present)
		info_job_gather(info, &config, &facts, facts_err);
}

static int run(const struct options *o)
{
	struct info *info = calloc(1, sizeof(*info));
	int status;

	if (!info) {
		fprintf(stderr, "oriel-info: out of memory\n");
		return 1;
	}
	gather(info, o);
	if (info->job.rank == 0 && o->json)
		info_print_json(info);
	else if (info->job.rank == 0)
		info_print_text(info, o->all);
	/* An error status of another rank would end the job before rank 0 has printed. */
	status = info->job.rank == 0 ? info->problems > 0 || info->job.error[0] : !info->job.met;
	info_job_free(&info->job);
	free(info);
	return status;
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	int status = 0;

	if (parse_options(argc, argv, &o))
		return 2;
	/* If it were closed, a socket of the boot could get this number and receive the report. */
	if (fcntl(STDOUT_FILENO, F_GETFD) < 0) {
		fprintf(stderr, "oriel-info: stdout is closed\n");
		return 1;
	}
	if (o.help)
		fputs(help, stdout);
	else if (o.version)
		printf("oriel-info %s\n", oriel_version());
	else
		status = o.verify ? verify_main(o.json) : run(&o);
	return close_output() ? 1 : status;
}
