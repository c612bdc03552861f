/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/calls.c - what all calls have in common: knobs, counting, injected failures; and what
 * is left over at the end.  Called on any thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

struct fake_knobs fake_knobs;
pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

/* Complete by construction: a call that the library knows and the fake lacks does not link. */
static const struct {
	const char *name;
	void (*function)(void);
} calls[] = {
#define FAKE_ROW(field, symbol, args) { #field, (void (*)(void))symbol },
	ORI_CU_CALLS(FAKE_ROW)
#undef FAKE_ROW
};

struct counted {
	int count;   /* calls since the knobs were set */
	int fail_at; /* which of them fails; 0: none */
	int code;
	int held;
	unsigned int slow_us;
};

/* Under `counting`: fake_lock may be held by the caller of fake_fault(). */
static struct counted counted[FAKE_CALLS];
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t let_go = PTHREAD_COND_INITIALIZER;
static int broken; /* atomic */
/*
 * Under `counting`: kernels that were launched and have not ended, and whether a call waits for
 * them.
 */
static int kernels;
static int waiting;
static pthread_cond_t no_kernel = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done_waiting = PTHREAD_COND_INITIALIZER;
static pid_t initialised_by; /* atomic */
static char *always;         /* knobs that are set before all others */

void fake_fault(const char *fmt, ...)
{
	va_list ap;

	fputs("fake_cuda: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\n", stderr);
	abort();
}

void fake_sleep_us(unsigned int us)
{
	struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };

	if (us)
		nanosleep(&t, NULL);
}

/* ---- every call ------------------------------------------------------------------------------ */

/* They may come before cuInit. */
static int needs_no_init(enum fake_call call)
{
	return call == FAKE_cuInit || call == FAKE_cuDriverGetVersion ||
	       call == FAKE_cuGetErrorString;
}

/* Their work is done by a stream, and that is what is slow. */
static int works_on_stream(enum fake_call call)
{
	return call == FAKE_cuMemcpyAsync || call == FAKE_cuMemsetD8Async ||
	       call == FAKE_cuLaunchKernel;
}

/* `counting` is held. */
static void await_turn(void)
{
	while (waiting)
		pthread_cond_wait(&done_waiting, &counting);
}

void fake_await_turn(void)
{
	pthread_mutex_lock(&counting);
	await_turn();
	pthread_mutex_unlock(&counting);
}

int fake_enter(enum fake_call call)
{
	unsigned int slow_us;
	int code = 0;

	pthread_mutex_lock(&counting);
	await_turn();
	if (++counted[call].count == counted[call].fail_at)
		code = counted[call].code;
	slow_us = counted[call].slow_us;
	pthread_mutex_unlock(&counting);
	if (!needs_no_init(call) && !fake_is_initialised())
		return FAKE_NOT_INITIALIZED;
	if (!works_on_stream(call))
		fake_sleep_us(slow_us);
	return code;
}

unsigned int fake_slow_us(enum fake_call call)
{
	unsigned int us;

	pthread_mutex_lock(&counting);
	us = counted[call].slow_us;
	pthread_mutex_unlock(&counting);
	return us;
}

void fake_await_release(enum fake_call call)
{
	pthread_mutex_lock(&counting);
	while (counted[call].held)
		pthread_cond_wait(&let_go, &counting);
	pthread_mutex_unlock(&counting);
}

void fake_kernel_counts(int change)
{
	pthread_mutex_lock(&counting);
	kernels += change;
	if (!kernels)
		pthread_cond_broadcast(&no_kernel);
	pthread_mutex_unlock(&counting);
}

void fake_await_kernels(void)
{
	pthread_mutex_lock(&counting);
	waiting++;
	while (kernels)
		pthread_cond_wait(&no_kernel, &counting);
	waiting--;
	pthread_cond_broadcast(&done_waiting);
	pthread_mutex_unlock(&counting);
}

int fake_broken(void)
{
	return __atomic_load_n(&broken, __ATOMIC_RELAXED);
}

void fake_cuda_break(int code)
{
	__atomic_store_n(&broken, code, __ATOMIC_RELAXED);
}

void fake_initialised(void)
{
	__atomic_store_n(&initialised_by, getpid(), __ATOMIC_RELAXED);
}

/* A child of fork() has the tables and none of the threads, like a child of a real CUDA process. */
int fake_is_initialised(void)
{
	return __atomic_load_n(&initialised_by, __ATOMIC_RELAXED) == getpid();
}

/* ---- knobs ----------------------------------------------------------------------------------- */

static enum fake_call find(const char *name, size_t bytes)
{
	for (int i = 0; i < FAKE_CALLS; i++)
		if (strlen(calls[i].name) == bytes && !memcmp(calls[i].name, name, bytes))
			return (enum fake_call)i;
	fake_fault("no call named %.*s", (int)bytes, name);
}

void fake_cuda_fail(const char *call, int nth, int code)
{
	struct counted *c = &counted[find(call, strlen(call))];

	pthread_mutex_lock(&counting);
	c->fail_at = c->count + nth;
	c->code = code;
	pthread_mutex_unlock(&counting);
}

void fake_cuda_hold(const char *call, int hold)
{
	struct counted *c = &counted[find(call, strlen(call))];

	pthread_mutex_lock(&counting);
	c->held = hold;
	pthread_cond_broadcast(&let_go);
	pthread_mutex_unlock(&counting);
}

int fake_cuda_count(const char *call)
{
	enum fake_call c = find(call, strlen(call));
	int count;

	pthread_mutex_lock(&counting);
	count = counted[c].count;
	pthread_mutex_unlock(&counting);
	return count;
}

