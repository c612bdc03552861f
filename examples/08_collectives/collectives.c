/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 08_collectives - broadcast, all-reduce and reduce-scatter, called by the host.
 *
 * The ranks compute pi as the area under 4 / (1 + x^2) between 0 and 1.  Rank 0 decides how many
 * steps there are and broadcasts that.  Each rank adds up its part of the steps, and an all-reduce
 * adds up the ranks.  The buffers are ordinary memory of the program.
 *
 * Build:  cc collectives.c -o collectives $(pkg-config --cflags --libs oriel)
 * Run:    oriel-run -n 4 ./collectives
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <oriel/coll.h>
#include <oriel/oriel.h>

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

static double area(uint64_t steps, int rank, int nranks)
{
	double sum = 0;

	for (uint64_t i = (uint64_t)rank; i < steps; i += (uint64_t)nranks) {
		double x = ((double)i + 0.5) / (double)steps;

		sum += 4 / (1 + x * x);
	}
	return sum / (double)steps;
}

int main(void)
{
	struct oriel_comm *comm;
	uint64_t steps = 0;
	double pi, *parts, most;
	int rank, nranks, wrong;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	if (rank == 0)
		steps = 1000000;
	must(oriel_broadcast(comm, &steps, 1, sizeof(steps), /* root */ 0, NULL));

	pi = area(steps, rank, nranks);
	/* in place; the sum has the same bits on all ranks, because it goes by rank */
	must(oriel_allreduce(comm, NULL, &pi, 1, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, NULL));

	/* one number for each rank; a rank gets the largest that anybody has for it */
	parts = calloc((size_t)nranks, sizeof(*parts));
	if (!parts)
		return 1;
	for (int r = 0; r < nranks; r++)
		parts[r] = 100 * r + rank;
	must(oriel_reducescatter(comm, parts, &most, 1, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_MAX, NULL));
	printf("rank %d: pi is about %.9f, the largest number for this rank is %g\n", rank, pi,
	       most);
	wrong = fabs(pi - 3.141592654) > 1e-8 || most != 100 * rank + nranks - 1;
	free(parts);
	must(oriel_finalize(comm));
	return wrong;
}
