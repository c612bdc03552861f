/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/pieces.c - memory of queues, and pages of doorbells, that the posting device can
 * access.
 *
 * Owns the list of pieces of a NIC.  If a GPU posts, libmlx5 also takes its queue memory here.  The
 * world makes the pieces accessible to the device.  Called when queues are made and destroyed, by
 * one thread at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../util/util.h"
#include "mlx5.h"

size_t mlx5_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static int keep(struct mlx5_nic *n, void *base, size_t bytes, int doorbells)
{
	struct mlx5_piece *p = calloc(1, sizeof(*p));

	n->unreached[0] = '\0';
	if (!p)
		return -1;
	if (n->device && n->device->reach(n->device->ctx, base, bytes, doorbells, n->unreached,
					  sizeof(n->unreached))) {
		free(p);
		return -1;
	}
	p->base = base;
	p->bytes = bytes;
	p->doorbells = doorbells;
	p->next = n->pieces;
	n->pieces = p;
	return 0;
}

static void drop(struct mlx5_nic *n, struct mlx5_piece **at)
{
	struct mlx5_piece *p = *at;

	*at = p->next;
	if (n->device)
		n->device->unreach(n->device->ctx, p->base);
	if (!p->doorbells)
		munmap(p->base, p->bytes);
	free(p);
}

void *mlx5_memory_take(size_t bytes, void *nic)
{
	size_t page = mlx5_page_bytes(), whole = (bytes + page - 1) & ~(page - 1);
	/* cppcheck-suppress invalidFunctionArg */
	void *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	if (keep(nic, base, whole, 0)) {
		munmap(base, whole);
		return NULL;
	}
	return base;
}

void mlx5_memory_give(void *base, void *nic)
{
	struct mlx5_nic *n = nic;

	for (struct mlx5_piece **at = &n->pieces; *at; at = &(*at)->next)
		if ((*at)->base == base && !(*at)->doorbells) {
			drop(n, at);
			return;
		}
}

/* Queues share pages of doorbells.  Each page is mapped once, until the context is closed. */
int mlx5_doorbell_map(struct mlx5_nic *n, void *doorbell, char *why, size_t bytes)
{
	size_t page_bytes = mlx5_page_bytes();
	void *page = (char *)doorbell - (uintptr_t)doorbell % page_bytes;

	if (!n->device)
		return 0;
	for (struct mlx5_piece *p = n->pieces; p; p = p->next)
		if (p->doorbells && p->base == page)
			return 0;
	if (!keep(n, page, page_bytes, 1))
		return 0;
	snprintf(why, bytes, "doorbells of %s: %s; or set ORIEL_ENGINE=verbs", n->v.name,
		 n->unreached[0] ? n->unreached : "no memory");
	return MLX5_LACKING;
}

void mlx5_doorbells_drop(struct mlx5_nic *n)
{
	struct mlx5_piece **at = &n->pieces;

	while (*at)
		if ((*at)->doorbells)
			drop(n, at);
		else
			at = &(*at)->next;
}

void mlx5_pieces_drop(struct mlx5_nic *n)
{
	while (n->pieces)
		drop(n, &n->pieces);
}
