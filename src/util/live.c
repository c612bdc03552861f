/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/live.c - the list of handles that users hold.
 *
 * Owns the list, not the handles.  It never reads through a handle: a destroyed or foreign pointer
 * is only a number here.  A handle that is not listed counts as destroyed.
 *
 * Called by: every public call, on any thread.  The list is divided into shards by address, each
 * with its own lock.  So thread ranks that use different windows do not contend here.
 *
 * A child of fork() has a copy of the list and of the handles' memory, and shares control memory
 * with its parent.  It does not have the threads and sockets that serve the handles.  One call of
 * the child could end the parent's comm.  So handles that are older than the process are refused.
 */
#include <pthread.h>
#include <stdlib.h>

#include "util.h"

#define SHARDS 64

struct live_entry {
	struct live_entry *next;
	const void *handle;
	enum ori_live_kind kind;
	unsigned process;
};

/* The result of find_kind() for a handle that was made before a fork(). */
#define INHERITED (-1)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned process; /* incremented in the child of a fork; read under any shard's lock */

static struct shard {
	pthread_mutex_t lock;
	struct live_entry *head;
} shards[SHARDS] = { [0 ... SHARDS - 1] = { PTHREAD_MUTEX_INITIALIZER, NULL } };

static void lock_all(void)
{
	for (int i = 0; i < SHARDS; i++)
		pthread_mutex_lock(&shards[i].lock);
}

static void unlock_all(void)
{
	for (int i = 0; i < SHARDS; i++)
		pthread_mutex_unlock(&shards[i].lock);
}

static void begin_child(void)
{
	process++;
	unlock_all();
}

/*
 * fork() holds all locks, because a lock that another thread of the parent held would stay locked
 * in the child.
 */
static void install(void)
{
	pthread_atfork(lock_all, unlock_all, begin_child);
}

static struct shard *shard_of(const void *handle)
{
	uint64_t bits = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15ull;

	return &shards[bits >> 58];
}

static const char *kind_word(int kind)
{
	switch (kind) {
	case ORI_LIVE_BOOT:
		return "boot";
	case ORI_LIVE_COMM:
		return "comm";
	case ORI_LIVE_BUFFER:
		return "buffer";
	case ORI_LIVE_WINDOW:
		return "window";
	case ORI_LIVE_TEAM:
		return "team";
	case ORI_LIVE_ALLGATHER:
		return "persistent all-gather";
	case ORI_LIVE_ALLTOALLV:
		return "all-to-all-v";
	case ORI_LIVE_MEMORY:
		return "kept memory";
	default:
		return "handle";
	}
}

int ori_live_add(const void *handle, enum ori_live_kind kind)
{
	struct shard *shard = shard_of(handle);
	struct live_entry *entry = malloc(sizeof(*entry));

	if (!entry)
		return ori_fail(ORIEL_ENOMEM, "no memory to list a new %s", kind_word(kind));
	pthread_once(&once, install);
	entry->handle = handle;
	entry->kind = kind;
	pthread_mutex_lock(&shard->lock);
	entry->process = process;
	entry->next = shard->head;
	shard->head = entry;
	pthread_mutex_unlock(&shard->lock);
	return 0;
}

void ori_live_remove(const void *handle)
{
	struct shard *shard = shard_of(handle);
	struct live_entry **at, *gone;

	pthread_mutex_lock(&shard->lock);
	for (at = &shard->head; *at && (*at)->handle != handle; at = &(*at)->next)
		;
	gone = *at;
	if (gone)
		*at = gone->next;
	pthread_mutex_unlock(&shard->lock);
	free(gone);
}

/* Returns 0 if it is not listed, INHERITED, or the kind. */
static int find_kind(const void *handle)
{
	struct shard *shard = shard_of(handle);
	int kind = 0;

	pthread_mutex_lock(&shard->lock);
	for (struct live_entry *e = shard->head; e && !kind; e = e->next) {
		if (e->handle == handle)
			kind = e->process == process ? (int)e->kind : INHERITED;
	}
	pthread_mutex_unlock(&shard->lock);
	return kind;
}

int ori_live_check(const void *handle, enum ori_live_kind kind, const char *call)
{
	int found;

	if (!handle)
		return ori_fail(ORIEL_EINVAL, "%s: the %s is NULL", call, kind_word(kind));
	found = find_kind(handle);
	if (found == (int)kind)
		return 0;
	if (found == INHERITED)
		return ori_fail(ORIEL_EUNSUPPORTED,
				"%s: the %s was made before fork(), and only the parent may use it",
				call, kind_word(kind));
	if (found)
		return ori_fail(ORIEL_EINVAL, "%s: takes a %s, got a %s", call, kind_word(kind),
				kind_word(found));
	return ori_fail(ORIEL_ESTALE, "%s: no such %s: it was destroyed, or never was one", call,
			kind_word(kind));
}
