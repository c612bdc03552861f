/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/model.c - a model for all sizes from a few measurements: latency, rate, rate of one
 * block.
 *
 * It is a fit by least squares of relative errors, so that small exchanges count as much as large
 * ones.  The model serves to explain and to choose between links.  Settings are not chosen by it:
 * they are the best that were measured.
 *
 * Pure functions, any thread.  Called by: oriel-tune, agree.c, tests.
 */
#include <math.h>
#include <stdlib.h>

#include "../../util/util.h"
#include "tune.h"

#define FIT_BLOCKS 16 /* different block counts that are used */

/* Sums over the points of one block count, each weighted by 1 / us^2. */
struct sums {
	double blocks;
	double w, x, xx, t, xt;
	double slope; /* us per byte */
};

/* Not fmin(): the library does not link libm. */
static double lesser(double a, double b)
{
	return a < b ? a : b;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double distance(double a, double b)
{
	return a > b ? a - b : b - a;
}

static struct sums *sums_of(struct sums *s, int *n, double blocks)
{
	for (int i = 0; i < *n; i++)
		if (s[i].blocks == blocks)
			return &s[i];
	if (*n == FIT_BLOCKS)
		return NULL;
	s[*n] = (struct sums){ .blocks = blocks };
	return &s[(*n)++];
}

static int gather(const struct ori_tune_point *p, size_t n, struct sums *s, int *groups)
{
	double least = INFINITY, most = 0;

	for (size_t i = 0; i < n; i++) {
		struct sums *g = sums_of(s, groups, p[i].blocks);
		double w;

		if (!(p[i].us > 0) || !(p[i].bytes >= 0) || !(p[i].blocks >= 1) ||
		    !isfinite(p[i].us))
			return ori_fail(ORIEL_EINVAL,
					"fit of a model: a point of %g bytes, %g blocks, %g us",
					p[i].bytes, p[i].blocks, p[i].us);
		least = lesser(least, p[i].bytes);
		most = larger(most, p[i].bytes);
		if (!g)
			continue;
		w = 1 / (p[i].us * p[i].us);
		g->w += w;
		g->x += w * p[i].bytes;
		g->xx += w * p[i].bytes * p[i].bytes;
		g->t += w * p[i].us;
		g->xt += w * p[i].bytes * p[i].us;
	}
	if (!(most > least))
		return ori_fail(ORIEL_EINVAL, "fit of a model: %zu points of one size", n);
	return 0;
}

/*
 * One latency for all groups and one slope per group minimise the sum of squares.  The latency
 * determines the slopes, which leaves one linear equation.
 */
static double solve_latency(const struct sums *s, int groups)
{
	double above = 0, below = 0;

	for (int i = 0; i < groups; i++) {
		if (!(s[i].xx > 0))
			continue;
		above += s[i].t - s[i].x * s[i].xt / s[i].xx;
		below += s[i].w - s[i].x * s[i].x / s[i].xx;
	}
	return below > 0 && above > 0 ? above / below : 0;
}

static int solve_slopes(struct sums *s, int groups, double latency)
{
	for (int i = 0; i < groups; i++) {
		s[i].slope = s[i].xx > 0 ? (s[i].xt - latency * s[i].x) / s[i].xx : 0;
		if (s[i].xx > 0 && !(s[i].slope > 0))
			return -1;
	}
	return 0;
}

/*
 * The rate comes from the best slope.  The rate of one block comes from the group with the fewest
 * blocks, divided by their number.
 */
static void solve_rates(const struct sums *s, int groups, struct ori_tune_model *m)
{
	const struct sums *few = NULL;
	double best = 0;

	for (int i = 0; i < groups; i++) {
		if (!(s[i].slope > 0))
			continue;
		if (!best || s[i].slope < best)
			best = s[i].slope;
		if (!few || s[i].blocks < few->blocks)
			few = &s[i];
	}
	m->rate = best > 0 ? 1 / best : 0;
	m->block_rate = few ? 1 / (few->slope * few->blocks) : 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int median_error(const struct ori_tune_point *p, size_t n, struct ori_tune_model *m)
{
	double *error = malloc(n * sizeof(*error));

	if (!error)
		return ori_fail(ORIEL_ENOMEM, "no memory for the errors of %zu points", n);
	for (size_t i = 0; i < n; i++)
		error[i] = distance(ori_tune_predict(m, p[i].bytes, p[i].blocks), p[i].us) /
			   p[i].us;
	qsort(error, n, sizeof(*error), by_value);
	m->error = error[n / 2];
	free(error);
	return 0;
}

int ori_tune_fit(const struct ori_tune_point *points, size_t n, struct ori_tune_model *model)
{
	struct sums s[FIT_BLOCKS];
	struct ori_tune_model m = { 0 };
	int groups = 0, err;

	err = gather(points, n, s, &groups);
	if (err)
		return err;
	m.latency_us = solve_latency(s, groups);
	/*
	 * A slope that is not positive is noise.  Then the latency is 0 and the slope a mean of
	 * rates.
	 */
	if (solve_slopes(s, groups, m.latency_us)) {
		m.latency_us = 0;
		(void)solve_slopes(s, groups, 0);
	}
	solve_rates(s, groups, &m);
	err = median_error(points, n, &m);
	if (!err)
		*model = m;
	return err;
}

double ori_tune_predict(const struct ori_tune_model *m, double bytes, double blocks)
{
	double rate = lesser(m->rate, blocks * m->block_rate);

	return m->latency_us + (rate > 0 ? bytes / rate : 0);
}

double ori_tune_predict_both(double mapped_us, double queued_us, double overlap)
{
	return larger(mapped_us, queued_us) + (1 - overlap) * lesser(mapped_us, queued_us);
}

double ori_tune_overlap(double mapped_us, double queued_us, double both_us)
{
	double longer = larger(mapped_us, queued_us), shorter = lesser(mapped_us, queued_us);

	if (!(shorter > 0))
		return 0;
	return larger(0, lesser(1, 1 - (both_us - longer) / shorter));
}