const char *fake_cuda_call_name(int n)
{
	return n >= 0 && n < FAKE_CALLS ? calls[n].name : NULL;
}

static void set_number(const char *key, const char *value)
{
	static const struct {
		const char *key;
		size_t at;
	} numbers[] = {
		{ "gpus", offsetof(struct fake_knobs, gpus) },
		{ "peer", offsetof(struct fake_knobs, peer) },
		{ "fabric", offsetof(struct fake_knobs, fabric) },
		{ "atomics", offsetof(struct fake_knobs, atomics) },
		{ "imex", offsetof(struct fake_knobs, imex) },
		{ "cluster", offsetof(struct fake_knobs, cluster) },
		{ "clique", offsetof(struct fake_knobs, clique) },
		{ "mps", offsetof(struct fake_knobs, mps) },
		{ "fd", offsetof(struct fake_knobs, fd) },
		{ "dmabuf", offsetof(struct fake_knobs, dmabuf) },
		{ "order", offsetof(struct fake_knobs, order) },
		{ "c2c", offsetof(struct fake_knobs, c2c) },
		{ "vmm", offsetof(struct fake_knobs, vmm) },
		{ "sms", offsetof(struct fake_knobs, sms) },
		{ "threads", offsetof(struct fake_knobs, threads) },
		{ "local", offsetof(struct fake_knobs, local) },
		{ "guard", offsetof(struct fake_knobs, guard) },
		{ "leaks", offsetof(struct fake_knobs, leaks) },
		{ "room", offsetof(struct fake_knobs, room) },
		{ "late", offsetof(struct fake_knobs, late) },
		{ "reuse", offsetof(struct fake_knobs, reuse) },
	};
	int n = atoi(value);

	if (!strcmp(key, "mem"))
		fake_knobs.mem_bytes = (size_t)n << 20;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(key, numbers[i].key)) {
			memcpy((char *)&fake_knobs + numbers[i].at, &n, sizeof(n));
			return;
		}
	if (strcmp(key, "mem") != 0)
		fake_fault("no knob named %s", key);
}

/* value is CALL:N or CALL:N:CODE */
static void set_call(const char *key, const char *value)
{
	const char *colon = strchr(value, ':'), *second;
	struct counted *c;

	if (!colon)
		fake_fault("%s wants CALL:NUMBER, not %s", key, value);
	c = &counted[find(value, (size_t)(colon - value))];
	if (!strcmp(key, "slow")) {
		c->slow_us = (unsigned int)atoi(colon + 1);
		return;
	}
	second = strchr(colon + 1, ':');
	c->fail_at = c->count + atoi(colon + 1);
	c->code = second ? atoi(second + 1) : FAKE_UNKNOWN;
}

static void set_all(const char *text)
{
	char *copy = strdup(text ? text : ""), *rest = NULL;

	for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		char *value = strchr(word, '=');

		if (!value)
			fake_fault("a knob is NAME=VALUE, not %s", word);
		*value++ = '\0';
		if (!strcmp(word, "fail") || !strcmp(word, "slow"))
			set_call(word, value);
		else
			set_number(word, value);
	}
	free(copy);
}

void fake_cuda_knobs(const char *text)
{
	static const struct fake_knobs defaults = {
		.gpus = 1,
		.sms = FAKE_SMS,
		.peer = 1,
		.atomics = 1,
		.imex = 1,
		.mps = 1,
		.fd = 1,
		.dmabuf = 1,
		.order = 1,
		.vmm = 1,
		.threads = 32,
		.guard = 1,
		.room = 1,
		.mem_bytes = (size_t)16384 << 20,
	};

	pthread_mutex_lock(&counting);
	memset(counted, 0, sizeof(counted));
	pthread_cond_broadcast(&let_go);
	fake_knobs = defaults;
	set_all(always);
	set_all(text);
	if (fake_knobs.gpus < 0 || fake_knobs.gpus > FAKE_GPUS_MAX)
		fake_fault("at most %d GPUs", FAKE_GPUS_MAX);
	pthread_mutex_unlock(&counting);
}

/* ---- begin and end of the program ------------------------------------------------------------ */

/* The library would take these for misspelt variables of its own. */
__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("ORIEL_FAKE_CUDA_ALWAYS");

	always = text ? strdup(text) : NULL;
	unsetenv("ORIEL_FAKE_CUDA_ALWAYS");
	fake_cuda_knobs(getenv("ORIEL_FAKE_CUDA"));
	unsetenv("ORIEL_FAKE_CUDA");
	setenv("ORIEL_CUDA_LIBRARY", "self", 0);
}

int fake_cuda_live(char *text, size_t bytes)
{
	int (*const parts[])(char *, size_t) = { fake_contexts_live, fake_memory_live,
						 fake_pins_live,     fake_streams_live,
						 fake_kernels_live,  fake_graphs_live,
						 fake_events_live };
	int live = 0;

	text[0] = '\0';
	pthread_mutex_lock(&fake_lock);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		live += parts[i](text + strlen(text), bytes - strlen(text));
	pthread_mutex_unlock(&fake_lock);
	return live;
}

__attribute__((destructor)) static void end(void)
{
	char text[256];

	if (!fake_knobs.leaks || !fake_is_initialised() || !fake_cuda_live(text, sizeof(text)))
		return;
	fprintf(stderr, "fake_cuda: left at the end of the program:%s\n", text);
	fflush(NULL);
	_exit(1);
}
