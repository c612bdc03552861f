/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cpu/group.c - the barrier of a CPU block's threads, which also hands out the leader's word.
 *
 * Called by: ori_group_agree() of device/group.h, on the block's threads.  struct ori_block (cpu.h)
 * says who writes each field.
 */
#include <sched.h>

#include "../../util/util.h"
#include "cpu.h"

#define SPIN_POLLS 200
#define YIELDS 50
#define SLEEP_NS 10000000ull

static __thread struct oriel_cpu_thread self = { 0, 1, 0, 1, NULL };

const struct oriel_cpu_thread *oriel_cpu_this_thread(void)
{
	return &self;
}

void ori_cpu_thread_set(const struct oriel_cpu_thread *thread)
{
	self = *thread;
}

static int round_over(struct ori_block *b, uint32_t generation)
{
	/* [G3] acquire (seq_cst: see sleep_round); partner [G2]. */
	return __atomic_load_n(&b->generation, __ATOMIC_SEQ_CST) != generation ||
	       __atomic_load_n(&b->broken, __ATOMIC_ACQUIRE);
}

/*
 * The sleeper announces itself and then looks at the generation; the last arriver moves the generation
 * and then looks for sleepers.  All four accesses are seq_cst, so one of the two sees the other.
 */
static void sleep_round(struct ori_block *b, uint32_t generation)
{
	__atomic_fetch_add(&b->sleepers, 1, __ATOMIC_SEQ_CST);
	if (!round_over(b, generation))
		ori_futex_wait(&b->generation, generation, SLEEP_NS);
	__atomic_fetch_sub(&b->sleepers, 1, __ATOMIC_SEQ_CST);
}

static void break_block(struct ori_block *b, const char *why)
{
	if (!__atomic_exchange_n(&b->broken, 1, __ATOMIC_ACQ_REL))
		ori_log(ORI_LOG_ERROR, "a group call was not made by all threads of its block: %s",
			why);
	ori_futex_wake_all(&b->generation);
}

static void await_round(struct ori_block *b, uint32_t generation)
{
	int polls = ori_crowded() ? 0 : SPIN_POLLS;
	uint64_t start = 0;

	for (int i = 0; i < polls; i++) {
		if (round_over(b, generation))
			return;
		ori_pause();
	}
	for (int i = 0; i < YIELDS; i++) {
		if (round_over(b, generation))
			return;
		sched_yield();
	}
	while (!round_over(b, generation)) {
		sleep_round(b, generation);
		if (!start)
			start = ori_now_ns();
		/*
		 * The others are in bounded waits themselves, so twice the deadline means that one
		 * will never come; one whose kernel has returned never will.
		 */
		if (__atomic_load_n(&b->left, __ATOMIC_ACQUIRE) && !round_over(b, generation))
			break_block(b, "one has returned");
		else if (ori_now_ns() - start > 2 * b->timeout_ns)
			break_block(b, "one did not come before the deadline");
	}
}

int oriel_cpu_group_agree(struct ori_block *b, uint32_t thread, uint32_t nthreads, int verdict,
			  uint64_t *value)
{
	/* relaxed: no round ends before this thread has arrived, so the generation stands still */
	uint32_t generation = __atomic_load_n(&b->generation, __ATOMIC_RELAXED);
	uint32_t slot = generation & 1;

	if (__atomic_load_n(&b->broken, __ATOMIC_ACQUIRE))
		return ORIEL_EABORTED;
	if (thread == 0) {
		b->verdict[slot] = verdict;
		if (value)
			b->value[slot] = *value;
	}
	/* [G1] acq_rel: gathers what every thread wrote before; the last one passes it on at [G2]. */
	if (__atomic_fetch_add(&b->arrived, 1, __ATOMIC_ACQ_REL) == nthreads - 1) {
		__atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
		/* [G2] release (seq_cst: see sleep_round); partner [G3]. */
		__atomic_store_n(&b->generation, generation + 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&b->sleepers, __ATOMIC_SEQ_CST))
			ori_futex_wake_all(&b->generation);
	} else {
		await_round(b, generation);
		if (__atomic_load_n(&b->generation, __ATOMIC_ACQUIRE) == generation)
			return ORIEL_EABORTED;
	}
	if (value)
		*value = b->value[slot];
	return b->verdict[slot];
}

void ori_cpu_group_leave(struct ori_block *b)
{
	/* After the thread's last round, so that who sees it also sees that round's end. */
	__atomic_fetch_add(&b->left, 1, __ATOMIC_ACQ_REL);
}
