/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cpu/launch.c - kernels on CPU threads: a pool of workers, one job per launch.
 *
 * Every thread of a launch has its own worker, so all blocks run at once and may wait for each
 * other.  The caller runs thread 0 of block 0, so a launch of one thread needs no worker.  Workers
 * are kept for the next launch and end with the pool.
 *
 * Called by: the device table, on any host thread; two launches may run at once.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "cpu.h"

/* One launch, on the stack of its caller. */
struct job {
	const struct oriel_kernel *kernel;
	const void *args;
	struct ori_block *blocks; /* NULL if a block has one thread */
	uint32_t nblocks, nthreads;
	int rank;         /* for the log lines of its threads */
	uint32_t running; /* workers that have not finished; written by them */
	struct ori_outcome *outcome;
	uint32_t has_status, has_why; /* set by the thread that writes this part of the outcome */
};

/*
 * A launcher writes job and index while the worker is idle.  Launcher and worker write `go` in
 * turn.
 */
struct worker {
	pthread_t thread;
	struct worker *next; /* in the idle list */
	struct job *job;     /* NULL tells the worker to end */
	uint32_t index;      /* index of the thread in the launch */
	uint32_t go;
};

struct ori_pool {
	pthread_mutex_t lock;
	struct worker *idle;
	uint64_t timeout_ns;
};

/*
 * The first thread that failed gives the status.  The first failed thread with a text gives the
 * text.  In a group only the leader has a text, and it may return last.  The exchanges are relaxed:
 * the launcher reads both after all threads have ended, see await_job().
 */
static void note_failure(struct job *job, uint32_t block, int status, int has_text)
{
	struct ori_outcome *out = job->outcome;

	if (!out)
		return;
	if (!__atomic_exchange_n(&job->has_status, 1, __ATOMIC_RELAXED)) {
		out->status = status;
		out->block = block;
	}
	if (has_text && !__atomic_exchange_n(&job->has_why, 1, __ATOMIC_RELAXED))
		snprintf(out->why, sizeof(out->why), "%s", ori_last_error_text());
}

static void run_thread(struct job *job, uint32_t index)
{
	struct oriel_cpu_thread before = *oriel_cpu_this_thread(), t;
	uint64_t texts = ori_last_error_count();
	int status;

	t.block = index / job->nthreads;
	t.nblocks = job->nblocks;
	t.thread = index % job->nthreads;
	t.nthreads = job->nthreads;
	t.shared = job->blocks ? &job->blocks[t.block] : NULL;
	ori_cpu_thread_set(&t);
	ori_cpu_kernel_depth_add(1);
	status = job->kernel->cpu(job->args);
	ori_cpu_kernel_depth_add(-1);
	if (status)
		note_failure(job, t.block, status, ori_last_error_count() != texts);
	if (t.shared)
		ori_cpu_group_leave(t.shared);
	ori_cpu_thread_set(&before);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	for (;;) {
		struct job *job;

		/* [LAUNCH2] acquire, process; partner [LAUNCH1] in start_worker(). */
		while (!__atomic_load_n(&w->go, __ATOMIC_ACQUIRE))
			ori_futex_wait(&w->go, 0, ORI_NS_PER_S);
		job = w->job;
		if (!job)
			return NULL;
		ori_log_rank_set(job->rank);
		run_thread(job, w->index);
		__atomic_store_n(&w->go, 0, __ATOMIC_RELAXED);
		/*
		 * [LAUNCH3] acq_rel, process; partner [LAUNCH4] in await_job().  Publishes all that
		 * the kernel wrote on this thread.  Without it the caller could return from the
		 * launch and not see these stores.  This is the last access to the job.  When the
		 * count is 0 the launcher's stack may be gone, and waking its address is then only
		 * a spurious wake.
		 */
		if (__atomic_sub_fetch(&job->running, 1, __ATOMIC_ACQ_REL) == 0)
			ori_futex_wake_all(&job->running);
	}
}

static void start_worker(struct worker *w, struct job *job, uint32_t index)
{
	w->job = job;
	w->index = index;
	/*
	 * [LAUNCH1] release, process; partner [LAUNCH2] in worker_main().  Publishes job, index and
	 * all that the caller wrote before the launch.  Without it the worker could run the
	 * previous launch's job again, from a stack that is gone.
	 */
	__atomic_store_n(&w->go, 1, __ATOMIC_RELEASE);
	ori_futex_wake_all(&w->go);
}

