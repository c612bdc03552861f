/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * setup.c - from shmem_init() to shmem_finalize(), and what a program asks about itself.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "options.h"
#include "osh.h"
#include "set.h"

struct osh_state osh;

static pthread_mutex_t setup_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- opening --------------------------------------------------------------------------------- */

static void open_comm(const struct osh_options *options)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_boot *boot = NULL;
	int err;

	o.device = "cpu";
	o.timeout = options->timeout;
	osh_check("shmem_init", oriel_boot_env(&boot));
	err = oriel_comm_create(boot, &o, &osh.comm);
	(void)oriel_boot_destroy(boot);
	osh_check("shmem_init", err);
	osh.pe = oriel_comm_rank(osh.comm);
	osh.pid = getpid();
}

/* Files with state of their own.  Each is opened after what it uses, and closed before it. */
static void open_parts(void)
{
	osh_watch_start();
	osh_agent_open();
	osh_teams_open();
}

static void close_parts(void)
{
	osh_ctx_free_of(SHMEM_TEAM_INVALID);
	osh_sets_close();
	osh_active_sets_forget();
	osh_agent_close();
	osh_watch_stop();
}

static void finalize_at_exit(int status, void *unused)
{
	(void)unused;
	/*
	 * A PE that fails does not wait for the others.  The launcher ends the job, and the others
	 * learn which PE is missing.
	 */
	if (status == 0 && osh.pid == getpid())
		shmem_finalize();
}

static void init(int level)
{
	static int registered;
	struct osh_options options;

	osh_options_read(&options);
	osh.debug = options.debug;
	osh.thread_level = level;
	open_comm(&options);
	osh_options_print(&options, osh.pe);
	osh_memory_open(options.heap_bytes);
	open_parts();
	if (!registered)
		registered = !on_exit(finalize_at_exit, NULL);
	osh_barrier("shmem_init", OSH_BARRIER_END);
}

/* ---- public: setup --------------------------------------------------------------------------- */

int shmem_init_thread(int requested, int *provided)
{
	if (requested < SHMEM_THREAD_SINGLE || requested > SHMEM_THREAD_MULTIPLE)
		osh_fail("shmem_init_thread", "%d is not a thread level", requested);
	pthread_mutex_lock(&setup_lock);
	if (!osh.npes)
		init(SHMEM_THREAD_MULTIPLE);
	pthread_mutex_unlock(&setup_lock);
	if (provided)
		*provided = osh.thread_level;
	return 0;
}

void shmem_init(void)
{
	(void)shmem_init_thread(SHMEM_THREAD_MULTIPLE, NULL);
}

void shmem_query_thread(int *provided)
{
	osh_check_ready("shmem_query_thread");
	*provided = osh.thread_level;
}

void shmem_finalize(void)
{
	struct oriel_comm *comm;

	pthread_mutex_lock(&setup_lock);
	if (osh.npes) {
		osh_barrier("shmem_finalize", OSH_BARRIER_END);
		close_parts();
		osh_memory_close();
		comm = osh.comm;
		osh.comm = NULL; /* a failed call may have destroyed it */
		osh_check("shmem_finalize", oriel_finalize(comm));
	}
	pthread_mutex_unlock(&setup_lock);
}

/* ---- public: questions ----------------------------------------------------------------------- */

int shmem_my_pe(void)
{
	osh_check_ready("shmem_my_pe");
	return osh.pe;
}

int shmem_n_pes(void)
{
	osh_check_ready("shmem_n_pes");
	return (int)osh.npes;
}

void shmem_info_get_version(int *major, int *minor)
{
	*major = SHMEM_MAJOR_VERSION;
	*minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char *name)
{
	snprintf(name, SHMEM_MAX_NAME_LEN, "%s", SHMEM_VENDOR_STRING);
}

void shmem_pcontrol(int level, ...)
{
	(void)level; /* there is nothing to profile here */
}

/* ---- deprecated names ------------------------------------------------------------------------ */

void start_pes(int npes)
{
	(void)npes;
	shmem_init();
}

int _my_pe(void)
{
	return shmem_my_pe();
}

int _num_pes(void)
{
	return shmem_n_pes();
}

void shmem_clear_cache_inv(void)
{
}

void shmem_set_cache_inv(void)
{
}

void shmem_clear_cache_line_inv(void *dest)
{
	(void)dest;
}

void shmem_set_cache_line_inv(void *dest)
{
	(void)dest;
}

void shmem_udcflush(void)
{
}

void shmem_udcflush_line(void *dest)
{
	(void)dest;
}
