/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/report.c - what oriel-tune prints: the effect of the table, and its reasons.
 *
 * Called on rank 0 only.
 */
#include <string.h>

#include "tool.h"

void tool_report_head(struct tool_job *job, const struct ori_tune_key *key)
{
	printf("# oriel-tune %s: %d ranks, %s\n", oriel_version(), job->nranks, key->shape);
	printf("# device %s; engine %s; %u mapped peers (self is one), %u queued\n", key->device,
	       key->engine, job->peers[ORI_PLAN_MAPPED], job->peers[ORI_PLAN_QUEUED]);
	printf("# times: us of one exchange, slowest rank, median of %d (least..most)\n",
	       job->reps);
	fflush(stdout);
}

static void time_text(const struct tool_time *t, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.4g (%.4g..%.4g)", t->us, t->least, t->most);
}

static void setting_text(const struct ori_a2a_setting *s, char *text, size_t bytes)
{
	char chunk[24];

	ori_bytes_text(s->chunk, chunk, sizeof(chunk));
	snprintf(text, bytes, "%u/%u/%s", s->blocks, s->warps, chunk);
}

static void report_models(struct tool_job *job)
{
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		const struct ori_tune_model *m = &job->table.model[k];

		if (m->rate > 0)
			printf("# %s peers: latency %.3g us, %.3g GB/s per rank, %.3g GB/s per "
			       "block; half of %zu points within %.0f %%\n",
			       ori_plan_kinds[k], m->latency_us, m->rate / 1e3, m->block_rate / 1e3,
			       job->npoints[k], 100 * m->error);
	}
	if (job->peers[ORI_PLAN_QUEUED])
		printf("# both kinds at once: the longer one hides %.0f %% of the shorter one\n",
		       100 * job->table.overlap);
}

void tool_report_sizes(struct tool_job *job)
{
	char before[64], after[64], one[64], size[24];
	int queued = job->peers[ORI_PLAN_QUEUED] > 0;

	printf("%8s %-30s %-30s %8s %-30s %8s\n", "#  bytes", "first guess", "tuned", "faster",
	       queued ? "one setting for all" : "", queued ? "faster" : "");
	for (int i = 0; i < job->nsizes; i++) {
		const struct tool_size *s = &job->size[i];

		ori_bytes_text(s->bytes, size, sizeof(size));
		time_text(&s->before, before, sizeof(before));
		time_text(&s->after, after, sizeof(after));
		time_text(&s->one, one, sizeof(one));
		printf("%8s %-30s %-30s %7.2fx", size, before, after, s->before.us / s->after.us);
		if (queued)
			printf(" %-30s %7.2fx", one, s->one.us / s->after.us);
		printf("%s\n", s->reverted ? "  first guess kept" : "");
	}
	report_models(job);
}

static void report_kind(const struct tool_size *s, int kind)
{
	char best[48], first[48];

	setting_text(&s->best[kind], best, sizeof(best));
	setting_text(&s->first[kind], first, sizeof(first));
	if (s->reverted)
		printf("      %s %s: the first guess, for the settings found for each kind lost "
		       "together\n",
		       ori_plan_kinds[kind], best);
	else if (!strcmp(best, first))
		printf("      %s %s: the first guess, nothing was 3 %% faster; %.4g us alone\n",
		       ori_plan_kinds[kind], best, s->kind[kind].us);
	else
		printf("      %s %s: %.2fx as fast as the first guess %s; %.4g us alone\n",
		       ori_plan_kinds[kind], best, s->gain[kind], first, s->kind[kind].us);
}

void tool_report_explain(struct tool_job *job)
{
	printf("# plans: kind blocks/warps/chunk (CPU: a warp is a thread)\n");
	for (int i = 0; i < job->nsizes; i++) {
		const struct tool_size *s = &job->size[i];
		double predicted = ori_tune_predict_us(job->comm, s->bytes);
		char size[24];

		ori_bytes_text(s->bytes, size, sizeof(size));
		printf("%8s predicted %.4g us, measured %.4g us, error %+.0f %%\n", size, predicted,
		       s->after.us, 100 * (predicted - s->after.us) / s->after.us);
		for (int k = 0; k < ORI_PLAN_KINDS; k++)
			if (job->peers[k] && job->nranks > 1)
				report_kind(s, k);
		if (s->bytes <= job->table.small)
			printf("      a message carries its own mark\n");
	}
}
