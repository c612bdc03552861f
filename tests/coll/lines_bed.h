/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/lines_bed.h - jobs of the tests that use lines: a team, memory for every block, and
 * launches of the kernel of lines_kernel.h.
 */
#ifndef ORIEL_TESTS_COLL_LINES_BED_H
#define ORIEL_TESTS_COLL_LINES_BED_H

#include "lines_kernel.h"

const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

struct job {
	struct bed bed;
	struct oriel_window *window;
	struct oriel_team *team;
	struct args args;
};

static inline void open_job(struct job *j, struct rank_env *env, struct oriel_team_options *o,
			    uint64_t bytes)
{
	memset(j, 0, sizeof(*j));
	bed_open(&j->bed, env, bytes);
	o->cells = bed_cells;
	o->channels = (uint32_t)env->nranks + 1;
	REQUIRE_OK(oriel_team_create(env->comm, o, &j->team));
	REQUIRE_OK(oriel_team_device(j->team, &j->args.team));
	j->args.memory = j->bed.memory;
	j->args.parts = 1;
	j->args.lines = 2;
	j->args.between = 1;
}

static inline void close_job(struct job *j)
{
	CHECK_EQ(oriel_team_destroy(j->team), 0);
	if (j->window)
		CHECK_EQ(oriel_window_destroy(j->window), 0);
	bed_close(&j->bed);
}

static inline int launch(struct job *j, int nblocks, int nthreads)
{
	const struct oriel_kernel *kernel = &line_kernel;
	int err, synced;

	if (bed_on_cuda() && fake_cuda_kernel)
		kernel = fake_cuda_kernel(kernel);
	err = oriel_launch(j->bed.env->comm, kernel, nblocks, nthreads, &j->args, sizeof(j->args),
			   NULL);
	synced = oriel_comm_sync(j->bed.env->comm, NULL);
	return err ? err : synced;
}

/* odd: addresses that are no multiples of 8; ODD_SOME: only on some ranks; ODD_WORDS: of 16. */
#define ODD_SOME 2
#define ODD_WORDS 3

static inline void set_call(struct job *j, int kind, uint64_t count, int odd)
{
	int mine = odd == ODD_SOME ? j->bed.env->rank % 2 : odd == 1;
	uint64_t n = (uint64_t)j->bed.env->nranks,
		 bytes = count * (kind == ORI_COLL_ALLREDUCE ? 4 : n);

	j->args.kind = kind;
	j->args.count = count;
	j->args.send_off = 16 + (mine ? 3 : 0);
	j->args.recv_off = ((16 + bytes + 31) & ~(uint64_t)15) + (mine ? 5 : 0);
	if (odd == ODD_WORDS)
		j->args.recv_off += 8; /* whole words, but not whole chunks of 16 bytes */
	j->args.block_bytes = (j->args.recv_off + bytes + 31) & ~(uint64_t)15;
}

/* Every block's calls, each byte of which its kernel has checked; and nothing behind them. */
static inline void call_lines(struct job *j, int kind, uint64_t count, int odd, int nblocks,
			      int nthreads)
{
	struct bed *b = &j->bed;
	uint64_t n = (uint64_t)b->env->nranks, all = b->bytes, wrong, end;

	set_call(j, kind, count, odd);
	if (j->args.block_bytes * (uint64_t)nblocks > all) {
		check_fail(__FILE__, __LINE__, "the test's memory is too small");
		return;
	}
	b->bytes = j->args.block_bytes * (uint64_t)nblocks; /* of this call */
	memset(b->host, BED_POISON, b->bytes);
	for (int i = 0; i < nblocks; i++)
		memset(b->host + (uint64_t)i * j->args.block_bytes, 0, 8);
	bed_push(b);
	bed_pull(b, "the kernel", launch(j, nblocks, nthreads));
	b->bytes = all;
	end = j->args.recv_off + count * (kind == ORI_COLL_ALLREDUCE ? 4 : n);
	for (int i = 0; i < nblocks; i++) {
		memcpy(&wrong, b->host + (uint64_t)i * j->args.block_bytes, sizeof(wrong));
		CHECK_EQ(wrong, 0);
		CHECK_EQ(b->host[(uint64_t)i * j->args.block_bytes + end], BED_POISON);
	}
	if (check_failures)
		printf("kind %d, count %llu, odd %d, %d blocks of %d threads\n", kind,
		       (unsigned long long)count, odd, nblocks, nthreads);
}

#endif
