/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/fiber.c - fibers, and the device's CPU port on top of them.
 *
 * The device headers call oriel_cpu_drive() where they give the engine time.  Here this call
 * switches to the scheduler.  Their slow path reads the scheduler's clock and never sleeps.  In
 * this program these functions replace src/device/cpu/ and src/engine/engine.c.
 */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "sim.h"

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifndef SIM_ASAN
#define SIM_ASAN 0
#endif
#if SIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#define FIBERS (SIM_RANKS * SIM_THREADS)
#define STACK_BYTES (256u << 10)

struct fiber {
	ucontext_t context;
	void *stack;
	sim_fiber_fn *body;
	void *arg;
	int live;
};

static struct fiber fibers[FIBERS], *running;
static ucontext_t scheduler;
static const struct sim_world *clock_of;

/* ---- switching ------------------------------------------------------------------------------- */

#if SIM_ASAN
static const void *scheduler_stack;
static size_t scheduler_bytes;

static void switch_to_fiber(struct fiber *f)
{
	void *fake = NULL;

	__sanitizer_start_switch_fiber(&fake, f->stack, STACK_BYTES);
	swapcontext(&scheduler, &f->context);
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

static void switch_back(struct fiber *f, int last)
{
	void *fake = NULL;

	__sanitizer_start_switch_fiber(last ? NULL : &fake, scheduler_stack, scheduler_bytes);
	swapcontext(&f->context, &scheduler);
	__sanitizer_finish_switch_fiber(fake, &scheduler_stack, &scheduler_bytes);
}

static void entered(void)
{
	__sanitizer_finish_switch_fiber(NULL, &scheduler_stack, &scheduler_bytes);
}
#else
static void switch_to_fiber(struct fiber *f)
{
	swapcontext(&scheduler, &f->context);
}

static void switch_back(struct fiber *f, int last)
{
	(void)last;
	swapcontext(&f->context, &scheduler);
}

static void entered(void)
{
}
#endif

static void fiber_main(void)
{
	struct fiber *f = running;

	entered();
	f->body(f->arg);
	f->live = 0;
	switch_back(f, 1);
}

int sim_fibers_setup(void)
{
	for (int i = 0; i < FIBERS; i++) {
		if (!fibers[i].stack)
			fibers[i].stack = malloc(STACK_BYTES);
		if (!fibers[i].stack)
			return ORIEL_ENOMEM;
	}
	return 0;
}

void sim_fiber_start(int n, sim_fiber_fn *body, void *arg)
{
	struct fiber *f = &fibers[n];

	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK_BYTES;
	f->context.uc_link = NULL;
	f->body = body;
	f->arg = arg;
	f->live = 1;
	makecontext(&f->context, fiber_main, 0);
}

int sim_fiber_resume(int n)
{
	running = &fibers[n];
	switch_to_fiber(&fibers[n]);
	running = NULL;
	return fibers[n].live;
}

void sim_fibers_abandon(void)
{
	for (int i = 0; i < FIBERS; i++)
		if (fibers[i].live) {
			free(fibers[i].stack);
			fibers[i].stack = NULL;
			fibers[i].live = 0;
		}
}

void sim_fibers_free(void)
{
	for (int i = 0; i < FIBERS; i++) {
		free(fibers[i].stack);
		fibers[i].stack = NULL;
	}
}

void sim_clock_use(const struct sim_world *w)
{
	clock_of = w;
}

/* ---- the device's CPU port ------------------------------------------------------------------- */

void oriel_cpu_drive(struct ori_engine *engine)
{
	(void)engine;
	if (running)
		switch_back(running, 0);
}

void oriel_cpu_yield(void)
{
	oriel_cpu_drive(NULL);
}

uint64_t oriel_cpu_now_ns(void)
{
	return clock_of->now_ns;
}

int oriel_cpu_spin_slow(struct ori_spin *s, uint64_t have)
{
	int err = ori_failed(s->comm, s->window_failure);

	(void)have;
	s->polls = 4;
	if (err)
		return err;
	if (!s->start_ns)
		s->start_ns = clock_of->now_ns;
	return clock_of->now_ns - s->start_ns >= s->timeout_ns ? ORIEL_ETIMEDOUT : 0;
}

void oriel_cpu_spin_end(struct ori_spin *s)
{
	(void)s;
}

void oriel_cpu_wake(struct oriel_waiters *w)
{
	(void)w;
}

void oriel_cpu_report(const struct oriel_comm_dev *comm, const char *call, const char *what,
		      uint64_t value, uint64_t limit)
{
	printf("rank %d: %s: %s: %llu, %llu\n", comm->rank, call, what, (unsigned long long)value,
	       (unsigned long long)limit);
}