static struct worker *new_worker(void)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (w && pthread_create(&w->thread, NULL, worker_main, w)) {
		free(w);
		w = NULL;
	}
	return w;
}

static void give_back(struct ori_pool *pool, struct worker *list)
{
	pthread_mutex_lock(&pool->lock);
	while (list) {
		struct worker *w = list;

		list = w->next;
		w->next = pool->idle;
		pool->idle = w;
	}
	pthread_mutex_unlock(&pool->lock);
}

/* Takes n workers, idle ones first.  Returns NULL and sets *err if threads cannot be created. */
static struct worker *take_workers(struct ori_pool *pool, uint32_t n, int *err)
{
	struct worker *list = NULL, *w;
	uint32_t got = 0;

	pthread_mutex_lock(&pool->lock);
	while (got < n && pool->idle) {
		w = pool->idle;
		pool->idle = w->next;
		w->next = list;
		list = w;
		got++;
	}
	pthread_mutex_unlock(&pool->lock);
	for (; got < n; got++) {
		w = new_worker();
		if (!w) {
			*err = ori_fail(ORIEL_ENOMEM, "cannot start thread %u of %u for a launch",
					got + 1, n);
			give_back(pool, list);
			return NULL;
		}
		w->next = list;
		list = w;
	}
	return list;
}

static void await_job(struct job *job)
{
	uint32_t running;

	/* [LAUNCH4] acquire, process; partner [LAUNCH3].  Bounded by the kernel's own waits. */
	while ((running = __atomic_load_n(&job->running, __ATOMIC_ACQUIRE)) != 0)
		ori_futex_wait(&job->running, running, ORI_NS_PER_S);
}

static int run_job(struct ori_pool *pool, struct job *job)
{
	uint32_t total = job->nblocks * job->nthreads, index = 1;
	struct worker *list;
	int err = 0;

	list = take_workers(pool, total - 1, &err);
	if (err)
		return err;
	job->running = total - 1;
	ori_crowd_threads_add((int)total);
	for (struct worker *w = list; w; w = w->next)
		start_worker(w, job, index++);
	run_thread(job, 0);
	await_job(job);
	ori_crowd_threads_add(-(int)total);
	give_back(pool, list);
	return 0;
}

int ori_pool_launch(struct ori_pool *pool, const struct oriel_kernel *kernel, int nblocks,
		    int nthreads, const void *args, size_t args_bytes, struct ori_outcome *outcome)
{
	struct job job = { .kernel = kernel,
			   .nblocks = (uint32_t)nblocks,
			   .nthreads = (uint32_t)nthreads,
			   .rank = ori_log_rank_get(),
			   .outcome = outcome };
	void *copy;
	int err;

	if (outcome) {
		outcome->status = 0;
		outcome->block = 0;
		outcome->why[0] = '\0';
	}
	if (nblocks == 1 && nthreads == 1) {
		job.args = args;
		run_thread(&job, 0);
		return 0;
	}
	copy = malloc(args_bytes ? args_bytes : 1);
	if (nthreads > 1)
		job.blocks = aligned_alloc(ORIEL_LINE_BYTES, sizeof(*job.blocks) * (size_t)nblocks);
	if (!copy || (nthreads > 1 && !job.blocks)) {
		err = ori_fail(ORIEL_ENOMEM, "no memory to launch %d blocks", nblocks);
		goto out;
	}
	if (args_bytes)
		memcpy(copy, args, args_bytes);
	job.args = copy;
	for (int b = 0; job.blocks && b < nblocks; b++) {
		memset(&job.blocks[b], 0, sizeof(job.blocks[b]));
		job.blocks[b].timeout_ns = pool->timeout_ns;
	}
	err = run_job(pool, &job);
out:
	free(job.blocks);
	free(copy);
	return err;
}

int ori_pool_create(uint64_t timeout_ns, struct ori_pool **out)
{
	struct ori_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return ori_fail(ORIEL_ENOMEM, "no memory for the thread pool");
	pthread_mutex_init(&pool->lock, NULL);
	pool->timeout_ns = timeout_ns;
	*out = pool;
	return 0;
}

/* No launch is running, because the comm that owns the device is being destroyed. */
void ori_pool_destroy(struct ori_pool *pool)
{
	while (pool->idle) {
		struct worker *w = pool->idle;

		pool->idle = w->next;
		start_worker(w, NULL, 0);
		pthread_join(w->thread, NULL);
		free(w);
	}
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
