/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/job.c - meets the other ranks, exchanges facts, classifies.
 *
 * Uses only the boot, no comm, so it can show a topology that this build cannot run.  A rank with
 * a bad configuration tells the others, so that no rank waits for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../boot/boot.h"
#include "../../util/util.h"
#include "info.h"

/* One rank's message; fixed size, no pointers. */
struct record {
	int32_t err;              /* facts are missing */
	int32_t problems;         /* bad or unknown variables */
	char text[INFO_TEXT_MAX]; /* the first of them */
	struct ori_facts facts;
};

static void fail_job(struct info_job *job, const char *text)
{
	snprintf(job->error, sizeof(job->error), "%s", text);
}

static void fill_record(struct record *r, const struct info *info, const struct ori_facts *facts,
			int err)
{
	memset(r, 0, sizeof(*r));
	r->err = err;
	r->problems = info->problems;
	if (info->problems)
		snprintf(r->text, sizeof(r->text), "%s", info->problem[0]);
	if (!err)
		r->facts = *facts;
}

/* Reads the messages of all ranks.  Terminates the texts, because they are untrusted. */
static int read_records(struct info *info, struct record *all)
{
	struct info_job *job = &info->job;
	int missing = -1;

	for (int r = 0; r < job->nranks; r++) {
		all[r].text[INFO_TEXT_MAX - 1] = '\0';
		if (r != job->rank && all[r].problems)
			info_problem_add(info, "rank %d: %.200s%s", r, all[r].text,
					 all[r].problems > 1 ? ", and more" : "");
		if (all[r].err && missing < 0)
			missing = r;
		job->facts[r] = all[r].facts;
	}
	if (missing < 0)
		return 0;
	snprintf(job->error, sizeof(job->error), "rank %d has no facts: %.200s", missing,
		 all[missing].text);
	return -1;
}

static int exchange(struct oriel_boot *boot, struct info *info, const struct record *mine,
		    uint64_t timeout_ns)
{
	struct info_job *job = &info->job;
	struct record *all = calloc((size_t)job->nranks, sizeof(*all));
	int err = -1;

	job->facts = calloc((size_t)job->nranks, sizeof(*job->facts));
	if (!all || !job->facts) {
		fail_job(job, "out of memory");
	} else if (boot->ops->allgather(boot, mine, all, sizeof(*mine), timeout_ns)) {
		fail_job(job, ori_last_error_text());
	} else {
		job->met = 1;
		err = read_records(info, all);
	}
	free(all);
	return err;
}

void info_job_gather(struct info *info, const struct ori_config *config,
		     const struct ori_facts *facts, int facts_err)
{
	uint64_t timeout_ns = (uint64_t)(config->timeout * (double)ORI_NS_PER_S);
	struct info_job *job = &info->job;
	struct oriel_boot *boot;
	struct record mine;
	int err;

	if (oriel_boot_env(&boot)) {
		fail_job(job, ori_last_error_text());
		return;
	}
	job->rank = oriel_boot_rank(boot);
	job->nranks = oriel_boot_nranks(boot);
	ori_log_rank_set(job->rank);
	fill_record(&mine, info, facts, facts_err);
	err = exchange(boot, info, &mine, timeout_ns);
	if (!err && ori_classify(job->facts, job->nranks, &job->topology)) {
		fail_job(job, ori_last_error_text());
		err = -1;
	}
	if (err) {
		free(job->facts);
		job->facts = NULL;
	}
	oriel_boot_destroy(boot);
}

void info_job_free(struct info_job *job)
{
	ori_topology_free(&job->topology);
	free(job->facts);
	job->facts = NULL;
}
