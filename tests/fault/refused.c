/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/refused.c - a put past the end of a queued peer's window or exchanged buffer.
 *
 * Every rank gets the same first cause, also as its last error.  It names the source rank, the
 * target rank, the window or buffer, and the offset.
 *
 * The NIC that refuses the put knows of it first.  The rank that made the put is stopped for a
 * while at that time, and is named nevertheless.
 */
#include <oriel/device.h>
#include <oriel/oriel.h>

#include "boot_job.h"

#define RANKS 3 /* rank 0 has the rendezvous */
#define TARGET 1
#define CULPRIT 2
#define WINDOW_BYTES 4096
#define OFFSET (1 << 20)
#define JOBS 6
#define STILL_MS 300

static int stands_still, into_buffer; /* set before the fork */

struct put_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	struct oriel_comm_dev comm;
	struct oriel_remote remote; /* the target's buffer, with into_buffer */
};

ORIEL_KERNEL(put_kernel, struct put_args)
{
	struct oriel_group g = oriel_group_block();
	int err = 0;

	if (oriel_rank(&a->win) == CULPRIT) {
		err = into_buffer ? oriel_queue_put(&a->comm, g, TARGET, &a->remote, OFFSET,
						    &a->src, 0, 64) :
				    oriel_put(&a->win, g, TARGET, OFFSET, &a->src, 0, 64);
		if (stands_still)
			raise(SIGSTOP);
	}
	if (!err)
		err = oriel_barrier(&a->win, g, 0);
	return err;
}

/* Lets this process go on a while after it has stopped. */
static void go_on_soon(void)
{
	pid_t pid = getpid();

	if (fork())
		return;
	for (int i = 0; i < 100; i++) { /* it may stop later than this is sent */
		usleep(STILL_MS * 1000);
		if (kill(pid, SIGCONT))
			break;
	}
	_exit(0);
}

static int exchange(struct oriel_comm *comm, int rank, void *memory, struct put_args *args)
{
	struct oriel_buffer *buffer;
	int err = oriel_buffer_register(comm, memory, WINDOW_BYTES, &buffer);

	if (!err)
		err = oriel_buffer_exchange(comm, buffer);
	if (!err)
		err = oriel_comm_device(comm, &args->comm);
	if (!err && rank == CULPRIT)
		err = oriel_buffer_remote(buffer, TARGET, &args->remote);
	args->remote.bytes = 2 * OFFSET; /* wrong: the call itself would refuse the offset */
	return err;
}

static int put_past_the_end(int rank)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	struct put_args args;
	void *memory;
	int err = oriel_boot_env(&boot);

	o.bytes = WINDOW_BYTES;
	if (!err)
		err = oriel_comm_create(boot, NULL, &comm);
	if (!err)
		err = oriel_window_create(comm, &o, &window);
	if (!err)
		err = oriel_alloc(comm, 4096, &memory);
	if (!err)
		err = oriel_window_device(window, &args.win);
	if (!err)
		err = oriel_window_source(window, memory, 1024, &args.src);
	if (!err && into_buffer)
		err = exchange(comm, rank, memory, &args);
	if (err)
		return err;
	if (stands_still && rank == CULPRIT)
		go_on_soon();
	return oriel_launch(comm, &put_kernel, 1, 1, &args, sizeof(args), NULL);
}

static void run_rank(struct job *job, int rank)
{
	uint64_t start = ori_now_ns();
	int err;

	setenv("ORIEL_TOPOLOGY", "3x1", 1);
	err = put_past_the_end(rank);
	job_note(job, rank, err, start);
	for (int r = 0; r < RANKS; r++)
		(void)job_await(&job->ranks[r].ran);
	_exit(0);
}

static void check_job(struct job *job)
{
	const char *where = into_buffer ?
				    "put of 64 bytes at offset 1048576 of an exchanged buffer" :
				    "put of 64 bytes at offset 1048576 of window 0";

	for (int r = 0; r < RANKS; r++) {
		const char *text = job->ranks[r].error;

		printf("rank %d: %.2f s: %s: %s\n", r, job->ranks[r].seconds,
		       oriel_status_name(job->ranks[r].status), text);
		CHECK_RANK(job, r, ORIEL_EREMOTE, "rank 2: main queue to rank 1", JOB_SOON_S);
		CHECK_HAS(text, "remote access error");
		CHECK_HAS(text, where);
		CHECK_HAS(text, "has 4096 bytes");
	}
	CHECK(!job_log_has(job, "local access error"));
}

static void run_jobs(int jobs)
{
	for (int i = 0; i < jobs; i++) {
		struct job job;

		if (job_open(&job, RANKS, JOB_NEVER) || job_keep_log(&job))
			return;
		job_run(&job, run_rank);
		check_job(&job);
		job_close(&job);
	}
}

TEST(all_ranks_name_who_put_past_the_end)
{
	run_jobs(JOBS);
}

TEST(also_when_it_stands_still_meanwhile)
{
	stands_still = 1;
	run_jobs(JOBS);
	stands_still = 0;
}

TEST(a_put_past_the_end_of_a_buffer_is_named_too)
{
	into_buffer = 1;
	run_jobs(1);
	into_buffer = 0;
}
