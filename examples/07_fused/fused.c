/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 07_fused - compute, exchange and compute again without leaving the kernel.
 *
 * The ranks find the largest eigenvalue of the matrix 1 / (1 + row + column) by iteration.  Each
 * rank has some columns.  One step multiplies them with the vector, adds up the ranks, and divides
 * by the length.  First one kernel makes all steps.  Then the host launches each part of each step:
 * the same work with the same calls, and the result must have the same bits.
 *
 * Build:  cc fused.c -o fused $(pkg-config --cflags --libs oriel) -lm
 *         nvcc -std=c++17 -arch=native -x cu fused.c -o on_gpu $(pkg-config --cflags --libs oriel)
 * Run:    oriel-run -n 4 ./fused
 *         ORIEL_DEVICE=cuda oriel-run -n 4 --mps ./on_gpu
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oriel/coll.h>
#include <oriel/device.h>
#include <oriel/device/coll.h>
#include <oriel/oriel.h>

#define ROWS 256
#define STEPS 200
#ifdef __CUDACC__
#define THREADS 256
#else
#define THREADS 1 /* of a block; a rank of this example is one CPU thread */
#endif

struct args {
	struct oriel_team_dev team;
	double *x, *y;     /* the vector, and this rank's part of the product */
	double *value;     /* the eigenvalue */
	int first, behind; /* this rank's columns */
	int steps;
};

ORIEL_DEV void multiply(const struct args *a, struct oriel_group g)
{
	for (int row = (int)g.thread; row < ROWS; row += (int)g.size) {
		double sum = 0;

		for (int column = a->first; column < a->behind; column++)
			sum += a->x[column] / (1 + row + column);
		a->y[row] = sum;
	}
}

/* Every thread adds up all squares in the same order, so all ranks divide by the same number. */
ORIEL_DEV void scale(const struct args *a, struct oriel_group g)
{
	double squares = 0, length;

	for (int row = 0; row < ROWS; row++)
		squares += a->y[row] * a->y[row];
	length = sqrt(squares);
	for (int row = (int)g.thread; row < ROWS; row += (int)g.size)
		a->x[row] = a->y[row] / length;
	if (oriel_group_is_leader(g))
		*a->value = length;
}

ORIEL_KERNEL(fused, struct args)
{
	struct oriel_group g = oriel_group_block();
	int err = 0;

	for (int i = 0; i < a->steps && !err; i++) {
		multiply(a, g);
		/* begins and ends with a meeting of the group */
		err = oriel_coll_allreduce(&a->team, g, /* channel */ 0, a->y, a->y, ROWS,
					   ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM);
		if (err)
			return err;
		scale(a, g);
		err = oriel_group_sync(g);
	}
	return err;
}

ORIEL_KERNEL(only_multiply, struct args)
{
	multiply(a, oriel_group_block());
	return 0;
}

ORIEL_KERNEL(only_scale, struct args)
{
	scale(a, oriel_group_block());
	return 0;
}

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_fused(struct oriel_comm *comm, struct args *a)
{
	must(oriel_launch(comm, &fused, 1, THREADS, a, sizeof(*a), NULL));
}

static void run_launched(struct oriel_comm *comm, struct args *a)
{
	for (int i = 0; i < a->steps; i++) {
		must(oriel_launch(comm, &only_multiply, 1, THREADS, a, sizeof(*a), NULL));
		must(oriel_allreduce(comm, NULL, a->y, ROWS, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM,
				     NULL));
		must(oriel_launch(comm, &only_scale, 1, THREADS, a, sizeof(*a), NULL));
	}
}

/* Returns seconds per step.  The eigenvalue goes to *value. */
static double measure(struct oriel_comm *comm, struct args *a,
		      void (*run)(struct oriel_comm *, struct args *), double *value)
{
	double ones[ROWS], best = 1e9;

	for (int i = 0; i < ROWS; i++)
		ones[i] = 1;
	for (int again = 0; again < 3; again++) {
		double start;

		must(oriel_copy(comm, a->x, ones, sizeof(ones)));
		must(oriel_comm_barrier(comm, ORIEL_WORLD));
		start = seconds();
		run(comm, a);
		must(oriel_comm_sync(comm, NULL));
		start = seconds() - start;
		best = start < best ? start : best;
	}
	must(oriel_copy(comm, value, a->value, sizeof(*value)));
	return best / a->steps;
}

int main(void)
{
	double by_fused, by_launches, fused_value = 0, launched_value = 0;
	struct oriel_comm *comm;
	struct oriel_team *team;
	struct args a;
	int rank, nranks;

	memset(&a, 0, sizeof(a));
	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	must(oriel_team_create(comm, NULL, &team));
	must(oriel_team_device(team, &a.team));
	must(oriel_alloc(comm, (2 * ROWS + 1) * sizeof(double), (void **)&a.x));
	a.y = a.x + ROWS;
	a.value = a.y + ROWS;
	a.first = rank * ROWS / nranks;
	a.behind = (rank + 1) * ROWS / nranks;
	a.steps = STEPS;

	by_fused = measure(comm, &a, run_fused, &fused_value);
	by_launches = measure(comm, &a, run_launched, &launched_value);
	if (rank == 0)
		printf("eigenvalue %.12f; one kernel: %.2f us a step, launches: %.2f us\n",
		       fused_value, 1e6 * by_fused, 1e6 * by_launches);
	if (memcmp(&fused_value, &launched_value, sizeof(double)))
		printf("rank %d: the two ways differ\n", rank);

	must(oriel_team_destroy(team));
	must(oriel_free(comm, a.x));
	must(oriel_finalize(comm));
	return memcmp(&fused_value, &launched_value, sizeof(double)) != 0;
}
