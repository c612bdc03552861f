/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cpu/group.c - the barrier of a CPU block's threads, which also distributes the leader's
 * value.
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
static __thread int kernel_depth; /* a kernel may launch a kernel */

const struct oriel_cpu_thread *oriel_cpu_this_thread(void)
{
	return &self;
}

int ori_cpu_in_kernel(void)
{
	return kernel_depth > 0;
}

void ori_cpu_kernel_depth_add(int levels)
{
	kernel_depth += levels;
}

void ori_cpu_thread_set(const struct oriel_cpu_thread *thread)
{
	self = *thread;
}

static int round_over(struct ori_block *b, uint32_t generation)
{
	/*
	 * [CPU3] seq_cst, acquire, process; partner [CPU2].  seq_cst because of sleep_round().
	 * `broken` is loaded with acquire without a partner: nothing is read because it is set.
	 */
	return __atomic_load_n(&b->generation, __ATOMIC_SEQ_CST) != generation ||
	       __atomic_load_n(&b->broken, __ATOMIC_ACQUIRE);
}

/*
 * The sleeper announces itself [CPU4] and then looks at the generation [CPU3].  The last arriver
 * moves the generation [CPU2] and then looks for sleepers [CPU5].  All four accesses are seq_cst,
 * so at least one of the two sees the other.
 */
static void sleep_round(struct ori_block *b, uint32_t generation)
{
	/*
	 * [CPU4] seq_cst, process; partner [CPU5].  With a weaker order the add could come after
	 * the load.  The last arriver then finds no sleeper, the sleeper finds the old generation,
	 * and the block pauses for SLEEP_NS.
	 */
	__atomic_fetch_add(&b->sleepers, 1, __ATOMIC_SEQ_CST);
	if (!round_over(b, generation))
		ori_futex_wait(&b->generation, generation, SLEEP_NS);
	/* seq_cst without a partner: a late subtraction costs one needless wake */
	__atomic_fetch_sub(&b->sleepers, 1, __ATOMIC_SEQ_CST);
}

static void break_block(struct ori_block *b, const char *why)
{
	/*
	 * acq_rel without a partner: elects the thread that logs; nothing is read because it is set
	 */
	if (!__atomic_exchange_n(&b->broken, 1, __ATOMIC_ACQ_REL))
		ori_log(ORI_LOG_ERROR, "a group call was not made by all threads of its block: %s",
			why);
	ori_futex_wake_all(&b->generation);
}

static void await_round(struct ori_block *b, const struct oriel_group *g, uint32_t generation)
{
	uint64_t own_ns = (uint64_t)g->timeout_ms * 1000000u;
	uint64_t limit_ns = 2 * (own_ns > b->timeout_ns ? own_ns : b->timeout_ns);
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
		 * The other threads are in bounded waits themselves, by the comm's deadline or the
		 * group's own.  So after twice the longer one, a missing thread never comes.  A
		 * thread whose kernel has returned does not come either.
		 * [CPU7] acquire, process; partner [CPU6]: the generation read next is not older.
		 */
		if (__atomic_load_n(&b->left, __ATOMIC_ACQUIRE) && !round_over(b, generation))
			break_block(b, "one has returned");
		else if (ori_now_ns() - start > limit_ns)
			break_block(b, "one did not come before the deadline");
	}
}

int oriel_cpu_group_agree(struct ori_block *b, const struct oriel_group *g, int verdict,
			  uint64_t *value)
{
	/* relaxed: no round ends before this thread has arrived, so the generation cannot change */
	uint32_t generation = __atomic_load_n(&b->generation, __ATOMIC_RELAXED);
	uint32_t slot = generation & 1;

	/* acquire without a partner: nothing is read because it is set */
	if (__atomic_load_n(&b->broken, __ATOMIC_ACQUIRE))
		return ORIEL_EABORTED;
	if (g->thread == 0) {
		b->verdict[slot] = verdict;
		if (value)
			b->value[slot] = *value;
	}
	/*
	 * [CPU1] acq_rel, process; partner: [CPU1] of the other threads of the block.  Publishes
	 * what this thread wrote before the barrier.  The last thread acquires it from all threads
	 * and publishes it with [CPU2].
	 */
	if (__atomic_fetch_add(&b->arrived, 1, __ATOMIC_ACQ_REL) == g->size - 1) {
		__atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
		/*
		 * [CPU2] seq_cst, release, process; partner [CPU3].  Publishes what all threads of
		 * the block wrote before they met, and the leader's verdict and value.  Without it
		 * a thread could leave the barrier and read data that another thread has yet to
		 * write.  seq_cst because of sleep_round().
		 */
		__atomic_store_n(&b->generation, generation + 1, __ATOMIC_SEQ_CST);
		/* [CPU5] seq_cst, process; partner [CPU4]. */
		if (__atomic_load_n(&b->sleepers, __ATOMIC_SEQ_CST))
			ori_futex_wake_all(&b->generation);
	} else {
		await_round(b, g, generation);
		/* acquire as [CPU3]: it ended by a broken block, or by the round */
		if (__atomic_load_n(&b->generation, __ATOMIC_ACQUIRE) == generation)
			return ORIEL_EABORTED;
	}
	if (value)
		*value = b->value[slot];
	return b->verdict[slot];
}

void ori_cpu_group_leave(struct ori_block *b)
{
	/*
	 * [CPU6] acq_rel, process; partner [CPU7].  Publishes the end of this thread's last round.
	 * Without it a thread that still waits in that round could see that this one has left,
	 * together with the old generation.  It would then break a block in which all threads had
	 * come.
	 */
	__atomic_fetch_add(&b->left, 1, __ATOMIC_ACQ_REL);
}
