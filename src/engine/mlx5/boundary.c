/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/boundary.c - fills the table of boundary.h from the system's libraries.
 *
 * Owns the one table of the process, under a lock.  Called when an engine is opened or searched.
 */
#include "boundary.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mlx5_boundary table;
static int filled;

struct symbol {
	const char *name;
	size_t offset;
};

#define SYMBOL(result, member, symbol, arguments)                                                  \
	{ #symbol, offsetof(struct mlx5_boundary, member) },
static const struct symbol verbs_symbols[] = { MLX5_VERBS_LIST(SYMBOL) };
static const struct symbol direct_symbols[] = { MLX5_DIRECT_LIST(SYMBOL) };
#undef SYMBOL

/*
 * Returns 0, or writes what is missing.  The library stays loaded, because others in the process
 * use it too.
 */
static int fill(const char *library, const struct symbol *s, size_t n, const char *remedy,
		struct mlx5_boundary *out, char *why, size_t bytes)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		snprintf(why, bytes, "cannot load %s: %s", library, remedy);
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		void *at = dlsym(handle, s[i].name);

		if (!at) {
			snprintf(why, bytes, "%s has no %s: %s", library, s[i].name, remedy);
			return -1;
		}
		memcpy((char *)out + s[i].offset, &at, sizeof(at));
	}
	return 0;
}

static int load(const struct ori_config *config, char *why, size_t bytes)
{
	struct mlx5_boundary found = { .verbs = verbs_library(config->ib_library, why, bytes) };

	if (!found.verbs ||
	    fill(config->ib_library, verbs_symbols,
		 sizeof(verbs_symbols) / sizeof(verbs_symbols[0]),
		 "install rdma-core 28 or newer (package libibverbs1)", &found, why, bytes) ||
	    fill(config->mlx5_library, direct_symbols,
		 sizeof(direct_symbols) / sizeof(direct_symbols[0]),
		 "install rdma-core 28 or newer (package ibverbs-providers)", &found, why, bytes))
		return -1;
	table = found;
	filled = 1;
	return 0;
}

const struct mlx5_boundary *mlx5_boundary(const struct ori_config *config, char *why, size_t bytes)
{
	const struct mlx5_boundary *b;

	pthread_mutex_lock(&lock);
	b = filled || !load(config, why, bytes) ? &table : NULL;
	pthread_mutex_unlock(&lock);
	return b;
}

void mlx5_boundary_set(const struct mlx5_boundary *b)
{
	pthread_mutex_lock(&lock);
	memset(&table, 0, sizeof(table));
	if (b)
		table = *b;
	filled = b != NULL;
	pthread_mutex_unlock(&lock);
}
