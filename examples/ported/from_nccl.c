/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An all-reduce of the host and an all-to-all of a kernel, for those who come from NCCL:
 * docs/from-nccl.md has the calls of NCCL beside these.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/coll.h>
#include <oriel/device.h>
#include <oriel/device/coll.h>
#include <oriel/oriel.h>

#define COUNT 256
#define THREADS 4

struct exchange_args {
	struct oriel_team_dev team;
	const float *send;
	float *recv;
};

static void must(int status)
{
	if (status)
		exit(1);
}

ORIEL_KERNEL(exchange, struct exchange_args)
{
	return oriel_coll_alltoall(&a->team, oriel_group_block(), /* channel */ 0, a->send, a->recv,
				   COUNT * sizeof(float));
}

int main(void)
{
	struct exchange_args args;
	struct oriel_team *team;
	struct oriel_comm *comm;
	int rank, nranks, wrong = 0;
	float sum[COUNT], *send;

	must(oriel_init(&comm)); /* ncclGetUniqueId, its broadcast, and ncclCommInitRank */
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);

	for (int i = 0; i < COUNT; i++)
		sum[i] = (float)(rank + i);
	/* ncclAllReduce in place */
	must(oriel_allreduce(comm, NULL, sum, COUNT, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL));
	must(oriel_comm_sync(comm, NULL)); /* cudaStreamSynchronize */
	for (int i = 0; i < COUNT; i++)
		wrong += sum[i] != (float)(nranks * i + nranks * (nranks - 1) / 2);

	must(oriel_team_create(comm, NULL, &team)); /* ncclDevCommCreate */
	must(oriel_team_device(team, &args.team));
	must(oriel_alloc(comm, (size_t)nranks * COUNT * sizeof(float), (void **)&send));
	must(oriel_alloc(comm, (size_t)nranks * COUNT * sizeof(float), (void **)&args.recv));
	for (int i = 0; i < nranks * COUNT; i++)
		send[i] = (float)(1000 * rank + i);
	args.send = send;
	must(oriel_launch(comm, &exchange, 1, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));
	for (int i = 0; i < nranks * COUNT; i++)
		wrong += args.recv[i] != (float)(1000 * (i / COUNT) + rank * COUNT + i % COUNT);

	printf("rank %d: %d numbers are wrong\n", rank, wrong);
	must(oriel_team_destroy(team));
	must(oriel_finalize(comm)); /* ncclCommDestroy */
	return wrong != 0;
}
