/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c - contexts.
 *
 * A context gets the lowest free block number.  Oriel maps blocks to lanes by number, so the first
 * contexts have different lanes (ORIEL_LANES).  Contexts that share a lane are still correct: a
 * quiet of one may wait for operations of the other.
 */
#include <pthread.h>
#include <stdlib.h>

#include "osh.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

/* Called under the lock.  The list is sorted by number, and the default context is number 0. */
static void insert(struct osh_ctx *ctx)
{
	struct osh_ctx **at = &osh.context.next;
	uint32_t number = 1;

	for (; *at && (*at)->group.block == number; at = &(*at)->next)
		number++;
	ctx->group.block = number;
	ctx->group.nblocks = number + 1;
	ctx->next = *at;
	*at = ctx;
}

static void take_out(struct osh_ctx *ctx)
{
	struct osh_ctx **at = &osh.context.next;

	while (*at && *at != ctx)
		at = &(*at)->next;
	if (*at)
		*at = ctx->next;
}

struct osh_ctx *osh_ctx_make(long options, shmem_team_t team, const int *world, int npes)
{
	struct osh_ctx *ctx = malloc(sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->group = osh.context.group;
	ctx->options = options;
	ctx->team = team;
	ctx->world = world;
	ctx->npes = npes;
	pthread_mutex_lock(&list_lock);
	insert(ctx);
	pthread_mutex_unlock(&list_lock);
	return ctx;
}

void osh_ctx_free(struct osh_ctx *ctx)
{
	osh_quiet("shmem_ctx_destroy", ctx);
	pthread_mutex_lock(&list_lock);
	take_out(ctx);
	pthread_mutex_unlock(&list_lock);
	free(ctx);
}

/* The first context of the team, or of any team. */
static struct osh_ctx *find_of(shmem_team_t team)
{
	struct osh_ctx *ctx;

	pthread_mutex_lock(&list_lock);
	ctx = osh.context.next;
	while (ctx && team != SHMEM_TEAM_INVALID && ctx->team != team)
		ctx = ctx->next;
	pthread_mutex_unlock(&list_lock);
	return ctx;
}

void osh_ctx_free_of(shmem_team_t team)
{
	struct osh_ctx *ctx;

	while ((ctx = find_of(team)))
		osh_ctx_free(ctx);
}

/* ---- public ---------------------------------------------------------------------------------- */

int shmem_ctx_create(long options, shmem_ctx_t *ctx)
{
	osh_check_ready("shmem_ctx_create");
	*ctx = osh_ctx_make(options, SHMEM_TEAM_WORLD, NULL, (int)osh.npes);
	return *ctx ? 0 : -1;
}

void shmem_ctx_destroy(shmem_ctx_t ctx)
{
	osh_check_ready("shmem_ctx_destroy");
	if (ctx == SHMEM_CTX_DEFAULT)
		osh_fail("shmem_ctx_destroy", "SHMEM_CTX_DEFAULT cannot be destroyed");
	if (ctx != SHMEM_CTX_INVALID)
		osh_ctx_free(ctx);
}

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team)
{
	osh_check_ready("shmem_ctx_get_team");
	*team = SHMEM_TEAM_INVALID;
	if (ctx == SHMEM_CTX_INVALID)
		return -1;
	*team = osh_ctx_of("shmem_ctx_get_team", ctx)->team;
	return 0;
}
