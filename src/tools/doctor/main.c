/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor/main.c - the program oriel-doctor: who waits for whom in a running job.
 *
 * Owns the command line and the exit status.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "doctor.h"

static const char help[] =
	"Usage: oriel-doctor [options] [JOB]\n"
	"\n"
	"Shows who waits for whom in a running job of this user: each wait with its call, window,\n"
	"peer and id, what it has and wants, and since when; then the deadlock or the late rank.\n"
	"It only reads; the job runs on.\n"
	"\n"
	"  JOB             number of a job, process id of a rank, or that of its launcher; it may\n"
	"                  be left out if only one job runs here\n"
	"  --list          list the jobs\n"
	"  --json          print one JSON object\n"
	"  --svg           print a picture\n"
	"  --serve[=PORT]  show the job in a browser: serve a page on the loopback interface, at\n"
	"                  an address that contains a secret token; PORT 0, the default, is any\n"
	"  -h, --help      print this text\n"
	"  --version       print the version\n"
	"\n"
	"Exit status: 0 no deadlock and no late rank; 1 there is no such job; 2 the command line is\n"
	"wrong; 3 a deadlock; 4 a late rank.\n"
	"\n"
	"Ranks are found in a private directory of the user: XDG_RUNTIME_DIR/oriel, or else\n"
	"/tmp/oriel-UID.  ORIEL_DOCTOR names another one, for ranks and for oriel-doctor.\n";

enum { OPT_LIST = 256, OPT_JSON, OPT_SVG, OPT_SERVE, OPT_VERSION };

static const struct option names[] = {
	{ "list", no_argument, NULL, OPT_LIST },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "svg", no_argument, NULL, OPT_SVG },
	{ "serve", optional_argument, NULL, OPT_SERVE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

struct options {
	int what; /* OPT_*; 0: text */
	int port;
	const char *job;
};

__attribute__((format(printf, 1, 2))) static int usage_error(const char *fmt, ...)
{
	va_list ap;

	fputs("oriel-doctor: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(" (try oriel-doctor --help)\n", stderr);
	return DOCTOR_EXIT_USAGE;
}

/* Returns -1 to go on, or an exit status. */
static int take(int option, char **argv, struct options *o)
{
	char *end;

	switch (option) {
	case 'h':
		fputs(help, stdout);
		return 0;
	case OPT_VERSION:
		printf("oriel-doctor %d.%d.%d\n", ORIEL_VERSION_MAJOR, ORIEL_VERSION_MINOR,
		       ORIEL_VERSION_PATCH);
		return 0;
	case OPT_LIST:
	case OPT_JSON:
	case OPT_SVG:
	case OPT_SERVE:
		if (o->what)
			return usage_error("only one of --list, --json, --svg and --serve");
		o->what = option;
		if (option != OPT_SERVE || !optarg)
			return -1;
		o->port = (int)strtol(optarg, &end, 10);
		if (end == optarg || *end || o->port < 0 || o->port > 65535)
			return usage_error("--serve takes a port from 0 to 65535, not '%s'",
					   optarg);
		return -1;
	default:
		return usage_error("unknown option '%s'", argv[optind - 1]);
	}
}

static int parse(int argc, char **argv, struct options *o)
{
	int option, verdict;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		verdict = take(option, argv, o);
		if (verdict >= 0)
			return verdict;
	}
	if (argc - optind > 1)
		return usage_error("one job at a time");
	o->job = argc > optind ? argv[optind] : NULL;
	return -1;
}

static int show(const char *folder, uint64_t job, int what)
{
	struct doctor_job found;
	const char *verdict;

	if (doctor_collect(folder, job, &found)) {
		fprintf(stderr, "oriel-doctor: the job has ended\n");
		return DOCTOR_EXIT_NONE;
	}
	if (what == OPT_JSON)
		doctor_json(&found, stdout);
	else if (what == OPT_SVG)
		doctor_svg(&found, stdout);
	else
		doctor_text(&found, stdout);
	verdict = doctor_verdict(&found);
	doctor_job_free(&found);
	if (!strcmp(verdict, "deadlock"))
		return DOCTOR_EXIT_DEADLOCK;
	return strcmp(verdict, "late") ? 0 : DOCTOR_EXIT_LATE;
}

/*
 * Finds the ranks of this user.  Ranks and this program may have different environments: without
 * ORIEL_DOCTOR both places are tried.  Returns 0, or an exit status after it has printed one line.
 */
static int find(char *folder, struct doctor_places *places)
{
	const char *value = getenv("ORIEL_DOCTOR");
	char why[160], shared[ORI_RECORD_PATH_BYTES];
	int err = ori_record_folder(value, 0, folder, why, sizeof(why));

	places->count = 0;
	places->place = NULL;
	if (!err && doctor_find(folder, places)) {
		fprintf(stderr, "oriel-doctor: out of memory\n");
		return DOCTOR_EXIT_NONE;
	}
	if (places->count || (value && strcmp(value, "auto")))
		goto out;
	snprintf(shared, sizeof(shared), "/tmp/oriel-%u", (unsigned)geteuid());
	doctor_find_free(places);
	err = ori_record_folder(shared, 0, folder, why, sizeof(why));
	if (!err && doctor_find(folder, places))
		err = -1;
out:
	if (err)
		fprintf(stderr, "oriel-doctor: no job of this user runs here: %s: %s\n", folder,
			why);
	return err ? DOCTOR_EXIT_NONE : 0;
}

static int run(const struct options *o)
{
	char folder[ORI_RECORD_PATH_BYTES];
	struct doctor_places places;
	uint64_t job = 0;
	int status = find(folder, &places);

	if (status)
		return status;
	if (o->what == OPT_LIST) {
		doctor_list(&places);
		status = places.count ? 0 : DOCTOR_EXIT_NONE;
	} else {
		status = doctor_choose(&places, o->job, &job);
	}
	doctor_find_free(&places);
	if (status || o->what == OPT_LIST)
		return status;
	if (o->what == OPT_SERVE)
		return doctor_serve(folder, job, o->port);
	return show(folder, job, o->what);
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	int status = parse(argc, argv, &o);

	if (status < 0)
		status = run(&o);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "oriel-doctor: cannot write the output\n");
		return DOCTOR_EXIT_NONE;
	}
	return status;
}
