/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/forked.c - a rank forks, and the child uses the handles that it inherited.  Each call
 * of the child is refused with a line, and the parent's objects stay usable.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <oriel/coll.h>

#include "../ranks.h"

struct objects {
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_buffer *buffer;
	struct oriel_allgather_request *gather;
	struct oriel_alltoallv_request *exchange;
	struct oriel_source source;
	uint64_t *words;
};

static int refused(int status, const char *call)
{
	if (status == ORIEL_EUNSUPPORTED && strstr(oriel_last_error(), "fork()") &&
	    strstr(oriel_last_error(), call))
		return 0;
	fprintf(stderr, "%s returned %d: %s\n", call, status, oriel_last_error());
	return 1;
}

#define REFUSED(name, ...) refused(name(__VA_ARGS__), #name)

static int use_comm(struct objects *o)
{
	struct oriel_comm *sub = NULL;
	struct oriel_buffer *b = NULL;
	struct oriel_comm_dev dev;
	uint64_t mine = 0, all[8];
	void *p = NULL;
	int self = 0;

	return REFUSED(oriel_comm_create, o->boot, NULL, &sub) +
	       REFUSED(oriel_comm_split, o->comm, 0, 0, &sub) +
	       REFUSED(oriel_comm_subset, o->comm, &self, 1, 0, &sub) +
	       REFUSED(oriel_comm_shrink, o->comm, &sub) +
	       REFUSED(oriel_comm_barrier, o->comm, ORIEL_WORLD) +
	       REFUSED(oriel_comm_allgather, o->comm, ORIEL_WORLD, &mine, all, 8) +
	       REFUSED(oriel_comm_connect, o->comm, NULL, 0) +
	       REFUSED(oriel_comm_device, o->comm, &dev) + REFUSED(oriel_comm_rank, o->comm) +
	       REFUSED(oriel_comm_status, o->comm) + REFUSED(oriel_comm_sync, o->comm, NULL) +
	       REFUSED(oriel_alloc, o->comm, 64, &p) + REFUSED(oriel_free, o->comm, o->words) +
	       REFUSED(oriel_buffer_register, o->comm, o->words, 64, &b) +
	       REFUSED(oriel_buffer_exchange, o->comm, o->buffer) +
	       REFUSED(oriel_comm_abort, o->comm, ORIEL_EABORTED);
}

static int use_window(struct objects *o)
{
	struct oriel_source s;

	return REFUSED(oriel_window_put, o->window, 0, 0, &o->source, 0, 8, NULL) +
	       REFUSED(oriel_window_signal, o->window, 0, 0, ORIEL_ADD, 1, NULL) +
	       REFUSED(oriel_window_wait_signal, o->window, 0, 0, ORIEL_GE, 1, NULL) +
	       REFUSED(oriel_window_barrier, o->window, 0, NULL) +
	       REFUSED(oriel_window_reset_signals, o->window, NULL) +
	       REFUSED(oriel_window_source, o->window, o->words, 64, &s) +
	       REFUSED(oriel_buffer_source, o->buffer, &s) +
	       REFUSED(oriel_window_status, o->window);
}

static int use_requests(struct objects *o)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;

	return REFUSED(oriel_allgather_exec, o->gather, NULL, 1, 8, NULL) +
	       REFUSED(oriel_alltoallv_exec, o->exchange, &args, NULL) +
	       REFUSED(oriel_allgather, o->comm, NULL, o->words, 1, 8, NULL);
}

/* Also what a program does on its way out. */
static int destroy_all(struct objects *o)
{
	return REFUSED(oriel_allgather_destroy, o->gather) +
	       REFUSED(oriel_alltoallv_destroy, o->exchange) +
	       REFUSED(oriel_buffer_release, o->buffer) + REFUSED(oriel_window_destroy, o->window) +
	       REFUSED(oriel_comm_destroy, o->comm) + REFUSED(oriel_boot_destroy, o->boot);
}

static void make(struct rank_env *env, struct objects *o)
{
	struct oriel_alltoallv_options a = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_window_options w = ORIEL_WINDOW_OPTIONS_INIT;
	void *memory;

	o->boot = env->boot;
	o->comm = env->comm;
	w.bytes = 4096;
	a.slot_bytes = 64;
	REQUIRE_OK(oriel_window_create(o->comm, &w, &o->window));
	o->words = oriel_window_buffer(o->window);
	REQUIRE_OK(oriel_window_source(o->window, o->words, 4096, &o->source));
	REQUIRE_OK(oriel_alloc(o->comm, 4096, &memory));
	REQUIRE_OK(oriel_buffer_register(o->comm, memory, 4096, &o->buffer));
	REQUIRE_OK(oriel_buffer_exchange(o->comm, o->buffer));
	REQUIRE_OK(oriel_allgather_create(o->comm, o->window, NULL, &o->gather));
	REQUIRE_OK(oriel_alltoallv_create(o->comm, &a, &o->exchange));
}

static void work(struct rank_env *env, struct objects *o)
{
	int next = (env->rank + 1) % env->nranks;
	int before = (env->rank + env->nranks - 1) % env->nranks;
	uint64_t mine = 7 + (uint64_t)env->rank;

	CHECK_EQ(oriel_window_signal(o->window, next, 1, ORIEL_ADD, 1, NULL), 0);
	CHECK_EQ(oriel_window_wait_signal(o->window, before, 1, ORIEL_GE, 1, NULL), 0);
	CHECK_EQ(oriel_allgather_exec(o->gather, &mine, 1, 8, NULL), 0);
	for (int r = 0; r < env->nranks; r++)
		CHECK_EQ(o->words[r], 7 + r);
	CHECK_EQ(oriel_window_barrier(o->window, 0, NULL), 0);
	CHECK_EQ(oriel_comm_status(o->comm), 0);
}

static void end(struct objects *o)
{
	CHECK_EQ(oriel_allgather_destroy(o->gather), 0);
	CHECK_EQ(oriel_alltoallv_destroy(o->exchange), 0);
	CHECK_EQ(oriel_buffer_release(o->buffer), 0);
	CHECK_EQ(oriel_window_destroy(o->window), 0);
}

static void rank_forks(struct rank_env *env)
{
	struct objects o;
	int status = -1;
	pid_t child;

	make(env, &o);
	CHECK_EQ(oriel_comm_barrier(o.comm, ORIEL_WORLD), 0);
	child = fork();
	if (!child) {
		alarm(100);
		_exit(use_comm(&o) || use_window(&o) || use_requests(&o) || destroy_all(&o));
	}
	REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
	work(env, &o);
	end(&o);
}

TEST(a_forked_child_harms_nobody)
{
	static const char *const layouts[] = { NULL, "3x1" };

	for (int i = 0; i < 2; i++) {
		struct ranks_options o = { .nranks = 3, .processes = 1, .topology = layouts[i] };

		ranks_run(&o, rank_forks, NULL);
	}
}
