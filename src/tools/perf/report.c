/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/report.c - tables on stdout: Oriel's own, with the columns of nccl-tests, or CSV.
 *
 * Every line that is not a row begins with #, so that a parser can skip it; CSV has rows only.  A
 * table of Oriel's own has no column that says nothing: `type` is there if rows differ in it, busbw
 * if it is not algbw, and the run before if there is one (--compare).
 * Called by: main.c on rank 0.
 */
#include "perf.h"

/* ---- Oriel's own ----------------------------------------------------------------------------- */

static void print_columns(const struct perf_job *job, const struct perf_op *op)
{
	printf("#\n# %s: %s\n# %10s", op->name, op->legend, "size(B)");
	if (op->typed)
		printf(" %8s", "type");
	printf(" %10s %10s %10s %8s", "time(us)", "p50(us)", "p99(us)", "GB/s");
	if (perf_has_bus(op, job->nranks))
		printf(" %8s", "busbw");
	printf(" %7s", "#wrong");
	if (job->past)
		printf(" %10s %6s", "old_p50", "ratio");
	printf("\n");
}

static void print_past(const struct perf_row *row)
{
	if (row->past_us > 0)
		printf(" %10.3f %6.2f", row->past_us, row->p50_us / row->past_us);
	else
		printf(" %10s %6s", "-", "-");
}

static void print_row(const struct perf_job *job, const struct perf_row *row)
{
	char algbw[16] = "-", busbw[16] = "-", wrong[24] = "N/A";

	if (row->bytes) {
		snprintf(algbw, sizeof(algbw), "%.3f", row->algbw);
		snprintf(busbw, sizeof(busbw), "%.3f", row->busbw);
	}
	if (row->checked)
		snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)row->wrong);
	printf("%12llu", (unsigned long long)row->bytes);
	if (row->op->typed)
		printf(" %8s", row->type);
	printf(" %10.3f %10.3f %10.3f %8s", row->time_us, row->p50_us, row->p99_us, algbw);
	if (perf_has_bus(row->op, job->nranks))
		printf(" %8s", busbw);
	printf(" %7s", wrong);
	if (job->past)
		print_past(row);
	printf("\n");
}

/* ---- nccl-tests ------------------------------------------------------------------------------ */

static void print_nccl_columns(const struct perf_op *op)
{
	static const char *const places[] = {
		[PERF_OUT_OF_PLACE] = "; it cannot run in place",
		[PERF_EITHER_PLACE] = "",
		[PERF_IN_PLACE] = "; it always runs in place",
	};

	printf("# %s: %s%s\n", op->name, op->legend, places[op->place]);
	printf("#\n"
	       "#                                                              out-of-place        "
	       "               in-place          \n"
	       "#       size         count      type   redop    root     time   algbw   busbw "
	       "#wrong     time   algbw   busbw #wrong\n"
	       "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)      "
	       "      (us)  (GB/s)  (GB/s)       \n");
}

