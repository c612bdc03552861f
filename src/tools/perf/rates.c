/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/rates.c - the two bandwidths of a row, counted as nccl-tests does.
 *
 * algbw: all bytes that a rank gives or gets, per time.  busbw: without the rank's own part, so
 * that collectives of different numbers of ranks can be compared with the speed of a link.
 * Called by: the files that measure, and report.c.  Not collective.
 */
#include "perf.h"

uint64_t perf_total_bytes(const struct perf_op *op, uint64_t bytes, int nranks)
{
	return op->traffic == PERF_TRAFFIC_BLOCKS ? bytes * (uint64_t)nranks : bytes;
}

double perf_bus_factor(const struct perf_op *op, int nranks)
{
	double others = (double)(nranks - 1) / nranks;

	switch (op->traffic) {
	case PERF_TRAFFIC_BLOCKS:
		return others;
	case PERF_TRAFFIC_TWICE:
		return 2 * others;
	default:
		return 1;
	}
}

/* With two ranks an all-reduce has the factor 1; a rank alone uses no link. */
int perf_has_bus(const struct perf_op *op, int nranks)
{
	double factor = perf_bus_factor(op, nranks);

	return factor > 0 && (factor < 0.999 || factor > 1.001);
}

double perf_algbw(const struct perf_row *row, int nranks, double us)
{
	return us > 0 ? (double)perf_total_bytes(row->op, row->bytes, nranks) / us * 1e-3 : 0;
}

void perf_rates_set(struct perf_row *row, int nranks)
{
	row->algbw = perf_algbw(row, nranks, row->time_us);
	row->busbw = row->algbw * perf_bus_factor(row->op, nranks);
}
