/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/gpu.c - memory of queues, and pages of doorbells, in reach of the GPU that posts.
 *
 * Owns the list of pieces of a NIC.  libmlx5 takes its queues' memory here too where a GPU
 * posts.  Called when queues are made and dropped, by one thread at a time; the caller's CUDA
 * context is current.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../../util/util.h"
#include "mlx5.h"

/* Flags of cuMemHostRegister. */
#define MAP_PORTABLE 1u
#define MAP_DEVICE 2u
#define MAP_IO 4u

static int map(struct mlx5_nic *n, void *base, size_t bytes, int doorbells)
{
	struct mlx5_piece *p = calloc(1, sizeof(*p));

	if (!p)
		return -1;
	n->gpu_error = n->gpu ?
			       n->b->gpu_map(base, bytes,
					     MAP_PORTABLE | MAP_DEVICE | (doorbells ? MAP_IO : 0)) :
			       0;
	if (n->gpu_error) {
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
	if (n->gpu && n->b->gpu_unmap(p->base))
		ori_log(ORI_LOG_WARN, "%s: the GPU keeps queue memory mapped", n->v.name);
	if (!p->doorbells)
		munmap(p->base, p->bytes);
	free(p);
}

void *mlx5_memory_take(size_t bytes, void *nic)
{
	size_t whole = (bytes + MLX5_PAGE - 1) & ~(size_t)(MLX5_PAGE - 1);
	void *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	if (map(nic, base, whole, 0)) {
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

/* Queues share pages of doorbells: each is mapped once, until the NIC is closed. */
int mlx5_doorbell_map(struct mlx5_nic *n, void *doorbell, char *why, size_t bytes)
{
	void *page = (char *)doorbell - (uintptr_t)doorbell % MLX5_PAGE;

	if (!n->gpu)
		return 0;
	for (struct mlx5_piece *p = n->pieces; p; p = p->next)
		if (p->doorbells && p->base == page)
			return 0;
	if (!map(n, page, MLX5_PAGE, 1))
		return 0;
	snprintf(why, bytes,
		 "the GPU cannot map doorbells of %s (CUDA error %d): load nvidia with "
		 "NVreg_RegistryDwords=\"PeerMappingOverride=1;\" or set ORIEL_ENGINE=verbs",
		 n->v.name, n->gpu_error);
	return ORIEL_EUNSUPPORTED;
}

void mlx5_pieces_drop(struct mlx5_nic *n)
{
	while (n->pieces)
		drop(n, &n->pieces);
}
