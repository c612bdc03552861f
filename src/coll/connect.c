/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/connect.c - queues to all peers.
 *
 * Called by alltoallv/create.c and team/create.c, on user threads.
 */
#include <stdlib.h>

#include "../comm/links.h"
#include "connect.h"

static int is_missing(struct oriel_comm *c, int rank)
{
	return c->peers[rank].pair.kind == ORIEL_PEER_QUEUED && !ori_link_to(c, rank);
}

int ori_coll_is_connected(struct oriel_comm *c)
{
	for (int r = 0; r < c->nranks; r++)
		if (is_missing(c, r))
			return 0;
	return 1;
}

int ori_coll_connect(struct oriel_comm *c, enum ori_call call)
{
	int *ranks, n = 0, err;

	ranks = calloc((size_t)c->nranks, sizeof(*ranks));
	err = ranks ? 0 : ori_fail(ORIEL_ENOMEM, "%s: no memory", ori_call_name((int)call));
	err = ori_agree(c->boot, c->timeout_ns, call, err, NULL, NULL, 0);
	for (int r = 0; !err && r < c->nranks; r++)
		if (is_missing(c, r))
			ranks[n++] = r;
	if (!err)
		err = oriel_comm_connect(c, ranks, n);
	free(ranks);
	return err;
}
