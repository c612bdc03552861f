/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/shrink.c - finds the smallest part of a failing program that still fails, and
 * prints it as a command.
 *
 * First steps are left out in halves, in quarters and one by one; then the configuration is
 * simplified.  The seed does not control the scheduling of threads, so an attempt runs the program
 * several times: as often as the failure seems to need, at most 50 times.  When the time is over,
 * the smallest program so far is printed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "campaign.h"

#define REPEATS_MAX 50
#define SHORT_TIMEOUT_S 6.0 /* of attempts, when the failure is a wait that does not end */

struct shrink {
	uint64_t seed;
	struct camp_options best;
	struct camp_result *result; /* of the best */
	double end;
	int repeats, tries;
};

static int run_once(struct shrink *s, const struct camp_options *o, struct camp_result *out)
{
	struct camp_child child;
	int failed;

	if (camp_child_begin(&child, s->seed, o))
		return 0;
	while (!camp_child_poll(&child))
		camp_nap();
	failed = child.result->failed;
	if (failed)
		*out = *child.result;
	munmap(child.result, sizeof(*child.result));
	return failed;
}

/* Runs needed, or 0: it did not fail. */
static int fails(struct shrink *s, const struct camp_options *o, int repeats)
{
	struct camp_result *result = malloc(sizeof(*result));

	s->tries++;
	for (int i = 1; i <= repeats && camp_now() < s->end && result; i++)
		if (run_once(s, o, result)) {
			*s->result = *result;
			free(result);
			return i;
		}
	free(result);
	return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int list_steps(const struct shrink *s, int *steps)
{
	struct camp_program p;
	int n = 0;

	camp_plan(s->seed, &s->best, &p);
	for (int i = 0; i < p.nsteps; i++)
		if (p.steps[i].kept)
			steps[n++] = i;
	return n;
}

static void keep_all_but(struct camp_options *o, const int *steps, int n, int from, int to)
{
	o->keeps = 1;
	memset(o->keep, 0, sizeof(o->keep));
	for (int i = 0; i < n; i++)
		if (i < from || i >= to)
			o->keep[steps[i] / 64] |= 1ull << (steps[i] % 64);
}

static void drop_steps(struct shrink *s)
{
	int steps[CAMP_STEPS], n = list_steps(s, steps);

	for (int part = n / 2 ? n / 2 : 1; part >= 1 && n > 1; part /= 2)
		for (int at = n - part; at > -part && n > 1 && camp_now() < s->end; at -= part) {
			struct camp_options o = s->best;

			keep_all_but(&o, steps, n, at < 0 ? 0 : at, at + part);
			if (!fails(s, &o, s->repeats))
				continue;
			s->best = o;
			n = list_steps(s, steps);
		}
}

/* ---- configuration --------------------------------------------------------------------------- */

static void try_setting(struct shrink *s, const char *setting)
{
	struct camp_options o = s->best;
	struct camp_config before, after;
	size_t used = strlen(o.set);

	if (used + strlen(setting) + 2 > sizeof(o.set) || camp_now() >= s->end)
		return;
	snprintf(o.set + used, sizeof(o.set) - used, "%s%s", used ? "," : "", setting);
	camp_configure(s->seed, &s->best, &before);
	camp_configure(s->seed, &o, &after);
	if (memcmp(&before, &after, sizeof(before)) && fails(s, &o, s->repeats))
		s->best = o;
}

static void simplify(struct shrink *s)
{
	static const char *const settings[] = { "processes=0", "faults=none", "nic=soft",
						"ranks=2",     "ranks=3",     "ranks=4",
						"threads=1",   "lanes=1",     "nics=1",
						"depth=128",   "streams=1",   "topology=none",
						"wrap=0",      "a2a=none" };
	struct camp_config c;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		camp_configure(s->seed, &s->best, &c);
		if (strncmp(settings[i], "ranks=", 6) || atoi(settings[i] + 6) < c.ranks)
			try_setting(s, settings[i]);
	}
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct shrink *s, FILE *out)
{
	int steps[CAMP_STEPS], n = list_steps(s, steps);
	struct camp_program p;
	struct camp_emit *e;

	fprintf(out,
		"  smallest after %d attempts: %s\n  %s\n"
		"  replay: tools/campaign --from %llu --seeds 1 --keep ",
		s->tries, s->result->text, s->result->config, (unsigned long long)s->seed);
	for (int i = 0; i < n; i++)
		fprintf(out, "%s%d", i ? "," : "", steps[i]);
	if (s->best.set[0])
		fprintf(out, " --set %s", s->best.set);
	if (s->best.without[0])
		fprintf(out, " --without %s", s->best.without);
	if (s->best.gpu)
		fprintf(out, " --gpu");
	if (s->best.sabotage)
		fprintf(out, " --sabotage %d", s->best.sabotage);
	fprintf(out, " --repeat %d\n", s->repeats);
	camp_plan(s->seed, &s->best, &p);
	if (!camp_emit_program(&p, out, &e))
		camp_emit_free(e);
}

void camp_shrink(uint64_t seed, const struct camp_options *o, const struct camp_result *first,
		 double budget_s, FILE *out)
{
	struct shrink s = { .seed = seed, .best = *o };
	int needed;

	s.result = malloc(sizeof(*s.result));
	if (!s.result)
		return;
	*s.result = *first;
	s.end = camp_now() + budget_s;
	s.repeats = REPEATS_MAX;
	if (first->seconds > o->timeout_s && o->timeout_s > SHORT_TIMEOUT_S)
		s.best.timeout_s = SHORT_TIMEOUT_S;
	needed = fails(&s, &s.best, REPEATS_MAX);
	if (needed) {
		s.repeats = 4 * needed < REPEATS_MAX ? 4 * needed : REPEATS_MAX;
		drop_steps(&s);
		simplify(&s);
		drop_steps(&s);
	} else {
		fprintf(out, "  did not fail again in %.0f s\n", budget_s);
	}
	tell(&s, out);
	free(s.result);
}