/* us 0: the operation was not run so. */
static void print_nccl_half(const struct perf_job *job, const struct perf_row *row, double us,
			    uint64_t wrong)
{
	double bw = perf_algbw(row, job->nranks, us);

	if (us <= 0) {
		printf("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
		return;
	}
	/* The column has seven places: large times get fewer digits behind the point. */
	printf("  %7.*f  %6.2f  %6.2f",
	       us >= 10000 ? 0 :
	       us >= 100   ? 1 :
			     2,
	       us, bw, bw * perf_bus_factor(row->op, job->nranks));
	if (row->checked)
		printf("  %5g", (double)wrong);
	else
		printf("  %5s", "N/A");
}

/* As in nccl-tests, size is the larger of the input and the result, count that of one rank. */
static void print_nccl_row(const struct perf_job *job, const struct perf_row *row)
{
	const struct perf_op *op = row->op;
	int in_only = op->place == PERF_IN_PLACE;

	printf("%12llu  %12llu  %8s  %6s  %6d",
	       (unsigned long long)perf_total_bytes(op, row->bytes, job->nranks),
	       (unsigned long long)row->count, op->element ? op->element : op->type,
	       op->sums ? "sum" : "none", op->traffic == PERF_TRAFFIC_ONCE ? 0 : -1);
	print_nccl_half(job, row, in_only ? 0 : row->time_us, row->wrong - row->in_place_wrong);
	print_nccl_half(job, row, in_only ? row->time_us : row->in_place_us,
			in_only ? row->wrong : row->in_place_wrong);
	printf("\n");
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* An empty value: there is none.  No value has a comma or a quotation mark. */
static void print_csv_row(const struct perf_job *job, const struct perf_row *row)
{
	printf("%s,%llu,%llu,%s,", row->op->name, (unsigned long long)row->bytes,
	       (unsigned long long)row->count, row->type);
	if (row->fan)
		printf("%d", row->fan);
	if (row->unsupported) {
		printf(",,,,,,,%s\n", job->past ? ",," : "");
		return;
	}
	printf(",%u,%.6g,%.6g,%.6g,", row->iterations, row->time_us, row->p50_us, row->p99_us);
	if (row->bytes)
		printf("%.6g,%.6g,", row->algbw, row->busbw);
	else
		printf(",,");
	if (row->checked)
		printf("%llu", (unsigned long long)row->wrong);
	if (job->past && row->past_us > 0)
		printf(",%.6g,%.6g", row->past_us, row->p50_us / row->past_us);
	else if (job->past)
		printf(",,");
	printf("\n");
}

/* ---- all formats ----------------------------------------------------------------------------- */

/* CSV has one line of names for all operations. */
void perf_report_names(const struct perf_job *job)
{
	if (job->opt->format == PERF_FORMAT_CSV)
		printf("op,size,count,type,peers,iterations,time_us,p50_us,p99_us,algbw_GBps,"
		       "busbw_GBps,wrong%s\n",
		       job->past ? ",old_p50_us,ratio" : "");
	fflush(stdout);
}

void perf_report_op(const struct perf_job *job, const struct perf_op *op)
{
	if (job->opt->format == PERF_FORMAT_ORIEL)
		print_columns(job, op);
	else if (job->opt->format == PERF_FORMAT_NCCL)
		print_nccl_columns(op);
	fflush(stdout);
}

void perf_report_row(const struct perf_job *job, const struct perf_row *row)
{
	if (job->opt->format == PERF_FORMAT_CSV)
		print_csv_row(job, row);
	else if (row->unsupported)
		printf("# %10llu not supported by this NIC or GPU\n",
		       (unsigned long long)row->bytes);
	else if (job->opt->format == PERF_FORMAT_NCCL)
		print_nccl_row(job, row);
	else
		print_row(job, row);
	fflush(stdout);
}

/* Prints the counts of the engine, for example of packets and of retransmissions. */
static void print_engine(const struct perf_engine *e)
{
	if (!e->n)
		return;
	printf("#\n# engine %s:", e->name);
	for (int i = 0; i < e->n; i++)
		printf("%s %s %llu", i ? "," : "", e->counts[i].key,
		       (unsigned long long)e->counts[i].count);
	printf(" (all ranks)\n");
}

void perf_report_tail(const struct perf_job *job, const struct perf_rows *rows)
{
	uint64_t wrong = 0;
	double busbw = 0;

	if (job->opt->format == PERF_FORMAT_CSV)
		return;
	for (size_t i = 0; i < rows->n; i++) {
		wrong += rows->row[i].wrong;
		busbw += rows->row[i].busbw;
	}
	print_engine(&job->engine);
	if (job->opt->format == PERF_FORMAT_NCCL)
		printf("# Out of bounds values : %llu %s\n# Avg bus bandwidth    : %g \n#\n",
		       (unsigned long long)wrong, wrong ? "FAILED" : "OK",
		       rows->n ? busbw / (double)rows->n : 0);
	else if (!job->opt->check)
		printf("#\n# nothing was checked (-c 0)\n");
	else
		printf("#\n# total wrong %llu: %s\n", (unsigned long long)wrong,
		       wrong ? "FAILED" : "OK");
	fflush(stdout);
}
