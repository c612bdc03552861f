/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/library.c - finds libibverbs and its symbols; see library.h.
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct verbs_library loaded;
static char loaded_name[256]; /* "": not yet */

/* Returns 0, or writes the name of the missing symbol. */
static int find_symbols(void *handle, struct verbs_library *out, char *why, size_t bytes)
{
	static const struct {
		const char *symbol;
		size_t offset;
		int needed;
	} symbols[] = {
#define SYMBOL(result, member, symbol, arguments, needed)                                          \
	{ #symbol, offsetof(struct verbs_library, member), needed },
		VERBS_LIBRARY_LIST(SYMBOL)
#undef SYMBOL
	};

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *at = dlsym(handle, symbols[i].symbol);

		if (!at && symbols[i].needed) {
			snprintf(why, bytes, "libibverbs has no %s: too old", symbols[i].symbol);
			return -1;
		}
		memcpy((char *)out + symbols[i].offset, &at, sizeof(at));
	}
	return 0;
}

static int load(const char *name, char *why, size_t bytes)
{
	struct verbs_library found;
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		const char *error = dlerror();

		snprintf(why, bytes, "cannot load %s: %s", name, error ? error : "no reason given");
		return -1;
	}
	if (find_symbols(handle, &found, why, bytes)) {
		dlclose(handle);
		return -1;
	}
	loaded = found;
	snprintf(loaded_name, sizeof(loaded_name), "%s", name);
	return 0;
}

const struct verbs_library *verbs_library(const char *name, char *why, size_t bytes)
{
	const struct verbs_library *library = NULL;

	pthread_mutex_lock(&lock);
	if (loaded_name[0] ? strcmp(loaded_name, name) != 0 : load(name, why, bytes) != 0) {
		if (loaded_name[0])
			snprintf(why, bytes, "%s is loaded already, not %s", loaded_name, name);
	} else {
		library = &loaded;
	}
	pthread_mutex_unlock(&lock);
	return library;
}

void verbs_library_set(const char *name, const struct verbs_library *library)
{
	pthread_mutex_lock(&lock);
	loaded = *library;
	snprintf(loaded_name, sizeof(loaded_name), "%s", name);
	pthread_mutex_unlock(&lock);
}

int verbs_query_port(const struct verbs_library *lib, struct ibv_context *context, uint8_t port,
		     struct ibv_port_attr *out)
{
	struct verbs_context *extended = verbs_get_ctx_op(context, query_port);

	memset(out, 0, sizeof(*out));
	/* The plain call fills only the first fields, as its type says. */
	return extended ? extended->query_port(context, port, out, sizeof(*out)) :
			  lib->query_port(context, port, (struct _compat_ibv_port_attr *)out);
}
